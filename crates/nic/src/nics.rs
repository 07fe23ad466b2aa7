use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use narrows_fabric::{Notice as NetworkNotice, Transfer, TransferId};
use narrows_portals::{
    AckRequest, Command, CtId, EqId, Event as FullEvent, EventKind, FailType, List, LocalBuffer, MatchEntry, Notice, ProcessId,
    RemoteTarget, md, me,
};
use narrows_units::{Bytes, SimTime};

use crate::config::NicConfig;
use crate::error::{CommandError, Refusal};
use crate::pipeline::{Durations, Stages};
use crate::portal::{Arrival, Interface, Kind, Landing, Operation, Sink, Status, blank};

/// A message inside the NICs: a slot, reused when the message has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MessageId(pub u32);

/// A process: index over all processes of the machine (its global rank).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Process(pub u32);

/// Where the NICs' effects go.
pub trait Out {
    /// Schedule an event of the NICs' own. `source` is the ordering key (node index).
    fn schedule(&mut self, at: SimTime, source: u32, event: Event);
    /// Start a transfer on the network now. The network says each of its three notices once,
    /// `HeadArrived` in start order for one (source, target, virtual network).
    fn transfer(&mut self, transfer: Transfer);
    /// Visible in the memory of `process` now.
    fn notify(&mut self, process: Process, notice: Notice);
    /// Read `length` bytes at `address` of `process` now: they are the payload of `message`.
    fn capture(&mut self, message: MessageId, process: Process, address: u64, length: u64);
    /// The target of a get gives its data: read `length` bytes at `address` of `process` now, as by [`Out::capture`]. They
    /// will be delivered to `destination` of `initiator`, whose buffer belongs to the get until then, so that an
    /// implementation may as well write them there at once and do nothing at [`Out::deliver`].
    #[allow(clippy::too_many_arguments)]
    fn fetch(&mut self, message: MessageId, process: Process, address: u64, length: u64, initiator: Process, destination: u64) {
        let _ = (initiator, destination);
        self.capture(message, process, address, length);
    }
    /// The library already took the payload of `message`.
    fn inline(&mut self, message: MessageId, payload: Box<[u8]>);
    /// Write the first `length` payload bytes of `message` to `address` of `process` now.
    fn deliver(&mut self, message: MessageId, process: Process, address: u64, length: u64);
    /// The payload of `message` is no longer needed. Called once for each message that had one
    /// ([`Out::capture`] or [`Out::inline`]).
    fn release(&mut self, message: MessageId);
}

/// An event of the NICs' own; opaque to others, small and Copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event(pub u64);

/// What an [`Event`] means: kind in the top byte, then 24 bits, then 32 bits.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The first command in the queue of a node is in the NIC.
    Command(u32),
    /// The first write in the queue of a node is in the host's memory.
    Write(u32),
    /// The transmit pipeline takes a message.
    Transmit(u32, Role),
    /// A message starts on the network.
    Start(u32, Role),
    /// The data of a message are in memory.
    Landed(u32, Role),
    /// Initiators repeat what a portal table entry refused: process, entry.
    Retry(u32, u32),
}

/// The two ways of a message over the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Put or get request.
    Request,
    /// ACK or data of a get.
    Response,
}

impl Role {
    fn index(self) -> usize {
        self as usize
    }
}

impl Due {
    fn encode(self) -> Event {
        let (kind, middle, low) = match self {
            Due::Command(node) => (0, 0, node),
            Due::Write(node) => (1, 0, node),
            Due::Transmit(message, role) => (2, role as u32, message),
            Due::Start(message, role) => (3, role as u32, message),
            Due::Landed(message, role) => (4, role as u32, message),
            Due::Retry(process, pt) => (5, pt, process),
        };
        Event((kind << 56) | (u64::from(middle) << 32) | u64::from(low))
    }

    fn decode(event: Event) -> Option<Due> {
        let low = event.0 as u32;
        let middle = (event.0 >> 32) as u32 & 0xff_ffff;
        let role = if middle == 0 { Role::Request } else { Role::Response };
        Some(match event.0 >> 56 {
            0 => Due::Command(low),
            1 => Due::Write(low),
            2 => Due::Transmit(low, role),
            3 => Due::Start(low, role),
            4 => Due::Landed(low, role),
            5 => Due::Retry(low, middle),
            _ => return None,
        })
    }
}

/// How far a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The slot is free.
    Free,
    /// On the way to the target, or landing there.
    Request,
    /// Refused by a portal table entry with RETRY.
    Held,
    /// On the way back.
    Response,
    /// Over, but for the `SourceDone` of a transfer: its identifier is not free yet.
    Over,
}

/// Where the payload of the transfer under way stands, when it is read by DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// Nothing to read, or read.
    Done,
    /// Read when the transfer starts (buffered puts).
    AtStart,
    /// Read when the network says `SourceDone`.
    AtSourceDone,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    phase: Phase,
    operation: Operation,
    ack: AckRequest,
    target: u32,
    local: LocalBuffer,
    /// The payload of a put comes over PCIe.
    dma: bool,
    source: Source,
    /// The caller of [`Out`] holds a payload for it.
    payload: bool,
    head: bool,
    tail: bool,
    /// Transfers that the network has not said `SourceDone` of.
    unread: u8,
    /// When the result of matching is known.
    ready: SimTime,
    result: Result<Landing, FailType>,
}

impl Message {
    fn mlength(&self) -> u64 {
        self.result.map_or(0, |landing| landing.mlength)
    }
}

/// A message that its target refuses for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldMessage {
    /// The initiator.
    pub from: Process,
    /// The target.
    pub to: Process,
    /// A put; else a get.
    pub put: bool,
    /// Portal table entry.
    pub pt: u32,
    /// What no entry of it matches, or what has no room.
    pub match_bits: u64,
    /// Bytes.
    pub length: u64,
}

/// What the NICs have done, of one node or of all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Put and get requests started by processes of the node.
    pub messages: u64,
    /// Of these, puts ...
    pub puts: u64,
    /// ... and gets.
    pub gets: u64,
    /// Payload bytes that the puts of the node asked to send.
    pub put_bytes: u64,
    /// Payload bytes that the gets of the node asked to fetch.
    pub get_bytes: u64,
    /// Payload bytes that left the memory of the node for the network: puts, responses to gets.
    pub bytes_sent: u64,
    /// Payload bytes written into the memory of the node.
    pub bytes_received: u64,
    /// ACKs sent by the node.
    pub acks: u64,
    /// Operations that the node refused for good (dropped, disabled, violations).
    pub drops: u64,
    /// Operations that the node refused and that were repeated with success.
    pub retries: u64,
    /// Operations that matched in an overflow list of the node and left a header.
    pub unexpected: u64,
    /// Full events written.
    pub events: u64,
    /// Counting-event updates written.
    pub counts: u64,
    /// Commands received.
    pub commands: u64,
    /// Events for queues that did not exist.
    pub lost_events: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.messages += other.messages;
        self.puts += other.puts;
        self.gets += other.gets;
        self.put_bytes += other.put_bytes;
        self.get_bytes += other.get_bytes;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.acks += other.acks;
        self.drops += other.drops;
        self.retries += other.retries;
        self.unexpected += other.unexpected;
        self.events += other.events;
        self.counts += other.counts;
        self.commands += other.commands;
        self.lost_events += other.lost_events;
    }
}

/// One NIC: its stages and queues.
#[derive(Debug, Default)]
struct Node {
    stages: Stages,
    commands: VecDeque<(u32, Command)>,
    writes: VecDeque<(u32, Notice)>,
    /// Requests that are not acknowledged end to end.
    outstanding: u32,
    /// Requests beyond `max_outstanding`.
    waiting: VecDeque<u32>,
    statistics: Statistics,
    /// (pid, process), sorted by pid.
    processes: Vec<(u32, u32)>,
}

/// Longest put or get (`PTL_SIZE_MAX`, portals4.md section 1: 2^48 - 1).
pub const MAX_LENGTH: u64 = (1 << 48) - 1;

/// Virtual networks of the fabric: compute request and compute response (facts.md 4.3).
const COMPUTE_REQUEST: u8 = 0;
const COMPUTE_RESPONSE: u8 = 1;

/// All NICs of the machine: commands of processes and notices of the network in, actions out.
///
/// See the [crate] page for an example, and [`NicConfig`] for the stages of each operation.
#[derive(Debug)]
pub struct Nics {
    config: NicConfig,
    durations: Durations,
    nodes: Vec<Node>,
    processes: Vec<ProcessId>,
    interfaces: Vec<Interface>,
    /// Per process, the requests that start later because of a DMA read: (target, start). Keeps
    /// what one process sends to another in order although only some of it is read by DMA.
    starting: Vec<Vec<(u32, SimTime)>>,
    messages: Vec<Message>,
    free: Vec<u32>,
    refusals: Vec<Refusal>,
    /// Reused: what a command refuses.
    scratch: Vec<u32>,
    /// Reused: first messages of the initiators that repeat, oldest first.
    firsts: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Writes notices of one process: PCIe, then the host's memory.
struct Port<'a, O: Out> {
    now: SimTime,
    process: u32,
    index: u32,
    node: &'a mut Node,
    config: &'a NicConfig,
    durations: &'a Durations,
    out: &'a mut O,
}

impl<O: Out> Sink for Port<'_, O> {
    fn notice(&mut self, notice: Notice) {
        let busy = match notice {
            Notice::Event { .. } => {
                self.node.statistics.events += 1;
                self.durations.event
            }
            Notice::Count { .. } => {
                self.node.statistics.counts += 1;
                self.durations.count
            }
            Notice::Reply { .. } => self.durations.count,
        };
        let at = self.node.stages.write(self.now, busy, self.config);
        self.node.writes.push_back((self.process, notice));
        self.out.schedule(at, self.index, Due::Write(self.index).encode());
    }
}

/// The interface of `process` and the port through which it writes.
macro_rules! interface {
    ($self:ident, $now:expr, $process:expr, $out:expr) => {{
        let process: u32 = $process;
        let index = $self.processes[process as usize].nid - 1;
        (
            &mut $self.interfaces[process as usize],
            Port {
                now: $now,
                process,
                index,
                node: &mut $self.nodes[index as usize],
                config: &$self.config,
                durations: &$self.durations,
                out: &mut *$out,
            },
        )
    }};
}

impl Nics {
    /// `processes[i]` is where process i lives (its nid is node index + 1).
    ///
    /// # Panics
    /// When a process lives on a node that is not there, or two in the same place: the caller
    /// placed them.
    pub fn new(config: NicConfig, nodes: u32, processes: &[ProcessId]) -> Nics {
        let mut by_node: Vec<Node> = (0..nodes).map(|_| Node::default()).collect();
        for (index, process) in processes.iter().enumerate() {
            let node = process.nid.checked_sub(1).and_then(|node| by_node.get_mut(node as usize));
            let node = node.unwrap_or_else(|| panic!("process {index} is placed on nid {}, but there are {nodes} nodes", process.nid));
            node.processes.push((process.pid, index as u32));
        }
        for node in &mut by_node {
            node.processes.sort_unstable();
            assert!(node.processes.windows(2).all(|pair| pair[0].0 != pair[1].0), "two processes of one node have the same pid");
        }
        Nics {
            durations: Durations::new(&config),
            nodes: by_node,
            processes: processes.to_vec(),
            interfaces: processes.iter().map(|_| Interface::new(config.max_unexpected_headers)).collect(),
            starting: vec![Vec::new(); processes.len()],
            messages: Vec::new(),
            free: Vec::new(),
            refusals: Vec::new(),
            scratch: Vec::new(),
            firsts: BinaryHeap::new(),
            config,
        }
    }

    /// The least time from writing a command to its first effect of any kind.
    pub fn lookahead(&self) -> SimTime {
        self.config.pcie_latency + self.durations.command
    }

    /// The timings.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// Messages that a portal table entry with RETRY refuses for now.
    pub fn held(&self) -> u64 {
        self.interfaces.iter().map(Interface::held).sum()
    }

    /// Messages that `process` refuses for now.
    pub fn held_by(&self, process: Process) -> u64 {
        self.interfaces.get(process.0 as usize).map_or(0, Interface::held)
    }

    /// Messages that are neither complete nor held.
    pub fn in_flight(&self) -> u64 {
        (self.messages.len() - self.free.len()) as u64 - self.held()
    }

    /// The status registers of a process.
    pub fn status(&self, process: Process) -> Status {
        self.interfaces.get(process.0 as usize).map_or(Status::default(), Interface::status)
    }

    /// The messages that are held, by target, table entry and initiator: for reports.
    pub fn held_messages(&self) -> impl Iterator<Item = HeldMessage> {
        self.interfaces.iter().flat_map(Interface::held_messages).map(|message| {
            let this = &self.messages[message as usize];
            let operation = &this.operation;
            HeldMessage {
                from: Process(operation.from),
                to: Process(this.target),
                put: operation.kind == Kind::Put,
                pt: operation.pt,
                match_bits: operation.match_bits,
                length: operation.rlength,
            }
        })
    }

    /// What the NIC of `node` has done.
    pub fn node_statistics(&self, node: u32) -> Statistics {
        let Some(place) = self.nodes.get(node as usize) else { return Statistics::default() };
        let mut statistics = place.statistics;
        for &(_, process) in &place.processes {
            statistics.unexpected += self.interfaces[process as usize].unexpected_total();
            statistics.lost_events += self.interfaces[process as usize].lost_events();
        }
        statistics
    }

    /// What all NICs have done.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for node in 0..self.nodes.len() as u32 {
            sum += self.node_statistics(node);
        }
        sum
    }

    /// Commands that were refused after [`Nics::command`] had accepted them, since the last call.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    // ---- Commands ----------------------------------------------------------------------------

    /// The library of `process` wrote `command` at `now`.
    ///
    /// Nothing happens before `now` + [`Nics::lookahead`]. Commands of one node pass PCIe in the
    /// order of the calls.
    ///
    /// # Errors
    /// A command that is wrong in itself or names what does not exist is refused; the NIC's state
    /// stays as it was. A target process that does not exist is no error: the initiator gets its
    /// events with [`FailType::Undeliverable`], as on a real machine.
    pub fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out) -> Result<(), CommandError> {
        let (node, at) = self.admit(now, process, &command)?;
        self.nodes[node as usize].commands.push_back((process.0, command));
        out.schedule(at, node, Due::Command(node).encode());
        Ok(())
    }

    /// The same for a caller that hands a command over at `now`, later than it was `written`. A
    /// command that has passed PCIe by then is worked on at once: an event less than
    /// [`Nics::command`], and the same result.
    ///
    /// # Errors
    /// As [`Nics::command`].
    pub fn command_late(
        &mut self,
        now: SimTime,
        written: SimTime,
        process: Process,
        command: Command,
        out: &mut impl Out,
    ) -> Result<(), CommandError> {
        let (node, at) = self.admit(written, process, &command)?;
        let queue = &mut self.nodes[node as usize].commands;
        if at <= now && queue.is_empty() {
            self.execute(now, process.0, command, out);
        } else {
            queue.push_back((process.0, command));
            out.schedule(at.max(now), node, Due::Command(node).encode());
        }
        Ok(())
    }

    /// Checks a command and sends it over PCIe: to which node, and when it is there.
    fn admit(&mut self, written: SimTime, process: Process, command: &Command) -> Result<(u32, SimTime), CommandError> {
        let Some(place) = self.processes.get(process.0 as usize) else { return Err(CommandError::NoProcess(process)) };
        let index = place.nid - 1;
        self.check(process.0, command)?;
        let node = &mut self.nodes[index as usize];
        let extra = match command {
            Command::Put { length, inline: Some(_), .. } if *length <= self.config.pio_limit.get() => {
                self.config.pcie_rate.time_for(Bytes(length.saturating_sub(self.config.inline_limit.get())))
            }
            _ => SimTime::ZERO,
        };
        node.statistics.commands += 1;
        Ok((index, node.stages.command(written, extra, &self.config, &self.durations)))
    }

    /// Checks a command, and declares what it allocates.
    fn check(&mut self, process: u32, command: &Command) -> Result<(), CommandError> {
        let interface = &mut self.interfaces[process as usize];
        match command {
            Command::PtAlloc { pt, options, eq } => interface.declare_pt(*pt, *options, *eq),
            Command::PtFree { pt } => interface.undeclare_pt(*pt),
            Command::PtEnable { pt } | Command::PtDisable { pt } => interface.known_pt(*pt),
            Command::EqAlloc { eq, .. } => interface.declare_eq(*eq),
            Command::EqFree { eq } => interface.undeclare_eq(*eq),
            Command::CtAlloc { ct } => interface.declare_ct(*ct),
            Command::CtFree { ct } => interface.undeclare_ct(*ct),
            Command::CtSet { ct, .. } | Command::CtIncrement { ct, .. } => interface.known_ct(*ct),
            Command::MeAppend { entry, pt, me, .. } => {
                check_entry(interface, *pt, me)?;
                interface.declare_entry(*entry, self.config.max_entries)
            }
            Command::MeSearch { pt, me, .. } => check_entry(interface, *pt, me),
            Command::MeUnlink { .. } => Ok(()),
            Command::Put { local, length, inline, .. } => {
                if let Some(bytes) = inline
                    && bytes.len() as u64 != *length
                {
                    return Err(CommandError::InlineLength { length: *length, carried: bytes.len() as u64 });
                }
                check_buffer(interface, local, *length)
            }
            Command::Get { local, length, .. } => check_buffer(interface, local, *length),
        }
    }

    fn execute(&mut self, now: SimTime, process: u32, command: Command, out: &mut impl Out) {
        let mut refused = std::mem::take(&mut self.scratch);
        let (interface, mut port) = interface!(self, now, process, out);
        let mut result = Ok(());
        match command {
            Command::PtAlloc { pt, options, eq } => result = interface.pt_alloc(pt, options, eq),
            Command::PtFree { pt } => {
                result = interface.pt_free(pt, &mut refused);
                self.refuse(now, &mut refused, FailType::Dropped, out);
            }
            Command::PtEnable { pt } => interface.pt_enable(pt),
            Command::PtDisable { pt } => {
                interface.pt_disable(pt, &mut refused);
                self.refuse(now, &mut refused, FailType::PtDisabled, out);
            }
            Command::EqAlloc { eq, count } => interface.eq_alloc(eq, count),
            Command::EqFree { eq } => interface.eq_free(eq),
            Command::CtAlloc { ct } => interface.ct_alloc(ct),
            Command::CtFree { ct } => interface.ct_free(ct),
            Command::CtSet { ct, success, failure } => interface.ct_set(ct, success, failure, &mut port),
            Command::CtIncrement { ct, success, failure } => interface.ct_increment(ct, success, failure, &mut port),
            Command::MeAppend { entry, pt, list, me } => {
                let visited = interface.me_append(entry, pt, list, &me, &mut port);
                port.node.stages.matched(now, visited, &self.config);
            }
            Command::MeUnlink { entry, ticket } => {
                let code = interface.me_unlink(entry);
                port.notice(Notice::Reply { ticket, code });
            }
            Command::MeSearch { pt, operation, me } => {
                let visited = interface.me_search(pt, operation, &me, &mut port);
                port.node.stages.matched(now, visited, &self.config);
            }
            Command::Put { local, length, inline, ack, target, hdr_data } => {
                let operation = self.operation(Kind::Put, process, length, &target, hdr_data);
                self.put(now, operation, target.process, local, inline, ack, out);
            }
            Command::Get { local, length, target } => {
                let operation = self.operation(Kind::Get, process, length, &target, 0);
                self.get(now, operation, target.process, local, out);
            }
        }
        if let Err(error) = result {
            self.refusals.push(Refusal { process: Process(process), error });
        }
        refused.clear();
        self.scratch = refused;
        self.schedule_retries(now, process, out);
    }

    fn operation(&self, kind: Kind, process: u32, length: u64, target: &RemoteTarget, hdr_data: u64) -> Operation {
        Operation {
            kind,
            from: process,
            initiator: self.processes[process as usize],
            pt: target.pt,
            match_bits: target.match_bits,
            offset: target.offset,
            rlength: length,
            hdr_data,
        }
    }

    fn process_at(&self, place: ProcessId) -> Option<u32> {
        let node = self.nodes.get(place.nid.checked_sub(1)? as usize)?;
        let index = node.processes.binary_search_by_key(&place.pid, |&(pid, _)| pid).ok()?;
        Some(node.processes[index].1)
    }

    // ---- The initiator ------------------------------------------------------------------------

    #[allow(clippy::too_many_arguments)]
    fn put(
        &mut self,
        now: SimTime,
        operation: Operation,
        to: ProcessId,
        local: LocalBuffer,
        inline: Option<Box<[u8]>>,
        ack: AckRequest,
        out: &mut impl Out,
    ) {
        let length = operation.rlength;
        let node = self.processes[operation.from as usize].nid - 1;
        let statistics = &mut self.nodes[node as usize].statistics;
        statistics.messages += 1;
        statistics.puts += 1;
        statistics.put_bytes += length;
        let Some(target) = self.process_at(to) else {
            self.sent(now, operation.from, &local, length, FailType::Undeliverable, out);
            self.acknowledged(now, operation.from, &local, ack, &operation, Err(FailType::Undeliverable), out);
            return;
        };
        let pushed = inline.is_some() && length <= self.config.pio_limit.get();
        let dma = length > self.config.inline_limit.get() && !pushed;
        let source = match dma {
            false => Source::Done,
            true if length <= self.config.buffered_limit.get() => Source::AtStart,
            true => Source::AtSourceDone,
        };
        let message = self.allocate(Message {
            phase: Phase::Request,
            operation,
            ack,
            target,
            local,
            dma,
            source,
            payload: length > 0 && (inline.is_some() || !dma),
            head: false,
            tail: false,
            unread: 0,
            ready: SimTime::ZERO,
            result: Err(FailType::Dropped),
        });
        match inline {
            Some(bytes) if length > 0 => out.inline(MessageId(message), bytes),
            None if length > 0 && !dma => out.capture(MessageId(message), Process(operation.from), local.address, length),
            _ => {}
        }
        if !dma {
            self.sent(now, operation.from, &local, length, FailType::Ok, out);
        }
        self.launch(now, node, message, out);
    }

    fn get(&mut self, now: SimTime, operation: Operation, to: ProcessId, local: LocalBuffer, out: &mut impl Out) {
        let node = self.processes[operation.from as usize].nid - 1;
        let statistics = &mut self.nodes[node as usize].statistics;
        statistics.messages += 1;
        statistics.gets += 1;
        statistics.get_bytes += operation.rlength;
        let Some(target) = self.process_at(to) else {
            self.replied(now, operation.from, &local, &operation, Err(FailType::Undeliverable), out);
            return;
        };
        let message = self.allocate(Message {
            phase: Phase::Request,
            operation,
            ack: AckRequest::None,
            target,
            local,
            dma: false,
            source: Source::Done,
            payload: false,
            head: false,
            tail: false,
            unread: 0,
            ready: SimTime::ZERO,
            result: Err(FailType::Dropped),
        });
        self.launch(now, node, message, out);
    }

    fn allocate(&mut self, message: Message) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.messages[slot as usize] = message;
            slot
        } else {
            self.messages.push(message);
            (self.messages.len() - 1) as u32
        }
    }

    fn finish(&mut self, message: u32, out: &mut impl Out) {
        self.release(message, out);
        let this = &mut self.messages[message as usize];
        if this.unread > 0 {
            this.phase = Phase::Over;
        } else {
            this.phase = Phase::Free;
            self.free.push(message);
        }
    }

    fn release(&mut self, message: u32, out: &mut impl Out) {
        if std::mem::take(&mut self.messages[message as usize].payload) {
            out.release(MessageId(message));
        }
    }

    /// End-to-end window, then the transmit pipeline.
    fn launch(&mut self, now: SimTime, node: u32, message: u32, out: &mut impl Out) {
        let place = &mut self.nodes[node as usize];
        if place.outstanding < self.config.max_outstanding.max(1) {
            place.outstanding += 1;
            self.transmit(now, message, Role::Request, out);
        } else {
            place.waiting.push_back(message);
        }
    }

    /// One request of `node` has reached its target.
    fn arrived(&mut self, now: SimTime, node: u32, out: &mut impl Out) {
        let place = &mut self.nodes[node as usize];
        match place.waiting.pop_front() {
            Some(next) => self.transmit(now, next, Role::Request, out),
            None => place.outstanding -= 1,
        }
    }

    /// The process at whose NIC a transfer starts.
    fn sender(&self, message: u32, role: Role) -> u32 {
        let message = &self.messages[message as usize];
        if role == Role::Request { message.operation.from } else { message.target }
    }

    fn transmit(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let kind = self.messages[message as usize].operation.kind;
        let occupancy = match (role, kind) {
            (Role::Request, Kind::Put) => self.config.put_occupancy,
            (Role::Request, Kind::Get) => self.config.get_occupancy,
            (Role::Response, Kind::Put) => self.config.ack_occupancy,
            (Role::Response, Kind::Get) => self.config.response_occupancy,
        };
        let node = self.processes[self.sender(message, role) as usize].nid - 1;
        let at = self.nodes[node as usize].stages.transmit[role.index()].begin(now, occupancy);
        if at > now {
            out.schedule(at, node, Due::Transmit(message, role).encode());
        } else {
            self.read(now, message, role, out);
        }
    }

    /// The pipeline has the message: DMA read, when there is something to read.
    fn read(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let process = self.sender(message, role) as usize;
        let node = self.processes[process].nid - 1;
        let this = self.messages[message as usize];
        let dma = match role {
            Role::Request => this.dma,
            Role::Response => this.operation.kind == Kind::Get && this.mlength() > 0,
        };
        let mut at = now;
        if dma {
            at = self.nodes[node as usize].stages.read(now, &self.config, &self.durations);
        }
        if role == Role::Request {
            let starting = &mut self.starting[process];
            starting.retain(|&(_, start)| start > now);
            at = starting.iter().filter(|&&(target, _)| target == this.target).fold(at, |at, &(_, start)| at.max(start));
            if at > now {
                starting.push((this.target, at));
            }
        }
        if at > now {
            out.schedule(at, node, Due::Start(message, role).encode());
        } else {
            self.start(now, message, role, out);
        }
    }

    /// The message starts on the network.
    fn start(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let from = self.processes[this.operation.from as usize].nid - 1;
        let to = self.processes[this.target as usize].nid - 1;
        let transfer = match role {
            Role::Request => {
                let payload = if this.operation.kind == Kind::Put { this.operation.rlength } else { 0 };
                self.nodes[from as usize].statistics.bytes_sent += payload;
                Transfer {
                    id: TransferId(2 * message),
                    source: from,
                    target: to,
                    virtual_network: COMPUTE_REQUEST,
                    payload: Bytes(payload),
                    source_dma: this.dma,
                    target_dma: payload > 0,
                }
            }
            Role::Response => {
                let data = this.operation.kind == Kind::Get && this.mlength() > 0;
                let payload = match this.operation.kind {
                    Kind::Put => self.config.ack_size.get(),
                    Kind::Get => this.mlength(),
                };
                if data {
                    self.nodes[to as usize].statistics.bytes_sent += payload;
                    self.messages[message as usize].source = Source::AtSourceDone;
                }
                Transfer {
                    id: TransferId(2 * message + 1),
                    source: to,
                    target: from,
                    virtual_network: COMPUTE_RESPONSE,
                    payload: Bytes(payload),
                    source_dma: data,
                    target_dma: data,
                }
            }
        };
        if role == Role::Request && this.source == Source::AtStart {
            self.source_done(now, message, role, out);
        }
        self.messages[message as usize].unread += 1;
        out.transfer(transfer);
        if role == Role::Response && this.operation.kind == Kind::Get && !transfer.source_dma {
            self.got(now, message, out);
        }
    }

    /// The payload has left the memory that it comes from.
    fn source_done(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let this = &mut self.messages[message as usize];
        if this.source == Source::Done {
            return;
        }
        this.source = Source::Done;
        let this = *this;
        match role {
            Role::Request => {
                if !this.payload {
                    self.messages[message as usize].payload = true;
                    out.capture(MessageId(message), Process(this.operation.from), this.local.address, this.operation.rlength);
                }
                self.sent(now, this.operation.from, &this.local, this.operation.rlength, FailType::Ok, out);
            }
            Role::Response => {
                if let Ok(landing) = this.result {
                    self.messages[message as usize].payload = true;
                    let (initiator, destination) = (Process(this.operation.from), this.local.address);
                    out.fetch(MessageId(message), Process(this.target), landing.start, landing.mlength, initiator, destination);
                }
                self.got(now, message, out);
            }
        }
    }

    /// SEND.
    fn sent(&mut self, now: SimTime, process: u32, local: &LocalBuffer, length: u64, fail: FailType, out: &mut impl Out) {
        let (interface, mut port) = interface!(self, now, process, out);
        let silent = local.options & md::EVENT_SEND_DISABLE != 0;
        if !silent && !quiet(local, fail) {
            let mlength = if fail == FailType::Ok { length } else { 0 };
            let event = FullEvent { fail, user_ptr: local.user_ptr, rlength: length, mlength, ..blank(EventKind::Send) };
            interface.post(local.eq, event, &mut port);
        }
        if local.options & md::EVENT_CT_SEND != 0 {
            interface.count(local.ct, fail, bytes(local, length), &mut port);
        }
    }

    /// ACK.
    #[allow(clippy::too_many_arguments)]
    fn acknowledged(
        &mut self,
        now: SimTime,
        process: u32,
        local: &LocalBuffer,
        ack: AckRequest,
        operation: &Operation,
        result: Result<Landing, FailType>,
        out: &mut impl Out,
    ) {
        if ack == AckRequest::None {
            return;
        }
        let (interface, mut port) = interface!(self, now, process, out);
        let fail = result.err().unwrap_or(FailType::Ok);
        if ack == AckRequest::Full && !quiet(local, fail) {
            interface.post(local.eq, initiator_event(EventKind::Ack, local, operation, result), &mut port);
        }
        if local.options & md::EVENT_CT_ACK != 0 {
            interface.count(local.ct, fail, bytes(local, result.map_or(0, |landing| landing.mlength)), &mut port);
        }
    }

    /// REPLY.
    fn replied(
        &mut self,
        now: SimTime,
        process: u32,
        local: &LocalBuffer,
        operation: &Operation,
        result: Result<Landing, FailType>,
        out: &mut impl Out,
    ) {
        let (interface, mut port) = interface!(self, now, process, out);
        let fail = result.err().unwrap_or(FailType::Ok);
        if !quiet(local, fail) {
            interface.post(local.eq, initiator_event(EventKind::Reply, local, operation, result), &mut port);
        }
        if local.options & md::EVENT_CT_REPLY != 0 {
            interface.count(local.ct, fail, bytes(local, result.map_or(0, |landing| landing.mlength)), &mut port);
        }
    }

    // ---- The target --------------------------------------------------------------------------

    /// The header of a request is in the target's NIC, or `again` after a refusal: matching.
    fn matching(&mut self, now: SimTime, message: u32, again: bool, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let (interface, mut port) = interface!(self, now, this.target, out);
        let (arrival, visited) = match again {
            false => interface.arrive(&this.operation, &mut port),
            true => interface.match_lists(&this.operation, &mut port),
        };
        let ready = port.node.stages.matched(now, visited, &self.config);
        if matches!(arrival, Arrival::Refused(_)) {
            port.node.statistics.drops += 1;
        }
        let this = &mut self.messages[message as usize];
        this.ready = ready;
        this.phase = Phase::Request;
        match arrival {
            Arrival::Matched(landing) => this.result = Ok(landing),
            Arrival::Refused(fail) => this.result = Err(fail),
            Arrival::Hold => {
                this.phase = Phase::Held;
                if !again {
                    interface.hold(this.operation.pt, this.operation.from, message);
                }
            }
        }
    }

    /// All of a request is in the target's NIC, and matched.
    fn land(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = &self.messages[message as usize];
        let mut at = now.max(this.ready);
        if this.operation.kind == Kind::Put && this.mlength() > 0 {
            at += self.config.dma_latency;
        }
        self.landed_at(now, at, message, Role::Request, out);
    }

    fn landed_at(&mut self, now: SimTime, at: SimTime, message: u32, role: Role, out: &mut impl Out) {
        if at > now {
            let this = &self.messages[message as usize];
            let process = if role == Role::Request { this.target } else { this.operation.from };
            let node = self.processes[process as usize].nid - 1;
            out.schedule(at, node, Due::Landed(message, role).encode());
        } else {
            self.landed(now, message, role, out);
        }
    }

    /// The data of a request or of a response to a get are in memory.
    fn landed(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let from = this.operation.from;
        if role == Role::Response {
            if let Ok(landing) = this.result
                && landing.mlength > 0
            {
                self.deliver(message, from, this.local.address, landing.mlength, out);
            }
            self.replied(now, from, &this.local, &this.operation, this.result, out);
            self.finish(message, out);
            return;
        }
        if this.operation.kind == Kind::Get {
            self.messages[message as usize].phase = Phase::Response;
            self.transmit(now, message, Role::Response, out);
            return;
        }
        let mut acknowledge = this.ack != AckRequest::None;
        if let Ok(landing) = this.result {
            if landing.mlength > 0 {
                self.deliver(message, this.target, landing.start, landing.mlength, out);
            }
            let (interface, mut port) = interface!(self, now, this.target, out);
            acknowledge &= interface.acknowledges(&landing);
            interface.complete(&this.operation, &landing, &mut port);
            self.schedule_retries(now, this.target, out);
        }
        if !acknowledge {
            self.finish(message, out);
            return;
        }
        self.release(message, out);
        self.messages[message as usize].phase = Phase::Response;
        let node = self.processes[this.target as usize].nid - 1;
        self.nodes[node as usize].statistics.acks += 1;
        self.transmit(now, message, Role::Response, out);
    }

    fn deliver(&mut self, message: u32, process: u32, address: u64, length: u64, out: &mut impl Out) {
        let node = self.processes[process as usize].nid - 1;
        self.nodes[node as usize].statistics.bytes_received += length;
        out.deliver(MessageId(message), Process(process), address, length);
    }

    /// The target has given its data to a get.
    fn got(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        if let Ok(landing) = this.result {
            let (interface, mut port) = interface!(self, now, this.target, out);
            interface.complete(&this.operation, &landing, &mut port);
            self.schedule_retries(now, this.target, out);
        }
    }

    /// What `process` holds is repeated a while after there is a place for it.
    fn schedule_retries(&mut self, now: SimTime, process: u32, out: &mut impl Out) {
        let node = self.processes[process as usize].nid - 1;
        let at = now + self.config.retry_interval;
        self.interfaces[process as usize].take_relieved(|pt| out.schedule(at, node, Due::Retry(process, pt).encode()));
    }

    /// All initiators repeat what table entry `pt` of `process` refused, in order of arrival; an
    /// initiator that is refused again repeats nothing more.
    fn retry(&mut self, now: SimTime, process: u32, pt: u32, out: &mut impl Out) {
        let mut firsts = std::mem::take(&mut self.firsts);
        self.interfaces[process as usize].begin_retry(pt, &mut firsts);
        let node = self.processes[process as usize].nid - 1;
        while let Some(Reverse((_, from))) = firsts.pop() {
            let Some(message) = self.interfaces[process as usize].first_held(pt, from) else { continue };
            self.matching(now, message, true, out);
            if self.messages[message as usize].phase == Phase::Held {
                continue;
            }
            if let Some(next) = self.interfaces[process as usize].take_held(pt, from) {
                firsts.push(Reverse((next, from)));
            }
            let this = &self.messages[message as usize];
            self.nodes[node as usize].statistics.retries += u64::from(this.result.is_ok());
            if this.tail {
                self.land(now, message, out);
            }
        }
        self.firsts = firsts;
    }

    /// Messages that were held are refused for good.
    fn refuse(&mut self, now: SimTime, messages: &mut Vec<u32>, fail: FailType, out: &mut impl Out) {
        for message in messages.drain(..) {
            let this = &mut self.messages[message as usize];
            this.phase = Phase::Request;
            this.result = Err(fail);
            let (tail, target) = (this.tail, this.target);
            let node = self.processes[target as usize].nid - 1;
            self.nodes[node as usize].statistics.drops += 1;
            if tail {
                self.land(now, message, out);
            }
        }
    }

    // ---- Events and notices -------------------------------------------------------------------

    /// A scheduled event is due.
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        let Some(due) = Due::decode(event) else { return };
        match due {
            Due::Command(node) => {
                if let Some((process, command)) = self.nodes.get_mut(node as usize).and_then(|node| node.commands.pop_front()) {
                    self.execute(now, process, command, out);
                }
            }
            Due::Write(node) => {
                if let Some((process, notice)) = self.nodes.get_mut(node as usize).and_then(|node| node.writes.pop_front()) {
                    out.notify(Process(process), notice);
                }
            }
            Due::Transmit(message, role) => self.read(now, message, role, out),
            Due::Start(message, role) => self.start(now, message, role, out),
            Due::Landed(message, role) => self.landed(now, message, role, out),
            Due::Retry(process, pt) => self.retry(now, process, pt, out),
        }
    }

    /// The network reports.
    pub fn network(&mut self, now: SimTime, notice: NetworkNotice, out: &mut impl Out) {
        let (NetworkNotice::SourceDone(id) | NetworkNotice::HeadArrived(id) | NetworkNotice::TailArrived(id)) = notice;
        let (message, role) = (id.0 / 2, if id.0 % 2 == 0 { Role::Request } else { Role::Response });
        let Some(this) = self.messages.get_mut(message as usize) else { return };
        if matches!(notice, NetworkNotice::SourceDone(_)) {
            this.unread = this.unread.saturating_sub(1);
            if this.phase == Phase::Over && this.unread == 0 {
                this.phase = Phase::Free;
                self.free.push(message);
                return;
            }
        }
        let expected = match role {
            Role::Request => matches!(this.phase, Phase::Request | Phase::Held),
            Role::Response => this.phase == Phase::Response,
        };
        if !expected {
            return; // a SourceDone that came after TailArrived, which did its work
        }
        match (notice, role) {
            (NetworkNotice::SourceDone(_), _) => self.source_done(now, message, role, out),
            (NetworkNotice::HeadArrived(_), Role::Request) => self.head(now, message, out),
            (NetworkNotice::HeadArrived(_), Role::Response) => {}
            (NetworkNotice::TailArrived(_), Role::Request) => {
                self.head(now, message, out);
                self.source_done(now, message, role, out);
                let this = &mut self.messages[message as usize];
                if std::mem::replace(&mut this.tail, true) {
                    return;
                }
                let (phase, from) = (this.phase, this.operation.from);
                let node = self.processes[from as usize].nid - 1;
                self.arrived(now, node, out);
                if phase == Phase::Request {
                    self.land(now, message, out);
                }
            }
            (NetworkNotice::TailArrived(_), Role::Response) => {
                self.source_done(now, message, role, out);
                self.tail_of_response(now, message, out);
            }
        }
    }

    fn head(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        if !std::mem::replace(&mut self.messages[message as usize].head, true) {
            self.matching(now, message, false, out);
        }
    }

    fn tail_of_response(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        if this.operation.kind == Kind::Get {
            let write = if this.mlength() > 0 { self.config.dma_latency } else { SimTime::ZERO };
            self.landed_at(now, now + write, message, Role::Response, out);
        } else {
            self.acknowledged(now, this.operation.from, &this.local, this.ack, &this.operation, this.result, out);
            self.finish(message, out);
        }
    }
}

/// `EVENT_SUCCESS_DISABLE` of an MD: only failures raise events.
fn quiet(local: &LocalBuffer, fail: FailType) -> bool {
    fail == FailType::Ok && local.options & md::EVENT_SUCCESS_DISABLE != 0
}

/// `EVENT_CT_BYTES` of an MD: what a success counts. SEND counts what was sent, ACK and REPLY what
/// the target accepted.
fn bytes(local: &LocalBuffer, length: u64) -> Option<u64> {
    (local.options & md::EVENT_CT_BYTES != 0).then_some(length)
}

fn initiator_event(kind: EventKind, local: &LocalBuffer, operation: &Operation, result: Result<Landing, FailType>) -> FullEvent {
    let (fail, list, mlength, remote_offset) = match result {
        Ok(landing) => (FailType::Ok, landing.list, landing.mlength, landing.offset),
        Err(fail) => (fail, List::Priority, 0, operation.offset),
    };
    FullEvent { fail, list, mlength, remote_offset, rlength: operation.rlength, user_ptr: local.user_ptr, ..blank(kind) }
}

fn check_length(address: u64, length: u64) -> Result<(), CommandError> {
    if length > MAX_LENGTH {
        return Err(CommandError::TooLong(length));
    }
    if address.checked_add(length).is_none() {
        return Err(CommandError::PastEnd { address, length });
    }
    Ok(())
}

fn check_buffer(interface: &Interface, local: &LocalBuffer, length: u64) -> Result<(), CommandError> {
    check_length(local.address, length)?;
    if local.options & md::IOVEC != 0 {
        return Err(CommandError::Iovec);
    }
    if local.eq != EqId::NONE {
        interface.known_eq(local.eq)?;
    }
    if local.ct != CtId::NONE {
        interface.known_ct(local.ct)?;
    }
    Ok(())
}

fn check_entry(interface: &Interface, pt: u32, me: &MatchEntry) -> Result<(), CommandError> {
    interface.known_pt(pt)?;
    if me.options & me::IOVEC != 0 {
        return Err(CommandError::Iovec);
    }
    if me.ct != CtId::NONE {
        interface.known_ct(me.ct)?;
    }
    Ok(())
}
