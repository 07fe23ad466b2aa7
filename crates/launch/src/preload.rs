//! A preload library that has no function more than the MPI library.
//!
//! Ours has a function for every one that some MPI has. But programs ask whether a function is there, by `dlsym` or by
//! a weak reference, and do without it (mpi4py 4: MPI_Send_c, MPI_Session_init): what the MPI library lacks must be
//! absent. Weak references are bound before any code of a library runs, so it must not be in the file. So the ranks
//! load a copy in which those entries of the symbol table are empty: a symbol without a value is none for the dynamic
//! linker (glibc, `do_lookup_x`).

use crate::LaunchError;
use crate::{elf, inspect};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

/// A preload library as ranks load it, for as long as this value lives.
#[derive(Debug)]
pub struct Preload {
    path: PathBuf,
    /// The copy: a file in memory without a name.
    _copy: Option<File>,
}

impl Preload {
    /// `library`, fitted to an MPI library.
    ///
    /// # Errors
    /// [`LaunchError::Io`] with the file that cannot be read or made.
    pub fn fitted(library: &Path, mpi: Option<&Path>) -> Result<Preload, LaunchError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| LaunchError::Io { path: path.to_owned(), error });
        let whole = Preload { path: library.to_owned(), _copy: None };
        // The library of a Portals program is ours, and has not been looked for.
        let Some(mpi) = mpi.filter(|mpi| !inspect::is_portals(mpi)) else { return Ok(whole) };
        let mut bytes = read(library)?;
        if without(&mut bytes, &read(mpi)?) == 0 {
            return Ok(whole);
        }
        let copy = in_memory(&bytes).map_err(|error| LaunchError::Io { path: PathBuf::from("a file in memory"), error })?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd()));
        Ok(Preload { path, _copy: Some(copy) })
    }

    /// For `LD_PRELOAD`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Empties the entries of MPI functions that the other library lacks; how many. Fortran bindings are in libraries of
/// their own, which have none for a function that the C library lacks. A library that does not look like one for MPI
/// lacks nothing.
fn without(bytes: &mut [u8], mpi: &[u8]) -> usize {
    let there: BTreeSet<&[u8]> = elf::dynamic_symbols(mpi).filter(|symbol| symbol.defined).map(|symbol| symbol.name).collect();
    if !there.contains(b"MPI_Init".as_slice()) {
        return 0;
    }
    let lacks = |name: &[u8]| {
        let call = std::str::from_utf8(name).ok().and_then(narrows_mpicalls::by_name);
        let Some(call) = call.map(|id| narrows_mpicalls::CALLS[id as usize].name) else { return false };
        let in_c = name.starts_with(b"MPI_") || name.starts_with(b"PMPI_");
        !there.contains(if in_c { name } else { call.as_bytes() })
    };
    let entries: Vec<usize> =
        elf::dynamic_symbols(bytes).filter(|symbol| symbol.defined && lacks(symbol.name)).map(|symbol| symbol.entry).collect();
    for entry in &entries {
        elf::empty_symbol(&mut bytes[*entry..]);
    }
    entries.len()
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: a constant string; a new descriptor is nobody else's.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"narrows-preload".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles C into `folder`.
    fn compiled(folder: &Path, name: &str, code: &str, options: &[&str]) -> PathBuf {
        let (source, target) = (folder.join(format!("{name}.c")), folder.join(name));
        std::fs::write(&source, code).unwrap();
        let done = Command::new("cc").args(["-w", "-o"]).args([&target, &source]).args(options).status().unwrap();
        assert!(done.success(), "{name}");
        target
    }

    #[test]
    fn what_the_mpi_library_lacks_is_absent() {
        let scratch = crate::Scratch::create().unwrap();
        let folder = scratch.path();
        let shared = ["-shared", "-fPIC"];
        let mpi = compiled(folder, "libmpi.so.40", "int MPI_Init(void) { return 1; } int MPI_Send(void) { return 1; }", &shared);
        let ours = "int MPI_Init(void) { return 2; } int MPI_Send(void) { return 2; } int MPI_Send_c(void) { return 2; }
                    int mpi_send_(void) { return 2; } int mpi_session_init_(void) { return 2; } int clock_gettime(void) { return 2; }";
        let library = compiled(folder, "libours.so", ours, &shared);
        let code = "#include <dlfcn.h>\n#include <stdio.h>\n#define WEAK __attribute__((weak))
                    int MPI_Init(void); int WEAK MPI_Send(void); int WEAK MPI_Send_c(void); int WEAK mpi_send_(void); int WEAK mpi_session_init_(void);
                    int (*volatile all[])(void) = {MPI_Init, MPI_Send, MPI_Send_c, mpi_send_, mpi_session_init_};
                    void asks(void) {
                        for (int i = 0; i < 5; i++) printf(\"%d\", all[i] ? all[i]() : 0);
                        printf(\" %d%d\", !!dlsym(RTLD_DEFAULT, \"MPI_Send\"), !!dlsym(RTLD_DEFAULT, \"MPI_Send_c\"));
                    }";
        // In a library, as those of a Python module: weak references of an executable are bound when it is linked.
        let asks = compiled(folder, "libasks.so", code, &[&shared[..], &[mpi.to_str().unwrap()]].concat());
        let calls = "void asks(void); int main(void) { asks(); }";
        let program = compiled(folder, "program", calls, &[asks.to_str().unwrap(), mpi.to_str().unwrap()]);
        let run = |preload: &Preload| {
            let output = Command::new(&program).env("LD_PRELOAD", preload.path()).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
        };
        let whole = Preload::fitted(&library, None).unwrap();
        assert_eq!((whole.path(), run(&whole).as_str()), (library.as_path(), "22222 11"));
        let fitted = Preload::fitted(&library, Some(&mpi)).unwrap();
        assert_eq!(run(&fitted), "22020 10");
        assert_eq!(Preload::fitted(&library, Some(&program)).unwrap().path(), library, "not an MPI library");
        assert_eq!(Preload::fitted(&library, Some(Path::new("libportals.so"))).unwrap().path(), library, "no library has been looked for");
    }
}
