//! Any bytes as a file of a network (`narrows topology import`): refused with its line, or a graph file that makes a
//! network of the same hosts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_topology::graph_file;
use narrows_topology::import::{Format, Options, import};

fuzz_target!(|bytes: &[u8]| {
    for format in [None, Some(Format::Ibnetdiscover), Some(Format::Slurm), Some(Format::Anynet), Some(Format::SimGrid)] {
        let Ok(network) = import(bytes, format, &Options::default()) else { continue };
        // It may be in two parts, or larger than what can be simulated.
        if let Ok(topology) = graph_file::parse("fuzz", &network.graph("fuzz"), None) {
            assert_eq!(topology.hosts() as usize, network.hosts.len());
        }
    }
});
