//! What a ping and a stream take, as sums and minima of what their parts take.

use crate::common::*;
use narrows_machine::{Machine, Receiver};
use narrows_units::{Bytes, SimTime};

/// Stages whose times do not divide each other.
fn with_costs(mut machine: Machine) -> Machine {
    let ip = &mut machine.ip;
    (ip.send, ip.receive, ip.lock) = (NS * 1100, NS * 1300, NS * 70);
    (ip.interrupt, ip.wakeup, ip.poll) = (NS * 1700, NS * 1900, NS * 230);
    (ip.send_copies, ip.receive_copies) = (2, 1);
    (ip.tunnel.packet, ip.tunnel.copies) = (NS * 2300, 1);
    machine
}

/// The wire there and back, NICs and network alone.
fn wire(mut machine: Machine, bytes: u64, back: u64) -> SimTime {
    let ip = &mut machine.ip;
    (ip.send, ip.receive, ip.lock) = (SimTime::ZERO, SimTime::ZERO, SimTime::ZERO);
    (ip.interrupt, ip.wakeup, ip.poll) = (SimTime::ZERO, SimTime::ZERO, SimTime::ZERO);
    (ip.send_copies, ip.receive_copies, ip.tunnel.copies) = (0, 0, 0);
    ip.tunnel.packet = SimTime::ZERO;
    SimTime((round_trip(&machine, pings(0, 1, bytes)).as_ps() + round_trip(&machine, pings(0, 1, back)).as_ps()) / 2)
}

#[test]
fn a_ping_is_the_sum_of_its_stages() {
    for preset in ["bxi-v2", "bxi-v3", "exanest-qfdb", "exanest-10gbe", "ib-ndr"] {
        for kind in ["packet", "flow", "loggp"] {
            let machine = with_costs(machine(preset, 4, &[format!("network.kind={kind}")]));
            let bytes = 1000;
            let copy = machine.ip.copy_bandwidth.time_for(Bytes(bytes));
            // Each way: sent and received, with the lock twice.
            let both = (NS * (1100 + 1300 + 2 * 70)) * 2;
            // The asking program copies what it sends, twice, and what it gets; it is woken.
            let program = copy * 2 + copy + NS * 1900;
            let mut driver = machine.clone();
            driver.ip.tunnel.enabled = false;
            driver.ip.receiver = Receiver::Interrupt;
            let found = round_trip(&driver, pings(0, 1, bytes));
            let expected = wire(driver.clone(), bytes, bytes) + both + program + NS * 1700 * 2;
            assert_eq!(found, expected, "{preset}, {kind}, interrupts");
            driver.ip.receiver = Receiver::Polling;
            let found = round_trip(&driver, pings(0, 1, bytes));
            assert_eq!(found, expected - NS * 1700 * 2 + NS * 230 * 2, "{preset}, {kind}, polling");
            // Four times a tunnel finds, handles and copies a packet.
            let mut tunnel = driver.clone();
            tunnel.ip.tunnel.enabled = true;
            let found = round_trip(&tunnel, pings(0, 1, bytes));
            let expected = wire(tunnel.clone(), bytes, bytes) + both + program + (NS * (230 + 2300) + copy) * 4;
            assert_eq!(found, expected, "{preset}, {kind}, a tunnel");
        }
    }
}

#[test]
fn a_stream_is_as_fast_as_its_slowest_part() {
    let base = machine("bxi-v2", 2, &[]);
    let payload = 50_000;
    let one = || vec![stream(0, 1, payload, None)];
    // The receiver's copies, at 1 GB/s.
    let mut slow = base.clone();
    slow.ip.copy_bandwidth.0 = 1_000_000_000;
    close(rate(&slow, one()), 1e9, 0.02);
    // The sender's CPU time of a packet, 100 us; the receiver's, to which that of half an acknowledgement comes.
    let mut slow = base.clone();
    slow.ip.send = NS * 100_000;
    close(rate(&slow, one()), payload as f64 / 100e-6, 0.03);
    let mut slow = base.clone();
    (slow.ip.receive, slow.ip.send) = (NS * 50_000, NS * 10_000);
    slow.ip.window = Bytes(8 * payload);
    close(rate(&slow, one()), payload as f64 / (50e-6 + 10e-6 / 2.0), 0.03);
    // The link, at 1 GB/s: 40 B and 14 B around the payload, and 32 B around each 4 KiB of that.
    let slow = machine("bxi-v2", 2, &[String::from("link.host.bandwidth=1GB/s")]);
    let message = payload + 54;
    close(rate(&slow, one()), 1e9 * payload as f64 / (message + message.div_ceil(4096) * 32) as f64, 0.02);
    // The window, of one packet: then nothing overlaps.
    let mut slow = with_costs(base);
    slow.ip.window = Bytes(payload);
    let copy = slow.ip.copy_bandwidth.time_for(Bytes(payload));
    let turn = wire(slow.clone(), payload, 0) + (NS * (1100 + 1300 + 2 * 70 + 1700)) * 2 + copy * 3 + NS * 1900;
    close(rate(&slow, one()), payload as f64 / turn.as_s_f64(), 0.01);
}

#[test]
fn the_lock_of_a_device_is_shared_by_its_cores() {
    let mut machine = machine("bxi-v2", 5, &[]);
    machine.ip.cores = 4;
    machine.ip.lock = NS * 4000;
    // Of the receiver, for each packet.
    let flows = || (1..5).map(|from| datagrams(from, 0, 8000, None)).collect();
    close(rate(&machine, flows()), 8000.0 / 4e-6, 0.02);
    // Without it each core takes one in a microsecond, and the link is the limit.
    machine.ip.lock = SimTime::ZERO;
    assert!(rate(&machine, flows()) > 10e9);
}

#[test]
fn a_tunnel_puts_what_waits_into_one_message() {
    let mut machine = machine("bxi-v2", 2, &[]);
    machine.ip.tunnel.enabled = true;
    machine.ip.tunnel.packet = NS * 10_000;
    let messages = |machine: &Machine| {
        let report = on(machine, vec![datagrams(0, 1, 1000, Some(300_000))], |_| {}).unwrap();
        assert_eq!(report.flows[0].counts.received, 300);
        report.messages
    };
    // The program sends one in 1 us, the tunnel takes 10 us for one: 62 of 1054 B in 64 KiB.
    assert!(messages(&machine) < 12, "{} messages", messages(&machine));
    machine.ip.tunnel.batch = Bytes(1);
    assert_eq!(messages(&machine), 300);
}

#[test]
fn full_rings_and_sockets_drop_datagrams_and_nothing_is_lost_unseen() {
    let mut slow = machine("bxi-v2", 3, &[]);
    slow.ip.receive = NS * 5000;
    slow.ip.receive_ring = 3;
    let sent = || vec![datagrams(0, 2, 1000, Some(1_000_000)), datagrams(1, 2, 1000, Some(500_000))];
    let report = on(&slow, sent(), |_| {}).unwrap();
    for (flow, packets) in report.flows.iter().zip([1000, 500]) {
        assert_eq!((flow.counts.sent, flow.counts.received + flow.counts.drops()), (packets, packets));
        assert!(flow.counts.ring_drops > 100 && flow.counts.socket_drops == 0, "{:?}", flow.counts);
    }
    let mut slow = machine("bxi-v2", 3, &[]);
    slow.ip.copy_bandwidth.0 = 100_000_000;
    slow.ip.window = Bytes(3000);
    let report = on(&slow, sent(), |_| {}).unwrap();
    let counts = report.flows[0].counts;
    assert_eq!(counts.received + counts.drops(), 1000);
    assert!(counts.socket_drops > 100 && counts.ring_drops == 0, "{counts:?}");
}

#[test]
fn a_gateway_adds_its_stages() {
    let set = ["hosts=2", "node=3", "packet=5us", "latency=7us", "bandwidth=1GB/s"].map(|key| format!("ip.gateway.{key}"));
    let machine = machine("bxi-v2", 4, &set);
    let bytes = 1000;
    let mut ip_only = machine.clone();
    ip_only.ip.gateway.hosts = 0;
    // To another node at the same switch there are two NICs; the gateway's host has none.
    let direct = round_trip(&ip_only, pings(0, 3, bytes));
    let found = round_trip(&machine, pings(0, 5, bytes));
    // 38 B of Ethernet and 40 B of IP around the payload, each way.
    let line = SimTime::from_ns(bytes + 78);
    assert_eq!(found, direct + (NS * (5000 + 7000) + line) * 2, "both ways wait for the gateway and its link");
    // Its link is the limit of a stream; of datagrams what does not fit is dropped there.
    let payload = 8000;
    close(rate(&machine, vec![stream(0, 4, payload, None)]), 1e9 * payload as f64 / (payload + 78) as f64, 0.02);
    close(rate(&machine, vec![stream(5, 1, payload, None)]), 1e9 * payload as f64 / (payload + 78) as f64, 0.02);
    let report = on(&machine, vec![datagrams(0, 4, payload, Some(80_000_000))], |_| {}).unwrap();
    let counts = report.flows[0].counts;
    assert!(counts.gateway_drops > 1000 && counts.received + counts.drops() == 10_000, "{counts:?}");
    // Forwarding, where that takes longer.
    let mut slow = machine.clone();
    slow.ip.gateway.packet = NS * 100_000;
    close(rate(&slow, vec![stream(0, 4, payload, None)]), payload as f64 / 100e-6, 0.03);
}

#[test]
fn a_polled_core_is_busy_and_a_sleeping_one_is_late() {
    let mut machine = machine("exanest-qfdb", 4, &[]);
    let run = |machine: &Machine| on(machine, vec![pings(0, 1, 56)], |_| {}).unwrap();
    let polling = run(&machine);
    let share = polling.hosts[0].cpu.tunnel.as_s_f64() / polling.measured.as_s_f64();
    assert!((share - 1.0).abs() < 1e-9, "{share} of a core");
    machine.ip.receiver = Receiver::Sleep;
    let sleep = run(&machine);
    assert!(sleep.hosts[0].cpu.tunnel.as_s_f64() < 0.01 * sleep.measured.as_s_f64());
    let mean = |report: &narrows_ip::Report| report.flows[0].round_trips.mean().unwrap();
    // Two sleeps of at most 1.4 ms at least, half of one each on average.
    assert!(mean(&sleep) > mean(&polling) + 0.7e9, "{} ps", mean(&sleep));
}
