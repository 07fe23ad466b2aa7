//! Random programs against the matching rules of MPI, written down as two lists per process.

use crate::common::Fabric;
use crate::modules::modules;
use narrows_message::{
    Completes, Completion, CompletionKind, Distribution, Endpoint, MessageConfig, MpcConfig, Peek, Protocol, Queue, RailChoice, RailConfig,
    Rails, Receive, Registration, Rendezvous, Send, Status,
};
use narrows_units::{Rail, SimTime};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const EAGER: u64 = 8;
const INJECT: u64 = 4;
const PORTALS: u64 = 10;

#[derive(Clone, Debug)]
enum Op {
    Send {
        from: usize,
        to: usize,
        tagged: bool,
        tag: u64,
        length: u64,
        data: bool,
        inject: bool,
        completes: u8,
    },
    Receive {
        at: usize,
        from: Option<usize>,
        tagged: bool,
        tag: u64,
        ignore: u64,
        length: u64,
        completion: bool,
    },
    Peek {
        at: usize,
        from: Option<usize>,
        tagged: bool,
        tag: u64,
        ignore: u64,
        claim: bool,
    },
    ReceiveClaimed {
        at: usize,
        pick: usize,
        length: u64,
    },
    Discard {
        at: usize,
        pick: usize,
    },
    Cancel {
        at: usize,
        pick: usize,
    },
    Deliver {
        pick: usize,
        count: usize,
    },
    Event {
        at: usize,
        count: usize,
    },
    /// A gateway dies, if another one is left; all that its NICs have is lost, or not.
    Die {
        which: usize,
        all: bool,
    },
    /// A process hears of it.
    Hear {
        at: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let rank = 0..4usize;
    let from = || prop_oneof![1 => Just(None), 2 => (0..4usize).prop_map(Some)];
    let tag = || 0..3u64;
    let ignore = || prop_oneof![3 => Just(0u64), 1 => Just(1u64), 1 => Just(u64::MAX)];
    // Around the inject, eager and Portals limits, and cut into up to four pieces.
    let length = || prop_oneof![Just(0), Just(1), INJECT - 1..INJECT + 2, EAGER - 1..EAGER + 2, PORTALS - 1..PORTALS + 2, 0..41u64];
    prop_oneof![
        5 => (rank.clone(), rank.clone(), any::<bool>(), tag(), length(), any::<bool>(), any::<bool>(), 0..3u8)
            .prop_map(|(from, to, tagged, tag, length, data, inject, completes)| Op::Send { from, to, tagged, tag, length, data, inject, completes }),
        5 => (rank.clone(), from(), any::<bool>(), tag(), ignore(), length(), any::<bool>())
            .prop_map(|(at, from, tagged, tag, ignore, length, completion)| Op::Receive { at, from, tagged, tag, ignore, length, completion }),
        2 => (rank.clone(), from(), any::<bool>(), tag(), ignore(), any::<bool>())
            .prop_map(|(at, from, tagged, tag, ignore, claim)| Op::Peek { at, from, tagged, tag, ignore, claim }),
        1 => (rank.clone(), any::<usize>(), length()).prop_map(|(at, pick, length)| Op::ReceiveClaimed { at, pick, length }),
        1 => (rank.clone(), any::<usize>()).prop_map(|(at, pick)| Op::Discard { at, pick }),
        1 => (rank.clone(), any::<usize>()).prop_map(|(at, pick)| Op::Cancel { at, pick }),
        5 => (any::<usize>(), 1..4usize).prop_map(|(pick, count)| Op::Deliver { pick, count }),
        4 => (rank.clone(), 1..6usize).prop_map(|(at, count)| Op::Event { at, count }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(which, all)| Op::Die { which, all }),
        1 => rank.prop_map(|at| Op::Hear { at }),
    ]
}

#[derive(Clone, Debug)]
struct Sent {
    send: Send,
    from: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Wanted {
    receive: Receive,
}

/// What must come out, by context.
#[derive(Clone, Debug)]
struct Expected {
    kind: CompletionKind,
    status: Status,
    message: Option<Sent>,
    length: u64,
    optional: bool,
}

/// The rules: per process and queue a list of receives and a list of messages.
#[derive(Default)]
struct Oracle {
    flying: BTreeMap<(usize, usize, bool), VecDeque<Sent>>,
    posted: BTreeMap<(usize, bool), Vec<Wanted>>,
    unexpected: BTreeMap<(usize, bool), Vec<Sent>>,
    claimed: BTreeMap<usize, Vec<(u64, Sent)>>,
    expected: BTreeMap<u64, Expected>,
    // Where the message of a send went to, and what must be there: rank, buffer, bytes.
    delivered: BTreeMap<u64, (usize, u64, Vec<u8>)>,
}

fn fits(tagged: bool, source: Option<narrows_portals::ProcessId>, tag: u64, ignore: u64, fabric: &Fabric, sent: &Sent) -> bool {
    source.is_none_or(|source| source == fabric.id(sent.from)) && (!tagged || (sent.send.tag ^ tag) & !ignore == 0)
}

impl Oracle {
    fn matched(&mut self, at: usize, receive: &Receive, sent: Sent) {
        let length = receive.length.min(sent.send.length);
        let status = if length < sent.send.length { Status::Truncated } else { Status::Ok };
        self.sent_is_done(&sent);
        self.delivered.insert(sent.send.context, (at, receive.buffer, sent.bytes[..length as usize].to_vec()));
        let optional = !receive.completion && status == Status::Ok;
        self.expected.insert(receive.context, Expected { kind: CompletionKind::Receive, status, message: Some(sent), length, optional });
    }

    fn sent_is_done(&mut self, sent: &Sent) {
        if sent.send.completes != Completes::Never {
            let expected =
                Expected { kind: CompletionKind::Send, status: Status::Ok, message: None, length: sent.send.length, optional: false };
            self.expected.insert(sent.send.context, expected);
        }
    }

    fn arrive(&mut self, fabric: &Fabric, from: usize, to: usize, tagged: bool) {
        let sent = self.flying.get_mut(&(from, to, tagged)).unwrap().pop_front().unwrap();
        let posted = self.posted.entry((to, tagged)).or_default();
        let place =
            posted.iter().position(|wanted| fits(tagged, wanted.receive.source, wanted.receive.tag, wanted.receive.ignore, fabric, &sent));
        match place {
            Some(place) => {
                let wanted = posted.remove(place);
                self.matched(to, &wanted.receive, sent);
            }
            None => self.unexpected.entry((to, tagged)).or_default().push(sent),
        }
    }
}

struct World {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
    oracle: Oracle,
    got: Vec<Vec<Completion>>,
    context: u64,
    buffers: BTreeMap<u64, (usize, u64, u64)>,
    seen: usize,
    by_get: bool,
    rails: Rails,
    long_delivered: BTreeMap<u64, bool>,
    /// Gateways that are dead, and of how many each process has heard.
    dead: Vec<usize>,
    heard: [usize; 4],
}

impl World {
    fn new(config: &MessageConfig, busy: bool) -> World {
        let mut fabric = Fabric::new(4);
        fabric.busy_until_taken = busy;
        fabric.open_gates(&config.rails);
        let endpoints = fabric.endpoints(config);
        World {
            fabric,
            endpoints,
            oracle: Oracle::default(),
            got: vec![Vec::new(); 4],
            context: 0,
            buffers: BTreeMap::new(),
            seen: 0,
            by_get: config.rendezvous == Rendezvous::Get,
            rails: config.rails.clone(),
            long_delivered: BTreeMap::new(),
            dead: Vec::new(),
            heard: [0; 4],
        }
    }

    /// Longest eager message between two.
    fn eager(rails: &Rails, from: usize, to: usize) -> u64 {
        match rails.bridging() {
            Some(bridging) if from / 2 != to / 2 => EAGER.min(bridging.fragment),
            _ => EAGER,
        }
    }

    /// A process hears of all gateways that are dead.
    fn hear(&mut self, at: usize) {
        while let Some(&gateway) = self.dead.get(self.heard[at]) {
            self.heard[at] += 1;
            self.endpoints[at].gateway_gone(&mut self.fabric.process(at), gateway);
            self.completions(at);
        }
    }

    fn context(&mut self) -> u64 {
        self.context += 1;
        self.context
    }

    fn arrivals(&mut self) {
        while self.seen < self.fabric.arrivals.len() {
            let (from, to, pt) = self.fabric.arrivals[self.seen];
            self.seen += 1;
            if pt < 2 {
                self.oracle.arrive(&self.fabric, from, to, pt == 0);
            }
        }
    }

    fn completions(&mut self, at: usize) {
        while let Some(completion) = self.endpoints[at].next_completion() {
            if completion.kind == CompletionKind::Send {
                let (rank, buffer, length) = self.buffers[&completion.context];
                if self.long_delivered[&completion.context]
                    && let Some((to, room, bytes)) = self.oracle.delivered.get(&completion.context)
                {
                    assert_eq!(self.fabric.bytes(*to, *room, bytes.len() as u64), bytes, "delivered means that the bytes are there");
                }
                // Whoever still reads the buffer now reads rubbish.
                self.fabric.write(rank, buffer, &vec![0xee; length as usize]);
            }
            self.got[at].push(completion);
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Send { from, to, tagged, tag, length, data, inject, completes } => {
                let context = self.context();
                let bytes: Vec<u8> = (0..length).map(|index| (context as u8).wrapping_mul(31).wrapping_add(index as u8) | 1).collect();
                let buffer = self.fabric.place(from, &bytes);
                let inject = inject && length <= INJECT;
                let send = Send {
                    queue: if tagged { Queue::Tagged } else { Queue::Untagged },
                    target: self.fabric.id(to),
                    tag: if tagged { tag } else { 0 },
                    data: data.then_some(context as u32),
                    buffer,
                    length,
                    context,
                    inject,
                    completes: [Completes::Never, Completes::BufferFree, Completes::Delivered][completes as usize],
                };
                self.endpoints[from].send(&mut self.fabric.process(from), send).unwrap();
                self.buffers.insert(context, (from, buffer, length));
                self.long_delivered.insert(context, length > EAGER && send.completes == Completes::Delivered);
                let sent = Sent { send, from, bytes };
                if inject {
                    self.fabric.write(from, buffer, &vec![0xdd; length as usize]);
                }
                if length <= World::eager(&self.rails, from, to) {
                    self.oracle.sent_is_done(&sent);
                }
                self.oracle.flying.entry((from, to, tagged)).or_default().push_back(sent);
            }
            Op::Receive { at, from, tagged, tag, ignore, length, completion } => {
                let context = self.context();
                let receive = self.receive_of(at, from, tagged, tag, ignore, length, completion, context);
                self.endpoints[at].receive(&mut self.fabric.process(at), receive).unwrap();
                let unexpected = self.oracle.unexpected.entry((at, tagged)).or_default();
                match unexpected.iter().position(|sent| fits(tagged, receive.source, tag, ignore, &self.fabric, sent)) {
                    Some(place) => {
                        let sent = unexpected.remove(place);
                        self.oracle.matched(at, &receive, sent);
                    }
                    None => self.oracle.posted.entry((at, tagged)).or_default().push(Wanted { receive }),
                }
            }
            Op::Peek { at, from, tagged, tag, ignore, claim } => {
                let context = self.context();
                let queue = if tagged { Queue::Tagged } else { Queue::Untagged };
                let source = from.map(|rank| self.fabric.id(rank));
                let before = self.endpoints[at].searches_pending();
                self.endpoints[at].peek(&mut self.fabric.process(at), Peek { queue, source, tag, ignore, context, claim }).unwrap();
                assert_eq!(self.endpoints[at].searches_pending(), before + 1);
                let unexpected = self.oracle.unexpected.entry((at, tagged)).or_default();
                let place = unexpected.iter().position(|sent| fits(tagged, source, tag, ignore, &self.fabric, sent));
                let message = place.map(|place| unexpected[place].clone());
                if let (true, Some(place)) = (claim, place) {
                    let sent = unexpected.remove(place);
                    self.oracle.claimed.entry(at).or_default().push((context, sent));
                }
                let status = if message.is_some() { Status::Ok } else { Status::NoMessage };
                let length = message.as_ref().map_or(0, |sent| sent.send.length);
                self.oracle.expected.insert(context, Expected { kind: CompletionKind::Peek, status, message, length, optional: false });
            }
            Op::ReceiveClaimed { at, pick, length } => {
                let Some((claim, sent)) = self.pick_claim(at, pick) else {
                    let receive = self.receive_of(at, None, true, 0, 0, length, true, 0);
                    assert!(self.endpoints[at].receive_claimed(&mut self.fabric.process(at), u64::MAX, receive).is_err());
                    return;
                };
                let context = self.context();
                let tagged = sent.send.queue == Queue::Tagged;
                let receive = self.receive_of(at, None, tagged, sent.send.tag, 0, length, true, context);
                self.endpoints[at].receive_claimed(&mut self.fabric.process(at), claim, receive).unwrap();
                self.oracle.matched(at, &receive, sent);
            }
            Op::Discard { at, pick } => {
                if let Some((claim, sent)) = self.pick_claim(at, pick) {
                    self.endpoints[at].discard_claimed(&mut self.fabric.process(at), claim).unwrap();
                    self.oracle.sent_is_done(&sent);
                }
            }
            Op::Cancel { at, pick } => {
                // Any receive that has not completed, whether its message is here or not.
                let done: Vec<u64> = self.got[at].iter().map(|completion| completion.context).collect();
                let mut open: Vec<(u64, bool, bool)> = Vec::new();
                for tagged in [false, true] {
                    for wanted in self.oracle.posted.get(&(at, tagged)).into_iter().flatten() {
                        open.push((wanted.receive.context, tagged, true));
                    }
                }
                for (context, expected) in &self.oracle.expected {
                    let at_this = self.buffers.get(context).is_some_and(|(rank, ..)| *rank == at);
                    if expected.kind == CompletionKind::Receive && at_this && !done.contains(context) {
                        let tagged = expected.message.as_ref().is_some_and(|sent| sent.send.queue == Queue::Tagged);
                        open.push((*context, tagged, false));
                    }
                }
                if open.is_empty() {
                    return;
                }
                let (context, tagged, removable) = open[pick % open.len()];
                let queue = if tagged { Queue::Tagged } else { Queue::Untagged };
                let cancelled = self.endpoints[at].cancel(&mut self.fabric.process(at), queue, context, 0) == Some(true);
                assert_eq!(cancelled, removable, "a receive can be cancelled exactly when no message has matched it");
                if cancelled {
                    self.oracle.posted.get_mut(&(at, tagged)).unwrap().retain(|wanted| wanted.receive.context != context);
                    let expected =
                        Expected { kind: CompletionKind::Receive, status: Status::Cancelled, message: None, length: 0, optional: false };
                    self.oracle.expected.insert(context, expected);
                }
            }
            Op::Deliver { pick, count } => {
                let channels = self.fabric.channels();
                if !channels.is_empty() {
                    for _ in 0..count {
                        self.fabric.deliver(channels[pick % channels.len()]);
                        self.arrivals();
                    }
                }
            }
            Op::Die { which, all } => {
                let count = self.rails.bridging().map_or(0, |bridging| bridging.gateways.len());
                let which = which % count.max(1);
                if self.dead.len() + 1 < count && !self.dead.contains(&which) {
                    self.fabric.kill(which, all);
                    self.dead.push(which);
                }
            }
            Op::Hear { at } => self.hear(at),
            Op::Event { at, count } => {
                for _ in 0..count {
                    if let Some(event) = self.fabric.take(at) {
                        self.endpoints[at].event(&mut self.fabric.process(at), event).unwrap();
                        self.completions(at);
                    }
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn receive_of(
        &mut self,
        at: usize,
        from: Option<usize>,
        tagged: bool,
        tag: u64,
        ignore: u64,
        length: u64,
        completion: bool,
        context: u64,
    ) -> Receive {
        // One byte more, to see that nothing is written behind the end.
        let buffer = self.fabric.place(at, &vec![0; length as usize + 1]);
        self.buffers.insert(context, (at, buffer, length));
        let queue = if tagged { Queue::Tagged } else { Queue::Untagged };
        Receive {
            queue,
            source: from.map(|rank| self.fabric.id(rank)),
            tag,
            ignore,
            buffer,
            length,
            context,
            completion,
            multi: None,
            execution: 0,
        }
    }

    /// A claim whose peek has completed.
    fn pick_claim(&mut self, at: usize, pick: usize) -> Option<(u64, Sent)> {
        let known: Vec<u64> = self.got[at].iter().map(|completion| completion.context).collect();
        let claimed = self.oracle.claimed.get_mut(&at)?;
        let ready: Vec<usize> = (0..claimed.len()).filter(|place| known.contains(&claimed[*place].0)).collect();
        (!ready.is_empty()).then(|| claimed.remove(ready[pick % ready.len()]))
    }

    /// Lets everything come to rest, then compares.
    fn finish(mut self) {
        (0..4).for_each(|at| self.hear(at));
        loop {
            let mut moved = false;
            for channel in self.fabric.channels() {
                while self.fabric.deliver(channel) {
                    moved = true;
                    self.arrivals();
                }
            }
            for at in 0..4 {
                while let Some(event) = self.fabric.take(at) {
                    moved = true;
                    self.endpoints[at].event(&mut self.fabric.process(at), event).unwrap();
                }
                self.completions(at);
            }
            if !moved {
                break;
            }
        }
        assert_eq!(self.fabric.channels(), [], "every message arrives");
        let mut expected = std::mem::take(&mut self.oracle.expected);
        for at in 0..4 {
            for completion in &self.got[at] {
                let wanted = expected.remove(&completion.context).unwrap_or_else(|| panic!("rank {at}: nobody expects {completion:?}"));
                assert_eq!((completion.kind, completion.status), (wanted.kind, wanted.status), "{completion:?}");
                assert!(!completion.released);
                assert!(!wanted.optional, "{completion:?} was not asked for");
                assert_eq!(completion.length, wanted.length, "{completion:?}");
                let Some(sent) = &wanted.message else { continue };
                assert_eq!(completion.source, self.fabric.id(sent.from));
                assert_eq!((completion.tag, completion.data), (sent.send.tag, sent.send.data));
                assert_eq!(completion.full_length, sent.send.length);
            }
        }
        for (context, wanted) in &expected {
            assert!(wanted.optional, "no completion {context} for {wanted:?}");
        }
        // The data of all receives, with and without completion. The senders have scribbled over theirs.
        for (rank, buffer, bytes) in self.oracle.delivered.values() {
            let length = bytes.len() as u64;
            assert_eq!(self.fabric.bytes(*rank, *buffer, length), bytes);
            assert_eq!(self.fabric.bytes(*rank, *buffer + length, 1), [0], "nothing behind the message");
        }
        for at in 0..4 {
            let pending = self.endpoints[at].pending();
            let posted: usize = [false, true].iter().map(|tagged| self.oracle.posted.get(&(at, *tagged)).map_or(0, Vec::len)).sum();
            assert_eq!(pending.receives, posted);
            assert_eq!(pending.claims, self.oracle.claimed.get(&at).map_or(0, Vec::len));
            assert_eq!(self.endpoints[at].searches_pending(), 0);
            // Long sends that nobody has received, and nothing else.
            let (rails, fabric) = (&self.rails, &self.fabric);
            let unreceived = |sent: &&Sent| sent.from == at && sent.send.length > World::eager(rails, at, fabric.rank(sent.send.target));
            let waiting = self.oracle.unexpected.values().flatten().filter(unreceived).count()
                + self.oracle.claimed.values().flatten().map(|(_, sent)| sent).filter(unreceived).count();
            assert_eq!(pending.sends, waiting);
            assert_eq!(pending.requests.len(), posted + waiting, "{pending:?}");
            if self.rails.bridging().is_some() {
                // Those of the own module, and none of the others, are where only its NIC sees them.
            } else if self.rails.all().len() == 1 {
                let offered = if self.by_get { waiting } else { 0 };
                assert_eq!(self.fabric.posted(at, 2), offered, "entries for the data of long messages go with them");
            } else if waiting == 0 || !self.by_get {
                for rail in 0..4 {
                    assert_eq!(self.fabric.posted(at, rail << 8 | 2), 0, "entries for the pieces of long messages go with them");
                }
            }
        }
    }
}

fn config(by_get: bool, block: u64, blocks: u32, rails: Option<(Vec<(u64, u64)>, MpcConfig)>) -> MessageConfig {
    let (protocol, rails) = match rails {
        None => (Protocol::Openmpi, Rails::default()),
        Some((rails, mpc)) => {
            (Protocol::Mpc(mpc), Rails::of((0..).map(Rail).zip(rails).map(|(rail, (rate, minimum))| RailConfig { rail, rate, minimum })))
        }
    };
    MessageConfig {
        protocol,
        rails,
        eager_limit: EAGER,
        inject_limit: INJECT,
        rendezvous: if by_get { Rendezvous::Get } else { Rendezvous::Put },
        overflow_block: block,
        overflow_blocks: blocks,
        max_portals_message: PORTALS,
    }
}

fn mpc() -> impl Strategy<Value = MpcConfig> {
    let distribution = prop_oneof![Just(Distribution::Even), Just(Distribution::Rates), (1..12u64).prop_map(Distribution::Fragments)];
    let choice = prop_oneof![Just(RailChoice::RoundRobin), Just(RailChoice::LeastLoaded)];
    let registration = (0..3u64, 0..3u64, 0..60u64).prop_map(|(cost, per_kib, cache)| Registration {
        cost: SimTime(cost),
        per_kib: SimTime(per_kib),
        cache,
    });
    (0..30u64, distribution, choice, registration).prop_map(|(minimum, distribution, choice, registration)| MpcConfig {
        minimum,
        distribution,
        choice,
        registration,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Sends, receives, peeks, claims and cancels of four processes, interleaved at will with the
    /// network and with the processing of events, give what the lists of the oracle give.
    #[test]
    fn messages_match_as_mpi_says(
        by_get in any::<bool>(),
        block in EAGER..40,
        blocks in 1..3u32,
        busy in any::<bool>(),
        rails in prop::option::of((prop::collection::vec((1..9u64, prop_oneof![Just(0), 0..40u64]), 1..=3), mpc())),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        let mut world = World::new(&config(by_get, block, blocks, rails), busy);
        for op in &ops {
            world.step(op);
        }
        world.finish();
    }

    /// The same of two modules with gateways between them, of which all but one may die at any time: everything comes
    /// once, in order, byte for byte.
    #[test]
    fn so_they_do_over_gateways(
        by_get in any::<bool>(),
        block in EAGER..40,
        blocks in 1..3u32,
        busy in any::<bool>(),
        bridging in modules(INJECT..14),
        rails in prop::option::of(mpc()),
        ops in proptest::collection::vec(op(), 1..150),
    ) {
        // With two rails inside of each.
        let several = rails.map(|mpc| (vec![(1, 0)], mpc));
        let config = MessageConfig { rails: Rails::bridged(bridging), ..config(by_get, block, blocks, several) };
        let mut world = World::new(&config, busy);
        for op in &ops {
            world.step(op);
        }
        world.finish();
    }
}
