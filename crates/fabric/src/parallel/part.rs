//! A region with all that belongs to it: network, agent, events.

use super::agent::{Agent, Context, Requests};
use super::effects::{Base, Mailbox, Notification, PlaneMail, RegionEffects, parts};
use crate::loggp::{Flying, LogGpNetwork};
use crate::packet::region::Region;
use crate::packet::train::Frontier;
use crate::port::{PortEvent, Ports};
use crate::seam::PacketIn;
use crate::timing::ZeroLoad;
use crate::whole::Whole;
use crate::{EventKind, Statistics, Transfer, TransferId, Tree, TreeError, Undelivered};
use narrows_engine::Digest;
use narrows_units::SimTime;
use std::sync::Arc;

/// What carries the messages of a region.
#[derive(Debug)]
pub(super) enum Model<P> {
    Packet(Box<Region<P>>),
    LogGp(Box<LogGpNetwork>),
    /// Knows of no regions.
    Whole(Box<Whole>),
}

impl<P: Ports> Model<P> {
    pub(super) fn statistics(&self, frontier: Frontier) -> Statistics {
        match self {
            Model::Packet(region) => region.statistics(frontier),
            Model::LogGp(network) => network.statistics(),
            Model::Whole(whole) => whole.network.statistics(),
        }
    }
}

/// The networks of a region: each has its own hosts.
#[derive(Debug)]
pub(super) struct Planes<P> {
    pub(super) first: Model<P>,
    /// With where their numbers begin.
    pub(super) others: Vec<(Base, Model<P>)>,
}

impl<P: Ports> Planes<P> {
    /// The network with a number that is at least that of `base`.
    #[inline(always)]
    fn find(&mut self, number: u32, base: impl Fn(&Base) -> u32) -> (Base, &mut Model<P>) {
        if self.others.is_empty() {
            return (Base::default(), &mut self.first);
        }
        self.find_other(number, base)
    }

    #[inline(never)]
    fn find_other(&mut self, number: u32, base: impl Fn(&Base) -> u32) -> (Base, &mut Model<P>) {
        match self.others.partition_point(|(other, _)| base(other) <= number) {
            0 => (Base::default(), &mut self.first),
            place => {
                let (base, model) = &mut self.others[place - 1];
                (*base, model)
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Model<P>> {
        std::iter::once(&self.first).chain(self.others.iter().map(|(_, model)| model))
    }

    pub(super) fn all_with_bases(&self) -> impl Iterator<Item = (Base, &Model<P>)> {
        std::iter::once((Base::default(), &self.first)).chain(self.others.iter().map(|(base, model)| (*base, model)))
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (Base, &mut Model<P>)> {
        std::iter::once((Base::default(), &mut self.first)).chain(self.others.iter_mut().map(|(base, model)| (*base, model)))
    }

    /// Whether what has come from another process is for inputs, outputs and lanes that there are.
    pub(super) fn takes(&self, number: usize, mail: &PlaneMail) -> bool {
        match self.all().nth(number) {
            Some(Model::Packet(region)) => {
                let notes = mail.notes.iter().all(|note| region.takes_note(note));
                notes && mail.packets.iter().all(|packet| region.takes(packet)) && mail.flying.is_empty()
            }
            Some(Model::LogGp(network)) => {
                mail.packets.is_empty() && mail.notes.is_empty() && mail.flying.iter().all(|flying| network.takes(flying))
            }
            _ => mail.is_empty(),
        }
    }

    /// The network of a host, and its number there.
    pub(super) fn of_host(&self, host: u32) -> (u32, &Model<P>) {
        match self.others.iter().rev().find(|(base, _)| base.host <= host) {
            Some((base, model)) => (host - base.host, model),
            None => (host, &self.first),
        }
    }
}

/// What an agent sees of them: of the first one, links are numbered alike in the network and in the machine.
pub(super) trait Seen {
    fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError>;
    fn load(&self, link: u32, now: u64) -> SimTime;
    fn links(&self) -> &[u32];
    fn zero_load(&self, transfer: &Transfer) -> ZeroLoad;
}

impl<P: Ports> Seen for Planes<P> {
    fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError> {
        if self.others.first().is_some_and(|(base, _)| targets.iter().chain([&source]).any(|&host| host >= base.host)) {
            return Err(TreeError::Network);
        }
        match &self.first {
            Model::Packet(region) if !region.is_whole() => Err(TreeError::Regions),
            Model::LogGp(network) if !network.is_whole() => Err(TreeError::Regions),
            Model::Packet(region) => {
                region.check_multicast()?;
                Ok(Tree::new(region.topology(), source, targets))
            }
            Model::LogGp(network) => Ok(Tree::new(network.topology(), source, targets)),
            Model::Whole(whole) => Ok(Tree::new(whole.network.topology(), source, targets)),
        }
    }

    fn load(&self, link: u32, now: u64) -> SimTime {
        match &self.first {
            Model::Packet(region) => region.load(link, now),
            Model::LogGp(_) | Model::Whole(_) => SimTime::ZERO,
        }
    }

    fn links(&self) -> &[u32] {
        match &self.first {
            Model::Packet(region) => region.links(),
            Model::LogGp(_) | Model::Whole(_) => &[],
        }
    }

    fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        let (source, model) = self.of_host(transfer.source);
        let (target, _) = self.of_host(transfer.target);
        let transfer = Transfer { source, target, ..*transfer };
        match model {
            Model::Packet(region) => region.costs().zero_load(region.topology(), &transfer),
            Model::LogGp(network) => network.zero_load(&transfer),
            Model::Whole(whole) => whole.network.zero_load(&transfer),
        }
    }
}

/// Of every host, numbered through the networks: its region, and its number there.
pub(super) type Homes = Arc<[(u32, u32)]>;

/// A message that switches copy, on the packet network.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    id: u32,
    /// Tails to come, and one if its source is read.
    open: u32,
}

/// Hosts of all regions from which on windows begin with [`LogicalProcess::fetch`]. Our own choice: with as many
/// replayed ranks, of some 7 KiB each, the caches of one core hold a few regions.
const FETCH_FROM: usize = 1024;

/// Tells the ports of a region which of its hosts see packets.
fn show<A: Agent>(planes: &mut Planes<A::Ports>, homes: &Homes, number: u32, agent: &A) {
    for (host, _) in (0..).zip(homes.iter()).filter(|(_, home)| home.0 == number) {
        let (base, model) = planes.find(host, |base| base.host);
        if let (Some(acknowledge), Model::Packet(region)) = (agent.sees(host), model) {
            region.show(region.host(host - base.host), acknowledge);
        }
    }
}

/// In the region, numbers from here on are those of messages that switches copy.
const FIRST_COPIED: u32 = 1 << 31;

/// A region with all that belongs to it.
#[derive(Debug)]
pub(super) struct LogicalProcess<A: Agent> {
    pub(super) planes: Planes<A::Ports>,
    pub(super) homes: Homes,
    pub(super) number: u32,
    pub(super) effects: RegionEffects<A>,
    pub(super) mail: Mailbox<A::Letter>,
    pub(super) requests: Requests<A::Letter>,
    copied: Vec<Copied>,
    free_copied: Vec<u32>,
    /// By host of the region.
    pub(super) digests: Vec<Digest>,
    pub(super) events: u64,
    pub(super) now: u64,
}

impl<A: Agent> LogicalProcess<A> {
    /// Region `number` with its networks, `agent` and so many hosts.
    pub(super) fn new(number: u32, homes: &Homes, mut planes: Planes<A::Ports>, agent: A, hosts: usize) -> Self {
        const { assert!(!(A::EARLY && A::PACKETS), "who is told early has no NICs that could look") };
        if A::PACKETS {
            show(&mut planes, homes, number, &agent);
        }
        LogicalProcess {
            number,
            homes: Arc::clone(homes),
            effects: RegionEffects::new(agent),
            mail: Mailbox::new(1 + planes.others.len()),
            planes,
            requests: Requests::NONE,
            copied: Vec::new(),
            free_copied: Vec::new(),
            digests: vec![Digest::default(); hosts],
            events: 0,
            now: 0,
        }
    }

    /// A host of the region.
    pub(super) fn has(&self, host: u32) -> bool {
        self.homes.get(host as usize).is_some_and(|home| home.0 == self.number)
    }

    /// The next event is a timer of a flow.
    pub(super) fn is_at_timer(&self) -> bool {
        let timer = |(_, key)| {
            let (kind, _, payload) = parts(key);
            kind == EventKind::Flow && PortEvent::of_flow(payload).0 == PortEvent::TimedOut
        };
        self.effects.queue.peek().is_some_and(timer)
    }

    /// Timers of flows that have nothing to send again.
    pub(super) fn idle_timers(&self) -> usize {
        let of = |model: &Model<A::Ports>| match model {
            Model::Packet(region) => region.idle_timers(),
            Model::LogGp(_) | Model::Whole(_) => 0,
        };
        self.planes.all().map(of).sum()
    }

    /// See [`super::Fabric::rest`]. `idle`: nothing is under way anywhere.
    pub(super) fn rest(&mut self, idle: bool) {
        self.free_copied.sort_unstable_by(|a, b| b.cmp(a));
        for (_, model) in self.planes.all_mut() {
            match model {
                Model::Packet(region) => region.rest(idle),
                Model::LogGp(network) => network.rest(),
                Model::Whole(whole) => whole.rest(),
            }
        }
    }

    /// Everything before `end`, but not more than `most` events.
    pub(super) fn run(&mut self, end: u64, most: u64) {
        let last = self.events.saturating_add(most);
        while let Some((at, _)) = self.effects.queue.peek()
            && at < end
            && self.events < last
        {
            self.step();
        }
        if self.events < last {
            self.effects.pass(end);
        }
    }

    /// The next event.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        let Some((at, key, event)) = self.effects.queue.pop() else { return };
        self.now = at;
        self.effects.passed = (at, key);
        self.events += 1;
        match &self.planes {
            Planes { first: Model::Packet(region), others } if others.is_empty() => {
                self.effects.prefetch::<0>(region);
                self.effects.prefetch::<1>(region);
                self.effects.prefetch::<2>(region);
            }
            Planes { first: Model::Packet(_), .. } => {}
            Planes { first: Model::LogGp(network), .. } => self.effects.prefetch_far(&**network),
            Planes { first: Model::Whole(whole), .. } => self.effects.prefetch_far(&**whole),
        }
        let (kind, place, payload) = parts(key);
        if kind == EventKind::Timer {
            self.tell(|agent, context| agent.timer(place, payload, event, context));
        } else {
            let (base, model) = self.planes.find(place, |base| base.place);
            let place = place - base.place;
            self.effects.base = base;
            match (kind, model) {
                (EventKind::SourceDone, Model::Packet(_)) => {
                    self.effects.notifications.push(Notification::SourceDone(base.host + place, TransferId(payload)))
                }
                (_, Model::Packet(region)) => region.handle(at, kind, place, payload, &mut self.effects),
                (_, Model::LogGp(network)) => network.handle(SimTime(at), (kind, place, payload), &mut self.effects),
                (_, Model::Whole(whole)) => whole.handle(SimTime(at), kind, payload, &mut self.effects),
            }
        }
        self.settle();
    }

    #[inline]
    pub(super) fn tell<R>(&mut self, what: impl FnOnce(&mut A, &mut Context<'_, A::Event, A::Letter>) -> R) -> R {
        let LogicalProcess { planes, effects, requests, now, .. } = self;
        what(&mut effects.agent, &mut Context { now: *now, network: &*planes, queue: &mut effects.queue, requests })
    }

    /// Tells the agent and does what it says until both are quiet.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if self.requests.any || !self.effects.notifications.is_empty() {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        while self.requests.any || !self.effects.notifications.is_empty() {
            self.settle_once();
        }
    }

    fn settle_once(&mut self) {
        if !self.effects.notifications.is_empty() {
            self.tell_all();
        }
        if !std::mem::take(&mut self.requests.any) {
            return;
        }
        if !self.requests.letters.is_empty() {
            self.send_letters();
        }
        for transfer in self.requests.starts.drain(..) {
            let (base, model) = self.planes.find(transfer.source, |base| base.host);
            let transfer = Transfer { source: transfer.source - base.host, target: transfer.target - base.host, ..transfer };
            self.effects.base = base;
            match model {
                Model::Packet(region) => region.start(self.now, &transfer, &mut self.effects),
                Model::LogGp(network) => network.start(SimTime(self.now), &transfer, &mut self.effects),
                Model::Whole(whole) => whole.start(SimTime(self.now), transfer, &mut self.effects),
            }
        }
        if !self.requests.copied.is_empty() {
            self.start_copied();
        }
    }

    fn tell_all(&mut self) {
        let mut notifications = std::mem::take(&mut self.effects.notifications);
        for notification in &mut notifications {
            if !self.copied.is_empty() {
                self.name_copied(notification);
            }
            if let Notification::Packet(packet) = notification {
                self.judge(packet);
                continue;
            }
            if A::DIGEST {
                self.digest(notification);
            }
            if let Notification::Undelivered(undelivered) = notification {
                self.blame(undelivered);
            }
            self.tell(|agent, context| match &*notification {
                Notification::SourceDone(host, id) => agent.source_done(*host, *id, context),
                Notification::Head(arrival) => agent.head(arrival, context),
                Notification::Tail(arrival) => agent.tail(arrival, context),
                Notification::Delivered(arrival, through) => agent.delivered(arrival, SimTime(*through), context),
                Notification::Undelivered(undelivered) => agent.undelivered(undelivered, context),
                Notification::Packet(_) => {}
            });
        }
        notifications.clear();
        if self.effects.notifications.is_empty() {
            self.effects.notifications = notifications;
        }
    }

    /// The agent sees a packet, and what it says is done.
    #[cold]
    fn judge(&mut self, packet: &PacketIn) {
        let verdict = self.tell(|agent, context| agent.packet_in(packet, context));
        let (base, model) = self.planes.find(packet.arrival.target, |base| base.host);
        self.effects.base = base;
        if let Model::Packet(region) = model {
            region.judged(self.now, packet.arrival.target - base.host, packet.number, verdict, &mut self.effects);
        }
    }

    /// Says which link may be to blame.
    #[cold]
    fn blame(&mut self, undelivered: &mut Undelivered) {
        if let (base, Model::Packet(region)) = self.planes.find(undelivered.from, |base| base.host) {
            undelivered.link = region.blame(undelivered.from - base.host, undelivered.target - base.host, undelivered.at);
        }
    }

    fn digest(&mut self, notifications: &Notification) {
        let (at, kind, host, id, source) = match notifications {
            Notification::SourceDone(host, id) => (self.now, 0, *host, *id, *host),
            Notification::Head(arrival) => (self.now, 1, arrival.target, arrival.id, arrival.source),
            Notification::Tail(arrival) => (self.now, 2, arrival.target, arrival.id, arrival.source),
            Notification::Delivered(arrival, through) => (*through, 2, arrival.target, arrival.id, arrival.source),
            Notification::Undelivered(undelivered) => (self.now, 3, undelivered.from, TransferId(0), undelivered.target),
            // That they are seen changes nothing.
            Notification::Packet(_) => return,
        };
        let digest = &mut self.digests[self.homes[host as usize].1 as usize];
        digest.event(SimTime(at), kind << 32 | u64::from(id.0));
        if kind > 0 {
            digest.word(u64::from(source));
        }
    }

    /// Letters within the region arrive now, before what is started now.
    fn send_letters(&mut self) {
        let mut letters = std::mem::take(&mut self.requests.letters);
        for (host, effect, letter) in letters.drain(..) {
            let region = self.homes[host as usize].0;
            if region == self.number {
                self.tell(|agent, context| agent.letter(host, letter, context));
            } else {
                self.effects.sent = self.effects.sent.min(effect);
                self.effects.outbox.letters.push((region, host, letter));
            }
        }
        if self.requests.letters.is_empty() {
            self.requests.letters = letters;
        }
    }

    #[cold]
    fn start_copied(&mut self) {
        self.effects.base = Base::default();
        for (tree, transfer) in std::mem::take(&mut self.requests.copied) {
            match &mut self.planes.first {
                Model::LogGp(network) => network.multicast(SimTime(self.now), &tree, &transfer, &mut self.effects),
                Model::Whole(whole) => whole.multicast(SimTime(self.now), &tree, transfer, &mut self.effects),
                Model::Packet(region) => {
                    let open = tree.targets().len() as u32 + u32::from(transfer.source_dma && transfer.payload.0 > 0);
                    let copied = Copied { id: transfer.id.0, open };
                    let index = self.free_copied.pop().unwrap_or_else(|| {
                        self.copied.push(copied);
                        self.copied.len() as u32 - 1
                    });
                    self.copied[index as usize] = copied;
                    let transfer = Transfer { id: TransferId(FIRST_COPIED + index), ..transfer };
                    region.start_copied(self.now, index, &tree, &transfer, &mut self.effects);
                }
            }
        }
    }

    /// Gives a message that switches copy the number that the agent knows.
    #[cold]
    fn name_copied(&mut self, notifications: &mut Notification) {
        let (id, ends) = match notifications {
            Notification::SourceDone(_, id) => (id, true),
            Notification::Head(arrival) => (&mut arrival.id, false),
            Notification::Tail(arrival) | Notification::Delivered(arrival, _) => (&mut arrival.id, true),
            Notification::Undelivered(_) | Notification::Packet(_) => return,
        };
        let Some(index) = id.0.checked_sub(FIRST_COPIED) else { return };
        let copied = &mut self.copied[index as usize];
        *id = TransferId(copied.id);
        copied.open -= u32::from(ends);
        if copied.open == 0 {
            self.free_copied.push(index);
        }
    }

    /// A window until `end` begins.
    pub(super) fn fetch(&mut self, end: u64) {
        if let Planes { first: Model::LogGp(network), others } = &self.planes
            && others.is_empty()
            && !network.is_whole()
            && self.homes.len() >= FETCH_FROM
        {
            self.effects.fetch(network, end);
        }
    }

    /// Takes in what other regions sent.
    pub(super) fn open(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        for ((base, model), mail) in self.planes.all_mut().zip(&mut self.mail.planes) {
            self.effects.base = base;
            match model {
                Model::Packet(region) => {
                    for packet in mail.packets.drain(..) {
                        region.land(packet, &mut self.effects);
                    }
                    for note in mail.notes.drain(..) {
                        region.hear(note, self.now, &mut self.effects);
                    }
                }
                Model::LogGp(network) => {
                    // Regions have written in any order; the slots that messages get here are not to depend on it.
                    mail.flying.sort_unstable_by_key(Flying::order);
                    for flying in mail.flying.drain(..) {
                        network.land(&flying, &mut self.effects);
                    }
                }
                Model::Whole(_) => {}
            }
        }
        if !self.mail.letters.is_empty() {
            let mut letters = std::mem::take(&mut self.mail.letters);
            for (host, letter) in letters.drain(..) {
                self.tell(|agent, context| agent.letter(host, letter, context));
            }
            self.mail.letters = letters;
            self.settle();
        }
    }
}
