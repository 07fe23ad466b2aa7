//! The eager queues of pscom4portals: random messages arrive once, in MPI's order, byte for byte, whatever is dropped,
//! and whichever gateways die.

use crate::common::Fabric;
use crate::modules::{bridging, modules};
use narrows_message::{
    Completes, Completion, CompletionKind, Endpoint, GatewayChoice, MessageConfig, Peek, Protocol, PscomConfig, Queue, Rails, Receive,
    Rendezvous, Send, Status,
};
use narrows_units::Rail;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RANKS: usize = 4;

fn config(buffer: u64, receive_buffers: u32, send_buffers: u32, eager_limit: u64) -> MessageConfig {
    MessageConfig {
        protocol: Protocol::Pscom(PscomConfig { buffer, receive_buffers, send_buffers, rendezvous_requests: 2, fragment: 7 }),
        rails: Default::default(),
        eager_limit,
        inject_limit: 4.min(eager_limit),
        rendezvous: Rendezvous::Put,
        overflow_block: 1,
        overflow_blocks: 1,
        max_portals_message: 1 << 20,
    }
}

#[allow(clippy::too_many_arguments)] // each of them is named where it is given
fn send_of(fabric: &mut Fabric, from: usize, to: usize, tag: u64, context: u64, length: u64, completes: Completes, inject: bool) -> Send {
    let bytes: Vec<u8> = (0..length).map(|place| (place * 7 + context * 31) as u8).collect();
    let buffer = fabric.place(from, &bytes);
    let data = Some(context as u32);
    let queue = if context.is_multiple_of(5) { Queue::Untagged } else { Queue::Tagged };
    Send { queue, target: fabric.id(to), tag, data, buffer, length, context, inject, completes }
}

#[derive(Clone, Debug)]
struct Planned {
    from: usize,
    to: usize,
    tag: u64,
    length: u64,
    completes: u8,
    inject: bool,
    /// The receive is posted after so many further steps.
    late: usize,
    any_source: bool,
    short: bool,
    /// What happens between this and the next one.
    events: usize,
}

fn planned() -> impl Strategy<Value = Planned> {
    let length = prop_oneof![2 => Just(0u64), 4 => 1..12u64, 4 => 12..80u64];
    (0..RANKS, 0..RANKS, 0..2u64, length, 0..3u8, any::<bool>(), 0..12usize, (any::<bool>(), any::<bool>()), 0..60usize).prop_map(
        |(from, to, tag, length, completes, inject, late, (any_source, short), events)| Planned {
            from,
            to,
            tag,
            length,
            completes,
            inject,
            late,
            any_source,
            short: short && length > 3,
            events,
        },
    )
}

/// From a rank to another, in a queue under a tag.
type Stream = (usize, usize, bool, u64);

struct Run {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
    /// On their way: their stream and length.
    messages: BTreeMap<u64, (Stream, u64)>,
    /// Those that have arrived, and the place of their receive among all.
    streams: BTreeMap<Stream, Vec<(usize, u64)>>,
    /// Receives by context: where, how long, and their place among all.
    receives: BTreeMap<u64, (usize, u64, u64, usize)>,
    posted: usize,
    sends: BTreeMap<u64, usize>,
    gateways: usize,
    /// Those that are dead, and of how many each process has heard.
    dead: Vec<usize>,
    heard: [usize; RANKS],
}

impl Run {
    fn look(&mut self) {
        for at in 0..RANKS {
            while let Some(completion) = self.endpoints[at].next_completion() {
                match completion.kind {
                    CompletionKind::Send => {
                        assert_eq!(completion.status, Status::Ok);
                        assert_eq!(self.sends.remove(&completion.context), Some(at), "a send completes once");
                    }
                    CompletionKind::Receive => self.received(at, &completion),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn received(&mut self, at: usize, completion: &Completion) {
        let (rank, buffer, room, order) = self.receives.remove(&completion.context).expect("a receive completes once");
        assert_eq!(rank, at);
        let context = u64::from(completion.data.expect("all messages here carry their number"));
        let (stream, length) = self.messages.remove(&context).expect("a message arrives once");
        assert_eq!((self.fabric.rank(completion.source), at), (stream.0, stream.1));
        assert_eq!((completion.queue == Queue::Untagged, completion.tag), (stream.2, stream.3));
        let fits = length.min(room);
        assert_eq!((completion.full_length, completion.length), (length, fits), "message {context}");
        assert_eq!(completion.status, if fits < length { Status::Truncated } else { Status::Ok });
        self.streams.entry(stream).or_default().push((order, context));
        let bytes: Vec<u8> = (0..fits).map(|place| (place * 7 + context * 31) as u8).collect();
        if fits > 0 {
            assert_eq!(self.fabric.bytes(at, buffer, fits), bytes, "message {context}");
        }
    }

    fn post(&mut self, context: u64, plan: &Planned, queue: Queue) {
        let room = if plan.short { plan.length - 2 } else { 80 };
        let buffer = self.fabric.place(plan.to, &[0; 80]);
        let receive = Receive {
            queue,
            source: (!plan.any_source).then(|| self.fabric.id(plan.from)),
            tag: plan.tag,
            ignore: 0,
            buffer,
            length: room,
            context,
            completion: true,
            multi: None,
            execution: 0,
        };
        self.posted += 1;
        self.receives.insert(context, (plan.to, buffer, room, self.posted));
        self.endpoints[plan.to].receive(&mut self.fabric.process(plan.to), receive).unwrap();
    }
}

/// What happens beside the calls: which, and what.
type Picks = Vec<(usize, u8)>;

fn picks() -> impl Strategy<Value = Picks> {
    prop::collection::vec((any::<usize>(), 0..24u8), 0..300)
}

impl Run {
    fn new(config: &MessageConfig) -> Run {
        let mut fabric = Fabric::new(RANKS);
        fabric.open_gates(&config.rails);
        let endpoints = fabric.endpoints(config);
        Run {
            fabric,
            endpoints,
            messages: BTreeMap::new(),
            streams: BTreeMap::new(),
            receives: BTreeMap::new(),
            posted: 0,
            sends: BTreeMap::new(),
            gateways: config.rails.gateways().len(),
            dead: Vec::new(),
            heard: [0; RANKS],
        }
    }

    fn send(&mut self, plan: &Planned, context: u64, config: &MessageConfig) -> Queue {
        let inject = plan.inject && plan.length <= config.inject_limit;
        let completes = [Completes::Never, Completes::BufferFree, Completes::Delivered][plan.completes as usize];
        let send = send_of(&mut self.fabric, plan.from, plan.to, plan.tag, context, plan.length, completes, inject);
        let untagged = send.queue == Queue::Untagged;
        let stream = (plan.from, plan.to, untagged, if untagged { 0 } else { plan.tag });
        self.messages.insert(context, (stream, plan.length));
        if completes != Completes::Never {
            self.sends.insert(context, plan.from);
        }
        self.endpoints[plan.from].send(&mut self.fabric.process(plan.from), send).unwrap();
        send.queue
    }

    /// A gateway dies, if another one is left, with or without what its NICs have.
    fn die(&mut self, pick: usize) {
        let which = pick % self.gateways.max(1);
        if self.dead.len() + 1 < self.gateways && !self.dead.contains(&which) {
            self.fabric.kill(which, pick.is_multiple_of(2));
            self.dead.push(which);
        }
    }

    /// A process hears of all gateways that are dead.
    fn hear(&mut self, at: usize) {
        while let Some(&gateway) = self.dead.get(self.heard[at]) {
            self.heard[at] += 1;
            self.endpoints[at].gateway_gone(&mut self.fabric.process(at), gateway);
        }
    }

    fn happens(&mut self, (pick, what): (usize, u8)) {
        let channels = self.fabric.channels();
        let at = pick % RANKS;
        match what {
            23 => self.die(pick),
            22 => self.hear(at),
            _ if what % 3 > 0 && !channels.is_empty() => {
                self.fabric.deliver(channels[pick % channels.len()]);
            }
            _ => {
                if let Some(event) = self.fabric.take(at) {
                    self.endpoints[at].event(&mut self.fabric.process(at), event).unwrap();
                }
            }
        }
    }

    /// All of it, to the end.
    fn all(mut self, config: &MessageConfig, plans: &[Planned], picks: Picks) -> Result<(), TestCaseError> {
        let mut late: Vec<(usize, u64, Planned, Queue)> = Vec::new();
        let mut picks = picks.into_iter().cycle();
        for (step, plan) in plans.iter().enumerate() {
            let context = step as u64 + 1;
            let queue = self.send(plan, context, config);
            late.push((step + plan.late, 1000 + context, plan.clone(), queue));
            let due: Vec<_> = late.extract_if(.., |(at, ..)| *at <= step).collect();
            for (_, context, plan, queue) in due {
                self.post(context, &plan, queue);
            }
            picks.by_ref().take(plan.events).for_each(|pick| self.happens(pick));
            if step == plans.len() / 2 {
                for at in 0..RANKS {
                    self.endpoints[at].renew(&mut self.fabric.process(at));
                }
            }
            self.look();
        }
        for (_, context, plan, queue) in late {
            self.post(context, &plan, queue);
        }
        // Receives of any source may have taken messages for which others wait: more of those for all.
        for context in 0..plans.len() as u64 {
            let plan = &plans[context as usize];
            for (at, queue) in [(0, Queue::Tagged), (1, Queue::Untagged)] {
                let open = Planned { any_source: true, short: false, ..plan.clone() };
                self.post(5000 + 2 * context + at, &open, queue);
            }
        }
        (0..RANKS).for_each(|at| self.hear(at));
        self.fabric.run(&mut self.endpoints);
        self.look();
        prop_assert!(self.messages.is_empty(), "lost: {:?}", self.messages);
        prop_assert!(self.sends.is_empty(), "not complete: {:?}", self.sends);
        for (stream, mut arrived) in self.streams {
            // Of two messages of a stream the one that was sent first went to the receive that was posted first.
            arrived.sort_unstable();
            prop_assert!(arrived.is_sorted_by_key(|&(_, context)| context), "{stream:?}: {arrived:?}");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(900) })]

    /// Of one module, or of two with gateways between them, of which all but one may die at any time.
    #[test]
    fn messages_arrive_once_in_order_and_whole(
        plans in prop::collection::vec(planned(), 1..40),
        picks in picks(),
        buffer in 1..12u64,
        (send_buffers, more) in (1..4u32, 0..3u32),
        eager_limit in 1..40u64,
        bridging in prop::option::of(modules(1..10)),
    ) {
        let mut config = config(buffer, send_buffers + more, send_buffers, eager_limit);
        if let Some(bridging) = bridging {
            config.rails = Rails::bridged(bridging);
        }
        Run::new(&config).all(&config, &plans, picks)?;
    }
}

/// Two ranks that have talked already.
fn pair(config: &MessageConfig) -> (Fabric, Vec<Endpoint>) {
    let mut fabric = Fabric::new(2);
    let mut endpoints = fabric.endpoints(config);
    let first = send_of(&mut fabric, 0, 1, 9, 1, 1, Completes::Never, false);
    endpoints[0].send(&mut fabric.process(0), first).unwrap();
    receive(&mut fabric, &mut endpoints, 9, 1);
    fabric.run(&mut endpoints);
    assert!(endpoints[1].next_completion().is_some());
    (fabric, endpoints)
}

fn receive(fabric: &mut Fabric, endpoints: &mut [Endpoint], tag: u64, context: u64) -> u64 {
    let buffer = fabric.place(1, &[0; 4096]);
    let receive = Receive {
        queue: Queue::Tagged,
        source: None,
        tag,
        ignore: 0,
        buffer,
        length: 4096,
        context,
        completion: true,
        multi: None,
        execution: 0,
    };
    endpoints[1].receive(&mut fabric.process(1), receive).unwrap();
    buffer
}

#[test]
fn a_full_queue_drops_and_the_piece_is_sent_again() {
    let (mut fabric, mut endpoints) = pair(&config(8, 2, 2, 1000));
    let send = send_of(&mut fabric, 0, 1, 5, 7, 40, Completes::BufferFree, false);
    endpoints[0].send(&mut fabric.process(0), send).unwrap();
    let buffer = receive(&mut fabric, &mut endpoints, 5, 2);
    let pieces = |fabric: &mut Fabric| while fabric.deliver((0, 1, false, Rail::FIRST)) {};
    pieces(&mut fabric);
    // The sender's two buffers are free again, those of the receiver, which does not look, are not.
    while fabric.deliver((1, 0, true, Rail::FIRST)) {}
    fabric.drain(0, &mut endpoints[0]);
    pieces(&mut fabric);
    assert_eq!(fabric.refusals, 2);
    fabric.run(&mut endpoints);
    let done = endpoints[1].next_completion().unwrap();
    assert_eq!((done.context, done.status, done.length), (2, Status::Ok, 40));
    let bytes: Vec<u8> = (0..40u64).map(|place| (place * 7 + 7 * 31) as u8).collect();
    assert_eq!(fabric.bytes(1, buffer, 40), bytes);
    assert_eq!(endpoints[0].next_completion().unwrap().context, 7);
}

/// A rank in one module sends three pieces to one in the other, which has a buffer for one and does not look, until one
/// of them has been dropped.
fn dropped_beyond(gateways: u32) -> (Fabric, Vec<Endpoint>, u64) {
    let rails = Rails::bridged(bridging(gateways, 8, 2, GatewayChoice::LeastLoaded));
    let config = MessageConfig { rails, ..config(8, 1, 1, 1000) };
    let mut fabric = Fabric::new(RANKS);
    fabric.open_gates(&config.rails);
    let mut endpoints = fabric.endpoints(&config);
    let buffer = fabric.place(2, &[0; 100]);
    for (context, length) in [(1, 1), (7, 24)] {
        let receive = Receive {
            queue: Queue::Tagged,
            source: None,
            tag: 5,
            ignore: 0,
            buffer,
            length: 100,
            context,
            completion: true,
            multi: None,
            execution: 0,
        };
        endpoints[2].receive(&mut fabric.process(2), receive).unwrap();
        let send = send_of(&mut fabric, 0, 2, 5, context, length, Completes::BufferFree, false);
        endpoints[0].send(&mut fabric.process(0), send).unwrap();
        if context == 1 {
            fabric.run(&mut endpoints);
            assert_eq!(endpoints[2].next_completion().map(|done| done.context), Some(1));
            assert_eq!(endpoints[0].next_completion().map(|done| done.context), Some(1));
        }
    }
    while fabric.refusals == 0 {
        let channels = fabric.channels();
        fabric.deliver(channels[0]);
        fabric.drain(0, &mut endpoints[0]);
    }
    (fabric, endpoints, buffer)
}

/// Pieces of the second message arrive, and it alone.
fn all_of_it_arrives(mut fabric: Fabric, mut endpoints: Vec<Endpoint>, buffer: u64) {
    fabric.run(&mut endpoints);
    let done = endpoints[2].next_completion().unwrap();
    assert_eq!((done.context, done.status, done.length), (7, Status::Ok, 24));
    let bytes: Vec<u8> = (0..24u64).map(|place| (place * 7 + 7 * 31) as u8).collect();
    assert_eq!(fabric.bytes(2, buffer, 24), bytes);
    assert_eq!(endpoints[0].next_completion().map(|done| done.context), Some(7));
    assert_eq!(fabric.posted(2, 1 << 8), 1, "the buffer waits for the next piece");
}

#[test]
fn a_gateway_says_that_a_piece_was_dropped() {
    let (mut fabric, mut endpoints, buffer) = dropped_beyond(1);
    // Again and again, as long as the receiver does not look.
    while fabric.refusals < 5 {
        let channels = fabric.channels();
        fabric.deliver(channels[0]);
        fabric.drain(0, &mut endpoints[0]);
    }
    all_of_it_arrives(fabric, endpoints, buffer);
}

#[test]
fn what_a_dead_gateway_could_not_deliver_another_one_may() {
    let (mut fabric, mut endpoints, buffer) = dropped_beyond(2);
    // The gateway hears of it, tells the sender, and is gone before that hears.
    let of_gateway = |fabric: &Fabric| fabric.channels().into_iter().find(|&(from, to, answers, _)| answers && (from == 2 || to == 0));
    let (_, gateway, ..) = of_gateway(&fabric).unwrap();
    fabric.deliver(of_gateway(&fabric).unwrap());
    let word = of_gateway(&fabric).unwrap();
    assert_eq!(word.0, gateway);
    let number = fabric.gate_of(gateway);
    fabric.kill(number, false);
    endpoints[0].gateway_gone(&mut fabric.process(0), number);
    // There is room now, and it comes by the other gateway. What the first one said starts nothing more.
    fabric.drain(2, &mut endpoints[2]);
    while let Some(&next) = fabric.channels().iter().find(|channel| channel.1 != 0) {
        fabric.deliver(next);
    }
    fabric.deliver(word);
    fabric.drain(0, &mut endpoints[0]);
    assert_eq!(fabric.channels().iter().filter(|channel| channel.0 == 0).count(), 0);
    (1..RANKS).for_each(|at| endpoints[at].gateway_gone(&mut fabric.process(at), number));
    all_of_it_arrives(fabric, endpoints, buffer);
}

#[test]
fn a_long_message_is_put_in_fragments_without_an_event_at_its_receiver() {
    let (mut fabric, mut endpoints) = pair(&config(8, 4, 4, 20));
    receive(&mut fabric, &mut endpoints, 5, 2);
    let copies = fabric.copies;
    let arrivals = fabric.arrivals.len();
    let send = send_of(&mut fabric, 0, 1, 5, 8, 21, Completes::BufferFree, false);
    endpoints[0].send(&mut fabric.process(0), send).unwrap();
    fabric.run(&mut endpoints);
    assert_eq!(endpoints[1].next_completion().map(|done| (done.context, done.length)), Some((2, 21)));
    assert_eq!(endpoints[0].next_completion().map(|done| done.context), Some(8));
    assert_eq!(fabric.copies, copies, "no copy on either side");
    // Announcement, clear to send, three fragments of seven bytes, and the word that they are there.
    assert_eq!(fabric.arrivals[arrivals..], [(0, 1, 0), (1, 0, 0), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 0)]);
}

#[test]
fn a_peek_sees_a_message_and_a_claim_keeps_it() {
    let (mut fabric, mut endpoints) = pair(&config(8, 4, 4, 100));
    let send = send_of(&mut fabric, 0, 1, 5, 7, 30, Completes::Never, false);
    endpoints[0].send(&mut fabric.process(0), send).unwrap();
    fabric.run(&mut endpoints);
    for (claim, context) in [(false, 20), (true, 21), (false, 22)] {
        let peek = Peek { queue: Queue::Tagged, source: None, tag: 5, ignore: 0, context, claim };
        endpoints[1].peek(&mut fabric.process(1), peek).unwrap();
    }
    fabric.run(&mut endpoints);
    let peeks: Vec<_> =
        std::iter::from_fn(|| endpoints[1].next_completion()).map(|done| (done.context, done.status, done.length)).collect();
    assert_eq!(peeks, [(20, Status::Ok, 30), (21, Status::Ok, 30), (22, Status::NoMessage, 0)]);
    let buffer = fabric.place(1, &[0; 30]);
    let receive = Receive {
        queue: Queue::Tagged,
        source: None,
        tag: 0,
        ignore: 0,
        buffer,
        length: 30,
        context: 30,
        completion: true,
        multi: None,
        execution: 0,
    };
    endpoints[1].receive_claimed(&mut fabric.process(1), 21, receive).unwrap();
    assert_eq!(endpoints[1].next_completion().map(|done| (done.context, done.length)), Some((30, 30)));
    let bytes: Vec<u8> = (0..30u64).map(|place| (place * 7 + 7 * 31) as u8).collect();
    assert_eq!(fabric.bytes(1, buffer, 30), bytes);
}

#[test]
fn a_receive_is_taken_back_at_once() {
    let (mut fabric, mut endpoints) = pair(&config(8, 4, 4, 100));
    receive(&mut fabric, &mut endpoints, 5, 2);
    assert_eq!(endpoints[1].cancel(&mut fabric.process(1), Queue::Tagged, 2, 0), Some(true));
    assert_eq!(endpoints[1].next_completion().map(|done| done.status), Some(Status::Cancelled));
    assert_eq!(endpoints[1].cancel(&mut fabric.process(1), Queue::Tagged, 2, 0), Some(false));
}
