//! What a rank says to the simulator.

use super::deliveries::list_of;
use super::{Full, Reader, RecordError, Writer, pair};
use narrows_portals::offload::{Allreduce, Plan, Step, Takes};
use narrows_portals::{
    AckRequest, Atomic, AtomicOperation, Command, ContextPart, CtId, Datatype, EntryId, EqId, Limits, LocalBuffer, MatchEntry, Place,
    ProcessId, Register, RemoteTarget, SearchOperation,
};

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
const SOCKET: u32 = 26;
const SET_CONTEXT: u32 = 27;

/// Words of a call of the message layer.
pub const CALL_WORDS: usize = 10;
/// Words of a call of a simulated socket.
pub const SOCKET_WORDS: usize = 8;

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
    /// Of a simulated socket.
    Socket {
        /// The number of the reply.
        ticket: u32,
        /// `narrows-socketcalls` says what they mean.
        words: [u64; SOCKET_WORDS],
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
    /// The address to which it returned; 0: nobody knows.
    pub site: u64,
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
        Command::SetContext(_) => SET_CONTEXT,
        // Endpoints and gateways are in the simulator.
        Command::Forward(_) => unreachable!("no process forwards"),
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
    let Ended { call, began, waited, peer, tag, site } = *ended;
    [u64::from(call), began, waited, peer, tag, site].into_iter().for_each(|word| writer.word(word));
    writer.end(ENDED)
}

/// Appends a call of a simulated socket, made at `time` (ps).
pub fn encode_socket(writer: &mut Writer<'_>, time: u64, ticket: u32, words: &[u64; SOCKET_WORDS]) -> Result<(), Full> {
    writer.begin(time);
    writer.word(u64::from(ticket));
    words.iter().for_each(|&word| writer.word(word));
    writer.end(SOCKET)
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
            site: reader.word()?,
        };
        reader.end()?;
        return Ok((time, Request::Ended(ended), length));
    }
    if kind == FACT {
        let words = (0..(length - 16) / 8).map(|_| reader.word()).collect::<Result<_, _>>()?;
        reader.end()?;
        return Ok((time, Request::Fact(words), length));
    }
    if kind == SOCKET {
        let ticket = reader.word32("ticket")?;
        let mut words = [0; SOCKET_WORDS];
        for word in &mut words {
            *word = reader.word()?;
        }
        reader.end()?;
        return Ok((time, Request::Socket { ticket, words }, length));
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
        Command::SetContext(part) => {
            writer.word(pair(u32::from(part.number), u32::from(part.more)));
            writer.word(part.rules);
            writer.word(part.layout.len() as u64);
            part.layout.iter().for_each(|word| writer.word(*word));
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
        Command::Forward(_) => {}
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
        SET_CONTEXT => {
            let (head, rules, count) = (reader.word()?, reader.word()?, reader.word()?);
            let number = u8::try_from(head >> 32).map_err(|_| RecordError::Field("context"))?;
            let more = match head as u32 {
                0 => false,
                1 => true,
                _ => return Err(RecordError::Field("context")),
            };
            let layout = (0..count).map(|_| reader.word()).collect::<Result<_, _>>()?;
            Command::SetContext(Box::new(ContextPart { number, rules, layout, more }))
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
