//! Reports: one page of a result, made of its summary, its tables and its pictures, for the command line and for
//! Python.
//!
//! What a page shows is in `summary.json` and the tables: whoever has those gets the same page.

pub mod data;
mod explored;
mod parts;
pub mod path;
mod timeline;
pub mod words;

pub use data::{Columns, Data};
pub use explored::explored;
pub use parts::table;

use narrows_results::{Bars, Origin, Page, Quantity, ROLES};
use narrows_units::show;
use serde_json::Value;
use words::{digits, percent, time, whole};

/// A result, and what is said of it.
pub struct Report<'a> {
    /// `run`, `replay`, `traffic` or `analysis`.
    pub kind: &'a str,
    /// In place of one that says what it is of.
    pub title: Option<&'a str>,
    /// As summary.json has it.
    pub summary: &'a Value,
    /// By name.
    pub data: &'a Data,
    /// Names and SVG.
    pub pictures: &'a [(String, String)],
    /// What the command line prints.
    pub text: &'a str,
    /// Where it comes from.
    pub origin: &'a Origin,
}

/// What pictures show, in the order in which reports have them.
const CAPTIONS: [(&str, &str); 23] = [
    ("ranks", "Where each rank's simulated time went"),
    ("power", "What the machine takes, at each time"),
    ("deadlock", "Who waits for whom"),
    ("latency", "How long packets and messages take"),
    ("throughput", "How much arrives"),
    ("fct", "How long messages take"),
    ("fct-over-time", "Completion times of the messages that end in a period"),
    ("series", "What arrives over time"),
    ("queues", "Packets that wait in switches"),
    ("stages", "Packets that wait in switches, by where they go"),
    ("switches", "Packets that wait in each switch"),
    ("rates", "What each flow gets"),
    ("sizes", "Messages, by powers of two of their size"),
    ("size-shares", "The share of messages, and of bytes, in messages up to a size"),
    ("neighbours", "Ranks by the number of ranks that they send to"),
    ("operations", "What starts when, on an ideal machine"),
    ("time", "Completion times"),
    ("rate", "Rates"),
    ("published", "Published and simulated"),
    ("bits", "Errors"),
    ("frames", "Frames"),
    ("spin", "Handlers"),
    ("topology", "The network"),
];

fn caption(name: &str) -> &str {
    CAPTIONS.iter().find(|(own, _)| *own == name).map_or(name, |(_, caption)| caption)
}

impl Report<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = Page::default();
        if let Some(failure) = self.summary["failure"].as_str() {
            page.alarm(failure);
        }
        for finding in self.summary["findings"].as_array().into_iter().flatten() {
            page.alarm(finding["text"].as_str().unwrap_or_default());
        }
        page.facts(&self.facts());
        match self.kind {
            "run" => self.run(&mut page),
            "replay" => self.replay(&mut page),
            "traffic" => self.traffic(&mut page),
            _ => self.analysis(&mut page),
        }
        self.rest(&mut page);
        let title = self.title.map_or_else(|| self.default_title(), str::to_owned);
        page.finish(&title, self.origin)
    }

    fn word(&self, key: &str) -> Option<String> {
        let value = &self.summary[key];
        (!value.is_null()).then(|| words::value(key, value))
    }

    fn machine_name(&self) -> &str {
        self.summary["machine"]["machine"]["name"].as_str().unwrap_or("bxi-v2")
    }

    /// The command line of the program, or the names of traces.
    fn subject(&self) -> String {
        let words = |key: &str| {
            let words = self.summary[key].as_array()?.iter().map(|word| word.as_str().unwrap_or_default());
            Some(words.collect::<Vec<_>>().join(" "))
        };
        let text = |key: &str| self.summary[key].as_str().map(str::to_owned);
        words("program").or_else(|| words("traces")).or_else(|| text("pattern")).or_else(|| text("trace")).unwrap_or_default()
    }

    fn default_title(&self) -> String {
        let kind = match self.kind {
            "run" => "Live run",
            "replay" => "Replay",
            "traffic" => "Synthetic traffic",
            _ => "Trace",
        };
        format!("{kind}: {}", self.subject())
    }

    /// What one wants to know first.
    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
        fact("Simulated time", self.word("simulated_s"));
        fact("Time on an ideal machine", self.word("ideal_finish_s"));
        let ranks = self.word("ranks");
        match (self.word("nodes_used"), self.word("nodes")) {
            (Some(used), Some(all)) => {
                fact("Ranks", ranks);
                fact("Nodes", Some(format!("{used} of {all}")));
            }
            (_, nodes) => {
                fact("Ranks", ranks);
                fact("Nodes", nodes);
            }
        }
        if self.summary["machine"].is_object() {
            let network = self.word("network").map_or_else(String::new, |network| format!(", {network} network"));
            fact("Machine", Some(format!("{}{network}", self.machine_name())));
        }
        fact("MPI", self.word("mpi"));
        fact("Computing times", self.word("compute"));
        let payload = self.summary["bytes"].as_u64().map_or_else(String::new, |bytes| format!(", {}", show::size(bytes)));
        fact("Messages", self.word("messages").map(|messages| format!("{messages}{payload}")));
        let energy = self.summary["energy"]["total_j"].as_f64();
        fact("Energy", energy.map(|joules| format!("{} J", digits(joules))));
        fact("Digest", self.word("digest"));
        facts
    }

    /// Pictures that are there, in the order of [`CAPTIONS`].
    fn all_pictures(&self, page: &mut Page, but: &[&str]) {
        let place = |name: &str| CAPTIONS.iter().position(|(own, _)| *own == name).unwrap_or(CAPTIONS.len());
        let mut found: Vec<_> = self.pictures.iter().filter(|(name, _)| !but.contains(&name.as_str())).collect();
        found.sort_by_key(|(name, _)| place(name));
        let found: Vec<(&str, &str)> = found.iter().map(|(name, svg)| (caption(name), svg.as_str())).collect();
        if !found.is_empty() {
            page.pictures(&found);
        }
    }

    /// Of a live run or a replay: computing, MPI software, waiting.
    fn shares(&self, page: &mut Page, parts: &[(&str, f64)]) {
        let total: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        if total <= 0.0 {
            return;
        }
        let colour = |name: &str| ROLES.iter().find(|(role, _)| *role == name).map_or("#888", |(_, colour)| colour);
        let bars: String = parts
            .iter()
            .map(|(name, seconds)| format!("<div style=\"width:{:.2}%;background:{}\"></div>", 100.0 * seconds / total, colour(name)))
            .collect();
        let names: String = parts
            .iter()
            .map(|(name, seconds)| {
                format!(
                    "<span class=\"name\"><span class=\"key\" style=\"background:{}\"></span>{name} {}</span> ",
                    colour(name),
                    percent(seconds / total)
                )
            })
            .collect();
        page.html(&format!("<div class=\"shares\">{bars}</div><p class=\"legend\">{names}</p>\n"));
    }

    /// Sums over the ranks, by column.
    fn sum(&self, column: &str) -> f64 {
        self.data.table("ranks").map_or(0.0, |ranks| (0..ranks.rows()).filter_map(|row| ranks.number(column, row)).sum())
    }

    /// How uneven the ranks compute.
    fn imbalance(&self, page: &mut Page) {
        let Some(ranks) = self.data.table("ranks") else { return };
        let computing: Vec<f64> = (0..ranks.rows()).filter_map(|row| ranks.number("computing_s", row)).collect();
        let most = computing.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
        let mean = computing.iter().sum::<f64>() / computing.len().max(1) as f64;
        if let Some((rank, most)) = most.filter(|(_, most)| *most > 1.05 * mean && mean > 0.0) {
            page.note(&format!(
                "Rank {rank} computes longest: {}, {} more than the mean of all ranks. The others wait for it.",
                time(most),
                percent(most / mean - 1.0)
            ));
        }
    }

    fn run(&self, page: &mut Page) {
        page.heading("Where the time went");
        let parts = [("computing", self.sum("computing_s")), ("MPI software", self.sum("mpi_s")), ("waiting", self.sum("waiting_s"))];
        self.shares(page, &parts);
        self.imbalance(page);
        self.all_pictures(page, &[]);
        let total = parts.iter().map(|(_, seconds)| seconds).sum();
        if !parts::functions(page, self.data, total, true) {
            page.heading("Time per MPI function");
            page.note("This result has no times of calls: narrows run --out DIR keeps them.");
        }
        self.what_binds(page, true);
        let program = self.subject();
        let example = format!(
            "narrows run -n {} --machine {} --timeline run.pftrace --out results/ -- {program}",
            self.summary["ranks"],
            self.machine_name()
        );
        self.who_to_whom(page, &example);
        parts::ways(page, self.summary);
        parts::links(page, self.data);
        parts::energy(page, self.summary);
        timeline::section(page, self.summary, self.data, true);
    }

    fn replay(&self, page: &mut Page) {
        if let Some(applications) = self.data.table("applications") {
            page.heading("Applications");
            applications_table(page, applications);
        }
        let parts = [("computing", self.sum("computing_s")), ("in MPI", self.sum("in_mpi_s"))];
        if parts.iter().any(|(_, seconds)| *seconds > 0.0) {
            page.heading("Where the time went");
            self.shares(page, &parts);
            page.note("In MPI: at work or waiting. A replay knows no difference between the two.");
            self.imbalance(page);
        }
        self.all_pictures(page, &[]);
        parts::functions(page, self.data, parts.iter().map(|(_, seconds)| seconds).sum(), false);
        self.what_binds(page, false);
        let example =
            format!("narrows replay {} --machine {} --timeline replay.pftrace --out results/", self.subject(), self.machine_name());
        self.who_to_whom(page, &example);
        parts::ways(page, self.summary);
        parts::links(page, self.data);
        parts::energy(page, self.summary);
        timeline::section(page, self.summary, self.data, false);
    }

    /// The critical path, and who tells which constant of the machine matters.
    fn what_binds(&self, page: &mut Page, live: bool) {
        page.heading("What binds");
        if path::lacks(self.summary, self.data).is_none() {
            let path = path::find(self.data, live);
            let of = |what: &str| path.iter().filter(|part| part.what == what).map(|part| part.end - part.begin).sum::<f64>();
            let parts = [("computing", of("computing")), ("MPI software", of("MPI software")), ("message", of("message"))];
            page.note("The critical path, which is what the end of the run had to wait for, consists of:");
            self.shares(page, &parts);
            let hops = path.iter().filter(|part| part.what == "message").count();
            let mut on: Vec<(i64, f64)> = Vec::new();
            for part in path.iter().filter(|part| part.rank == part.to_rank) {
                match on.iter_mut().find(|(rank, _)| *rank == part.rank) {
                    Some((_, sum)) => *sum += part.end - part.begin,
                    None => on.push((part.rank, part.end - part.begin)),
                }
            }
            on.sort_by(|one, other| other.1.total_cmp(&one.1));
            if let Some((rank, most)) = on.first() {
                page.note(&format!(
                    "It goes over {} messages and {} ranks; most of it, {}, is on rank {rank}.",
                    whole(hops as i64),
                    whole(on.len() as i64),
                    time(*most)
                ));
            }
        }
        let machine = self.machine_name();
        let command = match live {
            true => format!("narrows sensitivity -n {} --machine {machine} -- {}", self.summary["ranks"], self.subject()),
            false => {
                let traces = self.summary["traces"].as_array().into_iter().flatten().filter_map(Value::as_str);
                format!(
                    "narrows sensitivity {} --machine {machine}",
                    traces.map(|trace| format!("--replay {trace}")).collect::<Vec<_>>().join(" ")
                )
            }
        };
        if self.summary["machine"].is_object() {
            page.note("Which constant of the machine limits it (latency, link, PCIe, NIC, software), this command tells:");
            page.command(&command);
        }
    }

    fn who_to_whom(&self, page: &mut Page, example: &str) {
        page.heading("Who sends to whom");
        match parts::matrix(self.data) {
            Some(svg) => page.pictures(&[("Payload on the network from rank to rank; no colour: nothing", svg.as_str())]),
            None if self.summary["machine"].is_object() => {
                page.note("A timeline adds the communication matrix, the critical path and every message:");
                page.command(example);
            }
            None => page.note("A replay under LogGP has no messages on a network."),
        }
    }

    fn traffic(&self, page: &mut Page) {
        if let Some(points) = self.data.table("points") {
            self.saturation(page, points);
        }
        page.heading("Curves");
        self.all_pictures(page, &[]);
        if let Some(points) = self.data.table("points") {
            page.heading("All points");
            page.note("Offered and accepted are fractions of the bandwidth of a node's link. A saturated point has no times.");
            points_table(page, points);
        }
        parts::links(page, self.data);
    }

    /// From where on more is offered than arrives.
    fn saturation(&self, page: &mut Page, points: &Columns) {
        let saturated = (0..points.rows()).filter(|&row| points.integer("saturated", row) == Some(1));
        let most = (0..points.rows()).filter_map(|row| points.number("accepted", row)).fold(0.0, f64::max);
        match saturated.filter_map(|row| points.number("load", row)).reduce(f64::min) {
            Some(load) => page.note(&format!(
                "The network is saturated from load {} on; {} of the injection bandwidth arrives at most.",
                digits(load),
                percent(most)
            )),
            None => page.note(&format!("No point is saturated; {} of the injection bandwidth arrives at most.", percent(most))),
        }
        let short = (0..points.rows()).filter(|&row| points.integer("too_short", row) == Some(1)).count();
        if short > 0 {
            page.note(&format!("{short} points are too short to tell whether the network is saturated: give a longer --time."));
        }
    }

    fn analysis(&self, page: &mut Page) {
        if let Some(problems) = self.summary["problems"].as_u64().filter(|&problems| problems > 0) {
            page.alarm(&format!("The trace is not complete: {problems} problems."));
        }
        page.heading("Who sends to whom, and when");
        let matrix = parts::matrix(self.data);
        let mut all: Vec<(String, String)> =
            matrix.map(|svg| (String::from("Who sends to whom; no colour: nothing"), svg)).into_iter().collect();
        all.extend(self.pictures.iter().map(|(name, svg)| (caption(name).to_owned(), svg.clone())));
        page.pictures(&all.iter().map(|(name, svg)| (name.as_str(), svg.as_str())).collect::<Vec<_>>());
        if self.pictures.iter().any(|(name, _)| name == "ranks") {
            page.note("On an ideal machine what is not computing is waiting for others, whatever the network.");
        }
        if let Some(collectives) = self.data.table("collectives") {
            page.heading("Collectives");
            page.note("By operation, size of the communicator and bytes of a member's buffer.");
            parts::table(page, collectives);
        }
    }

    /// Everything else, behind clicks.
    fn rest(&self, page: &mut Page) {
        page.heading("More");
        let mut numbers = Page::default();
        let rows: Vec<Vec<String>> = words::numbers(self.summary).into_iter().map(|(name, value)| vec![name, value]).collect();
        numbers.table(&["what", "value"], &rows, 1);
        page.folded("All numbers", &numbers);
        if !self.text.is_empty() {
            page.details("What the command line prints", self.text);
        }
        let machine = &self.summary["machine"];
        if machine.is_object() {
            let described = machine["machine"]["description"].as_str().unwrap_or(self.machine_name());
            page.details(&format!("The machine: {described}"), &format!("{machine:#}"));
        }
    }
}

/// The traces of a replay, in words.
fn applications_table(page: &mut Page, table: &Columns) {
    let rows = (0..table.rows()).map(|row| {
        let whole_of = |name: &str| whole(table.integer(name, row).unwrap_or(0));
        let ns = |name: &str| table.number(name, row).map_or_else(|| String::from("-"), |value| time(value * 1e-9));
        let unfinished = table.integer("unfinished_ranks", row).unwrap_or(0);
        let end = time(table.number("finish_s", row).unwrap_or(0.0));
        let end = if unfinished > 0 { format!("{end}, {unfinished} ranks not finished") } else { end };
        let bytes = show::size(table.integer("bytes", row).unwrap_or(0) as u64);
        let first = vec![table.text("application", row).to_owned(), whole_of("ranks"), end, whole_of("messages"), bytes];
        [first, ["fct_mean_ns", "fct_p50_ns", "fct_p99_ns", "fct_max_ns"].map(ns).to_vec()].concat()
    });
    let head = ["trace", "ranks", "end", "messages", "payload", "message time", "median", "99 %", "longest"];
    page.table(&head, &rows.collect::<Vec<_>>(), 1);
}

/// The points of traffic, in words.
fn points_table(page: &mut Page, points: &Columns) {
    let classes = (1..points.rows()).any(|row| points.text("class", row) != points.text("class", 0));
    let number = |name: &str, row: usize| points.number(name, row).map_or_else(|| String::from("-"), digits);
    let ns = |name: &str, row: usize| points.number(name, row).map_or_else(|| String::from("-"), |value| time(value * 1e-9));
    let state = |row: usize| match () {
        () if points.integer("partial", row) == Some(1) => "broken off",
        () if points.integer("too_short", row) == Some(1) => "too short",
        () if points.integer("saturated", row) == Some(1) => "saturated",
        () if points.integer("steady", row) == Some(0) => "not steady",
        () => "steady",
    };
    let rows = (0..points.rows()).map(|row| {
        let mut cells = vec![number("load", row)];
        if classes {
            cells.push(points.text("class", row).to_owned());
        }
        cells.extend([number("offered", row), number("accepted", row)]);
        cells.extend(["latency_mean_ns", "latency_p99_ns", "fct_mean_ns", "fct_p99_ns"].map(|name| ns(name, row)));
        cells.extend([whole(points.integer("messages", row).unwrap_or(0)), state(row).to_owned()]);
        cells
    });
    let mut head = vec!["load"];
    if classes {
        head.push("class");
    }
    head.extend(["offered", "accepted", "packet latency", "99 %", "message time", "99 %", "messages", "state"]);
    page.table(&head, &rows.collect::<Vec<_>>(), 1);
}

/// Where each rank's time went (SVG): names of parts and columns of the table `ranks`, in seconds.
pub fn ranks_picture(ranks: &Columns, parts: &[(&str, &str)]) -> String {
    /// Bars at most; more ranks share one, with their mean. Our own choice.
    const BARS: usize = 256;
    let group = ranks.rows().div_ceil(BARS).max(1);
    let starts: Vec<usize> = (0..ranks.rows()).step_by(group).collect();
    let mean = |column: &str, start: usize| {
        let rows = start..(start + group).min(ranks.rows());
        let count = rows.len().max(1) as f64;
        rows.filter_map(|row| ranks.number(column, row)).sum::<f64>() / count
    };
    let series = parts.iter().map(|(name, column)| ((*name).to_owned(), starts.iter().map(|&start| mean(column, start)).collect()));
    Bars {
        title: String::from("Where each rank's simulated time went"),
        x: if group == 1 { String::from("rank") } else { format!("rank (means of {group})") },
        y: String::from("simulated time"),
        y_in: Quantity::Seconds,
        labels: starts.iter().map(usize::to_string).collect(),
        series: series.collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests;
