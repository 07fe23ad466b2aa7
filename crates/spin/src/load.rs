//! Packets of one size at a rate through a machine of one context, and what became of them.

use crate::machine::{Command, CommandKind, Context, Failure, Handler, Handlers, Machine, Out, Packet, Ran, SpinError};
use crate::ring::SLOT;
use crate::{Refused, SpinConfig};
use narrows_engine::stream;
use narrows_units::{ByteRate, Bytes, SimTime};

/// What is offered to a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Length of a packet.
    pub packet: Bytes,
    /// How many packets.
    pub packets: u64,
    /// Messages under way at a time, whose packets take turns.
    pub messages: u64,
    /// What arrives; none: as much as the way in takes.
    pub rate: Option<ByteRate>,
    /// What the host's bus takes beside the machine, for a command.
    pub bus: SimTime,
    /// The window of the host that handlers write to and read.
    pub window: Bytes,
    /// A context's scratchpad in each cluster.
    pub scratchpad: Bytes,
    /// Of the packets' contents.
    pub seed: u64,
}

/// What became of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When each packet arrived, in its order of being freed, and when it was freed.
    pub packets: Vec<(SimTime, SimTime)>,
    /// Those that went on to the host.
    pub passed: u64,
    /// Length of one.
    pub bytes: u64,
    /// Cycles of each payload handler, in the order of their ends.
    pub cycles: Vec<u64>,
    /// Commands by [`CommandKind`].
    pub commands: [u64; 5],
    /// The first handler that went wrong.
    pub failure: Option<Failure>,
    /// How many did.
    pub failures: u64,
    /// Instructions of all HPUs.
    pub instructions: u64,
}

impl Load {
    /// As many packets of this length as a steady state needs, as fast as they come in, in 16 messages at a time.
    pub fn new(packet: Bytes) -> Load {
        let sizes = (Bytes(1 << 30), Bytes(64 << 10));
        Load { packet, packets: 4096, messages: 16, rate: None, bus: SimTime::ZERO, window: sizes.0, scratchpad: sizes.1, seed: 1 }
    }

    /// Sends it through a machine, for as long as `goes_on` says so.
    ///
    /// # Errors
    /// The machine cannot be, or has no room for the context; a function takes too long; it was interrupted.
    pub fn run(&self, config: &SpinConfig, handlers: &Handlers, goes_on: impl Fn() -> bool) -> Result<Outcome, SpinError> {
        let interrupted = || if goes_on() { Ok(()) } else { Err(SpinError::Interrupted) };
        let mut machine = Machine::new(config.clone())?;
        if self.packet > config.packet {
            return Err(SpinError::Packet { packet: self.packet, what: "the longest packet", size: config.packet });
        }
        let memory = Bytes(64 << 10);
        let context =
            machine.add_context(Context { handlers: handlers.clone(), memory, scratchpad: self.scratchpad, window: self.window })?;
        let mut random = stream(self.seed, "spin", 0);
        let mut contents = vec![0; self.packet.0 as usize];
        let messages = self.messages.clamp(1, self.packets.max(1));
        let wire = config.cycle * (self.packet.0.div_ceil(SLOT).max(1) * u64::from(config.beat_in));
        let gap = self.rate.map_or(wire, |rate| rate.time_for(self.packet).max(wire));
        let mut out = Observed { outcome: Outcome { bytes: self.packet.0, ..Outcome::default() }, bus: self.bus, ready: None };
        let mut at = SimTime::ZERO;
        for number in 0..self.packets {
            contents.iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
            let last = number + messages >= self.packets;
            let (message, offset) = (number % messages, number / messages * self.packet.0);
            let mut packet = Packet { message, context, offset, bytes: self.packet.0 as u32, last, tag: at.0 };
            loop {
                interrupted()?;
                machine.advance(at, &mut out);
                packet.tag = at.0;
                if machine.offer(at, packet, Some(&contents)) != Err(Refused::Full) {
                    break;
                }
                out.ready = None;
                while out.ready.is_none() {
                    let Some(next) = machine.next_time() else { break };
                    interrupted()?;
                    machine.advance(next, &mut out);
                }
                at = out.ready.unwrap_or(at).max(at);
            }
            at += gap;
        }
        while let Some(next) = machine.next_time() {
            interrupted()?;
            machine.advance(next, &mut out);
        }
        out.outcome.instructions = machine.instructions();
        Ok(out.outcome)
    }
}

/// A network and a host that take everything.
struct Observed {
    outcome: Outcome,
    bus: SimTime,
    ready: Option<SimTime>,
}

impl Out for Observed {
    fn freed(&mut self, at: SimTime, packet: &Packet, passes: bool) {
        self.outcome.packets.push((SimTime(packet.tag), at));
        self.outcome.passed += u64::from(passes);
    }

    fn command(&mut self, _: SimTime, command: &Command, data: &mut [u8]) -> SimTime {
        self.outcome.commands[command.kind as usize] += 1;
        if command.kind == CommandKind::Read {
            data.fill(0xa5);
        }
        if command.kind == CommandKind::Send { SimTime::ZERO } else { self.bus }
    }

    fn ready(&mut self, at: SimTime) {
        self.ready = Some(at);
    }

    fn failed(&mut self, _: SimTime, failure: &Failure) {
        self.outcome.failure.get_or_insert(*failure);
        self.outcome.failures += 1;
    }

    fn ran(&mut self, ran: &Ran) {
        if ran.handler == Handler::Payload {
            self.outcome.cycles.push(ran.cycles);
        }
    }
}

impl Outcome {
    /// Bits per second of the middle half of the packets.
    pub fn throughput(&self) -> f64 {
        let count = self.packets.len();
        let (from, to) = (count / 4, count * 3 / 4);
        if to <= from {
            return 0.0;
        }
        let time = self.packets[to].1.saturating_sub(self.packets[from].1);
        (to - from) as f64 * self.bytes as f64 * 8.0 / time.as_s_f64()
    }

    /// From a packet's arrival until it is freed: the mean.
    pub fn latency_ns(&self) -> f64 {
        let sum: f64 = self.packets.iter().map(|(arrived, freed)| freed.saturating_sub(*arrived).as_ns_f64()).sum();
        sum / (self.packets.len() as f64).max(1.0)
    }

    /// Cycles of a payload handler: the mean of the second half, when caches are warm.
    pub fn mean_cycles(&self) -> f64 {
        let warm = &self.cycles[self.cycles.len() / 2..];
        warm.iter().sum::<u64>() as f64 / (warm.len() as f64).max(1.0)
    }
}
