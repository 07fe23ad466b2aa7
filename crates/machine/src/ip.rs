//! `[ip]`: an Ethernet device for each node, as software above its NIC (docs/ip.md).

use crate::keys::{Field, Key, count, key, rate, size, time};
use crate::model::Choice;
use narrows_units::{ByteRate, Bytes, SimTime};

/// How whoever looks after the device learns that there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// An interrupt.
    Interrupt,
    /// It looks all the time.
    Polling,
    /// It looks, and sleeps in between, the longer the longer there was nothing.
    Sleep,
}

impl Receiver {
    /// All of them.
    pub const ALL: &'static [Receiver] = &[Receiver::Interrupt, Receiver::Polling, Receiver::Sleep];
    const NAMES: &'static [&'static str] = &["interrupt", "polling", "sleep"];
}

impl Choice for Receiver {
    fn names(&self) -> &'static [&'static str] {
        Receiver::NAMES
    }
    fn index(&self) -> usize {
        *self as usize
    }
    fn choose(&mut self, index: usize) {
        *self = Receiver::ALL[index];
    }
}

/// `[ip]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Longest IP packet.
    pub mtu: Bytes,
    /// Of it, the headers of IP and of what is above.
    pub header: Bytes,
    /// Around a packet in a message of the NIC.
    pub frame: Bytes,
    /// Bytes of a stream under way, and of a socket that nobody has read.
    pub window: Bytes,
    /// Packets of a stream for an acknowledgement.
    pub acknowledge_every: u32,
    /// A stream that hears nothing for so long sends again.
    pub resend: SimTime,
    /// Cores of the kernel that take packets.
    pub cores: u32,
    /// CPU time of a packet that is sent.
    pub send: SimTime,
    /// ... that is received.
    pub receive: SimTime,
    /// Copies of its payload when it is sent.
    pub send_copies: u32,
    /// ... when it is received.
    pub receive_copies: u32,
    /// Of these copies.
    pub copy_bandwidth: ByteRate,
    /// CPU time of a packet with the device's lock.
    pub lock: SimTime,
    /// Packets that wait for the NIC.
    pub transmit_ring: u32,
    /// Packets that wait for a core.
    pub receive_ring: u32,
    /// How the device is looked after.
    pub receiver: Receiver,
    /// CPU time of an interrupt.
    pub interrupt: SimTime,
    /// CPU time of waking a process.
    pub wakeup: SimTime,
    /// From one look to the next.
    pub poll: SimTime,
    /// The first sleep.
    pub sleep_min: SimTime,
    /// The longest.
    pub sleep_max: SimTime,
    /// In place of a driver.
    pub tunnel: Tunnel,
    /// The way out.
    pub gateway: Gateway,
}

/// `[ip.tunnel]`: a process that carries packets between the kernel and the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// There is one.
    pub enabled: bool,
    /// CPU time of a packet that it takes from the kernel, or gives it.
    pub packet: SimTime,
    /// Copies of it.
    pub copies: u32,
    /// Bytes of packets in one message.
    pub batch: Bytes,
    /// Messages under way.
    pub buffers: u32,
}

/// `[ip.gateway]`: a switch between the network and an Ethernet, at the port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Hosts on the other side; none: no gateway.
    pub hosts: u32,
    /// The node whose port it has.
    pub node: u32,
    /// It forwards a packet in this time, one after the other.
    pub packet: SimTime,
    /// Packets that wait in it, in each direction.
    pub room: u32,
    /// From it to a host.
    pub latency: SimTime,
    /// Of its link to the hosts, each way.
    pub bandwidth: ByteRate,
}

impl Ip {
    pub(crate) fn blank() -> Ip {
        let (none, zero) = (Bytes(0), SimTime::ZERO);
        Ip {
            mtu: none,
            header: none,
            frame: none,
            window: none,
            acknowledge_every: 1,
            resend: zero,
            cores: 1,
            send: zero,
            receive: zero,
            send_copies: 0,
            receive_copies: 0,
            copy_bandwidth: ByteRate(1),
            lock: zero,
            transmit_ring: 1,
            receive_ring: 1,
            receiver: Receiver::Interrupt,
            interrupt: zero,
            wakeup: zero,
            poll: zero,
            sleep_min: zero,
            sleep_max: zero,
            tunnel: Tunnel { enabled: false, packet: zero, copies: 0, batch: none, buffers: 1 },
            gateway: Gateway { hosts: 0, node: 0, packet: zero, room: 1, latency: zero, bandwidth: ByteRate(1) },
        }
    }
}

/// What a device may have of anything.
const MANY: u32 = 1 << 20;

/// The keys. Defaults are our own choices for a core of a server and a driver of Linux (docs/ip.md).
#[rustfmt::skip]
pub(crate) fn keys(ip: &mut Ip) -> Vec<Key<'_>> {
    let Ip { mtu, header, frame, window, acknowledge_every, resend, cores, send, receive, send_copies, receive_copies, copy_bandwidth, lock, transmit_ring, receive_ring, receiver, interrupt, wakeup, poll, sleep_min, sleep_max, tunnel, gateway } = ip;
    let mut copies = rate("ip.copy_bandwidth", copy_bandwidth, "Of these copies, on one core");
    copies.otherwise = Some("software.copy_bandwidth");
    vec![
        size("ip.mtu", mtu, 68, "Longest IP packet").default("\"9000 B\""),
        size("ip.header", header, 0, "Of it, the headers of IP and of what is above").default("\"40 B\""),
        size("ip.frame", frame, 0, "Bytes around a packet in a message of the NIC; none where those of the network's packets (`network.header`) are all that there is").default("\"14 B\""),
        size("ip.window", window, 1, "Bytes of a stream under way at most, and bytes that wait for the program at a socket").default("\"4 MiB\""),
        count("ip.acknowledge_every", acknowledge_every, 1, MANY, "The receiver of a stream acknowledges after so many packets, or half a window").default("2"),
        key("ip.resend", Field::Time(resend, SimTime(1)), "A stream that hears nothing for so long sends again").default("\"10 ms\""),
        count("ip.cores", cores, 1, 1 << 10, "Cores of the kernel that take packets, each with a ring: flow n has core n modulo this").default("1"),
        time("ip.send", send, "CPU time of a packet that is sent: system call, IP, driver").default("\"1 us\""),
        time("ip.receive", receive, "CPU time of a packet that is received: driver, IP, socket").default("\"1 us\""),
        count("ip.send_copies", send_copies, 0, 16, "Copies of the payload of a packet that is sent, on the core of its program").default("0"),
        count("ip.receive_copies", receive_copies, 0, 16, "... that is received").default("1"),
        copies,
        time("ip.lock", lock, "CPU time of a packet, sent or received, for which a core has the device alone").default("\"0 ns\""),
        count("ip.transmit_ring", transmit_ring, 1, MANY, "Packets that the device has taken and not sent; programs wait when it is full").default("256"),
        count("ip.receive_ring", receive_ring, 1, MANY, "Packets that wait for a core; when it is full they are dropped").default("1024"),
        key("ip.receiver", Field::Choice(receiver), "How whoever looks after the device, the kernel or the tunnel, learns that there is something to do: by interrupts, by looking all the time, or by looks with sleeps in between, each twice as long as the one before").default("\"interrupt\""),
        time("ip.interrupt", interrupt, "CPU time from an interrupt to the first packet; none while there are packets").default("\"2 us\""),
        time("ip.wakeup", wakeup, "CPU time of waking a process that waits for a packet").default("\"3 us\""),
        key("ip.poll", Field::Time(poll, SimTime(1)), "With polling, from something to do to the look that finds it").default("\"100 ns\""),
        key("ip.sleep_min", Field::Time(sleep_min, SimTime(1)), "With `sleep`: the first one").default("\"50 us\""),
        key("ip.sleep_max", Field::Time(sleep_max, SimTime(1)), "The longest").default("\"1 ms\""),
        key("ip.tunnel.enabled", Field::Flag(&mut tunnel.enabled), "A process carries packets between the kernel and the NIC, in place of a driver").default("false"),
        time("ip.tunnel.packet", &mut tunnel.packet, "CPU time of a packet that it takes from the kernel, or gives it").default("\"1 us\""),
        count("ip.tunnel.copies", &mut tunnel.copies, 0, 16, "Copies of it").default("1"),
        size("ip.tunnel.batch", &mut tunnel.batch, 1, "Bytes of packets in one message of the NIC; one packet always fits").default("\"64 KiB\""),
        count("ip.tunnel.buffers", &mut tunnel.buffers, 1, MANY, "Messages that it fills or the NIC reads").default("1"),
        count("ip.gateway.hosts", &mut gateway.hosts, 0, 1 << 16, "Hosts on an Ethernet behind a gateway, numbered behind the nodes; 0: there is none").default("0"),
        count("ip.gateway.node", &mut gateway.node, 0, crate::keys::NODES_MAX, "The node whose port is the gateway's; it has no programs").default("0"),
        time("ip.gateway.packet", &mut gateway.packet, "The gateway forwards one packet after the other, each in this time").default("\"1 us\""),
        count("ip.gateway.room", &mut gateway.room, 1, MANY, "Packets that wait in the gateway, in each direction; further ones are dropped").default("1024"),
        time("ip.gateway.latency", &mut gateway.latency, "From the gateway to a host").default("\"1 us\""),
        rate("ip.gateway.bandwidth", &mut gateway.bandwidth, "Of the gateway's Ethernet, per direction").default("\"10 Gbit/s\""),
    ]
}
