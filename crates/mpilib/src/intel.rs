//! Intel MPI since 2019: MPICH 3 and later with a Hydra of its own, and the ABI of MPICH.

use crate::{Job, Library, Network, PROVIDER, Transport, hydra};
use std::process::Command;

pub static LIBRARY: Library = Library {
    name: "Intel MPI",
    versions: "Intel MPI 2019 or later",
    // It has nothing but libfabric since then.
    oldest: 2019,
    // The wheel's; an installation by Intel has a folder for each kind.
    files: &["libmpi.so.12"],
    recognised: |has| has("Intel(R) MPI Library"),
    // mpirun is a script that sets variables for an installation by Intel.
    launchers: &["mpiexec.hydra", "mpiexec", "mpirun"],
    version,
    one_major: false,
    open_files: 4,
    holds_folder: true,
    preloads_launcher: false,
    notices_deaths: true,
    // 2021.18 waits for ever.
    notices_early_deaths: false,
    notices_early_failures: false,
    components: None,
    without_atomics: |_| &[],
    command,
    plain: |job| hydra::with_path(hydra::plain(job), job.launcher),
};

/// "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626".
fn version(answer: &str) -> Option<&str> {
    let mut lines = answer.lines();
    lines.find_map(|line| Some(line.split_once("Intel(R) MPI Library for Linux* OS, Version ")?.1))?.split_whitespace().next()
}

fn command(job: &Job, network: &Network) -> Command {
    let mut command = hydra::with_path(Command::new(job.launcher), job.launcher);
    hydra::here(&mut command, job.ranks());
    let provider = if let Transport::Ofi(provider) = network.transport { provider } else { PROVIDER };
    let mut set = |name: &str, value: &str| hydra::set(&mut command, name, value);
    // Nothing beside libfabric, and no other provider of its own choice.
    set("I_MPI_FABRICS", "ofi");
    set("I_MPI_OFI_PROVIDER", provider);
    // Collectives of ranks of one host go through shared memory, whatever the fabric: MPI_Barrier sent nothing.
    set("I_MPI_COLL_INTRANODE", "pt2pt");
    // Ranks of one node talk through the network as well, collectives do not look at nodes.
    set("MPIR_CVAR_NOLOCAL", "1");
    // Shared memory that it makes all the same, Intel_MPI_*, and that stays in /dev/shm when a rank is killed.
    set("I_MPI_SHM_FILE_PREFIX_4K", &network.folder.display().to_string());
    // More ranks than cores, and none of them bound: the simulator decides who runs.
    set("I_MPI_PIN", "0");
    hydra::set_all(&mut command, job);
    job.apps(command, |_| {})
}
