//! What the preload library calls: marks of MPI calls, the simulated clock, the simulated host.

use crate::attach::{Session, attached, session, try_session};
use crate::chance::decides;
use crate::rank::LONGEST_NAP_PER_RANK;
use crate::shared::{Shared, shared};
use crate::threads::Step;
use crate::{File, attach, callers, chance, life, output, own_queue, threads};
use narrows_channel::RankHeader;
use narrows_channel::layout::{EPOCH_PS, WRITTEN, decided, mode};
use narrows_mpicalls::{CALLS, Class};
use narrows_portals::{AtomicOperation, Command, ContextPart, Datatype, runs};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The rank runs in simulated time: MPI_Init has returned, MPI_Finalize has not been called.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The last known simulated time, for threads that find the rank busy, ps.
static LAST_CLOCK: AtomicU64 = AtomicU64::new(0);

/// Times that the program has initialised MPI and not finalised it: a world, sessions.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// The last of them is being finalised, or was: simulated time is over.
static OVER: AtomicBool = AtomicBool::new(false);

/// What to do at the end of MPI_Init, see [`before_start`].
static BEFORE_START: OnceLock<extern "C" fn()> = OnceLock::new();

/// `prepare` is called at the end of MPI_Init, before simulated time begins: what happened until then was ordered by
/// the host, and what it has left behind must not reach the results. Only the first caller is heard.
pub fn before_start(prepare: extern "C" fn()) {
    let _ = BEFORE_START.set(prepare);
}

/// What a process exits with whose program calls what is not simulated. Our choice.
const REFUSED: i32 = 1;
/// How long the others leave the one alone that says so. Our choice: launchers take 10 ms to hear of it.
const SPEAKER_FIRST_MS: u32 = 2000;

struct Special {
    init: [Option<u32>; 3],
    finalize: [Option<u32>; 2],
    abort: Option<u32>,
    probe: [Option<u32>; 2],
    searches: [Option<u32>; own_queue::SEARCHING.len()],
    sync: Option<u32>,
    /// By index of the call: [`narrows_mpicalls::Call::agrees`].
    agrees: Vec<bool>,
    /// By index of the call: [`narrows_mpicalls::Call::is_one_sided`].
    one_sided: Vec<bool>,
}

fn special() -> &'static Special {
    static SPECIAL: OnceLock<Special> = OnceLock::new();
    SPECIAL.get_or_init(|| {
        let id = |name: &str| narrows_mpicalls::by_name(name);
        Special {
            init: [id("MPI_Init"), id("MPI_Init_thread"), id("MPI_Session_init")],
            finalize: [id("MPI_Finalize"), id("MPI_Session_finalize")],
            abort: id("MPI_Abort"),
            probe: [id("MPI_Probe"), id("MPI_Mprobe")],
            searches: own_queue::SEARCHING.map(id),
            sync: id("MPI_Win_sync"),
            agrees: CALLS.iter().map(narrows_mpicalls::Call::agrees).collect(),
            one_sided: CALLS.iter().map(narrows_mpicalls::Call::is_one_sided).collect(),
        }
    })
}

/// The program calls MPI function `id` (index into `narrows_mpicalls::CALLS`). `place`: the same for calls of one place
/// in the program that are about as much. `site`: the address to which it returns; 0: nobody knows.
pub fn mpi_enter(id: u32, peer: i64, tag: i64, place: u64, site: u64) {
    threads::stop_counting();
    let special = special();
    own_queue::call_begins(special.searches.contains(&Some(id)));
    let Some(call) = CALLS.get(id as usize) else { return };
    if !attached() && !special.init.contains(&Some(id)) {
        return;
    }
    threads::take_turns();
    if call.class != Class::Outside {
        callers::enter();
        if !special.finalize.contains(&Some(id)) {
            chance::calls(false);
        }
    }
    let Ok(mut rank) = session() else { return };
    rank.enter(id, call.class, peer, tag, place);
    rank.calls_from(site);
    rank.may_talk_to_itself(special.one_sided[id as usize]);
    if call.adds_processes() {
        refuse(rank, call.name, "a run has the ranks that it began with");
    } else if OVER.load(Ordering::Acquire) && special.init.contains(&Some(id)) {
        refuse(rank, call.name, "simulated time ends with the last MPI_Finalize or MPI_Session_finalize, and does not begin again");
    } else if special.init.contains(&Some(id)) {
        rank.first_is(mode::MPI);
    } else if special.finalize.contains(&Some(id)) {
        if OPEN.fetch_sub(1, Ordering::AcqRel) == 1 {
            OVER.store(true, Ordering::Release);
            ends_simulated_time();
        }
    } else if special.abort == Some(id) {
        drop(rank);
        life::ends_job(tag as i32);
    } else if special.probe.contains(&Some(id)) {
        rank.probes(peer);
    } else if special.agrees[id as usize] {
        rank.agrees(call.class != Class::Blocking);
    }
}

/// Ends the process, and so the run: the program calls what is not simulated.
fn refuse(rank: Session, name: &str, why: &str) -> ! {
    drop(rank);
    refuse_process(&format!("{name} is not simulated: {why} (docs/limits.md)"))
}

/// Ends the process, which does what cannot be in a run. The first of all ranks says why.
pub fn refuse_process(why: &str) -> ! {
    if belongs_to().is_none_or(|(shared, _)| shared.file.refused.swap(1, Ordering::Relaxed) == 0) {
        // At once: another rank may be ended by the launcher at any time.
        let text = format!("narrows: {why}\n");
        // SAFETY: a valid buffer; what cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        output::wait_until_read();
    } else {
        // The launcher ends the others when the first one exits.
        output::nap(SPEAKER_FIRST_MS);
    }
    life::exits(REFUSED);
    // SAFETY: ends the process; handlers of the MPI library would wait for others.
    unsafe { libc::_exit(REFUSED) }
}

/// The program calls MPI_Finalize, and [`mpi_enter`] has been told: waits for the other ranks. True when the MPI
/// library should look at what has come, and then ask again.
pub fn at_door() -> bool {
    try_session().is_some_and(|mut rank| rank.at_door())
}

/// Whether MPI function `id` is the last MPI_Finalize or its like.
pub fn finalizes(id: u32) -> bool {
    attached() && OVER.load(Ordering::Acquire) && special().finalize.contains(&Some(id))
}

/// What a check wants to know of a call of the program: words of `narrows-facts`.
pub fn fact(words: &[u64]) {
    if active()
        && let Ok(mut rank) = session()
    {
        rank.tell_fact(words);
    }
}

/// It returns; `failed`: with an error. True when the MPI library should look at what has come, and then this is to be
/// said again.
pub fn mpi_leave(id: u32, failed: bool) -> bool {
    if !attached() {
        return false;
    }
    let special = special();
    // A session that was not made is none to be ended.
    let init = special.init.contains(&Some(id)) && !failed && OPEN.fetch_add(1, Ordering::AcqRel) == 0;
    if init && let Some(prepare) = BEFORE_START.get() {
        prepare();
    }
    if init {
        threads::settle_heap();
    }
    callers::before_leave();
    let Ok(mut rank) = session() else { return false };
    if init {
        own_queue::find();
        rank.start_together();
        ACTIVE.store(true, Ordering::Release);
    } else if finalizes(id) {
        rank.finalized();
    } else if special.sync == Some(id) {
        rank.looks_at_memory();
    } else if !special.init.contains(&Some(id)) && rank.may_have_polled() {
        return true;
    }
    rank.leave();
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
    drop(rank);
    callers::leave();
    false
}

/// The last call of all is made: what the process does from now on takes no simulated time.
fn ends_simulated_time() {
    ACTIVE.store(false, Ordering::Release);
    threads::time_is_over();
}

/// A Portals program runs in simulated time from now on, until it exits.
pub(crate) fn program_started() {
    ACTIVE.store(true, Ordering::Release);
    // SAFETY: the handler never unwinds.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

/// A Portals program is going to wait for other ranks outside of the network before PtlInit: it enters simulated time.
pub fn joins() {
    if let Ok(mut rank) = session() {
        rank.program_starts();
    }
}

unsafe extern "C" {
    /// As `atexit`, but the handler learns the status: on_exit(3).
    fn on_exit(handler: extern "C" fn(libc::c_int, *mut libc::c_void), argument: *mut libc::c_void) -> libc::c_int;
}

extern "C" fn at_exit(status: libc::c_int, _: *mut libc::c_void) {
    let _ = std::panic::catch_unwind(|| program_ends(status));
}

/// The process ends, by exit(3) or without its handlers: if it is a Portals program, its NIC serves the others until
/// all ranks have come here. One that has failed does not wait for them.
pub fn program_ends(status: i32) {
    if status & 0xff == 0
        && active()
        && let Ok(shared) = shared()
        && shared.rank.mode.load(Ordering::Relaxed) == mode::PORTALS
        && shared.rank.pid.load(Ordering::Relaxed) == std::process::id()
        && let Some(mut rank) = try_session()
    {
        rank.end_sockets();
        ends_simulated_time();
        while rank.at_door() {}
        rank.finalized();
    }
}

/// A barrier of all ranks of a program without MPI over their launcher begins.
pub fn barrier() {
    if active()
        && let Some(rank) = try_session()
        && rank.is_portals_program()
    {
        meet(rank);
    }
}

fn meet(mut rank: Session) {
    rank.barrier();
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
}

/// The MPI library makes a group of so many ranks over their launcher, in a call of the program.
pub fn group(processes: usize) {
    if processes > 1
        && active()
        && let Some(rank) = try_session()
    {
        if processes == rank.ranks() as usize {
            meet(rank);
        } else {
            let name = format!("a group of {processes} of the {} ranks that Open MPI makes over its launcher", rank.ranks());
            refuse(rank, &name, "MPI_Comm_create_from_group works with a group of all; MPI_Comm_create and MPI_Comm_split with any");
        }
    }
}

/// The program calls MPI_Allreduce on all ranks, with so many bytes at `source` and room for them at `target`. False:
/// the library must do it. Else [`reduce_goes_on`] is next.
pub fn reduce_begins(source: u64, target: u64, bytes: u64, operation: u32, datatype: u32) -> bool {
    let (Some(operation), Some(datatype)) = (AtomicOperation::from_number(operation), Datatype::from_number(datatype)) else {
        return false;
    };
    active() && try_session().is_some_and(|mut rank| rank.reduce_begins(source, target, bytes, operation, datatype))
}

/// Waits for the result. True when the MPI library should look at what has come, and then ask again.
pub fn reduce_goes_on() -> bool {
    try_session().is_some_and(|mut rank| rank.reduce_goes_on())
}

thread_local! {
    /// The execution context of the receive that the calling thread is going to post, and its length in bytes.
    static RECEIVE: Cell<(u8, u64)> = const { Cell::new((0, 0)) };
}

/// Words of an execution context that go in one command: our own choice, so that they fit into the shared area.
const CONTEXT_PART: usize = 512;

/// The program calls for a message of so many bytes, whose list entry is to have this execution context; 0: the call
/// is over.
pub fn receives(context: u8, bytes: u64) {
    RECEIVE.set((context, bytes));
}

/// The execution context for a receive of so many bytes that the MPI library posts; 0: none. Only one receive has it.
pub fn context_of_receive(bytes: u64) -> u8 {
    match RECEIVE.get() {
        (context, length) if context != 0 && length == bytes => {
            RECEIVE.set((0, 0));
            context
        }
        _ => 0,
    }
}

/// Tells the NIC of an execution context: the rules that ask for its receives, and how a message lies in memory, if not
/// in one piece: the extent, and places and lengths of blocks, all in bytes.
pub fn set_context(number: u8, rules: u64, layout: Option<(i64, &[(i64, u64)])>) {
    let Ok(mut rank) = session() else { return };
    let layout = layout.map_or_else(Vec::new, |(extent, blocks)| runs::words(&runs::of(blocks.iter().copied()), extent));
    let mut parts = layout.chunks(CONTEXT_PART).peekable();
    loop {
        let part = parts.next().unwrap_or_default();
        let more = parts.peek().is_some();
        rank.submit(Command::SetContext(Box::new(ContextPart { number, rules, layout: part.into(), more })));
        if !more {
            return;
        }
    }
}

/// The rank runs in simulated time, and this process is the rank.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Acquire) && attached()
}

/// Longest step of a program that does nothing but look at the clock, ps: without a cost of computing a look may take
/// so long, and with one the others get on so late. Our own choice.
const LONGEST_LOOK_PS: u64 = 1_000_000;
const LATEST_PS: u64 = 10 * LONGEST_LOOK_PS;

/// The simulated clock of the calling thread since the return of MPI_Init, ps; the reading itself costs a little.
/// `yields`: the thread lets others run, and may be waiting for them. `place`: the same for looks from one place in the
/// program, in every run; 0: it is not known.
pub fn clock(yields: bool, place: u64) -> u64 {
    let Some((_, header)) = attach::shared().filter(|_| active() && !threads::has_left_list()) else {
        return LAST_CLOCK.load(Ordering::Relaxed);
    };
    threads::stop_counting();
    let thread = threads::current().unwrap_or_else(|| threads::begin(EPOCH_PS + LAST_CLOCK.load(Ordering::Relaxed), false, u32::MAX));
    if thread.waits() {
        // The library in which it waits does.
        return thread.clock().saturating_sub(EPOCH_PS);
    }
    if header.resumed.load(Ordering::Relaxed) != 0 {
        // The simulator has moved the rank's clock meanwhile.
        drop(try_session());
    }
    let processor = &header.processor;
    thread.computes(None);
    // A program that waits for the clock would look at it millions of times. Where computing costs nothing, its looks
    // may cost more.
    let long = |waited: u64| if processor.compute_ppm == 0 { (waited / 1024).min(LONGEST_LOOK_PS) } else { 0 };
    let (mut now, idle) = threads::look(thread, place, processor.clock_read_ps, long);
    if threads::many() {
        threads::pace(now);
        if yields {
            now = thread.catch_up(now);
        }
    } else {
        header.clock.store(now, Ordering::Relaxed);
    }
    // Not at once: programs that take times are no slower for it.
    if let Some(since) = idle {
        if threads::many() {
            decides(decided::CLOCK);
        }
        let late = (now.saturating_sub(since) / 64).min(LATEST_PS);
        let horizon = header.horizon.load(Ordering::Relaxed).max(header.quiet_until.load(Ordering::Relaxed));
        if threads::is_parked() {
            // The horizon may be that of a thread which has been woken and has not come as far as to say so.
            if thread.looks_at(now) {
                threads::sleep_until(thread, now);
            }
        } else if now < horizon.saturating_add(late) {
            // Nothing comes before.
        } else if callers::many_call() {
            if threads::compute_is_free() {
                callers::sleep(thread, 0);
            }
        } else if let Some(mut rank) = try_session() {
            rank.let_others_get_on(late);
        }
    }
    let elapsed = thread.clock().saturating_sub(EPOCH_PS);
    LAST_CLOCK.store(elapsed, Ordering::Relaxed);
    thread.mark();
    thread.computes(Some(thread.clock()));
    elapsed
}

/// A thread of the program begins; the clock of the one that made it was `clock` ps. It is `idle` until it is said that
/// it goes on.
pub fn thread_begins(clock: u64, idle: bool, number: u32) {
    threads::begin(clock, idle, number);
}

/// The number of the thread that the calling one has made last, for [`thread_begins`].
pub fn thread_made() -> u32 {
    threads::made()
}

/// The program was given MPI_THREAD_MULTIPLE.
pub fn threads_given() {
    callers::given();
}

/// The calling thread makes another one: the clock of both, ps. `false`: it could not be made.
pub fn thread_makes(yes: bool) -> u64 {
    if active() { threads::makes(yes) } else { 0 }
}

/// It could, and the other one exists.
pub fn thread_exists() {
    if active() {
        threads::exists();
    }
}

/// The calling thread ends. Its clock, for who waits for that.
pub fn thread_ends() -> u64 {
    threads::end()
}

/// The clock of the calling thread, for one that will wait for it, ps; 0 where there is none.
pub fn thread_clock() -> u64 {
    if active() { threads::now() } else { 0 }
}

/// The calling thread is going to let others go on.
pub fn thread_meets() {
    if active() && threads::many() {
        threads::meets();
    }
}

/// The calling thread has given back many locks, or found them taken, since it said so last. That may be all it does
/// until another thread has come, which may be in MPI: it keeps to simulated time. Where computing costs nothing, that
/// one may wait for this one to come as far: then it is a poll in a long wait. True: it was.
pub fn thread_takes_locks() -> bool {
    let Some(thread) = threads::current().filter(|thread| active() && threads::many() && !thread.waits()) else { return false };
    let Some((_, header)) = attach::shared() else { return false };
    if !threads::compute_is_free() {
        let now = threads::now();
        if thread.takes_locks_at(now) {
            threads::meets();
            if threads::is_parked() {
                threads::sleep_until(thread, now);
            }
            thread.takes_locks();
        }
        return false;
    }
    let Some(since) = thread.only_takes_locks() else { return false };
    decides(decided::LOOKS);
    let now = thread.clock();
    let late = (now.saturating_sub(since) / 16).clamp(header.processor.poll_ps, LATEST_PS.max(header.processor.poll_ps));
    sleep(thread.catch_up(now) - now + late);
    thread.takes_locks();
    true
}

/// Waits in the kernel that libraries make by themselves come to this library, as all others do: where computing takes
/// no time one thread may run at a time.
pub fn threads_are_seen() {
    threads::set_able();
}

/// Whether one thread of this rank runs at a time if it has several.
pub fn one_at_a_time() -> bool {
    threads::are_seen() && belongs_to().is_some_and(|(_, rank)| rank.processor.compute_ppm == 0)
}

/// Whether one does now, and the calling one is of them. It has the baton then.
pub fn takes_turns() -> bool {
    active() && threads::take_turns()
}

/// The calling thread, which [`takes_turns`], waits at `place` until it is woken, or its clock is `until` ps: whether
/// time has ended that. Not if somebody was woken since there were `seen` [`thread_wakes`].
pub fn thread_blocks(place: usize, until: Option<u64>, seen: u32) -> bool {
    threads::block(Some(place), until, Some(seen))
}

/// How often [`thread_wakes`] was called so far.
pub fn thread_wakes_so_far() -> u32 {
    threads::wakes()
}

/// So many of those that wait at `place` go on: how many did.
pub fn thread_wakes(place: usize, most: usize) -> usize {
    threads::wake(place, most)
}

/// One that was woken at `place` runs before the calling thread does something there.
pub fn thread_stands_behind(place: usize) {
    threads::stand_behind(place);
}

/// The calling thread is going to wait for another one, in a way that is none of the library's.
pub fn thread_waits() {
    if active() {
        threads::waits(false);
    } else {
        threads::waits_early(false);
    }
}

/// The same, until a place where it waits is released: see [`thread_releases`].
pub fn thread_waits_for_release() {
    if active() {
        threads::waits(true);
    } else {
        threads::waits_early(true);
    }
}

/// A thread is going to release `place`, where others may wait.
pub fn thread_releases(place: usize) {
    threads::releases(place);
}

/// It goes on, after another one whose clock was `clock` ps; 0: nobody's.
pub fn thread_goes_on(clock: u64) {
    if !active() {
        threads::goes_on_early();
    } else {
        threads::goes_on(clock);
    }
}

/// The latest clock of all threads that were idle when they began, ps.
pub fn threads_latest() -> u64 {
    if active() { threads::latest_worker() } else { 0 }
}

/// The calling thread is going to wait for another one at `place`, but at most for `ps`, and has a lock of the
/// program's `with_lock` when it asks [`dozed`]. False where simulated time does not say when that is over.
pub fn doze(ps: u64, place: usize, with_lock: bool) -> bool {
    let Some(thread) = threads::current().filter(|_| active() && threads::many()) else { return false };
    threads::doze(thread, threads::now().saturating_add(ps), place, with_lock);
    true
}

/// Whether that time is over.
pub fn dozed() -> bool {
    threads::current().is_none_or(|thread| threads::sleeps_on(thread).is_none())
}

/// It no longer waits, after another thread whose clock was `clock` ps; 0: nobody's.
pub fn doze_ends(clock: u64) {
    if let Some(thread) = threads::current() {
        threads::get_up(thread, clock);
    }
}

/// Measures what marks cost: between `true` and `false` the caller does nothing but look at the clock. Simulated time
/// stands still.
pub fn calibrate(begin: bool) {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let Some(thread) = threads::current().filter(|_| active()) else { return };
    if begin {
        BEFORE.store(thread.clock(), Ordering::Relaxed);
    } else {
        thread.set_clock(BEFORE.load(Ordering::Relaxed));
        threads::activity();
    }
    threads::calibrate(begin);
}

/// The rank's clock as it is, for a recorder inside an MPI call: reading takes no simulated time.
pub fn instant() -> u64 {
    match try_session() {
        Some(rank) => rank.elapsed_ps(),
        None => LAST_CLOCK.load(Ordering::Relaxed),
    }
}

/// The MPI library is going to read or write so many bytes of a file, or to flush it. False where no simulated time
/// passes.
pub fn accesses_file(bytes: u64) -> bool {
    threads::current().is_some() && active() && try_session().is_some_and(|mut rank| rank.accesses_file(bytes))
}

/// The calling thread sleeps for `ps`. False when it has no clock.
pub fn sleep(ps: u64) -> bool {
    let Some(thread) = threads::current().filter(|_| active()) else { return false };
    if callers::sleep(thread, ps) {
        return true;
    }
    if threads::many() {
        let end = threads::now().saturating_add(ps);
        threads::sleep_until(thread, end);
        if let Some(mut rank) = try_session() {
            rank.let_others_get_on(0);
        }
        return true;
    }
    try_session().map(|mut rank| rank.pause(ps)).is_some()
}

/// Writes to a socket or pipe of the host: the calling thread is about to, and whoever reads it knows it by `key`.
pub fn writes(key: u64) {
    let Some((file, header)) = attach::shared().filter(|_| active()) else { return };
    threads::talk();
    let time = threads::now();
    let place = header.writes.fetch_add(1, Ordering::AcqRel) as usize;
    let written = &header.written[place.min(WRITTEN - 1)];
    let known = place < WRITTEN - 1;
    written.key.store(if known { key } else { 0 }, Ordering::Relaxed);
    written.time.fetch_max(time, Ordering::Release);
    file.writes.fetch_add(1, Ordering::Release);
}

/// How a wait at descriptors ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtFiles {
    /// One of them is ready.
    Ready,
    /// The time is over.
    Over,
    /// It is none of simulated time.
    Real,
}

/// Waits until one of `files` is ready, for ever or for so many ps; 0: looks once. Other threads of the rank go on
/// meanwhile.
pub fn wait_at_files(files: &[File], patience: Option<u64>) -> AtFiles {
    if files.is_empty() || !active() {
        return AtFiles::Real;
    }
    threads::talk();
    let thread = threads::current().unwrap_or_else(|| threads::begin(EPOCH_PS + LAST_CLOCK.load(Ordering::Relaxed), false, u32::MAX));
    let Ok(mut rank) = session() else { return AtFiles::Real };
    let end = rank.begins_at_files(patience);
    let Some(places) = rank.watch(files, end) else { return AtFiles::Real };
    let since = rank.leave_clock();
    threads::begins_at_files(thread, places, end);
    drop(rank);
    let mut nap = threads::FIRST_NAP;
    let ended = loop {
        match threads::wait_at_files(thread, &mut nap) {
            Step::End(ended) => break ended,
            Step::Park(until) => match session() {
                Ok(mut rank) => rank.parks_at_files(thread, until),
                Err(_) => break None,
            },
        }
    };
    let Ok(mut rank) = session() else { return AtFiles::Real };
    if let Some(places) = threads::ends_at_files(thread) {
        rank.take_clock();
        rank.ends_at_files(thread, places, since, ended == Some(true));
    }
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
    match ended {
        Some(true) => AtFiles::Ready,
        Some(false) => AtFiles::Over,
        None => AtFiles::Real,
    }
}

/// The calling thread calls a simulated socket: the answer of `narrows-socketcalls`. `None`: it is not in simulated
/// time.
pub fn socket_call(words: &[u64; narrows_channel::record::SOCKET_WORDS]) -> Option<i64> {
    if !active() {
        return None;
    }
    threads::current().unwrap_or_else(|| threads::begin(EPOCH_PS + LAST_CLOCK.load(Ordering::Relaxed), false, u32::MAX));
    let mut rank = session().ok()?;
    let value = rank.socket_call(words);
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
    Some(value)
}

/// Name and node of rank `number`; `None` behind the last one.
pub fn host_of(number: u32) -> Option<(&'static [u8], u32)> {
    let (shared, _) = belongs_to()?;
    let header = shared.mapping.region(number).ok()?.header();
    Some((&header.host[..(header.host_length as usize).min(header.host.len())], header.node))
}

/// Other ranks of the node look into memory of this one from now on, or no longer do.
pub fn shares_memory(shares: bool) {
    if let Some(mut rank) = try_session() {
        rank.shares_memory(shares);
    }
}

/// The rank that this process belongs to, whether it is that or not: helpers that a rank starts (a shell, a wrapper)
/// see the same host.
fn belongs_to() -> Option<(&'static Shared, &'static RankHeader)> {
    shared().ok().map(|shared| (shared, shared.rank))
}

/// Name of the simulated host; empty when this process belongs to no rank.
pub fn host() -> &'static [u8] {
    belongs_to().map_or(&[], |(_, rank)| &rank.host[..(rank.host_length as usize).min(rank.host.len())])
}

/// Cores of the simulated node; zero when this process belongs to no rank.
pub fn cores() -> u32 {
    belongs_to().map_or(0, |(_, rank)| rank.processor.cores)
}

/// Longest message that is copied when it is sent, bytes.
pub fn inject_limit() -> u64 {
    belongs_to().map_or(0, |(shared, _)| shared.file.settings.inject_limit)
}

/// The longest sleep between two looks of a rank that waits outside the simulated network; zero when this process
/// belongs to no rank.
pub fn longest_nap() -> Duration {
    belongs_to().map_or(Duration::ZERO, |(shared, _)| LONGEST_NAP_PER_RANK * shared.file.ranks)
}

/// See [`narrows_channel::RankHeader::memory_color`].
pub fn memory_color() -> u32 {
    belongs_to().map_or(0, |(_, rank)| rank.memory_color())
}

/// Global rank.
pub fn rank() -> u32 {
    belongs_to().map_or(0, |(shared, _)| shared.number)
}
