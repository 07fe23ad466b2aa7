//! `summary.json` and the lines after a run.

use crate::run::Setting;
use narrows_live::Report;
use narrows_units::{SimTime, show};
use serde_json::json;
use std::collections::BTreeSet;

/// The content of `summary.json`. Times in seconds, sizes in bytes.
pub fn json(setting: &Setting<'_>, report: &Report) -> String {
    let ranks: Vec<_> = report
        .ranks
        .iter()
        .enumerate()
        .map(|(rank, times)| {
            json!({
                "rank": rank,
                "node": times.node,
                "computing_s": times.computing.as_s_f64(),
                "mpi_s": times.mpi.as_s_f64(),
                "waiting_s": times.waiting.as_s_f64(),
                "finished_s": times.finished.as_s_f64(),
                "mpi_calls": times.calls,
            })
        })
        .collect();
    let value = json!({
        "narrows": env!("CARGO_PKG_VERSION"),
        "program": setting.program,
        "simulated_s": report.simulated.as_s_f64(),
        "wall_s": setting.wall.as_secs_f64(),
        "ranks": setting.placement.len(),
        "nodes": setting.machine.node.count,
        "nodes_used": nodes_used(setting),
        "mpi": setting.mpi,
        "network": setting.network().name(),
        "compute": setting.compute.to_string(),
        "seed": setting.seed,
        "messages": report.totals.messages,
        "bytes": report.totals.bytes,
        "packets": report.totals.packets,
        "packet_hops": report.totals.packet_hops,
        "retries": report.totals.retries,
        "events": report.totals.events,
        "windows": report.windows,
        "crossings": report.crossings,
        "mpi_calls": calls(report).0,
        "blocking_mpi_calls": calls(report).1,
        "crossings_per_blocking_call": crossings_per_call(report),
        "digest": format!("{:016x}", report.digest),
        "exit_code": report.failure.as_ref().map_or(report.exit_code, |failure| failure.exit_code),
        "failure": report.failure.as_ref().map(|failure| failure.message.clone()),
        "machine": setting.machine.to_json(),
        "per_rank": ranks,
    });
    let mut text = serde_json::to_string_pretty(&value).expect("numbers and strings always serialise");
    text.push('\n');
    text
}

fn nodes_used(setting: &Setting<'_>) -> usize {
    setting.placement.iter().collect::<BTreeSet<_>>().len()
}

fn calls(report: &Report) -> (u64, u64) {
    (report.ranks.iter().map(|rank| rank.calls).sum(), report.ranks.iter().map(|rank| rank.blocking_calls).sum())
}

fn crossings_per_call(report: &Report) -> Option<f64> {
    let (_, blocking) = calls(report);
    (blocking > 0).then(|| report.crossings as f64 / blocking as f64)
}

/// The lines that follow the program's output on standard error.
pub fn lines(setting: &Setting<'_>, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |content: String| lines.push(content);
    line(format!(
        "{} ranks on {} of {} nodes of {} ({} network, compute {}), {}",
        setting.placement.len(),
        nodes_used(setting),
        setting.machine.node.count,
        setting.machine.name,
        setting.network().name(),
        setting.compute,
        setting.mpi,
    ));
    line(format!("simulated time {} (wall time {:.2} s)", report.simulated, setting.wall.as_secs_f64()));
    let sum = |part: fn(&narrows_live::RankTimes) -> SimTime| -> f64 { report.ranks.iter().map(|rank| part(rank).as_s_f64()).sum() };
    let (computing, mpi, waiting) = (sum(|r| r.computing), sum(|r| r.mpi), sum(|r| r.waiting));
    let total = (computing + mpi + waiting).max(f64::MIN_POSITIVE);
    line(format!(
        "where the time went: computing {:.1} %, MPI software {:.1} %, waiting {:.1} %",
        100.0 * computing / total,
        100.0 * mpi / total,
        100.0 * waiting / total
    ));
    if let Some((rank, slowest)) = report.ranks.iter().enumerate().max_by_key(|(_, rank)| rank.computing) {
        let least = report.ranks.iter().map(|rank| rank.computing).min().unwrap_or_default();
        if slowest.computing > SimTime::ZERO {
            line(format!("computing per rank: {least} to {} (rank {rank})", slowest.computing));
        }
    }
    line(format!(
        "{} messages, {}, {} packets; digest {:016x}",
        report.totals.messages,
        show::size(report.totals.bytes),
        report.totals.packets,
        report.digest
    ));
    if report.totals.retries > 0 {
        line(format!("{} messages found no room for unexpected messages and were sent again", report.totals.retries));
    }
    let crossings = crossings_per_call(report).map_or(String::new(), |ratio| format!(", {ratio:.2} per blocking MPI call"));
    line(format!("{} events, {} hand-overs to ranks{crossings}", report.totals.events, report.crossings));
    lines
}
