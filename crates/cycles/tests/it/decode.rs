//! Decoders, over what compilers make of `snippets/snippet.c` (`snippets/make.sh`): the class of each instruction must
//! be that of its name, as a disassembler writes it, and its registers those of the text.

use narrows_cycles::decode::Isa;
use narrows_cycles::{Class, End, Instruction};

/// Class and end by a name; of several that fit the first.
type Names = [(&'static [&'static str], Class, End)];

const ARM64: &Names = &[
    (&["b.", "cb", "tb"], Class::Branch, End::Conditional),
    (&["bl", "br", "ret", "b"], Class::Branch, End::Jump),
    (&["ldaxr", "stlxr", "ldxr", "stxr"], Class::Atomic, End::Through),
    (&["ld"], Class::Load, End::Through),
    (&["st"], Class::Store, End::Through),
    (&["dmb"], Class::System, End::Through),
    (&["madd", "umull", "mul", "smull", "msub"], Class::Multiply, End::Through),
    (&["sdiv", "udiv"], Class::Divide, End::Through),
    (&["fdiv"], Class::FpDivide, End::Through),
    (&["fsqrt"], Class::FpRoot, End::Through),
    (&["fmul"], Class::FpMultiply, End::Through),
    (&["fmadd", "fmla", "fmls", "fmsub"], Class::FpFused, End::Through),
    (&["fmov"], Class::Simd, End::Through),
    (&["f", "scvtf", "ucvtf"], Class::FpAdd, End::Through),
    (&["addv", "cmeq", "cmhs", "dup", "movi", "uaddw", "uxtl", "tbl", "umov"], Class::Simd, End::Through),
];

const RISCV: &Names = &[
    (&["beq", "bge", "ble", "bltu", "bne", "blt"], Class::Branch, End::Conditional),
    (&["jalr", "jr", "ret", "j"], Class::Branch, End::Jump),
    (&["amo", "lr.", "sc."], Class::Atomic, End::Through),
    (&["fence"], Class::System, End::Through),
    (&["mul"], Class::Multiply, End::Through),
    (&["div", "rem"], Class::Divide, End::Through),
    (&["fld", "flw", "lb", "ld", "lh", "lw"], Class::Load, End::Through),
    (&["fsd", "fsw"], Class::Store, End::Through),
    (&["fadd", "fsub", "fabs", "fcvt", "fmin", "fmv"], Class::FpAdd, End::Through),
    (&["fdiv"], Class::FpDivide, End::Through),
    (&["fsqrt"], Class::FpRoot, End::Through),
    (&["fmadd"], Class::FpFused, End::Through),
    (&["fmul"], Class::FpMultiply, End::Through),
];

const X86: &Names = &[
    (&["call", "jmp", "ret"], Class::Branch, End::Jump),
    (&["j"], Class::Branch, End::Conditional),
    (&["lock"], Class::Atomic, End::Through),
    (&["imul", "mul"], Class::Multiply, End::Through),
    (&["idiv", "div"], Class::Divide, End::Through),
    (&["vadd", "vsub", "vmin", "vcvt"], Class::FpAdd, End::Through),
    (&["vmul"], Class::FpMultiply, End::Through),
    (&["vdiv"], Class::FpDivide, End::Through),
    (&["vsqrt"], Class::FpRoot, End::Through),
    (&["vfmadd"], Class::FpFused, End::Through),
    (&["v"], Class::Simd, End::Through),
];

/// What stands in a text: bytes in the order of memory, the name, the operands.
fn lines(text: &str, words: bool) -> Vec<(Vec<u8>, &str, &str)> {
    let line = |line: &'static str| {
        let (bytes, text) = line.split_once('\t').expect("bytes and words");
        let bytes: Vec<u8> = bytes.split(' ').flat_map(|part| byte_list(part, words)).collect();
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        (bytes, name, operands)
    };
    // Texts are in the program.
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    text.lines().map(line).collect()
}

fn byte_list(part: &str, words: bool) -> Vec<u8> {
    let bytes = (0..part.len() / 2).map(|at| u8::from_str_radix(&part[2 * at..2 * at + 2], 16).expect("a byte"));
    if words { bytes.rev().collect() } else { bytes.collect() }
}

fn expected(names: &Names, name: &str) -> (Class, End) {
    let found = names.iter().find(|(starts, ..)| starts.iter().any(|start| name.starts_with(start)));
    found.map_or((Class::Integer, End::Through), |&(_, class, end)| (class, end))
}

/// Vectors of ARM64 have names that scalars have, too: what they are the registers say.
fn of_arm64(name: &str, operands: &str) -> (Class, End) {
    let vector = operands.split(',').any(|operand| operand.trim_start_matches(['{', ' ']).starts_with('v'));
    match expected(ARM64, name) {
        (Class::Integer | Class::Multiply, End::Through) if vector => (Class::Simd, End::Through),
        (Class::Branch, _) if vector => (Class::Simd, End::Through),
        other => other,
    }
}

/// Whether it reads memory, and writes it.
fn has_memory(instruction: &Instruction) -> (bool, bool) {
    (instruction.loads, instruction.stores)
}

/// The number of a register in a text, as the model has it; `None`: zero, a stack pointer, or no register.
fn arm64_register(text: &str) -> Option<u32> {
    let text = text.trim_matches(|letter: char| "[]{}!, ".contains(letter));
    let (kind, rest) = text.split_at_checked(1)?;
    let number: u32 = rest.split('.').next()?.parse().ok()?;
    match kind {
        "w" | "x" => Some(number),
        "b" | "h" | "s" | "d" | "q" | "v" => Some(32 + number),
        _ => None,
    }
}

fn riscv_register(text: &str) -> Option<u32> {
    let text = text.trim_matches(|letter: char| "() ".contains(letter));
    let text = text.split('(').next_back()?;
    let number = |rest: &str, low: u32, split: u32, high: u32| {
        let number: u32 = rest.parse().ok()?;
        Some(if number < split { low + number } else { high + number - split })
    };
    match text {
        "ra" => return Some(1),
        "zero" | "sp" => return None,
        _ => {}
    }
    let (kind, rest) = text.split_at_checked(if text.starts_with('f') { 2 } else { 1 })?;
    match kind {
        "a" => number(rest, 10, 8, 18),
        "t" => number(rest, 5, 3, 28),
        "s" => number(rest, 8, 2, 18),
        "fa" => number(rest, 42, 8, 50),
        "ft" => number(rest, 32, 8, 60),
        "fs" => number(rest, 40, 2, 50),
        _ => None,
    }
}

/// The first register is written by what computes or loads; all others are read.
fn registers_fit(instruction: &Instruction, registers: &[u32], first_is_target: bool) -> bool {
    let read = instruction.address | instruction.sources;
    let written = instruction.targets | instruction.moves;
    let is_in = |set: u128, register: &u32| set >> register & 1 == 1;
    match registers.split_first() {
        Some((first, others)) if first_is_target => is_in(written, first) && others.iter().all(|other| is_in(read, other)),
        _ => registers.iter().all(|register| is_in(read, register)),
    }
}

#[test]
fn arm64_by_name() {
    for (bytes, name, operands) in lines(include_str!("../snippets/aarch64.txt"), true) {
        let (instruction, end) = Isa::Arm64.decode(&bytes, 0);
        assert_eq!((instruction.class, end), of_arm64(name, operands), "{name} {operands}");
        let memory = match instruction.class {
            Class::Load => (true, false),
            Class::Store => (false, true),
            Class::Atomic => (true, true),
            _ => (false, false),
        };
        assert_eq!(
            (has_memory(&instruction), operands.contains("[x") || operands.contains("[sp")),
            (memory, memory != (false, false)),
            "{name} {operands}"
        );
        // A pair has two targets, and an exclusive store a status.
        if name == "ldp" || name == "adrp" || instruction.class == Class::Atomic {
            continue;
        }
        let registers: Vec<u32> = operands.split(',').filter_map(arm64_register).collect();
        let is_target = !matches!(instruction.class, Class::Store | Class::Branch)
            && !matches!(name, "cmp" | "tst" | "fcmp" | "fcmpe" | "cmn" | "ccmp");
        let zero = operands.starts_with("wzr") || operands.starts_with("xzr") || operands.starts_with("sp");
        assert!(registers_fit(&instruction, &registers, is_target && !zero), "{name} {operands}: {instruction:?}");
    }
}

#[test]
fn riscv_by_name() {
    for (bytes, name, operands) in lines(include_str!("../snippets/riscv64.txt"), true) {
        let (instruction, end) = Isa::Riscv64.decode(&bytes, 0);
        let (class, wanted) = match name {
            // Stores of one letter are the beginning of other names.
            "sb" | "sh" | "sw" | "sd" => (Class::Store, End::Through),
            _ => expected(RISCV, name),
        };
        assert_eq!((instruction.class, end), (class, wanted), "{name} {operands}");
        let memory = matches!(class, Class::Load | Class::Store | Class::Atomic);
        assert_eq!(operands.contains('('), memory, "{name} {operands}");
        assert_eq!(
            has_memory(&instruction),
            (class == Class::Load || class == Class::Atomic, class == Class::Store || class == Class::Atomic)
        );
        let registers: Vec<u32> = operands.split(',').filter_map(riscv_register).collect();
        let is_target =
            !matches!(class, Class::Store | Class::Branch | Class::System) && !operands.starts_with("zero") && !operands.starts_with("sp");
        assert!(registers_fit(&instruction, &registers, is_target), "{name} {operands}: {instruction:?}");
    }
}

#[test]
fn x86_by_name() {
    for (bytes, name, operands) in lines(include_str!("../snippets/x86_64.txt"), false) {
        let (instruction, end) = Isa::X86.decode(&bytes, 0x1000);
        let memory = operands.contains('(') && !matches!(name, "lea" | "nop" | "nopl" | "nopw" | "cs" | "data16");
        let (mut class, wanted) = expected(X86, name);
        // Moves between registers and memory are loads and stores.
        let moves = ["mov", "vmov", "push", "pop"].iter().any(|start| name.starts_with(start));
        if moves && (memory || matches!(name, "push" | "pop")) {
            let last = operands.rsplit(',').next().unwrap();
            class = if operands.ends_with(')') && last.contains(')') || name == "push" { Class::Store } else { Class::Load };
        }
        if name == "xchg" && memory {
            class = Class::Atomic;
        }
        assert_eq!((instruction.class, end), (class, wanted), "{name} {operands}: {instruction:?}");
        let touches = memory || matches!(name, "push" | "pop" | "ret" | "call");
        assert_eq!(instruction.loads || instruction.stores, touches, "{name} {operands}");
    }
}

#[test]
fn a_block_is_what_follows_each_other_and_ends_as_its_last_instruction_does() {
    // subs x1, x1, #1; b.ne .-4
    let block = Isa::Arm64.block([(0x100, &[0x21, 0x04, 0x00, 0xf1][..]), (0x104, &[0xe1, 0xff, 0xff, 0x54][..])]);
    assert_eq!((block.begin, block.behind, block.end), (0x100, 0x108, End::Conditional));
    assert_eq!(block.instructions.len(), 2);
}

#[test]
fn any_bytes_are_an_instruction() {
    let mut state = 1_u64;
    for _ in 0..1_000_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bytes = (state >> 7).to_le_bytes();
        for isa in [Isa::Arm64, Isa::Riscv64] {
            let (instruction, _) = isa.decode(&bytes[..4], 0);
            assert!(instruction.targets >> 65 == 0);
        }
        Isa::X86.decode(&bytes, 0);
    }
    for isa in [Isa::Arm64, Isa::Riscv64, Isa::X86] {
        isa.decode(&[], 0);
    }
}
