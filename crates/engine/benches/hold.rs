//! The hold model (Jones, CACM 1986): pop an event, schedule one. `cargo bench -p narrows-engine`; prints CPU time per
//! turn beside that of the standard library's binary heap on the same events.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_engine::{EventQueue, random::Stream, stream};
use narrows_units::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const TURNS: u64 = 2_000_000;

/// CPU time of this thread in seconds: others may be busy on the same cores.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The time to the next event, in picoseconds.
fn gap(kind: &str, random: &mut Stream) -> u64 {
    match kind {
        // As in a packet network: serialisation, latency, some of each.
        "network" => [187_000, 300_000, 300_000, 204_000][random.below(4) as usize] + random.below(1000),
        "uniform" => random.below(1_000_000),
        // Mostly near, now and then a timeout.
        _ => {
            if random.below(100) == 0 {
                10_000_000_000
            } else {
                random.below(100_000)
            }
        }
    }
}

fn main() {
    for kind in ["network", "uniform", "timeouts"] {
        for size in [4u64, 32, 250, 2_000, 20_000, 200_000, 1_000_000] {
            let mut random = stream(1, kind, size);
            let mut queue = EventQueue::new();
            for index in 0..size {
                queue.schedule(SimTime(gap(kind, &mut random)), index as u32 % 4096, index);
            }
            let begin = cpu_time();
            for _ in 0..TURNS {
                let (now, event) = queue.pop().unwrap();
                queue.schedule(now + SimTime(gap(kind, &mut random)), event as u32 % 4096, event);
            }
            let ours = (cpu_time() - begin) / TURNS as f64 * 1e9;

            let mut random = stream(1, kind, size);
            let mut heap = BinaryHeap::new();
            for index in 0..size {
                heap.push(Reverse((gap(kind, &mut random), index, index)));
            }
            let begin = cpu_time();
            for turn in 0..TURNS {
                let Reverse((now, _, event)) = heap.pop().unwrap();
                heap.push(Reverse((now + gap(kind, &mut random), size + turn, event)));
            }
            let standard = (cpu_time() - begin) / TURNS as f64 * 1e9;
            println!("{kind:<9} {size:>8} events: {ours:>6.1} ns a turn, std::collections::BinaryHeap {standard:>6.1} ns");
        }
    }
}
