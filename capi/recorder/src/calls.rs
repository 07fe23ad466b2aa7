//! Around each call: what it does, in records.

use crate::clock::{self, now};
use crate::guarded::Guarded;
use crate::mpi::{self, Constants, Flavor, UNDEFINED};
use crate::output::Output;
use crate::requests::{Open, Persistent, Table, Template};
use narrows_record::{ANY, Kind, MEMBERS, Record};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Integer arguments of the longest call and Fortran's ierror.
pub const ARGUMENTS: usize = 14;
/// A handle that no object has.
const NO_HANDLE: u64 = u64::MAX;
/// Marks handles of Fortran: another space than those of C.
const FORTRAN: u64 = 1 << 63;

/// What a function does, and so where its arguments stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Init,
    Finalize,
    /// `MPI_Send` and relatives; a buffered one is over when it returns, whatever becomes of the message.
    Send {
        waits: bool,
    },
    Isend,
    Receive,
    Ireceive,
    SendReceive,
    SendReceiveReplace,
    SendInit,
    ReceiveInit,
    Start,
    StartAll,
    Wait,
    WaitAll,
    WaitAny,
    WaitSome,
    Test,
    TestAll,
    TestAny,
    RequestFree,
    MatchedProbe {
        flag: bool,
    },
    MatchedReceive,
    MatchedIreceive,
    IsendReceive,
    IsendReceiveReplace,
    Collective {
        which: Which,
        returns: bool,
    },
    /// A persistent one.
    CollectiveInit {
        which: Which,
    },
    Neighbour {
        which: Pattern,
        call: Kinds,
    },
    CommunicatorFree,
    TypeFree,
    /// Its time is no computing, that is all.
    Other,
}

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Blocking,
    Returning,
    Persistent,
}

/// Collectives among neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
}

/// Tags of messages among neighbours, above what programs use; one per place in a grid.
const NEIGHBOUR_TAG: i32 = 0x7f00_0000;

/// Collectives, numbered as the trace library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Which {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    /// Recorded as an all-to-all-v.
    Alltoallw,
}

/// The real function behind a name.
pub struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

type Function = unsafe extern "C-unwind" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

impl Real {
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicUsize::new(0) }
    }

    fn get(&self) -> usize {
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            address = mpi::find(self.name);
            if address == 0 {
                missing(self.name);
            }
            self.address.store(address, Relaxed);
        }
        address
    }

    /// # Safety
    /// The arguments are those of the program; arguments that the function does not have are passed in vain.
    unsafe fn call(&self, a: &[u64; ARGUMENTS]) -> u64 {
        // SAFETY: integer arguments only, passed in registers and on the stack, which the caller clears (System V ABI).
        let function = unsafe { std::mem::transmute::<usize, Function>(self.get()) };
        // SAFETY: forwarded contract.
        unsafe { function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13]) }
    }
}

fn missing(name: &CStr) -> ! {
    eprintln!("narrows: the program calls {}, which no loaded MPI library has", name.to_string_lossy());
    std::process::abort()
}

/// One call.
pub struct Call<'a> {
    pub shape: Shape,
    pub fortran: bool,
    /// Counts are 64 bits wide.
    pub wide: bool,
    pub words: &'a mut [u64; ARGUMENTS],
}

impl Call<'_> {
    fn int(&self, at: usize) -> i32 {
        let word = self.words[at];
        // SAFETY: Fortran passes addresses of integers that it may not leave out.
        if self.fortran { unsafe { *(word as *const i32) } } else { word as i32 }
    }

    fn count(&self, at: usize) -> u64 {
        if self.wide { self.words[at] } else { self.int(at).max(0) as u64 }
    }

    /// Element of an array of counts.
    fn count_of(&self, at: usize, index: usize) -> u64 {
        let address = self.words[at];
        // SAFETY: the program passes an array with an element for each member where MPI says so.
        unsafe {
            match self.wide {
                true => *(address as *const u64).add(index),
                false => (*(address as *const i32).add(index)).max(0) as u64,
            }
        }
    }

    fn handle(&self, at: usize) -> u64 {
        let word = self.words[at];
        match (self.fortran, Flavor::get()) {
            // SAFETY: as in `int`.
            (true, _) => u64::from(unsafe { *(word as *const u32) }) | FORTRAN,
            (false, Flavor::Mpich) => word & 0xffff_ffff,
            (false, _) => word,
        }
    }

    /// A handle in memory: element of an array of requests, or where a call has put a new one.
    fn handle_at(&self, address: u64, index: usize) -> u64 {
        // SAFETY: the program passes the address of as many handles.
        unsafe {
            match (self.fortran, Flavor::get()) {
                (true, _) => u64::from(*(address as *const u32).add(index)) | FORTRAN,
                (false, Flavor::Mpich) => u64::from(*(address as *const u32).add(index)),
                (false, _) => *(address as *const u64).add(index),
            }
        }
    }

    fn output(&self, at: usize) -> i32 {
        // SAFETY: the address of an int that the call has written.
        unsafe { *(self.words[at] as *const i32) }
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { handles: Vec::new(), statuses: Vec::new() }) };
}

/// What a call leaves behind for its end.
#[derive(Default)]
struct Scratch {
    /// Requests as they were before the call set them to null.
    handles: Vec<u64>,
    /// Where the program ignores statuses and they are wanted.
    statuses: Vec<u64>,
}

static READY: AtomicBool = AtomicBool::new(false);
static RECORDER: Guarded<Option<Recorder>> = Guarded::new(None);

/// The real call, with records of it.
///
/// # Safety
/// `call.words` are what the program passed to `real`.
pub unsafe fn around(real: &Real, mut call: Call<'_>) -> u64 {
    let ready = READY.load(Acquire);
    if !(ready || call.shape == Shape::Init) || DEPTH.get() > 0 {
        // SAFETY: forwarded.
        return unsafe { real.call(call.words) };
    }
    let _nested = Nested::begin();
    if call.shape == Shape::Init {
        // SAFETY: forwarded.
        let result = unsafe { real.call(call.words) };
        begin();
        return result;
    }
    SCRATCH.with(|scratch| {
        // Taken, not borrowed: a callback of the program may throw through here.
        let mut own = scratch.try_borrow_mut().map(|mut scratch| std::mem::take(&mut *scratch)).unwrap_or_default();
        let enter = now();
        prepare(&mut call, &mut own, enter);
        // SAFETY: forwarded; only addresses of statuses have changed, to memory of ours.
        let result = unsafe { real.call(call.words) };
        if call.shape != Shape::Finalize {
            let leave = now();
            RECORDER.with(|recorder| {
                if let Some(recorder) = recorder.as_mut() {
                    recorder.record(&call, &own, enter, leave);
                    if std::mem::take(&mut recorder.slow) {
                        recorder.mark = now();
                    }
                }
            });
        }
        if let Ok(mut scratch) = scratch.try_borrow_mut() {
            *scratch = own;
        }
        result
    })
}

struct Nested;

impl Nested {
    fn begin() -> Nested {
        DEPTH.set(DEPTH.get() + 1);
        Nested
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// MPI_Init has returned.
fn begin() {
    let Some(folder) = std::env::var_os("NARROWS_RECORD") else { return };
    let world = Flavor::get().world();
    let (rank, ranks) = (mpi::integer(c"PMPI_Comm_rank", world), mpi::integer(c"PMPI_Comm_size", world));
    match Output::create(Path::new(&folder), rank as u32, ranks as u32) {
        Ok(output) => {
            RECORDER.set_shared(mpi::is_threaded());
            RECORDER.with(|recorder| *recorder = Some(Recorder::new(output, ranks.max(1) as u32)));
            READY.store(true, Release);
        }
        Err(error) => eprintln!("narrows: rank {rank} is not recorded: {}: {error}", Path::new(&folder).display()),
    }
}

/// Keeps what the call will change, and asks for statuses that are needed.
fn prepare(call: &mut Call<'_>, own: &mut Scratch, enter: u64) {
    own.handles.clear();
    let (requests, count, status) = match call.shape {
        Shape::MatchedProbe { flag } => {
            want(call, own, if flag { 5 } else { 4 }, 1);
            return;
        }
        Shape::Wait => (0, 1, Some(1)),
        Shape::Test => (0, 1, Some(2)),
        Shape::RequestFree => (0, 1, None),
        Shape::WaitAll => (1, call.int(0), Some(2)),
        Shape::TestAll => (1, call.int(0), Some(3)),
        Shape::WaitAny => (1, call.int(0), Some(3)),
        Shape::TestAny | Shape::WaitSome => (1, call.int(0), Some(4)),
        Shape::CommunicatorFree | Shape::TypeFree => (0, 1, None),
        Shape::MatchedReceive | Shape::MatchedIreceive => (3, 1, None),
        Shape::Receive | Shape::SendReceive | Shape::SendReceiveReplace => {
            let (source, tag, status) = match call.shape {
                Shape::Receive => (3, 4, 6),
                Shape::SendReceive => (8, 9, 11),
                _ => (5, 6, 8),
            };
            let constants = Flavor::get().constants();
            if call.int(source) == constants.any_source || call.int(tag) == constants.any_tag {
                want(call, own, status, 1);
            }
            return;
        }
        Shape::Finalize => {
            READY.store(false, Release);
            if let Some(recorder) = RECORDER.with(Option::take) {
                recorder.finish(enter);
            }
            return;
        }
        _ => return,
    };
    let address = call.words[requests];
    own.handles.extend((0..count.max(0) as usize).map(|index| call.handle_at(address, index)));
    let is_wild = |recorder: &mut Option<Recorder>| {
        recorder.as_ref().is_some_and(|recorder| {
            recorder.wild > 0 && own.handles.iter().any(|handle| recorder.open.get(handle).is_some_and(|open| open.wild))
        })
    };
    if let Some(status) = status
        && RECORDER.with(is_wild)
    {
        want(call, own, status, own.handles.len());
    }
}

/// Passes statuses of our own where the program ignores them.
fn want(call: &mut Call<'_>, own: &mut Scratch, at: usize, count: usize) {
    let constants = Flavor::get().constants();
    let ignored = match call.fortran {
        false => call.words[at] == constants.ignore,
        true => fortran_ignores(call.words[at]),
    };
    if ignored {
        // All bits set is "any": MPICH leaves the status of an MPI_Isendrecv as it is.
        own.statuses.clear();
        own.statuses.resize(count * constants.status_size.div_ceil(8) + 1, u64::MAX);
        call.words[at] = own.statuses.as_mut_ptr() as u64;
    }
}

/// Whether this address says that a Fortran program wants no status.
fn fortran_ignores(address: u64) -> bool {
    let open_mpi = [c"mpi_fortran_status_ignore_", c"mpi_fortran_statuses_ignore_"].map(mpi::variable);
    // MPICH: variables with the addresses.
    let mpich = [c"MPI_F_STATUS_IGNORE", c"MPI_F_STATUSES_IGNORE"].map(|name| match mpi::variable(name) {
        0 => 0,
        // SAFETY: a variable that holds an address.
        place => unsafe { *(place as *const usize) },
    });
    open_mpi.into_iter().chain(mpich).any(|known| known != 0 && known as u64 == address)
}

struct Communicator {
    number: u16,
    size: usize,
    /// This rank among the members.
    position: usize,
}

struct Recorder {
    output: Output,
    start: u64,
    /// Up to here time has been accounted for.
    mark: u64,
    /// Computing that stands in no record yet.
    busy: u64,
    constants: &'static Constants,
    communicators: Table<Communicator>,
    numbers: u16,
    types: Table<u64>,
    open: Table<Open>,
    wild: usize,
    persistent: Table<Persistent>,
    /// Matched messages: communicator, source and tag.
    messages: Table<(u16, i32, i32)>,
    neighbours: Table<mpi::Neighbours>,
    /// The datatype and the communicator of the last call: mostly those of the next one.
    last_type: (u64, u64),
    last_communicator: (u64, (u16, usize, usize)),
    requests: u32,
    ranks: u32,
    /// Something was looked up for the first time: that took longer than a call.
    slow: bool,
}

impl Recorder {
    fn new(output: Output, ranks: u32) -> Recorder {
        let start = now();
        Recorder {
            output,
            start,
            mark: start,
            busy: 0,
            constants: Flavor::get().constants(),
            communicators: Table::default(),
            numbers: 1,
            types: Table::default(),
            open: Table::default(),
            wild: 0,
            persistent: Table::default(),
            messages: Table::default(),
            neighbours: Table::default(),
            last_type: (NO_HANDLE, 0),
            last_communicator: (NO_HANDLE, (0, 0, 0)),
            requests: 0,
            ranks,
            slow: true,
        }
    }

    fn finish(mut self, now: u64) {
        self.busy += now.saturating_sub(self.mark);
        self.output.finish(self.busy);
    }

    fn put(&mut self, record: Record) {
        if self.busy > u64::from(u32::MAX) {
            self.output.put(&Record { kind: Kind::Work as u8, bytes: self.busy, enter: record.enter, ..Record::default() });
            self.busy = 0;
        }
        self.output.put(&Record { busy: self.busy as u32, ..record });
        self.busy = 0;
    }

    fn record(&mut self, call: &Call<'_>, own: &Scratch, enter: u64, leave: u64) {
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
                // Nobody waits for it any more.
                if let Some(open) = own.handles.first().and_then(|handle| self.open.remove(handle)) {
                    self.wild -= usize::from(open.wild);
                }
                own.handles.first().map(|handle| self.persistent.remove(handle));
            }
            Shape::MatchedProbe { flag } if !flag || call.output(3) != 0 => {
                let communicator = self.communicator(call.handle(2), call.fortran).0;
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
            Shape::CollectiveInit { which } => {
                if let Some((whole, at)) = self.collective_record(call, which) {
                    self.persistent.insert(call.handle_at(call.words[at + 2], 0), Persistent::Collective(whole));
                }
            }
            Shape::Neighbour { which, call: kind } => self.neighbour(call, record, which, kind),
            Shape::Collective { which, returns } => self.collective(call, record, which, returns),
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

    /// Bytes, rank, tag and communicator; `at`: count, type, rank, tag, communicator.
    fn envelope(&mut self, call: &Call<'_>, at: [usize; 5]) -> (u64, i32, i32, u16) {
        let bytes = call.count(at[0]) * self.size_of(call.handle(at[1]), call.fortran);
        let communicator = self.communicator(call.handle(at[4]), call.fortran).0;
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
        let request = number.unwrap_or_else(|| if waits { 0 } else { self.number() });
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
            Some(Persistent::Message(template)) if template.peer >= 0 => self.post_all(handle, &[template], record),
            Some(Persistent::Collective(whole)) => {
                self.begin_collective(handle, Record { enter: record.enter, length: record.length, ..whole })
            }
            Some(Persistent::Neighbours(messages)) => self.post_all(handle, &messages, record),
            _ => {}
        }
    }

    /// Messages with known peers under one handle.
    fn post_all(&mut self, handle: u64, messages: &[Template], record: Record) {
        let first = self.begin(handle, messages.len() as u32, false);
        for (&Template { receive, bytes, peer, tag, communicator }, request) in messages.iter().zip(first..) {
            let kind = if receive { Kind::Ireceive } else { Kind::Isend };
            self.put(Record { kind: kind as u8, bytes, peer, tag, communicator, request, ..record });
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

    /// A collective among neighbours, as its messages.
    fn neighbour(&mut self, call: &Call<'_>, record: Record, which: Pattern, kind: Kinds) {
        let fortran = call.fortran;
        let at = match which {
            Pattern::Allgather | Pattern::Alltoall => 6,
            Pattern::Allgatherv => 7,
            Pattern::Alltoallv | Pattern::Alltoallw => 8,
        };
        let handle = call.handle(at);
        let communicator = self.communicator(handle, fortran).0;
        let neighbours = match self.neighbours.get(&handle) {
            Some(known) => known.clone(),
            None => {
                self.slow = true;
                let found = mpi::neighbours(if fortran { from_fortran(c"PMPI_Comm_f2c", handle) } else { handle });
                self.neighbours.insert(handle, found.clone());
                found
            }
        };
        let mut messages = Vec::new();
        let mut size = |index: usize, receive: bool| {
            let plain = |count: usize, datatype: u64| call.count(count) * datatype;
            match (which, receive) {
                (Pattern::Allgather | Pattern::Alltoall, false) | (Pattern::Allgatherv, false) => {
                    plain(1, self.size_of(call.handle(2), fortran))
                }
                (Pattern::Allgather | Pattern::Alltoall, true) => plain(4, self.size_of(call.handle(5), fortran)),
                (Pattern::Allgatherv, true) => call.count_of(4, index) * self.size_of(call.handle(6), fortran),
                (Pattern::Alltoallv, false) => call.count_of(1, index) * self.size_of(call.handle(3), fortran),
                (Pattern::Alltoallv, true) => call.count_of(5, index) * self.size_of(call.handle(7), fortran),
                (Pattern::Alltoallw, false) => call.count_of(1, index) * self.size_of(call.handle_at(call.words[3], index), fortran),
                (Pattern::Alltoallw, true) => call.count_of(5, index) * self.size_of(call.handle_at(call.words[7], index), fortran),
            }
        };
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
                messages.push(Template { receive, bytes: size(index, receive), peer, tag: NEIGHBOUR_TAG + place as i32, communicator });
            }
        }
        match kind {
            Kinds::Persistent => {
                self.persistent.insert(call.handle_at(call.words[at + 2], 0), Persistent::Neighbours(messages));
            }
            Kinds::Returning => self.post_all(call.handle_at(call.words[at + 1], 0), &messages, record),
            Kinds::Blocking if !messages.is_empty() => {
                // A handle that no request has.
                self.post_all(NO_HANDLE, &messages, record);
                if let Some(open) = self.open.remove(&NO_HANDLE) {
                    self.wait(record, (open.number, open.count));
                }
            }
            Kinds::Blocking => {}
        }
    }

    fn number(&mut self) -> u32 {
        self.requests = self.requests.wrapping_add(1);
        self.requests.wrapping_sub(1)
    }

    /// A request that is under way from now on, and stands for `count` messages; the first number.
    fn begin(&mut self, handle: u64, count: u32, wild: bool) -> u32 {
        let number = self.requests;
        self.requests = number.wrapping_add(count);
        self.wild += usize::from(wild);
        if let Some(before) = self.open.insert(handle, Open { number, count, wild }) {
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
            let Some(open) = own.handles.get(index).and_then(|handle| self.open.remove(handle)) else { continue };
            if open.wild {
                self.wild -= 1;
                if let Some(address) = statuses {
                    let (peer, tag) = self.status(address, if dense { place } else { index });
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

    fn wait(&mut self, record: Record, (first, count): (u32, u32)) {
        self.put(Record { kind: Kind::Wait as u8, peer: first as i32, tag: count as i32, ..record });
    }

    /// Bytes of a datatype.
    #[inline]
    fn size_of(&mut self, handle: u64, fortran: bool) -> u64 {
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

    /// Number, size, and this rank's position.
    #[inline]
    fn communicator(&mut self, handle: u64, fortran: bool) -> (u16, usize, usize) {
        if self.last_communicator.0 != handle {
            self.last_communicator = (handle, self.look_up_communicator(handle, fortran));
        }
        self.last_communicator.1
    }

    fn look_up_communicator(&mut self, handle: u64, fortran: bool) -> (u16, usize, usize) {
        if let Some(known) = self.communicators.get(&handle) {
            return (known.number, known.size, known.position);
        }
        self.slow = true;
        let real = if fortran { from_fortran(c"PMPI_Comm_f2c", handle) } else { handle };
        let position = mpi::integer(c"PMPI_Comm_rank", real).max(0) as usize;
        let (number, size) = if real == Flavor::get().world() {
            (0, self.ranks as usize)
        } else {
            let (members, remote) = mpi::members(real);
            // After 65,535 communicators numbers are used again: those of the first ones are long free.
            let number = self.numbers;
            self.numbers = self.numbers.checked_add(1).unwrap_or(1);
            let (bytes, peer) = (members.len() as u64, i32::from(remote));
            self.output.put(&Record { kind: Kind::Communicator as u8, communicator: number, bytes, peer, ..Record::default() });
            for part in members.chunks(MEMBERS) {
                self.output.put_bytes(&Record::of_members(part));
            }
            (number, members.len())
        };
        self.communicators.insert(handle, Communicator { number, size, position });
        (number, size, position)
    }

    fn collective(&mut self, call: &Call<'_>, record: Record, which: Which, returns: bool) {
        let Some((whole, at)) = self.collective_record(call, which) else { return };
        let whole = Record { enter: record.enter, length: record.length, ..whole };
        if returns {
            self.begin_collective(call.handle_at(call.words[at + 1], 0), whole);
        } else {
            self.put(whole);
        }
    }

    fn begin_collective(&mut self, handle: u64, whole: Record) {
        let request = self.begin(handle, 1, false);
        self.output.put(&Record { kind: Kind::Root as u8, request: whole.request, ..Record::default() });
        self.put(Record { kind: Kind::Icollective as u8, request, ..whole });
    }

    /// A collective without its time, and where its communicator stands; none for what is not recorded.
    fn collective_record(&mut self, call: &Call<'_>, which: Which) -> Option<(Record, usize)> {
        use Which::*;
        // Where the communicator stands, the root, and the request behind it all.
        let (at, root) = match which {
            Barrier => (0, None),
            Bcast => (4, Some(3)),
            Reduce => (6, Some(5)),
            Allreduce | Scan | Exscan | ReduceScatterBlock | ReduceScatter => (5, None),
            Gather | Scatter => (7, Some(6)),
            Gatherv | Scatterv => (8, Some(7)),
            Allgather | Alltoall => (6, None),
            Allgatherv => (7, None),
            Alltoallv | Alltoallw => (8, None),
        };
        let (communicator, size, position) = self.communicator(call.handle(at), call.fortran);
        let root = root.map_or(0, |at| call.int(at));
        if root < 0 {
            // MPI_ROOT and MPI_PROC_NULL: between two groups.
            return None;
        }
        let at_root = root as usize == position;
        let n = size as u64;
        let fortran = call.fortran;
        let constants = self.constants;
        let mut plain = |count: usize, datatype: usize| call.count(count) * self.size_of(call.handle(datatype), fortran);
        let sum = |counts: usize| (0..size).map(|index| call.count_of(counts, index)).sum::<u64>();
        // MPI_IN_PLACE at the send buffer: its count and type say nothing.
        let in_place = || if fortran { fortran_in_place(call.words[0]) } else { call.words[0] == constants.in_place };
        let (send, receive) = match which {
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
        };
        let which = if which == Alltoallw { Alltoallv } else { which };
        let whole = Record {
            kind: Kind::Collective as u8,
            bytes: send,
            peer: receive as u32 as i32,
            tag: (receive >> 32) as i32,
            request: root as u32,
            communicator,
            extra: which as u8,
            ..Record::default()
        };
        Some((whole, at))
    }
}

fn from_fortran(convert: &CStr, handle: u64) -> u64 {
    // SAFETY: MPI_Comm_f2c and MPI_Type_f2c take one integer.
    let handle = unsafe { mpi::call(convert, [handle & 0xffff_ffff, 0, 0, 0]) };
    if Flavor::get() == Flavor::Mpich { handle & 0xffff_ffff } else { handle }
}

fn fortran_in_place(address: u64) -> bool {
    let open_mpi = mpi::variable(c"mpi_fortran_in_place_");
    let mpich = match mpi::variable(c"MPIR_F_MPI_IN_PLACE") {
        0 => 0,
        // SAFETY: a variable that holds an address.
        place => unsafe { *(place as *const usize) },
    };
    [open_mpi, mpich].into_iter().any(|known| known != 0 && known as u64 == address)
}
