//! The reference of all keys as Markdown, for `docs/machine-files.md`.

use crate::keys::{self, table};
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
        let value = key.field.reference(key.limits);
        let owners = key.only.as_ref().map_or(&[][..], |only| &only.values);
        let kinds = owners.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
        let default = match (&key.default, kinds.is_empty()) {
            (Some(default), true) => format!("`{default}`"),
            (Some(default), false) => format!("`{default}`, for {kinds}"),
            (None, false) => format!("required for {kinds}"),
            (None, true) => key.otherwise.as_ref().map_or_else(|| "required".to_owned(), |otherwise| format!("as `{otherwise}`")),
        };
        let _ = writeln!(result, "| `{}` | {value} | {default} | {} |", key.name(), key.doc);
    }
    result
}
