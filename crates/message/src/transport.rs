//! What carries messages: [`Transport`].

use crate::wire;
use narrows_portals::{AckRequest, EntryId, List, LocalBuffer, MatchEntry, RemoteTarget, ReplyCode, SearchOperation, pt};

/// What carries the messages of a process: its NIC (in live runs and replay alike), or a layer above it that matches in
/// software.
pub trait Transport {
    /// Appends; the entry's id is chosen by the implementation.
    fn me_append(&mut self, pt: u32, list: List, me: MatchEntry) -> EntryId;
    /// Unlinks. `None`: the answer comes later, to [`Endpoint::unlinked`].
    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode>;
    /// Starts a search: one SEARCH or *_OVERFLOW event follows.
    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry);
    /// PtlPut. `copy_now`: the library takes the bytes before it returns; what is longer than a PIO write is copied,
    /// and costs that time.
    #[allow(clippy::too_many_arguments)]
    fn put(&mut self, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64);
    /// PtlGet.
    fn get(&mut self, local: LocalBuffer, length: u64, target: RemoteTarget);
    /// Copies inside this process (unexpected messages); costs time.
    fn copy(&mut self, from: u64, to: u64, length: u64);
    /// Memory that stays until the end, for overflow blocks and bounce buffers.
    fn allocate(&mut self, length: u64) -> u64;
}

/// The portal table entries, index and options, that the caller allocates, all with the same event
/// queue, before [`Endpoint::new`].
pub fn portal_table() -> [(u32, u32); 4] {
    [wire::PT_TAGGED, wire::PT_UNTAGGED, wire::PT_RENDEZVOUS, wire::PT_CONTROL].map(|index| (index, pt::RETRY))
}
