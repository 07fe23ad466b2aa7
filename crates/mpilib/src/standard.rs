//! The ABI of MPI 5.0: handles have the size of an address, those of predefined objects are small numbers. Values:
//! mpi_abi.h of MPICH 5.0.2.

use crate::Predefined::Number;
use crate::{Abi, Constants, Handles, Numbering, SplitBy, mpich};

pub static ABI: Abi = Abi {
    name: "MPI 5.0",
    // MPICH with its own ABI has Fortran's status constants, with this one it has none (nm -D of MPICH 5.0.2).
    recognised: |has| has(c"MPI_Abi_get_version") && !has(c"MPI_F_STATUS_IGNORE"),
    int_handles: false,
    handles: Handles {
        comm_world: Number(0x101),
        comm_self: Number(0x102),
        comm_null: Number(0x100),
        win_null: Number(0x110),
        info_null: Number(0x130),
        byte: Number(0x247),
        int: Number(0x209),
        float: Number(0x210),
        double: Number(0x214),
        operations: [
            Number(0x23),
            Number(0x22),
            Number(0x21),
            Number(0x24),
            Number(0x30),
            Number(0x28),
            Number(0x31),
            Number(0x29),
            Number(0x32),
            Number(0x2a),
            Number(0x38),
            Number(0x39),
            Number(0x3c),
            Number(0x3d),
        ],
    },
    constants: Constants {
        any_source: -1,
        any_tag: -2,
        root: -4,
        in_place: 1,
        ignore: 0,
        status_size: 32,
        source_at: 0,
        tag_at: 4,
        topologies: [211, 212, 213],
        comm_types: &[(221, SplitBy::Node), (222, SplitBy::Unguided), (223, SplitBy::Guided), (224, SplitBy::Guided)],
        thread_multiple: 4096,
        thread_serialized: 2048,
        proc_null: -3,
        win_create_flavor: 604,
        win_flavor_shared: 314,
        no_precede: 2048,
        no_succeed: 16384,
        lock_exclusive: 301,
    },
    fortran_in_place: mpich::FORTRAN_IN_PLACE,
    fortran_ignore: mpich::FORTRAN_IGNORE,
    numbering: Numbering::Mask,
    own_locks: false,
    refuses_shared_window: None,
};
