//! x86-64: System V ABI.

use std::ffi::CStr;
use std::ffi::{c_long, c_void};

/// Integer arguments that are passed in registers.
pub const REGISTERS: usize = 6;

/// The oldest version of symbols in the C library.
pub const FIRST_GLIBC: &CStr = c"GLIBC_2.2.5";

/// Ticks of the time stamp counter between two such looks: some 10 us. Our own choice, well below what a thread may be
/// ahead.
pub const TICKS: u64 = 30_000;

/// Reads a counter that is steady enough to say whether a look is due.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

// In a `global_asm` because a naked function has no unwind information of its own.
core::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl narrows_preload_common",
    ".hidden narrows_preload_common",
    ".type narrows_preload_common, @function",
    "narrows_preload_common:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    ".cfi_offset rbx, -24",
    // 7 general registers, 8 bytes of padding, 8 vector registers; rsp is a multiple of 16 afterwards.
    "sub rsp, 200",
    "mov [rsp], rdi",
    "mov [rsp + 8], rsi",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], rcx",
    "mov [rsp + 32], r8",
    "mov [rsp + 40], r9",
    "mov [rsp + 48], rax",
    "movaps [rsp + 64], xmm0",
    "movaps [rsp + 80], xmm1",
    "movaps [rsp + 96], xmm2",
    "movaps [rsp + 112], xmm3",
    "movaps [rsp + 128], xmm4",
    "movaps [rsp + 144], xmm5",
    "movaps [rsp + 160], xmm6",
    "movaps [rsp + 176], xmm7",
    "mov edi, r11d",
    "mov rsi, rsp",
    "lea rdx, [rbp + 16]",
    "call {enter}",
    "mov r11, rax",
    "mov rbx, rdx",
    "mov r10, rsp",
    // Copy of the stack arguments: none if there is no mark.
    "mov rcx, rbx",
    "shr rcx, 32",
    "lea rax, [rcx * 8]",
    "sub rsp, rax",
    "2:",
    "test rcx, rcx",
    "jz 3f",
    "dec rcx",
    "mov rax, [rbp + rcx * 8 + 16]",
    "mov [rsp + rcx * 8], rax",
    "jmp 2b",
    "3:",
    "mov rdi, [r10]",
    "mov rsi, [r10 + 8]",
    "mov rdx, [r10 + 16]",
    "mov rcx, [r10 + 24]",
    "mov r8, [r10 + 32]",
    "mov r9, [r10 + 40]",
    "mov rax, [r10 + 48]",
    "movaps xmm0, [r10 + 64]",
    "movaps xmm1, [r10 + 80]",
    "movaps xmm2, [r10 + 96]",
    "movaps xmm3, [r10 + 112]",
    "movaps xmm4, [r10 + 128]",
    "movaps xmm5, [r10 + 144]",
    "movaps xmm6, [r10 + 160]",
    "movaps xmm7, [r10 + 176]",
    "test rbx, rbx",
    "jz 4f",
    "call r11",
    "lea rsp, [rbp - 208]",
    "mov [rsp], rax",
    "mov [rsp + 8], rdx",
    "movaps [rsp + 64], xmm0",
    "movaps [rsp + 80], xmm1",
    "lea edi, [rbx - 1]",
    "mov rsi, rsp",
    "call {leave}",
    "mov rax, [rsp]",
    "mov rdx, [rsp + 8]",
    "movaps xmm0, [rsp + 64]",
    "movaps xmm1, [rsp + 80]",
    "mov rbx, [rbp - 8]",
    ".cfi_remember_state",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    "4:",
    ".cfi_restore_state",
    "mov rbx, [rbp - 8]",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "jmp r11",
    ".cfi_endproc",
    ".size narrows_preload_common, . - narrows_preload_common",
    enter = sym crate::trampoline::enter,
    leave = sym crate::trampoline::leave,
);

libc_locks!("GLIBC_2.2.5": "jmp [rip + \\function@GOTPCREL]");

/// The body of a naked function: the index of a symbol, and a jump.
macro_rules! stub {
    ($slot:literal, $common:path) => {
        core::arch::naked_asm!("mov r11d, {slot}", "jmp {common}", slot = const $slot, common = sym $common)
    };
}

/// The body of a naked function without arguments: `$from` is told the address to which it returns.
macro_rules! caller_first {
    ($from:path) => {
        core::arch::naked_asm!("mov rdi, [rsp]", "jmp {from}", from = sym $from)
    };
}

/// The same behind one argument.
macro_rules! caller_second {
    ($from:path) => {
        core::arch::naked_asm!("mov rsi, [rsp]", "jmp {from}", from = sym $from)
    };
}

/// The same behind two arguments.
macro_rules! caller_third {
    ($from:path) => {
        core::arch::naked_asm!("mov rdx, [rsp]", "jmp {from}", from = sym $from)
    };
}

/// `dlsym`: RTLD_NEXT goes to the function at `$known`, found by `$find`, by a jump; all else to `$filtered`.
macro_rules! dlsym {
    ($known:path, $find:path, $filtered:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
            core::arch::naked_asm!(
                "cmp rdi, -1", // RTLD_NEXT (dlfcn.h)
                "jne 3f",
                "mov rax, [rip + {known}]",
                "test rax, rax",
                "jnz 2f",
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                "call {find}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "2:",
                "jmp rax",
                "3:",
                "jmp {filtered}",
                known = sym $known,
                find = sym $find,
                filtered = sym $filtered,
            )
        }
    };
}

/// Number and arguments of the call that a signal has taken the place of.
///
/// # Safety
/// `context` is that of the signal, as the next two.
pub(crate) unsafe fn system_call(context: *mut c_void) -> (c_long, [usize; 6]) {
    // SAFETY: as above.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
    (registers[libc::REG_RAX as usize], arguments.map(|register| registers[register as usize] as usize))
}

/// It returns this.
pub(crate) unsafe fn system_call_returns(context: *mut c_void, result: c_long) {
    // SAFETY: as above.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RAX as usize] = result };
}

/// It is made again: the instruction has two bytes.
pub(crate) unsafe fn call_again(context: *mut c_void) {
    // SAFETY: as above.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] -= 2 };
}

/// The C library's `syscall`, whose address is at `$real`, but for calls of one `$number`, which go to `$instead`. As
/// long as that is 0 the kernel is called here, and `$failed` is told of errors.
macro_rules! syscall_but {
    ($number:expr, $instead:path, $real:path, $failed:path) => {
        core::arch::naked_asm!(
            "mov rax, [rip + {real}]",
            "test rax, rax",
            "jz 2f",
            "cmp rdi, {number}",
            "je {instead}",
            "jmp rax",
            "2:",
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov r10, r8",
            "mov r8, r9",
            "mov r9, [rsp + 8]",
            "syscall",
            "cmp rax, -4095",
            "jae 3f",
            "ret",
            "3:",
            "neg rax",
            "mov rdi, rax",
            "jmp {failed}",
            number = const $number,
            instead = sym $instead,
            real = sym $real,
            failed = sym $failed,
        )
    };
}

pub(crate) use {caller_first, caller_second, caller_third, dlsym, stub, syscall_but};
