//! Congestion controls and their numbers.

use super::{ConfigError, NetworkConfig};
use crate::faults::Fault;
use crate::telemetry::MOST_LINKS;
use narrows_keys::{choice, keys};
use narrows_topology::{RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, Fraction, SimTime};

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
            Control::Swift => Congestion::Swift(self.swift),
            Control::Nscc => Congestion::Nscc(self.nscc),
            Control::Hpcc => Congestion::Hpcc(self.hpcc),
            Control::Sperc => Congestion::Sperc(self.sperc),
        }
    }
}

impl Congestion {
    /// Its control packets have a virtual network of their own, which comes before all others.
    pub fn has_control_packets(&self) -> bool {
        self.control_packet().is_some()
    }

    /// One of them on the wire.
    pub(crate) fn control_packet(&self) -> Option<Bytes> {
        match self {
            Congestion::Acc(acc) => Some(acc.packet),
            Congestion::Dcqcn(dcqcn) => Some(dcqcn.packet),
            Congestion::Sperc(sperc) => Some(sperc.packet),
            Congestion::None | Congestion::Throttle(_) | Congestion::Swift(_) | Congestion::Nscc(_) | Congestion::Hpcc(_) => None,
        }
    }
}

keys! {
    /// DCQCN (Zhu et al., SIGCOMM 2015). Switches must mark: [`NetworkConfig::ecn`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Dcqcn {
        /// With `dcqcn`: a target tells of marks at most once in this time.
        pub interval: SimTime = "50 us";
        /// A congestion notification packet on the wire, with preamble and gap.
        pub packet: Bytes = "84 B", in Bytes(1)..;
        /// g: how fast alpha, half of which a cut takes, follows the marks.
        pub gain: Fraction = 0.003906, in ..=1_000_000;
        /// Without a notification for this time alpha goes down.
        pub alpha_timer: SimTime = "55 us", in SimTime::from_ns(100)..;
        /// T: the rate goes up after this time.
        pub increase_timer: SimTime = "55 us", in SimTime::from_ns(100)..;
        /// B: and after so many bytes.
        pub byte_counter: Bytes = "10 MB", in Bytes(1)..;
        /// By this, behind fast recovery.
        pub additive_increase: ByteRate = "40 Mbit/s";
        /// By this, when both timer and counter are behind it.
        pub hyper_increase: ByteRate = "400 Mbit/s";
    }
}

keys! {
    /// Swift (Kumar et al., SIGCOMM 2020), of delays from port to port alone.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Swift {
        /// With `swift`: the time until an acknowledgement that is no sign of congestion.
        pub base_target: SimTime = "5 us";
        /// More for each link of the way.
        pub per_hop: SimTime = "300 ns";
        /// And up to this for windows of a few packets.
        pub flow_range: SimTime = "25 us";
        /// Packets by which the window grows in a round trip.
        pub additive_increase: Fraction = 1, in ..=1_000_000;
        /// How much of the excess of the delay the window loses.
        pub beta: Fraction = 0.8, in ..=1_000_000;
        /// The most that it loses at once.
        pub most_decrease: Fraction = 0.5, in ..=1_000_000;
    }
}

keys! {
    /// NSCC (Ultra Ethernet Specification 1.0, section 3.6.13). Switches must mark: [`NetworkConfig::ecn`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Nscc {
        /// With `nscc`: from a packet to its acknowledgement through an empty network, at most.
        pub round_trip: SimTime = "5 us", in SimTime::from_ns(10)..;
        /// More than that by so much is no sign of congestion.
        pub target: SimTime = "3.75 us", in SimTime::from_ns(10)..;
    }
}

keys! {
    /// HPCC (Li et al., SIGCOMM 2019). Switches must write into packets: [`NetworkConfig::telemetry`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Hpcc {
        /// With `hpcc`: T, from a packet to its acknowledgement through an empty network, at most.
        pub round_trip: SimTime = "5 us", in SimTime::from_ns(10)..;
        /// eta: the part of a link that is used.
        pub utilization: Fraction = 0.95, in ..=999_999;
        /// So many round trips with additive increases alone.
        pub max_stage: u32 = 5, in 0..=255;
        /// N: so many flows on a link at most; all together their additive increases take what `utilization` leaves.
        pub flows: u32 = 16, in 1..=1 << 20;
    }
}

keys! {
    /// s-PERC (Jose et al., SIGMETRICS 2019): exact max-min fair rates, in as many rounds as there are steps of
    /// filling. Its control packets must not be lost, and those of a flow go one way.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Sperc {
        /// With `s-perc`: the part of each link's rate that is granted to nobody.
        pub margin: Fraction = 0.05, in ..=999_999;
        /// Each flow sends a control packet once in this time; at least the longest round trip.
        pub round: SimTime = "10 us", in SimTime::from_ns(100)..;
        /// A control packet on the wire.
        pub packet: Bytes = "64 B", in Bytes(1)..;
    }
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

keys! {
    /// Accurate congestion control (RED-SEA D1.4 section 8.1): links grant their flows max-min fair rates, by flow rate
    /// packets (FRPs) that go to the target and back once a period. What the document does not say is our reading.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Acc {
        /// With `acc`: what sources and links do; each policy has what those before it have.
        pub policy: AccPolicy = "mind-the-gap";
        /// The part of each link's rate that is granted to nobody.
        pub margin: Fraction = 0.05, in ..=999_999;
        /// Between two pulses of the fabric's clock, at which links find new shares.
        pub period: SimTime = "20 us", in SimTime::from_ns(100)..;
        /// Flow rate packets of a flow in a period; two make the loop half as long.
        pub packets_per_period: u32 = 1, in 1..=2;
        /// A share goes up by this part of the way in a period, and down at once.
        pub rise: Fraction = 0.5, in ..=1_000_000;
        /// A flow rate packet on the wire.
        pub packet: Bytes = "32 B", in Bytes(1)..;
        /// Each clock is early by up to this, at most a quarter of the period.
        pub skew: SimTime = "0 ns";
    }
}

impl Acc {
    /// How early one of the fabric's clocks is.
    pub fn clock_skew(&self, seed: u64, name: &str, index: u32) -> SimTime {
        SimTime(narrows_engine::stream(seed, name, u64::from(index)).below(self.skew.as_ps() + 1))
    }
}

choice! {
    /// The policies of ACC, in the order of D1.4: each has what those before it have.
    #[derive(PartialOrd, Ord)]
    pub enum AccPolicy {
        /// FRPs at the pulses alone.
        FrpOnly = "frp-only",
        /// A flow that begins or ends says so at once, and links make room for it within the period.
        FrpInit = "frp-init",
        /// A flow sends nothing before its first rate is there; it begins at full speed without.
        WaitForFeedback = "wait-for-feedback",
        /// A flow that was granted a link's share counts among its own, whichever link it was that granted it.
        MindTheGap = "mind-the-gap",
        /// After a rise that looks like a mistake a source goes up by steps that double.
        WaitToRise = "wait-to-rise",
    }
}

impl NetworkConfig {
    /// Checks the numbers of a congestion control.
    ///
    /// # Errors
    /// [`ConfigError::Reliability`], [`ConfigError::MarksMissing`], [`ConfigError::TelemetryMissing`],
    /// [`ConfigError::PercNeeds`].
    pub(super) fn check_congestion(&self, topology: &Topology) -> Result<(), ConfigError> {
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
            let alike = |other: &&Congestion| std::mem::discriminant(*other) == std::mem::discriminant(congestion);
            if all[..place].iter().find(alike).is_some_and(|other| other != congestion) {
                return refuse("congestion control", "the same with other numbers".to_owned(), "the same numbers in all virtual networks");
            }
            match congestion {
                Congestion::None | Congestion::Throttle(_) | Congestion::Swift(_) => {}
                Congestion::Acc(acc) => acc.check(self)?,
                Congestion::Dcqcn(dcqcn) => dcqcn.check(self)?,
                Congestion::Nscc(nscc) => nscc.check(self)?,
                Congestion::Hpcc(hpcc) => hpcc.check(self)?,
                Congestion::Sperc(sperc) => sperc.check(self, topology)?,
            }
        }
        Ok(())
    }

    fn marks(&self, control: &'static str) -> Result<(), ConfigError> {
        self.ecn.map(|_| ()).ok_or(ConfigError::MarksMissing { control })
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

impl Dcqcn {
    fn check(&self, network: &NetworkConfig) -> Result<(), ConfigError> {
        network.marks("dcqcn")?;
        network.fits_a_packet("dcqcn packet", self.packet)?;
        check_period("dcqcn alpha_timer", self.alpha_timer)?;
        check_period("dcqcn increase_timer", self.increase_timer)?;
        if self.byte_counter < network.packet() {
            return refuse("dcqcn byte_counter", self.byte_counter.to_string(), "at least a full packet");
        }
        Ok(())
    }
}

impl Nscc {
    fn check(&self, network: &NetworkConfig) -> Result<(), ConfigError> {
        network.marks("nscc")?;
        check_round_trip("nscc round_trip", self.round_trip)?;
        check_round_trip("nscc target", self.target)
    }
}

impl Hpcc {
    fn check(&self, network: &NetworkConfig) -> Result<(), ConfigError> {
        if !network.telemetry {
            return Err(ConfigError::TelemetryMissing { control: "hpcc" });
        }
        check_round_trip("hpcc round_trip", self.round_trip)?;
        check_part("hpcc utilization", self.utilization)?;
        if self.max_stage > 255 {
            return refuse("hpcc max_stage", self.max_stage.to_string(), "at most 255");
        }
        if self.flows == 0 {
            return refuse("hpcc flows", self.flows.to_string(), "at least 1");
        }
        Ok(())
    }
}

impl Sperc {
    fn check(&self, network: &NetworkConfig, topology: &Topology) -> Result<(), ConfigError> {
        check_part("sperc margin", self.margin)?;
        check_period("sperc round", self.round)?;
        network.fits_a_packet("sperc packet", self.packet)?;
        let needs = |what| Err(ConfigError::PercNeeds { what });
        if network.faults.iter().any(Fault::harms) || network.missing_headroom(topology).is_some() {
            return needs("control packets that are never lost");
        }
        use RoutingKind::{DModK, DimensionOrder, Minimal, SModK, Table};
        if ![Minimal, DModK, SModK, DimensionOrder, Table].contains(&network.routing) {
            return needs("packets of a flow that all go the same way");
        }
        if topology.diameter() > MOST_LINKS {
            return needs("ways of at most 8 links");
        }
        Ok(())
    }
}

impl Acc {
    fn check(&self, network: &NetworkConfig) -> Result<(), ConfigError> {
        check_part("acc margin", self.margin)?;
        check_period("acc period", self.period)?;
        if !(1..=2).contains(&self.packets_per_period) {
            return refuse("acc packets_per_period", self.packets_per_period.to_string(), "1 or 2");
        }
        if self.rise.0 == 0 || self.rise.0 > 1_000_000 {
            return refuse("acc rise", self.rise.as_f64().to_string(), "above 0 and at most 1");
        }
        network.fits_a_packet("acc packet", self.packet)?;
        if self.skew * 4 > self.period {
            return refuse("acc skew", self.skew.to_string(), "at most a quarter of the period");
        }
        Ok(())
    }
}
