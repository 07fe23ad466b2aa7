//! SimGrid's time-independent traces: `RANK ACTION ARGUMENTS` per line, in one file or one per rank.
//!
//! Actions and arguments as SimGrid's replay reads them (smpi_replay.cpp): `send|isend|recv|irecv PEER TAG COUNT
//! [TYPE]`, `wait|test SOURCE DESTINATION TAG`, `waitall`, `sendRecv COUNT TO COUNT FROM [TYPE TYPE]`, `compute FLOPS`,
//! `sleep SECONDS`, collectives with counts (on all ranks). Types are the numbers of smpi_datatype.cpp; without one a
//! count is of doubles if `init` has an argument, else of bytes. `test` is left out: the `wait` for the same request
//! stands in the trace too.
//!
//! Work is in floating-point operations: the caller says how many a second takes.

use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::lines::{self, Complain, Lines, Words, show};
use crate::operation::{Collective, CollectiveCall, Kind, Order};
use crate::sequence::Sequence;
use crate::spool::{Spool, Stored};
use narrows_units::{Bytes, Excess, PS_PER_S, SimTime};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};

const MAX_RANKS: u64 = 1 << 24;
/// Largest count of elements: of the largest type more than the longest message, so that the product is what is
/// checked.
const MAX_COUNT: u64 = Bytes::MESSAGE_MAX.0;

/// Bytes of the datatypes 0 to 29 of SimGrid (smpi_datatype.cpp, sizes of x86-64 Linux).
const TYPES: [u64; 30] = [8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8];

/// Reads a trace: a file with the lines of all ranks, or a list of files, one per rank. `file` has been opened as
/// `path`.
///
/// # Errors
/// Whatever `complain` makes of mistakes, or a file that cannot be read.
pub fn read(path: &Path, file: &File, flops_per_s: f64, complain: &mut Complain<'_>) -> Result<Stored, TraceError> {
    // The arguments of some collectives depend on the number of ranks.
    let mut files = Vec::new();
    let mut ranks = 0;
    let mut lines = from_beginning(path, file)?;
    while lines.advance()? {
        let mut words = Words::new(lines.line());
        let Some(first) = words.next().filter(|word| !word.starts_with(b"#")) else { continue };
        match words.next() {
            None => {
                let listed = path.parent().unwrap_or(Path::new("")).join(PathBuf::from(String::from_utf8_lossy(first).into_owned()));
                if !listed.is_file() {
                    let formats = "VEF, GOAL, JSON Lines, or SimGrid's lines: a rank and its action, or the name of a file with them";
                    return Err(lines.malformed(expected(format!("{formats}; there is no file {}", show(first)))));
                }
                files.push(listed);
            }
            Some(_) if is_older_rank(first) => return Err(lines.malformed(older(show(first)))),
            // A wrong line gets its message below.
            Some(_) => ranks = ranks.max(lines::number(first, "a rank", MAX_RANKS - 1).map_or(0, |rank| rank + 1)),
        }
    }
    if !files.is_empty() && ranks > 0 {
        return Err(lines.whole(found("either actions or names of files with actions", "both")));
    }
    if !files.is_empty() {
        ranks = files.len() as u64;
    }
    if ranks == 0 {
        return Err(lines.whole(found("lines of a rank, an action and its arguments", "none")));
    }
    let ranks = ranks as u32;
    let spool = Spool::new(ranks)?;
    let states = (0..ranks).map(|_| State { unit: 1, ..State::default() }).collect();
    let mut reader = Reader { ranks, flops_per_s, spool, states };
    if files.is_empty() {
        reader.all(from_beginning(path, file)?, complain)?;
    }
    for path in files {
        let file = File::open(&path).map_err(TraceError::file(&path))?;
        reader.all(from_beginning(&path, &file)?, complain)?;
    }
    let Reader { mut spool, mut states, .. } = reader;
    for (rank, state) in states.iter_mut().enumerate() {
        state.sequence.end(rank as u32, &mut spool)?;
    }
    spool.finish(Communicators::world(ranks), Order::Sequential)
}

fn from_beginning<'a>(path: &Path, mut file: &'a File) -> Result<Lines<'a>, TraceError> {
    file.rewind().map_err(TraceError::file(path))?;
    Ok(Lines::new(path, BufReader::with_capacity(1 << 16, file)))
}

#[derive(Default)]
struct State {
    sequence: Sequence,
    /// Open requests by source, destination, tag.
    requests: HashMap<(u32, u32, u32), VecDeque<u64>>,
    /// Bytes of the default type.
    unit: u64,
    /// Computing so far.
    work: SimTime,
}

impl State {
    fn compute(&mut self, duration: SimTime) -> Result<(), TraceError> {
        self.work = self.work.checked_add(duration)?;
        self.sequence.compute(duration);
        Ok(())
    }
}

struct Reader {
    ranks: u32,
    flops_per_s: f64,
    spool: Spool,
    states: Vec<State>,
}

impl Reader {
    fn all(&mut self, mut lines: Lines<'_>, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        while lines.advance()? {
            if let Err(error) = self.line(lines.line()) {
                lines.tell(error, complain)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), TraceError> {
        let mut words = Words::new(line);
        let Some(first) = words.next().filter(|word| !word.starts_with(b"#")) else { return Ok(()) };
        if is_older_rank(first) {
            return Err(older(show(first)));
        }
        let rank = lines::number(first, "a rank", u64::from(self.ranks) - 1)? as u32;
        let action = words.word("an action")?;
        let words: Vec<&[u8]> = words.collect();
        let arguments = Arguments { words: &words, ranks: self.ranks, unit: self.states[rank as usize].unit };
        let state = &mut self.states[rank as usize];
        match action {
            b"init" => state.unit = if words.is_empty() { 1 } else { 8 },
            b"finalize" | b"comm_size" | b"comm_split" | b"comm_dup" | b"location" | b"test" => {}
            b"compute" => state.compute(arguments.work(0, self.flops_per_s)?)?,
            b"sleep" => state.compute(arguments.work(0, 1.0)?)?,
            b"send" | b"isend" | b"recv" | b"irecv" if words.len() == 2 => return Err(older("a message without a tag")),
            b"send" | b"isend" | b"recv" | b"irecv" => {
                let kind = message(action, &arguments)?;
                let key = match kind {
                    Kind::Send { to, tag, .. } => (rank, to, tag),
                    Kind::Receive { from, tag, .. } => (from.unwrap_or(u32::MAX), rank, tag.unwrap_or(u32::MAX)),
                    _ => unreachable!("a message"),
                };
                if action.starts_with(b"i") {
                    let number = state.sequence.begin(rank, &mut self.spool, kind)?;
                    state.requests.entry(key).or_default().push_back(number);
                } else {
                    state.sequence.call(rank, &mut self.spool, kind)?;
                }
            }
            b"sendRecv" => {
                let (out, to) = (arguments.bytes(0, Some(4))?, arguments.rank(1)?);
                let (into, from) = (arguments.bytes(2, Some(5))?, arguments.rank(3)?);
                let receive = Kind::Receive { from: Some(from), bytes: Bytes(into), tag: Some(0) };
                let first = state.sequence.begin(rank, &mut self.spool, receive)?;
                state.sequence.call(rank, &mut self.spool, Kind::Send { to, bytes: Bytes(out), tag: 0 })?;
                state.sequence.wait(rank, &mut self.spool, first)?;
            }
            b"wait" => {
                let any = |at: usize| {
                    if words.get(at) == Some(&b"-1".as_slice()) {
                        Ok(u32::MAX)
                    } else {
                        arguments.number(at, u64::from(u32::MAX) - 1).map(|value| value as u32)
                    }
                };
                let key = (any(0)?, any(1)?, any(2)?);
                if let Some(number) = state.requests.get_mut(&key).and_then(VecDeque::pop_front) {
                    state.sequence.wait(rank, &mut self.spool, number)?;
                }
            }
            b"waitall" => {
                let mut open: Vec<u64> = state.requests.drain().flat_map(|(_, line)| line).collect();
                open.sort_unstable();
                for number in open {
                    state.sequence.wait(rank, &mut self.spool, number)?;
                }
            }
            _ => {
                let (call, work) = collective(action, rank, &arguments, self.flops_per_s)?;
                state.sequence.call(rank, &mut self.spool, Kind::Collective(call))?;
                state.compute(work)?;
            }
        }
        Ok(())
    }
}

/// A rank as SimGrid's traces named it before they had tags: `p0`.
fn is_older_rank(word: &[u8]) -> bool {
    word.strip_prefix(b"p").is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

/// What to do with a trace of that form.
fn older(there: impl std::fmt::Display) -> TraceError {
    let rewrite = r"sed -E 's/\bp([0-9]+)/\1/g; s/^([0-9]+) +(I?)(send|recv) +([0-9]+) +([^ ]+)$/\1 \L\2\3\E \4 0 \5/' OLD > NEW";
    expected(format!(
        "numbers as ranks, and tags, as in `0 send 1 0 1e6`; {there} is of an older form of these traces (`p0 send p1 1e6`), \
         which this command rewrites: {rewrite}"
    ))
}

fn message(action: &[u8], arguments: &Arguments<'_>) -> Result<Kind, TraceError> {
    let any = |at: usize| arguments.words.get(at) == Some(&b"-1".as_slice());
    if action.ends_with(b"send") {
        let (to, tag) = (arguments.rank(0)?, arguments.number(1, u64::from(u32::MAX) - 1)? as u32);
        return Ok(Kind::Send { to, tag, bytes: Bytes(arguments.bytes(2, Some(3))?) });
    }
    let from = if any(0) { None } else { Some(arguments.rank(0)?) };
    let tag = if any(1) { None } else { Some(arguments.number(1, u64::from(u32::MAX) - 1)? as u32) };
    // SimGrid: a size that the receiver does not know.
    let bytes = if any(2) { MAX_COUNT } else { arguments.bytes(2, Some(3))? };
    Ok(Kind::Receive { from, tag, bytes: Bytes(bytes) })
}

/// A collective, and what is computed in it.
fn collective(action: &[u8], rank: u32, arguments: &Arguments<'_>, flops_per_s: f64) -> Result<(CollectiveCall, SimTime), TraceError> {
    let n = u64::from(arguments.ranks);
    let ranks = arguments.ranks as usize;
    let sum = |first: usize, datatype| {
        (first..first + ranks).try_fold(0u64, |sum, at| {
            let sum = Bytes(sum + arguments.bytes(at, datatype)?);
            if sum > Bytes::MESSAGE_MAX { Err(TraceError::from(Excess::Message)) } else { Ok(sum.0) }
        })
    };
    let times_n = |bytes: u64| Bytes(bytes).checked_mul(n).map(Bytes::get);
    let root = |at: usize| arguments.optional(at, n - 1).map(|root| root as u32);
    let mut work = SimTime::ZERO;
    let (operation, root, send, receive) = match action {
        b"barrier" => (Collective::Barrier, 0, 0, 0),
        b"bcast" => {
            let (root, bytes) = (root(1)?, arguments.bytes(0, Some(2))?);
            (Collective::Broadcast, root, if rank == root { bytes } else { 0 }, if rank == root { 0 } else { bytes })
        }
        b"reduce" => {
            work = arguments.work(1, flops_per_s)?;
            let (root, bytes) = (root(2)?, arguments.bytes(0, Some(3))?);
            (Collective::Reduce, root, bytes, if rank == root { bytes } else { 0 })
        }
        b"allreduce" | b"scan" | b"exscan" => {
            work = arguments.work(1, flops_per_s)?;
            let bytes = arguments.bytes(0, Some(2))?;
            let operation = match action {
                b"allreduce" => Collective::Allreduce,
                b"scan" => Collective::Scan,
                _ => Collective::Exscan,
            };
            (operation, 0, bytes, bytes)
        }
        b"alltoall" => (Collective::Alltoall, 0, times_n(arguments.bytes(0, Some(2))?)?, times_n(arguments.bytes(1, Some(3))?)?),
        b"gather" => {
            let (root, send) = (root(2)?, arguments.bytes(0, Some(3))?);
            (Collective::Gather, root, send, if rank == root { times_n(send)? } else { 0 })
        }
        b"scatter" => {
            let (root, receive) = (root(2)?, arguments.bytes(1, Some(4))?);
            (Collective::Scatter, root, if rank == root { times_n(receive)? } else { 0 }, receive)
        }
        b"allgather" => {
            let send = arguments.bytes(0, Some(2))?;
            (Collective::Allgather, 0, send, times_n(send)?)
        }
        b"gatherv" => {
            let root = root(1 + ranks)?;
            let total = if rank == root { sum(1, Some(3 + ranks))? } else { 0 };
            (Collective::Gatherv, root, arguments.bytes(0, Some(2 + ranks))?, total)
        }
        b"scatterv" => {
            let root = root(1 + ranks)?;
            let total = if rank == root { sum(0, Some(2 + ranks))? } else { 0 };
            (Collective::Scatterv, root, total, arguments.bytes(ranks, Some(3 + ranks))?)
        }
        b"allgatherv" => {
            let (send, receive) = if arguments.words.len() > 1 + 2 * ranks || arguments.words.len() == 3 + ranks {
                (Some(1 + ranks), Some(2 + ranks))
            } else {
                (None, None)
            };
            (Collective::Allgatherv, 0, arguments.bytes(0, send)?, sum(1, receive)?)
        }
        b"alltoallv" => {
            let (send, receive) = (Some(2 + 2 * ranks), Some(3 + 2 * ranks));
            (Collective::Alltoallv, 0, sum(1, send)?, sum(2 + ranks, receive)?)
        }
        b"reducescatter" => {
            work = arguments.work(ranks, flops_per_s)?;
            let datatype = Some(1 + ranks);
            (Collective::ReduceScatter, 0, sum(0, datatype)?, arguments.bytes(rank as usize, datatype)?)
        }
        other => return Err(found("an action of SimGrid's replay", show(other))),
    };
    Ok((CollectiveCall { operation, communicator: 0, root, send: Bytes(send), receive: Bytes(receive), element: Bytes(0) }, work))
}

/// What stands behind the action.
struct Arguments<'a> {
    words: &'a [&'a [u8]],
    ranks: u32,
    unit: u64,
}

impl Arguments<'_> {
    fn word(&self, at: usize) -> Result<&[u8], TraceError> {
        self.words.get(at).copied().ok_or_else(|| found(format!("{} arguments or more", at + 1), self.words.len()))
    }

    /// A whole number; SimGrid takes 1e6 too.
    fn number(&self, at: usize, max: u64) -> Result<u64, TraceError> {
        let word = self.word(at)?;
        let value = decimal(word).filter(|value| *value <= max as f64);
        value.map(|value| value as u64).ok_or_else(|| found(format!("a number from 0 to {max}"), show(word)))
    }

    fn optional(&self, at: usize, max: u64) -> Result<u64, TraceError> {
        if at < self.words.len() { self.number(at, max) } else { Ok(0) }
    }

    fn rank(&self, at: usize) -> Result<u32, TraceError> {
        self.number(at, u64::from(self.ranks) - 1).map(|rank| rank as u32)
    }

    /// A count, times the size of the type whose number stands further on, if there is one.
    fn bytes(&self, at: usize, datatype: Option<usize>) -> Result<u64, TraceError> {
        let unit = match datatype.filter(|at| *at < self.words.len()) {
            None => self.unit,
            Some(at) => {
                let number = self.number(at, 1 << 16)?;
                let known = TYPES.get(number as usize);
                *known.ok_or_else(|| found(format!("a datatype from 0 to {}", TYPES.len() - 1), number))?
            }
        };
        Ok(Bytes(self.number(at, MAX_COUNT)?).checked_mul(unit)?.get())
    }

    fn work(&self, at: usize, per_s: f64) -> Result<SimTime, TraceError> {
        let word = self.word(at)?;
        let ps = decimal(word).map(|value| (value / per_s * PS_PER_S as f64).round());
        let time = ps.map(|ps| SimTime(ps as u64)).ok_or_else(|| found("an amount of work", show(word)))?;
        if time > SimTime::END { Err(Excess::Time.into()) } else { Ok(time) }
    }
}

/// Not negative, not infinite.
fn decimal(word: &[u8]) -> Option<f64> {
    let plain = word.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
    std::str::from_utf8(word).ok().filter(|_| plain)?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}
