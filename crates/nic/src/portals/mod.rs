//! The Portals 4 NIC of one node: commands of its processes and headers from the network in, actions out. In
//! `initiator` and `target` the way of a message through the stages, in `message` its two halves and what travels
//! between them.

mod bridge;
mod handlers;
mod initiator;
mod message;
mod multicast;
mod offload;
mod target;

pub use message::{About, Ends, Header, HeldMessage, Received, Request, Response};

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use narrows_engine::{Slab, WordMap, prefetch, prefetch_all, take_first};
use narrows_fabric::seam::{Acknowledge, PacketIn, Verdict};
use narrows_portals::{
    AckRequest, Atomic, Command, CtId, EqId, FailType, INTERFACES, IOVEC_BYTES, Limits, List, LocalBuffer, MatchEntry, NO_TICKET, Notice,
    Place, ProcessId, Register, RemoteTarget, ReplyCode, md, me,
};
use narrows_units::{Bytes, PortId, Rail, SimTime};

use self::initiator::Order;
use self::message::{AtomicPart, Due, Incoming, Outgoing, Role};
use crate::config::{NicConfig, PcieDetail, Transmit};
use crate::error::Refusal;
use crate::kind::{Directory, Nic, PortalsNic};
use crate::out::{Combine, Event, Out, PayloadId};
use crate::pipeline::{Durations, Stages};
use crate::statistics::Statistics;
use narrows_matching::By;
use narrows_matching::CommandError;
use narrows_matching::{Interface, MAX_LENGTH, MAX_PT_INDEX, Operation, RequestKind, Sink, Status, reply};
use narrows_portals::Process;

/// Virtual networks of the fabric: compute request and compute response (facts.md 4.3).
const COMPUTE_REQUEST: u8 = 0;
const COMPUTE_RESPONSE: u8 = 1;

/// The stages and queues that all processes of the node share.
#[derive(Debug, Default)]
struct Engine {
    stages: Stages,
    commands: VecDeque<(u32, Command)>,
    writes: VecDeque<(Process, Notice)>,
    /// Data of puts on their way over PCIe, and how many of them were written before their time.
    data: VecDeque<Written>,
    hurried: u32,
    /// Triggered operations whose time has come.
    fired: VecDeque<(u32, Command)>,
    /// Requests that the target's end-to-end layer has not acknowledged.
    outstanding: u32,
    /// Of these, to a node, and from a process of this node to another one; only where that is limited.
    to_node: WordMap<u32, u32>,
    to_process: WordMap<(ProcessId, u32), u32>,
    /// Requests that found no place.
    waiting: VecDeque<u32>,
    /// With [`Transmit::OneByOne`]: messages that wait for a pipeline, and which pipelines have one.
    queued: [VecDeque<u32>; 2],
    sending: [bool; 2],
    /// By pipeline: messages that it takes later.
    transmitting: [u32; 2],
    statistics: Statistics,
}

/// Data on their way into memory.
#[derive(Clone, Copy, Debug)]
struct Written {
    payload: PayloadId,
    process: Process,
    place: Place,
    length: u64,
}

/// A process of the node.
#[derive(Debug)]
struct Local {
    place: ProcessId,
    process: Process,
    user: u32,
    /// Requests that start later because of a DMA read, until they do. Keeps what one process sends to another in order
    /// although only some of it is read by DMA.
    starting: Vec<Starting>,
    /// By initiator ([`word`]): when its last ordered write was or will be in memory.
    written: WordMap<u64, SimTime>,
}

/// A process as a word.
fn word(process: ProcessId) -> u64 {
    u64::from(process.nid) << 32 | u64::from(process.pid)
}

/// A request whose start has been scheduled.
#[derive(Clone, Copy, Debug)]
struct Starting {
    target: ProcessId,
    at: SimTime,
    /// The slot of the initiator's half.
    message: u32,
}

/// What all NICs of a kind have in common.
#[derive(Debug)]
struct Common {
    config: NicConfig,
    durations: Durations,
    directory: Arc<Directory>,
}

/// See the module's page, and [`NicConfig`] for the stages of each operation.
#[derive(Debug)]
pub struct Portals {
    common: Arc<Common>,
    port: PortId,
    rail: Rail,
    engine: Engine,
    /// Sorted by pid.
    locals: Vec<Local>,
    /// Of each of them.
    interfaces: Vec<Interface>,
    outgoing: Slab<Outgoing>,
    /// Numbers them.
    serial: u32,
    incoming: Slab<Incoming>,
    /// Of outgoing messages those that are atomics.
    atomics: WordMap<u32, AtomicPart>,
    /// What passes gateways.
    bridge: bridge::Half,
    /// What runs on it, where something does.
    handling: Option<Box<handlers::Handling>>,
    refusals: Vec<Refusal>,
    /// Reused: what a command refuses.
    scratch: Vec<u32>,
    /// Reused: first messages of the initiators that repeat, oldest first.
    firsts: BinaryHeap<Reverse<(u64, ProcessId)>>,
}

/// Writes notices of one process: PCIe, then the host's memory.
struct Port<'a, O: Out<Portals>> {
    now: SimTime,
    process: u32,
    owner: Process,
    port: PortId,
    engine: &'a mut Engine,
    common: &'a Common,
    out: &'a mut O,
}

impl<O: Out<Portals>> Sink for Port<'_, O> {
    fn notice(&mut self, notice: Notice) {
        let busy = match notice {
            Notice::Event { .. } => {
                self.engine.statistics.events += 1;
                self.common.durations.event
            }
            Notice::Count { .. } => {
                self.engine.statistics.counts += 1;
                self.common.durations.count
            }
            Notice::Foreign(_) => {
                self.engine.statistics.events += 1;
                self.common.durations.event
            }
            Notice::Reply { .. } => self.common.durations.count,
        };
        let at = self.engine.stages.write(self.now, busy, &self.common.config);
        self.engine.writes.push_back((self.owner, notice));
        self.out.schedule(at, self.port, Due::Write.encode());
    }

    fn fire(&mut self, command: Command) {
        self.engine.statistics.triggered += 1;
        let at = self.engine.stages.triggered.end(self.now, self.common.config.trigger_time);
        self.engine.fired.push_back((self.process, command));
        self.out.schedule(at, self.port, Due::Fired.encode());
    }
}

/// The interface of `process` and the port through which it writes.
macro_rules! interface {
    ($self:ident, $now:expr, $process:expr, $out:expr) => {{
        let process: u32 = $process;
        (
            &mut $self.interfaces[process as usize],
            Port {
                now: $now,
                process,
                owner: $self.locals[process as usize].process,
                port: $self.port,
                engine: &mut $self.engine,
                common: &$self.common,
                out: &mut *$out,
            },
        )
    }};
}
use interface;

impl Written {
    fn deliver(&self, out: &mut impl Out<Portals>) {
        let written = out.deliver(self.payload, self.process, self.place, self.length);
        debug_assert!(written.is_ok(), "what may fail is written at once");
        out.release(self.payload);
    }
}

impl Portals {
    /// The NICs at these ports of a machine.
    pub fn of(config: NicConfig, directory: Arc<Directory>, ports: &[PortId]) -> Vec<Portals> {
        let durations = Durations::new(&config);
        let common = Arc::new(Common { config, durations, directory });
        ports.iter().map(|&port| Portals::new(&common, port)).collect()
    }

    fn new(common: &Arc<Common>, port: PortId) -> Portals {
        let directory = &common.directory;
        let (node, rail) = directory.of_port(port);
        let local = |&(pid, process): &(u32, Process)| {
            let place = ProcessId::on(node, pid);
            Local { place, process, user: 0, starting: Vec::new(), written: WordMap::default() }
        };
        let locals: Vec<Local> = directory.processes_of(node).iter().map(local).collect();
        Portals {
            port,
            rail,
            engine: Engine::default(),
            interfaces: locals.iter().map(|_| Interface::new(common.config.limits.counted())).collect(),
            locals,
            outgoing: Slab::default(),
            serial: 0,
            incoming: Slab::default(),
            atomics: WordMap::default(),
            bridge: bridge::Half::default(),
            handling: None,
            refusals: Vec::new(),
            scratch: Vec::new(),
            firsts: BinaryHeap::new(),
            common: Arc::clone(common),
        }
    }

    /// See [`crate::Nics::prefetch`]: from step 1 on, when the NIC itself is near.
    pub(crate) fn prefetch(&self, step: u32) -> Option<Process> {
        let (local, interface) = (self.locals.first()?, self.interfaces.first()?);
        if step > 1 {
            interface.prefetch(step - 2);
            self.outgoing.prefetch(step - 1);
            self.incoming.prefetch(step - 1);
            return Some(local.process);
        }
        prefetch(local);
        prefetch_all(interface);
        self.outgoing.prefetch(0);
        self.incoming.prefetch(0);
        self.engine.commands.front().into_iter().for_each(prefetch_all);
        self.engine.writes.front().into_iter().for_each(prefetch_all);
        None
    }

    /// The timings.
    pub fn config(&self) -> &NicConfig {
        &self.common.config
    }

    /// The users of the processes, which entries may ask for ([`narrows_portals::MatchEntry::uid`]).
    pub fn set_users(&mut self, user: impl Fn(Process) -> u32) {
        for local in &mut self.locals {
            local.user = user(local.process);
        }
    }

    /// Messages that a portal table entry with RETRY refuses for now.
    pub fn held(&self) -> u64 {
        self.interfaces.iter().map(Interface::held).sum()
    }

    /// Messages that `process` refuses for now.
    pub fn held_by(&self, process: Process) -> u64 {
        self.local(process).map_or(0, |local| self.interfaces[local as usize].held())
    }

    /// Halves of messages that are neither complete nor held.
    pub fn in_flight(&self) -> u64 {
        let outgoing = self.outgoing.iter().filter(|this| !this.is_held()).count() as u64;
        outgoing + self.incoming.iter().count() as u64 - self.held()
    }

    /// The status registers of a process, all its network interfaces together.
    pub fn status(&self, process: Process) -> Status {
        let mut sum = Status::default();
        if let Some(local) = self.local(process) {
            for index in 0..INTERFACES {
                let status = self.interfaces[local as usize].status(index);
                sum.drop_count += status.drop_count;
                sum.permission_violations += status.permission_violations;
                sum.operation_violations += status.operation_violations;
            }
        }
        sum
    }

    /// The messages that are held, by target, table entry and initiator: for reports.
    pub fn held_messages(&self) -> impl Iterator<Item = HeldMessage> {
        let held = |(interface, local): (&'_ Interface, &'_ Local)| {
            let to = local.process;
            interface.held_messages().map(move |message| (to, message)).collect::<Vec<_>>()
        };
        self.interfaces.iter().zip(&self.locals).flat_map(held).map(|(to, message)| {
            let operation = &self.incoming.at(message).request.operation;
            HeldMessage {
                from: self.common.directory.process_at(operation.initiator).unwrap_or(Process(u32::MAX)),
                to,
                put: operation.kind != RequestKind::Get,
                pt: operation.pt,
                match_bits: operation.match_bits,
                length: operation.rlength,
            }
        })
    }

    /// What it has done.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.engine.statistics;
        for interface in &self.interfaces {
            statistics.unexpected += interface.unexpected_total();
            statistics.lost_events += interface.lost_events();
        }
        statistics
    }

    /// Gives back the room in its queues that is not in use. A machine of many idle ranks keeps what their set-up took
    /// otherwise.
    pub fn trim(&mut self) {
        self.engine.commands.shrink_to_fit();
        self.engine.writes.shrink_to_fit();
        self.engine.data.shrink_to_fit();
    }

    /// The number of a process on this node.
    fn local(&self, process: Process) -> Option<u32> {
        let place = self.locals.iter().position(|local| local.process == process);
        place.map(|place| place as u32)
    }

    // ---- Commands ----------------------------------------------------------------------------

    /// Checks a command and sends it over PCIe: of which process of the node it is, and when it is there.
    fn admit(&mut self, written: SimTime, process: Process, command: &Command) -> Result<(u32, SimTime), CommandError> {
        let Some(local) = self.local(process) else { return Err(CommandError::NoProcess(process)) };
        self.check(local, command)?;
        let (carried, pt) = match command {
            Command::Put { length, inline: Some(_), target, .. } => (*length, target.pt),
            Command::Atomic(atomic) if atomic.inline.is_some() => (atomic.length, atomic.target.pt),
            _ => (0, 0),
        };
        let Common { config, durations, .. } = &*self.common;
        let (inside, with_pio) = config.carried(pt);
        let behind = if carried <= with_pio { carried.saturating_sub(inside) } else { 0 };
        let extra = match config.pcie_detail {
            PcieDetail::Full => config.pcie_rate.time_for(Bytes(behind)),
            PcieDetail::Latency => SimTime::ZERO,
        };
        self.engine.statistics.commands += 1;
        Ok((local, self.engine.stages.command(written, extra, config, durations)))
    }

    /// See [`crate::Nics::command_ahead`]; when the command is there.
    pub(crate) fn command_ahead(&mut self, written: SimTime, process: Process, command: &Command) -> Option<(u32, SimTime)> {
        if self.locals.len() == 1 { self.admit(written, process, command).ok() } else { None }
    }

    /// A command that has been admitted is on its way: the event of its arrival.
    pub(crate) fn send_down(&mut self, local: u32, command: Command) -> Event {
        self.engine.commands.push_back((local, command));
        Due::Command.encode()
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
                if interface.counters.triggered(*index) >= self.common.config.limits.max_triggered_ops {
                    return Err(CommandError::NoTriggered(self.common.config.limits.max_triggered_ops));
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
                interface.declared.limit(*index, at_most(*limits, self.common.config.limits.counted()));
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
            Command::Forward(forward) => check_buffer(interface, &forward.local, forward.length),
            Command::SetContext(_) => Ok(()),
            // Where there is an accelerator it takes them itself.
            Command::Allreduce(_) => Err(CommandError::NoAccelerator),
        }
    }

    /// Does a command that is in the NIC, because the process gave it or because its time has come.
    fn execute(&mut self, now: SimTime, process: u32, command: Command, by: By, out: &mut impl Out<Portals>) {
        let mut refused = std::mem::take(&mut self.scratch);
        let (interface, mut port) = interface!(self, now, process, out);
        let triggered = by == By::Nic;
        match command {
            Command::PtAlloc { pt, options, eq } => {
                if let Err(error) = interface.pt_alloc(pt, options, eq) {
                    self.refusals.push(Refusal { process: self.locals[process as usize].process, error });
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
                interface.limit_headers(index, at_most(limits, self.common.config.limits.counted()).unexpected_headers);
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
                port.engine.stages.matched(now, visited, &self.common.config);
            }
            Command::MeUnlink { entry, ticket } => interface.me_unlink(entry, ticket, &mut port),
            Command::MeSearch { pt, operation, me } => {
                let visited = interface.me_search(pt, operation, &me, &mut port);
                if me.options & me::EVENT_CT_OVERFLOW != 0 {
                    // The process may want to know that the search is in the value.
                    interface.counters.increment(me.ct, 0, 0, by, &mut port);
                }
                port.engine.stages.matched(now, visited, &self.common.config);
            }
            Command::Put { local, length, inline, ack, target, hdr_data } => {
                let operation = self.operation(RequestKind::Put, process, length, &target, hdr_data);
                let request = Order { operation, to: target.process, local, inline, ack, atomic: None, bridged: None, triggered };
                self.request(now, process, request, out);
            }
            Command::Get { local, length, target } => {
                let operation = self.operation(RequestKind::Get, process, length, &target, 0);
                let (inline, ack) = (None, AckRequest::None);
                let request = Order { operation, to: target.process, local, inline, ack, atomic: None, bridged: None, triggered };
                self.request(now, process, request, out);
            }
            Command::Forward(forward) => self.forward(now, process, &forward, out),
            Command::SetContext(part) => self.set_context(process, *part),
            // Never admitted.
            Command::Allreduce(_) => {}
            Command::Atomic(atomic) => {
                let Atomic { local, fetched, length, inline, ack, target, hdr_data, operation: what, datatype, operand } = *atomic;
                let kind = if fetched.is_some() { RequestKind::FetchAtomic } else { RequestKind::Atomic };
                let mut operation = self.operation(kind, process, length, &target, hdr_data);
                operation.atomic = Some((what, datatype));
                let combine = Combine { operation: what, datatype, operand, fetch: fetched.is_some() };
                let atomic = Some(AtomicPart { combine, fetched });
                self.request(
                    now,
                    process,
                    Order { operation, to: target.process, local, inline, ack, atomic, bridged: None, triggered },
                    out,
                );
            }
        }
        refused.clear();
        self.scratch = refused;
        self.schedule_retries(now, process, out);
    }

    fn operation(&self, kind: RequestKind, process: u32, length: u64, target: &RemoteTarget, hdr_data: u64) -> Operation {
        let Local { place, user, .. } = self.locals[process as usize];
        Operation {
            kind,
            initiator: place,
            uid: user,
            pt: target.pt,
            match_bits: target.match_bits,
            offset: target.offset,
            rlength: length,
            hdr_data,
            atomic: None,
        }
    }
}

impl Portals {
    /// All of a payload was read. Of a request, [`Nic::source_done`] follows when its memory is free.
    pub(crate) fn payload_read(&mut self, now: SimTime, token: u32, out: &mut impl Out<Portals>) {
        match role_of(token) {
            (message, Role::Request) => self.request_taken(message, out),
            (message, Role::Response) => self.response_read(now, message, out),
        }
    }

    /// What [`Portals::payload_read`] left to do.
    pub(crate) fn payload_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Portals>) {
        if let (message, Role::Request) = role_of(token) {
            self.request_read(now, message, out);
        }
    }
}

impl Nic for Portals {
    type Command = Command;
    type Notice = Notice;
    type Header = Header;
    /// Where it has handlers.
    const SEES: Option<Acknowledge> = Some(Acknowledge::Done);

    fn lookahead(&self) -> SimTime {
        self.common.config.lookahead()
    }

    /// A command that is wrong in itself or names what does not exist is refused; the NIC's state stays as it was. A
    /// target process that does not exist is no error: the initiator gets its events with [`FailType::Undeliverable`],
    /// as on a real machine.
    fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out<Portals>) -> Result<(), CommandError> {
        let (local, at) = self.admit(now, process, &command)?;
        let event = self.send_down(local, command);
        out.schedule(at, self.port, event);
        Ok(())
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Portals>) {
        let Some(due) = Due::decode(event) else { return };
        match due {
            Due::Command => {
                if let Some((process, command)) = take_first(&mut self.engine.commands) {
                    self.execute(now, process, command, By::Process, out);
                }
            }
            Due::Write => {
                if let Some((process, notice)) = take_first(&mut self.engine.writes) {
                    out.notify(self.port, process, notice);
                }
            }
            Due::Data if self.engine.hurried > 0 => self.engine.hurried -= 1,
            Due::Data => {
                if let Some(written) = take_first(&mut self.engine.data) {
                    written.deliver(out);
                }
            }
            Due::Transmit(message, role) => {
                self.engine.transmitting[role.index()] -= 1;
                self.read(now, message, role, out);
            }
            Due::Sent(role) => self.sent_one(now, role, out),
            Due::Start(message, role) => self.start_due(now, message, role, out),
            Due::Landed(message, Role::Request) => self.landed(now, message, out),
            Due::Landed(message, Role::Response) => self.answered(now, message, out),
            Due::Retry(process, pt) => self.retry(now, process, pt, out),
            Due::Handlers => self.handlers_due(now, out),
            Due::Fired => {
                if let Some((process, command)) = self.engine.fired.pop_front() {
                    self.execute(now, process, command, By::Nic, out);
                }
            }
        }
    }

    fn source_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Portals>) {
        let (message, role) = role_of(token);
        match role {
            Role::Request => self.request_read(now, message, out),
            Role::Response => self.response_read(now, message, out),
        }
        if self.common.config.transmit == Transmit::OneByOne {
            self.sent_one(now, role, out);
        }
    }

    fn head(&mut self, now: SimTime, header: &Header, out: &mut impl Out<Portals>) -> u32 {
        match header {
            Header::Request(request) => self.head_of_request(now, request, out),
            Header::Response(_) | Header::Received(_) | Header::Handled => 0,
        }
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &Header, out: &mut impl Out<Portals>) {
        match header {
            Header::Request(request) if self.handling.is_some() && self.waits_for_handlers(now, arrival, request, out) => {}
            Header::Request(_) => self.tail_of_request(now, arrival, out),
            Header::Response(response) => self.tail_of_response(now, response, out),
            Header::Received(received) => self.received(now, received, out),
            Header::Handled => self.packet_of_handler(),
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    fn packet_in(&mut self, now: SimTime, packet: &PacketIn, header: &Header, out: &mut impl Out<Self>) -> Verdict {
        self.packet_for_handlers(now, packet, header, out)
    }
}

impl PortalsNic for Portals {
    fn portals(&self) -> &Portals {
        self
    }
    fn portals_mut(&mut self) -> &mut Portals {
        self
    }
    fn matches(&self) -> bool {
        true
    }
}

/// The name of a departure: the slot of its half, and which way it goes.
fn token(message: u32, role: Role) -> u32 {
    2 * message + role as u32
}

fn role_of(token: u32) -> (u32, Role) {
    (token / 2, if token.is_multiple_of(2) { Role::Request } else { Role::Response })
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
