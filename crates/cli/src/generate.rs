//! `narrows generate PATTERN`

use crate::failure::Failure;
use crate::trace;
use clap::Args;
use narrows_output::exit;
use narrows_trace::generate::{Generated, Parameters, Pattern};
use narrows_trace::{Format, Program};
use narrows_units::{Bytes, SimTime};
use std::path::PathBuf;

/// Arguments of `narrows generate`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows generate halo3d --ranks 4096 --bytes 64KiB -o halo.vef
  narrows generate fft3d --ranks 512 -o fft.goal
  narrows generate bcast --ranks 342 --steps 100 --bytes 1MB -o bcast.vef
  narrows generate lammps-like --ranks 32768 --steps 20 -o lammps.vef
  narrows generate lulesh-like --ranks 27 --cells 20 -o lulesh.jsonl

Patterns: halo3d (a periodic 3-D grid, 6 neighbours), fft3d (n^3 ranks, rows exchange in 3 phases), allreduce-loop,
bcast (from rank 0), lammps-like (the melt benchmark), hpcg-like (104^3 cells per rank, 4 levels), lulesh-like (n^3
ranks, 30^3 elements each, 26 neighbours). Docs: docs/traces.md.")]
pub struct GenerateArgs {
    /// halo3d, fft3d, allreduce-loop, bcast, lammps-like, hpcg-like or lulesh-like
    #[arg(value_parser = pattern)]
    pattern: Pattern,
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N")]
    ranks: u32,
    /// Time steps, transforms, iterations [default: the pattern's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Size of a message (halo3d), a rank's part (fft3d) or the collective [default: the pattern's]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Cells of a rank in each direction (hpcg-like, lulesh-like) [default: the pattern's]
    #[arg(long, value_name = "N")]
    cells: Option<u32>,
    /// Computing of a rank per step, such as 100us [default: the pattern's]
    #[arg(long, value_name = "TIME")]
    compute: Option<SimTime>,
    /// The new file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the new file [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl", value_parser = format)]
    format: Option<Format>,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::by_name(text).ok_or_else(|| format!("expected {}", Pattern::ALL.map(Pattern::name).join(", ")))
}

fn format(text: &str) -> Result<Format, String> {
    Format::by_name(text).ok_or_else(|| format!("expected {}", Format::ALL.map(Format::name).join(", ")))
}

/// Runs `narrows generate`.
pub fn run(args: GenerateArgs) -> Result<u8, Failure> {
    let parameters = Parameters {
        ranks: args.ranks,
        steps: args.steps.unwrap_or(args.pattern.steps()),
        bytes: args.bytes.map(|bytes| bytes.0),
        cells: args.cells,
        compute: args.compute,
    };
    // Ranks are alike: what the first one does says how much there is.
    let mut first = Generated::new(args.pattern, parameters)?;
    let (mut operations, mut after) = (0, Vec::new());
    while first.next(0, &mut after)?.is_some() {
        operations += u64::from(args.ranks);
    }
    drop(first);
    trace::save(Generated::new(args.pattern, parameters)?, operations, &args.output, args.format)?;
    Ok(exit::DONE)
}
