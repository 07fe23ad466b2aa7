//! Messages that take another rail because their own has failed: a port has given up the flow by which they went.
//!
//! The node of the sender starts them anew on the other rails that both nodes have, in turn, out of memory. There they
//! are *carried*: with numbers of that port, under which the node of the target finds the message whose header it has
//! had all along ([`crate::inbound`]). So the NICs at both ends do not notice, messages of a pair keep their order, and
//! what is there already is there once.

use narrows_fabric::{Transfer, TransferId};
use narrows_nic::Directory;
use narrows_units::{PortId, Rail};
use std::collections::BTreeMap;

/// A message: the port that sent it, and its number there.
pub(crate) type Name = (u32, u32);

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
    /// The flow of a message was given up.
    pub(crate) fn has_lost(&self, source: u32, target: u32, virtual_network: u8) -> bool {
        !self.dead.is_empty() && self.dead.contains_key(&(source, target, virtual_network))
    }

    /// It has.
    pub(crate) fn lose(&mut self, source: u32, target: u32, virtual_network: u8) {
        self.dead.entry((source, target, virtual_network)).or_default();
    }

    /// The message that a port sends under this number.
    pub(crate) fn carried(&self, port: u32, number: u32) -> Option<Name> {
        self.carried.get(&(port, number)).copied()
    }

    /// `transfer` goes by another rail; `number` gives it one at the port there. Nothing when no rail is left.
    pub(crate) fn carry(&mut self, transfer: Transfer, directory: &Directory, number: impl FnOnce(u32) -> u32) -> Option<(Transfer, Name)> {
        let of = self.carried(transfer.source, transfer.id.0).unwrap_or((transfer.source, transfer.id.0));
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
        let id = TransferId(number(source));
        self.carried.insert((source, id.0), of);
        let (messages, bytes) = self.counts.entry(source).or_default();
        *messages += 1;
        *bytes += transfer.payload.0;
        Some((Transfer { id, source, target, ..transfer }, of))
    }

    /// `by` will bring what is in truth `of`.
    pub(crate) fn expect(&mut self, by: Name, of: Name) {
        self.coming.insert(by, of);
    }

    /// What comes under this number.
    pub(crate) fn coming(&self, port: u32, number: u32) -> Option<Name> {
        if self.coming.is_empty() { None } else { self.coming.get(&(port, number)).copied() }
    }

    /// It is here.
    pub(crate) fn come(&mut self, port: u32, number: u32) {
        self.coming.remove(&(port, number));
    }

    /// Messages that a port has carried, and their bytes.
    pub(crate) fn count(&self, port: u32) -> (u64, u64) {
        self.counts.get(&port).copied().unwrap_or_default()
    }
}
