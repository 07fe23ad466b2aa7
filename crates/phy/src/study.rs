//! What is lost at a bit error rate, by sending it.

use crate::bits::Bits;
use crate::channel::Errors;
use crate::crc::crc32;
use crate::fec::{Counters, FEC_LANES};
use crate::link::{Receiver, Sender};
use crate::mac::{FCS, FRAME_MAX, FRAME_MIN, Received};
use crate::pcs::Distance;
use std::collections::VecDeque;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The probability that a bit on a lane turns over.
    pub ber: f64,
    /// How many frames.
    pub frames: u64,
    /// How long each is, from destination address to FCS.
    pub frame_bytes: usize,
    /// From markers to markers.
    pub distance: Distance,
}

/// Why a trial cannot be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialError {
    /// No probability.
    Ber(f64),
    /// Nothing to send.
    NoFrames,
    /// No Ethernet frame.
    FrameBytes(usize),
}

impl std::fmt::Display for TrialError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TrialError::Ber(ber) => write!(f, "a bit error rate of {ber}: expected a probability, 0 to 1, such as 1e-5"),
            TrialError::NoFrames => write!(f, "0 frames: expected 1 at least"),
            TrialError::FrameBytes(bytes) => write!(f, "frames of {bytes} bytes: expected {FRAME_MIN} to {FRAME_MAX}"),
        }
    }
}

impl std::error::Error for TrialError {}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that were sent: all, unless it was interrupted.
    pub frames: u64,
    /// Those that did not arrive.
    pub lost: u64,
    /// Those that arrived as others than were sent, and with a right FCS.
    pub wrong: u64,
    /// What the receiver saw.
    pub counters: Counters,
    /// Windows of 500 us with a high bit error rate.
    pub high_ber_windows: u64,
    /// Whether the receiver found its lanes.
    pub aligned: bool,
}

/// Columns at a time while no frames are sent.
const IDLE: usize = 20 * 64;
/// Periods of markers after which the lanes are found, or never.
const PERIODS: usize = 8;
/// Destination, source, type.
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

impl Trial {
    /// Sends the frames, with up to seven columns more than the shortest gap between them, so that they begin anywhere
    /// in a codeword. The receiver keeps its lanes whatever is lost. `random` gives 64 uniform bits; `goes_on` hears
    /// how many frames were sent, and may end it.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn run(&self, mut random: impl FnMut() -> u64, mut goes_on: impl FnMut(u64) -> bool) -> Result<Outcome, TrialError> {
        self.check()?;
        let (mut sender, mut wires) = (Sender::new(self.distance), Wires::new(self, &mut random));
        for _ in 0..PERIODS * 20 * self.distance.get() / IDLE {
            sender.idle(IDLE, &mut wires.lanes);
            wires.deliver(&mut random);
            if wires.receiver.order().is_some() {
                break;
            }
        }
        let mut data = vec![0; self.frame_bytes - FCS];
        data[..HEADER.len()].copy_from_slice(&HEADER);
        for number in 0..self.frames {
            for chunk in data[HEADER.len()..].chunks_mut(8) {
                chunk.copy_from_slice(&random().to_le_bytes()[..chunk.len()]);
            }
            data[HEADER.len()..HEADER.len() + 8].copy_from_slice(&number.to_le_bytes());
            wires.sent.push_back((number, crc32(&data)));
            wires.outcome.frames += 1;
            sender.send(&data, &mut wires.lanes);
            sender.idle((random() >> 61) as usize, &mut wires.lanes);
            wires.deliver(&mut random);
            if number % 256 == 0 && !goes_on(number) {
                break;
            }
        }
        // What is on the way comes out with the codewords behind it.
        sender.idle(IDLE, &mut wires.lanes);
        wires.deliver(&mut random);
        let Wires { receiver, mut outcome, sent, .. } = wires;
        outcome.lost += sent.len() as u64;
        outcome.counters = receiver.counters().clone();
        outcome.high_ber_windows = receiver.high_ber_windows();
        outcome.aligned = outcome.counters.alignments > 0;
        Ok(outcome)
    }

    fn check(&self) -> Result<(), TrialError> {
        if !(0.0..=1.0).contains(&self.ber) {
            Err(TrialError::Ber(self.ber))
        } else if self.frames == 0 {
            Err(TrialError::NoFrames)
        } else if !(FRAME_MIN..=FRAME_MAX).contains(&self.frame_bytes) {
            Err(TrialError::FrameBytes(self.frame_bytes))
        } else {
            Ok(())
        }
    }
}

/// Four lanes with errors, and who receives.
struct Wires {
    lanes: [Bits; FEC_LANES],
    errors: Vec<Errors>,
    receiver: Receiver,
    /// Number and check sequence of the frames that have not arrived yet.
    sent: VecDeque<(u64, u32)>,
    outcome: Outcome,
}

impl Wires {
    fn new(trial: &Trial, random: &mut impl FnMut() -> u64) -> Wires {
        Wires {
            lanes: std::array::from_fn(|_| Bits::new()),
            errors: (0..FEC_LANES).map(|_| Errors::new(trial.ber, random)).collect(),
            receiver: Receiver::new(trial.distance, true),
            sent: VecDeque::new(),
            outcome: Outcome::default(),
        }
    }

    fn deliver(&mut self, random: &mut impl FnMut() -> u64) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            self.errors[number].inject(lane, 0, random);
            self.receiver.wire(number).append(lane);
            lane.skip(lane.len());
        }
        let (sent, outcome) = (&mut self.sent, &mut self.outcome);
        self.receiver.receive(|received| {
            let Received::Frame(data) = received else { return };
            let number = data.get(HEADER.len()..HEADER.len() + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            let Some(place) = sent.iter().position(|&(sent, check)| Some(sent) == number && check == crc32(data)) else {
                outcome.wrong += 1;
                return;
            };
            outcome.lost += place as u64;
            sent.drain(..=place);
        });
    }
}
