//! `narrows extrapolate FILE FILE ... --ranks N -o FILE`

use crate::failure::Failure;
use crate::form::{Form, keys_and_values};
use crate::trace;
use clap::Args;
use narrows_extrapolate::{Extrapolation, Growth};
use narrows_output::{Meter, exit, is_standard, say, warn};
use narrows_results::Progress;
use narrows_study::Observer;
use narrows_study::replay::{Recordings, left_out, not_used};
use narrows_trace::{Format, TraceError};
use narrows_units::show;
use serde_json::{Value, json};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `narrows extrapolate`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows extrapolate a8.jsonl a27.jsonl a64.jsonl --ranks 4096 -o a4096.jsonl
  narrows extrapolate a16.jsonl a32.jsonl a64.jsonl --ranks 1024 --scaling strong -o a1024.jsonl

The recordings are of one program with one input, from `narrows record -o NAME.jsonl` (or `narrows
generate`). Three or more say how wrong the model is: one is left out and predicted. A grid needs
recordings with at least three ranks in each direction. Docs: docs/how-to/extrapolate.md.")]
pub struct ExtrapolateArgs {
    /// Recordings at different numbers of ranks
    #[arg(required = true, value_name = "FILE")]
    recordings: Vec<PathBuf>,
    /// Number of ranks of the new trace
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Each rank keeps its part of the problem (weak), or the whole stays (strong): how computing grows [default: as
    /// the recordings say]
    #[arg(long, value_name = "weak|strong", value_parser = growth)]
    scaling: Option<Growth>,
    /// The largest share of messages, calls or bytes that may be left out because it is not explained
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    unexplained: f64,
    /// The new file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the new file [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl")]
    format: Option<Format>,
    #[command(flatten)]
    form: Form,
}

fn growth(text: &str) -> Result<Growth, String> {
    match text {
        "weak" => Ok(Growth::Weak),
        "strong" => Ok(Growth::Strong),
        _ => Err(String::from("expected weak or strong")),
    }
}

/// `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    number.ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| String::from("expected a share such as 5% or 0.05"))
}

/// Runs `narrows extrapolate`.
pub fn run(args: ExtrapolateArgs) -> Result<u8, Failure> {
    if args.format.or_else(|| Format::by_extension(&args.output)).is_none() {
        let name = trace::shown(&args.output, "standard output");
        let message = format!("{name}: expected a name that ends in .vef, .goal, .bin or .jsonl, or --to FORMAT");
        return Err(TraceError::Unsuitable(message).into());
    }
    let ExtrapolateArgs { recordings: files, ranks, scaling: growth, unexplained, .. } = args;
    let found = Recordings { files, ranks, unexplained, growth }.extrapolate(&Shown)?;
    left_out(&found).iter().for_each(|text| warn!("{text}"));
    not_used(&found).iter().for_each(|text| warn!("{text}"));
    trace::save(found.model.program(), found.totals.operations, &args.output, args.format)?;
    if is_standard(&args.output) {
        // The trace is there.
        say!("{}", text(&found).trim_end());
    } else {
        args.form.print(|| text(&found), || value(&found), || keys_and_values(&value(&found)))?;
    }
    Ok(exit::DONE)
}

/// Shows how far reading is; signals end the program, as they do where nothing is simulated.
struct Shown;

impl Observer for Shown {
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        Box::new(Progress::with(what, meter, detail))
    }

    fn warning(&self, text: &str) {
        warn!("{text}");
    }

    fn goes_on(&self) -> bool {
        true
    }
}

fn percent(error: f64) -> String {
    format!("{:+.2} %", 100.0 * error)
}

fn text(found: &Extrapolation) -> String {
    let (findings, totals) = (&found.model.findings, &found.totals);
    let [messages, calls, bytes] = findings.unexplained.map(|share| format!("{:.2} %", 100.0 * share));
    let size = show::size(u64::try_from(totals.bytes).unwrap_or(u64::MAX));
    let check = found.check.as_ref().map_or_else(
        || String::from("no recording can be left out: record at one more number of ranks"),
        |check| {
            let [messages, bytes, calls, computing] = [check.messages, check.bytes, check.calls, check.computing].map(percent);
            format!("without {}: messages {messages}, bytes {bytes}, calls {calls}, computing {computing}", check.name)
        },
    );
    format!(
        "ranks           {ranks}: {rule}, {grid}\n\
         kinds of ranks  {classes}, {steps} calls in their texts, {kinds} of them different\n\
         scaling         {growth}; computing: {computing}\n\
         messages        {sent}, {size} in total\n\
         collectives     {parts} parts\n\
         unexplained     messages {messages}, calls {calls}, bytes {bytes}\n\
         left out        {check}\n",
        ranks = findings.grid.ranks(),
        rule = findings.rule,
        grid = findings.grid,
        classes = findings.classes,
        steps = findings.steps.0,
        kinds = findings.steps.1,
        growth = findings.growth.map_or_else(|| String::from("not known (--scaling says it)"), |growth| growth.to_string()),
        computing = findings.computing,
        sent = totals.messages,
        parts = totals.calls,
    )
}

fn value(found: &Extrapolation) -> Value {
    let (findings, totals) = (&found.model.findings, &found.totals);
    let [messages, calls, bytes] = findings.unexplained;
    json!({
        "ranks": findings.grid.ranks(),
        "rule": findings.rule.to_string(),
        "grid": findings.grid.sides,
        "kinds_of_ranks": findings.classes,
        "scaling": findings.growth.map(|growth| growth.to_string()),
        "computing": findings.computing,
        "messages": totals.messages,
        "bytes": totals.bytes as f64,
        "collective_parts": totals.calls,
        "operations": totals.operations,
        "computing_s_mean": totals.computing as f64 * 1e-12 / f64::from(findings.grid.ranks()),
        "unexplained": {"messages": messages, "calls": calls, "bytes": bytes},
        "not_used": found.aside,
        "left_out": found.check.as_ref().map(|check| json!({
            "recording": check.name,
            "ranks": check.ranks,
            "messages": check.messages,
            "bytes": check.bytes,
            "calls": check.calls,
            "computing": check.computing,
        })),
    })
}
