//! Messages between modules, on the command line: what goes wrong is said in a line, and what dies is replaced.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MACHINE: &str = "[machine]
name = \"modules\"
base = \"bxi-v2\"
groups = [\"cluster\", \"booster\", \"gateway\"]
fabrics = [\"ib\", \"bxi\", \"eth\"]
[group.cluster]
count = 2
fabrics = [\"ib\"]
[group.booster]
count = 2
fabrics = [\"bxi\"]
[group.gateway]
count = 2
fabrics = [\"ib\", \"bxi\", \"eth\"]
gateway = [\"ib\", \"bxi\"]
host_name = \"gw{}\"
[fabric.ib.nic]
kind = \"ib-hca\"
[message.gateway]
fragment = \"9 KiB\"
buffers = 4
choice = \"least-loaded\"
";

/// Messages of 100 KiB are eager, in pieces that find few buffers.
const PSCOM: [&str; 8] = [
    "--set",
    "message.protocol=pscom",
    "--set",
    "message.pscom.rendezvous=200KiB",
    "--set",
    "message.pscom.receive_buffers=4",
    "--set",
    "message.pscom.send_buffers=4",
];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("narrows-gateways-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("modules.toml"), MACHINE).unwrap();
        let this = Folder(folder);
        assert!(
            this.narrows(&["generate", "halo3d", "--ranks", "4", "--steps", "2", "--bytes", "100KiB", "-o", "halo.jsonl"]).status.success()
        );
        this
    }

    fn narrows(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_narrows")).current_dir(&self.0).args(words).output().unwrap()
    }

    fn replay(&self, more: &[&str]) -> Output {
        let words = ["replay", "halo.jsonl", "--machine", "modules.toml", "--ppn", "1", "--out", "out"];
        self.narrows(&[&words, more].concat())
    }

    fn summary(&self, more: &[&str]) -> Value {
        let output = self.replay(more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&std::fs::read(Path::new(&self.0).join("out/summary.json")).unwrap()).unwrap()
    }

    fn refused(&self, more: &[&str]) -> String {
        let output = self.replay(more);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What each gateway has passed: puts and bytes.
fn passed(summary: &Value) -> Vec<(u64, u64)> {
    let nodes = summary["messages_by"]["gateways"]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| (node["messages"].as_u64().unwrap(), node["bytes"].as_u64().unwrap())).collect()
}

/// Each rank has a neighbour in the other module, to which it sends twice in each of two steps: 16 messages of 100 KiB
/// pass gateways, each with its announcement and the answer, in 12 fragments. No rank is on a gateway.
#[test]
fn what_passes_is_counted() {
    let folder = Folder::new("counts");
    let summary = folder.summary(&[]);
    let gateways = passed(&summary);
    assert_eq!(gateways.iter().map(|gateway| gateway.1).sum::<u64>(), 16 * 100 * 1024);
    assert_eq!(gateways.iter().map(|gateway| gateway.0).sum::<u64>(), 16 * (2 + 12));
    let one = folder.summary(&["--set", "group.gateway.count=1"]);
    assert_eq!(passed(&one), [(16 * 14, 16 * 100 * 1024)]);
    assert!(one["simulated_s"].as_f64() > summary["simulated_s"].as_f64(), "two are faster");
    // Twice the same, whatever the threads.
    let threads = folder.summary(&["--threads", "2"]);
    assert_eq!((&threads["digest"], &threads["simulated_s"]), (&summary["digest"], &summary["simulated_s"]));
}

/// pscom: of 16 messages 100 KiB pass in fragments of 9 KiB, 12 of each, with an announcement, the receiver's word that
/// it is ready, and the sender's that all is there. Two connections of each rank to the other module are made by two
/// words, and no piece is dropped.
#[test]
fn what_passes_of_pscom_is_counted() {
    let folder = Folder::new("pscom");
    let pscom = ["--set", "message.protocol=pscom"];
    let summary = folder.summary(&pscom);
    let gateways = passed(&summary);
    assert_eq!(gateways.iter().map(|gateway| gateway.1).sum::<u64>(), 16 * 100 * 1024);
    let puts = gateways.iter().map(|gateway| gateway.0).sum::<u64>();
    // One that both sides begin takes two words too.
    assert_eq!(puts, 16 * (3 + 12) + 2 * 2, "{gateways:?}");
    // Eager: in pieces of a buffer of 8,192 B.
    let eager = folder.summary(&[&pscom[..], &["--set", "message.pscom.rendezvous=200KiB"]].concat());
    let gateways = passed(&eager);
    assert_eq!(gateways.iter().map(|gateway| gateway.1).sum::<u64>() % 4096, 0);
    assert!(gateways.iter().map(|gateway| gateway.0).sum::<u64>() >= 16 * 13 + 2 * 2, "13 pieces each, and those that were dropped");
    let threads = folder.summary(&[&pscom[..], &["--threads", "2"]].concat());
    assert_eq!((&threads["digest"], &threads["simulated_s"]), (&summary["digest"], &summary["simulated_s"]));
}

/// mpc with two rails: inside of a module both, across as `openmpi`, which has the same digest on one.
#[test]
fn rails_are_inside_of_modules() {
    let folder = Folder::new("mpc");
    let one = folder.summary(&[]);
    let mpc = [
        "--set",
        "message.protocol=mpc",
        "--set",
        "node.rails=2",
        "--set",
        "message.mpc.minimum=50KiB",
        "--set",
        "message.mpc.distribution=even",
    ];
    let two = folder.summary(&mpc);
    assert_eq!(passed(&two).iter().map(|gateway| gateway.1).sum::<u64>(), passed(&one).iter().map(|gateway| gateway.1).sum::<u64>());
    assert_eq!(passed(&two).iter().map(|gateway| gateway.0).sum::<u64>(), 16 * (2 + 12));
    // 16 messages inside of modules are cut, none of the 16 others.
    assert_eq!(two["messages_by"]["over_rails"]["messages"], 16);
    assert_eq!(two["messages_by"]["by_rendezvous"]["messages"], 16);
    let bytes = |rail: usize| two["messages_by"]["rails"][rail]["bytes"].as_u64().unwrap();
    assert!(bytes(1) > 0 && bytes(3) > 0, "the second rails carry something: {}", two["messages_by"]["rails"]);
}

#[test]
fn a_gateway_that_dies_is_replaced_or_ends_the_run() {
    let folder = Folder::new("dies");
    let known = ["--set", "message.gateway.detection=20us"];
    for protocol in [&["--set", "message.protocol=openmpi"][..], &["--set", "message.protocol=mpc", "--set", "node.rails=2"], &PSCOM] {
        let whole = folder.summary(protocol);
        let summary = folder.summary(&[&["--fault", "gateway=4 from=50us"][..], &known, protocol].concat());
        assert_eq!(summary["messages"], whole["messages"], "nothing is lost");
        assert_eq!(summary["bytes"], whole["bytes"]);
        let (before, after) = (passed(&whole), passed(&summary));
        assert!(after[0].1 < before[0].1 && after[1].1 > before[1].1, "the traffic moves: {before:?} {after:?}");
    }
    let both = folder.refused(&["--fault", "gateway=4 from=50us", "--fault", "gateway=5 from=60us"]);
    assert!(both.contains("the gateway gw5 died at 60 us, and no other joins ib and bxi: messages between them are lost"), "{both}");
}

#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::new("says");
    for (set, said) in [
        (&["--set", "group.gateway.gateway=[\"ib\"]"][..], "expected two or more of ib, bxi, eth"),
        (&["--set", "group.gateway.fabrics=[\"ib\"]"], "the gateway is not on the network \"bxi\""),
        (&["--set", "group.gateway.gateway=[\"ib\",\"eth\"]"], "no gateway joins ib and bxi: node000 is on ib, node002 on bxi"),
        (&["--set", "group.gateway.gateway=[]"], "group.NAME.gateway makes nodes pass messages on"),
        (&["--set", "message.protocol=exanet"], "message.protocol = \"exanet\" is answered by the firmware of the sender's NIC"),
        (&["--set", "message.protocol=mpc", "--set", "message.gateway.fragment=1KiB"], "expected at most 1 KiB"),
        (&["--set", "message.gateway.fragment=1KiB"], "expected at most 1 KiB"),
        (&["--set", "message.gateway.fragment=0B"], "`message.gateway.fragment`: 0 B is out of range"),
        (&["--set", "message.protocol=mpc", "--set", "message.mpc.fragment=0B"], "`message.mpc.fragment`: 0 B is out of range"),
        (&["--set", "node.rails=17"], "expected a whole number from 1 to 16"),
        (
            &["--set", "message.protocol=pscom", "--set", "message.pscom.send_buffers=20", "--set", "message.pscom.receive_buffers=10"],
            "more buffers to send from than to receive into",
        ),
        (&["--set", "message.gateway.buffers=0"], "message.gateway.buffers"),
        (&["--fault", "gateway=3 from=1us"], "node 3 is no gateway of this machine; gateways are the nodes 4, 5"),
        (&["--fault", "gateway=4 loss=1"], "expected gateway and from alone"),
    ] {
        let text = folder.refused(set);
        assert!(text.contains(said), "{set:?}: {text}");
    }
}
