//! What can go wrong with a trace.

use narrows_output::OutputError;
use narrows_units::Excess;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system says no.
    #[error("{}: {error}", display(path))]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Operations are kept in temporary files.
    #[error("temporary files go to {} ($TMPDIR): {error}", folder.display())]
    Temporary {
        /// Where they are.
        folder: PathBuf,
        /// Why they cannot be.
        error: std::io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A line of a file, or a place in a binary one, is not what the format says.
    #[error("{0}")]
    Malformed(Mistake),
    /// A file has nothing to do with its format as a whole, or a program cannot be written in a format.
    #[error("{0}")]
    Unsuitable(String),
    /// An operation asks for more than a simulation holds.
    #[error("rank {rank}, operation {operation}: {excess}")]
    Excess {
        /// Of the program.
        rank: u32,
        /// Number among the operations of the rank, from 0.
        operation: u64,
        /// Of what.
        excess: Excess,
    },
}

/// A file in a message.
fn display(path: &Path) -> std::path::Display<'_> {
    if narrows_output::is_standard(path) { Path::new("standard input").display() } else { path.display() }
}

impl TraceError {
    /// Of a temporary file.
    pub(crate) fn temporary(error: std::io::Error) -> TraceError {
        TraceError::Temporary { folder: std::env::temp_dir(), error }
    }

    pub(crate) fn output(path: &Path) -> impl Fn(std::io::Error) -> TraceError + '_ {
        move |error| TraceError::Output(OutputError::of(path)(error))
    }

    pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> TraceError + '_ {
        move |error| TraceError::File { path: path.to_owned(), error }
    }
}

/// One mistake in a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What was expected, and what is there.
    pub message: String,
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Line, from 1.
    Line(u64),
    /// Byte offset in a binary file.
    Byte(u64),
    /// The file as a whole.
    Whole,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "{}:{line}: {}", display(&self.path), self.message),
            Place::Byte(offset) => write!(f, "{}: byte {offset}: {}", display(&self.path), self.message),
            Place::Whole => write!(f, "{}: {}", display(&self.path), self.message),
        }
    }
}
