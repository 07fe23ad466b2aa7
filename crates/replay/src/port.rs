//! The Portals library of a replayed rank: what [`narrows_message::Port`] asks for, done by the simulated NIC itself.

use crate::machine::Word;
use narrows_machine::Software;
use narrows_message::{Library, Numbers, Port};
use narrows_nic::NicConfig;
use narrows_portals::{Command, EqId};
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

/// What a rank's library has given: numbers, and addresses that nothing is behind.
#[derive(Debug, Default)]
pub struct Given {
    /// Of entries and tickets.
    pub numbers: Numbers,
    addresses: u64,
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

/// A rank's way to its NIC, for as long as a call takes.
pub struct RankLibrary<'a> {
    world: &'a mut dyn Requests<Word>,
    rank: u32,
    clock: &'a mut SimTime,
    addresses: &'a mut u64,
    payloads: &'a mut Payloads,
    costs: Costs,
    /// See [`narrows_message::Transport::by_firmware`].
    by_firmware: bool,
}

/// A rank at its library. `payloads` are those of all ranks of a region, `first` is the first rail of all ranks.
#[inline]
pub fn port<'a>(
    world: &'a mut dyn Requests<Word>,
    (rank, clock, given): (u32, &'a mut SimTime, &'a mut Given),
    payloads: &'a mut Payloads,
    costs: Costs,
    first: Rail,
) -> Port<'a, RankLibrary<'a>> {
    let Given { numbers, addresses } = given;
    Port::new(RankLibrary { world, rank, clock, addresses, payloads, costs, by_firmware: false }, numbers, (EQ, 0), first)
}

impl Library for RankLibrary<'_> {
    fn post(&mut self, rail: Rail, command: Command) {
        if !self.by_firmware {
            *self.clock += self.costs.post;
        }
        self.open(rail, command);
    }

    fn open(&mut self, rail: Rail, command: Command) {
        self.world.submit(self.rank, rail, *self.clock, command);
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

    fn payload(&mut self, _: u64, length: u64) -> Option<Box<[u8]>> {
        Some(self.payloads.take(length))
    }

    fn has_copied(&mut self, length: u64) {
        if length > self.costs.pio_limit {
            *self.clock += self.costs.copy.time_for(Bytes(length));
        }
    }

    fn copy(&mut self, _: u64, _: u64, length: u64) {
        *self.clock += self.costs.copy.time_for(Bytes(length));
    }

    fn fill(&mut self, _: Option<&[u8]>, from: u64, to: u64, length: u64) {
        self.copy(from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        *self.addresses += length;
        *self.addresses
    }
}

/// The event queue of a rank.
pub const EQ: EqId = EqId(0);
