//! Layers compose: one that does nothing may stand anywhere.

use super::*;
use crate::{Completes, Endpoint, GatewayChoice, PscomConfig, Queue, Rails, Receive, Send};
use common::{Fabric, Process, default_config};
use std::collections::VecDeque;

#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../tests/it/common/mod.rs"]
mod common;
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../tests/it/common/modules.rs"]
mod modules;

const RANKS: usize = 4;

/// Gives on whatever comes.
#[derive(Debug, Default)]
struct PassThrough(VecDeque<Event>);

impl Layer for PassThrough {
    fn event(&mut self, _: &mut dyn Transport, event: &Event) -> Result<(), Stray> {
        self.0.push_back(*event);
        Ok(())
    }
    fn next_event(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

/// The NIC of a process, and what it is asked for.
struct Recorder<'a> {
    nic: Process<'a>,
    commands: &'a mut Vec<String>,
}

impl Transport for Recorder<'_> {
    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        self.commands.push(format!("append {rail:?} {pt} {list:?} {me:?}"));
        self.nic.me_append(rail, pt, list, me)
    }
    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        self.commands.push(format!("unlink {entry:?}"));
        self.nic.me_unlink(entry)
    }
    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        self.commands.push(format!("search {pt} {operation:?} {me:?}"));
        self.nic.me_search(pt, operation, me);
    }
    fn drop_unmatched(&mut self, pt: u32) {
        self.commands.push(format!("drop {pt}"));
        self.nic.drop_unmatched(pt);
    }
    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        self.commands.push(format!("put {rail:?} {local:?} {length} {copy_now} {ack:?} {target:?} {hdr_data}"));
        self.nic.put(rail, local, length, copy_now, ack, target, hdr_data);
    }
    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.commands.push(format!("get {rail:?} {local:?} {length} {target:?}"));
        self.nic.get(rail, local, length, target);
    }
    fn forward(&mut self, rail: Rail, forward: Forward) {
        self.commands.push(format!("forward {rail:?} {forward:?}"));
        self.nic.forward(rail, forward);
    }
    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.commands.push(format!("copy {from} {to} {length}"));
        self.nic.copy(from, to, length);
    }
    fn fill(&mut self, from: u64, to: u64, length: u64) {
        self.commands.push(format!("fill {from} {to} {length}"));
        self.nic.fill(from, to, length);
    }
    fn allocate(&mut self, length: u64) -> u64 {
        self.commands.push(format!("allocate {length}"));
        self.nic.allocate(length)
    }
}

/// All commands of some messages, short and long, within a node and beyond it, with layers that do nothing at these
/// places.
fn commands(config: &MessageConfig, idle: impl Fn(usize) -> bool) -> Vec<String> {
    let (mut fabric, mut commands) = (Fabric::new(RANKS), Vec::new());
    fabric.open_gates(&config.rails);
    let mut endpoints: Vec<Endpoint> = (0..RANKS)
        .map(|rank| {
            let owner = (fabric.eq(), fabric.id(rank));
            let nic = &mut Recorder { nic: fabric.process(rank), commands: &mut commands };
            let mut config = config.clone();
            config.rails = config.rails.of_process(owner.1);
            let (config, layers) = layers_of(Arc::new(config), owner, nic);
            let mut mixed = Layers::new();
            for (place, layer) in layers.into_iter().map(Some).chain([None]).enumerate() {
                if idle(place) {
                    mixed.push(Box::new(PassThrough::default()));
                }
                mixed.extend(layer);
            }
            Endpoint::above(mixed, config, owner, nic, &[Queue::Tagged, Queue::Untagged])
        })
        .collect();
    for (context, length) in [4, 40, 400].into_iter().enumerate() {
        for to in 1..RANKS {
            let (context, tag) = (context as u64, to as u64);
            let buffer = fabric.place(to, &[0; 400]);
            let receive = Receive {
                queue: Queue::Tagged,
                source: None,
                tag,
                ignore: 0,
                buffer,
                length,
                context,
                completion: true,
                multi: None,
                execution: 0,
            };
            let buffer = fabric.place(0, &[7; 400]);
            let (target, completes) = (fabric.id(to), Completes::Delivered);
            let send = Send { queue: Queue::Tagged, target, tag, data: None, buffer, length, context, inject: false, completes };
            let nic = &mut Recorder { nic: fabric.process(to), commands: &mut commands };
            endpoints[to].receive(nic, receive).expect("few are open");
            let nic = &mut Recorder { nic: fabric.process(0), commands: &mut commands };
            endpoints[0].send(nic, send).expect("few are open");
        }
    }
    let mut quiet = false;
    while !std::mem::replace(&mut quiet, true) {
        for channel in fabric.channels() {
            quiet &= !fabric.deliver(channel);
        }
        for (rank, endpoint) in endpoints.iter_mut().enumerate() {
            while let Some(event) = fabric.take(rank) {
                quiet = false;
                commands.push(format!("looks at {event:?}: {}", endpoint.only_completes(&event)));
                let nic = &mut Recorder { nic: fabric.process(rank), commands: &mut commands };
                endpoint.event(nic, event).expect("it belongs to something");
            }
            commands.extend(std::iter::from_fn(|| endpoint.next_completion()).map(|completion| format!("{rank}: {completion:?}")));
        }
    }
    for (rank, endpoint) in endpoints.iter_mut().enumerate() {
        let nic = &mut Recorder { nic: fabric.process(rank), commands: &mut commands };
        endpoint.gateway_gone(nic, 0);
        endpoint.renew(nic);
        endpoint.close(nic);
    }
    commands
}

#[test]
fn a_layer_that_does_nothing_changes_nothing_wherever_it_is() {
    let pscom = PscomConfig { buffer: 16, receive_buffers: 4, send_buffers: 4, rendezvous_requests: 2, fragment: 24 };
    let rails = [Rails::default(), Rails::bridged(modules::bridging(2, 32, 2, GatewayChoice::LeastLoaded))];
    for protocol in [Protocol::Openmpi, Protocol::Pscom(pscom)] {
        for rails in &rails {
            let config = MessageConfig { protocol, rails: rails.clone(), ..default_config() };
            let without = commands(&config, |_| false);
            let completions = without.iter().filter(|line| line.contains("Completion {")).count();
            assert_eq!(completions, 2 * 3 * (RANKS - 1), "all messages arrive");
            for places in 1..8 {
                assert_eq!(commands(&config, |place| places >> place & 1 == 1), without, "{protocol:?} {places:b}");
            }
        }
    }
}
