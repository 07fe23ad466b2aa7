//! Handlers at the hosts of a region: packets go through them before their message is done. There are no tags, so
//! portal table entry and match bits of all messages are 0; what handlers send goes nowhere.

use crate::source::Sources;
use narrows_fabric::Arrival;
use narrows_fabric::parallel::Context;
use narrows_fabric::seam::{PacketIn, Verdict};
use narrows_spin::{Answer, Arriving, Bus, HandlerReport, HandlersConfig, Host, Sight, SpinPort, Wanted};
use narrows_units::{ByteRate, Bytes, SimTime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tag of their timers: no source has it.
pub(crate) const TIMER: u32 = u32::MAX;

/// Those of a region.
#[derive(Debug)]
pub(crate) struct RegionHandlers {
    config: Arc<HandlersConfig>,
    bus: ByteRate,
    hosts: BTreeMap<u32, HostHandlers>,
}

/// The machine of a host.
#[derive(Debug)]
struct HostHandlers {
    machine: SpinPort,
    around: Around,
    /// Messages that handlers see, by name; all of it has come.
    handled: BTreeMap<u64, Option<Arrival>>,
    /// When it has asked to go on.
    asked: BTreeSet<SimTime>,
}

/// What a machine has around it: the host's bus.
#[derive(Debug)]
struct Around(Bus);

impl Host for Around {
    fn write(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.0.write(at, bytes)
    }
    fn read(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.0.read(at, bytes)
    }
    fn send(&mut self, _: SimTime, _: u64, _: u64) {}
}

fn name(arrival: &Arrival) -> u64 {
    u64::from(arrival.source) << 32 | u64::from(arrival.id.0)
}

impl HostHandlers {
    fn new(config: &HandlersConfig, rate: ByteRate) -> HostHandlers {
        let machine = SpinPort::new(&config.machine, &config.rules).expect("contexts fit, as checked with the machine");
        // Functions read nothing from hosts.
        let around = Around(Bus::new(rate, SimTime::ZERO));
        HostHandlers { machine, around, handled: BTreeMap::new(), asked: BTreeSet::new() }
    }

    /// Messages that are finished are done, and the machine is asked again.
    fn go_on(&mut self, host: u32, sources: &mut Sources, fabric: &mut Context<'_>) {
        let now = fabric.now();
        while let Some(finished) = self.machine.take_finished(now) {
            if let Some(arrival) = self.handled.remove(&finished.name).flatten() {
                sources.delivered(&arrival, now, fabric);
            }
        }
        let next = self.machine.next_time().map(|at| at.max(now + SimTime(1)));
        if let Some(at) = next.filter(|at| self.asked.first().is_none_or(|first| at < first)) {
            self.asked.insert(at);
            fabric.timer(at, host, TIMER, ());
        }
    }
}

impl RegionHandlers {
    pub(crate) fn new(config: &Arc<HandlersConfig>, bus: ByteRate) -> RegionHandlers {
        RegionHandlers { config: Arc::clone(config), bus, hosts: BTreeMap::new() }
    }

    pub(crate) fn packet(&mut self, packet: &PacketIn, sources: &mut Sources, fabric: &mut Context<'_>) -> Verdict {
        let PacketIn { arrival, number, offset, payload, tail, .. } = *packet;
        let (name, length) = (name(&arrival), arrival.payload.0);
        let host = self.hosts.entry(arrival.target).or_insert_with(|| HostHandlers::new(&self.config, self.bus));
        let wanted = || Some(Wanted { rule: Some(self.config.rule(0, 0, length, None)?), layout: None, length, bytes: None });
        match host.machine.sees(fabric.now(), name, payload.0, wanted) {
            Sight::Handlers => _ = host.handled.entry(name).or_default(),
            Sight::Host => return Verdict::Pass,
            Sight::Later(at) => return Verdict::DelayUntil(at),
        }
        let within = arrival.source == arrival.target;
        let arriving = Arriving { name, number, offset: offset.0, bytes: payload.0, tail, within };
        let answer = host.machine.packet(fabric.now(), &arriving, &mut host.around);
        host.go_on(arrival.target, sources, fabric);
        match answer {
            Answer::Taken => Verdict::Rewrite(Bytes(0)),
            Answer::Again(at) => Verdict::DelayUntil(at),
        }
    }

    /// The machine of a host goes on.
    pub(crate) fn strike(&mut self, host: u32, sources: &mut Sources, fabric: &mut Context<'_>) {
        let Some(handlers) = self.hosts.get_mut(&host) else { return };
        handlers.asked.remove(&fabric.now());
        handlers.machine.advance(fabric.now(), &mut handlers.around);
        handlers.go_on(host, sources, fabric);
    }

    /// All of a message has come: whether handlers are not through with it.
    pub(crate) fn holds(&mut self, arrival: &Arrival) -> bool {
        let host = self.hosts.get_mut(&arrival.target);
        let Some(handled) = host.and_then(|host| host.handled.get_mut(&name(arrival))) else { return false };
        *handled = Some(*arrival);
        true
    }

    /// What they have done.
    pub(crate) fn report(&self) -> HandlerReport {
        let mut report = HandlerReport { messages: vec![0; self.config.rules.len()], ..HandlerReport::default() };
        for (&number, host) in &self.hosts {
            let failure = host.machine.failure().map(|failed| (failed.at, self.config.failure(&failed, number)));
            let (totals, messages) = (host.machine.totals(), host.machine.messages().to_vec());
            report.add(&HandlerReport { totals, messages, failure, came_back: 0 });
        }
        report
    }
}
