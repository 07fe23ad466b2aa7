//! Decodes RV32IMAC, once for a whole program; compressed instructions become what they stand for.

/// Writes to register 0 go here, where nothing reads.
pub const NOWHERE: u8 = 32;

/// What an instruction does (The RISC-V Instruction Set Manual, volume I, 20191213).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub enum Op {
    Lui, Auipc, Jal, Jalr, Beq, Bne, Blt, Bge, Bltu, Bgeu, Lb, Lh, Lw, Lbu, Lhu, Sb, Sh, Sw,
    Addi, Slti, Sltiu, Xori, Ori, Andi, Slli, Srli, Srai, Add, Sub, Sll, Slt, Sltu, Xor, Srl, Sra, Or, And,
    Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu, Lr, Sc, Swap, AmoAdd, AmoXor, AmoAnd, AmoOr, Min, Max, Minu, Maxu,
    Fence, Illegal,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub op: Op,
    pub rd: u8,
    /// Register 0 where it reads none.
    pub rs1: u8,
    pub rs2: u8,
    pub imm: i32,
    /// Its length in the program: 2 or 4.
    pub bytes: u8,
}

/// The instruction at each even place of a program: one per half word.
pub fn program(text: &[u8]) -> Vec<Instruction> {
    let half = |place: usize| text.get(place..place + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
    let at = |place| match half(place) {
        low if low & 3 == 3 => word(u32::from(low) | u32::from(half(place + 2)) << 16),
        low => compressed(u32::from(low)),
    };
    (0..text.len()).step_by(2).map(at).collect()
}

fn register(rd: u32) -> u8 {
    if rd == 0 { NOWHERE } else { rd as u8 }
}

/// Bits `low` to `low + count` of a word.
fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// A number of so many bits, with its sign.
fn signed(value: u32, count: u32) -> i32 {
    (value << (32 - count)) as i32 >> (32 - count)
}

/// Decodes an instruction of 32 bits.
pub fn word(word: u32) -> Instruction {
    use Op::*;
    let (rd, rs1, rs2) = (register(bits(word, 7, 5)), bits(word, 15, 5) as u8, bits(word, 20, 5) as u8);
    let (three, seven) = (bits(word, 12, 3), bits(word, 25, 7));
    let immediate = word as i32 >> 20;
    let store = word as i32 >> 25 << 5 | bits(word, 7, 5) as i32;
    let branch = signed(bits(word, 31, 1) << 12 | bits(word, 7, 1) << 11 | bits(word, 25, 6) << 5 | bits(word, 8, 4) << 1, 13);
    let jump = signed(bits(word, 31, 1) << 20 | bits(word, 12, 8) << 12 | bits(word, 20, 1) << 11 | bits(word, 21, 10) << 1, 21);
    let pick = |ops: [Op; 8]| ops[three as usize];
    let (op, imm) = match word & 0x7f {
        0x37 => (Lui, (word & !0xfff) as i32),
        0x17 => (Auipc, (word & !0xfff) as i32),
        0x6f => (Jal, jump),
        0x67 if three == 0 => (Jalr, immediate),
        0x63 => (pick([Beq, Bne, Illegal, Illegal, Blt, Bge, Bltu, Bgeu]), branch),
        0x03 => (pick([Lb, Lh, Lw, Illegal, Lbu, Lhu, Illegal, Illegal]), immediate),
        0x23 => (pick([Sb, Sh, Sw, Illegal, Illegal, Illegal, Illegal, Illegal]), store),
        0x13 => match (three, seven) {
            (1, 0) => (Slli, rs2.into()),
            (5, 0) => (Srli, rs2.into()),
            (5, 0x20) => (Srai, rs2.into()),
            (1 | 5, _) => (Illegal, 0),
            _ => (pick([Addi, Illegal, Slti, Sltiu, Xori, Illegal, Ori, Andi]), immediate),
        },
        0x33 => match (three, seven) {
            (_, 0) => (pick([Add, Sll, Slt, Sltu, Xor, Srl, Or, And]), 0),
            (_, 1) => (pick([Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu]), 0),
            (0, 0x20) => (Sub, 0),
            (5, 0x20) => (Sra, 0),
            _ => (Illegal, 0),
        },
        0x2f if three == 2 => match bits(word, 27, 5) {
            0x02 if rs2 == 0 => (Lr, 0),
            0x03 => (Sc, 0),
            0x01 => (Swap, 0),
            0x00 => (AmoAdd, 0),
            0x04 => (AmoXor, 0),
            0x0c => (AmoAnd, 0),
            0x08 => (AmoOr, 0),
            0x10 => (Min, 0),
            0x14 => (Max, 0),
            0x18 => (Minu, 0),
            0x1c => (Maxu, 0),
            _ => (Illegal, 0),
        },
        0x0f => (Fence, 0),
        _ => (Illegal, 0),
    };
    let (rs1, rs2) = match word & 0x7f {
        0x37 | 0x17 | 0x6f => (0, 0),
        0x67 | 0x03 | 0x13 => (rs1, 0),
        _ => (rs1, rs2),
    };
    Instruction { op, rd, rs1, rs2, imm, bytes: 4 }
}

/// Decodes an instruction of 16 bits.
fn compressed(half: u32) -> Instruction {
    use Op::*;
    let new = |op, rd: u32, rs1: u32, rs2: u32, imm| Instruction { op, rd: register(rd), rs1: rs1 as u8, rs2: rs2 as u8, imm, bytes: 2 };
    let illegal = new(Illegal, 0, 0, 0, 0);
    let (rd, rs2) = (bits(half, 7, 5), bits(half, 2, 5));
    // Registers 8 to 15.
    let (near1, near2) = (8 + bits(half, 7, 3), 8 + bits(half, 2, 3));
    let six = signed(bits(half, 12, 1) << 5 | rs2, 6);
    let shift = (bits(half, 12, 1) << 5 | rs2) as i32;
    let word_place = (bits(half, 10, 3) << 3 | bits(half, 6, 1) << 2 | bits(half, 5, 1) << 6) as i32;
    let jump = || {
        let parts = [(12, 11), (11, 4), (8, 10), (6, 7), (7, 6), (2, 5)];
        let single = parts.iter().fold(0, |sum, &(from, to)| sum | bits(half, from, 1) << to);
        signed(single | bits(half, 9, 2) << 8 | bits(half, 3, 3) << 1, 12)
    };
    let branch = || {
        let far = bits(half, 12, 1) << 8 | bits(half, 10, 2) << 3 | bits(half, 5, 2) << 6;
        signed(far | bits(half, 3, 2) << 1 | bits(half, 2, 1) << 5, 9)
    };
    match (half & 3, bits(half, 13, 3)) {
        (0, 0) => {
            let imm = bits(half, 11, 2) << 4 | bits(half, 7, 4) << 6 | bits(half, 6, 1) << 2 | bits(half, 5, 1) << 3;
            if imm == 0 { illegal } else { new(Addi, near2, 2, 0, imm as i32) }
        }
        (0, 2) => new(Lw, near2, near1, 0, word_place),
        (0, 6) => new(Sw, 0, near1, near2, word_place),
        (1, 0) => new(Addi, rd, rd, 0, six),
        (1, 1) => new(Jal, 1, 0, 0, jump()),
        (1, 2) => new(Addi, rd, 0, 0, six),
        (1, 3) if rd == 2 => {
            let imm =
                bits(half, 12, 1) << 9 | bits(half, 6, 1) << 4 | bits(half, 5, 1) << 6 | bits(half, 3, 2) << 7 | bits(half, 2, 1) << 5;
            if imm == 0 { illegal } else { new(Addi, 2, 2, 0, signed(imm, 10)) }
        }
        (1, 3) if six != 0 => new(Lui, rd, 0, 0, six << 12),
        (1, 4) => match (bits(half, 10, 2), bits(half, 12, 1), bits(half, 5, 2)) {
            (0, 0, _) => new(Srli, near1, near1, 0, shift),
            (1, 0, _) => new(Srai, near1, near1, 0, shift),
            (2, ..) => new(Andi, near1, near1, 0, six),
            (3, 0, op) => new([Sub, Xor, Or, And][op as usize], near1, near1, near2, 0),
            _ => illegal,
        },
        (1, 5) => new(Jal, 0, 0, 0, jump()),
        (1, 6) => new(Beq, 0, near1, 0, branch()),
        (1, 7) => new(Bne, 0, near1, 0, branch()),
        (2, 0) if shift < 32 => new(Slli, rd, rd, 0, shift),
        (2, 2) if rd != 0 => {
            let imm = bits(half, 12, 1) << 5 | bits(half, 4, 3) << 2 | bits(half, 2, 2) << 6;
            new(Lw, rd, 2, 0, imm as i32)
        }
        (2, 4) => match (bits(half, 12, 1), rd, rs2) {
            (_, 0, _) => illegal,
            (0, _, 0) => new(Jalr, 0, rd, 0, 0),
            (0, ..) => new(Add, rd, 0, rs2, 0),
            (_, _, 0) => new(Jalr, 1, rd, 0, 0),
            _ => new(Add, rd, rd, rs2, 0),
        },
        (2, 6) => new(Sw, 0, 2, rs2, (bits(half, 9, 4) << 2 | bits(half, 7, 2) << 6) as i32),
        _ => illegal,
    }
}
