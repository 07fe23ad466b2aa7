//! Loads and stores of the program in memory that MPI uses meanwhile, and buffers of requests that are no messages.

use crate::windows::Touch;
use crate::{Checker, Kind, OPERATION, Site, keep};
use narrows_facts::{Access, LOAD, STORE};

impl Checker {
    /// A request that has been told owns these buffers.
    pub(crate) fn owns(&mut self, rank: u32, request: u32, reads: &[(u64, u64)], writes: &[(u64, u64)]) {
        let own = &mut self.ranks[rank as usize];
        let overlap = own.overlap(writes, true).or_else(|| own.overlap(reads, false));
        let other = overlap.and_then(|(by, _)| own.owner(by));
        let Some(open) = own.open.get_mut(&request) else { return };
        let site = open.site;
        open.starts = reads.iter().chain(writes).map(|piece| piece.0).collect();
        own.own(reads, u64::from(request), false);
        own.own(writes, u64::from(request), true);
        if let Some(other) = other {
            let text = "a collective uses a buffer that another call, which is under way, has not given back yet";
            self.find(Kind::Overlap, text.to_owned(), vec![other, site]);
        }
    }

    /// The program reads or writes bytes itself.
    pub(crate) fn local(&mut self, rank: u32, place: u32, piece: (u64, u64), write: bool) {
        let site = Site { rank, call: if write { STORE } else { LOAD }, place };
        self.touches_windows(site, &[piece], write);
        let own = &self.ranks[rank as usize];
        let Some((by, written)) = own.overlap(&[piece], write) else { return };
        let Some(other) = own.owner(by) else { return };
        let owner = if by >= OPERATION { "a one-sided operation" } else { "a call" };
        let what = match (write, written) {
            (false, _) => format!("the program reads what {owner} that is under way writes"),
            (true, true) => format!("the program writes where {owner} that is under way writes"),
            (true, false) => format!("the program writes what {owner} that is under way reads"),
        };
        self.find(Kind::Overlap, what, vec![other, site]);
    }

    /// A rank reads or writes its own memory, not through a window: it may be one that others use.
    pub(crate) fn touches_windows(&mut self, site: Site, pieces: &[(u64, u64)], write: bool) {
        let access = if write { Access::Put } else { Access::Get };
        let touch = Touch { site, access, local: true };
        let Checker { ranks, windows, groups, clocks, found, .. } = self;
        for window in ranks[site.rank as usize].windows.values() {
            let exposed = window.posted.is_some();
            let Some((group, shared)) = window.shared.and_then(|shared| windows.get_mut(shared)) else { continue };
            let mut alone = window.exclusive.iter();
            let exclusive = alone.any(|&target| groups[*group].peer(site.rank, target) == Some(site.rank));
            for &(start, length) in pieces {
                if exposed || window.fence {
                    shared.local(start, length, touch, exposed, &mut |clash| keep(found, clash));
                }
                // What a message writes comes after it was sent: the order is not known yet.
                if matches!(site.call, LOAD | STORE) || !write {
                    shared.passive_local(clocks, start, length, touch, exclusive, &mut |clash| keep(found, clash));
                }
            }
        }
    }
}
