//! Compares what ranks have told of their MPI calls (`narrows-facts`), and says what does not fit.
//!
//! * [`Checker`]: takes the facts of all ranks, in any order between ranks; [`Checker::finish`] gives the findings.
//! * `messages.rs`: which send belongs to which receive (no message is looked into: MPI's order says it), and which
//!   receives could have got another message.
//! * `collectives.rs`: the calls of a communicator, one by one.
//! * `windows.rs`: epochs of one-sided communication, and accesses that clash.
//! * `local.rs`: loads and stores of the program in memory that MPI uses meanwhile.
//! * `order.rs`: what comes before what.
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
mod local;
mod messages;
mod order;
mod places;
mod windows;

pub use messages::Choice;

use collectives::Group;
use messages::{Half, Messages, Unmet};
use narrows_facts::shape::{self, Shape};
use narrows_facts::{Access, Fact, LOAD, Message, Mode, Object, STORE, UNKNOWN};
use narrows_mpicalls::{ANY, CALLS};
use order::{Clocks, Place as Meeting};
use places::LIBRARY;
pub use places::{Place, Places};
use std::collections::{BTreeMap, BTreeSet};
use windows::{Own, Shared, Touch, Within};

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
    /// The buffer of a receive was written while the receive was under way.
    Written,
    /// One-sided communication outside an epoch, or a synchronisation that does not fit what is open.
    Epoch,
    /// One-sided accesses to the same bytes in one epoch.
    Conflict,
    /// A window is freed in the middle of an epoch.
    OpenEpoch,
    /// A call from a thread that the level of thread support forbids.
    Thread,
    /// A call that ends only if MPI keeps a copy of the message.
    Buffering,
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
            Kind::Written => "written",
            Kind::Epoch => "epoch",
            Kind::Conflict => "conflict",
            Kind::Thread => "thread",
            Kind::OpenEpoch => "open-epoch",
            Kind::Buffering => "buffering",
            Kind::Request => "request",
            Kind::Unreceived => "unreceived",
            Kind::Leak => "leak",
        }
    }

    /// The section of MPI 4.1 that says so. Numbers of chapters 6, 11 and 12: mpi-forum/mpi-issues#491 and
    /// open-mpi/ompi#12189.
    pub fn section(self) -> &'static str {
        match self {
            Kind::Collective => "6.14, Correctness",
            Kind::Truncated => "3.2.4, Blocking Receive",
            Kind::Buffering => "3.5, Semantics of Point-to-Point Communication",
            Kind::Signature => "3.3.1, Type Matching Rules",
            Kind::Overlap | Kind::Changed | Kind::Written => "3.7.2, Communication Initiation",
            Kind::Epoch => "12.5, Synchronization Calls",
            Kind::Conflict => "12.7, Semantics and Correctness",
            Kind::Thread => "11.2.1, Starting MPI Processes",
            Kind::OpenEpoch => "12.2.5, Window Destruction",
            Kind::Request | Kind::Unreceived | Kind::Leak => "11.2.2, Finalizing MPI",
        }
    }

    /// Whether the standard calls it erroneous. The outcome of accesses that clash is undefined, and a program that
    /// needs buffers is unsafe, no more.
    pub fn is_error(self) -> bool {
        !matches!(self, Kind::Leak | Kind::Conflict | Kind::Buffering)
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
    /// All of these calls are made by the MPI library itself: no mistake of the program.
    pub in_library: bool,
}

impl Finding {
    /// It is the program's, and the standard calls it erroneous.
    pub fn is_error(&self) -> bool {
        self.kind.is_error() && !self.in_library
    }

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
    /// Where the pieces of its buffer begin.
    starts: Vec<u64>,
    /// Communicator and rank of a message's partner.
    partner: Option<(usize, i64)>,
}

/// The blocking call that a rank has told last.
#[derive(Default)]
struct Now {
    call: u32,
    place: u32,
    /// Communicators and ranks of partners of messages.
    partners: Vec<(usize, i64)>,
    /// Its collective's communicator.
    collective: Option<usize>,
}

/// What a rank waits for when nothing goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Where its call stands; empty if that is not known.
    pub place: String,
    /// For whom, in MPI_COMM_WORLD.
    pub whom: Vec<u32>,
    /// One of them is enough.
    pub any: bool,
}

#[derive(Default)]
struct Rank {
    places: BTreeMap<u32, (String, u64)>,
    /// Their places in [`Checker::groups`].
    communicators: BTreeMap<u32, usize>,
    /// How many it has had with these members.
    known: BTreeMap<(Vec<u32>, Vec<u32>), u32>,
    open: BTreeMap<u32, Open>,
    /// Buffers that requests and one-sided operations own: where they begin, and the request, or the number of the
    /// operation from [`OPERATION`] on; where they end, whether it is written.
    owned: BTreeMap<(u64, u64), (u64, bool)>,
    /// One-sided operations that are not complete at the caller, by number.
    operations: BTreeMap<u64, Operation>,
    /// How many there were.
    operated: u64,
    /// What the last one reads of its target's window: window, target, displacement, pieces.
    read: Option<Read>,
    /// The longest of them.
    longest: u64,
    windows: BTreeMap<u32, Own>,
    /// How many windows it has made of each communicator.
    made: BTreeMap<usize, u32>,
    objects: BTreeMap<(Object, u32), Site>,
    now: Now,
    finalized: bool,
}

/// Numbers of one-sided operations begin there.
const OPERATION: u64 = 1 << 32;
/// Operations of a rank that are remembered at once. Our own choice.
const MOST_OPERATIONS: usize = 4096;

/// A one-sided operation that is not complete at its caller.
struct Operation {
    window: u32,
    target: i64,
    site: Site,
    /// Where the pieces of its buffers begin.
    starts: Vec<u64>,
    request: Option<u32>,
    read: Option<Read>,
}

/// What MPI_Rget reads.
struct Read {
    shared: usize,
    target: u32,
    displacement: u64,
    pieces: Vec<(u64, u64)>,
    touch: Touch,
}

impl Rank {
    /// What owns a part of `pieces`, and whether it writes there, if one of both writes.
    fn overlap(&self, pieces: &[(u64, u64)], writes: bool) -> Option<(u64, bool)> {
        pieces.iter().find_map(|&(start, length)| {
            let end = start.saturating_add(length);
            let from = start.saturating_sub(self.longest);
            let clashes = |other: u64, other_end: u64, written: bool| other < end && start < other_end && (written || writes);
            let mut others = self.owned.range((from, 0)..(end, 0));
            others
                .find(|((other, _), (other_end, written))| clashes(*other, *other_end, *written))
                .map(|((_, by), (_, written))| (*by, *written))
        })
    }

    fn own(&mut self, pieces: &[(u64, u64)], by: u64, written: bool) {
        for &(start, length) in pieces {
            self.owned.insert((start, by), (start.saturating_add(length), written));
            self.longest = self.longest.max(length);
        }
    }

    /// The site of what owns a buffer.
    fn owner(&self, by: u64) -> Option<Site> {
        match u32::try_from(by) {
            Ok(request) => self.open.get(&request).map(|open| open.site),
            Err(_) => self.operations.get(&by).map(|operation| operation.site),
        }
    }

    /// One-sided operations are complete at their caller.
    fn complete(&mut self, is: impl Fn(&Operation) -> bool) -> Vec<Operation> {
        let ended: Vec<u64> = self.operations.iter().filter(|(_, operation)| is(operation)).map(|(&number, _)| number).collect();
        let mut operations = Vec::new();
        for number in ended {
            let Some(operation) = self.operations.remove(&number) else { continue };
            for &start in &operation.starts {
                self.owned.remove(&(start, number));
            }
            operations.push(operation);
        }
        operations
    }
}

/// A finding before places are lines: calls with file and offset, and ranks.
type Seen = (Kind, Vec<(u32, String, u64)>, Vec<u32>);

/// Takes facts, and finds what does not fit.
pub struct Checker {
    ranks: Vec<Rank>,
    groups: Vec<Group>,
    by_members: BTreeMap<(Vec<u32>, Vec<u32>, u32), usize>,
    messages: Messages,
    clocks: Clocks,
    /// All windows, with their communicators; by communicator and how many it had.
    windows: Vec<(usize, Shared)>,
    by_communicator: BTreeMap<(usize, u32), usize>,
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
            groups[0].add_holder(rank);
            groups[1 + rank as usize].add_holder(rank);
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
            clocks: Clocks::new(ranks),
            windows: Vec::new(),
            by_communicator: BTreeMap::new(),
            found: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// A rank has told something, at that time (ps). What makes no sense is left out: ranks are other people's
    /// programs.
    pub fn take(&mut self, rank: u32, time: u64, fact: Fact) {
        let Some(own) = self.ranks.get_mut(rank as usize) else { return };
        self.clocks.goes_on(rank);
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
                let Checker { messages, groups, found, clocks, .. } = self;
                messages.matched(rank, request, source, tag, (groups, clocks), &mut |pair| keep(found, pair));
                clocks.goes_on(rank);
            }
            Fact::Request { request, call, place } => {
                own.open.insert(request, Open { site: Site { rank, call, place }, starts: Vec::new(), partner: None });
                // It has been told just before.
                if let Some(mut last) = own.operations.last_entry().filter(|last| last.get().site == Site { rank, call, place }) {
                    last.get_mut().request.get_or_insert(request);
                }
            }
            Fact::Ended { request } => {
                self.clocks.ended(rank, request);
                for start in own.open.remove(&request).into_iter().flat_map(|open| open.starts) {
                    own.owned.remove(&(start, u64::from(request)));
                }
                if !own.operations.is_empty() {
                    for read in own.complete(|operation| operation.request == Some(request)).into_iter().filter_map(|ended| ended.read) {
                        let (_, shared) = &mut self.windows[read.shared];
                        shared.complete_read(read.target, read.displacement, &read.pieces, read.touch);
                    }
                }
            }
            Fact::Origin { window, target, reads, writes } => self.origin(rank, window, target, &reads, &writes),
            Fact::Overlaps { call, place } => {
                let text = "the two buffers of one call overlap".to_owned();
                self.find(Kind::Overlap, text, vec![Site { rank, call, place }]);
            }
            Fact::Changed { request } => {
                if let Some(open) = own.open.get(&request) {
                    let site = open.site;
                    self.find(Kind::Changed, "the buffer of a send was changed while the send was under way".to_owned(), vec![site]);
                }
            }
            Fact::Collective(collective) => {
                if let Some(&index) = own.communicators.get(&collective.communicator)
                    && let Some(group) = self.groups.get_mut(index)
                {
                    let (call, place) = (collective.call, collective.place);
                    own.now = Now { call, place, partners: Vec::new(), collective: Some(index) };
                    self.clocks.collective(rank, index, call, group.peer(rank, collective.root));
                    group.calls(rank, collective);
                }
            }
            Fact::Made { what, number, call, place } => {
                own.objects.insert((what, number), Site { rank, call, place });
                if what == Object::Window {
                    own.windows.insert(number, Own::default());
                }
            }
            Fact::Freed { what, number } => {
                own.objects.remove(&(what, number));
                if what == Object::Window {
                    own.windows.remove(&number);
                    own.complete(|operation| operation.window == number);
                }
            }
            Fact::Window { window, call, place, target, assertion } => {
                self.window(window, Site { rank, call, place }, target, assertion);
            }
            Fact::Exposed { window, communicator, base, size, unit } => self.exposed(rank, window, communicator, [base, size, unit]),
            Fact::Epoch { window, call, place, members } => self.epoch(window, Site { rank, call, place }, members),
            Fact::Access { window, target, access, displacement, pieces } => {
                self.access(rank, window, target, access, displacement, &pieces);
            }
            Fact::Thread { call, place, other, other_place } => {
                let site = Site { rank, call, place };
                match other.checked_sub(1) {
                    None => {
                        let text = "a call from another thread than that which has initialised MPI, below MPI_THREAD_SERIALIZED";
                        self.find(Kind::Thread, text.to_owned(), vec![site]);
                    }
                    Some(call) => {
                        let mut sites = vec![site, Site { rank, call, place: other_place }];
                        sites.sort_unstable();
                        self.find(Kind::Thread, "two threads are in MPI calls at once, below MPI_THREAD_MULTIPLE".to_owned(), sites);
                    }
                }
            }
            Fact::Received { request, sum } => {
                let Checker { messages, found, .. } = self;
                messages.received(rank, request, sum, &mut |pair| keep(found, pair));
            }
            Fact::Probed { communicator, source, tag, wanted } => {
                if let Some(&group) = own.communicators.get(&communicator) {
                    let Checker { messages, groups, found, clocks, .. } = self;
                    messages.probed(rank, group, (source, tag), wanted, (groups, clocks), &mut |pair| keep(found, pair));
                }
            }
            Fact::Owns { request, reads, writes } => self.owns(rank, request, &reads, &writes),
            Fact::Local { place, address, length, write } => self.local(rank, place, (address, length), write),
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
        self.groups[group].add_holder(rank);
    }

    fn message(&mut self, rank: u32, time: u64, message: Message) {
        let site = Site { rank, call: message.call, place: message.place };
        self.buffer(site, &message);
        if message.communicator == UNKNOWN {
            return;
        }
        let Checker { ranks, messages, groups, found, clocks, .. } = self;
        let own = &mut ranks[rank as usize];
        let Some(&group) = own.communicators.get(&message.communicator) else { return };
        match (message.receive, message.mode) {
            (false, _) => clocks.sends(rank, message.request),
            (true, Mode::Blocking) => clocks.receives(rank, message.request),
            (true, Mode::Nonblocking) => {}
        }
        if message.mode == Mode::Blocking {
            // A call that sends and receives tells two.
            if (own.now.call, own.now.place) != (message.call, message.place) || own.now.partners.len() != 1 {
                own.now = Now { call: message.call, place: message.place, ..Now::default() };
            }
            own.now.partners.push((group, message.peer));
            let call = call_name(message.call).trim_end_matches("_c");
            if matches!(call, "MPI_Send" | "MPI_Ssend" | "MPI_Rsend") && messages.waits_for_itself(rank, group, &message, groups) {
                let text = "a blocking send of a rank to itself, whose receive is not posted before: it ends only if MPI keeps a copy";
                keep(found, Found { kind: Kind::Buffering, detail: text.to_owned(), sites: vec![site], communicator: Some(group) });
            }
        }
        messages.post((rank, time), group, &message, site, (groups, clocks), &mut |pair| keep(found, pair));
    }

    /// The buffer of a message is no other request's, and no window's that others use.
    fn buffer(&mut self, site: Site, message: &Message) {
        let own = &mut self.ranks[site.rank as usize];
        let overlap = own.overlap(&message.pieces, message.receive);
        if message.mode == Mode::Nonblocking {
            own.own(&message.pieces, u64::from(message.request), message.receive);
            let starts = message.pieces.iter().map(|piece| piece.0).collect();
            let partner = own.communicators.get(&message.communicator).map(|&group| (group, message.peer));
            own.open.insert(message.request, Open { site, starts, partner });
        }
        self.touches_windows(site, &message.pieces, message.receive);
        if let Some((by, written)) = overlap
            && let Some(other) = self.ranks[site.rank as usize].owner(by)
        {
            let what = match (written, message.receive) {
                _ if by >= OPERATION => "a message uses the buffer of a one-sided operation that is not complete",
                (true, true) => "a receive writes where another one that is under way writes",
                (true, false) => "a send reads where a receive that is under way writes",
                _ => "a receive writes where a send that is under way reads",
            };
            self.find(Kind::Overlap, what.to_owned(), vec![other, site]);
        }
    }

    /// The buffers of a one-sided operation at its caller.
    fn origin(&mut self, rank: u32, window: u32, target: i64, reads: &[(u64, u64)], writes: &[(u64, u64)]) {
        let own = &mut self.ranks[rank as usize];
        let read = own.read.take();
        let Some(site) = own.windows.get(&window).and_then(|window| window.last) else { return };
        let overlap = own.overlap(writes, true).or_else(|| own.overlap(reads, false));
        let other = overlap.and_then(|(by, _)| own.owner(by));
        if own.operations.len() < MOST_OPERATIONS {
            own.operated += 1;
            let number = OPERATION + own.operated;
            own.own(reads, number, false);
            own.own(writes, number, true);
            let starts = reads.iter().chain(writes).map(|piece| piece.0).collect();
            own.operations.insert(number, Operation { window, target, site, starts, request: None, read });
        }
        if let Some(other) = other {
            let text = "a one-sided operation uses a buffer of the caller that another one, or a message, has not given back yet";
            self.find(Kind::Overlap, text.to_owned(), vec![other, site]);
        }
    }

    /// A window is made.
    fn exposed(&mut self, rank: u32, number: u32, communicator: u32, [base, size, unit]: [u64; 3]) {
        let own = &mut self.ranks[rank as usize];
        let Some(&group) = own.communicators.get(&communicator) else { return };
        let Some(window) = own.windows.get_mut(&number) else { return };
        let times = own.made.entry(group).or_default();
        let next = self.windows.len();
        let shared = *self.by_communicator.entry((group, *times)).or_insert(next);
        *times += 1;
        if shared == next {
            self.windows.push((group, Shared::new(self.groups[group].size())));
        }
        window.shared = Some(shared);
        self.clocks.begin();
        let found = &mut self.found;
        self.windows[shared].1.expose(rank, base, size, unit, &mut |clash| keep(found, clash));
    }

    /// MPI_Win_start and MPI_Win_post.
    fn epoch(&mut self, number: u32, site: Site, members: Vec<u32>) {
        let Some(window) = self.ranks[site.rank as usize].windows.get_mut(&number) else { return };
        let Some(call) = CALLS.get(site.call as usize) else { return };
        let wrong = window.synchronises(call.name, -1, 0);
        let counts = if call.name == "MPI_Win_start" { &mut window.starts } else { &mut window.posts };
        let mut numbered = Vec::new();
        for &member in &members {
            let count = counts.entry(member).or_default();
            *count += 1;
            numbered.push((member, *count));
        }
        if let Some(index) = window.shared {
            match call.name {
                "MPI_Win_start" => members.iter().for_each(|&target| self.clocks.wait(site.rank, Meeting::Epoch(index, target, false))),
                _ => self.clocks.come(site.rank, Meeting::Epoch(index, site.rank, false)),
            }
        }
        match call.name {
            "MPI_Win_start" => window.started = Some(members),
            _ => window.posted = Some(numbered),
        }
        if let Some(wrong) = wrong {
            self.find(Kind::Epoch, wrong.to_owned(), vec![site]);
        }
    }

    /// What an operation does to its target; that it is called has been told before.
    fn access(&mut self, rank: u32, number: u32, target: i64, access: Access, displacement: u64, pieces: &[(u64, u64)]) {
        let Some(window) = self.ranks[rank as usize].windows.get_mut(&number) else { return };
        let Some(index) = window.shared else { return };
        let Some((group, shared)) = self.windows.get_mut(index) else { return };
        let Some(site) = window.last else { return };
        let Some(world) = self.groups[*group].peer(rank, target) else { return };
        let Some(within) = window.within(target, Some(world), site) else { return };
        let found = &mut self.found;
        let touch = Touch { site, access, local: false };
        self.ranks[rank as usize].read = (CALLS.get(site.call as usize).is_some_and(|call| call.name.starts_with("MPI_Rget"))
            && access == Access::Get)
            .then(|| Read { shared: index, target: world, displacement, pieces: pieces.to_vec(), touch });
        shared.access(within, world, displacement, pieces, touch, &mut |clash| keep(found, clash));
        if within == Within::Lock {
            if matches!(access, Access::Accumulate(..) | Access::Swap(_)) {
                self.clocks.atomic(rank, index, world);
            }
            let exclusive = self.ranks[rank as usize].windows.get(&number).is_some_and(|window| window.exclusive.contains(&target));
            shared.passive(&self.clocks, world, (displacement, pieces), touch, exclusive, &mut |clash| keep(found, clash));
        }
    }

    fn window(&mut self, number: u32, site: Site, target: i64, assertion: u32) {
        let own = &mut self.ranks[site.rank as usize];
        match CALLS.get(site.call as usize).map_or("", |call| call.name) {
            _ if own.operations.is_empty() => {}
            "MPI_Win_unlock" | "MPI_Win_flush" | "MPI_Win_flush_local" => {
                drop(own.complete(|operation| operation.window == number && operation.target == target));
            }
            "MPI_Win_fence" | "MPI_Win_complete" | "MPI_Win_unlock_all" | "MPI_Win_flush_all" | "MPI_Win_flush_local_all" => {
                drop(own.complete(|operation| operation.window == number));
            }
            _ => {}
        }
        let Some(window) = self.ranks[site.rank as usize].windows.get_mut(&number) else { return };
        let Some(call) = CALLS.get(site.call as usize) else { return };
        let known = window.shared.and_then(|shared| self.windows.get_mut(shared));
        let world = known.as_ref().and_then(|known| self.groups[known.0].peer(site.rank, target));
        if call.name == "MPI_Win_free" {
            if let Some(before) = window.unfenced {
                let text = "a window is freed before a fence has completed what was done on it".to_owned();
                self.find(Kind::OpenEpoch, text, vec![before, site]);
            } else if window.locked_all || !window.locked.is_empty() || window.started.is_some() || window.posted.is_some() {
                self.find(Kind::OpenEpoch, "a window is freed within an epoch".to_owned(), vec![site]);
            }
            return;
        }
        if shape::target(site.call).is_some() {
            window.last = Some(site);
            // Whom MPI_Win_start has named is only known of a window whose ranks are.
            let unknown = window.started.is_some() && world.is_none();
            if target >= 0 && window.within(target, world, site).is_none() && !unknown {
                let text = match window.started {
                    Some(_) => "one-sided communication with a rank that is not in the group of MPI_Win_start",
                    None => "one-sided communication outside an epoch: no MPI_Win_fence, MPI_Win_lock or MPI_Win_start came before",
                };
                self.find(Kind::Epoch, text.to_owned(), vec![site]);
            }
            return;
        }
        let nested = window.nests(call.name, assertion, site);
        let (started, index) = (window.started.clone(), window.shared.unwrap_or(0));
        let wrong = window.synchronises(call.name, target, assertion);
        let posted = if matches!(call.name, "MPI_Win_wait" | "MPI_Win_test") { window.posted.take() } else { None };
        if let Some((_, shared)) = known {
            let (rank, clocks) = (site.rank, &mut self.clocks);
            match call.name {
                "MPI_Win_unlock" | "MPI_Win_flush" | "MPI_Win_flush_local" => clocks.completes(rank, index, world),
                "MPI_Win_unlock_all" | "MPI_Win_flush_all" | "MPI_Win_flush_local_all" => clocks.completes(rank, index, None),
                _ => {}
            }
            match call.name {
                "MPI_Win_fence" => {
                    shared.fence(rank);
                    clocks.fence(rank, index);
                }
                "MPI_Win_unlock" | "MPI_Win_flush" => {
                    if let Some(world) = world {
                        shared.complete(rank, world);
                        shared.passive_complete(clocks, rank, Some(world));
                    }
                }
                "MPI_Win_unlock_all" | "MPI_Win_flush_all" => {
                    shared.complete_all(rank);
                    shared.passive_complete(clocks, rank, None);
                }
                "MPI_Win_sync" => clocks.atomic(rank, index, rank),
                "MPI_Win_complete" => {
                    for &target in started.iter().flatten() {
                        clocks.wait(rank, Meeting::Epoch(index, target, false));
                    }
                    clocks.come(rank, Meeting::Epoch(index, rank, true));
                }
                "MPI_Win_wait" | "MPI_Win_test" => {
                    for &(origin, _) in posted.iter().flatten() {
                        clocks.wait(rank, Meeting::Epoch(index, origin, true));
                    }
                }
                _ => {}
            }
            let found = &mut self.found;
            if let Some(epochs) = posted {
                shared.exposure(site.rank, &epochs, &mut |clash| keep(found, clash));
            }
        }
        if let Some(wrong) = wrong {
            self.find(Kind::Epoch, wrong.to_owned(), vec![site]);
        }
        if let Some(lock) = nested {
            let text =
                "a lock within a fence epoch: the fence before it is without MPI_MODE_NOSUCCEED, that behind it without MPI_MODE_NOPRECEDE";
            self.find(Kind::Epoch, text.to_owned(), vec![lock, site]);
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
            let what = what.name();
            self.find(Kind::Leak, format!("{what} was never freed"), vec![site]);
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

    /// What a rank waits for that is in this call, as far as it has told.
    pub fn waits(&self, rank: u32, call: u32) -> Waits {
        let Some(own) = self.ranks.get(rank as usize) else { return Waits::default() };
        let known = own.now.call == call && own.now.place != 0;
        let mut partners = if known { own.now.partners.clone() } else { Vec::new() };
        if matches!(shape::of(call), Shape::Complete { .. }) {
            partners = own.open.values().filter_map(|open| open.partner).collect();
        }
        let mut waits = Waits::default();
        for (group, peer) in partners {
            let group = &self.groups[group];
            if peer == ANY {
                waits.any = true;
                waits.whom.extend(group.others(rank));
            } else {
                waits.whom.extend(group.peer(rank, peer));
            }
        }
        if let Some(group) = own.now.collective.filter(|_| known) {
            waits.whom = self.groups[group].missing(rank);
        }
        waits.whom.sort_unstable();
        waits.whom.dedup();
        if known && let Some((object, offset)) = own.places.get(&own.now.place).filter(|(object, _)| !object.is_empty()) {
            waits.place = Places::default().line(Place { object, offset: *offset });
        }
        waits
    }

    /// Sends and receives of all ranks that have not met their other ends, a line each with its rank, in the order in
    /// which they were posted: what a deadlock waits for. With what comes closest: a message with another tag, on
    /// another communicator or of another rank.
    pub fn unmet(&self) -> Vec<(u32, String)> {
        let all = self.messages.unmet(&self.groups);
        let mut places = Places::default();
        all.iter().map(|unmet| (unmet.rank, self.describe(unmet, &all, &mut places))).collect()
    }

    fn describe(&self, unmet: &Unmet, all: &[Unmet], places: &mut Places) -> String {
        let peer = |peer: Option<u32>| peer.map_or_else(|| "any rank".to_owned(), |peer| format!("rank {peer}"));
        let tag = |tag: Option<i64>| tag.map_or_else(|| "any tag".to_owned(), |tag| format!("tag {tag}"));
        let (way, none) = if unmet.receive { ("from", "no message fits") } else { ("to", "not received") };
        let mut text = format!("{} {way} {}, {}", self.name(unmet.site, places), peer(unmet.peer), tag(unmet.tag));
        if unmet.group != 0 {
            text += &format!(", on {}", self.groups[unmet.group].name(false));
        }
        text += &format!(": {none}");
        if let Some(near) = unmet.nearest(all) {
            let verb = if near.receive { "waits for" } else { "has sent" };
            let (call, near_tag) = (self.name(near.site, places), tag(near.tag));
            text += &if near.group != unmet.group {
                let on = self.groups[near.group].name(near.group == 0);
                format!("; rank {} {verb} one on {on} ({call})", near.rank)
            } else if unmet.tag.zip(near.tag).is_some_and(|(a, b)| a != b) {
                format!("; rank {} {verb} {near_tag} ({call})", near.rank)
            } else if near.receive {
                format!("; rank {} waits for {} ({call})", near.rank, peer(near.peer))
            } else {
                format!("; rank {} has sent to {} ({call})", near.rank, peer(near.peer))
            };
        }
        text
    }

    /// A call with the place where it stands, if that is known.
    fn name(&self, site: Site, places: &mut Places) -> String {
        let call = call_name(site.call);
        match self.ranks[site.rank as usize].places.get(&site.place).filter(|(object, _)| !object.is_empty()) {
            Some((object, offset)) => format!("{call} at {}", places.line(Place { object, offset: *offset })),
            None => call.to_owned(),
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
        // Ranks that have called different ones may not come to others for that.
        let any_wrong = self.groups.iter().any(Group::is_wrong);
        for (index, group) in self.groups.iter().enumerate() {
            self.found.extend(group.finding(index == 0, |rank| self.ranks[rank as usize].finalized && !any_wrong));
        }
        let mut places = Places::default();
        let mut findings: BTreeMap<(Kind, Vec<String>), (String, BTreeSet<u32>)> = BTreeMap::new();
        let changed: BTreeSet<Site> = self.found.iter().filter(|found| found.kind == Kind::Changed).map(|found| found.sites[0]).collect();
        for found in &self.found {
            // What was sent is another thing than what was summed then.
            if found.kind == Kind::Written && changed.contains(&found.sites[0]) {
                continue;
            }
            if found.communicator.is_some_and(|group| self.messages.is_doubtful(group)) {
                continue;
            }
            let mut calls: Vec<String> = found.sites.iter().map(|&site| self.name(site, &mut places)).collect();
            if matches!(found.kind, Kind::Collective | Kind::Conflict | Kind::Thread) {
                // Who came first depends on time.
                calls.sort();
                if found.kind == Kind::Collective {
                    calls.dedup();
                }
            }
            let (_, ranks) = findings.entry((found.kind, calls)).or_insert_with(|| (found.detail.clone(), BTreeSet::new()));
            ranks.extend(found.sites.iter().map(|site| site.rank));
        }
        let finish = |((kind, calls), (detail, ranks)): ((Kind, Vec<String>), (String, BTreeSet<u32>))| {
            let ranks: Vec<u32> = ranks.into_iter().collect();
            let word = if kind.is_error() { "error" } else { "remark" };
            let in_library = calls.iter().all(|call| call.ends_with(LIBRARY));
            let whose = if in_library { "not the program's: " } else { "" };
            let text = format!("{word}: {whose}{detail}: {}, {} (MPI 4.1, {})", calls.join(" and "), list(&ranks), kind.section());
            Finding { kind, text, ranks, calls, in_library }
        };
        findings.into_iter().map(finish).collect()
    }
}

/// The name of a call, or what the program itself does.
fn call_name(call: u32) -> &'static str {
    match call {
        LOAD => "a load",
        STORE => "a store",
        call => CALLS.get(call as usize).map_or("?", |call| call.name),
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
