/// Brings the cache line where a record begins into the nearest cache, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(record: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing but caches, whatever the address; this one is valid.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(record).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = record;
}
