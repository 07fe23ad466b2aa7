//! Every key of a machine file has an effect: `keys.txt` has a command whose result changes with it, or says why there
//! is none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What a command comes to: its code, and the fingerprint of all that happened and the energy, or the refusal.
fn result(folder: &Path, words: &[String]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_narrows")).current_dir(folder).args(words).output().unwrap();
    // Results are on standard output, complaints on standard error.
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let energy = text.lines().filter(|line| line.starts_with("energy "));
    match text.split("digest ").nth(1) {
        Some(rest) if output.status.success() => (output.status.code(), rest[..16].to_owned() + &energy.collect::<String>()),
        _ => (output.status.code(), text),
    }
}

/// 4 ranks: messages of all lengths that come before their receives are there, answers to receives that wait, then
/// collectives.
fn mixed() -> String {
    const SIZES: [u32; 14] = [0, 8, 60, 400, 3000, 9000, 100_000, 0, 8, 60, 400, 3000, 9000, 100_000];
    let numbers = |from: usize| (from..from + SIZES.len()).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let mut text = String::from("{\"narrows_trace\":1,\"ranks\":4,\"order\":\"graph\"}\n");
    for rank in [0, 2] {
        let other = rank + 1;
        for (tag, bytes) in SIZES.iter().enumerate() {
            let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"send\",\"to\":{other},\"bytes\":{bytes},\"tag\":{tag},\"after\":[]}}");
        }
        let _ = writeln!(text, "{{\"rank\":{other},\"op\":\"compute\",\"ps\":80000000,\"after\":[]}}");
        for (tag, bytes) in SIZES.iter().enumerate() {
            let _ = writeln!(text, "{{\"rank\":{other},\"op\":\"recv\",\"from\":{rank},\"bytes\":{bytes},\"tag\":{tag},\"after\":[0]}}");
        }
        for (tag, bytes) in (100..).zip(SIZES) {
            let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"recv\",\"from\":{other},\"bytes\":{bytes},\"tag\":{tag},\"after\":[]}}");
            let received = numbers(1);
            let _ =
                writeln!(text, "{{\"rank\":{other},\"op\":\"send\",\"to\":{rank},\"bytes\":{bytes},\"tag\":{tag},\"after\":[{received}]}}");
        }
        let _ = writeln!(
            text,
            "{{\"rank\":{rank},\"op\":\"allreduce\",\"send\":30000,\"recv\":30000,\"after\":[{},{}]}}",
            numbers(0),
            numbers(SIZES.len())
        );
        let sent = numbers(1 + SIZES.len());
        let _ = writeln!(text, "{{\"rank\":{other},\"op\":\"allreduce\",\"send\":30000,\"recv\":30000,\"after\":[{sent}]}}");
    }
    for rank in 0..4 {
        let (bcast, reduce) = if rank == 0 { ("\"send\":100", ",\"recv\":100000") } else { ("\"recv\":100", "") };
        let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"bcast\",{bcast}}}");
        let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"reduce\",\"send\":100000{reduce}}}");
        let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"alltoall\",\"send\":4000,\"recv\":4000}}");
    }
    text
}

/// The words in capitals.
fn words() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("MIXED", "mixed.jsonl"),
        ("BCAST", "bcast.jsonl"),
        ("MATMUL", "matmul.jsonl"),
        ("NAMES", "names.txt"),
        ("BASED", "based.toml"),
        ("GROUPS", "groups.toml"),
        (
            "WIRED",
            "--nodes 1 --mapping linear:host,NAME --set node.processors=[\"NAME\"] --set processor.NAME.bus=near \
             --set bus.near.latency=500ns --set bus.near.bandwidth=5GB/s --set bus.far.latency=1us --set bus.far.bandwidth=1GB/s",
        ),
        (
            "BUSES",
            "--nodes 1 --mapping linear:host,dpu --set node.processors=[\"dpu\"] --set processor.dpu.bus=NAME \
             --set bus.NAME.latency=500ns --set bus.NAME.bandwidth=5GB/s --set bus.far.latency=1us --set bus.far.bandwidth=1GB/s",
        ),
        ("ASIDE", "--mapping linear:host,NAME --set node.processors=[\"NAME\"] --set processor.NAME.speed=0.9"),
        ("FABRICS", "fabrics.toml"),
        ("GATEWAYS", "gateways.toml"),
        (
            "DRAGONFLY",
            "--nodes 6 --set topology.kind=dragonfly --set topology.p=1 --set topology.a=2 --set topology.h=1 --set topology.g=3 \
             --set network.routing=minimal --set network.virtual_channels=4",
        ),
        ("ACCELERATED", "--set collectives.rules=[\"allreduce\u{a0}*:\u{a0}exanet-accelerator\"]"),
        ("LOSSY", "--set network.reliability.delivery=ordered --fault corrupt=0.05"),
        ("RATED", "--set network.reliability.delivery=ordered --set network.congestion=acc"),
        (
            "MARKED",
            "--set network.reliability.delivery=ordered --set network.congestion=dcqcn --set switch.marking=ecn --set switch.mark_max=40KB \
             --set switch.mark_probability=0.2 --set network.buffer=64KiB",
        ),
        ("GRANTED", "--set network.reliability.delivery=ordered --set network.congestion=s-perc"),
        ("TOLD", "--set network.reliability.delivery=ordered --set network.congestion=hpcc --set switch.telemetry=int"),
        ("DELAYED", "--set network.reliability.delivery=ordered --set network.congestion=swift"),
        ("DYING", "--set group.gateways.count=3 --fault gateway=1\u{a0}from=30us"),
        ("PAUSE", "--set network.flow_control=pfc --set network.buffer=64KiB"),
        ("PGFT", "--set topology.kind=pgft --set topology.children=[4,2] --set topology.parents=[1,2] --set topology.parallel=[1,1]"),
        ("TORUS", "--set topology.kind=torus --set topology.lengths=[4] --set network.routing=minimal --set network.virtual_channels=4"),
        ("LEAVES", "--set topology.kind=spine-leaf --set topology.leaves=4 --set topology.spines=2 --set topology.hosts_per_switch=2"),
        (
            "HOT",
            "--nodes 16 --load 0.5 --class name=v\u{a0}pattern=shift:5\u{a0}load=0.4 --set topology.kind=k-ary-n-tree --set topology.k=4 --set topology.n=2",
        ),
        ("PING", "ping:1000,4,100us"),
        ("STREAM", "iperf:tcp --warmup 0us --time 300us"),
        ("TUNNEL", "--set ip.tunnel.enabled=true"),
        ("HANDLED", "--set nic.spin.rules=[\"reduce\"]"),
        ("CROWDED", "--load 0.3 --size 16KiB --time 100us --set nic.spin.rules=[\"reduce\"] --set nic.spin.hpus=2 --set nic.spin.queues=8"),
        ("LATE", "--set ip.receive=20us --set ip.receive_ring=2 --time 10ms"),
        ("GATEWAY", "--from 1 --set ip.gateway.hosts=1"),
        ("WEIGHED", "name=b\u{a0}pattern=incast:3\u{a0}priority=1\u{a0}load=0.2"),
    ])
}

/// A command of the table: capitals replaced, and what a line leaves out.
fn spelt_out(command: &str) -> Vec<String> {
    let known = words();
    let text = command.split_whitespace().map(|word| known.get(word).copied().unwrap_or(word)).collect::<Vec<_>>().join(" ");
    // A blank that does not part words.
    let mut words: Vec<String> = text.split_ascii_whitespace().map(|word| word.replace('\u{a0}', " ")).collect();
    // Pings and streams have no load, and times of their own.
    let ip = words[1].starts_with("ping") || words[1].starts_with("iperf");
    let traffic = words[0] == "traffic" && !ip;
    let usual = [("--nodes", if traffic || ip { "8" } else { "4" }), ("--time", "20us"), ("--warmup", "5us"), ("--load", "0.3")];
    // Groups say how many nodes they have.
    let skipped = usize::from(words.iter().any(|word| ["groups.toml", "fabrics.toml", "gateways.toml"].contains(&word.as_str())));
    for (option, value) in &usual[skipped..if traffic { 4 } else { 1 }] {
        if !words.iter().any(|word| word == option) {
            words.extend([String::from(*option), String::from(*value)]);
        }
    }
    words
}

#[test]
fn every_key_has_an_effect_or_a_reason() {
    let folder = std::env::temp_dir().join(format!("narrows-keys-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("mixed.jsonl", &mixed());
    write("names.txt", "node000\nnode001\nnode002\nnode003\n");
    write("based.toml", "[machine]\nname = \"based\"\nbase = \"bxi-v2\"\n");
    write(
        "groups.toml",
        "[machine]\nname = \"groups\"\nbase = \"bxi-v2\"\ngroups = [\"NAME\", \"others\"]\n[group.NAME]\ncount = 2\n[group.others]\ncount = 3\n",
    );
    // All nodes are on both networks, of which the first one is slower.
    write(
        "fabrics.toml",
        "[machine]\nname = \"fabrics\"\nbase = \"bxi-v2\"\ngroups = [\"NAME\", \"others\"]\nfabrics = [\"slow\", \"NAME\"]\n\
         [group.NAME]\ncount = 2\n[group.others]\ncount = 2\n[fabric.slow.link.host]\nbandwidth = \"1 GB/s\"\n",
    );
    // Between two pairs of ranks that talk to each other.
    write(
        "gateways.toml",
        "[machine]\nname = \"gateways\"\nbase = \"bxi-v2\"\ngroups = [\"one\", \"gateways\", \"NAME\", \"other\"]\n\
         fabrics = [\"a\", \"b\"]\n[group.one]\ncount = 1\nfabrics = [\"a\"]\n[group.gateways]\ncount = 1\n\
         gateway = [\"a\", \"b\"]\n[group.NAME]\ncount = 1\n[group.other]\ncount = 3\nfabrics = [\"b\"]\n",
    );
    write("g1", "hosts left 1\nhosts right 1\nlink left right\n");
    write("g2", "hosts left 1\nhosts right 1\nlink left middle\nlink middle right\n");
    for (pattern, ranks) in [("bcast", "6"), ("matmul-like", "4")] {
        let file = format!("{}.jsonl", pattern.trim_end_matches("-like"));
        let generate = ["generate", pattern, "--ranks", ranks, "--steps", "1", "-o", &file];
        assert!(Command::new(env!("CARGO_BIN_EXE_narrows")).current_dir(&folder).args(generate).status().unwrap().success());
    }

    let live = concat!(
        include_str!("../../../../tests/run_portals.py"),
        include_str!("../../../../tests/mpi_driver/cases.py"),
        include_str!("../../../../tests/cycles.py")
    );
    let (mut listed, mut plain, mut wrong) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for line in include_str!("../keys.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let key = match line.split_once(' ').unwrap() {
            ("none", rest) => rest.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}")).0,
            ("live", key) => {
                assert!(
                    live.contains(&format!("\"{key}\"")) || live.contains(&format!("\"{key}=")),
                    "neither tests/run_portals.py, tests/mpi_driver/cases.py nor tests/cycles.py changes {key}"
                );
                key
            }
            _ => {
                let (change, command) = line.split_once(" | ").unwrap();
                let key = change.split_once('=').unwrap().0;
                let mut words = spelt_out(command);
                if key == "node.count" {
                    // The option would win.
                    let at = words.iter().position(|word| word == "--nodes").unwrap();
                    words[at] = String::from("--set");
                    words[at + 1] = format!("node.count={}", words[at + 1]);
                }
                let before = plain.entry(words.clone()).or_insert_with(|| result(&folder, &words)).clone();
                words.extend([String::from("--set"), change.to_owned()]);
                if before.0 != Some(0) {
                    wrong.push(format!("{line}: without it: {}", before.1));
                } else if result(&folder, &words) == before {
                    wrong.push(format!("{line}: changes nothing"));
                }
                key
            }
        };
        assert!(listed.insert(key), "{key} is listed twice");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<&str> = narrows_machine::key_paths().collect();
    let (missing, gone): (Vec<_>, Vec<_>) = (known.difference(&listed).collect(), listed.difference(&known).collect());
    assert!(missing.is_empty() && gone.is_empty(), "without an entry in keys.txt: {missing:?}; no keys any more: {gone:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
