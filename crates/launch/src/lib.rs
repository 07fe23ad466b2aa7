//! From a program to the launcher that starts it: which MPI library it uses, which launcher belongs to that library,
//! and the command line that sends everything through our libfabric provider, or through components over Portals 4.
//!
//! * `elf.rs`: what can be read from an executable without running it.
//! * `inspect.rs`: [`inspect`] finds the MPI library of a program, [`inspect_launcher`] takes a launcher by hand
//!   (`--mpirun`).
//! * `starts.rs`: what wrappers and scripts start.
//! * `command.rs`: [`command`], the flags of each MPI.
//! * `preload.rs`: [`Preload`], a preload library without what the MPI library lacks.
//! * [`resources`]: whether the host has room for so many processes.
//! * `scratch.rs`: [`Scratch`], where a launcher keeps its files.
//!
//! ```no_run
//! use narrows_launch::{PROVIDER, Transport};
//! let program = "./a.out";
//! let mpi = narrows_launch::inspect(program, &[])?;
//! println!("{} {}", mpi.kind, mpi.version); // Open MPI 4.1.4
//! let environment = [("FI_PROVIDER_PATH".to_owned(), "/opt/narrows/lib".to_owned())];
//! let scratch = narrows_launch::Scratch::create()?;
//! let status = narrows_launch::command(Transport::Ofi(PROVIDER), &mpi, &scratch, 16, program, &[], &environment).status()?;
//! # let _ = status; Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What cannot be launched has an error of one line that says what to do:
//!
//! ```
//! let error = narrows_launch::inspect("/no/such/program", &[]).unwrap_err();
//! assert_eq!(error.to_string(), "/no/such/program: not found");
//! ```

mod command;
mod elf;
mod inspect;
mod preload;
pub mod resources;
mod scratch;
mod starts;

pub use command::{PROVIDER, Transport, command, plain, without_aslr};
pub use elf::{File, classify};
pub use inspect::{check_launcher, has_component, inspect, inspect_launcher, locate};
pub use preload::Preload;
pub use scratch::Scratch;

use std::fmt;
use std::path::{Path, PathBuf};

/// Families of MPI libraries that differ in their command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI 4: ORTE.
    OpenMpi4,
    /// Open MPI 5: PRRTE.
    OpenMpi5,
    /// MPICH 4 and 5 with Hydra.
    Mpich,
    /// Intel MPI since 2019, which is MPICH 3 and more with a Hydra of its own.
    IntelMpi,
    /// No MPI: a program for Portals, started by Hydra (PMI-1, PMI-2) or, without that, by a shell.
    Portals,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::OpenMpi4 | Kind::OpenMpi5 => "Open MPI",
            Kind::Mpich => "MPICH",
            Kind::IntelMpi => "Intel MPI",
            Kind::Portals => "Portals",
        })
    }
}

impl Kind {
    /// Whether the launcher ends the job when a rank has been killed by a signal, or has left after MPI_Init and before
    /// MPI_Finalize.
    pub fn notices_deaths(self, launcher: &Path) -> bool {
        !launcher.ends_with(command::SHELL)
    }

    /// The same of a rank that a signal has killed before MPI_Init. (Intel's 2021.18 waits for ever.)
    pub fn notices_early_deaths(self, launcher: &Path) -> bool {
        self != Kind::IntelMpi && self.notices_deaths(launcher)
    }

    /// The same of a rank that has left before MPI_Init with a code that is not 0. (hydra waits for ever, as Open MPI
    /// 5.0.11 does for one with code 0.)
    pub fn notices_early_failures(self) -> bool {
        matches!(self, Kind::OpenMpi4 | Kind::OpenMpi5)
    }

    /// Variable that tells a process its rank, set by the launcher.
    pub fn rank_variable(self) -> &'static str {
        match self {
            Kind::OpenMpi4 | Kind::OpenMpi5 => "OMPI_COMM_WORLD_RANK",
            Kind::Mpich | Kind::IntelMpi => "PMI_RANK",
            Kind::Portals => "NARROWS_RANK",
        }
    }
}

/// An MPI installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// Family.
    pub kind: Kind,
    /// Version as the launcher says it: "4.1.4".
    pub version: String,
    /// The library that the program uses, or the one beside a launcher that was given by hand; `None` if there is none.
    pub library: Option<PathBuf>,
    /// `mpirun` or `mpiexec`.
    pub launcher: PathBuf,
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.version)
    }
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
    /// A program for another processor.
    #[error("{0}: built for another processor; build it for this machine")]
    OtherMachine(PathBuf),
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
    #[error("{0}: an MPI library that is neither Open MPI 4 or 5, MPICH nor Intel MPI; use one of these")]
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
    #[error("{launcher}: not a launcher of Open MPI 4 or 5, MPICH or Intel MPI ({message})")]
    UnknownLauncher {
        /// The launcher.
        launcher: PathBuf,
        /// What it said.
        message: String,
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
    #[error("{launcher}: {name} {version} is too old; Open MPI 4 or 5, MPICH 4 or 5 or Intel MPI 2019 or later is needed")]
    TooOld {
        /// The launcher.
        launcher: PathBuf,
        /// Name of the MPI.
        name: &'static str,
        /// Its version.
        version: String,
    },
    /// A file cannot be read, a process cannot be started.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
}
