//! Traffic as users write it: options of the command line, arguments in Python.

use super::{Messages, TrafficSpec, read_mix};
use crate::{MachineSpec, StudyError};
use narrows_traffic::{Class, Injection, Pattern, Sizes, TrafficError, loads};
use narrows_units::SimTime;
use std::path::PathBuf;

/// Texts; what is left out has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wording {
    /// A pattern, or `flows` or `mix`, which read a file.
    pub pattern: String,
    /// The file of `flows` and `mix`.
    pub file: Option<PathBuf>,
    /// One, a list, or a sweep A:B:STEP.
    pub load: Option<String>,
    /// How messages follow each other.
    pub injection: Option<String>,
    /// Of messages.
    pub size: Option<String>,
    /// More classes of traffic.
    pub classes: Vec<String>,
    /// Before the measurement.
    pub warmup: Option<String>,
    /// Of the measurement.
    pub time: Option<String>,
    /// Of telemetry.
    pub period: Option<String>,
}

impl TrafficSpec {
    /// What the words ask for, on one thread with seed 1.
    ///
    /// # Errors
    /// A word that means nothing, or words that contradict each other; they are called as the command line calls them.
    pub fn worded(machine: MachineSpec, words: &Wording) -> Result<TrafficSpec, StudyError> {
        let time = |option: &str, text: &Option<String>| {
            let read = |text: &String| text.parse::<SimTime>().map_err(|error| StudyError::Contradiction(format!("--{option}: {error}")));
            text.as_ref().map(read).transpose()
        };
        Ok(TrafficSpec {
            loads: words.load.as_deref().map(loads).transpose()?,
            warmup: time("warmup", &words.warmup)?,
            time: time("time", &words.time)?,
            period: time("period", &words.period)?,
            ..TrafficSpec::new(machine, words.messages()?)
        })
    }
}

impl Wording {
    /// What is sent.
    fn messages(&self) -> Result<Messages, StudyError> {
        let contradiction = |why: String| Err(TrafficError::Contradiction(why).into());
        let file = |what: &str| match &self.file {
            None => Err(TrafficError::Contradiction(format!("{what} needs a file: narrows traffic {what} FILE"))),
            Some(path) => Ok(path.clone()),
        };
        let of_one_pattern = [("--injection", self.injection.is_some()), ("--size", self.size.is_some())];
        let given = of_one_pattern.iter().find(|(_, given)| *given).map(|(option, _)| *option);
        let mut classes = match self.pattern.as_str() {
            "flows" => {
                let file = file("flows")?;
                let left_out = match given {
                    Some(option) => option,
                    None if !self.classes.is_empty() || self.load.is_some() => "--class and --load",
                    None => return Ok(Messages::Flows(file)),
                };
                return contradiction(format!("a list of flows has its own starts and sizes: leave out {left_out}"));
            }
            "mix" => {
                let file = file("mix")?;
                if let Some(option) = given {
                    return contradiction(format!("the classes of a mix have their own: put {option} into {}", file.display()));
                }
                read_mix(&file)?
            }
            text => {
                let pattern: Pattern = text.parse()?;
                if let Some(file) = &self.file {
                    return contradiction(format!("{}: only flows and mix read a file", file.display()));
                }
                let mut class = Class::new("", pattern);
                class.injection = self.injection.as_deref().unwrap_or("bernoulli").parse::<Injection>()?;
                class.sizes = self.size.as_deref().map(str::parse::<Sizes>).transpose()?;
                vec![class]
            }
        };
        for text in &self.classes {
            classes.push(Class::parse(text)?);
        }
        Ok(Messages::Classes(classes))
    }
}
