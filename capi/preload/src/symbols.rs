//! The real function behind a symbol.

use narrows_mpicalls::{CALLS, Call};
use narrows_mpilib::{ABIS, Abi, Constants, KnownAbi};
use std::ffi::{CStr, c_void};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

    /// Address of the real function. Ends the process if there is none: the program calls a function that its MPI
    /// library lacks, which the dynamic linker would have refused.
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
                    crate::arch::stub!($slot, crate::trampoline::common)
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

/// The next definition of a symbol behind ours, 0 if there is none; in a loaded MPI library when it is not in the
/// global scope. Open MPI 4.1 loads PMIx in such a way.
pub fn find(name: &CStr) -> usize {
    let family: &[&[u8]] = if name.to_bytes().starts_with(b"PMIx_") {
        &[b"libpmix"]
    } else if name.to_bytes().starts_with(b"opal_") {
        &[b"libopen-pal"]
    } else if name.to_bytes().starts_with(b"event_") {
        &[b"libevent"]
    } else if name.to_bytes().to_ascii_lowercase().windows(4).any(|part| part == b"mpi_" || part == b"mpix") {
        narrows_mpilib::FILE_NAMES
    } else {
        &[]
    };
    narrows_mpilib::find(name, family, crate::trampoline::real_dlsym)
}

/// A variable of the MPI library, 0 if there is none. A program may have a copy of it, which is then the one that
/// counts.
pub fn variable(name: &CStr) -> usize {
    // SAFETY: a valid string.
    match unsafe { crate::trampoline::real_dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize {
        0 => find(name),
        found => found,
    }
}

fn required(name: &CStr) -> usize {
    match find(name) {
        0 => missing(name),
        found => {
            learn(found);
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

/// The ABI of the MPI library in this process.
static ABI: KnownAbi = KnownAbi::unknown();

/// It; the first of the table until a function of a library has been found.
pub fn abi() -> &'static Abi {
    ABI.get().unwrap_or(ABIS[0])
}

/// Its constants.
pub fn constants() -> &'static Constants {
    &abi().constants
}

/// Looks at the library that has this function.
pub fn learn(function: usize) {
    if ABI.get().is_some() {
        return;
    }
    // SAFETY: the record is filled only if dladdr succeeds, then with valid strings.
    let abi = unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        if libc::dladdr(function as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return;
        }
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return;
        }
        let abi = Abi::of(ABIS, |name| !crate::trampoline::real_dlsym(handle, name.as_ptr()).is_null());
        libc::dlclose(handle);
        abi
    };
    ABI.set(abi);
}
