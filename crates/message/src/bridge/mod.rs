//! Messages between *modules*: processes whose networks differ reach each other by gateways, nodes with a port on both.
//!
//! A layer between [`Core`](crate::core::Core) and the NIC, and what runs on the gateways. The core does what it does
//! in one network, but that long messages are put in fragments, and none of its puts is longer than one. The layer
//! gives those to processes of other modules to a gateway ([`narrows_portals::bridge`]), which stores each and sends it
//! on by its other NIC. They match at their target as if they had come directly.
//!
//! * A process has so many *credits* at each gateway; a fragment takes one until the gateway says that it is there,
//!   which is also when its buffer is free.
//! * Messages that match in order (eager ones and announcements) of one process to another take one gateway, until none
//!   of them is under way. Fragments of data take any.
//! * When a gateway is gone, what it had not answered for goes by the others. The target's NIC takes each put once.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`Bridging`]: which gateways there are; the layer's state |
//! | `layer.rs` | as a [`Layer`](crate::layer::Layer): what those above ask of it, and what the NIC says |
//! | `gateway.rs` | [`Gateway`]: what runs on a gateway |

mod gateway;
mod layer;

pub use gateway::{Gateway, Passed, Relay};

use crate::heap::Heap;
use crate::{RailConfig, Transport, wire};
use narrows_keys::choice;
use narrows_portals::bridge::{Envelope, Forward};
use narrows_portals::{EqId, Event, EventKind, FailType, LocalBuffer, ProcessId, md};
use narrows_units::{Rail, SimTime};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

choice! {
    /// Which gateway a message takes.
    pub enum GatewayChoice {
        /// By the two nodes: always the same one.
        Static = "static",
        /// That to which this process has fewest bytes under way.
        LeastLoaded = "least-loaded",
    }
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayPlace {
    /// What runs there.
    pub process: ProcessId,
    /// The name of its node.
    pub name: String,
    /// The networks that it joins.
    pub rails: Vec<Rail>,
}

/// Processes that have networks in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The network on which they match.
    pub name: String,
    /// The rails that all of them have, that of this network first.
    pub rails: Vec<RailConfig>,
}

impl Module {
    /// The rail on which its processes match.
    pub fn home(&self) -> Rail {
        self.rails.first().map_or(Rail::FIRST, |first| first.rail)
    }
}

/// How the modules of a run reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridging {
    /// The modules that have processes of the run.
    pub modules: Vec<Module>,
    /// By node: the rail on which its processes match.
    pub homes: Vec<Rail>,
    /// The gateways.
    pub gateways: Vec<GatewayPlace>,
    /// Longest put over a gateway, bytes.
    pub fragment: u64,
    /// Fragments that a process may have at a gateway.
    pub buffers: u32,
    /// Which gateway a message takes.
    pub choice: GatewayChoice,
    /// Time of a gateway's core for a fragment.
    pub cost: SimTime,
    /// ... and for each 1,024 bytes of it.
    pub per_kib: SimTime,
    /// Gateways that die, and when, from the start of simulated time.
    pub deaths: Vec<(usize, SimTime)>,
    /// How much later processes know.
    pub detection: SimTime,
}

impl Bridging {
    /// The rail on which a process matches.
    pub fn home(&self, process: ProcessId) -> Option<Rail> {
        self.homes.get(process.node()?.index()).copied()
    }

    /// Whether two processes have different ones.
    pub fn crosses(&self, one: ProcessId, other: ProcessId) -> bool {
        one.nid != other.nid && self.home(one) != self.home(other)
    }

    /// The gateways that join two networks.
    pub fn between(&self, one: Rail, other: Rail) -> impl Iterator<Item = usize> + '_ {
        let joins = move |place: &GatewayPlace| place.rails.contains(&one) && place.rails.contains(&other);
        self.gateways.iter().enumerate().filter(move |(_, place)| joins(place)).map(|(index, _)| index)
    }

    /// Two modules that no gateway joins, of those that are `there`.
    pub fn cut(&self, there: impl Fn(usize) -> bool) -> Option<(Rail, Rail)> {
        let others = |at: usize| self.modules[at + 1..].iter().map(Module::home);
        let pairs = self.modules.iter().enumerate().flat_map(|(at, one)| others(at).map(|other| (one.home(), other)));
        pairs.into_iter().find(|&(one, other)| !self.between(one, other).any(&there))
    }

    /// When a death is known, or a later one: what to say if it cuts two modules off from each other.
    pub fn cut_at(&self, now: SimTime) -> Option<String> {
        let dead = |gateway: usize| self.deaths.iter().any(|&(other, at)| other == gateway && at + self.detection <= now);
        let (one, other) = self.cut(|gateway| !dead(gateway))?;
        let (gateway, at) = self.deaths.iter().filter(|&&(gateway, _)| dead(gateway)).max_by_key(|&&(_, at)| at)?;
        let network = |rail: Rail| self.modules.iter().find(|module| module.home() == rail).map_or("", |module| module.name.as_str());
        let (name, one, other) = (&self.gateways[*gateway].name, network(one), network(other));
        Some(format!("the gateway {name} died at {at}, and no other joins {one} and {other}: messages between them are lost"))
    }

    /// Where the gateways run, if the run needs them.
    pub fn places(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.gateways.iter().map(|gateway| gateway.process)
    }

    /// What a gateway takes a fragment.
    fn work(&self, length: u64) -> SimTime {
        self.cost + SimTime((u128::from(length) * u128::from(self.per_kib.as_ps()) / 1024) as u64)
    }
}

/// Two numbers as one in which pairs at a distance differ: the high bits of a multiplicative hash.
fn mixed(one: u32, other: u32) -> u32 {
    ((u64::from(one) << 32 | u64::from(other)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
}

/// A put that is not known to be there.
#[derive(Clone, Copy, Debug)]
struct Flying {
    gateway: usize,
    local: LocalBuffer,
    length: u64,
    envelope: Envelope,
    /// The event that tells of its end.
    tells: Option<EventKind>,
    /// Its bytes are in memory of ours.
    kept: bool,
    /// It matches in its turn.
    in_order: bool,
    /// It has taken a credit.
    sent: bool,
}

impl Flying {
    /// The event that tells of its end.
    fn told(&self, fail: FailType) -> Option<Event> {
        self.tells.map(|kind| Event { fail, user_ptr: self.local.user_ptr, mlength: self.length, ..Event::blank(kind) })
    }
}

/// What is known of a process of another module.
#[derive(Debug, Default)]
struct Peer {
    next: u32,
    flying: BTreeMap<u32, Flying>,
    /// Of these, in order; by which gateway.
    in_order: u32,
    by: usize,
    /// By gateway: how many in order it was given.
    orders: Vec<u32>,
}

/// A gateway, as a process sees it.
#[derive(Debug)]
struct Gate {
    credits: u32,
    /// That wait for their end.
    bytes: u64,
    /// That wait for a credit.
    queue: VecDeque<(ProcessId, u32)>,
    gone: bool,
}

/// What a process has under way to other modules.
#[derive(Debug)]
pub(crate) struct Bridge {
    bridging: Arc<Bridging>,
    home: Rail,
    local: ProcessId,
    eq: EqId,
    /// What matches does so in order; else its protocol puts it in order.
    ordered: bool,
    peers: BTreeMap<ProcessId, Peer>,
    gates: Vec<Gate>,
    /// What the control entry of those above is known by.
    control: Option<u64>,
    heap: Heap,
    /// For those above.
    events: VecDeque<Event>,
}

impl Bridge {
    pub(crate) fn new(bridging: Arc<Bridging>, home: Rail, (local, eq): (ProcessId, EqId), ordered: bool) -> Bridge {
        let gate = |_: &GatewayPlace| Gate { credits: bridging.buffers, bytes: 0, queue: VecDeque::new(), gone: false };
        let gates = bridging.gateways.iter().map(gate).collect();
        Bridge {
            home,
            local,
            eq,
            ordered,
            peers: BTreeMap::new(),
            gates,
            control: None,
            heap: Heap::default(),
            events: VecDeque::new(),
            bridging,
        }
    }

    /// The put of which a gateway says something.
    fn told_of(&self, event: &Event) -> Option<&Flying> {
        self.peers.get(&wire::bridged_to(event))?.flying.get(&(event.hdr_data as u32))
    }

    /// The gateway of a put to `target`, which comes in its turn behind others if `by` is theirs.
    fn choose(&self, target: ProcessId, by: Option<usize>) -> Option<usize> {
        if let Some(by) = by
            && !self.gates[by].gone
        {
            return Some(by);
        }
        let there = self.bridging.home(target)?;
        let all: Vec<usize> = self.bridging.between(self.home, there).filter(|&gateway| !self.gates[gateway].gone).collect();
        match self.bridging.choice {
            GatewayChoice::Static => all.get((mixed(self.local.nid, target.nid) as usize).checked_rem(all.len())?).copied(),
            // Of equal ones not all processes take the same.
            GatewayChoice::LeastLoaded => {
                let turn = |gateway: usize| (gateway + self.local.nid as usize) % self.gates.len();
                all.into_iter().min_by_key(|&gateway| (self.gates[gateway].bytes, turn(gateway)))
            }
        }
    }

    /// Gives a put to a gateway, when it has a credit there.
    fn send(&mut self, transport: &mut dyn Transport, mut flying: Flying) {
        let target = flying.envelope.target;
        let peer = self.peers.entry(target).or_default();
        let by = (flying.in_order && peer.in_order > 0).then_some(peer.by);
        let sequence = peer.next;
        peer.next = sequence.wrapping_add(1);
        flying.envelope.sequence = sequence;
        let Some(gateway) = self.choose(target, by) else {
            // Whoever runs this ends the run: there was one, and it is gone.
            self.events.extend(flying.told(FailType::Undeliverable));
            return;
        };
        let peer = self.peers.entry(target).or_default();
        if flying.in_order {
            peer.in_order += 1;
            peer.by = gateway;
        }
        peer.flying.insert(sequence, flying);
        self.enqueue(target, sequence, gateway);
        self.pump(transport, gateway);
    }

    fn enqueue(&mut self, target: ProcessId, sequence: u32, gateway: usize) {
        let Some(flying) = self.peers.get_mut(&target).and_then(|peer| peer.flying.get_mut(&sequence)) else { return };
        (flying.gateway, flying.sent) = (gateway, false);
        let gate = &mut self.gates[gateway];
        gate.bytes += flying.length;
        gate.queue.push_back((target, sequence));
    }

    fn pump(&mut self, transport: &mut dyn Transport, gateway: usize) {
        let via = self.bridging.gateways[gateway].process;
        while self.gates[gateway].credits > 0
            && let Some((target, sequence)) = self.gates[gateway].queue.pop_front()
        {
            let Some(peer) = self.peers.get_mut(&target) else { continue };
            // A word of one that is gone may have come since.
            let Some(flying) = peer.flying.get_mut(&sequence) else { continue };
            flying.sent = true;
            if flying.in_order {
                peer.orders.resize(self.gates.len(), 0);
                peer.orders[gateway] += 1;
                flying.envelope.order = peer.orders[gateway];
            }
            self.gates[gateway].credits -= 1;
            let options = md::EVENT_SEND_DISABLE;
            let local = LocalBuffer { options, user_ptr: 0, eq: self.eq, ..flying.local };
            transport.forward(self.home, Forward { local, length: flying.length, envelope: flying.envelope, via: Some(via) });
        }
    }

    /// A gateway says that a put is there, or that its target had no room.
    fn done(&mut self, transport: &mut dyn Transport, event: &Event) {
        let target = wire::bridged_to(event);
        if event.match_bits == wire::BRIDGED_DROPPED {
            return self.dropped(transport, target, event);
        }
        let Some(peer) = self.peers.get_mut(&target) else { return };
        // It may have been sent by two.
        let Some(flying) = peer.flying.remove(&(event.hdr_data as u32)) else { return };
        peer.in_order -= u32::from(flying.in_order);
        let gate = &mut self.gates[flying.gateway];
        (gate.credits, gate.bytes) = (gate.credits + u32::from(flying.sent), gate.bytes - flying.length);
        if flying.kept {
            self.heap.free(flying.local.address);
        }
        self.events.extend(flying.told(FailType::Ok));
        self.pump(transport, flying.gateway);
    }

    /// There was no room for a put: it goes again, under its number, since another copy of it may still arrive.
    fn dropped(&mut self, transport: &mut dyn Transport, target: ProcessId, event: &Event) {
        let sequence = event.hdr_data as u32;
        let Some(&flying) = self.told_of(event) else { return };
        let Flying { gateway, length, .. } = flying;
        if self.bridging.gateways[gateway].process != event.initiator {
            // It goes by another one already.
            return;
        }
        let gate = &mut self.gates[gateway];
        (gate.credits, gate.bytes) = (gate.credits + 1, gate.bytes - length);
        let Some(next) = self.choose(target, flying.in_order.then_some(gateway)) else { return };
        self.enqueue(target, sequence, next);
        self.pump(transport, gateway);
        if next != gateway {
            self.pump(transport, next);
        }
    }

    /// A gateway is gone: what it has not answered for goes by others, in its order.
    fn gone(&mut self, transport: &mut dyn Transport, gateway: usize) {
        let Some(gate) = self.gates.get_mut(gateway) else { return };
        gate.gone = true;
        gate.queue.clear();
        let of_peer = |(&target, peer): (&ProcessId, &Peer)| {
            let lost = peer.flying.iter().filter(|(_, flying)| flying.gateway == gateway);
            lost.map(|(&sequence, flying)| (target, sequence, flying.in_order)).collect::<Vec<_>>()
        };
        let lost: Vec<_> = self.peers.iter().flat_map(of_peer).collect();
        let mut first: BTreeMap<ProcessId, usize> = BTreeMap::new();
        for (target, sequence, in_order) in lost {
            // Those in order stay together.
            let Some(other) = self.choose(target, first.get(&target).copied().filter(|_| in_order)) else { continue };
            if in_order {
                first.insert(target, other);
            }
            if let Some(peer) = self.peers.get_mut(&target)
                && in_order
            {
                peer.by = other;
            }
            self.enqueue(target, sequence, other);
        }
        for other in 0..self.gates.len() {
            if !self.gates[other].gone {
                self.pump(transport, other);
            }
        }
    }
}
