//! AArch64, by the encoding index of the Arm Architecture Reference Manual (DDI 0487, C4.1).

use crate::instruction::FLAGS;
use crate::{Class, End, Instruction};

/// Bits of a word.
fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

fn is(word: u32, mask: u32, value: u32) -> bool {
    word & mask == value
}

/// Number 31 is zero, or the stack pointer, for which nothing waits for long.
fn general(number: u32) -> u32 {
    if number == 31 { u32::MAX } else { number }
}

struct Fields {
    d: u32,
    n: u32,
    a: u32,
    m: u32,
}

fn fields(word: u32) -> Fields {
    Fields { d: bits(word, 0, 5), n: bits(word, 5, 5), a: bits(word, 10, 5), m: bits(word, 16, 5) }
}

pub(super) fn decode(word: u32) -> (Instruction, End) {
    match bits(word, 25, 4) {
        0b1000 | 0b1001 => (immediate(word), End::Through),
        0b1010 | 0b1011 => branch(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => (memory(word), End::Through),
        0b0101 | 0b1101 => (registers(word), End::Through),
        0b0111 | 0b1111 => (vectors(word), End::Through),
        0b0010 => (scalable(word), End::Through),
        _ => (Instruction::of(Class::Integer), End::Through),
    }
}

fn immediate(word: u32) -> Instruction {
    let Fields { d, n, m, .. } = fields(word);
    let plain = Instruction::of(Class::Integer).writes(general(d));
    let flags = |instruction: Instruction, yes| if yes { instruction.writes(FLAGS) } else { instruction };
    match bits(word, 23, 3) {
        // ADR, ADRP.
        0b000 | 0b001 => plain,
        0b010 | 0b011 => flags(plain.reads(general(n)), bits(word, 29, 1) == 1),
        0b100 => flags(plain.reads(general(n)), bits(word, 29, 2) == 3),
        // MOVK keeps the rest.
        0b101 => {
            if bits(word, 29, 2) == 3 {
                plain.reads(general(d))
            } else {
                plain
            }
        }
        0b110 => {
            if bits(word, 29, 2) == 1 {
                plain.reads(general(n)).reads(general(d))
            } else {
                plain.reads(general(n))
            }
        }
        _ => plain.reads(general(n)).reads(general(m)),
    }
}

fn branch(word: u32) -> (Instruction, End) {
    let Fields { d, n, .. } = fields(word);
    let plain = Instruction::of(Class::Branch);
    if is(word, 0xff00_0000, 0x5400_0000) {
        (plain.reads(FLAGS), End::Conditional)
    } else if is(word, 0x7c00_0000, 0x3400_0000) {
        // CBZ, CBNZ, TBZ, TBNZ.
        (plain.reads(general(d)), End::Conditional)
    } else if is(word, 0x7c00_0000, 0x1400_0000) {
        (if word >> 31 == 1 { plain.writes(30) } else { plain }, End::Jump)
    } else if is(word, 0xfe00_0000, 0xd600_0000) {
        let call = is(word, 0x0060_0000, 0x0020_0000);
        let plain = plain.reads(general(n));
        (if call { plain.writes(30) } else { plain }, End::Jump)
    } else if is(word, 0xffff_f01f, 0xd503_201f) {
        // Hints.
        (Instruction::of(Class::Integer), End::Through)
    } else if is(word, 0xffff_ffe0, 0xd53b_d040) {
        // The thread pointer.
        (Instruction::of(Class::Integer).writes(general(d)), End::Through)
    } else if is(word, 0xfff0_0000, 0xd530_0000) {
        (Instruction::of(Class::System).writes(general(d)), End::Through)
    } else {
        // Calls of the kernel come back behind themselves.
        (Instruction::of(Class::System), End::Through)
    }
}

/// A register of loads and stores.
fn data(word: u32, number: u32) -> u32 {
    if bits(word, 26, 1) == 1 { 32 + number } else { general(number) }
}

fn access(load: bool, register: u32) -> Instruction {
    if load { Instruction::of(Class::Load).writes(register) } else { Instruction::of(Class::Store).reads(register) }
}

fn memory(word: u32) -> Instruction {
    let Fields { d, n, a, m } = fields(word);
    let (base, load) = (general(n), bits(word, 22, 1) == 1);
    if is(word, 0x3f00_0000, 0x0800_0000) {
        let ordered = bits(word, 23, 1) == 1 && bits(word, 21, 1) == 0;
        return match ordered {
            // LDAR, STLR.
            true => access(load, general(d)).at(base),
            false => Instruction::of(Class::Atomic).at(base).reads(general(m)).writes(general(if load { d } else { m })),
        };
    }
    if is(word, 0x3b00_0000, 0x1800_0000) {
        return access(true, data(word, d));
    }
    if is(word, 0x3a00_0000, 0x2800_0000) {
        let one = access(load, data(word, d));
        let pair = if load { one.writes(data(word, a)) } else { one.reads(data(word, a)) };
        return if bits(word, 23, 1) == 1 { pair.moving(base) } else { pair.at(base) };
    }
    if is(word, 0xbe00_0000, 0x0c00_0000) {
        // LD1 to LD4, ST1 to ST4.
        let moves = bits(word, 23, 1) == 1;
        let one = access(load, 32 + d);
        return if moves { one.moving(base) } else { one.at(base) };
    }
    if is(word, 0x3a00_0000, 0x3800_0000) {
        return single(word);
    }
    Instruction::of(Class::Load).at(base)
}

fn single(word: u32) -> Instruction {
    let Fields { d, n, m, .. } = fields(word);
    let base = general(n);
    let vector = bits(word, 26, 1) == 1;
    let opcode = bits(word, 22, 2);
    let load = if vector { opcode & 1 == 1 } else { opcode != 0 };
    let one = access(load, data(word, d));
    if !vector && bits(word, 30, 2) == 3 && opcode == 2 {
        // PRFM.
        return Instruction::of(Class::Integer).reads(base);
    }
    if bits(word, 24, 1) == 1 {
        return one.at(base);
    }
    match (bits(word, 21, 1), bits(word, 10, 2)) {
        (0, 1 | 3) => one.moving(base),
        (1, 0) => Instruction::of(Class::Atomic).at(base).reads(general(m)).writes(general(d)),
        (1, 2) => one.at(base).at(general(m)),
        _ => one.at(base),
    }
}

fn registers(word: u32) -> Instruction {
    let Fields { d, n, a, m } = fields(word);
    let two = |class| Instruction::of(class).reads(general(n)).reads(general(m)).writes(general(d));
    if is(word, 0x1f00_0000, 0x1b00_0000) {
        return two(Class::Multiply).reads(general(a));
    }
    if is(word, 0x1f00_0000, 0x0a00_0000) {
        let plain = two(Class::Integer);
        return if bits(word, 29, 2) == 3 { plain.writes(FLAGS) } else { plain };
    }
    if is(word, 0x1f00_0000, 0x0b00_0000) {
        let plain = two(Class::Integer);
        return if bits(word, 29, 1) == 1 { plain.writes(FLAGS) } else { plain };
    }
    match bits(word, 21, 8) {
        0b1101_0000 => two(Class::Integer).reads(FLAGS),
        0b1101_0010 => {
            // CCMN, CCMP: a register or a number.
            let plain = Instruction::of(Class::Integer).reads(general(n)).reads(FLAGS).writes(FLAGS);
            if bits(word, 11, 1) == 1 { plain } else { plain.reads(general(m)) }
        }
        0b1101_0100 => two(Class::Integer).reads(FLAGS),
        0b1101_0110 if bits(word, 30, 1) == 0 => two(if matches!(bits(word, 10, 6), 2 | 3) { Class::Divide } else { Class::Integer }),
        _ => Instruction::of(Class::Integer).reads(general(n)).writes(general(d)),
    }
}

fn vectors(word: u32) -> Instruction {
    if is(word, 0x5f00_0000, 0x1f00_0000) {
        let Fields { d, n, a, m } = fields(word);
        return Instruction::of(Class::FpFused).reads(32 + n).reads(32 + m).reads(32 + a).writes(32 + d);
    }
    if is(word, 0x5f00_0000, 0x1e00_0000) { scalar(word) } else { vector(word) }
}

fn scalar(word: u32) -> Instruction {
    let Fields { d, n, m, .. } = fields(word);
    let one = |class| Instruction::of(class).reads(32 + n).writes(32 + d);
    let two = |class| one(class).reads(32 + m);
    if bits(word, 21, 1) == 0 {
        return conversion(word);
    }
    match bits(word, 10, 2) {
        2 => two(match bits(word, 12, 4) {
            0 | 8 => Class::FpMultiply,
            1 => Class::FpDivide,
            _ => Class::FpAdd,
        }),
        1 => Instruction::of(Class::FpAdd).reads(32 + n).reads(32 + m).reads(FLAGS).writes(FLAGS),
        3 => two(Class::Simd).reads(FLAGS),
        _ if bits(word, 12, 1) == 1 => Instruction::of(Class::Simd).writes(32 + d),
        _ if bits(word, 13, 1) == 1 => Instruction::of(Class::FpAdd).reads(32 + n).reads(32 + m).writes(FLAGS),
        _ if bits(word, 14, 1) == 1 => one(match bits(word, 15, 6) {
            0 => Class::Simd,
            3 => Class::FpRoot,
            _ => Class::FpAdd,
        }),
        _ => conversion(word),
    }
}

/// Between a register of integers and one of floating point.
fn conversion(word: u32) -> Instruction {
    let Fields { d, n, .. } = fields(word);
    let class = if matches!(bits(word, 16, 3), 6 | 7) { Class::Simd } else { Class::FpAdd };
    match bits(word, 16, 3) {
        2 | 3 | 7 => Instruction::of(class).reads(general(n)).writes(32 + d),
        _ => Instruction::of(class).reads(32 + n).writes(general(d)),
    }
}

fn vector(word: u32) -> Instruction {
    let Fields { d, n, m, .. } = fields(word);
    let one = |class| Instruction::of(class).reads(32 + n).writes(32 + d);
    let two = |class| one(class).reads(32 + m);
    let unsigned = bits(word, 29, 1) == 1;
    // Scalars have bit 28.
    if is(word, 0x8f20_0400, 0x0e20_0400) {
        return match (bits(word, 11, 5), unsigned) {
            (0b11001, false) => two(Class::FpFused).reads(32 + d),
            (0b11011, _) => two(Class::FpMultiply),
            (0b11111, true) => two(Class::FpDivide),
            (0b11111, false) => two(Class::FpFused),
            (0b11000.., _) => two(Class::FpAdd),
            // MLA, MLS.
            (0b10010, _) => two(Class::Simd).reads(32 + d),
            _ => two(Class::Simd),
        };
    }
    if is(word, 0x8f3e_0c00, 0x0e20_0800) {
        return one(match (bits(word, 12, 5), unsigned) {
            (0b11111, true) => Class::FpRoot,
            (0b01100.., _) => Class::FpAdd,
            _ => Class::Simd,
        });
    }
    if is(word, 0x8f3e_0c00, 0x0e30_0800) {
        // Across a vector, and of a pair.
        return one(if matches!(bits(word, 12, 5), 0b01100 | 0b01101 | 0b01111) { Class::FpAdd } else { Class::Simd });
    }
    if is(word, 0x8f00_0400, 0x0f00_0000) {
        return match bits(word, 12, 4) {
            1 | 5 => two(Class::FpFused).reads(32 + d),
            9 => two(Class::FpMultiply),
            _ => two(Class::Simd).reads(32 + d),
        };
    }
    if is(word, 0xbfe0_ec00, 0x0e00_2c00) {
        // SMOV, UMOV.
        return Instruction::of(Class::Simd).reads(32 + n).writes(general(d));
    }
    if is(word, 0xbfe0_fc00, 0x0e00_0c00) || is(word, 0xffe0_fc00, 0x4e00_1c00) {
        // DUP and INS from a register of integers.
        return Instruction::of(Class::Simd).reads(general(n)).writes(32 + d);
    }
    if is(word, 0x9ff8_0400, 0x0f00_0400) {
        // MOVI and its like.
        return Instruction::of(Class::Simd).writes(32 + d);
    }
    two(Class::Simd)
}

/// SVE: which registers, and whether memory.
fn scalable(word: u32) -> Instruction {
    let Fields { d, n, m, .. } = fields(word);
    match bits(word, 29, 3) {
        0b100..=0b110 => access(true, 32 + d).at(general(n)),
        0b111 => access(false, 32 + d).at(general(n)),
        0b011 => Instruction::of(Class::FpFused).reads(32 + n).reads(32 + m).reads(32 + d).writes(32 + d),
        _ => Instruction::of(Class::Simd).reads(32 + n).reads(32 + m).writes(32 + d),
    }
}
