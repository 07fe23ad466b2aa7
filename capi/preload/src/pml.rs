//! Blocking sends of Open MPI while several threads of the program may call MPI.
//!
//! They are sent and waited for in two steps. Open MPI's own function (`ompi_mtl_ofi_send`, 4.1 and 5.0) waits in a
//! loop of its own around its network, in which it keeps a lock that is none of POSIX' while it looks; a second thread
//! that comes there spins for the lock, without calling anybody. All other waits are in one place, where one thread
//! looks for all and the others sleep (`ompi_sync_wait_mt`). What is copied at once is not waited for, and goes on as
//! it is.

use crate::symbols::{self, Real};
use crate::{portals, state};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Place of `pml_isend` in `mca_pml_base_module_t` (ompi/mca/pml/pml.h), in pointers, by version; `pml_send` is behind
/// it.
const ISEND: [(&[u8], usize); 2] = [(b"Open MPI v4.", 10), (b"Open MPI v5.0", 11)];
/// `MCA_PML_BASE_SEND_SYNCHRONOUS` and `MCA_PML_BASE_SEND_BUFFERED` of `mca_pml_base_send_mode_t`.
const SYNCHRONOUS: c_int = 0;
const BUFFERED: c_int = 2;

type Send = unsafe extern "C" fn(*const c_void, usize, *mut c_void, c_int, c_int, c_int, *mut c_void) -> c_int;
type Isend = unsafe extern "C" fn(*const c_void, usize, *mut c_void, c_int, c_int, c_int, *mut c_void, *mut *mut c_void) -> c_int;

static ORIGINAL: AtomicUsize = AtomicUsize::new(0);
static ISEND_FUNCTION: AtomicUsize = AtomicUsize::new(0);

/// MPI_THREAD_MULTIPLE was given: takes the place of Open MPI's blocking send. False: it is another Open MPI than those
/// that are known.
pub fn take_over() -> bool {
    let module = symbols::variable(c"mca_pml") as *mut usize;
    if !is_cm() {
        // The others wait in one place only. Other libraries have nothing of that name.
        return true;
    }
    let (version, length) = version();
    let known = ISEND.iter().find(|(name, _)| version[..length].starts_with(name));
    let Some(&(_, place)) = known.filter(|_| !module.is_null()) else { return false };
    // SAFETY: Open MPI's table of functions, which it has filled in MPI_Init and reads at each call.
    unsafe {
        ISEND_FUNCTION.store(module.add(place).read(), Relaxed);
        ORIGINAL.store(module.add(place + 1).read(), Relaxed);
        module.add(place + 1).write(send as *const () as usize);
    }
    true
}

/// Whether messages go through `pml/cm`: the name of the component in `mca_base_component_t` (opal/mca/mca.h, version
/// 2.1 of the interface), behind the version, name and version of its project, and name and version of its framework.
fn is_cm() -> bool {
    const NAME: usize = 3 * 4 + 16 + 3 * 4 + 32 + 3 * 4;
    let component = symbols::variable(c"mca_pml_base_selected_component") as *const u8;
    // SAFETY: the record is longer than that.
    !component.is_null() && unsafe { std::slice::from_raw_parts(component.add(NAME), 3) } == b"cm\0"
}

/// What the library says of itself. The longest text is 256 bytes in Open MPI (`MPI_MAX_LIBRARY_VERSION_STRING`), and
/// 8192 in others.
fn version() -> ([u8; 8192], usize) {
    static VERSION: Real = Real::new(c"PMPI_Get_library_version");
    let (mut text, mut length) = ([0; 8192], 0);
    // SAFETY: the prototype in mpi.h; there is room.
    unsafe { VERSION.call::<unsafe extern "C" fn(*mut u8, *mut c_int) -> c_int>()(text.as_mut_ptr(), &mut length) };
    (text, usize::try_from(length).unwrap_or(0).min(8192))
}

unsafe extern "C" fn send(
    bytes: *const c_void,
    count: usize,
    datatype: *mut c_void,
    to: c_int,
    tag: c_int,
    mode: c_int,
    communicator: *mut c_void,
) -> c_int {
    static TYPE_SIZE: Real = Real::new(c"PMPI_Type_size");
    static WAIT: Real = Real::new(c"PMPI_Wait");
    // SAFETY: the functions are what they were in that table; arguments as they came. A request is waited for once.
    unsafe {
        let original: Send = std::mem::transmute(ORIGINAL.load(Relaxed));
        let isend: Isend = std::mem::transmute(ISEND_FUNCTION.load(Relaxed));
        let mut size: c_int = 0;
        TYPE_SIZE.call::<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>()(datatype, &mut size);
        let length = u64::try_from(size).unwrap_or(u64::MAX).saturating_mul(count as u64);
        let at_once = mode != SYNCHRONOUS && length <= portals::inject_limit();
        if at_once || mode == BUFFERED || !state::in_mpi() || state::waits_outside() {
            return original(bytes, count, datatype, to, tag, mode, communicator);
        }
        let mut request = std::ptr::null_mut();
        match isend(bytes, count, datatype, to, tag, mode, communicator, &mut request) {
            0 => WAIT.call::<unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> c_int>()(&mut request, std::ptr::null_mut()),
            code => code,
        }
    }
}
