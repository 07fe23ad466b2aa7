//! Which MPI a program uses.

use crate::elf::{self, File};
use crate::foreign::{self, Foreign};
use crate::starts::library_of_command;
use crate::{LaunchError, Mpi};
use narrows_mpilib::{LIBRARIES, Library, launchers, portals};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The program as it is given to a launcher: where it is in `PATH` or, if it is not there, in this folder. A launcher
/// would look it up once more, and Open MPI's puts its own folder in front of `PATH`: another program of the same name.
pub fn locate(program: &str) -> Result<String, LaunchError> {
    let found = find(program).or_else(|error| find_here(program).ok_or(error))?;
    Ok(found.to_string_lossy().into_owned())
}

/// Finds the MPI library of a program and the launcher that belongs to it. The program is a path, or a name to be
/// looked up in `PATH`, or else in this folder, as launchers do. Python is asked which library mpi4py uses; what other
/// scripts and wrappers start is read in them and in the arguments.
pub fn inspect(program: &str, arguments: &[String]) -> Result<Mpi, LaunchError> {
    refuse_launcher(program, arguments)?;
    let found = find(&locate(program)?)?;
    let file = library_of_command(&found, arguments)?;
    let foreign = foreign::of(&found)?;
    if is_portals(&file) {
        // Hydra if it is there.
        let found = portals::HYDRA.launchers.iter().find_map(|name| find(name).ok());
        let (library, launcher) = found.map_or((&portals::SHELL, PathBuf::from(portals::SH)), |launcher| (&portals::HYDRA, launcher));
        return Ok(Mpi { library, version: String::from("4"), file: Some(file), launcher, foreign });
    }
    let Some(library) = library_of_file(&file)? else { return Err(LaunchError::UnknownMpi(file)) };
    match foreign {
        Some(_) => own_launcher_of(library, file, foreign),
        None => launcher_of(library, file),
    }
}

/// What starts programs that use no MPI library: a shell.
pub fn without_mpi() -> Mpi {
    Mpi { library: &portals::SOCKETS, version: String::new(), file: None, launcher: PathBuf::from(portals::SH), foreign: None }
}

/// A launcher of this computer for a library of another processor, whose own one is for that processor too.
fn own_launcher_of(library: &'static Library, file: PathBuf, foreign: Option<Foreign>) -> Result<Mpi, LaunchError> {
    for launcher in library.launchers.iter().filter_map(|name| find(name).ok()) {
        let Ok((found, version)) = ask_launcher(&launcher) else { continue };
        if found == library {
            return Ok(Mpi { library, version, file: Some(file), launcher, foreign });
        }
    }
    Err(LaunchError::NoOwnLauncher { library: file, name: library.name })
}

/// The MPI of a launcher that was named by hand, with what runs this program and, if it is for another processor, the
/// library that it loads.
pub fn for_program(mpi: Mpi, program: &str) -> Result<Mpi, LaunchError> {
    let Ok(program) = locate(program).and_then(|program| find(&program)) else { return Ok(mpi) };
    match foreign::of(&program)? {
        None => Ok(mpi),
        foreign => Ok(Mpi { file: Some(library_of(&program)?), foreign, ..mpi }),
    }
}

/// Options that say how ranks are bound to the cores of this computer, with a value and without: nothing of a simulated
/// machine.
const OF_THIS_COMPUTER: [&str; 4] = ["--bind-to", "-bind-to", "--rank-by", "--cpu-bind"];
const FLAGS: [&str; 6] =
    ["--oversubscribe", "-oversubscribe", "--allow-run-as-root", "--use-hwthread-cpus", "--exclusive", "--report-bindings"];

/// What a launcher in the place of a program would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// How it is called.
    pub launcher: String,
    /// Its number of ranks.
    pub ranks: u32,
    /// The program and its arguments, and programs behind it.
    pub words: Vec<String>,
    /// Options that say nothing of a simulated machine.
    pub left_out: Vec<String>,
}

/// What `mpirun -n 2 ./a` starts, where that is clear: of a launcher with a number of ranks and no options but those
/// that are about this computer. `None`: no launcher, or one that is refused later.
pub fn launched(words: &[String]) -> Option<Launched> {
    let (program, arguments) = words.split_first()?;
    let name = launchers::name_of(program)?.to_owned();
    let (mut ranks, mut left_out, mut rest) = (None, Vec::new(), arguments);
    loop {
        let (word, behind) = rest.split_first()?;
        let value = || behind.first().cloned();
        rest = match word.as_str() {
            option if launchers::RANKS.contains(&option) => {
                ranks = Some(value()?.parse().ok()?);
                &behind[1..]
            }
            option if OF_THIS_COMPUTER.contains(&option) => {
                left_out.push(format!("{option} {}", value()?));
                &behind[1..]
            }
            option if FLAGS.contains(&option) => {
                left_out.push(option.to_owned());
                behind
            }
            option if option.starts_with('-') => return None,
            _ => break,
        };
    }
    Some(Launched { launcher: name, ranks: ranks?, words: rest.to_vec(), left_out })
}

/// A launcher in the place of a program would start ranks of its own for each rank.
fn refuse_launcher(program: &str, arguments: &[String]) -> Result<(), LaunchError> {
    let Some(name) = launchers::name_of(program) else { return Ok(()) };
    let (ranks, started) = launchers::started(arguments.iter().map(String::as_str));
    let program = if started.is_empty() { String::from("PROGRAM") } else { started.join(" ") };
    Err(LaunchError::Launcher { name: name.to_owned(), ranks: ranks.unwrap_or("RANKS").to_owned(), program })
}

/// The MPI that a launcher belongs to.
pub fn inspect_launcher(launcher: &Path) -> Result<Mpi, LaunchError> {
    let mut launcher = find(&launcher.to_string_lossy())?;
    // Open MPI takes the folder of a launcher called by its path for its prefix: /bin/mpirun would be in "/". The name
    // stays as it is, launchers have several.
    if let (Some(folder), Some(name)) = (launcher.parent().and_then(|folder| folder.canonicalize().ok()), launcher.file_name()) {
        launcher = folder.join(name);
    }
    let (library, version) = ask_launcher(&launcher)?;
    Ok(Mpi { library, version, file: file_beside(&launcher, library), launcher, foreign: None })
}

/// The library in the installation of a launcher.
fn file_beside(launcher: &Path, library: &Library) -> Option<PathBuf> {
    let real = launcher.canonicalize().ok();
    let prefixes = [Some(launcher), real.as_deref()].into_iter().flatten().filter_map(|path| path.parent()?.parent());
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let folders = prefixes.flat_map(|prefix| ["lib", "lib64", &format!("lib/{triplet}")].map(|folder| prefix.join(folder)));
    let mut files = folders.flat_map(|folder| library.files.iter().map(move |name| folder.join(name)));
    files.find(|file| file.exists() && library_of_file(file).is_ok_and(|found| found == Some(library)))
}

/// A launcher that was named by hand must be that of the program's library, as far as that can be found.
pub fn check_launcher(mpi: &Mpi, program: &str, arguments: &[String]) -> Result<(), LaunchError> {
    refuse_launcher(program, arguments)?;
    let Ok(file) = locate(program).and_then(|program| library_of_command(&find(&program)?, arguments)) else { return Ok(()) };
    let Some(library) = (if is_portals(&file) { None } else { library_of_file(&file)? }) else { return Ok(()) };
    let wrong = |library, name: String| LaunchError::WrongLauncher { launcher: mpi.launcher.clone(), mpi: mpi.to_string(), library, name };
    if library != mpi.library {
        return Err(wrong(file, library.name.to_owned()));
    }
    match launcher_of(library, file.clone()) {
        Ok(own) if library.one_major && own.major() != mpi.major() => Err(wrong(file, own.to_string())),
        _ => Ok(()),
    }
}

/// Whether the MPI of a program has a component, such as `mtl_portals4`. `None`: nobody knows.
pub fn has_component(mpi: &Mpi, program: &str, arguments: &[String], component: &str) -> Option<bool> {
    let file = library_of_command(&find(&locate(program).ok()?).ok()?, arguments).ok()?;
    mpi.library.components?(file.canonicalize().ok()?.parent()?, component)
}

pub(crate) fn is_portals(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.to_string_lossy().starts_with(portals::FILE_NAME))
}

/// In this folder.
pub(crate) fn find_here(program: &str) -> Option<PathBuf> {
    let here = Path::new(".").join(program);
    (!program.is_empty() && !program.contains('/') && executable(&here)).then_some(here)
}

/// As a shell finds it.
pub(crate) fn find(program: &str) -> Result<PathBuf, LaunchError> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(LaunchError::NotFound(program.to_owned())),
            Err(error) => Err(LaunchError::Io { path, error }),
            Ok(_) if executable(&path) => Ok(path),
            Ok(_) => Err(LaunchError::NotExecutable(path)),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(program)).find(|file| executable(file));
    match found {
        Some(file) if !program.is_empty() => Ok(file),
        _ => Err(LaunchError::NotFound(program.to_owned())),
    }
}

fn executable(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a valid string.
    fs::metadata(path).is_ok_and(|data| data.is_file()) && unsafe { libc::access(name.as_ptr(), libc::X_OK) } == 0
}

pub(crate) fn library_of(program: &Path) -> Result<PathBuf, LaunchError> {
    if is_python(program) {
        return library_of_python(program);
    }
    let bytes = fs::read(program).map_err(|error| LaunchError::Io { path: program.to_owned(), error })?;
    match elf::classify(&bytes) {
        File::Dynamic(linker) => library_of_executable(program, &linker),
        File::Static | File::ForeignStatic => Err(LaunchError::Static(program.to_owned())),
        File::Foreign(processor, linker) => library_of_foreign(program, &Foreign::new(program, processor, &linker)?, &linker),
        File::Narrow => Err(LaunchError::Narrow(program.to_owned())),
        File::BigEndian => Err(LaunchError::BigEndian(program.to_owned())),
        File::OtherMachine(machine) => Err(LaunchError::OtherMachine { program: program.to_owned(), machine }),
        File::Other => Err(LaunchError::NotAProgram(program.to_owned())),
        File::Script(line) => {
            let interpreter = interpreter_of(&line);
            let name = Path::new(&interpreter);
            if is_python(name) {
                library_of_python(&find(&interpreter)?)
            } else {
                let interpreter = name.file_name().map_or(interpreter.clone(), |name| name.to_string_lossy().into_owned());
                Err(LaunchError::Script { program: program.to_owned(), interpreter })
            }
        }
    }
}

fn is_python(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

/// The interpreter in the first line of a script, also behind `env` and its options and variables.
fn interpreter_of(line: &str) -> String {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if Path::new(first).file_name().is_some_and(|name| name == "env") {
        return words.find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or_default().to_owned();
    }
    first.to_owned()
}

/// The dynamic linker itself says which files it would load: search paths of the executable, of its libraries and of
/// the environment, and the cache, need not be written a second time. Nothing of the program runs.
pub(crate) fn library_of_executable(program: &Path, linker: &str) -> Result<PathBuf, LaunchError> {
    library_said_by(Command::new(linker), program)
}

/// The same for a program of another processor: its linker runs as the program would.
fn library_of_foreign(program: &Path, foreign: &Foreign, linker: &str) -> Result<PathBuf, LaunchError> {
    library_said_by(foreign.command(Path::new(&foreign.file(PathBuf::from(linker)))), program).map(|library| foreign.file(library))
}

fn library_said_by(mut linker: Command, program: &Path) -> Result<PathBuf, LaunchError> {
    // ld.so(8): --list. Under a name with a slash, or it would search for it as a library.
    let path = program.canonicalize().map_err(|error| LaunchError::Io { path: program.to_owned(), error })?;
    let output = linker
        .arg("--list")
        .arg(&path)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LaunchError::Io { path: PathBuf::from(linker.get_program()), error })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(library) = mpi_library(&text) {
        return Ok(library);
    }
    // Ours is found when the program runs.
    if text.lines().any(|line| line.trim_start().starts_with(portals::FILE_NAME)) {
        return Ok(PathBuf::from(portals::FILE_NAME));
    }
    let missing = text.lines().find(|line| line.trim_end().ends_with("=> not found"));
    if let Some(library) = missing.and_then(|line| line.split_whitespace().next()) {
        return Err(LaunchError::LibraryMissing { program: program.to_owned(), library: library.to_owned() });
    }
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().next().unwrap_or("no reason given");
        if let Some((library, _)) = message.split_once(": cannot open shared object file") {
            let library = library.rsplit(' ').next().unwrap_or(library).to_owned();
            // Some linkers stop at the first library that is not there.
            if library.starts_with(portals::FILE_NAME) {
                return Ok(PathBuf::from(portals::FILE_NAME));
            }
            return Err(LaunchError::LibraryMissing { program: program.to_owned(), library });
        }
        return Err(LaunchError::NotLoadable { program: program.to_owned(), message: message.to_owned() });
    }
    Err(LaunchError::NoMpi(program.to_owned()))
}

/// The MPI library in a list of `name => path (address)` lines, or of paths.
fn mpi_library(list: &str) -> Option<PathBuf> {
    list.lines().find_map(|line| {
        let line = line.split(" (0x").next().unwrap_or(line).trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let name = Path::new(path).file_name()?.to_str()?;
        // Not libmpi_mpifh.so and other bindings: each of them needs one of these.
        (Library::is_file_name(LIBRARIES, name) && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

/// Python tells the library that mpi4py has loaded, without starting MPI.
const PYTHON: &str = "import mpi4py; mpi4py.rc.initialize = False; mpi4py.rc.finalize = False
from mpi4py import MPI
for line in open('/proc/self/maps'):
    if '/' in line: print(line[line.index('/'):].rstrip())";

fn library_of_python(interpreter: &Path) -> Result<PathBuf, LaunchError> {
    let output = Command::new(interpreter)
        .args(["-c", PYTHON])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LaunchError::Io { path: interpreter.to_owned(), error })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let message = text.lines().last().unwrap_or("no reason given").to_owned();
        return Err(LaunchError::NoMpi4py { interpreter: interpreter.to_owned(), message });
    }
    mpi_library(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| LaunchError::NoMpi(interpreter.to_owned()))
}

fn library_of_file(file: &Path) -> Result<Option<&'static Library>, LaunchError> {
    let bytes = fs::read(file).map_err(|error| LaunchError::Io { path: file.to_owned(), error })?;
    Ok(Library::of_file(LIBRARIES, &bytes))
}

/// The launcher in the same installation: `bin` beside a folder above the library.
fn launcher_of(library: &'static Library, path: PathBuf) -> Result<Mpi, LaunchError> {
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in [&path, &real] {
        // PREFIX/lib/libmpi.so, PREFIX/lib/x86_64-linux-gnu/libmpi.so,
        // PREFIX/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so
        for folder in path.ancestors().skip(2).take(4).filter_map(|folder| folder.join("bin").canonicalize().ok()) {
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    let names = library.launchers.iter();
    for launcher in folders.iter().flat_map(|folder| names.clone().map(|name| folder.join(name))).filter(|file| executable(file)) {
        // Another MPI under the same name, or something else altogether: not this one.
        let Ok((found, version)) = ask_launcher(&launcher) else { continue };
        if found == library {
            return Ok(Mpi { library, version, file: Some(path), launcher, foreign: None });
        }
    }
    let searched = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(LaunchError::LauncherMissing {
        library: path,
        searched: if searched.is_empty() { "any bin folder near it".to_owned() } else { searched },
    })
}

/// Library and version by `--version`.
fn ask_launcher(launcher: &Path) -> Result<(&'static Library, String), LaunchError> {
    // Intel's mpirun is a script that looks for mpiexec.hydra in `PATH`.
    let output = narrows_mpilib::with_path(Command::new(launcher), launcher)
        .arg("--version")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LaunchError::Io { path: launcher.to_owned(), error })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let unknown = || {
        let errors = String::from_utf8_lossy(&output.stderr);
        let message = text.lines().chain(errors.lines()).find(|line| !line.trim().is_empty()).unwrap_or("no answer to --version");
        LaunchError::UnknownLauncher { launcher: launcher.to_owned(), message: message.trim().to_owned() }
    };
    let (library, version) = Library::of_launcher(LIBRARIES, &text).ok_or_else(unknown)?;
    if major(version).ok_or_else(unknown)? < library.oldest {
        return Err(LaunchError::TooOld { launcher: launcher.to_owned(), name: library.name, version: version.to_owned() });
    }
    Ok((library, version.to_owned()))
}

/// The first number of a version.
pub(crate) fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_no_program() {
        let line = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            inspect(&words[0], &words[1..]).unwrap_err().to_string()
        };
        for (words, expected) in [
            ("mpirun -n 2 ./a x -n 3", "write narrows run -n 2 -- ./a x -n 3"),
            ("/usr/bin/mpiexec.hydra --bind-to core -np 4 ./a", "write narrows run -n 4 -- ./a"),
            ("srun --ntasks 8 --exclusive ./a", "write narrows run -n 8 -- ./a"),
            ("orterun ./a", "write narrows run -n RANKS -- ./a"),
            ("prterun", "write narrows run -n RANKS -- PROGRAM"),
        ] {
            assert!(line(words).ends_with(expected), "{words}: {}", line(words));
        }
    }

    #[test]
    fn what_a_launcher_starts_where_that_is_clear() {
        let of = |line: &str| launched(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let found = of("/usr/bin/mpirun --oversubscribe -np 4 --bind-to core ./a -n 7").unwrap();
        assert_eq!((found.launcher.as_str(), found.ranks, found.words.join(" ").as_str()), ("mpirun", 4, "./a -n 7"));
        assert_eq!(found.left_out, ["--oversubscribe", "--bind-to core"]);
        assert_eq!(of("mpiexec -n 2 ./a : -n 3 ./b").unwrap().words.join(" "), "./a : -n 3 ./b");
        for unclear in
            ["./a -n 2", "mpirun ./a", "mpirun -n 2 -ppn 1 ./a", "mpirun -n 2 -x A=1 ./a", "mpirun -n", "mpirun -n two ./a", "mpirun -n 2"]
        {
            assert_eq!(of(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn the_library_among_others() {
        let list = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibmpi_mpifh.so.40 => /usr/lib/libmpi_mpifh.so.40 (0x00007f00)\n\
                    \tlibmpi.so.40 => /opt/my mpi/lib/libmpi.so.40 (0x00007f01)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        assert_eq!(mpi_library(list), Some(PathBuf::from("/opt/my mpi/lib/libmpi.so.40")));
        assert_eq!(mpi_library("\tlibmpi.so.40 => not found\n"), None);
        assert_eq!(mpi_library("\tlibc.so.6 => /lib/libc.so.6 (0x0)\n\tlibmpi_cxx.so.40 => /lib/libmpi_cxx.so.40 (0x0)\n"), None);
        assert_eq!(mpi_library("/lib/libmpich.so.12\n"), Some(PathBuf::from("/lib/libmpich.so.12")));
        assert_eq!(mpi_library("/lib/libmpi_abi.so.1.0.0\n"), Some(PathBuf::from("/lib/libmpi_abi.so.1.0.0")));
    }

    #[test]
    fn first_lines_of_scripts() {
        assert_eq!(interpreter_of("/usr/bin/env python3"), "python3");
        assert_eq!(interpreter_of("/usr/bin/env -S A=1 python3 -u"), "python3");
        assert_eq!(interpreter_of("/bin/sh -e"), "/bin/sh");
        assert_eq!(interpreter_of(""), "");
    }
}
