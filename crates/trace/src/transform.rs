//! Programs made of programs: other sizes and times, other names.

use crate::operation::{Dependency, Kind, Operation, Order, Program};
use crate::{Communicators, TraceError};
use narrows_output::Meter;
use narrows_units::{Bytes, SimTime};
use std::sync::Arc;

/// A program that counts the operations that are taken from it.
#[derive(Debug)]
pub struct Metered<P> {
    program: P,
    meter: Arc<Meter>,
}

impl<P: Program> Metered<P> {
    /// The same program; `meter` counts its operations.
    pub fn new(program: P, meter: Arc<Meter>) -> Metered<P> {
        Metered { program, meter }
    }
}

impl<P: Program> Program for Metered<P> {
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
        self.meter.add(u64::from(operation.is_some()));
        Ok(operation)
    }
}

/// A program with its computing times and message sizes multiplied.
#[derive(Debug)]
pub struct Scaled<P> {
    program: P,
    compute: f64,
    bytes: f64,
}

impl<P: Program> Scaled<P> {
    /// Computing times (delays too) times `compute`, sizes times `bytes`; both not negative. Results are rounded; a
    /// size above 0 stays above 0 unless the factor is 0.
    pub fn new(program: P, compute: f64, bytes: f64) -> Scaled<P> {
        Scaled { program, compute, bytes }
    }

    fn time(&self, time: SimTime) -> SimTime {
        if self.compute == 1.0 { time } else { SimTime((time.0 as f64 * self.compute).round() as u64) }
    }

    fn size(&self, Bytes(bytes): Bytes) -> Bytes {
        if self.bytes == 1.0 || bytes == 0 || self.bytes == 0.0 {
            return Bytes(if self.bytes == 0.0 { 0 } else { bytes });
        }
        Bytes(((bytes as f64 * self.bytes).round() as u64).max(1))
    }
}

impl<P: Program> Program for Scaled<P> {
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
        let Some(mut operation) = self.program.next(rank, after)? else { return Ok(None) };
        operation.delay = self.time(operation.delay);
        operation.kind = match operation.kind {
            Kind::Compute { duration } => Kind::Compute { duration: self.time(duration) },
            Kind::Send { to, bytes, tag } => Kind::Send { to, bytes: self.size(bytes), tag },
            Kind::Receive { from, bytes, tag } => Kind::Receive { from, bytes: self.size(bytes), tag },
            Kind::Collective(mut call) => {
                // Totals of n equal parts stay such.
                let n = u64::from(self.program.communicators().size(call.communicator).unwrap_or(1));
                let scale =
                    |Bytes(total)| if total.is_multiple_of(n) { Bytes(n * self.size(Bytes(total / n)).0) } else { self.size(Bytes(total)) };
                use crate::operation::Collective::*;
                (call.send, call.receive) = match call.operation {
                    Gather | Allgather => (self.size(call.send), scale(call.receive)),
                    Scatter | ReduceScatterBlock => (scale(call.send), self.size(call.receive)),
                    Alltoall => (scale(call.send), scale(call.receive)),
                    _ => (self.size(call.send), self.size(call.receive)),
                };
                Kind::Collective(call)
            }
        };
        Ok(Some(operation))
    }
}

/// A program whose ranks and tags have other numbers.
///
/// Ranks are exchanged at random, tags by a secret mapping of 31-bit numbers onto themselves. Sizes, times and the
/// pattern of who talks to whom stay: they are what the trace is for. Positions in communicators stay too.
#[derive(Debug)]
pub struct Anonymous<P> {
    program: P,
    communicators: Communicators,
    /// New number of each rank, and the reverse.
    new: Vec<u32>,
    old: Vec<u32>,
    keys: [u64; 4],
}

impl<P: Program> Anonymous<P> {
    /// The seed decides on the numbers.
    pub fn new(program: P, seed: u64) -> Anonymous<P> {
        let ranks = program.ranks();
        let mut random = narrows_engine::stream(seed, "anonymise", 0);
        let mut old: Vec<u32> = (0..ranks).collect();
        random.shuffle(&mut old);
        let mut new = vec![0; old.len()];
        for (number, &rank) in old.iter().enumerate() {
            new[rank as usize] = number as u32;
        }
        let keys = std::array::from_fn(|_| random.next_u64());
        let known = program.communicators();
        let mut communicators = Communicators::world(ranks);
        for number in 1..known.count() {
            communicators.add(known.members(number).map(|rank| new[rank as usize]).collect());
        }
        Anonymous { program, communicators, new, old, keys }
    }

    /// A Feistel network on 32 bits, walked until the result has 31 if the tag has (and is not GOAL's "any"): one to
    /// one, without a table.
    fn tag(&self, tag: u32) -> u32 {
        let mut value = tag;
        loop {
            for key in self.keys {
                let (high, low) = (value >> 16, value & 0xffff);
                let mixed = (u64::from(low) ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
                value = low << 16 | (high ^ mixed as u32);
            }
            if value >> 31 == tag >> 31 && value != u32::MAX {
                return value;
            }
        }
    }
}

impl<P: Program> Program for Anonymous<P> {
    fn ranks(&self) -> u32 {
        self.program.ranks()
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        self.program.order()
    }

    fn mpi(&self) -> Option<&str> {
        self.program.mpi()
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        let Some(mut operation) = self.program.next(self.old[rank as usize], after)? else { return Ok(None) };
        let new = |rank: u32| self.new.get(rank as usize).copied().unwrap_or(rank);
        operation.kind = match operation.kind {
            Kind::Send { to, bytes, tag } => Kind::Send { to: new(to), bytes, tag: self.tag(tag) },
            Kind::Receive { from, bytes, tag } => Kind::Receive { from: from.map(new), bytes, tag: tag.map(|tag| self.tag(tag)) },
            // The root of the world is a rank; other roots are positions.
            Kind::Collective(mut call) if call.communicator == 0 => {
                call.root = if call.operation.has_root() { new(call.root) } else { 0 };
                Kind::Collective(call)
            }
            kind => kind,
        };
        Ok(Some(operation))
    }
}
