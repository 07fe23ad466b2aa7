//! The hosts of a region, as the processes above its NICs: a message of a device is a put into memory that its target
//! has set aside once and for all.

use crate::device::Device;
use crate::flow::Packet;
use crate::gateway::{self, Gateway};
use crate::host::{self, Effect, Host, Plan};
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event as NicEvent, EventKind, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me,
};
use narrows_sim::{Processes, Requests};
use narrows_units::{Rail, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The process of a host among those of its node.
pub(crate) const PID: u32 = 1;
const EQ: EqId = EqId(0);
const PT: u32 = 0;
/// Of a put: packets in it; the gateway's have this bit too.
const FORWARDED: u64 = 1 << 32;

/// The packets of a message, which travel beside it.
#[derive(Debug)]
pub(crate) struct Letter {
    from: ProcessId,
    number: u64,
    packets: Vec<Packet>,
}

/// Where hosts are.
#[derive(Debug)]
pub(crate) struct Places {
    /// By host: the process at whose port it is.
    pub(crate) ranks: BTreeMap<u32, u32>,
    /// By process: where it is.
    pub(crate) processes: Vec<ProcessId>,
}

#[derive(Debug)]
pub(crate) enum What {
    Host(Box<Host>),
    Gateway(Gateway),
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Begin,
    /// Of a host: 0 at the port, others behind the gateway.
    Host(u32, host::Event),
    Gateway(gateway::Event),
}

/// What is at a port.
#[derive(Debug)]
struct Local {
    rank: u32,
    what: What,
    due: BTreeMap<(SimTime, u64), Due>,
    serial: u64,
    /// Messages sent.
    sent: u64,
    /// Packets of messages on their way here, by sender and number.
    letters: BTreeMap<(u32, u64), Vec<Packet>>,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Region {
    plan: Arc<Plan>,
    places: Arc<Places>,
    locals: Vec<Local>,
    /// By process.
    by_rank: BTreeMap<u32, usize>,
    heard: Vec<(usize, NicEvent)>,
    alarmed: Vec<usize>,
    /// The first message that was not delivered: to whom.
    pub(crate) failed: Option<ProcessId>,
}

impl Region {
    pub(crate) fn new(plan: &Arc<Plan>, places: &Arc<Places>, ranks: &[u32], what: impl Fn(u32) -> What) -> Region {
        let local = |&rank: &u32| Local { rank, what: what(rank), due: BTreeMap::new(), serial: 0, sent: 0, letters: BTreeMap::new() };
        Region {
            plan: Arc::clone(plan),
            places: Arc::clone(places),
            locals: ranks.iter().map(local).collect(),
            by_rank: ranks.iter().enumerate().map(|(local, &rank)| (rank, local)).collect(),
            heard: Vec::new(),
            alarmed: Vec::new(),
            failed: None,
        }
    }

    /// Sets memory aside, before simulated time starts.
    pub(crate) fn open(rank: u32, requests: &mut dyn Requests<Letter>) {
        let everything =
            MatchEntry { length: 1 << 40, ignore_bits: u64::MAX, options: me::OP_PUT | me::EVENT_LINK_DISABLE, ..MatchEntry::default() };
        for command in [
            Command::EqAlloc { eq: EQ, count: 1 << 20 },
            Command::PtAlloc { pt: PT, options: 0, eq: EQ },
            Command::MeAppend { entry: EntryId(0), pt: PT, list: List::Priority, me: everything },
        ] {
            requests.submit(rank, Rail::FIRST, SimTime::ZERO, command);
        }
    }

    /// Hosts begin at `at`.
    pub(crate) fn begin(&mut self, rank: u32, at: SimTime, requests: &mut dyn Requests<Letter>) {
        let local = &mut self.locals[self.by_rank[&rank]];
        local.at(at, Due::Begin, requests);
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.locals.iter().flat_map(|local| match &local.what {
            What::Host(host) => std::slice::from_ref(&**host),
            What::Gateway(gateway) => gateway.hosts.as_slice(),
        })
    }

    pub(crate) fn gateway(&self) -> Option<&Gateway> {
        self.locals.iter().find_map(|local| match &local.what {
            What::Gateway(gateway) => Some(gateway),
            What::Host(_) => None,
        })
    }
}

impl Local {
    fn at(&mut self, at: SimTime, due: Due, requests: &mut dyn Requests<Letter>) {
        self.due.insert((at, self.serial), due);
        self.serial += 1;
        requests.set_alarm(self.rank, at);
    }

    /// Gives the NIC a message.
    fn put(&mut self, to: u32, packets: Vec<Packet>, mark: u64, region: (&Plan, &Places), requests: &mut dyn Requests<Letter>) {
        let (plan, places) = region;
        let rank = places.ranks[&to];
        let local = LocalBuffer { eq: EQ, user_ptr: mark | packets.len() as u64, ..LocalBuffer::default() };
        let target = RemoteTarget { process: places.processes[rank as usize], pt: PT, match_bits: 0, offset: 0 };
        let length = Device::bytes(&plan.ip, &packets).0;
        let number = self.sent;
        self.sent += 1;
        let put = Command::Put { local, length, inline: None, ack: AckRequest::None, target, hdr_data: number };
        requests.post(rank, Letter { from: places.processes[self.rank as usize], number, packets });
        requests.submit(self.rank, Rail::FIRST, requests.now(), put);
    }

    fn take(&mut self, of: u32, effects: &mut Vec<Effect>, region: (&Plan, &Places), requests: &mut dyn Requests<Letter>) {
        let now = requests.now();
        for effect in effects.drain(..) {
            match (effect, &mut self.what) {
                (Effect::At(at, event), _) => self.at(at, Due::Host(of, event), requests),
                (Effect::Message(to, packets), What::Host(_)) => self.put(to, packets, 0, region, requests),
                (Effect::Message(_, packets), What::Gateway(gateway)) => {
                    let mut asked = Vec::new();
                    gateway.send(now, of, packets, |at, event| asked.push((at, event)));
                    asked.into_iter().for_each(|(at, event)| self.at(at, Due::Gateway(event), requests));
                }
            }
        }
    }

    fn host(&mut self, of: u32) -> &mut Host {
        match &mut self.what {
            What::Host(host) => host,
            What::Gateway(gateway) => &mut gateway.hosts[of as usize],
        }
    }

    fn strike(&mut self, due: Due, effects: &mut Vec<Effect>, region: (&Plan, &Places), requests: &mut dyn Requests<Letter>) {
        let now = requests.now();
        match (due, &mut self.what) {
            (Due::Begin, What::Host(host)) => host.begin(now, effects),
            (Due::Begin, What::Gateway(gateway)) => {
                for of in 0..gateway.hosts.len() as u32 {
                    self.host(of).begin(now, effects);
                    self.take(of, effects, region, requests);
                }
            }
            (Due::Host(of, event), _) => {
                self.host(of).handle(now, event, effects);
                return self.take(of, effects, region, requests);
            }
            (Due::Gateway(event), What::Gateway(gateway)) => match event {
                gateway::Event::Left => gateway.left(),
                gateway::Event::Entered(packet) => {
                    if let Some(ready) = gateway.entered(now, &packet) {
                        self.at(ready, Due::Gateway(gateway::Event::Forwarded(packet)), requests);
                    }
                }
                gateway::Event::Forwarded(packet) => {
                    self.put(packet.to, vec![packet], FORWARDED, region, requests);
                }
                gateway::Event::Read(of) => {
                    self.host(of).sent(now, 1, effects);
                    return self.take(of, effects, region, requests);
                }
                gateway::Event::Arrived(packet) => {
                    let of = gateway.hosts.iter().position(|host| host.number() == packet.to).expect("packets for others do not come here");
                    gateway.hosts[of].arrive(now, vec![packet], effects);
                    return self.take(of as u32, effects, region, requests);
                }
            },
            (Due::Gateway(_), What::Host(_)) => unreachable!("only a gateway asks for its events"),
        }
        self.take(0, effects, region, requests);
    }

    /// The NIC has told something.
    fn hear(&mut self, event: &NicEvent, effects: &mut Vec<Effect>, region: (&Plan, &Places), requests: &mut dyn Requests<Letter>) {
        let now = requests.now();
        match (event.kind, &mut self.what) {
            (EventKind::Send, What::Host(host)) => host.sent(now, event.user_ptr as u32, effects),
            (EventKind::Send, What::Gateway(gateway)) => gateway.read(event.user_ptr as u32),
            (EventKind::Put, what) => {
                let packets = self.letters.remove(&(event.initiator.nid, event.hdr_data)).unwrap_or_default();
                match what {
                    What::Host(host) => host.arrive(now, packets, effects),
                    What::Gateway(gateway) => {
                        let mut asked = Vec::new();
                        gateway.arrive(now, packets, |at, event| asked.push((at, event)));
                        asked.into_iter().for_each(|(at, event)| self.at(at, Due::Gateway(event), requests));
                    }
                }
            }
            _ => {}
        }
        self.take(0, effects, region, requests);
    }
}

impl Processes for Region {
    type Letter = Letter;

    fn letter(&mut self, rank: u32, letter: Letter) {
        let local = &mut self.locals[self.by_rank[&rank]];
        local.letters.insert((letter.from.nid, letter.number), letter.packets);
    }

    fn notify(&mut self, _: SimTime, rank: u32, notice: Notice) {
        if let Notice::Event { event, .. } = notice {
            self.heard.push((self.by_rank[&rank], event));
        }
    }

    fn alarm(&mut self, _: SimTime, rank: u32) {
        self.alarmed.push(self.by_rank[&rank]);
    }

    fn proceed(&mut self, requests: &mut dyn Requests<Letter>) {
        let mut effects = Vec::new();
        let (plan, places) = (Arc::clone(&self.plan), Arc::clone(&self.places));
        let now = requests.now();
        for (local, event) in std::mem::take(&mut self.heard) {
            if event.fail != narrows_portals::FailType::Ok {
                self.failed.get_or_insert(event.initiator);
            }
            self.locals[local].hear(&event, &mut effects, (&plan, &places), requests);
        }
        for at in std::mem::take(&mut self.alarmed) {
            let local = &mut self.locals[at];
            while let Some(entry) = local.due.first_entry().filter(|entry| entry.key().0 <= now) {
                let due = entry.remove();
                local.strike(due, &mut effects, (&plan, &places), requests);
            }
        }
    }
}
