//! What stands in a process for a simulated socket: one end of a real pair, of which the other end is here. What
//! poll(2) says of the process's end is what it would say of the socket, so poll, select and epoll need not know.

use narrows_sockets::Ready;
use std::os::fd::{AsRawFd, OwnedFd};

/// See the module's page.
#[derive(Debug)]
pub(super) struct StandIn {
    /// The process's end, as it has it.
    theirs: OwnedFd,
    ours: OwnedFd,
    shown: Ready,
}

/// Written until an end cannot be written any more: unix(7) says so when a quarter of the buffer is full.
const FILLER: [u8; 4096] = [0; 4096];
/// The least buffer is filled by fewer (`SOCK_MIN_SNDBUF` of include/net/sock.h).
const MOST_FILLERS: u32 = 64;

impl StandIn {
    pub(super) fn new(theirs: OwnedFd, ours: OwnedFd) -> StandIn {
        let size: libc::c_int = 1;
        // SAFETY: a plain value; the kernel takes its least one.
        unsafe {
            libc::setsockopt(
                theirs.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const size).cast(),
                size_of_val(&size) as libc::socklen_t,
            );
        }
        StandIn { theirs, ours, shown: Ready { writable: true, ..Ready::default() } }
    }

    /// Makes poll(2) say this.
    pub(super) fn show(&mut self, ready: Ready) {
        let before = std::mem::replace(&mut self.shown, ready);
        if ready.readable && !before.readable {
            send(&self.ours, &FILLER[..1]);
        } else if before.readable && !ready.readable {
            drain(&self.theirs);
        }
        if before.writable && !ready.writable {
            let mut fillers = 0;
            while is_writable(&self.theirs) && fillers < MOST_FILLERS {
                send(&self.theirs, &FILLER);
                fillers += 1;
            }
        } else if ready.writable && !before.writable {
            drain(&self.ours);
        }
        if ready.over && !before.over {
            shut(&self.ours, libc::SHUT_RDWR);
        } else if ready.half && !before.half {
            shut(&self.ours, libc::SHUT_WR);
        }
    }
}

fn send(file: &OwnedFd, bytes: &[u8]) {
    // SAFETY: so many bytes.
    unsafe { libc::send(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
}

fn drain(file: &OwnedFd) {
    let mut bytes = [0_u8; 65536];
    // SAFETY: so many bytes to be filled.
    while unsafe { libc::recv(file.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) } > 0 {}
}

fn is_writable(file: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one record.
    unsafe { libc::poll(&mut polled, 1, 0) > 0 && polled.revents & libc::POLLOUT != 0 }
}

fn shut(file: &OwnedFd, how: libc::c_int) {
    // SAFETY: plain numbers.
    unsafe { libc::shutdown(file.as_raw_fd(), how) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn poll_says_what_is_shown() {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let seen = theirs.try_clone().unwrap();
        let mut stand_in = StandIn::new(theirs.into(), ours.into());
        let look = || {
            let mut polled = libc::pollfd { fd: seen.as_raw_fd(), events: libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, revents: 0 };
            // SAFETY: one record.
            unsafe { libc::poll(&mut polled, 1, 0) };
            let has = |event| polled.revents & event != 0;
            Ready { readable: has(libc::POLLIN), writable: has(libc::POLLOUT), half: has(libc::POLLRDHUP), over: has(libc::POLLHUP) }
        };
        let nothing = Ready::default();
        let (reads, writes) = (Ready { readable: true, ..nothing }, Ready { writable: true, ..nothing });
        let both = Ready { readable: true, ..writes };
        for ready in [writes, both, reads, nothing, reads, nothing, writes, nothing, both, writes] {
            stand_in.show(ready);
            assert_eq!(look(), ready);
        }
        let half = Ready { readable: true, writable: true, half: true, over: false };
        stand_in.show(half);
        assert_eq!(look(), half);
        let over = Ready { over: true, ..half };
        stand_in.show(over);
        assert_eq!(look(), over);
    }
}
