//! `libnarrows_fi.so`: the libfabric provider "narrows", through which a stock MPI library reaches the
//! simulated NIC. libfabric finds it by `FI_PROVIDER_PATH`.
//!
//! ```text
//! MPI library -> libfabric -> c/*.c -> layer.rs -> endpoint.rs -> narrows-message -> port.rs -> libportals.so
//!                                                             `-> rma.rs -----------^
//! ```
//!
//! | file | what |
//! |---|---|
//! | `c/init.c`, `c/info.c` | how libfabric loads us; what we offer |
//! | `c/fabric.c`, `c/av.c`, `c/cq.c`, `c/cntr.c`, `c/endpoint.c` | libfabric's objects |
//! | `c/messages.c` | the twenty variants of send and receive, unpacked into one structure |
//! | `c/rma.c`, `c/mr.c` | reads, writes, atomics and memory regions, likewise |
//! | `c/unsupported.c` | what we do not have |
//! | [`layer`] | the functions that C calls |
//! | [`state`] | one lock; how events become completions |
//! | [`endpoint`] | messages and their completions |
//! | [`rma`] | reads, writes, atomics |
//! | [`emulated`] | the same as messages, where there are gateways |
//! | [`regions`] | domains and their memory regions |
//! | [`queues`] | address vectors, completion queues, counters |
//! | [`port`] | Portals, for the message layer and one-sided operations |
//! | [`fi`] | libfabric's numbers |
//!
//! It has `FI_EP_RDM` endpoints with tagged and untagged messages: peek and claim, cancel, inject,
//! remote CQ data of 32 bits, multi-receive, tags of 60 bits; reads, writes and atomics, memory regions with keys of
//! the program's choice and offsets (mr_mode 0), fences between one-sided operations; counters of all of these. Several
//! endpoints may share a domain.

mod emulated;
mod endpoint;
mod fi;
mod layer;
mod messages;
mod port;
mod queues;
mod regions;
mod rma;
mod state;
#[cfg(test)]
mod tests;

use std::ffi::c_void;

// Tests are linked with libportals.so's sources, which have it too.
#[cfg(not(test))]
#[global_allocator]
static HEAP: narrows_heap::Heap = narrows_heap::Heap;

unsafe extern "C" {
    /// `c/init.c`: fills libfabric's structure. The argument is the layer.
    fn nw_prov_ini(layer: *const layer::Layer) -> *mut c_void;
}

/// The one symbol that the library shows. It only adds an argument and jumps, so that C sees the
/// return address of its caller: the libfabric that loads us, of which there may be several.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    core::arch::naked_asm!("lea rdi, [rip + {layer}]", "jmp {init}", layer = sym layer::LAYER, init = sym nw_prov_ini)
}

/// See the other architecture.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    core::arch::naked_asm!(
        "adrp x0, {layer}",
        "add x0, x0, :lo12:{layer}",
        "b {init}",
        layer = sym layer::LAYER,
        init = sym nw_prov_ini
    )
}

/// See the first one.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "riscv64")]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    core::arch::naked_asm!("lla a0, {layer}", "tail {init}", layer = sym layer::LAYER, init = sym nw_prov_ini)
}
