//! What a program may ask for at most: the sums of its times and sizes stay within what a simulation holds.

use crate::operation::{Dependency, Kind, Operation, Order, Program};
use crate::{Communicators, TraceError};
use narrows_units::{Bytes, Excess, SimTime};

/// Looks at the operations of all ranks, in the order of each rank.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Computing and delays of each rank so far. Delays may overlap, so the sum can be more than the rank takes; but
    /// 200 days of them are far beyond any trace.
    work: Vec<SimTime>,
    /// Operations of each rank so far.
    operations: Vec<u64>,
}

impl Limits {
    pub(crate) fn new(ranks: u32) -> Limits {
        Limits { work: vec![SimTime::ZERO; ranks as usize], operations: vec![0; ranks as usize] }
    }

    /// Operations of a rank so far.
    pub(crate) fn operations(&self, rank: u32) -> u64 {
        self.operations[rank as usize]
    }

    /// Takes in the next operation of a rank.
    pub(crate) fn add(&mut self, rank: u32, operation: &Operation) -> Result<(), TraceError> {
        let number = self.operations[rank as usize];
        let wrong = |excess| TraceError::Excess { rank, operation: number, excess };
        let work = &mut self.work[rank as usize];
        *work = add_work(*work, operation).map_err(wrong)?;
        check_size(operation).map_err(wrong)?;
        self.operations[rank as usize] += 1;
        Ok(())
    }
}

/// A program whose operations are looked at as they are taken: for those that no reader has looked at.
pub struct Limited<'a> {
    program: &'a mut dyn Program,
    limits: Limits,
}

impl<'a> Limited<'a> {
    /// The same program, whose `next` is also an error at an operation that asks for too much.
    pub fn new(program: &'a mut dyn Program) -> Limited<'a> {
        Limited { limits: Limits::new(program.ranks()), program }
    }
}

impl Program for Limited<'_> {
    fn ranks(&self) -> u32 {
        self.program.ranks()
    }

    fn communicators(&self) -> &Communicators {
        self.program.communicators()
    }

    fn order(&self) -> Order {
        self.program.order()
    }

    fn mpi(&self) -> Option<&str> {
        self.program.mpi()
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        let operation = self.program.next(rank, after)?;
        operation.iter().try_for_each(|operation| self.limits.add(rank, operation))?;
        Ok(operation)
    }
}

/// The computing of a rank with that of one more operation.
pub(crate) fn add_work(work: SimTime, operation: &Operation) -> Result<SimTime, Excess> {
    let work = work.checked_add(operation.delay)?;
    match operation.kind {
        Kind::Compute { duration } => work.checked_add(duration),
        _ => Ok(work),
    }
}

/// Whether the sizes of an operation are ones that a replay takes.
pub(crate) fn check_size(operation: &Operation) -> Result<(), Excess> {
    let bytes = match operation.kind {
        Kind::Compute { .. } => Bytes(0),
        Kind::Send { bytes, .. } | Kind::Receive { bytes, .. } => bytes,
        Kind::Collective(call) => call.send.max(call.receive),
    };
    if bytes > Bytes::MESSAGE_MAX { Err(Excess::Message) } else { Ok(()) }
}
