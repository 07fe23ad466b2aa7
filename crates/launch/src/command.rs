//! The command lines. What each flag is for, and what was seen without it, is written beside it; all were tried with
//! Open MPI 4.1.4 and 5.0.11 and MPICH 5.0.2.

use crate::{Kind, Mpi, Scratch};
use std::process::Command;

/// Ranks that one hydra_pmi_proxy serves. Seen: 256 work, 1,024 do not.
const RANKS_PER_PROXY: u32 = 256;

/// Name of our libfabric provider.
pub const PROVIDER: &str = "narrows";

/// The command that starts a program on that many ranks with everything going through our provider.
///
/// `environment` is what every rank gets on top of the caller's environment: `FI_PROVIDER_PATH` with the folder of the provider,
/// `LD_PRELOAD`, what the simulator tells its ranks. Values of `LD_PRELOAD` must have no semicolon. The launcher itself is not
/// preloaded. Standard input goes to rank 0, the exit code is that of the launcher: that of the first rank that fails.
pub fn command(mpi: &Mpi, scratch: &Scratch, ranks: u32, program: &str, arguments: &[String], environment: &[(String, String)]) -> Command {
    command_through(PROVIDER, mpi, scratch, ranks, program, arguments, environment)
}

/// As [`command`], through another provider of libfabric that offers reliable datagrams by itself, such as `sockets`: to
/// tell a fault of an MPI installation from one of ours.
pub fn command_through(
    provider: &str,
    mpi: &Mpi,
    scratch: &Scratch,
    ranks: u32,
    program: &str,
    arguments: &[String],
    environment: &[(String, String)],
) -> Command {
    let mut command = Command::new(&mpi.launcher);
    let mut environment = environment.to_vec();
    // Without this every provider of libfabric is initialised, and may be chosen.
    environment.push(("FI_PROVIDER".to_owned(), provider.to_owned()));
    // The wheels of MPICH and Open MPI 5 are linked to UCX, which patches the memory functions of every process that loads it: 28 ms
    // of CPU time per rank instead of 3. Nothing here goes through UCX.
    environment.push(("UCX_MEM_MMAP_HOOK_MODE".to_owned(), "none".to_owned()));
    match mpi.kind {
        Kind::OpenMpi4 | Kind::OpenMpi5 => open_mpi(&mut command, mpi.kind, scratch, provider, &environment),
        Kind::Mpich => mpich(&mut command, ranks, &environment),
        Kind::Portals if mpi.launcher.ends_with(SHELL) => return spawn(ranks, program, arguments, &environment),
        Kind::Portals => mpich(&mut command, ranks, &environment),
    }
    command.arg("-n").arg(ranks.to_string()).arg(program).args(arguments);
    command
}

/// The command that starts a program as its users do, on that many ranks of this machine, with something more in the environment
/// of each. No network of ours; values as in [`command`].
pub fn plain(mpi: &Mpi, ranks: u32, program: &str, arguments: &[String], environment: &[(String, String)]) -> Command {
    if mpi.kind == Kind::Portals && mpi.launcher.ends_with(SHELL) {
        return spawn(ranks, program, arguments, environment);
    }
    let mut command = Command::new(&mpi.launcher);
    match mpi.kind {
        Kind::OpenMpi4 | Kind::OpenMpi5 => {
            // As many ranks as were asked for, also on few cores.
            command.args(["--oversubscribe", "--bind-to", "none"]);
            // SAFETY: no arguments.
            if unsafe { libc::geteuid() } == 0 {
                command.arg("--allow-run-as-root");
            }
            export(&mut command, environment);
        }
        Kind::Mpich | Kind::Portals => {
            for (name, value) in environment {
                command.arg("-genv").arg(name).arg(value);
            }
        }
    }
    command.arg("-n").arg(ranks.to_string()).arg(program).args(arguments);
    command
}

/// Starts the ranks where there is no launcher.
pub(crate) const SHELL: &str = "sh";

/// One process per rank, all at once; the code of the last one that failed.
const SPAWN: &str = r#"ranks=$1; shift; rank=0; code=0; all=
while [ $rank -lt $ranks ]; do
    NARROWS_RANK=$rank LD_PRELOAD=$NARROWS_PRELOAD "$@" &
    all="$all $!"; rank=$((rank + 1))
done
for one in $all; do wait $one || code=$?; done
exit $code"#;

fn spawn(ranks: u32, program: &str, arguments: &[String], environment: &[(String, String)]) -> Command {
    let mut command = Command::new(SHELL);
    command.args(["-c", SPAWN, "narrows", &ranks.to_string(), program]).args(arguments);
    for (name, value) in environment {
        // The shell itself is not preloaded.
        command.env(if name == "LD_PRELOAD" { "NARROWS_PRELOAD" } else { name }, value);
    }
    command
}

/// The launcher and all that it starts have their memory at the same addresses in every run.
pub fn without_aslr(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: one system call, which is safe between fork and exec; what it sets is inherited.
    unsafe {
        command.pre_exec(|| match libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

fn open_mpi(command: &mut Command, kind: Kind, scratch: &Scratch, provider: &str, environment: &[(String, String)]) {
    // More ranks than cores, and none of them bound: the simulator decides who runs.
    command.args(["--oversubscribe", "--bind-to", "none"]);
    // The session's folder, which stays behind when the launcher is killed. By these parameters and not by TMPDIR, because ranks see
    // the launcher's TMPDIR.
    let folder = scratch.path().display().to_string();
    match kind {
        Kind::OpenMpi4 => command.args(["--mca", "orte_tmpdir_base", &folder]),
        _ => command.args(["--prtemca", "prte_tmpdir_base", &folder]),
    };
    scratch.held_by(command);
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        command.arg("--allow-run-as-root");
    }
    let mut mca = |name: &str, value: &str| {
        command.args(["--mca", name, value]);
    };
    // Messages: the matching transport layer over libfabric and nothing beside it. Debian's openmpi-mca-params.conf
    // switches it off (mtl = ^ofi), the command line has the last word.
    mca("pml", "cm");
    mca("mtl", "ofi");
    mca("mtl_ofi_provider_include", provider);
    mca("btl", "self");
    // Collectives over shared memory, or made for the real node; those of others go around the network altogether. Names that a
    // version does not have are ignored.
    mca("coll", "^sm,han,xhc,acoll,smdirect,ucc,hcoll,portals4");
    // It places ranks by the real node and ends the program when it finds fewer cores than ranks there.
    mca("topo", "^treematch");
    // Shared file pointers in a semaphore of /dev/shm.
    mca("sharedfp", "^sm");
    // Ranks that wait in MPI_Init wait for others to get the processor.
    mca("mpi_yield_when_idle", "1");
    match kind {
        // One-sided through messages; not in Debian's default list.
        Kind::OpenMpi4 => {
            mca("osc", "pt2pt");
            // A launcher that is told to end waits a second for each try otherwise.
            mca("odls_base_sigkill_timeout", "0");
        }
        // There is no such component any more, and osc/rdma moves data in shared memory between processes of one real node
        // without asking anybody. Without a component MPI_Win_create fails with MPI_ERR_WIN.
        _ => mca("osc", "^sm,rdma,ucx,portals4,monitoring"),
    }
    // All ranks run here, whatever a batch system has to offer elsewhere.
    match kind {
        Kind::OpenMpi4 => {
            mca("ras", "^slurm,gridengine,loadleveler,lsf,tm,alps");
            mca("plm", "isolated");
        }
        _ => {
            command.args(["--prtemca", "ras", "^slurm,gridengine,lsf,pbs,tm,flux"]);
            command.args(["--prtemca", "plm", "^slurm,lsf,pals,tm"]);
            // The name of the job has the launcher's host and process number in it otherwise, and goes over the network in
            // MPI_Intercomm_create: the same program sent 312 or 320 bytes.
            command.env("PMIX_SERVER_NSPACE", "narrows").env("PMIX_SERVER_RANK", "0");
        }
    }
    export(command, environment);
}

/// Environment of the ranks, for Open MPI.
fn export(command: &mut Command, environment: &[(String, String)]) {
    for (name, value) in environment {
        if name == "LD_PRELOAD" {
            // Only for the ranks: the launcher would run in virtual time too.
            command.arg("-x").arg(format!("{name}={value}"));
        } else {
            // By name: values with semicolons do not survive in the list that Open MPI makes of `-x NAME=VALUE`.
            command.env(name, value).arg("-x").arg(name);
        }
    }
}

fn mpich(command: &mut Command, ranks: u32, environment: &[(String, String)]) {
    // All ranks here, started by fork, whatever a batch system has to offer.
    command.args(["-launcher", "fork", "-rmk", "user"]);
    if ranks > RANKS_PER_PROXY {
        // One proxy for all ranks and mpiexec block in write() to each other at 1,024 ranks; names stand for more proxies here.
        let proxies = ranks.div_ceil(RANKS_PER_PROXY);
        let hosts: Vec<String> = (0..proxies).map(|proxy| format!("proxy{proxy}:{RANKS_PER_PROXY}")).collect();
        command.arg("-hosts").arg(hosts.join(","));
    }
    // Ranks of one node talk through the network as well, collectives do not look at nodes: without it two ranks sent nothing
    // through the provider.
    command.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
    // Its shared memory serves messages of a rank to itself alone: four cells of 16 KiB instead of 64, a megabyte less of /dev/shm for
    // each rank (64 ranks of halo2d: 1.01 s of CPU instead of 1.08 s). Containers often have 64 MiB there for all.
    if std::env::var_os("MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS").is_none() {
        command.args(["-genv", "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS", "4"]);
    }
    // Builds may have UCX as well.
    command.args(["-genv", "MPIR_CVAR_CH4_NETMOD", "ofi"]);
    // Hydra writes the topology of this host to /tmp/hydra_hwloc_xmlfile_* for its ranks, unless there is such a file already, and leaves
    // it behind when it is killed. An empty name is none: everybody looks for himself, which was not slower (16 ranks: 0.55 s of CPU).
    if std::env::var_os("HWLOC_XMLFILE").is_none() {
        command.env("HWLOC_XMLFILE", "");
    }
    for (name, value) in environment {
        command.arg("-genv").arg(name).arg(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind) -> (Vec<String>, Vec<(String, String)>) {
        let mpi = Mpi { kind, version: "1".to_owned(), library: None, launcher: "/x/mpirun".into() };
        let environment = [("LD_PRELOAD", "/n/libp.so"), ("NARROWS_X", "a;b c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let command = command(&mpi, &Scratch::create().unwrap(), 7, "./prog", &["-n".to_owned(), "a b".to_owned()], &environment);
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let variables = command.get_envs().map(|(name, value)| (text(name), value.map_or(String::new(), text))).collect();
        (command.get_args().map(text).collect(), variables)
    }

    #[test]
    fn program_and_environment() {
        for kind in [Kind::OpenMpi4, Kind::OpenMpi5, Kind::Mpich] {
            let (arguments, variables) = line(kind);
            assert!(arguments.ends_with(&["-n", "7", "./prog", "-n", "a b"].map(str::to_owned)), "{arguments:?}");
            let pairs: Vec<_> = arguments.windows(2).map(|pair| (&*pair[0], &*pair[1])).collect();
            if kind == Kind::Mpich {
                let triples: Vec<_> = arguments.windows(3).map(|three| [&*three[0], &three[1], &three[2]]).collect();
                for [name, value] in [["NARROWS_X", "a;b c"], ["FI_PROVIDER", "narrows"], ["LD_PRELOAD", "/n/libp.so"]] {
                    assert!(triples.contains(&["-genv", name, value]), "{triples:?}");
                }
                assert_eq!(variables, [("HWLOC_XMLFILE".to_owned(), String::new())]);
            } else {
                assert!(pairs.contains(&("-x", "LD_PRELOAD=/n/libp.so")) && pairs.contains(&("-x", "NARROWS_X")), "{pairs:?}");
                assert!(variables.contains(&("NARROWS_X".to_owned(), "a;b c".to_owned())), "{variables:?}");
                assert!(variables.contains(&("FI_PROVIDER".to_owned(), "narrows".to_owned())), "{variables:?}");
                assert!(!variables.iter().any(|(name, _)| name == "LD_PRELOAD"), "the launcher is not preloaded");
                assert!(pairs.contains(&("mtl_ofi_provider_include", "narrows")));
            }
        }
    }
}
