//! What depends on the processor: its counter.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{TRUSTED, ticks};
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::{TRUSTED, ticks};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{TRUSTED, ticks};
