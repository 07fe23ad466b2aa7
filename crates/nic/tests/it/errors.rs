//! Commands that are wrong are refused by name; targets that do not exist are reported to the
//! initiator.

use crate::common::*;
use narrows_nic::{CommandError, MAX_LENGTH, MAX_PT_INDEX, NicConfig, Process};
use narrows_portals::EventKind::*;
use narrows_portals::*;
use narrows_units::PortId;

fn sim() -> Sim {
    Sim::ready(config(), 2, 1, 0)
}

fn append(entry: u64, pt: u32, me: MatchEntry) -> Command {
    Command::MeAppend { entry: EntryId(entry), pt, list: List::Priority, me }
}

fn put(local: LocalBuffer, length: u64, inline: Option<Box<[u8]>>) -> Command {
    let target = RemoteTarget { process: ProcessId::on(NodeId(1), 1), pt: PT, match_bits: 0, offset: 0 };
    Command::Put { local, length, inline, ack: AckRequest::None, target, hdr_data: 0 }
}

#[test]
fn wrong_commands_are_refused_by_name_and_change_nothing() {
    let mut sim = sim();
    sim.command(0, append(7, PT, MatchEntry::default()));
    let (next_eq, next_ct) = (EqId::at(EQ.0, 1), CtId::at(CT.0, 1));
    let unknown_eq = LocalBuffer { eq: EqId(9), ..local(0) };
    let unknown_ct = LocalBuffer { ct: CtId(9), ..local(0) };
    let iovec = LocalBuffer { options: md::IOVEC, ..local(0) };
    let before = sim.world.queue.len();
    for (command, error) in [
        (Command::PtAlloc { pt: MAX_PT_INDEX + 1, options: 0, eq: EQ }, CommandError::PtOutOfRange(MAX_PT_INDEX + 1)),
        (Command::PtAlloc { pt: PT, options: 0, eq: EQ }, CommandError::PtInUse(PT)),
        (Command::PtAlloc { pt: 1, options: 0, eq: EqId(5) }, CommandError::EqUnknown(EqId(5))),
        (Command::PtAlloc { pt: 1, options: pt::FLOWCTRL, eq: NO_EQ }, CommandError::EqNeeded(1)),
        (Command::PtFree { pt: 77, ticket: NO_TICKET }, CommandError::PtUnknown(77)),
        (Command::PtEnable { pt: u32::MAX }, CommandError::PtUnknown(u32::MAX)),
        (Command::PtDisable { pt: 3, ticket: NO_TICKET }, CommandError::PtUnknown(3)),
        (Command::EqAlloc { eq: next_eq, count: 1 }, CommandError::EqInUse(next_eq)),
        (Command::EqFree { eq: next_eq }, CommandError::EqUnknown(next_eq)),
        (Command::EqAlloc { eq: NO_EQ, count: 1 }, CommandError::EqOutOfRange(NO_EQ)),
        (Command::EqAlloc { eq: EQ, count: 1 }, CommandError::EqInUse(EQ)),
        (Command::EqFree { eq: EqId(3) }, CommandError::EqUnknown(EqId(3))),
        (Command::CtAlloc { ct: next_ct }, CommandError::CtInUse(next_ct)),
        (Command::CtFree { ct: next_ct }, CommandError::CtUnknown(next_ct)),
        (Command::CtAlloc { ct: NO_CT }, CommandError::CtOutOfRange(NO_CT)),
        (Command::CtAlloc { ct: CT }, CommandError::CtInUse(CT)),
        (Command::CtFree { ct: CtId(3) }, CommandError::CtUnknown(CtId(3))),
        (Command::CtSet { ct: NO_CT, success: 0, failure: 0 }, CommandError::CtUnknown(NO_CT)),
        (Command::CtIncrement { ct: CtId(8), success: 0, failure: 0 }, CommandError::CtUnknown(CtId(8))),
        (append(7, PT, MatchEntry::default()), CommandError::EntryInUse(EntryId(7))),
        (append(8, 5, MatchEntry::default()), CommandError::PtUnknown(5)),
        (append(8, PT, MatchEntry { ct: CtId(4), ..Default::default() }), CommandError::CtUnknown(CtId(4))),
        (append(8, PT, MatchEntry { options: me::IOVEC, ..Default::default() }), CommandError::Iovec),
        (Command::MeSearch { pt: 5, operation: SearchOperation::Only, me: MatchEntry::default() }, CommandError::PtUnknown(5)),
        (put(local(0), MAX_LENGTH + 1, None), CommandError::TooLong(MAX_LENGTH + 1)),
        (put(local(u64::MAX - 7), 9, None), CommandError::PastEnd { address: u64::MAX - 7, length: 9 }),
        (put(local(0), 4, Some(Box::new([1, 2]))), CommandError::InlineLength { length: 4, carried: 2 }),
        (put(unknown_eq, 4, None), CommandError::EqUnknown(EqId(9))),
        (put(unknown_ct, 4, None), CommandError::CtUnknown(CtId(9))),
        (put(iovec, 4, None), CommandError::Iovec),
    ] {
        assert_eq!(sim.try_command(0, command.clone()), Err(error), "{command:?}");
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(sim.try_command(99, Command::PtFree { pt: PT, ticket: NO_TICKET }), Err(CommandError::NoProcess(Process(99))));
    assert_eq!(sim.world.queue.len(), before, "nothing was scheduled");
}

#[test]
fn entries_are_limited_and_identifiers_come_back() {
    let mut sim = Sim::ready(NicConfig { limits: NiLimits { max_entries: 3, ..NiLimits::BXI_V2 }, ..config() }, 2, 1, 0);
    let ids: Vec<EntryId> = (0..3).map(|_| sim.append(0, entry_with(0, 0, 8, me::USE_ONCE))).collect();
    assert_eq!(sim.try_command(0, append(99, PT, MatchEntry::default())), Err(CommandError::NoSpace(3)));
    sim.put(1, 0, 0, 1, AckRequest::None); // uses one
    sim.run();
    sim.command(0, append(99, PT, MatchEntry::default()));
    assert_eq!(sim.try_command(0, append(100, PT, MatchEntry::default())), Err(CommandError::NoSpace(3)));
    assert_eq!(sim.unlink(0, ids[1]), ReplyCode::Ok);
    sim.command(0, append(100, PT, MatchEntry::default()));
    sim.command(0, Command::EqFree { eq: EQ });
    sim.command(0, Command::EqAlloc { eq: EQ, count: 1 });
    sim.command(0, Command::CtFree { ct: CT });
    sim.command(0, Command::CtAlloc { ct: CT });
    sim.run();
}

#[test]
fn a_target_that_does_not_exist_is_undeliverable() {
    let mut sim = sim();
    for process in
        [ProcessId { nid: 0, pid: 0 }, ProcessId { nid: 3, pid: 1 }, ProcessId { nid: 1, pid: 9 }, ProcessId { nid: u32::MAX, pid: 1 }]
    {
        let target = RemoteTarget { process, pt: PT, match_bits: 0, offset: 0 };
        let counted = LocalBuffer { ct: CT, options: md::EVENT_CT_SEND | md::EVENT_CT_ACK | md::EVENT_CT_REPLY, ..local(0) };
        let inline = Some(vec![0; 16].into_boxed_slice());
        sim.command(0, Command::Put { local: counted, length: 16, inline, ack: AckRequest::Full, target, hdr_data: 0 });
        sim.command(0, Command::Get { local: counted, length: 16, target });
        sim.run();
        let events: Vec<_> = sim.events(0).iter().map(|e| (e.kind, e.fail)).collect();
        let undeliverable = FailType::Undeliverable;
        assert_eq!(events, [(Send, undeliverable), (Ack, undeliverable), (Reply, undeliverable)], "{process:?}");
    }
    assert!(sim.world.transfers.is_empty());
    sim.check_idle();
}

#[test]
fn a_table_entry_that_is_not_there_drops() {
    let mut sim = sim();
    let target = RemoteTarget { pt: u32::MAX, ..sim.target(1, 0) };
    sim.command(0, Command::Put { local: local(0), length: 8, inline: None, ack: AckRequest::Full, target, hdr_data: 0 });
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Dropped);
    assert_eq!(sim.nics.status(Process(1)).drop_count, 1);
}

#[test]
fn statistics_say_what_was_sent_and_received_per_node() {
    let mut sim = sim();
    sim.append(1, entry(0, 0, 1000));
    sim.put(0, 1, 0, 100, AckRequest::Full);
    sim.put(0, 1, 0, 2000, AckRequest::None);
    sim.get(0, 1, 0, local(0), 300);
    sim.run();
    let (initiator, target) = (sim.nics.port_statistics(PortId(0)), sim.nics.port_statistics(PortId(1)));
    assert_eq!((initiator.messages, initiator.puts, initiator.gets), (3, 2, 1));
    assert_eq!((initiator.put_bytes, initiator.get_bytes, initiator.bytes_sent, initiator.bytes_received), (2100, 300, 2100, 300));
    assert_eq!((target.messages, target.bytes_sent, target.bytes_received, target.acks), (0, 300, 1100, 1));
    let sum = sim.nics.statistics();
    assert_eq!((sum.bytes_sent, sum.bytes_received), (2400, 1400));
    assert_eq!(sim.world.delivered, sum.bytes_received);
}
