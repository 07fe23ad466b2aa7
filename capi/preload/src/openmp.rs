//! Teams of OpenMP. Their runtimes wait in the kernel by ways of their own, so their own functions say where threads
//! meet.
//!
//! * GNU's (libgomp): the functions that compilers call for parallel regions, barriers and critical sections.
//! * LLVM's (libomp, also Intel's): the interface for tools of the OpenMP standard (OMPT, OpenMP 5.0, chapter 4).
//!
//! A member of a team computes from the beginning of its part to the next barrier or the end; what it does between,
//! waiting or spinning, is nobody's. The region ends for its master at the clock of the slowest member.

use crate::baton;
use crate::meet;
use crate::places::Rounds;
use crate::symbols::Real;
use crate::{portals, state};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, SeqCst},
};
use std::sync::{Mutex, MutexGuard};

type Region = unsafe extern "C" fn(*mut c_void);

/// The threads of one parallel region.
#[repr(C)]
struct Team {
    /// The first word of what the program passes to the region: GOMP_parallel_reductions looks into it.
    first: *mut c_void,
    region: Option<Region>,
    data: *mut c_void,
    start: u64,
    meeting: Mutex<Meeting>,
    /// Tasks are in use, which members execute while they wait.
    tasks: AtomicBool,
    /// How many have begun, and of how many as the first of them knows.
    begun: AtomicU32,
    members: AtomicU32,
    /// Members that wait for the others to begin.
    waiting: AtomicU32,
    /// Where its master was.
    outside: Place,
}

#[derive(Default)]
struct Meeting {
    rounds: Rounds,
    end: u64,
}

impl Team {
    fn new(region: Option<Region>, data: *mut c_void) -> Team {
        let start = portals::thread_clock();
        Team {
            first: ptr::null_mut(),
            region,
            data,
            start,
            meeting: Mutex::default(),
            tasks: AtomicBool::new(false),
            begun: AtomicU32::new(0),
            members: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            outside: PLACE.get(),
        }
    }

    /// One of so many members begins: the calling thread.
    fn begin(&self, members: u32) {
        // First: whoever waits for it here looks next how far it is.
        portals::thread_goes_on(self.start);
        self.members.store(members, Relaxed);
        self.begun.fetch_add(1, SeqCst);
        if self.waiting.load(SeqCst) != 0 {
            // SAFETY: the word lives until all members have come to their end.
            unsafe { libc::syscall(libc::SYS_futex, self.begun.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, c_int::MAX) };
        }
    }

    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        state::awake(&self.meeting)
    }

    /// The calling member has come to its end.
    fn leave(&self) {
        let clock = portals::thread_clock();
        let mut meeting = self.meeting();
        meeting.end = meeting.end.max(clock);
    }

    /// When all have.
    fn end(&self) -> u64 {
        let end = self.meeting().end;
        if self.tasks.load(Relaxed) { end.max(portals::threads_latest()) } else { end }
    }
}

/// What a thread is in.
#[derive(Clone, Copy)]
struct Place {
    team: *const Team,
    /// Barriers that it has come to in that team.
    round: u64,
    /// It is the master of the team that it is about to make.
    makes: *const Team,
    /// It waits, and may execute tasks meanwhile.
    waits: bool,
}

const NOWHERE: Place = Place { team: ptr::null(), round: 0, makes: ptr::null(), waits: false };

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(NOWHERE) };
    /// Its runtime, LLVM's, makes a team, or waits.
    static IN_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

fn change(change: impl FnOnce(&mut Place)) {
    let mut place = PLACE.get();
    change(&mut place);
    PLACE.set(place);
}

/// The team that the calling thread is in, and which barrier is its next one.
fn next_round() -> Option<(&'static Team, u64)> {
    let mut place = PLACE.get();
    // SAFETY: a team lives until its master has left it, which waits for all members.
    let team = unsafe { place.team.as_ref() }?;
    let round = place.round;
    place.round += 1;
    PLACE.set(place);
    Some((team, round))
}

/// The calling thread is about to give a critical section back: members of its team that have not woken up yet are
/// waited for in real time. They begin at the clock of the team, and would find that the section was always free.
fn await_members() {
    // SAFETY: see `next_round`; the program calls, from inside the region.
    let Some(team) = (unsafe { PLACE.get().team.as_ref() }) else { return };
    if team.begun.load(Acquire) >= team.members.load(Relaxed) {
        return;
    }
    team.waiting.fetch_add(1, SeqCst);
    loop {
        let begun = team.begun.load(SeqCst);
        if begun >= team.members.load(Relaxed) {
            break;
        }
        // SAFETY: as in `begin`.
        unsafe { libc::syscall(libc::SYS_futex, team.begun.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, begun, 0usize) };
    }
    team.waiting.fetch_sub(1, Relaxed);
}

/// The calling thread waits for others of its team, which may be those that wait for it. Nothing else lets any of them
/// go on.
fn comes_to_wait() {
    portals::thread_releases(0);
    portals::thread_waits_for_release();
}

/// The calling thread is in a runtime that has told us that it waits. The locks by which it wakes others, and sleeps,
/// are its own affair.
pub fn in_runtime() -> bool {
    IN_RUNTIME.get()
}

/// The calling thread makes a team: threads that it starts wait for work.
pub fn makes_team() -> bool {
    !PLACE.get().makes.is_null()
}

/// LLVM's runtime tells by its tools' interface, also when it stands in for GNU's.
static TOLD_BY_TOOL: AtomicBool = AtomicBool::new(false);

fn heeds() -> bool {
    state::in_program() && !state::left() && !baton::possible() && !TOLD_BY_TOOL.load(Relaxed)
}

// ---- GNU ----------------------------------------------------------------------------------

/// What members of a team run instead of the program's region.
unsafe extern "C" fn member(team: *mut c_void) {
    // SAFETY: `parallel` passes a team that lives until all members have come to their end.
    let team = unsafe { &*team.cast::<Team>() };
    let outside = PLACE.get();
    let master = ptr::eq(outside.makes, team);
    PLACE.set(Place { team, ..NOWHERE });
    static MEMBERS: Real = Real::new(c"omp_get_num_threads");
    // SAFETY: the prototype of omp.h.
    team.begin(unsafe { MEMBERS.call::<unsafe extern "C" fn() -> c_int>()() } as u32);
    if let Some(region) = team.region {
        // SAFETY: as the program asked.
        unsafe { region(team.data) };
    }
    team.leave();
    comes_to_wait();
    PLACE.set(if master { outside } else { NOWHERE });
}

/// Runs `real`, which makes a team for a region with the data that it gets.
unsafe fn parallel(region: Region, data: *mut c_void, reductions: bool, real: impl FnOnce(Region, *mut c_void)) {
    if !heeds() {
        return real(region, data);
    }
    meet::note_thread();
    let mut team = Team::new(Some(region), data);
    if reductions {
        // SAFETY: the data of such a region begin with the list of its reductions.
        team.first = unsafe { *data.cast::<*mut c_void>() };
    }
    change(|place| place.makes = &raw const team);
    comes_to_wait();
    real(member, (&raw mut team).cast());
    PLACE.set(team.outside);
    portals::thread_goes_on(team.end());
}

/// Functions that make a team; what follows the region and its data is passed on, six words at most.
macro_rules! regions {
    ($($name:ident $text:literal $reductions:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(region: Region, data: *mut c_void, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) {
                static REAL: Real = Real::new($text);
                type Words = unsafe extern "C" fn(Region, *mut c_void, usize, usize, usize, usize, usize, usize);
                // SAFETY: the prototypes of libgomp (GCC, libgomp_g.h) have no more words.
                unsafe { parallel(region, data, $reductions, |region, data| REAL.call::<Words>()(region, data, a, b, c, d, e, f)) }
            }
        )*
    };
}

regions! {
    GOMP_parallel c"GOMP_parallel" false;
    GOMP_parallel_reductions c"GOMP_parallel_reductions" true;
    GOMP_parallel_sections c"GOMP_parallel_sections" false;
    GOMP_parallel_loop_static c"GOMP_parallel_loop_static" false;
    GOMP_parallel_loop_dynamic c"GOMP_parallel_loop_dynamic" false;
    GOMP_parallel_loop_guided c"GOMP_parallel_loop_guided" false;
    GOMP_parallel_loop_runtime c"GOMP_parallel_loop_runtime" false;
    GOMP_parallel_loop_nonmonotonic_dynamic c"GOMP_parallel_loop_nonmonotonic_dynamic" false;
    GOMP_parallel_loop_nonmonotonic_guided c"GOMP_parallel_loop_nonmonotonic_guided" false;
    GOMP_parallel_loop_nonmonotonic_runtime c"GOMP_parallel_loop_nonmonotonic_runtime" false;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime c"GOMP_parallel_loop_maybe_nonmonotonic_runtime" false;
}

/// All members of a team meet in `real`.
fn barrier<T>(real: impl FnOnce() -> T) -> T {
    let Some((team, round)) = heeds().then(next_round).flatten() else { return real() };
    team.meeting().rounds.come(round, portals::thread_clock());
    if team.tasks.load(Relaxed) {
        // What it does there are tasks: its runtime does not spin.
        let result = real();
        let clock = portals::thread_clock();
        let mut meeting = team.meeting();
        let latest = meeting.rounds.latest(round).max(clock);
        meeting.end = meeting.end.max(clock);
        drop(meeting);
        portals::thread_goes_on(latest);
        return result;
    }
    comes_to_wait();
    let result = real();
    let latest = team.meeting().rounds.latest(round);
    portals::thread_goes_on(latest);
    result
}

macro_rules! barriers {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name() -> usize {
                static REAL: Real = Real::new($text);
                // SAFETY: no arguments; the result is none or a truth value.
                barrier(|| unsafe { REAL.call::<unsafe extern "C" fn() -> usize>()() })
            }
        )*
    };
}

barriers! {
    GOMP_barrier c"GOMP_barrier";
    GOMP_barrier_cancel c"GOMP_barrier_cancel";
    GOMP_loop_end c"GOMP_loop_end";
    GOMP_loop_end_cancel c"GOMP_loop_end_cancel";
    GOMP_sections_end c"GOMP_sections_end";
    GOMP_sections_end_cancel c"GOMP_sections_end_cancel";
}

/// Functions that make tasks: up to thirteen words (GOMP_taskloop).
macro_rules! tasks {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            unsafe extern "C" fn $name(
                a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize,
                h: usize, i: usize, j: usize, k: usize, l: usize, m: usize,
            ) {
                static REAL: Real = Real::new($text);
                // SAFETY: see `next_round`.
                if let Some(team) = unsafe { PLACE.get().team.as_ref() }
                    && !TOLD_BY_TOOL.load(Relaxed)
                {
                    team.tasks.store(true, Relaxed);
                }
                type Words = unsafe extern "C" fn(
                    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize,
                );
                // SAFETY: the prototypes of libgomp have no more words.
                unsafe { REAL.call::<Words>()(a, b, c, d, e, f, g, h, i, j, k, l, m) }
            }
        )*
    };
}

tasks! {
    GOMP_task c"GOMP_task";
    GOMP_taskloop c"GOMP_taskloop";
    GOMP_taskloop_ull c"GOMP_taskloop_ull";
}

/// Critical sections and locks, of both runtimes: each is a place, given by an argument, or the only one of its kind.
macro_rules! critical {
    ($($start:ident $start_text:literal $end:ident $end_text:literal ($($argument:ident),*) $place:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $start($($argument: usize),*) {
                static REAL: Real = Real::new($start_text);
                // SAFETY: forwarded as it came.
                let real = || unsafe { REAL.call::<unsafe extern "C" fn($(critical!(@ $argument)),*)>()($($argument),*) };
                if meet::threads() { meet::take($place, real) } else { real() }
            }

            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $end($($argument: usize),*) {
                static REAL: Real = Real::new($end_text);
                if meet::threads() {
                    await_members();
                    meet::give($place);
                }
                // SAFETY: forwarded as it came.
                unsafe { REAL.call::<unsafe extern "C" fn($(critical!(@ $argument)),*)>()($($argument),*) }
                meet::may_spin($place);
            }
        )*
    };
    (@ $argument:ident) => { usize };
}

/// Where all wait for the critical section without a name, and for atomic operations without an instruction.
static UNNAMED: [u8; 2] = [0; 2];

critical! {
    GOMP_critical_start c"GOMP_critical_start" GOMP_critical_end c"GOMP_critical_end" () &raw const UNNAMED[0] as usize;
    GOMP_atomic_start c"GOMP_atomic_start" GOMP_atomic_end c"GOMP_atomic_end" () &raw const UNNAMED[1] as usize;
    GOMP_critical_name_start c"GOMP_critical_name_start" GOMP_critical_name_end c"GOMP_critical_name_end" (name) name;
    omp_set_lock c"omp_set_lock" omp_unset_lock c"omp_unset_lock" (lock) lock;
    omp_set_lock_ c"omp_set_lock_" omp_unset_lock_ c"omp_unset_lock_" (lock) lock;
    __kmpc_critical c"__kmpc_critical" __kmpc_end_critical c"__kmpc_end_critical" (location, thread, name) name;
}

/// With the argument that the newer compilers add; it ends as the other.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_critical_with_hint(location: usize, thread: c_int, name: usize, hint: c_uint) {
    static REAL: Real = Real::new(c"__kmpc_critical_with_hint");
    // SAFETY: forwarded as it came.
    let real = || unsafe { REAL.call::<unsafe extern "C" fn(usize, c_int, usize, c_uint)>()(location, thread, name, hint) };
    if meet::threads() { meet::take(name, real) } else { real() }
}

// ---- LLVM ---------------------------------------------------------------------------------

/// Numbers and types of omp-tools.h (OpenMP 5.0, appendix C).
mod ompt {
    use super::*;
    pub const THREAD_BEGIN: c_int = 1;
    pub const PARALLEL_BEGIN: c_int = 3;
    pub const PARALLEL_END: c_int = 4;
    pub const TASK_SCHEDULE: c_int = 6;
    pub const IMPLICIT_TASK: c_int = 7;
    pub const SYNC_REGION_WAIT: c_int = 16;
    pub const THREAD_WORKER: c_int = 2;
    pub const SCOPE_BEGIN: c_int = 1;
    pub const SCOPE_END: c_int = 2;
    pub const TASK_COMPLETE: c_int = 1;
    pub const TASK_IMPLICIT: c_int = 2;
    /// Kinds of waits that are no barrier.
    pub const TASKWAIT: c_int = 5;
    pub const REDUCTION: c_int = 7;

    pub type Lookup = unsafe extern "C" fn(*const c_char) -> *mut c_void;
    pub type SetCallback = unsafe extern "C" fn(c_int, *const c_void) -> c_int;

    /// `ompt_data_t`.
    #[repr(C)]
    pub union Data {
        pub value: u64,
        pub pointer: *mut c_void,
    }

    /// `ompt_start_tool_result_t`.
    #[repr(C)]
    pub struct StartTool {
        pub initialize: unsafe extern "C" fn(Lookup, c_int, *mut Data) -> c_int,
        pub finalize: unsafe extern "C" fn(*mut Data),
        pub data: Data,
    }
}
use ompt::{Data, Lookup, SetCallback, StartTool};

/// A runtime with OMPT asks here whether a tool wants to be told. This is the only one then.
#[unsafe(no_mangle)]
unsafe extern "C" fn ompt_start_tool(_version: c_uint, _runtime: *const c_char) -> *mut StartTool {
    static mut TOOL: StartTool = StartTool { initialize, finalize, data: Data { value: 0 } };
    if state::on() && !baton::possible() { &raw mut TOOL } else { ptr::null_mut() }
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut Data) -> c_int {
    // SAFETY: the runtime's own function, with a constant string.
    let set = unsafe { lookup(c"ompt_set_callback".as_ptr()) };
    if set.is_null() {
        return 0;
    }
    // SAFETY: the type of ompt_set_callback.
    let set = unsafe { std::mem::transmute::<*mut c_void, SetCallback>(set) };
    let callbacks = [
        (ompt::THREAD_BEGIN, thread_begin as *const c_void),
        (ompt::PARALLEL_BEGIN, parallel_begin as *const c_void),
        (ompt::PARALLEL_END, parallel_end as *const c_void),
        (ompt::IMPLICIT_TASK, implicit_task as *const c_void),
        (ompt::SYNC_REGION_WAIT, sync_region_wait as *const c_void),
        (ompt::TASK_SCHEDULE, task_schedule as *const c_void),
    ];
    for (number, callback) in callbacks {
        // SAFETY: each has the type that belongs to its number.
        unsafe { set(number, callback) };
    }
    TOLD_BY_TOOL.store(true, Relaxed);
    1
}

unsafe extern "C" fn finalize(_data: *mut Data) {}

unsafe extern "C" fn thread_begin(kind: c_int, _thread: *mut Data) {
    if kind == ompt::THREAD_WORKER {
        IN_RUNTIME.set(true);
        comes_to_wait();
    }
}

unsafe extern "C" fn parallel_begin(
    _task: *mut Data,
    _frame: *const c_void,
    parallel: *mut Data,
    _requested: c_uint,
    _flags: c_int,
    _code: *const c_void,
) {
    meet::note_thread();
    let team = Box::into_raw(Box::new(Team::new(None, ptr::null_mut())));
    // SAFETY: the runtime gives the record of the new region.
    unsafe { (*parallel).pointer = team.cast() };
    IN_RUNTIME.set(true);
    comes_to_wait();
}

unsafe extern "C" fn implicit_task(endpoint: c_int, parallel: *mut Data, _task: *mut Data, members: c_uint, _number: c_uint, flags: c_int) {
    if flags & ompt::TASK_IMPLICIT == 0 || endpoint != ompt::SCOPE_BEGIN {
        return;
    }
    // SAFETY: the record of the region, in which `parallel_begin` has put the team.
    if let Some(team) = unsafe { parallel.as_ref().and_then(|parallel| parallel.pointer.cast::<Team>().as_ref()) } {
        PLACE.set(Place { team, ..NOWHERE });
        IN_RUNTIME.set(false);
        team.begin(members);
    }
}

unsafe extern "C" fn sync_region_wait(kind: c_int, endpoint: c_int, parallel: *mut Data, _task: *mut Data, _code: *const c_void) {
    if (ompt::TASKWAIT..=ompt::REDUCTION).contains(&kind) {
        return;
    }
    // A worker leaves the barrier at the end of a region when the next one begins: the team may be gone, and no region
    // is named.
    if endpoint == ompt::SCOPE_END && parallel.is_null() {
        return PLACE.set(NOWHERE);
    }
    let place = PLACE.get();
    // SAFETY: see `next_round`.
    match (endpoint, unsafe { place.team.as_ref() }) {
        (ompt::SCOPE_BEGIN, Some(team)) => {
            let clock = portals::thread_clock();
            let mut meeting = team.meeting();
            meeting.rounds.come(place.round, clock);
            meeting.end = meeting.end.max(clock);
            drop(meeting);
            change(|place| place.waits = true);
            IN_RUNTIME.set(true);
            comes_to_wait();
        }
        (ompt::SCOPE_END, Some(team)) if place.waits => {
            IN_RUNTIME.set(false);
            let latest = team.meeting().rounds.latest(place.round);
            change(|place| {
                place.waits = false;
                place.round += 1;
            });
            portals::thread_goes_on(latest);
        }
        _ => {}
    }
}

/// A thread that waits in a barrier executes a task.
unsafe extern "C" fn task_schedule(_before: *mut Data, status: c_int, _after: *mut Data) {
    let place = PLACE.get();
    // SAFETY: see `next_round`: the team's tasks end before it does.
    let Some(team) = (unsafe { place.team.as_ref() }).filter(|_| place.waits) else { return };
    if status == ompt::TASK_COMPLETE {
        let clock = portals::thread_clock();
        let mut meeting = team.meeting();
        meeting.rounds.come(place.round, clock);
        meeting.end = meeting.end.max(clock);
        drop(meeting);
        IN_RUNTIME.set(true);
        comes_to_wait();
    } else {
        IN_RUNTIME.set(false);
        portals::thread_goes_on(0);
    }
}

unsafe extern "C" fn parallel_end(parallel: *mut Data, _task: *mut Data, _flags: c_int, _code: *const c_void) {
    // SAFETY: the record of the region, in which `parallel_begin` has put a box; all members have left the region.
    unsafe {
        let team = (*parallel).pointer.cast::<Team>();
        if !team.is_null() {
            (*parallel).pointer = ptr::null_mut();
            let team = Box::from_raw(team);
            PLACE.set(team.outside);
            IN_RUNTIME.set(false);
            portals::thread_goes_on(team.end());
        }
    }
}
