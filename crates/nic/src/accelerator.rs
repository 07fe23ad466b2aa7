//! ExaNeSt's allreduce accelerator: a client module at each node, a server module at the first node of each board.
//!
//! A client is started by its process for a block of at most 256 B, reads it and gives it to its board's server. The
//! server's engine takes one vector after the other; when it has those of all of its clients it goes through the steps
//! of its [plan](narrows_portals::offload) with the servers of other boards, and then gives the result to its clients,
//! which write it to memory and tell their process.

use std::collections::{BTreeMap, VecDeque};

use narrows_portals::offload::{Allreduce, Step, Takes};
use narrows_portals::{AtomicOperation, Datatype, Place, Process};
use narrows_units::{ByteRate, Bytes, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::out::{Memory, PayloadId};
use crate::pipeline::Server;

/// A block of a process, with the ports of all that its plan names.
#[derive(Clone, Debug)]
pub struct Block {
    /// The process.
    pub process: Process,
    /// What it asks for.
    pub allreduce: Box<Allreduce>,
    /// Of the board, the server's first.
    pub clients: Vec<PortId>,
    /// Of each step.
    pub peers: Vec<PortId>,
}

/// The group of an allreduce, and the number of its block.
type Key = (u64, u64);

/// Where a vector goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Direction {
    /// From a client to its server.
    Up,
    /// From server to server.
    Across,
    /// From a server to its client.
    Down,
}

/// A vector on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Vector {
    from: PortId,
    key: Key,
    way: Direction,
    value: Value,
}

/// The bytes of a vector.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Value {
    payload: PayloadId,
    length: u32,
}

impl Value {
    fn copy(self, memory: &mut impl Memory) -> Value {
        Value { payload: memory.duplicate(self.payload), ..self }
    }

    /// Members that give vectors of different lengths get the shortest.
    fn fold(&mut self, other: Value, plan: &Plan, memory: &mut impl Memory) {
        memory.fold(self.payload, other.payload, plan.operation, plan.datatype);
        memory.release(other.payload);
        self.length = self.length.min(other.length);
    }
}

/// What the modules want done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A vector leaves; its bytes are read from memory first, or written to it.
    Send { to: PortId, vector: Vector },
    /// The process is told.
    Tell { process: Process, ticket: u32 },
}

impl Vector {
    pub(crate) fn is_from(&self, port: PortId) -> bool {
        self.from == port
    }

    pub(crate) fn length(&self) -> Bytes {
        Bytes(u64::from(self.value.length))
    }

    /// It is read from the memory of a process.
    pub(crate) fn is_read(&self) -> bool {
        self.way == Direction::Up
    }

    /// It is written to the memory of a process.
    pub(crate) fn is_written(&self) -> bool {
        self.way == Direction::Down
    }
}

/// A block that a client waits for.
#[derive(Debug)]
struct Pending {
    process: Process,
    target: Place,
    length: u32,
    ticket: u32,
}

/// What a server does with a block.
#[derive(Debug)]
struct Plan {
    clients: Vec<PortId>,
    steps: Vec<(PortId, Step)>,
    operation: AtomicOperation,
    datatype: Datatype,
}

/// A block at a server. Vectors may be there before its own client has said what is to be done.
#[derive(Debug, Default)]
struct Round {
    plan: Option<Plan>,
    up: BTreeMap<PortId, Value>,
    across: BTreeMap<PortId, Value>,
    value: Option<Value>,
    step: usize,
    sent: bool,
}

/// Both modules of a node.
#[derive(Debug)]
pub(crate) struct Accelerator {
    port: PortId,
    start: SimTime,
    rate: ByteRate,
    client: Server,
    starting: VecDeque<Block>,
    pending: BTreeMap<Key, Pending>,
    engine: Server,
    coming: VecDeque<Vector>,
    rounds: BTreeMap<Key, Round>,
}

impl Accelerator {
    pub fn new(port: PortId, start: SimTime, rate: ByteRate) -> Accelerator {
        Accelerator {
            port,
            start,
            rate,
            client: Server::default(),
            starting: VecDeque::new(),
            pending: BTreeMap::new(),
            engine: Server::default(),
            coming: VecDeque::new(),
            rounds: BTreeMap::new(),
        }
    }

    /// A process starts its client with a block, which is here at `at`; when the client has begun ([`Self::begin`]).
    pub fn command(&mut self, at: SimTime, block: Block) -> SimTime {
        self.starting.push_back(block);
        self.client.end(at, self.start)
    }

    /// The client reads the next block.
    pub fn begin(&mut self, memory: &mut impl Memory, effects: &mut Vec<Effect>) {
        let Some(Block { process, allreduce, clients, peers }) = self.starting.pop_front() else { return };
        let Allreduce { group, sequence, source, target, length, operation, datatype, plan, ticket } = *allreduce;
        let (key, to) = ((group, sequence), clients[0]);
        if to == self.port {
            let round = self.rounds.entry(key).or_default();
            let steps = peers.into_iter().zip(plan.steps).collect();
            round.plan = Some(Plan { clients, steps, operation, datatype });
        }
        self.pending.insert(key, Pending { process, target, length, ticket });
        let payload = memory.reserve();
        // What cannot be read stays without bytes, and is not written.
        let _ = memory.capture(payload, process, source, u64::from(length));
        effects.push(Effect::Send { to, vector: Vector { from: self.port, key, way: Direction::Up, value: Value { payload, length } } });
        self.advance(key, memory, effects);
    }

    /// A vector is here. When the engine has taken it ([`Self::take`]); nothing if it is for the client.
    pub fn arrive(&mut self, now: SimTime, vector: Vector, memory: &mut impl Memory, effects: &mut Vec<Effect>) -> Option<SimTime> {
        if vector.way != Direction::Down {
            self.coming.push_back(vector);
            return Some(self.engine.end(now, self.rate.time_for(vector.length())));
        }
        let Value { payload, length } = vector.value;
        if let Some(Pending { process, target, length: wanted, ticket }) = self.pending.remove(&vector.key) {
            let _ = memory.deliver(payload, process, target, u64::from(length.min(wanted)));
            effects.push(Effect::Tell { process, ticket });
        }
        memory.release(payload);
        None
    }

    /// The engine has taken the next vector.
    pub fn take(&mut self, memory: &mut impl Memory, effects: &mut Vec<Effect>) {
        let Some(Vector { from, key, way, value }) = self.coming.pop_front() else { return };
        let round = self.rounds.entry(key).or_default();
        let place = if way == Direction::Up { &mut round.up } else { &mut round.across };
        // One that gives a block twice is not listened to.
        if let Some(before) = place.insert(from, value) {
            memory.release(before.payload);
        }
        self.advance(key, memory, effects);
    }

    /// Vectors that wait here for others.
    pub fn waiting(&self) -> u64 {
        let of = |round: &Round| round.up.len() + round.across.len() + usize::from(round.value.is_some());
        self.rounds.values().map(of).sum::<usize>() as u64
    }

    /// Does what can be done for a block.
    fn advance(&mut self, key: Key, memory: &mut impl Memory, effects: &mut Vec<Effect>) {
        let Some(round) = self.rounds.get_mut(&key) else { return };
        let Some(plan) = &round.plan else { return };
        let mut value = match round.value {
            Some(value) => value,
            None => {
                if !plan.clients.iter().all(|client| round.up.contains_key(client)) {
                    return;
                }
                // In pairs, as recursive doubling does: floating-point sums are the same.
                let mut values: Vec<Value> = std::mem::take(&mut round.up).into_values().collect();
                while values.len() > 1 {
                    for pair in values.chunks_mut(2) {
                        if let [into, from] = pair {
                            into.fold(*from, plan, memory);
                        }
                    }
                    values = values.into_iter().step_by(2).collect();
                }
                values[0]
            }
        };
        let vector = |way, value| Vector { from: self.port, key, way, value };
        while let Some(&(peer, step)) = plan.steps.get(round.step) {
            if step.sends && !round.sent {
                round.sent = true;
                effects.push(Effect::Send { to: peer, vector: vector(Direction::Across, value.copy(memory)) });
            }
            if step.takes != Takes::Nothing {
                let Some(come) = round.across.remove(&peer) else {
                    round.value = Some(value);
                    return;
                };
                if step.takes == Takes::Combined {
                    value.fold(come, plan, memory);
                } else {
                    memory.release(value.payload);
                    value = come;
                }
            }
            (round.step, round.sent) = (round.step + 1, false);
        }
        for &client in &plan.clients {
            effects.push(Effect::Send { to: client, vector: vector(Direction::Down, value.copy(memory)) });
        }
        memory.release(value.payload);
        for left in std::mem::take(&mut round.across).into_values() {
            memory.release(left.payload);
        }
        self.rounds.remove(&key);
    }
}
