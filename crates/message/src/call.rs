//! Calls as 64-bit words, and completions as events: the endpoint of a live rank is in the simulator, its callers are
//! in the rank's process.

use crate::{Completes, Completion, CompletionKind, OPEN_LIMIT, Peek, Queue, Receive, Send, Status};
use narrows_portals::{Event, EventKind, FailType, ProcessId};

/// What a process asks of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It has an event queue, and the entries of [`crate::portal_table`] from this one on.
    Open {
        /// The first.
        base: u32,
    },
    /// Nothing more comes.
    Close,
    /// See [`crate::Endpoint::renew`].
    Renew,
    /// See [`crate::Endpoint::send`].
    Send(Send),
    /// See [`crate::Endpoint::receive`].
    Receive(Receive),
    /// See [`crate::Endpoint::receive_claimed`].
    ReceiveClaimed {
        /// Context of the peek.
        claim: u64,
        /// What it is received into.
        receive: Receive,
    },
    /// See [`crate::Endpoint::discard_claimed`].
    DiscardClaimed {
        /// Context of the peek.
        claim: u64,
    },
    /// See [`crate::Endpoint::peek`].
    Peek {
        /// What for.
        peek: Peek,
        /// The answer may wait for a message.
        waits: bool,
    },
    /// See [`crate::Endpoint::cancel`].
    Cancel {
        /// Queue of the receive.
        queue: Queue,
        /// Context of the receive.
        context: u64,
        /// The answer is a reply to this ticket.
        ticket: u32,
    },
}

/// A call that cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Words that mean nothing, or nothing at this moment.
    #[error("not a call of the message layer")]
    Broken,
    /// See [`crate::Again`].
    #[error("more than {OPEN_LIMIT} of its messages are open; it must let some complete before it sends more")]
    TooMany,
}

/// Words of a [`Call`] at most.
pub const CALL_WORDS: usize = 10;

const OPEN: u64 = 0;
const CLOSE: u64 = 1;
const RENEW: u64 = 2;
const SEND: u64 = 3;
const RECEIVE: u64 = 4;
const RECEIVE_CLAIMED: u64 = 5;
const DISCARD_CLAIMED: u64 = 6;
const PEEK: u64 = 7;
const CANCEL: u64 = 8;

/// Flags above the kind in the first word.
const UNTAGGED: u64 = 1 << 8;
const FLAG: u64 = 1 << 9;
const OTHER_FLAG: u64 = 1 << 10;
const DELIVERED: u64 = 1 << 11;
const BUFFER_FREE: u64 = 1 << 12;
const LOW: u64 = 32;
const STATUS_SHIFT: u64 = 16;
const EXECUTION_SHIFT: u64 = 24;

fn queue_bits(queue: Queue) -> u64 {
    if queue == Queue::Untagged { UNTAGGED } else { 0 }
}

fn queue_of(head: u64) -> Queue {
    if head & UNTAGGED != 0 { Queue::Untagged } else { Queue::Tagged }
}

fn process_word(process: ProcessId) -> u64 {
    u64::from(process.nid) << 32 | u64::from(process.pid)
}

fn process_of(word: u64) -> ProcessId {
    ProcessId { nid: (word >> 32) as u32, pid: word as u32 }
}

/// No process has this number.
const ANYBODY: u64 = u64::MAX;

fn receive_words(kind: u64, receive: &Receive) -> [u64; 9] {
    let head = kind
        | queue_bits(receive.queue)
        | if receive.completion { FLAG } else { 0 }
        | if receive.multi.is_some() { OTHER_FLAG } else { 0 }
        | u64::from(receive.execution) << EXECUTION_SHIFT;
    let source = receive.source.map_or(ANYBODY, process_word);
    let multi = receive.multi.unwrap_or(0);
    [head, source, receive.tag, receive.ignore, receive.buffer, receive.length, receive.context, multi, 0]
}

fn receive_of(words: &[u64; CALL_WORDS]) -> Receive {
    let [head, source, tag, ignore, buffer, length, context, multi, ..] = *words;
    Receive {
        queue: queue_of(head),
        source: (source != ANYBODY).then(|| process_of(source)),
        tag,
        ignore,
        buffer,
        length,
        context,
        completion: head & FLAG != 0,
        multi: (head & OTHER_FLAG != 0).then_some(multi),
        execution: (head >> EXECUTION_SHIFT) as u8,
    }
}

impl Call {
    /// As words.
    pub fn to_words(&self) -> [u64; CALL_WORDS] {
        let mut words = [0; CALL_WORDS];
        match self {
            Call::Open { base } => words[..2].copy_from_slice(&[OPEN, u64::from(*base)]),
            Call::Close => words[0] = CLOSE,
            Call::Renew => words[0] = RENEW,
            Call::Send(send) => {
                let head = SEND
                    | queue_bits(send.queue)
                    | if send.inject { FLAG } else { 0 }
                    | if send.data.is_some() { OTHER_FLAG } else { 0 }
                    | match send.completes {
                        Completes::Never => 0,
                        Completes::BufferFree => BUFFER_FREE,
                        Completes::Delivered => DELIVERED,
                    }
                    | u64::from(send.data.unwrap_or(0)) << LOW;
                words[..6].copy_from_slice(&[head, process_word(send.target), send.tag, send.buffer, send.length, send.context]);
            }
            Call::Receive(receive) => words[..9].copy_from_slice(&receive_words(RECEIVE, receive)),
            Call::ReceiveClaimed { claim, receive } => {
                words[..9].copy_from_slice(&receive_words(RECEIVE_CLAIMED, receive));
                words[8] = *claim;
            }
            Call::DiscardClaimed { claim } => words[..2].copy_from_slice(&[DISCARD_CLAIMED, *claim]),
            Call::Peek { peek, waits } => {
                let head = PEEK | queue_bits(peek.queue) | if peek.claim { FLAG } else { 0 } | if *waits { OTHER_FLAG } else { 0 };
                let source = peek.source.map_or(ANYBODY, process_word);
                words[..5].copy_from_slice(&[head, source, peek.tag, peek.ignore, peek.context]);
            }
            Call::Cancel { queue, context, ticket } => {
                words[..3].copy_from_slice(&[CANCEL | queue_bits(*queue), *context, u64::from(*ticket)]);
            }
        }
        words
    }

    /// From words.
    ///
    /// # Errors
    /// [`CallError`] for a kind that there is not.
    pub fn from_words(words: &[u64; CALL_WORDS]) -> Result<Call, CallError> {
        let [head, a, b, c, d, e, ..] = *words;
        Ok(match head & 0xff {
            OPEN => Call::Open { base: u32::try_from(a).map_err(|_| CallError::Broken)? },
            CLOSE => Call::Close,
            RENEW => Call::Renew,
            SEND => Call::Send(Send {
                queue: queue_of(head),
                target: process_of(a),
                tag: b,
                data: (head & OTHER_FLAG != 0).then_some((head >> LOW) as u32),
                buffer: c,
                length: d,
                context: e,
                inject: head & FLAG != 0,
                completes: match head & (DELIVERED | BUFFER_FREE) {
                    DELIVERED => Completes::Delivered,
                    BUFFER_FREE => Completes::BufferFree,
                    0 => Completes::Never,
                    _ => return Err(CallError::Broken),
                },
            }),
            RECEIVE => Call::Receive(receive_of(words)),
            RECEIVE_CLAIMED => Call::ReceiveClaimed { claim: words[8], receive: receive_of(words) },
            DISCARD_CLAIMED => Call::DiscardClaimed { claim: a },
            PEEK => Call::Peek {
                peek: Peek {
                    queue: queue_of(head),
                    source: (a != ANYBODY).then(|| process_of(a)),
                    tag: b,
                    ignore: c,
                    context: d,
                    claim: head & FLAG != 0,
                },
                waits: head & OTHER_FLAG != 0,
            },
            CANCEL => Call::Cancel { queue: queue_of(head), context: a, ticket: u32::try_from(b).map_err(|_| CallError::Broken)? },
            _ => return Err(CallError::Broken),
        })
    }
}

impl Completion {
    /// As an event of the endpoint's queue: what the process finds there.
    pub fn to_event(&self) -> Event {
        let kind = match self.kind {
            CompletionKind::Send => 0,
            CompletionKind::Receive => 1,
            CompletionKind::Peek => 2,
            CompletionKind::Cancel => 3,
        };
        let (status, fail) = match self.status {
            Status::Ok => (0, FailType::Ok),
            Status::Truncated => (1, FailType::Ok),
            Status::NoMessage => (2, FailType::Ok),
            Status::Cancelled => (3, FailType::Ok),
            Status::Failed(fail) => (4, fail),
        };
        let flags = queue_bits(self.queue)
            | if self.released { FLAG } else { 0 }
            | if self.data.is_some() { OTHER_FLAG } else { 0 }
            | if self.at_once { DELIVERED } else { 0 };
        Event {
            fail,
            hdr_data: kind | status << STATUS_SHIFT | flags | u64::from(self.data.unwrap_or(0)) << LOW,
            user_ptr: self.context,
            start: self.buffer,
            mlength: self.length,
            rlength: self.full_length,
            match_bits: self.tag,
            initiator: self.source,
            ..Event::blank(EventKind::Send)
        }
    }

    /// The reverse.
    ///
    /// # Errors
    /// [`CallError`] for an event that is no completion.
    pub fn from_event(event: &Event) -> Result<Completion, CallError> {
        let head = event.hdr_data;
        let kind = match head & 0xff {
            0 => CompletionKind::Send,
            1 => CompletionKind::Receive,
            2 => CompletionKind::Peek,
            3 => CompletionKind::Cancel,
            _ => return Err(CallError::Broken),
        };
        let status = match head >> STATUS_SHIFT & 0xff {
            0 => Status::Ok,
            1 => Status::Truncated,
            2 => Status::NoMessage,
            3 => Status::Cancelled,
            4 => Status::Failed(event.fail),
            _ => return Err(CallError::Broken),
        };
        Ok(Completion {
            kind,
            queue: queue_of(head),
            context: event.user_ptr,
            buffer: event.start,
            length: event.mlength,
            full_length: event.rlength,
            tag: event.match_bits,
            source: event.initiator,
            data: (head & OTHER_FLAG != 0).then_some((head >> LOW) as u32),
            status,
            released: head & FLAG != 0,
            at_once: head & DELIVERED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queues() -> impl Strategy<Value = Queue> {
        prop_oneof![Just(Queue::Tagged), Just(Queue::Untagged)]
    }

    fn processes() -> impl Strategy<Value = ProcessId> {
        (1..=u32::MAX >> 1, any::<u32>()).prop_map(|(nid, pid)| ProcessId { nid, pid })
    }

    fn receives() -> impl Strategy<Value = Receive> {
        let flags = (queues(), prop::option::of(processes()), any::<bool>(), prop::option::of(any::<u64>()), any::<u8>());
        (flags, any::<[u64; 5]>()).prop_map(|((queue, source, completion, multi, execution), [tag, ignore, buffer, length, context])| {
            Receive { queue, source, tag, ignore, buffer, length, context, completion, multi, execution }
        })
    }

    fn calls() -> impl Strategy<Value = Call> {
        let completes = prop_oneof![Just(Completes::Never), Just(Completes::BufferFree), Just(Completes::Delivered)];
        let sends = (queues(), processes(), any::<[u64; 4]>(), prop::option::of(any::<u32>()), any::<bool>(), completes);
        prop_oneof![
            any::<u32>().prop_map(|base| Call::Open { base }),
            Just(Call::Close),
            Just(Call::Renew),
            sends.prop_map(|(queue, target, [tag, buffer, length, context], data, inject, completes)| {
                Call::Send(Send { queue, target, tag, data, buffer, length, context, inject, completes })
            }),
            receives().prop_map(Call::Receive),
            (any::<u64>(), receives()).prop_map(|(claim, receive)| Call::ReceiveClaimed { claim, receive }),
            any::<u64>().prop_map(|claim| Call::DiscardClaimed { claim }),
            (queues(), prop::option::of(processes()), any::<[u64; 3]>(), any::<bool>(), any::<bool>()).prop_map(
                |(queue, source, [tag, ignore, context], claim, waits)| Call::Peek {
                    peek: Peek { queue, source, tag, ignore, context, claim },
                    waits
                }
            ),
            (queues(), any::<u64>(), any::<u32>()).prop_map(|(queue, context, ticket)| Call::Cancel { queue, context, ticket }),
        ]
    }

    fn completions() -> impl Strategy<Value = Completion> {
        use CompletionKind::*;
        let kinds = prop_oneof![Just(Send), Just(Receive), Just(Peek), Just(Cancel)];
        let states = prop_oneof![
            Just(Status::Ok),
            Just(Status::Truncated),
            Just(Status::NoMessage),
            Just(Status::Cancelled),
            (0u32..8).prop_map(|number| Status::Failed(FailType::from_number(number).unwrap())),
        ];
        let what = (kinds, queues(), states, processes(), prop::option::of(any::<u32>()));
        (what, any::<[u64; 5]>(), any::<bool>(), any::<bool>()).prop_map(
            |((kind, queue, status, source, data), [context, buffer, length, full_length, tag], released, at_once)| Completion {
                kind,
                queue,
                context,
                buffer,
                length,
                full_length,
                tag,
                source,
                data,
                status,
                released,
                at_once,
            },
        )
    }

    proptest! {
        #[test]
        fn calls_survive_the_way_through_words(call in calls()) {
            prop_assert_eq!(Call::from_words(&call.to_words()), Ok(call));
        }

        #[test]
        fn completions_survive_the_way_through_events(completion in completions()) {
            prop_assert_eq!(Completion::from_event(&completion.to_event()), Ok(completion));
        }

        #[test]
        fn no_words_are_too_strange(words in any::<[u64; CALL_WORDS]>(), hdr_data in any::<u64>()) {
            let _ = Call::from_words(&words);
            let _ = Completion::from_event(&Event { hdr_data, ..Event::blank(EventKind::Send) });
        }
    }
}
