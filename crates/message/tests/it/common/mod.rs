// A Portals fabric in memory: as many processes as wanted, priority and overflow lists, unexpected
// headers, searches, and a network that delivers when it is told to, in the order of each pair.
// No time. Written from the rules of the specification, without looking at the NIC model.

use narrows_message::{Endpoint, Gateway, MessageConfig, Protocol, Rails, Relay, Rendezvous, Transport, portal_table};
use narrows_portals::bridge::{Envelope, Foreign, Forward};
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, NodeId, Notice, ProcessId, RemoteTarget,
    ReplyCode, SearchOperation, md, me,
};
use narrows_units::{Rail, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub fn default_config() -> MessageConfig {
    MessageConfig {
        protocol: Protocol::Openmpi,
        rails: Rails::default(),
        eager_limit: 64,
        inject_limit: 16,
        rendezvous: Rendezvous::Get,
        overflow_block: 256,
        overflow_blocks: 2,
        max_portals_message: 1 << 26,
    }
}

#[derive(Clone, Debug)]
struct Entry {
    id: EntryId,
    me: MatchEntry,
    offset: u64,
}

#[derive(Clone, Debug)]
struct Header {
    event: Event,
    entry: EntryId,
}

#[derive(Clone, Debug)]
enum Packet {
    Put { local: LocalBuffer, length: u64, bytes: Option<Vec<u8>>, ack: AckRequest, target: RemoteTarget, hdr_data: u64 },
    Get { local: LocalBuffer, length: u64, target: RemoteTarget },
    Ack { event: Event },
    Reply { local: LocalBuffer, bytes: Vec<u8>, rlength: u64, offset: u64 },
    // To a gateway: its beginning, all of it; from it, that it is there, and a word of the gateway's own.
    Forward(Forward),
    Arrived(Foreign),
    Onward { bytes: Vec<u8>, envelope: Envelope, user_ptr: u64 },
    Accepted(u64, FailType),
    Word { target: RemoteTarget, hdr_data: u64 },
}

/// Gateways are behind all processes in channels.
const GATES: usize = 100;

struct Gate {
    gateway: Gateway,
    bytes: Vec<u8>,
    /// By rail: free buffers.
    buffers: BTreeMap<Rail, VecDeque<u64>>,
    dead: bool,
}

/// What a gateway asks for.
struct AtGate<'a> {
    number: usize,
    bytes: &'a mut Vec<u8>,
    buffers: &'a mut BTreeMap<Rail, VecDeque<u64>>,
    network: &'a mut BTreeMap<Channel, VecDeque<Packet>>,
}

fn rank_of(id: ProcessId) -> usize {
    id.node().unwrap().index() * 2 + id.pid as usize - 1
}

impl Relay for AtGate<'_> {
    fn submit(&mut self, rail: Rail, _: SimTime, command: Command) {
        let from = GATES + self.number;
        match command {
            Command::MeAppend { me, .. } => self.buffers.entry(rail).or_default().push_back(me.start),
            Command::Forward(forward) => {
                let start = forward.local.address as usize;
                let bytes = self.bytes[start..start + forward.length as usize].to_vec();
                let to = (from, rank_of(forward.envelope.target), false, rail);
                let onward = Packet::Onward { bytes, envelope: forward.envelope, user_ptr: forward.local.user_ptr };
                self.network.entry(to).or_default().push_back(onward);
            }
            Command::Put { target, hdr_data, .. } => {
                let to = (from, rank_of(target.process), true, rail);
                self.network.entry(to).or_default().push_back(Packet::Word { target, hdr_data });
            }
            _ => {}
        }
    }

    fn allocate(&mut self, length: u64) -> u64 {
        let start = self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + length as usize, 0);
        start
    }
}

// An event that the NIC has not written yet.
struct Late {
    // The entry that is in use until then.
    entry: Option<EntryId>,
    // The overflow entry whose header ends with it.
    header_in: Option<EntryId>,
    event: Event,
}

#[derive(Default)]
struct Table {
    // What nothing matches is not tried again.
    drops: bool,
    priority: Vec<Entry>,
    overflow: Vec<Entry>,
    unexpected: Vec<Header>,
}

struct Memory {
    tables: BTreeMap<u32, Table>,
    bytes: Vec<u8>,
    events: VecDeque<(Option<EntryId>, Event)>,
    // Events of persistent entries that the NIC has not written yet, by initiator, in order.
    late: BTreeMap<usize, VecDeque<Late>>,
    // AUTO_UNLINK events that wait until no operation on their entry is late.
    unlinks: Vec<(EntryId, Event)>,
    headers_in: BTreeMap<EntryId, usize>,
    // Overflow entries that were unlinked while headers pointed into them.
    to_free: BTreeMap<EntryId, Event>,
}

/// From whom to whom, answers or not, and on which rail: there nothing overtakes.
pub type Channel = (usize, usize, bool, Rail);

/// Table entries of a rail among those of all.
fn on_rail(rail: Rail, pt: u32) -> u32 {
    u32::from(rail.0) << 8 | pt
}

pub struct Fabric {
    memories: Vec<Memory>,
    network: BTreeMap<Channel, VecDeque<Packet>>,
    next_entry: u64,
    /// Unlinking answers "in use" as long as an event of the entry has not been taken.
    pub busy_until_taken: bool,
    /// Events of persistent entries, and of unexpected messages that they find, come only with
    /// `write_late`: as if data were still arriving.
    pub late_events: bool,
    /// Messages of one initiator overtake each other's data on their way into memory.
    pub overtaking: bool,
    /// (source, destination, portal table entry) of all puts that were accepted, in order.
    pub arrivals: Vec<(usize, usize, u32)>,
    pub refusals: u64,
    pub copies: u64,
    /// What all processes were told to work on what NICs have to know.
    pub work: SimTime,
    pub unlink_in_use: u64,
    gates: Vec<Gate>,
    /// By initiator, target and number: puts over gateways that were accepted.
    taken: BTreeSet<(ProcessId, ProcessId, u32)>,
    draws: usize,
    /// By node: where its processes match; the first rail of those that are not here.
    homes: Vec<Rail>,
}

pub struct Process<'a> {
    fabric: &'a mut Fabric,
    rank: usize,
}

fn base(rank: usize) -> u64 {
    (rank as u64 + 1) << 32
}

impl Fabric {
    pub fn new(processes: usize) -> Fabric {
        let memory = || Memory {
            tables: (0..4).flat_map(|rail| portal_table().map(|(pt, _)| (on_rail(Rail(rail), pt), Table::default()))).collect(),
            bytes: Vec::new(),
            events: VecDeque::new(),
            late: BTreeMap::new(),
            unlinks: Vec::new(),
            headers_in: BTreeMap::new(),
            to_free: BTreeMap::new(),
        };
        Fabric {
            memories: (0..processes).map(|_| memory()).collect(),
            network: BTreeMap::new(),
            next_entry: 0,
            busy_until_taken: false,
            late_events: false,
            overtaking: false,
            arrivals: Vec::new(),
            refusals: 0,
            copies: 0,
            work: SimTime::ZERO,
            unlink_in_use: 0,
            gates: Vec::new(),
            taken: BTreeSet::new(),
            draws: 0,
            homes: Vec::new(),
        }
    }

    pub fn eq(&self) -> EqId {
        EqId(1)
    }

    pub fn id(&self, rank: usize) -> ProcessId {
        // Two processes per node, so that nid and pid both matter.
        ProcessId::on(NodeId(rank as u32 / 2), rank as u32 % 2 + 1)
    }

    pub fn rank(&self, id: ProcessId) -> usize {
        rank_of(id)
    }

    pub fn process(&mut self, rank: usize) -> Process<'_> {
        Process { fabric: self, rank }
    }

    pub fn endpoints(&mut self, config: &MessageConfig) -> Vec<Endpoint> {
        (0..self.memories.len())
            .map(|rank| {
                let (eq, id) = (self.eq(), self.id(rank));
                Endpoint::new(config.clone(), eq, id, &mut self.process(rank))
            })
            .collect()
    }

    /// The gateways of a run that needs some.
    pub fn open_gates(&mut self, rails: &Rails) {
        let Some(bridging) = rails.bridging() else { return };
        self.homes.clone_from(&bridging.homes);
        for number in 0..bridging.gateways.len() {
            let mut gate = Gate { gateway: Gateway::new(bridging, number), bytes: Vec::new(), buffers: BTreeMap::new(), dead: false };
            let Gate { gateway, bytes, buffers, .. } = &mut gate;
            // Fewer than all processes may fill.
            gateway.start(|_| 1, &mut AtGate { number, bytes, buffers, network: &mut self.network });
            self.gates.push(gate);
        }
    }

    /// The number of the gateway at this end of a channel.
    pub fn gate_of(&self, end: usize) -> usize {
        end - GATES
    }

    /// A gateway dies, with or without what it has given to its NICs.
    pub fn kill(&mut self, number: usize, all: bool) {
        self.gates[number].gateway.die();
        self.gates[number].dead = true;
        self.network.retain(|&(from, to, ..), _| to != GATES + number && (from != GATES + number || !all));
    }

    fn tell_gate(&mut self, number: usize, notice: &Notice) {
        let Gate { gateway, bytes, buffers, .. } = &mut self.gates[number];
        gateway.notify(SimTime::ZERO, notice, &mut AtGate { number, bytes, buffers, network: &mut self.network });
    }

    /// A put begins to come to a gateway.
    fn deliver_to_gate(&mut self, channel: Channel) -> bool {
        let (from, to, _, rail) = channel;
        let number = to - GATES;
        let dead = self.gates[number].dead;
        let queue = self.network.get_mut(&channel).unwrap();
        let Some(start) = self.gates[number].buffers.entry(rail).or_default().pop_front().or(dead.then_some(0)) else { return false };
        let Some(Packet::Forward(forward)) = queue.pop_front() else { panic!("only puts go to gateways") };
        if dead {
            return true;
        }
        let Forward { local, length, envelope, .. } = forward;
        if length > 0 {
            let bytes = self.bytes(from, local.address, length).to_vec();
            self.gates[number].bytes[start as usize..start as usize + bytes.len()].copy_from_slice(&bytes);
        }
        let arrived = Packet::Arrived(Foreign { envelope, length, start });
        self.network.entry((from, to, true, rail)).or_default().push_back(arrived);
        true
    }

    pub fn place(&mut self, rank: usize, bytes: &[u8]) -> u64 {
        let memory = &mut self.memories[rank].bytes;
        let address = base(rank) + memory.len() as u64;
        memory.extend_from_slice(bytes);
        address
    }

    pub fn bytes(&self, rank: usize, address: u64, length: u64) -> &[u8] {
        let start = (address - base(rank)) as usize;
        &self.memories[rank].bytes[start..start + length as usize]
    }

    pub fn write(&mut self, rank: usize, address: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            let start = (address - base(rank)) as usize;
            self.memories[rank].bytes[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Headers that nobody has asked for, in the portal table entry.
    pub fn unexpected(&self, rank: usize, pt: u32) -> usize {
        self.memories[rank].tables[&pt].unexpected.len()
    }

    /// Entries in the priority list.
    pub fn posted(&self, rank: usize, pt: u32) -> usize {
        self.memories[rank].tables[&pt].priority.len()
    }

    /// The next event of a process.
    pub fn take(&mut self, rank: usize) -> Option<Event> {
        self.memories[rank].events.pop_front().map(|(_, event)| event)
    }

    /// Writes one late event, of the `pick`-th initiator that has some.
    pub fn write_late(&mut self, rank: usize, pick: usize) -> bool {
        let memory = &mut self.memories[rank];
        memory.late.retain(|_, events| !events.is_empty());
        let count = memory.late.len();
        if count == 0 {
            return false;
        }
        let events = memory.late.values_mut().nth(pick % count).unwrap();
        // One without bytes, which an announcement is, is not overtaken.
        let long = events.iter().take_while(|late| late.entry.is_some() && late.event.mlength > 0).count();
        let landing = long + usize::from(events.get(long).is_some_and(|late| late.entry.is_some()));
        let place = if self.overtaking { pick / count % landing.max(1) } else { 0 };
        let Late { entry, header_in, event } = events.remove(place).unwrap();
        memory.events.push_back((entry, event));
        if let Some(header_in) = header_in {
            *memory.headers_in.get_mut(&header_in).unwrap() -= 1;
            self.free(rank, header_in);
        }
        self.write_unlinks(rank);
        true
    }

    fn write_unlinks(&mut self, rank: usize) {
        let memory = &mut self.memories[rank];
        let late: Vec<EntryId> = memory.late.values().flatten().filter_map(|late| late.entry).collect();
        let (stay, go): (Vec<_>, Vec<_>) = memory.unlinks.drain(..).partition(|(entry, _)| late.contains(entry));
        memory.unlinks = stay;
        memory.events.extend(go.into_iter().map(|(entry, event)| (Some(entry), event)));
    }

    /// Channels of the network that have something to deliver.
    pub fn channels(&self) -> Vec<Channel> {
        self.network.iter().filter(|(_, packets)| !packets.is_empty()).map(|(channel, _)| *channel).collect()
    }

    /// Delivers the oldest packet of a channel; false when there is none or it is refused.
    pub fn deliver(&mut self, channel: Channel) -> bool {
        let (_, to, answers, _) = channel;
        if to >= GATES && !answers {
            return self.network.get(&channel).is_some_and(|queue| !queue.is_empty()) && self.deliver_to_gate(channel);
        }
        // Not all end in the order in which they began.
        self.draws += usize::from(to >= GATES);
        let place = |queue: &VecDeque<Packet>| if to >= GATES { self.draws * 7 % queue.len().clamp(1, 3) } else { 0 };
        let Some(packet) = self.network.get_mut(&channel).and_then(|queue| queue.remove(place(queue))) else { return false };
        let (from, to, _, rail) = channel;
        match packet {
            Packet::Put { local, length, ref bytes, ack, target, hdr_data } => {
                let payload =
                    bytes.clone().unwrap_or_else(|| if length > 0 { self.bytes(from, local.address, length).to_vec() } else { Vec::new() });
                let Some((list, mlength, offset)) = self.match_put(from, to, &payload, target, hdr_data) else {
                    self.refusals += 1;
                    if self.memories[to].tables[&target.pt].drops {
                        let event = Event { fail: FailType::Dropped, ..blank(EventKind::Ack, local.user_ptr) };
                        self.network.entry((to, from, true, rail)).or_default().push_back(Packet::Ack { event });
                        return true;
                    }
                    self.network.get_mut(&channel).unwrap().push_front(packet);
                    return false;
                };
                self.arrivals.push((from, to, target.pt & 0xff));
                let initiator_event = |kind| Event { list, mlength, remote_offset: offset, ..blank(kind, local.user_ptr) };
                if local.options & (md::EVENT_SEND_DISABLE | md::EVENT_SUCCESS_DISABLE) == 0 {
                    self.memories[from].events.push_back((None, Event { mlength: length, ..initiator_event(EventKind::Send) }));
                }
                if ack == AckRequest::Full && local.options & md::EVENT_SUCCESS_DISABLE == 0 {
                    let event = initiator_event(EventKind::Ack);
                    self.network.entry((to, from, true, rail)).or_default().push_back(Packet::Ack { event });
                }
            }
            Packet::Get { local, length, target } => {
                let Some((bytes, offset)) = self.match_get(from, to, length, target) else {
                    self.refusals += 1;
                    self.network.get_mut(&channel).unwrap().push_front(packet);
                    return false;
                };
                self.network.entry((to, from, true, rail)).or_default().push_back(Packet::Reply { local, bytes, rlength: length, offset });
            }
            Packet::Arrived(foreign) => self.tell_gate(to - GATES, &Notice::Foreign(foreign)),
            Packet::Forward(_) => panic!("puts for others go to gateways"),
            Packet::Onward { ref bytes, envelope, user_ptr } => {
                let Envelope { initiator, target, pt, match_bits, hdr_data, offset, sequence, .. } = envelope;
                let mut fail = FailType::Ok;
                if !self.taken.contains(&(initiator, target, sequence)) {
                    let (from, there) = (rank_of(initiator), RemoteTarget { process: target, pt: on_rail(rail, pt), match_bits, offset });
                    if self.match_put(from, to, bytes, there, hdr_data).is_some() {
                        self.taken.insert((initiator, target, sequence));
                        self.arrivals.push((from, to, pt & 0xff));
                    } else {
                        self.refusals += 1;
                        if !self.memories[to].tables[&there.pt].drops {
                            self.network.get_mut(&channel).unwrap().push_front(packet);
                            return false;
                        }
                        fail = FailType::Dropped;
                    }
                }
                self.network.entry((to, from, true, rail)).or_default().push_back(Packet::Accepted(user_ptr, fail));
            }
            Packet::Accepted(user_ptr, fail) => {
                let event = Event { user_ptr, fail, ..Event::blank(EventKind::Ack) };
                self.tell_gate(to - GATES, &Notice::Event { eq: EqId(0), event });
            }
            Packet::Word { target, hdr_data } => {
                let there = RemoteTarget { pt: on_rail(rail, target.pt), ..target };
                assert!(self.match_put(from, to, &[], there, hdr_data).is_some(), "there is an entry for words");
            }
            Packet::Ack { event } => self.memories[to].events.push_back((None, event)),
            Packet::Reply { local, bytes, rlength, offset } => {
                self.write(to, local.address, &bytes);
                let mlength = bytes.len() as u64;
                let event = Event { rlength, mlength, remote_offset: offset, ..blank(EventKind::Reply, local.user_ptr) };
                self.memories[to].events.push_back((None, event));
            }
        }
        true
    }

    fn match_put(&mut self, from: usize, to: usize, payload: &[u8], target: RemoteTarget, hdr_data: u64) -> Option<(List, u64, u64)> {
        let initiator = if from >= GATES { self.gates[from - GATES].gateway.process() } else { self.id(from) };
        let rlength = payload.len() as u64;
        let table = self.memories[to].tables.get_mut(&target.pt).unwrap();
        let fits = |entry: &Entry| entry.me.matches(initiator, target.match_bits);
        let (list, place) = match table.priority.iter().position(fits) {
            Some(place) => (List::Priority, place),
            None => (List::Overflow, table.overflow.iter().position(fits)?),
        };
        let entries = if list == List::Priority { &mut table.priority } else { &mut table.overflow };
        let entry = &mut entries[place];
        let (id, me) = (entry.id, entry.me);
        assert!(me.options & me::OP_PUT != 0, "puts go to entries for puts");
        let managed = me.options & me::MANAGE_LOCAL != 0;
        let offset = if managed { entry.offset } else { target.offset };
        let mlength = rlength.min(me.length.saturating_sub(offset));
        entry.offset += mlength;
        let full = managed && me.min_free > 0 && me.length - entry.offset < me.min_free;
        let unlinked = full || me.options & me::USE_ONCE != 0;
        if unlinked {
            entries.remove(place);
        }
        let event = Event {
            list,
            pt: target.pt,
            initiator,
            start: me.start + offset,
            hdr_data,
            match_bits: target.match_bits,
            rlength,
            mlength,
            remote_offset: offset,
            ..blank(EventKind::Put, me.user_ptr)
        };
        if list == List::Overflow {
            table.unexpected.push(Header { event, entry: id });
            *self.memories[to].headers_in.entry(id).or_default() += 1;
        }
        self.write(to, me.start + offset, &payload[..mlength as usize]);
        if me.options & me::EVENT_COMM_DISABLE == 0 {
            let memory = &mut self.memories[to];
            let late = memory.late.entry(from).or_default();
            if self.late_events && (me.options & me::USE_ONCE == 0 || !late.is_empty()) {
                late.push_back(Late { entry: Some(id), header_in: None, event });
            } else {
                memory.events.push_back((Some(id), event));
            }
        }
        if unlinked {
            self.unlinked(to, id, &me, list, target.pt);
        }
        Some((list, mlength, offset))
    }

    fn unlinked(&mut self, rank: usize, id: EntryId, me: &MatchEntry, list: List, pt: u32) {
        if me.options & me::EVENT_UNLINK_DISABLE != 0 {
            return;
        }
        self.memories[rank].unlinks.push((id, Event { pt, list, ..blank(EventKind::AutoUnlink, me.user_ptr) }));
        self.write_unlinks(rank);
        if list == List::Overflow {
            self.memories[rank].to_free.insert(id, Event { pt, list, ..blank(EventKind::AutoFree, me.user_ptr) });
            self.free(rank, id);
        }
    }

    fn free(&mut self, rank: usize, id: EntryId) {
        let memory = &mut self.memories[rank];
        if memory.headers_in.get(&id).copied().unwrap_or(0) == 0
            && let Some(event) = memory.to_free.remove(&id)
        {
            memory.events.push_back((None, event));
        }
    }

    fn match_get(&mut self, from: usize, to: usize, length: u64, target: RemoteTarget) -> Option<(Vec<u8>, u64)> {
        let initiator = self.id(from);
        let table = self.memories[to].tables.get_mut(&target.pt).unwrap();
        let place = table.priority.iter().position(|entry| entry.me.matches(initiator, target.match_bits))?;
        let (id, me) = (table.priority[place].id, table.priority[place].me);
        assert!(me.options & me::OP_GET != 0, "gets go to entries for gets");
        assert!(target.offset + length <= me.length, "gets stay inside what was offered");
        if me.options & me::USE_ONCE != 0 {
            table.priority.remove(place);
        }
        let bytes = if length > 0 { self.bytes(to, me.start + target.offset, length).to_vec() } else { Vec::new() };
        let event = Event {
            pt: target.pt,
            initiator,
            start: me.start + target.offset,
            match_bits: target.match_bits,
            rlength: length,
            mlength: length,
            remote_offset: target.offset,
            ..blank(EventKind::Get, me.user_ptr)
        };
        if me.options & me::EVENT_COMM_DISABLE == 0 {
            self.memories[to].events.push_back((Some(id), event));
        }
        Some((bytes, target.offset))
    }

    /// Removes the `place`-th unexpected header and reports it to `user_ptr`.
    fn consume(&mut self, rank: usize, pt: u32, place: usize, user_ptr: u64, by: Option<EntryId>) {
        let memory = &mut self.memories[rank];
        let header = memory.tables.get_mut(&pt).unwrap().unexpected.remove(place);
        let event = Event { kind: EventKind::PutOverflow, user_ptr, ..header.event };
        if self.late_events && by.is_some() {
            let initiator = event.initiator.node().unwrap().index() * 2 + event.initiator.pid as usize - 1;
            memory.late.entry(initiator).or_default().push_back(Late { entry: None, header_in: Some(header.entry), event });
            return;
        }
        memory.events.push_back((by, event));
        *memory.headers_in.get_mut(&header.entry).unwrap() -= 1;
        self.free(rank, header.entry);
    }

    fn find_unexpected(&self, rank: usize, pt: u32, me: &MatchEntry) -> Option<usize> {
        self.memories[rank].tables[&pt].unexpected.iter().position(|header| me.matches(header.event.initiator, header.event.match_bits))
    }

    /// Gives all events of a process to its endpoint.
    pub fn drain(&mut self, rank: usize, endpoint: &mut Endpoint) -> bool {
        let mut any = false;
        while let Some(event) = self.take(rank) {
            endpoint.event(&mut self.process(rank), event).unwrap();
            any = true;
        }
        any
    }

    /// Delivers everything and gives all events to the endpoints, until nothing moves.
    pub fn run(&mut self, endpoints: &mut [Endpoint]) {
        loop {
            let mut moved = false;
            for channel in self.channels() {
                while self.deliver(channel) {
                    moved = true;
                }
            }
            for (rank, endpoint) in endpoints.iter_mut().enumerate() {
                while self.write_late(rank, 0) {
                    moved = true;
                }
                moved |= self.drain(rank, endpoint);
            }
            if !moved {
                return;
            }
        }
    }
}

fn blank(kind: EventKind, user_ptr: u64) -> Event {
    Event {
        kind,
        fail: FailType::Ok,
        list: List::Priority,
        pt: 0,
        initiator: ProcessId::default(),
        start: 0,
        user_ptr,
        hdr_data: 0,
        match_bits: 0,
        rlength: 0,
        mlength: 0,
        remote_offset: 0,
        atomic: None,
    }
}

impl Transport for Process<'_> {
    fn works(&mut self, time: SimTime) {
        self.fabric.work = SimTime(self.fabric.work.0 + time.0);
    }

    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        let pt = on_rail(rail, pt);
        self.fabric.next_entry += 1;
        let id = EntryId(self.fabric.next_entry);
        let rank = self.rank;
        let entry = Entry { id, me, offset: 0 };
        if list == List::Overflow {
            self.fabric.memories[rank].tables.get_mut(&pt).unwrap().overflow.push(entry);
            return id;
        }
        while let Some(place) = self.fabric.find_unexpected(rank, pt, &me) {
            self.fabric.consume(rank, pt, place, me.user_ptr, Some(id));
            if me.options & me::USE_ONCE != 0 {
                self.fabric.unlinked(rank, id, &me, list, pt);
                return id;
            }
        }
        self.fabric.memories[rank].tables.get_mut(&pt).unwrap().priority.push(entry);
        if me.options & me::EVENT_LINK_DISABLE == 0 {
            let event = Event { pt, ..blank(EventKind::Link, me.user_ptr) };
            self.fabric.memories[rank].events.push_back((None, event));
        }
        id
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        let memory = &mut self.fabric.memories[self.rank];
        let late = memory.late.values().flatten().any(|late| late.entry == Some(entry));
        if late || self.fabric.busy_until_taken && memory.events.iter().any(|(of, _)| *of == Some(entry)) {
            self.fabric.unlink_in_use += 1;
            return Some(ReplyCode::InUse);
        }
        for table in memory.tables.values_mut() {
            if let Some(place) = table.priority.iter().position(|linked| linked.id == entry) {
                table.priority.remove(place);
                return Some(ReplyCode::Ok);
            }
            if let Some(place) = table.overflow.iter().position(|linked| linked.id == entry) {
                if memory.headers_in.get(&entry).is_some_and(|&headers| headers > 0) {
                    return Some(ReplyCode::InUse);
                }
                table.overflow.remove(place);
                return Some(ReplyCode::Ok);
            }
        }
        Some(ReplyCode::Unknown)
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        let rank = self.rank;
        let pt = on_rail(self.fabric.homes.get(rank / 2).copied().unwrap_or(Rail::FIRST), pt);
        let Some(place) = self.fabric.find_unexpected(rank, pt, &me) else {
            let event = Event { fail: FailType::NoMatch, pt, ..blank(EventKind::Search, me.user_ptr) };
            self.fabric.memories[rank].events.push_back((None, event));
            return;
        };
        match operation {
            SearchOperation::Delete => self.fabric.consume(rank, pt, place, me.user_ptr, None),
            SearchOperation::Only => {
                let found = self.fabric.memories[rank].tables[&pt].unexpected[place].event;
                let event = Event { kind: EventKind::Search, user_ptr: me.user_ptr, ..found };
                self.fabric.memories[rank].events.push_back((None, event));
            }
        }
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        let target = RemoteTarget { pt: on_rail(rail, target.pt), ..target };
        let bytes = (copy_now && length > 0).then(|| self.fabric.bytes(self.rank, local.address, length).to_vec());
        let to = self.fabric.rank(target.process);
        let packet = Packet::Put { local, length, bytes, ack, target, hdr_data };
        self.fabric.network.entry((self.rank, to, false, rail)).or_default().push_back(packet);
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        let target = RemoteTarget { pt: on_rail(rail, target.pt), ..target };
        let to = self.fabric.rank(target.process);
        self.fabric.network.entry((self.rank, to, false, rail)).or_default().push_back(Packet::Get { local, length, target });
    }

    fn forward(&mut self, rail: Rail, forward: Forward) {
        let gateways = self.fabric.gates.iter().map(|gate| gate.gateway.process());
        let number = gateways.zip(0..).find(|&(process, _)| Some(process) == forward.via).unwrap().1;
        self.fabric.network.entry((self.rank, GATES + number, false, rail)).or_default().push_back(Packet::Forward(forward));
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.fabric.copies += 1;
        let bytes = self.fabric.bytes(self.rank, from, length).to_vec();
        self.fabric.write(self.rank, to, &bytes);
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        self.copy(from, to, length);
    }

    fn drop_unmatched(&mut self, pt: u32) {
        let pt = on_rail(self.fabric.homes.get(self.rank / 2).copied().unwrap_or(Rail::FIRST), pt);
        let table = self.fabric.memories[self.rank].tables.get_mut(&pt).unwrap();
        assert!(table.priority.is_empty() && table.overflow.is_empty());
        table.drops = true;
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.fabric.place(self.rank, &vec![0xcc; length as usize])
    }
}
