//! [`Layer`]: what may stand between the core and the NIC, and [`Stack`]: the layers of an endpoint above its NIC.

use crate::bridge::Bridge;
use crate::core::Core;
use crate::pscom::Pscom;
use crate::{Capabilities, MessageConfig, Protocol, Stray, Transport};
use narrows_portals::bridge::Forward;
use narrows_portals::{
    AckRequest, EntryId, EqId, Event, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, ReplyCode, SearchOperation,
};
use narrows_units::{Rail, SimTime};
use std::fmt::Debug;
use std::sync::Arc;

/// Something between the core and the NIC. Commands come from above and go on `below`; events come from below and are
/// given upwards. What a layer does not define passes it as it is. What a [`Transport`] does for the process, as
/// copies, passes no layer.
pub(crate) trait Layer: Debug + std::marker::Send {
    // ---- Commands from above: see Transport ----------------------------------------------------------------------

    fn capabilities(&self, below: Capabilities) -> Capabilities {
        below
    }
    fn longest(&self, below: u64, _to: ProcessId) -> u64 {
        below
    }
    fn me_append(&mut self, below: &mut dyn Transport, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        below.me_append(rail, pt, list, me)
    }
    fn me_unlink(&mut self, below: &mut dyn Transport, entry: EntryId) -> Option<ReplyCode> {
        below.me_unlink(entry)
    }
    fn me_search(&mut self, below: &mut dyn Transport, pt: u32, operation: SearchOperation, me: MatchEntry) {
        below.me_search(pt, operation, me);
    }
    fn drop_unmatched(&mut self, below: &mut dyn Transport, pt: u32) {
        below.drop_unmatched(pt);
    }
    #[allow(clippy::too_many_arguments)]
    fn put(
        &mut self,
        below: &mut dyn Transport,
        rail: Rail,
        local: LocalBuffer,
        length: u64,
        copy_now: bool,
        ack: AckRequest,
        target: RemoteTarget,
        hdr_data: u64,
    ) {
        below.put(rail, local, length, copy_now, ack, target, hdr_data);
    }
    fn get(&mut self, below: &mut dyn Transport, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        below.get(rail, local, length, target);
    }
    fn forward(&mut self, below: &mut dyn Transport, rail: Rail, forward: Forward) {
        below.forward(rail, forward);
    }
    fn forget(&mut self, below: &mut dyn Transport, address: u64) {
        below.forget(address);
    }

    // ---- What comes from below -----------------------------------------------------------------------------------

    /// An event: what follows from it for those above is in [`Layer::next_event`].
    ///
    /// # Errors
    /// It belongs to nothing.
    fn event(&mut self, below: &mut dyn Transport, event: &Event) -> Result<(), Stray>;
    /// The next event for those above.
    fn next_event(&mut self) -> Option<Event>;
    /// See [`crate::Endpoint::only_completes`].
    fn only_completes(&self, _event: &Event) -> bool {
        true
    }
    /// What those above will hear of an event that only completes something.
    fn tells(&self, event: &Event) -> Option<Event> {
        Some(*event)
    }

    // ---- What the endpoint says to all ---------------------------------------------------------------------------

    /// See [`crate::Endpoint::renew`].
    fn renew(&mut self, _below: &mut dyn Transport) {}
    /// See [`crate::Endpoint::close`].
    fn close(&mut self, _below: &mut dyn Transport) {}
    /// See [`crate::Endpoint::gateway_gone`].
    fn gateway_gone(&mut self, _below: &mut dyn Transport, _gateway: usize) {}
}

/// The layers of an endpoint; the first one is below the core.
pub(crate) type Layers = Vec<Box<dyn Layer>>;

/// The layers that a configuration asks for, above this NIC, and the configuration of the core above them.
///
/// Here layers are put together: each is made above those that are there, and changes what those above have to know.
pub(crate) fn layers_of(
    mut config: Arc<MessageConfig>,
    (eq, local): (EqId, ProcessId),
    nic: &mut dyn Transport,
) -> (Arc<MessageConfig>, Layers) {
    let mut layers = Layers::new();
    if let Some(bridging) = config.rails.bridging() {
        let ordered = !matches!(config.protocol, Protocol::Pscom(_));
        layers.insert(0, Box::new(Bridge::new(Arc::clone(bridging), config.rails.first(), (local, eq), ordered)));
    }
    if let Protocol::Pscom(pscom) = config.protocol {
        let below = &mut Stack { layers: &mut layers, nic };
        let pscom = Pscom::new(pscom, config.rails.first(), config.max_portals_message, eq, below);
        layers.insert(0, Box::new(pscom));
        // It cuts long messages, and the core hears of nothing below it.
        let above = Arc::make_mut(&mut config);
        above.max_portals_message = u64::MAX;
        above.rails.hide_modules();
    }
    (config, layers)
}

/// Layers above their NIC. All of it is the [`Transport`] of the core; what is below a layer is the transport of that.
pub(crate) struct Stack<'a> {
    pub(crate) layers: &'a mut [Box<dyn Layer>],
    pub(crate) nic: &'a mut dyn Transport,
}

impl Stack<'_> {
    /// The highest layer, and what is below it.
    fn split(&mut self) -> Option<(&mut dyn Layer, Stack<'_>)> {
        let (layer, layers) = self.layers.split_first_mut()?;
        Some((layer.as_mut(), Stack { layers, nic: self.nic }))
    }

    /// Gives an event from below to the lowest of the first `layers` ones; if these are none, to the core.
    pub(crate) fn give(&mut self, core: &mut Core, layers: usize, event: Event) -> Result<(), Stray> {
        let Some(at) = layers.checked_sub(1) else { return core.event(self, event) };
        let (layer, layers) = self.layers[at..].split_first_mut().expect("it has so many");
        layer.event(&mut Stack { layers, nic: self.nic }, &event)
    }

    /// Gives upwards what the layers have to tell, until none has anything; what is higher comes first.
    pub(crate) fn settle(&mut self, core: &mut Core) -> Result<(), Stray> {
        let next = |layers: &mut [Box<dyn Layer>]| layers.iter_mut().enumerate().find_map(|(at, layer)| Some((at, layer.next_event()?)));
        while let Some((above, event)) = next(self.layers) {
            self.give(core, above, event)?;
        }
        Ok(())
    }

    /// Something happens to each layer, from the lowest one up.
    pub(crate) fn each(&mut self, mut what: impl FnMut(&mut dyn Layer, &mut dyn Transport)) {
        for at in (0..self.layers.len()).rev() {
            if let Some((layer, layers)) = self.layers[at..].split_first_mut() {
                what(layer.as_mut(), &mut Stack { layers, nic: self.nic });
            }
        }
    }
}

impl Transport for Stack<'_> {
    fn capabilities(&self) -> Capabilities {
        self.layers.iter().rev().fold(self.nic.capabilities(), |below, layer| layer.capabilities(below))
    }

    fn longest(&self, to: ProcessId) -> u64 {
        self.layers.iter().rev().fold(self.nic.longest(to), |below, layer| layer.longest(below, to))
    }

    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        match self.split() {
            None => self.nic.me_append(rail, pt, list, me),
            Some((layer, mut below)) => layer.me_append(&mut below, rail, pt, list, me),
        }
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        match self.split() {
            None => self.nic.me_unlink(entry),
            Some((layer, mut below)) => layer.me_unlink(&mut below, entry),
        }
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        match self.split() {
            None => self.nic.me_search(pt, operation, me),
            Some((layer, mut below)) => layer.me_search(&mut below, pt, operation, me),
        }
    }

    fn searches_wait(&self) -> bool {
        self.nic.searches_wait()
    }

    fn drop_unmatched(&mut self, pt: u32) {
        match self.split() {
            None => self.nic.drop_unmatched(pt),
            Some((layer, mut below)) => layer.drop_unmatched(&mut below, pt),
        }
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        match self.split() {
            None => self.nic.put(rail, local, length, copy_now, ack, target, hdr_data),
            Some((layer, mut below)) => layer.put(&mut below, rail, local, length, copy_now, ack, target, hdr_data),
        }
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        match self.split() {
            None => self.nic.get(rail, local, length, target),
            Some((layer, mut below)) => layer.get(&mut below, rail, local, length, target),
        }
    }

    fn forward(&mut self, rail: Rail, forward: Forward) {
        match self.split() {
            None => self.nic.forward(rail, forward),
            Some((layer, mut below)) => layer.forward(&mut below, rail, forward),
        }
    }

    fn handed_over(&mut self) {
        self.nic.handed_over();
    }

    fn works(&mut self, time: SimTime) {
        self.nic.works(time);
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.nic.by_firmware(by_firmware);
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.nic.copy(from, to, length);
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        self.nic.fill(from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.nic.allocate(length)
    }

    fn forget(&mut self, address: u64) {
        match self.split() {
            None => self.nic.forget(address),
            Some((layer, mut below)) => layer.forget(&mut below, address),
        }
    }
}

#[cfg(test)]
mod tests;
