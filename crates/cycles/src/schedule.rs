//! The cycles of a block of instructions.
//!
//! A block is taken as one that is repeated: it runs through the pipeline several times in a row, and takes what the
//! later ones take each. So what a loop waits for from one turn to the next counts, as in static analysers of loops
//! (llvm-mca, OSACA). Loads take the latency of the first cache here; misses come from [`crate::Caches`].

use crate::instruction::registers;
use crate::{Class, Core, Instruction, UNIT};

/// Turns of a block, and the first one that counts: before it the pipeline fills. Our own choice.
const TURNS: usize = 6;
const FILLED: usize = 2;
/// Loads of a block that are told apart.
const LOADS: usize = 128;

/// Where a pipeline is, units.
struct Pipeline<'a> {
    core: &'a Core,
    /// When each register can be read.
    ready: [u64; 128],
    /// When the units of each class are free.
    free: [u64; Class::ALL.len()],
    /// When the next instruction can begin.
    slot: u64,
    /// When the last ones were done, in their order: as many as the window.
    done: Vec<u64>,
    next: usize,
    /// When the last result was there.
    last: u64,
}

impl<'a> Pipeline<'a> {
    fn new(core: &'a Core) -> Pipeline<'a> {
        let done = vec![0; core.window as usize];
        Pipeline { core, ready: [0; 128], free: [0; Class::ALL.len()], slot: 0, done, next: 0, last: 0 }
    }

    fn ready(&self, set: u128) -> u64 {
        registers(set).map(|register| self.ready[register]).max().unwrap_or(0)
    }

    /// From when on the units of a class are its own, if it begins at `at` at the earliest.
    fn takes(&mut self, class: Class, at: u64) -> u64 {
        let free = &mut self.free[class as usize];
        let start = at.max(*free);
        *free = start + u64::from(self.core.cost(class).interval);
        start
    }

    fn latency(&self, class: Class) -> u64 {
        u64::from(self.core.cost(class).latency)
    }

    fn writes(&mut self, instruction: &Instruction, start: u64, done: u64) {
        registers(instruction.targets).for_each(|register| self.ready[register] = done);
        let moved = start + self.latency(Class::Integer);
        registers(instruction.moves).for_each(|register| self.ready[register] = moved);
        self.last = self.last.max(done);
    }

    /// The next instruction, which waits for its turn.
    fn in_order(&mut self, instruction: &Instruction) {
        let mut start = self.slot.max(self.ready(instruction.address | instruction.sources));
        let mut latency = 0;
        for class in classes(instruction) {
            start = start.max(self.free[class as usize]);
            latency += if class == Class::Store { 0 } else { self.latency(class) };
        }
        for class in classes(instruction) {
            self.takes(class, start);
        }
        self.slot = start + UNIT / u64::from(self.core.width.max(1));
        self.writes(instruction, start, start + latency);
    }

    /// The next instruction, which begins when it can.
    fn out_of_order(&mut self, instruction: &Instruction) {
        let begins = self.slot.max(self.done[self.next]);
        let data = self.ready(instruction.sources);
        let address = self.ready(instruction.address).max(begins);
        let mut done = begins;
        for class in classes(instruction) {
            // Units go to instructions in their order: what waits for data leaves them to others meanwhile.
            let unit = self.takes(class, begins);
            done = match class {
                Class::Load => unit.max(address) + self.latency(class),
                Class::Store => done.max(unit),
                _ => unit.max(done).max(data).max(address) + self.latency(class),
            };
        }
        self.slot = begins + UNIT / u64::from(self.core.width.max(1));
        self.writes(instruction, address, done);
        let before = (self.next + self.done.len() - 1) % self.done.len();
        self.done[self.next] = done.max(self.done[before]);
        self.next = (self.next + 1) % self.done.len();
    }

    fn turn(&mut self, block: &[Instruction]) -> u64 {
        for instruction in block {
            if self.core.window == 0 {
                self.in_order(instruction);
            } else {
                self.out_of_order(instruction);
            }
        }
        if self.core.window == 0 { self.slot } else { self.last.max(self.slot) }
    }
}

/// The units that an instruction needs, in the order of its parts.
fn classes(instruction: &Instruction) -> impl Iterator<Item = Class> {
    let own = instruction.class;
    let load = (instruction.loads && own != Class::Load && own != Class::Atomic).then_some(Class::Load);
    let store = (instruction.stores && own != Class::Store && own != Class::Atomic).then_some(Class::Store);
    load.into_iter().chain([own]).chain(store)
}

/// Units of a cycle that `core` takes for `block`, as one of many in a row.
pub fn cycles_of(core: &Core, block: &[Instruction]) -> u64 {
    if block.is_empty() {
        return 0;
    }
    let mut pipeline = Pipeline::new(core);
    // Time to fill the window.
    let filled = FILLED + core.window as usize / block.len();
    let turns: Vec<u64> = (0..filled + TURNS).map(|_| pipeline.turn(block)).collect();
    (turns[filled + TURNS - 1] - turns[filled - 1]) / TURNS as u64
}

/// Which instructions of a block that is repeated load from an address that they have loaded the time before, such as
/// those that follow a list: no two of their misses are in flight at a time.
pub fn chases(block: &[Instruction]) -> Vec<bool> {
    let mut from = [0_u128; 128];
    let mut chases = vec![false; block.len()];
    for turn in 0..2 {
        let mut number = 0;
        for (at, instruction) in block.iter().enumerate() {
            let of = |set| registers(set).fold(0, |all, register: usize| all | from[register]);
            let (address, mut result) = (of(instruction.address), of(instruction.sources | instruction.address));
            let moved = address;
            if instruction.loads && number < LOADS {
                let own = 1_u128 << number;
                chases[at] = turn == 1 && address & own != 0;
                result |= own;
                number += 1;
            }
            registers(instruction.targets).for_each(|register| from[register] = result);
            registers(instruction.moves).for_each(|register| from[register] = moved);
        }
    }
    chases
}
