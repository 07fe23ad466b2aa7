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

/// The same for all lines of a record.
#[inline(always)]
pub fn prefetch_all<T>(record: &T) {
    const LINE: usize = 64;
    let first: *const u8 = std::ptr::from_ref(record).cast();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        // Not dereferenced: the next line may begin behind the record.
        let address = first.wrapping_add(line * LINE);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
