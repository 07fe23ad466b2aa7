//! Sockets on the simulated network (docs/decisions/0028-sockets-on-the-network.md).
//!
//! The node's TCP/IP is in the simulator. Here a socket is one end of a real pair that stands for it: poll, select and
//! epoll of the kernel know of it what is to be known, and waiting there is waiting at any descriptor
//! (`descriptors.rs`). What is done with it is a call of the simulator, which never waits.
//!
//! * `options.rs`: names and options. `names.rs`: addresses of hosts. `messages.rs`: data.

mod messages;
mod names;
mod options;

pub use messages::{receive, receive_message, send, send_message};
pub use names::digits;

use crate::clock::{self, View};
use crate::descriptors::{blocks, keeping_errno, next as files};
use crate::portals::{self, File};
use crate::state;
use crate::symbols::real;
use libc::{c_int, sa_family_t, sockaddr, sockaddr_in, socklen_t};
use narrows_output::say;
use narrows_socketcalls::{ARGUMENTS, Answer, CallKind, Setting, WORDS};
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

mod next {
    use super::*;
    real! {
        fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
        fn bind(socket: c_int, to: *const sockaddr, length: socklen_t) -> c_int;
        fn listen(socket: c_int, backlog: c_int) -> c_int;
        fn dup(file: c_int) -> c_int;
        fn dup2(file: c_int, to: c_int) -> c_int;
        fn dup3(file: c_int, to: c_int, flags: c_int) -> c_int;
    }
}

/// Descriptors that can be simulated sockets: their greatest number, which processes seldom have.
const MOST_FILES: usize = 1 << 16;
/// Of a number below: it is one of UDP.
const DATAGRAMS: u32 = 1 << 31;
/// By descriptor: the socket's number; 0: it is none.
static SOCKETS: [AtomicU32; MOST_FILES] = [const { AtomicU32::new(0) }; MOST_FILES];
/// There was one.
static ANY: AtomicBool = AtomicBool::new(false);

/// `narrows_channel::layout::SIMULATED`: what waits for it waits for no writer.
pub const KEY: u64 = u64::MAX;

/// The simulated socket behind a descriptor.
pub fn simulated(file: c_int) -> Option<u32> {
    if !ANY.load(Relaxed) {
        return None;
    }
    SOCKETS.get(usize::try_from(file).ok()?).map(|socket| socket.load(Relaxed)).filter(|&socket| socket != 0)
}

/// Whether sockets of this process are simulated, and whether the first one makes it enter simulated time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    Join,
    Mpi,
}

fn mode() -> Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    *MODE.get_or_init(|| match std::env::var("NARROWS_SOCKETS").as_deref() {
        Ok("join") => Mode::Join,
        Ok(_) => Mode::Mpi,
        Err(_) => Mode::Off,
    })
}

/// The caller is the program, in simulated time, and its sockets are simulated.
fn enters() -> bool {
    if mode() == Mode::Off {
        return false;
    }
    if mode() == Mode::Join && clock::view() == View::Before {
        keeping_errno(portals::joins);
    }
    clock::view() == View::Simulated
}

/// Says something once.
fn say_once(said: &AtomicBool, line: &str) {
    if !said.swap(true, Relaxed) {
        keeping_errno(|| say!("{line}"));
    }
}

pub(super) fn fail(errno: c_int) -> c_int {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Zero or more, or -1 with errno.
fn result(value: Result<i64, c_int>) -> i64 {
    value.unwrap_or_else(|errno| i64::from(fail(errno)))
}

/// Calls the simulator.
fn call(kind: CallKind, socket: u32, arguments: &[u64], answer: &mut Answer) -> Result<i64, c_int> {
    static LEFT: AtomicBool = AtomicBool::new(false);
    if clock::view() != View::Simulated {
        if state::left() {
            say_once(&LEFT, "a child of a rank used its socket: sockets are simulated in the rank's own process only");
        }
        return Err(libc::EOPNOTSUPP);
    }
    let mut words = [0_u64; WORDS];
    (words[0], words[1]) = (kind as u64, u64::from(socket & !DATAGRAMS));
    words[2..2 + arguments.len()].copy_from_slice(arguments);
    words[1 + ARGUMENTS] = answer as *mut Answer as u64;
    let value = keeping_errno(|| portals::socket_call(&words));
    if value < 0 { Err(-value as c_int) } else { Ok(value) }
}

/// Whether it is one of TCP.
fn is_stream(socket: u32) -> bool {
    socket & DATAGRAMS == 0
}

fn ask(kind: CallKind, socket: u32, arguments: &[u64]) -> Result<i64, c_int> {
    call(kind, socket, arguments, &mut Answer::default())
}

/// Waits until poll(2) says one of `events`: false when the time is over.
fn wait(file: c_int, events: i16, patience: u64) -> Result<bool, c_int> {
    let waited = File { number: file, events: events as u16 as u32, key: KEY };
    match keeping_errno(|| portals::wait_at_files(&[waited], patience)) {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(libc::EINTR),
    }
}

/// Does it again and again until it is done, if the socket blocks.
fn until_done(file: c_int, flags: c_int, events: i16, mut does: impl FnMut() -> Result<i64, c_int>) -> Result<i64, c_int> {
    loop {
        match does() {
            Err(libc::EAGAIN) if blocks(file, flags) => {
                if !wait(file, events, options::patience(file, events))? {
                    return Err(libc::EAGAIN);
                }
            }
            done => return done,
        }
    }
}

/// An address that the program has given.
unsafe fn given(address: *const sockaddr, length: socklen_t) -> Result<SocketAddrV4, c_int> {
    if address.is_null() || (length as usize) < size_of::<sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: there are so many bytes, as the caller says.
    let name = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    if c_int::from(name.sin_family) != libc::AF_INET {
        return Err(libc::EAFNOSUPPORT);
    }
    Ok(SocketAddrV4::new(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)), u16::from_be(name.sin_port)))
}

/// Writes an address where the program wants it, as far as there is room.
unsafe fn give(answer: &Answer, to: *mut sockaddr, length: *mut socklen_t) {
    if to.is_null() || length.is_null() {
        return;
    }
    // SAFETY: a plain record, for which zeros are right.
    let mut name: sockaddr_in = unsafe { mem::zeroed() };
    name.sin_family = libc::AF_INET as sa_family_t;
    name.sin_port = (answer.port as u16).to_be();
    name.sin_addr.s_addr = (answer.address as u32).to_be();
    // SAFETY: the caller has room for so many bytes.
    unsafe {
        let room = (*length as usize).min(size_of::<sockaddr_in>());
        std::ptr::copy_nonoverlapping((&raw const name).cast::<u8>(), to.cast::<u8>(), room);
        *length = size_of::<sockaddr_in>() as socklen_t;
    }
}

/// A pair of which the first end stands for a socket, while `make` tells the simulator of both.
fn stand_in(flags: c_int, make: impl FnOnce(u64, u64) -> Result<i64, c_int>) -> Result<c_int, c_int> {
    let mut ends = [-1; 2];
    // SAFETY: two numbers to be filled.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } != 0 {
        // SAFETY: errno of this thread.
        return Err(unsafe { *libc::__errno_location() });
    }
    let [end, other] = ends;
    let made = match usize::try_from(end) {
        Ok(at) if at < MOST_FILES => make(end as u64, other as u64),
        _ => Err(libc::EMFILE),
    };
    // SAFETY: ends of our own.
    unsafe { files::close(other) };
    match made {
        Ok(socket) => {
            // SAFETY: plain numbers.
            unsafe {
                if flags & libc::SOCK_CLOEXEC == 0 {
                    libc::fcntl(end, libc::F_SETFD, 0);
                }
                if flags & libc::SOCK_NONBLOCK != 0 {
                    libc::fcntl(end, libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK);
                }
            }
            SOCKETS[end as usize].store(socket as u32, Relaxed);
            ANY.store(true, Relaxed);
            Ok(end)
        }
        Err(errno) => {
            // SAFETY: as above.
            unsafe { files::close(end) };
            Err(errno)
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    static V6: AtomicBool = AtomicBool::new(false);
    static KIND: AtomicBool = AtomicBool::new(false);
    if !matches!(family, libc::AF_INET | libc::AF_INET6) || !enters() {
        // SAFETY: forwarded as it came.
        return unsafe { next::socket(family, kind, protocol) };
    }
    if family == libc::AF_INET6 {
        say_once(&V6, "sockets of IPv6 are not simulated: IPv4 is (--sockets)");
        return fail(libc::EAFNOSUPPORT);
    }
    let datagrams = match (kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK), protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => 1,
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => 2,
        _ => {
            say_once(&KIND, "sockets other than TCP and UDP are not simulated (--sockets)");
            return fail(libc::EPROTONOSUPPORT);
        }
    };
    let made = stand_in(kind, |end, other| {
        let number = ask(CallKind::Open, 0, &[datagrams, end, other])?;
        Ok(if datagrams == 2 { number | i64::from(DATAGRAMS) } else { number })
    });
    made.unwrap_or_else(fail)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(file: c_int, to: *const sockaddr, length: socklen_t) -> c_int {
    let Some(socket) = simulated(file) else {
        // SAFETY: forwarded as it came.
        return unsafe { next::bind(file, to, length) };
    };
    // SAFETY: the caller's address.
    let bound = unsafe { given(to, length) };
    result(bound.and_then(|to| ask(CallKind::Bind, socket, &words_of(to)))) as c_int
}

fn words_of(address: SocketAddrV4) -> [u64; 2] {
    [u64::from(u32::from(*address.ip())), u64::from(address.port())]
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(file: c_int, backlog: c_int) -> c_int {
    match simulated(file) {
        Some(socket) => result(ask(CallKind::Listen, socket, &[backlog as u64])) as c_int,
        // SAFETY: forwarded as it came.
        None => unsafe { next::listen(file, backlog) },
    }
}

/// # Safety
/// As accept4(2).
pub unsafe fn accept(file: c_int, socket: u32, from: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    let mut answer = Answer::default();
    let accepted = until_done(file, 0, libc::POLLIN, || {
        stand_in(flags, |end, other| call(CallKind::Accept, socket, &[end, other], &mut answer)).map(i64::from)
    });
    if accepted.is_ok() {
        // SAFETY: the caller's room.
        unsafe { give(&answer, from, length) };
    }
    result(accepted) as c_int
}

/// # Safety
/// As connect(2).
pub unsafe fn connect(file: c_int, socket: u32, to: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's address.
    let asked = unsafe { given(to, length) }.and_then(|to| ask(CallKind::Connect, socket, &words_of(to)));
    let done = match asked {
        Err(libc::EINPROGRESS) if blocks(file, 0) => wait(file, libc::POLLOUT, options::patience(file, libc::POLLOUT)).and_then(|there| {
            if !there {
                return Err(libc::EINPROGRESS);
            }
            match ask(CallKind::Get, socket, &[Setting::Error as u64])? {
                0 => Ok(0),
                errno => Err(errno as c_int),
            }
        }),
        done => done,
    };
    result(done) as c_int
}

pub fn shutdown(socket: u32, how: c_int) -> c_int {
    result(ask(CallKind::Shutdown, socket, &[how as u64])) as c_int
}

/// A descriptor is closed, and with the last one of it the socket.
pub fn closes(file: c_int) {
    let Some(socket) = simulated(file) else { return };
    SOCKETS[file as usize].store(0, Relaxed);
    if !SOCKETS.iter().any(|other| other.load(Relaxed) == socket) && clock::view() == View::Simulated {
        let _answer = ask(CallKind::Close, socket, &[]);
    }
}

/// `to` is another number of `file`.
fn doubles(file: c_int, to: c_int) -> c_int {
    if let Some(socket) = simulated(file)
        && let Some(place) = usize::try_from(to).ok().and_then(|to| SOCKETS.get(to))
    {
        place.store(socket, Relaxed);
    }
    to
}

/// What fcntl(2) has answered: `F_DUPFD` makes another number.
pub fn doubled(file: c_int, command: c_int, answer: c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { doubles(file, answer) } else { answer }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(file: c_int) -> c_int {
    // SAFETY: forwarded as it came.
    doubles(file, unsafe { next::dup(file) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(file: c_int, to: c_int) -> c_int {
    if file != to {
        closes(to);
    }
    // SAFETY: forwarded as it came.
    doubles(file, unsafe { next::dup2(file, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(file: c_int, to: c_int, flags: c_int) -> c_int {
    if file != to {
        closes(to);
    }
    // SAFETY: forwarded as it came.
    doubles(file, unsafe { next::dup3(file, to, flags) })
}
