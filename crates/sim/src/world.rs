//! The simulation: regions with the NICs at their ports.

use crate::background::Beside;
use crate::failover::Failover;
use crate::station::{Above, PortPlace, PortPlaces, Station};
use crate::watched::Watched;
use crate::wrapper::Wrappers;
use crate::{Processes, Requests};
use narrows_engine::Digest;
use narrows_fabric::parallel::{self, Fabric, Plane, ProcessError};
use narrows_fabric::{ConfigError, FlowControl, NetworkConfig, NetworkKind, Observer, Undelivered};
use narrows_nic::{
    AnyConfig, AnyNic, Below, CommandError, Denied, Directory, Engine, HandlerReport, Kinds, Nics, Process, Processors, Statistics,
};
use narrows_portals::{Command, ProcessId};
use narrows_timeline::Timeline;
use narrows_topology::{Topology, Vertex};
use narrows_traffic::{Background, BackgroundClass, BackgroundTally};
use narrows_units::{NodeId, PortId, Rail, SimTime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Events of the engine.
    pub events: u64,
    /// Puts and gets that processes started.
    pub messages: u64,
    /// Payload bytes that left the memory of nodes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Messages that were refused for lack of room and repeated, by lists or by ExaNeSt's mailboxes.
    pub retries: u64,
    /// Packets that links have lost or broken.
    pub lost_packets: u64,
    /// Of these, those of which only the check sum of the payload says so.
    pub crc_errors: u64,
    /// Times that a packet was broken and no check sum says so.
    pub missed_errors: u64,
    /// Packets that ports have sent again, and ExaNeSt's messages and blocks.
    pub retransmissions: u64,
    /// Messages and transfers that ExaNeSt's interfaces refused: they are of another protection domain.
    pub refused_accesses: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.events += other.events;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.packet_hops += other.packet_hops;
        self.retries += other.retries;
        self.lost_packets += other.lost_packets;
        self.crc_errors += other.crc_errors;
        self.missed_errors += other.missed_errors;
        self.retransmissions += other.retransmissions;
        self.refused_accesses += other.refused_accesses;
    }
}

/// What went over a rail.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RailTotals {
    /// Puts, gets and atomics that processes started on it.
    pub messages: u64,
    /// Payload bytes that left the memory of nodes by it.
    pub bytes: u64,
    /// Messages of NICs that it carried because the flow of their own rail was given up.
    pub carried: u64,
    /// The bytes of those messages.
    pub carried_bytes: u64,
}

impl std::ops::AddAssign for RailTotals {
    fn add_assign(&mut self, other: RailTotals) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.carried += other.carried;
        self.carried_bytes += other.carried_bytes;
    }
}

/// The hardware, and where processes are.
#[derive(Debug)]
pub struct Setup<'a, C = AnyConfig> {
    /// The hardware.
    pub hardware: Hardware<'a, C>,
    /// `places[i]` is where process i lives.
    pub places: &'a [ProcessId],
}

/// Networks, NICs, and the nodes between them.
#[derive(Debug)]
pub struct Hardware<'a, C = AnyConfig> {
    /// Nodes, or addresses, where processors have their own.
    pub nodes: u32,
    /// The networks.
    pub networks: Vec<NetworkSetup<'a>>,
    /// The ports, numbered as the hosts of the networks are, network by network.
    pub ports: Vec<PortSetup>,
    /// Kinds of NIC.
    pub nics: Vec<C>,
    /// Of the processes, where nodes have several.
    pub processors: Processors,
}

/// A network.
#[derive(Debug)]
pub struct NetworkSetup<'a> {
    /// What it does.
    pub config: &'a NetworkConfig,
    /// Its graph.
    pub topology: Topology,
}

/// A port.
#[derive(Clone, Copy, Debug)]
pub struct PortSetup {
    /// Whose it is.
    pub node: NodeId,
    /// It talks to ports of its rail, which are of its network.
    pub rail: Rail,
    /// Of [`Hardware::nics`].
    pub nic: usize,
}

/// Two processes are on one node.
fn share_nodes(places: &[ProcessId]) -> bool {
    let mut nodes: Vec<u32> = places.iter().map(|place| place.nid).collect();
    nodes.sort_unstable();
    nodes.windows(2).any(|pair| pair[0] == pair[1])
}

/// The least of the regions that are the same as `region`.
fn least(same: &mut [u32], region: u32) -> u32 {
    let next = same[region as usize];
    if next == region {
        return region;
    }
    let least = least(same, next);
    same[region as usize] = least;
    least
}

impl<'a> Hardware<'a> {
    /// A machine of one network, whose hosts are its nodes.
    pub fn new(config: &'a NetworkConfig, topology: Topology, nic: impl Into<AnyConfig>) -> Hardware<'a> {
        Hardware::of(config, topology, nic.into())
    }
}

impl<'a, C> Hardware<'a, C> {
    /// The same with NICs that need not be of the kinds of [`AnyConfig`].
    pub fn of(config: &'a NetworkConfig, topology: Topology, nic: C) -> Hardware<'a, C> {
        let nodes = topology.hosts();
        let ports = NodeId::first(nodes).map(|node| PortSetup { node, rail: Rail::FIRST, nic: 0 }).collect();
        Hardware { nodes, networks: vec![NetworkSetup { config, topology }], ports, nics: vec![nic], processors: Processors::default() }
    }

    /// Whether it makes no difference when ports hear of a packet, between its last switch and their node: with credits
    /// they hear early, unless they have another region than the switch.
    fn hears_alike(&self) -> bool {
        let alike = |config: &NetworkConfig| config.reliability.is_none() || matches!(config.flow_control, FlowControl::Pause(_));
        self.networks.iter().all(|network| network.config.kind == NetworkKind::Packet && alike(network.config))
    }

    /// Of each network, the region of every switch: [`parallel::regions`], as far as no node has a port in two of them.
    fn regions(&self, cut: Cut) -> Vec<Vec<u32>> {
        let topologies = self.networks.iter().map(|network| &network.topology);
        match cut {
            Cut::Whole => return topologies.map(|topology| vec![0; topology.switches() as usize]).collect(),
            Cut::Switches => {
                let mut next = 1;
                let of_network = |topology: &Topology| {
                    let first = next;
                    let regions: Vec<u32> = parallel::along_groups(topology).into_iter().map(|region| first + region).collect();
                    next = regions.iter().max().map_or(next, |last| last + 1);
                    regions
                };
                return topologies.map(of_network).collect();
            }
            Cut::Groups => {}
        }
        let cut = |network: &NetworkSetup<'_>| parallel::regions(network.config, &network.topology);
        let mut cuts: Vec<Vec<u32>> = self.networks.iter().map(cut).collect();
        let owners = &self.processors.owners;
        if self.networks.len() == 1 && owners.is_empty() {
            return cuts;
        }
        // What goes over the buses of a node stays in its region.
        let owner = |address: NodeId| owners.get(address.index()).map_or(address.index(), |&node| node as usize);
        let mut next = 0;
        for cut in &mut cuts {
            let first = next;
            cut.iter_mut().for_each(|region| *region += first);
            next = cut.iter().max().map_or(first, |last| last + 1);
        }
        // By region: one that it is the same as, in the end the least of them.
        let mut same: Vec<u32> = (0..next).collect();
        let mut of_node: Vec<Option<u32>> = vec![None; self.nodes as usize];
        let mut ports = self.ports.iter();
        for (topology, cut) in topologies.zip(&cuts) {
            for (host, port) in (0..topology.hosts()).zip(&mut ports) {
                let Vertex::Switch(switch) = topology.links()[topology.injection(host) as usize].to else { continue };
                let region = cut[switch as usize];
                let other = *of_node[owner(port.node)].get_or_insert(region);
                let (one, other) = (least(&mut same, region), least(&mut same, other));
                same[one.max(other) as usize] = one.min(other);
            }
        }
        let mut numbers: Vec<Option<u32>> = vec![None; next as usize];
        let mut count = 0;
        let mut number = |region: u32| {
            *numbers[least(&mut same, region) as usize].get_or_insert_with(|| {
                count += 1;
                count - 1
            })
        };
        cuts.iter_mut().flatten().for_each(|region| *region = number(*region));
        cuts
    }
}

/// Regions of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// One.
    Whole,
    /// The groups of the topology, with their nodes.
    Groups,
    /// All nodes together, and the groups of switches.
    Switches,
}

/// Makes the agents of regions, of which it gets the hosts.
type Agents<'a, P, N> = Box<dyn FnOnce(&[Vec<u32>]) -> Vec<Station<P, N>> + 'a>;

/// Everything simulated. The NICs are of the kinds of a table, or of one alone ([`World::of_kind`]).
pub struct World<P: Processes, N: Kinds = AnyNic> {
    fabric: Fabric<Station<P, N>>,
    places: Arc<PortPlaces>,
    /// Of the first network.
    kind: NetworkKind,
    lookahead: SimTime,
    before: Totals,
    rails_before: Vec<RailTotals>,
    handlers_before: Option<HandlerReport>,
    /// Hosts of the first network.
    hosts: u32,
    /// Regions, from the first on, that have nodes.
    with_nodes: usize,
    background: Option<Background>,
}

impl<P: Processes> World<P> {
    /// A machine at rest, in one region: it can be led event by event. `processes` makes its processes for a list of
    /// their numbers.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn whole(setup: Setup<'_>, processes: impl FnOnce(&[u32]) -> P) -> Result<World<P>, ConfigError> {
        let mut processes = Some(processes);
        let processes = &mut |ranks: &[u32]| processes.take().expect("there is one region")(ranks);
        World::assemble(setup, Cut::Whole, processes, |planes, agents| Fabric::of_planes(planes, agents))
    }

    /// A machine at rest whose nodes are led event by event ([`World::next_led`]), while up to `threads` threads have
    /// the switches: of packet networks, if it makes no difference there. `processes` makes its processes for a list of
    /// their numbers, and none for regions of switches.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn led(setup: Setup<'_>, threads: usize, mut processes: impl FnMut(&[u32]) -> P) -> Result<World<P>, ConfigError>
    where
        P: 'static,
    {
        let cut = if threads > 1 && setup.hardware.hears_alike() { Cut::Switches } else { Cut::Whole };
        let mut world = World::assemble(setup, cut, &mut processes, |planes, agents| Fabric::of_planes(planes, agents))?;
        // Nobody asks for anything earlier than that after an event.
        world.fabric.lead(threads, world.lookahead);
        Ok(world)
    }

    /// A machine at rest, cut along the groups of its topology. `processes` makes those of a region, which it gets as a
    /// list of their numbers.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn regions(setup: Setup<'_>, mut processes: impl FnMut(&[u32]) -> P) -> Result<World<P>, ConfigError> {
        World::assemble(setup, Cut::Groups, &mut processes, |planes, agents| Fabric::of_planes(planes, agents))
    }

    /// As [`World::regions`], with the share of them that this one of several processes has ([`Fabric::spread`]): what
    /// is asked of it is about these regions, but for what says that it is of all.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn spread(setup: Setup<'_>, among: &parallel::Processes, mut processes: impl FnMut(&[u32]) -> P) -> Result<World<P>, ConfigError>
    where
        P::Letter: Serialize + DeserializeOwned,
    {
        World::assemble(setup, Cut::Groups, &mut processes, |planes, agents| Fabric::spread(planes, among, agents))
    }
}

impl<P: Processes, N: Below> World<P, Engine<N>>
where
    Engine<N>: Kinds,
{
    /// As [`World::regions`], in one region if it is not `cut`, with NICs of a kind that need not be in the table of
    /// [`AnyNic`].
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// See [`Directory::new`].
    pub fn of_kind(
        setup: Setup<'_, <Engine<N> as Kinds>::Config>,
        cut: bool,
        mut processes: impl FnMut(&[u32]) -> P,
    ) -> Result<World<P, Engine<N>>, ConfigError> {
        let cut = if cut { Cut::Groups } else { Cut::Whole };
        World::assemble(setup, cut, &mut processes, |planes, agents| Fabric::of_planes(planes, agents))
    }
}

impl<P: Processes, N: Kinds> World<P, N> {
    fn assemble<'a>(
        setup: Setup<'a, N::Config>,
        cut: Cut,
        processes: &mut dyn FnMut(&[u32]) -> P,
        fabric: impl FnOnce(Vec<Plane<'a>>, Agents<'_, P, N>) -> Result<Fabric<Station<P, N>>, ConfigError>,
    ) -> Result<World<P, N>, ConfigError> {
        // What takes no time from one NIC to another needs one region. On the LogGP network the last byte of a message
        // within a node and that of one from another node may come at one instant, and which is told first depends on
        // all that is under way in the region: this is to be the machine.
        let Setup { hardware, places } = setup;
        let instant = hardware.nics.iter().any(|nic| N::constants(nic).quick_ack);
        let loggp = hardware.networks.iter().any(|network| network.config.kind == NetworkKind::LogGp);
        let shared = share_nodes(places) || !hardware.processors.owners.is_empty();
        let cut = if instant || loggp && shared { Cut::Whole } else { cut };
        let cuts = hardware.regions(cut);
        let apart = (cut == Cut::Switches).then_some(0);
        let wrappers = Wrappers::of(&hardware);
        let Hardware { nodes, networks, ports, nics, processors } = hardware;
        let mtus = networks.iter().flat_map(|network| std::iter::repeat_n(network.config.mtu.0, network.topology.hosts() as usize));
        let of_port = |(port, mtu): (&PortSetup, u64)| {
            let nic = &nics[port.nic];
            PortPlace { mtu, lookahead: N::constants(nic).lookahead(), sees: N::sees(nic) }
        };
        let port_places: Box<[PortPlace]> = ports.iter().zip(mtus).map(of_port).collect();
        assert_eq!(ports.len(), port_places.len(), "a port at each host");
        let (hosts, count) = (ports.len(), places.len());
        let of_ports = ports.iter().map(|port| (port.node, port.rail)).collect();
        let directory = Arc::new(Directory::with_ports(nodes, places, of_ports).with_processors(processors));
        let (kind, first_hosts) = (networks[0].config.kind, networks[0].topology.hosts());
        let planes = networks.into_iter().zip(cuts).map(|(NetworkSetup { config, topology }, region_of)| Plane {
            config,
            topology,
            region_of,
            hosts: apart,
        });
        let mut shared_places = None;
        let agents = |regions: &[Vec<u32>]| {
            let (mut locals, mut numbers) = (vec![0; hosts], vec![0; count]);
            let mut ranks: Vec<Vec<u32>> = Vec::new();
            for hosts in regions {
                (0u32..).zip(hosts).for_each(|(local, &host)| locals[host as usize] = local);
                let at_home = hosts.iter().map(|&host| (host, directory.of_port(PortId(host)).0));
                let at_home = at_home.filter(|&(host, node)| directory.ports_of(node).next() == Some(PortId(host)));
                let of_region = at_home.flat_map(|(_, node)| directory.processes_of(node));
                let mut of_region: Vec<u32> = of_region.map(|(_, process)| process.0).collect();
                of_region.sort_unstable();
                (0u32..).zip(&of_region).for_each(|(number, &rank)| numbers[rank as usize] = number);
                ranks.push(of_region);
            }
            let shared = Arc::new(PortPlaces { directory, locals: locals.into(), ports: port_places, processes: numbers });
            shared_places = Some(Arc::clone(&shared));
            let station = |(hosts, ranks): (&Vec<u32>, &Vec<u32>)| {
                let here: Vec<PortId> = hosts.iter().copied().map(PortId).collect();
                let nic = |port: PortId| ports[port.index()].nic;
                let nics = Nics::of(&nics, Arc::clone(&shared.directory), nic, &here, Arc::clone(&shared.locals));
                Station::new(nics, processes(ranks), Above::new(Arc::clone(&shared), hosts.len(), ranks.len()), wrappers())
            };
            regions.iter().zip(&ranks).map(station).collect()
        };
        let fabric = fabric(planes.collect(), Box::new(agents))?;
        let places = shared_places.expect("the agents have been made");
        let lookahead = places.ports.iter().map(|port| port.lookahead).min().unwrap_or_default();
        Ok(World {
            fabric,
            places,
            kind,
            lookahead,
            before: Totals::default(),
            rails_before: Vec::new(),
            handlers_before: None,
            hosts: first_hosts,
            with_nodes: if cut == Cut::Switches { 1 } else { usize::MAX },
            background: None,
        })
    }

    /// The least time from a command to its first effect.
    pub fn lookahead(&self) -> SimTime {
        self.lookahead
    }

    /// The users of the processes, which entries may ask for ([`narrows_portals::MatchEntry::uid`]); 0 until then.
    pub fn set_users(&mut self, user: impl Fn(Process) -> u32) {
        self.fabric.agents().for_each(|station| station.nics.set_users(&user));
    }

    /// Shows `observer` the networks at work from now on (of networks without packets the first one alone); false, and
    /// nothing, on the LogGP network, which has no links.
    ///
    /// # Panics
    /// When there are several regions: it sees what happens in the order of time.
    pub fn observe(&mut self, observer: Box<dyn Observer + Send>) -> bool {
        assert_eq!(self.fabric.regions(), 1, "an observer sees one region");
        match self.kind {
            NetworkKind::Packet => self.fabric.agent(0).observer = Some(observer),
            NetworkKind::Flow | NetworkKind::LogGp => return self.fabric.observe(observer),
        }
        true
    }

    /// Tells `timeline` when messages go and come, from [`World::start_recording`] to [`World::stop_recording`].
    ///
    /// # Panics
    /// When there are several regions: it is told in the order of time.
    pub fn record_into(&mut self, timeline: Timeline) {
        assert_eq!(self.fabric.regions(), 1, "a timeline sees one region");
        self.fabric.agent(0).wrappers.put(Watched(timeline));
    }

    /// The network has packets.
    pub fn has_packets(&self) -> bool {
        self.kind == NetworkKind::Packet
    }

    /// Regions: as many threads are of use.
    pub fn cut(&self) -> u32 {
        self.fabric.regions()
    }

    /// The processes of the only region, or of the first one.
    pub fn processes(&mut self) -> &mut P {
        &mut self.fabric.agent(0).processes
    }

    /// Those of all regions.
    pub fn all(&mut self) -> impl Iterator<Item = &mut P> {
        self.fabric.agents().map(|station| &mut station.processes)
    }

    /// Where processes are.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.places.directory
    }

    /// A process is simulated here, not in another process of the simulation.
    pub fn has(&self, rank: u32) -> bool {
        self.fabric.has(self.places.home(rank))
    }

    /// Where it is simulated: the number of that process of the simulation, 0 if there are no others.
    pub fn process_of(&self, rank: u32) -> u32 {
        self.fabric.process_of(self.places.home(rank))
    }

    fn region_of(&self, rank: u32) -> u32 {
        self.fabric.region_of(self.places.home(rank))
    }

    /// Asks for something in the name of `rank`, after all that has happened.
    pub fn request<R>(&mut self, rank: u32, what: impl FnOnce(&mut P, &mut dyn Requests<P::Letter>) -> R) -> R {
        let region = self.region_of(rank);
        self.fabric.act(region, |station, fabric| {
            let (processes, mut requests) = station.requests(fabric);
            what(processes, &mut requests)
        })
    }

    /// See [`Requests::submit`].
    #[inline]
    pub fn submit(&mut self, rank: u32, rail: Rail, written: SimTime, command: Command) {
        self.request(rank, |_, requests| requests.submit(rank, rail, written, command));
    }

    /// The time of the next event; none while there is nothing but background traffic, which leads nowhere.
    #[inline]
    pub fn next_time(&mut self) -> Option<SimTime> {
        if self.background.is_some() && self.fabric.agents().map(|station| station.above.under_way).sum::<i64>() == 0 {
            return None;
        }
        self.fabric.next_time()
    }

    /// That of all processes.
    ///
    /// # Errors
    /// The processes cannot go on together.
    pub fn next_time_of_all(&mut self) -> Result<Option<SimTime>, ProcessError> {
        let Some(processes) = self.fabric.processes().cloned() else { return Ok(self.next_time()) };
        let next = self.fabric.next_time_of_all()?;
        if self.background.is_some() {
            let under_way: i64 = self.fabric.agents().map(|station| station.above.under_way).sum();
            if processes.gather(&under_way)?.into_iter().fold(0, i64::wrapping_add) == 0 {
                return Ok(None);
            }
        }
        Ok(next)
    }

    /// Why the processes cannot go on together, if [`World::run_while`] has come to that.
    pub fn process_error(&mut self) -> Option<ProcessError> {
        self.fabric.error()
    }

    /// Synthetic traffic on the first network, from [`World::start_recording`] to [`World::stop_recording`].
    pub fn set_background(&mut self, background: Background) {
        self.background = Some(background);
    }

    /// There is synthetic traffic, so events never end.
    pub fn has_background(&self) -> bool {
        self.background.is_some()
    }

    /// What it has sent so far, by class.
    pub fn background(&mut self) -> Vec<BackgroundClass> {
        let tally = self.background_tally();
        self.background.as_ref().map_or_else(Vec::new, |background| background.classes(&tally))
    }

    /// The same of all processes.
    ///
    /// # Errors
    /// The processes cannot go on together.
    pub fn background_of_all(&mut self) -> Result<Vec<BackgroundClass>, ProcessError> {
        let mut tally = self.background_tally();
        if let Some(processes) = self.fabric.processes() {
            tally = processes.gather(&tally)?.into_iter().fold(BackgroundTally::default(), BackgroundTally::with);
        }
        Ok(self.background.as_ref().map_or_else(Vec::new, |background| background.classes(&tally)))
    }

    fn background_tally(&mut self) -> BackgroundTally {
        let tallies = self.fabric.agents().filter_map(|station| station.wrappers.get::<Beside>()?.tally());
        tallies.fold(BackgroundTally::default(), BackgroundTally::with)
    }

    /// Windows so far: times that all regions met to go on.
    pub fn windows(&self) -> u64 {
        self.fabric.windows()
    }

    /// The time of the last event of the only region, or that which all have reached.
    pub fn now(&self) -> SimTime {
        self.fabric.now()
    }

    /// The time of the next event of the nodes before `end`, if there is one, as [`World::next_time`] counts: of
    /// [`World::whole`] and [`World::led`].
    #[inline]
    pub fn next_led(&mut self, end: SimTime) -> Option<SimTime>
    where
        P: 'static,
    {
        if self.background.is_some() && self.stations().map(|station| station.above.under_way).sum::<i64>() == 0 {
            return None;
        }
        self.fabric.next_led(end)
    }

    /// See [`Fabric::reach`].
    pub fn reach(&mut self, time: SimTime)
    where
        P: 'static,
    {
        self.fabric.reach(time);
    }

    /// Before that time nothing happens to a process, unless one asks for something; as all cuts say. `end`: it is not
    /// looked for beyond.
    pub fn quiet_until(&mut self, end: SimTime) -> SimTime {
        if self.kind == NetworkKind::Packet {
            // Which events there are in switches depends on the cut.
            let under_way: i64 = self.stations().map(|station| station.above.under_way).sum();
            return if under_way == 0 { end } else { SimTime::ZERO };
        }
        self.fabric.next_time().map_or(end, |next| next.min(end))
    }

    /// The event of [`World::next_led`].
    #[inline]
    pub fn step(&mut self) {
        self.fabric.step();
    }

    /// Until nothing is left, of [`World::whole`] and [`World::led`], see [`Fabric::drain`]. Meant for what is before
    /// and after simulated time: background traffic has no end.
    pub fn drain(&mut self)
    where
        P: 'static,
    {
        self.drain_before(SimTime::MAX);
    }

    /// The same, but not what comes at `end` or later: faults of the machine do.
    pub fn drain_before(&mut self, end: SimTime)
    where
        P: 'static,
    {
        self.fabric.drain(end);
    }

    /// Has every process ask for something, before simulated time starts: one after the other within a region, each
    /// when nothing is left of the one before, on up to `threads` threads. The time when the last one's is done. What
    /// is asked for must not concern other regions.
    pub fn prepare(&mut self, threads: usize, what: impl Fn(&mut P, u32, &mut dyn Requests<P::Letter>) + Sync) -> SimTime {
        let first = self.fabric.own_regions().start;
        let mut ranks = vec![Vec::new(); self.cut() as usize];
        for rank in (0..self.places.processes.len() as u32).filter(|&rank| self.has(rank)) {
            ranks[(self.region_of(rank) - first) as usize].push(rank);
        }
        let done = self.fabric.each(threads, |region, alone| {
            let mut done = SimTime::ZERO;
            for &rank in &ranks[(region - first) as usize] {
                alone.act(|station, fabric| {
                    let (processes, mut requests) = station.requests(fabric);
                    what(processes, rank, &mut requests);
                });
                // One after the other: the commands of all together would take more memory than the processes.
                done = done.max(alone.drain());
                alone.agent().nics.trim(Process(rank));
            }
            done
        });
        done.into_iter().max().unwrap_or_default()
    }

    /// See [`Fabric::run_while`].
    pub fn run_while(&mut self, until: SimTime, threads: usize, go_on: &mut (dyn FnMut(SimTime) -> bool + Send)) -> bool {
        self.fabric.run_while(until, threads, go_on)
    }

    /// From now on, the start of simulated time, events count and enter the digest.
    pub fn start_recording(&mut self, epoch: SimTime) {
        self.fabric.rest();
        let under_way: i64 = self.fabric.agents().map(|station| station.above.under_way).sum();
        self.fabric.agents().for_each(|station| {
            (station.above.recording, station.above.epoch) = (true, epoch);
            station.wrappers.begin(epoch);
            if under_way == 0 {
                station.above.rest();
            }
        });
        self.before = self.totals();
        self.rails_before = self.rails();
        self.handlers_before = self.all_handlers();
        if let Some(background) = &self.background {
            let own = self.fabric.own_regions();
            let mut hosts = vec![Vec::new(); own.len()];
            for host in (0..self.hosts).filter(|&host| self.fabric.has(host)) {
                hosts[(self.fabric.region_of(host) - own.start) as usize].push(host);
            }
            for (region, hosts) in own.zip(hosts) {
                self.fabric.act(region, |station, fabric| station.wrappers.put(Beside::begin(background, &hosts, epoch, fabric)));
            }
        }
    }

    /// They do not any more, and background traffic ends.
    pub fn stop_recording(&mut self) {
        self.background = None;
        self.fabric.agents().for_each(|station| {
            station.above.recording = false;
            station.wrappers.end();
        });
    }

    fn totals(&mut self) -> Totals {
        let nics = self.statistics();
        let network = self.fabric.statistics();
        let troubles = self.fabric.agents().fold(narrows_nic::Troubles::default(), |mut sum, station| {
            sum += station.nics.troubles();
            sum
        });
        Totals {
            events: self.fabric.events(),
            messages: nics.messages,
            bytes: nics.bytes_sent,
            packets: network.packets,
            packet_hops: network.packet_hops,
            retries: nics.retries + troubles.refused,
            lost_packets: network.lost_packets + network.corrupt_packets,
            crc_errors: network.crc_errors,
            missed_errors: network.missed_errors,
            retransmissions: network.retransmissions + troubles.timeouts + troubles.page_faults,
            refused_accesses: troubles.denied,
        }
    }

    /// What happened since [`World::start_recording`].
    pub fn recorded(&mut self) -> Totals {
        let (now, before) = (self.totals(), self.before);
        Totals {
            events: now.events - before.events,
            messages: now.messages - before.messages,
            bytes: now.bytes - before.bytes,
            packets: now.packets - before.packets,
            packet_hops: now.packet_hops - before.packet_hops,
            retries: now.retries - before.retries,
            lost_packets: now.lost_packets - before.lost_packets,
            crc_errors: now.crc_errors - before.crc_errors,
            missed_errors: now.missed_errors - before.missed_errors,
            retransmissions: now.retransmissions - before.retransmissions,
            refused_accesses: now.refused_accesses - before.refused_accesses,
        }
    }

    /// By rail, what its NICs have done.
    fn rails(&mut self) -> Vec<RailTotals> {
        let mut rails = Vec::new();
        for port in (0..self.places.directory.ports()).map(PortId) {
            let (_, Rail(rail)) = self.places.directory.of_port(port);
            if rails.len() <= usize::from(rail) {
                rails.resize(usize::from(rail) + 1, RailTotals::default());
            }
            if !self.fabric.has(port.0) {
                continue;
            }
            let region = self.fabric.region_of(port.0);
            let station = self.fabric.agent(region);
            let nic = station.nics.port_statistics(port);
            let of_rail = &mut rails[usize::from(rail)];
            of_rail.messages += nic.messages;
            of_rail.bytes += nic.bytes_sent;
            let (carried, bytes) = station.wrappers.get::<Failover>().map_or((0, 0), |failover| failover.count(port.0));
            of_rail.carried += carried;
            of_rail.carried_bytes += bytes;
        }
        rails
    }

    /// By rail, what happened since [`World::start_recording`].
    pub fn recorded_by_rail(&mut self) -> Vec<RailTotals> {
        let now = self.rails();
        let before = self.rails_before.iter().copied().chain(std::iter::repeat(RailTotals::default()));
        let since = |(now, before): (RailTotals, RailTotals)| RailTotals {
            messages: now.messages - before.messages,
            bytes: now.bytes - before.bytes,
            carried: now.carried - before.carried,
            carried_bytes: now.carried_bytes - before.carried_bytes,
        };
        now.into_iter().zip(before).map(since).collect()
    }

    /// Fingerprint of the run: of what the processes of every node were told, and when.
    pub fn digest(&mut self) -> u64 {
        let mut digest = Digest::default();
        self.digests().iter().for_each(|&(_, of_port)| digest.word(of_port));
        digest.value()
    }

    /// That of the nodes of all processes; the first process has it.
    ///
    /// # Errors
    /// The processes cannot go on together.
    pub fn digest_of_all(&mut self) -> Result<u64, ProcessError> {
        let own = self.digests();
        let Some(processes) = self.fabric.processes() else { return Ok(self.digest()) };
        let mut all = processes.gather_at_first(&own)?.concat();
        all.sort_unstable();
        let mut digest = Digest::default();
        all.iter().for_each(|&(_, of_port)| digest.word(of_port));
        Ok(digest.value())
    }

    /// By port of this process.
    fn digests(&mut self) -> Vec<(u32, u64)> {
        let World { fabric, places, .. } = self;
        let own: Vec<u32> = (0..places.directory.ports()).filter(|&port| fabric.has(port)).collect();
        let mut of_port = |port: u32| {
            let region = fabric.region_of(port);
            fabric.agent(region).above.digests[places.locals[port as usize] as usize].value()
        };
        own.into_iter().map(|port| (port, of_port(port))).collect()
    }

    fn stations(&mut self) -> impl Iterator<Item = &mut Station<P, N>> {
        self.fabric.agents().take(self.with_nodes)
    }

    /// Whose command a NIC has refused first.
    #[inline]
    pub fn error(&mut self) -> Option<u32> {
        let errors = self.stations().filter_map(|station| station.error.as_ref());
        errors.map(|&(at, rank, _)| (at, rank)).min().map(|(_, rank)| rank)
    }

    /// The same, and why; it is forgotten then.
    pub fn take_error(&mut self) -> Option<(u32, CommandError)> {
        self.take_error_with_time().map(|(_, rank, error)| (rank, error))
    }

    /// The same, and when.
    pub fn take_error_with_time(&mut self) -> Option<(SimTime, u32, CommandError)> {
        self.fabric.agents().filter_map(|station| station.error.take()).min_by_key(|&(at, rank, _)| (at, rank))
    }

    /// The first flow that a port has given up when no other rail was left: what was sent there will never arrive.
    pub fn undelivered(&mut self) -> Option<Undelivered> {
        let first = self.stations().filter_map(|station| station.undelivered.clone());
        first.min_by_key(|undelivered| (undelivered.at, undelivered.from, undelivered.target))
    }

    /// The first access that a NIC has refused for its protection domain.
    #[inline]
    pub fn denied(&mut self) -> Option<Denied> {
        self.stations().filter_map(|station| station.above.denied).min_by_key(|denied| (denied.at, denied.process.0))
    }

    /// Messages that portal table entries with RETRY refuse for now.
    pub fn held(&mut self) -> u64 {
        self.fabric.agents().map(|station| station.nics.held()).sum()
    }

    /// What the NICs have done.
    pub fn statistics(&mut self) -> Statistics {
        let mut sum = Statistics::default();
        self.fabric.agents().for_each(|station| sum += station.nics.statistics());
        sum
    }

    /// What handlers on the NICs have done since [`World::start_recording`], where there are some.
    pub fn handlers(&mut self) -> Option<HandlerReport> {
        let mut now = self.all_handlers()?;
        self.handlers_before.iter().for_each(|before| now.subtract(before));
        Some(now)
    }

    fn all_handlers(&mut self) -> Option<HandlerReport> {
        self.fabric.agents().filter_map(|station| station.nics.handlers()).reduce(|mut sum, more| {
            sum.add(&more);
            sum
        })
    }

    /// Gives the memory back, on up to `threads` threads.
    pub fn dismantle(self, threads: usize) {
        self.fabric.dismantle(threads);
    }
}
