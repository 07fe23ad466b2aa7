//! Which MPI a program uses.

use crate::command::SHELL;
use crate::elf::{self, File};
use crate::starts::library_of_command;
use crate::{Kind, LaunchError, Mpi};
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
    let library = library_of_command(&find(&locate(program)?)?, arguments)?;
    if is_portals(&library) {
        let launcher = find("mpiexec.hydra").unwrap_or_else(|_| PathBuf::from(SHELL));
        return Ok(Mpi { kind: Kind::Portals, version: String::from("4"), library: Some(library), launcher });
    }
    let Some(family) = family_of(&library)? else { return Err(LaunchError::UnknownMpi(library)) };
    launcher_of(family, library)
}

/// The MPI that a launcher belongs to.
pub fn inspect_launcher(launcher: &Path) -> Result<Mpi, LaunchError> {
    let mut launcher = find(&launcher.to_string_lossy())?;
    // Open MPI takes the folder of a launcher called by its path for its prefix: /bin/mpirun would be in "/". The name
    // stays as it is, launchers have several.
    if let (Some(folder), Some(name)) = (launcher.parent().and_then(|folder| folder.canonicalize().ok()), launcher.file_name()) {
        launcher = folder.join(name);
    }
    let (kind, version) = ask_launcher(&launcher)?;
    Ok(Mpi { kind, version, library: library_beside(&launcher, kind), launcher })
}

/// The library in the installation of a launcher.
fn library_beside(launcher: &Path, kind: Kind) -> Option<PathBuf> {
    let (name, family) = match kind {
        Kind::OpenMpi4 | Kind::OpenMpi5 => ("libmpi.so.40", Family::OpenMpi),
        Kind::Mpich => ("libmpi.so.12", Family::Mpich),
        // The wheel's; an installation by Intel has a folder for each kind.
        Kind::IntelMpi => ("libmpi.so.12", Family::Intel),
        Kind::Portals => return None,
    };
    let real = launcher.canonicalize().ok();
    let prefixes = [Some(launcher), real.as_deref()].into_iter().flatten().filter_map(|path| path.parent()?.parent());
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let folders = prefixes.flat_map(|prefix| ["lib", "lib64", &format!("lib/{triplet}")].map(|folder| prefix.join(folder)));
    // libmpich.so.12: Debian.
    let mut files = folders.flat_map(|folder| [name, "libmpich.so.12"].map(|name| folder.join(name)));
    files.find(|file| file.exists() && family_of(file).is_ok_and(|found| found == Some(family)))
}

/// A launcher that was named by hand must be that of the program's library, as far as that can be found.
pub fn check_launcher(mpi: &Mpi, program: &str, arguments: &[String]) -> Result<(), LaunchError> {
    let Ok(library) = locate(program).and_then(|program| library_of_command(&find(&program)?, arguments)) else { return Ok(()) };
    let Some(family) = (if is_portals(&library) { None } else { family_of(&library)? }) else { return Ok(()) };
    let wrong = |library, name: String| LaunchError::WrongLauncher { launcher: mpi.launcher.clone(), mpi: mpi.to_string(), library, name };
    if !family.has(mpi.kind) {
        return Err(wrong(library, family.to_string()));
    }
    match launcher_of(family, library.clone()) {
        Ok(own) if own.kind != mpi.kind => Err(wrong(library, own.to_string())),
        _ => Ok(()),
    }
}

/// Whether an Open MPI has a component, such as `mtl_portals4`: in a file of its own, or in its libraries. `None`:
/// nobody knows.
pub fn has_component(program: &str, arguments: &[String], component: &str) -> Option<bool> {
    // They may be anywhere then.
    if env::var_os("OMPI_MCA_mca_base_component_path").is_some() {
        return None;
    }
    let library = library_of_command(&find(&locate(program).ok()?).ok()?, arguments).ok()?;
    let folder = library.canonicalize().ok()?.parent()?.to_owned();
    let names: Vec<PathBuf> = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let starts = |path: &Path, text: &str| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(text));
    let (folders, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|path| path.is_dir());
    let has = |component: &str| {
        let (file, symbol) = (format!("mca_{component}.so"), format!("mca_{component}_component"));
        // Debian has them in openmpi/lib/openmpi3.
        folders.iter().filter(|path| starts(path, "openmpi")).any(|path| is_below(path, &file, 3))
            || files
                .iter()
                .filter(|path| starts(path, "libmpi.so") || starts(path, "libopen-pal.so"))
                .any(|path| fs::read(path).is_ok_and(|bytes| bytes.windows(symbol.len()).any(|window| window == symbol.as_bytes())))
    };
    // Every Open MPI has the second one.
    if has(component) { Some(true) } else { has("pml_ob1").then_some(false) }
}

/// Whether there is a file of that name in `folder`, or so deep below it.
fn is_below(folder: &Path, name: &str, depth: u32) -> bool {
    let entries = || fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    folder.join(name).exists() || (depth > 0 && entries().any(|path| path.is_dir() && is_below(&path, name, depth - 1)))
}

pub(crate) fn is_portals(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PORTALS))
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
        File::Static => Err(LaunchError::Static(program.to_owned())),
        File::OtherMachine => Err(LaunchError::OtherMachine(program.to_owned())),
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
    // ld.so(8): --list. Under a name with a slash, or it would search for it as a library.
    let path = program.canonicalize().map_err(|error| LaunchError::Io { path: program.to_owned(), error })?;
    let output = Command::new(linker)
        .arg("--list")
        .arg(&path)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| LaunchError::Io { path: PathBuf::from(linker), error })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(library) = mpi_library(&text) {
        return Ok(library);
    }
    // Ours is found when the program runs.
    if text.lines().any(|line| line.trim_start().starts_with(PORTALS)) {
        return Ok(PathBuf::from(PORTALS));
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
            if library.starts_with(PORTALS) {
                return Ok(PathBuf::from(PORTALS));
            }
            return Err(LaunchError::LibraryMissing { program: program.to_owned(), library });
        }
        return Err(LaunchError::NotLoadable { program: program.to_owned(), message: message.to_owned() });
    }
    Err(LaunchError::NoMpi(program.to_owned()))
}

/// The library of programs that use Portals without MPI.
const PORTALS: &str = "libportals.so";

/// The MPI library in a list of `name => path (address)` lines, or of paths.
fn mpi_library(list: &str) -> Option<PathBuf> {
    list.lines().find_map(|line| {
        let line = line.split(" (0x").next().unwrap_or(line).trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let name = Path::new(path).file_name()?.to_str()?;
        // libmpi.so.40 and .12, libmpi_abi.so.1 of MPI 5.0, libmpich.so.12 of Debian. Not libmpi_mpifh.so and other
        // bindings: each of them needs one of these.
        let stem = name.split(".so").next()?;
        (name.contains(".so") && ["libmpi", "libmpi_abi", "libmpich"].contains(&stem) && path.starts_with('/')).then(|| PathBuf::from(path))
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

/// Whose library or launcher, before the version is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
    Intel,
}

impl Family {
    fn has(self, kind: Kind) -> bool {
        self == match kind {
            Kind::OpenMpi4 | Kind::OpenMpi5 => Family::OpenMpi,
            Kind::Mpich => Family::Mpich,
            Kind::IntelMpi => Family::Intel,
            Kind::Portals => return false,
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::Intel => "Intel MPI",
        })
    }
}

/// Each library has the format of its version text in it (MPI_Get_library_version). Relatives of MPICH have their own
/// name too.
fn family_of(library: &Path) -> Result<Option<Family>, LaunchError> {
    let bytes = fs::read(library).map_err(|error| LaunchError::Io { path: library.to_owned(), error })?;
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    if has(b"Open MPI v%d.%d.%d") {
        return Ok(Some(Family::OpenMpi));
    }
    if has(b"Intel(R) MPI Library") {
        return Ok(Some(Family::Intel));
    }
    let relative = has(b"MVAPICH") || has(b"CRAY MPICH");
    Ok((has(b"MPICH Version:") && !relative).then_some(Family::Mpich))
}

/// The launcher in the same installation: `bin` beside a folder above the library.
fn launcher_of(family: Family, library: PathBuf) -> Result<Mpi, LaunchError> {
    // Debian has several installations in /usr and names their launchers apart; mpirun may be any of them.
    let names: &[&str] = match family {
        Family::OpenMpi => &["mpirun.openmpi", "mpirun", "mpiexec"],
        Family::Mpich => &["mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"],
        // mpirun is a script that sets variables for an installation by Intel.
        Family::Intel => &["mpiexec.hydra", "mpiexec", "mpirun"],
    };
    let real = library.canonicalize().unwrap_or_else(|_| library.clone());
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in [&library, &real] {
        // PREFIX/lib/libmpi.so, PREFIX/lib/x86_64-linux-gnu/libmpi.so,
        // PREFIX/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so
        for folder in path.ancestors().skip(2).take(4).filter_map(|folder| folder.join("bin").canonicalize().ok()) {
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    for file in folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).filter(|file| executable(file)) {
        // Another MPI under the same name, or something else altogether: not this one.
        let Ok((kind, version)) = ask_launcher(&file) else { continue };
        if family.has(kind) {
            return Ok(Mpi { kind, version, library: Some(library), launcher: file });
        }
    }
    let searched = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(LaunchError::LauncherMissing {
        library,
        searched: if searched.is_empty() { "any bin folder near it".to_owned() } else { searched },
    })
}

/// A launcher that finds what it starts beside itself: Intel's mpirun is a script that looks for mpiexec.hydra in
/// `PATH`, and mpiexec.hydra for its proxy.
pub(crate) fn start(launcher: &Path) -> Command {
    let mut command = Command::new(launcher);
    if let Some(folder) = launcher.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let path = env::var_os("PATH").unwrap_or_default();
        // Behind the caller's, which has the programs that were asked for.
        if let Ok(path) = env::join_paths(env::split_paths(&path).chain([folder.to_owned()])) {
            command.env("PATH", path);
        }
    }
    command
}

/// Kind and version by `--version`.
fn ask_launcher(launcher: &Path) -> Result<(Kind, String), LaunchError> {
    let output = start(launcher)
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
    let (name, version) = version_of(&text).ok_or_else(unknown)?;
    let major: u32 = version.split('.').next().and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
    let kind = match (name, major) {
        ("Open MPI", 4) => Kind::OpenMpi4,
        ("Open MPI", 5..) => Kind::OpenMpi5,
        // libfabric is the way into ch4, the device of MPICH since 4.0.
        ("MPICH", 4..) => Kind::Mpich,
        // It has no other one since 2019.
        ("Intel MPI", 2019..) => Kind::IntelMpi,
        _ => return Err(LaunchError::TooOld { launcher: launcher.to_owned(), name, version }),
    };
    Ok((kind, version))
}

/// "mpirun (Open MPI) 4.1.4", under its other names "mpirun.openmpi (OpenRTE) 4.1.4"; the build details of Hydra;
/// "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626".
fn version_of(text: &str) -> Option<(&'static str, String)> {
    for line in text.lines() {
        if let Some((_, version)) = line.split_once("Intel(R) MPI Library for Linux* OS, Version ") {
            return Some(("Intel MPI", version.split_whitespace().next()?.to_owned()));
        }
        if let Some((_, version)) = line.split_once("(Open MPI) ").or_else(|| line.split_once("(OpenRTE) ")) {
            return Some(("Open MPI", version.split_whitespace().next()?.to_owned()));
        }
    }
    if text.contains("HYDRA build details") {
        let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
        return Some(("MPICH", version.split_whitespace().next()?.to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_versions() {
        let openmpi = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
        assert_eq!(version_of(openmpi), Some(("Open MPI", "4.1.4".to_owned())));
        assert_eq!(version_of("mpirun.openmpi (OpenRTE) 4.1.4\n"), Some(("Open MPI", "4.1.4".to_owned())));
        let hydra = "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date: x\n";
        assert_eq!(version_of(hydra), Some(("MPICH", "5.0.2".to_owned())));
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\nCopyright 2003-2026\n";
        assert_eq!(version_of(intel), Some(("Intel MPI", "2021.18.1".to_owned())));
        assert_eq!(version_of(""), None);
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
