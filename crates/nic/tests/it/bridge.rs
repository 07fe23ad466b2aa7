//! Puts that pass a gateway: the target's NIC takes each once, whoever brings it.

use crate::common::*;
use narrows_portals::bridge::{Envelope, Forward};
use narrows_portals::*;

/// Of node 3, brought by node 0 or 1 to node 2.
fn bring(sim: &mut Sim, by: u32, length: u64, sequence: u32) {
    let (initiator, target) = (sim.places[3], sim.places[2]);
    let envelope =
        Envelope { initiator, target, pt: PT, done_pt: 3, match_bits: 1, hdr_data: u64::from(by), offset: 0, sequence, order: 0 };
    let forward = Forward { local: local(0), length, envelope, via: None };
    sim.command(by, Command::Forward(Box::new(forward)));
}

fn acks(sim: &mut Sim, of: u32) -> Vec<FailType> {
    sim.events(of).iter().filter(|event| event.kind == EventKind::Ack).map(|event| event.fail).collect()
}

/// When a process first saw an event of a kind.
fn when(sim: &Sim, of: u32, wanted: EventKind) -> Option<narrows_units::SimTime> {
    let kind = |notice: &Notice| if let Notice::Event { event, .. } = notice { Some(event.kind) } else { None };
    sim.world.seen.iter().find(|(_, process, notice)| process.0 == of && kind(notice) == Some(wanted)).map(|&(at, ..)| at)
}

#[test]
fn a_copy_is_acknowledged_when_the_first_is_there() {
    let mut sim = Sim::ready(config(), 4, 1, pt::RETRY);
    sim.append(2, entry(1, 0, 1 << 18));
    sim.fill(0, 0, 200_000, 5);
    bring(&mut sim, 0, 200_000, 0);
    while sim.world.transfers.is_empty() {
        sim.step();
    }
    let head = sim.world.transfers[0].0 + sim.world.latency;
    sim.run_until(head);
    // All of this one is there long before the other one's last byte.
    bring(&mut sim, 1, 8, 0);
    sim.run();
    sim.check(2, 0, 200_000, 5);
    let put = when(&sim, 2, EventKind::Put).unwrap();
    let (first, copy) = (when(&sim, 0, EventKind::Ack).unwrap(), when(&sim, 1, EventKind::Ack).unwrap());
    let apart = copy.saturating_sub(first).max(first.saturating_sub(copy));
    assert!(apart < ns(100), "both are told at once: {first} and {copy}, of what was there at {put}");
    assert_eq!((acks(&mut sim, 0), acks(&mut sim, 1)), (vec![FailType::Ok], vec![FailType::Ok]));
    let told: Vec<(u64, u64)> = sim.events(2).iter().map(|event| (event.hdr_data, event.mlength)).collect();
    assert_eq!(told, [(0, 200_000)], "the target is told once");
    // One more, behind both.
    bring(&mut sim, 1, 8, 0);
    sim.run();
    assert_eq!((acks(&mut sim, 1), sim.events(2).len()), (vec![FailType::Ok], 0));
    sim.check_idle();
}

#[test]
fn what_found_no_room_may_come_again() {
    let mut sim = Sim::ready(config(), 4, 1, 0);
    sim.fill(1, 0, 64, 6);
    bring(&mut sim, 0, 64, 0);
    sim.run();
    assert_eq!(acks(&mut sim, 0), [FailType::Dropped]);
    let once = MatchEntry { options: me::OP_PUT | me::USE_ONCE, ..entry(1, 0, 64) };
    sim.append(2, once);
    bring(&mut sim, 1, 64, 0);
    sim.run();
    assert_eq!(acks(&mut sim, 1), [FailType::Ok]);
    sim.check(2, 0, 64, 6);
    // There is no room now, but this one is there.
    bring(&mut sim, 0, 64, 0);
    bring(&mut sim, 0, 64, 1);
    sim.run();
    assert_eq!(acks(&mut sim, 0), [FailType::Ok, FailType::Dropped]);
    let puts = sim.events(2).iter().filter(|event| event.kind == EventKind::Put).count();
    assert_eq!(puts, 1);
    sim.check_idle();
}
