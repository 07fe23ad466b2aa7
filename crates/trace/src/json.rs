//! Rank programs as JSON Lines: the format that says all that a program can say, for scripts.
//!
//! ```text
//! {"narrows_trace":1,"ranks":2,"order":"sequential","communicators":[[0,1]],"closed":true}
//! {"rank":0,"op":"compute","ps":1000000}
//! {"rank":0,"op":"send","to":1,"bytes":8,"tag":7}
//! {"rank":0,"op":"allreduce","comm":1,"send":8,"recv":8,"after":[0],"after_start":[1]}
//! {"rank":1,"op":"recv","from":0,"bytes":8,"tag":7}
//! {"rank":1,"op":"allreduce","comm":1,"send":8,"recv":8}
//! {"operations":5}
//! ```
//!
//! One line per operation, those of a rank in order, the ranks in any order. `after`: numbers of operations of the same
//! rank, from 0, whose end it waits for; `after_start`: whose start. Without both it waits for the end of the operation
//! before; `"after":[]` waits for nothing. No `from` or `tag` of a `recv`: any. Also: `delay_ps`, `cpu`, `nic`, and
//! `root` (a position in the communicator) of collectives, which have MPI's names in lower case, and `element` (bytes
//! of one element) of those that reduce. `communicators` are number 1 and up; 0 has all ranks. `"closed":true` promises
//! a last line with the number of operations, so that a file that was cut is told from a whole one; a script may leave
//! out both. Without `order` it is `"sequential"`. `mpi` is the MPI library under which a program was recorded, as it
//! calls itself ("Open MPI v4.1.4"): replays use its collectives.

use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::lines::{Complain, Lines, show};
use crate::operation::{Collective, CollectiveCall, Dependency, Event, Kind, Operation, Order, Program};
use crate::spool::{Spool, Stored};
use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::Path;

/// The version that is read and written.
const VERSION: u32 = 1;
const MAX_RANKS: u32 = 1 << 24;

fn sequential() -> String {
    "sequential".to_owned()
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    narrows_trace: u32,
    ranks: u32,
    #[serde(default = "sequential")]
    order: String,
    #[serde(default)]
    communicators: Vec<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mpi: Option<String>,
    #[serde(default)]
    closed: bool,
}

/// The last line.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Close {
    operations: u64,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Record {
    rank: u32,
    op: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recv: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    element: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nic: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_start: Option<Vec<u64>>,
}

/// Reads a program; `path` is for messages.
///
/// # Errors
/// Whatever `complain` makes of mistakes, a wrong first line, or a file that cannot be read.
pub fn read(path: &Path, input: impl BufRead, complain: &mut Complain<'_>) -> Result<Stored, TraceError> {
    let mut lines = Lines::new(path, input);
    if !lines.advance()? {
        return Err(lines.whole(expected("a line with \"narrows_trace\", but the file is empty")));
    }
    let (ranks, order, communicators, mpi, mut open) = header(&lines).map_err(|error| lines.malformed(error))?;
    let is_counted = open;
    let mut spool = Spool::new(ranks)?;
    let mut after = Vec::new();
    let mut records = 0u64;
    while lines.advance()? {
        if lines.line().is_empty() {
            continue;
        }
        if is_counted && lines.line().starts_with(b"{\"operations\"") {
            match serde_json::from_slice::<Close>(lines.line()) {
                Ok(Close { operations }) if operations == records && open => {}
                Ok(Close { operations }) => {
                    lines.tell(expected(format!("{operations} operations before this line, once; found {records}")), complain)?
                }
                Err(error) => lines.tell(error.into(), complain)?,
            }
            open = false;
            continue;
        }
        records += 1;
        if is_counted && !open {
            lines.tell(expected("the end of the file behind the number of operations"), complain)?;
        }
        let pushed =
            record(&lines, &spool, &communicators, order, &mut after).and_then(|(rank, operation)| spool.push(rank, &operation, &after));
        if let Err(error) = pushed {
            lines.tell(error, complain)?;
        }
    }
    if open {
        lines.tell_whole(
            expected("a last line with the number of operations, as the first line says, but the file ends: it was cut"),
            complain,
        )?;
    } else if !is_counted && records == 0 {
        lines.tell_whole(expected("operations behind the first line, but the file ends"), complain)?;
    }
    Ok(spool.finish(communicators, order)?.under(mpi))
}

fn header(lines: &Lines<'_>) -> Result<(u32, Order, Communicators, Option<String>, bool), TraceError> {
    let header: Header = serde_json::from_slice(lines.line())?;
    if header.narrows_trace != VERSION {
        return Err(found(format!("\"narrows_trace\":{VERSION}"), header.narrows_trace));
    }
    if header.ranks == 0 || header.ranks > MAX_RANKS {
        return Err(found(format!("1 to {MAX_RANKS} ranks"), header.ranks));
    }
    let order = match header.order.as_str() {
        "sequential" => Order::Sequential,
        "causal" => Order::Causal,
        "graph" => Order::Graph,
        other => return Err(found("sequential, causal or graph as order", show(other.as_bytes()))),
    };
    let mut communicators = Communicators::world(header.ranks);
    for members in header.communicators {
        let number = communicators.count();
        if communicators.add(members).is_none() {
            return Err(expected(format!("communicator {number} to have ranks below {}, each once", header.ranks)));
        }
    }
    Ok((header.ranks, order, communicators, header.mpi, header.closed))
}

fn record(
    lines: &Lines<'_>,
    spool: &Spool,
    communicators: &Communicators,
    order: Order,
    after: &mut Vec<Dependency>,
) -> Result<(u32, Operation), TraceError> {
    let mut record: Record = serde_json::from_slice(lines.line())?;
    let rank = record.rank;
    let ranks = communicators.size(0).unwrap_or(0);
    let below = |value: u32, what: &str| if value < ranks { Ok(value) } else { Err(found(format!("{what} below {ranks}"), value)) };
    below(rank, "a rank")?;
    let number = spool.operations(rank);
    after.clear();
    match (record.after.take(), record.after_start.take()) {
        (None, None) => after.extend(number.checked_sub(1).map(Dependency::done)),
        (done, started) => {
            after.extend(done.unwrap_or_default().into_iter().map(Dependency::done));
            after.extend(started.unwrap_or_default().into_iter().map(Dependency::started));
        }
    }
    if let Some(wrong) = after.iter().find(|dependency| dependency.operation >= number) {
        return Err(found(format!("dependencies on earlier operations of rank {rank} (this is number {number})"), wrong.operation));
    }
    if order == Order::Sequential && number > 0 && !after.iter().any(|dependency| dependency.operation == number - 1) {
        return Err(expected(format!("a dependency on operation {} of rank {rank}, the one before: the order is sequential", number - 1)));
    }
    let operation = record.op.clone();
    let missing = |key: &str| expected(format!("\"{key}\" with {}", show(operation.as_bytes())));
    let kind = match operation.as_str() {
        "compute" => Kind::Compute { duration: SimTime(record.ps.take().ok_or_else(|| missing("ps"))?) },
        "send" => Kind::Send {
            to: below(record.to.take().ok_or_else(|| missing("to"))?, "a destination")?,
            bytes: Bytes(record.bytes.take().ok_or_else(|| missing("bytes"))?),
            tag: record.tag.take().ok_or_else(|| missing("tag"))?,
        },
        "recv" => Kind::Receive {
            from: record.from.take().map(|from| below(from, "a source")).transpose()?,
            bytes: Bytes(record.bytes.take().ok_or_else(|| missing("bytes"))?),
            tag: record.tag.take(),
        },
        name => {
            let operation = Collective::by_name(name)
                .ok_or_else(|| found("compute, send, recv or a collective such as allreduce", show(name.as_bytes())))?;
            let communicator = record.comm.take().unwrap_or(0);
            let root = record.root.take().unwrap_or(0);
            let Some(size) = communicators.size(communicator) else {
                return Err(found(format!("a communicator below {}", communicators.count()), communicator));
            };
            if communicators.position(communicator, rank).is_none() {
                return Err(found(format!("a communicator with rank {rank}"), communicator));
            }
            if root >= size {
                return Err(found(format!("a root below {size}"), root));
            }
            let (send, receive) = (Bytes(record.send.take().unwrap_or(0)), Bytes(record.recv.take().unwrap_or(0)));
            let element = if operation.reduces() { record.element.take().unwrap_or(0) } else { 0 };
            Kind::Collective(CollectiveCall { operation, communicator, root, send, receive, element: Bytes(element) })
        }
    };
    let delay = SimTime(record.delay_ps.take().unwrap_or(0));
    let (cpu, nic) = (record.cpu.take().unwrap_or(0), record.nic.take().unwrap_or(0));
    let rest = Record { rank, op: operation.clone(), ..Record::default() };
    if let (Ok(left), Ok(none)) = (serde_json::to_string(&record), serde_json::to_string(&rest))
        && left != none
    {
        return Err(found(format!("no other keys with {}", show(operation.as_bytes())), show(left.as_bytes())));
    }
    Ok((rank, Operation { kind, delay, cpu, nic }))
}

/// Writes a program, rank by rank; `path` is for messages.
///
/// # Errors
/// The program cannot be read or the output cannot be written.
pub fn write(path: &Path, output: &mut impl Write, program: &mut dyn Program) -> Result<(), TraceError> {
    let fail = &TraceError::output(path);
    let order = match program.order() {
        Order::Sequential => "sequential",
        Order::Causal => "causal",
        Order::Graph => "graph",
    };
    let known = program.communicators();
    let communicators = (1..known.count()).map(|number| known.members(number).collect()).collect();
    let mpi = program.mpi().map(str::to_owned);
    let header = Header { narrows_trace: VERSION, ranks: program.ranks(), order: order.to_owned(), communicators, mpi, closed: true };
    put(output, &header).map_err(fail)?;
    let (mut after, mut operations) = (Vec::new(), 0);
    if program.order() == Order::Causal {
        // Rank by rank would lose nothing, but a reader of the lines would wait for the last rank's first one.
        let mut live: Vec<(u32, u64)> = (0..program.ranks()).map(|rank| (rank, 0)).collect();
        while !live.is_empty() {
            let mut next = Vec::with_capacity(live.len());
            for (rank, number) in live {
                if let Some(operation) = program.next(rank, &mut after)? {
                    put(output, &line(rank, number, &operation, &after)).map_err(fail)?;
                    next.push((rank, number + 1));
                    operations += 1;
                }
            }
            live = next;
        }
    } else {
        for rank in 0..program.ranks() {
            let mut number = 0;
            while let Some(operation) = program.next(rank, &mut after)? {
                put(output, &line(rank, number, &operation, &after)).map_err(fail)?;
                number += 1;
            }
            operations += number;
        }
    }
    put(output, &Close { operations }).map_err(fail)?;
    output.flush().map_err(fail)
}

fn put(output: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.write_all(b"\n")
}

fn line(rank: u32, number: u64, operation: &Operation, after: &[Dependency]) -> Record {
    let mut record = Record { rank, ..Record::default() };
    match operation.kind {
        Kind::Compute { duration } => (record.op, record.ps) = (String::from("compute"), Some(duration.0)),
        Kind::Send { to, bytes: Bytes(bytes), tag } => {
            record.op = String::from("send");
            (record.to, record.bytes, record.tag) = (Some(to), Some(bytes), Some(tag));
        }
        Kind::Receive { from, bytes: Bytes(bytes), tag } => {
            record.op = String::from("recv");
            (record.from, record.bytes, record.tag) = (from, Some(bytes), tag);
        }
        Kind::Collective(call) => {
            record.op = call.operation.name().to_owned();
            record.comm = (call.communicator != 0).then_some(call.communicator);
            record.root = call.operation.has_root().then_some(call.root);
            (record.send, record.recv) = (Some(call.send.0), Some(call.receive.0));
            record.element = (call.element != Bytes(0)).then_some(call.element.0);
        }
    }
    record.delay_ps = (operation.delay > SimTime::ZERO).then_some(operation.delay.0);
    record.cpu = (operation.cpu != 0).then_some(operation.cpu);
    record.nic = (operation.nic != 0).then_some(operation.nic);
    let usual = match after {
        [] => number == 0,
        [one] => *one == Dependency::done(number.wrapping_sub(1)),
        _ => false,
    };
    if !usual {
        let list = |event| after.iter().filter(|dependency| dependency.event == event).map(|dependency| dependency.operation).collect();
        let (done, started): (Vec<u64>, Vec<u64>) = (list(Event::Done), list(Event::Started));
        record.after = (!done.is_empty() || started.is_empty()).then_some(done);
        record.after_start = (!started.is_empty()).then_some(started);
    }
    record
}
