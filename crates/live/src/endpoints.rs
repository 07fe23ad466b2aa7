//! The endpoints of the message layer, one or more for each rank: they live here, not in the ranks' processes.
//!
//! A rank asks for something ([`Call`]) and is told what is complete. In between the endpoint does what the protocol
//! needs, with the rank's clock, and only while the rank looks at its network: in a blocking MPI call, where it is
//! parked, or at a poll. What happens while the program computes waits in the inbox.

use crate::memory::Memory;
use narrows_channel::Settings;
use narrows_channel::layout::COMMAND_PAYLOAD;
use narrows_channel::record::CALL_WORDS;
use narrows_message::{Call, CallError, Completion, CompletionKind, Endpoint, MessageConfig, Portals, Rendezvous, Status};
use narrows_nic::{Combine, Fault};
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event, List, LocalBuffer, MatchEntry, Notice, Place, ProcessId, RemoteTarget, ReplyCode,
    SearchOperation, me,
};
use narrows_sim::{Processes, Requests};
use narrows_units::SimTime;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Costs of the software on a rank's core.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of a command to the NIC.
    post: SimTime,
    /// Of copying 1,024 bytes, ps.
    copy_ps_per_kib: u64,
    /// Longest put whose payload goes with the command, bytes.
    pio_limit: u64,
}

/// Numbers of ours among those of the library in the rank's process.
const OUR_ENTRIES: u64 = 1 << 63;
const OUR_TICKETS: u32 = 1 << 31;

/// Whether a rank looks at its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// It does not.
    Absent,
    /// Until this time at least, or until it is told something.
    Until(SimTime),
    /// It is in MPI_Init or MPI_Finalize.
    Always,
}

#[derive(Debug)]
enum News {
    Event(Event),
    Unlinked(EntryId, ReplyCode),
}

#[derive(Debug)]
struct Seat {
    eq: EqId,
    base: u32,
    endpoint: Endpoint,
}

/// Of one rank.
#[derive(Debug)]
struct Desk {
    id: ProcessId,
    seats: Vec<Seat>,
    /// What its endpoints have not looked at.
    inbox: VecDeque<(SimTime, EqId, News)>,
    attention: Attention,
    /// The rank's clock, as far as the endpoints have moved it since it parked.
    clock: SimTime,
    /// How much of that was work.
    worked: SimTime,
    numbers: Numbers,
}

#[derive(Debug, Default)]
struct Numbers {
    entry: u64,
    ticket: u32,
    /// By ticket.
    unlinking: Vec<(u32, EqId, EntryId)>,
}

/// All ranks: their memory and their endpoints.
#[derive(Debug)]
pub struct Ranks {
    memory: Memory,
    desks: Vec<Desk>,
    config: MessageConfig,
    costs: Costs,
    /// Ranks that have something to look at.
    ready: Vec<u32>,
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

/// An endpoint at its Portals library.
struct Port<'a> {
    rank: u32,
    eq: EqId,
    base: u32,
    clock: &'a mut SimTime,
    numbers: &'a mut Numbers,
    memory: &'a mut Memory,
    requests: &'a mut dyn Requests<()>,
    costs: Costs,
    /// The data of the call.
    payload: Option<Box<[u8]>>,
    /// Searches wait for a message.
    waits: bool,
}

impl Port<'_> {
    fn post(&mut self, command: Command) {
        *self.clock += self.costs.post;
        self.requests.submit(self.rank, *self.clock, command);
    }

    fn copy_time(&self, length: u64) -> SimTime {
        SimTime((u128::from(length) * u128::from(self.costs.copy_ps_per_kib) / 1024) as u64)
    }
}

impl Portals for Port<'_> {
    fn me_append(&mut self, pt: u32, list: List, me: MatchEntry) -> EntryId {
        self.numbers.entry += 1;
        let entry = EntryId(OUR_ENTRIES | self.numbers.entry);
        self.post(Command::MeAppend { entry, pt: self.base + pt, list, me });
        entry
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        self.numbers.ticket = (self.numbers.ticket + 1) & (OUR_TICKETS - 1);
        let ticket = OUR_TICKETS | self.numbers.ticket;
        self.numbers.unlinking.push((ticket, self.eq, entry));
        self.post(Command::MeUnlink { entry, ticket });
        None
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, mut me: MatchEntry) {
        if self.waits {
            me.options |= me::SEARCH_WAITS;
        }
        self.post(Command::MeSearch { pt: self.base + pt, operation, me });
    }

    fn put(&mut self, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        if copy_now && length > self.costs.pio_limit {
            *self.clock += self.copy_time(length);
        }
        let inline = self.payload.take().filter(|_| length > 0);
        let target = RemoteTarget { pt: self.base + target.pt, ..target };
        self.post(Command::Put { local, length, inline, ack, target, hdr_data });
    }

    fn get(&mut self, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.post(Command::Get { local, length, target: RemoteTarget { pt: self.base + target.pt, ..target } });
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        *self.clock += self.copy_time(length);
        self.memory.copy_out(self.rank, *self.clock, from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.memory.allocate(self.rank, length)
    }
}

impl Ranks {
    /// `ids[i]` is where rank i is.
    pub fn new(settings: &Settings, ids: &[ProcessId]) -> Ranks {
        let config = MessageConfig {
            eager_limit: settings.eager_limit,
            inject_limit: settings.inject_limit.min(COMMAND_PAYLOAD as u64),
            rendezvous: if settings.rendezvous_put != 0 { Rendezvous::Put } else { Rendezvous::Get },
            overflow_block: settings.overflow_block,
            overflow_blocks: settings.overflow_blocks,
            max_portals_message: settings.max_portals_message,
        };
        let costs = Costs {
            post: SimTime(settings.post_ps),
            copy_ps_per_kib: settings.copy_ps_per_kib,
            pio_limit: u64::from(settings.pio_limit).min(COMMAND_PAYLOAD as u64),
        };
        let desk = |&id: &ProcessId| Desk {
            id,
            seats: Vec::new(),
            inbox: VecDeque::new(),
            attention: Attention::Absent,
            clock: SimTime::ZERO,
            worked: SimTime::ZERO,
            numbers: Numbers::default(),
        };
        Ranks { memory: Memory::new(ids.len()), desks: ids.iter().map(desk).collect(), config, costs, ready: Vec::new() }
    }

    /// The rank is going to run.
    pub fn runs(&mut self, rank: u32) {
        self.desks[rank as usize].attention = Attention::Absent;
    }

    /// The rank's clock when its endpoints have done what they had to do, and how long that took.
    pub fn clock(&self, rank: u32) -> (SimTime, SimTime) {
        let desk = &self.desks[rank as usize];
        (desk.clock, desk.worked)
    }

    /// When the first of what its endpoints have not looked at happened.
    pub fn news(&self, rank: u32) -> Option<SimTime> {
        self.desks[rank as usize].inbox.front().map(|&(time, ..)| time)
    }

    /// The rank looks at its network from `clock` on.
    pub fn looks(&mut self, rank: u32, clock: SimTime, attention: Attention, requests: &mut dyn Requests<()>) {
        let desk = &mut self.desks[rank as usize];
        (desk.attention, desk.clock, desk.worked) = (attention, clock, SimTime::ZERO);
        self.progress(rank, requests);
    }

    fn progress(&mut self, rank: u32, requests: &mut dyn Requests<()>) {
        let Ranks { memory, desks, costs, .. } = self;
        let desk = &mut desks[rank as usize];
        while let Some(&(time, ..)) = desk.inbox.front() {
            let at = match desk.attention {
                Attention::Absent => return,
                Attention::Until(end) if time.max(desk.clock) > end => return,
                Attention::Until(_) => time.max(desk.clock),
                Attention::Always => time,
            };
            let Some((_, eq, news)) = desk.inbox.pop_front() else { return };
            desk.clock = at;
            let Some(seat) = desk.seats.iter_mut().find(|seat| seat.eq == eq) else { continue };
            let mut port = Port {
                rank,
                eq,
                base: seat.base,
                clock: &mut desk.clock,
                numbers: &mut desk.numbers,
                memory,
                requests,
                costs: *costs,
                payload: None,
                waits: false,
            };
            match news {
                News::Event(event) => seat.endpoint.event(&mut port, event),
                News::Unlinked(entry, code) => seat.endpoint.unlinked(&mut port, entry, code),
            }
            desk.worked += desk.clock - at;
            if tell(rank, desk.clock, seat, memory) && desk.attention != Attention::Always {
                desk.attention = Attention::Absent;
            }
        }
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
        let Ranks { memory, desks, costs, config, .. } = self;
        let Desk { id, seats, numbers, .. } = &mut desks[rank as usize];
        let call = Call::from_words(&words)?;
        let mut clock = written;
        let base = match &call {
            Call::Open { base } => *base,
            _ => seats.iter().find(|seat| seat.eq == eq).ok_or(CallError)?.base,
        };
        let waits = matches!(call, Call::Peek { waits: true, .. });
        let mut port = Port { rank, eq, base, clock: &mut clock, numbers, memory, requests, costs: *costs, payload, waits };
        if let Call::Open { base } = call {
            config.check().map_err(|_| CallError)?;
            let endpoint = Endpoint::new(config.clone(), eq, *id, &mut port);
            seats.push(Seat { eq, base, endpoint });
            return Ok(());
        }
        let place = seats.iter().position(|seat| seat.eq == eq).ok_or(CallError)?;
        let endpoint = &mut seats[place].endpoint;
        match call {
            Call::Open { .. } => {}
            Call::Close => {
                endpoint.close(&mut port);
                seats.remove(place);
                return Ok(());
            }
            Call::Renew => endpoint.renew(&mut port),
            Call::Send(send) => endpoint.send(&mut port, send).map_err(|_| CallError)?,
            Call::Receive(receive) => endpoint.receive(&mut port, receive).map_err(|_| CallError)?,
            Call::ReceiveClaimed { claim, receive } => endpoint.receive_claimed(&mut port, claim, receive).map_err(|_| CallError)?,
            Call::DiscardClaimed { claim } => endpoint.discard_claimed(&mut port, claim).map_err(|_| CallError)?,
            Call::Peek { peek, .. } => endpoint.peek(&mut port, peek).map_err(|_| CallError)?,
            Call::Cancel { queue, context, ticket } => {
                if let Some(done) = endpoint.cancel(&mut port, queue, context, u64::from(ticket)) {
                    answer(rank, clock, ticket, done, memory);
                }
            }
        }
        tell(rank, clock, &mut seats[place], memory);
        Ok(())
    }
}

/// The answer to a cancelling.
fn answer(rank: u32, at: SimTime, ticket: u32, done: bool, memory: &mut Memory) {
    let code = if done { ReplyCode::Ok } else { ReplyCode::InUse };
    memory.notify(at, rank, Notice::Reply { ticket, code, value: 0 });
}

/// Hands on what is complete; whether there was anything.
fn tell(rank: u32, at: SimTime, seat: &mut Seat, memory: &mut Memory) -> bool {
    let mut any = false;
    while let Some(completion) = seat.endpoint.next_completion() {
        any = true;
        match completion {
            Completion { kind: CompletionKind::Cancel, context, status, .. } => {
                answer(rank, at, context as u32, status == Status::Cancelled, memory);
            }
            other => memory.complete(at, rank, seat.eq, other.to_words()),
        }
    }
    any
}

impl Processes for Ranks {
    type Letter = ();

    fn proceed(&mut self, requests: &mut dyn Requests<()>) {
        while let Some(rank) = self.ready.pop() {
            self.progress(rank, requests);
        }
    }

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        let desk = &mut self.desks[rank as usize];
        let news = match notice {
            Notice::Event { eq, event } if desk.seats.iter().any(|seat| seat.eq == eq) => (now, eq, News::Event(event)),
            Notice::Reply { ticket, code, .. } if ticket & OUR_TICKETS != 0 => {
                let Some(at) = desk.numbers.unlinking.iter().position(|&(other, ..)| other == ticket) else { return };
                let (_, eq, entry) = desk.numbers.unlinking.remove(at);
                (now, eq, News::Unlinked(entry, code))
            }
            notice => return self.memory.notify(now, rank, notice),
        };
        desk.inbox.push_back(news);
        if desk.attention != Attention::Absent {
            self.ready.push(rank);
        }
    }

    fn reserve(&mut self) -> u32 {
        self.memory.reserve()
    }
    fn hold(&mut self, payload: u32, bytes: Box<[u8]>) {
        self.memory.hold(payload, bytes);
    }
    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        self.memory.capture(payload, rank, place, length)
    }
    fn combine(&mut self, payload: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.memory.combine(payload, rank, place, length, combine)
    }
    fn fetch(&mut self, payload: u32, from: (u32, Place), length: u64, to: (u32, Place)) -> Result<(), Fault> {
        self.memory.fetch(payload, from, length, to)
    }
    fn deliver(&mut self, now: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        self.memory.deliver(now, payload, rank, place, length)
    }
    fn release(&mut self, payload: u32) {
        self.memory.release(payload);
    }
}
