use narrows_portals::{AtomicOperation, CtId, Datatype, EntryId, EqId, Process};
use thiserror::Error;

/// A command that the NIC refuses. Nothing has happened then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// The machine has no such process.
    #[error("no process {} on this machine", .0.0)]
    NoProcess(Process),
    /// The index is beyond [`crate::MAX_PT_INDEX`].
    #[error("portal table index {0} is beyond the limit of {max}", max = crate::MAX_PT_INDEX)]
    PtOutOfRange(u32),
    /// Not allocated.
    #[error("portal table entry {0} is not allocated")]
    PtUnknown(u32),
    /// Allocated already, or freed while entries are linked.
    #[error("portal table entry {0} is in use")]
    PtInUse(u32),
    /// Flow control needs an event queue (`PTL_PT_EQ_NEEDED`).
    #[error("portal table entry {0} asks for flow control but has no event queue")]
    EqNeeded(u32),
    /// The identifier is [`EqId::NONE`].
    #[error("event queue {} is none", .0.0)]
    EqOutOfRange(EqId),
    /// Not allocated.
    #[error("event queue {} is not allocated", .0.0)]
    EqUnknown(EqId),
    /// Allocated already.
    #[error("event queue {} is allocated already", .0.0)]
    EqInUse(EqId),
    /// The identifier is [`CtId::NONE`].
    #[error("counting event {} is none", .0.0)]
    CtOutOfRange(CtId),
    /// Not allocated.
    #[error("counting event {} is not allocated", .0.0)]
    CtUnknown(CtId),
    /// Allocated already.
    #[error("counting event {} is allocated already", .0.0)]
    CtInUse(CtId),
    /// The identifier belongs to an entry that still exists.
    #[error("list entry {} exists already", .0.0)]
    EntryInUse(EntryId),
    /// `NiLimits::max_list_size`, or what the network interface asked for, is reached (`PTL_LIST_TOO_LONG`).
    #[error("no room for another entry of the list: the limit is {0}")]
    ListTooLong(u32),
    /// `NiLimits::max_entries`, or what the network interface asked for, is reached (`PTL_NO_SPACE`).
    #[error("no room for another list entry: the limit is {0}")]
    NoSpace(u32),
    /// Longer than [`crate::MAX_LENGTH`].
    #[error("a length of {0} bytes is beyond the limit of {max}", max = crate::MAX_LENGTH)]
    TooLong(u64),
    /// The region passes the end of the address space.
    #[error("{length} bytes at {address:#x} pass the end of the address space")]
    PastEnd {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The bytes that came with a put are not as many as it says.
    #[error("the put of {length} bytes carries {carried} bytes")]
    InlineLength {
        /// Of the put.
        length: u64,
        /// What came with it.
        carried: u64,
    },
    /// The option for segments without segments, or the other way round.
    #[error("segments and the option for them (PTL_IOVEC) do not agree")]
    Iovec,
    /// An operation that its type does not have, or a length that is not of whole items, or not of one where only
    /// one is allowed.
    #[error("no atomic {operation:?} on {length} bytes of {datatype:?}")]
    Atomic {
        /// The operation.
        operation: AtomicOperation,
        /// Its type.
        datatype: Datatype,
        /// Bytes.
        length: u64,
    },
    /// A command that no counting event can release.
    #[error("this command cannot be triggered")]
    NotTriggerable,
    /// `NiLimits::max_triggered_ops` is reached (`PTL_NO_SPACE`).
    #[error("no room for another triggered operation: the limit is {0}")]
    NoTriggered(u32),
    /// A process has [`narrows_portals::INTERFACES`] network interfaces.
    #[error("there is no network interface {0}")]
    InterfaceOutOfRange(u32),
    /// An allreduce for a NIC that does none.
    #[error("this NIC has no allreduce accelerator")]
    NoAccelerator,
    /// Longer than a block, or nothing, or an operation or a type that the engine does not have.
    #[error(
        "the accelerator does no {operation:?} on {length} bytes of {datatype:?}: sum, min or max of int, float or double, 256 B at most"
    )]
    Allreduce {
        /// The operation.
        operation: AtomicOperation,
        /// Its type.
        datatype: Datatype,
        /// Bytes.
        length: u32,
    },
    /// A plan with nodes that the machine does not have.
    #[error("an allreduce with node {0}, which this machine does not have")]
    NoNode(u32),
}
