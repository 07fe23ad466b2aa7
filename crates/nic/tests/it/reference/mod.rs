//! The NICs against a slow, obvious reference written from the specification: random programs of four processes, one
//! command after the other, each with all that follows from it. What a command is answered, all notices, the memory,
//! the status registers and what is held must agree.
//!
//! `PROPTEST_CASES=10000 cargo test --release -p narrows-nic --test it reference` does 4.5 million steps.

mod model;
mod program;

use crate::common::*;
use model::{Reference, on};
use narrows_nic::{NicConfig, Process};
use narrows_portals::*;
use narrows_units::SimTime;
use program::{Step, step};
use proptest::prelude::*;

const PROCESSES: u32 = 4;
/// Counting events of a process.
const COUNTERS: u32 = 3;
/// Bytes of memory of a process that operations touch.
const TOUCHED: usize = 8192;
/// Bytes of it that are written anew before each step: what is sent.
const SENT: usize = 800;
/// Limits of a process: unexpected headers, entries, entries of a list, triggered operations, events in its queue.
const HEADERS: usize = 4;
const ENTRIES: usize = 16;
const LIST: usize = 10;
const TRIGGERED: usize = 6;
const EVENTS: u32 = 40;

/// Users of the processes.
fn uid(process: u32) -> u32 {
    process % 2
}

/// Fills in what a command cannot say before it is given.
fn complete(command: &mut Command, number: usize, which: usize, appended: &[EntryId], memory: &[u8]) {
    let id = number as u64;
    let bytes = |local: &LocalBuffer, length: u64| memory[local.address as usize..][..length as usize].into();
    match command {
        Command::Put { hdr_data, inline, local, length, .. } => {
            *hdr_data = id;
            *inline = inline.take().map(|_| bytes(local, *length));
        }
        Command::Atomic(atomic) => {
            atomic.hdr_data = id;
            atomic.inline = atomic.inline.take().map(|_| bytes(&atomic.local, atomic.length));
        }
        Command::MeAppend { entry, me, .. } => (*entry, me.user_ptr) = (EntryId(id), id),
        Command::MeUnlink { entry, ticket } => {
            *entry = if appended.is_empty() { EntryId(u64::MAX) } else { appended[which % appended.len()] };
            *ticket *= number as u32 + 1;
        }
        Command::MeSearch { me, .. } => me.user_ptr = id,
        Command::PtDisable { ticket, .. } | Command::PtFree { ticket, .. } | Command::Query { ticket, .. } => *ticket *= number as u32 + 1,
        Command::Triggered { command, .. } => complete(command, number, which, appended, memory),
        _ => {}
    }
}

/// An order of notices that does not depend on when they came.
fn sorted(mut notices: Vec<Notice>) -> Vec<String> {
    // Intermediate values of a count depend on the order in which operations end.
    let last = |ct| notices.iter().rev().find(|notice| matches!(notice, Notice::Count { ct: CtId(of), .. } if *of == ct)).copied();
    let last: Vec<Option<Notice>> = (0..COUNTERS).map(last).collect();
    let counts = notices.len();
    notices.retain(|notice| !matches!(notice, Notice::Count { .. }));
    let mut text: Vec<String> = notices.iter().map(|notice| format!("{notice:?}")).collect();
    text.sort_unstable();
    text.push(format!("{} counts, last {last:?}", counts - notices.len()));
    text
}

/// One node: its NIC starts one triggered operation after the other. It does so after a millisecond, when all else is
/// over: what is released by one operation comes in the same order as in the reference, which knows no time.
fn config() -> NicConfig {
    NicConfig {
        limits: NiLimits {
            max_unexpected_headers: HEADERS as u32,
            max_entries: ENTRIES as u32,
            max_list_size: LIST as u32,
            max_triggered_ops: TRIGGERED as u32,
            ..NiLimits::BXI_V2
        },
        trigger_time: SimTime::from_us(1000),
        ..crate::common::config()
    }
}

fn check(nodes: u32, pt_options: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut sim = Sim::new(config(), nodes, PROCESSES / nodes);
    sim.nics.set_users(|process| uid(process.0));
    for process in 0..PROCESSES {
        sim.command(process, Command::EqAlloc { eq: EQ, count: EVENTS });
        for ct in 0..COUNTERS {
            sim.command(process, Command::CtAlloc { ct: CtId(ct) });
        }
        sim.command(process, Command::PtAlloc { pt: PT, options: pt_options, eq: EQ });
    }
    sim.run();
    let mut reference = Reference::new(pt_options, &sim.places, uid);
    let mut appended: Vec<Vec<EntryId>> = vec![Vec::new(); PROCESSES as usize];
    for (number, step) in steps.into_iter().enumerate() {
        let said = || format!("step {number}: {step:?}");
        let Step { process, which, .. } = step;
        // Each step sends other bytes.
        for process in 0..PROCESSES {
            sim.fill(process, 0, SENT as u64, number as u64);
            let bytes = &sim.world.memory[process as usize][..SENT];
            reference.sides[process as usize].memory[..SENT].copy_from_slice(bytes);
        }
        let mut command = step.command.clone();
        let mine = &mut appended[process as usize];
        complete(&mut command, number, which, mine, &sim.world.memory[process as usize]);
        let inner = if let Command::Triggered { command, .. } = &command { command } else { &command };
        if let Command::MeAppend { entry, .. } = inner {
            mine.push(*entry);
        }
        let relieves = matches!(
            command,
            Command::MeAppend { .. }
                | Command::MeSearch { .. }
                | Command::MeUnlink { .. }
                | Command::PtEnable { .. }
                | Command::SetLimits { .. }
        );
        let taken = sim.try_command(process, command.clone());
        sim.run();
        prop_assert_eq!(taken, reference.command(process, command), "process {}, {}", process, said());
        if relieves && taken.is_ok() && reference.retry(process) {
            for process in 0..PROCESSES as usize {
                reference.sides[process].memory.copy_from_slice(&sim.world.memory[process][..TOUCHED]);
            }
        }
        for process in 0..PROCESSES {
            let (seen, expected) = (sim.take(process), std::mem::take(&mut reference.sides[process as usize].notices));
            if on(pt_options, pt::RETRY) {
                prop_assert_eq!(sorted(seen), sorted(expected), "process {} after {}", process, said()); // several end at once
            } else {
                prop_assert_eq!(seen, expected, "process {} after {}", process, said());
            }
            let side = &reference.sides[process as usize];
            prop_assert!(sim.world.memory[process as usize][..TOUCHED] == side.memory[..], "memory of {} after {}", process, said());
            prop_assert_eq!(sim.nics.status(Process(process)), side.status, "status of {} after {}", process, said());
            prop_assert_eq!(sim.nics.held_by(Process(process)), side.held(), "held by {} after {}", process, said());
        }
        prop_assert_eq!(sim.nics.in_flight(), 0, "after {}", said());
    }
    prop_assert_eq!(sim.nics.take_refusals(), vec![]);
    Ok(())
}

fn programs(nodes: u32, pt_options: u32) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(nodes, pt_options), 1..300)
}

proptest! {
    #[test]
    fn plain_table_entries_do_what_the_specification_says(steps in programs(1, 0)) {
        check(1, 0, steps)?;
    }

    #[test]
    fn flow_controlled_table_entries_do_what_the_specification_says(steps in programs(1, pt::FLOWCTRL)) {
        check(1, pt::FLOWCTRL, steps)?;
    }

    #[test]
    fn retrying_table_entries_lose_nothing_and_keep_order(steps in programs(2, pt::RETRY)) {
        check(2, pt::RETRY, steps)?;
    }
}
