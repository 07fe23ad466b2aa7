//! Programs of other processors. They run under qemu's user mode, which translates a program and hands its system calls
//! to this computer's kernel; the launcher, the simulator and all files are this computer's.

use crate::elf::{self, File};
use crate::inspect::find;
use crate::{LaunchError, Mpi};
use narrows_mpilib::App;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A processor whose programs can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// As people call it.
    pub name: &'static str,
    /// As qemu, compilers and our folders call it.
    pub architecture: &'static str,
    /// The number in ELF headers.
    pub(crate) machine: u16,
}

/// Those for which our libraries can be built (`make foreign`), and what this program was built for.
pub static PROCESSORS: [Processor; 3] = [
    Processor { name: "x86-64", architecture: "x86_64", machine: 62 },
    Processor { name: "ARM64", architecture: "aarch64", machine: 183 },
    Processor { name: "RISC-V", architecture: "riscv64", machine: 243 },
];

impl Processor {
    /// That of a number in an ELF header.
    pub(crate) fn of(machine: u16) -> Option<&'static Processor> {
        PROCESSORS.iter().find(|processor| processor.machine == machine)
    }

    /// That of this computer.
    fn own() -> &'static Processor {
        PROCESSORS.iter().find(|processor| processor.is_ours()).unwrap_or(&PROCESSORS[0])
    }

    /// Whether this program runs on it.
    pub(crate) fn is_ours(&self) -> bool {
        self.architecture == env::consts::ARCH
    }
}

/// What runs a program of another processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The processor.
    pub processor: &'static Processor,
    /// qemu's user mode for it.
    pub qemu: PathBuf,
    /// The folder with its C library, which qemu puts in front of absolute paths that are there.
    pub sysroot: PathBuf,
    /// What qemu loads into itself to count cycles, if it does: the file, and what that is told.
    pub plugin: Option<(PathBuf, &'static str)>,
}

/// What runs the program in that file; `None` if this computer does.
///
/// # Errors
/// qemu or a C library is not there, or nothing runs it.
pub(crate) fn of(program: &Path) -> Result<Option<Foreign>, LaunchError> {
    let bytes = fs::read(program).map_err(|error| LaunchError::Io { path: program.to_owned(), error })?;
    match elf::classify(&bytes) {
        File::Foreign(processor, linker) => Foreign::new(program, processor, &linker).map(Some),
        File::ForeignStatic => Err(LaunchError::Static(program.to_owned())),
        File::Narrow => Err(LaunchError::Narrow(program.to_owned())),
        File::BigEndian => Err(LaunchError::BigEndian(program.to_owned())),
        File::OtherMachine(machine) => Err(LaunchError::OtherMachine { program: program.to_owned(), machine }),
        File::Dynamic(_) | File::Static | File::Script(_) | File::Other => Ok(None),
    }
}

impl Mpi {
    /// The programs run under qemu whatever they are for, with a plugin that counts their cycles, which is `told`
    /// something.
    ///
    /// # Errors
    /// One of them is a script, qemu is not there, or the plugin lies where qemu's options cannot say.
    pub fn counts_cycles(&mut self, apps: &[App], plugin: PathBuf, told: &'static str) -> Result<(), LaunchError> {
        if plugin.to_string_lossy().contains(',') {
            return Err(LaunchError::Comma(plugin));
        }
        if self.foreign.is_none() {
            for app in apps {
                let program = find(&app.program)?;
                let bytes = fs::read(&program).map_err(|error| LaunchError::Io { path: program.clone(), error })?;
                let File::Dynamic(linker) = elf::classify(&bytes) else { return Err(LaunchError::NoCycles(program)) };
                self.foreign = Some(Foreign::new(&program, Processor::own(), &linker)?);
            }
        }
        if let Some(foreign) = &mut self.foreign {
            foreign.plugin = Some((plugin, told));
        }
        Ok(())
    }
}

impl Foreign {
    pub(crate) fn new(program: &Path, processor: &'static Processor, linker: &str) -> Result<Foreign, LaunchError> {
        let missing = |what: String| LaunchError::Foreign { program: program.to_owned(), processor: processor.name, what };
        let name = format!("qemu-{}", processor.architecture);
        let qemu = find(&name).or_else(|_| find(&format!("{name}-static")));
        let qemu = qemu.map_err(|_| missing(format!("{name} is not in PATH; install qemu-user")))?;
        // A program in a sysroot: that one. A root folder of this computer is none.
        let around = program.canonicalize().unwrap_or_default();
        let around: Vec<PathBuf> = around.ancestors().skip(1).filter(|folder| *folder != Path::new("/")).map(Path::to_owned).collect();
        let named = env::var_os("QEMU_LD_PREFIX").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        // Debian's package for cross compilers, or a system that has programs of both processors.
        let usual = [PathBuf::from(format!("/usr/{}-linux-gnu", processor.architecture)), PathBuf::from("/")];
        let has_linker = |folder: &PathBuf| folder.join(linker.trim_start_matches('/')).exists();
        let sysroot = match named {
            Some(folder) if has_linker(&folder) => folder,
            Some(folder) => {
                return Err(missing(format!("QEMU_LD_PREFIX={} has no {linker}; name a folder with a C library of it", folder.display())));
            }
            None => around.into_iter().chain(usual).find(has_linker).ok_or_else(|| {
                missing(format!(
                    "no C library ({linker}) of it here; install libc6-{}-cross, or name a folder that has one with QEMU_LD_PREFIX",
                    processor.debian()
                ))
            })?,
        };
        Ok(Foreign { processor, qemu, sysroot, plugin: None })
    }

    /// Starts qemu on a program.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.qemu);
        command.arg("-L").arg(&self.sysroot).arg(program);
        command
    }

    /// Where a file is that the program knows under an absolute path.
    pub(crate) fn file(&self, path: PathBuf) -> PathBuf {
        let within = path.strip_prefix("/").map(|rest| self.sysroot.join(rest));
        within.ok().filter(|file| file.exists()).unwrap_or(path)
    }

    /// The same program as a launcher is given it: qemu with options, among them libraries that are loaded into the
    /// program and not into qemu.
    pub(crate) fn app(&self, app: &App, preload: Option<&str>) -> App {
        let mut arguments = vec![String::from("-L"), self.sysroot.display().to_string()];
        if let Some((plugin, told)) = &self.plugin {
            // Random numbers that the kernel gives a process at its start are on its stack.
            let plugin = format!("{}{told}", plugin.display());
            arguments.extend(["-plugin", &plugin, "-seed", "1"].map(str::to_owned));
            if self.processor.is_ours() {
                // All instructions that qemu knows; else it is one of the first that had 64 bits.
                arguments.extend(["-cpu", "max"].map(str::to_owned));
            }
        }
        if let Some(preload) = preload {
            arguments.extend([String::from("-E"), format!("LD_PRELOAD={preload}")]);
        }
        arguments.push(app.program.clone());
        arguments.extend(app.arguments.iter().cloned());
        App { ranks: app.ranks, program: self.qemu.display().to_string(), arguments, on: app.on.clone() }
    }

    /// Our libraries for that processor, beside those for this one.
    ///
    /// # Errors
    /// They were not built, or lie where qemu's options cannot say.
    pub fn libraries(&self, ours: &Path, names: &[&str]) -> Result<PathBuf, LaunchError> {
        let folder = if self.processor.is_ours() { ours.to_owned() } else { ours.join(self.processor.architecture) };
        if !names.iter().all(|name| folder.join(name).exists()) {
            return Err(LaunchError::ForeignLibraries { names: names.join(", "), processor: self.processor.name, folder });
        }
        match folder.to_string_lossy().contains(',') {
            true => Err(LaunchError::Comma(folder)),
            false => Ok(folder),
        }
    }
}

impl Processor {
    /// As Debian calls it.
    fn debian(&self) -> &'static str {
        match self.architecture {
            "aarch64" => "arm64",
            "x86_64" => "amd64",
            same => same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_is_given_the_program_with_its_libraries() {
        let foreign = Foreign { processor: &PROCESSORS[1], qemu: "/q/qemu-aarch64".into(), sysroot: "/s".into(), plugin: None };
        let app = App { ranks: 3, program: String::from("./a"), arguments: vec![String::from("-L")], on: String::new() };
        let given = foreign.app(&app, Some("/n/p.so:/n/q.so"));
        assert_eq!((given.ranks, given.program.as_str()), (3, "/q/qemu-aarch64"));
        assert_eq!(given.arguments, ["-L", "/s", "-E", "LD_PRELOAD=/n/p.so:/n/q.so", "./a", "-L"]);
        assert_eq!(foreign.app(&app, None).arguments, ["-L", "/s", "./a", "-L"]);
        let counts = |processor| Foreign { processor, plugin: Some(("/n/c.so".into(), ",caches=off")), ..foreign.clone() };
        let words = counts(&PROCESSORS[1]).app(&app, None).arguments;
        assert_eq!(words, ["-L", "/s", "-plugin", "/n/c.so,caches=off", "-seed", "1", "./a", "-L"]);
        let words = counts(Processor::own()).app(&app, None).arguments;
        assert_eq!(words[6..], ["-cpu", "max", "./a", "-L"]);
    }

    #[test]
    fn libraries_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = Foreign { processor: &PROCESSORS[1], qemu: "q".into(), sysroot: "/".into(), plugin: None };
        let error = foreign.libraries(folder.path(), &["libx.so"]).unwrap_err().to_string();
        assert!(
            error.starts_with("the libraries libx.so for ARM64 are not in ") && error.ends_with("/aarch64: run `make foreign`"),
            "{error}"
        );
        fs::create_dir(folder.path().join("aarch64")).unwrap();
        fs::write(folder.path().join("aarch64/libx.so"), "").unwrap();
        assert_eq!(foreign.libraries(folder.path(), &["libx.so"]).unwrap(), folder.path().join("aarch64"));
        let comma = folder.path().join("a,b/aarch64");
        fs::create_dir_all(&comma).unwrap();
        fs::write(comma.join("libx.so"), "").unwrap();
        assert!(foreign.libraries(comma.parent().unwrap(), &["libx.so"]).unwrap_err().to_string().contains("no comma"));
    }
}
