//! How computing times are scaled: `--compute-scale` of live runs and replays.

use crate::StudyError;
use narrows_units::NodeId;
use std::path::{Path, PathBuf};

/// A factor for the computing time on some nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Of computing time; in replays of delays, too.
    pub factor: f64,
    /// The first node.
    pub first: u32,
    /// The last one; `u32::MAX`: that of the machine.
    pub last: u32,
}

impl std::str::FromStr for Scale {
    type Err = StudyError;

    /// `0.5`, or `0.5@0-31` for some nodes.
    fn from_str(text: &str) -> Result<Scale, StudyError> {
        let (factor, nodes) = text.split_once('@').map_or((text, None), |(factor, nodes)| (factor, Some(nodes)));
        let factor = match factor.parse::<f64>() {
            Ok(factor) if factor.is_finite() && (0.0..=1e6).contains(&factor) => factor,
            _ => return Err(StudyError::expected(format!("\"{factor}\""), "a number from 0 to 1000000")),
        };
        let Some(nodes) = nodes else { return Ok(Scale::everywhere(factor)) };
        let (first, last) = nodes.split_once('-').unwrap_or((nodes, nodes));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Scale { factor, first, last }),
            _ => Err(StudyError::expected(format!("\"{nodes}\""), "a node or a range of nodes, as in 0.5@0-31")),
        }
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scale { factor, first, last } = self;
        if self.is_everywhere() { write!(f, "{factor}") } else { write!(f, "{factor}@{first}-{last}") }
    }
}

impl Scale {
    /// For all nodes.
    pub(crate) fn everywhere(factor: f64) -> Scale {
        Scale { factor, first: 0, last: u32::MAX }
    }

    pub(crate) fn is_everywhere(&self) -> bool {
        self.last == u32::MAX
    }

    /// The factor on a node: the last one that fits counts.
    pub(crate) fn on(scales: &[Scale], NodeId(node): NodeId) -> f64 {
        scales.iter().rev().find(|scale| (scale.first..=scale.last).contains(&node)).map_or(1.0, |scale| scale.factor)
    }

    /// Refuses nodes that a machine of so many does not have.
    pub(crate) fn check(scales: &[Scale], nodes: u32) -> Result<(), StudyError> {
        scales.iter().find(|scale| !scale.is_everywhere() && scale.last >= nodes).map_or(Ok(()), |scale| {
            Err(StudyError::Contradiction(format!("--compute-scale {scale}: the machine has the nodes 0 to {}", nodes - 1)))
        })
    }
}

/// What scales the computing times of a live run.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputeScale {
    /// A factor.
    By(Scale),
    /// What an earlier run of one rank has kept, with the work of one of these ranks: times are scaled to what it took.
    Alone(PathBuf),
}

impl std::str::FromStr for ComputeScale {
    type Err = StudyError;

    /// A [`Scale`], or a file.
    fn from_str(text: &str) -> Result<ComputeScale, StudyError> {
        match text.parse() {
            Ok(scale) => Ok(ComputeScale::By(scale)),
            Err(_) if Path::new(text).exists() => Ok(ComputeScale::Alone(text.into())),
            Err(StudyError::Expected { found, expected }) if !text.contains('@') => {
                Err(StudyError::expected(found, format!("{expected}, or a file that a run of one rank has kept")))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_factor_of_some_nodes_or_a_file() {
        let read = |text: &str| text.parse::<ComputeScale>().map_err(|error| error.to_string());
        assert_eq!(read("0.5"), Ok(ComputeScale::By(Scale { factor: 0.5, first: 0, last: u32::MAX })));
        for text in ["2", "0.5@0-31"] {
            assert_eq!(text.parse::<Scale>().unwrap().to_string(), text);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(read(&file.path().display().to_string()), Ok(ComputeScale::Alone(file.path().to_owned())));
        for (text, why) in [
            ("one.json", "\"one.json\": expected a number from 0 to 1000000, or a file that a run of one rank has kept"),
            ("-1", "\"-1\": expected a number"),
            ("nan", "\"nan\": expected a number"),
            ("1@5-2", "\"5-2\": expected a node or a range of nodes, as in 0.5@0-31"),
        ] {
            assert!(read(text).is_err_and(|error| error.starts_with(why)), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn the_last_scale_that_fits_counts() {
        let scales = ["2", "0.5@1-2", "3@2"].map(|text| text.parse().unwrap());
        assert_eq!([0, 1, 2, 3].map(|node| Scale::on(&scales, NodeId(node))), [2.0, 0.5, 3.0, 2.0]);
        assert!(Scale::check(&scales, 3).is_ok());
        assert!(
            Scale::check(&scales, 2).is_err_and(|error| error.to_string() == "--compute-scale 0.5@1-2: the machine has the nodes 0 to 1")
        );
    }
}
