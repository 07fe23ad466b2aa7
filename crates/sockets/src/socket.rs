//! A socket as POSIX has it.

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Duration;
use std::net::{Ipv4Addr, SocketAddrV4};

/// What poll(2) would say of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// `POLLIN`.
    pub readable: bool,
    /// `POLLOUT`.
    pub writable: bool,
    /// `POLLRDHUP`: the other side sends no more.
    pub half: bool,
    /// `POLLHUP`.
    pub over: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// TCP, neither connected nor listening.
    Fresh,
    /// A connection, or the attempt.
    Tcp(SocketHandle),
    /// Those that wait for a connection, or have one that nobody has accepted yet.
    Listener(Vec<SocketHandle>),
    Udp(SocketHandle),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) owner: u32,
    pub(crate) kind: Kind,
    pub(crate) local: Option<SocketAddrV4>,
    /// Of UDP: where it is connected to.
    pub(crate) peer: Option<SocketAddrV4>,
    /// What was told last.
    pub(crate) ready: Ready,
    pub(crate) error: i32,
    /// It has been connected.
    pub(crate) established: bool,
    pub(crate) no_delay: bool,
    pub(crate) receive_buffer: usize,
    pub(crate) send_buffer: usize,
    pub(crate) reno: bool,
    /// How often it has received.
    pub(crate) receives: u32,
}

/// Of datagrams that wait at a socket, beside their bytes: our own choice, in the order of `netdev_max_backlog`.
const DATAGRAMS: usize = 1024;

impl Socket {
    pub(crate) fn new(owner: u32, kind: Kind, window: usize) -> Socket {
        Socket {
            owner,
            kind,
            local: None,
            peer: None,
            ready: Ready { writable: true, ..Ready::default() },
            error: 0,
            established: false,
            no_delay: false,
            receive_buffer: window,
            send_buffer: window,
            reno: true,
            receives: 0,
        }
    }

    /// One of smoltcp for a connection, with the options of this one.
    pub(crate) fn connection(&self) -> tcp::Socket<'static> {
        let buffer = |bytes: usize| tcp::SocketBuffer::new(vec![0; bytes]);
        let mut socket = tcp::Socket::new(buffer(self.receive_buffer), buffer(self.send_buffer));
        socket.set_nagle_enabled(!self.no_delay);
        let control = if self.reno { tcp::CongestionControl::Reno } else { tcp::CongestionControl::None };
        socket.set_congestion_control(control);
        // The first data are acknowledged at once: see `delays_acknowledgements`.
        socket.set_ack_delay(None);
        socket
    }

    /// Data were received. After the first ones, acknowledgements wait for more data, as Linux has it: at once up to
    /// `TCP_MAX_QUICKACKS`, then `TCP_DELACK_MIN` at most (include/net/tcp.h). Otherwise the first segment, which is
    /// alone under way, would wait for that.
    pub(crate) fn has_received(&mut self, connection: &mut tcp::Socket<'_>) {
        const QUICK: u32 = 16;
        const DELAY: Duration = Duration::from_millis(40);
        self.receives = self.receives.saturating_add(1);
        if self.receives == QUICK {
            connection.set_ack_delay(Some(DELAY));
        }
    }

    pub(crate) fn datagrams(receive: usize, send: usize) -> udp::Socket<'static> {
        let buffer = |bytes: usize| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; bytes]);
        udp::Socket::new(buffer(receive), buffer(send))
    }

    /// The connection of a stream. Its error is told once; while it is being made nothing can be sent or received.
    pub(crate) fn connected<'a>(
        &mut self,
        handle: SocketHandle,
        sockets: &'a mut SocketSet<'static>,
    ) -> Result<&'a mut tcp::Socket<'static>, i32> {
        if self.error != 0 {
            return Err(std::mem::take(&mut self.error));
        }
        let connection: &mut tcp::Socket<'static> = sockets.get_mut(handle);
        match connection.state() {
            tcp::State::SynSent | tcp::State::SynReceived => Err(libc::EAGAIN),
            _ => Ok(connection),
        }
    }

    /// What poll(2) would say now.
    pub(crate) fn look(&mut self, sockets: &SocketSet<'static>) -> Ready {
        match &self.kind {
            Kind::Fresh => Ready { writable: true, ..Ready::default() },
            Kind::Udp(handle) => {
                let socket: &udp::Socket<'_> = sockets.get(*handle);
                Ready { readable: socket.can_recv(), writable: socket.can_send(), ..Ready::default() }
            }
            Kind::Listener(handles) => Ready { readable: handles.iter().any(|&handle| is_there(sockets.get(handle))), ..Ready::default() },
            Kind::Tcp(handle) => {
                let socket: &tcp::Socket<'_> = sockets.get(*handle);
                let (state, over) = (socket.state(), matches!(socket.state(), tcp::State::Closed | tcp::State::TimeWait));
                if matches!(state, tcp::State::SynSent | tcp::State::SynReceived) {
                    return Ready::default();
                }
                if state == tcp::State::Closed && !self.established && self.error == 0 {
                    self.error = libc::ECONNREFUSED;
                }
                self.established |= state != tcp::State::Closed;
                // As Linux has it: a third of the buffer is free (sk_stream_is_writeable).
                let room = socket.send_queue() * 3 <= socket.send_capacity() * 2;
                Ready {
                    readable: socket.can_recv() || !socket.may_recv(),
                    writable: (socket.may_send() && room) || !socket.may_send(),
                    half: !socket.may_recv() && !socket.can_recv(),
                    over: over && !socket.can_recv(),
                }
            }
        }
    }
}

/// A connection that can be accepted.
pub(crate) fn is_there(socket: &tcp::Socket<'_>) -> bool {
    !matches!(socket.state(), tcp::State::Listen | tcp::State::SynReceived | tcp::State::Closed)
}

/// An address of smoltcp.
pub(crate) fn v4(endpoint: smoltcp::wire::IpEndpoint) -> SocketAddrV4 {
    let std::net::SocketAddr::V4(address) = std::net::SocketAddr::from((std::net::IpAddr::from(endpoint.addr), endpoint.port)) else {
        return SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, endpoint.port);
    };
    address
}
