//! Text files line by line: what the readers of text formats share.

use crate::error::{Location, Mistake, TraceError, expected, found};
use narrows_units::SimTime;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Longest line. A communicator of a million tasks takes 8 MB.
const MAX_LINE: u64 = 1 << 28;

/// Takes mistakes one by one. An error ends the reading; `Ok` goes on with the next line, to find them all.
pub type Complain<'a> = dyn FnMut(Mistake) -> Result<(), TraceError> + 'a;

/// The usual [`Complain`]: the first mistake ends the reading.
///
/// # Errors
/// Always: the mistake.
pub fn strict(mistake: Mistake) -> Result<(), TraceError> {
    Err(TraceError::Malformed(mistake))
}

/// A text file.
pub struct Lines<'a> {
    path: PathBuf,
    input: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// Reads from `input`; `path` is for messages.
    pub fn new(path: &Path, input: impl BufRead + 'a) -> Lines<'a> {
        Lines { path: path.to_owned(), input: Box::new(input), line: Vec::new(), number: 0 }
    }

    /// Goes to the next line, if there is one.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        let read = self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
        if read.map_err(TraceError::file(&self.path))? == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.len() as u64 == MAX_LINE {
            return Err(self.malformed(expected(format!("a line of less than {MAX_LINE} bytes"))));
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(true)
    }

    /// The line without its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Number of the line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Tells of a mistake in this line; what is no mistake of the file ends the reading.
    pub fn tell(&self, error: TraceError, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        self.tell_at(self.number, error, complain)
    }

    /// Of a mistake in an earlier line.
    pub fn tell_at(&self, line: u64, error: TraceError, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        complain(error.mistake(&self.path, Location::Line(line))?)
    }

    /// Of a mistake of the file as a whole.
    pub fn tell_whole(&self, error: TraceError, complain: &mut Complain<'_>) -> Result<(), TraceError> {
        complain(error.mistake(&self.path, Location::Whole)?)
    }

    /// A mistake in this line that ends the reading.
    pub fn malformed(&self, error: TraceError) -> TraceError {
        error.at(&self.path, Location::Line(self.number))
    }

    /// A mistake of the file as a whole that ends the reading.
    pub fn whole(&self, error: TraceError) -> TraceError {
        error.at(&self.path, Location::Whole)
    }
}

/// The words of a line, separated by blanks.
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// Of this line.
    pub fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// The next word; `what` says what was expected if the line is over.
    pub fn word(&mut self, what: &str) -> Result<&'a [u8], TraceError> {
        self.next().ok_or_else(|| expected(format!("{what}, but the line ends")))
    }

    /// A whole number up to `max`.
    pub fn number(&mut self, what: &str, max: u64) -> Result<u64, TraceError> {
        number(self.word(what)?, what, max)
    }

    /// A time with its unit in picoseconds; decimals down to a picosecond.
    pub fn time(&mut self, what: &str, unit_ps: u64) -> Result<SimTime, TraceError> {
        time(self.word(what)?, what, unit_ps)
    }

    /// Nothing more.
    pub fn end(&mut self) -> Result<(), TraceError> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(found("the end of the line", show(word))),
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| !is_blank(*byte))?;
        let word = &self.rest[start..];
        let end = word.iter().position(|byte| is_blank(*byte)).unwrap_or(word.len());
        self.rest = &word[end..];
        Some(&word[..end])
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// A word for a message: quoted, not too long.
pub fn show(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(40)]).into_owned();
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("'{text}{}'", if word.len() > 40 { "..." } else { "" })
}

/// A whole number up to `max`.
pub fn number(word: &[u8], what: &str, max: u64) -> Result<u64, TraceError> {
    digits(word).filter(|value| *value <= max).ok_or_else(|| match max {
        u64::MAX => found(format!("{what} (a whole number)"), show(word)),
        _ => found(format!("{what} (a whole number up to {max})"), show(word)),
    })
}

/// A time with its unit in picoseconds; decimals below a picosecond are cut.
pub fn time(word: &[u8], what: &str, unit_ps: u64) -> Result<SimTime, TraceError> {
    let parse = || {
        let point = word.iter().position(|byte| *byte == b'.');
        let whole = digits(&word[..point.unwrap_or(word.len())])?.checked_mul(unit_ps)?;
        let Some(point) = point else { return Some(whole) };
        let (mut part, mut unit) = (0, unit_ps);
        for &byte in &word[point + 1..] {
            if !byte.is_ascii_digit() {
                return None;
            }
            // Twelve decimals of a second are picoseconds.
            part += unit * u64::from(byte - b'0') / 10;
            unit /= 10;
        }
        whole.checked_add(part)
    };
    parse().map(SimTime).ok_or_else(|| found(format!("{what} (not negative)"), show(word)))
}

fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_picosecond() {
        for (text, unit, ps) in [("0", 1_000, 0), ("12", 1_000, 12_000), ("1.5", 1_000, 1_500), ("0.0019", 1_000, 1), ("7.", 1_000, 7_000)]
        {
            assert_eq!(time(text.as_bytes(), "a time", unit).ok(), Some(SimTime(ps)), "{text}");
        }
        for text in ["-1", "", ".5", "1e3", "18446744073709551615"] {
            assert!(time(text.as_bytes(), "a time", 1_000).is_err(), "{text}");
        }
    }
}
