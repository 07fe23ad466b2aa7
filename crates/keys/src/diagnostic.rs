//! Errors that point into a machine file.

use std::fmt;
use std::ops::Range;

/// One complaint about one place of a machine file or of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, or `--set`, `--nodes` for an override.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// Beside the underline: what was expected there; may be empty.
    pub label: String,
    /// What to do; may be empty.
    pub help: String,
    text: String,
    underline: usize,
}

/// Characters of the source line that are shown left and right of the place.
const BEFORE: usize = 60;
const AFTER: usize = 80;

impl Diagnostic {
    /// A complaint about `span` (byte offsets) of `text`.
    pub fn new(file: &str, text: &str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let at = floor_boundary(text, span.start);
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let end = floor_boundary(text, span.end).clamp(at, line_end.max(at));
        Diagnostic {
            file: file.to_owned(),
            line: text[..at].matches('\n').count() + 1,
            column: text[line_start..at].chars().count() + 1,
            message: message.into(),
            label: String::new(),
            help: String::new(),
            text: text[line_start..line_end].to_owned(),
            underline: text[at..end].chars().count().max(1),
        }
    }

    /// Says before the message what it is about.
    pub fn of(&mut self, what: &str) {
        self.message = format!("{what}: {}", self.message);
    }

    /// With words beside the underline.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// With advice below.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = help.into();
        self
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// As compilers print it: message, place, the source line with the place underlined, advice.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "{margin}--> {}:{}:{}", self.file, self.line, self.column)?;
        // A long line is cut around the place; control characters would disturb the terminal.
        let skip = (self.column - 1).saturating_sub(BEFORE);
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = self.text.chars().skip(skip).take(BEFORE + AFTER).map(visible).collect();
        let indent = " ".repeat(self.column - 1 - skip);
        let underline = "^".repeat(self.underline.min(AFTER));
        writeln!(f, "{margin} |")?;
        writeln!(f, "{}", format!("{number} | {shown}").trim_end())?;
        writeln!(f, "{margin} | {}", format!("{indent}{underline} {}", self.label).trim_end())?;
        if !self.help.is_empty() {
            writeln!(f, "{margin} = help: {}", self.help)?;
        }
        Ok(())
    }
}

/// The known name that `name` was most likely meant to be.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No key is half as long; and the distance costs the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    // A typing error or two, or up to a third of a long name; what is longer is no misspelling.
    let limit = (name.chars().count() / 3).max(2);
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let distance = strsim::osa_distance(name, candidate);
        if distance <= limit && distance < candidate.chars().count() && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_at_characters_not_bytes() {
        let text = "a = 1\né = \"µs\" # x\n";
        let at = text.find("\"µ").unwrap();
        let diagnostic = Diagnostic::new("f.toml", text, at..at + 5, "no").label("here");
        assert_eq!((diagnostic.line, diagnostic.column), (2, 5));
        assert_eq!(diagnostic.to_string(), "error: no\n --> f.toml:2:5\n  |\n2 | é = \"µs\" # x\n  |     ^^^^ here\n");
    }

    #[test]
    fn any_span_is_safe() {
        let text = "é\n\n";
        for start in 0..6 {
            for end in 0..6 {
                let _ = Diagnostic::new("f", text, Range { start, end }, "").to_string();
            }
        }
    }

    #[test]
    fn nearest_is_near() {
        assert_eq!(nearest("latencyy", ["bandwidth", "latency"]), Some("latency"));
        assert_eq!(nearest("lantecy", ["bandwidth", "latency"]), Some("latency"));
        assert_eq!(nearest("colour", ["bandwidth", "latency"]), None);
        assert_eq!(nearest("m", ["k", "n"]), None, "one letter for another is no misspelling");
    }
}
