//! A network driven by itself: an event queue, a list of notices and their digest.

use crate::{ConfigError, Event, Network, NetworkConfig, Notice, Out, Transfer, Tree};
use narrows_engine::{Digest, EventQueue};
use narrows_topology::Topology;
use narrows_units::SimTime;
use std::sync::Arc;

#[derive(Debug, Default)]
struct Sink {
    queue: EventQueue<Event>,
    notices: Vec<(SimTime, Notice)>,
    digest: Digest,
    now: SimTime,
    keep: bool,
}

impl Out for Sink {
    #[inline]
    fn schedule(&mut self, at: SimTime, source: u32, event: Event) {
        self.queue.schedule(at, source, event);
    }

    fn notice(&mut self, notice: Notice) {
        let (kind, id) = match notice {
            Notice::SourceDone(id) => (0, id),
            Notice::HeadArrived(id) => (1, id),
            Notice::TailArrived(id) => (2, id),
        };
        self.digest.event(self.now, kind << 32 | u64::from(id.0));
        if self.keep {
            self.notices.push((self.now, notice));
        }
    }
}

/// A network with a clock.
#[derive(Debug)]
pub struct Driver {
    network: Network,
    sink: Sink,
}

impl Driver {
    /// At time zero, empty.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Driver, ConfigError> {
        Ok(Driver { network: Network::new(config, topology)?, sink: Sink { keep: true, ..Sink::default() } })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The time.
    pub fn now(&self) -> SimTime {
        self.sink.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.sink.queue.processed()
    }

    /// Keep no list of notices from here on; the digest goes on.
    pub fn forget_notices(&mut self) {
        self.sink.keep = false;
        self.sink.notices.clear();
    }

    /// Every notice so far and its time.
    pub fn notices(&self) -> &[(SimTime, Notice)] {
        &self.sink.notices
    }

    /// The digest of the notices so far.
    pub fn digest(&self) -> u64 {
        self.sink.digest.value()
    }

    /// Starts a transfer now.
    pub fn start(&mut self, transfer: Transfer) {
        self.network.start(self.sink.now, transfer, &mut self.sink);
    }

    /// Starts a multicast now; see [`Network::multicast`].
    pub fn multicast(&mut self, tree: &Arc<Tree>, transfers: &[Transfer]) {
        self.network.multicast(self.sink.now, tree, transfers, &mut self.sink);
    }

    /// See [`Network::rest`].
    pub fn rest(&mut self) {
        self.network.rest();
    }

    /// Handles the next event, if there is one.
    pub fn step(&mut self) -> bool {
        let Some((now, event)) = self.sink.queue.pop() else {
            return false;
        };
        self.sink.now = now;
        self.network.handle(now, event, &mut self.sink);
        true
    }

    /// Handles the next event if it comes before `time`; else moves the clock there and says false.
    pub fn step_until(&mut self, time: SimTime) -> bool {
        if self.sink.queue.next_time().is_some_and(|next| next < time) {
            return self.step();
        }
        self.sink.now = self.sink.now.max(time);
        false
    }

    /// Handles events until `time` (those at it too) and moves the clock there.
    pub fn run_until(&mut self, time: SimTime) {
        while self.sink.queue.next_time().is_some_and(|next| next <= time) {
            self.step();
        }
        self.sink.now = self.sink.now.max(time);
    }

    /// Handles events until there are none.
    pub fn run(&mut self) {
        while self.step() {}
    }
}
