use std::collections::VecDeque;

/// Takes the first of a queue. One that is empty begins anew at the start of its ring, in the lines that were used
/// last: a ring that goes round would have all of its lines brought to the caches in turn.
#[inline]
pub fn take_first<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front();
    if queue.is_empty() {
        queue.clear();
    }
    first
}

/// Brings the cache line where a record begins into the nearest cache, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(record: &T) {
    line(std::ptr::from_ref(record).cast());
}

/// The same for all lines of a record.
#[inline(always)]
pub fn prefetch_all<T>(record: &T) {
    const LINE: usize = 64;
    let first: *const u8 = std::ptr::from_ref(record).cast();
    for number in 0..size_of::<T>().div_ceil(LINE) {
        // The next line may begin behind the record.
        line(first.wrapping_add(number * LINE));
    }
}

/// The line of an address, which is not dereferenced.
#[inline(always)]
fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing but caches, and faults at no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
