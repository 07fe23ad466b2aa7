//! Ranks without MPI: this test program starts itself as the ranks of a run and lets them talk
//! through the guest, so that windows, clocks and hand-overs are tested without any MPI library.

#![allow(clippy::unwrap_used)]

use narrows_channel::{Mapping, Processor, Settings};
use narrows_fabric::NetworkConfig;
use narrows_guest::{hooks, session};
use narrows_live::{Options, Report};
use narrows_message::{MessageConfig, Protocol, Rails, Rendezvous};
use narrows_mpicalls::by_name;
use narrows_nic::NicConfig;
use narrows_portals::{AckRequest, Command, EntryId, EqId, EventKind, List, LocalBuffer, MatchEntry, NodeId, ProcessId, RemoteTarget, me};
use narrows_sim::{Hardware, Setup};
use narrows_topology::FatTree;
use std::os::fd::AsRawFd;
use std::time::Duration;

const EQ: EqId = EqId(0);

fn call(name: &str) -> u32 {
    by_name(name).unwrap_or_else(|| panic!("{name} is an MPI function"))
}

fn in_call(name: &str, work: impl FnOnce()) {
    hooks::mpi_enter(call(name), -1, -1, 0, 0);
    work();
    hooks::mpi_leave(call(name), false);
}

fn put(to: ProcessId, payload: &[u8]) {
    let local = LocalBuffer { options: narrows_portals::md::EVENT_SEND_DISABLE, eq: EQ, ..LocalBuffer::default() };
    let target = RemoteTarget { process: to, pt: 0, match_bits: 0, offset: 0 };
    session().unwrap().submit(Command::Put {
        local,
        length: payload.len() as u64,
        inline: Some(payload.into()),
        ack: AckRequest::None,
        target,
        hdr_data: 7,
    });
}

fn await_put() {
    in_call("MPI_Recv", || {
        loop {
            let event = session().unwrap().eq_get(&[EQ]);
            if let Some((_, event)) = event {
                assert_eq!(event.kind, EventKind::Put);
                break;
            }
        }
    });
}

/// What a rank does; chosen by the environment.
#[test]
fn rank_main() {
    let Ok(scenario) = std::env::var("NARROWS_SCENARIO") else { return };
    let own = std::env::var("NARROWS_RANK").unwrap();
    // It leaves before MPI_Init.
    if scenario == "missing" {
        narrows_guest::life::born();
        if own == "1" {
            narrows_guest::life::exits(0);
            std::process::exit(0);
        }
    }
    // A Portals program, one rank of which asks its NIC for what there is not.
    if scenario == "refused" {
        session().unwrap().program_starts();
        if own == "0" {
            session().unwrap().submit(Command::EqFree { eq: EqId(7) });
        }
        return;
    }
    let buffer = Box::leak(Box::new([0u8; 64]));
    hooks::mpi_enter(call("MPI_Init"), -1, -1, 0, 0);
    let (rank, ranks, next, previous) = {
        let mut session = session().unwrap();
        session.submit(Command::EqAlloc { eq: EQ, count: 64 });
        session.submit(Command::PtAlloc { pt: 0, options: 0, eq: EQ });
        let entry = MatchEntry {
            start: buffer.as_mut_ptr() as u64,
            length: 64,
            options: me::OP_PUT | me::EVENT_LINK_DISABLE,
            ignore_bits: u64::MAX,
            ..MatchEntry::default()
        };
        session.submit(Command::MeAppend { entry: EntryId(1), pt: 0, list: List::Priority, me: entry });
        session.endpoint_open();
        let (rank, ranks) = (session.rank(), session.ranks());
        (rank, ranks, session.process_of((rank + 1) % ranks).unwrap(), session.process_of((rank + ranks - 1) % ranks).unwrap())
    };
    hooks::mpi_leave(call("MPI_Init"), false);
    match scenario.as_str() {
        // A token goes round the ring.
        "ring" => {
            for round in 0..200u8 {
                if rank == 0 {
                    put(next, &[round; 8]);
                    await_put();
                    assert_eq!(buffer[..8], [round; 8]);
                } else {
                    await_put();
                    assert_eq!(buffer[..8], [round; 8]);
                    put(next, &[round; 8]);
                }
            }
        }
        // Each fetches long data of the next one, which changes them as soon as it may.
        "get" => {
            const LONG: usize = 200_000;
            let (mut given, taken) = (vec![rank as u8; LONG], vec![0u8; LONG]);
            let entry = MatchEntry {
                start: given.as_mut_ptr() as u64,
                length: LONG as u64,
                options: me::OP_GET | me::EVENT_LINK_DISABLE,
                match_bits: 1,
                ..MatchEntry::default()
            };
            session().unwrap().submit(Command::PtAlloc { pt: 1, options: 0, eq: EQ });
            session().unwrap().submit(Command::MeAppend { entry: EntryId(2), pt: 1, list: List::Priority, me: entry });
            for round in 0..50u8 {
                put(previous, &[round; 8]);
                await_put();
                let local = LocalBuffer { address: taken.as_ptr() as u64, eq: EQ, ..LocalBuffer::default() };
                let target = RemoteTarget { process: next, pt: 1, match_bits: 1, offset: 0 };
                session().unwrap().submit(Command::Get { local, length: LONG as u64, target });
                in_call("MPI_Waitall", || {
                    let (mut given_away, mut here) = (false, false);
                    while !(given_away && here) {
                        let Some((_, event)) = session().unwrap().eq_get(&[EQ]) else { continue };
                        match event.kind {
                            EventKind::Get => {
                                given.fill(rank as u8 + round + 1);
                                given_away = true;
                            }
                            EventKind::Reply => here = true,
                            kind => panic!("{kind:?}"),
                        }
                    }
                });
                let expected = ((rank + 1) % ranks) as u8 + round;
                assert!(std::hint::black_box(&taken).iter().all(|&byte| byte == expected), "round {round}");
            }
        }
        // Both wait for the other.
        "deadlock" => await_put(),
        // The last rank dies in the middle.
        "killed" => {
            if rank == ranks - 1 {
                // SAFETY: ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            await_put();
        }
        "exit" => {
            if rank == 0 {
                narrows_guest::life::exits(3);
                std::process::exit(3);
            }
            await_put();
        }
        other => panic!("no scenario {other}"),
    }
    hooks::mpi_enter(call("MPI_Finalize"), -1, -1, 0, 0);
    while hooks::at_door() {}
    hooks::mpi_leave(call("MPI_Finalize"), false);
}

fn run(scenario: &str, ranks: u32) -> Report {
    let ids: Vec<ProcessId> = NodeId::first(ranks).map(|node| ProcessId::on(node, 1)).collect();
    let processor = Processor { cores: 1, poll_ps: 50_000, ..Processor::default() };
    let (mapping, fd) = Mapping::create(ranks, Settings::default()).expect("memory for the channel");
    for (rank, &id) in ids.iter().enumerate() {
        mapping.place(rank as u32, id, &format!("node{rank}"), processor).unwrap();
    }
    let topology = FatTree::one_switch(ranks).unwrap().build();
    let network = NetworkConfig::default();
    let setup = Setup { hardware: Hardware::new(&network, topology, NicConfig::bxi_v2()), places: &ids };
    let message = MessageConfig {
        protocol: Protocol::Openmpi,
        rails: Rails::default(),
        eager_limit: 0,
        inject_limit: 0,
        rendezvous: Rendezvous::Get,
        overflow_block: 1,
        overflow_blocks: 1,
        max_portals_message: 1,
    };
    let world = narrows_live::world(setup, &mapping, &message, None, 1).unwrap();
    let script = "n=$1; exe=$2; i=0; while [ $i -lt $n ]; do NARROWS_RANK=$i \"$exe\" --exact rank_main --nocapture >/dev/null & i=$((i+1)); done; wait";
    let mut launcher = std::process::Command::new("sh");
    launcher.args(["-c", script, "sh", &ranks.to_string()]).arg(std::env::current_exe().unwrap());
    launcher.env("NARROWS_CHANNEL", format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
    launcher.env("NARROWS_SCENARIO", scenario);
    let hosts = (0..ranks).map(|rank| format!("node{rank}")).collect();
    let options = Options { timeout: Some(Duration::from_secs(60)), hosts, ..Options::default() };
    narrows_live::run(&mapping, world, launcher, options)
}

/// One after the other: the death of a rank is looked for among all children of this process.
#[test]
fn whole_runs() {
    if std::env::var_os("NARROWS_SCENARIO").is_some() {
        return;
    }
    let first = run("ring", 4);
    assert_eq!(first.failure, None);
    assert_eq!((first.totals.messages, first.totals.bytes), (800, 6400), "200 rounds of 4 puts of 8 bytes");
    let again = run("ring", 4);
    assert_eq!(again.failure, None);
    assert_eq!((again.digest, again.simulated, again.totals.events), (first.digest, first.simulated, first.totals.events));
    // A put of 8 bytes takes about 1.2 us (portals4.md section 5); no software costs here.
    let per_hop = first.simulated.as_ns_f64() / 800.0;
    println!("a put takes {per_hop:.1} ns, {} crossings for 800 waits", first.crossings);
    assert!((1_000.0..1_500.0).contains(&per_hop), "{per_hop} ns");
    assert!(first.crossings <= 2 * 800 + 64, "{} crossings", first.crossings);

    let get = run("get", 4);
    assert_eq!(get.failure, None);
    assert_eq!(get.digest, run("get", 4).digest);

    let deadlock = run("deadlock", 3).failure.expect("everybody waits").message;
    assert!(deadlock.contains("deadlock") && deadlock.contains("rank 2 on node2: MPI_Recv"), "{deadlock}");

    let killed = run("killed", 2).failure.expect("rank 1 is dead").message;
    assert!(killed.contains("rank 1 on node1 was killed by SIGKILL"), "{killed}");

    let missing = run("missing", 3).failure.expect("rank 1 is not there");
    assert_eq!(missing.message, "rank 1 on node1 exited with code 0 before MPI_Init, where others wait for it");
    assert_eq!(missing.exit_code, 1);

    let refused = run("refused", 2);
    assert_eq!(refused.failure, None);
    assert!(refused.started);

    let exited = run("exit", 2).failure.expect("rank 0 has left");
    assert!(exited.message.contains("rank 0 on node0 exited with code 3 before MPI_Finalize"), "{}", exited.message);
    assert_eq!(exited.exit_code, 3);
}
