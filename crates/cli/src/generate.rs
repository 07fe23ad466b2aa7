//! `narrows generate PATTERN`

use crate::failure::Failure;
use crate::trace;
use clap::Args;
use narrows_output::exit;
use narrows_trace::generate::{Cells, Generated, Parameters, Pattern};
use narrows_trace::transformer::{Training, Transformer};
use narrows_trace::{Format, Program, TraceError};
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
  narrows generate transformer --ranks 64 --tp 8 --pp 2 --layers 32 --batch 128 -o training.jsonl

Patterns: halo3d (a periodic 3-D grid, 6 neighbours), fft3d (n^3 ranks, rows exchange in 3
phases), allreduce-loop, bcast (from rank 0), lammps-like (the melt benchmark, 20^3 cells of 4
atoms per rank), minimd-like (32^3 cells of 4 atoms per rank), nest-like (spikes from everybody to
everybody), hpcg-like (104^3 cells per rank, 4 levels), minife-like (64^3 cells per rank),
matmul-like (Cannon's product of matrices on n^2 ranks with accelerators), lulesh-like (n^3 ranks,
30^3 elements each, 26 neighbours), miniem-like (a solver with two V-cycles of a problem of size
120), miniem-dpu (the same, one V-cycle on the last third of the ranks, DPUs), transformer (steps
of a training as Megatron-LM does them).
Docs: docs/traces.md.")]
pub struct GenerateArgs {
    /// halo3d, fft3d, allreduce-loop, bcast, lammps-like, minimd-like, nest-like, hpcg-like, minife-like, matmul-like,
    /// lulesh-like, miniem-like, miniem-dpu or transformer
    #[arg(value_parser = what)]
    pattern: What,
    /// Number of ranks
    #[arg(short = 'n', long, value_name = "N")]
    ranks: u32,
    /// Time steps, transforms, iterations [default: the pattern's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Size of a message (halo3d, nest-like), a rank's part (fft3d) or the collective [default: the pattern's]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Cells of a rank in each direction: 64, or 128x256x128 (lammps-like, minimd-like, hpcg-like, minife-like,
    /// lulesh-like); rows, columns and sums of its blocks (matmul-like); size of the whole problem (miniem-like,
    /// miniem-dpu) [default: the pattern's]
    #[arg(long, value_name = "N")]
    cells: Option<Cells>,
    /// Computing of a rank per step, such as 100us; of one direct solve (miniem-like, miniem-dpu) [default: the
    /// pattern's]
    #[arg(long, value_name = "TIME")]
    compute: Option<SimTime>,
    /// The new file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the new file [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl")]
    format: Option<Format>,
    #[command(flatten)]
    transformer: TransformerArgs,
}

/// What to make.
#[derive(Clone, Copy)]
enum What {
    Pattern(Pattern),
    Transformer,
}

/// The defaults are those of the smallest model in Narayanan et al., SC 2021, table 1.
#[derive(Args, Clone, Default, PartialEq)]
#[command(next_help_heading = "Of a transformer")]
struct TransformerArgs {
    /// Layers [default: 24]
    #[arg(long, value_name = "N")]
    layers: Option<u32>,
    /// Hidden size [default: 2304]
    #[arg(long, value_name = "N")]
    hidden: Option<u64>,
    /// Tokens of a sequence [default: 2048]
    #[arg(long, value_name = "N")]
    sequence: Option<u64>,
    /// Words [default: 51200]
    #[arg(long, value_name = "N")]
    vocabulary: Option<u64>,
    /// Sequences of a step, of all ranks together [default: 512]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Sequences of a micro-batch [default: 1]
    #[arg(long, value_name = "N")]
    micro_batch: Option<u64>,
    /// Tensor-parallel ranks; those that are left by --tp and --pp are data-parallel [default: 1]
    #[arg(long, value_name = "N")]
    tp: Option<u32>,
    /// Stages of the pipeline [default: 1]
    #[arg(long, value_name = "N")]
    pp: Option<u32>,
    /// Expert-parallel ranks, among the data-parallel ones [default: 1]
    #[arg(long, value_name = "N")]
    ep: Option<u32>,
    /// Experts of a layer [default: 0, a dense model]
    #[arg(long, value_name = "N")]
    experts: Option<u32>,
    /// Experts of a token [default: 1]
    #[arg(long, value_name = "N")]
    experts_per_token: Option<u32>,
    /// Bytes of a value [default: 2]
    #[arg(long, value_name = "N")]
    value_bytes: Option<u64>,
    /// Bytes of the gradient of a parameter [default: 4]
    #[arg(long, value_name = "N")]
    gradient_bytes: Option<u64>,
    /// Floating-point operations per second that a rank reaches [default: 137e12]
    #[arg(long, value_name = "RATE", value_parser = trace::rate)]
    flops_per_s: Option<f64>,
}

impl TransformerArgs {
    fn model(&self, ranks: u32, steps: u32) -> Transformer {
        let usual = Transformer::default();
        Transformer {
            ranks,
            steps,
            layers: self.layers.unwrap_or(usual.layers),
            hidden: self.hidden.unwrap_or(usual.hidden),
            sequence: self.sequence.unwrap_or(usual.sequence),
            vocabulary: self.vocabulary.unwrap_or(usual.vocabulary),
            batch: self.batch.unwrap_or(usual.batch),
            micro_batch: self.micro_batch.unwrap_or(usual.micro_batch),
            tensor: self.tp.unwrap_or(usual.tensor),
            pipeline: self.pp.unwrap_or(usual.pipeline),
            expert: self.ep.unwrap_or(usual.expert),
            experts: self.experts.unwrap_or(usual.experts),
            experts_per_token: self.experts_per_token.unwrap_or(usual.experts_per_token),
            value_bytes: self.value_bytes.unwrap_or(usual.value_bytes),
            gradient_bytes: self.gradient_bytes.unwrap_or(usual.gradient_bytes),
            flops_per_s: self.flops_per_s.unwrap_or(usual.flops_per_s),
        }
    }
}

fn what(text: &str) -> Result<What, String> {
    if text == "transformer" {
        return Ok(What::Transformer);
    }
    let names = || Pattern::ALL.map(Pattern::name).join(", ");
    Pattern::by_name(text).map(What::Pattern).ok_or_else(|| format!("expected {}, transformer", names()))
}

/// Runs `narrows generate`.
pub fn run(args: GenerateArgs) -> Result<u8, Failure> {
    match args.pattern {
        What::Pattern(pattern) => of_pattern(pattern, &args)?,
        What::Transformer => transformer(&args)?,
    }
    Ok(exit::DONE)
}

fn of_pattern(pattern: Pattern, args: &GenerateArgs) -> Result<(), TraceError> {
    if args.transformer != TransformerArgs::default() {
        let message = format!("{} is no transformer: leave out what describes one", pattern.name());
        return Err(TraceError::Unsuitable(message));
    }
    let parameters = Parameters {
        ranks: args.ranks,
        steps: args.steps.unwrap_or(pattern.steps()),
        bytes: args.bytes.map(|bytes| bytes.0),
        cells: args.cells,
        compute: args.compute,
    };
    // Ranks are alike: what the first one does says how much there is.
    let mut first = Generated::new(pattern, parameters)?;
    let operations = u64::from(args.ranks) * count(&mut first, 0)?;
    trace::save(Generated::new(pattern, parameters)?, operations, &args.output, args.format)
}

fn transformer(args: &GenerateArgs) -> Result<(), TraceError> {
    if args.bytes.is_some() || args.cells.is_some() || args.compute.is_some() {
        let message = "the sizes and times of a transformer follow from its own options: leave out --bytes, --cells and --compute";
        return Err(TraceError::Unsuitable(String::from(message)));
    }
    let model = args.transformer.model(args.ranks, args.steps.unwrap_or(1));
    // Ranks of a stage are alike.
    let mut training = Training::new(model)?;
    let of_stage = model.ranks / model.pipeline;
    let mut operations = 0;
    for stage in 0..model.pipeline {
        operations += u64::from(of_stage) * count(&mut training, stage * of_stage)?;
    }
    trace::save(Training::new(model)?, operations, &args.output, args.format)
}

/// Operations of a rank.
fn count(program: &mut impl Program, rank: u32) -> Result<u64, TraceError> {
    let (mut operations, mut after) = (0, Vec::new());
    while program.next(rank, &mut after)?.is_some() {
        operations += 1;
    }
    Ok(operations)
}
