//! What libportals.so answers. Every call goes through a wrapper that raises the thread's guard, so that clock reads of
//! libportals.so itself are real.

use crate::{progress, state};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

unsafe extern "C" {
    fn narrows_mpi_enter(id: c_uint, peer: c_long, tag: c_long, place: u64, site: u64) -> c_int;
    fn narrows_mpi_door() -> c_int;
    fn narrows_mpi_leave(id: c_uint, failed: c_int) -> c_int;
    fn narrows_clock(yields: c_int, place: u64) -> u64;
    fn narrows_calibrate(begin: c_int);
    fn narrows_thread_makes(yes: c_int) -> u64;
    fn narrows_thread_exists();
    fn narrows_librarys_thread_begins();
    fn narrows_thread_begins(picoseconds: u64, idle: c_int, number: c_uint);
    fn narrows_thread_made() -> c_uint;
    fn narrows_threads_given();
    fn narrows_inject_limit() -> u64;
    fn narrows_without_locks();
    fn narrows_gives_lock();
    fn narrows_waits_for_lock() -> c_int;
    fn narrows_expects_signal(place: usize) -> c_int;
    fn narrows_waits_for_signal(keeps: c_int);
    fn narrows_signals(place: usize);
    fn narrows_thread_ends() -> u64;
    fn narrows_thread_clock() -> u64;
    fn narrows_thread_meets();
    fn narrows_thread_takes_locks() -> c_int;
    fn narrows_thread_waits();
    fn narrows_thread_waits_for_release();
    fn narrows_thread_releases(place: usize);
    fn narrows_thread_goes_on(picoseconds: u64);
    fn narrows_threads_latest() -> u64;
    #[cfg(target_arch = "x86_64")]
    fn narrows_threads_are_seen();
    fn narrows_one_at_a_time() -> c_int;
    fn narrows_takes_turns() -> c_int;
    fn narrows_thread_blocks(place: usize, until: u64, seen: c_uint) -> c_int;
    fn narrows_thread_wakes_so_far() -> c_uint;
    fn narrows_thread_wakes(place: usize, most: usize) -> usize;
    fn narrows_thread_stands_behind(place: usize);
    fn narrows_doze(picoseconds: u64, place: usize, with_lock: c_int) -> c_int;
    fn narrows_dozed() -> c_int;
    fn narrows_doze_ends(picoseconds: u64);
    fn narrows_active() -> c_int;
    fn narrows_sleep(picoseconds: u64) -> c_int;
    fn narrows_accesses_file(bytes: u64) -> c_int;
    fn narrows_born();
    fn narrows_joins();
    fn narrows_program_ends(status: c_int);
    fn narrows_exits(status: c_int);
    fn narrows_threads_refused();
    fn narrows_closes(first: c_uint, last: c_uint);
    fn narrows_refuses(why: *const u8, length: usize);
    fn narrows_lock_is_taken(place: usize, waits: c_int) -> c_int;
    fn narrows_lock_is_given(place: usize);
    fn narrows_barrier();
    fn narrows_group(processes: usize);
    fn narrows_puts_card(line: *const u8, length: usize);
    fn narrows_gets_card(line: *const u8, length: usize, answer: *mut u8, room: usize) -> usize;
    fn narrows_ends_job(status: c_int);
    fn narrows_host(name: *mut c_char, size: usize) -> c_int;
    fn narrows_cores() -> c_uint;
    fn narrows_longest_nap() -> u64;
    fn narrows_node_color() -> c_uint;
    fn narrows_rank() -> u32;
    fn narrows_shares_memory(shares: c_int);
    fn narrows_look_again() -> c_int;
    fn narrows_fact(words: *const u64, count: usize);
    fn narrows_receives(context: c_uint, bytes: u64);
    fn narrows_set_context(number: c_uint, rules: u64, extent: i64, blocks: *const [i64; 2], count: usize);
    fn narrows_writes(key: u64);
    fn narrows_socket_call(words: *const u64) -> i64;
    fn narrows_host_of(number: c_uint, name: *mut c_char, size: usize, node: *mut c_uint) -> c_int;
    fn narrows_reduce_begins(source: u64, target: u64, bytes: u64, operation: c_uint, datatype: c_uint) -> c_int;
    fn narrows_reduce_goes_on() -> c_int;
    fn narrows_wait_at_files(files: *const File, count: usize, picoseconds: u64) -> c_int;
}

/// A descriptor that is waited at, as libportals.so has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct File {
    /// Its number.
    pub number: c_int,
    /// Events of poll(2).
    pub events: u32,
    /// By which number who writes there knows it; 0: it may be anybody.
    pub key: u64,
}

/// The calling thread is about to write to a socket or pipe.
pub fn writes(key: u64) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_writes(key) });
}

/// Waits until one of them is ready. See `narrows_wait_at_files`.
pub fn wait_at_files(files: &[File], picoseconds: u64) -> c_int {
    // SAFETY: so many records.
    state::guarded(|| unsafe { narrows_wait_at_files(files.as_ptr(), files.len(), picoseconds) })
}

/// Calls a simulated socket: see `narrows_socket_call`.
pub fn socket_call(words: &[u64; narrows_socketcalls::WORDS]) -> i64 {
    // SAFETY: so many words.
    state::guarded(|| unsafe { narrows_socket_call(words.as_ptr()) })
}

/// Host name and node of rank `number`.
pub fn host_of(number: u32) -> Option<(String, u32)> {
    let mut name = [0_u8; HOST_SIZE];
    let mut node = 0;
    // SAFETY: the buffer is as long as said.
    let code = state::guarded(|| unsafe { narrows_host_of(number, name.as_mut_ptr().cast(), name.len(), &mut node) });
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    (code == 0).then(|| (name.to_owned(), node))
}

/// Longest host name with its zero byte: `HOST_NAME_MAX` of Linux is 64 (gethostname(2)).
pub const HOST_SIZE: usize = 65;

/// Marks the beginning of an MPI call. Peer and tag as in `narrows_mpicalls`: a number, `NONE` or `ANY`. `place`: a
/// number for where in the program it stands, and how much it is about; `site`: the address that it returns to, or 0.
pub fn enter(id: u32, peer: i64, tag: i64, place: u64, site: u64) {
    state::thread(|thread| thread.locks.set(0));
    // SAFETY: plain numbers. A mark of a process that takes no part does no harm.
    if state::guarded(|| unsafe { narrows_mpi_enter(id, peer, tag, place, site) }) == 0 {
        return;
    }
    // SAFETY: no arguments.
    while state::guarded(|| unsafe { narrows_mpi_door() }) != 0 {
        progress::run();
    }
}

/// The next receive of so many bytes has this execution context; 0: none has.
pub fn receives(context: u8, bytes: u64) {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_receives(context.into(), bytes) });
}

/// Tells the NIC of an execution context: see `narrows_set_context`.
pub fn set_context(number: u8, rules: u64, extent: i64, blocks: &[[i64; 2]]) {
    // SAFETY: so many pairs.
    state::guarded(|| unsafe { narrows_set_context(number.into(), rules, extent, blocks.as_ptr(), blocks.len()) });
}

/// Tells the simulator something of a call: words of `narrows-facts`.
pub fn fact(words: &[u64]) {
    // SAFETY: so many words.
    state::guarded(|| unsafe { narrows_fact(words.as_ptr(), words.len()) });
}

/// An allreduce among all ranks by the NICs' accelerators, of so many bytes. False: the library must do it.
pub fn reduce(source: u64, target: u64, bytes: u64, operation: u32, datatype: u32) -> bool {
    // SAFETY: plain numbers; what they point to is the program's, for as long as its call takes.
    if state::guarded(|| unsafe { narrows_reduce_begins(source, target, bytes, operation, datatype) }) == 0 {
        return false;
    }
    // SAFETY: no arguments.
    while state::guarded(|| unsafe { narrows_reduce_goes_on() }) != 0 {
        progress::run();
    }
    true
}

/// A program that uses Portals, and has not opened it yet, enters simulated time.
pub fn joins() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_joins() });
}

/// Whether something in this process is linked to libportals.so, beside this library.
pub fn is_used() -> bool {
    /// Of the dynamic section (elf.h).
    const DT_NEEDED: u64 = 1;
    const DT_STRTAB: u64 = 5;
    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: usize, own: *mut c_void) -> c_int {
        // SAFETY: the loader gives a record of an object that is there, with as many headers as it says, whose dynamic
        // section ends with a zero; it has put the address of the strings there.
        unsafe {
            let object = &*object;
            let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
            let at = |offset: u64| object.dlpi_addr.wrapping_add(offset) as usize;
            let inside = |header: &libc::Elf64_Phdr| {
                header.p_type == libc::PT_LOAD && (at(header.p_vaddr)..at(header.p_vaddr + header.p_memsz)).contains(&(own as usize))
            };
            let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
            let Some(dynamic) = dynamic.filter(|_| !headers.iter().any(inside)) else { return 0 };
            let section = at(dynamic.p_vaddr) as *const [u64; 2];
            let entries = || (0..).map(|index| *section.add(index)).take_while(|&[tag, _]| tag != 0);
            let Some([_, strings]) = entries().find(|&[tag, _]| tag == DT_STRTAB) else { return 0 };
            // That of the kernel's own object is not in place, and it needs nothing.
            entries()
                .filter(|&[tag, _]| tag == DT_NEEDED)
                .any(|[_, offset]| CStr::from_ptr((strings + offset) as *const c_char).to_bytes().starts_with(b"libportals.so"))
                .into()
        }
    }
    // SAFETY: `look` keeps the contract; the address is compared only.
    unsafe { libc::dl_iterate_phdr(Some(look), is_used as fn() -> bool as *mut c_void) != 0 }
}

/// Marks the end of an MPI call, which may have `failed`.
pub fn leave(id: u32, failed: bool) {
    // SAFETY: plain numbers.
    while state::guarded(|| unsafe { narrows_mpi_leave(id, failed.into()) }) != 0 {
        progress::run();
    }
}

/// The thread's clock in ps since MPI_Init returned, read from a place in the program (0: not known). Reading costs a
/// little virtual time.
pub fn clock(place: u64) -> u64 {
    static CALIBRATED: Once = Once::new();
    CALIBRATED.call_once(|| {
        // SAFETY: a plain number. Marks of libportals.so that have nothing but the way from here to there and back
        // between them.
        state::guarded(|| unsafe { narrows_calibrate(1) });
        for _ in 0..CALIBRATION {
            look(false, 0);
        }
        // SAFETY: a plain number.
        state::guarded(|| unsafe { narrows_calibrate(0) });
    });
    look(false, place)
}

/// Looks to find out what one costs: our own choice; the least counts.
const CALIBRATION: u32 = 200;

/// As [`clock`], by a thread that lets others run and may be waiting for them.
pub fn yields() {
    look(true, 0);
}

fn look(yields: bool, place: u64) -> u64 {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_clock(c_int::from(yields), place) })
}

/// The calling thread makes another one: the clock of both. False: it could not be made.
pub fn thread_makes(yes: bool) -> u64 {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_thread_makes(c_int::from(yes)) })
}

/// It could, and the other one exists.
pub fn thread_exists() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_exists() });
}

/// A thread of the program begins. See `narrows_thread_begins`.
pub fn thread_begins(picoseconds: u64, idle: bool, number: u32) {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_thread_begins(picoseconds, c_int::from(idle), number) });
}

/// A thread begins that the MPI library has started for itself.
pub fn librarys_thread_begins() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_librarys_thread_begins() });
}

/// The number of the thread that the calling one has made last.
pub fn thread_made() -> u32 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_made() })
}

/// Several threads of the program may call MPI at the same time.
static MULTIPLE: AtomicBool = AtomicBool::new(false);

/// The program was given MPI_THREAD_MULTIPLE.
pub fn threads_given() {
    MULTIPLE.store(true, Relaxed);
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_threads_given() });
}

/// Longest message that is copied when it is sent, bytes.
pub fn inject_limit() -> u64 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_inject_limit() })
}

/// Whether it was.
pub fn multiple() -> bool {
    MULTIPLE.load(Relaxed)
}

/// The MPI library has given back the last lock of its own that the calling thread had.
pub fn without_locks() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_without_locks() });
}

/// A lock of the MPI library is taken. True: try again; false: wait for it.
pub fn waits_for_lock() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_waits_for_lock() }) != 0
}

/// It has given back one of its locks.
pub fn gives_lock() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_gives_lock() });
}

/// The MPI library is going to wait for a signal, whose lock it still has. True: by [`waits_for_signal`], when it has
/// given the lock back; false: it must wait really.
pub fn expects_signal(place: usize) -> bool {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_expects_signal(place) }) != 0
}

/// It waits, and `keeps` others of its locks. Returns when it should look whether the signal has come.
pub fn waits_for_signal(keeps: bool) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_waits_for_signal(c_int::from(keeps)) });
}

/// A thread signals something.
pub fn signals(place: usize) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_signals(place) });
}

/// It ends: its clock.
pub fn thread_ends() -> u64 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_ends() })
}

/// The calling thread's clock, for one that will wait for it.
pub fn thread_clock() -> u64 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_clock() })
}

/// The calling thread is going to let others go on.
pub fn thread_meets() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_meets() });
}

/// The calling thread has given back many locks, or found them taken, since it said so last. Whether it waits for
/// another thread by that.
pub fn thread_takes_locks() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_takes_locks() }) != 0
}

/// The calling thread is going to wait for another one.
pub fn thread_waits() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_waits() });
}

/// The same, until one of its places is released.
pub fn thread_waits_for_release() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_thread_waits_for_release() });
}

/// The calling thread is going to release a place where others may wait.
pub fn thread_releases(place: usize) {
    // SAFETY: a plain number; it only counts.
    unsafe { narrows_thread_releases(place) };
}

/// It goes on, after another one whose clock was that, 0: nobody's.
pub fn thread_goes_on(picoseconds: u64) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_thread_goes_on(picoseconds) });
}

/// Waits in the kernel that libraries make by themselves are seen, too: see `dispatch.rs`.
#[cfg(target_arch = "x86_64")]
pub fn threads_are_seen() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_threads_are_seen() });
}

/// Whether one thread of this rank runs at a time if it has several.
pub fn one_at_a_time() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_one_at_a_time() }) != 0
}

/// Whether one does now, and the calling one is of them. It has the baton then.
pub fn takes_turns() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_takes_turns() }) != 0
}

/// The calling thread waits at `place` until it is woken, or its clock is `until`, ps: whether time has ended that. Not
/// if somebody was woken since there were `seen` wakes.
pub fn thread_blocks(place: usize, until: u64, seen: u32) -> bool {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_thread_blocks(place, until, seen) }) != 0
}

/// How often [`thread_wakes`] was called so far.
pub fn thread_wakes_so_far() -> u32 {
    // SAFETY: no arguments; it only reads.
    unsafe { narrows_thread_wakes_so_far() }
}

/// So many of those that wait at `place` go on: how many did.
pub fn thread_wakes(place: usize, most: usize) -> usize {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_thread_wakes(place, most) })
}

/// One that was woken at `place` runs before the calling thread does something there.
pub fn thread_stands_behind(place: usize) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_thread_stands_behind(place) });
}

/// The latest clock of all idle threads, with what they have computed although they are idle.
pub fn threads_latest() -> u64 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_threads_latest() })
}

/// The calling thread is going to wait for another one at the first of these places, so long at most; the second one is
/// a lock, which it has whenever it asks [`dozed`]. False: the simulation does not say when that is over.
pub fn doze(picoseconds: u64, places: &[usize]) -> bool {
    let place = places.first().copied().unwrap_or(0);
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_doze(picoseconds, place, (places.len() > 1).into()) }) != 0
}

/// Whether that time is over.
pub fn dozed() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_dozed() }) != 0
}

/// It no longer waits, after another one whose clock was that, 0: nobody's.
pub fn doze_ends(picoseconds: u64) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_doze_ends(picoseconds) });
}

/// Whether the rank runs in virtual time: MPI_Init has returned.
pub fn active() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_active() }) != 0
}

/// Sleeps in simulated time. False when the thread has no clock.
pub fn sleep(picoseconds: u64) -> bool {
    // SAFETY: plain number.
    state::guarded(|| unsafe { narrows_sleep(picoseconds) }) != 0
}

/// The MPI library is going to read or write so many bytes of a file, or to flush it. Returns when that is through;
/// false where no simulated time has passed.
pub fn accesses_file(bytes: u64) -> bool {
    // SAFETY: plain number.
    state::guarded(|| unsafe { narrows_accesses_file(bytes) }) != 0
}

/// This process begins. Returns when the simulator knows of it.
pub fn born() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_born() });
}

/// The program ends with this status. One without MPI waits for the other ranks.
pub fn program_ends(status: c_int) {
    // SAFETY: plain number.
    state::guarded(|| unsafe { narrows_program_ends(status) });
}

/// The program is about to close the descriptors from `first` to `last`.
pub fn closes(first: c_uint, last: c_uint) {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_closes(first, last) });
}

/// Ends the process with a line that says why: it does what cannot be in a run.
pub fn refuses(why: &str) -> ! {
    // SAFETY: so many bytes.
    state::guarded(|| unsafe { narrows_refuses(why.as_ptr(), why.len()) });
    // SAFETY: it does not return.
    unsafe { libc::_exit(1) }
}

/// The program asked for MPI_THREAD_MULTIPLE and was given less.
pub fn threads_refused() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_threads_refused() });
}

/// The calling thread has taken the lock of the program at `place`, or `waits` for it. False: it is of no interest who
/// takes the next one.
pub fn lock_is_taken(place: usize, waits: bool) -> bool {
    // SAFETY: plain numbers.
    state::guarded(|| unsafe { narrows_lock_is_taken(place, c_int::from(waits)) }) != 0
}

/// It gives it back.
pub fn lock_is_given(place: usize) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_lock_is_given(place) });
}

/// The process ends by itself with this status, now.
pub fn exits(status: c_int) {
    // SAFETY: plain number.
    state::guarded(|| unsafe { narrows_exits(status) });
}

/// A barrier of all ranks over their launcher begins.
pub fn barrier() {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_barrier() });
}

/// A command to the launcher puts something for other ranks.
pub fn puts_card(line: &[u8]) {
    // SAFETY: so many bytes.
    state::guarded(|| unsafe { narrows_puts_card(line.as_ptr(), line.len()) });
}

/// What the launcher would answer to a command, if that is known without it.
pub fn gets_card(line: &[u8]) -> Option<Vec<u8>> {
    let mut answer = vec![0; ANSWER_SIZE];
    // SAFETY: so many bytes on both sides.
    let length = state::guarded(|| unsafe { narrows_gets_card(line.as_ptr(), line.len(), answer.as_mut_ptr(), answer.len()) });
    answer.truncate(length);
    (length > 0).then_some(answer)
}

/// The longest line of PMI-1 (`PMIU_MAXLINE` of MPICH, src/pmi/src/pmi_util.h).
const ANSWER_SIZE: usize = 1024;

/// The MPI library makes a group of so many ranks over their launcher.
pub fn group(processes: usize) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_group(processes) });
}

/// The rank has its launcher end the job with this status.
pub fn ends_job(status: c_int) {
    // SAFETY: plain number.
    state::guarded(|| unsafe { narrows_ends_job(status) });
}

/// Name of the simulated host with its length, or `None` while there is none.
pub fn host() -> Option<([u8; HOST_SIZE], usize)> {
    let mut name = [0u8; HOST_SIZE];
    // SAFETY: the buffer is as long as said.
    let code = state::guarded(|| unsafe { narrows_host(name.as_mut_ptr().cast(), name.len()) });
    name[HOST_SIZE - 1] = 0;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    (code >= 0 && length > 0).then_some((name, length))
}

/// Cores of the simulated node, or `None` while that is not known.
pub fn cores() -> Option<usize> {
    // SAFETY: no arguments.
    let cores = state::guarded(|| unsafe { narrows_cores() });
    (cores > 0).then_some(cores as usize)
}

/// The longest sleep between two looks of a rank that waits outside the simulated network, in ns.
pub fn longest_nap() -> u64 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_longest_nap() })
}

/// Rank in MPI_COMM_WORLD.
pub fn rank() -> u32 {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_rank() })
}

/// The same for ranks that can share memory: those on one processor of a node.
pub fn node() -> c_int {
    // SAFETY: no arguments. Nodes and processors have 28 bits, and MPI colours are non-negative ints.
    (state::guarded(|| unsafe { narrows_node_color() }) & 0x7fff_ffff) as c_int
}

/// Whether other ranks of the node look into memory of this one.
pub fn shares_memory(shares: bool) {
    // SAFETY: a plain number.
    state::guarded(|| unsafe { narrows_shares_memory(c_int::from(shares)) });
}

/// Whether the MPI library must look for a message once more, before the program is told that there is none. Asking
/// forgets it.
pub fn look_again() -> bool {
    // SAFETY: no arguments.
    state::guarded(|| unsafe { narrows_look_again() }) != 0
}
