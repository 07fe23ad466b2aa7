//! The provider's state in this process, and how events get from Portals to completion queues.
//!
//! One lock holds everything, and no call keeps it while it waits. A thread that reads a completion
//! queue takes the right to poll ([`POLLER`]), looks for an event without the lock, takes the lock and
//! hands the event to its endpoint: other threads can send and receive meanwhile, and events are
//! handed over in the order in which they were taken.
//!
//! A poll may put the rank to sleep until its next event. So there is none while any completion
//! queue has entries that were not read: the program may be waiting for one of those.

use narrows_output::say;
use std::ffi::{c_int, c_long};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use narrows_message::{MessageConfig, Protocol, Rendezvous};

use crate::emulated::Emulated;
use crate::endpoint::Endpoint;
use crate::fi::{self, Errno};
use crate::port::{self, Interface, Look, Port, abi};
use crate::queues::{Entry, Origin, Shared, Table};
use crate::regions::{Domain, MAX_DOMAINS};

/// Portal table entries of a network interface (BXI: `max_pt_index` 255): blocks for endpoints,
/// and at the end one for each domain.
pub const TABLE_SIZE: u32 = 256;

/// The block of [`Emulated`], the same in all processes: the last one before the domains.
fn emulated_base() -> u32 {
    TABLE_SIZE - MAX_DOMAINS - port::block_size()
}

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
/// Threads that wait for it, and how often it was given up while there were any.
static WAITING: AtomicU32 = AtomicU32::new(0);
static GIVEN_UP: Mutex<u64> = Mutex::new(0);
static AGAIN: Condvar = Condvar::new();

/// Has the right to take events.
struct Poller {
    held: Option<MutexGuard<'static, ()>>,
}

impl Poller {
    /// `None` while another thread has it.
    fn take() -> Option<Poller> {
        match POLLER.try_lock() {
            Ok(guard) => Some(Poller { held: Some(guard) }),
            Err(TryLockError::Poisoned(poisoned)) => Some(Poller { held: Some(poisoned.into_inner()) }),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn given_up() -> MutexGuard<'static, u64> {
        GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.held = None;
        // Either this thread sees who waits, or that one finds the right free: it says that it waits before it looks.
        fence(SeqCst);
        if WAITING.load(SeqCst) != 0 {
            *Poller::given_up() += 1;
            AGAIN.notify_all();
        }
    }
}

/// A thread that wants the right to take events when another one gives it up. While it lives, none is missed.
struct Waiter;

impl Waiter {
    fn new() -> Waiter {
        WAITING.fetch_add(1, SeqCst);
        Waiter
    }

    /// Waits until another thread gives it up for the `seen`-th time, at most for the time given. False: that is over.
    fn wait(&self, seen: u64, timeout: Option<Duration>) -> bool {
        let (given_up, same) = (Poller::given_up(), |now: &mut u64| *now == seen);
        match timeout {
            None => drop(AGAIN.wait_while(given_up, same).unwrap_or_else(PoisonError::into_inner)),
            Some(timeout) => {
                let (_given_up, over) = AGAIN.wait_timeout_while(given_up, timeout, same).unwrap_or_else(PoisonError::into_inner);
                return !over.timed_out();
            }
        }
        true
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, SeqCst);
    }
}

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
            // Whichever it is: the endpoint lives in the simulator.
            rails: Default::default(),
            protocol: Protocol::Openmpi,
            eager_limit: settings.eager_limit,
            inject_limit: settings.inject_limit,
            rendezvous: if settings.rendezvous_put != 0 { Rendezvous::Put } else { Rendezvous::Get },
            overflow_block: settings.overflow_block,
            overflow_blocks: settings.overflow_blocks,
            max_portals_message: settings.max_portals_message,
        };
        if let Err(error) = config.check() {
            say!("the machine's protocol thresholds cannot work: {error}");
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
        if base + port::block_size() > emulated_base() {
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
        endpoint.close(&mut self.shared);
        if self.endpoints.iter().next().is_none()
            && let Some(emulated) = self.shared.emulated.take()
        {
            emulated.close();
        }
        self.list_event_queues();
        self.update_expectation();
        Ok(())
    }

    /// Starts an endpoint. A peer may send as soon as it knows its name, and a NIC drops what finds no portal table
    /// entry: so this waits until the NIC has all of them.
    pub fn enable_endpoint(&mut self, index: u32) -> Result<(), Errno> {
        let config = self.config()?;
        if port::settings()?.one_sided_messages != 0 && self.shared.emulated.is_none() {
            // Peers know nothing of this process before it has an endpoint.
            self.shared.emulated = Some(Emulated::open(&config, Port::open(self.interface()?, emulated_base())?));
        }
        self.endpoints.get_mut(index)?.enable(config)?;
        self.list_event_queues();
        self.interface()?.settle()
    }

    fn list_event_queues(&mut self) {
        let emulated = self.shared.emulated.as_ref().map(Emulated::event_queue);
        self.event_queues = Some(self.endpoints.iter().flat_map(Endpoint::event_queues).chain(emulated).collect());
    }

    /// Runs an operation of an endpoint.
    pub fn with_endpoint<R>(&mut self, index: u32, work: impl FnOnce(&mut Endpoint, &mut Shared) -> Result<R, Errno>) -> Result<R, Errno> {
        let before = self.shared.news;
        let result = work(self.endpoints.get_mut(index)?, &mut self.shared);
        self.update_expectation();
        if self.shared.news != before {
            // What is over at once another thread may wait for: it looks for all of them.
            port::after_look(true);
        }
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
        if let Some(emulated) = self.shared.emulated.as_mut().filter(|emulated| emulated.event_queue() == queue) {
            let outcome = emulated.event(&self.domains, event);
            // A program may wait for its memory to change.
            self.shared.news += u64::from(outcome.changed);
            if let Some((piece, fail)) = outcome.ended {
                let shared = &mut self.shared;
                // The endpoint may have been closed since.
                let _told = self.endpoints.iter_mut().any(|endpoint| endpoint.one_sided_done(shared, piece, fail));
            }
            return;
        }
        // The endpoint may have been closed since.
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.event_queues().any(|one| one == queue)) {
            endpoint.event(&mut self.shared, queue, event);
        }
        self.update_expectation();
    }
}

/// What a look for events has found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Something for the program.
    News,
    /// Nothing.
    Nothing,
    /// Another thread is looking, and will hand over what comes.
    Busy,
}

/// Takes events until one is of interest to the program, or `ready` holds, or there is none.
/// `waiting` says how to look when nothing is left for the program to read.
fn take_events(waiting: Look, ready: impl Fn(&Shared) -> bool) -> Found {
    loop {
        let Some(_poller) = Poller::take() else { return Found::Busy };
        let (queues, unread) = {
            let mut state = state();
            if ready(&state.shared) {
                return Found::News;
            }
            (state.event_queues.clone(), state.shared.unread())
        };
        let Some(queues) = queues else { return Found::Nothing };
        let look = if waiting == Look::Poll && unread { Look::Check } else { waiting };
        let Some((queue, event)) = port::next_event(&queues, look) else { return Found::Nothing };
        let mut state = state();
        let before = state.shared.news;
        state.event(queue, &event);
        if state.shared.news != before {
            return Found::News;
        }
    }
}

/// Brings all endpoints into the state in which the order of earlier messages can have no more influence.
pub fn renew() {
    take_events(Look::Check, |_| false);
    let mut state = state();
    state.endpoints.iter_mut().for_each(Endpoint::renew);
    if let Some(emulated) = &state.shared.emulated {
        emulated.renew();
    }
}

/// The next entry of a completion queue. `poll`: looks for events when there is none.
///
/// Threads of the MPI library's own (MPICH's for asynchronous progress) find nothing. They poll beside a program's call
/// that may not have come to what it waits for, so they must not park the rank; and what they took could be what the
/// program's thread is about to wait for.
pub fn next_entry(cq: u32, poll: bool) -> Result<Option<Entry>, Errno> {
    if port::librarys_thread() {
        return Ok(None);
    }
    let first = {
        let mut state = state();
        let first = match state.shared.pop(cq, false) {
            Ok(first) => first,
            Err(error) => {
                port::after_look(true);
                return Err(error);
            }
        };
        // While a search is on its way, or a receive is being cancelled, the MPI library looks at nothing else.
        if first.is_none() && poll && !state.expecting && state.shared.cancelling.is_empty() && port::own_queue_empty() {
            return Ok(None);
        }
        // Most polls: nothing is here, and it is too early to wait.
        if first.is_none() && poll && !state.shared.unread() && port::idle_poll() {
            return Ok(None);
        }
        first
    };
    let entry = match first {
        None if poll => {
            take_events(Look::Poll, |shared| shared.cqs.get(cq).is_ok_and(|queue| !queue.is_empty()));
            state().shared.pop(cq, false)
        }
        other => Ok(other),
    };
    // The library is not to wait before it has seen to this.
    port::after_look(!matches!(entry, Ok(None)));
    let entry = entry?;
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
        port::after_look(false);
    }
    let mut state = state();
    let counter = state.shared.counters.get_mut(index)?;
    counter.seen = (counter.value, counter.errors);
    Ok(if errors { counter.errors } else { counter.value })
}

/// Waits until a counter reaches a value. A time that is given runs anew with every event. It is simulated time, unless
/// another thread is looking for events meanwhile: then it is real time.
pub fn wait_counter(index: u32, threshold: u64, timeout_ms: c_int) -> Result<(), Errno> {
    let errors = state().shared.counters.get(index)?.errors;
    let waiter = Waiter::new();
    loop {
        let seen = *Poller::given_up();
        let (value, failed) = state().shared.counters.get(index).map(|counter| (counter.value, counter.errors))?;
        if value >= threshold {
            return Ok(());
        }
        if failed != errors {
            return Err(fi::EAVAIL);
        }
        let over = match take_events(Look::Wait(c_long::from(timeout_ms)), |shared| {
            shared.counters.get(index).is_ok_and(|now| now.value >= threshold || now.errors != errors)
        }) {
            Found::News => false,
            Found::Nothing => true,
            Found::Busy => !waiter.wait(seen, u64::try_from(timeout_ms).ok().map(Duration::from_millis)),
        };
        if over {
            return Err(fi::ETIMEDOUT);
        }
    }
}
