//! What depends on the processor: the marks' assembly, return addresses, names of symbol versions.

/// The C library's locks for this library itself: `narrows_mutex_lock` and its kin, each a jump (`$jump`, lines of a
/// macro of the assembler, in which `\\function` is the C library's). They are taken before this library is ready, by a
/// malloc that looks a symbol up among others: so these are no symbols to be looked up, but the names under which the C
/// library exports the same functions for itself, in its oldest version.
macro_rules! libc_locks {
    ($version:literal: $($jump:literal),+) => {
        core::arch::global_asm!(
            concat!(".symver narrows_libc_mutex_lock, __pthread_mutex_lock@", $version),
            concat!(".symver narrows_libc_mutex_trylock, __pthread_mutex_trylock@", $version),
            concat!(".symver narrows_libc_mutex_unlock, __pthread_mutex_unlock@", $version),
            concat!(".symver narrows_libc_rdlock, __pthread_rwlock_rdlock@", $version),
            concat!(".symver narrows_libc_tryrdlock, __pthread_rwlock_tryrdlock@", $version),
            concat!(".symver narrows_libc_wrlock, __pthread_rwlock_wrlock@", $version),
            concat!(".symver narrows_libc_trywrlock, __pthread_rwlock_trywrlock@", $version),
            concat!(".symver narrows_libc_rwlock_unlock, __pthread_rwlock_unlock@", $version),
            ".text",
            ".macro narrows_next name, function",
            ".globl \\name",
            ".hidden \\name",
            "\\name:",
            $($jump,)+
            ".endm",
            "narrows_next narrows_mutex_lock, narrows_libc_mutex_lock",
            "narrows_next narrows_mutex_trylock, narrows_libc_mutex_trylock",
            "narrows_next narrows_mutex_unlock, narrows_libc_mutex_unlock",
            "narrows_next narrows_rdlock, narrows_libc_rdlock",
            "narrows_next narrows_tryrdlock, narrows_libc_tryrdlock",
            "narrows_next narrows_wrlock, narrows_libc_wrlock",
            "narrows_next narrows_trywrlock, narrows_libc_trywrlock",
            "narrows_next narrows_rwlock_unlock, narrows_libc_rwlock_unlock",
            ".purgem narrows_next",
        );
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
