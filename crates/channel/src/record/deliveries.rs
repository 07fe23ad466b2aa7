//! What the simulator says to a rank.

use super::{Full, Reader, RecordError, Writer, pair};
use narrows_portals::{AtomicOperation, CtId, Datatype, EqId, Event, EventKind, FailType, List, Notice, ProcessId, ReplyCode};

const EVENT: u32 = 1;
const COUNT: u32 = 2;
const REPLY: u32 = 3;
const WRITE: u32 = 4;
const PUSH: u32 = 5;

/// A payload that a rank writes into the memory of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Push {
    /// The other rank.
    pub to: u32,
    /// Its process.
    pub pid: u32,
    /// Where the payload is in the rank's own memory.
    pub source: u64,
    /// Where it goes.
    pub destination: u64,
    /// Bytes.
    pub length: u64,
}

/// What a rank finds when it wakes.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery<'a> {
    /// The NIC reports.
    Notice(Notice),
    /// Bytes for the rank's memory; the rank writes them itself, before it looks at later records.
    Write {
        /// Where.
        address: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// The rank does this before its program can change the payload.
    Push(Push),
}

/// Appends a notice that is visible from `time` (ps) on.
pub fn encode_notice(writer: &mut Writer<'_>, time: u64, notice: &Notice) -> Result<(), Full> {
    writer.begin(time);
    let kind = match notice {
        Notice::Event { eq, event } => {
            writer.word(pair(eq.0, event.kind as u32));
            writer.word(pair(event.fail as u32, event.list as u32));
            let atomic = event.atomic.map_or(0, |(operation, datatype)| (operation as u32 + 1) << 8 | datatype as u32);
            writer.word(pair(atomic, event.pt));
            writer.word(pair(event.initiator.nid, event.initiator.pid));
            for word in [event.start, event.user_ptr, event.hdr_data, event.match_bits, event.rlength, event.mlength, event.remote_offset] {
                writer.word(word);
            }
            EVENT
        }
        Notice::Count { ct, success, failure, commands } => {
            writer.word(pair(*commands, ct.0));
            writer.word(*success);
            writer.word(*failure);
            COUNT
        }
        Notice::Reply { ticket, code, value } => {
            writer.word(pair(*ticket, *code as u32));
            writer.word(*value);
            REPLY
        }
        Notice::Foreign(_) => unreachable!("gateways are in the simulator"),
    };
    writer.end(kind)
}

/// Appends bytes for the rank's memory.
pub fn encode_write(writer: &mut Writer<'_>, time: u64, address: u64, bytes: &[u8]) -> Result<(), Full> {
    writer.begin(time);
    writer.word(address);
    writer.word(bytes.len() as u64);
    writer.bytes(bytes);
    writer.end(WRITE)
}

/// Appends a push.
pub fn encode_push(writer: &mut Writer<'_>, time: u64, push: &Push) -> Result<(), Full> {
    writer.begin(time);
    writer.word(pair(push.to, push.pid));
    writer.word(push.source);
    writer.word(push.destination);
    writer.word(push.length);
    writer.end(PUSH)
}

/// Reads the record at the start of `bytes`: the time from which on it is visible (ps), what it
/// is, and the bytes it took.
pub fn decode_delivery(bytes: &[u8]) -> Result<(u64, Delivery<'_>, usize), RecordError> {
    let (kind, time, mut reader, length) = Reader::begin(bytes)?;
    let reader = &mut reader;
    let delivery = match kind {
        EVENT => {
            let word = reader.word()?;
            let fail_list = reader.word()?;
            let pt = reader.word()?;
            let id = reader.word()?;
            Delivery::Notice(Notice::Event {
                eq: EqId((word >> 32) as u32),
                event: Event {
                    kind: event_kind(word as u32)?,
                    fail: fail_type((fail_list >> 32) as u32)?,
                    list: list_of(fail_list as u32)?,
                    pt: pt as u32,
                    initiator: ProcessId { nid: (id >> 32) as u32, pid: id as u32 },
                    start: reader.word()?,
                    user_ptr: reader.word()?,
                    hdr_data: reader.word()?,
                    match_bits: reader.word()?,
                    rlength: reader.word()?,
                    mlength: reader.word()?,
                    remote_offset: reader.word()?,
                    atomic: atomic_of((pt >> 32) as u32)?,
                },
            })
        }
        COUNT => {
            let word = reader.word()?;
            let (ct, commands) = (CtId(word as u32), (word >> 32) as u32);
            Delivery::Notice(Notice::Count { ct, success: reader.word()?, failure: reader.word()?, commands })
        }
        REPLY => {
            let word = reader.word()?;
            let code = match word as u32 {
                0 => ReplyCode::Ok,
                1 => ReplyCode::InUse,
                2 => ReplyCode::Unknown,
                _ => return Err(RecordError::Field("code")),
            };
            Delivery::Notice(Notice::Reply { ticket: (word >> 32) as u32, code, value: reader.word()? })
        }
        WRITE => {
            let address = reader.word()?;
            let count = reader.word()?;
            Delivery::Write { address, bytes: reader.bytes(count)? }
        }
        PUSH => {
            let word = reader.word()?;
            Delivery::Push(Push {
                to: (word >> 32) as u32,
                pid: word as u32,
                source: reader.word()?,
                destination: reader.word()?,
                length: reader.word()?,
            })
        }
        other => return Err(RecordError::Kind(other)),
    };
    reader.end()?;
    Ok((time, delivery, length))
}

/// All records of `bytes`, in order, each with its time.
///
/// # Errors
/// The first of them that is none; those before it have been given to `take`.
pub fn each_delivery(bytes: &[u8], mut take: impl FnMut(u64, Delivery<'_>)) -> Result<(), RecordError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (time, delivery, length) = decode_delivery(rest)?;
        take(time, delivery);
        rest = &rest[length..];
    }
    Ok(())
}

pub(super) fn list_of(value: u32) -> Result<List, RecordError> {
    match value {
        0 => Ok(List::Priority),
        1 => Ok(List::Overflow),
        _ => Err(RecordError::Field("list")),
    }
}

fn atomic_of(value: u32) -> Result<Option<(AtomicOperation, Datatype)>, RecordError> {
    if value == 0 {
        return Ok(None);
    }
    let operation = (value >> 8).checked_sub(1).and_then(AtomicOperation::from_number).ok_or(RecordError::Field("operation"))?;
    Ok(Some((operation, Datatype::from_number(value & 0xff).ok_or(RecordError::Field("datatype"))?)))
}

pub(super) fn event_kind(value: u32) -> Result<EventKind, RecordError> {
    use EventKind::*;
    const KINDS: [EventKind; 16] = [
        Get,
        GetOverflow,
        Put,
        PutOverflow,
        Atomic,
        AtomicOverflow,
        FetchAtomic,
        FetchAtomicOverflow,
        Reply,
        Send,
        Ack,
        PtDisabled,
        AutoUnlink,
        AutoFree,
        Search,
        Link,
    ];
    KINDS.get(value as usize).copied().ok_or(RecordError::Field("kind"))
}

pub(super) fn fail_type(value: u32) -> Result<FailType, RecordError> {
    FailType::from_number(value).ok_or(RecordError::Field("fail"))
}
