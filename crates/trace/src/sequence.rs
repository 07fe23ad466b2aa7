//! Programs of calls that block or not, as operations with dependencies.

use crate::TraceError;
use crate::operation::{Dependency, Kind, Operation};
use crate::spool::Spool;
use narrows_units::SimTime;

/// One rank of a program that is written call by call.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// What the next operation waits for.
    after: Vec<Dependency>,
    /// Computing since the last operation.
    work: SimTime,
}

impl Sequence {
    /// A blocking call: what follows waits for its end. Its number.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn call(&mut self, rank: u32, spool: &mut Spool, kind: Kind) -> Result<u64, TraceError> {
        let number = self.push(rank, spool, kind)?;
        self.after.push(Dependency::done(number));
        Ok(number)
    }

    /// A call that returns at once: what follows waits for its start. Its number, for [`Sequence::wait`].
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn begin(&mut self, rank: u32, spool: &mut Spool, kind: Kind) -> Result<u64, TraceError> {
        let number = self.push(rank, spool, kind)?;
        self.after.push(Dependency::started(number));
        Ok(number)
    }

    /// Computing. Joined with what was computed before, if there was no call in between and no wait.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn compute(&mut self, duration: SimTime) {
        self.work += duration;
    }

    /// What follows waits for the end of an operation.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn wait(&mut self, rank: u32, spool: &mut Spool, number: u64) -> Result<(), TraceError> {
        // What was computed before the wait is not computed after it.
        self.flush(rank, spool)?;
        if !self.after.contains(&Dependency::done(number)) {
            self.after.push(Dependency::done(number));
        }
        Ok(())
    }

    /// The program is over.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn end(&mut self, rank: u32, spool: &mut Spool) -> Result<(), TraceError> {
        self.flush(rank, spool)
    }

    fn push(&mut self, rank: u32, spool: &mut Spool, kind: Kind) -> Result<u64, TraceError> {
        self.flush(rank, spool)?;
        let number = spool.push(rank, &Operation::new(kind), &self.after)?;
        self.after.clear();
        Ok(number)
    }

    fn flush(&mut self, rank: u32, spool: &mut Spool) -> Result<(), TraceError> {
        let duration = std::mem::take(&mut self.work);
        if duration > SimTime::ZERO {
            let number = spool.push(rank, &Operation::new(Kind::Compute { duration }), &self.after)?;
            self.after.clear();
            self.after.push(Dependency::done(number));
        }
        Ok(())
    }
}
