//! What a quantity is: arithmetic over the measures of cases, such as `binary.finish_us / llf.finish_us`.
//!
//! A measure is `case.measure`, or `case.measure@x` at one load of a sweep. There are `+ - * /`, parentheses, `<` and
//! `>` (1 where the whole chain holds, else 0), `min(a, b, ...)`, `max(a, b, ...)`, `log(a)`, and over all loads of a
//! sweep `highest(case.measure)` and `lowest(case.measure)`.

use crate::StudyError;
use std::collections::BTreeMap;

/// What a case measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// A number.
    Number(f64),
    /// A number at each load.
    Sweep(Vec<(f64, f64)>),
}

/// Measures by `case.measure`.
pub type Measures = BTreeMap<String, Measure>;

/// The value of an expression.
///
/// # Errors
/// What is wrong with it, in a line.
pub fn value(text: &str, measures: &Measures) -> Result<f64, StudyError> {
    let mut reader = Reader { rest: text.trim_start(), measures: Some(measures) };
    reader.whole()
}

/// The cases that an expression names.
///
/// # Errors
/// It cannot be read.
pub fn check(text: &str) -> Result<(), StudyError> {
    Reader { rest: text.trim_start(), measures: None }.whole().map(|_| ())
}

/// Loads differ by more than this.
const SAME_LOAD: f64 = 1e-9;

struct Reader<'a> {
    rest: &'a str,
    /// `None`: only the form is looked at, and every measure is 1.
    measures: Option<&'a Measures>,
}

impl<'a> Reader<'a> {
    fn whole(&mut self) -> Result<f64, StudyError> {
        let value = self.comparison()?;
        match self.rest {
            "" => Ok(value),
            rest => Err(StudyError::expected(format!("\"{rest}\""), "an operator or the end")),
        }
    }

    fn take(&mut self, token: char) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn comparison(&mut self) -> Result<f64, StudyError> {
        let mut left = self.sum()?;
        let mut holds = None;
        loop {
            let less = self.take('<');
            if !less && !self.take('>') {
                return Ok(holds.map_or(left, |holds: bool| f64::from(u8::from(holds))));
            }
            let right = self.sum()?;
            holds = Some(holds.unwrap_or(true) && if less { left < right } else { left > right });
            left = right;
        }
    }

    fn sum(&mut self) -> Result<f64, StudyError> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, StudyError> {
        let mut value = self.factor()?;
        loop {
            if self.take('*') {
                value *= self.factor()?;
            } else if self.take('/') {
                value /= self.factor()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<f64, StudyError> {
        if self.take('-') {
            return Ok(-self.factor()?);
        }
        if self.take('(') {
            let value = self.comparison()?;
            return if self.take(')') { Ok(value) } else { Err(StudyError::contradiction("a parenthesis that does not end")) };
        }
        if self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            return self.number();
        }
        let name = self.name()?;
        if self.take('(') {
            return self.function(name);
        }
        let at = if self.take('@') { Some(self.number()?) } else { None };
        match (self.measure(name)?, at) {
            (None, _) => Ok(1.0),
            (Some(Measure::Number(value)), None) => Ok(*value),
            (Some(Measure::Number(_)), Some(_)) => Err(StudyError::contradiction("one number, not one at each load").of(name)),
            (Some(Measure::Sweep(values)), Some(at)) => {
                let found = values.iter().find(|(load, _)| (load - at).abs() < SAME_LOAD).map(|(_, value)| *value);
                let loads = || values.iter().map(|(load, _)| load.to_string()).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| {
                    let why = format!("there is no result at that load (a saturated one has no times), only at {}", loads());
                    StudyError::Contradiction(why).of(format!("{name}@{at}"))
                })
            }
            (Some(Measure::Sweep(values)), None) => match values.as_slice() {
                [(_, value)] => Ok(*value),
                _ => Err(StudyError::Contradiction(format!("there are several loads; {name}@LOAD is one of them")).of(name)),
            },
        }
    }

    fn function(&mut self, name: &str) -> Result<f64, StudyError> {
        let value = match name {
            "highest" | "lowest" => {
                let measure = self.name()?;
                match self.measure(measure)? {
                    None => 1.0,
                    Some(Measure::Number(value)) => *value,
                    Some(Measure::Sweep(values)) => {
                        let best: fn(f64, f64) -> f64 = if name == "highest" { f64::max } else { f64::min };
                        let found = values.iter().map(|(_, value)| *value).reduce(best);
                        found.ok_or_else(|| StudyError::contradiction("there is no result at any load").of(measure))?
                    }
                }
            }
            "min" | "max" | "log" => {
                let mut values = vec![self.comparison()?];
                while self.take(',') {
                    values.push(self.comparison()?);
                }
                match name {
                    "min" => values.into_iter().fold(f64::INFINITY, f64::min),
                    "max" => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
                    _ if values.len() == 1 => values[0].ln(),
                    _ => return Err(StudyError::contradiction("log takes one number")),
                }
            }
            _ => return Err(StudyError::expected(name, "min, max, log, highest or lowest")),
        };
        if self.take(')') { Ok(value) } else { Err(StudyError::contradiction("a parenthesis that does not end").of(format!("{name}("))) }
    }

    fn number(&mut self) -> Result<f64, StudyError> {
        let end = self.rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        text.parse().map_err(|_| StudyError::expected(format!("\"{text}\""), "a number"))
    }

    fn name(&mut self) -> Result<&'a str, StudyError> {
        let part = |next: char| next.is_ascii_alphanumeric() || next == '_' || next == '.';
        let end = self.rest.find(|next: char| !part(next)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        if text.is_empty() {
            let found = self.rest.chars().next().map_or_else(|| String::from("the end"), |next| format!("'{next}'"));
            return Err(StudyError::expected(found, "a measure (case.measure), a number or a function"));
        }
        self.rest = rest.trim_start();
        Ok(text)
    }

    fn measure(&self, name: &str) -> Result<Option<&'a Measure>, StudyError> {
        let Some(measures) = self.measures else { return Ok(None) };
        if let Some(measure) = measures.get(name) {
            return Ok(Some(measure));
        }
        let case = name.split('.').next().unwrap_or(name);
        let others: Vec<&str> = measures.keys().map(String::as_str).filter(|key| key.split('.').next() == Some(case)).collect();
        match others.is_empty() {
            true => Err(StudyError::Contradiction(format!("there is no case \"{case}\"")).of(name)),
            false => Err(StudyError::expected(name, format!("one of {}", others.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Measures {
        let sweep = Measure::Sweep(vec![(0.1, 0.1), (0.5, 0.4)]);
        [("a.time", Measure::Number(6.0)), ("b.time", Measure::Number(3.0)), ("s.accepted", sweep)]
            .map(|(name, measure)| (name.to_owned(), measure))
            .into()
    }

    #[test]
    fn arithmetic() {
        for (text, expected) in [
            ("a.time / b.time", 2.0),
            ("100 * (a.time - b.time) / a.time", 50.0),
            ("b.time < a.time < 7", 1.0),
            ("b.time < a.time < 6", 0.0),
            ("1 + 2 * -3", -5.0),
            ("s.accepted@0.5 / s.accepted@0.1", 4.0),
            ("highest(s.accepted) - lowest( s.accepted )", 0.3),
            ("max(1, a.time, 2) + min(4, 5)", 10.0),
            ("log(8) / log(2)", 3.0),
        ] {
            let found = value(text, &measures()).unwrap();
            assert!((found - expected).abs() < 1e-12, "{text}: expected {expected}, found {found}");
            check(text).unwrap();
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("c.time", "there is no case \"c\""),
            ("a.tim", "expected one of a.time"),
            ("s.accepted", "several loads"),
            ("s.accepted@0.2", "only at 0.1, 0.5"),
            ("a.time@1", "one number"),
            ("a.time b.time", "expected an operator"),
            ("(1", "does not end"),
            ("sin(1)", "expected min, max"),
            ("1 +", "the end: expected"),
        ] {
            let error = value(text, &measures()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(check("1 +").is_err() && check("c.time").is_ok());
    }
}
