//! Collectives: in a communicator, among neighbours, and between two groups.

use crate::calls::{Call, Kinds, Maker, Which};
use crate::mpi;
use crate::recorder::{Communicator, Recorder, real_communicator};
use crate::requests::{Persistent, Step, Template};
use narrows_mpilib::{Fortran, Numbering};
use narrows_record::{Kind, Record};

/// Tags of messages among neighbours, above what programs use; one per place in a grid.
const NEIGHBOUR_TAG: i32 = 0x7f00_0000;
/// Tag of messages between two groups.
const GROUPS_TAG: i32 = 0x7e00_0000;

impl Recorder {
    /// A collective among neighbours, as its messages.
    pub fn neighbour(&mut self, call: &Call<'_>, record: Record, which: Which, kind: Kinds) {
        let at = communicator_at(which);
        let handle = call.handle(at);
        let communicator = self.communicator(handle, call.fortran).number;
        let neighbours = match self.neighbours.get(&handle) {
            Some(known) => known.clone(),
            None => {
                self.slow = true;
                let found = mpi::neighbours(real_communicator(handle, call.fortran));
                self.neighbours.insert(handle, found.clone());
                found
            }
        };
        let mut steps = Vec::new();
        for (receive, ranks) in [(true, &neighbours.sources), (false, &neighbours.destinations)] {
            for (index, &peer) in ranks.iter().enumerate().filter(|(_, peer)| **peer >= 0) {
                // The tag is the place at the receiver.
                let place = if !neighbours.cartesian {
                    0
                } else if receive {
                    index
                } else {
                    index ^ 1
                };
                let (bytes, tag) = (self.part(call, which, receive, index), NEIGHBOUR_TAG + place as i32);
                steps.push(Step::Message(Template { receive, bytes, peer, tag, communicator }));
            }
        }
        self.take_steps(call, record, kind, at, steps);
    }

    /// A collective of a communicator.
    pub fn collective(&mut self, call: &Call<'_>, record: Record, which: Which, kind: Kinds) {
        let at = communicator_at(which);
        let communicator = self.communicator(call.handle(at), call.fortran);
        // The root is before the communicator.
        let root = if which.has_root() { call.int(at - 1) } else { 0 };
        let steps = match communicator.own {
            Some(own) => self.between(call, which, communicator, own, root),
            None => {
                let (send, receive) = self.sizes(call, which, communicator, root);
                let whole = collective_record(which, communicator.number, root, send, receive);
                // The datatype of all that reduce is argument 3.
                let element = if which.reduces() { self.size_of(call.handle(3), call.fortran) } else { 0 };
                if kind == Kinds::Blocking {
                    self.elements(element);
                    self.put(Record { enter: record.enter, length: record.length, ..whole });
                    return;
                }
                vec![Step::Collective(whole, element)]
            }
        };
        self.take_steps(call, record, kind, at, steps);
    }

    /// What a call with these steps does; its communicator is the argument `at`, the request or the info comes behind
    /// it.
    fn take_steps(&mut self, call: &Call<'_>, record: Record, kind: Kinds, at: usize, steps: Vec<Step>) {
        match kind {
            Kinds::Persistent => {
                self.persistent.insert(call.handle_at(call.words[at + 2], 0), Persistent::Steps(steps));
            }
            Kinds::Returning => self.begin_all(call.handle_at(call.words[at + 1], 0), &steps, record),
            Kinds::Blocking => {
                for part in steps.chunk_by(|a, b| matches!((a, b), (Step::Message(_), Step::Message(_)))) {
                    if let &[Step::Collective(whole, element)] = part {
                        self.elements(element);
                        self.put(Record { enter: record.enter, length: record.length, ..whole });
                    } else {
                        let count = part.len() as u32;
                        let first = self.numbers(count);
                        self.put_all(first, part, record);
                        self.wait(record, (first, count));
                    }
                }
            }
        }
    }

    /// Steps under one handle, all at once.
    pub fn begin_all(&mut self, handle: u64, steps: &[Step], record: Record) {
        let first = self.begin(handle, steps.len() as u32, false);
        self.put_all(first, steps, record);
    }

    /// Steps that are under way, with numbers from `first` on.
    fn put_all(&mut self, first: u32, steps: &[Step], record: Record) {
        for (step, request) in steps.iter().zip(first..) {
            match *step {
                Step::Message(Template { receive, bytes, peer, tag, communicator }) => {
                    let kind = if receive { Kind::Ireceive } else { Kind::Isend };
                    self.put(Record { kind: kind as u8, bytes, peer, tag, communicator, request, ..record });
                }
                Step::Collective(whole, element) => {
                    self.elements(element);
                    self.output.put(&Record { kind: Kind::Root as u8, request: whole.request, ..Record::default() });
                    let (enter, length) = (record.enter, record.length);
                    self.put(Record { kind: Kind::Icollective as u8, request, enter, length, ..whole });
                }
            }
        }
    }

    /// What comes next combines vectors with elements of so many bytes; 0: none.
    fn elements(&mut self, bytes: u64) {
        if bytes != 0 && bytes != self.element {
            self.element = bytes;
            self.output.put(&Record { kind: Kind::Element as u8, bytes, ..Record::default() });
        }
    }

    /// A new communicator. It is written down at once and not when it is used first: those with the same members are
    /// told apart by their order, which is the same in all ranks when they are made.
    ///
    /// Its number is agreed upon by collectives, which stand in no call of the program. Open MPI 4.1 and 5
    /// (ompi/communicator/comm_cid.c): three allreduces of an int, each a reduction and a broadcast along a tree
    /// (coll/libnbc). MPICH 5 (src/mpi/comm/contextid.c): an allreduce of 64 words and one more, the mask of numbers
    /// that are free, and a broadcast of an int in the new communicator. Before a split each tells all its colour and
    /// key. MPICH also splits where a topology may number the ranks anew (MPIR_Cart_create, MPIR_Graph_create).
    /// Messages and bytes are those seen in live runs of 16 ranks. What two groups do is left out.
    pub fn made(&mut self, call: &Call<'_>, record: Record, at: usize, how: Maker) {
        let handle = call.handle_at(call.words[at], 0);
        let made = (real_communicator(handle, call.fortran) != mpi::null_communicator()).then(|| self.communicator(handle, call.fortran));
        let parent = match how {
            Maker::Groups => None,
            Maker::Members => made,
            Maker::Parent | Maker::Reorders | Maker::Split => Some(self.communicator(call.handle(0), call.fortran)),
        };
        let Some(parent) = parent.filter(|parent| parent.own.is_none()) else { return };
        let mut put = |which: Which, within: Communicator, bytes: u64| {
            let is_first = within.position == 0;
            let (send, receive) = match which {
                Which::Allgather => (bytes, within.size as u64 * bytes),
                Which::Allreduce => (bytes, bytes),
                Which::Reduce => (bytes, if is_first { bytes } else { 0 }),
                _ => {
                    if is_first {
                        (bytes, 0)
                    } else {
                        (0, bytes)
                    }
                }
            };
            let whole = collective_record(which, within.number, 0, send, receive);
            // Reduced are an int or words of 32 bits.
            self.elements(if which.reduces() { 4 } else { 0 });
            self.put(Record { enter: record.enter, length: record.length, ..whole });
        };
        let reorders = how == Maker::Reorders && matches!(mpi::abi().numbering, Numbering::Mask) && call.int(at - 1) != 0;
        if how == Maker::Split || reorders {
            put(Which::Allgather, parent, 8);
        }
        match mpi::abi().numbering {
            Numbering::Trees => {
                for _ in 0..3 {
                    put(Which::Reduce, parent, 4);
                    put(Which::Bcast, parent, 4);
                }
            }
            Numbering::Mask => {
                put(Which::Allreduce, parent, 65 * 4);
                if let Some(made) = made {
                    put(Which::Bcast, made, 4);
                }
            }
        }
    }

    /// A collective between two groups, as messages and collectives of this rank's own group. The leaders (first ranks)
    /// of the groups talk to each other, as in Open MPI's coll/inter; where they would have to be told sizes first
    /// (vectors), everybody sends to all whom it concerns.
    fn between(&mut self, call: &Call<'_>, which: Which, communicator: Communicator, own: (u16, usize), root: i32) -> Vec<Step> {
        use Which::*;
        let (own, members) = own;
        let (number, others, fortran) = (communicator.number, communicator.size, call.fortran);
        let (is_leader, in_root_group) = (communicator.position == 0, root < 0);
        let is_root = root == self.constants.root;
        let m = members as u64;
        let message = |receive: bool, peer: usize, bytes: u64| {
            Step::Message(Template { receive, bytes, peer: peer as i32, tag: GROUPS_TAG, communicator: number })
        };
        // A barrier is the reduction of an int.
        let element = if which.reduces() { self.size_of(call.handle(3), fortran) } else { 4 };
        let local = |which: Which, send: u64, receive: u64| {
            Step::Collective(collective_record(which, own, 0, send, receive), if which.reduces() { element } else { 0 })
        };
        let at_leader = |bytes: u64| if is_leader { bytes } else { 0 };
        let mut plain = |count: usize, datatype: usize| call.count(count) * self.size_of(call.handle(datatype), fortran);
        let mut steps = Vec::new();
        // Both leaders send each other what they have collected.
        let exchange = |steps: &mut Vec<Step>, send: u64, receive: u64| {
            if is_leader {
                steps.extend([message(true, 0, receive), message(false, 0, send)]);
            }
        };
        match which {
            Bcast | Reduce | Gather | Scatter | Gatherv | Scatterv if in_root_group && !is_root => {}
            Bcast if is_root => steps.push(message(false, 0, plain(1, 2))),
            Bcast => {
                let bytes = plain(1, 2);
                if is_leader {
                    steps.push(message(true, root as usize, bytes));
                }
                steps.push(local(Bcast, at_leader(bytes), bytes - at_leader(bytes)));
            }
            Reduce if is_root => steps.push(message(true, 0, plain(2, 3))),
            Reduce => {
                let bytes = plain(2, 3);
                steps.push(local(Reduce, bytes, at_leader(bytes)));
                if is_leader {
                    steps.push(message(false, root as usize, bytes));
                }
            }
            Gather if is_root => steps.push(message(true, 0, others as u64 * plain(4, 5))),
            Gather => {
                let part = plain(1, 2);
                steps.push(local(Gather, part, at_leader(m * part)));
                if is_leader {
                    steps.push(message(false, root as usize, m * part));
                }
            }
            Scatter if is_root => steps.push(message(false, 0, others as u64 * plain(1, 2))),
            Scatter => {
                let part = plain(4, 5);
                if is_leader {
                    steps.push(message(true, root as usize, m * part));
                }
                steps.push(local(Scatter, at_leader(m * part), part));
            }
            Gatherv if is_root => {
                let unit = self.size_of(call.handle(6), fortran);
                steps.extend((0..others).map(|peer| message(true, peer, call.count_of(4, peer) * unit)));
            }
            Gatherv => steps.push(message(false, root as usize, plain(1, 2))),
            Scatterv if is_root => {
                let unit = self.size_of(call.handle(3), fortran);
                steps.extend((0..others).map(|peer| message(false, peer, call.count_of(1, peer) * unit)));
            }
            Scatterv => steps.push(message(true, root as usize, plain(5, 6))),
            // Its barrier is an allreduce of an int.
            Barrier | Allreduce => {
                let bytes = if which == Barrier { 4 } else { plain(2, 3) };
                steps.push(local(Reduce, bytes, at_leader(bytes)));
                exchange(&mut steps, bytes, bytes);
                steps.push(local(Bcast, at_leader(bytes), bytes - at_leader(bytes)));
            }
            Allgather => {
                let (part, theirs) = (plain(1, 2), others as u64 * plain(4, 5));
                steps.push(local(Gather, part, at_leader(m * part)));
                exchange(&mut steps, m * part, theirs);
                steps.push(local(Bcast, at_leader(theirs), theirs - at_leader(theirs)));
            }
            ReduceScatterBlock => {
                let part = plain(2, 3);
                steps.push(local(Reduce, m * part, at_leader(m * part)));
                exchange(&mut steps, m * part, m * part);
                steps.push(local(Scatter, at_leader(m * part), part));
            }
            ReduceScatter => {
                let unit = self.size_of(call.handle(3), fortran);
                let total = (0..members).map(|member| call.count_of(2, member)).sum::<u64>() * unit;
                steps.push(local(Reduce, total, at_leader(total)));
                exchange(&mut steps, total, total);
                steps.push(local(Scatterv, at_leader(total), call.count_of(2, communicator.position) * unit));
            }
            Allgatherv | Alltoall | Alltoallv | Alltoallw => {
                for receive in [true, false] {
                    for peer in 0..others {
                        let bytes = self.part(call, which, receive, peer);
                        steps.push(message(receive, peer, bytes));
                    }
                }
            }
            // Not between groups.
            Scan | Exscan => {}
        }
        steps
    }

    /// What goes to or comes from one of the others, or of the neighbours.
    fn part(&mut self, call: &Call<'_>, which: Which, receive: bool, peer: usize) -> u64 {
        let fortran = call.fortran;
        let (count, unit) = match (which, receive) {
            (Which::Alltoallv, false) => (call.count_of(1, peer), self.size_of(call.handle(3), fortran)),
            (Which::Alltoallv, true) => (call.count_of(5, peer), self.size_of(call.handle(7), fortran)),
            (Which::Alltoallw, false) => (call.count_of(1, peer), self.size_of(call.handle_at(call.words[3], peer), fortran)),
            (Which::Alltoallw, true) => (call.count_of(5, peer), self.size_of(call.handle_at(call.words[7], peer), fortran)),
            (Which::Allgatherv, true) => (call.count_of(4, peer), self.size_of(call.handle(6), fortran)),
            (_, false) => (call.count(1), self.size_of(call.handle(2), fortran)),
            (_, true) => (call.count(4), self.size_of(call.handle(5), fortran)),
        };
        count * unit
    }

    /// Bytes sent and received in a collective within one group.
    fn sizes(&mut self, call: &Call<'_>, which: Which, communicator: Communicator, root: i32) -> (u64, u64) {
        use Which::*;
        let Communicator { size, position, .. } = communicator;
        let at_root = root as usize == position;
        let n = size as u64;
        let fortran = call.fortran;
        let constants = self.constants;
        let mut plain = |count: usize, datatype: usize| call.count(count) * self.size_of(call.handle(datatype), fortran);
        let sum = |counts: usize| (0..size).map(|index| call.count_of(counts, index)).sum::<u64>();
        // MPI_IN_PLACE at the send buffer: its count and type say nothing.
        let in_place = || match fortran {
            true => Fortran::any(mpi::abi().fortran_in_place, call.words[0], mpi::variable),
            false => call.words[0] == constants.in_place,
        };
        match which {
            Barrier => (0, 0),
            Bcast => {
                let bytes = plain(1, 2);
                if at_root { (bytes, 0) } else { (0, bytes) }
            }
            Reduce => {
                let bytes = plain(2, 3);
                (bytes, if at_root { bytes } else { 0 })
            }
            Allreduce | Scan | Exscan => {
                let bytes = plain(2, 3);
                (bytes, bytes)
            }
            Gather if at_root => {
                let part = plain(4, 5);
                (part, n * part)
            }
            Gather => (plain(1, 2), 0),
            Gatherv if at_root => {
                let unit = self.size_of(call.handle(6), fortran);
                (call.count_of(4, position) * unit, sum(4) * unit)
            }
            Gatherv => (plain(1, 2), 0),
            Scatter if at_root => {
                let part = plain(1, 2);
                (n * part, part)
            }
            Scatter => (0, plain(4, 5)),
            Scatterv if at_root => {
                let unit = self.size_of(call.handle(3), fortran);
                (sum(1) * unit, call.count_of(1, position) * unit)
            }
            Scatterv => (0, plain(5, 6)),
            Allgather => {
                let part = plain(4, 5);
                (part, n * part)
            }
            Allgatherv => {
                let unit = self.size_of(call.handle(6), fortran);
                (call.count_of(4, position) * unit, sum(4) * unit)
            }
            Alltoall => {
                let part = plain(4, 5);
                (n * part, n * part)
            }
            Alltoallv => {
                let in_place = in_place();
                let receive = sum(5) * self.size_of(call.handle(7), fortran);
                (if in_place { receive } else { sum(1) * self.size_of(call.handle(3), fortran) }, receive)
            }
            Alltoallw => {
                let in_place = in_place();
                let mut total = |counts: usize, types: usize| -> u64 {
                    let size_of = |index| self.size_of(call.handle_at(call.words[types], index), fortran);
                    (0..size).map(size_of).enumerate().map(|(index, unit)| call.count_of(counts, index) * unit).sum()
                };
                let receive = total(5, 7);
                (if in_place { receive } else { total(1, 3) }, receive)
            }
            ReduceScatterBlock => {
                let part = plain(2, 3);
                (n * part, part)
            }
            ReduceScatter => {
                let unit = self.size_of(call.handle(3), fortran);
                (sum(2) * unit, call.count_of(2, position) * unit)
            }
        }
    }
}

/// Where the communicator stands among the arguments; a root stands before it, a request or info behind it.
const fn communicator_at(which: Which) -> usize {
    use Which::*;
    match which {
        Barrier => 0,
        Bcast => 4,
        Allreduce | Scan | Exscan | ReduceScatterBlock | ReduceScatter => 5,
        Reduce | Allgather | Alltoall => 6,
        Gather | Scatter | Allgatherv => 7,
        Gatherv | Scatterv | Alltoallv | Alltoallw => 8,
    }
}

/// A collective without its time.
fn collective_record(which: Which, communicator: u16, root: i32, send: u64, receive: u64) -> Record {
    let which = if which == Which::Alltoallw { Which::Alltoallv } else { which };
    Record {
        kind: Kind::Collective as u8,
        bytes: send,
        peer: receive as u32 as i32,
        tag: (receive >> 32) as i32,
        request: root as u32,
        communicator,
        extra: which as u8,
        ..Record::default()
    }
}
