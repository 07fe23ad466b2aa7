//! Several ports and networks, in replays.

#![allow(clippy::unwrap_used)]

use narrows_machine::NetworkKind;
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, ReplayOutcome, ReplaySpec, Silent, StudyError};
use narrows_trace::generate::{Parameters, Pattern};
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
    let target = Target::Machine { machine, ppn: Some(1), mapping: String::from("linear"), period: None };
    let spec = ReplaySpec { sources: vec![source], target, scales: Vec::new(), seed: 1, collectives: None, threads, timeline: None };
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
