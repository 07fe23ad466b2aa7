//! One rank: its clock, what it has given to the NIC, and what the NIC has told it.
//!
//! The rules of waiting (docs/decisions/0002-who-runs-when.md):
//!
//! * A notice is seen only when the rank's clock has reached its time stamp.
//! * In a blocking MPI call a notice in the future that is already here moves the clock to it;
//!   if there is none, the rank parks until one comes. The first few empty polls after any
//!   activity return at once and free of cost, because MPI libraries have progress engines of
//!   their own that may find work in between.
//! * In MPI_Test and its relatives, and outside MPI, an empty poll costs time: the machine's poll
//!   cost, and in a long wait more, up to a microsecond, so that it needs fewer hand-overs. Not
//!   more: programs that compute in steps with an MPI_Test after each must not pay for it.
//! * A blocking call that has found what it wanted in the memory of this process, and not on the network, costs a poll.
//!   So does every call after a thousand in a row that took no time.
//! * In MPI_Probe and MPI_Mprobe a search for a message is answered when the message is there, so that the rank can
//!   park.

mod calls;
mod files;
mod offload;
mod polling;
mod sockets;

pub use files::File;
pub(crate) use files::Places;
pub use polling::{Waited, idle_poll};

use crate::{callers, shared, threads, turns};
use narrows_channel::handover::{self, Turn};
use narrows_channel::layout::{EPOCH_PS, reason, state};
use narrows_channel::map::Region;
use narrows_channel::record::{Delivery, Full, Push, Writer, each_delivery, encode_call, encode_command};
use narrows_channel::{Mapping, MappingError, Processor, RankHeader, Settings};
use narrows_heap::copy;
use narrows_message::Call;
use narrows_mpicalls::Class;
use narrows_output::say;
use narrows_portals::{Command, EqId, Event, EventKind, NO_TICKET, Notice, ProcessId, ReplyCode, pt};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

/// Empty polls of a blocking call that return at once before the rank parks: enough for the progress functions of
/// non-blocking collectives, which start their next round in the pass after a completion. Ten cost a microsecond per
/// wait.
const IDLE_PASSES: u32 = 3;
/// How often a sleeping rank looks whether the simulator still lives.
const LIFE_CHECK: Duration = Duration::from_secs(1);
/// How long the first empty poll outside the simulated network sleeps; mail wakes it. Each one that follows sleeps
/// twice as long, at most [`LONGEST_NAP_PER_RANK`] times the number of ranks.
const OUTSIDE_NAP: Duration = Duration::from_micros(200);
/// Bounds what all ranks in MPI_Init wake up together to 20,000 times a second. With naps of a fixed length 256 ranks
/// kept two cores busy with nothing else.
pub(crate) const LONGEST_NAP_PER_RANK: Duration = Duration::from_micros(50);
/// Ends a rank whose simulator is gone.
const EXIT_SIMULATOR_GONE: i32 = 121;
/// Ends a rank whose region holds what is no notice.
const EXIT_BROKEN_NOTICE: i32 = 122;

/// An event queue as the program sees it.
#[derive(Default)]
struct Queue {
    /// With their times: another thread's clock may have reached them.
    events: VecDeque<(u64, Event)>,
    /// Events that it holds; more are lost (section 3.13.4).
    capacity: usize,
    dropped: bool,
    /// Flow control depends on its room: the NIC is told of events that the program has taken.
    watched: bool,
    taken: u32,
}

/// A counting event as the program sees it.
#[derive(Clone, Copy, Default)]
struct Counter {
    success: u64,
    failure: u64,
    /// When it changed last, ps.
    time: u64,
    /// Changes that the program has asked for, and those that are in the value.
    asked: u32,
    done: u32,
}

impl Counter {
    fn reached(&self) -> u64 {
        self.success.saturating_add(self.failure)
    }

    fn settled(&self) -> bool {
        self.asked == self.done
    }
}

/// What is known of an MPI call that is not over, while its thread lets others call.
#[derive(Clone, Copy)]
pub(crate) struct CallState {
    class: Option<Class>,
    probes: Option<u32>,
    talks_to_itself: bool,
    own_queue: Option<u64>,
    passes: u32,
    idle_since: u64,
    entered_at: u64,
    waited_at_entry: u64,
    call: u32,
    peer: u64,
    tag: u64,
}

/// What a rank asks for.
enum Asked {
    /// Of its NIC.
    Command(Command),
    /// Of its endpoint with this event queue, with the data if their buffer is free at once.
    Call(EqId, Call, Option<Box<[u8]>>),
}

/// A rank of the simulated machine, seen from inside its process.
pub struct Rank {
    region: Region<'static>,
    number: u32,
    settings: Settings,
    processor: Processor,
    clock: u64,
    /// In MPI_Init or MPI_Finalize, or before: the simulator does not wait for this rank.
    outside: bool,
    /// What was asked for while outside.
    deferred: Vec<Asked>,
    notices: VecDeque<(u64, Notice)>,
    queues: BTreeMap<u32, Queue>,
    counts: BTreeMap<u32, Counter>,
    replies: Vec<(u32, ReplyCode, u64)>,
    next_ticket: u32,
    /// When the last command or call of any thread had been started, ps.
    started: u64,
    offload: offload::Offload,
    class: Option<Class>,
    /// In MPI_Probe or MPI_Mprobe: how many more searches are answered at once.
    probes: Option<u32>,
    /// See [`crate::own_queue`].
    talks_to_itself: bool,
    /// What was in that queue when this wait could have begun.
    own_queue: Option<u64>,
    expect_soon: bool,
    empty_polls: u32,
    /// In the present call.
    looked_in_vain: bool,
    /// Calls in a row that have taken no time, and followed each other without any.
    calls_without_time: u32,
    /// ... and may have had computing between them.
    calls_aside: u32,
    /// The MPI library was told to look at what has come, at the end of the present call.
    has_looked: bool,
    /// Empty polls that may return at once in the present call, and in calls to come.
    passes: u32,
    usual_passes: u32,
    /// In front of MPI_Finalize: the clock up to which this rank has had something to do.
    door: Option<u64>,
    /// Length of the next nap outside.
    nap: Duration,
    idle_since: u64,
    entered_at: u64,
    waited_at_entry: u64,
    left_at: u64,
    /// The call that it is in or comes from, see [`crate::stretches`].
    stands: crate::stretches::Call,
    /// Where that returns to in the program.
    site: u64,
}

impl Rank {
    pub(crate) fn new(mapping: &'static Mapping, number: u32) -> Result<Rank, MappingError> {
        let region = mapping.region(number)?;
        let header = region.header();
        let settings = region.file().settings;
        // Other ranks write long payloads into this one. Where the system allows that to ancestors only (Yama), it is
        // asked for. SAFETY: plain numbers; an error means that there is no such rule.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        header.state.store(state::OUTSIDE, Release);
        let rank = Rank {
            region,
            number,
            settings,
            processor: header.processor,
            clock: 0,
            outside: true,
            deferred: Vec::new(),
            notices: VecDeque::new(),
            queues: BTreeMap::new(),
            counts: BTreeMap::new(),
            replies: Vec::new(),
            next_ticket: 0,
            started: 0,
            offload: offload::Offload::default(),
            class: None,
            probes: None,
            talks_to_itself: false,
            own_queue: None,
            expect_soon: false,
            empty_polls: 0,
            looked_in_vain: false,
            calls_without_time: 0,
            calls_aside: 0,
            has_looked: false,
            passes: IDLE_PASSES,
            usual_passes: IDLE_PASSES,
            door: None,
            nap: OUTSIDE_NAP,
            idle_since: 0,
            entered_at: 0,
            waited_at_entry: 0,
            left_at: 0,
            stands: crate::stretches::Call::default(),
            site: 0,
        };
        rank.ring();
        Ok(rank)
    }

    fn header(&self) -> &'static RankHeader {
        self.region.header()
    }

    /// Identity of this process on the simulated machine.
    pub fn id(&self) -> ProcessId {
        ProcessId { nid: self.header().nid, pid: self.header().ptl_pid }
    }

    /// Global rank.
    pub fn rank(&self) -> u32 {
        self.number
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.region.file().ranks
    }

    /// Identity of another rank.
    pub fn process_of(&self, rank: u32) -> Option<ProcessId> {
        let header = self.region.sibling(rank)?.header();
        Some(ProcessId { nid: header.nid, pid: header.ptl_pid })
    }

    /// What the machine file says that a rank must know.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Index of the node.
    pub fn node(&self) -> u32 {
        self.header().node
    }

    /// Name of the simulated host.
    pub fn host(&self) -> &'static [u8] {
        let header = self.header();
        &header.host[..(header.host_length as usize).min(header.host.len())]
    }

    /// Simulated time since the return of MPI_Init, ps.
    pub fn elapsed_ps(&self) -> u64 {
        self.clock.saturating_sub(EPOCH_PS)
    }

    /// The provider has an endpoint: MPI goes through the simulated network.
    pub fn endpoint_open(&mut self) {
        self.header().endpoint.store(1, Relaxed);
    }

    /// The calling thread is going to use the region. The simulator may have taken it while other threads waited for
    /// memory: it comes back when simulated time has come to the thread's clock.
    pub(crate) fn take_region(&mut self) {
        let header = self.region.header();
        while !handover::enter(&header.state, &header.busy) {
            let clock = threads::current().map_or_else(|| header.clock.load(Relaxed), threads::Thread::clock);
            header.wants_at.store(clock, Release);
            shared::wants_back();
            self.await_turn(state::TAKEN);
            // It may have been given back for another reason before this was said.
            header.wants_at.store(0, Relaxed);
        }
    }

    /// It uses the region no longer.
    pub(crate) fn leave_region(&self) {
        handover::leave(&self.header().busy);
    }

    /// The calling thread has taken the rank: the rank's clock is the thread's.
    pub(crate) fn take_clock(&mut self) {
        if !self.outside
            && let Some(thread) = threads::current()
        {
            thread.computes(None);
            thread.look_for_release();
            thread.does_something();
            self.clock = thread.clock();
        }
    }

    /// It gives it back: its clock, ps.
    pub(crate) fn leave_clock(&self) -> u64 {
        if !self.outside
            && let Some(thread) = threads::current()
        {
            thread.set_clock(self.clock);
        }
        self.clock
    }

    /// What is known of the present call.
    pub(crate) fn call_state(&self) -> CallState {
        let header = self.header();
        CallState {
            class: self.class,
            probes: self.probes,
            talks_to_itself: self.talks_to_itself,
            own_queue: self.own_queue,
            passes: self.passes,
            idle_since: self.idle_since,
            entered_at: self.entered_at,
            waited_at_entry: self.waited_at_entry,
            call: header.call.load(Relaxed),
            peer: header.peer.load(Relaxed),
            tag: header.tag.load(Relaxed),
        }
    }

    /// It goes on: the next looks in vain are the first ones.
    pub(crate) fn set_call_state(&mut self, call: CallState) {
        let header = self.header();
        self.class = call.class;
        self.probes = call.probes;
        self.talks_to_itself = call.talks_to_itself;
        self.own_queue = call.own_queue;
        self.passes = call.passes;
        self.idle_since = call.idle_since;
        self.entered_at = call.entered_at;
        self.waited_at_entry = call.waited_at_entry;
        self.empty_polls = 0;
        self.no_idle_polls();
        if header.abort_code.load(Relaxed) == 0 {
            header.call.store(call.call, Relaxed);
            header.entered.store(call.entered_at, Relaxed);
            header.peer.store(call.peer, Relaxed);
            header.tag.store(call.tag, Relaxed);
        }
    }

    fn advance(&mut self, ps: u64) {
        self.clock += ps;
        self.header().clock.store(self.clock, Relaxed);
    }

    /// The time before which nothing can happen that is not in the region yet, ps.
    fn horizon(&self) -> u64 {
        let header = self.header();
        header.horizon.load(Relaxed).max(header.quiet_until.load(Relaxed))
    }

    fn activity(&mut self) {
        self.no_idle_polls();
        self.empty_polls = 0;
        self.looked_in_vain = false;
        self.own_queue = None;
        self.nap = OUTSIDE_NAP;
        self.idle_since = self.clock;
        threads::activity();
    }

    // ---- commands -------------------------------------------------------------------------

    /// Gives a command to the NIC: it is written at the rank's clock, after the software cost
    /// of a post. Payloads longer than [`Rank::inline_payload`] must not come inline.
    pub fn submit(&mut self, command: Command) {
        let posts = matches!(
            command,
            Command::Put { .. }
                | Command::Get { .. }
                | Command::Atomic(_)
                | Command::Triggered { .. }
                | Command::MeAppend { .. }
                | Command::MeSearch { .. }
                | Command::MeUnlink { .. }
        );
        self.note(&command);
        if self.outside {
            self.deferred.push(Asked::Command(command));
            return;
        }
        if posts {
            self.await_others();
            self.advance(self.processor.post_ps);
            self.started = self.clock;
        }
        self.activity();
        self.write(|writer, clock| encode_command(writer, clock, &command));
        self.asked_at_door();
    }

    /// Threads share the endpoint: what another one has started before is on its way before what this one starts. One
    /// may go on with a collective of another one, whose messages stay in order.
    fn await_others(&mut self) {
        if callers::may_call() {
            self.advance(self.started.saturating_sub(self.clock));
        }
    }

    /// Calls the endpoint of the message layer with this event queue, which is in the simulator. The time that it takes
    /// to start the operation passes here; what follows takes its time when the endpoint does it.
    ///
    /// A search of a blocking probe waits in the NIC until its message comes: the MPI library would only search again.
    pub fn call(&mut self, eq: EqId, mut call: Call, payload: Option<Box<[u8]>>) {
        if self.outside {
            self.deferred.push(Asked::Call(eq, call, payload));
            return;
        }
        if let (Some(more), Call::Peek { waits, .. }) = (&mut self.probes, &mut call) {
            match more.checked_sub(1) {
                Some(less) => *more = less,
                None => *waits = true,
            }
        }
        self.activity();
        self.await_others();
        self.write(|writer, clock| encode_call(writer, clock, eq, &call.to_words(), payload.as_deref()));
        let (posts, copied) = self.work_of(&call, payload.as_deref());
        self.charge_copy(copied);
        self.advance(posts * self.processor.post_ps);
        self.started = self.clock;
        self.asked_at_door();
    }

    /// Commands to the NIC and bytes copied when an operation starts.
    fn work_of(&self, call: &Call, payload: Option<&[u8]>) -> (u64, u64) {
        match call {
            // What they take depends on the queues: the simulator knows, and moves the clock when the rank parks.
            _ if self.settings.simulator_counts != 0 => (0, 0),
            Call::Send(send) if send.length <= self.settings.eager_limit => {
                let copied = payload.filter(|bytes| bytes.len() > self.settings.pio_limit as usize).map_or(0, <[u8]>::len);
                (1, copied as u64)
            }
            Call::Send(_) if self.settings.rendezvous_put == 0 => (2, 0),
            Call::Send(_) | Call::Receive(_) | Call::Peek { .. } | Call::Cancel { .. } => (1, 0),
            Call::Open { .. } | Call::Close | Call::Renew | Call::ReceiveClaimed { .. } | Call::DiscardClaimed { .. } => (0, 0),
        }
    }

    fn asked_at_door(&mut self) {
        if let Some(busy_until) = self.door {
            self.header().wait_ps.fetch_add(self.clock - busy_until, Relaxed);
            self.door = Some(self.clock);
        }
    }

    /// What of a command the rank must remember itself.
    fn note(&mut self, command: &Command) {
        match command {
            Command::EqAlloc { eq, count } => {
                self.queues.insert(eq.0, Queue { capacity: *count as usize, ..Queue::default() });
            }
            Command::EqFree { eq } => {
                self.queues.remove(&eq.0);
            }
            Command::PtAlloc { options, eq, .. } if options & pt::FLOWCTRL != 0 => {
                if let Some(queue) = self.queues.get_mut(&eq.0) {
                    queue.watched = true;
                }
            }
            Command::CtAlloc { ct } => {
                self.counts.insert(ct.0, Counter::default());
            }
            Command::CtFree { ct } => {
                self.counts.remove(&ct.0);
            }
            Command::CtSet { ct, .. } | Command::CtIncrement { ct, .. } => {
                if let Some(counter) = self.counts.get_mut(&ct.0) {
                    counter.asked = counter.asked.wrapping_add(1);
                }
            }
            Command::MeSearch { me: entry, .. } if entry.options & narrows_portals::me::EVENT_CT_OVERFLOW != 0 => {
                if let Some(counter) = self.counts.get_mut(&entry.ct.0) {
                    counter.asked = counter.asked.wrapping_add(1);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, encode: impl Fn(&mut Writer<'_>, u64) -> Result<(), Full>) {
        self.append(encode);
        self.header().quiet_until.store(0, Relaxed);
    }

    /// As [`Rank::write`], of what is no command: nothing follows from it.
    fn append(&mut self, encode: impl Fn(&mut Writer<'_>, u64) -> Result<(), Full>) {
        let header = self.header();
        for attempt in 0..2 {
            // SAFETY: the rank runs, so it owns the region; the only other reference was dropped.
            let area = unsafe { self.region.command_area() };
            let mut writer = Writer::new(area, header.commands.load(Relaxed) as usize);
            if encode(&mut writer, self.clock).is_ok() {
                // The simulator takes them also while it runs, if it is set apart.
                header.commands.store(writer.used() as u64, Release);
                return;
            }
            if attempt == 0 {
                self.park(self.clock, reason::FULL);
            }
        }
        debug_assert!(false, "a request is longer than the command area");
    }

    /// A number for [`Rank::wait_reply`].
    pub fn ticket(&mut self) -> u32 {
        self.next_ticket = self.next_ticket.wrapping_add(1).max(NO_TICKET + 1);
        self.next_ticket
    }

    /// Waits for the reply to the command with `ticket`: its result, and the value that a query asked for.
    pub fn wait_reply(&mut self, ticket: u32) -> (ReplyCode, u64) {
        let outside = self.outside;
        if outside {
            self.come_in();
        }
        let reply = loop {
            if let Some(at) = self.replies.iter().position(|&(t, ..)| t == ticket) {
                let (_, code, value) = self.replies.swap_remove(at);
                break (code, value);
            }
            match self.notices.front() {
                Some(&(time, _)) => self.wait_until(time),
                None => self.park(u64::MAX, reason::REPLY),
            }
            self.take_visible();
        };
        if outside {
            self.go_out();
        }
        reply
    }

    // ---- hand-over ------------------------------------------------------------------------

    /// Wakes the simulator.
    fn ring(&self) {
        handover::ring(&self.region.file().bell);
    }

    /// Sleeps until the simulator hands the region back. Dies when the run is over.
    fn sleep(&mut self, while_state: u32) {
        self.await_turn(while_state);
        self.collect();
    }

    fn await_turn(&self, while_state: u32) {
        let header = self.header();
        loop {
            match handover::await_turn(&header.state, while_state, Some(LIFE_CHECK)) {
                Turn::Mine => break,
                // SAFETY: signal 0 only asks whether the process exists.
                Turn::Late if unsafe { libc::kill(self.region.file().simulator as i32, 0) } == 0 => {}
                Turn::Late | Turn::Over => exit_now(EXIT_SIMULATOR_GONE),
            }
        }
    }

    /// The simulator may have had the region meanwhile, because the program waited for its memory to change: what it
    /// has computed since the last look was waiting.
    pub(crate) fn look_for_resumption(&mut self) {
        let header = self.header();
        if header.resumed.load(Relaxed) == 0 {
            return;
        }
        header.resumed.store(0, Relaxed);
        let waited = header.clock.load(Relaxed).saturating_sub(self.clock);
        header.wait_ps.fetch_add(waited, Relaxed);
        self.clock += waited;
        // Outside MPI calls it was no computing.
        self.left_at += waited;
        self.mark_cpu();
        self.collect();
        self.activity();
    }

    fn give(&self, to: u32) {
        let file = self.region.file();
        handover::give(&self.header().state, &file.running, &file.bell, to);
    }

    /// Gives the region to the simulator until `deadline` or the next notice.
    fn park(&mut self, deadline: u64, why: u32) {
        let header = self.header();
        header.clock.store(self.clock, Relaxed);
        header.deadline.store(deadline, Relaxed);
        header.reason.store(why, Relaxed);
        self.give(state::PARKED);
        self.sleep(state::PARKED);
        // What its endpoints did took time.
        self.clock = self.clock.max(header.clock.load(Relaxed));
    }

    /// When the first of what its endpoints have not looked at yet happened, ps.
    fn news(&self) -> u64 {
        self.header().news.load(Relaxed)
    }

    /// As [`Rank::park`], while other threads of the rank sleep or wait: returns when the first of them must wake, too.
    /// Time passes.
    fn park_with_others(&mut self, deadline: u64, why: u32) {
        let deadline = deadline.min(self.settled().max(self.clock));
        let reached = self.park_for_all(deadline, why);
        let next = self.notices.front().map_or(u64::MAX, |&(time, _)| time).min(reached);
        if next != u64::MAX {
            self.wait_until(next);
        }
    }

    /// Other threads that run may write to descriptors: up to when none of them does, ps.
    fn settled(&self) -> u64 {
        while threads::talks() && !self.wanted() {
            match threads::settled(self.clock) {
                Some(until) => return until,
                None => threads::rest(),
            }
        }
        u64::MAX
    }

    /// Parks the rank for all of its threads: up to when time has passed, ps, if one of them goes on then, or if that
    /// is `deadline`; else `u64::MAX`. It may have been woken before its time, for another thread, which may have what
    /// it wanted by now.
    fn park_for_all(&mut self, deadline: u64, why: u32) -> u64 {
        threads::lead();
        if threads::is_on() && why != reason::REPLY && self.wanted() {
            // It would come back at once. Who polls gives the rank up.
            return u64::MAX;
        }
        let deadline = threads::parks(deadline);
        self.park(deadline, why);
        let deadline = deadline.min(threads::unparked());
        if self.header().horizon.load(Relaxed) <= deadline {
            return u64::MAX;
        }
        threads::reached(deadline);
        deadline
    }

    /// From outside to running; writes what was deferred.
    fn come_in(&mut self) {
        handover::ask(&self.header().state, &self.region.file().bell);
        self.sleep(state::WANTS_IN);
        self.outside = false;
        for asked in std::mem::take(&mut self.deferred) {
            match asked {
                Asked::Command(command) => self.write(|writer, clock| encode_command(writer, clock, &command)),
                Asked::Call(eq, call, payload) => {
                    self.write(|writer, clock| encode_call(writer, clock, eq, &call.to_words(), payload.as_deref()));
                }
            }
        }
    }

    /// From running to outside.
    fn go_out(&mut self) {
        let header = self.header();
        self.outside = true;
        header.mail.store(0, Relaxed);
        self.give(state::OUTSIDE);
    }

    /// Takes what the simulator left in the notice area.
    fn collect(&mut self) {
        let used = self.region.notice_bytes();
        // SAFETY: the rank runs, so it owns the region.
        let area = unsafe { self.region.notice_area() };
        let taken = each_delivery(&area[..used], |time, delivery| match delivery {
            Delivery::Notice(notice) => self.notices.push_back((time, notice)),
            // SAFETY: the address and its extent come from an entry or a get that this
            // process itself gave to the NIC, which never writes beyond them.
            Delivery::Write { address, bytes } => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
            },
            Delivery::Push(push) => self.push(&push),
        });
        if let Err(error) = taken {
            // What comes after it is lost: the rank would wait for it for ever.
            say!("rank {} was given a broken notice: {error}", self.number);
            crate::life::exits(EXIT_BROKEN_NOTICE);
            exit_now(EXIT_BROKEN_NOTICE);
        }
        self.header().notices.store(0, Relaxed);
    }

    /// Writes a payload of this rank into the memory of another one. The simulator hears of an error at the next
    /// hand-over.
    fn push(&self, push: &Push) {
        let mut done = 0;
        while done < push.length {
            match copy::write(push.pid as i32, push.source + done, push.destination + done, (push.length - done) as usize) {
                Ok(copied) => done += copied as u64,
                Err(error) => {
                    let error = error.raw_os_error().unwrap_or(libc::EFAULT);
                    let header = self.header();
                    header.push_to.store(push.to, Relaxed);
                    header.push_address.store(push.destination, Relaxed);
                    header.push_length.store(push.length, Relaxed);
                    header.push_error.store(error as u32, Relaxed);
                    return;
                }
            }
        }
    }

    /// Moves what the clock has reached to its queue.
    fn take_visible(&mut self) {
        while let Some(&(time, notice)) = self.notices.front() {
            if time > self.clock && !self.outside {
                break;
            }
            self.notices.pop_front();
            turns::changed();
            match notice {
                Notice::Event { eq, event } => {
                    let Some(queue) = self.queues.get_mut(&eq.0) else { continue };
                    // PT_DISABLED always has a place: without it a program could not recover.
                    if queue.events.len() < queue.capacity || event.kind == EventKind::PtDisabled {
                        queue.events.push_back((time, event));
                    } else {
                        queue.dropped = true;
                    }
                }
                Notice::Count { ct, success, failure, commands } => {
                    if let Some(counter) = self.counts.get_mut(&ct.0) {
                        *counter = Counter { success, failure, done: commands, time, ..*counter };
                    }
                }
                Notice::Reply { ticket, code, value } => self.replies.push((ticket, code, value)),
                Notice::Foreign(_) => {}
            }
        }
    }

    fn wait_until(&mut self, time: u64) {
        if time > self.clock {
            let header = self.header();
            header.wait_ps.fetch_add(time - self.clock, Relaxed);
            self.clock = time;
            header.clock.store(time, Relaxed);
            // Other threads look at it although this one has the rank.
            self.leave_clock();
            threads::reached(time);
            callers::time_is(time);
        }
    }
}

fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process without running the program's exit handlers.
    unsafe { libc::_exit(status) }
}
