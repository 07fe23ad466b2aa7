//! A machine checked as a whole: what no key alone shows.

use crate::assemble::VIRTUAL_NETWORKS;
use crate::fault::FaultText;
use crate::keys;
use crate::model::{Delivery, FlowControl, Machine, Marking, MessageProtocol, NicKind, Phy, Pscom, RoutingKind, Telemetry};
use crate::node::{Auxiliary, Bus, Mode, NODES_MAX};
use crate::source::Layers;
use crate::wiring::{Topology, TopologyKind};
use crate::{FaultError, RulesError};
use narrows_fabric::{ConfigError, Control};
use narrows_keys::{Diagnostic, Value, quantity, quoted};
use narrows_nic::ApenetxConfig;
use narrows_topology::TopologyError;
use narrows_units::{Bytes, NodeId};
use std::collections::BTreeMap;

/// Largest packet: 1 GiB, what the packet network can hold.
const PACKET_MAX: Bytes = Bytes(1 << 30);

/// What no key alone shows.
pub(super) fn check(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    if machine.name.is_empty() || machine.name.chars().any(char::is_control) {
        let what = if machine.name.is_empty() { "is empty" } else { "has control characters" };
        errors.push(layers.at("machine.name", format!("the name of the machine {what}")).label("expected a short name in one line"));
    }
    let message = &machine.message;
    if machine.gateways().next().is_some() && matches!(message.protocol, MessageProtocol::Openmpi | MessageProtocol::Mpc) {
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
pub(super) struct Scope<'a> {
    pub(super) layers: &'a Layers,
    pub(super) fabric: Option<&'a str>,
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
pub(super) fn check_network(machine: &Machine, layers: &Scope<'_>, errors: &mut Vec<Diagnostic>) {
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
    if nic.pio_limit > PACKET_MAX {
        let label = format!("expected at most {}", quantity::size(PACKET_MAX));
        errors.push(layers.at("nic.pio_limit", "the CPU does not write so much behind a command").label(label));
    }
    if machine.nic.kind == NicKind::Exanet {
        let interfaces = machine.nic.exanet.interfaces;
        if let Some((_, node)) = machine.parts().find(|(_, node)| machine.cores(node) > interfaces.into()) {
            let cores = machine.cores(node);
            let message = format!("a node has {cores} cores, and its NIC interfaces for {interfaces} processes");
            let help = format!("raise nic.exanet.interfaces (up to 65536), or lower node.cores to {interfaces} or less");
            let label = format!("expected at least {cores}");
            errors.push(layers.at("nic.exanet.interfaces", message).label(label).help(help));
        }
        if let Some(domain) = machine.nic.exanet.domains.iter().find(|&&domain| domain > u32::from(u16::MAX)) {
            let message = format!("there is no protection domain {domain}");
            errors.push(layers.at("nic.exanet.domains", message).label("expected numbers from 0 to 65535: a domain has 16 bits"));
        }
    }
    if machine.nic.apenetx.inline_limit > ApenetxConfig::INLINE_MOST {
        let message = "a completion entry has four words of 64 bits for a payload";
        errors.push(layers.at("nic.apenetx.inline_limit", message).label("expected at most 32 B"));
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
    let path = "network.congestion";
    if machine.network.congestion.contains(&Control::Pfc) && machine.network.flow_control != FlowControl::Pfc {
        let message = "PAUSE alone, and this network's flow control is credits (network.flow_control)";
        let help = "set network.flow_control = \"pfc\", or network.congestion = \"none\"";
        errors.push(layers.at(path, message).help(help));
    }
    let of_flows = |congestion: &&Control| ![Control::None, Control::Pfc].contains(congestion);
    if machine.network.congestion.iter().find(of_flows).is_some() && machine.network.reliability.delivery == Delivery::None {
        let help = "set network.reliability.delivery = \"ordered\", or \"unordered\"";
        errors.push(layers.at(path, "a congestion control of flows, and ports have none").label("expected \"none\"").help(help));
    }
    let needing = |needs: fn(&narrows_fabric::Congestion) -> bool| {
        machine.network.congestion.iter().find(|&&control| needs(&machine.network.controls.of(control)))
    };
    if let Some(control) = needing(narrows_fabric::Congestion::needs_marks)
        && machine.switch.marking == Marking::None
    {
        let message = format!("{} needs marks, and switches give none (switch.marking)", control.name());
        errors.push(layers.at(path, message).help("set switch.marking = \"ecn\""));
    }
    if let Some(control) = needing(narrows_fabric::Congestion::needs_telemetry)
        && machine.switch.telemetry == Telemetry::None
    {
        let message = format!("{} needs telemetry, and switches write none (switch.telemetry)", control.name());
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
    if machine.hosts() > holds {
        let [what, advice] = machine.topology.words();
        let beside = machine.addresses_beside();
        let ports = if beside > 0 { format!(" with ports of {beside} other processors") } else { String::new() };
        let most = holds * u64::from(machine.node.count) / machine.hosts();
        errors.push(
            layers
                .at("node.count", format!("{} nodes{ports} do not fit: {what} holds {holds}", machine.node.count))
                .label(format!("expected at most {most}"))
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
            let own = format!("network.{}", what.replace(' ', "."));
            let path = if keys::is_key(&own) { own } else { "network.congestion".to_owned() };
            errors.push(layers.at(&path, error.to_string()));
        }
        Err(error) => errors.push(layers.at(path, error.to_string())),
    }
}

/// Which processors nodes have beside the host's.
pub(super) fn check_processors(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    let of_groups = machine.groups.iter().map(|group| (format!("group.{}.processors", group.name), &group.node.processors));
    let all = std::iter::once((String::from("node.processors"), &machine.node.processors)).chain(of_groups);
    for (path, problem) in machine.misplaced_buses() {
        errors.push(layers.at(&path, problem.message).label(problem.label));
    }
    let known: Vec<&str> = machine.auxiliaries.iter().map(|auxiliary| auxiliary.name.as_str()).collect();
    for (path, names) in all {
        let twice = |&(at, name): &(usize, &String)| names[..at].contains(name);
        if let Some(name) = names.iter().find(|name| machine.auxiliary(name).is_none()) {
            let name = name.escape_debug();
            let label = match known.as_slice() {
                [] => format!("expected nothing: [processor.{name}] makes such a processor"),
                known => format!("expected sections [processor.NAME]: {}", known.join(", ")),
            };
            errors.push(layers.at(&path, format!("no processor \"{name}\"")).label(label));
        } else if let Some((_, name)) = names.iter().enumerate().find(twice) {
            let message = format!("two processors \"{name}\" of one node");
            errors.push(layers.at(&path, message).label("expected different names: each processor has a section of its own"));
        } else if names.len() > usize::from(u8::MAX) {
            let message = format!("{} processors beside the host's", names.len());
            errors.push(layers.at(&path, message).label(format!("expected at most {}", u8::MAX)));
        }
    }
    if errors.is_empty() {
        check_modes(machine, layers, errors);
    }
}

/// What processors with ports of their own need.
fn check_modes(machine: &Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
    let rate = machine.nic.config.data_bandwidth;
    for Auxiliary { name, mode, .. } in machine.auxiliaries.iter().filter(|auxiliary| auxiliary.mode.has_ports()) {
        let path = format!("processor.{name}.mode");
        if machine.gateways().next().is_some() {
            let message = "processors with ports of their own on a machine with gateways";
            errors.push(layers.at(&path, message).label("expected \"shared\", or no group with gateways"));
        }
        if !machine.nic.spin.rules.is_empty() {
            let message = "processors with ports of their own, and handlers on the NIC (nic.spin.rules)";
            errors.push(layers.at(&path, message).label("expected \"shared\", or no handlers"));
        }
        if machine.ip.gateway.hosts > 0 {
            let message = "processors with ports of their own, and hosts behind an IP gateway (ip.gateway.hosts)";
            errors.push(layers.at(&path, message).label("expected \"shared\", or ip.gateway.hosts = 0"));
        }
        let mut buses = machine.way_to(name).map(|bus| &machine.buses[bus]).peekable();
        if *mode == Mode::OnPath && buses.peek().is_none() {
            let message = format!("{name} stands in front of the host's ports, and no bus is between them");
            errors.push(layers.at(&path, message).label(format!("expected a bus: processor.{name}.bus")));
        }
        if let Some(Bus { name: bus, link, .. }) = buses.find(|bus| *mode == Mode::OnPath && bus.link.bandwidth < rate) {
            let message = format!("the bus {bus} in front of the host's ports is slower than node.pcie.data_bandwidth = {rate}");
            let label = format!("expected at least that, or a lower node.pcie.data_bandwidth: found {}", link.bandwidth);
            errors.push(layers.at(&format!("bus.{bus}.bandwidth"), message).label(label));
        }
    }
    if errors.is_empty() && machine.hosts() > u64::from(NODES_MAX) {
        let message = format!("{} nodes and ports of other processors", machine.hosts());
        errors.push(layers.at("node.count", message).label(format!("expected at most {NODES_MAX} together")));
    }
}

/// Which nodes join which networks.
pub(super) fn join(machine: &mut Machine, layers: &Layers, errors: &mut Vec<Diagnostic>) {
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
    let ports = rails * machine.hosts();
    if ports > 1 << 22 {
        let message = format!("{ports} ports: {} nodes with {rails} each", machine.node.count);
        errors.push(layers.at("node.rails", message).label(format!("expected at most {} together", 1 << 22)));
    }
    let addresses = machine.addresses();
    let counts: Vec<u32> = names.iter().map(|name| machine.joined_with(name, &addresses).len() as u32).collect();
    for (fabric, count) in machine.fabrics.iter_mut().zip(counts) {
        if count == 0 {
            let message = format!("no node joins the network {}", fabric.name);
            errors.push(layers.at("machine.fabrics", message).label("node.fabrics or group.NAME.fabrics name it, or are not there"));
        }
        // Processors with ports of their own are among them.
        fabric.machine.node.count = count;
        fabric.machine.node.processors.clear();
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
