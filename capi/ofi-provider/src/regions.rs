//! Domains and their memory regions.
//!
//! A region that peers may use is a match list entry on the domain's own portal table entry: its match
//! bits are the key, all 64, and offsets in it are libfabric's (mr_mode 0). It raises no events. Those that may be
//! written count in one counting event of the domain: nobody reads it, but a rank that waits for its memory to change,
//! as Open MPI's `osc/rdma` does, sleeps in simulated time until its NIC tells it something.

use std::collections::BTreeMap;

use narrows_portals::{FailType, me};

use crate::fi::{self, Errno};
use crate::port::{Interface, abi};

/// Domains of a process: their portal table entries are the last ones of the network interface.
pub const MAX_DOMAINS: u32 = 32;

/// Looks at an entry that an operation of a peer still uses, before closing it is refused. Each takes as long as a
/// command and its answer, about a microsecond: our own choice.
const UNLINK_TRIES: u32 = 100_000;

/// The portal table entry of a domain's regions.
pub fn table_index(domain: u32) -> u32 {
    super::state::TABLE_SIZE - 1 - domain
}

/// What its first region opens.
#[derive(Clone, Copy, Debug)]
struct Open {
    interface: Interface,
    changes: abi::Handle,
}

/// A domain.
#[derive(Debug, Default)]
pub struct Domain {
    open: Option<Open>,
    /// By key.
    regions: BTreeMap<u64, Region>,
}

/// A region.
#[derive(Debug)]
struct Region {
    start: u64,
    length: u64,
    access: u64,
    /// None if no peer may use it.
    entry: Option<abi::Handle>,
}

impl Domain {
    /// Registers memory.
    pub fn register(&mut self, number: u32, interface: Interface, key: u64, start: u64, length: u64, access: u64) -> Result<(), Errno> {
        if self.regions.contains_key(&key) {
            return Err(fi::ENOKEY);
        }
        let mut options = me::EVENT_COMM_DISABLE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE | me::NO_TRUNCATE;
        if access & fi::REMOTE_READ != 0 {
            options |= me::OP_GET;
        }
        if access & fi::REMOTE_WRITE != 0 {
            options |= me::OP_PUT | me::EVENT_CT_COMM;
        }
        let entry = if options & (me::OP_GET | me::OP_PUT) == 0 {
            None
        } else {
            let open = match self.open {
                Some(open) => open,
                None => {
                    let changes = interface.counting_event()?;
                    interface
                        .table_entry(table_index(number), 0, abi::HANDLE_NONE)
                        .inspect_err(|_| interface.free_counting_event(changes))?;
                    *self.open.insert(Open { interface, changes })
                }
            };
            let length = length.min(abi::SIZE_MAX);
            Some(interface.append(table_index(number), key, start, length, options, open.changes)?)
        };
        self.regions.insert(key, Region { start, length, access, entry });
        Ok(())
    }

    /// Address of a part of a region that allows all of `access`.
    ///
    /// # Errors
    /// The `ni_fail_type` that the NIC would have.
    pub fn reach(&self, key: u64, offset: u64, length: u64, access: u64) -> Result<u64, u32> {
        const DROPPED: u32 = FailType::Dropped as u32;
        let region = self.regions.get(&key).filter(|region| region.entry.is_some()).ok_or(DROPPED)?;
        let end = offset.checked_add(length).ok_or(DROPPED)?;
        if region.access & access != access {
            return Err(FailType::OpViolation as u32);
        }
        if end <= region.length { Ok(region.start.wrapping_add(offset)) } else { Err(DROPPED) }
    }

    /// Ends a registration: after that nothing arrives in the memory any more.
    pub fn deregister(&mut self, key: u64) -> Result<(), Errno> {
        let region = self.regions.get(&key).ok_or(fi::EINVAL)?;
        if let (Some(entry), Some(open)) = (region.entry, self.open)
            && !(0..UNLINK_TRIES).any(|_| open.interface.unlink(entry))
        {
            return Err(fi::EBUSY);
        }
        self.regions.remove(&key);
        Ok(())
    }

    /// Gives everything back.
    pub fn close(self, number: u32) {
        if let Some(open) = self.open {
            open.interface.free_table_entry(table_index(number));
            open.interface.free_counting_event(open.changes);
        }
    }
}
