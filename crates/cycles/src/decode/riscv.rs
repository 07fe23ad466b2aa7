//! RV64GC, by the tables of opcodes of the RISC-V Instruction Set Manual, volume I (20191213), chapters 16 and 24.

use crate::{Class, End, Instruction};

fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// Number 0 is zero; 2 the stack pointer, for which nothing waits for long.
fn general(number: u32) -> u32 {
    if matches!(number, 0 | 2) { u32::MAX } else { number }
}

fn load(to: u32, base: u32) -> Instruction {
    Instruction::of(Class::Load).at(general(base)).writes(to)
}

fn store(from: u32, base: u32) -> Instruction {
    Instruction::of(Class::Store).at(general(base)).reads(from)
}

pub(super) fn decode(word: u32) -> (Instruction, End) {
    if word & 3 != 3 {
        return compressed(word & 0xffff);
    }
    let (d, one, two, three) = (bits(word, 7, 5), bits(word, 15, 5), bits(word, 20, 5), bits(word, 27, 5));
    let integer = |class| Instruction::of(class).reads(general(one)).writes(general(d));
    let through = |instruction| (instruction, End::Through);
    match bits(word, 2, 5) {
        0b00000 => through(load(general(d), one)),
        0b00001 => through(load(32 + d, one)),
        0b01000 => through(store(general(two), one)),
        0b01001 => through(store(32 + two, one)),
        0b00100 | 0b00110 => through(integer(Class::Integer)),
        0b01100 | 0b01110 => {
            let class = match (bits(word, 25, 7), bits(word, 12, 3)) {
                (1, 0..=3) => Class::Multiply,
                (1, _) => Class::Divide,
                _ => Class::Integer,
            };
            through(integer(class).reads(general(two)))
        }
        0b01101 | 0b00101 => through(Instruction::of(Class::Integer).writes(general(d))),
        0b11000 => (Instruction::of(Class::Branch).reads(general(one)).reads(general(two)), End::Conditional),
        0b11011 => (Instruction::of(Class::Branch).writes(general(d)), End::Jump),
        0b11001 => (Instruction::of(Class::Branch).reads(general(one)).writes(general(d)), End::Jump),
        0b01011 => through(Instruction::of(Class::Atomic).at(general(one)).reads(general(two)).writes(general(d))),
        0b00011 => through(Instruction::of(Class::System)),
        0b11100 => through(Instruction::of(Class::System).reads(general(one)).writes(general(d))),
        0b10000..=0b10011 => through(Instruction::of(Class::FpFused).reads(32 + one).reads(32 + two).reads(32 + three).writes(32 + d)),
        0b10100 => through(floating(three, d, one, two)),
        _ => through(Instruction::of(Class::Integer)),
    }
}

fn floating(function: u32, d: u32, one: u32, two: u32) -> Instruction {
    let plain = |class| Instruction::of(class).reads(32 + one).reads(32 + two).writes(32 + d);
    match function {
        0b00010 => plain(Class::FpMultiply),
        0b00011 => plain(Class::FpDivide),
        0b01011 => Instruction::of(Class::FpRoot).reads(32 + one).writes(32 + d),
        0b01000 => Instruction::of(Class::FpAdd).reads(32 + one).writes(32 + d),
        0b10100 => Instruction::of(Class::FpAdd).reads(32 + one).reads(32 + two).writes(general(d)),
        0b11000 | 0b11100 => Instruction::of(Class::FpAdd).reads(32 + one).writes(general(d)),
        0b11010 | 0b11110 => Instruction::of(Class::FpAdd).reads(general(one)).writes(32 + d),
        _ => plain(Class::FpAdd),
    }
}

fn compressed(word: u32) -> (Instruction, End) {
    let through = |instruction| (instruction, End::Through);
    // Registers 8 to 15.
    let (low, high) = (8 + bits(word, 2, 3), 8 + bits(word, 7, 3));
    let (d, second) = (bits(word, 7, 5), bits(word, 2, 5));
    let integer = |to: u32| Instruction::of(Class::Integer).writes(general(to));
    match (word & 3, bits(word, 13, 3)) {
        (0, 0) => through(integer(low)),
        (0, 1) => through(load(32 + low, high)),
        (0, 2 | 3) => through(load(low, high)),
        (0, 5) => through(store(32 + low, high)),
        (0, 6 | 7) => through(store(low, high)),
        (1, 0 | 1) => through(integer(d).reads(general(d))),
        (1, 2 | 3) => through(integer(d)),
        (1, 4) => {
            let plain = integer(high).reads(high);
            through(if bits(word, 10, 2) == 3 { plain.reads(low) } else { plain })
        }
        (1, 5) => (Instruction::of(Class::Branch), End::Jump),
        (1, _) => (Instruction::of(Class::Branch).reads(high), End::Conditional),
        (2, 0) => through(integer(d).reads(general(d))),
        (2, 1) => through(load(32 + d, 2)),
        (2, 2 | 3) => through(load(general(d), 2)),
        (2, 4) => match (bits(word, 12, 1), d, second) {
            (_, 0, 0) => through(Instruction::of(Class::System)),
            (0, _, 0) => (Instruction::of(Class::Branch).reads(general(d)), End::Jump),
            (1, _, 0) => (Instruction::of(Class::Branch).reads(general(d)).writes(1), End::Jump),
            (0, ..) => through(integer(d).reads(general(second))),
            _ => through(integer(d).reads(general(d)).reads(general(second))),
        },
        (2, 5) => through(store(32 + second, 2)),
        (2, _) => through(store(general(second), 2)),
        _ => through(Instruction::of(Class::Integer)),
    }
}
