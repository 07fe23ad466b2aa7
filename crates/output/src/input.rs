//! Files that are read.

use crate::is_standard;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;

/// Opens a file for reading at any place, any number of times. What is no ordinary file (`-` for standard input, a
/// pipe) is first read to its end, into a nameless file in `$TMPDIR`.
///
/// # Errors
/// What the system says.
pub fn input(path: &Path) -> io::Result<File> {
    let mut file = match is_standard(path) {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path)?,
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // Standard input may be a file in the middle of which somebody else has stopped reading.
    if kind.is_file() && !is_standard(path) {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// A whole text file; `-` is standard input.
///
/// # Errors
/// What the system says; that it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    if is_standard(path.as_ref()) { io::read_to_string(io::stdin().by_ref()) } else { std::fs::read_to_string(path) }
}
