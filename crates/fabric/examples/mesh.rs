//! Throughput and latency against load of an 8 x 8 mesh with dimension order, virtual output queues and packets of one
//! flit: the case that `docs/validation.md` compares with BookSim2. Prints load, accepted load (both packets per host
//! and cycle) and mean latency in cycles.

#![allow(clippy::print_stdout)] // people read it

use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{Arbitration, Arrival, LinkConfig, NetworkConfig, Observer, Queueing, Transfer, TransferId};
use narrows_topology::{RoutingKind, Torus, TorusParameters};
use narrows_units::{ByteRate, Bytes, SimTime};

/// A flit of 100 bytes takes 10 ns at 10 GB/s: a cycle.
const CYCLE: u64 = 10_000;
const HOSTS: u32 = 64;
const WARM_UP: u64 = 10_000;
const CYCLES: u64 = 40_000;

/// In each cycle every host makes a packet with a fixed probability, for any host.
struct Bernoulli {
    streams: Vec<(u32, Stream, u32)>,
    probability: f64,
    packets: u64,
    latency: u64,
}

impl Observer for Bernoulli {}

impl Agent for Bernoulli {
    const EARLY: bool = true;

    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, host: u32, _: u32, (): (), fabric: &mut Context<'_>) {
        let Ok(index) = self.streams.binary_search_by_key(&host, |entry| entry.0) else { return };
        let (_, random, count) = &mut self.streams[index];
        // The number of cycles until the next packet has the geometric distribution.
        let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let gap = 1 + ((1.0 - uniform).ln() / (1.0 - self.probability).ln()) as u64;
        let target = random.below(u64::from(HOSTS)) as u32;
        *count += 1;
        let id = TransferId(*count);
        fabric.timer(fabric.now() + SimTime(gap * CYCLE), host, 0, ());
        // BookSim2 sends packets to their own source through its router; here they are left out on both sides of the
        // ratio.
        if target != host {
            fabric.start(Transfer {
                id,
                source: host,
                target,
                virtual_network: 0,
                payload: Bytes(68),
                source_dma: false,
                target_dma: false,
                route: 0,
            });
        }
    }

    fn delivered(&mut self, arrival: &Arrival, through: SimTime, _: &mut Context<'_>) {
        if (WARM_UP * CYCLE..CYCLES * CYCLE).contains(&through.as_ps()) {
            self.packets += 1;
            self.latency += (through - arrival.started).as_ps();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mesh = Torus::new(TorusParameters { lengths: vec![8, 8], wrap: false, board: 1, hosts_per_switch: 1, cables: 1, hosts: None })?;
    let link = LinkConfig { rate: ByteRate(10_000_000_000), latency: SimTime(CYCLE) };
    let config = NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        // The three stages of the router of BookSim2 (virtual channel, switch, traversal); with the link a flit spends
        // 4 cycles per hop.
        switch_latency: SimTime(std::env::args().nth(1).map_or(Ok(3), |text| text.parse::<u64>())? * CYCLE),
        mtu: Bytes(68),
        header: Bytes(32),
        virtual_networks: 1,
        virtual_channels: 1,
        buffer_per_channel: Bytes(6400),
        queueing: Queueing::VirtualOutput,
        // How often an input can be read at once: BookSim2's crossbar takes one flit per input and cycle.
        speedup: std::env::args().nth(2).map_or(Ok(0), |text| text.parse())?,
        // Iterations of iSLIP; 0: outputs choose for themselves.
        arbitration: match std::env::args().nth(3).map_or(Ok(0), |text| text.parse())? {
            0 => Arbitration::RoundRobin,
            iterations => Arbitration::Islip(iterations),
        },
        routing: RoutingKind::DimensionOrder,
        ..NetworkConfig::default()
    };
    println!("load accepted latency");
    for percent in [1, 5, 10, 15, 20, 25, 30, 32, 34, 36, 38, 40, 42, 45, 50] {
        let probability = f64::from(percent) / 100.0;
        let mut fabric = Fabric::new(&config, mesh.clone().build(), |hosts| Bernoulli {
            streams: hosts.iter().map(|&host| (host, stream(7, "bernoulli", u64::from(host)), 0)).collect(),
            probability,
            packets: 0,
            latency: 0,
        })?;
        (0..HOSTS).for_each(|host| fabric.timer(SimTime::ZERO, host, 0, ()));
        fabric.run_until(SimTime(CYCLES * CYCLE), 1);
        let (packets, latency) = fabric.agents().fold((0, 0), |sum, agent| (sum.0 + agent.packets, sum.1 + agent.latency));
        // Packets to their own source, one in 64, are missing.
        let accepted = packets as f64 / (f64::from(HOSTS) * (CYCLES - WARM_UP) as f64) * 64.0 / 63.0;
        println!("{probability:.2} {accepted:.4} {:.2}", latency as f64 / packets as f64 / CYCLE as f64);
    }
    Ok(())
}
