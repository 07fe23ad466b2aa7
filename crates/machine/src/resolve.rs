//! From layers of text to one machine: every key filled, then the machine checked as a whole.

use crate::assemble::VIRTUAL_NETWORKS;
use crate::diagnostic::{Diagnostic, nearest};
use crate::fault::FaultText;
use crate::keys::{self, Draft, Field, Key, Kinds, Only, PACKET_MAX, POWER_MAX, RATE_MAX, RATE_MIN, SIZE_MAX, TIME_MAX, table};
use crate::model::{
    Ber, Choice, Congestion, Delivery, Fabric, FlowControl, Machine, Marking, MessageProtocol, NicKind, PathOr, Phy, Pscom, RoutingKind,
    Speed, SwitchOr, Telemetry,
};
use crate::presets::{PRESETS, preset};
use crate::source::{Layer, Layers, Leaf, Value};
use crate::wiring::{Topology, TopologyKind};
use crate::{FaultError, Overrides, RulesError, quantity};
use narrows_fabric::{ConfigError, Fraction};
use narrows_topology::TopologyError;
use narrows_units::parse::QuantityError;
use narrows_units::{ByteRate, Bytes, NodeId, Power, SimTime};
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

/// Which nodes join which networks.
fn join(machine: &mut Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    let names: Vec<String> = machine.fabrics.iter().map(|fabric| fabric.name.clone()).collect();
    let of_groups = machine.groups.iter().map(|group| (format!("group.{}.fabrics", group.name), &group.node.fabrics));
    let all = std::iter::once((String::from("node.fabrics"), &machine.node.fabrics)).chain(of_groups);
    for (path, joined) in all {
        if let Some(wrong) = joined.iter().find(|name| !names.contains(name)) {
            let label = match names.is_empty() {
                true => format!("expected nothing: machine.fabrics = [\"{}\"] makes such a network", wrong.escape_debug()),
                false => format!("expected names of machine.fabrics: {}", names.join(", ")),
            };
            errors.push(layers.at(&path, format!("no network \"{}\"", wrong.escape_debug())).label(label));
        }
    }
    gateways(machine, layers, errors);
    let rails = machine.fabrics.len().max(1) as u64 * u64::from(machine.rails);
    if rails > narrows_message::Rails::MAX as u64 {
        let message = format!("{rails} rails: {} networks of {} planes", machine.fabrics.len().max(1), machine.rails);
        errors.push(layers.at("node.rails", message).label(format!("expected at most {} together", narrows_message::Rails::MAX)));
    }
    // Texts that are no faults are told of with their network.
    for text in machine.network.faults.iter().chain(machine.fabrics.iter().flat_map(|fabric| &fabric.machine.network.faults)) {
        if let Ok(fault) = FaultText::parse(text)
            && let Err(error) = fault.check_rail(rails)
        {
            return errors.push(layers.at("network.faults", error.to_string()));
        }
    }
    // Keys of events have 22 bits for a port.
    let ports = rails * u64::from(machine.node.count);
    if ports > 1 << 22 {
        let message = format!("{ports} ports: {} nodes with {rails} each", machine.node.count);
        errors.push(layers.at("node.rails", message).label(format!("expected at most {} together", 1 << 22)));
    }
    let counts: Vec<u32> = names.iter().map(|name| machine.joined(name).count() as u32).collect();
    for (fabric, count) in machine.fabrics.iter_mut().zip(counts) {
        if count == 0 {
            let message = format!("no node joins the network {}", fabric.name);
            errors.push(layers.at("machine.fabrics", message).label("node.fabrics or group.NAME.fabrics name it, or are not there"));
        }
        fabric.machine.node.count = count;
    }
}

/// Gateways are on the networks that they join, two of them or more; and not all nodes are gateways.
fn gateways(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    let of_groups = machine.groups.iter().map(|group| (format!("group.{}.gateway", group.name), &group.node));
    let whole = machine.groups.is_empty().then(|| (String::from("node.gateway"), &machine.node));
    for (path, node) in whole.into_iter().chain(of_groups).filter(|(_, node)| !node.gateway.is_empty()) {
        let all: Vec<String> = machine.fabrics.iter().map(|fabric| fabric.name.clone()).collect();
        let joined = if node.fabrics.is_empty() { &all } else { &node.fabrics };
        if let Some(wrong) = node.gateway.iter().find(|name| !joined.contains(name)) {
            let message = format!("the gateway is not on the network \"{}\"", wrong.escape_debug());
            let label = match joined.as_slice() {
                [] => String::from("expected nothing: machine.fabrics names the networks of a machine with gateways"),
                joined => format!("expected networks that its nodes join (fabrics): {}", joined.join(", ")),
            };
            errors.push(layers.at(&path, message).label(label));
        } else if node.gateway.len() < 2 || (1..node.gateway.len()).any(|at| node.gateway[..at].contains(&node.gateway[at])) {
            errors.push(
                layers.at(&path, "a gateway joins two networks or more").label(format!("expected two or more of {}", joined.join(", "))),
            );
        }
    }
    if machine.parts().all(|(_, node)| !node.gateway.is_empty()) {
        errors.push(
            layers.at("node.gateway", "all nodes are gateways").label("expected nodes for ranks: give gateways a group of their own"),
        );
    }
    // Others are found with the networks.
    if let Err(error @ FaultError::Gateway { .. }) = machine.gateway_deaths() {
        errors.push(layers.at("network.faults", error.to_string()));
    }
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

/// What no key alone shows.
fn check(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    if machine.name.is_empty() || machine.name.chars().any(char::is_control) {
        let what = if machine.name.is_empty() { "is empty" } else { "has control characters" };
        errors.push(layers.at("machine.name", format!("the name of the machine {what}")).label("expected a short name in one line"));
    }
    let message = &machine.message;
    if machine.gateways().next().is_some() && message.protocol == MessageProtocol::Openmpi {
        let pair = ("message.inject_limit", message.inject_limit, "message.gateway.fragment", message.gateway.fragment);
        in_order(&[pair], &Scope { layers, fabric: None }, errors);
    }
    let of_protocol = match message.protocol {
        MessageProtocol::Openmpi | MessageProtocol::Mpc | MessageProtocol::Exanet => vec![
            ("message.inject_limit", message.inject_limit, "message.eager_limit", message.eager_limit),
            ("message.eager_limit", message.eager_limit, "message.overflow_block", message.overflow_block),
            ("message.eager_limit", message.eager_limit, "message.max_portals_message", message.max_portals_message),
        ],
        MessageProtocol::Pscom => {
            pscom(&message.pscom, layers, errors);
            vec![
                ("message.pscom.rendezvous", message.pscom.rendezvous, "message.max_portals_message", message.max_portals_message),
                ("message.pscom.buffer", message.pscom.buffer, "message.max_portals_message", message.max_portals_message),
            ]
        }
    };
    in_order(&of_protocol, &Scope { layers, fabric: None }, errors);
    let longest = Bytes(narrows_nic::MAX_LENGTH.min(narrows_fabric::MAX_PAYLOAD));
    if message.max_portals_message > longest {
        let label = format!("expected at most {}", quantity::size(longest));
        errors.push(layers.at("message.max_portals_message", "no network takes so long a message").label(label));
    }
    host_names(machine, layers, errors);
    collectives(machine, layers, errors);
    ip(machine, layers, errors);
}

/// The Ethernet device.
fn ip(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    let (ip, longest) = (&machine.ip, Bytes(narrows_nic::MAX_LENGTH.min(narrows_fabric::MAX_PAYLOAD)));
    let mut wrong = |path: &str, what: &str, label: String| errors.push(layers.at(path, what).label(label));
    if ip.mtu > Bytes(65535) {
        wrong("ip.mtu", "no IP packet is so long", String::from("expected at most 65535 B"));
    }
    if ip.header >= ip.mtu {
        wrong("ip.header", "the headers leave no room in a packet", format!("expected less than ip.mtu, {}", quantity::size(ip.mtu)));
    }
    if Bytes(ip.frame.0.max(ip.tunnel.batch.0)) > Bytes(longest.0 / 2) {
        let path = if ip.frame > ip.tunnel.batch { "ip.frame" } else { "ip.tunnel.batch" };
        wrong(path, "no network takes so long a message", format!("expected at most {}", quantity::size(Bytes(longest.0 / 2))));
    }
    if ip.sleep_min > ip.sleep_max {
        wrong("ip.sleep_min", "`ip.sleep_min` is beyond `ip.sleep_max`", format!("expected at most {}", ip.sleep_max));
    }
    if ip.gateway.hosts > 0 && ip.gateway.node >= machine.node.count {
        let label = format!("expected 0 to {}", machine.node.count.saturating_sub(1));
        wrong("ip.gateway.node", "the machine has no such node", label);
    }
    if ip.gateway.hosts == 0 && ip.gateway.node > 0 {
        wrong("ip.gateway.node", "a gateway to no hosts", String::from("expected ip.gateway.hosts of 1 and more"));
    }
}

/// Where the keys of a network are: its own, or those without a name.
struct Scope<'a> {
    layers: &'a Layers,
    fabric: Option<&'a str>,
}

impl Scope<'_> {
    /// See [`Layers::at`].
    fn at(&self, path: &str, message: impl Into<String>) -> Diagnostic {
        let own = self.fabric.map(|name| format!("fabric.{name}.{path}")).filter(|own| self.layers.find(own).is_some());
        self.layers.at(own.as_deref().unwrap_or(path), message)
    }
}

/// Keys of which one must not be beyond the other.
fn in_order(pairs: &[(&str, Bytes, &str, Bytes)], layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    for (small_path, small, large_path, large) in pairs {
        if small > large {
            errors.push(
                layers
                    .at(small_path, format!("`{small_path}` is beyond `{large_path}`"))
                    .label(format!("expected at most {}", quantity::size(*large))),
            );
        }
    }
}

/// What is between the memory of two nodes.
fn check_network(machine: &Machine, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    let packet = Bytes(machine.network.mtu.0 + machine.network.header.0);
    if machine.network.buffer < packet {
        errors.push(
            layers
                .at("network.buffer", "the buffer is smaller than a packet")
                .label(format!("expected at least {} (network.mtu + network.header)", quantity::size(packet))),
        );
    }
    if packet > PACKET_MAX {
        let label = format!("expected at most {}, with network.header", quantity::size(PACKET_MAX));
        errors.push(layers.at("network.mtu", format!("a packet of {}", quantity::size(packet))).label(label));
    }
    let nic = machine.nic.portals();
    let order = [
        ("nic.inline_limit", nic.inline_limit, "nic.command_size", nic.command_size),
        ("nic.inline_limit", nic.inline_limit, "nic.pio_limit", nic.pio_limit),
    ];
    in_order(&order, layers, errors);
    if nic.limits.max_war_ordered_size > Bytes(0) {
        let path = "nic.max_war_ordered_size";
        errors.push(
            layers
                .at(path, format!("`{path}` promises what the NIC does not keep"))
                .label("expected 0 B: writes after reads are not ordered"),
        );
    }
    if nic.pio_limit > PACKET_MAX {
        let label = format!("expected at most {}", quantity::size(PACKET_MAX));
        errors.push(layers.at("nic.pio_limit", "the CPU does not write so much behind a command").label(label));
    }
    if machine.nic.kind == NicKind::Exanet {
        let interfaces = machine.nic.exanet.interfaces;
        if let Some((_, node)) = machine.parts().find(|(_, node)| node.cores > interfaces) {
            let message = format!("a node has {} cores, and its NIC interfaces for {interfaces} processes", node.cores);
            let help = format!("raise nic.exanet.interfaces (up to 65536), or lower node.cores to {interfaces} or less");
            let label = format!("expected at least {}", node.cores);
            errors.push(layers.at("nic.exanet.interfaces", message).label(label).help(help));
        }
    }
    if !machine.network.reliability.unordered.is_empty() && machine.network.reliability.delivery != Delivery::Ordered {
        let message = "virtual networks with unordered flows, and no others with ordered ones";
        let help = "set network.reliability.delivery = \"ordered\"";
        errors.push(layers.at("network.reliability.unordered", message).label("expected []").help(help));
    }
    congestion(machine, layers, errors);
    if machine.switch.mark_min > machine.switch.mark_max {
        let label = format!("expected at most {} (switch.mark_max)", quantity::size(machine.switch.mark_max));
        errors.push(layers.at("switch.mark_min", "every packet is marked before any is").label(label));
    }
    switch(machine, layers, errors);
    topology(machine, layers, errors);
}

/// What congestion controls need of ports and switches.
fn congestion(machine: &Machine, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    let any = |of: &[Congestion]| machine.network.congestion.iter().find(|congestion| of.contains(congestion));
    let path = "network.congestion";
    if any(&[Congestion::Pfc]).is_some() && machine.network.flow_control != FlowControl::Pfc {
        let message = "PAUSE alone, and this network's flow control is credits (network.flow_control)";
        let help = "set network.flow_control = \"pfc\", or network.congestion = \"none\"";
        errors.push(layers.at(path, message).help(help));
    }
    let of_flows = |congestion: &&Congestion| ![Congestion::None, Congestion::Pfc].contains(congestion);
    if machine.network.congestion.iter().find(of_flows).is_some() && machine.network.reliability.delivery == Delivery::None {
        let help = "set network.reliability.delivery = \"ordered\", or \"unordered\"";
        errors.push(layers.at(path, "a congestion control of flows, and ports have none").label("expected \"none\"").help(help));
    }
    if let Some(control) = any(&[Congestion::Dcqcn, Congestion::Nscc])
        && machine.switch.marking == Marking::None
    {
        let message = format!("{} needs marks, and switches give none (switch.marking)", control.name());
        errors.push(layers.at(path, message).help("set switch.marking = \"ecn\""));
    }
    if any(&[Congestion::Hpcc]).is_some() && machine.switch.telemetry == Telemetry::None {
        let message = "hpcc needs telemetry, and switches write none (switch.telemetry)";
        errors.push(layers.at(path, message).help("set switch.telemetry = \"int\""));
    }
}

/// Two nodes must not have the same one.
fn host_names(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    // The names of one pattern differ.
    if machine.groups.windows(2).all(|pair| pair[0].node.host_name == pair[1].node.host_name) {
        return;
    }
    let mut seen = BTreeMap::new();
    for (group, (first, node)) in machine.groups.iter().zip(machine.parts()) {
        for id in (first.0..first.0 + node.count).map(NodeId) {
            if let Some(other) = seen.insert(node.host_name.name(id.0), id) {
                let name = machine.host_name(id);
                let message = format!("the nodes {other} and {id} are both called {name}");
                let label = "expected names that differ from those of other groups";
                errors.push(layers.at(&format!("group.{}.host_name", group.name), message).label(label));
                return;
            }
        }
    }
}

fn pscom(pscom: &Pscom, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    if pscom.send_buffers > pscom.receive_buffers {
        let path = "message.pscom.send_buffers";
        let label = format!("expected at most {} (message.pscom.receive_buffers)", pscom.receive_buffers);
        let help = "a receive queue full of pieces that came before their turn would drop the one that they wait for, for ever";
        errors.push(layers.at(path, "more buffers to send from than to receive into").label(label).help(help));
    }
    let longest = Bytes(narrows_message::PscomConfig::EAGER_MAX + 1);
    if pscom.rendezvous > longest {
        let label = format!("expected at most {}", quantity::size(longest));
        errors.push(layers.at("message.pscom.rendezvous", "the length of an eager message has 20 bits here").label(label));
    }
}

fn collectives(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    errors.extend(machine.collective_rules(None).err().map(|error| match &error {
        RulesError::Rule { index, problem, .. } => {
            let found = layers.find("collectives.rules");
            let (layer, leaf) = found.expect("a rule that is there comes from somewhere");
            let span = match &leaf.value {
                Value::Array(items) => items[*index].1.clone(),
                _ => leaf.value_span.clone(),
            };
            layers.layers[layer].diagnostic(span, format!("no rule for collectives: {problem}"))
        }
        _ => layers.at("collectives.table", error.to_string()),
    }));
}

fn switch(machine: &Machine, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    let networks = usize::from(VIRTUAL_NETWORKS);
    let switch = &machine.switch;
    if switch.weights.len() > networks {
        let label = format!("expected at most {networks}, one per virtual network");
        errors.push(layers.at("switch.weights", format!("{} weights", switch.weights.len())).label(label));
    }
    let lists =
        [("switch.strict_priority", &switch.strict_priority), ("network.reliability.unordered", &machine.network.reliability.unordered)];
    for (key, list) in lists {
        if let Some(network) = list.iter().find(|&&network| network as usize >= networks) {
            let label = format!("expected 0 to {}", networks - 1);
            errors.push(layers.at(key, format!("there is no virtual network {network}")).label(label));
        }
    }
}

fn topology(machine: &Machine, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    let radix = u64::from(machine.switch.radix);
    let before = errors.len();
    let Topology { kind, k, n, children, parents, parallel, path, text, .. } = &machine.topology;
    match kind {
        TopologyKind::KAryNTree => {
            // Only the top level does without links up.
            let ports = u64::from(*k) * if *n > 1 { 2 } else { 1 };
            if ports > radix {
                let label = format!("its switches need {ports} ports");
                errors.push(layers.at("topology.k", format!("switches have {radix} ports (switch.radix)")).label(label));
            }
        }
        TopologyKind::Pgft => {
            for (path, list) in [("topology.children", children), ("topology.parents", parents), ("topology.parallel", parallel)] {
                // 8 levels of 2 children each are beyond any machine that was built.
                if list.is_empty() || list.len() > 8 {
                    errors.push(layers.at(path, "a tree has 1 to 8 levels").label(format!("{} numbers", list.len())));
                } else if list.len() != children.len() {
                    let message = format!("`{path}` has {} of {} levels", list.len(), children.len());
                    errors.push(layers.at(path, message).label("expected one number per level"));
                }
            }
            if errors.len() > before {
                return;
            }
            for (path, list) in [("topology.parents", parents), ("topology.parallel", parallel)] {
                if list[0] != 1 {
                    let message = format!("`{path}` starts with {}", list[0]);
                    errors.push(layers.at(path, message).label("expected 1: a node has one NIC with one port"));
                }
            }
            for level in 0..children.len() {
                let down = u64::from(children[level]) * u64::from(parallel[level]);
                let up = if level + 1 < parents.len() { u64::from(parents[level + 1]) * u64::from(parallel[level + 1]) } else { 0 };
                if down + up > radix {
                    let message = format!("a switch of level {} needs {} ports, it has {radix} (switch.radix)", level + 1, down + up);
                    errors.push(layers.at("topology.children", message).label(format!("{down} down, {up} up")));
                }
            }
        }
        _ => {}
    }
    if errors.len() > before {
        return;
    }
    let holds = machine.topology.capacity(machine.switch.radix);
    if u64::from(machine.node.count) > holds {
        let [what, advice] = machine.topology.words();
        errors.push(
            layers
                .at("node.count", format!("{} nodes do not fit: {what} holds {holds}", machine.node.count))
                .label(format!("expected at most {holds}"))
                .help(format!("lower node.count (--nodes), or {advice}")),
        );
        return;
    }
    let topology = match machine.topology() {
        Ok(topology) => topology,
        Err(TopologyError::File(error)) => {
            let start: usize = text.split_inclusive('\n').take(error.line - 1).map(str::len).sum();
            let line = text[start..].lines().next().unwrap_or("");
            let at = start + line.char_indices().nth(error.column - 1).map_or(line.len(), |(at, _)| at);
            let end = at + text[at..].find(char::is_whitespace).unwrap_or(text.len() - at);
            return errors.push(Diagnostic::new(path, text, at..end, error.message));
        }
        Err(TopologyError::Failure(error)) => {
            let path = if machine.failed.links.is_empty() { "topology.failed_switches" } else { "topology.failed_links" };
            return errors.push(layers.at(path, error.to_string()));
        }
        Err(error) => return errors.push(layers.at("topology.kind", format!("no such topology: {error}"))),
    };
    let shape = topology.shape();
    if shape.radix() > machine.switch.radix {
        let message = format!("this topology needs switches of {} ports, they have {radix} (switch.radix)", shape.radix());
        errors.push(layers.at("topology.kind", message).label("raise switch.radix, or change the topology's numbers"));
    }
    if errors.is_empty()
        && let Err(error) = machine.network_config(0).check_flow_control(&topology)
    {
        let path = if matches!(error, ConfigError::Headroom { .. }) { "network.buffer" } else { "network.pfc.xoff" };
        errors.push(layers.at(path, error.to_string()));
    }
    if errors.is_empty() {
        check_faults(machine, &topology, layers, errors);
    }
    let routing = machine.network.routing;
    let Some(needed) = shape.virtual_channels(routing) else {
        let fitting: Vec<&str> = RoutingKind::of(shape).iter().map(|kind| kind.name()).collect();
        let message = format!("routing \"{routing}\" does not fit topology.kind = \"{}\"", kind.name());
        return errors.push(layers.at("network.routing", message).label(format!("expected one of {}", quoted(&fitting))));
    };
    if machine.network.virtual_channels < u32::from(needed) {
        let message = format!("routing \"{routing}\" needs {needed} virtual channels here, there are {}", machine.network.virtual_channels);
        errors.push(layers.at("network.virtual_channels", message).label(format!("expected at least {needed}")));
    }
}

/// Links that are there, and packets that somebody sends again.
fn check_faults(machine: &Machine, topology: &narrows_topology::Topology, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
    let path = "network.faults";
    if machine.link.ber.rate() > 0.0 && machine.link.phy == Phy::None {
        let problem = layers.at("link.ber", "a bit error rate, but links have no physical layer".to_owned());
        return errors.push(problem.help("set link.phy = \"100gbase-sr4\""));
    }
    if let Err(error) = machine.faults(None) {
        return errors.push(layers.at(path, error.to_string()));
    }
    match machine.network_config(0).check_faults(topology) {
        Ok(()) => {}
        Err(error @ ConfigError::FaultWithoutReliability) => {
            let help = "set network.reliability.delivery = \"ordered\", or \"unordered\"";
            let path = if machine.network.faults.is_empty() { "link.ber" } else { path };
            errors.push(layers.at(path, error.to_string()).help(help));
        }
        // `--network` may still say otherwise.
        Err(ConfigError::FaultWithoutPackets) => {}
        // Told before.
        Err(ConfigError::MarksMissing { .. } | ConfigError::TelemetryMissing { .. }) => {}
        Err(error @ ConfigError::PercNeeds { .. }) => errors.push(layers.at("network.congestion", error.to_string())),
        Err(error @ ConfigError::Reliability { what, .. }) => {
            let section = what.split(' ').next().unwrap_or_default();
            let own = ["acc", "dcqcn", "hpcc", "nscc", "reliability", "sperc"].contains(&section);
            let path = if own { format!("network.{}", what.replace(' ', ".")) } else { "network.congestion".to_owned() };
            errors.push(layers.at(&path, error.to_string()));
        }
        Err(error) => errors.push(layers.at(path, error.to_string())),
    }
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
