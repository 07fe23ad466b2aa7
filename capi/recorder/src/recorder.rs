//! What was called, as records: messages, requests, communicators and types. `collectives.rs` has the rest.

use crate::calls::{Call, Parts, Scratch, Shape};
use crate::clock::{self, now};
use crate::mpi::{self, UNDEFINED};
use crate::output::Output;
use crate::requests::{NO_HANDLE, Open, Persistent, Requests, Step, Table, Template};
use narrows_mpilib::Constants;
use narrows_record::{ANY, Kind, MEMBERS, Record};
use std::ffi::CStr;

/// Tells tags of partitioned messages from those of others, which they never meet.
const PARTITIONED: i32 = 1 << 29;

/// A communicator in this rank.
#[derive(Clone, Copy)]
pub struct Communicator {
    pub number: u16,
    /// Of the group that messages go to.
    pub size: usize,
    /// This rank in its own group.
    pub position: usize,
    /// Between two groups: number and size of this rank's own.
    pub own: Option<(u16, usize)>,
}

/// What a rank knows while it writes.
pub struct Recorder {
    pub output: Output,
    start: u64,
    /// Up to here time has been accounted for.
    pub mark: u64,
    /// Computing that stands in no record yet.
    busy: u64,
    pub constants: &'static Constants,
    communicators: Table<Communicator>,
    next_communicator: u16,
    types: Table<u64>,
    open: Requests,
    wild: usize,
    pub persistent: Table<Persistent>,
    /// Matched messages: communicator, source and tag.
    messages: Table<(u16, i32, i32)>,
    pub neighbours: Table<mpi::Neighbours>,
    /// The datatype and the communicator of the last call: mostly those of the next one.
    last_type: (u64, u64),
    last_communicator: (u64, Communicator),
    requests: u32,
    ranks: u32,
    /// Bytes of an element, as said last.
    pub element: u64,
    /// Something was looked up for the first time: that took longer than a call.
    pub slow: bool,
}

impl Recorder {
    pub fn new(output: Output, ranks: u32) -> Recorder {
        let start = now();
        Recorder {
            output,
            start,
            mark: start,
            busy: 0,
            constants: &mpi::abi().constants,
            communicators: Table::default(),
            next_communicator: 1,
            types: Table::default(),
            open: Requests::default(),
            wild: 0,
            persistent: Table::default(),
            messages: Table::default(),
            neighbours: Table::default(),
            last_type: (NO_HANDLE, 0),
            last_communicator: (NO_HANDLE, Communicator { number: 0, size: 0, position: 0, own: None }),
            requests: 0,
            ranks,
            element: 0,
            slow: true,
        }
    }

    pub fn finish(mut self, now: u64) {
        self.busy += now.saturating_sub(self.mark);
        self.output.finish(self.busy);
    }

    pub fn put(&mut self, record: Record) {
        if self.busy > u64::from(u32::MAX) {
            self.output.put(&Record { kind: Kind::Work as u8, bytes: self.busy, enter: record.enter, ..Record::default() });
            self.busy = 0;
        }
        self.output.put(&Record { busy: self.busy as u32, ..record });
        self.busy = 0;
    }

    pub fn record(&mut self, call: &Call<'_>, own: &Scratch, enter: u64, leave: u64) {
        self.busy += enter.saturating_sub(self.mark + clock::cost());
        self.mark = leave;
        let length = leave.saturating_sub(enter).min(u64::from(u32::MAX)) as u32;
        let record = Record { enter: enter.saturating_sub(self.start), length, ..Record::default() };
        match call.shape {
            Shape::Send { waits } => self.send(call, record, waits, [1, 2, 3, 4, 5], None),
            Shape::Isend => self.send(call, record, false, [1, 2, 3, 4, 5], Some(6)),
            Shape::Receive => self.receive(call, record, [1, 2, 3, 4, 5], 6),
            Shape::Ireceive => self.ireceive(call, record, [1, 2, 3, 4, 5], 6),
            Shape::SendReceive => self.send_receive(call, record, [1, 2, 3, 4, 10], [6, 7, 8, 9, 10], 11),
            Shape::SendReceiveReplace => self.send_receive(call, record, [1, 2, 3, 4, 7], [1, 2, 5, 6, 7], 8),
            Shape::SendInit | Shape::ReceiveInit => {
                let (bytes, peer, tag, communicator) = self.envelope(call, [1, 2, 3, 4, 5]);
                let template = Template { receive: call.shape == Shape::ReceiveInit, bytes, peer, tag, communicator };
                self.persistent.insert(call.handle_at(call.words[6], 0), Persistent::Message(template));
            }
            Shape::PartitionedInit { receive } => {
                let parts = call.int(1).max(0);
                // SAFETY: Fortran passes the address of a count of 64 bits, whatever other calls take.
                let count = if call.fortran { unsafe { *(call.words[2] as *const u64) } } else { call.words[2] };
                let bytes = count.saturating_mul(parts as u64).saturating_mul(self.size_of(call.handle(3), call.fortran));
                let communicator = self.communicator(call.handle(6), call.fortran).number;
                let template = Template { receive, bytes, peer: call.int(4), tag: call.int(5) ^ PARTITIONED, communicator };
                self.persistent.insert(call.handle_at(call.words[8], 0), Persistent::Partitioned { template, parts, left: 0 });
            }
            Shape::PartsReady { which } => {
                let (ready, request) = match which {
                    Parts::One => (1, 1),
                    Parts::Range => (call.int(1).saturating_sub(call.int(0)).saturating_add(1), 2),
                    Parts::List => (call.int(0), 2),
                };
                self.ready(call.handle(request), ready, record);
            }
            Shape::Start => self.start(call.handle_at(call.words[0], 0), record),
            Shape::StartAll => {
                for index in 0..call.int(0).max(0) as usize {
                    self.start(call.handle_at(call.words[1], index), record);
                }
            }
            Shape::Wait => self.complete(call, own, record, Some(call.words[1]), &mut [0].into_iter()),
            Shape::WaitAll => self.complete(call, own, record, Some(call.words[2]), &mut (0..own.handles.len())),
            Shape::Test if call.output(1) != 0 => self.complete(call, own, record, Some(call.words[2]), &mut [0].into_iter()),
            Shape::TestAll if call.output(2) != 0 => self.complete(call, own, record, Some(call.words[3]), &mut (0..own.handles.len())),
            Shape::WaitAny => self.complete_one(call, own, record, 2, 3),
            Shape::TestAny if call.output(3) != 0 => self.complete_one(call, own, record, 2, 4),
            Shape::WaitSome if call.output(2) != UNDEFINED => {
                let indices = (0..call.output(2).max(0) as usize).map(|place| call.count_of(3, place) as usize);
                // Fortran counts from 1.
                let first = usize::from(call.fortran);
                self.complete(call, own, record, Some(call.words[4]), &mut indices.map(|index| index - first.min(index)));
            }
            Shape::RequestFree => {
                // Nobody waits for it any more. One that was to be cancelled has most likely not matched.
                if let Some(open) = own.handles.first().and_then(|handle| self.open.remove(*handle)) {
                    self.wild -= usize::from(open.wild);
                    if open.cancelled {
                        self.cancelled(record, open.number);
                    }
                }
                own.handles.first().map(|handle| self.persistent.remove(handle));
            }
            Shape::Cancel => {
                if let Some(open) = self.open.get_mut(call.handle_at(call.words[0], 0)) {
                    open.cancelled = true;
                    self.wild += usize::from(!open.wild);
                    open.wild = true;
                }
            }
            Shape::MatchedProbe { flag } if !flag || call.output(3) != 0 => {
                let communicator = self.communicator(call.handle(2), call.fortran).number;
                let (message, status) = if flag { (4, 5) } else { (3, 4) };
                let (peer, tag) = self.status(call.words[status], 0);
                self.messages.insert(call.handle_at(call.words[message], 0), (communicator, peer, tag));
            }
            Shape::MatchedReceive | Shape::MatchedIreceive => {
                if let Some((communicator, peer, tag)) = own.handles.first().and_then(|handle| self.messages.remove(handle)) {
                    let bytes = call.count(1) * self.size_of(call.handle(2), call.fortran);
                    if call.shape == Shape::MatchedIreceive {
                        self.post(call.handle_at(call.words[4], 0), Template { receive: true, bytes, peer, tag, communicator }, record);
                    } else if peer >= 0 {
                        self.put(Record { kind: Kind::Receive as u8, bytes, peer, tag, communicator, ..record });
                    }
                }
            }
            Shape::IsendReceive => self.isend_receive(call, record, [1, 2, 3, 4, 10], [6, 7, 8, 9, 10], 11),
            Shape::IsendReceiveReplace => self.isend_receive(call, record, [1, 2, 3, 4, 7], [1, 2, 5, 6, 7], 8),
            Shape::Neighbour { which, call: kind } => self.neighbour(call, record, which, kind),
            Shape::Collective { which, call: kind } => self.collective(call, record, which, kind),
            Shape::OneSided { count, datatype, target } if call.int(target) >= 0 => {
                let elements = if count == 0 { 1 } else { call.count(count) };
                let bytes = elements * self.size_of(call.handle(datatype), call.fortran);
                self.output.one_sided(bytes);
            }
            Shape::CommunicatorNew { at, how } => self.made(call, record, at, how),
            Shape::CommunicatorFree => own.handles.iter().for_each(|handle| {
                self.last_communicator.0 = NO_HANDLE;
                self.communicators.remove(handle);
                self.neighbours.remove(handle);
            }),
            Shape::TypeFree => own.handles.iter().for_each(|handle| {
                self.last_type.0 = NO_HANDLE;
                self.types.remove(handle);
            }),
            _ => {}
        }
    }

    /// Whether one of these requests is a receive from anybody or with any tag.
    pub fn wants_statuses(&self, handles: &[u64]) -> bool {
        self.wild > 0 && handles.iter().any(|handle| self.open.get(*handle).is_some_and(|open| open.wild))
    }

    /// Bytes, rank, tag and communicator; `at`: count, type, rank, tag, communicator.
    fn envelope(&mut self, call: &Call<'_>, at: [usize; 5]) -> (u64, i32, i32, u16) {
        let bytes = call.count(at[0]) * self.size_of(call.handle(at[1]), call.fortran);
        let communicator = self.communicator(call.handle(at[4]), call.fortran).number;
        (bytes, call.int(at[2]), call.int(at[3]), communicator)
    }

    fn send(&mut self, call: &Call<'_>, record: Record, waits: bool, at: [usize; 5], request: Option<usize>) {
        let (bytes, peer, tag, communicator) = self.envelope(call, at);
        if peer < 0 {
            return;
        }
        let number = request.map(|at| self.begin(call.handle_at(call.words[at], 0), 1, false));
        let kind = if waits { Kind::Send } else { Kind::Isend };
        // One that nobody waits for has a number of its own too.
        let request = number.unwrap_or_else(|| if waits { 0 } else { self.numbers(1) });
        self.put(Record { kind: kind as u8, bytes, peer, tag, communicator, request, ..record });
    }

    fn receive(&mut self, call: &Call<'_>, record: Record, at: [usize; 5], status: usize) {
        let (bytes, mut peer, mut tag, communicator) = self.envelope(call, at);
        if peer == self.constants.any_source || tag == self.constants.any_tag {
            (peer, tag) = self.status(call.words[status], 0);
        }
        if peer >= 0 {
            self.put(Record { kind: Kind::Receive as u8, bytes, peer, tag, communicator, ..record });
        }
    }

    fn send_receive(&mut self, call: &Call<'_>, record: Record, send: [usize; 5], receive: [usize; 5], status: usize) {
        let (bytes, mut peer, mut tag, communicator) = self.envelope(call, receive);
        if peer == self.constants.any_source || tag == self.constants.any_tag {
            (peer, tag) = self.status(call.words[status], 0);
        }
        let out = self.envelope(call, send);
        match (peer >= 0, out.1 >= 0) {
            (true, true) => {
                self.put(Record { kind: Kind::SendReceive as u8, bytes, peer, tag, communicator, ..record });
                self.send(call, record, true, send, None);
            }
            (true, false) => self.put(Record { kind: Kind::Receive as u8, bytes, peer, tag, communicator, ..record }),
            _ => self.send(call, record, true, send, None),
        }
    }

    fn ireceive(&mut self, call: &Call<'_>, record: Record, at: [usize; 5], request: usize) {
        let (bytes, peer, tag, communicator) = self.envelope(call, at);
        self.post(call.handle_at(call.words[request], 0), Template { receive: true, bytes, peer, tag, communicator }, record);
    }

    fn post(&mut self, handle: u64, template: Template, record: Record) {
        let Template { bytes, peer, tag, communicator, .. } = template;
        let (any_source, any_tag) = (peer == self.constants.any_source, tag == self.constants.any_tag);
        if peer < 0 && !any_source {
            return;
        }
        let request = self.begin(handle, 1, any_source || any_tag);
        let (peer, tag) = (if any_source { ANY } else { peer }, if any_tag { ANY } else { tag });
        self.put(Record { kind: Kind::Ireceive as u8, bytes, peer, tag, communicator, request, ..record });
    }

    fn start(&mut self, handle: u64, record: Record) {
        match self.persistent.get(&handle).cloned() {
            Some(Persistent::Message(template)) if template.receive => self.post(handle, template, record),
            Some(Persistent::Message(template)) if template.peer >= 0 => self.begin_all(handle, &[Step::Message(template)], record),
            Some(Persistent::Partitioned { template, .. }) if template.receive => self.post(handle, template, record),
            Some(Persistent::Partitioned { template, parts, .. }) if template.peer >= 0 => {
                self.begin(handle, 1, false);
                self.persistent.insert(handle, Persistent::Partitioned { template, parts, left: parts });
                self.ready(handle, 0, record);
            }
            Some(Persistent::Steps(steps)) => self.begin_all(handle, &steps, record),
            _ => {}
        }
    }

    /// So many parts of a partitioned send may go. It is one message, when the last of them may.
    fn ready(&mut self, handle: u64, parts: i32, record: Record) {
        let Some(Open { number: request, .. }) = self.open.get(handle).copied() else { return };
        let Some(Persistent::Partitioned { template, left, .. }) = self.persistent.get_mut(&handle) else { return };
        *left = left.saturating_sub(parts);
        if *left == 0 {
            let Template { bytes, peer, tag, communicator, .. } = *template;
            self.put(Record { kind: Kind::Isend as u8, bytes, peer, tag, communicator, request, ..record });
        }
    }

    /// A send and a receive under one handle, the receive first.
    fn isend_receive(&mut self, call: &Call<'_>, record: Record, send: [usize; 5], receive: [usize; 5], request: usize) {
        let handle = call.handle_at(call.words[request], 0);
        let (bytes, peer, tag, communicator) = self.envelope(call, receive);
        let (any_source, any_tag) = (peer == self.constants.any_source, tag == self.constants.any_tag);
        let out = self.envelope(call, send);
        let (receives, sends) = (peer >= 0 || any_source, out.1 >= 0);
        if !receives && !sends {
            return;
        }
        let mut request = self.begin(handle, u32::from(receives) + u32::from(sends), receives && (any_source || any_tag));
        if receives {
            let (peer, tag) = (if any_source { ANY } else { peer }, if any_tag { ANY } else { tag });
            self.put(Record { kind: Kind::Ireceive as u8, bytes, peer, tag, communicator, request, ..record });
            request = request.wrapping_add(1);
        }
        if sends {
            let (bytes, peer, tag, communicator) = out;
            self.put(Record { kind: Kind::Isend as u8, bytes, peer, tag, communicator, request, ..record });
        }
    }

    /// Numbers for requests; the first of them.
    pub fn numbers(&mut self, count: u32) -> u32 {
        let first = self.requests;
        self.requests = first.wrapping_add(count);
        first
    }

    /// A request that is under way from now on, and stands for `count` messages; the first number.
    pub fn begin(&mut self, handle: u64, count: u32, wild: bool) -> u32 {
        let number = self.numbers(count);
        self.wild += usize::from(wild);
        if let Some(before) = self.open.insert(handle, Open { number, count, wild, cancelled: false }) {
            self.wild -= usize::from(before.wild);
        }
        number
    }

    /// Source and tag of a status.
    fn status(&self, address: u64, index: usize) -> (i32, i32) {
        let constants = self.constants;
        // SAFETY: a status that the call has written: the program's or ours (`want`).
        unsafe {
            let status = (address as *const u8).add(index * constants.status_size);
            (*status.add(constants.source_at).cast::<i32>(), *status.add(constants.tag_at).cast::<i32>())
        }
    }

    fn complete_one(&mut self, call: &Call<'_>, own: &Scratch, record: Record, index: usize, status: usize) {
        let index = call.output(index);
        if index != UNDEFINED {
            let index = (index - i32::from(call.fortran)).max(0) as usize;
            // One status for whichever it is.
            let place = call.words[status].wrapping_sub((index * self.constants.status_size) as u64);
            self.complete(call, own, record, Some(place), &mut [index].into_iter());
        }
    }

    /// These requests are over. Runs of numbers make one record.
    fn complete(&mut self, call: &Call<'_>, own: &Scratch, record: Record, statuses: Option<u64>, which: &mut dyn Iterator<Item = usize>) {
        let mut run: Option<(u32, u32)> = None;
        // Statuses of the indices that are given (MPI_Waitsome) stand one behind the other.
        let dense = call.shape == Shape::WaitSome;
        for (place, index) in which.enumerate() {
            let Some(open) = own.handles.get(index).and_then(|handle| self.open.remove(*handle)) else { continue };
            if open.wild {
                self.wild -= 1;
                if let Some(address) = statuses {
                    let place = if dense { place } else { index };
                    if open.cancelled && mpi::was_cancelled(address.wrapping_add((place * self.constants.status_size) as u64)) {
                        self.cancelled(record, open.number);
                        continue;
                    }
                    let (peer, tag) = self.status(address, place);
                    self.output.put(&Record {
                        kind: Kind::Matched as u8,
                        request: open.number,
                        peer,
                        tag,
                        enter: record.enter,
                        ..Record::default()
                    });
                }
            }
            run = match run {
                Some((first, count)) if first.wrapping_add(count) == open.number => Some((first, count + open.count)),
                Some(before) => {
                    self.wait(record, before);
                    Some((open.number, open.count))
                }
                None => Some((open.number, open.count)),
            };
        }
        if let Some(run) = run {
            self.wait(record, run);
        }
    }

    fn cancelled(&mut self, record: Record, request: u32) {
        self.output.put(&Record { kind: Kind::Cancelled as u8, request, enter: record.enter, ..Record::default() });
    }

    pub fn wait(&mut self, record: Record, (first, count): (u32, u32)) {
        self.put(Record { kind: Kind::Wait as u8, peer: first as i32, tag: count as i32, ..record });
    }

    /// Bytes of a datatype.
    #[inline]
    pub fn size_of(&mut self, handle: u64, fortran: bool) -> u64 {
        if self.last_type.0 != handle {
            self.last_type = (handle, self.look_up_size(handle, fortran));
        }
        self.last_type.1
    }

    fn look_up_size(&mut self, handle: u64, fortran: bool) -> u64 {
        if let Some(size) = self.types.get(&handle) {
            return *size;
        }
        self.slow = true;
        let real = if fortran { from_fortran(c"PMPI_Type_f2c", handle) } else { handle };
        let size = mpi::integer(c"PMPI_Type_size", real).max(0) as u64;
        self.types.insert(handle, size);
        size
    }

    #[inline]
    pub fn communicator(&mut self, handle: u64, fortran: bool) -> Communicator {
        if self.last_communicator.0 != handle {
            self.last_communicator = (handle, self.look_up_communicator(handle, fortran));
        }
        self.last_communicator.1
    }

    fn look_up_communicator(&mut self, handle: u64, fortran: bool) -> Communicator {
        if let Some(known) = self.communicators.get(&handle) {
            return *known;
        }
        self.slow = true;
        let real = real_communicator(handle, fortran);
        let position = mpi::integer(c"PMPI_Comm_rank", real).max(0) as usize;
        let found = if real == mpi::world() {
            Communicator { number: 0, size: self.ranks as usize, position, own: None }
        } else {
            let (members, remote) = mpi::members(real);
            let own = remote.is_some().then(|| (self.write_communicator(&members, false), members.len()));
            let others = remote.as_ref().unwrap_or(&members);
            Communicator { number: self.write_communicator(others, remote.is_some()), size: others.len(), position, own }
        };
        self.communicators.insert(handle, found);
        found
    }

    /// Writes the members of a new communicator; its number.
    fn write_communicator(&mut self, members: &[u32], remote: bool) -> u16 {
        // After 65,535 communicators numbers are used again: those of the first ones are long free.
        let number = self.next_communicator;
        self.next_communicator = self.next_communicator.checked_add(1).unwrap_or(1);
        let (bytes, peer) = (members.len() as u64, i32::from(remote));
        self.output.put(&Record { kind: Kind::Communicator as u8, communicator: number, bytes, peer, ..Record::default() });
        for part in members.chunks(MEMBERS) {
            self.output.put_bytes(&Record::of_members(part));
        }
        number
    }
}

/// The communicator behind a handle of C or Fortran.
pub fn real_communicator(handle: u64, fortran: bool) -> u64 {
    if fortran { from_fortran(c"PMPI_Comm_f2c", handle) } else { handle }
}

fn from_fortran(convert: &CStr, handle: u64) -> u64 {
    // SAFETY: MPI_Comm_f2c and MPI_Type_f2c take one integer.
    let handle = unsafe { mpi::call(convert, [handle & 0xffff_ffff, 0, 0, 0]) };
    mpi::abi().handle_of(handle)
}
