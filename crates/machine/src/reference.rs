//! The reference of all keys as Markdown, for `docs/machine-files.md`.

use crate::keys::{self, Field, table};
use std::fmt::Write;

/// One table per section: key, value, default, meaning.
pub fn markdown() -> String {
    let mut result = String::new();
    let mut draft = keys::generic();
    let mut section = String::new();
    for key in table(&mut draft) {
        if key.section() != section {
            section = key.section().to_owned();
            let gap = if result.is_empty() { "" } else { "\n" };
            let _ = writeln!(result, "{gap}### [{section}]\n\n| key | value | default | meaning |\n|---|---|---|---|");
        }
        let value = match &key.field {
            Field::Text(_) => "text".to_owned(),
            Field::HostPattern(_) => "host name pattern".to_owned(),
            Field::Count(_, least, most) => format!("number, {least} to {most}"),
            Field::Counts(_) | Field::Indices(_) => "list of numbers".to_owned(),
            Field::Texts(_) => "list of texts".to_owned(),
            Field::Speed(_) => "number, above 0".to_owned(),
            Field::Ber(_) => "number, 0 to 0.1".to_owned(),
            Field::Fraction(_, 1_000_000) => "number, above 0, at most 1".to_owned(),
            Field::Fraction(..) => "number, above 0, below 1".to_owned(),
            Field::Time(_, least) if least.0 == 0 => "time".to_owned(),
            Field::Time(..) => "time, above 0".to_owned(),
            Field::Size(_, least) if least.0 == 0 => "size".to_owned(),
            Field::Size(..) => "size, above 0".to_owned(),
            Field::Rate(_) => "bandwidth".to_owned(),
            Field::Power(_) => "power".to_owned(),
            Field::Choice(choice) => choice.names().iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", "),
            Field::Choices(choices) => {
                let names: Vec<String> = choices[0].names().iter().map(|name| format!("`\"{name}\"`")).collect();
                format!("{}, or a list of {}", names.join(", "), choices.len())
            }
            Field::Flag(_) => "`true`, `false`".to_owned(),
            Field::PathOrTime(_) => "`\"path\"` or time".to_owned(),
            Field::PathOrRate(_) => "`\"path\"` or bandwidth".to_owned(),
            Field::SwitchOrTime(_) => "`\"switch\"` or time".to_owned(),
            Field::SwitchOrRate(_) => "`\"switch\"` or bandwidth".to_owned(),
        };
        let owners = key.only.owners().map_or_else(Vec::new, |(_, owners)| owners);
        let kinds = owners.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
        let default = match (&key.default, kinds.is_empty()) {
            (Some(default), true) => format!("`{default}`"),
            (Some(default), false) => format!("`{default}`, for {kinds}"),
            (None, false) => format!("required for {kinds}"),
            (None, true) => key.otherwise.map_or_else(|| "required".to_owned(), |otherwise| format!("as `{otherwise}`")),
        };
        let _ = writeln!(result, "| `{}` | {value} | {default} | {} |", key.name(), key.doc);
    }
    result
}
