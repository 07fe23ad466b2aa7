//! NICs as state machines: commands of processes and headers from the network in, actions out. No clock, no thread, no
//! memory access inside. The NIC at one end of a message knows of the other end what its header says.
//!
//! | module | what |
//! |---|---|
//! | `kind` | [`Nic`]: what a kind of NIC is; [`Directory`]: where processes are |
//! | `out` | [`Out`] and [`Memory`]: what a NIC asks of its surroundings |
//! | `portals` | [`Portals`], the Portals 4 NIC: commands; in `initiator` and `target` the way of a message through the stages, in `message` its two halves and what travels between them; in `handlers` what runs on packets of puts, where something does |
//! | `kinds` | [`AnyNic`]: one of the kinds that there are, in a table: [`Mailbox`], which only stores and forwards (what a new kind starts from); [`Tcp`] over Ethernet, the operating system's stack at both ends; [`Exanet`], packetizer and mailbox, RDMA with firmware; [`Carvnet`], RDMA by an engine in hardware; [`Apenetx`], descriptors over PCIe |
//! | `accelerator` | [`Block`] and [`Vector`]: ExaNeSt's allreduces |
//! | `engine` | [`Engine`]: Portals over a NIC that does not match ([`Below`]) |
//! | `nics` | [`Nics`]: those of all nodes of a machine |
//! | `wire` | [`Wire`]: the headers under way, beside a network that knows numbers only |
//! | `pipeline` | what is busy until when: PCIe, transmit pipelines, matching unit |
//! | `config` | [`NicConfig`]: timings and sizes, and the stages of a put added up |
//! | `statistics` | [`Statistics`] |
//! | `error` | [`Refusal`] |
//!
//! What a message does to the lists of its target is in [`narrows_matching`].
//!
//! # Example
//!
//! Process 0 puts eight bytes to process 1 on the next node. The network of this example needs
//! 400 ns for everything; the sum is that of [`NicConfig`].
//!
//! ```
//! use narrows_engine::EventQueue;
//! use narrows_fabric::Notice as Network;
//! use narrows_nic::*;
//! use narrows_portals::*;
//! use narrows_units::{NodeId, PortId, Rail, SimTime};
//!
//! enum Due { Nic(PortId, Event), Network(Network), Shortcut(PortId, AnyHeader) }
//!
//! #[derive(Default)]
//! struct World {
//!     queue: EventQueue<Due>,
//!     wire: Wire<AnyHeader>,
//!     seen: Vec<(SimTime, Process, Notice)>,
//!     memory: Vec<u8>,
//! }
//!
//! impl Out<AnyNic> for World {
//!     fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
//!         self.queue.schedule(at, port.0, Due::Nic(port, event));
//!     }
//!     fn depart(&mut self, port: PortId, departure: Departure<AnyHeader>) {
//!         let (id, at) = (self.wire.depart(port, departure).id, self.queue.now() + SimTime::from_ns(400));
//!         for notice in [Network::SourceDone(id), Network::HeadArrived(id), Network::TailArrived(id)] {
//!             self.queue.schedule(at, 100, Due::Network(notice));
//!         }
//!     }
//!     fn shortcut(&mut self, at: SimTime, _: PortId, to: PortId, header: AnyHeader) {
//!         self.queue.schedule(at, 200 + to.0, Due::Shortcut(to, header));
//!     }
//!     fn notify(&mut self, _: PortId, process: Process, notice: Notice) {
//!         self.seen.push((self.queue.now(), process, notice));
//!     }
//! }
//! impl Memory for World {
//!     fn reserve(&mut self) -> PayloadId { PayloadId(0) }
//!     fn capture(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> { Ok(()) }
//!     fn inline(&mut self, _: PayloadId, payload: Box<[u8]>) { self.memory = payload.into_vec(); }
//!     fn deliver(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> { Ok(()) }
//!     fn combine(&mut self, _: PayloadId, _: Process, _: Place, _: u64, _: &Combine) -> Result<(), Fault> { Ok(()) }
//!     fn release(&mut self, _: PayloadId) {}
//! }
//! impl Wired<AnyNic> for World {
//!     fn wire(&mut self) -> &mut Wire<AnyHeader> { &mut self.wire }
//! }
//!
//! let places = [ProcessId::on(NodeId(0), 1), ProcessId::on(NodeId(1), 1)];
//! let mut nics = Nics::new(NicConfig::bxi_v2(), 2, &places);
//! let mut world = World::default();
//! let (eq, ct) = (EqId(0), CtId::NONE);
//! let entry = MatchEntry { length: 8, match_bits: 7, options: me::OP_PUT | me::EVENT_LINK_DISABLE,
//! ..Default::default() }; let local = LocalBuffer { ct, ..LocalBuffer::default() };
//! let target = RemoteTarget { process: places[1], pt: 4, match_bits: 7, offset: 0 };
//! for (process, at, command) in [
//!     (1, 0, Command::EqAlloc { eq, count: 16 }),
//!     (1, 0, Command::PtAlloc { pt: 4, options: 0, eq }),
//!     (1, 0, Command::MeAppend { entry: EntryId(1), pt: 4, list: List::Priority, me: entry }),
//!     (0, 1, Command::Put { local, length: 8, inline: Some(Box::new(*b"narrows!")), ack: AckRequest::None, target,
//!     hdr_data: 0 }),
//! ] {
//!     nics.command(SimTime::from_us(at), Process(process), Rail::FIRST, command, &mut world).unwrap();
//! }
//! while let Some((now, due)) = world.queue.pop() {
//!     match due {
//!         Due::Nic(port, event) => nics.handle(now, port, event, &mut world),
//!         Due::Shortcut(port, header) => nics.arrive(now, port, &header, &mut world),
//!         Due::Network(notice) => nics.network(now, notice, &mut world),
//!     }
//! }
//! let (at, process, notice) = world.seen[0];
//! assert!(process == Process(1) && matches!(notice, Notice::Event { event, .. } if event.kind == EventKind::Put));
//! assert_eq!(world.memory, b"narrows!");
//! // 304.1 command, 400 network, 2 matching, 306.1 event
//! assert_eq!((at - SimTime::from_us(1)).as_ps(), 1_012_160);
//! ```
//!
//! # What is modelled, and where the specification leaves a choice
//!
//! Puts, gets and atomics, matching lists, searches, full and counting events, every kind of ACK,
//! triggered operations, flow control, permissions, status registers, scatter-gather lists. An event queue
//! that overflows is the library's business, but for flow control, which ends before the queue is full.
//!
//! * A header is in the unexpected list as soon as its message has matched. An append or search
//!   that finds it while its data arrive gets its event when they are in memory.
//! * Appends and searches find headers whatever operations they accept themselves.
//! * `EVENT_COMM_DISABLE` does not silence `*_OVERFLOW` events, `EVENT_SUCCESS_DISABLE` does.
//! * AUTO_UNLINK comes when the last operation on the entry is complete: then the memory is the
//!   process's own.
//! * With `EVENT_CT_BYTES` SEND counts what was sent, ACK and REPLY what the target accepted.
//! * An ACK leaves the target when the payload has gone to PCIe, where nothing passes it.
//! * One process's messages to another match in the order in which they were issued. Their writes are ordered up to
//!   [`narrows_portals::NiLimits::max_waw_ordered_size`] (BXI: 0), what gets read is not (`max_war_ordered_size` is 0).
//! * A request has a place in the end-to-end window ([`NicConfig::max_outstanding`]) until its answer is back: an ACK,
//!   the data of a get, or, where there is no other or none yet, the 32 bytes of the target's end-to-end layer
//!   (facts.md 4.3), which are sent as soon as all of the request is there. The networks lose nothing, so nothing is
//!   sent again. There may be fewer places for one target node or process ([`NicConfig::max_in_flight_to_node`],
//!   [`NicConfig::max_in_flight_to_process`]); what finds none waits, and others pass it.
//! * A portal table entry with [`narrows_portals::pt::RETRY`] refuses what finds no entry, and all
//!   that the same initiator sends to it afterwards. `retry_interval` after an append, a freed
//!   header slot or an enabling, the initiators try again, oldest message first. The repetition
//!   loads neither network nor PCIe again, and a message that waits for it has left the window of
//!   `max_outstanding`: a full target never stops traffic to others.

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod accelerator;
mod config;
mod engine;
mod error;
mod kind;
mod kinds;
mod nics;
mod out;
mod pipeline;
mod portals;
mod statistics;
mod wire;

pub use narrows_matching::{CommandError, MAX_LENGTH, MAX_PT_INDEX, Status};
pub use narrows_portals::Process;
pub use narrows_spin::{HandlerReport, HandlersConfig, Rule, SpinConfig, SpinPort, SpinTotals};

pub use accelerator::{Block, Vector};
pub use config::{NicConfig, PcieDetail, Transmit};
pub use engine::{Below, Engine, Heard};
pub use error::{Denied, Refusal};
pub use kind::{Directory, Kinds, Nic, PortalsNic, Processors, Travels};
pub use kinds::*;
pub use nics::Nics;
pub use out::{Combine, Departure, Event, Fault, Memory, Out, PayloadId};
pub use portals::{About, Ends, Header, HeldMessage, Portals, Received, Request, Response};
pub use statistics::{Statistics, Troubles};
pub use wire::{Step, Wire, Wired};
