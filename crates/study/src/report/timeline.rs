//! A timeline on a page, to zoom.

use super::data::Data;
use super::words::{time, whole};
use narrows_results::{Page, ROLES};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Calls on a page at most, and messages: a browser draws as many in a few hundredths of a second. Our own choice.
const ON_PAGE: usize = 20_000;
const SCRIPT: &str = include_str!("timeline.js");

/// The timeline, and what is left out of it; nothing where there are no calls.
pub fn section(page: &mut Page, summary: &Value, data: &Data, live: bool) {
    let Some(calls) = data.table("calls") else { return };
    let ns = |name: &str, row: usize| calls.number(name, row).map_or(0.0, |seconds| seconds * 1e9);
    let mut names: Vec<&str> = (0..calls.rows()).map(|row| calls.text("call", row)).collect();
    names.sort_unstable();
    names.dedup();
    let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    let mut order: Vec<usize> = (0..calls.rows()).collect();
    order.sort_by(|&one, &other| ns("begin_s", one).total_cmp(&ns("begin_s", other)));
    let shown = order.iter().take(ON_PAGE).map(|&row| {
        json!([calls.integer("rank", row), places[calls.text("call", row)], ns("begin_s", row), ns("end_s", row), ns("waited_s", row)])
    });
    let shown: Vec<Value> = shown.collect();
    let end = order.get(ON_PAGE).map_or(f64::INFINITY, |&row| ns("begin_s", row));
    let messages: Vec<Value> = data.table("transfers").map_or_else(Vec::new, |transfers| {
        let message = |row: usize| {
            let number = |name: &str| transfers.number(name, row).map(|seconds| seconds * 1e9);
            let from = transfers.integer("from_rank", row).filter(|&rank| rank >= 0)?;
            let (begin, tail) = (number("begin_s")?, number("tail_s")?);
            (transfers.text("kind", row) != "ack" && begin < end).then_some(())?;
            Some(json!([
                from,
                transfers.integer("to_rank", row)?,
                number("posted_s").unwrap_or(begin),
                tail,
                transfers.integer("bytes", row)
            ]))
        };
        (0..transfers.rows()).filter_map(message).take(ON_PAGE).collect()
    });
    page.heading("Timeline");
    page.note("Wheel or buttons: nearer and further. Drag: earlier and later. Click on a bar: what it is.");
    left_out(page, summary, calls.rows(), end);
    let colours: BTreeMap<&str, &str> = ROLES.into_iter().collect();
    let data = json!({ "names": names, "calls": shown, "messages": messages, "live": live, "colours": colours });
    // A name cannot end the script.
    let data = data.to_string().replace("</", "<\\/");
    page.html(&format!("<div id=\"timeline\"></div>\n<script>{SCRIPT}timeline(document.getElementById(\"timeline\"), {data});</script>\n"));
}

/// What is not on the page, and where it is.
fn left_out(page: &mut Page, summary: &Value, calls: usize, end_ns: f64) {
    let timeline = &summary["timeline"];
    let file = timeline["file"].as_str().unwrap_or("the file of --timeline");
    let from = timeline["from_s"].as_f64().filter(|&from| from > 0.0);
    let to = timeline["to_s"].as_f64();
    if from.is_some() || to.is_some() {
        let from = from.map_or_else(|| String::from("the start"), time);
        let to = to.map_or_else(|| String::from("the end"), time);
        page.note(&format!("Recorded: {from} to {to}, as --timeline-from and --timeline-to ask for. What lies outside is left out."));
    }
    if let Some(ended) = timeline["ended_s"].as_f64() {
        let ended = time(ended);
        page.note(&format!(
            "Recorded: up to {ended}, where --timeline-limit was reached. What comes later is left out; run it again with --timeline-from \
             \"{ended}\" or with a higher --timeline-limit to see it."
        ));
    }
    if calls > ON_PAGE {
        page.note(&format!(
            "Shown here: the first {} of {} calls, up to {}. All of them are in {file}, which https://ui.perfetto.dev opens, and in \
             calls.parquet; --timeline-from \"{}\" begins here with what follows.",
            whole(ON_PAGE as i64),
            whole(calls as i64),
            time(end_ns / 1e9),
            time(end_ns / 1e9)
        ));
    }
}
