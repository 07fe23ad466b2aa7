//! Clusters: tasks on their way to an HPU, and HPUs at work.

use super::commands::CommandKind;
use super::{Action, Event, Failure, Handler, Handlers, Machine, Out, Ran, beats, stage};
use crate::config::SpinConfig;
use crate::hpu::{Cache, Hpu, Memory, Stop, Told, map};
use crate::layout::Layout;
use crate::ring::Ring;
use std::collections::VecDeque;

/// Cycles of a handler that writes blocks to their places: fitted to `handlers/unpack.c`.
mod unpacking {
    /// To the first write, beside a search for its run.
    pub const BEGIN: u64 = 230;
    /// For each halving of the table.
    pub const SEARCH: u64 = 38;
    /// From a write to the next one of its run.
    pub const BLOCK: u64 = 16;
    /// To the first one of the next run, whose table is in L2.
    pub const RUN: u64 = 102;
    /// Once, if there is a second one.
    pub const LOOP: u64 = 13;
    /// From the last one to the end.
    pub const END: u64 = 10;
}

/// A handler that is to run, or runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub packet: u32,
    pub message: u64,
    pub context: u32,
    pub handler: Handler,
    /// Its feedback frees the packet in L2.
    pub pops: bool,
    pub cluster: u32,
    /// Its copy of the packet in L1.
    pub ring: u32,
    pub room: u64,
    pub place: u64,
    pub began: u64,
}

/// What moves data with two transfers under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Engine {
    slots: [u64; 2],
    path: u64,
}

impl Engine {
    /// The end of a transfer's last beat.
    pub(super) fn transfer(&mut self, now: u64, beats: u64) -> u64 {
        let slot = usize::from(self.slots[1] < self.slots[0]);
        self.path = now.max(self.slots[slot]).max(self.path) + beats;
        self.slots[slot] = self.path + stage::DMA_HOLD;
        self.path
    }
}

pub(super) struct Cluster {
    /// Tasks that it has: those that wait and those that run.
    pub tasks: u32,
    pub rings: Vec<Ring>,
    /// L1's memory for packets.
    packets: Vec<u8>,
    pub dma: Engine,
    cache: Cache,
    /// Tasks whose packet is in L1.
    moved: VecDeque<u32>,
    /// A bit of each idle HPU.
    idle: u64,
    /// When the last task was given to an HPU.
    dispatched: u64,
}

impl Cluster {
    pub(super) fn new(config: &SpinConfig) -> Cluster {
        let ring = config.l1_ring.0;
        Cluster {
            tasks: 0,
            rings: (0..config.l1_rings).map(|_| Ring::new(ring)).collect(),
            packets: vec![0; (ring * u64::from(config.l1_rings)) as usize],
            dma: Engine::default(),
            cache: Cache::new(),
            moved: VecDeque::new(),
            idle: u64::MAX >> (64 - config.hpus),
            dispatched: 0,
        }
    }
}

/// An HPU in the machine.
pub(super) struct Unit {
    pub hpu: Hpu,
    stack: Vec<u8>,
    /// What it runs.
    pub task: Option<u32>,
    /// What it has run, and whose commands are not done.
    pub previous: Option<u32>,
    /// Commands that are not done.
    pub outstanding: u32,
    /// What it stopped for.
    stop: Option<Stop>,
    /// It waits for a response.
    pub waits: bool,
    /// How far a handler is that is a function: steps, and bytes of its packet.
    step: u32,
    done: u32,
}

impl Unit {
    pub(super) fn new(config: &SpinConfig) -> Unit {
        let stack = vec![0; config.stack.0 as usize];
        Unit { hpu: Hpu::new(), stack, task: None, previous: None, outstanding: 0, stop: None, waits: false, step: 0, done: 0 }
    }
}

impl Machine {
    /// The home cluster of a message, or the least occupied one unless messages are pinned; with room for a packet.
    pub(super) fn cluster_for(&mut self, message: u64, bytes: u32) -> Option<(u32, u32, (u64, u64))> {
        let most = self.config.buffered + self.config.hpus;
        let home = (message % self.clusters.len() as u64) as u32;
        // Few clusters: asked in the order of their tasks without a list of it.
        let mut asked = if self.config.pinned { !(1 << home) } else { 0u32 };
        let mut next = Some(home);
        while let Some(number) = next {
            let cluster = &mut self.clusters[number as usize];
            if cluster.tasks < most {
                let room = cluster.rings.iter_mut().enumerate().find_map(|(ring, memory)| Some((ring as u32, memory.take(bytes.into())?)));
                if let Some((ring, room)) = room {
                    return Some((number, ring, room));
                }
            }
            asked |= 1 << number;
            next = (0..self.clusters.len() as u32)
                .filter(|other| asked >> other & 1 == 0)
                .min_by_key(|other| self.clusters[*other as usize].tasks);
        }
        None
    }

    /// A task is at its cluster one cycle later, and its packet comes by DMA.
    pub(super) fn assign(&mut self, task: Task, bytes: u32) {
        let cluster = &mut self.clusters[task.cluster as usize];
        cluster.tasks += 1;
        let moved = cluster.dma.transfer(self.now + stage::CLUSTER, beats(bytes)) + stage::DMA;
        let number = self.tasks.insert(task);
        self.schedule(moved, Event::Moved(number));
    }

    pub(super) fn moved(&mut self, number: u32) {
        let task = *self.tasks.at(number);
        let held = self.packets.at(task.packet);
        let cluster = &mut self.clusters[task.cluster as usize];
        let bytes = held.packet.bytes as usize;
        let copy = &mut cluster.packets[(u64::from(task.ring) * self.config.l1_ring.0 + task.place) as usize..][..bytes];
        if held.has_bytes {
            copy.copy_from_slice(&self.l2[held.place as usize..][..bytes])
        } else {
            copy.fill(0)
        }
        cluster.moved.push_back(number);
        self.dispatch(task.cluster);
    }

    pub(super) fn idle(&mut self, unit: u32) {
        let number = unit / self.config.hpus;
        self.clusters[number as usize].idle |= 1 << (unit % self.config.hpus);
        self.dispatch(number);
    }

    /// Tasks go to the lowest idle HPU in the order in which their packets came, one in a cycle. Those of pinned
    /// messages wait for theirs, and let others pass.
    fn dispatch(&mut self, number: u32) {
        let (pinned, hpus, clusters) = (self.config.pinned, self.config.hpus, self.config.clusters);
        let cluster = &mut self.clusters[number as usize];
        let tasks = &self.tasks;
        let own = |task: &u32| (tasks.at(*task).message / u64::from(clusters) % u64::from(hpus)) as u32;
        let (place, hpu) = match pinned {
            false if cluster.idle == 0 => return,
            false => (0, cluster.idle.trailing_zeros()),
            true => match cluster.moved.iter().map(own).enumerate().find(|(_, hpu)| cluster.idle >> hpu & 1 == 1) {
                Some(found) => found,
                None => return,
            },
        };
        let Some(task) = cluster.moved.remove(place) else { return };
        cluster.idle &= !(1 << hpu);
        cluster.dispatched = self.now.max(cluster.dispatched) + stage::DISPATCH;
        let (at, index) = (cluster.dispatched, number * self.config.hpus + hpu);
        let unit = &mut self.units[index as usize];
        (unit.task, unit.stop, unit.step, unit.done) = (Some(task), None, 0, 0);
        self.begin(index, at);
        self.schedule(at, Event::Run(index));
        self.dispatch(number);
    }

    /// Sets an HPU up for its task.
    fn begin(&mut self, index: u32, at: u64) {
        let unit = &mut self.units[index as usize];
        let Some(task) = unit.task.map(|number| self.tasks.at_mut(number)) else { return };
        task.began = at;
        let packet = self.packets.at(task.packet).packet;
        let context = &self.contexts[task.context as usize];
        let scratchpad = context.scratchpads.len() / self.clusters.len();
        let told = [
            map::PACKET,
            packet.bytes,
            packet.offset as u32,
            (packet.offset >> 32) as u32,
            task.message as u32,
            u32::from(packet.last),
            map::HANDLER,
            context.memory.len() as u32,
            map::SCRATCHPAD + task.cluster * map::SCRATCHPAD_STEP,
            scratchpad as u32,
            context.window as u32,
            (context.window >> 32) as u32,
            task.cluster,
            index % self.config.hpus,
            self.clusters.len() as u32,
            self.config.hpus,
        ];
        let entry = match &context.handlers {
            Handlers::Program(program) => program.entries[task.handler as usize].unwrap_or(0),
            Handlers::Cost(_) | Handlers::Unpack(_) => 0,
        };
        let time = at + if entry == 0 { 0 } else { stage::RUNTIME };
        unit.hpu.call(entry, Told(told), unit.stack.len() as u32, time, at + u64::from(self.config.budget));
    }

    /// An HPU goes on, up to what others must not see before its time.
    pub(super) fn run(&mut self, index: u32, until: u64, out: &mut impl Out) {
        loop {
            let unit = &mut self.units[index as usize];
            unit.hpu.time = unit.hpu.time.max(self.now);
            let stop = match unit.stop.take() {
                Some(stop) => stop,
                None => self.execute(index, until),
            };
            let unit = &mut self.units[index as usize];
            if unit.hpu.time > self.now {
                unit.stop = (stop != Stop::Shared).then_some(stop);
                let at = unit.hpu.time;
                self.schedule(at, Event::Run(index));
                return;
            }
            let goes_on = match stop {
                Stop::Shared => true,
                Stop::Wait(id) => !self.commands.is_busy(index, id),
                Stop::Start(kind) => match self.start(index, kind) {
                    Ok(started) => started,
                    Err(fault) => {
                        self.units[index as usize].stop = Some(Stop::Fault(fault));
                        true
                    }
                },
                Stop::Done | Stop::Fault(_) if unit.outstanding > 0 && unit.previous.is_some() => false,
                Stop::Done | Stop::Fault(_) => return self.end(index, stop, out),
            };
            if !goes_on {
                let unit = &mut self.units[index as usize];
                (unit.stop, unit.waits) = (Some(stop), true);
                return;
            }
        }
    }

    fn execute(&mut self, index: u32, until: u64) -> Stop {
        let horizon = self.events.peek().map_or(u64::MAX, |(at, _)| at).min(until + 1).max(self.now + 1);
        let unit = &mut self.units[index as usize];
        let Some(task) = unit.task.map(|number| self.tasks.at(number)) else { return Stop::Done };
        let packet = self.packets.at(task.packet).packet;
        let context = &mut self.contexts[task.context as usize];
        let clusters = self.clusters.len();
        let cluster = &mut self.clusters[task.cluster as usize];
        match &context.handlers {
            Handlers::Program(program) => {
                let scratchpad = context.scratchpads.len() / clusters;
                let place = (u64::from(task.ring) * self.config.l1_ring.0 + task.place) as usize;
                let mut memory = Memory {
                    packet: &mut cluster.packets[place..][..packet.bytes as usize],
                    stack: &mut unit.stack,
                    scratchpads: &mut context.scratchpads,
                    scratchpad,
                    cluster: task.cluster as usize,
                    handler: &mut context.memory,
                    text: &program.text,
                    code: &program.code,
                };
                unit.hpu.run(&mut memory, &mut cluster.cache, horizon)
            }
            Handlers::Cost(cost) => {
                unit.step += 1;
                match (unit.step, cost.action) {
                    (1, action) => {
                        unit.hpu.time += cost.cycles(packet.bytes);
                        unit.hpu.pass = action == Action::Pass;
                        Stop::Shared
                    }
                    (2, Action::SendBack) => Stop::Start(unit.order(CommandKind::Send, 0, 0, packet.bytes)),
                    (2, Action::CopyToHost) => Stop::Start(unit.order(CommandKind::Write, 0, packet.offset, packet.bytes)),
                    (2, Action::Fold) if packet.last => Stop::Start(unit.order(CommandKind::Write, 0, 0, packet.bytes)),
                    _ => Stop::Done,
                }
            }
            Handlers::Unpack(layout) => unit.unpack(layout, packet.offset, packet.bytes),
        }
    }

    /// The memory of the task that an HPU runs.
    pub(super) fn reach<T>(&mut self, index: u32, look: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        let unit = &mut self.units[index as usize];
        let task = self.tasks.at(unit.previous.or(unit.task)?);
        let packet = self.packets.at(task.packet).packet;
        let context = &mut self.contexts[task.context as usize];
        let clusters = self.clusters.len();
        let place = (u64::from(task.ring) * self.config.l1_ring.0 + task.place) as usize;
        let mut memory = Memory {
            packet: &mut self.clusters[task.cluster as usize].packets[place..][..packet.bytes as usize],
            stack: &mut unit.stack,
            scratchpad: context.scratchpads.len() / clusters,
            scratchpads: &mut context.scratchpads,
            cluster: task.cluster as usize,
            handler: &mut context.memory,
            text: &[],
            code: &[],
        };
        Some(look(&mut memory))
    }

    /// A handler is over.
    fn end(&mut self, index: u32, stop: Stop, out: &mut impl Out) {
        let at = self.time(self.now);
        let unit = &mut self.units[index as usize];
        let Some(number) = unit.task.take() else { return };
        let task = *self.tasks.at(number);
        let passes = unit.hpu.pass || matches!(stop, Stop::Fault(_));
        self.packets.at_mut(task.packet).passes |= passes;
        let pc = unit.hpu.pc();
        out.ran(&Ran { message: task.message, handler: task.handler, hpu: index, began: task.began, cycles: self.now - task.began });
        if unit.outstanding > 0 {
            unit.previous = Some(number);
        } else {
            self.schedule(self.now + stage::DOORBELL + stage::FEEDBACK, Event::Feedback(number));
        }
        self.schedule(self.now + stage::DOORBELL, Event::Idle(index));
        if let Stop::Fault(fault) = stop {
            self.fail(task.message);
            out.failed(at, &Failure { message: task.message, context: task.context, handler: task.handler, pc, fault });
        }
    }
}

impl Unit {
    /// Operands of a command on bytes of the packet: its number.
    fn order(&mut self, kind: CommandKind, from: u32, remote: u64, bytes: u32) -> u32 {
        self.hpu.operands = [map::PACKET + from, remote as u32, (remote >> 32) as u32, bytes, 0];
        kind as u32
    }

    /// The next step of a handler that writes the blocks of a packet to their places: the cycles before a write, and
    /// the write, in turn.
    fn unpack(&mut self, layout: &Layout, offset: u64, bytes: u32) -> Stop {
        let at = offset + u64::from(self.done);
        if self.done == bytes {
            if self.step.is_multiple_of(2) {
                self.step += 1;
                self.hpu.time += unpacking::END;
                return Stop::Shared;
            }
            return Stop::Done;
        }
        let piece = layout.piece(at, u64::from(bytes - self.done));
        self.step += 1;
        if self.step % 2 == 1 {
            self.hpu.time += if self.step == 3 { unpacking::LOOP } else { 0 };
            self.hpu.time += match (self.done, piece.inside) {
                (0, inside) => {
                    let divided = u64::BITS - at.leading_zeros() + 2 * (u64::BITS - inside.leading_zeros());
                    unpacking::BEGIN + unpacking::SEARCH * u64::from(layout.runs().ilog2()) + u64::from(divided)
                }
                (_, 0) => unpacking::RUN,
                _ => unpacking::BLOCK,
            };
            return Stop::Shared;
        }
        let order = self.order(CommandKind::Write, self.done, piece.place, piece.bytes as u32);
        self.done += piece.bytes as u32;
        Stop::Start(order)
    }
}
