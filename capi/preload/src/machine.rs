//! Host name and cores of the simulated machine, for the program. The MPI library inside its calls sees the real ones:
//! it builds its own connections with them.

use crate::symbols::real;
use crate::{net, portals, state};
use libc::{addrinfo, c_char, c_int, c_long, c_void, size_t, utsname};
use std::ffi::{CStr, CString};
use std::ptr;

mod next {
    use super::*;
    real! {
        fn gethostname(name: *mut c_char, size: size_t) -> c_int;
        fn getaddrinfo(
            node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo,
        ) -> c_int;
        fn gethostbyname(name: *const c_char) -> *mut c_void;
        fn uname(name: *mut utsname) -> c_int;
        fn sysconf(name: c_int) -> c_long;
        fn get_nprocs() -> c_int;
        fn get_nprocs_conf() -> c_int;
    }
}

/// Whether this is the name of the simulated host, which no name service knows: it means this host, as /etc/hosts would
/// say.
unsafe fn is_own_host(name: *const c_char) -> bool {
    // SAFETY: the caller passes null or a string.
    !name.is_null()
        && state::in_program()
        && portals::host().is_some_and(|(host, length)| unsafe { CStr::from_ptr(name) }.to_bytes() == &host[..length])
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo) -> c_int {
    // SAFETY: forwarded; only the name may be another one.
    unsafe {
        match net::digits(node) {
            Some(digits) => next::getaddrinfo(digits.as_ptr(), service, hints, found),
            None => next::getaddrinfo(if is_own_host(node) { c"localhost".as_ptr() } else { node }, service, hints, found),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut c_void {
    // SAFETY: forwarded; only the name may be another one.
    unsafe {
        match net::digits(name) {
            Some(digits) => next::gethostbyname(digits.as_ptr()),
            None => next::gethostbyname(if is_own_host(name) { c"localhost".as_ptr() } else { name }),
        }
    }
}

/// Of the simulated node, where the caller is the program.
pub fn cores() -> Option<usize> {
    if state::in_program() { portals::cores() } else { None }
}

/// The launcher's environment has the cores of the largest node; the hwloc of a rank sees those of its own.
pub fn show_own_node() {
    let name = c"HWLOC_SYNTHETIC";
    // SAFETY: a constant name; the process has one thread yet.
    let given = unsafe { libc::getenv(name.as_ptr()) };
    let Some(cores) = portals::cores().filter(|_| !given.is_null()) else { return };
    let Ok(own) = CString::new(format!("core:{cores} pu:1")) else { return };
    // SAFETY: both end with a zero, and the C library copies what it is given.
    unsafe {
        if CStr::from_ptr(given) != own.as_c_str() {
            libc::setenv(name.as_ptr(), own.as_ptr(), 1);
        }
    }
}

/// What launchers call the number of a rank among those of its node.
const LOCAL_RANKS: [&CStr; 6] = [
    c"OMPI_COMM_WORLD_LOCAL_RANK",
    c"OMPI_COMM_WORLD_NODE_RANK",
    c"MPI_LOCALRANKID",
    c"PMI_LOCAL_RANK",
    c"MV2_COMM_WORLD_LOCAL_RANK",
    c"SLURM_LOCALID",
];
/// What they call how many there are.
const LOCAL_SIZES: [&CStr; 4] = [c"OMPI_COMM_WORLD_LOCAL_SIZE", c"MPI_LOCALNRANKS", c"PMI_LOCAL_SIZE", c"MV2_COMM_WORLD_LOCAL_SIZE"];

/// The launcher has started all ranks on one host, and counts them so in what it puts into their environment; programs
/// and the scripts that start them choose a device by that. Variables that it has not set stay away.
pub fn show_own_place() {
    // SAFETY: a constant name, whose value has a zero; the process has one thread yet.
    let map = unsafe {
        let map = libc::getenv(c"NARROWS_MAP".as_ptr());
        if map.is_null() { c"" } else { CStr::from_ptr(map) }
    };
    if portals::cores().is_none() {
        return;
    }
    let Some((local, size)) = map.to_str().ok().and_then(|map| place_on_node(map, portals::rank() as usize)) else { return };
    let values = LOCAL_RANKS.iter().map(|name| (name, local)).chain(LOCAL_SIZES.iter().map(|name| (name, size)));
    for (name, value) in values {
        let Ok(value) = CString::new(value.to_string()) else { continue };
        // SAFETY: as above; the C library copies what it is given.
        unsafe {
            if !libc::getenv(name.as_ptr()).is_null() {
                libc::setenv(name.as_ptr(), value.as_ptr(), 1);
            }
        }
    }
}

/// The number of a rank among those of its node, and how many these are. `map`: `nid:pid` of each rank.
fn place_on_node(map: &str, rank: usize) -> Option<(usize, usize)> {
    let nodes = || map.split(',').map(|process| process.split(':').next());
    let own = nodes().nth(rank)?;
    Some((nodes().take(rank).filter(|&node| node == own).count(), nodes().filter(|&node| node == own).count()))
}

/// As gethostname(2): a name that does not fit is cut, and ENAMETOOLONG.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(name: *mut c_char, size: size_t) -> c_int {
    // SAFETY: the caller's buffer has `size` bytes.
    unsafe {
        match state::in_program().then(portals::host).flatten() {
            Some((host, length)) if !name.is_null() => copy_host(&host[..=length], name, size),
            _ => match launcher_host() {
                Some(host) if !name.is_null() => copy_host(host.to_bytes_with_nul(), name, size),
                _ => next::gethostname(name, size),
            },
        }
    }
}

/// `host` ends with a zero.
///
/// # Safety
/// `name` is valid for writing `size` bytes.
unsafe fn copy_host(host: &[u8], name: *mut c_char, size: size_t) -> c_int {
    // SAFETY: as above.
    unsafe {
        ptr::copy_nonoverlapping(host.as_ptr(), name.cast(), size.min(host.len()));
        if size < host.len() {
            *libc::__errno_location() = libc::ENAMETOOLONG;
            return -1;
        }
    }
    0
}

/// What the launcher calls this host, for the MPI library: Open MPI 4.1 sends it to other ranks, and `capi/launcher`
/// says the same on every host.
fn launcher_host() -> Option<&'static CStr> {
    // SAFETY: a string with a zero; the environment's strings stay.
    unsafe {
        let found = libc::getenv(c"PMIX_HOSTNAME".as_ptr());
        if found.is_null() { None } else { Some(CStr::from_ptr(found)) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uname(name: *mut utsname) -> c_int {
    // SAFETY: forwarded as it came; filled if the result is 0. `nodename` has 65 bytes on Linux: uname(2).
    unsafe {
        let code = next::uname(name);
        if code == 0
            && let Some((host, _)) = state::in_program().then(portals::host).flatten()
        {
            ptr::copy_nonoverlapping(host.as_ptr(), (&raw mut (*name).nodename).cast(), host.len());
        }
        code
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    if (name == libc::_SC_NPROCESSORS_ONLN || name == libc::_SC_NPROCESSORS_CONF)
        && let Some(cores) = cores()
    {
        return cores as c_long;
    }
    // SAFETY: a plain number.
    unsafe { next::sysconf(name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_nprocs() -> c_int {
    // SAFETY: no arguments.
    cores().map_or_else(|| unsafe { next::get_nprocs() }, |cores| cores as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_nprocs_conf() -> c_int {
    // SAFETY: no arguments.
    cores().map_or_else(|| unsafe { next::get_nprocs_conf() }, |cores| cores as c_int)
}
