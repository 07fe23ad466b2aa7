//! Order, limits, and what goes wrong.

use super::compile;
use narrows_spin::{
    Action, Command, Context, Cost, Failure, Fault, Handler, Handlers, Machine, Out, Packet, Program, Ran, Refused, SpinConfig, SpinError,
};
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;
use std::sync::LazyLock;

#[derive(Default)]
struct Seen {
    bus: SimTime,
    freed: Vec<(SimTime, Packet, bool)>,
    commands: Vec<(SimTime, Command)>,
    ran: Vec<Ran>,
    failures: Vec<Failure>,
    ready: u32,
    last: SimTime,
}

impl Seen {
    fn at(&mut self, at: SimTime) {
        assert!(at >= self.last, "calls come in the order of their times");
        self.last = at;
    }
}

impl Out for Seen {
    fn freed(&mut self, at: SimTime, packet: &Packet, passes: bool) {
        self.at(at);
        self.freed.push((at, *packet, passes));
    }
    fn command(&mut self, at: SimTime, command: &Command, data: &mut [u8]) -> SimTime {
        self.at(at);
        assert_eq!(data.len(), command.bytes as usize);
        self.commands.push((at, *command));
        self.bus
    }
    fn ready(&mut self, at: SimTime) {
        self.at(at);
        self.ready += 1;
    }
    fn failed(&mut self, at: SimTime, failure: &Failure) {
        self.at(at);
        self.failures.push(*failure);
    }
    fn ran(&mut self, ran: &Ran) {
        self.ran.push(*ran);
    }
}

fn machine(config: SpinConfig, handlers: Handlers) -> Machine {
    let mut machine = Machine::new(config).unwrap();
    let context = Context { handlers, memory: Bytes(64 << 10), scratchpad: Bytes(4096), window: Bytes(1 << 30) };
    machine.add_context(context).unwrap();
    machine
}

fn asic() -> SpinConfig {
    SpinConfig::preset("pspin-asic").unwrap()
}

fn packet(message: u64, bytes: u32, last: bool) -> Packet {
    Packet { message, context: 0, offset: 0, bytes, last, tag: 0 }
}

fn drain(machine: &mut Machine, seen: &mut Seen) {
    while let Some(next) = machine.next_time() {
        machine.advance(next, seen);
    }
    assert!(machine.is_idle());
}

fn function(fixed: u64, action: Action) -> Handlers {
    Handlers::Cost(Cost { fixed, per_byte: 0, per_word: 0, header: 0, action })
}

#[test]
fn one_cluster_holds_20_tasks_and_one_queue_129_packets() {
    let mut machine = machine(SpinConfig { clusters: 1, ..asic() }, function(900_000, Action::Drop));
    let (mut seen, mut taken) = (Seen::default(), 0);
    let mut at = SimTime::ZERO;
    while machine.offer(at, packet(3, 64, false), None).is_ok() {
        taken += 1;
        at += SimTime::from_ns(50);
        machine.advance(at, &mut seen);
    }
    // The last one waits at the way in: its queue refuses it.
    assert_eq!(taken, 20 + 1 + 128 + 1);
    assert_eq!(machine.offer(at, packet(4, 64, true), None), Err(Refused::Full), "it stands behind the other message");
    machine.offer(at, packet(3, 4096, true), None).expect_err("longer than any packet");
    while let Some(next) = machine.next_time() {
        machine.advance(next, &mut seen);
    }
    assert_eq!((seen.freed.len(), seen.ready), (taken, 1));
}

#[test]
fn seven_commands_are_in_flight() {
    let mut machine = machine(asic(), function(9, Action::CopyToHost));
    let mut seen = Seen { bus: SimTime::from_us(10), ..Seen::default() };
    for message in 0..32 {
        machine.offer(SimTime::ZERO, packet(message, 64, true), None).unwrap();
    }
    machine.advance(SimTime::from_us(9), &mut seen);
    assert_eq!(seen.commands.len(), 7);
    drain(&mut machine, &mut seen);
    assert_eq!((seen.commands.len(), seen.freed.len()), (32, 32));
}

#[test]
fn full_memory_for_packets_makes_them_wait() {
    let mut machine = machine(SpinConfig { l2_packets: Bytes(4096), ..asic() }, function(1000, Action::Drop));
    let mut seen = Seen::default();
    let taken = (0..10).filter(|_| machine.offer(SimTime::ZERO, packet(1, 2048, false), None).is_ok()).count();
    assert_eq!(taken, 3, "two in L2, one at the way in");
    while let Some(next) = machine.next_time() {
        machine.advance(next, &mut seen);
    }
    assert_eq!((seen.freed.len(), seen.ready), (3, 1));
}

#[test]
fn a_handler_that_goes_wrong_is_named_and_its_message_goes_to_the_host() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let cases = [
        (words(&[0]), Fault::Illegal, 0),
        // j .
        (words(&[0x6f]), Fault::Budget, 0),
        // nop; lw a0, 0(zero)
        (words(&[0x13, 0x2503]), Fault::Read(0), 4),
        // sw a0, 0(a0): the task is read only.
        (words(&[0x00a5_2023]), Fault::Write(0x1020_0000), 0),
        // nop, and the text ends.
        (words(&[0x13]), Fault::Fetch(0x1d00_0004), 4),
        // amoadd.w a0, a0, (sp): the stack ends there.
        (words(&[0x00a1_252f]), Fault::Write(0x1010_2000), 0),
        // lui a1, 0x1b000; sw a1, 32(a1): no command of that number.
        (words(&[0x1b00_05b7, 0x02b5_a023]), Fault::Command { kind: 0x1b00_0000, local: 0, bytes: 0 }, 8),
    ];
    for (text, fault, place) in cases {
        let mut machine = machine(SpinConfig { budget: 500, ..asic() }, Handlers::Program(Program::from_text(&text)));
        let mut seen = Seen::default();
        machine.offer(SimTime::ZERO, packet(1, 64, false), None).unwrap();
        machine.advance(SimTime::from_us(2), &mut seen);
        machine.offer(SimTime::from_us(2), packet(1, 64, true), None).unwrap();
        drain(&mut machine, &mut seen);
        let [failure] = seen.failures.as_slice() else { panic!("one handler fails: {:?}", seen.failures) };
        assert_eq!((failure.handler, failure.fault, failure.pc), (Handler::Payload, fault, 0x1d00_0000 + place));
        assert!(seen.freed.iter().all(|(_, _, passes)| *passes) && seen.freed.len() == 2);
    }
}

#[test]
fn contexts_that_ask_for_too_much_hear_what_is_left() {
    let mut machine = Machine::new(asic()).unwrap();
    let context = |memory, scratchpad| Context {
        handlers: function(1, Action::Drop),
        memory: Bytes(memory),
        scratchpad: Bytes(scratchpad),
        window: Bytes(0),
    };
    machine.add_context(context(3 << 20, 1024)).unwrap();
    let error = machine.add_context(context(2 << 20, 1024)).unwrap_err();
    assert_eq!(error, SpinError::Memory { what: "handler memory in L2", wanted: Bytes(2 << 20), left: Bytes(1 << 20) });
    machine.add_context(context(0, 896 << 10)).unwrap_err();
}

static THREE: LazyLock<Program> = LazyLock::new(|| compile("../tests/it/three", &[]));

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_packets_are_freed_and_handlers_run_in_order(
        messages in prop::collection::vec(prop::collection::vec(1u32..2048, 1..6), 1..14),
        turns in prop::collection::vec(0usize..14, 80),
        gap in 0u64..200,
        steps in 1u64..100,
    ) {
        let config = SpinConfig {
            clusters: 2, hpus: 2, queues: 4, cells: 3, buffered: 1, commands: 2, in_flight: 3, l1_ring: Bytes(2048), l1_rings: 2,
            l2_packets: Bytes(8192), ..asic()
        };
        let mut machine = machine(config, Handlers::Program(THREE.clone()));
        let bus = SimTime::from_ns(40);
        let mut seen = Seen { bus, ..Seen::default() };
        let mut next = vec![0; messages.len()];
        let mut at = SimTime::ZERO;
        // Packets of messages whose queues differ take turns, so that all come to an end.
        let mut offer = |message: usize, place: usize, bytes: u32, last| {
            let packet = Packet { message: message as u64, context: 0, offset: place as u64 * 4096, bytes, last, tag: place as u64 };
            let contents = vec![message as u8; bytes as usize];
            let mut tries = 0;
            while machine.offer(at, packet, Some(&contents)).is_err() {
                at += SimTime::from_ns(steps);
                machine.advance(at, &mut seen);
                tries += 1;
                assert!(tries < 100_000, "it is never taken");
            }
            at += SimTime::from_ns(gap);
            machine.advance(at, &mut seen);
        };
        for group in (0..messages.len()).collect::<Vec<_>>().chunks(4) {
            let turns = turns.iter().map(|turn| group[turn % group.len()]);
            let rest = group.iter().flat_map(|message| std::iter::repeat_n(*message, 6));
            for message in turns.chain(rest) {
                if let Some(bytes) = messages[message].get(next[message]) {
                    next[message] += 1;
                    offer(message, next[message] - 1, *bytes, next[message] == messages[message].len());
                }
            }
        }
        drain(&mut machine, &mut seen);
        prop_assert_eq!(&seen.failures, &[]);
        for (message, packets) in messages.iter().enumerate() {
            let mut places: Vec<u64> = seen.freed.iter().filter(|(_, p, _)| p.message == message as u64).map(|(_, p, _)| p.tag).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..packets.len() as u64).collect::<Vec<_>>());
            let ran: Vec<&Ran> = seen.ran.iter().filter(|ran| ran.message == message as u64).collect();
            let span = |handler| {
                let of = ran.iter().filter(move |ran| ran.handler == handler);
                (of.clone().count(), of.clone().map(|ran| ran.began).min(), of.map(|ran| ran.began + ran.cycles).max())
            };
            let (header, payload, completion) = (span(Handler::Header), span(Handler::Payload), span(Handler::Completion));
            prop_assert_eq!((header.0, payload.0, completion.0), (1, packets.len(), 1));
            prop_assert!(header.2 < payload.1 && payload.2 < completion.1, "{header:?} {payload:?} {completion:?}");
        }
        for (place, (began, command)) in seen.commands.iter().enumerate() {
            let same = seen.commands[..place].iter().filter(|(at, other)| other.kind == command.kind && *at + bus > *began).count();
            prop_assert!(same < 3, "three commands in flight at an interface");
        }
        for hpu in 0..4 {
            let mut runs: Vec<(u64, u64)> = seen.ran.iter().filter(|r| r.hpu == hpu).map(|r| (r.began, r.began + r.cycles)).collect();
            runs.sort_unstable();
            prop_assert!(runs.windows(2).all(|two| two[0].1 < two[1].0), "an HPU runs one handler at a time");
        }
    }

    #[test]
    fn broken_elf_files_are_refused_or_end(changes in prop::collection::vec((0usize..964, any::<u8>()), 1..8)) {
        let mut file = include_bytes!("../../../../fuzz/corpus/spin/three.elf").to_vec();
        for (place, byte) in changes {
            file[place] = byte;
        }
        if let Ok(program) = Program::from_elf(&file) {
            let mut machine = machine(SpinConfig { budget: 20_000, ..asic() }, Handlers::Program(program));
            let mut seen = Seen::default();
            for last in [false, true] {
                machine.offer(SimTime::ZERO, packet(0, 256, last), None).unwrap();
            }
            drain(&mut machine, &mut seen);
            prop_assert_eq!(seen.freed.len(), 2);
        }
    }

    #[test]
    fn random_code_ends(text in prop::collection::vec(any::<u16>(), 1..200), bytes in 1u32..2048) {
        let text: Vec<u8> = text.into_iter().flat_map(u16::to_le_bytes).collect();
        let mut machine = machine(SpinConfig { budget: 20_000, ..asic() }, Handlers::Program(Program::from_text(&text)));
        let mut seen = Seen::default();
        for last in [false, true] {
            machine.offer(SimTime::ZERO, packet(0, bytes, last), None).unwrap();
        }
        drain(&mut machine, &mut seen);
        prop_assert_eq!(seen.freed.len(), 2);
    }
}

/// A message that is pinned has one HPU of 32, and its packets run in their order; as many messages as there are HPUs
/// have all of them.
#[test]
fn pinned_messages_have_an_hpu_each() {
    let run = |pinned: bool, messages: u64| {
        let mut machine = machine(SpinConfig { pinned, ..asic() }, function(1000, Action::Drop));
        let mut seen = Seen::default();
        for number in 0..64 * messages {
            let one = Packet { offset: number / messages * 64, ..packet(number % messages, 64, number / messages == 63) };
            while machine.offer(seen.last, one, None).is_err() {
                let next = machine.next_time().expect("it goes on");
                machine.advance(next, &mut seen);
                seen.last = seen.last.max(next);
            }
        }
        drain(&mut machine, &mut seen);
        (seen.last.as_ns_f64(), seen.ran)
    };
    // 64 handlers of 1,000 cycles, one after the other; or 20 in the home cluster, three on some of its 8 HPUs.
    let (alone, ran) = run(true, 1);
    assert!((alone / (64.0 * 1_002.0) - 1.0).abs() < 0.02, "{alone}");
    assert!(ran.iter().all(|one| one.hpu == ran[0].hpu));
    assert!(ran.windows(2).all(|pair| pair[0].began < pair[1].began));
    let (spread, _) = run(false, 1);
    assert!((spread / (3.0 * 1_002.0) - 1.0).abs() < 0.03, "{spread}");
    let (many, ran) = run(true, 32);
    assert!((many / alone - 1.0).abs() < 0.05, "{many}");
    assert_eq!(ran.iter().map(|one| one.hpu).collect::<std::collections::BTreeSet<_>>().len(), 32);
    assert!(ran.iter().all(|one| u64::from(one.hpu) == one.message % 4 * 8 + one.message / 4 % 8));
}
