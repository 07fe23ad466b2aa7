//! Latency and overhead of each stage of 100GBASE-R with RS-FEC: what a stage must gather before it can go on, and what
//! a circuit takes to work on it. Cables, modules and the analogue part of a transceiver are not in it.

use crate::column::Column;
use crate::fec::FEC_LANES;
use crate::mac::{FCS, FRAME_MIN, GAP, PREAMBLE};
use crate::marker::DISTANCE;
use crate::reed_solomon::{CODEWORD, CODEWORD_BITS, MESSAGE, SYMBOL_BITS};
use crate::transcode;

/// Bits of the MAC per second.
pub const MAC_RATE: f64 = 100e9;
/// Bits per second on a lane of 100GBASE-SR4, -CR4 and -KR4 (clause 91.5.2.8 and table 95-6).
pub const LANE_RATE: f64 = 25.78125e9;
/// On all lanes.
pub const LINE_RATE: f64 = FEC_LANES as f64 * LANE_RATE;
/// What the codings make of the rate of the MAC: [`LINE_RATE`].
pub fn coded_rate() -> f64 {
    let transcoded = transcode::BITS as f64 / (64 * transcode::BLOCKS) as f64;
    MAC_RATE * transcoded * CODEWORD as f64 / MESSAGE as f64
}

/// Bits of a clock of the Reed-Solomon circuits (see [`stages`]).
const CIRCUIT_BITS: usize = 160;
/// Its clocks from the last symbols of a codeword to the first corrected ones: 49 from input to output, of which 33
/// bring the codeword.
const SOLVING_CLOCKS: usize = 49 - CODEWORD_BITS / CIRCUIT_BITS;
/// Its clocks from the input to the output of the encoder.
const ENCODING_CLOCKS: usize = 3;

/// A part of a stage's latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyShare {
    /// What takes the time.
    pub what: &'static str,
    /// How long.
    pub ns: f64,
}

/// A stage in the order of the way from one MAC to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// On the sender's side.
    pub sends: bool,
    /// What its latency is made of.
    pub parts: Vec<LatencyShare>,
    /// Bits behind it for each bit in front of it; 1 on the receiver's side.
    pub expansion: f64,
    /// Where that stands.
    pub source: &'static str,
}

impl Stage {
    /// The sum of its parts.
    pub fn latency_ns(&self) -> f64 {
        self.parts.iter().fold(0.0, |sum, part| sum + part.ns)
    }
}

/// The stages for frames of so many bytes, from destination address to FCS. The Reed-Solomon circuits are those of IP
/// Cores' RS100 for IEEE 802.3bj (ipcores.com, RS100-160: 160 bits a clock, encoder 3 clocks, decoder 49): 644.53 MHz
/// at the line rate.
pub fn stages(frame_bytes: usize) -> Vec<Stage> {
    let at = |bits: f64, rate: f64| bits / rate * 1e9;
    let part = |what, ns| LatencyShare { what, ns };
    let clock = at(CIRCUIT_BITS as f64, LINE_RATE);
    let block = at(64.0, MAC_RATE);
    let frame = frame_bytes.max(FRAME_MIN) as f64;
    let column = 8.0 * std::mem::size_of_val(&Column::IDLE.octets) as f64;
    let transcoded = at(64.0 * transcode::BLOCKS as f64, MAC_RATE);
    let stage = |name, sends, parts, expansion, source| Stage { name, sends, parts, expansion, source };
    vec![
        stage(
            "MAC",
            true,
            vec![part("a column of 8 octets", at(column, MAC_RATE))],
            (frame + (PREAMBLE + GAP) as f64) / (frame - FCS as f64),
            "clauses 3, 4, 81",
        ),
        stage("64b/66b, scrambler", true, vec![part("a block", block)], 66.0 / 64.0, "82.2.3, 82.2.5"),
        stage("PCS lanes, markers", true, vec![], DISTANCE as f64 / (DISTANCE - 1) as f64, "82.2.6, 82.2.7"),
        stage(
            "256b/257b",
            true,
            vec![part("4 blocks, whose kinds stand in front", transcoded)],
            transcode::BITS as f64 / (66 * transcode::BLOCKS) as f64,
            "91.5.2.5",
        ),
        stage(
            "RS(528,514) encoder",
            true,
            vec![part("3 clocks of 160 bits", ENCODING_CLOCKS as f64 * clock)],
            CODEWORD as f64 / MESSAGE as f64,
            "91.5.2.7; RS100",
        ),
        stage("4 lanes", true, vec![part("a symbol of a lane", at(SYMBOL_BITS as f64, LANE_RATE))], 1.0, "91.5.2.8"),
        stage("lanes, deskew", false, vec![part("a symbol of a lane", at(SYMBOL_BITS as f64, LANE_RATE))], 1.0, "91.5.3.1, 91.5.3.2"),
        stage(
            "RS(528,514) decoder",
            false,
            vec![
                part("a codeword of 5280 bits", at(CODEWORD_BITS as f64, LINE_RATE)),
                part("16 clocks for places and values", SOLVING_CLOCKS as f64 * clock),
            ],
            1.0,
            "91.5.3.3; RS100",
        ),
        stage("257b/256b", false, vec![part("a transcoded block", transcoded)], 1.0, "91.5.3.5"),
        stage("descrambler, 66b/64b", false, vec![part("a block", block), part("the block behind it", block)], 1.0, "82.2.15, 82.2.18"),
        stage("MAC", false, vec![part("a column of 8 octets", at(column, MAC_RATE))], 1.0, "clauses 4, 81"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_together_are_66_bits_for_64() {
        let stages = stages(1518);
        let by_name = |name: &str| stages.iter().find(|stage| stage.name == name).unwrap().expansion;
        // 100 Gb/s x 257/256 x 528/514 = 103.125 Gb/s = 4 x 25.78125 Gb/s.
        let coding = by_name("64b/66b, scrambler") * by_name("256b/257b") * by_name("RS(528,514) encoder");
        assert!((MAC_RATE * coding - LINE_RATE).abs() < 1.0, "{}", MAC_RATE * coding);
        assert_eq!((LINE_RATE, coded_rate()), (103.125e9, 103.125e9));
    }

    #[test]
    fn the_decoder_takes_a_codeword_and_what_its_circuit_takes() {
        let stages = stages(1518);
        let decoder = stages.iter().find(|stage| stage.name == "RS(528,514) decoder").unwrap();
        assert!((decoder.parts[0].ns - 51.2).abs() < 1e-9);
        assert!((decoder.latency_ns() - 49.0 * 160.0 / 103.125).abs() < 1e-9);
        let total: f64 = stages.iter().map(Stage::latency_ns).sum();
        // Published for RS-FEC altogether: 80 to 100 ns.
        assert!((80.0..100.0).contains(&total), "{total} ns");
    }
}
