//! [`Endpoint`]: the messages of one process.

use crate::core::Core;
use crate::layer::{Layer, Layers, Stack, layers_of};
use crate::{Again, Completion, MessageConfig, Peek, Pending, Queue, Receive, Send, Sent, Stray, Transport, UnknownClaim};
use narrows_portals::{EntryId, EqId, Event, ProcessId, ReplyCode};
use std::sync::Arc;

/// The messages of one process: calls and events of its NIC in, commands to the NIC and completions out.
#[derive(Debug)]
pub struct Endpoint {
    core: Core,
    /// Between the core and the NIC.
    layers: Layers,
}

impl Endpoint {
    /// An endpoint of the process `local`, which has the event queue `eq` and the entries of
    /// [`portal_table`](crate::portal_table). Posts the overflow blocks.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn new(config: impl Into<Arc<MessageConfig>>, eq: EqId, local: ProcessId, transport: &mut impl Transport) -> Endpoint {
        Endpoint::with_queues(config.into(), eq, local, transport, &[Queue::Tagged, Queue::Untagged])
    }

    /// The same for a process that sends and receives tagged messages only: without room for untagged ones, which
    /// halves its memory.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn tagged(config: impl Into<Arc<MessageConfig>>, eq: EqId, local: ProcessId, transport: &mut impl Transport) -> Endpoint {
        Endpoint::with_queues(config.into(), eq, local, transport, &[Queue::Tagged])
    }

    fn with_queues(
        mut config: Arc<MessageConfig>,
        eq: EqId,
        local: ProcessId,
        transport: &mut impl Transport,
        queues: &[Queue],
    ) -> Endpoint {
        if config.rails.bridging().is_some() {
            let config = Arc::make_mut(&mut config);
            config.rails = config.rails.of_process(local);
        }
        if let Err(error) = config.check() {
            panic!("message layer: {error}");
        }
        let (config, layers) = layers_of(config, (eq, local), transport);
        Endpoint::above(layers, config, (eq, local), transport, queues)
    }

    /// Above these layers.
    pub(crate) fn above(
        mut layers: Layers,
        config: Arc<MessageConfig>,
        (eq, local): (EqId, ProcessId),
        nic: &mut dyn Transport,
        queues: &[Queue],
    ) -> Endpoint {
        let core = Core::new(config, eq, local, &mut Stack { layers: &mut layers, nic }, queues);
        Endpoint { core, layers }
    }

    /// Does something at the core, above its layers. The hot calls without layers go to the core directly.
    fn at_core<R>(&mut self, nic: &mut dyn Transport, what: impl FnOnce(&mut Core, &mut Stack<'_>) -> R) -> R {
        let Endpoint { core, layers } = self;
        let stack = &mut Stack { layers, nic };
        let done = what(core, stack);
        stack.settle(core).expect("layers only tell of what the core has asked for");
        done
    }

    /// See [`crate::Rails::first`].
    pub fn first_rail(&self) -> narrows_units::Rail {
        self.core.config.rails.first()
    }

    /// It is near, and about to be asked or told something: see [`narrows_engine::prefetch`], in steps from 0 on.
    #[inline]
    pub fn prefetch(&self, step: u32) {
        self.core.requests.prefetch(step);
    }

    /// The process whose messages these are.
    pub fn local(&self) -> ProcessId {
        self.core.local()
    }

    /// Forgets what does not matter for any later message but depends on the order of the earlier ones: how full the
    /// overflow blocks are, and which request numbers are free. Called where simulated time begins, because what
    /// happens before that is ordered by the host.
    pub fn renew(&mut self, transport: &mut impl Transport) {
        self.at_core(transport, |core, below| {
            below.each(|layer, below| layer.renew(below));
            core.renew(below);
        });
    }

    /// Takes the overflow blocks out of their lists: what still comes is not kept.
    pub fn close(&mut self, transport: &mut impl Transport) {
        self.at_core(transport, |core, below| {
            core.close(below);
            below.each(|layer, below| layer.close(below));
        });
    }

    /// The answer to an unlinking that [`Transport::me_unlink`] had no answer to yet.
    pub fn unlinked(&mut self, transport: &mut impl Transport, entry: EntryId, code: ReplyCode) {
        self.at_core(transport, |core, below| core.unlinked(below, entry, code));
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
    #[inline]
    pub fn send(&mut self, transport: &mut impl Transport, send: Send) -> Result<(), Again> {
        if self.layers.is_empty() {
            return self.core.send(transport, send);
        }
        self.at_core(transport, |core, below| core.send(below, send))
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
    #[inline]
    pub fn receive(&mut self, transport: &mut impl Transport, receive: Receive) -> Result<(), Again> {
        if self.layers.is_empty() {
            return self.core.receive(transport, receive);
        }
        self.at_core(transport, |core, below| core.receive(below, receive))
    }

    /// Looks for a message that nobody has received yet; a completion follows.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    pub fn peek(&mut self, transport: &mut impl Transport, peek: Peek) -> Result<(), Again> {
        self.at_core(transport, |core, below| core.peek(below, peek))
    }

    /// Receives the message that a peek of this context has claimed. What `receive` says about
    /// source, tag and `multi` does not count.
    ///
    /// # Errors
    ///
    /// [`UnknownClaim`] when there is none: the peek has not completed, found nothing, or its message
    /// was already received.
    pub fn receive_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64, receive: Receive) -> Result<(), UnknownClaim> {
        self.at_core(transport, |core, below| core.receive_claimed(below, context_of_claim, receive))
    }

    /// Throws the message away that a peek of this context has claimed. Its sender completes; here
    /// no completion follows.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive_claimed`].
    pub fn discard_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64) -> Result<(), UnknownClaim> {
        self.at_core(transport, |core, below| core.discard_claimed(below, context_of_claim))
    }

    /// Takes back the oldest receive of this context that has no message yet, which completes as
    /// [`Status::Cancelled`](crate::Status::Cancelled) then: `Some(true)`. `Some(false)`: there is none, or a message
    /// was faster. `None`: the NIC must be asked; a completion of the kind
    /// [`CompletionKind::Cancel`](crate::CompletionKind::Cancel) with `token` as its context will say it.
    pub fn cancel(&mut self, transport: &mut impl Transport, queue: Queue, context: u64, token: u64) -> Option<bool> {
        self.at_core(transport, |core, below| core.cancel(below, queue, context, token))
    }

    /// The event is for the firmware of the NIC: it takes effect when it comes, and costs the process nothing.
    pub fn is_for_firmware(&self, event: &Event) -> bool {
        self.layers.is_empty() && self.core.is_for_firmware(event)
    }

    /// The event only completes something: [`Endpoint::event`] needs no command and no copy for it, so it does not
    /// matter when the process looks at it.
    pub fn only_completes(&self, event: &Event) -> bool {
        only_completes(&self.core, &self.layers, event)
    }

    /// One event of the event queue, in the order in which it came.
    ///
    /// # Errors
    ///
    /// [`Stray`] when the event cannot be: it names a request that is not open. The process that sent it, or the
    /// NIC, is broken.
    #[inline]
    pub fn event(&mut self, transport: &mut impl Transport, event: Event) -> Result<(), Stray> {
        if self.layers.is_empty() {
            return self.core.event(transport, event);
        }
        let Endpoint { core, layers } = self;
        let count = layers.len();
        let stack = &mut Stack { layers, nic: transport };
        stack.give(core, count, event)?;
        stack.settle(core)
    }

    /// The gateway of this number is gone: what it has not answered for goes by others.
    pub fn gateway_gone(&mut self, transport: &mut impl Transport, gateway: usize) {
        self.at_core(transport, |_, below| below.each(|layer, below| layer.gateway_gone(below, gateway)));
    }

    /// The oldest completion that has not been taken.
    pub fn next_completion(&mut self) -> Option<Completion> {
        narrows_engine::take_first(&mut self.core.completions)
    }

    /// Peeks that wait for the answer of the NIC.
    pub fn searches_pending(&self) -> usize {
        self.core.searches_pending()
    }

    /// Overflow blocks that exist, in both queues, in use or spare.
    pub fn overflow_blocks(&self) -> usize {
        self.core.overflow.len()
    }

    /// What it has sent since the start, or the last [`Endpoint::renew`].
    pub fn sent(&self) -> Sent {
        self.core.sent
    }

    /// What is open: for a report of who waits for whom. Not for the hot path.
    pub fn pending(&self) -> Pending {
        self.core.pending()
    }
}

/// See [`Endpoint::only_completes`]: an event that comes to the lowest of these layers; without any, to the core.
fn only_completes(core: &Core, layers: &[Box<dyn Layer>], event: &Event) -> bool {
    match layers.split_last() {
        None => core.only_completes(event),
        Some((layer, above)) => layer.only_completes(event) && layer.tells(event).is_none_or(|told| only_completes(core, above, &told)),
    }
}
