//! Instructions as the model sees them.

use crate::Class;

#[cfg(feature = "decode")]
/// The flags of a processor, as a register. Integers are 0 to 31, floating point and vectors 32 to 63.
pub(crate) const FLAGS: u32 = 64;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does. Of one that loads and computes: what it computes.
    pub class: Class,
    /// It reads memory.
    pub loads: bool,
    /// It writes memory.
    pub stores: bool,
    /// Registers that its address is made of, a bit each.
    pub address: u128,
    /// Others that it reads.
    pub sources: u128,
    /// Those that it writes.
    pub targets: u128,
    /// Those that it writes although they do not wait for memory: addresses that move on.
    pub moves: u128,
}

impl Instruction {
    /// One without registers.
    pub fn of(class: Class) -> Instruction {
        let (loads, stores) = match class {
            Class::Load => (true, false),
            Class::Store => (false, true),
            Class::Atomic => (true, true),
            _ => (false, false),
        };
        Instruction { class, loads, stores, address: 0, sources: 0, targets: 0, moves: 0 }
    }

    /// It reads that register.
    pub fn reads(self, register: u32) -> Instruction {
        Instruction { sources: self.sources | bit(register), ..self }
    }

    /// It writes that register.
    pub fn writes(self, register: u32) -> Instruction {
        Instruction { targets: self.targets | bit(register), ..self }
    }

    /// Its address has that register.
    pub fn at(self, register: u32) -> Instruction {
        Instruction { address: self.address | bit(register), ..self }
    }

    /// Its address register moves on.
    pub fn moving(self, register: u32) -> Instruction {
        Instruction { moves: self.moves | bit(register), ..self.at(register) }
    }
}

fn bit(register: u32) -> u128 {
    1_u128.checked_shl(register).unwrap_or(0)
}

/// The registers of a set.
pub(crate) fn registers(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (next < u128::BITS).then_some(next as usize)
    })
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing branches.
    Through,
    /// The next block is behind it, or is not.
    Conditional,
    /// It is elsewhere.
    Jump,
}

/// Instructions that follow each other, with one entry and one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the first one.
    pub begin: u64,
    /// Address behind the last one.
    pub behind: u64,
    /// How it ends.
    pub end: End,
    /// What is in it.
    pub instructions: Vec<Instruction>,
}
