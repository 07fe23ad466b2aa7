//! From the collective calls of a trace to schedules.

use crate::graph::Collectives;
use narrows_collectives::locality::{self, Locality};
use narrows_collectives::rules::Rules;
use narrows_collectives::{Algorithm, CustomTree, Operation, Schedule, ScheduleError};
use narrows_portals::offload;
use narrows_trace::{Collective, CollectiveCall, Communicators};
use narrows_units::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the ranks of a program are.
pub struct Layout {
    /// Node of each rank.
    pub nodes: Vec<u32>,
    /// Where every two groups of the network have a link of their own.
    pub groups: Option<Groups>,
    /// NICs reduce by themselves: nodes of a board, of which each first one has the server.
    pub accelerator: Option<u32>,
}

/// Where the ranks of a program are in a network of groups; see [`Locality`].
pub struct Groups {
    /// Group and router of each rank.
    pub places: Vec<(u32, u32)>,
    /// See [`Locality::gateway`].
    pub gateway: Box<dyn Fn(u32, u32) -> (u32, u32) + Send>,
}

/// The node of each member of a communicator, and nodes of a board.
type Boards = (Arc<[u32]>, u32);

/// Schedules by a table of rules.
pub struct ByRules {
    rules: Rules,
    layout: Option<Layout>,
    /// By communicator, root and algorithm.
    trees: BTreeMap<(u32, u32, Algorithm), Arc<CustomTree>>,
    /// By communicator: the nodes of its members, if their NICs reduce by themselves.
    reducing: BTreeMap<u32, Option<Boards>>,
}

impl ByRules {
    /// By `rules`. Without a `layout`, rules that ask for GLF, LLF or hardware multicast get a binomial tree, as the
    /// first two do without groups.
    pub fn new(rules: Rules, layout: Option<Layout>) -> ByRules {
        ByRules { rules, layout, trees: BTreeMap::new(), reducing: BTreeMap::new() }
    }

    fn tree(&mut self, call: &CollectiveCall, algorithm: Algorithm, communicators: &Communicators) -> Option<Arc<CustomTree>> {
        let layout = self.layout.as_ref()?;
        let key = (call.communicator, call.root, algorithm);
        if let Some(tree) = self.trees.get(&key) {
            return Some(Arc::clone(tree));
        }
        let members = communicators.members(call.communicator);
        let tree = if algorithm == Algorithm::Hardware {
            let nodes: Vec<u32> = members.map(|rank| layout.nodes[rank as usize]).collect();
            locality::hardware(&nodes, call.root)
        } else {
            let groups = layout.groups.as_ref()?;
            let (group, router): (Vec<u32>, Vec<u32>) = members.map(|rank| groups.places[rank as usize]).unzip();
            let places = Locality { group: &group, router: &router, gateway: &*groups.gateway };
            if algorithm == Algorithm::Glf { locality::glf(&places, call.root) } else { locality::llf(&places, call.root) }
        };
        self.trees.insert(key, Arc::clone(&tree));
        Some(tree)
    }
}

impl ByRules {
    /// The nodes of a communicator's members, if the accelerators of their NICs take them.
    fn reducing(&mut self, communicator: u32, communicators: &Communicators) -> Option<Boards> {
        let (layout, reducing) = (self.layout.as_ref()?, &mut self.reducing);
        let nodes = || {
            let board = layout.accelerator?;
            let nodes: Arc<[u32]> = communicators.members(communicator).map(|rank| layout.nodes[rank as usize]).collect();
            offload::check(&nodes, board).is_ok().then_some((nodes, board))
        };
        reducing.entry(communicator).or_insert_with(nodes).clone()
    }

    /// Why allreduces that the rules give to accelerators are done by messages, for the first communicator of a program
    /// of which that is so.
    pub fn not_offloaded(&self, communicators: &Communicators) -> Option<String> {
        if !self.rules.use_algorithm(Algorithm::ExanetAccelerator) {
            return None;
        }
        let Some((layout, board)) = self.layout.as_ref().and_then(|layout| Some((layout, layout.accelerator?))) else {
            return Some(String::from("this machine has no allreduce accelerator"));
        };
        (0..communicators.count()).find_map(|communicator| {
            let nodes: Vec<u32> = communicators.members(communicator).map(|rank| layout.nodes[rank as usize]).collect();
            let limit = offload::check(&nodes, board).err()?;
            Some(format!("communicator {communicator}: {limit}"))
        })
    }
}

impl Collectives for ByRules {
    fn sends_until_delivered(&self) -> bool {
        self.rules.sends_until_delivered()
    }

    fn copies(&self) -> bool {
        self.layout.is_some() && self.rules.use_algorithm(Algorithm::Hardware)
    }

    /// All members must come to the same schedule, so that what only one of them knows (the bytes of a vector variant)
    /// chooses nothing. Vector variants of gather and scatter are linear, as in both libraries; those of all-to-all are
    /// done as for long messages.
    fn schedule(&mut self, call: &CollectiveCall, communicators: &Communicators) -> Result<Schedule, ScheduleError> {
        let ranks = communicators.size(call.communicator).unwrap_or(0);
        let (send, receive, root) = (call.send, call.receive, call.root);
        let part = |Bytes(bytes)| Bytes(bytes / u64::from(ranks.max(1)));
        let linear = |operation, bytes| Schedule::new(operation, Algorithm::Linear, ranks, root, bytes);
        let (operation, bytes) = match call.operation {
            Collective::Barrier => (Operation::Barrier, Bytes(0)),
            Collective::Broadcast => (Operation::Broadcast, send.max(receive)),
            Collective::Reduce => (Operation::Reduce, send.max(receive)),
            Collective::Allreduce => (Operation::Allreduce, send),
            Collective::Gather => (Operation::Gather, send),
            Collective::Gatherv => return linear(Operation::Gather, send),
            Collective::Scatter => (Operation::Scatter, receive),
            // Only the root's lengths count; all others have sent nothing.
            Collective::Scatterv => return linear(Operation::Scatter, Bytes(0)).map(|schedule| schedule.total(send)),
            Collective::Allgather => (Operation::Allgather, send),
            Collective::Allgatherv => (Operation::Allgather, part(receive)),
            Collective::Alltoall => (Operation::Alltoall, part(send)),
            Collective::Alltoallv => (Operation::Alltoall, part(Bytes(u64::MAX))),
            Collective::ReduceScatter => (Operation::ReduceScatter, send),
            Collective::ReduceScatterBlock => (Operation::ReduceScatterBlock, part(send)),
            // An exclusive scan has the messages of an inclusive one.
            Collective::Scan | Collective::Exscan => (Operation::Scan, send),
        };
        let element = call.element;
        let mut choice = self.rules.choose(operation, ranks, bytes, element);
        if choice.algorithm == Algorithm::ExanetAccelerator {
            match self.reducing(call.communicator, communicators).filter(|_| bytes > Bytes(0)) {
                Some((nodes, board)) => return Ok(choice.schedule(operation, ranks, root, bytes)?.offload(nodes, board)),
                None => choice = self.rules.choose_but(Algorithm::ExanetAccelerator, operation, ranks, bytes, element),
            }
        }
        let tree = match choice.algorithm {
            Algorithm::Glf | Algorithm::Llf | Algorithm::Hardware => {
                let tree = self.tree(call, choice.algorithm, communicators);
                if tree.is_none() {
                    choice.algorithm = Algorithm::Binomial;
                }
                tree
            }
            _ => None,
        };
        let bytes = if call.operation == Collective::Alltoallv { Bytes(0) } else { bytes };
        let schedule = self.rules.schedule(choice, operation, (ranks, root), bytes, element)?;
        match (tree, call.operation) {
            (Some(tree), _) => schedule.over(tree),
            (None, Collective::Alltoallv) => Ok(schedule.total(send)),
            (None, Collective::Allgatherv) => Ok(schedule.total(receive)),
            _ => Ok(schedule),
        }
    }
}
