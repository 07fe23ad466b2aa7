//! `--compute sampled`: what a rank computes between the same two calls takes its running median.
//!
//! A *stretch* is what the program computes from the return of a call to the next call; a look at the clock and a sleep
//! are calls, too. Stretches are alike if both calls are: function, place in the program, partner, tag and count. What
//! a stretch took before, on this rank, is kept for the
//! last [`KEPT`] of its like. Looks are told apart by their place in the program, and those behind one MPI call by
//! their order, too, up to [`LOOKS`].
//!
//! A stretch takes the median of those and of itself, once there are [`LEAST`], if they are alike in time, too (see
//! [`judge`]), and it is not much more than that. Otherwise it takes what was measured: the first of its kind,
//! work that varies, and a step that does more than the others. Programs with threads are measured.
//!
//! The rank may have lost its core in a call that blocks, and finds its caches cold behind it. Behind other calls and
//! looks it has not, so a short stretch that is far from the median there is other work if there was one like it.
//!
//! `--compute pooled`: the median of a rank gives way to the median of what the ranks have for the same stretch, if it
//! is not far from it ([`OWN_PERCENT`]). The same for ranks with other neighbours: behind the same collective, and of
//! stretches between the same two functions since then the one with the same number. Which number that is says the
//! first rank that comes to an occurrence, so that equal ranks take the same in the same step.
//!
//! Nothing is allocated after the first look: that may be inside the program's own allocator, which looks at the clock.

use crate::threads::{counted_in, counts_cycles};
use crate::{attach, shared};
use narrows_channel::stretches::{KEPT, Pool, Stretch, Tables, VARIABLE, known, place};
use narrows_mpicalls::Class;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// So many make a median.
const LEAST: usize = 3;
/// Looks at the clock behind an MPI call of which the order is known. Our own choice: a program that looks more often
/// may wait for the clock.
const LOOKS: u32 = 64;
/// From the seventeenth on a median is found for every so many.
const SELDOM: u32 = 8;
/// What a thread that has lost its core meanwhile may take more, for what it finds cold, ps.
const NOISE_PS: u64 = 25_000_000;
/// Under `--compute measured` shorter ones are not compared, ps: they say nothing, and it would cost time.
const SHORT_PS: u64 = 20_000_000;

/// What stretches are foreseen by, calls and ways to them: the least of so many, when there were as many.
const CALLS: usize = 4096;
const RECENT: usize = 4;
/// The calls before one that tell it from others of its like, and share the bits of a word. Our own choice: more tell
/// more, and take more steps to be known.
const BEFORE: u32 = 8;
/// Equal calls in a row are one of them, and are counted up to here. Our own choice: more than
/// neighbours of a rank.
const IN_A_ROW: u32 = 64;

/// A rank whose median is further than that from the one of all ranks, on average of the last [`MEMORY`] (at least half
/// of it), has another work. Equal ranks were seen to differ by 6 % (docs/decisions/0018-computing-times.md).
const OWN_PERCENT: u64 = 10;
/// Idem for short ones, of which what a core finds cold ([`NOISE_PS`]) is a larger part. Our own choice.
const OWN_COLD_PERCENT: u64 = 33;
/// Stretches behind one collective that ranks compare: pairs of functions, and of each pair.
const PAIRS: usize = 32;
const OF_A_PAIR: u32 = 256;
/// Places of collectives whose occurrences are counted. In those of others no number is the same for all ranks.
const COLLECTIVES: usize = 64;
/// Kinds for which a rank knows how far it is from all.
const SUMS: usize = 4096;
const MEMORY: u32 = 128;
/// Any number.
const MEASURED: u64 = 5;

/// What is at an end of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// With partner, tag and place; 0: nothing is known.
    own: u64,
    /// The function alone, the same for all ranks.
    function: u64,
    /// For collectives the place, too, else 0.
    collective: u64,
    /// The rank may lose its core in it.
    parks: bool,
}

/// The program sleeps, or waits at a descriptor.
pub(crate) const SLEEP: Call = Call { own: 2, function: 2, collective: 0, parks: true };

/// The program looks at the clock, from a place in it; 0: it is not known.
pub(crate) fn look(place: u64) -> Call {
    Call { own: mix(1, place), function: 1, collective: 0, parks: false }
}

/// Another one of its kind, of so many ps. True: its median was found anew.
fn add(stretch: &mut Stretch, ps: u64) -> bool {
    if stretch.known == known::FIXED {
        return false;
    }
    stretch.kept[stretch.seen as usize % KEPT] = ps;
    stretch.seen = stretch.seen.saturating_add(1);
    let again = stretch.seen <= 16 || stretch.seen.is_multiple_of(SELDOM);
    if again {
        judge(stretch);
    }
    again && stretch.known == known::ALIKE
}

/// Finds the median. They are alike in time if the middle half of them is within 40 % of it, or within what noise does.
fn judge(stretch: &mut Stretch) {
    let mut sorted = stretch.kept;
    let sorted = &mut sorted[..(stretch.seen as usize).min(KEPT)];
    sorted.sort_unstable();
    let at = |quarters: usize| sorted[(sorted.len() - 1) * quarters / 4];
    stretch.median = at(2);
    let alike = sorted.len() >= LEAST && at(3) - at(1) <= NOISE_PS.max(at(2) / 5 * 2);
    stretch.known = if alike { known::ALIKE } else { known::NOT };
}

/// The medians of all ranks.
struct Pooled {
    pool: Pool,
    rank: u32,
    /// A number for the speed of the core: ranks on others have other times.
    speed: u64,
    phase: Phase,
    /// Places of collectives, 0: none, and how often the program was there.
    collectives: [(u64, u32); COLLECTIVES],
    sums: Box<[Sums]>,
}

impl Pooled {
    fn new(pool: Pool, rank: u32, speed: u64) -> Pooled {
        let sums = vec![Sums::default(); SUMS].into();
        Pooled { pool, rank, speed, phase: Phase::default(), collectives: [(0, 0); COLLECTIVES], sums }
    }

    /// What this rank takes for that kind, of which it has `own` ps.
    fn takes(&mut self, kind: u64, own: u64, is: Own) -> u64 {
        // Apart from the medians, so that what is late now does not say what it is for all.
        let measured = mix(kind, MEASURED);
        let as_all = |all: &u64| own.abs_diff(*all) <= limit(*all, 1);
        match is {
            Own::Measured => self.first(measured, || own).filter(as_all).unwrap_or(own),
            Own::Late(median) => {
                // If others were, too, it is the step; if not, the host.
                let mut alone = false;
                let first = self.first(measured, || {
                    alone = true;
                    own
                });
                if alone { self.takes(kind, median, Own::Median) } else { first.filter(as_all).unwrap_or(own) }
            }
            Own::Median | Own::NewMedian => {
                if is == Own::NewMedian {
                    self.pool.tell(kind, self.rank, own);
                }
                let all = || self.pool.median(kind).unwrap_or(own);
                let all = self.first(kind, all).unwrap_or_else(all);
                if self.is_like_all(kind, own, all) { all } else { own }
            }
        }
    }

    /// What all ranks take for that kind now: what the first one says that asks.
    fn first(&self, kind: u64, ps: impl FnOnce() -> u64) -> Option<u64> {
        self.phase.step.and_then(|step| self.pool.first(kind, step, ps))
    }

    /// Whether this rank has the work of all ranks, of which it has `own` ps and they have `all` now: on average, for
    /// where a host is busy medians move by more.
    fn is_like_all(&mut self, kind: u64, own: u64, all: u64) -> bool {
        let mut sums = Sums { kind, own: 0, all: 0, seen: 0 };
        let first = kind as usize % SUMS;
        let mut places = (first..SUMS).chain(0..first).take(8);
        let place = places.find(|&place| [0, kind].contains(&self.sums[place].kind));
        if let Some(known) = place.map(|place| self.sums[place]).filter(|known| known.kind == kind) {
            sums = if known.seen < MEMORY { known } else { known.halved() };
        }
        (sums.own, sums.all, sums.seen) = (sums.own.saturating_add(own), sums.all.saturating_add(all), sums.seen + 1);
        if let Some(place) = place {
            self.sums[place] = sums;
        }
        sums.own.abs_diff(sums.all) <= limit(sums.all, u64::from(sums.seen)) && own.abs_diff(all) <= (all / 2).saturating_add(NOISE_PS)
    }

    /// The program goes on behind a collective.
    fn begins(&mut self, collective: u64) {
        let known = self.collectives.iter_mut().find(|known| [0, collective].contains(&known.0));
        let step = known.map(|known| {
            *known = (collective, known.1.wrapping_add(1));
            known.1
        });
        self.phase = Phase { collective, step, ..Phase::default() };
    }
}

/// What a rank has of a stretch before it looks at what others have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    /// What was measured.
    Measured,
    /// Idem, up to twice its median, which is this.
    Late(u64),
    /// Its median, which the others know.
    Median,
    /// Its median, found anew.
    NewMedian,
}

/// What a rank and all ranks have of a kind, over its last occurrences.
#[derive(Clone, Copy, Default)]
struct Sums {
    kind: u64,
    own: u64,
    all: u64,
    seen: u32,
}

impl Sums {
    fn halved(self) -> Sums {
        Sums { own: self.own / 2, all: self.all / 2, seen: self.seen / 2, ..self }
    }
}

/// How far a rank may be from `all` ps, which `seen` stretches take.
fn limit(all: u64, seen: u64) -> u64 {
    let percent = |percent| (all / 100).saturating_mul(percent);
    percent(OWN_PERCENT).max(percent(OWN_COLD_PERCENT).min(NOISE_PS.saturating_mul(seen)))
}

/// The same work beside others on a busy host takes up to 1.5 times its median (docs/validation.md), and so many ps
/// more where the core may be cold. What takes more does more.
fn near(median: u64, cold: u64) -> RangeInclusive<u64> {
    (median / 3).saturating_mul(2).saturating_sub(cold)..=(median / 2).saturating_mul(3).saturating_add(cold)
}

/// Whether `ps` is other work than the median's, and no noise: another one of those kept was as far from the median,
/// and near to this one.
fn comes_again(stretch: &Stretch, ps: u64) -> bool {
    let kept = &stretch.kept[..(stretch.seen as usize).min(KEPT)];
    let usual = near(stretch.median, 0);
    !usual.contains(&ps) && kept.iter().filter(|&kept| !usual.contains(kept) && near(*kept, 0).contains(&ps)).count() >= 2
}

/// What one takes that was measured to take `ps`, and is among those kept. `cold`: see [`near`].
fn charge(stretch: &Stretch, ps: u64, cold: bool) -> Charge {
    let median = match stretch.known {
        known::FIXED => Some(stretch.median),
        known::ALIKE if near(stretch.median, 2 * NOISE_PS).contains(&ps) && (cold || !comes_again(stretch, ps)) => Some(stretch.median),
        _ => None,
    };
    Charge { ps: median.unwrap_or(ps), median }
}

/// What came behind one call.
#[derive(Clone, Copy, Default)]
struct Behind {
    /// 0: the place is free.
    call: u64,
    /// What the last stretches took, ps, and how many there were.
    took: [u64; RECENT],
    seen: u32,
}

/// Those of one process.
pub(crate) struct Stretches {
    tables: Tables,
    behind: Box<[Behind]>,
    /// What is charged is medians, or times of another run.
    medians: bool,
    pooled: Option<Pooled>,
    /// The latter.
    given: bool,
    /// What the simulator was told of the one that goes on, ps.
    promised: u64,
    /// The last MPI call.
    behind_call: Call,
    /// That and the looks behind it: what the stretch that goes on begins with.
    begun: Call,
    /// The calls up to that one.
    way: Way,
    looks: u32,
}

/// What a stretch is said to take, and what it was measured to, ps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub ps: u64,
    /// The median of its like.
    pub median: Option<u64>,
}

fn mix(a: u64, b: u64) -> u64 {
    // Finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    let mut x = a.rotate_left(29) ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).max(1)
}

/// A number for an MPI call, from where and with what the program calls it.
pub(crate) fn call(id: u32, peer: i64, tag: i64, place: u64) -> Call {
    let function = mix(u64::from(id), 3);
    let collective = narrows_mpicalls::CALLS.get(id as usize).is_some_and(narrows_mpicalls::Call::is_collective);
    let collective = if collective { mix(function, place) } else { 0 };
    let parks = narrows_mpicalls::CALLS.get(id as usize).is_some_and(|call| matches!(call.class, Class::Blocking | Class::Outside));
    Call { own: mix(mix(u64::from(id) << 32 ^ peer as u64, tag as u64), place), function, collective, parks }
}

impl Call {
    fn then(self, next: Call) -> Call {
        Call { own: mix(self.own, next.own), function: mix(self.function, next.function), collective: 0, parks: next.parks }
    }
}

/// What has come since the last collective.
#[derive(Default)]
struct Phase {
    collective: u64,
    /// How often that has been, if it is counted.
    step: Option<u32>,
    /// Pairs of functions, 0: the place is free, and how often each was.
    pairs: [(u64, u32); PAIRS],
}

impl Phase {
    /// A number for the stretch between these two, the same on all ranks.
    fn next(&mut self, pair: u64) -> Option<u64> {
        let (_, count) = self.pairs.iter_mut().find(|known| [0, pair].contains(&known.0)).map(|known| {
            *known = (pair, known.1.saturating_add(1));
            *known
        })?;
        (count <= OF_A_PAIR).then(|| mix(mix(self.collective, pair), u64::from(count)))
    }
}

/// The calls that led to where the program is. The last one of six equal waits may be the one behind which it computes
/// for long, and those before it are not.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Some bits of each call before the last one.
    before: u64,
    last: u64,
    /// So many times in a row.
    count: u32,
}

impl Way {
    fn goes_on(&mut self, call: u64) {
        if call == self.last {
            self.count = (self.count + 1).min(IN_A_ROW);
        } else {
            let bits = u64::BITS / BEFORE;
            self.before = self.before << bits | mix(self.last, u64::from(self.count)) >> (u64::BITS - bits);
            (self.last, self.count) = (call, 1);
        }
    }

    fn number(self) -> u64 {
        mix(mix(self.before, self.last), u64::from(self.count))
    }
}

impl Stretches {
    /// Those of this rank, where the simulator reads them if it wants to.
    fn new() -> Option<Stretches> {
        let tables = match std::env::var_os(VARIABLE) {
            Some(path) => Tables::open(Path::new(&path), shared::opened()?.number),
            None => Tables::private(),
        };
        let processor = &attach::shared()?.1.processor;
        let pooled = |path| {
            let (rank, speed) = (shared::opened()?.number, processor.compute_ppm);
            Some(Pooled::new(Pool::open(Path::new(&path)).ok()?, rank, speed))
        };
        let pooled = std::env::var_os(VARIABLE).filter(|_| processor.sampled == 2).and_then(pooled);
        let mut all = Stretches { medians: processor.sampled != 0, pooled, ..Stretches::of(tables.ok()?) };
        all.given = all.tables.of(0).iter().any(|stretch| stretch.known == known::FIXED);
        all.medians |= all.given;
        Some(all)
    }

    fn of(tables: Tables) -> Stretches {
        let behind = vec![Behind::default(); CALLS].into();
        Stretches {
            tables,
            behind,
            given: false,
            medians: true,
            pooled: None,
            promised: 0,
            behind_call: Call::default(),
            begun: Call::default(),
            way: Way::default(),
            looks: 0,
        }
    }

    /// What came behind a call, or a way. Where there is no room the one that was there least often makes it.
    fn behind(&mut self, call: u64) -> &mut Behind {
        let first = call as usize % CALLS;
        let places = || (first..CALLS).chain(0..first).take(8);
        let known = places().find(|&place| [0, call].contains(&self.behind[place].call));
        let place = known.or_else(|| places().min_by_key(|&place| self.behind[place].seen)).unwrap_or(first);
        let behind = &mut self.behind[place];
        if behind.call != call {
            *behind = Behind { call, ..Behind::default() };
        }
        behind
    }

    /// The stretch behind the call and the way that have led to it took so many ps.
    fn came_behind(&mut self, [call, way]: [u64; 2], ps: u64) {
        for key in [call, way] {
            let behind = self.behind(key);
            behind.took[behind.seen as usize % RECENT] = ps;
            behind.seen = behind.seen.saturating_add(1);
        }
    }

    /// By what the stretch that goes on is foreseen.
    fn keys(&self) -> [u64; 2] {
        [self.begun.own, mix(self.begun.own, self.way.number())]
    }

    /// What the stretch that begins now took at least the last times, ps; 0: nobody knows.
    fn expected(&mut self) -> u64 {
        let [call, way] = self.keys();
        let mut least = |key| {
            let behind = self.behind(key);
            (behind.seen as usize >= RECENT).then(|| behind.took.into_iter().min().unwrap_or(0))
        };
        least(way).or_else(|| least(call)).unwrap_or(0)
    }

    /// The same, which it will take at least.
    fn promise(&mut self) -> u64 {
        let expected = self.expected();
        // What all ranks take may be less than it was: all of them must be able to take it.
        self.promised = if self.pooled.is_some() { expected - expected / 8 } else { expected };
        self.promised
    }

    /// The program goes on behind `call`.
    fn begin(&mut self, call: Call) {
        (self.behind_call, self.begun, self.looks) = (call, call, 0);
        self.way.goes_on(call.own);
        if let Some(pooled) = self.pooled.as_mut().filter(|_| call.collective != 0) {
            pooled.begins(call.collective);
        }
    }

    /// What the stretch takes that ends with `call` and was measured to take so many ps. Those below `least` are not
    /// looked at.
    fn end(&mut self, call: Call, ps: u64, least: u64) -> Charge {
        let promised = std::mem::take(&mut self.promised);
        let measured = Charge { ps: ps.max(promised), median: None };
        let (begun, keys, medians) = (self.begun, self.keys(), self.medians);
        let both = begun.then(call);
        let common = self.pooled.as_mut().and_then(|pooled| Some(mix(pooled.phase.next(both.function)?, pooled.speed)));
        self.looks = self.looks.saturating_add(1);
        self.begun = if self.looks < LOOKS { both } else { self.behind_call.then(call) };
        if begun.own == 0 {
            return measured;
        }
        if ps < least {
            self.came_behind(keys, ps);
            return measured;
        }
        let Some(stretch) = place(self.tables.of(0), both.own) else { return measured };
        let new = add(stretch, ps);
        let mut charge = charge(stretch, ps, begun.parks);
        if let (known::ALIKE | known::NOT, Some(common), Some(pooled)) = (stretch.known, common, &mut self.pooled) {
            let twice = stretch.median..=stretch.median.saturating_add(NOISE_PS).saturating_mul(2);
            let is = match charge.median {
                None if stretch.known == known::ALIKE && twice.contains(&ps) && (begun.parks || !comes_again(stretch, ps)) => {
                    Own::Late(stretch.median)
                }
                None => Own::Measured,
                Some(_) if new => Own::NewMedian,
                Some(_) => Own::Median,
            };
            charge.ps = pooled.takes(common, charge.ps, is);
        }
        let ps = if medians { charge.ps } else { ps };
        stretch.took = stretch.took.saturating_add(ps);
        self.came_behind(keys, ps);
        Charge { ps: ps.max(promised), ..charge }
    }
}

/// The program goes on behind `call`.
pub(crate) fn begin(call: Call) {
    with(|stretches| stretches.begin(call));
}

/// Whether stretches take their medians, or what a file gives them.
pub(crate) fn are_charged() -> bool {
    with(|stretches| stretches.medians).unwrap_or(false)
}

/// Whether a file gives what stretches take.
pub(crate) fn are_given() -> bool {
    with(|stretches| stretches.given).unwrap_or(false)
}

/// What the stretch takes that ends with `call`, in simulated time, if it was measured to take so many ps.
pub(crate) fn end(call: Call, ps: u64) -> u64 {
    let Some((_, header)) = attach::shared() else { return ps };
    let ended = |stretches: &mut Stretches| stretches.end(call, ps, if stretches.medians || in_file() { 0 } else { SHORT_PS });
    let Some(charge) = with(ended) else { return ps };
    if let Some(median) = charge.median {
        // By the process only: the simulator reads it at the end.
        let add = |to: &AtomicU64, ps: u64| to.store(to.load(Relaxed) + ps, Relaxed);
        add(&header.alike_ps, charge.ps);
        add(&header.spread_ps, ps.abs_diff(median));
    }
    charge.ps
}

/// What is known of the stretch that begins, for the simulator, which need not wait for its end then.
pub(crate) enum Promise {
    /// It takes its CPU time; so many ps are expected.
    Measured(u64),
    /// It takes at least so many ps. [`end`] keeps that.
    AtLeast(u64),
}

/// What is known beforehand of the stretch that begins now.
pub(crate) fn promise() -> Promise {
    let promise = |stretches: &mut Stretches| match (stretches.given, stretches.medians) {
        // Where simulated time goes on early depends on the host, and with it, by the time of a completion, what a rank
        // finds at once: such a run repeats to the bit. The same where the simulator's clock is not what is charged.
        (true, _) => Promise::AtLeast(0),
        _ if counted_in().is_some() || counts_cycles() => Promise::AtLeast(0),
        (false, true) => Promise::AtLeast(stretches.promise()),
        (false, false) => Promise::Measured(stretches.expected()),
    };
    with(promise).unwrap_or(Promise::AtLeast(0))
}

/// The simulator reads what is kept, or has filled it.
fn in_file() -> bool {
    static IN_FILE: OnceLock<bool> = OnceLock::new();
    *IN_FILE.get_or_init(|| std::env::var_os(VARIABLE).is_some())
}

fn with<T>(read: impl FnOnce(&mut Stretches) -> T) -> Option<T> {
    static ALL: OnceLock<Option<Mutex<Stretches>>> = OnceLock::new();
    let all = ALL.get_or_init(|| Stretches::new().map(Mutex::new)).as_ref()?;
    // A signal handler that looks at the clock meanwhile is measured.
    all.try_lock().ok().map(|mut all| read(&mut all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn stretches() -> Stretches {
        Stretches::of(Tables::private().expect("memory"))
    }

    fn at(number: u64) -> Call {
        Call { own: number, function: number, collective: 0, parks: true }
    }

    /// What steps of one stretch each take that were measured to take `ms`.
    fn steps(ms: &[u64]) -> Vec<u64> {
        let mut stretches = stretches();
        let step = |&ms: &u64| {
            stretches.begin(at(7));
            stretches.end(at(8), ms * MS, 0).ps / MS
        };
        ms.iter().map(step).collect()
    }

    #[test]
    fn equal_work_takes_its_median_from_the_third_time_on() {
        assert_eq!(steps(&[10, 12, 11, 14, 10, 15, 13, 11]), [10, 12, 11, 11, 11, 11, 12, 11]);
    }

    #[test]
    fn a_step_that_does_more_takes_longer() {
        assert_eq!(steps(&[10, 10, 10, 10, 40, 10, 10, 1, 10]), [10, 10, 10, 10, 40, 10, 10, 1, 10]);
    }

    #[test]
    fn work_that_varies_is_measured() {
        let growing: Vec<u64> = (1..=16).map(|step| step * step).collect();
        assert_eq!(steps(&growing), growing);
        let both: Vec<u64> = (0..16).map(|step| if step % 2 == 0 { 10 } else { 20 }).collect();
        assert_eq!(steps(&both)[3..], both[3..]);
    }

    #[test]
    fn work_that_changes_slowly_is_followed() {
        let all: Vec<u64> = (0..200).map(|step| 1000 + 5 * step).collect();
        let taken = steps(&all);
        let late = all.iter().zip(&taken).map(|(all, taken)| all - taken.min(all)).max();
        // Half of what is kept, and what comes until the next median: (31 / 2 + 8) * 5.
        assert!(late <= Some(120), "{late:?}");
    }

    /// Six waits at one place, as a loop over neighbours has: the program computes behind the last one, for long.
    #[test]
    fn the_last_of_equal_calls_is_known_by_those_before() {
        for with_sends in [false, true] {
            let mut stretches = stretches();
            let mut foreseen = Vec::new();
            for step in 0..20 {
                for neighbour in 0..6 {
                    if with_sends {
                        stretches.begin(at(100 + neighbour / 2));
                        stretches.end(at(7), 1, 0);
                    }
                    stretches.begin(at(7));
                    foreseen.push((step, neighbour, stretches.expected() / MS));
                    let next = if with_sends && neighbour < 5 { at(100 + neighbour.div_ceil(2)) } else { at(7) };
                    stretches.end(next, if neighbour == 5 { 3 * MS } else { 1 }, 0);
                }
                stretches.begin(at(9));
                stretches.end(at(100), 1, 0);
            }
            // Once all that is kept of the way has been there four times.
            let right = |&(step, neighbour, ms): &(u32, u64, u64)| step < 9 || ms == if neighbour == 5 { 3 } else { 0 };
            assert!(foreseen.iter().all(right), "{foreseen:?}");
        }
    }

    #[test]
    fn ways_that_never_come_again_do_not_push_out_those_that_do() {
        let mut stretches = stretches();
        for step in 0..20_000 {
            // As many looks in vain as happen to be.
            stretches.begin(at(1_000 + step));
            stretches.end(at(7), 1, 0);
            for _ in 0..8 {
                stretches.begin(at(7));
                stretches.end(at(7), 1, 0);
                stretches.begin(at(8));
                let expected = stretches.expected();
                assert!(step < 10 || expected == 2 * MS, "{step}: {expected}");
                stretches.end(at(7), 2 * MS, 0);
            }
        }
    }

    #[test]
    fn places_calls_and_looks_are_told_apart() {
        let mut stretches = stretches();
        let mut one = |begin: u64, ends: &[(Call, u64)]| -> Vec<u64> {
            stretches.begin(at(begin));
            ends.iter().map(|&(end, ms)| stretches.end(end, ms * MS, 0).ps / MS).collect()
        };
        for _ in 0..5 {
            assert_eq!(one(3, &[(at(4), 10)]), [10]);
            assert_eq!(one(3, &[(at(5), 20)]), [20]);
            assert_eq!(one(4, &[(at(5), 30)]), [30]);
            assert_eq!(one(4, &[(look(0), 40), (look(0), 50), (at(5), 60)]), [40, 50, 60]);
        }
    }

    /// A step has pieces of work with a look at the clock before and after each, as programs with timers have: what all
    /// of it takes is what it is, however many pieces, whatever they take, and from wherever the program looks.
    #[test]
    fn programs_with_timers_take_what_they_compute() {
        const US: u64 = 1_000_000;
        let lengths: [&dyn Fn(u64) -> u64; 4] = [
            &|_| 2 * US,
            &|piece| if piece.is_multiple_of(2) { US } else { 4 * US },
            &|piece| if piece.is_multiple_of(9) { 40 * US } else { US },
            &|piece| (1 + piece % 50) * US,
        ];
        for (which, length) in lengths.iter().enumerate() {
            for pieces in [1, 10, 31, 33, 100, 1000] {
                for places in [[look(5), look(6)], [look(5), look(5)], [look(0), look(0)]] {
                    let mut stretches = stretches();
                    let (mut took, mut takes) = (0, 0);
                    for _ in 0..30 {
                        stretches.begin(at(7));
                        for piece in 0..pieces {
                            for (place, ps) in places.into_iter().zip([US / 20, length(piece)]) {
                                took += ps;
                                takes += stretches.end(place, ps, 0).ps;
                            }
                        }
                        stretches.end(at(8), US / 20, 0);
                    }
                    let within = takes * 100 / took;
                    assert!((95..=105).contains(&within), "{which}, {pieces} pieces, {places:?}: {within} %");
                }
            }
        }
    }

    /// What two ranks take in each step, ns, where a rank measured `ns(rank, step)`.
    fn pooled_steps(ns: impl Fn(usize, usize) -> u64, steps: usize) -> Vec<[u64; 2]> {
        let (_, fd) = Tables::create(2).expect("memory");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let mut ranks = [0, 1].map(|rank| {
            let pool = Pool::open(Path::new(&path)).expect("just made");
            Stretches { pooled: Some(Pooled::new(pool, rank, 1)), ..stretches() }
        });
        let number = |name| narrows_mpicalls::by_name(name).expect("a function of MPI");
        let mut one = |rank: usize, step: usize| {
            // From other places, with other partners, and one has another stretch meanwhile.
            let place = 50 + rank as u64;
            let (receives, sends) = (call(number("MPI_Irecv"), 1, 5, place), call(number("MPI_Isend"), rank as i64, 5, place));
            ranks[rank].begin(call(number("MPI_Allreduce"), -1, -1, 99));
            for _ in 0..=rank {
                ranks[rank].end(receives, MS, 0);
                ranks[rank].begin(receives);
            }
            ranks[rank].end(sends, ns(rank, step) * 1000, 0).ps / 1000
        };
        (0..steps).map(|step| [one(0, step), one(1, step)]).collect()
    }

    /// What they take in the last one, of `steps`, that measured so many ns in each.
    fn pooled(ns: [u64; 2], steps: usize) -> [u64; 2] {
        pooled_steps(|rank, _| ns[rank], steps)[steps - 1]
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn pooled_ranks_that_differ_little_take_the_same() {
        assert_eq!(pooled([1_000_000, 1_100_000], 4), [1_050_000, 1_050_000]);
        assert_eq!(pooled([1_000_000, 1_100_000], 2), [1_000_000, 1_000_000], "no median yet: what the first one took");
        assert_eq!(pooled([1_000_000, 1_400_000], 2), [1_000_000, 1_400_000], "idem, another work");
        assert_eq!(pooled([1_000_000, 1_400_000], 40), [1_000_000, 1_400_000], "another work");
        assert_eq!(pooled([60_000, 75_000], 4), [67_500, 67_500], "cold");
        assert_eq!(pooled([6_000, 15_000], 8), [6_000, 15_000], "too much for its length");
        assert_eq!(pooled([200_000, 260_000], 16), [200_000, 260_000], "too much for being cold");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn pooled_ranks_take_the_same_in_the_same_step() {
        // The one has ever more to do, the other one less; and a busy host has the other one for 40 steps.
        for (what, ns) in [
            ("drift", (|rank, step| [1_000_000 + 500 * step, 1_060_000 - 300 * step][rank] as u64) as fn(usize, usize) -> u64),
            ("busy", |rank, step| if rank == 1 && (60..100).contains(&step) { 1_300_000 } else { 1_000_000 }),
        ] {
            let steps = pooled_steps(ns, 200);
            let differ: Vec<_> = steps.iter().enumerate().filter(|(_, [a, b])| a != b).collect();
            assert!(differ.is_empty(), "{what}: {differ:?}");
        }
        let steps = pooled_steps(|rank, step| if rank == 1 && step >= 100 { 1_400_000 } else { 1_000_000 }, 400);
        assert_eq!((steps[99], steps[399]), ([1_000_000; 2], [1_000_000, 1_400_000]), "work that has grown for good");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn of_pooled_ranks_one_that_is_late_alone_is_not_up_to_twice_its_median() {
        let step = |late: [u64; 2]| pooled_steps(|rank, step| if step == 20 { late[rank] } else { 1_000_000 }, 21)[20];
        assert_eq!(step([1_000_000, 1_900_000]), [1_000_000, 1_000_000], "the host");
        assert_eq!(step([1_000_000, 3_000_000]), [1_000_000, 3_000_000], "another work");
        assert_eq!(step([1_900_000, 1_900_000]), [1_000_000, 1_900_000], "another work of both: all wait for the second one");
        assert_eq!(step([3_100_000, 3_000_000]), [3_100_000, 3_100_000], "and take the same");
    }

    #[test]
    fn what_a_file_says_is_what_it_takes() {
        let mut stretches = stretches();
        let fixed = place(stretches.tables.of(0), mix(7, 8)).expect("room");
        (fixed.known, fixed.median) = (known::FIXED, 5 * MS);
        for ms in [1, 100, 3] {
            stretches.begin(at(7));
            assert_eq!(stretches.end(at(8), ms * MS, 0), Charge { ps: 5 * MS, median: Some(5 * MS) });
        }
    }

    #[test]
    fn nothing_is_known_of_a_program_before_its_first_call_and_with_threads() {
        let mut stretches = stretches();
        for ms in 1..10 {
            stretches.begin(Call::default());
            assert_eq!(stretches.end(at(8), ms * MS, 0).median, None);
        }
    }
}
