use narrows_fabric::ConfigError;
use narrows_fabric::parallel::{ProcessError, Processes};
use narrows_launch::LaunchError;
use narrows_machine::{MachineError, PlacementError, RulesError};
use narrows_output::OutputError;
use narrows_replay::ReplayError;
use narrows_topology::TopologyError;
use narrows_trace::TraceError;
use narrows_traffic::TrafficError;
use narrows_units::parse::QuantityError;
use std::path::{Path, PathBuf};

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// There is no such machine, or it has mistakes.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its numbers make no network.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Nor do these.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// Traffic that cannot be.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The processes that share a study cannot go on together.
    #[error(transparent)]
    Processes(#[from] ProcessError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace does not fit together.
    #[error("{}: {error}", path.display())]
    Graph {
        /// The trace.
        path: PathBuf,
        /// Why.
        error: Box<ReplayError>,
    },
    /// A trace does not fit together, on a machine.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Rules of collectives.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The program cannot be launched on this host.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The host, the launcher or the program's MPI lacks something.
    #[error("{0}")]
    Host(String),
    /// The ranks find no place.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A physical layer and values that cannot be.
    #[error(transparent)]
    Phy(#[from] narrows_phy::study::TrialError),
    /// A file that it was asked to write.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Values that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A value is none of those that are possible.
    #[error("{found}: expected {expected}")]
    Expected {
        /// What the user gives.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// It is no time or size.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// It is no figure or timing.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// One of the others, of an option, a key or a case.
    #[error("{of}: {error}")]
    Of {
        /// Its name.
        of: String,
        /// Why.
        error: Box<StudyError>,
    },
    /// One of the others, in a line of a file.
    #[error("{}:{line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Why.
        error: Box<StudyError>,
    },
    /// No folder has the name of this figure.
    #[error("no figure \"{id}\" in {}; there are {known}", folder.display())]
    Figure {
        /// What was asked for.
        id: String,
        /// Where.
        folder: PathBuf,
        /// What is there.
        known: String,
    },
    /// Ended by the observer.
    #[error("ended by a signal")]
    Interrupted,
    /// A file that is named cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl StudyError {
    pub(crate) fn expected(found: impl Into<String>, expected: impl Into<String>) -> StudyError {
        StudyError::Expected { found: found.into(), expected: expected.into() }
    }

    pub(crate) fn contradiction(text: impl Into<String>) -> StudyError {
        StudyError::Contradiction(text.into())
    }

    pub(crate) fn of(self, of: impl Into<String>) -> StudyError {
        StudyError::Of { of: of.into(), error: Box::new(self) }
    }

    pub(crate) fn at(self, path: &Path, line: usize) -> StudyError {
        StudyError::Line { path: path.to_owned(), line, error: Box::new(self) }
    }
}

/// Refuses a study of which one process asks for something else than the first one; `mine` is all that this one asks
/// for.
pub(crate) fn all_the_same(processes: &Processes, mine: &str) -> Result<(), StudyError> {
    let all = processes.gather(&String::from(mine))?;
    match all.iter().position(|other| *other != all[0]) {
        Some(other) => {
            let why = format!("process {other} simulates something else than process 0: all need the same options and machine file");
            Err(StudyError::Contradiction(why))
        }
        None => Ok(()),
    }
}
