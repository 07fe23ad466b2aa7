//! Every key of a machine file: each configuration lists its own ([`narrows_keys`]), this puts them together. Reading,
//! writing, diagnostics and the reference in `docs/machine-files.md` all come from the one table.

use crate::model::{Fabric, Failed, Link, Links, Machine, Network, Nic, Switch};
use crate::node::{Auxiliary, Bus, Group, Mode, Node};
use crate::wiring::{self, Topology};
use narrows_keys::{Field, Key, Keys};
use narrows_units::SimTime;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What the keys of a file fill, before it is checked as a whole. Starts with placeholders; a
/// machine leaves it only when every key that applies has been set.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub machine: Machine,
    pub base: String,
    /// Names of the groups, and of the networks.
    pub groups: Vec<String>,
    pub fabrics: Vec<String>,
}

/// Keys of earlier versions, and what a file says today.
pub(crate) const FORMER: &[(&str, &str)] = &[
    ("nic.max_war_ordered_size", "delete the line: writes after reads are never ordered, as on BXI"),
    ("node.memory", NO_MEMORY),
    ("group.NAME.memory", NO_MEMORY),
    ("nic.max_entries", "expected nic.limits.max_entries"),
    ("nic.max_unexpected_headers", "expected nic.limits.max_unexpected_headers"),
    ("nic.max_mds", "expected nic.limits.max_mds"),
    ("nic.max_cts", "expected nic.limits.max_cts"),
    ("nic.max_eqs", "expected nic.limits.max_eqs"),
    ("nic.max_iovecs", "expected nic.limits.max_iovecs"),
    ("nic.max_list_size", "expected nic.limits.max_list_size"),
    ("nic.max_triggered_ops", "expected nic.limits.max_triggered_ops"),
    ("nic.max_atomic_size", "expected nic.limits.max_atomic_size"),
    ("nic.max_fetch_atomic_size", "expected nic.limits.max_fetch_atomic_size"),
    ("nic.max_waw_ordered_size", "expected nic.limits.max_waw_ordered_size"),
];

const NO_MEMORY: &str = "delete the line: no model asks how much memory a node has";

/// Most rails.
const RAILS_MAX: u32 = narrows_message::Rails::MAX as u32;

/// Sections in the order of the reference.
const SECTIONS: [&str; 16] = [
    "machine",
    "node",
    "nic",
    "network",
    "link",
    "switch",
    "topology",
    "software",
    "message",
    "storage",
    "collectives",
    "ip",
    "power",
    "group",
    "processor",
    "bus",
];

/// The table. Defaults of `[nic]` are those of BXI v2 (portals4.md section 5; `machines/bxi-v2.toml`
/// has the source of each); the others are our own choices, explained in that file too.
pub(crate) fn table(draft: &mut Draft) -> Vec<Key<'_>> {
    let Draft { machine: m, base, groups, fabrics: names } = draft;
    let section = "machine";
    let mut keys = vec![
        Key::new(section, "name", &mut m.name, "Short name, for reports: one line"),
        Key::new(section, "description", &mut m.description, "One line on what it stands for").default("\"\""),
        Key::new(section, "source", &mut m.source, "Where its constants come from").default("\"\""),
        Key::new(
            section,
            "base",
            base,
            "A preset, or another machine file (its path from this one), that gives every key which this file does not",
        )
        .default("\"\""),
        Key::new(section, "groups", groups, "Parts of the machine with nodes of their own, `[group.NAME]` each, in the order of the nodes")
            .default("[]"),
        Key::new(
            section,
            "fabrics",
            names,
            "Networks that differ, `[fabric.NAME.network]`, `[fabric.NAME.nic]` and so on each; what they do not say is as in \
             the sections without a name",
        )
        .default("[]"),
    ];
    m.node.list("node", &mut keys);
    let doc = "Ports of a node on each network that it joins: as many equal planes of it, which share nothing";
    keys.push(Key::new("node", "rails", &mut m.rails, doc).default("1").within(1..=RAILS_MAX));
    keys.extend(of_network(&mut m.nic, &mut m.network, &mut m.link, &mut m.switch, &mut m.topology, &mut m.failed));
    let words = ["Between two ranks of one node: NIC out to NIC in", "Between ranks of one node, shared by all of them"];
    m.intra.list("node.intra", words, &mut keys);
    m.system.list("software", &mut keys);
    m.storage.list("storage", &mut keys);
    m.message.list("message", &mut keys);
    m.collectives.list("collectives", &mut keys);
    m.ip.list("ip", &mut keys);
    m.power.list("power", &mut keys);
    for Group { name, node } in &mut m.groups {
        let mut of_node = Vec::new();
        node.list("node", &mut of_node);
        in_order(&mut of_node);
        keys.extend(of_node.into_iter().map(|key| of_section(key, "group", name)));
    }
    for Auxiliary { name, processor, idle, bus, intra, mode, pcie } in &mut m.auxiliaries {
        let doc = "The bus to the other processors of its node, `[bus.NAME]`; \"\": ranks there are reached over `node.intra`";
        keys.push(Key::new(&format!("processor.{name}"), "bus", bus, doc).default("\"\""));
        let doc = "Its ports: those of its node (`shared`); its own at its own address, beside the host's (`off-path`) or in \
                   front of them, so that the host's traffic passes its bus (`on-path`); or it is not used (`host`)";
        keys.push(Key::new(&format!("processor.{name}"), "mode", mode, doc).default("\"shared\""));
        let mut of_processor = Vec::new();
        processor.list("node", &mut of_processor);
        keys.extend(of_processor.into_iter().map(|key| of_section(key, "processor", name)));
        let doc = "The processor, whatever it does: of each node that has it, and ranks on any processor";
        keys.push(Key::new(&format!("processor.{name}.power"), "idle", idle, doc).default("\"0 W\""));
        let mut of_intra = Vec::new();
        intra.list("node.intra", ["Between two ranks on it", "Between ranks on it, shared by all of them"], &mut of_intra);
        keys.extend(of_intra.into_iter().map(|key| of_section(key, "processor", name)));
        let doc = "With ports of its own: between it and their NIC, in each direction";
        let latency = Key::new(&format!("processor.{name}.pcie"), "latency", pcie, doc);
        keys.push(latency.otherwise("node.pcie.latency").within(SimTime(1)..));
    }
    for Bus { name, on, link } in &mut m.buses {
        let section = format!("bus.{name}");
        let doc = "What it hangs on: `host`, another processor that its nodes have, or a bus";
        keys.push(Key::new(&section, "on", on, doc).default("\"host\""));
        link.list(&section, ["From one end to the other", "From one end to the other, per direction"], &mut keys);
    }
    in_order(&mut keys);
    for Fabric { name, machine: Machine { nic, network, link, switch, topology, failed, .. } } in &mut m.fabrics {
        keys.extend(of_network(nic, network, link, switch, topology, failed).into_iter().map(|key| of_fabric(key, name)));
    }
    keys
}

/// What is between the memory of two nodes, which each network has for itself.
fn of_network<'a>(
    nic: &'a mut Nic,
    network: &'a mut Network,
    link: &'a mut Links,
    switch: &'a mut Switch,
    topology: &'a mut Topology,
    failed: &'a mut Failed,
) -> Vec<Key<'a>> {
    let (mut keys, mut of_topology) = (Vec::new(), Vec::new());
    nic.list("nic", &mut keys);
    network.list("network", &mut keys);
    link.list("link", &mut keys);
    switch.list("switch", &mut keys);
    topology.list("topology", &mut of_topology);
    keys.extend(of_topology.into_iter().map(wiring::owned));
    failed.list("topology", &mut keys);
    in_order(&mut keys);
    keys
}

fn in_order(keys: &mut [Key<'_>]) {
    let section = |key: &Key<'_>| SECTIONS.iter().position(|section| key.path.split('.').next() == Some(section));
    // Behind the keys of `[node]` itself.
    keys.sort_by_key(|key| (section(key), key.path.starts_with("node.core.")));
}

/// The same key of the nodes of one group, or of a processor beside the host's.
fn of_section<'a>(mut key: Key<'a>, kind: &str, name: &str) -> Key<'a> {
    let path = std::mem::take(&mut key.path);
    key.path = format!("{kind}.{name}.{}", path.strip_prefix("node.").unwrap_or(&path));
    if path == "node.count" {
        key.doc = String::from("Nodes of this group");
    } else {
        (key.default, key.otherwise) = (None, Some(path));
    }
    key
}

/// Sections that each network has for itself: what is between the memory of two nodes.
const OF_NETWORK: [&str; 6] = ["node.pcie", "nic", "network", "link", "switch", "topology"];

/// Whether a key or a section is in one of them.
fn is_of_network(path: &str) -> bool {
    OF_NETWORK.iter().any(|section| path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// The same key of one network.
fn of_fabric<'a>(key: Key<'a>, fabric: &str) -> Key<'a> {
    Key { path: format!("fabric.{fabric}.{}", key.path), default: None, otherwise: Some(key.path), ..key }
}

impl Draft {
    /// Placeholders everywhere. `groups`, `fabrics`, `processors` and `buses`: their names.
    pub(crate) fn blank(groups: &[String], fabrics: &[String], processors: &[String], buses: &[String]) -> Draft {
        let auxiliary = |name: &String| {
            let (name, bus, intra) = (name.clone(), String::new(), Link::blank());
            Auxiliary { name, processor: Keys::blank(), idle: Field::blank(), bus, intra, mode: Mode::Shared, pcie: Field::blank() }
        };
        let bus = |name: &String| Bus { name: name.clone(), on: String::new(), link: Link::blank() };
        let mut machine = Machine {
            name: String::new(),
            description: String::new(),
            source: String::new(),
            node: Keys::blank(),
            groups: groups.iter().map(|name| Group { name: name.clone(), node: Node::blank() }).collect(),
            auxiliaries: processors.iter().map(auxiliary).collect(),
            buses: buses.iter().map(bus).collect(),
            rails: 1,
            fabrics: Vec::new(),
            intra: Link::blank(),
            nic: Keys::blank(),
            network: Keys::blank(),
            link: Keys::blank(),
            switch: Keys::blank(),
            topology: Keys::blank(),
            failed: Keys::blank(),
            system: Keys::blank(),
            storage: Keys::blank(),
            power: Keys::blank(),
            message: Keys::blank(),
            collectives: Keys::blank(),
            ip: Keys::blank(),
        };
        machine.fabrics = fabrics.iter().map(|name| Fabric { name: name.clone(), machine: machine.clone() }).collect();
        Draft { machine, base: String::new(), groups: Vec::new(), fabrics: Vec::new() }
    }

    /// The machine, when every key that it has has been filled.
    pub(crate) fn finish(self) -> Machine {
        let mut machine = self.machine;
        let common = Machine { groups: Vec::new(), rails: 1, fabrics: Vec::new(), ..machine.clone() };
        for fabric in &mut machine.fabrics {
            let Machine { nic, network, link, switch, topology, failed, .. } = fabric.machine.clone();
            fabric.machine = Machine { nic, network, link, switch, topology, failed, ..common.clone() };
        }
        machine
    }

    /// The keys of a resolved machine.
    pub(crate) fn of(machine: &Machine) -> Draft {
        let groups = machine.groups.iter().map(|group| group.name.clone()).collect();
        let fabrics = machine.fabrics.iter().map(|fabric| fabric.name.clone()).collect();
        Draft { machine: machine.clone(), base: String::new(), groups, fabrics }
    }
}

/// What stands for the name of a group, a processor or a bus in the paths of its keys.
pub(crate) const NAME: &str = "NAME";

/// The keys that there may be, of one group, one processor beside the host's and one bus.
pub(crate) fn generic() -> Draft {
    Draft::blank(&[NAME.to_owned()], &[], &[NAME.to_owned()], &[NAME.to_owned()])
}

/// The defaults of all keys that have some.
pub(crate) fn defaults() -> BTreeMap<String, &'static str> {
    table(&mut generic()).into_iter().filter_map(|key| Some((key.path, key.default?))).collect()
}

fn names() -> &'static [(String, String)] {
    static NAMES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    NAMES.get_or_init(|| table(&mut generic()).iter().map(|key| (key.section().to_owned(), key.path.clone())).collect())
}

/// All keys, in the order of the table.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    names().iter().map(|(_, path)| path.as_str())
}

/// `group.slow.cores` as `group.NAME.cores`, `fabric.ib.network.mtu` as `network.mtu`.
pub(crate) fn of_any_name(path: &str) -> Cow<'_, str> {
    if let Some(rest) = in_fabric(path) {
        return Cow::Borrowed(if is_of_network(rest) { rest } else { "no such section" });
    }
    match path.split_once('.') {
        Some((kind @ ("group" | "processor" | "bus"), rest)) => match rest.split_once('.') {
            None => Cow::Owned(format!("{kind}.{NAME}")),
            Some((_, rest)) => Cow::Owned(format!("{kind}.{NAME}.{rest}")),
        },
        _ => Cow::Borrowed(path),
    }
}

/// What is within the section of a network.
fn in_fabric(path: &str) -> Option<&str> {
    path.strip_prefix("fabric.")?.split_once('.').map(|(_, rest)| rest)
}

/// The section of all networks, or that of one, or `node` in it, which has no keys itself.
fn is_around_fabric(path: &str) -> bool {
    path == "fabric" || path.strip_prefix("fabric.").is_some_and(|rest| !rest.contains('.')) || in_fabric(path) == Some("node")
}

pub(crate) fn is_key(path: &str) -> bool {
    let path = of_any_name(path);
    paths().any(|known| known == path)
}

pub(crate) fn is_section(path: &str) -> bool {
    if is_around_fabric(path) {
        return true;
    }
    let path = of_any_name(path);
    let inside = |section: &str| section.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    names().iter().any(|(section, _)| inside(section))
}

/// The keys and sections directly inside `section` (`""`: the file).
pub(crate) fn names_in(section: &str) -> Vec<&'static str> {
    let mut result: Vec<&'static str> = Vec::new();
    match section {
        "fabric" => return vec![NAME],
        _ if in_fabric(section) == Some("node") => return vec!["pcie"],
        _ if is_around_fabric(section) => return vec!["node", "nic", "network", "link", "switch", "topology"],
        _ => {}
    }
    let section = of_any_name(section);
    for path in paths() {
        let rest = if section.is_empty() { Some(path) } else { path.strip_prefix(&*section).and_then(|rest| rest.strip_prefix('.')) };
        if let Some(name) = rest.and_then(|rest| rest.split('.').next())
            && !result.contains(&name)
        {
            result.push(name);
        }
    }
    if section.is_empty() {
        result.push("fabric");
    }
    result
}

/// "keys of nic.kind = "mailbox": command_size, event_size ..."
pub(crate) fn help_on_kind(selector: &str, kind: &str) -> String {
    let section = selector.split('.').next().unwrap_or(selector);
    let mut draft = Draft::blank(&[], &[], &[], &[]);
    let keys = table(&mut draft);
    let applies = |key: &&Key<'_>| key.only.as_ref().is_none_or(|only| only.values.contains(&kind));
    let has = |key: &&Key<'_>| key.path.split('.').next() == Some(section) && key.path != selector && applies(key);
    let names: Vec<&str> = keys.iter().filter(has).filter_map(|key| key.path.split_once('.')).map(|(_, name)| name).collect();
    format!("keys of {selector} = \"{kind}\": {}", names.join(", "))
}

/// "keys of [node.pcie]: latency, bandwidth ..."
pub(crate) fn help(section: &str) -> String {
    let names = names_in(section).join(", ");
    if section.is_empty() { format!("sections of a machine file: {names}") } else { format!("keys of [{section}]: {names}") }
}
