//! What can go wrong with a trace.

use crate::meetings::Contradiction;
use narrows_output::OutputError;
use narrows_units::Excess;
use std::borrow::Cow;
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
    /// A place in a file is not what the format says.
    #[error(transparent)]
    Malformed(#[from] Mistake),
    /// The input, or a number that the user gives, should be something else.
    #[error("expected {what}{}", found.as_ref().map_or(String::new(), |found| format!(", found {found}")))]
    Expected {
        /// What would be right.
        what: Cow<'static, str>,
        /// What is there instead, unless that is nothing.
        found: Option<String>,
    },
    /// A line is no JSON, or has other keys.
    #[error("column {}: {}", .0.column(), without_line(.0))]
    Json(#[from] serde_json::Error),
    /// Members of a communicator say different things of a collective.
    #[error(transparent)]
    Contradiction(#[from] Box<Contradiction>),
    /// One of the above, in a part of a place.
    #[error("{part}: {error}")]
    Within {
        /// Which part.
        part: String,
        /// What is wrong there.
        error: Box<TraceError>,
    },
    /// What is asked for does not exist, or does not go together.
    #[error("{0}")]
    Unsuitable(String),
    /// A size or time is more than a simulation holds.
    #[error(transparent)]
    TooMuch(#[from] Excess),
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

/// serde_json counts lines of its own.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned()
}

/// Something else than what is there.
pub(crate) fn expected(what: impl Into<Cow<'static, str>>) -> TraceError {
    TraceError::Expected { what: what.into(), found: None }
}

/// `what` would be right, but `found` is there.
pub(crate) fn found(what: impl Into<Cow<'static, str>>, found: impl fmt::Display) -> TraceError {
    TraceError::Expected { what: what.into(), found: Some(found.to_string()) }
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

    pub(crate) fn within(self, part: String) -> TraceError {
        TraceError::Within { part, error: Box::new(self) }
    }

    /// The same in a file. What has its place already, or is not a fault of the input, stays.
    pub(crate) fn at(self, path: &Path, location: Location) -> TraceError {
        self.mistake(path, location).map_or_else(|error| error, TraceError::Malformed)
    }

    /// A mistake in a file, or what is none.
    pub(crate) fn mistake(self, path: &Path, location: Location) -> Result<Mistake, TraceError> {
        match self {
            TraceError::File { .. } | TraceError::Temporary { .. } | TraceError::Output(_) | TraceError::Malformed(_) => Err(self),
            error => Ok(Mistake { path: path.to_owned(), location, error: Box::new(error) }),
        }
    }
}

/// One mistake in a trace file.
#[derive(Debug, thiserror::Error)]
#[error("{}{location}: {error}", display(path))]
pub struct Mistake {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub location: Location,
    /// What was expected, and what is there.
    pub error: Box<TraceError>,
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Line, from 1.
    Line(u64),
    /// Byte offset in a binary file.
    Byte(u64),
    /// The file as a whole.
    Whole,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Line(line) => write!(f, ":{line}"),
            Location::Byte(offset) => write!(f, ": byte {offset}"),
            Location::Whole => Ok(()),
        }
    }
}
