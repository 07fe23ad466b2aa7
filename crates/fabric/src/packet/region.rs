//! A region of the packet network: its state, and what it does at each of its events.

use super::layout::Layout;
use super::returns::{Enough, ReturnLists, Returns};
use super::state::*;
use crate::Carried;
use crate::config::{Forwarding, NetworkConfig, Queueing, Routings};
use crate::congestion::AtLinks;
use crate::faults::{Faults, Finder, Strike, worst};
use crate::flights::NONE;
use crate::port::{PacketKind, PortEffects, PortEvent, Ports};
use crate::timing::Costs;
use crate::{EventKind, Statistics};
use narrows_engine::Arena;
use narrows_topology::{Route, RouteState, Routing, Vertex};
use narrows_units::SimTime;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where the effects of a region go.
pub(crate) trait Effects: PortEffects {
    /// An event for the region itself. At one time, `kind` and then `place` (a link or a host by its number in the
    /// topology) say the order, which is the same however the network is cut; no two events but identical ones have all
    /// three in common, except those whose `payload` is no index of a record and orders them too.
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32);
    /// The head of a packet will be at a switch of another region at `at`, by the input of that region that it names.
    fn fly(&mut self, region: u32, at: u64, packet: &Packet);
    /// Something for an output of another region.
    fn note(&mut self, region: u32, note: Note);
    /// What has happened so far.
    fn frontier(&self) -> super::train::Frontier;
}

/// News that goes against the packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// Bytes of a buffer are free.
    Credit { output: u32, lane: u32, at: u64, bytes: u32 },
    /// A pause frame.
    Pause { output: u32, at: u64, frame: u32 },
    /// A packet was lost on a link and will be sent again.
    Lost { link: u32, at: u64, packet: Box<Packet> },
    /// What a packet carries that was sent, and will be `ready` then: see [`super::carried`].
    Carried { input: u32, at: u64, ready: u64, carried: Box<Carried> },
}

impl Note {
    /// When it takes effect.
    pub(crate) fn at(&self) -> u64 {
        match self {
            Note::Credit { at, .. } | Note::Pause { at, .. } | Note::Lost { at, .. } | Note::Carried { at, .. } => *at,
        }
    }
}

/// What is wrong with the buffer of a lane; a bug, found by an audit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// With credits: a byte was lost or made.
    #[error("link {link}, lane {lane}: {credits} B free + {returning} B on the way back + {held} B held is not the buffer of {buffer} B")]
    Credits {
        /// The link.
        link: u32,
        /// The lane on it.
        lane: u32,
        /// Credits at the sender.
        credits: u64,
        /// Credits on their way back.
        returning: u64,
        /// Bytes of packets in the buffer or on the link to it.
        held: u64,
        /// Its size.
        buffer: u64,
    },
    /// With pauses: the receiver has counted what is not there, or more than there is room for.
    #[error(
        "link {link}, lane {lane}: {counted} B counted with {leaving} B that leave, of {buffer} B, but {held} B on the link and in the buffer"
    )]
    Pauses {
        /// The link.
        link: u32,
        /// The lane on it.
        lane: u32,
        /// What the receiver counts.
        counted: u64,
        /// Of that, bytes of packets that are leaving or have left.
        leaving: u64,
        /// Bytes of packets in the buffer or on the link to it.
        held: u64,
        /// Its size.
        buffer: u64,
    },
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Region<P> {
    pub(super) number: u32,
    pub(super) layout: Arc<Layout>,
    pub(super) costs: Costs,
    pub(super) routing: Routing,
    pub(super) channels: u32,
    pub(super) lanes: u32,
    pub(super) buffer: u64,
    pub(super) store_and_forward: bool,
    pub(super) uneven: bool,
    pub(super) arbiter: super::arbiter::Arbiter,
    pub(super) outputs: Vec<Output>,
    pub(super) loads: Vec<Load>,
    /// By lane and output: those that are in use lie together.
    pub(super) lane_states: Vec<Lane>,
    pub(super) queues: Arena<Queue>,
    pub(super) packets: Arena<Packet>,
    pub(super) returns: ReturnLists,
    pub(super) inputs: Vec<Input>,
    /// With pauses instead of credits.
    pub(super) pauses: Option<super::pause::Pauses>,
    /// With a limit on what an input sends at once.
    pub(super) crossbar: Option<super::crossbar::Crossbar>,
    /// With crossbars that are matched as a whole.
    pub(super) matching: Option<Box<super::matching::Matching>>,
    /// With one queue per input: see [`super::front`].
    pub(super) fronts: Option<Vec<super::front::Front>>,
    pub(super) ports: P,
    /// Ports send again what is lost.
    pub(super) reliable: bool,
    pub(super) faults: Option<Faults>,
    /// With faults: which ways packets take that leave their ports from a time on, in the order of these times.
    reroutes: Vec<(u64, Routing)>,
    /// What congestion controls do at links.
    pub(super) controls: Vec<Box<dyn AtLinks>>,
    pub(super) marks: Option<super::marks::Marks>,
    pub(super) cargo: Option<Box<super::carried::Cargo>>,
    /// Any of these: something happens to packets that start on a link.
    touches: bool,
    pub(super) copies: super::copies::Copies,
    /// By place of a packet that waits in a queue: [`crate::port::Label::index`], if hosts see packets.
    indices: Vec<u32>,
    pub(super) trains: super::train::Trains,
    pub(super) statistics: Statistics,
    /// The smallest packet that a port of this region has sent so far.
    pub(super) least_wire: u32,
}

impl<P: Ports> Region<P> {
    /// `routings` and `config` belong together: [`NetworkConfig::check`].
    pub(crate) fn new(number: u32, config: &NetworkConfig, layout: Arc<Layout>, routings: &Routings) -> Region<P> {
        let Routings { routing, reroutes } = routings.clone();
        let topology = &layout.topology;
        let costs = Costs::new(config, topology);
        let virtual_networks = u32::from(config.all_virtual_networks());
        let lanes = virtual_networks * u32::from(config.virtual_channels);
        let (mut outputs, mut inputs, mut hosts) = (Vec::<Output>::new(), Vec::new(), Vec::new());
        for &index in &layout.starting[number as usize] {
            let link = &topology.links()[index as usize];
            let mut host = NONE;
            if let Vertex::Host(number) = link.from {
                host = outputs.len() as u32;
                hosts.push(number);
            }
            outputs.push(Output {
                wake: NEVER,
                occupied: 0,
                latency: costs.link(link.speed).latency.as_ps(),
                link: index,
                region: layout.home(link.to),
                input: layout.input[index as usize],
                host,
                to_host: matches!(link.to, Vertex::Host(_)),
                speed: link.speed,
                turn: 0,
                class_turn: 0,
                control_sent: 0,
                stalled: false,
            });
        }
        for &index in &layout.ending[number as usize] {
            let link = &topology.links()[index as usize];
            inputs.push(Input {
                latency: costs.link(link.speed).latency.as_ps(),
                link: index,
                region: layout.home(link.from),
                output: layout.output[index as usize],
                switch: if let Vertex::Switch(switch) = link.to { switch } else { NONE },
                reverse: layout.output[link.reverse as usize],
                speed: link.speed,
            });
        }
        let buffer = config.buffer_per_channel.0;
        let lane = Lane { credits: buffer, back: Returns::default(), ring: NONE, starved: false };
        let faults = Faults::new(config, &layout.starting[number as usize]);
        let marks = super::marks::Marks::new(config, &layout.starting[number as usize]);
        let controls = config.at_links(&costs, topology, &layout.starting[number as usize]);
        let cargo = controls.iter().any(|control| control.writes()).then(Box::default);
        let mut region = Region {
            touches: faults.is_some() || !controls.is_empty() || marks.is_some(),
            cargo,
            marks,
            controls,
            faults,
            reroutes: reroutes.into_iter().map(|(at, routing)| (at.as_ps(), routing)).collect(),
            loads: vec![Load::default(); outputs.len()],
            lane_states: vec![lane; outputs.len() * lanes as usize],
            queues: Arena::default(),
            packets: Arena::default(),
            returns: ReturnLists::default(),
            pauses: super::pause::Pauses::new(config, topology, lanes as usize, inputs.len(), outputs.len()),
            crossbar: super::crossbar::Crossbar::new(config, inputs.len()),
            matching: super::matching::Matching::new(config, topology, &layout.starting[number as usize], &layout.ending[number as usize])
                .map(Box::new),
            fronts: match config.queueing {
                Queueing::VirtualOutput => None,
                Queueing::Fifo => Some(vec![super::front::Front::default(); inputs.len() * lanes as usize]),
            },
            reliable: config.reliability.is_some(),
            ports: P::new(config, &costs, &hosts),
            copies: super::copies::Copies::default(),
            indices: Vec::new(),
            trains: super::train::Trains::default(),
            statistics: Statistics::default(),
            least_wire: u32::MAX,
            arbiter: super::arbiter::Arbiter::new(config, outputs.len()),
            uneven: costs.uneven(),
            store_and_forward: config.forwarding == Forwarding::StoreAndForward,
            number,
            costs,
            routing,
            channels: u32::from(config.virtual_channels),
            lanes,
            buffer,
            outputs,
            inputs,
            layout,
        };
        let plain = region.pauses.is_none() && region.crossbar.is_none() && region.matching.is_none() && region.fronts.is_none();
        let plain = plain && !region.touches && !region.reliable && region.reroutes.is_empty() && region.arbiter.is_round_robin();
        let plain = plain && region.costs.packet_gap == 0 && !region.layout.hosts_apart;
        region.trains = super::train::Trains::new(plain);
        region
    }

    /// Takes an event that it scheduled, at the time for which it did.
    #[inline]
    pub(crate) fn handle(&mut self, now: u64, kind: EventKind, place: u32, payload: u32, fx: &mut impl Effects) {
        match kind {
            EventKind::Ready => self.ready(payload, now, fx),
            EventKind::Wake => {
                let output = &mut self.outputs[payload as usize];
                if output.wake == now {
                    output.wake = NEVER;
                    if self.is_taken(payload) {
                        return self.train_goes_on(payload, now, fx);
                    }
                    self.serve(payload, now, fx);
                }
            }
            EventKind::Head => self.ports.message(PortEvent::Head, payload, fx),
            EventKind::Tail => self.ports.message(PortEvent::Tail, payload, fx),
            EventKind::HeadAndTail => self.ports.message(PortEvent::HeadAndTail, payload, fx),
            EventKind::Flow => self.flow_event(place, payload, now, fx),
            EventKind::Packet => self.seen(place, payload, now, fx),
            EventKind::Arrive => {
                if self.pauses.is_none() {
                    let Input { region, output, .. } = self.inputs[self.packets[payload].input as usize];
                    self.eject(payload, if region == self.number { output } else { NONE }, now, now, fx);
                } else if self.admit(payload, now, fx) {
                    self.eject(payload, NONE, now, now, fx);
                }
            }
            EventKind::Front => self.next_front(payload, now, fx),
            EventKind::Release => self.release(payload, now, fx),
            EventKind::Refresh => self.refresh(payload, now, fx),
            EventKind::Pause => self.paused(payload, now, fx),
            EventKind::Resend => self.resend(payload, now, fx),
            _ => unreachable!("{kind:?} is not an event of the packet network"),
        }
    }

    #[cold]
    fn flow_event(&mut self, host: u32, payload: u32, now: u64, fx: &mut impl Effects) {
        let host = self.layout.hosts[host as usize].1;
        let (event, payload) = PortEvent::of_flow(payload);
        if let Some(virtual_network) = self.ports.flow(SimTime(now), host, event, payload, fx) {
            self.ask_port(host, virtual_network, now, fx);
        }
    }

    /// The link that may be to blame for what was lost on the way from a host to another one.
    pub(crate) fn blame(&self, from: u32, target: u32, now: SimTime) -> Option<Box<str>> {
        let faults = self.faults.as_ref()?;
        let topology = &self.layout.topology;
        let mut routing = self.routing.clone();
        let there = routing.path(topology, from, target, RouteState::default(), |_| 0);
        let back = routing.path(topology, target, from, RouteState::default(), |_| 0);
        worst(faults.all(), &[there, back].concat(), now).map(|link| topology.cable_name(link).into())
    }

    /// A packet from another region.
    #[inline]
    pub(crate) fn land(&mut self, packet: Packet, fx: &mut impl Effects) {
        let Input { link, speed, switch, .. } = self.inputs[packet.input as usize];
        let at_host = switch == NONE;
        let head = if self.store_and_forward && !at_host { packet.ready } else { packet.ready - self.costs.wire(speed).time(packet.wire) };
        let index = self.packets.insert(packet);
        if let Some(cargo) = &mut self.cargo {
            cargo.land(&packet, index);
        }
        fx.schedule(head, if at_host { EventKind::Arrive } else { EventKind::Ready }, link, index);
    }

    /// News from another region.
    #[inline]
    pub(crate) fn hear(&mut self, note: Note, now: u64, fx: &mut impl Effects) {
        match note {
            Note::Credit { output, lane, at, bytes } => self.give_back(output, lane, at, bytes, now, fx),
            Note::Pause { output, at, frame } => self.pause_arrives(output, at, frame, fx),
            Note::Lost { link, at, packet } => {
                let index = self.packets.insert(*packet);
                fx.schedule(at, EventKind::Resend, link, index);
            }
            Note::Carried { input, ready, carried, .. } => {
                if let Some(cargo) = &mut self.cargo {
                    cargo.follow(input, ready, &carried, now);
                }
            }
        }
    }

    /// A packet from another process names an input of a switch and a lane of this region, and hosts of the network.
    pub(crate) fn takes(&self, packet: &Packet) -> bool {
        let hosts = self.layout.hosts.len() as u32;
        packet.source < hosts
            && (packet.target < hosts || packet.is_copied())
            && packet.lane() < self.lanes
            && u32::from(packet.route.channel) < self.channels
            && self
                .inputs
                .get(packet.input as usize)
                .is_some_and(|input| input.switch != NONE && packet.ready >= self.costs.wire(input.speed).time(packet.wire))
    }

    /// The same of news.
    pub(crate) fn takes_note(&self, note: &Note) -> bool {
        match note {
            Note::Credit { output, lane, .. } => (*output as usize) < self.outputs.len() && *lane < self.lanes,
            Note::Pause { output, frame, .. } => (*output as usize) < self.outputs.len() && frame >> 1 < self.lanes,
            Note::Lost { packet, .. } => self.layout.hosts.get(packet.source as usize).is_some_and(|home| home.0 == self.number),
            Note::Carried { input, carried, .. } => (*input as usize) < self.inputs.len() && carried.is_sound(),
        }
    }

    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty() && self.ports.is_idle()
    }

    /// Forgets whose turn it is, and draws anew: what happened before simulated time did so in an order of its own.
    /// `idle`: nothing is under way here, nor in another region.
    pub(crate) fn rest(&mut self, idle: bool) {
        self.routing.rest();
        self.reroutes.iter_mut().for_each(|(_, routing)| routing.rest());
        if let Some(marks) = &mut self.marks {
            marks.rest(&self.layout.starting[self.number as usize]);
        }
        for output in &mut self.outputs {
            (output.turn, output.class_turn, output.control_sent) = (0, 0, 0);
            if idle {
                // A NIC that was asked in vain, and is not asked again before it has something.
                (output.occupied, output.stalled) = (0, false);
            }
        }
        self.ports.rest(idle);
        self.packets.forget_order();
        for lane in &mut self.lane_states {
            lane.starved &= lane.ring != NONE;
        }
        self.arbiter.rest();
        if let Some(matching) = &mut self.matching {
            matching.rest();
        }
    }

    /// See [`Ports::idle_timers`].
    pub(crate) fn idle_timers(&self) -> usize {
        self.ports.idle_timers()
    }

    /// There is no other region.
    pub(crate) fn is_whole(&self) -> bool {
        self.layout.regions == 1
    }

    pub(crate) fn least_wire(&self) -> u32 {
        self.least_wire
    }

    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(crate) fn topology(&self) -> &narrows_topology::Topology {
        &self.layout.topology
    }

    pub(crate) fn statistics(&self, frontier: super::train::Frontier) -> Statistics {
        self.statistics + self.ports.statistics() + self.statistics_of_trains(frontier)
    }

    /// The number of a host of this region within it.
    #[inline]
    pub(crate) fn host(&self, host: u32) -> u32 {
        debug_assert_eq!(self.layout.hosts[host as usize].0, self.number);
        self.layout.hosts[host as usize].1
    }

    /// The links that start in this region.
    pub(crate) fn links(&self) -> &[u32] {
        &self.layout.starting[self.number as usize]
    }

    /// The time that `link`, an output of this region, needs for what waits and what it is sending.
    pub(crate) fn load(&self, link: u32, now: u64) -> SimTime {
        let load = &self.loads[self.layout.output[link as usize] as usize];
        SimTime(load.backlog + load.free.saturating_sub(now))
    }

    /// Packets in ports, switches and on links.
    pub(crate) fn live_packets(&self) -> usize {
        self.packets.len() + self.ports.packets()
    }

    // ---- outputs ----

    /// Where the state of a lane is.
    #[inline]
    pub(super) fn place(&self, output: u32, lane: u32) -> usize {
        lane as usize * self.outputs.len() + output as usize
    }

    /// The head of a packet is at a switch.
    #[inline]
    fn ready(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        if self.pauses.is_some() && !self.admit(index, now, fx) {
            return;
        }
        if self.fronts.is_some() && !self.comes_to_front(index, now, fx) {
            return;
        }
        self.route(index, now, fx);
    }

    /// A packet chooses its output and asks for it.
    #[inline]
    pub(super) fn route(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        if self.packets[index].is_copied() {
            return self.branch(index, now, fx);
        }
        let Region { packets, loads, routing, reroutes, inputs, layout, .. } = self;
        let packet = &mut packets[index];
        let routing = if reroutes.is_empty() { routing } else { of_time(routing, reroutes, packet.injected()) };
        let Input { switch, link: input, .. } = inputs[packet.input as usize];
        let step = routing.next(switch, input, packet.target, &mut packet.route, |link| {
            let load = &loads[layout.output[link as usize] as usize];
            load.backlog + load.free.saturating_sub(now)
        });
        packet.route.channel = step.channel;
        let output = layout.output[step.link as usize];
        let lane = packet.virtual_network() * self.channels + u32::from(step.channel);
        self.ask(output, lane, index, now, fx);
    }

    /// A packet asks for an output: it goes at once, or waits.
    #[inline]
    pub(super) fn ask(&mut self, output: u32, lane: u32, index: u32, now: u64, fx: &mut impl Effects) {
        if self.is_taken(output) {
            self.stop_train(output, now, fx);
        }
        let packet = &mut self.packets[index];
        let wire = packet.wire;
        if self.uneven {
            // Only an output faster than the input has to wait, so as not to run dry, and one of another class.
            let speed = self.outputs[output as usize].speed;
            let time = self.costs.wire(speed).time(wire);
            let packet = &mut self.packets[index];
            let (turn, changed) = self.costs.turn(self.inputs[packet.input as usize].speed, speed, packet.has_changed());
            packet.change(changed);
            packet.ready = packet.ready.saturating_sub(time).max(now + turn);
            if packet.ready > now {
                return self.enqueue(output, lane, index, now, fx);
            }
        } else {
            packet.ready = 0;
        }
        if self.outputs[output as usize].occupied == 0
            && self.matching.is_none()
            && self.loads[output as usize].free <= now
            && self.goes_from(index) <= now
            && matches!(self.credit(output, lane, wire, now), Credit::Now)
        {
            return self.transmit(output, lane, index, now, fx);
        }
        self.enqueue(output, lane, index, now, fx);
    }

    /// When a packet in an input buffer may leave it, as far as the packet and the input are concerned.
    #[inline]
    pub(super) fn goes_from(&self, index: u32) -> u64 {
        let Packet { ready, input, .. } = self.packets[index];
        match &self.crossbar {
            Some(crossbar) => ready.max(crossbar.free(input)),
            None => ready,
        }
    }

    /// A packet waits for its output.
    fn enqueue<F: Effects>(&mut self, output: u32, lane_index: u32, index: u32, now: u64, fx: &mut F) {
        if F::PACKETS {
            self.keep_index(index);
        }
        self.stand(output, lane_index, index);
        let Packet { wire, source, .. } = self.packets[index];
        fx.queued(self.outputs[output as usize].link, lane_index, source, wire, SimTime(now), true);
        let free = self.loads[output as usize].free;
        if free > now {
            self.wake_at(output, free, fx);
        } else if self.matching.is_some() {
            // When all that comes at this time is there.
            self.wake_at(output, now, fx);
        } else if self.outputs[output as usize].wake > now {
            self.serve(output, now, fx);
        }
    }

    /// A packet is the last of its queue.
    #[inline(always)]
    pub(super) fn stand(&mut self, output: u32, lane_index: u32, index: u32) {
        let Packet { wire, input, .. } = self.packets[index];
        let time = self.costs.wire(self.outputs[output as usize].speed).time(wire);
        self.loads[output as usize].backlog += time;
        self.outputs[output as usize].occupied |= 1 << lane_index;
        self.packets[index].next = NONE;
        let place = self.place(output, lane_index);
        let lane = &mut self.lane_states[place];
        let mut queue = lane.ring;
        if queue != NONE && self.queues[queue].input != input {
            let end = queue;
            loop {
                queue = self.queues[queue].next_in_ring;
                if queue == end {
                    queue = NONE;
                    break;
                }
                if self.queues[queue].input == input {
                    break;
                }
            }
        }
        if queue == NONE {
            let queue = self.queues.insert(Queue { first: index, last: index, next_in_ring: NONE, input });
            let last = std::mem::replace(&mut lane.ring, queue);
            self.queues[queue].next_in_ring =
                if last == NONE { queue } else { std::mem::replace(&mut self.queues[last].next_in_ring, queue) };
        } else {
            let last = std::mem::replace(&mut self.queues[queue].last, index);
            self.packets[last].next = index;
        }
    }

    /// Takes the first packet of the queue whose turn it is.
    pub(super) fn dequeue<F: Effects>(&mut self, output: u32, lane_index: u32, now: u64, fx: &mut F) -> u32 {
        let place = self.place(output, lane_index);
        let lane = &mut self.lane_states[place];
        let last = lane.ring;
        let turn = self.queues[last].next_in_ring;
        let queue = &mut self.queues[turn];
        let index = queue.first;
        queue.first = self.packets[index].next;
        if queue.first != NONE {
            lane.ring = turn;
        } else {
            let after = queue.next_in_ring;
            if turn == last {
                lane.ring = NONE;
                self.outputs[output as usize].occupied &= !(1 << lane_index);
            } else {
                self.queues[last].next_in_ring = after;
            }
            self.queues.remove(turn);
        }
        if F::PACKETS {
            self.restore_index(index);
        }
        let Packet { wire, source, .. } = self.packets[index];
        let time = self.costs.wire(self.outputs[output as usize].speed).time(wire);
        self.loads[output as usize].backlog -= time;
        fx.queued(self.outputs[output as usize].link, lane_index, source, wire, SimTime(now), false);
        index
    }

    /// A packet goes into a queue.
    pub(super) fn keep_index(&mut self, index: u32) {
        let place = index as usize;
        if self.indices.len() <= place {
            self.indices.resize(place + 1, 0);
        }
        self.indices[place] = self.packets[index].next;
    }

    /// It leaves it.
    pub(super) fn restore_index(&mut self, index: u32) {
        self.packets[index].next = self.indices.get(index as usize).copied().unwrap_or(0);
    }

    /// Wakes an output at a time, unless it wakes before that anyway.
    #[inline]
    pub(super) fn wake_at(&mut self, output: u32, at: u64, fx: &mut impl Effects) {
        let state = &mut self.outputs[output as usize];
        if at < state.wake {
            state.wake = at;
            fx.schedule(at, EventKind::Wake, state.link, output);
        }
    }

    /// Whether a lane may send `wire` bytes.
    #[inline]
    pub(super) fn credit(&mut self, output: u32, lane_index: u32, wire: u32, now: u64) -> Credit {
        let lane = self.place(output, lane_index);
        if let Some(pauses) = &self.pauses {
            return match pauses.until(lane) {
                until if until > now => Credit::At(until),
                _ => Credit::Now,
            };
        }
        let state = &mut self.lane_states[lane];
        let wire = u64::from(wire);
        if state.credits >= wire {
            return Credit::Now;
        }
        state.credits += self.returns.collect(&mut state.back, now);
        if state.credits >= wire {
            return Credit::Now;
        }
        match self.returns.when(&state.back, wire - state.credits) {
            Enough::At(at) => Credit::At(at),
            Enough::Unknown => Credit::Unknown,
        }
    }

    /// `bytes` of the buffer of a lane are free; its sender, an output of this region, knows `at`.
    #[inline]
    pub(super) fn give_back(&mut self, output: u32, lane_index: u32, at: u64, bytes: u32, now: u64, fx: &mut impl Effects) {
        let place = self.place(output, lane_index);
        let lane = &mut self.lane_states[place];
        // What is back already makes room at once: long lists would be cold memory when they are read.
        lane.credits += self.returns.collect(&mut lane.back, now);
        self.returns.add(&mut lane.back, at, bytes);
        // Credits may come back in another order than they are heard of. A busy output looks again when it is free.
        if lane.starved && self.loads[output as usize].free <= at {
            self.wake_at(output, at, fx);
        }
    }

    /// The buffer that a packet is in will be free of it at `tail`.
    #[inline]
    pub(super) fn leave(&mut self, input: u32, lane: u32, tail: u64, wire: u32, now: u64, fx: &mut impl Effects) {
        if self.pauses.is_some() {
            return self.leaves(input, lane, tail, wire, now, fx);
        }
        let Input { latency, region, output, .. } = self.inputs[input as usize];
        let at = tail + latency;
        if region == self.number {
            self.give_back(output, lane, at, wire, now, fx);
        } else {
            fx.note(region, Note::Credit { output, lane, at, bytes: wire });
        }
    }

    /// The same, of a switch.
    #[inline]
    pub(super) fn leaves_input(&mut self, input: u32, lane: u32, tail: u64, wire: u32, now: u64, fx: &mut impl Effects) {
        self.leave(input, lane, tail, wire, now, fx);
        if self.fronts.is_some() {
            self.front_leaves(input, lane, tail, fx);
        }
    }

    /// A packet starts on a link.
    #[inline]
    pub(super) fn transmit(&mut self, output: u32, lane: u32, index: u32, now: u64, fx: &mut impl Effects) {
        let Packet { wire, input, .. } = self.packets[index];
        let state = &mut self.outputs[output as usize];
        state.stalled = false;
        let (latency, link) = (state.latency, state.link);
        let time = self.costs.wire(state.speed).time(wire);
        // Of a slower link the head comes so much later that the rest does as with its own rate.
        let (wait, latency) = if self.touches { self.slowed(output, now, time, latency) } else { (0, latency) };
        let tail = now + wait + time;
        self.loads[output as usize].free = tail;
        if self.pauses.is_none() {
            let place = self.place(output, lane);
            self.lane_states[place].credits -= u64::from(wire);
        }
        self.statistics.packet_hops += 1;
        fx.sent(link, lane, wire, SimTime(now), SimTime(wait + time));
        if input != NONE {
            if let Some(crossbar) = &mut self.crossbar {
                crossbar.read(input, now, self.costs.wire(self.inputs[input as usize].speed).time(wire));
            }
            if self.packets[index].is_copied() {
                self.copy_leaves(index, tail, now, fx);
            } else {
                let from = self.packets[index].lane();
                self.leaves_input(input, from, tail, wire, now, fx);
            }
        } else {
            self.packets[index].injected = now;
            let next = now + self.costs.packet_gap;
            if next > tail {
                self.loads[output as usize].free = next;
            }
        }
        let trip = Trip { start: now + wait, time, latency };
        if self.touches {
            return self.touch(index, output, lane, trip, now, fx);
        }
        self.depart(index, output, lane, trip, now, fx);
    }

    /// A packet is on its way over a link.
    #[inline(always)]
    fn depart(&mut self, index: u32, output: u32, lane: u32, trip: Trip, now: u64, fx: &mut impl Effects) {
        let Trip { start, time, latency } = trip;
        let tail = start + time;
        let Output { link, to_host, region, input, .. } = self.outputs[output as usize];
        let packet = &mut self.packets[index];
        packet.hop(lane);
        packet.input = input;
        if to_host {
            packet.ready = tail + latency;
            if region != self.number {
                return self.fly(index, region, start + latency, fx);
            }
            if self.pauses.is_some() {
                return fx.schedule(start + latency, EventKind::Arrive, link, index);
            }
            return self.eject(index, output, start + latency, now, fx);
        }
        let pipeline = latency + self.costs.switch_latency;
        packet.ready = tail + pipeline;
        let head = if self.store_and_forward { tail + pipeline } else { start + pipeline };
        if region == self.number {
            fx.schedule(head, EventKind::Ready, link, index);
        } else {
            self.fly(index, region, head, fx);
        }
    }

    /// A packet is on its way to another region, where its head is seen at `head`.
    #[inline]
    fn fly(&mut self, index: u32, region: u32, head: u64, fx: &mut impl Effects) {
        let packet = &self.packets[index];
        let (input, ready) = (packet.input, packet.ready);
        fx.fly(region, head, packet);
        if self.cargo.is_some() {
            self.send_carried(region, head, input, ready, index, fx);
        }
        self.free_packet(index);
    }

    /// By how much longer a packet takes on a link with faults, and the latency there.
    #[cold]
    fn slowed(&self, output: u32, now: u64, time: u64, latency: u64) -> (u64, u64) {
        self.faults.as_ref().map_or((0, latency), |faults| faults.slowed(output, now, time, latency))
    }

    /// What happens to a packet that starts on its link.
    #[inline(never)]
    fn touch(&mut self, index: u32, output: u32, lane: u32, trip: Trip, now: u64, fx: &mut impl Effects) {
        if !self.controls.is_empty() {
            self.control(index, output, now);
        }
        if self.marks.is_some() {
            self.mark(index, output);
        }
        let Packet { wire, .. } = self.packets[index];
        let data = self.packets[index].kind() == PacketKind::Data;
        match self.faults.as_mut().map(|faults| faults.strike(output, wire, data, now)) {
            Some(strike) if strike != Strike::default() => self.strike(strike, index, output, lane, trip, now, fx),
            _ => self.depart(index, output, lane, trip, now, fx),
        }
    }

    /// A packet that starts on its link is lost there, broken, repeated or delayed. Of a lost one the far end sees
    /// after its tail that nothing has come, and gives the credits back.
    #[cold]
    #[expect(clippy::too_many_arguments)]
    fn strike(&mut self, strike: Strike, index: u32, output: u32, lane: u32, trip: Trip, now: u64, fx: &mut impl Effects) {
        let wire = self.packets[index].wire;
        let Output { link, latency, .. } = self.outputs[output as usize];
        let Trip { start, time, .. } = trip;
        if strike.lost {
            self.statistics.lost_packets += 1;
            fx.lost(link, wire);
            if self.pauses.is_none() {
                self.give_back(output, lane, start + time + 2 * latency, wire, now, fx);
            }
            return self.free_packet(index);
        }
        match strike.broken {
            Some(Finder::Nobody) => self.statistics.missed_errors += 1,
            Some(finder) => {
                self.packets[index].corrupt();
                self.statistics.corrupt_packets += 1;
                self.statistics.crc_errors += u64::from(finder == Finder::Crc);
            }
            None => {}
        }
        let packet = self.packets[index];
        let carried = self.cargo.as_ref().map(|cargo| cargo.of(index));
        let late = Trip { latency: trip.latency + strike.late, ..trip };
        self.depart_in_turn(index, output, lane, late, strike.disorder, now, fx);
        if !strike.twice || !matches!(self.credit(output, lane, wire, now), Credit::Now) {
            return;
        }
        let free = self.loads[output as usize].free;
        let second = Trip { start: free + (start - now), ..trip };
        self.loads[output as usize].free = second.start + time;
        if self.pauses.is_none() {
            let place = self.place(output, lane);
            self.lane_states[place].credits -= u64::from(wire);
        }
        self.statistics.packet_hops += 1;
        fx.sent(link, lane, wire, SimTime(free), SimTime(second.start + time - free));
        let copy = self.packets.insert(packet);
        if let (Some(cargo), Some(carried)) = (&mut self.cargo, carried) {
            cargo.carry(copy, &carried);
        }
        self.depart_in_turn(copy, output, lane, second, strike.disorder, now, fx);
    }

    /// A packet is on its way over a link whose packets may pass each other, if it has `disorder`.
    #[expect(clippy::too_many_arguments)]
    fn depart_in_turn(&mut self, index: u32, output: u32, lane: u32, mut trip: Trip, disorder: bool, now: u64, fx: &mut impl Effects) {
        if !disorder {
            return self.depart(index, output, lane, trip, now, fx);
        }
        // What is there at one time must not be ordered by who was first to say so.
        if let Some(faults) = &mut self.faults {
            trip.latency = faults.lone(output, now, trip.start + trip.latency) - trip.start;
        }
        let Output { to_host, region, link, input, .. } = self.outputs[output as usize];
        if !to_host || region != self.number || self.pauses.is_some() {
            return self.depart(index, output, lane, trip, now, fx);
        }
        // The port sees packets in the order in which they come.
        let packet = &mut self.packets[index];
        packet.hop(lane);
        packet.input = input;
        packet.ready = trip.start + trip.time + trip.latency;
        fx.schedule(trip.start + trip.latency, EventKind::Arrive, link, index);
    }

    #[inline]
    pub(super) fn free_packet(&mut self, index: u32) {
        self.packets[index].wire = 0;
        self.packets.remove(index);
    }

    // ---- checks ----

    /// For [`Region::count_held`].
    pub(crate) fn no_bytes_held(&self) -> Vec<u64> {
        vec![0; self.layout.topology.links().len() * self.lanes as usize]
    }

    /// The bytes of the buffers that packets of this region are in, by link and lane, added to `held`.
    pub(crate) fn count_held(&self, held: &mut [u64]) {
        let one = |packet: &&Packet| packet.wire > 0 && packet.input != NONE && !super::copies::shares_buffer(packet);
        let shared = self.copies.held();
        for (input, lane, wire) in
            self.packets.places().iter().filter(one).map(|packet| (packet.input, packet.lane(), packet.wire)).chain(shared)
        {
            // What is under way from here to another region was handed over at once.
            let link = self.inputs[input as usize].link;
            held[(link * self.lanes + lane) as usize] += u64::from(wire);
        }
    }

    /// Counts every byte of every buffer at the far ends of this region's outputs; with pauses, of those here. `held`:
    /// by link and lane, of all regions.
    pub(crate) fn audit(&self, held: &[u64]) -> Result<(), AuditError> {
        if self.pauses.is_some() {
            return self.audit_pauses(held);
        }
        for (index, lane) in self.lane_states.iter().enumerate() {
            let (lane_index, output) = ((index / self.outputs.len()) as u32, index % self.outputs.len());
            let link = self.outputs[output].link;
            let returning = self.returns.total(&lane.back);
            let held = held[(link * self.lanes + lane_index) as usize];
            if lane.credits + returning + held != self.buffer {
                return Err(AuditError::Credits { link, lane: lane_index, credits: lane.credits, returning, held, buffer: self.buffer });
            }
        }
        Ok(())
    }
}

/// The routing of packets that left their ports at a time.
#[cold]
fn of_time<'a>(routing: &'a mut Routing, reroutes: &'a mut [(u64, Routing)], injected: SimTime) -> &'a mut Routing {
    match reroutes.partition_point(|(at, _)| *at <= injected.as_ps()) {
        0 => routing,
        place => &mut reroutes[place - 1].1,
    }
}

/// A packet's way over a link, in ps: it starts, takes a time on the wire, and has its head at the far end after the
/// latency.
#[derive(Clone, Copy)]
struct Trip {
    start: u64,
    time: u64,
    latency: u64,
}

/// When a lane may send.
pub(crate) enum Credit {
    Now,
    At(u64),
    Unknown,
}
