//! The Portals library of a replayed rank: what [`narrows_message::Transport`] asks for, done by the simulated NIC
//! itself.

use crate::machine::Word;
use narrows_machine::Software;
use narrows_message::Transport;
use narrows_nic::NicConfig;
use narrows_portals::bridge::Forward;
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, List, LocalBuffer, MatchEntry, NO_TICKET, RemoteTarget, ReplyCode, SearchOperation,
};
use narrows_sim::Requests;
use narrows_units::{ByteRate, Bytes, Rail, SimTime};

/// Costs of the software on a rank's core: those that a live rank is charged.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Of a command to the NIC.
    pub post: SimTime,
    /// Of a completion.
    pub completion: SimTime,
    /// Of copies inside the process.
    pub copy: ByteRate,
    /// Of combining what came with what is there.
    pub reduce: SimTime,
    /// ... and of each 1,024 bytes of it.
    pub reduce_per_kib: SimTime,
    /// Longest put whose payload goes with the command.
    pub pio_limit: u64,
}

impl Costs {
    /// Of this software above this NIC.
    pub fn of(software: &Software, nic: &NicConfig) -> Costs {
        let pio_limit = nic.pio_limit.get();
        Costs {
            post: software.post,
            completion: software.completion,
            copy: software.copy_bandwidth,
            reduce: software.reduce,
            reduce_per_kib: software.reduce_per_kib,
            pio_limit,
        }
    }
}

/// What a rank's Portals library remembers.
#[derive(Debug, Default)]
pub struct Library {
    next_entry: u64,
    next_address: u64,
    next_ticket: u32,
    /// Entries whose unlinking is on its way to the NIC, by ticket.
    unlinking: Vec<(u32, EntryId)>,
}

impl Library {
    /// The entry whose unlinking has been answered.
    pub fn unlinked(&mut self, ticket: u32) -> Option<EntryId> {
        let at = self.unlinking.iter().position(|place| place.0 == ticket)?;
        Some(self.unlinking.remove(at).1)
    }
}

/// Payloads that go with commands: NICs look at their lengths alone. Short ones are used again, so that most messages
/// take no memory of their own.
#[derive(Debug, Default)]
pub struct Payloads(Vec<Box<[u8]>>);

impl Payloads {
    /// Most that are kept, and the longest. Our own choice: 16 KiB per region.
    const MOST: usize = 256;
    const LONGEST: usize = 64;

    fn take(&mut self, length: u64) -> Box<[u8]> {
        self.0.pop_if(|last| last.len() as u64 == length).unwrap_or_else(|| vec![0; length as usize].into_boxed_slice())
    }

    /// A NIC has taken it.
    pub fn give_back(&mut self, payload: Box<[u8]>) {
        if payload.len() <= Self::LONGEST {
            self.0.truncate(Self::MOST - 1);
            self.0.push(payload);
        }
    }
}

/// A rank at its library, for as long as a call takes.
pub struct Port<'a> {
    /// The simulation.
    pub world: &'a mut dyn Requests<Word>,
    /// Which rank.
    pub rank: u32,
    /// Its clock.
    pub clock: &'a mut SimTime,
    /// Its library.
    pub library: &'a mut Library,
    /// Of all ranks of a region.
    pub payloads: &'a mut Payloads,
    /// What calls cost.
    pub costs: Costs,
    /// The first rail of all ranks.
    pub first: Rail,
    /// See [`Transport::by_firmware`].
    pub by_firmware: bool,
}

/// Where the number of an entry has its rail.
const RAIL_SHIFT: u32 = 56;

impl Port<'_> {
    /// A command to the NIC on a rail that costs nothing.
    pub fn submit(&mut self, rail: Rail, command: Command) {
        self.world.submit(self.rank, rail, *self.clock, command);
    }

    fn post(&mut self, rail: Rail, command: Command) {
        if !self.by_firmware {
            *self.clock += self.costs.post;
        }
        self.submit(rail, command);
    }
}

impl Transport for Port<'_> {
    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        let entry = EntryId(u64::from(rail.0) << RAIL_SHIFT | self.library.next_entry);
        self.library.next_entry += 1;
        self.post(rail, Command::MeAppend { entry, pt, list, me });
        entry
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        self.library.next_ticket += 1;
        let ticket = self.library.next_ticket;
        self.library.unlinking.push((ticket, entry));
        self.post(Rail((entry.0 >> RAIL_SHIFT) as u8), Command::MeUnlink { entry, ticket });
        None
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        self.post(self.first, Command::MeSearch { pt, operation, me });
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        // As libportals and the libfabric provider do: payloads that must be copied go with the command, longer ones
        // than PIO takes need that time. The NIC looks at their length only.
        if copy_now && length > self.costs.pio_limit {
            *self.clock += self.costs.copy.time_for(Bytes(length));
        }
        let inline = (length > 0 && copy_now).then(|| self.payloads.take(length));
        self.post(rail, Command::Put { local, length, inline, ack, target, hdr_data });
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.post(rail, Command::Get { local, length, target });
    }

    fn forward(&mut self, rail: Rail, forward: Forward) {
        self.post(rail, Command::Forward(Box::new(forward)));
    }

    fn handed_over(&mut self) {
        *self.clock += self.costs.post;
    }

    fn works(&mut self, time: SimTime) {
        *self.clock += time;
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.by_firmware = by_firmware;
    }

    fn drop_unmatched(&mut self, pt: u32) {
        self.submit(self.first, Command::PtFree { pt, ticket: NO_TICKET });
        self.submit(self.first, Command::PtAlloc { pt, options: 0, eq: EQ });
    }

    fn copy(&mut self, _: u64, _: u64, length: u64) {
        *self.clock += self.costs.copy.time_for(Bytes(length));
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        self.copy(from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        // Addresses that nothing is behind.
        self.library.next_address += length;
        self.library.next_address
    }
}

/// The event queue of a rank.
pub const EQ: EqId = EqId(0);
