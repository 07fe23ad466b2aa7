//! Null models: the machine of a figure without what it tests.

use super::Written;
use crate::StudyError;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// `[null.NAME]`: how the cases of a figure change when what it tests is taken away.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullModel {
    /// What is taken away.
    pub about: String,
    /// Keys of every case; lists are put behind those of the case, so that later settings hold.
    #[serde(default)]
    all: Table,
    /// Keys of single cases, by their names; `*` stands for any text.
    #[serde(default)]
    case: BTreeMap<String, Table>,
    /// Cases that another one stands for: `"v3_*" = "v2_*"`.
    #[serde(default)]
    instead: BTreeMap<String, String>,
}

impl NullModel {
    /// The cases as they are without it.
    ///
    /// # Errors
    /// A name that no case has.
    pub(super) fn apply(&self, cases: &BTreeMap<String, Written>) -> Result<BTreeMap<String, Written>, StudyError> {
        let mut changed = cases.clone();
        for (of, keys) in &self.case {
            let mut any = false;
            for (_, written) in changed.iter_mut().filter(|(name, _)| part(of, name).is_some()) {
                merge(&mut written.keys, keys);
                any = true;
            }
            if !any {
                return Err(unknown(of, cases));
            }
        }
        for written in changed.values_mut() {
            merge(&mut written.keys, &self.all);
        }
        let before = changed.clone();
        for (of, by) in &self.instead {
            let pairs: Vec<(&String, String)> =
                before.keys().filter_map(|name| part(of, name).map(|part| (name, by.replacen('*', part, 1)))).collect();
            if pairs.is_empty() {
                return Err(unknown(of, cases));
            }
            for (name, by) in pairs {
                let other = before.get(&by).ok_or_else(|| unknown(&by, cases))?;
                changed.insert(name.clone(), other.clone());
            }
        }
        Ok(changed)
    }
}

/// What the `*` of a pattern stands for in a name that fits; "" without one.
fn part<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(""),
        Some((front, back)) => name.strip_prefix(front)?.strip_suffix(back),
    }
}

fn unknown(name: &str, cases: &BTreeMap<String, Written>) -> StudyError {
    StudyError::expected(format!("case \"{name}\""), format!("one of {}", cases.keys().cloned().collect::<Vec<_>>().join(", ")))
}

/// Puts the keys of one table into another: tables into tables, lists behind lists, all else in place of what is there.
fn merge(into: &mut Table, keys: &Table) {
    for (key, value) in keys {
        match (into.get_mut(key), value) {
            (Some(Value::Table(there)), Value::Table(more)) => merge(there, more),
            (Some(Value::Array(there)), Value::Array(more)) => there.extend(more.iter().cloned()),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// The null model of a row: the one that it names, or the only one that there is.
pub(super) fn named(name: Option<&str>, nulls: &BTreeMap<String, NullModel>) -> Result<String, StudyError> {
    let known = || nulls.keys().cloned().collect::<Vec<_>>().join(", ");
    match name {
        Some(name) if nulls.contains_key(name) => Ok(name.to_owned()),
        Some(name) => Err(StudyError::expected(format!("null \"{name}\""), format!("one of {}", known()))),
        None => match nulls.keys().next() {
            Some(only) if nulls.len() == 1 => Ok(only.clone()),
            Some(_) => Err(StudyError::expected("null \"\"", format!("one of {}: there are several", known()))),
            None => Err(StudyError::contradiction("null: figure.toml has no [null.NAME]; what is no input needs a null model")),
        },
    }
}
