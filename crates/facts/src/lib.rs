//! What a rank tells the simulator of its MPI calls under `--check`.
//!
//! The preload library makes [`Fact`]s of calls; the simulator compares those of all ranks (`narrows-check`). Handles
//! and constants of the MPI library do not get out of the rank: communicators, requests, windows and other objects have
//! numbers of the rank's own, counted up and never used again.
//!
//! * [`Fact`]: the vocabulary, with its form in the shared memory (64-bit words).
//! * [`shape`]: where the arguments of a call stand, for each function of MPI.
//!
//! ```
//! use narrows_facts::Fact;
//!
//! let fact = Fact::Ended { request: 7 };
//! assert_eq!(Fact::decode(&fact.words()), Some(fact));
//! assert_eq!(Fact::decode(&[99]), None);
//! ```

#![forbid(unsafe_code)]

pub mod shape;

/// Reduce operations by their numbers in [`Collective::operation`].
pub const OPERATIONS: [&str; 16] = [
    "no operation",
    "an operation of the program's own",
    "MPI_MAX",
    "MPI_MIN",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_LAND",
    "MPI_BAND",
    "MPI_LOR",
    "MPI_BOR",
    "MPI_LXOR",
    "MPI_BXOR",
    "MPI_MINLOC",
    "MPI_MAXLOC",
    "MPI_REPLACE",
    "MPI_NO_OP",
];

/// A communicator of which nothing is compared, and a request that is none.
pub const UNKNOWN: u32 = u32::MAX;

/// MPI_ROOT between two groups, as [`Collective::root`].
pub const ROOT: i64 = -3;
/// MPI_PROC_NULL between two groups, as [`Collective::root`].
pub const NOBODY: i64 = -4;

/// Bytes, and what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// In all.
    pub bytes: u64,
    /// Kind and size of the elements, 0 where they are of several kinds, or where anything fits (MPI_BYTE, MPI_PACKED).
    pub kind: u32,
}

/// Kinds of elements.
pub mod kind {
    /// Integers, characters and logical values.
    pub const INTEGER: u32 = 1;
    /// Floating point numbers.
    pub const REAL: u32 = 2;
    /// Complex numbers.
    pub const COMPLEX: u32 = 3;

    /// As [`super::Signature::kind`] has it.
    pub const fn of(kind: u32, size: u32) -> u32 {
        kind << 16 | size
    }

    /// For people: "4-byte integers".
    pub fn name(code: u32) -> String {
        let what = match code >> 16 {
            INTEGER => "integers",
            REAL => "reals",
            COMPLEX => "complex numbers",
            _ => return "elements".to_owned(),
        };
        format!("{}-byte {what}", code & 0xffff)
    }
}

impl Signature {
    /// Whether elements of both may stand for each other.
    pub fn fits(&self, other: &Signature) -> bool {
        self.bytes == 0 || other.bytes == 0 || self.kind == 0 || other.kind == 0 || self.kind == other.kind
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind & 0xffff) as u64 {
            size if size > 0 && self.bytes.is_multiple_of(size) => write!(f, "{} {}", self.bytes / size, kind::name(self.kind)),
            _ => write!(f, "{} bytes", self.bytes),
        }
    }
}

/// What a rank gives to, or expects from, the others in a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nothing that can be compared.
    #[default]
    Unknown,
    /// The same for each of them.
    Each(Signature),
    /// So many bytes, by rank of the communicator.
    By(Vec<u64>),
}

impl Part {
    /// What it is for one of them.
    pub fn of(&self, rank: usize) -> Option<Signature> {
        match self {
            Part::Unknown => None,
            Part::Each(signature) => Some(*signature),
            Part::By(bytes) => bytes.get(rank).map(|&bytes| Signature { bytes, kind: 0 }),
        }
    }
}

/// How a message is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Over when the call is.
    Blocking,
    /// Under way until its request is over.
    Nonblocking,
}

/// A send or a receive begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub request: u32,
    /// Index into the table of calls.
    pub call: u32,
    /// Where it was called.
    pub place: u32,
    /// A receive, or a send.
    pub receive: bool,
    /// Whether it has a request.
    pub mode: Mode,
    /// Its communicator.
    pub communicator: u32,
    /// Rank in the communicator, or `narrows_mpicalls::ANY`.
    pub peer: i64,
    /// Tag, or `narrows_mpicalls::ANY`.
    pub tag: i64,
    /// Of the buffer; [`u64::MAX`] bytes where it is not known.
    pub signature: Signature,
    /// A sum of the bytes of a send; 0 where it is not known. Of a receive: whether [`Fact::Received`] will tell it.
    pub sum: u64,
    /// Where the bytes of the buffer lie: first addresses and lengths. Empty where it is not known.
    pub pieces: Vec<(u64, u64)>,
}

/// What a one-sided operation does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It reads.
    Get,
    /// It writes.
    Put,
    /// An accumulate with this reduce operation (its place in [`OPERATIONS`]) on elements of this kind.
    Accumulate(u32, u32),
    /// MPI_Compare_and_swap, on elements of this kind.
    Swap(u32),
}

/// A collective is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Index into the table of calls.
    pub call: u32,
    /// Where it was called.
    pub place: u32,
    /// Its communicator.
    pub communicator: u32,
    /// Its root, [`ROOT`], [`NOBODY`] or `narrows_mpicalls::NONE`.
    pub root: i64,
    /// The reduce operation: its place in [`OPERATIONS`].
    pub operation: u32,
    /// What must be the same in all ranks.
    pub same: Option<Signature>,
    /// What it gives to each.
    pub send: Part,
    /// What it expects from each.
    pub receive: Part,
}

/// What MPI makes and a program frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A communicator.
    Communicator,
    /// A datatype.
    Datatype,
    /// A window.
    Window,
    /// A persistent request.
    Request,
    /// A group that is not empty.
    Group,
    /// A reduce operation.
    Operation,
    /// An info object.
    Info,
}

const OBJECTS: [Object; 7] =
    [Object::Communicator, Object::Datatype, Object::Window, Object::Request, Object::Group, Object::Operation, Object::Info];

impl Object {
    /// With its article.
    pub fn name(self) -> &'static str {
        match self {
            Object::Communicator => "a communicator",
            Object::Datatype => "a datatype",
            Object::Window => "a window",
            Object::Request => "a persistent request",
            Object::Group => "a group",
            Object::Operation => "a reduce operation",
            Object::Info => "an info object",
        }
    }
}

/// Something that a rank has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Where calls come from: a file with code, and the offset of the instruction behind the call as its symbols count.
    Place {
        /// Its number.
        place: u32,
        /// In the file's own addresses.
        offset: u64,
        /// Path of the file.
        object: String,
    },
    /// A communicator that was made.
    Communicator {
        /// Its number.
        communicator: u32,
        /// The rank's own group, as ranks of MPI_COMM_WORLD.
        members: Vec<u32>,
        /// The other group, if there is one.
        remote: Vec<u32>,
    },
    /// Messages of a communicator can no longer be told apart: one was cancelled, or has failed.
    Doubt {
        /// The communicator.
        communicator: u32,
    },
    /// A message.
    Message(Message),
    /// What a receive with a wildcard, or one by MPI_Mprobe, got.
    Matched {
        /// The receive.
        request: u32,
        /// Rank in the communicator.
        source: i64,
        /// Tag.
        tag: i64,
    },
    /// A request of another kind is under way.
    Request {
        /// Its number.
        request: u32,
        /// What has started it.
        call: u32,
        /// Where.
        place: u32,
    },
    /// A request is over, or its handle was freed.
    Ended {
        /// The request.
        request: u32,
    },
    /// The buffer of a send is not as it was when the send began.
    Changed {
        /// The send.
        request: u32,
    },
    /// A collective.
    Collective(Collective),
    /// An object that must be freed.
    Made {
        /// What it is.
        what: Object,
        /// Its number, among those of its kind.
        number: u32,
        /// What has made it.
        call: u32,
        /// Where.
        place: u32,
    },
    /// It is freed.
    Freed {
        /// What it is.
        what: Object,
        /// Its number.
        number: u32,
    },
    /// A call on a window.
    Window {
        /// The window.
        window: u32,
        /// Index into the table of calls.
        call: u32,
        /// Where it was called.
        place: u32,
        /// Rank of the target, or `narrows_mpicalls::NONE`.
        target: i64,
        /// It says that nothing comes before (1), or behind (2): MPI_MODE_NOPRECEDE, MPI_MODE_NOSUCCEED. 4: the lock is
        /// MPI_LOCK_EXCLUSIVE.
        assertion: u32,
    },
    /// What a window gives to the others.
    Exposed {
        /// The window.
        window: u32,
        /// The communicator that it was made of.
        communicator: u32,
        /// Where it begins; 0 if that is not known, or it is dynamic.
        base: u64,
        /// Bytes.
        size: u64,
        /// Bytes of one step of a displacement.
        unit: u64,
    },
    /// MPI_Win_start or MPI_Win_post.
    Epoch {
        /// The window.
        window: u32,
        /// Index into the table of calls.
        call: u32,
        /// Where it was called.
        place: u32,
        /// The group, as ranks of MPI_COMM_WORLD.
        members: Vec<u32>,
    },
    /// What the operation that was told last does to its target.
    Access {
        /// The window.
        window: u32,
        /// Rank of the target.
        target: i64,
        /// What it does.
        access: Access,
        /// Displacement, in units of the target.
        displacement: u64,
        /// Bytes from there on that it takes: first ones and lengths.
        pieces: Vec<(u64, u64)>,
    },
    /// What the operation that was told last does to memory of the caller, until it is complete there: first addresses
    /// and lengths.
    Origin {
        /// The window.
        window: u32,
        /// Rank of the target.
        target: i64,
        /// What it reads.
        reads: Vec<(u64, u64)>,
        /// What it writes.
        writes: Vec<(u64, u64)>,
    },
    /// The buffers of the two messages of one call overlap.
    Overlaps {
        /// Index into the table of calls.
        call: u32,
        /// Where it was called.
        place: u32,
    },
    /// A call from a thread that the level of thread support forbids.
    Thread {
        /// Index into the table of calls.
        call: u32,
        /// Where it was called.
        place: u32,
        /// The call in which another thread is, plus 1; 0: only the thread that has initialised MPI may call.
        other: u32,
        /// Where that was called.
        other_place: u32,
    },
    /// A probe of messages from anybody has found one.
    Probed {
        /// The communicator.
        communicator: u32,
        /// From whom.
        source: i64,
        /// Its tag.
        tag: i64,
        /// The tag that was asked for, or `narrows_mpicalls::ANY`.
        wanted: i64,
    },
    /// The sum of the bytes of a receive that is over.
    Received {
        /// The receive.
        request: u32,
        /// As that of a send.
        sum: u64,
    },
    /// What a request that is no message does to memory of the caller, until it is over: first addresses and lengths.
    Owns {
        /// It has been told before.
        request: u32,
        /// What it reads.
        reads: Vec<(u64, u64)>,
        /// What it writes.
        writes: Vec<(u64, u64)>,
    },
    /// The program itself has read or written memory, outside of MPI.
    Local {
        /// Where.
        place: u32,
        /// The first byte.
        address: u64,
        /// So many.
        length: u64,
        /// It has written.
        write: bool,
    },
    /// MPI_Finalize is called.
    Finalize,
}

/// In place of the index of a call: a load of the program's own.
pub const LOAD: u32 = u32::MAX - 1;
/// In place of the index of a call: a store of the program's own.
pub const STORE: u32 = u32::MAX - 2;

const PLACE: u64 = 1;
const COMMUNICATOR: u64 = 2;
const DOUBT: u64 = 3;
const MESSAGE: u64 = 4;
const MATCHED: u64 = 5;
const REQUEST: u64 = 6;
const ENDED: u64 = 7;
const CHANGED: u64 = 8;
const COLLECTIVE: u64 = 9;
const MADE: u64 = 10;
const FREED: u64 = 11;
const WINDOW: u64 = 12;
const FINALIZE: u64 = 13;
const EXPOSED: u64 = 14;
const EPOCH: u64 = 15;
const ACCESS: u64 = 16;
const THREAD: u64 = 17;
const RECEIVED: u64 = 18;
const PROBED: u64 = 19;
const ORIGIN: u64 = 20;
const OVERLAPS: u64 = 21;
const OWNS: u64 = 22;
const LOCAL: u64 = 23;

/// Most members of a list in a fact; longer ones are left out by who tells it. Bounds what a broken rank can ask for.
pub const LONGEST: usize = 4096;

fn both(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn put_pieces(words: &mut Vec<u64>, pieces: &[(u64, u64)]) {
    words.push(pieces.len() as u64);
    words.extend(pieces.iter().flat_map(|&(start, length)| [start, length]));
}

fn put_part(words: &mut Vec<u64>, part: &Part) {
    match part {
        Part::Unknown => words.push(0),
        Part::Each(signature) => words.extend([1, signature.bytes, u64::from(signature.kind)]),
        Part::By(bytes) => {
            words.extend([2, bytes.len() as u64]);
            words.extend(bytes);
        }
    }
}

impl Fact {
    /// As it stands in the shared memory.
    pub fn words(&self) -> Vec<u64> {
        let mut words = Vec::with_capacity(10);
        self.put(&mut words);
        words
    }

    /// The same, behind what is there.
    pub fn put(&self, words: &mut Vec<u64>) {
        match self {
            Fact::Place { place, offset, object } => {
                words.extend([PLACE, u64::from(*place), *offset, object.len() as u64]);
                words.extend(object.as_bytes().chunks(8).map(|part| {
                    let mut word = [0; 8];
                    word[..part.len()].copy_from_slice(part);
                    u64::from_le_bytes(word)
                }));
            }
            Fact::Communicator { communicator, members, remote } => {
                words.extend([COMMUNICATOR, u64::from(*communicator), both(members.len() as u32, remote.len() as u32)]);
                words.extend(members.iter().chain(remote).map(|&rank| u64::from(rank)));
            }
            Fact::Doubt { communicator } => words.extend([DOUBT, u64::from(*communicator)]),
            Fact::Message(message) => {
                let flags = u32::from(message.receive) | u32::from(message.mode == Mode::Nonblocking) << 1;
                words.extend([
                    MESSAGE,
                    both(message.request, message.call),
                    both(message.place, flags),
                    both(message.communicator, message.signature.kind),
                    message.peer as u64,
                    message.tag as u64,
                    message.signature.bytes,
                    message.sum,
                ]);
                put_pieces(words, &message.pieces);
            }
            Fact::Matched { request, source, tag } => words.extend([MATCHED, u64::from(*request), *source as u64, *tag as u64]),
            Fact::Request { request, call, place } => words.extend([REQUEST, both(*request, *call), u64::from(*place)]),
            Fact::Ended { request } => words.extend([ENDED, u64::from(*request)]),
            Fact::Changed { request } => words.extend([CHANGED, u64::from(*request)]),
            Fact::Collective(collective) => {
                let same = collective.same.unwrap_or_default();
                words.extend([
                    COLLECTIVE,
                    both(collective.call, collective.place),
                    both(collective.communicator, collective.operation),
                    collective.root as u64,
                    both(u32::from(collective.same.is_some()), same.kind),
                    same.bytes,
                ]);
                put_part(words, &collective.send);
                put_part(words, &collective.receive);
            }
            Fact::Made { what, number, call, place } => words.extend([MADE, both(*what as u32, *number), both(*call, *place)]),
            Fact::Freed { what, number } => words.extend([FREED, both(*what as u32, *number)]),
            Fact::Window { window, call, place, target, assertion } => {
                words.extend([WINDOW, both(*window, *call), both(*place, *assertion), *target as u64]);
            }
            Fact::Exposed { window, communicator, base, size, unit } => {
                words.extend([EXPOSED, both(*window, *communicator), *base, *size, *unit]);
            }
            Fact::Epoch { window, call, place, members } => {
                words.extend([EPOCH, both(*window, *call), u64::from(*place), members.len() as u64]);
                words.extend(members.iter().map(|&rank| u64::from(rank)));
            }
            Fact::Access { window, target, access, displacement, pieces } => {
                let (what, operation, kind) = match *access {
                    Access::Get => (0, 0, 0),
                    Access::Put => (1, 0, 0),
                    Access::Accumulate(operation, kind) => (2, operation, kind),
                    Access::Swap(kind) => (3, 0, kind),
                };
                words.extend([ACCESS, both(*window, what), both(operation, kind), *target as u64, *displacement]);
                put_pieces(words, pieces);
            }
            Fact::Origin { window, target, reads, writes } => {
                words.extend([ORIGIN, u64::from(*window), *target as u64]);
                put_pieces(words, reads);
                put_pieces(words, writes);
            }
            Fact::Overlaps { call, place } => words.extend([OVERLAPS, both(*call, *place)]),
            Fact::Thread { call, place, other, other_place } => words.extend([THREAD, both(*call, *place), both(*other, *other_place)]),
            Fact::Probed { communicator, source, tag, wanted } => {
                words.extend([PROBED, u64::from(*communicator), *source as u64, *tag as u64, *wanted as u64]);
            }
            Fact::Received { request, sum } => words.extend([RECEIVED, u64::from(*request), *sum]),
            Fact::Owns { request, reads, writes } => {
                words.extend([OWNS, u64::from(*request)]);
                put_pieces(words, reads);
                put_pieces(words, writes);
            }
            Fact::Local { place, address, length, write } => words.extend([LOCAL, both(*place, u32::from(*write)), *address, *length]),
            Fact::Finalize => words.push(FINALIZE),
        }
    }

    /// Reads it back. `None`: these words are no fact.
    pub fn decode(words: &[u64]) -> Option<Fact> {
        let mut reader = Reader(words);
        let fact = reader.fact()?;
        reader.0.is_empty().then_some(fact)
    }
}

struct Reader<'a>(&'a [u64]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (&word, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(word)
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.word()?).ok()
    }

    fn both(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?;
        Some(((word >> 32) as u32, word as u32))
    }

    fn list(&mut self, length: u64) -> Option<Vec<u64>> {
        let length = usize::try_from(length).ok()?;
        let list = self.0.get(..length)?;
        self.0 = &self.0[length..];
        Some(list.to_vec())
    }

    fn ranks(&mut self, length: u32) -> Option<Vec<u32>> {
        self.list(u64::from(length))?.into_iter().map(|rank| u32::try_from(rank).ok()).collect()
    }

    fn pieces(&mut self) -> Option<Vec<(u64, u64)>> {
        let words = self.word()?.checked_mul(2)?;
        Some(self.list(words)?.chunks_exact(2).map(|piece| (piece[0], piece[1])).collect())
    }

    fn part(&mut self) -> Option<Part> {
        match self.word()? {
            0 => Some(Part::Unknown),
            1 => Some(Part::Each(Signature { bytes: self.word()?, kind: self.small()? })),
            2 => {
                let length = self.word()?;
                Some(Part::By(self.list(length)?))
            }
            _ => None,
        }
    }

    fn fact(&mut self) -> Option<Fact> {
        Some(match self.word()? {
            PLACE => {
                let (place, offset, length) = (self.small()?, self.word()?, self.word()?);
                let bytes: Vec<u8> = self.list(length.div_ceil(8))?.into_iter().flat_map(u64::to_le_bytes).collect();
                let object = String::from_utf8_lossy(bytes.get(..usize::try_from(length).ok()?)?).into_owned();
                Fact::Place { place, offset, object }
            }
            COMMUNICATOR => {
                let communicator = self.small()?;
                let (members, remote) = self.both()?;
                Fact::Communicator { communicator, members: self.ranks(members)?, remote: self.ranks(remote)? }
            }
            DOUBT => Fact::Doubt { communicator: self.small()? },
            MESSAGE => {
                let ((request, call), (place, flags), (communicator, kind)) = (self.both()?, self.both()?, self.both()?);
                let (peer, tag) = (self.word()? as i64, self.word()? as i64);
                let signature = Signature { bytes: self.word()?, kind };
                let mode = if flags & 2 == 0 { Mode::Blocking } else { Mode::Nonblocking };
                let (sum, pieces) = (self.word()?, self.pieces()?);
                Fact::Message(Message {
                    request,
                    call,
                    place,
                    receive: flags & 1 != 0,
                    mode,
                    communicator,
                    peer,
                    tag,
                    signature,
                    sum,
                    pieces,
                })
            }
            MATCHED => Fact::Matched { request: self.small()?, source: self.word()? as i64, tag: self.word()? as i64 },
            REQUEST => {
                let (request, call) = self.both()?;
                Fact::Request { request, call, place: self.small()? }
            }
            ENDED => Fact::Ended { request: self.small()? },
            CHANGED => Fact::Changed { request: self.small()? },
            COLLECTIVE => {
                let ((call, place), (communicator, operation), root) = (self.both()?, self.both()?, self.word()? as i64);
                let ((there, kind), bytes) = (self.both()?, self.word()?);
                let same = (there != 0).then_some(Signature { bytes, kind });
                let (send, receive) = (self.part()?, self.part()?);
                Fact::Collective(Collective { call, place, communicator, root, operation, same, send, receive })
            }
            MADE => {
                let ((what, number), (call, place)) = (self.both()?, self.both()?);
                Fact::Made { what: *OBJECTS.get(what as usize)?, number, call, place }
            }
            FREED => {
                let (what, number) = self.both()?;
                Fact::Freed { what: *OBJECTS.get(what as usize)?, number }
            }
            WINDOW => {
                let ((window, call), (place, assertion)) = (self.both()?, self.both()?);
                Fact::Window { window, call, place, target: self.word()? as i64, assertion }
            }
            EXPOSED => {
                let (window, communicator) = self.both()?;
                Fact::Exposed { window, communicator, base: self.word()?, size: self.word()?, unit: self.word()? }
            }
            EPOCH => {
                let ((window, call), place, length) = (self.both()?, self.small()?, self.small()?);
                Fact::Epoch { window, call, place, members: self.ranks(length)? }
            }
            ACCESS => {
                let ((window, what), (operation, kind)) = (self.both()?, self.both()?);
                let access = match (what, operation, kind) {
                    (0, 0, 0) => Access::Get,
                    (1, 0, 0) => Access::Put,
                    (2, ..) => Access::Accumulate(operation, kind),
                    (3, 0, _) => Access::Swap(kind),
                    _ => return None,
                };
                Fact::Access { window, target: self.word()? as i64, access, displacement: self.word()?, pieces: self.pieces()? }
            }
            ORIGIN => Fact::Origin { window: self.small()?, target: self.word()? as i64, reads: self.pieces()?, writes: self.pieces()? },
            OVERLAPS => {
                let (call, place) = self.both()?;
                Fact::Overlaps { call, place }
            }
            THREAD => {
                let ((call, place), (other, other_place)) = (self.both()?, self.both()?);
                Fact::Thread { call, place, other, other_place }
            }
            PROBED => {
                let communicator = self.small()?;
                Fact::Probed { communicator, source: self.word()? as i64, tag: self.word()? as i64, wanted: self.word()? as i64 }
            }
            RECEIVED => Fact::Received { request: self.small()?, sum: self.word()? },
            OWNS => Fact::Owns { request: self.small()?, reads: self.pieces()?, writes: self.pieces()? },
            LOCAL => {
                let (place, write) = self.both()?;
                Fact::Local { place, address: self.word()?, length: self.word()?, write: write != 0 }
            }
            FINALIZE => Fact::Finalize,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn facts_are_read_back() {
        let signature = Signature { bytes: 40, kind: kind::of(kind::REAL, 8) };
        let message = Message {
            request: 1,
            call: 2,
            place: 3,
            receive: true,
            mode: Mode::Nonblocking,
            communicator: 4,
            peer: -2,
            tag: 7,
            signature,
            sum: 5,
            pieces: vec![(100, 40), (160, 8)],
        };
        let collective = Collective {
            call: 1,
            place: 2,
            communicator: 0,
            root: 3,
            operation: 9,
            same: Some(signature),
            send: Part::Each(signature),
            receive: Part::By(vec![1, 2, 3]),
        };
        let facts = [
            Fact::Place { place: 1, offset: 77, object: "/usr/bin/a.out".to_owned() },
            Fact::Communicator { communicator: 2, members: vec![0, 3], remote: vec![1] },
            Fact::Doubt { communicator: 2 },
            Fact::Message(message),
            Fact::Matched { request: 1, source: 2, tag: 3 },
            Fact::Request { request: 1, call: 2, place: 3 },
            Fact::Changed { request: 1 },
            Fact::Collective(collective),
            Fact::Made { what: Object::Window, number: 3, call: 4, place: 5 },
            Fact::Freed { what: Object::Request, number: 3 },
            Fact::Window { window: 1, call: 2, place: 3, target: -1, assertion: 2 },
            Fact::Exposed { window: 1, communicator: 0, base: 4096, size: 64, unit: 8 },
            Fact::Epoch { window: 1, call: 2, place: 3, members: vec![0, 2] },
            Fact::Access { window: 1, target: 2, access: Access::Accumulate(4, 5), displacement: 3, pieces: vec![(0, 8)] },
            Fact::Access { window: 1, target: 2, access: Access::Swap(5), displacement: 3, pieces: vec![] },
            Fact::Origin { window: 1, target: 2, reads: vec![(4096, 8)], writes: vec![] },
            Fact::Overlaps { call: 1, place: 2 },
            Fact::Thread { call: 1, place: 2, other: 3, other_place: 4 },
            Fact::Received { request: 1, sum: 2 },
            Fact::Probed { communicator: 0, source: 1, tag: 2, wanted: -2 },
            Fact::Owns { request: 1, reads: vec![(4096, 8)], writes: vec![] },
            Fact::Local { place: 1, address: 4096, length: 8, write: true },
            Fact::Finalize,
        ];
        for fact in facts {
            let words = fact.words();
            assert_eq!(Fact::decode(&words), Some(fact));
            assert_eq!(Fact::decode(&words[..words.len() - 1]), None);
        }
    }

    #[test]
    fn bytes_fit_everything() {
        let of = |kind, bytes| Signature { bytes, kind };
        let (int, double) = (kind::of(kind::INTEGER, 4), kind::of(kind::REAL, 8));
        assert!(of(int, 8).fits(&of(int, 4)) && of(0, 8).fits(&of(int, 8)) && of(int, 0).fits(&of(double, 8)));
        assert!(!of(int, 8).fits(&of(double, 8)));
        assert_eq!(of(int, 8).to_string(), "2 4-byte integers");
        assert_eq!(of(0, 8).to_string(), "8 bytes");
    }

    proptest! {
        #[test]
        fn any_words_are_a_fact_or_none(words in prop::collection::vec(prop_oneof![0u64..24, any::<u64>()], 0..12)) {
            if let Some(fact) = Fact::decode(&words) {
                prop_assert_eq!(Fact::decode(&fact.words()), Some(fact));
            }
        }
    }
}
