//! Where the arguments of a call stand (C bindings, from 0): what the table of `narrows-mpicalls` does not say.

use crate::Object;
use narrows_mpicalls::CALLS;
use std::sync::OnceLock;

/// How a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is over when it returns.
    Blocking,
    /// It leaves a request, there.
    Request(u8),
    /// It makes a persistent request, there.
    Persistent(u8),
}

/// Which requests of its array a call completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them (or the only one).
    All,
    /// That at this index.
    Any(u8),
    /// So many, at these indices.
    Some(u8, u8),
}

/// What of the sizes in a collective must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Not compared.
    None,
    /// Count and type are the same everywhere.
    Same(u8, u8),
    /// A list of counts, and a type, are the same everywhere.
    SameList(u8, u8),
    /// What ranks send is what the root expects: count, type; count, type (of each).
    Gather,
    /// The same with a list of counts at the root.
    Gatherv,
    /// What ranks expect is what the root sends.
    Scatter,
    /// The same with a list of counts at the root.
    Scatterv,
    /// All send the same to all.
    Allgather,
    /// The same with a list of what is expected.
    Allgatherv,
    /// All send to all.
    Alltoall,
    /// The same with lists.
    Alltoallv,
    /// The same with lists of counts and of types.
    Alltoallw,
    /// The same to each neighbour: [`Sizes::Allgather`] and [`Sizes::Alltoall`].
    NeighborEach,
    /// All send the same to all neighbours, and have a list of what is expected.
    NeighborGatherv,
    /// Lists of counts.
    NeighborLists,
    /// Lists of counts and of types.
    NeighborTypes,
}

/// What a function does, and where its arguments stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing that is looked at.
    None,
    /// MPI_Finalize.
    Finalize,
    /// Buffer, count, type, rank, tag, communicator.
    Send(How),
    /// The same; a blocking one has its status behind them.
    Receive(How),
    /// MPI_Sendrecv and MPI_Isendrecv.
    SendReceive(How),
    /// MPI_Sendrecv_replace and MPI_Isendrecv_replace.
    Replace(How),
    /// Another call with a request; its window if it has one.
    Other(How),
    /// MPI_Start.
    Start,
    /// MPI_Startall.
    StartAll,
    /// MPI_Wait and all of its relatives.
    Complete {
        /// How many requests; `None`: one.
        count: Option<u8>,
        /// Where they are.
        requests: u8,
        /// Those that are over.
        which: Which,
        /// Says whether any is.
        flag: Option<u8>,
        /// Their statuses.
        statuses: u8,
    },
    /// MPI_Request_free.
    RequestFree,
    /// MPI_Cancel.
    Cancel,
    /// MPI_Mprobe, and MPI_Improbe with its flag.
    MatchedProbe {
        /// There is an argument for whether there is a message.
        flag: bool,
    },
    /// MPI_Probe, and MPI_Iprobe with its flag.
    Probe {
        /// There is an argument for whether there is a message.
        flag: bool,
    },
    /// A collective.
    Collective {
        /// Where the communicator stands.
        communicator: u8,
        /// Where the reduce operation stands.
        operation: Option<u8>,
        /// What of its sizes is compared.
        sizes: Sizes,
        /// How it goes on.
        how: How,
    },
    /// Makes something; the communicator whose members all call it, if there is one, and where it goes.
    Make {
        /// What.
        object: Object,
        /// The communicator.
        communicator: Option<u8>,
        /// Where the new handle goes.
        at: u8,
    },
    /// Frees what its first argument names.
    Free(Object),
    /// Something on a window; where that stands, its assertion if it has one, and its request.
    Window {
        /// The window.
        window: u8,
        /// Its assertion.
        assertion: Option<u8>,
        /// Its request.
        request: Option<u8>,
    },
}

impl Shape {
    /// Where the number of elements stands, of what is sent if there are two, or that of requests.
    pub fn count(self) -> Option<u8> {
        match self {
            Shape::Send(_) | Shape::Receive(_) | Shape::SendReceive(_) | Shape::Replace(_) => Some(1),
            Shape::Complete { count, .. } => count,
            Shape::Collective { sizes: Sizes::Same(count, _), .. } => Some(count),
            Shape::Collective { sizes: Sizes::Gather | Sizes::Gatherv | Sizes::Scatter, .. } => Some(1),
            Shape::Collective { sizes: Sizes::Allgather | Sizes::Allgatherv | Sizes::Alltoall, .. } => Some(1),
            _ => None,
        }
    }
}

/// That of a call, by its index in the table.
pub fn of(call: u32) -> Shape {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    let shapes = SHAPES.get_or_init(|| CALLS.iter().map(|call| named(call.name.strip_suffix("_c").unwrap_or(call.name))).collect());
    shapes.get(call as usize).copied().unwrap_or(Shape::None)
}

/// Collectives by their blocking names: communicator, reduce operation, sizes.
const COLLECTIVES: &[(&str, u8, Option<u8>, Sizes)] = &[
    ("Barrier", 0, None, Sizes::None),
    ("Bcast", 4, None, Sizes::Same(1, 2)),
    ("Reduce", 6, Some(4), Sizes::Same(2, 3)),
    ("Allreduce", 5, Some(4), Sizes::Same(2, 3)),
    ("Scan", 5, Some(4), Sizes::Same(2, 3)),
    ("Exscan", 5, Some(4), Sizes::Same(2, 3)),
    ("Reduce_scatter_block", 5, Some(4), Sizes::Same(2, 3)),
    ("Reduce_scatter", 5, Some(4), Sizes::SameList(2, 3)),
    ("Gather", 7, None, Sizes::Gather),
    ("Gatherv", 8, None, Sizes::Gatherv),
    ("Scatter", 7, None, Sizes::Scatter),
    ("Scatterv", 8, None, Sizes::Scatterv),
    ("Allgather", 6, None, Sizes::Allgather),
    ("Allgatherv", 7, None, Sizes::Allgatherv),
    ("Alltoall", 6, None, Sizes::Alltoall),
    ("Alltoallv", 8, None, Sizes::Alltoallv),
    ("Alltoallw", 8, None, Sizes::Alltoallw),
    ("Neighbor_allgather", 6, None, Sizes::NeighborEach),
    ("Neighbor_allgatherv", 7, None, Sizes::NeighborGatherv),
    ("Neighbor_alltoall", 6, None, Sizes::NeighborEach),
    ("Neighbor_alltoallv", 8, None, Sizes::NeighborLists),
    ("Neighbor_alltoallw", 8, None, Sizes::NeighborTypes),
];

/// What makes something: the communicator whose members all call it, and where the new handle goes.
const MAKERS: &[(&str, Object, Option<u8>, u8)] = &[
    ("Comm_dup", Object::Communicator, Some(0), 1),
    ("Comm_dup_with_info", Object::Communicator, Some(0), 2),
    ("Comm_create", Object::Communicator, Some(0), 2),
    ("Comm_create_group", Object::Communicator, None, 3),
    ("Comm_split", Object::Communicator, Some(0), 3),
    ("Comm_split_type", Object::Communicator, Some(0), 4),
    ("Cart_create", Object::Communicator, Some(0), 5),
    ("Cart_sub", Object::Communicator, Some(0), 2),
    ("Graph_create", Object::Communicator, Some(0), 5),
    ("Dist_graph_create", Object::Communicator, Some(0), 8),
    ("Dist_graph_create_adjacent", Object::Communicator, Some(0), 9),
    ("Comm_create_from_group", Object::Communicator, None, 4),
    ("Intercomm_create", Object::Communicator, None, 5),
    ("Intercomm_create_from_groups", Object::Communicator, None, 7),
    ("Intercomm_merge", Object::Communicator, Some(0), 2),
    ("Win_create", Object::Window, Some(4), 5),
    ("Win_allocate", Object::Window, Some(3), 5),
    ("Win_allocate_shared", Object::Window, Some(3), 5),
    ("Win_create_dynamic", Object::Window, Some(1), 2),
    ("Type_contiguous", Object::Datatype, None, 2),
    ("Type_vector", Object::Datatype, None, 4),
    ("Type_create_hvector", Object::Datatype, None, 4),
    ("Type_hvector", Object::Datatype, None, 4),
    ("Type_indexed", Object::Datatype, None, 4),
    ("Type_create_hindexed", Object::Datatype, None, 4),
    ("Type_hindexed", Object::Datatype, None, 4),
    ("Type_create_indexed_block", Object::Datatype, None, 4),
    ("Type_create_hindexed_block", Object::Datatype, None, 4),
    ("Type_create_struct", Object::Datatype, None, 4),
    ("Type_struct", Object::Datatype, None, 4),
    ("Type_create_subarray", Object::Datatype, None, 6),
    ("Type_create_darray", Object::Datatype, None, 9),
    ("Type_create_resized", Object::Datatype, None, 3),
    ("Type_dup", Object::Datatype, None, 1),
    ("Comm_group", Object::Group, None, 1),
    ("Comm_remote_group", Object::Group, None, 1),
    ("Win_get_group", Object::Group, None, 1),
    ("File_get_group", Object::Group, None, 1),
    ("Group_union", Object::Group, None, 2),
    ("Group_intersection", Object::Group, None, 2),
    ("Group_difference", Object::Group, None, 2),
    ("Group_incl", Object::Group, None, 3),
    ("Group_excl", Object::Group, None, 3),
    ("Group_range_incl", Object::Group, None, 3),
    ("Group_range_excl", Object::Group, None, 3),
    ("Group_from_session_pset", Object::Group, None, 2),
    ("Op_create", Object::Operation, None, 2),
    ("Info_create", Object::Info, None, 0),
    ("Info_create_env", Object::Info, None, 2),
    ("Info_dup", Object::Info, None, 1),
    ("Comm_get_info", Object::Info, None, 1),
    ("Win_get_info", Object::Info, None, 1),
    ("File_get_info", Object::Info, None, 1),
    ("Session_get_info", Object::Info, None, 1),
    ("Session_get_pset_info", Object::Info, None, 2),
];

/// Calls on windows: the window, the assertion, the request.
const WINDOWS: &[(&str, u8, Option<u8>, Option<u8>)] = &[
    ("Win_fence", 1, Some(0), None),
    ("Win_lock", 3, None, None),
    ("Win_lock_all", 1, None, None),
    ("Win_unlock", 1, None, None),
    ("Win_unlock_all", 0, None, None),
    ("Win_start", 2, None, None),
    ("Win_complete", 0, None, None),
    ("Win_post", 2, None, None),
    ("Win_wait", 0, None, None),
    ("Win_test", 0, None, None),
    ("Win_sync", 0, None, None),
    ("Win_flush", 1, None, None),
    ("Win_flush_all", 0, None, None),
    ("Win_flush_local", 1, None, None),
    ("Win_flush_local_all", 0, None, None),
    ("Put", 7, None, None),
    ("Get", 7, None, None),
    ("Accumulate", 8, None, None),
    ("Get_accumulate", 11, None, None),
    ("Fetch_and_op", 6, None, None),
    ("Compare_and_swap", 6, None, None),
    ("Rput", 7, None, Some(8)),
    ("Rget", 7, None, Some(8)),
    ("Raccumulate", 8, None, Some(9)),
    ("Rget_accumulate", 11, None, Some(12)),
];

/// Where an operation says what it does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Rank of the target; the displacement stands behind it.
    pub rank: u8,
    /// Count and type; none: one element of the type.
    pub count: Option<u8>,
    /// The type.
    pub datatype: u8,
    /// The reduce operation.
    pub operation: Option<u8>,
    /// It writes, or accumulates.
    pub writes: bool,
}

/// Of a one-sided operation, by its index in the table of calls.
pub fn target(call: u32) -> Option<Target> {
    let call = CALLS.get(call as usize)?;
    let name = call.name.strip_suffix("_c").unwrap_or(call.name);
    let of = |rank, count, datatype, operation, writes| Some(Target { rank, count, datatype, operation, writes });
    match name {
        "MPI_Put" | "MPI_Rput" => of(3, Some(5), 6, None, true),
        "MPI_Get" | "MPI_Rget" => of(3, Some(5), 6, None, false),
        "MPI_Accumulate" | "MPI_Raccumulate" => of(3, Some(5), 6, Some(7), true),
        "MPI_Get_accumulate" | "MPI_Rget_accumulate" => of(6, Some(8), 9, Some(10), true),
        "MPI_Fetch_and_op" => of(3, None, 2, Some(5), true),
        "MPI_Compare_and_swap" => of(4, None, 3, None, true),
        _ => None,
    }
}

/// A buffer: its address, count (none: one element) and type.
pub type Buffer = (u8, Option<u8>, u8);

/// Buffers of the calling rank that a one-sided operation reads, and the one that it writes.
pub fn origins(call: u32) -> (&'static [Buffer], Option<Buffer>) {
    let Some(call) = CALLS.get(call as usize) else { return (&[], None) };
    match call.name.strip_suffix("_c").unwrap_or(call.name) {
        "MPI_Put" | "MPI_Rput" | "MPI_Accumulate" | "MPI_Raccumulate" => (&[(0, Some(1), 2)], None),
        "MPI_Get" | "MPI_Rget" => (&[], Some((0, Some(1), 2))),
        "MPI_Get_accumulate" | "MPI_Rget_accumulate" => (&[(0, Some(1), 2)], Some((3, Some(4), 5))),
        "MPI_Fetch_and_op" => (&[(0, None, 2)], Some((1, None, 2))),
        "MPI_Compare_and_swap" => (&[(0, None, 3), (1, None, 3)], Some((2, None, 3))),
        _ => (&[], None),
    }
}

fn complete(count: Option<u8>, requests: u8, which: Which, flag: Option<u8>, statuses: u8) -> Shape {
    Shape::Complete { count, requests, which, flag, statuses }
}

fn named(name: &str) -> Shape {
    let Some(name) = name.strip_prefix("MPI_") else { return Shape::None };
    match name {
        "Finalize" => return Shape::Finalize,
        "Send" | "Ssend" | "Rsend" | "Bsend" => return Shape::Send(How::Blocking),
        "Isend" | "Issend" | "Irsend" | "Ibsend" => return Shape::Send(How::Request(6)),
        "Send_init" | "Ssend_init" | "Rsend_init" | "Bsend_init" => return Shape::Send(How::Persistent(6)),
        "Recv" => return Shape::Receive(How::Blocking),
        "Irecv" => return Shape::Receive(How::Request(6)),
        "Recv_init" => return Shape::Receive(How::Persistent(6)),
        "Sendrecv" => return Shape::SendReceive(How::Blocking),
        "Isendrecv" => return Shape::SendReceive(How::Request(11)),
        "Sendrecv_replace" => return Shape::Replace(How::Blocking),
        "Isendrecv_replace" => return Shape::Replace(How::Request(8)),
        "Psend_init" | "Precv_init" => return Shape::Other(How::Persistent(8)),
        "Start" => return Shape::Start,
        "Startall" => return Shape::StartAll,
        "Wait" => return complete(None, 0, Which::All, None, 1),
        "Waitall" => return complete(Some(0), 1, Which::All, None, 2),
        "Waitany" => return complete(Some(0), 1, Which::Any(2), None, 3),
        "Waitsome" | "Testsome" => return complete(Some(0), 1, Which::Some(2, 3), None, 4),
        "Test" => return complete(None, 0, Which::All, Some(1), 2),
        "Testall" => return complete(Some(0), 1, Which::All, Some(2), 3),
        "Testany" => return complete(Some(0), 1, Which::Any(2), Some(3), 4),
        "Request_free" => return Shape::RequestFree,
        "Cancel" => return Shape::Cancel,
        "Mprobe" => return Shape::MatchedProbe { flag: false },
        "Improbe" => return Shape::MatchedProbe { flag: true },
        "Probe" => return Shape::Probe { flag: false },
        "Iprobe" => return Shape::Probe { flag: true },
        "Imrecv" => return Shape::Other(How::Request(4)),
        "Comm_free" | "Comm_disconnect" => return Shape::Free(Object::Communicator),
        "Type_free" => return Shape::Free(Object::Datatype),
        "Win_free" => return Shape::Free(Object::Window),
        "Group_free" => return Shape::Free(Object::Group),
        "Op_free" => return Shape::Free(Object::Operation),
        "Info_free" => return Shape::Free(Object::Info),
        _ => {}
    }
    if let Some(&(_, object, communicator, at)) = MAKERS.iter().find(|maker| maker.0 == name) {
        return Shape::Make { object, communicator, at };
    }
    if let Some(&(_, window, assertion, request)) = WINDOWS.iter().find(|call| call.0 == name) {
        return Shape::Window { window, assertion, request };
    }
    for &(base, communicator, operation, sizes) in COLLECTIVES {
        let how = if name == base {
            How::Blocking
        } else if name.strip_suffix("_init") == Some(base) {
            // The info comes between the communicator and the request.
            How::Persistent(communicator + 2)
        } else if name.strip_prefix('I').is_some_and(|rest| rest.eq_ignore_ascii_case(base)) {
            How::Request(communicator + 1)
        } else {
            continue;
        };
        return Shape::Collective { communicator, operation, sizes, how };
    }
    Shape::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_within_the_arguments() {
        let mut seen = 0;
        for (index, call) in CALLS.iter().enumerate() {
            let last = match of(index as u32) {
                Shape::None | Shape::Finalize => continue,
                Shape::Send(How::Blocking) => 5,
                Shape::Receive(How::Blocking) => 6,
                Shape::Send(How::Request(at) | How::Persistent(at)) | Shape::Receive(How::Request(at) | How::Persistent(at)) => at,
                Shape::SendReceive(How::Blocking) => 11,
                Shape::Replace(How::Blocking) => 8,
                Shape::SendReceive(How::Request(at)) | Shape::Replace(How::Request(at)) => at,
                Shape::Other(How::Request(at) | How::Persistent(at)) => at,
                Shape::Complete { statuses, .. } => statuses,
                Shape::Collective { communicator, how: How::Blocking, .. } => communicator,
                Shape::Collective { how: How::Request(at) | How::Persistent(at), .. } => at,
                Shape::Make { at, .. } => at,
                Shape::Window { .. } if call.name == "MPI_Win_test" => 1,
                Shape::Window { window, request, .. } => request.unwrap_or(window),
                Shape::Start | Shape::Cancel | Shape::RequestFree | Shape::Free(_) => 0,
                Shape::StartAll => 1,
                Shape::MatchedProbe { flag } => 4 + u8::from(flag),
                Shape::Probe { flag } => 3 + u8::from(flag),
                other => panic!("{}: {other:?}", call.name),
            };
            assert_eq!(last + 1, call.arguments, "{}", call.name);
            seen += 1;
        }
        assert!(seen > 200, "{seen}");
    }

    #[test]
    fn targets_of_operations_are_where_the_table_of_calls_says() {
        let targets = CALLS.iter().zip(0..).filter_map(|(call, id)| Some((call, target(id)?)));
        assert!(targets.clone().all(|(call, target)| call.peer.is_some_and(|peer| peer.argument == target.rank)));
        assert!(targets.count() >= 10);
        let with_origins = (0..CALLS.len() as u32).filter(|&id| origins(id) != (&[], None));
        assert!(with_origins.clone().all(|id| target(id).is_some()));
        assert_eq!(with_origins.count(), (0..CALLS.len() as u32).filter(|&id| target(id).is_some()).count());
    }

    #[test]
    fn every_collective_with_a_root_names_it_in_front_of_its_communicator() {
        for (index, call) in CALLS.iter().enumerate() {
            if let Shape::Collective { communicator, .. } = of(index as u32)
                && let Some(peer) = call.peer
            {
                assert_eq!(peer.argument + 1, communicator, "{}", call.name);
            }
        }
    }
}
