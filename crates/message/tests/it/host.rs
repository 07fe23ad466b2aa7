//! The endpoints of a process that lives elsewhere.

use narrows_message::{Call, Completes, Host, Library, MessageConfig, Protocol, PscomConfig, Queue, Rails, Rendezvous, Send};
use narrows_portals::{Command, EqId, ProcessId};
use narrows_units::Rail;

/// A process whose NIC only remembers.
#[derive(Default)]
struct Process {
    commands: Vec<Command>,
    filled: Vec<Option<Vec<u8>>>,
    allocated: u64,
}

impl Library for &mut Process {
    fn post(&mut self, _: Rail, command: Command) {
        self.commands.push(command);
    }
    fn open(&mut self, rail: Rail, command: Command) {
        self.post(rail, command);
    }
    fn has_copied(&mut self, _: u64) {}
    fn copy(&mut self, _: u64, _: u64, _: u64) {}
    fn fill(&mut self, bytes: Option<&[u8]>, _: u64, _: u64, _: u64) {
        self.filled.push(bytes.map(<[u8]>::to_vec));
    }
    fn allocate(&mut self, length: u64) -> u64 {
        self.allocated += length;
        self.allocated
    }
}

#[test]
fn data_that_came_with_the_call_are_taken_while_a_connection_is_made() {
    let config = MessageConfig {
        protocol: Protocol::Pscom(PscomConfig { buffer: 64, receive_buffers: 2, send_buffers: 2, rendezvous_requests: 1, fragment: 64 }),
        rails: Rails::default(),
        eager_limit: 100,
        inject_limit: 64,
        rendezvous: Rendezvous::Put,
        overflow_block: 100,
        overflow_blocks: 1,
        max_portals_message: 100,
    };
    let (eq, mut process) = (EqId(1), Process::default());
    let mut host = Host::new(ProcessId { nid: 1, pid: 1 });
    host.call(&config, &mut process, eq, Call::Open { base: 0 }, None).unwrap();
    let send = Send {
        queue: Queue::Tagged,
        target: ProcessId { nid: 2, pid: 1 },
        tag: 1,
        data: None,
        buffer: 0x1000,
        length: 3,
        context: 1,
        inject: true,
        completes: Completes::Never,
    };
    host.call(&config, &mut process, eq, Call::Send(send), Some(Box::from([7, 8, 9]))).unwrap();
    assert_eq!(process.filled, [Some(vec![7, 8, 9])]);
    // The word that asks for the connection has no data.
    assert!(matches!(process.commands.last(), Some(Command::Put { length: 0, inline: None, .. })));
}
