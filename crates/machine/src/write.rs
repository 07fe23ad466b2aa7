//! A resolved machine as text: TOML that reads back as the same machine, and JSON for summaries.

use crate::Overrides;
use crate::model::Machine;
use crate::resolve::entries;
use narrows_keys::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Sections that a machine uses if a key has one of these values.
const USED_IF: [(&str, &str, &[&str]); 12] = [
    ("network.pfc", "network.flow_control", &["\"pfc\""]),
    ("network.acc", "network.congestion", &["\"acc\""]),
    ("network.dcqcn", "network.congestion", &["\"dcqcn\""]),
    ("network.dctcp", "network.congestion", &["\"dctcp\""]),
    ("network.swift", "network.congestion", &["\"swift\""]),
    ("network.nscc", "network.congestion", &["\"nscc\""]),
    ("network.hpcc", "network.congestion", &["\"hpcc\""]),
    ("network.sperc", "network.congestion", &["\"s-perc\""]),
    ("network.throttle", "network.congestion", &["\"throttle\""]),
    ("network.flow", "network.kind", &["\"flow\""]),
    ("network.loggp", "network.kind", &["\"loggp\""]),
    ("ip.tunnel", "ip.tunnel.enabled", &["true"]),
];
/// Sections that change nothing while all of their keys have their defaults.
const QUIET: [&str; 3] = ["nic.spin", "ip.gateway", "power"];

impl Machine {
    /// The complete file of this machine: no default and no base is left to look up.
    pub fn to_toml(&self) -> String {
        text_of(&entries(self), &BTreeSet::new())
    }

    /// The same without sections that this machine has no use for, as far as it reads back as the same machine without
    /// them: what a run keeps.
    pub fn to_used_toml(&self) -> String {
        let all = entries(self);
        let value = |path: &str| all.iter().find(|(key, _)| key == path).map(|(_, value)| toml(value));
        let uses = |key: &str, values: &[&str]| value(key).is_some_and(|value| values.contains(&value.as_str()));
        let unused = USED_IF.iter().filter(|(_, key, values)| !uses(key, values)).map(|(section, ..)| *section);
        let gateway = self.gateways().next().is_none().then_some("message.gateway");
        // Networks that differ refer to what they have in common.
        let candidates = unused.chain(gateway).chain(QUIET).filter(|_| self.fabrics.is_empty());
        let same = |section: &&str| {
            let text = text_of(&all, &BTreeSet::from([*section]));
            Machine::parse("machine.toml", &text, &Overrides::default()).is_ok_and(|again| again == *self)
        };
        text_of(&all, &candidates.filter(same).collect())
    }

    /// The same as JSON, section by section, quantities as text with their units.
    pub fn to_json(&self) -> serde_json::Value {
        let mut result = serde_json::Map::new();
        for (path, value) in entries(self) {
            let mut at = &mut result;
            let mut names = path.split('.').peekable();
            while let Some(name) = names.next() {
                if names.peek().is_none() {
                    at.insert(name.to_owned(), json(&value));
                    break;
                }
                let inner = at.entry(name).or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
                at = inner.as_object_mut().expect("no key is a section as well");
            }
        }
        serde_json::Value::Object(result)
    }
}

fn section_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}

/// Keys and values as a machine file, without some sections.
fn text_of(entries: &[(String, Value)], left_out: &BTreeSet<&str>) -> String {
    let mut result = String::new();
    let mut section = "";
    for (path, value) in entries.iter().filter(|(path, _)| !left_out.contains(section_of(path))) {
        let here = section_of(path);
        if here != section {
            let gap = if result.is_empty() { "" } else { "\n" };
            let _ = writeln!(result, "{gap}[{here}]");
            section = here;
        }
        let _ = writeln!(result, "{} = {}", &path[here.len() + 1..], toml(value));
    }
    result
}

/// A value as a machine file has it.
pub(crate) fn toml(value: &Value) -> String {
    match value {
        Value::Text(text) => quote(text),
        Value::Integer(Some(number)) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Decimal(number) => number.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(|(item, _)| toml(item)).collect::<Vec<_>>().join(", ")),
        Value::Integer(None) | Value::Other(_) => unreachable!("machines hold texts, numbers and lists"),
    }
}

/// A basic string of TOML 1.0.
pub(crate) fn quote(text: &str) -> String {
    let mut result = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                result.push('\\');
                result.push(c);
            }
            '\n' => result.push_str("\\n"),
            '\t' => result.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(result, "\\u{:04X}", c as u32);
            }
            c => result.push(c),
        }
    }
    result.push('"');
    result
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(Some(number)) => (*number).into(),
        Value::Boolean(flag) => (*flag).into(),
        Value::Decimal(number) => number.parse::<f64>().map_or(serde_json::Value::Null, Into::into),
        Value::Array(items) => items.iter().map(|(item, _)| json(item)).collect(),
        Value::Integer(None) | Value::Other(_) => unreachable!("machines hold texts, numbers and lists"),
    }
}
