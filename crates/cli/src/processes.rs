//! Processes that `mpirun` has started together: one simulation, of which the first process speaks.

use crate::failure::Failure;
use narrows_fabric::parallel::Processes;

/// The number of this process and how many there are, as the launchers of Open MPI and of MPICH and its relatives
/// (Hydra, PMI) tell every process.
fn launched() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let names = [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")];
    names.iter().find_map(|(rank, size)| Some((number(rank)?, number(size)?))).filter(|&(_, size)| size > 1)
}

/// Commands whose work processes share.
const SHARED: [&str; 2] = ["traffic", "replay"];

/// This process tells what there is to tell. Of several that share the work of a command the others are silent.
pub fn speaks() -> bool {
    let shares = std::env::args().nth(1).is_some_and(|command| SHARED.contains(&command.as_str()));
    !shares || launched().is_none_or(|(process, _)| process == 0)
}

/// Runs a command, in all processes if there are several. An error in one of them ends all of them.
pub fn together(command: impl FnOnce(Option<&Processes>) -> Result<u8, Failure>) -> Result<u8, Failure> {
    match launched() {
        None => command(None),
        Some((_, size)) => several(size, command),
    }
}

/// One process for a command that does not share its work.
pub fn alone(what: &str) -> Result<(), Failure> {
    match launched() {
        None => Ok(()),
        Some((_, size)) => Err(format!("mpirun started {size} processes, but {what} runs in one: start it without mpirun").into()),
    }
}

#[cfg(not(feature = "mpi"))]
fn several(size: u32, _: impl FnOnce(Option<&Processes>) -> Result<u8, Failure>) -> Result<u8, Failure> {
    let what = "but this narrows is built without MPI: `make build-mpi` builds one that shares the work (docs/how-to/mpi.md)";
    Err(format!("mpirun started {size} processes, {what}").into())
}

#[cfg(feature = "mpi")]
fn several(size: u32, command: impl FnOnce(Option<&Processes>) -> Result<u8, Failure>) -> Result<u8, Failure> {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let mpi = crate::mpi::Mpi::start(size)?;
    let processes = Processes::new(Box::new(mpi.world()));
    let done = catch_unwind(AssertUnwindSafe(|| command(Some(&processes))));
    // The panic has said what it is.
    let done = done.unwrap_or_else(|_| Err(Failure { code: 101, message: String::from("a fault of narrows ended this process") }));
    // Nobody leaves before all are done: the first one may still find that a result cannot be written.
    let done = done.and_then(|code| Ok(processes.gather(&code).map(|_| code)?));
    done.inspect_err(|failure| processes.fail(failure.code, &failure.message))
}
