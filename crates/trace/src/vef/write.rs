//! From rank programs to a VEF file.
//!
//! VEF knows messages, not calls: receives are left out, and of all that an operation waits for, the record names the
//! one that comes last on an ideal machine ([`crate::ideal`]), with the computing since then.

use super::code;
use crate::ideal::{self, Observer, Origin, Start};
use crate::operation::{Collective, CollectiveCall, Kind, Program};
use crate::{Communicators, TraceError};
use narrows_units::{Bytes, PS_PER_NS, SimTime};
use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Messages.
    pub messages: u64,
    /// Collective operations.
    pub collectives: u64,
    /// Parts in collective operations.
    pub parts: u64,
    /// What VEF cannot say and how it was put: one line each.
    pub notes: Vec<String>,
}

/// Writes a program; `path` is for messages. The output has to be at its beginning, and seekable: the numbers of the
/// first line are known at the end.
///
/// # Errors
/// The program cannot be read, its operations do not fit together, or the output cannot be written.
pub fn write(path: &Path, output: &mut (impl Write + Seek), program: &mut dyn Program) -> Result<Written, TraceError> {
    let fail = &TraceError::output(path);
    let ranks = program.ranks();
    let communicators = program.communicators().clone();
    output.write_all(header(ranks, communicators.count(), &Written::default()).as_bytes()).map_err(fail)?;
    for communicator in 0..communicators.count() {
        write!(output, "C{communicator}").map_err(fail)?;
        for member in communicators.members(communicator) {
            write!(output, " {member}").map_err(fail)?;
        }
        writeln!(output).map_err(fail)?;
    }
    let mut writer = Writer { path, output, communicators, written: Written::default(), doubles: Vec::new(), notes: BTreeMap::new() };
    let outcome = ideal::run(program, &mut writer)?;
    let Writer { output, mut written, notes, doubles, .. } = writer;
    written.collectives += doubles.len() as u64;
    if let Some(problem) = outcome.problems.first() {
        let others = outcome.problems.len() - 1;
        return Err(TraceError::Unsuitable(format!("the program is not complete: {problem} ({others} more such)")));
    }
    written.notes = notes.into_iter().map(|(text, count)| format!("{count} times: {text}")).collect();
    output.seek(SeekFrom::Start(0)).map_err(fail)?;
    output.write_all(header(ranks, program.communicators().count(), &written).as_bytes()).map_err(fail)?;
    output.flush().map_err(fail)?;
    Ok(written)
}

/// Always of the same length.
fn header(ranks: u32, communicators: u32, written: &Written) -> String {
    let Written { messages, collectives, parts, .. } = written;
    format!("VEF {ranks} {messages:<20} {communicators} {collectives:<20} {parts:<20} TRUE\n")
}

struct Writer<'a, W> {
    path: &'a Path,
    output: &'a mut W,
    communicators: Communicators,
    written: Written,
    /// Collectives that became two.
    doubles: Vec<u64>,
    notes: BTreeMap<&'static str, u64>,
}

impl<W: Write> Writer<'_, W> {
    /// ID of the (last) collective line that stands for a collective.
    fn id(&self, number: u64) -> u64 {
        number + self.doubles.partition_point(|double| *double <= number) as u64
    }

    fn line(&mut self, start: &Start<'_>, record: std::fmt::Arguments<'_>) -> Result<(), TraceError> {
        let time = ns(start.since);
        let result = match start.origin {
            Origin::Run => writeln!(self.output, "{record} 0 {time} -1"),
            Origin::Sent(message) => writeln!(self.output, "{record} 1 {time} {message}"),
            Origin::Received(message) => writeln!(self.output, "{record} 2 {time} {message}"),
            Origin::Collective(number) => writeln!(self.output, "{record} 3 {time} G{}", self.id(number)),
        };
        result.map_err(TraceError::output(self.path))
    }

    fn collective(&mut self, start: &Start<'_>, call: &CollectiveCall) -> Result<(), TraceError> {
        let CollectiveCall { operation, communicator, root, send: Bytes(mut send), receive: Bytes(mut receive), element: _ } = *call;
        let size = u64::from(self.communicators.size(communicator).unwrap_or(1));
        let is_root = self.communicators.position(communicator, start.rank) == Some(root);
        self.written.collectives = self.written.collectives.max(start.number + 1);
        self.written.parts += 1;
        let rank = start.rank;
        let code = match (operation, code(operation)) {
            (Collective::ReduceScatterBlock | Collective::ReduceScatter, _) => return self.reduce_scatter(start, call),
            (Collective::Scan | Collective::Exscan, _) => {
                self.note("a scan, which VEF has not: written as an allreduce");
                2
            }
            (_, Some(code)) => code,
            (_, None) => return Err(TraceError::Unsuitable(format!("VEF has no {}", operation.name()))),
        };
        match operation {
            Collective::Reduce if is_root => send = 0,
            Collective::Alltoall => (send, receive) = (send / size, 0),
            Collective::Alltoallv => receive = 1,
            Collective::Scatter | Collective::Scatterv if is_root => receive = 0,
            _ => {}
        }
        let id = self.id(start.number);
        self.line(start, format_args!("G{id} {communicator} {code} {rank} {send} {receive}"))
    }

    /// A reduce to the first member, then a scatter from it.
    fn reduce_scatter(&mut self, start: &Start<'_>, call: &CollectiveCall) -> Result<(), TraceError> {
        self.note("a reduce-scatter, which VEF has not: written as a reduce and a scatter");
        if self.doubles.binary_search(&start.number).is_err() {
            // Numbers come in order: no later collective has an ID yet.
            self.doubles.push(start.number);
        }
        self.written.parts += 1;
        let scatter = self.id(start.number);
        let (reduce, communicator, rank) = (scatter - 1, call.communicator, start.rank);
        let (code, next) = (1, 4);
        let first = self.communicators.position(communicator, rank) == Some(0);
        let (send, receive) = if first { (0, call.send.0) } else { (call.send.0, 0) };
        self.line(start, format_args!("G{reduce} {communicator} {code} {rank} {send} {receive}"))?;
        let (send, receive) = if first { (call.send.0, 0) } else { (0, call.receive.0) };
        writeln!(self.output, "G{scatter} {communicator} {next} {rank} {send} {receive} 3 0 G{reduce}")
            .map_err(TraceError::output(self.path))
    }

    fn note(&mut self, text: &'static str) {
        *self.notes.entry(text).or_default() += 1;
    }
}

impl<W: Write> Observer for Writer<'_, W> {
    fn start(&mut self, start: &Start<'_>) -> Result<(), TraceError> {
        match &start.operation.kind {
            Kind::Send { to, bytes: Bytes(bytes), .. } => {
                self.written.messages += 1;
                self.line(start, format_args!("{} {} {to} {bytes}", start.number, start.rank))
            }
            Kind::Collective(call) => self.collective(start, call),
            Kind::Compute { .. } | Kind::Receive { .. } => Ok(()),
        }
    }
}

/// Whole nanoseconds, rounded.
fn ns(time: SimTime) -> u64 {
    time.0.saturating_add(PS_PER_NS / 2) / PS_PER_NS
}
