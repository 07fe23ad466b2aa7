//! Which memory the program must leave alone, and what it does there: `--check=memory`.

use super::State;
use super::arguments::Scratch;
use narrows_facts::Fact;
use narrows_facts::shape::Sizes;
use narrows_mpicalls::CALLS;
use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
use super::steps;

/// Instructions behind all calls at one place of the program: a loop is looked at in its first turns. Our own choice.
#[cfg(target_arch = "x86_64")]
const MOST_AT: u32 = 20_000;

pub(super) type Pieces = Vec<(u64, u64)>;

/// What is watched. The simulator knows better what is under way: more than that does no harm.
#[derive(Default)]
pub(super) struct Watched {
    /// Buffers of one-sided operations: window, target.
    origins: Vec<(u32, i64, Pieces)>,
    /// Memory of windows.
    windows: BTreeMap<u32, (u64, u64)>,
    /// Instructions that were looked at, by place.
    #[cfg(target_arch = "x86_64")]
    spent: BTreeMap<u32, u32>,
    /// The place behind which the thread goes on step by step.
    #[cfg(target_arch = "x86_64")]
    place: u32,
}

impl State {
    /// A one-sided operation begins.
    pub(super) fn watch_origin(&mut self, window: u32, target: i64, pieces: Pieces) {
        if let Some(watched) = &mut self.watched {
            watched.origins.push((window, target, pieces));
        }
    }

    /// A window has this memory.
    pub(super) fn watch_window(&mut self, window: u32, base: u64, size: u64) {
        if let Some(watched) = self.watched.as_mut().filter(|_| base != 0 && size > 0) {
            watched.windows.insert(window, (base, size));
        }
    }

    pub(super) fn forget_window(&mut self, window: u32) {
        if let Some(watched) = &mut self.watched {
            watched.windows.remove(&window);
            watched.origins.retain(|origin| origin.0 != window);
        }
    }

    /// A synchronisation has completed what was done at its caller.
    pub(super) fn watch_synchronised(&mut self, id: u32, window: u32, target: i64) {
        let Some(watched) = &mut self.watched else { return };
        match CALLS[id as usize].name {
            "MPI_Win_fence" | "MPI_Win_complete" | "MPI_Win_unlock_all" | "MPI_Win_flush_all" | "MPI_Win_flush_local_all" => {
                watched.origins.retain(|origin| origin.0 != window);
            }
            "MPI_Win_unlock" | "MPI_Win_flush" | "MPI_Win_flush_local" => {
                watched.origins.retain(|origin| (origin.0, origin.1) != (window, target));
            }
            _ => {}
        }
    }

    /// A request that is no message owns what it reads and writes. Its handle, and where that is.
    pub(super) fn owns(&mut self, request: u32, (reads, writes): (Pieces, Pieces), (handle, address): (u64, u64)) {
        if reads.is_empty() && writes.is_empty() {
            return;
        }
        let pieces = reads.iter().chain(&writes).copied().collect();
        if self.watched.is_some()
            && let Some(open) = self.find(handle, address)
        {
            open.pieces = pieces;
        }
        self.tell(&Fact::Owns { request, reads, writes });
    }

    /// What a collective reads and writes; of those with lists nothing is known.
    pub(super) fn buffers(&mut self, id: u32, own: &Scratch, at: u8, sizes: Sizes) -> (Pieces, Pieces) {
        use super::library::{self, Handle};
        let handle = own.handle(Handle::Communicator, at);
        if library::is_inter(handle) {
            return (Vec::new(), Vec::new());
        }
        let (size, rank) = library::place_in(handle);
        let is_root = CALLS[id as usize].peer.is_none() || own.int(at - 1) == rank as i32;
        let size = size as u64;
        let mut told = |buffer: u8, count: u8, datatype: u8, times: u64| {
            if own.in_place(buffer, self.constants) {
                return Vec::new();
            }
            let of = self.type_of(own.handle(Handle::Datatype, datatype));
            let pieces = self.pieces_at(own, buffer, &of, own.count(count).saturating_mul(times));
            if pieces.len() <= super::PIECES_TOLD { pieces } else { Vec::new() }
        };
        let named = |name: &str| CALLS[id as usize].name.trim_end_matches("_c").ends_with(name);
        match sizes {
            Sizes::Same(count, datatype) if named("bcast") => {
                let buffer = told(0, count, datatype, 1);
                if is_root { (buffer, Vec::new()) } else { (Vec::new(), buffer) }
            }
            Sizes::Same(count, datatype) => {
                let block = named("reduce_scatter_block");
                let writes = if is_root { told(1, count, datatype, 1) } else { Vec::new() };
                (told(0, count, datatype, if block { size } else { 1 }), writes)
            }
            Sizes::Gather => (told(0, 1, 2, 1), if is_root { told(3, 4, 5, size) } else { Vec::new() }),
            Sizes::Scatter => (if is_root { told(0, 1, 2, size) } else { Vec::new() }, told(3, 4, 5, 1)),
            Sizes::Allgather => (told(0, 1, 2, 1), told(3, 4, 5, size)),
            Sizes::Alltoall => (told(0, 1, 2, size), told(3, 4, 5, size)),
            _ => (Vec::new(), Vec::new()),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl State {
    /// A call ends: the program goes on step by step if it must leave some memory alone.
    pub(super) fn watches(&mut self, place: u32) {
        let Some(watched) = &mut self.watched else { return };
        watched.place = place;
        let left = MOST_AT.saturating_sub(watched.spent.get(&place).copied().unwrap_or(0));
        let requests = self.requests.values().flatten().filter(|open| open.active).flat_map(|open| open.pieces.iter().copied());
        let origins = watched.origins.iter().flat_map(|origin| origin.2.iter().copied());
        steps::watch(requests.chain(origins).chain(watched.windows.values().copied()), left);
    }

    /// The next call begins: what the program has done since the last one.
    pub(super) fn watched(&mut self) {
        let Some(watched) = &mut self.watched else { return };
        let (seen, count) = steps::take();
        *watched.spent.entry(watched.place).or_default() += count;
        for steps::Seen { from, address, length, write } in seen {
            let place = self.place(from);
            self.tell(&Fact::Local { place, address, length, write });
        }
    }
}

/// Programs for other processors run under qemu, which has its own instructions: `narrows run` says that it cannot be.
#[cfg(not(target_arch = "x86_64"))]
impl State {
    pub(super) fn watches(&mut self, _: u32) {}

    pub(super) fn watched(&mut self) {}
}
