//! From the files of the recorder library, one per rank, to a program.

use crate::Communicators;
use crate::error::{Location, TraceError, expected, found};
use crate::operation::{Collective, CollectiveCall, Kind, Order};
use crate::sequence::Sequence;
use crate::spool::{Spool, Stored};
use narrows_record::{ANY, FIRST, Header, Kind as Entry, Record, SIZE};
use narrows_units::{Bytes, SimTime};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A merged recording.
#[derive(Debug)]
pub struct Recording {
    /// The programs.
    pub program: Stored,
    /// Records read.
    pub records: u64,
    /// Ranks that did not reach MPI_Finalize: their programs end early.
    pub unfinished: Vec<u32>,
    /// Ranks for whose records there was no room: their programs end early too.
    pub full: Vec<u32>,
    /// One-sided operations of all ranks, of which there are no records.
    pub one_sided: u64,
    /// Their payload.
    pub one_sided_bytes: u64,
}

/// Merges the files `rank.0`, `rank.1`, ... of a folder. Receives from any rank become receives from the rank that they
/// got their message from.
///
/// # Errors
/// There are no files, or one is no recording.
pub fn merge(folder: &Path) -> Result<Recording, TraceError> {
    let ranks = recorded(folder)?;
    if ranks == 0 {
        let error = found("files rank.0, rank.1, ... of a recording", "none with a record in it");
        return Err(error.at(folder, Location::Whole));
    }
    let mut communicators = Communicators::world(ranks);
    // By members and how many of those members came before in the same rank.
    let mut known: BTreeMap<(Vec<u32>, u32), u32> = BTreeMap::new();
    let mut spool = Spool::new(ranks)?;
    let (mut records, mut unfinished, mut full) = (0, Vec::new(), Vec::new());
    let (mut one_sided, mut one_sided_bytes) = (0u64, 0u64);
    let mut mpi = None;
    for rank in 0..ranks {
        let Some(mut input) = Input::open(folder, rank)? else {
            full.push(rank);
            Sequence::default().end(rank, &mut spool)?;
            continue;
        };
        if (input.header.rank, input.header.ranks) != (rank, ranks) {
            return Err(input.mistake(found(format!("rank {rank} of {ranks}"), format!("{} of {}", input.header.rank, input.header.ranks))));
        }
        records += input.header.count;
        mpi = mpi.or_else(|| input.header.library().map(str::to_owned));
        one_sided = one_sided.saturating_add(input.header.one_sided);
        one_sided_bytes = one_sided_bytes.saturating_add(input.header.one_sided_bytes);
        let cut = !input.header.finished;
        match (input.header.full, cut) {
            (true, _) => full.push(rank),
            (false, true) => unfinished.push(rank),
            (false, false) => {}
        }
        let later = input.later()?;
        let mut state = State {
            rank,
            sequence: Sequence::default(),
            requests: HashMap::new(),
            later,
            local: HashMap::from([(0, Local::Members { number: 0, members: Vec::new() })]),
            root: 0,
            element: Bytes(0),
        };
        let mut copies: HashMap<Vec<u32>, u32> = HashMap::new();
        while let Some(bytes) = input.next()? {
            let record = Record::from_bytes(&bytes);
            let Some(entry) = Entry::of(record.kind) else {
                return Err(input.mistake(found("a record of a known kind", record.kind)));
            };
            if entry == Entry::Communicator {
                let members = match input.members(record.bytes, ranks) {
                    // The end came between its records.
                    Err(_) if cut && input.left == 0 => break,
                    members => members?,
                };
                let local = if record.peer != 0 {
                    Local::Remote { members }
                } else if members.len() == 1 {
                    Local::Alone { member: members[0] }
                } else {
                    let copy = copies.entry(members.clone()).or_default();
                    *copy += 1;
                    let number = match known.get(&(members.clone(), *copy)) {
                        Some(number) => *number,
                        None => {
                            let number = communicators
                                .add(members.clone())
                                .ok_or_else(|| input.mistake(expected("a communicator with members, each once")))?;
                            known.insert((members.clone(), *copy), number);
                            number
                        }
                    };
                    Local::Members { number, members }
                };
                state.local.insert(record.communicator, local);
                continue;
            }
            state.take(entry, &record, ranks, &mut spool).map_err(|error| input.mistake(error))?;
        }
        state.sequence.compute(SimTime::from_ns(input.header.rest));
        state.sequence.end(rank, &mut spool).map_err(|error| input.mistake(error))?;
    }
    let program = spool.finish(communicators, Order::Sequential)?.under(mpi);
    Ok(Recording { program, records, unfinished, full, one_sided, one_sided_bytes })
}

/// The number of ranks of the recording in a folder; 0 if no rank has recorded anything.
///
/// # Errors
/// A file is no recording.
pub fn recorded(folder: &Path) -> Result<u32, TraceError> {
    let mut rank = 0;
    // Most often the first file is there. One that could not be filled may be empty, or not be there at all.
    let places = std::fs::read_dir(folder).map_err(TraceError::file(folder))?.count() as u32;
    while rank <= places {
        if let Some(input) = Input::open(folder, rank)? {
            let ranks = input.header.ranks;
            if ranks == 0 || ranks > 1 << 24 {
                return Err(input.mistake(found(format!("1 to {} ranks", 1 << 24), ranks)));
            }
            return Ok(ranks);
        }
        rank += 1;
    }
    Ok(0)
}

/// A communicator of one rank.
enum Local {
    /// `number` among all; no members: the world.
    Members { number: u32, members: Vec<u32> },
    /// Of this rank only: its collectives are none.
    Alone { member: u32 },
    /// Between two groups: the members of the other one.
    Remote { members: Vec<u32> },
}

/// What is known of requests only when they are over.
#[derive(Default)]
struct Later {
    /// Source and tag that receives with "any" got.
    matched: HashMap<u32, (i32, i32)>,
    /// Those that were taken back.
    cancelled: HashSet<u32>,
}

struct State {
    rank: u32,
    sequence: Sequence,
    /// Operation of each open request.
    requests: HashMap<u32, u64>,
    later: Later,
    local: HashMap<u16, Local>,
    root: u32,
    element: Bytes,
}

impl State {
    fn take(&mut self, entry: Entry, record: &Record, ranks: u32, spool: &mut Spool) -> Result<(), TraceError> {
        self.sequence.compute(SimTime::from_ns(u64::from(record.busy)));
        let rank = self.rank;
        if matches!(entry, Entry::Isend | Entry::Ireceive) && self.later.cancelled.remove(&record.request) {
            return Ok(());
        }
        match entry {
            Entry::Work => self.sequence.compute(SimTime::from_ns(record.bytes)),
            Entry::Root => self.root = record.request,
            Entry::Element => self.element = Bytes(record.bytes),
            Entry::Send => {
                let kind = self.send(record, ranks)?;
                self.sequence.call(rank, spool, kind)?;
            }
            Entry::Isend => {
                let kind = self.send(record, ranks)?;
                let number = self.sequence.begin(rank, spool, kind)?;
                self.requests.insert(record.request, number);
            }
            Entry::Receive => {
                let kind = self.receive(record, record.peer, record.tag, ranks)?;
                self.sequence.call(rank, spool, kind)?;
            }
            Entry::Ireceive => {
                let (peer, tag) = self.later.matched.remove(&record.request).unwrap_or((ANY, ANY));
                // What was not "any" stays; what is not known stays "any".
                let peer = if record.peer == ANY { peer } else { record.peer };
                let tag = if record.tag == ANY { tag } else { record.tag };
                let kind = self.receive(record, peer, tag, ranks)?;
                let number = self.sequence.begin(rank, spool, kind)?;
                self.requests.insert(record.request, number);
            }
            Entry::SendReceive => {
                // The send comes next and is waited for; the receive then, too.
                let kind = self.receive(record, record.peer, record.tag, ranks)?;
                let number = self.sequence.begin(rank, spool, kind)?;
                self.sequence.later(number);
            }
            Entry::Wait => {
                for offset in 0..record.tag.max(0) as u32 {
                    if let Some(number) = self.requests.remove(&(record.peer as u32).wrapping_add(offset)) {
                        self.sequence.wait(rank, spool, number)?;
                    }
                }
            }
            Entry::Collective => {
                if let Some(call) = self.collective(record, record.request)? {
                    self.sequence.call(rank, spool, Kind::Collective(call))?;
                }
            }
            Entry::Icollective => {
                if let Some(call) = self.collective(record, self.root)? {
                    let number = self.sequence.begin(rank, spool, Kind::Collective(call))?;
                    self.requests.insert(record.request, number);
                }
            }
            Entry::Matched | Entry::Cancelled | Entry::Communicator | Entry::Members => {}
        }
        Ok(())
    }

    /// Rank in the world, and the tag, which tells the communicators apart too.
    fn address(&self, record: &Record, peer: i32, tag: i32, ranks: u32) -> Result<(u32, u32), TraceError> {
        let wrong = || found(format!("a member of communicator {}", record.communicator), peer);
        let local = self.local.get(&record.communicator).ok_or_else(wrong)?;
        let place = usize::try_from(peer).map_err(|_| wrong())?;
        let (number, rank) = match local {
            Local::Members { number: 0, .. } => (0, Some(peer as u32).filter(|rank| *rank < ranks)),
            Local::Members { number, members } => (*number, members.get(place).copied()),
            Local::Alone { member } => (1 << 20, Some(*member).filter(|_| place == 0)),
            Local::Remote { members } => (1 << 21, members.get(place).copied()),
        };
        Ok((rank.ok_or_else(wrong)?, mix(tag, number)))
    }

    fn send(&self, record: &Record, ranks: u32) -> Result<Kind, TraceError> {
        let (to, tag) = self.address(record, record.peer, record.tag, ranks)?;
        Ok(Kind::Send { to, bytes: Bytes(record.bytes), tag })
    }

    fn receive(&self, record: &Record, peer: i32, tag: i32, ranks: u32) -> Result<Kind, TraceError> {
        // Still "any": a request that was never waited for, or the program threw the status away.
        let (source, known) = (peer != ANY, tag != ANY);
        let (from, number) = self.address(record, if source { peer } else { 0 }, if known { tag } else { 0 }, ranks)?;
        Ok(Kind::Receive { from: source.then_some(from), bytes: Bytes(record.bytes), tag: known.then_some(number) })
    }

    fn collective(&self, record: &Record, root: u32) -> Result<Option<CollectiveCall>, TraceError> {
        let operation = *Collective::ALL
            .get(usize::from(record.extra))
            .ok_or_else(|| found(format!("a collective below {}", Collective::ALL.len()), record.extra))?;
        let receive = Bytes(u64::from(record.peer as u32) | u64::from(record.tag as u32) << 32);
        match self.local.get(&record.communicator) {
            Some(Local::Members { number, .. }) => {
                let root = if operation.has_root() { root } else { 0 };
                let element = if operation.reduces() { self.element } else { Bytes(0) };
                Ok(Some(CollectiveCall { operation, communicator: *number, root, send: Bytes(record.bytes), receive, element }))
            }
            Some(Local::Alone { .. } | Local::Remote { .. }) => Ok(None),
            None => Err(found("a known communicator", record.communicator)),
        }
    }
}

/// A tag in a communicator as one in the world: 31 bits, those of the world stay.
fn mix(tag: i32, communicator: u32) -> u32 {
    (tag as u32 ^ communicator.wrapping_mul(0x9e37_79b1)) & 0x7fff_ffff
}

struct Input {
    path: PathBuf,
    file: BufReader<File>,
    header: Header,
    left: u64,
}

impl Input {
    /// `None` for a rank that could not write its first page.
    fn open(folder: &Path, rank: u32) -> Result<Option<Input>, TraceError> {
        let path = folder.join(format!("rank.{rank}"));
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(TraceError::file(&path))?,
        };
        let mut page = Vec::new();
        file.by_ref().take(FIRST as u64).read_to_end(&mut page).map_err(TraceError::file(&path))?;
        let length = file.metadata().map_err(TraceError::file(&path))?.len();
        if page.is_empty() {
            return Ok(None);
        }
        let wrong = |error: TraceError| error.at(&path, Location::Byte(0));
        let header = Header::read(&page).ok_or_else(|| wrong(expected("a recording of this version of Narrows")))?;
        if header.count.checked_mul(SIZE as u64).is_none_or(|bytes| bytes > length.saturating_sub(FIRST as u64)) {
            return Err(wrong(expected("as many records as the header says")));
        }
        Ok(Some(Input { path, file: BufReader::with_capacity(1 << 16, file), left: header.count, header }))
    }

    fn next(&mut self) -> Result<Option<[u8; SIZE]>, TraceError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut bytes = [0; SIZE];
        self.file.read_exact(&mut bytes).map_err(TraceError::file(&self.path))?;
        Ok(Some(bytes))
    }

    /// A first pass.
    fn later(&mut self) -> Result<Later, TraceError> {
        let mut later = Later::default();
        while let Some(bytes) = self.next()? {
            let record = Record::from_bytes(&bytes);
            if record.kind == Entry::Matched as u8 {
                later.matched.insert(record.request, (record.peer, record.tag));
            } else if record.kind == Entry::Cancelled as u8 {
                later.cancelled.insert(record.request);
            }
        }
        self.file.seek(SeekFrom::Start(FIRST as u64)).map_err(TraceError::file(&self.path))?;
        self.left = self.header.count;
        Ok(later)
    }

    /// The members of a communicator, from the records that follow.
    fn members(&mut self, count: u64, ranks: u32) -> Result<Vec<u32>, TraceError> {
        let mut members = Vec::new();
        while (members.len() as u64) < count {
            let Some(bytes) = self.next()? else { break };
            members.extend(Record::members(&bytes, (count - members.len() as u64).min(8) as usize));
        }
        if members.len() as u64 != count || count == 0 || members.iter().any(|member| *member >= ranks) {
            return Err(self.mistake(expected(format!("a communicator of {count} members below {ranks}"))));
        }
        Ok(members)
    }

    fn mistake(&self, error: TraceError) -> TraceError {
        let offset = FIRST as u64 + (self.header.count - self.left).saturating_sub(1) * SIZE as u64;
        error.at(&self.path, Location::Byte(offset))
    }
}
