//! RISC-V of 64 bits with floating point in registers: the psABI's calling convention lp64d.

use std::ffi::CStr;

/// Integer arguments that are passed in registers.
pub const REGISTERS: usize = 8;

/// The oldest version of symbols in the C library.
pub const FIRST_GLIBC: &CStr = c"GLIBC_2.27";

/// Ticks of the counter between two such looks: 10 us at 1 GHz. Where it is slower, looks are rarer.
pub const TICKS: u64 = 10_000;

/// Reads a counter that is steady enough to say whether a look is due.
#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { core::arch::asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

// In a `global_asm` because a naked function has no unwind information of its own. The index comes in t0: a jump to a
// far place may need t1.
core::arch::global_asm!(
    ".text",
    ".option push",
    ".option arch, +d",
    ".p2align 4",
    ".globl narrows_preload_common",
    ".hidden narrows_preload_common",
    ".type narrows_preload_common, @function",
    "narrows_preload_common:",
    ".cfi_startproc",
    // 8 general registers, 8 vector registers, s2, s1, s0 and the return address.
    "addi sp, sp, -160",
    ".cfi_def_cfa_offset 160",
    "sd ra, 152(sp)",
    ".cfi_offset ra, -8",
    "sd s0, 144(sp)",
    ".cfi_offset s0, -16",
    "sd s1, 136(sp)",
    ".cfi_offset s1, -24",
    "sd s2, 128(sp)",
    ".cfi_offset s2, -32",
    "addi s0, sp, 160",
    ".cfi_def_cfa s0, 0",
    "sd a0, 0(sp)",
    "sd a1, 8(sp)",
    "sd a2, 16(sp)",
    "sd a3, 24(sp)",
    "sd a4, 32(sp)",
    "sd a5, 40(sp)",
    "sd a6, 48(sp)",
    "sd a7, 56(sp)",
    "fsd fa0, 64(sp)",
    "fsd fa1, 72(sp)",
    "fsd fa2, 80(sp)",
    "fsd fa3, 88(sp)",
    "fsd fa4, 96(sp)",
    "fsd fa5, 104(sp)",
    "fsd fa6, 112(sp)",
    "fsd fa7, 120(sp)",
    "mv a0, t0",
    "mv a1, sp",
    "mv a2, s0",
    "call {enter}",
    "mv t0, a0",
    "mv s1, a1",
    "mv s2, sp",
    // Copy of the stack arguments: none if there is no mark.
    "srli t1, s1, 32",
    "slli t2, t1, 3",
    "sub sp, sp, t2",
    "2:",
    "beqz t1, 3f",
    "addi t1, t1, -1",
    "slli t2, t1, 3",
    "add t3, s0, t2",
    "ld t4, 0(t3)",
    "add t3, sp, t2",
    "sd t4, 0(t3)",
    "j 2b",
    "3:",
    "ld a0, 0(s2)",
    "ld a1, 8(s2)",
    "ld a2, 16(s2)",
    "ld a3, 24(s2)",
    "ld a4, 32(s2)",
    "ld a5, 40(s2)",
    "ld a6, 48(s2)",
    "ld a7, 56(s2)",
    "fld fa0, 64(s2)",
    "fld fa1, 72(s2)",
    "fld fa2, 80(s2)",
    "fld fa3, 88(s2)",
    "fld fa4, 96(s2)",
    "fld fa5, 104(s2)",
    "fld fa6, 112(s2)",
    "fld fa7, 120(s2)",
    "beqz s1, 4f",
    "jalr t0",
    "addi sp, s0, -160",
    "sd a0, 0(sp)",
    "sd a1, 8(sp)",
    "fsd fa0, 64(sp)",
    "fsd fa1, 72(sp)",
    "addiw a0, s1, -1",
    "mv a1, sp",
    "call {leave}",
    "ld a0, 0(sp)",
    "ld a1, 8(sp)",
    "fld fa0, 64(sp)",
    "fld fa1, 72(sp)",
    ".cfi_remember_state",
    ".cfi_def_cfa sp, 160",
    "ld s2, 128(sp)",
    "ld s1, 136(sp)",
    "ld s0, 144(sp)",
    "ld ra, 152(sp)",
    "addi sp, sp, 160",
    ".cfi_def_cfa_offset 0",
    "ret",
    "4:",
    ".cfi_restore_state",
    ".cfi_def_cfa sp, 160",
    "ld s2, 128(sp)",
    "ld s1, 136(sp)",
    "ld s0, 144(sp)",
    "ld ra, 152(sp)",
    "addi sp, sp, 160",
    ".cfi_def_cfa_offset 0",
    "jr t0",
    ".cfi_endproc",
    ".size narrows_preload_common, . - narrows_preload_common",
    ".option pop",
    enter = sym crate::trampoline::enter,
    leave = sym crate::trampoline::leave,
);

libc_locks!("GLIBC_2.27": "9: auipc t0, %got_pcrel_hi(\\function)", "ld t0, %pcrel_lo(9b)(t0)", "jr t0");

/// The body of a naked function: the index of a symbol, and a jump.
macro_rules! stub {
    ($slot:literal, $common:path) => {
        core::arch::naked_asm!("li t0, {slot}", "tail {common}", slot = const $slot, common = sym $common)
    };
}

/// The body of a naked function without arguments: `$from` is told the address to which it returns.
macro_rules! caller_first {
    ($from:path) => {
        core::arch::naked_asm!("mv a0, ra", "tail {from}", from = sym $from)
    };
}

/// The same behind one argument.
macro_rules! caller_second {
    ($from:path) => {
        core::arch::naked_asm!("mv a1, ra", "tail {from}", from = sym $from)
    };
}

/// The same behind two arguments.
macro_rules! caller_third {
    ($from:path) => {
        core::arch::naked_asm!("mv a2, ra", "tail {from}", from = sym $from)
    };
}

/// `dlsym`: RTLD_NEXT goes to the function at `$known`, found by `$find`, by a jump; all else to `$filtered`.
macro_rules! dlsym {
    ($known:path, $find:path, $filtered:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
            core::arch::naked_asm!(
                "li t0, -1", // RTLD_NEXT (dlfcn.h)
                "bne a0, t0, 3f",
                "lla t0, {known}",
                "ld t0, 0(t0)",
                "bnez t0, 2f",
                "addi sp, sp, -32",
                "sd ra, 24(sp)",
                "sd a0, 16(sp)",
                "sd a1, 8(sp)",
                "call {find}",
                "mv t0, a0",
                "ld a1, 8(sp)",
                "ld a0, 16(sp)",
                "ld ra, 24(sp)",
                "addi sp, sp, 32",
                "2:",
                "jr t0",
                "3:",
                "tail {filtered}",
                known = sym $known,
                find = sym $find,
                filtered = sym $filtered,
            )
        }
    };
}

pub(crate) use {caller_first, caller_second, caller_third, dlsym, stub};
