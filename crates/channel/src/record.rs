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

use narrows_portals::offload::{Allreduce, Plan, Step, Takes};
use narrows_portals::{
    AckRequest, Atomic, AtomicOperation, Command, CtId, Datatype, EntryId, EqId, Event, EventKind, FailType, Limits, List, LocalBuffer,
    MatchEntry, Notice, Place, ProcessId, Register, RemoteTarget, ReplyCode, SearchOperation,
};

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

fn put_entry(writer: &mut Writer<'_>, me: &MatchEntry) {
    writer.word(me.start);
    writer.word(me.length);
    writer.word(pair(me.ct.0, me.options));
    writer.word(pair(me.segments, me.uid));
    writer.word(pair(me.match_id.nid, me.match_id.pid));
    writer.word(me.match_bits);
    writer.word(me.ignore_bits);
    writer.word(me.min_free);
    writer.word(me.user_ptr);
}

fn get_entry(reader: &mut Reader<'_>) -> Result<MatchEntry, RecordError> {
    let start = reader.word()?;
    let length = reader.word()?;
    let ct_options = reader.word()?;
    let segments_uid = reader.word()?;
    let id = reader.word()?;
    Ok(MatchEntry {
        start,
        length,
        segments: (segments_uid >> 32) as u32,
        uid: segments_uid as u32,
        ct: CtId((ct_options >> 32) as u32),
        options: ct_options as u32,
        match_id: ProcessId { nid: (id >> 32) as u32, pid: id as u32 },
        match_bits: reader.word()?,
        ignore_bits: reader.word()?,
        min_free: reader.word()?,
        user_ptr: reader.word()?,
    })
}

fn put_local(writer: &mut Writer<'_>, local: &LocalBuffer) {
    writer.word(local.address);
    writer.word(pair(local.segments, local.options));
    if local.segments > 0 {
        writer.word(local.offset);
    }
    writer.word(pair(local.eq.0, local.ct.0));
    writer.word(local.user_ptr);
}

fn get_local(reader: &mut Reader<'_>) -> Result<LocalBuffer, RecordError> {
    let address = reader.word()?;
    let word = reader.word()?;
    let (segments, options) = ((word >> 32) as u32, word as u32);
    let offset = if segments > 0 { reader.word()? } else { 0 };
    let queues = reader.word()?;
    let (eq, ct) = (EqId((queues >> 32) as u32), CtId(queues as u32));
    Ok(LocalBuffer { address, offset, segments, options, eq, ct, user_ptr: reader.word()? })
}

fn put_target(writer: &mut Writer<'_>, target: &RemoteTarget) {
    writer.word(pair(target.process.nid, target.process.pid));
    writer.word(u64::from(target.pt));
    writer.word(target.match_bits);
    writer.word(target.offset);
}

fn get_target(reader: &mut Reader<'_>) -> Result<RemoteTarget, RecordError> {
    let id = reader.word()?;
    Ok(RemoteTarget {
        process: ProcessId { nid: (id >> 32) as u32, pid: id as u32 },
        pt: reader.word32("pt")?,
        match_bits: reader.word()?,
        offset: reader.word()?,
    })
}

const PT_ALLOC: u32 = 1;
const PT_FREE: u32 = 2;
const PT_ENABLE: u32 = 3;
const PT_DISABLE: u32 = 4;
const EQ_ALLOC: u32 = 5;
const EQ_FREE: u32 = 6;
const CT_ALLOC: u32 = 7;
const CT_FREE: u32 = 8;
const CT_SET: u32 = 9;
const CT_INCREMENT: u32 = 10;
const ME_APPEND: u32 = 11;
const ME_UNLINK: u32 = 12;
const ME_SEARCH: u32 = 13;
const PUT: u32 = 14;
const GET: u32 = 15;
const EQ_RELEASE: u32 = 16;
const CT_CANCEL: u32 = 17;
const TRIGGERED: u32 = 18;
const QUERY: u32 = 19;
const ATOMIC: u32 = 20;
const SET_LIMITS: u32 = 21;
const CALL: u32 = 22;
const ENDED: u32 = 23;
const FACT: u32 = 24;
const ALLREDUCE: u32 = 25;

/// Words of a call of the message layer.
pub const CALL_WORDS: usize = 10;

/// What a rank asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Of its NIC.
    Command(Command),
    /// Of an endpoint of the message layer.
    Call {
        /// The endpoint's event queue.
        eq: EqId,
        /// The message layer knows what they mean.
        words: [u64; CALL_WORDS],
        /// The data, if their buffer is free at once.
        payload: Option<Box<[u8]>>,
    },
    /// Nothing: an MPI call is over, for a timeline.
    Ended(Ended),
    /// Nothing: what a check wants to know of an MPI call. What the words mean, `narrows-facts` says.
    Fact(Box<[u64]>),
}

/// An MPI call that is over; the time of its record is when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// MPI function: index into the table of calls.
    pub call: u32,
    /// When it began, ps.
    pub began: u64,
    /// How much of it the rank waited, ps.
    pub waited: u64,
    /// As in [`crate::RankHeader::peer`].
    pub peer: u64,
    /// As in [`crate::RankHeader::tag`].
    pub tag: u64,
}

fn kind_of(command: &Command) -> u32 {
    match command {
        Command::PtAlloc { .. } => PT_ALLOC,
        Command::PtFree { .. } => PT_FREE,
        Command::PtEnable { .. } => PT_ENABLE,
        Command::PtDisable { .. } => PT_DISABLE,
        Command::EqAlloc { .. } => EQ_ALLOC,
        Command::EqFree { .. } => EQ_FREE,
        Command::EqRelease { .. } => EQ_RELEASE,
        Command::CtAlloc { .. } => CT_ALLOC,
        Command::CtFree { .. } => CT_FREE,
        Command::CtSet { .. } => CT_SET,
        Command::CtIncrement { .. } => CT_INCREMENT,
        Command::CtCancel { .. } => CT_CANCEL,
        Command::Triggered { .. } => TRIGGERED,
        Command::Query { .. } => QUERY,
        Command::SetLimits { .. } => SET_LIMITS,
        Command::MeAppend { .. } => ME_APPEND,
        Command::MeUnlink { .. } => ME_UNLINK,
        Command::MeSearch { .. } => ME_SEARCH,
        Command::Put { .. } => PUT,
        Command::Get { .. } => GET,
        Command::Atomic(_) => ATOMIC,
        Command::Allreduce(_) => ALLREDUCE,
    }
}

fn put_inline(writer: &mut Writer<'_>, inline: Option<&[u8]>) {
    if let Some(payload) = inline {
        writer.word(payload.len() as u64);
        writer.bytes(payload);
    }
}

fn get_inline(reader: &mut Reader<'_>, present: u64, length: u64) -> Result<Option<Box<[u8]>>, RecordError> {
    match present {
        0 => Ok(None),
        1 => {
            let bytes = reader.word()?;
            if bytes != length {
                return Err(RecordError::Field("inline"));
            }
            Ok(Some(Box::from(reader.bytes(bytes)?)))
        }
        _ => Err(RecordError::Field("inline")),
    }
}

fn ack_request(value: u32) -> Result<AckRequest, RecordError> {
    match value {
        0 => Ok(AckRequest::None),
        1 => Ok(AckRequest::Full),
        2 => Ok(AckRequest::Counting),
        3 => Ok(AckRequest::OperationCompleted),
        _ => Err(RecordError::Field("ack")),
    }
}

/// Appends a call of the message layer, made at `time` (ps).
pub fn encode_call(writer: &mut Writer<'_>, time: u64, eq: EqId, words: &[u64; CALL_WORDS], payload: Option<&[u8]>) -> Result<(), Full> {
    writer.begin(time);
    writer.word(pair(eq.0, u32::from(payload.is_some())));
    words.iter().for_each(|&word| writer.word(word));
    put_inline(writer, payload);
    writer.end(CALL)
}

/// Appends an MPI call that was over at `time` (ps).
pub fn encode_ended(writer: &mut Writer<'_>, time: u64, ended: &Ended) -> Result<(), Full> {
    writer.begin(time);
    let Ended { call, began, waited, peer, tag } = *ended;
    [u64::from(call), began, waited, peer, tag].into_iter().for_each(|word| writer.word(word));
    writer.end(ENDED)
}

/// Appends what a check wants to know, at `time` (ps).
pub fn encode_fact(writer: &mut Writer<'_>, time: u64, words: &[u64]) -> Result<(), Full> {
    writer.begin(time);
    words.iter().for_each(|&word| writer.word(word));
    writer.end(FACT)
}

/// Reads the request at the start of `bytes`: its time (ps), what it is, and the bytes it took.
pub fn decode_request(bytes: &[u8]) -> Result<(u64, Request, usize), RecordError> {
    let (kind, time, mut reader, length) = Reader::begin(bytes)?;
    if kind == ENDED {
        let ended = Ended {
            call: reader.word32("call")?,
            began: reader.word()?,
            waited: reader.word()?,
            peer: reader.word()?,
            tag: reader.word()?,
        };
        reader.end()?;
        return Ok((time, Request::Ended(ended), length));
    }
    if kind == FACT {
        let words = (0..(length - 16) / 8).map(|_| reader.word()).collect::<Result<_, _>>()?;
        reader.end()?;
        return Ok((time, Request::Fact(words), length));
    }
    if kind != CALL {
        let (time, command, length) = decode_command(bytes)?;
        return Ok((time, Request::Command(command), length));
    }
    let head = reader.word()?;
    let mut words = [0; CALL_WORDS];
    for word in &mut words {
        *word = reader.word()?;
    }
    let payload = match head as u32 {
        0 => None,
        1 => {
            let bytes = reader.word()?;
            Some(Box::from(reader.bytes(bytes)?))
        }
        _ => return Err(RecordError::Field("payload")),
    };
    reader.end()?;
    Ok((time, Request::Call { eq: EqId((head >> 32) as u32), words, payload }, length))
}

/// Appends `command`, written by its process at `time` (ps).
pub fn encode_command(writer: &mut Writer<'_>, time: u64, command: &Command) -> Result<(), Full> {
    writer.begin(time);
    put_command(writer, command);
    writer.end(kind_of(command))
}

fn put_command(writer: &mut Writer<'_>, command: &Command) {
    match command {
        Command::PtAlloc { pt, options, eq } => {
            writer.word(pair(*pt, *options));
            writer.word(u64::from(eq.0));
        }
        Command::PtFree { pt, ticket } | Command::PtDisable { pt, ticket } => writer.word(pair(*pt, *ticket)),
        Command::PtEnable { pt } => writer.word(u64::from(*pt)),
        Command::EqAlloc { eq, count } | Command::EqRelease { eq, count } => writer.word(pair(eq.0, *count)),
        Command::EqFree { eq } => writer.word(u64::from(eq.0)),
        Command::CtAlloc { ct } | Command::CtFree { ct } | Command::CtCancel { ct } => writer.word(u64::from(ct.0)),
        Command::CtSet { ct, success, failure } | Command::CtIncrement { ct, success, failure } => {
            writer.word(u64::from(ct.0));
            writer.word(*success);
            writer.word(*failure);
        }
        Command::Triggered { interface, trigger, threshold, command } => {
            writer.word(pair(trigger.0, kind_of(command)));
            writer.word(u64::from(*interface));
            writer.word(*threshold);
            put_command(writer, command);
        }
        Command::Query { register, of, ticket } => {
            writer.word(pair(*register as u32, *of));
            writer.word(u64::from(*ticket));
        }
        Command::SetLimits { interface, limits } => {
            writer.word(pair(*interface, limits.entries));
            writer.word(pair(limits.unexpected_headers, limits.list_size));
        }
        Command::MeAppend { entry, pt, list, me } => {
            writer.word(entry.0);
            writer.word(pair(*pt, *list as u32));
            put_entry(writer, me);
        }
        Command::MeUnlink { entry, ticket } => {
            writer.word(entry.0);
            writer.word(u64::from(*ticket));
        }
        Command::MeSearch { pt, operation, me } => {
            writer.word(pair(*pt, *operation as u32));
            put_entry(writer, me);
        }
        Command::Put { local, length, inline, ack, target, hdr_data } => {
            put_local(writer, local);
            writer.word(*length);
            writer.word(pair(u32::from(inline.is_some()), *ack as u32));
            put_target(writer, target);
            writer.word(*hdr_data);
            put_inline(writer, inline.as_deref());
        }
        Command::Get { local, length, target } => {
            put_local(writer, local);
            writer.word(*length);
            put_target(writer, target);
        }
        Command::Atomic(atomic) => {
            put_local(writer, &atomic.local);
            writer.word(u64::from(atomic.fetched.is_some()));
            if let Some(fetched) = &atomic.fetched {
                put_local(writer, fetched);
            }
            writer.word(atomic.length);
            writer.word(pair(u32::from(atomic.inline.is_some()), atomic.ack as u32));
            put_target(writer, &atomic.target);
            writer.word(atomic.hdr_data);
            writer.word(pair(atomic.operation as u32, atomic.datatype as u32));
            writer.bytes(&atomic.operand);
            put_inline(writer, atomic.inline.as_deref());
        }
        Command::Allreduce(allreduce) => {
            // Both places are in one piece: MPI's buffers.
            let Allreduce { group, sequence, source, target, length, operation, datatype, ref plan, ticket } = **allreduce;
            [group, sequence, source.address, target.address].into_iter().for_each(|word| writer.word(word));
            writer.word(pair(length, ticket));
            writer.word(pair(operation as u32, datatype as u32));
            writer.word(pair(plan.clients.len() as u32, plan.steps.len() as u32));
            plan.clients.iter().for_each(|&client| writer.word(u64::from(client)));
            plan.steps.iter().for_each(|step| writer.word(pair(step.peer, u32::from(step.sends) << 2 | step.takes as u32)));
        }
    }
}

/// Reads the command at the start of `bytes`: the time it was written (ps), the command, and
/// the bytes it took.
pub fn decode_command(bytes: &[u8]) -> Result<(u64, Command, usize), RecordError> {
    let (kind, time, mut reader, length) = Reader::begin(bytes)?;
    let command = get_command(kind, &mut reader)?;
    reader.end()?;
    Ok((time, command, length))
}

fn get_command(kind: u32, reader: &mut Reader<'_>) -> Result<Command, RecordError> {
    Ok(match kind {
        PT_ALLOC => {
            let word = reader.word()?;
            Command::PtAlloc { pt: (word >> 32) as u32, options: word as u32, eq: EqId(reader.word32("eq")?) }
        }
        PT_FREE => {
            let word = reader.word()?;
            Command::PtFree { pt: (word >> 32) as u32, ticket: word as u32 }
        }
        PT_ENABLE => Command::PtEnable { pt: reader.word32("pt")? },
        PT_DISABLE => {
            let word = reader.word()?;
            Command::PtDisable { pt: (word >> 32) as u32, ticket: word as u32 }
        }
        EQ_ALLOC => {
            let word = reader.word()?;
            Command::EqAlloc { eq: EqId((word >> 32) as u32), count: word as u32 }
        }
        EQ_RELEASE => {
            let word = reader.word()?;
            Command::EqRelease { eq: EqId((word >> 32) as u32), count: word as u32 }
        }
        EQ_FREE => Command::EqFree { eq: EqId(reader.word32("eq")?) },
        CT_ALLOC => Command::CtAlloc { ct: CtId(reader.word32("ct")?) },
        CT_FREE => Command::CtFree { ct: CtId(reader.word32("ct")?) },
        CT_CANCEL => Command::CtCancel { ct: CtId(reader.word32("ct")?) },
        CT_SET => Command::CtSet { ct: CtId(reader.word32("ct")?), success: reader.word()?, failure: reader.word()? },
        CT_INCREMENT => Command::CtIncrement { ct: CtId(reader.word32("ct")?), success: reader.word()?, failure: reader.word()? },
        TRIGGERED => {
            let word = reader.word()?;
            let (trigger, kind) = (CtId((word >> 32) as u32), word as u32);
            let (interface, threshold) = (reader.word32("interface")?, reader.word()?);
            if kind == TRIGGERED {
                return Err(RecordError::Field("triggered"));
            }
            Command::Triggered { interface, trigger, threshold, command: Box::new(get_command(kind, reader)?) }
        }
        QUERY => {
            let word = reader.word()?;
            let register = match (word >> 32) as u32 {
                0 => Register::DropCount,
                1 => Register::PermissionViolations,
                2 => Register::OperationViolations,
                3 => Register::Entries,
                4 => Register::TriggeredOperations,
                5 => Register::PriorityEntries,
                6 => Register::OverflowEntries,
                _ => return Err(RecordError::Field("register")),
            };
            Command::Query { register, of: word as u32, ticket: reader.word32("ticket")? }
        }
        SET_LIMITS => {
            let (first, second) = (reader.word()?, reader.word()?);
            let limits = Limits { entries: first as u32, unexpected_headers: (second >> 32) as u32, list_size: second as u32 };
            Command::SetLimits { interface: (first >> 32) as u32, limits }
        }
        ME_APPEND => {
            let entry = EntryId(reader.word()?);
            let word = reader.word()?;
            Command::MeAppend { entry, pt: (word >> 32) as u32, list: list_of(word as u32)?, me: get_entry(reader)? }
        }
        ME_UNLINK => Command::MeUnlink { entry: EntryId(reader.word()?), ticket: reader.word32("ticket")? },
        ME_SEARCH => {
            let word = reader.word()?;
            let operation = match word as u32 {
                0 => SearchOperation::Only,
                1 => SearchOperation::Delete,
                _ => return Err(RecordError::Field("operation")),
            };
            Command::MeSearch { pt: (word >> 32) as u32, operation, me: get_entry(reader)? }
        }
        PUT => {
            let local = get_local(reader)?;
            let length = reader.word()?;
            let word = reader.word()?;
            let ack = ack_request(word as u32)?;
            let target = get_target(reader)?;
            let hdr_data = reader.word()?;
            let inline = get_inline(reader, word >> 32, length)?;
            Command::Put { local, length, inline, ack, target, hdr_data }
        }
        GET => {
            let local = get_local(reader)?;
            let length = reader.word()?;
            Command::Get { local, length, target: get_target(reader)? }
        }
        ATOMIC => {
            let local = get_local(reader)?;
            let fetched = match reader.word()? {
                0 => None,
                1 => Some(get_local(reader)?),
                _ => return Err(RecordError::Field("fetched")),
            };
            let length = reader.word()?;
            let word = reader.word()?;
            let ack = ack_request(word as u32)?;
            let target = get_target(reader)?;
            let hdr_data = reader.word()?;
            let what = reader.word()?;
            let operation = AtomicOperation::from_number((what >> 32) as u32).ok_or(RecordError::Field("operation"))?;
            let datatype = Datatype::from_number(what as u32).ok_or(RecordError::Field("datatype"))?;
            let mut operand = [0; 32];
            operand.copy_from_slice(reader.bytes(32)?);
            let inline = get_inline(reader, word >> 32, length)?;
            let atomic = Atomic { local, fetched, length, inline, ack, target, hdr_data, operation, datatype, operand };
            Command::Atomic(Box::new(atomic))
        }
        ALLREDUCE => {
            let (group, sequence) = (reader.word()?, reader.word()?);
            let (source, target) = (Place::at(reader.word()?), Place::at(reader.word()?));
            let (length, what, counts) = (reader.word()?, reader.word()?, reader.word()?);
            let operation = AtomicOperation::from_number((what >> 32) as u32).ok_or(RecordError::Field("operation"))?;
            let datatype = Datatype::from_number(what as u32).ok_or(RecordError::Field("datatype"))?;
            let (mut clients, mut steps) = (Vec::new(), Vec::new());
            for _ in 0..counts >> 32 {
                clients.push(reader.word32("client")?);
            }
            for _ in 0..counts as u32 {
                let word = reader.word()?;
                let takes = match word & 3 {
                    0 => Takes::Nothing,
                    1 => Takes::Combined,
                    2 => Takes::Result,
                    _ => return Err(RecordError::Field("step")),
                };
                steps.push(Step { peer: (word >> 32) as u32, sends: word & 4 != 0, takes });
            }
            let (length, ticket, plan) = ((length >> 32) as u32, length as u32, Plan { clients, steps });
            Command::Allreduce(Box::new(Allreduce { group, sequence, source, target, length, operation, datatype, plan, ticket }))
        }
        other => return Err(RecordError::Kind(other)),
    })
}

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

fn list_of(value: u32) -> Result<List, RecordError> {
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

fn event_kind(value: u32) -> Result<EventKind, RecordError> {
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

fn fail_type(value: u32) -> Result<FailType, RecordError> {
    FailType::from_number(value).ok_or(RecordError::Field("fail"))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut area = [0u8; 64];
        let mut writer = Writer::new(&mut area, 0);
        let ended = Ended { call: 7, began: 3, waited: 2, peer: u64::MAX, tag: 9 };
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
        fn any_bytes_are_decoded_or_refused(words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..26, (0u64..26, 0u64..30).prop_map(|(k, l)| k | (l * 8) << 32)], 0..30)) {
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
