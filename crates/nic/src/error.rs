use std::fmt::{Display, Formatter};

use narrows_matching::CommandError;
use narrows_portals::{Process, ProcessId};
use narrows_units::SimTime;
use serde::{Deserialize, Serialize};

/// A command that was refused only when the NIC worked on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Who wrote it.
    pub process: Process,
    /// Why it was refused.
    pub error: CommandError,
}

/// An access that the NIC of its target has refused: the two processes are in different protection domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Denied {
    /// When its source heard of it.
    pub at: SimTime,
    /// Whose access it was.
    pub process: Process,
    /// Its protection domain.
    pub domain: u16,
    /// Where it went.
    pub target: ProcessId,
    /// The protection domain there.
    pub target_domain: u16,
    /// The portal table entry.
    pub entry: u32,
    /// The offset in the memory behind it.
    pub offset: u64,
}

impl Display for Denied {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Denied { process: Process(process), domain, target, target_domain, entry, offset, .. } = self;
        let (node, pid) = (target.node().map_or(0, |node| node.0), target.pid.saturating_sub(1));
        write!(
            f,
            "node {node} has refused an access of rank {process}, which is in protection domain {domain}, to address {offset:#x} of \
             portal table entry {entry} of its process {pid}, which is in domain {target_domain}; see nic.exanet.domains"
        )
    }
}
