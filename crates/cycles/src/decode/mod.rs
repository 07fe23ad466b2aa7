//! From bytes to instructions. What a decoder does not know is an instruction of integers without registers; none
//! fails.

mod arm64;
mod riscv;
mod x86;

use crate::{Block, End, Instruction};

/// Whose instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AArch64.
    Arm64,
    /// RV64GC.
    Riscv64,
    /// x86-64.
    X86,
}

impl Isa {
    /// By qemu's name of a target.
    pub fn of(target: &str) -> Option<Isa> {
        match target {
            "aarch64" => Some(Isa::Arm64),
            "riscv64" => Some(Isa::Riscv64),
            "x86_64" => Some(Isa::X86),
            _ => None,
        }
    }

    /// The instruction at the beginning of `bytes`, which is at that address; and how it ends a block.
    pub fn decode(self, bytes: &[u8], address: u64) -> (Instruction, End) {
        match self {
            Isa::Arm64 => arm64::decode(word(bytes)),
            Isa::Riscv64 => riscv::decode(word(bytes)),
            Isa::X86 => x86::decode(bytes, address),
        }
    }

    /// A block of instructions that follow each other, each with its address and bytes.
    pub fn block<'a>(self, instructions: impl IntoIterator<Item = (u64, &'a [u8])>) -> Block {
        let mut block = Block { begin: 0, behind: 0, end: End::Through, instructions: Vec::new() };
        for (address, bytes) in instructions {
            if block.instructions.is_empty() {
                block.begin = address;
            }
            let (instruction, end) = self.decode(bytes, address);
            block.instructions.push(instruction);
            (block.behind, block.end) = (address + bytes.len() as u64, end);
        }
        block
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}
