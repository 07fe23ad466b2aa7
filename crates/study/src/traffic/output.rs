//! Summary, tables and lines of a sweep.

use super::{TrafficOutcome, pictures};
use crate::energy::{Energy, Used};
use crate::fabric_tables::{self, integers, numbers};
use crate::handlers;
use crate::report::{Data, Report};
use crate::wiring;
use narrows_fabric::NetworkKind;
use narrows_output::exit;
use narrows_results::{Column, Histogram, Origin, Table, TableError, peak_memory};
use narrows_traffic::{ClassPoint, Point, SlowDown, Times, Work};
use narrows_units::show;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The tables by name.
pub fn tables(outcome: &TrafficOutcome) -> Vec<(&'static str, Table)> {
    let (points, setup) = (&outcome.points, &outcome.setup);
    let mut tables = vec![("points", points_table(points)), ("histograms", histograms_table(points))];
    if let Work::Flows(_) = setup.work {
        tables.push(("flows", flows_table(outcome)));
    }
    if setup.period.is_some() {
        tables.push(("series", series_table(outcome)));
        if setup.network.kind != NetworkKind::LogGp {
            tables.push(("links", links_table(outcome)));
            tables.extend(wiring::table(&setup.topology).map(|table| ("switches", table)));
        }
        if setup.network.kind == NetworkKind::Packet {
            tables.push(("queues", queues_table(outcome)));
            tables.push(("hops", hops_table(points)));
            tables.push(("rates", rates_table(outcome)));
        }
    }
    tables
}

/// The pictures by name.
pub fn pictures(outcome: &TrafficOutcome) -> Vec<(&'static str, String)> {
    let mut found = vec![
        ("throughput", pictures::throughput(outcome)),
        ("latency", pictures::latency(outcome)),
        ("fct", pictures::completion(outcome)),
    ];
    if outcome.setup.period.is_some() {
        found.push(("series", pictures::series(outcome)));
        if outcome.setup.network.kind == NetworkKind::Packet {
            found.push(("queues", pictures::queues(outcome)));
            found.push(("rates", pictures::rates(outcome)));
        }
    }
    found
}

/// The page with everything in it.
pub fn page(outcome: &TrafficOutcome, origin: &Origin) -> String {
    let (summary, data, text) = (summary(outcome), Data::from(tables(outcome)), text(outcome));
    let pictures: Vec<(String, String)> = pictures(outcome).into_iter().map(|(name, svg)| (name.to_owned(), svg)).collect();
    Report { kind: "traffic", title: None, summary: &summary, data: &data, pictures: &pictures, text: &text, origin }.html()
}

/// Writes everything into the folder `out`.
pub fn save(out: &Path, outcome: &TrafficOutcome) -> Result<(), TableError> {
    narrows_output::write(&out.join("machine.toml"), outcome.machine.to_used_toml())?;
    for (name, table) in tables(outcome) {
        table.write(&out.join(name).with_extension("parquet"))?;
    }
    let origin = Origin::here(Some(&outcome.machine.name), Some(outcome.setup.seed));
    for (name, picture) in pictures(outcome) {
        narrows_output::write(&out.join(name).with_extension("svg"), origin.sign(&picture))?;
    }
    narrows_output::write(&out.join("report.html"), page(outcome, &origin))?;
    // Last: where it is, the rest is too.
    Ok(narrows_output::write(&out.join("summary.json"), format!("{:#}\n", summary(outcome)))?)
}

/// What the machine takes at each point, where it says what its parts take: all nodes, and this network.
fn energies(outcome: &TrafficOutcome) -> Vec<Option<Energy>> {
    let used = Used::all(&outcome.machine, &outcome.setup.topology);
    let of = |point: &Point| Energy::of(&outcome.machine, &used, point.simulated, &[], point.statistics.bytes);
    outcome.points.iter().map(of).collect()
}

/// Times of a point; nothing when they would only say how long one has looked.
fn times(histogram: &Histogram, saturated: bool) -> Value {
    match Times::of(histogram) {
        Some(Times { mean, p50, p99, max }) if !saturated => json!({ "mean": mean, "p50": p50, "p99": p99, "max": max }),
        _ => Value::Null,
    }
}

/// The same of slow-downs.
fn slow_down(class: &ClassPoint) -> Value {
    match SlowDown::of(&class.slow_down) {
        Some(SlowDown { p50, p99, p999 }) if !class.saturated => json!({ "p50": p50, "p99": p99, "p999": p999 }),
        _ => Value::Null,
    }
}

pub fn summary(outcome: &TrafficOutcome) -> Value {
    let points = &outcome.points;
    let sum = |part: fn(&Point) -> u64| points.iter().map(part).sum::<u64>();
    let packet_hops = sum(|point| point.statistics.packet_hops);
    let listed: Vec<Value> = points
        .iter()
        .zip(energies(outcome))
        .map(|(point, energy)| {
            let classes: Vec<Value> = point
                .classes
                .iter()
                .map(|class| {
                    json!({
                        "name": class.name,
                        "load": class.load,
                        "sources": class.sources,
                        "offered": class.offered,
                        "accepted": class.accepted,
                        "saturated": class.saturated,
                        "latency_ns": times(&class.latency, class.saturated),
                        "fct_ns": times(&class.fct, class.saturated),
                        "slow_down": slow_down(class),
                        "messages": class.fct.count(),
                        "unfinished": class.unfinished,
                    })
                })
                .collect();
            json!({
                "load": point.load,
                "offered": point.offered,
                "accepted": point.accepted,
                "saturated": point.saturated,
                "partial": point.partial,
                "steady": point.steady,
                "too_short": point.too_short.is_some(),
                // Of several classes together they would be those of whichever sends most: see `classes`.
                "latency_ns": times(&point.latency(), point.saturated || point.classes.len() > 1),
                "fct_ns": times(&point.fct(), point.saturated || point.classes.len() > 1),
                "fairness": outcome.setup.period.and_then(|period| point.fairness(period)),
                "nothing_measured": point.is_empty(),
                "messages": point.fct().count(),
                "unfinished": point.unfinished(),
                "warmup_s": point.warmup.as_s_f64(),
                "measured_s": point.measured.as_s_f64(),
                "simulated_s": point.simulated.as_s_f64(),
                "packet_hops": point.statistics.packet_hops,
                "stalls": point.statistics.credit_stalls,
                "pauses": point.statistics.pauses,
                "lost_packets": point.statistics.lost_packets + point.statistics.corrupt_packets,
                "crc_errors": point.statistics.crc_errors,
                "missed_errors": point.statistics.missed_errors,
                "retransmissions": point.statistics.retransmissions,
                "acknowledgements": point.statistics.acknowledgements,
                "control_packets": point.statistics.control_packets,
                "energy": energy.as_ref().map(Energy::summary),
                "handlers": point.handlers.as_ref().map(|report| handlers::summary(report, &outcome.machine.nic.spin.rules)),
                "events": point.events,
                "windows": point.windows,
                "digest": format!("{:016x}", point.digest),
                "classes": classes,
            })
        })
        .collect();
    json!({
        "narrows": env!("CARGO_PKG_VERSION"),
        "schema": narrows_results::SCHEMA,
        "pattern": outcome.pattern,
        "simulated_s": points.iter().map(|point| point.simulated.as_s_f64()).sum::<f64>(),
        "wall_s": outcome.wall.as_secs_f64(),
        "nodes": outcome.setup.topology.hosts(),
        "topology": outcome.setup.topology.name(),
        "network": outcome.machine.network.kind.name(),
        "seed": outcome.setup.seed,
        "threads": outcome.threads,
        "processes": outcome.processes.len(),
        "messages": sum(|point| point.statistics.transfers),
        "bytes": sum(|point| point.statistics.bytes),
        "packets": sum(|point| point.statistics.packets),
        "packet_hops": packet_hops,
        "lost_packets": sum(|point| point.statistics.lost_packets + point.statistics.corrupt_packets),
        "crc_errors": sum(|point| point.statistics.crc_errors),
        "missed_errors": sum(|point| point.statistics.missed_errors),
        "retransmissions": sum(|point| point.statistics.retransmissions),
        "packet_hops_per_s": packet_hops as f64 / outcome.simulation.as_secs_f64().max(1e-9),
        "events": sum(|point| point.events),
        "assembly_s": outcome.assembly.as_secs_f64(),
        "peak_rss_bytes": peak_memory(),
        // Of each process that shared the points.
        "peak_rss_bytes_of_processes": outcome.processes,
        "digest": format!("{:016x}", digest(points)),
        "exit_code": exit_code(outcome),
        "failure": failure(outcome),
        "partial": outcome.interrupted,
        "points": listed,
        "machine": outcome.machine.to_json(),
    })
}

/// Why the sweep is not what was asked for.
pub fn failure(outcome: &TrafficOutcome) -> Option<String> {
    let points = &outcome.points;
    let given_up = || points.iter().find_map(|point| point.undelivered.clone());
    let empty = || points.iter().find(|point| point.is_empty());
    match outcome.interrupted {
        true => Some(String::from("ended by a signal")),
        false if given_up().is_some() => given_up().map(|flow| flow.to_string()),
        false => empty().map(|point| {
            let load = point.load.map_or_else(String::new, |load| format!(" at load {}", show_load(load)));
            format!("nothing was measured{load}: no message was sent and received within {}; a longer --time measures more", point.measured)
        }),
    }
}

/// 130 as a shell reports a program that SIGINT ended, 1 when there is a point without a result, or messages
/// that never arrive.
pub fn exit_code(outcome: &TrafficOutcome) -> u8 {
    match failure(outcome) {
        // As a shell reports a program that SIGINT ended.
        Some(_) if outcome.interrupted => exit::INTERRUPTED,
        Some(_) => exit::NO,
        None => exit::DONE,
    }
}

/// Of all points.
fn digest(points: &[Point]) -> u64 {
    let mut digest = narrows_engine::Digest::default();
    points.iter().for_each(|point| digest.word(point.digest));
    digest.value()
}

/// The lines after a sweep.
pub fn text(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let mut text = String::new();
    let setup = &outcome.setup;
    let _ = writeln!(
        text,
        "{} on {} nodes of {} ({}, {} network)",
        outcome.pattern,
        setup.topology.hosts(),
        outcome.machine.name,
        setup.topology.name(),
        outcome.machine.network.kind.name(),
    );
    let _ = writeln!(text, "  load  accepted   latency ns: mean      p99       fct ns: mean       p99");
    for (point, energy) in points.iter().zip(energies(outcome)) {
        let load = |load: Option<f64>| load.map_or_else(|| String::from("-"), show_load);
        let mut remarks = Vec::new();
        if point.saturated {
            remarks.push(String::from("saturated"));
        } else if point.is_empty() {
            remarks.push(String::from("nothing was measured"));
        } else if point.unfinished() > 0 {
            remarks.push(format!("{} messages not done", point.unfinished()));
        }
        if point.partial {
            remarks.push(String::from("partial"));
        } else if let Some(least) = point.too_short {
            remarks.push(format!("too short: --time of {least} at least"));
        } else if !point.steady && !point.saturated {
            remarks.push(String::from("not steady: needs a longer warm-up"));
        }
        if let [class] = point.classes.as_slice()
            && let Some(SlowDown { p50, p99, p999 }) = SlowDown::of(&class.slow_down).filter(|_| !class.saturated)
        {
            remarks.push(format!("slow-down {p50:.2}, 99 % {p99:.1}, 99.9 % {p999:.1}"));
        }
        // Times of classes together would be those of whichever sends most.
        let alone = match point.classes.as_slice() {
            [class] => times_text(class),
            _ => String::new(),
        };
        let line = format!("  {:>5}    {:6.4}{alone}  {}", load(point.load), point.accepted, remarks.join(", "));
        let _ = writeln!(text, "{}", line.trim_end());
        for class in point.classes.iter().filter(|_| point.classes.len() > 1) {
            let state = if class.saturated { "  saturated" } else { "" };
            let (load, times) = (load(class.load), times_text(class));
            let _ = writeln!(text, "  {load:>5}    {:6.4}{times}  {}{state}", class.accepted, class.name);
        }
        if let Some(energy) = energy {
            let _ = writeln!(text, "  {}", energy.line());
        }
        for line in point.handlers.iter().flat_map(|report| handlers::lines(report, &outcome.machine.nic.spin.rules)) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let hops: u64 = points.iter().map(|point| point.statistics.packet_hops).sum();
    let _ = writeln!(
        text,
        "{} packet-hops, {}/s; assembly {:.2} s, wall time {:.2} s; digest {:016x}{}",
        hops,
        show::count(hops as f64 / outcome.simulation.as_secs_f64().max(1e-9)),
        outcome.assembly.as_secs_f64(),
        outcome.wall.as_secs_f64(),
        digest(points),
        if outcome.interrupted { "; ended by a signal, partial" } else { "" },
    );
    text
}

/// A load in three digits behind the point, or as few as it takes.
fn show_load(load: f64) -> String {
    if load >= 0.001 { format!("{load:.3}") } else { format!("{load:e}") }
}

/// Packet latency and completion time of a class, as columns; nothing of a saturated one, whose times only say how long
/// one has looked.
fn times_text(class: &ClassPoint) -> String {
    let mut text = String::new();
    for (width, histogram) in [(16, &class.latency), (14, &class.fct)] {
        let _ = match Times::of(histogram).filter(|_| !class.saturated) {
            Some(times) => write!(text, "  {:width$.0} {:9.0}", times.mean, times.p99),
            None => write!(text, "  {:>width$} {:>9}", "-", "-"),
        };
    }
    text
}

/// A row per point and class.
pub fn points_table(points: &[Point]) -> Table {
    let rows: Vec<_> = points.iter().flat_map(|point| point.classes.iter().map(move |class| (point, class))).collect();
    let time = |part: fn(&narrows_traffic::ClassPoint) -> &Histogram, value: fn(Times) -> f64| {
        numbers(rows.iter().map(|(_, class)| Times::of(part(class)).filter(|_| !class.saturated).map(value)))
    };
    let slow = |value: fn(SlowDown) -> f64| {
        numbers(rows.iter().map(|(_, class)| SlowDown::of(&class.slow_down).filter(|_| !class.saturated).map(value)))
    };
    Table::new(vec![
        ("load", numbers(rows.iter().map(|(point, _)| point.load))),
        ("class", Column::Text(rows.iter().map(|(_, class)| class.name.clone()).collect())),
        ("offered", numbers(rows.iter().map(|(_, class)| Some(class.offered)))),
        ("accepted", numbers(rows.iter().map(|(_, class)| Some(class.accepted)))),
        ("saturated", integers(rows.iter().map(|(_, class)| u64::from(class.saturated)))),
        ("partial", integers(rows.iter().map(|(point, _)| u64::from(point.partial)))),
        ("steady", integers(rows.iter().map(|(point, _)| u64::from(point.steady)))),
        ("too_short", integers(rows.iter().map(|(point, _)| u64::from(point.too_short.is_some())))),
        ("latency_mean_ns", time(|class| &class.latency, |times| times.mean)),
        ("latency_p50_ns", time(|class| &class.latency, |times| times.p50)),
        ("latency_p99_ns", time(|class| &class.latency, |times| times.p99)),
        ("latency_max_ns", time(|class| &class.latency, |times| times.max)),
        ("fct_mean_ns", time(|class| &class.fct, |times| times.mean)),
        ("fct_p50_ns", time(|class| &class.fct, |times| times.p50)),
        ("fct_p99_ns", time(|class| &class.fct, |times| times.p99)),
        ("fct_max_ns", time(|class| &class.fct, |times| times.max)),
        ("slow_down_p50", slow(|slow| slow.p50)),
        ("slow_down_p99", slow(|slow| slow.p99)),
        ("slow_down_p999", slow(|slow| slow.p999)),
        ("messages", integers(rows.iter().map(|(_, class)| class.fct.count()))),
        ("unfinished", integers(rows.iter().map(|(_, class)| class.unfinished))),
    ])
}

/// A row per bucket of a histogram: packet latencies and message completion times, with the cumulative fraction.
fn histograms_table(points: &[Point]) -> Table {
    let mut rows = Vec::new();
    for point in points {
        for class in &point.classes {
            for (kind, histogram) in [("latency", &class.latency), ("fct", &class.fct)] {
                let mut below = 0;
                for (value, count) in histogram.buckets() {
                    below += count;
                    rows.push((point.load, class, kind, value, count, below as f64 / histogram.count() as f64));
                }
            }
        }
    }
    Table::new(vec![
        ("load", numbers(rows.iter().map(|row| row.0))),
        ("class", Column::Text(rows.iter().map(|row| row.1.name.clone()).collect())),
        ("saturated", integers(rows.iter().map(|row| u64::from(row.1.saturated)))),
        ("kind", Column::Text(rows.iter().map(|row| row.2.to_owned()).collect())),
        ("up_to_ns", numbers(rows.iter().map(|row| Some(row.3 as f64 / 1e3)))),
        ("count", integers(rows.iter().map(|row| row.4))),
        ("cdf", numbers(rows.iter().map(|row| Some(row.5)))),
    ])
}

fn flows_table(outcome: &TrafficOutcome) -> Table {
    let points = &outcome.points;
    let Work::Flows(flows) = &outcome.setup.work else { return Table::new(Vec::new()) };
    let rows: Vec<_> = points.iter().flat_map(|point| &point.flows).map(|time| (flows[time.flow as usize], time.fct)).collect();
    Table::new(vec![
        ("start_ns", numbers(rows.iter().map(|(flow, _)| Some(flow.start.as_ns_f64())))),
        ("source", integers(rows.iter().map(|(flow, _)| u64::from(flow.source)))),
        ("target", integers(rows.iter().map(|(flow, _)| u64::from(flow.target)))),
        ("bytes", integers(rows.iter().map(|(flow, _)| flow.bytes))),
        ("fct_ns", numbers(rows.iter().map(|(_, fct)| fct.map(|fct| fct.as_ns_f64())))),
    ])
}

/// The end of a period in nanoseconds.
pub fn period_end_ns(outcome: &TrafficOutcome, period: u32) -> f64 {
    fabric_tables::end_ns(outcome.setup.period.unwrap_or_default(), period)
}

fn series_table(outcome: &TrafficOutcome) -> Table {
    let points = &outcome.points;
    let rows: Vec<_> = points.iter().flat_map(|point| point.series.iter().map(move |row| (point, row))).collect();
    Table::new(vec![
        ("load", numbers(rows.iter().map(|(point, _)| point.load))),
        ("time_ns", numbers(rows.iter().map(|(_, row)| Some(period_end_ns(outcome, row.period))))),
        ("class", Column::Text(rows.iter().map(|(point, row)| point.classes[row.class as usize].name.clone()).collect())),
        ("offered", numbers(rows.iter().map(|(_, row)| Some(row.offered)))),
        ("accepted", numbers(rows.iter().map(|(_, row)| Some(row.accepted)))),
        ("latency_mean_ns", numbers(rows.iter().map(|(_, row)| row.latency_ns))),
    ])
}

fn queues_table(outcome: &TrafficOutcome) -> Table {
    let points = &outcome.points;
    let seen = points.iter().filter_map(|point| point.telemetry.as_ref().map(|telemetry| (point.load, telemetry)));
    let (loads, rows): (Vec<_>, Vec<_>) =
        seen.flat_map(|(load, telemetry)| telemetry.queue_rows.iter().map(move |row| (load, row))).unzip();
    let length = outcome.setup.period.unwrap_or_default();
    Table::new([vec![("load", Column::Number(loads))], fabric_tables::queues(&outcome.setup.topology, length, &rows)].concat())
}

fn links_table(outcome: &TrafficOutcome) -> Table {
    let points = &outcome.points;
    let seen = points.iter().filter_map(|point| point.telemetry.as_ref().map(|telemetry| (point.load, telemetry)));
    let (loads, rows): (Vec<_>, Vec<_>) = seen.flat_map(|(load, telemetry)| telemetry.link_rows.iter().map(move |row| (load, row))).unzip();
    let length = outcome.setup.period.unwrap_or_default();
    Table::new([vec![("load", Column::Number(loads))], fabric_tables::links(&outcome.setup.topology, length, &rows)].concat())
}

/// Of the host link's rate, what so many bytes in a period are.
pub fn share_of_host_link(outcome: &TrafficOutcome, bytes: u64) -> f64 {
    let period = outcome.setup.period.unwrap_or_default().as_s_f64();
    bytes as f64 / (outcome.setup.network.host_link.rate.as_f64() * period).max(f64::MIN_POSITIVE)
}

/// A row per flow and period in which it got something.
fn rates_table(outcome: &TrafficOutcome) -> Table {
    let points = &outcome.points;
    let seen = points.iter().filter_map(|point| point.telemetry.as_ref().map(|telemetry| (point.load, telemetry)));
    let rows: Vec<_> = seen.flat_map(|(load, telemetry)| telemetry.flow_rows.iter().map(move |row| (load, row))).collect();
    Table::new(vec![
        ("load", numbers(rows.iter().map(|row| row.0))),
        ("time_ns", numbers(rows.iter().map(|(_, row)| Some(period_end_ns(outcome, row.period))))),
        ("source", integers(rows.iter().map(|(_, row)| u64::from(row.source)))),
        ("target", integers(rows.iter().map(|(_, row)| u64::from(row.target)))),
        ("virtual_network", integers(rows.iter().map(|(_, row)| u64::from(row.virtual_network)))),
        ("rate", numbers(rows.iter().map(|(_, row)| Some(share_of_host_link(outcome, row.bytes))))),
    ])
}

fn hops_table(points: &[Point]) -> Table {
    let seen = points.iter().filter_map(|point| point.telemetry.as_ref().map(|telemetry| (point, telemetry)));
    let rows: Vec<_> = seen
        .flat_map(|(point, telemetry)| {
            let both = telemetry.hops.iter().zip(&telemetry.misrouted).enumerate();
            both.filter(|(_, (packets, _))| **packets > 0)
                .map(move |(links, (packets, misrouted))| (point.load, links, *packets, *misrouted))
        })
        .collect();
    Table::new(vec![
        ("load", numbers(rows.iter().map(|row| row.0))),
        ("links", integers(rows.iter().map(|row| row.1 as u64))),
        ("packets", integers(rows.iter().map(|row| row.2))),
        ("misrouted", integers(rows.iter().map(|row| row.3))),
    ])
}
