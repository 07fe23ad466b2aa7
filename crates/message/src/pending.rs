//! What is open, for a report of who waits for whom.

use crate::core::Core;
use crate::request::{Request, Stage};
use crate::{Pending, PendingRequest, Receive, Waiting};

impl Core {
    /// See [`crate::Endpoint::pending`].
    pub fn pending(&self) -> Pending {
        let mut pending = Pending { claims: self.claims.len(), ..Pending::default() };
        let mut aged: Vec<(u64, PendingRequest)> = Vec::with_capacity(self.requests.len());
        for (_, age, request) in self.requests.iter() {
            let of_receive = |waiting, receive: &Receive| PendingRequest {
                waiting,
                queue: receive.queue,
                peer: receive.source,
                tag: receive.tag,
                ignore: receive.ignore,
                length: receive.length,
                context: receive.context,
            };
            let entry = match request {
                Request::Send(open) => {
                    pending.sends += 1;
                    let waiting = if matches!(open.stage, Stage::Sending { .. }) { Waiting::Sent } else { Waiting::Receiver };
                    PendingRequest {
                        waiting,
                        queue: open.send.queue,
                        peer: Some(open.send.target),
                        tag: open.send.tag,
                        ignore: 0,
                        length: open.send.length,
                        context: open.send.context,
                    }
                }
                Request::Receive(posted) => {
                    pending.receives += 1;
                    of_receive(Waiting::Message, &posted.receive)
                }
                Request::Multi(multi) => {
                    pending.receives += 1;
                    of_receive(Waiting::Messages, &multi.receive)
                }
                Request::Transfer(transfer) => PendingRequest {
                    waiting: Waiting::Data,
                    queue: transfer.room.queue,
                    peer: Some(transfer.message.source),
                    tag: transfer.message.tag,
                    ignore: 0,
                    length: transfer.wanted,
                    context: transfer.room.context,
                },
                Request::Peek(peek) => PendingRequest {
                    waiting: Waiting::Search,
                    queue: peek.queue,
                    peer: peek.source,
                    tag: peek.tag,
                    ignore: peek.ignore,
                    length: 0,
                    context: peek.context,
                },
            };
            aged.push((age, entry));
        }
        aged.sort_unstable_by_key(|(age, _)| *age);
        pending.requests = aged.into_iter().map(|(_, request)| request).collect();
        pending
    }
}
