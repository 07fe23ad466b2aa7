//! Messages that a table entry with [`narrows_portals::pt::RETRY`] refuses for now.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Interface;
use narrows_portals::ProcessId;

impl Interface {
    /// Keeps a message that [`Arrival::Hold`] was said of.
    pub fn hold(&mut self, index: u32, from: ProcessId, message: u32) {
        if let Some(table) = self.table_mut(index) {
            table.held.entry(from).or_default().push_back((table.arrivals, message));
            table.arrivals += 1;
            self.held += 1;
        }
    }

    /// Table entries that hold messages for which there may be a place now, and that no
    /// repetition is scheduled for. Marks them scheduled.
    pub fn take_relieved(&mut self, mut schedule: impl FnMut(u32)) {
        if !std::mem::take(&mut self.relieved) || self.held == 0 {
            return;
        }
        for (index, table) in self.tables.iter_mut().enumerate() {
            if let Some(table) = table
                && !table.held.is_empty()
                && !table.retry
            {
                table.retry = true;
                schedule(index as u32);
            }
        }
    }

    /// The initiators repeat what table entry `index` refused: for each initiator, when its first
    /// message arrived, and the initiator.
    pub fn begin_retry(&mut self, index: u32, firsts: &mut BinaryHeap<Reverse<(u64, ProcessId)>>) {
        let Some(table) = self.table_mut(index) else { return };
        table.retry = false;
        firsts.extend(table.held.iter().filter_map(|(&from, messages)| Some(Reverse((messages.front()?.0, from)))));
    }

    /// All messages that are held.
    pub fn held_messages(&self) -> impl Iterator<Item = u32> {
        let tables = self.tables.iter().flatten();
        tables.flat_map(|table| table.held.values().flatten().map(|&(_, message)| message))
    }

    /// The first message that is held of `from`.
    pub fn first_held(&self, index: u32, from: ProcessId) -> Option<u32> {
        Some(self.table(index)?.held.get(&from)?.front()?.1)
    }

    /// Takes that message out; says when the next of `from` arrived, if there is one.
    pub fn take_held(&mut self, index: u32, from: ProcessId) -> Option<u64> {
        let table = self.tables.get_mut(index as usize)?.as_mut()?;
        let messages = table.held.get_mut(&from)?;
        if messages.pop_front().is_some() {
            self.held -= 1;
        }
        let next = messages.front().map(|&(arrival, _)| arrival);
        if next.is_none() {
            table.held.remove(&from);
        }
        next
    }

    /// They are refused for good: all of them, in order of arrival, come out in `refused`.
    pub(super) fn refuse_held(&mut self, index: u32, refused: &mut Vec<u32>) {
        let Some(table) = self.tables.get_mut(index as usize).and_then(Option::as_mut) else { return };
        let mut all: Vec<(u64, u32)> = std::mem::take(&mut table.held).into_values().flatten().collect();
        all.sort_unstable();
        self.held -= all.len() as u64;
        refused.extend(all.into_iter().map(|(_, message)| message));
    }
}
