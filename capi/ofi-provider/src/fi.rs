//! Flags and error numbers of libfabric (`fabric.h`, `fi_errno.h`, `fi_domain.h`): part of its
//! binary interface, the same in 1.17 and 2.5. A test compares them with the headers.

pub const MSG: u64 = 1 << 1;
pub const RMA: u64 = 1 << 2;
pub const TAGGED: u64 = 1 << 3;
pub const ATOMIC: u64 = 1 << 4;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const RECV: u64 = 1 << 10;
pub const SEND: u64 = 1 << 11;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
pub const MULTI_RECV: u64 = 1 << 16;
pub const REMOTE_CQ_DATA: u64 = 1 << 17;
pub const PEEK: u64 = 1 << 19;
pub const FENCE: u64 = 1 << 21;
pub const COMPLETION: u64 = 1 << 24;
pub const INJECT: u64 = 1 << 25;
pub const TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const DELIVERY_COMPLETE: u64 = 1 << 28;
pub const DISCARD: u64 = 1 << 58;
/// As a flag of a receive; as a capability the same bit is [`DIRECTED_RECV`].
pub const CLAIM: u64 = 1 << 59;
pub const DIRECTED_RECV: u64 = 1 << 59;

pub const ADDR_UNSPEC: u64 = u64::MAX;
pub const ADDR_NOTAVAIL: u64 = u64::MAX;

/// A positive error number; C gets it negative.
pub type Errno = i32;

pub const ENOENT: Errno = 2;
pub const EIO: Errno = 5;
pub const EAGAIN: Errno = 11;
pub const EACCES: Errno = 13;
pub const EFAULT: Errno = 14;
pub const EBUSY: Errno = 16;
pub const EINVAL: Errno = 22;
pub const ENOSPC: Errno = 28;
pub const ENOMSG: Errno = 42;
pub const ENODATA: Errno = 61;
pub const EMSGSIZE: Errno = 90;
pub const EOPNOTSUPP: Errno = 95;
pub const ETIMEDOUT: Errno = 110;
pub const EKEYREJECTED: Errno = 129;
pub const ECANCELED: Errno = 125;
pub const EOTHER: Errno = 256;
pub const EAVAIL: Errno = 259;
pub const EOPBADSTATE: Errno = 258;
pub const ETRUNC: Errno = 265;
pub const ENOKEY: Errno = 266;
