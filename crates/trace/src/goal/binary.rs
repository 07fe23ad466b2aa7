//! GOAL in the form of txt2bin; the layout stands in the module above.

use super::ANY;
use super::node::{load, node, ns};
use crate::Communicators;
use crate::error::{Location, TraceError, expected, found};
use crate::graph::Graph;
use crate::operation::{Event, Kind, Order, Program};
use crate::spool::{Spool, Stored};
use narrows_units::Bytes;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The first eight bytes, as a little-endian number.
pub const MAGIC: u64 = 4223;
/// What LogGOPSim leaves in files that it has used up.
const USED_UP: u64 = 2342;
/// Offsets in the file count from behind the magic number.
const BASE: u64 = 8;
const NODE: u64 = 39;
const MAX_RANKS: u32 = 1 << 24;

/// Reads a binary schedule.
///
/// # Errors
/// The first place that is not as the format says, or a file that cannot be read.
pub fn read(path: &Path, file: &File) -> Result<Stored, TraceError> {
    let length = file.metadata().map_err(TraceError::file(path))?.len();
    let input = Input { path, file, length };
    match input.bytes(0, 8).map(|bytes| whole(&bytes, 0)) {
        Ok(MAGIC) => {}
        Ok(USED_UP) => return Err(input.mistake(0, expected("a schedule that no simulation with --save-mem has used up"))),
        _ => return Err(input.mistake(0, expected("the number 4223 of a binary GOAL schedule"))),
    }
    let head = input.bytes(BASE, 6)?;
    let ranks = half(&head, 0);
    if ranks == 0 || ranks > MAX_RANKS {
        return Err(input.mistake(BASE, found(format!("1 to {MAX_RANKS} ranks"), ranks)));
    }
    let table = BASE + 6;
    input.check(table, u64::from(ranks) * 16)?;
    let mut spool = Spool::new(ranks)?;
    let mut last = table + u64::from(ranks) * 16;
    for rank in 0..ranks {
        let entry = input.bytes(table + u64::from(rank) * 16, 16)?;
        let (begin, end) = (whole(&entry, 0).saturating_add(BASE), whole(&entry, 8).saturating_add(BASE));
        if begin < table || end < begin || end > length {
            return Err(input.mistake(table + u64::from(rank) * 16, expected(format!("the part of rank {rank} inside the file"))));
        }
        last = last.max(end);
        let graph = part(&input, begin, end, ranks)?;
        if !graph.store(rank, &mut spool)? {
            return Err(input.mistake(begin, expected(format!("requirements without a circle in rank {rank}"))));
        }
    }
    if last < length {
        return Err(
            input.mistake(last, found("the end of the file behind the parts of all ranks", format!("{} more bytes", length - last)))
        );
    }
    spool.finish(Communicators::world(ranks), Order::Graph)
}

fn part(input: &Input<'_>, begin: u64, end: u64, ranks: u32) -> Result<Graph, TraceError> {
    let bytes = input.bytes(begin, end - begin)?;
    let wrong = |offset: u64, error| input.mistake(begin + offset, error);
    if bytes.len() < 8 {
        return Err(wrong(0, expected("the number of nodes and roots")));
    }
    let (count, roots) = (u64::from(half(&bytes, 0)), u64::from(half(&bytes, 4)));
    let nodes = 8 + 4 * roots;
    let lists = nodes + NODE * count;
    if lists > bytes.len() as u64 || !(bytes.len() as u64 - lists).is_multiple_of(4) {
        return Err(wrong(0, expected("as many bytes as the nodes and roots need")));
    }
    let entries = (bytes.len() as u64 - lists) / 4;
    let mut graph = Graph::default();
    let mut promised = vec![0u64; count as usize];
    for number in 0..count {
        let place = nodes + NODE * number;
        let at = &bytes[place as usize..];
        promised[number as usize] = u64::from(half(at, 0));
        let operation = node(at[4], half(at, 5), whole(at, 9), half(at, 17), at[21], at[22], ranks);
        operation.and_then(|operation| graph.push(operation)).map_err(|error| wrong(place, error))?;
        for (position, event) in [(23, Event::Done), (31, Event::Started)] {
            let (length, first) = (u64::from(half(at, position)), u64::from(half(at, position + 4)));
            if length > 0 && first + length > entries {
                return Err(wrong(place, expected("a list of dependents inside the part of the rank")));
            }
            for entry in 0..length {
                let offset = lists + 4 * (first + entry);
                let waits = half(&bytes, offset as usize);
                if u64::from(waits) >= count {
                    return Err(wrong(offset, expected("the number of a node")));
                }
                graph.edges.push((waits, number as u32, event));
            }
        }
        // Lists that overlap would make more of a small file than fits into memory.
        if graph.edges.len() as u64 > entries {
            return Err(wrong(place, expected("each entry of the lists to be used once")));
        }
    }
    let mut counted = vec![0u64; count as usize];
    for (waits, ..) in &graph.edges {
        counted[*waits as usize] += 1;
    }
    match counted.iter().zip(&promised).position(|(counted, promised)| counted != promised) {
        None => Ok(graph),
        Some(number) => {
            let place = nodes + NODE * number as u64;
            Err(wrong(place, found(format!("{} dependencies of node {number}", promised[number]), counted[number])))
        }
    }
}

struct Input<'a> {
    path: &'a Path,
    file: &'a File,
    length: u64,
}

impl Input<'_> {
    fn mistake(&self, offset: u64, error: TraceError) -> TraceError {
        error.at(self.path, Location::Byte(offset))
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), TraceError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(self.mistake(self.length, expected(format!("{length} bytes from byte {offset} on, but the file ends")))),
        }
    }

    fn bytes(&self, offset: u64, length: u64) -> Result<Vec<u8>, TraceError> {
        self.check(offset, length)?;
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset).map_err(TraceError::file(self.path))?;
        Ok(bytes)
    }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn whole(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes a program. `path` is for messages.
///
/// # Errors
/// The program has collectives or cannot be read, or the output cannot be written.
pub fn write(path: &Path, file: &File, program: &mut dyn Program) -> Result<(), TraceError> {
    let fail = &TraceError::output(path);
    let ranks = program.ranks();
    let mut output = BufWriter::new(file);
    let mut table = Vec::with_capacity(ranks as usize * 16);
    let (mut cpus, mut nics) = (0, 0);
    let mut place = 6 + 16 * u64::from(ranks);
    output.seek(SeekFrom::Start(BASE + place)).map_err(fail)?;
    for rank in 0..ranks {
        let graph = load(rank, program)?;
        for operation in &graph.nodes {
            cpus = cpus.max(operation.cpu);
            nics = nics.max(operation.nic);
        }
        let part = pack(&graph);
        table.extend(place.to_le_bytes());
        place += part.len() as u64;
        table.extend(place.to_le_bytes());
        output.write_all(&part).map_err(fail)?;
    }
    output.seek(SeekFrom::Start(0)).map_err(fail)?;
    output.write_all(&MAGIC.to_le_bytes()).map_err(fail)?;
    output.write_all(&ranks.to_le_bytes()).map_err(fail)?;
    output.write_all(&[cpus, nics]).map_err(fail)?;
    output.write_all(&table).map_err(fail)?;
    output.flush().map_err(fail)
}

fn pack(graph: &Graph) -> Vec<u8> {
    let mut missing = vec![0u32; graph.nodes.len()];
    for (waits, ..) in &graph.edges {
        missing[*waits as usize] += 1;
    }
    let roots: Vec<u32> = (0..graph.nodes.len() as u32).filter(|node| missing[*node as usize] == 0).collect();
    let mut edges = graph.edges.clone();
    // By node; first those that wait for its end. The sort is stable: dependents stay in their order.
    edges.sort_by_key(|(_, first, event)| (*first, *event == Event::Started));
    let mut bytes = Vec::with_capacity(8 + 4 * roots.len() + NODE as usize * graph.nodes.len() + 4 * edges.len());
    bytes.extend((graph.nodes.len() as u32).to_le_bytes());
    bytes.extend((roots.len() as u32).to_le_bytes());
    bytes.extend(roots.iter().flat_map(|root| root.to_le_bytes()));
    let mut entry = 0;
    for (number, operation) in graph.nodes.iter().enumerate() {
        let (code, peer, size, tag) = match operation.kind {
            Kind::Send { to, bytes: Bytes(bytes), tag } => (1u8, to, bytes, tag),
            Kind::Receive { from, bytes: Bytes(bytes), tag } => (2, from.unwrap_or(ANY), bytes, tag.unwrap_or(ANY)),
            Kind::Compute { duration } => (3, 0, ns(duration), 0),
            Kind::Collective(_) => unreachable!("refused when the graph was made"),
        };
        bytes.extend(missing[number].to_le_bytes());
        bytes.push(code);
        bytes.extend(peer.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(tag.to_le_bytes());
        bytes.extend([operation.cpu, operation.nic]);
        for wanted in [Event::Done, Event::Started] {
            let own = edges[entry..].iter().take_while(|(_, first, event)| *first as usize == number && *event == wanted).count();
            bytes.extend((own as u32).to_le_bytes());
            bytes.extend((entry as u32).to_le_bytes());
            entry += own;
        }
    }
    bytes.extend(edges.iter().flat_map(|(waits, ..)| waits.to_le_bytes()));
    bytes
}
