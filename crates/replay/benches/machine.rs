//! Replays on a machine, as messages and packet-hops per second: `cargo bench -p narrows-replay --bench machine [--
//! FILTER]`. `BENCH_THREADS=1,2` for threads, `BENCH_RANKS` for another number of ranks, `BENCH_STEPS` of steps. Prints
//! CPU and wall time until the event loop begins (the NICs' set-up), and of the whole replay with its end.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_collectives::rules::{OPEN_MPI, Rules};
use narrows_machine::{Machine, Overrides};
use narrows_message::Rails;
use narrows_replay::collectives::ByRules;
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::mapping;
use narrows_replay::port::Costs;
use narrows_sim::Hardware;
use narrows_trace::generate::{Generated, Parameters, Pattern};
use narrows_units::NodeId;
use std::time::Instant;

/// Wall time since the start, and CPU time of this process, all threads, in seconds: others may be busy on the same
/// cores.
fn times(start: Instant) -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Fields 14 and 15, in ticks of 10 ms; the name in field 2 may have spaces.
    let fields: Vec<&str> = text[text.rfind(')').unwrap()..].split_whitespace().collect();
    let cpu = fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap();
    (start.elapsed().as_secs_f64(), cpu / 100.0)
}

struct Case {
    name: &'static str,
    pattern: Pattern,
    ranks: u32,
    steps: u32,
    bytes: Option<u64>,
    machine: &'static str,
    set: &'static [&'static str],
}

fn run(case: &Case, threads: usize) {
    let number = |name: &str, usual: u32| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (ranks, steps) = (number("BENCH_RANKS", case.ranks), number("BENCH_STEPS", case.steps));
    let set = case.set.iter().map(|&text| text.to_owned()).collect();
    let machine = Machine::load(case.machine, &Overrides { nodes: Some(ranks), set }).unwrap();
    let topology = machine.topology().unwrap();
    let program = Generated::new(case.pattern, Parameters { ranks, steps, bytes: case.bytes, cells: None, compute: None }).unwrap();
    let all: Vec<NodeId> = NodeId::first(machine.node.count).collect();
    let nodes = mapping::processors(&"linear".parse().unwrap(), &machine, (&topology, &all), None, &[ranks]).unwrap();
    let processes = mapping::processes(&nodes).swap_remove(0);
    let layout = mapping::layout((&topology, &all), &nodes[0]);
    let part = PlacedTrace {
        name: case.name.to_owned(),
        program: Box::new(program),
        collectives: Box::new(ByRules::new(Rules::parse(OPEN_MPI).unwrap(), Some(layout))),
        scale: vec![1.0],
        processes,
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    let config = machine.network_config(1);
    let hardware = Hardware::new(&config, topology, machine.nic_config());
    let replay = Replay::new(hardware, vec![part], machine.message_config(Rails::default())).unwrap().on_threads(threads);
    let regions = replay.regions();
    let begin = Instant::now();
    let (_, cpu_before) = times(begin);
    let mut first = None;
    let outcome = replay.run(&mut |_| *first.get_or_insert_with(|| times(begin)) != (0.0, 0.0)).unwrap();
    let (wall, cpu) = times(begin);
    let (wall_of_setup, cpu_of_setup) = first.unwrap();
    assert_eq!(outcome.failure, None);
    let totals = outcome.totals.unwrap();
    println!(
        "{:<40} {threads} thread{} {regions:>4} regions {:>9} messages {:>9} hops {:>9} events; set-up {wall_of_setup:>6.3} s wall \
         {:>6.2} s CPU, all {wall:>7.3} s wall {:>6.2} s CPU, {:>6.3} us CPU/message, simulated {}, digest {:016x}",
        case.name,
        if threads == 1 { " " } else { "s" },
        outcome.messages(),
        totals.packet_hops,
        totals.events,
        cpu_of_setup - cpu_before,
        cpu - cpu_before,
        (cpu - cpu_of_setup) * 1e6 / outcome.messages() as f64,
        outcome.finish,
        outcome.digest,
    );
}

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let threads: Vec<usize> = std::env::var("BENCH_THREADS").map_or(vec![1], |text| text.split(',').map(|n| n.parse().unwrap()).collect());
    let cases = [
        Case {
            name: "halo3d, 64 KiB, 32768 ranks, packet",
            pattern: Pattern::Halo3d,
            ranks: 32_768,
            steps: 1,
            bytes: Some(64 << 10),
            machine: "bxi-v2",
            set: &["switch.radix=64", "network.kind=packet"],
        },
        Case {
            name: "allreduce-loop, 16384 ranks, LogGP",
            pattern: Pattern::AllreduceLoop,
            ranks: 16_384,
            steps: 10,
            bytes: None,
            machine: "bxi-v3",
            set: &["network.kind=loggp"],
        },
        Case {
            name: "allreduce-loop, 16384 ranks, packet",
            pattern: Pattern::AllreduceLoop,
            ranks: 16_384,
            steps: 10,
            bytes: None,
            machine: "bxi-v3",
            set: &["network.kind=packet"],
        },
    ];
    for case in cases {
        if filter.iter().all(|word| case.name.to_lowercase().contains(&word.to_lowercase())) {
            for &threads in &threads {
                run(&case, threads);
            }
        }
    }
}
