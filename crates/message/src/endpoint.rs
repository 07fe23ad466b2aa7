//! [`Endpoint`]: the messages of one process.

use crate::bridge::{self, Bridge};
use crate::core::Core;
use crate::pscom::{self, Pscom};
use crate::{
    Again, Completion, MessageConfig, Peek, Pending, Protocol, PscomConfig, Queue, Receive, Send, Sent, Stray, Transport, UnknownClaim,
};
use narrows_portals::{EntryId, EqId, Event, ProcessId, ReplyCode};
use std::sync::Arc;

/// The messages of one process: calls and events of its NIC in, commands to the NIC and completions out.
#[derive(Debug)]
pub struct Endpoint {
    core: Core,
    layer: Layered,
}

/// What is between the core and the NIC.
#[derive(Debug)]
enum Layered {
    Directly,
    Pscom(Box<Pscom>),
    Bridge(Box<Bridge>),
    /// The protocol, and gateways below it.
    Both(Box<Pscom>, Box<Bridge>),
}

const ONLY_ASKED: &str = "the layer only tells of what the core has asked for";

/// Does something at the core, over the layer of the protocol if it has one.
macro_rules! at_core {
    ($self:ident, $transport:ident, $core:ident => $what:expr) => {{
        let Endpoint { core: $core, layer } = $self;
        match layer {
            Layered::Directly => $what,
            Layered::Pscom(pscom) => {
                let $transport = &mut pscom::Layer { pscom, transport: $transport };
                let done = $what;
                settle($core, $transport, |layer| layer.pscom.next_event()).expect(ONLY_ASKED);
                done
            }
            Layered::Bridge(bridge) => {
                let $transport = &mut bridge::Layer { bridge, transport: $transport };
                let done = $what;
                settle($core, $transport, |layer| layer.bridge.next_event()).expect(ONLY_ASKED);
                done
            }
            Layered::Both(pscom, bridge) => {
                let done = {
                    let transport = &mut bridge::Layer { bridge, transport: &mut *$transport };
                    let $transport = &mut pscom::Layer { pscom, transport };
                    $what
                };
                settle_both($core, pscom, bridge, $transport).expect(ONLY_ASKED);
                done
            }
        }
    }};
}

/// What the layer has to tell.
fn settle<T: Transport>(core: &mut Core, layer: &mut T, next: impl Fn(&mut T) -> Option<Event>) -> Result<(), Stray> {
    while let Some(event) = next(layer) {
        core.event(layer, event)?;
    }
    Ok(())
}

/// The same of two layers: the lower one tells the protocol, and that the core.
fn settle_both(core: &mut Core, pscom: &mut Pscom, bridge: &mut Bridge, transport: &mut impl Transport) -> Result<(), Stray> {
    loop {
        if let Some(event) = pscom.next_event() {
            let transport = &mut bridge::Layer { bridge, transport: &mut *transport };
            core.event(&mut pscom::Layer { pscom, transport }, event)?;
        } else if let Some(event) = bridge.next_event() {
            pscom.event(&mut bridge::Layer { bridge, transport: &mut *transport }, &event)?;
        } else {
            return Ok(());
        }
    }
}

/// Pscom, and a core that hears of nothing below it: the layer cuts long messages.
fn over_pscom(
    config: Arc<MessageConfig>,
    pscom: PscomConfig,
    (eq, local): (EqId, ProcessId),
    transport: &mut impl Transport,
    queues: &[Queue],
) -> (Core, Box<Pscom>) {
    let mut pscom = Box::new(Pscom::new(pscom, config.rails.first(), config.max_portals_message, eq, transport));
    let config = Arc::unwrap_or_clone(config);
    let config = MessageConfig { max_portals_message: u64::MAX, rails: config.rails.within(), ..config };
    let core = Core::new(Arc::new(config), eq, local, &mut pscom::Layer { pscom: &mut pscom, transport }, queues);
    (core, pscom)
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
        if let Some(bridging) = config.rails.bridging() {
            let ordered = !matches!(config.protocol, Protocol::Pscom(_));
            let mut bridge = Box::new(Bridge::new(Arc::clone(bridging), config.rails.first(), (local, eq), ordered));
            if let Protocol::Pscom(pscom) = config.protocol {
                let layer = &mut bridge::Layer { bridge: &mut bridge, transport };
                let (core, pscom) = over_pscom(config, pscom, (eq, local), layer, queues);
                return Endpoint { core, layer: Layered::Both(pscom, bridge) };
            }
            let core = Core::new(config, eq, local, &mut bridge::Layer { bridge: &mut bridge, transport }, queues);
            return Endpoint { core, layer: Layered::Bridge(bridge) };
        }
        let Protocol::Pscom(pscom) = config.protocol else {
            return Endpoint { core: Core::new(config, eq, local, transport, queues), layer: Layered::Directly };
        };
        let (core, pscom) = over_pscom(config, pscom, (eq, local), transport, queues);
        Endpoint { core, layer: Layered::Pscom(pscom) }
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
        if let Layered::Pscom(pscom) | Layered::Both(pscom, _) = &mut self.layer {
            pscom.renew(transport);
        }
        at_core!(self, transport, core => core.renew(transport));
    }

    /// Takes the overflow blocks out of their lists: what still comes is not kept.
    pub fn close(&mut self, transport: &mut impl Transport) {
        match &mut self.layer {
            Layered::Pscom(pscom) | Layered::Both(pscom, _) => pscom.close(transport),
            Layered::Directly | Layered::Bridge(_) => self.core.close(transport),
        }
    }

    /// The answer to an unlinking that [`Transport::me_unlink`] had no answer to yet.
    pub fn unlinked(&mut self, transport: &mut impl Transport, entry: EntryId, code: ReplyCode) {
        // The layer does not ask for answers, and gives the core its own at once.
        if !matches!(self.layer, Layered::Pscom(_) | Layered::Both(..)) {
            at_core!(self, transport, core => core.unlinked(transport, entry, code));
        }
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
        at_core!(self, transport, core => core.send(transport, send))
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
        at_core!(self, transport, core => core.receive(transport, receive))
    }

    /// Looks for a message that nobody has received yet; a completion follows.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    pub fn peek(&mut self, transport: &mut impl Transport, peek: Peek) -> Result<(), Again> {
        at_core!(self, transport, core => core.peek(transport, peek))
    }

    /// Receives the message that a peek of this context has claimed. What `receive` says about
    /// source, tag and `multi` does not count.
    ///
    /// # Errors
    ///
    /// [`UnknownClaim`] when there is none: the peek has not completed, found nothing, or its message
    /// was already received.
    pub fn receive_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64, receive: Receive) -> Result<(), UnknownClaim> {
        at_core!(self, transport, core => core.receive_claimed(transport, context_of_claim, receive))
    }

    /// Throws the message away that a peek of this context has claimed. Its sender completes; here
    /// no completion follows.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive_claimed`].
    pub fn discard_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64) -> Result<(), UnknownClaim> {
        at_core!(self, transport, core => core.discard_claimed(transport, context_of_claim))
    }

    /// Takes back the oldest receive of this context that has no message yet, which completes as
    /// [`Status::Cancelled`](crate::Status::Cancelled) then: `Some(true)`. `Some(false)`: there is none, or a message
    /// was faster. `None`: the NIC must be asked; a completion of the kind
    /// [`CompletionKind::Cancel`](crate::CompletionKind::Cancel) with `token` as its context will say it.
    pub fn cancel(&mut self, transport: &mut impl Transport, queue: Queue, context: u64, token: u64) -> Option<bool> {
        at_core!(self, transport, core => core.cancel(transport, queue, context, token))
    }

    /// The event is for the firmware of the NIC: it takes effect when it comes, and costs the process nothing.
    pub fn is_for_firmware(&self, event: &Event) -> bool {
        matches!(self.layer, Layered::Directly) && self.core.is_for_firmware(event)
    }

    /// The event only completes something: [`Endpoint::event`] needs no command and no copy for it, so it does not
    /// matter when the process looks at it.
    pub fn only_completes(&self, event: &Event) -> bool {
        match &self.layer {
            Layered::Bridge(bridge) if Bridge::is_ours(event) => bridge.only_completes(event),
            Layered::Directly | Layered::Bridge(_) => self.core.only_completes(event),
            Layered::Both(pscom, bridge) if Bridge::is_ours(event) => {
                bridge.only_completes(event) && bridge.tells(event).is_none_or(|told| pscom.only_completes(&told))
            }
            Layered::Pscom(pscom) | Layered::Both(pscom, _) => pscom.only_completes(event),
        }
    }

    /// One event of the event queue, in the order in which it came.
    ///
    /// # Errors
    ///
    /// [`Stray`] when the event cannot be: it names a request that is not open. The process that sent it, or the
    /// NIC, is broken.
    #[inline]
    pub fn event(&mut self, transport: &mut impl Transport, event: Event) -> Result<(), Stray> {
        let Endpoint { core, layer } = self;
        match layer {
            Layered::Directly => core.event(transport, event),
            Layered::Pscom(pscom) => {
                pscom.event(transport, &event)?;
                settle(core, &mut pscom::Layer { pscom, transport }, |layer| layer.pscom.next_event())
            }
            Layered::Bridge(bridge) => {
                if Bridge::is_ours(&event) {
                    bridge.done(transport, &event);
                } else {
                    core.event(&mut bridge::Layer { bridge, transport }, event)?;
                }
                settle(core, &mut bridge::Layer { bridge, transport }, |layer| layer.bridge.next_event())
            }
            Layered::Both(pscom, bridge) => {
                if Bridge::is_ours(&event) {
                    bridge.done(transport, &event);
                } else {
                    pscom.event(&mut bridge::Layer { bridge, transport: &mut *transport }, &event)?;
                }
                settle_both(core, pscom, bridge, transport)
            }
        }
    }

    /// The gateway of this number is gone: what it has not answered for goes by others.
    pub fn gateway_gone(&mut self, transport: &mut impl Transport, gateway: usize) {
        let Endpoint { core, layer } = self;
        match layer {
            Layered::Directly | Layered::Pscom(_) => {}
            Layered::Bridge(bridge) => {
                bridge.gone(transport, gateway);
                settle(core, &mut bridge::Layer { bridge, transport }, |layer| layer.bridge.next_event()).expect(ONLY_ASKED);
            }
            Layered::Both(pscom, bridge) => {
                bridge.gone(transport, gateway);
                settle_both(core, pscom, bridge, transport).expect(ONLY_ASKED);
            }
        }
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

    /// What it has sent since the start, or the last [`Endpoint::renew`].
    pub fn sent(&self) -> Sent {
        self.core.sent
    }

    /// What is open: for a report of who waits for whom. Not for the hot path.
    pub fn pending(&self) -> Pending {
        self.core.pending()
    }
}
