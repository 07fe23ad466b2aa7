//! Programs made up: patterns that real ones have, at any scale.
//!
//! Operations come into being when they are asked for, a step of a rank at a time: nothing is kept.

mod miniem;
mod minimd;
mod nest;

use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::operation::{Collective, CollectiveCall, Dependency, Kind, Operation, Order, Program};
use crate::sequence::{Sequence, Sink};
use narrows_units::{Bytes, Excess, SimTime};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// The patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A 3-D grid of ranks, periodic: each exchanges `bytes` with its 6 neighbours, then computes.
    Halo3d,
    /// n^3 ranks: in each of 3 phases each exchanges with the n - 1 others of its row in one dimension; 3 n^3 (n - 1)
    /// messages.
    Fft3d,
    /// Computing, then an allreduce of `bytes`.
    AllreduceLoop,
    /// A broadcast of `bytes` from rank 0, then computing.
    Bcast,
    /// Molecular dynamics as the "melt" benchmark of LAMMPS does it.
    LammpsLike,
    /// Molecular dynamics as miniMD does it.
    MinimdLike,
    /// Spiking neurons as NEST simulates them: computing, then `bytes` from everybody to everybody.
    NestLike,
    /// Conjugate gradients with a multigrid preconditioner as HPCG does it.
    HpcgLike,
    /// Conjugate gradients without one as miniFE does it.
    MinifeLike,
    /// A product of matrices by Cannon's algorithm: n^2 ranks with blocks of all three, and an accelerator each, as on
    /// the MPSoCs of ExaNeSt.
    MatmulLike,
    /// Hydrodynamics on a cube of elements as LULESH does it: n^3 ranks, each with a cube of its own.
    LuleshLike,
    /// A solver for Maxwell's equations as miniEM has it: two V-cycles in an iteration.
    MiniemLike,
    /// The same with one of them on DPUs, which are the last third of the ranks.
    MiniemDpu,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 13] = [
        Pattern::Halo3d,
        Pattern::Fft3d,
        Pattern::AllreduceLoop,
        Pattern::Bcast,
        Pattern::LammpsLike,
        Pattern::MinimdLike,
        Pattern::NestLike,
        Pattern::HpcgLike,
        Pattern::MinifeLike,
        Pattern::MatmulLike,
        Pattern::LuleshLike,
        Pattern::MiniemLike,
        Pattern::MiniemDpu,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Halo3d => "halo3d",
            Pattern::Fft3d => "fft3d",
            Pattern::AllreduceLoop => "allreduce-loop",
            Pattern::Bcast => "bcast",
            Pattern::LammpsLike => "lammps-like",
            Pattern::MinimdLike => "minimd-like",
            Pattern::NestLike => "nest-like",
            Pattern::HpcgLike => "hpcg-like",
            Pattern::MinifeLike => "minife-like",
            Pattern::MatmulLike => "matmul-like",
            Pattern::LuleshLike => "lulesh-like",
            Pattern::MiniemLike => "miniem-like",
            Pattern::MiniemDpu => "miniem-dpu",
        }
    }

    /// The reverse of [`Pattern::name`].
    pub fn by_name(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Steps unless the user says otherwise.
    pub const fn steps(self) -> u32 {
        match self {
            Pattern::Halo3d
            | Pattern::AllreduceLoop
            | Pattern::HpcgLike
            | Pattern::MinifeLike
            | Pattern::LuleshLike
            | Pattern::NestLike
            | Pattern::MiniemLike
            | Pattern::MiniemDpu => 10,
            // in.lj.miniMD.32
            Pattern::MinimdLike => 100,
            Pattern::Fft3d | Pattern::MatmulLike => 1,
            // The experiment of RED-SEA D1.4, section 12.2.
            Pattern::Bcast => 100,
            // One rebuild of the neighbour lists in 20 steps, one line of output in 50.
            Pattern::LammpsLike => 50,
        }
    }

    /// Cells of a rank in each direction unless the user says otherwise: those of the program itself. None where the
    /// pattern has no cells to choose.
    const fn cells(self) -> Option<u32> {
        match self {
            // in.lj: a lattice of 20 cells with 4 atoms each.
            Pattern::LammpsLike => Some(20),
            // in.lj.miniMD.32, whose whole box it is.
            Pattern::MinimdLike => Some(32),
            Pattern::HpcgLike => Some(104),
            // 512^3 for 512 ranks, in ICS-FORTH's technical report 488, section 6.2.
            Pattern::MinifeLike => Some(64),
            // Our own choice: 4 MiB for each of the three blocks.
            Pattern::MatmulLike => Some(1024),
            Pattern::LuleshLike => Some(30),
            // Not of a rank, but the size of the problem.
            Pattern::MiniemLike | Pattern::MiniemDpu => Some(120),
            Pattern::Halo3d | Pattern::Fft3d | Pattern::AllreduceLoop | Pattern::Bcast | Pattern::NestLike => None,
        }
    }
}

/// Cells of a rank in each direction: `20`, or `128x256x128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells(pub [u32; 3]);

impl FromStr for Cells {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Cells, TraceError> {
        let sides: Vec<u32> = text.split('x').map_while(|side| side.parse().ok()).collect();
        match sides.as_slice() {
            [side] if !text.contains('x') => Ok(Cells([*side; 3])),
            [x, y, z] if text.matches('x').count() == 2 => Ok(Cells([*x, *y, *z])),
            _ => Err(expected("a number of cells, or one for each direction, such as 128x256x128").within(format!("\"{text}\""))),
        }
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [x, y, z] if x == y && y == z => write!(f, "{x}"),
            [x, y, z] => write!(f, "{x}x{y}x{z}"),
        }
    }
}

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Number of ranks.
    pub ranks: u32,
    /// Time steps, transforms, iterations.
    pub steps: u32,
    /// Bytes of a message ([`Pattern::Halo3d`], default 64 KiB), of a rank's part of the grid ([`Pattern::Fft3d`], 1
    /// MiB) or of the collective (allreduce 8 B, broadcast 1 MB, what goes from one rank to another in
    /// [`Pattern::NestLike`] 1 KiB). The other patterns have sizes of their own.
    pub bytes: Option<u64>,
    /// Cells of a rank ([`Pattern::LammpsLike`], default 20 in each direction, [`Pattern::MinimdLike`], 32,
    /// [`Pattern::HpcgLike`], 104, [`Pattern::MinifeLike`], 64, and [`Pattern::LuleshLike`], 30, which has cubes only).
    /// [`Pattern::MatmulLike`]: rows and columns of a rank's part of the product, and what is summed up for it at a time
    /// (1024 each).
    pub cells: Option<Cells>,
    /// Computing of a rank in one step; the default is the pattern's. Of [`Pattern::MiniemLike`] and
    /// [`Pattern::MiniemDpu`] that of the direct solves.
    pub compute: Option<SimTime>,
}

// LAMMPS, bench/in.lj and the logs beside it: face-centred cubic cells, reduced density, cutoff with skin.
const CELL_ATOMS: f64 = 4.0;
const DENSITY: f64 = 0.8442;
const GHOST_WIDTH: f64 = 2.8;
/// bench/log.6Oct16.lj.fixed.icc.1: 100 steps of 32,000 atoms in 2.26185 s on one core, per atom and step.
const ATOM_STEP_PS: f64 = 706_828.0;
/// Doubles per ghost atom: atom_vec_atomic (size_forward, size_reverse, size_border).
const FORWARD: u64 = 3;
const REVERSE: u64 = 3;
const BORDER: u64 = 6;
/// in.lj: neigh_modify every 20, thermo output each 50 (in.melt).
const REBUILD: u32 = 20;
const THERMO: u32 = 50;

/// HPCG: levels of its multigrid, each with half of the cells of the one above in each direction.
const HPCG_LEVELS: u32 = 4;
/// A row: 27 values of 8 B and indices of 4 B, read at 10 GB/s and core (our assumption; HPCG is bound by memory), in
/// ps.
const ROW_PS: u64 = 27 * 12 * 100;

/// miniFE: a row of the matrix as above, and 14 values of vectors (cg_solve.hpp: a product, two dot products, three
/// updates), at the same 10 GB/s.
const MINIFE_ROW_PS: u64 = (27 * 12 + 14 * 8) * 100;

/// ExaNeSt's accelerator of matrix products (ICS-FORTH's technical report 488, section 7): single precision, 512
/// multiplications and as many additions per cycle, tiles of 128 x 128 in about 4200 cycles (4096 without any loss) at
/// 300 MHz, so 14 us each.
const TILE: u64 = 128;
const TILE_PS: u64 = 4200 * 10_000 / 3;
/// Our own choice: what two AXI ports of 128 bit at 300 MHz read and write. The next two tiles are read while two are
/// multiplied; a tile of the product is written when it is complete, and nothing is multiplied then.
const TILE_BYTES_PER_S: u64 = 2 * 16 * 300_000_000;
/// The unit beside the core that it is.
const ACCELERATOR: u8 = 1;

/// Its time for a product of m x k and k x n values.
pub fn product_time([m, n, k]: [u64; 3]) -> SimTime {
    let tiles = |side: u64| side.div_ceil(TILE);
    let tile = narrows_units::ByteRate(TILE_BYTES_PER_S).time_for(Bytes(4 * TILE * TILE)).as_ps();
    let (complete, reads) = (tiles(m) * tiles(n), 2 * tile);
    let steps = complete * tiles(k);
    SimTime(reads + (steps - 1) * TILE_PS.max(reads) + TILE_PS + complete * tile)
}

/// LULESH: doubles per node of the forces, per node of positions and velocities, per element of the gradients of the
/// artificial viscosity (lulesh.cc, the calls of CommSend).
const FORCES: u64 = 3;
const MOTION: u64 = 6;
const GRADIENTS: u64 = 3;
/// 18 s for 30^3 elements on one node (S4BXI paper, Table I, AMD EPYC 7763) in the 932 steps that LULESH prints.
const ELEMENT_STEP_PS: u64 = 715_000;
/// More cells in each direction would make messages that no formula here was thought for.
const CELLS_MAX: u32 = 4096;

/// A program of one of the patterns.
#[derive(Debug)]
pub struct Generated {
    pattern: Pattern,
    parameters: Parameters,
    dimensions: [u32; 3],
    /// Of a rank in each direction, for the patterns that have them.
    cells: [u64; 3],
    communicators: Communicators,
    ranks: Vec<State>,
}

#[derive(Debug, Default)]
struct State {
    step: u32,
    sequence: Sequence,
    ahead: Ahead,
}

/// Operations that are made and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    operations: VecDeque<(Operation, u32)>,
    after: VecDeque<Dependency>,
    made: u64,
}

impl Ahead {
    /// The next operation, if there is one, and what it waits for.
    pub(crate) fn take(&mut self, after: &mut Vec<Dependency>) -> Option<Operation> {
        after.clear();
        let (operation, count) = self.operations.pop_front()?;
        after.extend(self.after.drain(..count as usize));
        Some(operation)
    }
}

impl Sink for Ahead {
    fn push(&mut self, _: u32, operation: &Operation, after: &[Dependency]) -> Result<u64, TraceError> {
        self.operations.push_back((*operation, after.len() as u32));
        self.after.extend(after);
        self.made += 1;
        Ok(self.made - 1)
    }
}

impl Generated {
    /// The program.
    ///
    /// # Errors
    /// The number of ranks does not suit the pattern, or a size is too large.
    pub fn new(pattern: Pattern, parameters: Parameters) -> Result<Generated, TraceError> {
        let refuse = |text: String| Err(TraceError::Unsuitable(text));
        let ranks = parameters.ranks;
        if ranks == 0 || ranks > 1 << 24 {
            return Err(found(format!("1 to {} ranks", 1 << 24), ranks));
        }
        if parameters.bytes.is_some_and(|bytes| Bytes(bytes) > Bytes::MESSAGE_MAX) {
            return Err(Excess::Message.into());
        }
        // Whoever has cells has sizes that follow from them.
        if parameters.bytes.is_some() && pattern.cells().is_some() {
            return refuse(format!("the sizes of {} follow from its grid: leave out the bytes", pattern.name()));
        }
        if parameters.cells.is_some() && pattern.cells().is_none() {
            return refuse(format!("{} has no cells to choose: leave them out", pattern.name()));
        }
        let cells = parameters.cells.unwrap_or(Cells([pattern.cells().unwrap_or(1); 3]));
        let halved = if pattern == Pattern::HpcgLike { 1 << (HPCG_LEVELS - 1) } else { 1 };
        if !cells.0.iter().all(|side| (1..=CELLS_MAX).contains(side) && side.is_multiple_of(halved)) {
            return refuse(format!("{} needs {halved} to {CELLS_MAX} cells, a multiple of {halved}; found {cells}", pattern.name()));
        }
        let cubes = [Pattern::LuleshLike, Pattern::MiniemLike, Pattern::MiniemDpu];
        if cubes.contains(&pattern) && cells.0 != [cells.0[0]; 3] {
            return refuse(format!("{} has cubes of cells, such as 30; found {cells}", pattern.name()));
        }
        let side = (f64::from(ranks)).cbrt().round() as u32;
        let dimensions = match pattern {
            Pattern::Fft3d | Pattern::LuleshLike if side.pow(3) != ranks => {
                let (below, above) = (((f64::from(ranks)).cbrt() as u32).max(1), (f64::from(ranks)).cbrt() as u32 + 1);
                let (name, below, above) = (pattern.name(), below.pow(3), above.pow(3));
                return refuse(format!("{name} needs n^3 ranks, such as {below} or {above}; found {ranks}"));
            }
            Pattern::Fft3d | Pattern::LuleshLike => [side; 3],
            Pattern::MatmulLike => {
                let side = ranks.isqrt();
                if side * side != ranks {
                    let (below, above) = (side * side, (side + 1) * (side + 1));
                    return refuse(format!("matmul-like needs n^2 ranks, such as {below} or {above}; found {ranks}"));
                }
                [side, side, 1]
            }
            _ => grid(ranks),
        };
        if pattern == Pattern::MiniemDpu && ranks < 3 {
            return refuse(format!("miniem-dpu needs 3 ranks, two of hosts and one of a DPU; found {ranks}"));
        }
        let communicators = if pattern == Pattern::MiniemDpu { miniem::communicators(ranks) } else { Communicators::world(ranks) };
        let states = (0..ranks).map(|_| State::default()).collect();
        Ok(Generated { pattern, parameters, dimensions, cells: cells.0.map(u64::from), communicators, ranks: states })
    }

    /// Ranks in each dimension, for the patterns that have a grid.
    pub fn dimensions(&self) -> [u32; 3] {
        self.dimensions
    }

    fn step(&mut self, rank: u32) -> Result<(), TraceError> {
        let state = &mut self.ranks[rank as usize];
        let number = state.step;
        state.step += 1;
        let mut script = Script {
            rank,
            dimensions: self.dimensions,
            cells: self.cells,
            sequence: &mut state.sequence,
            ahead: &mut state.ahead,
            compute: self.parameters.compute,
            bytes: self.parameters.bytes,
        };
        match self.pattern {
            Pattern::Halo3d => script.halo3d(),
            Pattern::Fft3d => script.fft3d(),
            Pattern::AllreduceLoop => script.allreduce_loop(),
            Pattern::Bcast => script.bcast(),
            Pattern::LammpsLike => script.lammps(number),
            Pattern::MinimdLike => script.minimd(number),
            Pattern::NestLike => script.nest(),
            Pattern::HpcgLike => script.hpcg(),
            Pattern::MinifeLike => script.minife(),
            Pattern::MatmulLike => script.matmul(),
            Pattern::LuleshLike => script.lulesh(number),
            Pattern::MiniemLike => script.miniem(),
            Pattern::MiniemDpu => script.miniem_dpu(),
        }?;
        if state.step == self.parameters.steps {
            state.sequence.end(rank, &mut state.ahead)?;
        }
        Ok(())
    }
}

impl Program for Generated {
    fn ranks(&self) -> u32 {
        self.parameters.ranks
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        Order::Sequential
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        loop {
            let state = &mut self.ranks[rank as usize];
            if let Some(operation) = state.ahead.take(after) {
                return Ok(Some(operation));
            }
            if state.step == self.parameters.steps {
                state.ahead = Ahead { made: state.ahead.made, ..Ahead::default() };
                return Ok(None);
            }
            self.step(rank)?;
        }
    }
}

/// One rank in one step.
struct Script<'a> {
    rank: u32,
    dimensions: [u32; 3],
    cells: [u64; 3],
    sequence: &'a mut Sequence,
    ahead: &'a mut Ahead,
    compute: Option<SimTime>,
    bytes: Option<u64>,
}

impl Script<'_> {
    fn position(&self) -> [u32; 3] {
        let [x, y, _] = self.dimensions;
        [self.rank % x, self.rank / x % y, self.rank / x / y]
    }

    fn at(&self, position: [u32; 3]) -> u32 {
        let [x, y, _] = self.dimensions;
        position[0] + x * (position[1] + y * position[2])
    }

    /// The rank `offset` further in one dimension, around the edge.
    fn around(&self, dimension: usize, offset: u32) -> u32 {
        let mut position = self.position();
        position[dimension] = (position[dimension] + offset) % self.dimensions[dimension];
        self.at(position)
    }

    fn compute(&mut self, usual: SimTime) {
        self.sequence.compute(self.compute.unwrap_or(usual));
    }

    fn call(&mut self, operation: Collective, send: u64, receive: u64) -> Result<(), TraceError> {
        let call = CollectiveCall { operation, communicator: 0, root: 0, send: Bytes(send), receive: Bytes(receive), element: Bytes(0) };
        self.sequence.call(self.rank, self.ahead, Kind::Collective(call)).map(|_| ())
    }

    /// `MPI_Irecv` and `MPI_Isend` for all partners (source and destination, bytes, tag), then `MPI_Waitall`.
    fn exchange(&mut self, partners: &[(u32, u32, u64, u32)]) -> Result<(), TraceError> {
        let mut open = Vec::with_capacity(2 * partners.len());
        for &(from, _, bytes, tag) in partners {
            open.push(self.sequence.begin(
                self.rank,
                self.ahead,
                Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(tag) },
            )?);
        }
        for &(_, to, bytes, tag) in partners {
            open.push(self.sequence.begin(self.rank, self.ahead, Kind::Send { to, bytes: Bytes(bytes), tag })?);
        }
        open.into_iter().try_for_each(|number| self.sequence.wait(self.rank, self.ahead, number))
    }

    fn halo3d(&mut self) -> Result<(), TraceError> {
        let bytes = self.bytes.unwrap_or(64 << 10);
        let mut partners = Vec::with_capacity(6);
        for dimension in (0..3).filter(|dimension| self.dimensions[*dimension] > 1) {
            let (up, down) = (self.around(dimension, 1), self.around(dimension, self.dimensions[dimension] - 1));
            // What goes up comes from below.
            partners.push((down, up, bytes, 2 * dimension as u32));
            partners.push((up, down, bytes, 2 * dimension as u32 + 1));
        }
        self.exchange(&partners)?;
        self.compute(SimTime::from_us(100));
        Ok(())
    }

    fn fft3d(&mut self) -> Result<(), TraceError> {
        let n = self.dimensions[0];
        let part = self.bytes.unwrap_or(1 << 20) / u64::from(n);
        for dimension in 0..3 {
            self.compute(SimTime::from_us(100));
            let tag = dimension as u32;
            let partners: Vec<_> =
                (1..n).map(|offset| (self.around(dimension, n - offset), self.around(dimension, offset), part, tag)).collect();
            self.exchange(&partners)?;
        }
        Ok(())
    }

    fn allreduce_loop(&mut self) -> Result<(), TraceError> {
        self.compute(SimTime::from_us(10));
        let bytes = self.bytes.unwrap_or(8);
        self.call(Collective::Allreduce, bytes, bytes)
    }

    fn bcast(&mut self) -> Result<(), TraceError> {
        let bytes = self.bytes.unwrap_or(1_000_000);
        let (send, receive) = if self.rank == 0 { (bytes, 0) } else { (0, bytes) };
        self.call(Collective::Broadcast, send, receive)?;
        self.compute(SimTime::ZERO);
        Ok(())
    }

    /// Six swaps, one after the other: `MPI_Irecv`, `MPI_Send`, `MPI_Wait` (comm_brick). Later dimensions pass on what
    /// came in before, so that their slabs are wider.
    fn swaps(&mut self, doubles: u64, reverse: bool, tag: u32) -> Result<(), TraceError> {
        let [x, y, z] = self.cells.map(|cells| cells as f64 * (CELL_ATOMS / DENSITY).cbrt());
        let wide = |edge: f64| edge + 2.0 * GHOST_WIDTH;
        let areas = [y * z, wide(x) * z, wide(x) * wide(y)];
        for swap in 0..6 {
            let swap = if reverse { 5 - swap } else { swap };
            let dimension = swap / 2;
            if self.dimensions[dimension] == 1 {
                continue;
            }
            let ghosts = (areas[dimension] * GHOST_WIDTH * DENSITY).round() as u64;
            let (up, down) = (self.around(dimension, 1), self.around(dimension, self.dimensions[dimension] - 1));
            let (from, to) = if (swap % 2 == 0) != reverse { (down, up) } else { (up, down) };
            let bytes = 8 * doubles * ghosts;
            let receive =
                self.sequence.begin(self.rank, self.ahead, Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(tag) })?;
            self.sequence.call(self.rank, self.ahead, Kind::Send { to, bytes: Bytes(bytes), tag })?;
            self.sequence.wait(self.rank, self.ahead, receive)?;
        }
        Ok(())
    }

    fn lammps(&mut self, number: u32) -> Result<(), TraceError> {
        if number.is_multiple_of(REBUILD) {
            // Has any atom moved far enough? Then new ghosts.
            self.call(Collective::Allreduce, 4, 4)?;
            self.swaps(BORDER, false, 1)?;
        } else {
            self.swaps(FORWARD, false, 0)?;
        }
        let atoms = self.cells.iter().product::<u64>() as f64 * CELL_ATOMS;
        self.compute(SimTime((atoms * ATOM_STEP_PS) as u64));
        self.swaps(REVERSE, true, 0)?;
        if number.is_multiple_of(THERMO) {
            // Temperature, energy, pressure.
            for bytes in [8, 8, 48] {
                self.call(Collective::Allreduce, bytes, bytes)?;
            }
        }
        Ok(())
    }

    /// The neighbours that are there, in 26 directions of a grid that ends at its edges: rank, and the dimensions in
    /// which it is next to this one (one for a face, two for an edge, three for a corner).
    fn neighbours(&self) -> Vec<(u32, [bool; 3])> {
        let here = self.position();
        let mut found = Vec::with_capacity(26);
        for offset in (0..27).filter(|offset| *offset != 13) {
            let steps = [offset % 3, offset / 3 % 3, offset / 9];
            let there: [Option<u32>; 3] =
                std::array::from_fn(|d| (here[d] + steps[d]).checked_sub(1).filter(|at| *at < self.dimensions[d]));
            if let [Some(x), Some(y), Some(z)] = there {
                found.push((self.at([x, y, z]), steps.map(|step| step != 1)));
            }
        }
        found
    }

    /// All neighbours: `MPI_Irecv` from each, `MPI_Send` to each, then the waits (ExchangeHalo).
    fn sparse_halo(&mut self, cells: [u64; 3]) -> Result<(), TraceError> {
        let neighbours = self.neighbours();
        let bytes = |beside| 8 * in_common(cells, beside);
        let mut open = Vec::with_capacity(neighbours.len());
        for &(from, beside) in &neighbours {
            let kind = Kind::Receive { from: Some(from), bytes: Bytes(bytes(beside)), tag: Some(99) };
            open.push(self.sequence.begin(self.rank, self.ahead, kind)?);
        }
        for &(to, beside) in &neighbours {
            self.sequence.call(self.rank, self.ahead, Kind::Send { to, bytes: Bytes(bytes(beside)), tag: 99 })?;
        }
        open.into_iter().try_for_each(|number| self.sequence.wait(self.rank, self.ahead, number))
    }

    /// One iteration (CG.cpp, ComputeMG.cpp): preconditioner, dot product, matrix times vector, dot product, update,
    /// norm.
    fn hpcg(&mut self) -> Result<(), TraceError> {
        // Passes over the matrix: a smoother has two, a product one.
        let passes: Vec<(u32, u64)> = (0..HPCG_LEVELS - 1)
            .flat_map(|level| [(level, 2), (level, 1)])
            .chain([(HPCG_LEVELS - 1, 2)])
            .chain((0..HPCG_LEVELS - 1).rev().map(|level| (level, 2)))
            .collect();
        let cells = self.cells;
        let coarse = |level: u32| cells.map(|cells| cells >> level);
        let rows = |level: u32| coarse(level).iter().product::<u64>();
        let total: u64 = passes.iter().map(|(level, passes)| rows(*level) * passes).sum::<u64>() + rows(0);
        let share = |work: u64, given: Option<SimTime>| match given {
            Some(given) => SimTime((u128::from(given.0) * u128::from(work) / u128::from(total)) as u64),
            None => SimTime(work * ROW_PS),
        };
        let given = self.compute;
        for (level, passes) in passes {
            self.sparse_halo(coarse(level))?;
            self.sequence.compute(share(rows(level) * passes, given));
        }
        self.call(Collective::Allreduce, 8, 8)?;
        self.sparse_halo(cells)?;
        self.sequence.compute(share(rows(0), given));
        self.call(Collective::Allreduce, 8, 8)?;
        self.call(Collective::Allreduce, 8, 8)
    }

    /// One iteration (cg_solve.hpp): norm, matrix times vector, dot product. Computing stands in one place.
    fn minife(&mut self) -> Result<(), TraceError> {
        self.call(Collective::Allreduce, 8, 8)?;
        self.sparse_halo(self.cells)?;
        self.compute(SimTime(self.cells.iter().product::<u64>() * MINIFE_ROW_PS));
        self.call(Collective::Allreduce, 8, 8)
    }

    /// A product: as many local ones as there are ranks in a row, and blocks for the next one on their way meanwhile,
    /// to the left and up. They begin where the first one wants them.
    fn matmul(&mut self) -> Result<(), TraceError> {
        let ([m, n, k], side) = (self.cells, self.dimensions[0]);
        let usual = product_time(self.cells);
        let duration = self.compute.map_or(usual, |given| SimTime(given.0 / u64::from(side)));
        for number in 0..side {
            let product = self.sequence.beside(self.rank, self.ahead, ACCELERATOR, duration)?;
            if number + 1 < side {
                let left = (self.around(0, 1), self.around(0, side - 1), 4 * m * k, 0);
                let up = (self.around(1, 1), self.around(1, side - 1), 4 * k * n, 1);
                self.exchange(&[left, up])?;
            }
            self.sequence.wait(self.rank, self.ahead, product)?;
        }
        Ok(())
    }

    /// `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall` of the sends, then the receives one by one (CommRecv, CommSend,
    /// CommSBN), with the neighbours that `sent` and `received` keep; `edge` values on an edge of the rank's cube.
    fn lulesh_exchange(
        &mut self,
        edge: u64,
        doubles: u64,
        tag: u32,
        received: impl Fn(u32, [bool; 3]) -> bool,
        sent: impl Fn(u32, [bool; 3]) -> bool,
    ) -> Result<(), TraceError> {
        let neighbours = self.neighbours();
        let bytes = |beside| 8 * doubles * in_common([edge; 3], beside);
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        for &(from, beside) in neighbours.iter().filter(|(rank, beside)| received(*rank, *beside)) {
            let kind = Kind::Receive { from: Some(from), bytes: Bytes(bytes(beside)), tag: Some(tag) };
            receives.push(self.sequence.begin(self.rank, self.ahead, kind)?);
        }
        for &(to, beside) in neighbours.iter().filter(|(rank, beside)| sent(*rank, *beside)) {
            sends.push(self.sequence.begin(self.rank, self.ahead, Kind::Send { to, bytes: Bytes(bytes(beside)), tag })?);
        }
        sends.into_iter().chain(receives).try_for_each(|number| self.sequence.wait(self.rank, self.ahead, number))
    }

    /// One step (lulesh.cc): TimeIncrement, LagrangeNodal, LagrangeElements. Computing stands in one place, before the
    /// first exchange.
    fn lulesh(&mut self, number: u32) -> Result<(), TraceError> {
        let (rank, [cells, ..]) = (self.rank, self.cells);
        if number > 0 {
            // The smallest time step of all.
            self.call(Collective::Allreduce, 8, 8)?;
        }
        self.compute(SimTime(cells.pow(3) * ELEMENT_STEP_PS));
        // Nodes on the sides of the cubes belong to several ranks. Forces are added up by all of them; positions and
        // velocities are what the rank with the highest number has.
        self.lulesh_exchange(cells + 1, FORCES, 1024, |_, _| true, |_, _| true)?;
        self.lulesh_exchange(cells + 1, MOTION, 2048, |from, _| from > rank, |to, _| to < rank)?;
        // Elements have one owner, and look at those behind their faces.
        let is_face = |_, beside: [bool; 3]| beside.iter().filter(|beside| **beside).count() == 1;
        self.lulesh_exchange(cells, GRADIENTS, 3072, is_face, is_face)
    }
}

/// Cells of a rank that touch a neighbour, which is beside it in these dimensions.
fn in_common(cells: [u64; 3], beside: [bool; 3]) -> u64 {
    cells.iter().zip(beside).filter(|(_, beside)| !beside).map(|(cells, _)| cells).product()
}

/// Three factors as near to each other as possible, the largest first (as `MPI_Dims_create` asks for).
fn grid(ranks: u32) -> [u32; 3] {
    let mut best = [ranks, 1, 1];
    let divisors =
        |of: u32| (1..).take_while(move |d| u64::from(*d) * u64::from(*d) <= u64::from(of)).filter(move |d| of.is_multiple_of(*d));
    for z in divisors(ranks) {
        let rest = ranks / z;
        // The middle one lies between the smallest and the root of the rest.
        if let Some(y) = divisors(rest).last().filter(|y| *y >= z)
            && (rest / y, y) < (best[0], best[1])
        {
            best = [rest / y, y, z];
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::{self, Nobody, Observer, Start};

    #[derive(Default)]
    pub(super) struct Count {
        pub(super) messages: u64,
        bytes: u64,
        pub(super) calls: u64,
    }

    impl Observer for Count {
        fn start(&mut self, start: &Start<'_>) -> Result<(), TraceError> {
            match start.operation.kind {
                Kind::Send { bytes: Bytes(bytes), .. } => {
                    self.messages += 1;
                    self.bytes += bytes;
                }
                Kind::Collective(_) => self.calls += 1,
                _ => {}
            }
            Ok(())
        }
    }

    /// The bytes of all messages.
    pub(super) fn bytes(pattern: Pattern, ranks: u32, steps: u32, cells: &str) -> u64 {
        let parameters = Parameters { ranks, steps, bytes: None, cells: Some(cells.parse().unwrap()), compute: None };
        let mut count = Count::default();
        ideal::run(&mut Generated::new(pattern, parameters).unwrap(), &mut count).unwrap();
        count.bytes
    }

    pub(super) fn count(pattern: Pattern, ranks: u32, steps: u32) -> (Count, [u32; 3]) {
        let parameters = Parameters { ranks, steps, bytes: None, cells: None, compute: None };
        let mut program = Generated::new(pattern, parameters).unwrap();
        let dimensions = program.dimensions();
        let mut count = Count::default();
        let outcome = ideal::run(&mut program, &mut count).unwrap();
        assert_eq!(outcome.problems, Vec::<String>::new(), "{pattern:?} {ranks}");
        (count, dimensions)
    }

    #[test]
    fn fft_messages_are_3_n3_times_n_minus_1() {
        for n in 1..=8u64 {
            let (count, _) = count(Pattern::Fft3d, n.pow(3) as u32, 1);
            assert_eq!(count.messages, 3 * n.pow(3) * (n - 1), "n = {n}");
            assert_eq!(count.bytes, count.messages * ((1 << 20) / n));
        }
    }

    #[test]
    fn halo_messages_are_two_per_rank_step_and_dimension() {
        for ranks in [1u32, 2, 7, 8, 12, 27, 64, 100] {
            let (count, dimensions) = count(Pattern::Halo3d, ranks, 3);
            let wide = dimensions.iter().filter(|size| **size > 1).count() as u64;
            assert_eq!(count.messages, 3 * u64::from(ranks) * 2 * wide, "{ranks}");
        }
    }

    #[test]
    fn collectives_are_one_part_per_rank_and_step() {
        for pattern in [Pattern::AllreduceLoop, Pattern::Bcast] {
            let (count, _) = count(pattern, 9, 5);
            assert_eq!((count.messages, count.calls), (0, 45));
        }
    }

    #[test]
    fn lammps_swaps_and_reductions() {
        // 27 ranks, 3 x 3 x 3: 6 swaps forward and 6 back per step; a rebuild at steps 0, 20 and 40, output at step 0.
        let (count, _) = count(Pattern::LammpsLike, 27, 50);
        assert_eq!((count.messages, count.calls), (27 * 50 * 12, 27 * (3 + 3)));
    }

    #[test]
    fn hpcg_halos_and_dot_products() {
        // In an a x b x c grid, pairs of neighbours in 26 directions: (3a - 2)(3b - 2)(3c - 2) - abc. 11 halos per
        // iteration, one in miniFE.
        for (pattern, halos, reductions) in [(Pattern::HpcgLike, 11, 3), (Pattern::MinifeLike, 1, 2)] {
            for ranks in [1u32, 8, 12, 60] {
                let (count, [a, b, c]) = count(pattern, ranks, 2);
                let pairs = (3 * a - 2) * (3 * b - 2) * (3 * c - 2) - ranks;
                let expected = (u64::from(pairs) * halos * 2, u64::from(ranks) * reductions * 2);
                assert_eq!((count.messages, count.calls), expected, "{pattern:?} {ranks}");
            }
        }
    }

    #[test]
    fn sides_of_bricks_are_what_is_sent() {
        let bytes = |pattern, ranks, cells: &str| bytes(pattern, ranks, 1, cells);
        // Two ranks, one behind the other in the first direction: both send 256 x 128 values.
        assert_eq!(bytes(Pattern::MinifeLike, 2, "128x256x128"), 2 * 8 * 256 * 128);
        // 2 x 2 x 1 ranks: four pairs of sides, two of edges.
        assert_eq!(bytes(Pattern::MinifeLike, 4, "10x20x30"), 8 * (4 * 20 * 30 + 4 * 10 * 30 + 4 * 30));
        // HPCG has four halos of the finest grid, three of the next ones, one of the coarsest; sides halve each time.
        let of = |cells: u64| 2 * 8 * (2 * cells) * cells;
        assert_eq!(bytes(Pattern::HpcgLike, 2, "128x256x128"), 4 * of(128) + 3 * of(64) + 3 * of(32) + of(16));
        // Ghosts of LAMMPS in a brick of 2 x 1 x 1 ranks: only the first direction has others; 3 doubles there, 3 back,
        // 6 when lists are rebuilt, as in the first step.
        let lattice = (4.0 / DENSITY).cbrt();
        let ghosts = (20.0 * lattice * 40.0 * lattice * GHOST_WIDTH * DENSITY).round() as u64;
        assert_eq!(bytes(Pattern::LammpsLike, 2, "10x20x40"), 2 * 2 * 8 * (6 + 3) * ghosts);
    }

    #[test]
    fn cells_are_one_number_or_three() {
        assert_eq!("20".parse::<Cells>().unwrap(), Cells([20; 3]));
        assert_eq!("128x256x128".parse::<Cells>().unwrap(), Cells([128, 256, 128]));
        for cells in ["20", "128x256x128"] {
            assert_eq!(cells.parse::<Cells>().unwrap().to_string(), cells);
        }
        for wrong in ["", "x", "20x", "20x30", "20x30x", "1x2x3x4", "-1", "5000000000"] {
            assert!(wrong.parse::<Cells>().unwrap_err().to_string().contains("128x256x128"), "{wrong}");
        }
    }

    #[test]
    fn given_computing_is_what_a_step_computes() {
        for pattern in Pattern::ALL {
            // The first computes three times in a step, the second wants other numbers of ranks, the last ones take it
            // for a part.
            if matches!(pattern, Pattern::Fft3d | Pattern::MatmulLike | Pattern::MiniemLike | Pattern::MiniemDpu) {
                continue;
            }
            let compute = Some(SimTime::from_us(300));
            let parameters = Parameters { ranks: 8, steps: 4, bytes: None, cells: None, compute };
            let outcome = ideal::run(&mut Generated::new(pattern, parameters).unwrap(), &mut Nobody).unwrap();
            // Shares are rounded down to a picosecond.
            let missing = SimTime::from_us(1200).saturating_sub(outcome.finish[5]);
            assert!(missing < SimTime::from_ns(1), "{pattern:?} {:?}", outcome.finish);
        }
    }

    #[test]
    fn grids_are_as_even_as_can_be() {
        for (ranks, expected) in [(1, [1, 1, 1]), (12, [3, 2, 2]), (64, [4, 4, 4]), (7, [7, 1, 1]), (32_768, [32, 32, 32]), (96, [6, 4, 4])]
        {
            assert_eq!(grid(ranks), expected);
        }
    }

    #[test]
    fn lulesh_exchanges_with_26_neighbours_and_reduces() {
        // n x n x n ranks with cubes of 30 elements. Faces, edges and corners where two, four and eight cubes meet;
        // nodes on them are sent by both sides (3 doubles) and once more to the rank before (6), elements by both (3).
        for n in [1u64, 2, 3] {
            let (ranks, steps) = (n.pow(3) as u32, 5);
            let (count, _) = count(Pattern::LuleshLike, ranks, steps as u32);
            let faces = 3 * n.pow(2) * (n - 1);
            let edges = 2 * 3 * n * (n - 1).pow(2);
            let corners = 4 * (n - 1).pow(3);
            let pairs = faces + edges + corners;
            assert_eq!(count.messages, steps * (2 * pairs + pairs + 2 * faces), "n = {n}");
            let nodes = faces * 31 * 31 + edges * 31 + corners;
            assert_eq!(count.bytes, steps * 8 * (2 * 3 * nodes + 6 * nodes + 2 * 3 * faces * 30 * 30), "n = {n}");
            // The first step has its length from the input.
            assert_eq!(count.calls, u64::from(ranks) * (steps - 1), "n = {n}");
        }
    }

    #[test]
    fn cells_are_those_of_the_pattern() {
        let bytes = |pattern, cells: Option<u32>| {
            let cells = cells.map(|side| Cells([side; 3]));
            let parameters = Parameters { ranks: 8, steps: 1, bytes: None, cells, compute: None };
            let mut count = Count::default();
            let mut program = Generated::new(pattern, parameters).map_err(|error| error.to_string())?;
            ideal::run(&mut program, &mut count).unwrap();
            Ok::<u64, String>(count.bytes)
        };
        for (pattern, usual) in [(Pattern::LammpsLike, 20), (Pattern::HpcgLike, 104), (Pattern::MinifeLike, 64), (Pattern::LuleshLike, 30)]
        {
            assert_eq!(bytes(pattern, Some(usual)), bytes(pattern, None));
            assert!(bytes(pattern, Some(16)).unwrap() < bytes(pattern, None).unwrap());
            assert!(bytes(pattern, Some(0)).is_err() && bytes(pattern, Some(CELLS_MAX + 8)).is_err());
        }
        assert_eq!(bytes(Pattern::HpcgLike, Some(20)).unwrap_err(), "hpcg-like needs 8 to 4096 cells, a multiple of 8; found 20");
        assert_eq!(bytes(Pattern::Halo3d, Some(20)).unwrap_err(), "halo3d has no cells to choose: leave them out");
        let parameters = Parameters { ranks: 8, steps: 1, bytes: None, cells: Some(Cells([30, 30, 20])), compute: None };
        let error = Generated::new(Pattern::LuleshLike, parameters).unwrap_err();
        assert_eq!(error.to_string(), "lulesh-like has cubes of cells, such as 30; found 30x30x20");
    }

    #[test]
    fn products_take_tiles_and_what_their_reads_and_writes_do_not_hide() {
        // A tile: 64 KiB, 6.827 us at 9.6 GB/s; two of them are read behind the 14 us of a multiplication.
        let (tile, multiply) = (6.826_667, 14.0);
        let us = |sides| product_time(sides).as_ns_f64() / 1e3;
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.01, "{found} {expected}");
        near(us([128, 128, 128]), 2.0 * tile + multiply + tile);
        near(us([128, 128, 1280]), 2.0 * tile + 10.0 * multiply + tile);
        near(us([1024, 1024, 1024]), 2.0 * tile + 512.0 * multiply + 64.0 * tile);
        // What does not fill a tile takes one.
        assert_eq!(product_time([100, 1, 129]), product_time([128, 128, 256]));
        // The report: 275 GFLOP/s of 307.2; a sum without end comes to what 4200 cycles leave of that.
        let rate = |side: u64| 2.0 * (side.pow(3) as f64) / product_time([side; 3]).as_ns_f64();
        assert!((rate(1024) / 275.0 - 1.0).abs() < 0.05, "{}", rate(1024));
        assert!(rate(1 << 16) < 307.2 * 4096.0 / 4200.0);
    }

    #[test]
    fn blocks_of_matrices_go_round() {
        for side in [1u32, 2, 3, 5] {
            let (count, _) = count(Pattern::MatmulLike, side * side, 2);
            assert_eq!(count.messages, 2 * u64::from(side * side * (side - 1)) * 2, "{side}");
            let parameters = Parameters { ranks: side * side, steps: 1, bytes: None, cells: None, compute: None };
            let outcome = ideal::run(&mut Generated::new(Pattern::MatmulLike, parameters).unwrap(), &mut Nobody).unwrap();
            assert_eq!(outcome.finish[0], product_time([1024; 3]) * u64::from(side));
        }
        let parameters = Parameters { ranks: 8, steps: 1, bytes: None, cells: None, compute: None };
        let error = Generated::new(Pattern::MatmulLike, parameters).unwrap_err();
        assert_eq!(error.to_string(), "matmul-like needs n^2 ranks, such as 4 or 9; found 8");
    }

    #[test]
    fn wrong_numbers_of_ranks() {
        let parameters = Parameters { ranks: 100, steps: 1, bytes: None, cells: None, compute: None };
        for pattern in [Pattern::Fft3d, Pattern::LuleshLike] {
            let error = Generated::new(pattern, parameters).unwrap_err();
            assert_eq!(error.to_string(), format!("{} needs n^3 ranks, such as 64 or 125; found 100", pattern.name()));
        }
    }
}
