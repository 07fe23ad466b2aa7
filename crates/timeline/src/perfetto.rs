//! A timeline as a trace of [Perfetto](https://perfetto.dev): protobuf, as protos/perfetto/trace/ of
//! github.com/google/perfetto has it. Fields that nobody writes here are left out.
//!
//! Each node is a process: its ranks, and its NIC that sends and receives, are tracks of it. What overlaps on a track
//! gets tracks of the same name, which Perfetto shows as one. A message is a flow from the call that wrote its command,
//! if that was an MPI call, over the NIC that sends to the one that receives. Times are whole nanoseconds, rounded
//! down.

use crate::{Recorded, Transfer};
use narrows_units::{PS_PER_NS, SimTime};
use prost::Message;
use std::collections::BTreeMap;
use std::io::{self, Write};

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// What the names of the packets to come mean is said anew, and they need it.
const CLEARED: u32 = 1;
const NEEDED: u32 = 2;

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(double, optional, tag = "44")]
    double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

const BEGINS: i32 = 1;
const ENDS: i32 = 2;
const COUNTS: i32 = 4;
/// Counters' tracks have numbers from here on, above those of nodes and of what is on them.
const COUNTERS: u64 = 1 << 63;

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Name>,
}

/// `EventName` and `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// Names of annotations; an annotation is its place here, counted from one.
const ANNOTATIONS: [&str; 9] = ["peer", "tag", "waited_ns", "bytes", "from_rank", "to_rank", "from_node", "to_node", "posted_ns"];
const PEER: u64 = 1;
const TAG: u64 = 2;
const WAITED: u64 = 3;
const BYTES: u64 = 4;
const FROM_RANK: u64 = 5;
const TO_RANK: u64 = 6;
const FROM_NODE: u64 = 7;
const TO_NODE: u64 = 8;
const POSTED: u64 = 9;

fn annotation((name, value): (u64, i64)) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(name), int_value: Some(value) }
}

fn ns(time: SimTime) -> u64 {
    time.as_ps() / PS_PER_NS
}

/// Where something is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Rank(u32),
    Sends,
    Receives,
}

impl Line {
    fn name(self, places: &[RankPlace]) -> String {
        match self {
            Line::Rank(rank) => match places.get(rank as usize).and_then(|place| place.processor.as_ref()) {
                Some(processor) => format!("rank {rank} on {processor}"),
                None => format!("rank {rank}"),
            },
            Line::Sends => String::from("NIC sends"),
            Line::Receives => String::from("NIC receives"),
        }
    }
}

/// What a slice is of: a place among the calls, or among the transfers.
#[derive(Clone, Copy)]
enum Of {
    Call(usize),
    Sent(usize),
    Received(usize),
}

#[derive(Clone, Copy)]
struct Slice {
    begin: SimTime,
    end: SimTime,
    of: Of,
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Its node.
    pub node: u32,
    /// What that is called.
    pub host: String,
    /// Its processor, if it is not that of the host.
    pub processor: Option<String>,
}

/// A value over time: a track of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// What it is called.
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// From when on it has which value.
    pub points: Vec<(SimTime, f64)>,
}

/// Counts of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Slices.
    pub slices: u64,
    /// Arrows from one slice to another one.
    pub flows: u64,
    /// Bytes.
    pub bytes: u64,
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    packet: Vec<u8>,
    written: Written,
}

impl Writer<'_> {
    /// A packet is field 1 of the trace.
    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        const FIELD: u8 = 1 << 3 | 2;
        self.packet.clear();
        self.packet.push(FIELD);
        packet.encode_length_delimited(&mut self.packet).expect("a vector has room");
        self.written.bytes += self.packet.len() as u64;
        self.out.write_all(&self.packet)
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(&TracePacket { trusted_packet_sequence_id: Some(1), track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn counter(&mut self, uuid: u64, counter: &Counter) -> io::Result<()> {
        self.track(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(counter.name.to_owned()),
            counter: Some(CounterDescriptor { unit_name: Some(counter.unit.to_owned()) }),
            ..TrackDescriptor::default()
        })?;
        for &(at, value) in &counter.points {
            let event =
                TrackEvent { kind: Some(COUNTS), track_uuid: Some(uuid), double_counter_value: Some(value), ..TrackEvent::default() };
            self.event(at, event)?;
        }
        Ok(())
    }

    /// Gives the event back: its lists are used again.
    fn event(&mut self, at: SimTime, event: TrackEvent) -> io::Result<TrackEvent> {
        let packet = TracePacket {
            timestamp: Some(ns(at)),
            trusted_packet_sequence_id: Some(1),
            track_event: Some(event),
            sequence_flags: Some(NEEDED),
            ..TracePacket::default()
        };
        self.packet(&packet)?;
        Ok(packet.track_event.unwrap_or_default())
    }
}

/// Writes a trace: rank r is at `places[r]`.
///
/// # Errors
/// `out` takes no more.
pub fn write(recorded: &Recorded, places: &[RankPlace], counters: &[Counter], out: &mut dyn Write) -> io::Result<Written> {
    let mut writer = Writer { out, packet: Vec::new(), written: Written::default() };
    let calls = recorded.calls.iter().map(|call| call.name);
    let mut names: Vec<&'static str> = calls.chain(recorded.transfers.iter().map(|transfer| transfer.kind)).collect();
    names.sort_unstable();
    names.dedup();
    let interned = |names: &[&str]| {
        let named = (1u64..).zip(names).map(|(iid, name)| Name { iid: Some(iid), name: Some((*name).to_owned()) });
        named.collect::<Vec<Name>>()
    };
    writer.packet(&TracePacket {
        trusted_packet_sequence_id: Some(1),
        interned_data: Some(InternedData { event_names: interned(&names), debug_annotation_names: interned(&ANNOTATIONS) }),
        sequence_flags: Some(CLEARED),
        ..TracePacket::default()
    })?;
    for (number, counter) in (0..).zip(counters) {
        writer.counter(COUNTERS + number, counter)?;
    }
    let hosts: BTreeMap<u32, &String> = places.iter().map(|place| (place.node, &place.host)).collect();
    let (mut known, mut uuid) = (None, 0);
    let posts = posts(recorded);
    let mut event = TrackEvent::default();
    for ((node, line), mut slices) in lines(recorded, places) {
        slices.sort_by_key(|slice| (slice.begin, slice.end));
        let process = u64::from(node) + 1;
        if known != Some(node) {
            let name = hosts.get(&node).map_or_else(|| format!("node {node}"), |host| format!("node {node}, {host}"));
            writer.track(TrackDescriptor {
                uuid: Some(process),
                process: Some(ProcessDescriptor { pid: Some(process as i32), process_name: Some(name) }),
                ..TrackDescriptor::default()
            })?;
            // Tracks of a node share the upper half of their numbers, and none is that of a process.
            (known, uuid) = (Some(node), process << 32);
        }
        // By track of this name: its number, and when what is on it ends.
        let mut tracks: Vec<(u64, SimTime)> = Vec::new();
        for slice in slices {
            let free = tracks.iter().position(|&(_, end)| end <= slice.begin);
            let place = match free {
                Some(place) => place,
                None => {
                    uuid += 1;
                    writer.track(TrackDescriptor {
                        uuid: Some(uuid),
                        name: Some(line.name(places)),
                        parent_uuid: Some(process),
                        ..TrackDescriptor::default()
                    })?;
                    tracks.push((uuid, SimTime::ZERO));
                    tracks.len() - 1
                }
            };
            tracks[place].1 = slice.end;
            event.debug_annotations.clear();
            event.flow_ids.clear();
            event.terminating_flow_ids.clear();
            let name = describe(recorded, slice.of, &posts, &mut event);
            let name = names.binary_search(&name).expect("a name of the timeline") as u64 + 1;
            writer.written.flows += match slice.of {
                Of::Call(_) => event.flow_ids.len() as u64,
                Of::Sent(_) => 0,
                Of::Received(_) => 1,
            };
            let track_uuid = Some(tracks[place].0);
            (event.kind, event.name_iid, event.track_uuid) = (Some(BEGINS), Some(name), track_uuid);
            event = writer.event(slice.begin, event)?;
            writer.event(slice.end, TrackEvent { kind: Some(ENDS), track_uuid, ..TrackEvent::default() })?;
            writer.written.slices += 1;
        }
    }
    Ok(writer.written)
}

/// What is on each line, node by node.
fn lines(recorded: &Recorded, places: &[RankPlace]) -> BTreeMap<(u32, Line), Vec<Slice>> {
    let mut lines: BTreeMap<(u32, Line), Vec<Slice>> = BTreeMap::new();
    for (place, transfer) in recorded.transfers.iter().enumerate() {
        let &Transfer { from_node, to_node, begin, sent, head, tail, .. } = transfer;
        if let Some(head) = head {
            let slice = Slice { begin: head, end: tail.unwrap_or(head), of: Of::Received(place) };
            lines.entry((to_node, Line::Receives)).or_default().push(slice);
        }
        lines.entry((from_node, Line::Sends)).or_default().push(Slice { begin, end: sent, of: Of::Sent(place) });
    }
    for (place, call) in recorded.calls.iter().enumerate() {
        let node = places.get(call.rank as usize).map_or(0, |place| place.node);
        let slice = Slice { begin: call.begin, end: call.end, of: Of::Call(place) };
        lines.entry((node, Line::Rank(call.rank))).or_default().push(slice);
    }
    lines
}

/// Which calls have written the commands of which flows: sorted.
fn posts(recorded: &Recorded) -> Vec<(usize, u64)> {
    let callers = Callers::of(recorded);
    let posted = (1u64..).zip(&recorded.transfers);
    let posted = posted.filter_map(|(flow, transfer)| Some((callers.at(transfer.from_rank, transfer.posted?)?, flow)));
    let mut posts: Vec<(usize, u64)> = posted.collect();
    posts.sort_unstable();
    posts
}

/// What a slice is called; what stands beside it goes into `event`, whose lists are empty. A flow is a transfer's
/// place, counted from one.
fn describe(recorded: &Recorded, of: Of, posts: &[(usize, u64)], event: &mut TrackEvent) -> &'static str {
    let place = match of {
        Of::Call(place) => {
            let call = &recorded.calls[place];
            let first = posts.partition_point(|&(caller, _)| caller < place);
            event.flow_ids.extend(posts[first..].iter().take_while(|&&(caller, _)| caller == place).map(|&(_, flow)| flow));
            let known = [(PEER, call.peer), (TAG, call.tag)].into_iter().filter(|&(_, value)| value >= 0);
            let waited = (call.waited > SimTime::ZERO).then(|| (WAITED, ns(call.waited) as i64));
            event.debug_annotations.extend(known.chain(waited).map(annotation));
            return call.name;
        }
        Of::Sent(place) => {
            event.flow_ids.push(place as u64 + 1);
            place
        }
        Of::Received(place) => {
            event.terminating_flow_ids.push(place as u64 + 1);
            place
        }
    };
    let transfer = &recorded.transfers[place];
    let rank = |rank: u32| (rank != u32::MAX).then_some(i64::from(rank));
    let values = [
        (BYTES, Some(transfer.bytes as i64)),
        (FROM_RANK, rank(transfer.from_rank)),
        (TO_RANK, rank(transfer.to_rank)),
        (FROM_NODE, Some(i64::from(transfer.from_node))),
        (TO_NODE, Some(i64::from(transfer.to_node))),
        (POSTED, transfer.posted.map(|posted| ns(posted) as i64)),
    ];
    event.debug_annotations.extend(values.into_iter().filter_map(|(name, value)| Some(annotation((name, value?)))));
    transfer.kind
}

/// Which call of a rank was going on when.
struct Callers<'a> {
    recorded: &'a Recorded,
    /// Places of the calls, by rank and beginning.
    order: Vec<usize>,
}

/// Calls of a rank that overlap, of several threads or of a trace without an order: so many are looked at.
const OVERLAPPING: usize = 16;

impl Callers<'_> {
    fn of(recorded: &Recorded) -> Callers<'_> {
        let mut order: Vec<usize> = (0..recorded.calls.len()).collect();
        order.sort_by_key(|&place| (recorded.calls[place].rank, recorded.calls[place].begin));
        Callers { recorded, order }
    }

    /// The latest call that began before `at` and goes on then: a command takes time to write.
    fn at(&self, rank: u32, at: SimTime) -> Option<usize> {
        let calls = &self.recorded.calls;
        let after = self.order.partition_point(|&place| (calls[place].rank, calls[place].begin) < (rank, at));
        let before = self.order[..after].iter().rev().take(OVERLAPPING);
        before.copied().find(|&place| calls[place].rank == rank && calls[place].end >= at)
    }
}
