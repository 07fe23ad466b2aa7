//! The sources of messages, and the counting at their targets, for some of the hosts. Both are state machines: timers
//! and arrivals in, transfers and timers out.

use crate::meter::Meter;
use crate::pattern::Targets;
use crate::{Flow, Injection, Sizes};
use narrows_engine::{Arena, random::Stream, stream};
use narrows_fabric::parallel::Context;
use narrows_fabric::{Arrival, Transfer, TransferId, ZeroLoad};
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bits of a timer's tag below those of its class.
const CLASS_SHIFT: u32 = 28;

/// How messages are numbered: the bit above all numbers, and bits below that of their class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    first: u32,
    shift: u32,
}

impl Numbers {
    /// Nothing else is on the network: 15 classes.
    pub(crate) const ALONE: Numbers = Numbers { first: 0, shift: CLASS_SHIFT };
    /// Others have the numbers below 2^30, and those from 2^31 on: 7 classes.
    pub(crate) const BESIDE: Numbers = Numbers { first: crate::Background::FIRST, shift: 27 };

    /// Of a message that acknowledges one of a closed loop.
    fn acknowledgement(self) -> u32 {
        1 << (self.shift - 1)
    }

    fn id(self, class: usize, number: u32) -> TransferId {
        TransferId(self.first | (class as u32) << self.shift | number)
    }

    pub(crate) fn class(self, TransferId(id): TransferId) -> usize {
        ((id & !self.first) >> self.shift) as usize
    }
}

/// What sources ask for.
pub trait Outlet {
    /// The time.
    fn now(&self) -> SimTime;
    /// See [`Context::start`].
    fn start(&mut self, transfer: Transfer);
    /// A timer of a host, which strikes with `tag`.
    fn timer(&mut self, at: SimTime, host: u32, tag: u32);
    /// See [`Context::zero_load`].
    fn zero_load(&self, transfer: &Transfer) -> ZeroLoad;
}

impl Outlet for Context<'_> {
    #[inline]
    fn now(&self) -> SimTime {
        Context::now(self)
    }

    #[inline]
    fn start(&mut self, transfer: Transfer) {
        Context::start(self, transfer);
    }

    #[inline]
    fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        Context::timer(self, at, host, tag, ());
    }

    fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        Context::zero_load(self, transfer)
    }
}

/// A class of traffic, resolved.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) targets: Targets,
    /// Positions of the sending nodes.
    pub(crate) senders: Vec<u32>,
    pub(crate) sizes: Sizes,
    pub(crate) injection: Injection,
    /// `None` in a closed loop.
    pub(crate) load: Option<f64>,
    /// What a mean message takes on the host link, in picoseconds.
    pub(crate) slot: f64,
    pub(crate) start: SimTime,
    pub(crate) end: SimTime,
    pub(crate) virtual_network: u8,
}

/// What all sources share.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) generators: Vec<Generator>,
    /// In the order of starts and, at one start, of sources; instead of generators.
    pub(crate) flows: Vec<Flow>,
    pub(crate) mtu: u64,
    pub(crate) header: u64,
    pub(crate) seed: u64,
    pub(crate) numbers: Numbers,
}

impl Plan {
    /// Bytes on the wire of a message.
    #[inline]
    pub(crate) fn wire(&self, payload: u64) -> u64 {
        payload + payload.div_ceil(self.mtu).max(1) * self.header
    }

    /// Messages of a class differ, so that the time of each has to be compared with its own.
    #[inline]
    fn is_mixed(&self, class: usize) -> bool {
        self.generators.get(class).is_none_or(|generator| !matches!(generator.sizes, Sizes::Fixed(_)))
    }

    /// Of generators, or one for all flows.
    pub(crate) fn classes(&self) -> usize {
        self.generators.len().max(1)
    }

    /// The nodes that send in a class.
    pub(crate) fn senders(&self, class: usize) -> Vec<u32> {
        let mut nodes: Vec<u32> = match self.generators.get(class) {
            Some(generator) => generator.senders.iter().map(|&position| generator.targets.node(position)).collect(),
            None => self.flows.iter().map(|flow| flow.source).collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// A node that sends in a class: 32 bytes, and one timer.
#[derive(Debug)]
struct Source {
    random: Stream,
    host: u32,
    /// Among the nodes of its pattern.
    position: u32,
    turn: u32,
    /// Messages so far.
    sequence: u32,
}

/// The sources of some hosts, and what arrives there.
#[derive(Debug)]
pub(crate) struct Sources {
    plan: Arc<Plan>,
    /// Zero of the times of classes.
    begin: SimTime,
    /// Class by class, and within one in the order of the hosts.
    sources: Vec<Source>,
    /// Of each class, the first of its sources; and the end.
    firsts: Vec<u32>,
    /// Flows that start here, by their place in the list.
    flows: Vec<u32>,
    /// Of closed loops: to be sent when the message is through.
    acknowledgements: Arena<Transfer>,
    pub(crate) meter: Meter,
    /// Completion times of flows that end here.
    pub(crate) flow_times: BTreeMap<u32, u64>,
}

/// How long a message takes on an empty network, in picoseconds.
fn alone(arrival: &Arrival, fabric: &impl Outlet) -> u64 {
    let Arrival { id, source, target, virtual_network, payload, .. } = *arrival;
    let message = Transfer { id, source, target, virtual_network, payload, source_dma: false, target_dma: false, route: 0 };
    fabric.zero_load(&message).tail.as_ps()
}

/// Tags from here on are those of acknowledgements to be sent; there are at most 15 classes.
const ANSWERS: u32 = 15 << CLASS_SHIFT;

impl Sources {
    /// Those of `hosts` (sorted), with their first timers.
    pub(crate) fn new(plan: Arc<Plan>, hosts: &[u32], timer: &mut impl FnMut(SimTime, u32, u32)) -> Sources {
        Sources::beginning(plan, hosts, SimTime::ZERO, timer)
    }

    /// The same; the times of classes count from `begin`.
    pub(crate) fn beginning(plan: Arc<Plan>, hosts: &[u32], begin: SimTime, timer: &mut impl FnMut(SimTime, u32, u32)) -> Sources {
        let mut sources = Vec::new();
        let mut firsts = vec![0];
        for (class, generator) in plan.generators.iter().enumerate() {
            let node = |&position: &u32| (generator.targets.node(position), position);
            let mut here: Vec<(u32, u32)> =
                generator.senders.iter().map(node).filter(|(node, _)| hosts.binary_search(node).is_ok()).collect();
            here.sort_unstable();
            for (host, position) in here {
                let mut random = stream(plan.seed, "traffic", u64::from(host) << 4 | class as u64);
                let tag = (class as u32) << CLASS_SHIFT | (sources.len() as u32 - firsts[class]);
                let messages = if let Injection::Closed { messages } = generator.injection { messages } else { 1 };
                for _ in 0..messages {
                    let wait = generator.injection.first(generator.slot, generator.load.unwrap_or(1.0), &mut random);
                    let at = generator.start + SimTime(wait);
                    if at < generator.end {
                        timer(begin + at, host, tag);
                    }
                }
                sources.push(Source { random, host, position, turn: 0, sequence: 0 });
            }
            firsts.push(sources.len() as u32);
        }
        let here = |flow: &Flow| hosts.binary_search(&flow.source).is_ok();
        let flows: Vec<u32> = (0..plan.flows.len() as u32).filter(|&flow| here(&plan.flows[flow as usize])).collect();
        if let Some(first) = flows.first().map(|&flow| &plan.flows[flow as usize]) {
            timer(first.start, first.source, 0);
        }
        let meter = Meter::new(plan.classes());
        Sources { plan, begin, sources, firsts, flows, acknowledgements: Arena::new(), meter, flow_times: BTreeMap::new() }
    }

    /// A timer strikes.
    #[inline]
    pub(crate) fn strike(&mut self, tag: u32, fabric: &mut impl Outlet) {
        if !self.plan.flows.is_empty() {
            return self.start_flow(tag, fabric);
        }
        if tag >= ANSWERS {
            let acknowledgement = self.acknowledgements[tag - ANSWERS];
            self.acknowledgements.remove(tag - ANSWERS);
            return fabric.start(acknowledgement);
        }
        let (class, index) = ((tag >> CLASS_SHIFT) as usize, tag & ((1 << CLASS_SHIFT) - 1));
        let generator = &self.plan.generators[class];
        let now = fabric.now();
        if now - self.begin >= generator.end {
            return;
        }
        let source = &mut self.sources[(self.firsts[class] + index) as usize];
        let target = generator.targets.next(source.position, &mut source.turn, &mut source.random);
        let payload = generator.sizes.draw(&mut source.random);
        if let Some(load) = generator.load {
            let next = now + SimTime(generator.injection.gap(generator.slot, load, &mut source.random));
            if next - self.begin < generator.end {
                fabric.timer(next, source.host, tag);
            }
        }
        let number = source.sequence;
        source.sequence = (source.sequence + 1) & (self.plan.numbers.acknowledgement() - 1);
        self.meter.generated(class, now.as_ps(), self.plan.wire(payload));
        fabric.start(Transfer {
            id: self.plan.numbers.id(class, number),
            source: source.host,
            target,
            virtual_network: generator.virtual_network,
            payload: Bytes(payload),
            source_dma: false,
            target_dma: false,
            route: 0,
        });
    }

    /// Starts the flow at this place of those here, and sets the timer of the next.
    fn start_flow(&mut self, tag: u32, fabric: &mut impl Outlet) {
        let number = self.flows[tag as usize];
        let Flow { source, target, bytes, start } = self.plan.flows[number as usize];
        if let Some(&next) = self.flows.get(tag as usize + 1) {
            let next = &self.plan.flows[next as usize];
            fabric.timer(next.start, next.source, tag + 1);
        }
        self.meter.generated(0, start.as_ps(), self.plan.wire(bytes));
        fabric.start(Transfer {
            id: TransferId(number),
            source,
            target,
            virtual_network: 0,
            payload: Bytes(bytes),
            source_dma: false,
            target_dma: false,
            route: 0,
        });
    }

    /// The class of a message that is to be counted.
    #[inline]
    fn class(&self, id: TransferId) -> Option<usize> {
        if !self.plan.flows.is_empty() {
            return Some(0);
        }
        (id.0 & self.plan.numbers.acknowledgement() == 0).then(|| self.plan.numbers.class(id))
    }

    /// The last byte of a message is, or will be, at its target, which is here, at `through`.
    #[inline]
    pub(crate) fn delivered(&mut self, arrival: &Arrival, through: SimTime, fabric: &mut impl Outlet) {
        let Some(class) = self.class(arrival.id) else {
            // An acknowledgement: its source sends again.
            let class = self.plan.numbers.class(arrival.id);
            let sources = &self.sources[self.firsts[class] as usize..self.firsts[class + 1] as usize];
            let index = sources.binary_search_by_key(&arrival.target, |source| source.host);
            let index = index.expect("acknowledgements go to those who sent") as u32;
            return fabric.timer(through, arrival.target, (class as u32) << CLASS_SHIFT | index);
        };
        let born = arrival.started.as_ps();
        let alone = self.plan.is_mixed(class).then(|| alone(arrival, fabric));
        self.meter.done(class, born, through.as_ps(), alone);
        if !self.plan.flows.is_empty() {
            self.flow_times.insert(arrival.id.0, through.as_ps() - born);
        } else if self.plan.generators[class].load.is_none() {
            let acknowledgement = Transfer {
                id: TransferId(arrival.id.0 | self.plan.numbers.acknowledgement()),
                source: arrival.target,
                target: arrival.source,
                virtual_network: arrival.virtual_network,
                payload: Bytes(0),
                source_dma: false,
                target_dma: false,
                route: 0,
            };
            let slot = self.acknowledgements.insert(acknowledgement);
            fabric.timer(through, arrival.target, ANSWERS | slot);
        }
    }

    /// All of a message is through on a network without packets.
    pub(crate) fn whole(&mut self, arrival: &Arrival, through: SimTime) {
        self.packet(arrival.id, arrival.started, through, self.plan.wire(arrival.payload.0));
    }

    /// A packet of a message is through.
    #[inline]
    pub(crate) fn packet(&mut self, id: TransferId, injected: SimTime, through: SimTime, wire: u64) {
        if let Some(class) = self.class(id) {
            self.meter.arrived(class, injected.as_ps(), through.as_ps(), wire);
        }
    }
}
