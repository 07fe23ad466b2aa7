//! Several threads of a rank inside MPI at the same time: MPI_THREAD_MULTIPLE
//! (docs/decisions/0009-thread-multiple.md).
//!
//! One of them runs at a time: it has the *turn*. It gives it up where it leaves MPI, and where its MPI library has
//! looked in vain and holds no lock of its own. Who is next follows from the clocks and the numbers of the threads, and
//! from what has happened, so never from the host. When nobody has anything to do, one of those that wait parks the
//! rank for all.

use crate::Rank;
use crate::chance::{self, decides};
use crate::shared::ask_to_give_way;
use crate::threads::{self, Asleep, Thread};
use crate::{attach, attached};
use narrows_channel::layout::{decided, state};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So often a library may look in vain with a lock of its own before it is taken to keep that lock while it waits. Our
/// own choice: more than it has queues.
const LOOKS_WITH_LOCK: u32 = 64;
/// So often a call that blocks may give back the last of its locks without a look at the network before it is taken to
/// spin for another thread (MPI_Comm_dup of MPI_COMM_SELF in MPICH and Intel MPI, while another thread agrees on the
/// number of a communicator). Our own choice: more than a collective of hundreds of ranks does.
const LOOKS_ELSEWHERE: u32 = 1024;

/// What a thread inside MPI waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To look at the network again when something has come. How much had when it looked last.
    News(u64),
    /// To go on when simulated time has come to its clock, ps. `true`: and the simulator must have let it.
    At(u64, bool),
    /// A lock of the library, which another one keeps while it waits. How often one was given back so far.
    Lock(u64),
}

/// A thread inside MPI that has not the turn.
struct Waiter {
    thread: &'static Thread,
    wish: Wish,
    /// It has asked the simulator to wake the one that has parked the rank.
    asked: bool,
}

/// A signal that a thread waits for, or is about to wait for.
struct Expected {
    /// By address.
    thread: usize,
    place: usize,
    /// [`Callers::news`] before it could come.
    seen: u64,
}

struct Callers {
    waiting: Vec<Waiter>,
    expected: Vec<Expected>,
    /// Who has the turn, by address.
    holder: usize,
    /// Who finds out who is next while nobody has it.
    leader: usize,
    /// The leader has parked the rank, up to here at most, ps.
    parked: Option<u64>,
    /// Asked to wake for something else.
    kicks: u32,
    /// How much has happened that may be of interest to others.
    news: u64,
    /// Locks of the library that were given back.
    unlocks: u64,
    /// Threads that wait with a lock of the library.
    keepers: u32,
}

static CALLERS: Mutex<Callers> = Mutex::new(Callers {
    waiting: Vec::new(),
    expected: Vec::new(),
    holder: 0,
    leader: 0,
    parked: None,
    kicks: 0,
    news: 0,
    unlocks: 0,
    keepers: 0,
});
/// The program was given MPI_THREAD_MULTIPLE.
static GIVEN: AtomicBool = AtomicBool::new(false);
/// Simulated time up to which all that has happened was seen by those inside MPI, ps.
static NOW: AtomicU64 = AtomicU64::new(0);
/// Some thread waits for a lock of the library, and none was given back since.
static LOCKED_OUT: AtomicBool = AtomicBool::new(false);
/// Some thread waits with a lock of the library.
static KEEPERS: AtomicBool = AtomicBool::new(false);

fn callers() -> MutexGuard<'static, Callers> {
    // Who is asleep in here is about to call: it is not one that sleeps for reasons of its own.
    threads::paused(|| CALLERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Who waits at that address waits for a moment.
pub(crate) fn has_lock_at(address: usize) -> bool {
    threads::is_within(address, &CALLERS)
}

fn address(thread: &Thread) -> usize {
    std::ptr::from_ref(thread) as usize
}

/// The program was given MPI_THREAD_MULTIPLE.
pub(crate) fn given() {
    GIVEN.store(true, Release);
}

/// Any thread of the program may call MPI, whatever the others do.
pub(crate) fn may_call() -> bool {
    GIVEN.load(Relaxed)
}

/// Several threads may be inside MPI now. They may have ended meanwhile: the calls of the one that is left take their
/// time in the same way, for whether one has ended on the host or only in simulated time makes no difference.
pub(crate) fn many_call() -> bool {
    may_call() && threads::were_many()
}

/// The calling thread has the turn: others may be inside MPI too.
pub(crate) fn beside_others() -> bool {
    GIVEN.load(Relaxed) && threads::current().is_some_and(|thread| thread.has_turn.load(Relaxed))
}

/// The rank's clock has come to `ps` while the calling thread holds it.
pub(crate) fn time_is(ps: u64) {
    if beside_others() {
        NOW.fetch_max(ps, Relaxed);
    }
}

/// Something has happened inside the library that others may wait for.
pub(crate) fn news() {
    if let Some(thread) = threads::current().filter(|thread| thread.has_turn.load(Relaxed)) {
        let _ = thread.vain.take();
        callers().news += 1;
    }
}

/// The calling thread calls MPI: returns when it is its turn.
pub(crate) fn enter() {
    if !GIVEN.load(Acquire) || !attached() || !threads::were_many() {
        return;
    }
    let Some(thread) = threads::current() else { return };
    let clock = threads::now();
    take_turn(thread, Wish::At(clock, false), 0);
}

/// It is about to leave MPI, where it has looked in vain last. Time must pass for loops of such calls.
pub(crate) fn before_leave() {
    let Some(thread) = threads::current().filter(|thread| thread.has_turn.load(Relaxed)) else { return };
    match thread.vain.take() {
        Some(Wish::At(clock, look)) => wait(thread, Wish::At(clock, look), 0),
        _ => callers().news += 1,
    }
}

/// It has left MPI.
pub(crate) fn leave() {
    let Some(thread) = threads::current().filter(|thread| thread.has_turn.swap(false, Relaxed)) else { return };
    let mut callers = callers();
    if callers.holder == address(thread) {
        callers.holder = 0;
    }
    // Any one finds out who is next.
    let leader = if callers.leader == 0 { callers.waiting.first().map(|waiter| waiter.thread) } else { None };
    drop(callers);
    leader.into_iter().for_each(wake);
}

/// The library has looked in vain, and the calling thread's wish follows from that. It waits where it holds no lock of
/// the library.
pub(crate) fn looked_in_vain(wish: Option<u64>, look: bool) {
    let Some(thread) = threads::current() else { return };
    let wish = match wish {
        Some(clock) => Wish::At(clock, look),
        None => Wish::News(callers().news),
    };
    thread.vain.set(wish);
    thread.vain_looks.fetch_add(1, Relaxed);
}

/// The library has looked, and holds nothing of ours. If it was handed something it does not wait before it has seen to
/// that. One that never comes to a place without locks waits here.
pub fn after_look(found: bool) {
    let Some(thread) = threads::current().filter(|_| beside_others()) else { return };
    if found {
        let _ = thread.vain.take();
        callers().news += 1;
    } else if thread.vain_looks.load(Relaxed) >= LOOKS_WITH_LOCK
        && let Some(wish) = thread.vain.take()
    {
        wait(thread, wish, 1);
    }
}

/// The library has given back the last of its locks that the calling thread had.
pub fn without_locks() {
    if !beside_others() {
        return;
    }
    let Some(thread) = threads::current() else { return };
    if LOCKED_OUT.swap(false, Relaxed) {
        // Who waits for a lock that this thread, or another one, had kept gets it now.
        callers().unlocks += 1;
        let wish = thread.vain.take().unwrap_or(Wish::At(thread.clock(), false));
        wait(thread, wish, 0);
        return;
    }
    // Not every call that polls comes to the network: MPI_Probe of a single rank of MPICH looks for messages to itself
    // only.
    let unlocks = thread.unlocks.fetch_add(1, Relaxed) + 1;
    if unlocks.is_multiple_of(LOOKS_WITH_LOCK)
        && let Ok(mut rank) = attach::session()
    {
        // Nothing that comes from outside tells a thread that spins what another one has done: it looks again after a
        // poll.
        if !rank.polls_elsewhere()
            && unlocks >= LOOKS_ELSEWHERE
            && let Some(next) = rank.spins_elsewhere()
        {
            thread.vain.set(Wish::At(next, false));
        }
    }
    if let Some(wish) = thread.vain.take() {
        wait(thread, wish, 0);
    }
}

/// A lock of the library is taken. True: by a thread that waits, and may have been given back now; try again.
pub fn waits_for_lock() -> bool {
    if !beside_others() || !KEEPERS.load(Relaxed) {
        return false;
    }
    let Some(thread) = threads::current() else { return false };
    LOCKED_OUT.store(true, Relaxed);
    let seen = callers().unlocks;
    wait(thread, Wish::Lock(seen), 0);
    true
}

/// The library has given back one of its locks, and the calling thread may have others: whoever waits for it tries
/// again in its turn.
pub fn gives_lock() {
    if beside_others() && LOCKED_OUT.swap(false, Relaxed) {
        callers().unlocks += 1;
    }
}

/// The library is going to wait until another thread signals something at `place`: from here on no signal is missed, so
/// it calls this while it still has the lock that goes with the place, and [`waits_for_signal`] when it has given that
/// back. False: it must wait by itself, and not have given anything back.
pub fn expects_signal(place: usize) -> bool {
    let Some(thread) = threads::current().filter(|_| beside_others()) else { return false };
    let _ = thread.vain.take();
    let mut callers = callers();
    let seen = callers.news;
    callers.expected.push(Expected { thread: address(thread), place, seen });
    true
}

/// After [`expects_signal`]: the library waits, and `keeps` others of its locks. Returns when it should look whether
/// the signal has come.
pub fn waits_for_signal(keeps: bool) {
    let Some(thread) = threads::current() else { return };
    let me = address(thread);
    let expected = callers().expected.iter().find(|expected| expected.thread == me).map(|expected| expected.seen);
    let Some(seen) = expected else { return };
    wait(thread, Wish::News(seen), u32::from(keeps));
    callers().expected.retain(|expected| expected.thread != me);
}

/// The calling thread sleeps for `ps`, outside of MPI: it goes on when those inside have come as far. False: nobody may
/// be there.
pub(crate) fn sleep(thread: &'static Thread, ps: u64) -> bool {
    if !many_call() || thread.has_turn.load(Relaxed) {
        return false;
    }
    let end = threads::now().saturating_add(ps);
    thread.set_clock(end);
    if queue(thread, Wish::At(end, false), 0, Patience::Some) {
        leave();
    }
    thread.mark();
    true
}

/// Some thread signals something at `place`, perhaps one of the library's own.
pub fn signals(place: usize) {
    if !GIVEN.load(Relaxed) {
        return;
    }
    let mut callers = callers();
    if !callers.expected.iter().any(|expected| expected.place == place) {
        return;
    }
    callers.news += 1;
    if callers.parked.is_some() {
        callers.kicks += 1;
        ask_to_give_way(true);
    }
    drop(callers);
    threads::note_change();
}

/// In the middle of a call: what the rank knows of it is kept.
fn wait(thread: &'static Thread, wish: Wish, locks: u32) {
    let Ok(rank) = attach::session() else { return };
    let call = rank.call_state();
    drop(rank);
    take_turn(thread, wish, locks);
    if let Ok(mut rank) = attach::session() {
        rank.set_call_state(call);
    }
}

enum Next {
    Turn(usize),
    /// Threads that sleep until then, ps, are next.
    Wake(u64),
    Rest,
    Park(u64, bool),
}

impl Callers {
    fn next(&self) -> Next {
        let now = NOW.load(Relaxed);
        let least = threads::least();
        if least <= now {
            // What those do that compute may come before.
            return Next::Rest;
        }
        let first = |ready: &dyn Fn(Wish) -> bool| {
            let ready = self.waiting.iter().filter(|waiter| ready(waiter.wish));
            ready.map(|waiter| (waiter.thread.number(), address(waiter.thread))).min()
        };
        let lock = first(&|wish| matches!(wish, Wish::Lock(seen) if seen != self.unlocks));
        let news = || first(&|wish| matches!(wish, Wish::News(seen) if seen != self.news));
        if let Some((_, thread)) = lock.or_else(news) {
            return Next::Turn(thread);
        }
        let at = |waiter: &Waiter| match waiter.wish {
            Wish::At(clock, look) => Some((clock, waiter.thread.number(), address(waiter.thread), look)),
            _ => None,
        };
        let earliest = self.waiting.iter().filter_map(at).min();
        let unattentive = !self.is_attentive();
        // Parking the rank wakes those that sleep, but who is behind is not parked for.
        if let Some(end) = threads::first_end()
            && (end <= now || unattentive)
            && end < least
            && earliest.is_none_or(|(clock, ..)| end < clock)
        {
            return Next::Wake(end);
        }
        match earliest {
            Some((clock, _, thread, false)) if clock <= now || (unattentive && clock < least) => Next::Turn(thread),
            // Computing takes no time: those that run will call, sleep or wait before simulated time goes on.
            _ if least != u64::MAX && threads::compute_is_free() => Next::Rest,
            Some((clock, _, _, look)) if clock < least => Next::Park(clock, look),
            // Nobody looks at the network until those that compute have come as far.
            _ if unattentive => Next::Rest,
            _ => Next::Park(least, false),
        }
    }

    /// Some thread waits for what comes from outside: at the network, or at a descriptor.
    fn is_attentive(&self) -> bool {
        threads::any_at_files() || self.awaits_news()
    }

    /// Some thread waits inside MPI.
    fn awaits_news(&self) -> bool {
        self.waiting.iter().any(|waiter| matches!(waiter.wish, Wish::News(_)))
    }

    fn asks_no_longer(&mut self) {
        for _ in 0..std::mem::take(&mut self.kicks) {
            ask_to_give_way(false);
        }
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.asked) {
            waiter.asked = false;
            ask_to_give_way(false);
        }
    }
}

/// Wakes one of those that wait. Without the lock, which it needs first of all: on two cores each hand-over was two
/// sleeps with it.
fn wake(thread: &Thread) {
    thread.served.notify_one();
}

/// Gives the turn up, if the thread has it, and waits for `wish` and for its turn. `locks`: of the library, which it
/// keeps meanwhile.
fn take_turn(thread: &'static Thread, wish: Wish, locks: u32) {
    queue(thread, wish, locks, Patience::Endless);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Endless,
    /// Who has the turn may wait for something that the calling thread has, as the lock of an allocator that looks at
    /// the clock: then the wait is over.
    Some,
}

fn rank_runs() -> bool {
    attach::shared().is_some_and(|(_, header)| matches!(header.state.load(Acquire), state::RUNNING | state::APART))
}

/// How long one that has the turn sleeps between two looks why. Our own choice: short, for the program does not get on
/// if it waits for a lock that the one that looks has.
const ASLEEP: Duration = Duration::from_millis(1);
/// So often in a row it may be seen at one lock of which it is not known who has it: where that is another thread, a
/// busy host may keep it from its core. Our own choice.
const ASLEEP_AT_LOCK: u32 = 5;
/// And so often it may sleep for another reason: the MPI library asks its launcher for an address, say, which on a busy
/// host takes its time. Our own choice: a second.
const ASLEEP_ELSEWHERE: u32 = 1000;

/// The thread has no turn any more, and so many locks of its library.
fn without_turn(thread: &'static Thread, locks: u32) -> MutexGuard<'static, Callers> {
    thread.vain_looks.store(0, Relaxed);
    thread.unlocks.store(0, Relaxed);
    thread.has_turn.store(false, Relaxed);
    let mut callers = callers();
    if callers.holder == address(thread) {
        callers.holder = 0;
    }
    callers.keepers += locks;
    KEEPERS.store(callers.keepers != 0, Relaxed);
    callers
}

/// As [`take_turn`]. False: it has not got its turn.
fn queue(thread: &'static Thread, wish: Wish, locks: u32, patience: Patience) -> bool {
    if threads::take_turns() {
        return queue_in_turn(thread, wish, locks, patience);
    }
    let me = address(thread);
    let mut callers = without_turn(thread, locks);
    // Whoever has parked the rank comes to what is due then by itself.
    let asked = callers.parked.is_some_and(|until| thread.clock() < until);
    if asked {
        chance::comes_late();
        ask_to_give_way(true);
    }
    callers.waiting.push(Waiter { thread, wish, asked });
    thread.inside.store(true, Relaxed);
    threads::set_running(thread, false);
    // As in `wake`.
    drop(callers);
    threads::note_change();
    let mut callers = self::callers();
    let (mut asleep, mut reason) = (0, None);
    while callers.holder != me {
        if callers.holder == 0 && (callers.leader == 0 || callers.leader == me) {
            callers.leader = me;
            // Before the look at the others: it does not rest if they have changed since.
            let seen = threads::changes();
            match callers.next() {
                Next::Turn(other) => {
                    callers.holder = other;
                    callers.leader = 0;
                    let next = callers.waiting.iter().map(|waiter| waiter.thread).find(|&thread| address(thread) == other);
                    if let Some(next) = next.filter(|_| other != me) {
                        drop(callers);
                        wake(next);
                        callers = self::callers();
                    }
                }
                Next::Wake(end) => threads::reached(end),
                Next::Rest => {
                    drop(callers);
                    threads::rest_from(seen);
                    callers = self::callers();
                }
                Next::Park(until, look) => callers = park_for(callers, thread, until, look),
            }
            continue;
        }
        if patience == Patience::Endless {
            callers = thread.served.wait(callers).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let before = callers.holder;
        callers = thread.served.wait_timeout(callers, ASLEEP).unwrap_or_else(PoisonError::into_inner).0;
        // Neither for the simulator nor for the launcher.
        let looks = before != 0 && callers.holder == before && rank_runs();
        let sleeps = if looks { threads::is_asleep(|other| address(other) == before) } else { None };
        asleep = if sleeps == reason { asleep + 1 } else { 0 };
        reason = sleeps;
        let over = match sleeps {
            None => false,
            Some(Asleep::AtMine) => true,
            Some(Asleep::AtLock(_)) => asleep >= ASLEEP_AT_LOCK,
            Some(Asleep::Elsewhere) => asleep >= ASLEEP_ELSEWHERE,
        };
        if over {
            decides(decided::SLEEP);
            break;
        }
    }
    let turn = callers.holder == me;
    if let Some(at) = callers.waiting.iter().position(|waiter| address(waiter.thread) == me)
        && callers.waiting.swap_remove(at).asked
    {
        ask_to_give_way(false);
    }
    callers.keepers -= locks;
    KEEPERS.store(callers.keepers != 0, Relaxed);
    drop(callers);
    // A call is not before what those inside have seen; and what comes for one that waits comes at its time.
    if turn {
        let clock = NOW.fetch_max(thread.clock(), Relaxed).max(thread.clock());
        thread.set_clock(clock);
    }
    threads::set_running(thread, true);
    thread.inside.store(false, Relaxed);
    thread.has_turn.store(turn, Relaxed);
    thread.mark();
    turn
}

/// `thread` parks the rank for all that wait, up to `until`, ps. `look`: one of them wants the simulator to have let it
/// go on then.
fn park_for(mut callers: MutexGuard<'static, Callers>, thread: &'static Thread, until: u64, look: bool) -> MutexGuard<'static, Callers> {
    callers.parked = Some(until);
    let (attentive, inside) = (callers.is_attentive(), callers.awaits_news());
    drop(callers);
    let happened = park(thread, until, attentive, inside);
    callers = self::callers();
    callers.parked = None;
    let asked = callers.kicks != 0 || callers.waiting.iter().any(|waiter| waiter.asked);
    callers.asks_no_longer();
    let came = NOW.load(Relaxed) >= until;
    if happened || !(asked || came) {
        // Also when woken for nothing: the library may have work of its own.
        callers.news += 1;
    }
    if look && came {
        for waiter in &mut callers.waiting {
            if let Wish::At(clock, true) = waiter.wish
                && clock <= until
            {
                waiter.wish = Wish::At(clock, false);
            }
        }
    }
    callers
}

/// As [`queue`], where one thread runs at a time: one of those that wait finds out who is next when nobody runs.
fn queue_in_turn(thread: &'static Thread, wish: Wish, locks: u32, patience: Patience) -> bool {
    let me = address(thread);
    let mut callers = without_turn(thread, locks);
    callers.waiting.push(Waiter { thread, wish, asked: false });
    thread.inside.store(true, Relaxed);
    let order = if patience == Patience::Some { threads::order::SLEEPER } else { threads::order::CALLER };
    loop {
        drop(callers);
        threads::leads(thread, order);
        callers = self::callers();
        if callers.holder == me || !threads::is_on() {
            break;
        }
        if callers.holder != 0 {
            // Who has the turn waits for another one, perhaps for this one.
            if patience == Patience::Some {
                break;
            }
            drop(callers);
            threads::nap_with_baton();
            callers = self::callers();
            continue;
        }
        match callers.next() {
            Next::Turn(other) => {
                callers.holder = other;
                if other == me {
                    break;
                }
                let next = callers.waiting.iter().map(|waiter| waiter.thread).find(|&thread| address(thread) == other);
                next.into_iter().for_each(|next| threads::goes(next, next.clock()));
            }
            Next::Wake(end) => threads::reached(end),
            // Somebody has become ready.
            Next::Rest => {}
            Next::Park(until, look) => callers = park_for(callers, thread, until, look),
        }
    }
    let turn = callers.holder == me;
    callers.waiting.retain(|waiter| address(waiter.thread) != me);
    callers.keepers -= locks;
    KEEPERS.store(callers.keepers != 0, Relaxed);
    drop(callers);
    if turn {
        let clock = NOW.fetch_max(thread.clock(), Relaxed).max(thread.clock());
        thread.set_clock(clock);
    }
    thread.inside.store(false, Relaxed);
    thread.has_turn.store(turn, Relaxed);
    thread.mark();
    turn
}

/// Lets simulated time pass for all that wait, up to `until`, ps: whether something has come before. `attentive`: one
/// of them looks at the network all the time. `inside`: one of them waits inside MPI.
fn park(thread: &'static Thread, until: u64, attentive: bool, inside: bool) -> bool {
    let clock = thread.clock();
    let Ok(mut rank) = attach::session() else { return true };
    let pass = |rank: &mut Rank| rank.passes(NOW.load(Relaxed), until, attentive);
    let (now, happened) = if inside { pass(&mut rank) } else { rank.passes_outside(pass) };
    drop(rank);
    NOW.fetch_max(now, Relaxed);
    thread.set_clock(clock);
    if !threads::is_on() {
        threads::set_running(thread, false);
    }
    happened
}

/// What the calling thread's MPI library has come to last, see [`looked_in_vain`].
#[derive(Debug, Default)]
pub(crate) struct Vain(std::sync::Mutex<Option<Wish>>);

impl Vain {
    fn set(&self, wish: Wish) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(wish);
    }

    /// Takes it.
    pub fn take(&self) -> Option<Wish> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
