//! The graph of one rank, in between file and program.

use super::ANY;
use crate::TraceError;
use crate::limits;
use crate::operation::{Dependency, Event, Kind, Operation, Program};
use crate::spool::Spool;
use narrows_units::{Excess, PS_PER_NS, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes and who waits for whom.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Operation>,
    /// (waits, is waited for, event)
    pub edges: Vec<(u32, u32, Event)>,
    /// Computing of all nodes.
    work: SimTime,
}

impl Graph {
    /// Appends a node; its number, or what is wrong with it.
    pub fn push(&mut self, operation: Operation) -> Result<u32, String> {
        self.work = limits::add_work(self.work, &operation).map_err(|excess| excess.to_string())?;
        limits::check_size(&operation).map_err(|excess| excess.to_string())?;
        self.nodes.push(operation);
        u32::try_from(self.nodes.len() - 1).map_err(|_| String::from("expected fewer operations of a rank"))
    }

    /// Appends the nodes to a program, each behind those that it waits for, otherwise in the order of the file. `false`
    /// if they wait for each other in a circle.
    pub fn store(&self, rank: u32, spool: &mut Spool) -> Result<bool, TraceError> {
        let count = self.nodes.len();
        let in_order = self.edges.iter().all(|(waits, first, _)| first < waits);
        let mut edges = self.edges.clone();
        edges.sort_by_key(|(waits, ..)| *waits);
        let mut place = vec![u64::MAX; count];
        let mut after = Vec::new();
        let mut put = |node: usize| -> Result<(), TraceError> {
            let first = edges.partition_point(|(waits, ..)| (*waits as usize) < node);
            let own = edges[first..].iter().take_while(|(waits, ..)| *waits as usize == node);
            after.clear();
            after.extend(own.map(|(_, first, event)| Dependency { operation: place[*first as usize], event: *event }));
            place[node] = spool.push(rank, &self.nodes[node], &after)?;
            Ok(())
        };
        if in_order {
            (0..count).try_for_each(put)?;
            return Ok(true);
        }
        let mut missing = vec![0u32; count];
        let mut waiting = self.edges.clone();
        waiting.sort_by_key(|(_, first, _)| *first);
        for (waits, ..) in &waiting {
            missing[*waits as usize] += 1;
        }
        let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(|node| missing[*node] == 0).map(Reverse).collect();
        let mut done = 0;
        while let Some(Reverse(node)) = ready.pop() {
            put(node)?;
            done += 1;
            let first = waiting.partition_point(|(_, first, _)| (*first as usize) < node);
            for (waits, ..) in waiting[first..].iter().take_while(|(_, first, _)| *first as usize == node) {
                missing[*waits as usize] -= 1;
                if missing[*waits as usize] == 0 {
                    ready.push(Reverse(*waits as usize));
                }
            }
        }
        Ok(done == count)
    }

    /// The whole program of a rank. Delays become nodes of their own; collectives are refused.
    pub fn load(rank: u32, program: &mut dyn Program) -> Result<Graph, TraceError> {
        let mut graph = Graph::default();
        // Node of each operation.
        let mut nodes: Vec<u32> = Vec::new();
        let mut after = Vec::new();
        while let Some(operation) = program.next(rank, &mut after)? {
            if let Kind::Collective(call) = operation.kind {
                return Err(TraceError::Unsuitable(format!(
                    "GOAL has no collectives, and rank {rank} calls {}: spell them out in messages (narrows trace convert --expand openmpi)",
                    call.operation.name()
                )));
            }
            if graph.nodes.len() as u64 + 2 >= u64::from(u32::MAX) {
                return Err(TraceError::Unsuitable(format!("rank {rank} has more operations than GOAL can number")));
            }
            let mut next = graph.nodes.len() as u32;
            let edges = after.iter().map(|dependency| (next, nodes[dependency.operation as usize], dependency.event));
            graph.edges.extend(edges.collect::<Vec<_>>());
            if operation.delay > SimTime::ZERO {
                graph.nodes.push(Operation { cpu: operation.cpu, ..Operation::new(Kind::Compute { duration: operation.delay }) });
                graph.edges.push((next + 1, next, Event::Done));
                next += 1;
            }
            graph.nodes.push(Operation { delay: SimTime::ZERO, ..operation });
            nodes.push(next);
        }
        Ok(graph)
    }
}

/// Whole nanoseconds, rounded.
pub fn ns(time: SimTime) -> u64 {
    time.0.saturating_add(PS_PER_NS / 2) / PS_PER_NS
}

/// A node from its parts; what is wrong with them otherwise.
pub fn node(code: u8, peer: u32, size: u64, tag: u32, cpu: u8, nic: u8, ranks: u32) -> Result<Operation, String> {
    let any = |value: u32| (value != ANY).then_some(value);
    let kind = match code {
        1 | 2 if peer >= ranks && !(code == 2 && peer == ANY) => return Err(format!("expected a rank below {ranks}, found {peer}")),
        1 if tag == ANY => return Err(String::from("expected a tag for a send, found -1")),
        1 => Kind::Send { to: peer, bytes: size, tag },
        2 => Kind::Receive { from: any(peer), bytes: size, tag: any(tag) },
        3 => {
            let ps = size.checked_mul(PS_PER_NS).ok_or_else(|| Excess::Time.to_string())?;
            Kind::Compute { duration: SimTime(ps) }
        }
        _ => return Err(format!("expected 1 (send), 2 (recv) or 3 (calc) as kind, found {code}")),
    };
    Ok(Operation { cpu, nic, ..Operation::new(kind) })
}
