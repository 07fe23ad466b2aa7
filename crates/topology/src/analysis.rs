//! What a topology and a routing can carry, without simulating it: channel loads (Dally and Towles, 2004, chapter 3),
//! mean hops, bisection.
//!
//! Every host offers 1. A link that would have to carry more than its rate limits what each host can send: with
//! infinite buffers and ideal arbitration the network saturates at the least quotient of rate and load over all links
//! ([`ChannelLoads::limit`]).

use crate::fat_tree::FatTree;
use crate::fat_tree_routing::FatTreeRouting;
use crate::graph::{LinkClass, LinkId, Shape, Topology, Vertex};
use crate::guide::{Guide, Policy};
use crate::routing::{Routing, RoutingKind, RoutingOptions};

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every host to every other, evenly.
    Uniform,
    /// Every host of group `i` to every host of group `i + k`, evenly ("ADV+k").
    Adversarial(u32),
}

/// Loads when every host offers 1, in units of what a host offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelLoads {
    /// By link.
    pub loads: Vec<f64>,
    /// Links of a packet's way on average, host links included.
    pub mean_links: f64,
}

impl ChannelLoads {
    /// What every host can send at most, as a fraction of the rate of its link, and the link that limits it. `rates`:
    /// by [`Link::speed`](crate::Link), relative to host links.
    pub fn limit(&self, topology: &Topology, rates: &[f64]) -> (f64, LinkId) {
        let mut worst = (1.0, 0);
        for (index, (&load, link)) in self.loads.iter().zip(topology.links()).enumerate() {
            let limit = rates[usize::from(link.speed)] / load;
            if limit < worst.0 {
                worst = (limit, index as LinkId);
            }
        }
        worst
    }

    /// The largest load of a class of links; 0 when there are none.
    pub fn most(&self, topology: &Topology, class: LinkClass) -> f64 {
        let of_class = self.loads.iter().zip(topology.links()).filter(|(_, link)| link.class == class);
        of_class.map(|(&load, _)| load).fold(0.0, f64::max)
    }
}

/// More steps of ways than this are not taken: some seconds.
const STEPS_MAX: u64 = 600_000_000;

/// Hosts of every switch, and the share of a switch's traffic that goes to each host of another.
struct Offer {
    hosts: Vec<u32>,
    total: u32,
    groups: u32,
    of_group: Vec<u32>,
    pattern: Pattern,
}

impl Offer {
    fn new(topology: &Topology, pattern: Pattern) -> Offer {
        let mut hosts = vec![0; topology.switches() as usize];
        let mut of_group = vec![0; topology.groups() as usize];
        for host in 0..topology.hosts() {
            let switch = topology.switch_of(host);
            hosts[switch as usize] += 1;
            of_group[topology.group(switch) as usize] += 1;
        }
        Offer { hosts, total: topology.hosts(), groups: topology.groups(), of_group, pattern }
    }

    /// What all hosts of `source` send to one host of `target`, together.
    fn flow(&self, topology: &Topology, source: u32, target: u32) -> f64 {
        let hosts = f64::from(self.hosts[source as usize]);
        match self.pattern {
            Pattern::Uniform if self.total > 1 => (hosts - if source == target { 1.0 } else { 0.0 }) / f64::from(self.total - 1),
            Pattern::Uniform => 0.0,
            Pattern::Adversarial(shift) => {
                let there = (topology.group(source) + shift) % self.groups;
                if topology.group(target) == there { hosts / f64::from(self.of_group[there as usize]) } else { 0.0 }
            }
        }
    }
}

/// Channel loads under a routing that does not look at loads: minimal, D-mod-K, S-mod-K, dimension order, Valiant,
/// tables; and adaptive ways up, taken as evenly spread. `None` for UGAL, PAR and what else looks at loads, which has
/// no closed form, and for what would take more than some seconds.
pub fn channel_loads(topology: &Topology, kind: RoutingKind, pattern: Pattern) -> Option<ChannelLoads> {
    let routing = Routing::new(kind, topology, RoutingOptions::default()).ok()?;
    let offer = Offer::new(topology, pattern);
    let mut sum = Sum { topology, loads: vec![0.0; topology.links().len()], links: 0.0 };
    for host in 0..topology.hosts() {
        sum.loads[topology.injection(host) as usize] = 1.0;
    }
    match (&routing, topology.shape()) {
        (Routing::FatTree(routing), Shape::FatTree(tree)) => tree_loads(routing, tree, kind, &offer, &mut sum),
        (Routing::Dragonfly(routing), _) => detour_loads(&routing.guide, routing.policy, &offer, &mut sum),
        (Routing::DragonflyPlus(routing), _) => detour_loads(&routing.guide, routing.policy, &offer, &mut sum),
        (Routing::Torus(routing), _) => detour_loads(&routing.guide, routing.policy, &offer, &mut sum),
        (Routing::HyperX(routing), _) => detour_loads(&routing.guide, routing.policy, &offer, &mut sum),
        (Routing::Table(routing), _) => detour_loads(&routing.guide, routing.policy, &offer, &mut sum),
        (Routing::AdaptiveTorus(_) | Routing::AdaptiveHyperX(_) | Routing::AdaptiveTable(_), _) => None,
        (Routing::FatTree(_), _) => unreachable!("fat trees are routed as fat trees"),
    }?;
    let offered: f64 = sum.loads[..topology.hosts() as usize].iter().sum();
    let mean_links = if offered > 0.0 { 2.0 + sum.links / offered } else { 0.0 };
    Some(ChannelLoads { loads: sum.loads, mean_links })
}

struct Sum<'a> {
    topology: &'a Topology,
    loads: Vec<f64>,
    /// Links between switches, times what takes them.
    links: f64,
}

impl Sum<'_> {
    fn take(&mut self, link: LinkId, flow: f64) -> u32 {
        self.loads[link as usize] += flow;
        self.links += flow;
        match self.topology.links()[link as usize].to {
            Vertex::Switch(switch) => switch,
            Vertex::Host(_) => unreachable!("a way between switches"),
        }
    }
}

fn detour_loads(guide: &impl Guide, policy: Policy, offer: &Offer, sum: &mut Sum<'_>) -> Option<()> {
    let topology = sum.topology;
    let switches: Vec<u32> = (0..topology.switches()).filter(|&switch| offer.hosts[switch as usize] > 0).collect();
    let pairs = match offer.pattern {
        Pattern::Uniform => switches.len() as u64 * switches.len() as u64,
        Pattern::Adversarial(_) => switches.len() as u64 * (switches.len() as u64 / u64::from(offer.groups) + 1),
    };
    let ways = if policy == Policy::Valiant { u64::from(guide.waypoints()) } else { 1 };
    let spreads = guide.spreads();
    if !matches!(policy, Policy::Minimal | Policy::Valiant) || pairs * ways * u64::from(spreads.min(16)) * 4 > STEPS_MAX {
        return None;
    }
    let mut hosts_of: Vec<Vec<u32>> = vec![Vec::new(); topology.switches() as usize];
    (0..topology.hosts()).for_each(|host| hosts_of[guide.home(host) as usize].push(host));
    for &target in &switches {
        // Hosts with the same spread share their ways.
        let mut classes: Vec<(u32, f64)> = Vec::new();
        for &host in &hosts_of[target as usize] {
            let of_host = guide.spread(host) % spreads;
            match classes.iter_mut().find(|(spread, _)| *spread == of_host) {
                Some((_, count)) => *count += 1.0,
                None => classes.push((of_host, 1.0)),
            }
        }
        for &source in &switches {
            let each = offer.flow(topology, source, target);
            if each == 0.0 {
                continue;
            }
            for &host in &hosts_of[target as usize] {
                sum.loads[topology.ejection(host) as usize] += each;
            }
            if source == target {
                continue;
            }
            for &(spread, count) in &classes {
                let flow = each * count;
                let direct = |mut at: u32, flow: f64, sum: &mut Sum<'_>| {
                    while at != target {
                        at = sum.take(guide.toward(at, target, spread).link, flow);
                    }
                };
                let (here, there) = (guide.waypoint(source), guide.waypoint(target));
                let choices = (0..guide.waypoints()).filter(|&way| way != here && way != there && guide.can_pass(source, way));
                if policy == Policy::Minimal {
                    direct(source, flow, sum);
                    continue;
                }
                let count = choices.clone().count();
                if count == 0 {
                    direct(source, flow, sum);
                }
                for way in choices {
                    let flow = flow / count as f64;
                    let mut at = source;
                    while at != target && guide.waypoint(at) != way {
                        at = sum.take(guide.toward_waypoint(at, way, spread).link, flow);
                    }
                    direct(at, flow, sum);
                }
            }
        }
    }
    Some(())
}

fn tree_loads(routing: &FatTreeRouting, tree: &FatTree, kind: RoutingKind, offer: &Offer, sum: &mut Sum<'_>) -> Option<()> {
    let topology = sum.topology;
    let leaves = tree.switches(1);
    let used: Vec<u32> = (0..leaves).filter(|&leaf| offer.hosts[leaf as usize] > 0).collect();
    let hosts = |leaf: u32| leaf * tree.children(1)..((leaf + 1) * tree.children(1)).min(tree.hosts());
    let steps = used.len() as u64 * u64::from(tree.hosts()) * 2 * tree.levels() as u64;
    if steps > STEPS_MAX {
        return None;
    }
    // By switch, what waits to go on; the switches of a way come in the order up, then down.
    let mut flows = vec![0.0; topology.switches() as usize];
    for &target in &used {
        for host in hosts(target) {
            let from_all = used.iter().map(|&source| offer.flow(topology, source, target));
            sum.loads[topology.ejection(host) as usize] += from_all.sum::<f64>();
        }
        if kind == RoutingKind::Adaptive {
            for &source in used.iter().filter(|&&source| source != target) {
                flows[source as usize] = offer.flow(topology, source, target) * f64::from(offer.hosts[target as usize]);
            }
            let first = hosts(target).start;
            // Upwards, then downwards: a switch's parents have higher numbers.
            for switch in (0..topology.switches()).chain((0..topology.switches()).rev()) {
                let flow = std::mem::take(&mut flows[switch as usize]);
                if flow == 0.0 || switch == target {
                    continue;
                }
                let choices: Vec<LinkId> = routing.choices(switch, first, 0).collect();
                for &link in &choices {
                    let share = flow / choices.len() as f64;
                    let next = sum.take(link, share);
                    flows[next as usize] += share;
                }
            }
            flows[target as usize] = 0.0;
            continue;
        }
        for &source in used.iter().filter(|&&source| source != target) {
            let each = offer.flow(topology, source, target);
            if each == 0.0 {
                continue;
            }
            let keys = if kind == RoutingKind::SModK { hosts(source) } else { hosts(target) };
            let (count, others) = (f64::from(keys.end - keys.start), f64::from(offer.hosts[target as usize]));
            for key in keys {
                let (host, flow) = if kind == RoutingKind::SModK { (hosts(target).start, each * others / count) } else { (key, each) };
                let mut at = source;
                while at != target {
                    let link = routing.choices(at, host, key).next()?;
                    at = sum.take(link, flow);
                }
            }
        }
    }
    Some(())
}

/// Cables between the first and the second half of the hosts, in their order; switches without hosts stand on the side
/// of most of their cables. For the topologies of this crate the halves are groups, pods or planes, and the cut is the
/// bisection; for a graph from a file it is an upper bound of it.
pub fn bisection(topology: &Topology) -> Cut {
    let half = topology.hosts() / 2;
    let mut side: Vec<Option<bool>> = vec![None; topology.switches() as usize];
    for host in 0..topology.hosts() {
        side[topology.switch_of(host) as usize].get_or_insert(host >= half);
    }
    let alive = |switch: u32| topology.outputs(switch).filter(|&link| !topology.is_failed(link));
    let ends = |switch: u32| {
        alive(switch).filter_map(|link| match topology.links()[link as usize].to {
            Vertex::Switch(peer) => Some(peer),
            Vertex::Host(_) => None,
        })
    };
    // Level by level, away from the hosts.
    loop {
        let open: Vec<u32> = (0..topology.switches()).filter(|&switch| side[switch as usize].is_none()).collect();
        let decided: Vec<(u32, bool)> = open
            .iter()
            .filter_map(|&switch| {
                let (mut first, mut second) = (0, 0);
                for peer in ends(switch) {
                    match side[peer as usize] {
                        Some(false) => first += 1,
                        Some(true) => second += 1,
                        None => {}
                    }
                }
                (first + second > 0).then_some((switch, second > first))
            })
            .collect();
        if decided.is_empty() {
            break;
        }
        decided.iter().for_each(|&(switch, second)| side[switch as usize] = Some(second));
    }
    let mut cut = Cut { local: 0, global: 0, speeds: vec![0; topology.speeds().len()] };
    for (index, link) in topology.links().iter().enumerate() {
        if let (Vertex::Switch(one), Vertex::Switch(other)) = (link.from, link.to)
            && one < other
            && !topology.is_failed(index as LinkId)
            && side[one as usize].unwrap_or(false) != side[other as usize].unwrap_or(false)
        {
            *(if link.class == LinkClass::Global { &mut cut.global } else { &mut cut.local }) += 1;
            cut.speeds[usize::from(link.speed)] += 1;
        }
    }
    cut
}

/// Cables between two halves of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Of [`LinkClass::Switch`].
    pub local: u32,
    /// Of [`LinkClass::Global`].
    pub global: u32,
    /// All of them, by [`Link::speed`](crate::Link).
    pub speeds: Vec<u32>,
}
