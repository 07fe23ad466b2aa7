//! The endpoints of a process that lives elsewhere: calls and notices of its NIC in, commands to the NIC and notices
//! for the process out.

use crate::{
    Again, Call, CallError, Completion, CompletionKind, Endpoint, Library, MessageConfig, Numbers, Port, Queue, Sent, Status, Stray,
    portal_table,
};
use narrows_portals::{Command, EntryId, EqId, Event, LocalBuffer, Notice, ProcessId, ReplyCode};
use narrows_units::Rail;
use std::collections::VecDeque;

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
    numbers: Numbers,
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

impl Open {
    /// Tells the process what is complete.
    fn report(&mut self, notices: &mut VecDeque<Notice>) {
        while let Some(completion) = self.endpoint.next_completion() {
            notices.push_back(match completion {
                Completion { kind: CompletionKind::Cancel, context, status, .. } => answer(context as u32, status == Status::Cancelled),
                other => Notice::Event { eq: self.eq, event: other.to_event() },
            });
        }
    }
}

impl Host {
    /// No endpoints yet.
    pub fn new(process: ProcessId) -> Host {
        Host { process, endpoints: Vec::new(), numbers: Numbers::beside_its_own(), notices: VecDeque::new(), sent: Sent::default() }
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
            Notice::Reply { ticket, code, .. } => {
                let (eq, entry) = self.numbers.unlinked(ticket).ok_or(notice)?;
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
        library: impl Library,
        eq: EqId,
        call: Call,
        payload: Option<Box<[u8]>>,
    ) -> Result<(), CallError> {
        let Host { process, endpoints, numbers, notices, sent } = self;
        let place = endpoints.iter().position(|open| open.eq == eq);
        let base = match (&call, place) {
            (Call::Open { base }, None) => *base,
            (_, place) => endpoints[place.ok_or(CallError::Broken)?].base,
        };
        let waits = matches!(call, Call::Peek { waits: true, .. });
        let rails = config.rails.of_process(*process);
        let payload_at = if let Call::Send(send) = &call { send.buffer } else { 0 };
        let mut port = Port::new(library, numbers, (eq, base), rails.first()).of_call(payload, payload_at, waits);
        let Some(place) = place else {
            config.check().map_err(|_| CallError::Broken)?;
            // The process itself has opened its NIC on the first one.
            port.open_others(&rails);
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
        endpoints[place].report(notices);
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
    pub fn look(&mut self, library: impl Library, Notification { eq, what }: Notification) -> Result<(), Stray> {
        let Host { endpoints, numbers, notices, .. } = self;
        let mut port = Port::new(library, numbers, (EqId::NONE, 0), Rail::FIRST);
        // It may have been closed since.
        for open in endpoints.iter_mut().filter(|open| open.eq == eq || matches!(what, What::Gone(_))) {
            port.serve((open.eq, open.base), open.endpoint.first_rail());
            match what {
                What::Event(event) => open.endpoint.event(&mut port, event)?,
                What::Unlinked(entry, code) => open.endpoint.unlinked(&mut port, entry, code),
                What::Gone(gateway) => open.endpoint.gateway_gone(&mut port, gateway),
            }
            open.report(notices);
        }
        Ok(())
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

/// The answer to a cancelling.
fn answer(ticket: u32, done: bool) -> Notice {
    Notice::Reply { ticket, code: if done { ReplyCode::Ok } else { ReplyCode::InUse }, value: 0 }
}
