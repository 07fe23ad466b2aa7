//! `[nic.spin]`: handlers that run on NICs which match, and the machine that runs them.

use crate::model::Machine;
use crate::source::Layers;
use narrows_keys::{Diagnostic, Field, Key, Keys, Only};
use narrows_nic::{HandlersConfig, Rule, SpinConfig, SpinPort};
use std::sync::Arc;

/// NICs that match.
const MATCHING: Only = Only::with("nic.kind", &["bxi-v2", "bxi-v3", "ib-hca"]);

/// `[nic.spin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spin {
    /// Which messages go through which handlers; none: the NIC has no such machine.
    pub rules: Vec<String>,
    /// The machine at every port.
    pub machine: SpinConfig,
    /// What the two come to, if there are rules.
    pub handlers: Option<Arc<HandlersConfig>>,
}

impl Keys for Spin {
    fn blank() -> Spin {
        Spin { rules: Field::blank(), machine: Keys::blank(), handlers: None }
    }
    fn list<'a>(&'a mut self, section: &str, list: &mut Vec<Key<'a>>) {
        let doc = "Handlers, and the messages whose packets they see (docs/spin.md), such as `\"reduce size=64..2KiB tag=7\"`; the \
                   first rule that fits a message counts";
        let from = list.len();
        list.push(Key::new(section, "rules", &mut self.rules, doc).default("[]"));
        self.machine.list(section, list);
        list[from..].iter_mut().for_each(|key| key.only = Some(MATCHING));
    }
}

impl Machine {
    /// What runs on its NICs, if something does.
    pub fn handlers(&self) -> Option<Arc<HandlersConfig>> {
        self.nic.spin.handlers.clone().filter(|_| MATCHING.values.contains(&self.nic.kind.name()))
    }
}

/// Reads the files that rules name, and sees whether the machine has room for them.
pub(crate) fn read_rules(machine: &mut Machine, layers: &Layers, prefix: &str, errors: &mut Vec<Diagnostic>) -> Option<()> {
    let spin = &mut machine.nic.spin;
    if spin.rules.is_empty() {
        return Some(());
    }
    let rules = spin.rules.iter().map(|text| Rule::parse(text, |path| std::fs::read(path))).collect::<Result<Vec<_>, _>>();
    let made = rules.map_err(|error| error.to_string()).and_then(|rules| match SpinPort::new(&spin.machine, &rules) {
        Ok(_) => Ok(rules),
        Err(error) => Err(error.to_string()),
    });
    match made {
        Ok(rules) => {
            spin.handlers = Some(Arc::new(HandlersConfig { machine: spin.machine.clone(), rules }));
            Some(())
        }
        Err(error) => {
            errors.push(layers.at(&format!("{prefix}nic.spin.rules"), error));
            None
        }
    }
}
