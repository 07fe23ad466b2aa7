//! `network.congestion`: the names of congestion controls, and the keys of their numbers.

use crate::keys::{Field, Key, count, fraction, key, rate, size, time};
use crate::model::Choice;
use narrows_fabric::{Acc, AccPolicy, Dcqcn, Fraction, Hpcc, Nscc, Sperc, Swift};
use narrows_units::{ByteRate, Bytes, SimTime};

choice! {
    /// The congestion control of flows.
    Congestion {
        /// Flows send as fast as their window and the link let them.
        None = "none",
        /// The same, and PAUSE frames hold them up.
        Pfc = "pfc",
        /// Each at a fixed rate at most.
        Throttle = "throttle",
        /// At the max-min fair rates that links grant (ACC).
        Acc = "acc",
        /// Slower when the target sees marks.
        Dcqcn = "dcqcn",
        /// With a window that keeps delays at a target.
        Swift = "swift",
        /// With a window that follows delays and marks (Ultra Ethernet).
        Nscc = "nscc",
        /// With a window that follows what switches write into packets.
        Hpcc = "hpcc",
        /// At the max-min fair rates that links find with control packets.
        Sperc = "s-perc",
    }
}
choice_of!(AccPolicy);

/// The numbers of each: `[network.acc]` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// Of a flow, headers included.
    pub throttle: ByteRate,
    /// `acc`.
    pub acc: Acc,
    /// `dcqcn`.
    pub dcqcn: Dcqcn,
    /// `swift`.
    pub swift: Swift,
    /// `nscc`.
    pub nscc: Nscc,
    /// `hpcc`.
    pub hpcc: Hpcc,
    /// `s-perc`.
    pub sperc: Sperc,
}

impl Controls {
    /// What the network is told of one of them.
    pub(crate) fn of(&self, which: Congestion) -> narrows_fabric::Congestion {
        match which {
            Congestion::None | Congestion::Pfc => narrows_fabric::Congestion::None,
            Congestion::Throttle => narrows_fabric::Congestion::Throttle(self.throttle),
            Congestion::Acc => narrows_fabric::Congestion::Acc(self.acc),
            Congestion::Dcqcn => narrows_fabric::Congestion::Dcqcn(self.dcqcn),
            Congestion::Swift => narrows_fabric::Congestion::Swift(self.swift),
            Congestion::Nscc => narrows_fabric::Congestion::Nscc(self.nscc),
            Congestion::Hpcc => narrows_fabric::Congestion::Hpcc(self.hpcc),
            Congestion::Sperc => narrows_fabric::Congestion::Sperc(self.sperc),
        }
    }

    /// All keys have a default: these are placeholders.
    pub(crate) fn blank() -> Controls {
        let (zero, none, one, slow) = (SimTime::ZERO, Bytes(0), Fraction(1), ByteRate(1));
        Controls {
            throttle: slow,
            acc: Acc {
                policy: AccPolicy::MindTheGap,
                margin: one,
                period: zero,
                packets_per_period: 0,
                rise: one,
                packet: none,
                skew: zero,
            },
            dcqcn: Dcqcn {
                interval: zero,
                packet: none,
                gain: one,
                alpha_timer: zero,
                increase_timer: zero,
                byte_counter: none,
                additive_increase: one,
                hyper_increase: one,
            },
            swift: Swift { base_target: zero, per_hop: zero, flow_range: zero, additive_increase: one, beta: one, most_decrease: one },
            nscc: Nscc { round_trip: zero, target: zero },
            hpcc: Hpcc { round_trip: zero, utilization: one, max_stage: 0, flows: 0 },
            sperc: Sperc { margin: one, round: zero, packet: none },
        }
    }

    #[rustfmt::skip]
    pub(crate) fn keys(&mut self) -> Vec<Key<'_>> {
        vec![
            key("network.acc.policy", Field::Choice(&mut self.acc.policy), "With `acc`: what sources and links do; each policy has what those before it have").default("\"mind-the-gap\""),
            key("network.acc.margin", Field::Fraction(&mut self.acc.margin, 999_999), "The part of each link's rate that is granted to nobody").default("0.05"),
            key("network.acc.period", Field::Time(&mut self.acc.period, SimTime::from_ns(100)), "Between two pulses of the fabric's clock, at which links find new shares").default("\"20 us\""),
            count("network.acc.packets_per_period", &mut self.acc.packets_per_period, 1, 2, "Flow rate packets of a flow in a period; two make the loop half as long").default("1"),
            fraction("network.acc.rise", &mut self.acc.rise, "A share goes up by this part of the way in a period, and down at once").default("0.5"),
            key("network.acc.packet", Field::Size(&mut self.acc.packet, Bytes(1)), "A flow rate packet on the wire").default("\"32 B\""),
            time("network.acc.skew", &mut self.acc.skew, "Each clock is early by up to this, at most a quarter of the period").default("\"0 ns\""),

            time("network.dcqcn.interval", &mut self.dcqcn.interval, "With `dcqcn`: a target tells of marks at most once in this time").default("\"50 us\""),
            key("network.dcqcn.packet", Field::Size(&mut self.dcqcn.packet, Bytes(1)), "A congestion notification packet on the wire, with preamble and gap").default("\"84 B\""),
            fraction("network.dcqcn.gain", &mut self.dcqcn.gain, "g: how fast alpha, half of which a cut takes, follows the marks").default("0.003906"),
            key("network.dcqcn.alpha_timer", Field::Time(&mut self.dcqcn.alpha_timer, SimTime::from_ns(100)), "Without a notification for this time alpha goes down").default("\"55 us\""),
            key("network.dcqcn.increase_timer", Field::Time(&mut self.dcqcn.increase_timer, SimTime::from_ns(100)), "T: the rate goes up after this time").default("\"55 us\""),
            size("network.dcqcn.byte_counter", &mut self.dcqcn.byte_counter, 1, "B: and after so many bytes").default("\"10 MB\""),
            fraction("network.dcqcn.additive_increase", &mut self.dcqcn.additive_increase, "R_AI: by this part of the link's rate, behind fast recovery; 0.001 are 40 Mbit/s at 40 Gbit/s").default("0.001"),
            fraction("network.dcqcn.hyper_increase", &mut self.dcqcn.hyper_increase, "And by this part when both timer and counter are behind it").default("0.01"),

            time("network.swift.base_target", &mut self.swift.base_target, "With `swift`: the time until an acknowledgement that is no sign of congestion").default("\"5 us\""),
            time("network.swift.per_hop", &mut self.swift.per_hop, "More for each link of the way").default("\"300 ns\""),
            time("network.swift.flow_range", &mut self.swift.flow_range, "And up to this for windows of a few packets").default("\"25 us\""),
            fraction("network.swift.additive_increase", &mut self.swift.additive_increase, "Packets by which the window grows in a round trip").default("1"),
            fraction("network.swift.beta", &mut self.swift.beta, "How much of the excess of the delay the window loses").default("0.8"),
            fraction("network.swift.most_decrease", &mut self.swift.most_decrease, "The most that it loses at once").default("0.5"),

            key("network.nscc.round_trip", Field::Time(&mut self.nscc.round_trip, SimTime::from_ns(10)), "With `nscc`: from a packet to its acknowledgement through an empty network, at most").default("\"5 us\""),
            key("network.nscc.target", Field::Time(&mut self.nscc.target, SimTime::from_ns(10)), "More than that by so much is no sign of congestion").default("\"3.75 us\""),

            key("network.hpcc.round_trip", Field::Time(&mut self.hpcc.round_trip, SimTime::from_ns(10)), "With `hpcc`: T, from a packet to its acknowledgement through an empty network, at most").default("\"5 us\""),
            key("network.hpcc.utilization", Field::Fraction(&mut self.hpcc.utilization, 999_999), "eta: the part of a link that is used").default("0.95"),
            count("network.hpcc.max_stage", &mut self.hpcc.max_stage, 0, 255, "So many round trips with additive increases alone").default("5"),
            count("network.hpcc.flows", &mut self.hpcc.flows, 1, 1 << 20, "N: so many flows on a link at most; all together their additive increases take what `utilization` leaves").default("16"),

            key("network.sperc.margin", Field::Fraction(&mut self.sperc.margin, 999_999), "With `s-perc`: the part of each link's rate that is granted to nobody").default("0.05"),
            key("network.sperc.round", Field::Time(&mut self.sperc.round, SimTime::from_ns(100)), "Each flow sends a control packet once in this time; at least the longest round trip").default("\"10 us\""),
            key("network.sperc.packet", Field::Size(&mut self.sperc.packet, Bytes(1)), "A control packet on the wire").default("\"64 B\""),

            rate("network.throttle.rate", &mut self.throttle, "With `throttle`: of a flow, headers included; packets that are sent again do not count").default("\"100 Gbit/s\""),
        ]
    }
}
