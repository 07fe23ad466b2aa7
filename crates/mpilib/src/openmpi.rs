//! Open MPI 4 (ORTE) and 5 (PRRTE). Values: mpi.h of Open MPI 4.1.4 and 5.0.11; the command lines were tried with them
//! too.

use crate::Predefined::Variable;
use crate::{Abi, Constants, Fortran, Handles, Job, Library, Network, Numbering, SplitBy, Transport};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub static LIBRARY: Library = Library {
    name: "Open MPI",
    versions: "Open MPI 4 or 5",
    oldest: 4,
    files: &["libmpi.so.40"],
    recognised: |has| has("Open MPI v%d.%d.%d"),
    // Debian has several installations in /usr and names their launchers apart; mpirun may be any of them.
    launchers: &["mpirun.openmpi", "mpirun", "mpiexec"],
    version,
    one_major: true,
    open_files: 4,
    holds_folder: true,
    preloads_launcher: true,
    notices_deaths: true,
    notices_early_deaths: true,
    // 5.0.11 waits for ever for one with code 0.
    notices_early_failures: true,
    components: Some(has_component),
    // `btl/ofi` of version 4.1 ends the process in an atomic of a logical operation, and what the last items of a long
    // MPI_Get_accumulate have fetched gets lost when they are atomics of the network: it has none there anyway.
    without_atomics: |major| match major {
        4 => &["OMPI_MCA_osc_rdma_acc_use_amo", "OMPI_MCA_osc_rdma_network_max_amo"],
        _ => &[],
    },
    command,
    plain,
};

/// "mpirun (Open MPI) 4.1.4", under its other names "mpirun.openmpi (OpenRTE) 4.1.4".
fn version(answer: &str) -> Option<&str> {
    let name = |line: &'_ str| line.find("(Open MPI) ").or_else(|| line.find("(OpenRTE) "));
    let (line, at) = answer.lines().find_map(|line| Some((line, name(line)?)))?;
    line[at..].split_once(") ")?.1.split_whitespace().next()
}

/// More ranks than cores, and none of them bound: the simulator decides who runs.
const ON_FEW_CORES: [&str; 3] = ["--oversubscribe", "--bind-to", "none"];

fn command(job: &Job, network: &Network) -> Command {
    let mut command = Command::new(job.launcher);
    command.args(ON_FEW_CORES);
    // The session's folder, which stays behind when the launcher is killed. By these parameters and not by TMPDIR,
    // because ranks see the launcher's TMPDIR.
    let folder = network.folder.display().to_string();
    match job.major {
        4 => command.args(["--mca", "orte_tmpdir_base", &folder]),
        _ => command.args(["--prtemca", "prte_tmpdir_base", &folder]),
    };
    as_root(&mut command);
    let mut mca = |name: &str, value: &str| {
        command.args(["--mca", name, value]);
    };
    // Collectives over shared memory, or made for the real node; those of others go around the network altogether.
    // Names that a version does not have are ignored.
    const AROUND: &str = "^sm,han,xhc,acoll,smdirect,ucc,hcoll";
    let without_portals = format!("{AROUND},portals4");
    // Open MPI's collectives by triggered operations: for those who ask for them, because they crash in MPI_Allgatherv
    // (4.1.4).
    let asked_for = env::var_os("OMPI_MCA_coll_portals4_priority").is_some();
    let over_portals = if asked_for { AROUND } else { &without_portals };
    match network.transport {
        Transport::Ofi(provider) => {
            // Messages: the matching transport layer over libfabric and nothing beside it. Debian's
            // openmpi-mca-params.conf switches it off (mtl = ^ofi), the command line has the last word.
            mca("pml", "cm");
            mca("mtl", "ofi");
            mca("mtl_ofi_provider_include", provider);
            // One-sided operations: the byte transfer layer over libfabric, a second endpoint in the domain of the one
            // above.
            mca("btl", "self,ofi");
            mca("coll", &without_portals);
        }
        Transport::MtlPortals4 => {
            mca("pml", "cm");
            mca("mtl", "portals4");
            mca("btl", "self");
            mca("coll", over_portals);
        }
        Transport::BtlPortals4 => {
            mca("pml", "ob1");
            mca("btl", "self,portals4");
            mca("coll", over_portals);
        }
    }
    // It places ranks by the real node and ends the program when it finds fewer cores than ranks there.
    mca("topo", "^treematch");
    // Shared file pointers in a semaphore of /dev/shm.
    mca("sharedfp", "^sm");
    // Ranks that wait in MPI_Init wait for others to get the processor.
    mca("mpi_yield_when_idle", "1");
    match network.transport {
        Transport::MtlPortals4 => mca("osc", "portals4"),
        Transport::BtlPortals4 => mca("osc", "pt2pt,rdma"),
        Transport::Ofi(_) => mca("osc", one_sided(job)),
    }
    // All ranks run here, whatever a batch system has to offer elsewhere.
    match job.major {
        4 => {
            // A launcher that is told to end waits a second for each try otherwise.
            mca("odls_base_sigkill_timeout", "0");
            mca("ras", "^slurm,gridengine,loadleveler,lsf,tm,alps");
            mca("plm", "isolated");
        }
        _ => {
            command.args(["--prtemca", "ras", "^slurm,gridengine,lsf,pbs,tm,flux"]);
            command.args(["--prtemca", "plm", "^slurm,lsf,pals,tm"]);
            // The name of the job has the launcher's host and process number in it otherwise, and goes over the network
            // in MPI_Intercomm_create: the same program sent 312 or 320 bytes.
            command.env("PMIX_SERVER_NSPACE", "narrows").env("PMIX_SERVER_RANK", "0");
        }
    }
    // Version 4 gives `-x` to the program before the next `:` alone.
    job.apps(command, |command| export(command, job))
}

fn plain(job: &Job) -> Command {
    let mut command = Command::new(job.launcher);
    // As many ranks as were asked for, also on few cores.
    command.args(ON_FEW_CORES);
    as_root(&mut command);
    job.apps(command, |command| export(command, job))
}

fn as_root(command: &mut Command) {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        command.arg("--allow-run-as-root");
    }
}

/// Components for one-sided operations over libfabric.
fn one_sided(job: &Job) -> &'static str {
    // Of version 4 osc/rdma takes the byte transfer layer above; osc/sm is for the shared windows of a rank with
    // itself. osc/pt2pt, over messages, is there for those who ask for it: MPI_Put on a dynamic window of osc/rdma
    // waits for a lock that it holds itself in Open MPI 4.1.4. In version 5 osc/rdma would take shared memory between
    // ranks of one node, but each rank is told that it is alone on its own (capi/preload/src/peers.rs).
    let ours = job.variable("OMPI_MCA_osc") == Some("pt2pt");
    let asked_for = ours || env::var_os("OMPI_MCA_osc").is_some_and(|wanted| wanted == "pt2pt");
    if job.major == 4 && asked_for { "pt2pt" } else { "rdma,sm" }
}

/// Environment of the ranks.
fn export(command: &mut Command, job: &Job) {
    for (name, value) in job.environment {
        if name == "LD_PRELOAD" {
            // Only for the ranks: the launcher would run in virtual time too.
            command.arg("-x").arg(format!("{name}={value}"));
        } else {
            // By name: values with semicolons do not survive in the list that Open MPI makes of `-x NAME=VALUE`.
            command.env(name, value).arg("-x").arg(name);
        }
    }
}

/// A component is in a file of its own, or in the libraries.
fn has_component(folder: &Path, component: &str) -> Option<bool> {
    // They may be anywhere then.
    if env::var_os("OMPI_MCA_mca_base_component_path").is_some() {
        return None;
    }
    let names: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let starts = |path: &Path, text: &str| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(text));
    let (folders, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|path| path.is_dir());
    let has = |component: &str| {
        let (file, symbol) = (format!("mca_{component}.so"), format!("mca_{component}_component"));
        // Debian has them in openmpi/lib/openmpi3.
        folders.iter().filter(|path| starts(path, "openmpi")).any(|path| is_below(path, &file, 3))
            || files
                .iter()
                .filter(|path| starts(path, "libmpi.so") || starts(path, "libopen-pal.so"))
                .any(|path| fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, symbol.as_bytes()).is_some()))
    };
    // Every Open MPI has the second one.
    if has(component) { Some(true) } else { has("pml_ob1").then_some(false) }
}

/// Whether there is a file of that name in `folder`, or so deep below it.
fn is_below(folder: &Path, name: &str, depth: u32) -> bool {
    let entries = || fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    folder.join(name).exists() || (depth > 0 && entries().any(|path| path.is_dir() && is_below(&path, name, depth - 1)))
}

pub static ABI: Abi = Abi {
    name: "Open MPI",
    // The predefined communicator object is part of the ABI (mpi.h, OMPI_PREDEFINED_GLOBAL).
    recognised: |has| has(c"ompi_mpi_comm_world"),
    int_handles: false,
    handles: Handles {
        comm_world: Variable(c"ompi_mpi_comm_world"),
        comm_self: Variable(c"ompi_mpi_comm_self"),
        comm_null: Variable(c"ompi_mpi_comm_null"),
        win_null: Variable(c"ompi_mpi_win_null"),
        info_null: Variable(c"ompi_mpi_info_null"),
        byte: Variable(c"ompi_mpi_byte"),
        int: Variable(c"ompi_mpi_int"),
        float: Variable(c"ompi_mpi_float"),
        double: Variable(c"ompi_mpi_double"),
        operations: [
            Variable(c"ompi_mpi_op_max"),
            Variable(c"ompi_mpi_op_min"),
            Variable(c"ompi_mpi_op_sum"),
            Variable(c"ompi_mpi_op_prod"),
            Variable(c"ompi_mpi_op_land"),
            Variable(c"ompi_mpi_op_band"),
            Variable(c"ompi_mpi_op_lor"),
            Variable(c"ompi_mpi_op_bor"),
            Variable(c"ompi_mpi_op_lxor"),
            Variable(c"ompi_mpi_op_bxor"),
            Variable(c"ompi_mpi_op_minloc"),
            Variable(c"ompi_mpi_op_maxloc"),
            Variable(c"ompi_mpi_op_replace"),
            Variable(c"ompi_mpi_op_no_op"),
        ],
    },
    constants: Constants {
        any_source: -1,
        any_tag: -1,
        root: -4,
        in_place: 1,
        ignore: 0,
        status_size: 24,
        source_at: 0,
        tag_at: 4,
        topologies: [1, 2, 3],
        // MPI_COMM_TYPE_SHARED; OMPI_COMM_TYPE_HWTHREAD, _CORE, _L1CACHE, _L2CACHE; _L3CACHE, _SOCKET, _NUMA, _BOARD,
        // _HOST, _CU, _CLUSTER, which Open MPI knows of ranks of one node only; of Open MPI 5 the last two.
        comm_types: &[
            (0, SplitBy::Node),
            (1, SplitBy::Core),
            (2, SplitBy::Core),
            (3, SplitBy::Core),
            (4, SplitBy::Core),
            (5, SplitBy::Node),
            (6, SplitBy::Node),
            (7, SplitBy::Node),
            (8, SplitBy::Node),
            (9, SplitBy::Node),
            (10, SplitBy::Node),
            (11, SplitBy::Node),
            (12, SplitBy::Unguided),
            (13, SplitBy::Guided),
        ],
        thread_multiple: 3,
        thread_serialized: 2,
        proc_null: -2,
        win_create_flavor: 10,
        win_flavor_shared: 4,
        no_precede: 2,
        no_succeed: 16,
        lock_exclusive: 1,
    },
    fortran_in_place: &[Fortran::At(c"mpi_fortran_in_place_")],
    fortran_ignore: &[Fortran::At(c"mpi_fortran_status_ignore_"), Fortran::At(c"mpi_fortran_statuses_ignore_")],
    numbering: Numbering::Trees,
    own_locks: true,
    refuses_shared_window: None,
};
