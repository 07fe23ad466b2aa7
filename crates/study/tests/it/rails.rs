//! Several ports and networks, in replays.

use narrows_machine::NetworkKind;
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, ReplayOutcome, ReplaySpec, Silent, StudyError};
use narrows_trace::generate::{Parameters, Pattern};
use narrows_traffic::Class;
use narrows_units::SimTime;
use std::path::Path;

const FRAGMENT: u64 = 1 << 20;

/// One message of so many bytes from rank 0 to rank 1.
fn one(folder: &Path, bytes: u64) -> Source {
    let path = folder.join(format!("{bytes}.goal"));
    let text = format!("num_ranks 2\nrank 0 {{\nl1: send {bytes}b to 1 tag 0\n}}\nrank 1 {{\nl1: recv {bytes}b from 0 tag 0\n}}\n");
    std::fs::write(&path, text).unwrap();
    Source::File(path)
}

fn replay(machine: &str, set: &[&str], network: NetworkKind, source: Source, threads: usize) -> Result<ReplayOutcome, StudyError> {
    let mut machine = MachineSpec { network: Some(network), ..MachineSpec::named(machine) };
    machine.overrides.set = set.iter().map(|text| (*text).to_owned()).collect();
    let target = Target::Machine { machine, ppn: Some(1), mapping: String::from("linear"), period: None, background: Vec::new() };
    let spec = ReplaySpec {
        sources: vec![source],
        target,
        scales: Vec::new(),
        seed: 1,
        collectives: None,
        threads,
        timeline: None,
        processes: None,
    };
    let outcome = spec.run(&Silent)?;
    assert_eq!(outcome.replay.failure, None);
    Ok(outcome)
}

fn over_rails(folder: &Path, rails: u32, bytes: u64, more: &[&str]) -> SimTime {
    let (rails, fragment) = (format!("node.rails={rails}"), format!("message.mpc.fragment={FRAGMENT} B"));
    let set = [&["message.protocol=mpc", "message.mpc.minimum=64 KiB", &rails, &fragment], more].concat();
    replay("bxi-v2", &set, NetworkKind::Flow, one(folder, bytes), 1).unwrap().replay.finish
}

/// D4.3, section 2.2 (facts 9.1): T(n) = T_rndv + ceil(ceil(n / F) / N) F / B; with whole fragments. What a fragment
/// costs beside its time on the wire, an entry at one end and a get at the other, is below 0.5 % of it.
#[test]
fn fragments_take_the_rails_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let time = |rails, fragments: u64| over_rails(folder.path(), rails, fragments * FRAGMENT, &[]).as_ps() as f64;
    // The time of a fragment on one rail, and of everything else.
    let (first, second) = (time(1, 8), time(1, 16));
    let fragment = (second - first) / 8.0;
    let rest = first - 8.0 * fragment;
    for rails in 1..=4u32 {
        for fragments in [2, 4, 5, 8, 9, 12] {
            let expected = rest + f64::from((fragments as u32).div_ceil(rails)) * fragment;
            let measured = time(rails, fragments);
            assert!((measured / expected - 1.0).abs() < 0.02, "{fragments} fragments on {rails} rails: {measured} ps, not {expected}");
        }
    }
}

/// Equal parts end together, where fragments leave rails idle.
#[test]
fn equal_parts_end_together() {
    let folder = tempfile::tempdir().unwrap();
    for by in ["message.rendezvous=get", "message.rendezvous=put"] {
        let time = |rails, more: &[&str]| over_rails(folder.path(), rails, 5 * FRAGMENT, &[more, &[by]].concat()).as_ps() as f64;
        let (alone, even) = (time(1, &[]), time(4, &["message.mpc.distribution=even"]));
        assert!((even / (alone / 4.0) - 1.0).abs() < 0.05, "{even} ps, {alone} alone");
        assert!(time(4, &[]) > 1.5 * even, "two fragments one after the other on one rail");
    }
}

/// Two networks of different speed: parts by rate end together, n / (B1 + B2); equal ones wait for the slow rail,
/// n / (2 B2). The rates are those of the narrowest stage, a cable here and a bus there.
#[test]
fn parts_by_rate_end_together_on_rails_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    let slow = "[fabric.slow.link.host]\nbandwidth = \"20 GB/s\"\n[fabric.slow.node.pcie]\ndata_bandwidth = \"2 GB/s\"\n";
    let text = format!(
        "[machine]\nname = \"two\"\nbase = \"bxi-v2\"\nfabrics = [\"fast\", \"slow\"]\n[message]\nprotocol = \"mpc\"\n{slow}\
         [fabric.fast.link.host]\nbandwidth = \"8 GB/s\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let bytes = 64 * FRAGMENT;
    let (fast, slow) = (8e9 * 4096.0 / 4128.0, 2e9);
    for by in ["message.rendezvous=get", "message.rendezvous=put"] {
        let time = |set: &[&str]| {
            let set = [&[by], set].concat();
            replay(path.to_str().unwrap(), &set, NetworkKind::Flow, one(folder.path(), bytes), 1).unwrap().replay.finish.as_s_f64()
        };
        let (rates, even) = (time(&["message.mpc.distribution=rates"]), time(&["message.mpc.distribution=even"]));
        assert!((rates / (bytes as f64 / (fast + slow)) - 1.0).abs() < 0.01, "{by}: {rates} s");
        assert!((even / (bytes as f64 / 2.0 / slow) - 1.0).abs() < 0.01, "{by}: {even} s");
    }
}

/// BXI beside TCP over Ethernet, which is as fast as its cable, or as the core of its stack: n / (B1 + B2) by rate. A
/// short message over TCP alone takes its stack twice.
#[test]
fn a_rail_of_another_kind_has_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let machine = |name: &str, fabrics: &str, bandwidth: &str| {
        let path = folder.path().join(name);
        let text = format!(
            "[machine]\nname = \"two\"\nbase = \"bxi-v2\"\nfabrics = [{fabrics}]\n[message]\nprotocol = \"mpc\"\n\
             [message.mpc]\ndistribution = \"rates\"\n[fabric.ethernet.nic]\nkind = \"tcp\"\n\
             [fabric.ethernet.network]\nmtu = \"1448 B\"\nheader = \"90 B\"\n[fabric.ethernet.link.host]\nbandwidth = \"{bandwidth}\"\n"
        );
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let time = |machine: &str, bytes, set: &[&str]| {
        replay(machine, set, NetworkKind::Packet, one(folder.path(), bytes), 1).unwrap().replay.finish.as_s_f64()
    };
    let bytes = 64 * FRAGMENT;
    let bxi = bytes as f64 / time("bxi-v2", bytes, &[]);
    let core = 65536.0 / (1e-6 + 65536.0 / 5.7e9);
    for (bandwidth, ethernet) in [("25 Gbit/s", 25e9 / 8.0 * 1448.0 / 1538.0), ("100 Gbit/s", core)] {
        let alone = time(&machine("alone.toml", "\"ethernet\"", bandwidth), bytes, &[]);
        assert!((alone / (bytes as f64 / ethernet) - 1.0).abs() < 0.02, "{alone} s over {bandwidth}");
        for by in ["message.rendezvous=get", "message.rendezvous=put"] {
            let both = time(&machine("both.toml", "\"bxi\", \"ethernet\"", bandwidth), bytes, &[by]);
            assert!((both / (bytes as f64 / (bxi + ethernet)) - 1.0).abs() < 0.03, "{both} s over both, {by}");
        }
    }
    let [one, more] = [0, 1].map(|more| {
        let set = format!("fabric.ethernet.nic.tcp.message={} ns", 4500 + more * 1000);
        time(&machine("alone.toml", "\"ethernet\"", "25 Gbit/s"), 8, &[&set])
    });
    assert!((more - one - 2e-6).abs() < 1e-12, "{one} s, {more} s with 1 us more at each end");
}

/// A network that is for long messages only: shorter ones are cut for the others, and take them in turn.
#[test]
fn rails_for_long_messages_have_no_part_in_shorter_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    let text = "[machine]\nname = \"two\"\nbase = \"bxi-v2\"\nfabrics = [\"fast\", \"slow\"]\n[node]\nrails = 2\n[message]\nprotocol = \"mpc\"\n\
                [fabric.slow.network]\nrail_minimum = \"8 MiB\"\n[fabric.slow.link.host]\nbandwidth = \"1 GB/s\"\n";
    std::fs::write(&path, text).unwrap();
    let bytes = |bytes: u64, distribution: &str| {
        let set = [&*format!("message.mpc.distribution={distribution}")];
        let outcome = replay(path.to_str().unwrap(), &set, NetworkKind::Flow, one(folder.path(), bytes), 1).unwrap();
        let rails = outcome.summary()["messages_by"]["rails"].clone();
        rails.as_array().unwrap().iter().map(|rail| rail["bytes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bytes(2 * FRAGMENT, "even"), [FRAGMENT, FRAGMENT, 0, 0]);
    assert_eq!(bytes(8 * FRAGMENT, "even"), [2 * FRAGMENT; 4]);
    assert_eq!(bytes(2 * FRAGMENT, "rates"), [FRAGMENT, FRAGMENT, 0, 0]);
    assert!(bytes(8 * FRAGMENT, "rates").iter().all(|&bytes| (1..4 * FRAGMENT).contains(&bytes)));
}

/// Ten fragments on four rails, and the words of the protocol on the first.
#[test]
fn the_summary_says_what_went_over_which_rail() {
    let folder = tempfile::tempdir().unwrap();
    let fragment = format!("message.mpc.fragment={FRAGMENT} B");
    // By get the receiver asks for each; by put it answers, and the sender puts each.
    for (by, first) in [("message.rendezvous=get", 1 + 3), ("message.rendezvous=put", 1 + 1 + 3)] {
        let set = ["message.protocol=mpc", "node.rails=4", &fragment, by];
        let outcome = replay("bxi-v2", &set, NetworkKind::Packet, one(folder.path(), 10 * FRAGMENT), 1).unwrap();
        let ways = &outcome.summary()["messages_by"];
        assert_eq!((&ways["protocol"], &ways["fragment_bytes"]), (&"mpc".into(), &FRAGMENT.into()));
        assert_eq!((&ways["over_rails"]["messages"], &ways["over_rails"]["bytes"]), (&1.into(), &(10 * FRAGMENT).into()));
        assert_eq!((&ways["eager"]["messages"], &ways["by_rendezvous"]["messages"]), (&0.into(), &0.into()));
        let of = |key: &str| ways["rails"].as_array().unwrap().iter().map(|rail| rail[key].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(of("bytes"), [3, 3, 2, 2].map(|pieces| pieces * FRAGMENT), "{by}");
        assert_eq!(of("messages"), [first, 3, 2, 2], "{by}");
    }
    let short = replay("bxi-v2", &[], NetworkKind::Packet, one(folder.path(), 100), 1).unwrap().summary();
    assert_eq!((&short["messages_by"]["eager"]["bytes"], &short["messages_by"]["rails"][0]["bytes"]), (&100.into(), &100.into()));
}

/// One rail of MPC is what the protocol without rails is; and whoever does not use them does not see them.
#[test]
fn rails_without_use_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [8, 100_000, 10 * FRAGMENT] {
        let run = |set: &[&str]| replay("bxi-v2", set, NetworkKind::Packet, one(folder.path(), bytes), 1).unwrap().replay;
        let plain = run(&[]);
        assert_eq!(run(&["message.protocol=mpc"]).digest, plain.digest);
        assert_eq!(run(&["node.rails=3"]).finish, plain.finish);
    }
}

/// The regions of all networks run side by side.
#[test]
fn digests_of_several_rails_do_not_depend_on_threads() {
    let halo = Parameters { ranks: 64, steps: 2, bytes: None, cells: None, compute: None };
    let set = ["node.rails=2", "message.protocol=mpc", "message.mpc.minimum=9 KiB", "message.mpc.fragment=5001 B", "node.count=64"];
    let digest =
        |threads| replay("bxi-v3", &set, NetworkKind::Packet, Source::Pattern(Pattern::Halo3d, halo), threads).unwrap().replay.digest;
    assert_eq!(digest(1), digest(2));
}

/// A rail is lost between nodes of different regions: the others carry what it had, on any number of threads.
#[test]
fn a_rail_that_fails_is_done_without() {
    let halo = Parameters { ranks: 64, steps: 2, bytes: None, cells: None, compute: None };
    let fault = |what: &str| format!("network.faults=[\"link=node5 {what} loss=1 from=20us\"]");
    let rail = fault("rail=1");
    let set = [
        "node.rails=3",
        "message.protocol=mpc",
        "message.mpc.minimum=9 KiB",
        "message.mpc.fragment=5001 B",
        "node.count=64",
        "network.reliability.delivery=unordered",
        "network.reliability.timeout=10 us",
        "network.reliability.retries=2",
        &rail,
    ];
    let run = |threads| replay("bxi-v3", &set, NetworkKind::Packet, Source::Pattern(Pattern::Halo3d, halo), threads).unwrap();
    let outcome = run(1);
    assert_eq!(outcome.replay.digest, run(2).replay.digest);
    let rails = outcome.summary()["messages_by"]["rails"].clone();
    let carried: Vec<u64> = rails.as_array().unwrap().iter().map(|rail| rail["carried"]["messages"].as_u64().unwrap()).collect();
    assert!(carried[1] == 0 && carried[0] > 0 && carried[2] > 0, "{carried:?}");
    let wrong = fault("rail=3");
    let error = replay("bxi-v3", &["node.rails=3", &wrong], NetworkKind::Packet, Source::Pattern(Pattern::Halo3d, halo), 1).unwrap_err();
    assert!(error.to_string().contains("there is no rail 3: they are 0 to 2"), "{error}");
}

/// What background traffic has on a rail that fails is given up: the other one carries what ranks send, and nothing
/// else. Where there is no other rail, ranks that do not need the lost link get to their end.
#[test]
fn background_traffic_on_a_failing_rail_is_given_up() {
    let beside = |rails: u32, ranks: u32, pattern: &str, threads: usize| {
        let mut machine = MachineSpec { network: Some(NetworkKind::Packet), ..MachineSpec::named("bxi-v3") };
        let set = [
            "node.count=64",
            "network.reliability.delivery=unordered",
            "network.reliability.timeout=10 us",
            "network.reliability.retries=2",
            "network.faults=[\"link=node5 rail=0 loss=1 from=20us\"]",
        ];
        machine.overrides.set = set.map(String::from).to_vec();
        machine.overrides.set.push(format!("node.rails={rails}"));
        let background = vec![Class::parse(&format!("{pattern} size=300B")).unwrap()];
        let target = Target::Machine { machine, ppn: Some(1), mapping: String::from("linear"), period: None, background };
        let halo = Parameters { ranks, steps: 4, bytes: Some(20_000), cells: None, compute: None };
        let sources = vec![Source::Pattern(Pattern::Halo3d, halo)];
        let spec = ReplaySpec { sources, target, scales: Vec::new(), seed: 1, collectives: None, threads, timeline: None, processes: None };
        let outcome = spec.run(&Silent).unwrap();
        assert_eq!(outcome.replay.failure, None);
        let summary = outcome.summary();
        let of = |name: &str| summary["background"][0][name].as_u64().unwrap();
        let (messages, arrived, lost) = (of("messages"), of("arrived"), of("given_up"));
        assert!(arrived > 100 && lost > 10 && arrived + lost <= messages, "{arrived} of {messages} arrived, {lost} given up");
        (outcome.replay.digest, summary["messages_by"]["rails"][1]["carried"].clone())
    };
    let (one, two) = (beside(2, 64, "pattern=uniform load=0.05", 1), beside(2, 64, "pattern=uniform load=0.05", 2));
    assert_eq!(one, two);
    // Node 5 has six partners in each of four steps, both ways; a rendezvous is an announcement, a get and its answer.
    let carried = one.1["messages"].as_u64().unwrap();
    assert!(carried > 0 && carried <= 6 * 4 * 2 * 3, "{carried} messages");
    beside(1, 4, "pattern=incast:8,5 load=0.02", 1);
}

/// A network among others is what it is alone; ranks need one in common.
#[test]
fn a_network_among_others_is_what_it_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let slow = "[fabric.slow.network]\nmtu = \"1 KiB\"\n[fabric.slow.link.host]\nbandwidth = \"1 GB/s\"\n";
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[machine]\nname = \"two\"\nbase = \"bxi-v2\"\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let alone = file("alone.toml", "[node]\ncount = 4\n[network]\nmtu = \"1 KiB\"\n[link.host]\nbandwidth = \"1 GB/s\"\n");
    let second = format!(
        "fabrics = [\"fast\", \"slow\"]\ngroups = [\"one\", \"other\"]\n[group.one]\ncount = 1\nfabrics = [\"slow\"]\n[group.other]\ncount = 3\n{slow}"
    );
    let second = file("second.toml", &second);
    let source = || one(folder.path(), 100_000);
    let time = |machine: &str| replay(machine, &[], NetworkKind::Packet, source(), 1).unwrap().replay.finish;
    assert_eq!(time(&second), time(&alone), "the network that both nodes join");
    let set = ["group.other.fabrics=[\"fast\"]"];
    let error = replay(&second, &set, NetworkKind::Packet, source(), 1).unwrap_err().to_string();
    assert!(error.starts_with("no network has all nodes with ranks: node000 is on slow, node001 on fast"), "{error}");
}
