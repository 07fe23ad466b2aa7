//! Traces as files: which format, reading, writing.

use crate::error::{TraceError, expected};
use crate::limits::Limited;
use crate::lines::{Complain, strict};
use crate::operation::Program;
use crate::spool::Stored;
use crate::{chakra, goal, json, ti, vef};
use narrows_output::{Meter, OutputError, OutputFile};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// [`vef`]
    Vef,
    /// [`goal`] as text.
    Goal,
    /// [`goal`] in its binary form.
    GoalBinary,
    /// [`json`]
    JsonLines,
    /// [`ti`]; read only.
    TimeIndependent,
    /// [`chakra`]; read only.
    Chakra,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Vef, Format::Goal, Format::GoalBinary, Format::JsonLines, Format::TimeIndependent, Format::Chakra];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Vef => "vef",
            Format::Goal => "goal",
            Format::GoalBinary => "goal-binary",
            Format::JsonLines => "jsonl",
            Format::TimeIndependent => "ti",
            Format::Chakra => "chakra",
        }
    }

    /// What the name of a file says.
    pub fn by_extension(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "vef" => Some(Format::Vef),
            "goal" => Some(Format::Goal),
            "bin" => Some(Format::GoalBinary),
            "jsonl" | "json" => Some(Format::JsonLines),
            "et" => Some(Format::Chakra),
            _ => None,
        }
    }

    /// What the beginning of a file looks like.
    pub fn detect(beginning: &[u8]) -> Format {
        let text = beginning.trim_ascii_start();
        if beginning.starts_with(&goal::MAGIC.to_le_bytes()) {
            Format::GoalBinary
        } else if text.starts_with(b"VEF") {
            Format::Vef
        } else if text.starts_with(b"{") {
            Format::JsonLines
        } else if text.starts_with(b"num_ranks") || text.starts_with(b"//") || text.starts_with(b"/*") {
            Format::Goal
        } else {
            Format::TimeIndependent
        }
    }
}

/// The reverse of [`Format::name`].
impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Format, TraceError> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| expected(Format::ALL.map(Format::name).join(", ")))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadOptions {
    /// The format; by default the beginning of the file says it, or its name (Chakra's messages begin with nothing of
    /// their own).
    pub format: Option<Format>,
    /// Floating-point operations per second, for time-independent traces and for work without a time in Chakra's.
    pub flops_per_s: f64,
}

impl Default for ReadOptions {
    /// 1 Gflop/s: one operation takes a nanosecond.
    fn default() -> ReadOptions {
        ReadOptions { format: None, flops_per_s: 1e9 }
    }
}

/// A trace that has been read.
#[derive(Debug)]
pub struct Trace {
    /// How the file was read.
    pub format: Format,
    /// The first line of a VEF file.
    pub vef: Option<vef::Header>,
    /// Its programs.
    pub program: Stored,
}

/// Reads a trace; its first mistake is an error.
///
/// # Errors
/// The file cannot be read, or is not as its format says.
pub fn open(path: &Path, options: ReadOptions) -> Result<Trace, TraceError> {
    read(path, options, &mut strict)
}

/// Reads a trace; `complain` decides about mistakes.
///
/// # Errors
/// As [`open`], and what `complain` returns.
pub fn read(path: &Path, options: ReadOptions, complain: &mut Complain<'_>) -> Result<Trace, TraceError> {
    read_metered(path, options, complain, &Meter::default())
}

/// The same; `meter` counts the bytes that have been read. `-` is standard input.
///
/// # Errors
/// As [`read`].
pub fn read_metered(path: &Path, options: ReadOptions, complain: &mut Complain<'_>, meter: &Meter) -> Result<Trace, TraceError> {
    let file = narrows_output::input(path).map_err(TraceError::file(path))?;
    let mut beginning = [0; 4096];
    let length = beginning_of(&file, &mut beginning).map_err(TraceError::file(path))?;
    let named = Format::by_extension(path).filter(|format| *format == Format::Chakra);
    let format = options.format.or(named).unwrap_or_else(|| Format::detect(&beginning[..length]));
    meter.set(0, file.metadata().map_or(0, |metadata| metadata.len()));
    let input = || BufReader::with_capacity(1 << 18, Metered { file: &file, meter });
    let mut header = None;
    let program = match format {
        Format::Vef => {
            let (first, program) = vef::read(path, input(), complain)?;
            header = Some(first);
            program
        }
        Format::Goal => goal::read_text(path, input(), complain)?,
        Format::GoalBinary => goal::read_binary(path, &file)?,
        Format::JsonLines => json::read(path, input(), complain)?,
        Format::TimeIndependent => ti::read(path, &file, options.flops_per_s, complain)?,
        Format::Chakra => chakra::read(path, options.flops_per_s, complain, meter)?,
    };
    Ok(Trace { format, vef: header, program })
}

/// The first bytes, without moving on; how many there are.
fn beginning_of(file: &File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// Counts what is read.
struct Metered<'a> {
    file: &'a File,
    meter: &'a Meter,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.meter.add(read as u64);
        Ok(read)
    }
}

/// Writes a program into a file; notes about what the format cannot say. `-` is standard output.
///
/// # Errors
/// The file cannot be written, the program cannot be read, or the format cannot hold it.
pub fn write(path: &Path, format: Format, program: &mut dyn Program) -> Result<Vec<String>, TraceError> {
    let file = match format {
        Format::TimeIndependent | Format::Chakra => {
            return Err(TraceError::Unsuitable(format!(
                "traces in the format {format} are read only; write vef, goal, goal-binary or jsonl"
            )));
        }
        // Both come back to their beginning.
        Format::Vef | Format::GoalBinary => OutputFile::create_seekable(path)?,
        Format::Goal | Format::JsonLines => OutputFile::create(path)?,
    };
    // Products of a generator or of a scaling may be too large.
    let program = &mut Limited::new(program);
    let mut output = BufWriter::with_capacity(1 << 18, file);
    let notes = match format {
        Format::Vef => vef::write(path, &mut output, program)?.notes,
        Format::Goal => goal::write_text(path, &mut output, program).map(|()| Vec::new())?,
        Format::GoalBinary => goal::write_binary(path, output.get_ref().file(), program).map(|()| Vec::new())?,
        Format::JsonLines | Format::TimeIndependent | Format::Chakra => json::write(path, &mut output, program).map(|()| Vec::new())?,
    };
    let fail = OutputError::of(path);
    output.into_inner().map_err(|error| fail(error.into_error()))?.commit()?;
    Ok(notes)
}
