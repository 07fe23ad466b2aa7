//! The open files of the calling process, without /proc.
//!
//! Between fork and exec mpirun closes all files that it finds in /proc/self/fd (`close_open_file_descriptors` of Open
//! MPI 4.1, orte/mca/odls/default/odls_default_module.c, `pmix_close_open_file_descriptors` of OpenPMIx). It has some
//! three for each rank that runs already, and Linux makes an inode and a name for each entry of that folder, which it
//! takes down when the process is gone: with 512 ranks a seventh of all CPU time from start to end. So the entries are
//! those numbers that `fcntl` knows. Nothing here allocates: other threads of mpirun may have had the allocator at the
//! fork.

use libc::{DIR, c_char, c_int, c_void, dirent};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr};

const OWN_FILES: &CStr = c"/proc/self/fd";

/// The numbers that the calling process gives to files are smaller, as long as it opens none.
const TABLE: &[u8] = b"\nFDSize:\t";

/// An opened [`OWN_FILES`] of a process with one thread, as a child of a fork is before it executes something.
static OPEN: AtomicPtr<DIR> = AtomicPtr::new(std::ptr::null_mut());
/// This process is the child of a fork of one that has loaded this library.
static CHILD: AtomicBool = AtomicBool::new(false);

/// How far the folder has been read.
struct Entries {
    last: dirent,
    next: c_int,
    end: c_int,
}

struct Shared(UnsafeCell<MaybeUninit<Entries>>);

// SAFETY: used by the only thread of a child, and written before `OPEN` is set.
unsafe impl Sync for Shared {}

static ENTRIES: Shared = Shared(UnsafeCell::new(MaybeUninit::uninit()));

/// The functions of the C library behind ours.
struct Real {
    opendir: unsafe extern "C" fn(*const c_char) -> *mut DIR,
    readdir: unsafe extern "C" fn(*mut DIR) -> *mut dirent,
    closedir: unsafe extern "C" fn(*mut DIR) -> c_int,
}

fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| {
        // SAFETY: functions of the C library with these types (dirent.h).
        unsafe {
            let find = |name: &CStr| {
                let found = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
                if found.is_null() { libc::abort() } else { found }
            };
            Real {
                opendir: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut DIR>(find(c"opendir")),
                readdir: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut DIR) -> *mut dirent>(find(c"readdir")),
                closedir: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut DIR) -> c_int>(find(c"closedir")),
            }
        }
    })
}

extern "C" fn begin() {
    extern "C" fn forked() {
        CHILD.store(true, Relaxed);
    }
    real();
    // SAFETY: a function that sets an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(name: *const c_char) -> *mut DIR {
    // SAFETY: forwarded as it came; a string by the caller's promise.
    unsafe {
        let folder = (real().opendir)(name);
        if CHILD.load(Relaxed)
            && !folder.is_null()
            && CStr::from_ptr(name) == OWN_FILES
            && let Some(end) = numbers_end()
        {
            (*ENTRIES.0.get()).write(Entries { last: std::mem::zeroed(), next: 0, end });
            OPEN.store(folder, Relaxed);
        }
        folder
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readdir(folder: *mut DIR) -> *mut dirent {
    // SAFETY: forwarded as it came; the entries are written if a folder is open, and the last one is the caller's until
    // the next call.
    unsafe {
        if folder.is_null() || OPEN.load(Relaxed) != folder {
            return (real().readdir)(folder);
        }
        (*ENTRIES.0.get()).assume_init_mut().advance()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(folder: *mut DIR) -> c_int {
    let _ = OPEN.compare_exchange(folder, std::ptr::null_mut(), Relaxed, Relaxed);
    // SAFETY: forwarded as it came.
    unsafe { (real().closedir)(folder) }
}

/// The end of the numbers of open files, from the size of the table that the kernel has for them.
fn numbers_end() -> Option<c_int> {
    let mut text = [0u8; 4096];
    // SAFETY: a constant string, and so many bytes to be written.
    let length = unsafe {
        let file = libc::open(c"/proc/self/status".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    table_size(text.get(..usize::try_from(length).ok()?)?)
}

fn table_size(status: &[u8]) -> Option<c_int> {
    let at = status.windows(TABLE.len()).position(|window| window == TABLE)? + TABLE.len();
    let digits = status[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |sum: Option<c_int>, byte| Some(sum.unwrap_or(0).saturating_mul(10).saturating_add((byte - b'0').into())))
}

impl Entries {
    /// The entry of the next file that is open; null after the last one.
    fn advance(&mut self) -> *mut dirent {
        // SAFETY: a plain number; what fails for one that is not open leaves errno, which is nobody's here, as it was.
        let is_open = |number| unsafe {
            let errno = *libc::__errno_location();
            let flags = libc::fcntl(number, libc::F_GETFD);
            *libc::__errno_location() = errno;
            flags >= 0
        };
        let Some(number) = (self.next..self.end).find(|&number| is_open(number)) else {
            self.next = self.end;
            return std::ptr::null_mut();
        };
        self.next = number + 1;
        self.last.d_type = libc::DT_LNK;
        // Ten digits and a zero at most.
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[first..];
        for (place, &digit) in self.last.d_name.iter_mut().zip(digits.iter().chain(&[0])) {
            *place = digit as c_char;
        }
        &raw mut self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_the_table() {
        assert_eq!(table_size(b"Name:\tx\nFDSize:\t1024\nGroups:\t0\n"), Some(1024));
        assert_eq!([table_size(b"Name:\tFDSize:\t9\n"), table_size(b"\nFDSize:\t\n")], [None; 2]);
    }

    /// What mpirun does in a child: the same numbers as the kernel says, whatever is between them.
    #[test]
    fn a_child_finds_its_files() {
        // SAFETY: the child only makes system calls and looks at memory of its own.
        unsafe {
            let high = libc::fcntl(0, libc::F_DUPFD, 1234);
            assert!(high >= 1234);
            let child = libc::fork();
            if child == 0 {
                let folder = opendir(OWN_FILES.as_ptr());
                let ours = OPEN.load(Relaxed) == folder;
                let (mut found, mut right) = (0, true);
                while let Some(entry) = readdir(folder).as_ref() {
                    let number = libc::atoi(entry.d_name.as_ptr());
                    right &= libc::fcntl(number, libc::F_GETFD) >= 0;
                    found = number;
                }
                closedir(folder);
                libc::_exit(c_int::from(!(ours && right && found == high && OPEN.load(Relaxed).is_null())));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            libc::close(high);
            assert_eq!(status, 0);
        }
    }
}
