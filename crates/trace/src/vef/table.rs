//! Where each message of a VEF file went in the rank programs.

use crate::TraceError;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A message that stands in both programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Sending task.
    pub source: u32,
    /// Receiving task.
    pub destination: u32,
    /// Number of the send in the program of the source.
    pub send: u64,
    /// Number of the receive in the program of the destination.
    pub receive: u64,
}

/// Entries per block.
const BLOCK: u64 = 1 << 16;
/// Blocks in memory: the last million messages (25 MiB). References go back by a few per task as a rule.
const BLOCKS: usize = 16;
/// Bytes of an entry: both tasks, both numbers plus one (0: not there).
const SIZE: usize = 24;

/// Entries by message ID; the older ones are in a temporary file.
#[derive(Debug, Default)]
pub struct Table {
    /// First ID of each block, and its entries.
    blocks: Vec<(u64, Vec<Option<Entry>>)>,
    file: Option<File>,
    file_end: u64,
}

impl Table {
    /// The entry of a message, if it has one.
    pub fn get(&self, id: u64) -> Result<Option<Entry>, TraceError> {
        let first = id - id % BLOCK;
        if let Some((_, block)) = self.blocks.iter().rev().find(|(start, _)| *start == first) {
            return Ok(block[(id - first) as usize]);
        }
        let (Some(file), true) = (&self.file, id < self.file_end) else { return Ok(None) };
        let mut bytes = [0; SIZE];
        file.read_exact_at(&mut bytes, id * SIZE as u64).map_err(TraceError::temporary)?;
        Ok(unpack(&bytes))
    }

    /// Sets the entry of a message.
    pub fn set(&mut self, id: u64, entry: Entry) -> Result<(), TraceError> {
        let first = id - id % BLOCK;
        if let Some((_, block)) = self.blocks.iter_mut().rev().find(|(start, _)| *start == first) {
            block[(id - first) as usize] = Some(entry);
            return Ok(());
        }
        if id < self.file_end {
            let Some(file) = &self.file else { unreachable!("what has an end is there") };
            return file.write_all_at(&pack(Some(entry)), id * SIZE as u64).map_err(TraceError::temporary);
        }
        if self.blocks.len() == BLOCKS {
            self.evict()?;
        }
        let mut block = vec![None; BLOCK as usize];
        block[(id - first) as usize] = Some(entry);
        let place = self.blocks.partition_point(|(start, _)| *start < first);
        self.blocks.insert(place, (first, block));
        Ok(())
    }

    /// Writes the block with the lowest IDs.
    fn evict(&mut self) -> Result<(), TraceError> {
        let fail = TraceError::temporary;
        let (first, block) = self.blocks.remove(0);
        let bytes: Vec<u8> = block.iter().flat_map(|entry| pack(*entry)).collect();
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile().map_err(fail)?);
        }
        if let Some(file) = &self.file {
            file.write_all_at(&bytes, first * SIZE as u64).map_err(fail)?;
        }
        self.file_end = self.file_end.max(first + BLOCK);
        Ok(())
    }
}

fn pack(entry: Option<Entry>) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    if let Some(entry) = entry {
        bytes[..4].copy_from_slice(&entry.source.to_le_bytes());
        bytes[4..8].copy_from_slice(&entry.destination.to_le_bytes());
        bytes[8..16].copy_from_slice(&(entry.send + 1).to_le_bytes());
        bytes[16..].copy_from_slice(&(entry.receive + 1).to_le_bytes());
    }
    bytes
}

fn unpack(bytes: &[u8; SIZE]) -> Option<Entry> {
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let whole = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Some(Entry { source: half(0), destination: half(4), send: whole(8).checked_sub(1)?, receive: whole(16).checked_sub(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_come_back_from_the_file() {
        let mut table = Table::default();
        let entry = |id: u64| Entry { source: id as u32, destination: 7, send: id / 3, receive: id };
        let ids: Vec<u64> = (0..40 * BLOCK).step_by(4099).collect();
        for &id in &ids {
            table.set(id, entry(id)).unwrap();
        }
        assert!(table.file_end > 20 * BLOCK, "{}", table.file_end);
        table.set(5, entry(5)).unwrap();
        for &id in ids.iter().chain(&[5]) {
            assert_eq!(table.get(id).unwrap(), Some(entry(id)), "{id}");
        }
        assert_eq!(table.get(6).unwrap(), None);
        assert_eq!(table.get(1 << 40).unwrap(), None);
    }
}
