//! Frames through a sender and a receiver of 100GBASE-R on one core. `cargo bench -p narrows-phy`; prints bits of
//! frames per second of CPU time, of both together and of each: medians of turns in which all cases alternate.
//! `-- SIZE RATE` runs one case (for a profile), `-- SIZE RATE TURNS` so often.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_phy::Bits;
use narrows_phy::channel::Errors;
use narrows_phy::fec::FEC_LANES;
use narrows_phy::link::{Receiver, Sender};
use narrows_phy::mac::Received;
use narrows_phy::pcs::Distance;

/// Bytes of frames in a turn.
const BATCH: usize = 1_500_000;
const TURNS: usize = 15;

/// CPU time of this thread in seconds: others may be busy on the same cores. The kernel counts at its ticks and where a
/// thread goes to sleep, so it sleeps first.
fn cpu_time() -> f64 {
    std::thread::sleep(std::time::Duration::from_nanos(1));
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

struct Case {
    size: usize,
    rate: f64,
    random: Stream,
    frame: Vec<u8>,
    sender: Sender,
    lanes: [Bits; FEC_LANES],
    errors: Vec<Errors>,
    receiver: Receiver,
    sent: usize,
    received: usize,
    /// Seconds of sender and receiver in each turn.
    times: Vec<[f64; 2]>,
}

impl Case {
    fn new(size: usize, rate: f64) -> Case {
        let mut random = stream(1, "bench", 0);
        let frame: Vec<u8> = (0..size - 4).map(|_| random.next_u64() as u8).collect();
        let errors = (0..FEC_LANES).map(|_| Errors::new(rate, &mut || random.next_u64())).collect();
        let mut case = Case {
            size,
            rate,
            random,
            frame,
            sender: Sender::new(Distance::STANDARD),
            lanes: Default::default(),
            errors,
            receiver: Receiver::new(Distance::STANDARD, true),
            sent: 0,
            received: 0,
            times: Vec::new(),
        };
        for _ in 0..3 * Distance::STANDARD.get() / 64 {
            case.sender.idle(20 * 64, &mut case.lanes);
            case.deliver();
        }
        case
    }

    /// What the receiver takes; the wires between are not in it.
    fn deliver(&mut self) -> f64 {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            self.errors[number].inject(lane, 0, &mut || self.random.next_u64());
            self.receiver.wire(number).append(lane);
            lane.skip(lane.len());
        }
        let begin = cpu_time();
        self.receiver.receive(|frame| self.received += usize::from(matches!(frame, Received::Frame(_))));
        cpu_time() - begin
    }

    fn turn(&mut self) {
        let frames = BATCH / self.size;
        let begin = cpu_time();
        (0..frames).for_each(|_| self.sender.send(&self.frame, &mut self.lanes));
        let sending = cpu_time() - begin;
        let receiving = self.deliver();
        self.sent += frames;
        self.times.push([sending, receiving]);
    }

    fn print(&self) {
        let bits = (8 * self.size * (BATCH / self.size)) as f64;
        let speed = |time: fn(&[f64; 2]) -> f64| {
            let mut times: Vec<f64> = self.times.iter().map(time).collect();
            times.sort_by(f64::total_cmp);
            bits / times[times.len() / 2] / 1e9
        };
        println!(
            "frames of {:>4} bytes, bit error rate {:<7}: {:.2} Gbit/s; sender {:.2}, receiver {:.2} ({} of {} received)",
            self.size,
            self.rate,
            speed(|[sending, receiving]| sending + receiving),
            speed(|[sending, _]| *sending),
            speed(|[_, receiving]| *receiving),
            self.received,
            self.sent
        );
    }
}

fn main() {
    // Cargo adds --bench.
    let options: Vec<String> = std::env::args().skip(1).filter(|option| option != "--bench").collect();
    let option = |place: usize| options.get(place).map(|option| option.parse::<f64>().unwrap());
    let mut cases = Vec::new();
    for size in [64, 1518, 9000] {
        for rate in [0.0, 1e-5, 1e-4, 1e-3] {
            if option(0).is_none_or(|only| only == size as f64) && option(1).is_none_or(|only| only == rate) {
                cases.push(Case::new(size, rate));
            }
        }
    }
    for _ in 0..option(2).map_or(TURNS, |turns| turns as usize) {
        cases.iter_mut().for_each(Case::turn);
    }
    cases.iter().for_each(Case::print);
}
