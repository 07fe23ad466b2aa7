//! What makes no sense in the configuration of a network.

use super::{Arbitration, Derived, FlowControl, NetworkConfig, NetworkKind, Reliability};
use crate::faults::Fault;
use narrows_topology::deadlock::MAX_CHECKED_SWITCHES;
use narrows_topology::{Deadlock, FailureError, LinkClass, Route, Routing, RoutingError, RoutingKind, RoutingOptions, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// Largest packet on the wire: sizes of packets are kept in 32 bits.
const MAX_WIRE: u64 = 1 << 30;
/// Slowest: 1 MB/s. The largest message then takes 10^18 ps, which 64 bits hold.
const MIN_RATE: ByteRate = ByteRate(1_000_000);
/// Fastest: 100 TB/s. The flow solver keeps rates with 16 more bits in 64.
const MAX_RATE: ByteRate = ByteRate(100_000_000_000_000);

/// Why a [`NetworkConfig`] makes no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// More processes than regions.
    #[error(
        "{processes} processes, but this network falls into {regions} part{} that can run apart: start at most {regions}; only networks of packets fall into parts, along groups or pods",
        if *regions == 1 { "" } else { "s" }
    )]
    Processes {
        /// Of the simulator.
        processes: u32,
        /// See [`crate::parallel`].
        regions: u32,
    },
    /// A rate of zero, or one beyond what times in picoseconds can tell.
    #[error("{what} is {rate}; expected {MIN_RATE} to {MAX_RATE}")]
    Rate {
        /// The field.
        what: &'static str,
        /// Its value.
        rate: ByteRate,
    },
    /// No payload fits a packet, or the packet is too large.
    #[error(
        "packets of {mtu} payload and {header} header; expected an mtu of at least 1 B, a header of at least 1 B, and together at most {}",
        Bytes(MAX_WIRE)
    )]
    Packet {
        /// Payload bytes.
        mtu: Bytes,
        /// Header bytes.
        header: Bytes,
    },
    /// A packet would never fit its buffer.
    #[error("buffer_per_channel is {buffer}; a packet of {packet} must fit")]
    Buffer {
        /// The buffer.
        buffer: Bytes,
        /// Wire bytes of a full packet.
        packet: Bytes,
    },
    /// Too few or too many virtual networks.
    #[error("{given} virtual networks; expected 1 to 16")]
    VirtualNetworks {
        /// What was given.
        given: u8,
    },
    /// Too few for the routing, or more than the model keeps.
    #[error("{given} virtual channels; the routing needs {needed}, and virtual networks times channels must be at most 64")]
    VirtualChannels {
        /// What was given.
        given: u8,
        /// What the routing needs.
        needed: u8,
    },
    /// No packet could ever be read.
    #[error("read_window is 0; expected at least 1, and 2 for reading and sending at the same time")]
    ReadWindow,
    /// A latency that no sum can hold.
    #[error("{what} is {latency}; expected at most 1 s")]
    Latency {
        /// The field.
        what: &'static str,
        /// Its value.
        latency: SimTime,
    },
    /// A class that would never send.
    #[error("weight {class} is 0; expected at least 1 for every virtual network")]
    Weight {
        /// Its place in the list.
        class: usize,
    },
    /// No match, or more than find anything.
    #[error("iSLIP in {given} iterations; expected 1 to 16")]
    Iterations {
        /// What was given.
        given: u32,
    },
    /// Thresholds in the wrong order, or beyond the buffer.
    #[error("pauses at xoff {xoff} and xon {xon} with a buffer of {buffer}; expected 1 B <= xon <= xoff <= buffer")]
    Pause {
        /// Stops.
        xoff: Bytes,
        /// Goes on.
        xon: Bytes,
        /// The buffer.
        buffer: Bytes,
    },
    /// The buffer has no room above the headroom, so there is no threshold.
    #[error(
        "a buffer of {buffer} does not hold the headroom of {headroom} and three packets; expected at least {least}, or an xoff that says what to risk"
    )]
    Headroom {
        /// The buffer.
        buffer: Bytes,
        /// What arrives after the pause.
        headroom: Bytes,
        /// Headroom and three packets.
        least: Bytes,
    },
    /// A pause of no length, a frame of no size, or no time before a resend.
    #[error("{what} is {given}; expected {expected}")]
    PauseValue {
        /// The field.
        what: &'static str,
        /// Its value.
        given: String,
        /// What would do.
        expected: &'static str,
    },
    /// Flows that could send nothing, or tell no packets apart.
    #[error("{what} is {given}; expected {expected}")]
    Reliability {
        /// The field.
        what: &'static str,
        /// Its value.
        given: String,
        /// What would do.
        expected: &'static str,
    },
    /// Messages would never arrive, and nobody would know.
    #[error("a fault loses or breaks packets, but ports do not send them again; expected reliability, or no such fault")]
    FaultWithoutReliability,
    /// Its sources would never hear of congestion.
    #[error("{control} needs marks, and switches give none; expected switches that mark, or another congestion control")]
    MarksMissing {
        /// The congestion control.
        control: &'static str,
    },
    /// Its sources would never hear of queues and rates.
    #[error("{control} needs telemetry, and switches write none; expected switches that write it, or another congestion control")]
    TelemetryMissing {
        /// The congestion control.
        control: &'static str,
    },
    /// Links would count flows that are gone.
    #[error("s-perc needs {what}; expected that, or another congestion control")]
    PercNeeds {
        /// What is missing.
        what: &'static str,
    },
    /// Only packets can be lost.
    #[error("a fault loses or breaks packets, and this network has none; expected the packet network, or no such fault")]
    FaultWithoutPackets,
    /// A link that is not there.
    #[error("a fault of link {link}, but there are {links} links")]
    FaultLink {
        /// Its number.
        link: u32,
        /// Links.
        links: u32,
    },
    /// A fault that packets are to go around cuts hosts off.
    #[error("a fault that packets go around: {0}")]
    Reroute(#[from] FailureError),
    /// Ways around a fault are those of a machine without failures.
    #[error(
        "packets go around a fault on a machine without failures only; expected no reroute, or no topology.failed_links and failed_switches"
    )]
    RerouteOfFailures,
    /// The routing does not fit the topology.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Packets could wait for each other for ever.
    #[error("routing \"{routing}\" on {topology} is not free of deadlock: {deadlock}")]
    Deadlock {
        /// The routing.
        routing: RoutingKind,
        /// The topology.
        topology: String,
        /// Who would wait for whom.
        deadlock: Deadlock,
    },
}

/// The ways through a network.
#[derive(Clone, Debug)]
pub(crate) struct Routings {
    pub routing: Routing,
    /// Those of packets that leave their ports from a time on, in the order of these times.
    pub reroutes: Vec<(SimTime, Routing)>,
}

impl NetworkConfig {
    /// Checks thresholds, buffers and frames of [`FlowControl::Pause`].
    ///
    /// # Errors
    /// [`ConfigError::PauseValue`], [`ConfigError::Headroom`], [`ConfigError::Pause`].
    pub fn check_flow_control(&self, topology: &Topology) -> Result<(), ConfigError> {
        let FlowControl::Pause(pause) = &self.flow_control else { return Ok(()) };
        let value = |what, given, expected| Err(ConfigError::PauseValue { what, given, expected });
        if !(1..=65535).contains(&pause.quanta) {
            return value("quanta", pause.quanta.to_string(), "1 to 65535");
        }
        if pause.frame.0 == 0 || pause.frame > Bytes(9216) {
            return value("pause frame", pause.frame.to_string(), "1 B to 9 KiB");
        }
        if pause.resend_after == SimTime::ZERO || pause.resend_after > SimTime::from_us(1_000_000) {
            return value("resend_after", pause.resend_after.to_string(), "1 ps to 1 s");
        }
        if pause.response > SimTime::from_us(1_000_000) {
            return value("pause response", pause.response.to_string(), "at most 1 s");
        }
        let (buffer, headroom) = (self.buffer_per_channel, self.headroom(pause, topology));
        let least = Bytes(headroom.0.saturating_add(3 * self.packet().0));
        if pause.xoff == Bytes(0) && buffer < least {
            return Err(ConfigError::Headroom { buffer, headroom, least });
        }
        let (xoff, xon) = self.pause_thresholds(pause, topology);
        if xon.0 == 0 || xon > xoff || xoff > buffer {
            return Err(ConfigError::Pause { xoff, xon, buffer });
        }
        Ok(())
    }

    /// Checks [`NetworkConfig::faults`] and [`NetworkConfig::reliability`].
    ///
    /// # Errors
    /// [`ConfigError::Reliability`], [`ConfigError::FaultLink`], [`ConfigError::FaultWithoutReliability`],
    /// [`ConfigError::FaultWithoutPackets`].
    pub fn check_faults(&self, topology: &Topology) -> Result<(), ConfigError> {
        if let Some(Reliability { window, timeout, ack, checks, .. }) = self.reliability {
            let value = |what, given, expected| Err(ConfigError::Reliability { what, given, expected });
            if !(1..=1 << 15).contains(&window) {
                return value("reliability window", window.to_string(), "1 to 32768 packets");
            }
            if timeout == SimTime::ZERO || timeout > SimTime::from_us(1_000_000) {
                return value("reliability timeout", timeout.to_string(), "1 ps to 1 s");
            }
            if ack.0 == 0 || ack > self.packet() {
                return value("reliability ack", ack.to_string(), "1 B to a full packet");
            }
            for (what, bits) in [("reliability fcs", checks.fcs), ("reliability crc", checks.crc)] {
                if bits > 32 {
                    return value(what, bits.to_string(), "0 to 32 bits");
                }
            }
        }
        self.check_congestion(topology)?;
        if self.faults.is_empty() {
            return Ok(());
        }
        if self.kind != NetworkKind::Packet {
            return Err(ConfigError::FaultWithoutPackets);
        }
        if self.reliability.is_none() && self.faults.iter().any(Fault::harms) {
            return Err(ConfigError::FaultWithoutReliability);
        }
        if self.faults.iter().any(|fault| fault.reroute.is_some()) && topology.failed_links() > 0 {
            return Err(ConfigError::RerouteOfFailures);
        }
        let links = topology.links().len() as u32;
        match self.faults.iter().filter_map(|fault| fault.link).find(|&link| link >= links) {
            Some(link) => Err(ConfigError::FaultLink { link, links }),
            None => Ok(()),
        }
    }

    /// As [`NetworkConfig::check`], with the ways around faults.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub(crate) fn routings(&self, topology: &Topology) -> Result<Routings, ConfigError> {
        let routing = self.check(topology)?;
        // When a way around a link begins, and ends.
        let spans: Vec<(u32, SimTime, SimTime)> = self
            .faults
            .iter()
            .filter_map(|fault| {
                let after = fault.reroute?;
                Some((fault.link?, fault.from + after, fault.to + after))
            })
            .collect();
        let mut times: Vec<SimTime> = spans.iter().flat_map(|&(_, from, to)| [from, to]).filter(|&at| at < SimTime::MAX).collect();
        times.sort_unstable();
        times.dedup();
        let mut reroutes = Vec::new();
        for at in times {
            let failed: Vec<u32> = spans.iter().filter(|&&(_, from, to)| from <= at && at < to).map(|&(link, ..)| link).collect();
            let around = topology.clone().without_links(&failed)?;
            let routing = Routing::new(self.routing, &around, self.routing_options())?;
            let needed = routing.virtual_channels();
            if self.virtual_channels < needed {
                return Err(ConfigError::VirtualChannels { given: self.virtual_channels, needed });
            }
            reroutes.push((at, routing));
        }
        Ok(Routings { routing, reroutes })
    }

    fn routing_options(&self) -> RoutingOptions {
        // Loads are times; a threshold that no load reaches may be any long time.
        let threshold = self.switch_link.rate.time_for(Bytes(self.ugal_threshold.0.min(MAX_WIRE))).as_ps();
        RoutingOptions { seed: self.seed, threshold }
    }

    /// Checks every field against the others and the topology; gives the routing, which was checked with them.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(&self, topology: &Topology) -> Result<Routing, ConfigError> {
        let mut rates = vec![
            ("host_link rate", self.host_link.rate),
            ("switch_link rate", self.switch_link.rate),
            ("global_link rate", self.global_link.rate),
            ("pcie_rate", self.pcie_rate),
            ("intra_node rate", self.intra_node.rate),
        ];
        if let Derived::Fixed(rate) = self.loggp.rate {
            rates.push(("loggp rate", rate));
        }
        rates.extend(self.node_routes.buses.iter().map(|bus| ("rate of a bus", bus.rate)));
        let own = &self.links(topology)[LinkClass::ALL.len()..];
        rates.extend(own.iter().map(|link| ("rate of a single link", link.rate)));
        for (what, rate) in rates {
            if rate < MIN_RATE || rate > MAX_RATE {
                return Err(ConfigError::Rate { what, rate });
            }
        }
        let mut latencies = vec![
            ("host_link latency", self.host_link.latency),
            ("switch_link latency", self.switch_link.latency),
            ("global_link latency", self.global_link.latency),
            ("switch_latency", self.switch_latency),
            ("turns entry", self.turns.entry),
            ("turns change", self.turns.change),
            ("intra_node latency", self.intra_node.latency),
            ("loggp gap", self.loggp.gap),
            ("packet_gap", self.packet_gap),
        ];
        if let Derived::Fixed(latency) = self.loggp.latency {
            latencies.push(("loggp latency", latency));
        }
        latencies.extend(self.node_routes.buses.iter().map(|bus| ("latency of a bus", bus.latency)));
        latencies.extend(own.iter().map(|link| ("latency of a single link", link.latency)));
        for (what, latency) in latencies {
            if latency > SimTime::from_us(1_000_000) {
                return Err(ConfigError::Latency { what, latency });
            }
        }
        if self.mtu.0 == 0 || self.header.0 == 0 || self.packet().0 > MAX_WIRE {
            return Err(ConfigError::Packet { mtu: self.mtu, header: self.header });
        }
        if self.buffer_per_channel < self.packet() {
            return Err(ConfigError::Buffer { buffer: self.buffer_per_channel, packet: self.packet() });
        }
        if !(1..=16).contains(&self.virtual_networks) {
            return Err(ConfigError::VirtualNetworks { given: self.virtual_networks });
        }
        if let Arbitration::WeightedPackets(weights) | Arbitration::WeightedBytes(weights) = &self.arbitration
            && let Some(class) = weights.iter().position(|&weight| weight == 0)
        {
            return Err(ConfigError::Weight { class });
        }
        if let Arbitration::Islip(given) = self.arbitration
            && !(1..=16).contains(&given)
        {
            return Err(ConfigError::Iterations { given });
        }
        self.check_flow_control(topology)?;
        self.check_faults(topology)?;
        let routing = Routing::new(self.routing, topology, self.routing_options())?;
        let needed = routing.virtual_channels();
        if self.virtual_channels < needed || u32::from(self.all_virtual_networks()) * u32::from(self.virtual_channels) > 64 {
            return Err(ConfigError::VirtualChannels { given: self.virtual_channels, needed });
        }
        if self.read_window == 0 {
            return Err(ConfigError::ReadWindow);
        }
        // The other networks have no channels to wait for.
        if self.kind == NetworkKind::Packet && topology.switches() <= MAX_CHECKED_SWITCHES {
            routing.check_deadlock(topology).map_err(|deadlock| ConfigError::Deadlock {
                routing: self.routing,
                topology: topology.name().to_owned(),
                deadlock,
            })?;
        }
        Ok(routing)
    }
}
