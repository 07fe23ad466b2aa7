//! Lanes that arrive one later than the other, in any order: where each has its markers, which one it is, and all of
//! them side by side again (clauses 82.2.12 and 91.5.3.1).

use crate::bits::Bits;

/// What a marker looks like on a lane.
pub trait Marker {
    /// Its bits.
    const BITS: usize;
    /// Wrong markers in a row with which a lane that was locked is lost.
    const LOST: u32;
    /// The number of the lane whose marker stands at `at`.
    fn lane(bits: &Bits, at: usize) -> Option<usize>;
}

/// How far a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// No marker so far: the next place to look at.
    Searching,
    /// One of this lane; the next must be a period later.
    Once(usize),
    /// Two at least, and so many wrong ones since the last good one.
    Locked(usize, u32),
}

#[derive(Clone, Debug)]
struct Lane {
    bits: Bits,
    /// Bits that have been taken away, of all that ever came.
    gone: u64,
    lock: Lock,
    /// Where the last marker stands, or the next place to look at, counted from the first bit that ever came.
    place: u64,
}

/// The lanes of one direction.
#[derive(Clone, Debug)]
pub struct Aligner<M, const N: usize> {
    lanes: Vec<Lane>,
    /// From one marker to the next.
    period: u64,
    /// Bits by which one lane may come later than another.
    skew_max: u64,
    /// The lane on the wire that carries lane n, once all are side by side.
    order: Option<[usize; N]>,
    kind: std::marker::PhantomData<M>,
}

impl<M: Marker, const N: usize> Aligner<M, N> {
    /// None has come yet.
    pub fn new(period: usize, skew_max: usize) -> Self {
        let lane = Lane { bits: Bits::new(), gone: 0, lock: Lock::Searching, place: 0 };
        Aligner { lanes: vec![lane; N], period: period as u64, skew_max: skew_max as u64, order: None, kind: std::marker::PhantomData }
    }

    /// Where what arrives on a lane of the wire goes to.
    pub fn wire(&mut self, lane: usize) -> &mut Bits {
        &mut self.lanes[lane].bits
    }

    /// The lane of the wire that carries each lane, while all are side by side.
    pub fn order(&self) -> Option<[usize; N]> {
        self.order
    }

    /// Lane `number`, from where all are side by side.
    ///
    /// # Panics
    /// They are not.
    pub fn lane(&self, number: usize) -> &Bits {
        &self.lanes[self.order.expect("lanes are side by side")[number]].bits
    }

    /// Bits that all lanes have, once they are side by side.
    pub fn ready(&self) -> Option<usize> {
        self.order?;
        self.lanes.iter().map(|lane| lane.bits.len()).min()
    }

    /// Takes bits off all lanes; `markers`: they began with markers. Whether the lanes are still side by side.
    pub fn take(&mut self, bits: usize, markers: bool) -> bool {
        let Some(order) = self.order else { return false };
        let mut lost = false;
        for (number, &wire) in order.iter().enumerate() {
            let lane = &mut self.lanes[wire];
            if markers {
                let missed = match lane.lock {
                    _ if M::lane(&lane.bits, 0) == Some(number) => 0,
                    Lock::Locked(_, missed) => missed + 1,
                    _ => 1,
                };
                lane.lock = Lock::Locked(number, missed);
                lost |= missed >= M::LOST;
            }
            lane.bits.skip(bits);
            lane.gone += bits as u64;
        }
        if lost {
            self.restart();
        }
        !lost
    }

    /// Looks for the markers of all lanes anew.
    pub fn restart(&mut self) {
        self.order = None;
        for lane in &mut self.lanes {
            (lane.lock, lane.place) = (Lock::Searching, lane.gone);
        }
    }

    /// Looks for markers in what has come, until all lanes are side by side. `true` when they just became so.
    pub fn search(&mut self) -> bool {
        if self.order.is_some() {
            return false;
        }
        for lane in &mut self.lanes {
            while !matches!(lane.lock, Lock::Locked(..)) && lane.step::<M>(self.period) {}
        }
        if let Some(floor) = self.lanes.iter().filter(|lane| !matches!(lane.lock, Lock::Locked(..))).map(|lane| lane.place).min() {
            // The others keep what may be needed, and no more.
            for lane in &mut self.lanes {
                while matches!(lane.lock, Lock::Locked(..)) && lane.place + self.period <= floor && lane.step::<M>(self.period) {}
            }
            return false;
        }
        let mut order = [usize::MAX; N];
        for (wire, lane) in self.lanes.iter().enumerate() {
            let Lock::Locked(number, _) = lane.lock else { return false };
            order[number] = wire;
        }
        if order.contains(&usize::MAX) {
            // Two lanes of the same number: one is wrong, and nobody knows which.
            self.restart_behind();
            return false;
        }
        let last = self.lanes.iter().map(|lane| lane.place).max().unwrap_or(0);
        // The marker of each lane that is nearest to it.
        let near = |place: u64| place + (last - place + self.period / 2) / self.period * self.period;
        let (first, last) = self.lanes.iter().map(|lane| near(lane.place)).fold((u64::MAX, 0), |(a, b), p| (a.min(p), b.max(p)));
        if last - first > self.skew_max {
            self.restart_behind();
            return false;
        }
        if self.lanes.iter().any(|lane| near(lane.place) > lane.gone + lane.bits.len() as u64) {
            return false;
        }
        let places: Vec<u64> = self.lanes.iter().map(|lane| near(lane.place)).collect();
        for (lane, place) in self.lanes.iter_mut().zip(places) {
            lane.drop_before(place);
        }
        self.order = Some(order);
        true
    }

    /// From the markers found so far there is no way on: behind them.
    fn restart_behind(&mut self) {
        for lane in &mut self.lanes {
            lane.lock = Lock::Searching;
            lane.place += 1;
        }
    }
}

impl Lane {
    fn drop_before(&mut self, place: u64) {
        self.bits.skip((place - self.gone) as usize);
        self.gone = place;
    }

    /// Looks at the next place where a marker may be; `false` when that has not come yet.
    fn step<M: Marker>(&mut self, period: u64) -> bool {
        let next = if self.lock == Lock::Searching { self.place } else { self.place + period };
        if next + M::BITS as u64 > self.gone + self.bits.len() as u64 {
            return false;
        }
        let found = M::lane(&self.bits, (next - self.gone) as usize);
        (self.lock, self.place) = match (self.lock, found) {
            (Lock::Searching, None) => (Lock::Searching, next + 1),
            (Lock::Searching, Some(number)) => (Lock::Once(number), next),
            (Lock::Once(number) | Lock::Locked(number, _), Some(again)) if again == number => (Lock::Locked(number, 0), next),
            (Lock::Locked(number, missed), _) if missed + 1 < M::LOST => (Lock::Locked(number, missed + 1), next),
            _ => (Lock::Searching, self.place + 1),
        };
        // What comes before is of no use to anybody.
        if self.place > self.gone + 4096 || self.lock != Lock::Searching {
            self.drop_before(self.place);
        }
        true
    }
}
