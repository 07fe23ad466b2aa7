//! Counting events and the triggered operations that wait for them (sections 3.14 and 3.16).

use std::collections::BTreeMap;

use narrows_portals::{Command, CtId, FailType, INTERFACES, Notice};

use crate::interface::Sink;

#[derive(Debug)]
struct Counter {
    id: CtId,
    success: u64,
    failure: u64,
    /// Changes by commands of the process itself; goes back to it with each value.
    commands: u32,
    /// What waits, by threshold and then in the order of issue, with its network interface.
    waiting: BTreeMap<(u64, u64), (u32, Command)>,
}

impl Counter {
    fn reached(&self) -> u64 {
        self.success.saturating_add(self.failure)
    }
}

/// The counting events of one process.
#[derive(Default, Debug)]
pub struct Counters {
    counters: Vec<Option<Counter>>,
    issued: u64,
    /// Triggered operations that wait, and those on their way to the NIC, of each network interface.
    triggered: [u32; INTERFACES as usize],
}

/// Who changes a counting event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A command of the process.
    Process,
    /// The NIC: an operation, or a triggered one.
    Nic,
}

impl Counters {
    /// A counting event is allocated: it counts from 0.
    pub fn alloc(&mut self, ct: CtId) {
        let slot = ct.slot();
        if slot >= self.counters.len() {
            self.counters.resize_with(slot + 1, || None);
        }
        self.counters[slot] = Some(Counter { id: ct, success: 0, failure: 0, commands: 0, waiting: BTreeMap::new() });
    }

    fn get_mut(counters: &mut [Option<Counter>], ct: CtId) -> Option<&mut Counter> {
        counters.get_mut(ct.slot())?.as_mut().filter(|counter| counter.id == ct)
    }

    /// Frees it; what waits for it is forgotten, and comes out.
    pub fn free(&mut self, ct: CtId) -> Vec<Command> {
        let forgotten = self.cancel(ct);
        if Counters::get_mut(&mut self.counters, ct).is_some() {
            self.counters[ct.slot()] = None;
        }
        forgotten
    }

    /// Forgets what waits for it; that comes out.
    pub fn cancel(&mut self, ct: CtId) -> Vec<Command> {
        let Some(counter) = Counters::get_mut(&mut self.counters, ct) else { return Vec::new() };
        let waiting = std::mem::take(&mut counter.waiting);
        let forget = |(interface, command): (u32, Command)| {
            self.triggered[interface as usize] -= 1;
            command
        };
        waiting.into_values().map(forget).collect()
    }

    /// Replaces both fields.
    pub fn set(&mut self, ct: CtId, success: u64, failure: u64, by: By, sink: &mut impl Sink) {
        self.change(ct, by, sink, |counter| (counter.success, counter.failure) = (success, failure));
    }

    /// Adds to both fields.
    pub fn increment(&mut self, ct: CtId, success: u64, failure: u64, by: By, sink: &mut impl Sink) {
        self.change(ct, by, sink, |counter| {
            counter.success = counter.success.wrapping_add(success);
            counter.failure = counter.failure.wrapping_add(failure);
        });
    }

    /// Counts an operation (section 3.14): a success by one or by its bytes, a failure by one.
    pub fn count(&mut self, ct: CtId, fail: FailType, bytes: Option<u64>, sink: &mut impl Sink) {
        match fail {
            FailType::Ok => self.increment(ct, bytes.unwrap_or(1), 0, By::Nic, sink),
            _ => self.increment(ct, 0, 1, By::Nic, sink),
        }
    }

    fn change(&mut self, ct: CtId, by: By, sink: &mut impl Sink, change: impl FnOnce(&mut Counter)) {
        let Some(counter) = Counters::get_mut(&mut self.counters, ct) else { return };
        change(counter);
        if by == By::Process {
            counter.commands = counter.commands.wrapping_add(1);
        }
        sink.notice(Notice::Count { ct, success: counter.success, failure: counter.failure, commands: counter.commands });
        let reached = counter.reached();
        while let Some(first) = counter.waiting.first_entry().filter(|first| first.key().0 <= reached) {
            let (interface, command) = first.remove();
            self.triggered[interface as usize] -= 1;
            sink.fire(command);
        }
    }

    /// A triggered operation is on its way to the NIC.
    pub fn declare(&mut self, interface: u32) {
        self.triggered[interface as usize] += 1;
    }

    /// The command is here: it waits, or is done at once. Without its counting event, which was freed on
    /// the way, it comes out again.
    pub fn wait(&mut self, interface: u32, trigger: CtId, threshold: u64, command: Command, sink: &mut impl Sink) -> Option<Command> {
        let Some(counter) = Counters::get_mut(&mut self.counters, trigger) else {
            self.triggered[interface as usize] -= 1;
            return Some(command);
        };
        if counter.reached() >= threshold {
            self.triggered[interface as usize] -= 1;
            sink.fire(command);
        } else {
            counter.waiting.insert((threshold, self.issued), (interface, command));
            self.issued += 1;
        }
        None
    }

    /// Triggered operations of a network interface that wait, or whose command is on its way.
    pub fn triggered(&self, interface: u32) -> u32 {
        self.triggered[interface as usize]
    }
}
