//! Rails that fail in the middle of a run: messages of MPI's layer go over the others, arrive once, in order, byte for
//! byte; and the run ends with a line that names node, flow and link only where no rail is left.

use narrows_engine::random::stream;
use narrows_fabric::{Checks, Congestion, Delivery, Fault, NetworkConfig, Probability, Reliability};
use narrows_message::{
    Completes, CompletionKind, Distribution, Endpoint, Library, MessageConfig, MpcConfig, Numbers, Port, Protocol, Queue, RailChoice,
    Rails, Receive, Registration, Rendezvous, Send, Status, Transport,
};
use narrows_nic::{Fault as MemoryFault, NicConfig, Processors};
use narrows_portals::{Command, EqId, NodeId, Notice, Place, ProcessId};
use narrows_sim::{Hardware, NetworkSetup, PortSetup, Processes, RailTotals, Setup, World};
use narrows_topology::{FatTree, Topology};
use narrows_units::{Bytes, Rail, SimTime};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const NODES: u32 = 3;
const EQ: EqId = EqId(0);
const TIMEOUT: SimTime = SimTime::from_us(5);

/// Memory, and what the NICs say.
#[derive(Default)]
struct Ranks {
    memory: Vec<Vec<u8>>,
    payloads: BTreeMap<u32, Vec<u8>>,
    next_payload: u32,
    notices: VecDeque<(u32, Notice)>,
}

impl Ranks {
    fn bytes(&mut self, rank: u32, address: u64, length: u64) -> &mut [u8] {
        &mut self.memory[rank as usize][address as usize..(address + length) as usize]
    }
}

impl Processes for Ranks {
    type Letter = ();

    fn notify(&mut self, _: SimTime, rank: u32, notice: Notice) {
        self.notices.push_back((rank, notice));
    }
    fn reserve(&mut self) -> u32 {
        self.next_payload += 1;
        self.next_payload
    }
    fn hold(&mut self, payload: u32, bytes: Box<[u8]>) {
        self.payloads.insert(payload, bytes.into());
    }
    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), MemoryFault> {
        let bytes = self.bytes(rank, place.address, length).to_vec();
        self.payloads.insert(payload, bytes);
        Ok(())
    }
    fn fetch(&mut self, payload: u32, from: (u32, Place), length: u64, _: (u32, Place)) -> Result<(), MemoryFault> {
        self.capture(payload, from.0, from.1, length)
    }
    fn has_bytes(&self, payload: u32) -> bool {
        self.payloads.contains_key(&payload)
    }
    fn deliver(&mut self, _: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), MemoryFault> {
        if length > 0 {
            let bytes = self.payloads[&payload][..length as usize].to_vec();
            self.bytes(rank, place.address, length).copy_from_slice(&bytes);
        }
        Ok(())
    }
    fn release(&mut self, payload: u32) {
        self.payloads.remove(&payload);
    }
}

/// The library of a rank, in which nothing takes time.
struct RankLibrary<'a> {
    world: &'a mut World<Ranks>,
    rank: u32,
}

impl Library for RankLibrary<'_> {
    fn post(&mut self, rail: Rail, command: Command) {
        let now = self.world.now();
        self.world.submit(self.rank, rail, now, command);
    }
    fn open(&mut self, rail: Rail, command: Command) {
        self.post(rail, command);
    }
    fn payload(&mut self, from: u64, length: u64) -> Option<Box<[u8]>> {
        Some((*self.world.processes().bytes(self.rank, from, length)).into())
    }
    fn has_copied(&mut self, _: u64) {}
    fn copy(&mut self, from: u64, to: u64, length: u64) {
        let ranks = self.world.processes();
        let bytes = ranks.bytes(self.rank, from, length).to_vec();
        ranks.bytes(self.rank, to, length).copy_from_slice(&bytes);
    }
    fn fill(&mut self, _: Option<&[u8]>, from: u64, to: u64, length: u64) {
        self.copy(from, to, length);
    }
    fn allocate(&mut self, length: u64) -> u64 {
        let memory = &mut self.world.processes().memory[self.rank as usize];
        memory.resize(memory.len() + length as usize, 0);
        memory.len() as u64 - length
    }
}

struct Machine {
    world: World<Ranks>,
    endpoints: Vec<Endpoint>,
    numbers: Vec<Numbers>,
}

impl Machine {
    /// A rank on each of the nodes; `faults` by rail.
    fn new(faults: &[Vec<Fault>], delivery: Delivery, rendezvous: Rendezvous) -> Machine {
        let rails = faults.len() as u8;
        let reliability = Reliability {
            window: 16,
            room: 0,
            timeout: TIMEOUT,
            retries: 2,
            ack: Bytes(32),
            delivery,
            unordered: 0,
            flows: 0,
            checks: Checks::default(),
            congestion: Congestion::None,
        };
        let configs: Vec<NetworkConfig> = (0..)
            .zip(faults)
            .map(|(seed, faults)| NetworkConfig {
                mtu: Bytes(512),
                reliability: Some(reliability),
                faults: faults.clone(),
                seed,
                ..NetworkConfig::default()
            })
            .collect();
        let topology = one_switch();
        let hardware = Hardware {
            nodes: NODES,
            networks: configs.iter().map(|config| NetworkSetup { config, topology: topology.clone() }).collect(),
            ports: (0..rails).flat_map(|rail| NodeId::first(NODES).map(move |node| PortSetup { node, rail: Rail(rail), nic: 0 })).collect(),
            nics: vec![NicConfig::bxi_v2().into()],
            processors: Processors::default(),
        };
        let places: Vec<ProcessId> = NodeId::first(NODES).map(|node| ProcessId::on(node, 1)).collect();
        let ranks = Ranks { memory: vec![vec![0; 64]; NODES as usize], ..Ranks::default() };
        let mut world = World::whole(Setup { hardware, places: &places }, |_| ranks).unwrap();
        let mpc = MpcConfig {
            minimum: 2000,
            distribution: Distribution::Fragments(900),
            choice: RailChoice::RoundRobin,
            registration: Registration::NONE,
        };
        let config = MessageConfig {
            protocol: Protocol::Mpc(mpc),
            rails: Rails::new((0..rails).map(Rail).collect()),
            eager_limit: 600,
            inject_limit: 64,
            rendezvous,
            overflow_block: 4096,
            overflow_blocks: 2,
            max_portals_message: 1 << 20,
        };
        let mut numbers: Vec<Numbers> = places.iter().map(|_| Numbers::default()).collect();
        let mut endpoints = Vec::new();
        for (rank, numbers) in (0..NODES).zip(&mut numbers) {
            let mut port = Port::new(RankLibrary { world: &mut world, rank }, numbers, (EQ, 0), Rail::FIRST);
            port.open(&config.rails);
            endpoints.push(Endpoint::new(config.clone(), EQ, places[rank as usize], &mut port));
        }
        Machine { world, endpoints, numbers }
    }

    fn call<R>(&mut self, rank: u32, what: impl FnOnce(&mut Endpoint, &mut Port<'_, RankLibrary<'_>>) -> R) -> R {
        let Machine { world, endpoints, numbers } = self;
        let mut port = Port::new(RankLibrary { world, rank }, &mut numbers[rank as usize], (EQ, 0), Rail::FIRST);
        what(&mut endpoints[rank as usize], &mut port)
    }

    /// Up to `until`; false when there is nothing left.
    fn run(&mut self, until: SimTime) -> bool {
        while self.world.next_time().is_some_and(|next| next <= until) && self.world.undelivered().is_none() {
            self.world.step();
            assert_eq!(self.world.take_error(), None);
            while let Some((rank, notice)) = self.world.processes().notices.pop_front() {
                match notice {
                    Notice::Event { event, .. } => self.call(rank, |endpoint, port| endpoint.event(port, event)).unwrap(),
                    Notice::Reply { ticket, code, .. } => {
                        let (_, entry) = self.numbers[rank as usize].unlinked(ticket).unwrap();
                        self.call(rank, |endpoint, port| endpoint.unlinked(port, entry, code));
                    }
                    Notice::Count { .. } | Notice::Foreign(_) => {}
                }
            }
        }
        self.world.next_time().is_some()
    }

    fn send(&mut self, from: u32, to: u32, tag: u64, bytes: &[u8], completes: Completes, context: u64) {
        let buffer = RankLibrary { world: &mut self.world, rank: from }.allocate(bytes.len() as u64);
        self.world.processes().bytes(from, buffer, bytes.len() as u64).copy_from_slice(bytes);
        self.call(from, |endpoint, port| {
            let (length, target) = (bytes.len() as u64, ProcessId::on(NodeId(to), 1));
            let send = Send { queue: Queue::Tagged, target, tag, data: None, buffer, length, context, inject: false, completes };
            endpoint.send(port, send).unwrap();
        });
    }

    /// Room for `length` bytes; where it is.
    fn receive(&mut self, at: u32, from: Option<u32>, tag: u64, length: u64, context: u64) -> u64 {
        self.call(at, |endpoint, port| {
            let buffer = port.allocate(length);
            let source = from.map(|from| ProcessId::on(NodeId(from), 1));
            let receive = Receive {
                queue: Queue::Tagged,
                source,
                tag,
                ignore: 0,
                buffer,
                length,
                context,
                completion: true,
                multi: None,
                execution: 0,
            };
            endpoint.receive(port, receive).unwrap();
            buffer
        })
    }
}

fn one_switch() -> Topology {
    FatTree::one_switch(NODES).unwrap().build()
}

/// Loses this part of its packets from then on; of a node's cable both links, or of all.
fn loses(node: Option<u32>, loss: f64, from: SimTime) -> Vec<Fault> {
    let fault = Fault { loss: Probability::new(loss).unwrap(), from, ..Fault::default() };
    let Some(node) = node else { return vec![fault] };
    let topology = one_switch();
    let link = topology.injection(node);
    [link, topology.links()[link as usize].reverse].map(|link| Fault { link: Some(link), ..fault }).to_vec()
}

fn body(from: u32, number: u64, length: u64) -> Vec<u8> {
    (0..length).map(|index| (u64::from(from) * 89 + number * 31 + index) as u8).collect()
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    messages: u64,
    put: bool,
    ordered: bool,
    /// By rail: whose cable fails, and when in us; of one of the rails nobody's.
    deaths: Vec<(Option<u32>, u64)>,
    survivor: usize,
    loss: f64,
}

fn case() -> impl Strategy<Value = Case> {
    let death = (prop::option::of(0..NODES), 0..120u64);
    (
        any::<u64>(),
        1..60u64,
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(death, 2..5),
        any::<usize>(),
        prop_oneof![Just(0.0), Just(0.02)],
    )
        .prop_map(|(seed, messages, put, ordered, deaths, survivor, loss)| {
            let survivor = survivor % deaths.len();
            Case { seed, messages, put, ordered, deaths, survivor, loss }
        })
}

fn run(case: &Case) -> (u64, SimTime) {
    let faults = case.deaths.iter().enumerate().map(|(rail, &(node, at))| {
        let lossy = if case.loss > 0.0 { loses(None, case.loss, SimTime::ZERO) } else { Vec::new() };
        match rail == case.survivor {
            // It must be lucky enough: a flow has three tries.
            true => Vec::new(),
            false => [loses(node, 1.0, SimTime::from_us(at)), lossy].concat(),
        }
    });
    let faults: Vec<Vec<Fault>> = faults.collect();
    let (delivery, rendezvous) =
        (if case.ordered { Delivery::Ordered } else { Delivery::Unordered }, if case.put { Rendezvous::Put } else { Rendezvous::Get });
    let mut machine = Machine::new(&faults, delivery, rendezvous);
    let mut random = stream(case.seed, "failover", 0);
    // By pair and tag: lengths of what was sent, and where and with how much room it is expected, in order.
    let mut sent: BTreeMap<(u32, u32, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut rooms: BTreeMap<u64, (u32, u32, u64, usize, u64)> = BTreeMap::new();
    let mut calls: Vec<(bool, u32, u32, u64, u64)> = Vec::new();
    for number in 0..case.messages {
        let (from, to) = (random.below(NODES.into()) as u32, random.below(NODES.into()) as u32);
        let length = [0, 1, 64, 65, 600, 601, 1999, 2000, 6000][random.below(9) as usize];
        let tag = random.below(2);
        calls.push((true, from, to, tag, length));
        calls.push((false, from, to, tag, number));
    }
    // Any order of calls, over 150 us.
    for at in (1..calls.len()).rev() {
        calls.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut posted: BTreeMap<(u32, u32, u64), usize> = BTreeMap::new();
    let mut context = 0;
    for (sends, from, to, tag, length) in calls {
        let next = machine.world.now() + SimTime(random.below(150_000_000 / case.messages));
        machine.run(next);
        context += 1;
        if sends {
            let completes = [Completes::BufferFree, Completes::Delivered, Completes::Never][random.below(3) as usize];
            let of_pair = sent.entry((from, to, tag)).or_default();
            of_pair.push((context, length));
            let bytes = body(from, context, length);
            machine.send(from, to, tag, &bytes, completes, context);
        } else {
            let place = posted.entry((from, to, tag)).or_default();
            let buffer = machine.receive(to, Some(from), tag, 8000, context);
            rooms.insert(context, (from, to, tag, *place, buffer));
            *place += 1;
        }
    }
    let undelivered = |machine: &mut Machine| machine.world.undelivered().map(|undelivered| undelivered.to_string());
    assert!(!machine.run(SimTime::MAX), "everything ends: {:?}", undelivered(&mut machine));
    assert_eq!(undelivered(&mut machine), None);
    for rank in 0..NODES {
        while let Some(completion) = machine.endpoints[rank as usize].next_completion() {
            assert_eq!(completion.status, Status::Ok);
            if completion.kind == CompletionKind::Receive {
                let (from, to, tag, place, buffer) = rooms.remove(&completion.context).expect("once");
                let (number, length) = sent[&(from, to, tag)][place];
                assert_eq!((to, completion.length), (rank, length));
                assert_eq!(machine.world.processes().bytes(to, buffer, length), body(from, number, length));
            }
        }
        let pending = machine.endpoints[rank as usize].pending();
        assert_eq!((pending.requests.len(), pending.claims), (0, 0), "{pending:?}");
    }
    assert!(rooms.is_empty(), "all are here");
    assert_eq!(machine.world.held(), 0);
    (machine.world.recorded_by_rail().iter().map(|rail| rail.carried).sum(), machine.world.now())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever fails and is lost, as long as one rail is left.
    #[test]
    fn messages_arrive_once_in_order_and_whole(case in case()) {
        run(&case);
    }
}

/// The rails of a run that does fail, and twice the same.
#[test]
fn what_a_failed_rail_had_goes_over_the_others() {
    for (put, ordered) in [(false, false), (false, true), (true, false), (true, true)] {
        let deaths = vec![(Some(0), 20), (None, 40), (None, 0), (Some(1), 60)];
        let case = Case { seed: 7, messages: 50, put, ordered, deaths, survivor: 2, loss: 0.0 };
        let (carried, end) = run(&case);
        assert!(carried > 20, "{carried}");
        assert_eq!(run(&case), (carried, end));
    }
}

/// n bytes on two rails, one of which is dead from the start: the flow is given up after its time-outs, then all goes
/// over the other one, as fast as that is.
#[test]
fn the_other_rail_carries_what_was_left() {
    let (bytes, fragments) = (900_000, 1000);
    let message = |faults: &[Vec<Fault>]| {
        let mut machine = Machine::new(faults, Delivery::Unordered, Rendezvous::Get);
        machine.run(SimTime::MAX);
        let start = machine.world.now();
        machine.receive(1, Some(0), 1, bytes, 1);
        machine.send(0, 1, 1, &body(0, 0, bytes), Completes::BufferFree, 2);
        machine.run(SimTime::MAX);
        assert_eq!(machine.endpoints[1].next_completion().unwrap().status, Status::Ok);
        (machine.world.now() - start, machine.world.recorded_by_rail())
    };
    let (alone, _) = message(&[vec![]]);
    let (failed, rails) = message(&[vec![], loses(Some(1), 1.0, SimTime::ZERO)]);
    // The gets of the second rail wait for three time-outs, and then the answers that the target has given there.
    assert!(failed > alone && failed < alone + TIMEOUT * 6, "{failed}, {alone} alone");
    let carried = |rails: &[RailTotals]| rails.iter().map(|&RailTotals { carried, .. }| carried).collect::<Vec<_>>();
    assert_eq!(carried(&rails), [fragments, 0], "500 gets and their answers");
    // Of four rails the other three carry a third each.
    let dead = loses(Some(1), 1.0, SimTime::ZERO);
    let (_, rails) = message(&[vec![], vec![], dead, vec![]]);
    assert_eq!(carried(&rails).iter().sum::<u64>(), fragments / 2);
    assert!(carried(&rails).iter().enumerate().all(|(rail, &carried)| rail == 2 && carried == 0 || carried.abs_diff(fragments / 6) <= 2));
}

/// Without another rail it is the end, with the link that is to blame.
#[test]
fn no_rail_is_left() {
    let dead = loses(Some(1), 1.0, SimTime::ZERO);
    for faults in [vec![dead.clone()], vec![dead.clone(), dead]] {
        let mut machine = Machine::new(&faults, Delivery::Ordered, Rendezvous::Get);
        machine.send(0, 1, 1, &[1], Completes::BufferFree, 1);
        machine.run(SimTime::MAX);
        let said = machine.world.undelivered().unwrap().to_string();
        assert!(said.contains("node 0 has given up sending to node 1 in virtual network 0"), "{said}");
        assert!(said.contains("(link node1 on the way has a fault)"), "{said}");
    }
}
