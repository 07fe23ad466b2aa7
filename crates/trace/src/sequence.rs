//! Programs of calls that block or not, as operations with dependencies.

use crate::TraceError;
use crate::operation::{Dependency, Kind, Operation};
use crate::spool::Spool;
use narrows_units::SimTime;

/// Takes operations.
pub trait Sink {
    /// Appends an operation of a rank; its number.
    ///
    /// # Errors
    /// It cannot be kept.
    fn push(&mut self, rank: u32, operation: &Operation, after: &[Dependency]) -> Result<u64, TraceError>;
}

impl Sink for Spool {
    fn push(&mut self, rank: u32, operation: &Operation, after: &[Dependency]) -> Result<u64, TraceError> {
        Spool::push(self, rank, operation, after)
    }
}

/// One rank of a program that is written call by call.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// What the next operation waits for.
    after: Vec<Dependency>,
    /// Computing since the last operation.
    work: SimTime,
    /// Operations whose end is waited for together with that of the next call.
    joined: Vec<u64>,
}

impl Sequence {
    /// A blocking call: what follows waits for its end. Its number.
    ///
    /// # Errors
    /// The sink cannot keep it.
    pub fn call(&mut self, rank: u32, sink: &mut impl Sink, kind: Kind) -> Result<u64, TraceError> {
        let number = self.push(rank, sink, Operation::new(kind))?;
        self.after.push(Dependency::done(number));
        self.after.extend(self.joined.drain(..).map(Dependency::done));
        Ok(number)
    }

    /// A call that returns at once: what follows waits for its start. Its number, for [`Sequence::wait`].
    ///
    /// # Errors
    /// The sink cannot keep it.
    pub fn begin(&mut self, rank: u32, sink: &mut impl Sink, kind: Kind) -> Result<u64, TraceError> {
        let number = self.push(rank, sink, Operation::new(kind))?;
        self.after.push(Dependency::started(number));
        Ok(number)
    }

    /// Computing on a unit beside the core, which goes on. Its number, for [`Sequence::wait`].
    ///
    /// # Errors
    /// The sink cannot keep it.
    pub fn beside(&mut self, rank: u32, sink: &mut impl Sink, unit: u8, duration: SimTime) -> Result<u64, TraceError> {
        let number = self.push(rank, sink, Operation { cpu: unit, ..Operation::new(Kind::Compute { duration }) })?;
        self.after.push(Dependency::started(number));
        Ok(number)
    }

    /// Computing; joined with what was computed since the last call.
    pub fn compute(&mut self, duration: SimTime) {
        self.work += duration;
    }

    /// What follows waits for the end of an operation.
    ///
    /// # Errors
    /// The sink cannot keep it.
    pub fn wait(&mut self, rank: u32, sink: &mut impl Sink, number: u64) -> Result<(), TraceError> {
        // What was computed before the wait is not computed after it.
        self.flush(rank, sink)?;
        if !self.after.contains(&Dependency::done(number)) {
            self.after.push(Dependency::done(number));
        }
        Ok(())
    }

    /// What follows the next call waits for the end of an operation: the two are one call.
    pub fn later(&mut self, number: u64) {
        self.joined.push(number);
    }

    /// The program is over.
    ///
    /// # Errors
    /// The sink cannot keep it.
    pub fn end(&mut self, rank: u32, sink: &mut impl Sink) -> Result<(), TraceError> {
        self.flush(rank, sink)
    }

    fn push(&mut self, rank: u32, sink: &mut impl Sink, operation: Operation) -> Result<u64, TraceError> {
        self.flush(rank, sink)?;
        let number = sink.push(rank, &operation, &self.after)?;
        self.after.clear();
        Ok(number)
    }

    fn flush(&mut self, rank: u32, sink: &mut impl Sink) -> Result<(), TraceError> {
        let duration = std::mem::take(&mut self.work);
        if duration > SimTime::ZERO {
            let number = sink.push(rank, &Operation::new(Kind::Compute { duration }), &self.after)?;
            self.after.clear();
            self.after.push(Dependency::done(number));
        }
        Ok(())
    }
}
