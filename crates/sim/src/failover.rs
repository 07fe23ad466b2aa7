//! Messages that take another rail because their own has failed: a port has given up the flow by which they went.
//!
//! The node of the sender starts them anew on the other rails that both nodes have, in turn, out of memory. There they
//! are *carried*: with numbers of that port, under which the node of the target finds the message whose header it has
//! had all along ([`crate::inbound`]). So the NICs at both ends do not notice, messages of a pair keep their order, and
//! what is there already is there once.

use crate::Hardware;
use crate::station::{Above, Due, Letter, Name};
use crate::wrapper::{Around, Wrapper, WrapperId};
use narrows_fabric::parallel::Context;
use narrows_fabric::{Arrival, Transfer, TransferId, Undelivered};
use narrows_nic::Kinds;
use narrows_units::{PortId, Rail, SimTime};
use std::collections::BTreeMap;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    /// Flows that were given up, by source, target and virtual network: the rail that took the last message.
    dead: BTreeMap<(u32, u32, u8), u8>,
    /// What ports of this region carry for others.
    carried: BTreeMap<Name, Name>,
    /// What they will carry to ports of this region.
    coming: BTreeMap<Name, Name>,
    /// By port: messages that it has carried, and their bytes.
    counts: BTreeMap<u32, (u64, u64)>,
}

impl Failover {
    /// Ports of this machine give flows up, and nodes have several rails.
    pub(crate) fn has_rails<C>(hardware: &Hardware<'_, C>) -> bool {
        let gives_up = hardware.networks.iter().any(|network| network.config.reliability.is_some());
        gives_up && hardware.ports.iter().any(|port| port.rail != Rail::FIRST)
    }

    /// The flow of a message was given up.
    fn has_lost(&self, source: u32, target: u32, virtual_network: u8) -> bool {
        self.dead.contains_key(&(source, target, virtual_network))
    }

    /// The message that a port sends under this number.
    fn carried(&self, name: Name) -> Name {
        self.carried.get(&name).copied().unwrap_or(name)
    }

    /// `transfer` goes by another rail, whose target is told; nothing when no rail is left.
    fn carry<L, H>(&mut self, transfer: Transfer, above: &mut Above<H>, fabric: &mut Context<'_, Due, Letter<L, H>>) -> Option<Transfer> {
        let of = self.carried((transfer.source, transfer.id.0));
        let directory = &above.places.directory;
        let ((from, own), (to, _)) = (directory.of_port(PortId(transfer.source)), directory.of_port(PortId(transfer.target)));
        let key = (transfer.source, transfer.target, transfer.virtual_network);
        let last = self.dead.get(&key).copied().unwrap_or_default();
        let ways = directory.ports_of(from).filter_map(|port| {
            let (_, rail) = directory.of_port(port);
            let (PortId(source), PortId(target)) = (port, directory.port(to, rail)?);
            (rail != own && !self.has_lost(source, target, transfer.virtual_network)).then_some((rail, source, target))
        });
        let ways: Vec<(Rail, u32, u32)> = ways.collect();
        let next = ways.iter().find(|(rail, ..)| rail.0 > last).or_else(|| ways.first());
        let &(Rail(rail), source, target) = next?;
        self.dead.insert(key, rail);
        let id = TransferId(above.number(source));
        self.carried.insert((source, id.0), of);
        let (messages, bytes) = self.counts.entry(source).or_default();
        *messages += 1;
        *bytes += transfer.payload.0;
        fabric.post(target, SimTime::MAX, Letter::Wrapper(WrapperId::Failover, [(source, id.0), of]));
        Some(Transfer { id, source, target, ..transfer })
    }

    /// Messages that a port has carried, and their bytes.
    pub(crate) fn count(&self, port: u32) -> (u64, u64) {
        self.counts.get(&port).copied().unwrap_or_default()
    }
}

impl<L: 'static, N: Kinds> Wrapper<L, N> for Failover {
    fn id(&self) -> WrapperId {
        WrapperId::Failover
    }

    /// Where no rail is left the run ends.
    fn start(&mut self, transfer: Transfer, above: &mut Above<N::Header>, fabric: &mut Context<'_, Due, Letter<L, N::Header>>) -> Transfer {
        if self.has_lost(transfer.source, transfer.target, transfer.virtual_network) {
            return self.carry(transfer, above, fabric).unwrap_or(transfer);
        }
        transfer
    }

    fn source_done(&mut self, message: Name, _: &mut Around<'_, '_, L, N>) -> Option<Name> {
        Some(self.carried(message))
    }

    fn packet_in(&self, message: Name) -> Option<Name> {
        Some(self.coming.get(&message).copied().unwrap_or(message))
    }

    fn tail(&mut self, arrival: Arrival, _: &mut Around<'_, '_, L, N>) -> Option<Arrival> {
        let (source, number) = self.coming.remove(&(arrival.source, arrival.id.0)).unwrap_or((arrival.source, arrival.id.0));
        Some(Arrival { source, id: TransferId(number), ..arrival })
    }

    fn undelivered(
        &mut self,
        undelivered: &mut Undelivered,
        above: &mut Above<N::Header>,
        fabric: &mut Context<'_, Due, Letter<L, N::Header>>,
    ) {
        self.dead.entry((undelivered.from, undelivered.target, undelivered.virtual_network)).or_default();
        let mut carry = |message: &Transfer| self.carry(*message, above, fabric).map(|transfer| fabric.start(transfer)).is_some();
        let carried = undelivered.messages.iter().take_while(|message| carry(message)).count();
        undelivered.messages.drain(..carried);
    }

    /// The first message will bring what is in truth the second one.
    fn letter(&mut self, [by, of]: [Name; 2]) {
        self.coming.insert(by, of);
    }
}
