//! What handlers have done: for people and for scripts.

use narrows_units::SimTime;
use serde::{Deserialize, Serialize};

/// What machines have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinTotals {
    /// Messages whose packets handlers saw.
    pub messages: u64,
    /// Messages that found no free queue: they went to the host without handlers.
    pub bypassed: u64,
    /// Messages that no receive waited for, while a rule asks for receives: they went to the host without handlers.
    pub unexpected: u64,
    /// Messages whose datatype a machine had no room for: the host unpacked them.
    pub unfit: u64,
    /// Packets of those that handlers saw.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Handlers that ran.
    pub handlers: u64,
    /// Cycles for which they had an HPU.
    pub cycles: u64,
    /// Packets that went on to the host.
    pub passed: u64,
    /// Packets that handlers sent.
    pub sent: u64,
    /// Bytes that handlers wrote to the host.
    pub written: u64,
    /// Bytes beyond the end of their message, which were not written.
    pub beyond: u64,
    /// Packets that waited in the port's buffer, as the machine had no room.
    pub waited: u64,
    /// For how long, all together.
    pub waiting: SimTime,
    /// Handlers that went wrong.
    pub failures: u64,
}

impl std::ops::AddAssign for SpinTotals {
    fn add_assign(&mut self, other: SpinTotals) {
        self.messages += other.messages;
        self.bypassed += other.bypassed;
        self.unexpected += other.unexpected;
        self.unfit += other.unfit;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.handlers += other.handlers;
        self.cycles += other.cycles;
        self.passed += other.passed;
        self.sent += other.sent;
        self.written += other.written;
        self.beyond += other.beyond;
        self.waited += other.waited;
        self.waiting += other.waiting;
        self.failures += other.failures;
    }
}

impl std::ops::SubAssign for SpinTotals {
    fn sub_assign(&mut self, other: SpinTotals) {
        self.messages -= other.messages;
        self.bypassed -= other.bypassed;
        self.unexpected -= other.unexpected;
        self.unfit -= other.unfit;
        self.packets -= other.packets;
        self.bytes -= other.bytes;
        self.handlers -= other.handlers;
        self.cycles -= other.cycles;
        self.passed -= other.passed;
        self.sent -= other.sent;
        self.written -= other.written;
        self.beyond -= other.beyond;
        self.waited -= other.waited;
        self.waiting = self.waiting.saturating_sub(other.waiting);
        self.failures -= other.failures;
    }
}

/// What handlers have done, at one NIC or at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerReport {
    /// Of all machines.
    pub totals: SpinTotals,
    /// Messages by rule.
    pub messages: Vec<u64>,
    /// The first handler that went wrong: when, which one, where and why.
    pub failure: Option<(SimTime, String)>,
    /// Packets of handlers that came back to who had sent the message.
    pub came_back: u64,
}

impl HandlerReport {
    /// The same, with times from `epoch` on.
    pub fn since(mut self, epoch: SimTime) -> HandlerReport {
        self.failure = self.failure.map(|(at, failure)| (at.saturating_sub(epoch), failure));
        self
    }

    /// Without what was there before; the first failure stays.
    pub fn subtract(&mut self, before: &HandlerReport) {
        self.totals -= before.totals;
        self.messages.iter_mut().zip(&before.messages).for_each(|(now, before)| *now -= before);
        self.came_back -= before.came_back;
    }

    /// Both together.
    pub fn add(&mut self, other: &HandlerReport) {
        self.totals += other.totals;
        if self.messages.len() < other.messages.len() {
            self.messages.resize(other.messages.len(), 0);
        }
        self.messages.iter_mut().zip(&other.messages).for_each(|(sum, more)| *sum += more);
        self.failure = [self.failure.take(), other.failure.clone()].into_iter().flatten().min();
        self.came_back += other.came_back;
    }
}
