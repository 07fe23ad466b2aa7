//! `narrows topology show NAME|FILE`: what a network is made of and what it can carry; `import FILE`: other tools'
//! files.

use crate::failure::Failure;
use crate::form::Form;
use crate::import::{ImportArguments, import};
use crate::machine::OverrideArguments;
use clap::Subcommand;
use narrows_fabric::LinkConfig;
use narrows_machine::Machine;
use narrows_output::{Meter, exit, warn, write};
use narrows_results::{Column, Progress, Table};
use narrows_study::wiring;
use narrows_topology::analysis::{Pattern, bisection, channel_loads};
use narrows_topology::{LinkClass, LinkId, RoutingKind, Topology, Vertex};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// What `narrows topology` does.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// Counts, radix, diameter, bisection, mean hops, and what channel loads allow
    #[command(after_help = "\
Examples:
  narrows topology show megafly-288
  narrows topology show bxi-v3 --nodes 1024 --json
  narrows topology show dragonfly-342 --set topology.arrangement=palmtree --svg dragonfly.svg
  narrows topology show 8-ary-2-tree --set 'topology.failed_switches=[8]' --dot tree.dot

Limits are what every node can send at most, as a fraction of its link, with infinite buffers: at
the least quotient of rate and load over all links. \"uniform\": every node to every other; \"next
group\": every node to the nodes of the next group, pod or plane. UGAL, PAR and, but for fat trees,
adaptive look at loads and have no such limit; UGAL and PAR lie between minimal and valiant, or
above.")]
    Show {
        /// A preset (narrows machine list) or a machine file
        #[arg(value_name = "NAME|FILE")]
        machine: String,
        #[command(flatten)]
        overrides: OverrideArguments,
        /// Which network of a machine that has several; without it the first one
        #[arg(long, value_name = "NAME")]
        fabric: Option<String>,
        #[command(flatten)]
        form: Form,
        /// Write the graph for Graphviz; - is standard output
        #[arg(long, value_name = "FILE")]
        dot: Option<PathBuf>,
        /// Draw the network; - is standard output
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Make a graph file, and a machine file, of a real cluster's file
    #[command(after_help = "\
Examples:
  narrows topology import ibnet.txt -o ibnet.graph --base ib-ndr  # of ibnetdiscover
  narrows topology import topology.conf -o mine.graph --base ib-ndr   # Slurm's, of topology/tree
  narrows topology import anynet_file -o any.graph --cycle 2ns        # BookSim's
  narrows topology import platform.xml -o platform.graph              # SimGrid's

Hosts and switches keep the order of the file. Links have the rates and latencies that the file
gives; what it does not give is that of [link.switch] and [link.host].")]
    Import(ImportArguments),
}

/// Runs `narrows topology ...`: results on standard output, complaints on standard error.
pub fn run(command: TopologyCommand) -> Result<u8, Failure> {
    let (machine, overrides, fabric, form, dot, svg) = match command {
        TopologyCommand::Show { machine, overrides, fabric, form, dot, svg } => (machine, overrides, fabric, form, dot, svg),
        TopologyCommand::Import(arguments) => return import(arguments),
    };
    let machine = narrows_study::network_of(Machine::load(&machine, &overrides.into())?, fabric.as_deref())?;
    machine.warnings().iter().for_each(|warning| warn!("{warning}"));
    let topology = machine.topology().map_err(|error| error.to_string())?;
    if let Some(path) = dot {
        write(&path, wiring::dot(&topology))?;
    }
    if let Some(path) = svg {
        write(&path, wiring::svg(&topology, &machine.name))?;
    }
    let meter = Arc::new(Meter::default());
    let progress = Progress::start("adding up the loads of all links", &meter);
    let facts = Facts::new(&machine, &topology, &meter);
    drop(progress);
    form.print(|| facts.text(), || facts.json(), || facts.table())?;
    Ok(exit::DONE)
}

/// A routing and what it can carry.
struct Limits {
    kind: RoutingKind,
    channels: u8,
    /// Links of a way on average under uniform traffic, the limit there, and under traffic to the next group; with what
    /// limits them.
    mean_links: Option<f64>,
    uniform: Option<(f64, String)>,
    adversarial: Option<(f64, String)>,
}

struct Facts<'a> {
    machine: &'a Machine,
    topology: &'a Topology,
    local: u32,
    global: u32,
    /// Cables between switches with a rate or a latency of their own: how many of each kind.
    own: Vec<(LinkClass, LinkConfig, u32)>,
    cut: narrows_topology::analysis::Cut,
    /// What crosses the cut, as a fraction of what half of the nodes can send.
    full: f64,
    limits: Vec<Limits>,
}

impl<'a> Facts<'a> {
    fn new(machine: &'a Machine, topology: &'a Topology, meter: &Meter) -> Facts<'a> {
        let network = machine.network_config(0);
        let links = network.links(topology);
        let rates: Vec<f64> = links.iter().map(|link| link.rate.0 as f64 / network.host_link.rate.0 as f64).collect();
        let of_class = |class| topology.links().iter().filter(|link| link.class == class).count() as u32 / 2;
        let cut = bisection(topology);
        let crossing: f64 = cut.speeds.iter().zip(&rates).map(|(&cables, rate)| f64::from(cables) * rate).sum();
        let mut cables = vec![0; links.len()];
        topology.links().iter().for_each(|link| cables[usize::from(link.speed)] += 1);
        let speeds = topology.speeds().iter().zip(&links).zip(&cables).skip(LinkClass::ALL.len());
        let own = speeds.map(|((speed, &link), directions)| (speed.class, link, directions / 2)).collect();
        let groups = topology.groups();
        let limits = RoutingKind::of(topology.shape()).iter().filter(|&&kind| {
            // A topology's own name for it will do.
            let named = [RoutingKind::DModK, RoutingKind::DimensionOrder, RoutingKind::Table];
            kind != RoutingKind::Minimal || !RoutingKind::of(topology.shape()).iter().any(|kind| named.contains(kind))
        });
        let kinds: Vec<RoutingKind> = limits.copied().collect();
        // Each under two patterns, and the cut.
        let steps = 2 * kinds.len() as u64 + 1;
        meter.set(1, steps);
        let limits = kinds.into_iter().map(|kind| {
            let limit = |pattern| {
                meter.add(1);
                let loads = channel_loads(topology, kind, pattern)?;
                let (limit, link) = loads.limit(topology, &rates);
                let what = if limit < 1.0 { name(topology, link) } else { "the nodes' own links".to_owned() };
                Some((loads.mean_links, (limit, what)))
            };
            let uniform = limit(Pattern::Uniform);
            Limits {
                kind,
                channels: topology.shape().virtual_channels(kind).unwrap_or(0),
                mean_links: uniform.as_ref().map(|(links, _)| *links),
                uniform: uniform.map(|(_, limit)| limit),
                adversarial: if groups > 1 { limit(Pattern::Adversarial(1)).map(|(_, limit)| limit) } else { None },
            }
        });
        let full = crossing / (f64::from(topology.hosts() / 2)).max(1.0);
        let limits = limits.collect();
        Facts { machine, topology, local: of_class(LinkClass::Switch), global: of_class(LinkClass::Global), own, cut, full, limits }
    }

    fn text(&self) -> String {
        let counts = self.topology.counts();
        let mut text = format!("{}: {}\n", self.machine.name, self.topology.name());
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:12} {value}");
        };
        line("nodes", counts.hosts.to_string());
        let groups = if (2..counts.switches).contains(&self.topology.groups()) {
            format!(" in {} groups", self.topology.groups())
        } else {
            String::new()
        };
        line("switches", format!("{}{groups}, the largest of {} ports", counts.switches, counts.radix));
        line("their names", self.topology.switch_names());
        let global = if self.global > 0 { format!(", {} between groups", self.global) } else { String::new() };
        line("cables", format!("{} to nodes, {} between switches{global}", counts.host_cables, self.local));
        for (class, link, cables) in &self.own {
            let kind = if *class == LinkClass::Global { ", between groups" } else { "" };
            line("of their own", format!("{cables} cables of {}, {}{kind}", link.rate, link.latency));
        }
        if self.topology.failed_links() > 0 {
            line("failed", format!("{} of the cables", self.topology.failed_links() / 2));
        }
        line("diameter", format!("{} links, {} of them between switches", counts.diameter, counts.diameter.saturating_sub(2)));
        let cables = self.cut.local + self.cut.global;
        line("bisection", format!("{cables} cables, {:.1} % of what half of the nodes can send", 100.0 * self.full));
        let own = self.machine.network.routing;
        let needed = self.topology.shape().virtual_channels(own).unwrap_or(0);
        line("routing", format!("{own}, which needs {needed} of {} virtual channels", self.machine.network.virtual_channels));
        let _ = writeln!(text, "\n  {:16} {:>8} {:>11} {:>9} {:>11}", "routing", "channels", "mean links", "uniform", "next group");
        let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        for limits in &self.limits {
            let [uniform, adversarial] = [&limits.uniform, &limits.adversarial].map(|limit| limit.as_ref().map(|(value, _)| *value));
            let digits = if adversarial.is_some_and(|value| value < 0.01) { 5 } else { 3 };
            let _ = writeln!(
                text,
                "  {:16} {:>8} {:>11} {:>9} {:>11}",
                limits.kind,
                limits.channels,
                number(limits.mean_links, 3),
                number(uniform, 3),
                number(adversarial, digits)
            );
        }
        text
    }

    /// The limits, a row per routing.
    fn table(&self) -> Table {
        let number = |value: &dyn Fn(&Limits) -> Option<f64>| Column::Number(self.limits.iter().map(value).collect());
        let words = |value: &dyn Fn(&Limits) -> String| Column::Text(self.limits.iter().map(value).collect());
        let what = |limit: &Option<(f64, String)>| limit.as_ref().map_or_else(String::new, |(_, what)| what.clone());
        let value = |limit: &Option<(f64, String)>| limit.as_ref().map(|(value, _)| *value);
        Table::new(vec![
            ("routing", words(&|limits| limits.kind.name().to_owned())),
            ("virtual_channels", Column::Integer(self.limits.iter().map(|limits| i64::from(limits.channels)).collect())),
            ("mean_links", number(&|limits| limits.mean_links)),
            ("uniform", number(&|limits| value(&limits.uniform))),
            ("uniform_limited_by", words(&|limits| what(&limits.uniform))),
            ("next_group", number(&|limits| value(&limits.adversarial))),
            ("next_group_limited_by", words(&|limits| what(&limits.adversarial))),
        ])
    }

    fn json(&self) -> Value {
        let counts = self.topology.counts();
        let limit = |limit: &Option<(f64, String)>| limit.as_ref().map(|(value, what)| json!({"limit": value, "limited_by": what}));
        let own = self.own.iter().map(|(class, link, cables)| {
            json!({
                "class": if *class == LinkClass::Global { "global" } else { "switch" },
                "bytes_per_s": link.rate.0,
                "latency_ns": link.latency.as_ns_f64(),
                "cables": cables,
            })
        });
        let limits = self.limits.iter().map(|limits| {
            json!({
                "routing": limits.kind.name(),
                "virtual_channels": limits.channels,
                "mean_links": limits.mean_links,
                "uniform": limit(&limits.uniform),
                "next_group": limit(&limits.adversarial),
            })
        });
        json!({
            "machine": self.machine.name,
            "topology": self.topology.name(),
            "nodes": counts.hosts,
            "switches": counts.switches,
            "groups": self.topology.groups(),
            "radix": counts.radix,
            "cables": {"nodes": counts.host_cables, "local": self.local, "global": self.global, "failed": self.topology.failed_links() / 2},
            "own_speeds": own.collect::<Vec<_>>(),
            "diameter_links": counts.diameter,
            "bisection": {"local": self.cut.local, "global": self.cut.global, "fraction": self.full},
            "routing": self.machine.network.routing.name(),
            "limits": limits.collect::<Vec<_>>(),
        })
    }
}

/// "switch 3 to switch 17"
fn name(topology: &Topology, link: LinkId) -> String {
    let end = |vertex| match vertex {
        Vertex::Host(host) => format!("node {host}"),
        Vertex::Switch(switch) => format!("switch {switch}"),
    };
    let link = &topology.links()[link as usize];
    format!("{} to {}", end(link.from), end(link.to))
}
