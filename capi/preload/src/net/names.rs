//! Addresses of hosts: those of the simulated nodes.

use super::{Mode, mode};
use crate::{portals, state};
use narrows_socketcalls::address_of;
use std::ffi::{CStr, CString, c_char};
use std::net::Ipv4Addr;

fn address(name: &CStr) -> Option<Ipv4Addr> {
    if name == c"localhost" {
        return Some(Ipv4Addr::LOCALHOST);
    }
    let wanted = name.to_bytes();
    (0..).map_while(portals::host_of).find(|(host, _)| host.as_bytes() == wanted).map(|(_, node)| address_of(node))
}

/// The address of a host of the run, in digits, where sockets are simulated.
///
/// # Safety
/// `name` is null or a string.
pub unsafe fn digits(name: *const c_char) -> Option<CString> {
    if name.is_null() || mode() == Mode::Off || !state::in_program() {
        return None;
    }
    // SAFETY: by the caller's promise.
    let address = address(unsafe { CStr::from_ptr(name) })?;
    CString::new(address.to_string()).ok()
}
