//! Hosts that see packets: what is passed is as if nobody had looked, what is held holds the network, and each packet
//! is seen once.

use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use narrows_fabric::{
    Arrival, Checks, Congestion, Delivery, Fault, FlowControl, Fraction, LinkConfig, NetworkConfig, Observer, PauseConfig, Probability,
    Queueing, Reliability, Statistics, Swift, Transfer, TransferId,
};
use narrows_port::HostPorts;
use narrows_topology::{FatTree, RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MTU: u64 = 1000;
/// A full packet of 1,040 bytes on a link of 10 GB/s, and its latency.
const PACKET: SimTime = SimTime::from_ns(104);
const LATENCY: SimTime = SimTime::from_ns(10);
const DELAY: SimTime = SimTime::from_ns(700);

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Pass,
    /// Each packet that comes stays that much longer than it takes.
    Hold(SimTime),
    /// Each packet that goes does.
    HoldBack(SimTime),
    /// Of each packet that goes this is left.
    Cut(u64),
    /// Whatever the number of the message and the place in it say.
    Mixed,
}

/// What became of a packet: 0 to 3 as in [`Verdict`], and how often it is delayed before.
fn fate(id: TransferId, offset: Bytes) -> (u64, u64) {
    let mixed = (u64::from(id.0) << 32 | offset.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let what = if id.0 % 7 == 3 { 2 } else { mixed % 3 };
    (what, mixed / 3 % 3)
}

/// A message: host that it is for, its source and number.
type Name = (u32, u32, u32);

struct Hosts<const SEES: bool> {
    act: Act,
    acknowledge: Acknowledge,
    transfers: Vec<Transfer>,
    /// By message: the places of its packets, in the order in which they were seen first.
    seen: BTreeMap<Name, Vec<u64>>,
    delays: BTreeMap<(Name, u64), u64>,
    sent: BTreeMap<(u32, u32, u64), u32>,
    tails: Vec<(SimTime, Name)>,
}

impl<const SEES: bool> Observer for Hosts<SEES> {}

impl<const SEES: bool> Agent for Hosts<SEES> {
    const PACKETS: bool = SEES;
    type Event = ();
    type Letter = ();
    type Ports = HostPorts;

    fn timer(&mut self, _: u32, order: u32, (): (), fabric: &mut Context<'_>) {
        fabric.start(self.transfers[order as usize]);
    }

    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        self.tails.push((fabric.now(), (arrival.target, arrival.source, arrival.id.0)));
    }

    /// Host 3 does not look.
    fn sees(&self, host: u32) -> Option<Acknowledge> {
        (host != 3).then_some(self.acknowledge)
    }

    fn packet_in(&mut self, packet: &PacketIn, fabric: &mut Context<'_>) -> Verdict {
        let PacketIn { arrival, offset, payload, tail, again, .. } = *packet;
        let name = (arrival.target, arrival.source, arrival.id.0);
        let within = arrival.source == arrival.target;
        let rest = if within { arrival.payload.0 } else { MTU.min(arrival.payload.0 - offset.0) };
        let length = if matches!(self.act, Act::Mixed | Act::Cut(_)) && !within { payload.0 } else { rest };
        assert_eq!((payload.0, packet.is_first()), (length, offset.0 == 0));
        assert_eq!(packet.last, offset.0 + rest == arrival.payload.0);
        if !again {
            self.seen.entry(name).or_default().push(offset.0);
        }
        match self.act {
            Act::Hold(time) if !again => Verdict::DelayUntil(tail + time),
            Act::Mixed => {
                let (what, delays) = fate(arrival.id, offset);
                let delayed = self.delays.entry((name, offset.0)).or_default();
                assert_eq!(again, *delayed > 0);
                if *delayed < delays {
                    *delayed += 1;
                    return Verdict::DelayUntil(fabric.now() + SimTime::from_ns(150 * delays));
                }
                match what {
                    0 => Verdict::Pass,
                    1 => Verdict::Rewrite(Bytes(offset.0 / 3)),
                    _ => Verdict::Consume,
                }
            }
            _ => Verdict::Pass,
        }
    }

    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        let PacketOut { id, source, message, offset, payload, .. } = *packet;
        assert_eq!(payload.0, MTU.min(message.0 - offset.0));
        let seen = self.sent.entry((source, id.0, offset.0)).or_default();
        *seen += 1;
        match self.act {
            Act::HoldBack(time) if *seen == 1 => Passage::DelayUntil(now + time),
            Act::Cut(length) => Passage::Rewrite(Bytes(length)),
            Act::Mixed => match fate(id, Bytes(offset.0 + 7)) {
                (0, delays) if u64::from(*seen) <= delays => Passage::DelayUntil(now + SimTime::from_ns(90)),
                (1, _) => Passage::Rewrite(Bytes(payload.0 / 2)),
                _ => Passage::Pass,
            },
            _ => Passage::Pass,
        }
    }
}

#[derive(PartialEq, Debug)]
struct Outcome {
    digest: u64,
    statistics: Statistics,
    tails: Vec<(SimTime, Name)>,
    seen: BTreeMap<Name, Vec<u64>>,
    sent: BTreeMap<(u32, u32, u64), u32>,
}

impl Outcome {
    fn end(&self) -> SimTime {
        self.tails.last().unwrap().0
    }
}

struct Run<'a> {
    config: &'a NetworkConfig,
    topology: Topology,
    transfers: &'a [(SimTime, Transfer)],
    act: Act,
    acknowledge: Acknowledge,
}

impl Run<'_> {
    /// And the events.
    fn run<const SEES: bool>(&self, regions: Vec<u32>, threads: usize) -> (Outcome, u64) {
        let Run { act, acknowledge, transfers, .. } = *self;
        let all: Vec<Transfer> = transfers.iter().map(|&(_, transfer)| transfer).collect();
        let hosts = |_: &[u32]| Hosts::<SEES> {
            act,
            acknowledge,
            transfers: all.clone(),
            seen: BTreeMap::new(),
            delays: BTreeMap::new(),
            sent: BTreeMap::new(),
            tails: Vec::new(),
        };
        let mut fabric = Fabric::with_regions(self.config, self.topology.clone(), regions, hosts).unwrap();
        for (order, (at, transfer)) in (0..).zip(transfers) {
            fabric.timer(*at, transfer.source, order, ());
        }
        // Every now and then the buffers are counted.
        for until in [3, 10, 30, 1_000_000] {
            fabric.run_until(SimTime::from_us(until), threads);
            fabric.audit().unwrap();
        }
        assert_eq!(fabric.live_packets(), 0);
        let (digest, statistics, events) = (fabric.digest(), fabric.statistics(), fabric.events());
        let mut outcome = Outcome { digest, statistics, tails: Vec::new(), seen: BTreeMap::new(), sent: BTreeMap::new() };
        for hosts in fabric.agents() {
            outcome.tails.append(&mut hosts.tails);
            outcome.seen.append(&mut hosts.seen);
            outcome.sent.append(&mut hosts.sent);
        }
        outcome.tails.sort_unstable();
        (outcome, events)
    }

    fn whole(&self) -> Outcome {
        self.run::<true>(vec![0; self.topology.switches() as usize], 1).0
    }
}

fn transfer(id: u32, source: u32, target: u32, payload: u64) -> Transfer {
    Transfer {
        id: TransferId(id),
        source,
        target,
        virtual_network: 0,
        payload: Bytes(payload),
        source_dma: false,
        target_dma: false,
        route: 0,
    }
}

fn config(buffer_packets: u64) -> NetworkConfig {
    let link = LinkConfig { rate: ByteRate(10_000_000_000), latency: LATENCY };
    NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        mtu: Bytes(MTU),
        header: Bytes(40),
        switch_latency: SimTime::ZERO,
        pcie_rate: ByteRate(20_000_000_000),
        buffer_per_channel: Bytes(buffer_packets * (MTU + 40)),
        ..NetworkConfig::default()
    }
}

/// When a message of so many packets from host 0 to host 1 of one switch is there.
fn time(config: &NetworkConfig, act: Act, packets: u64) -> SimTime {
    time_of(config, act, transfer(0, 0, 1, packets * MTU))
}

fn time_of(config: &NetworkConfig, act: Act, transfer: Transfer) -> SimTime {
    let transfers = [(SimTime::ZERO, transfer)];
    let topology = FatTree::one_switch(4).unwrap().build();
    Run { config, topology, transfers: &transfers, act, acknowledge: Acknowledge::Done }.whole().end()
}

/// With room for one packet a link carries one per round trip and the time that the host keeps it.
#[test]
fn one_credit_carries_a_packet_per_round_trip_and_delay() {
    let config = config(1);
    let per_packet = PACKET + LATENCY * 2 + DELAY;
    let one = time(&config, Act::Hold(DELAY), 1);
    assert_eq!(one, time(&config, Act::Pass, 1) + DELAY);
    assert_eq!(time(&config, Act::Hold(DELAY), 50), one + per_packet * 49);
    assert_eq!(time(&config, Act::Pass, 50), time(&config, Act::Pass, 1) + (PACKET + LATENCY * 2) * 49);
}

/// The same with pause frames, each of which takes its time on the wire and at the sender: the first one is there
/// before the packet has left that it is about.
#[test]
fn pause_frames_carry_the_delay_to_the_sender() {
    let response = SimTime::from_ns(9);
    let pause = PauseConfig { xoff: Bytes(MTU + 40), xon: Bytes(1), frame: Bytes(60), response, ..PauseConfig::default() };
    let config = NetworkConfig { flow_control: FlowControl::Pause(pause), ..config(8) };
    let per_packet = PACKET + LATENCY * 2 + SimTime::from_ns(6) + response + DELAY;
    let one = time(&config, Act::Hold(DELAY), 1);
    assert_eq!(time(&config, Act::Hold(DELAY), 50), one + per_packet * 49);
}

/// A packet that was read and is held back holds its link, others do not; one of another length takes the time of that.
#[test]
fn packets_that_go_are_held_and_cut() {
    let config = config(64);
    for (source_dma, delays) in [(true, 50), (false, 1)] {
        let time = |act| time_of(&config, act, Transfer { source_dma, ..transfer(0, 0, 1, 50 * MTU) });
        assert_eq!(time(Act::HoldBack(DELAY)), time(Act::Pass) + DELAY * delays);
    }
    let short = SimTime::from_ns(14);
    assert_eq!(time(&config, Act::Cut(100), 50), time(&config, Act::Cut(100), 1) + short * 49);
}

fn tree() -> Topology {
    FatTree::k_ary_n_tree(4, 2).unwrap().build()
}

/// Losses, many ways, few buffers, whatever there is.
fn networks() -> impl Strategy<Value = NetworkConfig> {
    let flows = (prop_oneof![Just(Delivery::Ordered), Just(Delivery::Unordered)], 1u32..40, 0.0..0.1f64, any::<bool>());
    let pauses = prop_oneof![Just(FlowControl::Credits), Just(FlowControl::Pause(PauseConfig::default()))];
    let plain = (any::<bool>(), any::<bool>(), any::<bool>(), 1u64..6, any::<u64>());
    (prop::option::of(flows), pauses, plain).prop_map(|(flows, flow_control, (adaptive, fifo, in_order, buffers, seed))| {
        let pauses = flow_control != FlowControl::Credits;
        let mut network = NetworkConfig { flow_control, in_order, seed, ..config(if pauses { 60 } else { buffers }) };
        network.queueing = if fifo { Queueing::Fifo } else { Queueing::VirtualOutput };
        network.routing = if adaptive { RoutingKind::Adaptive } else { RoutingKind::DModK };
        if let Some((delivery, window, loss, swift)) = flows {
            let us = SimTime::from_us;
            let swift = swift.then(|| Swift {
                base_target: us(5),
                per_hop: SimTime::from_ns(100),
                flow_range: us(10),
                additive_increase: Fraction(1_000_000),
                beta: Fraction(800_000),
                most_decrease: Fraction(500_000),
            });
            network.faults = vec![Fault { loss: Probability::new(loss).unwrap(), ..Fault::default() }];
            network.routing = if delivery == Delivery::Ordered { RoutingKind::DModK } else { network.routing };
            network.reliability = Some(Reliability {
                window,
                room: 0,
                timeout: us(20),
                retries: 1000,
                ack: Bytes(24),
                delivery,
                unordered: 0,
                flows: 0,
                checks: Checks::default(),
                congestion: swift.map_or(Congestion::None, Congestion::Swift),
            });
        }
        network
    })
}

fn messages() -> impl Strategy<Value = Vec<(SimTime, Transfer)>> {
    let message = (0u32..16, 0u32..16, prop_oneof![Just(0), 1u64..3_000, 1u64..30_000], 0u64..20_000, any::<(bool, bool)>(), 0u8..4);
    prop::collection::vec(message, 1..40).prop_map(|list| {
        let message = |(id, (source, target, payload, at, (source_dma, target_dma), virtual_network))| {
            (SimTime::from_ns(at / 52 * 52), Transfer { source_dma, target_dma, virtual_network, ..transfer(id, source, target, payload) })
        };
        (0..).zip(list).map(message).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Hosts that look and let everything pass change nothing but the number of events.
    #[test]
    fn what_is_passed_is_as_if_nobody_had_looked(config in networks(), transfers in messages(), done: bool) {
        let acknowledge = if done { Acknowledge::Done } else { Acknowledge::Accepted };
        // What is acknowledged as it is accepted is not in memory yet.
        prop_assume!(done || config.reliability.is_none());
        let run = Run { config: &config, topology: tree(), transfers: &transfers, act: Act::Pass, acknowledge };
        let switches = run.topology.switches();
        let (blind, _) = run.run::<false>(vec![0; switches as usize], 1);
        let (sees, _) = run.run::<true>((0..switches).map(|switch| switch % 3).collect(), 2);
        prop_assert_eq!((sees.digest, sees.statistics, sees.tails), (blind.digest, blind.statistics, blind.tails));
    }

    /// Whatever hosts do with packets, over links that lose them, on any regions: each is seen once, those of a message
    /// on an ordered flow in their order, and a message of which something has gone on ends.
    #[test]
    fn each_packet_is_seen_once(config in networks(), transfers in messages(), done: bool) {
        let acknowledge = if done { Acknowledge::Done } else { Acknowledge::Accepted };
        let run = Run { config: &config, topology: tree(), transfers: &transfers, act: Act::Mixed, acknowledge };
        let switches = run.topology.switches();
        let whole = run.whole();
        let (parts, _) = run.run::<true>((0..switches).map(|switch| switch % 3).collect(), 2);
        prop_assert_eq!(&parts, &whole);
        let (each, _) = run.run::<true>((0..switches).collect(), 1);
        prop_assert_eq!(&each, &whole);
        let ordered = config.reliability.is_some_and(|reliability| reliability.delivery == Delivery::Ordered);
        let tails: Vec<Name> = whole.tails.iter().map(|&(_, name)| name).collect();
        for &(_, Transfer { id, source, target, payload: Bytes(payload), source_dma, .. }) in &transfers {
            let offsets: Vec<u64> = (0..payload.div_ceil(MTU).max(1)).map(|packet| packet * MTU).collect();
            let within = source == target;
            let of = if within { &offsets[..1] } else { &offsets[..] };
            let name = (target, source, id.0);
            let mut seen = whole.seen.get(&name).cloned().unwrap_or_default();
            // What needs no reading passes what is held back.
            if !ordered || !source_dma && source != 3 {
                seen.sort_unstable();
            }
            prop_assert_eq!(&seen, if target == 3 { &of[..0] } else { of });
            let goes_on = target == 3 || of.iter().any(|&offset| fate(id, Bytes(offset)).0 < 2);
            prop_assert_eq!(tails.iter().filter(|&&other| other == name).count(), usize::from(goes_on));
            if !within && source != 3 {
                for &offset in &offsets {
                    let (what, delays) = fate(id, Bytes(offset + 7));
                    let times = if what == 0 { delays + 1 } else { 1 };
                    prop_assert_eq!(whole.sent.get(&(source, id.0, offset)).copied(), Some(times as u32));
                }
            }
        }
    }
}
