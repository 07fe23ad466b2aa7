//! VEF traces: text, one record per message or per part in a collective, with the dependency that lets it start.
//!
//! Format as the public parser of the FORTH "taz" simulator has it, which quotes the header of the VEF TraceLIB:
//!
//! ```text
//! VEF nTasks nMsgs nCOMMs nGlobalColl nLocalColl onlySendFlag
//! C0 task task ...                                       one line per communicator; C0 has all tasks
//! ID src dst bytes Dep time IDdep                        a message; IDs count from 0
//! G<ID> COMM OP task send_bytes recv_bytes Dep time IDdep one part in collective ID
//! ```
//!
//! Times are nanoseconds. Dep 0: at this time, IDdep -1. 1: this long after the task sent message IDdep. 2: after it
//! received message IDdep. 3: after its part in collective IDdep (`G<n>`).
//!
//! Variants that are read too: any first word that begins with `VEF`; one more number at the end of the header (`VEF3`,
//! a clock: noted, not used); Dep plus 4, which marks that IDdep is a message; a dependency on a record further down.

mod read;
mod table;
mod write;

pub use read::{Header, read};
pub use write::{Written, write};

use crate::operation::Collective;

/// OP of a collective line.
fn code(operation: Collective) -> Option<u8> {
    match operation {
        Collective::Broadcast => Some(0),
        Collective::Reduce => Some(1),
        Collective::Allreduce => Some(2),
        Collective::Gather | Collective::Gatherv => Some(3),
        Collective::Scatter | Collective::Scatterv => Some(4),
        Collective::Allgather | Collective::Allgatherv => Some(5),
        Collective::Barrier => Some(6),
        Collective::Alltoall | Collective::Alltoallv => Some(7),
        Collective::ReduceScatterBlock | Collective::ReduceScatter | Collective::Scan | Collective::Exscan => None,
    }
}
