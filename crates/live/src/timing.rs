//! Other timings of the same run: messages that take longer, ranks that are slower or begin later.
//!
//! Everything here is legal: a message may take any time, and messages of one rank to another one stay in order. The
//! delays come from named streams of one seed, so a run is a function of program, machine and timing.

use narrows_channel::layout::EPOCH_PS;
use narrows_engine::random::{Stream, stream};
use narrows_message::Call;
use narrows_portals::ProcessId;
use narrows_units::SimTime;
use std::collections::BTreeMap;

/// Messages from one rank to another one that take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Those that are sent from this time on.
    pub since: SimTime,
    /// So much.
    pub by: SimTime,
}

/// How messages are delayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Of the streams.
    pub seed: u64,
    /// Each message takes up to so much longer.
    pub latency: SimTime,
    /// Those of these ranks only.
    pub only: Option<Vec<u32>>,
    /// Some messages take longer than that.
    pub delays: Vec<Delay>,
}

/// A call needs less to write its message: our own choice, a copy of an eager message takes some microseconds.
const LONGEST_CALL: SimTime = SimTime::from_us(100);

/// Delays the sends of a run.
pub struct Delayer {
    timing: Timing,
    ranks: BTreeMap<ProcessId, u32>,
    streams: Vec<Stream>,
    /// By sender and receiver: when the last message was written, and when it went.
    pairs: BTreeMap<(u32, u32), (u64, u64)>,
}

impl Delayer {
    /// `places[i]` is where rank i is.
    pub fn new(timing: Timing, places: &[ProcessId]) -> Delayer {
        let ranks = places.iter().copied().zip(0..).collect();
        let streams = (0..places.len() as u64).map(|rank| stream(timing.seed, "timing: latency", rank)).collect();
        Delayer { timing, ranks, streams, pairs: BTreeMap::new() }
    }

    /// When a call that `rank` has made at `time` (ps) takes effect.
    pub fn time(&mut self, rank: u32, time: u64, words: &[u64; narrows_message::CALL_WORDS]) -> u64 {
        let Ok(Call::Send(send)) = Call::from_words(words) else { return time };
        let Some(&to) = self.ranks.get(&send.target) else { return time };
        let (written, went) = self.pairs.get(&(rank, to)).copied().unwrap_or_default();
        let mut at = time;
        if self.timing.latency > SimTime::ZERO && self.timing.only.as_ref().is_none_or(|only| only.contains(&rank)) {
            at = at.saturating_add(self.streams[rank as usize].below(self.timing.latency.as_ps() + 1));
        }
        for delay in &self.timing.delays {
            if delay.from == rank && delay.to == to && time >= EPOCH_PS.saturating_add(delay.since.as_ps()) {
                at = at.saturating_add(delay.by.as_ps());
            }
        }
        // They do not overtake each other (MPI 4.1, section 3.5). What a call does before its message is on the way, a
        // copy for example, is over when the next one is written.
        at = at.max(went.saturating_add(time.saturating_sub(written).min(LONGEST_CALL.as_ps())));
        self.pairs.insert((rank, to), (time, at));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_message::{Completes, Queue, Send};

    fn send(target: u32) -> [u64; narrows_message::CALL_WORDS] {
        let target = ProcessId { nid: target, pid: 0 };
        let (queue, completes) = (Queue::Tagged, Completes::BufferFree);
        Call::Send(Send { queue, target, tag: 0, data: None, buffer: 0, length: 8, context: 0, inject: true, completes }).to_words()
    }

    fn places() -> Vec<ProcessId> {
        (0..3).map(|nid| ProcessId { nid, pid: 0 }).collect()
    }

    #[test]
    fn messages_of_a_pair_stay_in_order_and_repeat() {
        let timing = Timing { seed: 3, latency: SimTime::from_us(1), ..Timing::default() };
        let mut delayer = Delayer::new(timing.clone(), &places());
        let mut again = Delayer::new(timing, &places());
        let mut last = [0; 3];
        let mut late = std::collections::BTreeSet::new();
        for index in 0..1000u64 {
            let (to, time) = ((index % 2) as usize + 1, index * 100_000);
            let at = delayer.time(0, time, &send(to as u32));
            assert_eq!(at, again.time(0, time, &send(to as u32)));
            // The next one is written at least so much later, and goes so much later.
            assert!(index < 2 || at >= last[to] + 200_000, "{index}");
            assert!(at >= time && at <= time + SimTime::from_us(1).as_ps());
            last[to] = at;
            late.insert(at - time);
        }
        assert!(late.len() > 3);
        // After a pause it need not be as late as before.
        let pause = SimTime::from_us(10_000).as_ps();
        let later: Vec<u64> = (1..100).map(|index| delayer.time(0, index * pause, &send(1)) - index * pause).collect();
        assert!(!later.is_sorted());
    }

    #[test]
    fn a_delay_is_of_one_pair_from_one_time_on() {
        let delays = vec![Delay { from: 0, to: 1, since: SimTime(100), by: SimTime(500) }];
        let mut delayer = Delayer::new(Timing { delays, ..Timing::default() }, &places());
        let mut after = |rank, time, to| delayer.time(rank, EPOCH_PS + time, &send(to)) - EPOCH_PS;
        assert_eq!(after(0, 99, 1), 99);
        assert_eq!(after(0, 100, 1), 600);
        assert_eq!(after(0, 100, 2), 100);
        assert_eq!(after(2, 100, 1), 100);
    }
}
