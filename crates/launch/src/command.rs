//! The command lines, which the file of each MPI in `narrows_mpilib` makes.

use crate::{Mpi, Scratch};
use narrows_mpilib::{App, Job, Network, PROVIDER, Transport};
use std::process::Command;

/// The command that starts programs on their ranks with everything going through one transport.
///
/// `environment` is what every rank gets on top of the caller's environment: `FI_PROVIDER_PATH` with the folder of the
/// provider, `LD_PRELOAD`, what the simulator tells its ranks. Values of `LD_PRELOAD` must have no semicolon. The
/// launcher itself is not preloaded. Standard input goes to rank 0, the exit code is that of the launcher: that of the
/// first rank that fails.
pub fn command(transport: Transport, mpi: &Mpi, scratch: &Scratch, apps: &[App], environment: &[(String, String)]) -> Command {
    let mut environment = environment.to_vec();
    // Without this every provider of libfabric is initialised, and may be chosen.
    let provider = if let Transport::Ofi(provider) = transport { provider } else { PROVIDER };
    environment.push(("FI_PROVIDER".to_owned(), provider.to_owned()));
    // The wheels of MPICH and Open MPI 5 are linked to UCX, which patches the memory functions of every process that
    // loads it: 28 ms of CPU time per rank instead of 3. Nothing here goes through UCX.
    environment.push(("UCX_MEM_MMAP_HOOK_MODE".to_owned(), "none".to_owned()));
    let network = Network { transport, folder: scratch.path() };
    let apps = started(mpi, apps, &mut environment);
    let mut command = (mpi.library.command)(&job(mpi, &apps, &environment), &network);
    if mpi.library.holds_folder {
        scratch.held_by(&mut command);
    }
    command
}

/// The command that starts programs as their users do, on ranks of this machine, with something more in the environment
/// of each. No network of ours; values as in [`command`].
pub fn plain(mpi: &Mpi, apps: &[App], environment: &[(String, String)]) -> Command {
    let mut environment = environment.to_vec();
    let apps = started(mpi, apps, &mut environment);
    (mpi.library.plain)(&job(mpi, &apps, &environment))
}

/// The programs as the launcher is given them. Those of another processor are arguments of qemu, and so are the
/// libraries that are loaded into them, which qemu itself could not load.
fn started(mpi: &Mpi, apps: &[App], environment: &mut Vec<(String, String)>) -> Vec<App> {
    let Some(foreign) = &mpi.foreign else { return apps.to_vec() };
    let place = environment.iter().position(|(name, _)| name == "LD_PRELOAD");
    let preload = place.map(|at| environment.remove(at).1);
    apps.iter().map(|app| foreign.app(app, preload.as_deref())).collect()
}

fn job<'a>(mpi: &'a Mpi, apps: &'a [App], environment: &'a [(String, String)]) -> Job<'a> {
    Job { launcher: &mpi.launcher, major: mpi.major(), apps, environment }
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

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_mpilib::LIBRARIES;

    fn line(transport: Transport, (name, version): (&str, &str)) -> (Vec<String>, Vec<(String, String)>) {
        let library = LIBRARIES.iter().find(|library| library.name == name).unwrap();
        let mpi = Mpi { library, version: version.to_owned(), file: None, launcher: "/x/mpirun".into(), foreign: None };
        let environment = [("LD_PRELOAD", "/n/libp.so"), ("NARROWS_X", "a;b c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let app = |ranks, program: &str, arguments: &[&str]| App {
            ranks,
            program: program.to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            on: String::new(),
        };
        let apps = [app(3, "./first", &[]), app(7, "./prog", &["-n", "a b"])];
        let command = command(transport, &mpi, &Scratch::create().unwrap(), &apps, &environment);
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        let variables = command.get_envs().map(|(name, value)| (text(name), value.map_or(String::new(), text))).collect();
        (command.get_args().map(text).collect(), variables)
    }

    #[test]
    fn program_and_environment() {
        for mpi in [("Open MPI", "4.1.4"), ("Open MPI", "5.0.11"), ("MPICH", "5.0.2"), ("Intel MPI", "2021.18.1")] {
            let (arguments, variables) = line(Transport::Ofi(PROVIDER), mpi);
            assert!(arguments.ends_with(&["-n", "7", "./prog", "-n", "a b"].map(str::to_owned)), "{arguments:?}");
            let [first, second] = &arguments.split(|word| word == ":").collect::<Vec<_>>()[..] else { panic!("{arguments:?}") };
            assert!(first.ends_with(&["-n", "3", "./first"].map(str::to_owned)), "{arguments:?}");
            // What Open MPI 4 gives to one program alone, both have.
            let exported = |words: &[String]| words.iter().filter(|word| *word == "-x").count();
            assert_eq!(exported(first), exported(second));
            let pairs: Vec<_> = arguments.windows(2).map(|pair| (&*pair[0], &*pair[1])).collect();
            if mpi.0 != "Open MPI" {
                let triples: Vec<_> = arguments.windows(3).map(|three| [&*three[0], &three[1], &three[2]]).collect();
                for [name, value] in [["NARROWS_X", "a;b c"], ["FI_PROVIDER", "narrows"], ["LD_PRELOAD", "/n/libp.so"]] {
                    assert!(triples.contains(&["-genv", name, value]), "{triples:?}");
                }
                if mpi.0 == "MPICH" {
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
            let (arguments, _) = line(transport, ("Open MPI", "4.1.4"));
            let triples: Vec<_> = arguments.windows(3).map(|three| [&*three[0], &three[1], &three[2]]).collect();
            for [name, value] in own {
                assert!(triples.contains(&["--mca", name, value]), "{triples:?}");
            }
            assert!(!arguments.iter().any(|argument| argument.contains("ofi")), "{arguments:?}");
        }
    }
    #[test]
    fn programs_of_another_processor_are_arguments_of_qemu() {
        let foreign = Some(crate::Foreign { processor: &crate::PROCESSORS[1], qemu: "/q/qemu".into(), sysroot: "/s".into(), plugin: None });
        for name in ["MPICH", "Open MPI"] {
            let library = LIBRARIES.iter().find(|library| library.name == name).unwrap();
            let mpi = Mpi { library, version: "5.0.2".into(), file: None, launcher: "/x/mpirun".into(), foreign: foreign.clone() };
            assert_eq!(mpi.to_string(), format!("{name} 5.0.2 for ARM64 under qemu"));
            let environment = [("LD_PRELOAD".to_owned(), "/n/p.so".to_owned())];
            let apps = [App { ranks: 3, program: "./a".into(), arguments: vec!["x".into()], on: String::new() }];
            let scratch = Scratch::create().unwrap();
            for command in [command(Transport::Ofi(PROVIDER), &mpi, &scratch, &apps, &environment), plain(&mpi, &apps, &environment)] {
                let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
                assert!(words.ends_with(&["/q/qemu", "-L", "/s", "-E", "LD_PRELOAD=/n/p.so", "./a", "x"].map(str::to_owned)), "{words:?}");
                assert_eq!(words.iter().filter(|word| word.contains("LD_PRELOAD")).count(), 1, "{words:?}");
            }
        }
    }
}
