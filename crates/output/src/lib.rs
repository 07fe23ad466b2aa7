//! Everything that Narrows writes and says goes through here, and what it reads may come from here.
//!
//! * [`OutputFile`], [`write`] — files: an ordinary one appears complete or not at all, a device or a pipe is written
//!   into, symbolic links are followed, `-` is standard output.
//! * [`input`], [`read_to_string`] — the reverse: `-` is standard input, a pipe is kept in a nameless file so that it
//!   can be read twice.
//! * [`print`] — results, on standard output.
//! * [`exit`] — exit codes.
//! * [`Meter`] — how far a piece of work is, for who shows it.
//! * [`say!`], [`warn!`], [`complain!`] — messages, on standard error. Who cannot hear them is not disturbed: nothing
//!   here panics.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("summary.json");
//! narrows_output::write(&path, "{}\n")?;
//! assert_eq!(narrows_output::read_to_string(&path)?, "{}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod exit;
mod file;
mod input;
mod meter;
mod pending;
mod say;

pub use file::{OutputError, OutputFile, create_folder, write};
pub use input::{input, read_to_string};
pub use meter::Meter;
pub use say::{emit, print};

use std::path::Path;

/// Whether a name stands for standard output, or for standard input.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}
