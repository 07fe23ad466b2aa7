//! Matching inputs and outputs of a crossbar, where one input sends one packet at a time: at each time at which
//! something could go, all free inputs and outputs of a switch are looked at together. Otherwise each output chooses
//! for itself ([`super::arbiter`]).
//!
//! * **iSLIP** (McKeown, IEEE/ACM Transactions on Networking 7(2), 1999): in each iteration an output grants to the
//!   next input behind its pointer that asks for it, and an input accepts the next output behind its own. Pointers go
//!   on behind what was accepted in the first iteration.
//! * **Wavefront** (Tamir and Chi, IEEE TPDS 4(1), 1993): pairs are taken along the diagonals of the matrix of
//!   requests, all of a diagonal at once, from one that is the next one each time.

use super::region::{Credit, Effects, Region};
use super::state::NEVER;
use crate::config::{Arbitration, NetworkConfig};
use crate::flights::NONE;
use crate::port::Ports;
use narrows_topology::{Topology, Vertex};

#[derive(Clone, Copy, Debug)]
enum Scheduler {
    /// So many iterations.
    Islip(u32),
    Wavefront,
}

/// The crossbars of a region.
#[derive(Debug)]
pub(super) struct Matching {
    kind: Scheduler,
    /// By output of the region: its switch among those below; [`NONE`] for that of a host.
    switch: Vec<u32>,
    switches: Vec<Switch>,
    /// By input of the region: its port.
    port: Vec<u32>,
}

/// A switch: its outputs by port, and what is remembered from one match to the next.
#[derive(Clone, Debug, Default)]
struct Switch {
    outputs: Vec<u32>,
    /// By output port: the input port that comes first.
    grant: Vec<u32>,
    /// By input port: the output port that comes first.
    accept: Vec<u32>,
    /// The diagonal that comes first.
    diagonal: u32,
}

/// What an output port may send: a packet of an input port on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    input: u32,
    lane: u32,
}

impl Matching {
    /// None where outputs choose for themselves. `starting` and `ending`: the links of the region.
    pub(super) fn new(config: &NetworkConfig, topology: &Topology, starting: &[u32], ending: &[u32]) -> Option<Matching> {
        let kind = match config.arbitration {
            Arbitration::Islip(iterations) => Scheduler::Islip(iterations),
            Arbitration::Wavefront => Scheduler::Wavefront,
            _ => return None,
        };
        let port = |switch: u32, output: u32| output - topology.outputs(switch).start;
        let (mut number, mut switches) = (vec![NONE; topology.switches() as usize], Vec::<Switch>::new());
        let mut of_output = Vec::with_capacity(starting.len());
        for (output, &link) in (0..).zip(starting) {
            let Vertex::Switch(switch) = topology.links()[link as usize].from else {
                of_output.push(NONE);
                continue;
            };
            let place = &mut number[switch as usize];
            if *place == NONE {
                *place = switches.len() as u32;
                let ports = topology.outputs(switch).len();
                switches.push(Switch { outputs: vec![NONE; ports], grant: vec![0; ports], accept: vec![0; ports], diagonal: 0 });
            }
            switches[*place as usize].outputs[port(switch, link) as usize] = output;
            of_output.push(*place);
        }
        // Input port i is the reverse of output port i.
        let of_input = |&link: &u32| match topology.links()[link as usize].to {
            Vertex::Switch(switch) => port(switch, topology.links()[link as usize].reverse),
            Vertex::Host(_) => NONE,
        };
        Some(Matching { kind, switch: of_output, switches, port: ending.iter().map(of_input).collect() })
    }

    pub(super) fn rest(&mut self) {
        for switch in &mut self.switches {
            switch.grant.fill(0);
            switch.accept.fill(0);
            switch.diagonal = 0;
        }
    }
}

impl Switch {
    /// Pairs of output and input ports; `requests` by output port.
    fn pairs(&mut self, kind: Scheduler, requests: &[Vec<Request>]) -> Vec<(u32, u32)> {
        match kind {
            Scheduler::Islip(iterations) => self.islip(iterations, requests),
            Scheduler::Wavefront => self.wavefront(requests),
        }
    }

    fn islip(&mut self, iterations: u32, requests: &[Vec<Request>]) -> Vec<(u32, u32)> {
        let ports = requests.len() as u32;
        let behind = |port: u32, pointer: u32| (port + ports - pointer) % ports;
        let (mut input_free, mut output_free) = (vec![true; requests.len()], vec![true; requests.len()]);
        let mut pairs = Vec::new();
        for iteration in 0..iterations {
            // By input: the outputs that grant to it, the first one behind its pointer.
            let mut granted = vec![NONE; requests.len()];
            for (output, asking) in (0..ports).zip(requests).filter(|&(output, _)| output_free[output as usize]) {
                let pointer = self.grant[output as usize];
                let free = asking.iter().map(|request| request.input).filter(|&input| input_free[input as usize]);
                let Some(input) = free.min_by_key(|&input| behind(input, pointer)) else { continue };
                let best = &mut granted[input as usize];
                let pointer = self.accept[input as usize];
                if *best == NONE || behind(output, pointer) < behind(*best, pointer) {
                    *best = output;
                }
            }
            let before = pairs.len();
            for (input, &output) in (0..ports).zip(&granted).filter(|&(_, &output)| output != NONE) {
                (input_free[input as usize], output_free[output as usize]) = (false, false);
                pairs.push((output, input));
                if iteration == 0 {
                    self.grant[output as usize] = (input + 1) % ports;
                    self.accept[input as usize] = (output + 1) % ports;
                }
            }
            if pairs.len() == before {
                break;
            }
        }
        pairs
    }

    fn wavefront(&mut self, requests: &[Vec<Request>]) -> Vec<(u32, u32)> {
        let ports = requests.len() as u32;
        let mut input_free = vec![true; requests.len()];
        let mut output_free = input_free.clone();
        let mut pairs = Vec::new();
        for diagonal in (0..ports).map(|step| (self.diagonal + step) % ports) {
            for (output, asking) in (0..ports).zip(requests) {
                let input = (diagonal + ports - output) % ports;
                let (of_input, of_output) = (&mut input_free[input as usize], &mut output_free[output as usize]);
                if *of_input && *of_output && asking.iter().any(|request| request.input == input) {
                    (*of_input, *of_output) = (false, false);
                    pairs.push((output, input));
                }
            }
        }
        if !pairs.is_empty() {
            self.diagonal = (self.diagonal + 1) % ports;
        }
        pairs
    }
}

impl<P: Ports> Region<P> {
    /// Sends what can go from the switch of an output, and sees to it that it is called again when more can.
    #[inline(never)]
    pub(super) fn match_switch(&mut self, output: u32, now: u64, fx: &mut impl Effects) {
        let Some(matching) = &self.matching else { return };
        let (kind, number) = (matching.kind, matching.switch[output as usize]);
        let outputs = matching.switches[number as usize].outputs.clone();
        let mut requests = vec![Vec::new(); outputs.len()];
        let mut later = vec![NEVER; outputs.len()];
        for (port, &output) in outputs.iter().enumerate().filter(|&(_, &output)| output != NONE) {
            if self.outputs[output as usize].occupied == 0 {
                continue;
            }
            // What it was to wake for is looked at now.
            self.outputs[output as usize].wake = NEVER;
            match self.loads[output as usize].free {
                free if free > now => later[port] = free,
                _ => later[port] = self.requests(output, now, &mut requests[port], fx),
            }
        }
        let Some(matching) = &mut self.matching else { return };
        let pairs = matching.switches[number as usize].pairs(kind, &requests);
        for (port, input) in pairs {
            let output = outputs[port as usize];
            let Some(request) = requests[port as usize].iter().find(|request| request.input == input) else { continue };
            self.send_matched(output, *request, now, fx);
            later[port as usize] = self.loads[output as usize].free;
        }
        // A packet that was not chosen goes when its output or its input is free.
        for (port, &output) in outputs.iter().enumerate().filter(|&(_, &output)| output != NONE) {
            if !requests[port].is_empty() && self.loads[output as usize].free <= now {
                later[port] = later[port].min(self.earliest(output, now));
            }
            if later[port] < NEVER && self.outputs[output as usize].occupied != 0 {
                self.wake_at(output, later[port], fx);
            }
        }
    }

    /// What an output that is free may send now, an entry for each input; the result: when there may be more. Lanes
    /// with strict priority come before all others, and among the lanes of an input the next one in turn.
    fn requests(&mut self, output: u32, now: u64, found: &mut Vec<Request>, fx: &mut impl Effects) -> u64 {
        let (occupied, turn) = (self.outputs[output as usize].occupied, u32::from(self.outputs[output as usize].turn));
        let (mut later, mut stalled) = (NEVER, false);
        let lanes = self.lanes;
        for lane in (0..lanes).map(|step| (turn + step) % lanes).filter(|&lane| occupied >> lane & 1 != 0) {
            let place = self.place(output, lane);
            let last = self.lane_states[place].ring;
            let mut queue = last;
            loop {
                queue = self.queues[queue].next_in_ring;
                let (first, input) = (self.queues[queue].first, self.queues[queue].input);
                let goes = self.goes_from(first);
                if goes > now {
                    later = later.min(goes);
                } else {
                    match self.credit(output, lane, self.packets[first].wire, now) {
                        Credit::Now => {
                            let input = self.matching.as_ref().map_or(0, |matching| matching.port[input as usize]);
                            if !found.iter().any(|request| request.input == input) {
                                found.push(Request { input, lane });
                            }
                        }
                        Credit::At(time) => {
                            later = later.min(time);
                            (self.lane_states[place].starved, stalled) = (true, true);
                        }
                        Credit::Unknown => (self.lane_states[place].starved, stalled) = (true, true),
                    }
                }
                if queue == last {
                    break;
                }
            }
        }
        if self.arbiter.has_strict(found.iter().map(|request| request.lane)) {
            found.retain(|request| self.arbiter.is_strict(request.lane));
        }
        if stalled && found.is_empty() && !self.outputs[output as usize].stalled {
            self.outputs[output as usize].stalled = true;
            self.statistics.credit_stalls += 1;
            fx.stalled(self.outputs[output as usize].link);
        }
        later
    }

    /// When one of the inputs is free that an output waits for.
    fn earliest(&self, output: u32, now: u64) -> u64 {
        let mut lanes = self.outputs[output as usize].occupied;
        let mut earliest = NEVER;
        while lanes != 0 {
            let last = self.lane_states[self.place(output, lanes.trailing_zeros())].ring;
            lanes &= lanes - 1;
            let mut queue = last;
            loop {
                queue = self.queues[queue].next_in_ring;
                let goes = self.goes_from(self.queues[queue].first);
                // One that was free and was not chosen, with too few iterations, is asked again when another one is.
                if goes > now {
                    earliest = earliest.min(goes);
                }
                if queue == last {
                    break;
                }
            }
        }
        earliest
    }

    /// Sends the packet of a pair.
    fn send_matched(&mut self, output: u32, request: Request, now: u64, fx: &mut impl Effects) {
        let Some(matching) = &self.matching else { return };
        let place = self.place(output, request.lane);
        // Its queue's turn: the one before it is the last one.
        let mut before = self.lane_states[place].ring;
        while matching.port[self.queues[self.queues[before].next_in_ring].input as usize] != request.input {
            before = self.queues[before].next_in_ring;
        }
        self.lane_states[place].ring = before;
        self.lane_states[place].starved = false;
        let index = self.dequeue(output, request.lane, now, fx);
        let wire = self.packets[index].wire;
        self.arbiter.charge(&mut self.outputs[output as usize], output, request.lane, wire);
        self.transmit(output, request.lane, index, now, fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(ports: usize) -> Switch {
        Switch { outputs: vec![0; ports], grant: vec![0; ports], accept: vec![0; ports], diagonal: 0 }
    }

    /// By output: the inputs that ask for it.
    fn asking<const N: usize>(inputs: [&[u32]; N]) -> Vec<Vec<Request>> {
        inputs.iter().map(|inputs| inputs.iter().map(|&input| Request { input, lane: 0 }).collect()).collect()
    }

    /// McKeown 1999, figure 4 and section II.B: with all asking for all, pointers that began together are apart after
    /// some times, and from then on all outputs are busy with one iteration (100 %).
    #[test]
    fn islip_pointers_drift_apart() {
        let all: [&[u32]; 4] = [&[0, 1, 2, 3]; 4];
        let mut switch = switch(4);
        let sizes: Vec<usize> = (0..8).map(|_| switch.islip(1, &asking(all)).len()).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 4, 4, 4, 4]);
        // Each pair once in four times.
        let mut pairs: Vec<_> = (0..4).flat_map(|_| switch.islip(1, &asking(all))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 16);
    }

    /// More iterations add pairs and take none away.
    #[test]
    fn iterations_fill_what_is_left() {
        // Outputs 0 and 1 grant to input 0 first; input 1 is left for the second iteration.
        let requests = asking([&[0], &[0, 1]]);
        assert_eq!(switch(2).islip(1, &requests), [(0, 0)]);
        assert_eq!(switch(2).islip(2, &requests), [(0, 0), (1, 1)]);
    }

    /// Tamir and Chi 1993: the diagonal that begins wins, and no pair is left that could be.
    #[test]
    fn wavefronts_are_maximal_and_turn() {
        let all: [&[u32]; 3] = [&[0, 1, 2]; 3];
        let mut switch = switch(3);
        assert_eq!(switch.wavefront(&asking(all)), [(0, 0), (1, 2), (2, 1)]);
        assert_eq!(switch.wavefront(&asking(all)), [(0, 1), (1, 0), (2, 2)]);
        assert_eq!(switch.wavefront(&asking([&[1], &[], &[]])), [(0, 1)]);
        assert_eq!(switch.wavefront(&asking([&[], &[], &[]])), []);
        assert_eq!(switch.diagonal, 0, "what finds nothing does not turn");
    }
}
