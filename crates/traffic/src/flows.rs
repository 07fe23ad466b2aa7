//! Flows that a file lists.
//!
//! A header, then a line per flow:
//!
//! ```text
//! start_ns,source,target,bytes
//! 0,0,5,1048576
//! 1500.5,3,5,4096      # start_ps and start_us are understood too
//! ```

use crate::TrafficError;
use narrows_units::SimTime;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// When it starts.
    pub start: SimTime,
    /// Node index.
    pub source: u32,
    /// Node index, another one.
    pub target: u32,
    /// Payload.
    pub bytes: u64,
}

/// Reads flows, sorted by their start and, at one start, by their source.
///
/// # Errors
/// The first line that is wrong, with its number. `nodes`: how many there are.
pub fn parse(file: &str, text: &str, nodes: u32) -> Result<Vec<Flow>, TrafficError> {
    let mut scale = None;
    let mut flows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: String| TrafficError::File { file: file.to_owned(), line: index + 1, why };
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let Some(scale) = scale else {
            scale = Some(match columns[..] {
                ["start_ps", "source", "target", "bytes"] => 1.0,
                ["start_ns", "source", "target", "bytes"] => 1e3,
                ["start_us", "source", "target", "bytes"] => 1e6,
                _ => return Err(wrong(String::from("expected the header start_ns,source,target,bytes (or start_ps, start_us)"))),
            });
            continue;
        };
        let [start, source, target, bytes] = columns[..] else {
            return Err(wrong(format!("{} columns; expected start, source, target and bytes", columns.len())));
        };
        let start = start.parse::<f64>().ok().map(|start| start * scale).filter(|start| (0.0..1e18).contains(start));
        let start = start.ok_or_else(|| wrong(String::from("the start must be a number from 0 on")))?;
        let node = |text: &str, what: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|node| *node < nodes)
                .ok_or_else(|| wrong(format!("{what} {text}: the machine has the nodes 0 to {}", nodes.saturating_sub(1))))
        };
        let (source, target) = (node(source, "source")?, node(target, "target")?);
        if source == target {
            return Err(wrong(format!("node {source} sends to itself; source and target must differ")));
        }
        let bytes = bytes.parse::<u64>().ok().filter(|bytes| *bytes <= 1 << 40);
        let bytes = bytes.ok_or_else(|| wrong(String::from("bytes must be a whole number up to 1 TiB")))?;
        flows.push(Flow { start: SimTime(start.round() as u64), source, target, bytes });
    }
    if flows.is_empty() {
        return Err(TrafficError::Read { file: file.to_owned(), why: String::from("it lists no flows") });
    }
    flows.sort_by_key(|flow| (flow.start, flow.source));
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_in_the_order_of_their_starts() {
        let flows = parse("f.csv", "start_ns,source,target,bytes\n20,1,2,300\n# later\n10.5,3,0,4096\n", 4).unwrap();
        assert_eq!(flows[0], Flow { start: SimTime(10_500), source: 3, target: 0, bytes: 4096 });
        assert_eq!(flows[1], Flow { start: SimTime(20_000), source: 1, target: 2, bytes: 300 });
    }

    #[test]
    fn mistakes_have_their_line() {
        let head = "start_ns,source,target,bytes\n";
        for (text, expected) in [
            ("0,1,2,3\n".to_owned(), "f.csv:1: expected the header"),
            (format!("{head}0,1,2\n"), "f.csv:2: 3 columns"),
            (format!("{head}0,1,2,3\n0,1,4,3\n"), "f.csv:3: target 4: the machine has the nodes 0 to 3"),
            (format!("{head}-1,1,2,3\n"), "f.csv:2: the start must be"),
            (format!("{head}0,2,2,3\n"), "f.csv:2: node 2 sends to itself"),
            (format!("{head}0,1,2,many\n"), "f.csv:2: bytes must be"),
            (head.to_owned(), "cannot read f.csv: it lists no flows"),
        ] {
            let message = parse("f.csv", &text, 4).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
