//! Handlers above the NIC (sPIN): packets of puts that a rule names go through a [`SpinPort`] before their message is
//! complete. Matching, lists and events are those of the NIC without handlers: the header is matched when it comes, and
//! the end of the message is told when its handlers are through with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_fabric::seam::{PacketIn, Verdict};
use narrows_portals::ContextPart;
use narrows_spin::{Answer, Arriving, Bus, Failed, Finished, HandlerReport, HandlersConfig, Host, Layout, Posted, Sight, SpinPort, Wanted};
use narrows_units::{Bytes, SimTime};

use super::message::{Due, Header, Request};
use super::{COMPUTE_RESPONSE, Portals};
use crate::config::NicConfig;
use crate::out::{Departure, Out};
use narrows_matching::RequestKind;

/// A message that handlers see.
#[derive(Debug, Default)]
struct Handled {
    /// All of it has come: its half.
    half: Option<u32>,
    /// They are through with it.
    finished: Option<Finished>,
}

/// Of one port.
#[derive(Debug)]
pub(super) struct Handling {
    config: Arc<HandlersConfig>,
    /// Made for the first message.
    machine: Option<SpinPort>,
    /// By name.
    handled: BTreeMap<u64, Handled>,
    /// By process and number: contexts of list entries, and parts of those that are not complete.
    contexts: BTreeMap<(u32, u8), Posted>,
    parts: BTreeMap<(u32, u8), Vec<u64>>,
    around: Around,
    /// Of the event that lets the machine go on.
    due: SimTime,
    came_back: u64,
}

/// What the machine of a port has around it.
#[derive(Debug)]
struct Around {
    bus: Bus,
    /// Sends: to whom, and how much.
    sends: Vec<(u64, u64)>,
}

impl Host for Around {
    fn write(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.bus.write(at, bytes)
    }
    fn read(&mut self, at: SimTime, bytes: u64) -> SimTime {
        self.bus.read(at, bytes)
    }
    fn send(&mut self, _: SimTime, name: u64, bytes: u64) {
        self.sends.push((name, bytes));
    }
}

/// Names a put that is under way: the node that sends it, and its number there.
fn name(request: &Request) -> u64 {
    let node = request.operation.initiator.node().map_or(u32::MAX, |node| node.0);
    u64::from(node) << 32 | u64::from(request.handle.serial)
}

impl Handling {
    fn new(config: Arc<HandlersConfig>, nic: &NicConfig) -> Handling {
        let around = Around { bus: Bus::new(nic.data_bandwidth, nic.pcie_latency + nic.dma_latency), sends: Vec::new() };
        let (handled, contexts, parts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Handling { config, machine: None, handled, contexts, parts, around, due: SimTime::MAX, came_back: 0 }
    }

    /// A process tells of a context. One that is complete stays as it is: entries may name it.
    fn set_context(&mut self, process: u32, part: ContextPart) {
        let name = (process, part.number);
        if self.contexts.contains_key(&name) {
            return;
        }
        let words = self.parts.entry(name).or_default();
        if words.len() <= Layout::WORDS_MAX {
            words.extend(part.layout);
        }
        if !part.more {
            let layout = Layout::from_words(words).map(Arc::new);
            self.parts.remove(&name);
            self.contexts.insert(name, Posted { rules: part.rules, layout });
        }
    }

    /// A packet of a put, which finds the entry `posted`; both outside of handlers' business if it has none.
    fn packet(
        &mut self,
        now: SimTime,
        packet: &PacketIn,
        request: &Request,
        posted: impl FnOnce() -> Option<(u32, u8)>,
        bytes: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Verdict {
        let name = name(request);
        let Handling { config, machine, contexts, .. } = self;
        let made = || SpinPort::new(&config.machine, &config.rules).expect("contexts fit, as checked with the machine");
        let machine = machine.get_or_insert_with(made);
        let mut unexpected = false;
        let wanted = || {
            let operation = &request.operation;
            let (pt, bits, length) = (operation.pt, operation.match_bits, operation.rlength);
            let asks = config.waits_for_receive(pt, bits, length);
            let entry = if asks { posted() } else { None };
            let posted = entry.map(|entry| contexts.get(&entry).cloned().unwrap_or_else(|| Posted::of_number(entry.1)));
            let rule = config.rule(pt, bits, length, posted.as_ref());
            unexpected = asks && entry.is_none() && rule.is_none();
            let layout = posted.and_then(|posted| posted.layout);
            let bytes = rule.and_then(|_| bytes());
            (asks || rule.is_some()).then_some(Wanted { rule, layout, length, bytes })
        };
        let sight = machine.sees(now, name, packet.payload.0, wanted);
        if unexpected {
            machine.unexpected();
        }
        match sight {
            Sight::Handlers => _ = self.handled.entry(name).or_default(),
            Sight::Host => return Verdict::Pass,
            Sight::Later(at) => return Verdict::DelayUntil(at),
        }
        let PacketIn { arrival, number, offset, payload, tail, .. } = *packet;
        let within = arrival.source == arrival.target;
        let arriving = Arriving { name, number, offset: offset.0, bytes: payload.0, tail, within };
        match machine.packet(now, &arriving, &mut self.around) {
            // Its payload does not go to memory with it.
            Answer::Taken => Verdict::Rewrite(Bytes(0)),
            Answer::Again(at) => Verdict::DelayUntil(at),
        }
    }
}

impl Portals {
    /// The same NIC with handlers.
    pub(crate) fn with_handlers(mut self, config: &Arc<HandlersConfig>) -> Portals {
        self.handling = Some(Box::new(Handling::new(Arc::clone(config), &self.common.config)));
        self
    }

    /// What its handlers have done.
    pub(crate) fn handler_report(&self) -> Option<HandlerReport> {
        let handling = self.handling.as_ref()?;
        let machine = handling.machine.as_ref();
        Some(HandlerReport {
            totals: machine.map(SpinPort::totals).unwrap_or_default(),
            messages: machine.map_or_else(|| vec![0; handling.config.rules.len()], |machine| machine.messages().to_vec()),
            failure: machine.and_then(SpinPort::failure).map(|failed| (failed.at, self.failure_of(handling, failed))),
            came_back: handling.came_back,
        })
    }

    /// Which handler went wrong, where and why.
    fn failure_of(&self, handling: &Handling, failed: Failed) -> String {
        let (node, _) = self.common.directory.of_port(self.port);
        handling.config.failure(&failed, node.0)
    }

    /// A process tells of an execution context. Without handlers it tells nobody.
    pub(super) fn set_context(&mut self, process: u32, part: ContextPart) {
        if let Some(handling) = &mut self.handling {
            handling.set_context(process, part);
        }
    }

    /// A packet has come that handlers may want.
    pub(super) fn packet_for_handlers(&mut self, now: SimTime, packet: &PacketIn, header: &Header, out: &mut impl Out<Portals>) -> Verdict {
        let (Header::Request(request), Some(handling)) = (header, &mut self.handling) else { return Verdict::Pass };
        if request.operation.kind != RequestKind::Put || request.bridged().is_some() {
            return Verdict::Pass;
        }
        let payload = request.payload;
        let (locals, interfaces) = (&self.locals, &mut self.interfaces);
        let posted = || {
            let process = locals.binary_search_by_key(&request.target.pid, |local| local.place.pid).ok()?;
            Some((process as u32, interfaces[process].context_of(&request.operation)?))
        };
        let verdict = handling.packet(now, packet, request, posted, || out.bytes(payload?));
        self.handlers_go_on(now, out);
        verdict
    }

    /// The machine has its turn.
    pub(super) fn handlers_due(&mut self, now: SimTime, out: &mut impl Out<Portals>) {
        let Some(handling) = &mut self.handling else { return };
        if handling.due <= now {
            handling.due = SimTime::MAX;
        }
        let Handling { machine, around, .. } = &mut **handling;
        machine.iter_mut().for_each(|machine| machine.advance(now, around));
        self.handlers_go_on(now, out);
    }

    /// Carries out what handlers have asked for, ends messages, and asks for the machine's next turn.
    fn handlers_go_on(&mut self, now: SimTime, out: &mut impl Out<Portals>) {
        let Some(handling) = &mut self.handling else { return };
        let Handling { machine: Some(machine), around, handled, due, .. } = &mut **handling else { return };
        let mut ended = Vec::new();
        while let Some(finished) = machine.take_finished(now) {
            if let Some(of) = handled.get_mut(&finished.name) {
                let name = finished.name;
                of.finished = Some(finished);
                if of.half.is_some() {
                    ended.extend(handled.remove(&name));
                }
            }
        }
        let next = machine.next_time().map_or(SimTime::MAX, |at| at.max(now));
        if next < *due {
            *due = next;
            out.schedule(next, self.port, Due::Handlers.encode());
        }
        for (name, bytes) in std::mem::take(&mut around.sends) {
            self.send_of_handler(name, bytes, out);
        }
        for handled in ended {
            self.handlers_are_through(now, handled, out);
        }
    }

    /// A handler sends a packet to the node that has sent its message.
    fn send_of_handler(&mut self, name: u64, bytes: u64, out: &mut impl Out<Portals>) {
        let node = narrows_units::NodeId((name >> 32) as u32);
        let Some(to) = self.common.directory.port(node, self.rail) else { return };
        let departure = Departure {
            to,
            virtual_network: COMPUTE_RESPONSE,
            payload: Bytes(bytes),
            source_dma: false,
            target_dma: false,
            token: u32::MAX,
            header: Header::Handled,
        };
        out.depart(self.port, departure);
    }

    /// All of a put has come. Whether handlers are not through with it.
    pub(super) fn waits_for_handlers(&mut self, now: SimTime, half: u32, request: &Request, out: &mut impl Out<Portals>) -> bool {
        let Some(handling) = &mut self.handling else { return false };
        let Some(handled) = handling.handled.get_mut(&name(request)) else { return false };
        handled.half = Some(half);
        if handled.finished.is_some()
            && let Some(handled) = handling.handled.remove(&name(request))
        {
            self.handlers_are_through(now, handled, out);
        }
        true
    }

    /// The message goes on with what they have left of it.
    fn handlers_are_through(&mut self, now: SimTime, handled: Handled, out: &mut impl Out<Portals>) {
        let Some(half) = handled.half else { return };
        let payload = self.incoming.at(half).request.payload;
        if let (Some(image), Some(payload)) = (handled.finished.and_then(|finished| finished.image), payload) {
            out.inline(payload, image.into());
        }
        self.tail_of_request(now, half, out);
    }

    /// A packet of a handler has come.
    pub(super) fn packet_of_handler(&mut self) {
        self.handling.iter_mut().for_each(|handling| handling.came_back += 1);
    }
}
