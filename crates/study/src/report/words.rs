//! Names and numbers of a summary in words.

use narrows_units::{SimTime, show};
use serde_json::Value;

/// What keys of `summary.json` mean, where the key itself does not say it.
const LABELS: [(&str, &str); 46] = [
    ("simulated_s", "Simulated time"),
    ("wall_s", "Wall time"),
    ("reading_s", "Wall time of reading"),
    ("replay_s", "Wall time of the replay"),
    ("assembly_s", "Wall time of assembling the machine"),
    ("apart", "Times that other ranks went on while one computed"),
    ("crossings", "Hand-overs between simulator and ranks"),
    ("crossings_per_blocking_call", "Hand-overs per blocking MPI call"),
    ("windows", "Windows of the simulator"),
    ("events", "Events of the simulator"),
    ("mpi_calls", "MPI calls"),
    ("blocking_mpi_calls", "MPI calls that may block"),
    ("nodes", "Nodes of the machine"),
    ("nodes_used", "Nodes in use"),
    ("mpi", "MPI library"),
    ("network", "Network model"),
    ("topology", "Topology"),
    ("compute", "Computing times"),
    ("compute_scale", "Computing times multiplied by"),
    ("compute_alike", "Computing that had its like before"),
    ("compute_spread", "Mean distance of that from its median"),
    ("bytes", "Payload"),
    ("packet_hops", "Packets times links crossed"),
    ("packet_hops_per_s", "Packets times links, per second of wall time"),
    ("messages_per_s", "Messages per second of wall time"),
    ("nic_messages", "Messages of the NICs"),
    ("retries", "Messages sent again, as there was no room"),
    ("retransmissions", "Packets sent again"),
    ("lost_packets", "Packets lost"),
    ("crc_errors", "Errors that checksums found"),
    ("missed_errors", "Errors that checksums missed"),
    ("refused_accesses", "Refused accesses to memory"),
    ("peak_rss_bytes", "Memory of the simulator"),
    ("peak_rss_bytes_of_processes", "Memory of each simulator process"),
    ("exit_code", "Exit code"),
    ("seed", "Seed"),
    ("digest", "Digest of all events"),
    ("matching", "Digest of what was matched"),
    ("collectives", "Collectives"),
    ("collective_parts", "Parts of collectives"),
    ("computing_s_mean", "Mean computing per rank"),
    ("ideal_finish_s", "Time on an ideal machine"),
    ("may_not_repeat", "Why another run may differ"),
    ("rank_finish_s", "End of each rank"),
    ("fct_mean_ns", "Mean completion time"),
    ("partial", "Broken off"),
];

/// Keys that are said elsewhere, or say nothing to a reader.
const ELSEWHERE: [&str; 16] = [
    "narrows",
    "version",
    "schema",
    "failure",
    "machine",
    "per_rank",
    "points",
    "applications",
    "program",
    "traces",
    "trace",
    "findings",
    "waits",
    "choices",
    "energy",
    "timeline",
];

/// A key in words.
pub fn label(key: &str) -> String {
    if let Some((_, label)) = LABELS.iter().find(|(own, _)| *own == key) {
        return (*label).to_owned();
    }
    let plain = ["_bytes", "_ns", "_us", "_s", "_ps", "_j", "_w"].iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key);
    let text = plain.replace(['_', '.'], " ").replace("mpi", "MPI").replace("fct", "completion time").replace(" p50", ", median");
    let text = text.replace(" p999", ", 99.9 %").replace(" p99", ", 99 %").replace(" max", ", longest").replace(" mean", ", mean");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A time in seconds, in four digits and the unit that fits.
pub fn time(seconds: f64) -> String {
    let (unit, per_second) = show::time_unit(SimTime((seconds.abs() * 1e12) as u64));
    format!("{} {unit}", digits(seconds * per_second))
}

/// Four digits.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return String::from("0");
    }
    if !(1e-3..1e7).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let places = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with spaces between thousands.
pub fn whole(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let groups: Vec<&str> = (0..digits.len()).rev().step_by(3).map(|end| &digits[end.saturating_sub(2)..=end]).collect();
    format!("{}{}", if value < 0 { "-" } else { "" }, groups.into_iter().rev().collect::<Vec<_>>().join("\u{202f}"))
}

/// A part as a percentage.
pub fn percent(part: f64) -> String {
    // Nothing is never less than nothing: a sum of no parts is -0.
    format!("{:.1} %", 100.0 * part + 0.0)
}

/// A value with the unit that its key says.
pub fn value(key: &str, value: &Value) -> String {
    match value {
        Value::Null => String::from("not known"),
        Value::Bool(yes) => String::from(if *yes { "yes" } else { "no" }),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(|one| self::value(key, one)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => String::new(),
        Value::Number(number) => of_number(key, number.as_f64().unwrap_or_default(), number.as_i64()),
    }
}

/// A number with the unit that its key says.
pub fn of_number(key: &str, value: f64, exact: Option<i64>) -> String {
    let is = |suffix: &str| key.ends_with(suffix);
    match () {
        () if matches!(key, "compute_alike" | "compute_spread") => percent(value),
        () if is("_per_s") => format!("{}/s", show::count(value)),
        () if is("_s") || is("_s_mean") => time(value),
        () if is("_ms") => time(value * 1e-3),
        () if is("_us") => time(value * 1e-6),
        () if is("_ns") => time(value * 1e-9),
        () if is("_ps") => time(value * 1e-12),
        () if is("bytes") || is("bytes_of_processes") => show::size(value as u64),
        () if is("_j") => format!("{} J", digits(value)),
        () if is("_w") => format!("{} W", digits(value)),
        () => match exact {
            Some(exact) if key == "seed" => exact.to_string(),
            Some(exact) => whole(exact),
            None => digits(value),
        },
    }
}

/// The numbers and texts of a summary that no other part of a report has, in words.
pub fn numbers(summary: &Value) -> Vec<(String, String)> {
    let all = summary.as_object().into_iter().flatten();
    let said = all.filter(|(key, value)| {
        let long = value.as_array().is_some_and(|values| values.is_empty() || values.len() > 16 || values.iter().any(Value::is_object));
        !value.is_null() && !value.is_object() && !long && !ELSEWHERE.contains(&key.as_str())
    });
    said.map(|(key, value)| (label(key), self::value(key, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_words_and_numbers_have_units_and_few_digits() {
        let summary = json!({
            "simulated_s": 0.005971885199614296, "apart": 3, "crossings": 1_234_567, "bytes": 2048, "compute_alike": 0.597_188_519_961_429_6,
            "latency_p99_ns": 1234.5678, "digest": "0123456789abcdef", "schema": 1, "per_rank": [{"rank": 0}], "failure": null,
            "mean_power_w": 12.345678, "partial": false,
        });
        let said = numbers(&summary);
        let find = |label: &str| said.iter().find(|(own, _)| own == label).map(|(_, value)| value.as_str());
        assert_eq!(find("Simulated time"), Some("5.972 ms"));
        assert_eq!(find("Times that other ranks went on while one computed"), Some("3"));
        assert_eq!(find("Hand-overs between simulator and ranks"), Some("1\u{202f}234\u{202f}567"));
        assert_eq!((find("Payload"), find("Computing that had its like before")), (Some("2 KiB"), Some("59.7 %")));
        assert_eq!((find("Latency, 99 %"), find("Mean power")), (Some("1.235 us"), Some("12.35 W")));
        assert_eq!((find("Broken off"), said.len()), (Some("no"), 9), "{said:?}");
        assert!(said.iter().all(|(name, _)| !name.contains('_')), "{said:?}");
    }

    #[test]
    fn digits_of_any_number() {
        assert_eq!([0.0, 1.0, 0.12345, 12_345.6, 1e9, f64::NAN].map(digits), ["0", "1", "0.1235", "12346", "1.000e9", "0"]);
        assert_eq!([0, 999, 1000, -1_234_567].map(whole), ["0", "999", "1\u{202f}000", "-1\u{202f}234\u{202f}567"]);
    }
}
