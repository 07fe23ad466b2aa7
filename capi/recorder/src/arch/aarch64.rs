/// Clock sources of the kernel that are this counter.
pub(crate) const TRUSTED: [&str; 1] = ["arch_sys_counter"];

#[inline]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read it.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}
