use narrows_fabric::ConfigError;
use narrows_fabric::parallel::{ProcessError, Processes};
use narrows_machine::{MachineError, RulesError};
use narrows_output::OutputError;
use narrows_replay::GraphError;
use narrows_topology::TopologyError;
use narrows_trace::TraceError;
use narrows_traffic::TrafficError;
use std::path::PathBuf;

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
        error: GraphError,
    },
    /// A trace does not fit together, on a machine.
    #[error(transparent)]
    Replay(#[from] GraphError),
    /// Rules of collectives.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The host, the launcher or the program's MPI lacks something.
    #[error("{0}")]
    Host(String),
    /// The ranks find no place.
    #[error("{0}")]
    Placement(String),
    /// A physical layer and values that cannot be.
    #[error(transparent)]
    Phy(#[from] narrows_phy::study::TrialError),
    /// A file that it was asked to write.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Values that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A file that is named cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
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
