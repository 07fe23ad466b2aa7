//! x86-64, decoded by iced-x86.

use crate::instruction::FLAGS;
use crate::{Class, End, Instruction};
use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

pub(super) fn decode(bytes: &[u8], address: u64) -> (Instruction, End) {
    let decoded = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    if decoded.is_invalid() {
        return (Instruction::of(Class::Integer), End::Through);
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&decoded);
    let mut instruction = Instruction { loads: false, stores: false, ..Instruction::of(Class::Integer) };
    for used in info.used_memory() {
        instruction.loads |= reads(used.access());
        instruction.stores |= writes(used.access());
        instruction = instruction.at(number(used.base())).at(number(used.index()));
    }
    for used in info.used_registers() {
        let register = number(used.register());
        if reads(used.access()) {
            instruction = instruction.reads(register);
        }
        if writes(used.access()) {
            instruction = instruction.writes(register);
        }
    }
    // What only the address is made of is no source.
    instruction.sources &= !instruction.address | instruction.targets;
    if decoded.rflags_read() != 0 {
        instruction = instruction.reads(FLAGS);
    }
    if decoded.rflags_modified() != 0 {
        instruction = instruction.writes(FLAGS);
    }
    let (flow, end) = match decoded.flow_control() {
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => (false, End::Through),
        FlowControl::ConditionalBranch => (true, End::Conditional),
        FlowControl::Call | FlowControl::IndirectCall if decoded.mnemonic() == Mnemonic::Syscall => (false, End::Through),
        _ => (true, End::Jump),
    };
    let moves = matches!(decoded.mnemonic(), Mnemonic::Push | Mnemonic::Pop) || is_move(decoded.mnemonic());
    instruction.class = match class(decoded.mnemonic()) {
        _ if flow => Class::Branch,
        _ if decoded.has_lock_prefix() || decoded.mnemonic() == Mnemonic::Xchg && instruction.stores => Class::Atomic,
        Class::Integer | Class::Simd if moves && instruction.loads && !instruction.stores => Class::Load,
        Class::Integer | Class::Simd if moves && instruction.stores && !instruction.loads => Class::Store,
        class => class,
    };
    (instruction, end)
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// As the model numbers registers. A unit of its own follows the stack pointer.
fn number(register: Register) -> u32 {
    let full = register.full_register();
    match full {
        Register::RSP => u32::MAX,
        _ if full.is_gpr() => full.number() as u32,
        _ if full.is_vector_register() => 32 + full.number() as u32,
        _ if full.is_st() || full.is_mm() => 96 + full.number() as u32,
        _ => u32::MAX,
    }
}

/// As assemblers write it.
fn name(mnemonic: Mnemonic) -> String {
    format!("{mnemonic:?}").to_lowercase()
}

/// Only moves data.
fn is_move(mnemonic: Mnemonic) -> bool {
    let name = name(mnemonic);
    let plain = name.strip_prefix('v').unwrap_or(&name);
    ["mov", "lddqu", "broadcast"].iter().any(|start| plain.starts_with(start))
}

/// By the names of instructions: those of vectors end in ps, pd, ss and sd, and may begin with a v.
fn class(mnemonic: Mnemonic) -> Class {
    use Class::{Divide, FpAdd, FpDivide, FpFused, FpMultiply, FpRoot, Integer, Multiply, Simd, System};
    let name = name(mnemonic);
    let plain = name.strip_prefix('v').unwrap_or(&name);
    let starts = |words: &[&str]| words.iter().any(|word| plain.starts_with(word));
    match &*name {
        "mul" | "imul" | "mulx" => return Multiply,
        "div" | "idiv" => return Divide,
        "cpuid" | "mfence" | "lfence" | "sfence" | "syscall" | "rdtsc" | "rdtscp" | "xgetbv" | "fldcw" | "fnstcw" | "ldmxcsr"
        | "stmxcsr" | "pause" => return System,
        "fadd" | "faddp" | "fsub" | "fsubp" | "fsubr" | "fsubrp" | "fcomi" | "fcomip" | "fucomi" | "fucomip" | "fild" | "fistp" => {
            return FpAdd;
        }
        "fmul" | "fmulp" => return FpMultiply,
        "fdiv" | "fdivp" | "fdivr" | "fdivrp" => return FpDivide,
        "fsqrt" => return FpRoot,
        _ => {}
    }
    if starts(&["cvt", "comis", "ucomis"]) {
        return FpAdd;
    }
    if ["ps", "pd", "ss", "sd"].iter().any(|end| name.ends_with(end)) && !starts(&["mov"]) {
        return match plain {
            _ if starts(&["mul"]) => FpMultiply,
            _ if starts(&["div"]) => FpDivide,
            _ if starts(&["sqrt"]) => FpRoot,
            _ if starts(&["fmadd", "fmsub", "fnmadd", "fnmsub"]) => FpFused,
            _ if starts(&["add", "sub", "max", "min", "cmp", "hadd", "round", "dp"]) => FpAdd,
            _ => Simd,
        };
    }
    let packed = name.starts_with('p') && !starts(&["push", "pop", "prefetch", "pdep", "pext"]);
    let moves = starts(&["movdq", "movap", "movup", "movhp", "movlp", "movss", "movq", "movd"]);
    if name.starts_with('v') || packed || moves { Simd } else { Integer }
}
