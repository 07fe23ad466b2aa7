//! Random programs.

use narrows_portals::*;
use proptest::prelude::*;
use proptest::sample::select;

use super::{COUNTERS, PROCESSES};
use crate::common::{EQ, MEMORY, NO_CT, PT};

/// A command of a process. Identifiers of entries, tickets, `hdr_data`, `user_ptr` and inline bytes are filled in when
/// it is given.
#[derive(Clone, Debug)]
pub struct Step {
    pub process: u32,
    pub command: Command,
    /// Unlinks the n-th entry that the process appended so far.
    pub which: usize,
}

fn counter() -> impl Strategy<Value = CtId> {
    (0..COUNTERS).prop_map(CtId)
}

fn entry() -> impl Strategy<Value = MatchEntry> {
    let options = prop::collection::vec(
        select(vec![
            me::USE_ONCE,
            me::USE_ONCE,
            me::ACK_DISABLE,
            me::UNEXPECTED_HDR_DISABLE,
            me::EVENT_COMM_DISABLE,
            me::EVENT_FLOWCTRL_DISABLE,
            me::EVENT_SUCCESS_DISABLE,
            me::EVENT_OVER_DISABLE,
            me::EVENT_LINK_DISABLE,
            me::EVENT_UNLINK_DISABLE,
            me::EVENT_CT_COMM,
            me::EVENT_CT_COMM,
            me::EVENT_CT_OVERFLOW,
            me::EVENT_CT_BYTES,
            me::MANAGE_LOCAL,
            me::MANAGE_LOCAL,
            me::NO_TRUNCATE,
            me::MANAGE_LOCAL | me::LOCAL_INC_UH_RLENGTH,
            me::MAY_FAULT,
        ]),
        0..4,
    );
    let both = me::OP_PUT | me::OP_GET;
    (
        0u64..8,
        select(vec![0u64, 16, 64, 200, 1000]),
        options,
        select(vec![me::OP_PUT, me::OP_GET, both, both, both]),
        (0u32..3, 0u32..4),
        (0u64..4, select(vec![0u64, 0, 1, 3, u64::MAX])),
        select(vec![0u64, 0, 10, 100]),
        (counter(), any::<bool>(), select(vec![UID_ANY, UID_ANY, UID_ANY, UID_ANY, 0, 1])),
    )
        .prop_map(|(place, length, options, operations, (nid, pid), (match_bits, ignore_bits), min_free, (ct, counts, uid))| {
            let options = options.iter().fold(operations, |all, option| all | option);
            MatchEntry {
                // What may fault does: it is behind all memory.
                start: if options & me::MAY_FAULT != 0 { MEMORY as u64 } else { 2048 + place * 512 },
                length,
                segments: 0,
                uid,
                ct: if counts { ct } else { NO_CT },
                options,
                match_id: ProcessId { nid, pid },
                match_bits,
                ignore_bits,
                min_free,
                user_ptr: 0,
            }
        })
}

fn local(places: Vec<u64>) -> impl Strategy<Value = LocalBuffer> {
    let options = prop::bits::u32::masked(0b111_1110);
    (select(places), options, counter(), 0..8u32).prop_map(|(address, options, ct, none)| LocalBuffer {
        address,
        options,
        eq: EQ,
        ct: if none == 0 { NO_CT } else { ct },
        user_ptr: 0xabc,
        ..LocalBuffer::default()
    })
}

fn source() -> impl Strategy<Value = LocalBuffer> {
    local(vec![0, 100, 300])
}

fn target(nodes: u32) -> impl Strategy<Value = RemoteTarget> {
    let process = (0..PROCESSES).prop_map(move |process| {
        let ppn = PROCESSES / nodes;
        ProcessId::on(NodeId(process / ppn), process % ppn + 1)
    });
    // Now and then a process or a table entry that is not there.
    let process = prop_oneof![20 => process, 1 => Just(ProcessId { nid: 9, pid: 1 })];
    let pt = prop_oneof![30 => Just(PT), 1 => Just(PT + 1)];
    (process, pt, 0u64..4, select(vec![0u64, 0, 0, 10, 5000])).prop_map(|(process, pt, match_bits, offset)| RemoteTarget {
        process,
        pt,
        match_bits,
        offset,
    })
}

fn length() -> impl Strategy<Value = u64> {
    select(vec![0u64, 1, 8, 30, 100, 500])
}

fn ack() -> impl Strategy<Value = AckRequest> {
    select(vec![AckRequest::None, AckRequest::Full, AckRequest::Counting, AckRequest::OperationCompleted])
}

fn atomic(nodes: u32) -> impl Strategy<Value = Command> {
    use Datatype::*;
    let operand = prop_oneof![2 => 0u64..4, 1 => any::<u64>()];
    (
        (source(), local(vec![900, 1000, 1200]), any::<bool>()),
        (0..18u32, select(vec![Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64]), operand),
        select(vec![0u64, 1, 2, 5, 30]),
        ack(),
        target(nodes),
    )
        .prop_map(|((local, destination, fetches), (operation, datatype, operand), items, ack, target)| {
            let operation = AtomicOperation::from_number(operation).expect("there are eighteen");
            let fetched = (fetches || operation.swaps()).then_some(destination);
            let items = if operation.has_operand() { 1 } else { items };
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&operand.to_le_bytes());
            let length = items * datatype.size();
            Command::Atomic(Box::new(Atomic {
                local,
                fetched,
                length,
                inline: None,
                ack,
                target,
                hdr_data: 0,
                operation,
                datatype,
                operand: bytes,
            }))
        })
}

/// What a counting event may release, too.
fn released(nodes: u32) -> impl Strategy<Value = Command> {
    let put = (source(), length(), ack(), target(nodes)).prop_map(|(local, length, ack, target)| Command::Put {
        local,
        length,
        inline: None,
        ack,
        target,
        hdr_data: 0,
    });
    let get = (source(), length(), target(nodes)).prop_map(|(local, length, target)| Command::Get { local, length, target });
    let amount = || prop_oneof![20 => 0u64..6, 1 => any::<u64>()];
    prop_oneof![
        6 => put,
        3 => get,
        5 => atomic(nodes),
        1 => (counter(), 0u64..9, 0u64..3).prop_map(|(ct, success, failure)| Command::CtSet { ct, success, failure }),
        2 => (counter(), amount(), any::<bool>()).prop_map(|(ct, amount, fails)| {
            let (success, failure) = if fails { (0, amount) } else { (amount, 0) };
            Command::CtIncrement { ct, success, failure }
        }),
        4 => (select(vec![List::Priority, List::Overflow]), entry())
            .prop_map(|(list, me)| Command::MeAppend { entry: EntryId(0), pt: PT, list, me }),
        1 => Just(Command::MeUnlink { entry: EntryId(0), ticket: NO_TICKET }),
    ]
}

fn command(nodes: u32, pt_options: u32) -> impl Strategy<Value = Command> {
    // Filled in: this one's bytes travel with it.
    let inline = released(nodes).prop_map(|mut command| {
        match &mut command {
            Command::Put { inline, .. } => *inline = Some(Box::default()),
            Command::Atomic(atomic) => atomic.inline = Some(Box::default()),
            _ => {}
        }
        command
    });
    // Messages that come again do so together: in which order they release something is a matter of time.
    let triggers = pt_options & pt::RETRY == 0;
    let triggered = (counter(), 0u64..8, released(nodes)).prop_map(move |(trigger, threshold, command)| match triggers {
        true => Command::Triggered { interface: 0, trigger, threshold, command: Box::new(command) },
        false => command,
    });
    let list = || select(vec![List::Priority, List::Overflow]);
    let operation = select(vec![SearchOperation::Only, SearchOperation::Delete]);
    let options = select(vec![pt_options, pt_options, pt_options | pt::ALLOC_DISABLED]);
    let registers = vec![
        Register::DropCount,
        Register::PermissionViolations,
        Register::OperationViolations,
        Register::Entries,
        Register::TriggeredOperations,
        Register::PriorityEntries,
        Register::OverflowEntries,
    ];
    // Flow control depends on how many events the process has taken.
    let takes = if pt_options & pt::FLOWCTRL != 0 { 4 } else { 1 };
    prop_oneof![
        12 => released(nodes),
        4 => inline,
        5 => triggered,
        4 => (list(), entry()).prop_map(|(list, me)| Command::MeAppend { entry: EntryId(0), pt: PT, list, me }),
        2 => Just(Command::MeUnlink { entry: EntryId(0), ticket: 1 }),
        2 => (operation, entry()).prop_map(|(operation, me)| Command::MeSearch { pt: PT, operation, me }),
        2 => Just(Command::PtEnable { pt: PT }),
        1 => any::<bool>().prop_map(|answer| Command::PtDisable { pt: PT, ticket: u32::from(answer) }),
        1 => (0u32..4).prop_map(|answer| Command::PtFree { pt: PT, ticket: u32::from(answer > 0) }),
        2 => options.prop_map(|options| Command::PtAlloc { pt: PT, options, eq: EQ }),
        1 => counter().prop_map(|ct| Command::CtFree { ct }),
        2 => counter().prop_map(|ct| Command::CtAlloc { ct }),
        1 => counter().prop_map(|ct| Command::CtCancel { ct }),
        1 => select(registers).prop_map(|register| {
            let of = if matches!(register, Register::PriorityEntries | Register::OverflowEntries) { PT } else { 0 };
            Command::Query { register, of, ticket: 1 }
        }),
        1 => (0u32..20, 0u32..6, 0u32..12).prop_map(|(entries, unexpected_headers, list_size)| Command::SetLimits {
            interface: 0,
            limits: Limits { entries, unexpected_headers, list_size },
        }),
        takes => (1u32..40).prop_map(|count| Command::EqRelease { eq: EQ, count }),
    ]
}

/// Commands of [`PROCESSES`] processes on `nodes` nodes, whose table entries have `pt_options`.
pub fn step(nodes: u32, pt_options: u32) -> impl Strategy<Value = Step> {
    (0..PROCESSES, command(nodes, pt_options), any::<usize>()).prop_map(|(process, command, which)| Step { process, command, which })
}
