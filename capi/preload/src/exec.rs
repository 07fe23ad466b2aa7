//! A script that starts the program may set `LD_PRELOAD` to a library of its own, such as a tool over PMPI. The program
//! would run without the simulation then: what replaces the process loads ours too, behind that.

//!
//! A script must not start a launcher: it would start ranks of its own for each rank, on this computer.

use crate::symbols::real;
use crate::{portals, state};
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use narrows_mpilib::launchers;
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::OnceLock;

mod next {
    use super::*;
    real! {
        fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
        fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
        fn posix_spawn(
            pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int;
        fn posix_spawnp(
            pid: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int;
    }
}

/// The name of the variable, and the sign behind it.
const VARIABLE: &[u8] = b"LD_PRELOAD=";

/// What was preloaded into this process.
static OURS: OnceLock<CString> = OnceLock::new();

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Before the program can change it.
pub fn remember() {
    // SAFETY: a constant name, whose value has a zero; the process has one thread yet.
    let value = unsafe {
        let value = libc::getenv(c"LD_PRELOAD".as_ptr());
        if value.is_null() { return } else { CStr::from_ptr(value) }
    };
    OURS.get_or_init(|| value.to_owned());
}

/// Before `main`: this process was started in the place of a rank. A launcher that would start programs ends with a
/// line that says what to write instead.
///
/// # Safety
/// `argv` are the arguments of this process.
pub unsafe fn refuse_launcher(argv: *const *mut c_char) {
    if !state::on() || argv.is_null() {
        return;
    }
    // SAFETY: by the caller's promise: strings, up to a null pointer.
    let word = |at: usize| unsafe {
        let word = *argv.add(at);
        (!word.is_null()).then(|| CStr::from_ptr(word).to_str().unwrap_or_default())
    };
    let Some(name) = word(0).and_then(launchers::name_of) else { return };
    let (ranks, program) = launchers::started((1..).map_while(word));
    if !program.is_empty() {
        let (ranks, program) = (ranks.unwrap_or("RANKS"), program.join(" "));
        portals::refuses(&format!(
            "{name}, which a script has started: narrows starts the ranks by the launcher of their MPI itself; write narrows run -n {ranks} \
             -- {program}"
        ));
    }
}

/// An environment in which a preload of the script's own is followed by ours, and what owns that; `None`: it stays.
///
/// # Safety
/// `environment` is null or a list of strings that ends with a null pointer.
unsafe fn with_ours(environment: *const *const c_char) -> Option<(Vec<*const c_char>, CString)> {
    let ours = OURS.get().filter(|_| state::on() && !environment.is_null())?.to_bytes();
    let mut list = Vec::new();
    // SAFETY: by the caller's promise.
    unsafe {
        let mut entry = environment;
        while !(*entry).is_null() {
            list.push(*entry);
            entry = entry.add(1);
        }
    }
    // SAFETY: as above.
    let at = list.iter().position(|&entry| unsafe { CStr::from_ptr(entry) }.to_bytes().starts_with(VARIABLE))?;
    // SAFETY: as above.
    let entry = unsafe { CStr::from_ptr(list[at]) }.to_bytes();
    let first = ours.split(|&byte| byte == b':').next()?;
    // Emptied on purpose, or ours is there.
    if entry == VARIABLE || entry.windows(first.len()).any(|window| window == first) {
        return None;
    }
    let together = CString::new([entry, ours].join(&b':')).ok()?;
    list[at] = together.as_ptr();
    list.push(ptr::null());
    Some((list, together))
}

/// Calls `exec` with the environment that the new program gets. What is made here lives until it has failed.
///
/// # Safety
/// As [`with_ours`].
unsafe fn replace(environment: *const *const c_char, exec: impl FnOnce(*const *const c_char) -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let own = unsafe { with_ours(environment) };
    exec(own.as_ref().map_or(environment, |(list, _)| list.as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { replace(environment, |environment| next::execve(path, arguments, environment)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { replace(environ, |environment| next::execve(path, arguments, environment)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { replace(environment, |environment| next::execvpe(file, arguments, environment)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { replace(environ, |environment| next::execvpe(file, arguments, environment)) }
}

macro_rules! spawns {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                pid: *mut pid_t,
                path: *const c_char,
                actions: *const posix_spawn_file_actions_t,
                attributes: *const posix_spawnattr_t,
                arguments: *const *mut c_char,
                environment: *const *mut c_char,
            ) -> c_int {
                // SAFETY: the caller's contract.
                unsafe {
                    replace(environment.cast(), |environment| {
                        next::$name(pid, path, actions, attributes, arguments, environment.cast())
                    })
                }
            }
        )*
    };
}
spawns! { posix_spawn posix_spawnp }
