//! What a key means, and where a machine's value of it comes from.

use crate::keys::{Draft, table};
use crate::resolve::{self, entries};
use crate::source::Layers;
use crate::{Machine, MachineError, Overrides};
use narrows_keys::nearest;

/// A key of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Sections and name: `network.buffer`.
    pub key: String,
    /// What it means, without the last stop.
    pub meaning: String,
    /// What it may be.
    pub values: String,
    /// What it is where no file gives it, as a file would.
    pub default: Option<String>,
    /// The machine's value, as a file would give it.
    pub value: String,
    /// Where that stands: `preset bxi-v2, line 30`; or why it is nowhere.
    pub from: String,
    /// The comment behind it there: the source of a preset's value.
    pub comment: Option<String>,
}

impl Machine {
    /// The keys that `wanted` names: a key, a section, a part of a name, or "" for all.
    ///
    /// # Errors
    /// The machine has mistakes, or no such key.
    pub fn explain(name_or_path: &str, overrides: &Overrides, wanted: &str) -> Result<Vec<Explanation>, MachineError> {
        let (name, text) = crate::text_of(name_or_path)?;
        let machine = Machine::parse(&name, &text, overrides)?;
        let layers = resolve::read(&name, &text, overrides, &mut Vec::new());
        let values = entries(&machine);
        // The names of groups, networks, processors and buses of this machine.
        let [fabrics, processors, buses] = ["fabric.", "processor.", "bus."].map(|prefix| names_of(&values, prefix));
        let mut draft = Draft::blank(&names_of(&values, "group."), &fabrics, &processors, &buses);
        let keys: Vec<_> = table(&mut draft)
            .into_iter()
            .filter_map(|key| {
                let value = values.iter().find(|(path, _)| *path == key.path)?;
                Some((key.path.clone(), key.doc.clone(), key.field.reference(key.limits), key.default, key.otherwise.clone(), &value.1))
            })
            .collect();
        let section = format!("{wanted}.");
        let fits: [&dyn Fn(&str) -> bool; 3] = [&|path| path == wanted, &|path| path.starts_with(&section), &|path| path.contains(wanted)];
        let Some(fits) = fits.into_iter().find(|fits| keys.iter().any(|(path, ..)| fits(path))) else {
            // Of whole keys, or of their last names.
            let paths = || keys.iter().map(|(path, ..)| path.as_str());
            let last = |path: &str| path.rsplit('.').next().is_some_and(|name| nearest(wanted, [name]).is_some());
            let nearest = nearest(wanted, paths()).or_else(|| paths().find(|path| last(path))).map(str::to_owned);
            return Err(MachineError::NoKey { key: wanted.to_owned(), machine: machine.name.clone(), nearest });
        };
        let found = keys.into_iter().filter(|(path, ..)| fits(path));
        let explained = found.map(|(key, meaning, values, default, otherwise, value)| {
            let (from, comment) = origin(&layers, &key).unwrap_or_else(|| {
                let from = otherwise.map_or_else(|| String::from("the default"), |otherwise| format!("as {otherwise}"));
                (from, None)
            });
            let default = default.map(str::to_owned);
            Explanation { key, meaning, values: values.replace('`', ""), default, value: crate::write::toml(value), from, comment }
        });
        Ok(explained.collect())
    }
}

/// The names behind a prefix, each once.
fn names_of<T>(values: &[(String, T)], prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in values.iter().filter_map(|(path, _)| path.strip_prefix(prefix)?.split('.').next()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Where a value stands, and the comment behind it.
fn origin(layers: &Layers, key: &str) -> Option<(String, Option<String>)> {
    let (layer, leaf) = layers.find(key)?;
    let layer = &layers.layers[layer];
    let (before, behind) = layer.text.split_at_checked(leaf.value_span.end)?;
    let rest = behind.lines().next().unwrap_or_default();
    let comment = rest.split_once('#').map(|(_, comment)| comment.trim().to_owned());
    let from = match layer.name.starts_with("--") {
        true => layer.name.clone(),
        false => format!("{}, line {}", layer.name, before.lines().count()),
    };
    Some((from, comment))
}
