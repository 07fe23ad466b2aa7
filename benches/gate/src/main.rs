//! The workloads of the gate for speed (`benches/gate/gate.py`), each with a size: `narrows-gate NAME SIZE` prints how
//! many operations it did. Nothing depends on time, threads or addresses, so the instructions of a run repeat.

use narrows_channel::handover::{announce, await_given, enter, give, hand, leave};
use narrows_channel::layout::state;
use narrows_collectives::rules::{OPEN_MPI, Rules};
use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_machine::{Machine, Overrides};
use narrows_matching::MatchList;
use narrows_message::Rails;
use narrows_output::{print, say};
use narrows_portals::{MatchEntry, ProcessId};
use narrows_replay::collectives::ByRules;
use narrows_replay::graph::{Graph, NoCollectives};
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::port::Costs;
use narrows_replay::{loggp, mapping};
use narrows_sim::Hardware;
use narrows_trace::generate::{Generated, Parameters, Pattern};
use narrows_units::NodeId;
use std::process::ExitCode;
use std::sync::atomic::AtomicU32;

/// Hand-overs of one region, with both sides in one thread: each step is what its side does when it need not sleep.
fn handover(size: u32) -> u64 {
    let [state, running, bell, busy] = [state::PARKED, 0, 0, 0].map(AtomicU32::new);
    for _ in 0..size {
        announce(&running, 1);
        hand(&state);
        if enter(&state, &busy) {
            leave(&busy);
        }
        give(&state, &running, &bell, state::PARKED);
        assert!(await_given(&running, &bell, None), "the only region was given back");
    }
    u64::from(size)
}

/// Messages that find their entry among 100, in any order; the entry is unlinked and another one appended.
fn matching(size: u32) -> u64 {
    const POSTED: u32 = 100;
    const SOURCE: ProcessId = ProcessId { nid: 1, pid: 1 };
    let entry = |bits: u32| MatchEntry { match_bits: u64::from(bits), match_id: SOURCE, ..MatchEntry::default() };
    let mut random: Stream = stream(1, "gate", 0);
    let mut list = MatchList::default();
    let mut orders: Vec<u64> = (0..POSTED).map(|slot| list.push(slot, &entry(slot))).collect();
    for _ in 0..size {
        let bits = random.below(u64::from(POSTED));
        let (found, _) = list.find(SOURCE, bits, |_| true);
        let slot = found.expect("an entry for each message");
        list.remove(orders[slot as usize]);
        orders[slot as usize] = list.push(slot, &entry(slot));
    }
    u64::from(size)
}

fn generated(pattern: Pattern, ranks: u32, steps: u32) -> Generated {
    let parameters = Parameters { ranks, steps, bytes: Some(8), cells: None, compute: None };
    Generated::new(pattern, parameters).expect("a pattern for any number of ranks")
}

/// Messages between neighbours under LogGP alone.
fn loggp(size: u32) -> u64 {
    let mut graph = Graph::new();
    graph.add("gate", &mut generated(Pattern::Halo3d, 1024, size), 1.0, &mut NoCollectives).expect("the program is complete");
    let outcome = loggp::run(&mut graph, loggp::Parameters::default(), &mut |_| true);
    assert_eq!(outcome.failure, None);
    outcome.messages()
}

/// Messages of allreduces on a machine, with packets.
fn replay(size: u32) -> u64 {
    const RANKS: u32 = 256;
    let machine = Machine::load("bxi-v3", &Overrides { nodes: Some(RANKS), set: Vec::new() }).expect("a preset");
    let topology = machine.topology().expect("a preset");
    let all: Vec<NodeId> = NodeId::first(machine.node.count).collect();
    let linear = "linear".parse().expect("a mapping");
    let nodes = mapping::processors(&linear, &machine, (&topology, &all), None, &[RANKS]).expect("a node for each rank");
    let layout = mapping::layout((&topology, &all), &nodes[0]);
    let part = PlacedTrace {
        name: "gate".to_owned(),
        program: Box::new(generated(Pattern::AllreduceLoop, RANKS, size)),
        collectives: Box::new(ByRules::new(Rules::parse(OPEN_MPI).expect("rules of ours"), Some(layout))),
        scale: vec![1.0],
        processes: mapping::processes(&nodes).swap_remove(0),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    let config = machine.network_config(1);
    let hardware = Hardware::new(&config, topology, machine.nic_config());
    let replay = Replay::new(hardware, vec![part], machine.message_config(Rails::default())).expect("a preset");
    let outcome = replay.run(&mut |_| true).expect("a preset");
    assert_eq!(outcome.failure, None);
    outcome.messages()
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let workload = match words.first().map(String::as_str) {
        Some("handover") => handover,
        Some("matching") => matching,
        Some("loggp") => loggp,
        Some("replay") => replay,
        _ => return usage(),
    };
    let Some(Ok(size)) = words.get(1).map(|word| word.parse()) else { return usage() };
    match print(&format!("{}\n", workload(size))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn usage() -> ExitCode {
    say!("narrows-gate handover|matching|loggp|replay SIZE");
    ExitCode::from(2)
}
