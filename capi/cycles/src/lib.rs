//! A plugin of qemu's user mode that counts the cycles of the program which qemu runs (`--compute cycles`).
//!
//! qemu tells it of each block of instructions that it translates, and then calls it when the block is executed and
//! when it reads or writes memory. A thread asks for its [`Count`](narrows_cycles::Count) by a call of the kernel that
//! there is not ([`CALL`]), and says there on which core it is. What it does counts while it says so; code of our own
//! libraries never does.
//!
//! | module | what |
//! |---|---|
//! | `qemu` | the interface of plugins, version 1 |
//! | `ours` | which code is of our own libraries |

mod ours;
mod qemu;

use narrows_cycles::decode::Isa;
use narrows_cycles::{CALL, Core, Known, Running, chases};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

/// Threads that can be counted at a time.
const THREADS: usize = 4096;

/// By qemu's number of a thread: what is counted. Only the thread itself uses it.
static RUNNING: [AtomicPtr<Running>; THREADS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; THREADS];
static ISA: OnceLock<Isa> = OnceLock::new();
/// Whether some core of the run has caches.
static CACHES: AtomicBool = AtomicBool::new(true);

/// The version of the interface that this is written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// qemu has loaded the plugin. `caches=off`: no core has any.
///
/// # Safety
/// As qemu calls it: `info` is valid, and so are `count` strings at `words`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(id: u64, info: *const qemu::Info, count: c_int, words: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let target = unsafe { CStr::from_ptr((*info).target) }.to_string_lossy();
    let Some(isa) = Isa::of(&target) else { return -1 };
    if ISA.set(isa).is_err() {
        return -1;
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        let word = unsafe { CStr::from_ptr(*words.add(at)) };
        match word.to_bytes() {
            b"caches=off" => CACHES.store(false, Relaxed),
            _ => return -1,
        }
    }
    // SAFETY: qemu's own number of the plugin, and functions that stay.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, called);
    }
    0
}

/// qemu has translated a block.
extern "C" fn translated(_: u64, block: *mut qemu::Block) {
    let Some(isa) = ISA.get() else { return };
    // SAFETY: qemu's block is valid during this call, and so are its instructions and their bytes.
    let instructions: Vec<(*mut qemu::Instruction, u64, &[u8])> = unsafe {
        if ours::is_ours(qemu::qemu_plugin_tb_vaddr(block)) {
            return;
        }
        let all = (0..qemu::qemu_plugin_tb_n_insns(block)).map(|at| qemu::qemu_plugin_tb_get_insn(block, at));
        all.map(|instruction| {
            let bytes = qemu::qemu_plugin_insn_data(instruction).cast::<u8>();
            let bytes = std::slice::from_raw_parts(bytes, qemu::qemu_plugin_insn_size(instruction));
            (instruction, qemu::qemu_plugin_insn_vaddr(instruction), bytes)
        })
        .collect()
    };
    let decoded = isa.block(instructions.iter().map(|&(_, address, bytes)| (address, bytes)));
    if CACHES.load(Relaxed) {
        for (&(instruction, ..), chases) in instructions.iter().zip(chases(&decoded.instructions)) {
            let chases = usize::from(chases) as *mut c_void;
            // SAFETY: the instruction is valid during this call, and the function stays.
            unsafe { qemu::qemu_plugin_register_vcpu_mem_cb(instruction, accesses, qemu::NO_REGISTERS, qemu::READS_AND_WRITES, chases) };
        }
    }
    // qemu may execute the block until the process ends.
    let known = Box::into_raw(Box::new(Known::new(decoded)));
    // SAFETY: the block is valid during this call, and the function and what it is given stay.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, executed, qemu::NO_REGISTERS, known.cast()) };
}

/// What is counted of a thread, if anything is.
#[inline]
fn running(thread: c_uint) -> Option<&'static mut Running> {
    let pointer = RUNNING.get(thread as usize)?.load(Acquire);
    // SAFETY: it is there until the process ends, and only the thread itself comes here, one call after another.
    unsafe { pointer.as_mut() }
}

extern "C" fn executed(thread: c_uint, known: *mut c_void) {
    if let Some(running) = running(thread) {
        // SAFETY: made by `translated`, and never freed.
        running.executes(unsafe { &*known.cast::<Known>() });
    }
}

extern "C" fn accesses(thread: c_uint, access: u32, address: u64, chases: *mut c_void) {
    if let Some(running) = running(thread) {
        // SAFETY: a description of an access that qemu has made.
        let (size, written) = unsafe { (qemu::qemu_plugin_mem_size_shift(access), qemu::qemu_plugin_mem_is_store(access)) };
        running.accesses(address, 1 << size.min(16), written, !chases.is_null());
    }
}

/// A thread calls the kernel: if it asks for its count, it says its core and its stack pointer, and where the address
/// of the count is to go. The program's memory is where it says, see docs/limits.md.
extern "C" fn called(_: u64, thread: c_uint, number: i64, core: u64, stack: u64, answer: u64, _: u64, _: u64, _: u64, _: u64, _: u64) {
    if number != CALL {
        return;
    }
    let Some(place) = RUNNING.get(thread as usize) else { return };
    // SAFETY: the library that makes this call gives it the address of a `Core`, which is plain numbers.
    let core = unsafe { (core as *const Core).read_unaligned() };
    if core.clock_hz == 0 {
        return;
    }
    let running = Box::leak(Box::new(Running::new(core)));
    running.stack_is(stack);
    // SAFETY: it gives it a word for the answer, too.
    unsafe { (answer as *mut u64).write_unaligned(std::ptr::from_ref(running.count()) as u64) };
    place.store(running, Release);
}
