//! Allreduces of the program that its NIC's accelerator does ([`narrows_portals::offload`]).
//!
//! The rank gives block after block to its NIC, and waits for the answer to each. Meanwhile the MPI library looks at
//! what comes, as it would in an allreduce of its own: others may wait for its answers.

use super::Rank;
use narrows_channel::layout::reason;
use narrows_portals::offload::{Allreduce, BLOCK, Plan, plan};
use narrows_portals::{AtomicOperation, Command, Datatype, Place};

/// An allreduce under way.
#[derive(Debug)]
pub(super) struct Reducing {
    source: u64,
    target: u64,
    left: u64,
    operation: AtomicOperation,
    datatype: Datatype,
    ticket: u32,
}

/// What the rank knows of its accelerator.
#[derive(Debug, Default)]
pub(super) struct Offload {
    /// Who does what for the allreduces of all ranks; `None` inside: the accelerator does not take them.
    plan: Option<Option<Plan>>,
    /// Blocks so far.
    blocks: u64,
    pub(super) reducing: Option<Reducing>,
}

impl Rank {
    /// The plan for all ranks of the run.
    fn offload_plan(&mut self) -> Option<Plan> {
        if self.offload.plan.is_none() {
            let board = self.settings.offload_board;
            let nodes = (0..self.ranks()).map_while(|rank| self.region.sibling(rank)).map(|region| region.header().nid - 1);
            let nodes: Vec<u32> = nodes.collect();
            let own = self.header().nid - 1;
            self.offload.plan = Some((board > 0).then(|| plan(&nodes, board, own).ok()).flatten());
        }
        self.offload.plan.clone().flatten()
    }

    /// An allreduce among all ranks begins, of so many bytes at `source` to `target`. False: it is none for the
    /// accelerator. Else [`Rank::reduce_goes_on`] is next.
    pub fn reduce_begins(&mut self, source: u64, target: u64, bytes: u64, operation: AtomicOperation, datatype: Datatype) -> bool {
        if self.outside || bytes == 0 || self.offload.reducing.is_some() || self.offload_plan().is_none() {
            return false;
        }
        self.advance(self.processor.post_ps);
        self.offload.reducing = Some(Reducing { source, target, left: bytes, operation, datatype, ticket: 0 });
        self.reduce_next();
        true
    }

    /// The next block.
    fn reduce_next(&mut self) {
        let (ticket, sequence) = (self.ticket(), self.offload.blocks);
        let Some(plan) = self.offload_plan() else { return };
        let Some(reducing) = &mut self.offload.reducing else { return };
        let length = reducing.left.min(u64::from(BLOCK)) as u32;
        let Reducing { source, target, operation, datatype, .. } = *reducing;
        reducing.ticket = ticket;
        reducing.source += u64::from(length);
        reducing.target += u64::from(length);
        reducing.left -= u64::from(length);
        self.offload.blocks += 1;
        let (source, target) = (Place::at(source), Place::at(target));
        let allreduce = Allreduce { group: 0, sequence, source, target, length, operation, datatype, plan, ticket };
        self.submit(Command::Allreduce(Box::new(allreduce)));
    }

    /// Waits for the accelerator. True when something else has come that the MPI library should look at first; then
    /// this is next again. False when the result is there.
    pub fn reduce_goes_on(&mut self) -> bool {
        while let Some(&Reducing { ticket, left, .. }) = self.offload.reducing.as_ref() {
            if let Some(at) = self.replies.iter().position(|&(of, ..)| of == ticket) {
                self.replies.swap_remove(at);
                self.advance(self.processor.completion_ps);
                if left == 0 {
                    self.offload.reducing = None;
                } else {
                    self.reduce_next();
                }
                continue;
            }
            match self.notices.front() {
                Some(&(time, _)) => self.wait_until(time),
                None => self.park(u64::MAX, reason::REPLY),
            }
            let replies = self.replies.len();
            self.take_visible();
            if self.replies.len() == replies {
                return true;
            }
        }
        false
    }
}
