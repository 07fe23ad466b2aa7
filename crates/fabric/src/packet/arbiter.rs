//! Which of the packets that wait for an output goes next.
//!
//! Virtual networks are the traffic classes. Those with strict priority come before all others; but a NIC that has sent
//! [`MOST_CONTROL`] control packets in a row sends something else, if it can, or many flows with a short period would
//! keep their own acknowledgements back for ever. Among the others the machine file chooses:
//!
//! * **Round robin**: the lanes with packets and credits in turn, and within a lane the inputs in turn, a packet each.
//! * **Age**: the packet that its NIC sent first.
//! * **Weighted round robin**, by packets or by bytes (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995;
//!   quantum = weight times a full packet). A class that has nothing to send, or may not, is passed over and saves
//!   nothing up. Within a class the lanes and inputs take turns.
//!
//! Or all of a switch are matched with its inputs: [`super::matching`].

use super::inject::Offer;
use super::region::{Credit, Effects, Region};
use super::state::*;
use crate::config::{Arbitration, NetworkConfig};
use crate::flights::NONE;
use crate::port::Ports;

/// Control packets that a NIC sends in a row while others wait. Our own choice: of 32 B each (facts of ACC) they take
/// about as long as one packet that waits.
const MOST_CONTROL: u8 = 16;

#[derive(Debug)]
enum Policy {
    RoundRobin,
    Age,
    Weighted {
        /// By virtual network: what it may send in a round.
        quanta: Vec<u32>,
        /// A packet costs its bytes, or 1.
        bytes: bool,
        /// By output and virtual network: what is left of this round's.
        left: Vec<u32>,
    },
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Arbiter {
    policy: Policy,
    /// Lanes of virtual networks with strict priority.
    strict: u64,
    /// Of them those of control packets.
    control: u64,
    channels: u32,
    virtual_networks: u32,
}

impl Arbiter {
    pub(super) fn new(config: &NetworkConfig, outputs: usize) -> Arbiter {
        let virtual_networks = u32::from(config.all_virtual_networks());
        let channels = u32::from(config.virtual_channels);
        let weighted = |weights: &[u16], unit: u64, bytes| Policy::Weighted {
            quanta: (0..virtual_networks as usize)
                .map(|class| u64::from(weights.get(class).copied().unwrap_or(1)).saturating_mul(unit).min(1 << 31) as u32)
                .collect(),
            bytes,
            left: vec![0; outputs * virtual_networks as usize],
        };
        let policy = match &config.arbitration {
            Arbitration::RoundRobin | Arbitration::Islip(_) | Arbitration::Wavefront => Policy::RoundRobin,
            Arbitration::Age => Policy::Age,
            Arbitration::WeightedPackets(weights) => weighted(weights, 1, false),
            Arbitration::WeightedBytes(weights) => weighted(weights, config.packet().0, true),
        };
        let mut arbiter = Arbiter { policy, strict: 0, control: 0, channels, virtual_networks };
        if config.has_control_packets() {
            arbiter.control = arbiter.lanes_of(u32::from(config.virtual_networks));
        }
        arbiter.strict = arbiter.control;
        for class in (0..virtual_networks).filter(|&class| config.strict_priority >> class & 1 != 0) {
            arbiter.strict |= arbiter.lanes_of(class);
        }
        arbiter
    }

    pub(super) fn is_round_robin(&self) -> bool {
        matches!(self.policy, Policy::RoundRobin)
    }

    pub(super) fn rest(&mut self) {
        if let Policy::Weighted { left, .. } = &mut self.policy {
            left.fill(0);
        }
    }

    pub(super) fn is_strict(&self, lane: u32) -> bool {
        self.strict >> lane & 1 != 0
    }

    /// One of them has strict priority.
    pub(super) fn has_strict(&self, mut lanes: impl Iterator<Item = u32>) -> bool {
        self.strict != 0 && lanes.any(|lane| self.is_strict(lane))
    }

    fn lanes_of(&self, class: u32) -> u64 {
        (u64::MAX >> (64 - self.channels)) << (class * self.channels)
    }

    /// The lane to try next. `oldest` gives the age of a lane's oldest packet.
    #[inline(always)]
    fn choose(&self, output: &Output, untried: u64, oldest: impl FnMut(u32) -> u64) -> u32 {
        let others = untried & !self.control;
        let untried = if output.control_sent >= MOST_CONTROL && others != 0 { others } else { untried };
        let strict = untried & self.strict;
        let mut among = if strict != 0 { strict } else { untried };
        match &self.policy {
            Policy::RoundRobin => {}
            Policy::Age => {
                if output.host == NONE {
                    return self.choose_oldest(among, oldest);
                }
            }
            Policy::Weighted { .. } if strict == 0 => {
                let classes = self.virtual_networks;
                let class = (0..classes).map(|step| (u32::from(output.class_turn) + step) % classes);
                among &= class.map(|class| self.lanes_of(class)).find(|lanes| among & lanes != 0).unwrap_or(among);
            }
            Policy::Weighted { .. } => {}
        }
        // The lanes in turn: those from `turn` on, then those before it.
        let next = among & (u64::MAX << output.turn);
        if next != 0 { next.trailing_zeros() } else { among.trailing_zeros() }
    }

    #[inline(never)]
    fn choose_oldest(&self, mut among: u64, mut oldest: impl FnMut(u32) -> u64) -> u32 {
        let (mut best, mut least) = (among.trailing_zeros(), NEVER);
        while among != 0 {
            let lane = among.trailing_zeros();
            among &= among - 1;
            let injected = oldest(lane);
            if injected < least {
                (best, least) = (lane, injected);
            }
        }
        best
    }

    /// Whether the class whose turn it is has sent its share, so that others come first.
    #[inline]
    fn is_used_up(&self, output: &Output, index: u32, class: u32, wire: u32) -> bool {
        match &self.policy {
            Policy::Weighted { bytes, left, .. } if self.strict & self.lanes_of(class) == 0 => {
                let cost = if *bytes { wire } else { 1 };
                u32::from(output.class_turn) == class && left[(index * self.virtual_networks + class) as usize] < cost
            }
            _ => false,
        }
    }

    /// A packet goes.
    #[inline(always)]
    pub(super) fn charge(&mut self, output: &mut Output, index: u32, lane: u32, wire: u32) {
        output.turn = if lane + 1 == self.channels * self.virtual_networks { 0 } else { lane as u8 + 1 };
        if self.control != 0 && output.host != NONE {
            output.control_sent = if self.control >> lane & 1 != 0 { output.control_sent.saturating_add(1) } else { 0 };
        }
        if let Policy::Weighted { quanta, bytes, left } = &mut self.policy
            && self.strict >> lane & 1 == 0
        {
            let class = lane / self.channels;
            let cost = if *bytes { wire } else { 1 };
            let left = &mut left[(index * self.virtual_networks + class) as usize];
            if u32::from(output.class_turn) != class || *left < cost {
                output.class_turn = class as u8;
                *left += quanta[class as usize];
            }
            // A single packet of a weight below its cost cannot be: a quantum is at least a full packet.
            *left -= cost;
            let lanes = (u64::MAX >> (64 - self.channels)) << (class * self.channels);
            if output.occupied & lanes == 0 {
                *left = 0;
            }
        }
    }
}

impl<P: Ports> Region<P> {
    /// Sends something on an output if there is anything that can go, and sees to it that it is called again when more
    /// can.
    pub(super) fn serve(&mut self, output: u32, now: u64, fx: &mut impl Effects) {
        let at = output as usize;
        let mut untried = self.outputs[at].occupied;
        if untried == 0 {
            return;
        }
        if self.matching.is_some() && self.outputs[at].host == NONE {
            return self.match_switch(output, now, fx);
        }
        let free = self.loads[at].free;
        if free > now {
            return self.wake_at(output, free, fx);
        }
        let (mut later, mut stalled) = (NEVER, false);
        let (mut used_up, mut second) = (0u64, false);
        loop {
            if untried == 0 {
                if used_up == 0 {
                    break;
                }
                untried = std::mem::take(&mut used_up);
                second = true;
            }
            let lane_index = self.choose(output, untried);
            untried &= !(1 << lane_index);
            let place = self.place(output, lane_index);
            let turn = self.lane_states[place].ring;
            let offer = self.offer(output, lane_index, now);
            let wire = match offer {
                Offer::Queued { wire } | Offer::Port { wire } => wire,
                Offer::At(time) => {
                    later = later.min(time);
                    continue;
                }
            };
            let class = self.class(lane_index);
            if !second && self.arbiter.is_used_up(&self.outputs[at], output, class, wire) {
                used_up |= 1 << lane_index;
                self.lane_states[place].ring = turn;
                continue;
            }
            match self.credit(output, lane_index, wire, now) {
                Credit::Now => {
                    self.lane_states[place].starved = false;
                    let index = match offer {
                        Offer::Queued { .. } => Some(self.dequeue(output, lane_index, now, fx)),
                        _ => self.inject(output, class, now, fx),
                    };
                    let Some(index) = index else {
                        untried |= 1 << lane_index;
                        continue;
                    };
                    self.arbiter.charge(&mut self.outputs[at], output, lane_index, wire);
                    self.transmit(output, lane_index, index, now, fx);
                    if self.outputs[at].occupied != 0 {
                        let free = self.loads[at].free;
                        self.wake_at(output, free, fx);
                    }
                    return;
                }
                // Whoever looks in vain, and when, makes no difference: regions hear of credits at different times.
                Credit::At(time) => {
                    later = later.min(time);
                    (self.lane_states[place].starved, self.lane_states[place].ring) = (true, turn);
                    stalled = true;
                }
                Credit::Unknown => {
                    (self.lane_states[place].starved, self.lane_states[place].ring) = (true, turn);
                    stalled = true;
                }
            }
        }
        if stalled && !self.outputs[at].stalled {
            self.outputs[at].stalled = true;
            self.statistics.credit_stalls += 1;
            fx.stalled(self.outputs[at].link);
        }
        if later < NEVER {
            self.wake_at(output, later, fx);
        }
    }

    #[inline]
    fn class(&self, lane: u32) -> u32 {
        if self.channels == 1 { lane } else { lane / self.channels }
    }

    #[inline(always)]
    fn choose(&mut self, output: u32, untried: u64) -> u32 {
        if !matches!(self.arbiter.policy, Policy::Age) {
            return self.arbiter.choose(&self.outputs[output as usize], untried, |_| 0);
        }
        if self.outputs[output as usize].host == NONE {
            let mut lanes = untried;
            while lanes != 0 {
                self.turn_to_oldest(output, lanes.trailing_zeros());
                lanes &= lanes - 1;
            }
        }
        let Region { arbiter, outputs, lane_states, queues, packets, .. } = self;
        arbiter.choose(&outputs[output as usize], untried, |lane| {
            let last = lane_states[lane as usize * outputs.len() + output as usize].ring;
            packets[queues[queues[last].next_in_ring].first].injected().as_ps()
        })
    }

    /// Makes it the turn of the queue with the packet that was injected first; at the same time, of the input with the
    /// lowest number.
    fn turn_to_oldest(&mut self, output: u32, lane: u32) {
        let place = self.place(output, lane);
        let lane = &mut self.lane_states[place];
        let (mut before, mut best, mut least) = (lane.ring, lane.ring, (NEVER, NONE));
        loop {
            let turn = self.queues[before].next_in_ring;
            let queue = &self.queues[turn];
            let rank = (self.packets[queue.first].injected().as_ps(), queue.input);
            if rank < least {
                (best, least) = (before, rank);
            }
            before = turn;
            if before == lane.ring {
                break;
            }
        }
        lane.ring = best;
    }

    /// The next packet of a lane that has some.
    #[inline(always)]
    fn offer(&mut self, output: u32, lane_index: u32, now: u64) -> Offer {
        let host = self.outputs[output as usize].host;
        if host != NONE {
            // Only the first channel of a virtual network is used here.
            return self.injection(host, self.class(lane_index), now);
        }
        let last = self.lane_states[self.place(output, lane_index)].ring;
        let first = self.queues[self.queues[last].next_in_ring].first;
        if self.goes_from(first) > now {
            return self.first_ready(output, lane_index, now);
        }
        Offer::Queued { wire: self.packets[first].wire }
    }

    /// Makes it the turn of the next queue whose packet may go already.
    #[cold]
    fn first_ready(&mut self, output: u32, lane: u32, now: u64) -> Offer {
        let place = self.place(output, lane);
        let ring = self.lane_states[place].ring;
        let (mut before, mut earliest) = (ring, NEVER);
        loop {
            let turn = self.queues[before].next_in_ring;
            let first = self.queues[turn].first;
            let goes = self.goes_from(first);
            if goes <= now {
                self.lane_states[place].ring = before;
                return Offer::Queued { wire: self.packets[first].wire };
            }
            earliest = earliest.min(goes);
            before = turn;
            if before == ring {
                return Offer::At(earliest);
            }
        }
    }
}
