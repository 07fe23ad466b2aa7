//! Messages and results.

use crate::OutputError;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// A message: `narrows: ...` on a line of standard error.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::emit("", ::std::format_args!($($text)*)) };
}

/// Something that the user should look at before trusting the results: `narrows: warning: ...`.
#[macro_export]
macro_rules! warn {
    ($($text:tt)*) => { $crate::emit("warning: ", ::std::format_args!($($text)*)) };
}

/// Why a command cannot do what it was asked to: `narrows: error: ...`.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => { $crate::emit("error: ", ::std::format_args!($($text)*)) };
}

/// What the macros do: the whole message in one write, so that processes that share a standard error do not mix their
/// lines. `kind` is not said twice where the text begins with it (diagnostics of machine files).
pub fn emit(kind: &str, text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let text = text.strip_prefix(kind).unwrap_or(&text);
    let line = format!("narrows: {kind}{}\n", text.trim_end_matches('\n'));
    // Nobody is left to tell.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// A result, on standard output. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// What the system says about standard output.
pub fn print(text: &str) -> Result<(), OutputError> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(OutputError { path: PathBuf::from("-"), error }),
        _ => Ok(()),
    }
}
