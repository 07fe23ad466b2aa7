//! ARM64: AAPCS64 (Procedure Call Standard for the Arm 64-bit Architecture, ARM IHI 0055).

use std::ffi::CStr;

/// Integer arguments that are passed in registers.
pub const REGISTERS: usize = 8;

/// The oldest version of symbols in the C library.
pub const FIRST_GLIBC: &CStr = c"GLIBC_2.17";

/// Ticks of the counter between two such looks: 10 us at 1 GHz, which it has from Armv8.6 on and under qemu. Where it
/// is slower, looks are rarer.
pub const TICKS: u64 = 10_000;

/// Reads a counter that is steady enough to say whether a look is due.
#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

// In a `global_asm` because a naked function has no unwind information of its own. x16 and x17 are free between a call
// and the function that is called.
core::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl narrows_preload_common",
    ".hidden narrows_preload_common",
    ".type narrows_preload_common, @function",
    "narrows_preload_common:",
    ".cfi_startproc",
    "stp x29, x30, [sp, -16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa_register x29",
    // 9 general registers, 8 bytes of padding, 8 vector registers; above them x19 and x20.
    "sub sp, sp, 224",
    "stp x19, x20, [x29, -16]",
    ".cfi_offset x19, -32",
    ".cfi_offset x20, -24",
    "stp x0, x1, [sp]",
    "stp x2, x3, [sp, 16]",
    "stp x4, x5, [sp, 32]",
    "stp x6, x7, [sp, 48]",
    "str x8, [sp, 64]",
    "stp q0, q1, [sp, 80]",
    "stp q2, q3, [sp, 112]",
    "stp q4, q5, [sp, 144]",
    "stp q6, q7, [sp, 176]",
    "mov w0, w16",
    "mov x1, sp",
    "add x2, x29, 16",
    "bl {enter}",
    "mov x16, x0",
    "mov x19, x1",
    "mov x20, sp",
    // Copy of the stack arguments: none if there is no mark.
    "lsr x9, x19, 32",
    "sub sp, sp, x9, lsl 3",
    "add x10, x29, 16",
    "2:",
    "cbz x9, 3f",
    "sub x9, x9, 1",
    "ldr x11, [x10, x9, lsl 3]",
    "str x11, [sp, x9, lsl 3]",
    "b 2b",
    "3:",
    "ldp x0, x1, [x20]",
    "ldp x2, x3, [x20, 16]",
    "ldp x4, x5, [x20, 32]",
    "ldp x6, x7, [x20, 48]",
    "ldr x8, [x20, 64]",
    "ldp q0, q1, [x20, 80]",
    "ldp q2, q3, [x20, 112]",
    "ldp q4, q5, [x20, 144]",
    "ldp q6, q7, [x20, 176]",
    "cbz x19, 4f",
    "blr x16",
    "sub sp, x29, 224",
    "stp x0, x1, [sp]",
    "stp q0, q1, [sp, 80]",
    "sub w0, w19, 1",
    "mov x1, sp",
    "bl {leave}",
    "ldp x0, x1, [sp]",
    "ldp q0, q1, [sp, 80]",
    "ldp x19, x20, [x29, -16]",
    ".cfi_remember_state",
    "mov sp, x29",
    "ldp x29, x30, [sp], 16",
    ".cfi_def_cfa sp, 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    "4:",
    ".cfi_restore_state",
    "ldp x19, x20, [x29, -16]",
    "mov sp, x29",
    "ldp x29, x30, [sp], 16",
    ".cfi_def_cfa sp, 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "br x16",
    ".cfi_endproc",
    ".size narrows_preload_common, . - narrows_preload_common",
    enter = sym crate::trampoline::enter,
    leave = sym crate::trampoline::leave,
);

libc_locks!("GLIBC_2.17": "adrp x16, :got:\\function", "ldr x16, [x16, :got_lo12:\\function]", "br x16");

/// The body of a naked function: the index of a symbol, and a jump.
macro_rules! stub {
    ($slot:literal, $common:path) => {
        core::arch::naked_asm!("mov w16, {slot}", "b {common}", slot = const $slot, common = sym $common)
    };
}

/// The body of a naked function without arguments: `$from` is told the address to which it returns.
macro_rules! caller_first {
    ($from:path) => {
        core::arch::naked_asm!("mov x0, x30", "b {from}", from = sym $from)
    };
}

/// The same behind one argument.
macro_rules! caller_second {
    ($from:path) => {
        core::arch::naked_asm!("mov x1, x30", "b {from}", from = sym $from)
    };
}

/// The same behind two arguments.
macro_rules! caller_third {
    ($from:path) => {
        core::arch::naked_asm!("mov x2, x30", "b {from}", from = sym $from)
    };
}

/// `dlsym`: RTLD_NEXT goes to the function at `$known`, found by `$find`, by a jump; all else to `$filtered`.
macro_rules! dlsym {
    ($known:path, $find:path, $filtered:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
            core::arch::naked_asm!(
                "cmn x0, 1", // RTLD_NEXT (dlfcn.h) is -1
                "b.ne 3f",
                "adrp x16, {known}",
                "ldr x16, [x16, :lo12:{known}]",
                "cbnz x16, 2f",
                "stp x29, x30, [sp, -32]!",
                "mov x29, sp",
                "stp x0, x1, [sp, 16]",
                "bl {find}",
                "mov x16, x0",
                "ldp x0, x1, [sp, 16]",
                "ldp x29, x30, [sp], 32",
                "2:",
                "br x16",
                "3:",
                "b {filtered}",
                known = sym $known,
                find = sym $find,
                filtered = sym $filtered,
            )
        }
    };
}

pub(crate) use {caller_first, caller_second, caller_third, dlsym, stub};
