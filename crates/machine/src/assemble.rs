//! The resolved machine as the configurations of the models.

use crate::model::{self, Link, Machine, MessageProtocol, NetworkKind, NicKind, PathOr, PcieDetail, Pscom, Rendezvous, SwitchOr, Transmit};
use narrows_fabric::{
    Arbitration, Derived, FlowConfig, FlowControl, Forwarding, IntraNodeConfig, LinkConfig, LogGpConfig, NetworkConfig, PauseConfig,
    Queueing,
};
use narrows_message::{MessageConfig, Protocol, PscomConfig};
use narrows_nic::{AnyConfig, MailboxConfig, NicConfig};
use narrows_topology::{FailedLink, FailureError, TopologyError};
use narrows_units::Bytes;

/// Compute and service, request and response: BXI's four (facts.md 4.3).
pub(crate) const VIRTUAL_NETWORKS: u8 = 4;

impl Machine {
    /// The wiring, with exactly `node.count` hosts, less what has failed.
    ///
    /// # Errors
    /// None for a machine that came from a file: reading it has tried.
    pub fn topology(&self) -> Result<narrows_topology::Topology, TopologyError> {
        let whole = self.topology.build(self.node.count, self.switch.radix)?;
        let links = self.failed.links.iter().map(|text| failed_link(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(whole.with_failures(&links, &self.failed.switches)?)
    }

    /// For the network. `seed`: of whatever it draws.
    pub fn network_config(&self, seed: u64) -> NetworkConfig {
        let network = &self.network;
        let pfc = &network.pfc;
        let weights = self.switch.weights.iter().map(|&weight| u16::try_from(weight).unwrap_or(u16::MAX)).collect();
        let link = |link: &Link| LinkConfig { rate: link.bandwidth, latency: link.latency };
        NetworkConfig {
            kind: match network.kind {
                NetworkKind::Packet => narrows_fabric::NetworkKind::Packet,
                NetworkKind::Flow => narrows_fabric::NetworkKind::Flow,
                NetworkKind::LogGp => narrows_fabric::NetworkKind::LogGp,
            },
            host_link: link(&self.link.host),
            switch_link: link(&self.link.switch),
            global_link: LinkConfig {
                rate: match self.link.global.bandwidth {
                    SwitchOr::Switch => self.link.switch.bandwidth,
                    SwitchOr::Own(rate) => rate,
                },
                latency: match self.link.global.latency {
                    SwitchOr::Switch => self.link.switch.latency,
                    SwitchOr::Own(latency) => latency,
                },
            },
            switch_latency: self.switch.latency,
            pcie_rate: self.node.pcie.data_bandwidth,
            // A NIC without DMA has none.
            pcie_packet: self.nic.dma_first_packet.max(Bytes(1)),
            mtu: network.mtu,
            header: network.header,
            virtual_networks: VIRTUAL_NETWORKS,
            virtual_channels: u8::try_from(network.virtual_channels).expect("at most 16 come out of a file"),
            buffer_per_channel: network.buffer,
            read_window: network.read_window,
            in_order: self.nic.transmit != Transmit::Interleaved,
            routing: network.routing,
            ugal_threshold: network.ugal_threshold,
            arbitration: match self.switch.arbitration {
                model::Arbitration::RoundRobin => Arbitration::RoundRobin,
                model::Arbitration::Age => Arbitration::Age,
                model::Arbitration::WeightedPackets => Arbitration::WeightedPackets(weights),
                model::Arbitration::WeightedBytes => Arbitration::WeightedBytes(weights),
            },
            strict_priority: self.switch.strict_priority.iter().fold(0, |set, &network| set | 1 << network.min(15)),
            forwarding: match self.switch.forwarding {
                model::Forwarding::CutThrough => Forwarding::CutThrough,
                model::Forwarding::StoreAndForward => Forwarding::StoreAndForward,
            },
            queueing: match self.switch.queueing {
                model::Queueing::VirtualOutput => Queueing::VirtualOutput,
                model::Queueing::Fifo => Queueing::Fifo,
            },
            speedup: self.switch.speedup,
            flow_control: match network.flow_control {
                model::FlowControl::Credits => FlowControl::Credits,
                model::FlowControl::Pfc => FlowControl::Pause(PauseConfig {
                    xoff: if pfc.xoff.0 > 0 { Derived::Fixed(pfc.xoff) } else { Derived::FromPath },
                    xon: if pfc.xon.0 > 0 { Derived::Fixed(pfc.xon) } else { Derived::FromPath },
                    quanta: pfc.quanta,
                    frame: pfc.frame,
                    response: pfc.response,
                    resend_after: pfc.resend_after,
                }),
            },
            intra_node: IntraNodeConfig { latency: self.node.intra.latency, rate: self.node.intra.bandwidth },
            loggp: LogGpConfig { latency: derived(network.loggp.latency), gap: network.loggp.gap, rate: derived(network.loggp.bandwidth) },
            flow: FlowConfig { direct_up_to: network.flow.direct_limit },
            seed,
        }
    }

    /// What to check before the results are trusted, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let network = self.network_config(0);
        let missing = match network.flow_control {
            FlowControl::Credits => None,
            // Reading the machine has tried to make it.
            FlowControl::Pause(_) => self.topology().ok().and_then(|topology| network.missing_headroom(&topology)),
        };
        let warning = |missing| {
            format!(
                "buffers lack {missing} of headroom above network.pfc.xoff: packets can be lost; raise network.buffer or lower network.pfc.xoff"
            )
        };
        missing.map(warning).into_iter().collect()
    }

    /// For the NICs.
    pub fn nic_config(&self) -> AnyConfig {
        let (nic, pcie) = (&self.nic, &self.node.pcie);
        let portals = NicConfig {
            pcie_latency: pcie.latency,
            pcie_rate: pcie.bandwidth,
            command_size: nic.command_size,
            event_size: nic.event_size,
            count_size: nic.count_size,
            ack_size: nic.ack_size,
            inline_limit: nic.inline_limit,
            pio_limit: nic.pio_limit,
            match_bits_size: nic.match_bits_size,
            buffered_limit: nic.buffered_limit,
            dma_latency: nic.dma_latency,
            transmit: match nic.transmit {
                Transmit::Interleaved | Transmit::InOrder => narrows_nic::Transmit::Pipelined,
                Transmit::OneByOne => narrows_nic::Transmit::OneByOne,
            },
            put_occupancy: nic.put_occupancy,
            get_occupancy: nic.get_occupancy,
            response_occupancy: nic.response_occupancy,
            ack_occupancy: nic.ack_occupancy,
            match_base: nic.match_base,
            match_per_entry: nic.match_per_entry,
            limits: nic.limits,
            retry_interval: nic.retry_interval,
            trigger_time: nic.trigger_time,
            atomic_occupancy: nic.atomic_occupancy,
            quick_ack: nic.quick_ack,
            pcie_detail: match nic.pcie_detail {
                PcieDetail::Full => narrows_nic::PcieDetail::Full,
                PcieDetail::Latency => narrows_nic::PcieDetail::Latency,
            },
            max_outstanding: nic.max_outstanding,
            max_in_flight_to_node: nic.max_in_flight_to_node,
            max_in_flight_to_process: nic.max_in_flight_to_process,
        };
        match nic.kind {
            NicKind::BxiV2 | NicKind::BxiV3 | NicKind::IbHca => AnyConfig::Portals(portals),
            NicKind::Mailbox => AnyConfig::Mailbox(portals, MailboxConfig { rate: pcie.data_bandwidth, header_size: nic.command_size }),
        }
    }

    /// For the message layer.
    pub fn message_config(&self) -> MessageConfig {
        let message = &self.message;
        let Pscom { buffer, receive_buffers, send_buffers, rendezvous, rendezvous_requests, fragment } = message.pscom;
        let (protocol, eager_limit, rendezvous) = match (message.protocol, message.rendezvous) {
            (MessageProtocol::Openmpi, Rendezvous::Get) => (Protocol::Openmpi, message.eager_limit.get(), narrows_message::Rendezvous::Get),
            (MessageProtocol::Openmpi, Rendezvous::Put) => (Protocol::Openmpi, message.eager_limit.get(), narrows_message::Rendezvous::Put),
            (MessageProtocol::Pscom, _) => {
                let (buffer, fragment) = (buffer.get(), fragment.get());
                let queues = PscomConfig { buffer, receive_buffers, send_buffers, rendezvous_requests, fragment };
                (Protocol::Pscom(queues), rendezvous.get() - 1, narrows_message::Rendezvous::Put)
            }
        };
        MessageConfig {
            protocol,
            eager_limit,
            inject_limit: message.inject_limit.get().min(eager_limit),
            rendezvous,
            // pscom has none; whoever checks them finds them large enough.
            overflow_block: message.overflow_block.get().max(eager_limit).max(1),
            overflow_blocks: message.overflow_blocks.max(1),
            max_portals_message: message.max_portals_message.get(),
        }
    }
}

/// `"3-17"` or `"3-17#0"`.
fn failed_link(text: &str) -> Result<FailedLink, FailureError> {
    let parsed = || {
        let (ends, cable) = match text.split_once('#') {
            Some((ends, cable)) => (ends, Some(cable.trim().parse().ok()?)),
            None => (text, None),
        };
        let (one, other) = ends.split_once('-')?;
        Some(FailedLink { between: [one.trim().parse().ok()?, other.trim().parse().ok()?], cable })
    };
    parsed().ok_or_else(|| FailureError::Name { text: text.to_owned() })
}

fn derived<T>(value: PathOr<T>) -> Derived<T> {
    match value {
        PathOr::Path => Derived::FromPath,
        PathOr::Fixed(value) => Derived::Fixed(value),
    }
}
