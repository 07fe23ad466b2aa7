//! Two nodes and a wire of a fixed delay, against closed forms.

use narrows_machine::{Machine, Overrides};
use narrows_socketcalls::{Answer, CallKind, Setting, WORDS, address_of};
use narrows_sockets::{Effect, Event, Frame, Memory, Node, Ready};
use narrows_units::SimTime;
use std::collections::BTreeMap;

/// From call to node, and of the wire.
const CALL: SimTime = SimTime::from_us(1);
const WIRE: SimTime = SimTime::from_us(50);
const EAGAIN: i64 = -(libc::EAGAIN as i64);

/// What a process has in its memory: one buffer.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Memory for Buffer {
    fn gather(&mut self, _: u32, _: u64, count: u64, most: usize) -> Option<Vec<u8>> {
        Some(self.0[..(count as usize).min(most)].to_vec())
    }
    fn scatter(&mut self, _: u32, _: u64, count: u64, bytes: &[u8]) -> Option<usize> {
        let length = bytes.len().min(count as usize);
        self.0 = bytes[..length].to_vec();
        Some(length)
    }
    fn room(&mut self, _: u32, _: u64, count: u64) -> Option<usize> {
        Some(count as usize)
    }
}

enum Due {
    Node(Event),
    Sent(u32),
    Arrives(Vec<Frame>),
}

struct World {
    ip: narrows_machine::Ip,
    nodes: [Node; 2],
    now: SimTime,
    due: BTreeMap<(SimTime, u64), (usize, Due)>,
    serial: u64,
    answers: Vec<(SimTime, u32, i64, Answer)>,
    ready: BTreeMap<(usize, u32), (SimTime, Ready)>,
    tickets: u32,
}

impl World {
    fn new(change: impl FnOnce(&mut narrows_machine::Ip)) -> World {
        let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(4), set: vec![] }).expect("a preset");
        let mut ip = machine.ip;
        change(&mut ip);
        let mut nodes = [0, 1].map(|number| Node::new(number, ip, &[0, 1], 1));
        nodes.iter_mut().for_each(|node| node.begin(SimTime::ZERO));
        World { ip, nodes, now: SimTime::ZERO, due: BTreeMap::new(), serial: 0, answers: Vec::new(), ready: BTreeMap::new(), tickets: 0 }
    }

    fn at(&mut self, time: SimTime, node: usize, due: Due) {
        self.serial += 1;
        self.due.insert((time, self.serial), (node, due));
    }

    fn take(&mut self, node: usize, effects: Vec<Effect>) {
        let now = self.now;
        for effect in effects {
            match effect {
                Effect::At(time, event) => self.at(time, node, Due::Node(event)),
                Effect::Message(to, frames) => {
                    self.at(now, node, Due::Sent(frames.len() as u32));
                    self.at(now + WIRE, to as usize, Due::Arrives(frames));
                }
                Effect::Answered { ticket, value, answer, .. } => self.answers.push((now, ticket, value, answer)),
                Effect::Changed(socket, ready) => drop(self.ready.insert((node, socket), (now, ready))),
            }
        }
    }

    fn step(&mut self) -> bool {
        let Some(((time, _), (node, due))) = self.due.pop_first() else { return false };
        self.now = time;
        let mut effects = Vec::new();
        match due {
            Due::Node(event) => self.nodes[node].handle(time, event, &mut effects),
            Due::Sent(frames) => self.nodes[node].sent(time, frames, &mut effects),
            Due::Arrives(frames) => self.nodes[node].arrive(time, frames, &mut effects),
        }
        self.take(node, effects);
        true
    }

    /// A process calls now, and waits until the call is over: its value.
    fn call(&mut self, node: usize, kind: CallKind, socket: i64, arguments: &[u64], memory: &mut Buffer) -> (i64, Answer) {
        let written = self.now;
        while self.due.first_key_value().is_some_and(|(&(time, _), _)| time < written + CALL) {
            self.step();
        }
        self.now = written + CALL;
        self.tickets += 1;
        let ticket = self.tickets;
        let mut words = [0; WORDS];
        (words[0], words[1]) = (kind as u64, socket as u64);
        words[2..2 + arguments.len()].copy_from_slice(arguments);
        let mut effects = Vec::new();
        self.nodes[node].call((self.now, written), (node as u32, ticket), &words, memory, &mut effects);
        self.take(node, effects);
        loop {
            if let Some(&(_, _, value, answer)) = self.answers.iter().find(|(_, of, ..)| *of == ticket) {
                return (value, answer);
            }
            assert!(self.step(), "a call is over at some time");
        }
    }

    fn ask(&mut self, node: usize, kind: CallKind, socket: i64, arguments: &[u64]) -> i64 {
        self.call(node, kind, socket, arguments, &mut Buffer::default()).0
    }

    /// Until poll(2) says so: when that was.
    fn until(&mut self, node: usize, socket: i64, wanted: impl Fn(Ready) -> bool) -> SimTime {
        loop {
            if let Some(&(time, ready)) = self.ready.get(&(node, socket as u32))
                && wanted(ready)
            {
                return time;
            }
            assert!(self.step(), "nothing happens any more");
        }
    }

    /// A TCP connection from node 0 to node 1: the two ends.
    fn connection(&mut self) -> (i64, i64) {
        let server = self.ask(1, CallKind::Open, 0, &[1]);
        assert_eq!(self.ask(1, CallKind::Bind, server, &[0, 5000]), 0);
        assert_eq!(self.ask(1, CallKind::Listen, server, &[5]), 0);
        let client = self.ask(0, CallKind::Open, 0, &[1]);
        let to = u64::from(u32::from(address_of(1)));
        assert_eq!(self.ask(0, CallKind::Connect, client, &[to, 5000]), -i64::from(libc::EINPROGRESS));
        self.until(0, client, |ready| ready.writable);
        self.until(1, server, |ready| ready.readable);
        let (accepted, peer) = self.call(1, CallKind::Accept, server, &[], &mut Buffer::default());
        assert_eq!(peer.address, u64::from(u32::from(address_of(0))));
        (client, accepted)
    }
}

#[test]
fn a_datagram_takes_what_its_parts_take() {
    let mut world = World::new(|_| {});
    let to = u64::from(u32::from(address_of(1)));
    let server = world.ask(1, CallKind::Open, 0, &[2]);
    assert_eq!(world.ask(1, CallKind::Bind, server, &[0, 7000]), 0);
    let client = world.ask(0, CallKind::Open, 0, &[2]);
    let begin = world.now;
    let mut memory = Buffer(vec![7; 100]);
    assert_eq!(world.call(0, CallKind::Send, client, &[0, 100, to, 7000], &mut memory).0, 100);
    // The call has begun before the node knew of it, and that is part of what it takes.
    let send = world.ip.send.max(CALL);
    assert_eq!(world.now - begin, send, "the program waits for its packet: max(ip.send, the way of the call)");
    let there = world.until(1, server, |ready| ready.readable);
    assert_eq!(there - begin, send + WIRE + world.ip.interrupt + world.ip.receive);
    let mut memory = Buffer::default();
    world.now = there;
    let (length, from) = world.call(1, CallKind::Receive, server, &[0, 1000, 0], &mut memory);
    assert_eq!((length, memory.0, from.address), (100, vec![7; 100], u64::from(u32::from(address_of(0)))));
    assert_eq!(world.ask(1, CallKind::Receive, server, &[0, 1000, 0]), EAGAIN);
    let most = world.ip.mtu.0 - 28;
    let mut memory = Buffer(vec![0; 1 << 17]);
    assert_eq!(world.call(0, CallKind::Send, client, &[0, most + 1, to, 7000], &mut memory).0, -i64::from(libc::EMSGSIZE));
    let outside = u64::from(u32::from(address_of(9)));
    assert_eq!(world.call(0, CallKind::Send, client, &[0, 10, outside, 7000], &mut memory).0, -i64::from(libc::ENETUNREACH));
}

/// Bytes of a stream that arrive in `time`, with a window of so many bytes at the receiver.
fn streamed(window: u64, time: SimTime) -> (u64, SimTime) {
    let mut world = World::new(|ip| ip.window = narrows_units::Bytes(window));
    let (client, server) = world.connection();
    assert_eq!(world.ask(0, CallKind::Set, client, &[Setting::NoDelay as u64, 1]), 0);
    let begin = world.now;
    let (mut sent, mut came) = (0_u64, 0_u64);
    let mut data = Buffer((0..=255).cycle().take(1 << 20).collect());
    while world.now - begin < time {
        let (taken, _) = world.call(0, CallKind::Send, client, &[0, 1 << 20, 0, 0], &mut data);
        sent += taken.max(0) as u64;
        let mut memory = Buffer::default();
        let (value, _) = world.call(1, CallKind::Receive, server, &[0, 1 << 20, 0], &mut memory);
        came += value.max(0) as u64;
        if (taken, value) == (EAGAIN, EAGAIN) {
            assert!(world.step(), "something is under way");
        }
    }
    assert!(came <= sent);
    (came, world.now - begin)
}

#[test]
fn a_stream_moves_a_window_per_round_trip() {
    for window in [1 << 16, 1 << 17] {
        let (bytes, time) = streamed(window, SimTime::from_us(20_000));
        // At least the wire there and back, at most that and what calls and cores take beside it.
        let least = window as f64 / (WIRE * 2).as_s_f64();
        let rate = bytes as f64 / time.as_s_f64();
        assert!(rate < least * 1.01 && rate > least * 0.5, "window {window}: {rate} B/s, at most {least}");
    }
}

#[test]
fn connections_are_refused_closed_and_reported() {
    let mut world = World::new(|_| {});
    let to = u64::from(u32::from(address_of(1)));
    let client = world.ask(0, CallKind::Open, 0, &[1]);
    assert_eq!(world.ask(0, CallKind::Connect, client, &[to, 5001]), -i64::from(libc::EINPROGRESS));
    world.until(0, client, |ready| ready.over);
    assert_eq!(world.ask(0, CallKind::Get, client, &[Setting::Error as u64]), i64::from(libc::ECONNREFUSED));
    let (client, server) = world.connection();
    assert_eq!(world.ask(0, CallKind::Receive, client, &[0, 10, 0]), EAGAIN);
    assert_eq!(world.ask(1, CallKind::Close, server, &[]), 0);
    world.until(0, client, |ready| ready.half);
    assert_eq!(world.ask(0, CallKind::Receive, client, &[0, 10, 0]), 0, "the end of the stream");
    assert_eq!(world.ask(1, CallKind::Close, server, &[]), -i64::from(libc::EBADF));
}

#[test]
fn a_node_talks_to_itself() {
    let mut world = World::new(|_| {});
    let server = world.ask(0, CallKind::Open, 0, &[2]);
    assert_eq!(world.ask(0, CallKind::Bind, server, &[0x7f00_0001, 7000]), 0);
    let client = world.ask(0, CallKind::Open, 0, &[2]);
    let mut memory = Buffer(vec![1; 10]);
    assert_eq!(world.call(0, CallKind::Send, client, &[0, 10, 0x7f00_0001, 7000], &mut memory).0, 10);
    let begin = world.now;
    let there = world.until(0, server, |ready| ready.readable);
    assert_eq!(there - begin, world.ip.receive, "software alone");
}

#[test]
fn a_port_has_one_socket_that_takes_new_peers() {
    let mut world = World::new(|_| {});
    let [first, second, third] = [0; 3].map(|_| world.ask(0, CallKind::Open, 0, &[2]));
    let in_use = -i64::from(libc::EADDRINUSE);
    assert_eq!(world.ask(0, CallKind::Bind, first, &[0, 7100]), 0);
    assert_eq!(world.ask(0, CallKind::Bind, second, &[0, 7100]), in_use);
    assert_eq!(world.ask(0, CallKind::Connect, first, &[u64::from(u32::from(address_of(1))), 9]), 0);
    assert_eq!(world.ask(0, CallKind::Bind, second, &[0, 7100]), 0);
    assert_eq!(world.ask(0, CallKind::Bind, third, &[0, 7100]), in_use);
    assert_eq!(world.ask(0, CallKind::Bind, third, &[u64::from(u32::from(address_of(1))), 7200]), -i64::from(libc::EADDRNOTAVAIL));
}
