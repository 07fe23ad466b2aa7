//! The table of MPI libraries: a file each, a line in [`LIBRARIES`], and one in [`ABIS`] for an ABI of its own.
//!
//! * `library.rs`: [`Library`], what starts its programs: how its file and its launcher are recognised, and the command
//!   lines. For the process that starts the ranks.
//! * `abi.rs`: [`Abi`], what mpi.h says: handles of predefined objects, constants, a status. For a process that one of
//!   our libraries was loaded into: nothing here allocates, prints or panics.
//! * `openmpi.rs`, `mpich.rs`, `intel.rs`: the libraries. `standard.rs`: the ABI of MPI 5.0, which several have.
//!   `portals.rs`: programs without MPI. `hydra.rs`: the launcher of MPICH and its relatives.
//! * [`launchers`]: what launchers are called, and what they start.
//! * [`find`]: the next definition of a function, wherever the program has loaded it.
//!
//! ```
//! use narrows_mpilib::{ABIS, Abi};
//!
//! // What Debian's Open MPI 4.1 has, and MPICH 5.0 with its own ABI.
//! assert_eq!(Abi::of(ABIS, |name| name == c"ompi_mpi_comm_world").name, "Open MPI");
//! let mpich = Abi::of(ABIS, |name| name == c"MPI_Abi_get_version" || name == c"MPI_F_STATUS_IGNORE");
//! assert_eq!((mpich.name, mpich.constants.any_source), ("MPICH", -2));
//! ```

mod abi;
mod find;
mod hydra;
mod intel;
pub mod launchers;
mod library;
mod mpich;
mod openmpi;
pub mod portals;
mod standard;

pub use abi::{Abi, Constants, Fortran, Handles, Has, KnownAbi, MAX, MIN, Numbering, Predefined, SUM, SplitBy};
pub use find::{FILE_NAMES, Lookup, find};
pub use hydra::with_path;
pub use library::{App, Job, Library, Network, PROVIDER, Transport};

/// The MPI libraries whose programs can be started.
pub static LIBRARIES: &[&Library] = &[&openmpi::LIBRARY, &mpich::LIBRARY, &intel::LIBRARY];

/// Their ABIs, in the order in which they are tried: every library has the last one.
pub static ABIS: &[&Abi] = &[&openmpi::ABI, &standard::ABI, &mpich::ABI];
