//! What the recorder library writes about each MPI call, and the merging reads: one file per rank of 40-byte records.
//!
//! * [`Record`]: one call, or a piece of one that needs more room.
//! * [`Header`]: the first page of a file. Its count is raised after a record is complete, so that a file of a rank
//!   that was killed is readable up to there.
//!
//! ```
//! use narrows_record::{Kind, Record};
//! let record = Record { kind: Kind::Send as u8, peer: 3, bytes: 8, ..Record::default() };
//! assert_eq!(Record::from_bytes(&record.to_bytes()), record);
//! assert_eq!(Kind::of(record.kind), Some(Kind::Send));
//! ```

#![forbid(unsafe_code)]

/// The first bytes of a file; the last one is the version of the layout.
pub const MAGIC: [u8; 8] = *b"NARROWR1";
/// Where records begin: a page.
pub const FIRST: usize = 4096;
/// Bytes of a record.
pub const SIZE: usize = 40;
/// A mapping of a file: as many whole records as whole pages (1,000 pages, 102,400 records).
pub const SEGMENT: usize = 1000 * 4096;
/// "Any" as source or tag.
pub const ANY: i32 = -1;
/// Members in one [`Kind::Members`] record.
pub const MEMBERS: usize = 8;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// More computing than fits into `busy`: `bytes` nanoseconds.
    Work = 1,
    /// A blocking send.
    Send,
    /// A send that returns at once; `request`.
    Isend,
    /// A blocking receive; the source and tag that it got.
    Receive,
    /// A receive that returns at once; `request`.
    Ireceive,
    /// The receive in an MPI_Sendrecv; the send stands in the next record.
    SendReceive,
    /// Requests `peer` to `peer + tag - 1` are complete.
    Wait,
    /// What a receive from or with "any" got: `request`, `peer`, `tag`.
    Matched,
    /// A collective: `extra` says which, `request` is the root, `bytes` are sent; `peer` and `tag` are the lower and
    /// upper half of the bytes received.
    Collective,
    /// The same, with `request`; the root stands in a [`Kind::Root`] before.
    Icollective,
    /// `request` is the root of the next record.
    Root,
    /// A communicator that is seen for the first time: `communicator`, `bytes` members; `peer` 1 if they are the remote
    /// group. Its [`Kind::Members`] follow.
    Communicator,
    /// The next members (eight numbers of four bytes at the beginning of the record).
    Members,
    /// A message with a `request` that was taken back (MPI_Cancel): it took no part in anything.
    Cancelled,
    /// Elements of the reductions that follow have `bytes` each, up to the next such record.
    Element,
}

impl Kind {
    /// All of them, from 1 on.
    const ALL: [Kind; 15] = [
        Kind::Work,
        Kind::Send,
        Kind::Isend,
        Kind::Receive,
        Kind::Ireceive,
        Kind::SendReceive,
        Kind::Wait,
        Kind::Matched,
        Kind::Collective,
        Kind::Icollective,
        Kind::Root,
        Kind::Communicator,
        Kind::Members,
        Kind::Cancelled,
        Kind::Element,
    ];

    /// The kind with this number.
    pub fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// One record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// When the call began, ns since MPI_Init.
    pub enter: u64,
    /// Payload.
    pub bytes: u64,
    /// Computing since the last call that was recorded, ns.
    pub busy: u32,
    /// How long the call took, ns; the largest value also means "longer".
    pub length: u32,
    /// The other rank, in the communicator.
    pub peer: i32,
    /// Tag.
    pub tag: i32,
    /// Number of the request, from 0.
    pub request: u32,
    /// Number of the communicator in this rank; 0 is MPI_COMM_WORLD.
    pub communicator: u16,
    /// [`Kind`]
    pub kind: u8,
    /// Which collective: its place in the list of the trace library.
    pub extra: u8,
}

const _: () = assert!(size_of::<Record>() == SIZE);

impl Record {
    /// As it stands in the file: little-endian, in the order of the fields.
    #[inline]
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.enter.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.busy.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.peer.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.tag.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.request.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.communicator.to_le_bytes());
        bytes[38] = self.kind;
        bytes[39] = self.extra;
        bytes
    }

    /// The reverse of [`Record::to_bytes`].
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Record {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let whole = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Record {
            enter: whole(0),
            bytes: whole(8),
            busy: half(16),
            length: half(20),
            peer: half(24) as i32,
            tag: half(28) as i32,
            request: half(32),
            communicator: u16::from_le_bytes(bytes[36..38].try_into().expect("two bytes")),
            kind: bytes[38],
            extra: bytes[39],
        }
    }

    /// A [`Kind::Members`] record.
    pub fn of_members(members: &[u32]) -> [u8; SIZE] {
        let mut bytes = Record { kind: Kind::Members as u8, ..Record::default() }.to_bytes();
        for (place, member) in bytes.chunks_exact_mut(4).zip(members.iter().take(MEMBERS)) {
            place.copy_from_slice(&member.to_le_bytes());
        }
        bytes
    }

    /// The first `count` members of a [`Kind::Members`] record.
    pub fn members(bytes: &[u8; SIZE], count: usize) -> impl Iterator<Item = u32> + '_ {
        bytes.chunks_exact(4).take(count.min(MEMBERS)).map(|part| u32::from_le_bytes(part.try_into().expect("four bytes")))
    }
}

/// The first page of a file: offsets of its fields, all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Its size.
    pub ranks: u32,
    /// Whole records.
    pub count: u64,
    /// Whether MPI_Finalize was called.
    pub finished: bool,
    /// There was no room for more records.
    pub full: bool,
    /// Computing after the last record, ns.
    pub rest: u64,
    /// One-sided operations, which have no records.
    pub one_sided: u64,
    /// Their payload.
    pub one_sided_bytes: u64,
    /// Which MPI library it was, in its own words; all zero if it has not said.
    pub library: [u8; Header::LIBRARY_BYTES],
}

impl Header {
    /// Where the count stands.
    pub const COUNT: usize = 16;
    /// Where it stands how the records end (4 bytes): 0 while they go on, or the process was killed.
    pub const FINISHED: usize = 24;
    /// ... with MPI_Finalize.
    pub const YES: u32 = 1;
    /// ... for lack of room.
    pub const NO_ROOM: u32 = 2;
    /// Where `rest` stands.
    pub const REST: usize = 32;
    /// Where `one_sided` stands.
    pub const ONE_SIDED: usize = 40;
    /// Where `one_sided_bytes` stands.
    pub const ONE_SIDED_BYTES: usize = 48;

    /// Where the name of the library stands.
    pub const LIBRARY: usize = 56;
    /// Its length, with zero bytes behind it.
    pub const LIBRARY_BYTES: usize = 40;

    /// The beginning of what MPI_Get_library_version says: name and version, in one line.
    pub fn library_name(version: &str) -> String {
        let words = version.lines().next().unwrap_or("").split(',').next().unwrap_or("").split_whitespace();
        let mut name = words.collect::<Vec<_>>().join(" ");
        while name.len() > Header::LIBRARY_BYTES {
            name.pop();
        }
        name
    }

    /// The library as text, if it has said which it is.
    pub fn library(&self) -> Option<&str> {
        let bytes = self.library.split(|&byte| byte == 0).next()?;
        std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty())
    }

    /// The beginning of a new file.
    pub fn begin(rank: u32, ranks: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&rank.to_le_bytes());
        bytes[12..].copy_from_slice(&ranks.to_le_bytes());
        bytes
    }

    /// From the first bytes of a file, if it is one.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        if bytes.len() < Header::LIBRARY + Header::LIBRARY_BYTES || bytes[..8] != MAGIC {
            return None;
        }
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let whole = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Some(Header {
            rank: half(8),
            ranks: half(12),
            count: whole(Header::COUNT),
            finished: half(Header::FINISHED) == Header::YES,
            full: half(Header::FINISHED) == Header::NO_ROOM,
            rest: whole(Header::REST),
            one_sided: whole(Header::ONE_SIDED),
            one_sided_bytes: whole(Header::ONE_SIDED_BYTES),
            library: bytes[Header::LIBRARY..Header::LIBRARY + Header::LIBRARY_BYTES].try_into().expect("as long as it is"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_by_its_first_words() {
        for (version, name) in [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "Open MPI v4.1.4"),
            ("MPICH Version:      5.0.2\nMPICH Release date: ...", "MPICH Version: 5.0.2"),
            ("Intel(R) MPI Library 2021.18 for Linux* OS\n", "Intel(R) MPI Library 2021.18 for Linux* "),
            ("", ""),
        ] {
            assert_eq!(Header::library_name(version), name);
            let mut bytes = [0; 96];
            bytes[..16].copy_from_slice(&Header::begin(1, 2));
            bytes[Header::LIBRARY..Header::LIBRARY + name.len()].copy_from_slice(name.as_bytes());
            assert_eq!(Header::read(&bytes).unwrap().library(), Some(name).filter(|name| !name.is_empty()));
        }
    }
}
