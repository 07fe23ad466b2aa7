//! The machine: from a packet that arrives to the feedback that frees it.

mod clusters;
mod commands;
mod queues;

pub use commands::{Command, CommandKind};

use crate::config::SpinConfig;
use crate::hpu::Fault;
use crate::layout::Layout;
use crate::program::Program;
use crate::ring::{Ring, SLOT};
use clusters::{Cluster, Task, Unit};
use commands::Commands;
use narrows_engine::{CalendarQueue, Slab};
use narrows_units::{Bytes, SimTime};
use queues::Queues;
use std::collections::VecDeque;
use std::sync::Arc;

/// No packet.
const NONE: u32 = u32::MAX;

/// A packet that arrives, or is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its message: no two at a time have one number.
    pub message: u64,
    /// The execution context; that of a message's first packet counts.
    pub context: u32,
    /// Of its payload in the message.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// End of the message. It comes after all others of the message.
    pub last: bool,
    /// Whatever its sender wants back with it.
    pub tag: u64,
}

/// Which handler of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handler {
    /// Runs on the first packet, before all others.
    Header,
    /// Runs on every packet.
    Payload,
    /// Runs on the last packet, after all others.
    Completion,
}

/// What a handler that is no program does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on to the host.
    Pass,
    /// Nobody hears of it.
    Drop,
    /// It is sent back.
    SendBack,
    /// It becomes part of a result. With the last packet of a message the result, as long as that packet, is written
    /// to the host.
    Fold,
    /// It is written to the host.
    CopyToHost,
}

/// A payload handler as a function: what it costs, and what it does. Its command is the last thing that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of each packet.
    pub fixed: u64,
    /// Thousandths of a cycle for each byte.
    pub per_byte: u64,
    /// Thousandths of a cycle for each whole word of four bytes.
    pub per_word: u64,
    /// Bytes at the beginning that cost nothing more.
    pub header: u32,
    /// What becomes of the packet.
    pub action: Action,
}

impl Action {
    /// All of them, with their names in commands.
    pub const NAMES: [(&str, Action); 5] = [
        ("pass", Action::Pass),
        ("drop", Action::Drop),
        ("send-back", Action::SendBack),
        ("fold", Action::Fold),
        ("copy-to-host", Action::CopyToHost),
    ];
}

impl Cost {
    /// Functions that were fitted to programs of `handlers/`, by their names. They take as many cycles.
    #[rustfmt::skip]
    pub const FITTED: [(&str, Cost); 7] = [
        ("empty", Cost { fixed: 9, per_byte: 0, per_word: 0, header: 0, action: Action::Drop }),
        ("copy_to_host", Cost { fixed: 20, per_byte: 0, per_word: 0, header: 0, action: Action::CopyToHost }),
        ("ping_pong", Cost { fixed: 25, per_byte: 0, per_word: 0, header: 0, action: Action::SendBack }),
        ("filtering", Cost { fixed: 102, per_byte: 0, per_word: 0, header: 0, action: Action::Pass }),
        ("aggregate", Cost { fixed: 20, per_byte: 0, per_word: 6000, header: 28, action: Action::Fold }),
        ("reduce", Cost { fixed: 17, per_byte: 0, per_word: 8000, header: 28, action: Action::Fold }),
        ("histogram", Cost { fixed: 20, per_byte: 0, per_word: 10000, header: 28, action: Action::Fold }),
    ];

    /// Cycles for a packet.
    pub fn cycles(&self, bytes: u32) -> u64 {
        let bytes = bytes.saturating_sub(self.header);
        let (bytes, words) = (u64::from(bytes), u64::from(bytes / 4));
        self.fixed.saturating_add(self.per_byte.saturating_mul(bytes).saturating_add(self.per_word.saturating_mul(words)) / 1000)
    }
}

/// The handlers of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handlers {
    /// Programs.
    Program(Program),
    /// A payload handler as a function.
    Cost(Cost),
    /// A payload handler that writes the blocks of an MPI datatype to their places, with the cycles of
    /// `handlers/unpack.c`.
    Unpack(Arc<Layout>),
}

impl Handlers {
    fn has(&self, handler: Handler) -> bool {
        match self {
            Handlers::Program(program) => program.entries[handler as usize].is_some(),
            Handlers::Cost(_) | Handlers::Unpack(_) => handler == Handler::Payload,
        }
    }
}

/// What handlers of some messages share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The handlers.
    pub handlers: Handlers,
    /// Memory in L2; a program's data are at its beginning.
    pub memory: Bytes,
    /// Memory in the L1 of each cluster.
    pub scratchpad: Bytes,
    /// The window in the host's memory, which commands reach.
    pub window: Bytes,
}

/// Why a machine cannot be, or a context not be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpinError {
    /// A context asks for more than there is.
    #[error("a context asks for {wanted} of {what}, and {left} are left")]
    Memory {
        /// Which memory.
        what: &'static str,
        /// What it asks for.
        wanted: Bytes,
        /// What there is.
        left: Bytes,
    },
    /// More than anybody builds.
    #[error("{what} of {size}; expected at most {most}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much.
        size: String,
        /// What there may be.
        most: String,
    },
    /// No packet of this length fits.
    #[error("packets of {packet} do not fit into {what} of {size}")]
    Packet {
        /// Longest packet.
        packet: Bytes,
        /// What they do not fit into.
        what: &'static str,
        /// Its size.
        size: Bytes,
    },
    /// A function takes longer than a handler may.
    #[error("the function takes {cycles} cycles for a packet of {packet}, and a handler may run for {budget}")]
    Budget {
        /// For the longest packet.
        cycles: u64,
        /// Its length.
        packet: Bytes,
        /// What a handler may take.
        budget: u32,
    },
    /// Whoever watches has had enough.
    #[error("interrupted")]
    Interrupted,
}

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no room. [`Out::ready`] says when to offer it again.
    #[error("the machine has no room for a packet now")]
    Full,
    /// It never fits.
    #[error("the packet is longer than {0} bytes, or its context does not exist")]
    Never(u64),
}

/// A handler that went wrong. What is left of its message goes to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of which message.
    pub message: u64,
    /// Of which context.
    pub context: u32,
    /// Which one.
    pub handler: Handler,
    /// At which instruction.
    pub pc: u32,
    /// Why.
    pub fault: Fault,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { message, context, handler, pc, fault } = self;
        write!(f, "{} of context {context}, message {message}, at {pc:#010x}: {fault}", crate::program::NAMES[*handler as usize])
    }
}

/// A handler that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Of which message.
    pub message: u64,
    /// Which one.
    pub handler: Handler,
    /// On which HPU of all.
    pub hpu: u32,
    /// When it began, in cycles.
    pub began: u64,
    /// How many cycles it had its HPU, with what the runtime adds.
    pub cycles: u64,
}

/// What a machine asks of its surroundings, and tells them; calls come in the order of their times.
pub trait Out {
    /// A packet leaves the machine's memory. Where no handler said otherwise, `passes` is false: it goes nowhere.
    fn freed(&mut self, at: SimTime, packet: &Packet, passes: bool);

    /// A command begins: data go to the network or the host, or are asked of the host. How much longer the
    /// surroundings take than the machine itself.
    fn command(&mut self, at: SimTime, command: &Command, data: &mut [u8]) -> SimTime;

    /// After a packet was refused: one may fit now.
    fn ready(&mut self, _at: SimTime) {}

    /// A handler was ended.
    fn failed(&mut self, _at: SimTime, _failure: &Failure) {}

    /// A handler has run.
    fn ran(&mut self, _ran: &Ran) {}
}

/// A packet in the machine.
#[derive(Clone, Copy, Debug)]
struct Held {
    packet: Packet,
    /// Its room in L2.
    room: u64,
    place: u64,
    /// Somebody gave its contents.
    has_bytes: bool,
    passes: bool,
    /// The next one of its message.
    next: u32,
}

/// What happens next. The order of the variants is that of events at one time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A command is done at its interface.
    Finished(u32),
    /// The HPU hears of it.
    Response(u32),
    /// A packet's slot on the way out is free again.
    SlotFree(u32),
    /// A command comes to its interface.
    Issued(u32),
    /// A task's feedback reaches the queues.
    Feedback(u32),
    /// A packet's handler execution request.
    Request(u32),
    /// It is in its queue.
    Queued(u32),
    /// A queue's next task may go to a cluster.
    Pick,
    /// A task's packet is in L1.
    Moved(u32),
    /// An HPU may take another task.
    Idle(u32),
    /// An HPU goes on.
    Run(u32),
}

impl Event {
    /// Unique among events of one time.
    fn key(self) -> u64 {
        let (rank, index) = match self {
            Event::Finished(index) => (0, index),
            Event::Response(index) => (1, index),
            Event::SlotFree(index) => (2, index),
            Event::Issued(index) => (3, index),
            Event::Feedback(index) => (4, index),
            Event::Request(index) => (5, index),
            Event::Queued(index) => (6, index),
            Event::Pick => (7, 0),
            Event::Moved(index) => (8, index),
            Event::Idle(index) => (9, index),
            Event::Run(index) => (10, index),
        };
        rank << 32 | u64::from(index)
    }
}

/// Stages of a packet without load, in cycles: PsPIN's hardware description, run cycle by cycle (docs/spin.md).
mod stage {
    /// From its arrival to its handler execution request, beside a beat for each 64 bytes.
    pub const IN: u64 = 4;
    /// To the task.
    pub const QUEUE: u64 = 2;
    /// To the cluster.
    pub const CLUSTER: u64 = 1;
    /// DMA from L2 to L1, beside the beats.
    pub const DMA: u64 = 11;
    /// Two transfers are under way at a time; each keeps its place for so long, beside its beats. Fitted to 256 and 406
    /// Gbit/s with packets of 64 and 128 bytes and an empty handler on 8 HPUs.
    pub const DMA_HOLD: u64 = 3;
    /// From L1 to the HPU, and to the next one.
    pub const DISPATCH: u64 = 1;
    /// What the runtime does around a handler: of the 9 cycles of an empty one, 2 are its return.
    pub const RUNTIME: u64 = 7;
    /// From the end of a handler to its cluster; the HPU is idle then.
    pub const DOORBELL: u64 = 1;
    /// From there, or from a command's response, to the queues.
    pub const FEEDBACK: u64 = 1;
}

/// Beats of 64 bytes.
fn beats(bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(SLOT).max(1)
}

/// A machine with its contexts.
pub struct Machine {
    config: SpinConfig,
    now: u64,
    events: CalendarQueue<Event>,
    contexts: Vec<Loaded>,
    packets: Slab<Held>,
    /// L2's memory for packets.
    l2: Vec<u8>,
    l2_ring: Ring,
    /// A packet that waits for room in L2, with its contents.
    parked: Option<(Packet, Option<Vec<u8>>)>,
    /// When the way in has its next beat free.
    way_in: u64,
    /// Requests that no queue took yet.
    requests: VecDeque<u32>,
    /// Somebody was refused, and wants to know.
    refused: bool,
    queues: Queues,
    picks: bool,
    picked: u64,
    tasks: Slab<Task>,
    clusters: Vec<Cluster>,
    units: Vec<Unit>,
    commands: Commands,
}

/// A context with its memories.
struct Loaded {
    handlers: Handlers,
    memory: Vec<u8>,
    /// Of all clusters.
    scratchpads: Vec<u8>,
    window: u64,
}

impl Machine {
    /// A machine without contexts.
    ///
    /// # Errors
    /// Packets fit into none of its memories, or these are larger than 1 GiB each.
    pub fn new(config: SpinConfig) -> Result<Machine, SpinError> {
        config.check()?;
        for (what, size) in [("a ring in L1", config.l1_ring), ("L2", config.l2_packets)] {
            if config.packet.0 > size.0 / SLOT * SLOT {
                return Err(SpinError::Packet { packet: config.packet, what, size });
            }
        }
        Ok(Machine {
            now: 0,
            events: CalendarQueue::new(),
            contexts: Vec::new(),
            packets: Slab::default(),
            l2: vec![0; config.l2_packets.0 as usize],
            l2_ring: Ring::new(config.l2_packets.0),
            parked: None,
            way_in: 0,
            requests: VecDeque::new(),
            refused: false,
            queues: Queues::new(&config),
            picks: false,
            picked: 0,
            tasks: Slab::default(),
            clusters: (0..config.clusters).map(|_| Cluster::new(&config)).collect(),
            units: (0..config.all_hpus()).map(|_| Unit::new(&config)).collect(),
            commands: Commands::new(&config),
            config,
        })
    }

    /// Adds a context: its number.
    ///
    /// # Errors
    /// It asks for more memory than there is, or is a function that takes longer than a handler may.
    pub fn add_context(&mut self, context: Context) -> Result<u32, SpinError> {
        let Context { handlers, memory, scratchpad, window } = context;
        if let Handlers::Cost(cost) = &handlers {
            let (packet, budget) = (self.config.packet, self.config.budget);
            let cycles = cost.cycles(packet.0 as u32);
            if cycles > budget.into() {
                return Err(SpinError::Budget { cycles, packet, budget });
            }
        }
        let data = if let Handlers::Program(program) = &handlers { program.data.as_slice() } else { &[] };
        let table = if let Handlers::Unpack(layout) = &handlers { layout.table() } else { 0 };
        let memory = memory.max(Bytes(table.max(data.len() as u64)));
        let (l2, l1) = self.contexts.iter().fold((0, 0), |(l2, l1), other| (l2 + other.memory.len(), l1 + other.scratchpads.len()));
        let l1 = l1 / self.clusters.len();
        let page = Bytes(u64::from(crate::hpu::map::SCRATCHPAD_STEP));
        let left = [
            ("handler memory in L2", memory, Bytes(self.config.l2_handlers.0.saturating_sub(l2 as u64))),
            ("scratchpad in L1", scratchpad, Bytes(self.config.scratchpads.0.saturating_sub(l1 as u64)).min(page)),
        ];
        for (what, wanted, left) in left {
            if wanted > left {
                return Err(SpinError::Memory { what, wanted, left });
            }
        }
        let mut l2 = vec![0; memory.0 as usize];
        l2[..data.len()].copy_from_slice(data);
        let scratchpads = vec![0; scratchpad.0 as usize * self.clusters.len()];
        self.contexts.push(Loaded { handlers, memory: l2, scratchpads, window: window.0 });
        Ok(self.contexts.len() as u32 - 1)
    }

    /// A context's memory in L2.
    pub fn memory(&self, context: u32) -> &[u8] {
        &self.contexts[context as usize].memory
    }

    /// A context's scratchpad in the L1 of a cluster.
    pub fn scratchpad(&self, context: u32, cluster: u32) -> &[u8] {
        let all = &self.contexts[context as usize].scratchpads;
        let one = all.len() / self.clusters.len();
        &all[cluster as usize * one..][..one]
    }

    /// Instructions that all HPUs have run.
    pub fn instructions(&self) -> u64 {
        self.units.iter().map(|unit| unit.hpu.instructions).sum()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty() && self.packets.is_empty() && self.parked.is_none()
    }

    /// The header of a packet arrives; all before that time has happened ([`Machine::advance`]). Without bytes,
    /// handlers read zeros.
    ///
    /// # Errors
    /// The machine has no room, or never has.
    pub fn offer(&mut self, at: SimTime, packet: Packet, bytes: Option<&[u8]>) -> Result<(), Refused> {
        if u64::from(packet.bytes) > self.config.packet.0 || packet.context as usize >= self.contexts.len() {
            return Err(Refused::Never(self.config.packet.0));
        }
        assert!(bytes.is_none_or(|bytes| bytes.len() == packet.bytes as usize), "all bytes of a packet, or none");
        if self.parked.is_some() || !self.requests.is_empty() {
            self.refused = true;
            return Err(Refused::Full);
        }
        match self.l2_ring.take(packet.bytes.into()) {
            Some(room) => self.arrive(at.0.div_ceil(self.config.cycle.0), packet, bytes, room),
            None => self.parked = Some((packet, bytes.map(<[u8]>::to_vec))),
        }
        Ok(())
    }

    fn arrive(&mut self, now: u64, packet: Packet, bytes: Option<&[u8]>, (room, place): (u64, u64)) {
        if let Some(bytes) = bytes {
            self.l2[place as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let held = Held { packet, room, place, has_bytes: bytes.is_some(), passes: false, next: NONE };
        self.way_in = self.way_in.max(now) + beats(packet.bytes) * u64::from(self.config.beat_in);
        let index = self.packets.insert(held);
        self.schedule(self.way_in + stage::IN, Event::Request(index));
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<SimTime> {
        self.events.peek().map(|(at, _)| self.time(at))
    }

    /// Lets all happen up to a time.
    pub fn advance(&mut self, until: SimTime, out: &mut impl Out) {
        let until = until.0 / self.config.cycle.0;
        while self.events.peek().is_some_and(|(at, _)| at <= until) {
            let Some((at, _, event)) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::Finished(flight) => self.finished(flight, out),
                Event::Response(flight) => self.response(flight),
                Event::SlotFree(_) => self.slot_free(out),
                Event::Issued(flight) => self.issued(flight, out),
                Event::Feedback(task) => self.feedback(task, out),
                Event::Request(packet) => {
                    self.requests.push_back(packet);
                    self.request(out);
                }
                Event::Queued(packet) => self.queued(packet, out),
                Event::Pick => self.pick(),
                Event::Moved(task) => self.moved(task),
                Event::Idle(unit) => self.idle(unit),
                Event::Run(unit) => self.run(unit, until, out),
            }
        }
    }

    fn time(&self, cycle: u64) -> SimTime {
        self.config.cycle * cycle
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.insert(at, event.key(), event);
    }

    /// Gives the room of a packet back.
    fn free(&mut self, index: u32, out: &mut impl Out) {
        let Some(held) = self.packets.remove(index) else { return };
        out.freed(self.time(self.now), &held.packet, held.passes);
        self.l2_ring.free(held.room);
        if let Some((packet, bytes)) = self.parked.take() {
            match self.l2_ring.take(packet.bytes.into()) {
                Some(room) => self.arrive(self.now, packet, bytes.as_deref(), room),
                None => self.parked = Some((packet, bytes)),
            }
        }
        self.tell_ready(out);
    }

    fn tell_ready(&mut self, out: &mut impl Out) {
        if self.refused && self.parked.is_none() && self.requests.is_empty() {
            self.refused = false;
            out.ready(self.time(self.now));
        }
    }
}
