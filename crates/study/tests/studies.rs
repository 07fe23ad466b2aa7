//! From a specification to an outcome, without a command line.

#![allow(clippy::unwrap_used)]

use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, Messages, Observer, Outcome, ReplaySpec, Silent, Spec, TrafficSpec};
use narrows_trace::generate::{Parameters, Pattern, product_time};
use narrows_traffic::Class;
use narrows_units::SimTime;
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn machine(nodes: u32) -> MachineSpec {
    let mut machine = MachineSpec::named("bxi-v2");
    machine.overrides.nodes = Some(nodes);
    machine
}

fn traffic() -> TrafficSpec {
    let classes = vec![Class::new("", "incast:3".parse().unwrap()), Class::new("victim", "shift:1".parse().unwrap())];
    TrafficSpec {
        loads: Some(vec![0.1, 0.2]),
        warmup: Some(SimTime::from_us(5)),
        time: Some(SimTime::from_us(50)),
        period: Some(SimTime::from_us(5)),
        threads: 2,
        ..TrafficSpec::new(machine(8), Messages::Classes(classes))
    }
}

fn replay(source: Source) -> ReplaySpec {
    let target = Target::Machine { machine: machine(8), ppn: None, mapping: String::from("linear"), period: Some(SimTime::from_us(10)) };
    ReplaySpec { sources: vec![source], target, scales: Vec::new(), seed: 1, collectives: None, threads: 1, timeline: None }
}

fn halo() -> Source {
    Source::Pattern(Pattern::Halo3d, Parameters { ranks: 8, steps: 2, bytes: Some(4096), cells: None, compute: None })
}

/// The same specification gives the same outcome, and its summary names what was asked for.
#[test]
fn a_specification_gives_one_outcome() {
    for (spec, tables) in [
        (Spec::Traffic(traffic()), vec!["points", "histograms", "series", "links", "switches", "queues", "hops", "rates"]),
        (Spec::Replay(replay(halo())), vec!["applications", "fct", "series", "links", "switches", "queues"]),
    ] {
        let [one, other] = [(); 2].map(|()| spec.run(&Silent).unwrap());
        assert_eq!(one.failure(), None);
        assert_eq!(one.tables().iter().map(|(name, _)| *name).collect::<Vec<_>>(), tables);
        assert!(one.tables().iter().all(|(name, table)| table.rows() > 0 || *name == "queues"), "{spec:?}");
        let (one, other) = (one.summary(), other.summary());
        assert_eq!(one["digest"], other["digest"]);
        assert_eq!((&one["machine"]["node"]["count"], &one["nodes"], &one["exit_code"]), (&8.into(), &8.into(), &0.into()));
    }
}

/// The energy of a replay is power times time, part by part.
#[test]
fn energy_is_power_times_time() {
    let powers = ["node=10W", "core=2W", "waiting=500mW", "accelerator=20W", "nic=5W", "switch=100W", "cable=0.25W"];
    let compute = Some(SimTime::from_us(100));
    let loops = Source::Pattern(Pattern::AllreduceLoop, Parameters { ranks: 2, steps: 10, bytes: None, cells: None, compute });
    let alone = Source::Pattern(Pattern::AllreduceLoop, Parameters { ranks: 1, steps: 10, bytes: None, cells: None, compute });
    let product = Source::Pattern(Pattern::MatmulLike, Parameters { ranks: 4, steps: 1, bytes: None, cells: None, compute: None });
    let (ms, twice) = (1e-3, 2.0 * product_time([1024; 3]).as_s_f64());
    for (source, nodes, computing, beside) in [(loops, 2.0, 2.0 * ms, 0.0), (alone, 1.0, ms, 0.0), (product, 4.0, 0.0, 4.0 * twice)] {
        let mut spec = replay(source);
        assert_eq!(Spec::Replay(spec.clone()).run(&Silent).unwrap().summary()["energy"], serde_json::Value::Null);
        let Target::Machine { machine, .. } = &mut spec.target else { panic!("a replay on a machine") };
        machine.overrides.set = powers.iter().map(|power| format!("power.{power}")).collect();
        let Outcome::Replay(outcome) = Spec::Replay(spec).run(&Silent).unwrap() else { panic!("a replay gives a replay") };
        let time = outcome.replay.finish.as_s_f64();
        let ended: f64 = outcome.replay.rank_finish.iter().map(|finish| finish.as_s_f64()).sum();
        let topology = outcome.topology().unwrap();
        let (switches, cables) = (f64::from(topology.switches()), topology.links().len() as f64 / 2.0);
        let expected = [
            ("nodes_j", 10.0 * nodes * time),
            ("computing_j", 2.0 * computing),
            ("waiting_j", 0.5 * (ended - computing)),
            ("accelerators_j", 20.0 * beside),
            ("nics_j", 5.0 * nodes * time),
            ("switches_j", 100.0 * switches * time),
            ("cables_j", 0.25 * cables * time),
        ];
        let found = &outcome.summary()["energy"];
        let near = |name: &str, expected: f64| {
            let value = found[name].as_f64().unwrap();
            assert!((value - expected).abs() <= 1e-9 * expected, "{name}: {value}, expected {expected}");
        };
        expected.iter().for_each(|&(name, joules)| near(name, joules));
        let total: f64 = expected.iter().map(|(_, joules)| joules).sum();
        near("total_j", total);
        near("mean_power_w", total / time);
    }
}

/// Classes without a name get one, a point has all of them.
#[test]
fn points_follow_the_specification() {
    let Outcome::Traffic(outcome) = Spec::Traffic(traffic()).run(&Silent).unwrap() else { panic!("traffic gives traffic") };
    let loads: Vec<Option<f64>> = outcome.points.iter().map(|point| point.load).collect();
    assert_eq!(loads, [Some(0.1), Some(0.2)]);
    let names: Vec<&str> = outcome.points[0].classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["incast:3-0", "victim"]);
}

#[test]
fn what_cannot_be_is_an_error_and_no_outcome() {
    let mut nowhere = traffic();
    nowhere.machine.name = String::from("bxi-v1");
    let mut none = traffic();
    none.loads = Some(Vec::new());
    let mut crowd = replay(halo());
    crowd.target = Target::Machine { machine: machine(8), ppn: None, mapping: String::from("sideways"), period: None };
    for (spec, part) in [
        (Spec::Traffic(nowhere), "no machine \"bxi-v1\""),
        (Spec::Traffic(none), "no load"),
        (Spec::Traffic(TrafficSpec::new(machine(4), Messages::Flows(PathBuf::from("/nowhere.csv")))), "/nowhere.csv"),
        (Spec::Replay(crowd), "sideways"),
        (Spec::Replay(replay(Source::File(PathBuf::from("/nowhere.vef")))), "/nowhere.vef"),
    ] {
        let error = spec.run(&Silent).unwrap_err().to_string();
        assert!(error.contains(part), "expected {part}, found {error}");
    }
}

/// An observer that ends a study keeps what there is, and the outcome says so.
#[test]
fn an_observer_ends_a_study() {
    struct Impatient(AtomicBool);
    impl Observer for Impatient {
        fn part(&self, what: String, _: &Arc<narrows_output::Meter>, _: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
            if what == "simulating 2 loads" || what == "replaying" {
                self.0.store(false, Ordering::Relaxed);
            }
            Box::new(())
        }
        fn warning(&self, _: &str) {}
        fn goes_on(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let outcome = Spec::Traffic(traffic()).run(&Impatient(AtomicBool::new(true))).unwrap();
    assert_eq!(outcome.failure().as_deref(), Some("ended by a signal"));
    let long = Source::Pattern(Pattern::Halo3d, Parameters { ranks: 8, steps: 200_000, bytes: Some(4096), cells: None, compute: None });
    let outcome = Spec::Replay(replay(long)).run(&Impatient(AtomicBool::new(true))).unwrap();
    assert!(outcome.failure().is_some());
}
