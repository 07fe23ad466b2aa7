//! A point that several processes share: to the bit that of one process.

use narrows_fabric::parallel::{ProcessError, Processes};
use narrows_fabric::{
    Checks, Congestion, Delivery, Fault, FlowControl, Fraction, Hpcc, NetworkConfig, NetworkKind, PauseConfig, Probability, Reliability,
    Sperc,
};
use narrows_results::Histogram;
use narrows_topology::{Arrangement, Dragonfly, FatTree, RoutingKind, Topology};
use narrows_traffic::{Class, Flow, Point, Setup, Simulation, TrafficError, Work};
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;

/// Everything about a point that is shown anywhere, but for events and windows: how often an output that waits for
/// credits looks for them depends on which region's news it hears first.
fn shown(point: &Point) -> String {
    let Point { load, offered, accepted, saturated, partial, steady, warmup, measured, simulated, .. } = point;
    let Point { statistics, undelivered, digest, flows, series, .. } = point;
    // Its buckets, and to the last digit the sum and the largest value.
    let of = |histogram: &Histogram| serde_json::to_string(histogram).unwrap();
    let classes: Vec<String> = point
        .classes
        .iter()
        .map(|class| {
            let numbers = (&class.name, class.load, class.sources, class.offered, class.accepted, class.saturated, class.unfinished);
            format!("{numbers:?} {} {} {}", of(&class.latency), of(&class.fct), of(&class.slow_down))
        })
        .collect();
    let seen = point.telemetry.as_ref().map(|seen| (&seen.queue_rows, &seen.link_rows, &seen.flow_rows, &seen.hops, &seen.misrouted));
    format!(
        "{load:?} {offered} {accepted} {saturated} {partial} {steady} {warmup} {measured} {simulated}\n{classes:#?}\n{statistics:?}\n\
         {undelivered:?}\n{digest}\n{flows:?}\n{series:?}\n{seen:?}"
    )
}

/// What each of so many processes makes of a point, by process.
fn each(setup: &Setup, load: Option<f64>, count: u32, control: impl Fn(u32, SimTime) -> bool + Sync) -> Vec<Result<Point, TrafficError>> {
    let control = &control;
    std::thread::scope(|scope| {
        let one = |processes: Processes| {
            let process = processes.process();
            let setup = Setup { processes: Some(processes), ..setup.clone() };
            scope.spawn(move || Simulation::new(&setup, load)?.run(&mut |now, _| control(process, now)))
        };
        let threads: Vec<_> = Processes::of_threads(count).into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn topology(choice: u8) -> Topology {
    match choice {
        0 => FatTree::k_ary_n_tree(3, 3).unwrap().build(),
        1 => FatTree::k_ary_n_tree(4, 2).unwrap().build(),
        _ => Dragonfly::new([2, 2, 1, 3], Arrangement::Consecutive, None).unwrap().build(),
    }
}

/// Processes as its regions allow.
fn at_most(topology: &Topology, processes: u32) -> u32 {
    processes.min(topology.groups())
}

fn congestions() -> impl Strategy<Value = Option<Congestion>> {
    let hpcc = Hpcc { round_trip: SimTime::from_us(4), utilization: Fraction(950_000), max_stage: 5, flows: 4 };
    let sperc = Sperc { margin: Fraction(20_000), round: SimTime::from_us(10), packet: Bytes(64) };
    prop_oneof![3 => Just(None), 1 => Just(Some(Congestion::None)), 1 => Just(Some(Congestion::Hpcc(hpcc))), 1 => Just(Some(Congestion::Sperc(sperc)))]
}

prop_compose! {
    fn networks()(congestion in congestions(), pauses: bool, adaptive: bool, lossy: bool, buffer in 2u64..8) -> NetworkConfig {
        let mut network = NetworkConfig::default();
        if adaptive && congestion.is_none() {
            network.routing = RoutingKind::Adaptive;
        }
        if pauses {
            network.flow_control = FlowControl::Pause(PauseConfig::default());
        } else {
            network.buffer_per_channel = Bytes(network.packet().0 * buffer);
        }
        if let Some(congestion) = congestion {
            network.reliability = Some(Reliability {
                window: 64,
                room: 0,
                timeout: SimTime::from_us(30),
                retries: 3,
                ack: Bytes(84),
                delivery: Delivery::Unordered,
                unordered: 0,
                flows: 0,
                checks: Checks::default(),
                congestion,
            });
            network.telemetry = matches!(congestion, Congestion::Hpcc(_));
            // Control packets of s-PERC must not be lost.
            if lossy && !matches!(congestion, Congestion::Sperc(_)) {
                network.faults = vec![Fault { loss: Probability::new(0.01).unwrap(), ..Fault::default() }];
            }
        }
        network
    }
}

prop_compose! {
    fn works()(
        pattern in prop::sample::select(vec!["uniform", "permutation", "incast:3", "shift:2", "all-to-all", "hotspot:0.3,2"]),
        injection in prop::sample::select(vec!["bernoulli", "poisson", "closed:2", "on-off:4"]),
        size in prop::sample::select(vec!["2KiB", "64B", "uniform:1B,9000B", "20KiB"]),
        two: bool, list in prop::option::weighted(0.25, prop::collection::vec((0u64..30_000, 0u32..6, 0u32..6, 1u64..50_000), 1..12))
    ) -> Work {
        if let Some(list) = list {
            let mut flows: Vec<Flow> = list.iter().map(|&(start, source, target, bytes)| Flow { source, target, bytes, start: SimTime::from_ns(start) }).collect();
            flows.sort_by_key(|flow| (flow.start, flow.source));
            return Work::Flows(flows);
        }
        let load = if injection.starts_with("closed") { "" } else { "load=0.4" };
        let mut classes = vec![Class::parse(&format!("name=one pattern={pattern} injection={injection} size={size} {load}")).unwrap()];
        if two {
            classes.push(Class::parse("name=two pattern=shift:1 load=0.3 priority=1 start=5us end=30us").unwrap());
        }
        Work::Classes(classes)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever is sent over whatever network, with tables or without.
    #[test]
    fn processes_make_no_difference(
        network in networks(), work in works(), choice in 0u8..3, processes in 1u32..5, threads in 1usize..3,
        warmup in prop::option::of(1u64..20), period in prop::option::of(2u64..9), seed in 0u64..1000
    ) {
        let topology = topology(choice);
        let us = SimTime::from_us;
        let time = Some(us(if matches!(work, Work::Flows(_)) { 2000 } else { 30 }));
        let processes = at_most(&topology, processes);
        let setup = Setup { warmup: warmup.map(us), period: period.map(us), time, threads, seed, ..Setup::new(network, topology, work) };
        let alone = match Simulation::new(&setup, None) {
            Ok(simulation) => simulation.run(&mut |_, _| true).unwrap(),
            Err(refused) => {
                let together = each(&setup, None, processes, |_, _| true);
                prop_assert_eq!(together[0].as_ref().err(), Some(&refused));
                return Ok(());
            }
        };
        let together = each(&setup, None, processes, |_, _| true);
        prop_assert_eq!(shown(together[0].as_ref().unwrap()), shown(&alone));
    }
}

fn uniform(time: u64) -> Setup {
    let work = Work::Classes(vec![Class::parse("pattern=uniform load=0.5").unwrap()]);
    Setup {
        warmup: Some(SimTime::from_us(5)),
        time: Some(SimTime::from_us(time)),
        ..Setup::new(NetworkConfig::default(), topology(1), work)
    }
}

/// Any process can end a point; all end at one time.
#[test]
fn a_signal_to_one_ends_all() {
    let ended = each(&uniform(100_000), None, 3, |process, now| process != 2 || now < SimTime::from_us(50));
    let ended: Vec<Point> = ended.into_iter().map(Result::unwrap).collect();
    assert!(ended[0].partial && ended[0].simulated >= SimTime::from_us(50) && ended[0].simulated < SimTime::from_us(1000));
    assert!(ended.iter().all(|point| point.partial && point.simulated == ended[0].simulated));
}

/// One that goes does not leave the others waiting: they hear why, wherever they are.
#[test]
fn an_error_in_one_ends_all() {
    let setup = uniform(100_000);
    let setup = &setup;
    let all: Vec<_> = std::thread::scope(|scope| {
        let one = |processes: Processes| {
            scope.spawn(move || {
                if processes.process() == 1 {
                    processes.fail(3, "no space left");
                    return None;
                }
                let setup = Setup { processes: Some(processes), ..setup.clone() };
                Simulation::new(&setup, None).unwrap().run(&mut |_, _| true).err()
            })
        };
        let threads: Vec<_> = Processes::of_threads(3).into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failed = TrafficError::Processes(ProcessError::Failed { process: 1, code: 3, text: String::from("no space left") });
    assert_eq!(failed.to_string(), "process 1: no space left");
    assert_eq!(all, [Some(failed.clone()), None, Some(failed)]);
}

/// Networks that do not fall into parts.
#[test]
fn networks_without_packets_are_refused() {
    let mut setup = uniform(10);
    setup.network.kind = NetworkKind::Flow;
    let refused = each(&setup, None, 2, |_, _| true).remove(0).unwrap_err().to_string();
    assert!(refused.starts_with("2 processes, but this network falls into 1 part that can run apart: start at most 1"), "{refused}");
}
