//! Congestion controls and their numbers.

use super::{ConfigError, NetworkConfig};
use crate::faults::Fault;
use crate::telemetry::MOST_LINKS;
use narrows_topology::{RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

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

/// A part of one, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction(pub u32);

impl Fraction {
    /// From 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// That part of something.
    #[inline]
    pub fn of(self, value: u64) -> u64 {
        (u128::from(value) * u128::from(self.0) / 1_000_000) as u64
    }
}

/// DCQCN (Zhu et al., SIGCOMM 2015). Switches must mark: [`NetworkConfig::ecn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// N: a target tells of marks at most once in this time (section 3.1).
    pub interval: SimTime,
    /// A congestion notification packet on the wire.
    pub packet: Bytes,
    /// g: of alpha.
    pub gain: Fraction,
    /// K: alpha goes down after this time without a notification.
    pub alpha_timer: SimTime,
    /// T: the rate goes up after this time,
    pub increase_timer: SimTime,
    /// B: and after so many bytes.
    pub byte_counter: Bytes,
    /// R_AI: behind fast recovery the target rate goes up by this,
    pub additive_increase: ByteRate,
    /// and by this when both timer and counter are behind it.
    pub hyper_increase: ByteRate,
}

/// Swift (Kumar et al., SIGCOMM 2020), of delays from port to port alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swift {
    /// The time from sending a packet to its acknowledgement that is no sign of congestion,
    pub base_target: SimTime,
    /// more for each link of the way,
    pub per_hop: SimTime,
    /// and up to this for small windows.
    pub flow_range: SimTime,
    /// Packets in a round trip, by which the window grows.
    pub additive_increase: Fraction,
    /// How much of the excess of the delay the window loses,
    pub beta: Fraction,
    /// and most of it at once.
    pub most_decrease: Fraction,
}

/// NSCC (Ultra Ethernet Specification 1.0, section 3.6.13). Switches must mark: [`NetworkConfig::ecn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nscc {
    /// From a packet to its acknowledgement through an empty network, at most: windows and steps follow from it.
    pub round_trip: SimTime,
    /// More than that by so much is no sign of congestion.
    pub target: SimTime,
}

/// HPCC (Li et al., SIGCOMM 2019). Switches must write into packets: [`NetworkConfig::telemetry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hpcc {
    /// T: from a packet to its acknowledgement through an empty network, at most, the same for all flows.
    pub round_trip: SimTime,
    /// eta: the part of a link that is used.
    pub utilization: Fraction,
    /// maxStage: so many round trips with additive increases alone.
    pub max_stage: u32,
    /// N: so many flows on a link at most. Additive increases follow from it (section 3.3).
    pub flows: u32,
}

/// s-PERC (Jose et al., SIGMETRICS 2019): exact max-min fair rates, in as many rounds as there are steps of filling.
/// Its control packets must not be lost, and those of a flow go one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sperc {
    /// The part of a link's rate that is granted to nobody.
    pub margin: Fraction,
    /// Each flow sends a control packet once in this time, or in a round trip if that is longer. At least as long as
    /// that, so that links know of all flows.
    pub round: SimTime,
    /// A control packet on the wire.
    pub packet: Bytes,
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

/// Accurate congestion control (RED-SEA D1.4 section 8.1): links grant their flows max-min fair rates, by flow rate
/// packets (FRPs) that go to the target and back once a period. What the document does not say is our reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acc {
    /// What sources and contention points do.
    pub policy: AccPolicy,
    /// The part of a link's rate that is granted to nobody.
    pub margin: Fraction,
    /// Between two pulses of the fabric's clock (rate re-evaluation period).
    pub period: SimTime,
    /// FRPs of a flow in a period, 1 or 2. One tells what the flow was granted and asks for its next rate. Of two the
    /// first one asks and the second one, half a period later, tells.
    pub packets_per_period: u32,
    /// A link's share goes down at once, and up by this part of the way in a period.
    pub rise: Fraction,
    /// An FRP on the wire.
    pub packet: Bytes,
    /// Clocks are early by up to this, each by its own.
    pub skew: SimTime,
}

impl Acc {
    /// How early one of the fabric's clocks is.
    pub fn clock_skew(&self, seed: u64, name: &str, index: u32) -> SimTime {
        SimTime(narrows_engine::stream(seed, name, u64::from(index)).below(self.skew.as_ps() + 1))
    }
}

/// The policies of ACC, in the order of D1.4: each has what those before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccPolicy {
    /// FRPs at the pulses alone.
    FrpOnly,
    /// A flow that begins or ends says so at once, and links make room for it within the period.
    FrpInit,
    /// A flow sends nothing before its first rate is there; it begins at full speed without.
    WaitForFeedback,
    /// A flow that was granted a link's share counts among its own, whichever link it was that granted it.
    MindTheGap,
    /// After a rise that looks like a mistake a source goes up by steps that double.
    WaitToRise,
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
