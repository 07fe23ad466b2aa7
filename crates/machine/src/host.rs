//! Host names of the simulated machine: one pattern, such as `node{:03}`.

use narrows_keys::{Field, Limits, Problem, Value};
use std::fmt;
use std::str::FromStr;

/// RFC 1123: a label of a host name holds at most 63 characters.
const LABEL_MAX: usize = 63;

/// A host name with a place for the node index: `{}`, or `{:0W}` for W digits with leading zeros.
///
/// ```
/// use narrows_machine::HostPattern;
/// let pattern: HostPattern = "node{:03}".parse().unwrap();
/// assert_eq!(pattern.name(7), "node007");
/// assert_eq!(pattern.index("node007"), Some(7));
/// assert_eq!(pattern.index("node7"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    prefix: String,
    width: usize,
    suffix: String,
}

/// Why a text is not a host name pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPatternError {
    /// No `{}` or `{:0W}`, or more than one.
    #[error("expected one place for the node index, as in \"node{{}}\" or \"node{{:03}}\"")]
    Place,
    /// A character that host names do not have.
    #[error("host names hold letters, digits, '-' and '.', and start and end with a letter or digit")]
    Character,
    /// A label beyond RFC 1123.
    #[error("a label of a host name has at most 63 characters")]
    TooLong,
}

impl HostPattern {
    /// The name of node `index`.
    pub fn name(&self, index: u32) -> String {
        format!("{}{index:0width$}{}", self.prefix, self.suffix, width = self.width)
    }

    /// The node with this name.
    pub fn index(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(self.prefix.as_str())?.strip_suffix(self.suffix.as_str())?;
        let index: u32 = digits.parse().ok()?;
        (self.name(index) == name).then_some(index)
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<HostPattern, HostPatternError> {
        let (prefix, rest) = text.split_once('{').ok_or(HostPatternError::Place)?;
        let (format, suffix) = rest.split_once('}').ok_or(HostPatternError::Place)?;
        let width = match format {
            "" => 0,
            _ => {
                let width = format.strip_prefix(":0").ok_or(HostPatternError::Place)?;
                if !width.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(HostPatternError::Place);
                }
                width.parse().map_err(|_| HostPatternError::Place)?
            }
        };
        if suffix.contains(['{', '}']) {
            return Err(HostPatternError::Place);
        }
        if width > LABEL_MAX {
            return Err(HostPatternError::TooLong);
        }
        let pattern = HostPattern { prefix: prefix.to_owned(), width, suffix: suffix.to_owned() };
        let longest = pattern.name(u32::MAX);
        for label in longest.split('.') {
            if label.len() > LABEL_MAX {
                return Err(HostPatternError::TooLong);
            }
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if label.is_empty() || !label.chars().all(allowed) || label.starts_with('-') || label.ends_with('-') {
                return Err(HostPatternError::Character);
            }
        }
        Ok(pattern)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            0 => write!(f, "{}{{}}{}", self.prefix, self.suffix),
            width => write!(f, "{}{{:0{width}}}{}", self.prefix, self.suffix),
        }
    }
}

impl Field for HostPattern {
    fn blank() -> HostPattern {
        HostPattern { prefix: String::new(), width: 0, suffix: String::new() }
    }
    fn expected(&self, _: Limits) -> String {
        "expected a host name with a place for the node index, such as \"node{:03}\"".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "host name pattern".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let label = self.expected(limits);
        let Value::Text(text) = value else { return Err(Problem::found(value, label)) };
        *self = text.parse().map_err(|error: HostPatternError| Problem::new(error.to_string(), label))?;
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Text(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_host_name() {
        assert_eq!("node".parse::<HostPattern>(), Err(HostPatternError::Place));
        assert_eq!("n{}{}".parse::<HostPattern>(), Err(HostPatternError::Place));
        assert_eq!("n{:3}".parse::<HostPattern>(), Err(HostPatternError::Place));
        assert_eq!("n_{}".parse::<HostPattern>(), Err(HostPatternError::Character));
        assert_eq!("-{}".parse::<HostPattern>(), Err(HostPatternError::Character));
        assert_eq!("n{:0064}".parse::<HostPattern>(), Err(HostPatternError::TooLong));
    }

    #[test]
    fn names_and_indices_are_inverse() {
        for text in ["{}", "node{:03}", "c{:02}.cluster", "r1-n{}-ib"] {
            let pattern: HostPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
            for index in [0, 9, 10, 999, 1000, u32::MAX] {
                assert_eq!(pattern.index(&pattern.name(index)), Some(index), "{text} {index}");
            }
        }
    }
}
