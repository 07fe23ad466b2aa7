//! The calls: their shapes and arguments, and what is done around each.

use crate::clock::now;
use crate::guarded::Guarded;
use crate::mpi;
use crate::output::{Output, tell};
use crate::recorder::Recorder;
use narrows_mpilib::Fortran;
use narrows_output::say;
use std::cell::{Cell, UnsafeCell};
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Integer arguments of the longest call and Fortran's ierror.
pub const ARGUMENTS: usize = 14;
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
    /// `MPI_Psend_init` and `MPI_Precv_init`.
    PartitionedInit {
        receive: bool,
    },
    /// Parts of a partitioned send may go.
    PartsReady {
        which: Parts,
    },
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
    Cancel,
    MatchedProbe {
        flag: bool,
    },
    MatchedReceive,
    MatchedIreceive,
    IsendReceive,
    IsendReceiveReplace,
    Collective {
        which: Which,
        call: Kinds,
    },
    /// Among neighbours.
    Neighbour {
        which: Which,
        call: Kinds,
    },
    /// One-sided; where the number of elements (0: it is one), their type and the target stand.
    OneSided {
        count: usize,
        datatype: usize,
        target: usize,
    },
    /// Makes a communicator; where its handle goes to.
    CommunicatorNew {
        at: usize,
        how: Maker,
    },
    CommunicatorFree,
    TypeFree,
    /// Its time is no computing, that is all.
    Other,
}

/// Which parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    One,
    /// From the first argument to the second.
    Range,
    /// As many as the first argument says.
    List,
}

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Blocking,
    Returning,
    Persistent,
}

/// Who agrees on a new communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The members of the one that it is made from, the first argument.
    Parent,
    /// The same, after having told each other their colours and keys.
    Split,
    /// As `Parent`; whether ranks may be numbered anew stands in front of the new communicator.
    Reorders,
    /// Its own members.
    Members,
    /// Two groups.
    Groups,
}

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

impl Which {
    /// Whether vectors are combined.
    pub const fn reduces(self) -> bool {
        use Which::*;
        matches!(self, Reduce | Allreduce | ReduceScatterBlock | ReduceScatter | Scan | Exscan)
    }

    /// Whether one rank is special.
    pub const fn has_root(self) -> bool {
        use Which::*;
        matches!(self, Bcast | Reduce | Gather | Gatherv | Scatter | Scatterv)
    }
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
    say!("the program calls {}, which no loaded MPI library has", name.to_string_lossy());
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
    pub fn int(&self, at: usize) -> i32 {
        let word = self.words[at];
        // SAFETY: Fortran passes addresses of integers that it may not leave out.
        if self.fortran { unsafe { *(word as *const i32) } } else { word as i32 }
    }

    pub fn count(&self, at: usize) -> u64 {
        if self.wide { self.words[at] } else { self.int(at).max(0) as u64 }
    }

    /// Element of an array of counts.
    pub fn count_of(&self, at: usize, index: usize) -> u64 {
        let address = self.words[at];
        // SAFETY: the program passes an array with an element for each member where MPI says so.
        unsafe {
            match self.wide {
                true => *(address as *const u64).add(index),
                false => (*(address as *const i32).add(index)).max(0) as u64,
            }
        }
    }

    pub fn handle(&self, at: usize) -> u64 {
        let word = self.words[at];
        match self.fortran {
            // SAFETY: as in `int`.
            true => u64::from(unsafe { *(word as *const u32) }) | FORTRAN,
            false => mpi::abi().handle_of(word),
        }
    }

    /// A handle in memory: element of an array of requests, or where a call has put a new one.
    pub fn handle_at(&self, address: u64, index: usize) -> u64 {
        // SAFETY: the program passes the address of as many handles.
        unsafe {
            match self.fortran {
                true => u64::from(*(address as *const u32).add(index)) | FORTRAN,
                false => mpi::abi().handle_at(mpi::abi().handle_place(address, index)),
            }
        }
    }

    pub fn output(&self, at: usize) -> i32 {
        // SAFETY: the address of an int that the call has written.
        unsafe { *(self.words[at] as *const i32) }
    }
}

/// What a call leaves behind for its end.
pub struct Scratch {
    /// Requests as they were before the call set them to null.
    pub handles: Vec<u64>,
    /// Where the program ignores statuses and they are wanted.
    statuses: Vec<u64>,
}

/// A thread. In one piece: each look-up of a thread's variables costs a call.
struct Thread {
    /// Calls that it is in: those within a call are not the program's.
    depth: Cell<u32>,
    /// Of the outermost call. Never dropped: so that no destructor has to be registered.
    scratch: UnsafeCell<ManuallyDrop<Scratch>>,
}

thread_local! {
    static THREAD: Thread = const {
        let scratch = Scratch { handles: Vec::new(), statuses: Vec::new() };
        Thread { depth: Cell::new(0), scratch: UnsafeCell::new(ManuallyDrop::new(scratch)) }
    };
}

static READY: AtomicBool = AtomicBool::new(false);
static RECORDER: Guarded<Option<Recorder>> = Guarded::new(None);

/// The real call, with records of it.
///
/// # Safety
/// `call.words` are what the program passed to `real`.
pub unsafe fn around(real: &Real, mut call: Call<'_>) -> u64 {
    if !READY.load(Acquire) && call.shape != Shape::Init {
        // SAFETY: forwarded.
        return unsafe { real.call(call.words) };
    }
    THREAD.with(|thread| {
        if thread.depth.get() > 0 {
            // SAFETY: forwarded.
            return unsafe { real.call(call.words) };
        }
        let _nested = Nested::begin(&thread.depth);
        if call.shape == Shape::Init {
            // SAFETY: forwarded.
            let result = unsafe { real.call(call.words) };
            begin();
            return result;
        }
        // SAFETY: the depth keeps calls within this one away; if the program throws through here, this reference is
        // gone before the next call.
        let own: &mut Scratch = unsafe { &mut *thread.scratch.get() };
        let enter = now();
        prepare(&mut call, own, enter);
        // SAFETY: forwarded; only addresses of statuses have changed, to memory of ours.
        let result = unsafe { real.call(call.words) };
        if call.shape != Shape::Finalize {
            let leave = now();
            RECORDER.with(|recorder| {
                if let Some(recorder) = recorder.as_mut() {
                    recorder.record(&call, own, enter, leave);
                    if std::mem::take(&mut recorder.slow) {
                        recorder.mark = now();
                    }
                }
            });
        }
        result
    })
}

struct Nested<'a>(&'a Cell<u32>);

impl Nested<'_> {
    fn begin(depth: &Cell<u32>) -> Nested<'_> {
        depth.set(depth.get() + 1);
        Nested(depth)
    }
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// MPI_Init has returned.
fn begin() {
    let Some(folder) = std::env::var_os("NARROWS_RECORD") else { return };
    let world = mpi::world();
    let (rank, ranks) = (mpi::integer(c"PMPI_Comm_rank", world), mpi::integer(c"PMPI_Comm_size", world));
    match Output::create(Path::new(&folder), rank as u32, ranks as u32, &mpi::library()) {
        Ok(output) => {
            RECORDER.set_shared(mpi::is_threaded());
            RECORDER.with(|recorder| *recorder = Some(Recorder::new(output, ranks.max(1) as u32)));
            READY.store(true, Release);
        }
        Err(error) => tell(Path::new(&folder), &format!("nothing is recorded, at rank {rank}"), &error),
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
            let constants = &mpi::abi().constants;
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
    if let Some(status) = status
        && RECORDER.with(|recorder| recorder.as_ref().is_some_and(|recorder| recorder.wants_statuses(&own.handles)))
    {
        want(call, own, status, own.handles.len());
    }
}

/// Passes statuses of our own where the program ignores them.
fn want(call: &mut Call<'_>, own: &mut Scratch, at: usize, count: usize) {
    let constants = &mpi::abi().constants;
    let ignored = match call.fortran {
        false => call.words[at] == constants.ignore,
        true => Fortran::any(mpi::abi().fortran_ignore, call.words[at], mpi::variable),
    };
    if ignored {
        // All bits set is "any": MPICH leaves the status of an MPI_Isendrecv as it is.
        own.statuses.clear();
        own.statuses.resize(count * constants.status_size.div_ceil(8) + 1, u64::MAX);
        call.words[at] = own.statuses.as_mut_ptr() as u64;
    }
}
