//! The numbers of a core.

/// A cycle has so many units: widths of 1 to 6, 8 and 10 divide it.
pub const UNIT: u64 = 240;

/// Levels of caches, from the core outwards.
pub const LEVELS: usize = 3;

/// What an instruction does, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Additions, logic, shifts, moves.
    Integer,
    /// Multiplications of integers.
    Multiply,
    /// Divisions of integers.
    Divide,
    /// Additions, comparisons and conversions of floating-point numbers, in vectors too.
    FpAdd,
    /// Their multiplications.
    FpMultiply,
    /// Multiplications with an addition.
    FpFused,
    /// Divisions.
    FpDivide,
    /// Square roots.
    FpRoot,
    /// Vectors of integers, permutations, moves between registers of vectors.
    Simd,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Branches, beside [`Core::taken`] and [`Core::mispredict`].
    Branch,
    /// Reads and writes in one: exclusive accesses, atomic operations.
    Atomic,
    /// Barriers, calls of the kernel, registers of the system.
    System,
}

impl Class {
    /// All of them, and their names.
    pub const ALL: [(Class, &'static str); 14] = [
        (Class::Integer, "integer"),
        (Class::Multiply, "multiply"),
        (Class::Divide, "divide"),
        (Class::FpAdd, "fp-add"),
        (Class::FpMultiply, "fp-multiply"),
        (Class::FpFused, "fp-fused"),
        (Class::FpDivide, "fp-divide"),
        (Class::FpRoot, "fp-root"),
        (Class::Simd, "simd"),
        (Class::Load, "load"),
        (Class::Store, "store"),
        (Class::Branch, "branch"),
        (Class::Atomic, "atomic"),
        (Class::System, "system"),
    ];
}

/// What an instruction of a class costs, in units of a cycle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Until its result can be used.
    pub latency: u32,
    /// Until the next one of its class can begin: a cycle, over the units that execute the class.
    pub interval: u32,
}

/// A cache.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Its size, bytes; 0: it is not there.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// From the address to the data, cycles, with the way through the levels before it.
    pub latency: u32,
    /// Cores that share it.
    pub cores: u32,
    /// So that no byte is undefined.
    pub zero: u32,
}

/// A core, its caches and its memory. Plain numbers: it lies in shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Cycles per second; 0: there is no model.
    pub clock_hz: u64,
    /// Instructions that begin in a cycle.
    pub width: u32,
    /// Instructions between the oldest that is not done and the newest that has begun; 0: they begin in order.
    pub window: u32,
    /// More for a branch that is taken, units.
    pub taken: u32,
    /// More for a branch that was predicted wrongly, units.
    pub mispredict: u32,
    /// Misses in flight at a time, with what the prefetchers ask for.
    pub misses: u32,
    /// Bytes of a line.
    pub line: u32,
    /// By [`Class`].
    pub costs: [Cost; Class::ALL.len()],
    /// From the core outwards. The first one's latency is that of a load.
    pub levels: [Level; LEVELS],
    /// From an address that no cache has to the data, ps.
    pub memory_ps: u64,
    /// Bytes per second of the memory, for all cores of the processor.
    pub memory_rate: u64,
}

impl Core {
    /// What a class costs.
    pub fn cost(&self, class: Class) -> Cost {
        self.costs[class as usize]
    }

    /// Whether there are caches and memory. Without, loads take their latency, and memory is as fast.
    pub fn has_caches(&self) -> bool {
        self.levels[0].bytes != 0
    }

    /// The part of one of `busy` cores of a processor: caches are cut into equal parts, and so is the memory's
    /// bandwidth. What others have in a shared cache, and when they use the memory, would depend on the order in which
    /// the host runs them.
    pub fn share(mut self, busy: u32) -> Core {
        let busy = u64::from(busy.max(1));
        for level in &mut self.levels {
            let parts = busy.min(u64::from(level.cores.max(1)));
            let set = u64::from(level.ways) * u64::from(self.line);
            if level.bytes != 0 {
                level.bytes = (level.bytes / parts / set.max(1)).max(1) * set;
            }
        }
        self.memory_rate = (self.memory_rate / busy).max(1);
        self
    }

    /// Units of a cycle as time, ps.
    pub fn ps(&self, units: u64) -> u64 {
        crate::counter::ps(units, self.clock_hz)
    }

    /// A time as units of a cycle.
    pub(crate) fn units(&self, ps: u64) -> u64 {
        (u128::from(ps) * u128::from(self.clock_hz) * u128::from(UNIT) / 1_000_000_000_000) as u64
    }

    /// Units that the memory takes for a line.
    pub(crate) fn line_units(&self) -> u64 {
        (u128::from(self.line) * u128::from(self.clock_hz) * u128::from(UNIT) / u128::from(self.memory_rate.max(1))) as u64
    }
}
