//! The program's name as the user wrote it. `narrows` gives the launcher the path that it has found; without it a shell
//! or launcher would have looked for the name, and the program would have been told the name.

use libc::c_char;
use std::ffi::{CStr, CString};

/// Unit separator, which no path has.
const SEPARATOR: u8 = 0x1f;

unsafe extern "C" {
    /// Of glibc: what `argv[0]` was before `main`.
    static mut program_invocation_name: *mut c_char;
}

/// Before `main`: puts the name in the place of the path. `NARROWS_NAMES` has a path and a name, each with a separator
/// behind it, for each program of which they differ.
///
/// # Safety
/// `argv` are the arguments of this process, which has one thread yet.
pub unsafe fn as_written(argv: *mut *mut c_char) {
    // SAFETY: a constant name; the value stays.
    let names = unsafe { libc::getenv(c"NARROWS_NAMES".as_ptr()) };
    // SAFETY: by the caller's promise: the list ends with a null pointer.
    if names.is_null() || argv.is_null() || unsafe { (*argv).is_null() } {
        return;
    }
    // SAFETY: both are strings.
    let (names, path) = unsafe { (CStr::from_ptr(names), CStr::from_ptr(*argv)) };
    let mut lines = names.to_bytes().split(|&byte| byte == SEPARATOR);
    while let (Some(of), Some(name)) = (lines.next(), lines.next()) {
        if of == path.to_bytes()
            && let Ok(name) = CString::new(name)
        {
            let name = name.into_raw();
            // SAFETY: by the caller's promise; the name is never freed.
            unsafe {
                *argv = name;
                (&raw mut program_invocation_name).write(name);
            }
            return;
        }
    }
}
