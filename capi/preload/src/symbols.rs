//! The real function behind a symbol.

use narrows_mpicalls::{CALLS, Call};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::{mem, ptr};

/// One interposed MPI symbol.
pub struct Symbol {
    /// The real function once it has been found.
    function: AtomicUsize,
    /// Offset of the name.
    name: u32,
    /// Index in `CALLS`.
    id: u16,
    /// Argument words on the stack.
    words: u8,
    /// Arguments are passed by address.
    pub fortran: bool,
}

impl Symbol {
    const fn new(name: u32, id: u16, words: u8, fortran: bool) -> Self {
        Symbol { function: AtomicUsize::new(0), name, id, words, fortran }
    }

    /// Index in `CALLS`.
    pub fn id(&self) -> u32 {
        u32::from(self.id)
    }

    /// The call in the table.
    pub fn call(&self) -> &'static Call {
        &CALLS[usize::from(self.id)]
    }

    /// Argument words on the stack.
    pub fn words(&self) -> u64 {
        u64::from(self.words)
    }

    /// The symbol.
    pub fn name(&self) -> &'static CStr {
        CStr::from_bytes_until_nul(&NAMES.as_bytes()[self.name as usize..]).unwrap_or(c"MPI")
    }

    /// Address of the real function. Ends the process if there is none: the program calls a function that its MPI library
    /// lacks, which the dynamic linker would have refused.
    pub fn function(&self) -> usize {
        match self.function.load(Relaxed) {
            0 => {
                let found = required(self.name());
                self.function.store(found, Relaxed);
                found
            }
            found => found,
        }
    }

    /// As [`Symbol::function`], 0 if there is none.
    pub fn function_or_zero(&self) -> usize {
        match self.function.load(Relaxed) {
            0 => find(self.name()),
            found => found,
        }
    }
}

/// The symbol of that name.
pub fn by_name(name: &CStr) -> Option<&'static Symbol> {
    SYMBOLS.binary_search_by(|symbol| symbol.name().cmp(name)).ok().map(|slot| &SYMBOLS[slot])
}

macro_rules! export {
    ($($slot:literal $name:ident)*) => {
        #[allow(non_snake_case, missing_docs)]
        mod exported {
            $(
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name() {
                    core::arch::naked_asm!("mov r11d, {slot}", "jmp {common}", slot = const $slot, common = sym crate::trampoline::common)
                }
            )*
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

/// A function of the C library or of MPI that is called from here: looked up once.
pub struct Real {
    name: &'static CStr,
    version: Option<&'static CStr>,
    address: AtomicUsize,
}

impl Real {
    /// The next definition of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Real { name, version: None, address: AtomicUsize::new(0) }
    }

    /// With a symbol version, for functions of which the C library has an old and a new one.
    pub const fn versioned(name: &'static CStr, version: &'static CStr) -> Self {
        Real { name, version: Some(version), address: AtomicUsize::new(0) }
    }

    /// The function, or `None` if this process has none.
    ///
    /// # Safety
    /// `F` must be the type of that function.
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        assert!(mem::size_of::<F>() == mem::size_of::<usize>());
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            address = match self.version {
                // SAFETY: constant strings.
                Some(version) => unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) as usize },
                None => 0,
            };
            if address == 0 {
                address = find(self.name);
            }
            self.address.store(address, Relaxed);
        }
        // SAFETY: an address is as large as F, which by contract is the function's type.
        (address != 0).then(|| unsafe { mem::transmute_copy(&address) })
    }

    /// The function. Ends the process if there is none.
    ///
    /// # Safety
    /// As [`Real::get`].
    pub unsafe fn call<F: Copy>(&self) -> F {
        // SAFETY: forwarded contract.
        match unsafe { self.get() } {
            Some(function) => function,
            None => missing(self.name),
        }
    }
}

/// Declares wrappers of the real functions of the same name: `real!(fn nanosleep(...) -> c_int)`.
macro_rules! real {
    ($($(#[version = $version:literal])? fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        $(
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                static REAL: $crate::symbols::Real = real!(@ $name $($version)?);
                // SAFETY: the prototype is that of the manual page.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { REAL.call() };
                // SAFETY: the caller keeps the contract of the real function.
                unsafe { function($($argument),*) }
            }
        )*
    };
    (@ $name:ident) => {
        $crate::symbols::Real::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("an identifier has no zero byte"),
        })
    };
    (@ $name:ident $version:literal) => {
        $crate::symbols::Real::versioned(
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("an identifier has no zero byte"),
            },
            $version,
        )
    };
}
pub(crate) use real;

/// The next definition of a symbol behind ours, 0 if there is none.
///
/// Programs that load their MPI library with `dlopen` in a scope of its own (mpi4py) have nothing behind us in the global scope:
/// then it is the definition of a loaded MPI library, in load order. Likewise Open MPI 4.1 and PMIx.
pub fn find(name: &CStr) -> usize {
    // SAFETY: a valid string. RTLD_NEXT looks behind this library, so it never returns one of our own functions.
    let next = unsafe { crate::trampoline::real_dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next as usize;
    }
    let family: &[&[u8]] = if name.to_bytes().starts_with(b"PMIx_") {
        &[b"libpmix"]
    } else if name.to_bytes().starts_with(b"opal_") {
        &[b"libopen-pal"]
    } else if name.to_bytes().to_ascii_lowercase().windows(4).any(|part| part == b"mpi_" || part == b"mpix") {
        &[b"libmpi", b"libpmpi"]
    } else {
        return 0;
    };
    // Names first, dlopen later: the callback runs under the lock of the dynamic linker.
    let mut libraries = Libraries { family, found: Vec::new() };
    // SAFETY: the callback gets the pointer to `libraries` and does not outlive this call.
    unsafe { libc::dl_iterate_phdr(Some(note_library), ptr::from_mut(&mut libraries).cast()) };
    for library in &libraries.found {
        // SAFETY: valid strings; NOLOAD returns a handle of a library that is there already, or null.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                continue;
            }
            let found = crate::trampoline::real_dlsym(handle, name.as_ptr());
            libc::dlclose(handle);
            if !found.is_null() {
                return found as usize;
            }
        }
    }
    0
}

/// A variable of the MPI library, 0 if there is none. A program may have a copy of it, which is then the one that counts.
pub fn variable(name: &CStr) -> usize {
    // SAFETY: a valid string.
    match unsafe { crate::trampoline::real_dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize {
        0 => find(name),
        found => found,
    }
}

/// Loaded libraries whose file names begin in one of these ways.
struct Libraries {
    family: &'static [&'static [u8]],
    found: Vec<CString>,
}

unsafe extern "C" fn note_library(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
    // SAFETY: `find` passes its own record; the linker passes a valid record with a string or null.
    let (name, list) = unsafe { ((*info).dlpi_name, &mut *list.cast::<Libraries>()) };
    if !name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        let bytes = name.to_bytes();
        let file = &bytes[bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)..];
        if list.family.iter().any(|family| file.starts_with(family)) {
            list.found.push(name.to_owned());
        }
    }
    0
}

fn required(name: &CStr) -> usize {
    match find(name) {
        0 => missing(name),
        found => {
            Flavor::learn(found);
            found
        }
    }
}

fn missing(name: &CStr) -> ! {
    for part in [b"narrows: the program calls ".as_slice(), name.to_bytes(), b", which no loaded MPI library has\n"] {
        // SAFETY: a valid buffer; what cannot be written is lost.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: always.
    unsafe { libc::abort() }
}

/// Families of MPI libraries: the values of constants differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// Open MPI 4 and 5.
    OpenMpi,
    /// MPICH and its relatives with the MPICH ABI.
    Mpich,
    /// The ABI of MPI 5.0.
    Standard,
}

/// Values of MPI constants.
pub struct Constants {
    /// MPI_ANY_SOURCE
    pub any_source: i32,
    /// MPI_ANY_TAG
    pub any_tag: i32,
    /// MPI_COMM_TYPE_SHARED
    pub comm_type_shared: i32,
    /// MPI_THREAD_MULTIPLE
    pub thread_multiple: i32,
    /// MPI_THREAD_SERIALIZED
    pub thread_serialized: i32,
    /// MPI_PROC_NULL
    pub proc_null: i32,
    /// MPI_WIN_CREATE_FLAVOR
    pub win_create_flavor: i32,
    /// MPI_WIN_FLAVOR_SHARED, as attributes give it.
    pub win_flavor_shared: &'static i32,
}

/// 0: unknown, else 1 + Flavor.
static FLAVOR: AtomicU8 = AtomicU8::new(0);

impl Flavor {
    /// The family of the MPI library in this process: Open MPI until a function of one has been found.
    pub fn get() -> Flavor {
        match FLAVOR.load(Relaxed) {
            2 => Flavor::Mpich,
            3 => Flavor::Standard,
            _ => Flavor::OpenMpi,
        }
    }

    /// Looks at the library that has this function.
    pub fn learn(function: usize) {
        if FLAVOR.load(Relaxed) != 0 {
            return;
        }
        // SAFETY: the record is filled only if dladdr succeeds, then with valid strings.
        let flavor = unsafe {
            let mut info: libc::Dl_info = mem::zeroed();
            if libc::dladdr(function as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
                return;
            }
            let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                return;
            }
            let has = |name: &CStr| !crate::trampoline::real_dlsym(handle, name.as_ptr() as *const c_char).is_null();
            // The predefined communicator object is part of Open MPI's ABI (mpi.h, OMPI_PREDEFINED_GLOBAL); a library with
            // the ABI of MPI 5.0 has no Fortran status constants, MPICH's own has (nm -D of MPICH 5.0.2).
            let flavor = if has(c"ompi_mpi_comm_world") {
                Flavor::OpenMpi
            } else if has(c"MPI_Abi_get_version") && !has(c"MPI_F_STATUS_IGNORE") {
                Flavor::Standard
            } else {
                Flavor::Mpich
            };
            libc::dlclose(handle);
            flavor
        };
        FLAVOR.store(1 + flavor as u8, Relaxed);
    }

    /// From the mpi.h of Open MPI 4.1.4 and 5.0.11, of MPICH 5.0.2, and its mpi_abi.h.
    pub fn constants(self) -> Constants {
        match self {
            Flavor::OpenMpi => Constants {
                any_source: -1,
                any_tag: -1,
                comm_type_shared: 0,
                thread_multiple: 3,
                thread_serialized: 2,
                proc_null: -2,
                win_create_flavor: 10,
                win_flavor_shared: &4,
            },
            Flavor::Mpich => Constants {
                any_source: -2,
                any_tag: -1,
                comm_type_shared: 1,
                thread_multiple: 3,
                thread_serialized: 2,
                proc_null: -1,
                win_create_flavor: 0x6600_0007,
                win_flavor_shared: &4,
            },
            Flavor::Standard => Constants {
                any_source: -1,
                any_tag: -2,
                comm_type_shared: 221,
                thread_multiple: 4096,
                thread_serialized: 2048,
                proc_null: -3,
                win_create_flavor: 604,
                win_flavor_shared: &314,
            },
        }
    }
}
