//! miniEM's linear solver as the slides "DPU as data-movement accelerator" (DMX) describe it: an iteration smooths,
//! forms the residual, has one V-cycle for each of two smaller problems, and smooths again.
//!
//! * `miniem-like`: all ranks are hosts, and the two V-cycles follow each other.
//! * `miniem-dpu`: the last third of the ranks are those of DPUs. They have the V-cycle of A22, the smaller one, while
//!   the hosts have that of A_H.
//!
//! `examples/miniem.c` is a program of this shape. What the source leaves open is in docs/machines/dpu.md.

use super::{Script, grid};
use crate::operation::{Collective, CollectiveCall, Kind};
use crate::{Communicators, TraceError};
use narrows_units::{Bytes, SimTime};

/// The fine matrix at a size of 120: that of DMX's product of a matrix and a vector. It grows with the third power.
const FINE: Matrix = Matrix { rows: 163_617, values: 13_662_045 };
const FINE_SIZE: u64 = 120;
/// The matrices of the two V-cycles, at each size.
const A_H: Matrix = Matrix { rows: 4_065, values: 346_665 };
const A_22: Matrix = Matrix { rows: 17_261, values: 248_581 };
/// A value and its index, read at the share of a core: two sockets of 76.8 GB/s for 32 cores (DMX), in ps.
const VALUE_PS: u64 = 12 * 10_000 / 48;
/// Passes over a matrix: a smoother goes up and down, a residual once.
const SMOOTHER: u64 = 2;
const RESIDUAL: u64 = 1;
/// Rows of the coarsest problem: one for so many (MueLu's aggregates of 3 x 3 x 3).
const AGGREGATE: u64 = 27;
/// Its direct solve by one rank, unless the user says otherwise: our own choice. The figure `miniem` fits it.
const COARSE: SimTime = SimTime::from_us(100);
/// What ranks of DPUs send and get.
const TAG: u32 = 7;

#[derive(Clone, Copy, Debug)]
struct Matrix {
    rows: u64,
    values: u64,
}

/// Ranks that share the rows of a matrix: from where, and in which grid. Their communicator.
#[derive(Clone, Copy, Debug)]
struct Team {
    first: u32,
    grid: [u32; 3],
    communicator: u32,
}

impl Team {
    fn new(first: u32, ranks: u32, communicator: u32) -> Team {
        Team { first, grid: grid(ranks), communicator }
    }

    fn ranks(&self) -> u64 {
        self.grid.iter().map(|side| u64::from(*side)).product()
    }

    /// The neighbours across the faces of a rank's part, in a grid that ends at its edges.
    fn neighbours(&self, rank: u32) -> Vec<u32> {
        let ([x, y, _], place) = (self.grid, rank - self.first);
        let here = [place % x, place / x % y, place / x / y];
        let strides = [1, x, x * y];
        let mut found = Vec::with_capacity(6);
        for ((at, side), stride) in here.into_iter().zip(self.grid).zip(strides) {
            found.extend((at > 0).then(|| rank - stride));
            found.extend((at + 1 < side).then(|| rank + stride));
        }
        found
    }
}

/// How many of so many ranks are hosts.
fn hosts(ranks: u32) -> u32 {
    ranks - ranks / 3
}

/// Hosts, and ranks of DPUs.
pub(super) fn communicators(ranks: u32) -> Communicators {
    let mut all = Communicators::world(ranks);
    let (first, second) = (0..hosts(ranks), hosts(ranks)..ranks);
    for members in [first, second] {
        all.add(members.collect());
    }
    all
}

/// The ranks of an iteration without DPUs, or with them: hosts, and the others.
fn teams(ranks: u32) -> (Team, Team) {
    let hosts = hosts(ranks);
    (Team::new(0, hosts, 1), Team::new(hosts, ranks - hosts, 2))
}

/// The rank of a DPU that works for a host: hosts in a row have the same.
fn partner(host: u32, hosts: Team, dpus: Team) -> u32 {
    dpus.first + (u64::from(host) * dpus.ranks() / hosts.ranks()) as u32
}

impl Script<'_> {
    /// An iteration without DPUs.
    pub(super) fn miniem(&mut self) -> Result<(), TraceError> {
        let team = Team::new(0, self.all(), 0);
        self.residual(team)?;
        self.cycle(A_22, team)?;
        self.cycle(A_H, team)?;
        self.correct(team)
    }

    /// An iteration with them.
    pub(super) fn miniem_dpu(&mut self) -> Result<(), TraceError> {
        let (hosts, dpus) = teams(self.all());
        if self.rank >= dpus.first { self.dpu(hosts, dpus) } else { self.host(hosts, dpus) }
    }

    fn host(&mut self, hosts: Team, dpus: Team) -> Result<(), TraceError> {
        let partner = partner(self.rank, hosts, dpus);
        let part = Bytes(8 * A_22.rows / hosts.ranks());
        self.residual(hosts)?;
        let answer = Kind::Receive { from: Some(partner), bytes: part, tag: Some(TAG) };
        let answer = self.sequence.begin(self.rank, self.ahead, answer)?;
        self.sequence.call(self.rank, self.ahead, Kind::Send { to: partner, bytes: part, tag: TAG })?;
        self.cycle(A_H, hosts)?;
        self.sequence.wait(self.rank, self.ahead, answer)?;
        self.correct(hosts)
    }

    fn dpu(&mut self, hosts: Team, dpus: Team) -> Result<(), TraceError> {
        let part = Bytes(8 * A_22.rows / hosts.ranks());
        let partners: Vec<u32> = (0..dpus.first).filter(|host| partner(*host, hosts, dpus) == self.rank).collect();
        for &from in &partners {
            self.sequence.call(self.rank, self.ahead, Kind::Receive { from: Some(from), bytes: part, tag: Some(TAG) })?;
        }
        self.cycle(A_22, dpus)?;
        for to in partners {
            self.sequence.call(self.rank, self.ahead, Kind::Send { to, bytes: part, tag: TAG })?;
        }
        Ok(())
    }

    /// Smooths, and forms the residual.
    fn residual(&mut self, team: Team) -> Result<(), TraceError> {
        let fine = self.fine();
        self.pass(fine, SMOOTHER, team)?;
        self.pass(fine, RESIDUAL, team)
    }

    /// Smooths again; two dot products of the conjugate gradients around all.
    fn correct(&mut self, team: Team) -> Result<(), TraceError> {
        let fine = self.fine();
        self.pass(fine, SMOOTHER, team)?;
        for _ in 0..2 {
            self.together(Collective::Allreduce, team, 8, 8)?;
        }
        Ok(())
    }

    /// Two levels: smooth, residual, a direct solve by the first rank, smooth.
    fn cycle(&mut self, matrix: Matrix, team: Team) -> Result<(), TraceError> {
        let part = 8 * matrix.rows / AGGREGATE / team.ranks();
        let all = part * team.ranks();
        self.pass(matrix, SMOOTHER, team)?;
        self.pass(matrix, RESIDUAL, team)?;
        let root = self.rank == team.first;
        self.together(Collective::Gather, team, part, if root { all } else { 0 })?;
        if root {
            self.compute(COARSE);
        }
        self.together(Collective::Scatter, team, if root { all } else { 0 }, part)?;
        self.pass(matrix, SMOOTHER, team)
    }

    /// Values of the neighbours, then so many passes over the rows of this rank.
    fn pass(&mut self, matrix: Matrix, passes: u64, team: Team) -> Result<(), TraceError> {
        let rows = matrix.rows / team.ranks();
        let face = 8 * (rows as f64).powf(2.0 / 3.0).ceil() as u64;
        let partners: Vec<_> = team.neighbours(self.rank).into_iter().map(|other| (other, other, face, 0)).collect();
        self.exchange(&partners)?;
        self.sequence.compute(SimTime(passes * matrix.values / team.ranks() * VALUE_PS));
        Ok(())
    }

    fn together(&mut self, operation: Collective, team: Team, send: u64, receive: u64) -> Result<(), TraceError> {
        let (send, receive, element) = (Bytes(send), Bytes(receive), Bytes(0));
        let call = CollectiveCall { operation, communicator: team.communicator, root: 0, send, receive, element };
        self.sequence.call(self.rank, self.ahead, Kind::Collective(call)).map(drop)
    }

    /// The fine matrix of this size.
    fn fine(&self) -> Matrix {
        let growth = (self.cells[0] as f64 / FINE_SIZE as f64).powi(3);
        let scaled = |number: u64| (number as f64 * growth).round() as u64;
        Matrix { rows: scaled(FINE.rows), values: scaled(FINE.values) }
    }

    fn all(&self) -> u32 {
        self.dimensions.iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::super::tests::count;
    use super::*;

    #[test]
    fn the_last_third_are_dpus() {
        assert_eq!((hosts(3), hosts(96), hosts(384)), (2, 64, 256));
        let (hosts, dpus) = teams(12);
        assert_eq!((hosts.grid, dpus.first, dpus.grid), ([2, 2, 2], 8, [2, 2, 1]));
        assert_eq!([0, 1, 2, 7].map(|host| partner(host, hosts, dpus)), [8, 8, 9, 11]);
        assert_eq!((hosts.neighbours(0), dpus.neighbours(8), dpus.neighbours(11)), (vec![1, 2, 4], vec![9, 10], vec![10, 9]));
    }

    /// Nine halos of all hosts: three passes over each of three matrices. With DPUs six, three of the DPUs, and what
    /// goes to them and back. Two dot products, a gather and a scatter of each cycle.
    #[test]
    fn messages_of_both() {
        // Pairs of neighbours in grids of 3 x 2 x 2, 2 x 2 x 2 and 2 x 2 x 1 ranks, both ways.
        let (twelve, eight, four) = (2 * 20, 2 * 12, 2 * 4);
        let (alone, _) = count(Pattern::MiniemLike, 12, 2);
        assert_eq!((alone.messages, alone.calls), (2 * 9 * twelve, 2 * 12 * 6));
        let (both, _) = count(Pattern::MiniemDpu, 12, 2);
        assert_eq!((both.messages, both.calls), (2 * (6 * eight + 3 * four + 2 * 8), 2 * (8 * 4 + 4 * 2)));
    }
}
