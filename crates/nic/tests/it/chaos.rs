//! Whatever processes write, at whatever times: the NICs refuse it by name or work on it, they do
//! not panic, they end, and they leave nothing behind. The same input gives the same output.

use crate::common::*;
use narrows_keys::Keys;
use narrows_nic::{AnyConfig, ApenetxConfig, Call, CarvnetConfig, Completion, NicConfig};
use narrows_portals::*;
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;

/// Numbers near the edges, and small ones that meet each other.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..6, 2 => 0u64..100_000, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just((1 << 48) - 1)]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..4, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn pt_index() -> impl Strategy<Value = u32> {
    prop_oneof![12 => PT..PT + 2, 1 => any::<u32>(), 1 => Just(255u32)]
}

fn place() -> impl Strategy<Value = ProcessId> {
    prop_oneof![
        10 => (1u32..3, 1u32..3).prop_map(|(nid, pid)| ProcessId { nid, pid }),
        1 => (small(), small()).prop_map(|(nid, pid)| ProcessId { nid, pid }),
    ]
}

fn me_any() -> impl Strategy<Value = MatchEntry> {
    let options = prop_oneof![
        3 => any::<u32>().prop_map(|bits| bits & 0xf_ffff),
        3 => any::<u32>().prop_map(|bits| (bits & 0x1f_ffff) | me::OP_PUT | me::OP_GET),
        1 => any::<u32>(),
    ];
    (number(), number(), options, (place(), any::<bool>()), number(), number(), number(), small()).prop_map(
        |(start, length, options, (match_id, any_source), match_bits, ignore_bits, min_free, ct)| MatchEntry {
            start,
            length,
            segments: u32::from(options & me::IOVEC != 0),
            uid: if ct == 1 { 7 } else { UID_ANY },
            ct: if ct == 0 {
                CT
            } else if ct < 3 {
                NO_CT
            } else {
                CtId(ct)
            },
            options,
            match_id: if any_source { ProcessId::default() } else { match_id },
            match_bits,
            ignore_bits,
            min_free,
            user_ptr: 1,
        },
    )
}

fn buffer() -> impl Strategy<Value = LocalBuffer> {
    (number(), any::<u32>(), small(), small()).prop_map(|(address, options, eq, ct)| LocalBuffer {
        address,
        offset: 3,
        segments: u32::from(options & md::IOVEC != 0 && eq < 5),
        options,
        eq: if eq < 2 {
            EQ
        } else if eq == 2 {
            NO_EQ
        } else {
            EqId(eq)
        },
        ct: if ct < 2 {
            CT
        } else if ct == 2 {
            NO_CT
        } else {
            CtId(ct)
        },
        user_ptr: 2,
    })
}

fn command() -> impl Strategy<Value = Command> {
    let triggered = (small(), 0u64..6, simple_command()).prop_map(|(ct, threshold, command)| Command::Triggered {
        interface: ct % 2,
        trigger: CtId(ct),
        threshold,
        command: Box::new(command),
    });
    prop_oneof![4 => simple_command(), 1 => triggered]
}

fn simple_command() -> impl Strategy<Value = Command> {
    let list = || prop::sample::select(vec![List::Priority, List::Overflow]);
    let target = || {
        (place(), pt_index(), number(), number()).prop_map(|(process, pt, match_bits, offset)| RemoteTarget {
            process,
            pt,
            match_bits,
            offset,
        })
    };
    let ack = || prop::sample::select(vec![AckRequest::None, AckRequest::Full, AckRequest::Counting, AckRequest::OperationCompleted]);
    let inline = || {
        prop_oneof![
            3 => Just(None),
            1 => prop::collection::vec(any::<u8>(), 0..600).prop_map(|bytes| Some(bytes.into_boxed_slice())),
        ]
    };
    let pt_options = prop::sample::select(vec![0, pt::RETRY, pt::RETRY, pt::FLOWCTRL, pt::ALLOC_DISABLED, pt::FLOWCTRL | pt::RETRY]);
    prop_oneof![
        3 => (pt_index(), pt_options, small())
            .prop_map(|(pt, options, eq)| Command::PtAlloc { pt, options, eq: if eq < 3 { EQ } else { EqId(eq) } }),
        1 => pt_index().prop_map(|pt| Command::PtFree { pt, ticket: NO_TICKET }),
        1 => pt_index().prop_map(|pt| Command::PtEnable { pt }),
        1 => pt_index().prop_map(|pt| Command::PtDisable { pt, ticket: NO_TICKET }),
        1 => (small(), any::<u32>()).prop_map(|(eq, count)| Command::EqAlloc { eq: EqId(eq), count }),
        1 => small().prop_map(|eq| Command::EqFree { eq: EqId(eq) }),
        1 => small().prop_map(|ct| Command::CtAlloc { ct: CtId(ct) }),
        1 => small().prop_map(|ct| Command::CtFree { ct: CtId(ct) }),
        1 => (small(), number(), number()).prop_map(|(ct, success, failure)| Command::CtSet { ct: CtId(ct), success, failure }),
        1 => (small(), number(), number())
            .prop_map(|(ct, success, failure)| Command::CtIncrement { ct: CtId(ct), success, failure }),
        10 => (0u64..40, pt_index(), list(), me_any())
            .prop_map(|(entry, pt, list, me)| Command::MeAppend { entry: EntryId(entry), pt, list, me }),
        4 => (0u64..40, any::<u32>()).prop_map(|(entry, ticket)| Command::MeUnlink { entry: EntryId(entry), ticket }),
        4 => (pt_index(), any::<bool>(), me_any()).prop_map(|(pt, only, me)| Command::MeSearch {
            pt,
            operation: if only { SearchOperation::Only } else { SearchOperation::Delete },
            me,
        }),
        12 => (buffer(), number(), inline(), ack(), target(), any::<u64>()).prop_map(|(local, length, inline, ack, target, hdr_data)| {
            let length = inline.as_ref().map_or(length, |bytes| bytes.len() as u64);
            Command::Put { local, length, inline, ack, target, hdr_data }
        }),
        6 => (buffer(), number(), target()).prop_map(|(local, length, target)| Command::Get { local, length, target }),
        6 => (buffer(), prop::option::of(buffer()), 0u64..70, inline(), target(), 0usize..18, 0usize..14, ack())
            .prop_map(|(local, fetched, items, inline, target, operation, datatype, ack)| {
                let datatype = Datatype::ALL[datatype];
                let length = inline.as_ref().map_or(items * datatype.size(), |bytes| bytes.len() as u64);
                let operation = AtomicOperation::ALL[operation];
                let atomic = Atomic { local, fetched, length, inline, ack, target, hdr_data: 5, operation, datatype, operand: [0; 32] };
                Command::Atomic(Box::new(atomic))
            }),
        1 => (small(), small()).prop_map(|(eq, count)| Command::EqRelease { eq: EqId(eq), count }),
        1 => small().prop_map(|ct| Command::CtCancel { ct: CtId(ct) }),
        1 => (small(), small(), small(), small()).prop_map(|(interface, entries, unexpected_headers, list_size)| {
            Command::SetLimits { interface, limits: Limits { entries, unexpected_headers, list_size } }
        }),
        1 => (small(), any::<u32>()).prop_map(|(interface, ticket)| Command::Query { register: Register::Entries, of: interface, ticket }),
    ]
}

fn run(steps: &[(u32, u64, Command)], slow: bool, late: bool, kind: u8) -> (Vec<String>, Sim) {
    let config = NicConfig {
        limits: NiLimits { max_unexpected_headers: 3, max_entries: 20, max_triggered_ops: 4, ..NiLimits::BXI_V2 },
        max_outstanding: 3,
        ..config()
    };
    let config = match kind {
        0 => config.into(),
        1 => mailbox(config),
        2 => tcp(config, 1 << 38),
        3 => apenetx(config, ApenetxConfig { inline_limit: Bytes(8), ..Keys::defaults() }),
        4 => apenetx(config, ApenetxConfig { call: Call::User, completion: Completion::Direct, ..Keys::defaults() }),
        5 | 6 => {
            let contexts = if kind == 5 { 1 } else { 3 };
            let carvnet = CarvnetConfig {
                channels: contexts,
                source_contexts: contexts + 1,
                target_contexts: contexts,
                block: Bytes(1 << 38),
                ..Keys::defaults()
            };
            AnyConfig::Carvnet(config, carvnet)
        }
        _ => exanet(config, 1 << 38),
    };
    let mut sim = Sim::new(config, 2, 2);
    sim.world.wild = true;
    sim.world.late_source = late;
    sim.world.rate = narrows_units::ByteRate(if slow { 100_000_000 } else { u64::MAX });
    for process in 0..4 {
        sim.command(process, Command::EqAlloc { eq: EQ, count: 4 });
        sim.command(process, Command::CtAlloc { ct: CT });
        sim.command(process, Command::PtAlloc { pt: PT, options: if process % 2 == 0 { pt::RETRY } else { 0 }, eq: EQ });
        sim.command(process, Command::PtAlloc { pt: PT + 1, options: pt::FLOWCTRL, eq: EQ });
    }
    let mut refused = 0;
    for (process, pause, command) in steps {
        sim.run_until(sim.clock + SimTime::from_ns(*pause));
        refused += u32::from(sim.try_command(*process, command.clone()).is_err());
    }
    let mut limit = 1_000_000;
    while sim.step() {
        limit -= 1;
        assert!(limit > 0, "the NICs never come to rest");
    }
    let mut log: Vec<String> = sim.world.seen.iter().map(|seen| format!("{seen:?}")).collect();
    log.push(format!("{refused} refused, {:?}, {:?}", sim.nics.take_refusals(), sim.nics.statistics()));
    (log, sim)
}

proptest! {
    #[test]
    fn arbitrary_commands_never_panic_and_leave_nothing_behind(
        steps in prop::collection::vec((0u32..4, 0u64..2_000, command()), 1..120),
        slow in any::<bool>(),
        late in any::<bool>(),
        kind in 0u8..8,
    ) {
        let (log, sim) = run(&steps, slow, late, kind);
        prop_assert_eq!(sim.nics.in_flight(), 0);
        prop_assert!(sim.world.payloads.len() as u64 <= sim.nics.held());
        prop_assert_eq!(sim.nics.held_messages().count() as u64, sim.nics.held());
        let statistics = sim.nics.statistics();
        prop_assert_eq!(statistics.messages, statistics.puts + statistics.gets + statistics.atomics);
        prop_assert_eq!(log, run(&steps, slow, late, kind).0, "the same input gives the same output");
    }
}
