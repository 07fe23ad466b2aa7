//! What a kind of NIC is, and where processes are.

use narrows_fabric::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use narrows_portals::{Command, Notice, ProcessId};
use narrows_units::{NodeId, PortId, Rail, SimTime};
use std::sync::Arc;

use crate::config::NicConfig;
use crate::error::Refusal;
use crate::out::{Event, Out};
use crate::portals::{About, Ends, Header, Portals};
use crate::statistics::Troubles;
use narrows_matching::CommandError;
use narrows_portals::Process;

/// The NIC at one port of a node, as a state machine: no clock, no thread, no memory access inside.
pub trait Nic: Sized {
    /// What a process writes to it.
    type Command;
    /// What it writes to a process.
    type Notice;
    /// What travels from NIC to NIC with a message.
    type Header: Copy;
    /// It sees packets, which ports acknowledge so: see [`narrows_fabric::seam`].
    const SEES: Option<Acknowledge> = None;

    /// The least time from writing a command to its first effect of any kind.
    fn lookahead(&self) -> SimTime;

    /// The library of `process`, which lives on this node, wrote `command` at `now`. Nothing happens before `now` +
    /// [`Nic::lookahead`]. Commands of one node pass PCIe in the order of the calls.
    ///
    /// # Errors
    /// See [`CommandError`].
    fn command(&mut self, now: SimTime, process: Process, command: Self::Command, out: &mut impl Out<Self>) -> Result<(), CommandError>;

    /// An event that it scheduled is due.
    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>);

    /// The network has read all of a departure with `source_dma` and a payload.
    fn source_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Self>);

    /// The header of a message is here. Returns its own name for the message.
    fn head(&mut self, now: SimTime, header: &Self::Header, out: &mut impl Out<Self>) -> u32;

    /// All of the message `arrival` is here.
    fn tail(&mut self, now: SimTime, arrival: u32, header: &Self::Header, out: &mut impl Out<Self>);

    /// Commands that were refused after [`Nic::command`] had accepted them, since the last call.
    fn take_refusals(&mut self) -> Vec<Refusal>;

    /// With [`Nic::SEES`]: a packet of the message with this header has come. Of a message of which all packets are
    /// consumed neither [`Nic::head`] nor [`Nic::tail`] is told; what its sender waits for this NIC has to send.
    fn packet_in(&mut self, now: SimTime, packet: &PacketIn, header: &Self::Header, out: &mut impl Out<Self>) -> Verdict {
        let _ = (now, packet, header, out);
        Verdict::Pass
    }

    /// With [`Nic::SEES`]: a packet is about to go.
    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        let _ = (now, packet);
        Passage::Pass
    }
}

/// What travels from NIC to NIC, as others than the NIC see it.
pub trait Travels {
    /// Portals' header in it; none in what NICs say to each other.
    fn message(&self) -> Option<&Header>;
    /// It is not a further part of a message whose first one has come before.
    fn is_first(&self) -> bool {
        true
    }
    /// See [`crate::AnyHeader::is_taken_whole`].
    fn is_taken_whole(&self) -> bool {
        self.message().is_some_and(|message| message.stream().is_some())
    }
    /// It is sound, and the NIC at `port` may have sent it.
    fn is_from(&self, port: PortId) -> bool {
        let _ = port;
        true
    }
}

/// A NIC that processes use through Portals.
pub trait PortalsNic: Nic<Command = Command, Notice = Notice> {
    /// What of it concerns Portals: in the NIC, or in software.
    fn portals(&self) -> &Portals;
    /// The same, to be changed.
    fn portals_mut(&mut self) -> &mut Portals;
    /// It is that NIC, and matches itself.
    fn matches(&self) -> bool {
        false
    }
    /// Vectors that its accelerator keeps until others come.
    fn waiting_vectors(&self) -> u64 {
        0
    }
    /// What went wrong at it.
    fn troubles(&self) -> Troubles {
        Troubles::default()
    }
}

/// The kinds of NIC that a machine has: those of a table ([`crate::AnyNic`]), or one alone ([`crate::Engine`]), which
/// need not be in the table.
pub trait Kinds: PortalsNic<Header: std::fmt::Debug + Send> + Send + std::fmt::Debug + 'static {
    /// Their constants.
    type Config: Clone + Send + std::fmt::Debug;
    /// Some of them see packets.
    const PACKETS: bool;
    /// Those at these ports of a machine.
    fn of(config: &Self::Config, directory: &Arc<Directory>, ports: &[PortId]) -> Vec<Self>;
    /// What of the constants concerns Portals.
    fn constants(config: &Self::Config) -> &NicConfig;
    /// See [`Nic::SEES`].
    fn sees(config: &Self::Config) -> Option<Acknowledge>;
    /// The NIC at `to` can get this header from that at `from`: it is one of its kind, and all that it names is there.
    fn takes(&self, from: PortId, to: PortId, header: &Self::Header, directory: &Directory) -> bool;
    /// See [`crate::AnyHeader::is_taken_whole`].
    fn is_taken_whole(header: &Self::Header) -> bool;
    /// See [`crate::AnyHeader::is_answer`].
    fn is_answer(header: &Self::Header) -> bool;
    /// See [`crate::AnyHeader::about`].
    fn about(header: &Self::Header) -> About;
    /// The processes between which it travels; none of what NICs say to each other.
    fn ends(header: &Self::Header) -> Option<Ends>;
}

/// Where the processes and the ports of a machine are. All NICs know it, as a NIC has a table that maps ranks to nodes.
#[derive(Debug)]
pub struct Directory {
    /// By process.
    places: Vec<ProcessId>,
    /// By node: where its processes begin in the list below, and one more.
    firsts: Vec<u32>,
    /// By node, then pid: both of them.
    residents: Vec<(u32, Process)>,
    /// By port: its node and its rail.
    ports: Vec<(NodeId, Rail)>,
    /// By rail, then node; where each node has one port, nothing: they have the same numbers.
    rails: Vec<Vec<Option<PortId>>>,
    processors: Processors,
}

/// On which processors of their nodes processes are, where nodes have several.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    /// By process: the number of its processor among the kinds that a machine has; nothing: nobody asks.
    pub of: Vec<u16>,
    /// From each kind to each of the same node, row by row: see [`narrows_fabric::Transfer::route`].
    pub routes: Vec<u16>,
    /// Kinds.
    pub kinds: u16,
    /// By address: the node that is reached there, where processors have ports and addresses of their own; nothing:
    /// each node has one, its number.
    pub owners: Vec<u32>,
}

impl Directory {
    /// `processes[i]` is where process i lives. Each node has one port.
    ///
    /// # Panics
    /// When a process lives on a node that is not there, or two in the same place: the caller
    /// placed them.
    pub fn new(nodes: u32, processes: &[ProcessId]) -> Directory {
        Directory::with_ports(nodes, processes, NodeId::first(nodes).map(|node| (node, Rail::FIRST)).collect())
    }

    /// The same with these ports, in the order of their numbers.
    ///
    /// # Panics
    /// As [`Directory::new`], and when a node has two ports of one rail.
    pub fn with_ports(nodes: u32, processes: &[ProcessId], ports: Vec<(NodeId, Rail)>) -> Directory {
        let mut firsts = vec![0; nodes as usize + 1];
        let mut all: Vec<(NodeId, u32, Process)> = Vec::with_capacity(processes.len());
        for (index, process) in processes.iter().enumerate() {
            let node = process.node().filter(|&node| node.0 < nodes);
            let node = node.unwrap_or_else(|| panic!("process {index} is placed on nid {}, but there are {nodes} nodes", process.nid));
            firsts[node.index() + 1] += 1;
            all.push((node, process.pid, Process(index as u32)));
        }
        (1..firsts.len()).for_each(|node| firsts[node] += firsts[node - 1]);
        all.sort_unstable();
        let one_place = |pair: &[(NodeId, u32, Process)]| pair[0].0 == pair[1].0 && pair[0].1 == pair[1].1;
        assert!(!all.windows(2).any(one_place), "two processes of one node have the same pid");
        let residents = all.into_iter().map(|(_, pid, process)| (pid, process)).collect();
        let alike = ports.iter().enumerate().all(|(number, &(node, rail))| number == node.index() && rail == Rail::FIRST);
        let mut rails = Vec::new();
        if !alike {
            let count = ports.iter().map(|&(_, rail)| rail.index() + 1).max().unwrap_or(0);
            rails = vec![vec![None; nodes as usize]; count];
            for (number, &(node, rail)) in ports.iter().enumerate() {
                let before = rails[rail.index()][node.index()].replace(PortId(number as u32));
                assert!(before.is_none(), "node {node} has two ports of rail {}", rail.0);
            }
        }
        Directory { places: processes.to_vec(), firsts, residents, ports, rails, processors: Processors::default() }
    }

    /// The same, of nodes with several processors.
    pub fn with_processors(self, processors: Processors) -> Directory {
        Directory { processors, ..self }
    }

    /// The route between two processes of one node.
    pub fn route(&self, from: ProcessId, to: ProcessId) -> u16 {
        let Processors { of, routes, kinds, .. } = &self.processors;
        let kind = |place| of.get(self.process_at(place)?.0 as usize).copied();
        if of.is_empty() {
            return 0;
        }
        let (Some(from), Some(to)) = (kind(from), kind(to)) else { return 0 };
        routes[usize::from(from) * usize::from(*kinds) + usize::from(to)]
    }

    /// Whether two ports are of one node.
    #[inline]
    pub fn share_a_node(&self, one: PortId, other: PortId) -> bool {
        let owner = |port| self.processors.owners.get(self.of_port(port).0.index());
        one == other || !self.processors.owners.is_empty() && owner(one) == owner(other)
    }

    /// Nodes, or addresses, where processors have their own.
    pub fn nodes(&self) -> u32 {
        self.firsts.len() as u32 - 1
    }

    /// The node of a place, if the machine has it.
    pub fn node_at(&self, place: ProcessId) -> Option<NodeId> {
        place.node().filter(|&node| node.0 < self.nodes())
    }

    /// The node of a process.
    pub fn node_of(&self, process: Process) -> Option<NodeId> {
        self.place(process)?.node()
    }

    /// Where a process is.
    pub fn place(&self, process: Process) -> Option<ProcessId> {
        self.places.get(process.0 as usize).copied()
    }

    /// Ports.
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// The node and the rail of a port.
    ///
    /// # Panics
    /// When there is no such port.
    #[inline]
    pub fn of_port(&self, port: PortId) -> (NodeId, Rail) {
        self.ports[port.index()]
    }

    /// The port of a node on a rail, if it has one.
    #[inline]
    pub fn port(&self, node: NodeId, rail: Rail) -> Option<PortId> {
        if self.rails.is_empty() {
            return (node.0 < self.ports() && rail == Rail::FIRST).then_some(PortId(node.0));
        }
        self.rails.get(rail.index())?.get(node.index()).copied()?
    }

    /// Of the node of a place.
    #[inline]
    pub fn port_at(&self, place: ProcessId, rail: Rail) -> Option<PortId> {
        self.port(self.node_at(place)?, rail)
    }

    /// Those of a node, by rail.
    pub fn ports_of(&self, node: NodeId) -> impl Iterator<Item = PortId> {
        (0..self.rails.len().max(1) as u8).filter_map(move |rail| self.port(node, Rail(rail)))
    }

    /// The processes of a node: pid and process, sorted.
    pub fn processes_of(&self, node: NodeId) -> &[(u32, Process)] {
        let bounds = self.firsts.get(node.index()..node.index() + 2);
        bounds.map_or(&[], |bounds| &self.residents[bounds[0] as usize..bounds[1] as usize])
    }

    /// The process in a place.
    pub fn process_at(&self, place: ProcessId) -> Option<Process> {
        let node = self.processes_of(self.node_at(place)?);
        let index = node.binary_search_by_key(&place.pid, |&(pid, _)| pid).ok()?;
        Some(node[index].1)
    }
}
