//! Files of other tools as networks: what is read, what is left out, what is refused, and that nothing panics.

use narrows_topology::graph_file;
use narrows_topology::import::{Format, Network, Options, import};
use narrows_units::{ByteRate, SimTime};

const TWO_LEAVES: &str = "\
#
# Topology file: generated on Mon Jun  3 10:00:00 2024
#
vendid=0x2c9
devid=0xcf08
sysimgguid=0xa1
switchguid=0xa1(a1)
Switch\t40 \"S-a1\"\t\t# \"MF0;leaf1:MQM8700/U1\" enhanced port 0 lid 4 lmc 0
[1]\t\"S-b1\"[1]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR
[2]\t\"S-b1\"[2]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR
[3]\t\"S-b1\"[3]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xEDR
[11]\t\"H-c1\"[1](c1) \t\t# \"gpu7 mlx5_0\" lid 11 4xHDR
[12]\t\"H-c2\"[1](c2) \t\t# \"gpu7 mlx5_1\" lid 12 4xHDR
[13]\t\"H-c3\"[1](c3) \t\t# \"gpu8 mlx5_0\" lid 13 4xHDR
[41]\t\"H-d1\"[1](d1) \t\t# \"Mellanox Technologies Aggregation Node\" lid 20 4xHDR

switchguid=0xa2(a2)
Switch\t40 \"S-a2\"\t\t# \"MF0;leaf2:MQM8700/U1\" enhanced port 0 lid 5 lmc 0
[1][ext 7]\t\"S-b1\"[4]\t\t# \"MF0;spine:MQM8700/U1\" lid 2 4xHDR
[11]\t\"H-c4\"[1](c4) \t\t# \"localhost HCA-1\" lid 14 2xHDR
[12]\t\"H-c5\"[1](c5) \t\t# \"localhost HCA-1\" lid 15 4xHDR s=64 w=2

switchguid=0xb1(b1)
Switch\t40 \"S-b1\"\t\t# \"MF0;spine:MQM8700/U1\" enhanced port 0 lid 2 lmc 0
[1]\t\"S-a1\"[1]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 4 4xHDR
[2]\t\"S-a1\"[2]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 4 4xHDR
[3]\t\"S-a1\"[3]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 4 4xEDR
[4]\t\"S-a2\"[1][ext 7]\t\t# \"MF0;leaf2:MQM8700/U1\" lid 5 4xHDR

caguid=0xc1
Ca\t1 \"H-c1\"\t\t# \"gpu7 mlx5_0\"
[1](c1) \t\"S-a1\"[11]\t\t# lid 11 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 4 4xHDR
";

const SLURM: &str = "\
# Two leaves and a core.
switchname=leaf0 Nodes=n[00-02] LinkSpeed=900
SwitchName=leaf1 \\
    NODES=n[03,05],login   # and the login node
SwitchName = core Switches=leaf[0-1]
";

const ANYNET: &str = "\
router 0 node 0 node 1 router 1 15
router 1 node 2 3 router 0 15 router 2
node 3 router 2
";

const CLUSTERS: &str = r#"<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Floyd">
    <cluster id="flat" prefix="n" suffix=".a" radical="0-2" speed="1Gf" bw="125MBps" lat="50us" bb_bw="1GBps" bb_lat="1us"/>
    <zone id="rest" routing="Full">
      <host id="front" speed="1Gf"><prop id="x" value="y"/></host>
      <router id="r1"/>
      <link id="l0" bandwidth="1Gbps" latency="2us"/>
      <route src="front" dst="r1"><link_ctn id="l0"/></route>
    </zone>
    <link id="up" bandwidth="10Gbps" latency="1us"/>
    <link id="far" bandwidth="40Gbps" latency="3us"/>
    <zoneRoute src="flat" dst="rest" gw_src="nflat_router.a" gw_dst="r1"><link_ctn id="up"/><link_ctn id="far"/></zoneRoute>
  </zone>
</platform>
"#;

fn read(text: &str) -> Network {
    import(text.as_bytes(), None, &Options::default()).unwrap()
}

fn refused(text: &str) -> String {
    import(text.as_bytes(), None, &Options::default()).unwrap_err().to_string()
}

/// The graph file without its comments, which must be one.
fn graph(network: &Network) -> String {
    let text = network.graph("x");
    let topology = graph_file::parse("x", &text, None).unwrap();
    let counts = topology.counts();
    assert_eq!((counts.hosts as usize, counts.switches as usize), (network.hosts.len(), network.switches.len()));
    assert_eq!(u64::from(counts.switch_cables), network.cable_count());
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn cluster(attributes: &str) -> String {
    format!("<platform version=\"4.1\"><cluster id=\"c\" prefix=\"h\" speed=\"1f\" bw=\"1GBps\" lat=\"1us\" {attributes}/></platform>")
}

#[test]
fn ibnetdiscover_gives_hosts_cables_and_rates() {
    let network = read(TWO_LEAVES);
    assert_eq!(network.format, Format::Ibnetdiscover);
    let expected = "switch leaf1\nswitch leaf2\nswitch spine\nhost gpu7 leaf1\nhost gpu8 leaf1\nhost H-c4 leaf2\nhost H-c5 leaf2\n\
                    link leaf1 spine x2 bandwidth=200Gbit/s\nlink leaf1 spine bandwidth=100Gbit/s\nlink leaf2 spine bandwidth=200Gbit/s\n";
    assert_eq!(graph(&network), expected);
    assert_eq!(network.host_link.rate, Some(ByteRate(25_000_000_000)));
    let notes = [
        "Left out: 1 further ports of hosts: a host has one in a graph file, --adapter chooses which.",
        "Left out: 1 aggregation nodes.",
        "1 hosts have other links than most; a graph file has one speed for all links of hosts.",
    ];
    assert_eq!(network.notes, notes);
    let options = Options { adapter: Some("mlx5_1".to_owned()), ..Options::default() };
    let second = import(TWO_LEAVES.as_bytes(), None, &options).unwrap();
    assert_eq!(second.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["gpu7"]);
}

#[test]
fn lanes_have_their_data_rates() {
    for (word, bits) in [("1xSDR", 2), ("4xDDR", 16), ("4xQDR", 32), ("4xFDR10", 40), ("4xEDR", 100), ("4xNDR", 400), ("4xXDR", 800)] {
        let text = format!("Switch 2 \"S-1\" # \"a\"\n[1] \"H-1\"[1](1) # \"n0 HCA-1\" lid 1 {word}\n");
        assert_eq!(read(&text).host_link.rate, Some(ByteRate(bits * 1_000_000_000 / 8)), "{word}");
    }
}

#[test]
fn slurm_gives_switches_and_nodes() {
    let network = read(SLURM);
    let expected = "switch leaf0\nswitch leaf1\nswitch core\nhost n00 leaf0\nhost n01 leaf0\nhost n02 leaf0\nhost n03 leaf1\n\
                    host n05 leaf1\nhost login leaf1\nlink leaf0 core\nlink leaf1 core\n";
    assert_eq!((network.format, graph(&network)), (Format::Slurm, expected.to_owned()));
}

#[test]
fn anynet_keeps_numbers_and_latencies() {
    let network = read(ANYNET);
    let expected = "switch router0\nswitch router1\nswitch router2\nhost node0 router0\nhost node1 router0\nhost node2 router1\n\
                    host node3 router2\nlink router0 router1 latency=15ns\nlink router1 router2 latency=1ns\n";
    assert_eq!((network.format, graph(&network)), (Format::Anynet, expected.to_owned()));
    assert_eq!(network.host_link.latency, Some(SimTime::from_ns(1)), "three of four");
    let without = read("router 0 node 0 router 1\nrouter 1 node 1\n");
    assert_eq!(without.cables[0].speed.latency, None, "those of the machine file");
}

#[test]
fn simgrid_gives_clusters_and_routes() {
    let network = read(CLUSTERS);
    let expected = "switch nflat_router.a\nswitch r1\nhost n0.a nflat_router.a\nhost n1.a nflat_router.a\nhost n2.a nflat_router.a\n\
                    host front r1\nlink nflat_router.a r1 bandwidth=10Gbit/s latency=4us\n";
    assert_eq!((network.format, graph(&network)), (Format::SimGrid, expected.to_owned()));
    assert_eq!((network.host_link.rate, network.host_link.latency), (Some(ByteRate(125_000_000)), Some(SimTime::from_us(50))));
}

/// Hosts, switches, cables and diameter, all by hand.
#[test]
fn simgrids_clusters_have_the_wiring_of_their_parameters() {
    for (attributes, expected) in [
        (r#"radical="0-15" topology="FAT_TREE" topo_parameters="2;4,4;1,2;1,2""#, (16, 6, 16, 4)),
        (r#"radical="0-11" topology="TORUS" topo_parameters="3,2,2""#, (12, 12, 24, 5)),
        // 3 groups of 2 x 2 routers: 2 green, 2 black each, 3 blue pairs of 4; three hops at most in a group, one
        // across.
        (r#"radical="0-23" topology="DRAGONFLY" topo_parameters="3,4;2,1;2,1;2""#, (24, 12, 3 * 4 + 3 * 4, 7)),
    ] {
        let network = read(&cluster(attributes));
        let topology = graph_file::parse("x", &network.graph("x"), None).unwrap();
        let counts = topology.counts();
        assert_eq!((counts.hosts, counts.switches, counts.switch_cables, counts.diameter), expected, "{attributes}");
    }
}

/// A triangle of hosts without routers: each has a switch of its own.
#[test]
fn hosts_may_forward() {
    let link = |name: &str| format!("<link id=\"{name}\" bandwidth=\"1GBps\" latency=\"1us\"/>");
    let route = |one: &str, other: &str, link: &str| format!("<route src=\"{one}\" dst=\"{other}\"><link_ctn id=\"{link}\"/></route>");
    let hosts: String = ["a", "b", "c"].iter().map(|name| format!("<host id=\"{name}\" speed=\"1f\"/>")).collect();
    // And one to itself over a shared link, which is no cable.
    let (ab, bc, ca) = (route("a", "b", "1") + &route("a", "a", "2"), route("b", "c", "2"), route("c", "a", "3"));
    let text = format!("<platform><zone id=\"z\">{hosts}{}{}{}{ab}{bc}{ca}</zone></platform>", link("1"), link("2"), link("3"));
    let network = read(&text);
    assert_eq!((network.hosts.len(), network.switches.len(), network.cables.len()), (3, 3, 3));
    // With the way over b spelled out, it is one of two cables.
    let chain = "<route src=\"a\" dst=\"c\"><link_ctn id=\"1\"/><link_ctn id=\"2\"/></route>";
    let text = format!("<platform><zone id=\"z\" routing=\"Full\">{hosts}{}{}{ab}{bc}{chain}</zone></platform>", link("1"), link("2"));
    assert_eq!(read(&text).cables.len(), 2);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_would_be_right() {
    let record = "Switch 2 \"S-1\" # \"a\"\n";
    for (text, expected) in [
        (
            "hello\n".to_owned(),
            "line 1: no known format; expected the output of ibnetdiscover, Slurm's topology.conf, an anynet file of BookSim, or a \
             platform of SimGrid",
        ),
        (
            format!("{record}[x] \"S-2\"[1]\n"),
            "line 2: found `[x] \"S-2\"[1]`; expected a port such as [1] \"S-0002c904\"[17] # \"spine1\" lid 2 4xEDR",
        ),
        (
            format!("{record}[1] \"S-2\"[1] # \"b\" lid 3 4xGDR\n"),
            "line 2: found `4xGDR`; expected a width and a speed, such as 4xEDR, of SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR",
        ),
        (
            format!("{record}[1] \"S-2\"[1] # \"b\" lid 3\n[1] \"S-3\"[1] # \"c\" lid 3\n"),
            "line 3: port 1 of \"S-1\" has another cable in line 2; expected one per port",
        ),
        (format!("{record}[1] \"S-2\"[1] # \"b\" lid 3\n"), "line 2: the file has no hosts; expected at least one"),
        (
            format!("{record}SW 1 2 3\n"),
            "line 2: found `SW 1 2 3`; expected Switch, Ca, Rt or a port, as ibnetdiscover prints them without -p or -l",
        ),
        (
            "BlockName=b Nodes=n[0-3]\n".to_owned(),
            "line 1: `BlockName`: blocks (topology/block) do not say how switches are connected; expected SwitchName= lines \
             (topology/tree)",
        ),
        ("SwitchName=a Nodes=n[0-3\n".to_owned(), "line 1: a bracket is missing in `n[0-3`; expected names such as tux[0-3,7]"),
        ("SwitchName=a Switches=b\n".to_owned(), "line 1: switch `b` has no line of its own"),
        (
            "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n0\n".to_owned(),
            "line 2: there is a host `n0` already, in line 1; expected each host once",
        ),
        (
            "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\n".to_owned(),
            "line 2: no way from switch `a` to switch `b`: expected a link, or switches, between them",
        ),
        ("router 0 node 1\n".to_owned(), "line 1: there is no node 0; expected nodes from 0 without gaps"),
        ("router 0 host 1\n".to_owned(), "line 1: found `host`; expected `router` or `node` and a number"),
        (
            "router 0 node 0\n\nrouter 1 node 0\n".to_owned(),
            "line 3: node 0 on router 1, and on router 0 in line 1; expected each node on one router",
        ),
        (
            "<platform>\n<peer id=\"x\"/></platform>".to_owned(),
            "line 2: <peer> is not a part of a graph; expected zone, host, router, link, route, zoneRoute or cluster",
        ),
        (
            cluster("radical=\"0-3\" topology=\"TORUS\" topo_parameters=\"2,3\""),
            "line 1: topo_parameters=\"2,3\" make 6 hosts, radical 4; expected as many",
        ),
        ("<platform>\n".to_owned(), "line 1: not XML: the root node was opened but never closed"),
    ] {
        assert_eq!(refused(&text), expected);
    }
    let star = "<platform><zone id=\"z\" routing=\"Full\"><host id=\"a\"/><host id=\"b\"/><host id=\"c\"/>\n\
                <link id=\"la\" bandwidth=\"1GBps\"/><link id=\"lb\" bandwidth=\"1GBps\"/><link id=\"lc\" bandwidth=\"1GBps\"/>\n\
                <route src=\"a\" dst=\"b\"><link_ctn id=\"la\"/><link_ctn id=\"lb\"/></route>\n\
                <route src=\"a\" dst=\"c\"><link_ctn id=\"la\"/><link_ctn id=\"lc\"/></route></zone></platform>";
    let told = refused(star);
    assert!(
        told.starts_with("line 4: link `la` is a part of this route and of the one in line 3, between others: a graph needs"),
        "{told}"
    );
}

/// Lists that stand for more than there can be end at once.
#[test]
fn bounds_hold() {
    for text in [
        "SwitchName=a Nodes=n[0-99999999999]\n".to_owned(),
        "SwitchName=a Nodes=n[0-9999]m[0-9999]\n".to_owned(),
        "router 0 node 4294967295\n".to_owned(),
        format!("router 0 {}\n", "node 0 ".repeat(200_000)),
        cluster("radical=\"0-9007199254740000\""),
        cluster("radical=\"0-0\" topology=\"FAT_TREE\" topo_parameters=\"3;1,1,1;1,2000,2000;1,32,32\""),
        cluster("radical=\"0-65535\" topology=\"DRAGONFLY\" topo_parameters=\"1,1;1,1;65536,1;1\""),
        format!("<!DOCTYPE platform [<!ENTITY a \"b\">]><platform>{}</platform>", "&a;".repeat(9)),
        format!("<platform>{}", "<zone id=\"z\" routing=\"Full\">".repeat(100_000)),
        format!("<platform>{}{}</platform>", "<zone id=\"z\">".repeat(1000), "</zone>".repeat(1000)),
    ] {
        let told = refused(&text);
        assert!(told.starts_with("line 1: ") && told.len() < 400, "{told}");
    }
}

proptest::proptest! {
    /// Bytes of the samples changed, taken out, or put elsewhere: a network that is a graph file, or an error.
    #[test]
    fn no_file_panics(
        sample in 0usize..4,
        format in 0usize..5,
        changes in proptest::collection::vec((0usize..4000, 0usize..40, 0usize..4000, proptest::num::u8::ANY), 0..12),
    ) {
        let mut bytes = [TWO_LEAVES, SLURM, ANYNET, CLUSTERS][sample].as_bytes().to_vec();
        for (at, length, to, byte) in changes {
            let (at, to) = (at % bytes.len().max(1), to % bytes.len().max(1));
            match byte % 4 {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 => drop(bytes.drain(at..(at + length).min(bytes.len()))),
                2 => {
                    let piece = bytes[at..(at + length).min(bytes.len())].to_vec();
                    bytes.splice(to..to, piece);
                }
                _ => bytes.insert(at, byte),
            }
        }
        if let Ok(network) = import(&bytes, Format::ALL.get(format).copied(), &Options::default()) {
            graph(&network);
        }
    }

    #[test]
    fn no_words_panic(
        text in r#"(Switch|Ca|SwitchName=|Nodes=|Switches=|router|node|<zone|<route|</|/>|"|#|\[|\]|,|-|=|[0-9]|S-|H-|x| |\n){0,60}"#
    ) {
        for format in Format::ALL {
            let _ = import(text.as_bytes(), Some(format), &Options::default());
        }
    }
}
