//! The LogGP network: latency per path, a gap per message and per byte at both ends, nothing in between.
//!
//! A message waits for its sender's NIC, holds it for `max(g, payload G)`, needs `L` to the target, waits for the
//! target's NIC and holds that as long; NICs serve in the order of arrival. `L` and `G` come from the path (then a
//! message alone takes exactly as long as on the packet network) or are fixed. A multicast takes its sender's NIC once,
//! for the longest of its targets.
//!
//! Nothing happens between the two NICs, so each region has those of its hosts, and the whole latency of a way between
//! two regions is lookahead ([`lookahead`]).

use crate::config::{Derived, LogGpConfig, NetworkConfig};
use crate::endpoints::{Gate, Passage};
use crate::flights::{MAX_PAYLOAD, NONE};
use crate::packet::layout::Layout;
use crate::packet::region::Effects as _;
use crate::packet::state::NEVER;
use crate::parallel::{Agent, RegionEffects};
use crate::port::PortEffects as _;
use crate::timing::{self, Costs, ZeroLoad};
use crate::within::{Buses, Passes};
use crate::{Arrival, EventKind, Statistics, Transfer, Tree};
use narrows_engine::Arena;
use narrows_topology::{LinkClass, Topology, Vertex};
use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// See the module's page: the hosts of a region, and what is on its way to them.
#[derive(Debug)]
pub(crate) struct LogGpNetwork {
    region: u32,
    layout: Arc<Layout>,
    costs: Costs,
    config: LogGpConfig,
    virtual_networks: u8,
    /// By host of the region.
    hosts: Vec<Host>,
    coming: Arena<Coming>,
    known: Known,
    /// Of nodes with several processors.
    buses: Buses,
    statistics: Statistics,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    sends: Gate,
    receives: Gate,
    /// The path within the node.
    within: Gate,
    /// Messages that have passed the gate so far, or begun within the node: names them in events, so that of two at
    /// one time the same one is first however the network is cut. (Where it is not, slots do that, as they always have:
    /// nodes with several ranks, where the last byte of a copy and that of a message may come at one instant, are not
    /// cut.)
    passed: u32,
    /// The oldest of them that is not all there, and the newest.
    first: u32,
    last: u32,
}

impl Host {
    const IDLE: Host = Host { sends: Gate::IDLE, receives: Gate::IDLE, within: Gate::IDLE, passed: 0, first: NONE, last: NONE };
}

/// A message from or to a host of the region.
#[derive(Clone, Copy, Debug)]
struct Coming {
    arrival: Arrival,
    passage: Passage,
    /// Its source is not read, it is not there: how many of the two are so, and of this region.
    open: u8,
    /// Behind the gate: its number, and the next one of this host.
    number: u32,
    next: u32,
}

/// A message that has left its sender's gate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Flying {
    /// When its head is at the target's gate.
    pub(crate) at: u64,
    arrival: Arrival,
    passage: Passage,
}

impl Flying {
    /// No two that are under way have that in common.
    pub(crate) fn order(&self) -> (u64, u32, u32) {
        (self.at, self.arrival.source, self.arrival.id.0)
    }
}

/// What a message costs alone, how long it holds a NIC, and the links between switches on its way.
type Alone = (ZeroLoad, u64, u32);

/// What messages alike have cost: machines send few sizes over few lengths of ways.
#[derive(Debug)]
struct Known(Box<[Option<(u64, Alone)>; Known::PLACES]>);

impl Known {
    const PLACES: usize = 256;

    fn place(&mut self, class: u64) -> &mut Option<(u64, Alone)> {
        let place = class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        &mut self.0[place as usize]
    }
}

/// The region of every switch: each that has hosts by itself, several where there are more than so many.
pub(crate) fn regions(topology: &Topology, most: u32) -> Vec<u32> {
    let homes = homes(topology);
    let count = homes.iter().filter(|&&home| home).count() as u64;
    let regions = count.min(u64::from(most));
    let mut next = 0;
    let mut region = |&home: &bool| {
        next += u64::from(home);
        // Where others are does not matter.
        if home { ((next - 1) * regions / count) as u32 } else { 0 }
    };
    homes.iter().map(&mut region).collect()
}

/// By switch: it has hosts.
fn homes(topology: &Topology) -> Vec<bool> {
    let mut homes = vec![false; topology.switches() as usize];
    for host in 0..topology.hosts() {
        if let Vertex::Switch(switch) = topology.links()[topology.injection(host) as usize].to {
            homes[switch as usize] = true;
        }
    }
    homes
}

/// The least latency from one region to another.
pub(crate) fn lookahead(config: &NetworkConfig, layout: &Layout) -> u64 {
    if layout.regions == 1 {
        return NEVER;
    }
    if let Derived::Fixed(latency) = config.loggp.latency {
        return latency.as_ps();
    }
    let (costs, topology) = (Costs::new(config, &layout.topology), &layout.topology);
    let homes = homes(topology);
    let between_switches = topology.links().iter().filter_map(|link| match (link.from, link.to) {
        (Vertex::Switch(from), Vertex::Switch(to)) => Some((from, to, costs.link(link.speed).latency.as_ps())),
        _ => None,
    });
    let (mut least, mut links) = (NEVER, 2);
    for (from, to, latency) in between_switches {
        least = least.min(latency);
        let direct = homes[from as usize] && homes[to as usize] && layout.region_of[from as usize] != layout.region_of[to as usize];
        links = if direct { 1 } else { links };
    }
    let host = costs.link(LinkClass::Host.speed()).latency.as_ps();
    let header = costs.host_wire().time(costs.header);
    // Without a link between switches nothing goes from one to another.
    let switches = least.saturating_mul(links).saturating_add((links + 1) * costs.switch_latency);
    switches.saturating_add(2 * host + header)
}

impl LogGpNetwork {
    /// That of a region, from a configuration that [`NetworkConfig::check`] has passed.
    pub(crate) fn new(region: u32, config: &NetworkConfig, layout: Arc<Layout>) -> Self {
        let hosts = layout.hosts.iter().filter(|home| home.0 == region).count();
        let buses = Buses::new(&config.node_routes, hosts);
        LogGpNetwork {
            region,
            costs: Costs::new(config, &layout.topology),
            config: config.loggp,
            virtual_networks: config.virtual_networks,
            layout,
            hosts: vec![Host::IDLE; hosts],
            coming: Arena::new(),
            known: Known(Box::new([None; Known::PLACES])),
            buses,
            statistics: Statistics::default(),
        }
    }

    /// The same as of messages like it before.
    fn known(&mut self, transfer: &Transfer) -> Alone {
        let Some(class) = self.costs.class_of(&self.layout.topology, transfer) else { return self.alone(transfer) };
        match *self.known.place(class) {
            Some((of, alone)) if of == class => alone,
            _ => {
                let alone = self.alone(transfer);
                *self.known.place(class) = Some((class, alone));
                alone
            }
        }
    }

    /// What the message costs on an empty network.
    fn alone(&self, transfer: &Transfer) -> Alone {
        let Transfer { payload: Bytes(payload), source_dma, .. } = *transfer;
        let timing::Alone { times: path, narrowest, links } = self.costs.alone(&self.layout.topology, transfer);
        let body = match self.config.rate {
            Derived::FromPath => narrowest,
            Derived::Fixed(rate) => rate.time_for(Bytes(payload)).as_ps(),
        };
        let head = match self.config.latency {
            Derived::FromPath => path.head,
            Derived::Fixed(latency) => latency,
        };
        // From the path, the time between head and tail is what the packet network has. A fixed G leaves payload times
        // G.
        let tail = match self.config.rate {
            Derived::FromPath => head + (path.tail - path.head),
            Derived::Fixed(_) => head + SimTime(body),
        };
        let source_done = match self.config.rate {
            Derived::FromPath => path.source_done,
            Derived::Fixed(_) => SimTime(if source_dma { body } else { 0 }),
        };
        (ZeroLoad { source_done, head, tail }, body.max(self.config.gap.as_ps()), links)
    }

    fn host(&mut self, host: u32) -> &mut Host {
        &mut self.hosts[self.layout.hosts[host as usize].1 as usize]
    }

    /// Sends a transfer at `now` from a host of the region.
    pub(crate) fn start<A: Agent>(&mut self, now: SimTime, transfer: &Transfer, effects: &mut RegionEffects<A>) {
        self.count(transfer);
        if transfer.stays_within() {
            return self.start_within(now, transfer, effects);
        }
        let (alone, holds, links) = self.known(transfer);
        let packets = self.costs.packets(transfer.payload.0);
        self.statistics.packets += packets;
        self.statistics.packet_hops += packets * (u64::from(links) + 2);
        let begin = self.host(transfer.source).sends.pass(now.as_ps(), holds);
        let read = reads(transfer).then_some(SimTime(begin) + alone.source_done);
        self.travel(begin + alone.head.as_ps(), arrival(now, transfer), Passage::new(&alone, holds), read, effects);
    }

    fn count(&mut self, transfer: &Transfer) {
        let hosts = self.layout.hosts.len() as u32;
        assert!(transfer.source < hosts && transfer.target < hosts, "{transfer:?}: the network has {hosts} nodes");
        assert!(transfer.virtual_network < self.virtual_networks, "{transfer:?}: {} virtual networks", self.virtual_networks);
        assert!(transfer.payload.0 <= MAX_PAYLOAD, "{transfer:?}: a message has at most {MAX_PAYLOAD} bytes");
        self.statistics.transfers += 1;
        self.statistics.bytes += transfer.payload.0;
    }

    /// Between ranks of one node.
    fn start_within<A: Agent>(&mut self, now: SimTime, transfer: &Transfer, effects: &mut RegionEffects<A>) {
        self.statistics.intra_node += 1;
        let passes = if transfer.route == 0 {
            let (copy, latency) = (self.costs.intra_node_copy(transfer.payload.0), self.costs.intra_node_latency());
            let begin = SimTime(self.host(transfer.source).within.pass(now.as_ps(), copy));
            Passes { begin, copied: begin + SimTime(copy), latency }
        } else {
            let local = self.layout.hosts[transfer.source as usize].1 as usize;
            self.buses.pass(now, local, transfer.route, transfer.payload)
        };
        let arrival = arrival(now, transfer);
        let slot = self.open(arrival, Passage::default(), true, reads(transfer).then_some(passes.copied), effects);
        let number = self.pass(transfer.target, slot);
        schedule_arrival(passes.head(), passes.tail(), &arrival, number, effects);
    }

    /// A message whose head is at the target's gate at `at`; `read`: when its source has been read, if it is.
    fn travel<A: Agent>(&mut self, at: u64, arrival: Arrival, passage: Passage, read: Option<SimTime>, effects: &mut RegionEffects<A>) {
        let region = self.layout.hosts[arrival.target as usize].0;
        if region == self.region {
            let slot = self.open(arrival, passage, true, read, effects);
            return effects.schedule(at, EventKind::Arrive, arrival.source, slot);
        }
        if read.is_some() {
            self.open(arrival, passage, false, read, effects);
        }
        effects.depart(region, Flying { at, arrival, passage });
    }

    /// A message that `comes` to a host of the region, or whose source is in it and read then.
    fn open<A: Agent>(
        &mut self,
        arrival: Arrival,
        passage: Passage,
        comes: bool,
        read: Option<SimTime>,
        effects: &mut RegionEffects<A>,
    ) -> u32 {
        let open = u8::from(comes) + u8::from(read.is_some());
        let slot = self.coming.insert(Coming { arrival, passage, open, number: 0, next: NONE });
        if let Some(read) = read {
            effects.schedule(read.as_ps(), EventKind::SourceDone, arrival.source, slot);
        }
        slot
    }

    /// Its source has been read, or it is there.
    fn close(&mut self, slot: u32) {
        self.coming[slot].open -= 1;
        if self.coming[slot].open == 0 {
            self.coming.remove(slot);
        }
    }

    /// A message from another region has left its sender's gate.
    pub(crate) fn land<A: Agent>(&mut self, flying: &Flying, effects: &mut RegionEffects<A>) {
        let &Flying { at, arrival, passage } = flying;
        let slot = self.open(arrival, passage, true, None, effects);
        effects.schedule(at, EventKind::Arrive, arrival.source, slot);
    }

    /// Whether what has come from another process is for a host of the region.
    pub(crate) fn takes(&self, Flying { arrival, .. }: &Flying) -> bool {
        let region = |host: u32| self.layout.hosts.get(host as usize).map(|home| home.0);
        region(arrival.source).is_some() && region(arrival.target) == Some(self.region)
    }

    /// Sends one message to all targets of a tree, where there is one region. Its memory is read once.
    pub(crate) fn multicast<A: Agent>(&mut self, now: SimTime, tree: &Tree, transfer: &Transfer, effects: &mut RegionEffects<A>) {
        let packets = self.costs.packets(transfer.payload.0);
        self.statistics.packets += packets;
        self.statistics.packet_hops += packets * tree.len();
        let transfers: Vec<Transfer> = tree.targets().iter().map(|&target| Transfer { target, ..*transfer }).collect();
        let costs: Vec<Alone> = transfers.iter().map(|transfer| self.alone(transfer)).collect();
        let longest = costs.iter().map(|(_, holds, _)| *holds).max().unwrap_or_default();
        let begin = self.host(tree.source()).sends.pass(now.as_ps(), longest);
        for (place, (transfer, (alone, holds, _))) in transfers.iter().zip(&costs).enumerate() {
            self.count(transfer);
            let read = (place == 0 && reads(transfer)).then_some(SimTime(begin) + alone.source_done);
            self.travel(begin + alone.head.as_ps(), arrival(now, transfer), Passage::new(alone, *holds), read, effects);
        }
    }

    /// Takes an event that it scheduled, at the time for which it did.
    #[inline]
    pub(crate) fn handle<A: Agent>(&mut self, now: SimTime, (kind, host, payload): (EventKind, u32, u32), effects: &mut RegionEffects<A>) {
        match kind {
            EventKind::Arrive => self.arrive(now, payload, effects),
            EventKind::SourceDone => {
                effects.tell_source_done(&self.coming[payload].arrival);
                self.close(payload);
            }
            EventKind::Head => {
                let (_, slot) = self.find(host, payload);
                effects.head(&self.coming[slot].arrival);
            }
            EventKind::Tail => {
                let arrival = self.take(host, payload);
                effects.tail(&arrival);
            }
            EventKind::HeadAndTail => {
                let arrival = self.take(host, payload);
                effects.head(&arrival);
                effects.tail(&arrival);
            }
            _ => unreachable!("not an event of the LogGP network: {kind:?}"),
        }
    }

    /// The head of a message is at the target's gate.
    fn arrive<A: Agent>(&mut self, now: SimTime, slot: u32, effects: &mut RegionEffects<A>) {
        let Coming { arrival, passage, .. } = self.coming[slot];
        let (head, tail) = passage.through(&mut self.host(arrival.target).receives, now);
        if head == now && tail == now {
            self.close(slot);
            effects.head(&arrival);
            return effects.tail(&arrival);
        }
        let number = self.pass(arrival.target, slot);
        if head > now {
            return schedule_arrival(head, tail, &arrival, number, effects);
        }
        effects.head(&arrival);
        effects.schedule(tail.as_ps(), EventKind::Tail, arrival.target, number);
    }

    /// A message has passed the gate of a host; its number.
    fn pass(&mut self, host: u32, slot: u32) -> u32 {
        let is_whole = self.is_whole();
        let of = self.host(host);
        let (number, before) = (if is_whole { slot } else { of.passed }, of.last);
        (of.passed, of.last) = (of.passed.wrapping_add(1), slot);
        match before {
            NONE => of.first = slot,
            before => self.coming[before].next = slot,
        }
        self.coming[slot].number = number;
        number
    }

    /// The message of a number, and the one before it. Most are the first, and few are there.
    fn find(&mut self, host: u32, number: u32) -> (u32, u32) {
        let (mut before, mut slot) = (NONE, self.host(host).first);
        while self.coming[slot].number != number {
            (before, slot) = (slot, self.coming[slot].next);
        }
        (before, slot)
    }

    /// All of a message is there.
    fn take(&mut self, host: u32, number: u32) -> Arrival {
        let (before, slot) = self.find(host, number);
        let Coming { arrival, next, .. } = self.coming[slot];
        match before {
            NONE => self.host(host).first = next,
            before => self.coming[before].next = next,
        }
        if next == NONE {
            self.host(host).last = before;
        }
        self.close(slot);
        arrival
    }

    /// Which message is first of two at one instant does not depend on those before.
    pub(crate) fn rest(&mut self) {
        self.coming.forget_order();
        if self.coming.is_empty() {
            self.hosts.iter_mut().for_each(|host| host.passed = 0);
        }
    }

    /// An event is near.
    #[inline]
    pub(crate) fn prefetch(&self, kind: EventKind, payload: u32) {
        if matches!(kind, EventKind::Arrive | EventKind::SourceDone)
            && let Some(coming) = self.coming.places().get(payload as usize)
        {
            narrows_engine::prefetch(coming);
        }
    }

    /// Where an event is; 0 where there is none.
    #[inline]
    pub(crate) fn target(&self, kind: EventKind, place: u32, payload: u32) -> u32 {
        match kind {
            EventKind::Arrive => self.coming.places().get(payload as usize).map_or(0, |coming| coming.arrival.target),
            _ => place,
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.layout.topology
    }

    /// All hosts are in this region.
    pub(crate) fn is_whole(&self) -> bool {
        self.layout.regions == 1
    }

    /// What went over the network so far.
    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// When the notices of `transfer` come if it starts at time zero on an empty network.
    pub(crate) fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        if transfer.source == transfer.target {
            return self.costs.zero_load(&self.layout.topology, transfer);
        }
        self.alone(transfer).0
    }
}

/// Its source is read over PCIe.
fn reads(transfer: &Transfer) -> bool {
    transfer.source_dma && transfer.payload.0 > 0
}

fn arrival(now: SimTime, transfer: &Transfer) -> Arrival {
    let &Transfer { id, source, target, virtual_network, payload, .. } = transfer;
    Arrival { id, source, target, virtual_network, payload, started: now }
}

/// Head and tail; one event when they come together, or nobody hears of the head.
fn schedule_arrival<A: Agent>(head: SimTime, tail: SimTime, arrival: &Arrival, number: u32, effects: &mut RegionEffects<A>) {
    if head == tail {
        return effects.schedule(head.as_ps(), EventKind::HeadAndTail, arrival.target, number);
    }
    if effects.hears_head(arrival) {
        effects.schedule(head.as_ps(), EventKind::Head, arrival.target, number);
    }
    effects.schedule(tail.as_ps(), EventKind::Tail, arrival.target, number);
}
