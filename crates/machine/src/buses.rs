//! The ways between the processors of a node: a tree of buses, whose root is the host's processor.

use crate::model::{Link, Machine};
use crate::node::{Auxiliary, Bus, HOST};
use narrows_fabric::{IntraNodeConfig, NodeRoutes};
use narrows_keys::Problem;
use narrows_units::ProcessorId;

/// What the tree is made of: processors, of which 0 is the host's, and buses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vertex {
    Processor(usize),
    Bus(usize),
}

impl Machine {
    /// The number of a processor among the kinds that the machine has: 0 for those of hosts.
    ///
    /// # Panics
    /// When the machine does not have it.
    pub fn processor_kind(&self, id: ProcessorId) -> u16 {
        let name = self.processor(id).0;
        let kind = self.auxiliaries.iter().position(|auxiliary| id.number > 0 && auxiliary.name == name);
        kind.map_or(0, |kind| kind as u16 + 1)
    }

    fn bus(&self, name: &str) -> Option<Vertex> {
        self.buses.iter().position(|bus| bus.name == name).map(Vertex::Bus)
    }

    fn vertex(&self, name: &str) -> Option<Vertex> {
        let processor = || self.auxiliaries.iter().position(|auxiliary| auxiliary.name == name).map(|at| Vertex::Processor(at + 1));
        if name == HOST { Some(Vertex::Processor(0)) } else { self.bus(name).or_else(processor) }
    }

    /// What a part hangs on; `None`: it is the root, hangs on nothing, or on what is not there.
    fn above(&self, vertex: Vertex) -> Option<Vertex> {
        match vertex {
            Vertex::Processor(at) => self.bus(&self.auxiliaries[at.checked_sub(1)?].bus),
            Vertex::Bus(at) => self.vertex(&self.buses[at].on),
        }
    }

    /// From a part up to where it hangs on nothing; of a circle, once around.
    fn way_up(&self, from: Vertex) -> Vec<Vertex> {
        let mut way = vec![from];
        while let Some(next) = self.above(way[way.len() - 1]).filter(|next| !way.contains(next)) {
            way.push(next);
        }
        way
    }

    /// The buses between the host and a processor.
    pub(crate) fn way_to(&self, name: &str) -> impl Iterator<Item = usize> {
        let at = self.auxiliaries.iter().position(|auxiliary| auxiliary.name == name);
        let way = at.map_or_else(Vec::new, |at| self.way_up(Vertex::Processor(at + 1)));
        way.into_iter().filter_map(|vertex| if let Vertex::Bus(at) = vertex { Some(at) } else { None })
    }

    /// Keys that make no tree of the buses.
    pub(crate) fn misplaced_buses(&self) -> Vec<(String, Problem)> {
        let names: Vec<&str> = self.buses.iter().map(|bus| bus.name.as_str()).collect();
        let unknown = |Auxiliary { name, bus, .. }: &Auxiliary| {
            let label =
                if names.is_empty() { String::from("expected a section [bus.NAME]") } else { format!("expected {}", names.join(" or ")) };
            let problem = Problem::new(format!("no bus \"{}\"", bus.escape_debug()), label);
            (!bus.is_empty() && self.bus(bus).is_none()).then(|| (format!("processor.{name}.bus"), problem))
        };
        let misplaced = |(at, Bus { name, on, .. }): (usize, &Bus)| {
            let way = self.way_up(Vertex::Bus(at));
            let (message, label) = match way.last() {
                _ if self.auxiliaries.iter().any(|auxiliary| auxiliary.name == *name) => {
                    (format!("a bus and a processor are both called {name}"), "expected names that differ")
                }
                Some(Vertex::Processor(0)) => return None,
                _ if self.vertex(on).is_none() => {
                    (format!("no processor or bus \"{}\"", on.escape_debug()), "expected \"host\", or the name of a section")
                }
                _ => (format!("the bus {name} does not lead to the host"), "expected a tree of buses, whose root is \"host\""),
            };
            Some((format!("bus.{name}.on"), Problem::new(message, label)))
        };
        self.auxiliaries.iter().filter_map(unknown).chain(self.buses.iter().enumerate().filter_map(misplaced)).collect()
    }

    /// What there is in nodes beside `node.intra`, and from each kind of processor to each the route, row by row.
    pub fn node_routes(&self) -> (NodeRoutes, Vec<u16>) {
        let of = |link: &Link| IntraNodeConfig { latency: link.latency, rate: link.bandwidth };
        // Each bus is two, towards the host and away from it.
        let both = self.buses.iter().flat_map(|bus| [of(&bus.link); 2]);
        let buses = both.chain(self.auxiliaries.iter().map(|auxiliary| of(&auxiliary.intra))).collect();
        let kinds = 0..=self.auxiliaries.len();
        let (mut routes, mut table) = (Vec::new(), Vec::new());
        for from in kinds.clone() {
            for to in kinds.clone() {
                let route = self.route(from, to);
                table.push(if route.is_empty() { 0 } else { routes.len() as u16 + 1 });
                routes.extend(Some(route).filter(|route| !route.is_empty()));
            }
        }
        (NodeRoutes { buses, routes }, table)
    }

    /// What a message passes; nothing: it goes over `node.intra`.
    fn route(&self, from: usize, to: usize) -> Vec<u16> {
        if from == to {
            return from.checked_sub(1).map(|auxiliary| (2 * self.buses.len() + auxiliary) as u16).into_iter().collect();
        }
        let [up, down] = [from, to].map(|kind| self.way_up(Vertex::Processor(kind)));
        let Some((turn, back)) = up.iter().enumerate().find_map(|(at, vertex)| Some((at, down.iter().position(|other| other == vertex)?)))
        else {
            return Vec::new();
        };
        let bus = |vertex: &Vertex, away: usize| match vertex {
            Vertex::Bus(at) => Some((2 * at + away) as u16),
            Vertex::Processor(_) => None,
        };
        let towards = up[..=turn].iter().filter_map(|vertex| bus(vertex, 0));
        towards.chain(down[..back].iter().rev().filter_map(|vertex| bus(vertex, 1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overrides;

    /// `two`: what the second processor hangs on.
    fn machine(two: &str, buses: &str) -> Result<Machine, String> {
        let text = format!(
            "[machine]\nname = \"x\"\nbase = \"example-cluster\"\n[node]\nprocessors = [\"one\", \"two\"]\n[processor.one]\n\
             bus = \"near\"\n[processor.two]\nbus = \"{two}\"\n{buses}"
        );
        Machine::parse("x.toml", &text, &Overrides::default()).map_err(|error| error.to_string())
    }

    const NEAR: &str = "[bus.near]\nlatency = \"100 ns\"\nbandwidth = \"10 GB/s\"\n";
    const FAR: &str = "[bus.far]\nlatency = \"300 ns\"\nbandwidth = \"5 GB/s\"\n";

    /// From the host, one and two to each: towards the host over near 1, far 3, away from it over near 0 ...
    fn routes(two: &str, buses: &str) -> Vec<String> {
        let machine = machine(two, buses).unwrap();
        let (NodeRoutes { buses, routes }, table) = machine.node_routes();
        assert_eq!(buses.len(), 2 * machine.buses.len() + 2);
        let name = |&bus: &u16| match machine.buses.get(usize::from(bus) / 2) {
            Some(Bus { name, .. }) => format!("{name} {}", ["up", "down"][usize::from(bus) % 2]),
            None => format!("within {}", machine.auxiliaries[usize::from(bus) - 2 * machine.buses.len()].name),
        };
        let route = |&route: &u16| match usize::from(route).checked_sub(1) {
            Some(route) => routes[route].iter().map(name).collect::<Vec<_>>().join(", "),
            None => String::from("intra"),
        };
        table.iter().map(route).collect()
    }

    #[test]
    fn messages_take_the_buses_between_processors() {
        let apart = routes("far", &[NEAR, FAR].concat());
        let expected = [
            ["intra", "near down", "far down"],
            ["near up", "within one", "near up, far down"],
            ["far up", "far up, near down", "within two"],
        ];
        assert_eq!(apart, expected.concat(), "two buses on the host");
        let chain = routes("far", &format!("{NEAR}{FAR}on = \"near\"\n"));
        assert_eq!([&chain[2], &chain[5], &chain[7]], ["near down, far down", "near up, far down", "far up, near up"], "a bus on a bus");
        let beyond = routes("far", &format!("{NEAR}{FAR}on = \"one\"\n"));
        assert_eq!([&beyond[2], &beyond[5], &beyond[7]], ["near down, far down", "far down", "far up"], "a bus on a processor");
        let shared = routes("near", NEAR);
        assert_eq!([&shared[2], &shared[5], &shared[7]], ["near down", "near up", "near up"], "two processors on a bus");
        let none = routes("", NEAR);
        assert_eq!([&none[2], &none[5], &none[8]], ["intra", "intra", "within two"], "two hangs on nothing");
    }

    #[test]
    fn buses_make_a_tree() {
        let refused = |two: &str, buses: &str| {
            let error = machine(two, buses).unwrap_err();
            error.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(refused("far", NEAR), "error: no bus \"far\"");
        assert_eq!(refused("near", &format!("{NEAR}on = \"three\"\n")), "error: no processor or bus \"three\"");
        assert_eq!(refused("near", &format!("{NEAR}on = \"near\"\n")), "error: the bus near does not lead to the host");
        assert_eq!(refused("near", &format!("{NEAR}on = \"two\"\n")), "error: the bus near does not lead to the host");
        assert_eq!(refused("near", &NEAR.replace("latency", "# latency")), "error: missing key `latency` in [bus.near]");
        let both = format!("{NEAR}{}", FAR.replace("far", "two"));
        assert_eq!(refused("near", &both), "error: a bus and a processor are both called two");
    }
}
