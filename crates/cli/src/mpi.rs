//! How the processes of a simulation talk: over MPI.

use crate::failure::Failure;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use narrows_fabric::parallel::{Exchange, ExchangeError};

/// MPI, until it is dropped.
pub struct Mpi {
    _universe: Universe,
}

impl Mpi {
    /// Begins; the launcher speaks of `size` processes.
    ///
    /// # Errors
    /// This is another MPI than the launcher's, or it cannot be called from threads.
    pub fn start(size: u32) -> Result<Mpi, Failure> {
        // Whichever thread ends a window calls MPI, one at a time.
        let begun = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, threading) = begun.ok_or_else(|| Failure::from(String::from("MPI was started before")))?;
        let found = universe.world().size() as u32;
        if found != size {
            let why = "this narrows is built for another MPI: make build-mpi MPICC=...";
            return Err(format!("mpirun started {size} processes, but MPI knows of {found}: {why}").into());
        }
        if threading < Threading::Serialized {
            return Err(String::from("this MPI has no MPI_THREAD_SERIALIZED, which processes of a simulation need").into());
        }
        Ok(Mpi { _universe: universe })
    }

    /// All processes.
    pub fn world(&self) -> World {
        let world = SimpleCommunicator::world();
        World { process: world.rank() as usize, processes: world.size() as usize }
    }
}

/// MPI_COMM_WORLD.
#[derive(Debug)]
pub struct World {
    process: usize,
    processes: usize,
}

/// Looks so often without giving up the core: some ten microseconds, which is what a window takes where all have cores.
const LOOKS: u32 = 100;

/// The next message of a process. MPI's own waiting keeps the core, which another process of the simulation, or its
/// threads, may need.
fn hear(world: &SimpleCommunicator, from: usize) -> Vec<u8> {
    let from = world.process_at_rank(from as i32);
    let mut looks = 0;
    loop {
        if let Some(message) = from.immediate_matched_probe() {
            return message.matched_receive_vec().0;
        }
        if looks < LOOKS {
            looks += 1;
        } else {
            std::thread::yield_now();
        }
    }
}

impl Exchange for World {
    fn process(&self) -> u32 {
        self.process as u32
    }

    fn processes(&self) -> u32 {
        self.processes as u32
    }

    fn exchange(&self, messages: &mut [Vec<u8>]) -> Result<(), ExchangeError> {
        if let Some(message) = messages.iter().find(|message| i32::try_from(message.len()).is_err()) {
            return Err(ExchangeError::TooLong(message.len()));
        }
        let world = SimpleCommunicator::world();
        let others = (1..self.processes).map(|step| (self.process + step) % self.processes);
        let heard: Vec<(usize, Vec<u8>)> = mpi::request::scope(|scope| {
            let send = |to: usize| world.process_at_rank(to as i32).immediate_send(scope, &messages[to][..]);
            let sent: Vec<_> = others.clone().map(send).collect();
            let heard = others.clone().map(|from| (from, hear(&world, from))).collect();
            for request in sent {
                request.wait();
            }
            heard
        });
        heard.into_iter().for_each(|(from, message)| messages[from] = message);
        Ok(())
    }
}
