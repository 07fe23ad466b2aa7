//! The resolved machine as the configurations of the models.

use crate::fault::{FaultError, FaultText};
use crate::model::{self, Link, Links, Machine, MessageProtocol, NetworkKind, NicKind, Pscom, Reliability, Rendezvous};
use crate::placement::PlacementError;
use narrows_fabric::{Arbitration, Derived, Fault, FlowControl, IntraNodeConfig, LinkConfig, NetworkConfig, Probability, Turns};
use narrows_message::{Distribution, MessageConfig, MpcConfig, Protocol, PscomConfig, RailConfig, Rails, Registration};
use narrows_nic::{AnyConfig, ApenetxCard, ExanetConfig, MailboxConfig, TcpConfig, Transmit};
use narrows_phy::{loss, mac, stages};
use narrows_topology::TopologyError;
use narrows_units::{ByteRate, Bytes, NodeId, Rail, SimTime};
use std::collections::BTreeMap;

/// Compute and service, request and response: BXI's four (facts.md 4.3).
pub(crate) const VIRTUAL_NETWORKS: u8 = 4;

/// Credits that let links carry less than this are worth a warning. Our own choice.
const LEAST_SHARE: f64 = 0.9;
/// So are host links so many times as fast as the bus behind them. Our own choice: machines that exist have up to 1.25
/// (QDR InfiniBand behind PCIe 2).
const WIDEST_LINK: f64 = 1.3;

impl Machine {
    /// Places of the topology that are taken: by nodes, and by their processors with ports of their own.
    pub(crate) fn hosts(&self) -> u64 {
        u64::from(self.node.count) + self.addresses_beside()
    }

    /// The wiring, with exactly as many hosts as there are nodes and processors with ports of their own, less what has
    /// failed.
    ///
    /// # Errors
    /// None for a machine that came from a file: reading it has tried.
    pub fn topology(&self) -> Result<narrows_topology::Topology, TopologyError> {
        let whole = self.topology.build(self.hosts() as u32, self.switch.radix)?;
        let links = self.failed.links.iter().map(|text| whole.cables_named(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(whole.with_failures(&links, &self.failed.switches)?)
    }

    /// For the network. `seed`: of whatever it draws.
    pub fn network_config(&self, seed: u64) -> NetworkConfig {
        self.network_config_on(None, seed)
    }

    /// Of one rail: with its own faults alone.
    pub fn network_config_on(&self, rail: Option<Rail>, seed: u64) -> NetworkConfig {
        let network = &self.network;
        let weights = self.switch.weights.iter().map(|&weight| u16::try_from(weight).unwrap_or(u16::MAX)).collect();
        let phy = Coding::of(self);
        let coded = |link: LinkConfig| phy.map_or(link, |phy| phy.link(link));
        let link = |link: Link| coded(LinkConfig { rate: link.bandwidth, latency: link.latency });
        let Links { host, switch, global, .. } = self.link;
        NetworkConfig {
            kind: network.kind,
            host_link: link(host),
            switch_link: link(switch),
            global_link: link(Link { bandwidth: global.bandwidth.or(switch.bandwidth), latency: global.latency.or(switch.latency) }),
            switch_latency: self.switch.latency,
            turns: Turns { entry: global.entry, change: global.change },
            pcie_rate: self.nic.config.data_bandwidth,
            pcie_packet: match self.nic.kind {
                // A cell, or a packet of a segment, leaves when all of it has been read.
                NicKind::Exanet | NicKind::Tcp => network.mtu,
                // A NIC without DMA has none.
                _ => self.nic.config.dma_first_packet.max(Bytes(1)),
            },
            mtu: network.mtu,
            header: Bytes(network.header.0.saturating_add(phy.map_or(0, |phy| phy.around)).saturating_add(self.telemetry_bytes().0)),
            virtual_networks: VIRTUAL_NETWORKS,
            virtual_channels: u8::try_from(network.virtual_channels).expect("at most 16 come out of a file"),
            buffer_per_channel: network.buffer,
            packet_gap: SimTime(1_000_000_000_000u64.checked_div(u64::from(self.nic.config.packet_rate)).unwrap_or(0)),
            read_window: network.read_window,
            in_order: match self.nic.kind {
                // A descriptor behind the other; packets of transfers take turns.
                NicKind::Apenetx => true,
                NicKind::Carvnet => false,
                _ => self.nic.portals().transmit != Transmit::Interleaved,
            },
            routing: network.routing,
            ugal_threshold: network.ugal_threshold,
            arbitration: match self.switch.arbitration {
                model::Arbitration::RoundRobin => Arbitration::RoundRobin,
                model::Arbitration::Age => Arbitration::Age,
                model::Arbitration::WeightedPackets => Arbitration::WeightedPackets(weights),
                model::Arbitration::WeightedBytes => Arbitration::WeightedBytes(weights),
                model::Arbitration::Islip => Arbitration::Islip(self.switch.iterations),
                model::Arbitration::Wavefront => Arbitration::Wavefront,
            },
            strict_priority: self.switch.strict_priority.iter().fold(0, |set, &network| set | 1 << network.min(15)),
            forwarding: self.switch.forwarding,
            queueing: self.switch.queueing,
            speedup: self.switch.speedup,
            flow_control: match network.flow_control {
                model::FlowControl::Credits => FlowControl::Credits,
                model::FlowControl::Pfc => FlowControl::Pause(network.pfc),
            },
            intra_node: IntraNodeConfig { latency: self.intra.latency, rate: self.intra.bandwidth },
            node_routes: self.node_routes().0,
            loggp: network.loggp,
            flow: network.flow,
            ecn: (self.switch.marking == model::Marking::Ecn).then_some(narrows_fabric::Ecn {
                min: self.switch.mark_min,
                max: self.switch.mark_max,
                probability: self.switch.mark_probability,
            }),
            congestion_of: self.congestion_of(),
            telemetry: self.switch.telemetry == model::Telemetry::Int,
            reliability: self.reliability(),
            // Those of a machine that came from a file: reading it has tried.
            faults: self.faults(rail).unwrap_or_default(),
            seed,
        }
    }

    /// What switches write into a packet.
    fn telemetry_bytes(&self) -> Bytes {
        match self.switch.telemetry {
            model::Telemetry::None => Bytes(0),
            model::Telemetry::Int => self.switch.telemetry_size,
        }
    }

    fn reliability(&self) -> Option<narrows_fabric::Reliability> {
        let Reliability { delivery, ref unordered, window, room, flows, timeout, retries, ack, fcs, crc } = self.network.reliability;
        let unordered = unordered.iter().fold(0, |set, &network| set | 1 << network.min(15));
        let checks = narrows_fabric::Checks { fcs, crc };
        let delivery = match delivery {
            model::Delivery::None => return None,
            model::Delivery::Ordered => narrows_fabric::Delivery::Ordered,
            model::Delivery::Unordered => narrows_fabric::Delivery::Unordered,
        };
        let congestion = self.network.controls.of(self.network.congestion[0]);
        let ack = Bytes(ack.0.saturating_add(self.telemetry_bytes().0));
        Some(narrows_fabric::Reliability { window, room, flows, timeout, retries, ack, delivery, unordered, checks, congestion })
    }

    /// Those that differ from that of the first virtual network.
    fn congestion_of(&self) -> BTreeMap<u8, narrows_fabric::Congestion> {
        let [first, ..] = self.network.congestion;
        let all = (0..).zip(self.network.congestion);
        all.filter(|&(_, own)| own != first).map(|(network, own)| (network, self.network.controls.of(own))).collect()
    }

    /// Of its links, on a rail or on all.
    ///
    /// # Errors
    /// See [`FaultError`].
    pub fn faults(&self, rail: Option<Rail>) -> Result<Vec<narrows_fabric::Fault>, FaultError> {
        let mut faults = self.faults_of_texts(rail)?;
        faults.extend(Coding::of(self).and_then(|phy| phy.losses(self.link.ber.rate())));
        Ok(faults)
    }

    fn faults_of_texts(&self, rail: Option<Rail>) -> Result<Vec<narrows_fabric::Fault>, FaultError> {
        let mut parsed = self.network.faults.iter().map(|text| FaultText::parse(text)).collect::<Result<Vec<_>, _>>()?;
        // Networks hear nothing of gateways.
        parsed.retain(|fault| fault.dies.is_none() && fault.is_on(rail));
        if parsed.iter().all(|fault| fault.cable.is_none()) {
            return Ok(parsed.iter().map(|fault| fault.of(None)).collect());
        }
        let topology = self.topology().map_err(|error| FaultError::Topology(error.to_string()))?;
        let of = |fault: &FaultText| Ok(fault.links(&topology)?.into_iter().map(|link| fault.of(link)).collect());
        let all: Result<Vec<Vec<_>>, FaultError> = parsed.iter().map(of).collect();
        Ok(all?.concat())
    }

    /// What to check before the results are trusted, a line each.
    pub fn warnings(&self) -> Vec<String> {
        if !self.fabrics.is_empty() {
            let of = |fabric: &model::Fabric| {
                let warnings = fabric.machine.warnings();
                warnings.into_iter().map(|warning| format!("network {}: {warning}", fabric.name)).collect::<Vec<_>>()
            };
            return self.fabrics.iter().flat_map(of).collect();
        }
        let network = self.network_config(0);
        let missing = match network.flow_control {
            FlowControl::Credits => None,
            // Reading the machine has tried to make it.
            FlowControl::Pause(_) => self.topology().ok().and_then(|topology| network.missing_headroom(&topology)),
        };
        let headroom = missing.map(|missing| {
            format!(
                "buffers lack {missing} of headroom above network.pfc.xoff: packets can be lost; raise network.buffer or lower network.pfc.xoff"
            )
        });
        let classes = [("host", network.host_link), ("switch", network.switch_link), ("global", network.global_link)];
        let shares = classes.into_iter().filter_map(|(name, link)| Some((network.credit_share(&link)?, name, link)));
        let credits = shares.min_by(|(one, ..), (other, ..)| one.total_cmp(other)).filter(|&(share, ..)| share < LEAST_SHARE);
        let credits = credits.map(|(share, name, link)| {
            format!(
                "network.buffer = {} keeps links waiting for credits: those of link.{name} ({}, {}) carry {:.0} % of their rate; raise it, or \
                 shorten network.mtu",
                network.buffer_per_channel,
                link.rate,
                link.latency,
                100.0 * share
            )
        });
        let (bus, link) = (network.pcie_rate, network.host_link.rate);
        let narrow = (link.0 as f64 > WIDEST_LINK * bus.0 as f64).then(|| {
            format!(
                "link.host.bandwidth = {link} is above node.pcie.data_bandwidth = {bus}: long messages go no faster than that; raise both"
            )
        });
        headroom.into_iter().chain(credits).chain(narrow).collect()
    }

    /// For the NICs.
    pub fn nic_config(&self) -> AnyConfig {
        let library = self.nic.config.clone();
        match self.nic.kind {
            NicKind::BxiV2 | NicKind::BxiV3 | NicKind::IbHca => match self.handlers() {
                None => AnyConfig::Portals(library),
                Some(handlers) => AnyConfig::Handlers(library, handlers),
            },
            NicKind::Mailbox => {
                let mailbox = MailboxConfig { rate: library.data_bandwidth, header_size: library.command_size };
                AnyConfig::Mailbox(library, mailbox)
            }
            NicKind::Tcp => AnyConfig::Tcp(library, self.nic.tcp),
            NicKind::Carvnet => AnyConfig::Carvnet(library, self.nic.carvnet),
            NicKind::Apenetx => {
                let card = ApenetxCard::new(self.nic.apenetx, &library);
                AnyConfig::Apenetx(library, card)
            }
            NicKind::Exanet => {
                let model::Exanet { interfaces: _, channels, short_limit, header, packetizer, mailbox, .. } = self.nic.exanet;
                let model::Exanet { block, rdma_start, rdma_block, rdma_done, reduce_start, reduce_rate, .. } = self.nic.exanet;
                let model::Exanet { mailbox_room, resend, timeout, rdma_channels, page_faults, fault_time, .. } = self.nic.exanet;
                let domains = self.nic.exanet.domains.iter().map(|&domain| u16::try_from(domain).expect("16 bits, as checked")).collect();
                let exanet = ExanetConfig {
                    short_limit,
                    header_size: header,
                    channels,
                    packetizer,
                    mailbox,
                    block,
                    rdma_start,
                    rdma_block,
                    rdma_done,
                    reduce_start,
                    reduce_rate,
                    mailbox_room,
                    resend,
                    timeout,
                    rdma_channels,
                    page_faults,
                    fault_time,
                    domains,
                };
                AnyConfig::Exanet(library, exanet)
            }
        }
    }

    /// Whether each of so many ranks has a protection domain.
    ///
    /// # Errors
    /// Which one has none.
    pub fn check_domains(&self, ranks: usize) -> Result<(), PlacementError> {
        let domains = self.nic.exanet.domains.len();
        if domains == 0 || domains >= ranks {
            return Ok(());
        }
        Err(PlacementError::Domains { domains, ranks })
    }

    /// Nodes of a board, if their NICs have ExaNeSt's allreduce accelerator: each first one has the server.
    pub fn accelerator_board(&self) -> Option<u32> {
        let topology = &self.topology;
        let boards = topology.kind == crate::TopologyKind::ExaNest && topology.hosts_per_switch == 1;
        (self.nic.kind == NicKind::Exanet && boards).then_some(topology.board)
    }

    /// What a core that runs TCP's stack takes, payload in a second.
    fn stack_rate(&self) -> ByteRate {
        let TcpConfig { segment, segment_time, rate, .. } = self.nic.tcp;
        let time = u128::from((segment_time + rate.time_for(segment)).as_ps().max(1));
        match self.nic.kind {
            NicKind::Tcp => ByteRate((u128::from(segment.0) * 1_000_000_000_000 / time) as u64),
            _ => ByteRate(u64::MAX),
        }
    }

    /// What a port of this network alone can send, payload in a second: the narrowest of its bus, its cable and its
    /// core, if it needs one.
    fn port_rate(&self) -> ByteRate {
        let Bytes(mtu) = self.network.mtu;
        let wire = u128::from(mtu + self.network.header.get());
        let Link { bandwidth: rate, latency } = self.link.host;
        let cable = Coding::of(self).map_or(rate, |phy| phy.link(LinkConfig { rate, latency }).rate);
        let payload = (u128::from(cable.0) * u128::from(mtu) / wire) as u64;
        match (self.network.kind, self.network.loggp.rate) {
            (NetworkKind::LogGp, Derived::Fixed(rate)) => rate,
            _ => self.nic.config.data_bandwidth.min(ByteRate(payload)).min(self.stack_rate()),
        }
    }

    /// The rails that all of these nodes have; else how they reach each other by gateways, if the machine has some.
    ///
    /// # Errors
    /// See [`Machine::common_rails`]; or two of them do not reach each other.
    pub fn rails_between(&self, nodes: &[NodeId]) -> Result<Rails, PlacementError> {
        match self.common_rails(nodes) {
            Err(_) if self.gateways().next().is_some() => Ok(Rails::bridged(self.bridging(nodes)?)),
            rails => Ok(Rails::of(rails?.into_iter().map(|rail| self.rail_config(rail)))),
        }
    }

    /// A rail, as the message layer has it.
    pub(crate) fn rail_config(&self, rail: Rail) -> RailConfig {
        let planes = self.planes();
        let network = planes[rail.index()].machine;
        RailConfig { rail, rate: network.port_rate().0.max(1), minimum: network.network.rail_minimum.get() }
    }

    /// For the message layer of ranks that have these rails in common.
    pub fn message_config(&self, rails: Rails) -> MessageConfig {
        let message = &self.message;
        let Pscom { buffer, receive_buffers, send_buffers, rendezvous, rendezvous_requests, fragment } = message.pscom;
        let (protocol, eager_limit, rendezvous) = match (message.protocol, message.rendezvous) {
            (MessageProtocol::Openmpi, rendezvous) => (Protocol::Openmpi, message.eager_limit.get(), rendezvous),
            (MessageProtocol::Exanet, _) => (Protocol::Exanet, message.eager_limit.get(), Rendezvous::Put),
            (MessageProtocol::Mpc, rendezvous) => {
                let model::Mpc { minimum, distribution, fragment, rail, registration, registration_per_kib, registration_cache } =
                    message.mpc;
                let distribution = match distribution {
                    model::Distribution::Fragments => Distribution::Fragments(fragment.get()),
                    model::Distribution::Even => Distribution::Even,
                    model::Distribution::Rates => Distribution::Rates,
                };
                let registration = Registration { cost: registration, per_kib: registration_per_kib, cache: registration_cache.get() };
                let mpc = MpcConfig { minimum: minimum.get(), distribution, choice: rail, registration };
                (Protocol::Mpc(mpc), message.eager_limit.get(), rendezvous)
            }
            (MessageProtocol::Pscom, _) => {
                let (buffer, fragment) = (buffer.get(), fragment.get());
                let queues = PscomConfig { buffer, receive_buffers, send_buffers, rendezvous_requests, fragment };
                (Protocol::Pscom(queues), rendezvous.get() - 1, Rendezvous::Put)
            }
        };
        MessageConfig {
            protocol,
            rails,
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

/// What a physical layer makes of a link.
#[derive(Clone, Copy)]
struct Coding {
    rate: ByteRate,
    latency: SimTime,
    /// Bytes around a frame: preamble, FCS, gap.
    around: u64,
    /// The longest frame, FCS included.
    longest: usize,
}

impl Coding {
    fn of(machine: &Machine) -> Option<Coding> {
        if machine.link.phy == model::Phy::None {
            return None;
        }
        let frame = machine.network.mtu.0.saturating_add(machine.network.header.0);
        let longest = usize::try_from(frame).unwrap_or(usize::MAX).saturating_add(mac::FCS);
        let stages = stages::stages(longest);
        let latency: f64 = stages.iter().map(stages::Stage::latency_ns).sum();
        // What frames have around them counts with their bytes.
        let coded: f64 = stages.iter().filter(|stage| stage.name != "MAC").map(|stage| stage.expansion).product();
        Some(Coding {
            rate: ByteRate((stages::LINE_RATE / coded / 8.0).round() as u64),
            latency: SimTime((latency * 1e3).round() as u64),
            around: (mac::PREAMBLE + mac::FCS + mac::GAP) as u64,
            longest,
        })
    }

    fn link(&self, link: LinkConfig) -> LinkConfig {
        LinkConfig { rate: self.rate, latency: link.latency + self.latency }
    }

    /// What is lost by the formula for frames: a line through the shortest and the longest one.
    fn losses(&self, ber: f64) -> Option<Fault> {
        if ber == 0.0 {
            return None;
        }
        let (short, long) = (mac::FRAME_MIN, self.longest.max(mac::FRAME_MIN + 1));
        let (least, most) = (loss::frame(ber, short), loss::frame(ber, long));
        let per_byte = (most - least) / (long - short) as f64;
        let around = (mac::PREAMBLE + mac::GAP + short) as f64;
        Some(Fault {
            loss: Probability::new((least - per_byte * around).max(0.0)).unwrap_or_default(),
            loss_per_byte: Probability::new(per_byte.max(0.0)).unwrap_or_default(),
            ..Fault::default()
        })
    }
}
