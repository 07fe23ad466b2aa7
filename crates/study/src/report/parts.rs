//! Parts of reports that several kinds of study have.

use super::data::{Columns, Data};
use super::words::{digits, percent, time, whole};
use narrows_results::{HeatMap, Page, Quantity};
use narrows_timeline::computes;
use narrows_units::show;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of a table on a page at most; the files have all. Our own choice.
pub const ROWS: usize = 40;
/// Rows and columns of the picture of who sends to whom at most; more ranks share a cell.
const CELLS: usize = 128;
/// Links that are named.
const LINKS: usize = 12;

/// What ranks spent in calls of one function, or at one place of the program.
#[derive(Clone, Debug, Default)]
struct Spent {
    calls: i64,
    ranks: BTreeSet<i64>,
    of_ranks: i64,
    time: f64,
    waited: f64,
    longest: f64,
}

impl Spent {
    fn add(&mut self, other: &Spent) {
        self.calls += other.calls;
        self.ranks.extend(&other.ranks);
        self.of_ranks = self.of_ranks.max(other.of_ranks);
        self.time += other.time;
        self.waited += other.waited;
        self.longest = self.longest.max(other.longest);
    }

    fn ranks(&self) -> i64 {
        self.of_ranks.max(self.ranks.len() as i64)
    }
}

/// By function and place.
fn spent(data: &Data) -> BTreeMap<(String, String), Spent> {
    let mut all: BTreeMap<(String, String), Spent> = BTreeMap::new();
    if let Some(table) = data.table("functions") {
        for row in 0..table.rows() {
            let number = |name| table.number(name, row).unwrap_or(0.0);
            let one = Spent {
                calls: table.integer("calls", row).unwrap_or(0),
                ranks: BTreeSet::new(),
                of_ranks: table.integer("ranks", row).unwrap_or(0),
                time: number("time_s"),
                waited: number("waited_s"),
                longest: number("longest_s"),
            };
            all.entry((table.text("function", row).to_owned(), table.text("site", row).to_owned())).or_default().add(&one);
        }
    } else if let Some(table) = data.table("calls") {
        for row in (0..table.rows()).filter(|&row| !computes(table.text("call", row))) {
            let number = |name| table.number(name, row).unwrap_or(0.0);
            let time = number("end_s") - number("begin_s");
            let ranks = table.integer("rank", row).into_iter().collect();
            let one = Spent { calls: 1, ranks, of_ranks: 0, time, waited: number("waited_s"), longest: time };
            all.entry((table.text("call", row).to_owned(), String::new())).or_default().add(&one);
        }
    }
    all
}

/// Time per function and call site; `total`: the time of all ranks together; `waits`: calls follow each other, and
/// their waiting was measured. False where nothing is known of calls.
pub fn functions(page: &mut Page, data: &Data, total: f64, waits: bool) -> bool {
    let all = spent(data);
    let mut by_function: BTreeMap<String, Spent> = BTreeMap::new();
    all.iter().for_each(|((function, _), one)| by_function.entry(function.clone()).or_default().add(one));
    if by_function.is_empty() {
        return false;
    }
    let share = |time: f64| if total > 0.0 { percent(time / total) } else { String::new() };
    let cells = |spent: &Spent| {
        let mean = spent.time / spent.calls.max(1) as f64;
        let mut cells = vec![whole(spent.calls), whole(spent.ranks())];
        match waits {
            true => cells.extend([share(spent.time), time(spent.time), time(spent.waited)]),
            false => cells.push(time(spent.time)),
        }
        cells.extend([time(mean), time(spent.longest)]);
        cells
    };
    let mut head = vec!["calls", "ranks"];
    match waits {
        true => head.extend(["share", "time", "of that waiting"]),
        false => head.push("time"),
    }
    head.extend(["mean", "longest"]);
    let ordered = |map: Vec<(Vec<String>, &Spent)>| {
        let mut rows = map;
        rows.sort_by(|one, other| other.1.time.total_cmp(&one.1.time).then_with(|| one.0.cmp(&other.0)));
        let left_out = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        (rows.into_iter().map(|(names, spent)| [names, cells(spent)].concat()).collect::<Vec<_>>(), left_out)
    };
    match waits {
        true => {
            page.heading("Time per MPI function");
            page.note("Share: of the simulated time of all ranks together. Times are sums over all ranks.");
        }
        false => {
            page.heading("Time per operation");
            page.note("Times are sums over all ranks, from the start of an operation to its end. Operations of a rank may overlap.");
        }
    }
    let (rows, _) = ordered(by_function.iter().map(|(name, spent)| (vec![name.clone()], spent)).collect());
    page.table(&[vec!["function"], head.clone()].concat(), &rows, 1);
    let sites: Vec<_> = all
        .iter()
        .filter(|((_, site), _)| !site.is_empty())
        .map(|((function, site), spent)| (vec![site.clone(), function.clone()], spent))
        .collect();
    if !sites.is_empty() {
        page.heading("Time per call site");
        let (rows, left_out) = ordered(sites);
        page.table(&[vec!["where the program calls", "function"], head].concat(), &rows, 2);
        if left_out > 0 {
            page.note(&format!("{left_out} more call sites took less time; functions.parquet has all."));
        }
        if rows.iter().any(|row| row[0].contains("+0x")) {
            page.note(
                "A place such as app+0x1234 is an offset in a program without line numbers: compile it with -g to see file and line.",
            );
        }
    }
    true
}

/// Who sends how much to whom: of messages on the network, or of a trace.
pub fn matrix(data: &Data) -> Option<String> {
    let (table, from, to) = match data.table("pairs") {
        Some(table) => (table, "source", "destination"),
        None => (data.table("transfers")?, "from_rank", "to_rank"),
    };
    let rows = || (0..table.rows()).filter(|&row| table.text("kind", row) != "ack");
    let pair = |row: usize| Some((table.integer(from, row).filter(|&rank| rank >= 0)?, table.integer(to, row).filter(|&rank| rank >= 0)?));
    let ranks = rows().filter_map(pair).map(|(from, to)| from.max(to) as usize + 1).max()?;
    let group = ranks.div_ceil(CELLS);
    let side = ranks.div_ceil(group);
    let mut values = vec![0.0; side * side];
    for row in rows() {
        if let Some((from, to)) = pair(row) {
            values[from as usize / group * side + to as usize / group] += table.number("bytes", row).unwrap_or(0.0);
        }
    }
    let edge = (side * group) as f64;
    let map = HeatMap {
        x: String::from("to rank"),
        y: String::from("from rank"),
        unit: if group > 1 { format!("bytes, {group} x {group} ranks in a cell") } else { String::from("bytes") },
        values_in: Quantity::Bytes,
        log: true,
        x_range: (0.0, edge),
        y_range: (0.0, edge),
        columns: side,
        values,
        ..HeatMap::default()
    };
    Some(map.svg())
}

/// The busiest links of what was looked at in periods.
pub fn links(page: &mut Page, data: &Data) {
    let Some(table) = data.table("links") else { return };
    let highest = (0..table.rows()).filter_map(|row| table.number("load", row)).reduce(f64::max);
    let rows = (0..table.rows()).filter(|&row| highest.is_none() || table.number("load", row) == highest);
    let mut of_links: BTreeMap<i64, (String, String, f64, f64, i64, i64)> = BTreeMap::new();
    let mut periods = BTreeSet::new();
    for row in rows {
        let busy = table.number("utilisation", row).unwrap_or(0.0).min(1.0);
        periods.insert((table.number("time_ns", row).unwrap_or(0.0) * 1e3) as u64);
        let way = format!("{} to {}", table.text("from", row), table.text("to", row));
        let stage = table.text("stage", row).to_owned();
        let link = of_links.entry(table.integer("link", row).unwrap_or(0)).or_insert((way, stage, 0.0, 0.0, 0, 0));
        link.2 += busy;
        link.3 = link.3.max(busy);
        link.4 += table.integer("packets", row).unwrap_or(0);
        link.5 += table.integer("stalls", row).unwrap_or(0);
    }
    let count = of_links.len();
    let periods = periods.len().max(1) as f64;
    let mut order: Vec<_> = of_links.into_values().collect();
    order.sort_by(|one, other| other.2.total_cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
    order.truncate(LINKS);
    page.heading("Busiest links");
    let at = highest.map_or_else(String::new, |load| format!(" At load {}.", digits(load)));
    page.note(&format!("{} of {count} links in use; links.parquet has all.{at}", order.len()));
    let cells = order.into_iter().map(|(way, stage, busy, most, packets, stalls)| {
        vec![way, stage, percent(busy / periods), percent(most), whole(packets), whole(stalls)]
    });
    let head = ["link", "part of the network", "busy, mean", "busiest period", "packets", "waits for credits"];
    page.table(&head, &cells.collect::<Vec<_>>(), 2);
}

/// The energy of a run, part by part.
pub fn energy(page: &mut Page, summary: &Value) {
    let Some(energy) = summary["energy"].as_object() else { return };
    let joules = |name: &str| energy.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let total = joules("total_j");
    page.heading("Energy");
    const PARTS: [(&str, &str); 9] = [
        ("nodes_j", "nodes, whatever they do"),
        ("memory_j", "their memory"),
        ("idle_j", "other processors, whatever they do"),
        ("computing_j", "cores that compute"),
        ("waiting_j", "cores in MPI"),
        ("accelerators_j", "accelerators"),
        ("nics_j", "NICs"),
        ("switches_j", "switches"),
        ("cables_j", "cables"),
    ];
    let rows = PARTS.iter().map(|(key, name)| ((*name).to_owned(), joules(key))).filter(|(_, joules)| *joules > 0.0);
    let mut rows: Vec<Vec<String>> =
        rows.map(|(name, joules)| vec![name, format!("{} J", digits(joules)), percent(joules / total.max(1e-300))]).collect();
    rows.push(vec![String::from("all"), format!("{} J", digits(total)), String::from("100 %")]);
    page.table(&["part", "energy", "share"], &rows, 1);
    if let Some(power) = energy.get("mean_power_w").and_then(Value::as_f64) {
        let each = [("per_rank_j", "rank"), ("per_byte_j", "byte of payload")];
        let each = each.iter().filter_map(|(key, of)| Some(format!(", {} J a {of}", digits(energy.get(*key)?.as_f64()?))));
        page.note(&format!("On average {} W{}.", digits(power), each.collect::<String>()));
    }
}

/// How messages moved.
pub fn ways(page: &mut Page, summary: &Value) {
    let ways = &summary["messages_by"];
    let count = |value: &Value| {
        Some(vec![whole(value["messages"].as_i64()?), show::size(value["bytes"].as_u64()?)]).filter(|_| value["messages"] != 0)
    };
    let kinds = [("eager", "eager"), ("by_rendezvous", "rendezvous"), ("over_rails", "over several rails")];
    let mut rows: Vec<Vec<String>> =
        kinds.iter().filter_map(|(key, name)| Some([vec![(*name).to_owned()], count(&ways[*key])?].concat())).collect();
    let rails = ways["rails"].as_array().map_or(&[][..], Vec::as_slice);
    if rails.len() > 1 {
        rows.extend(rails.iter().enumerate().filter_map(|(at, rail)| {
            let name = format!("puts, gets and atomics of rail {at} ({})", rail["network"].as_str().unwrap_or_default());
            Some([vec![name], count(rail)?].concat())
        }));
    }
    if !rows.is_empty() {
        page.heading("How messages moved");
        let limit = ways["eager_limit_bytes"].as_u64().map_or_else(String::new, |limit| format!("Eager up to {}.", show::size(limit)));
        page.note(&limit);
        page.table(&["way", "messages", "payload"], &rows, 1);
    }
}

/// Any table, its first rows.
pub fn table(page: &mut Page, columns: &Columns) {
    let names: Vec<&str> = columns.names().collect();
    let labels: Vec<String> = names.iter().map(|name| super::words::label(name)).collect();
    let cell = |name: &str, row: usize| match (columns.is_text(name), columns.number(name, row)) {
        (true, _) => columns.text(name, row).to_owned(),
        (false, None) => String::new(),
        (false, Some(value)) => {
            let exact = (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64);
            super::words::of_number(name, value, exact)
        }
    };
    let texts = names.iter().take_while(|name| columns.is_text(name)).count();
    let rows: Vec<Vec<String>> = (0..columns.rows().min(ROWS)).map(|row| names.iter().map(|name| cell(name, row)).collect()).collect();
    page.table(&labels.iter().map(String::as_str).collect::<Vec<_>>(), &rows, texts);
    if columns.rows() > ROWS {
        page.note(&format!("The first {ROWS} of {} rows.", columns.rows()));
    }
}
