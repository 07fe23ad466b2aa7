//! Synthetic traffic beside the processes.

use crate::station::{Above, Due, Letter, Name, SOURCES};
use crate::wrapper::{Around, Wrapper, WrapperId};
use narrows_fabric::parallel::Context;
use narrows_fabric::{Arrival, Transfer, TransferId, Undelivered, ZeroLoad};
use narrows_nic::Kinds;
use narrows_traffic::{Background, BackgroundSources, BackgroundTally, Outlet};
use narrows_units::SimTime;

const _: () = assert!(Background::MAX_CLASSES < 8);

/// The sources of a region, until simulated time ends; then it waits for what they have under way.
pub(crate) struct Beside(Option<BackgroundSources>);

impl Beside {
    /// Those of `hosts`, which are of the region, from `begin` on.
    pub(crate) fn begin<L, H>(
        background: &Background,
        hosts: &[u32],
        begin: SimTime,
        fabric: &mut Context<'_, Due, Letter<L, H>>,
    ) -> Beside {
        let mut timer = |at, host, tag| Sources(fabric).timer(at, host, tag);
        Beside(Some(background.begin(hosts, begin, &mut timer)))
    }

    /// What they have sent so far.
    pub(crate) fn tally(&self) -> Option<BackgroundTally> {
        self.0.as_ref().map(BackgroundSources::tally)
    }
}

/// What sources ask for.
struct Sources<'a, 'b, L, H>(&'a mut Context<'b, Due, Letter<L, H>>);

impl<L, H> Outlet for Sources<'_, '_, L, H> {
    fn now(&self) -> SimTime {
        self.0.now()
    }

    fn start(&mut self, transfer: Transfer) {
        self.0.start(transfer);
    }

    fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        let order = SOURCES | (tag >> 28) << 26 | tag & ((1 << 26) - 1);
        self.0.timer(at, host, order, Due::Wrapper(WrapperId::Background, tag));
    }

    fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.0.zero_load(transfer)
    }
}

impl<L: 'static, N: Kinds> Wrapper<L, N> for Beside {
    fn id(&self) -> WrapperId {
        WrapperId::Background
    }

    fn end(&mut self) -> bool {
        self.0 = None;
        false
    }

    fn timer(&mut self, tag: u32, around: &mut Around<'_, '_, L, N>) {
        if let Some(sources) = &mut self.0 {
            sources.strike(tag, &mut Sources(&mut *around.fabric));
        }
    }

    fn source_done(&mut self, (port, number): Name, _: &mut Around<'_, '_, L, N>) -> Option<Name> {
        (!BackgroundSources::owns(TransferId(number))).then_some((port, number))
    }

    /// It has no headers.
    fn packet_in(&self, (port, number): Name) -> Option<Name> {
        (!BackgroundSources::owns(TransferId(number))).then_some((port, number))
    }

    fn tail(&mut self, arrival: Arrival, around: &mut Around<'_, '_, L, N>) -> Option<Arrival> {
        if !BackgroundSources::owns(arrival.id) {
            return Some(arrival);
        }
        if let Some(sources) = &mut self.0 {
            sources.delivered(&arrival, &mut Sources(&mut *around.fabric));
        }
        None
    }

    /// It stays on its network: what that does not bring is gone, and nobody waits for it.
    fn undelivered(&mut self, undelivered: &mut Undelivered, _: &mut Above<N::Header>, _: &mut Context<'_, Due, Letter<L, N::Header>>) {
        for message in undelivered.messages.extract_if(.., |message| BackgroundSources::owns(message.id)) {
            if let Some(sources) = &mut self.0 {
                sources.give_up(message.id);
            }
        }
    }
}
