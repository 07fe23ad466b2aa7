//! How commands end: an exit code, or why there is no result.

use crate::processes;
use narrows_fabric::parallel::ProcessError;
use narrows_launch::LaunchError;
use narrows_machine::MachineError;
use narrows_output::{OutputError, complain, exit};
use narrows_replay::ReplayError;
use narrows_results::TableError;
use narrows_study::StudyError;
use narrows_trace::TraceError;
use narrows_traffic::TrafficError;
use std::process::ExitCode;

/// Why a command ends early.
#[derive(Debug)]
pub struct Failure {
    /// One of [`exit`].
    pub code: u8,
    /// What to tell.
    pub message: String,
}

/// Wrong arguments, or a file that cannot be read: most errors are of this kind, and many libraries tell them as text.
impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { code: exit::REFUSED, message }
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Failure {
        Failure::from(error.to_string())
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Failure {
        Failure::from(error.to_string())
    }
}

impl From<&OutputError> for Failure {
    fn from(error: &OutputError) -> Failure {
        Failure { code: exit::UNWRITTEN, message: error.to_string() }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        Failure::from(&error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Failure {
        Failure { code: exit::UNWRITTEN, message: error.to_string() }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        match error {
            TraceError::Output(error) => Failure::from(error),
            error => Failure::from(error.to_string()),
        }
    }
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Failure {
        match &error {
            ProcessError::Failed { code, .. } => Failure { code: *code, message: error.to_string() },
            _ => Failure::from(error.to_string()),
        }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Failure {
        match error {
            StudyError::Trace(error) => Failure::from(error),
            StudyError::Output(error) => Failure::from(error),
            StudyError::Interrupted => Failure { code: exit::INTERRUPTED, message: error.to_string() },
            StudyError::Processes(error)
            | StudyError::Traffic(TrafficError::Processes(error))
            | StudyError::Replay(ReplayError::Processes(error)) => Failure::from(error),
            error => Failure::from(error.to_string()),
        }
    }
}

/// The exit code of the process; tells what went wrong. Of several processes the first one does both: a launcher that
/// sees another one fail ends the first one before it has told anything.
pub fn end(result: Result<u8, Failure>) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|failure| {
        if !processes::speaks() {
            return exit::DONE;
        }
        complain!("{}", failure.message);
        failure.code
    }))
}
