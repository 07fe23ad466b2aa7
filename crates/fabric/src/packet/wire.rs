//! Packets and notes as bytes, for regions in other processes.

use super::region::Note;
use super::state::Packet;
use crate::telemetry::Carried;
use narrows_engine::{Reader, Wire, WireError};
use narrows_topology::RouteState;

impl Wire for Packet {
    fn put(&self, out: &mut Vec<u8>) {
        let Packet { ready, started, injected, meta, id, source, target, wire, input, next, route } = *self;
        let RouteState { word, channel, phase, carried } = route;
        (ready, started, injected, meta).put(out);
        (id, source, target, wire).put(out);
        (input, next, word).put(out);
        (channel, phase, carried).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (ready, started, injected, meta) = Wire::get(from)?;
        let (id, source, target, wire) = Wire::get(from)?;
        let (input, next, word) = Wire::get(from)?;
        let (channel, phase, carried) = Wire::get(from)?;
        let route = RouteState { word, channel, phase, carried };
        Ok(Packet { ready, started, injected, meta, id, source, target, wire, input, next, route })
    }
}

impl Wire for Note {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Note::Credit { output, lane, at, bytes } => {
                0u8.put(out);
                (*output, *lane, *at, *bytes).put(out);
            }
            Note::Pause { output, at, frame } => {
                1u8.put(out);
                (*output, *at, *frame).put(out);
            }
            Note::Lost { link, at, packet } => {
                2u8.put(out);
                (*link, *at).put(out);
                packet.put(out);
            }
            Note::Carried { input, at, ready, carried } => {
                3u8.put(out);
                (*input, *at, *ready).put(out);
                carried.put(out);
            }
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Wire::get(from).map(|(output, lane, at, bytes)| Note::Credit { output, lane, at, bytes }),
            1 => Wire::get(from).map(|(output, at, frame)| Note::Pause { output, at, frame }),
            2 => {
                let (link, at) = Wire::get(from)?;
                Ok(Note::Lost { link, at, packet: Box::new(Packet::get(from)?) })
            }
            3 => {
                let (input, at, ready) = Wire::get(from)?;
                Ok(Note::Carried { input, at, ready, carried: Box::new(Carried::get(from)?) })
            }
            _ => Err(WireError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Hop, Shares, Telemetry};
    use narrows_units::{ByteRate, Bytes, SimTime};
    use proptest::prelude::*;

    prop_compose! {
        fn packet()(times in any::<(u64, u64, u64, u64)>(), numbers in any::<(u32, u32, u32, u32, u32, u32)>(), route in any::<(u32, u8, u8, u16)>()) -> Packet {
            let (ready, started, injected, meta) = times;
            let (id, source, target, wire, input, next) = numbers;
            let (word, channel, phase, carried) = route;
            Packet { ready, started, injected, meta, id, source, target, wire, input, next, route: RouteState { word, channel, phase, carried } }
        }
    }

    fn carried() -> impl Strategy<Value = Carried> {
        let hop = |(link, sent, now): (u32, u64, u64)| (link, Hop::new(Bytes(sent), sent, SimTime(now), ByteRate(now)));
        prop_oneof![
            Just(Carried::Nothing),
            prop::collection::vec(any::<(u32, u64, u64)>(), 0..10).prop_map(move |hops| {
                let mut telemetry = Telemetry::default();
                hops.into_iter().map(hop).for_each(|(link, hop)| telemetry.push(link, hop));
                Carried::Telemetry(telemetry)
            }),
            prop::collection::vec(any::<(u32, u64)>(), 0..10).prop_map(|links| {
                let mut shares = Shares::default();
                for (link, granted) in links {
                    if let Some((place, _)) = shares.of(link) {
                        shares.link(place).granted = granted;
                    }
                }
                Carried::Shares(shares)
            }),
        ]
    }

    fn note() -> impl Strategy<Value = Note> {
        prop_oneof![
            any::<(u32, u32, u64, u32)>().prop_map(|(output, lane, at, bytes)| Note::Credit { output, lane, at, bytes }),
            any::<(u32, u64, u32)>().prop_map(|(output, at, frame)| Note::Pause { output, at, frame }),
            (any::<(u32, u64)>(), packet()).prop_map(|((link, at), packet)| Note::Lost { link, at, packet: Box::new(packet) }),
            (any::<(u32, u64, u64)>(), carried()).prop_map(|((input, at, ready), carried)| Note::Carried {
                input,
                at,
                ready,
                carried: Box::new(carried)
            }),
        ]
    }

    proptest! {
        #[test]
        fn packets_and_notes_keep_all_that_they_have(
            packets in prop::collection::vec(packet(), 0..3), notes in prop::collection::vec(note(), 0..5), cut: prop::sample::Index
        ) {
            let mut bytes = Vec::new();
            packets.put(&mut bytes);
            notes.put(&mut bytes);
            let (packets_too, notes_too) = Reader::new(&bytes).last::<(Vec<Packet>, Vec<Note>)>().unwrap();
            prop_assert_eq!(format!("{packets_too:?} {notes_too:?}"), format!("{packets:?} {notes:?}"));
            prop_assert!(Reader::new(&bytes[..cut.index(bytes.len())]).last::<(Vec<Packet>, Vec<Note>)>().is_err());
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Reader::new(&bytes).last::<Vec<Note>>();
        }
    }
}
