//! What the message layer itself costs per message, in nanoseconds of this machine: a Portals
//! library that does nothing, and events made by hand. `cargo bench -p narrows-message`.

#![allow(clippy::print_stdout)] // people read it

use narrows_message::{Completes, Endpoint, MessageConfig, Protocol, Queue, Rails, Receive, Rendezvous, Send, Transport};
use narrows_portals::{
    AckRequest, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, NodeId, ProcessId, RemoteTarget, ReplyCode,
    SearchOperation,
};
use narrows_units::Rail;
use std::time::Instant;

/// Remembers the last `user_ptr`, as a NIC would.
#[derive(Default)]
struct Last {
    user_ptr: u64,
    memory: u64,
}

impl Transport for Last {
    fn me_append(&mut self, _: Rail, _: u32, _: List, me: MatchEntry) -> EntryId {
        self.user_ptr = me.user_ptr;
        EntryId(0)
    }
    fn me_unlink(&mut self, _: EntryId) -> Option<ReplyCode> {
        Some(ReplyCode::Ok)
    }
    fn me_search(&mut self, _: u32, _: SearchOperation, me: MatchEntry) {
        self.user_ptr = me.user_ptr;
    }
    fn put(&mut self, _: Rail, local: LocalBuffer, _: u64, _: bool, _: AckRequest, _: RemoteTarget, _: u64) {
        self.user_ptr = local.user_ptr;
    }
    fn get(&mut self, _: Rail, local: LocalBuffer, _: u64, _: RemoteTarget) {
        self.user_ptr = local.user_ptr;
    }
    fn drop_unmatched(&mut self, _: u32) {}
    fn copy(&mut self, _: u64, _: u64, _: u64) {}
    fn fill(&mut self, _: u64, _: u64, _: u64) {}
    fn allocate(&mut self, length: u64) -> u64 {
        self.memory += length;
        self.memory
    }
}

fn event(kind: EventKind, user_ptr: u64, length: u64) -> Event {
    Event {
        kind,
        fail: FailType::Ok,
        list: List::Priority,
        pt: 0,
        initiator: ProcessId::on(NodeId(0), 1),
        start: 0,
        user_ptr,
        hdr_data: 0,
        match_bits: 1,
        rlength: length,
        mlength: length,
        remote_offset: 0,
        atomic: None,
    }
}

fn main() {
    let config = MessageConfig {
        protocol: Protocol::Openmpi,
        rails: Rails::default(),
        eager_limit: 8192,
        inject_limit: 64,
        rendezvous: Rendezvous::Get,
        overflow_block: 1 << 20,
        overflow_blocks: 4,
        max_portals_message: 64 << 20,
    };
    let target = ProcessId::on(NodeId(1), 1);
    let mut portals = Last::default();
    let mut endpoint = Endpoint::new(config, EqId(0), ProcessId::on(NodeId(0), 1), &mut portals);
    let rounds = 5_000_000u32;
    let send = Send {
        queue: Queue::Tagged,
        target,
        tag: 1,
        data: Some(1),
        buffer: 0,
        length: 8,
        context: 1,
        inject: false,
        completes: Completes::BufferFree,
    };
    let receive = Receive {
        queue: Queue::Tagged,
        source: None,
        tag: 1,
        ignore: 0,
        buffer: 0,
        length: 1 << 20,
        context: 2,
        completion: true,
        multi: None,
        execution: 0,
    };
    let mut seen = 0u64;
    let mut measure = |name: &str, round: &mut dyn FnMut(&mut Endpoint, &mut Last)| {
        let start = Instant::now();
        for _ in 0..rounds {
            round(&mut endpoint, &mut portals);
            seen += u64::from(endpoint.next_completion().is_some());
        }
        println!("{name}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
    };
    measure("eager send, SEND event, completion", &mut |endpoint, portals| {
        endpoint.send(portals, send).expect("one request is open");
        let done = event(EventKind::Send, portals.user_ptr, 8);
        endpoint.event(portals, done).expect("it belongs to an open request");
    });
    measure("receive, PUT event, completion", &mut |endpoint, portals| {
        endpoint.receive(portals, receive).expect("one request is open");
        let done = event(EventKind::Put, portals.user_ptr, 8);
        endpoint.event(portals, done).expect("it belongs to an open request");
    });
    measure("receive, announcement, get, REPLY event, completion", &mut |endpoint, portals| {
        endpoint.receive(portals, receive).expect("one request is open");
        let announced = Event { match_bits: 1 << 63 | 1, remote_offset: 1 << 20, ..event(EventKind::Put, portals.user_ptr, 0) };
        endpoint.event(portals, announced).expect("it belongs to an open request");
        let done = event(EventKind::Reply, portals.user_ptr, 1 << 20);
        endpoint.event(portals, done).expect("it belongs to an open request");
    });
    assert_eq!(seen, 3 * u64::from(rounds));
}
