//! Random untagged messages into multi-receives: every message arrives once and whole, inside a
//! buffer that is the layer's at that time.

use crate::common::Fabric;
use narrows_engine::random::{Stream, stream};
use narrows_message::{Completes, CompletionKind, MessageConfig, Protocol, Queue, Rails, Receive, Rendezvous, Send, Status};
use std::collections::BTreeMap;

const EAGER: u64 = 16;

struct Buffer {
    start: u64,
    length: u64,
    multi: bool,
    used: Vec<(u64, u64)>,
    gone: bool,
}

struct Case {
    seed: u64,
    config: MessageConfig,
    min_free: u64,
    longest: u64,
    messages: u64,
    late: bool,
    busy: bool,
    plain: bool,
    cancels: bool,
    /// So many multi-receives are posted at any time.
    kept: usize,
    /// They have room for up to so many times `min_free` more than that.
    room: u64,
    overtaking: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    released: u64,
    cancelled: u64,
    truncated: u64,
    in_use: u64,
    copies: u64,
    out_of_turn: u64,
}

fn config(rendezvous: Rendezvous) -> MessageConfig {
    MessageConfig {
        protocol: Protocol::Openmpi,
        rails: Rails::default(),
        eager_limit: EAGER,
        inject_limit: 0,
        rendezvous,
        overflow_block: 40,
        overflow_blocks: 1,
        max_portals_message: 20,
    }
}

fn body(source: u64, number: u64, length: u64) -> Vec<u8> {
    (0..length).map(|index| (source * 89 + number * 31 + index) as u8).collect()
}

fn run(case: &Case) -> Outcome {
    let mut random = stream(case.seed, "multi-receives", 0);
    let mut fabric = Fabric::new(4);
    fabric.late_events = case.late;
    fabric.overtaking = case.overtaking;
    fabric.busy_until_taken = case.busy;
    let mut endpoints = fabric.endpoints(&case.config);
    let mut outcome = Outcome::default();
    // Rank 0 receives from all, itself too. The remote CQ data number the messages of each source.
    let mut sent: Vec<Vec<u64>> = vec![Vec::new(); 4];
    let mut got: Vec<Vec<bool>> = vec![Vec::new(); 4];
    let mut newest: Vec<Option<usize>> = vec![None; 4];
    let mut buffers: BTreeMap<u64, Buffer> = BTreeMap::new();
    let mut context = 0;
    let mut send_completions = 0;
    let mut left = case.messages;
    let mut idle = 0;
    loop {
        let open = |multi: bool| buffers.values().filter(|buffer| !buffer.gone && buffer.multi == multi).count();
        // The application keeps multi-receives posted, and now and then one for one message.
        if open(true) < case.kept || case.plain && open(false) < 1 && random.below(8) == 0 {
            let multi = open(true) < case.kept;
            context += 1;
            let length = if multi { case.min_free + random.below(case.room * case.min_free) } else { case.longest };
            let start = fabric.place(0, &vec![0; length as usize]);
            let source = (!multi && random.below(2) == 0).then(|| fabric.id(random.below(4) as usize));
            let multi_free = multi.then_some(case.min_free);
            let receive = Receive {
                queue: Queue::Untagged,
                source,
                tag: 0,
                ignore: 0,
                buffer: start,
                length,
                context,
                completion: true,
                multi: multi_free,
                execution: 0,
            };
            buffers.insert(context, Buffer { start, length, multi, used: Vec::new(), gone: false });
            endpoints[0].receive(&mut fabric.process(0), receive).unwrap();
        }
        if case.cancels && random.below(40) == 0 {
            let candidates: Vec<u64> = buffers.iter().filter(|(_, buffer)| !buffer.gone).map(|(context, _)| *context).collect();
            let victim = candidates[random.below(candidates.len() as u64) as usize];
            endpoints[0].cancel(&mut fabric.process(0), Queue::Untagged, victim, 0);
        }
        if left > 0 && random.below(3) == 0 {
            left -= 1;
            let source = random.below(4) as usize;
            let length = if random.below(4) == 0 { random.below(3) } else { random.below(case.longest + 1) };
            let number = sent[source].len() as u64;
            let buffer = fabric.place(source, &body(source as u64, number, length));
            sent[source].push(length);
            got[source].push(false);
            let send = Send {
                queue: Queue::Untagged,
                target: fabric.id(0),
                tag: 0,
                data: Some(number as u32),
                buffer,
                length,
                context: 1 << 40,
                inject: false,
                completes: if random.below(2) == 0 { Completes::BufferFree } else { Completes::Delivered },
            };
            endpoints[source].send(&mut fabric.process(source), send).unwrap();
        }
        let moved = step(&mut fabric, &mut endpoints, &mut random, case.overtaking);
        for (rank, endpoint) in endpoints.iter_mut().enumerate() {
            while let Some(completion) = endpoint.next_completion() {
                if completion.kind == CompletionKind::Send {
                    send_completions += 1;
                    continue;
                }
                assert_eq!(rank, 0);
                let buffer = buffers.get_mut(&completion.context).unwrap();
                assert!(!buffer.gone, "no completion after the buffer was given back: {completion:?}");
                buffer.gone = completion.released || !buffer.multi;
                outcome.released += u64::from(completion.released);
                if completion.status == Status::Cancelled {
                    outcome.cancelled += 1;
                    continue;
                }
                let (start, end) = (completion.buffer, completion.buffer + completion.length);
                assert!(start >= buffer.start && end <= buffer.start + buffer.length, "inside its buffer");
                assert!(buffer.used.iter().all(|(from, to)| end <= *from || start >= *to || start == end), "places do not overlap");
                buffer.used.push((start, end));
                let (source, number) = (fabric.rank(completion.source), completion.data.unwrap() as usize);
                assert!(!std::mem::replace(&mut got[source][number], true), "every message comes once");
                outcome.out_of_turn += u64::from(newest[source] > Some(number));
                newest[source] = newest[source].max(Some(number));
                assert_eq!(completion.full_length, sent[source][number]);
                match completion.status {
                    Status::Ok => assert_eq!(completion.length, completion.full_length),
                    Status::Truncated => {
                        outcome.truncated += 1;
                        assert!(completion.length < completion.full_length);
                        assert!(completion.full_length > case.min_free, "what fits into min_free is never cut");
                    }
                    other => panic!("{other:?}"),
                }
                let whole = body(source as u64, number as u64, completion.full_length);
                assert_eq!(fabric.bytes(0, start, completion.length), &whole[..completion.length as usize]);
            }
        }
        idle = if moved || left > 0 { 0 } else { idle + 1 };
        if idle > 200 {
            break;
        }
    }
    let missing: Vec<(usize, usize)> =
        (0..4).flat_map(|source| (0..got[source].len()).map(move |number| (source, number))).filter(|(s, n)| !got[*s][*n]).collect();
    assert_eq!(missing, [], "every message arrives; seed {}", case.seed);
    assert_eq!(send_completions, case.messages, "every send completes");
    outcome.in_use = fabric.unlink_in_use;
    outcome.copies = fabric.copies;
    outcome
}

/// Moves one thing, chosen at random; false when nothing can move.
fn step(fabric: &mut Fabric, endpoints: &mut [narrows_message::Endpoint], random: &mut Stream, overtaking: bool) -> bool {
    let mut moved = false;
    let channels = fabric.channels();
    if !channels.is_empty() && random.below(2) == 0 {
        moved |= fabric.deliver(channels[random.below(channels.len() as u64) as usize]);
    }
    for (rank, endpoint) in endpoints.iter_mut().enumerate() {
        if random.below(2) == 0 {
            moved |= fabric.write_late(rank, random.below(if overtaking { 60 } else { 4 }) as usize);
        }
        if random.below(2) == 0
            && let Some(event) = fabric.take(rank)
        {
            endpoint.event(&mut fabric.process(rank), event).unwrap();
            moved = true;
        }
    }
    moved
}

#[test]
fn every_message_reaches_a_multi_receive_once_and_whole() {
    let mut total = Outcome::default();
    for seed in 0..256 {
        let rendezvous = if seed % 2 == 0 { Rendezvous::Get } else { Rendezvous::Put };
        let case = Case {
            seed,
            config: config(rendezvous),
            min_free: [1, 10, 24, 50][seed as usize / 2 % 4],
            longest: [EAGER, 50][seed as usize / 8 % 2],
            messages: 120,
            late: seed / 16 % 2 == 1,
            busy: seed / 32 % 2 == 1,
            plain: seed / 64 % 2 == 1,
            cancels: seed / 128 % 2 == 1,
            kept: 2,
            room: 4,
            overtaking: false,
        };
        let outcome = run(&case);
        assert_eq!(outcome, run(&case), "the same twice");
        total.released += outcome.released;
        total.cancelled += outcome.cancelled;
        total.truncated += outcome.truncated;
        total.in_use += outcome.in_use;
        total.copies += outcome.copies;
    }
    // The cases reach what they are meant to reach.
    assert!(total.released > 2_000 && total.cancelled > 200 && total.truncated > 200, "{total:?}");
    assert!(total.in_use > 200 && total.copies > 500, "{total:?}");
}

/// Where there are other buffers, the messages of a source are told of in the order in which it has sent them,
/// announced ones too; MPICH's active messages rely on it.
#[test]
fn messages_of_one_source_are_complete_in_order() {
    for seed in 0..128 {
        let case = Case {
            seed,
            config: config(if seed % 2 == 0 { Rendezvous::Get } else { Rendezvous::Put }),
            min_free: 50,
            longest: [EAGER, 50][seed as usize / 2 % 2],
            messages: 120,
            late: seed / 4 % 2 == 1,
            busy: seed / 8 % 2 == 1,
            plain: false,
            cancels: false,
            kept: 8,
            room: 100,
            overtaking: seed / 16 % 2 == 1,
        };
        assert_eq!(run(&case).out_of_turn, 0, "seed {seed}");
    }
}
