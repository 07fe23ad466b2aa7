//! The vocabulary of simulated sockets: what a process asks of the node's TCP/IP, in words, and the addresses of nodes.
//!
//! ```
//! use narrows_socketcalls::{CallKind, address_of, node_at};
//! assert_eq!(CallKind::from_number(CallKind::Send as u64), Some(CallKind::Send));
//! assert_eq!(address_of(0x1_02_03).to_string(), "10.1.2.4");
//! assert_eq!(node_at(address_of(77)), Some(77));
//! ```

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

/// Words of a call: its kind, the socket, and [`ARGUMENTS`].
pub const WORDS: usize = 2 + ARGUMENTS;
/// What follows kind and socket.
pub const ARGUMENTS: usize = 6;
/// Words of an [`Answer`].
pub const ANSWER_WORDS: usize = 3;

/// What is asked for, with its arguments. All answer a number that is not negative, or an errno below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum CallKind {
    /// A socket: 1 for TCP or 2 for UDP, the two ends of its stand-in in the process. Answers its number.
    Open = 1,
    /// Address and port.
    Bind = 2,
    /// Takes connections.
    Listen = 3,
    /// The next connection: the two ends of its stand-in. Answers its number; the peer is in the [`Answer`].
    Accept = 4,
    /// Address and port.
    Connect = 5,
    /// A list of parts, how many, address and port (0: the peer). Answers how many bytes were taken.
    Send = 6,
    /// A list of parts, how many, 1 to leave the data there. Answers how many bytes came; the sender and the length of
    /// the whole datagram are in the [`Answer`].
    Receive = 7,
    /// 0 to 2, as shutdown(2) has it.
    Shutdown = 8,
    /// No process has it any more.
    Close = 9,
    /// 0: the own address, 1: that of the peer, in the [`Answer`].
    Name = 10,
    /// A number of [`Setting`] and its value.
    Set = 11,
    /// A number of [`Setting`]. Answers its value.
    Get = 12,
    /// The process ends.
    End = 13,
}

impl CallKind {
    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<CallKind> {
        use CallKind::{Accept, Bind, Close, Connect, End, Get, Listen, Name, Open, Receive, Send, Set, Shutdown};
        [Open, Bind, Listen, Accept, Connect, Send, Receive, Shutdown, Close, Name, Set, Get, End]
            .into_iter()
            .find(|&kind| kind as u64 == number)
    }
}

/// What a socket can be told or asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Setting {
    /// `TCP_NODELAY`.
    NoDelay = 1,
    /// `SO_RCVBUF`.
    ReceiveBuffer = 2,
    /// `SO_SNDBUF`.
    SendBuffer = 3,
    /// `SO_ERROR`: asking takes it away.
    Error = 4,
    /// `FIONREAD`.
    Readable = 5,
    /// `SIOCOUTQ`.
    Unsent = 6,
    /// `TCP_CONGESTION`: 0 none, 1 reno.
    Congestion = 7,
    /// `SO_ACCEPTCONN`.
    Listens = 8,
}

impl Setting {
    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Setting> {
        use Setting::{Congestion, Error, Listens, NoDelay, Readable, ReceiveBuffer, SendBuffer, Unsent};
        [NoDelay, ReceiveBuffer, SendBuffer, Error, Readable, Unsent, Congestion, Listens]
            .into_iter()
            .find(|&setting| setting as u64 == number)
    }
}

/// What a call tells beside its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// An address, as a number.
    pub address: u64,
    /// Its port.
    pub port: u64,
    /// Length of a datagram.
    pub length: u64,
}

/// Where the nodes' addresses begin: 10.0.0.0/8 (RFC 1918), the first node has 10.0.0.1.
const FIRST: u32 = 0x0a00_0001;

/// The address of a node.
#[must_use]
pub fn address_of(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + (node & 0x00ff_ffff))
}

/// The node with an address.
#[must_use]
pub fn node_at(address: Ipv4Addr) -> Option<u32> {
    u32::from(address).checked_sub(FIRST).filter(|&node| node < 0x00ff_fffe)
}
