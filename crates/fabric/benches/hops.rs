//! Packet-hops per second of the packet network in regions: `cargo bench -p narrows-fabric --bench hops [-- FILTER]`.
//! For measuring only; prints one line per case and number of threads, with CPU time per hop, wall time and the peak of
//! resident memory.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_engine::{random::Stream, stream};
use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{Arrival, FlowControl, LinkConfig, NetworkConfig, Observer, PauseConfig, Transfer, TransferId};
use narrows_topology::{Arrangement, Dragonfly, FatTree, RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};
use std::time::Instant;

/// CPU time of this process, all threads, in seconds: others may be busy on the same cores.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux and `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn peak_memory_gb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e6
}

/// Sends messages of one packet to anybody, a Poisson process per host; or one long message to a partner.
struct Source {
    /// By host of the region.
    streams: Vec<(u32, Stream, u32)>,
    partners: Option<Vec<u32>>,
    hosts: u32,
    bytes: u64,
    /// Mean time between messages.
    mean: f64,
    received: u64,
}

impl Observer for Source {}

impl Source {
    fn index(&self, host: u32) -> usize {
        self.streams.binary_search_by_key(&host, |entry| entry.0).unwrap()
    }
}

impl Agent for Source {
    const EARLY: bool = true;

    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, host: u32, _: u32, (): (), fabric: &mut Context<'_>) {
        let index = self.index(host);
        let (hosts, mean) = (self.hosts, self.mean);
        let (_, random, count) = &mut self.streams[index];
        *count += 1;
        let id = TransferId(*count);
        let target = match &self.partners {
            Some(partners) => partners[host as usize],
            None => {
                let target = random.below(u64::from(hosts) - 1) as u32;
                let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let gap = -(1.0 - uniform).ln() * mean;
                fabric.timer(fabric.now() + SimTime(gap as u64), host, 0, ());
                target + u32::from(target >= host)
            }
        };
        fabric.start(Transfer {
            id,
            source: host,
            target,
            virtual_network: 0,
            payload: Bytes(self.bytes),
            source_dma: true,
            target_dma: true,
            route: 0,
        });
    }

    fn delivered(&mut self, arrival: &Arrival, _: SimTime, _: &mut Context<'_>) {
        self.received += arrival.payload.0;
    }
}

#[derive(Clone, Copy)]
enum Traffic {
    Permutation,
    /// At this load, for this time.
    Uniform(f64, SimTime),
}

fn run(name: &str, config: &NetworkConfig, topology: impl FnOnce() -> Topology, traffic: Traffic, threads: usize) {
    let begin = Instant::now();
    let topology = topology();
    let hosts = topology.hosts();
    let bytes = if matches!(traffic, Traffic::Permutation) { 1 << 20 } else { config.mtu.0 };
    let mut partners: Vec<u32> = (0..hosts).collect();
    stream(1, "bench", 0).shuffle(&mut partners);
    let mean = match traffic {
        Traffic::Permutation => 0.0,
        Traffic::Uniform(load, _) => {
            std::env::var("BENCH_LOAD").map_or(1.0, |l| load / l.parse::<f64>().unwrap())
                * config.host_link.rate.time_for(config.packet()).as_ps() as f64
                / load
        }
    };
    let mut fabric = Fabric::new(config, topology, |of_region| Source {
        streams: of_region.iter().map(|&host| (host, stream(2, "source", u64::from(host)), 0)).collect(),
        partners: matches!(traffic, Traffic::Permutation).then(|| partners.clone()),
        hosts,
        bytes,
        mean,
        received: 0,
    })
    .unwrap();
    let assembly = begin.elapsed().as_secs_f64();
    for host in 0..hosts {
        let at = if mean > 0.0 { stream(3, "first", u64::from(host)).below(mean as u64) } else { 0 };
        fabric.timer(SimTime(at), host, 0, ());
    }
    let (begin, cpu) = (Instant::now(), cpu_time());
    match traffic {
        Traffic::Permutation => fabric.run_until(SimTime::from_us(1_000_000), threads),
        Traffic::Uniform(_, time) => fabric.run_until(time, threads),
    }
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    let received: u64 = fabric.agents().map(|agent| agent.received).sum();
    let statistics = fabric.statistics();
    let hops = statistics.packet_hops as f64;
    println!(
        "{name:<44} {threads} thread{} {:>4} regions {:>9} hops {:>6.1} ns CPU/hop {:>6.2} M hops/s wall {:>5.2} events/hop {:>7.3} s wall {:>6.2} s assembly {:>5.2} GB  received {:>8.3} GB  pauses {} lost {} digest {:016x}",
        if threads == 1 { " " } else { "s" },
        fabric.regions(),
        statistics.packet_hops,
        cpu * 1e9 / hops,
        hops / wall * 1e-6,
        fabric.events() as f64 / hops,
        wall,
        assembly,
        peak_memory_gb(),
        received as f64 * 1e-9,
        statistics.pauses,
        statistics.lost_packets,
        fabric.digest(),
    );
}

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let threads: Vec<usize> = std::env::var("BENCH_THREADS").map_or(vec![1], |text| text.split(',').map(|n| n.parse().unwrap()).collect());
    // 400 Gbit/s, PCIe that is no bottleneck: BXI v3 (fact sheet 4.4).
    let link = LinkConfig { rate: ByteRate(50_000_000_000), latency: SimTime::from_ns(100) };
    let credits = NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        switch_latency: SimTime::from_ns(300),
        pcie_rate: ByteRate(63_000_000_000),
        mtu: Bytes(4096),
        buffer_per_channel: Bytes(64 << 10),
        ..NetworkConfig::default()
    };
    let pauses = NetworkConfig { flow_control: FlowControl::Pause(PauseConfig::default()), ..credits.clone() };
    let adaptive = |config: &NetworkConfig| NetworkConfig { routing: RoutingKind::Adaptive, ..config.clone() };
    let thousand = || FatTree::pgft(&[16, 8, 8], &[1, 16, 8], &[1, 1, 1]).unwrap().build();
    let large = || FatTree::pgft(&[32, 32, 16], &[1, 32, 8], &[1, 1, 4]).unwrap().build();
    let minimal = NetworkConfig { routing: RoutingKind::Minimal, virtual_channels: 4, virtual_networks: 1, ..credits.clone() };
    let four = NetworkConfig { virtual_networks: 4, ..minimal.clone() };
    let ugal = NetworkConfig { routing: RoutingKind::UgalLocal, ..minimal.clone() };
    let small = || Dragonfly::new([3, 6, 3, 19], Arrangement::Consecutive, None).unwrap().build();
    let big = || Dragonfly::new([13, 26, 13, 339], Arrangement::Consecutive, None).unwrap().build();
    type Case = (&'static str, NetworkConfig, fn() -> Topology, Traffic);
    let cases: Vec<Case> = vec![
        ("1024-node fat tree, permutation, credits", credits.clone(), thousand, Traffic::Permutation),
        ("1024-node fat tree, permutation, PFC", pauses.clone(), thousand, Traffic::Permutation),
        ("1024-node fat tree, permutation, adaptive, credits", adaptive(&credits), thousand, Traffic::Permutation),
        ("1024-node fat tree, permutation, adaptive, PFC", adaptive(&pauses), thousand, Traffic::Permutation),
        ("1024-node fat tree, uniform 0.5", adaptive(&credits), thousand, Traffic::Uniform(0.5, SimTime::from_us(100))),
        ("342-node dragonfly, uniform 0.5, minimal", minimal.clone(), small, Traffic::Uniform(0.5, SimTime::from_us(100))),
        ("114582-node dragonfly, uniform 0.5, minimal", minimal, big, Traffic::Uniform(0.5, SimTime::from_us(10))),
        ("114582-node dragonfly, uniform 0.5, minimal 4 VN", four, big, Traffic::Uniform(0.5, SimTime::from_us(10))),
        ("114582-node dragonfly, uniform 0.5, UGAL-L", ugal, big, Traffic::Uniform(0.5, SimTime::from_us(10))),
        ("16384-node fat tree, uniform 0.5", adaptive(&credits), large, Traffic::Uniform(0.5, SimTime::from_us(20))),
    ];
    for (name, config, topology, traffic) in cases {
        if filter.iter().all(|word| name.to_lowercase().contains(&word.to_lowercase())) {
            for &threads in &threads {
                run(name, &config, topology, traffic, threads);
            }
        }
    }
}
