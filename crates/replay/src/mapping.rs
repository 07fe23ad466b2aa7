//! Where the ranks of several traces run.

use crate::collectives::{Groups, Layout};
use crate::error::ReplayError;
use narrows_machine::{Machine, Placement, PlacementError, fill, placement};
use narrows_portals::ProcessId;
use narrows_topology::{LinkClass, Topology, Vertex};
use narrows_units::{NodeId, ProcessorId};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// How ranks are spread over the nodes; on the processors of their hosts, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// As `--placement` of live runs, all traces one after the other: consecutive nodes, nodes in a random order, or a
    /// file.
    Placed(Placement),
    /// Of k traces, the i-th has the nodes of every k-th switch, from the i-th on.
    Switch,
    /// Of k traces, the i-th has every k-th node, from the i-th on.
    Node,
    /// The i-th trace has the i-th processor of every node: the first one those of the hosts.
    Processor,
}

/// `switch`, `node`, `processor`; anything else as `--placement`.
impl FromStr for Mapping {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Mapping, PlacementError> {
        match text {
            "switch" => Ok(Mapping::Switch),
            "node" => Ok(Mapping::Node),
            "processor" => Ok(Mapping::Processor),
            _ => text.parse().map(Mapping::Placed),
        }
    }
}

/// The processor of each rank of each trace; `joined`: the nodes on the first network, in the order of its hosts;
/// `ranks`: how many each trace has. `ppn`: most ranks on one processor; without it as few as needed.
///
/// # Errors
/// They do not fit; the message says what to do.
pub fn processors(
    mapping: &Mapping,
    machine: &Machine,
    (topology, joined): (&Topology, &[NodeId]),
    ppn: Option<u32>,
    ranks: &[u32],
) -> Result<Vec<Vec<ProcessorId>>, ReplayError> {
    let all = ranks.iter().try_fold(0u32, |sum, count| sum.checked_add(*count));
    let all = all.ok_or(ReplayError::Ranks)?;
    match mapping {
        Mapping::Placed(kind) => {
            let mut placed = placement(kind, machine, ppn, all)?.into_iter();
            Ok(ranks.iter().map(|&count| placed.by_ref().take(count as usize).collect()).collect())
        }
        Mapping::Switch | Mapping::Node | Mapping::Processor => {
            let turn = |host: u32| match (mapping, topology.links()[topology.injection(host) as usize].to) {
                (Mapping::Switch, Vertex::Switch(switch)) => switch,
                _ => host,
            };
            // Switches with hosts, in the order of their first host.
            let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
            let mut shares: Vec<Vec<ProcessorId>> = vec![Vec::new(); ranks.len()];
            for (host, &node) in (0u32..).zip(joined) {
                let of_node = machine.node(node);
                if !of_node.gateway.is_empty() {
                    continue;
                }
                if *mapping == Mapping::Processor {
                    let processors = (0..=u8::MAX).zip(machine.processors(of_node));
                    processors.zip(&mut shares).for_each(|((number, _), share)| share.push(ProcessorId { node, number }));
                    continue;
                }
                let next = turns.len();
                let place = *turns.entry(turn(host)).or_insert(next);
                shares[place % ranks.len()].push(ProcessorId::host(node));
            }
            let cores = |(_, node)| machine.processors(node).map(|(_, processor)| processor.cores);
            let most = machine.parts().flat_map(cores).max().unwrap_or(0);
            let placed = ranks.iter().zip(&shares).enumerate().map(|(index, (&count, share))| {
                let placed = if ppn > Some(most) { None } else { fill(machine, share, ppn, count) };
                placed.ok_or_else(|| {
                    let cores: BTreeSet<u32> = share.iter().map(|&id| machine.processor(id).1.cores).collect();
                    let cores = cores.into_iter().collect();
                    ReplayError::Share { trace: index + 1, ranks: count, processors: share.len(), cores }
                })
            });
            placed.collect()
        }
    }
}

/// Processes of one node are numbered in the order of the ranks.
pub fn processes(placed: &[Vec<ProcessorId>]) -> Vec<Vec<ProcessId>> {
    let places = ProcessId::numbered(placed.iter().flatten().map(|id| id.node));
    let mut rest = places.as_slice();
    placed.iter().map(|trace| rest.split_off(..trace.len()).map_or_else(Vec::new, <[ProcessId]>::to_vec)).collect()
}

/// Where these ranks are, for broadcasts that look at it (GLF, LLF, hardware).
pub fn layout((topology, joined): (&Topology, &[NodeId]), placed: &[ProcessorId]) -> Layout {
    let hosts: Option<Vec<u32>> = placed.iter().map(|id| joined.binary_search(&id.node).ok().map(|host| host as u32)).collect();
    Layout {
        nodes: placed.iter().map(|id| id.node.0).collect(),
        groups: hosts.and_then(|hosts| groups(topology, &hosts)),
        accelerator: None,
    }
}

fn groups(topology: &Topology, hosts: &[u32]) -> Option<Groups> {
    let mut gateways: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
    for link in topology.links().iter().filter(|link| link.class == LinkClass::Global) {
        if let (Vertex::Switch(from), Vertex::Switch(to)) = (link.from, link.to) {
            gateways.entry((topology.group(from), topology.group(to))).or_insert((from, to));
        }
    }
    let groups = topology.groups() as usize;
    if groups < 2 || gateways.len() < groups * (groups - 1) {
        return None;
    }
    let places = hosts.iter().map(|&host| match topology.links()[topology.injection(host) as usize].to {
        Vertex::Switch(switch) => (topology.group(switch), switch),
        Vertex::Host(host) => (0, host),
    });
    let gateway = move |from, to| gateways[&(from, to)];
    Some(Groups { places: places.collect(), gateway: Box::new(gateway) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_machine::Overrides;

    /// 16 nodes, 4 on each switch, of 4 cores.
    fn machine() -> Machine {
        let set = ["node.cores=4", "topology.kind=k-ary-n-tree", "topology.k=4", "topology.n=2"].map(String::from).to_vec();
        Machine::load("bxi-v2", &Overrides { nodes: Some(16), set }).unwrap()
    }

    fn map(mapping: &str, ppn: Option<u32>, ranks: &[u32]) -> Result<Vec<Vec<u32>>, ReplayError> {
        let machine = machine();
        let joined: Vec<NodeId> = NodeId::first(machine.node.count).collect();
        processors(&mapping.parse().unwrap(), &machine, (&machine.topology().unwrap(), &joined), ppn, ranks)
            .map(|shares| shares.into_iter().map(|share| share.into_iter().map(|id| id.node.0).collect()).collect())
    }

    #[test]
    fn two_applications_three_ways() {
        assert_eq!(map("linear", None, &[3, 2]).unwrap(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(map("node", None, &[3, 2]).unwrap(), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(map("switch", None, &[6, 5]).unwrap(), [vec![0, 1, 2, 3, 8, 9], vec![4, 5, 6, 7, 12]]);
        assert_eq!(map("switch", Some(2), &[6, 2]).unwrap(), [vec![0, 0, 1, 1, 2, 2], vec![4, 4]]);
        let random = map("random:3", None, &[8, 8]).unwrap();
        let mut all: Vec<u32> = random.concat();
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn applications_side_by_side_on_the_processors_of_nodes() {
        let set = ["node.processors=[\"dpu\"]", "processor.dpu.cores=2"].map(String::from).to_vec();
        let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(3), set }).unwrap();
        let joined: Vec<NodeId> = NodeId::first(3).collect();
        let map = |ppn, ranks: &[u32]| {
            let placed = processors(&Mapping::Processor, &machine, (&machine.topology().unwrap(), &joined), ppn, ranks)?;
            let names = |id: &ProcessorId| format!("{}:{}", id.node, machine.processor(*id).0);
            Ok::<_, ReplayError>(placed.iter().map(|part| part.iter().map(names).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>())
        };
        assert_eq!(map(Some(2), &[5, 4]).unwrap(), ["0:host 0:host 1:host 1:host 2:host", "0:dpu 0:dpu 1:dpu 1:dpu"]);
        assert_eq!(map(None, &[3, 6]).unwrap()[1], "0:dpu 0:dpu 1:dpu 1:dpu 2:dpu 2:dpu");
        let error = map(None, &[1, 7]).unwrap_err().to_string();
        assert!(error.starts_with("trace 2 has 7 ranks, but its share is 3 processors of 2 cores"), "{error}");
    }

    #[test]
    fn too_many_are_refused() {
        let error = map("node", None, &[33, 2]).unwrap_err().to_string();
        assert!(error.starts_with("trace 1 has 33 ranks, but its share is 8 processors of 4 cores"), "{error}");
        assert!(map("linear", None, &[60, 5]).is_err());
        assert_eq!(map("node", None, &[32, 32]).unwrap()[1][31], 15, "four on each");
    }

    #[test]
    fn processes_are_numbered_on_each_node() {
        let ids =
            processes(&[[0, 1].map(|node| ProcessorId::host(NodeId(node))).to_vec(), vec![ProcessorId { node: NodeId(0), number: 1 }]]);
        assert_eq!(ids, [vec![ProcessId::on(NodeId(0), 1), ProcessId::on(NodeId(1), 1)], vec![ProcessId::on(NodeId(0), 2)]]);
    }
}
