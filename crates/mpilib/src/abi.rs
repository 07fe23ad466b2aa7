//! What mpi.h of a library says.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Whether a name is among those of a library, or a text among its bytes.
pub type Has<'a, Name> = dyn Fn(&Name) -> bool + 'a;

/// The binary interface of MPI libraries. Values are those of mpi.h of Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and its
/// mpi_abi.h.
pub struct Abi {
    /// The library or standard that it is of.
    pub name: &'static str,
    /// Whether a library, or a process, has it, by the names that it has.
    pub recognised: fn(&Has<CStr>) -> bool,
    /// Handles are ints, and those of Fortran the same numbers. Otherwise they have the size of an address.
    pub int_handles: bool,
    /// Handles of predefined objects.
    pub handles: Handles,
    /// Numbers of C.
    pub constants: Constants,
    /// MPI_IN_PLACE of Fortran.
    pub fortran_in_place: &'static [Fortran],
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE of Fortran.
    pub fortran_ignore: &'static [Fortran],
    /// How the members of a new communicator agree on its number.
    pub numbering: Numbering,
    /// Its threads wait for each other at locks of its own, in `sched_yield`. Otherwise at those of POSIX.
    pub own_locks: bool,
    /// MPI_ERR_RMA_SHARED where a library with this ABI would share the memory of this computer between simulated
    /// nodes. `None`: it refuses that itself.
    pub refuses_shared_window: Option<c_int>,
}

/// Handles of predefined objects.
pub struct Handles {
    /// MPI_COMM_WORLD
    pub comm_world: Predefined,
    /// MPI_COMM_SELF
    pub comm_self: Predefined,
    /// MPI_COMM_NULL
    pub comm_null: Predefined,
    /// MPI_WIN_NULL
    pub win_null: Predefined,
    /// MPI_INFO_NULL
    pub info_null: Predefined,
    /// MPI_BYTE
    pub byte: Predefined,
    /// MPI_INT
    pub int: Predefined,
    /// MPI_FLOAT
    pub float: Predefined,
    /// MPI_DOUBLE
    pub double: Predefined,
    /// MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MINLOC,
    /// MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP
    pub operations: [Predefined; 14],
}

/// Place of MPI_MAX in [`Handles::operations`].
pub const MAX: usize = 0;
/// Of MPI_MIN.
pub const MIN: usize = 1;
/// Of MPI_SUM.
pub const SUM: usize = 2;

/// A predefined object.
#[derive(Clone, Copy)]
pub enum Predefined {
    /// Its handle is this number.
    Number(u32),
    /// Its handle is the address of this variable.
    Variable(&'static CStr),
}

impl Predefined {
    /// Its handle; 0 if the process lacks the variable, whose address `variable` looks up.
    pub fn handle(self, variable: impl FnOnce(&CStr) -> usize) -> u64 {
        match self {
            Predefined::Number(number) => u64::from(number),
            Predefined::Variable(name) => variable(name) as u64,
        }
    }
}

/// What MPI_Comm_split_type splits a communicator by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// Nodes, which have one package and one NUMA domain, with a cache of the last level.
    Node,
    /// Cores, with their nearer caches and hardware threads; each rank has its own.
    Core,
    /// What the info object names.
    Guided,
    /// The next smaller ones: nodes, then cores.
    Unguided,
}

/// Numbers of C.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// MPI_ANY_SOURCE
    pub any_source: i32,
    /// MPI_ANY_TAG
    pub any_tag: i32,
    /// MPI_ROOT
    pub root: i32,
    /// MPI_IN_PLACE
    pub in_place: u64,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE
    pub ignore: u64,
    /// Bytes of an MPI_Status.
    pub status_size: usize,
    /// Where its MPI_SOURCE stands.
    pub source_at: usize,
    /// Where its MPI_TAG stands.
    pub tag_at: usize,
    /// MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
    pub topologies: [i32; 3],
    /// MPI_COMM_TYPE_SHARED and the others that the library has, with what they split by.
    pub comm_types: &'static [(i32, SplitBy)],
    /// MPI_THREAD_MULTIPLE
    pub thread_multiple: i32,
    /// MPI_THREAD_SERIALIZED
    pub thread_serialized: i32,
    /// MPI_PROC_NULL
    pub proc_null: i32,
    /// MPI_WIN_CREATE_FLAVOR
    pub win_create_flavor: i32,
    /// MPI_WIN_FLAVOR_SHARED
    pub win_flavor_shared: i32,
    /// MPI_MODE_NOPRECEDE
    pub no_precede: i32,
    /// MPI_MODE_NOSUCCEED
    pub no_succeed: i32,
    /// MPI_LOCK_EXCLUSIVE
    pub lock_exclusive: i32,
}

/// A constant of Fortran that is known by its address.
#[derive(Clone, Copy)]
pub enum Fortran {
    /// The address of this variable.
    At(&'static CStr),
    /// The address that stands in this variable.
    Behind(&'static CStr),
}

impl Fortran {
    /// Whether an argument is one of these constants. `variable` looks up the address of a variable, 0 if there is
    /// none.
    pub fn any(constants: &[Fortran], argument: u64, variable: impl Fn(&CStr) -> usize) -> bool {
        constants.iter().any(|constant| {
            let address = match *constant {
                Fortran::At(name) => variable(name),
                Fortran::Behind(name) => match variable(name) {
                    0 => 0,
                    // SAFETY: a variable of the library that holds an address.
                    place => unsafe { *(place as *const usize) },
                },
            };
            address != 0 && address as u64 == argument
        })
    }
}

/// How the members of a new communicator agree on its number, in collectives that no call of the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Three allreduces of an int, each a reduction and a broadcast.
    Trees,
    /// An allreduce of 65 ints, the mask of free numbers, and a broadcast of an int in the new communicator.
    Mask,
}

impl Abi {
    /// The first of these ABIs that a library or process has, by the names that it `has`; MPICH's if it has none.
    pub fn of(abis: &[&'static Abi], has: impl Fn(&CStr) -> bool) -> &'static Abi {
        abis.iter().copied().find(|abi| (abi.recognised)(&has)).unwrap_or(&crate::mpich::ABI)
    }

    /// The handle in an argument: the upper half of a register means nothing if handles are ints.
    #[inline]
    pub const fn handle_of(&self, word: u64) -> u64 {
        if self.int_handles { word & 0xffff_ffff } else { word }
    }

    /// Where an element of an array of handles stands.
    #[inline]
    pub const fn handle_place(&self, array: u64, index: usize) -> u64 {
        array.wrapping_add((index * if self.int_handles { 4 } else { 8 }) as u64)
    }

    /// The handle that stands in memory.
    ///
    /// # Safety
    /// There is a handle of a library with this ABI.
    #[inline]
    pub unsafe fn handle_at(&self, place: u64) -> u64 {
        // SAFETY: handles are ints or have the size of an address.
        unsafe {
            match self.int_handles {
                true => u64::from(*(place as *const u32)),
                false => *(place as *const u64),
            }
        }
    }
}

/// The ABI of this process once somebody has looked.
pub struct KnownAbi(AtomicPtr<Abi>);

impl KnownAbi {
    /// Nobody has.
    pub const fn unknown() -> KnownAbi {
        KnownAbi(AtomicPtr::new(ptr::null_mut()))
    }

    /// What was found.
    #[inline]
    pub fn get(&self) -> Option<&'static Abi> {
        // SAFETY: null, or what `set` was given.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// It is this one.
    pub fn set(&self, abi: &'static Abi) {
        self.0.store(ptr::from_ref(abi).cast_mut(), Relaxed);
    }
}
