//! One test per promise of the message layer.

use crate::common::{Fabric, default_config};
use narrows_message::{
    Completes, Completion, CompletionKind, ConfigError, Distribution, Endpoint, MessageConfig, MpcConfig, Peek, Protocol, Queue,
    RailChoice, Rails, Receive, Registration, Rendezvous, Send, Status, UnknownClaim, Waiting,
};
use narrows_portals::EventKind;
use narrows_units::{Rail, SimTime};

struct World {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
}

impl World {
    fn new(processes: usize, config: &MessageConfig) -> World {
        let mut fabric = Fabric::new(processes);
        let endpoints = fabric.endpoints(config);
        World { fabric, endpoints }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64, bytes: &[u8], context: u64) {
        let send = self.message(from, to, tag, bytes, context);
        self.endpoints[from].send(&mut self.fabric.process(from), send).unwrap();
    }

    fn send_untagged(&mut self, from: usize, to: usize, bytes: &[u8], context: u64) {
        let send = Send { queue: Queue::Untagged, ..self.message(from, to, 0, bytes, context) };
        self.endpoints[from].send(&mut self.fabric.process(from), send).unwrap();
    }

    fn message(&mut self, from: usize, to: usize, tag: u64, bytes: &[u8], context: u64) -> Send {
        Send {
            queue: Queue::Tagged,
            target: self.fabric.id(to),
            tag,
            data: None,
            buffer: self.fabric.place(from, bytes),
            length: bytes.len() as u64,
            context,
            inject: false,
            completes: Completes::BufferFree,
        }
    }

    fn room(&mut self, at: usize, tag: u64, length: u64, context: u64) -> Receive {
        let buffer = self.fabric.place(at, &vec![0; length as usize]);
        Receive { queue: Queue::Tagged, source: None, tag, ignore: 0, buffer, length, context, completion: true, multi: None, execution: 0 }
    }

    fn receive(&mut self, at: usize, tag: u64, length: u64, context: u64) {
        let receive = self.room(at, tag, length, context);
        self.endpoints[at].receive(&mut self.fabric.process(at), receive).unwrap();
    }

    fn multi(&mut self, at: usize, length: u64, min_free: u64, context: u64) -> u64 {
        let receive = Receive { queue: Queue::Untagged, multi: Some(min_free), ..self.room(at, 0, length, context) };
        self.endpoints[at].receive(&mut self.fabric.process(at), receive).unwrap();
        receive.buffer
    }

    fn run(&mut self) {
        self.fabric.run(&mut self.endpoints);
    }

    fn completions(&mut self, at: usize) -> Vec<Completion> {
        std::iter::from_fn(|| self.endpoints[at].next_completion()).collect()
    }

    fn bytes(&self, at: usize, completion: &Completion) -> Vec<u8> {
        self.fabric.bytes(at, completion.buffer, completion.length).to_vec()
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}

fn by(rendezvous: Rendezvous) -> MessageConfig {
    MessageConfig { rendezvous, ..default_config() }
}

const BOTH: [Rendezvous; 2] = [Rendezvous::Get, Rendezvous::Put];

#[test]
fn thresholds_that_contradict_each_other_are_named() {
    let config = default_config();
    assert_eq!(config.check(), Ok(()));
    let inject = MessageConfig { inject_limit: 65, ..config.clone() };
    assert_eq!(inject.check(), Err(ConfigError::InjectAboveEager { inject_limit: 65, eager_limit: 64 }));
    let block = MessageConfig { overflow_block: 63, ..config.clone() };
    assert!(matches!(block.check(), Err(ConfigError::NoRoomForUnexpected { .. })));
    let portals = MessageConfig { max_portals_message: 63, ..config };
    assert!(portals.check().unwrap_err().to_string().contains("longest Portals message (63 B)"));
}

#[test]
fn a_message_longer_than_its_room_is_cut_and_the_sender_completes() {
    for rendezvous in BOTH {
        // Eager and long; before and after the receive; room of a part and of nothing.
        for (length, room) in [(40, 10), (40, 0), (300, 10), (300, 0)] {
            for late in [false, true] {
                let mut world = World::new(2, &by(rendezvous));
                let bytes = pattern(length, 1);
                if late {
                    world.send(0, 1, 5, &bytes, 1);
                    world.run();
                }
                world.receive(1, 5, room, 2);
                if !late {
                    world.send(0, 1, 5, &bytes, 1);
                }
                world.run();
                let [received] = world.completions(1)[..] else { panic!("one completion") };
                assert_eq!((received.status, received.length, received.full_length), (Status::Truncated, room, length as u64));
                assert_eq!(world.bytes(1, &received), bytes[..room as usize]);
                let [sent] = world.completions(0)[..] else { panic!("the sender completes") };
                assert_eq!((sent.kind, sent.status), (CompletionKind::Send, Status::Ok));
                assert_eq!(world.endpoints[0].pending().requests.len(), 0);
            }
        }
    }
}

#[test]
fn any_source_and_any_tag_take_what_comes_first() {
    let mut world = World::new(3, &default_config());
    let any = Receive { ignore: u64::MAX, ..world.room(2, 0, 8, 1) };
    world.endpoints[2].receive(&mut world.fabric.process(2), any).unwrap();
    let from_1 = Receive { source: Some(world.fabric.id(1)), ignore: u64::MAX, ..world.room(2, 0, 8, 2) };
    world.endpoints[2].receive(&mut world.fabric.process(2), from_1).unwrap();
    world.send(0, 2, 11, b"a", 0);
    world.run();
    world.send(0, 2, 12, b"b", 0);
    world.run();
    world.send(1, 2, 13, b"c", 0);
    world.run();
    let got: Vec<(u64, u64)> = world.completions(2).iter().map(|completion| (completion.context, completion.tag)).collect();
    assert_eq!(got, [(1, 11), (2, 13)]);
}

#[test]
fn a_tag_may_have_all_sixty_bits() {
    let mut world = World::new(2, &default_config());
    let tag = (1 << narrows_message::TAG_BITS) - 1;
    world.receive(1, tag - 1, 8, 1);
    world.receive(1, tag, 400, 2);
    world.send(0, 1, tag, &pattern(400, 3), 0);
    world.run();
    let [received] = world.completions(1)[..] else { panic!("one completion") };
    assert_eq!((received.context, received.tag, received.length), (2, tag, 400));
}

#[test]
fn a_process_sends_to_itself() {
    for rendezvous in BOTH {
        let mut world = World::new(1, &by(rendezvous));
        world.send(0, 0, 1, b"short", 1);
        world.send(0, 0, 1, &pattern(1000, 2), 2);
        world.receive(0, 1, 1000, 3);
        world.receive(0, 1, 1000, 4);
        world.run();
        let done = world.completions(0);
        assert_eq!(done.len(), 4);
        let length_of = |context| done.iter().find(|completion| completion.context == context).map(|completion| completion.length);
        assert_eq!((length_of(3), length_of(4)), (Some(5), Some(1000)));
    }
}

#[test]
fn long_messages_are_cut_into_the_longest_portals_messages() {
    for rendezvous in BOTH {
        for completes in [Completes::Never, Completes::BufferFree, Completes::Delivered] {
            let config = MessageConfig { max_portals_message: 100, ..by(rendezvous) };
            let mut world = World::new(2, &config);
            let bytes = pattern(1001, 9);
            let send = Send { completes, data: Some(u32::MAX), ..world.message(0, 1, 4, &bytes, 1) };
            world.endpoints[0].send(&mut world.fabric.process(0), send).unwrap();
            world.receive(1, 4, 2000, 2);
            world.run();
            let [received] = world.completions(1)[..] else { panic!("one completion") };
            assert_eq!((received.status, received.data), (Status::Ok, Some(u32::MAX)));
            assert_eq!(world.bytes(1, &received), bytes);
            let sent = world.completions(0).len();
            assert_eq!(sent, usize::from(completes != Completes::Never));
            for rank in 0..2 {
                assert_eq!(world.fabric.posted(rank, 2), 0, "the entries for the data are gone");
                assert_eq!(world.endpoints[rank].pending().requests, []);
            }
        }
    }
}

/// An eager message that nobody has asked for does not wake its target.
#[test]
fn an_unexpected_message_raises_no_event() {
    let mut world = World::new(2, &default_config());
    world.send(0, 1, 1, b"eager", 1);
    world.send(0, 1, 1, &pattern(500, 1), 2);
    for channel in world.fabric.channels() {
        while world.fabric.deliver(channel) {}
    }
    assert_eq!(world.fabric.unexpected(1, 0), 2);
    assert_eq!(world.fabric.take(1), None);
}

/// Each kind of completion costs the sender exactly the events that it needs.
#[test]
fn a_send_raises_the_events_that_it_asked_for() {
    let cases = [
        (Completes::Never, false, vec![]),
        (Completes::Never, true, vec![]),
        (Completes::BufferFree, false, vec![]),
        (Completes::BufferFree, true, vec![]),
        (Completes::Delivered, false, vec![EventKind::Ack]),
        (Completes::Delivered, true, vec![EventKind::Ack]),
    ];
    let long = (Completes::BufferFree, false, vec![EventKind::Send]);
    let cases = cases.into_iter().map(|case| (case, 8)).chain([(long, default_config().inject_limit as usize + 1)]);
    for ((completes, inject, wanted), length) in cases {
        let mut world = World::new(2, &default_config());
        let send = Send { completes, inject, ..world.message(0, 1, 1, &pattern(length, 1), 1) };
        world.endpoints[0].send(&mut world.fabric.process(0), send).unwrap();
        let at_once = world.endpoints[0].next_completion().is_some();
        assert_eq!(at_once, completes == Completes::BufferFree && wanted.is_empty());
        for _ in 0..2 {
            for channel in world.fabric.channels() {
                while world.fabric.deliver(channel) {}
            }
        }
        let events: Vec<EventKind> = std::iter::from_fn(|| world.fabric.take(0)).map(|event| event.kind).collect();
        assert_eq!(events, wanted, "{completes:?}, inject {inject}");
    }
}

#[test]
fn ten_thousand_unexpected_messages_come_out_in_order() {
    let config = MessageConfig { overflow_block: 4096, ..default_config() };
    let mut world = World::new(2, &config);
    let count = 10_000u64;
    let bytes_of = |index: u64| pattern(if index % 10 == 9 { 100 } else { (index % 65) as usize }, index as u8);
    for index in 0..count {
        world.send(0, 1, index % 7, &bytes_of(index), index);
    }
    world.run();
    assert_eq!(world.fabric.unexpected(1, 0), count as usize);
    let grown = world.endpoints[1].overflow_blocks();
    assert!(grown > 60, "the blocks have grown with the messages: {grown}");
    for index in 0..count {
        let receive = Receive { ignore: u64::MAX, ..world.room(1, 0, 100, index) };
        world.endpoints[1].receive(&mut world.fabric.process(1), receive).unwrap();
    }
    world.run();
    let mut got = world.completions(1);
    // Long messages complete later than short ones; the contexts tell who matched whom.
    got.sort_by_key(|completion| completion.context);
    assert_eq!(got.len(), count as usize);
    for (index, completion) in (0..count).zip(&got) {
        assert_eq!((completion.context, completion.tag), (index, index % 7));
        assert_eq!(world.bytes(1, completion), bytes_of(index));
    }
    assert_eq!(world.completions(0).len(), count as usize);
    // The blocks come back: as many messages again need no more of them.
    for index in 0..count {
        world.send(0, 1, index % 7, &bytes_of(index), index);
    }
    world.run();
    assert_eq!(world.endpoints[1].overflow_blocks(), grown);
}

/// Whether the first messages were unexpected makes no difference to what follows, once the endpoint is renewed.
#[test]
fn a_renewed_endpoint_does_not_show_what_was_unexpected() {
    let config = MessageConfig { overflow_block: 256, overflow_blocks: 2, ..default_config() };
    let growth = |unexpected: bool, renewed: bool| -> Vec<usize> {
        let mut world = World::new(2, &config);
        for round in 0..5 {
            if unexpected {
                world.send(0, 1, 1, &pattern(30, round), 0);
                world.run();
                world.receive(1, 1, 30, 5);
            } else {
                world.receive(1, 1, 30, 5);
                world.send(0, 1, 1, &pattern(30, round), 0);
            }
            world.run();
        }
        if renewed {
            for at in 0..2 {
                world.endpoints[at].renew(&mut world.fabric.process(at));
            }
            world.run();
        }
        let blocks = (0..40).map(|round| {
            world.send(0, 1, 7, &pattern(20, round), 0);
            world.run();
            world.endpoints[1].overflow_blocks()
        });
        blocks.collect()
    };
    assert_ne!(growth(true, false), growth(false, false), "the test sees the difference");
    assert_eq!(growth(true, true), growth(false, true));
}

/// A claimed message stays whole while the blocks around it are used again and again.
#[test]
fn a_claimed_message_outlives_its_overflow_block() {
    let config = MessageConfig { overflow_block: 64, overflow_blocks: 1, ..default_config() };
    let mut world = World::new(2, &config);
    world.send(0, 1, 1, &pattern(60, 42), 0);
    world.run();
    let peek = Peek { queue: Queue::Tagged, source: None, tag: 1, ignore: 0, context: 77, claim: true };
    world.endpoints[1].peek(&mut world.fabric.process(1), peek).unwrap();
    world.run();
    let [found] = world.completions(1)[..] else { panic!("one completion") };
    assert_eq!((found.kind, found.status, found.length), (CompletionKind::Peek, Status::Ok, 60));
    for round in 0..20 {
        world.send(0, 1, 2, &pattern(60, round), 0);
        world.run();
        world.receive(1, 2, 60, 5);
        world.run();
    }
    assert_eq!(world.completions(1).len(), 20);
    assert!(world.endpoints[1].overflow_blocks() <= 6, "blocks are reused");
    let receive = world.room(1, 0, 60, 78);
    let portals = &mut world.fabric.process(1);
    assert_eq!(world.endpoints[1].receive_claimed(portals, 76, receive), Err(UnknownClaim));
    world.endpoints[1].receive_claimed(portals, 77, receive).unwrap();
    assert_eq!(world.endpoints[1].receive_claimed(portals, 77, receive), Err(UnknownClaim), "a claim is used once");
    let [received] = world.completions(1)[..] else { panic!("one completion") };
    assert_eq!(received.context, 78);
    assert_eq!(world.bytes(1, &received), pattern(60, 42));
}

#[test]
fn a_discarded_long_message_completes_its_sender() {
    for rendezvous in BOTH {
        let mut world = World::new(2, &by(rendezvous));
        world.send(0, 1, 1, &pattern(600, 1), 9);
        world.run();
        assert_eq!(world.completions(0), []);
        let peek = Peek { queue: Queue::Tagged, source: None, tag: 1, ignore: 0, context: 1, claim: true };
        world.endpoints[1].peek(&mut world.fabric.process(1), peek).unwrap();
        world.run();
        assert_eq!(world.completions(1)[0].length, 600);
        world.endpoints[1].discard_claimed(&mut world.fabric.process(1), 1).unwrap();
        world.run();
        assert_eq!(world.completions(0).len(), 1);
        assert_eq!(world.completions(1), []);
    }
}

/// The message is in the event queue when the program cancels: the message wins.
#[test]
fn a_cancel_that_comes_too_late_says_so() {
    for busy in [false, true] {
        let mut world = World::new(2, &default_config());
        world.fabric.busy_until_taken = busy;
        world.receive(1, 1, 8, 10);
        world.receive(1, 2, 8, 11);
        world.send(0, 1, 1, b"now", 0);
        for channel in world.fabric.channels() {
            while world.fabric.deliver(channel) {}
        }
        let mut cancel = |context| world.endpoints[1].cancel(&mut world.fabric.process(1), Queue::Tagged, context, 0) == Some(true);
        assert!(!cancel(10), "its message is here");
        assert!(cancel(11));
        assert!(!cancel(11), "only once");
        assert!(!cancel(12), "never posted");
        world.run();
        let got: Vec<(u64, Status)> = world.completions(1).iter().map(|completion| (completion.context, completion.status)).collect();
        assert_eq!(got, [(11, Status::Cancelled), (10, Status::Ok)]);
    }
}

/// What a deadlock report needs.
#[test]
fn pending_requests_say_who_waits_for_whom() {
    let mut world = World::new(2, &default_config());
    let (me, other) = (world.fabric.id(0), world.fabric.id(1));
    let receive = Receive { source: Some(other), ..world.room(0, 7, 8, 1) };
    world.endpoints[0].receive(&mut world.fabric.process(0), receive).unwrap();
    world.send(0, 1, 8, &pattern(100, 0), 2);
    world.run();
    let pending = world.endpoints[0].pending();
    assert_eq!((pending.receives, pending.sends), (1, 1));
    let waits: Vec<_> = pending.iter().collect();
    assert_eq!(waits, [(Waiting::Message, Some(other), 7), (Waiting::Receiver, Some(other), 8)]);
    assert_eq!(world.endpoints[0].local(), me);
}

#[test]
fn a_multi_receive_takes_messages_until_it_is_full() {
    let mut world = World::new(2, &default_config());
    let buffer = world.multi(1, 100, 30, 5);
    for (index, length) in [20usize, 0, 30, 25, 10].into_iter().enumerate() {
        world.send_untagged(0, 1, &pattern(length, index as u8), 0);
    }
    world.run();
    let got = world.completions(1);
    let places: Vec<(u64, u64, bool)> =
        got.iter().map(|completion| (completion.buffer - buffer, completion.length, completion.released)).collect();
    // After 75 bytes fewer than 30 are left: the buffer is back, and the fifth message waits.
    assert_eq!(places, [(0, 20, false), (20, 0, false), (20, 30, false), (50, 25, true)]);
    assert_eq!(world.bytes(1, &got[3]), pattern(25, 3));
    assert!(got.iter().all(|completion| completion.context == 5 && completion.status == Status::Ok));
    world.multi(1, 100, 30, 6);
    world.run();
    let [last] = world.completions(1)[..] else { panic!("one completion") };
    assert_eq!((last.context, last.length, last.released), (6, 10, false));
    assert_eq!(world.bytes(1, &last), pattern(10, 4));
}

/// Messages that had come before, eager ones and announcements, take their places in order.
#[test]
fn a_multi_receive_places_what_was_unexpected_in_order() {
    for rendezvous in BOTH {
        let mut world = World::new(2, &by(rendezvous));
        let lengths = [10usize, 200, 0, 64, 65];
        for (index, length) in lengths.into_iter().enumerate() {
            world.send_untagged(0, 1, &pattern(length, index as u8), index as u64);
        }
        world.run();
        let buffer = world.multi(1, 400, 20, 5);
        world.run();
        let mut got = world.completions(1);
        got.sort_by_key(|completion| (completion.buffer, completion.length));
        let places: Vec<(u64, u64)> = got.iter().map(|completion| (completion.buffer - buffer, completion.length)).collect();
        assert_eq!(places, [(0, 10), (10, 200), (210, 0), (210, 64), (274, 65)]);
        for (index, completion) in got.iter().enumerate() {
            assert_eq!(world.bytes(1, completion), pattern(lengths[index], index as u8));
            assert!(!completion.released);
        }
        // The entry is back for the 61 bytes that are left.
        world.send_untagged(0, 1, &pattern(45, 9), 9);
        world.run();
        let [last] = world.completions(1)[..] else { panic!("one completion") };
        assert_eq!((last.buffer - buffer, last.length, last.released), (339, 45, true));
        assert_eq!(world.completions(0).len(), 6);
    }
}

#[test]
fn a_long_message_gives_the_buffer_back_when_it_has_arrived() {
    for rendezvous in BOTH {
        let mut world = World::new(2, &by(rendezvous));
        let buffer = world.multi(1, 300, 100, 5);
        world.send_untagged(0, 1, &pattern(50, 1), 1);
        world.send_untagged(0, 1, &pattern(200, 2), 2);
        world.run();
        let got = world.completions(1);
        let places: Vec<(u64, u64, bool)> =
            got.iter().map(|completion| (completion.buffer - buffer, completion.length, completion.released)).collect();
        assert_eq!(places, [(0, 50, false), (50, 200, true)]);
        assert_eq!(world.bytes(1, &got[1]), pattern(200, 2));
        assert_eq!(world.completions(0).len(), 2);
    }
}

#[test]
fn a_cancelled_multi_receive_reports_its_messages_first() {
    for busy in [false, true] {
        let mut world = World::new(2, &default_config());
        world.fabric.busy_until_taken = busy;
        world.multi(1, 1000, 10, 5);
        world.send_untagged(0, 1, b"first", 1);
        world.send_untagged(0, 1, b"second", 2);
        for channel in world.fabric.channels() {
            while world.fabric.deliver(channel) {}
        }
        assert_eq!(world.endpoints[1].cancel(&mut world.fabric.process(1), Queue::Untagged, 5, 0), Some(true));
        world.run();
        let got: Vec<(Status, u64, bool)> =
            world.completions(1).iter().map(|completion| (completion.status, completion.length, completion.released)).collect();
        assert_eq!(got, [(Status::Ok, 5, false), (Status::Ok, 6, false), (Status::Cancelled, 0, true)]);
        assert_eq!(world.endpoints[1].pending().requests, []);
        assert_eq!(world.fabric.posted(1, 1), 0);
    }
}

#[test]
fn an_untagged_message_never_meets_a_tagged_receive() {
    let mut world = World::new(2, &default_config());
    let any = Receive { ignore: u64::MAX, ..world.room(1, 0, 8, 1) };
    world.endpoints[1].receive(&mut world.fabric.process(1), any).unwrap();
    world.send_untagged(0, 1, b"plain", 0);
    world.run();
    assert_eq!(world.completions(1), []);
    let plain = Receive { queue: Queue::Untagged, ..world.room(1, 99, 8, 2) };
    world.endpoints[1].receive(&mut world.fabric.process(1), plain).unwrap();
    world.run();
    assert_eq!(world.completions(1)[0].context, 2);
}

/// Both ends of a long message work on what their NICs have to know: on each rail that carries a part of it, and once
/// for as long as the buffers stay known.
#[test]
fn buffers_are_registered_at_both_ends_and_again_when_they_are_too_long_to_stay() {
    let work = |rails: u8, by: Rendezvous, length: u64, cache: u64| {
        let registration = Registration { cost: SimTime(100), per_kib: SimTime(7), cache };
        let distribution = Distribution::Fragments(1024);
        let mpc = MpcConfig { minimum: 2048, distribution, choice: RailChoice::RoundRobin, registration };
        let rails = Rails::new((0..rails).map(Rail).collect());
        let (protocol, rendezvous) = (Protocol::Mpc(mpc), by);
        let config = MessageConfig { protocol, rails, rendezvous, max_portals_message: 1 << 20, ..default_config() };
        let mut world = World::new(3, &config);
        let bytes = pattern(length as usize, 1);
        let (one, other) = (world.message(0, 2, 1, &bytes, 0), world.message(2, 0, 1, &bytes, 0));
        let (here, there) = (world.room(0, 1, length, 0), world.room(2, 1, length, 0));
        for _ in 0..3 {
            for (from, to, message, room) in [(0, 2, one, there), (2, 0, other, here)] {
                world.endpoints[to].receive(&mut world.fabric.process(to), room).unwrap();
                world.endpoints[from].send(&mut world.fabric.process(from), message).unwrap();
                world.run();
                assert_eq!(world.completions(to).len() + world.completions(from).len(), 2);
                assert_eq!(world.fabric.bytes(to, room.buffer, length), bytes);
            }
        }
        world.fabric.work
    };
    for by in [Rendezvous::Get, Rendezvous::Put] {
        let once = |rails: u64| SimTime(2 * 2 * rails * (100 + 7 * 4));
        assert_eq!(work(1, by, 4096, 1 << 20), once(1));
        assert_eq!(work(3, by, 4096, 1 << 20), once(3));
        assert_eq!(work(3, by, 1024, 1 << 20), SimTime(2 * 2 * (100 + 7)), "one rail carries all of it");
        assert_eq!(work(1, by, 4096, 2 * 4096 + 1), once(1), "just below");
        assert_eq!(work(1, by, 4096, 2 * 4096), SimTime(3 * once(1).0), "one has to go for the other, each time");
        assert_eq!(work(1, by, 8, 0), SimTime::ZERO, "eager");
    }
}
