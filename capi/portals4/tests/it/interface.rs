//! The C functions, on the NIC inside the process. Each test has event queues and portal table
//! entries of its own; network interfaces are shared, as in a program of several components.
// Every one is a call of the C API with places that are there.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use narrows_portals::{md, me, pt};
use portals::abi::{self, CtEvent, FullEvent, Handle, ListEntry, MatchListEntry, MemoryDescriptor, NiLimits, Process};
use portals::{data::*, events::*, interfaces::*, lists::*, loopback, triggered};

const PUT: u32 = 2;
const PUT_OVERFLOW: u32 = 3;
const REPLY: u32 = 8;
const SEND: u32 = 9;
const ACK: u32 = 10;
const AUTO_UNLINK: u32 = 12;
const AUTO_FREE: u32 = 13;
const SEARCH: u32 = 14;
const LINK: u32 = 15;

fn open(options: u32) -> Handle {
    loopback::install(loopback::DEFAULT_LIMITS);
    let mut ni = 0;
    unsafe {
        assert_eq!(PtlInit(), abi::OK);
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), null_mut(), &mut ni), abi::OK);
    }
    ni
}

fn matching() -> Handle {
    open(abi::NI_MATCHING | abi::NI_PHYSICAL)
}

fn queue(ni: Handle) -> Handle {
    let mut eq = 0;
    assert_eq!(unsafe { PtlEQAlloc(ni, 128, &mut eq) }, abi::OK);
    eq
}

fn table(ni: Handle, options: u32, eq: Handle) -> u32 {
    let mut index = 0;
    assert_eq!(unsafe { PtlPTAlloc(ni, options, eq, abi::PT_ANY, &mut index) }, abi::OK);
    index
}

/// A table entry that drops nothing: only the libfabric provider has those, and says who it is.
fn retrying(ni: Handle, eq: Handle) -> u32 {
    let mut settings = abi::PrivateSettings::default();
    assert_eq!(unsafe { portals::private::narrows_get_settings(&mut settings) }, abi::OK);
    table(ni, pt::RETRY, eq)
}

fn counter(ni: Handle) -> Handle {
    let mut ct = 0;
    assert_eq!(unsafe { PtlCTAlloc(ni, &mut ct) }, abi::OK);
    ct
}

fn bind(ni: Handle, memory: &mut [u8], options: u32, eq: Handle, ct: Handle) -> Handle {
    let md = MemoryDescriptor { start: memory.as_mut_ptr().cast(), length: memory.len() as u64, options, eq_handle: eq, ct_handle: ct };
    let mut handle = 0;
    assert_eq!(unsafe { PtlMDBind(ni, &md, &mut handle) }, abi::OK);
    handle
}

fn entry(memory: &mut [u8], options: u32, match_bits: u64, ignore_bits: u64) -> MatchListEntry {
    MatchListEntry {
        start: memory.as_mut_ptr().cast(),
        length: memory.len() as u64,
        ct_handle: 0,
        uid: abi::UID_ANY,
        options,
        match_id: Process::physical(0, 0),
        match_bits,
        ignore_bits,
        min_free: 0,
    }
}

fn append(ni: Handle, pt: u32, me: &MatchListEntry, list: u32, user: usize) -> Handle {
    let mut handle = 0;
    assert_eq!(unsafe { PtlMEAppend(ni, pt, me, list, user as *mut c_void, &mut handle) }, abi::OK);
    handle
}

fn own(ni: Handle) -> Process {
    let mut id = Process::logical(0);
    assert_eq!(unsafe { PtlGetPhysId(ni, &mut id) }, abi::OK);
    id
}

fn put(ni: Handle, md: Handle, length: u64, ack: u32, pt: u32, bits: u64, hdr_data: u64) -> c_int {
    unsafe { PtlPut(md, 0, length, ack, own(ni), pt, bits, 0, 7 as *mut c_void, hdr_data) }
}

fn next(eq: Handle) -> Option<FullEvent> {
    let mut event = MaybeUninit::<FullEvent>::uninit();
    match unsafe { PtlEQGet(eq, event.as_mut_ptr()) } {
        abi::OK => Some(unsafe { event.assume_init() }),
        code => {
            assert_eq!(code, abi::EQ_EMPTY);
            None
        }
    }
}

fn kinds(eq: Handle) -> Vec<u32> {
    std::iter::from_fn(|| next(eq)).map(|event| event.kind).collect()
}

#[test]
fn a_put_finds_its_entry_and_is_acknowledged() {
    let ni = matching();
    let (target, initiator) = (queue(ni), queue(ni));
    let pt = table(ni, 0, target);
    let mut inbox = [0u8; 64];
    let mut outbox = *b"forty-two bytes of text, sent to ourselves";
    append(ni, pt, &entry(&mut inbox, me::OP_PUT | me::USE_ONCE, 0xab0, 0xf), abi::PRIORITY_LIST, 99);
    let md = bind(ni, &mut outbox, 0, initiator, 0);
    assert_eq!(put(ni, md, 42, abi::ACK_REQ, pt, 0xab7, 1234), abi::OK);
    assert_eq!(&inbox[..42], &outbox[..]);

    assert_eq!(next(target).unwrap().kind, LINK);
    let arrived = next(target).unwrap();
    assert_eq!((arrived.kind, arrived.user_ptr as usize, arrived.hdr_data), (PUT, 99, 1234));
    assert_eq!((arrived.match_bits, arrived.rlength, arrived.mlength, arrived.pt_index), (0xab7, 42, 42, pt));
    assert_eq!(unsafe { arrived.initiator.phys }, unsafe { own(ni).phys });
    assert_eq!(next(target).unwrap().kind, AUTO_UNLINK);
    assert!(next(target).is_none());

    assert_eq!(next(initiator).unwrap().kind, SEND);
    let ack = next(initiator).unwrap();
    assert_eq!((ack.kind, ack.mlength, ack.user_ptr as usize, ack.ptl_list), (ACK, 42, 7, abi::PRIORITY_LIST));
    assert!(next(initiator).is_none());

    // The entry is gone: the next put is dropped, and the ACK says so.
    assert_eq!(put(ni, md, 42, abi::ACK_REQ, pt, 0xab7, 0), abi::OK);
    assert_eq!(next(initiator).unwrap().kind, SEND);
    assert_eq!(next(initiator).unwrap().ni_fail_type, 2, "PTL_NI_DROPPED");
}

#[test]
fn an_early_message_waits_in_the_overflow_list() {
    let ni = matching();
    let eq = queue(ni);
    let pt = table(ni, 0, eq);
    let mut block = vec![0u8; 256];
    let mut overflow = entry(&mut block, me::OP_PUT | me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE | me::EVENT_LINK_DISABLE, 0, u64::MAX);
    overflow.min_free = 200;
    append(ni, pt, &overflow, abi::OVERFLOW_LIST, 5);
    let mut outbox = [3u8; 100];
    let md = bind(ni, &mut outbox, 0, 0, 0);
    assert_eq!(put(ni, md, 100, abi::NO_ACK_REQ, pt, 17, 44), abi::OK);
    assert_eq!(kinds(eq), [AUTO_UNLINK], "156 bytes are left, less than min_free");

    let mut inbox = [0u8; 40];
    let wanted = entry(&mut inbox, me::OP_PUT | me::USE_ONCE, 17, 0);
    unsafe {
        assert_eq!(PtlMESearch(ni, pt, &wanted, abi::SEARCH_ONLY, 8 as *mut c_void), abi::OK);
        let other = entry(&mut [], me::OP_PUT | me::USE_ONCE, 18, 0);
        assert_eq!(PtlMESearch(ni, pt, &other, abi::SEARCH_DELETE, 9 as *mut c_void), abi::OK);
    }
    let found = next(eq).unwrap();
    assert_eq!((found.kind, found.ni_fail_type, found.rlength, found.user_ptr as usize), (SEARCH, 0, 100, 8));
    let missed = next(eq).unwrap();
    assert_eq!((missed.kind, missed.ni_fail_type, missed.user_ptr as usize), (SEARCH, 7, 9));

    let handle = append(ni, pt, &wanted, abi::PRIORITY_LIST, 6);
    let taken = next(eq).unwrap();
    assert_eq!((taken.kind, taken.user_ptr as usize, taken.hdr_data, taken.rlength), (PUT_OVERFLOW, 6, 44, 100));
    assert_eq!(taken.start, block.as_mut_ptr().cast());
    assert_eq!(kinds(eq), [AUTO_FREE, AUTO_UNLINK], "the entry was never linked, and the block is free");
    assert_eq!(PtlMEUnlink(handle), abi::ARG_INVALID, "it is not in a list");
}

#[test]
fn unlinking_answers() {
    let ni = matching();
    let eq = queue(ni);
    let pt = table(ni, 0, eq);
    let mut memory = [0u8; 8];
    let options = me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_COMM_DISABLE;
    let listed = append(ni, pt, &entry(&mut memory, options, 1, 0), abi::PRIORITY_LIST, 0);
    assert_eq!(PtlMEUnlink(listed), abi::OK);
    assert_eq!(PtlMEUnlink(listed), abi::ARG_INVALID);
    let used = append(ni, pt, &entry(&mut memory, options, 1, 0), abi::OVERFLOW_LIST, 0);
    let mut outbox = [1u8; 8];
    let md = bind(ni, &mut outbox, 0, 0, 0);
    assert_eq!(put(ni, md, 8, abi::NO_ACK_REQ, pt, 1, 0), abi::OK);
    assert_eq!(PtlMEUnlink(used), abi::IN_USE, "an unexpected header points to it");
}

#[test]
fn a_get_fetches() {
    let ni = matching();
    let (target, initiator) = (queue(ni), queue(ni));
    let pt = table(ni, 0, target);
    let mut source = *b"0123456789";
    append(ni, pt, &entry(&mut source, me::OP_GET | me::EVENT_LINK_DISABLE, 0, 0), abi::PRIORITY_LIST, 1);
    let mut sink = [b'.'; 10];
    let ct = counter(ni);
    let md = bind(ni, &mut sink, md::EVENT_CT_REPLY | md::EVENT_CT_BYTES, initiator, ct);
    assert_eq!(unsafe { PtlGet(md, 2, 3, own(ni), pt, 0, 4, 11 as *mut c_void) }, abi::OK);
    assert_eq!(&sink, b"..456.....");
    let reply = next(initiator).unwrap();
    assert_eq!((reply.kind, reply.mlength, reply.user_ptr as usize), (REPLY, 3, 11));
    let mut count = CtEvent::default();
    assert_eq!(unsafe { PtlCTWait(ct, 3, &mut count) }, abi::OK);
    assert_eq!(count, CtEvent { success: 3, failure: 0 });
}

#[test]
fn a_retry_table_never_drops_and_keeps_the_order() {
    let ni = matching();
    let eq = queue(ni);
    let pt = retrying(ni, eq);
    let mut outbox = [0u8; 4];
    let md = bind(ni, &mut outbox, 0, 0, 0);
    for hdr_data in 0..3 {
        assert_eq!(put(ni, md, 4, abi::NO_ACK_REQ, pt, hdr_data, hdr_data), abi::OK);
    }
    assert!(next(eq).is_none());
    let mut memory = [0u8; 4];
    let options = me::OP_PUT | me::USE_ONCE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
    // An entry for the second message alone: the first still holds it back.
    append(ni, pt, &entry(&mut memory, options, 1, 0), abi::PRIORITY_LIST, 0);
    assert!(next(eq).is_none());
    append(ni, pt, &entry(&mut memory, options, 0, 0), abi::PRIORITY_LIST, 0);
    let order: Vec<u64> = std::iter::from_fn(|| next(eq)).map(|event| event.hdr_data).collect();
    assert_eq!(order, [0, 1]);
}

#[test]
fn counters_count_what_they_are_told() {
    let ni = matching();
    let eq = queue(ni);
    let pt = table(ni, 0, eq);
    let (arrivals, sends) = (counter(ni), counter(ni));
    let mut memory = [0u8; 16];
    let mut me = entry(&mut memory, me::OP_PUT | me::EVENT_CT_COMM | me::EVENT_COMM_DISABLE | me::EVENT_LINK_DISABLE, 0, 0);
    me.ct_handle = arrivals;
    append(ni, pt, &me, abi::PRIORITY_LIST, 0);
    let mut outbox = [0u8; 16];
    let md = bind(ni, &mut outbox, md::EVENT_CT_SEND | md::EVENT_CT_ACK, 0, sends);
    assert_eq!(put(ni, md, 16, abi::CT_ACK_REQ, pt, 0, 0), abi::OK);
    assert_eq!(put(ni, md, 16, abi::ACK_REQ, pt, 0, 0), abi::ARG_INVALID, "a full ACK needs an event queue");
    let mut count = CtEvent::default();
    let mut which = 9;
    unsafe {
        assert_eq!(PtlCTPoll([arrivals, sends].as_ptr(), [5, 2].as_ptr(), 2, 0, &mut count, &mut which), abi::OK);
        assert_eq!((which, count.success), (1, 2), "one SEND, one ACK");
        assert_eq!(PtlCTPoll([arrivals].as_ptr(), [5].as_ptr(), 1, 0, &mut count, &mut which), abi::CT_NONE_REACHED);
        assert_eq!(PtlCTSet(arrivals, CtEvent { success: 4, failure: 0 }), abi::OK);
        assert_eq!(PtlCTInc(arrivals, CtEvent { success: 0, failure: 1 }), abi::OK);
        assert_eq!(PtlCTInc(arrivals, CtEvent { success: 1, failure: 1 }), abi::ARG_INVALID);
        assert_eq!(PtlCTGet(arrivals, &mut count), abi::OK);
        assert_eq!(count, CtEvent { success: 4, failure: 1 });
        assert_eq!(PtlCTFree(arrivals), abi::OK);
        assert_eq!(PtlCTGet(arrivals, &mut count), abi::ARG_INVALID, "the handle is dead");
    }
}

#[test]
fn network_interfaces_are_counted_and_negotiated() {
    loopback::install(loopback::DEFAULT_LIMITS);
    let options = abi::NI_MATCHING | abi::NI_PHYSICAL;
    let first = matching();
    let (mut second, mut of) = (0, 0);
    let mut actual = MaybeUninit::<NiLimits>::uninit();
    unsafe {
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), actual.as_mut_ptr(), &mut second), abi::OK);
        assert_eq!(PtlHandleIsEqual(first, second), 1);
        assert_eq!(actual.assume_init().max_msg_size, loopback::DEFAULT_LIMITS.max_portals_message);
        assert_eq!(PtlNIInit(0, options, 77, null(), null_mut(), &mut second), abi::PID_IN_USE);
        assert_eq!(PtlNIInit(0, abi::NI_MATCHING, 0, null(), null_mut(), &mut second), abi::ARG_INVALID);
        let eq = queue(first);
        assert_eq!(PtlNIHandle(eq, &mut of), abi::OK);
        assert_eq!(of, first);
        assert_eq!(PtlNIHandle(abi::HANDLE_NONE, &mut of), abi::ARG_INVALID);
        assert_eq!(PtlEQFree(eq), abi::OK);
        assert_eq!(PtlNIHandle(eq, &mut of), abi::ARG_INVALID);
    }
}

#[test]
fn tables_are_exclusive() {
    let ni = matching();
    let mut index = 0;
    unsafe {
        assert_eq!(PtlPTAlloc(ni, 0, 0, 200, &mut index), abi::OK);
        assert_eq!(index, 200);
        assert_eq!(PtlPTAlloc(ni, 0, 0, 200, &mut index), abi::PT_IN_USE);
        assert_eq!(PtlPTAlloc(ni, 0, 0, 256, &mut index), abi::ARG_INVALID);
        assert_eq!(PtlPTAlloc(ni, pt::FLOWCTRL, 0, abi::PT_ANY, &mut index), abi::PT_EQ_NEEDED);
        assert_eq!(PtlPTFree(ni, 200), abi::OK);
        assert_eq!(PtlPTFree(ni, 200), abi::ARG_INVALID);
    }
}

#[test]
fn a_disabled_table_refuses() {
    let ni = matching();
    let (target, initiator) = (queue(ni), queue(ni));
    let pt = table(ni, 0, target);
    let mut memory = [0u8; 4];
    append(ni, pt, &entry(&mut memory, me::OP_PUT | me::EVENT_LINK_DISABLE, 0, 0), abi::PRIORITY_LIST, 0);
    let mut outbox = [0u8; 4];
    let md = bind(ni, &mut outbox, md::EVENT_SEND_DISABLE, initiator, 0);
    assert_eq!(PtlPTDisable(ni, pt), abi::OK);
    assert_eq!(put(ni, md, 4, abi::ACK_REQ, pt, 0, 0), abi::OK);
    assert_eq!(next(initiator).unwrap().ni_fail_type, 3, "PTL_NI_PT_DISABLED");
    assert_eq!(PtlPTEnable(ni, pt), abi::OK);
    assert_eq!(put(ni, md, 4, abi::ACK_REQ, pt, 0, 0), abi::OK);
    assert_eq!(next(initiator).unwrap().ni_fail_type, 0);
    assert_eq!(kinds(target), [PUT]);
}

#[test]
fn ranks_and_list_entries_of_a_logical_interface_without_matching() {
    let ni = open(abi::NI_NO_MATCHING | abi::NI_LOGICAL);
    let (eq, ct) = (queue(ni), counter(ni));
    let physical = unsafe { own(ni).phys };
    let mut id = Process::logical(0);
    let mut memory = [0u8; 8];
    unsafe {
        assert_eq!(PtlGetId(ni, &mut id), abi::ARG_INVALID, "no map yet");
        let strangers = [Process::physical(8, 8)];
        assert_eq!(PtlSetMap(ni, 1, strangers.as_ptr()), abi::ARG_INVALID, "we are not in it");
        let map = [Process::physical(8, 8), Process::physical(physical.nid, physical.pid)];
        assert_eq!(PtlSetMap(ni, 2, map.as_ptr()), abi::OK);
        assert_eq!(PtlSetMap(ni, 2, map.as_ptr()), abi::IGNORED);
        assert_eq!(PtlGetId(ni, &mut id), abi::OK);
        assert_eq!(id.rank, 1);
        let mut size = 0;
        let mut copy = [Process::physical(0, 0); 1];
        assert_eq!(PtlGetMap(ni, 1, copy.as_mut_ptr(), &mut size), abi::OK);
        assert_eq!((size, copy[0].phys.nid), (2, 8));

        let pt = table(ni, 0, eq);
        let le = ListEntry {
            start: memory.as_mut_ptr().cast(),
            length: 8,
            ct_handle: ct,
            uid: abi::UID_ANY,
            options: me::OP_PUT | me::EVENT_CT_COMM,
        };
        let mut handle = 0;
        assert_eq!(PtlLEAppend(ni, pt, &le, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::OK);
        let me = entry(&mut [], me::OP_PUT, 0, 0);
        assert_eq!(PtlMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::ARG_INVALID);
        let mut outbox = *b"rank one";
        let md = bind(ni, &mut outbox, 0, 0, 0);
        // Match bits do not matter here.
        assert_eq!(PtlPut(md, 0, 8, abi::NO_ACK_REQ, Process::logical(1), pt, 0xdead, 0, null_mut(), 0), abi::OK);
        assert_eq!(PtlPut(md, 0, 8, abi::NO_ACK_REQ, Process::logical(2), pt, 0, 0, null_mut(), 0), abi::ARG_INVALID);
        assert_eq!(&memory, b"rank one");
        assert_eq!(next(eq).unwrap().kind, LINK);
        assert_eq!(next(eq).unwrap().initiator.rank, 1);
        let mut count = CtEvent::default();
        assert_eq!(PtlCTGet(ct, &mut count), abi::OK);
        assert_eq!(count.success, 1);
        assert_eq!(PtlLEUnlink(handle), abi::OK);
    }
}

#[test]
fn nothing_leaves_the_descriptor() {
    let ni = matching();
    let mut memory = [0u8; 8];
    let md = bind(ni, &mut memory, 0, 0, 0);
    unsafe {
        let here = own(ni);
        assert_eq!(PtlPut(md, 4, 5, abi::NO_ACK_REQ, here, 0, 0, 0, null_mut(), 0), abi::ARG_INVALID);
        assert_eq!(PtlPut(md, u64::MAX, 2, abi::NO_ACK_REQ, here, 0, 0, 0, null_mut(), 0), abi::ARG_INVALID);
        assert_eq!(PtlGet(md, 9, 0, here, 0, 0, 0, null_mut()), abi::ARG_INVALID);
        assert_eq!(PtlMDRelease(md), abi::OK);
        assert_eq!(PtlPut(md, 0, 1, abi::NO_ACK_REQ, here, 0, 0, 0, null_mut(), 0), abi::ARG_INVALID);
    }
}

#[test]
fn volatile_data_may_change_after_the_call() {
    let ni = matching();
    let eq = queue(ni);
    let pt = retrying(ni, eq);
    let mut outbox = [1u8; 192];
    let md = bind(ni, &mut outbox, md::VOLATILE, 0, 0);
    assert_eq!(put(ni, md, 192, abi::NO_ACK_REQ, pt, 0, 0), abi::OK);
    outbox.fill(2);
    let mut inbox = [0u8; 192];
    append(ni, pt, &entry(&mut inbox, me::OP_PUT, 0, 0), abi::PRIORITY_LIST, 0);
    assert_eq!(inbox, [1; 192]);
}

#[test]
fn a_poll_of_several_queues_says_which() {
    let ni = matching();
    let (first, second) = (queue(ni), queue(ni));
    let pt = table(ni, 0, second);
    append(ni, pt, &entry(&mut [], me::OP_PUT, 0, 0), abi::PRIORITY_LIST, 3);
    let mut event = MaybeUninit::<FullEvent>::uninit();
    let mut which = 9;
    unsafe {
        assert_eq!(PtlEQPoll([first, second].as_ptr(), 2, 0, event.as_mut_ptr(), &mut which), abi::OK);
        assert_eq!((which, event.assume_init().kind), (1, LINK));
        assert_eq!(PtlEQPoll([first, second].as_ptr(), 2, 0, event.as_mut_ptr(), &mut which), abi::EQ_EMPTY);
        assert_eq!(PtlEQPoll([first, 0].as_ptr(), 2, 0, event.as_mut_ptr(), &mut which), abi::ARG_INVALID);
    }
}

#[test]
fn smaller_limits_hold_and_every_exhaustion_says_which() {
    loopback::install(loopback::DEFAULT_LIMITS);
    let options = abi::NI_NO_MATCHING | abi::NI_PHYSICAL;
    let (mut ni, mut actual) = (0, MaybeUninit::<NiLimits>::uninit());
    let offered = unsafe {
        assert_eq!(PtlInit(), abi::OK);
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), actual.as_mut_ptr(), &mut ni), abi::OK);
        assert_eq!(PtlNIFini(ni), abi::OK);
        actual.assume_init()
    };
    let desired = NiLimits {
        max_entries: 5,
        max_list_size: 3,
        max_unexpected_headers: 2,
        max_eqs: 2,
        max_cts: 1,
        max_mds: 1,
        max_waw_ordered_size: u64::MAX,
        features: u32::MAX,
        ..offered
    };
    let given = unsafe {
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, &desired, actual.as_mut_ptr(), &mut ni), abi::OK);
        actual.assume_init()
    };
    assert_eq!([given.max_entries, given.max_list_size, given.max_unexpected_headers], [5, 3, 2]);
    // Neither promised nor claimed: PTL_TOTAL_DATA_ORDERING, order of data.
    assert_eq!((given.max_waw_ordered_size, given.features), (0, abi::TARGET_BIND_INACCESSIBLE | abi::COHERENT_ATOMICS));

    let (eq, initiator) = (queue(ni), queue(ni));
    let mut handle = 0;
    let ct = counter(ni);
    unsafe {
        assert_eq!(PtlEQAlloc(ni, 8, &mut handle), abi::NO_SPACE);
        assert_eq!(PtlCTAlloc(ni, &mut handle), abi::NO_SPACE);
    }
    let pt = table(ni, 0, eq);
    let mut memory = [0u8; 8];
    let md = bind(ni, &mut memory, md::EVENT_SEND_DISABLE, initiator, 0);
    let second = MemoryDescriptor { start: null_mut(), length: 0, options: 0, eq_handle: 0, ct_handle: 0 };
    assert_eq!(unsafe { PtlMDBind(ni, &second, &mut handle) }, abi::NO_SPACE);

    // Lists: a use-once entry that has caught a message is in no list any more, and an entry until its header is taken.
    let le = |options: u32| ListEntry { start: null_mut(), length: 0, ct_handle: ct, uid: abi::UID_ANY, options };
    let quiet = me::OP_PUT | me::EVENT_LINK_DISABLE;
    let mut append = |list: u32, options: u32| unsafe { PtlLEAppend(ni, pt, &le(options), list, null_mut(), &mut handle) };
    for _ in 0..3 {
        assert_eq!(append(abi::OVERFLOW_LIST, quiet | me::USE_ONCE), abi::OK);
    }
    assert_eq!(append(abi::OVERFLOW_LIST, quiet), abi::LIST_TOO_LONG);
    let send = |data: u64| {
        assert_eq!(unsafe { PtlPut(md, 0, 0, abi::ACK_REQ, own(ni), pt, 0, 0, null_mut(), data) }, abi::OK);
        next(initiator).unwrap().ni_fail_type
    };
    assert_eq!([send(1), send(2), send(3)], [0, 0, 2], "no third header: PTL_NI_DROPPED");
    assert_eq!(append(abi::OVERFLOW_LIST, quiet), abi::OK);
    assert_eq!(append(abi::OVERFLOW_LIST, quiet), abi::OK, "three in the list");
    assert_eq!(append(abi::OVERFLOW_LIST, quiet), abi::LIST_TOO_LONG);
    assert_eq!(append(abi::PRIORITY_LIST, quiet | me::USE_ONCE), abi::NO_SPACE, "five entries: three linked, two with headers");
    unsafe {
        assert_eq!(PtlLESearch(ni, pt, &le(me::USE_ONCE), abi::SEARCH_DELETE, null_mut()), abi::OK);
    }
    assert_eq!(append(abi::PRIORITY_LIST, quiet | me::USE_ONCE), abi::OK, "takes the other header, and is never linked");
    assert_eq!(append(abi::PRIORITY_LIST, quiet), abi::OK);
    assert_eq!(append(abi::PRIORITY_LIST, quiet), abi::OK);
    assert_eq!(append(abi::PRIORITY_LIST, quiet), abi::NO_SPACE);

    // All of it is there again for the next one that opens the interface.
    unsafe {
        assert_eq!(PtlNIFini(ni), abi::OK);
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), actual.as_mut_ptr(), &mut ni), abi::OK);
        assert_eq!(actual.assume_init().max_list_size, offered.max_list_size);
    }
    let pt = table(ni, 0, 0);
    let le = ListEntry { ct_handle: 0, ..le(quiet) };
    for _ in 0..10 {
        assert_eq!(unsafe { PtlLEAppend(ni, pt, &le, abi::PRIORITY_LIST, null_mut(), &mut handle) }, abi::OK);
    }
}

/// A network interface without matching of another test is the same one: this test has the logical one to itself.
#[test]
fn a_limit_of_zero_is_no_wish_where_none_makes_no_sense() {
    loopback::install(loopback::DEFAULT_LIMITS);
    let options = abi::NI_MATCHING | abi::NI_LOGICAL;
    let (mut ni, mut actual) = (0, MaybeUninit::<NiLimits>::uninit());
    let desired = NiLimits {
        max_entries: 15,
        max_mds: 10,
        max_cts: 10,
        max_eqs: 10,
        max_iovecs: 4,
        max_list_size: 10,
        max_atomic_size: 16,
        ..unsafe { std::mem::zeroed() }
    };
    let (given, offered) = unsafe {
        assert_eq!(PtlInit(), abi::OK);
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, &desired, actual.as_mut_ptr(), &mut ni), abi::OK);
        let given = actual.assume_init();
        assert_eq!(PtlNIFini(ni), abi::OK);
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), actual.as_mut_ptr(), &mut ni), abi::OK);
        (given, actual.assume_init())
    };
    // Sizes, table entries and triggered operations; a program may do without unexpected headers.
    assert_eq!(
        given,
        NiLimits {
            max_unexpected_headers: 0,
            features: 0,
            max_atomic_size: 16,
            // Those that fetch are atomics too.
            max_fetch_atomic_size: 16,
            ..NiLimits { max_entries: 15, max_mds: 10, max_cts: 10, max_eqs: 10, max_iovecs: 4, max_list_size: 10, ..offered }
        }
    );
    assert!(given.max_triggered_ops > 0 && given.max_fetch_atomic_size > 0 && given.max_volatile_size > 0);
}

#[test]
fn what_is_freed_while_it_is_in_use_hears_nothing_more() {
    let ni = matching();
    let (eq, ct) = (queue(ni), counter(ni));
    let target = queue(ni);
    let pt = table(ni, 0, target);
    let mut inbox = [0u8; 64];
    let mut outbox = [7u8; 16];
    let counting = MatchListEntry { ct_handle: ct, ..entry(&mut inbox, me::OP_PUT | me::EVENT_CT_COMM | me::EVENT_LINK_DISABLE, 1, 0) };
    append(ni, pt, &counting, abi::PRIORITY_LIST, 1);
    let md = bind(ni, &mut outbox, md::EVENT_CT_SEND | md::EVENT_CT_ACK, eq, ct);
    let later = counter(ni);
    assert_eq!(unsafe { triggered::PtlTriggeredPut(md, 0, 16, abi::ACK_REQ, own(ni), pt, 1, 0, null_mut(), 0, later, 1) }, abi::OK);

    assert_eq!((PtlEQFree(eq), PtlCTFree(ct)), (abi::OK, abi::OK));
    assert_eq!((PtlEQFree(eq), PtlCTFree(ct)), (abi::ARG_INVALID, abi::ARG_INVALID));
    // Others take their places, and must not hear of it.
    let (new_eq, new_ct) = (queue(ni), counter(ni));
    for _ in 0..2 {
        assert_eq!(put(ni, md, 16, abi::ACK_REQ, pt, 1, 0), abi::OK);
        assert_eq!(PtlCTInc(later, CtEvent { success: 1, failure: 0 }), abi::OK);
        assert_eq!(inbox[..16], outbox);
        inbox.fill(0);
        assert!(kinds(target).contains(&PUT), "the operation itself goes on");
    }
    let mut count = CtEvent { success: 9, failure: 9 };
    assert_eq!(unsafe { PtlCTGet(new_ct, &mut count) }, abi::OK);
    assert_eq!((kinds(new_eq), count), (vec![], CtEvent::default()));

    // The queue of a table entry.
    assert_eq!(PtlEQFree(target), abi::OK);
    let newer = queue(ni);
    assert_eq!(put(ni, md, 16, abi::NO_ACK_REQ, pt, 1, 0), abi::OK);
    assert_eq!((inbox[..16] == outbox, kinds(newer)), (true, vec![]));
}

#[test]
fn queues_and_counters_of_another_interface_are_refused() {
    let ni = matching();
    let other = open(abi::NI_NO_MATCHING | abi::NI_LOGICAL);
    let (eq, ct) = (queue(other), counter(other));
    let mut memory = [0u8; 8];
    let mut handle = 0;
    for (eq_handle, ct_handle) in [(eq, 0), (0, ct)] {
        let md = MemoryDescriptor { start: memory.as_mut_ptr().cast(), length: 8, options: 0, eq_handle, ct_handle };
        assert_eq!(unsafe { PtlMDBind(ni, &md, &mut handle) }, abi::ARG_INVALID);
        assert_eq!(unsafe { PtlMDBind(other, &md, &mut handle) }, abi::OK);
    }
    let mut index = 0;
    assert_eq!(unsafe { PtlPTAlloc(ni, 0, eq, abi::PT_ANY, &mut index) }, abi::ARG_INVALID);
    let pt = table(ni, 0, 0);
    let me = MatchListEntry { ct_handle: ct, ..entry(&mut memory, me::OP_PUT, 0, 0) };
    let mine = counter(ni);
    let value = CtEvent { success: 1, failure: 0 };
    unsafe {
        assert_eq!(PtlMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::ARG_INVALID);
        assert_eq!(PtlMESearch(ni, pt, &me, abi::SEARCH_ONLY, null_mut()), abi::ARG_INVALID);
        assert_eq!(triggered::PtlTriggeredMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle, mine, 1), abi::ARG_INVALID);
    }
    assert_eq!(triggered::PtlTriggeredCTInc(mine, value, ct, 1), abi::ARG_INVALID);
    let me = MatchListEntry { ct_handle: 0, ..me };
    let linked = append(ni, pt, &me, abi::PRIORITY_LIST, 0);
    assert_eq!(triggered::PtlTriggeredMEUnlink(linked, ct, 1), abi::ARG_INVALID);
    assert_eq!(PtlLEUnlink(linked), abi::ARG_INVALID, "a match list entry");
    assert_eq!(PtlMEUnlink(linked), abi::OK);
}

#[test]
fn options_of_our_own_are_not_for_programs() {
    loopback::install(loopback::DEFAULT_LIMITS);
    let ni = matching();
    let mut memory = [0u8; 8];
    let md = MemoryDescriptor { start: memory.as_mut_ptr().cast(), length: 8, options: md::MAY_FAULT, eq_handle: 0, ct_handle: 0 };
    let pt = table(ni, 0, 0);
    let mut handle = 0;
    unsafe {
        assert_eq!(PtlMDBind(ni, &md, &mut handle), abi::ARG_INVALID);
        // Nor regions that pass the end of the address space.
        let md = MemoryDescriptor { start: (usize::MAX - 7) as *mut c_void, length: 9, options: 0, ..md };
        assert_eq!(PtlMDBind(ni, &md, &mut handle), abi::ARG_INVALID);
        for options in [me::MAY_FAULT, me::SEARCH_WAITS] {
            let me = entry(&mut memory, options, 0, 0);
            assert_eq!(PtlMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::ARG_INVALID);
        }
    }
}
