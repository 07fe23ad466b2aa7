//! How fast the networks are: `cargo bench -p narrows-fabric [-- FILTER]`. For measuring only; prints one line per
//! case.
//!
//! Beside each time stands that of copying the same payload once in memory.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench stops where its input is wrong")]

use narrows_engine::stream;
use narrows_fabric::{NetworkConfig, NetworkKind, Transfer, TransferId};
use narrows_port::Driver;
use narrows_topology::{FatTree, RoutingKind};
use narrows_units::{Bytes, SimTime};

/// CPU time of this thread in seconds: others may be busy on the same cores.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

struct Case {
    name: String,
    tree: FatTree,
    config: NetworkConfig,
    /// (source, target, bytes); a round starts when the one before is over.
    rounds: Vec<Vec<(u32, u32, u64)>>,
    /// Starts of a round are drawn from this span; zero for all at once.
    spread: SimTime,
}

/// Runs the case until it has taken long enough to be told by the clock, which ticks every few milliseconds.
fn run(case: &Case) {
    let payload: u64 = case.rounds.iter().flatten().map(|message| message.2).sum();
    let mut cpu = 0.0;
    let limit = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.2);
    let mut times = 0.0;
    let mut driver;
    loop {
        driver = Driver::new(&case.config, case.tree.clone().build()).unwrap();
        driver.forget_notices();
        let begin = cpu_time();
        for round in &case.rounds {
            let mut random = stream(1, "spread", 0);
            let mut starts: Vec<u64> = round.iter().map(|_| random.below(case.spread.as_ps() + 1)).collect();
            starts.sort_unstable();
            let begin = driver.now();
            for (index, (&(source, target, payload), start)) in round.iter().zip(starts).enumerate() {
                driver.run_until(begin + SimTime(start));
                driver.start(Transfer {
                    id: TransferId(index as u32),
                    source,
                    target,
                    virtual_network: 0,
                    payload: Bytes(payload),
                    source_dma: true,
                    target_dma: true,
                    route: 0,
                });
            }
            driver.run();
        }
        cpu += cpu_time() - begin;
        times += 1.0;
        if cpu > limit || times > 2000.0 {
            break;
        }
    }
    cpu /= times;
    let statistics = driver.statistics();
    println!(
        "{:<36} {:<6} {:>9.3} ms {:>8.0} ns/transfer {:>9} hops {:>6.1} ns/hop {:>5.2} events/hop {:>6.1} ns/event {:>9.3} ms simulated {:>6.2} x memcpy  {:>5.1} solved/solve  digest {:016x}",
        case.name,
        format!("{:?}", case.config.kind),
        cpu * 1e3,
        cpu * 1e9 / statistics.transfers as f64,
        statistics.packet_hops,
        cpu * 1e9 / statistics.packet_hops as f64,
        driver.events() as f64 / statistics.packet_hops as f64,
        cpu * 1e9 / driver.events() as f64,
        driver.now().as_s_f64() * 1e3,
        cpu / (memcpy() * payload as f64),
        statistics.solved_flows as f64 / statistics.solves.max(1) as f64,
        driver.digest(),
    );
}

/// Seconds per byte of copying 1 MiB in memory.
fn memcpy() -> f64 {
    static PER_BYTE: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *PER_BYTE.get_or_init(|| {
        const COPIES: usize = 3000;
        let from = vec![1u8; 1 << 20];
        let mut to = vec![0u8; 1 << 20];
        let begin = cpu_time();
        for _ in 0..COPIES {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        }
        (cpu_time() - begin) / (COPIES << 20) as f64
    })
}

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let small = FatTree::smallest_full_bisection(16, 48).unwrap();
    let two_levels = FatTree::smallest_full_bisection(64, 48).unwrap();
    let thousand = FatTree::pgft(&[16, 8, 8], &[1, 16, 8], &[1, 1, 1]).unwrap();
    let shift = |hosts: u32, by: u32, bytes: u64| (0..hosts).map(|host| (host, (host + by) % hosts, bytes)).collect::<Vec<_>>();
    let all_to_all = |hosts: u32, bytes: u64| (1..hosts).flat_map(|by| shift(hosts, by, bytes)).collect::<Vec<_>>();
    let permutation = |hosts: u32, bytes: u64, seed: u64| {
        let mut targets: Vec<u32> = (0..hosts).collect();
        stream(seed, "bench", 0).shuffle(&mut targets);
        (0..hosts).zip(targets).filter(|(source, target)| source != target).map(|(s, t)| (s, t, bytes)).collect::<Vec<_>>()
    };
    let mut cases = Vec::new();
    for kind in [NetworkKind::Packet, NetworkKind::Flow, NetworkKind::LogGp] {
        let config = NetworkConfig { kind, ..NetworkConfig::default() };
        let mut case = |name: &str, tree: &FatTree, config: &NetworkConfig, rounds: Vec<Vec<(u32, u32, u64)>>| {
            cases.push(Case { name: name.into(), tree: tree.clone(), config: config.clone(), rounds, spread: SimTime::ZERO });
        };
        case("ping-pong 8 B, 1 switch", &small, &config, (0..100_000).map(|turn| vec![(turn % 2, 1 - turn % 2, 8)]).collect());
        case("ping-pong 1 MiB, 1 switch", &small, &config, (0..50).map(|turn| vec![(turn % 2, 1 - turn % 2, 1 << 20)]).collect());
        case("16 x 1 MiB shift, 1 switch", &small, &config, (0..10).map(|_| shift(16, 1, 1 << 20)).collect());
        case("16-rank all-to-all 1 MiB, 1 switch", &small, &config, vec![all_to_all(16, 1 << 20)]);
        case("16-rank all-to-all 4 KiB, 1 switch", &small, &config, (0..20).map(|_| all_to_all(16, 4 << 10)).collect());
        case("16-rank all-to-all 64 B, 1 switch", &small, &config, (0..50).map(|_| all_to_all(16, 64)).collect());
        case("64-rank all-to-all 64 KiB, 2 levels", &two_levels, &config, vec![all_to_all(64, 64 << 10)]);
        let wide = NetworkConfig { mtu: Bytes(4096), buffer_per_channel: Bytes(32 << 10), ..config.clone() };
        case("1024-node permutation 1 MiB", &thousand, &wide, vec![permutation(1024, 1 << 20, 1)]);
        let adaptive = NetworkConfig { routing: RoutingKind::Adaptive, ..wide };
        case("1024-node permutation 1 MiB adaptive", &thousand, &adaptive, vec![permutation(1024, 1 << 20, 1)]);
        for kib in [4, 16, 64, 256] {
            // At most half of what the links can carry, by messages that know nothing of each other.
            let spread = SimTime::from_ns(kib * 200 * 15);
            let rounds = (0..4).map(|seed| {
                let mut round = all_to_all(16, kib << 10);
                stream(seed, "order", 0).shuffle(&mut round);
                round
            });
            let name = format!("16 ranks, random starts, {kib} KiB");
            cases.push(Case { name, tree: small.clone(), config: config.clone(), rounds: rounds.collect(), spread });
        }
    }
    for case in cases.iter().filter(|case| {
        let name = format!("{} {:?}", case.name, case.config.kind).to_lowercase();
        filter.iter().all(|word| name.contains(&word.to_lowercase()))
    }) {
        run(case);
    }
}
