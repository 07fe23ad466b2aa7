//! The MPI functions: how each one waits, and where its arguments name a partner.
//!
//! The preload library puts a mark at the beginning and the end of every MPI call of the program; the simulator reads
//! from this table what the call may do meanwhile ([`Class`]) and what to say about it when the run stands still ("rank
//! 0: MPI_Recv from 1 tag 7"). Both sides name a call by its index in [`CALLS`], so they must come from the same build.
//!
//! * [`CALLS`]: every C function of MPI 4.1 and the MPI 5.0 ABI that one of the known libraries exports, with the
//!   large-count `_c` functions and the removed MPI-1 ones. `calls.rs` is data only.
//! * [`by_name`]: from a C or Fortran symbol to its index.
//! * [`describe`]: a call with its partner as a person would write it.
//!
//! ```
//! use narrows_mpicalls::{by_name, describe, Class, CALLS, ANY};
//!
//! let id = by_name("MPI_Recv").expect("in the table");
//! assert_eq!(CALLS[id as usize].class, Class::Blocking);
//! assert_eq!(describe(id, 1, 7), "MPI_Recv from 1 tag 7");
//! assert_eq!(describe(id, ANY, ANY), "MPI_Recv from any rank, any tag");
//! assert_eq!(by_name("mpi_recv_"), Some(id)); // Fortran
//! ```

#![forbid(unsafe_code)]

mod calls;

pub use calls::CALLS;

/// Peer or tag of a call that has none, and the peer of a call with MPI_PROC_NULL.
pub const NONE: i64 = -1;
/// Peer MPI_ANY_SOURCE, tag MPI_ANY_TAG (their values differ between MPI libraries).
pub const ANY: i64 = -2;

/// The call whose "tag" is an error code: as it is, or its low eight bits (what the launcher exits with) if it is
/// negative.
pub const ABORT: &str = "MPI_Abort";

/// What a call may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// May wait for other ranks: an empty poll inside it means that nothing can go on before the next completion. So do
    /// the calls of one-sided communication that libraries make of several operations of the network, with a lock
    /// around them.
    Blocking,
    /// Looks once and returns: MPI_Test, MPI_Iprobe, and calls that only drive progress.
    Polling,
    /// Waits for things outside the simulated network: the launcher, other jobs, sockets.
    Outside,
    /// Returns without waiting for anybody.
    Local,
}

/// What the rank in an argument is to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Destination of a message.
    To,
    /// Source of a message.
    From,
    /// Root of a collective.
    Root,
    /// Target of one-sided communication.
    Target,
}

/// The argument that names another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What that rank is to the caller.
    pub role: Role,
    /// Position among the C arguments, from 0. An `int`; Fortran passes its address at the same position.
    pub argument: u8,
}

/// One MPI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// C name.
    pub name: &'static str,
    /// What it may wait for.
    pub class: Class,
    /// Number of C arguments. Fortran has one more (ierror) and a hidden length for each string.
    pub arguments: u8,
    /// How many of the arguments are strings.
    pub strings: u8,
    /// The rank that it talks to. Calls that send and receive name the source: that is what they wait for.
    pub peer: Option<Peer>,
    /// Position of the message tag among the C arguments; for MPI_Abort that of the error code.
    pub tag: Option<u8>,
}

impl Call {
    /// Conversions between C and Fortran handles and arithmetic on addresses: a few instructions long and unable to
    /// communicate, so a mark would cost more than the call. MPI_Wtime and MPI_Wtick are clock reads, not calls.
    pub fn is_trivial(&self) -> bool {
        let conversion = ["_c2f", "_f2c", "_toint", "_fromint"].iter().any(|suffix| self.name.ends_with(suffix));
        let status = ["MPI_Status_c2f08", "MPI_Status_f082c", "MPI_Status_f082f", "MPI_Status_f2f08"].contains(&self.name);
        conversion || status || ["MPI_Aint_add", "MPI_Aint_diff", "MPI_Wtime", "MPI_Wtick"].contains(&self.name)
    }

    /// The MPI library may need many passes of its progress engine between two messages of such a call, or of the
    /// request that it starts: it agrees with other ranks on the number of a new communicator, step by step.
    pub fn agrees(&self) -> bool {
        let waits = self.class == Class::Blocking || self.name.starts_with("MPI_Comm_idup");
        let creates = ["MPI_Comm_", "MPI_Intercomm_", "MPI_Cart_", "MPI_Graph_", "MPI_Dist_graph_", "MPI_Win_create", "MPI_Win_allocate"];
        waits && (self.name == "MPI_File_open" || creates.iter().any(|begin| self.name.starts_with(begin)))
    }

    /// Brings in processes that the run did not begin with.
    pub fn adds_processes(&self) -> bool {
        ["MPI_Comm_spawn", "MPI_Comm_spawn_multiple", "MPI_Comm_accept", "MPI_Comm_connect", "MPI_Comm_join"].contains(&self.name)
    }

    /// All ranks of a communicator call it, and wait in it.
    pub fn is_collective(&self) -> bool {
        self.class == Class::Blocking
            && self.peer.is_none_or(|peer| peer.role == Role::Root)
            && !["MPI_Wait", "MPI_Win_", "MPI_File_"].iter().any(|begin| self.name.starts_with(begin))
    }

    /// Belongs to one-sided communication.
    pub fn is_one_sided(&self) -> bool {
        self.name.starts_with("MPI_Win_") || self.peer.is_some_and(|peer| peer.role == Role::Target)
    }

    /// Whether the function has Fortran bindings under its own name: all but the tools interface, handle conversions
    /// and large-count functions.
    pub fn has_fortran(&self) -> bool {
        !(self.name.starts_with("MPI_T_") || self.name.ends_with("_c") || self.is_trivial() && self.name.contains('2'))
    }
}

/// Index in [`CALLS`] of a function by its C name, its profiling name (`PMPI_`), or a Fortran symbol (`mpi_recv_`,
/// `mpi_recv_f08_`, `mpi_recv_f08ts_`).
pub fn by_name(name: &str) -> Option<u32> {
    let public = name.strip_prefix(['P', 'p']).filter(|rest| rest.starts_with("MPI_") || rest.starts_with("mpi_")).unwrap_or(name);
    if let Ok(index) = CALLS.binary_search_by(|call| call.name.cmp(public)) {
        return Some(index as u32);
    }
    let lower = public.strip_suffix('_')?;
    let lower = lower.strip_suffix("_f08").or_else(|| lower.strip_suffix("_f08ts")).unwrap_or(lower);
    let lower = lower.strip_suffix("_cptr").unwrap_or(lower);
    let same = |call: &Call| call.has_fortran() && call.name.eq_ignore_ascii_case(lower);
    (lower.starts_with("mpi_") && lower == lower.to_ascii_lowercase()).then(|| CALLS.iter().position(same)).flatten().map(|i| i as u32)
}

/// A call with its partner: "MPI_Recv from 1 tag 7", "MPI_Bcast root 0", "MPI_Waitall". `peer` and `tag` as in the
/// marks: a rank or tag, [`NONE`] or [`ANY`]. An index that is not in the table reads "no MPI call".
pub fn describe(id: u32, peer: i64, tag: i64) -> String {
    let Some(call) = CALLS.get(id as usize) else { return "no MPI call".to_owned() };
    let mut text = call.name.to_owned();
    if let Some(Peer { role, .. }) = call.peer {
        let word = match role {
            Role::To => "to",
            Role::From => "from",
            Role::Root => "root",
            Role::Target => "target",
        };
        match peer {
            ANY => text += &format!(" {word} any rank"),
            NONE => {}
            rank => text += &format!(" {word} {rank}"),
        }
    }
    if call.name == ABORT {
        text += &format!(" code {tag}");
    } else if call.tag.is_some() {
        match tag {
            ANY => text += if peer == ANY { ", any tag" } else { " any tag" },
            NONE => {}
            tag => text += &format!("{} tag {tag}", if peer == ANY { "," } else { "" }),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_without_duplicates_and_within_bounds() {
        for pair in CALLS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for call in CALLS {
            for position in call.peer.map(|peer| peer.argument).into_iter().chain(call.tag) {
                assert!(position < call.arguments, "{}: argument {position} of {}", call.name, call.arguments);
            }
            assert!(call.strings <= call.arguments, "{}", call.name);
        }
    }

    /// A large-count function differs from its twin in types only.
    #[test]
    fn large_count_functions_match_their_twins() {
        let mut twins = 0;
        for call in CALLS.iter().filter(|call| call.name.ends_with("_c") && !call.name.ends_with("f2c") && !call.name.ends_with("f082c")) {
            let twin = &CALLS[by_name(&call.name[..call.name.len() - 2]).expect(call.name) as usize];
            assert_eq!((call.class, call.peer, call.tag), (twin.class, twin.peer, twin.tag), "{}", call.name);
            twins += 1;
        }
        assert!(twins > 150, "{twins} large-count functions");
    }

    #[test]
    fn classes() {
        let class = |name| CALLS[by_name(name).expect(name) as usize].class;
        for name in
            ["MPI_Recv", "MPI_Waitall", "MPI_Barrier", "MPI_Comm_dup", "MPI_Win_fence", "MPI_File_write_at_all", "MPI_Mprobe", "MPI_Put"]
        {
            assert_eq!(class(name), Class::Blocking, "{name}");
        }
        for name in ["MPI_Test", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe", "MPI_Request_get_status", "MPI_Win_test"] {
            assert_eq!(class(name), Class::Polling, "{name}");
        }
        for name in ["MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Session_init", "MPI_Comm_spawn", "MPI_Abort"] {
            assert_eq!(class(name), Class::Outside, "{name}");
        }
        for name in
            ["MPI_Isend", "MPI_Irecv", "MPI_Ibarrier", "MPI_Comm_rank", "MPI_Start", "MPI_Bcast_init", "MPI_Bsend", "MPI_Win_attach"]
        {
            assert_eq!(class(name), Class::Local, "{name}");
        }
    }

    #[test]
    fn collectives() {
        let is = |name| CALLS[by_name(name).expect(name) as usize].is_collective();
        assert!(["MPI_Allreduce", "MPI_Bcast", "MPI_Barrier", "MPI_Neighbor_alltoall", "MPI_Comm_split", "MPI_Scan"].into_iter().all(is));
        assert!(!["MPI_Recv", "MPI_Waitall", "MPI_Sendrecv", "MPI_Ibarrier", "MPI_Win_lock", "MPI_Mprobe", "MPI_Put"].into_iter().any(is));
    }

    #[test]
    fn names_of_every_kind() {
        let id = by_name("MPI_Sendrecv");
        assert!(id.is_some());
        for name in ["PMPI_Sendrecv", "mpi_sendrecv_", "pmpi_sendrecv_", "mpi_sendrecv_f08_", "mpi_sendrecv_f08ts_"] {
            assert_eq!(by_name(name), id, "{name}");
        }
        assert_eq!(by_name("mpi_win_allocate_cptr_"), by_name("MPI_Win_allocate"));
        for name in ["mpi_sendrecv", "MPI_sendrecv", "mpi_f_sync_reg_", "MPI_", "", "P", "mpi_comm_c2f_", "mpi_Send_"] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }

    #[test]
    fn partners() {
        let text = |name, peer, tag| describe(by_name(name).expect(name), peer, tag);
        assert_eq!(text("MPI_Send", 3, 0), "MPI_Send to 3 tag 0");
        assert_eq!(text("MPI_Recv", ANY, 7), "MPI_Recv from any rank, tag 7");
        assert_eq!(text("MPI_Recv", 2, ANY), "MPI_Recv from 2 any tag");
        assert_eq!(text("MPI_Reduce", 0, NONE), "MPI_Reduce root 0");
        assert_eq!(text("MPI_Win_lock", 5, NONE), "MPI_Win_lock target 5");
        assert_eq!(text("MPI_Waitall", NONE, NONE), "MPI_Waitall");
        assert_eq!(text("MPI_Abort", NONE, 3), "MPI_Abort code 3");
        assert_eq!(describe(u32::MAX, 0, 0), "no MPI call");
    }
}
