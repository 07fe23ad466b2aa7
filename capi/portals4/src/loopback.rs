//! The NIC of `narrows-nic` inside the process, with a network that takes no time worth mentioning: every
//! command is done when it returns, and only the process itself can be reached. For tests of libportals and
//! of what stands on it, without a simulator. With a [`pace`] commands and messages are under way while the program
//! goes on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_engine::EventQueue;
use narrows_fabric::Notice as Network;
use narrows_guest::Waited;
use narrows_heap::copy;
use narrows_message::{Call, Host, Library, MessageConfig, Notification, Protocol, Rails, Rendezvous};
use narrows_nic::{
    AnyHeader, AnyNic, Combine, Departure, Event as NicEvent, Fault, Memory, NicConfig, Nics, Out, PayloadId, Process, Wire, Wired,
};
use narrows_portals::{Command, CtId, EqId, Event, IOVEC_BYTES, NiLimits, Notice, Place, ProcessId, ReplyCode, apply};
use narrows_units::{NodeId, PortId, Rail, SimTime};

pub use crate::nic::Limits;
use crate::nic::Nic;

/// The process of the NIC.
pub const SELF: ProcessId = ProcessId::on(NodeId(0), 1);

/// Small thresholds, so that short tests cross all of them.
pub const DEFAULT_LIMITS: Limits = Limits {
    eager_limit: 4_096,
    inject_limit: 192,
    rendezvous_put: false,
    one_sided_messages: false,
    overflow_block: 65_536,
    overflow_blocks: 2,
    max_portals_message: 1 << 16,
    pio_limit: 256,
    interface: NiLimits::BXI_V2,
};

static INSTALLED: Mutex<Option<Loopback>> = Mutex::new(None);

/// Takes over from the simulator for the rest of the process. The second call changes nothing.
pub fn install(limits: Limits) {
    let mut place = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    place.get_or_insert_with(|| Loopback::new(limits));
}

/// From now on each command takes the program `post`, each empty poll ten times as much, and each message `network` on
/// its way.
pub fn pace(post: SimTime, network: SimTime) {
    if let Some(mut nic) = installed() {
        nic.post = Some(post);
        nic.world.network = network;
    }
}

/// Lets everything happen that is under way. Messages that are still not complete then.
pub fn rest() -> u64 {
    let Some(mut nic) = installed() else { return 0 };
    nic.settle(SimTime::MAX);
    nic.nics.in_flight()
}

/// The installed NIC, locked.
pub(crate) fn installed() -> Option<Guard> {
    let place = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    place.is_some().then_some(Guard(place))
}

/// What [`Loopback`] was charged: tests read it.
pub fn charged() -> Charged {
    installed().map(|guard| guard.charged).unwrap_or_default()
}

/// Time that would have passed, in units of its causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Bytes copied by the library.
    pub copied: u64,
    /// Completions handed out.
    pub completions: u64,
    /// Empty polls.
    pub empty_polls: u64,
    /// Endpoints that the provider said it has opened.
    pub endpoints: u64,
}

pub(crate) struct Guard(MutexGuard<'static, Option<Loopback>>);

impl std::ops::Deref for Guard {
    type Target = Loopback;
    fn deref(&self) -> &Loopback {
        self.0.as_ref().expect("a guard is only made of an installed NIC")
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Loopback {
        self.0.as_mut().expect("a guard is only made of an installed NIC")
    }
}

enum Due {
    Nic(PortId, NicEvent),
    Shortcut(PortId, AnyHeader),
    Network(Network),
}

/// What surrounds the NIC.
struct World {
    queue: EventQueue<Due>,
    wire: Wire<AnyHeader>,
    payloads: BTreeMap<PayloadId, Vec<u8>>,
    reserved: u32,
    notices: Vec<Notice>,
    network: SimTime,
}

/// The endpoints' way to the NIC and to the memory of this very process.
struct LoopbackTransport<'a> {
    nics: &'a mut Nics,
    world: &'a mut World,
    charged: &'a mut Charged,
    clock: SimTime,
    limits: Limits,
}

impl Library for LoopbackTransport<'_> {
    fn post(&mut self, _: Rail, command: Command) {
        if let Err(error) = self.nics.command(self.clock, Process(0), Rail::FIRST, command, self.world) {
            panic!("the NIC refused a command: {error}");
        }
    }
    fn open(&mut self, rail: Rail, command: Command) {
        self.post(rail, command);
    }
    fn has_copied(&mut self, length: u64) {
        if length > self.limits.pio_limit {
            self.charged.copied += length;
        }
    }
    fn copy(&mut self, from: u64, to: u64, length: u64) {
        let mut bytes = vec![0; length as usize];
        if copy_own(from, &mut bytes, false).and_then(|()| copy_own(to, &mut bytes, true)).is_err() {
            panic!("{length} bytes at {from:#x} or {to:#x} are not there");
        }
        self.charged.copied += length;
    }
    fn fill(&mut self, _: Option<&[u8]>, from: u64, to: u64, length: u64) {
        self.copy(from, to, length);
    }
    fn allocate(&mut self, length: u64) -> u64 {
        // It stays until the process ends, as overflow blocks do.
        vec![0_u8; length as usize].leak().as_ptr() as u64
    }
}

/// The NIC.
pub(crate) struct Loopback {
    limits: Limits,
    nics: Nics,
    world: World,
    host: Host,
    /// What the endpoints have not looked at.
    inbox: VecDeque<Notification>,
    queues: BTreeMap<u32, VecDeque<Event>>,
    capacities: BTreeMap<u32, (usize, bool)>,
    counts: BTreeMap<u32, (u64, u64)>,
    replies: BTreeMap<u32, (ReplyCode, u64)>,
    next_ticket: u32,
    charged: Charged,
    /// The process's clock.
    clock: SimTime,
    /// See [`pace`]; none: all is done at once.
    post: Option<SimTime>,
}

/// Copies between `bytes` and memory of this very process, or says that it is not there. The kernel does it, so that
/// nothing dies of a wrong address.
fn copy_own(address: u64, bytes: &mut [u8], write: bool) -> Result<(), Fault> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: no arguments.
    let pid = unsafe { libc::getpid() };
    // The owner of the addresses promised that the NIC may use them until the operation is complete.
    let copied = if write {
        copy::write(pid, bytes.as_ptr() as u64, address, bytes.len())
    } else {
        copy::read(pid, &[libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() }], bytes)
    };
    if copied.is_ok_and(|copied| copied == bytes.len()) { Ok(()) } else { Err(Fault) }
}

fn access(place: Place, bytes: &mut [u8], write: bool) -> Result<(), Fault> {
    if place.segments == 0 {
        return copy_own(place.address, bytes, write);
    }
    let (mut skip, mut done) = (place.offset, 0);
    for segment in 0..u64::from(place.segments) {
        let mut words = [0; IOVEC_BYTES as usize];
        copy_own(place.address + segment * IOVEC_BYTES, &mut words, false)?;
        let [address, size] = [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight of sixteen bytes")));
        let used = size.saturating_sub(skip).min((bytes.len() - done) as u64) as usize;
        copy_own(address.wrapping_add(skip), &mut bytes[done..done + used], write)?;
        skip = skip.saturating_sub(size);
        done += used;
    }
    if done == bytes.len() { Ok(()) } else { Err(Fault) }
}

impl Wired<AnyNic> for World {
    fn wire(&mut self) -> &mut Wire<AnyHeader> {
        &mut self.wire
    }
}

impl Out<AnyNic> for World {
    fn schedule(&mut self, at: SimTime, port: PortId, event: NicEvent) {
        self.queue.schedule(at, port.0, Due::Nic(port, event));
    }
    fn depart(&mut self, port: PortId, departure: Departure<AnyHeader>) {
        let at = self.queue.now() + self.network;
        let id = self.wire.depart(port, departure).id;
        for notice in [Network::SourceDone(id), Network::HeadArrived(id), Network::TailArrived(id)] {
            self.queue.schedule(at, 1, Due::Network(notice));
        }
    }
    fn shortcut(&mut self, at: SimTime, _: PortId, to: PortId, header: AnyHeader) {
        self.queue.schedule(at, 2, Due::Shortcut(to, header));
    }
    fn notify(&mut self, _: PortId, _: Process, notice: Notice) {
        self.notices.push(notice);
    }
}

impl Memory for World {
    fn reserve(&mut self) -> PayloadId {
        self.reserved = self.reserved.wrapping_add(1);
        PayloadId(self.reserved)
    }
    fn capture(&mut self, payload: PayloadId, _: Process, place: Place, length: u64) -> Result<(), Fault> {
        let mut bytes = vec![0; length as usize];
        access(place, &mut bytes, false)?;
        self.payloads.insert(payload, bytes);
        Ok(())
    }
    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>) {
        self.payloads.insert(payload, bytes.into_vec());
    }
    fn has_bytes(&self, payload: PayloadId) -> bool {
        self.payloads.contains_key(&payload)
    }
    fn deliver(&mut self, payload: PayloadId, _: Process, place: Place, length: u64) -> Result<(), Fault> {
        let bytes = self.payloads.get_mut(&payload).ok_or(Fault)?;
        access(place, &mut bytes[..length as usize], true)
    }
    fn combine(&mut self, payload: PayloadId, _: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        let payload = self.payloads.get_mut(&payload).ok_or(Fault)?;
        let mut old = vec![0; length as usize];
        access(place, &mut old, false)?;
        let mut new = old.clone();
        apply(combine.operation, combine.datatype, &mut new, payload, &combine.operand);
        if combine.fetch {
            *payload = old;
        }
        access(place, &mut new, true)
    }
    fn release(&mut self, payload: PayloadId) {
        self.payloads.remove(&payload);
    }
}

impl Loopback {
    fn new(limits: Limits) -> Loopback {
        let config = NicConfig { limits: limits.interface, ..NicConfig::bxi_v2() };
        let mut nics = Nics::new(config, 1, &[SELF]);
        nics.set_users(|_| crate::library::own_uid());
        Loopback {
            limits,
            nics,
            world: World {
                queue: EventQueue::new(),
                wire: Wire::default(),
                payloads: BTreeMap::new(),
                reserved: 0,
                notices: Vec::new(),
                network: SimTime::from_ns(1),
            },
            host: Host::new(SELF),
            inbox: VecDeque::new(),
            queues: BTreeMap::new(),
            capacities: BTreeMap::new(),
            counts: BTreeMap::new(),
            replies: BTreeMap::new(),
            next_ticket: 0,
            charged: Charged::default(),
            clock: SimTime::ZERO,
            post: None,
        }
    }

    /// The program goes on for so many posts.
    fn advance(&mut self, posts: u64) {
        match self.post {
            None => self.settle(SimTime::MAX),
            Some(post) => self.settle(self.clock + SimTime(post.as_ps() * posts)),
        }
    }

    /// Up to `until`, or until nothing happens any more.
    fn settle(&mut self, until: SimTime) {
        loop {
            while self.world.queue.next_time().is_some_and(|next| next <= until) {
                self.step();
            }
            let end = if until == SimTime::MAX { self.world.queue.now() } else { until };
            self.clock = self.clock.max(end);
            self.take_notices();
            if !self.look() {
                break;
            }
        }
    }

    /// The endpoints look at what the NIC has told them; whether there was anything.
    fn look(&mut self) -> bool {
        let Loopback { nics, world, host, inbox, charged, clock, limits, .. } = self;
        let any = !inbox.is_empty();
        for news in inbox.drain(..) {
            let way = LoopbackTransport { nics, world, charged, clock: *clock, limits: *limits };
            host.look(way, news).expect("nobody else is there");
        }
        while let Some(notice) = self.host.next_notice() {
            self.give(notice);
        }
        any
    }

    /// The next event; false: there is none.
    fn step(&mut self) -> bool {
        let Some((now, due)) = self.world.queue.pop() else { return false };
        match due {
            Due::Nic(port, event) => self.nics.handle(now, port, event, &mut self.world),
            Due::Shortcut(port, header) => self.nics.arrive(now, port, &header, &mut self.world),
            Due::Network(notice) => self.nics.network(now, notice, &mut self.world),
        }
        self.clock = self.clock.max(now);
        true
    }

    fn take_notices(&mut self) {
        let refusals = self.nics.take_refusals();
        assert!(refusals.is_empty(), "the NIC refused what it had accepted: {refusals:?}");
        for notice in std::mem::take(&mut self.world.notices) {
            match self.host.take(notice) {
                Ok(news) => self.inbox.push_back(news),
                Err(notice) => self.give(notice),
            }
        }
    }

    fn give(&mut self, notice: Notice) {
        match notice {
            Notice::Event { eq, event } => {
                let queue = self.queues.entry(eq.0).or_default();
                match self.capacities.get_mut(&eq.0) {
                    Some((capacity, dropped)) if queue.len() >= *capacity => *dropped = true,
                    _ => queue.push_back(event),
                }
            }
            Notice::Count { ct, success, failure, .. } => drop(self.counts.insert(ct.0, (success, failure))),
            Notice::Reply { ticket, code, value } => drop(self.replies.insert(ticket, (code, value))),
            Notice::Foreign(_) => {}
        }
    }
}

impl Loopback {
    fn pop(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        let (index, eq, event) =
            eqs.iter().enumerate().find_map(|(index, eq)| Some((index, *eq, self.queues.get_mut(&eq.0)?.pop_front()?)))?;
        if self.nics.command(self.clock, Process(0), Rail::FIRST, Command::EqRelease { eq, count: 1 }, &mut self.world).is_ok() {
            self.advance(0);
        }
        Some((index, event))
    }
}

impl Nic for Loopback {
    fn id(&self) -> ProcessId {
        SELF
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn endpoint_open(&mut self) {
        self.charged.endpoints += 1;
    }

    fn submit(&mut self, command: Command) {
        match &command {
            Command::EqAlloc { eq, count } => {
                self.queues.remove(&eq.0);
                self.capacities.insert(eq.0, (*count as usize, false));
            }
            Command::CtAlloc { ct } => drop(self.counts.remove(&ct.0)),
            _ => {}
        }
        if let Err(error) = self.nics.command(self.clock, Process(0), Rail::FIRST, command, &mut self.world) {
            panic!("the NIC refused a command: {error}");
        }
        self.advance(1);
    }

    fn call(&mut self, eq: EqId, call: Call, payload: Option<Box<[u8]>>) {
        let Loopback { nics, world, host, charged, clock, limits, .. } = self;
        let config = MessageConfig {
            protocol: Protocol::Openmpi,
            rails: Rails::default(),
            eager_limit: limits.eager_limit,
            inject_limit: limits.inject_limit,
            rendezvous: if limits.rendezvous_put { Rendezvous::Put } else { Rendezvous::Get },
            overflow_block: limits.overflow_block,
            overflow_blocks: limits.overflow_blocks,
            max_portals_message: limits.max_portals_message,
        };
        let way = LoopbackTransport { nics, world, charged, clock: *clock, limits: *limits };
        if let Err(error) = host.call(&config, way, eq, call, payload) {
            panic!("{call:?}: {error}");
        }
        while let Some(notice) = self.host.next_notice() {
            self.give(notice);
        }
        self.advance(1);
    }

    fn ticket(&mut self) -> u32 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn wait_reply(&mut self, ticket: u32) -> (ReplyCode, u64) {
        loop {
            if let Some(reply) = self.replies.remove(&ticket) {
                return reply;
            }
            if !self.step() && !self.look() {
                return (ReplyCode::Unknown, 0);
            }
            self.take_notices();
        }
    }

    fn eq_get(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        let found = self.pop(eqs);
        if found.is_none() {
            self.charged.empty_polls += 1;
            self.advance(10);
        }
        found
    }

    fn now(&self) -> SimTime {
        self.clock
    }

    fn eq_wait(&mut self, eqs: &[EqId], until: Option<SimTime>) -> Waited<(usize, Event)> {
        if let Some(found) = self.pop(eqs) {
            return Waited::Done(found);
        }
        self.settle(until.unwrap_or(SimTime::MAX));
        self.pop(eqs).map_or(Waited::Over, Waited::Done)
    }

    fn eq_dropped(&mut self, eq: EqId) -> bool {
        self.capacities.get_mut(&eq.0).is_some_and(|(_, dropped)| std::mem::take(dropped))
    }

    fn count(&mut self, ct: CtId) -> (u64, u64) {
        self.counts.get(&ct.0).copied().unwrap_or_default()
    }

    fn count_poll(&mut self, ct: CtId, test: u64) -> (u64, u64) {
        let (success, failure) = Nic::count(self, ct);
        self.charged.empty_polls += u64::from(success + failure < test);
        (success, failure)
    }

    fn count_wait(&mut self, tests: &[(CtId, u64)], until: Option<SimTime>) -> Waited<usize> {
        self.settle(until.unwrap_or(SimTime::MAX));
        let reached = tests.iter().position(|(ct, test)| {
            let (success, failure) = self.counts.get(&ct.0).copied().unwrap_or_default();
            success + failure >= *test
        });
        reached.map_or(Waited::Over, Waited::Done)
    }

    fn expect_soon(&mut self, _: bool) {}

    fn charge_copy(&mut self, bytes: u64) {
        self.charged.copied += bytes;
    }

    fn charge_completion(&mut self) {
        self.charged.completions += 1;
    }
}
