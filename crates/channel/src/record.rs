//! Commands and notices as 64-bit words in the shared areas.
//!
//! A record is `[kind | bytes << 32] [time, ps] fields... payload`, padded to a word. Decoding
//! trusts nothing: every kind, length and enumeration is checked, and a wrong one is a
//! [`RecordError`], never a panic.
//!
//! ```
//! use narrows_channel::record::{Writer, decode_command, encode_command};
//! use narrows_portals::{Command, EqId};
//! let mut area = [0u8; 256];
//! let mut writer = Writer::new(&mut area, 0);
//! encode_command(&mut writer, 1_000, &Command::EqAlloc { eq: EqId(3), count: 64 }).unwrap();
//! let used = writer.used();
//! let (time, command, rest) = decode_command(&area[..used]).unwrap();
//! assert_eq!((time, command, rest), (1_000, Command::EqAlloc { eq: EqId(3), count: 64 }, used));
//! ```

mod commands;
mod deliveries;

pub use commands::{
    CALL_WORDS, Ended, Request, SOCKET_WORDS, decode_command, decode_request, encode_call, encode_command, encode_ended, encode_fact,
    encode_socket,
};
pub use deliveries::{Delivery, Push, decode_delivery, each_delivery, encode_notice, encode_push, encode_write};

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// The area ends inside the record.
    Short,
    /// No such kind of record.
    Kind(u32),
    /// A field holds a value that it cannot have.
    Field(&'static str),
    /// The record's length and its content disagree.
    Length,
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Short => f.write_str("a record ends after its area"),
            RecordError::Kind(kind) => write!(f, "there is no record of kind {kind}"),
            RecordError::Field(field) => write!(f, "the field `{field}` holds an impossible value"),
            RecordError::Length => f.write_str("a record's length does not fit its content"),
        }
    }
}

impl std::error::Error for RecordError {}

/// The area has no room for the record; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Appends records to an area.
#[derive(Debug)]
pub struct Writer<'a> {
    area: &'a mut [u8],
    used: usize,
    start: usize,
    overflow: bool,
}

impl<'a> Writer<'a> {
    /// Goes on after `used` bytes.
    pub fn new(area: &'a mut [u8], used: usize) -> Self {
        Writer { area, used, start: used, overflow: false }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }

    fn begin(&mut self, time: u64) {
        self.start = self.used;
        self.overflow = false;
        self.word(0);
        self.word(time);
    }

    fn word(&mut self, word: u64) {
        match self.area.get_mut(self.used..self.used + 8) {
            Some(slot) => slot.copy_from_slice(&word.to_le_bytes()),
            None => self.overflow = true,
        }
        self.used += 8;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.area.get_mut(self.used..self.used + bytes.len()) {
            Some(slot) => slot.copy_from_slice(bytes),
            None => self.overflow = true,
        }
        self.used += bytes.len().next_multiple_of(8);
    }

    fn end(&mut self, kind: u32) -> Result<(), Full> {
        if self.overflow || self.used > self.area.len() {
            self.used = self.start;
            return Err(Full);
        }
        let head = u64::from(kind) | (((self.used - self.start) as u64) << 32);
        self.area[self.start..self.start + 8].copy_from_slice(&head.to_le_bytes());
        Ok(())
    }
}

struct Reader<'a> {
    record: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The record at the start of `bytes`: its kind, its time, its content, and its length.
    fn begin(bytes: &'a [u8]) -> Result<(u32, u64, Reader<'a>, usize), RecordError> {
        let mut reader = Reader { record: bytes, at: 0 };
        let head = reader.word()?;
        let time = reader.word()?;
        let length = (head >> 32) as usize;
        if length < 16 || !length.is_multiple_of(8) {
            return Err(RecordError::Length);
        }
        reader.record = bytes.get(..length).ok_or(RecordError::Short)?;
        Ok((head as u32, time, reader, length))
    }

    fn word(&mut self) -> Result<u64, RecordError> {
        let bytes = self.record.get(self.at..self.at + 8).ok_or(RecordError::Short)?;
        self.at += 8;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    fn word32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        u32::try_from(self.word()?).map_err(|_| RecordError::Field(field))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], RecordError> {
        let length = usize::try_from(length).map_err(|_| RecordError::Length)?;
        let end = self.at.checked_add(length).ok_or(RecordError::Length)?;
        let bytes = self.record.get(self.at..end).ok_or(RecordError::Short)?;
        self.at = end.next_multiple_of(8);
        Ok(bytes)
    }

    fn end(&self) -> Result<(), RecordError> {
        if self.at == self.record.len() { Ok(()) } else { Err(RecordError::Length) }
    }
}

fn pair(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::deliveries::{event_kind, fail_type};
    use super::*;
    use narrows_portals::offload::{Allreduce, Plan, Step, Takes};
    use narrows_portals::{
        AckRequest, Atomic, AtomicOperation, Command, ContextPart, CtId, Datatype, EqId, Event, EventKind, FailType, List, LocalBuffer,
        Notice, Place, ProcessId, RemoteTarget,
    };
    use proptest::prelude::*;

    fn put(length: u64, inline: Option<Vec<u8>>) -> Command {
        Command::Put {
            local: LocalBuffer { address: 0x1000, options: 7, eq: EqId(1), user_ptr: 99, ..LocalBuffer::default() },
            length,
            inline: inline.map(Vec::into_boxed_slice),
            ack: AckRequest::Full,
            target: RemoteTarget { process: ProcessId { nid: 3, pid: 2 }, pt: 5, match_bits: 0xdead, offset: 12 },
            hdr_data: u64::MAX,
        }
    }

    #[test]
    fn a_full_area_refuses_and_stays_as_it_was() {
        let mut area = [0u8; 200];
        let mut writer = Writer::new(&mut area, 0);
        encode_command(&mut writer, 1, &put(0, None)).unwrap();
        let used = writer.used();
        assert_eq!(encode_command(&mut writer, 2, &put(64, Some(vec![1; 64]))), Err(Full));
        assert_eq!(writer.used(), used);
        assert_eq!(decode_command(&area[..used]).unwrap().1, put(0, None));
    }

    #[test]
    fn inline_bytes_must_be_as_many_as_the_length_says() {
        let mut area = [0u8; 512];
        let mut writer = Writer::new(&mut area, 0);
        encode_command(&mut writer, 1, &put(65, Some(vec![1; 64]))).unwrap();
        let used = writer.used();
        assert_eq!(decode_command(&area[..used]), Err(RecordError::Field("inline")));
    }

    fn event() -> Notice {
        let event = Event {
            kind: EventKind::Put,
            fail: FailType::Ok,
            list: List::Overflow,
            pt: 3,
            initiator: ProcessId { nid: 1, pid: 2 },
            start: 1,
            user_ptr: 2,
            hdr_data: 3,
            match_bits: 4,
            rlength: 5,
            mlength: 6,
            remote_offset: 7,
            atomic: None,
        };
        Notice::Event { eq: EqId(1), event }
    }

    #[test]
    fn a_list_that_does_not_exist_is_refused() {
        let mut area = [0u8; 256];
        let mut writer = Writer::new(&mut area, 0);
        encode_notice(&mut writer, 5, &event()).unwrap();
        assert_eq!(decode_delivery(&area).unwrap().1, Delivery::Notice(event()));
        // The fourth word: how it failed, and the list.
        area[24] = 2;
        assert_eq!(decode_delivery(&area), Err(RecordError::Field("list")));
    }

    #[test]
    fn a_call_that_is_over_is_read_back() {
        let mut area = [0u8; 72];
        let mut writer = Writer::new(&mut area, 0);
        let ended = Ended { call: 7, began: 3, waited: 2, peer: u64::MAX, tag: 9, site: 5 };
        encode_ended(&mut writer, 11, &ended).unwrap();
        let used = writer.used();
        assert_eq!(encode_ended(&mut writer, 12, &ended), Err(Full));
        assert_eq!(decode_request(&area), Ok((11, Request::Ended(ended), used)));
    }

    #[test]
    fn a_fact_is_read_back() {
        let mut area = [0u8; 64];
        for words in [&[][..], &[1, 2, 3], &[u64::MAX; 6]] {
            let mut writer = Writer::new(&mut area, 0);
            encode_fact(&mut writer, 11, words).unwrap();
            let used = writer.used();
            assert_eq!(decode_request(&area), Ok((11, Request::Fact(Box::from(words)), used)));
        }
        assert_eq!(encode_fact(&mut Writer::new(&mut area, 0), 11, &[0; 7]), Err(Full));
    }

    #[test]
    fn a_corrupt_record_is_not_the_end() {
        let mut area = [0u8; 1024];
        let mut writer = Writer::new(&mut area, 0);
        let mut ends = Vec::new();
        for time in 0..3 {
            encode_notice(&mut writer, time, &event()).unwrap();
            ends.push(writer.used());
        }
        let count = |bytes: &[u8]| {
            let mut times = Vec::new();
            (each_delivery(bytes, |time, _| times.push(time)), times.len())
        };
        assert_eq!(count(&area[..ends[2]]), (Ok(()), 3));
        assert_eq!(count(&area[..ends[2] - 8]), (Err(RecordError::Short), 2));
        area[ends[0]] = 99;
        assert_eq!(count(&area[..ends[2]]), (Err(RecordError::Kind(99)), 1));
    }

    proptest! {
        #[test]
        fn calls_survive_the_area(eq in any::<u32>(), words in any::<[u64; CALL_WORDS]>(), payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..300))) {
            let mut area = vec![0u8; 1024];
            let mut writer = Writer::new(&mut area, 0);
            encode_call(&mut writer, 77, EqId(eq), &words, payload.as_deref()).unwrap();
            let used = writer.used();
            let payload = payload.map(Vec::into_boxed_slice);
            prop_assert_eq!(decode_request(&area), Ok((77, Request::Call { eq: EqId(eq), words, payload }, used)));
            prop_assert!(decode_request(&area[..used - 8]).is_err());
        }

        #[test]
        fn puts_survive_the_area(payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), length in 0u64..1 << 40) {
            let length = payload.as_ref().map_or(length, |p| p.len() as u64);
            let command = put(length, payload);
            let mut area = vec![0u8; 1024];
            let mut writer = Writer::new(&mut area, 0);
            encode_command(&mut writer, 77, &command).unwrap();
            let used = writer.used();
            prop_assert_eq!(decode_command(&area), Ok((77, command, used)));
        }

        #[test]
        fn triggered_atomics_survive_the_area(
            payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
            fetched in any::<bool>(), segments in 0u32..3, threshold in any::<u64>(), operation in 0u32..18, datatype in 0u32..14,
        ) {
            let local = LocalBuffer { address: 1, offset: if segments > 0 { 9 } else { 0 }, segments, ..LocalBuffer::default() };
            let atomic = Atomic {
                local,
                fetched: fetched.then_some(LocalBuffer { user_ptr: 3, ..local }),
                length: payload.as_ref().map_or(5, |payload| payload.len() as u64),
                inline: payload.map(Vec::into_boxed_slice),
                ack: AckRequest::Counting,
                target: RemoteTarget { process: ProcessId { nid: 3, pid: 2 }, pt: 5, match_bits: 0xdead, offset: 12 },
                hdr_data: 7,
                operation: AtomicOperation::from_number(operation).unwrap(),
                datatype: Datatype::from_number(datatype).unwrap(),
                operand: [11; 32],
            };
            let command = Command::Triggered { interface: 2, trigger: CtId(4), threshold, command: Box::new(Command::Atomic(Box::new(atomic))) };
            let mut area = vec![0u8; 1024];
            let mut writer = Writer::new(&mut area, 0);
            encode_command(&mut writer, 77, &command).unwrap();
            let used = writer.used();
            prop_assert_eq!(decode_command(&area), Ok((77, command, used)));
        }

        #[test]
        fn contexts_survive_the_area(number: u8, rules: u64, layout in prop::collection::vec(any::<u64>(), 0..20), more: bool) {
            let command = Command::SetContext(Box::new(ContextPart { number, rules, layout: layout.into(), more }));
            let mut area = vec![0u8; 1024];
            let mut writer = Writer::new(&mut area, 0);
            encode_command(&mut writer, 77, &command).unwrap();
            let used = writer.used();
            prop_assert_eq!(decode_command(&area), Ok((77, command, used)));
            prop_assert!(decode_command(&area[..used - 8]).is_err());
        }

        #[test]
        fn allreduces_survive_the_area(
            clients in prop::collection::vec(any::<u32>(), 0..6), steps in prop::collection::vec((any::<u32>(), any::<bool>(), 0..3u8), 0..9),
            (group, sequence, source, target) in any::<(u64, u64, u64, u64)>(), (length, ticket) in any::<(u32, u32)>(),
        ) {
            let takes = |number| [Takes::Nothing, Takes::Combined, Takes::Result][usize::from(number)];
            let steps = steps.into_iter().map(|(peer, sends, number)| Step { peer, sends, takes: takes(number) }).collect();
            let allreduce = Allreduce {
                group,
                sequence,
                source: Place::at(source),
                target: Place::at(target),
                length,
                operation: AtomicOperation::Max,
                datatype: Datatype::Double,
                plan: Plan { clients, steps },
                ticket,
            };
            let command = Command::Allreduce(Box::new(allreduce));
            let mut area = vec![0u8; 1024];
            let mut writer = Writer::new(&mut area, 0);
            encode_command(&mut writer, 77, &command).unwrap();
            let used = writer.used();
            prop_assert_eq!(decode_command(&area), Ok((77, command, used)));
            prop_assert!(decode_command(&area[..used - 8]).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..28, (0u64..28, 0u64..30).prop_map(|(k, l)| k | (l * 8) << 32)], 0..30)) {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            if let Ok((_, _, used)) = decode_command(&bytes) {
                prop_assert!(used <= bytes.len() && used > 0);
            }
            if let Ok((_, _, used)) = decode_delivery(&bytes) {
                prop_assert!(used <= bytes.len() && used > 0);
            }
        }

        #[test]
        fn pushes_survive_the_area(to: u32, pid: u32, source: u64, destination: u64, length: u64) {
            let push = Push { to, pid, source, destination, length };
            let mut area = [0u8; 64];
            let mut writer = Writer::new(&mut area, 0);
            encode_push(&mut writer, 3, &push).unwrap();
            let used = writer.used();
            prop_assert_eq!(decode_delivery(&area), Ok((3, Delivery::Push(push), used)));
        }

        #[test]
        fn events_survive_the_area(kind in 0u32..16, fail in 0u32..8, words in prop::array::uniform7(any::<u64>()), eq in any::<u32>()) {
            let event = Event {
                kind: event_kind(kind).unwrap(), fail: fail_type(fail).unwrap(), list: List::Overflow, pt: 3,
                initiator: ProcessId { nid: 1, pid: 2 }, start: words[0], user_ptr: words[1], hdr_data: words[2], match_bits: words[3],
                rlength: words[4], mlength: words[5], remote_offset: words[6], atomic: Some((AtomicOperation::MaskedSwap, Datatype::Int8)),
            };
            let notice = Notice::Event { eq: EqId(eq), event };
            let mut area = vec![0u8; 256];
            let mut writer = Writer::new(&mut area, 0);
            encode_notice(&mut writer, 5, &notice).unwrap();
            prop_assert_eq!(decode_delivery(&area).unwrap().1, Delivery::Notice(notice));
        }
    }
}
