//! Text to values with places: a machine file and its overrides as layers, the first one wins.

use crate::keys;
use narrows_keys::{Diagnostic, Value, nearest};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => Value::Integer(i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()),
        DeValue::Float(number) => Value::Decimal(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| (value_of(item.get_ref()), item.span())).collect()),
        DeValue::Table(_) => Value::Other("a section"),
    }
}

/// One key with its value and place.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub path: String,
    pub value: Value,
    pub value_span: Range<usize>,
}

/// One text: a file, a preset or an override.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// For messages.
    pub name: String,
    pub text: String,
    leaves: Vec<Leaf>,
    sections: Vec<(String, Range<usize>)>,
}

impl Layer {
    /// Reads a file's text. Unknown keys and syntax errors go to `errors`.
    pub(crate) fn file(name: &str, text: &str, errors: &mut Vec<Diagnostic>) -> Layer {
        let mut layer = Layer { name: name.to_owned(), text: text.to_owned(), leaves: Vec::new(), sections: Vec::new() };
        let (table, syntax) = DeTable::parse_recoverable(text);
        if syntax.is_empty() {
            layer.collect(table.get_ref(), "", errors);
        }
        for error in syntax {
            errors.push(layer.diagnostic(error.span().unwrap_or(0..0), format!("not TOML: {}", error.message())));
        }
        layer.spell_out();
        layer
    }

    /// `switch.arbitration = "islip:4"` gives the iterations too, and `"output"` is what outputs do by themselves.
    fn spell_out(&mut self) {
        let mut iterations = Vec::new();
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.path.ends_with("switch.arbitration")) {
            let Value::Text(text) = &mut leaf.value else { continue };
            if let Some(number) = text.strip_prefix("islip:").and_then(|number| number.parse::<u32>().ok()) {
                let path = leaf.path.replace("switch.arbitration", "switch.iterations");
                iterations.push(Leaf { path, value: Value::Integer(Some(number.into())), value_span: leaf.value_span.clone() });
                *text = String::from("islip");
            } else if text == "output" {
                *text = String::from("round-robin");
            }
        }
        self.leaves.extend(iterations);
    }

    /// Reads `--set key.path=value`. The value may go without its quotes.
    pub(crate) fn set(text: &str, errors: &mut Vec<Diagnostic>) -> Layer {
        let mut layer = Layer::read_set(text, errors);
        layer.spell_out();
        layer
    }

    fn read_set(text: &str, errors: &mut Vec<Diagnostic>) -> Layer {
        let mut layer = Layer { name: "--set".to_owned(), text: text.to_owned(), leaves: Vec::new(), sections: Vec::new() };
        if let Some((leaf, found)) = layer.short(text) {
            match found.as_slice() {
                [path] => {
                    layer.leaves.push(Leaf { path: (*path).to_owned(), ..leaf });
                    return layer;
                }
                [] => {}
                several => {
                    let message = format!("`{}` could be {}", leaf.path, several.join(", "));
                    errors.push(layer.diagnostic(0..leaf.path.len(), message).label("expected one of these"));
                    return layer;
                }
            }
        }
        if let Ok(table) = DeTable::parse(text) {
            let before = errors.len();
            layer.collect(table.get_ref(), "", errors);
            if layer.leaves.is_empty() && errors.len() == before {
                errors.push(layer.diagnostic(0..text.len(), "expected KEY.PATH=VALUE, such as nic.put_occupancy=250ns"));
            }
            return layer;
        }
        let Some((key, value)) = text.split_once('=') else {
            errors.push(layer.diagnostic(0..text.len(), "expected KEY.PATH=VALUE, such as nic.put_occupancy=250ns"));
            return layer;
        };
        // The same with a value that surely parses, then put the raw text in its place.
        let stand_in = format!("{key}=0");
        match DeTable::parse(&stand_in) {
            Ok(table) => {
                layer.collect(table.get_ref(), "", errors);
                let start = key.len() + 1 + (value.len() - value.trim_start().len());
                for leaf in &mut layer.leaves {
                    leaf.value = Value::Text(value.trim().to_owned());
                    leaf.value_span = start..text.trim_end().len().max(start);
                }
            }
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let span = span.start.min(key.len())..span.end.min(key.len());
                errors.push(layer.diagnostic(span, format!("not a key: {}", error.message())));
            }
        }
        layer
    }

    /// A last name alone, `routing=ugal-l`, and the keys that end with it.
    fn short(&self, text: &str) -> Option<(Leaf, Vec<&'static str>)> {
        let (name, value) = text.split_once('=')?;
        let key = name.trim();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || keys::is_section(key) {
            return None;
        }
        let found: Vec<&str> = keys::paths().filter(|path| path.rsplit('.').next() == Some(key) && !path.contains(keys::NAME)).collect();
        let start = name.len() + 1 + (value.len() - value.trim_start().len());
        let value = match DeTable::parse(text) {
            Ok(table) => table.get_ref().iter().next().map(|(_, value)| value_of(value.get_ref()))?,
            Err(_) => Value::Text(value.trim().to_owned()),
        };
        Some((Leaf { path: key.to_owned(), value, value_span: start..text.trim_end().len().max(start) }, found))
    }

    /// `--nodes N`
    pub(crate) fn nodes(count: u32) -> Layer {
        let text = count.to_string();
        let value_span = 0..text.len();
        let leaf = Leaf { path: "node.count".to_owned(), value: Value::Integer(Some(i64::from(count))), value_span };
        Layer { name: "--nodes".to_owned(), text, leaves: vec![leaf], sections: Vec::new() }
    }

    fn collect(&mut self, table: &DeTable<'_>, section: &str, errors: &mut Vec<Diagnostic>) {
        for (key, value) in table.iter() {
            let name: &str = key.get_ref();
            let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            // A quoted key may hold dots; such a path would lead elsewhere.
            let plain = !name.contains('.');
            if plain && keys::is_section(&path) {
                match value.get_ref() {
                    DeValue::Table(inner) => {
                        self.sections.push((path.clone(), key.span()));
                        self.collect(inner, &path, errors);
                    }
                    other => {
                        let found = value_of(other).describe();
                        errors.push(
                            self.diagnostic(value.span(), format!("`{path}` is a section; found {found}"))
                                .label(format!("expected [{path}] and its keys"))
                                .help(keys::help(&path)),
                        );
                    }
                }
            } else if plain && keys::is_key(&path) {
                self.leaves.push(Leaf { path, value: value_of(value.get_ref()), value_span: value.span() });
            } else {
                errors.push(self.unknown(name, section, key.span(), matches!(value.get_ref(), DeValue::Table(_))));
            }
        }
    }

    fn unknown(&self, name: &str, section: &str, span: Range<usize>, is_table: bool) -> Diagnostic {
        let here = keys::names_in(section);
        let what = if is_table { "section" } else { "key" };
        let place = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
        let shown: String = name.chars().take(60).collect();
        let diagnostic = self.diagnostic(span, format!("unknown {what} `{shown}`{place}"));
        let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        if let Some((_, today)) = keys::FORMER.iter().find(|(former, _)| *former == keys::of_any_name(&path)) {
            return diagnostic.label(*today);
        }
        let diagnostic = match nearest(name, here.iter().copied()) {
            Some(near) => diagnostic.label(format!("did you mean `{near}`?")),
            // Right name, wrong section?
            None => match keys::paths().find(|path| path.rsplit('.').next() == Some(name)) {
                Some(path) => diagnostic.label(format!("did you mean `{path}`?")),
                None => match nearest(name, keys::paths().filter_map(|path| path.rsplit('.').next())) {
                    Some(near) => match keys::paths().find(|path| path.rsplit('.').next() == Some(near)) {
                        Some(path) => diagnostic.label(format!("did you mean `{path}`?")),
                        None => diagnostic,
                    },
                    None => diagnostic,
                },
            },
        };
        diagnostic.help(keys::help(section))
    }

    /// No key and no section, right or wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.sections.is_empty()
    }

    /// The value of `path` in this text.
    pub(crate) fn leaf(&self, path: &str) -> Option<&Leaf> {
        self.leaves.iter().find(|leaf| leaf.path == path)
    }

    /// The names that have keys here behind `prefix`, such as `"group."`, each once, and where.
    pub(crate) fn named(&self, prefix: &'static str) -> impl Iterator<Item = (&str, Range<usize>)> {
        let sections = self.sections.iter().map(|(path, span)| (path.as_str(), span));
        let leaves = self.leaves.iter().map(|leaf| (leaf.path.as_str(), &leaf.value_span));
        let mut seen = Vec::new();
        sections.chain(leaves).filter_map(move |(path, span)| {
            let name = path.strip_prefix(prefix)?.split('.').next()?;
            let first = !seen.contains(&name);
            seen.push(name);
            first.then(|| (name, span.clone()))
        })
    }

    /// A complaint about a place of this text.
    pub(crate) fn diagnostic(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.name, &self.text, span, message)
    }

    /// Where a missing key should have been: the heading of its section, or of the next one around it.
    fn heading(&self, path: &str) -> Range<usize> {
        let mut section = path;
        while let Some((outer, _)) = section.rsplit_once('.') {
            section = outer;
            if let Some((_, span)) = self.sections.iter().find(|(name, _)| name == section) {
                return span.clone();
            }
        }
        0..0
    }
}

/// All texts that make one machine, the strongest first: overrides, the file, its bases.
#[derive(Debug)]
pub(crate) struct Layers {
    pub layers: Vec<Layer>,
    /// Index of the file that was asked for.
    pub file: usize,
}

impl Layers {
    /// The value of `path` and the layer that gives it.
    pub(crate) fn find(&self, path: &str) -> Option<(usize, &Leaf)> {
        self.layers.iter().enumerate().find_map(|(at, layer)| Some((at, layer.leaf(path)?)))
    }

    /// The same, among the layers from the strongest to `last`.
    pub(crate) fn find_until(&self, path: &str, last: usize) -> Option<(usize, &Leaf)> {
        self.find(path).filter(|&(at, _)| at <= last)
    }

    /// A complaint about the value of `path`, wherever it comes from.
    pub(crate) fn at(&self, path: &str, message: impl Into<String>) -> Diagnostic {
        match self.find(path) {
            Some((layer, leaf)) => self.layers[layer].diagnostic(leaf.value_span.clone(), message),
            None => self.missing(path, message),
        }
    }

    /// A complaint about a key that is nowhere.
    pub(crate) fn missing(&self, path: &str, message: impl Into<String>) -> Diagnostic {
        let file = &self.layers[self.file];
        file.diagnostic(file.heading(path), message)
    }
}
