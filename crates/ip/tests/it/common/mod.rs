//! Machines of a few nodes.

use narrows_ip::{Flow, FlowKind, IpError, Report, Setup, run};
use narrows_machine::{Machine, Overrides};
use narrows_sim::Hardware;
use narrows_units::{Bytes, SimTime};

pub const NS: SimTime = SimTime::from_ns(1);

pub fn machine(preset: &str, nodes: u32, set: &[String]) -> Machine {
    Machine::load(preset, &Overrides { nodes: Some(nodes), set: set.to_vec() }).unwrap()
}

pub fn on(machine: &Machine, flows: Vec<Flow>, change: impl FnOnce(&mut Setup<'_>)) -> Result<Report, IpError> {
    let config = machine.network_config(1);
    let mut setup = Setup {
        hardware: Hardware::new(&config, machine.topology().unwrap(), machine.nic_config()),
        ip: machine.ip,
        flows,
        seed: 1,
        warmup: SimTime::ZERO,
        time: None,
        threads: 1,
        whole: false,
    };
    change(&mut setup);
    // What never ends is a fault that a test is to report.
    run(setup, &mut |now| now < SimTime::from_us(4_000_000))
}

/// Five pings.
pub fn pings(from: u32, to: u32, bytes: u64) -> Flow {
    Flow { from, to, kind: FlowKind::Ping { bytes: Bytes(bytes), count: 5, interval: SimTime::from_us(10_000) } }
}

pub fn stream(from: u32, to: u32, bytes: u64, limit: Option<u64>) -> Flow {
    Flow { from, to, kind: FlowKind::Stream { bytes: Bytes(bytes), limit: limit.map(Bytes) } }
}

pub fn datagrams(from: u32, to: u32, bytes: u64, limit: Option<u64>) -> Flow {
    Flow { from, to, kind: FlowKind::Datagrams { bytes: Bytes(bytes), rate: None, limit: limit.map(Bytes) } }
}

/// The round trip of the only flow, which all of its pings have.
pub fn round_trip(machine: &Machine, flow: Flow) -> SimTime {
    let report = on(machine, vec![flow], |_| {}).unwrap();
    let times = &report.flows[0].round_trips;
    assert_eq!(times.count(), 5);
    let mean = times.mean().unwrap();
    assert!((mean - times.max().unwrap() as f64).abs() < 1.0, "all pings take as long: {mean}");
    SimTime(mean as u64)
}

/// Bytes in a second.
pub fn rate(machine: &Machine, flows: Vec<Flow>) -> f64 {
    let report = on(machine, flows, |setup| {
        (setup.warmup, setup.time) = (SimTime::from_us(2000), Some(SimTime::from_us(5000)));
    });
    let report = report.unwrap();
    report.flows.iter().map(|flow| flow.counts.bytes).sum::<u64>() as f64 / report.measured.as_s_f64()
}

pub fn close(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() < part, "found {found:e}, expected {expected:e}");
}
