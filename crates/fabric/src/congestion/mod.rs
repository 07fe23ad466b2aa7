//! Congestion controls: each is a file, with its numbers and what is checked of them ([`Numbers`]), with what links do
//! for it ([`AtLinks`]) and write into packets ([`Carried`]); and a line in this one. Sources are in `narrows_port`.

mod acc;
mod dcqcn;
mod dctcp;
mod hpcc;
mod nscc;
mod sperc;
mod swift;

pub use acc::{Acc, AccPolicy};
pub use dcqcn::Dcqcn;
pub use dctcp::Dctcp;
pub use hpcc::{Hop, Hpcc, MOST_HOPS, TICK, Telemetry};
pub use nscc::Nscc;
pub use sperc::{MOST_LINKS, Share, Shares, Sperc};
pub use swift::Swift;

use crate::config::{ConfigError, NetworkConfig};
use crate::packet::state::Packet;
use crate::timing::Costs;
use narrows_keys::{choice, keys};
use narrows_topology::Topology;
use narrows_units::{ByteRate, Bytes, Fraction, SimTime};
use serde::{Deserialize, Serialize};

/// The congestion control of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// As fast as window and link let them.
    None,
    /// Each at this rate at most, headers included.
    Throttle(ByteRate),
    /// At the rate that the links of its way grant.
    Acc(Acc),
    /// Slower when the target sees marks of switches.
    Dcqcn(Dcqcn),
    /// With a window that marks cut in proportion to their part.
    Dctcp(Dctcp),
    /// With a window that keeps delays at a target.
    Swift(Swift),
    /// With a window that follows delays and the marks of switches.
    Nscc(Nscc),
    /// With a window that follows what switches write into packets.
    Hpcc(Hpcc),
    /// At the max-min fair rates that links find with its control packets.
    Sperc(Sperc),
}

choice! {
    /// The name of a [`Congestion`].
    pub enum Control {
        /// None.
        None = "none",
        /// The same, and PAUSE frames hold flows up.
        Pfc = "pfc",
        /// [`Congestion::Throttle`].
        Throttle = "throttle",
        /// [`Congestion::Acc`].
        Acc = "acc",
        /// [`Congestion::Dcqcn`].
        Dcqcn = "dcqcn",
        /// [`Congestion::Dctcp`].
        Dctcp = "dctcp",
        /// [`Congestion::Swift`].
        Swift = "swift",
        /// [`Congestion::Nscc`].
        Nscc = "nscc",
        /// [`Congestion::Hpcc`].
        Hpcc = "hpcc",
        /// [`Congestion::Sperc`].
        Sperc = "s-perc",
    }
}

keys! {
    /// The numbers of all of them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Controls {
        /// Of `acc`.
        pub acc: Acc => "acc";
        /// Of `dcqcn`.
        pub dcqcn: Dcqcn => "dcqcn";
        /// Of `dctcp`.
        pub dctcp: Dctcp => "dctcp";
        /// Of `swift`.
        pub swift: Swift => "swift";
        /// Of `nscc`.
        pub nscc: Nscc => "nscc";
        /// Of `hpcc`.
        pub hpcc: Hpcc => "hpcc";
        /// Of `s-perc`.
        pub sperc: Sperc => "sperc";
        /// With `throttle`: of a flow, headers included; packets that are sent again do not count.
        pub throttle: ByteRate = "100 Gbit/s", at "network.throttle.rate";
    }
}

impl Controls {
    /// One of them with its numbers.
    pub fn of(&self, control: Control) -> Congestion {
        match control {
            Control::None | Control::Pfc => Congestion::None,
            Control::Throttle => Congestion::Throttle(self.throttle),
            Control::Acc => Congestion::Acc(self.acc),
            Control::Dcqcn => Congestion::Dcqcn(self.dcqcn),
            Control::Dctcp => Congestion::Dctcp(self.dctcp),
            Control::Swift => Congestion::Swift(self.swift),
            Control::Nscc => Congestion::Nscc(self.nscc),
            Control::Hpcc => Congestion::Hpcc(self.hpcc),
            Control::Sperc => Congestion::Sperc(self.sperc),
        }
    }
}

impl Congestion {
    /// Its name in errors, and its numbers.
    fn numbers(&self) -> (&'static str, &dyn Numbers) {
        match self {
            Congestion::None => ("none", &()),
            Congestion::Throttle(rate) => ("throttle", rate),
            Congestion::Acc(acc) => ("acc", acc),
            Congestion::Dcqcn(dcqcn) => ("dcqcn", dcqcn),
            Congestion::Dctcp(dctcp) => ("dctcp", dctcp),
            Congestion::Swift(swift) => ("swift", swift),
            Congestion::Nscc(nscc) => ("nscc", nscc),
            Congestion::Hpcc(hpcc) => ("hpcc", hpcc),
            Congestion::Sperc(sperc) => ("s-perc", sperc),
        }
    }

    /// Its control packets have a virtual network of their own, which comes before all others.
    pub fn has_control_packets(&self) -> bool {
        self.control_packet().is_some()
    }

    /// One of them on the wire.
    pub(crate) fn control_packet(&self) -> Option<Bytes> {
        self.numbers().1.control_packet()
    }

    /// Switches must mark: [`NetworkConfig::ecn`].
    pub fn needs_marks(&self) -> bool {
        self.numbers().1.needs_marks()
    }

    /// Switches must write into packets: [`NetworkConfig::telemetry`].
    pub fn needs_telemetry(&self) -> bool {
        self.numbers().1.needs_telemetry()
    }
}

/// What a packet carries beside its label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Carried {
    /// Nothing.
    #[default]
    Nothing,
    /// HPCC: packets of messages and acknowledgements.
    Telemetry(Telemetry),
    /// s-PERC: control packets.
    Shares(Shares),
}

impl Carried {
    /// It is one of ours, and not what another process has made up.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Carried::Nothing => true,
            Carried::Telemetry(telemetry) => telemetry.is_sound(),
            Carried::Shares(shares) => shares.is_sound(),
        }
    }
}

/// The numbers of a congestion control.
pub(crate) trait Numbers {
    /// One of its control packets on the wire, if it has any.
    fn control_packet(&self) -> Option<Bytes> {
        None
    }

    /// Switches must mark.
    fn needs_marks(&self) -> bool {
        false
    }

    /// Switches must write into packets.
    fn needs_telemetry(&self) -> bool {
        false
    }

    /// What else it needs of its numbers and of the network.
    fn check(&self, _network: &NetworkConfig, _topology: &Topology) -> Result<(), ConfigError> {
        Ok(())
    }

    /// What links do for it.
    fn at_links(&self, _of: &Links<'_>) -> Option<Box<dyn AtLinks>> {
        None
    }
}

impl Numbers for () {}
impl Numbers for ByteRate {}

/// The links of a region.
pub(crate) struct Links<'a> {
    pub config: &'a NetworkConfig,
    pub costs: &'a Costs,
    pub topology: &'a Topology,
    /// By output.
    pub links: &'a [u32],
    /// The virtual networks that the control is for, a bit each.
    pub networks: u32,
}

impl Links<'_> {
    /// That of a link, bytes per second.
    fn rate(&self, link: u32) -> u64 {
        self.costs.link(self.topology.links()[link as usize].speed).rate.0
    }
}

/// What a congestion control does at the links of a region.
pub(crate) trait AtLinks: std::fmt::Debug + Send {
    /// A packet starts on a link.
    fn pass(&mut self, start: &Start, packet: &mut Packet, carried: &mut Carried);

    /// It writes into packets.
    fn writes(&self) -> bool {
        false
    }
}

/// The start of a packet on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The link among those of the region, and in the topology.
    pub output: u32,
    pub link: u32,
    /// A host sends on it.
    pub of_host: bool,
    pub rate: ByteRate,
    /// Time on the wire of the packets that wait for it.
    pub backlog: u64,
    pub now: u64,
}

impl Start {
    /// What waits for the link.
    pub(crate) fn queue(&self) -> Bytes {
        Bytes((u128::from(self.backlog) * u128::from(self.rate.0) / 1_000_000_000_000) as u64)
    }
}

impl NetworkConfig {
    /// What the congestion controls do at links, each once.
    pub(crate) fn at_links(&self, costs: &Costs, topology: &Topology, links: &[u32]) -> Vec<Box<dyn AtLinks>> {
        let all: Vec<Congestion> = self.congestions().collect();
        let at = |(place, congestion): (usize, &Congestion)| {
            let with = (0..).zip(&all).filter(|(_, other)| is_alike(other, congestion)).map(|(network, _)| 1u32 << network);
            let networks: u32 = with.sum();
            let first = networks.trailing_zeros() as usize == place;
            first.then(|| congestion.numbers().1.at_links(&Links { config: self, costs, topology, links, networks }))?
        };
        all.iter().enumerate().filter_map(at).collect()
    }
}

/// They differ in numbers at most.
fn is_alike(one: &Congestion, other: &Congestion) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// What switches mark (explicit congestion notification).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ecn {
    /// Nothing with so many bytes in the queue of an output.
    pub min: Bytes,
    /// Everything above this.
    pub max: Bytes,
    /// At `max`; in between in proportion.
    pub probability: Fraction,
}

impl NetworkConfig {
    /// Checks the numbers of a congestion control.
    ///
    /// # Errors
    /// [`ConfigError::Reliability`], [`ConfigError::MarksMissing`], [`ConfigError::TelemetryMissing`],
    /// [`ConfigError::PercNeeds`].
    pub(crate) fn check_congestion(&self, topology: &Topology) -> Result<(), ConfigError> {
        if self.has_control_packets() && self.virtual_networks == 16 {
            return refuse("virtual networks", "16".to_owned(), "at most 15: control packets have one of their own");
        }
        if let Some(Ecn { min, max, .. }) = self.ecn
            && min > max
        {
            return refuse("ecn min", min.to_string(), "at most ecn max");
        }
        if let Some(&network) = self.congestion_of.keys().find(|&&network| network >= self.virtual_networks) {
            return refuse("congestion control", format!("that of virtual network {network}"), "one that is there");
        }
        let all: Vec<Congestion> = self.congestions().collect();
        for (place, congestion) in all.iter().enumerate() {
            // Links have one contention point, and ports one clock.
            if all[..place].iter().find(|other| is_alike(other, congestion)).is_some_and(|other| other != congestion) {
                return refuse("congestion control", "the same with other numbers".to_owned(), "the same numbers in all virtual networks");
            }
            let (control, numbers) = congestion.numbers();
            if numbers.needs_marks() && self.ecn.is_none() {
                return Err(ConfigError::MarksMissing { control });
            }
            if numbers.needs_telemetry() && !self.telemetry {
                return Err(ConfigError::TelemetryMissing { control });
            }
            numbers.check(self, topology)?;
        }
        Ok(())
    }

    fn fits_a_packet(&self, what: &'static str, bytes: Bytes) -> Result<(), ConfigError> {
        if bytes.0 == 0 || bytes > self.packet() {
            return refuse(what, bytes.to_string(), "1 B to a full packet");
        }
        Ok(())
    }
}

fn refuse(what: &'static str, given: String, expected: &'static str) -> Result<(), ConfigError> {
    Err(ConfigError::Reliability { what, given, expected })
}

const LONGEST: SimTime = SimTime::from_us(1_000_000);

/// 10 ns to 1 s.
fn check_round_trip(what: &'static str, time: SimTime) -> Result<(), ConfigError> {
    if time < SimTime::from_ns(10) || time > LONGEST {
        return refuse(what, time.to_string(), "10 ns to 1 s");
    }
    Ok(())
}

/// 100 ns to 1 s.
fn check_period(what: &'static str, time: SimTime) -> Result<(), ConfigError> {
    if time < SimTime::from_ns(100) || time > LONGEST {
        return refuse(what, time.to_string(), "100 ns to 1 s");
    }
    Ok(())
}

fn check_part(what: &'static str, part: Fraction) -> Result<(), ConfigError> {
    if part.0 == 0 || part.0 >= 1_000_000 {
        return refuse(what, part.as_f64().to_string(), "above 0 and below 1");
    }
    Ok(())
}
