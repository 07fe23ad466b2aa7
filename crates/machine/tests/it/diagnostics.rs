//! What a person sees who wrote a machine file with a mistake in it: each golden text below is the
//! whole message, with file, line, column, what was expected and the nearest key.

use narrows_machine::{Machine, MachineError, NodeId, Overrides, ProcessorId};

/// The messages for a file that takes everything it does not say from `example-cluster`.
fn complaint(text: &str) -> String {
    message(&format!("[machine]\nname = \"my\"\nbase = \"example-cluster\"\n{text}"), &Overrides::default())
}

fn message(text: &str, overrides: &Overrides) -> String {
    match Machine::parse("my.toml", text, overrides) {
        Ok(machine) => panic!("no complaint about {machine:?}"),
        Err(MachineError::Invalid(diagnostics)) => diagnostics.to_string(),
        Err(other) => panic!("another error: {other}"),
    }
}

fn override_complaint(set: &str) -> String {
    let text = "[machine]\nname = \"my\"\nbase = \"example-cluster\"\n";
    message(text, &Overrides { nodes: None, set: vec![set.to_owned()] })
}

#[track_caller]
fn golden(actual: &str, expected: &str) {
    let expected = expected.strip_prefix('\n').unwrap_or(expected);
    assert_eq!(actual, expected, "\n--- the message is now ---\n{actual}");
}

#[test]
fn unknown_key_with_its_nearest() {
    golden(
        &complaint("[node.pcie]\nlatencyy = \"3 ns\"\n"),
        r#"
error: unknown key `latencyy` in [node.pcie]
 --> my.toml:5:1
  |
5 | latencyy = "3 ns"
  | ^^^^^^^^ did you mean `latency`?
  = help: keys of [node.pcie]: latency, bandwidth, data_bandwidth
"#,
    );
}

#[test]
fn former_key() {
    let complaint = complaint("[nic]\nmax_war_ordered_size = \"0 B\"\n");
    let expected = "^^^^^^^^^^^^^^^^^^^^ delete the line: writes after reads are never ordered, as on BXI\n";
    assert!(complaint.contains(expected), "{complaint}");
}

#[test]
fn known_key_in_the_wrong_section() {
    golden(
        &complaint("[link.host]\nmtu = \"1 KiB\"\n"),
        r#"
error: unknown key `mtu` in [link.host]
 --> my.toml:5:1
  |
5 | mtu = "1 KiB"
  | ^^^ did you mean `network.mtu`?
  = help: keys of [link.host]: latency, bandwidth
"#,
    );
}

#[test]
fn unknown_section() {
    golden(
        &complaint("[nod]\ncount = 3\n"),
        r#"
error: unknown section `nod`
 --> my.toml:4:2
  |
4 | [nod]
  |  ^^^ did you mean `node`?
  = help: sections of a machine file: machine, node, nic, network, link, switch, topology, software, message, storage, collectives, ip, power, group, processor, bus, fabric
"#,
    );
}

#[test]
fn wrong_unit() {
    golden(
        &complaint("[switch]\nlatency = \"3 kB\"\n"),
        r#"
error: `switch.latency`: unknown unit "kB" here
 --> my.toml:5:11
  |
5 | latency = "3 kB"
  |           ^^^^^^ expected a time with its unit, such as "250 ns"
  = help: units: ps, ns, us, ms, s
"#,
    );
}

#[test]
fn no_unit() {
    golden(
        &complaint("[link.host]\nbandwidth = \"100\"\n"),
        r#"
error: `link.host.bandwidth`: no unit
 --> my.toml:5:13
  |
5 | bandwidth = "100"
  |             ^^^^^ expected a bandwidth with its unit, such as "100 Gbit/s"
  = help: units: a size and /s, such as GB/s, MiB/s, Gbit/s
"#,
    );
}

#[test]
fn missing_keys_with_and_without_their_section() {
    let text = Machine::load("example-cluster", &Overrides::default()).unwrap().to_toml();
    let text = text.replace("cores = 32\n", "");
    let (before, switch) = text.split_once("[switch]\n").unwrap();
    let text = format!("{before}{}", &switch[switch.find('[').unwrap()..].split_once("\n\n").map_or("", |(_, rest)| rest));
    golden(
        &message(&text, &Overrides::default()),
        r#"
error: missing key `latency` in [switch]
 --> my.toml:1:1
  |
1 | [machine]
  | ^ expected a time with its unit, such as "250 ns"
  = help: switch.latency: Header in to header out, without contention

error: missing key `radix` in [switch]
 --> my.toml:1:1
  |
1 | [machine]
  | ^ expected a whole number from 2 to 65536
  = help: switch.radix: Ports of a switch

error: missing key `cores` in [node]
 --> my.toml:8:2
  |
8 | [node]
  |  ^^^^ expected a whole number from 1 to 65536
  = help: node.cores: Cores of the processor: the most ranks that it takes
"#,
    );
}

#[test]
fn an_empty_file_is_one_complaint() {
    golden(
        &message("", &Overrides::default()),
        r#"
error: the file is empty
 --> my.toml:1:1
  |
1 |
  | ^ expected base = "bxi-v2" in [machine], or another machine to start from
  = help: presets: 8-ary-2-tree, acc-testbed, apenetx, apenetx-bxi, apenetx-gen4, bf3, bxi-ib-gateway, bxi-v2, bxi-v2-spin, bxi-v3, bxi-v3-reliable, carvnet-exanest, carvnet-spine-leaf, carvnet-vcu, deep, deep-msa, dibona, dragonfly-114k, dragonfly-342, example-cluster, exanest, exanest-10gbe, exanest-mezz, exanest-qfdb, fattree-16k, fattree-256, fpspin, ib-edr, ib-hdr, ib-ndr, ib-qdr, inti, megafly-288, omni-path-100, roce-400, s4bxi-vix, slingshot-10, slingshot-11, thor-bf2
"#,
    );
}

#[test]
fn no_base_and_a_wrong_base_are_one_complaint_each() {
    let first = |text: &str| {
        let message = message(text, &Overrides::default());
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
        message.lines().next().unwrap_or_default().to_owned()
    };
    assert!(first("[machine]\nname = \"my\"\n").ends_with("keys are missing, and there is no machine.base to give them"));
    assert!(first("[machine]\nname = \"my\"\nbase = \"\"\n[node]\ncount = 4\n").ends_with("there is no machine.base to give them"));
    assert_eq!(first("[machine]\nname = \"my\"\nbase = 5\n"), "error: `machine.base`: found the number 5");
    assert_eq!(first("[machine]\nname = \"my\"\nbase = \"bxi-v9\"\n"), "error: no preset \"bxi-v9\"");
    assert_eq!(
        first("[machine]\nname = \"my\"\nbase = \"./nowhere.toml\"\n"),
        "error: cannot read the base ./nowhere.toml: No such file or directory (os error 2)"
    );
}

#[test]
fn a_base_may_be_another_file_and_no_circle() {
    let folder = std::env::temp_dir().join(format!("narrows-base-test-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("top.toml", "[machine]\nname = \"top\"\nbase = \"inner/middle.toml\"\n");
    write("inner/middle.toml", "[machine]\nname = \"middle\"\nbase = \"../bottom.toml\"\n[node]\ncount = 5\ncores = 3\n");
    write("bottom.toml", "[machine]\nname = \"bottom\"\nbase = \"bxi-v2\"\n[node]\ncores = 2\n[nic]\nput_occupancy = \"123 ns\"\n");
    let top = folder.join("top.toml");
    let load = || Machine::load(top.to_str().unwrap(), &Overrides::default());
    let machine = load().unwrap();
    assert_eq!((machine.name.as_str(), machine.node.count, machine.node.host.cores), ("top", 5, 3), "the nearest file counts");
    assert_eq!(machine.nic.portals().put_occupancy, "123 ns".parse().unwrap());
    // A mistake in a base is shown there.
    write("bottom.toml", "[machine]\nbase = \"bxi-v2\"\n[nic]\nput_ocupancy = \"123 ns\"\n");
    let error = load().unwrap_err().to_string();
    assert!(error.contains("bottom.toml:4:1"), "{error}");
    write("bottom.toml", "[machine]\nbase = \"top.toml\"\n");
    let error = load().unwrap_err().to_string();
    assert!(error.starts_with("error: the bases go round in a circle: ") && error.matches("error: ").count() == 1, "{error}");
    let text = "[machine]\nname = \"my\"\nbase = \"bxi-v2\"\n";
    let set = vec![format!("machine.base={}", top.display())];
    write("bottom.toml", "[machine]\nbase = \"bxi-v2\"\n");
    assert_eq!(Machine::parse("my.toml", text, &Overrides { nodes: None, set }).unwrap().node.count, 5, "an override names one too");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn wrong_types() {
    golden(
        &complaint("node.cores = \"many\"\n[node.pcie]\nlatency = 250\n[topology]\nkind = [1]\n[nic.limits]\nmax_entries = 1.5\n"),
        r#"
error: unknown section `node` in [machine]
 --> my.toml:4:1
  |
4 | node.cores = "many"
  | ^^^^ did you mean `name`?
  = help: keys of [machine]: name, description, source, base, groups, fabrics
"#,
    );
    golden(
        &complaint("[node]\ncores = \"many\"\n[node.pcie]\nlatency = 250\n[topology]\nkind = [1]\n[nic.limits]\nmax_entries = 1.5\n"),
        r#"
error: `node.cores`: found the text "many"
 --> my.toml:5:9
  |
5 | cores = "many"
  |         ^^^^^^ expected a whole number from 1 to 65536

error: `node.pcie.latency`: found the number 250
 --> my.toml:7:11
  |
7 | latency = 250
  |           ^^^ expected a time with its unit, such as "250 ns"

error: `topology.kind`: found a list
 --> my.toml:9:8
  |
9 | kind = [1]
  |        ^^^ expected one of "single-switch", "k-ary-n-tree", "pgft", "fat-tree", "dragonfly", "torus", "mesh", "exanest", "spine-leaf", "dragonfly-plus", "hyperx", "file"

error: `nic.limits.max_entries`: found a number with a fraction
  --> my.toml:11:15
   |
11 | max_entries = 1.5
   |               ^^^ expected a whole number from 1 to 16777216
"#,
    );
}

#[test]
fn out_of_range() {
    golden(
        &complaint("[node]\ncount = 0\n[node.pcie]\nlatency = \"0 ns\"\nbandwidth = \"-1 GB/s\"\n"),
        r#"
error: `node.count`: 0 is out of range
 --> my.toml:5:9
  |
5 | count = 0
  |         ^ expected a whole number from 1 to 1048576

error: `node.pcie.latency`: 0 ns is out of range
 --> my.toml:7:11
  |
7 | latency = "0 ns"
  |           ^^^^^^ expected 1 ps to 1 s

error: `node.pcie.bandwidth`: the text "-1 GB/s" is out of range
 --> my.toml:8:13
  |
8 | bandwidth = "-1 GB/s"
  |             ^^^^^^^^^ expected a bandwidth with its unit, such as "100 Gbit/s"
"#,
    );
}

#[test]
fn unknown_choice() {
    golden(
        &complaint("[network]\nrouting = \"adaptiv\"\n"),
        r#"
error: `network.routing`: unknown choice, the text "adaptiv"
 --> my.toml:5:11
  |
5 | routing = "adaptiv"
  |           ^^^^^^^^^ did you mean "adaptive"?
  = help: expected one of "minimal", "d-mod-k", "s-mod-k", "adaptive", "dimension-order", "valiant", "ugal-l", "ugal-g", "par", "table"
"#,
    );
}

/// Places on the network are counted for processors that have their own ports: only those that are there.
#[test]
fn a_processor_of_another_name_is_an_error_where_one_has_its_own_ports() {
    let text =
        "[machine]\nname = \"x\"\nbase = \"bxi-v2\"\n[node]\nprocessors = [\"one\"]\n[processor.other]\nmode = \"off-path\"\ncores = 2\n";
    let error = Machine::parse("x.toml", text, &Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("one"), "{error}");
}

#[test]
fn syntax_error() {
    golden(
        &complaint("[node]\ncount = 4 cores = 3\n"),
        r#"
error: not TOML: string values must be quoted, expected literal string
 --> my.toml:5:9
  |
5 | count = 4 cores = 3
  |         ^^^^^^^

error: not TOML: unexpected key or value, expected newline, `#`
 --> my.toml:5:17
  |
5 | count = 4 cores = 3
  |                 ^
"#,
    );
}

#[test]
fn more_processes_than_interfaces() {
    let overrides = Overrides { nodes: None, set: vec![String::from("nic.exanet.interfaces=2")] };
    golden(
        &message("[machine]\nname = \"my\"\nbase = \"exanest\"\n", &overrides),
        r#"
error: a node has 4 cores, and its NIC interfaces for 2 processes
 --> --set:1:23
  |
1 | nic.exanet.interfaces=2
  |                       ^ expected at least 4
  = help: raise nic.exanet.interfaces (up to 65536), or lower node.cores to 2 or less
"#,
    );
}

#[test]
fn protection_domains_that_do_not_exist() {
    let overrides = Overrides { nodes: None, set: vec![String::from("nic.exanet.domains=[7, 65536]")] };
    golden(
        &message("[machine]\nname = \"my\"\nbase = \"exanest\"\n", &overrides),
        r#"
error: there is no protection domain 65536
 --> --set:1:20
  |
1 | nic.exanet.domains=[7, 65536]
  |                    ^^^^^^^^^^ expected numbers from 0 to 65535: a domain has 16 bits
"#,
    );
    let overrides = Overrides { nodes: None, set: vec![String::from("nic.exanet.domains=[7, 8, 8]")] };
    let machine = Machine::load("exanest", &overrides).unwrap();
    assert!(machine.check_domains(3).is_ok());
    let error = machine.check_domains(4).unwrap_err();
    assert_eq!(error.to_string(), "rank 3 has no protection domain: nic.exanet.domains has 3, for 4 ranks; expected one for each");
    assert!(Machine::load("exanest", &Overrides::default()).unwrap().check_domains(4).is_ok(), "all are in one");
}

#[test]
fn bad_overrides_point_into_the_override() {
    golden(
        &override_complaint("nic.put_ocupancy=1ns"),
        r#"
error: unknown key `put_ocupancy` in [nic]
 --> --set:1:5
  |
1 | nic.put_ocupancy=1ns
  |     ^^^^^^^^^^^^ did you mean `put_occupancy`?
  = help: keys of [nic]: kind, command_size, event_size, count_size, ack_size, inline_limit, pio_limit, match_bits_size, buffered_limit, dma_latency, dma_first_packet, transmit, packet_rate, put_occupancy, get_occupancy, response_occupancy, ack_occupancy, match_base, match_per_entry, max_outstanding, max_in_flight_to_node, max_in_flight_to_process, retry_interval, trigger_time, atomic_occupancy, quick_ack, limits, pcie, exanet, tcp, apenetx, carvnet, spin
"#,
    );
    golden(
        &override_complaint("nic.put_occupancy = 3 km"),
        r#"
error: `nic.put_occupancy`: unknown unit "km" here
 --> --set:1:21
  |
1 | nic.put_occupancy = 3 km
  |                     ^^^^ expected a time with its unit, such as "250 ns"
  = help: units: ps, ns, us, ms, s
"#,
    );
    golden(
        &override_complaint("fast"),
        r#"
error: expected KEY.PATH=VALUE, such as nic.put_occupancy=250ns
 --> --set:1:1
  |
1 | fast
  | ^^^^
"#,
    );
    golden(
        &message("[machine]\nbase = \"example-cluster\"\nname = \"my\"\n", &Overrides { nodes: Some(65), set: vec![] }),
        r#"
error: 65 nodes do not fit: one switch holds 64
 --> --nodes:1:1
  |
1 | 65
  | ^^ expected at most 64
  = help: lower node.count (--nodes), or raise switch.radix, or set topology.kind = "fat-tree"
"#,
    );
}

#[test]
fn unknown_preset_with_its_nearest() {
    golden(
        &Machine::load("bxi_v2", &Overrides::default()).unwrap_err().to_string(),
        "no machine \"bxi_v2\": it is neither a preset nor a file; did you mean \"bxi-v2\"?\npresets: 8-ary-2-tree, acc-testbed, apenetx, apenetx-bxi, apenetx-gen4, bf3, bxi-ib-gateway, bxi-v2, bxi-v2-spin, bxi-v3, bxi-v3-reliable, carvnet-exanest, carvnet-spine-leaf, carvnet-vcu, deep, deep-msa, dibona, dragonfly-114k, dragonfly-342, example-cluster, exanest, exanest-10gbe, exanest-mezz, exanest-qfdb, fattree-16k, fattree-256, fpspin, ib-edr, ib-hdr, ib-ndr, ib-qdr, inti, megafly-288, omni-path-100, roce-400, s4bxi-vix, slingshot-10, slingshot-11, thor-bf2",
    );
    golden(
        &message("[machine]\nname = \"my\"\nbase = \"bxi2\"\n", &Overrides::default()),
        r#"
error: no preset "bxi2"
 --> my.toml:3:8
  |
3 | base = "bxi2"
  |        ^^^^^^ did you mean "bxi-v2"?
  = help: presets: 8-ary-2-tree, acc-testbed, apenetx, apenetx-bxi, apenetx-gen4, bf3, bxi-ib-gateway, bxi-v2, bxi-v2-spin, bxi-v3, bxi-v3-reliable, carvnet-exanest, carvnet-spine-leaf, carvnet-vcu, deep, deep-msa, dibona, dragonfly-114k, dragonfly-342, example-cluster, exanest, exanest-10gbe, exanest-mezz, exanest-qfdb, fattree-16k, fattree-256, fpspin, ib-edr, ib-hdr, ib-ndr, ib-qdr, inti, megafly-288, omni-path-100, roce-400, s4bxi-vix, slingshot-10, slingshot-11, thor-bf2
"#,
    );
}

#[test]
fn impossible_topologies() {
    golden(
        &complaint("[topology]\nkind = \"k-ary-n-tree\"\nk = 2\nn = 3\n"),
        r#"
error: 16 nodes do not fit: this tree holds 8
  --> preset example-cluster:10:9
   |
10 | count = 16
   |         ^^ expected at most 8
   = help: lower node.count (--nodes), or raise topology.k or topology.n
"#,
    );
    golden(
        &complaint("[topology]\nkind = \"k-ary-n-tree\"\nk = 48\nn = 2\n"),
        r#"
error: switches have 64 ports (switch.radix)
 --> my.toml:6:5
  |
6 | k = 48
  |     ^^ its switches need 96 ports
"#,
    );
    golden(
        &complaint("[topology]\nkind = \"pgft\"\nchildren = [24, 10]\nparents = [1]\nparallel = [2, 2]\n"),
        r#"
error: `topology.parents` has 1 of 2 levels
 --> my.toml:7:11
  |
7 | parents = [1]
  |           ^^^ expected one number per level
"#,
    );
    golden(
        &complaint("[topology]\nkind = \"pgft\"\nchildren = [60, 10]\nparents = [1, 3]\nparallel = [1, 2]\n"),
        r#"
error: a switch of level 1 needs 66 ports, it has 64 (switch.radix)
 --> my.toml:6:12
  |
6 | children = [60, 10]
  |            ^^^^^^^^ 60 down, 6 up
"#,
    );
    golden(
        &complaint("[topology]\nkind = \"pgft\"\nchildren = [4, 0]\nk = 3\n"),
        r#"
error: missing key `parents` in [topology]
 --> my.toml:4:2
  |
4 | [topology]
  |  ^^^^^^^^ expected a list of whole numbers, one per level, such as [24, 10]
  = help: topology.parents: w: parents of each child, per level from the hosts up

error: missing key `parallel` in [topology]
 --> my.toml:4:2
  |
4 | [topology]
  |  ^^^^^^^^ expected a list of whole numbers, one per level, such as [24, 10]
  = help: topology.parallel: p: cables between a child and each parent, per level

error: `topology.children`: 0 is out of range
 --> my.toml:6:16
  |
6 | children = [4, 0]
  |                ^ expected a whole number from 1 to 65536

error: `k` belongs to topology.kind = "k-ary-n-tree", not to "pgft"
 --> my.toml:7:5
  |
7 | k = 3
  |     ^
  = help: keys of topology.kind = "pgft": children, parents, parallel, failed_links, failed_switches
"#,
    );
}

#[test]
fn values_that_contradict_each_other() {
    golden(
        &complaint("[network]\nbuffer = \"4 KiB\"\n[message]\neager_limit = \"2 MiB\"\n"),
        r#"
error: the buffer is smaller than a packet
 --> my.toml:5:10
  |
5 | buffer = "4 KiB"
  |          ^^^^^^^ expected at least 4160 B (network.mtu + network.header)

error: `message.eager_limit` is beyond `message.overflow_block`
 --> my.toml:7:15
  |
7 | eager_limit = "2 MiB"
  |               ^^^^^^^ expected at most 1 MiB
"#,
    );
}

#[test]
fn a_key_of_another_kind_of_nic() {
    golden(
        &complaint("[nic]\nkind = \"mailbox\"\npio_limit = \"64 B\"\n"),
        r#"
error: `pio_limit` belongs to nic.kind = "bxi-v2" or "bxi-v3" or "ib-hca", not to "mailbox"
 --> my.toml:6:13
  |
6 | pio_limit = "64 B"
  |             ^^^^^^
  = help: keys of nic.kind = "mailbox": command_size, event_size, count_size, packet_rate, match_base, match_per_entry, retry_interval, trigger_time, limits.max_entries, limits.max_unexpected_headers, limits.max_mds, limits.max_cts, limits.max_eqs, limits.max_iovecs, limits.max_list_size, limits.max_triggered_ops, limits.max_atomic_size, limits.max_fetch_atomic_size, limits.max_waw_ordered_size
"#,
    );
    golden(
        &complaint("[nic]\nkind = \"apenetx\"\n[nic.apenetx]\ninline_limit = \"64 B\"\n"),
        r#"
error: a completion entry has four words of 64 bits for a payload
 --> my.toml:7:16
  |
7 | inline_limit = "64 B"
  |                ^^^^^^ expected at most 32 B
"#,
    );
    let set = |keys: &[&str]| {
        let overrides = Overrides { nodes: None, set: keys.iter().map(|&key| key.to_owned()).collect() };
        Machine::load("bxi-v2", &overrides).is_ok()
    };
    assert!(set(&["nic.kind=mailbox"]), "the base keeps what the new kind does not have");
    assert!(!set(&["nic.kind=mailbox", "nic.pio_limit=64B"]));
    assert!(!set(&["nic.pio_limit=64B", "nic.kind=mailbox"]), "overrides in any order");
}

#[test]
fn many_complaints_are_counted() {
    let text: String = (0..100).map(|at| format!("x{at} = 1\n")).collect();
    let message = complaint(&format!("[node]\n{text}"));
    assert_eq!(message.matches("error: ").count(), 20);
    assert!(message.ends_with("\n... and 80 more\n"), "{message}");
}

#[test]
fn files_that_cannot_be_read() {
    let error = Machine::load("no/such.toml", &Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the machine file no/such.toml: "), "{error}");
}

#[test]
fn trees_beyond_what_can_be_simulated() {
    golden(
        &complaint("[topology]\nkind = \"k-ary-n-tree\"\nk = 21\nn = 5\n"),
        r#"
error: no such topology: the tree has 5056506 hosts and switches; at most 4194304 are possible
 --> my.toml:5:8
  |
5 | kind = "k-ary-n-tree"
  |        ^^^^^^^^^^^^^^
"#,
    );
    golden(
        &complaint("[switch]\nradix = 15\n[topology]\nkind = \"fat-tree\"\n"),
        r#"
error: no such topology: switches with 15 ports cannot make a full-bisection tree; the number must be even and at least 2
 --> my.toml:7:8
  |
7 | kind = "fat-tree"
  |        ^^^^^^^^^^
"#,
    );
}

#[test]
fn switches_that_contradict_themselves() {
    golden(
        &complaint("[network]\nflow_control = \"pfc\"\nbuffer = \"8 KiB\"\n"),
        r#"
error: a buffer of 8 KiB does not hold the headroom of 11529 B and three packets; expected at least 24009 B, or an xoff that says what to risk
 --> my.toml:6:10
  |
6 | buffer = "8 KiB"
  |          ^^^^^^^
"#,
    );
    golden(
        &complaint("[network]\nflow_control = \"pfc\"\n[network.pfc]\nxoff = \"1 MiB\"\n"),
        r#"
error: pauses at xoff 1 MiB and xon 1040256 B with a buffer of 32 KiB; expected 1 B <= xon <= xoff <= buffer
 --> my.toml:7:8
  |
7 | xoff = "1 MiB"
  |        ^^^^^^^
"#,
    );
    golden(
        &complaint("[switch]\nweights = [1, 2, 3, 4, 5]\nstrict_priority = [4]\n"),
        r#"
error: 5 weights
 --> my.toml:5:11
  |
5 | weights = [1, 2, 3, 4, 5]
  |           ^^^^^^^^^^^^^^^ expected at most 4, one per virtual network

error: there is no virtual network 4
 --> my.toml:6:19
  |
6 | strict_priority = [4]
  |                   ^^^ expected 0 to 3
"#,
    );
}

const GROUPS: &str = "[machine]\nname = \"mine\"\nbase = \"bxi-v2\"\ngroups = [\"fast\", \"slow\"]\n\
                      [group.fast]\ncount = 3\n[group.slow]\ncount = 2\ncores = 4\nspeed = 0.5\n[group.slow.software]\npost = \"1 us\"\n";

#[test]
fn networks_that_are_none() {
    let text = |rest: &str| format!("[machine]\nname = \"x\"\nbase = \"bxi-v2\"\n{rest}");
    let found = |rest: &str| message(&text(rest), &Overrides::default()).lines().next().unwrap_or_default().to_owned();
    assert_eq!(found("[fabric.ib.network]\nmtu = \"1 KiB\""), "error: no fabric `ib`");
    assert_eq!(found("fabrics = [\"a\", \"a\"]"), "error: two fabrics \"a\"");
    assert_eq!(found("[node]\nfabrics = [\"ib\"]"), "error: no network \"ib\"");
    assert_eq!(found("fabrics = [\"a\", \"b\"]\n[node]\nfabrics = [\"a\"]"), "error: no node joins the network b");
    assert_eq!(found("fabrics = [\"a\"]\n[fabric.a.message]\neager_limit = \"1 KiB\""), "error: unknown section `message` in [fabric.a]");
    assert_eq!(found("fabrics = [\"a\"]\n[fabric.a.topology]\nkind = \"torus\""), "error: missing key `lengths` in [fabric.a.topology]");
    let full = "fabrics = [\"a\", \"b\"]\n[fabric.b.topology]\nkind = \"single-switch\"\n[fabric.b.switch]\nradix = 4";
    assert_eq!(found(full), "error: network b: 64 nodes do not fit: one switch holds 4");
    assert_eq!(found("fabrics = [\"a\", \"b\", \"c\"]\n[node]\nrails = 6"), "error: 18 rails: 3 networks of 6 planes");
    assert_eq!(found("[network]\ncongestion = \"throttle\""), "error: a congestion control of flows, and ports have none");
    let dcqcn = "[network]\ncongestion = \"dcqcn\"\n[network.reliability]\ndelivery = \"ordered\"";
    assert_eq!(found(dcqcn), "error: dcqcn needs marks, and switches give none (switch.marking)");
    let hpcc = "[network]\ncongestion = \"hpcc\"\n[network.reliability]\ndelivery = \"ordered\"";
    assert_eq!(found(hpcc), "error: hpcc needs telemetry, and switches write none (switch.telemetry)");
    let perc = "[network]\ncongestion = \"s-perc\"\nrouting = \"adaptive\"\n[network.reliability]\ndelivery = \"ordered\"";
    let expected = "error: s-perc needs packets of a flow that all go the same way; expected that, or another congestion control";
    assert_eq!(found(perc), expected);
    let unordered = |delivery: &str| found(&format!("[network.reliability]\ndelivery = \"{delivery}\"\nunordered = [1, 3]"));
    for delivery in ["none", "unordered"] {
        assert_eq!(unordered(delivery), "error: virtual networks with unordered flows, and no others with ordered ones");
    }
    assert_eq!(found("[network.reliability]\ndelivery = \"ordered\"\nunordered = [4]"), "error: there is no virtual network 4");
    let list = |names: &str| format!("[network]\ncongestion = {names}\n[network.reliability]\ndelivery = \"ordered\"");
    assert_eq!(found(&list(r#"["acc", "acc"]"#)), "error: `network.congestion`: a list of 2");
    assert_eq!(found(&list(r#"["acc", "acc", "ac", "none"]"#)), "error: `network.congestion`: unknown choice, the text \"ac\"");
    let marks = "error: nscc needs marks, and switches give none (switch.marking)";
    assert_eq!(found(&list(r#"["acc", "none", "nscc", "none"]"#)), marks);
    let pause = "error: PAUSE alone, and this network's flow control is credits (network.flow_control)";
    assert_eq!(found("[network]\ncongestion = \"pfc\""), pause);
    assert_eq!(
        found("[network]\ncongestion = \"pfc\"\nflow_control = \"pfc\"\nbuffer = \"1 MiB\"\n[switch]\nmark_min = \"1 MB\""),
        "error: every packet is marked before any is"
    );
    assert_eq!(found("[switch]\nmark_min = \"1 MB\""), "error: every packet is marked before any is");
    let acc = "[network]\ncongestion = \"acc\"\n[network.reliability]\ndelivery = \"ordered\"\n[network.acc]\n";
    let wrong = |key: &str| message(&text(&format!("{acc}{key}")), &Overrides::default());
    for margin in ["0", "1", "-0.5", "7.5"] {
        let found = wrong(&format!("margin = {margin}"));
        assert!(found.contains("out of range") && found.contains("expected a number above 0 and below 1"), "{found}");
    }
    assert!(wrong("policy = \"pause-only\"").contains("\"frp-only\", \"frp-init\""), "{}", wrong("policy = \"pause-only\""));
    let found = wrong("skew = \"6 us\"");
    assert!(found.starts_with("error: acc skew is 6 us; expected at most a quarter of the period"), "{found}");
}

fn with_groups(changes: &[(&str, &str)], overrides: &Overrides) -> Result<Machine, String> {
    let text = changes.iter().fold(GROUPS.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    Machine::parse("my.toml", &text, overrides).map_err(|error| error.to_string())
}

#[test]
fn groups_have_what_they_say_and_the_rest_of_all_nodes() {
    let set = |keys: &[&str]| Overrides { nodes: None, set: keys.iter().map(|&key| key.to_owned()).collect() };
    let machine = with_groups(&[], &set(&["node.cores=16", "group.fast.speed=1.25", "software.poll=7ns"])).unwrap();
    let parts: Vec<(u32, u32, u32, f64)> =
        machine.parts().map(|(first, node)| (first.0, node.count, node.host.cores, node.host.speed.factor())).collect();
    assert_eq!(parts, [(0, 3, 16, 1.25), (3, 2, 4, 0.5)]);
    let posts: Vec<String> = machine.parts().map(|(_, node)| format!("{} {}", node.host.software.post, node.host.software.poll)).collect();
    let all = machine.node.host.software.post;
    assert_eq!(posts, [format!("{all} 7 ns"), String::from("1 us 7 ns")]);
    assert_eq!((machine.node.count, machine.topology().unwrap().hosts()), (5, 5));
    // What a run saves says all of it.
    let text = machine.to_toml();
    assert_eq!(Machine::parse("again.toml", &text, &Overrides::default()).unwrap(), machine, "{text}");
    // Of a file that names other groups, those of its base are not errors.
    let path = std::env::temp_dir().join(format!("narrows-groups-{}.toml", std::process::id()));
    std::fs::write(&path, GROUPS).unwrap();
    let one = format!("[machine]\nname = \"one\"\nbase = \"{}\"\ngroups = [\"slow\"]\n[node.pcie]\nlatency = \"1 us\"\n", path.display());
    let machine = Machine::parse("my.toml", &one, &Overrides::default());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(machine.unwrap().node.count, 2);
}

#[test]
fn groups_that_are_none() {
    let wrong = |changes: &[(&str, &str)]| with_groups(changes, &Overrides::default()).unwrap_err();
    golden(
        &wrong(&[("[group.slow]", "[group.slwo]")]),
        r#"
error: no group `slwo`
 --> my.toml:7:8
  |
7 | [group.slwo]
  |        ^^^^ did you mean `slow`?
  = help: machine.groups: fast, slow

error: missing key `count` in [group.slow]
  --> my.toml:11:8
   |
11 | [group.slow.software]
   |        ^^^^ expected a whole number from 1 to 1048576
   = help: group.slow.count: Nodes of this group
"#,
    );
    for (changes, overrides, expected) in [
        (&[("count = 2\n", "count = 2\nspede = 2\n")][..], Overrides::default(), "unknown key `spede` in [group.slow]"),
        (&[("\"slow\"]", "\"slow\", \"slow\"]")], Overrides::default(), "two groups \"slow\""),
        (&[("\"slow\"]", "\"slow\", \"a b\"]")], Overrides::default(), "no name for a group: \"a b\""),
        (&[("[group.fast]", "[node]\ncount = 7\n[group.fast]")], Overrides::default(), "7 nodes, and the groups have 5: 3 fast, 2 slow"),
        (
            &[("count = 3\n", "count = 30\nhost_name = \"n3{}\"\n"), ("count = 2\n", "count = 2\nhost_name = \"n{}\"\n")],
            Overrides::default(),
            "the nodes 0 and 30 are both called n30",
        ),
        (&[], Overrides { nodes: Some(8), set: Vec::new() }, "8 nodes, and the groups have 5: 3 fast, 2 slow"),
        (&[], Overrides { nodes: None, set: vec![String::from("group.slow.speed=-1")] }, "`group.slow.speed`: -1 is out of range"),
        (&[], Overrides { nodes: None, set: vec![String::from("group.slow.speed=fast")] }, "`group.slow.speed`: found the text \"fast\""),
    ] {
        let error = with_groups(changes, &overrides).unwrap_err();
        assert_eq!(error.lines().next(), Some(format!("error: {expected}").as_str()), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
    }
}

/// A program that looks and looks, at messages or at the clock, gets on because each look takes time.
#[test]
fn looks_take_time() {
    for key in ["software.poll", "software.clock_read"] {
        let error = override_complaint(&format!("{key}=0ns"));
        assert_eq!(error.lines().next(), Some(format!("error: `{key}`: 0 ns is out of range").as_str()), "{error}");
        assert!(error.contains("expected 1 ns to"), "{error}");
    }
    let error = with_groups(&[], &Overrides { nodes: None, set: vec![String::from("group.slow.software.poll=0ns")] }).unwrap_err();
    assert!(error.starts_with("error: `group.slow.software.poll`: 0 ns is out of range"), "{error}");
}

#[test]
fn processors_that_are_none() {
    let found = |rest: &str| {
        let text = format!("[machine]\nname = \"x\"\nbase = \"bxi-v2\"\n{rest}");
        message(&text, &Overrides::default()).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(found("[node]\nprocessors = [\"dpu\"]"), "error: no processor \"dpu\"");
    assert_eq!(found("[node]\nprocessors = [\"dpu\", \"dpu\"]\n[processor.dpu]\ncores = 2"), "error: two processors \"dpu\" of one node");
    assert_eq!(found("[processor.host]\ncores = 2"), "error: no name for a processor: \"host\"");
    assert_eq!(found("[processor.dpu]\ncores = 0"), "error: `processor.dpu.cores`: 0 is out of range");
    assert_eq!(found("[processor.dpu]\ncount = 2"), "error: unknown key `count` in [processor.dpu]");
    let own = |mode: &str, rest: &str| found(&format!("[node]\nprocessors = [\"dpu\"]\n[processor.dpu]\nmode = \"{mode}\"\n{rest}"));
    assert_eq!(own("aside", ""), "error: `processor.dpu.mode`: unknown choice, the text \"aside\"");
    assert_eq!(own("on-path", ""), "error: dpu stands in front of the host's ports, and no bus is between them");
    let bus = |rate: &str| format!("bus = \"b\"\n[bus.b]\nlatency = \"100 ns\"\nbandwidth = \"{rate}\"");
    let slow = own("on-path", &bus("8 GB/s"));
    assert!(slow.starts_with("error: the bus b in front of the host's ports is slower than node.pcie.data_bandwidth = "), "{slow}");
    let text = "[machine]\nname = \"x\"\nbase = \"bxi-v2\"\n[node]\nprocessors = [\"dpu\"]\n[processor.dpu]\n";
    for (mode, rate) in [("off-path", "8 GB/s"), ("on-path", "32 GB/s")] {
        let machine = Machine::parse("x.toml", &format!("{text}mode = \"{mode}\"\n{}", bus(rate)), &Overrides::default()).unwrap();
        let addresses = machine.addresses();
        let id = |node, number| ProcessorId { node: NodeId(node), number };
        let nodes = machine.node.count;
        assert_eq!((addresses.of(id(3, 0)), addresses.of(id(3, 1)), addresses.count()), (NodeId(3), NodeId(nodes + 3), 2 * nodes));
        assert_eq!((addresses.node(NodeId(3)), addresses.node(NodeId(nodes + 3))), (NodeId(3), NodeId(3)));
        assert_eq!(machine.topology().unwrap().hosts(), 2 * nodes);
        assert_eq!(Machine::parse("again.toml", &machine.to_toml(), &Overrides::default()).unwrap(), machine);
    }
    let handlers = own("off-path", "[nic.spin]\nrules = [\"reduce\"]");
    assert_eq!(handlers, "error: processors with ports of their own, and handlers on the NIC (nic.spin.rules)");
    let full = own("off-path", "[topology]\nkind = \"k-ary-n-tree\"\nk = 4\nn = 2");
    assert!(full.contains("nodes with ports of 64 other processors do not fit"), "{full}");
    assert_eq!(found("[node]\nmemory = \"1 GiB\""), "error: unknown key `memory` in [node]");
    let gone = message("[machine]\nname = \"x\"\nbase = \"bxi-v2\"\n[group.a]\nmemory = \"1 GiB\"", &Overrides::default());
    assert!(gone.contains("delete the line: no model asks how much memory a node has"), "{gone}");
}

/// What a processor beside the host's does not say is as that of the host, and a machine that is saved has all of it.
#[test]
fn processors_have_what_they_say_and_the_rest_of_the_host() {
    let text = format!(
        "{}[node]\nprocessors = [\"dpu\"]\ncores = 16\n[group.fast.power]\ncore = \"3 W\"\n[processor.dpu]\nspeed = 0.5\n\
         [processor.dpu.software]\npost = \"1 us\"\n[processor.other]\n",
        GROUPS.replace("cores = 4\n", "cores = 4\nprocessors = [\"other\", \"dpu\"]\n")
    );
    let machine = Machine::parse("my.toml", &text, &Overrides::default()).unwrap();
    let of_node = |node: u32| {
        let processors = machine.processors(machine.node(NodeId(node)));
        processors.map(|(name, on)| format!("{name} {} {} {}", on.cores, on.speed.factor(), on.software.post)).collect::<Vec<_>>()
    };
    let post = machine.node.host.software.post;
    assert_eq!(of_node(0), [format!("host 16 1 {post}"), String::from("dpu 16 0.5 1 us")]);
    assert_eq!(of_node(3), [String::from("host 4 0.5 1 us"), format!("other 16 1 {post}"), String::from("dpu 16 0.5 1 us")]);
    let id = ProcessorId { node: NodeId(3), number: 2 };
    assert_eq!((machine.processor(id).0, machine.host_name_on(id).as_str()), ("dpu", "node003-dpu"));
    let text = machine.to_toml();
    assert_eq!(Machine::parse("again.toml", &text, &Overrides::default()).unwrap(), machine, "{text}");
}

#[test]
fn devices_that_are_none() {
    for (set, message, label) in [
        ("ip.mtu=70kB", "no IP packet is so long", "expected at most 65535 B"),
        ("ip.mtu=20B", "`ip.mtu`: 20 B is out of range", "expected 68 B to"),
        ("ip.header=9kB", "the headers leave no room in a packet", "expected less than ip.mtu, 9000 B"),
        ("ip.sleep_min=2ms", "`ip.sleep_min` is beyond `ip.sleep_max`", "expected at most 1 ms"),
        ("ip.receiver=often", "`ip.receiver`: unknown choice, the text \"often\"", "expected one of \"interrupt\", \"polling\", \"sleep\""),
        ("ip.gateway.node=3", "a gateway to no hosts", "expected ip.gateway.hosts of 1 and more"),
    ] {
        let error = override_complaint(set);
        assert_eq!(error.lines().next(), Some(format!("error: {message}").as_str()), "{error}");
        assert!(error.contains(label), "{error}");
    }
    let set = ["ip.gateway.hosts=1", "ip.gateway.node=64"].map(String::from).to_vec();
    let text = "[machine]\nname = \"my\"\nbase = \"bxi-v2\"\n";
    let error = message(text, &Overrides { nodes: Some(64), set });
    assert!(error.starts_with("error: the machine has no such node\n") && error.contains("expected 0 to 63"), "{error}");
}

#[test]
fn rules_of_handlers_say_what_would_be_right() {
    let file = std::env::temp_dir().join(format!("narrows-no-handler-{}", std::process::id()));
    std::fs::write(&file, b"\x7fELF, but of something else").unwrap();
    let path = file.display().to_string();
    let cases = [
        (format!("{path} tag=7"), "no ELF file of RV32: expected what riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 -nostdlib links"),
        (String::from("reduce memory=5MiB"), "a context asks for 5 MiB of handler memory in L2, and 4 MiB are left"),
        (String::from("reduce scratchpad=2MiB"), "of scratchpad in L1"),
        (
            String::from("cost=2000000,0,0,pass"),
            "the function takes 2000000 cycles for a packet of 2 KiB, and a handler may run for 1000000",
        ),
        (String::from("nothing"), "cannot read nothing"),
        (String::from("tag=7"), "names no handler; expected an ELF file, cost=A,B,C,ACTION, or one of unpack, empty"),
        (String::from("cost=1,2,fold"), "expected CYCLES,PER_BYTE,PER_WORD,ACTION[,HEADER], as in 20,0,6,fold,28"),
        (
            String::from("reduce size=9..1"),
            "size=9..1 in rule \"reduce size=9..1\"; expected bytes of a message, as in 64, 64..2KiB or 4KiB..",
        ),
        (String::from("reduce tag=-1"), "expected 0 to 1048575"),
        (
            String::from("unpack memory=64"),
            "memory=64 in rule \"unpack memory=64\"; expected no such word: what unpack needs depends on the datatype",
        ),
        (
            String::from("reduce colour=red"),
            "expected KEY=VALUE with a key of size, tag, bits, pt, comm, datatype, memory, scratchpad, window, or entry",
        ),
    ];
    for (rule, expected) in cases {
        let complaint = override_complaint(&format!("nic.spin.rules=[\"{rule}\"]"));
        assert!(complaint.contains(expected), "{rule}: {complaint}");
        assert!(complaint.starts_with("error: ") && complaint.contains("--> --set:1:16"), "{complaint}");
    }
    std::fs::remove_file(file).unwrap();
    let text = "[machine]\nname = \"my\"\nbase = \"bxi-v2-spin\"\n[nic.spin]\nrules = [\"reduce\"]\nl2_packets = \"1 TiB\"\n";
    let complaint = message(text, &Overrides::default());
    assert!(complaint.contains("packets in L2 (l2_packets) of 1 TiB; expected at most 1 GiB"), "{complaint}");
}
