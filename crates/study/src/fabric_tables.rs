//! Columns about queues and links over time, for whatever watched them.

use narrows_results::Column;
use narrows_topology::Topology;
use narrows_traffic::{LinkRow, QueueRow, stage};
use narrows_units::SimTime;

/// Names and values.
pub type Columns = Vec<(&'static str, Column)>;

/// Whole numbers.
pub fn integers(values: impl Iterator<Item = u64>) -> Column {
    Column::Integer(values.map(|value| value as i64).collect())
}

/// Numbers with gaps.
pub fn numbers(values: impl Iterator<Item = Option<f64>>) -> Column {
    Column::Number(values.collect())
}

/// The end of a period in nanoseconds.
pub fn end_ns(length: SimTime, period: u32) -> f64 {
    length.as_ns_f64() * f64::from(period + 1)
}

/// The columns that say which link a row is about.
fn link_columns(topology: &Topology, links: impl Iterator<Item = u32> + Clone) -> Columns {
    let of = |link: u32| topology.links()[link as usize];
    vec![
        ("link", integers(links.clone().map(u64::from))),
        ("from", Column::Text(links.clone().map(|link| of(link).from.to_string()).collect())),
        ("to", Column::Text(links.clone().map(|link| of(link).to.to_string()).collect())),
        ("stage", Column::Text(links.map(|link| stage(topology, &of(link))).collect())),
    ]
}

/// Of queues; `length`: of a period.
pub fn queues(topology: &Topology, length: SimTime, rows: &[&QueueRow]) -> Columns {
    let mut columns = vec![("time_ns", numbers(rows.iter().map(|row| Some(end_ns(length, row.period)))))];
    columns.extend(link_columns(topology, rows.iter().map(|row| row.link)));
    columns.extend([
        ("lane", integers(rows.iter().map(|row| u64::from(row.lane)))),
        ("mean_packets", numbers(rows.iter().map(|row| Some(f64::from(row.mean_packets))))),
        ("max_packets", integers(rows.iter().map(|row| u64::from(row.max_packets)))),
        ("max_bytes", integers(rows.iter().map(|row| u64::from(row.max_bytes)))),
    ]);
    columns
}

/// Of links.
pub fn links(topology: &Topology, length: SimTime, rows: &[&LinkRow]) -> Columns {
    let mut columns = vec![("time_ns", numbers(rows.iter().map(|row| Some(end_ns(length, row.period)))))];
    columns.extend(link_columns(topology, rows.iter().map(|row| row.link)));
    columns.extend([
        ("utilisation", numbers(rows.iter().map(|row| Some(f64::from(row.utilisation))))),
        ("packets", integers(rows.iter().map(|row| u64::from(row.packets)))),
        ("stalls", integers(rows.iter().map(|row| u64::from(row.stalls)))),
        ("pauses", integers(rows.iter().map(|row| u64::from(row.pauses)))),
        ("lost", integers(rows.iter().map(|row| u64::from(row.lost)))),
    ]);
    columns
}
