//! qemu's interface of plugins, version 1: qemu-plugin.h of qemu 7.2. What is declared here is in qemu's own program.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// What a plugin is told of qemu.
#[repr(C)]
pub struct Info {
    /// The architecture of the program, as qemu calls it.
    pub target: *const c_char,
    /// The oldest version of the interface, and its own.
    pub versions: [c_int; 2],
    /// A whole machine and not a program.
    pub system: bool,
    /// Its processors.
    pub processors: [c_int; 2],
}

/// A block of instructions.
#[repr(C)]
pub struct Block {
    private: [u8; 0],
}

/// One of them.
#[repr(C)]
pub struct Instruction {
    private: [u8; 0],
}

/// `QEMU_PLUGIN_CB_NO_REGS`
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`
pub const READS_AND_WRITES: c_int = 3;

pub type Translated = extern "C" fn(u64, *mut Block);
pub type Executed = extern "C" fn(c_uint, *mut c_void);
pub type Accesses = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub type Called = extern "C" fn(u64, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: Translated);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: u64, callback: Called);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut Block, callback: Executed, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: Accesses,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(access: u32) -> bool;
}
