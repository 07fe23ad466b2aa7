//! `narrows traffic ping` and `iperf` as a person runs them.

use serde_json::Value;
use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("traffic").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = narrows(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_ping_has_round_trips_and_a_stream_throughput_on_any_network() {
    for machine in ["bxi-v2", "bxi-v3", "ib-qdr", "exanest-qfdb", "exanest-10gbe"] {
        for network in ["packet", "flow", "loggp"] {
            let on = ["--machine", machine, "--network", network, "--nodes", "4"];
            let ping = json(&[&["ping:56,20,100us"][..], &on].concat());
            assert_eq!((&ping["packets"], &ping["drops"]), (&20.into(), &0.into()), "{machine}, {network}");
            assert!(ping["rtt_us"]["mean"].as_f64().unwrap() > 5.0, "{machine}, {network}: {ping}");
            let stream = json(&[&["iperf:tcp", "--time", "2ms"][..], &on].concat());
            assert!(stream["throughput_gbps"].as_f64().unwrap() > 0.5, "{machine}, {network}: {stream}");
            assert!(stream["hosts"][1]["cpu"].as_f64().unwrap() > 0.1, "{machine}, {network}: {stream}");
        }
    }
}

#[test]
fn several_flows_the_same_on_any_threads_and_a_folder_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let words = ["iperf:udp,1Gbit/s", "--machine", "dragonfly-342", "--from", "0-3,200", "--to", "300", "--flows", "2", "--time", "1ms"];
    let one = json(&words);
    assert_eq!(one["flows"].as_array().unwrap().len(), 10);
    let more = json(&[&words[..], &["--threads", "3", "--out", out]].concat());
    assert_eq!((&one["digest"], &one["flows"]), (&more["digest"], &more["flows"]));
    for file in ["machine.toml", "ip.parquet", "summary.json"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn mistakes_are_one_line_that_says_what_would_be_right() {
    for (words, error) in [
        (&["ping:x"][..], "pattern \"ping:x\": expected ping:BYTES,COUNT,INTERVAL, such as ping:56,1000,10ms"),
        (&["iperf", "--load", "0.5"], "iperf has no place for --load: leave it out"),
        (&["uniform", "--from", "1"], "--from belongs to ping and iperf, not to uniform; classes have nodes and sources"),
        (&["iperf", "--from", "0-2", "--to", "3,4"], "--from has 3 hosts and --to 2: expected as many, or one of either"),
        (&["ping", "--from", "70"], "there is no host 70: the machine has the nodes 0 to 63, and no gateway (ip.gateway.hosts)"),
        (
            &["ping", "--size", "70kB"],
            "from 0 to 63: packets of 70000 B: expected 0 to 65480 B, ip.mtu less ip.header (packets are not cut)",
        ),
    ] {
        let output = narrows(words);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), format!("narrows: error: {error}\n").as_str()));
    }
    // A program that hears of nothing is no result.
    let output = narrows(&["iperf", "--time", "1us", "--warmup", "0us"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nothing was measured from 0 to 63"), "{}", text(&output.stderr));
}
