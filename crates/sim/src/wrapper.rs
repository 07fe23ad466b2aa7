//! [`Wrapper`]: what may stand around a station, and [`Wrappers`]: those of a region.
//!
//! A station alone knows NICs, the processes above them and one network below. What looks on, takes messages another
//! way or sends messages beside those of the NICs stands around it, in the order of [`WrapperId`]. A region without
//! wrappers has an empty list.

use crate::Hardware;
use crate::failover::Failover;
use crate::inbound::Label;
use crate::multicast::CopyNotice;
use crate::station::{Above, Due, Letter, Name, PortPlaces};
use narrows_fabric::parallel::Context;
use narrows_fabric::{Arrival, Transfer, Undelivered};
use narrows_nic::{Kinds, Nics};
use narrows_portals::Command;
use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// All wrappers, from the network inwards: each is asked of what comes from the network before those below it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum WrapperId {
    Background,
    Failover,
    Multicasts,
    Watched,
}

/// What a wrapper works with.
pub(crate) struct Around<'a, 'b, L, N: Kinds> {
    pub(crate) above: &'a mut Above<N::Header>,
    pub(crate) nics: &'a mut Nics<N>,
    pub(crate) fabric: &'a mut Context<'b, Due, Letter<L, N::Header>>,
}

/// See the module's page. What a wrapper does not define passes it as it is.
pub(crate) trait Wrapper<L: 'static, N: Kinds>: Any + Send {
    /// Where it stands.
    fn id(&self) -> WrapperId;

    // ---- Simulated time ------------------------------------------------------------------------------------------

    /// It starts.
    fn begin(&mut self, _epoch: SimTime) {}
    /// It ends: whether the wrapper goes, too.
    fn end(&mut self) -> bool {
        false
    }

    // ---- Outwards ------------------------------------------------------------------------------------------------

    /// A process wrote a command to its NIC.
    fn command(&mut self, _written: SimTime, _rank: u32, _command: &Command) {}
    /// A NIC gives a message of so many bytes to the network.
    fn departs(&mut self, _now: SimTime, _label: &Label<N::Header>, _payload: Bytes, _places: &PortPlaces) {}
    /// As what it goes.
    fn start(
        &mut self,
        transfer: Transfer,
        _above: &mut Above<N::Header>,
        _fabric: &mut Context<'_, Due, Letter<L, N::Header>>,
    ) -> Transfer {
        transfer
    }

    // ---- Inwards -------------------------------------------------------------------------------------------------

    /// The source of a message has been read: its name for those further in; none if it is not theirs.
    fn source_done(&mut self, message: Name, _around: &mut Around<'_, '_, L, N>) -> Option<Name> {
        Some(message)
    }
    /// A packet of a message is at its target: the message's name for those further in; none if it is not theirs.
    fn packet_in(&self, message: Name) -> Option<Name> {
        Some(message)
    }
    /// All of a message is at its target: as what those further in know it; none if it is not theirs.
    fn tail(&mut self, arrival: Arrival, _around: &mut Around<'_, '_, L, N>) -> Option<Arrival> {
        Some(arrival)
    }
    /// It wants to be told of all heads.
    fn wants_heads(&self) -> bool {
        false
    }
    /// The NIC of its target has noticed the head of a message.
    fn head_noticed(&mut self, _now: SimTime, _message: Name) {}
    /// The NIC of its target is about to notice its tail.
    fn tail_noticed(&mut self, _now: SimTime, _message: Name) {}
    /// A port has given a flow up: takes out of its messages what it can do something about.
    fn undelivered(
        &mut self,
        _undelivered: &mut Undelivered,
        _above: &mut Above<N::Header>,
        _fabric: &mut Context<'_, Due, Letter<L, N::Header>>,
    ) {
    }

    // ---- What it has asked for itself ----------------------------------------------------------------------------

    /// [`Due::Wrapper`] strikes.
    fn timer(&mut self, _tag: u32, _around: &mut Around<'_, '_, L, N>) {}
    /// It is the turn of [`Action::Wrapper`](crate::station::Action::Wrapper): what a process is told.
    fn act(&mut self, _step: u32, _around: &mut Around<'_, '_, L, N>) -> Option<CopyNotice> {
        None
    }
    /// [`Letter::Wrapper`] is here.
    fn letter(&mut self, _names: [Name; 2]) {}
}

/// The wrappers of a region, from the network inwards.
pub(crate) struct Wrappers<L: 'static, N: Kinds>(Vec<Box<dyn Wrapper<L, N>>>);

impl<L: 'static, N: Kinds> Wrappers<L, N> {
    /// Makes those that a machine asks for, of a region. Others are put among them by who asks for what they do.
    pub(crate) fn of(hardware: &Hardware<'_, N::Config>) -> impl Fn() -> Wrappers<L, N> + use<L, N> {
        let reroutes = Failover::has_rails(hardware);
        move || {
            let mut wrappers = Wrappers(Vec::new());
            if reroutes {
                wrappers.put(Failover::default());
            }
            wrappers
        }
    }

    /// Puts one in its place.
    pub(crate) fn put(&mut self, wrapper: impl Wrapper<L, N>) {
        let place = self.0.partition_point(|other| other.id() < wrapper.id());
        self.0.insert(place, Box::new(wrapper));
    }

    /// The one of this type.
    pub(crate) fn get<W: Wrapper<L, N>>(&mut self) -> Option<&mut W> {
        self.0.iter_mut().find_map(|wrapper| (wrapper.as_mut() as &mut dyn Any).downcast_mut())
    }

    /// The same, put in its place if there is none.
    pub(crate) fn get_or_put<W: Wrapper<L, N> + Default>(&mut self) -> &mut W {
        if self.get::<W>().is_none() {
            self.put(W::default());
        }
        self.get().expect("it has been put in its place")
    }

    fn at(&mut self, id: WrapperId) -> Option<&mut Box<dyn Wrapper<L, N>>> {
        self.0.iter_mut().find(|wrapper| wrapper.id() == id)
    }

    /// See [`Wrapper::begin`].
    pub(crate) fn begin(&mut self, epoch: SimTime) {
        self.0.iter_mut().for_each(|wrapper| wrapper.begin(epoch));
    }

    /// See [`Wrapper::end`].
    pub(crate) fn end(&mut self) {
        self.0.retain_mut(|wrapper| !wrapper.end());
    }

    /// See [`Wrapper::command`].
    #[inline]
    pub(crate) fn command(&mut self, written: SimTime, rank: u32, command: &Command) {
        self.0.iter_mut().for_each(|wrapper| wrapper.command(written, rank, command));
    }

    /// See [`Wrapper::departs`].
    #[inline]
    pub(crate) fn departs(&mut self, now: SimTime, label: &Label<N::Header>, payload: Bytes, places: &PortPlaces) {
        self.0.iter_mut().for_each(|wrapper| wrapper.departs(now, label, payload, places));
    }

    /// See [`Wrapper::start`].
    #[inline]
    pub(crate) fn start(&mut self, transfer: Transfer, above: &mut Above<N::Header>, fabric: &mut Context<'_, Due, Letter<L, N::Header>>) {
        let transfer = self.0.iter_mut().rev().fold(transfer, |transfer, wrapper| wrapper.start(transfer, above, fabric));
        fabric.start(transfer);
    }

    /// See [`Wrapper::source_done`].
    #[inline]
    pub(crate) fn source_done(&mut self, message: Name, around: &mut Around<'_, '_, L, N>) -> Option<Name> {
        self.0.iter_mut().try_fold(message, |message, wrapper| wrapper.source_done(message, around))
    }

    /// See [`Wrapper::packet_in`].
    #[inline]
    pub(crate) fn packet_in(&self, message: Name) -> Option<Name> {
        self.0.iter().try_fold(message, |message, wrapper| wrapper.packet_in(message))
    }

    /// See [`Wrapper::tail`].
    #[inline]
    pub(crate) fn tail(&mut self, arrival: Arrival, around: &mut Around<'_, '_, L, N>) -> Option<Arrival> {
        self.0.iter_mut().try_fold(arrival, |arrival, wrapper| wrapper.tail(arrival, around))
    }

    /// See [`Wrapper::wants_heads`].
    #[inline]
    pub(crate) fn want_heads(&self) -> bool {
        self.0.iter().any(|wrapper| wrapper.wants_heads())
    }

    /// See [`Wrapper::head_noticed`].
    #[inline]
    pub(crate) fn head_noticed(&mut self, now: SimTime, message: Name) {
        self.0.iter_mut().for_each(|wrapper| wrapper.head_noticed(now, message));
    }

    /// See [`Wrapper::tail_noticed`].
    #[inline]
    pub(crate) fn tail_noticed(&mut self, now: SimTime, message: Name) {
        self.0.iter_mut().for_each(|wrapper| wrapper.tail_noticed(now, message));
    }

    /// See [`Wrapper::undelivered`].
    pub(crate) fn undelivered(
        &mut self,
        undelivered: &mut Undelivered,
        above: &mut Above<N::Header>,
        fabric: &mut Context<'_, Due, Letter<L, N::Header>>,
    ) {
        self.0.iter_mut().for_each(|wrapper| wrapper.undelivered(undelivered, above, fabric));
    }

    /// See [`Wrapper::timer`]. A wrapper that is gone has nothing to do.
    pub(crate) fn timer(&mut self, id: WrapperId, tag: u32, around: &mut Around<'_, '_, L, N>) {
        self.at(id).into_iter().for_each(|wrapper| wrapper.timer(tag, around));
    }

    /// See [`Wrapper::act`].
    pub(crate) fn act(&mut self, id: WrapperId, step: u32, around: &mut Around<'_, '_, L, N>) -> Option<CopyNotice> {
        self.at(id)?.act(step, around)
    }

    /// See [`Wrapper::letter`].
    pub(crate) fn letter(&mut self, id: WrapperId, names: [Name; 2]) {
        self.at(id).into_iter().for_each(|wrapper| wrapper.letter(names));
    }
}
