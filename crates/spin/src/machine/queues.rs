//! Message queues: which task comes next.

use super::clusters::Task;
use super::{Event, Handler, Machine, NONE, Out, stage};
use crate::config::SpinConfig;

/// How far a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Header,
    HeaderRunning,
    Payload,
    /// All payload handlers have begun.
    PayloadDraining,
    Completion,
    CompletionRunning,
}

#[derive(Clone, Debug)]
struct Queue {
    state: State,
    message: u64,
    context: u32,
    /// Packets that wait, oldest first.
    head: u32,
    tail: u32,
    /// Those, and those under way to the queue.
    cells: u32,
    /// Its last packet has come.
    ended: bool,
    /// One of its handlers went wrong: the rest goes to the host.
    failed: bool,
    /// Tasks.
    running: u32,
}

const FREE: Queue =
    Queue { state: State::Free, message: 0, context: 0, head: NONE, tail: NONE, cells: 0, ended: false, failed: false, running: 0 };

pub(super) struct Queues {
    queues: Vec<Queue>,
    /// Cells that all queues share.
    cells: u32,
    /// A bit of each queue that has a task.
    eligible: Vec<u64>,
    /// Who is asked first.
    turn: usize,
    /// When the last request that was taken is in its queue.
    queued: u64,
}

impl Queues {
    pub(super) fn new(config: &SpinConfig) -> Queues {
        let count = config.queues as usize;
        Queues { queues: vec![FREE; count], cells: config.cells, eligible: vec![0; count.div_ceil(64)], turn: 0, queued: 0 }
    }

    fn set(&mut self, queue: usize, eligible: bool) {
        let bit = 1 << (queue % 64);
        if eligible { self.eligible[queue / 64] |= bit } else { self.eligible[queue / 64] &= !bit }
    }

    /// The next one with a task, from the turn on.
    fn next(&self) -> Option<usize> {
        let words = self.eligible.len();
        let (word, bit) = (self.turn / 64, self.turn % 64);
        (0..=words).find_map(|step| {
            let place = (word + step) % words;
            let mask = match step {
                0 => u64::MAX << bit,
                step if step == words => !(u64::MAX << bit),
                _ => u64::MAX,
            };
            let found = self.eligible[place] & mask;
            (found != 0).then(|| place * 64 + found.trailing_zeros() as usize)
        })
    }
}

impl Machine {
    fn queue_of(&self, message: u64) -> usize {
        (message % self.queues.queues.len() as u64) as usize
    }

    /// Queues take requests in their order, as long as there is room.
    pub(super) fn request(&mut self, out: &mut impl Out) {
        while let Some(&index) = self.requests.front() {
            let packet = self.packets.at(index).packet;
            let place = self.queue_of(packet.message);
            let Queues { queues, cells, .. } = &mut self.queues;
            let queue = &mut queues[place];
            let fits = queue.state == State::Free || queue.message == packet.message && !queue.ended;
            if !fits || queue.cells > 0 && *cells == 0 {
                return;
            }
            if queue.state == State::Free {
                *queue = Queue { state: State::Header, message: packet.message, context: packet.context, ..FREE };
            }
            *cells -= u32::from(queue.cells > 0);
            queue.cells += 1;
            queue.ended = packet.last;
            self.requests.pop_front();
            // One in a cycle, so that packets of a message keep their order.
            self.queues.queued = (self.now + stage::QUEUE).max(self.queues.queued + 1);
            self.schedule(self.queues.queued, Event::Queued(index));
        }
        self.tell_ready(out);
    }

    pub(super) fn queued(&mut self, index: u32, out: &mut impl Out) {
        let place = self.queue_of(self.packets.at(index).packet.message);
        let queue = &mut self.queues.queues[place];
        match queue.tail {
            NONE => queue.head = index,
            tail => self.packets.at_mut(tail).next = index,
        }
        queue.tail = index;
        self.settle(place, out);
    }

    fn has(&self, queue: &Queue, handler: Handler) -> bool {
        !queue.failed && self.contexts[queue.context as usize].handlers.has(handler)
    }

    /// Takes the oldest packet out of its queue.
    fn pop(&mut self, place: usize) -> u32 {
        let queue = &mut self.queues.queues[place];
        let index = queue.head;
        queue.head = self.packets.at(index).next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        self.queues.cells += u32::from(queue.cells > 1);
        queue.cells -= 1;
        index
    }

    /// Pops a packet that no task will free: it goes to the host.
    fn let_pass(&mut self, place: usize, out: &mut impl Out) {
        let index = self.pop(place);
        self.packets.at_mut(index).passes = true;
        self.free(index, out);
    }

    /// Goes through the states up to one that has a task or waits. Handlers that a context does not have are skipped.
    fn settle(&mut self, place: usize, out: &mut impl Out) {
        let eligible = loop {
            let queue = &self.queues.queues[place];
            let (payload, completion) = (self.has(queue, Handler::Payload), self.has(queue, Handler::Completion));
            let waits = queue.head != NONE;
            let next = match queue.state {
                State::Free => break false,
                State::Header if self.has(queue, Handler::Header) => break waits,
                State::Header => State::Payload,
                State::HeaderRunning | State::CompletionRunning => break false,
                State::Payload if payload || !waits => break waits,
                State::Payload => {
                    let last = self.packets.at(queue.head).packet.last;
                    if !(last && completion) {
                        self.let_pass(place, out);
                    }
                    if last { State::PayloadDraining } else { State::Payload }
                }
                State::PayloadDraining if queue.running > 0 => break false,
                State::PayloadDraining | State::Completion if completion => {
                    self.queues.queues[place].state = State::Completion;
                    break true;
                }
                State::PayloadDraining | State::Completion => {
                    if waits {
                        self.let_pass(place, out);
                    }
                    State::Free
                }
            };
            self.queues.queues[place].state = next;
        };
        self.queues.set(place, eligible);
        if self.queues.eligible.iter().any(|word| *word != 0) {
            self.pick_soon();
        }
        self.request(out);
    }

    /// A task goes to a cluster in this cycle, or in the next if one has.
    pub(super) fn pick_soon(&mut self) {
        if !self.picks {
            self.picks = true;
            self.schedule(self.now.max(self.picked + 1), Event::Pick);
        }
    }

    /// Gives the task of the queue whose turn it is to a cluster, if one has room.
    pub(super) fn pick(&mut self) {
        self.picks = false;
        let Some(place) = self.queues.next() else { return };
        let queue = &self.queues.queues[place];
        let (index, message, context, state) = (queue.head, queue.message, queue.context, queue.state);
        let packet = self.packets.at(index).packet;
        let completes = self.has(queue, Handler::Completion);
        let Some((cluster, ring, room)) = self.cluster_for(message, packet.bytes) else { return };
        self.picked = self.now;
        let (handler, pops, next) = match state {
            State::Header => (Handler::Header, false, State::HeaderRunning),
            State::Completion => (Handler::Completion, true, State::CompletionRunning),
            _ if packet.last => (Handler::Payload, !completes, State::PayloadDraining),
            _ => (Handler::Payload, true, State::Payload),
        };
        if pops {
            self.pop(place);
        }
        let queue = &mut self.queues.queues[place];
        queue.state = next;
        queue.running += 1;
        let more = next == State::Payload && queue.head != NONE;
        self.queues.set(place, more);
        self.queues.turn = (place + 1) % self.queues.queues.len();
        let task = Task { packet: index, message, context, handler, pops, cluster, ring, room: room.0, place: room.1, began: 0 };
        self.assign(task, packet.bytes);
        if self.queues.eligible.iter().any(|word| *word != 0) {
            self.pick_soon();
        }
    }

    /// A handler has run, and all that it asked for is done.
    pub(super) fn feedback(&mut self, number: u32, out: &mut impl Out) {
        let Some(task) = self.tasks.remove(number) else { return };
        let cluster = &mut self.clusters[task.cluster as usize];
        cluster.tasks -= 1;
        cluster.rings[task.ring as usize].free(task.room);
        let place = self.queue_of(task.message);
        let queue = &mut self.queues.queues[place];
        queue.running -= 1;
        queue.state = match queue.state {
            State::HeaderRunning => State::Payload,
            State::CompletionRunning => State::Free,
            other => other,
        };
        if task.pops {
            self.free(task.packet, out);
        }
        self.settle(place, out);
    }

    /// The message of a handler that went wrong has no handlers any more.
    pub(super) fn fail(&mut self, message: u64) {
        let place = self.queue_of(message);
        self.queues.queues[place].failed = true;
    }
}
