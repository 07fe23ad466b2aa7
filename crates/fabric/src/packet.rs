//! The packet network: cut-through switches, virtual channels, finite buffers with credits.
//!
//! **Injection.** Per node and virtual network, messages that come out of host memory take turns, packet by packet, in reading
//! over the node's PCIe; up to [`NetworkConfig::read_window`] packets are read or being read. Messages that the NIC already has take turns among
//! themselves, and the two kinds alternate on the host link.
//!
//! **A lane** is one virtual channel of one virtual network on one link. Its credits are the free bytes of the input buffer at
//! the far end. A packet starts only with credits for all of it (virtual cut-through), holds its link for its time on the wire, and its
//! head is at the next switch after the latency of the link. There it is routed after the switch latency and queues, within the lane of
//! its output, behind the packets of the same input (virtual output queues: a buffer has no head of line). An idle output takes the
//! lanes that have packets and credits in turn, and within a lane the inputs in turn.
//!
//! **Credits** go back when the tail of the packet has left the buffer, and take the latency of the link. At the target NIC
//! that is when the packet is through the PCIe, so a slow PCIe holds up the network. Nothing is ever lost.
//!
//! One event per link and packet when the output is idle, two when it is not: a credit's return is a time stamp in a list that is read
//! when credits are short, and an event only when somebody waits for it. The link to the target makes no event at all for the
//! packets in the middle of a message.

use crate::config::{ConfigError, NetworkConfig};
use crate::flights::{Flights, NONE};
use crate::timing::{Costs, Timer, ZeroLoad};
use crate::{Event, EventKind, Out, Statistics, Transfer};
use narrows_topology::{LinkClass, Route, RouteState, Routing, Topology, Vertex};
use narrows_units::SimTime;

const NEVER: u64 = u64::MAX;

/// A packet in a NIC or a switch; one cache line, with what is needed of the link that it came over.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Packet {
    /// In a NIC: read by then. At a switch: the tail could be at an output by then.
    ready: u64,
    /// Latency of `input`, which its credits take back.
    input_latency: u64,
    transfer: u32,
    target: u32,
    /// Bytes on the wire; 0 marks a free slot.
    wire: u32,
    /// The link that it came over, [`NONE`] in the source NIC.
    input: u32,
    /// The next one of its queue.
    next: u32,
    /// Its way, once chosen.
    output: u32,
    route: RouteState,
    /// The switch that it is at or on its way to, and the port where it comes in.
    switch: u32,
    port: u16,
    virtual_network: u8,
    /// The lane of `input` whose buffer it is in.
    input_lane: u8,
    /// The lane of `output`.
    output_lane: u8,
    /// It carries the header of the message.
    first: bool,
    /// Its payload goes over the target's PCIe.
    write: bool,
}

/// A link and the output that feeds it; one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Link {
    /// The time of the wake-up that counts; others are out of date.
    wake: u64,
    /// Lanes with packets.
    occupied: u64,
    latency: u64,
    /// Its queues: `first_queue + lane * inputs + input port`.
    first_queue: u32,
    /// Ports of the switch that feeds it.
    inputs: u16,
    /// The port where it ends.
    port: u16,
    /// The ordering key of the switch or host that feeds it.
    key: u32,
    /// The switch or the host where it ends.
    to: u32,
    to_host: bool,
    from_host: bool,
    class: LinkClass,
    /// The lane whose turn it is.
    turn: u8,
}

/// How busy a link is. Apart from [`Link`], because adaptive routing looks at that of many outputs: four to a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// When the packet on the wire has left.
    free: u64,
    /// Time on the wire of the packets that wait.
    backlog: u64,
}

/// A virtual channel of a link.
#[derive(Clone, Copy, Debug)]
struct Lane {
    credits: u64,
    /// Credits on their way back, in the order of their times.
    first_return: u32,
    last_return: u32,
    /// Last of the ring of queues with packets; its next is the first in turn.
    ring: u32,
    /// Somebody waits and no return is known that would do.
    starved: bool,
}

/// The packets from one input for one lane of an output.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
    next_in_ring: u32,
}

#[derive(Clone, Copy, Debug)]
struct CreditReturn {
    at: u64,
    bytes: u32,
    next: u32,
}

/// What a NIC sends in one virtual network.
#[derive(Clone, Copy, Debug)]
struct Injector {
    /// Ring of messages with packets to read; the last one.
    reading: u32,
    /// Ring of messages that the NIC already has; the last one.
    direct: u32,
    /// Packets read or being read, in order.
    first_read: u32,
    last_read: u32,
    /// Free places for reads.
    window: u32,
    /// It is the turn of the messages that need no reading.
    direct_turn: bool,
}

/// The sending side and the count of arrivals of a message, by transfer slot.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    /// Payload that is not yet in packets.
    left: u64,
    /// Packets that have not yet started on the last link.
    packets_left: u64,
    /// When the last byte of those that have is through.
    through: u64,
    next_in_ring: u32,
    /// No packet was made yet.
    fresh: bool,
}

/// PCIe of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Pcie {
    read_free: u64,
    write_free: u64,
}

/// The next packet of a lane.
enum Candidate {
    /// In the queue whose turn it is.
    Queued { wire: u32 },
    /// In the NIC, read from memory.
    Read { wire: u32 },
    /// Of a message that the NIC already has.
    Direct { wire: u32 },
    /// There is none before this time.
    At(u64),
}

/// When a lane has enough credits.
enum Credit {
    Now,
    At(u64),
    Unknown,
}

/// What is wrong with the credits of a lane; a bug, found by [`PacketNetwork::audit`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("link {link}, lane {lane}: {credits} B free + {returning} B on the way back + {held} B held is not the buffer of {buffer} B")]
pub struct AuditError {
    /// The link.
    pub link: u32,
    /// The lane on it.
    pub lane: u32,
    /// Credits at the sender.
    pub credits: u64,
    /// Credits on their way back.
    pub returning: u64,
    /// Bytes of packets in the buffer or on the link to it.
    pub held: u64,
    /// Its size.
    pub buffer: u64,
}

/// See the module's page.
#[derive(Debug)]
pub struct PacketNetwork {
    costs: Costs,
    topology: Topology,
    routing: Routing,
    virtual_networks: u32,
    channels: u32,
    lanes: u32,
    buffer: u64,
    links: Vec<Link>,
    loads: Vec<Load>,
    lane_states: Vec<Lane>,
    queues: Vec<Queue>,
    packets: Vec<Packet>,
    free_packet: u32,
    returns: Vec<CreditReturn>,
    free_return: u32,
    injectors: Vec<Injector>,
    pcie: Vec<Pcie>,
    messages: Vec<Message>,
    flights: Flights,
}

impl PacketNetwork {
    /// See [`crate::Network::new`].
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Self, ConfigError> {
        let routing = config.check(&topology)?;
        let costs = Costs::new(config);
        let hosts = topology.hosts();
        let virtual_networks = u32::from(config.virtual_networks);
        let lanes = virtual_networks * u32::from(config.virtual_channels);
        let mut links = Vec::with_capacity(topology.links().len());
        let mut queue_count = 0u32;
        for link in topology.links() {
            let (key, inputs, from_host) = match link.from {
                Vertex::Host(host) => (host, 0, true),
                Vertex::Switch(switch) => (hosts + switch, topology.outputs(switch).len() as u16, false),
            };
            let (to, to_host) = match link.to {
                Vertex::Host(host) => (host, true),
                Vertex::Switch(switch) => (switch, false),
            };
            links.push(Link {
                wake: NEVER,
                occupied: 0,
                latency: costs.link(link.class).latency.as_ps(),
                first_queue: queue_count,
                inputs,
                port: link.to_port,
                key,
                to,
                to_host,
                from_host,
                class: link.class,
                turn: 0,
            });
            queue_count += u32::from(inputs) * lanes;
        }
        let buffer = config.buffer_per_channel.0;
        let lane = Lane { credits: buffer, first_return: NONE, last_return: NONE, ring: NONE, starved: false };
        let injector =
            Injector { reading: NONE, direct: NONE, first_read: NONE, last_read: NONE, window: config.read_window, direct_turn: false };
        Ok(PacketNetwork {
            loads: vec![Load::default(); links.len()],
            lane_states: vec![lane; links.len() * lanes as usize],
            queues: vec![Queue { first: NONE, last: NONE, next_in_ring: NONE }; queue_count as usize],
            packets: Vec::new(),
            free_packet: NONE,
            returns: Vec::new(),
            free_return: NONE,
            injectors: vec![injector; (hosts * virtual_networks) as usize],
            pcie: vec![Pcie::default(); hosts as usize],
            messages: Vec::new(),
            flights: Flights::new(hosts, config.virtual_networks),
            costs,
            topology,
            routing,
            virtual_networks,
            channels: u32::from(config.virtual_channels),
            lanes,
            buffer,
            links,
        })
    }

    /// See [`crate::Network::start`].
    pub fn start(&mut self, now: SimTime, transfer: Transfer, out: &mut impl Out) {
        if transfer.source == transfer.target {
            return self.flights.start_intra_node(now, transfer, &self.costs, out);
        }
        let slot = self.flights.open(transfer, out);
        if self.messages.len() <= slot as usize {
            self.messages.resize(slot as usize + 1, Message::default());
        }
        let payload = transfer.payload.0;
        self.messages[slot as usize] =
            Message { left: payload, packets_left: self.costs.packets(payload), through: 0, next_in_ring: NONE, fresh: true };
        let (now, host) = (now.as_ps(), transfer.source);
        let injector = (host * self.virtual_networks + u32::from(transfer.virtual_network)) as usize;
        if transfer.source_dma && payload > 0 {
            let mut ring = self.injectors[injector].reading;
            self.join(&mut ring, slot);
            self.injectors[injector].reading = ring;
            self.read(injector, host, now, out);
        } else {
            let mut ring = self.injectors[injector].direct;
            self.join(&mut ring, slot);
            self.injectors[injector].direct = ring;
        }
        self.links[host as usize].occupied |= 1 << (u32::from(transfer.virtual_network) * self.channels);
        self.serve(host, now, out);
    }

    /// See [`crate::Network::rest`].
    pub fn rest(&mut self) {
        for link in &mut self.links {
            link.turn = 0;
        }
        for injector in &mut self.injectors {
            injector.direct_turn = false;
        }
        for lane in &mut self.lane_states {
            lane.starved &= lane.ring != NONE;
        }
    }

    /// See [`crate::Network::handle`].
    #[inline]
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        let (kind, index) = event.parts();
        let now = now.as_ps();
        match kind {
            EventKind::Ready => self.ready(index, now, out),
            EventKind::Enqueue => self.enqueue(index, now, out),
            EventKind::Wake => {
                if self.links[index as usize].wake == now {
                    self.links[index as usize].wake = NEVER;
                    self.serve(index, now, out);
                }
            }
            _ => assert!(self.flights.handle(kind, index, out), "not an event of the packet network: {event:?}"),
        }
    }

    /// See [`crate::Network::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.flights.statistics
    }

    /// See [`crate::Network::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.flights.in_flight()
    }

    /// See [`crate::Network::zero_load`].
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.costs.zero_load_of(&self.topology, transfer)
    }

    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Packets in NICs and switches.
    pub fn live_packets(&self) -> usize {
        self.packets.iter().filter(|packet| packet.wire > 0).count()
    }

    /// Counts every byte of every buffer: free, on its way back, or held by a packet. Slow.
    ///
    /// # Errors
    /// The first lane where they do not add up to its buffer.
    pub fn audit(&self) -> Result<(), AuditError> {
        let mut held = vec![0u64; self.lane_states.len()];
        for packet in self.packets.iter().filter(|packet| packet.wire > 0 && packet.input != NONE) {
            held[(packet.input * self.lanes + u32::from(packet.input_lane)) as usize] += u64::from(packet.wire);
        }
        for (index, (lane, held)) in self.lane_states.iter().zip(held).enumerate() {
            let mut returning = 0;
            let mut next = lane.first_return;
            while next != NONE {
                returning += u64::from(self.returns[next as usize].bytes);
                next = self.returns[next as usize].next;
            }
            if lane.credits + returning + held != self.buffer {
                let (link, lane_index) = (index as u32 / self.lanes, index as u32 % self.lanes);
                let (credits, buffer) = (lane.credits, self.buffer);
                return Err(AuditError { link, lane: lane_index, credits, returning, held, buffer });
            }
        }
        Ok(())
    }

    // ---- injection ----

    /// Appends a message to a ring, which is named by its last member.
    fn join(&mut self, ring: &mut u32, slot: u32) {
        if *ring == NONE {
            self.messages[slot as usize].next_in_ring = slot;
        } else {
            let last = *ring as usize;
            self.messages[slot as usize].next_in_ring = self.messages[last].next_in_ring;
            self.messages[last].next_in_ring = slot;
        }
        *ring = slot;
    }

    /// The next packet of the first message of a ring; the message goes to the end of the ring, or leaves it with its last packet.
    fn take_turn(&mut self, ring: &mut u32) -> u32 {
        let last = *ring as usize;
        let slot = self.messages[last].next_in_ring;
        let message = &mut self.messages[slot as usize];
        let payload = message.left.min(u64::from(self.costs.mtu));
        message.left -= payload;
        let first = std::mem::replace(&mut message.fresh, false);
        if message.left > 0 {
            *ring = slot;
        } else {
            let after = message.next_in_ring;
            if *ring == slot {
                *ring = NONE;
            } else {
                self.messages[last].next_in_ring = after;
            }
        }
        let transfer = self.flights.transfer(slot);
        let lane = (u32::from(transfer.virtual_network) * self.channels) as u8;
        let packet = Packet {
            ready: 0,
            input_latency: 0,
            transfer: slot,
            target: transfer.target,
            wire: payload as u32 + self.costs.header,
            input: NONE,
            next: NONE,
            output: transfer.source,
            route: RouteState::default(),
            switch: NONE,
            port: 0,
            virtual_network: transfer.virtual_network,
            input_lane: 0,
            output_lane: lane,
            first,
            write: transfer.target_dma && payload > 0,
        };
        self.flights.statistics.packets += 1;
        if self.free_packet == NONE {
            self.packets.push(packet);
            return self.packets.len() as u32 - 1;
        }
        let index = self.free_packet;
        self.free_packet = self.packets[index as usize].next;
        self.packets[index as usize] = packet;
        index
    }

    /// Reads packets over PCIe while the window has room.
    fn read(&mut self, injector: usize, host: u32, now: u64, out: &mut impl Out) {
        while self.injectors[injector].window > 0 && self.injectors[injector].reading != NONE {
            let mut ring = self.injectors[injector].reading;
            let index = self.take_turn(&mut ring);
            let packet = self.packets[index as usize];
            let free = &mut self.pcie[host as usize].read_free;
            *free = now.max(*free) + self.costs.pcie.time(packet.wire - self.costs.header);
            let done = *free;
            self.packets[index as usize].ready = done;
            if self.messages[packet.transfer as usize].left == 0 {
                out.schedule(SimTime(done), host, Event::new(EventKind::SourceDone, packet.transfer));
            }
            let state = &mut self.injectors[injector];
            state.reading = ring;
            state.window -= 1;
            if state.first_read == NONE {
                state.first_read = index;
            } else {
                self.packets[state.last_read as usize].next = index;
            }
            state.last_read = index;
        }
    }

    /// Takes the packet that [`Self::candidate`] promised.
    #[inline]
    fn inject(&mut self, host: u32, virtual_network: u32, read: bool, now: u64, out: &mut impl Out) -> u32 {
        let at = (host * self.virtual_networks + virtual_network) as usize;
        let index;
        if read {
            let injector = &mut self.injectors[at];
            index = injector.first_read;
            injector.first_read = self.packets[index as usize].next;
            injector.window += 1;
            injector.direct_turn = true;
            self.read(at, host, now, out);
        } else {
            let mut ring = self.injectors[at].direct;
            index = self.take_turn(&mut ring);
            self.injectors[at].direct = ring;
            self.injectors[at].direct_turn = false;
        }
        let injector = &self.injectors[at];
        if injector.first_read == NONE && injector.direct == NONE {
            self.links[host as usize].occupied &= !(1 << (virtual_network * self.channels));
        }
        index
    }

    // ---- outputs ----

    #[inline]
    fn timer(&self, class: LinkClass) -> &Timer {
        self.costs.wire(class)
    }

    /// The head of a packet is at a switch.
    #[inline]
    fn ready(&mut self, index: u32, now: u64, out: &mut impl Out) {
        let PacketNetwork { packets, loads, routing, .. } = self;
        let packet = &mut packets[index as usize];
        let step = routing.next(packet.switch, packet.input, packet.target, &mut packet.route, |link| {
            let load = &loads[link as usize];
            load.backlog + load.free.saturating_sub(now)
        });
        packet.route.channel = step.channel;
        packet.output = step.link;
        packet.output_lane = packet.virtual_network * self.channels as u8 + step.channel;
        let (ready, wire, output) = (packet.ready, packet.wire, packet.output);
        // Only an output faster than the input has to wait, so as not to run dry.
        let earliest = ready.saturating_sub(self.timer(self.links[output as usize].class).time(wire));
        if earliest > now {
            let key = self.links[output as usize].key;
            out.schedule(SimTime(earliest), key, Event::new(EventKind::Enqueue, index));
        } else {
            self.enqueue(index, now, out);
        }
    }

    /// A packet asks for its output.
    #[inline]
    fn enqueue(&mut self, index: u32, now: u64, out: &mut impl Out) {
        let packet = self.packets[index as usize];
        let output = packet.output;
        let free = self.loads[output as usize].free;
        if free <= now && self.links[output as usize].occupied == 0 {
            let lane = (output * self.lanes + u32::from(packet.output_lane)) as usize;
            if matches!(self.credit(lane, packet.wire, now), Credit::Now) {
                return self.transmit(output, index, now, out);
            }
        }
        let time = self.timer(self.links[output as usize].class).time(packet.wire);
        let link = &mut self.links[output as usize];
        self.loads[output as usize].backlog += time;
        link.occupied |= 1 << packet.output_lane;
        let queue_index = link.first_queue + u32::from(packet.output_lane) * u32::from(link.inputs) + u32::from(packet.port);
        let wake = link.wake;
        self.packets[index as usize].next = NONE;
        let queue = self.queues[queue_index as usize];
        if queue.first == NONE {
            let lane = &mut self.lane_states[(output * self.lanes + u32::from(packet.output_lane)) as usize];
            let last = std::mem::replace(&mut lane.ring, queue_index);
            let next =
                if last == NONE { queue_index } else { std::mem::replace(&mut self.queues[last as usize].next_in_ring, queue_index) };
            self.queues[queue_index as usize] = Queue { first: index, last: index, next_in_ring: next };
        } else {
            self.packets[queue.last as usize].next = index;
            self.queues[queue_index as usize].last = index;
        }
        if free > now {
            self.wake_at(output, free, out);
        } else if wake > now {
            self.serve(output, now, out);
        }
    }

    /// Takes the first packet of the queue whose turn it is.
    fn dequeue(&mut self, output: u32, lane_index: u32) -> u32 {
        let lane = &mut self.lane_states[(output * self.lanes + lane_index) as usize];
        let last = lane.ring;
        let turn = self.queues[last as usize].next_in_ring;
        let queue = &mut self.queues[turn as usize];
        let index = queue.first;
        queue.first = self.packets[index as usize].next;
        if queue.first != NONE {
            lane.ring = turn;
        } else if turn == last {
            lane.ring = NONE;
            self.links[output as usize].occupied &= !(1 << lane_index);
        } else {
            self.queues[last as usize].next_in_ring = self.queues[turn as usize].next_in_ring;
        }
        let wire = self.packets[index as usize].wire;
        let time = self.timer(self.links[output as usize].class).time(wire);
        self.loads[output as usize].backlog -= time;
        index
    }

    /// The next packet of a lane that has some.
    #[inline]
    fn candidate(&self, output: u32, lane_index: u32, now: u64) -> Candidate {
        if !self.links[output as usize].from_host {
            let last = self.lane_states[(output * self.lanes + lane_index) as usize].ring;
            let turn = self.queues[last as usize].next_in_ring;
            return Candidate::Queued { wire: self.packets[self.queues[turn as usize].first as usize].wire };
        }
        // Only the first channel of a virtual network is used here.
        let virtual_network = if self.channels == 1 { lane_index } else { lane_index / self.channels };
        let injector = &self.injectors[(output * self.virtual_networks + virtual_network) as usize];
        let mut ready = NEVER;
        if injector.first_read != NONE && (injector.direct == NONE || !injector.direct_turn) {
            let packet = &self.packets[injector.first_read as usize];
            if packet.ready <= now {
                return Candidate::Read { wire: packet.wire };
            }
            ready = packet.ready;
        }
        if injector.direct == NONE {
            return Candidate::At(ready);
        }
        let slot = self.messages[injector.direct as usize].next_in_ring;
        let payload = self.messages[slot as usize].left.min(u64::from(self.costs.mtu));
        Candidate::Direct { wire: payload as u32 + self.costs.header }
    }

    /// Sends something on an output if there is anything that can go, and sees to it that it is called again when more can.
    fn serve(&mut self, output: u32, now: u64, out: &mut impl Out) {
        let link = &self.links[output as usize];
        let mut untried = link.occupied;
        if untried == 0 {
            return;
        }
        // The lanes in turn: those from `turn` on, then those before it.
        let from_turn = u64::MAX << link.turn;
        let free = self.loads[output as usize].free;
        if free > now {
            return self.wake_at(output, free, out);
        }
        let mut later = NEVER;
        let mut stalled = false;
        while untried != 0 {
            let next = untried & from_turn;
            let lane_index = if next != 0 { next.trailing_zeros() } else { untried.trailing_zeros() };
            untried &= !(1 << lane_index);
            let candidate = self.candidate(output, lane_index, now);
            let wire = match candidate {
                Candidate::Queued { wire } | Candidate::Read { wire } | Candidate::Direct { wire } => wire,
                Candidate::At(time) => {
                    later = later.min(time);
                    continue;
                }
            };
            let lane = (output * self.lanes + lane_index) as usize;
            match self.credit(lane, wire, now) {
                Credit::Now => {
                    let index = match candidate {
                        Candidate::Queued { .. } => self.dequeue(output, lane_index),
                        Candidate::Read { .. } => self.inject(output, lane_index / self.channels, true, now, out),
                        _ => self.inject(output, lane_index / self.channels, false, now, out),
                    };
                    self.links[output as usize].turn = if lane_index + 1 == self.lanes { 0 } else { lane_index as u8 + 1 };
                    self.transmit(output, index, now, out);
                    if self.links[output as usize].occupied != 0 {
                        let free = self.loads[output as usize].free;
                        self.wake_at(output, free, out);
                    }
                    return;
                }
                Credit::At(time) => {
                    later = later.min(time);
                    stalled = true;
                }
                Credit::Unknown => {
                    self.lane_states[lane].starved = true;
                    stalled = true;
                }
            }
        }
        self.flights.statistics.credit_stalls += u64::from(stalled);
        if later < NEVER {
            self.wake_at(output, later, out);
        }
    }

    /// Wakes an output at a time, unless it wakes before that anyway.
    #[inline]
    fn wake_at(&mut self, output: u32, at: u64, out: &mut impl Out) {
        let link = &mut self.links[output as usize];
        if at < link.wake {
            link.wake = at;
            out.schedule(SimTime(at), link.key, Event::new(EventKind::Wake, output));
        }
    }

    /// Whether a lane has credits for `wire` bytes.
    #[inline]
    fn credit(&mut self, lane: usize, wire: u32, now: u64) -> Credit {
        let wire = u64::from(wire);
        let state = &mut self.lane_states[lane];
        if state.credits >= wire {
            return Credit::Now;
        }
        self.collect(lane, wire, now)
    }

    /// Takes in the credits that are back by now; whether and when they are enough.
    #[inline(never)]
    fn collect(&mut self, lane: usize, wire: u64, now: u64) -> Credit {
        let state = &mut self.lane_states[lane];
        while state.first_return != NONE {
            let index = state.first_return;
            let back = &mut self.returns[index as usize];
            if back.at > now {
                break;
            }
            state.credits += u64::from(back.bytes);
            state.first_return = back.next;
            back.next = self.free_return;
            self.free_return = index;
        }
        if state.credits >= wire {
            return Credit::Now;
        }
        let mut sum = state.credits;
        let mut next = state.first_return;
        while next != NONE {
            let back = &self.returns[next as usize];
            sum += u64::from(back.bytes);
            if sum >= wire {
                return Credit::At(back.at);
            }
            next = back.next;
        }
        Credit::Unknown
    }

    /// `bytes` of the buffer of a lane are free; its sender knows `at`.
    #[inline]
    fn give_back(&mut self, link: u32, lane_index: u8, at: u64, bytes: u32, out: &mut impl Out) {
        let mut back = CreditReturn { at, bytes, next: NONE };
        let lane = &mut self.lane_states[(link * self.lanes + u32::from(lane_index)) as usize];
        let index = if self.free_return == NONE { self.returns.len() as u32 } else { self.free_return };
        // Mostly the latest so far; outputs of different rates and PCIe make exceptions.
        if lane.first_return == NONE {
            lane.first_return = index;
            lane.last_return = index;
        } else if self.returns[lane.last_return as usize].at <= at {
            self.returns[lane.last_return as usize].next = index;
            lane.last_return = index;
        } else if self.returns[lane.first_return as usize].at > at {
            back.next = lane.first_return;
            lane.first_return = index;
        } else {
            let mut before = lane.first_return;
            loop {
                let next = self.returns[before as usize].next;
                if self.returns[next as usize].at > at {
                    back.next = next;
                    self.returns[before as usize].next = index;
                    break;
                }
                before = next;
            }
        }
        if self.free_return == NONE {
            self.returns.push(back);
        } else {
            self.free_return = self.returns[index as usize].next;
            self.returns[index as usize] = back;
        }
        if lane.starved {
            lane.starved = false;
            self.wake_at(link, at, out);
        }
    }

    /// A packet starts on a link.
    #[inline]
    fn transmit(&mut self, output: u32, index: u32, now: u64, out: &mut impl Out) {
        let packet = self.packets[index as usize];
        let time = self.timer(self.links[output as usize].class).time(packet.wire);
        let tail = now + time;
        self.loads[output as usize].free = tail;
        let link = &self.links[output as usize];
        let (latency, key, to_host, to, port) = (link.latency, link.key, link.to_host, link.to, link.port);
        self.lane_states[(output * self.lanes + u32::from(packet.output_lane)) as usize].credits -= u64::from(packet.wire);
        self.flights.statistics.packet_hops += 1;
        if packet.input != NONE {
            let back = tail + packet.input_latency;
            self.give_back(packet.input, packet.input_lane, back, packet.wire, out);
        }
        if to_host {
            return self.eject(output, index, now + latency, tail + latency, out);
        }
        let moved = &mut self.packets[index as usize];
        moved.input = output;
        moved.input_lane = packet.output_lane;
        moved.input_latency = latency;
        (moved.switch, moved.port) = (to, port);
        moved.ready = tail + latency + self.costs.switch_latency;
        let head = now + latency + self.costs.switch_latency;
        out.schedule(SimTime(head), key, Event::new(EventKind::Ready, index));
    }

    /// A packet starts on the link to its target: the rest of its way is known.
    #[inline]
    fn eject(&mut self, link: u32, index: u32, head: u64, tail: u64, out: &mut impl Out) {
        let packet = self.packets[index as usize];
        let Link { latency, key, .. } = self.links[link as usize];
        let mut through = tail;
        if packet.write {
            let payload = packet.wire - self.costs.header;
            let free = &mut self.pcie[packet.target as usize].write_free;
            *free = tail.max(*free) + self.costs.pcie.time(payload);
            through = *free;
        }
        self.give_back(link, packet.output_lane, through + latency, packet.wire, out);
        let message = &mut self.messages[packet.transfer as usize];
        message.packets_left -= 1;
        message.through = message.through.max(through);
        let header_in = SimTime(head + self.costs.host_wire.time(self.costs.header));
        match (packet.first, message.packets_left == 0) {
            (true, true) => {
                let through = SimTime(message.through);
                self.flights.schedule_arrival(header_in, through, key, packet.transfer, out);
            }
            (true, false) => out.schedule(header_in, key, Event::new(EventKind::Head, packet.transfer)),
            (false, true) => out.schedule(SimTime(message.through), key, Event::new(EventKind::Tail, packet.transfer)),
            (false, false) => {}
        }
        let free = &mut self.packets[index as usize];
        free.wire = 0;
        free.next = self.free_packet;
        self.free_packet = index;
    }
}
