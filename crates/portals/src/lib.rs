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

/// A process on the simulated machine. `nid` is the node's index plus one, `pid` the place among
/// the processes of that node plus one: zero means "any" for both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProcessId {
    /// Node, counted from one; [`NID_ANY`] in a match entry accepts every node.
    pub nid: u32,
    /// Process on the node, counted from one; [`PID_ANY`] in a match entry accepts every one.
    pub pid: u32,
}

/// Accepts every node in [`MatchEntry::match_id`].
pub const NID_ANY: u32 = 0;
/// Accepts every process in [`MatchEntry::match_id`].
pub const PID_ANY: u32 = 0;

/// A list entry (ME or LE): unique within its process for the whole run, chosen by the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryId(pub u64);

/// An event queue of a process, or [`EqId::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EqId(pub u32);

impl EqId {
    /// No event queue.
    pub const NONE: EqId = EqId(u32::MAX);
}

/// A counting event of a process, or [`CtId::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CtId(pub u32);

impl CtId {
    /// No counting event.
    pub const NONE: CtId = CtId(u32::MAX);
}

/// The list of a portal table entry (section 3.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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
    pub const IOVEC: u32 = 1 << 5;
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
    /// Narrows' own, for searches: one that finds nothing is not answered before a header comes that matches it. What a library that
    /// searches again and again would see, without the searches in between. See docs/decisions/0002-who-runs-when.md.
    pub const SEARCH_WAITS: u32 = 1 << 31;
}

/// Options of an MD (section 3.11.1).
pub mod md {
    /// `start` points to an array of `ptl_iovec_t`.
    pub const IOVEC: u32 = 1 << 0;
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
    /// sender (receiver not ready) until an entry is appended. See docs/decisions.
    pub const RETRY: u32 = 1 << 16;
}

/// A match list entry as a process appends it (`ptl_me_t`, section 3.12.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchEntry {
    /// Address in the process.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Counting event, or none.
    pub ct: CtId,
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
            ct: CtId::NONE,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalBuffer {
    /// Address in the process of the first byte.
    pub address: u64,
    /// Options of the MD: see [`md`].
    pub options: u32,
    /// Event queue of the MD.
    pub eq: EqId,
    /// Counting event of the MD.
    pub ct: CtId,
    /// Comes back in SEND, ACK and REPLY events.
    pub user_ptr: u64,
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

/// What a process tells its NIC. The process chooses all identifiers; the NIC refuses what it
/// does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes a portal table entry.
    PtAlloc {
        /// Index.
        pt: u32,
        /// See [`pt`].
        options: u32,
        /// Events of all entries of its lists.
        eq: EqId,
    },
    /// Gives it back.
    PtFree {
        /// Index.
        pt: u32,
    },
    /// Accepts messages again.
    PtEnable {
        /// Index.
        pt: u32,
    },
    /// Refuses messages from now on.
    PtDisable {
        /// Index.
        pt: u32,
    },
    /// Makes an event queue.
    EqAlloc {
        /// Its identifier.
        eq: EqId,
        /// Events that it must hold.
        count: u32,
    },
    /// Gives it back.
    EqFree {
        /// Its identifier.
        eq: EqId,
    },
    /// Makes a counting event, at zero.
    CtAlloc {
        /// Its identifier.
        ct: CtId,
    },
    /// Gives it back.
    CtFree {
        /// Its identifier.
        ct: CtId,
    },
    /// Sets a counting event.
    CtSet {
        /// Its identifier.
        ct: CtId,
        /// New number of successes.
        success: u64,
        /// New number of failures.
        failure: u64,
    },
    /// Adds to a counting event.
    CtIncrement {
        /// Its identifier.
        ct: CtId,
        /// Added to the successes.
        success: u64,
        /// Added to the failures.
        failure: u64,
    },
    /// Searches the unexpected headers, else appends.
    MeAppend {
        /// Chosen by the process, never used before.
        entry: EntryId,
        /// Portal table entry.
        pt: u32,
        /// Which of its lists.
        list: List,
        /// The entry.
        me: MatchEntry,
    },
    /// Removes an entry; answered by [`Notice::Reply`] with `ticket`.
    MeUnlink {
        /// The entry.
        entry: EntryId,
        /// Comes back in the reply.
        ticket: u32,
    },
    /// Searches the unexpected headers.
    MeSearch {
        /// Portal table entry.
        pt: u32,
        /// What to do with what is found.
        operation: SearchOperation,
        /// The entry to compare with.
        me: MatchEntry,
    },
    /// Sends.
    Put {
        /// Source.
        local: LocalBuffer,
        /// Bytes.
        length: u64,
        /// The bytes, when the library already took them (inline or PIO, or a volatile MD).
        inline: Option<Box<[u8]>>,
        /// Acknowledgement.
        ack: AckRequest,
        /// Destination.
        target: RemoteTarget,
        /// 64 bits for the target's event.
        hdr_data: u64,
    },
    /// Fetches.
    Get {
        /// Destination, at the initiator.
        local: LocalBuffer,
        /// Bytes.
        length: u64,
        /// Source, at the target.
        target: RemoteTarget,
    },
}

/// Kinds of full events (section 3.13.1). The numbers are those of `portals4.h`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// A get arrived at the priority list.
    Get = 0,
    /// A get that was in the overflow list matched a new entry.
    GetOverflow = 1,
    /// A put arrived (either list).
    Put = 2,
    /// A put from the overflow list matched a new entry.
    PutOverflow = 3,
    /// An atomic arrived.
    Atomic = 4,
    /// An atomic from the overflow list matched a new entry.
    AtomicOverflow = 5,
    /// A fetching atomic arrived.
    FetchAtomic = 6,
    /// A fetching atomic from the overflow list matched a new entry.
    FetchAtomicOverflow = 7,
    /// Data of a get or fetching atomic are here.
    Reply = 8,
    /// The local buffer may be reused.
    Send = 9,
    /// The target acknowledged.
    Ack = 10,
    /// A portal table entry was disabled.
    PtDisabled = 11,
    /// An entry was unlinked by the NIC.
    AutoUnlink = 12,
    /// No unexpected header points into an unlinked overflow entry any more.
    AutoFree = 13,
    /// Result of a search.
    Search = 14,
    /// An entry is in its list.
    Link = 15,
}

/// Whether an operation worked (section 3.13.3, `ni_fail_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum FailType {
    /// It did.
    #[default]
    Ok = 0,
    /// The target could not be reached.
    Undeliverable = 1,
    /// Nothing matched, or no room.
    Dropped = 2,
    /// The portal table entry was disabled.
    PtDisabled = 3,
    /// Wrong user.
    PermViolation = 4,
    /// The entry does not accept the operation.
    OpViolation = 5,
    /// Memory that is not there.
    Segv = 6,
    /// A search found nothing.
    NoMatch = 7,
}

/// A full event (`ptl_event_t`, section 3.13.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Whether it worked.
    pub fail: FailType,
    /// The list where the target matched.
    pub list: List,
    /// Portal table entry (target side).
    pub pt: u32,
    /// Who started the operation (target side).
    pub initiator: ProcessId,
    /// Address of the data (target side).
    pub start: u64,
    /// `user_ptr` of the entry or of the operation.
    pub user_ptr: u64,
    /// Of the put.
    pub hdr_data: u64,
    /// Of the operation.
    pub match_bits: u64,
    /// Bytes asked for.
    pub rlength: u64,
    /// Bytes moved.
    pub mlength: u64,
    /// Offset that was used.
    pub remote_offset: u64,
}

/// Result of a command that the library waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum ReplyCode {
    /// Done.
    Ok = 0,
    /// An operation uses it, or headers point to it.
    InUse = 1,
    /// It is not known (any more).
    Unknown = 2,
}

/// What the NIC writes into a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A full event.
    Event {
        /// The queue.
        eq: EqId,
        /// The event.
        event: Event,
    },
    /// A counting event has a new value.
    Count {
        /// Which.
        ct: CtId,
        /// Successes.
        success: u64,
        /// Failures.
        failure: u64,
    },
    /// The answer to a command with a ticket.
    Reply {
        /// The command's.
        ticket: u32,
        /// Its result.
        code: ReplyCode,
    },
}
