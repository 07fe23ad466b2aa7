//! Trains: long messages alone on their way, whose packets make no events.
//!
//! A message of many packets whose links are all idle is a row of sums and maxima: a packet leaves an output when it is
//! there, the one before has left, and credits are back. These times are computed for all of its packets at once; the
//! outputs on the way belong to the train meanwhile ([`Load::free`] is [`NEVER`]), and events are only those that tell
//! somebody something. A further message on the same way joins the train.
//!
//! Whatever else wants one of these outputs, or the port of the source, ends the train first: of every packet it is
//! known where it is at that time, and the state is put there in which its events would have left it
//! ([`Region::end_train`]). So times are those of packets one by one, to the picosecond; `tests/it/trains.rs` compares
//! them.

use super::region::{Effects, Region};
use super::state::*;
use crate::flights::NONE;
use crate::parallel::PLACE_BITS;
use crate::port::{Label, PacketKind, PortEvent, Ports, Rest};
use crate::timing::Costs;
use crate::{Arrival, EventKind, Statistics, Transfer};
use narrows_topology::{Route, RouteState};
use narrows_units::{Bytes, SimTime};
use std::collections::VecDeque;

/// Messages of fewer packets make no train of their own.
const LEAST: u64 = 8;
/// So many packets are computed ahead.
const CHUNK: u64 = 256;

/// An output on the way.
#[derive(Debug)]
struct Stage {
    output: u32,
    lane: u32,
    link: u32,
    speed: u16,
    /// Where its packets are behind it.
    input: u32,
    latency: u64,
    /// From the beginning of a packet here to its head at the next switch.
    pipeline: u64,
    /// What a packet waits for before it beside the link.
    turn: u64,
    /// Of packets behind it.
    route: RouteState,
    changed: bool,
    /// When the last packet that was forgotten, or any before the train, has left; and the last one computed.
    free_before: u64,
    free: u64,
    /// Bytes for which no credits are back, and the first packet of those; credits that were on their way back before.
    held: u64,
    oldest: u64,
    returning: VecDeque<(u64, u32)>,
    /// An output chose a packet that was forgotten in its turn.
    turned: bool,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
struct Car {
    wire: u32,
    /// Of its message.
    index: u64,
    /// The number of the message in the train.
    message: u64,
    /// It needed no reading, and left as its message was started.
    at_start: bool,
    /// When it could leave its port, and when it is all read.
    ready: u64,
    read: u64,
    /// When it is through at the target.
    through: u64,
    /// By stage: it waits for credits there; it waits there at all.
    stalls: u64,
    waits: u64,
}

#[derive(Debug)]
struct Message {
    transfer: Transfer,
    started: u64,
    /// The number of its first packet, and how many there are.
    first: u64,
    packets: u64,
    /// The bus has been told to read all of it; its number at the receiver if its head has been told.
    is_read: bool,
    slot: u32,
    /// Its end has been told.
    is_there: bool,
}

#[derive(Debug, Default)]
struct Train {
    /// Ports of source and target, by their numbers in the region.
    source: u32,
    target: u32,
    window: u64,
    stages: Vec<Stage>,
    messages: VecDeque<Message>,
    messages_gone: u64,
    /// Messages are written to memory.
    written: bool,
    /// Packets, the first of which has the number `gone`; and of each, by stage, when it starts there.
    cars: VecDeque<Car>,
    times: VecDeque<u64>,
    gone: u64,
    /// Buses: after the last packet computed; of the source, before the train and after the last one forgotten.
    read_free: u64,
    write_free: u64,
    read_before: u64,
    write_before: u64,
    /// Everything up to this time has happened.
    reached: Option<u64>,
    forgotten: Statistics,
}

/// Those of a region.
#[derive(Debug, Default)]
pub(super) struct Trains {
    /// Nothing but links, buffers and buses has a say in when packets go.
    possible: bool,
    trains: Vec<Train>,
    free: Vec<u32>,
}

/// What is known of a packet at a stage.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    /// Its head is there; it looks for the first time whether it may go, and goes.
    head: u64,
    looks: u64,
    starts: u64,
    /// It can go as soon as its head is there.
    at_once: bool,
}

impl Trains {
    pub(super) fn new(possible: bool) -> Trains {
        Trains { possible, ..Trains::default() }
    }
}

impl Train {
    fn width(&self) -> usize {
        self.stages.len()
    }

    fn made(&self) -> u64 {
        self.gone + self.cars.len() as u64
    }

    fn car(&self, number: u64) -> &Car {
        &self.cars[(number - self.gone) as usize]
    }

    fn starts(&self, number: u64, stage: usize) -> u64 {
        self.times[(number - self.gone) as usize * self.width() + stage]
    }

    /// When the credits of a packet are back at the output of a stage.
    fn returned(&self, number: u64, stage: usize, costs: &Costs) -> u64 {
        let Car { wire, through, .. } = *self.car(number);
        let left = match self.stages.get(stage + 1) {
            Some(next) => self.starts(number, stage + 1) + costs.wire(next.speed).time(wire),
            None => through,
        };
        left + self.stages[stage].latency
    }

    /// When a packet's head is at a stage behind the first one, and from when on it may start there.
    fn arrives(&self, stage: usize, before: u64, wire: u32, how: How<'_>) -> (u64, u64) {
        let (last, here) = (&self.stages[stage - 1], &self.stages[stage]);
        let over = how.costs.wire(last.speed).time(wire);
        let all = before + over + last.pipeline;
        let head = if how.store_and_forward { all } else { before + last.pipeline };
        let goes = if how.uneven { all.saturating_sub(how.costs.wire(here.speed).time(wire)).max(head + here.turn) } else { head };
        (head, goes)
    }

    /// Computes the next packet; false if there is none.
    fn make(&mut self, how: How<'_>) -> bool {
        let number = self.made();
        let costs = how.costs;
        let Some(message) = self.messages.back() else { return false };
        let index = number - message.first;
        if index == message.packets {
            return false;
        }
        let Transfer { payload: Bytes(all), source_dma, target_dma, .. } = message.transfer;
        let payload = (all - index * u64::from(costs.mtu)).min(u64::from(costs.mtu)) as u32;
        let wire = payload + costs.header;
        let started = message.started;
        let (mut goes, mut read) = (started, started);
        if source_dma {
            let asked = if index < self.window { started } else { self.starts(number - self.window, 0) };
            let begin = asked.max(self.read_free);
            read = begin + costs.pcie.time(payload);
            goes = begin + costs.read_ahead(payload);
            self.read_free = read;
        }
        let ready = goes;
        let (mut stalls, mut waits, mut before, mut left, mut through) = (0, 1, 0, 0, 0);
        for at in 0..self.width() {
            let mut head = NEVER;
            if at > 0 {
                (head, goes) = self.arrives(at, before, wire, how);
            }
            let looks = goes.max(self.stages[at].free);
            let mut starts = looks;
            while self.stages[at].held + u64::from(wire) > how.buffer {
                let oldest = self.stages[at].oldest;
                let back = if oldest < number { self.returned(oldest, at, costs) } else { NEVER };
                let before = self.stages[at].returning.front().copied();
                let bytes = if let Some((earlier, bytes)) = before.filter(|(earlier, _)| *earlier <= back) {
                    self.stages[at].returning.pop_front();
                    starts = starts.max(earlier);
                    bytes
                } else {
                    starts = starts.max(back);
                    self.stages[at].oldest += 1;
                    self.car(oldest).wire
                };
                self.stages[at].held -= u64::from(bytes);
            }
            stalls |= u64::from(starts > looks) << at;
            waits |= u64::from(starts != head) << at;
            let stage = &mut self.stages[at];
            stage.held += u64::from(wire);
            stage.free = starts + costs.wire(stage.speed).time(wire);
            self.times.push_back(starts);
            before = starts;
            if at == 0 {
                left = starts;
            }
            if at + 1 == self.stages.len() {
                let stage = &self.stages[at];
                through = stage.free + stage.latency;
                if target_dma && payload > 0 {
                    let begin = (starts + stage.latency + costs.write_behind(payload)).max(self.write_free);
                    through = begin + costs.pcie.time(payload);
                    self.write_free = through;
                }
            }
        }
        let at_start = !source_dma && index == 0 && left == started;
        let message = self.messages_gone + self.messages.len() as u64 - 1;
        self.cars.push_back(Car { wire, index, message, at_start, ready, read, through, stalls, waits });
        true
    }

    /// Computes packets ahead: at least all that are asked for at once.
    fn extend(&mut self, how: How<'_>) {
        for _ in 0..CHUNK.max(self.window) {
            if !self.make(how) {
                return;
            }
        }
    }

    /// When all of a message is being read, if that is known and it is read at all.
    fn all_asked(&self, message: &Message) -> Option<u64> {
        if !message.transfer.source_dma {
            return None;
        }
        let last = message.first + message.packets - 1;
        if message.packets <= self.window {
            return Some(message.started);
        }
        (last < self.made()).then(|| self.starts(last - self.window, 0))
    }

    /// When the next packet must be computed, if there is one: as soon as it is asked for. Later the time at which it
    /// is read could have passed.
    fn goes_on(&self) -> Option<u64> {
        let message = self.messages.back().filter(|message| self.made() < message.first + message.packets)?;
        let ahead = if message.transfer.source_dma { self.window } else { 1 };
        Some(self.starts(self.made() - ahead, 0))
    }

    fn begins_at_target(&self, number: u64) -> Option<u64> {
        (number < self.made()).then(|| self.starts(number, self.width() - 1))
    }

    /// When there is something to tell, or to compute.
    fn next(&self) -> u64 {
        let mut next = NEVER;
        for message in &self.messages {
            if !message.is_read {
                next = next.min(self.all_asked(message).unwrap_or(NEVER));
            }
            if message.slot == NONE {
                next = next.min(self.begins_at_target(message.first).unwrap_or(NEVER));
            }
            if !message.is_there {
                next = next.min(self.begins_at_target(message.first + message.packets - 1).unwrap_or(NEVER));
            }
        }
        next.min(self.goes_on().unwrap_or(NEVER))
    }

    /// Forgets packets of which nothing is left anywhere; the next ones to be read look at those a window before.
    fn forget(&mut self, now: u64, how: How<'_>) {
        let width = self.width();
        while let Some(&car) = self.cars.front() {
            let number = self.gone;
            let back = |stage| self.returned(number, stage, how.costs) < now;
            if number + self.window >= self.made() || !(0..width).all(back) {
                return;
            }
            for stage in 0..width {
                let starts = self.times[stage];
                let state = &mut self.stages[stage];
                state.free_before = starts + how.costs.wire(state.speed).time(car.wire);
                state.turned |= car.waits >> stage & 1 != 0;
                if state.oldest == number {
                    state.held -= u64::from(car.wire);
                    state.oldest += 1;
                }
            }
            (self.read_before, self.write_before) = (car.read, car.through);
            self.forgotten.packets += 1;
            self.forgotten.packet_hops += width as u64;
            self.forgotten.credit_stalls += u64::from(car.stalls.count_ones());
            self.times.drain(..width);
            self.cars.pop_front();
            self.gone += 1;
        }
    }

    /// What is known of a packet at a stage.
    fn at(&self, number: u64, stage: usize, how: How<'_>) -> At {
        let Car { wire, ready, .. } = *self.car(number);
        let starts = self.starts(number, stage);
        let free = if number == self.gone {
            self.stages[stage].free_before
        } else {
            self.starts(number - 1, stage) + how.costs.wire(self.stages[stage].speed).time(self.car(number - 1).wire)
        };
        let (head, goes) = if stage == 0 { (NEVER, ready) } else { self.arrives(stage, self.starts(number, stage - 1), wire, how) };
        At { head, looks: goes.max(free), starts, at_once: starts == head }
    }
}

/// What packets take.
#[derive(Clone, Copy)]
struct How<'a> {
    costs: &'a Costs,
    uneven: bool,
    store_and_forward: bool,
    buffer: u64,
}

/// What has happened: all events before a place in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    /// The time, and kind and place of an event at that time.
    pub(crate) at: u64,
    pub(crate) event: u64,
    /// Where places of the network begin.
    pub(crate) base: u32,
}

/// The same for a train.
#[derive(Clone, Copy)]
struct Happened {
    frontier: Frontier,
    reached: Option<u64>,
}

impl Happened {
    fn event(&self, at: u64, kind: EventKind, link: u32) -> bool {
        let Frontier { at: now, event, base } = self.frontier;
        let this = (kind as u64) << PLACE_BITS | u64::from(base + link);
        self.reached.is_some_and(|reached| at <= reached) || (at, this) < (now, event)
    }

    /// The packet's head was at the stage.
    fn came(&self, train: &Train, stage: usize, at: &At) -> bool {
        stage > 0 && self.event(at.head, EventKind::Ready, train.stages[stage - 1].link)
    }

    /// It looked whether it may go.
    fn looked(&self, train: &Train, stage: usize, at: &At) -> bool {
        if at.looks == at.head { self.came(train, stage, at) } else { self.event(at.looks, EventKind::Wake, train.stages[stage].link) }
    }

    /// It started there.
    fn started(&self, train: &Train, stage: usize, at: &At) -> bool {
        if at.at_once { self.came(train, stage, at) } else { self.event(at.starts, EventKind::Wake, train.stages[stage].link) }
    }
}

/// Where a packet is.
#[derive(Clone, Copy, Default)]
struct Position {
    /// It has started at so many stages; its head is at the next one, and has looked there whether it may go on.
    started: usize,
    came: bool,
    looked: bool,
}

impl<P: Ports> Region<P> {
    fn how(&self) -> How<'_> {
        How { costs: &self.costs, uneven: self.uneven, store_and_forward: self.store_and_forward, buffer: self.buffer }
    }

    /// The output is a train's.
    #[inline(always)]
    pub(super) fn is_taken(&self, output: u32) -> bool {
        self.loads[output as usize].free == NEVER
    }

    /// Takes a transfer if it can be a train or join one.
    #[inline]
    pub(super) fn board<F: Effects>(&mut self, now: u64, transfer: &Transfer, fx: &mut F) -> bool {
        if !self.trains.possible || F::EARLY || transfer.payload.0 <= (LEAST - 1) * u64::from(self.costs.mtu) || fx.looks() {
            return false;
        }
        self.board_long(now, transfer, fx)
    }

    fn board_long<F: Effects>(&mut self, now: u64, transfer: &Transfer, fx: &mut F) -> bool {
        let source = self.layout.hosts[transfer.source as usize].1;
        if F::PACKETS && [transfer.source, transfer.target].iter().any(|&host| self.shows(host)) {
            return false;
        }
        if self.is_taken(source) { self.join(now, source, transfer, fx) } else { self.form(now, source, transfer, fx) }
    }

    /// A further message of a train whose earlier ones have left their port.
    fn join(&mut self, now: u64, source: u32, transfer: &Transfer, fx: &mut impl Effects) -> bool {
        let number = self.loads[source as usize].backlog as usize;
        let train = &self.trains.trains[number];
        let Some(last) = train.messages.back() else { return false };
        let like = |transfer: &Transfer| Transfer { id: crate::TransferId(0), payload: Bytes(0), ..*transfer };
        let end = last.first + last.packets;
        if like(&last.transfer) != like(transfer) || train.made() < end {
            return false;
        }
        let happened = Happened { frontier: fx.frontier(), reached: train.reached };
        if self.cut(train, happened).0 < end || !last.is_read && last.transfer.source_dma {
            return false;
        }
        self.couple(now, number, transfer, fx);
        true
    }

    /// A train of its own, if all of its way is idle.
    fn form(&mut self, now: u64, source: u32, transfer: &Transfer, fx: &mut impl Effects) -> bool {
        let (region, target) = self.layout.hosts[transfer.target as usize];
        if region != self.number {
            return false;
        }
        let number = self.trains.free.pop().unwrap_or_else(|| {
            self.trains.trains.push(Train::default());
            self.trains.trains.len() as u32 - 1
        }) as usize;
        let mut stages = std::mem::take(&mut self.trains.trains[number].stages);
        stages.clear();
        let free = self.lay(now, source, transfer, &mut stages);
        let train = &mut self.trains.trains[number];
        train.stages = stages;
        if !free {
            self.trains.free.push(number as u32);
            return false;
        }
        for stage in &train.stages {
            self.loads[stage.output as usize] = Load { free: NEVER, backlog: number as u64 };
            self.outputs[stage.output as usize].wake = NEVER;
        }
        let (read_free, write_free) = (*self.ports.bus(source).0, *self.ports.bus(target).1);
        (train.source, train.target, train.window) = (source, target, u64::from(self.ports.window()));
        (train.read_free, train.read_before) = (read_free.as_ps(), read_free.as_ps());
        (train.write_free, train.write_before) = (write_free.as_ps(), write_free.as_ps());
        (train.gone, train.reached, train.forgotten) = (0, None, Statistics::default());
        (train.messages_gone, train.written) = (0, transfer.target_dma);
        train.messages.clear();
        train.cars.clear();
        train.times.clear();
        self.couple(now, number, transfer, fx);
        true
    }

    /// The stages of a way; false if it is not all idle.
    fn lay(&mut self, now: u64, source: u32, transfer: &Transfer, stages: &mut Vec<Stage>) -> bool {
        let Region { outputs, loads, lane_states, returns, inputs, routing, layout, costs, .. } = self;
        let network = u32::from(transfer.virtual_network);
        let (mut output, mut route) = (source, RouteState::default());
        let mut lane = network * self.channels;
        let (mut turn, mut changed) = (0, false);
        loop {
            let Output { occupied, latency, link, region, input, to_host, speed, .. } = outputs[output as usize];
            let state = &mut lane_states[lane as usize * outputs.len() + output as usize];
            if occupied != 0 || region != self.number || loads[output as usize].free == NEVER {
                return false;
            }
            state.credits += returns.collect(&mut state.back, now);
            let pipeline = latency + costs.switch_latency;
            // No packet is in the buffer or on its way to it; at most in that of the next stage.
            let held = returns.total(&state.back);
            if state.credits + held != self.buffer || pipeline == 0 || stages.len() == 32 {
                return false;
            }
            let returning = if held > 0 { returns.list(&state.back) } else { VecDeque::new() };
            let free = loads[output as usize].free;
            stages.push(Stage {
                output,
                lane,
                link,
                speed,
                input,
                latency,
                pipeline,
                turn,
                route,
                changed,
                free_before: free,
                free,
                held,
                oldest: 0,
                returning,
                turned: false,
            });
            if to_host {
                return true;
            }
            let Input { switch, link: from, .. } = inputs[input as usize];
            if routing.fixed(switch, from, transfer.target, &route).is_none() {
                return false;
            }
            let step = routing.next(switch, from, transfer.target, &mut route, |_| 0);
            route.channel = step.channel;
            output = layout.output[step.link as usize];
            lane = network * self.channels + u32::from(step.channel);
            if self.uneven {
                (turn, changed) = costs.turn(speed, outputs[output as usize].speed, changed);
            }
        }
    }

    /// Appends a message to a train.
    fn couple(&mut self, now: u64, number: usize, transfer: &Transfer, fx: &mut impl Effects) {
        self.ports.count(transfer);
        let packets = self.costs.packets(transfer.payload.0);
        let least = self.costs.header + (transfer.payload.0 - (packets - 1) * u64::from(self.costs.mtu)) as u32;
        self.least_wire = self.least_wire.min(least);
        let mut train = std::mem::take(&mut self.trains.trains[number]);
        train.forget(now, self.how());
        let first = train.made();
        train.messages.push_back(Message {
            transfer: *transfer,
            started: now,
            first,
            packets,
            is_read: false,
            slot: NONE,
            is_there: false,
        });
        train.extend(self.how());
        self.trains.trains[number] = train;
        self.tell_train(now, number, fx);
    }

    /// The output of a train's port wakes: something is to be told.
    #[cold]
    pub(super) fn train_goes_on(&mut self, output: u32, now: u64, fx: &mut impl Effects) {
        let number = self.loads[output as usize].backlog as usize;
        self.trains.trains[number].reached = Some(now);
        self.tell_train(now, number, fx);
    }

    /// Tells what is known by now, and sees to it that it is called again when there is more.
    fn tell_train(&mut self, now: u64, number: usize, fx: &mut impl Effects) {
        let mut train = std::mem::take(&mut self.trains.trains[number]);
        let has_come = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if has_come(train.goes_on()) {
            train.extend(self.how());
            train.forget(now, self.how());
        }
        for at in 0..train.messages.len() {
            let message = &train.messages[at];
            let (first, last, slot) = (message.first, message.first + message.packets - 1, message.slot);
            if !message.is_read && has_come(train.all_asked(message)) {
                fx.source_done(SimTime(train.car(last).read), message.transfer.source, message.transfer.id);
                train.messages[at].is_read = true;
            }
            if slot == NONE && has_come(train.begins_at_target(first)) {
                train.messages[at].slot = self.head_of_train(&train, at, fx);
            }
            if !train.messages[at].is_there && has_come(train.begins_at_target(last)) {
                self.tail_of_train(&train, last, train.messages[at].slot, fx);
                train.messages[at].is_there = true;
            }
        }
        while train.messages.len() > 1 && train.messages[0].is_there {
            train.messages.pop_front();
            train.messages_gone += 1;
        }
        let over = train.messages.back().is_none_or(|message| message.is_there);
        let (next, source) = (train.next(), train.source);
        self.trains.trains[number] = train;
        if over {
            self.end_train(number, now, fx);
        } else {
            self.wake_at(source, next, fx);
        }
    }

    /// The head of a message is, or will be, at its target.
    fn head_of_train(&mut self, train: &Train, message: usize, fx: &mut impl Effects) -> u32 {
        let Message { transfer, started, first, packets, .. } = train.messages[message];
        let Transfer { id, source, target, virtual_network, payload, .. } = transfer;
        let slot =
            self.ports.open(train.target, &Arrival { id, source, target, virtual_network, payload, started: SimTime(started) }, packets);
        let last = &train.stages[train.width() - 1];
        let header = train.starts(first, train.width() - 1) + last.latency + self.costs.host_wire().time(self.costs.header);
        fx.schedule_port(SimTime(header), PortEvent::Head, last.link, slot);
        slot
    }

    /// The last packet of a message has begun to arrive: when the message will be through.
    fn tail_of_train(&mut self, train: &Train, last: u64, slot: u32, fx: &mut impl Effects) {
        let through = SimTime(train.car(last).through);
        self.ports.complete(slot, through);
        fx.schedule_port(through, PortEvent::Tail, train.stages[train.width() - 1].link, slot);
    }

    /// Somebody else wants this output: packets go on one by one.
    #[cold]
    pub(super) fn stop_train(&mut self, output: u32, now: u64, fx: &mut impl Effects) {
        let number = self.loads[output as usize].backlog as usize;
        self.end_train(number, now, fx);
    }

    /// What packets of trains have counted by now.
    pub(super) fn statistics_of_trains(&self, frontier: Frontier) -> Statistics {
        let under_way = self.trains.trains.iter().filter(|train| !train.messages.is_empty());
        let count = |train: &Train| {
            let happened = Happened { frontier, reached: train.reached };
            self.count(train, &self.positions(train, happened), self.cut(train, happened).1)
        };
        under_way.fold(Statistics::default(), |sum, train| sum + count(train))
    }

    /// A packet has started at a stage.
    #[inline]
    fn has_started(&self, train: &Train, number: u64, stage: usize, happened: Happened) -> bool {
        let starts = train.starts(number, stage);
        if starts != happened.frontier.at {
            return starts < happened.frontier.at || happened.reached.is_some_and(|reached| starts <= reached);
        }
        happened.started(train, stage, &train.at(number, stage, self.how()))
    }

    /// The packets that have left their port, and those that have been made: the number of the next one.
    fn cut(&self, train: &Train, happened: Happened) -> (u64, u64) {
        let taken = (train.gone..train.made()).rev().find(|&number| {
            // The first of what is not read goes as its message starts.
            train.car(number).at_start || self.has_started(train, number, 0, happened)
        });
        let taken = taken.map_or(train.gone, |last| last + 1);
        let Some(message) = train.messages.back() else { return (taken, taken) };
        let ahead = if message.transfer.source_dma { train.window } else { 0 };
        (taken, if taken < message.first { taken } else { (taken + ahead).min(message.first + message.packets) })
    }

    /// Where its packets are, from the first that is not forgotten on.
    fn positions(&self, train: &Train, happened: Happened) -> Vec<Position> {
        let how = self.how();
        let of = |number| {
            for stage in 0..train.width() {
                let at_start = stage == 0 && train.car(number).at_start;
                if !at_start && !self.has_started(train, number, stage, happened) {
                    let at = train.at(number, stage, how);
                    let (came, looked) = (happened.came(train, stage, &at), happened.looked(train, stage, &at));
                    return Position { started: stage, came, looked };
                }
            }
            Position { started: train.width(), ..Position::default() }
        };
        (train.gone..train.made()).map(of).collect()
    }

    /// What packets of a train have counted, of which those before `cut` are made.
    fn count(&self, train: &Train, positions: &[Position], cut: u64) -> Statistics {
        let mut sum = train.forgotten;
        sum.packets += cut - train.gone;
        for (car, position) in train.cars.iter().zip(positions) {
            sum.packet_hops += position.started as u64;
            // A packet looks only when it is the first of those that wait: the one before has started.
            let looked = position.started + usize::from(position.looked);
            sum.credit_stalls += u64::from((car.stalls & ((1 << looked) - 1)).count_ones());
        }
        sum
    }

    /// Puts packets where they are now, and gives the outputs back.
    fn end_train(&mut self, number: usize, now: u64, fx: &mut impl Effects) {
        let mut train = std::mem::take(&mut self.trains.trains[number]);
        // Packets that are being read.
        for _ in 0..train.window {
            train.make(self.how());
        }
        let happened = Happened { frontier: fx.frontier(), reached: train.reached };
        let (taken, cut) = self.cut(&train, happened);
        let positions = self.positions(&train, happened);
        let counted = self.count(&train, &positions, cut);
        self.statistics.packet_hops += counted.packet_hops;
        self.statistics.credit_stalls += counted.credit_stalls;
        for stage in 0..train.width() {
            self.give_output_back(&train, &positions, stage, now);
        }
        for (number, position) in (train.gone..).zip(&positions) {
            if position.started > 0 && position.started < train.width() {
                self.put(&train, number, position, fx);
            }
        }
        self.settle_target(&train, &positions, fx);
        self.settle_source(&train, (taken, cut), counted.packets, fx);
        for stage in 0..train.width() {
            self.wake_stage(&train, &positions, stage, now, fx);
        }
        train.messages.clear();
        train.cars.clear();
        train.times.clear();
        self.trains.trains[number] = train;
        self.trains.free.push(number as u32);
    }

    /// An output as its packets have left it; those that wait for it are not there yet.
    fn give_output_back(&mut self, train: &Train, positions: &[Position], stage: usize, now: u64) {
        let state = &train.stages[stage];
        let (mut free, mut turned) = (state.free_before, state.turned);
        let place = self.place(state.output, state.lane);
        let lane = &mut self.lane_states[place];
        lane.credits += self.returns.collect(&mut lane.back, now);
        for (number, position) in (train.gone..).zip(positions) {
            let wire = train.car(number).wire;
            if position.started <= stage {
                break;
            }
            free = train.starts(number, stage) + self.costs.wire(state.speed).time(wire);
            turned |= train.car(number).waits >> stage & 1 != 0;
            let known = position.started > stage + 1 || position.started == train.width();
            let back = if known { train.returned(number, stage, &self.costs) } else { NEVER };
            let lane = &mut self.lane_states[place];
            if back > now {
                lane.credits -= u64::from(wire);
                if known {
                    self.returns.add(&mut lane.back, back, wire);
                }
            }
        }
        self.loads[state.output as usize] = Load { free, backlog: 0 };
        let output = &mut self.outputs[state.output as usize];
        (output.wake, output.stalled) = (NEVER, false);
        if turned {
            output.turn = if state.lane + 1 == self.lanes { 0 } else { state.lane as u8 + 1 };
        }
    }

    /// A packet that is on its way to a stage, or waits there.
    fn put(&mut self, train: &Train, number: u64, position: &Position, fx: &mut impl Effects) {
        let Car { wire, message, index, .. } = *train.car(number);
        let Message { transfer, started, .. } = train.messages[(message - train.messages_gone) as usize];
        let label = Label {
            id: transfer.id,
            source: transfer.source,
            target: transfer.target,
            virtual_network: transfer.virtual_network,
            message: transfer.payload,
            started: SimTime(started),
            wire,
            first: index == 0,
            index: index as u32,
            written: transfer.target_dma,
            kind: PacketKind::Data,
            sequence: 0,
            marked: false,
        };
        let mut packet = Packet::new(&label);
        packet.injected = train.starts(number, 0);
        for stage in &train.stages[..position.started] {
            packet.hop(stage.lane);
            packet.input = stage.input;
        }
        let (last, next) = (&train.stages[position.started - 1], &train.stages[position.started]);
        let before = train.starts(number, position.started - 1);
        packet.route = last.route;
        packet.change(last.changed);
        packet.ready = before + self.costs.wire(last.speed).time(wire) + last.pipeline;
        let (head, goes) = train.arrives(position.started, before, wire, self.how());
        if !position.came {
            let index = self.packets.insert(packet);
            return fx.schedule(head, EventKind::Ready, last.link, index);
        }
        packet.route = next.route;
        packet.change(next.changed);
        packet.ready = if self.uneven { goes } else { 0 };
        let index = self.packets.insert(packet);
        self.stand(next.output, next.lane, index);
    }

    /// Wakes an output that packets wait for.
    fn wake_stage(&mut self, train: &Train, positions: &[Position], stage: usize, now: u64, fx: &mut impl Effects) {
        let Stage { output, lane, .. } = train.stages[stage];
        if self.outputs[output as usize].occupied == 0 {
            return;
        }
        let free = self.loads[output as usize].free;
        let waits = (train.gone..).zip(positions).find(|(_, position)| position.started == stage && (stage == 0 || position.came));
        let Some((number, position)) = waits else { return self.wake_at(output, free.max(now), fx) };
        let at = train.at(number, stage, self.how());
        if position.looked && at.starts > at.looks {
            self.outputs[output as usize].stalled = true;
            let place = self.place(output, lane);
            self.lane_states[place].starved = true;
        }
        let at = if position.looked { at.starts } else { at.looks };
        self.wake_at(output, at.max(now), fx);
    }

    /// Messages that have begun to arrive.
    fn settle_target(&mut self, train: &Train, positions: &[Position], fx: &mut impl Effects) {
        let arrived = train.gone + positions.iter().take_while(|position| position.started == train.width()).count() as u64;
        let through = if arrived > train.gone { train.car(arrived - 1).through } else { train.write_before };
        if train.written {
            *self.ports.bus(train.target).1 = SimTime(through);
        }
        for (at, message) in train.messages.iter().enumerate() {
            if message.is_there || arrived <= message.first {
                continue;
            }
            let slot = if message.slot == NONE { self.head_of_train(train, at, fx) } else { message.slot };
            let end = message.first + message.packets;
            if arrived >= end {
                // The last packet has begun to arrive in this instant, and nobody has been told.
                self.tail_of_train(train, end - 1, slot, fx);
            } else {
                self.ports.left(slot, end - arrived, SimTime(through));
            }
        }
    }

    /// What has not left its port.
    fn settle_source(&mut self, train: &Train, (taken, cut): (u64, u64), packets: u64, fx: &mut impl Effects) {
        let Some(message) = train.messages.back() else { return };
        let Message { transfer, started, first, packets: all, is_read, .. } = *message;
        if transfer.source_dma {
            let read = if cut > train.gone { train.car(cut - 1).read } else { train.read_before };
            *self.ports.bus(train.source).0 = SimTime(read);
            if cut == first + all && !is_read {
                fx.source_done(SimTime(read), transfer.source, transfer.id);
            }
        }
        let reads = (taken..cut).map(|number| SimTime(train.car(number).ready)).collect();
        let taken_of_it = taken.saturating_sub(first);
        let rest = Rest { message: transfer, started: SimTime(started), taken: taken_of_it, any: taken > 0, reads, packets };
        self.ports.resume(train.source, &rest);
        if taken < first + all {
            self.outputs[train.source as usize].occupied |= 1 << (u32::from(transfer.virtual_network) * self.channels);
        }
    }
}
