//! Names and options of simulated sockets.

use super::{ask, call, fail, give, is_stream, result, simulated};
use crate::descriptors::ps_of;
use crate::symbols::real;
use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t, timeval};
use narrows_socketcalls::{Answer, CallKind, Setting};

mod next {
    use super::*;
    real! {
        fn getsockname(socket: c_int, name: *mut sockaddr, length: *mut socklen_t) -> c_int;
        fn getpeername(socket: c_int, name: *mut sockaddr, length: *mut socklen_t) -> c_int;
        fn getsockopt(socket: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
        fn setsockopt(socket: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
        fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    }
}

/// How long a wait for such events lasts at most, as the stand-in remembers it.
pub(super) fn patience(file: c_int, events: i16) -> u64 {
    let name = if events & libc::POLLIN != 0 { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let mut limit = timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<timeval>() as socklen_t;
    // SAFETY: a record to be filled.
    unsafe { next::getsockopt(file, libc::SOL_SOCKET, name, (&raw mut limit).cast(), &mut length) };
    // No limit is a limit of 0: socket(7).
    match ps_of(&limit) {
        0 => u64::MAX,
        limit => limit,
    }
}

unsafe fn name(socket: u32, peer: bool, to: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let mut answer = Answer::default();
    let named = call(CallKind::Name, socket, &[u64::from(peer)], &mut answer);
    if named.is_ok() {
        // SAFETY: the caller's room.
        unsafe { give(&answer, to, length) };
    }
    result(named) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(file: c_int, to: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as it came.
    unsafe {
        match simulated(file) {
            Some(socket) => name(socket, false, to, length),
            None => next::getsockname(file, to, length),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(file: c_int, to: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as it came.
    unsafe {
        match simulated(file) {
            Some(socket) => name(socket, true, to, length),
            None => next::getpeername(file, to, length),
        }
    }
}

/// What the simulator knows; other options of sockets the stand-in remembers.
fn setting(level: c_int, name: c_int) -> Option<Setting> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(Setting::NoDelay),
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => Some(Setting::ReceiveBuffer),
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => Some(Setting::SendBuffer),
        (libc::SOL_SOCKET, libc::SO_ERROR) => Some(Setting::Error),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Some(Setting::Listens),
        _ => None,
    }
}

/// Payload of a segment, where nobody has asked for another one: that of Ethernet. Programs print it.
const SEGMENT: c_int = 1460;

/// Writes a number where the program wants it.
unsafe fn put_number(number: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int {
    if value.is_null() || length.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: there is room for so many bytes.
    unsafe {
        let room = (*length as usize).min(size_of::<c_int>());
        std::ptr::copy_nonoverlapping((&raw const number).cast::<u8>(), value.cast::<u8>(), room);
        *length = room as socklen_t;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(file: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int {
    let Some(socket) = simulated(file) else {
        // SAFETY: forwarded as it came.
        return unsafe { next::getsockopt(file, level, name, value, length) };
    };
    if let Some(setting) = setting(level, name) {
        return match ask(CallKind::Get, socket, &[setting as u64]) {
            // SAFETY: the caller's room.
            Ok(number) => unsafe { put_number(number as c_int, value, length) },
            Err(errno) => fail(errno),
        };
    }
    // SAFETY: as it came; the caller's room.
    unsafe {
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => put_number(libc::AF_INET, value, length),
            (libc::SOL_SOCKET, libc::SO_TYPE) => {
                put_number(if is_stream(socket) { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }, value, length)
            }
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => {
                put_number(if is_stream(socket) { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP }, value, length)
            }
            (libc::SOL_SOCKET, _) => next::getsockopt(file, level, name, value, length),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => put_number(SEGMENT, value, length),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let name = if ask(CallKind::Get, socket, &[Setting::Congestion as u64]) == Ok(0) { "none\0" } else { "reno\0" };
                let room = (*length as usize).min(name.len());
                std::ptr::copy_nonoverlapping(name.as_ptr(), value.cast(), room);
                *length = room as socklen_t;
                0
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                // What nobody measures is zero.
                std::ptr::write_bytes(value.cast::<u8>(), 0, *length as usize);
                0
            }
            (libc::IPPROTO_TCP | libc::IPPROTO_IP, _) => put_number(0, value, length),
            _ => fail(libc::ENOPROTOOPT),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(file: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int {
    let Some(socket) = simulated(file) else {
        // SAFETY: forwarded as it came.
        return unsafe { next::setsockopt(file, level, name, value, length) };
    };
    if level == libc::IPPROTO_TCP && name == libc::TCP_CONGESTION && !value.is_null() {
        // SAFETY: so many bytes, as the caller says.
        let wanted = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) };
        return match wanted.split(|&byte| byte == 0).next() {
            Some(b"reno") => result(ask(CallKind::Set, socket, &[Setting::Congestion as u64, 1])) as c_int,
            Some(b"none") => result(ask(CallKind::Set, socket, &[Setting::Congestion as u64, 0])) as c_int,
            _ => fail(libc::ENOENT),
        };
    }
    if let Some(setting) = setting(level, name) {
        if value.is_null() || (length as usize) < size_of::<c_int>() {
            return fail(libc::EINVAL);
        }
        // SAFETY: a number, as the caller says.
        let number = unsafe { value.cast::<c_int>().read_unaligned() };
        return result(ask(CallKind::Set, socket, &[setting as u64, number.max(0) as u64])) as c_int;
    }
    match level {
        // Only what it waits for and whether addresses may be used again, which they may.
        libc::SOL_SOCKET
            if matches!(
                name,
                libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_LINGER | libc::SO_KEEPALIVE
            ) =>
        {
            // SAFETY: as it came.
            unsafe { next::setsockopt(file, level, name, value, length) }
        }
        libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_IP => 0,
        _ => fail(libc::ENOPROTOOPT),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let asks = match request {
        libc::FIONREAD => Some(Setting::Readable),
        libc::TIOCOUTQ => Some(Setting::Unsent),
        _ => None,
    };
    match (simulated(file), asks) {
        (Some(socket), Some(setting)) => match ask(CallKind::Get, socket, &[setting as u64]) {
            Ok(number) => {
                // SAFETY: a number, as ioctl_tty(2) has it.
                unsafe { argument.cast::<c_int>().write(number as c_int) };
                0
            }
            Err(errno) => fail(errno),
        },
        // SAFETY: forwarded as it came.
        _ => unsafe { next::ioctl(file, request, argument) },
    }
}
