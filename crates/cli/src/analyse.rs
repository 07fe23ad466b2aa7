//! `narrows analyse`: what a trace says about a program, as one HTML page and tables.

use crate::failure::Failure;
use crate::form::{Form, keys_and_values};
use crate::trace::{self, ReadingArguments, shown};
use clap::Args;
use narrows_output::{Meter, create_folder, exit, say, warn, write};
use narrows_results::{Bars, Chart, Column, Curve, Origin, Progress, Quantity, Table};
use narrows_study::report::{Data, Report};
use narrows_trace::Metered;
use narrows_trace::analysis::{Analysis, RankUse, Volume};
use narrows_units::SimTime;
use narrows_units::show::size;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `narrows analyse`.
#[derive(Args)]
#[command(after_help = "\
Example:
  narrows analyse lammps.vef --report out/

Writes out/report.html (one file, no network needed), out/summary.json and the tables as Parquet:
ranks, pairs, sizes, collectives, intervals. Times are those of an ideal machine, on which
messages take no time.")]
pub struct AnalyseArgs {
    /// The trace; - is standard input
    file: PathBuf,
    #[command(flatten)]
    reading: ReadingArguments,
    /// The folder for the report
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    #[command(flatten)]
    form: Form,
}

/// Runs `narrows analyse`.
pub fn run(args: AnalyseArgs) -> Result<u8, Failure> {
    let name = shown(&args.file, "standard input");
    let program = trace::open(&args.file, args.reading.into())?.program;
    let meter = Arc::new(Meter::new(program.total()));
    let progress = Progress::start("running it on an ideal machine", &meter);
    let analysis = Analysis::new(&mut Metered::new(program, meter)).map_err(Failure::from)?;
    drop(progress);
    for problem in analysis.outcome.problems.iter().take(10) {
        warn!("{name}: {problem}");
    }
    let value = summary(&args.file, &analysis);
    args.form.print(|| lines(&analysis), || value.clone(), || keys_and_values(&value))?;
    create_folder(&args.report)?;
    let (all, pictures, origin) = (tables(&analysis), pictures(&analysis), Origin::here(None, None));
    for (name, table) in &all {
        table.write(&args.report.join(name).with_extension("parquet"))?;
    }
    for (name, picture) in &pictures {
        write(&args.report.join(name).with_extension("svg"), origin.sign(picture))?;
    }
    let (data, text) = (Data::from(all), lines(&analysis));
    let report = Report { kind: "analysis", title: None, summary: &value, data: &data, pictures: &pictures, text: &text, origin: &origin };
    write(&args.report.join("report.html"), report.html())?;
    write(&args.report.join("summary.json"), format!("{value:#}\n"))?;
    say!("the report is {}", args.report.join("report.html").display());
    Ok(exit::DONE)
}

/// The overview as text.
fn lines(analysis: &Analysis) -> String {
    overview(analysis).into_iter().map(|(name, value)| format!("{name:25} {value}\n")).collect()
}

fn finish(analysis: &Analysis) -> SimTime {
    analysis.outcome.finish.iter().max().copied().unwrap_or(SimTime::ZERO)
}

fn summary(file: &Path, analysis: &Analysis) -> Value {
    let Volume { count, bytes } = analysis.messages();
    let computing: SimTime = analysis.ranks.iter().fold(SimTime::ZERO, |sum, rank| sum + rank.computing);
    serde_json::json!({
        "trace": file.display().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "ranks": analysis.ranks.len(),
        "messages": count,
        "bytes": bytes,
        "collectives": analysis.outcome.collectives,
        "collective_parts": analysis.collectives.values().sum::<u64>(),
        "computing_s_mean": computing.as_s_f64() / analysis.ranks.len().max(1) as f64,
        "ideal_finish_s": finish(analysis).as_s_f64(),
        "problems": analysis.outcome.problems.len(),
    })
}

/// The pictures by name.
fn pictures(analysis: &Analysis) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    if !analysis.sizes.is_empty() {
        pictures.extend([("sizes", size_histogram(analysis)), ("size-shares", size_shares(analysis))]);
        if analysis.pairs.is_some() {
            pictures.push(("neighbours", neighbours(analysis)));
        }
    }
    pictures.extend([("ranks", per_rank(analysis)), ("operations", over_time(analysis))]);
    pictures.into_iter().map(|(name, picture)| (name.to_owned(), picture)).collect()
}

fn overview(analysis: &Analysis) -> [(&'static str, String); 6] {
    let Volume { count, bytes } = analysis.messages();
    let ranks = analysis.ranks.len().max(1);
    let computing: SimTime = analysis.ranks.iter().fold(SimTime::ZERO, |sum, rank| sum + rank.computing);
    let parts: u64 = analysis.collectives.values().sum();
    [
        ("Ranks", analysis.ranks.len().to_string()),
        ("Messages", format!("{count} ({} on average)", size(bytes / count.max(1)))),
        ("Bytes in messages", size(bytes)),
        ("Collectives", format!("{} ({parts} parts)", analysis.outcome.collectives)),
        ("Computing per rank", format!("{} on average", computing / ranks as u64)),
        ("Time on an ideal machine", finish(analysis).to_string()),
    ]
}

/// A picture of bars.
fn bars(x: &str, y: &str, labels: Vec<String>, series: Vec<(&str, Vec<f64>)>) -> Bars {
    let series = series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
    Bars { x: x.to_owned(), y: y.to_owned(), labels, series, ..Bars::default() }
}

fn size_histogram(analysis: &Analysis) -> String {
    let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
    for (bytes, count) in &analysis.sizes {
        *bins.entry(bytes.checked_ilog2().map_or(0, |power| power + 1)).or_default() += count;
    }
    let (Some(first), Some(last)) = (bins.keys().next().copied(), bins.keys().last().copied()) else { return String::new() };
    let label = |bin: u32| if bin == 0 { String::from("0 B") } else { size(1 << (bin - 1)) };
    let labels: Vec<String> = (first..=last).map(label).collect();
    let counts = (first..=last).map(|bin| bins.get(&bin).copied().unwrap_or(0) as f64).collect();
    bars("size, from", "messages", labels, vec![("messages", counts)]).svg()
}

fn size_shares(analysis: &Analysis) -> String {
    let messages: f64 = analysis.sizes.values().map(|count| *count as f64).sum();
    let bytes: f64 = analysis.sizes.iter().map(|(bytes, count)| *bytes as f64 * *count as f64).sum();
    let share = |weight: &dyn Fn(u64, u64) -> f64, total: f64| {
        let mut sum = 0.0;
        let step = |(size, count): (&u64, &u64)| {
            sum += weight(*size, *count);
            (*size as f64, sum / total.max(1e-300))
        };
        analysis.sizes.iter().map(step).collect::<Vec<_>>()
    };
    let curve = |name: &str, shares: Vec<(f64, f64)>| {
        // Steps, from nothing on.
        let mut below = 0.0;
        let mut points = Vec::new();
        for (size, share) in shares {
            points.extend([(size.max(1.0), Some(below)), (size.max(1.0), Some(share))]);
            below = share;
        }
        Curve { name: name.to_owned(), points, dashed: false }
    };
    Chart {
        x: String::from("size"),
        x_in: Quantity::Bytes,
        log_x: true,
        y: String::from("share"),
        y_range: Some((0.0, 1.0)),
        curves: vec![
            curve("messages", share(&|_, count| count as f64, messages)),
            curve("bytes", share(&|size, count| size as f64 * count as f64, bytes)),
        ],
        ..Chart::default()
    }
    .svg()
}

fn neighbours(analysis: &Analysis) -> String {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for rank in &analysis.ranks {
        *counts.entry(rank.destinations).or_default() += 1;
    }
    let labels: Vec<String> = counts.keys().map(u32::to_string).collect();
    bars("destinations", "ranks", labels, vec![("ranks", counts.values().map(|count| *count as f64).collect())]).svg()
}

/// At most this many bars; more ranks share one, with their mean.
const RANK_BARS: usize = 128;

fn per_rank(analysis: &Analysis) -> String {
    let group = analysis.ranks.len().div_ceil(RANK_BARS).max(1);
    let mean = |ranks: &[RankUse], value: &dyn Fn(&RankUse) -> f64| ranks.iter().map(value).sum::<f64>() / ranks.len() as f64;
    let latest = finish(analysis);
    let computing = |rank: &RankUse| rank.computing.min(rank.finish).as_s_f64();
    let waiting = |rank: &RankUse| rank.finish.saturating_sub(rank.computing).as_s_f64();
    let done = |rank: &RankUse| latest.saturating_sub(rank.finish).as_s_f64();
    let labels: Vec<String> = (0..analysis.ranks.len()).step_by(group).map(|rank| rank.to_string()).collect();
    let series = |value: &dyn Fn(&RankUse) -> f64| analysis.ranks.chunks(group).map(|ranks| mean(ranks, value)).collect::<Vec<_>>();
    let series = vec![("computing", series(&computing)), ("waiting", series(&waiting)), ("done", series(&done))];
    Bars { y_in: Quantity::Seconds, ..bars("rank", "time", labels, series) }.svg()
}

fn over_time(analysis: &Analysis) -> String {
    let end = |index: usize| analysis.interval.as_s_f64() * (index + 1) as f64;
    let curve = |name: &str, value: &dyn Fn(usize) -> u64| Curve {
        name: name.to_owned(),
        points: (0..analysis.intervals.len()).map(|index| (end(index), Some(value(index) as f64))).collect(),
        dashed: false,
    };
    Chart {
        x: String::from("time"),
        x_in: Quantity::Seconds,
        y: String::from("operations per interval"),
        stacked: true,
        curves: vec![
            curve("messages", &|index| analysis.intervals[index].messages.count),
            curve("parts of collectives", &|index| analysis.intervals[index].collectives.count),
        ],
        ..Chart::default()
    }
    .svg()
}

/// The numbers behind the pictures, by name.
fn tables(analysis: &Analysis) -> Vec<(&'static str, Table)> {
    let mut tables = Vec::new();
    let mut add = |name: &'static str, columns: Vec<(&'static str, Column)>| tables.push((name, Table::new(columns)));
    let ranks = &analysis.ranks;
    let whole = |value: &dyn Fn(&RankUse) -> u64| Column::Integer(ranks.iter().map(|rank| value(rank) as i64).collect());
    add(
        "ranks",
        vec![
            ("rank", Column::Integer((0..ranks.len() as i64).collect())),
            ("messages_sent", whole(&|rank| rank.sent.count)),
            ("bytes_sent", whole(&|rank| rank.sent.bytes)),
            ("messages_received", whole(&|rank| rank.received.count)),
            ("bytes_received", whole(&|rank| rank.received.bytes)),
            ("collective_parts", whole(&|rank| rank.collectives.count)),
            ("collective_bytes_sent", whole(&|rank| rank.collectives.bytes)),
            ("destinations", whole(&|rank| u64::from(rank.destinations))),
            ("sources", whole(&|rank| u64::from(rank.sources))),
            ("computing_ps", whole(&|rank| rank.computing.0)),
            ("ideal_finish_ps", whole(&|rank| rank.finish.0)),
        ],
    );
    if let Some(pairs) = &analysis.pairs {
        let column = |value: &dyn Fn(&(u32, u32), &Volume) -> u64| {
            Column::Integer(pairs.iter().map(|(pair, volume)| value(pair, volume) as i64).collect())
        };
        add(
            "pairs",
            vec![
                ("source", column(&|pair, _| u64::from(pair.0))),
                ("destination", column(&|pair, _| u64::from(pair.1))),
                ("messages", column(&|_, volume| volume.count)),
                ("bytes", column(&|_, volume| volume.bytes)),
            ],
        );
    }
    let sizes =
        |value: &dyn Fn(u64, u64) -> u64| Column::Integer(analysis.sizes.iter().map(|(size, count)| value(*size, *count) as i64).collect());
    add("sizes", vec![("bytes", sizes(&|size, _| size)), ("messages", sizes(&|_, count| count))]);
    let calls = &analysis.collectives;
    add(
        "collectives",
        vec![
            ("operation", Column::Text(calls.keys().map(|key| key.operation.name().to_owned()).collect())),
            ("communicator_size", Column::Integer(calls.keys().map(|key| i64::from(key.size)).collect())),
            ("bytes", Column::Integer(calls.keys().map(|key| key.bytes as i64).collect())),
            ("parts", Column::Integer(calls.values().map(|count| *count as i64).collect())),
        ],
    );
    let intervals =
        |value: &dyn Fn(usize) -> u64| Column::Integer((0..analysis.intervals.len()).map(|index| value(index) as i64).collect());
    add(
        "intervals",
        vec![
            ("begin_ps", intervals(&|index| analysis.interval.0 * index as u64)),
            ("messages", intervals(&|index| analysis.intervals[index].messages.count)),
            ("bytes", intervals(&|index| analysis.intervals[index].messages.bytes)),
            ("collective_parts", intervals(&|index| analysis.intervals[index].collectives.count)),
            ("collective_bytes_sent", intervals(&|index| analysis.intervals[index].collectives.bytes)),
        ],
    );
    tables
}
