//! [`Endpoint`]: the messages of one process.

use crate::core::Core;
use crate::{Again, Completion, MessageConfig, Peek, Pending, Queue, Receive, Send, Stray, Transport, UnknownClaim};
use narrows_portals::{EntryId, EqId, Event, ProcessId, ReplyCode};

/// The messages of one process: calls and events of its NIC in, commands to the NIC and completions out.
#[derive(Debug)]
pub struct Endpoint {
    core: Core,
}

impl Endpoint {
    /// An endpoint of the process `local`, which has the event queue `eq` and the entries of
    /// [`portal_table`](crate::portal_table). Posts the overflow blocks.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn new(config: MessageConfig, eq: EqId, local: ProcessId, transport: &mut impl Transport) -> Endpoint {
        Endpoint { core: Core::new(config, eq, local, transport, &[Queue::Tagged, Queue::Untagged]) }
    }

    /// The same for a process that sends and receives tagged messages only: without room for untagged ones, which
    /// halves its memory.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn tagged(config: MessageConfig, eq: EqId, local: ProcessId, transport: &mut impl Transport) -> Endpoint {
        Endpoint { core: Core::new(config, eq, local, transport, &[Queue::Tagged]) }
    }

    /// The process whose messages these are.
    pub fn local(&self) -> ProcessId {
        self.core.local()
    }

    /// Forgets what does not matter for any later message but depends on the order of the earlier ones: how full the
    /// overflow blocks are, and which request numbers are free. Called where simulated time begins, because what
    /// happens before that is ordered by the host.
    pub fn renew(&mut self, transport: &mut impl Transport) {
        self.core.renew(transport);
    }

    /// Takes the overflow blocks out of their lists: what still comes is not kept.
    pub fn close(&mut self, transport: &mut impl Transport) {
        self.core.close(transport);
    }

    /// The answer to an unlinking that [`Transport::me_unlink`] had no answer to yet.
    pub fn unlinked(&mut self, transport: &mut impl Transport, entry: EntryId, code: ReplyCode) {
        self.core.unlinked(transport, entry, code);
    }

    /// Starts to send.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    ///
    /// # Panics
    ///
    /// When more than `inject_limit` bytes are to be injected.
    pub fn send(&mut self, transport: &mut impl Transport, send: Send) -> Result<(), Again> {
        self.core.send(transport, send)
    }

    /// Makes room for a message, or with `multi` for many.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    ///
    /// # Panics
    ///
    /// When a tagged receive has `multi`.
    pub fn receive(&mut self, transport: &mut impl Transport, receive: Receive) -> Result<(), Again> {
        self.core.receive(transport, receive)
    }

    /// Looks for a message that nobody has received yet; a completion follows.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    pub fn peek(&mut self, transport: &mut impl Transport, peek: Peek) -> Result<(), Again> {
        self.core.peek(transport, peek)
    }

    /// Receives the message that a peek of this context has claimed. What `receive` says about
    /// source, tag and `multi` does not count.
    ///
    /// # Errors
    ///
    /// [`UnknownClaim`] when there is none: the peek has not completed, found nothing, or its message
    /// was already received.
    pub fn receive_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64, receive: Receive) -> Result<(), UnknownClaim> {
        self.core.receive_claimed(transport, context_of_claim, receive)
    }

    /// Throws the message away that a peek of this context has claimed. Its sender completes; here
    /// no completion follows.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive_claimed`].
    pub fn discard_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64) -> Result<(), UnknownClaim> {
        self.core.discard_claimed(transport, context_of_claim)
    }

    /// Takes back the oldest receive of this context that has no message yet, which completes as
    /// [`Status::Cancelled`](crate::Status::Cancelled) then: `Some(true)`. `Some(false)`: there is none, or a message
    /// was faster. `None`: the NIC must be asked; a completion of the kind
    /// [`CompletionKind::Cancel`](crate::CompletionKind::Cancel) with `token` as its context will say it.
    pub fn cancel(&mut self, transport: &mut impl Transport, queue: Queue, context: u64, token: u64) -> Option<bool> {
        self.core.cancel(transport, queue, context, token)
    }

    /// The event only completes something: [`Endpoint::event`] needs no command and no copy for it, so it does not
    /// matter when the process looks at it.
    pub fn only_completes(&self, event: &Event) -> bool {
        self.core.only_completes(event)
    }

    /// One event of the event queue, in the order in which it came.
    ///
    /// # Errors
    ///
    /// [`Stray`] when the event cannot be: it names a request that is not open. The process that sent it, or the
    /// NIC, is broken.
    pub fn event(&mut self, transport: &mut impl Transport, event: Event) -> Result<(), Stray> {
        self.core.event(transport, event)
    }

    /// The oldest completion that has not been taken.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.core.completions.pop_front()
    }

    /// Peeks that wait for the answer of the NIC.
    pub fn searches_pending(&self) -> usize {
        self.core.searches_pending()
    }

    /// Overflow blocks that exist, in both queues, in use or spare.
    pub fn overflow_blocks(&self) -> usize {
        self.core.overflow.len()
    }

    /// What is open: for a report of who waits for whom. Not for the hot path.
    pub fn pending(&self) -> Pending {
        self.core.pending()
    }
}
