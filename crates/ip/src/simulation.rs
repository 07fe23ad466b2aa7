//! A network with hosts, from its first event to what is measured.

use crate::error::IpError;
use crate::flow::{Counts, Flow, FlowKind};
use crate::gateway::Gateway;
use crate::host::{CpuTimes, Host, Plan};
use crate::nodes::{PID, Places, Region, What};
use narrows_engine::Digest;
use narrows_fabric::Undelivered;
use narrows_machine::Ip;
use narrows_portals::ProcessId;
use narrows_results::Histogram;
use narrows_sim::{Hardware, Setup as World, World as Simulated};
use narrows_units::{NodeId, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where simulated time starts.
pub const EPOCH: SimTime = SimTime::from_us(1_000_000);
/// Windows of the regions between two looks at the caller's wish to go on.
const LOOK_EVERY: u32 = 64;
/// Most flows.
const FLOWS_MAX: usize = 1 << 16;

/// What is simulated.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Networks and NICs.
    pub hardware: Hardware<'a>,
    /// Devices.
    pub ip: Ip,
    /// Who talks to whom.
    pub flows: Vec<Flow>,
    /// Of the pauses between pings.
    pub seed: u64,
    /// Before the measurement.
    pub warmup: SimTime,
    /// Of the measurement; none: until nothing is left to do.
    pub time: Option<SimTime>,
    /// Of the simulator.
    pub threads: usize,
    /// One region, whatever the network.
    pub whole: bool,
}

/// What came of a flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// What it was.
    pub flow: Flow,
    /// In the measurement.
    pub counts: Counts,
    /// Round trips of pings in picoseconds, of the whole run.
    pub round_trips: Histogram,
}

/// CPU time of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostReport {
    /// Its number.
    pub host: u32,
    /// In the measurement.
    pub cpu: CpuTimes,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Report {
    /// In their order.
    pub flows: Vec<FlowReport>,
    /// Of hosts with flows, in their order.
    pub hosts: Vec<HostReport>,
    /// How long was measured.
    pub measured: SimTime,
    /// ... and simulated.
    pub simulated: SimTime,
    /// Messages of the NICs in the whole run.
    pub messages: u64,
    /// Packets of the network in the whole run.
    pub packets: u64,
    /// Events of the simulator.
    pub events: u64,
    /// Of what programs got, and when.
    pub digest: u64,
    /// It was ended early.
    pub partial: bool,
}

#[derive(Default)]
struct Snapshot {
    counts: BTreeMap<u32, Counts>,
    cpu: BTreeMap<u32, CpuTimes>,
}

/// Runs flows over a network. `go_on` is told the simulated time now and then, and ends the run when it says no.
///
/// # Errors
/// See [`IpError`].
pub fn run(setup: Setup<'_>, go_on: &mut (dyn FnMut(SimTime) -> bool + Send)) -> Result<Report, IpError> {
    let nodes = setup.hardware.nodes;
    check(&setup, nodes)?;
    let Setup { hardware, ip, flows, seed, warmup, time, threads, whole } = setup;
    let plan = Arc::new(Plan { ip, flows, seed });
    let places = Arc::new(places(&plan, nodes));
    let processes = places.processes.clone();
    let of_rank: Vec<NodeId> = processes.iter().filter_map(|process| process.node()).collect();
    let what = |rank: u32| {
        let node = of_rank[rank as usize].0;
        if ip.gateway.hosts > 0 && node == ip.gateway.node {
            let hosts = (nodes..nodes + ip.gateway.hosts).filter(|host| places.ranks.contains_key(host));
            return What::Gateway(Gateway::new(&plan, hosts.map(|host| Host::new(host, &plan, false)).collect()));
        }
        What::Host(Box::new(Host::new(node, &plan, true)))
    };
    let region = |ranks: &[u32]| Region::new(&plan, &places, ranks, what);
    let setup = World { hardware, places: &processes };
    let mut world = if whole { Simulated::whole(setup, region)? } else { Simulated::regions(setup, region)? };
    let opened = world.prepare(threads, |_, rank, requests| Region::open(rank, requests));
    let epoch = SimTime(opened.as_ps().max(1).div_ceil(EPOCH.as_ps()) * EPOCH.as_ps());
    world.start_recording(epoch);
    for rank in 0..processes.len() as u32 {
        world.request(rank, |region, requests| region.begin(rank, epoch, requests));
    }
    let (mut looks, mut partial) = (0, false);
    let mut advance = |world: &mut Simulated<Region>, until: SimTime| {
        let every = if world.cut() > 1 { 1 } else { LOOK_EVERY };
        let mut look = |now: SimTime| {
            looks += 1;
            partial = partial || (looks % every == 0 && !go_on(now.saturating_sub(epoch)));
            !partial
        };
        world.run_while(until, threads, &mut look);
        partial
    };
    let mut before = Snapshot::default();
    let (begin, end) = match time {
        Some(time) => {
            let begin = epoch + warmup;
            if !advance(&mut world, begin) {
                before = snapshot(&mut world, epoch, begin);
                advance(&mut world, begin + time);
            }
            (begin, world.now().min(begin + time).max(begin))
        }
        None => {
            advance(&mut world, SimTime::END);
            (epoch, SimTime::ZERO)
        }
    };
    if let Some((_, error)) = world.take_error() {
        return Err(IpError::Failed(format!("a NIC refused a command: {error}")));
    }
    if let Some(undelivered) = world.undelivered() {
        let at = undelivered.at.saturating_sub(epoch);
        return Err(IpError::Failed(Undelivered { at, ..undelivered }.to_string()));
    }
    if let Some(failed) = world.all().find_map(|region| region.failed) {
        return Err(IpError::Failed(format!("a message of node {} was not delivered", failed.nid)));
    }
    // Without a time: until the last of them was done.
    let end = if time.is_some() {
        end
    } else {
        world.all().flat_map(|region| region.hosts().map(Host::last).collect::<Vec<_>>()).max().unwrap_or(epoch).max(epoch)
    };
    let after = snapshot(&mut world, epoch, end);
    let mut round_trips: BTreeMap<u32, Histogram> = BTreeMap::new();
    let mut digests = BTreeMap::new();
    for host in world.all().flat_map(|region| region.hosts().collect::<Vec<_>>()) {
        round_trips.extend(host.round_trips().map(|(flow, times)| (flow, times.clone())));
        digests.insert(host.number(), host.digest.value());
    }
    let mut digest = Digest::default();
    digests.values().for_each(|&of_host| digest.word(of_host));
    digest.word(world.digest());
    let report = |(number, flow): (u32, &Flow)| FlowReport {
        flow: flow.clone(),
        counts: of(&after.counts, number).since(of(&before.counts, number)),
        round_trips: round_trips.remove(&number).unwrap_or_default(),
    };
    let flows = (0u32..).zip(&plan.flows).map(report).collect();
    let hosts = after.cpu.iter().map(|(&host, &cpu)| HostReport { host, cpu: cpu.since(of(&before.cpu, host)) }).collect();
    let totals = world.recorded();
    let (measured, simulated) = (end.saturating_sub(begin), end.saturating_sub(epoch));
    let report = Report {
        flows,
        hosts,
        measured,
        simulated,
        messages: totals.messages,
        packets: totals.packets,
        events: totals.events,
        digest: digest.value(),
        partial,
    };
    world.dismantle(threads);
    Ok(report)
}

fn of<T: Copy + Default>(map: &BTreeMap<u32, T>, key: u32) -> T {
    map.get(&key).copied().unwrap_or_default()
}

fn snapshot(world: &mut Simulated<Region>, begin: SimTime, now: SimTime) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for region in world.all() {
        let mut add =
            |counts: &BTreeMap<u32, Counts>| counts.iter().for_each(|(&flow, &more)| *snapshot.counts.entry(flow).or_default() += more);
        region.hosts().for_each(|host| add(host.counts()));
        region.gateway().into_iter().for_each(|gateway| add(&gateway.counts));
        snapshot.cpu.extend(region.hosts().map(|host| (host.number(), host.cpu(begin, now))));
    }
    snapshot
}

/// Processes at the ports of hosts with flows.
fn places(plan: &Plan, nodes: u32) -> Places {
    let hosts: std::collections::BTreeSet<u32> = plan.flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    let node_of = |host: u32| if host < nodes { host } else { plan.ip.gateway.node };
    let ports: std::collections::BTreeSet<u32> = hosts.iter().map(|&host| node_of(host)).collect();
    let rank: BTreeMap<u32, u32> = ports.iter().copied().zip(0..).collect();
    Places {
        ranks: hosts.iter().map(|&host| (host, rank[&node_of(host)])).collect(),
        processes: ports.iter().map(|&node| ProcessId::on(NodeId(node), PID)).collect(),
    }
}

fn check(setup: &Setup<'_>, nodes: u32) -> Result<(), IpError> {
    let Setup { ip, flows, time, .. } = setup;
    let wrong = |flow: &Flow, why: String| Err(IpError::Flow { from: flow.from, to: flow.to, why });
    if flows.is_empty() || flows.len() > FLOWS_MAX {
        return Err(IpError::Contradiction(format!("{} flows: expected 1 to {FLOWS_MAX}", flows.len())));
    }
    let room = ip.mtu.0 - ip.header.0;
    for flow in flows {
        for host in [flow.from, flow.to] {
            if host >= nodes + ip.gateway.hosts {
                let there = match ip.gateway.hosts {
                    0 => format!("the machine has the nodes 0 to {}, and no gateway (ip.gateway.hosts)", nodes - 1),
                    hosts => format!("nodes are 0 to {}, hosts behind the gateway {nodes} to {}", nodes - 1, nodes + hosts - 1),
                };
                return Err(IpError::Host { host, there });
            }
            if ip.gateway.hosts > 0 && host == ip.gateway.node {
                return wrong(flow, format!("node {host} is the gateway, which has no programs: take another one"));
            }
        }
        if flow.from == flow.to {
            return wrong(flow, String::from("a host does not use the network to itself: take two"));
        }
        if flow.from >= nodes && flow.to >= nodes {
            return wrong(flow, String::from("both are behind the gateway: take a node of the network for one of them"));
        }
        let bytes = flow.kind.bytes().0;
        let least = u64::from(!matches!(flow.kind, FlowKind::Ping { .. }));
        if bytes < least || bytes > room {
            return wrong(flow, format!("packets of {bytes} B: expected {least} to {room} B, ip.mtu less ip.header (packets are not cut)"));
        }
        if let FlowKind::Ping { count, interval, .. } = flow.kind
            && (count == 0 || interval == SimTime::ZERO)
        {
            return wrong(flow, format!("{count} pings every {interval}: expected 1 and more, and a time above 0"));
        }
        if time.is_none() && !flow.kind.ends() {
            return wrong(flow, String::from("the flow has no end: the run needs a time"));
        }
    }
    if *time == Some(SimTime::ZERO) {
        return Err(IpError::Contradiction(String::from("a measurement of no time: expected more than 0 s")));
    }
    Ok(())
}
