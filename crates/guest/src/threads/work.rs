//! What a thread has computed: CPU time since its last mark, or instructions, as simulated time.

use super::host::{cpu_ns, wall_ns};
use super::instructions::{self, counted_in};
use super::{Thread, WORK_PS, compute_is_free, compute_ppm, counts_cycles, many};
use crate::stretches::{self, Promise};
use crate::{attach, chance};
use narrows_channel::layout::Followed;
use narrows_channel::{counter, handover};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// So long between two marks is taken for CPU time without asking the kernel: a thread that has lost its core meanwhile
/// was away for longer.
const SHORT_NS: u64 = 20_000;
/// The kernel is asked at least so often, so that such guesses do not add up.
const LONGEST_GUESS_NS: u64 = 1_000_000;

/// CPU time between two marks in which the program does nothing, ns, or instructions: see [`calibrate`].
static OVERHEAD: AtomicU64 = AtomicU64::new(0);
/// While that is measured: what was.
static SAMPLES: Mutex<Option<Vec<u64>>> = Mutex::new(None);
pub(super) static SAMPLING: AtomicBool = AtomicBool::new(false);

/// What was used between two marks without what it costs to come here, in ns, or instructions. `None`: that is being
/// measured. What was not `computed` is our own work between an end of computing and the next mark.
fn without_overhead(used: u64, computed: bool) -> Option<u64> {
    if SAMPLING.load(Relaxed) {
        if !computed {
            return None;
        }
        SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|samples| samples.push(used));
        return None;
    }
    // What it costs to ask varies by as much: between two looks in a row there is nothing.
    let overhead = OVERHEAD.load(Relaxed);
    Some(if used < 2 * overhead { 0 } else { used - overhead })
}

pub(super) fn to_ps(ns: u64, ppm: u64) -> u64 {
    (u128::from(ns) * 1000 * u128::from(ppm) / 1_000_000) as u64
}

/// The thread whose stretch goes on; 0: none.
static STRETCH_OF: AtomicI32 = AtomicI32::new(0);
/// What other threads have computed, ps.
static OTHERS_PS: AtomicU64 = AtomicU64::new(0);
/// Threads that are made, or wake for an end, take less together. Our own choice.
const IDLE_PS: u64 = 1_000_000_000;

impl Thread {
    /// CPU time since the last mark, ns, or what takes its place, without what it costs to ask; and a mark. `computed`:
    /// that was the program's computing.
    fn used_ns(&self, computed: bool) -> u64 {
        if let Some(used) = self.used_instructions_ns(computed) {
            return used;
        }
        let now = wall_ns();
        let elapsed = now.saturating_sub(self.wall.swap(now, Relaxed));
        let mark = self.mark.load(Relaxed);
        let used = if elapsed < SHORT_NS && now - self.asked.load(Relaxed) < LONGEST_GUESS_NS {
            self.mark.store(mark + elapsed, Relaxed);
            elapsed
        } else {
            let cpu = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(mark);
            self.mark.store(cpu, Relaxed);
            self.asked.store(now, Relaxed);
            cpu.saturating_sub(mark).saturating_sub(self.followed_ns(true))
        };
        without_overhead(used, computed).unwrap_or(0)
    }

    /// The same as simulated time, ps.
    fn used_ps(&self, computed: bool, ppm: u64) -> u64 {
        match self.used_cycles_ps() {
            Some(ps) => (u128::from(ps) * u128::from(ppm) / 1_000_000) as u64,
            None => to_ps(self.used_ns(computed), ppm),
        }
    }

    /// What the instructions since the last mark take, ns; and a mark. `None`: they are not counted.
    fn used_instructions_ns(&self, computed: bool) -> Option<u64> {
        let file = counted_in()?;
        let count = counter::read(self.counter.load(Relaxed))?;
        let instructions = count.saturating_sub(self.counted.swap(count, Relaxed));
        let mark = self.mark.load(Relaxed);
        let cpu = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(mark);
        self.mark.store(cpu, Relaxed);
        let cpu = cpu.saturating_sub(mark).saturating_sub(self.followed_ns(true));
        let Some(instructions) = without_overhead(instructions, computed) else { return Some(0) };
        // Of shorter stretches the larger part is what it costs to ask.
        if computed && cpu >= SHORT_NS {
            instructions::learn(file, instructions, cpu);
        }
        Some(instructions::ns(file, instructions, cpu))
    }

    /// The same without a mark, by any thread.
    pub(super) fn unmarked_ns(&self, mark: u64, cpu: u64) -> u64 {
        let cpu = cpu.saturating_sub(mark).saturating_sub(self.followed_ns(false));
        // What had been counted first: it moves with the mark.
        let counted = self.counted.load(Relaxed);
        match counted_in().zip(counter::read(self.counter.load(Relaxed))) {
            Some((file, count)) => instructions::ns(file, count.saturating_sub(counted), cpu),
            None => cpu,
        }
    }

    /// CPU time for which the simulator has followed it since the last mark, ns: that was no computing. `take`: by the
    /// thread itself, and there is a mark.
    fn followed_ns(&self, take: bool) -> u64 {
        let id = self.id.load(Relaxed) as u32;
        let Some((_, header)) = attach::shared() else { return 0 };
        let Some(followed) = header.followed.iter().find(|followed| followed.thread.load(Acquire) == id) else { return 0 };
        if !take {
            return followed.ns.load(Relaxed);
        }
        let ns = followed.ns.swap(0, Relaxed);
        if followed.until.load(Relaxed) != 0 {
            // See `look_for_release`.
            return ns;
        }
        followed.thread.store(0, Release);
        ns
    }

    /// What the calling thread has computed since the last mark, ps; and a mark. `call` is what ends it: a stretch that
    /// the thread itself has begun takes what [`stretches`] say.
    pub fn work_until_ps(&self, call: stretches::Call) -> u64 {
        self.turn();
        let ppm = compute_ppm();
        if ppm == 0 {
            return 0;
        }
        let measured = self.used_ps(true, ppm);
        // Where times are measured, stretches beside other threads teach nothing about those without.
        let own = !many() || STRETCH_OF.load(Relaxed) == self.id.load(Relaxed) && stretches::are_charged();
        let work = if own && !counts_cycles() { stretches::end(call, measured) } else { measured };
        if many() {
            WORK_PS.fetch_add(work, Relaxed);
        }
        if !own && OTHERS_PS.fetch_add(work, Relaxed) + work > IDLE_PS && stretches::are_given() {
            chance::others_compute();
        }
        work
    }

    /// It begins a stretch of computing behind `call`, see [`stretches`].
    pub fn begin_stretch(&self, call: stretches::Call) {
        STRETCH_OF.store(self.id.load(Relaxed), Relaxed);
        let learns = !many() || stretches::are_charged();
        stretches::begin(if learns { call } else { stretches::Call::default() });
    }

    /// What the calling thread has done since the last mark was no computing.
    pub fn mark(&self) {
        if compute_ppm() != 0 {
            self.used_ps(false, 0);
            self.counts(!self.in_call.load(Relaxed));
        }
    }

    /// The calling thread begins to compute, at so many ps, or does not. The simulator can say meanwhile how far it has
    /// come, and need not wait for it. Not beside other threads.
    pub fn computes(&self, since: Option<u64>) {
        let Some((file, header)) = attach::shared() else { return };
        // A library that looks at the clock inside a call computes nothing, and may give a command at once.
        let Some(clock) = since.filter(|_| !many() && !compute_is_free() && !self.in_call.load(Relaxed)) else {
            header.computes_since_ns.store(0, Relaxed);
            header.computes_until.store(0, Release);
            return;
        };
        header.clock.store(clock, Relaxed);
        let expected = match stretches::promise() {
            Promise::Measured(expected) => {
                // What is as short as asking counts for nothing, see `used_ns`.
                header.computes_since_ns.store(self.mark.load(Relaxed) + 2 * OVERHEAD.load(Relaxed), Release);
                expected
            }
            Promise::AtLeast(ps) => {
                header.computes_until.store(clock + ps, Release);
                ps
            }
        };
        if expected > 0 && expected >= header.apart_from.load(Relaxed) && header.shares.load(Relaxed) == 0 {
            // Others may do something meanwhile.
            header.quiet_until.store(0, Relaxed);
            handover::go_apart(&header.state, &file.running, &file.bell);
        }
    }

    /// The simulator may have stopped it while it waited for memory, and have let it go. It has computed as long as it
    /// was seen to, and waited until then.
    pub fn look_for_release(&self) {
        let Some((_, header)) = attach::shared() else { return };
        if header.let_go.load(Acquire) == 0 || !many() {
            return;
        }
        let id = self.id.load(Relaxed) as u32;
        let own = |place: &&Followed| place.thread.load(Acquire) == id && place.stopped.load(Acquire) == 0;
        let Some(place) = header.followed.iter().find(own) else { return };
        let until = place.until.swap(0, Relaxed);
        if until == 0 {
            return;
        }
        let followed = place.ns.swap(0, Relaxed);
        let worked = place.worked_ns.load(Relaxed).saturating_sub(self.mark.load(Relaxed)).saturating_sub(followed);
        place.thread.store(0, Release);
        header.let_go.fetch_sub(1, AcqRel);
        // Instructions are counted by the thread itself: those of the wait are some hundreds.
        let worked = self.used_instructions_ns(!self.in_call.load(Relaxed)).unwrap_or(worked);
        let worked = if self.in_call.load(Relaxed) { 0 } else { to_ps(worked, compute_ppm()) };
        WORK_PS.fetch_add(worked, Relaxed);
        self.clock.store((self.clock() + worked).max(until), Relaxed);
        self.mark();
    }
}

/// Measures what it costs to come here: `true`, then calls between which nothing happens, then `false`. That much of
/// every stretch between two marks is nobody's computing.
pub(crate) fn calibrate(begin: bool) {
    let mut samples = SAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
    SAMPLING.store(begin, Relaxed);
    if begin {
        *samples = Some(Vec::new());
    } else if let Some(mut measured) = samples.take() {
        measured.sort_unstable();
        let median = measured.get(measured.len() / 2).copied().unwrap_or(0);
        OVERHEAD.store(if median < SHORT_NS { median } else { 0 }, Relaxed);
    }
}
