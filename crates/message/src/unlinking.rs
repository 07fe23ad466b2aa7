//! Entries that leave their lists, which the NIC has to agree to: receives that are taken back, and others.

use crate::core::Core;
use crate::request::{Request, Unlinking, cancelled, room_of};
use crate::{Completion, CompletionKind, Queue, Status, Transport};
use narrows_portals::{EntryId, ProcessId, ReplyCode};

impl Core {
    /// Tells the NIC to unlink `entry`, and goes on when it has answered.
    pub(crate) fn start_unlinking(&mut self, transport: &mut impl Transport, entry: EntryId, why: Unlinking) {
        match transport.me_unlink(entry) {
            Some(code) => {
                self.go_on_unlinked(transport, entry, why, code);
            }
            None => self.unlinking.push((entry, why)),
        }
    }

    /// The entry is being unlinked already.
    pub(crate) fn is_unlinking(&self, entry: EntryId) -> bool {
        self.unlinking.iter().any(|(other, _)| *other == entry)
    }

    /// See [`crate::Endpoint::unlinked`].
    pub fn unlinked(&mut self, transport: &mut impl Transport, entry: EntryId, code: ReplyCode) {
        if let Some(at) = self.unlinking.iter().position(|(other, _)| *other == entry) {
            let (_, why) = self.unlinking.remove(at);
            if let Some((token, done)) = self.go_on_unlinked(transport, entry, why, code) {
                self.answer_cancel(token, done);
            }
            if self.parked_anew {
                self.rehome(transport);
            }
        }
    }

    /// What was being unlinked for goes on; whether a receive was taken back, if that was asked, and by which token.
    fn go_on_unlinked(&mut self, transport: &mut impl Transport, entry: EntryId, why: Unlinking, code: ReplyCode) -> Option<(u64, bool)> {
        match why {
            Unlinking::Cancel(index, generation, token) => {
                let receive = match self.requests.tenant_mut(index, generation) {
                    Some(Request::Receive(posted)) if code == ReplyCode::Ok => Some(posted.receive),
                    _ => None,
                };
                if let Some(receive) = receive {
                    self.requests.remove(index);
                    self.completions.push_back(cancelled(&receive, false));
                }
                return Some((token, receive.is_some()));
            }
            Unlinking::Multi(index, generation) => return self.multi_unlinked(transport, index, generation, entry, code),
            Unlinking::Home(index, generation, message) => match self.requests.tenant_mut(index, generation) {
                Some(Request::Receive(posted)) if code == ReplyCode::Ok => {
                    let room = room_of(&posted.receive);
                    self.deliver(transport, room, message, Some(index));
                }
                // A message was faster: another receive may take this one.
                _ => self.park_first(message),
            },
            Unlinking::Block(index) => {
                if code == ReplyCode::Ok {
                    self.overflow.emptied(transport, index);
                }
            }
            Unlinking::Leftover => {
                if code == ReplyCode::InUse {
                    self.leftovers.push(entry);
                }
            }
        }
        None
    }

    /// Says how [`Core::cancel`] has ended.
    fn answer_cancel(&mut self, token: u64, done: bool) {
        self.completions.push_back(Completion {
            kind: CompletionKind::Cancel,
            queue: Queue::Tagged,
            context: token,
            buffer: 0,
            length: 0,
            full_length: 0,
            tag: 0,
            source: ProcessId::default(),
            data: None,
            status: if done { Status::Cancelled } else { Status::NoMessage },
            released: false,
            at_once: false,
        });
    }

    /// See [`crate::Endpoint::cancel`].
    pub fn cancel(&mut self, transport: &mut impl Transport, queue: Queue, context: u64, token: u64) -> Option<bool> {
        let oldest = self
            .requests
            .iter()
            .filter(|(_, _, request)| match request {
                Request::Receive(posted) => posted.receive.queue == queue && posted.receive.context == context,
                Request::Multi(multi) => queue == Queue::Untagged && multi.receive.context == context,
                _ => false,
            })
            .min_by_key(|(_, age, _)| *age)
            .map(|(index, ..)| index);
        let Some(index) = oldest else { return Some(false) };
        let generation = self.requests.generation(index);
        let Some(Request::Receive(posted)) = self.requests.get_mut(index) else { return self.cancel_multi(transport, index, token) };
        let entry = posted.entry;
        if self.is_unlinking(entry) {
            return Some(false);
        }
        let why = Unlinking::Cancel(index, generation, token);
        match transport.me_unlink(entry) {
            Some(code) => self.go_on_unlinked(transport, entry, why, code).map(|(_, done)| done),
            None => {
                self.unlinking.push((entry, why));
                None
            }
        }
    }

    /// Unlinks an entry whose operations are all over; if the NIC still thinks otherwise, later.
    pub(crate) fn unlink(&mut self, transport: &mut impl Transport, entry: EntryId) {
        self.start_unlinking(transport, entry, Unlinking::Leftover);
    }
}
