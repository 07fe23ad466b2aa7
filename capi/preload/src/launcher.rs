//! What a program without MPI, or an MPI library in the middle of a run, has to do with its launcher over the socket of
//! PMI-1 and PMI-2, whose number the launcher gives in `PMI_FD`, or by PMIx: barriers, before each of which all ranks
//! meet in simulated time (see `narrows_barrier`), questions that need no launcher, and the end of the job.

#![allow(non_snake_case)] // names of C

use crate::symbols::real;
use crate::{portals, state};
use libc::{c_char, c_int, c_void, size_t, ssize_t, timeval};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Mutex, OnceLock, PoisonError};

#[allow(non_snake_case)]
mod next {
    use super::*;
    real! {
        fn PMIx_Init(process: *mut c_void, info: *const c_void, infos: size_t) -> c_int;
        fn PMIx_Fence(processes: *const c_void, count: size_t, info: *const c_void, infos: size_t) -> c_int;
        fn PMIx_Finalize(info: *const c_void, infos: size_t) -> c_int;
        fn event_add(event: *mut c_void, timeout: *const timeval) -> c_int;
        fn PMIx_Group_construct(
            name: *const c_char, processes: *const c_void, count: size_t, info: *const c_void, infos: size_t, results: *mut c_void, number: *mut size_t,
        ) -> c_int;
        fn PMIx_Put(scope: u8, key: *const c_char, value: *mut c_void) -> c_int;
        fn PMIx_Commit() -> c_int;
        fn PMIx_Store_internal(of: *const c_void, key: *const c_char, value: *mut c_void) -> c_int;
        fn PMIx_Publish(info: *const c_void, infos: size_t) -> c_int;
        fn PMIx_Lookup(data: *mut c_void, count: size_t, info: *const c_void, infos: size_t) -> c_int;
        fn PMIx_Unpublish(keys: *mut *mut c_char, info: *const c_void, infos: size_t) -> c_int;
        fn PMIx_Abort(status: c_int, message: *const c_char, processes: *mut c_void, count: size_t) -> c_int;
    }
}

/// The socket of the launcher; not a number of a file unless there is a launcher with one.
pub fn socket() -> c_int {
    static SOCKET: OnceLock<c_int> = OnceLock::new();
    *SOCKET.get_or_init(|| std::env::var("PMI_FD").ok().and_then(|text| text.parse().ok()).unwrap_or(-1))
}

/// Answers of the launcher that have not been read yet, to questions that it has not been asked.
static ANSWERS: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());

/// What is written, if it is for the launcher.
///
/// # Safety
/// `bytes` is null or points to `count` bytes.
unsafe fn command<'a>(file: c_int, bytes: *const c_void, count: size_t) -> Option<&'a [u8]> {
    // SAFETY: as above.
    (socket() == file && !bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count) })
}

/// The program writes a question to its launcher whose answer is known: the next [`read`] has it.
///
/// # Safety
/// `bytes` is null or points to `count` bytes.
pub unsafe fn is_answered(file: c_int, bytes: *const c_void, count: size_t) -> bool {
    // SAFETY: as above.
    let Some(answer) = unsafe { command(file, bytes, count) }.and_then(portals::gets_card) else { return false };
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).extend(answer);
    true
}

/// Reads what is left of the answers.
///
/// # Safety
/// `bytes` points to `count` writable bytes.
pub unsafe fn read(file: c_int, bytes: *mut c_void, count: size_t) -> Option<ssize_t> {
    if socket() != file || bytes.is_null() {
        return None;
    }
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as above.
    let read = answers.read(unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), count) }).ok()?;
    (read > 0).then_some(read as ssize_t)
}

/// Heeds what the program is about to write, if that is for the launcher.
pub fn heed(file: c_int, bytes: *const c_void, count: size_t) {
    // SAFETY: the caller gives so many bytes to write.
    let Some(text) = (unsafe { command(file, bytes, count) }) else { return };
    portals::puts_card(text);
    // The commands of PMI-1 and PMI-2 (MPICH, doc/wiki PMI wire protocols).
    let find = |word: &[u8]| text.windows(word.len()).position(|window| window == word);
    if find(b"cmd=barrier_in").is_some() || find(b"cmd=kvs-fence").is_some() {
        portals::barrier();
    } else if find(b"cmd=abort").is_some() {
        const CODE: &[u8] = b"exitcode=";
        let code = find(CODE).map_or(&[][..], |at| &text[at + CODE.len()..]);
        let digits = code.iter().take_while(|byte| byte.is_ascii_digit());
        // The launcher has no code of its own for PMI-2, which sends none.
        let code =
            digits.fold(None, |sum: Option<c_int>, byte| Some(sum.unwrap_or(0).saturating_mul(10).saturating_add((byte - b'0').into())));
        portals::ends_job(code.unwrap_or(1));
    }
}

/// The threads that PMIx starts, and its own waiting, live in real time: how often they read the clock is the host's
/// affair.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Init(process: *mut c_void, info: *const c_void, infos: size_t) -> c_int {
    // SAFETY: forwarded as it came.
    state::guarded(|| unsafe { next::PMIx_Init(process, info, infos) })
}

/// Functions of PMIx that wait for one of its threads, and know nothing of other ranks.
macro_rules! in_real_time {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: forwarded as it came.
                state::guarded(|| unsafe { next::$name($($argument),*) })
            }
        )*
    };
}

in_real_time! {
    PMIx_Put(scope: u8, key: *const c_char, value: *mut c_void);
    PMIx_Commit();
    PMIx_Store_internal(of: *const c_void, key: *const c_char, value: *mut c_void);
    PMIx_Publish(info: *const c_void, infos: size_t);
    PMIx_Lookup(data: *mut c_void, count: size_t, info: *const c_void, infos: size_t);
    PMIx_Unpublish(keys: *mut *mut c_char, info: *const c_void, infos: size_t);
}

/// `pmix_proc_t`: a job and a process of it.
#[repr(C)]
struct PmixProcess {
    job: [u8; 256],
    rank: u32,
}

/// `PMIX_RANK_WILDCARD`: all of the job.
const PMIX_RANK_WILDCARD: u32 = u32::MAX - 1;

/// Whether a fence is one of all ranks: a fence of some processes only is between these alone.
///
/// # Safety
/// `processes` is null or points to `count` of them.
unsafe fn are_all(processes: *const c_void, count: size_t) -> bool {
    // SAFETY: as above.
    processes.is_null() || (count == 1 && unsafe { (*processes.cast::<PmixProcess>()).rank } == PMIX_RANK_WILDCARD)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Fence(processes: *const c_void, count: size_t, info: *const c_void, infos: size_t) -> c_int {
    // SAFETY: `count` processes, as PMIx has it.
    if unsafe { are_all(processes, count) } {
        portals::barrier();
    }
    // As in PMIx_Init.
    // SAFETY: forwarded as it came.
    state::guarded(|| unsafe { next::PMIx_Fence(processes, count, info, infos) })
}

/// Open MPI 5 makes communicators of sessions so (MPI_Comm_create_from_group). Who waits here waits outside, so all
/// meet first.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Group_construct(
    name: *const c_char,
    processes: *const c_void,
    count: size_t,
    info: *const c_void,
    infos: size_t,
    results: *mut c_void,
    number: *mut size_t,
) -> c_int {
    portals::group(count);
    // SAFETY: forwarded as it came.
    state::guarded(|| unsafe { next::PMIx_Group_construct(name, processes, count, info, infos, results, number) })
}

thread_local! {
    /// The thread is in PMIx_Finalize.
    static TAKES_LEAVE: Cell<bool> = const { Cell::new(false) };
}

/// As [`PMIx_Init`]: the answer of the launcher is waited for with a time limit, see [`event_add`].
#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Finalize(info: *const c_void, infos: size_t) -> c_int {
    TAKES_LEAVE.set(true);
    // SAFETY: forwarded as it came.
    let code = state::guarded(|| unsafe { next::PMIx_Finalize(info, infos) });
    TAKES_LEAVE.set(false);
    code
}

/// Of libevent, which OpenPMIx uses. Its PMIx_Finalize gives the launcher two seconds to answer (`fin_timeout` of
/// 4.2.2, src/client/pmix_client.c) and ends without an answer then, which the launcher takes for a rank that has not
/// called MPI_Finalize: among hundreds of ranks on few cores it needs longer. A launcher that is gone is noticed
/// without a time limit.
#[unsafe(no_mangle)]
unsafe extern "C" fn event_add(event: *mut c_void, timeout: *const timeval) -> c_int {
    if !timeout.is_null() && TAKES_LEAVE.get() {
        return 0;
    }
    // SAFETY: forwarded as it came.
    unsafe { next::event_add(event, timeout) }
}

/// The end of the whole job, or of some processes, with `status`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Abort(status: c_int, message: *const c_char, processes: *mut c_void, count: size_t) -> c_int {
    portals::ends_job(status);
    // SAFETY: forwarded as it came.
    state::guarded(|| unsafe { next::PMIx_Abort(status, message, processes, count) })
}
