//! `narrows trace info | check | convert | scale | anonymise FILE`

use clap::{Args, Subcommand};
use narrows_collectives::rules::{MPICH, OPEN_MPI, Rules};
use narrows_replay::collectives::ByRules;
use narrows_replay::expand::Expanded;
use narrows_trace::{Anonymous, Format, Kind, Program, ReadOptions, Scaled, Trace, TraceError, ideal};
use narrows_units::{SimTime, show};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `narrows trace` does.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Say what is in a trace
    #[command(after_help = "Example:\n  narrows trace info lammps.vef")]
    Info {
        /// The trace
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
    },
    /// Check a trace: file and line of every mistake, then whether all messages and collectives meet
    #[command(after_help = "\
Example:
  narrows trace check lammps.vef

Exit code 0: a replay would take this trace. 1: it would not.")]
    Check {
        /// The trace
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
    },
    /// Write a trace in another format
    #[command(after_help = "\
Examples:
  narrows trace convert lammps.vef lammps.goal --expand openmpi
  narrows trace convert schedule.bin schedule.jsonl
  narrows trace convert ti.txt --flops-per-s 2e9 out.vef")]
    Convert {
        /// The trace
        source: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// The new file
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
        /// The trace
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// Factor of computing times
        #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
        compute: f64,
        /// Factor of message sizes
        #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
        bytes: f64,
        /// The new file
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
        /// The new file
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
        /// The trace
        file: PathBuf,
        #[command(flatten)]
        reading: ReadingArguments,
        /// Decides on the numbers
        #[arg(long, value_name = "N")]
        seed: u64,
        /// The new file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        writing: WritingArguments,
    },
}

/// How to read a trace.
#[derive(Clone, Copy, Debug, Args)]
pub struct ReadingArguments {
    /// Format of the trace [default: as its beginning says]
    #[arg(long = "from", value_name = "vef|goal|goal-binary|jsonl|ti", value_parser = format)]
    source_format: Option<Format>,
    /// Floating-point operations per second, for SimGrid's time-independent traces
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
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl", value_parser = format)]
    target_format: Option<Format>,
}

fn format(text: &str) -> Result<Format, String> {
    Format::by_name(text).ok_or_else(|| format!("expected {}", Format::ALL.map(Format::name).join(", ")))
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|factor| (0.0..=1e9).contains(factor)).ok_or_else(|| String::from("expected a number from 0 to 1e9"))
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|rate| (1.0..=1e18).contains(rate)).ok_or_else(|| String::from("expected a number from 1 to 1e18"))
}

/// Runs `narrows trace ...`.
pub fn run(command: TraceCommand) -> ExitCode {
    let result = match command {
        TraceCommand::Info { file, reading } => info(&file, reading.into()).map(|()| true),
        TraceCommand::Check { file, reading } => check(&file, reading.into()),
        TraceCommand::Convert { source, reading, target, writing, expand } => {
            convert(&source, reading.into(), &target, writing.target_format, expand.as_deref()).map(|()| true)
        }
        TraceCommand::Scale { file, reading, compute, bytes, output, writing } => narrows_trace::open(&file, reading.into())
            .and_then(|trace| save(&mut Scaled::new(trace.program, compute, bytes), &output, writing.target_format))
            .map(|()| true),
        TraceCommand::Anonymise { file, reading, seed, output, writing } => narrows_trace::open(&file, reading.into())
            .and_then(|trace| save(&mut Anonymous::new(trace.program, seed), &output, writing.target_format))
            .map(|()| true),
        TraceCommand::Merge { folder, output, writing } => merge(&folder, &output, writing.target_format).map(|()| true),
    };
    finish(result)
}

/// From the files of a recorder to a trace.
pub fn merge(folder: &Path, output: &Path, format: Option<Format>) -> Result<(), TraceError> {
    let mut recording = narrows_trace::merge(folder)?;
    if let Some(first) = recording.unfinished.first() {
        let count = recording.unfinished.len();
        eprintln!("narrows: warning: {count} ranks (such as {first}) did not reach MPI_Finalize; their programs end where the records end");
    }
    let (operations, bytes) = (recording.one_sided, recording.one_sided_bytes);
    if operations > 0 {
        eprintln!("narrows: warning: the program's {operations} one-sided operations with {} are not in the trace", show::size(bytes));
    }
    save(&mut recording.program, output, format)?;
    let calls = recording.records;
    eprintln!("narrows: {}: {} ranks, {calls} records", output.display(), recording.program.ranks());
    Ok(())
}

/// Exit code, with the message of an error.
pub fn finish(result: Result<bool, TraceError>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("narrows: error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a program in the format that its name or the user asks for.
pub fn save(program: &mut dyn Program, path: &Path, format: Option<Format>) -> Result<(), TraceError> {
    let Some(format) = format.or_else(|| Format::by_extension(path)) else {
        let name = path.display();
        return Err(TraceError::Unsuitable(format!("{name}: expected a name that ends in .vef, .goal, .bin or .jsonl, or --to FORMAT")));
    };
    for note in narrows_trace::write(path, format, program)? {
        eprintln!("narrows: warning: {}: {note}", path.display());
    }
    Ok(())
}

fn convert(source: &Path, options: ReadOptions, target: &Path, format: Option<Format>, expand: Option<&str>) -> Result<(), TraceError> {
    let mut program = narrows_trace::open(source, options)?.program;
    let Some(library) = expand else { return save(&mut program, target, format) };
    let rules = Rules::parse(if library == "mpich" { MPICH } else { OPEN_MPI });
    let rules = rules.map_err(|error| TraceError::Unsuitable(format!("--expand {library}: {error}")))?;
    save(&mut Expanded::new(program, Box::new(ByRules::new(rules, None))), target, format)
}

/// What is in a trace.
#[derive(Default)]
struct Contents {
    messages: u64,
    bytes: u128,
    receives: u64,
    parts: u64,
    operations: u64,
    /// Of all ranks together, in picoseconds.
    work: u128,
}

fn info(path: &Path, options: ReadOptions) -> Result<(), TraceError> {
    let Trace { format, vef, mut program } = narrows_trace::open(path, options)?;
    let mut contents = Contents::default();
    let mut after = Vec::new();
    for rank in 0..program.ranks() {
        while let Some(operation) = program.next(rank, &mut after)? {
            contents.operations += 1;
            contents.work += u128::from(operation.delay.0);
            match operation.kind {
                Kind::Compute { duration } => contents.work += u128::from(duration.0),
                Kind::Send { bytes, .. } => {
                    contents.messages += 1;
                    contents.bytes += u128::from(bytes);
                }
                Kind::Receive { .. } => contents.receives += 1,
                Kind::Collective(_) => contents.parts += 1,
            }
        }
    }
    let ranks = program.ranks();
    let mut text = format!("format          {format}\n");
    if let Some(header) = vef {
        text += &format!("version         {}\n", header.version);
        if let Some(clock) = header.clock {
            text += &format!("clock           {clock} (times are read as nanoseconds)\n");
        }
    }
    text += &format!("ranks           {ranks}\ncommunicators   {}\n", program.communicators().count());
    text += &format!("operations      {} ({} in the longest rank)\n", contents.operations, program.longest());
    text += &format!("messages        {}, {} in total\n", contents.messages, show::size(u64::try_from(contents.bytes).unwrap_or(u64::MAX)));
    text += &format!("receives        {}\ncollectives     {} parts\n", contents.receives, contents.parts);
    text += &format!("computing       {} per rank\n", SimTime((contents.work / u128::from(ranks)) as u64));
    print(&text)
}

/// All mistakes; whether there are none.
fn check(path: &Path, options: ReadOptions) -> Result<bool, TraceError> {
    let mut mistakes = 0u64;
    let trace = narrows_trace::read(path, options, &mut |mistake| {
        mistakes += 1;
        eprintln!("{mistake}");
        Ok(())
    });
    let mut trace = match trace {
        Ok(trace) => trace,
        // What cannot be read any further.
        Err(TraceError::Malformed(mistake)) => {
            eprintln!("{mistake}\n{}: {} mistakes", path.display(), mistakes + 1);
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    if mistakes > 0 {
        eprintln!("{}: {mistakes} mistakes", path.display());
        return Ok(false);
    }
    let outcome = match ideal::run(&mut trace.program, &mut ideal::Nobody) {
        Ok(outcome) => outcome,
        Err(error @ TraceError::Excess { .. }) => {
            eprintln!("{}: {error}", path.display());
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    for problem in &outcome.problems {
        eprintln!("{}: {problem}", path.display());
    }
    if !outcome.problems.is_empty() {
        return Ok(false);
    }
    let finish = outcome.finish.iter().max().copied().unwrap_or(SimTime::ZERO);
    print(&format!(
        "{}: ok, {}, {} ranks, {} messages, {} collectives, {finish} on an ideal machine\n",
        path.display(),
        trace.format,
        outcome.finish.len(),
        outcome.messages,
        outcome.collectives
    ))?;
    Ok(true)
}

fn print(text: &str) -> Result<(), TraceError> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough (| head).
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(TraceError::File { path: PathBuf::from("standard output"), error }),
        _ => Ok(()),
    }
}
