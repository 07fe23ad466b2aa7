//! Arguments of a call, as the program passes them in C or Fortran.

use super::library::{self, Handle};
use crate::symbols;
use narrows_mpilib::{Constants, Fortran};

/// Argument words of the longest call that is looked at, with ierror: MPI_Rget_accumulate has 13.
pub(super) const ARGUMENTS: usize = 14;

/// The outermost call of a thread.
pub(super) struct Scratch {
    pub(super) active: bool,
    /// Which thread it is, from 1.
    pub(super) thread: u32,
    pub(super) words: [u64; ARGUMENTS],
    pub(super) fortran: bool,
    /// Buffers are passed as descriptors.
    pub(super) described: bool,
    pub(super) wide: bool,
    pub(super) place: u32,
    /// Handles that the call may change, and where they stand.
    pub(super) handles: Vec<(u64, u64)>,
    /// Where the program ignores statuses and they are wanted.
    pub(super) statuses: Vec<u64>,
    /// Number of a blocking receive with a wildcard, and its communicator.
    pub(super) waits: Option<(u32, u32)>,
    /// The tag that a probe of messages from anybody asks for.
    pub(super) probes: Option<i64>,
}

impl Scratch {
    pub(super) fn int(&self, at: u8) -> i32 {
        let word = self.words[usize::from(at)];
        match self.fortran {
            true if word == 0 => 0,
            // SAFETY: Fortran passes addresses of integers that it may not leave out.
            true => unsafe { *(word as *const i32) },
            false => word as i32,
        }
    }

    /// An MPI_Aint.
    pub(super) fn address(&self, at: u8) -> u64 {
        let word = self.words[usize::from(at)];
        match self.fortran {
            true if word == 0 => 0,
            // SAFETY: Fortran passes addresses of integers of the kind MPI_ADDRESS_KIND.
            true => unsafe { *(word as *const u64) },
            false => word,
        }
    }

    /// The unit of displacements of a window.
    pub(super) fn unit(&self, at: u8) -> u64 {
        if self.wide { self.address(at) } else { self.int(at).max(1) as u64 }
    }

    pub(super) fn count(&self, at: u8) -> u64 {
        if self.wide { self.words[usize::from(at)] } else { self.int(at).max(0) as u64 }
    }

    /// Elements of an array of counts.
    pub(super) fn counts(&self, at: u8, length: usize) -> Vec<u64> {
        let address = self.words[usize::from(at)];
        if address == 0 {
            return Vec::new();
        }
        let element = |index: usize| {
            // SAFETY: the program passes an array with an element for each member where MPI says so.
            unsafe {
                match self.wide {
                    true => *(address as *const u64).add(index),
                    false => (*(address as *const i32).add(index)).max(0) as u64,
                }
            }
        };
        (0..length).map(element).collect()
    }

    pub(super) fn handle(&self, what: Handle, at: u8) -> u64 {
        let word = self.words[usize::from(at)];
        match self.fortran {
            true => library::from_fortran(what, self.int(at)),
            false => symbols::abi().handle_of(word),
        }
    }

    /// A handle in memory, and where it stands: element of an array, or where a call puts a new one.
    pub(super) fn handle_at(&self, what: Handle, at: u8, index: usize) -> (u64, u64) {
        let address = self.words[usize::from(at)];
        if address == 0 {
            return (0, 0);
        }
        // SAFETY: the program passes the address of as many handles.
        unsafe {
            match self.fortran {
                true => {
                    let place = (address as *const i32).add(index);
                    (library::from_fortran(what, *place), place as u64)
                }
                false => {
                    let place = symbols::abi().handle_place(address, index);
                    (symbols::abi().handle_at(place), place)
                }
            }
        }
    }

    /// An int that the call has written.
    pub(super) fn output(&self, at: u8) -> i32 {
        // SAFETY: the address of an int, or nothing.
        unsafe { (self.words[usize::from(at)] as *const i32).as_ref() }.copied().unwrap_or(0)
    }

    /// Where a buffer begins. Fortran 2018 passes a descriptor, whose first word says so (ISO_Fortran_binding.h).
    pub(super) fn buffer(&self, at: u8) -> u64 {
        let word = self.words[usize::from(at)];
        match self.described {
            true if word == 0 => 0,
            // SAFETY: a descriptor.
            true => unsafe { *(word as *const u64) },
            false => word,
        }
    }

    /// Whether a buffer has no gaps of its own: its descriptor says so (Fortran 2018, 18.5.3: base_addr, elem_len,
    /// version, rank, attribute, type, then lower bound, extent and stride of each dimension).
    pub(super) fn is_contiguous(&self, at: u8) -> bool {
        let word = self.words[usize::from(at)];
        if !self.described || word == 0 {
            return true;
        }
        // SAFETY: a descriptor.
        unsafe {
            let mut stride = *((word + 8) as *const i64);
            let rank = *((word + 20) as *const i8);
            for dimension in 0..u64::from(rank.max(0) as u8) {
                let place = (word + 24 + 24 * dimension) as *const i64;
                let (extent, step) = (*place.add(1), *place.add(2));
                if step != stride {
                    return false;
                }
                // That of an array of assumed size is -1; it is the last one.
                stride = stride.wrapping_mul(extent);
            }
        }
        true
    }

    pub(super) fn in_place(&self, at: u8, constants: &Constants) -> bool {
        let address = self.buffer(at);
        if self.fortran { Fortran::any(symbols::abi().fortran_in_place, address, symbols::variable) } else { address == constants.in_place }
    }

    /// Passes statuses of our own where the program ignores them: position and address.
    pub(super) fn want(&mut self, at: u8, count: usize, constants: &Constants) -> Option<(usize, u64)> {
        let address = self.words[usize::from(at)];
        let ignored = match self.fortran {
            false => address == constants.ignore,
            true => Fortran::any(symbols::abi().fortran_ignore, address, symbols::variable),
        };
        if !ignored {
            return None;
        }
        self.statuses.clear();
        self.statuses.resize(count.max(1) * constants.status_size.div_ceil(8) + 1, u64::MAX);
        let ours = self.statuses.as_mut_ptr() as u64;
        self.words[usize::from(at)] = ours;
        Some((usize::from(at), ours))
    }

    /// Source and tag of a status.
    pub(super) fn status(&self, at: u8, index: usize, constants: &Constants) -> (i64, i64) {
        // SAFETY: a status that the call has written: the program's or ours (`want`).
        unsafe {
            let status = (self.words[usize::from(at)] as *const u8).add(index * constants.status_size);
            let read = |at: usize| i64::from(*status.add(at).cast::<i32>());
            (read(constants.source_at), read(constants.tag_at))
        }
    }
}
