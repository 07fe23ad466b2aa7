//! What starts the programs of a library.

use crate::Has;
use std::fmt;
use std::path::Path;
use std::process::Command;

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

/// An MPI library, or what starts programs without one.
pub struct Library {
    /// Its name for people.
    pub name: &'static str,
    /// Name and the versions that work.
    pub versions: &'static str,
    /// The first major version that works.
    pub oldest: u32,
    /// File names of the library in an installation.
    pub files: &'static [&'static str],
    /// Whether the file of a library is one of it, by the texts that it has: the format of its version text
    /// (MPI_Get_library_version).
    pub recognised: fn(&Has<str>) -> bool,
    /// Names of its launcher, the surest first.
    pub launchers: &'static [&'static str],
    /// The version in what its launcher answers to `--version`.
    pub version: fn(&str) -> Option<&str>,
    /// A launcher of another major version does not start its programs.
    pub one_major: bool,
    /// Open files of the simulator and the launcher together, for each rank.
    pub open_files: u64,
    /// The launcher has files in [`Network::folder`] as long as it lives.
    pub holds_folder: bool,
    /// `libnarrows-launcher.so` is preloaded into the launcher.
    pub preloads_launcher: bool,
    /// The launcher ends the job when a rank has been killed by a signal, or has left after MPI_Init and before
    /// MPI_Finalize.
    pub notices_deaths: bool,
    /// The same of a rank that a signal has killed before MPI_Init.
    pub notices_early_deaths: bool,
    /// The same of a rank that has left before MPI_Init with a code that is not 0.
    pub notices_early_failures: bool,
    /// Whether an installation has a component, such as `mtl_portals4`: folder of the library, component; `None` if
    /// nobody knows. A library without this has no components to choose among, and goes through libfabric.
    pub components: Option<fn(&Path, &str) -> Option<bool>>,
    /// Variables that must be 0 where one-sided operations are messages (decision 0020), by major version.
    pub without_atomics: fn(u32) -> &'static [&'static str],
    /// The command that starts a job with everything going through one transport.
    pub command: fn(&Job, &Network) -> Command,
    /// The command that starts it as its users do.
    pub plain: fn(&Job) -> Command,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Library {
    fn eq(&self, other: &Library) -> bool {
        self.name == other.name
    }
}

impl Eq for Library {}

impl Library {
    /// The library of these that a file is of.
    pub fn of_file(libraries: &[&'static Library], bytes: &[u8]) -> Option<&'static Library> {
        let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        libraries.iter().copied().find(|library| (library.recognised)(&has))
    }

    /// The library of these that a launcher belongs to, and its version, by its answer to `--version`.
    pub fn of_launcher<'a>(libraries: &[&'static Library], answer: &'a str) -> Option<(&'static Library, &'a str)> {
        libraries.iter().copied().find_map(|library| Some((library, (library.version)(answer)?)))
    }

    /// Whether one of these has files of such a name, whatever the version behind it: "libmpi.so.40.30.4".
    pub fn is_file_name(libraries: &[&'static Library], name: &str) -> bool {
        let Some((wanted, _)) = name.split_once(".so") else { return false };
        let mut files = libraries.iter().flat_map(|library| library.files);
        files.any(|file| file.split_once(".so").is_some_and(|(stem, _)| stem == wanted))
    }
}

/// A program of a job, on so many of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Number of ranks.
    pub ranks: u32,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The processors of nodes that its ranks are on, by name, with commas between; empty: as for all programs.
    pub on: String,
}

/// One program or several (MPMD): their ranks are numbered one program after the other.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `mpirun` or `mpiexec`.
    pub launcher: &'a Path,
    /// Major version of the library.
    pub major: u32,
    /// The programs, at least one.
    pub apps: &'a [App],
    /// What every rank gets on top of the caller's environment.
    pub environment: &'a [(String, String)],
}

impl Job<'_> {
    /// The number of ranks of all programs.
    pub fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    /// The end of a command line: of each program, what `options` adds, number of ranks, program, arguments; `:`
    /// between them, as all launchers have it.
    pub fn apps(&self, mut command: Command, options: impl Fn(&mut Command)) -> Command {
        for (index, app) in self.apps.iter().enumerate() {
            if index > 0 {
                command.arg(":");
            }
            options(&mut command);
            command.arg("-n").arg(app.ranks.to_string()).arg(&app.program).args(&app.arguments);
        }
        command
    }

    /// The value of a variable that every rank gets.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find_map(|(known, value)| (known == name).then_some(value.as_str()))
    }
}

/// The network of a job.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// What carries the messages.
    pub transport: Transport<'a>,
    /// A folder for files of the launcher.
    pub folder: &'a Path,
}
