//! Data of simulated sockets.

use super::{ask, call, give, given, is_stream, result, until_done, words_of};
use crate::descriptors::rest;
use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};
use narrows_socketcalls::{Answer, CallKind};
use std::net::SocketAddrV4;

/// Parts that are handed over at once when some have been sent. Our own choice.
const MOST_PARTS: usize = 16;

/// # Safety
/// The parts are there, and the address.
pub unsafe fn send(file: c_int, socket: u32, parts: &[iovec], flags: c_int, to: *const sockaddr, length: socklen_t) -> ssize_t {
    // SAFETY: the caller's address.
    let to = if to.is_null() { Ok(None) } else { unsafe { given(to, length) }.map(Some) };
    let sent = to.and_then(|to| send_all(file, socket, parts, flags, to));
    if sent == Err(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: a plain number; a program that does not ignore it ends, as it would otherwise.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    result(sent) as ssize_t
}

fn send_all(file: c_int, socket: u32, parts: &[iovec], flags: c_int, to: Option<SocketAddrV4>) -> Result<i64, c_int> {
    let all: usize = parts.iter().map(|part| part.iov_len).sum();
    let [address, port] = to.map_or([0, 0], words_of);
    let mut done = 0;
    loop {
        let mut room = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_PARTS];
        let left = if done == 0 {
            parts
        } else {
            let count = rest(parts, done, &mut room);
            &room[..count]
        };
        let sent = until_done(file, flags, libc::POLLOUT, || {
            ask(CallKind::Send, socket, &[left.as_ptr() as u64, left.len() as u64, address, port])
        });
        match sent {
            Ok(sent) => done += sent as usize,
            Err(_) if done > 0 => return Ok(done as i64),
            Err(errno) => return Err(errno),
        }
        if done >= all || !is_stream(socket) {
            return Ok(done as i64);
        }
    }
}

/// # Safety
/// The parts are there, and the room for an address.
pub unsafe fn receive(file: c_int, socket: u32, parts: &[iovec], flags: c_int, from: *mut sockaddr, length: *mut socklen_t) -> ssize_t {
    let mut answer = Answer::default();
    let came = receive_all(file, socket, parts, flags, &mut answer);
    if came.is_ok() {
        // SAFETY: the caller's room.
        unsafe { give(&answer, from, length) };
    }
    let whole = flags & libc::MSG_TRUNC != 0 && !is_stream(socket);
    result(came.map(|came| if whole { answer.length as i64 } else { came })) as ssize_t
}

fn receive_all(file: c_int, socket: u32, parts: &[iovec], flags: c_int, answer: &mut Answer) -> Result<i64, c_int> {
    let all: usize = parts.iter().map(|part| part.iov_len).sum();
    let peeks = flags & libc::MSG_PEEK != 0;
    let waits = flags & libc::MSG_WAITALL != 0 && !peeks && is_stream(socket);
    let mut done = 0;
    loop {
        let mut room = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_PARTS];
        let left = if done == 0 {
            parts
        } else {
            let count = rest(parts, done, &mut room);
            &room[..count]
        };
        let came = until_done(file, flags, libc::POLLIN, || {
            call(CallKind::Receive, socket, &[left.as_ptr() as u64, left.len() as u64, u64::from(peeks)], answer)
        });
        match came {
            Ok(came) => done += came as usize,
            Err(_) if done > 0 => return Ok(done as i64),
            Err(errno) => return Err(errno),
        }
        if !waits || done >= all || came == Ok(0) {
            return Ok(done as i64);
        }
    }
}

unsafe fn parts_of(message: &msghdr) -> &[iovec] {
    if message.msg_iov.is_null() {
        return &[];
    }
    // SAFETY: so many parts, as the caller says.
    unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

/// # Safety
/// As sendmsg(2).
pub unsafe fn send_message(file: c_int, socket: u32, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: a message of the caller.
    unsafe {
        let message = &*message;
        send(file, socket, parts_of(message), flags, message.msg_name.cast(), message.msg_namelen)
    }
}

/// # Safety
/// As recvmsg(2).
pub unsafe fn receive_message(file: c_int, socket: u32, message: *mut msghdr, flags: c_int) -> ssize_t {
    let mut answer = Answer::default();
    // SAFETY: a message of the caller, with room as it says.
    unsafe {
        let message = &mut *message;
        let came = receive_all(file, socket, parts_of(message), flags, &mut answer);
        if let Ok(length) = came {
            give(&answer, message.msg_name.cast(), &mut message.msg_namelen);
            message.msg_controllen = 0;
            message.msg_flags = if (length as u64) < answer.length && !is_stream(socket) { libc::MSG_TRUNC } else { 0 };
        }
        result(came) as ssize_t
    }
}
