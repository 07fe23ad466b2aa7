//! Sums over the operations of a program.

use crate::TraceError;
use crate::operation::{Kind, Operation, Program};
use narrows_units::Bytes;

/// Sums over a program, of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sends.
    pub messages: u64,
    /// Payload of sends.
    pub bytes: u128,
    /// Receives.
    pub receives: u64,
    /// Parts in collectives.
    pub calls: u64,
    /// Computing and delays, in picoseconds.
    pub computing: u128,
    /// All operations.
    pub operations: u64,
}

impl Totals {
    /// Takes a program to its end.
    ///
    /// # Errors
    /// An operation cannot be read.
    pub fn of(program: &mut dyn Program) -> Result<Totals, TraceError> {
        let (mut totals, mut after) = (Totals::default(), Vec::new());
        for rank in 0..program.ranks() {
            while let Some(operation) = program.next(rank, &mut after)? {
                totals.add(&operation);
            }
        }
        Ok(totals)
    }

    /// Takes an operation in.
    pub fn add(&mut self, operation: &Operation) {
        self.operations += 1;
        self.computing += u128::from(operation.delay.0);
        match operation.kind {
            Kind::Compute { duration } => self.computing += u128::from(duration.0),
            Kind::Send { bytes: Bytes(bytes), .. } => {
                self.messages += 1;
                self.bytes += u128::from(bytes);
            }
            Kind::Receive { .. } => self.receives += 1,
            Kind::Collective(_) => self.calls += 1,
        }
    }
}
