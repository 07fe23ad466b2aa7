//! The simulation: regions with the NICs at their hosts.

use crate::station::{Above, Places, RegionRequests, Station};
use crate::{Processes, Requests};
use narrows_engine::Digest;
use narrows_fabric::parallel::{Fabric, along_groups};
use narrows_fabric::{ConfigError, NetworkConfig, NetworkKind, Observer, Undelivered};
use narrows_nic::{AnyConfig, CommandError, Directory, Nics, Process, Statistics};
use narrows_portals::{Command, ProcessId};
use narrows_topology::Topology;
use narrows_units::{NodeId, SimTime};
use std::sync::Arc;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Messages that were refused for lack of room and repeated.
    pub retries: u64,
    /// Packets that links have lost or broken.
    pub lost_packets: u64,
    /// Packets that ports have sent again.
    pub retransmissions: u64,
}

/// The hardware, and where processes are.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The network.
    pub network: &'a NetworkConfig,
    /// Its graph.
    pub topology: Topology,
    /// The NICs.
    pub nic: AnyConfig,
    /// `places[i]` is where process i lives.
    pub places: &'a [ProcessId],
}

/// Everything simulated.
pub struct World<P: Processes> {
    fabric: Fabric<Station<P>>,
    places: Arc<Places>,
    kind: NetworkKind,
    before: Totals,
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
        World::assemble(setup, true, &mut |ranks| processes.take().expect("there is one region")(ranks))
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
        World::assemble(setup, false, &mut processes)
    }

    fn assemble(setup: Setup<'_>, whole: bool, processes: &mut dyn FnMut(&[u32]) -> P) -> Result<World<P>, ConfigError> {
        let Setup { network, topology, nic, places } = setup;
        let (nodes, count) = (topology.hosts(), places.len());
        let directory = Arc::new(Directory::new(nodes, places));
        // What takes no time from one NIC to another needs one region.
        let regions = if whole || nic.portals().quick_ack { vec![0; topology.switches() as usize] } else { along_groups(&topology) };
        let mut places = None;
        let fabric = Fabric::with_agents(network, topology, regions, |regions| {
            let (mut locals, mut numbers) = (vec![0; nodes as usize], vec![0; count]);
            let mut ranks: Vec<Vec<u32>> = Vec::new();
            for hosts in regions {
                (0u32..).zip(hosts).for_each(|(local, &host)| locals[host as usize] = local);
                let of_region = hosts.iter().flat_map(|&host| directory.processes_of(NodeId(host)));
                let mut of_region: Vec<u32> = of_region.map(|(_, process)| process.0).collect();
                of_region.sort_unstable();
                (0u32..).zip(&of_region).for_each(|(number, &rank)| numbers[rank as usize] = number);
                ranks.push(of_region);
            }
            let (mtu, lookahead) = (network.mtu.0, nic.portals().lookahead());
            let shared = Arc::new(Places { directory, nodes: locals.into(), processes: numbers, mtu, lookahead });
            places = Some(Arc::clone(&shared));
            let station = |(hosts, ranks): (&Vec<u32>, &Vec<u32>)| {
                let nodes: Vec<NodeId> = hosts.iter().copied().map(NodeId).collect();
                let nics = Nics::of(nic.clone(), Arc::clone(&shared.directory), &nodes, Arc::clone(&shared.nodes));
                Station::new(nics, processes(ranks), Above::new(Arc::clone(&shared), hosts.len(), ranks.len()))
            };
            regions.iter().zip(&ranks).map(station).collect()
        })?;
        let places = places.expect("the agents have been made");
        Ok(World { fabric, places, kind: network.kind, before: Totals::default() })
    }

    /// The least time from a command to its first effect.
    pub fn lookahead(&self) -> SimTime {
        self.places.lookahead
    }

    /// The users of the processes, which entries may ask for ([`narrows_portals::MatchEntry::uid`]); 0 until then.
    pub fn set_users(&mut self, user: impl Fn(Process) -> u32) {
        self.fabric.agents().for_each(|station| station.nics.set_users(&user));
    }

    /// Shows `observer` the network at work from now on; false, and nothing, on the LogGP network, which has no links.
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

    fn region_of(&self, rank: u32) -> u32 {
        self.fabric.region_of(self.places.node(rank))
    }

    /// Asks for something in the name of `rank`, after all that has happened.
    pub fn request<R>(&mut self, rank: u32, what: impl FnOnce(&mut P, &mut dyn Requests<P::Letter>) -> R) -> R {
        let region = self.region_of(rank);
        self.fabric.act(region, |station, fabric| what(&mut station.processes, &mut RegionRequests { above: &mut station.above, fabric }))
    }

    /// See [`Requests::submit`].
    #[inline]
    pub fn submit(&mut self, rank: u32, written: SimTime, command: Command) {
        self.request(rank, |_, requests| requests.submit(rank, written, command));
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<SimTime> {
        self.fabric.next_time()
    }

    /// The time of the last event of the only region, or that which all have reached.
    pub fn now(&self) -> SimTime {
        self.fabric.now()
    }

    /// The only region's next event.
    ///
    /// # Panics
    /// When there are several.
    #[inline]
    pub fn step(&mut self) {
        self.fabric.step();
    }

    /// Until nothing is left in the region of `rank`, as far as it does not concern others; the time that it has
    /// reached.
    pub fn drain(&mut self, rank: u32) -> SimTime {
        let region = self.region_of(rank);
        self.fabric.drain(region)
    }

    /// Has every process ask for something, before simulated time starts: one after the other within a region, each
    /// when nothing is left of the one before, on up to `threads` threads. The time when the last one's is done. What
    /// is asked for must not concern other regions.
    pub fn prepare(&mut self, threads: usize, what: impl Fn(&mut P, u32, &mut dyn Requests<P::Letter>) + Sync) -> SimTime {
        let mut ranks = vec![Vec::new(); self.cut() as usize];
        (0..self.places.processes.len() as u32).for_each(|rank| ranks[self.region_of(rank) as usize].push(rank));
        let done = self.fabric.each(threads, |region, alone| {
            let mut done = SimTime::ZERO;
            for &rank in &ranks[region as usize] {
                alone.act(|station, fabric| {
                    what(&mut station.processes, rank, &mut RegionRequests { above: &mut station.above, fabric });
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
        self.fabric.agents().for_each(|station| (station.above.recording, station.above.epoch) = (true, epoch));
        self.before = self.totals();
    }

    /// They do not any more.
    pub fn stop_recording(&mut self) {
        self.fabric.agents().for_each(|station| station.above.recording = false);
    }

    fn totals(&mut self) -> Totals {
        let nics = self.statistics();
        let network = self.fabric.statistics();
        Totals {
            events: self.fabric.events(),
            messages: nics.messages,
            bytes: nics.bytes_sent,
            packets: network.packets,
            packet_hops: network.packet_hops,
            retries: nics.retries,
            lost_packets: network.lost_packets + network.corrupt_packets,
            retransmissions: network.retransmissions,
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
            retransmissions: now.retransmissions - before.retransmissions,
        }
    }

    /// Fingerprint of the run: of what the processes of every node were told, and when.
    pub fn digest(&mut self) -> u64 {
        let mut digest = Digest::default();
        for node in 0..self.places.directory.nodes() {
            let region = self.fabric.region_of(node);
            let local = self.places.nodes[node as usize] as usize;
            digest.word(self.fabric.agent(region).above.digests[local].value());
        }
        digest.value()
    }

    /// Whose command a NIC has refused first.
    #[inline]
    pub fn error(&mut self) -> Option<u32> {
        let errors = self.fabric.agents().filter_map(|station| station.error.as_ref());
        errors.map(|&(at, rank, _)| (at, rank)).min().map(|(_, rank)| rank)
    }

    /// The same, and why; it is forgotten then.
    pub fn take_error(&mut self) -> Option<(u32, CommandError)> {
        let first = self.fabric.agents().filter_map(|station| station.error.take()).min_by_key(|&(at, rank, _)| (at, rank));
        first.map(|(_, rank, error)| (rank, error))
    }

    /// The first flow that a port has given up: what was sent there will never arrive.
    pub fn undelivered(&mut self) -> Option<Undelivered> {
        let first = self.fabric.agents().filter_map(|station| station.undelivered);
        first.min_by_key(|undelivered| (undelivered.at, undelivered.from, undelivered.target))
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

    /// Gives the memory back, on up to `threads` threads.
    pub fn dismantle(self, threads: usize) {
        self.fabric.dismantle(threads);
    }
}
