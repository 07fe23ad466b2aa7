//! Chakra execution traces of MLCommons: what the ranks of a training do, as PyTorch records it and as ASTRA-sim and
//! generators of workloads write it.
//!
//! One file per rank, `PREFIX.0.et` and up. A file is protobuf (schema/protobuf/et_def.proto of github.com/mlcommons/
//! chakra): a `GlobalMetadata`, then `Node`s, each behind its length as a varint. Nodes and what becomes of them:
//!
//! | node | operation |
//! |---|---|
//! | `COMP_NODE`, `MEM_LOAD_NODE`, `MEM_STORE_NODE` | computing for `duration_micros`; if that is 0, `num_ops` at the rate that the user gives |
//! | `COMM_SEND_NODE` | a send of `comm_size` bytes to `comm_dst`, `comm_tag` |
//! | `COMM_RECV_NODE` | a receive of `comm_size` bytes from `comm_src`, `comm_tag` |
//! | `COMM_COLL_NODE` | the collective `comm_type` of the group `pg_name` |
//! | `METADATA_NODE` | nothing, but others may wait for it |
//!
//! * A rank computes on two units beside the core that communicates: nodes with `is_cpu_op` on CPU 2, all others (the
//!   kernels of its accelerator) on CPU 1. Each does one thing at a time, and none keeps messages from getting on. This
//!   is how ASTRA-sim has it (workload/HardwareResource.cc).
//! * What waits for a send waits until it is handed over, not until the receiver has it: senders have buffers, as
//!   ASTRA-sim's and NCCL's proxies. Rings in which each rank sends and then receives rely on it.
//! * `comm_size` of a collective is what a rank has before it, as in PyTorch's converter and in ASTRA-sim
//!   (system/collective/): of an all-gather its own part, of a reduce-scatter and of an all-to-all what it has for all
//!   together.
//! * A collective of a CPU is the call of the library, which a node of the accelerator follows: it only takes its time.
//! * The members of a group are the ranks whose nodes name it, in order; without `pg_name` all ranks take part.
//!   Collectives of a group run one after another in the order of the file, as in the stream of an NCCL communicator.
//! * `ctrl_deps` and `data_deps` are waited for alike. Only in what PyTorch has recorded (the metadata have a `pid`)
//!   `ctrl_deps` tell who called whom, and may contradict `data_deps`: they are left out there, as Chakra's own feeder
//!   does it.

use crate::Communicators;
use crate::error::{Location, TraceError, expected, found};
use crate::graph::Graph;
use crate::lines::Complain;
use crate::operation::{Collective, CollectiveCall, Event, Kind, Operation, Order};
use crate::spool::{Spool, Stored};
use narrows_output::Meter;
use narrows_units::{Bytes, Excess, PS_PER_NS, PS_PER_S, SimTime};
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest message. Those of PyTorch have some kilobytes.
const MAX_MESSAGE: u64 = 1 << 28;
const MAX_RANKS: u64 = 1 << 24;
const PS_PER_US: u64 = 1_000 * PS_PER_NS;

/// The accelerator of a rank, and its processor: see the head of the module.
const ACCELERATOR: u8 = 1;
const PROCESSOR: u8 = 2;

// The parts of et_def.proto that count here; what else is in a message is skipped.

#[derive(Clone, PartialEq, Message)]
struct GlobalMetadata {
    #[prost(message, repeated, tag = "2")]
    attr: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

const METADATA: i32 = 1;
const MEMORY_LOAD: i32 = 2;
const MEMORY_STORE: i32 = 3;
const COMPUTE: i32 = 4;
const SEND: i32 = 5;
const RECEIVE: i32 = 6;
const COLLECTIVE: i32 = 7;

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(BoolList),
    #[prost(string, tag = "29")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
struct BoolList {
    #[prost(bool, repeated, tag = "1")]
    values: Vec<bool>,
}

impl Node {
    fn attribute(&self, name: &str) -> Option<&Value> {
        self.attr.iter().find(|attribute| attribute.name == name)?.value.as_ref()
    }

    /// A whole number, of whatever type the writer chose; `None` if it is not there.
    fn number(&self, name: &str) -> Result<Option<u64>, TraceError> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        let number = match *value {
            Value::Int32(number) | Value::Sint32(number) | Value::Sfixed32(number) => u64::try_from(number).ok(),
            Value::Int64(number) | Value::Sint64(number) | Value::Sfixed64(number) => u64::try_from(number).ok(),
            Value::Uint32(number) | Value::Fixed32(number) => Some(u64::from(number)),
            Value::Uint64(number) | Value::Fixed64(number) => Some(number),
            Value::Bool(_) | Value::Bools(_) | Value::Text(_) => None,
        };
        number.map(Some).ok_or_else(|| found(format!("a whole number as {name}"), format_args!("{value:?}")))
    }

    fn needed(&self, name: &str) -> Result<u64, TraceError> {
        self.number(name)?.ok_or_else(|| expected(format!("the attribute {name}")))
    }

    fn rank(&self, name: &str, ranks: u32) -> Result<u32, TraceError> {
        let number = self.needed(name)?;
        if number < u64::from(ranks) { Ok(number as u32) } else { Err(found(format!("{name} below {ranks}"), number)) }
    }

    fn is_of_processor(&self) -> bool {
        matches!(self.attribute("is_cpu_op"), Some(Value::Bool(true)))
    }

    /// The group that it names, if it is a collective.
    fn group(&self) -> Option<&str> {
        match self.attribute("pg_name") {
            Some(Value::Text(name)) if self.kind == COLLECTIVE && !self.is_of_processor() => Some(name),
            _ => None,
        }
    }
}

/// Groups by name: number of the communicator.
type Groups = BTreeMap<String, u32>;

/// Reads the files of all ranks; `path` is one of them. `meter` counts bytes.
///
/// # Errors
/// Whatever `complain` makes of mistakes, files that are missing or cannot be read.
pub fn read(path: &Path, flops_per_s: f64, complain: &mut Complain<'_>, meter: &Meter) -> Result<Stored, TraceError> {
    let files = files(path)?;
    let mut total = 0;
    for file in &files {
        total += std::fs::metadata(file).map_err(TraceError::file(file))?.len();
    }
    // They are read twice: who is in which group is known at the end.
    meter.set(0, 2 * total);
    let mut open = |rank: u32| -> Result<(PathBuf, Box<dyn BufRead>), TraceError> {
        let path = &files[rank as usize];
        let file = File::open(path).map_err(TraceError::file(path))?;
        Ok((path.clone(), Box::new(BufReader::with_capacity(1 << 16, file))))
    };
    read_ranks(files.len() as u32, flops_per_s, &mut open, complain, meter)
}

/// The files of all ranks beside one of them.
fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let wrong = |error: TraceError| error.at(path, Location::Whole);
    let parts = |name: &str| -> Option<(String, u64)> {
        let (prefix, rank) = name.strip_suffix(".et")?.rsplit_once('.')?;
        let number: u64 = rank.parse().ok()?;
        (number < MAX_RANKS && number.to_string() == rank).then(|| (prefix.to_owned(), number))
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((prefix, _)) = parts(&name) else {
        return Err(wrong(found("the file of a rank, with a name such as training.0.et", name)));
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut ranks = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(TraceError::file(folder))? {
        let name = entry.map_err(TraceError::file(folder))?.file_name();
        ranks.extend(parts(&name.to_string_lossy()).filter(|(other, _)| *other == prefix).map(|(_, rank)| rank));
    }
    ranks.sort_unstable();
    let file = |rank: u64| path.with_file_name(format!("{prefix}.{rank}.et"));
    match (0..).zip(&ranks).find(|(next, rank)| next != *rank) {
        Some((next, _)) => Err(wrong(expected(format!("the files of all ranks from 0 on, but there is no {}", file(next).display())))),
        None => Ok(ranks.into_iter().map(file).collect()),
    }
}

/// Reads a program whose ranks `open` opens, with a name for messages; each is opened twice.
///
/// # Errors
/// As [`read`].
pub fn read_ranks(
    ranks: u32,
    flops_per_s: f64,
    open: &mut dyn FnMut(u32) -> Result<(PathBuf, Box<dyn BufRead>), TraceError>,
    complain: &mut Complain<'_>,
    meter: &Meter,
) -> Result<Stored, TraceError> {
    let mut members: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for rank in 0..ranks {
        let (path, input) = open(rank)?;
        let mut messages = Messages::new(path, input, meter);
        messages.metadata()?;
        while messages.advance()?.is_some() {
            // What is wrong with it is said below.
            let Ok(node) = messages.decode::<Node>() else { continue };
            if let Some(group) = node.group() {
                let members = members.entry(group.to_owned()).or_default();
                if members.last() != Some(&rank) {
                    members.push(rank);
                }
            }
        }
    }
    let mut communicators = Communicators::world(ranks);
    let groups: Groups = members
        .into_iter()
        .map(|(name, members)| (name, communicators.add(members).expect("ranks of the program, each once and at least one")))
        .collect();
    let mut spool = Spool::new(ranks)?;
    for rank in 0..ranks {
        let (path, input) = open(rank)?;
        let mut messages = Messages::new(path, input, meter);
        let reader = Reader { rank, flops_per_s, communicators: &communicators, groups: &groups };
        reader.rank(&mut messages, &mut spool, complain)?;
    }
    spool.finish(communicators, Order::Graph)
}

/// Of one rank.
struct Reader<'a> {
    rank: u32,
    flops_per_s: f64,
    communicators: &'a Communicators,
    groups: &'a Groups,
}

impl Reader<'_> {
    fn rank(&self, messages: &mut Messages<'_>, spool: &mut Spool, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        let calls_are_deps = messages.metadata()?.attr.iter().any(|attribute| attribute.name == "pid");
        let mut graph = Graph::default();
        // Number of each node, and who waits for which node: number, node, place in the file.
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        let mut waits: Vec<(u32, u64, u64)> = Vec::new();
        // The last collective of each communicator.
        let mut last: HashMap<u32, u32> = HashMap::new();
        while let Some(place) = messages.advance()? {
            let node = match messages.decode::<Node>() {
                Ok(node) => node,
                Err(error) => {
                    messages.tell(place, error, complain)?;
                    continue;
                }
            };
            let named = |error: TraceError| error.within(format!("node {} ({})", node.id, crate::lines::show(node.name.as_bytes())));
            let pushed = self.operation(&node).and_then(|operation| Ok((graph.push(operation)?, operation)));
            let (number, operation) = match pushed {
                Ok(pushed) => pushed,
                Err(error) => {
                    messages.tell(place, named(error), complain)?;
                    // Others may wait for it.
                    let nothing = Operation::new(Kind::Compute { duration: SimTime::ZERO });
                    (graph.push(nothing).map_err(|error| messages.malformed(place, error))?, nothing)
                }
            };
            if numbers.insert(node.id, number).is_some() {
                messages.tell(place, named(expected("a number that no node before it has")), complain)?;
            }
            if let Kind::Collective(call) = operation.kind
                && let Some(before) = last.insert(call.communicator, number)
            {
                graph.edges.push((number, before, Event::Done));
            }
            let called_by = if calls_are_deps { &[][..] } else { &node.ctrl_deps };
            let mut dependencies = [called_by, &node.data_deps].concat();
            dependencies.sort_unstable();
            dependencies.dedup();
            waits.extend(dependencies.into_iter().map(|dependency| (number, dependency, place)));
        }
        for (number, dependency, place) in waits {
            match numbers.get(&dependency) {
                Some(&first) => {
                    let is_send = matches!(graph.nodes[first as usize].kind, Kind::Send { .. });
                    graph.edges.push((number, first, if is_send { Event::Started } else { Event::Done }));
                }
                None => messages.tell(place, found("dependencies on nodes of the file", dependency), complain)?,
            }
        }
        if !graph.store(self.rank, spool)? {
            let what = "dependencies without a circle (collectives of a group wait for each other in the order of the file)";
            return Err(expected(what).at(&messages.path, Location::Whole));
        }
        Ok(())
    }

    fn operation(&self, node: &Node) -> Result<Operation, TraceError> {
        let ranks = self.communicators.size(0).unwrap_or(0);
        let tag = || {
            let tag = node.number("comm_tag")?.unwrap_or(0);
            u32::try_from(tag).map_err(|_| found("comm_tag below 2^32", tag))
        };
        let kind = match node.kind {
            COLLECTIVE if !node.is_of_processor() => self.collective(node)?,
            SEND if !node.is_of_processor() => {
                Kind::Send { to: node.rank("comm_dst", ranks)?, bytes: Bytes(node.needed("comm_size")?), tag: tag()? }
            }
            RECEIVE if !node.is_of_processor() => {
                Kind::Receive { from: Some(node.rank("comm_src", ranks)?), bytes: Bytes(node.needed("comm_size")?), tag: Some(tag()?) }
            }
            METADATA => Kind::Compute { duration: SimTime::ZERO },
            COMPUTE | MEMORY_LOAD | MEMORY_STORE | COLLECTIVE | SEND | RECEIVE => Kind::Compute { duration: self.duration(node)? },
            other => return Err(found("a type from 1 to 7", other)),
        };
        let cpu = match kind {
            Kind::Compute { .. } if node.kind == METADATA => 0,
            Kind::Compute { .. } if node.is_of_processor() => PROCESSOR,
            Kind::Compute { .. } => ACCELERATOR,
            _ => 0,
        };
        Ok(Operation { cpu, ..Operation::new(kind) })
    }

    fn duration(&self, node: &Node) -> Result<SimTime, TraceError> {
        match (node.duration_micros, node.number("num_ops")?) {
            (0, Some(operations)) => {
                let ps = operations as f64 / self.flops_per_s * PS_PER_S as f64;
                if ps < SimTime::END.as_ps() as f64 { Ok(SimTime(ps.round() as u64)) } else { Err(Excess::Time.into()) }
            }
            (duration, _) => Ok(SimTime(duration.checked_mul(PS_PER_US).ok_or(Excess::Time)?)),
        }
    }

    fn collective(&self, node: &Node) -> Result<Kind, TraceError> {
        let communicator = match (node.group(), node.attribute("pg_name"), node.attribute("involved_dim")) {
            (Some(name), ..) => self.groups[name],
            (None, Some(other), _) => return Err(found("a text as pg_name", format_args!("{other:?}"))),
            (None, None, Some(Value::Bools(dimensions))) if dimensions.values.contains(&false) => {
                return Err(expected("pg_name, because involved_dim leaves out dimensions of a network that only ASTRA-sim knows"));
            }
            _ => 0,
        };
        let size = self.communicators.size(communicator).unwrap_or(0);
        let n = u64::from(size);
        // In the order of CollectiveCommType.
        let operation = match node.needed("comm_type")? {
            0 => Collective::Allreduce,
            1 => Collective::Reduce,
            2 => Collective::Allgather,
            3 => Collective::Gather,
            4 => Collective::Scatter,
            5 => Collective::Broadcast,
            6 => Collective::Alltoall,
            7 | 8 => Collective::ReduceScatterBlock,
            9 => Collective::Barrier,
            other => return Err(found("comm_type from 0 (all-reduce) to 9 (barrier)", other)),
        };
        let root = match operation {
            Collective::Broadcast | Collective::Scatter => self.root(node, "comm_src", communicator)?,
            Collective::Reduce | Collective::Gather => self.root(node, "comm_dst", communicator)?,
            _ => 0,
        };
        let at_root = self.communicators.position(communicator, self.rank) == Some(root);
        let own = if operation == Collective::Barrier { 0 } else { node.needed("comm_size")? };
        // What is too large for a message is refused when the operation is kept.
        let all = own.saturating_mul(n);
        let part = own.div_ceil(n.max(1));
        let (send, receive) = match operation {
            Collective::Allgather => (own, all),
            Collective::Alltoall => (part * n, part * n),
            Collective::ReduceScatterBlock => (own, part),
            Collective::Broadcast => (if at_root { own } else { 0 }, if at_root { 0 } else { own }),
            Collective::Reduce => (own, if at_root { own } else { 0 }),
            Collective::Gather => (own, if at_root { all } else { 0 }),
            Collective::Scatter => (if at_root { own } else { 0 }, part),
            _ => (own, own),
        };
        Ok(Kind::Collective(CollectiveCall {
            operation,
            communicator,
            root,
            send: Bytes(send),
            receive: Bytes(receive),
            element: Bytes(0),
        }))
    }

    /// The position of the root: the first member unless an attribute names another rank.
    fn root(&self, node: &Node, attribute: &str, communicator: u32) -> Result<u32, TraceError> {
        if node.attribute(attribute).is_none() {
            return Ok(0);
        }
        let rank = node.rank(attribute, self.communicators.size(0).unwrap_or(0))?;
        let position = self.communicators.position(communicator, rank);
        position.ok_or_else(|| found(format!("a member of the group as {attribute}"), rank))
    }
}

/// The messages of a file.
struct Messages<'a> {
    path: PathBuf,
    input: Box<dyn BufRead>,
    meter: &'a Meter,
    /// Read so far.
    offset: u64,
    bytes: Vec<u8>,
}

impl Messages<'_> {
    fn new(path: PathBuf, input: Box<dyn BufRead>, meter: &Meter) -> Messages<'_> {
        Messages { path, input, meter, offset: 0, bytes: Vec::new() }
    }

    fn malformed(&self, place: u64, error: TraceError) -> TraceError {
        error.at(&self.path, Location::Byte(place))
    }

    fn tell(&self, place: u64, error: TraceError, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        complain(error.mistake(&self.path, Location::Byte(place))?)
    }

    fn metadata(&mut self) -> Result<GlobalMetadata, TraceError> {
        let place = self.advance()?.ok_or_else(|| self.malformed(0, expected("a GlobalMetadata message, but the file is empty")))?;
        self.decode().map_err(|error| match self.bytes.first() {
            // What gzip writes has 0x1f 0x8b at its beginning: a length of 31 bytes and then this.
            Some(0x8b) => self.malformed(0, expected("a file that is not compressed (gunzip makes one)")),
            _ => self.malformed(place, error),
        })
    }

    /// Goes to the next message; where it begins, or `None` at the end of the file.
    fn advance(&mut self) -> Result<Option<u64>, TraceError> {
        let place = self.offset;
        let mut length = 0u64;
        let cut = |this: &Self| this.malformed(place, expected("a message behind its length, but the file ends: it was cut"));
        for shift in (0..).step_by(7) {
            let mut byte = [0];
            let read = self.input.read(&mut byte).map_err(TraceError::file(&self.path))?;
            if read == 0 {
                return if shift == 0 { Ok(None) } else { Err(cut(self)) };
            }
            self.offset += 1;
            length |= u64::from(byte[0] & 0x7f) << shift;
            if length > MAX_MESSAGE {
                return Err(self.malformed(place, expected(format!("a message of at most {MAX_MESSAGE} bytes"))));
            }
            if byte[0] < 0x80 {
                break;
            }
            if shift == 28 {
                return Err(self.malformed(place, expected("the length of a message as a varint of at most five bytes")));
            }
        }
        self.bytes.clear();
        let read = self.input.by_ref().take(length).read_to_end(&mut self.bytes).map_err(TraceError::file(&self.path))?;
        self.offset += read as u64;
        self.meter.add(self.offset - place);
        if (read as u64) < length { Err(cut(self)) } else { Ok(Some(place)) }
    }

    /// The message at which it is.
    fn decode<M: Message + Default>(&self) -> Result<M, TraceError> {
        M::decode(&self.bytes[..]).map_err(|error| expected(format!("a message of et_def.proto: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dependency, Program, ideal};
    use std::io::Cursor;

    fn int(name: &str, value: i64) -> Attribute {
        Attribute { name: name.to_owned(), value: Some(Value::Int64(value)) }
    }

    fn group(name: &str) -> Attribute {
        Attribute { name: String::from("pg_name"), value: Some(Value::Text(name.to_owned())) }
    }

    fn on_processor() -> Attribute {
        Attribute { name: String::from("is_cpu_op"), value: Some(Value::Bool(true)) }
    }

    fn node(id: u64, kind: i32, data_deps: &[u64], attr: Vec<Attribute>) -> Node {
        Node { id, name: format!("n{id}"), kind, data_deps: data_deps.to_vec(), attr, ..Node::default() }
    }

    fn compute(id: u64, us: u64, data_deps: &[u64]) -> Node {
        Node { duration_micros: us, ..node(id, COMPUTE, data_deps, Vec::new()) }
    }

    fn file(metadata: Vec<Attribute>, nodes: &[Node]) -> Vec<u8> {
        let mut bytes = GlobalMetadata { attr: metadata }.encode_length_delimited_to_vec();
        nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
        bytes
    }

    fn read_all(ranks: &[Vec<u8>]) -> (Result<Stored, TraceError>, Vec<String>) {
        let mut mistakes = Vec::new();
        let mut open = |rank: u32| -> Result<(PathBuf, Box<dyn BufRead>), TraceError> {
            Ok((PathBuf::from(format!("x.{rank}.et")), Box::new(Cursor::new(ranks[rank as usize].clone()))))
        };
        let result = read_ranks(
            ranks.len() as u32,
            1e9,
            &mut open,
            &mut |mistake| {
                mistakes.push(mistake.to_string());
                Ok(())
            },
            &Meter::default(),
        );
        (result, mistakes)
    }

    fn good(ranks: &[Vec<u8>]) -> Stored {
        let (result, mistakes) = read_all(ranks);
        assert_eq!(mistakes, Vec::<String>::new());
        result.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The mistakes, and the error at the end of the reading.
    fn wrong(ranks: &[Vec<u8>]) -> String {
        let (result, mut mistakes) = read_all(ranks);
        mistakes.extend(result.err().map(|error| error.to_string()));
        mistakes.join("; ")
    }

    fn operations(program: &mut Stored, rank: u32) -> Vec<(Operation, Vec<Dependency>)> {
        let (mut list, mut after) = (Vec::new(), Vec::new());
        while let Some(operation) = program.next(rank, &mut after).unwrap_or_else(|error| panic!("{error}")) {
            list.push((operation, after.clone()));
        }
        list
    }

    #[test]
    fn nodes_become_operations_on_the_units_of_a_rank() {
        let first = [
            compute(7, 3, &[]),
            Node { ctrl_deps: vec![7], ..node(8, SEND, &[], vec![int("comm_dst", 1), int("comm_size", 100), int("comm_tag", 4)]) },
            Node { duration_micros: 2, ..node(9, COMPUTE, &[7, 8], vec![on_processor()]) },
            // Without a time: 5000 operations at 1 Gflop/s.
            node(10, COMPUTE, &[], vec![int("num_ops", 5000)]),
            // The library's call on the CPU.
            Node { duration_micros: 1, ..node(11, COLLECTIVE, &[], vec![on_processor()]) },
            node(12, METADATA, &[10], Vec::new()),
        ];
        let second = [node(0, RECEIVE, &[], vec![int("comm_src", 0), int("comm_size", 100), int("comm_tag", 4)])];
        let mut program = good(&[file(Vec::new(), &first), file(Vec::new(), &second)]);
        // What waits for a send waits for its start.
        let after = vec![Dependency::done(0), Dependency::started(1)];
        let done = |numbers: &[u64]| numbers.iter().map(|number| Dependency::done(*number)).collect::<Vec<_>>();
        let computing = |us, cpu| Operation { cpu, ..Operation::new(Kind::Compute { duration: SimTime::from_us(us) }) };
        let expected = vec![
            (computing(3, ACCELERATOR), done(&[])),
            (Operation::new(Kind::Send { to: 1, bytes: Bytes(100), tag: 4 }), done(&[0])),
            (computing(2, PROCESSOR), after),
            (computing(5, ACCELERATOR), done(&[])),
            (computing(1, PROCESSOR), done(&[])),
            (computing(0, 0), done(&[3])),
        ];
        assert_eq!(operations(&mut program, 0), expected);
        let receive = Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(100), tag: Some(4) });
        assert_eq!(operations(&mut program, 1), vec![(receive, Vec::new())]);
    }

    /// A group has the ranks that name it; sizes are what a rank has before the collective.
    #[test]
    fn collectives_of_groups_one_after_another() {
        let collective =
            |id, kind, size, name: &str| node(id, COLLECTIVE, &[], vec![int("comm_type", kind), int("comm_size", size), group(name)]);
        let of = |rank: u64| {
            let own = if rank.is_multiple_of(2) { "even" } else { "odd" };
            let mut list: Vec<Node> = (0..9).map(|kind| collective(kind as u64, kind, 1000, own)).collect();
            list.push(node(20, COLLECTIVE, &[], vec![int("comm_type", 9)]));
            file(Vec::new(), &list)
        };
        let mut program = good(&[of(0), of(1), of(2), of(3), of(4)]);
        assert_eq!(program.communicators().members(1).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(program.communicators().members(2).collect::<Vec<_>>(), [1, 3]);
        let list = operations(&mut program, 2);
        let sizes: Vec<_> = list
            .iter()
            .map(|(operation, _)| match operation.kind {
                Kind::Collective(call) => (call.operation, call.communicator, call.send.0, call.receive.0),
                other => panic!("{other}"),
            })
            .collect();
        let expected = [
            (Collective::Allreduce, 1, 1000, 1000),
            (Collective::Reduce, 1, 1000, 0),
            (Collective::Allgather, 1, 1000, 3000),
            (Collective::Gather, 1, 1000, 0),
            (Collective::Scatter, 1, 0, 334),
            (Collective::Broadcast, 1, 0, 1000),
            (Collective::Alltoall, 1, 1002, 1002),
            (Collective::ReduceScatterBlock, 1, 1000, 334),
            (Collective::ReduceScatterBlock, 1, 1000, 334),
            (Collective::Barrier, 0, 0, 0),
        ];
        assert_eq!(sizes, expected);
        let after: Vec<_> = list.iter().map(|(_, after)| after.clone()).collect();
        assert_eq!((after[0].len(), &after[1], after[9].len()), (0, &vec![Dependency::done(0)], 0));
        program.rewind();
        let outcome = ideal::run(&mut program, &mut ideal::Nobody).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((outcome.collectives, outcome.problems), (2 * 9 + 1, Vec::new()));
    }

    /// Kernels of the accelerator overlap with the processor, not with each other: 3 + 4 us beside 5 us.
    #[test]
    fn units_work_side_by_side() {
        let nodes = [compute(0, 3, &[]), Node { duration_micros: 5, ..node(1, COMPUTE, &[], vec![on_processor()]) }, compute(2, 4, &[])];
        let mut program = good(&[file(Vec::new(), &nodes)]);
        let outcome = ideal::run(&mut program, &mut ideal::Nobody).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.finish, [SimTime::from_us(7)]);
    }

    /// In traces of PyTorch control dependencies say who called whom.
    #[test]
    fn control_dependencies_of_pytorch_are_left_out() {
        let nodes = [Node { ctrl_deps: vec![0, 1, 77], ..compute(0, 1, &[]) }, compute(1, 1, &[0])];
        let mut program = good(&[file(vec![int("pid", 4711)], &nodes)]);
        assert_eq!(operations(&mut program, 0)[1].1, [Dependency::done(0)]);
        assert!(wrong(&[file(Vec::new(), &nodes)]).contains("expected dependencies on nodes of the file, found 77"));
    }

    #[test]
    fn a_node_may_stand_before_what_it_waits_for() {
        let mut program = good(&[file(Vec::new(), &[compute(1, 1, &[2]), compute(2, 2, &[])])]);
        let list = operations(&mut program, 0);
        assert_eq!((list[0].0.kind, list[1].1.clone()), (Kind::Compute { duration: SimTime::from_us(2) }, vec![Dependency::done(0)]));
    }

    #[test]
    fn mistakes_have_a_file_and_a_place() {
        let text = |nodes: &[Node]| wrong(&[file(Vec::new(), nodes)]);
        assert_eq!(
            text(&[node(5, SEND, &[], vec![int("comm_size", 1)])]),
            "x.0.et: byte 1: node 5 ('n5'): expected the attribute comm_dst"
        );
        assert!(text(&[node(5, SEND, &[], vec![int("comm_size", 1), int("comm_dst", 1)])]).contains("expected comm_dst below 1, found 1"));
        assert!(text(&[node(5, 8, &[], Vec::new())]).contains("expected a type from 1 to 7, found 8"));
        assert!(text(&[compute(5, 1, &[]), compute(5, 1, &[])]).contains("byte 12: node 5 ('n5'): expected a number that no node before"));
        assert!(text(&[compute(5, 1, &[6]), compute(6, 1, &[5])]).contains("without a circle"));
        assert!(text(&[compute(5, u64::MAX, &[])]).contains("200 days"));
        let collective = |attr: Vec<Attribute>| text(&[node(5, COLLECTIVE, &[], attr)]);
        assert!(collective(vec![int("comm_type", 10), int("comm_size", 1)]).contains("found 10"));
        assert!(collective(vec![int("comm_type", 0), int("comm_size", -1)]).contains("expected a whole number as comm_size"));
        assert!(collective(vec![int("comm_type", 0), int("comm_size", 1 << 50)]).contains("byte 1: node 5"));
        let dimensions = Some(Value::Bools(BoolList { values: vec![true, false] }));
        let attribute = Attribute { name: String::from("involved_dim"), value: dimensions };
        assert!(collective(vec![int("comm_type", 0), int("comm_size", 1), attribute]).contains("expected pg_name"));
        let whole = file(Vec::new(), &[compute(5, 1, &[])]);
        assert_eq!(
            wrong(&[whole[..whole.len() - 1].to_vec()]),
            "x.0.et: byte 1: expected a message behind its length, but the file ends: it was cut"
        );
        assert!(wrong(&[Vec::new()]).contains("x.0.et: byte 0: expected a GlobalMetadata message, but the file is empty"));
        assert!(wrong(&[vec![0xff; 40]]).contains("expected a message of at most"));
        let mut packed = vec![0x1f, 0x8b, 8];
        packed.resize(40, 0);
        assert!(wrong(&[packed]).contains("gunzip"));
    }

    #[test]
    fn one_file_per_rank() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path = |name: &str| folder.path().join(name);
        let put =
            |name: &str| std::fs::write(path(name), file(Vec::new(), &[compute(0, 1, &[])])).unwrap_or_else(|error| panic!("{error}"));
        ["a.b.0.et", "a.b.1.et", "a.b.01.et", "a.0.et", "a.b.x.et", "a.2.et"].iter().for_each(|name| put(name));
        let open = |name: &str| read(&path(name), 1e9, &mut crate::lines::strict, &Meter::default());
        assert_eq!(open("a.b.1.et").map(|program| program.ranks()).map_err(|error| error.to_string()), Ok(2));
        let text = open("a.2.et").map(|_| ()).map_err(|error| error.to_string());
        assert!(text.as_ref().is_err_and(|text| text.ends_with("a.1.et") && text.contains("there is no")), "{text:?}");
        assert!(open("a.b.x.et").is_err_and(|error| error.to_string().contains("such as training.0.et")));
    }
}
