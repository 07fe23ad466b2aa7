//! A link to the bit: what is lost at a bit error rate, and what each stage costs.

use crate::{Observer, StudyError};
use narrows_engine::stream;
use narrows_output::{Meter, exit};
use narrows_phy::loss;
use narrows_phy::mac::{self, FCS, Received};
use narrows_phy::pcs::Distance;
use narrows_phy::reed_solomon::{CODEWORD, MESSAGE, WORDS, add, correct, encode};
use narrows_phy::stages::{self, LANE_RATE, LINE_RATE, MAC_RATE, Stage};
use narrows_phy::study::{Outcome, Trial};
use narrows_results::{Column, Table};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// A physical layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phy {
    /// Four lanes of multimode fibre, with RS-FEC (IEEE 802.3 clauses 82, 91, 95).
    Sr4,
}

impl Phy {
    /// All of them.
    pub const ALL: [Phy; 1] = [Phy::Sr4];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Phy::Sr4 => "100gbase-sr4",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn by_name(name: &str) -> Result<Phy, StudyError> {
        let names = || Phy::ALL.map(Phy::name).join(", ");
        let found = Phy::ALL.into_iter().find(|phy| phy.name() == name);
        found.ok_or_else(|| StudyError::Contradiction(format!("phy \"{name}\": expected {}", names())))
    }
}

/// Frames over one link.
#[derive(Clone, Debug, PartialEq)]
pub struct PhySpec {
    /// Which physical layer.
    pub phy: Phy,
    /// The probability that a bit on a lane turns over.
    pub ber: f64,
    /// How many frames.
    pub frames: u64,
    /// How long each is, from destination address to FCS.
    pub frame_bytes: usize,
    /// Of contents, gaps and errors.
    pub seed: u64,
}

/// What became of them.
#[derive(Clone, Debug)]
pub struct PhyOutcome {
    /// What was asked for.
    pub spec: PhySpec,
    /// What was counted.
    pub counted: Outcome,
    /// The stages in the order of the way.
    pub stages: Vec<Stage>,
    /// Ended before all frames were sent.
    pub interrupted: bool,
}

impl PhySpec {
    /// Sends the frames.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn run(&self, observer: &dyn Observer) -> Result<PhyOutcome, StudyError> {
        let mut random = stream(self.seed, "phy", 0);
        let meter = Arc::new(Meter::new(self.frames));
        let part = observer.part(format!("sending {} frames", self.frames), &meter, Box::new(String::new));
        let trial = Trial { ber: self.ber, frames: self.frames, frame_bytes: self.frame_bytes, distance: Distance::STANDARD };
        let goes_on = |sent| {
            meter.set(sent, self.frames);
            observer.goes_on()
        };
        let counted = trial.run(|| random.next_u64(), goes_on)?;
        drop(part);
        let interrupted = counted.frames < self.frames;
        Ok(PhyOutcome { spec: self.clone(), counted, stages: stages::stages(self.frame_bytes), interrupted })
    }
}

/// A part of a whole; 1 of nothing at all, for what never came is lost.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl PhyOutcome {
    /// Lost codewords and frames: simulated, and by the formula.
    pub fn losses(&self) -> [(f64, f64); 2] {
        let Outcome { counters, frames, lost, .. } = &self.counted;
        let PhySpec { ber, frame_bytes, .. } = self.spec;
        [(share(counters.lost, counters.codewords), loss::codeword(ber)), (share(*lost, *frames), loss::frame(ber, frame_bytes))]
    }

    /// From one MAC to the other, without cable.
    pub fn latency_ns(&self) -> f64 {
        self.stages.iter().map(Stage::latency_ns).sum()
    }

    /// Bits on the lanes for each bit of a frame without its FCS.
    pub fn expansion(&self) -> f64 {
        self.stages.iter().map(|stage| stage.expansion).product()
    }

    /// All numbers.
    pub fn summary(&self) -> Value {
        let Outcome { frames, lost, wrong, counters, high_ber_windows, aligned } = &self.counted;
        let [codeword, frame] = self.losses();
        let stages = self.stages.iter().map(|stage| {
            json!({
                "stage": stage.name,
                "side": side(stage),
                "latency_ns": stage.latency_ns(),
                "parts": stage.parts.iter().map(|part| json!({"what": part.what, "ns": part.ns})).collect::<Vec<_>>(),
                "overhead": stage.expansion - 1.0,
                "source": stage.source,
            })
        });
        json!({
            "phy": self.spec.phy.name(),
            "ber": self.spec.ber,
            "frames": frames,
            "frame_bytes": self.spec.frame_bytes,
            "seed": self.spec.seed,
            "partial": self.interrupted,
            "exit_code": self.exit_code(),
            "aligned": aligned,
            "codewords": counters.codewords,
            "codewords_lost": counters.lost,
            "codeword_loss": codeword.0,
            "codeword_loss_formula": codeword.1,
            "frames_lost": lost,
            "frame_loss": frame.0,
            "frame_loss_formula": frame.1,
            "frames_wrong": wrong,
            "corrected_symbols": counters.corrected,
            "three_codewords_lost": counters.three_lost,
            "high_ber_windows": high_ber_windows,
            "mac_gbps": MAC_RATE / 1e9,
            "lane_gbps": LANE_RATE / 1e9,
            "line_gbps": LINE_RATE / 1e9,
            "latency_ns": self.latency_ns(),
            "overhead": self.expansion() - 1.0,
            "stages": stages.collect::<Vec<_>>(),
        })
    }

    /// The stages, a row each.
    pub fn table(&self) -> Table {
        let words = |value: &dyn Fn(&Stage) -> String| Column::Text(self.stages.iter().map(value).collect());
        let number = |value: &dyn Fn(&Stage) -> f64| Column::Number(self.stages.iter().map(|stage| Some(value(stage))).collect());
        Table::new(vec![
            ("stage", words(&|stage| stage.name.to_owned())),
            ("side", words(&|stage| side(stage).to_owned())),
            ("latency_ns", number(&Stage::latency_ns)),
            ("overhead", number(&|stage| stage.expansion - 1.0)),
            ("parts", words(&parts)),
            ("source", words(&|stage| stage.source.to_owned())),
        ])
    }

    /// To read.
    pub fn text(&self) -> String {
        let PhySpec { phy, ber, frame_bytes, seed, .. } = &self.spec;
        let Outcome { frames, lost, wrong, counters, high_ber_windows, aligned } = &self.counted;
        let partial = if self.interrupted { "; ended by a signal, partial" } else { "" };
        let mut text = format!("{}: {frames} frames of {frame_bytes} bytes, bit error rate {ber:e}, seed {seed}{partial}\n", phy.name());
        let mut line = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        let [codeword, frame] = self.losses();
        line(format!("  {:16} {:>12} {:>12}", "", "simulated", "formula"));
        line(format!("  {:16} {:>12.4e} {:>12.4e}   {} of {}", "codeword loss", codeword.0, codeword.1, counters.lost, counters.codewords));
        line(format!("  {:16} {:>12.4e} {:>12.4e}   {lost} of {frames}", "frame loss", frame.0, frame.1));
        let corrected = counters.corrected.map(|count| count.to_string()).join(", ");
        line(format!("  symbols corrected on the four lanes: {corrected}"));
        if *wrong > 0 {
            line(format!("  {wrong} frames arrived as others than were sent"));
        }
        if !aligned {
            line(String::from("  the receiver does not find its lanes"));
        }
        if counters.three_lost > 0 {
            let times = counters.three_lost;
            line(format!("  three codewords in a row were lost {times} times: by the standard a receiver then looks for its lanes anew"));
        }
        if *high_ber_windows > 0 {
            line(format!(
                "  {high_ber_windows} times 500 us had a high bit error rate: by the standard a receiver then takes no frames (hi_ber)"
            ));
        }
        line(format!("\n  {:22} {:8} {:>10} {:>9}  latency is that of", "stage", "side", "latency ns", "overhead"));
        for stage in &self.stages {
            let overhead = 100.0 * (stage.expansion - 1.0);
            line(format!("  {:22} {:8} {:>10.2} {:>7.3} %  {}", stage.name, side(stage), stage.latency_ns(), overhead, parts(stage)));
        }
        let overhead = 100.0 * (self.expansion() - 1.0);
        line(format!("  {:22} {:8} {:>10.2} {overhead:>7.3} %  without modules and cable", "sum", "", self.latency_ns()));
        line(format!("  {} Gb/s of the MAC are {} Gb/s on four lanes of {} Gb/s", MAC_RATE / 1e9, LINE_RATE / 1e9, LANE_RATE / 1e9));
        text
    }

    /// 0, or as a shell reports what SIGINT ended.
    pub fn exit_code(&self) -> u8 {
        if self.interrupted { exit::INTERRUPTED } else { exit::DONE }
    }
}

fn side(stage: &Stage) -> &'static str {
    if stage.sends { "sender" } else { "receiver" }
}

fn parts(stage: &Stage) -> String {
    stage.parts.iter().map(|part| format!("{} {:.2}", part.what, part.ns)).collect::<Vec<_>>().join(", ")
}

/// What figures compare.
pub(crate) fn measures(outcome: &PhyOutcome) -> [(&'static str, f64); 8] {
    let [codeword, frame] = outcome.losses();
    [
        ("codeword_loss", codeword.0),
        ("codeword_loss_formula", codeword.1),
        ("frame_loss", frame.0),
        ("frame_loss_formula", frame.1),
        ("latency_ns", outcome.latency_ns()),
        ("line_gbps", stages::coded_rate() / 1e9),
        ("correctable", correctable(outcome.spec.seed) as f64),
        ("frame_bytes_min", shortest_frame() as f64),
    ]
}

/// Wrong symbols of a codeword that are corrected, by trying.
fn correctable(seed: u64) -> usize {
    let mut random = stream(seed, "correctable", 0);
    let mut sent = [0; WORDS];
    (0..MESSAGE).for_each(|place| add(&mut sent, place, random.below(1024) as u16));
    encode(&mut sent);
    let mut places: Vec<usize> = (0..CODEWORD).collect();
    let corrects = |wrong: usize| {
        random.shuffle(&mut places);
        let mut received = sent;
        places[..wrong].iter().for_each(|&place| add(&mut received, place, 1 + random.below(1023) as u16));
        correct(&mut received).is_ok() && received == sent
    };
    (1..CODEWORD).map(corrects).take_while(|&corrected| corrected).count()
}

/// Bytes of the frame that comes of a single one.
fn shortest_frame() -> usize {
    let (mut receiver, mut bytes) = (mac::Receiver::default(), 0);
    mac::Sender::default().send(&[1], |column| {
        receiver.receive(column, |received| {
            if let Received::Frame(data) = received {
                bytes = data.len() + FCS;
            }
        });
    });
    bytes
}
