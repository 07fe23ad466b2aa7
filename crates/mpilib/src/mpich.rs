//! MPICH 4 and 5. Values: mpi.h of MPICH 5.0.2; the command line was tried with it too.

use crate::Predefined::Number;
use crate::{Abi, Constants, Fortran, Handles, Job, Library, Network, Numbering, SplitBy, hydra};
use std::process::Command;

pub static LIBRARY: Library = Library {
    name: "MPICH",
    versions: "MPICH 4 or 5",
    // libfabric is the way into ch4, the device of MPICH since 4.0.
    oldest: 4,
    // The second one is Debian's, the third one has the ABI of MPI 5.0.
    files: &["libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"],
    // Relatives have their own name too.
    recognised: |has| has("MPICH Version:") && !["Intel(R) MPI Library", "MVAPICH", "CRAY MPICH"].into_iter().any(has),
    // Debian has several installations in /usr and names their launchers apart; mpirun may be any of them.
    launchers: &["mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"],
    version,
    one_major: false,
    open_files: 4,
    holds_folder: false,
    preloads_launcher: false,
    notices_deaths: true,
    notices_early_deaths: true,
    // It waits for ever.
    notices_early_failures: false,
    components: None,
    without_atomics: |_| &[],
    command: |job, _: &Network| command(job),
    plain: hydra::plain,
};

/// The build details of Hydra.
fn version(answer: &str) -> Option<&str> {
    let mut lines = answer.lines().filter(|_| answer.contains("HYDRA build details"));
    lines.find_map(|line| line.trim().strip_prefix("Version:"))?.split_whitespace().next()
}

pub fn command(job: &Job) -> Command {
    let mut command = Command::new(job.launcher);
    hydra::here(&mut command, job.ranks());
    // Ranks of one node talk through the network as well, collectives do not look at nodes: without it two ranks sent
    // nothing through the provider.
    hydra::set(&mut command, "MPIR_CVAR_NOLOCAL", "1");
    // Its shared memory serves messages of a rank to itself alone: four cells of 16 KiB instead of 64, a megabyte less
    // of /dev/shm for each rank (64 ranks of halo2d: 1.01 s of CPU instead of 1.08 s). Containers often have 64 MiB
    // there for all.
    if std::env::var_os("MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS").is_none() {
        hydra::set(&mut command, "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS", "4");
    }
    // crates/guest/src/own_queue.rs. The file itself may have no name there.
    hydra::set(&mut command, "NARROWS_OWN_QUEUE", "/dev/shm/");
    // Builds may have UCX as well.
    hydra::set(&mut command, "MPIR_CVAR_CH4_NETMOD", "ofi");
    // Hydra writes the topology of this host to /tmp/hydra_hwloc_xmlfile_* for its ranks, unless there is such a file
    // already, and leaves it behind when it is killed. An empty name is none: everybody looks for himself, which was
    // not slower (16 ranks: 0.55 s of CPU).
    if std::env::var_os("HWLOC_XMLFILE").is_none() {
        command.env("HWLOC_XMLFILE", "");
    }
    hydra::set_all(&mut command, job);
    job.apps(command, |_| {})
}

pub const FORTRAN_IN_PLACE: &[Fortran] = &[Fortran::Behind(c"MPIR_F_MPI_IN_PLACE")];
pub const FORTRAN_IGNORE: &[Fortran] = &[Fortran::Behind(c"MPI_F_STATUS_IGNORE"), Fortran::Behind(c"MPI_F_STATUSES_IGNORE")];

/// That of its relatives too.
pub static ABI: Abi = Abi {
    name: "MPICH",
    // It has no mark of its own.
    recognised: |_| true,
    int_handles: true,
    handles: Handles {
        comm_world: Number(0x4400_0000),
        comm_self: Number(0x4400_0001),
        comm_null: Number(0x0400_0000),
        win_null: Number(0x2000_0000),
        info_null: Number(0x1c00_0000),
        byte: Number(0x4c00_010d),
        int: Number(0x4c00_0405),
        float: Number(0x4c00_040a),
        double: Number(0x4c00_080b),
        operations: [
            Number(0x5800_0001),
            Number(0x5800_0002),
            Number(0x5800_0003),
            Number(0x5800_0004),
            Number(0x5800_0005),
            Number(0x5800_0006),
            Number(0x5800_0007),
            Number(0x5800_0008),
            Number(0x5800_0009),
            Number(0x5800_000a),
            Number(0x5800_000b),
            Number(0x5800_000c),
            Number(0x5800_000d),
            Number(0x5800_000e),
        ],
    },
    constants: Constants {
        any_source: -2,
        any_tag: -1,
        root: -3,
        in_place: u64::MAX,
        ignore: 1,
        status_size: 20,
        source_at: 8,
        tag_at: 12,
        topologies: [2, 1, 3],
        comm_types: &[(1, SplitBy::Node), (2, SplitBy::Guided), (3, SplitBy::Unguided), (4, SplitBy::Guided)],
        thread_multiple: 3,
        thread_serialized: 2,
        proc_null: -1,
        win_create_flavor: 0x6600_0007,
        win_flavor_shared: 4,
        no_precede: 8192,
        no_succeed: 16384,
        lock_exclusive: 234,
    },
    fortran_in_place: FORTRAN_IN_PLACE,
    fortran_ignore: FORTRAN_IGNORE,
    numbering: Numbering::Mask,
    own_locks: false,
    // Intel MPI would share it.
    refuses_shared_window: Some(57),
};
