//! The endpoints of a process that lives elsewhere: calls and notices of its NIC in, commands to the NIC and notices
//! for the process out.

use crate::wire::PT_RENDEZVOUS;
use crate::{
    Again, Call, CallError, Completion, CompletionKind, Endpoint, MessageConfig, Queue, Sent, Status, Stray, Transport, portal_table,
};
use narrows_portals::bridge::Forward;
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event, List, LocalBuffer, MatchEntry, NO_TICKET, Notice, ProcessId, RemoteTarget, ReplyCode,
    SearchOperation, me,
};
use narrows_units::{Rail, SimTime};
use std::collections::VecDeque;

/// What the endpoints need of whoever has them: the way to the NIC, the memory of the process, and its clock.
pub trait Library {
    /// Gives a command to the NIC on a rail, which takes the time of one.
    fn post(&mut self, rail: Rail, command: Command);
    /// See [`Transport::handed_over`].
    fn handed_over(&mut self) {}
    /// See [`Transport::works`].
    fn works(&mut self, _time: SimTime) {}
    /// See [`Transport::by_firmware`].
    fn by_firmware(&mut self, _by_firmware: bool) {}
    /// The process has copied a payload that goes with its command.
    fn has_copied(&mut self, length: u64);
    /// Copies out of memory from [`Library::allocate`], which takes time.
    fn copy(&mut self, from: u64, to: u64, length: u64);
    /// Copies into such memory, which takes time: `bytes`, if they came with the call, else from the process.
    fn fill(&mut self, bytes: Option<&[u8]>, from: u64, to: u64, length: u64);
    /// See [`Transport::allocate`].
    fn allocate(&mut self, length: u64) -> u64;
}

/// Numbers of ours among those that the process gives itself; below that bit the rail.
const OUR_ENTRIES: u64 = 1 << 63;
const RAIL_SHIFT: u32 = 55;
const OUR_TICKETS: u32 = 1 << 31;

/// What the NIC says to an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    eq: EqId,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Event(Event),
    Unlinked(EntryId, ReplyCode),
    Gone(usize),
}

/// The endpoints of one process.
#[derive(Debug)]
pub struct Host {
    process: ProcessId,
    endpoints: Vec<Open>,
    next_entry: u64,
    next_ticket: u32,
    /// Entries that the NIC was told to unlink, by ticket.
    unlinking: Vec<(u32, EqId, EntryId)>,
    /// For the process.
    notices: VecDeque<Notice>,
    /// By endpoints that are closed.
    sent: Sent,
}

#[derive(Debug)]
struct Open {
    eq: EqId,
    /// First portal table entry.
    base: u32,
    endpoint: Endpoint,
}

/// An endpoint at its Portals library.
struct Port<'a, L> {
    library: &'a mut L,
    eq: EqId,
    base: u32,
    next_entry: &'a mut u64,
    next_ticket: &'a mut u32,
    unlinking: &'a mut Vec<(u32, EqId, EntryId)>,
    /// The data of the call, and where they are in the process.
    payload: Option<Box<[u8]>>,
    payload_at: u64,
    /// Searches wait for a message.
    waits: bool,
    /// The first rail of all ranks.
    first: Rail,
}

impl<L: Library> Transport for Port<'_, L> {
    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        *self.next_entry += 1;
        let entry = EntryId(OUR_ENTRIES | u64::from(rail.0) << RAIL_SHIFT | *self.next_entry);
        self.library.post(rail, Command::MeAppend { entry, pt: self.base + pt, list, me });
        entry
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        *self.next_ticket = (*self.next_ticket + 1) & (OUR_TICKETS - 1);
        let ticket = OUR_TICKETS | *self.next_ticket;
        self.unlinking.push((ticket, self.eq, entry));
        let rail = Rail((entry.0 >> RAIL_SHIFT) as u8 & !(1 << 7));
        self.library.post(rail, Command::MeUnlink { entry, ticket });
        None
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, mut me: MatchEntry) {
        if self.waits {
            me.options |= me::SEARCH_WAITS;
        }
        self.library.post(self.first, Command::MeSearch { pt: self.base + pt, operation, me });
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        if copy_now {
            self.library.has_copied(length);
        }
        // A put without data, as protocols send on the way, is not the message that the data are of.
        let inline = if copy_now && length > 0 { self.payload.take() } else { None };
        let target = RemoteTarget { pt: self.base + target.pt, ..target };
        self.library.post(rail, Command::Put { local, length, inline, ack, target, hdr_data });
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.library.post(rail, Command::Get { local, length, target: RemoteTarget { pt: self.base + target.pt, ..target } });
    }

    fn forward(&mut self, rail: Rail, mut forward: Forward) {
        forward.envelope.pt += self.base;
        forward.envelope.done_pt += self.base;
        self.library.post(rail, Command::Forward(Box::new(forward)));
    }

    fn searches_wait(&self) -> bool {
        self.waits
    }

    fn handed_over(&mut self) {
        self.library.handed_over();
    }

    fn works(&mut self, time: SimTime) {
        self.library.works(time);
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.library.by_firmware(by_firmware);
    }

    fn drop_unmatched(&mut self, pt: u32) {
        let pt = self.base + pt;
        self.library.post(self.first, Command::PtFree { pt, ticket: NO_TICKET });
        self.library.post(self.first, Command::PtAlloc { pt, options: 0, eq: self.eq });
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.library.copy(from, to, length);
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        let bytes = self.payload.as_deref().and_then(|bytes| {
            let start = from.checked_sub(self.payload_at)? as usize;
            bytes.get(start..start.checked_add(length as usize)?)
        });
        self.library.fill(bytes, from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.library.allocate(length)
    }
}

impl Host {
    /// No endpoints yet.
    pub fn new(process: ProcessId) -> Host {
        Host {
            process,
            endpoints: Vec::new(),
            next_entry: 0,
            next_ticket: 0,
            unlinking: Vec::new(),
            notices: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    /// Whose they are.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// Whether a notice of the NIC is for an endpoint; the others are for the process itself.
    ///
    /// # Errors
    /// Gives it back if it is not.
    pub fn take(&mut self, notice: Notice) -> Result<Notification, Notice> {
        match notice {
            Notice::Event { eq, event } if self.endpoints.iter().any(|open| open.eq == eq) => {
                Ok(Notification { eq, what: What::Event(event) })
            }
            Notice::Reply { ticket, code, .. } if ticket & OUR_TICKETS != 0 => {
                let at = self.unlinking.iter().position(|&(other, ..)| other == ticket).ok_or(notice)?;
                let (_, eq, entry) = self.unlinking.remove(at);
                Ok(Notification { eq, what: What::Unlinked(entry, code) })
            }
            other => Err(other),
        }
    }

    /// That a gateway is gone, for all endpoints.
    pub fn gone(gateway: usize) -> Notification {
        Notification { eq: EqId::NONE, what: What::Gone(gateway) }
    }

    /// Does what a call says.
    ///
    /// # Errors
    /// For endpoints that are not there, thresholds that contradict each other, and more requests than an endpoint can
    /// have: the process knows better.
    pub fn call(
        &mut self,
        config: &MessageConfig,
        library: &mut impl Library,
        eq: EqId,
        call: Call,
        payload: Option<Box<[u8]>>,
    ) -> Result<(), CallError> {
        let Host { process, endpoints, next_entry, next_ticket, unlinking, notices, sent } = self;
        let place = endpoints.iter().position(|open| open.eq == eq);
        let base = match (&call, place) {
            (Call::Open { base }, None) => *base,
            (_, place) => endpoints[place.ok_or(CallError::Broken)?].base,
        };
        let waits = matches!(call, Call::Peek { waits: true, .. });
        let rails = config.rails.of_process(*process);
        let first = rails.first();
        let payload_at = if let Call::Send(send) = &call { send.buffer } else { 0 };
        let mut port = Port { library, eq, base, next_entry, next_ticket, unlinking, payload, payload_at, waits, first };
        let Some(place) = place else {
            config.check().map_err(|_| CallError::Broken)?;
            // The process itself has opened its NIC on the first one.
            for &rail in &rails.all()[1..] {
                open_rail(eq, base, |command| port.library.post(rail, command));
            }
            endpoints.push(Open { eq, base, endpoint: Endpoint::new(config.clone(), eq, *process, &mut port) });
            return Ok(());
        };
        let endpoint = &mut endpoints[place].endpoint;
        match call {
            Call::Open { .. } => return Err(CallError::Broken),
            Call::Close => {
                endpoint.close(&mut port);
                *sent += endpoint.sent();
                endpoints.remove(place);
                return Ok(());
            }
            Call::Renew => endpoint.renew(&mut port),
            Call::Receive(receive) | Call::ReceiveClaimed { receive, .. } if receive.queue == Queue::Tagged && receive.multi.is_some() => {
                return Err(CallError::Broken);
            }
            Call::Send(send) if send.inject && send.length > config.inject_limit => return Err(CallError::Broken),
            Call::Send(send) => endpoint.send(&mut port, send).map_err(|Again| CallError::TooMany)?,
            Call::Receive(receive) => endpoint.receive(&mut port, receive).map_err(|Again| CallError::TooMany)?,
            Call::ReceiveClaimed { claim, receive } => {
                endpoint.receive_claimed(&mut port, claim, receive).map_err(|_| CallError::Broken)?
            }
            Call::DiscardClaimed { claim } => endpoint.discard_claimed(&mut port, claim).map_err(|_| CallError::Broken)?,
            Call::Peek { peek, .. } => endpoint.peek(&mut port, peek).map_err(|Again| CallError::TooMany)?,
            Call::Cancel { queue, context, ticket } => {
                if let Some(done) = endpoint.cancel(&mut port, queue, context, u64::from(ticket)) {
                    notices.push_back(answer(ticket, done));
                }
            }
        }
        self.report(place);
        Ok(())
    }

    /// See [`Endpoint::only_completes`].
    pub fn only_completes(&self, news: &Notification) -> bool {
        match (&news.what, self.endpoints.iter().find(|open| open.eq == news.eq)) {
            (What::Event(event), Some(open)) => open.endpoint.only_completes(event),
            (What::Unlinked(..) | What::Gone(_), _) | (_, None) => false,
        }
    }

    /// A command of the process itself that meddles with an endpoint: it uses its event queue or its lists.
    pub fn is_ours(&self, command: &Command) -> bool {
        let has_queue = |local: &LocalBuffer| self.endpoints.iter().any(|open| open.eq == local.eq);
        let has_list = |pt: u32| self.endpoints.iter().any(|open| (open.base..open.base + portal_table().len() as u32).contains(&pt));
        match command {
            Command::Put { local, .. } | Command::Get { local, .. } => has_queue(local),
            Command::Atomic(atomic) => has_queue(&atomic.local) || atomic.fetched.as_ref().is_some_and(has_queue),
            Command::MeAppend { pt, .. } | Command::MeSearch { pt, .. } => has_list(*pt),
            Command::Triggered { command, .. } => self.is_ours(command),
            _ => false,
        }
    }

    /// The process looks at what the NIC has said.
    ///
    /// # Errors
    /// See [`Endpoint::event`].
    pub fn look(&mut self, library: &mut impl Library, news: Notification) -> Result<(), Stray> {
        let Notification { eq, what } = news;
        if let What::Gone(gateway) = what {
            for place in 0..self.endpoints.len() {
                let Host { endpoints, next_entry, next_ticket, unlinking, .. } = self;
                let Open { eq, base, endpoint } = &mut endpoints[place];
                let (eq, base, first) = (*eq, *base, endpoint.first_rail());
                let mut port =
                    Port { library, eq, base, next_entry, next_ticket, unlinking, payload: None, payload_at: 0, waits: false, first };
                endpoint.gateway_gone(&mut port, gateway);
                self.report(place);
            }
            return Ok(());
        }
        let Host { endpoints, next_entry, next_ticket, unlinking, .. } = self;
        // It may have been closed since.
        let Some(place) = endpoints.iter().position(|open| open.eq == eq) else { return Ok(()) };
        let Open { base, endpoint, .. } = &mut endpoints[place];
        let first = endpoint.first_rail();
        let mut port =
            Port { library, eq, base: *base, next_entry, next_ticket, unlinking, payload: None, payload_at: 0, waits: false, first };
        match what {
            What::Event(event) => endpoint.event(&mut port, event)?,
            What::Unlinked(entry, code) => endpoint.unlinked(&mut port, entry, code),
            What::Gone(_) => {}
        }
        self.report(place);
        Ok(())
    }

    fn report(&mut self, place: usize) {
        let Open { eq, endpoint, .. } = &mut self.endpoints[place];
        while let Some(completion) = endpoint.next_completion() {
            self.notices.push_back(match completion {
                Completion { kind: CompletionKind::Cancel, context, status, .. } => answer(context as u32, status == Status::Cancelled),
                other => Notice::Event { eq: *eq, event: other.to_event() },
            });
        }
    }

    /// What its endpoints have sent: see [`Endpoint::sent`].
    pub fn sent(&self) -> Sent {
        self.endpoints.iter().fold(self.sent, |mut sum, open| {
            sum += open.endpoint.sent();
            sum
        })
    }

    /// The next notice for the process: a completion ([`Completion::from_event`]), or the answer to a cancelling.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

/// What an endpoint needs at the NIC of a rail that is not the first one: an event queue, and the table entry for data,
/// counted from `base`.
pub fn open_rail(eq: EqId, base: u32, mut post: impl FnMut(Command)) {
    post(Command::EqAlloc { eq, count: RAIL_EVENTS });
    post(Command::PtAlloc { pt: base + PT_RENDEZVOUS, options: 0, eq });
}

/// Events that fit into such a queue: whoever has the endpoint takes them at once.
const RAIL_EVENTS: u32 = 1 << 20;

/// The answer to a cancelling.
fn answer(ticket: u32, done: bool) -> Notice {
    Notice::Reply { ticket, code: if done { ReplyCode::Ok } else { ReplyCode::InUse }, value: 0 }
}
