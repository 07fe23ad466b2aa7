//! `[nic.spin]`: handlers that run on NICs which match, and the machine that runs them.

use crate::MachineError;
use crate::model::Machine;
use crate::source::Layers;
use crate::write::quote;
use narrows_keys::{Diagnostic, Field, Key, Keys, Only};
use narrows_nic::{HandlersConfig, Rule, SpinConfig, SpinPort};
use serde::Deserialize;
use std::path::Path;
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
    let made = made.map(|rules| HandlersConfig { machine: spin.machine.clone(), rules }).and_then(|handlers| match handlers.fits() {
        true => Ok(handlers),
        false => Err(format!("rules with comm, datatype, entry or unpack must be among the first {}", HandlersConfig::RULES_MAX)),
    });
    match made {
        Ok(handlers) => {
            spin.handlers = Some(Arc::new(handlers));
            Some(())
        }
        Err(error) => {
            errors.push(layers.at(&format!("{prefix}nic.spin.rules"), error));
            None
        }
    }
}

/// A file of `--handlers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Rules>,
}

/// One of its rules: the words of a text of `nic.spin.rules`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    handler: String,
    size: Option<Word>,
    tag: Option<u64>,
    bits: Option<String>,
    pt: Option<u64>,
    communicator: Option<String>,
    datatype: Option<String>,
    entry: Option<bool>,
    memory: Option<Word>,
    scratchpad: Option<Word>,
    window: Option<Word>,
}

/// A size: a number of bytes, or a text with a unit or two ends.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Number(number) => write!(f, "{number}"),
            // "4 KiB" is one word there.
            Word::Text(text) => f.write_str(&text.replace(' ', "")),
        }
    }
}

impl Rules {
    /// As a text. Handlers that are files are found from the folder of the file of rules.
    fn text(&self, folder: &Path) -> String {
        let file = folder.join(&self.handler);
        let handler = if file.is_file() { file.display().to_string() } else { self.handler.clone() };
        let of = |key: &str, value: Option<&dyn std::fmt::Display>| value.map(|value| format!(" {key}={value}")).unwrap_or_default();
        fn shown<T: std::fmt::Display>(value: &Option<T>) -> Option<&dyn std::fmt::Display> {
            value.as_ref().map(|value| value as &dyn std::fmt::Display)
        }
        let words = [
            of("size", shown(&self.size)),
            of("tag", shown(&self.tag)),
            of("bits", shown(&self.bits)),
            of("pt", shown(&self.pt)),
            of("comm", shown(&self.communicator)),
            of("datatype", shown(&self.datatype)),
            of("memory", shown(&self.memory)),
            of("scratchpad", shown(&self.scratchpad)),
            of("window", shown(&self.window)),
        ];
        let entry = if self.entry == Some(true) { " entry" } else { "" };
        format!("{handler}{}{entry}", words.concat())
    }
}

/// The rules of a file of `--handlers`, as a change of `nic.spin.rules`.
///
/// # Errors
/// The file cannot be read, is no TOML, or has no rules; names of files and of communicators may have no spaces.
pub fn handlers_file(path: &Path) -> Result<String, MachineError> {
    let wrong = |error: String| MachineError::Rules { path: path.display().to_string(), error };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let line = 1 + error.span().map_or(0, |span| text[..span.start].matches('\n').count());
        wrong(format!("line {line}: {}", error.message().replace('\n', " ")))
    })?;
    if file.rule.is_empty() {
        return Err(wrong(String::from("no rules; expected tables [[rule]] with a handler, and tag, size, communicator, datatype")));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    for name in file.rule.iter().flat_map(|rule| [Some(&rule.handler), rule.communicator.as_ref(), rule.datatype.as_ref()]).flatten() {
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong(format!("\"{name}\" is empty or has spaces; expected a name without them (MPI_Comm_set_name gives one)")));
        }
    }
    let texts: Vec<String> = file.rule.iter().map(|rule| quote(&rule.text(folder))).collect();
    Ok(format!("nic.spin.rules=[{}]", texts.join(", ")))
}
