//! Results on standard output: text to read, or JSON or CSV for programs.

use clap::Args;
use narrows_output::{OutputError, print};
use narrows_results::Table;
use serde_json::Value;

/// Options of every command that prints a table.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Form {
    /// Prints JSON instead of text
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Prints CSV instead of text
    #[arg(long)]
    csv: bool,
}

impl Form {
    /// Prints one of the three.
    ///
    /// # Errors
    /// Standard output takes nothing more.
    pub fn print(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
        csv: impl FnOnce() -> Table,
    ) -> Result<(), OutputError> {
        if self.json {
            print(&format!("{:#}\n", json()))
        } else if self.csv {
            print(&csv().csv())
        } else {
            print(&text())
        }
    }
}

/// A JSON value as lines of `key,value`: `nic.put_occupancy,100 ns`.
pub fn keys_and_values(value: &Value) -> Table {
    fn walk(prefix: &str, value: &Value, rows: &mut Vec<(String, String)>) {
        let inner = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| walk(&inner(key), value, rows)),
            Value::Array(entries) => entries.iter().enumerate().for_each(|(index, value)| walk(&inner(&index.to_string()), value, rows)),
            Value::String(text) => rows.push((prefix.to_owned(), text.clone())),
            Value::Null => rows.push((prefix.to_owned(), String::new())),
            other => rows.push((prefix.to_owned(), other.to_string())),
        }
    }
    let mut rows = Vec::new();
    walk("", value, &mut rows);
    let (keys, values) = rows.into_iter().unzip();
    Table::new(vec![("key", narrows_results::Column::Text(keys)), ("value", narrows_results::Column::Text(values))])
}
