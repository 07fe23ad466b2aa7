//! What happens when: MPI calls of ranks, messages, and the stages of NICs, in a part of simulated time.
//!
//! * [`Timeline`] — shared by all who see something happen. They ask for it once; without one nothing is recorded.
//! * [`Recorded`] — [`Call`]s and [`Transfer`]s, at most as many as [`Window::limit`] allows.
//! * [`perfetto`] — the same as a trace for [Perfetto](https://perfetto.dev).
//!
//! ```
//! use narrows_timeline::{Call, Departure, Timeline, Window};
//! use narrows_units::SimTime;
//!
//! let timeline = Timeline::new(Window::default());
//! timeline.begin(SimTime::ZERO);
//! let (begin, end) = (SimTime::ZERO, SimTime::from_us(1));
//! timeline.call(Call { rank: 0, name: "MPI_Send", begin, end, ..Call::default() });
//! let put = Departure { kind: "put", request: Some(0), from_node: 0, to_node: 1, ..Departure::default() };
//! timeline.departs(SimTime::from_ns(300), 7, put);
//! timeline.head(SimTime::from_ns(900), 0, 7);
//! timeline.tail(SimTime::from_ns(950), 0, 7);
//! let recorded = timeline.finish();
//! assert_eq!((recorded.calls.len(), recorded.transfers.len(), recorded.ended), (1, 1, None));
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod perfetto;

use narrows_engine::WordMap;
use narrows_units::SimTime;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// No rank, no peer, no tag.
pub const NONE: i64 = -1;
/// Any rank, any tag.
pub const ANY: i64 = -2;
/// Slices of a timeline at most, unless the user says otherwise: a file of some 60 MB, which Perfetto's page shows
/// without effort. Our own choice.
pub const LIMIT: u64 = 1_000_000;

/// The name of a [`Call`] of a replay in which a rank computes.
pub const COMPUTE: &str = "compute";
/// ... in which an accelerator computes for it.
pub const ACCELERATOR: &str = "compute on an accelerator";

/// Whether a [`Call`] of this name is one of these two.
pub fn computes(name: &str) -> bool {
    name == COMPUTE || name == ACCELERATOR
}

/// Which part of simulated time is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What ends before is left out.
    pub from: SimTime,
    /// What begins at it or later is left out.
    pub to: SimTime,
    /// Slices at most: one for a call, two for a message.
    pub limit: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window { from: SimTime::ZERO, to: SimTime::MAX, limit: LIMIT }
    }
}

/// A call of MPI, or an operation of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Whose.
    pub rank: u32,
    /// What.
    pub name: &'static str,
    /// When it began, on the rank's clock.
    pub begin: SimTime,
    /// When it returned.
    pub end: SimTime,
    /// How much of that the rank waited.
    pub waited: SimTime,
    /// The other rank; [`NONE`], [`ANY`].
    pub peer: i64,
    /// Tag; [`NONE`], [`ANY`].
    pub tag: i64,
}

/// A message as its NIC gives it to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// `put`, `get`, `atomic`, or what comes back: `reply`, `ack`.
    pub kind: &'static str,
    /// Its number at its NIC, if it is a request, for the answer to name.
    pub request: Option<u32>,
    /// That of the request at `to_port`, if it is an answer.
    pub answers: u32,
    /// The port of the NIC that sends. A node has one for each of its NICs.
    pub from_port: u32,
    /// The port of the NIC that receives.
    pub to_port: u32,
    /// The node that sends.
    pub from_node: u32,
    /// The node that receives.
    pub to_node: u32,
    /// The rank that has asked for it, if it is a request.
    pub from_rank: u32,
    /// The rank whose memory is meant, if it is a request.
    pub to_rank: u32,
    /// Of payload.
    pub bytes: u64,
    /// What tells requests of one rank apart, see [`Timeline::posts`].
    pub key: [u64; 4],
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// See [`Departure::kind`].
    pub kind: &'static str,
    /// A put, get or atomic; else the answer to one.
    pub request: bool,
    /// The sender's NIC.
    pub from_node: u32,
    /// The receiver's.
    pub to_node: u32,
    /// The rank whose data, or question, it is; `u32::MAX`: not known.
    pub from_rank: u32,
    /// The rank that it is for; `u32::MAX`: not known.
    pub to_rank: u32,
    /// Of payload.
    pub bytes: u64,
    /// When the rank wrote the command; `None` of what a NIC does by itself (answers, what is triggered, repeated).
    pub posted: Option<SimTime>,
    /// When the NIC began to give it to the network.
    pub begin: SimTime,
    /// When the NIC had read all of its payload; as `begin` where it reads nothing.
    pub sent: SimTime,
    /// When the other NIC noticed its header; `None`: it was still under way.
    pub head: Option<SimTime>,
    /// When the other NIC had all of it.
    pub tail: Option<SimTime>,
}

impl Transfer {
    fn slices(&self) -> u64 {
        1 + u64::from(self.head.is_some())
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// In the order in which their ends became known.
    pub calls: Vec<Call>,
    /// In the order of their ends.
    pub transfers: Vec<Transfer>,
    /// When the limit was reached: what came after it is left out.
    pub ended: Option<SimTime>,
}

impl Recorded {
    /// Puts, gets and atomics.
    pub fn messages(&self) -> u64 {
        self.transfers.iter().filter(|transfer| transfer.request).count() as u64
    }

    /// Slices: calls, and what NICs send and receive.
    pub fn slices(&self) -> u64 {
        self.calls.len() as u64 + self.transfers.iter().map(Transfer::slices).sum::<u64>()
    }
}

/// What a rank has asked its NIC for, and when.
type Posted = ([u64; 4], SimTime);

#[derive(Debug, Default)]
struct Recorder {
    window: Window,
    /// The start of simulated time, while there is one.
    epoch: Option<SimTime>,
    recorded: Recorded,
    slices: u64,
    /// By port of the sender, and its number there.
    under_way: WordMap<u64, Transfer>,
    /// By port and number: ranks of the requests that answers may come to.
    asked: WordMap<u64, (u32, u32)>,
    /// By rank.
    posted: Vec<VecDeque<Posted>>,
}

fn pair(port: u32, number: u32) -> u64 {
    u64::from(port) << 32 | u64::from(number)
}

impl Recorder {
    /// Time since the start; `None`: it is not recorded.
    fn since(&self, now: SimTime) -> Option<SimTime> {
        let epoch = self.epoch?;
        if self.recorded.ended.is_some() { None } else { Some(now.saturating_sub(epoch)) }
    }

    /// Room for so many slices more; from the first time that there is none, nothing is recorded.
    fn takes(&mut self, slices: u64, now: SimTime) -> bool {
        let room = self.slices + slices <= self.window.limit;
        if room {
            self.slices += slices;
        } else {
            self.recorded.ended = Some(now);
        }
        room
    }

    /// It is over, or nothing more will be known of it.
    fn keep(&mut self, transfer: Transfer) {
        if transfer.tail.unwrap_or(SimTime::MAX) >= self.window.from {
            self.recorded.transfers.push(transfer);
        } else {
            self.slices -= 2;
        }
    }
}

/// Records what it is told. A clone records into the same place.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<Mutex<Recorder>>);

impl Timeline {
    /// Of this part of simulated time.
    pub fn new(window: Window) -> Timeline {
        Timeline(Arc::new(Mutex::new(Recorder { window, ..Recorder::default() })))
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulated time begins at `epoch`.
    pub fn begin(&self, epoch: SimTime) {
        self.recorder().epoch = Some(epoch);
    }

    /// A call is over, with times from the start of simulated time.
    pub fn call(&self, call: Call) {
        let mut recorder = self.recorder();
        let Window { from, to, .. } = recorder.window;
        if recorder.recorded.ended.is_none() && call.end >= from && call.begin < to && recorder.takes(1, call.end) {
            recorder.recorded.calls.push(call);
        }
    }

    /// A rank wrote a command at `written` for a message with this key.
    pub fn posts(&self, written: SimTime, rank: u32, key: [u64; 4]) {
        let mut recorder = self.recorder();
        let Some(written) = recorder.since(written) else { return };
        let rank = rank as usize;
        if recorder.posted.len() <= rank {
            recorder.posted.resize_with(rank + 1, VecDeque::new);
        }
        recorder.posted[rank].push_back((key, written));
    }

    /// A NIC begins to give a message to the network, which is `number` for its sender.
    pub fn departs(&self, now: SimTime, number: u32, departure: Departure) {
        let mut recorder = self.recorder();
        let Some(now) = recorder.since(now) else { return };
        let Departure { kind, request, answers, from_port, to_port, from_node, to_node, bytes, key, .. } = departure;
        let (from_rank, to_rank) = match request {
            Some(serial) => {
                recorder.asked.insert(pair(from_port, serial), (departure.from_rank, departure.to_rank));
                (departure.from_rank, departure.to_rank)
            }
            None => {
                let asked = recorder.asked.remove(&pair(to_port, answers));
                asked.map_or((u32::MAX, u32::MAX), |(from, to)| (to, from))
            }
        };
        let posted = request.and_then(|_| {
            let posted = recorder.posted.get_mut(from_rank as usize)?;
            let place = posted.iter().position(|(of, _)| *of == key)?;
            posted.remove(place).map(|(_, written)| written)
        });
        if now >= recorder.window.to || !recorder.takes(2, now) {
            return;
        }
        let request = request.is_some();
        let transfer = Transfer {
            kind,
            request,
            from_node,
            to_node,
            from_rank,
            to_rank,
            bytes,
            posted,
            begin: now,
            sent: now,
            head: None,
            tail: None,
        };
        recorder.under_way.insert(pair(from_port, number), transfer);
    }

    /// The sender's NIC has read all of its payload.
    pub fn sent(&self, now: SimTime, from_port: u32, number: u32) {
        let mut recorder = self.recorder();
        let Some(epoch) = recorder.epoch else { return };
        if let Some(transfer) = recorder.under_way.get_mut(&pair(from_port, number)) {
            transfer.sent = now.saturating_sub(epoch);
        }
    }

    /// The receiver's NIC notices its header.
    pub fn head(&self, now: SimTime, from_port: u32, number: u32) {
        let mut recorder = self.recorder();
        let Some(epoch) = recorder.epoch else { return };
        if let Some(transfer) = recorder.under_way.get_mut(&pair(from_port, number)) {
            transfer.head = Some(now.saturating_sub(epoch));
        }
    }

    /// The receiver's NIC has all of it.
    pub fn tail(&self, now: SimTime, from_port: u32, number: u32) {
        let mut recorder = self.recorder();
        let Some(epoch) = recorder.epoch else { return };
        if let Some(transfer) = recorder.under_way.remove(&pair(from_port, number)) {
            recorder.keep(Transfer { tail: Some(now.saturating_sub(epoch)), ..transfer });
        }
    }

    /// Everything that was recorded; nothing is from now on.
    pub fn finish(&self) -> Recorded {
        let mut recorder = self.recorder();
        let mut rest: Vec<Transfer> = std::mem::take(&mut recorder.under_way).into_values().collect();
        rest.sort_unstable_by_key(|transfer| (transfer.begin, transfer.from_node, transfer.to_node, transfer.bytes, transfer.sent));
        rest.into_iter().for_each(|transfer| recorder.keep(transfer));
        recorder.epoch = None;
        std::mem::take(&mut recorder.recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begin: u64, end: u64) -> Call {
        Call { name: "MPI_Barrier", begin: SimTime(begin), end: SimTime(end), ..Call::default() }
    }

    #[test]
    fn what_overlaps_the_window_is_kept() {
        let timeline = Timeline::new(Window { from: SimTime(100), to: SimTime(200), limit: LIMIT });
        timeline.begin(SimTime::ZERO);
        // Before, into, inside, around, out of, at the end.
        for (begin, end) in [(0, 99), (50, 100), (120, 130), (0, 300), (199, 250), (200, 210)] {
            timeline.call(call(begin, end));
        }
        let kept: Vec<(u64, u64)> = timeline.finish().calls.iter().map(|call| (call.begin.0, call.end.0)).collect();
        assert_eq!(kept, [(50, 100), (120, 130), (0, 300), (199, 250)]);
    }

    #[test]
    fn the_limit_ends_it_and_says_when() {
        let timeline = Timeline::new(Window { limit: 3, ..Window::default() });
        timeline.begin(SimTime(1_000));
        timeline.call(call(0, 10));
        timeline.departs(SimTime(1_020), 1, Departure { kind: "put", request: Some(1), ..Departure::default() });
        timeline.call(call(30, 40));
        timeline.tail(SimTime(1_050), 0, 1);
        timeline.call(call(50, 60));
        let recorded = timeline.finish();
        assert_eq!((recorded.calls.len(), recorded.transfers.len(), recorded.ended), (1, 1, Some(SimTime(40))));
        assert_eq!(recorded.transfers[0].tail, Some(SimTime(50)));
    }

    #[test]
    fn a_post_finds_its_message_and_an_answer_its_request() {
        let timeline = Timeline::new(Window::default());
        timeline.begin(SimTime::ZERO);
        timeline.posts(SimTime(5), 3, [1, 0, 0, 0]);
        timeline.posts(SimTime(6), 3, [2, 0, 0, 0]);
        let get = Departure { kind: "get", from_port: 3, to_port: 4, from_rank: 3, to_rank: 8, ..Departure::default() };
        // The second one passes the first.
        timeline.departs(SimTime(20), 1, Departure { request: Some(11), key: [2, 0, 0, 0], ..get });
        timeline.departs(SimTime(30), 2, Departure { request: Some(12), key: [1, 0, 0, 0], ..get });
        timeline.tail(SimTime(40), 3, 1);
        timeline.tail(SimTime(41), 3, 2);
        timeline.departs(
            SimTime(50),
            1,
            Departure { kind: "reply", answers: 12, from_port: 4, to_port: 3, bytes: 64, ..Departure::default() },
        );
        timeline.tail(SimTime(60), 4, 1);
        let recorded = timeline.finish();
        let posted: Vec<_> = recorded.transfers.iter().map(|transfer| transfer.posted).collect();
        assert_eq!(posted, [Some(SimTime(6)), Some(SimTime(5)), None]);
        let answer = recorded.transfers[2];
        assert_eq!((answer.from_rank, answer.to_rank, answer.request, recorded.messages()), (8, 3, false, 2));
    }

    #[test]
    fn two_nics_of_a_node_count_for_themselves() {
        let timeline = Timeline::new(Window::default());
        timeline.begin(SimTime::ZERO);
        let put = Departure { kind: "put", request: Some(1), from_node: 5, to_node: 6, ..Departure::default() };
        for (port, bytes) in [(10, 100), (11, 200)] {
            timeline.departs(SimTime(20), 1, Departure { from_port: port, to_port: port + 2, from_rank: port, bytes, ..put });
        }
        timeline.tail(SimTime(30), 11, 1);
        timeline.tail(SimTime(40), 10, 1);
        let answer = Departure { kind: "ack", answers: 1, from_node: 6, to_node: 5, ..Departure::default() };
        timeline.departs(SimTime(50), 1, Departure { from_port: 13, to_port: 11, ..answer });
        let recorded = timeline.finish();
        let seen: Vec<_> = recorded.transfers.iter().map(|transfer| (transfer.bytes, transfer.tail, transfer.to_rank)).collect();
        assert_eq!(seen, [(200, Some(SimTime(30)), 0), (100, Some(SimTime(40)), 0), (0, None, 11)]);
    }

    #[test]
    fn what_is_still_under_way_at_the_end_has_no_tail() {
        let timeline = Timeline::new(Window::default());
        timeline.begin(SimTime::ZERO);
        timeline.departs(SimTime(20), 1, Departure { kind: "put", request: Some(1), ..Departure::default() });
        let recorded = timeline.finish();
        assert_eq!((recorded.transfers[0].tail, recorded.slices()), (None, 1));
    }
}
