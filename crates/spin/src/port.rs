//! A machine at the port of a NIC: packets of messages go in, and what handlers leave of the messages comes out.
//!
//! A message has a name of its sender's. Its packets wait in the port's buffer until the machine has room, in the order
//! in which they came; then they are in L2, and the buffer is free. A message is finished when all of its packets are
//! freed and what passed, or was written, has gone over the bus to the host.

use crate::SpinConfig;
use crate::layout::Layout;
use crate::machine::{Command, CommandKind, Context, Failure, Handlers, Machine, Out, Packet, Ran, Refused, SpinError};
use crate::report::SpinTotals;
use crate::ring::SLOT;
use crate::rule::{ReceiveCondition, Rule, WINDOW};
use narrows_units::{ByteRate, Bytes, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The host and the network around a machine. Calls come in the order of their times.
pub trait Host {
    /// Bytes go to the host's memory over its bus from `at` on: when they are through.
    fn write(&mut self, at: SimTime, bytes: u64) -> SimTime;
    /// Bytes are asked of the host's memory at `at`: when they have come.
    fn read(&mut self, at: SimTime, bytes: u64) -> SimTime;
    /// A handler of the message of this name sends a packet to who has sent the message.
    fn send(&mut self, at: SimTime, name: u64, bytes: u64);
}

/// The bus of a host, each way on its own, one transfer after the other.
#[derive(Clone, Copy, Debug)]
pub struct Bus {
    rate: ByteRate,
    /// Of a read, from its request to its first byte.
    read: SimTime,
    up: SimTime,
    down: SimTime,
}

impl Bus {
    /// An idle one.
    pub fn new(rate: ByteRate, read: SimTime) -> Bus {
        Bus { rate, read, up: SimTime::ZERO, down: SimTime::ZERO }
    }

    /// See [`Host::write`].
    pub fn write(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.up = self.up.max(at) + self.rate.time_for(Bytes(bytes));
        self.up
    }

    /// See [`Host::read`].
    pub fn read(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.down = self.down.max(at + self.read) + self.rate.time_for(Bytes(bytes));
        self.down
    }
}

/// A packet that has come for a machine.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// Names its message.
    pub name: u64,
    /// Names it at its port.
    pub number: u32,
    /// Of its payload in the message.
    pub offset: u64,
    /// Bytes of it, at least one.
    pub bytes: u64,
    /// When its last byte is there.
    pub tail: SimTime,
    /// It came from the same port and has no buffer: it never waits for room.
    pub within: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The machine has it: its buffer is free.
    Taken,
    /// It is asked for again at this time.
    Again(SimTime),
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Handlers see it: [`SpinPort::packet`].
    Handlers,
    /// Only the host does.
    Host,
    /// No queue is free: it is asked for again at this time.
    Later(SimTime),
}

/// A message that handlers are through with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its name.
    pub name: u64,
    /// What goes to the host, as long as the message: what passed or was written, and zeros elsewhere. Of a message
    /// that was unpacked it is what its memory holds, in the order of the message. None, if it came without bytes.
    pub image: Option<Vec<u8>>,
}

/// A PsPIN machine at every port of a rail, and what runs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlersConfig {
    /// The machine.
    pub machine: SpinConfig,
    /// What runs, on which messages. Contexts fit into the machine: [`SpinPort::new`] says whether they do.
    pub rules: Vec<Rule>,
}

/// What is known of the list entry that a message finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Bit i: rule i asks for such an entry.
    pub rules: u64,
    /// How the message lies in the memory of the receiver, if not in one piece, and that is known.
    pub layout: Option<Arc<Layout>>,
}

impl Posted {
    /// An entry of a program that has not said more of its context than a number: that of a rule, from 1 on.
    pub fn of_number(number: u8) -> Posted {
        let rules = u32::from(number).checked_sub(1).and_then(|rule| 1u64.checked_shl(rule)).unwrap_or(0);
        Posted { rules, layout: None }
    }
}

/// A message of which the first packet has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its handlers are those of this rule; none: it goes to the host, and no other packet of it is asked for.
    pub rule: Option<u32>,
    /// See [`Posted::layout`].
    pub layout: Option<Arc<Layout>>,
    /// Its length, bytes.
    pub length: u64,
    /// Its bytes, if there are some.
    pub bytes: Option<Vec<u8>>,
}

impl HandlersConfig {
    /// Rules that may ask for a receive: as many as [`Posted::rules`] has bits.
    pub const RULES_MAX: usize = 64;

    /// The first rule that fits a message: by its portal table entry, match bits and length, and by the entry that it
    /// finds.
    pub fn rule(&self, pt: u32, bits: u64, length: u64, posted: Option<&Posted>) -> Option<u32> {
        let asked = |rule: usize| posted.is_some_and(|posted| posted.rules >> (rule % HandlersConfig::RULES_MAX) & 1 == 1);
        let mut rules = self.rules.iter().enumerate();
        let found = rules.find(|(number, rule)| rule.fits(pt, bits, length) && (rule.receive.is_none() || asked(*number)));
        found.map(|(number, _)| number as u32)
    }

    /// Whether a rule would see a message, were its receive posted.
    pub fn waits_for_receive(&self, pt: u32, bits: u64, length: u64) -> bool {
        self.rules.iter().any(|rule| !rule.receive.is_none() && rule.fits(pt, bits, length))
    }

    /// What rules ask of receives of MPI programs, as the ranks find it in their environment: a line of number,
    /// communicator, datatype, and a mark if it unpacks, with tabs between them.
    pub fn conditions(&self) -> String {
        let line = |(number, rule): (usize, &Rule)| {
            let ReceiveCondition { communicator, datatype, .. } = &rule.receive;
            let name = |name: &Option<String>| name.clone().unwrap_or_default();
            let mark = if rule.context.is_none() { "unpack" } else { "" };
            format!("{number}\t{}\t{}\t{mark}\n", name(communicator), name(datatype))
        };
        let asks = |(_, rule): &(usize, &Rule)| rule.receive.communicator.is_some() || rule.receive.datatype.is_some();
        self.rules.iter().enumerate().filter(asks).map(line).collect()
    }

    /// Whether all rules that ask for a receive have a bit of [`Posted::rules`].
    pub fn fits(&self) -> bool {
        self.rules.iter().rposition(|rule| !rule.receive.is_none()).is_none_or(|last| last < HandlersConfig::RULES_MAX)
    }

    /// Which handler went wrong, where and why; names of messages begin with the node that sent them.
    pub fn failure(&self, failed: &Failed, node: u32) -> String {
        let Failed { failure: Failure { context, handler, pc, fault, .. }, name, length, .. } = failed;
        let rule = self.rules.get(*context as usize).map_or("", |rule| rule.name.as_str());
        let handler = crate::program::NAMES[*handler as usize];
        format!("{handler} of {rule} on node {node}, with a message of {length} bytes from node {}, at {pc:#010x}: {fault}", name >> 32)
    }
}

#[derive(Debug)]
struct Message {
    name: u64,
    rule: u32,
    context: u32,
    layout: Option<Arc<Layout>>,
    length: u64,
    /// Bytes of packets that have been taken, and of those that have been freed.
    taken: u64,
    freed: u64,
    /// When all that has passed is through the bus.
    end: SimTime,
    bytes: Option<Vec<u8>>,
    /// What handlers have written: the message, or the memory over which it is spread.
    image: Vec<u8>,
    /// How long that is.
    room: u64,
}

/// See the module's page.
pub struct SpinPort {
    machine: Machine,
    config: SpinConfig,
    /// By number, which the machine knows them by, and those numbers by name.
    messages: BTreeMap<u64, Message>,
    numbers: BTreeMap<u64, u64>,
    next: u64,
    /// By queue of the machine: a message has it.
    busy: Vec<bool>,
    /// Messages all of whose packets have been taken.
    whole: u64,
    /// Messages that found none: bytes of them that have not come.
    bypassing: BTreeMap<u64, u64>,
    /// Messages by rule.
    of_rule: Vec<u64>,
    /// Contexts of rules; and of datatypes, if there was room.
    contexts: Vec<Option<u32>>,
    unpackers: BTreeMap<Arc<Layout>, Option<u32>>,
    /// Parts of packets that were taken, for which the machine had no room yet.
    inbox: VecDeque<Packet>,
    /// Packets in the port's buffer, by number, and since when.
    waiting: VecDeque<(u32, SimTime)>,
    /// Messages, by the time at which they are finished.
    finished: BTreeSet<(SimTime, u64)>,
    totals: SpinTotals,
    failure: Option<Failed>,
}

/// A handler that went wrong, and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// When.
    pub at: SimTime,
    /// What is known of the handler.
    pub failure: Failure,
    /// The name of the message.
    pub name: u64,
    /// Its length.
    pub length: u64,
}

impl std::fmt::Debug for SpinPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpinPort").field("messages", &self.messages).field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl SpinPort {
    /// A machine with a context for each rule.
    ///
    /// # Errors
    /// It cannot be, or a rule's context does not fit into it.
    pub fn new(config: &SpinConfig, rules: &[Rule]) -> Result<SpinPort, SpinError> {
        let mut machine = Machine::new(config.clone())?;
        let context = |rule: &Rule| rule.context.clone().map(|context| machine.add_context(context)).transpose();
        let contexts = rules.iter().map(context).collect::<Result<_, _>>()?;
        Ok(SpinPort {
            machine,
            config: config.clone(),
            messages: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
            busy: vec![false; config.queues as usize],
            whole: 0,
            bypassing: BTreeMap::new(),
            of_rule: vec![0; rules.len()],
            contexts,
            unpackers: BTreeMap::new(),
            inbox: VecDeque::new(),
            waiting: VecDeque::new(),
            finished: BTreeSet::new(),
            totals: SpinTotals::default(),
            failure: None,
        })
    }

    /// What it has done.
    pub fn totals(&self) -> SpinTotals {
        self.totals
    }

    /// The first handler that went wrong.
    pub fn failure(&self) -> Option<Failed> {
        self.failure
    }

    /// Messages by rule.
    pub fn messages(&self) -> &[u64] {
        &self.of_rule
    }

    /// A message that a rule would see was not expected.
    pub fn unexpected(&mut self) {
        self.totals.unexpected += 1;
    }

    /// The context of a message, and how long what its handlers write is. None: it has none.
    fn context_of(&mut self, rule: u32, wanted: &Wanted) -> Option<(u32, u64)> {
        if let Some(context) = self.contexts[rule as usize] {
            return Some((context, wanted.length));
        }
        let layout = wanted.layout.as_ref()?;
        let room = layout.span(wanted.length)?;
        let machine = &mut self.machine;
        let context = *self.unpackers.entry(Arc::clone(layout)).or_insert_with_key(|layout| {
            let (memory, handlers) = (Bytes(layout.table()), Handlers::Unpack(Arc::clone(layout)));
            machine.add_context(Context { handlers, memory, scratchpad: Bytes(0), window: WINDOW }).ok()
        });
        context.zip(Some(room))
    }

    /// What is left of a message that went to the host without handlers.
    fn bypass(&mut self, name: u64, left: u64) -> Sight {
        if left > 0 {
            self.bypassing.insert(name, left);
        }
        Sight::Host
    }

    /// A packet of so many bytes of a message has come. `wanted` is asked with the first one; none: no packet of it is
    /// for handlers.
    ///
    /// A message keeps a queue to its end. One that finds none waits while a message is there as a whole, which needs
    /// nothing more of the network. Otherwise it goes to the host: those that have queues may wait for packets behind
    /// it.
    pub fn sees(&mut self, now: SimTime, name: u64, bytes: u64, wanted: impl FnOnce() -> Option<Wanted>) -> Sight {
        if self.numbers.contains_key(&name) {
            return Sight::Handlers;
        }
        if let Some(left) = self.bypassing.get_mut(&name) {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                self.bypassing.remove(&name);
            }
            return Sight::Host;
        }
        let Some(wanted) = wanted() else { return Sight::Host };
        let left = wanted.length.saturating_sub(bytes);
        let Some(rule) = wanted.rule else { return self.bypass(name, left) };
        let Some((context, room)) = self.context_of(rule, &wanted) else {
            self.totals.unfit += 1;
            return self.bypass(name, left);
        };
        let Wanted { layout, length, bytes: contents, .. } = wanted;
        let layout = layout.filter(|_| self.contexts[rule as usize].is_none());
        let queues = self.busy.len() as u64;
        let Some(number) = (self.next..self.next + queues).find(|number| !self.busy[(number % queues) as usize]) else {
            if self.whole > 0 {
                let change = self.next_time().unwrap_or_default();
                return Sight::Later(change.max(now + self.config.cycle));
            }
            self.totals.bypassed += 1;
            return self.bypass(name, left);
        };
        self.busy[(number % queues) as usize] = true;
        self.next = number + 1;
        self.totals.messages += 1;
        self.of_rule[rule as usize] += 1;
        let contents = contents.filter(|contents| contents.len() as u64 == length);
        let image = if contents.is_some() { vec![0; room as usize] } else { Vec::new() };
        let (taken, freed, end, bytes) = (0, 0, SimTime::ZERO, contents);
        let message = Message { name, rule, context, layout, length, taken, freed, end, bytes, image, room };
        self.messages.insert(number, message);
        self.numbers.insert(name, number);
        Sight::Handlers
    }

    /// How long the way into L2 takes.
    fn transfer(&self, bytes: u64) -> SimTime {
        self.config.cycle * (bytes.min(self.config.packet.0).div_ceil(SLOT).max(1) * u64::from(self.config.beat_in))
    }

    /// A packet of a message that has begun is offered. It goes into L2 as it comes, so the machine has it when its
    /// last byte is there, and not before.
    pub fn packet(&mut self, now: SimTime, packet: &Arriving, host: &mut impl Host) -> Answer {
        self.advance(now, host);
        let enters = packet.tail.saturating_sub(self.transfer(packet.bytes));
        if now < enters {
            return Answer::Again(enters);
        }
        let place = self.waiting.iter().position(|&(number, _)| number == packet.number);
        let may = packet.within || self.inbox.is_empty() && (place == Some(0) || self.waiting.is_empty());
        if may && self.take(now, packet) {
            if let (Some(0), Some((_, since))) = (place, self.waiting.front().copied()) {
                self.waiting.pop_front();
                self.totals.waiting += now.saturating_sub(since);
            }
            return Answer::Taken;
        }
        let place = place.unwrap_or_else(|| {
            self.totals.waited += 1;
            self.waiting.push_back((packet.number, now));
            self.waiting.len() - 1
        });
        // Those ahead of it go in first, which takes each as long as its way in.
        let ahead = now + self.transfer(packet.bytes) * place as u64;
        let change = self.machine.next_time().unwrap_or_default();
        Answer::Again(ahead.max(change).max(now + self.config.cycle))
    }

    /// Takes a packet, in parts that fit: whether there was room.
    fn take(&mut self, now: SimTime, packet: &Arriving) -> bool {
        let Some(&number) = self.numbers.get(&packet.name) else { return true };
        let Some(message) = self.messages.get_mut(&number) else { return true };
        let (context, before) = (message.context, message.taken);
        let mut parts = VecDeque::new();
        let mut done = 0;
        while done < packet.bytes {
            let bytes = (packet.bytes - done).min(self.config.packet.0);
            message.taken += bytes;
            let last = message.taken == message.length;
            self.whole += u64::from(last);
            parts.push_back(Packet { message: number, context, offset: packet.offset + done, bytes: bytes as u32, last, tag: 0 });
            done += bytes;
        }
        if self.inbox.is_empty() {
            while let Some(part) = parts.front() {
                if !offer(&mut self.machine, &self.messages, now, part) {
                    break;
                }
                parts.pop_front();
            }
            let none = parts.front().is_some_and(|part| part.offset == packet.offset);
            if none && !packet.within {
                if let Some(message) = self.messages.get_mut(&number) {
                    self.whole -= u64::from(message.taken == message.length);
                    message.taken = before;
                }
                return false;
            }
        }
        self.inbox.append(&mut parts);
        self.totals.packets += 1;
        self.totals.bytes += packet.bytes;
        true
    }

    /// Lets all happen up to `now`.
    pub fn advance(&mut self, now: SimTime, host: &mut impl Host) {
        let SpinPort { machine, messages, finished, totals, failure, inbox, .. } = self;
        let mut beside = Beside { cycle: self.config.cycle, messages, finished, totals, failure, host };
        machine.advance(now, &mut beside);
        while let Some(part) = inbox.front() {
            if !offer(machine, messages, now, part) {
                break;
            }
            inbox.pop_front();
        }
    }

    /// When it wants [`SpinPort::advance`] next.
    pub fn next_time(&self) -> Option<SimTime> {
        let finished = self.finished.first().map(|&(at, _)| at);
        self.machine.next_time().into_iter().chain(finished).min()
    }

    /// A message that is finished by now.
    pub fn take_finished(&mut self, now: SimTime) -> Option<Finished> {
        let &(at, number) = self.finished.first().filter(|(at, _)| *at <= now)?;
        self.finished.remove(&(at, number));
        let Message { name, bytes, image, layout, length, .. } = self.messages.remove(&number)?;
        self.numbers.remove(&name);
        self.whole -= 1;
        let queues = self.busy.len() as u64;
        self.busy[(number % queues) as usize] = false;
        let image = bytes.map(|_| match layout {
            Some(layout) => layout.gather(&image, length),
            None => image,
        });
        Some(Finished { name, image })
    }
}

/// Offers a part of a packet to the machine: whether it has taken it.
fn offer(machine: &mut Machine, messages: &BTreeMap<u64, Message>, now: SimTime, part: &Packet) -> bool {
    let bytes = messages.get(&part.message).and_then(|message| message.bytes.as_deref());
    let own = bytes.and_then(|bytes| bytes.get(part.offset as usize..)?.get(..part.bytes as usize));
    let answer = machine.offer(now, *part, own);
    debug_assert!(!matches!(answer, Err(Refused::Never(_))), "parts fit");
    answer.is_ok()
}

/// What is around the machine.
struct Beside<'a, H> {
    cycle: SimTime,
    messages: &'a mut BTreeMap<u64, Message>,
    finished: &'a mut BTreeSet<(SimTime, u64)>,
    totals: &'a mut SpinTotals,
    failure: &'a mut Option<Failed>,
    host: &'a mut H,
}

impl<H: Host> Out for Beside<'_, H> {
    fn freed(&mut self, at: SimTime, packet: &Packet, passes: bool) {
        let Some(message) = self.messages.get_mut(&packet.message) else { return };
        message.freed += u64::from(packet.bytes);
        if passes {
            self.totals.passed += 1;
            message.end = message.end.max(self.host.write(at, packet.bytes.into()));
            let place = packet.offset as usize..packet.offset as usize + packet.bytes as usize;
            match (message.bytes.as_ref().and_then(|bytes| bytes.get(place.clone())), &message.layout) {
                (Some(bytes), Some(layout)) => layout.scatter(packet.offset, bytes, &mut message.image),
                (Some(bytes), None) => message.image[place].copy_from_slice(bytes),
                (None, _) => {}
            }
        }
        if message.freed == message.length {
            self.finished.insert((message.end.max(at), packet.message));
        }
    }

    fn command(&mut self, at: SimTime, command: &Command, data: &mut [u8]) -> SimTime {
        let Some(message) = self.messages.get_mut(&command.message) else { return SimTime::ZERO };
        let bytes = u64::from(command.bytes);
        // The machine's own path takes 64 bytes in a cycle.
        let own = self.cycle * bytes.div_ceil(SLOT).max(1);
        let inside = bytes.min(message.room.saturating_sub(command.remote));
        let place = command.remote as usize..(command.remote + inside) as usize;
        match command.kind {
            CommandKind::Send => {
                self.totals.sent += 1;
                self.host.send(at, message.name, bytes);
                SimTime::ZERO
            }
            CommandKind::Write | CommandKind::Direct => {
                self.totals.written += inside;
                self.totals.beyond += bytes - inside;
                if inside > 0
                    && let Some(image) = message.image.get_mut(place)
                {
                    image.copy_from_slice(&data[..inside as usize]);
                }
                self.host.write(at, bytes).saturating_sub(at + own)
            }
            CommandKind::Read => {
                data.fill(0);
                if inside > 0
                    && let Some(image) = message.image.get(place)
                {
                    data[..inside as usize].copy_from_slice(image);
                }
                self.host.read(at, bytes).saturating_sub(at + own)
            }
            CommandKind::Copy => SimTime::ZERO,
        }
    }

    fn failed(&mut self, at: SimTime, failure: &Failure) {
        self.totals.failures += 1;
        if let Some(&Message { name, rule, length, .. }) = self.messages.get(&failure.message) {
            self.failure.get_or_insert(Failed { at, failure: Failure { context: rule, ..*failure }, name, length });
        }
    }

    fn ran(&mut self, ran: &Ran) {
        self.totals.handlers += 1;
        self.totals.cycles += ran.cycles;
    }
}
