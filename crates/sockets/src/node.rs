//! A node: the sockets of its processes, its stack, its device.

use crate::socket::{Kind, Ready, Socket, is_there, v4};
use crate::stack::Stack;
use narrows_ip::Wake;
use narrows_ip::device::{self, Carried, Device, Job};
use narrows_machine::Ip;
use narrows_socketcalls::{ANSWER_WORDS, ARGUMENTS, Answer, CallKind, Setting, address_of, node_at};
use narrows_units::{Bytes, SimTime};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::{tcp, udp};
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The first port that sockets get which ask for none: `ip_local_port_range` of Linux.
const FIRST_PORT: u16 = 32768;
const LAST_PORT: u16 = 60999;
/// Headers of IP and UDP.
const UDP_HEADERS: usize = 28;

/// The memory of processes.
pub trait Memory {
    /// Up to `most` bytes of the parts (struct iovec) of `rank`.
    fn gather(&mut self, rank: u32, parts: u64, count: u64, most: usize) -> Option<Vec<u8>>;
    /// Fills the parts with `bytes`, as far as there is room: how many.
    fn scatter(&mut self, rank: u32, parts: u64, count: u64, bytes: &[u8]) -> Option<usize>;
    /// How many bytes there are in all of them.
    fn room(&mut self, rank: u32, parts: u64, count: u64) -> Option<usize>;
}

/// A packet with its bytes.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    header: u64,
    to: u32,
    flow: u32,
    begun: SimTime,
    /// The call that is over when a core has sent it.
    call: Option<u32>,
}

impl Carried for Frame {
    type Note = Option<u32>;

    fn payload(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(self.header)
    }

    fn target(&self) -> u32 {
        self.to
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn note(&self) -> Option<u32> {
        self.call
    }

    fn begun(&self) -> SimTime {
        self.begun
    }
}

/// Something that a node wants to be told at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Of the device.
    Device(device::Event),
    /// The stack has asked for it.
    Timer,
    /// A call is over.
    Over(u32),
}

/// What a node asks for.
#[derive(Debug)]
pub enum Effect {
    /// To be told.
    At(SimTime, Event),
    /// A message to another node; [`Node::sent`] when the NIC has read it.
    Message(u32, Vec<Frame>),
    /// A call of a process is over, with this number.
    Answered {
        /// Whose.
        rank: u32,
        /// As the process knows it.
        ticket: u32,
        /// The result.
        value: i64,
        /// What it tells beside that.
        answer: Answer,
    },
    /// What poll(2) says of a socket.
    Changed(u32, Ready),
}

impl From<device::Effect<Frame>> for Effect {
    fn from(effect: device::Effect<Frame>) -> Effect {
        match effect {
            device::Effect::At(at, event) => Effect::At(at, Event::Device(event)),
            device::Effect::Message(to, frames) => Effect::Message(to, frames),
        }
    }
}

type Effects = Vec<Effect>;

/// A call that is not over.
#[derive(Debug)]
struct Open {
    rank: u32,
    ticket: u32,
    value: i64,
    answer: Answer,
}

/// See the module's page.
pub struct Node {
    number: u32,
    ip: Ip,
    device: Device<Frame>,
    stack: Stack,
    sockets: BTreeMap<u32, Socket>,
    /// Closed, and not over.
    lingering: Vec<SocketHandle>,
    /// The cores of processes.
    programs: BTreeMap<u32, usize>,
    /// Nodes that take part.
    peers: Vec<u32>,
    /// Frames that the NIC has not read.
    pending: usize,
    next_socket: u32,
    next_port: u16,
    next_call: u32,
    open: BTreeMap<u32, Open>,
    /// When the stack wants to be told.
    timer: SimTime,
}

impl Node {
    /// `peers`: the nodes with processes of the run, this one among them.
    #[must_use]
    pub fn new(number: u32, ip: Ip, peers: &[u32], seed: u64) -> Node {
        let stack = Stack::new(address_of(number), ip.mtu.0.min(65535) as usize, seed ^ u64::from(number) << 32);
        Node {
            number,
            ip,
            device: Device::new(ip, true),
            stack,
            sockets: BTreeMap::new(),
            lingering: Vec::new(),
            programs: BTreeMap::new(),
            peers: peers.to_vec(),
            pending: 0,
            next_socket: 1,
            next_port: FIRST_PORT,
            next_call: 1,
            open: BTreeMap::new(),
            timer: SimTime::MAX,
        }
    }

    /// Time begins.
    pub fn begin(&mut self, now: SimTime) {
        self.device.begin(now);
    }

    /// The process that has a socket.
    #[must_use]
    pub fn owner(&self, socket: u32) -> Option<u32> {
        self.sockets.get(&socket).map(|socket| socket.owner)
    }

    /// A process calls: `words` are kind, socket and arguments, written at `written`. The result, which the process
    /// learns with [`Effect::Answered`].
    pub fn call(
        &mut self,
        (now, written): (SimTime, SimTime),
        (rank, ticket): (u32, u32),
        words: &[u64],
        memory: &mut dyn Memory,
        effects: &mut Effects,
    ) -> i64 {
        let call = self.next_call;
        self.next_call = self.next_call.wrapping_add(1);
        let mut answer = Answer::default();
        let (mut value, mut bytes) = (-i64::from(libc::EINVAL), 0);
        if let [kind, socket, arguments @ ..] = words
            && let (Some(kind), Ok(arguments)) = (CallKind::from_number(*kind), <[u64; ARGUMENTS]>::try_from(arguments))
        {
            let done = self.does(kind, *socket as u32, rank, arguments, &mut answer, memory);
            value = done.unwrap_or_else(|errno| -i64::from(errno));
            if kind == CallKind::Receive {
                bytes = value.max(0) as u64;
            }
        }
        let copies = self.ip.copy_bandwidth.time_for(Bytes(bytes * u64::from(self.ip.receive_copies)));
        self.open.insert(call, Open { rank, ticket, value, answer });
        let core = *self.programs.entry(rank).or_insert_with(|| self.device.add_core());
        let sent = self.emit(now, Some((core, call, now.saturating_sub(written))), effects);
        if !sent {
            let over = now.max(written + copies);
            effects.push(Effect::At(over, Event::Over(call)));
        }
        self.look(effects);
        value
    }

    fn over(&mut self, call: u32, effects: &mut Effects) {
        if let Some(Open { rank, ticket, value, answer }) = self.open.remove(&call) {
            effects.push(Effect::Answered { rank, ticket, value, answer });
        }
    }

    /// Something that it has asked for is due.
    pub fn handle(&mut self, now: SimTime, event: Event, effects: &mut Effects) {
        match event {
            Event::Over(call) => self.over(call, effects),
            Event::Timer if now < self.timer => {}
            Event::Timer => {
                self.timer = SimTime::MAX;
                self.settle(now, effects);
            }
            Event::Device(device::Event::Begin(core)) => self.device.start(now, core, effects),
            Event::Device(device::Event::Done(core)) => {
                if let Some(job) = self.device.finish(core) {
                    self.done(now, job, effects);
                }
                self.device.start(now, core, effects);
            }
        }
    }

    fn done(&mut self, now: SimTime, job: Job<Frame>, effects: &mut Effects) {
        match job {
            Job::Send(frame) | Job::Answer(frame) if frame.to == self.number => {
                // What goes to the node itself does not leave the kernel.
                self.pending -= 1;
                if let Some(call) = frame.call {
                    self.over(call, effects);
                }
                let _dropped = self.device.pass(now, frame, effects);
            }
            Job::Send(frame) | Job::Answer(frame) => {
                self.device.transmit(frame);
                self.refill(now, effects);
            }
            Job::Receive(frame) | Job::Read(frame) => {
                self.stack.arrive(now, frame.bytes);
                self.settle(now, effects);
            }
            Job::In(frame) => {
                let _dropped = self.device.pass(now, frame, effects);
            }
            Job::Out(frames) => {
                self.device.carried(frames, effects);
                self.refill(now, effects);
            }
        }
    }

    fn refill(&mut self, now: SimTime, effects: &mut Effects) {
        while let Some(call) = self.device.refill(effects) {
            if let Some(call) = call {
                self.over(call, effects);
            }
        }
        self.device.refilled(now, effects);
    }

    /// The device has received packets.
    pub fn arrive(&mut self, now: SimTime, frames: Vec<Frame>, effects: &mut Effects) {
        for frame in frames {
            let _dropped = self.device.arrive(now, frame, effects);
        }
    }

    /// The NIC has read a message of so many packets.
    pub fn sent(&mut self, now: SimTime, packets: u32, effects: &mut Effects) {
        self.pending = self.pending.saturating_sub(packets as usize);
        self.device.sent(packets);
        self.refill(now, effects);
        self.settle(now, effects);
    }

    /// Bytes of packets in a message of the device.
    #[must_use]
    pub fn bytes(ip: &Ip, frames: &[Frame]) -> Bytes {
        Device::bytes(ip, frames)
    }

    fn settle(&mut self, now: SimTime, effects: &mut Effects) {
        self.emit(now, None, effects);
        self.look(effects);
    }

    /// What the stack sends: by a core of a program for its call, which is over then, else by the kernel. Whether there
    /// was anything for the call to wait for.
    fn emit(&mut self, now: SimTime, call: Option<(usize, u32, SimTime)>, effects: &mut Effects) -> bool {
        self.renew_listeners();
        let room = (self.ip.transmit_ring as usize).saturating_sub(self.pending);
        let frames = self.stack.leave(now, room);
        self.pending += frames.len();
        let (mut last, any) = (frames.len(), !frames.is_empty());
        let mut begun = call.map_or(SimTime::ZERO, |(_, _, begun)| begun);
        for bytes in frames {
            last -= 1;
            let port = |at: usize| bytes.get(at..at + 2).map_or(0, |port| u32::from(u16::from_be_bytes([port[0], port[1]])));
            let target = bytes.get(16..20).map_or(Ipv4Addr::LOCALHOST, |part| Ipv4Addr::new(part[0], part[1], part[2], part[3]));
            let to = if target.is_loopback() { self.number } else { node_at(target).unwrap_or(self.number) };
            let flow = port(20) + port(22);
            let of_call = call.filter(|_| last == 0).map(|(_, call, _)| call);
            let frame = Frame { header: self.ip.header.0, to, flow, begun: std::mem::take(&mut begun), call: of_call, bytes };
            let (core, job) = match call {
                Some((core, ..)) => (core, Job::Send(frame)),
                None => (self.device.kernel_core(flow), Job::Answer(frame)),
            };
            self.device.put(now, core, job, Wake::Woken(SimTime::ZERO), effects);
        }
        if let Some(at) = self.stack.next(now).filter(|&at| at < self.timer) {
            self.timer = at;
            effects.push(Effect::At(at, Event::Timer));
        }
        self.bury();
        any && call.is_some()
    }

    /// Sockets that are closed and over.
    fn bury(&mut self) {
        let Node { lingering, stack, .. } = self;
        lingering.retain(|&handle| {
            let socket: &tcp::Socket<'_> = stack.sockets.get(handle);
            let over = matches!(socket.state(), tcp::State::Closed | tcp::State::TimeWait);
            if over {
                stack.sockets.remove(handle);
            }
            !over
        });
    }

    /// One socket of each listener waits for the next connection.
    fn renew_listeners(&mut self) {
        let Node { sockets, stack, .. } = self;
        for socket in sockets.values_mut() {
            let Some(local) = socket.local else { continue };
            let Kind::Listener(handles) = &socket.kind else { continue };
            let state = |handle: SocketHandle| stack.sockets.get::<tcp::Socket<'_>>(handle).state();
            if handles.iter().any(|&handle| state(handle) == tcp::State::Listen) {
                continue;
            }
            let mut next = socket.connection();
            if next.listen(listen_at(local)).is_ok() {
                let handle = stack.sockets.add(next);
                if let Kind::Listener(handles) = &mut socket.kind {
                    handles.push(handle);
                }
            }
        }
    }

    /// Tells what has changed.
    fn look(&mut self, effects: &mut Effects) {
        let Node { sockets, stack, .. } = self;
        for (&number, socket) in sockets {
            let ready = socket.look(&stack.sockets);
            if std::mem::replace(&mut socket.ready, ready) != ready {
                effects.push(Effect::Changed(number, ready));
            }
        }
    }

    fn does(
        &mut self,
        kind: CallKind,
        number: u32,
        rank: u32,
        arguments: [u64; ARGUMENTS],
        answer: &mut Answer,
        memory: &mut dyn Memory,
    ) -> Result<i64, i32> {
        let [first, second, third, fourth, ..] = arguments;
        let address = |address: u64, port: u64| SocketAddrV4::new(Ipv4Addr::from(address as u32), port as u16);
        match kind {
            CallKind::Open => return Ok(i64::from(self.opens(rank, first == 2))),
            CallKind::End => {
                let theirs: Vec<u32> = self.sockets.iter().filter(|(_, socket)| socket.owner == rank).map(|(&number, _)| number).collect();
                theirs.into_iter().for_each(|number| self.closes(number));
                return Ok(0);
            }
            _ => {}
        }
        if !self.sockets.contains_key(&number) {
            return Err(libc::EBADF);
        }
        match kind {
            CallKind::Open | CallKind::End => unreachable!("done above"),
            CallKind::Bind => self.binds(number, address(first, second)),
            CallKind::Listen => self.listens(number),
            CallKind::Accept => self.accepts(number, answer),
            CallKind::Connect => self.connects(number, address(first, second)),
            CallKind::Send => {
                let to = (fourth != 0).then(|| address(third, fourth));
                self.sends(number, rank, (first, second), to, memory)
            }
            CallKind::Receive => self.receives(number, rank, (first, second), third != 0, answer, memory),
            CallKind::Shutdown => self.shuts(number, first),
            CallKind::Close => {
                self.closes(number);
                Ok(0)
            }
            CallKind::Name => self.names(number, first == 1, answer),
            CallKind::Set => self.sets(number, Setting::from_number(first).ok_or(libc::ENOPROTOOPT)?, second),
            CallKind::Get => self.gets(number, Setting::from_number(first).ok_or(libc::ENOPROTOOPT)?),
        }
    }

    fn insert(&mut self, socket: Socket) -> u32 {
        let number = self.next_socket;
        self.next_socket += 1;
        self.sockets.insert(number, socket);
        number
    }

    fn opens(&mut self, rank: u32, datagrams: bool) -> u32 {
        let window = self.ip.window.0 as usize;
        let kind = if datagrams { Kind::Udp(self.stack.sockets.add(Socket::datagrams(window, window))) } else { Kind::Fresh };
        self.insert(Socket::new(rank, kind, window))
    }

    /// A port that no socket of this kind has.
    fn free_port(&mut self, datagrams: bool) -> Result<u16, i32> {
        for _ in FIRST_PORT..=LAST_PORT {
            let port = self.next_port;
            self.next_port = if port == LAST_PORT { FIRST_PORT } else { port + 1 };
            if !self.is_taken(port, datagrams) {
                return Ok(port);
            }
        }
        Err(libc::EADDRINUSE)
    }

    fn is_taken(&self, port: u16, datagrams: bool) -> bool {
        let same =
            |socket: &Socket| matches!(socket.kind, Kind::Udp(_)) == datagrams && socket.local.is_some_and(|local| local.port() == port);
        // Connections that were accepted have the port of their listener; a socket of UDP that is connected leaves its
        // port to the next one, as servers do with `SO_REUSEADDR`.
        let shares = |socket: &Socket| match socket.kind {
            Kind::Tcp(_) => socket.peer.is_none(),
            Kind::Udp(_) => socket.peer.is_some(),
            Kind::Fresh | Kind::Listener(_) => false,
        };
        self.sockets.values().any(|socket| same(socket) && !shares(socket))
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        address.is_unspecified() || address.is_loopback() || address == address_of(self.number)
    }

    fn binds(&mut self, number: u32, to: SocketAddrV4) -> Result<i64, i32> {
        if !self.is_own(*to.ip()) {
            return Err(libc::EADDRNOTAVAIL);
        }
        let socket = self.sockets.get(&number).ok_or(libc::EBADF)?;
        if socket.local.is_some() {
            return Err(libc::EINVAL);
        }
        let datagrams = matches!(socket.kind, Kind::Udp(_));
        let port = match to.port() {
            0 => self.free_port(datagrams)?,
            port if self.is_taken(port, datagrams) => return Err(libc::EADDRINUSE),
            port => port,
        };
        let local = SocketAddrV4::new(*to.ip(), port);
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.local = Some(local);
            if let Kind::Udp(handle) = socket.kind {
                let bound = self.stack.sockets.get_mut::<udp::Socket<'_>>(handle).bind(listen_at(local));
                bound.map_err(|_| libc::EINVAL)?;
            }
        }
        Ok(0)
    }

    fn bound(&mut self, number: u32) -> Result<SocketAddrV4, i32> {
        if self.sockets.get(&number).is_some_and(|socket| socket.local.is_none()) {
            self.binds(number, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
        }
        self.sockets.get(&number).and_then(|socket| socket.local).ok_or(libc::EBADF)
    }

    fn listens(&mut self, number: u32) -> Result<i64, i32> {
        self.bound(number)?;
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Fresh => socket.kind = Kind::Listener(Vec::new()),
            Kind::Listener(_) => {}
            Kind::Tcp(_) => return Err(libc::EINVAL),
            Kind::Udp(_) => return Err(libc::EOPNOTSUPP),
        }
        self.renew_listeners();
        Ok(0)
    }

    fn accepts(&mut self, number: u32, answer: &mut Answer) -> Result<i64, i32> {
        let Node { sockets, stack, .. } = self;
        let listener = sockets.get_mut(&number).ok_or(libc::EBADF)?;
        let Kind::Listener(handles) = &mut listener.kind else { return Err(libc::EINVAL) };
        // Those that were given up meanwhile.
        handles.retain(|&handle| {
            let gone = stack.sockets.get::<tcp::Socket<'_>>(handle).state() == tcp::State::Closed;
            if gone {
                stack.sockets.remove(handle);
            }
            !gone
        });
        let at = handles.iter().position(|&handle| is_there(stack.sockets.get(handle))).ok_or(libc::EAGAIN)?;
        let handle = handles.remove(at);
        let connection: &tcp::Socket<'_> = stack.sockets.get(handle);
        let peer = connection.remote_endpoint().map(v4);
        let local = connection.local_endpoint().map(v4);
        let (no_delay, receive_buffer, send_buffer, reno) =
            (listener.no_delay, listener.receive_buffer, listener.send_buffer, listener.reno);
        let owner = listener.owner;
        let accepted =
            Socket { local, established: true, no_delay, receive_buffer, send_buffer, reno, ..Socket::new(owner, Kind::Tcp(handle), 0) };
        tell(answer, peer);
        Ok(i64::from(self.insert(accepted)))
    }

    fn connects(&mut self, number: u32, to: SocketAddrV4) -> Result<i64, i32> {
        let to = if to.ip().is_unspecified() { SocketAddrV4::new(Ipv4Addr::LOCALHOST, to.port()) } else { to };
        if !to.ip().is_loopback() && !node_at(*to.ip()).is_some_and(|node| self.peers.contains(&node)) {
            return Err(libc::ENETUNREACH);
        }
        let socket = self.sockets.get(&number).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Udp(_) => {
                self.bound(number)?;
                self.sockets.get_mut(&number).ok_or(libc::EBADF)?.peer = Some(to);
                return Ok(0);
            }
            Kind::Listener(_) => return Err(libc::EINVAL),
            Kind::Tcp(_) if socket.error != 0 => {
                let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
                return Err(std::mem::take(&mut socket.error));
            }
            Kind::Tcp(_) => return Err(if socket.established { libc::EISCONN } else { libc::EALREADY }),
            Kind::Fresh => {}
        }
        let local = self.bound(number)?;
        let own = if to.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { address_of(self.number) };
        let local = SocketAddrV4::new(if local.ip().is_unspecified() { own } else { *local.ip() }, local.port());
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        let mut connection = socket.connection();
        let remote = IpEndpoint::new((*to.ip()).into(), to.port());
        connection.connect(self.stack.context(), remote, listen_at(local)).map_err(|_| libc::EINVAL)?;
        (socket.local, socket.peer) = (Some(local), Some(to));
        socket.kind = Kind::Tcp(self.stack.sockets.add(connection));
        Err(libc::EINPROGRESS)
    }

    fn sends(
        &mut self,
        number: u32,
        rank: u32,
        (parts, count): (u64, u64),
        to: Option<SocketAddrV4>,
        memory: &mut dyn Memory,
    ) -> Result<i64, i32> {
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Fresh | Kind::Listener(_) => Err(libc::EPIPE),
            Kind::Tcp(handle) => {
                let connection = socket.connected(handle, &mut self.stack.sockets)?;
                if !connection.may_send() {
                    return Err(libc::EPIPE);
                }
                let room = connection.send_capacity() - connection.send_queue();
                if room == 0 {
                    return Err(libc::EAGAIN);
                }
                let bytes = memory.gather(rank, parts, count, room).ok_or(libc::EFAULT)?;
                let taken = connection.send_slice(&bytes).map_err(|_| libc::EPIPE)?;
                Ok(taken as i64)
            }
            Kind::Udp(handle) => {
                let to = to.or(socket.peer).ok_or(libc::EDESTADDRREQ)?;
                if !to.ip().is_loopback() && !node_at(*to.ip()).is_some_and(|node| self.peers.contains(&node)) {
                    return Err(libc::ENETUNREACH);
                }
                let local = self.bound(number)?;
                let most = (self.ip.mtu.0.min(65535) as usize).saturating_sub(UDP_HEADERS);
                let bytes = memory.gather(rank, parts, count, most + 1).ok_or(libc::EFAULT)?;
                if bytes.len() > most {
                    return Err(libc::EMSGSIZE);
                }
                let own = if to.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { address_of(self.number) };
                let own = if local.ip().is_unspecified() { own } else { *local.ip() };
                let mut meta = udp::UdpMetadata::from(IpEndpoint::new((*to.ip()).into(), to.port()));
                meta.local_address = Some(own.into());
                let datagrams: &mut udp::Socket<'_> = self.stack.sockets.get_mut(handle);
                datagrams.send_slice(&bytes, meta).map_err(|_| libc::EAGAIN)?;
                Ok(bytes.len() as i64)
            }
        }
    }

    fn receives(
        &mut self,
        number: u32,
        rank: u32,
        (parts, count): (u64, u64),
        peeks: bool,
        answer: &mut Answer,
        memory: &mut dyn Memory,
    ) -> Result<i64, i32> {
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Fresh | Kind::Listener(_) => Err(libc::ENOTCONN),
            Kind::Tcp(handle) => {
                let connection = socket.connected(handle, &mut self.stack.sockets)?;
                if !connection.can_recv() {
                    return if connection.may_recv() { Err(libc::EAGAIN) } else { Ok(0) };
                }
                let room = memory.room(rank, parts, count).ok_or(libc::EFAULT)?.min(connection.recv_queue());
                let mut bytes = vec![0; room];
                let taken = if peeks { connection.peek_slice(&mut bytes) } else { connection.recv_slice(&mut bytes) };
                let taken = taken.map_err(|_| libc::ECONNRESET)?;
                socket.has_received(connection);
                memory.scatter(rank, parts, count, &bytes[..taken]).ok_or(libc::EFAULT)?;
                let peer = connection.remote_endpoint().map(v4);
                tell(answer, peer);
                answer.length = taken as u64;
                Ok(taken as i64)
            }
            Kind::Udp(handle) => {
                let datagrams: &mut udp::Socket<'_> = self.stack.sockets.get_mut(handle);
                let (bytes, from) = if peeks {
                    let (bytes, from) = datagrams.peek().map_err(|_| libc::EAGAIN)?;
                    (bytes, *from)
                } else {
                    datagrams.recv().map_err(|_| libc::EAGAIN)?
                };
                answer.length = bytes.len() as u64;
                let taken = memory.scatter(rank, parts, count, bytes).ok_or(libc::EFAULT)?;
                tell(answer, Some(v4(from.endpoint)));
                Ok(taken as i64)
            }
        }
    }

    fn shuts(&mut self, number: u32, how: u64) -> Result<i64, i32> {
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        match socket.kind {
            Kind::Tcp(handle) => {
                if how > 0 {
                    self.stack.sockets.get_mut::<tcp::Socket<'_>>(handle).close();
                }
                Ok(0)
            }
            _ => Err(libc::ENOTCONN),
        }
    }

    fn closes(&mut self, number: u32) {
        let Some(socket) = self.sockets.remove(&number) else { return };
        let Node { stack, lingering, .. } = self;
        let mut close = |handle: SocketHandle| {
            let connection: &mut tcp::Socket<'_> = stack.sockets.get_mut(handle);
            // As RFC 2525, 2.17 has it: data that nobody reads any more end the connection.
            if connection.recv_queue() > 0 || matches!(connection.state(), tcp::State::Listen) {
                connection.abort();
            } else {
                connection.close();
            }
            lingering.push(handle);
        };
        match socket.kind {
            Kind::Fresh => {}
            Kind::Udp(handle) => {
                stack.sockets.remove(handle);
            }
            Kind::Tcp(handle) => close(handle),
            Kind::Listener(handles) => handles.into_iter().for_each(close),
        }
    }

    fn names(&mut self, number: u32, peer: bool, answer: &mut Answer) -> Result<i64, i32> {
        let socket = self.sockets.get(&number).ok_or(libc::EBADF)?;
        let unnamed = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let (local, remote) = match socket.kind {
            Kind::Tcp(handle) => {
                let connection: &tcp::Socket<'_> = self.stack.sockets.get(handle);
                (connection.local_endpoint().map(v4).or(socket.local), connection.remote_endpoint().map(v4).or(socket.peer))
            }
            _ => (socket.local, socket.peer),
        };
        let connected = matches!(socket.kind, Kind::Udp(_)) || socket.established;
        let name = if peer { remote.filter(|_| connected).ok_or(libc::ENOTCONN)? } else { local.unwrap_or(unnamed) };
        tell(answer, Some(name));
        Ok(0)
    }

    fn sets(&mut self, number: u32, setting: Setting, value: u64) -> Result<i64, i32> {
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        // As Linux has it: twice what is asked for, and no less than this (SOCK_MIN_RCVBUF, include/net/sock.h).
        let bytes = (value as usize).saturating_mul(2).clamp(2304, 64 << 20);
        match setting {
            Setting::NoDelay => {
                socket.no_delay = value != 0;
                if let Kind::Tcp(handle) = socket.kind {
                    self.stack.sockets.get_mut::<tcp::Socket<'_>>(handle).set_nagle_enabled(value == 0);
                }
            }
            Setting::ReceiveBuffer => socket.receive_buffer = bytes,
            Setting::SendBuffer => socket.send_buffer = bytes,
            Setting::Congestion => socket.reno = value != 0,
            Setting::Error | Setting::Readable | Setting::Unsent | Setting::Listens => return Err(libc::ENOPROTOOPT),
        }
        Ok(0)
    }

    fn gets(&mut self, number: u32, setting: Setting) -> Result<i64, i32> {
        let socket = self.sockets.get_mut(&number).ok_or(libc::EBADF)?;
        Ok(match setting {
            Setting::NoDelay => i64::from(socket.no_delay),
            Setting::ReceiveBuffer => socket.receive_buffer as i64,
            Setting::SendBuffer => socket.send_buffer as i64,
            Setting::Congestion => i64::from(socket.reno),
            Setting::Listens => i64::from(matches!(socket.kind, Kind::Listener(_))),
            Setting::Error => i64::from(std::mem::take(&mut socket.error)),
            Setting::Readable => match socket.kind {
                Kind::Tcp(handle) => self.stack.sockets.get::<tcp::Socket<'_>>(handle).recv_queue() as i64,
                Kind::Udp(handle) => {
                    let datagrams: &mut udp::Socket<'_> = self.stack.sockets.get_mut(handle);
                    datagrams.peek().map_or(0, |(bytes, _)| bytes.len() as i64)
                }
                _ => 0,
            },
            Setting::Unsent => match socket.kind {
                Kind::Tcp(handle) => self.stack.sockets.get::<tcp::Socket<'_>>(handle).send_queue() as i64,
                _ => 0,
            },
        })
    }
}

/// Words of an answer, as a process finds them.
const _: () = assert!(ANSWER_WORDS * 8 == size_of::<Answer>());

fn tell(answer: &mut Answer, address: Option<SocketAddrV4>) {
    if let Some(address) = address {
        (answer.address, answer.port) = (u64::from(u32::from(*address.ip())), u64::from(address.port()));
    }
}

fn listen_at(local: SocketAddrV4) -> IpListenEndpoint {
    let addr = (!local.ip().is_unspecified()).then(|| (*local.ip()).into());
    IpListenEndpoint { addr, port: local.port() }
}
