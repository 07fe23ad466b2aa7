//! What came out of a live run.

use super::{Alone, Check, Compute, Computing, Counted};
use crate::background;
use crate::energy::Energy;
use crate::handlers;
use crate::processors;
use crate::report::{self, Data, Report};
use crate::timeline::TimelineOutcome;
use crate::{Scale, Ways};
use narrows_channel::layout::decided;
use narrows_live::{Function, RankTimes, Waiting};
use narrows_machine::{Machine, NetworkKind};
use narrows_output::{OutputError, exit, write};
use narrows_results::{Column, Graph, Origin, Table, TableError};
use narrows_units::{ProcessorId, SimTime, show};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Computing between the same calls that differs by more than this from its median is worth a line, if it is at least
/// so much of all.
const NOISY: f64 = 0.05;
const LIKELY: f64 = 0.1;
/// A share that is all, but for what rounding leaves.
const ALL: f64 = 0.9995;

/// A live run that has ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// The resolved machine.
    pub machine: Machine,
    /// How messages moved.
    pub ways: Ways,
    /// The MPI: name and version.
    pub mpi: String,
    /// Where computing times come from.
    pub compute: Compute,
    /// By what they are scaled.
    pub scales: Vec<Scale>,
    /// One of those is after a run of one rank.
    pub alone: Option<Alone>,
    /// `--compute instructions`: at what rate.
    pub counted: Option<Counted>,
    /// Threads whose cycles could not be counted, with `--compute cycles`.
    pub uncounted: u32,
    /// Computing times for other runs.
    pub computing: Option<Computing>,
    /// Processor of each rank.
    pub placement: Vec<ProcessorId>,
    /// Of the models.
    pub seed: u64,
    /// Wall time of the whole run.
    pub wall: Duration,
    /// The program's command line; of several, see [`launch::words`](narrows_launch::words).
    pub program: Vec<String>,
    /// How it went.
    pub report: narrows_live::Report,
    /// Where the machine says what its parts take.
    pub energy: Option<Energy>,
    /// What happened when.
    pub timeline: Option<TimelineOutcome>,
    /// Whether calls were compared.
    pub check: Check,
}

/// Ranks that a picture of a deadlock shows. Our own choice.
const WAITING_SHOWN: usize = 60;

/// Who waits for whom in a deadlock (SVG): first those who wait for each other.
pub fn waits_picture(title: &str, waits: &[Waiting]) -> String {
    let index = |rank: u32| waits.iter().position(|wait| wait.rank == rank);
    let targets: Vec<Vec<usize>> = waits.iter().map(|wait| wait.whom.iter().filter_map(|&rank| index(rank)).collect()).collect();
    // Who can be reached from each, by one arrow or several.
    let reach = |from: usize| {
        let mut seen = vec![false; waits.len()];
        let mut next = targets[from].clone();
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                next.extend(&targets[node]);
            }
        }
        seen
    };
    let reached: Vec<Vec<bool>> = (0..waits.len()).map(reach).collect();
    let in_circle = |node: usize| reached[node][node];
    let mut shown: Vec<usize> = (0..waits.len()).collect();
    shown.sort_by_key(|&node| !in_circle(node));
    let left_out = shown.len().saturating_sub(WAITING_SHOWN);
    shown.truncate(WAITING_SHOWN);
    shown.sort_unstable();
    let place = |node: usize| shown.iter().position(|&other| other == node);
    let arrows = shown.iter().enumerate().flat_map(|(at, &node)| {
        let (reached, targets) = (&reached, &targets);
        let place = &place;
        targets[node].iter().filter_map(move |&to| Some((at, place(to)?, reached[to][node] && reached[node][to])))
    });
    let nodes = shown.iter().map(|&node| {
        let wait = &waits[node];
        let or = if wait.any && wait.whom.len() > 1 { ", from one of them" } else { "" };
        (wait.rank.to_string(), format!("rank {}: {}{or}", wait.rank, wait.call))
    });
    let more = if left_out > 0 { format!(" ({left_out} more ranks wait)") } else { String::new() };
    Graph { title: format!("{title}{more}"), arrows: arrows.collect(), nodes: nodes.collect() }.svg()
}

impl RunOutcome {
    fn network(&self) -> NetworkKind {
        self.machine.network_called(None).unwrap_or(&self.machine).network.kind
    }

    fn nodes_used(&self) -> usize {
        self.placement.iter().map(|id| id.node).collect::<BTreeSet<_>>().len()
    }

    /// MPI calls, and those of them that may block.
    fn calls(&self) -> (u64, u64) {
        let ranks = &self.report.ranks;
        (ranks.iter().map(|rank| rank.calls).sum(), ranks.iter().map(|rank| rank.blocking_calls).sum())
    }

    /// Of what was measured of computing: the share that had its like before, and how far that was from its medians on
    /// average, as a share of it.
    fn alike(&self) -> Option<(f64, f64)> {
        let sum = |part: fn(&RankTimes) -> SimTime| -> f64 { self.report.ranks.iter().map(|rank| part(rank).as_s_f64()).sum() };
        let (computing, alike, spread) = (sum(|rank| rank.computing), sum(|rank| rank.alike), sum(|rank| rank.spread));
        (alike > 0.0 && self.compute != Compute::None).then(|| ((alike / computing).min(1.0), spread / alike))
    }

    /// What was asked for.
    fn computed(&self) -> String {
        let scales: Vec<String> = self.scales.iter().map(Scale::to_string).collect();
        let from = if matches!(self.compute, Compute::File(_)) { "computing from" } else { "compute" };
        let scaled = if scales.is_empty() { String::new() } else { format!(" scaled by {}", scales.join(" ")) };
        format!("{from} {}{scaled}", self.compute)
    }

    /// Where computing times are from, in lines for people.
    fn computing(&self) -> Option<String> {
        let (share, spread) = self.alike().unwrap_or_default();
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match &self.compute {
            Compute::None => None,
            Compute::File(path) if share > ALL => Some(format!("computing: all from {}", path.display())),
            Compute::File(path) => Some(format!(
                "computing: {} from {}; the rest is not in it and was measured, so the digest will not repeat",
                percent(share),
                path.display()
            )),
            Compute::Pooled => Some(format!(
                "computing: {} took a median of what had come before between the same calls, on all ranks where theirs are near",
                percent(share)
            )),
            Compute::Sampled => {
                Some(format!("computing: {} took the median of what had come before between the same calls", percent(share)))
            }
            Compute::Instructions(given) => self.counted.map(|counted| counted.line(given.is_some())),
            Compute::Measured if share >= LIKELY && spread > NOISY => Some(format!(
                "computing between the same calls differs by {} on average: this computer is busy, or the work varies; `--compute sampled` \
                 takes medians",
                percent(spread)
            )),
            Compute::Measured => None,
            Compute::Cycles if self.uncounted == 0 => None,
            Compute::Cycles => Some(format!(
                "computing: {} threads do not run under qemu, because another program has started theirs; they took their CPU time",
                self.uncounted
            )),
        }
    }

    /// What this computer has decided about threads, a line each: the digest may not repeat.
    fn decided(&self) -> Vec<String> {
        const WHAT: [(u32, &str); 8] = [
            (decided::LOCK, "which thread takes a lock first is this computer's affair"),
            (decided::WORK, "a thread computes for more than 0.1 s between two calls"),
            (decided::LOOKS, "a thread takes a lock again and again until another one has come"),
            (decided::CLOCK, "a thread polls the clock beside others"),
            (decided::SLEEP, "a thread waits for something that is not simulated"),
            (decided::LATE, "a thread was slower on this computer than others waited for"),
            (decided::PORTALS, "several threads call Portals"),
            (
                decided::BESIDE,
                "threads that do not call MPI compute, and the file has no times of theirs; OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 \
                 keep libraries from that",
            ),
        ];
        // One caller decides about nothing that messages depend on, unless it waits for threads that compute.
        let counts = |bits: u32, bit: u32| bits & bit != 0 && (bits & decided::CALLERS != 0 || bit == decided::BESIDE);
        let of = |&(bit, what): &(u32, &str)| {
            let ranks: Vec<_> = self.report.decided.iter().filter(|(_, bits)| counts(*bits, bit)).map(|(rank, _)| *rank).collect();
            let first = ranks.first()?;
            let more = if ranks.len() > 1 { format!(" and {} more", ranks.len() - 1) } else { String::new() };
            Some(format!("the digest may not repeat: {what} (rank {first}{more})"))
        };
        WHAT.iter().filter_map(of).collect()
    }

    /// Why another run may have another digest, for scripts.
    fn may_not_repeat(&self) -> Vec<String> {
        let share = || self.alike().map_or(0.0, |(share, _)| share);
        let is_measured = match self.compute {
            Compute::None => false,
            Compute::File(_) => share() <= ALL,
            Compute::Cycles => self.uncounted != 0,
            _ => true,
        };
        let computing = is_measured.then(|| "computing takes the time that it takes on this computer".to_owned());
        computing.into_iter().chain(self.places_differ()).chain(self.decided()).collect()
    }

    /// Open MPI's own allocations have other lengths in each run, and those of the program lie between them.
    fn places_differ(&self) -> Option<String> {
        let caches = || self.placement.iter().any(|&id| self.machine.processor(id).1.core.core().is_some_and(|core| core.has_caches()));
        (self.compute == Compute::Cycles && self.mpi.starts_with("Open MPI") && caches()).then(|| {
            "the digest may not repeat: what programs under Open MPI allocate has other places in lines of the caches in each run; \
             MPICH, or --set node.core.l1=none"
                .to_owned()
        })
    }

    fn crossings_per_call(&self) -> Option<f64> {
        let (_, blocking) = self.calls();
        (blocking > 0).then(|| self.report.crossings as f64 / blocking as f64)
    }

    /// The exit code: that of what went wrong, or the launcher's.
    pub fn exit_code(&self) -> i32 {
        match self.report.failure.as_ref().map_or(self.report.exit_code, |failure| failure.exit_code) {
            0 if self.check.is_strict() && self.report.checked.findings.iter().any(narrows_live::Finding::is_error) => exit::FOUND.into(),
            0 if !self.report.started => exit::NO.into(),
            code => code,
        }
    }

    /// Why the file of its timeline is not written, if it is not.
    pub fn unwritten(&self) -> Option<&OutputError> {
        self.timeline.as_ref().and_then(TimelineOutcome::unwritten)
    }

    /// What does not fit in the program's calls, in lines for people.
    fn findings(&self) -> Vec<String> {
        if self.check == Check::Off || !self.report.started {
            return Vec::new();
        }
        if self.report.checked.findings.is_empty() {
            // Calls that wait for each other for ever do not fit, and have been named.
            if !self.report.waits.is_empty() {
                return Vec::new();
            }
            let broken_off = self.report.failure.is_some();
            return vec![format!("check: {}the MPI calls fit each other", if broken_off { "up to there " } else { "" })];
        }
        self.report.checked.findings.iter().map(|finding| format!("check: {}", finding.text)).collect()
    }

    /// All numbers, as `summary.json` has them. Times in seconds, sizes in bytes.
    pub fn summary(&self) -> Value {
        let report = &self.report;
        let ranks: Vec<_> = report
            .ranks
            .iter()
            .enumerate()
            .map(|(rank, times)| {
                json!({
                    "rank": rank,
                    "node": times.node,
                    "processor": self.machine.processor(self.placement[rank]).0,
                    "computing_s": times.computing.as_s_f64(),
                    "mpi_s": times.mpi.as_s_f64(),
                    "waiting_s": times.waiting.as_s_f64(),
                    "finished_s": times.finished.as_s_f64(),
                    "mpi_calls": times.calls,
                })
            })
            .collect();
        let mut summary = json!({
            "narrows": env!("CARGO_PKG_VERSION"),
            "schema": narrows_results::SCHEMA,
            "program": self.program,
            "simulated_s": report.simulated.as_s_f64(),
            "wall_s": self.wall.as_secs_f64(),
            "ranks": self.placement.len(),
            "nodes": self.machine.node.count,
            "nodes_used": self.nodes_used(),
            "mpi": self.mpi,
            "network": self.network().name(),
            "compute": self.compute.to_string(),
            "compute_scale": self.scales.iter().map(|scale| scale.factor).collect::<Vec<_>>(),
            "compute_alike": self.alike().map(|(share, _)| share),
            "compute_spread": self.alike().map(|(_, spread)| spread),
            "seed": self.seed,
            "messages": report.totals.messages,
            "bytes": report.totals.bytes,
            "packets": report.totals.packets,
            "packet_hops": report.totals.packet_hops,
            "retries": report.totals.retries,
            "lost_packets": report.totals.lost_packets,
            "retransmissions": report.totals.retransmissions,
            "events": report.totals.events,
            "windows": report.windows,
            "apart": report.apart,
            "crossings": report.crossings,
            "mpi_calls": self.calls().0,
            "blocking_mpi_calls": self.calls().1,
            "crossings_per_blocking_call": self.crossings_per_call(),
            "digest": format!("{:016x}", report.digest),
            "exit_code": self.exit_code(),
            "failure": report.failure.as_ref().map(|failure| failure.message.clone()),
            "findings": (self.check != Check::Off).then(|| {
                let findings = self.report.checked.findings.iter().map(|finding| {
                    json!({
                        "kind": finding.kind.name(),
                        "erroneous": finding.kind.is_error(),
                        "in_library": finding.in_library,
                        "section": finding.kind.section(),
                        "text": finding.text,
                        "ranks": finding.ranks,
                        "calls": finding.calls,
                    })
                });
                findings.collect::<Vec<_>>()
            }),
            "waits": (!report.waits.is_empty()).then(|| {
                let wait = |wait: &Waiting| json!({ "rank": wait.rank, "call": wait.call, "whom": wait.whom, "any": wait.any });
                report.waits.iter().map(wait).collect::<Vec<_>>()
            }),
            "choices": (self.check != Check::Off).then(|| {
                let of = |(rank, sent): &(u32, u64)| json!({ "rank": rank, "sent_ps": sent });
                let choice = |choice: &narrows_live::Choice| {
                    json!({ "rank": choice.rank, "got": of(&choice.got), "others": choice.others.iter().map(of).collect::<Vec<_>>() })
                };
                self.report.checked.choices.iter().map(choice).collect::<Vec<_>>()
            }),
            "background": (!report.background.is_empty()).then(|| background::summary(&report.background)),
            "energy": self.energy.as_ref().map(Energy::summary),
            "matching": (self.check != Check::Off).then(|| format!("{:016x}", self.report.checked.matching)),
            "machine": self.machine.to_json(),
            "timeline": self.timeline.as_ref().map(TimelineOutcome::summary),
            "per_rank": ranks,
        });
        if let Some(summary) = summary.as_object_mut() {
            let alone = |alone: &Alone| json!({ "file": alone.path, "factor": alone.factor, "alone_s": alone.alone_s, "together_s": alone.together_s });
            let counted = |counted: Counted| json!({ "per_s": counted.rate, "measured_per_s": counted.own_rate, "uncounted_threads": counted.uncounted });
            summary.insert("compute_alone".into(), json!(self.alone.as_ref().map(alone)));
            summary.insert("compute_instructions".into(), json!(self.counted.map(counted)));
            summary.insert("may_not_repeat".into(), json!(self.may_not_repeat()));
            summary.insert("crc_errors".into(), json!(report.totals.crc_errors));
            summary.insert("missed_errors".into(), json!(report.totals.missed_errors));
            if let Some(handlers) = &report.handlers {
                summary.insert("handlers".into(), handlers::summary(handlers, &self.machine.nic.spin.rules));
            }
            summary.insert("refused_accesses".into(), json!(report.totals.refused_accesses));
            summary.insert("messages_by".into(), self.ways.summary(&report.sent, &report.rails, &report.passed));
        }
        summary
    }

    /// Where the time of each rank went.
    pub fn ranks_table(&self) -> Table {
        let ranks = &self.report.ranks;
        let processors = self.placement.iter().take(ranks.len()).map(|&id| self.machine.processor(id).0);
        let seconds = |part: fn(&RankTimes) -> SimTime| Column::Number(ranks.iter().map(|rank| Some(part(rank).as_s_f64())).collect());
        let columns = vec![
            ("rank", Column::Integer((0..ranks.len() as i64).collect())),
            ("node", Column::Integer(ranks.iter().map(|rank| i64::from(rank.node)).collect())),
            ("processor", Column::Text(processors.map(str::to_owned).collect())),
            ("computing_s", seconds(|rank| rank.computing)),
            ("mpi_s", seconds(|rank| rank.mpi)),
            ("waiting_s", seconds(|rank| rank.waiting)),
            ("finished_s", seconds(|rank| rank.finished)),
            ("mpi_calls", Column::Integer(ranks.iter().map(|rank| rank.calls as i64).collect())),
        ];
        Table::new(columns.into_iter().chain(self.energy.iter().map(Energy::column)).collect())
    }

    /// Time by MPI function and call site.
    fn functions_table(&self) -> Table {
        let all = &self.report.functions;
        let integer = |of: fn(&Function) -> u64| Column::Integer(all.iter().map(|one| of(one) as i64).collect());
        let seconds = |of: fn(&Function) -> SimTime| Column::Number(all.iter().map(|one| Some(of(one).as_s_f64())).collect());
        Table::new(vec![
            ("function", Column::Text(all.iter().map(|one| one.name.to_owned()).collect())),
            ("site", Column::Text(all.iter().map(|one| one.site.clone()).collect())),
            ("ranks", integer(|one| u64::from(one.ranks))),
            ("calls", integer(|one| one.calls)),
            ("time_s", seconds(|one| one.time)),
            ("waited_s", seconds(|one| one.waited)),
            ("longest_s", seconds(|one| one.longest)),
        ])
    }

    /// The tables by name.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut tables = vec![("ranks", self.ranks_table())];
        if !self.report.functions.is_empty() {
            tables.push(("functions", self.functions_table()));
        }
        tables.extend(self.timeline.iter().flat_map(TimelineOutcome::tables));
        tables
    }

    /// The pictures by name (SVG).
    fn pictures(&self, data: &Data) -> Vec<(String, String)> {
        const PARTS: [(&str, &str); 3] = [("computing", "computing_s"), ("MPI software", "mpi_s"), ("waiting", "waiting_s")];
        let ranks = data.table("ranks").map(|ranks| (String::from("ranks"), report::ranks_picture(ranks, &PARTS)));
        let waits = &self.report.waits;
        let deadlock = (!waits.is_empty()).then(|| (String::from("deadlock"), waits_picture("Who waits for whom", waits)));
        ranks.into_iter().chain(self.timeline.iter().flat_map(TimelineOutcome::pictures)).chain(deadlock).collect()
    }

    /// Writes `summary.json`, the resolved machine, the pictures, the tables, a page with everything, and the computing
    /// times that were kept into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, out: &Path) -> Result<(), TableError> {
        let summary = self.summary();
        write(&out.join("summary.json"), format!("{summary:#}\n"))?;
        write(&out.join("machine.toml"), self.machine.to_used_toml())?;
        let origin = Origin::here(Some(&self.machine.name), Some(self.seed));
        let tables = self.tables();
        // Those of the ranks are in the summary.
        for (name, table) in tables.iter().filter(|(name, _)| *name != "ranks") {
            table.write(&out.join(name).with_extension("parquet"))?;
        }
        let data = Data::from(tables);
        let pictures = self.pictures(&data);
        for (name, picture) in &pictures {
            write(&out.join(name).with_extension("svg"), origin.sign(picture))?;
        }
        let text: Vec<String> = [self.lines(), self.ways.lines(), self.more()].concat();
        let text = text.join("\n");
        let report = Report { kind: "run", title: None, summary: &summary, data: &data, pictures: &pictures, text: &text, origin: &origin };
        write(&out.join("report.html"), report.html())?;
        let computing = self.computing.as_ref().filter(|_| self.report.failure.is_none());
        Ok(computing.map_or(Ok(()), |computing| computing.save(&out.join(Computing::NAME)))?)
    }

    /// How messages moved, and what the simulator did, in lines for people who want to know more.
    pub fn more(&self) -> Vec<String> {
        let narrows_live::Report { started: true, sent, rails, passed, totals, crossings, .. } = &self.report else { return Vec::new() };
        let per_call = self.crossings_per_call().map_or(String::new(), |ratio| format!(", {ratio:.2} per blocking MPI call"));
        let work = format!("{} events, {crossings} hand-overs to ranks{per_call}", totals.events);
        self.ways.used(sent, rails).into_iter().chain(self.ways.passed(passed)).chain([work]).collect()
    }

    /// How it went, in lines for people.
    pub fn lines(&self) -> Vec<String> {
        let report = &self.report;
        let timeline = self.timeline.as_ref().filter(|_| report.started).map(TimelineOutcome::lines).unwrap_or_default();
        if let Some(failure) = &report.failure {
            return [vec![failure.message.clone()], self.findings(), timeline].concat();
        }
        if !report.started {
            return vec![if report.exit_code == 0 {
                String::from(
                    "the program ended without calling MPI_Init (or PtlInit): nothing was simulated; a script that starts it must leave \
                     LD_PRELOAD and NARROWS_CHANNEL in its environment, and start no launcher of its own",
                )
            } else {
                format!(
                    "{} ended with code {} before all ranks had left MPI_Init; its messages are above, `-v` shows the command; if it \
                     could not open the libfabric provider `narrows`, FI_LOG_LEVEL=warn makes libfabric say why",
                    self.mpi, report.exit_code
                )
            }];
        }
        let mut lines = Vec::new();
        let mut line = |content: String| lines.push(content);
        line(format!(
            "{} ranks{} on {} of {} nodes of {} ({} network, {}), {}",
            self.placement.len(),
            processors::line(&processors::counts(&self.machine, &self.placement)).map_or(String::new(), |line| format!(" ({line})")),
            self.nodes_used(),
            self.machine.node.count,
            self.machine.name,
            self.network().name(),
            self.computed(),
            self.mpi,
        ));
        line(format!("simulated time {} (wall time {:.2} s)", report.simulated, self.wall.as_secs_f64()));
        let sum = |part: fn(&narrows_live::RankTimes) -> SimTime| -> f64 { report.ranks.iter().map(|rank| part(rank).as_s_f64()).sum() };
        let (computing, mpi, waiting) = (sum(|r| r.computing), sum(|r| r.mpi), sum(|r| r.waiting));
        let total = (computing + mpi + waiting).max(f64::MIN_POSITIVE);
        line(format!(
            "where the time went: computing {:.1} %, MPI software {:.1} %, waiting {:.1} %",
            100.0 * computing / total,
            100.0 * mpi / total,
            100.0 * waiting / total
        ));
        self.energy.iter().map(Energy::line).for_each(&mut line);
        if let Some((rank, slowest)) = report.ranks.iter().enumerate().max_by_key(|(_, rank)| rank.computing) {
            let least = report.ranks.iter().map(|rank| rank.computing).min().unwrap_or_default();
            if slowest.computing > SimTime::ZERO {
                line(format!("computing per rank: {least} to {} (rank {rank})", slowest.computing));
            }
        }
        self.computing().into_iter().for_each(&mut line);
        line(format!(
            "{} messages, {}, {} packets; digest {:016x}",
            report.totals.messages,
            show::size(report.totals.bytes),
            report.totals.packets,
            report.digest
        ));
        self.decided().into_iter().for_each(&mut line);
        if report.totals.retries > 0 {
            line(format!("{} messages found no room for unexpected messages and were sent again", report.totals.retries));
        }
        let rules = &self.machine.nic.spin.rules;
        report.handlers.iter().flat_map(|report| handlers::lines(report, rules)).for_each(&mut line);
        lines.extend(self.findings());
        lines.extend(timeline);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_ranks_is_red() {
        let wait = |rank: u32, whom: Vec<u32>| Waiting { rank, call: format!("MPI_Send to {whom:?}"), whom, any: false };
        let svg = waits_picture("w", &[wait(0, vec![1]), wait(1, vec![0]), wait(2, vec![0])]);
        assert_eq!((svg.matches("url(#circle)").count(), svg.matches("url(#plain)").count()), (2, 1));
        // More than fit: those in the circle are there.
        let many: Vec<Waiting> = (0..200).map(|rank| wait(rank, vec![if rank < 198 { 199 } else { 397 - rank }])).collect();
        let svg = waits_picture("w", &many);
        assert!(svg.contains("rank 198:") && svg.contains("140 more ranks") && svg.matches("url(#circle)").count() == 2);
    }
}
