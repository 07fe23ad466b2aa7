//! C entry points for the preload library: marks of MPI calls, the simulated clock and host.
//! None of them fails, unwinds or prints.

use narrows_guest::hooks::AtFiles;
use narrows_guest::{File, callers, cards, chance, hooks, life};
use std::ffi::{c_char, c_int, c_long, c_uint};
use std::panic::catch_unwind;

/// The program enters MPI call `id`; peer and tag as `narrows_mpicalls` says, `place` and `site` as
/// `narrows_guest::hooks` does. 1 for MPI_Finalize: [`narrows_mpi_door`] is next.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_mpi_enter(id: c_uint, peer: c_long, tag: c_long, place: u64, site: u64) -> c_int {
    let finalizes = catch_unwind(|| {
        hooks::mpi_enter(id, peer, tag, place, site);
        hooks::finalizes(id)
    });
    finalizes.unwrap_or(false).into()
}

/// Waits in front of MPI_Finalize for the other ranks. 1 when the MPI library should look at what has come, and then
/// ask again.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_mpi_door() -> c_int {
    catch_unwind(hooks::at_door).unwrap_or(false).into()
}

/// The program calls MPI_Allreduce on all ranks; operation and datatype are those of Portals. 0: the library must do
/// it. 1: [`narrows_reduce_goes_on`] is next.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_reduce_begins(source: u64, target: u64, bytes: u64, operation: c_uint, datatype: c_uint) -> c_int {
    catch_unwind(|| hooks::reduce_begins(source, target, bytes, operation, datatype)).unwrap_or(false).into()
}

/// Waits for the result. 1 when the MPI library should look at what has come, and then ask again.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_reduce_goes_on() -> c_int {
    catch_unwind(hooks::reduce_goes_on).unwrap_or(false).into()
}

/// What a check wants to know of a call of the program: so many words of `narrows-facts`.
///
/// # Safety
/// There are so many words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_fact(words: *const u64, count: usize) {
    // SAFETY: the caller's promise.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    let _ = catch_unwind(|| hooks::fact(words));
}

/// The program calls for a message of so many bytes, whose list entry is to have this execution context; 0: the call
/// is over.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_receives(context: c_uint, bytes: u64) {
    let _ = catch_unwind(|| hooks::receives(context as u8, bytes));
}

/// An execution context for messages that lie in `count` blocks of memory: places and lengths, bytes; none: in one
/// piece, or nobody knows.
///
/// # Safety
/// There are so many pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_set_context(number: c_uint, rules: u64, extent: i64, blocks: *const [i64; 2], count: usize) {
    // SAFETY: the caller's promise.
    let blocks = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(blocks, count) } };
    let _ = catch_unwind(|| {
        let blocks: Vec<(i64, u64)> = blocks.iter().map(|&[place, bytes]| (place, bytes as u64)).collect();
        hooks::set_context(number as u8, rules, (count > 0).then_some((extent, &blocks)));
    });
}

/// It returns from MPI call `id`, with an error if `failed` is not 0. 1 when the MPI library should look at what has
/// come, and then this is to be said again.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_mpi_leave(id: c_uint, failed: c_int) -> c_int {
    catch_unwind(|| hooks::mpi_leave(id, failed != 0)).unwrap_or(false).into()
}

/// 1 if the MPI library was told that there is no message to be found, and must look once more before the program is
/// told so.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_look_again() -> c_int {
    narrows_guest::own_queue::look_again().into()
}

/// 1 while this process runs in simulated time.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_active() -> c_int {
    catch_unwind(hooks::active).unwrap_or(false).into()
}

/// Simulated picoseconds since MPI_Init returned. `yields`: the thread lets others run, and may be waiting for them.
/// `place`: where in the program it looks, 0: not known.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_clock(yields: c_int, place: u64) -> u64 {
    catch_unwind(|| hooks::clock(yields != 0, place)).unwrap_or(0)
}

/// A thread of the program begins; the clock of the one that made it was `ps`. With `idle` not 0 it does nothing yet.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_begins(ps: u64, idle: c_int, number: c_uint) {
    let _ = catch_unwind(|| hooks::thread_begins(ps, idle != 0, number));
}

/// A thread begins that the MPI library has started for itself.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_librarys_thread_begins() {
    narrows_guest::librarys_thread_begins();
}

/// The number of the thread that the calling one has made last, for [`narrows_thread_begins`].
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_made() -> c_uint {
    catch_unwind(hooks::thread_made).unwrap_or(0)
}

/// The program was given MPI_THREAD_MULTIPLE.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_threads_given() {
    let _ = catch_unwind(hooks::threads_given);
}

/// Longest message that is copied when it is sent, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_inject_limit() -> u64 {
    catch_unwind(hooks::inject_limit).unwrap_or(0)
}

/// The MPI library has given back the last of its locks that the calling thread had: it may wait here.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_without_locks() {
    let _ = catch_unwind(callers::without_locks);
}

/// It has given back one of its locks.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_gives_lock() {
    let _ = catch_unwind(callers::gives_lock);
}

/// The MPI library has looked at its queues, and holds nothing of its provider's; `found`: it has got something.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_after_look(found: c_int) {
    let _ = catch_unwind(|| callers::after_look(found != 0));
}

/// A lock of the MPI library is taken. 1: it may be free now, after a wait; 0: it is to be waited for really.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_waits_for_lock() -> c_int {
    catch_unwind(callers::waits_for_lock).unwrap_or(false).into()
}

/// The MPI library is going to wait for a signal of another thread at `place`, whose lock it still has. 1: by
/// [`narrows_waits_for_signal`], when it has given the lock back; 0: it must wait really.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_expects_signal(place: usize) -> c_int {
    catch_unwind(|| callers::expects_signal(place)).unwrap_or(false).into()
}

/// It waits, and `keeps` others of its locks. Returns when it should look whether the signal has come.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_waits_for_signal(keeps: c_int) {
    let _ = catch_unwind(|| callers::waits_for_signal(keeps != 0));
}

/// A thread signals something at `place`.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_signals(place: usize) {
    let _ = catch_unwind(|| callers::signals(place));
}

/// The calling thread makes another one: the clock of both. 0: it could not be made.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_makes(yes: c_int) -> u64 {
    catch_unwind(|| hooks::thread_makes(yes != 0)).unwrap_or(0)
}

/// It could, and the other one exists.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_exists() {
    let _ = catch_unwind(hooks::thread_exists);
}

/// The calling thread ends: its clock.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_ends() -> u64 {
    catch_unwind(hooks::thread_ends).unwrap_or(0)
}

/// The clock of the calling thread, for one that will wait for it; 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_clock() -> u64 {
    catch_unwind(hooks::thread_clock).unwrap_or(0)
}

/// The calling thread is going to let others go on: to be called now and then.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_meets() {
    let _ = catch_unwind(hooks::thread_meets);
}

/// The calling thread has given back many locks, or found them taken, since it said so last. Returns whether it waits
/// for another thread by that.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_takes_locks() -> c_int {
    catch_unwind(|| c_int::from(hooks::thread_takes_locks())).unwrap_or(0)
}

/// The calling thread is going to wait for another one.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_waits() {
    let _ = catch_unwind(hooks::thread_waits);
}

/// The same, and nothing but [`narrows_thread_releases`] of one of its places lets it go on.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_waits_for_release() {
    let _ = catch_unwind(hooks::thread_waits_for_release);
}

/// A thread is going to release `place`, where others may wait.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_releases(place: usize) {
    hooks::thread_releases(place);
}

/// It goes on, after another one whose clock was `ps`; 0: nobody's.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_goes_on(ps: u64) {
    let _ = catch_unwind(|| hooks::thread_goes_on(ps));
}

/// The latest clock of all threads that were idle when they began.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_threads_latest() -> u64 {
    catch_unwind(hooks::threads_latest).unwrap_or(0)
}

/// Waits in the kernel that libraries make by themselves are seen, too.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_threads_are_seen() {
    hooks::threads_are_seen();
}

/// 1: one thread of this rank runs at a time if it has several.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_one_at_a_time() -> c_int {
    catch_unwind(hooks::one_at_a_time).unwrap_or(false).into()
}

/// 1: one does now, and the calling one is of them. It has the baton then.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_takes_turns() -> c_int {
    catch_unwind(hooks::takes_turns).unwrap_or(false).into()
}

/// The calling thread waits at `place` until it is woken, or its clock is `until` ps, for ever if that is `UINT64_MAX`.
/// 1: time has ended that. Not if somebody was woken since there were `seen` wakes.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_blocks(place: usize, until: u64, seen: c_uint) -> c_int {
    catch_unwind(|| hooks::thread_blocks(place, (until != u64::MAX).then_some(until), seen)).unwrap_or(false).into()
}

/// How often [`narrows_thread_wakes`] was called so far.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_wakes_so_far() -> c_uint {
    hooks::thread_wakes_so_far()
}

/// So many of those that wait at `place` go on: how many did.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_wakes(place: usize, most: usize) -> usize {
    catch_unwind(|| hooks::thread_wakes(place, most)).unwrap_or(0)
}

/// One that was woken at `place` runs before the calling thread does something there.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_thread_stands_behind(place: usize) {
    let _ = catch_unwind(|| hooks::thread_stands_behind(place));
}

/// The calling thread is going to wait for another one at `place`, for `ps` at most, and has a lock `with_lock`
/// whenever it asks whether that is over. 0: simulated time does not say when that is over.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_doze(ps: u64, place: usize, with_lock: c_int) -> c_int {
    catch_unwind(|| hooks::doze(ps, place, with_lock != 0)).unwrap_or(false).into()
}

/// 1 when that is over.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_dozed() -> c_int {
    catch_unwind(hooks::dozed).unwrap_or(true).into()
}

/// It no longer waits, after another one whose clock was `ps`; 0: nobody's.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_doze_ends(ps: u64) {
    let _ = catch_unwind(|| hooks::doze_ends(ps));
}

/// Between 1 and 0 the caller does nothing but look at the clock, to measure what that costs.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_calibrate(begin: c_int) {
    let _ = catch_unwind(|| hooks::calibrate(begin != 0));
}

/// The same for a recorder inside an MPI call: reading takes no simulated time.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_instant() -> u64 {
    catch_unwind(hooks::instant).unwrap_or(0)
}

/// The calling thread sleeps for `ps` simulated picoseconds. 0 when it has no clock.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_sleep(ps: u64) -> c_int {
    catch_unwind(|| hooks::sleep(ps)).unwrap_or(false).into()
}

/// The MPI library is going to read or write so many bytes of a file, or to flush it: simulated time passes. 0 where it
/// does not.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_accesses_file(bytes: u64) -> c_int {
    catch_unwind(|| hooks::accesses_file(bytes)).unwrap_or(false).into()
}

/// A barrier of all ranks over their launcher begins.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_barrier() {
    let _ = catch_unwind(hooks::barrier);
}

/// Keeps what a command to the launcher puts for other ranks.
///
/// # Safety
/// `line` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_puts_card(line: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    let line = unsafe { std::slice::from_raw_parts(line, length) };
    let _ = catch_unwind(|| cards::put(line));
}

/// Writes what the launcher would answer to the command `line`; its length. 0: it must be asked itself.
///
/// # Safety
/// `line` points to `length` bytes, `answer` to `room` writable ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_gets_card(line: *const u8, length: usize, answer: *mut u8, room: usize) -> usize {
    // SAFETY: the caller's promise.
    let (line, answer) = unsafe { (std::slice::from_raw_parts(line, length), std::slice::from_raw_parts_mut(answer, room)) };
    let Ok(Some(text)) = catch_unwind(|| cards::answer(line)) else { return 0 };
    let Some(place) = answer.get_mut(..text.len()) else { return 0 };
    place.copy_from_slice(&text);
    text.len()
}

/// The MPI library makes a group of so many ranks over their launcher.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_group(processes: usize) {
    let _ = catch_unwind(|| hooks::group(processes));
}

/// A process begins, which may be a rank: returns when the simulator watches it.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_born() {
    let _ = catch_unwind(life::born);
}

/// A Portals program that has not called PtlInit is going to wait for other ranks: it enters simulated time now.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_joins() {
    let _ = catch_unwind(hooks::joins);
}

/// The rank has its launcher end the job with `status`.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_ends_job(status: c_int) {
    let _ = catch_unwind(|| life::ends_job(status));
}

/// The program ends with `status`: one without MPI waits for the others.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_program_ends(status: c_int) {
    let _ = catch_unwind(|| hooks::program_ends(status));
}

/// The process exits with `status`, now.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_exits(status: c_int) {
    let _ = catch_unwind(|| life::exits(status));
}

/// The calling thread has taken the lock of the program at `place`, or `waits` for it. 0: it is of no interest who
/// takes the next one.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_lock_is_taken(place: usize, waits: c_int) -> c_int {
    catch_unwind(|| c_int::from(chance::lock_is_taken(place, waits != 0))).unwrap_or(0)
}

/// It gives it back.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_lock_is_given(place: usize) {
    let _ = catch_unwind(|| chance::lock_is_given(place));
}

/// The program is about to close the descriptors from `first` to `last`.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_closes(first: c_uint, last: c_uint) {
    let _ = catch_unwind(|| life::closes(first, last));
}

/// Ends the process, which does what cannot be in a run, with a line of so many bytes that says why.
///
/// # Safety
/// There are so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_refuses(why: *const u8, length: usize) {
    // SAFETY: the caller's promise.
    let why = String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(why, length) });
    let _ = catch_unwind(|| hooks::refuse_process(&why));
}

/// The program asked for MPI_THREAD_MULTIPLE and was given less.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_threads_refused() {
    let _ = catch_unwind(life::threads_refused);
}

/// The calling thread is about to write to a socket or pipe; who reads it knows it by `key`.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_writes(key: u64) {
    let _ = catch_unwind(|| hooks::writes(key));
}

/// Waits until one of `count` descriptors is ready, for `ps` at most; 0: looks once; `UINT64_MAX`: for ever. 1: one is
/// ready, 0: the time is over, -1: that is no affair of simulated time.
///
/// # Safety
/// `files` points to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_wait_at_files(files: *const File, count: usize, ps: u64) -> c_int {
    // SAFETY: as above.
    let files = unsafe { std::slice::from_raw_parts(files, count) };
    match catch_unwind(|| hooks::wait_at_files(files, Some(ps).filter(|&ps| ps != u64::MAX))) {
        Ok(AtFiles::Ready) => 1,
        Ok(AtFiles::Over) => 0,
        Ok(AtFiles::Real) | Err(_) => -1,
    }
}

/// Calls a simulated socket, in the words of `narrows-socketcalls`: its answer, or `-ENOSYS` where no simulated time
/// passes.
///
/// # Safety
/// `words` points to eight of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_socket_call(words: *const u64) -> i64 {
    // SAFETY: as above.
    let words = unsafe { &*words.cast() };
    catch_unwind(|| hooks::socket_call(words)).ok().flatten().unwrap_or(-i64::from(libc::ENOSYS))
}

/// Writes the host name of rank `number` and a zero to `name`, and its node to `node`; 0, or -1 if there is none or
/// `size` is too small.
///
/// # Safety
/// `name` points to `size` writable bytes, `node` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_host_of(number: c_uint, name: *mut c_char, size: usize, node: *mut c_uint) -> c_int {
    let Ok(Some((host, at))) = catch_unwind(|| hooks::host_of(number)) else { return -1 };
    if host.len() >= size {
        return -1;
    }
    // SAFETY: there is room, as the caller says.
    unsafe {
        std::ptr::copy_nonoverlapping(host.as_ptr().cast(), name, host.len());
        *name.add(host.len()) = 0;
        *node = at;
    }
    0
}

/// Writes the name of the simulated host and a zero; its length, or -1 when this process belongs
/// to no rank or `size` is too small.
///
/// # Safety
/// `name` points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_host(name: *mut c_char, size: usize) -> c_int {
    let host = catch_unwind(hooks::host).unwrap_or(&[]);
    if host.is_empty() || host.len() >= size || name.is_null() {
        return -1;
    }
    // SAFETY: `host.len() + 1 <= size`, and the caller owns `size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(host.as_ptr().cast(), name, host.len());
        *name.add(host.len()) = 0;
    }
    host.len() as c_int
}

/// Cores of the simulated node; 0 when this process belongs to no rank.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_cores() -> c_uint {
    catch_unwind(hooks::cores).unwrap_or(0)
}

/// The longest sleep between two looks of a rank that waits outside the simulated network, ns; 0 when this process
/// belongs to no rank.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_longest_nap() -> u64 {
    catch_unwind(hooks::longest_nap).map_or(0, |nap| u64::try_from(nap.as_nanos()).unwrap_or(u64::MAX))
}

/// The same for ranks that can share memory: those on one processor of a node.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_node_color() -> c_uint {
    catch_unwind(hooks::memory_color).unwrap_or(0)
}

/// Rank in MPI_COMM_WORLD.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_rank() -> u32 {
    catch_unwind(hooks::rank).unwrap_or(0)
}

/// Whether other ranks of the node look into memory of this one from now on.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_shares_memory(shares: c_int) {
    let _ = catch_unwind(|| hooks::shares_memory(shares != 0));
}
