//! Where the bytes of a buffer lie, and their sums.

use super::State;
use super::library::Type;
use std::ffi::c_void;

/// Buffers are summed in parts of so many bytes, a multiple of [`LANES`] words: they stay in the cache. Our own choice.
const PART: usize = 64 << 10;
/// Of a longer message so many bytes at its beginning and at its end are compared with what was received: every send is
/// summed for that. Our own choice.
const END: u64 = 4 << 10;
/// Words that are summed side by side: a multiplication takes some cycles.
const LANES: usize = 4;
/// Pieces of a buffer that are told, and summed. Our own choice.
pub(super) const PIECES_TOLD: usize = 64;
pub(super) const PIECES: usize = 65_536;

/// Reads memory of this process, as much as there is room for.
fn read(remote: &[libc::iovec], local: &mut [u8], begins: bool) -> bool {
    if begins && remote.iter().all(|piece| !piece.iov_base.is_null()) {
        let mut at = 0;
        for piece in remote {
            // SAFETY: the program gives these bytes to a send, which reads them too; there is room for all of them.
            unsafe { std::ptr::copy_nonoverlapping(piece.iov_base.cast::<u8>(), local[at..].as_mut_ptr(), piece.iov_len) };
            at += piece.iov_len;
        }
        return true;
    }
    // SAFETY: no arguments.
    narrows_heap::copy::read(unsafe { libc::getpid() }, remote, local).is_ok_and(|read| read == local.len())
}

/// The beginning and the end of a long buffer; `None`: it is not so long.
pub(super) fn ends(pieces: &[(u64, u64)]) -> Option<Vec<(u64, u64)>> {
    let total: u64 = pieces.iter().map(|piece| piece.1).sum();
    if total <= 2 * END {
        return None;
    }
    let (mut before, mut ends) = (0, Vec::new());
    for &(start, length) in pieces {
        let (from, to) = (before, before + length);
        for (first, last) in [(0, END), (total - END, total)] {
            let (first, last) = (first.max(from), last.min(to));
            if first < last {
                ends.push((start + (first - from), last - first));
            }
        }
        before = to;
    }
    Some(ends)
}

/// Sums bytes; a buffer of our own for them. `None` if they cannot be read: a program may have given the memory back.
/// What a send `begins` with is the program's to give, and is read directly: a system call costs 10 us and more here.
fn sum(pieces: &[(u64, u64)], part: &mut Vec<u8>, begins: bool) -> Option<u64> {
    part.resize(PART, 0);
    let mut lanes = [pieces.iter().map(|piece| piece.1).sum::<u64>(); LANES];
    let mut rest = pieces.iter().copied();
    let mut next = rest.next();
    let mut remote = Vec::with_capacity(pieces.len().min(libc::UIO_MAXIOV as usize));
    while next.is_some() {
        remote.clear();
        let mut filled = 0;
        while let Some((start, length)) = next
            && filled < PART
            && remote.len() < libc::UIO_MAXIOV as usize
        {
            let take = length.min((PART - filled) as u64);
            remote.push(libc::iovec { iov_base: start as *mut c_void, iov_len: take as usize });
            filled += take as usize;
            next = if take < length { Some((start + take, length - take)) } else { rest.next() };
        }
        if !read(&remote, &mut part[..filled], begins) {
            return None;
        }
        for block in part[..filled].chunks(8 * LANES) {
            for (lane, chunk) in lanes.iter_mut().zip(block.chunks(8)) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                // 2^64 by the golden ratio (Knuth, TAOCP 3, 6.4).
                *lane = (lane.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
    }
    // 0 says that there is none.
    Some(lanes.into_iter().fold(0u64, |sum, lane| (sum.rotate_left(23) ^ lane).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1))
}

impl State {
    /// Where the bytes of so many elements at an address lie; `None` if that is not known.
    pub(super) fn pieces(&self, of: &Type, buffer: u64, elements: u64) -> Option<Vec<(u64, u64)>> {
        if of.size == 0 || elements == 0 {
            return None;
        }
        if of.dense {
            return Some(vec![(buffer, elements.saturating_mul(of.size))]);
        }
        let pieces = of.pieces.as_ref()?;
        if elements.saturating_mul(pieces.len() as u64) > PIECES as u64 {
            return None;
        }
        let mut all: Vec<(u64, u64)> = Vec::with_capacity(pieces.len() * elements as usize);
        for element in 0..elements {
            let begin = buffer.wrapping_add_signed((element as i64).wrapping_mul(of.extent));
            for &(at, length) in pieces.iter() {
                let start = begin.wrapping_add_signed(at);
                match all.last_mut() {
                    Some(last) if last.0.wrapping_add(last.1) == start => last.1 += length,
                    _ => all.push((start, length)),
                }
            }
        }
        Some(all)
    }

    /// The sum of bytes with which a send `begins`, or of those that are there now; 0 where there is none.
    pub(super) fn sum(&mut self, pieces: &[(u64, u64)], begins: bool) -> u64 {
        if pieces.is_empty() { 0 } else { sum(pieces, &mut self.part, begins).unwrap_or(0) }
    }
}
