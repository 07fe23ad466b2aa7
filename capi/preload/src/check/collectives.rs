//! What a rank gives and takes in a collective.

use super::State;
use super::arguments::Scratch;
use super::library::{self, Handle};
use narrows_facts::shape::Sizes;
use narrows_facts::{Collective, Fact, LONGEST, NOBODY, Part, ROOT, Signature, UNKNOWN};
use narrows_mpicalls::{CALLS, NONE};

impl State {
    pub(super) fn tell_collective(&mut self, collective: Collective) {
        if collective.communicator != UNKNOWN {
            self.tell(&Fact::Collective(collective));
        }
    }

    pub(super) fn collective(&mut self, id: u32, own: &Scratch, at: u8, operation: Option<u8>, sizes: Sizes) {
        let handle = own.handle(Handle::Communicator, at);
        let communicator = self.communicator(handle);
        if communicator == UNKNOWN {
            return;
        }
        let rooted = CALLS[id as usize].peer.is_some();
        let mut told = Collective {
            call: id,
            place: own.place,
            communicator,
            root: NONE,
            operation: operation.map_or(0, |at| library::operation(own.handle(Handle::Operation, at))),
            same: None,
            send: Part::Unknown,
            receive: Part::Unknown,
        };
        let inter = library::is_inter(handle);
        let root = if rooted { own.int(at - 1) } else { -1 };
        let (size, rank) = if inter { library::others_of(handle) } else { library::place_in(handle) };
        let is_root = rooted && root == if inter { self.constants.root } else { rank as i32 };
        told.root = match root {
            _ if !rooted => NONE,
            _ if inter && is_root => ROOT,
            _ if inter && root == self.constants.proc_null => NOBODY,
            root => i64::from(root),
        };
        if told.root == NOBODY {
            // Its arguments say nothing.
            self.tell_collective(told);
            return;
        }
        if inter && CALLS[id as usize].name.contains("educe_scatter") {
            // What each member gives is for all of its own group, and as long in both (MPI 4.1, section 6.10).
            let members = library::place_in(handle).0;
            let (counts, datatype) = match sizes {
                Sizes::SameList(counts, datatype) if members <= LONGEST => (own.counts(counts, members), datatype),
                Sizes::Same(count, datatype) => (vec![own.count(count); members], datatype),
                _ => (Vec::new(), 0),
            };
            if !counts.is_empty() {
                let of = self.type_of(own.handle(Handle::Datatype, datatype));
                told.same = Some(Signature { bytes: counts.into_iter().sum::<u64>().saturating_mul(of.size), kind: of.kind });
            }
            self.tell_collective(told);
            return;
        }
        let lists = size <= LONGEST;
        let constants = self.constants;
        let each = |state: &mut State, count: u8, datatype: u8| Part::Each(state.signature(own, count, datatype));
        let by = |state: &mut State, counts: u8, datatype: u8| {
            if !lists {
                return Part::Unknown;
            }
            let unit = state.type_of(own.handle(Handle::Datatype, datatype)).size;
            Part::By(own.counts(counts, size).into_iter().map(|count| count.saturating_mul(unit)).collect())
        };
        let first_in_place = !inter && own.in_place(0, constants);
        let give = |told: &mut Collective, is_root: bool| !inter || !is_root && told.root != NOBODY;
        match sizes {
            Sizes::None => {}
            Sizes::Same(count, datatype) => told.same = Some(self.signature(own, count, datatype)),
            Sizes::SameList(counts, datatype) => {
                told.send = by(self, counts, datatype);
                told.receive = told.send.clone();
                // Where the lists differ their sums mostly do.
                if let Part::By(bytes) = &told.send {
                    let bytes = bytes.iter().sum();
                    told.same = Some(Signature { bytes, kind: 0 });
                }
                (told.send, told.receive) = (Part::Unknown, Part::Unknown);
            }
            Sizes::Gather | Sizes::Gatherv => {
                if !(is_root && first_in_place) && give(&mut told, is_root) {
                    told.send = each(self, 1, 2);
                }
                if is_root {
                    told.receive = if sizes == Sizes::Gather { each(self, 4, 5) } else { by(self, 4, 6) };
                }
            }
            Sizes::Scatter => {
                if is_root {
                    told.send = each(self, 1, 2);
                }
                if !(is_root && own.in_place(3, constants)) && give(&mut told, is_root) {
                    told.receive = each(self, 4, 5);
                }
            }
            Sizes::Scatterv => {
                if is_root {
                    told.send = by(self, 1, 3);
                }
                if !(is_root && own.in_place(4, constants)) && give(&mut told, is_root) {
                    told.receive = each(self, 5, 6);
                }
            }
            Sizes::Allgather | Sizes::Alltoall => {
                told.receive = each(self, 4, 5);
                told.send = if first_in_place { told.receive.clone() } else { each(self, 1, 2) };
            }
            Sizes::Allgatherv => {
                told.receive = by(self, 4, 6);
                told.send = if first_in_place { Part::Unknown } else { each(self, 1, 2) };
            }
            Sizes::Alltoallv => {
                told.receive = by(self, 5, 7);
                told.send = if first_in_place { told.receive.clone() } else { by(self, 1, 3) };
            }
            Sizes::Alltoallw => {
                let with = |state: &mut State, counts: u8, types: u8| {
                    if lists { Part::By(state.bytes_by(own, counts, types, size)) } else { Part::Unknown }
                };
                told.receive = with(self, 5, 7);
                told.send = if first_in_place { told.receive.clone() } else { with(self, 1, 3) };
            }
            Sizes::NeighborEach | Sizes::NeighborGatherv | Sizes::NeighborLists | Sizes::NeighborTypes => {
                if let Some((from, to)) = library::neighbours(handle).filter(|_| lists) {
                    let (sent, expected) = self.neighbours_bytes(own, sizes, from.len(), to.len());
                    // Several edges between two ranks are taken together.
                    let by_rank = |ranks: Vec<i32>, bytes: Vec<u64>| {
                        let mut all = vec![0u64; size];
                        for (rank, bytes) in ranks.into_iter().zip(bytes) {
                            if let Some(sum) = usize::try_from(rank).ok().and_then(|rank| all.get_mut(rank)) {
                                *sum = sum.saturating_add(bytes);
                            }
                        }
                        Part::By(all)
                    };
                    (told.send, told.receive) = (by_rank(to, sent), by_rank(from, expected));
                }
            }
        }
        self.tell_collective(told);
    }

    /// Bytes by a list of counts and one of types.
    pub(super) fn bytes_by(&mut self, own: &Scratch, counts: u8, types: u8, length: usize) -> Vec<u64> {
        let counts = own.counts(counts, length);
        let size = |(index, count): (usize, u64)| match count {
            // The type of nothing may be none.
            0 => 0,
            count => count.saturating_mul(self.type_of(own.handle_at(Handle::Datatype, types, index).0).size),
        };
        counts.into_iter().enumerate().map(size).collect()
    }

    /// Bytes to and from each neighbour.
    pub(super) fn neighbours_bytes(&mut self, own: &Scratch, sizes: Sizes, from: usize, to: usize) -> (Vec<u64>, Vec<u64>) {
        let list = |state: &mut State, counts: u8, datatype: u8, length: usize| -> Vec<u64> {
            let unit = state.type_of(own.handle(Handle::Datatype, datatype)).size;
            own.counts(counts, length).into_iter().map(|count| count.saturating_mul(unit)).collect()
        };
        match sizes {
            Sizes::NeighborEach => (vec![self.signature(own, 1, 2).bytes; to], vec![self.signature(own, 4, 5).bytes; from]),
            Sizes::NeighborGatherv => (vec![self.signature(own, 1, 2).bytes; to], list(self, 4, 6, from)),
            Sizes::NeighborLists => (list(self, 1, 3, to), list(self, 5, 7, from)),
            _ => (self.bytes_by(own, 1, 3, to), self.bytes_by(own, 5, 7, from)),
        }
    }
}
