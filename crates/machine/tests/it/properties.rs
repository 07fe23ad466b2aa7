//! What holds for every machine and for every text, however broken.

use narrows_fabric::Derived;
use narrows_machine::{
    Link, Machine, MachineError, NetworkKind, Overrides, PRESETS, Rendezvous, RoutingKind, Storage, Topology, TopologyKind, preset,
    reference,
};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Machine, MachineError> {
    Machine::parse("my.toml", text, &Overrides::default())
}

#[test]
fn presets_resolve_and_come_back() {
    for preset in PRESETS {
        let machine = Machine::load(preset.name, &Overrides::default()).unwrap_or_else(|error| panic!("{}:\n{error}", preset.name));
        assert_eq!(machine.name, preset.name);
        assert!(!machine.source.is_empty(), "{} says where its constants come from", preset.name);
        assert_eq!(parse(&machine.to_toml()).unwrap(), machine);
        assert_eq!(parse(&machine.to_used_toml()).unwrap(), machine);
    }
}

#[test]
fn a_run_keeps_only_the_sections_that_its_machine_uses() {
    let kept = |set: &[&str]| {
        let overrides = Overrides { nodes: None, set: set.iter().map(|&key| key.to_owned()).collect() };
        Machine::load("bxi-v2", &overrides).unwrap().to_used_toml()
    };
    let has = |text: &str, section: &str| text.contains(&format!("[{section}]\n"));
    let plain = kept(&[]);
    for section in ["network.acc", "network.pfc", "network.dcqcn", "network.flow", "nic.spin", "message.gateway", "ip.tunnel", "power"] {
        assert!(!has(&plain, section), "{section}:\n{plain}");
    }
    for section in ["nic", "nic.limits", "network", "link.host", "software", "message"] {
        assert!(has(&plain, section), "{section}:\n{plain}");
    }
    // What is in use, and what is not as it would be without a word, is kept.
    let acc = kept(&["network.reliability.delivery=ordered", "network.congestion=acc", "power.nic=5W", "network.swift.base_target=3us"]);
    for (section, kept) in [("network.acc", true), ("power", true), ("network.swift", true), ("network.dcqcn", false)] {
        assert_eq!(has(&acc, section), kept, "{section}:\n{acc}");
    }
}

#[test]
fn every_constant_has_its_source_beside_it() {
    // Values about which nobody asks for a source, or whose comment covers two lines.
    let obvious = ["name", "description", "source", "kind", "latency = \"path\"", "bandwidth = \"path\"", "virtual_channels"];
    for name in ["bxi-v2", "bxi-v3", "ib-qdr"] {
        for line in preset(name).unwrap().text.lines() {
            let is_key = line.contains(" = ") && !line.starts_with('#');
            if is_key && !obvious.iter().any(|key| line.starts_with(key)) {
                let comment = line.split_once('#').map_or("", |(_, comment)| comment);
                assert!(comment.trim_start().starts_with('['), "{name}: no source: {line}");
            }
        }
    }
}

#[test]
fn nic_defaults_are_the_constants_of_bxi_v2() {
    let preset = Machine::load("bxi-v2", &Overrides::default()).unwrap();
    let text = preset.to_toml();
    let (before, rest) = text.split_once("[nic]\n").unwrap();
    let (_, after) = rest.split_once("[network]\n").unwrap();
    assert_eq!(parse(&format!("{before}[network]\n{after}")).unwrap().nic, preset.nic);
}

#[test]
fn the_reference_holds_the_table_of_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machine-files.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (start, end) = ("<!-- keys: start -->\n", "<!-- keys: end -->");
    let (before, rest) = document.split_once(start).unwrap();
    let (table, after) = rest.split_once(end).unwrap();
    let expected = reference::markdown();
    if std::env::var_os("NARROWS_BLESS").is_some() {
        std::fs::write(path, format!("{before}{start}{expected}{end}{after}")).unwrap();
    } else {
        assert!(table == expected, "docs/machine-files.md is behind the table of keys: run this test with NARROWS_BLESS=1");
    }
}

#[test]
fn files_in_the_documentation_are_machines() {
    let document = include_str!("../../../../docs/machine-files.md");
    let files: Vec<&str> = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!files.is_empty());
    for file in files {
        parse(file).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn bases_and_overrides_stack_up() {
    let text =
        "[machine]\nname = \"my\"\nbase = \"bxi-v2\"\n[nic]\nput_occupancy = \"1 us\"\nget_occupancy = \"1 us\"\n[node]\ncount = 8\n";
    let set = vec!["nic.get_occupancy=2us".to_owned(), "nic.get_occupancy=\"3 us\"".to_owned(), "link.host.bandwidth=25 Gbit/s".to_owned()];
    let machine = Machine::parse("my.toml", text, &Overrides { nodes: Some(9), set }).unwrap();
    assert_eq!(machine.name, "my");
    assert_eq!(machine.node.count, 9, "--nodes over the file");
    assert_eq!(machine.nic.portals().put_occupancy, SimTime::from_us(1), "the file over its base");
    assert_eq!(machine.nic.portals().get_occupancy, SimTime::from_us(3), "the last --set over the first and the file");
    assert_eq!(machine.nic.portals().response_occupancy, SimTime::from_ns(10), "the base where nothing else speaks");
    assert_eq!(machine.link.host.bandwidth, ByteRate(3_125_000_000));
}

#[test]
fn json_has_the_sections_of_the_file() {
    let json = Machine::load("bxi-v2", &Overrides { nodes: Some(5), set: vec![] }).unwrap().to_json();
    assert_eq!(json["node"]["count"], 5);
    assert_eq!(json["node"]["pcie"]["latency"], "300 ns");
    assert_eq!(json["topology"]["kind"], "fat-tree");
    assert_eq!(json["topology"]["k"], serde_json::Value::Null);
}

fn time() -> impl Strategy<Value = SimTime> {
    prop_oneof![Just(0), 1..1_000_000u64, 1..=1_000_000_000_000u64].prop_map(SimTime)
}

fn rate() -> impl Strategy<Value = ByteRate> {
    prop_oneof![1_000_000..1_002_000u64, 1_000_000..=100_000_000_000_000u64].prop_map(ByteRate)
}

fn link() -> impl Strategy<Value = Link> {
    (time(), rate()).prop_map(|(latency, bandwidth)| Link { latency, bandwidth })
}

fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(Topology::new(TopologyKind::SingleSwitch)),
        Just(Topology::new(TopologyKind::FatTree)),
        (2..24u32, 2..4u32).prop_map(|(k, n)| Topology { k, n, ..Topology::new(TopologyKind::KAryNTree) }),
        (2..24u32, 2..20u32, 1..4u32, 1..3u32).prop_map(|(leaf, pods, spines, cables)| Topology {
            children: vec![leaf, pods],
            parents: vec![1, spines],
            parallel: vec![1, cables],
            ..Topology::new(TopologyKind::Pgft)
        }),
    ]
}

prop_compose! {
    /// Any machine that keeps the rules, far from the presets.
    fn machine()(
        texts in ("[^\\pC]{1,20}", ".{0,20}", ".{0,20}"),
        host in "[a-z]{1,8}\\{(:0[1-9])?\\}[a-z]{0,4}",
        times in prop::collection::vec(time(), 16),
        links in (link(), link(), link()),
        rates in (rate(), rate(), rate(), rate()),
        topology in topology(),
        fixed in prop::option::of(time()),
        mtu in 1..100_000u64,
        buffer in 0..1u64 << 40,
        eager in 0..1u64 << 30,
        kind in prop::sample::select(vec![NetworkKind::Packet, NetworkKind::Flow, NetworkKind::LogGp]),
        adaptive in any::<bool>(),
        counts in (1..=4u32, 1..=65_536u32, 1..=1u32 << 24, 1..=16u32),
    ) -> Machine {
        let mut machine = Machine::load("bxi-v2", &Overrides::default()).unwrap();
        (machine.name, machine.description, machine.source) = texts;
        machine.node.host_name = host.parse().unwrap();
        machine.node.count = counts.0;
        machine.node.host.cores = counts.1;
        let nic = machine.nic.portals_mut();
        nic.data_bandwidth = rates.1;
        nic.pcie_latency = SimTime(times[0].0.max(1));
        nic.pcie_rate = rates.0;
        (machine.intra, machine.link.host, machine.link.switch) = links;
        nic.dma_latency = times[1];
        nic.put_occupancy = times[2];
        nic.get_occupancy = times[3];
        nic.response_occupancy = times[4];
        nic.ack_occupancy = times[5];
        nic.match_base = times[6];
        nic.match_per_entry = times[7];
        nic.retry_interval = SimTime(times[8].0.max(1));
        nic.limits.max_entries = counts.2;
        machine.network.kind = kind;
        machine.network.mtu = Bytes(mtu);
        machine.network.buffer = Bytes(buffer + mtu + machine.network.header.0);
        machine.network.virtual_channels = counts.3;
        machine.network.routing = if adaptive { RoutingKind::Adaptive } else { RoutingKind::DModK };
        machine.network.loggp.latency = fixed.map_or(Derived::FromPath, Derived::Fixed);
        machine.network.loggp.gap = times[9];
        machine.network.loggp.rate = if adaptive { Derived::Fixed(rates.2) } else { Derived::FromPath };
        machine.switch.latency = times[10];
        machine.topology = topology;
        machine.node.host.software.post = times[11];
        machine.node.host.software.completion = times[12];
        machine.node.host.software.poll = times[13].max(SimTime::from_ns(1));
        machine.node.host.software.clock_read = times[14].max(SimTime::from_ns(1));
        machine.system.launcher_barrier = times[13];
        machine.system.socket_latency = times[15];
        machine.storage = Storage { latency: times[13].max(SimTime::from_ns(1)), bandwidth: rates.3 };
        machine.node.host.software.copy_bandwidth = rates.3;
        machine.message.eager_limit = Bytes(eager);
        machine.message.inject_limit = Bytes(eager.min(64));
        machine.message.overflow_block = Bytes(eager + 1);
        machine.message.max_portals_message = Bytes(eager + 1);
        machine.message.rendezvous = if adaptive { Rendezvous::Put } else { Rendezvous::Get };
        machine
    }
}

/// Reads, and prints the complaint if there is one: neither may panic.
fn survives(text: &str, overrides: &Overrides) {
    match Machine::parse("my.toml", text, overrides) {
        Ok(machine) => {
            let _ = machine.to_toml();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn a_resolved_machine_reads_back_as_itself(machine in machine()) {
        for text in [machine.to_toml(), machine.to_used_toml()] {
            match parse(&text) {
                Ok(again) => prop_assert_eq!(&again, &machine),
                Err(error) => prop_assert!(false, "{}\n{}", error, text),
            }
        }
    }

    #[test]
    fn a_resolved_machine_has_a_topology(machine in machine()) {
        let topology = machine.topology().map_err(|error| error.to_string());
        prop_assert_eq!(topology.map(|topology| topology.hosts()), Ok(machine.node.count));
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), set in ".{0,60}") {
        survives(&String::from_utf8_lossy(&bytes), &Overrides { nodes: None, set: vec![set] });
    }

    #[test]
    fn presets_with_random_edits_do_no_harm(
        which in 0..PRESETS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, "[a-z0-9\"=\\[\\]{}.,# \n\u{e9}-]{0,12}"), 1..6),
        nodes in prop::option::of(any::<u32>()),
    ) {
        let mut text: Vec<char> = PRESETS[which].text.chars().collect();
        for (place, kind, patch) in edits {
            let at = place.index(text.len() + 1);
            let end = (at + patch.chars().count()).min(text.len());
            match kind {
                0 => drop(text.splice(at..at, patch.chars())),
                1 => drop(text.splice(at..end, patch.chars())),
                _ => drop(text.splice(at..end, [])),
            }
        }
        survives(&text.into_iter().collect::<String>(), &Overrides { nodes, set: vec![] });
    }

    #[test]
    fn overrides_of_known_keys_do_no_harm(
        key in prop::sample::select(keys_of_bxi_v2()),
        value in prop_oneof!["[0-9]{1,20}", "[0-9.e-]{1,8} ?(ns|us|KiB|GB/s|Gbit/s)", "\"?[a-z-]{0,8}\"?", "\\[[0-9, ]{0,12}\\]", ".{0,12}"],
    ) {
        survives(PRESETS[0].text, &Overrides { nodes: None, set: vec![format!("{key}={value}")] });
    }
}

fn keys_of_bxi_v2() -> Vec<String> {
    let mut keys = vec!["topology.k".to_owned(), "topology.children".to_owned(), "machine.base".to_owned()];
    let mut section = String::new();
    for line in Machine::load("bxi-v2", &Overrides::default()).unwrap().to_toml().lines() {
        match (line.strip_prefix('['), line.split_once(" = ")) {
            (Some(name), _) => section = name.trim_end_matches(']').to_owned(),
            (None, Some((name, _))) => keys.push(format!("{section}.{name}")),
            _ => {}
        }
    }
    keys
}
