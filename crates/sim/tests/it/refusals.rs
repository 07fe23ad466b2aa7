//! A command that the NIC takes and refuses when its turn comes is not swallowed.

use narrows_fabric::NetworkConfig;
use narrows_nic::{CommandError, NicConfig};
use narrows_portals::{Command, EqId, Notice, ProcessId};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{NodeId, Rail, SimTime};

struct Nothing;

impl Processes for Nothing {
    type Letter = ();

    fn notify(&mut self, _: SimTime, _: u32, _: Notice) {}
}

#[test]
fn a_portal_table_entry_that_exists_is_refused_by_name() {
    let places = [ProcessId::on(NodeId(0), 1), ProcessId::on(NodeId(1), 1)];
    let topology = FatTree::one_switch(2).expect("two nodes fit").build();
    let network = NetworkConfig::default();
    let setup = Setup { hardware: Hardware::new(&network, topology, NicConfig::bxi_v2()), places: &places };
    let mut world = World::whole(setup, |_| Nothing).expect("the default network");
    let alloc = || Command::PtAlloc { pt: 4, options: 0, eq: EqId::NONE };
    world.submit(1, Rail::FIRST, SimTime::from_us(1), alloc());
    world.drain();
    assert_eq!(world.error(), None);
    // Both are on their way when the NIC looks at the first one.
    world.submit(1, Rail::FIRST, SimTime::from_us(2), alloc());
    world.drain();
    assert_eq!(world.take_error(), Some((1, CommandError::PtInUse(4))));
}
