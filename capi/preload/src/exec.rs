//! A script that starts the program may set `LD_PRELOAD` to a library of its own, such as a tool over PMPI. The program
//! would run without the simulation then: what replaces the process loads ours too, behind that.

use crate::state;
use crate::symbols::real;
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::OnceLock;

mod next {
    use super::*;
    real! {
        fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
        fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
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
