//! GOAL as text.

use super::ANY;
use super::node::{load, node, ns};
use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::graph::Graph;
use crate::lines::{self, Complain, Lines, Words, show};
use crate::operation::{Event, Kind, Order, Program};
use crate::spool::{Spool, Stored};
use narrows_units::Bytes;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::Path;

/// Most ranks.
const MAX_RANKS: u64 = 1 << 24;

/// Reads a text schedule; `path` is for messages.
///
/// # Errors
/// Whatever `complain` makes of mistakes, no number of ranks, or a file that cannot be read.
pub fn read(path: &Path, input: impl BufRead, complain: &mut Complain<'_>) -> Result<Stored, TraceError> {
    let mut lines = Lines::new(path, input);
    let mut text = Vec::new();
    let mut in_comment = false;
    let mut reader: Option<Reader> = None;
    while lines.advance()? {
        uncomment(lines.line(), &mut in_comment, &mut text);
        let mut words = Words::new(&text);
        let Some(first) = words.next() else { continue };
        let result = match (&mut reader, first) {
            (None, b"num_ranks") => {
                let ranks = words.number("the number of ranks", MAX_RANKS).and_then(|ranks| words.end().map(|()| ranks));
                let ranks = match ranks {
                    Ok(0) => Err(found("at least one rank", "0")),
                    other => other,
                };
                let ranks = ranks.map_err(|error| lines.malformed(error))? as u32;
                reader = Some(Reader::new(ranks)?);
                Ok(())
            }
            (None, word) => return Err(lines.malformed(found("num_ranks", show(word)))),
            (Some(reader), _) => reader.line(&text, lines.number()),
        };
        if let Err(error) = result {
            lines.tell(error, complain)?;
        }
        // A rank is over: its graph goes to disk.
        if let Some(reader) = &mut reader
            && let Some(rank) = reader.complete.take()
            && let Err((line, error)) = reader.store(rank, lines.number())
        {
            lines.tell_at(line, error, complain)?;
        }
    }
    let Some(reader) = reader else {
        return Err(lines.whole(expected("num_ranks, but the file has no text")));
    };
    if in_comment {
        lines.tell_whole(expected("the end of a comment (*/), but the file ends"), complain)?;
    }
    if let Some(rank) = reader.rank {
        lines.tell_whole(expected(format!("}} behind the schedule of rank {rank}, but the file ends")), complain)?;
    }
    if let Some(rank) = reader.seen.iter().position(|seen| !seen) {
        lines.tell_whole(found(format!("a schedule for each of the {} ranks", reader.ranks), format!("none for rank {rank}")), complain)?;
    }
    reader.spool.finish(Communicators::world(reader.ranks), Order::Graph)
}

/// The line without comments, with blanks around punctuation.
fn uncomment(line: &[u8], in_comment: &mut bool, text: &mut Vec<u8>) {
    text.clear();
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let skip = if *in_comment {
            let end = rest.starts_with(b"*/");
            *in_comment = !end;
            if end { 2 } else { 1 }
        } else if rest.starts_with(b"//") {
            return;
        } else if rest.starts_with(b"/*") {
            *in_comment = true;
            text.push(b' ');
            2
        } else {
            match byte {
                b':' | b'{' | b'}' => text.extend([b' ', byte, b' ']),
                _ => text.push(byte),
            }
            1
        };
        rest = &rest[skip..];
    }
}

struct Reader {
    ranks: u32,
    spool: Spool,
    seen: Vec<bool>,
    /// The rank whose block is open.
    rank: Option<u32>,
    /// The rank whose block has just ended.
    complete: Option<u32>,
    graph: Graph,
    labels: HashMap<Vec<u8>, u32>,
    /// a, b, event, line: labels may stand further down.
    requires: Vec<(Vec<u8>, Vec<u8>, Event, u64)>,
}

impl Reader {
    fn new(ranks: u32) -> Result<Reader, TraceError> {
        Ok(Reader {
            ranks,
            spool: Spool::new(ranks)?,
            seen: vec![false; ranks as usize],
            rank: None,
            complete: None,
            graph: Graph::default(),
            labels: HashMap::new(),
            requires: Vec::new(),
        })
    }

    fn line(&mut self, line: &[u8], number: u64) -> Result<(), TraceError> {
        let mut words = Words::new(line);
        let first = words.word("a word")?;
        match (self.rank, first) {
            (None, b"rank") => {
                let rank = words.number("a rank", u64::from(self.ranks) - 1)? as u32;
                match words.word("{")? {
                    b"{" => words.end()?,
                    other => return Err(found("{", show(other))),
                }
                if std::mem::replace(&mut self.seen[rank as usize], true) {
                    return Err(found("one schedule per rank", format!("a second one for rank {rank}")));
                }
                self.rank = Some(rank);
                Ok(())
            }
            (None, other) => Err(found("rank", show(other))),
            (Some(rank), b"}") => {
                words.end()?;
                self.rank = None;
                self.complete = Some(rank);
                Ok(())
            }
            (Some(_), b"send" | b"recv" | b"calc") => self.node(first, words).map(|_| ()),
            (Some(_), label) => {
                if !is_label(label) {
                    return Err(found("send, recv, calc, a label or }", show(label)));
                }
                match words.word(": , requires or irequires")? {
                    b":" => {
                        let kind = words.word("send, recv or calc")?;
                        let node = self.node(kind, words)?;
                        match self.labels.insert(label.to_vec(), node) {
                            None => Ok(()),
                            Some(_) => Err(found("each label once", format!("a second {}", show(label)))),
                        }
                    }
                    word @ (b"requires" | b"irequires") => {
                        let event = if word == b"requires" { Event::Done } else { Event::Started };
                        let other = words.word("a label")?;
                        words.end()?;
                        self.requires.push((label.to_vec(), other.to_vec(), event, number));
                        Ok(())
                    }
                    other => Err(found(":, requires or irequires", show(other))),
                }
            }
        }
    }

    fn node(&mut self, kind: &[u8], mut words: Words<'_>) -> Result<u32, TraceError> {
        let (code, size, peer) = match kind {
            b"calc" => (3, words.number("a time", u64::MAX)?, 0),
            b"send" | b"recv" => {
                let word = words.word("bytes")?;
                // "100b" or "100 b".
                let size = match word.strip_suffix(b"b") {
                    Some(size) => lines::number(size, "bytes", u64::MAX)?,
                    None => {
                        let size = lines::number(word, "bytes", u64::MAX)?;
                        match words.word("b")? {
                            b"b" => size,
                            other => return Err(found("b (bytes)", show(other))),
                        }
                    }
                };
                let wanted = if kind == b"send" { "to" } else { "from" };
                let word = words.word("to or from")?;
                if word != wanted.as_bytes() {
                    return Err(found(wanted, show(word)));
                }
                (if kind == b"send" { 1 } else { 2 }, size, any(words.word("a rank")?, "a rank")?)
            }
            other => return Err(found("send, recv or calc", show(other))),
        };
        let (mut tag, mut cpu, mut nic) = (0, 0, 0);
        while let Some(word) = words.next() {
            match word {
                b"tag" if code != 3 => tag = any(words.word("a tag")?, "a tag")?,
                b"cpu" => cpu = words.number("a CPU", 255)? as u8,
                b"nic" => nic = words.number("a NIC", 255)? as u8,
                other => return Err(found("tag, cpu, nic or the end of the line", show(other))),
            }
        }
        self.graph.push(node(code, peer, size, tag, cpu, nic, self.ranks)?)
    }

    /// The block of a rank is over at line `end`. An error comes with its line.
    fn store(&mut self, rank: u32, end: u64) -> Result<(), (u64, TraceError)> {
        let mut graph = std::mem::take(&mut self.graph);
        let labels = std::mem::take(&mut self.labels);
        for (waits, first, event, line) in std::mem::take(&mut self.requires) {
            let label = |name: &[u8]| labels.get(name).copied().ok_or_else(|| (line, found(format!("a label of rank {rank}"), show(name))));
            graph.edges.push((label(&waits)?, label(&first)?, event));
        }
        match graph.store(rank, &mut self.spool) {
            Ok(true) => Ok(()),
            Ok(false) => Err((end, expected(format!("requirements without a circle in rank {rank}")))),
            Err(error) => Err((end, error)),
        }
    }
}

/// A number, or -1 for any.
fn any(word: &[u8], what: &str) -> Result<u32, TraceError> {
    match word {
        b"-1" => Ok(ANY),
        word => lines::number(word, what, u64::from(ANY) - 1).map(|value| value as u32),
    }
}

fn is_label(word: &[u8]) -> bool {
    word[0].is_ascii_alphabetic() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Writes a program. `path` is for messages.
///
/// # Errors
/// The program has collectives or cannot be read, or the output cannot be written.
pub fn write(path: &Path, output: &mut impl Write, program: &mut dyn Program) -> Result<(), TraceError> {
    let fail = &TraceError::output(path);
    writeln!(output, "num_ranks {}", program.ranks()).map_err(fail)?;
    for rank in 0..program.ranks() {
        let mut graph = load(rank, program)?;
        graph.edges.sort_by_key(|(waits, ..)| *waits);
        let mut edges = graph.edges.iter().peekable();
        writeln!(output, "\nrank {rank} {{").map_err(fail)?;
        for (number, operation) in graph.nodes.iter().enumerate() {
            let any = |value: Option<u32>| value.map_or(-1, i64::from);
            match operation.kind {
                Kind::Compute { duration } => write!(output, "l{number}: calc {}", ns(duration)),
                Kind::Send { to, bytes: Bytes(bytes), tag } => write!(output, "l{number}: send {bytes}b to {to} tag {tag}"),
                Kind::Receive { from, bytes: Bytes(bytes), tag } => {
                    write!(output, "l{number}: recv {bytes}b from {} tag {}", any(from), any(tag))
                }
                Kind::Collective(_) => unreachable!("refused when the graph was made"),
            }
            .map_err(fail)?;
            if operation.cpu != 0 || operation.nic != 0 {
                write!(output, " cpu {}", operation.cpu).map_err(fail)?;
            }
            if operation.nic != 0 && !matches!(operation.kind, Kind::Compute { .. }) {
                write!(output, " nic {}", operation.nic).map_err(fail)?;
            }
            writeln!(output).map_err(fail)?;
            while let Some((waits, first, event)) = edges.next_if(|(waits, ..)| *waits as usize == number) {
                let word = if *event == Event::Done { "requires" } else { "irequires" };
                writeln!(output, "l{waits} {word} l{first}").map_err(fail)?;
            }
        }
        writeln!(output, "}}").map_err(fail)?;
    }
    output.flush().map_err(fail)
}
