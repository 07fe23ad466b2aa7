//! The file of a rank: records in a mapping that moves along.

use narrows_output::say;
use narrows_record::{FIRST, Header, Record, SEGMENT, SIZE};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::{io, mem, ptr};

/// Bytes of a segment that get their room and their pages together.
const AHEAD: usize = 32 * 4096;

/// An open file.
pub struct Output {
    file: File,
    header: *mut u8,
    segment: *mut u8,
    /// Bytes written into the segment.
    used: usize,
    /// Up to here the segment has its pages.
    there: usize,
    segments: u64,
    count: u64,
    /// There is no room for more.
    ended: bool,
    folder: PathBuf,
    rank: u32,
    /// One-sided operations and their bytes.
    one_sided: (u64, u64),
}

// SAFETY: the mappings belong to this value alone.
unsafe impl Send for Output {}

impl Output {
    /// A new file for a rank.
    pub fn create(folder: &Path, rank: u32, ranks: u32, library: &str) -> io::Result<Output> {
        let path = folder.join(format!("rank.{rank}"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        reserve(&file, 0, FIRST)?;
        let header = map(&file, 0, FIRST)?;
        let (begin, library) = (Header::begin(rank, ranks), Header::library_name(library));
        // SAFETY: the mapping has a page, and the file has room for it.
        unsafe {
            ptr::copy_nonoverlapping(begin.as_ptr(), header, begin.len());
            ptr::copy_nonoverlapping(library.as_ptr(), header.add(Header::LIBRARY), library.len());
        }
        let folder = folder.to_owned();
        let (segment, one_sided) = (ptr::null_mut(), (0, 0));
        let mut output = Output { file, header, segment, used: 0, there: 0, segments: 0, count: 0, ended: false, folder, rank, one_sided };
        output.advance()?;
        Ok(output)
    }

    /// Maps the next segment. It gets its room in the file when it is needed.
    fn advance(&mut self) -> io::Result<()> {
        let next = map(&self.file, FIRST as u64 + self.segments * SEGMENT as u64, SEGMENT)?;
        if !self.segment.is_null() {
            // SAFETY: a mapping of this size, not used any more.
            unsafe { libc::munmap(self.segment.cast(), SEGMENT) };
        }
        (self.segment, self.used, self.there) = (next, 0, 0);
        self.segments += 1;
        Ok(())
    }

    /// Appends a record. When the disk is full recording ends, the program goes on.
    #[inline]
    pub fn put(&mut self, record: &Record) {
        self.put_bytes(&record.to_bytes());
    }

    /// Appends a record as it stands in the file.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8; SIZE]) {
        if self.used + SIZE > self.there && !self.make_room() {
            return;
        }
        // SAFETY: a segment is a whole number of records, and this one is not full.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.segment.add(self.used), SIZE) };
        self.used += SIZE;
        self.count += 1;
        self.set(Header::COUNT, self.count);
    }

    /// Room for more records, much at a time: pages that come one by one cost a fault each, 7 ns per record.
    #[cold]
    fn make_room(&mut self) -> bool {
        if !self.ended
            && let Err(error) = self.next_pages()
        {
            self.ended = true;
            // SAFETY: an aligned field inside the page of the header.
            unsafe { self.header.add(Header::FINISHED).cast::<u32>().write_volatile(Header::NO_ROOM) };
            tell(&self.folder, &format!("recording ends, at rank {} with {} records", self.rank, self.count), &error);
        }
        !self.ended
    }

    fn next_pages(&mut self) -> io::Result<()> {
        if self.used == SEGMENT {
            self.advance()?;
        }
        let length = AHEAD.min(SEGMENT - self.there);
        let place = FIRST as u64 + (self.segments - 1) * SEGMENT as u64 + self.there as u64;
        reserve(&self.file, place, length)?;
        // SAFETY: a part of the mapping.
        let failed = unsafe { libc::madvise(self.segment.add(self.there).cast(), length, libc::MADV_POPULATE_WRITE) } != 0;
        // EFAULT: writing there would raise SIGBUS. A kernel before 5.14 does not know this; pages come by faults then.
        if failed && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.there += length;
        Ok(())
    }

    fn set(&mut self, at: usize, value: u64) {
        // SAFETY: an aligned field inside the page. Volatile: written now, in this order; a reader may come any time.
        unsafe { self.header.add(at).cast::<u64>().write_volatile(value) };
    }

    /// Counts an operation that is not recorded.
    pub fn one_sided(&mut self, bytes: u64) {
        self.one_sided.0 += 1;
        self.one_sided.1 += bytes;
        self.set(Header::ONE_SIDED, self.one_sided.0);
        self.set(Header::ONE_SIDED_BYTES, self.one_sided.1);
    }

    /// MPI_Finalize: nothing follows but `rest` nanoseconds of computing. A recording that has ended before is left as
    /// that of a killed rank.
    pub fn finish(mut self, rest: u64) {
        if !self.ended {
            self.set(Header::REST, rest);
            self.set(Header::FINISHED, u64::from(Header::YES));
        }
        let used = FIRST as u64 + self.count * SIZE as u64;
        // SAFETY: mappings of these sizes, not used any more.
        unsafe {
            libc::munmap(self.segment.cast(), SEGMENT);
            libc::munmap(self.header.cast(), FIRST);
        }
        // What is behind the count is not read: the file may as well stay long.
        let _ = self.file.set_len(used);
    }
}

/// Tells that ranks cannot record, or not any more: once for the whole program, if ranks see the same folder.
pub fn tell(folder: &Path, what: &str, error: &io::Error) {
    let mark = OpenOptions::new().write(true).create_new(true).open(folder.join("full"));
    if mark.is_ok() || mark.is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists) {
        say!("{what}: {}: {error}; the program goes on, free some space for the next time", folder.display());
    }
}

/// Room on the disk, so that writing into the mapping cannot fail: that would be SIGBUS.
fn reserve(file: &File, place: u64, length: usize) -> io::Result<()> {
    without_size_signal(|| {
        // SAFETY: a plain call on an open file.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), place as libc::off_t, length as libc::off_t) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    })
}

/// A file that becomes longer than the user allows (ulimit -f) is an error here, not the signal that ends the program.
fn without_size_signal(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: all pointers are valid for the calls, and the thread has its signals back afterwards.
    unsafe {
        let (mut signal, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) = mem::zeroed();
        libc::sigemptyset(&mut signal);
        libc::sigaddset(&mut signal, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signal, &mut before);
        libc::sigpending(&mut pending);
        let own = libc::sigismember(&pending, libc::SIGXFSZ) == 0;
        let result = work();
        if own && result.is_err() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&signal, ptr::null_mut(), &now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        result
    }
}

fn map(file: &File, place: u64, length: usize) -> io::Result<*mut u8> {
    let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping of an open file, which is as long as that.
    let address = unsafe { libc::mmap(ptr::null_mut(), length, access, how, file.as_raw_fd(), place as libc::off_t) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast()) }
}
