//! How messages move on a machine, for people and for `summary.json`: the protocol, its thresholds, the rails.

use narrows_machine::Machine;
use narrows_message::{
    Bridging, Count, Distribution, GatewayChoice, GatewayPlace, MessageConfig, Passed, Protocol, RailChoice, RailConfig, Rails, Rendezvous,
    Sent,
};
use narrows_sim::RailTotals;
use narrows_units::show::size;
use narrows_units::{ByteRate, Rail};
use serde_json::{Value, json};

/// What was chosen before anything moved.
#[derive(Clone, Debug)]
pub struct Ways {
    message: MessageConfig,
    protocol: &'static str,
    /// Of each rail of the machine: its network, if that has a name, and its number among the rails of that.
    rails: Vec<(Option<String>, u32)>,
}

/// `3 messages, 1.5 KiB`.
fn count(count: Count) -> String {
    let Count { messages, bytes } = count;
    format!("{messages} message{}, {}", if messages == 1 { "" } else { "s" }, size(bytes))
}

impl Ways {
    /// Of ranks whose rails are those of `message`.
    pub(crate) fn of(machine: &Machine, message: &MessageConfig) -> Ways {
        let network = |at: usize| machine.fabrics.get(at / machine.rails.max(1) as usize).map(|fabric| fabric.name.clone());
        let rails = machine.planes().iter().enumerate().map(|(at, plane)| (network(at), plane.copy)).collect();
        Ways { message: message.clone(), protocol: machine.message.protocol.name(), rails }
    }

    /// A rail, as lines call it: `rail 2 (ib)`.
    fn rail(&self, rail: usize) -> String {
        match self.rails.get(rail) {
            Some((Some(network), _)) => format!("rail {rail} ({network})"),
            _ => format!("rail {rail}"),
        }
    }

    /// What was chosen, in lines for people.
    pub fn lines(&self) -> Vec<String> {
        let MessageConfig { protocol, rails, eager_limit, rendezvous, max_portals_message, .. } = &self.message;
        let way = match (rendezvous, protocol) {
            (_, Protocol::Exanet) => "put, started by the sender's firmware",
            (Rendezvous::Get, _) => "get",
            (Rendezvous::Put, _) => "put",
        };
        let eager = match protocol {
            Protocol::Pscom(pscom) => format!(
                "in pieces of {} ({} buffers to send from, {} to receive into)",
                size(pscom.buffer),
                pscom.send_buffers,
                pscom.receive_buffers
            ),
            _ => String::from("in one put"),
        };
        let longest = match protocol {
            Protocol::Pscom(pscom) => pscom.fragment.min(*max_portals_message),
            _ => *max_portals_message,
        };
        let mut lines = vec![format!(
            "protocol {}: up to {} eager, {eager}; longer by rendezvous, {way}, at most {} at a time",
            self.protocol,
            size(*eager_limit),
            size(longest)
        )];
        if let Protocol::Mpc(mpc) = protocol
            && mpc.registration.costs()
        {
            let known = size(mpc.registration.cache);
            lines.push(format!("buffers of long messages are registered at each NIC, and stay so below {known} in all"));
        }
        if let Some(bridging) = rails.bridging() {
            let modules: Vec<&str> = bridging.modules.iter().map(|module| module.name.as_str()).collect();
            let names: Vec<&str> = bridging.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
            let choice = match bridging.choice {
                GatewayChoice::Static => "by the two nodes",
                GatewayChoice::LeastLoaded => "the least loaded one",
            };
            lines.push(format!(
                "ranks are on the networks {}; between them the gateways {} ({choice}) pass puts of up to {}, {} at a time of each rank",
                modules.join(" and "),
                names.join(", "),
                size(bridging.fragment),
                bridging.buffers
            ));
            for module in &bridging.modules {
                lines.extend(
                    self.rails_line(&Rails::of(module.rails.iter().copied())).map(|line| format!("inside of {}: {line}", module.name)),
                );
            }
            return lines;
        }
        lines.extend(self.rails_line(rails));
        lines
    }

    /// How messages are spread over rails, if there are several.
    fn rails_line(&self, rails: &Rails) -> Option<String> {
        let first = self.rail(rails.first().index());
        Some(match (self.message.protocol, rails.all().len()) {
            (Protocol::Mpc(mpc), several @ 2..) => {
                let cut = match mpc.distribution {
                    Distribution::Fragments(fragment) => format!("fragments of {}, to the rails in turn", size(fragment)),
                    Distribution::Even => String::from("equal parts, one for each rail"),
                    Distribution::Rates => {
                        let rates = rails.rates().iter().map(|&rate| ByteRate(rate).to_string());
                        format!("a part for each rail by its rate ({})", rates.collect::<Vec<_>>().join(", "))
                    }
                };
                let one = match mpc.choice {
                    RailChoice::RoundRobin => "the next rail",
                    RailChoice::LeastLoaded => "the rail that is through with it first",
                };
                let name = |(at, rail): (usize, &Rail)| match rails.minimums()[at] {
                    minimum if at > 0 && minimum > 0 => format!("{} from {}", self.rail(rail.index()), size(minimum)),
                    _ => self.rail(rail.index()),
                };
                let names: Vec<String> = rails.all().iter().enumerate().map(name).collect();
                format!(
                    "{several} rails ({}): from {} on in {cut}; shorter ones of a rendezvous take {one}, all else {first}",
                    names.join(", "),
                    size(mpc.minimum)
                )
            }
            (_, several @ 2..) => {
                format!("{several} rails, all on {first}: message.protocol = \"mpc\" takes several")
            }
            _ => return None,
        })
    }

    /// What was sent, in lines for people.
    pub fn used(&self, sent: &Sent, rails_of: &[RailTotals]) -> Vec<String> {
        let mut lines = vec![format!(
            "by protocol: eager {}; rendezvous {}; over several rails {}",
            count(sent.eager),
            count(sent.rendezvous),
            count(sent.spread)
        )];
        if rails_of.len() > 1 {
            let of_rail = |(at, rail): (usize, &RailTotals)| format!("{} {}", self.rail(at), count(count_of(rail)));
            let rails: Vec<String> = rails_of.iter().enumerate().map(of_rail).collect();
            lines.push(format!("puts, gets and atomics by rail: {}", rails.join("; ")));
            let carried = rails_of.iter().enumerate().filter(|(_, rail)| rail.carried > 0);
            let carried = carried
                .map(|(at, rail)| format!("{} {}", self.rail(at), count(Count { messages: rail.carried, bytes: rail.carried_bytes })));
            let carried: Vec<String> = carried.collect();
            if !carried.is_empty() {
                lines.push(format!("carried for rails that have failed: {}", carried.join("; ")));
            }
        }
        lines
    }

    /// What has passed gateways, a line each.
    pub fn passed(&self, passed: &[Passed]) -> Vec<String> {
        let gateways = self.message.rails.bridging().into_iter().flat_map(|bridging| &bridging.gateways);
        let line = |(place, passed): (&GatewayPlace, &Passed)| {
            let Passed { messages, bytes, busy } = *passed;
            format!("gateway {}: {}, busy for {busy}", place.name, count(Count { messages, bytes }))
        };
        gateways.zip(passed).map(line).collect()
    }

    /// The same, as `summary.json` has it, of ranks that needed some.
    fn gateways(&self, bridging: &Bridging, passed: &[Passed]) -> Value {
        let of = |(place, passed): (&GatewayPlace, &Passed)| {
            let networks: Vec<String> = place.rails.iter().map(|rail| self.rail(rail.index())).collect();
            json!({
                "node": place.name,
                "rails": networks,
                "messages": passed.messages,
                "bytes": passed.bytes,
                "busy_ps": passed.busy.as_ps(),
            })
        };
        json!({
            "fragment_bytes": bridging.fragment,
            "buffers": bridging.buffers,
            "choice": match bridging.choice {
                GatewayChoice::Static => "static",
                GatewayChoice::LeastLoaded => "least-loaded",
            },
            "nodes": bridging.gateways.iter().zip(passed).map(of).collect::<Vec<_>>(),
        })
    }

    /// Both, as `summary.json` has them.
    pub fn summary(&self, sent: &Sent, rails: &[RailTotals], passed: &[Passed]) -> Value {
        let MessageConfig { protocol, eager_limit, inject_limit, rendezvous, max_portals_message, .. } = &self.message;
        let of = |Count { messages, bytes }: Count| json!({ "messages": messages, "bytes": bytes });
        let bridging = self.message.rails.bridging();
        let common: Vec<RailConfig> = match bridging {
            Some(bridging) => bridging.modules.iter().flat_map(|module| module.rails.iter().copied()).collect(),
            None => self.message.rails.configs().collect(),
        };
        let rails = self.rails.iter().enumerate().map(|(at, (network, plane))| {
            let RailTotals { messages, bytes, carried, carried_bytes } = rails.get(at).copied().unwrap_or_default();
            let config = common.iter().find(|config| config.rail.index() == at);
            json!({
                "rail": at,
                "network": network,
                "plane": plane,
                "common": config.is_some(),
                "rate_bytes_per_s": config.map(|config| config.rate),
                "minimum_bytes": config.map(|config| config.minimum),
                "messages": messages,
                "bytes": bytes,
                "carried": json!({ "messages": carried, "bytes": carried_bytes }),
            })
        });
        let mut summary = json!({
            "protocol": self.protocol,
            "eager_limit_bytes": eager_limit,
            "inject_limit_bytes": inject_limit,
            "rendezvous": match rendezvous {
                Rendezvous::Get => "get",
                Rendezvous::Put => "put",
            },
            "longest_bytes": max_portals_message,
            "eager": of(sent.eager),
            "by_rendezvous": of(sent.rendezvous),
            "over_rails": of(sent.spread),
            "rails": rails.collect::<Vec<_>>(),
        });
        if let Some(bridging) = bridging {
            summary["gateways"] = self.gateways(bridging, passed);
        }
        let more = match protocol {
            Protocol::Openmpi | Protocol::Exanet => json!({}),
            Protocol::Mpc(mpc) => json!({
                "spread_from_bytes": mpc.minimum,
                "fragment_bytes": match mpc.distribution {
                    Distribution::Fragments(fragment) => Some(fragment),
                    Distribution::Even | Distribution::Rates => None,
                },
                "distribution": match mpc.distribution {
                    Distribution::Fragments(_) => "fragments",
                    Distribution::Even => "even",
                    Distribution::Rates => "rates",
                },
                "rail_choice": match mpc.choice {
                    RailChoice::RoundRobin => "round-robin",
                    RailChoice::LeastLoaded => "least-loaded",
                },
                "registration_cache_bytes": mpc.registration.costs().then_some(mpc.registration.cache),
            }),
            Protocol::Pscom(pscom) => json!({
                "buffer_bytes": pscom.buffer,
                "send_buffers": pscom.send_buffers,
                "receive_buffers": pscom.receive_buffers,
                "fragment_bytes": pscom.fragment,
            }),
        };
        if let (Some(summary), Value::Object(more)) = (summary.as_object_mut(), more) {
            summary.extend(more);
        }
        summary
    }
}

fn count_of(rail: &RailTotals) -> Count {
    Count { messages: rail.messages, bytes: rail.bytes }
}
