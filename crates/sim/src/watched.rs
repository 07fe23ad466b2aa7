//! What a timeline is told of messages.

use crate::station::Places;
use narrows_nic::About;
use narrows_portals::{Command, ProcessId, RemoteTarget};
use narrows_timeline::Departure;
use narrows_units::{Bytes, PortId};

/// Tells the requests of a process apart. Those that are alike are alike for who watches, too.
type Key = [u64; 4];

fn key(kind: u64, ProcessId { nid, pid }: ProcessId, match_bits: u64, length: u64) -> Key {
    [kind, u64::from(nid) << 32 | u64::from(pid), match_bits, length]
}

/// Of a command that makes a message at once.
pub(crate) fn key_of(command: &Command) -> Option<Key> {
    let of = |kind, target: &RemoteTarget, length| Some(key(kind, target.process, target.match_bits, length));
    match command {
        Command::Put { target, length, .. } => of(0, target, *length),
        Command::Forward(forward) => Some(key(0, forward.envelope.target, forward.envelope.match_bits, forward.length)),
        Command::Get { target, length, .. } => of(1, target, *length),
        Command::Atomic(atomic) => of(2, &atomic.target, atomic.length),
        _ => None,
    }
}

/// A message that the NIC at `port` gives to the network; `None`: it is one of the end-to-end layer's own.
pub(crate) fn departure(places: &Places, port: u32, to: u32, payload: Bytes, about: About) -> Option<Departure> {
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
