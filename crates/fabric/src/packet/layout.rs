//! How a network is cut into regions, and who is who in each.

use crate::{NetworkConfig, NetworkKind};
use narrows_topology::{Topology, Vertex};

/// Who is where. A region owns its switches, their hosts (or all hosts, which have a region of their own then), and
/// every link that starts at one of them; it numbers its hosts, its links (those of its hosts first, in their order)
/// and the links that end in it.
#[derive(Debug)]
pub(crate) struct Layout {
    pub topology: Topology,
    pub regions: u32,
    /// Hosts are in another region than their switches.
    pub hosts_apart: bool,
    /// By host: its region and its number there, which is also that of its link.
    pub hosts: Vec<(u32, u32)>,
    /// By switch.
    pub region_of: Vec<u32>,
    /// By link: its number in the region that feeds it.
    pub output: Vec<u32>,
    /// By link: its number among those that end in the region where it ends.
    pub input: Vec<u32>,
    /// By region: the links that start, and that end there, in the order of their numbers.
    pub starting: Vec<Vec<u32>>,
    pub ending: Vec<Vec<u32>>,
}

impl Layout {
    /// Everything in one region.
    pub(crate) fn whole(topology: Topology) -> Layout {
        let regions = vec![0; topology.switches() as usize];
        Layout::new(topology, regions, None, 1)
    }

    /// `region_of`: by switch, below `regions`. `hosts`: the region of all hosts, if that is not the one of their
    /// switch.
    pub(crate) fn new(topology: Topology, region_of: Vec<u32>, hosts: Option<u32>, regions: u32) -> Layout {
        let mut starting = vec![Vec::new(); regions as usize];
        let mut ending = starting.clone();
        let links = topology.links();
        let home = |vertex: Vertex| match (vertex, hosts) {
            (Vertex::Switch(switch), _) => region_of[switch as usize],
            (Vertex::Host(_), Some(region)) => region,
            (Vertex::Host(host), None) => match links[topology.injection(host) as usize].to {
                Vertex::Switch(switch) => region_of[switch as usize],
                Vertex::Host(_) => 0,
            },
        };
        // The links of hosts come first in the topology's order, too.
        let (mut output, mut input) = (Vec::with_capacity(links.len()), Vec::with_capacity(links.len()));
        for (number, link) in links.iter().enumerate() {
            let (starting, ending) = (&mut starting[home(link.from) as usize], &mut ending[home(link.to) as usize]);
            output.push(starting.len() as u32);
            input.push(ending.len() as u32);
            starting.push(number as u32);
            ending.push(number as u32);
        }
        let apart = hosts.is_some();
        let hosts = (0..topology.hosts()).map(|host| (home(Vertex::Host(host)), output[host as usize])).collect();
        Layout { hosts_apart: apart, hosts, output, input, starting, ending, regions, region_of, topology }
    }

    /// The region of a vertex.
    pub(crate) fn home(&self, vertex: Vertex) -> u32 {
        match vertex {
            Vertex::Host(host) => self.hosts[host as usize].0,
            Vertex::Switch(switch) => self.region_of[switch as usize],
        }
    }
}

/// Most regions: what each has for each of the others must not outgrow what it has for itself.
const MOST_REGIONS: u32 = 512;

/// The region of every switch: along the groups of the topology, or on the LogGP network a region for the hosts of each
/// switch.
pub fn regions(config: &NetworkConfig, topology: &Topology) -> Vec<u32> {
    if config.kind == NetworkKind::LogGp { crate::loggp::regions(topology, MOST_REGIONS) } else { along_groups(topology) }
}

/// The region of every switch, along the groups of the topology; several groups each where there are too many.
pub fn along_groups(topology: &Topology) -> Vec<u32> {
    let groups: Vec<u32> = (0..topology.switches()).map(|switch| topology.group(switch)).collect();
    let count = groups.iter().max().map_or(1, |last| last + 1);
    let regions = count.min(MOST_REGIONS);
    groups.iter().map(|&group| (u64::from(group) * u64::from(regions) / u64::from(count)) as u32).collect()
}
