//! From a specification to an outcome, without a command line.

use narrows_results::{Column, Table};
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, Messages, Observer, Outcome, ReplaySpec, Silent, Spec, TimelineSpec, TrafficSpec};
use narrows_timeline::Window;
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
    let target = Target::Machine {
        machine: machine(8),
        ppn: None,
        mapping: String::from("linear"),
        period: Some(SimTime::from_us(10)),
        background: Vec::new(),
    };
    ReplaySpec {
        sources: vec![source],
        target,
        scales: Vec::new(),
        seed: 1,
        collectives: None,
        threads: 1,
        timeline: None,
        processes: None,
    }
}

fn halo() -> Source {
    Source::Pattern(Pattern::Halo3d, Parameters { ranks: 8, steps: 2, bytes: Some(4096), cells: None, compute: None })
}

/// The same specification gives the same outcome, and its summary names what was asked for.
#[test]
fn a_specification_gives_one_outcome() {
    for (spec, tables) in [
        (Spec::Traffic(traffic()), vec!["points", "histograms", "series", "links", "switches", "queues", "hops", "rates"]),
        (Spec::Replay(replay(halo())), vec!["applications", "ranks", "fct", "series", "links", "switches", "queues"]),
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
    let powers = ["node=10W", "memory=3W", "core=2W", "waiting=500mW", "accelerator=20W", "nic=5W", "switch=100W", "cable=0.25W"];
    let compute = Some(SimTime::from_us(100));
    let loops = Source::Pattern(Pattern::AllreduceLoop, Parameters { ranks: 2, steps: 10, bytes: None, cells: None, compute });
    let alone = Source::Pattern(Pattern::AllreduceLoop, Parameters { ranks: 1, steps: 10, bytes: None, cells: None, compute });
    let product = Source::Pattern(Pattern::MatmulLike, Parameters { ranks: 4, steps: 1, bytes: None, cells: None, compute: None });
    let (ms, twice) = (1e-3, 2.0 * product_time([1024; 3]).as_s_f64());
    for (source, nodes, computing, beside) in [(loops, 2.0, 2.0 * ms, 0.0), (alone, 1.0, ms, 0.0), (product, 4.0, 0.0, 4.0 * twice)] {
        let mut spec = replay(source);
        assert_eq!(Spec::Replay(spec.clone()).run(&Silent).unwrap().summary()["energy"], serde_json::Value::Null);
        let folder = tempfile::tempdir().unwrap();
        spec.timeline = Some(TimelineSpec { path: folder.path().join("a.pftrace"), window: Window::default() });
        let Target::Machine { machine, .. } = &mut spec.target else { panic!("a replay on a machine") };
        machine.overrides.set = powers.iter().map(|power| format!("power.{power}")).collect();
        let Outcome::Replay(outcome) = Spec::Replay(spec).run(&Silent).unwrap() else { panic!("a replay gives a replay") };
        let time = outcome.replay.finish.as_s_f64();
        let ended: f64 = outcome.replay.rank_finish.iter().map(|finish| finish.as_s_f64()).sum();
        let topology = outcome.topology().unwrap();
        let (switches, cables) = (f64::from(topology.switches()), topology.links().len() as f64 / 2.0);
        let expected = [
            ("nodes_j", 10.0 * nodes * time),
            ("memory_j", 3.0 * nodes * time),
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
        near("per_rank_j", total / outcome.replay.rank_finish.len() as f64);
        match outcome.replay.bytes() {
            0 => assert_eq!(found["per_byte_j"], serde_json::Value::Null),
            bytes => near("per_byte_j", total / bytes as f64),
        }
        let tables = outcome.tables();
        let table = |name: &str| &tables.iter().find(|(own, _)| *own == name).unwrap().1;
        let column = |of: &str, name: &str| numbers(table(of), name);
        let of_ranks: f64 = column("ranks", "energy_j").iter().sum();
        let dynamic = 2.0 * computing + 0.5 * (ended - computing) + 20.0 * beside;
        assert!((of_ranks / dynamic - 1.0).abs() < 1e-9, "{of_ranks} J of ranks, expected {dynamic}");
        // The curve holds all of the energy, and says when it was taken.
        let (begins, watts) = (column("power", "begin_s"), column("power", "power_w"));
        assert_eq!(table("power").rows(), 400);
        let ends = begins[1..].iter().copied().chain([time]);
        let integral: f64 = begins.iter().zip(ends).zip(&watts).map(|((begin, end), watts)| (end - begin) * watts).sum();
        assert!((integral / total - 1.0).abs() < 1e-6, "{integral} J over time, expected {total}");
    }
}

fn numbers(table: &Table, name: &str) -> Vec<f64> {
    let found = table.clone().into_columns().into_iter().find(|(own, _)| *own == name).map(|(_, column)| column);
    let Some(Column::Number(values)) = found else { panic!("no column {name} of numbers") };
    values.iter().map(|value| value.expect("a number")).collect()
}

/// All nodes and the whole network take power while traffic is simulated.
#[test]
fn energy_of_traffic_is_power_times_simulated_time() {
    let mut spec = traffic();
    spec.machine.overrides.set.extend(["power.node=10W", "power.nic=5W", "power.switch=100W"].map(String::from));
    let Outcome::Traffic(outcome) = Spec::Traffic(spec).run(&Silent).unwrap() else { panic!("traffic gives traffic") };
    let summary = outcome.summary();
    let (nodes, switches) = (f64::from(outcome.setup.topology.hosts()), f64::from(outcome.setup.topology.switches()));
    for (point, found) in outcome.points.iter().zip(summary["points"].as_array().unwrap()) {
        let total = (15.0 * nodes + 100.0 * switches) * point.simulated.as_s_f64();
        let near = |name: &str, expected: f64| {
            let value = found["energy"][name].as_f64().unwrap();
            assert!((value / expected - 1.0).abs() < 1e-9, "{name}: {value}, expected {expected}");
        };
        near("total_j", total);
        near("per_byte_j", total / point.statistics.bytes as f64);
        assert_eq!(found["energy"]["per_rank_j"], serde_json::Value::Null);
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
    crowd.target =
        Target::Machine { machine: machine(8), ppn: None, mapping: String::from("sideways"), period: None, background: Vec::new() };
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

/// Sixteen ranks of a halo exchange on a tree, with an incast beside them for as long as they need. It offers its load,
/// makes them slower, and is the same on two threads; a deadlock is found nevertheless.
#[test]
fn background_traffic_slows_a_trace_down_and_hides_no_deadlock() {
    let beside = |source: Source, classes: &[&str], threads: usize| {
        let mut spec = replay(source);
        let Target::Machine { machine, period, background, .. } = &mut spec.target else { panic!("a replay on a machine") };
        machine.overrides.nodes = Some(16);
        machine.overrides.set = ["topology.kind=k-ary-n-tree", "topology.k=4", "topology.n=2"].map(String::from).to_vec();
        (*period, spec.threads) = (None, threads);
        *background = classes.iter().map(|class| Class::parse(class).unwrap()).collect();
        Spec::Replay(spec).run(&Silent)
    };
    let halo = || Source::Pattern(Pattern::Halo3d, Parameters { ranks: 16, steps: 5, bytes: Some(65_536), cells: None, compute: None });
    let seconds = |outcome: &Outcome| outcome.summary()["simulated_s"].as_f64().unwrap();
    let alone = beside(halo(), &[], 1).unwrap();
    assert!(alone.summary().get("background").is_none());
    let classes = ["name=hot pattern=incast:4,9 load=0.6 size=16KiB injection=poisson"];
    let [one, two] = [1, 2].map(|threads| beside(halo(), &classes, threads).unwrap());
    assert_eq!((one.failure(), &one.summary()["digest"]), (None, &two.summary()["digest"]));
    assert_eq!(one.summary()["background"], two.summary()["background"]);
    assert!(seconds(&one) > 1.05 * seconds(&alone), "{} beside it, {} alone", seconds(&one), seconds(&alone));
    // bxi-v2's links carry 11.1 GB/s; the last look for the end is up to 20 us after it.
    let hot = &one.summary()["background"][0];
    let offered = hot["wire_bytes"].as_f64().unwrap() / (4.0 * 11.1e9 * (seconds(&one) + 10e-6));
    assert!((offered / 0.6 - 1.0).abs() < 0.1, "{offered} of the links of four nodes, expected 0.6");
    assert!(hot["arrived"].as_u64().unwrap() > 0 && hot["fct_ns"]["mean"].as_f64().unwrap() > 1000.0);
    // What begins after the end changes nothing.
    let later = beside(halo(), &["pattern=incast:4,9 load=0.6 start=1s"], 1).unwrap();
    assert_eq!(later.summary()["digest"], alone.summary()["digest"]);

    let folder = std::env::temp_dir().join(format!("narrows-background-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("stuck.jsonl");
    let waits = |rank: u32| format!("{{\"rank\":{rank},\"op\":\"recv\",\"from\":{},\"bytes\":8,\"tag\":1}}\n", 1 - rank);
    let head = "{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}\n";
    std::fs::write(&path, format!("{head}{}{}", waits(0), waits(1))).unwrap();
    let stuck = beside(Source::File(path), &classes, 1).unwrap();
    assert!(stuck.failure().is_some_and(|why| why.starts_with("deadlock")), "{:?}", stuck.failure());
    std::fs::remove_dir_all(&folder).unwrap();

    for (class, why) in [
        ("pattern=incast:4", "needs a load"),
        ("pattern=incast:4 injection=closed:2", "open loop"),
        ("pattern=incast:4 load=0.5 sources=99", "there is no node 99"),
        ("pattern=incast:99 load=0.5", "incast:99"),
    ] {
        let error = beside(halo(), &[class], 1).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let eight: Vec<String> = (0..8).map(|number| format!("name=c{number} pattern=uniform load=0.1")).collect();
    let eight: Vec<&str> = eight.iter().map(String::as_str).collect();
    assert!(beside(halo(), &eight, 1).unwrap_err().to_string().contains("at most 7"));
}
