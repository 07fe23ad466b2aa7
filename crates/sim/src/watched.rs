//! What a timeline is told of messages.

use crate::inbound::Label;
use crate::station::{Name, PortPlaces};
use crate::wrapper::{Around, Wrapper, WrapperId};
use narrows_nic::{About, Kinds};
use narrows_portals::{Command, ProcessId, RemoteTarget};
use narrows_timeline::{Departure, Timeline};
use narrows_units::{Bytes, PortId, SimTime};

/// A timeline that wants to know when messages go and come.
pub(crate) struct Watched(pub(crate) Timeline);

impl<L: 'static, N: Kinds> Wrapper<L, N> for Watched {
    fn id(&self) -> WrapperId {
        WrapperId::Watched
    }

    fn begin(&mut self, epoch: SimTime) {
        self.0.begin(epoch);
    }

    fn end(&mut self) -> bool {
        true
    }

    fn command(&mut self, written: SimTime, rank: u32, command: &Command) {
        if let Some(key) = key_of(command) {
            self.0.posts(written, rank, key);
        }
    }

    fn departs(&mut self, now: SimTime, label: &Label<N::Header>, payload: Bytes, places: &PortPlaces) {
        if let Some(departure) = departure(places, label, payload, N::about(&label.header)) {
            self.0.departs(now, label.number, departure);
        }
    }

    fn source_done(&mut self, (port, number): Name, around: &mut Around<'_, '_, L, N>) -> Option<Name> {
        self.0.sent(around.fabric.now(), port, number);
        Some((port, number))
    }

    fn wants_heads(&self) -> bool {
        true
    }

    fn head_noticed(&mut self, now: SimTime, (port, number): Name) {
        self.0.head(now, port, number);
    }

    fn tail_noticed(&mut self, now: SimTime, (port, number): Name) {
        self.0.tail(now, port, number);
    }
}

/// Tells the requests of a process apart. Those that are alike are alike for who watches, too.
type Key = [u64; 4];

fn key(kind: u64, ProcessId { nid, pid }: ProcessId, match_bits: u64, length: u64) -> Key {
    [kind, u64::from(nid) << 32 | u64::from(pid), match_bits, length]
}

/// Of a command that makes a message at once.
fn key_of(command: &Command) -> Option<Key> {
    let of = |kind, target: &RemoteTarget, length| Some(key(kind, target.process, target.match_bits, length));
    match command {
        Command::Put { target, length, .. } => of(0, target, *length),
        Command::Forward(forward) => Some(key(0, forward.envelope.target, forward.envelope.match_bits, forward.length)),
        Command::Get { target, length, .. } => of(1, target, *length),
        Command::Atomic(atomic) => of(2, &atomic.target, atomic.length),
        _ => None,
    }
}

/// A message that a NIC gives to the network; `None`: it is one of the end-to-end layer's own.
fn departure<H>(places: &PortPlaces, label: &Label<H>, payload: Bytes, about: About) -> Option<Departure> {
    let &Label { source: port, target: to, .. } = label;
    let node = |port| places.directory.of_port(PortId(port)).0.0;
    let common =
        Departure { from_port: port, to_port: to, from_node: node(port), to_node: node(to), bytes: payload.get(), ..Departure::default() };
    let rank = |place| places.directory.process_at(place).map_or(u32::MAX, |process| process.0);
    match about {
        About::Request { name, serial, initiator, target, match_bits, length } => {
            let kind = match name {
                "put" => 0,
                "get" => 1,
                _ => 2,
            };
            let key = key(kind, target, match_bits, length);
            Some(Departure { kind: name, request: Some(serial), from_rank: rank(initiator), to_rank: rank(target), key, ..common })
        }
        About::Answer { name, serial } => Some(Departure { kind: name, answers: serial, ..common }),
        About::Received => None,
    }
}
