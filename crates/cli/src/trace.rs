//! `narrows trace info | check | convert | scale | anonymise FILE`

use crate::failure::Failure;
use crate::form::{Form, keys_and_values};
use clap::{Args, Subcommand};
use narrows_collectives::rules::{MPICH, OPEN_MPI, Rules};
use narrows_output::{Meter, exit, is_standard, say, warn};
use narrows_replay::collectives::ByRules;
use narrows_replay::expand::Expanded;
use narrows_results::{Column, Progress, Table};
use narrows_trace::lines::{Complain, strict};
use narrows_trace::{Anonymous, Format, Location, Metered, Mistake, Program, ReadOptions, Scaled, Totals, Trace, TraceError, ideal};
use narrows_units::{SimTime, show};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `narrows trace` does.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Say what is in a trace
    #[command(after_help = "Example:\n  narrows trace info lammps.vef")]
    Info {
        /// The trace; - is standard input
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        #[command(flatten)]
        form: Form,
    },
    /// Check a trace: each mistake with its line, then whether messages and collectives meet
    #[command(after_help = "\
Example:
  narrows trace check lammps.vef

Exit code 0: a replay would take this trace. 1: it would not. 2: it cannot be read.")]
    Check {
        /// The trace; - is standard input
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        #[command(flatten)]
        form: Form,
    },
    /// Write a trace in another format
    #[command(after_help = "\
Examples:
  narrows trace convert lammps.vef lammps.goal --expand openmpi
  narrows trace convert schedule.bin schedule.jsonl
  narrows trace convert ti.txt --flops-per-s 2e9 out.vef
  narrows trace convert training.0.et training.jsonl

Of a Chakra trace the file of any rank stands for all.")]
    Convert {
        /// The trace; - is standard input
        source: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// The new file; - is standard output
        target: PathBuf,
        #[command(flatten)]
        writing: WritingArguments,
        /// Spells collectives out in messages, as this MPI library would do them (GOAL has no collectives)
        #[arg(long, value_name = "openmpi|mpich", value_parser = ["openmpi", "mpich"])]
        expand: Option<String>,
    },
    /// Multiply computing times and message sizes
    #[command(after_help = "Example:\n  narrows trace scale lammps.vef --compute 0.5 --bytes 2 -o faster.vef")]
    Scale {
        /// The trace; - is standard input
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// Factor of computing times
        #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
        compute: f64,
        /// Factor of message sizes
        #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
        bytes: f64,
        /// The new file; - is standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        writing: WritingArguments,
    },
    /// Make a trace of the files of a recording that was interrupted
    #[command(after_help = "Example:\n  narrows trace merge lammps.vef.records -o lammps.jsonl")]
    Merge {
        /// The folder with the files of the ranks
        folder: PathBuf,
        /// The new file; - is standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        writing: WritingArguments,
    },
    /// Exchange the numbers of ranks and tags, to pass a trace on
    #[command(after_help = "\
Example:
  narrows trace anonymise lammps.vef --seed 4711 -o anonymous.vef

Sizes, times and the pattern of communication stay. Who knows the seed can undo it.")]
    Anonymise {
        /// The trace; - is standard input
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// Decides on the numbers
        #[arg(long, value_name = "N")]
        seed: u64,
        /// The new file; - is standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        writing: WritingArguments,
    },
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Args)]
pub struct ReadingArguments {
    /// Format of the trace [default: as its beginning says, or its name: .et]
    #[arg(long = "from", value_name = "vef|goal|goal-binary|jsonl|ti|chakra")]
    source_format: Option<Format>,
    /// Floating-point operations per second, for SimGrid's time-independent traces and for Chakra's nodes that have
    /// operations and no time
    #[arg(long, default_value_t = 1e9, value_name = "RATE", value_parser = rate)]
    flops_per_s: f64,
}

impl From<ReadingArguments> for ReadOptions {
    fn from(arguments: ReadingArguments) -> ReadOptions {
        ReadOptions { format: arguments.source_format, flops_per_s: arguments.flops_per_s }
    }
}

/// How to write a trace.
#[derive(Clone, Copy, Debug, Args)]
pub struct WritingArguments {
    /// Format of the new file [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl")]
    target_format: Option<Format>,
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|factor| (0.0..=1e9).contains(factor)).ok_or_else(|| String::from("expected a number from 0 to 1e9"))
}

/// Operations per second.
pub fn rate(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|rate| (1.0..=1e18).contains(rate)).ok_or_else(|| String::from("expected a number from 1 to 1e18"))
}

/// Runs `narrows trace ...`.
pub fn run(command: TraceCommand) -> Result<u8, Failure> {
    match command {
        TraceCommand::Info { file, reading, form } => info(&file, reading.into(), form)?,
        TraceCommand::Check { file, reading, form } => return check(&file, reading.into(), form),
        TraceCommand::Convert { source, reading, target, writing, expand } => {
            convert(&source, reading.into(), &target, writing.target_format, expand.as_deref())?;
        }
        TraceCommand::Scale { file, reading, compute, bytes, output, writing } => {
            let program = open(&file, reading.into())?.program;
            let operations = program.total();
            save(Scaled::new(program, compute, bytes), operations, &output, writing.target_format)?;
        }
        TraceCommand::Anonymise { file, reading, seed, output, writing } => {
            let program = open(&file, reading.into())?.program;
            let operations = program.total();
            save(Anonymous::new(program, seed), operations, &output, writing.target_format)?;
        }
        TraceCommand::Merge { folder, output, writing } => {
            let ended_early = merge(&folder, &output, writing.target_format)?;
            return Ok(if ended_early > 0 { exit::UNWRITTEN } else { exit::DONE });
        }
    }
    Ok(exit::DONE)
}

/// How a file is called in messages.
pub fn shown(path: &Path, standard: &'static str) -> String {
    if is_standard(path) { standard.to_owned() } else { path.display().to_string() }
}

/// Reads a trace, and shows how far it is.
pub fn open(path: &Path, options: ReadOptions) -> Result<Trace, TraceError> {
    read(path, options, &mut strict)
}

fn read(path: &Path, options: ReadOptions, complain: &mut Complain<'_>) -> Result<Trace, TraceError> {
    let meter = Arc::new(Meter::default());
    let _progress = Progress::start(format!("reading {}", shown(path, "standard input")), &meter);
    narrows_trace::read_metered(path, options, complain, &meter)
}

/// From the files of a recorder to a trace; how many ranks had no room for all their records.
pub fn merge(folder: &Path, output: &Path, format: Option<Format>) -> Result<usize, Failure> {
    let recording = narrows_trace::merge(folder)?;
    if let Some(first) = recording.unfinished.first() {
        let count = recording.unfinished.len();
        warn!("{count} ranks (such as {first}) did not reach MPI_Finalize; their programs end where the records end");
    }
    if let Some(first) = recording.full.first() {
        let (full, ranks) = (recording.full.len(), recording.program.ranks());
        warn!("the disk was full: the recording of {full} of {ranks} ranks (such as {first}) ends early, and with it their programs");
    }
    let (operations, bytes) = (recording.one_sided, recording.one_sided_bytes);
    if operations > 0 {
        warn!("the program's {operations} one-sided operations with {} are not in the trace", show::size(bytes));
    }
    let (ranks, calls, operations) = (recording.program.ranks(), recording.records, recording.program.total());
    save(recording.program, operations, output, format)?;
    say!("{}: {ranks} ranks, {calls} records", shown(output, "standard output"));
    Ok(recording.full.len())
}

/// Writes a program of so many operations in the format that its name or the user asks for, and shows how far it is.
pub fn save(program: impl Program, operations: u64, path: &Path, format: Option<Format>) -> Result<(), TraceError> {
    let Some(format) = format.or_else(|| Format::by_extension(path)) else {
        let name = shown(path, "standard output");
        return Err(TraceError::Unsuitable(format!("{name}: expected a name that ends in .vef, .goal, .bin or .jsonl, or --to FORMAT")));
    };
    let meter = Arc::new(Meter::new(operations));
    let progress = Progress::start(format!("writing {}", shown(path, "standard output")), &meter);
    let notes = narrows_trace::write(path, format, &mut Metered::new(program, meter))?;
    drop(progress);
    notes.iter().for_each(|note| warn!("{}: {note}", shown(path, "standard output")));
    Ok(())
}

fn convert(source: &Path, options: ReadOptions, target: &Path, format: Option<Format>, expand: Option<&str>) -> Result<(), TraceError> {
    let program = open(source, options)?.program;
    let operations = program.total();
    let Some(library) = expand else { return save(program, operations, target, format) };
    let rules = Rules::parse(if library == "mpich" { MPICH } else { OPEN_MPI });
    let rules = rules.map_err(|error| TraceError::Unsuitable(format!("--expand {library}: {error}")))?;
    // How many operations collectives become is not known before.
    save(Expanded::new(program, Box::new(ByRules::new(rules, None))), 0, target, format)
}

fn info(path: &Path, options: ReadOptions, form: Form) -> Result<(), Failure> {
    let Trace { format, vef, program } = open(path, options)?;
    let (longest, meter) = (program.longest(), Arc::new(Meter::new(program.total())));
    let progress = Progress::start("counting", &meter);
    let mut program = Metered::new(program, meter);
    let contents = Totals::of(&mut program)?;
    drop(progress);
    let ranks = program.ranks();
    let communicators = program.communicators().count();
    let computing = SimTime((contents.computing / u128::from(ranks)) as u64);
    let text = || {
        let mut text = format!("format          {format}\n");
        if let Some(header) = &vef {
            text += &format!("version         {}\n", header.version);
            if let Some(clock) = header.clock {
                text += &format!("clock           {clock} (times are read as nanoseconds)\n");
            }
        }
        text += &format!("ranks           {ranks}\ncommunicators   {communicators}\n");
        text += &format!("operations      {} ({longest} in the longest rank)\n", contents.operations);
        let total = show::size(u64::try_from(contents.bytes).unwrap_or(u64::MAX));
        text += &format!("messages        {}, {total} in total\n", contents.messages);
        text += &format!("receives        {}\ncollectives     {} parts\n", contents.receives, contents.calls);
        text += &format!("computing       {computing} per rank\n");
        text
    };
    let value = json!({
        "trace": path.display().to_string(),
        "format": format.name(),
        "version": vef.as_ref().map(|header| &header.version),
        "ranks": ranks,
        "communicators": communicators,
        "operations": contents.operations,
        "operations_of_longest_rank": longest,
        "messages": contents.messages,
        "bytes": contents.bytes as f64,
        "receives": contents.receives,
        "collective_parts": contents.calls,
        "computing_s_mean": computing.as_s_f64(),
    });
    Ok(form.print(text, || value.clone(), || keys_and_values(&value))?)
}

/// Tells all mistakes; whether a replay would take the trace.
fn check(path: &Path, options: ReadOptions, form: Form) -> Result<u8, Failure> {
    let name = shown(path, "standard input");
    // Line and message; problems of the program as a whole have no line.
    let mut mistakes: Vec<(Option<u64>, String)> = Vec::new();
    let mut note = |mistake: &Mistake| {
        say!("{mistake}");
        let line = if let Location::Line(line) = mistake.location { Some(line) } else { None };
        mistakes.push((line, mistake.error.to_string()));
    };
    let result = read(path, options, &mut |mistake| {
        note(&mistake);
        Ok(())
    });
    let trace = match result {
        Ok(trace) => Some(trace),
        // What cannot be read any further.
        Err(TraceError::Malformed(mistake)) => {
            note(&mistake);
            None
        }
        Err(error) => return Err(error.into()),
    };
    let mut good = None;
    if let Some(trace) = trace.filter(|_| mistakes.is_empty()) {
        let meter = Arc::new(Meter::new(trace.program.total()));
        let progress = Progress::start("running it on an ideal machine", &meter);
        let result = ideal::run(&mut Metered::new(trace.program, meter), &mut ideal::Nobody);
        drop(progress);
        match result {
            Ok(outcome) => {
                outcome.problems.iter().for_each(|problem| say!("{name}: {problem}"));
                mistakes.extend(outcome.problems.iter().map(|problem| (None, problem.clone())));
                good = Some((trace.format, outcome)).filter(|_| mistakes.is_empty());
            }
            Err(error @ TraceError::Excess { .. }) => {
                say!("{name}: {error}");
                mistakes.push((None, error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let table = || {
        Table::new(vec![
            ("line", Column::Number(mistakes.iter().map(|(line, _)| line.map(|line| line as f64)).collect())),
            ("message", Column::Text(mistakes.iter().map(|(_, message)| message.clone()).collect())),
        ])
    };
    let ideal_finish = |outcome: &ideal::Outcome| outcome.finish.iter().max().copied().unwrap_or(SimTime::ZERO);
    let text = || {
        good.as_ref().map_or_else(String::new, |(format, outcome)| {
            format!(
                "{name}: ok, {format}, {} ranks, {} messages, {} collectives, {} on an ideal machine\n",
                outcome.finish.len(),
                outcome.messages,
                outcome.collectives,
                ideal_finish(outcome)
            )
        })
    };
    let value = || {
        let outcome = good.as_ref().map(|(_, outcome)| outcome);
        json!({
            "trace": path.display().to_string(),
            "ok": good.is_some(),
            "mistakes": table().json(),
            "ranks": outcome.map(|outcome| outcome.finish.len()),
            "messages": outcome.map(|outcome| outcome.messages),
            "collectives": outcome.map(|outcome| outcome.collectives),
            "ideal_finish_s": outcome.map(|outcome| ideal_finish(outcome).as_s_f64()),
        })
    };
    form.print(text, value, table)?;
    if good.is_some() {
        return Ok(exit::DONE);
    }
    let count = mistakes.len();
    Err(Failure { code: exit::NO, message: format!("{name}: {count} mistake{}", if count == 1 { "" } else { "s" }) })
}
