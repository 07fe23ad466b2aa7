//! The endpoints of the message layer, which live here and not in the ranks' processes
//! ([decision 0012](../../../docs/decisions/0012-endpoints-in-the-simulator.md)).
//!
//! A rank asks its endpoint for something ([`Call`]) and is told what is complete. In between the endpoint does what
//! the protocol needs, on the rank's clock, and only while the rank looks at its network: in a blocking MPI call, where
//! it is parked, or at a poll. What the NIC says while the program computes waits in the inbox.

use crate::memory::Memory;
use crate::net::Net;
use narrows_channel::layout::COMMAND_PAYLOAD;
use narrows_channel::record::CALL_WORDS;
use narrows_channel::{Processor, Settings};
use narrows_message::{Call, CallError, Gateway, Host, Library, MessageConfig, Notification, Passed, Relay, Sent, Stray};
use narrows_nic::{Combine, Fault};
use narrows_portals::{AtomicOperation, Command, Datatype, EqId, Notice, Place, ProcessId};
use narrows_sim::{Processes, Requests};
use narrows_units::{Rail, SimTime};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Costs of the software on a rank's core.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of a command to the NIC.
    post: SimTime,
    /// Of copying 1,024 bytes, ps.
    copy_ps_per_kib: u64,
    /// Longest put whose payload goes with the command, bytes: writing it is no copy.
    pio_limit: u64,
}

/// Whether a rank looks at its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// It does not: it runs, or sleeps.
    Absent,
    /// Up to this time, or until it is told something.
    Until(SimTime),
    /// It is in MPI_Init or MPI_Finalize, where time does not count.
    Always,
}

/// The endpoints of a rank.
#[derive(Debug)]
struct Rank {
    host: Host,
    /// What they have not looked at.
    inbox: VecDeque<(SimTime, Notification)>,
    attention: Attention,
    /// The rank's clock, as far as they have moved it since it parked.
    clock: SimTime,
    /// How much of that was work.
    worked: SimTime,
    costs: Costs,
    /// Work of its calls that its clock does not know of yet.
    owed: SimTime,
}

/// All ranks: their memory and their endpoints.
#[derive(Debug)]
pub struct Ranks {
    memory: Memory,
    ranks: Vec<Rank>,
    config: MessageConfig,
    /// Ranks with something new in their inboxes.
    ready: Vec<u32>,
    /// Behind the ranks by their numbers; and what their NICs have told them.
    gateways: Vec<Gateway>,
    told: VecDeque<(SimTime, usize, Notice)>,
    /// Modules that cannot reach each other any more, in words.
    pub cut: Option<String>,
    /// The start of simulated time.
    epoch: SimTime,
    /// The first event that belonged to nothing, and whose endpoint found it.
    pub stray: Option<(u32, Stray)>,
    /// Simulated sockets, if there are some.
    pub(crate) net: Option<Net>,
}

impl Deref for Ranks {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for Ranks {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

/// A rank's way to its NIC and its memory.
struct Way<'a> {
    rank: u32,
    clock: &'a mut SimTime,
    memory: &'a mut Memory,
    requests: &'a mut dyn Requests<()>,
    costs: Costs,
    /// See [`Library::by_firmware`].
    by_firmware: bool,
}

impl Way<'_> {
    fn copies(&mut self, length: u64) {
        *self.clock += SimTime((u128::from(length) * u128::from(self.costs.copy_ps_per_kib) / 1024) as u64);
    }
}

impl Library for Way<'_> {
    fn post(&mut self, rail: Rail, command: Command) {
        if !self.by_firmware {
            *self.clock += self.costs.post;
        }
        self.requests.submit(self.rank, rail, *self.clock, command);
    }

    fn open(&mut self, rail: Rail, command: Command) {
        self.requests.submit(self.rank, rail, *self.clock, command);
    }

    fn handed_over(&mut self) {
        *self.clock += self.costs.post;
    }

    fn works(&mut self, time: SimTime) {
        *self.clock += time;
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.by_firmware = by_firmware;
    }

    fn has_copied(&mut self, length: u64) {
        if length > self.costs.pio_limit {
            self.copies(length);
        }
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.copies(length);
        self.memory.copy_out(self.rank, *self.clock, from, to, length);
    }

    fn fill(&mut self, bytes: Option<&[u8]>, from: u64, to: u64, length: u64) {
        self.copies(length);
        self.memory.copy_in(self.rank, bytes, from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.memory.allocate(self.rank, length)
    }
}

impl Ranks {
    /// `ids[i]` is where rank i is, and `processors[i]` on what.
    pub fn new(settings: &Settings, message: MessageConfig, ids: &[ProcessId], processors: &[Processor]) -> Ranks {
        let inject_limit = message.inject_limit.min(COMMAND_PAYLOAD as u64);
        let config = MessageConfig { inject_limit, ..message };
        let gateways = config.rails.bridging().into_iter();
        let gateways = gateways.flat_map(|bridging| (0..bridging.gateways.len()).map(|index| Gateway::new(bridging, index)));
        let gateways: Vec<Gateway> = gateways.collect();
        let rank = |(&id, processor): (&ProcessId, &Processor)| Rank {
            host: Host::new(id),
            costs: Costs {
                post: SimTime(processor.post_ps),
                copy_ps_per_kib: processor.copy_ps_per_kib,
                pio_limit: u64::from(settings.pio_limit).min(COMMAND_PAYLOAD as u64),
            },
            inbox: VecDeque::new(),
            attention: Attention::Absent,
            clock: SimTime::ZERO,
            worked: SimTime::ZERO,
            owed: SimTime::ZERO,
        };
        Ranks {
            memory: Memory::new(ids.len() + gateways.len()),
            ranks: ids.iter().zip(processors).map(rank).collect(),
            config,
            ready: Vec::new(),
            gateways,
            told: VecDeque::new(),
            cut: None,
            epoch: SimTime::ZERO,
            stray: None,
            net: None,
        }
    }

    /// There are simulated sockets, whose nodes' devices are processes behind the others.
    pub(crate) fn set_net(&mut self, net: Net, devices: usize) {
        self.memory.grow(devices);
        self.net = Some(net);
    }

    fn is_device(&self, process: u32) -> bool {
        self.net.as_ref().is_some_and(|net| net.is_device(process))
    }

    /// That of what a rank asks of its NICs itself.
    pub fn first_rail(&self, rank: u32) -> Rail {
        self.config.rails.first_of(self.ranks[rank as usize].host.process())
    }

    /// The process in another module of which a command of the rank itself asks something.
    pub fn beyond(&self, rank: u32, command: &Command) -> Option<ProcessId> {
        let bridging = self.config.rails.bridging()?;
        let target = match command {
            Command::Put { target, .. } | Command::Get { target, .. } => target,
            Command::Atomic(atomic) => &atomic.target,
            Command::Triggered { command, .. } => return self.beyond(rank, command),
            _ => return None,
        };
        bridging.crosses(self.ranks[rank as usize].host.process(), target.process).then_some(target.process)
    }

    /// The gateways open their NICs.
    pub fn start_gateways(&mut self, requests: &mut dyn Requests<()>) {
        let Ranks { memory, ranks, gateways, config, .. } = self;
        let homes: Vec<Rail> = ranks.iter().map(|rank| config.rails.first_of(rank.host.process())).collect();
        for (process, gateway) in (ranks.len() as u32..).zip(gateways) {
            let on = |rail| homes.iter().filter(|&&home| home == rail).count() as u32;
            gateway.start(on, &mut Passage { process, memory, requests: &mut *requests });
        }
    }

    /// Simulated time starts.
    pub fn begin(&mut self, epoch: SimTime, requests: &mut dyn Requests<()>) {
        self.epoch = epoch;
        self.net.iter_mut().for_each(|net| net.begin(epoch));
        self.gateways.iter_mut().for_each(Gateway::renew);
        let count = self.ranks.len() as u32;
        let Some(bridging) = self.config.rails.bridging() else { return };
        for &(gateway, at) in &bridging.deaths {
            requests.set_alarm(count + gateway as u32, epoch + at);
            (0..count).for_each(|rank| requests.set_alarm(rank, epoch + at + bridging.detection));
        }
    }

    /// What has passed the gateways.
    pub fn passed(&self) -> Vec<Passed> {
        self.gateways.iter().map(Gateway::passed).collect()
    }

    /// What they have sent since the start of simulated time.
    pub fn sent(&self) -> Sent {
        self.ranks.iter().fold(Sent::default(), |mut sum, rank| {
            sum += rank.host.sent();
            sum
        })
    }

    /// The rank is going to run.
    pub fn runs(&mut self, rank: u32) {
        self.ranks[rank as usize].attention = Attention::Absent;
    }

    /// The rank's clock when its endpoints have done what they had to do, and how long that took.
    pub fn clock(&self, rank: u32) -> (SimTime, SimTime) {
        let rank = &self.ranks[rank as usize];
        (rank.clock, rank.worked)
    }

    /// When the first of what its endpoints have not looked at happened.
    pub fn news(&self, rank: u32) -> Option<SimTime> {
        self.ranks[rank as usize].inbox.front().map(|&(time, _)| time)
    }

    /// The rank is parked at `clock`, and looks at its network or does not.
    pub fn parks(&mut self, rank: u32, clock: SimTime, attention: Attention, requests: &mut dyn Requests<()>) {
        let parked = &mut self.ranks[rank as usize];
        // What its calls took beyond what it has counted itself, it has done before it parked.
        let owed = std::mem::take(&mut parked.owed);
        let attention = match attention {
            Attention::Until(end) => Attention::Until(SimTime(end.as_ps().saturating_add(owed.as_ps()))),
            other => other,
        };
        (parked.attention, parked.clock, parked.worked) = (attention, clock + owed, owed);
        self.progress(rank, requests);
    }

    /// The endpoints look at what is in the inbox, one after the other, until there is something for the rank.
    fn progress(&mut self, rank: u32, requests: &mut dyn Requests<()>) {
        let Ranks { memory, ranks, stray: stray_event, .. } = self;
        let Rank { host, inbox, attention, clock, worked, costs, .. } = &mut ranks[rank as usize];
        while let Some(&(time, news)) = inbox.front() {
            let looks = match *attention {
                Attention::Absent => false,
                Attention::Until(end) => time.max(*clock) <= end,
                Attention::Always => true,
            };
            if !looks {
                // What is complete the rank finds by itself, when its clock has come as far.
                if !host.only_completes(&news) {
                    return;
                }
                inbox.pop_front();
                let way = Way { rank, clock: &mut time.clone(), memory, requests, costs: *costs, by_firmware: false };
                let seen = host.look(way, news);
                stray(stray_event, rank, seen);
                tell(rank, time, host, memory);
                continue;
            }
            inbox.pop_front();
            let at = if *attention == Attention::Always { time } else { time.max(*clock) };
            *clock = at;
            let seen = host.look(Way { rank, clock, memory, requests, costs: *costs, by_firmware: false }, news);
            stray(stray_event, rank, seen);
            *worked += *clock - at;
            if tell(rank, *clock, host, memory) && *attention != Attention::Always {
                *attention = Attention::Absent;
            }
        }
    }

    /// See [`Host::is_ours`].
    pub fn is_ours(&self, rank: u32, command: &Command) -> bool {
        self.ranks[rank as usize].host.is_ours(command)
    }

    /// The rank has asked for something at `written`.
    ///
    /// # Errors
    /// For words that mean nothing, and endpoints that are not there.
    pub fn call(
        &mut self,
        rank: u32,
        written: SimTime,
        (eq, words, payload): (EqId, [u64; CALL_WORDS], Option<Box<[u8]>>),
        requests: &mut dyn Requests<()>,
    ) -> Result<(), CallError> {
        let Ranks { memory, ranks, config, .. } = self;
        let Rank { host, costs, owed, .. } = &mut ranks[rank as usize];
        let mut clock = written + *owed;
        let way = Way { rank, clock: &mut clock, memory, requests, costs: *costs, by_firmware: false };
        host.call(config, way, eq, Call::from_words(&words)?, payload)?;
        if !config.protocol.counts_at_calls() {
            *owed = clock.saturating_sub(written);
        }
        tell(rank, clock, host, memory);
        Ok(())
    }
}

/// Keeps the first.
fn stray(first: &mut Option<(u32, Stray)>, rank: u32, seen: Result<(), Stray>) {
    if let Err(stray) = seen {
        first.get_or_insert((rank, stray));
    }
}

/// The rank sees what its endpoints have for it from `at` on; whether there was anything.
fn tell(rank: u32, at: SimTime, host: &mut Host, memory: &mut Memory) -> bool {
    let mut any = false;
    while let Some(notice) = host.next_notice() {
        any = true;
        memory.notify(at, rank, notice);
    }
    any
}

/// A gateway's way to its NICs and its memory.
struct Passage<'a> {
    process: u32,
    memory: &'a mut Memory,
    requests: &'a mut dyn Requests<()>,
}

impl Relay for Passage<'_> {
    fn submit(&mut self, rail: Rail, written: SimTime, command: Command) {
        self.requests.submit(self.process, rail, written, command);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.memory.allocate(self.process, length)
    }
}

impl Processes for Ranks {
    type Letter = ();

    fn proceed(&mut self, requests: &mut dyn Requests<()>) {
        if let Some(net) = &mut self.net {
            net.proceed(&mut self.memory, requests);
        }
        while let Some((now, gateway, notice)) = self.told.pop_front() {
            let process = (self.ranks.len() + gateway) as u32;
            self.gateways[gateway].notify(now, &notice, &mut Passage { process, memory: &mut self.memory, requests: &mut *requests });
        }
        while let Some(rank) = self.ready.pop() {
            self.progress(rank, requests);
        }
    }

    fn alarm(&mut self, now: SimTime, rank: u32) {
        if let Some(net) = self.net.as_mut().filter(|net| net.is_device(rank)) {
            return net.alarm(rank);
        }
        let Some(bridging) = self.config.rails.bridging() else { return };
        let since = now.saturating_sub(self.epoch);
        let Some(known) = self.ranks.get_mut(rank as usize) else {
            return self.gateways[rank as usize - self.ranks.len()].die();
        };
        for (gateway, _) in bridging.deaths.iter().filter(|&&(_, at)| at + bridging.detection == since) {
            known.inbox.push_back((now, Host::gone(*gateway)));
            self.ready.push(rank);
        }
        self.cut = self.cut.take().or_else(|| bridging.cut_at(since));
    }

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        if let Some(net) = self.net.as_mut().filter(|net| net.is_device(rank)) {
            return net.notify(rank, &notice);
        }
        let Some(told) = self.ranks.get_mut(rank as usize) else {
            return self.told.push_back((now, rank as usize - self.ranks.len(), notice));
        };
        match told.host.take(notice) {
            Ok(news) => {
                told.inbox.push_back((now, news));
                self.ready.push(rank);
            }
            Err(notice) => self.memory.notify(now, rank, notice),
        }
    }

    fn reserve(&mut self) -> u32 {
        self.memory.reserve()
    }
    fn hold(&mut self, payload: u32, bytes: Box<[u8]>) {
        self.memory.hold(payload, bytes);
    }
    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        if self.is_device(rank) {
            // Its packets are no memory of anybody.
            self.memory.hold(payload, Box::default());
            return Ok(());
        }
        self.memory.capture(payload, rank, place, length)
    }
    fn combine(&mut self, payload: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.memory.combine(payload, rank, place, length, combine)
    }
    fn duplicate(&mut self, payload: u32) -> u32 {
        self.memory.duplicate(payload)
    }
    fn fold(&mut self, into: u32, payload: u32, operation: AtomicOperation, datatype: Datatype) {
        self.memory.fold(into, payload, operation, datatype);
    }
    fn fetch(&mut self, payload: u32, from: (u32, Place), length: u64, to: (u32, Place)) -> Result<(), Fault> {
        self.memory.fetch(payload, from, length, to)
    }
    fn has_bytes(&self, payload: u32) -> bool {
        self.memory.has_bytes(payload)
    }

    fn bytes(&self, payload: u32) -> Option<Vec<u8>> {
        self.memory.bytes(payload)
    }
    fn deliver(&mut self, now: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        if self.is_device(rank) {
            return Ok(());
        }
        self.memory.deliver(now, payload, rank, place, length)
    }
    fn release(&mut self, payload: u32) {
        self.memory.release(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_message::{Completes, Completion, CompletionKind, Protocol, Queue, Rails, Receive, Rendezvous, Send};
    use narrows_portals::{Event, EventKind, LocalBuffer, MatchEntry, NodeId, RemoteTarget};
    use narrows_sim::MulticastTree as Tree;

    const EQ: EqId = EqId(3);
    const POST: SimTime = SimTime(100);
    const ANNOUNCED: u64 = 1 << 63;

    /// A NIC that only remembers.
    #[derive(Default)]
    struct Asked(Vec<(SimTime, Command)>);

    impl Requests<()> for Asked {
        fn now(&self) -> SimTime {
            SimTime::ZERO
        }
        fn submit(&mut self, _: u32, _: Rail, written: SimTime, command: Command) {
            self.0.push((written, command));
        }
        fn set_alarm(&mut self, _: u32, _: SimTime) {}
        fn tree(&mut self, _: u32, _: &[u32]) -> Result<Tree, narrows_fabric::TreeError> {
            unreachable!("no broadcast")
        }
        fn multicast(&mut self, _: u32, _: SimTime, _: &Tree, _: u64, _: u32) {}
        fn post(&mut self, _: u32, _: ()) {}
    }

    struct Scene {
        ranks: Ranks,
        nic: Asked,
    }

    impl Scene {
        /// One rank with an endpoint and a posted receive, whose data are fetched if they are announced.
        fn new() -> Scene {
            let processor = Processor { post_ps: POST.as_ps(), ..Processor::default() };
            let message = MessageConfig {
                protocol: Protocol::Openmpi,
                rails: Rails::default(),
                eager_limit: 64,
                inject_limit: 64,
                rendezvous: Rendezvous::Get,
                overflow_block: 4096,
                overflow_blocks: 1,
                max_portals_message: 1 << 20,
            };
            let ranks = Ranks::new(&Settings::default(), message, &[ProcessId::on(NodeId(0), 1)], &[processor]);
            let mut scene = Scene { ranks, nic: Asked::default() };
            scene.call(0, Call::Open { base: 0 });
            let receive = Receive {
                queue: Queue::Tagged,
                source: None,
                tag: 1,
                ignore: 0,
                buffer: 0x1000,
                length: 1000,
                context: 7,
                completion: true,
                multi: None,
                execution: 0,
            };
            scene.nic.0.clear();
            scene.call(5_000, Call::Receive(receive));
            scene
        }

        fn call(&mut self, written: u64, call: Call) {
            self.ranks.call(0, SimTime(written), (EQ, call.to_words(), None), &mut self.nic).unwrap();
        }

        /// The entry of the receive matches at `time`.
        fn matches(&mut self, time: u64, match_bits: u64) {
            let appended = self.nic.0.iter().find_map(|(_, command)| match command {
                Command::MeAppend { me, .. } => Some(*me),
                _ => None,
            });
            let user_ptr = appended.map(|me: MatchEntry| me.user_ptr).unwrap();
            let event =
                Event { user_ptr, match_bits: match_bits | 1, mlength: 8, rlength: 8, remote_offset: 500, ..Event::blank(EventKind::Put) };
            self.ranks.notify(SimTime(time), 0, Notice::Event { eq: EQ, event });
            self.ranks.proceed(&mut self.nic);
        }

        fn parks(&mut self, clock: u64, attention: Attention) {
            self.ranks.parks(0, SimTime(clock), attention, &mut self.nic);
        }

        fn get(&self) -> Option<SimTime> {
            self.nic.0.iter().find(|(_, command)| matches!(command, Command::Get { .. })).map(|&(at, _)| at)
        }
    }

    #[test]
    fn a_call_takes_the_time_of_its_commands() {
        let scene = Scene::new();
        assert!(matches!(scene.nic.0[..], [(SimTime(5_100), Command::MeAppend { .. })]));
    }

    #[test]
    fn what_is_announced_waits_until_the_rank_looks() {
        let mut scene = Scene::new();
        scene.matches(6_000, ANNOUNCED);
        assert_eq!((scene.get(), scene.ranks.news(0)), (None, Some(SimTime(6_000))), "the rank computes");
        scene.parks(6_500, Attention::Absent);
        assert_eq!(scene.get(), None, "it sleeps");
        scene.parks(9_000, Attention::Until(SimTime(9_000)));
        assert_eq!(scene.get(), Some(SimTime(9_000) + POST), "it polls");
        assert_eq!((scene.ranks.clock(0), scene.ranks.news(0)), ((SimTime(9_100), POST), None));
        assert!(!scene.ranks.has_mail(0), "nothing to wake for");
    }

    #[test]
    fn a_rank_that_waits_answers_at_the_time_of_the_event() {
        let mut scene = Scene::new();
        scene.parks(5_500, Attention::Until(SimTime::MAX));
        scene.matches(6_000, ANNOUNCED);
        assert_eq!(scene.get(), Some(SimTime(6_000) + POST));
    }

    #[test]
    fn a_poll_does_not_see_the_future() {
        let mut scene = Scene::new();
        scene.parks(5_500, Attention::Until(SimTime(5_900)));
        scene.matches(6_000, ANNOUNCED);
        assert_eq!(scene.get(), None);
    }

    #[test]
    fn what_has_landed_is_complete_whoever_looks() {
        let mut scene = Scene::new();
        scene.matches(6_000, 0);
        assert_eq!((scene.ranks.first_mail(0), scene.ranks.news(0)), (Some(SimTime(6_000)), None));
        assert_eq!(scene.ranks.clock(0), (SimTime::ZERO, SimTime::ZERO), "the rank's clock is its own");
    }

    #[test]
    fn broken_calls_and_events_are_said() {
        let mut scene = Scene::new();
        let mut call = |eq, words| scene.ranks.call(0, SimTime(0), (eq, words, None), &mut scene.nic);
        assert_eq!(call(EQ, [u64::MAX; CALL_WORDS]), Err(CallError::Broken));
        assert_eq!(call(EqId(9), Call::Renew.to_words()), Err(CallError::Broken), "no such endpoint");
        assert_eq!(call(EQ, Call::Open { base: 0 }.to_words()), Err(CallError::Broken), "it is open");
        let send = Send {
            queue: Queue::Tagged,
            target: ProcessId::on(NodeId(0), 1),
            tag: 0,
            data: None,
            buffer: 0,
            length: 1000,
            context: 0,
            inject: true,
            completes: Completes::Never,
        };
        assert_eq!(call(EQ, Call::Send(send).to_words()), Err(CallError::Broken), "too long to be injected");
        let target = RemoteTarget { process: ProcessId::on(NodeId(0), 1), pt: 9, match_bits: 0, offset: 0 };
        let meddles = Command::Get { local: LocalBuffer { eq: EQ, ..LocalBuffer::default() }, length: 8, target };
        assert!(scene.ranks.is_ours(0, &meddles));
        scene.parks(0, Attention::Always);
        let event = Event { user_ptr: 1 << 60 | 77, ..Event::blank(EventKind::Put) };
        scene.ranks.notify(SimTime(1), 0, Notice::Event { eq: EQ, event });
        scene.ranks.proceed(&mut scene.nic);
        assert_eq!(scene.ranks.stray, Some((0, Stray(event))));
    }

    #[test]
    fn a_receive_that_is_taken_back_is_answered_when_the_nic_has_answered() {
        let mut scene = Scene::new();
        scene.call(6_000, Call::Cancel { queue: Queue::Tagged, context: 7, ticket: 12 });
        scene.parks(6_000, Attention::Until(SimTime::MAX));
        let ticket = scene.nic.0.iter().find_map(|(_, command)| match command {
            Command::MeUnlink { ticket, .. } => Some(*ticket),
            _ => None,
        });
        let ticket = ticket.expect("the NIC is asked");
        scene.ranks.notify(SimTime(7_000), 0, Notice::Reply { ticket, code: narrows_portals::ReplyCode::Ok, value: 0 });
        scene.ranks.proceed(&mut scene.nic);
        assert_eq!(scene.ranks.first_mail(0), Some(SimTime(7_000)));
        let (_, mail) = scene.ranks.take_mail(0);
        let Notice::Event { eq: EQ, event } = mail[0] else { panic!("{mail:?}") };
        assert_eq!(Completion::from_event(&event).map(|done| (done.kind, done.context)), Ok((CompletionKind::Receive, 7)));
        assert!(matches!(mail[1], Notice::Reply { ticket: 12, code: narrows_portals::ReplyCode::Ok, .. }));
    }
}
