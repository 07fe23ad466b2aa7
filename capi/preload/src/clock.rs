//! Reading clocks.

use crate::symbols::real;
use crate::{place, portals, state};
use libc::{c_int, clock_t, clockid_t, rusage, time_t, timespec, timeval, timezone, tms};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const PS_PER_S: u64 = 1_000_000_000_000;
pub const PS_PER_NS: u64 = 1_000;
pub const NS_PER_S: u64 = 1_000_000_000;

/// 2026-01-01 00:00:00 UTC in seconds since 1970: every run starts then. Our choice.
const EPOCH_S: u64 = 1_767_225_600;

/// Time since boot at the start of every process, in seconds: not zero, which programs take for "never". Our choice.
const BOOT_S: u64 = 1_000;

/// What a read takes before MPI_Init, so that a loop that waits for the clock ends. Our choice: so long that such a
/// loop is faster than in real time however many ranks share a core. UCX, for one, waits 1 ms for each function that it
/// patches when it is loaded, yielding and reading the clock; with 1 us a read, 64 ranks of Open MPI 5 needed 35 s of
/// processor time to start instead of 6 s.
const READ_BEFORE_INIT_PS: u64 = 100_000_000;

/// The same after MPI_Finalize, where the network has ended and no library starts. Our choice: about the real cost.
const READ_AFTER_FINALIZE_PS: u64 = 1_000_000;

/// Virtual time until MPI_Init has returned: reads and sleeps.
static BEFORE_PS: AtomicU64 = AtomicU64::new(0);
/// The last virtual time that was read: where a process goes on that has left the simulation.
static LAST_PS: AtomicU64 = AtomicU64::new(0);
/// Real time when it left.
static LEFT_REAL_PS: AtomicU64 = AtomicU64::new(0);

/// Which time the caller lives in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The host's.
    Real,
    /// Virtual, MPI_Init has not returned yet.
    Before,
    /// Virtual: the rank's clock.
    Simulated,
    /// Virtual, after MPI_Finalize.
    After,
    /// Virtual at real speed: a child of `fork`, a process that is ending.
    Left,
}

/// The view of the calling code.
pub fn view() -> View {
    if !state::in_program() { View::Real } else { program_view() }
}

/// The view of the program, for calls that only programs make.
pub fn program_view() -> View {
    if !state::on() || state::in_guard() {
        View::Real
    } else if state::left() {
        View::Left
    } else if portals::active() {
        View::Simulated
    } else if state::initialised() {
        View::After
    } else {
        View::Before
    }
}

/// Virtual time since the process began, in ps; `None` in real time.
fn elapsed() -> Option<u64> {
    elapsed_in(view(), 0)
}

/// As [`elapsed`] in a known view, for a call that returns to the address `caller`, 0: anywhere.
pub fn elapsed_in(view: View, caller: usize) -> Option<u64> {
    let now = match view {
        View::Real => return None,
        View::Before => BEFORE_PS.fetch_add(READ_BEFORE_INIT_PS, Relaxed) + READ_BEFORE_INIT_PS,
        View::Simulated => BEFORE_PS.load(Relaxed) + portals::clock(if caller == 0 { 0 } else { place::of(caller) }),
        View::After => LAST_PS.fetch_add(READ_AFTER_FINALIZE_PS, Relaxed) + READ_AFTER_FINALIZE_PS,
        View::Left => LAST_PS.load(Relaxed) + (real_monotonic() - LEFT_REAL_PS.load(Relaxed)),
    };
    if matches!(view, View::Before | View::Simulated) {
        LAST_PS.fetch_max(now, Relaxed);
    }
    Some(now)
}

/// Notes that a real sleep is over, where the virtual clock does not move by itself.
pub fn pass(view: View, ps: u64) {
    match view {
        View::Before => BEFORE_PS.fetch_add(ps, Relaxed),
        View::After => LAST_PS.fetch_add(ps, Relaxed),
        View::Real | View::Simulated | View::Left => 0,
    };
}

/// From now on at real speed.
pub fn note_left() {
    LEFT_REAL_PS.store(real_monotonic(), Relaxed);
}

fn real_monotonic() -> u64 {
    let now = real_now(libc::CLOCK_MONOTONIC);
    now.tv_sec as u64 * PS_PER_S + now.tv_nsec as u64 * PS_PER_NS
}

/// A clock of the host.
pub fn real_now(clock: clockid_t) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid record.
    unsafe { real_clock_gettime(clock, &mut now) };
    now
}

/// Virtual time as this clock shows it: since 1970, since boot, or CPU time used. CPU time is the same as time here:
/// what a rank waits for, it waits for spinning.
pub fn on_clock(clock: clockid_t, elapsed_ps: u64) -> timespec {
    let base = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => EPOCH_S,
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE => BOOT_S,
        libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => BOOT_S,
        _ => 0,
    };
    timespec { tv_sec: (base + elapsed_ps / PS_PER_S) as time_t, tv_nsec: ((elapsed_ps % PS_PER_S) / PS_PER_NS) as i64 }
}

/// The clock that a point in time belongs to, by its size.
pub fn clock_of(deadline: &timespec) -> clockid_t {
    if deadline.tv_sec as u64 >= EPOCH_S / 2 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC }
}

mod next {
    use super::*;
    real! {
        fn clock_gettime(clock: clockid_t, now: *mut timespec) -> c_int;
        fn gettimeofday(now: *mut timeval, zone: *mut timezone) -> c_int;
        fn time(now: *mut time_t) -> time_t;
        fn clock() -> clock_t;
        fn times(used: *mut tms) -> clock_t;
        fn getrusage(who: c_int, usage: *mut rusage) -> c_int;
        fn timespec_get(now: *mut timespec, base: c_int) -> c_int;
    }
}
use next::clock_gettime as real_clock_gettime;

/// A clock with two arguments: `$from` is told the address of its caller too.
macro_rules! with_caller {
    ($($name:ident($a:ty, $b:ty) $from:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(a: $a, b: $b) -> c_int {
                crate::arch::caller_third!($from)
            }
        )*
    };
}

with_caller! {
    clock_gettime(clockid_t, *mut timespec) clock_gettime_from;
    gettimeofday(*mut timeval, *mut timezone) gettimeofday_from;
}

unsafe extern "C" fn clock_gettime_from(clock: clockid_t, now: *mut timespec, caller: usize) -> c_int {
    match elapsed_in(view(), caller) {
        // SAFETY: the caller passes a valid record, as the manual page asks.
        Some(elapsed) if !now.is_null() => unsafe {
            now.write(on_clock(clock, elapsed));
            0
        },
        // SAFETY: forwarded as it came.
        _ => unsafe { next::clock_gettime(clock, now) },
    }
}

unsafe extern "C" fn gettimeofday_from(now: *mut timeval, zone: *mut timezone, caller: usize) -> c_int {
    match elapsed_in(view(), caller) {
        // SAFETY: as above; both may be null.
        Some(elapsed) => unsafe {
            if !now.is_null() {
                let time = on_clock(libc::CLOCK_REALTIME, elapsed);
                now.write(timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1_000 });
            }
            if !zone.is_null() {
                // The kernel's time zone, zero on any system in use: gettimeofday(2).
                ptr::write_bytes(zone.cast::<u8>(), 0, 8);
            }
            0
        },
        // SAFETY: forwarded as it came.
        None => unsafe { next::gettimeofday(now, zone) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn time(now: *mut time_t) -> time_t {
    match elapsed() {
        Some(elapsed) => {
            let time = on_clock(libc::CLOCK_REALTIME, elapsed).tv_sec;
            if !now.is_null() {
                // SAFETY: the caller passes null or a valid pointer.
                unsafe { now.write(time) };
            }
            time
        }
        // SAFETY: forwarded as it came.
        None => unsafe { next::time(now) },
    }
}

/// `CLOCKS_PER_SEC` is one million on every POSIX system: clock(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn clock() -> clock_t {
    match elapsed() {
        Some(elapsed) => (elapsed / (PS_PER_S / 1_000_000)) as clock_t,
        // SAFETY: no arguments.
        None => unsafe { next::clock() },
    }
}

/// `_SC_CLK_TCK` is 100 on Linux (USER_HZ): time(7).
#[unsafe(no_mangle)]
unsafe extern "C" fn times(used: *mut tms) -> clock_t {
    match elapsed() {
        Some(elapsed) => {
            let ticks = (elapsed / (PS_PER_S / 100)) as clock_t;
            if !used.is_null() {
                // SAFETY: the caller passes null or a valid record.
                unsafe { used.write(tms { tms_utime: ticks, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 }) };
            }
            ticks + (BOOT_S * 100) as clock_t
        }
        // SAFETY: forwarded as it came.
        None => unsafe { next::times(used) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrusage(who: c_int, usage: *mut rusage) -> c_int {
    // SAFETY: forwarded as it came.
    let code = unsafe { next::getrusage(who, usage) };
    if code == 0
        && (who == libc::RUSAGE_SELF || who == libc::RUSAGE_THREAD)
        && let Some(elapsed) = elapsed()
    {
        let time = on_clock(libc::CLOCK_PROCESS_CPUTIME_ID, elapsed);
        // SAFETY: the real function has just filled the record.
        unsafe {
            (*usage).ru_utime = timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1_000 };
            (*usage).ru_stime = timeval { tv_sec: 0, tv_usec: 0 };
        }
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(now: *mut timespec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1; // time.h, C11
    match elapsed() {
        Some(elapsed) if base == TIME_UTC => {
            // SAFETY: the caller passes a valid record.
            unsafe { now.write(on_clock(libc::CLOCK_REALTIME, elapsed)) };
            base
        }
        // SAFETY: forwarded as it came.
        _ => unsafe { next::timespec_get(now, base) },
    }
}

/// MPI_Wtime: always the program's time, also from a callback inside an MPI call. `None` outside a run.
pub fn mpi_wtime(caller: usize) -> Option<f64> {
    elapsed_in(program_view(), caller).map(|elapsed| elapsed as f64 / PS_PER_S as f64)
}
