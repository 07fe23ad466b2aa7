//! `narrows traffic` as a person runs it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("traffic").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What was said, but for how far the work is, of which one hears on a slow host.
fn said(output: &Output) -> Vec<&str> {
    text(&output.stderr).lines().filter(|line| !line.contains(" left") && !line.contains(" so far")).collect()
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("narrows-traffic-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn summary(out: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
}

/// A run with `--out`; its summary.
fn swept(name: &str, arguments: &[&str]) -> Value {
    let out = folder(name);
    let output = narrows(&[arguments, &["--out", out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said(&output).is_empty() && !output.stdout.is_empty(), "results on standard output: {}", text(&output.stderr));
    let summary = summary(&out);
    std::fs::remove_dir_all(&out).unwrap();
    summary
}

/// Flows that drain before their heads are there, as they take several links at once.
#[test]
fn spread_flows_run_to_the_end() {
    let case = |name: &str| format!("{}/tests/cases/flow_slots.{name}", env!("CARGO_MANIFEST_DIR"));
    let flows = case("csv");
    let tree = ["children=[8,2]", "parents=[1,4]", "parallel=[1,1]", "kind=pgft"].map(|key| format!("topology.{key}"));
    let mut arguments = vec!["flows", &flows, "--machine", "ib-ndr", "--network", "flow", "--nodes", "16"];
    tree.iter().for_each(|key| arguments.extend(["--set", key]));
    arguments.extend(["--set", "link.switch.bandwidth=10GB/s"]);
    swept("spread-list", &arguments);
    swept("spread-uniform", &["uniform", "--machine", &case("toml"), "--size", "9000B", "--load", "0.05"]);
}

#[test]
fn a_sweep_leaves_its_points_behind() {
    let out = folder("sweep");
    let sweep = ["incast:5", "--nodes", "16", "--load", "0.1:0.5:0.2", "--warmup", "20us", "--time", "100us", "--period", "5us", "--out"];
    let output = narrows(&[&sweep[..], &[out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    assert_eq!(report.lines().filter(|line| line.ends_with("saturated")).count(), 2, "0.3 and 0.5 are above a fifth: {report}");

    let summary = summary(&out);
    for key in ["simulated_s", "wall_s", "packet_hops", "packet_hops_per_s", "assembly_s", "peak_rss_bytes"] {
        assert!(summary[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!((&summary["threads"], &summary["partial"], &summary["nodes"]), (&1.into(), &false.into(), &16.into()));
    assert_eq!(summary["machine"]["machine"]["name"], "bxi-v2");
    let points = summary["points"].as_array().unwrap();
    let loads: Vec<f64> = points.iter().map(|point| point["load"].as_f64().unwrap()).collect();
    assert_eq!(loads, [0.1, 0.3, 0.5]);
    let low = &points[0];
    assert_eq!(low["saturated"], false);
    assert!((low["accepted"].as_f64().unwrap() - 0.1).abs() < 0.015, "{low}");
    for times in ["latency_ns", "fct_ns"] {
        let value = |key: &str| low[times][key].as_f64().unwrap();
        // The header needs 200 + 100 + 200 ns and the packet 188 ns; percentiles have three digits, the other two are
        // exact.
        assert!(value("p50") > 680.0 && value("mean") >= 688.0 && value("p99") >= value("p50"), "{low}");
        assert!(value("max") >= value("p99") && value("max") < 20_000.0, "{low}");
    }
    let high = &points[2];
    assert_eq!((&high["saturated"], &high["latency_ns"], &high["fct_ns"]), (&true.into(), &Value::Null, &Value::Null));
    assert!((high["accepted"].as_f64().unwrap() - 0.2).abs() < 0.01, "a fifth each: {high}");
    for point in points {
        assert_eq!(point["digest"].as_str().unwrap().len(), 16);
    }
    for name in ["points", "histograms", "series", "queues", "links", "hops", "rates"] {
        let bytes = std::fs::read(out.join(name).with_extension("parquet")).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    for name in ["throughput", "latency", "fct", "queues", "rates"] {
        let picture = std::fs::read_to_string(out.join(name).with_extension("svg")).unwrap();
        assert!(picture.starts_with("<svg") && !picture.contains("NaN") && !picture.contains("nothing to show"), "{name}");
    }
    // What was run can be run again from what is there.
    let again = narrows(&["incast:5", "--machine", out.join("machine.toml").to_str().unwrap(), "--load", "0.1", "--warmup", "20us"]);
    assert!(text(&again.stdout).contains(&format!("digest {}", first_digest(low))), "{}", text(&again.stdout));
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn other_networks_leave_what_they_have() {
    for (network, has, has_not) in
        [("flow", &["series", "links"][..], &["queues", "hops"][..]), ("loggp", &["series"], &["links", "queues", "hops"])]
    {
        let out = folder(network);
        let arguments =
            ["uniform", "--nodes", "16", "--load", "0.3", "--size", "64KiB", "--time", "200us", "--period", "20us", "--network", network];
        let output = narrows(&[&arguments[..], &["--out", out.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(has.iter().all(|name| out.join(name).with_extension("parquet").exists()), "{network}");
        assert!(!has_not.iter().any(|name| out.join(name).with_extension("parquet").exists()), "{network}");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// The digest of a sweep of one point.
fn first_digest(point: &Value) -> String {
    let mut digest = narrows_engine::Digest::default();
    digest.word(u64::from_str_radix(point["digest"].as_str().unwrap(), 16).unwrap());
    format!("{:016x}", digest.value())
}

#[test]
fn threads_change_nothing_but_the_time() {
    let arguments = ["uniform", "--nodes", "64", "--load", "0.2:0.8:0.2", "--time", "50us", "--seed", "7", "--threads"];
    let one = swept("one", &[&arguments[..], &["1"]].concat());
    let many = swept("many", &[&arguments[..], &["16"]].concat());
    assert_eq!((&one["points"], &one["digest"]), (&many["points"], &many["digest"]));
    assert_eq!(many["threads"], 16);
}

#[test]
fn flows_and_mixes_come_from_files() {
    let out = folder("files");
    let write = |name: &str, text: &str| {
        std::fs::write(out.join(name), text).unwrap();
        out.join(name).to_str().unwrap().to_owned()
    };
    let flows = write("flows.csv", "start_ns,source,target,bytes\n0,0,1,1048576\n500,2,1,4096\n");
    let summary = swept("flows", &["flows", &flows, "--nodes", "8"]);
    assert_eq!((&summary["messages"], &summary["bytes"], &summary["points"][0]["load"]), (&2.into(), &1_052_672.into(), &Value::Null));

    let mix = "[[class]]\nname = \"victim\"\npattern = \"shift:1\"\nsources = \"1\"\nload = 0.2\npriority = 1\n\n\
               [[class]]\nname = \"background\"\npattern = \"incast:3\"\n";
    let summary = swept("mix", &["mix", &write("mix.toml", mix), "--nodes", "8", "--load", "0.1,0.2", "--time", "200us"]);
    let classes = summary["points"][1]["classes"].as_array().unwrap();
    assert_eq!((&classes[0]["name"], &classes[0]["load"]), (&"victim".into(), &0.2.into()));
    assert_eq!((&classes[1]["sources"], &classes[1]["load"]), (&3.into(), &0.2.into()));

    for (arguments, expected) in [
        (
            vec!["flows", &write("bad.csv", "start_ns,source,target,bytes\n0,0,8,1\n"), "--nodes", "8"],
            ":2: target 8: the machine has the nodes 0 to 7",
        ),
        (vec!["mix", &write("bad.toml", "[[class]]\npattern = \"uniform\"\nlod = 1\n")], ":3: unknown field `lod`, expected one of `name`"),
        (vec!["flows", &flows, "--load", "0.5"], "leave out --class and --load"),
        (vec!["flows", &flows, "--size", "4KiB"], "leave out --size"),
        (vec!["uniform", &flows], "only flows and mix read a file"),
    ] {
        refused(&arguments, expected);
    }
    std::fs::remove_dir_all(&out).unwrap();
}

/// One line on standard error that says what would be right, and exit code 2.
fn refused(arguments: &[&str], expected: &str) {
    let output = narrows(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(message.starts_with("narrows: ") && message.contains(expected) && message.lines().count() == 1, "{arguments:?}: {message}");
}

#[test]
fn mistakes_get_one_line_that_says_what_would_be_right() {
    for (arguments, expected) in [
        (&["unifrom"][..], "did you mean uniform?"),
        (&["uniform", "--load", "1.2"], "load 1.2: a load is a fraction of the injection bandwidth, above 0 and at most 1"),
        (&["uniform", "--load", "0.5:0.1:0.1"], "--load 0.5:0.1:0.1: a sweep A:B:STEP goes up"),
        (&["incast:16", "--nodes", "16"], "pattern incast:16: 16 nodes allow 1 to 15 senders"),
        (&["shift:16", "--nodes", "16"], "K from 1 to 15"),
        (&["adversarial:3", "--nodes", "64"], "pattern adversarial:3: there are 3 groups of 16 to 24 nodes; K from 1 to 2"),
        (&["hotspot:0.1,65", "--nodes", "64"], "64 nodes allow 1 to 64 hot ones"),
        (&["hotspot:1.5,4"], "a fraction above 0 and at most 1"),
        (&["uniform", "--nodes", "1"], "at least 2 nodes"),
        (&["uniform", "--time", "0us"], "must be above 0"),
        (&["uniform", "--time", "100"], "--time: unknown unit"),
        (&["uniform", "--size", "3 parsecs"], "message size \"3 parsecs\""),
        (&["uniform", "--injection", "sometimes"], "expected bernoulli, poisson, on-off:MESSAGES[,PEAK] or closed:N"),
        (
            &["uniform", "--injection", "on-off:8,0.4", "--load", "0.3:0.5:0.1"],
            "load 0.5: bursts at a peak of 0.4 make a load of at most 0.4",
        ),
        (&["uniform", "--injection", "closed:4", "--load", "0.5"], "leave out --load"),
        (&["uniform", "--class", "pattern=shift:1 load=0.6 name=b", "--load", "0.5"], "classes uniform-0 and b together offer 1.100"),
        (&["uniform", "--class", "patern=shift:1"], "unknown key \"patern\"; expected one of name, pattern"),
        (&["uniform", "--load", "1e-300"], "load 1e-300: expected at least 1e-9"),
        (&["uniform", "--load", "0.5", "--class", "pattern=shift:1 load=1e-300 name=b"], "load 1e-300: expected at least 1e-9"),
        (&["uniform", "--load", "0.1", "--class", "pattern=shift:1 name=a", "--class", "pattern=shift:2 name=a"], "have the name \"a\""),
        (&["uniform", "--class", "pattern=shift:1 name="], "a name is one line of text"),
        (&["flows"], "flows needs a file"),
        (&["flows", "/nowhere/flows.csv"], "cannot read /nowhere/flows.csv: No such file"),
    ] {
        refused(arguments, expected);
    }
}

/// A load at which nobody sends within the time: said in words, in the summary, and by the exit code.
#[test]
fn a_point_in_which_nothing_was_measured_says_so() {
    for network in ["packet", "flow", "loggp"] {
        let out = folder(&format!("nothing-{network}"));
        let arguments = ["uniform", "--nodes", "4", "--load", "1e-9", "--time", "1us", "--network", network];
        let output = narrows(&[&arguments[..], &["--out", out.to_str().unwrap()]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("nothing was measured at load 1e-9: no message was sent and received within 1 us"), "{message}");
        let summary = summary(&out);
        assert_eq!((&summary["exit_code"], &summary["points"][0]["nothing_measured"]), (&1.into(), &true.into()));
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// A victim beside a background: latencies of each under its name, and none that mixes the two.
#[test]
fn classes_have_their_own_latencies() {
    let out = folder("classes");
    let class = "name=victim pattern=shift:1 sources=1 load=0.05 priority=1";
    let arguments = ["incast:3", "--nodes", "8", "--load", "0.1", "--time", "200us", "--class", class, "--out", out.to_str().unwrap()];
    let output = narrows(&arguments);
    let message = text(&output.stdout);
    assert!(output.status.success(), "{message}");
    let victim = message.lines().find(|line| line.ends_with("victim")).unwrap();
    let words: Vec<&str> = victim.split_whitespace().collect();
    let summary = summary(&out);
    let point = &summary["points"][0];
    assert!(point["latency_ns"].is_null() && point["fct_ns"].is_null(), "classes together say nothing");
    let latency = &point["classes"][1]["latency_ns"];
    assert_eq!((words[0], words[2]), ("0.050", format!("{:.0}", latency["mean"].as_f64().unwrap()).as_str()), "{victim}");
    let picture = std::fs::read_to_string(out.join("latency.svg")).unwrap();
    assert!(picture.contains("victim, packet latency, 99 %") && picture.contains("incast:3-0, packet latency, mean"));
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn an_interrupted_sweep_keeps_what_it_has() {
    let out = folder("interrupted");
    // It would take hours.
    let mix = "[[class]]\npattern = \"uniform\"\n";
    let file = out.join("mix.toml");
    std::fs::write(&file, mix).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["traffic", "mix", file.to_str().unwrap(), "--nodes", "64", "--load", "0.5", "--warmup", "1us", "--time", "10s", "--out"])
        .arg(&out)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // After 0.3 s of work it is in the middle of the point.
    let pid = child.id().to_string();
    loop {
        let ticks = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = ticks.rsplit(") ").next().unwrap().split_whitespace().collect();
        if fields[11].parse::<u64>().unwrap() > 30 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let summary = summary(&out);
    std::fs::remove_dir_all(&out).unwrap();
    assert_eq!((&summary["partial"], &summary["points"][0]["partial"]), (&true.into(), &true.into()));
    let accepted = summary["points"][0]["accepted"].as_f64().unwrap();
    assert!((accepted - 0.5).abs() < 0.02, "{accepted} until then");
}

#[test]
fn help_has_examples() {
    let output = narrows(&["--help"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("  narrows traffic uniform"));
}
