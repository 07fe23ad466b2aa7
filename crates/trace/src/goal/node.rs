//! Nodes of GOAL, in between file and graph.

use super::ANY;
use crate::error::{TraceError, found};
use crate::graph::Graph;
use crate::operation::{Event, Kind, Operation, Program};
use narrows_units::{Bytes, Excess, PS_PER_NS, SimTime};

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

/// Whole nanoseconds, rounded.
pub fn ns(time: SimTime) -> u64 {
    time.0.saturating_add(PS_PER_NS / 2) / PS_PER_NS
}

/// A node from its parts; what is wrong with them otherwise.
pub fn node(code: u8, peer: u32, size: u64, tag: u32, cpu: u8, nic: u8, ranks: u32) -> Result<Operation, TraceError> {
    let any = |value: u32| (value != ANY).then_some(value);
    let kind = match code {
        1 | 2 if peer >= ranks && !(code == 2 && peer == ANY) => return Err(found(format!("a rank below {ranks}"), peer)),
        1 if tag == ANY => return Err(found("a tag for a send", "-1")),
        1 => Kind::Send { to: peer, bytes: Bytes(size), tag },
        2 => Kind::Receive { from: any(peer), bytes: Bytes(size), tag: any(tag) },
        3 => {
            let ps = size.checked_mul(PS_PER_NS).ok_or(Excess::Time)?;
            Kind::Compute { duration: SimTime(ps) }
        }
        _ => return Err(found("1 (send), 2 (recv) or 3 (calc) as kind", code)),
    };
    Ok(Operation { cpu, nic, ..Operation::new(kind) })
}
