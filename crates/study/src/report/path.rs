//! The critical path of a run or a replay: what its end had to wait for, back to its beginning.
//!
//! It is walked back from the end of the last rank: over what that rank did, to the last message that a waiting call of
//! it waited for, to the rank that had sent that, when it wrote the command; and so on. What a NIC fetches by itself is
//! a message of the rank that asked for it.

use super::data::{Columns, Data};
use narrows_results::{Column, Table};
use narrows_timeline::computes;
use serde_json::Value;
use std::collections::BTreeMap;

/// A part of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Who was at work.
    pub rank: i64,
    /// For whom: another one, of a message.
    pub to_rank: i64,
    /// `computing`, `MPI software` or `message`.
    pub what: &'static str,
    /// In seconds.
    pub begin: f64,
    /// In seconds.
    pub end: f64,
}

const COMPUTING: &str = "computing";
const SOFTWARE: &str = "MPI software";
const MESSAGE: &str = "message";

struct Call {
    begin: f64,
    end: f64,
    waits: bool,
    computes: bool,
}

struct Message {
    kind: String,
    from: i64,
    to: i64,
    posted: Option<f64>,
    begin: f64,
    tail: f64,
}

impl Message {
    fn start(&self) -> f64 {
        self.posted.unwrap_or(self.begin)
    }
}

/// Why there is none.
pub fn lacks(summary: &Value, data: &Data) -> Option<&'static str> {
    let timeline = &summary["timeline"];
    if !timeline["ended_s"].is_null() || timeline["from_s"].as_f64().unwrap_or(0.0) > 0.0 || !timeline["to_s"].is_null() {
        return Some("the timeline has a part of the run only; a higher timeline_limit gives more of it");
    }
    let whole = data.table("calls").is_some() && data.table("transfers").is_some();
    (!whole).then_some("there is no timeline with calls and messages: timeline=\"FILE\" or --timeline FILE gives one")
}

/// The path, in the order of time, without a gap. `live`: waiting was measured; in replays any operation may wait.
pub fn find(data: &Data, live: bool) -> Vec<Part> {
    let (Some(calls), Some(transfers)) = (data.table("calls"), data.table("transfers")) else { return Vec::new() };
    let calls = calls_of(calls, live);
    let messages = messages_of(transfers);
    let mut arrivals: BTreeMap<i64, Vec<&Message>> = BTreeMap::new();
    let mut gets: BTreeMap<i64, Vec<&Message>> = BTreeMap::new();
    for message in &messages {
        arrivals.entry(message.to).or_default().push(message);
        if message.kind == "get" {
            gets.entry(message.from).or_default().push(message);
        }
    }
    let end_of = |calls: &[Call]| calls.iter().map(|call| call.end).fold(0.0, f64::max);
    // Of several that end together, the first one.
    let last = calls.iter().rev().max_by(|one, other| end_of(one.1).total_cmp(&end_of(other.1)));
    let Some((mut rank, mut now)) = last.map(|(rank, calls)| (*rank, end_of(calls))) else { return Vec::new() };
    let mut parts = Vec::new();
    let none: Vec<Call> = Vec::new();
    while now > 0.0 {
        let own = calls.get(&rank).unwrap_or(&none);
        let found = arrivals.get(&rank).and_then(|arrivals| arrival(own, arrivals, now));
        work(own, rank, found.map_or(0.0, |message| message.tail), now, &mut parts);
        let Some(message) = found else { break };
        let (mut sender, mut start) = (message.from, message.start());
        if message.kind == "reply" {
            let asked = gets.get(&rank).into_iter().flatten().rev().filter(|get| get.tail <= message.begin);
            if let Some(posted) = asked.filter(|get| get.to == sender).find_map(|get| get.posted) {
                (sender, start) = (rank, posted);
            }
        }
        parts.push(Part { rank: sender, to_rank: rank, what: MESSAGE, begin: start, end: message.tail });
        (rank, now) = (sender, start);
    }
    parts.reverse();
    parts
}

fn calls_of(table: &Columns, live: bool) -> BTreeMap<i64, Vec<Call>> {
    let mut calls: BTreeMap<i64, Vec<Call>> = BTreeMap::new();
    for row in 0..table.rows() {
        let number = |name: &str| table.number(name, row).unwrap_or(0.0);
        let computes = computes(table.text("call", row));
        let waits = if live { number("waited_s") > 0.0 } else { !computes };
        let call = Call { begin: number("begin_s"), end: number("end_s"), waits, computes };
        calls.entry(table.integer("rank", row).unwrap_or(0)).or_default().push(call);
    }
    calls.values_mut().for_each(|calls| calls.sort_by(|one, other| one.begin.total_cmp(&other.begin)));
    calls
}

/// Those that have arrived, by their arrival.
fn messages_of(table: &Columns) -> Vec<Message> {
    let of = |row: usize| {
        let from = table.integer("from_rank", row).filter(|&rank| rank >= 0)?;
        let kind = table.text("kind", row);
        (kind != "ack").then_some(())?;
        Some(Message {
            kind: kind.to_owned(),
            from,
            to: table.integer("to_rank", row)?,
            posted: table.number("posted_s", row),
            begin: table.number("begin_s", row)?,
            tail: table.number("tail_s", row)?,
        })
    };
    let mut messages: Vec<Message> = (0..table.rows()).filter_map(of).collect();
    messages.sort_by(|one, other| one.tail.total_cmp(&other.tail));
    messages
}

/// The last message before `now` that came while a call waited. One of the rank itself it sent before, and would have
/// waited for nobody.
fn arrival<'a>(calls: &[Call], arrivals: &[&'a Message], now: f64) -> Option<&'a Message> {
    let begun = calls.partition_point(|call| call.begin <= now);
    calls[..begun].iter().rev().filter(|call| call.waits).find_map(|call| {
        let until = now.min(call.end);
        let came = arrivals.partition_point(|message| message.tail <= until);
        let during = arrivals[..came].iter().rev().take_while(|message| message.tail >= call.begin);
        during.copied().find(|message| message.from != message.to && message.start() < now)
    })
}

/// What a rank did between two times, the latest first: in calls, and between them.
fn work(calls: &[Call], rank: i64, begin: f64, end: f64, parts: &mut Vec<Part>) {
    let at = parts.len();
    let mut now = begin;
    let mut part = |what, begin: f64, end: f64| {
        if end > begin {
            parts.push(Part { rank, to_rank: rank, what, begin, end });
        }
    };
    for call in calls.iter().filter(|call| call.end > begin && call.begin < end) {
        if call.end <= now {
            continue;
        }
        let (first, last) = (now.max(call.begin), end.min(call.end));
        part(COMPUTING, now, first);
        part(if call.computes { COMPUTING } else { SOFTWARE }, first, last);
        now = last;
    }
    part(COMPUTING, now, end);
    parts[at..].reverse();
}

/// A row for each part.
pub fn table(parts: &[Part]) -> Table {
    let integer = |of: fn(&Part) -> i64| Column::Integer(parts.iter().map(of).collect());
    let number = |of: fn(&Part) -> f64| Column::Number(parts.iter().map(|part| Some(of(part))).collect());
    Table::new(vec![
        ("rank", integer(|part| part.rank)),
        ("to_rank", integer(|part| part.to_rank)),
        ("what", Column::Text(parts.iter().map(|part| part.what.to_owned()).collect())),
        ("begin_s", number(|part| part.begin)),
        ("end_s", number(|part| part.end)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_waits_for_the_sender_that_computes() {
        let text = |values: &[&str]| Column::Text(values.iter().map(|&value| value.to_owned()).collect());
        let numbers = |values: &[f64]| Column::Number(values.iter().copied().map(Some).collect());
        // Rank 1 computes until 5 and sends; rank 0 waits from 1 on, and ends at 8.
        let calls = Table::new(vec![
            ("rank", Column::Integer(vec![0, 1])),
            ("call", text(&["MPI_Recv", "MPI_Send"])),
            ("begin_s", numbers(&[1.0, 5.0])),
            ("end_s", numbers(&[8.0, 6.0])),
            ("waited_s", numbers(&[6.0, 0.0])),
        ]);
        let transfers = Table::new(vec![
            ("kind", text(&["put"])),
            ("from_rank", Column::Integer(vec![1])),
            ("to_rank", Column::Integer(vec![0])),
            ("posted_s", numbers(&[5.5])),
            ("begin_s", numbers(&[5.6])),
            ("tail_s", numbers(&[7.0])),
        ]);
        let path = find(&Data::from(vec![("calls", calls), ("transfers", transfers)]), true);
        let said: Vec<_> = path.iter().map(|part| (part.rank, part.to_rank, part.what, part.begin, part.end)).collect();
        let expected = [(1, 1, COMPUTING, 0.0, 5.0), (1, 1, SOFTWARE, 5.0, 5.5), (1, 0, MESSAGE, 5.5, 7.0), (0, 0, SOFTWARE, 7.0, 8.0)];
        assert_eq!(said, expected);
        assert_eq!(table(&path).rows(), 4);
    }
}
