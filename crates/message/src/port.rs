//! [`Port`]: an endpoint at the Portals library of its process, in live runs and in replay alike.

use crate::wire::PT_RENDEZVOUS;
use crate::{Rails, Transport, portal_table};
use narrows_portals::bridge::Forward;
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, List, LocalBuffer, MatchEntry, NO_TICKET, RemoteTarget, ReplyCode, SearchOperation, me,
};
use narrows_units::{Rail, SimTime};

/// What the endpoints need of whoever has them: the way to the NIC, the memory of the process, and its clock.
pub trait Library {
    /// Gives a command to the NIC on a rail, which takes the time of one.
    fn post(&mut self, rail: Rail, command: Command);
    /// Gives one that opens something for the endpoint, which takes no time.
    fn open(&mut self, rail: Rail, command: Command);
    /// See [`Transport::handed_over`].
    fn handed_over(&mut self) {}
    /// See [`Transport::works`].
    fn works(&mut self, _time: SimTime) {}
    /// See [`Transport::by_firmware`].
    fn by_firmware(&mut self, _by_firmware: bool) {}
    /// The bytes at `from` that are to go with their command, if they did not come with the call. None: the NIC reads
    /// them as it takes the command.
    fn payload(&mut self, _from: u64, _length: u64) -> Option<Box<[u8]>> {
        None
    }
    /// The process has copied a payload that goes with its command.
    fn has_copied(&mut self, length: u64);
    /// Copies out of memory from [`Library::allocate`], which takes time.
    fn copy(&mut self, from: u64, to: u64, length: u64);
    /// Copies into such memory, which takes time: `bytes`, if they came with the call, else from the process.
    fn fill(&mut self, bytes: Option<&[u8]>, from: u64, to: u64, length: u64);
    /// See [`Transport::allocate`].
    fn allocate(&mut self, length: u64) -> u64;
}

/// Numbers of ours among those that the process gives itself; below that bit the rail.
const OUR_ENTRIES: u64 = 1 << 63;
const RAIL_SHIFT: u32 = 55;
const OUR_TICKETS: u32 = 1 << 31;

/// Numbers that the endpoints of a process have given: those of entries have bit 63, tickets count from 1.
#[derive(Debug, Default)]
pub struct Numbers {
    entry: u64,
    ticket: u32,
    /// The bit of all tickets.
    mark: u32,
    /// Entries that the NIC was told to unlink, by ticket.
    unlinking: Vec<(u32, EqId, EntryId)>,
}

impl Numbers {
    /// Of the endpoints of a process that gives tickets below 2^31 itself: theirs have bit 31.
    pub fn beside_its_own() -> Numbers {
        Numbers { mark: OUR_TICKETS, ..Numbers::default() }
    }

    /// Whose unlinking a reply with this ticket answers: the endpoint's event queue, and the entry.
    pub fn unlinked(&mut self, ticket: u32) -> Option<(EqId, EntryId)> {
        let at = self.unlinking.iter().position(|&(other, ..)| other == ticket)?;
        let (_, eq, entry) = self.unlinking.remove(at);
        Some((eq, entry))
    }
}

/// See the module's page; it lives as long as a call takes.
#[derive(Debug)]
pub struct Port<'a, L> {
    library: L,
    numbers: &'a mut Numbers,
    eq: EqId,
    /// First portal table entry.
    base: u32,
    /// The first rail of all ranks.
    first: Rail,
    /// The data of the call, and where they are in the process.
    payload: Option<Box<[u8]>>,
    payload_at: u64,
    /// Searches wait for a message.
    waits: bool,
}

impl<'a, L: Library> Port<'a, L> {
    /// That of the endpoint whose event queue is `eq` and whose portal table begins at `base`. Searches go to the NIC
    /// on the rail `first`.
    #[inline]
    pub fn new(library: L, numbers: &'a mut Numbers, (eq, base): (EqId, u32), first: Rail) -> Port<'a, L> {
        Port { library, numbers, eq, base, first, payload: None, payload_at: 0, waits: false }
    }

    /// For a call: its data, which are at this address in the process, and whether its searches wait.
    pub(crate) fn of_call(self, payload: Option<Box<[u8]>>, payload_at: u64, waits: bool) -> Port<'a, L> {
        Port { payload, payload_at, waits, ..self }
    }

    /// Serves another endpoint of the process from now on.
    pub(crate) fn serve(&mut self, (eq, base): (EqId, u32), first: Rail) {
        (self.eq, self.base, self.first) = (eq, base, first);
    }

    /// Opens the NICs of a process that leaves that to its endpoint, before [`Endpoint::new`](crate::Endpoint::new).
    pub fn open(&mut self, rails: &Rails) {
        self.library.open(self.first, Command::EqAlloc { eq: self.eq, count: EVENTS });
        for (pt, options) in portal_table() {
            self.library.open(self.first, Command::PtAlloc { pt: self.base + pt, options, eq: self.eq });
        }
        self.open_others(rails);
    }

    /// The same for one that has opened the NIC on the first rail itself. What an endpoint needs on the others: an
    /// event queue, and the table entry for data.
    pub(crate) fn open_others(&mut self, rails: &Rails) {
        for &rail in &rails.all()[1..] {
            self.library.open(rail, Command::EqAlloc { eq: self.eq, count: EVENTS });
            self.library.open(rail, Command::PtAlloc { pt: self.base + PT_RENDEZVOUS, options: 0, eq: self.eq });
        }
    }
}

/// Events that fit into a queue: whoever has the endpoint takes them at once.
const EVENTS: u32 = 1 << 20;

impl<L: Library> Transport for Port<'_, L> {
    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        self.numbers.entry += 1;
        let entry = EntryId(OUR_ENTRIES | u64::from(rail.0) << RAIL_SHIFT | self.numbers.entry);
        self.library.post(rail, Command::MeAppend { entry, pt: self.base + pt, list, me });
        entry
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        self.numbers.ticket = (self.numbers.ticket + 1) & (OUR_TICKETS - 1);
        let ticket = self.numbers.mark | self.numbers.ticket;
        self.numbers.unlinking.push((ticket, self.eq, entry));
        let rail = Rail((entry.0 >> RAIL_SHIFT) as u8 & !(1 << 7));
        self.library.post(rail, Command::MeUnlink { entry, ticket });
        None
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, mut me: MatchEntry) {
        if self.waits {
            me.options |= me::SEARCH_WAITS;
        }
        self.library.post(self.first, Command::MeSearch { pt: self.base + pt, operation, me });
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        let mut inline = None;
        if copy_now {
            self.library.has_copied(length);
            // A put without data, as protocols send on the way, is not the message that the data are of.
            if length > 0 {
                inline = self.payload.take().or_else(|| self.library.payload(local.address, length));
            }
        }
        let target = RemoteTarget { pt: self.base + target.pt, ..target };
        self.library.post(rail, Command::Put { local, length, inline, ack, target, hdr_data });
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.library.post(rail, Command::Get { local, length, target: RemoteTarget { pt: self.base + target.pt, ..target } });
    }

    fn forward(&mut self, rail: Rail, mut forward: Forward) {
        forward.envelope.pt += self.base;
        forward.envelope.done_pt += self.base;
        self.library.post(rail, Command::Forward(Box::new(forward)));
    }

    fn searches_wait(&self) -> bool {
        self.waits
    }

    fn handed_over(&mut self) {
        self.library.handed_over();
    }

    fn works(&mut self, time: SimTime) {
        self.library.works(time);
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.library.by_firmware(by_firmware);
    }

    fn drop_unmatched(&mut self, pt: u32) {
        let pt = self.base + pt;
        self.library.open(self.first, Command::PtFree { pt, ticket: NO_TICKET });
        self.library.open(self.first, Command::PtAlloc { pt, options: 0, eq: self.eq });
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.library.copy(from, to, length);
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        let bytes = self.payload.as_deref().and_then(|bytes| {
            let start = from.checked_sub(self.payload_at)? as usize;
            bytes.get(start..start.checked_add(length as usize)?)
        });
        self.library.fill(bytes, from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.library.allocate(length)
    }
}
