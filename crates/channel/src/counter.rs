//! Counters of the processor and of the kernel: perf_event_open(2), for `--compute instructions`.
//!
//! Written against the system call itself: what is loaded into other people's processes needs one event and one file,
//! no crate for more. The first version of the kernel's structure (64 bytes), which every kernel knows, has all of
//! that.

use std::os::fd::RawFd;

/// What is counted, in user mode, of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// Instructions that have retired.
    Instructions = 1,
    /// Nanoseconds on a core, by the kernel: for tests on hosts without counters.
    TaskClock = 2,
    /// Page faults: idem.
    PageFaults = 3,
}

impl Event {
    /// The one of that number, as [`crate::Settings::counter`] has it.
    pub fn of(number: u32) -> Option<Event> {
        [Event::Instructions, Event::TaskClock, Event::PageFaults].into_iter().find(|&event| event as u32 == number)
    }

    /// `type` and `config` of perf_event_open(2): `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE` and their events.
    fn of_kernel(self) -> (u32, u64) {
        match self {
            Event::Instructions => (0, 1),
            Event::TaskClock => (1, 1),
            Event::PageFaults => (1, 2),
        }
    }
}

/// Where no rate was given, computing takes its CPU time until the ranks have computed so much together, ns; the rate
/// is that of this time. Our own choice: long beside what a core finds cold, short beside a run.
pub const LEARNT_NS: u64 = 20_000_000;

/// Why there is no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host has none.
    None,
    /// The kernel does not permit it: `kernel.perf_event_paranoid`, or a filter of system calls.
    Forbidden,
    /// Another reason (an errno value).
    Other(i32),
}

/// The first version of `struct perf_event_attr`.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint: u64,
}

/// `exclude_kernel`, `exclude_hv`: what users may count of themselves.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const WITH_TIMES: u64 = 1 | 2;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// The file's number is at least one of these, if there may be so many: programs count on low ones being free.
const HIGH: [libc::c_int; 3] = [800, 150, 80];

/// Counts that event of the calling thread from now on: a file, for [`read`], to be closed by whoever gets it.
///
/// # Errors
/// There is no such counter.
pub fn open(event: Event) -> Result<RawFd, Refusal> {
    let (kind, config) = event.of_kernel();
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        sample_period: 0,
        sample_type: 0,
        read_format: WITH_TIMES,
        flags: USER_ONLY,
        wakeup_events: 0,
        breakpoint_type: 0,
        breakpoint: 0,
    };
    // SAFETY: `attributes` is as long as it says; errno of the program stays as it is.
    unsafe {
        let errno = *libc::__errno_location();
        let file = libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, CLOSE_ON_EXEC) as RawFd;
        let why = *libc::__errno_location();
        let high = (file >= 0)
            .then(|| HIGH.iter().map(|&least| libc::fcntl(file, libc::F_DUPFD_CLOEXEC, least)).find(|&high| high >= 0))
            .flatten();
        if high.is_some() {
            libc::close(file);
        }
        *libc::__errno_location() = errno;
        match why {
            _ if file >= 0 => Ok(high.unwrap_or(file)),
            libc::EACCES | libc::EPERM => Err(Refusal::Forbidden),
            libc::ENOENT | libc::ENODEV | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENXIO => Err(Refusal::None),
            other => Err(Refusal::Other(other)),
        }
    }
}

/// What such a file has counted. `None`: it is none, or no longer.
pub fn read(file: RawFd) -> Option<u64> {
    if file < 0 {
        return None;
    }
    let mut words = [0_u64; 3];
    let bytes = size_of_val(&words);
    // SAFETY: `words` is writable and so long; errno of the program stays as it is.
    let got = unsafe {
        let errno = *libc::__errno_location();
        let got = libc::syscall(libc::SYS_read, file, words.as_mut_ptr(), bytes);
        *libc::__errno_location() = errno;
        got
    };
    (got == bytes as i64).then(|| whole(words))
}

/// Where more events are wanted than the processor has counters, each counts a part of the time.
fn whole([counted, enabled, running]: [u64; 3]) -> u64 {
    if running == 0 || running >= enabled { counted } else { (u128::from(counted) * u128::from(enabled) / u128::from(running)) as u64 }
}

/// Closes such a file.
pub fn close(file: RawFd) {
    if file >= 0 {
        // SAFETY: ours; errno of the program stays as it is.
        unsafe {
            let errno = *libc::__errno_location();
            libc::close(file);
            *libc::__errno_location() = errno;
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::hint::black_box;

    fn cpu_ns() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[test]
    fn a_part_of_the_time_stands_for_all_of_it() {
        assert_eq!(whole([1000, 50, 50]), 1000);
        assert_eq!(whole([1000, 50, 20]), 2500);
        assert_eq!(whole([0, 50, 0]), 0, "it had no turn yet");
        assert_eq!(whole([u64::MAX / 4, 4, 2]), u64::MAX / 4 * 2);
    }

    #[test]
    fn the_clock_of_a_thread_is_its_cpu_time() {
        let file = open(Event::TaskClock).expect("every Linux has it");
        let (begun, count) = (cpu_ns(), read(file).expect("an open counter"));
        let mut x = 1.0_f64;
        while cpu_ns() < begun + 20_000_000 {
            x = black_box(x * 1.000_000_1);
        }
        let (counted, cpu) = (read(file).expect("idem") - count, cpu_ns() - begun);
        close(file);
        assert!(counted.abs_diff(cpu) < 1_000_000, "{counted} ns of {cpu}");
        assert_eq!(read(file), None, "closed");
        assert_eq!(read(-1), None);
    }

    #[test]
    fn page_faults_are_those_of_the_thread_that_asks() {
        const PAGES: usize = 300;
        let touch = || {
            // SAFETY: fresh memory of our own, as long as it is used.
            unsafe {
                let (length, access) = (PAGES * 4096, libc::PROT_READ | libc::PROT_WRITE);
                let base = libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
                assert_ne!(base, libc::MAP_FAILED);
                libc::madvise(base, length, libc::MADV_NOHUGEPAGE);
                (0..PAGES).for_each(|page| base.cast::<u8>().add(page * 4096).write_volatile(1));
                libc::munmap(base, length);
            }
        };
        let file = open(Event::PageFaults).expect("every Linux has it");
        let before = read(file).expect("an open counter");
        std::thread::scope(|scope| scope.spawn(touch).join().expect("no panic"));
        let others = read(file).expect("idem") - before;
        touch();
        let own = read(file).expect("idem") - before - others;
        close(file);
        assert!(others < 100 && (300..400).contains(&own), "{others} while another thread touched 300 pages, {own} of its own");
    }

    #[test]
    fn its_file_is_out_of_the_way_and_ends_with_the_program() {
        let file = open(Event::TaskClock).expect("every Linux has it");
        // SAFETY: a question about a number.
        let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
        close(file);
        assert!(file >= 80 && flags & libc::FD_CLOEXEC != 0, "file {file}, flags {flags}");
    }

    #[test]
    fn a_host_has_instructions_or_says_why_not() {
        match open(Event::Instructions) {
            Ok(file) => {
                let before = read(file).expect("an open counter");
                let mut x = 1.0_f64;
                (0..1_000_000).for_each(|_| x = black_box(x * 1.000_000_1));
                let counted = read(file).expect("idem") - before;
                close(file);
                assert!((2_000_000..50_000_000).contains(&counted), "{counted} instructions in a loop of 1,000,000");
            }
            Err(why) => assert!(matches!(why, Refusal::None | Refusal::Forbidden), "{why:?}"),
        }
    }
}
