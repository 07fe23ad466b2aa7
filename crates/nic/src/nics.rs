//! The NICs of a machine.

use std::sync::Arc;

use narrows_fabric::Notice as NetworkNotice;
use narrows_fabric::seam::{PacketIn, PacketOut, Passage, Verdict};
use narrows_portals::{Command, ProcessId};
use narrows_units::{NodeId, PortId, Rail, SimTime};

use crate::config::NicConfig;
use crate::error::Refusal;
use crate::kind::{Directory, Kinds};
use crate::kinds::{AnyConfig, AnyNic};
use crate::out::{Event, Out};
use crate::portals::{HeldMessage, Portals};
use crate::statistics::{Statistics, Troubles};
use crate::wire::{Step, Wire, Wired};
use narrows_matching::CommandError;
use narrows_matching::Status;
use narrows_portals::Process;
use narrows_spin::HandlerReport;

/// The NICs at all ports of a machine, or at some: commands of processes and notices of the network in, actions out.
///
/// See the [crate] page for an example.
#[derive(Debug)]
pub struct Nics<N: Kinds = AnyNic> {
    nics: Vec<N>,
    /// By port: the place of its NIC here.
    locals: Arc<[u32]>,
    config: N::Config,
    directory: Arc<Directory>,
    /// What they refused since [`Nics::take_refusals`].
    refused: Vec<Refusal>,
}

impl Nics {
    /// `processes[i]` is where process i lives.
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn new(config: impl Into<AnyConfig>, nodes: u32, processes: &[ProcessId]) -> Nics {
        let all: Vec<PortId> = (0..nodes).map(PortId).collect();
        Nics::of(&[config.into()], Arc::new(Directory::new(nodes, processes)), |_| 0, &all, (0..nodes).collect())
    }
}

impl<N: Kinds> Nics<N> {
    /// Those at `ports` alone; `locals` says of each port of the machine which one of its part it is, `kind` which of
    /// `configs` its NIC has.
    ///
    /// # Panics
    /// When there is no such one.
    pub fn of(
        configs: &[N::Config],
        directory: Arc<Directory>,
        kind: impl Fn(PortId) -> usize,
        ports: &[PortId],
        locals: Arc<[u32]>,
    ) -> Nics<N> {
        let mut of_kind: Vec<Vec<PortId>> = vec![Vec::new(); configs.len()];
        ports.iter().for_each(|&port| of_kind[kind(port)].push(port));
        let made = configs.iter().zip(&of_kind).map(|(config, ports)| N::of(config, &directory, ports).into_iter());
        let mut made: Vec<_> = made.collect();
        let nics = ports.iter().map(|&port| made[kind(port)].next().expect("one for each port")).collect();
        Nics { nics, locals, config: configs[0].clone(), directory, refused: Vec::new() }
    }

    #[inline]
    fn nic(&mut self, port: PortId) -> &mut N {
        &mut self.nics[self.locals[port.index()] as usize]
    }

    /// Something is about to happen at a port: see [`narrows_engine::prefetch`]. A process whose turn it may be.
    #[inline]
    pub fn prefetch(&self, step: u32, port: PortId) -> Option<Process> {
        let nic = self.nics.get(*self.locals.get(port.index())? as usize)?;
        if step == 0 {
            narrows_engine::prefetch_all(nic);
            return None;
        }
        if nic.matches() { nic.portals().prefetch(step) } else { None }
    }

    /// The NICs of the node of a process.
    fn around(&self, process: Process) -> impl Iterator<Item = &Portals> {
        let ports = self.place(process).into_iter().flat_map(|node| self.directory.ports_of(node));
        ports.map(|port| self.nics[self.locals[port.index()] as usize].portals())
    }

    /// The users of the processes, which entries may ask for ([`narrows_portals::MatchEntry::uid`]); 0 until then.
    pub fn set_users(&mut self, user: impl Fn(Process) -> u32) {
        self.nics.iter_mut().for_each(|nic| nic.portals_mut().set_users(&user));
    }

    /// The least time from writing a command to its first effect of any kind.
    pub fn lookahead(&self) -> SimTime {
        self.nics.iter().map(N::lookahead).min().unwrap_or_default()
    }

    /// The timings of the first kind of NIC, as far as they concern Portals.
    pub fn config(&self) -> &NicConfig {
        N::constants(&self.config)
    }

    /// Where the processes are.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The node of a process.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn node_of(&self, process: Process) -> NodeId {
        self.place(process).expect("a process of this machine")
    }

    fn place(&self, process: Process) -> Option<NodeId> {
        self.directory.node_of(process)
    }

    /// The first NIC of a process, or the library that is in its place.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn nic_of(&mut self, process: Process) -> &mut Portals {
        let node = self.node_of(process);
        let port = self.directory.ports_of(node).next().expect("a node has a port");
        self.nic(port).portals_mut()
    }

    fn all(&self) -> impl Iterator<Item = &Portals> {
        self.nics.iter().map(N::portals)
    }

    /// Messages that a portal table entry with RETRY refuses for now.
    pub fn held(&self) -> u64 {
        self.all().map(Portals::held).sum()
    }

    /// Messages that `process` refuses for now.
    pub fn held_by(&self, process: Process) -> u64 {
        self.around(process).map(|nic| nic.held_by(process)).sum()
    }

    /// Vectors that accelerators keep until others come.
    pub fn waiting_vectors(&self) -> u64 {
        self.nics.iter().map(N::waiting_vectors).sum()
    }

    /// What went wrong at them.
    pub fn troubles(&self) -> Troubles {
        let mut sum = Troubles::default();
        self.nics.iter().for_each(|nic| sum += nic.troubles());
        sum
    }

    /// Halves of messages that are neither complete nor held.
    pub fn in_flight(&self) -> u64 {
        self.all().map(Portals::in_flight).sum()
    }

    /// The status registers of a process, all its network interfaces together.
    pub fn status(&self, process: Process) -> Status {
        self.around(process).map(|nic| nic.status(process)).fold(Status::default(), |sum, status| sum + status)
    }

    /// The messages that are held, by target, table entry and initiator: for reports.
    pub fn held_messages(&self) -> impl Iterator<Item = HeldMessage> {
        self.all().flat_map(Portals::held_messages)
    }

    /// What the NIC at `port` has done.
    pub fn port_statistics(&self, port: PortId) -> Statistics {
        let local = self.locals.get(port.index());
        local.and_then(|&local| self.nics.get(local as usize)).map_or_else(Statistics::default, |nic| nic.portals().statistics())
    }

    /// What all NICs have done.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.all().for_each(|nic| sum += nic.statistics());
        sum
    }

    /// What handlers have done, where NICs have some.
    pub fn handlers(&self) -> Option<HandlerReport> {
        self.all().filter_map(Portals::handler_report).reduce(|mut sum, more| {
            sum.add(&more);
            sum
        })
    }

    /// Commands that were refused after [`Nics::command`] had accepted them, since the last call.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refused)
    }

    /// See [`Nic::command`]; of the NIC on `rail`.
    ///
    /// # Errors
    /// See [`CommandError`]; the node of the process has no port on that rail.
    pub fn command(
        &mut self,
        now: SimTime,
        process: Process,
        rail: Rail,
        command: Command,
        out: &mut impl Out<N>,
    ) -> Result<(), CommandError> {
        let port = self.place(process).and_then(|node| self.directory.port(node, rail));
        let Some(port) = port else { return Err(CommandError::NoProcess(process)) };
        self.nic(port).command(now, process, command, out)
    }

    /// Takes a command ahead of its time, which saves the event of its writing. Only from a process whose commands come
    /// in the order in which they are written, and only where it is alone at its NIC. What to schedule for it, and at
    /// which port; none where the command has to come at its time.
    pub fn command_ahead(
        &mut self,
        written: SimTime,
        process: Process,
        rail: Rail,
        command: &mut Option<Command>,
    ) -> Option<(SimTime, PortId, Event)> {
        let port = self.directory.port(self.place(process)?, rail)?;
        let nic = self.nic(port);
        if !nic.matches() {
            return None;
        }
        let nic = nic.portals_mut();
        let (local, at) = nic.command_ahead(written, process, command.as_ref()?)?;
        Some((at, port, nic.send_down(local, command.take()?)))
    }

    /// Gives back the room in the queues of a process' NICs that is not in use. A machine of many idle ranks keeps what
    /// their set-up took otherwise.
    pub fn trim(&mut self, process: Process) {
        let Some(node) = self.place(process) else { return };
        for port in self.directory.ports_of(node) {
            self.nics[self.locals[port.index()] as usize].portals_mut().trim();
        }
    }

    /// An event of the NIC at `port` is due.
    pub fn handle(&mut self, now: SimTime, port: PortId, event: Event, out: &mut impl Out<N>) {
        let nic = &mut self.nics[self.locals[port.index()] as usize];
        nic.handle(now, event, out);
        self.refused.append(&mut nic.take_refusals());
    }

    /// All of a message that is nothing but a header is at the NIC at `port` ([`Out::shortcut`]).
    pub fn arrive(&mut self, now: SimTime, port: PortId, header: &N::Header, out: &mut impl Out<N>) {
        let nic = self.nic(port);
        let arrival = nic.head(now, header, out);
        nic.tail(now, arrival, header, out);
    }

    /// The NIC at a port can get this header from that at another one: it is one of its kind, and all that it names is
    /// there.
    pub fn takes(&self, from: PortId, to: PortId, header: &N::Header) -> bool {
        let (Some(local), true) = (self.locals.get(to.index()), from.0 < self.directory.ports()) else { return false };
        let nic = self.nics.get(*local as usize);
        nic.is_some_and(|nic| nic.takes(from, to, header, &self.directory))
    }

    /// See [`Nic::source_done`].
    pub fn source_done(&mut self, now: SimTime, port: PortId, token: u32, out: &mut impl Out<N>) {
        self.nic(port).source_done(now, token, out);
    }

    /// See [`Nic::head`].
    pub fn head(&mut self, now: SimTime, port: PortId, header: &N::Header, out: &mut impl Out<N>) -> u32 {
        self.nic(port).head(now, header, out)
    }

    /// See [`Nic::tail`].
    pub fn tail(&mut self, now: SimTime, port: PortId, arrival: u32, header: &N::Header, out: &mut impl Out<N>) {
        self.nic(port).tail(now, arrival, header, out);
    }

    /// See [`crate::Nic::packet_in`].
    pub fn packet_in(&mut self, now: SimTime, port: PortId, packet: &PacketIn, header: &N::Header, out: &mut impl Out<N>) -> Verdict {
        self.nic(port).packet_in(now, packet, header, out)
    }

    /// See [`crate::Nic::packet_out`].
    pub fn packet_out(&mut self, now: SimTime, port: PortId, packet: &PacketOut) -> Passage {
        self.nic(port).packet_out(now, packet)
    }

    /// The network reports.
    pub fn network<O: Wired<N>>(&mut self, now: SimTime, notice: NetworkNotice, out: &mut O) {
        Wire::notice(notice, out, |port, step, out| {
            let nic = self.nic(port);
            match step {
                Step::SourceDone(token) => nic.source_done(now, token, out),
                Step::Head(header) => return nic.head(now, header, out),
                Step::Tail(arrival, header) => nic.tail(now, arrival, header, out),
            }
            0
        });
    }
}
