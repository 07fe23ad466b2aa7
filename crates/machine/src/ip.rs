//! `[ip]`: an Ethernet device for each node, as software above its NIC (docs/ip.md).

use crate::node::NODES_MAX;
use narrows_keys::{choice, keys};
use narrows_units::{ByteRate, Bytes, SimTime};

choice! {
    /// How whoever looks after the device learns that there is something to do.
    pub enum Receiver {
        /// An interrupt.
        Interrupt = "interrupt",
        /// It looks all the time.
        Polling = "polling",
        /// It looks, and sleeps in between, the longer the longer there was nothing.
        Sleep = "sleep",
    }
}

keys! {
    /// `[ip]`. Defaults are our own choices for a core of a server and a driver of Linux (docs/ip.md).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ip {
        /// Longest IP packet.
        pub mtu: Bytes = "9000 B", in Bytes(68)..;
        /// Of it, the headers of IP and of what is above.
        pub header: Bytes = "40 B";
        /// Bytes around a packet in a message of the NIC; none where those of the network's packets (`network.header`)
        /// are all that there is.
        pub frame: Bytes = "14 B";
        /// Bytes of a stream under way at most, and bytes that wait for the program at a socket.
        pub window: Bytes = "4 MiB", in Bytes(1)..;
        /// The receiver of a stream acknowledges after this many packets, or half a window.
        pub acknowledge_every: u32 = 2, in 1..=MANY;
        /// A stream sends again if nothing arrives for this time.
        pub resend: SimTime = "10 ms", in SimTime(1)..;
        /// Cores of the kernel that take packets, each with a ring: flow n has core n modulo this.
        pub cores: u32 = 1, in 1..=1 << 10;
        /// CPU time of a packet that is sent: system call, IP, driver.
        pub send: SimTime = "1 us";
        /// CPU time of a packet that is received: driver, IP, socket.
        pub receive: SimTime = "1 us";
        /// Copies of the payload of a packet that is sent, on the core of its program.
        pub send_copies: u32 = 0, in 0..=16;
        /// Copies of the payload of a packet that is received, on the core of its program.
        pub receive_copies: u32 = 1, in 0..=16;
        /// Bandwidth of these copies, on one core.
        pub copy_bandwidth: ByteRate, or "software.copy_bandwidth";
        /// CPU time of a packet, sent or received, for which a core has the device alone.
        pub lock: SimTime = "0 ns";
        /// Packets that the device has taken and not sent; programs wait when it is full.
        pub transmit_ring: u32 = 256, in 1..=MANY;
        /// Packets that wait for a core; when it is full they are dropped.
        pub receive_ring: u32 = 1024, in 1..=MANY;
        /// How the kernel or the tunnel learns of work at the device: by interrupts, by polling all the time, or by
        /// polls with sleeps in between, each twice as long as the one before.
        pub receiver: Receiver = "interrupt";
        /// CPU time from an interrupt to the first packet; none while there are packets.
        pub interrupt: SimTime = "2 us";
        /// CPU time of waking a process that waits for a packet.
        pub wakeup: SimTime = "3 us";
        /// With polling, from something to do to the look that finds it.
        pub poll: SimTime = "100 ns", in SimTime(1)..;
        /// With `sleep`: the first sleep.
        pub sleep_min: SimTime = "50 us", in SimTime(1)..;
        /// With `sleep`: the longest sleep.
        pub sleep_max: SimTime = "1 ms", in SimTime(1)..;
        /// In place of a driver.
        pub tunnel: Tunnel => "tunnel";
        /// The way out.
        pub gateway: Gateway => "gateway";
    }
}

keys! {
    /// `[ip.tunnel]`: a process that carries packets between the kernel and the NIC.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tunnel {
        /// A process carries packets between the kernel and the NIC, in place of a driver.
        pub enabled: bool = false;
        /// CPU time of a packet that it takes from the kernel, or gives it.
        pub packet: SimTime = "1 us";
        /// Copies of such a packet.
        pub copies: u32 = 1, in 0..=16;
        /// Bytes of packets in one message of the NIC; one packet always fits.
        pub batch: Bytes = "64 KiB", in Bytes(1)..;
        /// Messages that it fills or the NIC reads.
        pub buffers: u32 = 1, in 1..=MANY;
    }
}

keys! {
    /// `[ip.gateway]`: a switch between the network and an Ethernet, at the port of a node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gateway {
        /// Hosts on an Ethernet behind a gateway, numbered behind the nodes; 0: there is none.
        pub hosts: u32 = 0, in 0..=1 << 16;
        /// The node whose port is the gateway's; it has no programs.
        pub node: u32 = 0, in 0..=NODES_MAX;
        /// The gateway forwards one packet after the other, each in this time.
        pub packet: SimTime = "1 us";
        /// Packets that wait in the gateway, in each direction; further ones are dropped.
        pub room: u32 = 1024, in 1..=MANY;
        /// From the gateway to a host.
        pub latency: SimTime = "1 us";
        /// Of the gateway's Ethernet, per direction.
        pub bandwidth: ByteRate = "10 Gbit/s";
    }
}

/// What a device may have of anything.
const MANY: u32 = 1 << 20;
