//! Which send belongs to which receive.
//!
//! Messages of one pair of ranks with one communicator and tag do not overtake each other, and a receive that was
//! posted first is matched first (MPI 4.1, section 3.5). So of the receives that got a message from some rank with some
//! tag, in the order in which they were posted, the n-th got the n-th such message. What a receive with a wildcard got
//! is known when it is over; those that were posted behind it wait until then.

use crate::collectives::Group;
use crate::order::Clocks;
use crate::{Found, Kind, Site, pair};
use narrows_facts::{Message, Signature};
use narrows_mpicalls::ANY;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One end of a message.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    pub site: Site,
    pub signature: Signature,
    /// When it was posted, ps.
    pub time: u64,
    request: u32,
    /// Of a receive: its place in the log of its rank and communicator.
    log: Option<usize>,
    /// Of a send: sum of its bytes, 0 if it is not known.
    sum: u64,
    /// Of a receive: its request, if the sum of its bytes will be told.
    summed: Option<u32>,
}

/// What is known of the bytes of a message.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    /// They were sent: their sum, and where; 0: nothing can be compared.
    Sent(u64, Site, Site, usize),
    /// They were received.
    Received(u64),
}

/// A receive of a rank that takes messages from anybody.
#[derive(Clone, Copy, Debug)]
struct Received {
    source: u32,
    tag: i64,
    /// The tag that it wanted, if it wanted a message from anybody.
    wanted: Option<i64>,
    /// When its message was sent, ps.
    sent: Option<u64>,
}

/// A receive from anybody that could have got another message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Who receives.
    pub rank: u32,
    /// From whom it got its message, and when that was sent, ps.
    pub got: (u32, u64),
    /// From whom it could have got one, and when that was sent.
    pub others: Vec<(u32, u64)>,
}

/// Receives of a rank and communicator that are remembered. Our own choice.
const LOG: usize = 4096;
/// Choices that are looked for. Our own choice.
const CHOICES: usize = 256;

/// A receive in the order of its rank.
struct Posted {
    request: u32,
    /// Source, in its communicator, and tag that it wants.
    wants: (i64, i64),
    /// Source and tag, once both are known.
    envelope: Option<(i64, i64)>,
    /// The tag that it wants, if it takes messages of anybody.
    anybody: Option<i64>,
    half: Half,
    /// It only looks at a message.
    probe: bool,
}

/// A send or receive that has not met its other end. Ranks are those of MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    pub receive: bool,
    pub group: usize,
    pub rank: u32,
    /// `None`: anybody.
    pub peer: Option<u32>,
    /// `None`: any.
    pub tag: Option<i64>,
    pub site: Site,
    time: u64,
}

impl Unmet {
    /// In how many of communicator, rank and tag `other`, an end of the other kind at the rank that this one names,
    /// agrees with this one.
    fn agreement(&self, other: &Unmet) -> u32 {
        let meets = |a: Option<u32>, b: u32| a.is_none_or(|a| a == b);
        let tags = self.tag.zip(other.tag).is_none_or(|(a, b)| a == b);
        u32::from(self.group == other.group) + u32::from(tags) + u32::from(meets(self.peer, other.rank) && meets(other.peer, self.rank))
    }

    /// The end that comes closest to this one, among those that `all` are.
    pub fn nearest<'a>(&self, all: &'a [Unmet]) -> Option<&'a Unmet> {
        let others = all.iter().filter(|other| other.receive != self.receive && self.agreement(other) == 2);
        // The first one at the rank that is named, else the first one of all.
        others.min_by_key(|other| self.peer.is_some_and(|peer| peer != other.rank))
    }
}

/// Communicator, source, target, tag: ranks of MPI_COMM_WORLD.
type Envelope = (usize, u32, u32, i64);

#[derive(Default)]
struct Queue {
    sends: VecDeque<Half>,
    receives: VecDeque<Half>,
}

/// All communicators, and what comes before what.
type Around<'a> = (&'a [Group], &'a mut Clocks);

/// All of them.
#[derive(Default)]
pub struct Messages {
    queues: BTreeMap<Envelope, Queue>,
    /// By rank and communicator.
    posted: BTreeMap<(u32, usize), VecDeque<Posted>>,
    /// The communicator of a receive with a wildcard, by rank and request.
    wild: BTreeMap<(u32, u32), usize>,
    doubtful: BTreeSet<usize>,
    /// By rank and communicator, of those that take messages from anybody.
    logs: BTreeMap<(u32, usize), Vec<Received>>,
    /// By rank and request of the receive.
    bytes: BTreeMap<(u32, u32), Bytes>,
}

impl Messages {
    /// Those of a communicator can no longer be told apart.
    pub fn doubt(&mut self, group: usize) {
        self.doubtful.insert(group);
        self.queues.retain(|envelope, _| envelope.0 != group);
        self.posted.retain(|key, _| key.1 != group);
    }

    pub fn is_doubtful(&self, group: usize) -> bool {
        self.doubtful.contains(&group)
    }

    /// A send or receive begins.
    pub fn post(
        &mut self,
        (rank, time): (u32, u64),
        group: usize,
        message: &Message,
        site: Site,
        (groups, clocks): Around<'_>,
        found: &mut dyn FnMut(Found),
    ) {
        if self.is_doubtful(group) {
            return;
        }
        let summed = (message.receive && message.sum != 0).then_some(message.request);
        let half = Half { site, signature: message.signature, time, request: message.request, log: None, sum: message.sum, summed };
        if !message.receive {
            let Some(target) = groups[group].peer(rank, message.peer) else { return };
            self.meet((group, rank, target, message.tag), half, false, clocks, found);
            return;
        }
        let known = message.peer != ANY && message.tag != ANY;
        if !known {
            self.wild.insert((rank, message.request), group);
        }
        let anybody = (message.peer == ANY).then_some(message.tag);
        if anybody.is_some() {
            self.logs.entry((rank, group)).or_default();
        }
        let posted = Posted {
            request: message.request,
            wants: (message.peer, message.tag),
            envelope: known.then_some((message.peer, message.tag)),
            anybody,
            half,
            probe: false,
        };
        self.posted.entry((rank, group)).or_default().push_back(posted);
        self.settle(rank, group, (groups, clocks), found);
    }

    /// A send goes to its own rank, and none of the receives that are posted fits.
    pub fn waits_for_itself(&self, rank: u32, group: usize, send: &Message, groups: &[Group]) -> bool {
        if self.is_doubtful(group) || groups[group].peer(rank, send.peer) != Some(rank) {
            return false;
        }
        let known = self.queues.get(&(group, rank, rank, send.tag)).map_or(0, |queue| queue.receives.len());
        let fits = |posted: &&Posted| {
            let (peer, tag) = posted.envelope.unwrap_or(posted.wants);
            !posted.probe && (peer == ANY || peer == send.peer) && (tag == ANY || tag == send.tag)
        };
        known + self.posted.get(&(rank, group)).map_or(0, |posted| posted.iter().filter(fits).count()) == 0
    }

    /// A probe of messages from anybody has found one.
    pub fn probed(
        &mut self,
        rank: u32,
        group: usize,
        envelope: (i64, i64),
        wanted: i64,
        (groups, clocks): Around<'_>,
        found: &mut dyn FnMut(Found),
    ) {
        if self.is_doubtful(group) {
            return;
        }
        self.logs.entry((rank, group)).or_default();
        let site = Site { rank, call: 0, place: 0 };
        let half = Half { site, signature: Signature::default(), time: 0, request: 0, log: None, sum: 0, summed: None };
        let posted = Posted { request: 0, wants: envelope, envelope: Some(envelope), anybody: Some(wanted), half, probe: true };
        self.posted.entry((rank, group)).or_default().push_back(posted);
        self.settle(rank, group, (groups, clocks), found);
    }

    /// The sum of what a receive holds when it is over.
    pub fn received(&mut self, rank: u32, request: u32, sum: u64, found: &mut dyn FnMut(Found)) {
        match self.bytes.remove(&(rank, request)) {
            Some(Bytes::Sent(sent, from, to, group)) => differs(sent, sum, [from, to], group).into_iter().for_each(found),
            _ => drop(self.bytes.insert((rank, request), Bytes::Received(sum))),
        }
    }

    /// What a receive with a wildcard got.
    pub fn matched(&mut self, rank: u32, request: u32, source: i64, tag: i64, (groups, clocks): Around<'_>, found: &mut dyn FnMut(Found)) {
        let Some(group) = self.wild.remove(&(rank, request)) else { return };
        let Some(posted) = self.posted.get_mut(&(rank, group)) else { return };
        if let Some(receive) = posted.iter_mut().find(|receive| receive.request == request) {
            receive.envelope = Some((source, tag));
        }
        self.settle(rank, group, (groups, clocks), found);
    }

    /// Receives meet their messages, as far as is known what those before them got.
    fn settle(&mut self, rank: u32, group: usize, (groups, clocks): Around<'_>, found: &mut dyn FnMut(Found)) {
        while let Some(posted) = self.posted.get_mut(&(rank, group))
            && let Some((source, tag)) = posted.front().and_then(|receive| receive.envelope)
            && let Some(receive) = posted.pop_front()
        {
            if let Some(source) = groups[group].peer(rank, source) {
                let mut half = receive.half;
                if let Some(log) = self.logs.get_mut(&(rank, group)).filter(|log| log.len() < LOG) {
                    half.log = Some(log.len());
                    let next = self.queues.get(&(group, source, rank, tag)).and_then(|queue| queue.sends.front());
                    let sent = next.filter(|_| receive.probe).map(|send| send.time);
                    log.push(Received { source, tag, wanted: receive.anybody, sent });
                }
                if receive.probe {
                    continue;
                }
                self.meet((group, source, rank, tag), half, true, clocks, found);
            }
        }
    }

    fn meet(&mut self, envelope: Envelope, half: Half, receive: bool, clocks: &mut Clocks, found: &mut dyn FnMut(Found)) {
        let queue = self.queues.entry(envelope).or_default();
        let (own, others) = if receive { (&mut queue.receives, &mut queue.sends) } else { (&mut queue.sends, &mut queue.receives) };
        let Some(other) = others.pop_front() else {
            own.push_back(half);
            return;
        };
        if queue.sends.is_empty() && queue.receives.is_empty() {
            self.queues.remove(&envelope);
        }
        let (send, receive) = if receive { (other, half) } else { (half, other) };
        let (group, source, target, _) = envelope;
        clocks.pair((source, send.request), (target, receive.request));
        if let Some(received) = receive.log.and_then(|at| self.logs.get_mut(&(target, group))?.get_mut(at)) {
            received.sent = Some(send.time);
        }
        if let Some(request) = receive.summed {
            let whole = send.signature.bytes == receive.signature.bytes;
            let sum = if whole { send.sum } else { 0 };
            match self.bytes.remove(&(target, request)) {
                Some(Bytes::Received(now)) => differs(sum, now, [send.site, receive.site], group).into_iter().for_each(&mut *found),
                _ => drop(self.bytes.insert((target, request), Bytes::Sent(sum, send.site, receive.site, group))),
            }
        }
        pair(&send, &receive, envelope.0).into_iter().for_each(found);
    }

    /// Receives from anybody that could have got another message: one that a receive behind it got.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (&(rank, group), log) in &self.logs {
            if self.is_doubtful(group) {
                continue;
            }
            for (at, receive) in log.iter().enumerate() {
                let (Some(wanted), Some(sent)) = (receive.wanted, receive.sent) else { continue };
                if choices.len() >= CHOICES {
                    return choices;
                }
                let mut first: BTreeMap<u32, Option<u64>> = BTreeMap::new();
                for later in &log[at + 1..] {
                    // Messages of one rank do not overtake each other: only its next one counts.
                    let fits = later.source != receive.source && (wanted == ANY || wanted == later.tag);
                    if fits {
                        first.entry(later.source).or_insert(later.sent);
                    }
                }
                let others: Vec<(u32, u64)> = first.into_iter().filter_map(|(source, sent)| Some((source, sent?))).collect();
                if !others.is_empty() {
                    choices.push(Choice { rank, got: (receive.source, sent), others });
                }
            }
        }
        choices
    }

    /// Who got what from whom, where anybody was wanted: runs with the same number have the same matches.
    pub fn matching(&self) -> u64 {
        let mut sum = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |value: u64| sum = (sum ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        for (&(rank, group), log) in &self.logs {
            add(u64::from(rank) << 32 | group as u64);
            for receive in log.iter().filter(|receive| receive.wanted.is_some()) {
                add(u64::from(receive.source) << 32 ^ receive.tag as u64);
            }
        }
        sum
    }

    /// Sends and receives that have not met, in the order in which they were posted.
    pub fn unmet(&self, groups: &[Group]) -> Vec<Unmet> {
        let mut all = Vec::new();
        for (&(group, source, target, tag), queue) in &self.queues {
            let end = |receive, half: &Half| {
                let (rank, peer) = if receive { (target, source) } else { (source, target) };
                Unmet { receive, group, rank, peer: Some(peer), tag: Some(tag), site: half.site, time: half.time }
            };
            all.extend(queue.sends.iter().map(|half| end(false, half)));
            all.extend(queue.receives.iter().map(|half| end(true, half)));
        }
        // Those with a wildcard that have got nothing, and those behind them.
        for (&(rank, group), posted) in &self.posted {
            all.extend(posted.iter().filter(|posted| !posted.probe).map(|posted| {
                let (peer, tag) = posted.wants;
                let (peer, tag) = (groups[group].peer(rank, peer), Some(tag).filter(|&tag| tag != ANY));
                Unmet { receive: true, group, rank, peer, tag, site: posted.half.site, time: posted.half.time }
            }));
        }
        all.sort_by_key(|unmet| (unmet.rank, unmet.time, unmet.site));
        all
    }

    /// Messages that nobody has received.
    pub fn unreceived(&mut self, found: &mut dyn FnMut(Found)) {
        for (&(group, source, target, tag), queue) in &self.queues {
            // A receive that was never completed behind a wildcard that was not either may have got it.
            if self.posted.get(&(target, group)).is_some_and(|posted| !posted.is_empty()) {
                continue;
            }
            for send in &queue.sends {
                let detail =
                    format!("a message of {} from rank {source} to rank {target} with tag {tag} was never received", send.signature);
                found(Found { kind: Kind::Unreceived, detail, sites: vec![send.site], communicator: Some(group) });
            }
        }
    }
}

/// What was sent and what is there when the receive is over.
fn differs(sent: u64, received: u64, sites: [Site; 2], group: usize) -> Option<Found> {
    let detail = format!(
        "the buffer of a receive of rank {} does not hold what rank {} has sent when the receive is over: it was written meanwhile",
        sites[1].rank, sites[0].rank
    );
    (sent != 0 && sent != received).then(|| Found { kind: Kind::Written, detail, sites: sites.to_vec(), communicator: Some(group) })
}
