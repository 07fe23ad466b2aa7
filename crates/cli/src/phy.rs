//! `narrows phy NAME`: a link to the bit.

use crate::failure::Failure;
use crate::form::Form;
use crate::watching::Watching;
use clap::Args;
use narrows_study::PhySpec;
use narrows_study::phy::Phy;

/// Arguments of `narrows phy`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  narrows phy 100gbase-sr4 --ber 1e-3 --frames 200000
  narrows phy 100gbase-sr4 --ber 5e-4 --frame-bytes 64 --json

Frames with random contents go through MAC, 64b/66b, PCS lanes, 256b/257b, RS(528,514) and four
lanes, bit for bit, and back. The formula: a codeword is lost when more than 7 of its 528 symbols
are wrong, and a frame with any codeword that it reaches into. Latency is what a stage must wait
for and what its circuit takes. Docs: docs/phy.md.")]
pub struct PhyArgs {
    /// 100gbase-sr4
    #[arg(value_name = "NAME")]
    phy: String,
    /// The probability that a bit on a lane turns over
    #[arg(long, default_value_t = 0.0, value_name = "RATE", allow_negative_numbers = true)]
    ber: f64,
    /// Number of frames
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    frames: u64,
    /// Length of a frame from destination address to FCS, 64 to 16384
    #[arg(long, default_value_t = 1518, value_name = "BYTES")]
    frame_bytes: usize,
    /// Seed of contents, gaps and errors
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    form: Form,
}

/// Runs it; the exit code.
pub fn run(args: PhyArgs) -> Result<u8, Failure> {
    let phy = Phy::by_name(&args.phy)?;
    let spec = PhySpec { phy, ber: args.ber, frames: args.frames, frame_bytes: args.frame_bytes, seed: args.seed };
    let outcome = spec.run(&Watching::start()?)?;
    args.form.print(|| outcome.text(), || outcome.summary(), || outcome.table())?;
    Ok(outcome.exit_code())
}
