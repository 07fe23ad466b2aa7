//! Which protocol, and its thresholds.

use crate::Registration;
use crate::bridge::Bridging;
use narrows_keys::choice;
use narrows_portals::ProcessId;
use narrows_units::Rail;
use std::sync::Arc;

choice! {
    /// How long messages travel.
    pub enum Rendezvous {
        /// The receiver fetches.
        Get = "get",
        /// The receiver answers, then the sender puts.
        Put = "put",
    }
}

/// How messages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// As Open MPI and MPICH do over a NIC that matches: eager messages find their receives by match bits, or wait in
    /// overflow blocks.
    Openmpi,
    /// As ParaStation's pscom4portals does: eager queues for each connection, copies on both sides, matching in
    /// software. Rendezvous is by put.
    Pscom(PscomConfig),
    /// As MPC does over several NICs: as [`Protocol::Openmpi`], but the data of long messages take all rails.
    Mpc(MpcConfig),
    /// As ExaNet-MPI does: as [`Protocol::Openmpi`] with [`Rendezvous::Put`], but the receiver's answer goes to the
    /// firmware of the sender's NIC, which starts the write whatever the sender's core does; and it names the buffer,
    /// so that the receiver's NIC is told nothing.
    Exanet,
}

impl Protocol {
    /// What a call costs is known when it is made, whatever the queues hold.
    pub fn counts_at_calls(self) -> bool {
        matches!(self, Protocol::Openmpi | Protocol::Exanet)
    }

    /// What a gateway must take in one put: injected messages are not cut, but for those of pieces.
    fn shortest_put(self, inject_limit: u64) -> u64 {
        if let Protocol::Pscom(_) = self { 1 } else { inject_limit.max(1) }
    }
}

/// How long messages are spread over rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpcConfig {
    /// Shortest message that is cut; shorter ones take one rail each, as `choice` says.
    pub minimum: u64,
    /// How they are cut.
    pub distribution: Distribution,
    /// Which rail a message that is not cut takes.
    pub choice: RailChoice,
    /// What the NICs have to be told of buffers.
    pub registration: Registration,
}

/// How a message is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Into fragments of so many bytes, the last one shorter, to the rails in turn from the first.
    Fragments(u64),
    /// Into equal parts, one for each rail.
    Even,
    /// Into parts as long as the rails are fast, one for each: they end together.
    Rates,
}

choice! {
    /// Which rail a message that is not cut takes.
    pub enum RailChoice {
        /// The next one.
        RoundRobin = "round-robin",
        /// That which would be through with it first: by its rate, and the bytes that this process has under way there.
        LeastLoaded = "least-loaded",
    }
}

/// The rails that all processes of a run have, in rising order; or with [`Rails::bridged`] those of one of its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rails {
    rails: Vec<Rail>,
    rates: Vec<u64>,
    minimums: Vec<u64>,
    bridging: Option<Arc<Bridging>>,
}

/// Those of the rails that take part in a message: a bit for each place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taking(u16);

impl Taking {
    /// The first one alone.
    pub(crate) const FIRST: Taking = Taking(1);

    pub(crate) fn count(self) -> u64 {
        self.0.count_ones().into()
    }

    pub(crate) fn has(self, place: usize) -> bool {
        self.0 >> place & 1 == 1
    }

    /// In rising order.
    pub(crate) fn places(self) -> impl Iterator<Item = usize> + Clone {
        (0..Rails::MAX).filter(move |&place| self.has(place))
    }
}

/// A rail: which, what it carries, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailConfig {
    /// Which.
    pub rail: Rail,
    /// How fast it is beside the others, in a unit that they share; at least 1, below 2^60.
    pub rate: u64,
    /// It has no part in messages that are shorter. The first rail has, whatever stands here.
    pub minimum: u64,
}

impl Rails {
    /// Most rails.
    pub const MAX: usize = 16;

    /// These, all of one rate.
    ///
    /// # Panics
    /// When there is none, or more than [`Rails::MAX`].
    pub fn new(rails: Vec<Rail>) -> Rails {
        Rails::of(rails.into_iter().map(|rail| RailConfig { rail, rate: 1, minimum: 0 }))
    }

    /// These.
    ///
    /// # Panics
    /// When there is none, more than [`Rails::MAX`], or a rate that cannot be.
    pub fn of(configs: impl IntoIterator<Item = RailConfig>) -> Rails {
        let (mut rails, mut rates, mut minimums) = (Vec::new(), Vec::new(), Vec::new());
        for RailConfig { rail, rate, minimum } in configs {
            assert!((1..1 << 60).contains(&rate), "a rail carries something");
            rails.push(rail);
            rates.push(rate);
            minimums.push(minimum);
        }
        assert!((1..=Rails::MAX).contains(&rails.len()), "there is a rail, and not too many");
        Rails { rails, rates, minimums, bridging: None }
    }

    /// Of a run with processes in several modules: each has the rails of its own.
    pub fn bridged(bridging: Bridging) -> Rails {
        let first = bridging.homes.first().copied().unwrap_or(Rail::FIRST);
        Rails { bridging: Some(Arc::new(bridging)), ..Rails::new(vec![first]) }
    }

    /// For who needs not know that there are other modules.
    pub(crate) fn hide_modules(&mut self) {
        self.bridging = None;
    }

    /// How its modules reach each other, if it has several.
    pub fn bridging(&self) -> Option<&Arc<Bridging>> {
        self.bridging.as_ref()
    }

    /// Processes beside the ranks, behind them by their numbers: the gateways.
    pub fn gateways(&self) -> Vec<ProcessId> {
        self.bridging.iter().flat_map(|bridging| bridging.places()).collect()
    }

    /// Those of a process.
    pub fn of_process(&self, process: ProcessId) -> Rails {
        match self.bridging.as_ref().and_then(|bridging| bridging.home(process)) {
            None => self.clone(),
            Some(home) => {
                let module = self.bridging.iter().flat_map(|bridging| &bridging.modules).find(|module| module.home() == home);
                let rails = module.map_or_else(|| Rails::new(vec![home]), |module| Rails::of(module.rails.iter().copied()));
                Rails { bridging: self.bridging.clone(), ..rails }
            }
        }
    }

    /// The first one of a process.
    pub fn first_of(&self, process: ProcessId) -> Rail {
        self.bridging.as_ref().and_then(|bridging| bridging.home(process)).unwrap_or(self.rails[0])
    }

    /// Where messages from one process to another pass a gateway: the most bytes of a put.
    #[inline]
    pub(crate) fn across(&self, one: ProcessId, other: ProcessId) -> Option<u64> {
        let bridging = self.bridging.as_ref()?;
        bridging.crosses(one, other).then_some(bridging.fragment)
    }

    /// That of short messages, of matching, and of what protocols say to each other.
    #[inline]
    pub fn first(&self) -> Rail {
        self.rails[0]
    }

    /// All of them.
    pub fn all(&self) -> &[Rail] {
        &self.rails
    }

    /// Their rates, in a unit of whoever made them.
    pub fn rates(&self) -> &[u64] {
        &self.rates
    }

    /// What each of them is.
    pub fn configs(&self) -> impl Iterator<Item = RailConfig> + '_ {
        self.rails.iter().enumerate().map(|(at, &rail)| RailConfig { rail, rate: self.rates[at], minimum: self.minimums[at] })
    }

    /// The shortest messages that they have a part in.
    pub fn minimums(&self) -> &[u64] {
        &self.minimums
    }

    /// Those that have a part in messages of this length.
    pub(crate) fn taking(&self, length: u64) -> Taking {
        let bits = self.minimums.iter().enumerate().map(|(at, &minimum)| u16::from(at == 0 || length >= minimum) << at);
        Taking(bits.sum())
    }

    /// Where the part of one of these begins if `length` bytes are shared out by rate; that of one behind the last is
    /// `length`.
    pub(crate) fn share(&self, taking: Taking, part: usize, length: u64) -> u64 {
        let rates = || taking.places().map(|place| u128::from(self.rates[place]));
        (u128::from(length) * rates().take(part).sum::<u128>() / rates().sum::<u128>()) as u64
    }

    /// Most bytes of which no part is longer than `longest`; at least one.
    pub(crate) fn shared(&self, taking: Taking, longest: u64) -> u64 {
        let rates = || taking.places().map(|place| u128::from(self.rates[place]));
        let fastest = rates().max().unwrap_or(1);
        // A part is rounded up by less than one.
        let most = u128::from(longest.saturating_sub(1)) * rates().sum::<u128>() / fastest;
        u64::try_from(most).unwrap_or(u64::MAX).max(1)
    }
}

impl Default for Rails {
    fn default() -> Self {
        Rails::new(vec![Rail::FIRST])
    }
}

/// What pscom4portals reads from the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PscomConfig {
    /// Bytes of an eager buffer.
    pub buffer: u64,
    /// Buffers to receive into, for each connection.
    pub receive_buffers: u32,
    /// Buffers to send from, for each connection: no more than to receive into. With more, pieces that come before
    /// their turn could fill the receive queue, and the one that they wait for would be dropped for ever.
    pub send_buffers: u32,
    /// Long messages that a connection receives at a time.
    pub rendezvous_requests: u32,
    /// Longest put of a long message, bytes.
    pub fragment: u64,
}

impl PscomConfig {
    /// Most buffers of a queue: sequence numbers tell pieces of two queues apart.
    pub const QUEUE_MAX: u32 = 1024;
    /// Longest eager message, bytes: its length has 20 bits on the wire.
    pub const EAGER_MAX: u64 = (1 << 20) - 1;
}

/// Protocol thresholds, from the machine file. All processes of a run have the same.
#[derive(Clone, Debug)]
pub struct MessageConfig {
    /// How messages move.
    pub protocol: Protocol,
    /// Between all processes of the run.
    pub rails: Rails,
    /// Longest eager message, bytes.
    pub eager_limit: u64,
    /// Longest message that is copied when it is sent, so that its buffer is free when the call returns, bytes
    /// (libfabric's inject_size).
    pub inject_limit: u64,
    /// Protocol beyond `eager_limit`.
    pub rendezvous: Rendezvous,
    /// Bytes of one overflow block.
    pub overflow_block: u64,
    /// Overflow blocks that are kept posted, for each of the two queues.
    pub overflow_blocks: u32,
    /// Longest put or get; longer rendezvous messages are cut (BXI: 64 MiB).
    pub max_portals_message: u64,
}

impl MessageConfig {
    /// Whether the thresholds fit together.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with both numbers.
    pub fn check(&self) -> Result<(), ConfigError> {
        let MessageConfig { eager_limit, inject_limit, overflow_block, overflow_blocks, max_portals_message, .. } = *self;
        if inject_limit > eager_limit {
            return Err(ConfigError::InjectAboveEager { inject_limit, eager_limit });
        }
        if eager_limit > max_portals_message || max_portals_message == 0 {
            return Err(ConfigError::EagerAbovePortals { eager_limit, max_portals_message });
        }
        if let Some(bridging) = self.rails.bridging()
            && (bridging.fragment < self.protocol.shortest_put(inject_limit) || bridging.buffers == 0 || self.protocol == Protocol::Exanet)
        {
            return Err(ConfigError::Bridged);
        }
        if let Protocol::Pscom(pscom) = self.protocol {
            let queue = 1..=PscomConfig::QUEUE_MAX;
            let fits = eager_limit <= PscomConfig::EAGER_MAX
                && queue.contains(&pscom.receive_buffers)
                && pscom.send_buffers <= pscom.receive_buffers
                && queue.contains(&pscom.send_buffers)
                && pscom.buffer > 0
                && pscom.fragment > 0
                && pscom.rendezvous_requests > 0;
            return if fits { Ok(()) } else { Err(ConfigError::Queues) };
        }
        if let Protocol::Mpc(MpcConfig { distribution: Distribution::Fragments(0), .. }) = self.protocol {
            return Err(ConfigError::Fragment);
        }
        if overflow_block < eager_limit.max(1) || overflow_blocks == 0 {
            return Err(ConfigError::NoRoomForUnexpected { overflow_blocks, overflow_block, eager_limit });
        }
        Ok(())
    }
}

/// A [`MessageConfig`] whose thresholds contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An injected message must be eager.
    #[error("the inject limit ({inject_limit} B) must not exceed the eager limit ({eager_limit} B)")]
    InjectAboveEager {
        /// As configured, bytes.
        inject_limit: u64,
        /// As configured, bytes.
        eager_limit: u64,
    },
    /// An eager message is one put.
    #[error(
        "the eager limit ({eager_limit} B) must not exceed the longest Portals message ({max_portals_message} B), which must not be zero"
    )]
    EagerAbovePortals {
        /// As configured, bytes.
        eager_limit: u64,
        /// As configured, bytes.
        max_portals_message: u64,
    },
    /// Nothing can be zero, and numbers on the wire have limits.
    #[error(
        "the queues of pscom need 1 to {} buffers, no more to send from than to receive into, requests and fragments of at least one, and eager messages up to {} B",
        PscomConfig::QUEUE_MAX,
        PscomConfig::EAGER_MAX
    )]
    Queues,
    /// Gateways pass puts, and what protocols say by them.
    #[error(
        "gateways pass messages of all protocols but exanet, in fragments that take the longest injected one, and have at least one buffer"
    )]
    Bridged,
    /// A fragment has bytes.
    #[error("a fragment must have at least one byte")]
    Fragment,
    /// Each overflow block must take an eager message.
    #[error("{overflow_blocks} overflow blocks of {overflow_block} B cannot take an eager message of {eager_limit} B")]
    NoRoomForUnexpected {
        /// As configured.
        overflow_blocks: u32,
        /// As configured, bytes.
        overflow_block: u64,
        /// As configured, bytes.
        eager_limit: u64,
    },
}
