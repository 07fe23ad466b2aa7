//! A resolved machine as text: TOML that reads back as the same machine, and JSON for summaries.

use crate::model::Machine;
use crate::resolve::entries;
use narrows_keys::Value;
use std::fmt::Write;

impl Machine {
    /// The complete file of this machine: no default and no base is left to look up.
    pub fn to_toml(&self) -> String {
        let mut result = String::new();
        let mut section = String::new();
        for (path, value) in entries(self) {
            let (here, name) = path.rsplit_once('.').expect("every key has a section");
            if here != section {
                let gap = if result.is_empty() { "" } else { "\n" };
                let _ = writeln!(result, "{gap}[{here}]");
                section = here.to_owned();
            }
            let _ = writeln!(result, "{name} = {}", toml(&value));
        }
        result
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
