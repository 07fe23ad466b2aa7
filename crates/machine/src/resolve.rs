//! From layers of text to one machine: every key filled, then the machine checked as a whole (`check.rs`).

mod check;

use crate::Overrides;
use crate::keys::{self, Draft, table};
use crate::model::{Arbitration, Fabric, Machine};
use crate::node::{HOST, NODES_MAX};
use crate::presets::{PRESETS, preset};
use crate::source::{Layer, Layers, Leaf};
use crate::spin::read_rules;
use crate::wiring::TopologyKind;
use check::{Scope, check, check_network, check_processors, join};
use narrows_keys::{Diagnostic, Key, Only, Value, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file without a base that lacks more keys than this was not meant to give them all.
const FORGOTTEN_MAX: usize = 20;

/// The machine of a file's text.
pub(crate) fn resolve(name: &str, text: &str, overrides: &Overrides) -> Result<Machine, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let layers = read(name, text, overrides, &mut errors);
    build(&layers, &mut errors).ok_or_else(|| {
        let layer = |error: &Diagnostic| layers.layers.iter().position(|layer| layer.name == error.file);
        errors.sort_by_key(|error| (layer(error), error.line, error.column));
        errors
    })
}

/// `None` when there is an error.
fn build(layers: &Layers, errors: &mut Vec<Diagnostic>) -> Option<Machine> {
    if !errors.is_empty() {
        return None;
    }
    // Which keys there are depends on the groups, and which of them apply on the kinds of topology and NIC.
    let names = names(layers, "group", errors);
    let fabrics = self::names(layers, "fabric", errors);
    let [processors, buses] = ["processor.", "bus."].map(|prefix| sections(layers, prefix, errors));
    let mut draft = Draft::blank(&names, &fabrics, &processors, &buses);
    let defaults = keys::defaults();
    let kinds = chosen(layers, None);
    let kinds_of: BTreeMap<&str, Chosen> = fabrics.iter().map(|name| (name.as_str(), chosen(layers, Some(name)))).collect();
    let mut missing = Vec::new();
    for key in table(&mut draft) {
        if key.path == "node.count" && !names.is_empty() && layers.find("node.count").is_none() {
            continue;
        }
        let fabric = key.path.strip_prefix("fabric.").and_then(|rest| kinds_of.get(rest.split('.').next()?));
        fill(key, fabric.unwrap_or(&kinds), &defaults, layers, errors, &mut missing);
    }
    let file = &layers.layers[layers.file];
    if missing.len() > FORGOTTEN_MAX && layers.layers.len() == layers.file + 1 && errors.is_empty() {
        let what = match file.is_empty() {
            true => String::from("the file is empty"),
            false => format!("{} keys are missing, and there is no machine.base to give them", missing.len()),
        };
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let label = "expected base = \"bxi-v2\" in [machine], or another machine to start from";
        errors.push(layers.missing("machine.base", what).label(label).help(format!("presets: {}", names.join(", "))));
        return None;
    }
    errors.extend(missing);
    if !errors.is_empty() {
        return None;
    }
    let mut machine = draft.finish();
    arbitrate(&mut machine, layers);
    count_nodes(&mut machine, layers, errors);
    let before = errors.len();
    check_processors(&machine, layers, errors);
    // What follows looks processors up by their names.
    if errors.len() > before {
        return None;
    }
    join(&mut machine, layers, errors);
    if !errors.is_empty() {
        return None;
    }
    read_graph(&mut machine, layers, "", errors)?;
    read_rules(&mut machine, layers, "", errors)?;
    for Fabric { name, machine } in &mut machine.fabrics {
        read_graph(machine, layers, &format!("fabric.{name}."), errors)?;
        read_rules(machine, layers, &format!("fabric.{name}."), errors)?;
    }
    check(&machine, layers, errors);
    if machine.fabrics.is_empty() {
        check_network(&machine, &Scope { layers, fabric: None }, errors);
    }
    for Fabric { name, machine } in &machine.fabrics {
        let before = errors.len();
        check_network(machine, &Scope { layers, fabric: Some(name) }, errors);
        errors[before..].iter_mut().for_each(|error| error.of(&format!("network {name}")));
    }
    errors.is_empty().then_some(machine)
}

/// In the rings of a torus packets that turn in and those that come through take turns at each output, so beyond
/// saturation those from far away hardly get through (8 x 8 tornado at a load of 0.5: 0.05 of 0.33 with turns). Unless
/// the machine says otherwise the oldest goes first there.
fn arbitrate(machine: &mut Machine, layers: &Layers) {
    let says = |prefix: &str| layers.find(&format!("{prefix}switch.arbitration")).is_some();
    let oldest_first = |machine: &mut Machine, says: bool| {
        if machine.topology.kind == TopologyKind::Torus && !says {
            machine.switch.arbitration = Arbitration::Age;
        }
    };
    oldest_first(machine, says(""));
    for Fabric { name, machine } in &mut machine.fabrics {
        oldest_first(machine, says("") || says(&format!("fabric.{name}.")));
    }
}

/// Reads the graph of a wiring that comes from a file.
fn read_graph(machine: &mut Machine, layers: &Layers, prefix: &str, errors: &mut Vec<Diagnostic>) -> Option<()> {
    if machine.topology.kind == TopologyKind::File {
        let own = format!("{prefix}topology.path");
        let key = if layers.find(&own).is_some() { own.as_str() } else { "topology.path" };
        // From the file that names it; an override starts where the program was started. A machine that is saved, and
        // read from another folder, has the whole path.
        let folder = layers.find(key).and_then(|(layer, _)| Path::new(&layers.layers[layer].name).parent());
        let path = folder.map_or_else(|| PathBuf::from(&machine.topology.path), |folder| folder.join(&machine.topology.path));
        match std::fs::read_to_string(&path) {
            Ok(text) => machine.topology.text = text,
            Err(error) => {
                errors.push(layers.at(key, format!("cannot read {}: {error}", path.display())));
                return None;
            }
        }
        machine.topology.path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    }
    Some(())
}

/// The layers of a file, its overrides and its bases, the strongest first.
pub(crate) fn read(name: &str, text: &str, overrides: &Overrides, errors: &mut Vec<Diagnostic>) -> Layers {
    let mut layers: Vec<Layer> = overrides.nodes.map(Layer::nodes).into_iter().collect();
    // The last --set of a key wins.
    layers.extend(overrides.set.iter().rev().map(|text| Layer::set(text, errors)));
    let file = layers.len();
    layers.push(Layer::file(name, text, errors));
    let mut layers = Layers { layers, file };
    let mut from = 0;
    // Files by their real paths, presets by their names.
    let mut seen = vec![identity(name)];
    loop {
        // Overrides and the file may each name a base; below them, each base its own.
        let base = layers.layers[from..].iter().find_map(|layer| {
            let found = layer.leaf("machine.base")?;
            (!matches!(&found.value, Value::Text(text) if text.is_empty())).then(|| (layer, found.value_span.clone(), found.value.clone()))
        });
        let Some((layer, span, base)) = base else { break };
        let Value::Text(base) = base else {
            let message = format!("`machine.base`: found {}", base.describe());
            errors.push(layer.diagnostic(span, message).label("expected the name of a preset, or the path of a machine file"));
            break;
        };
        let (name, text) = match preset(&base) {
            Some(preset) => (format!("preset {}", preset.name), preset.text.to_owned()),
            None if is_path(&base) => {
                // From the file that names it; an override starts where the program was started.
                let path = Path::new(&layer.name).parent().map_or_else(|| PathBuf::from(&base), |folder| folder.join(&base));
                match std::fs::read_to_string(&path) {
                    Ok(text) => (path.display().to_string(), text),
                    Err(error) => {
                        errors.push(layer.diagnostic(span, format!("cannot read the base {}: {error}", path.display())));
                        break;
                    }
                }
            }
            None => {
                errors.push(unknown_base(layer, span, &base));
                break;
            }
        };
        let identity = identity(&name);
        if let Some(first) = seen.iter().position(|other| *other == identity) {
            let names = seen[first..].iter().chain([&identity]).map(|one| one.display().to_string());
            let circle = names.collect::<Vec<_>>().join(", then ");
            errors.push(layer.diagnostic(span, format!("the bases go round in a circle: {circle}")));
            break;
        }
        seen.push(identity);
        from = layers.layers.len();
        layers.layers.push(Layer::file(&name, &text, errors));
    }
    layers
}

/// Whether a base is meant as a file.
fn is_path(base: &str) -> bool {
    base.contains('/') || Path::new(base).extension().is_some_and(|extension| extension == "toml")
}

/// What tells a file or a preset from others.
fn identity(name: &str) -> PathBuf {
    std::fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name))
}

fn unknown_base(layer: &Layer, span: Range<usize>, base: &str) -> Diagnostic {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let label = match nearest(base, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "expected the name of a preset, or the path of a machine file, such as \"./base.toml\"".to_owned(),
    };
    layer.diagnostic(span, format!("no preset \"{}\"", base.escape_debug())).label(label).help(format!("presets: {}", names.join(", ")))
}

/// The groups of the machine, or its networks (`what`: `"group"`, `"fabric"`). A section of one that is not among them
/// is an error, unless it comes from a base of the file that names others.
fn names(layers: &Layers, what: &'static str, errors: &mut Vec<Diagnostic>) -> Vec<String> {
    let list = format!("machine.{what}s");
    let prefix = if what == "group" { "group." } else { "fabric." };
    let found = layers.find(&list);
    // What is no list of texts is a complaint of its own.
    let items: &[(Value, Range<usize>)] = match found {
        Some((_, Leaf { value: Value::Array(items), .. })) => items,
        _ => &[],
    };
    let mut names: Vec<String> = Vec::new();
    for (item, span) in items {
        let Value::Text(name) = item else { continue };
        let problem = match (is_simple(name), names.contains(name)) {
            (false, _) => format!("no name for a {what}: \"{}\"", name.escape_debug()),
            (true, true) => format!("two {what}s \"{name}\""),
            (true, false) => {
                names.push(name.clone());
                continue;
            }
        };
        let layer = found.map_or(layers.file, |(layer, _)| layer);
        let diagnostic = layers.layers[layer].diagnostic(span.clone(), problem);
        errors.push(diagnostic.label("expected different names of letters, digits, '-' and '_'"));
    }
    let last = found.map_or(usize::MAX, |(layer, _)| layer.max(layers.file));
    for layer in layers.layers.iter().take(last.saturating_add(1)) {
        for (name, span) in layer.named(prefix).filter(|(name, _)| !names.iter().any(|known| known == name)) {
            let label = match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("expected a name that {list} lists"),
            };
            let help = match names.is_empty() {
                true => format!("{what}s = [\"{name}\"] in [machine] makes a machine of this {what}"),
                false => format!("{list}: {}", names.join(", ")),
            };
            errors.push(layer.diagnostic(span, format!("no {what} `{name}`")).label(label).help(help));
        }
    }
    names
}

/// The processors beside the host's, or the buses: those that have a section anywhere.
fn sections(layers: &Layers, prefix: &'static str, errors: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for layer in &layers.layers {
        for (name, span) in layer.named(prefix) {
            if name == HOST || !is_simple(name) {
                let diagnostic =
                    layer.diagnostic(span, format!("no name for a {}: \"{}\"", prefix.trim_end_matches('.'), name.escape_debug()));
                let help = "\"host\" is the processor of [node]";
                errors.push(diagnostic.label("expected letters, digits, '-' and '_', and not \"host\"").help(help));
            }
            names.insert(name.to_owned());
        }
    }
    names.into_iter().collect()
}

/// What the names of groups, networks and processors are made of.
fn is_simple(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// The groups say how many nodes there are.
fn count_nodes(machine: &mut Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    if machine.groups.is_empty() {
        return;
    }
    let sum: u64 = machine.groups.iter().map(|group| u64::from(group.node.count)).sum();
    let parts = machine.groups.iter().map(|group| format!("{} {}", group.node.count, group.name)).collect::<Vec<_>>().join(", ");
    let given = layers.find("node.count").filter(|_| u64::from(machine.node.count) != sum);
    match (u32::try_from(sum).ok().filter(|&sum| sum <= NODES_MAX), given) {
        (None, _) => errors.push(
            layers
                .at("machine.groups", format!("the groups have {sum} nodes together: {parts}"))
                .label(format!("expected at most {}", NODES_MAX)),
        ),
        // Beside the groups, or above them.
        (_, Some((layer, leaf))) if layers.find("machine.groups").is_some_and(|(groups, _)| layer <= groups) => {
            let message = format!("{} nodes, and the groups have {sum}: {parts}", machine.node.count);
            let diagnostic = layers.layers[layer].diagnostic(leaf.value_span.clone(), message);
            errors.push(diagnostic.label("expected their sum, or nothing").help("group.NAME.count: the nodes of a group"));
        }
        (Some(sum), _) => machine.node.count = sum,
    }
}

/// What the layers choose of the keys that decide which others there are: the layer, and the value. One that is wrong
/// is not here.
type Chosen = BTreeMap<&'static str, (usize, String)>;

/// Of the machine, or one of its networks.
fn chosen(layers: &Layers, fabric: Option<&str>) -> Chosen {
    let mut draft = keys::generic();
    let mut keys = keys::table(&mut draft);
    let selectors: BTreeSet<&str> = keys.iter().filter_map(|key| Some(key.only.as_ref()?.selector)).collect();
    let of = |selector: &'static str| {
        let key = keys.iter_mut().find(|key| key.path == selector).expect("what decides is a key");
        let own = fabric.map(|name| format!("fabric.{name}.{selector}")).and_then(|own| layers.find(&own));
        let (layer, value) = match own.or_else(|| layers.find(selector)) {
            Some((layer, leaf)) => (layer, leaf.value.clone()),
            None => (usize::MAX, Value::of_default(key.default?)),
        };
        key.field.set(&value, key.limits).ok()?;
        let Value::Text(kind) = value else { return None };
        Some((selector, (layer, kind)))
    };
    selectors.into_iter().filter_map(of).collect()
}

fn fill(
    mut key: Key<'_>,
    chosen: &Chosen,
    defaults: &BTreeMap<String, &'static str>,
    layers: &Layers,
    errors: &mut Vec<Diagnostic>,
    missing: &mut Vec<Diagnostic>,
) {
    if let Some(Only { selector, values }) = &key.only {
        // Without a kind there is one complaint already.
        let Some(&(layer_of_kind, ref kind)) = chosen.get(selector) else { return };
        if !values.contains(&kind.as_str()) {
            // A base that another layer gives a new kind may keep the keys of the old one.
            // Overrides are one layer in this.
            let last = if layer_of_kind < layers.file { layers.file - 1 } else { layer_of_kind };
            if let Some((layer, leaf)) = layers.find_until(&key.path, last) {
                let owners: Vec<String> = values.iter().map(|name| format!("\"{name}\"")).collect();
                let message = format!("`{}` belongs to {selector} = {}, not to \"{kind}\"", key.name(), owners.join(" or "));
                let help = keys::help_on_kind(selector, kind);
                errors.push(layers.layers[layer].diagnostic(leaf.value_span.clone(), message).help(help));
            }
            return;
        }
    }
    let found = layers.find(&key.path).or_else(|| layers.find(key.otherwise.as_deref()?));
    let default = key.default.or_else(|| defaults.get(key.otherwise.as_deref()?).copied());
    let problem = match found {
        Some((layer, leaf)) => key.field.set(&leaf.value, key.limits).err().map(|problem| {
            let span = problem.span.unwrap_or_else(|| leaf.value_span.clone());
            layers.layers[layer].diagnostic(span, format!("`{}`: {}", key.path, problem.message)).label(problem.label).help(problem.help)
        }),
        None => match default {
            Some(default) => {
                key.set_default(default);
                None
            }
            // The other key is missing.
            None if key.otherwise.is_some() && key.only.is_none() => None,
            None => {
                let section = key.section();
                let message = format!("missing key `{}` in [{section}]", key.name());
                missing.push(
                    layers.missing(&key.path, message).label(key.field.expected(key.limits)).help(format!("{}: {}", key.path, key.doc)),
                );
                None
            }
        },
    };
    // What another key says wrong, that one complains about.
    errors.extend(problem.filter(|_| key.otherwise.is_none() || layers.find(&key.path).is_some()));
}

/// What a resolved machine's keys hold, in the order of the table.
pub(crate) fn entries(machine: &Machine) -> Vec<(String, Value)> {
    let mut draft = Draft::of(machine);
    let keys = table(&mut draft);
    let values: BTreeMap<String, Value> = keys.iter().map(|key| (key.path.clone(), key.field.get())).collect();
    // A network may have what decides for itself.
    let applies = |key: &Key<'_>| {
        key.only.as_ref().is_none_or(|only| {
            let fabric = key.path.strip_prefix("fabric.").and_then(|rest| rest.split('.').next());
            let own = fabric.and_then(|name| values.get(&format!("fabric.{name}.{}", only.selector)));
            matches!(own.or_else(|| values.get(only.selector)), Some(Value::Text(kind)) if only.values.contains(&kind.as_str()))
        })
    };
    let paths: Vec<String> = keys.iter().filter(|key| key.path != "machine.base" && applies(key)).map(|key| key.path.clone()).collect();
    paths.into_iter().map(|path| (path.clone(), values[&path].clone())).collect()
}
