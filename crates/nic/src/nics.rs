use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use narrows_fabric::Notice as NetworkNotice;
use narrows_portals::{
    AckRequest, Atomic, Command, CtId, EqId, FailType, INTERFACES, IOVEC_BYTES, Limits, List, LocalBuffer, MatchEntry, NO_TICKET, Notice,
    ProcessId, Register, RemoteTarget, ReplyCode, md, me,
};
use narrows_units::{Bytes, SimTime};

use self::initiator::Request;
use crate::config::{NicConfig, PcieDetail};
use crate::counters::By;
use crate::error::{CommandError, Refusal};
use crate::list::WordMap;
use crate::message::{AtomicPart, Due, HeldMessage, Message, Phase, Role};
use crate::out::{Combine, Event, Out, Process};
use crate::pipeline::{Durations, Stages};
use crate::portal::{Interface, Kind, MAX_PT_INDEX, Operation, Sink, Status, reply};
use crate::statistics::Statistics;

/// One NIC: its stages and queues.
#[derive(Debug, Default)]
struct Node {
    stages: Stages,
    commands: VecDeque<(u32, Command)>,
    writes: VecDeque<(u32, Notice)>,
    /// Requests that are not acknowledged end to end.
    outstanding: u32,
    /// Triggered operations whose time has come.
    fired: VecDeque<(u32, Command)>,
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
    /// When the last put to each process was or will be in memory.
    landed: Vec<SimTime>,
    /// When the last ordered write of a pair of processes, (initiator, target), was or will be in memory.
    written: WordMap<(u32, u32), SimTime>,
    messages: Vec<Message>,
    free: Vec<u32>,
    /// Of those messages that are atomics.
    atomics: WordMap<u32, AtomicPart>,
    /// User of each process.
    users: Vec<u32>,
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

    fn fire(&mut self, command: Command) {
        self.node.statistics.triggered += 1;
        let at = self.node.stages.triggered.end(self.now, self.config.trigger_time);
        self.node.fired.push_back((self.process, command));
        self.out.schedule(at, self.index, Due::Fired(self.index).encode());
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

mod initiator;
mod multicast;
mod target;

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
            interfaces: processes.iter().map(|_| Interface::new(config.limits.counted())).collect(),
            starting: vec![Vec::new(); processes.len()],
            landed: vec![SimTime::ZERO; processes.len()],
            written: WordMap::default(),
            messages: Vec::new(),
            free: Vec::new(),
            atomics: WordMap::default(),
            users: vec![0; processes.len()],
            refusals: Vec::new(),
            scratch: Vec::new(),
            firsts: BinaryHeap::new(),
            config,
        }
    }

    /// The users of the processes, which entries may ask for ([`narrows_portals::MatchEntry::uid`]); 0 until then.
    pub fn set_users(&mut self, user: impl Fn(Process) -> u32) {
        for (process, place) in self.users.iter_mut().enumerate() {
            *place = user(Process(process as u32));
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

    /// The status registers of a process, all its network interfaces together.
    pub fn status(&self, process: Process) -> Status {
        let mut sum = Status::default();
        if let Some(interface) = self.interfaces.get(process.0 as usize) {
            for index in 0..INTERFACES {
                let status = interface.status(index);
                sum.drop_count += status.drop_count;
                sum.permission_violations += status.permission_violations;
                sum.operation_violations += status.operation_violations;
            }
        }
        sum
    }

    /// The messages that are held, by target, table entry and initiator: for reports.
    pub fn held_messages(&self) -> impl Iterator<Item = HeldMessage> {
        self.interfaces.iter().flat_map(Interface::held_messages).map(|message| {
            let this = &self.messages[message as usize];
            let operation = &this.operation;
            HeldMessage {
                from: Process(operation.from),
                to: Process(this.target),
                put: operation.kind != Kind::Get,
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

    /// Gives back the room in the queues of a process' NIC that is not in use. A machine of many idle ranks keeps what their
    /// set-up took otherwise.
    pub fn trim(&mut self, process: Process) {
        if let Some(node) = self.processes.get(process.0 as usize).and_then(|place| self.nodes.get_mut(place.nid as usize - 1)) {
            node.commands.shrink_to_fit();
            node.writes.shrink_to_fit();
        }
    }

    /// Checks a command and sends it over PCIe: to which node, and when it is there.
    fn admit(&mut self, written: SimTime, process: Process, command: &Command) -> Result<(u32, SimTime), CommandError> {
        let Some(place) = self.processes.get(process.0 as usize) else { return Err(CommandError::NoProcess(process)) };
        let index = place.nid - 1;
        self.check(process.0, command)?;
        let node = &mut self.nodes[index as usize];
        let carried = match command {
            Command::Put { length, inline: Some(_), .. } => *length,
            Command::Atomic(atomic) if atomic.inline.is_some() => atomic.length,
            _ => 0,
        };
        let behind = if carried <= self.config.pio_limit.get() { carried.saturating_sub(self.config.inline_limit.get()) } else { 0 };
        let extra = match self.config.pcie_detail {
            PcieDetail::Full => self.config.pcie_rate.time_for(Bytes(behind)),
            PcieDetail::Latency => SimTime::ZERO,
        };
        node.statistics.commands += 1;
        Ok((index, node.stages.command(written, extra, &self.config, &self.durations)))
    }

    /// Checks a command, and declares what it allocates.
    fn check(&mut self, process: u32, command: &Command) -> Result<(), CommandError> {
        let interface = &mut self.interfaces[process as usize];
        match command {
            Command::PtAlloc { pt, options, eq } => interface.declared.declare_pt(*pt, *options, *eq),
            Command::PtFree { pt, .. } => interface.declared.undeclare_pt(*pt),
            Command::PtEnable { pt } | Command::PtDisable { pt, .. } => interface.declared.known_pt(*pt),
            Command::EqAlloc { eq, .. } => interface.declared.declare_eq(*eq),
            Command::EqFree { eq } => interface.declared.undeclare_eq(*eq),
            Command::EqRelease { eq, .. } => interface.declared.known_eq(*eq),
            Command::CtAlloc { ct } => interface.declared.declare_ct(*ct),
            Command::CtFree { ct } => interface.declared.undeclare_ct(*ct),
            Command::CtSet { ct, .. } | Command::CtIncrement { ct, .. } | Command::CtCancel { ct } => interface.declared.known_ct(*ct),
            Command::Triggered { interface: index, .. } if *index >= INTERFACES => Err(CommandError::InterfaceOutOfRange(*index)),
            Command::Triggered { interface: index, trigger, command, .. } => {
                interface.declared.known_ct(*trigger)?;
                if !triggerable(command) {
                    return Err(CommandError::NotTriggerable);
                }
                if interface.counters.triggered(*index) >= self.config.limits.max_triggered_ops {
                    return Err(CommandError::NoTriggered(self.config.limits.max_triggered_ops));
                }
                self.check(process, command)?;
                self.interfaces[process as usize].counters.declare(*index);
                Ok(())
            }
            Command::Query { register: Register::PriorityEntries | Register::OverflowEntries, of, .. } => {
                if *of <= MAX_PT_INDEX {
                    Ok(())
                } else {
                    Err(CommandError::PtOutOfRange(*of))
                }
            }
            Command::Query { of: index, .. } | Command::SetLimits { interface: index, .. } if *index >= INTERFACES => {
                Err(CommandError::InterfaceOutOfRange(*index))
            }
            Command::SetLimits { interface: index, limits } => {
                interface.declared.limit(*index, at_most(*limits, self.config.limits.counted()));
                Ok(())
            }
            Command::Query { .. } | Command::MeUnlink { .. } => Ok(()),
            Command::MeAppend { entry, pt, list, me } => {
                check_entry(interface, *pt, me)?;
                interface.declare_entry(*entry, *pt, *list)
            }
            Command::MeSearch { pt, me, .. } => check_entry(interface, *pt, me),
            Command::Put { local, length, inline, .. } => {
                check_inline(inline.as_deref(), *length)?;
                check_buffer(interface, local, *length)
            }
            Command::Get { local, length, .. } => check_buffer(interface, local, *length),
            Command::Atomic(atomic) => {
                check_inline(atomic.inline.as_deref(), atomic.length)?;
                check_buffer(interface, &atomic.local, atomic.length)?;
                if let Some(fetched) = &atomic.fetched {
                    check_buffer(interface, fetched, atomic.length)?;
                }
                let (operation, datatype) = (atomic.operation, atomic.datatype);
                let one = atomic.length == datatype.size() || !operation.has_operand();
                if !operation.accepts(datatype) || atomic.length % datatype.size() != 0 || !one {
                    return Err(CommandError::Atomic { operation, datatype, length: atomic.length });
                }
                Ok(())
            }
        }
    }

    /// Does a command that is in the NIC, because the process gave it or because its time has come.
    fn execute(&mut self, now: SimTime, process: u32, command: Command, by: By, out: &mut impl Out) {
        let mut refused = std::mem::take(&mut self.scratch);
        let (interface, mut port) = interface!(self, now, process, out);
        let triggered = by == By::Nic;
        match command {
            Command::PtAlloc { pt, options, eq } => {
                if let Err(error) = interface.pt_alloc(pt, options, eq) {
                    self.refusals.push(Refusal { process: Process(process), error });
                }
            }
            Command::PtFree { pt, ticket } => {
                let freed = interface.pt_free(pt, ticket == NO_TICKET, &mut refused);
                reply(ticket, if freed.is_ok() { ReplyCode::Ok } else { ReplyCode::InUse }, &mut port);
                self.refuse(now, &mut refused, FailType::Dropped, out);
            }
            Command::PtEnable { pt } => interface.pt_enable(pt),
            Command::PtDisable { pt, ticket } => {
                interface.pt_disable(pt, ticket, &mut refused, &mut port);
                self.refuse(now, &mut refused, FailType::PtDisabled, out);
            }
            Command::EqAlloc { eq, count } => interface.eq_alloc(eq, count),
            Command::EqFree { eq } => interface.eq_free(eq),
            Command::EqRelease { eq, count } => interface.eq_release(eq, count),
            Command::CtAlloc { ct } => interface.counters.alloc(ct),
            Command::CtFree { ct } => {
                let forgotten = interface.counters.free(ct);
                interface.forget(forgotten);
            }
            Command::CtCancel { ct } => {
                let forgotten = interface.counters.cancel(ct);
                interface.forget(forgotten);
            }
            Command::CtSet { ct, success, failure } => interface.counters.set(ct, success, failure, by, &mut port),
            Command::CtIncrement { ct, success, failure } => interface.counters.increment(ct, success, failure, by, &mut port),
            Command::Triggered { interface: index, trigger, threshold, command } => {
                let forgotten = interface.counters.wait(index, trigger, threshold, *command, &mut port);
                interface.forget(forgotten);
            }
            Command::SetLimits { interface: index, limits } => {
                interface.limit_headers(index, at_most(limits, self.config.limits.counted()).unexpected_headers);
            }
            Command::Query { register, of, ticket } => {
                let status = interface.status(of);
                let value = match register {
                    Register::DropCount => status.drop_count,
                    Register::PermissionViolations => status.permission_violations,
                    Register::OperationViolations => status.operation_violations,
                    Register::Entries => u64::from(interface.declared.entries(of)),
                    Register::PriorityEntries => u64::from(interface.declared.list_size(of, List::Priority)),
                    Register::OverflowEntries => u64::from(interface.declared.list_size(of, List::Overflow)),
                    Register::TriggeredOperations => u64::from(interface.counters.triggered(of)),
                };
                port.notice(Notice::Reply { ticket, code: ReplyCode::Ok, value });
            }
            Command::MeAppend { entry, pt, list, me } => {
                let visited = interface.me_append(entry, pt, list, &me, &mut port);
                port.node.stages.matched(now, visited, &self.config);
            }
            Command::MeUnlink { entry, ticket } => interface.me_unlink(entry, ticket, &mut port),
            Command::MeSearch { pt, operation, me } => {
                let visited = interface.me_search(pt, operation, &me, &mut port);
                if me.options & me::EVENT_CT_OVERFLOW != 0 {
                    // The process may want to know that the search is in the value.
                    interface.counters.increment(me.ct, 0, 0, by, &mut port);
                }
                port.node.stages.matched(now, visited, &self.config);
            }
            Command::Put { local, length, inline, ack, target, hdr_data } => {
                let operation = self.operation(Kind::Put, process, length, &target, hdr_data);
                let request = Request { operation, to: target.process, local, inline, ack, atomic: None, triggered };
                self.request(now, request, out);
            }
            Command::Get { local, length, target } => {
                let operation = self.operation(Kind::Get, process, length, &target, 0);
                let request =
                    Request { operation, to: target.process, local, inline: None, ack: AckRequest::None, atomic: None, triggered };
                self.request(now, request, out);
            }
            Command::Atomic(atomic) => {
                let Atomic { local, fetched, length, inline, ack, target, hdr_data, operation: what, datatype, operand } = *atomic;
                let kind = if fetched.is_some() { Kind::FetchAtomic } else { Kind::Atomic };
                let mut operation = self.operation(kind, process, length, &target, hdr_data);
                operation.atomic = Some((what, datatype));
                let combine = Combine { operation: what, datatype, operand, fetch: fetched.is_some() };
                let atomic = Some(AtomicPart { combine, fetched });
                self.request(now, Request { operation, to: target.process, local, inline, ack, atomic, triggered }, out);
            }
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
            uid: self.users[process as usize],
            pt: target.pt,
            match_bits: target.match_bits,
            offset: target.offset,
            rlength: length,
            hdr_data,
            atomic: None,
        }
    }

    fn process_at(&self, place: ProcessId) -> Option<u32> {
        let node = self.nodes.get(place.nid.checked_sub(1)? as usize)?;
        let index = node.processes.binary_search_by_key(&place.pid, |&(pid, _)| pid).ok()?;
        Some(node.processes[index].1)
    }

    // ---- Events and notices -------------------------------------------------------------------

    /// A scheduled event is due.
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        let Some(due) = Due::decode(event) else { return };
        match due {
            Due::Command(node) => {
                if let Some((process, command)) = self.nodes.get_mut(node as usize).and_then(|node| node.commands.pop_front()) {
                    self.execute(now, process, command, By::Process, out);
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
            Due::Fired(node) => {
                if let Some((process, command)) = self.nodes.get_mut(node as usize).and_then(|node| node.fired.pop_front()) {
                    self.execute(now, process, command, By::Nic, out);
                }
            }
            Due::QuickAck(message) => self.acknowledge(now, message, out),
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
}

fn at_most(limits: Limits, offered: Limits) -> Limits {
    Limits {
        entries: limits.entries.min(offered.entries),
        unexpected_headers: limits.unexpected_headers.min(offered.unexpected_headers),
        list_size: limits.list_size.min(offered.list_size),
    }
}

/// What a counting event may release (section 3.16): operations and changes of counting events, and list
/// operations as BXI has them.
fn triggerable(command: &Command) -> bool {
    match command {
        Command::Put { inline, .. } => inline.is_none(),
        Command::Atomic(atomic) => atomic.inline.is_none(),
        Command::Get { .. } | Command::CtSet { .. } | Command::CtIncrement { .. } | Command::MeAppend { .. } => true,
        Command::MeUnlink { ticket, .. } => *ticket == NO_TICKET,
        _ => false,
    }
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

fn check_inline(inline: Option<&[u8]>, length: u64) -> Result<(), CommandError> {
    match inline {
        Some(bytes) if bytes.len() as u64 != length => Err(CommandError::InlineLength { length, carried: bytes.len() as u64 }),
        _ => Ok(()),
    }
}

/// Segments are where the process says; their own array must not pass the end either.
fn check_segments(address: u64, segments: u32, asked: bool) -> Result<(), CommandError> {
    if asked != (segments > 0) {
        return Err(CommandError::Iovec);
    }
    check_length(address, u64::from(segments) * IOVEC_BYTES)
}

fn check_buffer(interface: &Interface, local: &LocalBuffer, length: u64) -> Result<(), CommandError> {
    check_length(if local.segments == 0 { local.address } else { local.offset }, length)?;
    check_segments(local.address, local.segments, local.options & md::IOVEC != 0)?;
    if local.eq != EqId::NONE {
        interface.declared.known_eq(local.eq)?;
    }
    if local.ct != CtId::NONE {
        interface.declared.known_ct(local.ct)?;
    }
    Ok(())
}

fn check_entry(interface: &Interface, pt: u32, me: &MatchEntry) -> Result<(), CommandError> {
    interface.declared.known_pt(pt)?;
    check_segments(me.start, me.segments, me.options & me::IOVEC != 0)?;
    if me.ct != CtId::NONE {
        interface.declared.known_ct(me.ct)?;
    }
    Ok(())
}
