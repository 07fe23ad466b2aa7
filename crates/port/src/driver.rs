//! A network driven by itself, in one region: a list of what is told, for tests and benches.

use crate::HostPorts;
use narrows_fabric::packet::AuditError;
use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{
    Arrival, ConfigError, NetworkConfig, Notice, Observer, Statistics, Transfer, TransferId, Tree, TreeError, Undelivered, ZeroLoad,
};
use narrows_topology::Topology;
use narrows_units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes down what it is told.
#[derive(Debug, Default)]
struct Recorder {
    notices: Vec<(SimTime, Notice)>,
    tails: usize,
    undelivered: Vec<Undelivered>,
    /// Of messages that switches copy: the transfer of each target, by source, number and target.
    copies: BTreeMap<(u32, u32, u32), TransferId>,
}

impl Recorder {
    fn note(&mut self, at: SimTime, notice: Notice) {
        self.notices.push((at, notice));
    }

    /// The number under which a transfer was started.
    fn id(&self, arrival: &Arrival) -> TransferId {
        self.copies.get(&(arrival.source, arrival.id.0, arrival.target)).copied().unwrap_or(arrival.id)
    }
}

impl Observer for Recorder {}

impl Agent for Recorder {
    type Event = ();
    type Letter = ();
    type Ports = HostPorts;

    fn timer(&mut self, _: u32, _: u32, (): (), _: &mut Context<'_>) {}

    fn source_done(&mut self, host: u32, id: TransferId, fabric: &mut Context<'_>) {
        let copies: Vec<TransferId> = self.copies.range((host, id.0, 0)..=(host, id.0, u32::MAX)).map(|(_, &copy)| copy).collect();
        for id in if copies.is_empty() { vec![id] } else { copies } {
            self.note(fabric.now(), Notice::SourceDone(id));
        }
    }

    fn head(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        self.note(fabric.now(), Notice::HeadArrived(self.id(arrival)));
    }

    fn undelivered(&mut self, undelivered: &Undelivered, _: &mut Context<'_>) {
        self.undelivered.push(undelivered.clone());
    }

    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        self.tails += 1;
        self.note(fabric.now(), Notice::TailArrived(self.id(arrival)));
    }
}

/// A network with a clock.
#[derive(Debug)]
pub struct Driver {
    fabric: Fabric<Recorder>,
    now: SimTime,
    notices: Vec<(SimTime, Notice)>,
    forgets: bool,
    in_flight: usize,
}

impl Driver {
    /// At time zero, empty.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Driver, ConfigError> {
        let whole = vec![0; topology.switches() as usize];
        let fabric = Fabric::with_regions(config, topology, whole, |_| Recorder::default())?;
        Ok(Driver { fabric, now: SimTime::ZERO, notices: Vec::new(), forgets: false, in_flight: 0 })
    }

    /// The time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.fabric.events()
    }

    /// Keep no list of notices from here on; the digest goes on.
    pub fn forget_notices(&mut self) {
        (self.forgets, self.notices) = (true, Vec::new());
    }

    /// Takes what the recorder has written down.
    fn collect(&mut self) {
        let recorder = self.fabric.agent(0);
        self.in_flight -= std::mem::take(&mut recorder.tails);
        if self.forgets {
            recorder.notices.clear();
        } else {
            self.notices.append(&mut recorder.notices);
        }
    }

    /// Every notice so far and its time. The source of what is not read from memory is done when it is started.
    pub fn notices(&self) -> &[(SimTime, Notice)] {
        &self.notices
    }

    /// See [`Fabric::digest`].
    pub fn digest(&self) -> u64 {
        self.fabric.digest()
    }

    /// What went over the network so far.
    pub fn statistics(&self) -> Statistics {
        self.fabric.statistics()
    }

    /// The flows that ports have given up.
    pub fn undelivered(&mut self) -> &[Undelivered] {
        &self.fabric.agent(0).undelivered
    }

    /// Transfers that are not all at their targets.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// See [`Fabric::live_packets`].
    pub fn live_packets(&self) -> usize {
        self.fabric.live_packets()
    }

    /// See [`Fabric::audit`].
    ///
    /// # Errors
    /// As there.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        self.fabric.audit()
    }

    /// See [`Fabric::zero_load`].
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.fabric.zero_load(transfer)
    }

    /// See [`Fabric::flow_rates`].
    pub fn flow_rates(&self) -> Vec<(TransferId, u64)> {
        self.fabric.flow_rates()
    }

    /// See [`Context::tree`].
    ///
    /// # Errors
    /// As there.
    pub fn tree(&mut self, source: u32, targets: &[u32]) -> Result<Tree, TreeError> {
        self.at_now(|_, fabric| fabric.tree(source, targets))
    }

    /// Does something at the time of the clock, which may be later than that of the last event.
    fn at_now<R>(&mut self, what: impl FnOnce(&mut Recorder, &mut Context<'_>) -> R) -> R {
        self.fabric.run_until(self.now, 1);
        let result = self.fabric.act(0, what);
        self.collect();
        result
    }

    /// Starts a transfer now.
    pub fn start(&mut self, transfer: Transfer) {
        let now = self.now;
        self.in_flight += 1;
        self.at_now(|recorder, fabric| {
            if !transfer.source_dma || transfer.payload.0 == 0 {
                recorder.note(now, Notice::SourceDone(transfer.id));
            }
            fabric.start(transfer);
        });
    }

    /// Starts a multicast now: `transfers` differ in their targets, which are those of the tree in its order, and their
    /// numbers alone.
    pub fn multicast(&mut self, tree: &Arc<Tree>, transfers: &[Transfer]) {
        let now = self.now;
        let first = transfers[0];
        self.in_flight += transfers.len();
        self.at_now(|recorder, fabric| {
            for transfer in transfers {
                recorder.copies.insert((first.source, first.id.0, transfer.target), transfer.id);
                if !first.source_dma || first.payload.0 == 0 {
                    recorder.note(now, Notice::SourceDone(transfer.id));
                }
            }
            fabric.multicast(tree, first);
        });
    }

    /// See [`Fabric::rest`].
    pub fn rest(&mut self) {
        self.fabric.rest();
    }

    /// Handles the next event, if there is one.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.fabric.next_time() else { return false };
        self.fabric.step();
        self.now = next;
        self.collect();
        true
    }

    /// Handles the next event if it comes before `time`; else moves the clock there and says false.
    pub fn step_until(&mut self, time: SimTime) -> bool {
        if self.fabric.next_time().is_some_and(|next| next < time) {
            return self.step();
        }
        self.now = self.now.max(time);
        false
    }

    /// Handles events until `time` (those at it too) and moves the clock there.
    pub fn run_until(&mut self, time: SimTime) {
        while self.fabric.next_time().is_some_and(|next| next <= time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// Handles events until there are none.
    pub fn run(&mut self) {
        while self.step() {}
    }
}
