//! What the NIC tells a process.

use crate::{AtomicOperation, CtId, Datatype, EqId, List, ProcessId};
use serde::{Deserialize, Serialize};

/// Kinds of full events (section 3.13.1). The numbers are those of `portals4.h`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// A get arrived at the priority list.
    Get = 0,
    /// A get that was in the overflow list matched a new entry.
    GetOverflow = 1,
    /// A put arrived (either list).
    Put = 2,
    /// A put from the overflow list matched a new entry.
    PutOverflow = 3,
    /// An atomic arrived.
    Atomic = 4,
    /// An atomic from the overflow list matched a new entry.
    AtomicOverflow = 5,
    /// A fetching atomic arrived.
    FetchAtomic = 6,
    /// A fetching atomic from the overflow list matched a new entry.
    FetchAtomicOverflow = 7,
    /// Data of a get or fetching atomic are here.
    Reply = 8,
    /// The local buffer may be reused.
    Send = 9,
    /// The target acknowledged.
    Ack = 10,
    /// A portal table entry was disabled.
    PtDisabled = 11,
    /// An entry was unlinked by the NIC.
    AutoUnlink = 12,
    /// No unexpected header points into an unlinked overflow entry any more.
    AutoFree = 13,
    /// Result of a search.
    Search = 14,
    /// An entry is in its list.
    Link = 15,
}

/// Whether an operation worked (section 3.13.3, `ni_fail_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[repr(u32)]
pub enum FailType {
    /// It did.
    #[default]
    Ok = 0,
    /// The target could not be reached.
    Undeliverable = 1,
    /// Nothing matched, or no room.
    Dropped = 2,
    /// The portal table entry was disabled.
    PtDisabled = 3,
    /// Wrong user.
    PermViolation = 4,
    /// The entry does not accept the operation.
    OpViolation = 5,
    /// Memory that is not there.
    Segv = 6,
    /// A search found nothing.
    NoMatch = 7,
}

impl FailType {
    /// The reverse of `as u32`.
    pub fn from_number(number: u32) -> Option<FailType> {
        use FailType::*;
        const TYPES: [FailType; 8] = [Ok, Undeliverable, Dropped, PtDisabled, PermViolation, OpViolation, Segv, NoMatch];
        TYPES.get(number as usize).copied()
    }

    /// For messages: its name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            FailType::Ok => "PTL_NI_OK",
            FailType::Undeliverable => "PTL_NI_UNDELIVERABLE",
            FailType::Dropped => "PTL_NI_DROPPED",
            FailType::PtDisabled => "PTL_NI_PT_DISABLED",
            FailType::PermViolation => "PTL_NI_PERM_VIOLATION",
            FailType::OpViolation => "PTL_NI_OP_VIOLATION",
            FailType::Segv => "PTL_NI_SEGV",
            FailType::NoMatch => "PTL_NI_NO_MATCH",
        }
    }
}

/// A full event (`ptl_event_t`, section 3.13.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Whether it worked.
    pub fail: FailType,
    /// The list where the target matched.
    pub list: List,
    /// Portal table entry (target side).
    pub pt: u32,
    /// Who started the operation (target side).
    pub initiator: ProcessId,
    /// Address of the data (target side).
    pub start: u64,
    /// `user_ptr` of the entry or of the operation.
    pub user_ptr: u64,
    /// Of the put.
    pub hdr_data: u64,
    /// Of the operation.
    pub match_bits: u64,
    /// Bytes asked for.
    pub rlength: u64,
    /// Bytes moved.
    pub mlength: u64,
    /// Offset that was used.
    pub remote_offset: u64,
    /// Of an atomic (target side).
    pub atomic: Option<(AtomicOperation, Datatype)>,
}

impl Event {
    /// An event of which only the kind is known.
    pub fn blank(kind: EventKind) -> Event {
        Event {
            kind,
            fail: FailType::Ok,
            list: List::Priority,
            pt: 0,
            initiator: ProcessId::default(),
            start: 0,
            user_ptr: 0,
            hdr_data: 0,
            match_bits: 0,
            rlength: 0,
            mlength: 0,
            remote_offset: 0,
            atomic: None,
        }
    }
}

/// Result of a command that the library waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum ReplyCode {
    /// Done.
    Ok = 0,
    /// An operation uses it, or headers point to it.
    InUse = 1,
    /// It is not known (any more).
    Unknown = 2,
}

/// What the NIC writes into a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A full event.
    Event {
        /// The queue.
        eq: EqId,
        /// The event.
        event: Event,
    },
    /// A counting event has a new value.
    Count {
        /// Which.
        ct: CtId,
        /// Successes.
        success: u64,
        /// Failures.
        failure: u64,
        /// `CtSet`, `CtIncrement` and counting `MeSearch` commands of the process that are in this value.
        commands: u32,
    },
    /// The answer to a command with a ticket.
    Reply {
        /// The command's.
        ticket: u32,
        /// Its result.
        code: ReplyCode,
        /// What a query asked for; else 0.
        value: u64,
    },
    /// A put for somebody else is in a buffer of this gateway.
    Foreign(crate::bridge::Foreign),
}

impl Notice {
    /// All that it says, a word per field, but for what belongs to the process that runs: `start` and `user_ptr` are
    /// addresses of its memory, and `remote_offset` may be one: MPICH registers the whole pages in which the words of
    /// its locks lie, and where in a page `malloc` puts them differs from run to run.
    pub fn words(&self, mut word: impl FnMut(u64)) {
        match *self {
            Notice::Event { eq, event } => {
                let Event { kind, fail, list, pt, initiator, hdr_data, match_bits, rlength, mlength, atomic, .. } = event;
                for small in [eq.0, kind as u32, fail as u32, list as u32, pt, initiator.nid, initiator.pid] {
                    word(u64::from(small));
                }
                [hdr_data, match_bits, rlength, mlength].into_iter().for_each(&mut word);
                word(atomic.map_or(0, |(operation, datatype)| (1 + operation as u64) << 32 | datatype as u64));
            }
            Notice::Count { ct, success, failure, commands } => {
                [u64::from(ct.0), success, failure, u64::from(commands)].into_iter().for_each(word);
            }
            Notice::Reply { ticket, code, value } => [u64::from(ticket), code as u64, value].into_iter().for_each(word),
            // Its numbers count what came before simulated time started, too.
            Notice::Foreign(crate::bridge::Foreign { envelope, length, .. }) => {
                let crate::bridge::Envelope { initiator, target, pt, match_bits, hdr_data, .. } = envelope;
                for small in [initiator.nid, initiator.pid, target.nid, target.pid, pt] {
                    word(u64::from(small));
                }
                [match_bits, hdr_data, length].into_iter().for_each(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(notice: Notice) -> Vec<u64> {
        let mut words = Vec::new();
        notice.words(|word| words.push(word));
        words
    }

    /// Two events that differ in one field have different words, whatever the field.
    #[test]
    fn every_field_has_a_word_of_its_own() {
        let blank = Event::blank(EventKind::Put);
        let others = [
            Event { kind: EventKind::Ack, ..blank },
            Event { fail: FailType::Segv, ..blank },
            Event { list: List::Overflow, ..blank },
            Event { pt: 1, ..blank },
            Event { initiator: ProcessId { nid: 1, pid: 0 }, ..blank },
            Event { initiator: ProcessId { nid: 0, pid: 1 }, ..blank },
            Event { hdr_data: 1, ..blank },
            Event { match_bits: 1, ..blank },
            Event { rlength: 1, ..blank },
            Event { mlength: 1, ..blank },
            Event { atomic: Some((AtomicOperation::Min, Datatype::Int8)), ..blank },
        ];
        let mut all: Vec<_> = others.into_iter().chain([blank]).map(|event| words(Notice::Event { eq: EqId(0), event })).collect();
        all.push(words(Notice::Event { eq: EqId(1), event: blank }));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|words| words.len() == all[0].len()));
        // Addresses of the process say nothing of the simulation.
        let addressed = Event { start: 8, user_ptr: 9, remote_offset: 10, ..blank };
        assert_eq!(words(Notice::Event { eq: EqId(0), event: addressed }), words(Notice::Event { eq: EqId(0), event: blank }));
    }
}
