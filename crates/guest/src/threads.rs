//! The threads of a rank, each with a clock of its own (docs/decisions/0007-threads.md).
//!
//! A thread's clock moves by what the thread computes, looks at, sleeps and waits for. While it holds the rank
//! ([`crate::Session`]), the rank's clock is its clock. Clocks meet where one thread waits for another one: who knows
//! of such a place calls [`waits`] and [`goes_on`] around the wait, and says there what the other one's clock was.
//!
//! A thread that only looks around (polls, looks at the clock, sleeps) does not get ahead of one that computes, see
//! [`pace`]: time passes for it as fast as the other one uses its core.

mod baton;
mod cycles;
mod files;
mod host;
mod instructions;
mod leaving;
mod looks;
mod made;
mod pace;
mod phase;
mod sleep;
mod work;

use crate::callers::Vain;
use crate::chance::decides;
use crate::{attach, callers, shared, stretches};
pub(crate) use baton::{
    are_seen, begins, block, goes, is_on, lead, leads, nap_with_baton, order, set_able, stand_behind, take_turns, wake, wakes, yields,
};
pub(crate) use cycles::{counts_cycles, settle_heap, stop as stop_counting};
pub(crate) use files::{
    FIRST_NAP, Step, any_at_files, begins_at_files, came_from_files, ends_at_files, talk, talks, time_is_over, wait_at_files,
    waits_at_files,
};
use host::{cpu_ns, is_runnable, wall_ns};
pub(crate) use instructions::counted_in;
use leaving::Leaving;
pub(crate) use looks::look;
use made::Made;
pub(crate) use made::{exists, made, made_so_far, makes};
use narrows_baton::{Baton, Seat};
use narrows_channel::layout::{EPOCH_PS, decided};
use narrows_channel::{counter, futex};
use narrows_cycles::Count;
use pace::time_to;
pub(crate) use pace::{changes, meets, pace, rest, rest_from, settled, uncounted};
use phase::Phase;
pub(crate) use sleep::{doze, first_end, get_up, parks, reached, sleep_until, sleeps_on, unparked};
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
pub(crate) use work::calibrate;
use work::to_ps;

/// How long a thread sleeps that must not get ahead of another one, before it looks how far that one is: at least, and
/// at most.
const NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(5);
/// Without a cost of computing, a thread that has used so much CPU time since it last met another one is not waited
/// for. Our own choice: it may be spinning for the one that waits.
const LONGEST_STRETCH_NS: u64 = 100_000_000;

/// One thread.
pub(crate) struct Thread {
    id: AtomicI32,
    /// In the order in which they were made.
    number: AtomicU32,
    /// The number of the one that has made it.
    pub maker: AtomicU32,
    /// [`MEETINGS`] when it last had waited for another one.
    pub met: AtomicU32,
    /// Its clock while it does not hold the rank, ps.
    clock: AtomicU64,
    /// CPU time up to which work has become simulated time, ns: the rank's word for the first thread, which the
    /// simulator knows.
    mark: &'static AtomicU64,
    /// Time of the host at that mark, and when the kernel was last asked for the CPU time, ns.
    wall: AtomicU64,
    asked: AtomicU64,
    /// The counter of its instructions, -1: none, and what that was at the mark.
    counter: AtomicI32,
    counted: AtomicU64,
    /// Where its cycles are counted; none: they are not.
    cycles: AtomicPtr<Count>,
    /// Where it waits until it has the baton.
    seat: Seat,
    /// It runs without it.
    without: AtomicBool,
    /// It runs, as far as is known: it neither waits for another thread nor for the simulation.
    runs: AtomicBool,
    /// Its clock when it began to, ps.
    since: AtomicU64,
    /// Inside an MPI call, where only modelled costs count.
    pub in_call: AtomicBool,
    /// Of several threads inside MPI, it is the one that runs, see [`crate::callers`]; or one that waits for that.
    pub has_turn: AtomicBool,
    pub inside: AtomicBool,
    /// Where it waits for its turn: each one has a place of its own, for there may be many.
    pub served: Condvar,
    /// Its MPI library has looked in vain, and how often since it waited.
    pub vain: Vain,
    pub vain_looks: AtomicU32,
    /// How often the library had none of its locks since then.
    pub unlocks: AtomicU32,
    /// It may be asleep in here: it takes the lock of the list of threads, or waits for others to come as far as it is.
    paused: AtomicBool,
    /// It waits in real time until others have come as far as it is.
    paces: AtomicBool,
    /// It waits at descriptors, and sleeps here until it is to look how that stands.
    bell: AtomicU32,
    /// It was woken from a wait with a time limit, and is taken to be about to go on up to this real time, ns.
    waking: AtomicU64,
    /// It waits with a time limit, and has a lock of the program's when it looks whether that is over; and it seemed to
    /// be over when it looked last.
    locks: AtomicBool,
    /// Where it waits; how often places like this one had been released before its last look but one, and before the
    /// last.
    place: AtomicUsize,
    seen_released: AtomicU32,
    last_released: AtomicU32,
    nearly_awake: AtomicBool,
    /// How often it has looked whether its time is over, and how often it is to do so before others go on; 0: they do
    /// not wait for that.
    end_looks: AtomicU64,
    wanted_looks: AtomicU64,
    /// It waits until a place is released.
    placed: AtomicBool,
    /// It has called MPI, or Portals.
    pub has_called: AtomicBool,
    /// It works for teams of OpenMP.
    worker: AtomicBool,
    /// It sleeps, and has asked the thread that has parked the rank for that time to come back; 0: it has not.
    asked_to_give_way: AtomicU64,
    /// How often it has come here.
    turns: AtomicU64,
    /// For those that wait for it: its turns and CPU time when they saw it first in this turn, and the CPU time when
    /// they saw it last.
    seen_turn: AtomicU64,
    seen_first: AtomicU64,
    seen_last: AtomicU64,
    /// Looks at the clock since something happened (see [`ACTIVITY`]), and the clock then.
    looks: AtomicU32,
    /// Its clock when it waited last until others had come as far as its looks, ps.
    waited_at: AtomicU64,
    activity: AtomicU64,
    idle_since: AtomicU64,
    /// How often it has had the rank, or has looked at the clock; how often when it last said that it takes locks, and
    /// its clock when it has begun to do nothing else.
    doings: AtomicU64,
    lock_doings: AtomicU64,
    locks_since: AtomicU64,
    /// How often it has said so since then, and how often others had waited for a moment until then.
    lock_loops: AtomicU64,
    lock_naps: AtomicU64,
}

/// Something has happened to the rank since the number was last read.
static ACTIVITY: AtomicU64 = AtomicU64::new(0);
/// Threads in [`All`].
static COUNT: AtomicU32 = AtomicU32::new(0);
/// There were several once.
static WERE_MANY: AtomicBool = AtomicBool::new(false);
/// Raised with every change of [`All`] that somebody may wait for, and how many do.
static CHANGES: AtomicU32 = AtomicU32::new(0);
static WATCHERS: AtomicU32 = AtomicU32::new(0);
/// How often one of them has begun to.
static NAPS: AtomicU64 = AtomicU64::new(0);
/// How often a place was released where threads may wait that nothing else lets go on.
static RELEASES: AtomicU64 = AtomicU64::new(0);
/// What that was when all others were found asleep. They are until it changes.
static ASLEEP: AtomicU64 = AtomicU64::new(u64::MAX);
/// How often a thread has waited for another one.
static MEETINGS: AtomicU32 = AtomicU32::new(0);
/// Work of all threads that has become simulated time, ps.
static WORK_PS: AtomicU64 = AtomicU64::new(0);

struct All {
    threads: Vec<&'static Thread>,
    /// Those that have been made and have not begun.
    made: Vec<Made>,
    /// Records of threads that have ended.
    free: Vec<&'static Thread>,
    /// Those that have ended in simulated time, and may not have on the host.
    leaving: Vec<Leaving>,
    /// Who sleeps in simulated time, and until when.
    sleepers: Vec<(u64, &'static Thread)>,
    /// Who waits at descriptors.
    at_files: Vec<files::Waiter>,
    /// A thread has parked the rank, until then at the latest.
    parked: Option<u64>,
    /// How often the rank was parked.
    parks: u64,
    phase: Phase,
    /// Which of them runs, where one does at a time.
    baton: Baton,
}

static ALL: Mutex<All> = Mutex::new(All {
    threads: Vec::new(),
    made: Vec::new(),
    free: Vec::new(),
    leaving: Vec::new(),
    sleepers: Vec::new(),
    at_files: Vec::new(),
    parked: None,
    parks: 0,
    phase: Phase::NONE,
    baton: Baton::NONE,
});

fn all() -> MutexGuard<'static, All> {
    let takes = |yes| {
        if let Some(thread) = current() {
            thread.paused.store(yes, SeqCst);
        }
    };
    takes(true);
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    takes(false);
    all
}

thread_local! {
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    /// It has ended while one ran at a time. The C library still frees what it had.
    static HAS_LEFT: Cell<bool> = const { Cell::new(false) };
    /// The MPI library has started it for itself.
    static LIBRARYS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is one that the MPI library has started for itself.
pub fn librarys_thread_begins() {
    LIBRARYS.set(true);
}

/// Whether it is.
pub fn is_librarys_thread() -> bool {
    LIBRARYS.get()
}

/// The calling thread has ended, and none of its looks takes the baton any more.
pub(crate) fn has_left_list() -> bool {
    HAS_LEFT.get()
}

/// The calling thread, if it is one of the program's.
pub(crate) fn current() -> Option<&'static Thread> {
    CURRENT.get()
}

/// The rank has more than one thread.
pub(crate) fn many() -> bool {
    COUNT.load(Relaxed) > 1
}

/// The rank has, or had, more than one thread: when the last of the others has ended on the host says nothing of
/// simulated time.
pub(crate) fn were_many() -> bool {
    WERE_MANY.load(Relaxed)
}

/// Something has happened to the rank: what its threads do next is not in vain.
pub(crate) fn activity() {
    // Written by who holds the rank.
    ACTIVITY.store(ACTIVITY.load(Relaxed) + 1, Relaxed);
}

fn compute_ppm() -> u64 {
    attach::shared().map_or(0, |(_, rank)| rank.processor.compute_ppm)
}

/// Computing takes no simulated time.
pub(crate) fn compute_is_free() -> bool {
    compute_ppm() == 0
}

pub(crate) fn note_change() {
    CHANGES.fetch_add(1, Release);
    if WATCHERS.load(Acquire) != 0 {
        futex::wake(&CHANGES);
    }
}

/// Waits for a change of [`All`], which must not be locked, or for a little while.
fn nap(seen: u32, longest: Duration) {
    WATCHERS.fetch_add(1, AcqRel);
    NAPS.fetch_add(1, Relaxed);
    futex::wait(&CHANGES, seen, Some(longest));
    WATCHERS.fetch_sub(1, AcqRel);
}

impl Thread {
    fn new(first: bool) -> &'static Thread {
        let mark = match attach::shared() {
            Some((_, header)) if first => &header.cpu_mark_ns,
            _ => Box::leak(Box::new(AtomicU64::new(0))),
        };
        Box::leak(Box::new(Thread {
            id: AtomicI32::new(0),
            number: AtomicU32::new(0),
            maker: AtomicU32::new(0),
            met: AtomicU32::new(0),
            clock: AtomicU64::new(0),
            mark,
            wall: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            counter: AtomicI32::new(-1),
            counted: AtomicU64::new(0),
            cycles: AtomicPtr::new(std::ptr::null_mut()),
            seat: Seat::new(AtomicU32::new(0)),
            without: AtomicBool::new(false),
            runs: AtomicBool::new(true),
            since: AtomicU64::new(0),
            in_call: AtomicBool::new(false),
            has_turn: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            served: Condvar::new(),
            vain: Vain::default(),
            vain_looks: AtomicU32::new(0),
            unlocks: AtomicU32::new(0),
            paused: AtomicBool::new(false),
            paces: AtomicBool::new(false),
            bell: AtomicU32::new(0),
            waking: AtomicU64::new(0),
            locks: AtomicBool::new(false),
            place: AtomicUsize::new(0),
            seen_released: AtomicU32::new(0),
            last_released: AtomicU32::new(0),
            nearly_awake: AtomicBool::new(false),
            end_looks: AtomicU64::new(0),
            wanted_looks: AtomicU64::new(0),
            placed: AtomicBool::new(false),
            has_called: AtomicBool::new(false),
            worker: AtomicBool::new(false),
            asked_to_give_way: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            seen_turn: AtomicU64::new(u64::MAX),
            seen_first: AtomicU64::new(0),
            seen_last: AtomicU64::new(u64::MAX),
            looks: AtomicU32::new(0),
            waited_at: AtomicU64::new(0),
            activity: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
            doings: AtomicU64::new(0),
            lock_doings: AtomicU64::new(u64::MAX),
            locks_since: AtomicU64::new(0),
            lock_loops: AtomicU64::new(0),
            lock_naps: AtomicU64::new(0),
        }))
    }

    /// The one with that number, made by another one: for tests.
    #[cfg(test)]
    pub fn of(number: u32, maker: u32) -> &'static Thread {
        let thread = Thread::new(false);
        thread.number.store(number, Relaxed);
        thread.maker.store(maker, Relaxed);
        thread
    }

    /// See [`made`].
    pub fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Its clock while it does not hold the rank, ps.
    pub fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    /// Sets it.
    pub fn set_clock(&self, ps: u64) {
        self.clock.store(ps, Relaxed);
    }

    /// It lets others run, and may be waiting for one of them by looking at memory: its clock, `now`, is not behind
    /// theirs.
    pub fn catch_up(&self, now: u64) -> u64 {
        let least = all().least(Some(self)).unwrap_or(0);
        let clock = now.max(least);
        self.clock.store(clock, Relaxed);
        clock
    }

    /// It has said that it waits for another one.
    pub fn waits(&self) -> bool {
        !self.runs.load(Relaxed)
    }

    fn no_longer_asks(&self) {
        if self.asked_to_give_way.swap(0, Relaxed) != 0 {
            shared::ask_to_give_way(false);
        }
    }

    fn turn(&self) {
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
    }

    /// The simulator has stopped it, because all that it does is to wait for memory to change.
    fn is_stopped(&self) -> bool {
        let Some((_, header)) = attach::shared() else { return false };
        let id = self.id.load(Relaxed) as u32;
        header.stopped.load(Acquire) != 0
            && header.followed.iter().any(|place| place.stopped.load(Acquire) != 0 && place.thread.load(Relaxed) == id)
    }

    /// It has computed since the last mark, and its clock moves by that.
    fn account(&self) {
        self.account_until(stretches::look(0));
    }

    /// The same; `call` is what ends it.
    fn account_until(&self, call: stretches::Call) {
        self.look_for_release();
        let work = if self.in_call.load(Relaxed) { 0 } else { self.work_until_ps(call) };
        self.clock.store(self.clock() + work, Relaxed);
    }

    /// The earliest that its clock can be now, ps; `None`: it does not run, whatever is known of it.
    fn least_clock(&self, ppm: u64) -> Option<u64> {
        if self.is_stopped() {
            return None;
        }
        let id = self.id.load(Relaxed);
        // The mark first: it moves before the clock does.
        let (mark, turn) = (self.mark.load(Relaxed), self.turns.load(Relaxed));
        // CPU clock of a thread by its number, as pthread_getcpuclockid(3) makes it: per thread, time on a core.
        let cpu_now = || cpu_ns((!id << 3) | 6);
        let cpu = cpu_now()?;
        // It may have come to wait for a lock of ours while it was looked at, whose owner is the one that looks.
        let paused = || self.paused.load(SeqCst) || self.is_waking();
        if self.seen_last.swap(cpu, Relaxed) == cpu && !paused() && !is_runnable(id) && !paused() && cpu_now()? == cpu {
            return None;
        }
        if self.seen_turn.swap(turn, Relaxed) != turn {
            self.seen_first.store(cpu, Relaxed);
        }
        if ppm == 0 && cpu.saturating_sub(self.seen_first.load(Relaxed)) > LONGEST_STRETCH_NS {
            decides(decided::WORK);
            return None;
        }
        let work = if self.in_call.load(Relaxed) { 0 } else { to_ps(self.unmarked_ns(mark, cpu), ppm) };
        Some(self.clock() + work)
    }

    fn is_waking(&self) -> bool {
        let until = self.waking.load(Relaxed);
        until != 0 && wall_ns() < until
    }
}

/// It is not asleep, or in here only. The second look is for one that comes here between the first look and the
/// kernel's answer: whoever asks has our lock, so that it stays.
fn goes_on_soon(thread: &Thread) -> bool {
    let paused = || thread.paused.load(SeqCst);
    paused() || is_runnable(thread.id.load(Relaxed)) || paused()
}

impl All {
    /// The least clock of the threads that run, but for `but`.
    fn least(&self, but: Option<&Thread>) -> Option<u64> {
        if is_on() {
            return self.baton.least(but.map(Thread::baton_id));
        }
        let ppm = compute_ppm();
        let others = self.others(but).filter(|thread| thread.runs.load(Relaxed));
        others.filter_map(|thread| thread.least_clock(ppm)).chain(self.beginning().map(Made::clock)).min()
    }

    /// The least clock of those that have waited, and have just been woken: they have not come as far as to say so.
    /// `asleep`: nobody who waits for a release is one of them.
    fn least_waking(&self, but: Option<&Thread>, asleep: bool) -> Option<u64> {
        if is_on() {
            return None;
        }
        let sleeps = |thread: &Thread| self.sleepers.iter().any(|(_, sleeper)| std::ptr::eq(*sleeper, thread)) || self.is_at_files(thread);
        let known = |thread: &Thread| thread.runs.load(Relaxed) || thread.inside.load(Relaxed) || (asleep && thread.placed.load(Relaxed));
        let waking = |thread: &&&Thread| !known(thread) && !sleeps(thread) && goes_on_soon(thread);
        // First: one that has ended between the two looks has woken who joins it.
        let leaving = self.least_leaving();
        leaving.into_iter().chain(self.others(but).filter(waking).map(|thread| thread.clock())).min()
    }

    /// Somebody who has waited goes on before `end`, and has not come as far as to say so.
    fn waking_before(&self, thread: &Thread, end: u64) -> bool {
        self.least_waking(Some(thread), ASLEEP.load(Relaxed) == RELEASES.load(Acquire)).is_some_and(|clock| clock < end)
            || self.looks_around(|other| !std::ptr::eq(other, thread) && other.clock() < end && sleep::is_released(other))
    }

    /// One of those that wait with a time limit may be going on because of another thread, and has not come as far as
    /// to say so, or looks whether its time is over: until it has done so twice, for of many there is always one that
    /// looks.
    fn looks_around(&self, of: impl Fn(&Thread) -> bool) -> bool {
        let sleepers = || self.sleepers.iter().map(|&(_, thread)| thread);
        let looks = |thread: &&Thread| {
            let (looks, wanted) = (thread.end_looks.load(Relaxed), thread.wanted_looks.load(Relaxed));
            if wanted == 0 {
                thread.wanted_looks.store(looks + 2, Relaxed);
            }
            wanted == 0 || looks < wanted
        };
        let yes = sleepers().filter(|thread| of(thread) && goes_on_soon(thread)).filter(looks).count() != 0;
        if !yes {
            sleepers().for_each(|thread| thread.wanted_looks.store(0, Relaxed));
        }
        yes
    }

    /// Room for as many threads as programs have, so that nothing is allocated when there are others.
    fn reserve(&mut self) {
        const MANY: usize = 1024;
        self.threads.reserve(MANY);
        self.made.reserve(MANY);
        self.free.reserve(MANY);
        self.leaving.reserve(MANY);
        self.sleepers.reserve(MANY);
        self.baton.reserve(MANY);
        self.phase.reserve();
    }

    fn others<'a>(&'a self, but: Option<&'a Thread>) -> impl Iterator<Item = &'a &'static Thread> {
        self.threads.iter().filter(move |thread| but.is_none_or(|but| !std::ptr::eq(**thread, but)))
    }

    fn count(&self) {
        let count = self.threads.len() + self.made.len();
        COUNT.store(count as u32, Relaxed);
        if count > 1 {
            WERE_MANY.store(true, Relaxed);
        }
    }

    /// `thread` runs from now on, at `clock`.
    fn starts(&mut self, thread: &Thread, clock: u64) {
        if thread.runs.swap(true, Relaxed) {
            return;
        }
        thread.since.store(clock, Relaxed);
        let running = self.threads.iter().filter(|thread| thread.runs.load(Relaxed));
        let least = running.clone().map(|thread| thread.clock()).fold(clock, u64::min);
        self.phase.starts(clock, least, running.count() as u64, WORK_PS.load(Relaxed));
    }

    /// `thread` runs no longer.
    fn stops(&mut self, thread: &Thread) {
        if thread.runs.swap(false, Relaxed) {
            self.phase.stops(thread.since.load(Relaxed), thread.clock());
        }
        self.ring_at_files();
    }

    /// `thread` waits no longer, for one whose clock was `clock` ps.
    /// The simulator is to know how many threads run while the rank is parked, or have not ended on the host although
    /// they have in simulated time: they may call.
    fn tells_who_runs(&mut self) {
        let Some((_, rank)) = attach::shared().filter(|_| callers::may_call() && self.parked.is_some()) else { return };
        if is_on() {
            return rank.running.store(self.run_without() as u32, Relaxed);
        }
        self.forget_left();
        let run = self.threads.iter().filter(|thread| thread.runs.load(Relaxed)).count();
        rank.running.store((run + self.beginning().count() + self.leaving.len()) as u32, Relaxed);
    }

    fn goes_on(&mut self, thread: &Thread, clock: u64) {
        let clock = clock.max(thread.clock()).max(self.floor());
        thread.clock.store(clock, Relaxed);
        self.starts(thread, clock);
    }

    /// No thread that waited for others comes before this: so much work on so few cores takes so long.
    fn floor(&self) -> u64 {
        self.phase.floor(WORK_PS.load(Relaxed), attach::cores_of_rank())
    }
}

/// The calling thread begins, its clock at `clock` ps. One that is `idle` runs only when it is said that it goes on.
/// `number`: what [`made`] has said to its maker.
pub(crate) fn begin(clock: u64, idle: bool, number: u32) -> &'static Thread {
    if let Some(thread) = current() {
        return thread;
    }
    // SAFETY: no arguments.
    let (id, process) = unsafe { (libc::gettid(), libc::getpid()) };
    // Who allocates may need a lock of the MPI library's (its hooks for memory), whose owner may be about to come here.
    let used = if id == process { None } else { all().free.pop() };
    let thread = used.unwrap_or_else(|| Thread::new(id == process));
    let counter = instructions::open();
    let mut all = all();
    if id == process {
        all.reserve();
    }
    all.leaving.retain(|leaving| leaving.id != id);
    let made = all.made.iter().position(|made| made.number == number).map(|at| all.made.swap_remove(at));
    thread.maker.store(made.as_ref().map_or(0, |made| made.by), Relaxed);
    let clock = made.map_or(clock, |made| made.clock().max(clock));
    thread.id.store(id, Relaxed);
    thread.number.store(number, Relaxed);
    thread.clock.store(clock, Relaxed);
    thread.waited_at.store(0, Relaxed);
    thread.has_called.store(false, Relaxed);
    thread.has_turn.store(false, Relaxed);
    thread.inside.store(false, Relaxed);
    let _ = thread.vain.take();
    thread.in_call.store(false, Relaxed);
    thread.runs.store(false, Relaxed);
    thread.placed.store(false, Relaxed);
    thread.worker.store(idle, Relaxed);
    thread.counter.store(counter, Relaxed);
    thread.counted.store(0, Relaxed);
    thread.cycles.store(cycles::open(), Relaxed);
    all.threads.push(thread);
    all.count();
    if !idle {
        all.starts(thread, clock);
    }
    all.sits_down(thread);
    drop(all);
    CURRENT.set(Some(thread));
    if is_on() {
        begins(thread);
    }
    thread.turn();
    thread.mark();
    note_change();
    thread
}

/// In the child of a fork, which counts nothing: it has inherited the counter of the thread that it is, and perhaps
/// others', which execve(2) closes.
pub(crate) fn forked() {
    if let Some(thread) = current() {
        counter::close(thread.counter.swap(-1, Relaxed));
    }
}

/// The calling thread ends. Its clock, ps.
pub(crate) fn end() -> u64 {
    let Some(thread) = CURRENT.take() else { return 0 };
    HAS_LEFT.set(is_on());
    thread.account();
    let clock = thread.clock();
    let mut all = all();
    all.stops(thread);
    all.stands_up(thread);
    all.threads.retain(|other| !std::ptr::eq(*other, thread));
    if !is_on() {
        all.leaves(thread.id.load(Relaxed), clock);
    }
    // Others look at it with our lock only.
    counter::close(thread.counter.swap(-1, Relaxed));
    all.free.push(thread);
    all.count();
    all.tells_who_runs();
    drop(all);
    note_change();
    clock
}

/// Simulated time begins, for all threads alike.
pub(crate) fn start() {
    begin(EPOCH_PS, false, 0);
    for thread in &all().threads {
        thread.clock.store(EPOCH_PS, Relaxed);
        if let Some(cpu) = cpu_ns((!thread.id.load(Relaxed) << 3) | 6) {
            thread.mark.store(cpu, Relaxed);
            thread.wall.store(0, Relaxed);
            if let Some(count) = counter::read(thread.counter.load(Relaxed)) {
                thread.counted.store(count, Relaxed);
            }
        }
    }
    let mut all = all();
    if all.threads.len() > 1 {
        all.one_at_a_time();
    }
}

/// What the calling thread's clock is, for one that will wait for it, ps.
pub(crate) fn now() -> u64 {
    let Some(thread) = current() else { return 0 };
    thread.account();
    thread.clock()
}

/// The calling thread is going to wait for another one. `placed`: until that one says that it [`releases`] something.
pub(crate) fn waits(placed: bool) {
    let Some(thread) = current() else { return };
    thread.account();
    thread.placed.store(placed, Relaxed);
    let mut all = all();
    all.stops(thread);
    all.goes_away(thread);
    all.tells_who_runs();
    drop(all);
    note_change();
}

/// As [`waits`], before simulated time has begun: it may wait until long after that.
pub(crate) fn waits_early(placed: bool) {
    let Some(thread) = current() else { return };
    thread.placed.store(placed, Relaxed);
    thread.runs.store(false, Relaxed);
}

/// It waits no longer, and simulated time has not begun.
pub(crate) fn goes_on_early() {
    let Some(thread) = current() else { return };
    thread.placed.store(false, Relaxed);
    thread.runs.store(true, Relaxed);
}

/// How often a thread has waited for another one.
pub(crate) fn meetings() -> u32 {
    MEETINGS.load(Relaxed)
}

/// It waits no longer; the clock of the one that it has waited for was `clock` ps, 0 for nobody.
pub(crate) fn goes_on(clock: u64) {
    let Some(thread) = current() else { return };
    thread.placed.store(false, Relaxed);
    thread.met.store(MEETINGS.fetch_add(1, Relaxed) + 1, Relaxed);
    all().goes_on(thread, clock);
    take_turns();
    thread.turn();
    thread.mark();
}

/// The calling thread stands in a queue inside the library, or no longer does.
pub(crate) fn runs(yes: bool) {
    if many()
        && let Some(thread) = current()
    {
        let mut all = all();
        if yes {
            all.starts(thread, thread.clock());
        } else {
            all.stops(thread);
        }
        drop(all);
        note_change();
    }
}

/// Whatever the calling thread waits for meanwhile, it is about to go on.
pub(crate) fn paused<T>(wait: impl FnOnce() -> T) -> T {
    let pauses = |yes| current().into_iter().for_each(|thread| thread.paused.store(yes, SeqCst));
    pauses(true);
    let result = wait();
    pauses(false);
    result
}

/// `thread` runs, or waits for its turn in MPI.
pub(crate) fn set_running(thread: &Thread, yes: bool) {
    let mut all = all();
    if yes {
        all.starts(thread, thread.clock());
    } else {
        all.stops(thread);
    }
}

/// The latest clock of the calling thread and of all threads that work for teams, ps, with what they have computed
/// although nothing was said of it: a task may be executed by whoever waits for the end of the team.
pub(crate) fn latest_worker() -> u64 {
    let ppm = compute_ppm();
    let latest = |thread: &&Thread| {
        let work = cpu_ns((!thread.id.load(Relaxed) << 3) | 6).map_or(0, |cpu| thread.unmarked_ns(thread.mark.load(Relaxed), cpu));
        thread.clock() + to_ps(work, ppm)
    };
    let caller = current().map(|thread| latest(&thread)).unwrap_or(0);
    let all = all();
    all.threads.iter().filter(|thread| thread.worker.load(Relaxed)).map(latest).fold(caller, u64::max)
}

/// What more threads than cores have computed takes its time, ps.
pub(crate) fn floor() -> u64 {
    if were_many() { all().floor() } else { 0 }
}

/// The least clock of other threads that run, or are about to, ps; `u64::MAX`: none does; 0: ask again.
pub(crate) fn least() -> u64 {
    if !many() {
        return u64::MAX;
    }
    let releases = RELEASES.load(Acquire);
    let mut all = all();
    if is_on() {
        return all.least(current()).unwrap_or(u64::MAX);
    }
    let running = all.least(current());
    let waking = all.least_waking(current(), ASLEEP.load(Relaxed) == releases);
    // In the end: whoever looks waits for our lock.
    if all.looks_around(|thread| thread.locks.load(Relaxed) || sleep::is_released(thread)) {
        return 0;
    }
    if running.is_none() && waking.is_none() {
        // Nobody is in the middle of a release. The state of a thread is in a file, and programs may have a hundred.
        ASLEEP.store(releases, Relaxed);
        all.forget_left();
    }
    running.into_iter().chain(waking).min().unwrap_or(u64::MAX)
}

/// How a thread sleeps that is not asleep in here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// It waits for a lock that the calling thread has.
    AtMine,
    /// It waits for a lock at that address, which does not say who has it; 0: the kernel does not say for what it
    /// waits.
    AtLock(usize),
    /// For anything else: another thread, a process.
    Elsewhere,
}

/// Whether a thread sleeps, and not in here: on a busy host it may have been given the turn, or the rank, and not have
/// come as far.
pub(crate) fn is_asleep(which: impl Fn(&Thread) -> bool) -> Option<Asleep> {
    let all = all();
    let thread = all.threads.iter().find(|thread| which(thread))?;
    if goes_on_soon(thread) {
        return None;
    }
    match host::sleeps_at(thread.id.load(Relaxed)) {
        Some((futex, _)) if waits_in_here(thread, futex) => None,
        Some((futex, true)) => match host::owner_of(futex) {
            0 => Some(Asleep::AtLock(futex)),
            owner if current().is_some_and(|current| current.id.load(Relaxed) == owner) => Some(Asleep::AtMine),
            _ => Some(Asleep::Elsewhere),
        },
        Some(_) => Some(Asleep::Elsewhere),
        None => Some(Asleep::AtLock(0)),
    }
}

/// The futex at that address is one at which `thread` waits for its turn, for the rank, or for what others have in here
/// for a moment.
fn waits_in_here(thread: &Thread, futex: usize) -> bool {
    is_within(futex, thread)
        || is_within(futex, &ALL)
        || attach::shared().is_some_and(|(_, rank)| is_within(futex, rank))
        || callers::has_lock_at(futex)
        || attach::has_lock_at(futex)
}

/// The address is one of `place`'s.
pub(crate) fn is_within<T>(address: usize, place: &T) -> bool {
    let begin = std::ptr::from_ref(place) as usize;
    (begin..begin + size_of::<T>()).contains(&address)
}

/// Another thread has parked the rank; or is about to, where computing takes time: whoever computes meanwhile is ahead
/// of it.
pub(crate) fn is_parked() -> bool {
    if !many() {
        return false;
    }
    let all = all();
    if is_on() {
        return all.baton.first_call().is_some();
    }
    let waits_inside = || all.others(current()).any(|thread| thread.inside.load(Relaxed) && !thread.has_turn.load(Relaxed));
    all.parked.is_some() || !compute_is_free() && waits_inside()
}

/// The calling thread is going to release `place`, where others may wait.
pub(crate) fn releases(place: usize) {
    RELEASES.fetch_add(1, AcqRel);
    sleep::released(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The threads are the process's: one test at a time.
    pub(super) static ALONE: Mutex<()> = Mutex::new(());

    fn thread(clock: u64, both: &std::sync::Barrier, work: impl FnOnce(&'static Thread)) -> u64 {
        let thread = begin(clock, false, 0);
        both.wait();
        work(thread);
        end()
    }

    /// Runs `first` and `second` as two threads of a rank whose clocks begin at 100 and 200 ps; what their clocks are
    /// at the end.
    fn two(first: impl FnOnce(&'static Thread) + Send, second: impl FnOnce(&'static Thread) + Send) -> (u64, u64) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let both = &std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || thread(100, both, first));
            let second = scope.spawn(move || thread(200, both, second));
            (first.join().unwrap(), second.join().unwrap())
        })
    }

    #[test]
    fn the_woken_one_has_the_wakers_clock() {
        let (send, receive) = mpsc::channel();
        let clocks = two(
            move |_| {
                waits(false);
                goes_on(receive.recv().unwrap());
            },
            move |_| send.send(now()).unwrap(),
        );
        assert_eq!(clocks, (200, 200));
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_ends() {
        let order = Mutex::new(Vec::new());
        let sleep = |thread: &'static Thread, step: u64| {
            for _ in 0..100 {
                let end = now() + step;
                sleep_until(thread, end);
                order.lock().unwrap().push(end);
            }
        };
        let clocks = two(|thread| sleep(thread, 70), |thread| sleep(thread, 50));
        assert_eq!(clocks, (100 + 70 * 100, 200 + 50 * 100));
        let order = order.into_inner().unwrap();
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn a_thread_begins_where_its_maker_is_and_nobody_waits_for_it_while_that_one_waits() {
        let (lock, taken) = mpsc::channel();
        let (made, waited_for) = mpsc::channel();
        let clocks = two(
            move |_| {
                let clock = makes(true);
                // In the middle of that it waits for a lock, which the other one has.
                waits(false);
                made.send((clock, super::made())).unwrap();
                goes_on(taken.recv().unwrap());
                exists();
            },
            move |thread| {
                let (clock, number) = waited_for.recv().unwrap();
                thread.set_clock(300);
                pace(300);
                lock.send(300).unwrap();
                while all().made.iter().any(|made| made.maker.is_some()) {
                    std::thread::yield_now();
                }
                assert_eq!(least(), 300);
                let begun = std::thread::spawn(move || {
                    let begun = begin(clock, false, number).clock();
                    end();
                    begun
                });
                assert_eq!(begun.join().unwrap(), 300);
            },
        );
        assert_eq!(clocks, (300, 300));
    }

    #[test]
    fn who_looks_around_does_not_get_ahead_of_who_runs() {
        let (send, receive) = mpsc::channel::<u64>();
        let clocks = two(
            move |thread| {
                // It runs, its clock at 100; the other one must wait although it only looks.
                assert!((0..100_000).all(|_| receive.try_recv().is_err()), "the other thread went on");
                thread.set_clock(500);
                assert_eq!(receive.recv(), Ok(300));
            },
            move |thread| {
                thread.set_clock(300);
                pace(300);
                send.send(300).unwrap();
            },
        );
        assert_eq!(clocks, (500, 300));
    }
}
