//! What is at the hosts of a region, and what it can do.

use super::effects::key;
use super::part::Seen;
use crate::port::Ports;
use crate::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use crate::{Arrival, EventKind, Observer, Transfer, TransferId, Tree, TreeError, Undelivered, ZeroLoad};
use narrows_engine::CalendarQueue;
use narrows_units::SimTime;
use std::sync::Arc;

/// What is at the hosts of a region: sources of messages, and whatever counts what arrives. Every function is called in
/// the order of simulated time; which of several at one time comes first does not depend on the regions.
pub trait Agent: Observer + Send + Sized {
    /// Of a message, this agent is notifications only [`Agent::delivered`], as soon as it is known, and neither
    /// [`Agent::source_done`] nor [`Agent::head`] nor [`Agent::tail`] at their times. Saves three events per message.
    /// On the packet network only.
    const EARLY: bool = false;
    /// Some hosts may see packets: see [`crate::seam`]. Where none does nobody pays for it.
    const PACKETS: bool = false;
    /// [`Fabric::digest`] is asked for.
    const DIGEST: bool = true;
    /// Steps of [`Agent::fetch`].
    const STEPS: u32 = 0;
    /// What a timer carries.
    type Event: Copy + Default + Send + std::fmt::Debug;
    /// What goes to the agent of another host beside the network.
    type Letter: Send;
    /// What is between it and a network of packets.
    type Ports: Ports;

    /// An event of `host` is near, that of a timer if there is one: a hint for [`narrows_engine::prefetch`], in steps
    /// from 0 on. What one brings near the next one may follow.
    fn prefetch(&self, _step: u32, _host: u32, _event: Option<&Self::Event>) {}
    /// Much is about to happen at `host`, now and soon: the same in [`Agent::STEPS`] steps.
    fn fetch(&self, _step: u32, _host: u32) {}
    /// A timer strikes.
    fn timer(&mut self, host: u32, order: u32, event: Self::Event, fabric: &mut Context<'_, Self::Event, Self::Letter>);
    /// A letter for a host of the region; see [`Context::post`].
    fn letter(&mut self, _host: u32, _letter: Self::Letter, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// Whether a letter from another process is one that a host of the region can get: all that it names is there.
    fn takes(&self, _host: u32, _letter: &Self::Letter) -> bool {
        true
    }
    /// The last payload byte of a transfer has left the memory of `host`; only for those with [`Transfer::source_dma`]
    /// and a payload.
    fn source_done(&mut self, _host: u32, _id: TransferId, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// Whether [`Agent::head`] does anything for a message that is about to arrive. Where it does not, the packet and
    /// LogGP networks need not tell: one event less.
    fn hears_head(&self, _arrival: &Arrival) -> bool {
        true
    }
    /// The header of a message is in the target's NIC. Messages between two hosts may overtake each other.
    fn head(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// The last byte of a message is through.
    fn tail(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// With [`Agent::EARLY`]: the last byte of a message will be through at `through`, not before now.
    fn delivered(&mut self, _arrival: &Arrival, _through: SimTime, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// With [`Agent::PACKETS`]: whether `host` sees packets, and when ports acknowledge what it sees.
    fn sees(&self, _host: u32) -> Option<Acknowledge> {
        None
    }
    /// With [`Agent::PACKETS`]: a host sees a packet that has come for it. What becomes of it is done before what this
    /// starts.
    fn packet_in(&mut self, _packet: &PacketIn, _fabric: &mut Context<'_, Self::Event, Self::Letter>) -> Verdict {
        Verdict::Pass
    }
    /// With [`Agent::PACKETS`]: a host sees a packet that is about to go.
    fn packet_out(&mut self, _now: SimTime, _packet: &PacketOut) -> Passage {
        Passage::Pass
    }
    /// A port of the region has given a flow up: messages to that host will not arrive.
    fn undelivered(&mut self, _undelivered: &Undelivered, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
}

/// What an [`Agent`] asks for, until it is done. Timers are set at once: what is done first does not matter to them.
#[derive(Debug)]
pub(super) struct Requests<L> {
    /// Any at all.
    pub(super) any: bool,
    pub(super) starts: Vec<Transfer>,
    pub(super) copied: Vec<(Arc<Tree>, Transfer)>,
    /// For a host; the earliest effect.
    pub(super) letters: Vec<(u32, u64, L)>,
}

impl<L> Requests<L> {
    pub(super) const NONE: Requests<L> = Requests { any: false, starts: Vec::new(), copied: Vec::new(), letters: Vec::new() };
}

/// What an [`Agent`] can do.
pub struct Context<'a, E = (), L = ()> {
    pub(super) now: u64,
    pub(super) network: &'a dyn Seen,
    pub(super) queue: &'a mut CalendarQueue<E>,
    pub(super) requests: &'a mut Requests<L>,
}

impl<E, L> Context<'_, E, L> {
    /// The time.
    #[inline]
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// Starts a transfer now. Its source must be a host of the region; its number unique among those of that source in
    /// flight.
    #[inline]
    pub fn start(&mut self, transfer: Transfer) {
        self.requests.any = true;
        self.requests.starts.push(transfer);
    }

    /// Sends one message to all targets of a tree, copied by the switches; `transfer` has the first target, its number
    /// is below 2^31. It arrives at every target, under this number. Where there are several regions there is no
    /// [`Context::tree`].
    pub fn multicast(&mut self, tree: &Arc<Tree>, transfer: Transfer) {
        self.requests.any = true;
        self.requests.copied.push((Arc::clone(tree), transfer));
    }

    /// The tree from `source` to `targets`, which are in rising order, without the source.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError> {
        self.network.tree(source, targets)
    }

    /// Sets a timer of a host of the region. At one time timers strike by host, then `order`: no two of one host have
    /// both in common.
    #[inline]
    pub fn timer(&mut self, at: SimTime, host: u32, order: u32, event: E) {
        self.queue.insert(at.as_ps().max(self.now), key(EventKind::Timer, host, order), event);
    }

    /// Gives the agent of `host` a letter: at once if it is this one, else before the next window, which is before
    /// anything that is started now can arrive. `effect`: nothing comes of it before that time, which is at least that
    /// of the way there; [`SimTime::MAX`] where nothing does.
    #[inline]
    pub fn post(&mut self, host: u32, effect: SimTime, letter: L) {
        self.requests.any = true;
        self.requests.letters.push((host, effect.as_ps(), letter));
    }

    /// The time that `link`, which must start in the region, needs for what waits for it and what it is sending.
    pub fn load(&self, link: u32) -> SimTime {
        self.network.load(link, self.now)
    }

    /// See [`super::Fabric::zero_load`].
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.network.zero_load(transfer)
    }

    /// The links that start in the region.
    pub fn links(&self) -> &[u32] {
        self.network.links()
    }
}
