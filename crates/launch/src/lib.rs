//! From a program to the launcher that starts it: which MPI library it uses, which launcher belongs to that library,
//! and the command line that sends everything through our libfabric provider, or through components over Portals 4.
//!
//! * `apps.rs`: [`apps`], the programs of a job of several (`./a : -n 2 ./b`).
//! * `elf.rs`: what can be read from an executable without running it.
//! * `inspect.rs`: [`inspect`] finds the MPI library of a program, [`inspect_launcher`] takes a launcher by hand
//!   (`--mpirun`).
//! * `foreign.rs`: [`Foreign`], what runs programs of other processors.
//! * `starts.rs`: what wrappers and scripts start.
//! * `command.rs`: [`command`]; the flags of each MPI stand in its file of `narrows_mpilib`.
//! * `preload.rs`: [`Preload`], a preload library without what the MPI library lacks.
//! * [`resources`]: whether the host has room for so many processes.
//! * `scratch.rs`: [`Scratch`], where a launcher keeps its files.
//!
//! ```no_run
//! use narrows_launch::{App, PROVIDER, Transport};
//! let program = "./a.out";
//! let mpi = narrows_launch::inspect(program, &[])?;
//! println!("{mpi}"); // Open MPI 4.1.4
//! let environment = [("FI_PROVIDER_PATH".to_owned(), "/opt/narrows/lib".to_owned())];
//! let scratch = narrows_launch::Scratch::create()?;
//! let apps = [App { ranks: 16, program: program.to_owned(), arguments: Vec::new(), on: String::new() }];
//! let status = narrows_launch::command(Transport::Ofi(PROVIDER), &mpi, &scratch, &apps, &environment).status()?;
//! # let _ = status; Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What cannot be launched has an error of one line that says what to do:
//!
//! ```
//! let error = narrows_launch::inspect("/no/such/program", &[]).unwrap_err();
//! assert_eq!(error.to_string(), "/no/such/program: not found");
//! ```

mod apps;
mod command;
mod elf;
mod foreign;
mod inspect;
mod preload;
pub mod resources;
mod scratch;
mod starts;

pub use apps::{appfile, apps, words};
pub use command::{command, plain, without_aslr};
pub use elf::{File, classify};
pub use foreign::{Foreign, PROCESSORS, Processor};
pub use inspect::{Launched, check_launcher, for_program, has_component, inspect, inspect_launcher, launched, locate, without_mpi};
pub use narrows_mpilib::{App, LIBRARIES, Library, PROVIDER, Transport};
pub use preload::Preload;
pub use scratch::Scratch;

use std::fmt;
use std::path::PathBuf;

/// An MPI installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// Which library, or Portals without one.
    pub library: &'static Library,
    /// Version as the launcher says it: "4.1.4".
    pub version: String,
    /// File of the library that the program uses, or of the one beside a launcher that was given by hand; `None` if
    /// there is none.
    pub file: Option<PathBuf>,
    /// `mpirun` or `mpiexec`.
    pub launcher: PathBuf,
    /// What runs the program, if it is for another processor.
    pub foreign: Option<Foreign>,
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.version.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.library.name, self.version)?;
        match &self.foreign {
            Some(foreign) => write!(f, " for {} under qemu", foreign.processor.name),
            None => Ok(()),
        }
    }
}

impl Mpi {
    /// Whether there is a library of MPI.
    pub fn uses_mpi(&self) -> bool {
        ![&narrows_mpilib::portals::SOCKETS, &narrows_mpilib::portals::HYDRA, &narrows_mpilib::portals::SHELL]
            .iter()
            .any(|other| other.name == self.library.name)
    }

    /// Major version; 0 if the version does not begin with a number.
    pub fn major(&self) -> u32 {
        inspect::major(&self.version).unwrap_or(0)
    }
}

/// "Open MPI 4 or 5, MPICH 4 or 5 or Intel MPI 2019 or later", with another word before the last one.
fn libraries(conjunction: &str) -> String {
    let names: Vec<&str> = LIBRARIES.iter().map(|library| library.versions).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("{} {conjunction} {last}", others.join(", "))
}

/// "x86-64, ARM64 or RISC-V".
fn processors() -> String {
    let names = PROCESSORS.map(|processor| processor.name);
    let [others @ .., last] = &names;
    format!("{} or {last}", others.join(", "))
}

/// Why a program cannot be launched, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No such file, or not in PATH.
    #[error("{0}: not found")]
    NotFound(String),
    /// A folder, or no permission to execute.
    #[error("{0}: not an executable file (chmod +x?)")]
    NotExecutable(PathBuf),
    /// Neither ELF nor a script.
    #[error("{0}: neither an executable for this machine nor a script")]
    NotAProgram(PathBuf),
    /// A program for a processor that we do not know.
    #[error("{program}: built for a processor that Narrows does not know (number {machine} in elf.h); build it for {names}", names = processors())]
    OtherMachine {
        /// The program.
        program: PathBuf,
        /// The number of the processor.
        machine: u16,
    },
    /// A program of 32 bits.
    #[error("{0}: a program of 32 bits; build it for {names} (64 bits)", names = processors())]
    Narrow(PathBuf),
    /// A big-endian program.
    #[error("{0}: a program with the highest byte first (big-endian); build it for {names}", names = processors())]
    BigEndian(PathBuf),
    /// What a program of another processor needs is not there.
    #[error("{program}: built for {processor}, and {what}")]
    Foreign {
        /// The program.
        program: PathBuf,
        /// Its processor.
        processor: &'static str,
        /// What is missing, and what to do.
        what: String,
    },
    /// Cycles are counted under qemu, which runs no scripts.
    #[error("{0}: --compute cycles runs a program under qemu, which runs no scripts; name the program, or the interpreter, itself")]
    NoCycles(PathBuf),
    /// Programs of a job for several processors.
    #[error("{program} and the first program are built for different processors: the programs of a job run on one kind")]
    SeveralProcessors {
        /// The program.
        program: String,
    },
    /// The launcher of a program's MPI is for its processor only.
    #[error(
        "{library}: ranks are started by a launcher of this computer, and no {name} for it is in PATH; name its mpiexec with --mpirun PATH"
    )]
    NoOwnLauncher {
        /// The MPI library.
        library: PathBuf,
        /// Its MPI.
        name: &'static str,
    },
    /// Nothing can be preloaded into it.
    #[error("{0}: statically linked; link it dynamically, so that its MPI library can load the simulated network")]
    Static(PathBuf),
    /// A shared library is missing.
    #[error("{program}: {library} is not found; set LD_LIBRARY_PATH as for a normal run")]
    LibraryMissing {
        /// The program.
        program: PathBuf,
        /// Name of the library.
        library: String,
    },
    /// The dynamic linker does not like the program.
    #[error("{program}: the dynamic linker cannot load it: {message}")]
    NotLoadable {
        /// The program.
        program: PathBuf,
        /// What the dynamic linker says.
        message: String,
    },
    /// No MPI library among the libraries of the program.
    #[error(
        "{0}: uses no MPI library; if it starts an MPI program in a way that cannot be read, name the launcher of that MPI with --mpirun PATH"
    )]
    NoMpi(PathBuf),
    /// A script in which no program with MPI is named.
    #[error(
        "{program}: a script for {interpreter} that names no program with MPI; name the launcher of the MPI that it uses with --mpirun PATH"
    )]
    Script {
        /// The script.
        program: PathBuf,
        /// Its interpreter.
        interpreter: String,
    },
    /// Python without mpi4py.
    #[error(
        "{interpreter}: mpi4py cannot be imported ({message}); install it, or name the launcher of the MPI that the script uses with --mpirun PATH"
    )]
    NoMpi4py {
        /// The interpreter.
        interpreter: PathBuf,
        /// Last line of what Python says.
        message: String,
    },
    /// A library that is none of those that we know.
    #[error("{0}: an MPI library that is neither {names}; use one of these", names = libraries("nor"))]
    UnknownMpi(PathBuf),
    /// The library is there, its launcher is not.
    #[error("{library}: its launcher is not in {searched}; install it, or name it with --mpirun PATH")]
    LauncherMissing {
        /// The MPI library.
        library: PathBuf,
        /// Folders that were searched.
        searched: String,
    },
    /// A launcher that does not answer as one of those that we know.
    #[error("{launcher}: not a launcher of {names} ({message})", names = libraries("or"))]
    UnknownLauncher {
        /// The launcher.
        launcher: PathBuf,
        /// What it said.
        message: String,
    },
    /// Programs of a job that use several MPI libraries.
    #[error("{program} uses {other}, and the first program {first}: the programs of a job use one MPI library")]
    SeveralMpis {
        /// The program.
        program: String,
        /// Its MPI.
        other: String,
        /// That of the first program.
        first: String,
    },
    /// Words that name no programs of a job.
    #[error("{0}")]
    Apps(String),
    /// A launcher in the place of a program.
    #[error("{name}: narrows starts the ranks by the launcher of their MPI itself; write narrows run -n {ranks} -- {program}")]
    Launcher {
        /// The launcher.
        name: String,
        /// Its number of ranks, or a word for it.
        ranks: String,
        /// What it was to start.
        program: String,
    },
    /// A launcher of another MPI than the program's.
    #[error("{launcher}: the launcher of {mpi}, but the program uses {library}, which is {name}; leave --mpirun away, or name its own")]
    WrongLauncher {
        /// The launcher.
        launcher: PathBuf,
        /// Its MPI.
        mpi: String,
        /// The MPI library of the program.
        library: PathBuf,
        /// What that is.
        name: String,
    },
    /// A version that is too old.
    #[error("{launcher}: {name} {version} is too old; {names} is needed", names = libraries("or"))]
    TooOld {
        /// The launcher.
        launcher: PathBuf,
        /// Name of the MPI.
        name: &'static str,
        /// Its version.
        version: String,
    },
    /// The host allows too few open files.
    #[error(
        "{ranks} ranks and their launcher take {files} open files, and the limit is {limit}: raise it (ulimit -n {files}), or use fewer ranks"
    )]
    OpenFiles {
        /// Ranks of the run.
        ranks: u32,
        /// Open files that they take.
        files: u64,
        /// What the host allows.
        limit: u64,
    },
    /// The folder of temporary files cannot be used.
    #[error("temporary files go to {} ($TMPDIR): {error}", folder.display())]
    Temporary {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// It has no room.
    #[error("temporary files go to {} ($TMPDIR), where {left} are left; a launcher takes at least {least}", folder.display())]
    TemporaryRoom {
        /// The folder.
        folder: PathBuf,
        /// Room that is left.
        left: String,
        /// Room that it takes.
        least: String,
    },
    /// The program's own folder is not known.
    #[error("the program's own folder is unknown: {0}")]
    OwnFolder(std::io::Error),
    /// The libraries that enter the ranks were not built.
    #[error("the libraries {names} are not in {}: run `make build`", folder.display())]
    Libraries {
        /// Their names.
        names: String,
        /// Where they should be.
        folder: PathBuf,
    },
    /// Nor those for programs of another processor.
    #[error("the libraries {names} for {processor} are not in {}: run `make foreign`", folder.display())]
    ForeignLibraries {
        /// Their names.
        names: String,
        /// The processor.
        processor: &'static str,
        /// Where they should be.
        folder: PathBuf,
    },
    /// Their path has a comma.
    #[error("{}: qemu takes no comma in a path that is preloaded; move the libraries", .0.display())]
    Comma(PathBuf),
    /// A file cannot be read, a process cannot be started.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
}
