//! `narrows topology` as a person runs it.

use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("topology").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn show_tells_counts_and_limits() {
    let output = narrows(&["show", "megafly-288"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = "\
megafly-288: dragonfly+ 9 groups of 4 leaves x 8 hosts, 4 spines x 8 links, 2 cables
  nodes        288
  switches     72 in 9 groups, the largest of 16 ports
  their names  leaf0 to leaf35, spine0 to spine35, or 0 to 71
  cables       288 to nodes, 288 between switches, 144 between groups
  diameter     5 links, 3 of them between switches
  bisection    96 cables, 66.7 % of what half of the nodes can send
  routing      minimal, which needs 1 of 4 virtual channels

  routing          channels  mean links   uniform  next group
  minimal                 1       4.843     1.000       0.125
  valiant                 2       5.902     0.513       0.437
  ugal-l                  2           -         -           -
  ugal-g                  2           -         -           -
  par                     3           -         -           -
";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn show_writes_json_and_pictures() {
    let folder = std::env::temp_dir().join(format!("narrows-topology-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let graph = folder.join("ring.txt");
    let lines = "hosts a 2\nhosts b 1\nhosts c 1\nlink a b x2 bandwidth=25GB/s\nlink b c\nlink c a global latency=1us\n";
    std::fs::write(&graph, lines).unwrap();
    let (dot, svg) = (folder.join("ring.dot"), folder.join("ring.svg"));
    let path = format!("topology.path={}", graph.display());
    let set = ["--set", "topology.kind=file", "--set", &path, "--set", "routing=table", "--set", "topology.failed_links=[\"2-0\"]"];
    let files = ["--json", "--dot", dot.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let output = narrows(&[&["show", "bxi-v3", "--nodes", "4"][..], &set, &files].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["nodes"], &json["switches"], &json["diameter_links"]), (&4.into(), &3.into(), &4.into()));
    assert_eq!((&json["cables"]["local"], &json["cables"]["global"], &json["cables"]["failed"]), (&3.into(), &1.into(), &1.into()));
    // bxi-v3: 400 Gbit/s.
    let own = |class: &str, rate: u64, latency: f64, cables: u32| serde_json::json!({"class": class, "bytes_per_s": rate, "latency_ns": latency, "cables": cables});
    let latency = json["own_speeds"][0]["latency_ns"].as_f64().unwrap();
    assert_eq!(
        json["own_speeds"],
        serde_json::json!([own("switch", 25_000_000_000, latency, 2), own("global", 50_000_000_000, 1000.0, 1)])
    );
    // Nodes a, a to b, c: the global cable has failed; the two of half the rate lead to b, and c is behind it.
    assert_eq!((&json["bisection"]["local"], &json["bisection"]["fraction"]), (&2.into(), &0.5.into()));
    let dot = std::fs::read_to_string(dot).unwrap();
    assert!(dot.contains("s0 -- s1 [label=\"x2\"];") && dot.contains("s0 -- s2 [color=\"#d55e00\", style=dashed];"), "{dot}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.ends_with("</svg>\n") && svg.matches("<path ").count() == 3 && svg.contains("stroke-dasharray"), "{svg}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_fit_is_told_with_what_would() {
    let said = |arguments: &[&str]| {
        let output = narrows(arguments);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr).to_owned()
    };
    let error = said(&["show", "dragonfly-342", "--set", "routing=d-mod-k"]);
    assert!(error.contains("routing \"d-mod-k\" does not fit topology.kind = \"dragonfly\""), "{error}");
    assert!(error.contains("expected one of \"minimal\", \"valiant\", \"ugal-l\", \"ugal-g\", \"par\""), "{error}");
    let error = said(&["show", "dragonfly-342", "--set", "routing=par", "--set", "virtual_channels=3"]);
    assert!(error.contains("routing \"par\" needs 4 virtual channels here, there are 3"), "{error}");
    let error = said(&["show", "dragonfly-342", "--set", "topology.g=20"]);
    assert!(error.contains("20 groups need 19 global links each, a group has 18; expected at most 19 groups"), "{error}");
    let error = said(&["show", "8-ary-2-tree", "--set", "topology.failed_switches=[0]"]);
    assert!(error.contains("switch 0 has failed, which cuts off its hosts 0 to 7"), "{error}");
    let error = said(&["show", "8-ary-2-tree", "--set", "topology.failed_links=[\"0-8\", \"0+9\"]"]);
    let expected = "\"0+9\" names no link; expected two switches and perhaps one of several cables, such as 3-17, leaf3-spine1 or 3-17#0, \
                    with switches leaf0 to leaf7, spine0 to spine7, or 0 to 15";
    assert!(error.contains(expected), "{error}");
    let error = said(&["show", "8-ary-2-tree", "--set", "kind=torus"]);
    assert!(error.contains("`kind` could be nic.kind, network.kind, topology.kind"), "{error}");
    let file = std::env::temp_dir().join(format!("narrows-graph-{}.txt", std::process::id()));
    std::fs::write(&file, "hosts a 4\nlink a\n").unwrap();
    let path = format!("topology.path={}", file.display());
    let error = said(&["show", "bxi-v3", "--set", "topology.kind=file", "--set", &path, "--set", "routing=minimal"]);
    assert!(error.contains(":2:7\n") && error.contains("expected the switch at the other end"), "{error}");
    std::fs::write(&file, "hosts a 4\nhosts b 4\nlink a b bandwidth=200TB/s\n").unwrap();
    let error = said(&["show", "bxi-v3", "--set", "topology.kind=file", "--set", &path, "--set", "routing=minimal"]);
    std::fs::remove_file(&file).unwrap();
    assert!(error.contains(":3:10\n") && error.contains("found `200TB/s`; expected 1 MB/s to 100000 GB/s"), "{error}");
}

/// The whole way of a real cluster's file: two leaves of two hosts, two cables each to a spine, one of them degraded.
#[test]
fn import_makes_a_machine_that_carries_traffic() {
    let folder = std::env::temp_dir().join(format!("narrows-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut fabric = String::from("#\n# Topology file: generated on Mon Jun  3 10:00:00 2024\n#\n");
    for leaf in 0..2 {
        fabric += &format!("vendid=0x2c9\n\nSwitch\t40 \"S-{leaf}\"\t# \"leaf{leaf}\" base port 0 lid 1 lmc 0\n");
        for port in 1..3 {
            let speed = if (leaf, port) == (1, 2) { "4xDDR" } else { "4xEDR" };
            fabric += &format!("[{port}]\t\"S-9\"[{}]\t# \"spine\" lid 2 {speed}\n", 2 * leaf + port);
            fabric += &format!("[1{port}]\t\"H-{leaf}{port}\"[1](f)\t# \"n{} HCA-1\" lid 3 4xEDR\n", 2 * leaf + port - 1);
        }
    }
    let command = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).current_dir(&folder).output().unwrap();
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    std::fs::write(folder.join("fabric.txt"), fabric).unwrap();
    let (code, _, told) = command(&["topology", "import", "fabric.txt", "-o", "fabric.graph", "--base", "ib-ndr"]);
    assert_eq!((code, told.as_str()), (Some(0), "narrows: fabric.toml and fabric.graph: 4 hosts, 3 switches, 4 cables between switches\n"));
    let machine = std::fs::read_to_string(folder.join("fabric.toml")).unwrap();
    assert!(machine.contains("host_name = \"n{}\"") && machine.contains("bandwidth = \"100Gbit/s\""), "{machine}");
    let (code, told, _) = command(&["machine", "check", "fabric.toml"]);
    assert_eq!((code, told.as_str()), (Some(0), "fabric.toml: ok, 4 nodes of 128 cores, ib-hca NICs, file, links of 12.5 GB/s\n"));
    let (code, shown, told) = command(&["topology", "show", "fabric.toml"]);
    assert!(code == Some(0) && shown.contains("1 cables of 2 GB/s"), "{shown}{told}");
    let traffic = ["traffic", "uniform", "--machine", "fabric.toml", "--load", "0.1", "--time", "50us", "--csv"];
    let (code, table, told) = command(&traffic);
    assert!(code == Some(0) && table.lines().count() >= 2, "{table}{told}");
    // The graph is looked for from the machine file, wherever the program starts; a saved machine has its whole path.
    let (there, saved) = (folder.join("fabric.toml"), folder.join("saved.d"));
    let elsewhere = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).current_dir("/").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    };
    elsewhere(&["machine", "check", there.to_str().unwrap()]);
    let traffic = ["traffic", "uniform", "--machine", there.to_str().unwrap(), "--load", "0.1", "--time", "50us"];
    elsewhere(&[&traffic[..], &["--out", saved.to_str().unwrap()]].concat());
    elsewhere(&["machine", "check", saved.join("machine.toml").to_str().unwrap()]);
    // What cannot be is told before anything is written.
    let (code, _, told) = command(&["topology", "import", "fabric.txt", "-o", "no.graph", "--base", "deep-msa"]);
    assert!(code == Some(2) && told.contains("expected a machine with one kind of nodes and one network"), "{told}");
    let (code, _, told) = command(&["topology", "import", "fabric.txt", "-o", "no.graph", "--format", "slurm"]);
    let expected = "narrows: error: fabric.txt, line 4: unknown key `vendid`; expected SwitchName, Switches, Nodes or LinkSpeed\n";
    assert_eq!((code, told.as_str()), (Some(2), expected));
    assert!(!folder.join("no.graph").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
