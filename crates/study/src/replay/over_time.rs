//! A replay over time: tables and pictures.

use crate::fabric_tables::{self, end_ns, integers, numbers};
use crate::wiring;
use narrows_replay::Outcome;
use narrows_replay::watch::{Interval, Seen};
use narrows_results::{Chart, Column, Curve, HeatMap, Quantity, Table};
use narrows_topology::{Topology, Vertex};
use narrows_traffic::stage;
use std::collections::BTreeMap;

/// Columns and rows of the picture of switches at most; more share a cell.
const CELLS: usize = 160;
/// Curves have at most so many points; more periods share one.
const POINTS: usize = 400;

/// The distribution of completion times, and with a period all that was seen.
pub fn tables(outcome: &Outcome, topology: Option<&Topology>) -> Vec<(&'static str, Table)> {
    let mut tables = vec![("fct", Table::new(completion_columns(outcome)))];
    if let (Some(seen), Some(topology)) = (&outcome.seen, topology) {
        tables.push(("series", Table::new(series_columns(outcome, seen))));
        if let Some(telemetry) = &seen.telemetry {
            let rows: Vec<_> = telemetry.link_rows.iter().collect();
            tables.push(("links", Table::new(fabric_tables::links(topology, seen.period, &rows))));
            tables.extend(wiring::table(topology).map(|table| ("switches", table)));
        }
        if let Some(telemetry) = seen.telemetry.as_ref().filter(|_| seen.packets) {
            let rows: Vec<_> = telemetry.queue_rows.iter().collect();
            tables.push(("queues", Table::new(fabric_tables::queues(topology, seen.period, &rows))));
        }
    }
    tables
}

/// The pictures by name (SVG).
pub fn pictures(outcome: &Outcome, topology: Option<&Topology>) -> Vec<(String, String)> {
    let mut pictures = vec![("fct", completion_picture(outcome))];
    if let (Some(seen), Some(topology)) = (&outcome.seen, topology) {
        pictures.push(("throughput", throughput(outcome, seen)));
        pictures.push(("fct-over-time", completion_over_time(outcome, seen)));
        if seen.packets && seen.telemetry.is_some() {
            pictures.push(("queues", by_application(outcome, seen)));
            pictures.push(("stages", by_stage(seen, topology)));
            pictures.push(("switches", switches(seen, topology)));
        }
    }
    pictures.into_iter().map(|(name, picture)| (name.to_owned(), picture)).collect()
}

/// A row per application and bucket of its completion times.
fn completion_columns(outcome: &Outcome) -> fabric_tables::Columns {
    let rows = outcome.applications.iter().flat_map(|application| {
        let mut below = 0;
        application.fct.buckets().map(move |(time, count)| {
            below += count;
            (application.name.clone(), time, count, below as f64 / application.fct.count() as f64)
        })
    });
    let rows: Vec<_> = rows.collect();
    vec![
        ("application", Column::Text(rows.iter().map(|row| row.0.clone()).collect())),
        ("up_to_ns", numbers(rows.iter().map(|row| Some(row.1.as_ns_f64())))),
        ("messages", integers(rows.iter().map(|row| row.2))),
        ("cdf", numbers(rows.iter().map(|row| Some(row.3)))),
    ]
}

fn completion_picture(outcome: &Outcome) -> String {
    let curves = outcome.applications.iter().map(|application| {
        let buckets = application.fct.buckets().map(|(time, count)| (time.as_s_f64(), count));
        Curve::distribution(application.name.clone(), buckets)
    });
    Chart {
        title: String::from("Completion times"),
        x: String::from("completion time"),
        x_in: Quantity::Seconds,
        log_x: true,
        y: String::from("fraction of messages"),
        y_range: Some((0.0, 1.0)),
        curves: curves.collect(),
        ..Chart::default()
    }
    .svg()
}

/// A row per application and period.
fn series_columns(outcome: &Outcome, seen: &Seen) -> fabric_tables::Columns {
    let of = |(application, intervals): (usize, &Vec<Interval>)| {
        intervals.iter().enumerate().map(move |(period, interval)| (application, period as u32, *interval)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = seen.applications.iter().enumerate().flat_map(of).collect();
    let packets = seen.packets;
    let ns = |interval: &Interval| (interval.messages > 0).then(|| interval.fct_sum.as_ns_f64() / interval.messages as f64);
    vec![
        ("application", Column::Text(rows.iter().map(|row| outcome.applications[row.0].name.clone()).collect())),
        ("time_ns", numbers(rows.iter().map(|row| Some(end_ns(seen.period, row.1))))),
        ("messages", integers(rows.iter().map(|row| row.2.messages))),
        ("bytes", integers(rows.iter().map(|row| row.2.bytes))),
        ("fct_mean_ns", numbers(rows.iter().map(|row| ns(&row.2)))),
        ("fct_max_ns", numbers(rows.iter().map(|row| (row.2.messages > 0).then(|| row.2.fct_max.as_ns_f64())))),
        ("wire_bytes", numbers(rows.iter().map(|row| packets.then_some(row.2.wire_bytes as f64)))),
        ("queued_packets", numbers(rows.iter().map(|row| packets.then_some(row.2.queued)))),
    ]
}

/// The mean of `value` over groups of periods, one curve per application.
fn curves(outcome: &Outcome, seen: &Seen, value: impl Fn(&[Interval]) -> Option<f64>) -> Vec<Curve> {
    let periods = seen.applications.iter().map(Vec::len).max().unwrap_or(0);
    let group = periods.div_ceil(POINTS).max(1);
    let time = |index: usize| seen.period.as_s_f64() * (index as f64 + 0.5) * group as f64;
    let named = outcome.applications.iter().zip(&seen.applications);
    let curve = |(application, intervals): (&narrows_replay::Application, &Vec<Interval>)| {
        let mut all = intervals.clone();
        all.resize(periods.next_multiple_of(group), Interval::default());
        let points = all.chunks(group).enumerate().map(|(index, group)| (time(index), value(group))).collect();
        Curve { name: application.name.clone(), points, dashed: false }
    };
    named.map(curve).collect()
}

fn throughput(outcome: &Outcome, seen: &Seen) -> String {
    let packets = seen.packets;
    let bytes = |interval: &Interval| if packets { interval.wire_bytes } else { interval.bytes };
    let seconds = seen.period.as_s_f64();
    Chart {
        title: String::from("Throughput"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from(if packets { "GB/s, headers included" } else { "GB/s" }),
        curves: curves(outcome, seen, |group| Some(group.iter().map(bytes).sum::<u64>() as f64 / (seconds * group.len() as f64) / 1e9)),
        ..Chart::default()
    }
    .svg()
}

fn completion_over_time(outcome: &Outcome, seen: &Seen) -> String {
    let mean = |group: &[Interval]| {
        let (sum, count) = group.iter().fold((0.0, 0), |(sum, count), one| (sum + one.fct_sum.as_s_f64(), count + one.messages));
        (count > 0).then(|| sum / count as f64)
    };
    let longest = |group: &[Interval]| group.iter().filter(|one| one.messages > 0).map(|one| one.fct_max.as_s_f64()).reduce(f64::max);
    let named = |curves: Vec<Curve>, what: &str, dashed| {
        curves.into_iter().map(move |curve| Curve { name: format!("{}, {what}", curve.name), dashed, ..curve }).collect::<Vec<_>>()
    };
    let all = [named(curves(outcome, seen, mean), "mean", false), named(curves(outcome, seen, longest), "longest", true)].concat();
    Chart {
        title: String::from("Completion times"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("completion time"),
        y_in: Quantity::Seconds,
        log: true,
        curves: all,
        ..Chart::default()
    }
    .svg()
}

fn by_application(outcome: &Outcome, seen: &Seen) -> String {
    Chart {
        title: String::from("Queues by application"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("packets"),
        stacked: true,
        curves: curves(outcome, seen, |group| Some(group.iter().map(|one| one.queued).sum::<f64>() / group.len() as f64)),
        ..Chart::default()
    }
    .svg()
}

fn by_stage(seen: &Seen, topology: &Topology) -> String {
    let periods = seen.applications.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let group = periods.div_ceil(POINTS);
    let mut stages: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in seen.telemetry.iter().flat_map(|telemetry| &telemetry.queue_rows) {
        let sums =
            stages.entry(stage(topology, &topology.links()[row.link as usize])).or_insert_with(|| vec![0.0; periods.div_ceil(group)]);
        if let Some(sum) = sums.get_mut(row.period as usize / group) {
            *sum += f64::from(row.mean_packets) / group as f64;
        }
    }
    let time = |index: usize| seen.period.as_s_f64() * (index as f64 + 0.5) * group as f64;
    let curve = |(name, sums): (String, Vec<f64>)| Curve {
        name,
        points: sums.iter().enumerate().map(|(index, sum)| (time(index), Some(*sum))).collect(),
        dashed: false,
    };
    Chart {
        title: String::from("Queues by stage"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("packets"),
        stacked: true,
        curves: stages.into_iter().map(curve).collect(),
        ..Chart::default()
    }
    .svg()
}

fn switches(seen: &Seen, topology: &Topology) -> String {
    let periods = seen.applications.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let count = topology.switches() as usize;
    let (wide, high) = (periods.div_ceil(CELLS), count.div_ceil(CELLS));
    let (columns, rows) = (periods.div_ceil(wide), count.div_ceil(high));
    let mut values = vec![0.0; columns * rows];
    for row in seen.telemetry.iter().flat_map(|telemetry| &telemetry.queue_rows) {
        let Vertex::Switch(switch) = topology.links()[row.link as usize].from else { continue };
        let place = switch as usize / high * columns + row.period as usize / wide;
        if let Some(value) = values.get_mut(place) {
            *value += f64::from(row.mean_packets) / (wide * high) as f64;
        }
    }
    HeatMap {
        title: String::from("Switches over time"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("switch"),
        unit: String::from("packets in the queues of a switch"),
        x_range: (0.0, seen.period.as_s_f64() * (columns * wide) as f64),
        y_range: (0.0, (rows * high) as f64),
        columns,
        values,
        ..HeatMap::default()
    }
    .svg()
}
