//! The vocabulary of the Portals 4 API, shared by the NIC model, the message layer and the
//! library inside a rank: identifiers, options, commands that a process gives to its NIC, and
//! what the NIC reports back.
//!
//! Values of options and limits are those of `portals4.h`. References are to sections of "The
//! Portals 4.3 Network Programming Interface", SAND2022-8810.
//!
//! ```
//! use narrows_portals::{MatchEntry, ProcessId};
//! let entry = MatchEntry { match_bits: 0x10, ignore_bits: 0x0f, ..MatchEntry::default() };
//! assert!(entry.matches(ProcessId { nid: 3, pid: 1 }, 0x1a));
//! assert!(!entry.matches(ProcessId { nid: 3, pid: 1 }, 0x2a));
//! ```
//!
//! * `lib.rs`: identifiers, options, entries, buffers.
//! * `command.rs`: [`Command`].
//! * `event.rs`: [`Notice`] and [`Event`].
//! * `limits.rs`: [`NiLimits`].
//! * `atomic.rs`: operations and types of atomics, and [`apply`].
//! * [`offload`]: allreduces that NICs do among themselves.
//! * [`bridge`]: puts that pass a gateway.

#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod arch;
mod atomic;
pub mod bridge;
mod command;
mod event;
mod limits;
pub mod offload;
pub mod runs;

pub use arch::HAS_LONG_DOUBLE;
pub use atomic::{AtomicOperation, Datatype, apply};
pub use command::{Atomic, Command, ContextPart, Limits, NO_TICKET, Register};
pub use event::{Event, EventKind, FailType, Notice, ReplyCode};
pub use limits::NiLimits;
pub use narrows_units::NodeId;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process on the simulated machine. Both numbers count from one: zero means "any" for both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ProcessId {
    /// Node, counted from one; [`NID_ANY`] in a match entry accepts every node.
    pub nid: u32,
    /// Process on the node, counted from one; [`PID_ANY`] in a match entry accepts every one.
    pub pid: u32,
}

impl ProcessId {
    /// A process of a node. Portals counts nodes from one: this and [`ProcessId::node`] are the only places that know.
    ///
    /// ```
    /// use narrows_portals::{NodeId, ProcessId};
    /// assert_eq!(ProcessId::on(NodeId(6), 2), ProcessId { nid: 7, pid: 2 });
    /// assert_eq!(ProcessId { nid: 7, pid: 2 }.node(), Some(NodeId(6)));
    /// assert_eq!(ProcessId { nid: narrows_portals::NID_ANY, pid: 2 }.node(), None);
    /// ```
    #[inline]
    pub const fn on(node: NodeId, pid: u32) -> ProcessId {
        ProcessId { nid: node.0 + 1, pid }
    }

    /// Its node; `None` of a process on any of them. There may be no such node.
    #[inline]
    pub const fn node(self) -> Option<NodeId> {
        match self.nid.checked_sub(1) {
            Some(index) => Some(NodeId(index)),
            None => None,
        }
    }

    /// Where processes on `nodes` are: those of one node are numbered from 1, in this order.
    ///
    /// ```
    /// use narrows_portals::{NodeId, ProcessId};
    /// let places = ProcessId::numbered([0, 1, 0].map(NodeId));
    /// assert_eq!(places, [ProcessId { nid: 1, pid: 1 }, ProcessId { nid: 2, pid: 1 }, ProcessId { nid: 1, pid: 2 }]);
    /// ```
    pub fn numbered(nodes: impl IntoIterator<Item = NodeId>) -> Vec<ProcessId> {
        let mut last: BTreeMap<NodeId, u32> = BTreeMap::new();
        let place = |node| {
            let pid = last.entry(node).or_insert(0);
            *pid += 1;
            ProcessId::on(node, *pid)
        };
        nodes.into_iter().map(place).collect()
    }
}

/// A process by its number among all of a machine: its global rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process(pub u32);

/// Accepts every node in [`MatchEntry::match_id`].
pub const NID_ANY: u32 = 0;
/// Accepts every process in [`MatchEntry::match_id`].
pub const PID_ANY: u32 = 0;

/// Accepts every user in [`MatchEntry::uid`].
pub const UID_ANY: u32 = u32::MAX;
/// Portal table entries of one network interface (BXI's `max_pt_index` is 255); a process may have
/// [`INTERFACES`], each with its part of the table.
pub const PT_PER_INTERFACE: u32 = 256;
/// Network interfaces of a process: matching or not, logical or physical (section 3.6).
pub const INTERFACES: u32 = 4;

/// Whether portal table entry `pt` is one of an interface with matching: those with even numbers.
pub fn has_match_bits(pt: u32) -> bool {
    (pt / PT_PER_INTERFACE).is_multiple_of(2)
}

/// The low bits of the identifier of an event queue or counting event say where the NIC keeps it. The others tell its
/// users of that place apart, one after the other: an operation may still be under way when what it names has been
/// freed, and must not reach what came after.
pub const SLOT_BITS: u32 = 17;
const MAX_SLOT: u32 = (1 << SLOT_BITS) - 1;
/// One less than there are, so that no identifier is that of none.
const GENERATIONS: u32 = (1 << (32 - SLOT_BITS)) - 1;

fn identifier(slot: u32, generation: u32) -> u32 {
    ((generation % GENERATIONS) << SLOT_BITS) | (slot & MAX_SLOT)
}

/// A list entry (ME or LE): unique within its process for the whole run, chosen by the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryId(pub u64);

/// An event queue of a process, or [`EqId::NONE`]. See [`SLOT_BITS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EqId(pub u32);

impl EqId {
    /// No event queue.
    pub const NONE: EqId = EqId(u32::MAX);

    /// The queue that has this place after `generation` others.
    pub fn at(slot: u32, generation: u32) -> EqId {
        EqId(identifier(slot, generation))
    }

    /// Where it is kept.
    pub fn slot(self) -> usize {
        (self.0 & MAX_SLOT) as usize
    }
}

impl Default for EqId {
    fn default() -> EqId {
        EqId::NONE
    }
}

/// A counting event of a process, or [`CtId::NONE`]. See [`SLOT_BITS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CtId(pub u32);

impl CtId {
    /// No counting event.
    pub const NONE: CtId = CtId(u32::MAX);

    /// The counting event that has this place after `generation` others.
    pub fn at(slot: u32, generation: u32) -> CtId {
        CtId(identifier(slot, generation))
    }

    /// Where it is kept.
    pub fn slot(self) -> usize {
        (self.0 & MAX_SLOT) as usize
    }
}

impl Default for CtId {
    fn default() -> CtId {
        CtId::NONE
    }
}

/// The list of a portal table entry (section 3.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum List {
    /// Searched first: what the process expects.
    #[default]
    Priority,
    /// Searched when nothing in the priority list fits; leaves an unexpected header.
    Overflow,
}

/// What a put asks of the target (section 3.15.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AckRequest {
    /// Nothing.
    #[default]
    None,
    /// A full ACK event, and counting when the MD asks for it.
    Full,
    /// Counting only.
    Counting,
    /// Counting only; only says that the operation is complete.
    OperationCompleted,
}

/// What `PtlMESearch` does with what it finds (section 3.12.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SearchOperation {
    /// Reports the oldest unexpected header that fits and keeps it.
    Only,
    /// Reports and removes: one header for a use-once entry, else all.
    Delete,
}

/// Options of an ME or LE (section 3.12.1).
pub mod me {
    /// Accepts puts.
    pub const OP_PUT: u32 = 1 << 0;
    /// Accepts gets.
    pub const OP_GET: u32 = 1 << 1;
    /// Unlinked after the first operation.
    pub const USE_ONCE: u32 = 1 << 2;
    /// Never acknowledges (up to 4.2).
    pub const ACK_DISABLE: u32 = 1 << 3;
    /// As an overflow entry, leaves no unexpected header.
    pub const UNEXPECTED_HDR_DISABLE: u32 = 1 << 4;
    /// `start` points to an array of `ptl_iovec_t`.
    pub const IOVEC: u32 = 1 << 20;
    /// No event for communication.
    pub const EVENT_COMM_DISABLE: u32 = 1 << 6;
    /// No flow-control event.
    pub const EVENT_FLOWCTRL_DISABLE: u32 = 1 << 7;
    /// No event for successful communication.
    pub const EVENT_SUCCESS_DISABLE: u32 = 1 << 8;
    /// No `*_OVERFLOW` event.
    pub const EVENT_OVER_DISABLE: u32 = 1 << 9;
    /// No LINK event.
    pub const EVENT_LINK_DISABLE: u32 = 1 << 10;
    /// No AUTO_UNLINK and AUTO_FREE event.
    pub const EVENT_UNLINK_DISABLE: u32 = 1 << 11;
    /// Counts communication events.
    pub const EVENT_CT_COMM: u32 = 1 << 12;
    /// Counts overflow events.
    pub const EVENT_CT_OVERFLOW: u32 = 1 << 13;
    /// Counts bytes instead of events.
    pub const EVENT_CT_BYTES: u32 = 1 << 14;
    /// All of the region may be touched.
    pub const IS_ACCESSIBLE: u32 = 1 << 15;
    /// The NIC keeps the offset.
    pub const MANAGE_LOCAL: u32 = 1 << 16;
    /// A message that does not fit does not match.
    pub const NO_TRUNCATE: u32 = 1 << 17;
    /// The NIC may align what it packs.
    pub const MAY_ALIGN: u32 = 1 << 18;
    /// Offset advances by the `rlength` of consumed unexpected headers (4.3).
    pub const LOCAL_INC_UH_RLENGTH: u32 = 1 << 19;
    /// Narrows' own (docs/spin.md): the number of the execution context whose handlers see what is put here, in these
    /// bits; 0: none.
    pub const CONTEXT: u32 = 0xff << CONTEXT_SHIFT;
    /// Where these bits begin.
    pub const CONTEXT_SHIFT: u32 = 21;
    /// Narrows' own, between library and NIC: parts of the region may not be there, so that an access
    /// may end in [`super::FailType::Segv`].
    pub const MAY_FAULT: u32 = 1 << 30;
    /// Narrows' own, for searches: one that finds nothing is not answered before a header comes that matches it. What a
    /// library that searches again and again would see, without the searches in between. See
    /// docs/decisions/0002-who-runs-when.md.
    pub const SEARCH_WAITS: u32 = 1 << 31;
}

/// Options of an MD (section 3.11.1).
pub mod md {
    /// `start` points to an array of `ptl_iovec_t`.
    pub const IOVEC: u32 = 1 << 20;
    /// Only failures raise SEND, ACK and REPLY events.
    pub const EVENT_SUCCESS_DISABLE: u32 = 1 << 1;
    /// No SEND event.
    pub const EVENT_SEND_DISABLE: u32 = 1 << 2;
    /// Counts SEND.
    pub const EVENT_CT_SEND: u32 = 1 << 3;
    /// Counts REPLY.
    pub const EVENT_CT_REPLY: u32 = 1 << 4;
    /// Counts ACK.
    pub const EVENT_CT_ACK: u32 = 1 << 5;
    /// Counts bytes instead of events.
    pub const EVENT_CT_BYTES: u32 = 1 << 6;
    /// No order between the messages of this MD.
    pub const UNORDERED: u32 = 1 << 7;
    /// The buffer may be reused when the call returns, up to `max_volatile_size`.
    pub const VOLATILE: u32 = 1 << 8;
    /// No end-to-end reliability (4.3).
    pub const UNRELIABLE: u32 = 1 << 9;
    /// Narrows' own, between library and NIC: as [`super::me::MAY_FAULT`].
    pub const MAY_FAULT: u32 = 1 << 31;
}

/// Options of a portal table entry (section 3.7.1).
pub mod pt {
    /// A hint: only use-once entries.
    pub const ONLY_USE_ONCE: u32 = 1 << 0;
    /// Exhaustion disables the entry.
    pub const FLOWCTRL: u32 = 1 << 1;
    /// A hint: only truncating entries.
    pub const ONLY_TRUNCATE: u32 = 1 << 2;
    /// Starts disabled (4.3).
    pub const ALLOC_DISABLED: u32 = 1 << 3;
    /// Narrows' own, for its libfabric provider: a message that finds no entry or no room is not
    /// dropped. The target's end-to-end layer keeps refusing it and its successors of the same
    /// sender (receiver not ready) until an entry is appended. Freed, it takes its entries with it. See docs/decisions.
    pub const RETRY: u32 = 1 << 16;
}

/// Where bytes are in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// First byte; with `segments` the address of that many `ptl_iovec_t` ([`IOVEC_BYTES`] each: address, length),
    /// which the NIC reads when it needs them.
    pub address: u64,
    /// First byte within all segments; 0 without.
    pub offset: u64,
    /// Segments; 0: the bytes are in one piece at `address`.
    pub segments: u32,
    /// It may not be there.
    pub may_fault: bool,
}

/// Size of `ptl_iovec_t`.
pub const IOVEC_BYTES: u64 = 16;

impl Place {
    /// One piece that is there.
    pub fn at(address: u64) -> Place {
        Place { address, ..Place::default() }
    }

    /// `offset` bytes on.
    #[must_use]
    pub fn plus(self, offset: u64) -> Place {
        match self.segments {
            0 => Place { address: self.address.wrapping_add(offset), ..self },
            _ => Place { offset: self.offset.saturating_add(offset), ..self },
        }
    }
}

/// A match list entry as a process appends it (`ptl_me_t`, section 3.12.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchEntry {
    /// Address in the process; with `segments` that of the array of segments.
    pub start: u64,
    /// Bytes, of all segments.
    pub length: u64,
    /// Segments, with [`me::IOVEC`]; else 0.
    pub segments: u32,
    /// Counting event, or none.
    pub ct: CtId,
    /// Whose operations are accepted, or [`UID_ANY`].
    pub uid: u32,
    /// Options: see [`me`].
    pub options: u32,
    /// Who may use the entry.
    pub match_id: ProcessId,
    /// Bits that a message must carry ...
    pub match_bits: u64,
    /// ... but for these.
    pub ignore_bits: u64,
    /// With `MANAGE_LOCAL`: unlinked when fewer bytes are left; zero never.
    pub min_free: u64,
    /// Comes back in every event of this entry.
    pub user_ptr: u64,
}

impl Default for MatchEntry {
    fn default() -> Self {
        MatchEntry {
            start: 0,
            length: 0,
            segments: 0,
            ct: CtId::NONE,
            uid: UID_ANY,
            options: 0,
            match_id: ProcessId { nid: NID_ANY, pid: PID_ANY },
            match_bits: 0,
            ignore_bits: 0,
            min_free: 0,
            user_ptr: 0,
        }
    }
}

impl MatchEntry {
    /// The first two conditions of section 3.12.2: the bits, then the initiator.
    #[inline]
    pub fn matches(&self, initiator: ProcessId, bits: u64) -> bool {
        (bits ^ self.match_bits) & !self.ignore_bits == 0
            && (self.match_id.nid == NID_ANY || self.match_id.nid == initiator.nid)
            && (self.match_id.pid == PID_ANY || self.match_id.pid == initiator.pid)
    }
}

/// The initiator's side of a put or get: its MD, already resolved by the library, and the
/// region inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LocalBuffer {
    /// Address in the process of the first byte; with `segments` that of the array of segments.
    pub address: u64,
    /// First byte within all segments; 0 without.
    pub offset: u64,
    /// Segments, with [`md::IOVEC`]; else 0.
    pub segments: u32,
    /// Options of the MD: see [`md`].
    pub options: u32,
    /// Event queue of the MD.
    pub eq: EqId,
    /// Counting event of the MD.
    pub ct: CtId,
    /// Comes back in SEND, ACK and REPLY events.
    pub user_ptr: u64,
}

impl LocalBuffer {
    /// Where its bytes are.
    pub fn place(&self) -> Place {
        let may_fault = self.options & md::MAY_FAULT != 0;
        Place { address: self.address, offset: self.offset, segments: self.segments, may_fault }
    }
}

/// Where an operation goes and how it is matched there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTarget {
    /// The process.
    pub process: ProcessId,
    /// Its portal table entry.
    pub pt: u32,
    /// Compared with the entries of its lists.
    pub match_bits: u64,
    /// Offset in the matched entry.
    pub offset: u64,
}
