//! On which processors of its nodes a run was.

use narrows_machine::{HOST, Machine};
use narrows_units::ProcessorId;
use std::collections::BTreeMap;

/// How many ranks were on the processors of each name.
pub(crate) fn counts(machine: &Machine, placed: &[ProcessorId]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    placed.iter().for_each(|&id| *counts.entry(machine.processor(id).0.to_owned()).or_default() += 1);
    counts
}

/// The same for people, where not all were on those of hosts: "2 dpu, 4 host".
pub(crate) fn line(counts: &BTreeMap<String, u32>) -> Option<String> {
    let line = || counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ");
    counts.keys().any(|name| name != HOST).then(line)
}
