//! What routing costs: assembly, the check for deadlocks, and a decision, on the largest machines. CPU time of this
//! thread is what counts; the check may take several.
//!
//! `cargo bench -p narrows-topology --bench routing [-- MACHINE ...]`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_topology::{
    Arrangement, Dragonfly, FatTree, HyperX, Route, RouteState, Routing, RoutingKind, RoutingOptions, Topology, Torus, TorusParameters,
    Vertex,
};
use std::time::Instant;

/// CPU time of all threads, ended ones too, to a hundredth.
fn process_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// CPU time of this thread, from Linux' scheduler.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn routes(topology: &Topology, kind: RoutingKind) {
    let mut routing = Routing::new(kind, topology, RoutingOptions::default()).unwrap();
    let hosts = topology.hosts();
    let (mut decisions, mut word) = (0u64, 1u64);
    let loads: Vec<u64> = (0..topology.links().len() as u64).map(|link| link % 7).collect();
    let mut pair = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((word >> 40) as u32 % hosts, (word >> 20) as u32 % hosts)
    };
    let started = cpu_seconds();
    for _ in 0..300_000 {
        let (source, target) = pair();
        if source == target {
            continue;
        }
        let mut state = RouteState::default();
        let mut link = topology.injection(source);
        while let Vertex::Switch(switch) = topology.links()[link as usize].to {
            let step = routing.next(switch, link, target, &mut state, |link| loads[link as usize]);
            state.channel = step.channel;
            link = step.link;
            decisions += 1;
        }
    }
    println!("  {kind:16} {:6.1} ns per decision", (cpu_seconds() - started) * 1e9 / decisions as f64);
}

fn main() {
    type Build = fn() -> Topology;
    let machines: [(&str, Build); 5] = [
        ("fattree-16k", || FatTree::pgft(&[32, 32, 16], &[1, 32, 8], &[1, 1, 4]).unwrap().build()),
        ("dragonfly-342", || Dragonfly::new([3, 6, 3, 19], Arrangement::Consecutive, None).unwrap().build()),
        ("dragonfly-114k", || Dragonfly::new([13, 26, 13, 339], Arrangement::Consecutive, None).unwrap().build()),
        ("torus-9680", || {
            let lengths = vec![22, 22, 20];
            Torus::new(TorusParameters { lengths, wrap: true, board: 1, hosts_per_switch: 1, cables: 1, hosts: None }).unwrap().build()
        }),
        ("hyperx-9680", || HyperX::new(&[22, 22, 20], 1, 1, None).unwrap().build()),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, build) in machines {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let started = cpu_seconds();
        let topology = build();
        println!("{name}: built in {:.3} s", (cpu_seconds() - started));
        for &kind in RoutingKind::of(topology.shape()) {
            routes(&topology, kind);
            let routing = Routing::new(kind, &topology, RoutingOptions::default()).unwrap();
            let (started, since) = (process_seconds(), Instant::now());
            routing.check_deadlock(&topology).unwrap();
            let (cpu, wall) = (process_seconds() - started, since.elapsed().as_secs_f64());
            println!("  {kind:16} {cpu:6.2} s of CPU, {wall:6.2} s deadlock check");
        }
    }
}
