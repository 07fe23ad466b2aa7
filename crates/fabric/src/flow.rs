//! The flow network: messages as fluids that share PCIe and links max-min fairly.
//!
//! A message larger than [`FlowConfig::direct_up_to`](crate::FlowConfig::direct_up_to) is a flow over the PCIe of both
//! nodes and the links of its path. Its rate counts payload; on a link it takes more by its headers. When its last byte
//! has drained it still needs what the packet network would need to fill its stages, so that a message alone takes the
//! same time on both. Smaller messages skip the solver: they pass the gates of the NICs at both ends, first come, first
//! served, and neither take bandwidth from flows nor lose any to them.
//!
//! **The path** is that of the routing. Where a routing spreads the packets of one message over several links (adaptive
//! routing does), these links are one resource with the sum of their rates: perfect spreading.
//!
//! **A multicast** is one flow over all links of its tree and the PCIe of all its targets: the narrowest of them gives
//! its rate.
//!
//! **Rates** are integers (bytes per second), times picoseconds, and what is left of a flow 10^-12 bytes: byte per
//! second times picosecond. Starts and ends of one instant are solved together, a picosecond later. An allocation is
//! max-min fair when it fits and every flow has a *bottleneck*: a full resource on which no other flow is faster. So
//! after a change only flows that lost their bottleneck are solved again, with the others fixed, and when a fixed one
//! is found without a bottleneck after that, it joins them. Equality is judged to 1 in 2^18.

mod watch;

use crate::config::{ConfigError, NetworkConfig};
use crate::endpoints::Endpoints;
use crate::flights::{Flights, NONE};
use crate::timing::{Alone, Costs, ZeroLoad};
use crate::{Event, EventKind, Observer, Out, Statistics, Transfer, Tree};
use narrows_topology::{RouteState, Routing, Topology, Vertex};
use narrows_units::{Bytes, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Weights of flows and capacities have this many bits below the point.
const WEIGHT_BITS: u32 = 16;
const ONE: u64 = 1 << WEIGHT_BITS;
/// In one solve, shares that differ by less than 1 in 2^this get one rate, the lowest of them: symmetric flows then end
/// at the same picosecond and are solved together.
const SNAP_BITS: u32 = 20;
/// Rates are taken as equal when they differ by less than 1 in 2^this.
const EQUAL_BITS: u32 = 18;
/// After so many rounds, all flows on the resources at hand are solved: a chain of changes has no end in sight.
const ROUNDS: u32 = 8;
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct ResourceUse {
    resource: u32,
    /// Where the flow stands in the list of the resource.
    position: u32,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    active: bool,
    /// Payload bytes per second.
    rate: u64,
    /// Bytes on a link per byte of payload, with [`WEIGHT_BITS`].
    link_weight: u64,
    /// What is left at `since`, in 10^-12 bytes: up to the end of reading, or what comes behind it.
    left: u128,
    /// What is in buffers when all has been read.
    buffered: u128,
    since: u64,
    started: u64,
    /// So long a single way takes: only what is spread over several links drains earlier.
    narrowest: u64,
    /// When nothing of that will be left.
    finish: u64,
    /// The event that counts; others are out of date.
    event: u64,
    /// From the last byte drained to the last byte through.
    fill: u64,
    bottleneck: u32,
    /// The solve that it was part of last.
    epoch: u64,
    /// Rate before that solve.
    before: u64,
    frozen: bool,
    path: Vec<ResourceUse>,
    /// Of a multicast: the transfers of all targets, and [`Flow::fill`] of each.
    copies: Vec<(u32, u64)>,
}

impl Flow {
    /// When nothing will be left, from `now` on.
    fn end(&self, now: u64) -> u64 {
        if self.rate == 0 {
            return NEVER;
        }
        u64::try_from(self.left.div_ceil(u128::from(self.rate))).unwrap_or(NEVER).saturating_add(now)
    }
}

/// What is in buffers when all of a message has been read that needs `narrowest` for its way and is read at
/// `source_done` if it is alone. Nothing where that is less than a hundredth (our own choice): it costs an event.
fn buffered(payload: u64, source_done: u64, narrowest: u64) -> u64 {
    let early = narrowest.saturating_sub(source_done);
    if early < narrowest / 100 {
        return 0;
    }
    (u128::from(payload) * u128::from(early) / u128::from(narrowest)) as u64
}

#[derive(Clone, Debug)]
struct Resource {
    /// Bytes per second, with [`WEIGHT_BITS`].
    capacity: u64,
    /// Sum of rate times weight.
    used: u64,
    flows: Vec<(u32, u32)>,
    dirty: bool,
    epoch: u64,
    /// In a solve: what is left for flows without a rate, and the sum of their weights.
    room: u64,
    weight: u64,
    /// In a solve: how many of its flows are solved.
    solved: u32,
    /// In a solve: the fastest solved flow, and the slowest that has its bottleneck here.
    fastest: u64,
    level: u64,
}

/// See the module's page.
#[derive(Debug)]
pub struct FlowNetwork {
    costs: Costs,
    topology: Topology,
    routing: Routing,
    direct_up_to: u64,
    flights: Flights,
    endpoints: Endpoints,
    /// Every flow over PCIe also takes the host link, and at least as much of it: a PCIe that is not slower never
    /// limits.
    pcie_limits: bool,
    /// By transfer slot.
    flows: Vec<Flow>,
    /// PCIe reads of all nodes, PCIe writes of all nodes, links.
    resources: Vec<Resource>,
    /// The resource of each link, less `2 * hosts`.
    bundles: Vec<u32>,
    dirty: Vec<u32>,
    started: Vec<u32>,
    solve_at: u64,
    epoch: u64,
    solving: Vec<u32>,
    touched: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    eye: Option<watch::Eye>,
}

fn tolerance(rate: u64) -> u64 {
    (rate >> EQUAL_BITS) + 1
}

impl FlowNetwork {
    /// The network that `config` describes, on `topology`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Self, ConfigError> {
        let routing = config.check(&topology)?;
        let costs = Costs::new(config, &topology);
        let hosts = topology.hosts();
        let resource = |rate: u64| Resource {
            capacity: rate << WEIGHT_BITS,
            used: 0,
            flows: Vec::new(),
            dirty: false,
            epoch: 0,
            room: 0,
            weight: 0,
            solved: 0,
            fastest: 0,
            level: 0,
        };
        let mut resources = vec![resource(costs.pcie_rate().0); 2 * hosts as usize];
        resources.extend(topology.links().iter().map(|_| resource(0)));
        let bundles = routing.bundles(&topology);
        for (link, &bundle) in topology.links().iter().zip(&bundles) {
            let capacity = &mut resources[(2 * hosts + bundle) as usize].capacity;
            let rate = if matches!(link.from, Vertex::Host(_)) { costs.injection_rate() } else { costs.link(link.speed).rate.0 };
            *capacity = capacity.saturating_add(rate << WEIGHT_BITS);
        }
        Ok(FlowNetwork {
            direct_up_to: config.flow.direct_up_to.0.max(config.mtu.0),
            flights: Flights::new(hosts, config.virtual_networks, &config.node_routes),
            endpoints: Endpoints::new(hosts),
            pcie_limits: config.pcie_rate < config.host_link.rate,
            flows: Vec::new(),
            resources,
            bundles,
            dirty: Vec::new(),
            started: Vec::new(),
            solve_at: NEVER,
            epoch: 0,
            solving: Vec::new(),
            touched: Vec::new(),
            heap: BinaryHeap::new(),
            eye: None,
            costs,
            topology,
            routing,
        })
    }

    /// Sends a transfer at `now`, which must be the time of `out`.
    pub fn start(&mut self, now: SimTime, transfer: Transfer, out: &mut impl Out) {
        if transfer.stays_within() {
            return self.flights.start_intra_node(now, transfer, &self.costs, out);
        }
        let slot = self.flights.open(transfer, out);
        let payload = transfer.payload.0;
        let Alone { times: alone, narrowest, links } = self.costs.alone(&self.topology, &transfer);
        let packets = self.costs.packets(payload);
        self.flights.statistics.packets += packets;
        self.flights.statistics.packet_hops += packets * (u64::from(links) + 2);
        if payload <= self.direct_up_to {
            self.tell_direct(now, &transfer);
            return self.endpoints.start(now, slot, alone, narrowest, &self.flights, out);
        }
        if self.flows.len() <= slot as usize {
            self.flows.resize(slot as usize + 1, Flow::default());
        }
        let FlowNetwork { routing, topology, flows, bundles, .. } = self;
        let flow = &mut flows[slot as usize];
        let hosts = topology.hosts();
        flow.path.clear();
        flow.copies.clear();
        let mut pass = |resource: u32| flow.path.push(ResourceUse { resource, position: 0 });
        if transfer.source_dma && self.pcie_limits {
            pass(transfer.source);
        }
        let mut state = RouteState::default();
        routing.walk(topology, transfer.source, transfer.target, &mut state, |_| 0, |link| pass(2 * hosts + bundles[link as usize]));
        if transfer.target_dma && self.pcie_limits {
            pass(hosts + transfer.target);
        }
        flow.narrowest = narrowest;
        flow.fill = alone.tail.as_ps().saturating_sub(narrowest);
        out.schedule(now + alone.head, transfer.source, Event::new(EventKind::Head, slot));
        let buffered = if transfer.source_dma { buffered(payload, alone.source_done.as_ps(), narrowest) } else { 0 };
        self.open(now, slot, payload, buffered, out);
    }

    /// Sends one message to all targets of a tree: `transfers` differ in their targets and numbers.
    pub(crate) fn multicast(&mut self, now: SimTime, tree: &Tree, transfers: &[Transfer], out: &mut impl Out) {
        let Transfer { source, payload: Bytes(payload), source_dma, target_dma, .. } = transfers[0];
        let packets = self.costs.packets(payload);
        self.flights.statistics.packets += packets;
        self.flights.statistics.packet_hops += packets * tree.len();
        let (mut copies, mut narrowest_of_all) = (Vec::with_capacity(transfers.len()), 0);
        for &transfer in transfers {
            let slot = self.flights.open(transfer, out);
            let Alone { times: alone, narrowest, .. } = self.costs.alone(&self.topology, &transfer);
            copies.push((slot, alone.tail.as_ps().saturating_sub(narrowest)));
            narrowest_of_all = narrowest.max(narrowest_of_all);
            out.schedule(now + alone.head, source, Event::new(EventKind::Head, slot));
        }
        let slot = copies[0].0;
        if self.flows.len() <= slot as usize {
            self.flows.resize(slot as usize + 1, Flow::default());
        }
        let FlowNetwork { topology, flows, bundles, pcie_limits, .. } = self;
        let flow = &mut flows[slot as usize];
        let hosts = topology.hosts();
        flow.path.clear();
        let mut pass = |resource: u32| flow.path.push(ResourceUse { resource, position: 0 });
        if source_dma && *pcie_limits {
            pass(source);
        }
        tree.links(topology).for_each(|link| pass(2 * hosts + bundles[link as usize]));
        if target_dma && *pcie_limits {
            tree.targets().iter().for_each(|target| pass(hosts + target));
        }
        (flow.narrowest, flow.fill) = (narrowest_of_all, 0);
        flow.copies = copies;
        // A message without payload: its headers count as those of one byte.
        self.open(now, slot, payload.max(1), 0, out);
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Shows `observer` the network at work from now on.
    pub(crate) fn observe(&mut self, observer: Box<dyn Observer + Send>) {
        self.eye = Some(watch::Eye::new(observer, &self.bundles));
    }

    /// Tells the observer of a message that shares no links.
    fn tell_direct(&mut self, now: SimTime, transfer: &Transfer) {
        let FlowNetwork { eye: Some(eye), routing, topology, bundles, costs, .. } = self else { return };
        let wire = transfer.payload.0 + costs.packets(transfer.payload.0) * u64::from(costs.header);
        let time = |link: u32| costs.link(topology.links()[link as usize].speed).rate.time_for(Bytes(wire));
        let mut state = RouteState::default();
        let tell = |link: u32| eye.begins(bundles[link as usize], wire, now, time);
        routing.walk(topology, transfer.source, transfer.target, &mut state, |_| 0, tell);
    }

    /// Tells the observer how much of a resource is taken, if it is a link.
    fn tell_taken(&mut self, resource: u32, now: SimTime) {
        if let Some(eye) = &mut self.eye
            && let Some(bundle) = resource.checked_sub(2 * self.topology.hosts())
        {
            let Resource { used, capacity, .. } = self.resources[resource as usize];
            eye.taken(bundle, used, capacity, now);
        }
    }

    /// The flow of `slot`, whose path is known, begins. Its source has read it when `buffered` bytes are left.
    fn open(&mut self, now: SimTime, slot: u32, payload: u64, buffered: u64, out: &mut impl Out) {
        let first_link = 2 * self.topology.hosts();
        let FlowNetwork { costs, resources, flows, eye, .. } = self;
        let flow = &mut flows[slot as usize];
        let wire = payload + costs.packets(payload) * u64::from(costs.header);
        flow.active = true;
        flow.rate = 0;
        flow.link_weight = ((u128::from(wire) << WEIGHT_BITS).div_ceil(u128::from(payload))) as u64;
        flow.buffered = u128::from(buffered) * 1_000_000_000_000;
        flow.left = u128::from(payload - buffered) * 1_000_000_000_000;
        flow.since = now.as_ps();
        flow.started = now.as_ps();
        flow.finish = NEVER;
        flow.event = NEVER;
        flow.bottleneck = NONE;
        for index in 0..flow.path.len() {
            let resource = &mut resources[flow.path[index].resource as usize];
            flow.path[index].position = resource.flows.len() as u32;
            resource.flows.push((slot, index as u32));
            if let Some(eye) = eye
                && let Some(bundle) = flow.path[index].resource.checked_sub(first_link)
            {
                eye.begins(bundle, wire, now, |_| SimTime::ZERO);
            }
        }
        self.started.push(slot);
        self.mark(slot);
        self.solve_later(now, out);
    }

    /// Of two flows that end at one instant the one with the lower slot is first: which they get from now on does not
    /// depend on those before.
    pub(crate) fn rest(&mut self) {
        self.flights.rest();
    }

    /// Takes an event that it scheduled, at the time for which it did.
    #[inline]
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        match event.parts() {
            (EventKind::Arrive, slot) => self.endpoints.arrive(now, slot, &mut self.flights, out),
            (EventKind::Wake, slot) => self.drain(now, slot, out),
            (EventKind::Solve, _) => self.solve(now, out),
            (kind, slot) => assert!(self.flights.handle(kind, slot, out), "not an event of the flow network: {event:?}"),
        }
    }

    /// What went over the network so far.
    pub fn statistics(&self) -> Statistics {
        self.flights.statistics
    }

    /// When the notices of `transfer` come if it starts at time zero on an empty network.
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.costs.zero_load(&self.topology, transfer)
    }

    /// The rates of all flows (transfer id, payload bytes per second) since the last solve.
    pub fn rates(&self) -> Vec<(crate::TransferId, u64)> {
        let active = self.flows.iter().enumerate().filter(|(_, flow)| flow.active);
        active.map(|(slot, flow)| (self.flights.transfer(slot as u32).id, flow.rate)).collect()
    }

    fn weight(resource: u32, first_link: u32, flow: &Flow) -> u64 {
        if resource < first_link { ONE } else { flow.link_weight }
    }

    fn mark(&mut self, slot: u32) {
        for place in &self.flows[slot as usize].path {
            let resource = &mut self.resources[place.resource as usize];
            if !resource.dirty {
                resource.dirty = true;
                self.dirty.push(place.resource);
            }
        }
    }

    /// Once for all starts and ends of an instant: a picosecond later, because other models may have more to start at
    /// this one.
    fn solve_later(&mut self, now: SimTime, out: &mut impl Out) {
        let at = now.as_ps() + 1;
        if self.solve_at != at {
            self.solve_at = at;
            out.schedule(SimTime(at), self.topology.hosts() + self.topology.switches(), Event::new(EventKind::Solve, 0));
        }
    }

    /// The time of a flow may have come.
    fn drain(&mut self, now: SimTime, slot: u32, out: &mut impl Out) {
        let flow = &mut self.flows[slot as usize];
        if !flow.active || flow.event != now.as_ps() {
            return;
        }
        if flow.finish <= now.as_ps() && flow.buffered > 0 {
            (flow.left, flow.buffered, flow.since) = (flow.buffered, 0, now.as_ps());
            flow.finish = flow.end(now.as_ps());
            self.flights.source_done(slot, out);
        }
        if flow.finish > now.as_ps() {
            flow.event = flow.finish;
            if flow.finish < NEVER {
                out.schedule(SimTime(flow.finish), self.flights.transfer(slot).source, Event::new(EventKind::Wake, slot));
            }
            return;
        }
        flow.active = false;
        flow.event = NEVER;
        let first_link = 2 * self.topology.hosts();
        for index in 0..self.flows[slot as usize].path.len() {
            let flow = &self.flows[slot as usize];
            let ResourceUse { resource, position } = flow.path[index];
            let weight = Self::weight(resource, first_link, flow);
            let rate = flow.rate;
            let state = &mut self.resources[resource as usize];
            state.used -= rate * weight;
            state.flows.swap_remove(position as usize);
            if let Some(&(moved, place)) = state.flows.get(position as usize) {
                self.flows[moved as usize].path[place as usize].position = position;
            }
        }
        if self.eye.is_some() {
            (0..self.flows[slot as usize].path.len())
                .for_each(|index| self.tell_taken(self.flows[slot as usize].path[index].resource, now));
        }
        self.mark(slot);
        let flow = &mut self.flows[slot as usize];
        let copies = std::mem::take(&mut flow.copies);
        let spread = (now.as_ps() - flow.started < flow.narrowest).then_some(flow.started);
        if copies.is_empty() {
            let fill = flow.fill;
            self.drained(now, slot, fill, spread, out);
        }
        copies.iter().for_each(|&(slot, fill)| self.drained(now, slot, fill, spread, out));
        self.solve_later(now, out);
    }

    /// The last byte of a transfer has left its source and will be through after `fill`. `spread`: it took several
    /// links at once, since then; but a packet takes one of them.
    fn drained(&mut self, now: SimTime, slot: u32, fill: u64, spread: Option<u64>, out: &mut impl Out) {
        let transfer = *self.flights.transfer(slot);
        let Transfer { source, payload, .. } = transfer;
        let mut through = now.as_ps() + fill;
        if let Some(started) = spread {
            let packet = Transfer { payload: payload.min(Bytes(u64::from(self.costs.mtu))), ..transfer };
            through = through.max(started + self.costs.alone(&self.topology, &packet).times.tail.as_ps());
        }
        if !self.flights.is_source_done(slot) {
            self.flights.source_done(slot, out);
        }
        out.schedule(SimTime(through), source, Event::new(EventKind::Tail, slot));
    }

    /// Puts a flow among those to be solved.
    fn include(&mut self, slot: u32) {
        let epoch = self.epoch;
        let flow = &mut self.flows[slot as usize];
        if flow.epoch == epoch {
            return;
        }
        flow.epoch = epoch;
        flow.before = flow.rate;
        self.solving.push(slot);
        for place in &flow.path {
            let resource = &mut self.resources[place.resource as usize];
            if resource.epoch != epoch {
                resource.epoch = epoch;
                self.touched.push(place.resource);
            }
        }
    }

    /// New rates after starts and ends.
    fn solve(&mut self, now: SimTime, out: &mut impl Out) {
        self.epoch += 1;
        self.solving.clear();
        self.touched.clear();
        let started = std::mem::take(&mut self.started);
        for &slot in &started {
            self.include(slot);
        }
        self.started = started;
        self.started.clear();
        let dirty = std::mem::take(&mut self.dirty);
        for &resource in &dirty {
            self.resources[resource as usize].dirty = false;
            for at in 0..self.resources[resource as usize].flows.len() {
                let slot = self.resources[resource as usize].flows[at].0;
                if self.flows[slot as usize].bottleneck == resource {
                    self.include(slot);
                }
            }
        }
        self.dirty = dirty;
        self.dirty.clear();
        for round in 0.. {
            self.fill();
            if !self.widen(round >= ROUNDS) {
                break;
            }
        }
        self.flights.statistics.solves += 1;
        self.flights.statistics.solved_flows += self.solving.len() as u64;
        self.apply(now, out);
    }

    /// Progressive filling of the flows at hand; the others keep their rates.
    fn fill(&mut self) {
        let FlowNetwork { flows, resources, solving, touched, heap, topology, .. } = self;
        let first_link = 2 * topology.hosts();
        for &resource in touched.iter() {
            let state = &mut resources[resource as usize];
            (state.room, state.weight, state.solved) = (state.capacity - state.used, 0, 0);
            (state.fastest, state.level) = (0, NEVER);
        }
        for &slot in solving.iter() {
            let flow = &mut flows[slot as usize];
            flow.frozen = false;
            for place in &flow.path {
                let weight = Self::weight(place.resource, first_link, flow);
                let state = &mut resources[place.resource as usize];
                state.room += flow.before * weight;
                state.weight += weight;
                state.solved += 1;
            }
        }
        if let [slot] = solving[..] {
            // One flow takes what there is; most solves of light traffic are like this.
            let flow = &mut flows[slot as usize];
            let shares = flow.path.iter().map(|place| {
                let state = &resources[place.resource as usize];
                (state.room / state.weight, place.resource)
            });
            let (share, resource) = shares.min().expect("a path has links");
            (flow.rate, flow.bottleneck) = (share, resource);
            for place in &flow.path {
                let weight = Self::weight(place.resource, first_link, flow);
                let state = &mut resources[place.resource as usize];
                state.room -= flow.rate * weight;
                state.fastest = flow.rate;
            }
            resources[resource as usize].level = flow.rate;
            return;
        }
        heap.clear();
        for &resource in touched.iter() {
            let state = &resources[resource as usize];
            if let Some(share) = state.room.checked_div(state.weight) {
                heap.push(Reverse((share, resource)));
            }
        }
        let mut rate = 0;
        while let Some(Reverse((share, resource))) = heap.pop() {
            let state = &resources[resource as usize];
            if state.weight == 0 {
                continue;
            }
            // Flows that got less elsewhere have left room since.
            let current = state.room / state.weight;
            if current > share {
                heap.push(Reverse((current, resource)));
                continue;
            }
            if current > rate + (rate >> SNAP_BITS) {
                rate = current;
            }
            for at in 0..resources[resource as usize].flows.len() {
                let slot = resources[resource as usize].flows[at].0;
                let flow = &mut flows[slot as usize];
                if flow.epoch != self.epoch || flow.frozen {
                    continue;
                }
                flow.frozen = true;
                flow.rate = rate;
                flow.bottleneck = resource;
                for place in &flow.path {
                    let weight = Self::weight(place.resource, first_link, flow);
                    let state = &mut resources[place.resource as usize];
                    state.room -= rate * weight;
                    state.weight -= weight;
                    state.fastest = state.fastest.max(rate);
                }
            }
            let state = &mut resources[resource as usize];
            state.level = state.level.min(rate);
        }
    }

    /// Includes fixed flows that have no bottleneck any more, or that are faster than a solved flow at its bottleneck.
    /// False when there are none: the rates are max-min fair.
    fn widen(&mut self, all: bool) -> bool {
        let before = self.solving.len();
        for index in 0..self.touched.len() {
            let resource = self.touched[index];
            let state = &self.resources[resource as usize];
            if state.solved as usize == state.flows.len() {
                continue;
            }
            let (fastest, level) = (state.fastest, state.level);
            // Full: what is left would not raise a fair share by more than the tolerance.
            let full = state.room < (state.capacity >> EQUAL_BITS).max(ONE * state.flows.len() as u64 * 2);
            for at in 0..self.resources[resource as usize].flows.len() {
                let slot = self.resources[resource as usize].flows[at].0;
                let flow = &self.flows[slot as usize];
                if flow.epoch == self.epoch {
                    continue;
                }
                let lost = flow.bottleneck == resource && (!full || fastest > flow.rate + tolerance(flow.rate));
                let unfair = level < NEVER && flow.rate > level + tolerance(level);
                if all || lost || unfair {
                    self.include(slot);
                }
            }
        }
        self.solving.len() > before
    }

    /// Makes the new rates count from now on.
    fn apply(&mut self, at: SimTime, out: &mut impl Out) {
        let now = at.as_ps();
        let first_link = 2 * self.topology.hosts();
        for index in 0..self.solving.len() {
            let slot = self.solving[index];
            let flow = &mut self.flows[slot as usize];
            if flow.rate == flow.before {
                continue;
            }
            for place in &flow.path {
                let weight = Self::weight(place.resource, first_link, flow);
                let state = &mut self.resources[place.resource as usize];
                state.used = state.used - flow.before * weight + flow.rate * weight;
            }
            flow.left = flow.left.saturating_sub(u128::from(flow.before) * u128::from(now - flow.since));
            flow.since = now;
            flow.finish = flow.end(now);
            // A later end is found when the earlier event comes.
            if flow.finish < flow.event {
                flow.event = flow.finish;
                out.schedule(SimTime(flow.finish), self.flights.transfer(slot).source, Event::new(EventKind::Wake, slot));
            }
        }
        if self.eye.is_some() {
            (0..self.touched.len()).for_each(|index| self.tell_taken(self.touched[index], at));
        }
    }
}
