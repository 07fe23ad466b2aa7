//! A replay over time: what each application gets, and what waits in the switches for it.
//!
//! Time is cut into periods that begin with simulated time. Messages count in the period in which their receive ends,
//! packets in the one in which they are through. Packets and queues are seen on the packet network only, and links not
//! with LogGP; packets belong to the application of the node that sent them, and to none where several applications
//! share it.

use crate::machine::Ranks;
use narrows_fabric::{Observer, PacketArrival};
use narrows_sim::World;
use narrows_topology::Topology;
use narrows_traffic::Telemetry;
use narrows_units::{NodeId, SimTime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An application in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Messages received.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum and maximum of their completion times.
    pub fct_sum: SimTime,
    /// The longest.
    pub fct_max: SimTime,
    /// Bytes of packets that arrived, headers included.
    pub wire_bytes: u64,
    /// Packets that waited in switches, averaged over the period.
    pub queued: f64,
}

/// What was seen, when the replay is over.
#[derive(Debug)]
pub struct Seen {
    /// Length of a period.
    pub period: SimTime,
    /// By application and period.
    pub applications: Vec<Vec<Interval>>,
    /// Queues and links; none of the LogGP network, and of the flow network no queues.
    pub telemetry: Option<Telemetry>,
    /// Packets were seen.
    pub packets: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    packets: u64,
    since: u64,
    integral: u64,
}

impl Waiting {
    fn move_to(&mut self, now: u64) {
        self.integral += self.packets * (now - self.since);
        self.since = now;
    }
}

/// No application, or several.
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
struct State {
    telemetry: Telemetry,
    /// By node.
    application: Vec<u32>,
    waiting: Vec<Waiting>,
    intervals: Vec<Vec<Interval>>,
    period: u64,
    epoch: u64,
}

fn interval(intervals: &mut Vec<Interval>, period: u64, since_epoch: u64) -> &mut Interval {
    let index = (since_epoch / period) as usize;
    if intervals.len() <= index {
        intervals.resize(index + 1, Interval::default());
    }
    &mut intervals[index]
}

/// The observer: a network wants one of its own.
struct Eye(Arc<Mutex<State>>);

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Eye {
    fn sent(&mut self, link: u32, _lane: u32, _wire: u32, _at: SimTime, duration: SimTime) {
        lock(&self.0).telemetry.sent(link, duration.as_ps());
    }

    fn flows(&mut self, link: u32, share: u64, at: SimTime) {
        lock(&self.0).telemetry.flows(link, share, at.as_ps());
    }

    fn queued(&mut self, link: u32, lane: u32, source: u32, wire: u32, at: SimTime, joins: bool) {
        let state = &mut *lock(&self.0);
        state.telemetry.queued(link, lane, wire, at.as_ps(), joins);
        let application = state.application[source as usize];
        if let Some(waiting) = state.waiting.get_mut(application as usize) {
            waiting.move_to(at.as_ps());
            if joins { waiting.packets += 1 } else { waiting.packets -= 1 }
        }
    }

    fn stalled(&mut self, link: u32) {
        lock(&self.0).telemetry.stalled(link);
    }

    fn paused(&mut self, link: u32, _lane: u32, pauses: bool) {
        if pauses {
            lock(&self.0).telemetry.paused(link);
        }
    }

    fn lost(&mut self, link: u32, _wire: u32) {
        lock(&self.0).telemetry.lost(link);
    }

    fn packet(&mut self, packet: &PacketArrival) {
        let state = &mut *lock(&self.0);
        state.telemetry.arrived(packet);
        let application = state.application[packet.arrival.source as usize];
        if let Some(intervals) = state.intervals.get_mut(application as usize) {
            let since = packet.through.as_ps().saturating_sub(state.epoch);
            interval(intervals, state.period, since).wire_bytes += u64::from(packet.wire);
        }
    }
}

/// Watches a replay.
#[derive(Debug)]
pub struct Watch {
    state: Arc<Mutex<State>>,
    packets: bool,
    links: bool,
    /// Of messages: bins of their own, so that no lock is taken for them.
    messages: Vec<Vec<Interval>>,
    period: u64,
    epoch: u64,
    next: u64,
}

impl Watch {
    /// Watches the network of `world`, on which the ranks of application i are on `nodes[i]`, in periods of `period`.
    /// `lanes`: virtual networks times channels.
    ///
    /// # Panics
    /// When the period is zero.
    pub(crate) fn new(world: &mut World<Ranks>, topology: Arc<Topology>, lanes: u32, nodes: &[Vec<NodeId>], period: SimTime) -> Watch {
        assert!(period > SimTime::ZERO, "a period takes time");
        let mut application = vec![NOBODY; topology.hosts() as usize];
        let mut shared = vec![false; application.len()];
        for (index, nodes) in (0u32..).zip(nodes) {
            for &node in nodes {
                shared[node.index()] |= ![NOBODY, index].contains(&application[node.index()]);
                application[node.index()] = index;
            }
        }
        application.iter_mut().zip(shared).filter(|(_, shared)| *shared).for_each(|(application, _)| *application = NOBODY);
        let state = Arc::new(Mutex::new(State {
            telemetry: Telemetry::new(topology, lanes),
            application,
            waiting: vec![Waiting::default(); nodes.len()],
            intervals: vec![Vec::new(); nodes.len()],
            period: period.as_ps(),
            epoch: 0,
        }));
        let packets = world.has_packets();
        let links = world.observe(Box::new(Eye(Arc::clone(&state))));
        let messages = vec![Vec::new(); nodes.len()];
        Watch { state, packets, links, messages, period: period.as_ps(), epoch: 0, next: u64::MAX }
    }

    /// Simulated time starts. What set-up did does not count.
    pub(crate) fn begin(&mut self, epoch: SimTime) {
        (self.epoch, self.next) = (epoch.as_ps(), epoch.as_ps() + self.period);
        let state = &mut *lock(&self.state);
        state.epoch = self.epoch;
        state.telemetry.begin(self.epoch);
        state.waiting.iter_mut().for_each(|waiting| waiting.since = epoch.as_ps());
    }

    /// The end of the period.
    pub(crate) fn next(&self) -> SimTime {
        SimTime(self.next)
    }

    /// Nothing happens before `time` any more: periods that end by then are over.
    #[inline]
    pub(crate) fn reach(&mut self, time: SimTime) {
        while time.as_ps() > self.next {
            self.sample();
        }
    }

    fn sample(&mut self) {
        let state = &mut *lock(&self.state);
        state.telemetry.sample(self.next);
        let since = self.next - self.period - self.epoch;
        for (waiting, intervals) in state.waiting.iter_mut().zip(&mut state.intervals) {
            waiting.move_to(self.next);
            let integral = std::mem::take(&mut waiting.integral);
            interval(intervals, self.period, since).queued = integral as f64 / self.period as f64;
        }
        self.next += self.period;
    }

    /// An application has received a message, at `at` from the beginning of simulated time.
    pub(crate) fn received(&mut self, application: usize, bytes: u64, at: SimTime, fct: SimTime) {
        let interval = interval(&mut self.messages[application], self.period, at.as_ps());
        interval.messages += 1;
        interval.bytes += bytes;
        interval.fct_sum += fct;
        interval.fct_max = interval.fct_max.max(fct);
    }

    /// The replay is over, at `end` from the beginning of simulated time.
    pub(crate) fn finish(mut self, end: SimTime) -> Seen {
        while self.next < self.epoch.saturating_add(end.as_ps()).saturating_add(self.period) {
            self.sample();
        }
        let state = &mut *lock(&self.state);
        let mut applications = std::mem::take(&mut self.messages);
        for (all, packets) in applications.iter_mut().zip(&state.intervals) {
            let length = all.len().max(packets.len());
            all.resize(length, Interval::default());
            for (one, other) in all.iter_mut().zip(packets) {
                (one.wire_bytes, one.queued) = (other.wire_bytes, other.queued);
            }
        }
        let nothing = Telemetry::new(state.telemetry.topology(), 1);
        let telemetry = std::mem::replace(&mut state.telemetry, nothing);
        Seen { period: SimTime(self.period), applications, telemetry: self.links.then_some(telemetry), packets: self.packets }
    }
}
