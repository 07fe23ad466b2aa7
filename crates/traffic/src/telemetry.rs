//! Queues and links over time: kept when a period is given, and only then.

use narrows_engine::WordMap;
use narrows_fabric::{Arrival, PacketArrival};
use narrows_topology::{Link, LinkId, Shape, Topology, Vertex};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A queue of an output in a period, if there was something in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Index of the period.
    pub period: u32,
    /// The output's link.
    pub link: LinkId,
    /// Virtual network times channels, and the channel.
    pub lane: u32,
    /// Packets that waited, averaged over the period.
    pub mean_packets: f32,
    /// Most packets at once.
    pub max_packets: u32,
    /// Most wire bytes at once.
    pub max_bytes: u32,
}

/// A link in a period, if it was used or held up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Index of the period.
    pub period: u32,
    /// The link.
    pub link: LinkId,
    /// Fraction of the period for which it was busy; a packet counts where it starts, flows as long as they last.
    pub utilisation: f32,
    /// Packets that started on it; on the flow network messages, which begin on all links of their way at once.
    pub packets: u32,
    /// Times that its output was idle with packets, and lacked credits or was paused.
    pub stalls: u32,
    /// Pause frames that stopped one of its lanes.
    pub pauses: u32,
    /// Packets lost at its end.
    pub lost: u32,
}

/// What a flow, all that goes from a node to another in a virtual network, got in a period, if it got something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// Index of the period.
    pub period: u32,
    /// Node index.
    pub source: u32,
    /// Node index.
    pub target: u32,
    /// Virtual network.
    pub virtual_network: u8,
    /// On the wire; a packet counts where it starts on its last link.
    pub bytes: u64,
}

impl FlowRow {
    fn order(&self) -> (u32, u8, u32, u32) {
        (self.period, self.virtual_network, self.source, self.target)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    since: u64,
    /// Packets times picoseconds, up to `since`.
    integral: u64,
    packets: u32,
    bytes: u32,
    max_packets: u32,
    max_bytes: u32,
}

impl Queue {
    fn move_to(&mut self, now: u64) {
        self.integral += u64::from(self.packets) * (now - self.since);
        self.since = now;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    busy: u64,
    packets: u32,
    stalls: u32,
    pauses: u32,
    lost: u32,
    /// Flows take this share of it, in units of 2^-32, and what they took counts in `busy` up to `since`.
    share: u64,
    since: u64,
}

impl Use {
    fn move_to(&mut self, now: u64) {
        self.busy += ((u128::from(self.share) * u128::from(now - self.since)) >> 32) as u64;
        self.since = now;
    }
}

/// The rows and counts of a [`Telemetry`].
#[derive(Serialize, Deserialize)]
pub(crate) struct Seen {
    queue_rows: Vec<QueueRow>,
    link_rows: Vec<LinkRow>,
    flow_rows: Vec<FlowRow>,
    hops: Vec<u64>,
    misrouted: Vec<u64>,
}

/// What was seen in a region, or, merged, everywhere.
#[derive(Debug)]
pub struct Telemetry {
    topology: Arc<Topology>,
    lanes: u32,
    /// Where the links that were seen so far have their place.
    places: WordMap<LinkId, u32>,
    links: Vec<LinkId>,
    queues: Vec<Queue>,
    uses: Vec<Use>,
    begin: u64,
    periods: u32,
    /// Occupied queues, period by period, and within one in the order of the links.
    pub queue_rows: Vec<QueueRow>,
    /// Links in use, period by period, and within one in the order of the links.
    pub link_rows: Vec<LinkRow>,
    /// Flows that got something, period by period, and within one in the order of sources and targets.
    pub flow_rows: Vec<FlowRow>,
    /// Of this period: bytes of each flow, by virtual network, source and target.
    flows: WordMap<u64, u64>,
    /// Packets by the links that they crossed, host links among them.
    pub hops: Vec<u64>,
    /// Those of them that took more links than a shortest way has.
    pub misrouted: Vec<u64>,
}

impl Telemetry {
    /// Nothing seen yet. `lanes`: of a link.
    pub fn new(topology: Arc<Topology>, lanes: u32) -> Telemetry {
        Telemetry {
            topology,
            lanes,
            places: WordMap::default(),
            links: Vec::new(),
            queues: Vec::new(),
            uses: Vec::new(),
            begin: 0,
            periods: 0,
            queue_rows: Vec::new(),
            link_rows: Vec::new(),
            flow_rows: Vec::new(),
            flows: WordMap::default(),
            hops: vec![0; 256],
            misrouted: vec![0; 256],
        }
    }

    /// Where it looks.
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.topology)
    }

    /// The first period begins then, in picoseconds.
    pub fn begin(&mut self, now: u64) {
        self.begin = now;
    }

    fn place(&mut self, link: LinkId) -> usize {
        let Telemetry { places, links, queues, uses, lanes, .. } = self;
        let place = *places.entry(link).or_insert_with(|| {
            links.push(link);
            uses.push(Use::default());
            queues.resize(queues.len() + *lanes as usize, Queue::default());
            links.len() as u32 - 1
        });
        place as usize
    }

    /// See [`Observer::queued`](narrows_fabric::Observer::queued); `now` in picoseconds.
    pub fn queued(&mut self, link: LinkId, lane: u32, wire: u32, now: u64, joins: bool) {
        let place = self.place(link) * self.lanes as usize + lane as usize;
        let queue = &mut self.queues[place];
        queue.move_to(now);
        if joins {
            queue.packets += 1;
            queue.bytes += wire;
            queue.max_packets = queue.max_packets.max(queue.packets);
            queue.max_bytes = queue.max_bytes.max(queue.bytes);
        } else {
            queue.packets -= 1;
            queue.bytes -= wire;
        }
    }

    /// See [`Observer::sent`](narrows_fabric::Observer::sent); `time` on the wire in picoseconds.
    pub fn sent(&mut self, link: LinkId, time: u64) {
        let place = self.place(link);
        self.uses[place].busy += time;
        self.uses[place].packets += 1;
    }

    /// See [`Observer::flows`](narrows_fabric::Observer::flows); `now` in picoseconds.
    pub fn flows(&mut self, link: LinkId, share: u64, now: u64) {
        let place = self.place(link);
        self.uses[place].move_to(now);
        self.uses[place].share = share;
    }

    /// See [`Observer::stalled`](narrows_fabric::Observer::stalled).
    pub fn stalled(&mut self, link: LinkId) {
        let place = self.place(link);
        self.uses[place].stalls += 1;
    }

    /// See [`Observer::paused`](narrows_fabric::Observer::paused).
    pub fn paused(&mut self, link: LinkId) {
        let place = self.place(link);
        self.uses[place].pauses += 1;
    }

    /// See [`Observer::lost`](narrows_fabric::Observer::lost).
    pub fn lost(&mut self, link: LinkId) {
        let place = self.place(link);
        self.uses[place].lost += 1;
    }

    /// See [`Observer::packet`](narrows_fabric::Observer::packet).
    pub fn arrived(&mut self, packet: &PacketArrival) {
        let links = packet.hops as usize & 255;
        self.hops[links] += 1;
        let shortest = self.topology.switch_links_between(packet.arrival.source, packet.arrival.target) + 2;
        self.misrouted[links] += u64::from(packet.hops > shortest);
    }

    /// What a packet brings to its flow.
    pub fn flow(&mut self, packet: &PacketArrival) {
        let Arrival { source, target, virtual_network, .. } = packet.arrival;
        let key = u64::from(virtual_network) << 60 | u64::from(source) << 30 | u64::from(target);
        *self.flows.entry(key).or_default() += u64::from(packet.wire);
    }

    /// Ends a period, at `now` in picoseconds.
    pub fn sample(&mut self, now: u64) {
        let period = self.periods;
        let length = (now - self.begin).max(1) as f64;
        let mut order: Vec<u32> = (0..self.links.len() as u32).collect();
        order.sort_unstable_by_key(|&place| self.links[place as usize]);
        for place in order {
            let link = self.links[place as usize];
            for lane in 0..self.lanes {
                let queue = &mut self.queues[(place * self.lanes + lane) as usize];
                if queue.max_packets == 0 {
                    continue;
                }
                queue.move_to(now);
                self.queue_rows.push(QueueRow {
                    period,
                    link,
                    lane,
                    mean_packets: (queue.integral as f64 / length) as f32,
                    max_packets: queue.max_packets,
                    max_bytes: queue.max_bytes,
                });
                queue.integral = 0;
                (queue.max_packets, queue.max_bytes) = (queue.packets, queue.bytes);
            }
            self.uses[place as usize].move_to(now);
            let Use { busy, packets, stalls, pauses, lost, share, since } = self.uses[place as usize];
            self.uses[place as usize] = Use { share, since, ..Use::default() };
            if busy > 0 || packets + stalls + pauses + lost > 0 {
                let utilisation = (busy as f64 / length) as f32;
                self.link_rows.push(LinkRow { period, link, utilisation, packets, stalls, pauses, lost });
            }
        }
        let node = |bits: u64| (bits & ((1 << 30) - 1)) as u32;
        let first = self.flow_rows.len();
        self.flow_rows.extend(self.flows.drain().map(|(key, bytes)| FlowRow {
            period,
            source: node(key >> 30),
            target: node(key),
            virtual_network: (key >> 60) as u8,
            bytes,
        }));
        self.flow_rows[first..].sort_unstable_by_key(FlowRow::order);
        self.begin = now;
        self.periods += 1;
    }

    /// Gives away what was seen so far.
    pub(crate) fn take(&mut self) -> Seen {
        let nothing = || vec![0; 256];
        Seen {
            queue_rows: std::mem::take(&mut self.queue_rows),
            link_rows: std::mem::take(&mut self.link_rows),
            flow_rows: std::mem::take(&mut self.flow_rows),
            hops: std::mem::replace(&mut self.hops, nothing()),
            misrouted: std::mem::replace(&mut self.misrouted, nothing()),
        }
    }

    /// Takes in what was seen in another region, which has other queues. What both ends of a link tell about it becomes
    /// one row.
    pub(crate) fn merge(&mut self, mut other: Seen) {
        self.queue_rows.append(&mut other.queue_rows);
        self.link_rows.append(&mut other.link_rows);
        self.flow_rows.append(&mut other.flow_rows);
        for (sum, more) in self.hops.iter_mut().zip(&other.hops) {
            *sum += more;
        }
        for (sum, more) in self.misrouted.iter_mut().zip(&other.misrouted) {
            *sum += more;
        }
    }

    /// Brings the rows of all regions into one order.
    pub(crate) fn settle(&mut self) {
        self.queue_rows.sort_unstable_by_key(|row| (row.period, row.link, row.lane));
        self.flow_rows.sort_unstable_by_key(FlowRow::order);
        self.link_rows.sort_unstable_by_key(|row| (row.period, row.link));
        self.link_rows.dedup_by(|second, first| {
            let one = (first.period, first.link) == (second.period, second.link);
            if one {
                first.utilisation += second.utilisation;
                first.packets += second.packets;
                first.stalls += second.stalls;
                first.pauses += second.pauses;
                first.lost += second.lost;
            }
            one
        });
    }
}

/// Where in the network a link is, for people.
pub fn stage(topology: &Topology, link: &Link) -> String {
    match (link.from, link.to, topology.shape()) {
        (Vertex::Host(_), _, _) => String::from("from hosts"),
        (_, Vertex::Host(_), _) => String::from("to hosts"),
        (Vertex::Switch(from), Vertex::Switch(to), Shape::FatTree(tree)) => {
            let level = |switch: u32| (1..=tree.levels()).rev().find(|&level| tree.first_switch(level) <= switch).unwrap_or(1);
            let (from, to) = (level(from), level(to));
            format!("{} {from} to {to}", if from < to { "up" } else { "down" })
        }
        _ => String::from("between switches"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_topology::FatTree;

    #[test]
    fn a_queue_is_averaged_over_its_period() {
        let mut telemetry = Telemetry::new(Arc::new(FatTree::one_switch(2).unwrap().build()), 4);
        telemetry.queued(3, 1, 50, 100, true);
        telemetry.queued(3, 1, 70, 300, true);
        telemetry.queued(3, 1, 50, 500, false);
        telemetry.sample(1000);
        telemetry.queued(3, 1, 70, 1500, false);
        telemetry.sample(2000);
        telemetry.sample(3000);
        // One packet from 100 on, two from 300 to 500: (200 + 400 + 500) / 1000; then one for half of the period; then
        // none.
        let row =
            |period, mean_packets, max_packets, max_bytes| QueueRow { period, link: 3, lane: 1, mean_packets, max_packets, max_bytes };
        assert_eq!(telemetry.queue_rows, [row(0, 1.1, 2, 120), row(1, 0.5, 1, 70)]);
    }

    #[test]
    fn flows_take_a_share_of_a_link_while_they_last() {
        let mut telemetry = Telemetry::new(Arc::new(FatTree::one_switch(2).unwrap().build()), 1);
        telemetry.flows(1, 1 << 31, 200);
        telemetry.flows(1, 1 << 32, 600);
        telemetry.sample(1000);
        telemetry.sent(1, 100);
        telemetry.flows(1, 0, 1500);
        telemetry.sample(2000);
        telemetry.sample(3000);
        // Half of it from 200 on, all of it from 600 to 1500; a small message of 100 besides; then nothing.
        let row = |period, utilisation, packets| LinkRow { period, link: 1, utilisation, packets, stalls: 0, pauses: 0, lost: 0 };
        assert_eq!(telemetry.link_rows, [row(0, 0.6, 0), row(1, 0.6, 1)]);
    }

    #[test]
    fn both_ends_of_a_link_make_one_row() {
        let topology = Arc::new(FatTree::one_switch(2).unwrap().build());
        let (mut one, mut other) = (Telemetry::new(topology.clone(), 1), Telemetry::new(topology, 1));
        one.sent(2, 250);
        other.paused(2);
        other.sent(1, 500);
        one.sample(1000);
        other.sample(1000);
        one.merge(other.take());
        one.settle();
        let row = |link, utilisation, packets, pauses| LinkRow { period: 0, link, utilisation, packets, stalls: 0, pauses, lost: 0 };
        assert_eq!(one.link_rows, [row(1, 0.5, 1, 0), row(2, 0.25, 1, 1)]);
    }

    #[test]
    fn stages_of_a_tree_have_names() {
        let topology = FatTree::k_ary_n_tree(2, 2).unwrap().build();
        let mut stages: Vec<String> = topology.links().iter().map(|link| stage(&topology, link)).collect();
        stages.sort();
        stages.dedup();
        assert_eq!(stages, ["down 2 to 1", "from hosts", "to hosts", "up 1 to 2"]);
    }
}
