//! Sockets and pipes by which ranks talk beside the simulated network, and what waits there.
//!
//! A thread of the program that would wait for another rank at a real descriptor waits in the simulation: the others
//! get on. It is woken when the descriptor is ready, and then the real function is called, which does not block any
//! more. Descriptors 0 to 2 and that of the launcher are not looked at, nor pipes and pairs of sockets of a process
//! with children, which may be behind them: those waits are real, and simulated time stands still.

use crate::clock::{self, NS_PER_S, PS_PER_NS, View};
use crate::portals::{self, File};
use crate::symbols::real;
use crate::{files, launcher, net, sleep, state};
use libc::{
    c_int, c_uint, c_void, epoll_event, fd_set, iovec, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
    timeval,
};
use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub mod next {
    use super::*;
    real! {
        fn read(file: c_int, bytes: *mut c_void, count: size_t) -> ssize_t;
        fn readv(file: c_int, parts: *const iovec, count: c_int) -> ssize_t;
        fn recvfrom(socket: c_int, bytes: *mut c_void, count: size_t, flags: c_int, from: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
        fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
        fn accept(socket: c_int, from: *mut sockaddr, length: *mut socklen_t) -> c_int;
        fn accept4(socket: c_int, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
        fn connect(socket: c_int, to: *const sockaddr, length: socklen_t) -> c_int;
        fn write(file: c_int, bytes: *const c_void, count: size_t) -> ssize_t;
        fn writev(file: c_int, parts: *const iovec, count: c_int) -> ssize_t;
        fn send(socket: c_int, bytes: *const c_void, count: size_t, flags: c_int) -> ssize_t;
        fn sendto(
            socket: c_int, bytes: *const c_void, count: size_t, flags: c_int, to: *const sockaddr, length: socklen_t,
        ) -> ssize_t;
        fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
        fn shutdown(socket: c_int, how: c_int) -> c_int;
        fn close(file: c_int) -> c_int;
        fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
        fn closefrom(first: c_int) -> ();
        fn poll(files: *mut pollfd, n: nfds_t, timeout_ms: c_int) -> c_int;
        fn ppoll(files: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
        fn pselect(
            n: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t,
        ) -> c_int;
        fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int;
        fn epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int;
    }
}

/// Files that a wait can be for; more are waited for in real time.
const MOST: usize = 64;

/// Not waiting at all, and for ever, as libportals.so has it.
const LOOK: u64 = 0;
const FOR_EVER: u64 = u64::MAX;

/// What ranks talk by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    Socket,
}

/// Keys of what cannot be told from others of its kind.
const UNIX: u64 = 1;

/// Of our own choice: any that seldom gives two things one number (FNV-1a).
fn hash(kind: u8, parts: [u64; 2]) -> u64 {
    let bytes = [u64::from(kind), parts[0], parts[1]];
    let sum = bytes
        .iter()
        .flat_map(|part| part.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    sum.max(UNIX + 1)
}

const PIPE: u8 = 1;
const CONNECTION: u8 = 2;
const LISTENER: u8 = 3;
const DATAGRAM: u8 = 4;

/// Does something that must leave errno as it is.
pub fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: errno of this thread.
    unsafe {
        let errno = *libc::__errno_location();
        let result = call();
        *libc::__errno_location() = errno;
        result
    }
}

fn fail(errno: c_int) -> ssize_t {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Whether the caller is the program, in simulated time.
fn simulated() -> bool {
    clock::view() == View::Simulated
}

/// Whether the program, which is going to read from these or to wait there, does so in simulated time. One that uses
/// Portals enters that by PtlInit or here, whichever comes first: ranks that wait for each other in these two places
/// find each other there (docs/decisions/0021-joining.md).
fn reads_simulated(files: impl IntoIterator<Item = c_int>) -> bool {
    waits_simulated(|| files.into_iter().any(|file| kind(file).is_some()))
}

/// The same, if other ranks may be behind what it waits for.
fn waits_simulated(for_ranks: impl FnOnce() -> bool) -> bool {
    if clock::view() == View::Before {
        keeping_errno(|| {
            // Libraries' threads are their own affair.
            // SAFETY: plain numbers.
            let first = unsafe { libc::gettid() == libc::getpid() };
            if first && for_ranks() && portals::is_used() {
                portals::joins();
            }
        });
    }
    simulated()
}

/// So many sleeps before PtlInit: the program waits for another rank, by a file that this one is going to write. Our
/// own choice: nobody who has to sleep a few times there is taken for such a one.
const MANY_SLEEPS: u32 = 10;

/// The program sleeps. With the last of [`MANY_SLEEPS`] it enters simulated time, as if it waited at a socket.
pub fn sleeps() {
    static SLEEPS: AtomicU32 = AtomicU32::new(0);
    waits_simulated(|| SLEEPS.fetch_add(1, Relaxed) + 1 >= MANY_SLEEPS);
}

/// `PIPEFS_MAGIC` of linux/magic.h: pipes without a name.
const PIPEFS: i64 = 0x5049_5045;

/// What a descriptor is, if other ranks may be behind it.
fn kind(file: c_int) -> Option<Kind> {
    if net::simulated(file).is_some() {
        return Some(Kind::Socket);
    }
    if file <= libc::STDERR_FILENO || file == launcher::socket() {
        return None;
    }
    // SAFETY: a record to be filled.
    let status = unsafe {
        let mut status: libc::stat = mem::zeroed();
        (libc::fstat(file, &mut status) == 0).then_some(status)
    }?;
    match status.st_mode & libc::S_IFMT {
        libc::S_IFIFO => {
            // SAFETY: as above.
            let anonymous = unsafe {
                let mut system: libc::statfs = mem::zeroed();
                libc::fstatfs(file, &mut system) == 0 && system.f_type == PIPEFS
            };
            (!anonymous || !has_children()).then_some(Kind::Pipe)
        }
        libc::S_IFSOCK => {
            let pair = || {
                address(file, libc::getsockname).is_some_and(|own| own.is_nameless())
                    && address(file, libc::getpeername).is_some_and(|peer| peer.is_nameless())
            };
            (!pair() || !has_children()).then_some(Kind::Socket)
        }
        // It is read and written as a pipe is, and all have one inode: the last write to any of them counts.
        0 if is_event_counter(file) && !has_children() => Some(Kind::Pipe),
        _ => None,
    }
}

/// Whether the process has children, which pipes may be for.
fn has_children() -> bool {
    // SAFETY: nobody's status is taken.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
    }
}

/// What an event counter is called in /proc: proc(5), `/proc/pid/fd`.
const EVENT_COUNTER: &[u8] = b"anon_inode:[eventfd]";

/// Whether a descriptor of no type is an event counter.
fn is_event_counter(file: c_int) -> bool {
    // Nothing is allocated: a handler of signals may write.
    let mut path = [0_u8; 32];
    let mut name = [0_u8; EVENT_COUNTER.len() + 1];
    if write!(&mut path[..31], "/proc/self/fd/{file}").is_err() {
        return false;
    }
    // SAFETY: a string that ends with a zero; so many bytes to be filled.
    let length = unsafe { libc::readlink(path.as_ptr().cast(), name.as_mut_ptr().cast(), name.len()) };
    usize::try_from(length).is_ok_and(|length| &name[..length] == EVENT_COUNTER)
}

/// An address of a socket.
struct Address {
    bytes: libc::sockaddr_storage,
    length: usize,
}

impl Address {
    fn family(&self) -> c_int {
        c_int::from(self.bytes.ss_family)
    }

    fn is_nameless(&self) -> bool {
        self.family() == libc::AF_UNIX && self.length <= mem::size_of::<libc::sa_family_t>()
    }

    /// The port; of a name in the file system, a number for it.
    fn port(&self) -> Option<u64> {
        // SAFETY: the family says which record it is, and there are enough bytes for each.
        unsafe {
            match self.family() {
                libc::AF_INET => Some(u64::from((*(&raw const self.bytes).cast::<libc::sockaddr_in>()).sin_port)),
                libc::AF_INET6 => Some(u64::from((*(&raw const self.bytes).cast::<libc::sockaddr_in6>()).sin6_port)),
                _ => None,
            }
        }
    }
}

fn address(socket: c_int, get: unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int) -> Option<Address> {
    // SAFETY: a record of so many bytes to be filled.
    unsafe {
        let mut bytes: libc::sockaddr_storage = mem::zeroed();
        let mut length = mem::size_of_val(&bytes) as socklen_t;
        (get(socket, (&raw mut bytes).cast(), &mut length) == 0).then_some(Address { bytes, length: length as usize })
    }
}

fn option<T: Copy>(socket: c_int, name: c_int, mut value: T) -> T {
    let mut length = mem::size_of::<T>() as socklen_t;
    // SAFETY: a plain value to be filled; it stays as it is where there is no such option.
    unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut length) };
    value
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Reads,
    Writes,
}

/// By which number who reads and who writes know the same thing; 0: nobody can say.
fn key(file: c_int, kind: Kind, side: Side) -> u64 {
    if net::simulated(file).is_some() {
        return net::KEY;
    }
    if kind == Kind::Pipe {
        // SAFETY: a record to be filled.
        return unsafe {
            let mut status: libc::stat = mem::zeroed();
            if libc::fstat(file, &mut status) == 0 { hash(PIPE, [status.st_dev, status.st_ino]) } else { 0 }
        };
    }
    let Some(own) = address(file, libc::getsockname) else { return 0 };
    if own.family() == libc::AF_UNIX {
        return UNIX;
    }
    let Some(port) = own.port() else { return 0 };
    if option(file, libc::SO_ACCEPTCONN, 0) != 0 {
        return hash(LISTENER, [port, 0]);
    }
    let peer = address(file, libc::getpeername).and_then(|peer| peer.port());
    match (option(file, libc::SO_TYPE, 0) == libc::SOCK_STREAM, side, peer) {
        (true, Side::Reads, Some(peer)) => hash(CONNECTION, [peer, port]),
        (true, Side::Writes, Some(peer)) => hash(CONNECTION, [port, peer]),
        (false, Side::Reads, _) => hash(DATAGRAM, [port, 0]),
        (false, Side::Writes, Some(peer)) => hash(DATAGRAM, [peer, 0]),
        _ => 0,
    }
}

/// Whether a call with these flags (of recv and send; 0 for others) waits.
pub fn blocks(file: c_int, flags: c_int) -> bool {
    // SAFETY: plain numbers.
    flags & libc::MSG_DONTWAIT == 0 && unsafe { libc::fcntl(file, libc::F_GETFL) } & libc::O_NONBLOCK == 0
}

pub fn ps_of(time: &timeval) -> u64 {
    let us = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0));
    us.saturating_mul(PS_PER_NS * 1_000)
}

/// Before a call that reads: false if there is nothing to be read, and the call is not to wait any longer.
fn may_read(file: c_int, flags: c_int) -> bool {
    if flags & libc::MSG_ERRQUEUE != 0 || !reads_simulated([file]) {
        return true;
    }
    keeping_errno(|| {
        let Some(kind) = kind(file) else { return true };
        let patience = if !blocks(file, flags) {
            LOOK
        } else if kind == Kind::Pipe {
            FOR_EVER
        } else {
            // No limit is a limit of 0: socket(7).
            match ps_of(&option(file, libc::SO_RCVTIMEO, timeval { tv_sec: 0, tv_usec: 0 })) {
                0 => FOR_EVER,
                limit => limit,
            }
        };
        let waited = File { number: file, events: libc::POLLIN as u32, key: key(file, kind, Side::Reads) };
        portals::wait_at_files(&[waited], patience) != 0
    })
}

fn reads(file: c_int, flags: c_int, read: impl FnOnce() -> ssize_t) -> ssize_t {
    if may_read(file, flags) { read() } else { fail(libc::EAGAIN) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(file: c_int, bytes: *mut c_void, count: size_t) -> ssize_t {
    if let Some(socket) = net::simulated(file) {
        // SAFETY: so many bytes, by the caller's promise.
        return unsafe { receive_simulated(file, socket, bytes, count) };
    }
    files::access(file, count);
    // SAFETY: forwarded as it came.
    unsafe { launcher::read(file, bytes, count).unwrap_or_else(|| reads(file, 0, || next::read(file, bytes, count))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(file: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if let Some(socket) = net::simulated(file).filter(|_| count > 0) {
        // SAFETY: so many parts, by the caller's promise.
        return unsafe {
            let parts = std::slice::from_raw_parts(parts, count as usize);
            net::receive(file, socket, parts, 0, std::ptr::null_mut(), std::ptr::null_mut())
        };
    }
    // SAFETY: the caller's parts.
    files::access(file, unsafe { files::length(parts, count) });
    // SAFETY: forwarded as it came.
    reads(file, 0, || unsafe { next::readv(file, parts, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(socket: c_int, bytes: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as recvfrom.
    unsafe { receive(socket, bytes, count, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    socket: c_int,
    bytes: *mut c_void,
    count: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as it came.
    unsafe { receive(socket, bytes, count, flags, from, length) }
}

unsafe fn receive_simulated(file: c_int, socket: u32, bytes: *mut c_void, count: size_t) -> ssize_t {
    let part = iovec { iov_base: bytes, iov_len: count };
    // SAFETY: as the caller says.
    unsafe { net::receive(file, socket, &[part], 0, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// Data that are waited for in full come in parts: the real function would wait for the second one.
unsafe fn receive(socket: c_int, bytes: *mut c_void, count: size_t, flags: c_int, from: *mut sockaddr, length: *mut socklen_t) -> ssize_t {
    if let Some(simulated) = net::simulated(socket) {
        let part = iovec { iov_base: bytes, iov_len: count };
        // SAFETY: so many bytes, by the caller's promise.
        return unsafe { net::receive(socket, simulated, &[part], flags, from, length) };
    }
    let whole = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0 && reads_simulated([socket]);
    if !whole {
        // SAFETY: forwarded as it came.
        return reads(socket, flags, || unsafe { next::recvfrom(socket, bytes, count, flags, from, length) });
    }
    let mut done = 0;
    loop {
        let flags = flags & !libc::MSG_WAITALL;
        // SAFETY: the rest of the caller's bytes.
        let part = reads(socket, flags, || unsafe { next::recvfrom(socket, bytes.byte_add(done), count - done, flags, from, length) });
        match part {
            1.. => done += part as usize,
            _ if done == 0 => return part,
            _ => return done as ssize_t,
        }
        if done == count || option(socket, libc::SO_TYPE, 0) != libc::SOCK_STREAM {
            return done as ssize_t;
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if let Some(simulated) = net::simulated(socket) {
        // SAFETY: as it came.
        return unsafe { net::receive_message(socket, simulated, message, flags) };
    }
    // SAFETY: forwarded as it came.
    reads(socket, flags, || unsafe { next::recvmsg(socket, message, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(socket: c_int, from: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if let Some(simulated) = net::simulated(socket) {
        // SAFETY: as it came.
        return unsafe { net::accept(socket, simulated, from, length, 0) };
    }
    // SAFETY: forwarded as it came.
    reads(socket, 0, || unsafe { next::accept(socket, from, length) as ssize_t }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(socket: c_int, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    if let Some(simulated) = net::simulated(socket) {
        // SAFETY: as it came.
        return unsafe { net::accept(socket, simulated, from, length, flags) };
    }
    // SAFETY: forwarded as it came.
    reads(socket, 0, || unsafe { next::accept4(socket, from, length, flags) as ssize_t }) as c_int
}

// The same as they are called with -D_FORTIFY_SOURCE; what these check, the kernel finds out too.

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(file: c_int, bytes: *mut c_void, count: size_t, _room: size_t) -> ssize_t {
    // SAFETY: as it came.
    unsafe { read(file, bytes, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(socket: c_int, bytes: *mut c_void, count: size_t, _room: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as it came.
    unsafe { recv(socket, bytes, count, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    socket: c_int,
    bytes: *mut c_void,
    count: size_t,
    _room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as it came.
    unsafe { recvfrom(socket, bytes, count, flags, from, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd_read(file: c_int, value: *mut u64) -> c_int {
    // SAFETY: room for a value, by the caller's promise.
    if unsafe { read(file, value.cast(), size_of::<u64>()) } == size_of::<u64>() as ssize_t { 0 } else { -1 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd_write(file: c_int, value: u64) -> c_int {
    // SAFETY: a value.
    if unsafe { write(file, (&raw const value).cast(), size_of::<u64>()) } == size_of::<u64>() as ssize_t { 0 } else { -1 }
}

/// Says that something is written there, before it is.
fn note_write(file: c_int) -> Option<Kind> {
    if !simulated() {
        return None;
    }
    keeping_errno(|| {
        let kind = kind(file)?;
        portals::writes(key(file, kind, Side::Writes));
        Some(kind)
    })
}

/// Of a pipe, what is written at once and fits if anything does: `PIPE_BUF`, pipe(7).
const PIPE_PART: usize = 4096;

/// Looks up what [`put`] calls, which allocates memory the first time.
pub fn prepare() {
    // SAFETY: no records; no descriptor has this number.
    unsafe {
        next::poll(std::ptr::null_mut(), 0, 0);
        next::write(-1, std::ptr::null(), 0);
        next::sendmsg(-1, std::ptr::null(), 0);
    }
}

/// How many parts are handed to the kernel at once when some have been written. Our own choice.
const MOST_PARTS: usize = 16;

/// What is left of `parts` behind the first `done` bytes, as far as there is room: how many parts.
pub fn rest(parts: &[iovec], mut done: usize, room: &mut [iovec]) -> usize {
    let mut count = 0;
    for part in parts {
        let skipped = done.min(part.iov_len);
        done -= skipped;
        if skipped < part.iov_len && count < room.len() {
            // SAFETY: inside this part.
            room[count] = iovec { iov_base: unsafe { part.iov_base.byte_add(skipped) }, iov_len: part.iov_len - skipped };
            count += 1;
        }
    }
    count
}

/// Writes all of `parts` where others read who may wait for this rank: never inside the kernel. Nothing is allocated: a
/// handler of signals may write.
///
/// # Safety
/// The parts are there.
unsafe fn put(file: c_int, kind: Kind, parts: &[iovec], message: Option<&msghdr>, flags: c_int) -> ssize_t {
    let all: usize = parts.iter().map(|part| part.iov_len).sum();
    let mut done = 0;
    loop {
        let mut writable = pollfd { fd: file, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one record.
        if unsafe { next::poll(&mut writable, 1, 0) } == 0 {
            let waited = File { number: file, events: libc::POLLOUT as u32, key: 0 };
            if keeping_errno(|| portals::wait_at_files(&[waited], FOR_EVER)) < 0 {
                // SAFETY: as above; for ever.
                unsafe { next::poll(&mut writable, 1, -1) };
            }
        }
        let mut room = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_PARTS];
        // The first time all of it: a message that is not part of a stream is sent whole.
        let left = if done == 0 && kind == Kind::Socket {
            parts
        } else {
            let count = rest(parts, done, &mut room);
            &room[..count]
        };
        // SAFETY: parts of what the caller gave.
        let written = unsafe {
            match (kind, left.first()) {
                (Kind::Pipe, Some(part)) => next::write(file, part.iov_base, part.iov_len.min(PIPE_PART)),
                (Kind::Pipe, None) => return done as ssize_t,
                (Kind::Socket, _) => {
                    let mut header: msghdr = message.filter(|_| done == 0).copied().unwrap_or_else(|| mem::zeroed());
                    header.msg_iov = left.as_ptr().cast_mut();
                    header.msg_iovlen = left.len();
                    next::sendmsg(file, &header, flags | libc::MSG_DONTWAIT)
                }
            }
        };
        match written {
            // SAFETY: errno of this thread.
            -1 if unsafe { *libc::__errno_location() } == libc::EAGAIN => continue,
            ..0 if done == 0 => return written,
            ..0 => return done as ssize_t,
            _ => done += written as usize,
        }
        if done == all || (kind == Kind::Socket && option(file, libc::SO_TYPE, 0) != libc::SOCK_STREAM) {
            return done as ssize_t;
        }
    }
}

fn writes(file: c_int, flags: c_int, parts: &[iovec], message: Option<&msghdr>, forward: impl FnOnce() -> ssize_t) -> ssize_t {
    if let Some(socket) = net::simulated(file) {
        let (to, length) = message.map_or((std::ptr::null(), 0), |message| (message.msg_name.cast_const().cast(), message.msg_namelen));
        // SAFETY: the caller's parts, and address.
        return unsafe { net::send(file, socket, parts, flags, to, length) };
    }
    match note_write(file) {
        // SAFETY: the caller's parts.
        Some(kind) if keeping_errno(|| blocks(file, flags)) => unsafe { put(file, kind, parts, message, flags) },
        _ => forward(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(file: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: so many bytes, by the caller's promise.
    if unsafe { launcher::is_answered(file, bytes, count) } {
        return count as ssize_t;
    }
    launcher::heed(file, bytes, count);
    files::access(file, count);
    let part = iovec { iov_base: bytes.cast_mut(), iov_len: count };
    // SAFETY: forwarded as it came.
    writes(file, 0, &[part], None, || unsafe { next::write(file, bytes, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(file: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: forwarded as it came; so many parts, unless the kernel is to refuse them.
    unsafe {
        files::access(file, files::length(parts, count));
        let all = if count > 0 && !parts.is_null() { std::slice::from_raw_parts(parts, count as usize) } else { &[] };
        writes(file, 0, all, None, || next::writev(file, parts, count))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(socket: c_int, bytes: *const c_void, count: size_t, flags: c_int) -> ssize_t {
    launcher::heed(socket, bytes, count);
    let part = iovec { iov_base: bytes.cast_mut(), iov_len: count };
    // SAFETY: forwarded as it came.
    writes(socket, flags, &[part], None, || unsafe { next::send(socket, bytes, count, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    socket: c_int,
    bytes: *const c_void,
    count: size_t,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if let Some(simulated) = net::simulated(socket) {
        let part = iovec { iov_base: bytes.cast_mut(), iov_len: count };
        // SAFETY: as it came.
        return unsafe { net::send(socket, simulated, &[part], flags, to, length) };
    }
    if to.is_null() {
        // SAFETY: as it came.
        return unsafe { send(socket, bytes, count, flags) };
    }
    // SAFETY: as it came. A datagram is not waited for.
    unsafe {
        note_sent_to(socket, to, length, DATAGRAM);
        next::sendto(socket, bytes, count, flags, to, length)
    }
}

/// Says that something goes to an address: a datagram, or a connection.
unsafe fn note_sent_to(socket: c_int, to: *const sockaddr, length: socklen_t, what: u8) {
    if !simulated() || to.is_null() {
        return;
    }
    keeping_errno(|| {
        if kind(socket).is_none() {
            return;
        }
        // SAFETY: an address of so many bytes, as the caller says; no more than there is room for.
        let to = unsafe {
            let mut bytes: libc::sockaddr_storage = mem::zeroed();
            let length = (length as usize).min(mem::size_of_val(&bytes));
            std::ptr::copy_nonoverlapping(to.cast::<u8>(), (&raw mut bytes).cast(), length);
            Address { bytes, length }
        };
        portals::writes(to.port().map_or(UNIX, |port| hash(what, [port, 0])));
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(socket: c_int, to: *const sockaddr, length: socklen_t) -> c_int {
    if let Some(simulated) = net::simulated(socket) {
        // SAFETY: as it came.
        return unsafe { net::connect(socket, simulated, to, length) };
    }
    // Others may listen only when they have opened Portals.
    reads_simulated([socket]);
    // SAFETY: as it came.
    unsafe {
        note_sent_to(socket, to, length, LISTENER);
        next::connect(socket, to, length)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if let Some(simulated) = net::simulated(socket).filter(|_| !message.is_null()) {
        // SAFETY: as it came.
        return unsafe { net::send_message(socket, simulated, message, flags) };
    }
    // SAFETY: forwarded as it came; null, or a record with so many parts.
    unsafe {
        let forward = || next::sendmsg(socket, message, flags);
        match message.as_ref() {
            None => forward(),
            Some(named) if !named.msg_name.is_null() => {
                note_sent_to(socket, named.msg_name.cast(), named.msg_namelen, DATAGRAM);
                forward()
            }
            Some(plain) => {
                let parts = if plain.msg_iov.is_null() { &[] } else { std::slice::from_raw_parts(plain.msg_iov, plain.msg_iovlen) };
                writes(socket, flags, parts, Some(plain), forward)
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(socket: c_int, how: c_int) -> c_int {
    if let Some(simulated) = net::simulated(socket) {
        return net::shutdown(simulated, how);
    }
    note_write(socket);
    // SAFETY: forwarded as it came.
    unsafe { next::shutdown(socket, how) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(file: c_int) -> c_int {
    if state::in_program() {
        portals::closes(file as c_uint, file as c_uint);
    }
    if net::simulated(file).is_some() {
        net::closes(file);
    } else {
        // Who reads finds the end.
        note_write(file);
    }
    // SAFETY: forwarded as it came.
    unsafe { next::close(file) }
}

/// `CLOSE_RANGE_CLOEXEC` of <linux/close_range.h>: they are closed when another program is executed.
const CLOSES_LATER: c_int = 4;

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if state::in_program() && flags & CLOSES_LATER == 0 {
        portals::closes(first, last);
    }
    // SAFETY: forwarded as it came.
    unsafe { next::close_range(first, last, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    if state::in_program() {
        portals::closes(first.max(0) as c_uint, c_uint::MAX);
    }
    // SAFETY: forwarded as it came.
    unsafe { next::closefrom(first) }
}

/// What several descriptors are waited for with.
struct Several {
    files: [File; MOST],
    count: usize,
    /// Other ranks may be behind one of them.
    ours: bool,
}

impl Several {
    fn new() -> Several {
        Several { files: [File { number: -1, events: 0, key: 0 }; MOST], count: 0, ours: false }
    }

    /// False: there is no room.
    fn add(&mut self, file: c_int, events: i16) -> bool {
        let kind = kind(file);
        self.ours |= kind.is_some();
        let key = kind.map_or(0, |kind| key(file, kind, Side::Reads));
        let Some(place) = self.files.get_mut(self.count) else { return false };
        *place = File { number: file, events: events as u16 as u32, key };
        self.count += 1;
        true
    }

    /// Waits for them in simulated time, and calls `look`, which does not wait and says how many it finds. `None`: not
    /// in simulated time.
    fn wait(&self, patience: u64, mut look: impl FnMut() -> c_int) -> Option<c_int> {
        if !self.ours {
            return None;
        }
        loop {
            match keeping_errno(|| portals::wait_at_files(&self.files[..self.count], patience)) {
                0 => return Some(0),
                1 => match look() {
                    0 if patience != LOOK => {}
                    found => return Some(found),
                },
                _ => return None,
            }
        }
    }
}

const AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// `poll` and `ppoll` in simulated time, if that is where they are.
pub unsafe fn poll_simulated(files: *mut pollfd, n: nfds_t, patience: u64, mask: *const sigset_t) -> Option<c_int> {
    if n == 0 || files.is_null() {
        return None;
    }
    // SAFETY: so many records, as the caller says.
    let all = unsafe { std::slice::from_raw_parts_mut(files, n as usize) };
    if !reads_simulated(all.iter().map(|file| file.fd)) {
        return None;
    }
    let mut several = Several::new();
    if !keeping_errno(|| all.iter().filter(|file| file.fd >= 0).all(|file| several.add(file.fd, file.events))) {
        return None;
    }
    // SAFETY: as it came.
    let found = several.wait(patience, || unsafe { next::ppoll(files, n, &AT_ONCE, mask) })?;
    if found == 0 {
        all.iter_mut().for_each(|file| file.revents = 0);
    }
    Some(found)
}

/// The time of `poll` in ps.
pub fn patience_of_ms(ms: c_int) -> u64 {
    u64::try_from(ms).map_or(FOR_EVER, |ms| ms.saturating_mul(NS_PER_S / 1_000 * PS_PER_NS))
}

unsafe fn patience_of(time: *const timespec) -> u64 {
    // SAFETY: null or valid.
    unsafe { time.as_ref() }.map_or(FOR_EVER, |time| {
        let ns = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(NS_PER_S).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0));
        ns.saturating_mul(PS_PER_NS).min(FOR_EVER - 1)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(files: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: forwarded as it came.
    let go_on = || unsafe { next::ppoll(files, n, timeout, mask) };
    // SAFETY: as above.
    unsafe {
        match sleep::length_of(timeout) {
            Some(ns) if n == 0 && mask.is_null() => sleep::rest_without_descriptors(ns, go_on),
            _ => poll_simulated(files, n, patience_of(timeout), mask).unwrap_or_else(go_on),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(files: *mut pollfd, n: nfds_t, timeout_ms: c_int, _room: size_t) -> c_int {
    // SAFETY: as it came.
    unsafe { libc::poll(files, n, timeout_ms) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __ppoll_chk(files: *mut pollfd, n: nfds_t, timeout: *const timespec, mask: *const sigset_t, _room: size_t) -> c_int {
    // SAFETY: as it came.
    unsafe { ppoll(files, n, timeout, mask) }
}

/// `select` and `pselect` in simulated time, if that is where they are.
pub unsafe fn select_simulated(n: c_int, sets: [*mut fd_set; 3], timeout: Option<&timeval>, mask: *const sigset_t) -> Option<c_int> {
    // SAFETY: null or valid, with a bit for each of these.
    let reads = |file: &c_int| unsafe { !sets[0].is_null() && libc::FD_ISSET(*file, sets[0]) };
    if n <= 0 || !reads_simulated((0..n.min(libc::FD_SETSIZE as c_int)).filter(reads)) {
        return None;
    }
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let mut several = Several::new();
    let room = keeping_errno(|| {
        (0..n.min(libc::FD_SETSIZE as c_int)).all(|file| {
            // SAFETY: null or valid, with a bit for each of these.
            let wants = |set: *mut fd_set| !set.is_null() && unsafe { libc::FD_ISSET(file, set) };
            let events = sets.iter().zip(EVENTS).filter(|(set, _)| wants(**set)).fold(0, |all, (_, event)| all | event);
            events == 0 || several.add(file, events)
        })
    });
    if !room {
        return None;
    }
    // SAFETY: null or valid. What is asked is kept, for the answer takes its place.
    let asked = sets.map(|set| unsafe { set.as_ref() }.copied());
    let answer = |sets: [*mut fd_set; 3]| {
        for (set, asked) in sets.into_iter().zip(asked) {
            if let Some(asked) = asked {
                // SAFETY: it is not null.
                unsafe { *set = asked };
            }
        }
        // SAFETY: as it came.
        unsafe { next::pselect(n, sets[0], sets[1], sets[2], &AT_ONCE, mask) }
    };
    let patience = timeout.map_or(FOR_EVER, |time| ps_of(time).min(FOR_EVER - 1));
    let found = several.wait(patience, || answer(sets))?;
    if found == 0 {
        // SAFETY: null or valid.
        sets.into_iter().filter(|set| !set.is_null()).for_each(|set| unsafe { libc::FD_ZERO(set) });
    }
    Some(found)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: forwarded as it came; the timeout is null or valid.
    unsafe {
        if n == 0
            && mask.is_null()
            && let Some(ns) = sleep::length_of(timeout)
        {
            return sleep::rest_without_descriptors(ns, || next::pselect(n, read, write, except, timeout, mask));
        }
        let limit = timeout.as_ref().map(|time| timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1_000 });
        select_simulated(n, [read, write, except], limit.as_ref(), mask)
            .unwrap_or_else(|| next::pselect(n, read, write, except, timeout, mask))
    }
}

/// What stands in the list of an epoll is not looked at: it is one descriptor, which is ready when one of them is.
fn epoll_simulated(epoll: c_int, patience: u64, look: impl FnMut() -> c_int) -> Option<c_int> {
    if !waits_simulated(|| !has_children()) || keeping_errno(has_children) {
        return None;
    }
    let mut several = Several::new();
    several.add(epoll, libc::POLLIN);
    several.ours = true;
    several.wait(patience, look)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe {
        epoll_simulated(epoll, patience_of_ms(timeout_ms), || next::epoll_wait(epoll, events, most, 0))
            .unwrap_or_else(|| next::epoll_wait(epoll, events, most, timeout_ms))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe {
        epoll_simulated(epoll, patience_of_ms(timeout_ms), || next::epoll_pwait(epoll, events, most, 0, mask))
            .unwrap_or_else(|| next::epoll_pwait(epoll, events, most, timeout_ms, mask))
    }
}
