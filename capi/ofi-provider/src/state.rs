//! The provider's state in this process, and how events get from Portals to completion queues.
//!
//! One lock holds everything, and no call keeps it while it waits. A thread that reads a completion
//! queue takes the right to poll ([`POLLER`]), looks for an event without the lock, takes the lock and
//! hands the event to its endpoint: other threads can send and receive meanwhile, and events are
//! handed over in the order in which they were taken.
//!
//! A poll may put the rank to sleep until its next event. So there is none while any completion
//! queue has entries that were not read: the program may be waiting for one of those.

use std::ffi::{c_int, c_long};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use narrows_message::{MessageConfig, Rendezvous};

use crate::endpoint::Endpoint;
use crate::fi::{self, Errno};
use crate::port::{self, Interface, Look, Port, abi};
use crate::queues::{Entry, Origin, Shared, Table};
use crate::regions::{Domain, MAX_DOMAINS};

/// Portal table entries of a network interface (BXI: `max_pt_index` 255): blocks for endpoints,
/// and at the end one for each domain.
pub const TABLE_SIZE: u32 = 256;

/// Everything.
pub struct State {
    config: Option<MessageConfig>,
    interface: Option<Interface>,
    /// Domains.
    pub domains: Table<Domain>,
    /// Endpoints.
    pub endpoints: Table<Endpoint>,
    /// Which blocks of portal table entries are in use.
    blocks: Vec<bool>,
    /// Event queues of all endpoints.
    event_queues: Option<Arc<[abi::Handle]>>,
    /// Address vectors, completion queues and counters.
    pub shared: Shared,
    /// What Portals was told last: a search is on its way.
    expecting: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    config: None,
    interface: None,
    domains: Table::new(),
    endpoints: Table::new(),
    blocks: Vec::new(),
    event_queues: None,
    shared: Shared::new(),
    expecting: false,
});

/// The right to take events.
static POLLER: Mutex<()> = Mutex::new(());

/// The state, locked.
pub fn state() -> MutexGuard<'static, State> {
    // A panic is reported at the C boundary; the state behind it stays usable.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Thresholds of the machine file. Attaches to the simulator if that has not happened yet.
    pub fn config(&mut self) -> Result<MessageConfig, Errno> {
        if let Some(config) = &self.config {
            return Ok(config.clone());
        }
        let settings = port::settings()?;
        let config = MessageConfig {
            eager_limit: settings.eager_limit,
            inject_limit: settings.inject_limit,
            rendezvous: if settings.rendezvous_put != 0 { Rendezvous::Put } else { Rendezvous::Get },
            overflow_block: settings.overflow_block,
            overflow_blocks: settings.overflow_blocks,
            max_portals_message: settings.max_portals_message,
        };
        if let Err(error) = config.check() {
            eprintln!("narrows: the machine's protocol thresholds cannot work: {error}");
            return Err(fi::ENODATA);
        }
        self.config = Some(config.clone());
        Ok(config)
    }

    /// The network interface, which the first who needs it opens.
    pub fn interface(&mut self) -> Result<Interface, Errno> {
        match self.interface {
            Some(interface) => Ok(interface),
            None => Ok(*self.interface.insert(Interface::open()?)),
        }
    }

    /// Opens a domain.
    pub fn open_domain(&mut self) -> Result<u32, Errno> {
        let number = self.domains.insert(Domain::default());
        if number < MAX_DOMAINS {
            return Ok(number);
        }
        self.domains.remove(number)?;
        Err(fi::ENOSPC)
    }

    /// Opens an endpoint, with the lowest free block of portal table entries.
    pub fn open_endpoint(&mut self, caps: u64, inject_size: u64, domain: u32) -> Result<u32, Errno> {
        let interface = self.interface()?;
        let block = self.blocks.iter().position(|used| !used).unwrap_or_else(|| {
            self.blocks.push(false);
            self.blocks.len() - 1
        });
        let base = block as u32 * port::block_size();
        if base + port::block_size() > TABLE_SIZE - MAX_DOMAINS {
            return Err(fi::ENOSPC);
        }
        let port = Port::open(interface, base)?;
        self.blocks[block] = true;
        let index = self.endpoints.insert(Endpoint::new(port, interface.local, caps, inject_size, domain));
        self.list_event_queues();
        Ok(index)
    }

    /// Closes an endpoint.
    pub fn close_endpoint(&mut self, index: u32) -> Result<(), Errno> {
        let endpoint = self.endpoints.remove(index)?;
        self.blocks[(endpoint.address.base / port::block_size()) as usize] = false;
        endpoint.close();
        self.list_event_queues();
        self.update_expectation();
        Ok(())
    }

    /// Starts an endpoint. A peer may send as soon as it knows its name, and a NIC drops what finds no portal table entry: so
    /// this waits until the NIC has all of them.
    pub fn enable_endpoint(&mut self, index: u32) -> Result<(), Errno> {
        let config = self.config()?;
        self.endpoints.get_mut(index)?.enable(config)?;
        self.list_event_queues();
        self.interface()?.settle()
    }

    fn list_event_queues(&mut self) {
        self.event_queues = Some(self.endpoints.iter().flat_map(Endpoint::event_queues).collect());
    }

    /// Runs an operation of an endpoint.
    pub fn with_endpoint<R>(&mut self, index: u32, work: impl FnOnce(&mut Endpoint, &mut Shared) -> Result<R, Errno>) -> Result<R, Errno> {
        let result = work(self.endpoints.get_mut(index)?, &mut self.shared);
        self.update_expectation();
        result
    }

    /// Tells Portals whether the result of a search is on its way: an empty poll then waits for it.
    fn update_expectation(&mut self) {
        let expecting = self.endpoints.iter().any(|endpoint| endpoint.searches_pending() > 0);
        if expecting != self.expecting {
            self.expecting = expecting;
            port::expect_soon(expecting);
        }
    }

    fn event(&mut self, queue: abi::Handle, event: &abi::FullEvent) {
        // The endpoint may have been closed since.
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.event_queues().any(|one| one == queue)) {
            endpoint.event(&mut self.shared, queue, event);
        }
        self.update_expectation();
    }
}

/// Takes events until one is of interest to the program, or `ready` holds, or there is none.
/// `waiting` says how to look when nothing is left for the program to read. False: there was none.
fn take_events(waiting: Look, ready: impl Fn(&Shared) -> bool) -> bool {
    loop {
        // Another thread that polls will hand over what comes.
        let _poller = match POLLER.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let (queues, unread) = {
            let state = state();
            if ready(&state.shared) {
                return true;
            }
            (state.event_queues.clone(), state.shared.unread)
        };
        let Some(queues) = queues else { return false };
        let look = if waiting == Look::Poll && unread > 0 { Look::Check } else { waiting };
        let Some((queue, event)) = port::next_event(&queues, look) else { return false };
        let mut state = state();
        let before = state.shared.news;
        state.event(queue, &event);
        if state.shared.news != before {
            return true;
        }
    }
}

/// Brings all endpoints into the state in which the order of earlier messages can have no more influence.
pub fn renew() {
    take_events(Look::Check, |_| false);
    state().endpoints.iter_mut().for_each(Endpoint::renew);
}

/// The next entry of a completion queue. `poll`: looks for events when there is none.
pub fn next_entry(cq: u32, poll: bool) -> Result<Option<Entry>, Errno> {
    let first = {
        let mut state = state();
        let first = state.shared.pop(cq, false)?;
        // Most polls: nothing is here, and it is too early to wait.
        if first.is_none() && poll && state.shared.unread == 0 && port::idle_poll() {
            return Ok(None);
        }
        first
    };
    let entry = match first {
        None if poll => {
            take_events(Look::Poll, |shared| shared.cqs.get(cq).is_ok_and(|queue| !queue.is_empty()));
            state().shared.pop(cq, false)?
        }
        other => other,
    };
    if let Some((_, Origin::Event)) = entry {
        port::charge_completion();
    }
    Ok(entry.map(|(entry, _)| entry))
}

/// The value of a counter, or its errors. Looks for events when the program has seen the value.
pub fn read_counter(index: u32, errors: bool) -> Result<u64, Errno> {
    let news = state().shared.counters.get(index)?.news();
    if !news {
        take_events(Look::Poll, |shared| shared.counters.get(index).is_ok_and(|counter| counter.news()));
    }
    let mut state = state();
    let counter = state.shared.counters.get_mut(index)?;
    counter.seen = (counter.value, counter.errors);
    Ok(if errors { counter.errors } else { counter.value })
}

/// Waits until a counter reaches a value. A time that is given runs anew with every event.
pub fn wait_counter(index: u32, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
    let errors = state().shared.counters.get(index)?.errors;
    loop {
        let counter = *state().shared.counters.get(index)?;
        if counter.value >= threshold {
            return Ok(());
        }
        if counter.errors != errors {
            return Err(fi::EAVAIL);
        }
        if !take_events(Look::Wait(c_long::from(timeout_ms)), |_| false) {
            return Err(fi::ETIMEDOUT);
        }
    }
}
