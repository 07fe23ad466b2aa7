//! Where commands go: to the simulator through `narrows-guest`, or, in tests, to a NIC inside the
//! process (feature `loopback`).

use narrows_output::say;
use std::sync::Once;

use narrows_guest::Waited;
use narrows_message::Call;
use narrows_portals::{Command, CtId, EqId, Event, NiLimits, ProcessId, ReplyCode};
use narrows_units::{Bytes, SimTime};

/// What the library needs to know of the machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest eager message, bytes.
    pub eager_limit: u64,
    /// Longest message whose buffer is free when the call returns, bytes.
    pub inject_limit: u64,
    /// Long messages travel by put instead of get.
    pub rendezvous_put: bool,
    /// One-sided operations of libfabric go as messages.
    pub one_sided_messages: bool,
    /// Bytes of a block for unexpected messages.
    pub overflow_block: u64,
    /// Such blocks that are kept posted.
    pub overflow_blocks: u32,
    /// Longest put or get, bytes.
    pub max_portals_message: u64,
    /// Longest put whose data travel with the command, bytes.
    pub pio_limit: u64,
    /// What a network interface may have.
    pub interface: NiLimits,
}

/// What the library asks of the rank that it lives in. The methods are those of
/// `narrows_guest::Rank`; blocking ones wait in simulated time.
pub trait Nic {
    /// Node and number of this process.
    fn id(&self) -> ProcessId;
    /// Thresholds and limits of the machine file.
    fn limits(&self) -> Limits;
    /// The MPI library has an endpoint: its messages go through the simulated network.
    fn endpoint_open(&mut self);
    /// The program has called PtlInit.
    fn program_starts(&mut self) {}
    /// It has called PtlInit so often without PtlFini.
    fn initialised(&mut self, _times: u32) {}
    /// What waits is not ended by an earlier `PtlAbort`.
    fn resume(&mut self) {}
    /// Hands a command to the NIC.
    fn submit(&mut self, command: Command);
    /// Calls the endpoint of the message layer with this event queue; the data, if their buffer is free at once.
    fn call(&mut self, eq: EqId, call: Call, payload: Option<Box<[u8]>>);
    /// A number for a command that is answered.
    fn ticket(&mut self) -> u32;
    /// Waits for that answer: the result, and what a query asked for.
    fn wait_reply(&mut self, ticket: u32) -> (ReplyCode, u64);
    /// The next event of these queues, or an empty poll.
    fn eq_get(&mut self, eqs: &[EqId]) -> Option<(usize, Event)>;
    /// The process's clock.
    fn now(&self) -> SimTime;
    /// The next event of these queues, until the clock is `until`.
    fn eq_wait(&mut self, eqs: &[EqId], until: Option<SimTime>) -> Waited<(usize, Event)>;
    /// Events of this queue were lost since the last call.
    fn eq_dropped(&mut self, eq: EqId) -> bool;
    /// Successes and failures.
    fn count(&mut self, ct: CtId) -> (u64, u64);
    /// As `count`; an empty poll if successes and failures do not reach `test`.
    fn count_poll(&mut self, ct: CtId, test: u64) -> (u64, u64);
    /// Which of these counting events has reached its value, until the clock is `until`.
    fn count_wait(&mut self, tests: &[(CtId, u64)], until: Option<SimTime>) -> Waited<usize>;
    /// An answer is on its way: empty polls wait for it.
    fn expect_soon(&mut self, yes: bool);
    /// Time for a copy.
    fn charge_copy(&mut self, bytes: u64);
    /// Time for handing out a completion.
    fn charge_completion(&mut self);
}

// Each method forwards to the inherent one of the same name; without that one it would call itself.
#[deny(unconditional_recursion)]
impl Nic for narrows_guest::Rank {
    fn id(&self) -> ProcessId {
        self.id()
    }
    fn limits(&self) -> Limits {
        let settings = self.settings();
        // Data that must be taken at once travel in the command, so no limit may exceed its room.
        let room = self.inline_payload() as u64;
        let offered = settings.limits;
        Limits {
            eager_limit: settings.eager_limit,
            inject_limit: settings.inject_limit.min(room),
            rendezvous_put: settings.rendezvous_put != 0,
            one_sided_messages: settings.one_sided_messages != 0,
            overflow_block: settings.overflow_block,
            overflow_blocks: settings.overflow_blocks,
            max_portals_message: settings.max_portals_message,
            pio_limit: u64::from(settings.pio_limit).min(room),
            // The data of short ones travel in the command.
            interface: NiLimits {
                max_atomic_size: offered.max_atomic_size.min(Bytes(room)),
                max_fetch_atomic_size: offered.max_fetch_atomic_size.min(Bytes(room)),
                ..offered
            },
        }
    }
    fn endpoint_open(&mut self) {
        self.endpoint_open();
    }
    fn program_starts(&mut self) {
        self.program_starts();
    }
    fn initialised(&mut self, times: u32) {
        self.initialised(times);
    }
    fn resume(&mut self) {
        self.resume();
    }
    fn submit(&mut self, command: Command) {
        self.submit(command);
    }
    fn call(&mut self, eq: EqId, call: Call, payload: Option<Box<[u8]>>) {
        self.call(eq, call, payload);
    }
    fn ticket(&mut self) -> u32 {
        self.ticket()
    }
    fn wait_reply(&mut self, ticket: u32) -> (ReplyCode, u64) {
        self.wait_reply(ticket)
    }
    fn eq_get(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        self.eq_get(eqs)
    }
    fn now(&self) -> SimTime {
        self.now()
    }
    fn eq_wait(&mut self, eqs: &[EqId], until: Option<SimTime>) -> Waited<(usize, Event)> {
        self.eq_wait(eqs, until)
    }
    fn eq_dropped(&mut self, eq: EqId) -> bool {
        self.eq_dropped(eq)
    }
    fn count(&mut self, ct: CtId) -> (u64, u64) {
        self.count(ct)
    }
    fn count_poll(&mut self, ct: CtId, test: u64) -> (u64, u64) {
        self.count_poll(ct, test)
    }
    fn count_wait(&mut self, tests: &[(CtId, u64)], until: Option<SimTime>) -> Waited<usize> {
        self.count_wait(tests, until)
    }
    fn expect_soon(&mut self, yes: bool) {
        self.expect_soon(yes);
    }
    fn charge_copy(&mut self, bytes: u64) {
        self.charge_copy(bytes);
    }
    fn charge_completion(&mut self) {
        self.charge_completion();
    }
}

/// This process belongs to no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAttached;

/// Runs `work` with the process's NIC. The first call attaches to the simulator; if that fails the
/// reason goes to standard error, once.
pub fn with_nic<R>(work: impl FnOnce(&mut dyn Nic) -> R) -> Result<R, NotAttached> {
    #[cfg(feature = "loopback")]
    if let Some(mut nic) = crate::loopback::installed() {
        return Ok(work(&mut *nic));
    }
    match narrows_guest::session() {
        Ok(mut session) => {
            session.library_entered();
            let result = work(&mut *session);
            session.library_left();
            Ok(result)
        }
        Err(error) => {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| say!("{error}"));
            Err(NotAttached)
        }
    }
}
