//! From layers of text to one machine: every key filled, then the machine checked as a whole (`check.rs`).

mod check;

use crate::diagnostic::{Diagnostic, nearest};
use crate::keys::{self, Draft, Field, Key, Kinds, Only, POWER_MAX, RATE_MAX, RATE_MIN, SIZE_MAX, TIME_MAX, table};
use crate::model::{Ber, Choice, Fabric, Machine, MessageProtocol, NicKind, PathOr, Speed, SwitchOr};
use crate::presets::{PRESETS, preset};
use crate::source::{Layer, Layers, Leaf, Value};
use crate::wiring::TopologyKind;
use crate::{Overrides, quantity};
use check::{Scope, check, check_network, join};
use narrows_fabric::Fraction;
use narrows_units::parse::QuantityError;
use narrows_units::{ByteRate, Power, SimTime};
use std::collections::BTreeMap;
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
    let mut draft = Draft::blank(&names, &fabrics);
    let kinds = chosen(layers, None);
    let kinds_of: BTreeMap<&str, Chosen> = fabrics.iter().map(|name| (name.as_str(), chosen(layers, Some(name)))).collect();
    let mut missing = Vec::new();
    for key in table(&mut draft) {
        if key.path == "node.count" && !names.is_empty() && layers.find("node.count").is_none() {
            continue;
        }
        let fabric = key.path.strip_prefix("fabric.").and_then(|rest| kinds_of.get(rest.split('.').next()?));
        let kinds = fabric.copied().unwrap_or(kinds);
        fill(key, kinds, layers, errors, &mut missing);
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
    count_nodes(&mut machine, layers, errors);
    join(&mut machine, layers, errors);
    if !errors.is_empty() {
        return None;
    }
    read_graph(&mut machine, layers, "", errors)?;
    for Fabric { name, machine } in &mut machine.fabrics {
        read_graph(machine, layers, &format!("fabric.{name}."), errors)?;
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

/// Reads the graph of a wiring that comes from a file.
fn read_graph(machine: &mut Machine, layers: &Layers, prefix: &str, errors: &mut Vec<Diagnostic>) -> Option<()> {
    if machine.topology.kind == TopologyKind::File {
        let path = &machine.topology.path;
        match std::fs::read_to_string(path) {
            Ok(text) => machine.topology.text = text,
            Err(error) => {
                errors.push(layers.at(&format!("{prefix}topology.path"), format!("cannot read {path}: {error}")));
                return None;
            }
        }
    }
    Some(())
}

fn read(name: &str, text: &str, overrides: &Overrides, errors: &mut Vec<Diagnostic>) -> Layers {
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
        let simple = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let problem = match (simple, names.contains(name)) {
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

/// The groups say how many nodes there are.
fn count_nodes(machine: &mut Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    if machine.groups.is_empty() {
        return;
    }
    let sum: u64 = machine.groups.iter().map(|group| u64::from(group.node.count)).sum();
    let parts = machine.groups.iter().map(|group| format!("{} {}", group.node.count, group.name)).collect::<Vec<_>>().join(", ");
    let given = layers.find("node.count").filter(|_| u64::from(machine.node.count) != sum);
    match (u32::try_from(sum).ok().filter(|&sum| sum <= keys::NODES_MAX), given) {
        (None, _) => errors.push(
            layers
                .at("machine.groups", format!("the groups have {sum} nodes together: {parts}"))
                .label(format!("expected at most {}", keys::NODES_MAX)),
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

/// What the layers choose of the keys that decide which others there are, and by which layer: a value that is none is
/// not here.
#[derive(Clone, Copy)]
struct Chosen {
    topology: Option<(usize, TopologyKind)>,
    nic: Option<(usize, NicKind)>,
    protocol: Option<(usize, MessageProtocol)>,
}

impl Chosen {
    /// The kinds, and the layer that chose the one on which `only` depends; `None` without that one.
    fn kinds(self, only: &Only) -> Option<(usize, Kinds)> {
        let layer = match only {
            Only::All => 0,
            Only::Topology(_) => self.topology?.0,
            Only::Nic(_) => self.nic?.0,
            Only::Protocol(_) => self.protocol?.0,
        };
        let topology = self.topology.map_or(TopologyKind::SingleSwitch, |(_, kind)| kind);
        let nic = self.nic.map_or(NicKind::BxiV2, |(_, kind)| kind);
        Some((layer, Kinds { topology, nic, protocol: self.protocol.map_or(MessageProtocol::Openmpi, |(_, protocol)| protocol) }))
    }
}

/// Of the machine, or one of its networks.
fn chosen(layers: &Layers, fabric: Option<&str>) -> Chosen {
    let own = |path: &str| fabric.map(|name| format!("fabric.{name}.{path}")).filter(|own| layers.find(own).is_some());
    let path = |path: &str| own(path).unwrap_or_else(|| path.to_owned());
    // A machine that does not say has the NIC of which the defaults are.
    let nic = layers.find(&path("nic.kind")).is_none().then_some((usize::MAX, NicKind::BxiV2));
    let protocol = layers.find("message.protocol").is_none().then_some((usize::MAX, MessageProtocol::Openmpi));
    Chosen {
        protocol: protocol.or_else(|| choice(layers, "message.protocol", MessageProtocol::Openmpi)),
        topology: choice(layers, &path("topology.kind"), TopologyKind::SingleSwitch),
        nic: nic.or_else(|| choice(layers, &path("nic.kind"), NicKind::BxiV2)),
    }
}

/// The layer that makes a choice, and the choice if it is one.
fn choice<C: Choice>(layers: &Layers, path: &str, mut kind: C) -> Option<(usize, C)> {
    let (layer, leaf) = layers.find(path)?;
    let Value::Text(text) = &leaf.value else { return None };
    let index = kind.names().iter().position(|name| name == text)?;
    kind.choose(index);
    Some((layer, kind))
}

fn fill(mut key: Key<'_>, chosen: Chosen, layers: &Layers, errors: &mut Vec<Diagnostic>, missing: &mut Vec<Diagnostic>) {
    let mut found = layers.find(&key.path).or_else(|| layers.find(key.otherwise?));
    if let Some((selector, owners)) = key.only.owners() {
        // Without a kind there is one complaint already.
        let Some((layer_of_kind, kinds)) = chosen.kinds(&key.only) else { return };
        if !key.applies_to(kinds) {
            // A base that another layer gives a new kind may keep the keys of the old one.
            // Overrides are one layer in this.
            let last = if layer_of_kind < layers.file { layers.file - 1 } else { layer_of_kind };
            if let Some((layer, leaf)) = layers.find_until(&key.path, last) {
                let kind = kinds.value_of(selector);
                let owners: Vec<String> = owners.iter().map(|name| format!("\"{name}\"")).collect();
                let message = format!("`{}` belongs to {selector} = {}, not to \"{kind}\"", key.name(), owners.join(" or "));
                let help = keys::help_on_kind(selector, kinds);
                errors.push(layers.layers[layer].diagnostic(leaf.value_span.clone(), message).help(help));
            }
            return;
        }
        found = layers.find(&key.path).or_else(|| layers.find(key.otherwise?));
    }
    let default = key
        .default
        .clone()
        .or_else(|| table(&mut Draft::blank(&[], &[])).into_iter().find(|other| Some(&*other.path) == key.otherwise)?.default);
    let problem = match found {
        Some((layer, leaf)) => set(&mut key.field, &leaf.value).err().map(|problem| {
            let span = problem.span.unwrap_or_else(|| leaf.value_span.clone());
            layers.layers[layer].diagnostic(span, format!("`{}`: {}", key.path, problem.message)).label(problem.label).help(problem.help)
        }),
        None => match &default {
            Some(default) => {
                let value = match default.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    Some(text) => Value::Text(text.to_owned()),
                    None if default == "[]" => Value::Array(Vec::new()),
                    None if default.contains('.') => Value::Decimal(default.to_string()),
                    None => match default.parse() {
                        Ok(flag) => Value::Boolean(flag),
                        Err(_) => Value::Integer(default.parse().ok()),
                    },
                };
                let result = set(&mut key.field, &value);
                assert!(result.is_ok(), "the default of {} is a value of its own kind", key.path);
                None
            }
            // The other key is missing.
            None if key.otherwise.is_some() && key.only.owners().is_none() => None,
            None => {
                let section = key.section();
                let message = format!("missing key `{}` in [{section}]", key.name());
                missing.push(layers.missing(&key.path, message).label(expected(&key.field)).help(format!("{}: {}", key.path, key.doc)));
                None
            }
        },
    };
    // What another key says wrong, that one complains about.
    errors.extend(problem.filter(|_| key.otherwise.is_none() || layers.find(&key.path).is_some()));
}

struct Problem {
    message: String,
    label: String,
    help: String,
    span: Option<Range<usize>>,
}

impl Problem {
    fn new(message: impl Into<String>, label: impl Into<String>) -> Problem {
        Problem { message: message.into(), label: label.into(), help: String::new(), span: None }
    }
}

/// What a field takes, in words.
pub(crate) fn expected(field: &Field<'_>) -> String {
    match field {
        Field::Text(_) => "expected a text".to_owned(),
        Field::HostPattern(_) => "expected a host name with a place for the node index, such as \"node{:03}\"".to_owned(),
        Field::Count(_, least, most) => format!("expected a whole number from {least} to {most}"),
        Field::Counts(_) => "expected a list of whole numbers, one per level, such as [24, 10]".to_owned(),
        Field::Indices(_) => "expected a list of whole numbers, such as [3, 17]".to_owned(),
        Field::Texts(_) => "expected a list of texts, such as [\"3-17\"]".to_owned(),
        Field::Time(..) => "expected a time with its unit, such as \"250 ns\"".to_owned(),
        Field::Size(..) => "expected a size with its unit, such as \"9 KiB\"".to_owned(),
        Field::Rate(_) => "expected a bandwidth with its unit, such as \"100 Gbit/s\"".to_owned(),
        Field::Power(_) => "expected a power with its unit, such as \"16.2 W\"".to_owned(),
        Field::Choice(choice) => format!("expected one of {}", quoted(choice.names())),
        Field::Choices(choices) => format!("expected one of {}, or a list of {} of them", quoted(choices[0].names()), choices.len()),
        Field::Flag(_) => "expected true or false".to_owned(),
        Field::Ber(_) => "expected a number, such as 1e-5".to_owned(),
        Field::Speed(_) | Field::Fraction(..) => "expected a number, such as 0.5".to_owned(),
        Field::PathOrTime(_) => "expected \"path\", or a time with its unit, such as \"1 us\"".to_owned(),
        Field::PathOrRate(_) => "expected \"path\", or a bandwidth with its unit, such as \"100 Gbit/s\"".to_owned(),
        Field::SwitchOrTime(_) => "expected \"switch\", or a time with its unit, such as \"1 us\"".to_owned(),
        Field::SwitchOrRate(_) => "expected \"switch\", or a bandwidth with its unit, such as \"100 Gbit/s\"".to_owned(),
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

fn choose(field: &mut dyn Choice, value: &Value, label: &str) -> Result<(), Problem> {
    let Value::Text(text) = value else { return Err(Problem::new(format!("found {}", value.describe()), label)) };
    let Some(index) = field.names().iter().position(|name| name == text) else {
        let near = nearest(text, field.names().iter().copied());
        let found = near.map_or_else(|| label.to_owned(), |near| format!("did you mean \"{near}\"?"));
        let help = if near.is_some() { label.to_owned() } else { String::new() };
        return Err(Problem { help, ..Problem::new(format!("unknown choice, {}", value.describe()), found) });
    };
    field.choose(index);
    Ok(())
}

fn set(field: &mut Field<'_>, value: &Value) -> Result<(), Problem> {
    let label = expected(field);
    let wrong_type = || Problem::new(format!("found {}", value.describe()), label.clone());
    match field {
        Field::Text(field) => match value {
            Value::Text(text) => **field = text.clone(),
            _ => return Err(wrong_type()),
        },
        Field::HostPattern(field) => match value {
            Value::Text(text) => **field = text.parse().map_err(|error| Problem::new(format!("{error}"), label.clone()))?,
            _ => return Err(wrong_type()),
        },
        Field::Count(field, least, most) => **field = count(value, *least, *most, &label)?,
        // 2^16: the most ports of a switch.
        Field::Counts(field) => **field = counts(value, 1, 1 << 16, &label)?,
        // 2^22: the most vertices of a network.
        Field::Indices(field) => **field = counts(value, 0, 1 << 22, &label)?,
        Field::Texts(field) => match value {
            Value::Array(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for (item, span) in items {
                    match item {
                        Value::Text(text) => texts.push(text.clone()),
                        _ => return Err(Problem { span: Some(span.clone()), ..Problem::new(format!("found {}", item.describe()), label) }),
                    }
                }
                **field = texts;
            }
            _ => return Err(wrong_type()),
        },
        Field::Time(field, least) => {
            **field = quantity_of(value, &label)?;
            range(**field, *least, TIME_MAX, quantity::time)?;
        }
        Field::Size(field, least) => {
            **field = quantity_of(value, &label)?;
            range(**field, *least, SIZE_MAX, quantity::size)?;
        }
        Field::Rate(field) => {
            **field = quantity_of(value, &label)?;
            range(**field, RATE_MIN, RATE_MAX, quantity::rate)?;
        }
        Field::Power(field) => {
            **field = quantity_of(value, &label)?;
            range(**field, Power(0), POWER_MAX, quantity::power)?;
        }
        Field::Speed(field) => {
            let number: f64 = match value {
                Value::Integer(Some(number)) => *number as f64,
                Value::Decimal(text) => text.parse().unwrap_or(f64::NAN),
                _ => return Err(wrong_type()),
            };
            // Not a number is not in any range.
            if !(1e-3..=1e6).contains(&number) {
                return Err(Problem::new(format!("{number} is out of range"), "expected 0.001 to 1000000"));
            }
            **field = Speed((number * 1e6).round() as u64);
        }
        Field::Ber(field) => {
            let number: f64 = match value {
                Value::Integer(Some(number)) => *number as f64,
                Value::Decimal(text) => text.parse().unwrap_or(f64::NAN),
                _ => return Err(wrong_type()),
            };
            let out = || Problem::new(format!("{number} is out of range"), "expected 0 to 0.1");
            **field = Ber::new(number).ok_or_else(out)?;
        }
        Field::Fraction(field, most) => {
            let number: f64 = match value {
                Value::Integer(Some(number)) => *number as f64,
                Value::Decimal(text) => text.parse().unwrap_or(f64::NAN),
                _ => return Err(wrong_type()),
            };
            if !(1e-6..=f64::from(*most) / 1e6).contains(&number) {
                let end = if *most == 1_000_000 { "at most 1" } else { "below 1" };
                return Err(Problem::new(format!("{number} is out of range"), format!("expected a number above 0 and {end}")));
            }
            **field = Fraction((number * 1e6).round() as u32);
        }
        Field::Flag(field) => match value {
            Value::Boolean(flag) => **field = *flag,
            _ => return Err(wrong_type()),
        },
        Field::Choice(field) => choose(*field, value, &label)?,
        Field::Choices(fields) => match value {
            Value::Array(items) if items.len() != fields.len() => {
                return Err(Problem::new(format!("a list of {}", items.len()), label));
            }
            Value::Array(items) => {
                for (field, (item, span)) in fields.iter_mut().zip(items) {
                    choose(*field, item, &label).map_err(|problem| Problem { span: Some(span.clone()), ..problem })?;
                }
            }
            _ => fields.iter_mut().try_for_each(|field| choose(*field, value, &label))?,
        },
        Field::PathOrTime(field) => match value {
            Value::Text(text) if text == "path" => **field = PathOr::Path,
            _ => {
                let time: SimTime = quantity_of(value, &label)?;
                range(time, SimTime::ZERO, TIME_MAX, quantity::time)?;
                **field = PathOr::Fixed(time);
            }
        },
        Field::SwitchOrTime(field) => match value {
            Value::Text(text) if text == "switch" => **field = SwitchOr::Switch,
            _ => {
                let time: SimTime = quantity_of(value, &label)?;
                range(time, SimTime::ZERO, TIME_MAX, quantity::time)?;
                **field = SwitchOr::Own(time);
            }
        },
        Field::SwitchOrRate(field) => match value {
            Value::Text(text) if text == "switch" => **field = SwitchOr::Switch,
            _ => {
                let rate: ByteRate = quantity_of(value, &label)?;
                range(rate, RATE_MIN, RATE_MAX, quantity::rate)?;
                **field = SwitchOr::Own(rate);
            }
        },
        Field::PathOrRate(field) => match value {
            Value::Text(text) if text == "path" => **field = PathOr::Path,
            _ => {
                let rate: ByteRate = quantity_of(value, &label)?;
                range(rate, RATE_MIN, RATE_MAX, quantity::rate)?;
                **field = PathOr::Fixed(rate);
            }
        },
    }
    Ok(())
}

fn counts(value: &Value, least: u32, most: u32, label: &str) -> Result<Vec<u32>, Problem> {
    let Value::Array(items) = value else { return Err(Problem::new(format!("found {}", value.describe()), label)) };
    let each = format!("expected a whole number from {least} to {most}");
    let of = |(item, span): &(Value, Range<usize>)| {
        count(item, least, most, &each).map_err(|problem| Problem { span: Some(span.clone()), ..problem })
    };
    items.iter().map(of).collect()
}

fn count(value: &Value, least: u32, most: u32, label: &str) -> Result<u32, Problem> {
    match value {
        Value::Integer(Some(number)) => match u32::try_from(*number) {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(Problem::new(format!("{number} is out of range"), label)),
        },
        _ => Err(Problem::new(format!("found {}", value.describe()), label)),
    }
}

fn quantity_of<T: std::str::FromStr<Err = QuantityError>>(value: &Value, label: &str) -> Result<T, Problem> {
    match value {
        Value::Text(text) => text.parse().map_err(|error| match error {
            QuantityError::NoNumber { .. } => Problem::new(format!("found {}", value.describe()), label),
            QuantityError::Unit { unit, expected, .. } => {
                let message = if unit.is_empty() { "no unit".to_owned() } else { format!("unknown unit {unit:?} here") };
                Problem { help: format!("units: {expected}"), ..Problem::new(message, label) }
            }
            QuantityError::Range { .. } => Problem::new(format!("{} is out of range", value.describe()), label),
        }),
        _ => Err(Problem::new(format!("found {}", value.describe()), label)),
    }
}

fn range<T: PartialOrd + Copy>(value: T, least: T, most: T, show: fn(T) -> String) -> Result<(), Problem> {
    if value < least || value > most {
        let label = format!("expected {} to {}", show(least), show(most));
        return Err(Problem::new(format!("{} is out of range", show(value)), label));
    }
    Ok(())
}

/// What a resolved machine's keys hold, in the order of the table.
pub(crate) fn entries(machine: &Machine) -> Vec<(String, Value)> {
    let mut draft = Draft::of(machine);
    let kinds = |machine: &Machine| Kinds { topology: machine.topology.kind, nic: machine.nic.kind, protocol: machine.message.protocol };
    let own = kinds(machine);
    let of_fabrics: BTreeMap<&str, Kinds> = machine.fabrics.iter().map(|fabric| (fabric.name.as_str(), kinds(&fabric.machine))).collect();
    let kinds_of =
        |path: &str| path.strip_prefix("fabric.").and_then(|rest| of_fabrics.get(rest.split('.').next()?)).copied().unwrap_or(own);
    keys::table(&mut draft)
        .into_iter()
        .filter(|key| key.path != "machine.base" && key.applies_to(kinds_of(&key.path)))
        .map(|key| {
            let value = match key.field {
                Field::Text(text) => Value::Text(text.clone()),
                Field::HostPattern(pattern) => Value::Text(pattern.to_string()),
                Field::Count(count, ..) => Value::Integer(Some(i64::from(*count))),
                Field::Texts(texts) => Value::Array(texts.iter().map(|text| (Value::Text(text.clone()), 0..0)).collect()),
                Field::Counts(counts) | Field::Indices(counts) => {
                    Value::Array(counts.iter().map(|&count| (Value::Integer(Some(i64::from(count))), 0..0)).collect())
                }
                Field::Time(time, _) => Value::Text(quantity::time(*time)),
                Field::Size(size, _) => Value::Text(quantity::size(*size)),
                Field::Rate(rate) => Value::Text(quantity::rate(*rate)),
                Field::Power(power) => Value::Text(quantity::power(*power)),
                Field::Choice(choice) => Value::Text(choice.names()[choice.index()].to_owned()),
                Field::Choices(choices) => {
                    let name = |choice: &&mut dyn Choice| Value::Text(choice.names()[choice.index()].to_owned());
                    match choices.iter().all(|choice| choice.index() == choices[0].index()) {
                        true => name(&choices[0]),
                        false => Value::Array(choices.iter().map(|choice| (name(choice), 0..0)).collect()),
                    }
                }
                Field::Flag(flag) => Value::Boolean(*flag),
                Field::Speed(speed) if speed.0.is_multiple_of(1_000_000) => Value::Integer(i64::try_from(speed.0 / 1_000_000).ok()),
                Field::Speed(speed) => Value::Decimal(speed.factor().to_string()),
                Field::Ber(ber) if ber.rate() == 0.0 => Value::Integer(Some(0)),
                Field::Ber(ber) => Value::Decimal(ber.rate().to_string()),
                Field::Fraction(Fraction(1_000_000), _) => Value::Integer(Some(1)),
                Field::Fraction(Fraction(millionths), _) => Value::Decimal((f64::from(*millionths) / 1e6).to_string()),
                Field::PathOrTime(PathOr::Path) | Field::PathOrRate(PathOr::Path) => Value::Text("path".to_owned()),
                Field::SwitchOrTime(SwitchOr::Switch) | Field::SwitchOrRate(SwitchOr::Switch) => Value::Text("switch".to_owned()),
                Field::PathOrTime(PathOr::Fixed(time)) | Field::SwitchOrTime(SwitchOr::Own(time)) => Value::Text(quantity::time(*time)),
                Field::PathOrRate(PathOr::Fixed(rate)) | Field::SwitchOrRate(SwitchOr::Own(rate)) => Value::Text(quantity::rate(*rate)),
            };
            (key.path.into_owned(), value)
        })
        .collect()
}
