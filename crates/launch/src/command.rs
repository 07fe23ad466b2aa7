//! The command lines. What each flag is for, and what was seen without it, is written beside it; all were tried with
//! Open MPI 4.1.4 and 5.0.11 and MPICH 5.0.2.

use crate::inspect::start;
use crate::{Kind, Mpi, Scratch};
use std::process::Command;

/// Ranks that one hydra_pmi_proxy serves. Seen: 256 work, 1,024 do not.
const RANKS_PER_PROXY: u32 = 256;

/// Name of our libfabric provider.
pub const PROVIDER: &str = "narrows";

/// What carries the messages of an MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// This provider of libfabric: [`PROVIDER`], or one that offers reliable datagrams by itself, such as `sockets`, to
    /// tell a fault of an MPI installation from one of ours.
    Ofi(&'a str),
    /// Open MPI's own matching and one-sided components over Portals 4.
    MtlPortals4,
    /// Its byte transfer layer over Portals 4.
    BtlPortals4,
}

/// The command that starts a program on that many ranks with everything going through one transport.
///
/// `environment` is what every rank gets on top of the caller's environment: `FI_PROVIDER_PATH` with the folder of the
/// provider, `LD_PRELOAD`, what the simulator tells its ranks. Values of `LD_PRELOAD` must have no semicolon. The
/// launcher itself is not preloaded. Standard input goes to rank 0, the exit code is that of the launcher: that of the
/// first rank that fails.
pub fn command(
    transport: Transport,
    mpi: &Mpi,
    scratch: &Scratch,
    ranks: u32,
    program: &str,
    arguments: &[String],
    environment: &[(String, String)],
) -> Command {
    let mut command = launcher(mpi);
    let mut environment = environment.to_vec();
    // Without this every provider of libfabric is initialised, and may be chosen.
    let provider = if let Transport::Ofi(provider) = transport { provider } else { PROVIDER };
    environment.push(("FI_PROVIDER".to_owned(), provider.to_owned()));
    // The wheels of MPICH and Open MPI 5 are linked to UCX, which patches the memory functions of every process that
    // loads it: 28 ms of CPU time per rank instead of 3. Nothing here goes through UCX.
    environment.push(("UCX_MEM_MMAP_HOOK_MODE".to_owned(), "none".to_owned()));
    match mpi.kind {
        Kind::OpenMpi4 | Kind::OpenMpi5 => open_mpi(&mut command, mpi.kind, scratch, transport, &environment),
        Kind::Mpich => mpich(&mut command, ranks, &environment),
        Kind::IntelMpi => intel(&mut command, ranks, scratch, provider, &environment),
        Kind::Portals if mpi.launcher.ends_with(SHELL) => return spawn(ranks, program, arguments, &environment),
        Kind::Portals => mpich(&mut command, ranks, &environment),
    }
    command.arg("-n").arg(ranks.to_string()).arg(program).args(arguments);
    command
}

/// Only Intel's needs what is beside it: the environment of the others' ranks is the caller's.
fn launcher(mpi: &Mpi) -> Command {
    if mpi.kind == Kind::IntelMpi { start(&mpi.launcher) } else { Command::new(&mpi.launcher) }
}

/// The command that starts a program as its users do, on that many ranks of this machine, with something more in the
/// environment of each. No network of ours; values as in [`command`].
pub fn plain(mpi: &Mpi, ranks: u32, program: &str, arguments: &[String], environment: &[(String, String)]) -> Command {
    if mpi.kind == Kind::Portals && mpi.launcher.ends_with(SHELL) {
        return spawn(ranks, program, arguments, environment);
    }
    let mut command = launcher(mpi);
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
        Kind::Mpich | Kind::IntelMpi | Kind::Portals => {
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

fn open_mpi(command: &mut Command, kind: Kind, scratch: &Scratch, transport: Transport, environment: &[(String, String)]) {
    // More ranks than cores, and none of them bound: the simulator decides who runs.
    command.args(["--oversubscribe", "--bind-to", "none"]);
    // The session's folder, which stays behind when the launcher is killed. By these parameters and not by TMPDIR,
    // because ranks see the launcher's TMPDIR.
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
    // Collectives over shared memory, or made for the real node; those of others go around the network altogether.
    // Names that a version does not have are ignored.
    const OTHER_WAYS: &str = "^sm,han,xhc,acoll,smdirect,ucc,hcoll";
    let without_portals = format!("{OTHER_WAYS},portals4");
    // Open MPI's collectives by triggered operations: for those who ask for them, because they crash in MPI_Allgatherv
    // (4.1.4).
    let asked_for = std::env::var_os("OMPI_MCA_coll_portals4_priority").is_some();
    let over_portals = if asked_for { OTHER_WAYS } else { &without_portals };
    match transport {
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
    match transport {
        Transport::MtlPortals4 => mca("osc", "portals4"),
        Transport::BtlPortals4 => mca("osc", "pt2pt,rdma"),
        Transport::Ofi(_) => mca("osc", one_sided(kind, environment)),
    }
    // All ranks run here, whatever a batch system has to offer elsewhere.
    match kind {
        Kind::OpenMpi4 => {
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
    export(command, environment);
}

/// Open MPI's components for one-sided operations over libfabric.
fn one_sided(kind: Kind, environment: &[(String, String)]) -> &'static str {
    // Of version 4 osc/rdma takes the byte transfer layer above; osc/sm is for the shared windows of a rank with
    // itself. osc/pt2pt, over messages, is there for those who ask for it: MPI_Put on a dynamic window of osc/rdma
    // waits for a lock that it holds itself in Open MPI 4.1.4. In version 5 osc/rdma would take shared memory between
    // ranks of one node, but each rank is told that it is alone on its own (capi/preload/src/peers.rs).
    let ours = environment.iter().any(|(name, value)| name == "OMPI_MCA_osc" && value == "pt2pt");
    let asked_for = ours || std::env::var_os("OMPI_MCA_osc").is_some_and(|wanted| wanted == "pt2pt");
    let messages = kind == Kind::OpenMpi4 && asked_for;
    if messages { "pt2pt" } else { "rdma,sm" }
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

/// All ranks here, started by fork, whatever a batch system has to offer.
fn hydra(command: &mut Command, ranks: u32) {
    command.args(["-launcher", "fork", "-rmk", "user"]);
    if ranks > RANKS_PER_PROXY {
        // One proxy for all ranks and mpiexec block in write() to each other at 1,024 ranks; names stand for more
        // proxies here.
        let proxies = ranks.div_ceil(RANKS_PER_PROXY);
        let hosts: Vec<String> = (0..proxies).map(|proxy| format!("proxy{proxy}:{RANKS_PER_PROXY}")).collect();
        command.arg("-hosts").arg(hosts.join(","));
    }
}

fn intel(command: &mut Command, ranks: u32, scratch: &Scratch, provider: &str, environment: &[(String, String)]) {
    hydra(command, ranks);
    scratch.held_by(command);
    let mut set = |name: &str, value: &str| {
        command.args(["-genv", name, value]);
    };
    // Nothing beside libfabric, and no other provider of its own choice.
    set("I_MPI_FABRICS", "ofi");
    set("I_MPI_OFI_PROVIDER", provider);
    // Collectives of ranks of one host go through shared memory, whatever the fabric: MPI_Barrier sent nothing.
    set("I_MPI_COLL_INTRANODE", "pt2pt");
    // Ranks of one node talk through the network as well, collectives do not look at nodes.
    set("MPIR_CVAR_NOLOCAL", "1");
    // Shared memory that it makes all the same, Intel_MPI_*, and that stays in /dev/shm when a rank is killed.
    set("I_MPI_SHM_FILE_PREFIX_4K", &scratch.path().display().to_string());
    // More ranks than cores, and none of them bound: the simulator decides who runs.
    set("I_MPI_PIN", "0");
    for (name, value) in environment {
        set(name, value);
    }
}

fn mpich(command: &mut Command, ranks: u32, environment: &[(String, String)]) {
    hydra(command, ranks);
    // Ranks of one node talk through the network as well, collectives do not look at nodes: without it two ranks sent
    // nothing through the provider.
    command.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
    // Its shared memory serves messages of a rank to itself alone: four cells of 16 KiB instead of 64, a megabyte less
    // of /dev/shm for each rank (64 ranks of halo2d: 1.01 s of CPU instead of 1.08 s). Containers often have 64 MiB
    // there for all.
    if std::env::var_os("MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS").is_none() {
        command.args(["-genv", "MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS", "4"]);
    }
    // crates/guest/src/own_queue.rs. The file itself may have no name there.
    command.args(["-genv", "NARROWS_OWN_QUEUE", "/dev/shm/"]);
    // Builds may have UCX as well.
    command.args(["-genv", "MPIR_CVAR_CH4_NETMOD", "ofi"]);
    // Hydra writes the topology of this host to /tmp/hydra_hwloc_xmlfile_* for its ranks, unless there is such a file
    // already, and leaves it behind when it is killed. An empty name is none: everybody looks for himself, which was
    // not slower (16 ranks: 0.55 s of CPU).
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

    fn line(transport: Transport, kind: Kind) -> (Vec<String>, Vec<(String, String)>) {
        let mpi = Mpi { kind, version: "1".to_owned(), library: None, launcher: "/x/mpirun".into() };
        let environment = [("LD_PRELOAD", "/n/libp.so"), ("NARROWS_X", "a;b c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let command =
            command(transport, &mpi, &Scratch::create().unwrap(), 7, "./prog", &["-n".to_owned(), "a b".to_owned()], &environment);
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let variables = command.get_envs().map(|(name, value)| (text(name), value.map_or(String::new(), text))).collect();
        (command.get_args().map(text).collect(), variables)
    }

    #[test]
    fn program_and_environment() {
        for kind in [Kind::OpenMpi4, Kind::OpenMpi5, Kind::Mpich, Kind::IntelMpi] {
            let (arguments, variables) = line(Transport::Ofi(PROVIDER), kind);
            assert!(arguments.ends_with(&["-n", "7", "./prog", "-n", "a b"].map(str::to_owned)), "{arguments:?}");
            let pairs: Vec<_> = arguments.windows(2).map(|pair| (&*pair[0], &*pair[1])).collect();
            if matches!(kind, Kind::Mpich | Kind::IntelMpi) {
                let triples: Vec<_> = arguments.windows(3).map(|three| [&*three[0], &three[1], &three[2]]).collect();
                for [name, value] in [["NARROWS_X", "a;b c"], ["FI_PROVIDER", "narrows"], ["LD_PRELOAD", "/n/libp.so"]] {
                    assert!(triples.contains(&["-genv", name, value]), "{triples:?}");
                }
                if kind == Kind::Mpich {
                    assert_eq!(variables, [("HWLOC_XMLFILE".to_owned(), String::new())]);
                } else {
                    let path = variables.iter().map(|(name, value)| (&**name, value.ends_with(":/x"))).collect::<Vec<_>>();
                    assert_eq!(path, [("PATH", true)]);
                }
            } else {
                assert!(pairs.contains(&("-x", "LD_PRELOAD=/n/libp.so")) && pairs.contains(&("-x", "NARROWS_X")), "{pairs:?}");
                assert!(variables.contains(&("NARROWS_X".to_owned(), "a;b c".to_owned())), "{variables:?}");
                assert!(variables.contains(&("FI_PROVIDER".to_owned(), "narrows".to_owned())), "{variables:?}");
                assert!(!variables.iter().any(|(name, _)| name == "LD_PRELOAD"), "the launcher is not preloaded");
                assert!(pairs.contains(&("mtl_ofi_provider_include", "narrows")));
            }
        }
    }

    #[test]
    fn components_over_portals() {
        for (transport, own) in [
            (Transport::MtlPortals4, [["pml", "cm"], ["mtl", "portals4"], ["btl", "self"], ["osc", "portals4"]]),
            (Transport::BtlPortals4, [["pml", "ob1"], ["btl", "self,portals4"], ["osc", "pt2pt,rdma"], ["topo", "^treematch"]]),
        ] {
            let (arguments, _) = line(transport, Kind::OpenMpi4);
            let triples: Vec<_> = arguments.windows(3).map(|three| [&*three[0], &three[1], &three[2]]).collect();
            for [name, value] in own {
                assert!(triples.contains(&["--mca", name, value]), "{triples:?}");
            }
            assert!(!arguments.iter().any(|argument| argument.contains("ofi")), "{arguments:?}");
        }
    }
}
