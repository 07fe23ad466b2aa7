//! Pictures of a sweep.

use super::TrafficOutcome;
use super::output::{period_end_ns, share_of_host_link};
use narrows_results::{Chart, Curve, Histogram, Quantity};
use narrows_traffic::{ClassPoint, Point, Times, stage};
use std::collections::BTreeMap;

fn title(outcome: &TrafficOutcome, what: &str) -> String {
    format!("{what}: {} on {} ({} nodes)", outcome.pattern, outcome.machine.name, outcome.setup.topology.hosts())
}

/// The horizontal place of a point.
fn load(point: &Point) -> f64 {
    point.load.unwrap_or(point.offered)
}

/// Where saturation was found first.
fn saturation(points: &[Point]) -> Vec<(f64, String)> {
    points.iter().find(|point| point.saturated).map(|point| (load(point), String::from("saturated"))).into_iter().collect()
}

/// Accepted traffic against load.
pub fn throughput(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let curve = |name: &str, value: &dyn Fn(&Point) -> f64| Curve {
        name: name.to_owned(),
        points: points.iter().map(|point| (load(point), Some(value(point)))).collect(),
        dashed: false,
    };
    let mut curves = vec![curve("accepted", &|point| point.accepted)];
    let classes = points.first().map_or(0, |point| point.classes.len());
    if classes > 1 {
        for class in 0..classes {
            curves.push(curve(&points[0].classes[class].name.clone(), &|point| point.classes[class].accepted));
        }
    }
    curves.push(Curve { name: String::from("all that is offered"), points: vec![(0.0, Some(0.0)), (1.0, Some(1.0))], dashed: true });
    Chart {
        title: title(outcome, "Throughput"),
        x: String::from("load, fraction of injection bandwidth"),
        y: String::from("accepted, fraction of injection bandwidth"),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.05)),
        curves,
        marks: saturation(points),
        ..Chart::default()
    }
    .svg()
}

/// Packet latency and message completion time against load, up to saturation.
pub fn latency(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let classes = points.first().map_or(0, |point| point.classes.len());
    // Each class for itself: together they would be those of whichever sends most.
    let curves = (0..classes).flat_map(|index| {
        let name = |what: &str| match classes {
            1 => what.to_owned(),
            _ => format!("{}, {what}", points[0].classes[index].name),
        };
        let curve = |what: &str, histogram: fn(&ClassPoint) -> &Histogram, value: fn(Times) -> f64, dashed: bool| Curve {
            name: name(what),
            points: points
                .iter()
                .map(|point| (load(point), &point.classes[index]))
                .map(|(load, class)| (load, Times::of(histogram(class)).filter(|_| !class.saturated).map(|times| value(times) / 1e9)))
                .collect(),
            dashed,
        };
        [
            curve("packet latency, mean", |class| &class.latency, |times| times.mean, false),
            curve("packet latency, 99 %", |class| &class.latency, |times| times.p99, false),
            curve("completion time, mean", |class| &class.fct, |times| times.mean, true),
            curve("completion time, 99 %", |class| &class.fct, |times| times.p99, true),
        ]
    });
    Chart {
        title: title(outcome, "Latency"),
        x: String::from("load, fraction of injection bandwidth"),
        y: String::from("time"),
        y_in: Quantity::Seconds,
        log: true,
        x_range: Some((0.0, 1.0)),
        curves: curves.collect(),
        marks: saturation(points),
        ..Chart::default()
    }
    .svg()
}

/// The distribution of completion times at up to six loads.
pub fn completion(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let measured = |class: &&ClassPoint| !class.saturated && class.fct.count() > 0;
    let shown: Vec<&Point> = points.iter().filter(|point| point.classes.iter().any(|class| measured(&class))).collect();
    // About six curves, each of one class.
    let step = (shown.len() * shown.first().map_or(1, |point| point.classes.len())).div_ceil(6).max(1);
    let curves = shown.iter().step_by(step).flat_map(|point| {
        let at = point.load.map(|load| format!("load {load}"));
        point.classes.iter().filter(measured).map(move |class| {
            let name = match (&at, point.classes.len()) {
                (Some(at), 1) => at.clone(),
                (Some(at), _) => format!("{}, {at}", class.name),
                (None, _) => class.name.clone(),
            };
            Curve::distribution(name, class.fct.buckets().map(|(value, count)| (value as f64 / 1e12, count)))
        })
    });
    Chart {
        title: title(outcome, "Completion times"),
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

/// Accepted traffic over time: of each class at the highest load or, of a single one, at up to six loads.
pub fn series(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let highest = points.iter().max_by(|one, other| load(one).total_cmp(&load(other)));
    let curve = |name: String, point: &Point, class: u32| Curve {
        name,
        points: point
            .series
            .iter()
            .filter(|row| row.class == class)
            .map(|row| (period_end_ns(outcome, row.period) / 1e9, Some(row.accepted)))
            .collect(),
        dashed: false,
    };
    let curves = match highest {
        Some(point) if point.classes.len() > 1 => {
            point.classes.iter().zip(0..).map(|(class, index)| curve(class.name.clone(), point, index)).collect()
        }
        _ => {
            let step = points.len().div_ceil(6).max(1);
            let name = |point: &Point| point.load.map_or_else(|| String::from("accepted"), |load| format!("load {load}"));
            points.iter().step_by(step).map(|point| curve(name(point), point, 0)).collect()
        }
    };
    Chart {
        title: title(outcome, "Throughput over time"),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("accepted, fraction of injection bandwidth"),
        curves,
        ..Chart::default()
    }
    .svg()
}

/// The fullest queue of each stage over time, at the highest load.
pub fn queues(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let highest = points.iter().filter(|point| point.telemetry.is_some()).max_by(|one, other| load(one).total_cmp(&load(other)));
    let topology = &outcome.setup.topology;
    let mut fullest: BTreeMap<String, BTreeMap<u32, u32>> = BTreeMap::new();
    let mut periods = 0;
    if let Some(telemetry) = highest.and_then(|point| point.telemetry.as_ref()) {
        for row in &telemetry.queue_rows {
            let link = &topology.links()[row.link as usize];
            let most = fullest.entry(stage(topology, link)).or_default().entry(row.period).or_default();
            *most = row.max_packets.max(*most);
            periods = periods.max(row.period + 1);
        }
    }
    let curves = fullest.into_iter().map(|(name, rows)| Curve {
        name,
        points: (0..periods)
            .map(|period| (period_end_ns(outcome, period) / 1e9, Some(f64::from(rows.get(&period).copied().unwrap_or(0)))))
            .collect(),
        dashed: false,
    });
    let at = highest.and_then(|point| point.load).map_or_else(String::new, |load| format!(" at load {load}"));
    Chart {
        title: title(outcome, &format!("Fullest queue of each stage{at}")),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("packets"),
        curves: curves.collect(),
        ..Chart::default()
    }
    .svg()
}

/// Curves of flows that still can be told apart.
const MOST_FLOWS: usize = 7;

/// What each flow got over time, at the highest load: of many, those that got most.
pub fn rates(outcome: &TrafficOutcome) -> String {
    let points = &outcome.points;
    let highest = points.iter().filter(|point| point.telemetry.is_some()).max_by(|one, other| load(one).total_cmp(&load(other)));
    let mut flows: BTreeMap<(u8, u32, u32), BTreeMap<u32, u64>> = BTreeMap::new();
    let mut periods = 0;
    if let Some(telemetry) = highest.and_then(|point| point.telemetry.as_ref()) {
        for row in &telemetry.flow_rows {
            *flows.entry((row.virtual_network, row.source, row.target)).or_default().entry(row.period).or_default() += row.bytes;
            periods = periods.max(row.period + 1);
        }
    }
    let mut order: Vec<_> = flows.into_iter().collect();
    order.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.values().sum::<u64>()));
    order.truncate(MOST_FLOWS);
    order.sort_by_key(|(flow, _)| *flow);
    let curves = order.into_iter().map(|((_, source, target), rows)| Curve {
        name: format!("{source} to {target}"),
        points: (0..periods)
            .map(|period| {
                let bytes = rows.get(&period).copied().unwrap_or(0);
                (period_end_ns(outcome, period) / 1e9, Some(share_of_host_link(outcome, bytes)))
            })
            .collect(),
        dashed: false,
    });
    let at = highest.and_then(|point| point.load).map_or_else(String::new, |load| format!(" at load {load}"));
    Chart {
        title: title(outcome, &format!("Rates of flows{at}")),
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("fraction of a host link"),
        curves: curves.collect(),
        ..Chart::default()
    }
    .svg()
}
