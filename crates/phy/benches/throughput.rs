//! Frames through a sender and a receiver of 100GBASE-R on one core. `cargo bench -p narrows-phy`; prints bits of
//! frames per second of CPU time, of both together and of each.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_engine::stream;
use narrows_phy::Bits;
use narrows_phy::channel::Errors;
use narrows_phy::fec::FEC_LANES;
use narrows_phy::link::{Receiver, Sender};
use narrows_phy::mac::Received;
use narrows_phy::pcs::Distance;

/// Bytes of frames at a time and in all: the clock ticks in milliseconds.
const BATCH: usize = 3_000_000;
const BATCHES: usize = 10;

/// CPU time of this thread in seconds: others may be busy on the same cores.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn main() {
    for size in [64, 1518, 9000] {
        for rate in [0.0, 1e-5, 1e-4, 1e-3] {
            let mut random = stream(1, "bench", 0);
            let mut random = || random.next_u64();
            let frame: Vec<u8> = (0..size - 4).map(|_| random() as u8).collect();
            let (mut sender, mut receiver) = (Sender::new(Distance::STANDARD), Receiver::new(Distance::STANDARD, true));
            let mut errors: Vec<Errors> = (0..FEC_LANES).map(|_| Errors::new(rate, &mut random)).collect();
            let mut lanes: [Bits; FEC_LANES] = std::array::from_fn(|_| Bits::new());
            let (mut received, mut times) = (0, [0.0; 2]);
            let mut deliver = |lanes: &mut [Bits; FEC_LANES]| {
                for (number, lane) in lanes.iter_mut().enumerate() {
                    errors[number].inject(lane, 0, &mut random);
                    receiver.wire(number).append(lane);
                    lane.skip(lane.len());
                }
                let begin = cpu_time();
                receiver.receive(|frame| received += usize::from(matches!(frame, Received::Frame(_))));
                cpu_time() - begin
            };
            for _ in 0..3 * Distance::STANDARD.get() / 64 {
                sender.idle(20 * 64, &mut lanes);
                deliver(&mut lanes);
            }
            let frames = BATCH / size;
            for _ in 0..BATCHES {
                let begin = cpu_time();
                (0..frames).for_each(|_| sender.send(&frame, &mut lanes));
                times[0] += cpu_time() - begin;
                times[1] += deliver(&mut lanes);
            }
            let bits = (8 * size * frames * BATCHES) as f64;
            let speed = |time: f64| bits / time / 1e9;
            println!(
                "frames of {size:>4} bytes, bit error rate {rate:<7}: {:.2} Gbit/s; sender {:.2}, receiver {:.2} ({received} of {} received)",
                speed(times[0] + times[1]),
                speed(times[0]),
                speed(times[1]),
                frames * BATCHES
            );
        }
    }
}
