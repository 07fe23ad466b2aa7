//! The graph of one rank, in between file and program: for formats in which any operation may depend on any other.

use crate::error::{TraceError, expected};
use crate::limits;
use crate::operation::{Dependency, Event, Operation};
use crate::spool::Spool;
use narrows_units::SimTime;
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
    pub fn push(&mut self, operation: Operation) -> Result<u32, TraceError> {
        self.work = limits::add_work(self.work, &operation)?;
        limits::check_size(&operation)?;
        self.nodes.push(operation);
        u32::try_from(self.nodes.len() - 1).map_err(|_| expected("fewer operations of a rank"))
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
}
