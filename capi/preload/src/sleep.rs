//! Sleeping, and waiting with a deadline.
//!
//! A deadline that the program made from a virtual clock means nothing to the kernel: what is left of it is added to
//! the real clock. If the wait runs out, that much virtual time has passed.

use crate::baton;
use crate::clock::{self, NS_PER_S, PS_PER_NS, View};
use crate::descriptors::keeping_errno;
use crate::meet::Ended;
use crate::symbols::real;
use crate::{descriptors, meet, portals, pthreads, state};
use libc::{
    c_int, c_uint, clockid_t, fd_set, pollfd, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, timespec, timeval, useconds_t,
};

mod next {
    use super::*;
    real! {
        fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int;
        fn clock_nanosleep(clock: clockid_t, flags: c_int, wanted: *const timespec, left: *mut timespec) -> c_int;
        fn usleep(wanted: useconds_t) -> c_int;
        fn sleep(wanted: c_uint) -> c_uint;
        fn sched_yield() -> c_int;
        fn select(n: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
        fn poll(files: *mut pollfd, n: libc::nfds_t, timeout_ms: c_int) -> c_int;
        fn sem_timedwait(semaphore: *mut sem_t, deadline: *const timespec) -> c_int;
        fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, deadline: *const timespec) -> c_int;
        #[version = c"GLIBC_2.3.2"]
        fn pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, deadline: *const timespec) -> c_int;
        fn pthread_cond_clockwait(
            cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, deadline: *const timespec,
        ) -> c_int;
        fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, deadline: *const timespec) -> c_int;
        fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, deadline: *const timespec) -> c_int;
        fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, deadline: *const timespec) -> c_int;
        fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, deadline: *const timespec) -> c_int;
    }
}

/// The shortest sleep of the MPI library while it starts or ends, unless the number of ranks asks for longer ones. Open
/// MPI waits for its launcher in steps of 100 us (`OMPI_LAZY_WAIT_FOR_COMPLETION`), which keeps a few hundred ranks on
/// few cores busy with waking up.
const NAP_NS: u64 = 1_000_000;

/// How long a thread waits for another one, in real time, before it looks what the clocks say: at first, and at most.
/// Our own choice.
const SHORTEST_SLICE_NS: u64 = 50_000;
const LONGEST_SLICE_NS: u64 = 2_000_000;

/// How to wait for a while.
enum How {
    /// Nobody waits: the rank's clock moves.
    Move,
    /// As the caller asked; before MPI_Init and after MPI_Finalize the virtual clock moves afterwards.
    Wait(View),
}

fn how() -> How {
    match clock::view() {
        View::Simulated => How::Move,
        view => How::Wait(view),
    }
}

/// In ns: seconds since 1970 are too many for ps. `None` for what the kernel refuses.
fn length(time: &timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u64::try_from(time.tv_nsec).ok().filter(|ns| *ns < NS_PER_S)?;
    Some(seconds.saturating_mul(NS_PER_S).saturating_add(ns))
}

fn timespec_of(ns: u64) -> timespec {
    timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
}

/// Sleeps that long, in simulated time if the caller lives there, otherwise by the real function.
fn rest(ns: u64, real: impl FnOnce() -> c_int) -> c_int {
    let ps = ns.saturating_mul(PS_PER_NS);
    descriptors::sleeps();
    match how() {
        How::Move if portals::sleep(ps) => 0,
        How::Move => real(),
        How::Wait(view) => {
            if ns < NAP_NS && state::waits_outside() {
                let nap = portals::longest_nap().max(NAP_NS);
                // SAFETY: a valid record.
                return unsafe { next::nanosleep(&timespec_of(nap), std::ptr::null_mut()) };
            }
            let code = real();
            if code == 0 {
                clock::pass(view, ps);
            }
            code
        }
    }
}

/// So late Linux lets the timers of usual threads end: PR_SET_TIMERSLACK in prctl(2).
const TIMER_SLACK_NS: u64 = 50_000;
/// A shorter sleep is a wish to let others run. Our own choice: programs stand for computing by sleeps of microseconds.
const SHORTEST_NS: u64 = 1_000;

/// The same for a length that a program asks for. A loop around sleeps of 0 would stand still in simulated time.
fn rest_for(ns: u64, real: impl FnOnce() -> c_int) -> c_int {
    rest(if ns < SHORTEST_NS { TIMER_SLACK_NS } else { ns }, real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller passes a valid record; anything else is left to the real function to refuse. `left` is only
    // for interrupted sleeps.
    unsafe {
        match wanted.as_ref().and_then(length) {
            Some(ns) => rest_for(ns, || next::nanosleep(wanted, left)),
            None => next::nanosleep(wanted, left),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(clock: clockid_t, flags: c_int, wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: as nanosleep.
    unsafe {
        let Some(ns) = wanted.as_ref().and_then(length) else { return next::clock_nanosleep(clock, flags, wanted, left) };
        if flags & libc::TIMER_ABSTIME == 0 {
            return rest_for(ns, || next::clock_nanosleep(clock, flags, wanted, left));
        }
        let Some(elapsed) = clock::elapsed_in(clock::view(), 0) else { return next::clock_nanosleep(clock, flags, wanted, left) };
        let now = length(&clock::on_clock(clock, elapsed)).unwrap_or(0);
        let ns = ns.saturating_sub(now);
        let relative = timespec_of(ns);
        rest(ns, || next::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &relative, std::ptr::null_mut()))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn usleep(wanted: useconds_t) -> c_int {
    // SAFETY: a plain number.
    rest_for(u64::from(wanted) * (NS_PER_S / 1_000_000), || unsafe { next::usleep(wanted) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sleep(wanted: c_uint) -> c_uint {
    // The component of Open MPI for one-sided operations sleeps a second in MPI_Finalize, for the sake of another
    // libfabric provider.
    if state::waits_outside() && state::initialised() {
        return 0;
    }
    // SAFETY: a plain number. The result is what is left of an interrupted sleep, 0 otherwise.
    rest_for(u64::from(wanted) * NS_PER_S, || unsafe { next::sleep(wanted) as c_int }) as c_uint
}

/// MPI libraries yield after every poll without result. Inside a call that waits for the simulated network the rank has
/// been parked by that poll already: then a yield is a system call for nothing. A program that yields in a loop of its
/// own waits for something: time passes.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_yield() -> c_int {
    if !state::on() {
        // SAFETY: no arguments.
        return unsafe { next::sched_yield() };
    }
    if state::in_mpi() && !state::waits_outside() && !state::in_guard() && !state::left() {
        if portals::multiple() && state::thread(|thread| thread.locks.get()) == 0 {
            portals::without_locks();
        }
        return 0;
    }
    looks();
    // SAFETY: no arguments.
    unsafe { next::sched_yield() }
}

/// A call that does nothing, perhaps in a loop until another thread has done something.
fn looks() {
    if clock::view() == View::Simulated {
        portals::yields();
    }
}

/// `select`, `poll` and their relatives when they wait for nothing: for no time they return at once.
pub fn rest_without_descriptors(ns: u64, real: impl FnOnce() -> c_int) -> c_int {
    if ns != 0 {
        return rest_for(ns, real);
    }
    looks();
    real()
}

/// In ns; `None` for no limit, and for what the kernel refuses.
///
/// # Safety
///
/// The time is null or valid.
pub unsafe fn length_of(time: *const timespec) -> Option<u64> {
    // SAFETY: as the caller says.
    unsafe { time.as_ref() }.and_then(length)
}

/// Without descriptors `select` is a sleep with microseconds, much used before `usleep` was.
#[unsafe(no_mangle)]
unsafe extern "C" fn select(n: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
    // SAFETY: forwarded as it came; the timeout is null or valid.
    unsafe {
        let wanted = timeout.as_ref().filter(|_| n == 0).and_then(|wanted| {
            // More than a million microseconds are allowed in practice: select(2) of Linux carries them over.
            let us = u64::try_from(wanted.tv_usec).ok()?;
            Some(u64::try_from(wanted.tv_sec).ok()?.saturating_mul(NS_PER_S).saturating_add(us.saturating_mul(NS_PER_S / 1_000_000)))
        });
        match wanted {
            Some(ns) => rest_without_descriptors(ns, || next::select(n, read, write, except, timeout)),
            None => descriptors::select_simulated(n, [read, write, except], timeout.as_ref(), std::ptr::null())
                .unwrap_or_else(|| next::select(n, read, write, except, timeout)),
        }
    }
}

/// Without descriptors `poll` is a sleep with milliseconds.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(files: *mut pollfd, n: libc::nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: forwarded as it came.
    let go_on = || unsafe { next::poll(files, n, timeout_ms) };
    match u64::try_from(timeout_ms) {
        Ok(ms) if n == 0 => rest_without_descriptors(ms * (NS_PER_S / 1_000), go_on),
        // SAFETY: as above.
        _ => unsafe { descriptors::poll_simulated(files, n, descriptors::patience_of_ms(timeout_ms), std::ptr::null()) }
            .unwrap_or_else(go_on),
    }
}

/// Waits until a virtual deadline. `clock` is the one that the program read, `wait` the real function with a real
/// deadline on the same clock. The result of a wait that ran out is `timed_out()`.
fn until(
    places: &[usize],
    clock: Option<clockid_t>,
    deadline: *const timespec,
    wait: impl Fn(*const timespec) -> c_int,
    timed_out: impl Fn(c_int) -> bool,
) -> c_int {
    // SAFETY: null or valid by the contract of all these functions.
    let wanted = unsafe { deadline.as_ref() };
    let Some(wanted) = wanted else { return wait(deadline) };
    let view = clock::view();
    let (Some(elapsed), Some(end)) = (clock::elapsed_in(view, 0), length(wanted)) else { return wait(deadline) };
    let clock = clock.unwrap_or_else(|| clock::clock_of(wanted));
    let left = end.saturating_sub(length(&clock::on_clock(clock, elapsed)).unwrap_or(0));
    if view == View::Simulated && baton::here() {
        return until_in_turn(places, left, wait, timed_out);
    }
    if view == View::Simulated && left == 0 && meet::threads() {
        // It is over at once. Whoever waits for the lock of a condition may get it all the same.
        return match places {
            [_, mutex] => match pthreads::give_and_take(*mutex) {
                0 => libc::ETIMEDOUT,
                code => code,
            },
            _ => {
                let code = wait(&timespec_of(0));
                if timed_out(code) {
                    keeping_errno(|| places.iter().for_each(|&place| meet::may_spin(place)));
                }
                code
            }
        };
    }
    if view == View::Simulated && meet::threads() {
        // Another thread may end the wait, so this one looks from time to time what the clocks say; less and less
        // often.
        let (mut slice, mut code) = (SHORTEST_SLICE_NS, 0);
        let ended = meet::wait_until(places, left.saturating_mul(PS_PER_NS), || {
            let now = length(&clock::real_now(clock)).unwrap_or(0);
            code = wait(&timespec_of(now + slice));
            slice = (2 * slice).min(LONGEST_SLICE_NS);
            !timed_out(code)
        });
        match ended {
            Ended::Itself => return code,
            Ended::Signalled => return 0,
            Ended::Not => {}
        }
    }
    let now = clock::real_now(clock);
    let real = length(&now).unwrap_or(0).saturating_add(left);
    let code = wait(&timespec_of(real));
    let left = left.saturating_mul(PS_PER_NS);
    if timed_out(code) {
        match view {
            View::Simulated => drop(portals::sleep(left)),
            view => clock::pass(view, left),
        }
    }
    code
}

/// The same where one thread runs at a time: so many ns from now.
fn until_in_turn(places: &[usize], left: u64, wait: impl Fn(*const timespec) -> c_int, timed_out: impl Fn(c_int) -> bool) -> c_int {
    let until = portals::thread_clock().saturating_add(left.saturating_mul(PS_PER_NS));
    if let &[condition, mutex] = places {
        // SAFETY: the places of a condition and its lock.
        return unsafe { pthreads::wait_at(condition, mutex, until) };
    }
    let mut late = left == 0;
    loop {
        let seen = portals::thread_wakes_so_far();
        let code = wait(&timespec_of(0));
        if late || !timed_out(code) || !baton::here() {
            return code;
        }
        late = places.iter().any(|&place| portals::thread_blocks(place, until, seen));
    }
}

fn by_code(code: c_int) -> bool {
    code == libc::ETIMEDOUT
}

fn by_errno(code: c_int) -> bool {
    // SAFETY: errno of this thread.
    code == -1 && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT
}

/// Waits by the clock that the function is documented for (`REALTIME`), one that is an argument (`clock`), or one that
/// is a property of the object (`None`: guessed from the size of the deadline).
macro_rules! waits {
    ($($name:ident($($argument:ident: $type:ty),*), $places:expr, $clock:expr, $timed_out:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type,)* deadline: *const timespec) -> c_int {
                // SAFETY: forwarded; only the deadline is another one.
                let wait = |deadline| unsafe { next::$name($($argument,)* deadline) };
                until(&$places.map(|place| place as usize), $clock, deadline, wait, $timed_out)
            }
        )*
    };
}

waits! {
    sem_timedwait(semaphore: *mut sem_t), [semaphore], Some(libc::CLOCK_REALTIME), by_errno;
    sem_clockwait(semaphore: *mut sem_t, clock: clockid_t), [semaphore], Some(clock), by_errno;
    pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t), [cond as *mut (), mutex as *mut ()], None, by_code;
    pthread_cond_clockwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t),
        [cond as *mut (), mutex as *mut ()], Some(clock), by_code;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t), [mutex], Some(libc::CLOCK_REALTIME), by_code;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t), [mutex], Some(clock), by_code;
    pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t), [lock], Some(libc::CLOCK_REALTIME), by_code;
    pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t), [lock], Some(libc::CLOCK_REALTIME), by_code;
}
