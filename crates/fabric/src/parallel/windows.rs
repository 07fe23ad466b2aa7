//! Regions side by side: windows in which nothing can come from one to another.

use super::agent::Agent;
use super::effects::Mailbox;
use super::meeting::Meeting;
use super::part::{LogicalProcess, Model};
use super::processes::{ProcessError, Spread};
use super::{Fabric, lock};
use crate::config::{FlowControl, NetworkConfig};
use crate::packet::layout::Layout;
use crate::packet::state::NEVER;
use crate::timing::{Costs, Timer};
use crate::{Forwarding, NetworkKind};
use narrows_topology::Vertex;
use narrows_units::SimTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How long regions can do without each other: on each network the latency of a link between them, and a bit; on the
/// LogGP network that of the whole way.
#[derive(Clone, Debug)]
pub(super) struct Lookahead(Vec<OfNetwork>);

#[derive(Clone, Debug)]
struct OfNetwork {
    /// By kind of the links between regions.
    links: Vec<Between>,
    /// Times on the fastest link of all.
    fastest: Timer,
    /// Beyond this nothing goes.
    most: u64,
}

/// Links from one region to another.
#[derive(Clone, Copy, Debug)]
struct Between {
    latency: u64,
    /// Until the smallest packet that there can be asks for an output; `None`: they lead to hosts.
    pipeline: Option<u64>,
}

impl Lookahead {
    pub(super) fn new<'a>(networks: impl IntoIterator<Item = (&'a NetworkConfig, &'a Layout)>) -> Lookahead {
        Lookahead(networks.into_iter().map(|(config, layout)| OfNetwork::new(config, layout)).collect())
    }

    /// See [`OfNetwork::with`]; `least` is the smallest packet of any network.
    pub(super) fn with(&self, least: u32) -> u64 {
        self.0.iter().map(|network| network.with(least)).min().unwrap_or(NEVER)
    }
}

impl OfNetwork {
    fn new(config: &NetworkConfig, layout: &Layout) -> OfNetwork {
        let costs = Costs::new(config, &layout.topology);
        if config.kind == NetworkKind::LogGp {
            let fastest = *costs.host_wire();
            return OfNetwork { links: Vec::new(), fastest, most: crate::loggp::lookahead(config, layout) };
        }
        let mut most = NEVER;
        let between = layout.topology.links().iter().filter(|link| layout.home(link.from) != layout.home(link.to));
        let kinds: BTreeSet<(u16, bool)> = between.map(|link| (link.speed, matches!(link.to, Vertex::Host(_)))).collect();
        // Over any of them a packet may leave the switch that it has come to.
        let all: BTreeSet<u16> = layout.topology.links().iter().map(|link| link.speed).collect();
        let fastest = all.iter().map(|&speed| *costs.wire(speed)).min_by_key(|timer| timer.time(1 << 20)).unwrap_or(*costs.wire(0));
        let least = config.least_packet().0 as u32;
        let whole = |speed| if config.forwarding == Forwarding::StoreAndForward { costs.wire(speed).time(least) } else { 0 };
        let kind = |&(speed, to_host): &(u16, bool)| Between {
            latency: costs.link(speed).latency.as_ps(),
            pipeline: (!to_host).then(|| costs.switch_latency + whole(speed)),
        };
        let links = kinds.iter().map(kind).collect();
        if let FlowControl::Pause(pause) = &config.flow_control
            && !kinds.is_empty()
        {
            most = pause.resend_after.as_ps();
            for &(speed, _) in &kinds {
                most = most.min(costs.link(speed).latency.as_ps() + costs.wire(speed).time(pause.frame.0 as u32));
            }
        }
        OfNetwork { links, fastest, most }
    }

    /// `least`: no packet that has come over such a link so far was smaller. The head of a packet asks for an output
    /// after the link and the switch's pipeline (of a stored one, after its time on the link, too: any may come, so
    /// that is the smallest that there can be), and is at a host after the link. Credits are back after the time of the
    /// packet on the link that it goes on with, and the link; no packet gives credits back in the window in which it
    /// sets out, as it comes over the link after the end of that.
    fn with(&self, least: u32) -> u64 {
        let link = |between: &Between| between.latency + between.pipeline.map_or(0, |pipeline| self.fastest.time(least).min(pipeline));
        self.links.iter().map(link).min().unwrap_or(NEVER).min(self.most)
    }
}

/// What is known at the end of a window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct News {
    /// The next event anywhere.
    pub(super) next: u64,
    /// The smallest packet so far.
    pub(super) least: u32,
    /// Somebody wants to stop.
    pub(super) stops: bool,
}

impl News {
    /// With those of another process.
    pub(super) fn with(self, other: News) -> News {
        News { next: self.next.min(other.next), least: self.least.min(other.least), stops: self.stops || other.stops }
    }
}

/// What came of a run of windows.
pub(super) struct Outcome {
    /// It was stopped, or there is an error.
    pub(super) stopped: bool,
    /// The smallest packet.
    pub(super) least: u32,
    pub(super) windows: u64,
    /// What went wrong between the processes.
    pub(super) error: Option<ProcessError>,
}

/// A run of windows, shared by its threads.
pub(super) struct Windows<'a, A: Agent> {
    pub(super) parts: &'a [Mutex<LogicalProcess<A>>],
    /// Of all regions, those of other processes too.
    pub(super) boxes: &'a [Mutex<Mailbox<A::Letter>>],
    /// The other processes.
    pub(super) spread: Option<&'a Spread<A::Letter>>,
    pub(super) lookahead: &'a Lookahead,
    /// The smallest packet before this window.
    pub(super) least: AtomicU32,
    /// With those of this window.
    pub(super) smaller: AtomicU32,
    pub(super) end: u64,
    /// Of the window: the first event anywhere.
    pub(super) begin: AtomicU64,
    /// Of the next one.
    pub(super) next: AtomicU64,
    /// By thread: how many parts of its share have been begun.
    pub(super) shares: Vec<AtomicUsize>,
    meeting: Meeting,
    /// A thread has panicked.
    pub(super) failed: AtomicBool,
    /// `go_on` has said no, here or in another process, or there is an error.
    pub(super) stopped: AtomicBool,
    pub(super) error: Mutex<Option<ProcessError>>,
    /// So far.
    pub(super) windows: AtomicU64,
    pub(super) go_on: Mutex<&'a mut (dyn FnMut(SimTime) -> bool + Send)>,
}

/// Where there is one region, and so no end of a window: events between two questions whether to go on.
const EVENTS_AT_ONCE: u64 = 1 << 16;

impl<'a, A: Agent> Windows<'a, A> {
    /// From what is known now to `end`.
    pub(super) fn new(
        fabric: &'a Fabric<A>,
        news: News,
        end: u64,
        threads: usize,
        go_on: &'a mut (dyn FnMut(SimTime) -> bool + Send),
    ) -> Self {
        Windows {
            parts: &fabric.parts,
            boxes: &fabric.boxes,
            spread: fabric.spread.as_ref(),
            lookahead: &fabric.lookahead,
            least: AtomicU32::new(news.least),
            smaller: AtomicU32::new(news.least),
            end,
            begin: AtomicU64::new(news.next),
            next: AtomicU64::new(NEVER),
            shares: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            meeting: Meeting::new(threads),
            failed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            error: Mutex::new(None),
            windows: AtomicU64::new(0),
            go_on: Mutex::new(go_on),
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        Outcome {
            stopped: self.stopped.into_inner(),
            least: self.smaller.into_inner(),
            windows: self.windows.into_inner(),
            error: self.error.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(super) fn run(&self, thread: usize) {
        loop {
            let begin = self.begin.load(Ordering::Relaxed);
            let least = self.least.load(Ordering::Relaxed);
            if begin >= self.end {
                return;
            }
            let until = begin.saturating_add(self.lookahead.with(least)).min(self.end);
            // The others would wait for a thread that panics.
            let mut done = catch_unwind(AssertUnwindSafe(|| self.window(thread, until)));
            self.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            self.meeting.meet(|| {
                let closed = catch_unwind(AssertUnwindSafe(|| self.close(begin)));
                self.failed.fetch_or(closed.is_err(), Ordering::Relaxed);
                done = std::mem::replace(&mut done, Ok(())).and(closed);
            });
            if let Err(panic) = done {
                resume_unwind(panic);
            }
            if self.failed.load(Ordering::Relaxed) || self.stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// By the last thread of a window that began at `begin`: prepares the next one.
    fn close(&self, begin: u64) {
        self.windows.fetch_add(1, Ordering::Relaxed);
        let stops = !lock(&self.go_on)(SimTime(begin));
        let next = self.next.swap(NEVER, Ordering::Relaxed);
        let mine = News { next, least: self.smaller.load(Ordering::Relaxed), stops };
        let News { next, least, stops } = self.meet(mine);
        self.stopped.fetch_or(stops, Ordering::Relaxed);
        self.begin.store(next, Ordering::Relaxed);
        self.least.store(least, Ordering::Relaxed);
        self.smaller.store(least, Ordering::Relaxed);
        self.shares.iter().for_each(|share| share.store(0, Ordering::Relaxed));
    }

    /// The news of all processes. A thread that has panicked speaks for itself, later.
    fn meet(&self, mine: News) -> News {
        let Some(spread) = self.spread else { return mine };
        if self.failed.load(Ordering::Relaxed) {
            return mine;
        }
        spread.meet(mine, self.boxes, self.parts).unwrap_or_else(|error| {
            *lock(&self.error) = Some(error);
            News { stops: true, ..mine }
        })
    }

    fn window(&self, thread: usize, until: u64) {
        let threads = self.shares.len();
        // Its own share first, which its cache may know, then what others have not begun.
        for turn in 0..threads {
            let owner = (thread + turn) % threads;
            let share = owner * self.parts.len() / threads..(owner + 1) * self.parts.len() / threads;
            loop {
                let part = share.start + self.shares[owner].fetch_add(1, Ordering::Relaxed);
                if part >= share.end {
                    break;
                }
                self.run_part(part, until);
            }
        }
    }

    fn run_part(&self, number: usize, until: u64) {
        let most = if self.boxes.len() == 1 { EVENTS_AT_ONCE } else { u64::MAX };
        let (next, least) = run_part(&mut lock(&self.parts[number]), self.boxes, until, most);
        self.next.fetch_min(next, Ordering::Relaxed);
        self.smaller.fetch_min(least, Ordering::Relaxed);
    }
}

/// A part takes what the others have sent, does everything before `until`, but not more than `most` events, and gives
/// the others what is for them. When something happens next there, or by what it has sent, and its smallest packet.
pub(super) fn run_part<A: Agent>(part: &mut LogicalProcess<A>, boxes: &[Mutex<Mailbox<A::Letter>>], until: u64, most: u64) -> (u64, u32) {
    // What is sent in this window may be among it: it is for later ones, and does no harm.
    std::mem::swap(&mut part.mail, &mut lock(&boxes[part.number as usize]));
    part.open();
    part.fetch(until);
    part.run(until, most);
    let sent = part.effects.sent;
    assert!(sent >= until, "region {} sends at {} ps what others need before {until} ps: the lookahead is too long", part.number, sent);
    let next = part.effects.queue.peek().map_or(NEVER, |(at, _)| at).min(sent);
    let models = part.planes.all().map(|model| if let Model::Packet(region) = model { region.least_wire() } else { u32::MAX });
    let least = models.min().unwrap_or(u32::MAX);
    post(part, boxes);
    (next, least)
}

/// What a part has sent to others goes into their boxes.
pub(super) fn post<A: Agent>(part: &mut LogicalProcess<A>, boxes: &[Mutex<Mailbox<A::Letter>>]) {
    // Letters alone may have no effect that is known.
    if std::mem::replace(&mut part.effects.sent, NEVER) == NEVER && part.effects.outbox.letters.is_empty() {
        return;
    }
    let outbox = &mut part.effects.outbox;
    for (region, plane, packet) in outbox.packets.drain(..) {
        lock(&boxes[region as usize]).planes[plane as usize].packets.push(packet);
    }
    for (region, plane, note) in outbox.notes.drain(..) {
        lock(&boxes[region as usize]).planes[plane as usize].notes.push(note);
    }
    for (region, plane, flying) in outbox.flying.drain(..) {
        lock(&boxes[region as usize]).planes[plane as usize].flying.push(flying);
    }
    for (region, host, letter) in outbox.letters.drain(..) {
        lock(&boxes[region as usize]).letters.push((host, letter));
    }
}
