//! The agent of a region: the NICs at its ports, and the processes above them. What else happens there stands around it
//! ([`crate::wrapper`]).

use crate::Processes;
use crate::inbound::{self, Inbound, Label};
use crate::multicast::{CopyNotice, MulticastTree, Multicasts};
use crate::wrapper::{Around, WrapperId, Wrappers};
use narrows_engine::{Digest, Slab, WordMap};
use narrows_fabric::parallel::{Agent, Context};
use narrows_fabric::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use narrows_fabric::{Arrival, Observer, PacketArrival, Transfer, TransferId, TreeError, Undelivered};
use narrows_nic::{self as nic, Combine, CommandError, Denied, Departure, Directory, Fault, Kinds, Nics, PayloadId, Process};
use narrows_portals::{AtomicOperation, Command, Datatype, Notice, Place};
use narrows_traffic::{Background, BackgroundSources};
use narrows_units::{PortId, Rail, SimTime};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A message: the port that sent it, and its number there.
pub(crate) type Name = (u32, u32);

/// An event of a region's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Due {
    #[default]
    Nothing,
    Nic(nic::Event),
    /// A header that takes no part of the network.
    Shortcut(u32),
    /// What a process has asked for first.
    Process(u32),
    /// What a wrapper has asked for, with its tag.
    Wrapper(WrapperId, u32),
}

/// What goes from region to region beside the network.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Letter<L, H> {
    /// Of a message that has been started. Headers are long, and letters are handed on several times.
    Label(Box<Label<H>>),
    Shortcut {
        at: SimTime,
        order: u32,
        header: Box<H>,
    },
    /// From a wrapper to that of another region.
    Wrapper(WrapperId, [Name; 2]),
    /// For a process, from another one.
    Process(u32, L),
}

/// What a process has asked for.
#[derive(Debug)]
pub(crate) enum Action {
    Command {
        written: SimTime,
        rail: Rail,
        command: Command,
    },
    Alarm,
    /// Of a wrapper, a step of a command.
    Wrapper(WrapperId, u32),
}

/// At one time: what NICs asked for by the order in which they did; shortcuts by who sent them; commands that arrive at
/// NICs by the order in which they were written; processes by their numbers. A command that takes no time to arrive is
/// then behind the same events whether it was taken when it was written or ahead of that.
const EVENTS: u32 = 0;
const SHORTCUTS: u32 = 1 << 30;
const COMMANDS: u32 = 2 << 30;
const PROCESSES: u32 = 3 << 30;
/// Then sources of the background: class and place.
pub(crate) const SOURCES: u32 = 7 << 29;

/// Who is where.
#[derive(Debug)]
pub(crate) struct PortPlaces {
    pub(crate) directory: Arc<Directory>,
    /// By port: its number in its region.
    pub(crate) locals: Arc<[u32]>,
    /// By port.
    pub(crate) ports: Box<[PortPlace]>,
    /// By process: its number in its region.
    pub(crate) processes: Vec<u32>,
}

/// What is known of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPlace {
    /// Payload of a packet at most.
    pub(crate) mtu: u64,
    /// From a command to its first effect.
    pub(crate) lookahead: SimTime,
    /// Its NIC sees packets.
    pub(crate) sees: Option<Acknowledge>,
}

impl PortPlaces {
    /// Where a process is at home: the first port of its node.
    pub(crate) fn home(&self, process: u32) -> u32 {
        let node = self.directory.node_of(Process(process));
        node.and_then(|node| self.directory.ports_of(node).next()).expect("a process of this machine, on a node with a port").0
    }

    fn lookahead(&self, process: u32, rail: Rail) -> SimTime {
        let place = self.directory.place(Process(process));
        let port = place.and_then(|place| self.directory.port_at(place, rail));
        port.map_or(SimTime::ZERO, |port| self.ports[port.index()].lookahead)
    }
}

/// Of a process: what it has asked for, by time, then order.
type Asked = BinaryHeap<Reverse<(SimTime, u64, u32)>>;

/// Wrappers, and what they work with.
type Wrapped<'a, 'b, L, N> = (&'a mut Wrappers<L, N>, Around<'a, 'b, L, N>);

/// What is between the NICs, the network and the processes.
pub(crate) struct Above<H> {
    pub(crate) places: Arc<PortPlaces>,
    shortcuts: Slab<Box<H>>,
    /// Of messages that were here, to be used again.
    #[allow(clippy::vec_box, reason = "they come in boxes, and go on in them")]
    spare: Vec<Box<Label<H>>>,
    /// By port of the region: commands that it was given, events that its NIC has asked for, shortcuts and messages
    /// that it has sent.
    commands: Vec<u32>,
    events: Vec<u32>,
    sent_shortcuts: Vec<u32>,
    sent: Vec<u32>,
    /// Of messages whose source is read: the NIC's name.
    reading: WordMap<u64, u32>,
    /// By process of the region.
    asked: Vec<Asked>,
    actions: Slab<Action>,
    /// Numbers what processes ask for.
    serial: u64,
    /// By port of the region: of what the processes were told that are at home there.
    pub(crate) digests: Vec<Digest>,
    pub(crate) recording: bool,
    /// The start of simulated time.
    pub(crate) epoch: SimTime,
    /// Timers, messages and letters on their way, but for those of the background: those that come here less than go.
    pub(crate) under_way: i64,
    /// The first access that a NIC has refused for its protection domain.
    pub(crate) denied: Option<Denied>,
}

/// See the module's page.
pub(crate) struct Station<P: Processes, N: Kinds> {
    pub(crate) nics: Nics<N>,
    pub(crate) processes: P,
    pub(crate) above: Above<N::Header>,
    pub(crate) wrappers: Wrappers<P::Letter, N>,
    inbound: Inbound<N::Header>,
    steps: Vec<inbound::Step>,
    pub(crate) observer: Option<Box<dyn Observer + Send>>,
    /// The first refused command: when, whose, why.
    pub(crate) error: Option<(SimTime, u32, CommandError)>,
    /// The first flow that a port has given up when no other rail was left.
    pub(crate) undelivered: Option<Undelivered>,
}

/// What processes ask for.
pub trait Requests<L> {
    /// The time.
    fn now(&self) -> SimTime;
    /// The process `rank` of the region wrote `command` to its NIC on `rail` at `written`. It has no effect before
    /// [`World::lookahead`](crate::World::lookahead) has passed.
    fn submit(&mut self, rank: u32, rail: Rail, written: SimTime, command: Command);
    /// Tells [`Processes::alarm`] at `at`, or now if that has passed.
    fn set_alarm(&mut self, rank: u32, at: SimTime);
    /// The way of messages from `rank` that switches copy for `ranks`, all on nodes of their own.
    ///
    /// # Errors
    /// See [`TreeError`].
    fn tree(&mut self, rank: u32, ranks: &[u32]) -> Result<MulticastTree, TreeError>;
    /// The process `rank` wrote a command at `written` to send `bytes` on a [`Requests::tree`]. What becomes of it is
    /// told by [`Processes::told`], with `token`. Data go to buffers that the NICs know; nothing is matched.
    fn multicast(&mut self, rank: u32, written: SimTime, way: &MulticastTree, bytes: u64, token: u32);
    /// See [`Processes::letter`].
    fn post(&mut self, rank: u32, letter: L);
}

/// The requests of a region.
pub(crate) struct RegionRequests<'a, 'b, L: 'static, N: Kinds> {
    pub(crate) above: &'a mut Above<N::Header>,
    pub(crate) wrappers: &'a mut Wrappers<L, N>,
    pub(crate) nics: &'a mut Nics<N>,
    /// [`Processes::in_order`].
    pub(crate) in_order: bool,
    pub(crate) fabric: &'a mut Context<'b, Due, Letter<L, N::Header>>,
}

impl<L: 'static, N: Kinds> RegionRequests<'_, '_, L, N> {
    fn ask(&mut self, at: SimTime, rank: u32, action: Action) {
        let at = at.max(self.fabric.now());
        self.above.ask(at, rank, action, self.fabric);
    }

    /// Gives a command to the NIC before its time, if it takes it.
    fn submit_ahead(&mut self, rank: u32, rail: Rail, written: SimTime, command: &mut Option<Command>) -> bool {
        if !self.in_order || self.above.has_commands(rank) {
            return false;
        }
        let Some((at, port, event)) = self.nics.command_ahead(written, Process(rank), rail, command) else { return false };
        self.above.schedule(COMMANDS, at, port, event, self.fabric);
        true
    }
}

impl<H> Above<H> {
    pub(crate) fn new(places: Arc<PortPlaces>, ports: usize, ranks: usize) -> Above<H> {
        Above {
            places,
            shortcuts: Slab::default(),
            spare: Vec::new(),
            commands: vec![0; ports],
            events: vec![0; ports],
            sent_shortcuts: vec![0; ports],
            sent: vec![0; ports],
            reading: WordMap::default(),
            asked: (0..ranks).map(|_| Asked::new()).collect(),
            actions: Slab::default(),
            serial: 0,
            digests: vec![Digest::default(); ports],
            recording: false,
            epoch: SimTime::ZERO,
            under_way: 0,
            denied: None,
        }
    }

    fn local(&self, port: u32) -> usize {
        self.places.locals[port as usize] as usize
    }

    pub(crate) fn ask<L>(&mut self, at: SimTime, rank: u32, action: Action, fabric: &mut Context<'_, Due, Letter<L, H>>) {
        let slot = self.actions.insert(action);
        self.under_way += 1;
        self.serial += 1;
        self.asked[self.places.processes[rank as usize] as usize].push(Reverse((at, self.serial, slot)));
        fabric.timer(at, self.places.home(rank), PROCESSES | rank, Due::Process(rank));
    }

    /// A process has written commands that wait for their time.
    fn has_commands(&self, rank: u32) -> bool {
        let asked = &self.asked[self.places.processes[rank as usize] as usize];
        let is_command = |slot| matches!(self.actions.get(slot), Some(Action::Command { .. } | Action::Wrapper(..)));
        asked.iter().any(|&Reverse((_, _, slot))| is_command(slot))
    }

    /// `class`: [`EVENTS`] or [`COMMANDS`].
    fn schedule<L>(
        &mut self,
        class: u32,
        at: SimTime,
        PortId(port): PortId,
        event: nic::Event,
        fabric: &mut Context<'_, Due, Letter<L, H>>,
    ) {
        let local = self.local(port);
        let order = if class == COMMANDS { &mut self.commands[local] } else { &mut self.events[local] };
        *order = (*order + 1) & (SHORTCUTS - 1);
        self.under_way += 1;
        fabric.timer(at, port, class | *order, Due::Nic(event));
    }

    /// Which of two shortcuts at one instant is first does not depend on those before.
    pub(crate) fn rest(&mut self) {
        self.sent_shortcuts.fill(0);
    }

    #[inline(always)]
    fn boxed(&mut self, label: Label<H>) -> Box<Label<H>> {
        match self.spare.pop() {
            Some(mut place) => {
                *place = label;
                place
            }
            None => Box::new(label),
        }
    }

    /// A number for a message of a port: below those of the background.
    pub(crate) fn number(&mut self, port: u32) -> u32 {
        let local = self.local(port);
        let sent = &mut self.sent[local];
        *sent = (*sent + 1) & (Background::FIRST - 1);
        *sent
    }

    /// A process has been told something.
    fn note(&mut self, now: SimTime, rail: Rail, process: u32, words: impl FnOnce(&mut Digest)) {
        if self.recording {
            let local = self.local(self.places.home(process));
            let digest = &mut self.digests[local];
            digest.event(SimTime(now.as_ps().saturating_sub(self.epoch.as_ps())), u64::from(rail.0) << 32 | u64::from(process));
            words(digest);
        }
    }
}

impl<L: 'static, N: Kinds> Requests<L> for RegionRequests<'_, '_, L, N> {
    fn now(&self) -> SimTime {
        self.fabric.now()
    }

    fn submit(&mut self, rank: u32, rail: Rail, written: SimTime, command: Command) {
        // A rank that was outside, or was woken for no reason, may be behind: it acts now.
        let lookahead = self.above.places.lookahead(rank, rail);
        let arrives = (written + lookahead).max(self.fabric.now());
        let written = SimTime(arrives.as_ps() - lookahead.as_ps().min(arrives.as_ps()));
        self.wrappers.command(written, rank, &command);
        let mut command = Some(command);
        if self.submit_ahead(rank, rail, written, &mut command) {
            return;
        }
        if let Some(command) = command {
            self.ask(arrives, rank, Action::Command { written, rail, command });
        }
    }

    fn set_alarm(&mut self, rank: u32, at: SimTime) {
        self.ask(at, rank, Action::Alarm);
    }

    fn tree(&mut self, rank: u32, ranks: &[u32]) -> Result<MulticastTree, TreeError> {
        let places = &self.above.places;
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable_by_key(|&rank| places.home(rank));
        let targets: Vec<u32> = ranks.iter().map(|&rank| places.home(rank)).collect();
        Ok((Arc::new(self.fabric.tree(places.home(rank), &targets)?), ranks.into()))
    }

    fn multicast(&mut self, rank: u32, written: SimTime, way: &MulticastTree, bytes: u64, token: u32) {
        let arrives = written + self.above.places.lookahead(rank, Rail::FIRST);
        let multicasts: &mut Multicasts = self.wrappers.get_or_put();
        let action = multicasts.submit(rank, written, way, bytes, token);
        self.ask(arrives, rank, action);
    }

    fn post(&mut self, rank: u32, letter: L) {
        self.above.under_way += 1;
        self.fabric.post(self.above.places.home(rank), SimTime::MAX, Letter::Process(rank, letter));
    }
}

/// The effects of the NICs.
struct Effects<'a, 'b, P: Processes, N: Kinds> {
    /// Of the events that they ask for: [`EVENTS`] or [`COMMANDS`].
    class: u32,
    above: &'a mut Above<N::Header>,
    wrappers: &'a mut Wrappers<P::Letter, N>,
    processes: &'a mut P,
    fabric: &'a mut Context<'b, Due, Letter<P::Letter, N::Header>>,
}

impl<P: Processes, N: Kinds> nic::Out<N> for Effects<'_, '_, P, N> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: nic::Event) {
        self.above.schedule(self.class, at, port, event, self.fabric);
    }

    fn depart(&mut self, PortId(port): PortId, departure: Departure<N::Header>) {
        let Departure { to: PortId(to), virtual_network, payload, source_dma, target_dma, token, header } = departure;
        let number = self.above.number(port);
        self.above.under_way += 1;
        if source_dma && payload.0 > 0 {
            self.above.reading.insert(inbound::number(port, number), token);
        }
        let whole = payload.0 <= self.above.places.ports[port as usize].mtu || N::is_taken_whole(&header);
        let directory = &self.above.places.directory;
        let within = if directory.share_a_node(PortId(port), PortId(to)) { N::ends(&header) } else { None };
        let route = within.map_or(0, |(from, to)| directory.route(from, to));
        let label = self.above.boxed(Label { source: port, number, target: to, virtual_network, whole, header });
        self.wrappers.departs(self.fabric.now(), &label, payload, &self.above.places);
        self.fabric.post(to, SimTime::MAX, Letter::Label(label));
        let id = TransferId(number);
        let transfer = Transfer { id, source: port, target: to, virtual_network, payload, source_dma, target_dma, route };
        self.wrappers.start(transfer, self.above, self.fabric);
    }

    fn shortcut(&mut self, at: SimTime, PortId(from): PortId, PortId(to): PortId, header: N::Header) {
        let local = self.above.local(from);
        let sent = &mut self.above.sent_shortcuts[local];
        *sent = sent.wrapping_add(1);
        self.above.under_way += 1;
        let order = SHORTCUTS | (from << 8 | *sent & 0xff) & (COMMANDS - SHORTCUTS - 1);
        self.fabric.post(to, at, Letter::Shortcut { at, order, header: Box::new(header) });
    }

    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        let now = self.fabric.now();
        let (_, rail) = self.above.places.directory.of_port(port);
        self.above.note(now, rail, process.0, |digest| notice.words(|word| digest.word(word)));
        self.processes.notify(now, process.0, notice);
    }

    fn denied(&mut self, denied: Denied) {
        self.above.denied.get_or_insert(denied);
    }
}

impl<P: Processes, N: Kinds> nic::Memory for Effects<'_, '_, P, N> {
    fn reserve(&mut self) -> PayloadId {
        PayloadId(self.processes.reserve())
    }

    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.processes.capture(payload.0, process.0, place, length)
    }

    fn fetch(
        &mut self,
        payload: PayloadId,
        process: Process,
        place: Place,
        length: u64,
        initiator: Process,
        destination: Place,
    ) -> Result<(), Fault> {
        self.processes.fetch(payload.0, (process.0, place), length, (initiator.0, destination))
    }

    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>) {
        self.processes.hold(payload.0, bytes);
    }

    fn has_bytes(&self, payload: PayloadId) -> bool {
        self.processes.has_bytes(payload.0)
    }

    fn bytes(&self, payload: PayloadId) -> Option<Vec<u8>> {
        self.processes.bytes(payload.0)
    }

    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        let now = self.fabric.now();
        self.processes.deliver(now, payload.0, process.0, place, length)
    }

    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.processes.combine(payload.0, process.0, place, length, combine)
    }

    fn duplicate(&mut self, payload: PayloadId) -> PayloadId {
        PayloadId(self.processes.duplicate(payload.0))
    }

    fn fold(&mut self, into: PayloadId, payload: PayloadId, operation: AtomicOperation, datatype: Datatype) {
        self.processes.fold(into.0, payload.0, operation, datatype);
    }

    fn release(&mut self, payload: PayloadId) {
        self.processes.release(payload.0);
    }
}

impl<P: Processes, N: Kinds> Station<P, N> {
    pub(crate) fn new(nics: Nics<N>, processes: P, above: Above<N::Header>, wrappers: Wrappers<P::Letter, N>) -> Station<P, N> {
        Station {
            nics,
            processes,
            above,
            wrappers,
            inbound: Inbound::default(),
            steps: Vec::new(),
            observer: None,
            error: None,
            undelivered: None,
        }
    }

    /// The processes act on what they were told.
    #[inline]
    fn proceed(&mut self, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let (processes, mut requests) = self.requests(fabric);
        processes.proceed(&mut requests);
    }

    /// The processes, and what they ask.
    #[inline]
    pub(crate) fn requests<'a, 'b>(
        &'a mut self,
        fabric: &'a mut Context<'b, Due, Letter<P::Letter, N::Header>>,
    ) -> (&'a mut P, RegionRequests<'a, 'b, P::Letter, N>) {
        let Station { nics, processes, above, wrappers, .. } = self;
        let in_order = processes.in_order();
        (processes, RegionRequests { above, wrappers, nics, in_order, fabric })
    }

    /// The NICs, and what they have effects on.
    #[inline]
    fn effects<'a, 'b>(
        &'a mut self,
        fabric: &'a mut Context<'b, Due, Letter<P::Letter, N::Header>>,
    ) -> (&'a mut Nics<N>, Effects<'a, 'b, P, N>) {
        let Station { nics, processes, above, wrappers, .. } = self;
        (nics, Effects { class: EVENTS, above, wrappers, processes, fabric })
    }

    /// The wrappers, and what they work with.
    #[inline]
    fn around<'a, 'b>(&'a mut self, fabric: &'a mut Context<'b, Due, Letter<P::Letter, N::Header>>) -> Wrapped<'a, 'b, P::Letter, N> {
        let Station { nics, above, wrappers, .. } = self;
        (wrappers, Around { above, nics, fabric })
    }

    fn tell(&mut self, told: CopyNotice) {
        self.above.note(told.at, Rail::FIRST, told.rank, |digest| digest.word(u64::from(told.token) << 1 | u64::from(told.sent)));
        self.processes.told(told);
    }

    /// Whether the head of a message tells anybody anything. NICs look at an answer when all of it is here, and what is
    /// behind a whole one waits for that, too: the tail is enough. But a wrapper may want to know when.
    #[inline]
    fn hears(&self, slot: u32) -> bool {
        let label = self.inbound.label(slot);
        !label.whole || !N::is_answer(&label.header) || self.wrappers.want_heads()
    }

    fn refuse(&mut self, now: SimTime, process: Process, error: CommandError) {
        if self.error.is_none() {
            self.error = Some((now, process.0, error));
            self.processes.refused();
        }
    }

    fn act(&mut self, now: SimTime, rank: u32, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let local = self.above.places.processes[rank as usize] as usize;
        let Some(Reverse((_, _, slot))) = self.above.asked[local].pop() else { return };
        match self.above.actions.remove(slot) {
            Some(Action::Command { written, rail, command }) => {
                let (nics, mut effects) = self.effects(fabric);
                effects.class = COMMANDS;
                if let Err(error) = nics.command(written, Process(rank), rail, command, &mut effects) {
                    self.refuse(now, Process(rank), error);
                }
            }
            Some(Action::Alarm) => self.processes.alarm(now, rank),
            Some(Action::Wrapper(id, step)) => {
                let (wrappers, mut around) = self.around(fabric);
                let told = wrappers.act(id, step, &mut around);
                told.into_iter().for_each(|told| self.tell(told));
            }
            None => {}
        }
    }

    /// Tells the NICs what `steps` says.
    fn arrive(&mut self, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let now = fabric.now();
        let Station { nics, processes, above, wrappers, inbound, steps, .. } = self;
        let mut effects = Effects { class: EVENTS, above, wrappers, processes, fabric };
        for step in steps.drain(..) {
            let (inbound::Step::Head(slot) | inbound::Step::Tail(slot)) = step;
            if N::PACKETS && inbound.is_consumed(slot) {
                // Its NIC has had all of it.
                if matches!(step, inbound::Step::Tail(_)) {
                    effects.above.spare.extend(inbound.close(slot));
                }
                continue;
            }
            match step {
                inbound::Step::Head(slot) => {
                    let label = inbound.label(slot);
                    let arrival = nics.head(now, PortId(label.target), &label.header, &mut effects);
                    effects.wrappers.head_noticed(now, (label.source, label.number));
                    inbound.name(slot, arrival);
                }
                inbound::Step::Tail(slot) => {
                    let label = inbound.label(slot);
                    effects.wrappers.tail_noticed(now, (label.source, label.number));
                    nics.tail(now, PortId(label.target), inbound.arrival(slot), &label.header, &mut effects);
                    effects.above.spare.extend(inbound.close(slot));
                }
            }
        }
    }
}

impl<P: Processes, N: Kinds> Agent for Station<P, N> {
    const PACKETS: bool = N::PACKETS;
    const DIGEST: bool = false;
    const STEPS: u32 = 5;
    type Event = Due;
    type Letter = Letter<P::Letter, N::Header>;
    type Ports = narrows_port::HostPorts;

    fn prefetch(&self, step: u32, host: u32, event: Option<&Due>) {
        let local = self.nics.prefetch(step, PortId(host));
        match event {
            Some(&Due::Process(rank)) if step > 0 => self.processes.prefetch(step - 1, rank),
            Some(Due::Nic(_)) => local.into_iter().for_each(|rank| self.processes.prefetch(step - 2, rank.0)),
            _ => {}
        }
    }

    fn fetch(&self, step: u32, host: u32) {
        if let Some(rank) = self.nics.prefetch(step, PortId(host)) {
            self.processes.prefetch(step - 2, rank.0);
        }
    }

    fn timer(&mut self, host: u32, _: u32, event: Due, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let now = fabric.now();
        if let Due::Wrapper(id, tag) = event {
            let (wrappers, mut around) = self.around(fabric);
            return wrappers.timer(id, tag, &mut around);
        }
        self.above.under_way -= 1;
        match event {
            Due::Nothing | Due::Wrapper(..) => {}
            Due::Nic(event) => {
                let (nics, mut effects) = self.effects(fabric);
                nics.handle(now, PortId(host), event, &mut effects);
                if let Some(refusal) = self.nics.take_refusals().into_iter().next() {
                    self.refuse(now, refusal.process, refusal.error);
                }
            }
            Due::Shortcut(slot) => {
                if let Some(header) = self.above.shortcuts.remove(slot) {
                    let (nics, mut effects) = self.effects(fabric);
                    nics.arrive(now, PortId(host), &header, &mut effects);
                }
            }
            Due::Process(rank) => self.act(now, rank, fabric),
        }
        self.proceed(fabric);
    }

    fn takes(&self, host: u32, letter: &Letter<P::Letter, N::Header>) -> bool {
        let ports = self.above.places.ports.len() as u32;
        match letter {
            Letter::Label(label) => label.target == host && self.nics.takes(PortId(label.source), PortId(host), &label.header),
            // They take no time, and stay in their region.
            Letter::Shortcut { .. } => false,
            Letter::Wrapper(_, names) => names.iter().all(|&(port, _)| port < ports),
            Letter::Process(rank, letter) => {
                let is_here = (*rank as usize) < self.above.places.processes.len() && self.above.places.home(*rank) == host;
                is_here && self.processes.takes(*rank, letter)
            }
        }
    }

    fn letter(&mut self, host: u32, letter: Letter<P::Letter, N::Header>, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        match letter {
            Letter::Label(label) => self.inbound.open(label),
            Letter::Shortcut { at, order, header } => {
                let slot = self.above.shortcuts.insert(header);
                fabric.timer(at, host, order, Due::Shortcut(slot));
            }
            Letter::Wrapper(id, names) => self.wrappers.letter(id, names),
            Letter::Process(rank, letter) => {
                self.above.under_way -= 1;
                self.processes.letter(rank, letter);
            }
        }
    }

    fn source_done(&mut self, host: u32, id: TransferId, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let (wrappers, mut around) = self.around(fabric);
        if let Some((port, number)) = wrappers.source_done((host, id.0), &mut around)
            && let Some(token) = self.above.reading.remove(&inbound::number(port, number))
        {
            let now = fabric.now();
            let (nics, mut effects) = self.effects(fabric);
            nics.source_done(now, PortId(port), token, &mut effects);
        }
        self.proceed(fabric);
    }

    fn sees(&self, host: u32) -> Option<Acknowledge> {
        self.above.places.ports[host as usize].sees
    }

    fn packet_in(&mut self, packet: &PacketIn, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) -> Verdict {
        let PacketIn { arrival, .. } = *packet;
        // What has no header passes.
        let message = self.wrappers.packet_in((arrival.source, arrival.id.0));
        let Some(slot) = message.and_then(|(source, number)| self.inbound.find(source, number)) else { return Verdict::Pass };
        let Station { nics, processes, above, wrappers, inbound, .. } = self;
        let label = inbound.label(slot);
        let packets = arrival.payload.0.div_ceil(above.places.ports[arrival.target as usize].mtu).max(1);
        let packets = if arrival.source == arrival.target { 1 } else { packets };
        let mut effects = Effects { class: EVENTS, above, wrappers, processes, fabric };
        let verdict = nics.packet_in(effects.fabric.now(), PortId(label.target), packet, &label.header, &mut effects);
        if verdict == Verdict::Consume && self.inbound.consume(slot, packets) {
            let (wrappers, mut around) = self.around(fabric);
            wrappers.tail(arrival, &mut around);
            self.above.under_way -= 1;
            self.inbound.head(slot, &mut self.steps);
            self.inbound.tail(slot, &mut self.steps);
            self.arrive(fabric);
        }
        self.proceed(fabric);
        verdict
    }

    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        if BackgroundSources::owns(packet.id) {
            return Passage::Pass;
        }
        self.nics.packet_out(now, PortId(packet.source), packet)
    }

    fn undelivered(&mut self, undelivered: &Undelivered, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let mut left = undelivered.clone();
        self.wrappers.undelivered(&mut left, &mut self.above, fabric);
        if left.messages.is_empty() {
            return;
        }
        // Whoever reads it knows nodes.
        let node = |port| self.above.places.directory.of_port(PortId(port)).0.0;
        let named = Undelivered { from: node(left.from), target: node(left.target), ..left };
        self.undelivered.get_or_insert(named);
    }

    #[inline]
    fn hears_head(&self, arrival: &Arrival) -> bool {
        self.inbound.find(arrival.source, arrival.id.0).is_none_or(|slot| self.hears(slot))
    }

    fn head(&mut self, arrival: &Arrival, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        // What switches copy has no header.
        if let Some(slot) = self.inbound.find(arrival.source, arrival.id.0) {
            if !self.hears(slot) {
                return;
            }
            self.inbound.head(slot, &mut self.steps);
            self.arrive(fabric);
            self.proceed(fabric);
        }
    }

    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_, Due, Letter<P::Letter, N::Header>>) {
        let (wrappers, mut around) = self.around(fabric);
        // What a failed rail brings may have been here before.
        if let Some(arrival) = wrappers.tail(*arrival, &mut around)
            && let Some(slot) = self.inbound.find(arrival.source, arrival.id.0)
        {
            self.above.under_way -= 1;
            self.inbound.head(slot, &mut self.steps);
            self.inbound.tail(slot, &mut self.steps);
            self.arrive(fabric);
        }
        self.proceed(fabric);
    }
}

impl<P: Processes, N: Kinds> Observer for Station<P, N> {
    #[inline]
    fn looks(&self) -> bool {
        self.observer.as_ref().is_some_and(|observer| observer.looks())
    }
    #[inline]
    fn sent(&mut self, link: u32, lane: u32, wire: u32, at: SimTime, duration: SimTime) {
        if let Some(observer) = &mut self.observer {
            observer.sent(link, lane, wire, at, duration);
        }
    }
    #[inline]
    fn queued(&mut self, link: u32, lane: u32, source: u32, wire: u32, at: SimTime, joins: bool) {
        if let Some(observer) = &mut self.observer {
            observer.queued(link, lane, source, wire, at, joins);
        }
    }
    #[inline]
    fn stalled(&mut self, link: u32) {
        if let Some(observer) = &mut self.observer {
            observer.stalled(link);
        }
    }
    #[inline]
    fn paused(&mut self, link: u32, lane: u32, pauses: bool) {
        if let Some(observer) = &mut self.observer {
            observer.paused(link, lane, pauses);
        }
    }
    #[inline]
    fn lost(&mut self, link: u32, wire: u32) {
        if let Some(observer) = &mut self.observer {
            observer.lost(link, wire);
        }
    }
    #[inline]
    fn packet(&mut self, packet: &PacketArrival) {
        if let Some(observer) = &mut self.observer {
            observer.packet(packet);
        }
    }
}
