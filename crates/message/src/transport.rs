//! What carries messages: [`Transport`].

use crate::wire;
use narrows_portals::bridge::Forward;
use narrows_portals::{AckRequest, EntryId, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, ReplyCode, SearchOperation, pt};
use narrows_units::{Rail, SimTime};

/// What a [`Transport`] can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It matches by itself while nobody looks, so it needs room for messages that nobody has asked for yet.
    pub matches_alone: bool,
    /// It can fetch.
    pub gets: bool,
    /// Longest put or get, bytes.
    pub longest: u64,
}

/// What carries the messages of a process: its NICs, one on each rail (in live runs and replay alike), or a layer above
/// them that matches in software.
pub trait Transport {
    /// What it can do; of a NIC with Portals: everything.
    fn capabilities(&self) -> Capabilities {
        Capabilities { matches_alone: true, gets: true, longest: u64::MAX }
    }
    /// Longest put to a process, bytes.
    fn longest(&self, _to: ProcessId) -> u64 {
        u64::MAX
    }
    /// Appends at the NIC of a rail; the entry's id is chosen by the implementation, which finds the rail by it.
    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId;
    /// Unlinks. `None`: the answer comes later, to [`Endpoint::unlinked`](crate::Endpoint::unlinked).
    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode>;
    /// Starts a search on the first rail of all ranks: one SEARCH or *_OVERFLOW event follows.
    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry);
    /// The searches of this call wait for a message.
    fn searches_wait(&self) -> bool {
        false
    }
    /// What nothing in the lists of this table entry, which is empty, matches is dropped from now on, and whoever sent
    /// it is told.
    fn drop_unmatched(&mut self, pt: u32);
    /// PtlPut on a rail. `copy_now`: the library takes the bytes before it returns; what is longer than a PIO write is
    /// copied, and costs that time.
    #[allow(clippy::too_many_arguments)]
    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64);
    /// PtlGet on a rail.
    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget);
    /// A put over a gateway, on a rail.
    fn forward(&mut self, _rail: Rail, _forward: Forward) {
        unreachable!("where there are gateways, transports know them")
    }
    /// An operation was handed over of which the NIC does not hear: the time that a command takes.
    fn handed_over(&mut self) {}
    /// The core works for so long on what the NIC has to know.
    fn works(&mut self, _time: SimTime) {}
    /// From now on, or no longer, commands are given by the NIC's firmware: they cost the core nothing.
    fn by_firmware(&mut self, _by_firmware: bool) {}
    /// Copies out of memory that was allocated here; costs time.
    fn copy(&mut self, from: u64, to: u64, length: u64);
    /// Copies bytes of a message that is sent into such memory; costs time.
    fn fill(&mut self, from: u64, to: u64, length: u64);
    /// Memory that stays until the end, for overflow blocks and buffers.
    fn allocate(&mut self, length: u64) -> u64;
    /// A message that nobody had asked for, in memory at `address`, has been copied out or thrown away.
    fn forget(&mut self, _address: u64) {}
}

/// The portal table entries, index and options, that the caller allocates, all with the same event
/// queue, before [`Endpoint::new`](crate::Endpoint::new).
pub fn portal_table() -> [(u32, u32); 4] {
    [wire::PT_TAGGED, wire::PT_UNTAGGED, wire::PT_RENDEZVOUS, wire::PT_CONTROL].map(|index| (index, pt::RETRY))
}
