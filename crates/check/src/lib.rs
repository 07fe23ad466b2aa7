//! Compares what ranks have told of their MPI calls (`narrows-facts`), and says what does not fit.
//!
//! * [`Checker`]: takes the facts of all ranks, in any order between ranks; [`Checker::finish`] gives the findings.
//! * `messages.rs`: which send belongs to which receive (no message is looked into: MPI's order says it), and which
//!   receives could have got another message.
//! * `collectives.rs`: the calls of a communicator, one by one.
//! * `places.rs`: file and line of a call.
//!
//! A finding is what the standard calls erroneous, or a remark (an object that is not freed). There are no guesses:
//! where order is not known (threads, cancelled messages) nothing is compared.
//!
//! ```
//! use narrows_check::Checker;
//! use narrows_facts::{Collective, Fact, Part};
//!
//! let bcast = |root| Fact::Collective(Collective {
//!     call: narrows_mpicalls::by_name("MPI_Bcast").unwrap(), place: 0, communicator: 0, root,
//!     operation: 0, same: None, send: Part::Unknown, receive: Part::Unknown,
//! });
//! let mut checker = Checker::new(2);
//! checker.take(0, 0, bcast(0));
//! checker.take(1, 0, bcast(1));
//! let findings = checker.finish().findings;
//! assert!(findings[0].text.contains("root 0") && findings[0].text.contains("root 1"), "{}", findings[0].text);
//! ```

#![forbid(unsafe_code)]

mod collectives;
mod messages;
mod places;

pub use messages::Choice;

use collectives::Group;
use messages::{Half, Messages};
use narrows_facts::{Fact, Message, Mode, Object, UNKNOWN};
use narrows_mpicalls::CALLS;
use places::{Place, Places};
use std::collections::{BTreeMap, BTreeSet};

/// What kind of mistake, with what the standard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Ranks call collectives of a communicator that do not fit.
    Collective,
    /// A message is longer than the buffer that receives it.
    Truncated,
    /// A message has elements of another kind than its receive.
    Signature,
    /// Buffers of requests overlap, or one is used while a request owns it.
    Overlap,
    /// The buffer of a send has changed while the send was under way.
    Changed,
    /// One-sided communication outside an epoch.
    Epoch,
    /// A window is freed in the middle of an epoch.
    OpenEpoch,
    /// A request was not completed.
    Request,
    /// A message was not received.
    Unreceived,
    /// An object was not freed.
    Leak,
}

impl Kind {
    /// One word for files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Collective => "collective",
            Kind::Truncated => "truncated",
            Kind::Signature => "signature",
            Kind::Overlap => "overlap",
            Kind::Changed => "changed",
            Kind::Epoch => "epoch",
            Kind::OpenEpoch => "open-epoch",
            Kind::Request => "request",
            Kind::Unreceived => "unreceived",
            Kind::Leak => "leak",
        }
    }

    /// The section of MPI 4.1 that says so.
    pub fn section(self) -> &'static str {
        match self {
            Kind::Collective => "6.14, Correctness",
            Kind::Truncated => "3.2.4, Blocking Receive",
            Kind::Signature => "3.3.1, Type Matching Rules",
            Kind::Overlap | Kind::Changed => "3.7.2, Communication Initiation",
            Kind::Epoch => "12.5, Synchronization Calls",
            Kind::OpenEpoch => "12.2.5, Window Destruction",
            Kind::Request | Kind::Unreceived | Kind::Leak => "11.2.2, Finalizing MPI",
        }
    }

    /// Whether the standard calls it erroneous.
    pub fn is_error(self) -> bool {
        self != Kind::Leak
    }
}

/// Something that does not fit, once for all ranks that do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The whole of it, in one line.
    pub text: String,
    /// The ranks that take part, in MPI_COMM_WORLD.
    pub ranks: Vec<u32>,
    /// The calls and where they stand: "MPI_Isend at ring.c:12".
    pub calls: Vec<String>,
}

impl Finding {
    /// What makes it the same finding in another run: no numbers that depend on time.
    pub fn key(&self) -> String {
        format!("{}: {}", self.kind.name(), self.calls.join(", "))
    }
}

/// What comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// What does not fit.
    pub findings: Vec<Finding>,
    /// Receives from anybody that could have got another message.
    pub choices: Vec<Choice>,
    /// A fingerprint of what receives from anybody got.
    pub matching: u64,
}

/// A call at a place of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    rank: u32,
    call: u32,
    place: u32,
}

/// Before places are known as lines.
struct Found {
    kind: Kind,
    detail: String,
    sites: Vec<Site>,
    /// It holds only if messages of that communicator could be told apart.
    communicator: Option<usize>,
}

/// A request of a rank that is under way.
struct Open {
    site: Site,
    start: u64,
}

/// A window of a rank.
#[derive(Default)]
struct Window {
    fence: bool,
    /// Something was done since the last fence that only a fence completes.
    unfenced: Option<Site>,
    locked: BTreeSet<i64>,
    locked_all: bool,
    started: bool,
}

#[derive(Default)]
struct Rank {
    places: BTreeMap<u32, (String, u64)>,
    /// Their places in [`Checker::groups`].
    communicators: BTreeMap<u32, usize>,
    /// How many it has had with these members.
    known: BTreeMap<(Vec<u32>, Vec<u32>), u32>,
    open: BTreeMap<u32, Open>,
    /// Buffers that requests own: where they begin, and the request; where they end, whether it is written.
    owned: BTreeMap<(u64, u32), (u64, bool)>,
    /// The longest of them.
    longest: u64,
    windows: BTreeMap<u32, Window>,
    objects: BTreeMap<(u8, u32), Site>,
    finalized: bool,
}

/// A finding before places are lines: calls with file and offset, and ranks.
type Seen = (Kind, Vec<(u32, String, u64)>, Vec<u32>);

/// Takes facts, and finds what does not fit.
pub struct Checker {
    ranks: Vec<Rank>,
    groups: Vec<Group>,
    by_members: BTreeMap<(Vec<u32>, Vec<u32>, u32), usize>,
    messages: Messages,
    found: Vec<Found>,
    /// What is counted already.
    seen: BTreeSet<Seen>,
}

impl Checker {
    /// For so many ranks.
    pub fn new(ranks: u32) -> Checker {
        let all: Vec<u32> = (0..ranks).collect();
        let mut groups = vec![Group::new(all.clone(), Vec::new())];
        let mut known = Vec::new();
        for rank in 0..ranks {
            groups.push(Group::new(vec![rank], Vec::new()));
            let mut new = Rank::default();
            new.communicators.extend([(0, 0), (1, 1 + rank as usize)]);
            *new.known.entry((all.clone(), Vec::new())).or_default() += 1;
            *new.known.entry((vec![rank], Vec::new())).or_default() += 1;
            known.push(new);
        }
        Checker {
            ranks: known,
            groups,
            by_members: BTreeMap::new(),
            messages: Messages::default(),
            found: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// A rank has told something, at that time (ps). What makes no sense is left out: ranks are other people's
    /// programs.
    pub fn take(&mut self, rank: u32, time: u64, fact: Fact) {
        let Some(own) = self.ranks.get_mut(rank as usize) else { return };
        match fact {
            Fact::Place { place, offset, object } => drop(own.places.insert(place, (object, offset))),
            Fact::Communicator { communicator, members, remote } => self.communicator(rank, communicator, members, remote),
            Fact::Doubt { communicator } => {
                if let Some(&group) = own.communicators.get(&communicator) {
                    self.messages.doubt(group);
                }
            }
            Fact::Message(message) => self.message(rank, time, message),
            Fact::Matched { request, source, tag } => {
                let Checker { messages, groups, found, .. } = self;
                messages.matched(rank, request, source, tag, groups, &mut |pair| keep(found, pair));
            }
            Fact::Request { request, call, place } => {
                own.open.insert(request, Open { site: Site { rank, call, place }, start: 0 });
            }
            Fact::Ended { request } => {
                if let Some(open) = own.open.remove(&request) {
                    own.owned.remove(&(open.start, request));
                }
            }
            Fact::Changed { request } => {
                if let Some(open) = own.open.get(&request) {
                    let site = open.site;
                    self.find(Kind::Changed, "the buffer of a send was changed while the send was under way".to_owned(), vec![site]);
                }
            }
            Fact::Collective(collective) => {
                if let Some(group) = own.communicators.get(&collective.communicator).and_then(|&group| self.groups.get_mut(group)) {
                    group.calls(rank, collective);
                }
            }
            Fact::Made { what, number, call, place } => {
                own.objects.insert((what as u8, number), Site { rank, call, place });
                if what == Object::Window {
                    own.windows.insert(number, Window::default());
                }
            }
            Fact::Freed { what, number } => {
                own.objects.remove(&(what as u8, number));
                if what == Object::Window {
                    own.windows.remove(&number);
                }
            }
            Fact::Window { window, call, place, target, assertion } => {
                self.window(window, Site { rank, call, place }, target, assertion);
            }
            Fact::Finalize => self.finalize(rank),
        }
    }

    fn communicator(&mut self, rank: u32, number: u32, members: Vec<u32>, remote: Vec<u32>) {
        let own = &mut self.ranks[rank as usize];
        // Both groups know it by the same name.
        let pair = if remote.is_empty() || members < remote { (members, remote) } else { (remote, members) };
        let times = own.known.entry(pair.clone()).or_default();
        let key = (pair.0, pair.1, *times);
        *times += 1;
        let next = self.groups.len();
        let group = *self.by_members.entry(key.clone()).or_insert(next);
        if group == next {
            self.groups.push(Group::new(key.0, key.1));
        }
        own.communicators.insert(number, group);
    }

    fn message(&mut self, rank: u32, time: u64, message: Message) {
        let site = Site { rank, call: message.call, place: message.place };
        self.buffer(site, &message);
        if message.communicator == UNKNOWN {
            return;
        }
        let Checker { ranks, messages, groups, found, .. } = self;
        let Some(&group) = ranks[rank as usize].communicators.get(&message.communicator) else { return };
        messages.post((rank, time), group, &message, site, groups, &mut |pair| keep(found, pair));
    }

    /// The buffer of a message is no other request's.
    fn buffer(&mut self, site: Site, message: &Message) {
        let own = &mut self.ranks[site.rank as usize];
        let mut overlap = None;
        if message.length > 0 {
            let end = message.start.saturating_add(message.length);
            let from = message.start.saturating_sub(own.longest);
            let other = own
                .owned
                .range((from, 0)..(end, 0))
                .find(|((start, _), (other_end, written))| *start < end && message.start < *other_end && (*written || message.receive));
            overlap = other.map(|(&(_, request), &(_, written))| (request, written));
        }
        if message.mode == Mode::Nonblocking {
            own.open.insert(message.request, Open { site, start: message.start });
            if message.length > 0 {
                own.owned.insert((message.start, message.request), (message.start.saturating_add(message.length), message.receive));
                own.longest = own.longest.max(message.length);
            }
        }
        if let Some((request, written)) = overlap
            && let Some(open) = self.ranks[site.rank as usize].open.get(&request)
        {
            let other = open.site;
            let what = match (written, message.receive) {
                (true, true) => "a receive writes where another one that is under way writes",
                (true, false) => "a send reads where a receive that is under way writes",
                _ => "a receive writes where a send that is under way reads",
            };
            self.find(Kind::Overlap, what.to_owned(), vec![other, site]);
        }
    }

    fn window(&mut self, number: u32, site: Site, target: i64, assertion: u32) {
        let Some(window) = self.ranks[site.rank as usize].windows.get_mut(&number) else { return };
        let Some(call) = CALLS.get(site.call as usize) else { return };
        match call.name {
            "MPI_Win_fence" => {
                window.fence = assertion & 2 == 0;
                window.unfenced = None;
            }
            "MPI_Win_lock" => drop(window.locked.insert(target)),
            "MPI_Win_unlock" => drop(window.locked.remove(&target)),
            "MPI_Win_lock_all" => window.locked_all = true,
            "MPI_Win_unlock_all" => window.locked_all = false,
            "MPI_Win_start" => window.started = true,
            "MPI_Win_complete" => window.started = false,
            "MPI_Win_free" => {
                if let Some(before) = window.unfenced {
                    let text = "a window is freed before a fence has completed what was done on it".to_owned();
                    self.find(Kind::OpenEpoch, text, vec![before, site]);
                } else if window.locked_all || !window.locked.is_empty() || window.started {
                    self.find(Kind::OpenEpoch, "a window is freed within an epoch".to_owned(), vec![site]);
                }
            }
            _ if target < 0 => {}
            _ if window.started || window.locked_all || window.locked.contains(&target) => {}
            _ if window.fence => drop(window.unfenced.get_or_insert(site)),
            _ => {
                let text = "one-sided communication outside an epoch: no MPI_Win_fence, MPI_Win_lock or MPI_Win_start came before";
                self.find(Kind::Epoch, text.to_owned(), vec![site]);
            }
        }
    }

    fn finalize(&mut self, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        own.finalized = true;
        let open: Vec<Site> = std::mem::take(&mut own.open).into_values().map(|open| open.site).collect();
        let objects = std::mem::take(&mut own.objects);
        for site in open {
            self.find(Kind::Request, "a request was never completed".to_owned(), vec![site]);
        }
        for ((what, _), site) in objects {
            let what = match what {
                what if what == Object::Communicator as u8 => "communicator",
                what if what == Object::Datatype as u8 => "datatype",
                what if what == Object::Window as u8 => "window",
                _ => "persistent request",
            };
            self.find(Kind::Leak, format!("a {what} was never freed"), vec![site]);
        }
    }

    fn find(&mut self, kind: Kind, detail: String, sites: Vec<Site>) {
        // A loop may do it a million times.
        let place = |site: &Site| self.ranks[site.rank as usize].places.get(&site.place).cloned().unwrap_or_default();
        let calls = sites.iter().map(|site| (site.call, place(site).0, place(site).1)).collect();
        let ranks = sites.iter().map(|site| site.rank).collect();
        if self.seen.insert((kind, calls, ranks)) {
            self.found.push(Found { kind, detail, sites, communicator: None });
        }
    }

    /// All findings, those of the same calls at the same places put together, and the choices.
    pub fn finish(self) -> Checked {
        let (choices, matching) = (self.messages.choices(), self.messages.matching());
        Checked { findings: self.findings(), choices, matching }
    }

    fn findings(mut self) -> Vec<Finding> {
        if self.ranks.iter().all(|rank| rank.finalized) {
            let Checker { messages, found, .. } = &mut self;
            messages.unreceived(&mut |message| keep(found, message));
        }
        for group in &self.groups {
            self.found.extend(group.finding());
        }
        let mut places = Places::default();
        let mut findings: BTreeMap<(Kind, Vec<String>), (String, BTreeSet<u32>)> = BTreeMap::new();
        for found in &self.found {
            if found.communicator.is_some_and(|group| self.messages.is_doubtful(group)) {
                continue;
            }
            let name = |site: &Site| {
                let call = CALLS.get(site.call as usize).map_or("?", |call| call.name);
                match self.ranks[site.rank as usize].places.get(&site.place).filter(|(object, _)| !object.is_empty()) {
                    Some((object, offset)) => format!("{call} at {}", places.line(Place { object, offset: *offset })),
                    None => call.to_owned(),
                }
            };
            let mut calls: Vec<String> = found.sites.iter().map(name).collect();
            if found.kind == Kind::Collective {
                // Who came first depends on time.
                calls.sort();
                calls.dedup();
            }
            let (_, ranks) = findings.entry((found.kind, calls)).or_insert_with(|| (found.detail.clone(), BTreeSet::new()));
            ranks.extend(found.sites.iter().map(|site| site.rank));
        }
        let finish = |((kind, calls), (detail, ranks)): ((Kind, Vec<String>), (String, BTreeSet<u32>))| {
            let ranks: Vec<u32> = ranks.into_iter().collect();
            let word = if kind.is_error() { "error" } else { "remark" };
            let text = format!("{word}: {detail}: {}, {} (MPI 4.1, {})", calls.join(" and "), list(&ranks), kind.section());
            Finding { kind, text, ranks, calls }
        };
        findings.into_iter().map(finish).collect()
    }
}

/// "rank 3", "ranks 0, 2-5".
fn list(ranks: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in ranks.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [one] => parts.push(one.to_string()),
            [first, .., last] => parts.push(format!("{first}-{last}")),
            [] => {}
        }
    }
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, parts.join(", "))
}

/// Most mistakes that are kept before those of the same places are put together. Our own choice.
const MOST: usize = 100_000;

fn keep(found: &mut Vec<Found>, new: Found) {
    if found.len() < MOST {
        found.push(new);
    }
}

/// A message and the receive that it belongs to.
fn pair(send: &Half, receive: &Half, group: usize) -> Option<Found> {
    let sites = vec![send.site, receive.site];
    let known = receive.signature.bytes != u64::MAX;
    let (from, to) = (send.site.rank, receive.site.rank);
    if known && send.signature.bytes > receive.signature.bytes {
        let detail = format!(
            "a message of {} from rank {from} to rank {to} is longer than its receive, which has room for {}",
            send.signature, receive.signature
        );
        return Some(Found { kind: Kind::Truncated, detail, sites, communicator: Some(group) });
    }
    if known && !send.signature.fits(&receive.signature) {
        let detail = format!("a message of {} from rank {from} to rank {to} is received as {}", send.signature, receive.signature);
        return Some(Found { kind: Kind::Signature, detail, sites, communicator: Some(group) });
    }
    None
}
