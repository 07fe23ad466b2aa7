//! Simulated sockets: the TCP/IP of each node above its NIC, for the processes there
//! (docs/decisions/0028-sockets-on-the-network.md).
//!
//! The device of a node is a process of its own on that node, behind the ranks and gateways, whose messages are puts
//! into memory that is not there: their bytes stay here.

mod stand_in;

use crate::memory::{Memory, transfer};
use crate::processes;
use narrows_channel::record::SOCKET_WORDS;
use narrows_machine::Ip;
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event as NicEvent, EventKind, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget,
    ReplyCode, me,
};
use narrows_sim::{Processes as _, Requests};
use narrows_socketcalls::{ARGUMENTS, Answer, CallKind};
use narrows_sockets::{Effect, Event, Frame, Memory as Bytes, Node};
use narrows_units::{NodeId, Rail, SimTime};
use stand_in::StandIn;
use std::collections::BTreeMap;

/// The device's process on its node: a number that ranks do not have.
const PID: u32 = 0x4950;
const EQ: EqId = EqId(0);
const PT: u32 = 0;
/// Events that its queue holds: more than can be on their way.
const EVENTS: u32 = 1 << 20;
/// More parts than that are refused: `IOV_MAX`.
const MOST_PARTS: u64 = 1024;
const PART_BYTES: u64 = 16;

#[derive(Debug)]
enum Due {
    Node(Event),
    Call { rank: u32, ticket: u32, written: SimTime, words: [u64; SOCKET_WORDS] },
}

/// A node with its device.
struct Local {
    node: Node,
    process: ProcessId,
    due: BTreeMap<(SimTime, u64), Due>,
    serial: u64,
    sent: u64,
    /// Packets of messages on their way here, by sender and number.
    letters: BTreeMap<(u32, u64), Vec<Frame>>,
    stand_ins: BTreeMap<u32, StandIn>,
    /// Where processes want their answers, by rank and ticket.
    answers: BTreeMap<(u32, u32), u64>,
}

/// See the module's page.
pub struct Net {
    ip: Ip,
    /// The first device among the processes.
    first: u32,
    locals: Vec<Local>,
    /// By rank.
    home: Vec<usize>,
    by_node: BTreeMap<u32, usize>,
    lookahead: SimTime,
    heard: Vec<(usize, NicEvent)>,
    alarmed: Vec<usize>,
    /// Ranks whose descriptors have changed, and when.
    changed: Vec<(u32, SimTime)>,
    /// When those of a rank have changed last.
    latest: BTreeMap<u32, SimTime>,
    /// Who asked for an address outside of the run.
    pub(crate) outside: Option<u32>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("nodes", &self.locals.len()).finish_non_exhaustive()
    }
}

/// Where the devices of these ranks' nodes are, in the order of the nodes.
pub(crate) fn devices(places: &[ProcessId]) -> Vec<ProcessId> {
    let nodes: std::collections::BTreeSet<u32> = places.iter().filter_map(|place| place.node()).map(|node| node.0).collect();
    nodes.into_iter().map(|node| ProcessId::on(NodeId(node), PID)).collect()
}

/// The memory of one rank.
struct Reach<'a>(&'a mut Memory);

impl Reach<'_> {
    fn parts(&self, rank: u32, parts: u64, count: u64) -> Option<Vec<(u64, u64)>> {
        let count = Some(count).filter(|&count| count <= MOST_PARTS)?;
        let mut bytes = vec![0_u8; (count * PART_BYTES) as usize];
        transfer(self.0.pid(rank), bytes.as_mut_ptr(), parts, bytes.len() as u64, false).ok()?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Some(bytes.chunks_exact(PART_BYTES as usize).map(|part| (word(&part[..8]), word(&part[8..]))).collect())
    }
}

impl Bytes for Reach<'_> {
    fn gather(&mut self, rank: u32, parts: u64, count: u64, most: usize) -> Option<Vec<u8>> {
        let parts = self.parts(rank, parts, count)?;
        let all = parts.iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length)).min(most as u64) as usize;
        let mut bytes = vec![0; all];
        let mut done = 0;
        for (address, length) in parts {
            let part = (length as usize).min(all - done);
            transfer(self.0.pid(rank), bytes[done..].as_mut_ptr(), address, part as u64, false).ok()?;
            done += part;
        }
        Some(bytes)
    }

    fn scatter(&mut self, rank: u32, parts: u64, count: u64, bytes: &[u8]) -> Option<usize> {
        let mut done = 0;
        for (address, length) in self.parts(rank, parts, count)? {
            let part = (length as usize).min(bytes.len() - done);
            transfer(self.0.pid(rank), bytes[done..].as_ptr().cast_mut(), address, part as u64, true).ok()?;
            done += part;
        }
        Some(done)
    }

    fn room(&mut self, rank: u32, parts: u64, count: u64) -> Option<usize> {
        let parts = self.parts(rank, parts, count)?;
        Some(parts.iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length)) as usize)
    }
}

impl Net {
    /// `places[i]` is where rank i is; `first`: the number of the first device's process.
    pub(crate) fn new(ip: Ip, places: &[ProcessId], first: u32, seed: u64) -> Net {
        let devices = devices(places);
        let nodes: Vec<u32> = devices.iter().filter_map(|device| device.node()).map(|node| node.0).collect();
        let by_node: BTreeMap<u32, usize> = nodes.iter().copied().zip(0..).collect();
        let local = |(&process, &node): (&ProcessId, &u32)| Local {
            node: Node::new(node, ip, &nodes, seed),
            process,
            due: BTreeMap::new(),
            serial: 0,
            sent: 0,
            letters: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        let home = places.iter().map(|place| place.node().and_then(|node| by_node.get(&node.0)).copied().unwrap_or(0)).collect();
        Net {
            ip,
            first,
            locals: devices.iter().zip(&nodes).map(local).collect(),
            home,
            by_node,
            lookahead: SimTime(1),
            heard: Vec::new(),
            alarmed: Vec::new(),
            changed: Vec::new(),
            latest: BTreeMap::new(),
            outside: None,
        }
    }

    /// Whether a process is a device.
    pub(crate) fn is_device(&self, process: u32) -> bool {
        process >= self.first
    }

    /// Memory is set aside for messages, before simulated time begins. Calls arrive `lookahead` after they were made.
    pub(crate) fn open(&mut self, lookahead: SimTime, requests: &mut dyn Requests<()>) {
        self.lookahead = lookahead.max(SimTime(1));
        let everything =
            MatchEntry { length: 1 << 40, ignore_bits: u64::MAX, options: me::OP_PUT | me::EVENT_LINK_DISABLE, ..MatchEntry::default() };
        for device in (self.first..).take(self.locals.len()) {
            for command in [
                Command::EqAlloc { eq: EQ, count: EVENTS },
                Command::PtAlloc { pt: PT, options: 0, eq: EQ },
                Command::MeAppend { entry: EntryId(0), pt: PT, list: List::Priority, me: everything },
            ] {
                requests.submit(device, Rail::FIRST, SimTime::ZERO, command);
            }
        }
    }

    /// Simulated time begins.
    pub(crate) fn begin(&mut self, epoch: SimTime) {
        self.locals.iter_mut().for_each(|local| local.node.begin(epoch));
    }

    /// Ranks whose descriptors have changed, since it was asked last.
    pub(crate) fn take_changed(&mut self, into: &mut Vec<(u32, SimTime)>) {
        into.append(&mut self.changed);
    }

    /// When the descriptors of a rank have changed last.
    pub(crate) fn latest(&self, rank: u32) -> Option<SimTime> {
        self.latest.get(&rank).copied()
    }

    /// What it takes to wake a process.
    pub(crate) fn wakeup(&self) -> SimTime {
        self.ip.wakeup
    }

    /// A rank calls.
    pub(crate) fn call(&mut self, rank: u32, written: SimTime, ticket: u32, words: [u64; SOCKET_WORDS], requests: &mut dyn Requests<()>) {
        let at = self.home[rank as usize];
        let due = Due::Call { rank, ticket, written, words };
        self.at(at, written + self.lookahead, due, requests);
    }

    fn at(&mut self, local: usize, at: SimTime, due: Due, requests: &mut dyn Requests<()>) {
        let device = self.first + local as u32;
        let local = &mut self.locals[local];
        local.due.insert((at, local.serial), due);
        local.serial += 1;
        requests.set_alarm(device, at);
    }

    pub(crate) fn notify(&mut self, process: u32, notice: &Notice) {
        if let Notice::Event { event, .. } = notice {
            self.heard.push(((process - self.first) as usize, *event));
        }
    }

    pub(crate) fn alarm(&mut self, process: u32) {
        self.alarmed.push((process - self.first) as usize);
    }

    pub(crate) fn proceed(&mut self, memory: &mut Memory, requests: &mut dyn Requests<()>) {
        let now = requests.now();
        let mut effects = Vec::new();
        for (at, event) in std::mem::take(&mut self.heard) {
            let local = &mut self.locals[at];
            match event.kind {
                EventKind::Send => local.node.sent(now, event.user_ptr as u32, &mut effects),
                EventKind::Put => {
                    let frames = local.letters.remove(&(event.initiator.nid, event.hdr_data)).unwrap_or_default();
                    local.node.arrive(now, frames, &mut effects);
                }
                _ => {}
            }
            self.take(at, &mut effects, memory, requests);
        }
        for at in std::mem::take(&mut self.alarmed) {
            while let Some(entry) = self.locals[at].due.first_entry().filter(|entry| entry.key().0 <= now) {
                match entry.remove() {
                    Due::Node(event) => self.locals[at].node.handle(now, event, &mut effects),
                    Due::Call { rank, ticket, written, words } => {
                        self.does(at, (now, written), (rank, ticket), &words, memory, &mut effects);
                    }
                }
                self.take(at, &mut effects, memory, requests);
            }
        }
    }

    fn does(
        &mut self,
        at: usize,
        times: (SimTime, SimTime),
        (rank, ticket): (u32, u32),
        words: &[u64; SOCKET_WORDS],
        memory: &mut Memory,
        effects: &mut Vec<Effect>,
    ) {
        let kind = CallKind::from_number(words[0]);
        let ends = match kind {
            Some(CallKind::Open) => Some((words[3], words[4])),
            Some(CallKind::Accept) => Some((words[2], words[3])),
            _ => None,
        };
        let pid = memory.pid(rank) as u32;
        let stand_in = ends.and_then(|(theirs, ours)| {
            let [theirs, ours] = [theirs, ours].map(|file| processes::descriptor(pid, file as i32).ok());
            Some(StandIn::new(theirs?, ours?))
        });
        let local = &mut self.locals[at];
        local.answers.insert((rank, ticket), words[1 + ARGUMENTS]);
        // What is nobody's is refused as what is not open.
        let mine = local.node.owner(words[1] as u32).is_none_or(|owner| owner == rank);
        let words = if mine { &words[..] } else { &[] };
        let value = local.node.call(times, (rank, ticket), words, &mut Reach(memory), effects);
        if let (0.., Some(stand_in)) = (value, stand_in) {
            local.stand_ins.insert(value as u32, stand_in);
        }
        if value == -i64::from(libc::ENETUNREACH) {
            self.outside.get_or_insert(rank);
        }
        match kind {
            Some(CallKind::Close) => drop(local.stand_ins.remove(&(words.get(1).copied().unwrap_or(0) as u32))),
            Some(CallKind::End) => {
                let Local { stand_ins, node, .. } = local;
                stand_ins.retain(|&socket, _| node.owner(socket).is_some());
            }
            _ => {}
        }
    }

    fn take(&mut self, at: usize, effects: &mut Vec<Effect>, memory: &mut Memory, requests: &mut dyn Requests<()>) {
        let now = requests.now();
        for effect in effects.drain(..) {
            match effect {
                Effect::At(time, event) => self.at(at, time, Due::Node(event), requests),
                Effect::Message(to, frames) => self.put(at, to, frames, requests),
                Effect::Answered { rank, ticket, value, answer } => {
                    if let Some(address) = self.locals[at].answers.remove(&(rank, ticket)).filter(|&address| address != 0) {
                        let Answer { address: host, port, length } = answer;
                        let mut bytes: Vec<u8> = [host, port, length].iter().flat_map(|word| word.to_le_bytes()).collect();
                        // A process that is not there any more does not read it either.
                        let _gone = transfer(memory.pid(rank), bytes.as_mut_ptr(), address, bytes.len() as u64, true);
                    }
                    memory.notify(now, rank, Notice::Reply { ticket, code: ReplyCode::Ok, value: value as u64 });
                }
                Effect::Changed(socket, ready) => {
                    let local = &mut self.locals[at];
                    if let Some(stand_in) = local.stand_ins.get_mut(&socket) {
                        stand_in.show(ready);
                    }
                    if let Some(rank) = local.node.owner(socket) {
                        self.changed.push((rank, now));
                        self.latest.insert(rank, now);
                    }
                }
            }
        }
    }

    /// Gives the NIC a message.
    fn put(&mut self, at: usize, to: u32, frames: Vec<Frame>, requests: &mut dyn Requests<()>) {
        let Some(&target) = self.by_node.get(&to) else { return };
        let process = self.locals[target].process;
        let length = Node::bytes(&self.ip, &frames).0;
        let local = &mut self.locals[at];
        let buffer = LocalBuffer { eq: EQ, user_ptr: frames.len() as u64, ..LocalBuffer::default() };
        let remote = RemoteTarget { process, pt: PT, match_bits: 0, offset: 0 };
        let (number, nid) = (local.sent, local.process.nid);
        local.sent += 1;
        let put = Command::Put { local: buffer, length, inline: None, ack: AckRequest::None, target: remote, hdr_data: number };
        self.locals[target].letters.insert((nid, number), frames);
        requests.submit(self.first + at as u32, Rail::FIRST, requests.now(), put);
    }
}
