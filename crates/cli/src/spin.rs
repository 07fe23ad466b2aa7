//! `narrows spin`: handlers on a NIC that computes.

use crate::failure::Failure;
use crate::form::Form;
use crate::watching::Watching;
use clap::Args;
use narrows_output::exit;
use narrows_study::{SpinSpec, spin};
use narrows_units::{ByteRate, Bytes};

/// Arguments of `narrows spin`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  narrows spin --handler reduce --bytes 64,512,2048 --hpus 8
  narrows spin --handler copy_to_host --preset fpspin --bytes 1024 --json
  narrows spin --cost 60,0,5,fold,28

Packets go through PsPIN's queues, clusters and HPUs, cycle by cycle. Names of handlers are
functions that were fitted to the programs of crates/spin/handlers; an ELF file of RV32IMAC runs
instruction by instruction. Docs: docs/spin.md.")]
pub struct SpinArgs {
    /// pspin-asic or fpspin
    #[arg(long, default_value = "pspin-asic", value_name = "NAME")]
    preset: String,
    /// The handlers: an ELF file, or empty, copy_to_host, ping_pong, filtering, aggregate, reduce, histogram
    #[arg(long, default_value = "empty", value_name = "NAME|FILE")]
    handler: String,
    /// A payload handler as a function instead: cycles, cycles per byte, per word, and what it does (pass, drop,
    /// send-back, fold, copy-to-host); bytes of a header that cost nothing may follow
    #[arg(long, value_name = "A,B,C,ACTION", conflicts_with = "handler")]
    cost: Option<String>,
    /// Lengths of packets
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024", value_name = "BYTES,...", value_parser = clap::value_parser!(u64).range(1..))]
    bytes: Vec<u64>,
    /// How many HPUs, in one cluster or in full ones
    #[arg(long, value_name = "N")]
    hpus: Option<u32>,
    /// All packets of a message run on one HPU
    #[arg(long)]
    pinned: bool,
    /// What arrives, "100 Gbit/s"; all that the way in takes
    #[arg(long, value_name = "RATE")]
    rate: Option<ByteRate>,
    #[command(flatten)]
    form: Form,
}

/// Runs it; the exit code.
pub fn run(args: SpinArgs) -> Result<u8, Failure> {
    let (name, handlers) = match args.cost {
        Some(text) => (text.clone(), spin::cost(&text)?),
        None => (args.handler.clone(), spin::handlers(&args.handler)?),
    };
    let bytes = args.bytes.into_iter().map(Bytes).collect();
    let spec = SpinSpec { preset: args.preset, hpus: args.hpus, pinned: args.pinned, name, handlers, bytes, rate: args.rate };
    let outcome = spec.run(&Watching::start()?)?;
    args.form.print(|| outcome.text(), || outcome.summary(), || outcome.table())?;
    Ok(exit::DONE)
}
