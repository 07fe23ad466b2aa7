//! Loads and stores of the program in memory that MPI uses meanwhile: `--check=memory`.
//!
//! Behind a call of MPI its thread goes on instruction by instruction (the trap flag of x86-64): the kernel sends
//! SIGTRAP before each one, the handler decodes it, and keeps what it loads and stores in memory that is watched. That
//! ends at the next call into this library, as each call of MPI is one, at system calls that change signals or make
//! threads, and after [`LONGEST`] instructions. Nothing is judged here, and nothing is told: the next call of MPI does.
//!
//! The handler allocates nothing and takes no lock: what it needs is there before.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, UsedMemory};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Instructions behind one call of MPI. Our own choice: a signal takes 1 to 8 us, and a rank that runs for 20 ms is
/// looked at whether it loops (`crates/live/src/window/spinning.rs`).
const LONGEST: u32 = 2_000;
/// Loads and stores that are kept between two calls of MPI. Our own choice.
const MOST: usize = 1024;
/// Ranges that are watched at once: each instruction is compared with all. Our own choice.
pub(super) const RANGES: usize = 64;
/// EFLAGS.TF (Intel SDM, volume 1, 3.4.3.3).
const TRAP_FLAG: i64 = 1 << 8;
/// `si_code` of a breakpoint, an instruction that is made for it: SI_KERNEL of <bits/siginfo-consts.h>. That of the
/// trap flag is TRAP_TRACE, or anything if the simulator has looked whether the thread loops (ptrace(2)).
const BREAKPOINT: c_int = 0x80;
/// The longest instruction of x86-64 (Intel SDM, volume 2, 2.3.11).
const LONGEST_INSTRUCTION: usize = 15;
const PAGE: u64 = 4096;
/// What a library reads at once without more than it needs: vectors may be longer than a string.
const WORD: u64 = 8;

/// A load or store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Behind the instruction, or behind the call of the program that led to it.
    pub(super) from: u64,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Off,
    /// The thread is still in this library.
    Leaves,
    Runs,
}

struct Watch {
    phase: Phase,
    ranges: Vec<(u64, u64)>,
    seen: Vec<Seen>,
    steps: u32,
    most: u32,
    info: InstructionInfoFactory,
    /// Behind the last call of the program into another file.
    called: u64,
}

thread_local! {
    static WATCH: Cell<*mut Watch> = const { Cell::new(ptr::null_mut()) };
}

/// Where code lies: first address and end.
#[derive(Clone, Copy, Default)]
struct Text {
    program: (u64, u64),
    own: (u64, u64),
}

static CODE: OnceLock<Text> = OnceLock::new();

fn within(range: (u64, u64), address: u64) -> bool {
    range.0 <= address && address < range.1
}

/// The program itself comes first, with an empty name.
unsafe extern "C" fn object(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: as dl_iterate_phdr(3) passes them; `data` is ours.
    let (info, code, headers) = unsafe {
        let info = &*info;
        (info, &mut *data.cast::<(Text, bool)>(), std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let range = loaded.fold((u64::MAX, 0), |range: (u64, u64), header| {
        let start = info.dlpi_addr + header.p_vaddr;
        (range.0.min(start), range.1.max(start + header.p_memsz))
    });
    if !std::mem::replace(&mut code.1, true) {
        code.0.program = range;
    }
    if within(range, object as *const () as u64) {
        code.0.own = range;
    }
    0
}

fn prepare() {
    CODE.get_or_init(|| {
        let mut code = (Text::default(), false);
        // SAFETY: the handler is of this type; it calls nothing.
        unsafe {
            libc::dl_iterate_phdr(Some(object), (&raw mut code).cast());
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            // The simulator steps through the handler where it looks whether the thread loops: a trap of a thread that
            // blocks SIGTRAP takes its handler away.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER;
            libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut());
        }
        code.0
    });
}

/// Watches these ranges from the end of this call on, for so many instructions. [`go`] begins it.
pub(super) fn watch(ranges: impl Iterator<Item = (u64, u64)>, most: u32) {
    prepare();
    let mut watch = WATCH.get();
    if watch.is_null() {
        watch = Box::into_raw(Box::new(Watch {
            phase: Phase::Off,
            ranges: Vec::with_capacity(RANGES),
            seen: Vec::with_capacity(MOST),
            steps: 0,
            most: 0,
            info: InstructionInfoFactory::new(),
            called: 0,
        }));
        WATCH.set(watch);
    }
    // SAFETY: only this thread has it, and its trap flag is not set.
    let watch = unsafe { &mut *watch };
    watch.ranges.clear();
    watch.ranges.extend(ranges.take(RANGES).map(|(start, length)| (start, start.saturating_add(length))));
    (watch.steps, watch.most, watch.called) = (0, most.min(LONGEST), 0);
    watch.phase = if watch.ranges.is_empty() || watch.most == 0 { Phase::Off } else { Phase::Leaves };
}

/// The last thing before the program goes on.
#[inline]
pub fn go() {
    let watch = WATCH.get();
    // SAFETY: only this thread has it.
    if !watch.is_null() && unsafe { (*watch).phase } == Phase::Leaves {
        // SAFETY: the handler is there, and nothing else changes.
        unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    }
}

/// What was seen since [`watch`], and after how many instructions.
pub(super) fn take() -> (Vec<Seen>, u32) {
    let watch = WATCH.get();
    if watch.is_null() {
        return (Vec::new(), 0);
    }
    // SAFETY: only this thread has it, and its trap flag is not set: this library ends that.
    let watch = unsafe { &mut *watch };
    watch.phase = Phase::Off;
    let seen = watch.seen.clone();
    watch.seen.clear();
    (seen, std::mem::take(&mut watch.steps))
}

unsafe extern "C" fn on_trap(signal: c_int, info: *const libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as the kernel passes them.
    let (code, registers) = unsafe { ((*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    if code == BREAKPOINT {
        // Somebody else's: as if there were no handler.
        // SAFETY: plain calls.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let watch = WATCH.get();
    // SAFETY: only this thread has it, and it is not in this library's own code for it.
    let goes_on = !watch.is_null() && unsafe { (*watch).step(registers) };
    let flags = &mut registers[libc::REG_EFL as usize];
    *flags = if goes_on { *flags | TRAP_FLAG } else { *flags & !TRAP_FLAG };
}

impl Watch {
    /// Looks at the next instruction; whether to look at the one behind it.
    fn step(&mut self, registers: &[i64; 23]) -> bool {
        let Some(code) = CODE.get() else { return false };
        let at = registers[libc::REG_RIP as usize] as u64;
        match (self.phase, within(code.own, at)) {
            (Phase::Off, _) => return false,
            (Phase::Leaves, true) => return true,
            (Phase::Runs, true) => {
                self.phase = Phase::Off;
                return false;
            }
            (Phase::Leaves | Phase::Runs, false) => self.phase = Phase::Runs,
        }
        self.steps += 1;
        let Some(instruction) = decode(at).filter(|_| self.steps <= self.most) else {
            self.phase = Phase::Off;
            return false;
        };
        if instruction.code() == Code::Syscall && changes_signals(registers[libc::REG_RAX as usize]) {
            self.phase = Phase::Off;
            return false;
        }
        let in_program = within(code.program, at);
        if in_program {
            self.called = instruction.next_ip();
        }
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if repeated && registers[libc::REG_RCX as usize] == 0 {
            return true;
        }
        let Watch { ranges, seen, info, called, .. } = self;
        let from = if in_program || *called == 0 { instruction.next_ip() } else { *called };
        for memory in info.info(&instruction).used_memory() {
            use OpAccess::{CondRead, CondWrite, NoMemAccess, None as Nothing, Read, ReadCondWrite, ReadWrite, Write};
            let write = match memory.access() {
                Read | CondRead => false,
                Write | CondWrite | ReadWrite | ReadCondWrite => true,
                NoMemAccess | Nothing => continue,
            };
            let (Some(address), length) = (address_of(memory, registers), memory.memory_size().size() as u64) else { continue };
            let counts = |range: &&(u64, u64)| match in_program {
                true => address < range.1 && range.0 < address + length,
                false => range.0 <= address && address + length <= range.1 && (write || reads_exactly(&instruction, length)),
            };
            let new = Seen { from, address, length, write };
            if length > 0 && ranges.iter().find(counts).is_some() && seen.len() < MOST && !seen.contains(&new) {
                seen.push(new);
            }
        }
        true
    }
}

/// Functions for strings in libraries read whole vectors, beyond the string's end. Those that copy do not, and move
/// without alignment.
fn reads_exactly(instruction: &Instruction, length: u64) -> bool {
    use Mnemonic::{Movdqu, Movups, Vmovdqu, Vmovdqu8, Vmovdqu64, Vmovups};
    length <= WORD || matches!(instruction.mnemonic(), Movdqu | Movups | Vmovdqu | Vmovdqu8 | Vmovdqu64 | Vmovups)
}

/// A trap while SIGTRAP is blocked ends the process, and a thread begins with the flags of the one that makes it.
fn changes_signals(call: i64) -> bool {
    [
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigsuspend,
        libc::SYS_rt_sigreturn,
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_epoll_pwait,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_execveat,
    ]
    .contains(&call)
}

fn decode(at: u64) -> Option<Instruction> {
    // The page behind it may not be there.
    let rest = (PAGE - at % PAGE) as usize;
    let first = rest.min(LONGEST_INSTRUCTION);
    for length in [first, LONGEST_INSTRUCTION] {
        // SAFETY: the processor is about to run what is there; it goes on in the next page if it does not end in this
        // one.
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, length) };
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        if !instruction.is_invalid() {
            return Some(instruction);
        }
    }
    None
}

fn address_of(memory: &UsedMemory, registers: &[i64; 23]) -> Option<u64> {
    memory.virtual_address(0, |register, _, _| value_of(register, registers))
}

fn value_of(register: Register, registers: &[i64; 23]) -> Option<u64> {
    let index = match register.full_register() {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        Register::FS => return Some(thread_base()),
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        _ => return None,
    };
    let value = registers[index as usize] as u64;
    Some(if register.size() == 4 { value & u64::from(u32::MAX) } else { value })
}

/// Where the memory of the thread begins, which says so in its first word (System V ABI, thread-local storage).
fn thread_base() -> u64 {
    let base;
    // SAFETY: a load.
    unsafe { core::arch::asm!("mov {}, fs:0", out(reg) base, options(readonly, nostack, preserves_flags)) };
    base
}
