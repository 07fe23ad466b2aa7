//! Traffic through handlers: the time of their stages, what they let through, and that who has none pays nothing.

use narrows_fabric::NetworkConfig;
use narrows_spin::{HandlersConfig, Rule, SpinConfig};
use narrows_topology::FatTree;
use narrows_traffic::{Class, Point, Setup, Simulation, Work};
use narrows_units::SimTime;
use std::sync::Arc;

fn point(machine: SpinConfig, rule: Option<&str>, class: &str, load: f64, threads: usize) -> Point {
    let rules = |text| vec![Rule::parse(text, |path| std::fs::read(path)).unwrap()];
    let setup = Setup {
        warmup: Some(SimTime::from_us(50)),
        time: Some(SimTime::from_us(200)),
        threads,
        handlers: rule.map(|text| Arc::new(HandlersConfig { machine, rules: rules(text) })),
        ..Setup::new(
            NetworkConfig::default(),
            FatTree::k_ary_n_tree(4, 2).unwrap().build(),
            Work::Classes(vec![Class::parse(class).unwrap()]),
        )
    };
    Simulation::new(&setup, Some(load)).unwrap().run(&mut |_, _| true).unwrap()
}

fn asic() -> SpinConfig {
    SpinConfig::preset("pspin-asic").unwrap()
}

/// 4 cycles from the last byte to the request, 17 and a beat for each 64 bytes to the feedback, and the handler's own.
#[test]
fn a_message_is_done_when_its_handlers_are() {
    let class = "pattern=shift:5 size=2KiB";
    let mean = |point: &Point| point.fct().mean().unwrap() / 1e3;
    let (plain, none) = (point(asic(), None, class, 0.05, 1), point(asic(), Some("empty size=1B"), class, 0.05, 1));
    assert_eq!((mean(&plain), plain.accepted), (mean(&none), none.accepted), "a rule that fits nothing changes nothing");
    for cycles in [9, 400] {
        let with = point(asic(), Some(&format!("cost={cycles},0,0,drop")), class, 0.05, 1);
        let (more, stages) = (mean(&with) - mean(&plain), 4.0 + 17.0 + 32.0 + f64::from(cycles));
        assert!((0.0..=1.0).contains(&(more - stages)), "{more} ns more, by the stages {stages}");
        let report = with.handlers.unwrap();
        assert!(report.totals.messages > 0 && report.totals.failures == 0);
    }
}

#[test]
fn hpus_bound_what_is_accepted() {
    let config = NetworkConfig::default();
    for (bytes, hpus) in [(256, 1), (1024, 2), (2048, 4)] {
        let machine = SpinConfig { clusters: 1, hpus, queues: 16, ..asic() };
        let class = format!("pattern=shift:5 size={bytes}B");
        let found = point(machine.clone(), Some("reduce"), &class, 0.9, 1);
        // 17 cycles, 8 for each word behind 28 bytes, two until an HPU has its next task.
        let cycles = 19 + 8 * ((bytes - 28) / 4);
        let per_s = f64::from(hpus) * 1e9 / cycles as f64 * (bytes + config.header.0) as f64;
        let expected = per_s / config.host_link.rate.as_f64();
        println!("{bytes} B, {hpus} HPUs: {:.4} accepted, by cycles {expected:.4}", found.accepted);
        assert!((found.accepted / expected - 1.0).abs() < 0.03, "{bytes} B: {} accepted, expected {expected}", found.accepted);
        assert!(found.saturated && found.handlers.as_ref().is_some_and(|report| report.totals.bypassed == 0));
        let parts = point(machine, Some("reduce"), &class, 0.9, 2);
        assert_eq!((parts.digest, parts.handlers), (found.digest, found.handlers));
    }
}
