//! What a process tells its NIC.

use crate::{AckRequest, AtomicOperation, CtId, Datatype, EntryId, EqId, List, LocalBuffer, MatchEntry, RemoteTarget, SearchOperation};

/// A ticket that asks for no answer.
pub const NO_TICKET: u32 = 0;

/// What a [`Command::Query`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Register {
    /// `PTL_SR_DROP_COUNT` (section 3.6.7).
    DropCount = 0,
    /// `PTL_SR_PERMISSION_VIOLATIONS`.
    PermissionViolations = 1,
    /// `PTL_SR_OPERATION_VIOLATIONS`.
    OperationViolations = 2,
    /// List entries of the network interface, those included whose append is on the way.
    Entries = 3,
    /// Triggered operations of the process that wait.
    TriggeredOperations = 4,
    /// Of these entries, those that are or will be in the priority list of a portal table entry.
    PriorityEntries = 5,
    /// The same for its overflow list.
    OverflowEntries = 6,
}

/// What a network interface may have at most (section 3.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// List entries.
    pub entries: u32,
    /// Unexpected headers.
    pub unexpected_headers: u32,
    /// Entries of one list.
    pub list_size: u32,
}

/// An atomic, fetching atomic or swap (sections 3.15.4 to 3.15.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Source.
    pub local: LocalBuffer,
    /// Where the old value goes; without it the operation is a `PtlAtomic`.
    pub fetched: Option<LocalBuffer>,
    /// Bytes: a multiple of the type's size.
    pub length: u64,
    /// The source's bytes, when the library already took them.
    pub inline: Option<Box<[u8]>>,
    /// Acknowledgement, of one that fetches nothing.
    pub ack: AckRequest,
    /// Destination.
    pub target: RemoteTarget,
    /// 64 bits for the target's event.
    pub hdr_data: u64,
    /// What to do.
    pub operation: AtomicOperation,
    /// On what.
    pub datatype: Datatype,
    /// For operations that have one.
    pub operand: [u8; 32],
}

/// What a process tells of an execution context. A long description comes in several parts, the first one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPart {
    /// Its number among those of the process; a context that has all its parts is never changed.
    pub number: u8,
    /// Bit i: rule i of the NIC's handlers is for messages that find an entry with this context.
    pub rules: u64,
    /// How a message lies in memory, as the NIC's handlers read it; empty: in one piece.
    pub layout: Box<[u64]>,
    /// Another part follows.
    pub more: bool,
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
    /// Gives it back; [`crate::ReplyCode::InUse`] while entries are linked or messages under way.
    PtFree {
        /// Index.
        pt: u32,
        /// Comes back in the reply; or [`NO_TICKET`]: the network interface is closed, entries go as well.
        ticket: u32,
    },
    /// Accepts messages again.
    PtEnable {
        /// Index.
        pt: u32,
    },
    /// Refuses messages from now on; answered when none is in progress any more.
    PtDisable {
        /// Index.
        pt: u32,
        /// Comes back in the reply; or [`NO_TICKET`].
        ticket: u32,
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
    /// The program has taken events out of a queue on which flow control depends.
    EqRelease {
        /// Its identifier.
        eq: EqId,
        /// Events.
        count: u32,
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
    /// Forgets the triggered operations that wait for a counting event.
    CtCancel {
        /// Its identifier.
        ct: CtId,
    },
    /// Does `command` when successes and failures of a counting event reach a threshold.
    Triggered {
        /// The network interface whose limit counts it, see [`crate::PT_PER_INTERFACE`].
        interface: u32,
        /// The counting event.
        trigger: CtId,
        /// Successes plus failures.
        threshold: u64,
        /// A put, get, atomic, change of a counting event, append or unlink.
        command: Box<Command>,
    },
    /// Reads a register; its value is in the reply.
    Query {
        /// Which.
        register: Register,
        /// Of which network interface, see [`crate::PT_PER_INTERFACE`]; for the length of a list, of which portal table
        /// entry.
        of: u32,
        /// Comes back in the reply.
        ticket: u32,
    },
    /// A network interface has less than the NIC offers.
    SetLimits {
        /// Which; see [`crate::PT_PER_INTERFACE`].
        interface: u32,
        /// Its share; more than the NIC has is as much as it has.
        limits: Limits,
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
    /// Combines data with the target's.
    Atomic(Box<Atomic>),
    /// A put over a gateway.
    Forward(Box<crate::bridge::Forward>),
    /// An execution context for entries that name it ([`crate::me::CONTEXT`]), on a NIC with handlers.
    SetContext(Box<ContextPart>),
    /// A block of an allreduce, for a NIC with an accelerator; answered by [`Notice::Reply`].
    Allreduce(Box<crate::offload::Allreduce>),
}
