//! Commands of handlers: sends, writes to the host and reads from it, copies between L1 and L2.

use super::{Event, Machine, Out, beats, stage};
use crate::config::SpinConfig;
use crate::hpu::Fault;
use std::collections::VecDeque;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A packet goes to the network.
    Send,
    /// Data go to the host by DMA.
    Write,
    /// Data come from the host by DMA.
    Read,
    /// Eight bytes go to the host, without DMA.
    Direct,
    /// Data go from one memory of the context to another by the cluster's DMA.
    Copy,
}

impl CommandKind {
    const ALL: [CommandKind; 5] = [CommandKind::Send, CommandKind::Write, CommandKind::Read, CommandKind::Direct, CommandKind::Copy];

    /// Reads and writes share the DMA with the host.
    fn interface(self) -> Option<usize> {
        match self {
            CommandKind::Send => Some(0),
            CommandKind::Write | CommandKind::Read => Some(1),
            CommandKind::Direct => Some(2),
            CommandKind::Copy => None,
        }
    }
}

/// A command of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it does.
    pub kind: CommandKind,
    /// The message of the handler's packet.
    pub message: u64,
    /// The context.
    pub context: u32,
    /// The HPU.
    pub hpu: u32,
    /// Where in the host's window.
    pub remote: u64,
    /// How many bytes.
    pub bytes: u32,
}

/// Cycles of commands without load: PsPIN's hardware description, run cycle by cycle (docs/spin.md).
mod cycles {
    /// To the interface.
    pub const ISSUE: u64 = 2;
    /// A send, beside its beats.
    pub const SEND: u64 = 1;
    /// Sends under way: fitted, with [`SEND_HOLD`], to 104 and 288 Gbit/s of ping-pong with 64 and 256 bytes on 8 HPUs.
    pub const SENDS: u32 = 2;
    /// For so long, beside its beats, a send keeps its place.
    pub const SEND_HOLD: u64 = 10;
    /// DMA to the host, beside its beats.
    pub const WRITE: u64 = 14;
    /// DMA from the host, beside its beats.
    pub const READ: u64 = 15;
    /// A beat of a read: 261 to 265 Gbit/s were measured with 8 HPUs.
    pub const READ_BEAT: u64 = 2;
    /// Eight bytes to the host.
    pub const DIRECT: u64 = 5;
    /// From the interface back to the cluster.
    pub const RESPONSE: u64 = 2;
}

/// So many at a time; the others wait in their order.
struct Limit {
    free: u32,
    waiting: VecDeque<u32>,
}

impl Limit {
    fn new(free: u32) -> Limit {
        Limit { free, waiting: VecDeque::new() }
    }

    /// Takes a place, or a number in the queue.
    fn take(&mut self, flight: u32) -> bool {
        if self.free == 0 {
            self.waiting.push_back(flight);
            return false;
        }
        self.free -= 1;
        true
    }

    /// Gives it back: who has it now.
    fn give(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        self.free += u32::from(next.is_none());
        next
    }
}

struct Flight {
    busy: bool,
    command: Command,
    local: u32,
    data: Vec<u8>,
}

pub(super) struct Commands {
    /// Those of each HPU, by their ids.
    flights: Vec<Flight>,
    each: u32,
    interfaces: [Limit; 3],
    sends: Limit,
    reads: Limit,
    /// When the way to the network, to the host and from the host has its next beat free.
    paths: [u64; 3],
}

impl Commands {
    pub(super) fn new(config: &SpinConfig) -> Commands {
        let command = Command { kind: CommandKind::Send, message: 0, context: 0, hpu: 0, remote: 0, bytes: 0 };
        let count = config.all_hpus() * config.commands;
        Commands {
            flights: (0..count).map(|_| Flight { busy: false, command, local: 0, data: Vec::new() }).collect(),
            each: config.commands,
            interfaces: [0; 3].map(|_| Limit::new(config.in_flight)),
            sends: Limit::new(cycles::SENDS),
            reads: Limit::new(config.reads),
            paths: [0; 3],
        }
    }

    pub(super) fn is_busy(&self, unit: u32, id: u32) -> bool {
        id < self.each && self.flights[(unit * self.each + id) as usize].busy
    }
}

impl Machine {
    /// An HPU starts a command: false, if it must wait.
    pub(super) fn start(&mut self, unit: u32, kind: u32) -> Result<bool, Fault> {
        let hpu = &self.units[unit as usize];
        let Some(task) = hpu.task.map(|task| *self.tasks.at(task)) else { return Ok(true) };
        let [local, low, high, bytes, data_high] = hpu.hpu.operands;
        let wrong = Fault::Command { kind, local, bytes };
        let kind = *CommandKind::ALL.get(kind as usize).ok_or(wrong)?;
        let bytes = if kind == CommandKind::Direct { 8 } else { bytes };
        let remote = u64::from(low) | u64::from(high) << 32;
        let window = self.contexts[task.context as usize].window;
        let outside = remote.checked_add(bytes.into()).is_none_or(|end| end > window);
        let most = self.config.packet.0;
        let allowed = match kind {
            CommandKind::Send => u64::from(bytes) <= most,
            CommandKind::Copy => true,
            _ => !outside,
        };
        if !allowed {
            return Err(wrong);
        }
        if hpu.previous.is_some() {
            return Ok(false);
        }
        let first = unit * self.commands.each;
        let Some(id) = (0..self.commands.each).find(|id| !self.commands.flights[(first + id) as usize].busy) else { return Ok(false) };
        let flight = first + id;
        let mut data = std::mem::take(&mut self.commands.flights[flight as usize].data);
        data.clear();
        let found = match kind {
            CommandKind::Direct => {
                data.extend([hpu.hpu.operands[3], data_high].map(u32::to_le_bytes).as_flattened());
                Some(true)
            }
            _ => self.reach(unit, |memory| {
                let source = if kind == CommandKind::Copy { low } else { local };
                let target = kind == CommandKind::Send || kind == CommandKind::Write || memory.range(local, bytes).is_some();
                memory.range(source, bytes).map(|source| data.extend_from_slice(source)).is_some() && target
            }),
        };
        if found != Some(true) {
            return Err(wrong);
        }
        let command = Command { kind, message: task.message, context: task.context, hpu: unit, remote, bytes };
        self.commands.flights[flight as usize] = Flight { busy: true, command, local, data };
        let hpu = &mut self.units[unit as usize];
        hpu.hpu.last = id;
        hpu.outstanding += 1;
        self.schedule(self.now + cycles::ISSUE, Event::Issued(flight));
        Ok(true)
    }

    pub(super) fn issued(&mut self, flight: u32, out: &mut impl Out) {
        let command = self.commands.flights[flight as usize].command;
        match command.kind.interface() {
            Some(interface) => {
                if self.commands.interfaces[interface].take(flight) {
                    self.enter(flight, out);
                }
            }
            None => {
                let cluster = &mut self.clusters[(command.hpu / self.config.hpus) as usize];
                let done = cluster.dma.transfer(self.now, beats(command.bytes)) + stage::DMA;
                self.schedule(done, Event::Finished(flight));
            }
        }
    }

    /// A command has its place at the interface.
    fn enter(&mut self, flight: u32, out: &mut impl Out) {
        let may = match self.commands.flights[flight as usize].command.kind {
            CommandKind::Send => self.commands.sends.take(flight),
            CommandKind::Read => self.commands.reads.take(flight),
            _ => true,
        };
        if may {
            self.carry_out(flight, out);
        }
    }

    fn carry_out(&mut self, flight: u32, out: &mut impl Out) {
        let now = self.time(self.now);
        let Flight { command, data, .. } = &mut self.commands.flights[flight as usize];
        let extra = out.command(now, command, data).0.div_ceil(self.config.cycle.0);
        let beats = beats(command.bytes);
        let mut along = |path: usize, beat: u64| {
            let start = self.commands.paths[path].max(self.now);
            self.commands.paths[path] = start + beats * beat;
            start
        };
        let done = match command.kind {
            CommandKind::Send => {
                let beat = u64::from(self.config.beat_out);
                along(0, beat) + beats * beat + cycles::SEND
            }
            CommandKind::Read => along(2, cycles::READ_BEAT) + beats + cycles::READ,
            CommandKind::Direct => self.now + cycles::DIRECT,
            _ => along(1, 1) + beats + cycles::WRITE,
        };
        self.schedule(done + extra, Event::Finished(flight));
    }

    pub(super) fn finished(&mut self, flight: u32, out: &mut impl Out) {
        let Flight { command, local, data, .. } = &mut self.commands.flights[flight as usize];
        let (command, local) = (*command, *local);
        if matches!(command.kind, CommandKind::Read | CommandKind::Copy) {
            let data = std::mem::take(data);
            self.reach(command.hpu, |memory| {
                if let Some(target) = memory.range(local, command.bytes) {
                    target.copy_from_slice(&data);
                }
            });
            self.commands.flights[flight as usize].data = data;
        }
        self.schedule(self.now + cycles::RESPONSE, Event::Response(flight));
        match command.kind {
            CommandKind::Send => self.schedule(self.now + cycles::SEND_HOLD - cycles::SEND, Event::SlotFree(flight)),
            CommandKind::Read => {
                if let Some(next) = self.commands.reads.give() {
                    self.carry_out(next, out);
                }
            }
            _ => {}
        }
        if let Some(next) = command.kind.interface().and_then(|interface| self.commands.interfaces[interface].give()) {
            self.enter(next, out);
        }
    }

    pub(super) fn slot_free(&mut self, out: &mut impl Out) {
        if let Some(next) = self.commands.sends.give() {
            self.carry_out(next, out);
        }
    }

    /// The HPU hears that a command is done.
    pub(super) fn response(&mut self, flight: u32) {
        self.commands.flights[flight as usize].busy = false;
        let index = flight / self.commands.each;
        let unit = &mut self.units[index as usize];
        unit.outstanding -= 1;
        let feedback = if unit.outstanding == 0 { unit.previous.take() } else { None };
        if std::mem::take(&mut unit.waits) {
            self.schedule(self.now, Event::Run(index));
        }
        if let Some(task) = feedback {
            self.schedule(self.now + stage::FEEDBACK, Event::Feedback(task));
        }
    }
}
