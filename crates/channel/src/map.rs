//! The mapped file.

use crate::layout::{self, CARD_BYTES, COMMAND_BYTES, Card, Header, NOTICE_BYTES, Processor, RankHeader, card};
use narrows_portals::ProcessId;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Why the file cannot be used.
#[derive(Debug)]
pub enum MappingError {
    /// The system refused.
    Io(io::Error),
    /// The file cannot be made that large.
    Create {
        /// Its size.
        bytes: usize,
        /// What the system said.
        error: io::Error,
    },
    /// It is not a channel of this version.
    Foreign,
    /// There is no such rank.
    NoSuchRank,
}

impl std::fmt::Display for MappingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MappingError::Io(error) => write!(f, "the channel to the simulator cannot be mapped: {error}"),
            MappingError::Create { bytes, error } => write!(
                f,
                "{bytes} bytes of shared memory for the channel to the ranks cannot be had: {error}; raise the limits (ulimit -f, ulimit -v), or \
                 run fewer ranks"
            ),
            MappingError::Foreign => f.write_str("the channel belongs to another version of narrows: run `make build` again"),
            MappingError::NoSuchRank => f.write_str("more processes than ranks: start the program through `narrows run`"),
        }
    }
}

impl std::error::Error for MappingError {}

impl From<io::Error> for MappingError {
    fn from(error: io::Error) -> Self {
        MappingError::Io(error)
    }
}

/// The shared file in memory. Unmapped when dropped.
///
/// The simulator believes nothing that a rank can write: how many regions there are and where they lie it knows itself.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    bytes: usize,
    ranks: u32,
}

// SAFETY: all shared fields are atomics; the byte areas are handed over by the state words.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes an anonymous file for `ranks` ranks; the descriptor is the only name it has, so it
    /// cannot stay behind.
    ///
    /// # Errors
    /// [`MappingError::Create`] when the system does not give that much memory.
    pub fn create(ranks: u32, settings: layout::Settings) -> Result<(Mapping, OwnedFd), MappingError> {
        let fd = memory_file(c"narrows")?;
        let bytes = layout::file_bytes(ranks as usize);
        // SAFETY: plain system calls on our descriptor. Beyond `ulimit -f` the default would be to be killed by
        // SIGXFSZ.
        let made = unsafe {
            let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let code = libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t);
            let error = io::Error::last_os_error();
            libc::signal(libc::SIGXFSZ, before);
            if code == 0 { Ok(()) } else { Err(error) }
        };
        made.map_err(|error| MappingError::Create { bytes, error })?;
        seal(&fd)?;
        let mapping = Mapping::map(fd.as_raw_fd(), bytes, ranks, libc::PROT_READ | libc::PROT_WRITE);
        let mapping = mapping.map_err(|error| MappingError::Create { bytes, error })?;
        mapping.begin(settings);
        Ok((mapping, fd))
    }

    /// Writes the header of a file that is new.
    fn begin(&self, settings: layout::Settings) {
        let header = self.base.cast::<Header>();
        // SAFETY: the file is zeroed, large enough and not shared with anyone yet.
        unsafe {
            (*header).magic = layout::MAGIC;
            (*header).version = layout::VERSION;
            (*header).ranks = self.ranks;
            (*header).region_bytes = layout::REGION_BYTES as u64;
            (*header).simulator = std::process::id();
            (*header).settings = settings;
        }
    }

    /// Maps the file of a running simulator for `rank`. It can write its own region and the words that all share, and
    /// read the rest: a program that writes where it should not ends by SIGSEGV.
    ///
    /// # Errors
    /// The file is no channel of this version, or has no such rank.
    pub fn open(path: &Path, rank: u32) -> Result<Mapping, MappingError> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len() as usize;
        if bytes < size_of::<Header>() {
            return Err(MappingError::Foreign);
        }
        let mut mapping = Mapping::map(file.as_raw_fd(), bytes, 0, libc::PROT_READ)?;
        let header = mapping.header();
        let ranks = header.ranks;
        let fits = header.magic == layout::MAGIC
            && header.version == layout::VERSION
            && header.region_bytes == layout::REGION_BYTES as u64
            && bytes >= layout::file_bytes(ranks as usize);
        if !fits {
            return Err(MappingError::Foreign);
        }
        if rank >= ranks {
            return Err(MappingError::NoSuchRank);
        }
        mapping.ranks = ranks;
        mapping.permit(layout::PAGE, layout::first_region(ranks as usize))?;
        let region = layout::region_at(ranks, rank);
        mapping.permit(region + layout::PAGE, region + layout::REGION_BYTES)?;
        Ok(mapping)
    }

    /// This process can write these bytes, which are whole pages of the mapping.
    fn permit(&self, from: usize, to: usize) -> io::Result<()> {
        // SAFETY: pages of our own mapping; nobody loses a right.
        let code = unsafe { libc::mprotect(self.base.add(from).cast(), to - from, libc::PROT_READ | libc::PROT_WRITE) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn map(fd: i32, bytes: usize, ranks: u32, protection: i32) -> io::Result<Mapping> {
        // SAFETY: a fresh shared mapping of a whole file; the address is the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: base.cast(), bytes, ranks })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: checked on creation; the shared fields are atomics, the others are written before any rank starts.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The region of `rank`.
    pub fn region(&self, rank: u32) -> Result<Region<'_>, MappingError> {
        if rank >= self.ranks {
            return Err(MappingError::NoSuchRank);
        }
        let at = layout::region_at(self.ranks, rank);
        // SAFETY: inside the mapping (sizes were checked).
        Ok(Region { base: unsafe { self.base.add(at) }, mapping: self })
    }

    fn card(&self, number: u32) -> Option<&Card> {
        // SAFETY: inside the mapping, aligned to its own size.
        (number < self.ranks).then(|| unsafe { &*self.base.add(layout::CARDS_AT).cast::<Card>().add(number as usize) })
    }

    /// Somebody has put `value` under `name` into the key-value space of the launcher. Kept for [`Mapping::card_value`]
    /// if it is the first to put anything on card `number`. A value that changes is not, nor one too long.
    pub fn put_card(&self, number: u32, name: &[u8], value: &[u8]) {
        let Some(card) = self.card(number) else { return };
        if card.state.compare_exchange(0, card::TAKEN, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another name has no place here, and is asked for elsewhere.
            if self.card_text(number).is_none_or(|(old, text)| old == name && text != value) {
                card.state.fetch_or(card::STALE, Ordering::AcqRel);
            }
            return;
        }
        if name.len() + value.len() > CARD_BYTES {
            return;
        }
        card.name.store(name.len() as u32, Ordering::Relaxed);
        card.value.store(value.len() as u32, Ordering::Relaxed);
        // SAFETY: only who has taken the card writes here, and nobody reads before it is there.
        let text = unsafe { &mut *card.text.get() };
        text[..name.len()].copy_from_slice(name);
        text[name.len()..][..value.len()].copy_from_slice(value);
        card.state.fetch_or(card::THERE, Ordering::AcqRel);
    }

    /// The value under `name`, if it is on card `number`.
    pub fn card_value(&self, number: u32, name: &[u8]) -> Option<&[u8]> {
        self.card_text(number).filter(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Name and value on a card that is there and not stale.
    fn card_text(&self, number: u32) -> Option<(&[u8], &[u8])> {
        let card = self.card(number).filter(|card| card.state.load(Ordering::Acquire) == card::TAKEN | card::THERE)?;
        let (name, value) = (card.name.load(Ordering::Relaxed) as usize, card.value.load(Ordering::Relaxed) as usize);
        // SAFETY: nobody writes any more.
        unsafe { &*card.text.get() }.get(..name + value)?.split_at_checked(name)
    }

    /// Writes what does not change during the run: where `rank` is, and on what. Only before it starts.
    ///
    /// # Panics
    /// When `id` is on no node.
    pub fn place(&self, rank: u32, id: ProcessId, host: &str, processor: Processor) -> Result<(), MappingError> {
        let header = self.region(rank)?.base.cast::<RankHeader>();
        let node = id.node().expect("a rank is on a node");
        let length = host.len().min(63);
        // SAFETY: inside the mapping, and no rank has mapped the file yet.
        unsafe {
            (*header).node = node.0;
            (*header).nid = id.nid;
            (*header).ptl_pid = id.pid;
            (*header).host_length = length as u32;
            (*header).processor = processor;
            (*header).mark.store(layout::MARK, Ordering::Relaxed);
            (&mut (*header).host)[..length].copy_from_slice(&host.as_bytes()[..length]);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no reference outlives `self`.
        unsafe {
            libc::munmap(self.base.cast(), self.bytes);
        }
    }
}

/// An anonymous file; the descriptor is the only name it has, so it cannot stay behind.
pub(crate) fn memory_file(name: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: a terminated name; no other argument is a pointer.
    let raw = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Its size stays: a rank that cut it would end the simulator by SIGBUS.
pub(crate) fn seal(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: a plain system call on our descriptor.
    let code = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One rank's part of the file.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    base: *mut u8,
    mapping: &'a Mapping,
}

// SAFETY: as for `Mapping`: shared fields are atomics, areas are handed over by the state word.
unsafe impl Send for Region<'_> {}

impl<'a> Region<'a> {
    /// Its header.
    pub fn header(&self) -> &'a RankHeader {
        // SAFETY: inside the mapping, aligned to a page.
        unsafe { &*self.base.cast::<RankHeader>() }
    }

    /// The region of another rank.
    pub fn sibling(&self, rank: u32) -> Option<Region<'a>> {
        self.mapping.region(rank).ok()
    }

    /// The file's header.
    pub fn file(&self) -> &'a Header {
        self.mapping.header()
    }

    /// All bytes of the command area.
    ///
    /// # Safety
    /// The caller owns the region (see [`layout::state`]) and holds no other reference to the area.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn command_area(&self) -> &'a mut [u8] {
        // SAFETY: inside the mapping; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(layout::COMMANDS_AT), COMMAND_BYTES) }
    }

    /// All bytes of the notice area.
    ///
    /// # Safety
    /// As [`Region::command_area`].
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn notice_area(&self) -> &'a mut [u8] {
        // SAFETY: inside the mapping; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(layout::NOTICES_AT), NOTICE_BYTES) }
    }

    /// Commands in the area, as the rank says it; never more than the area.
    pub fn command_bytes(&self) -> usize {
        (self.header().commands.load(Ordering::Acquire) as usize).min(COMMAND_BYTES)
    }

    /// The commands in the area from byte `from` on. A rank that owns the region may append to them meanwhile.
    ///
    /// # Safety
    /// The caller owns the region, or is the simulator, and the commands it has not taken stay where they are.
    pub unsafe fn commands_from(&self, from: usize) -> &'a [u8] {
        let length = self.command_bytes().saturating_sub(from);
        // SAFETY: inside the mapping; by the caller's promise nobody writes there before the simulator has taken them.
        unsafe { std::slice::from_raw_parts(self.base.add(layout::COMMANDS_AT + from.min(COMMAND_BYTES)), length) }
    }

    /// Notices in the area, as the simulator says it; never more than the area.
    pub fn notice_bytes(&self) -> usize {
        (self.header().notices.load(Ordering::Relaxed) as usize).min(NOTICE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::{Turn, Word, announce, await_given, await_turn, give, hand};
    use crate::layout::{Settings, state};
    use crate::record::{CALL_WORDS, Push, Request, Writer, decode_request, each_delivery, encode_call, encode_push};
    use narrows_portals::{EqId, NodeId};

    /// What [`Mapping::create`] gives, in memory without a file: Miri has no `memfd_create` and no shared mappings.
    fn private(ranks: u32) -> Mapping {
        let bytes = layout::file_bytes(ranks as usize);
        // SAFETY: a fresh private mapping; the address is the kernel's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let mapping = Mapping { base: base.cast(), bytes, ranks };
        mapping.begin(Settings::default());
        mapping
    }

    const WINDOWS: u64 = 3;

    /// Hears what the simulator said in the window before, and says something itself.
    fn run_rank(region: Region<'_>, index: u32) {
        let (header, file) = (region.header(), region.file());
        for window in 0..WINDOWS {
            assert_eq!(await_turn(&header.state, state::PARKED, None), Turn::Mine);
            // SAFETY: the region is the rank's until it gives it back, and there are no other references in here.
            let (commands, notices) = unsafe { (region.command_area(), region.notice_area()) };
            let mut heard = Vec::new();
            each_delivery(&notices[..region.notice_bytes()], |time, _| heard.push(time)).unwrap();
            assert_eq!(heard, (0..window).last().into_iter().collect::<Vec<_>>());
            let mut writer = Writer::new(commands, 0);
            encode_call(&mut writer, window, EqId(index), &[window; CALL_WORDS], Some(&[index as u8; 40])).unwrap();
            header.commands.store(writer.used() as u64, Ordering::Relaxed);
            give(&header.state, &file.running, &file.bell, state::PARKED);
        }
    }

    /// What loom proves of the words (`tests/handover.rs`), with the real memory and futexes: Miri sees every access.
    #[test]
    fn regions_change_hands_with_what_was_written_in_them() {
        let mapping = private(2);
        for rank in 0..2 {
            mapping.place(rank, ProcessId::on(NodeId(7), rank), "node007", Processor::default()).unwrap();
            let header = mapping.region(rank).unwrap().header();
            assert_eq!((header.node, header.ptl_pid, &header.host[..header.host_length as usize]), (7, rank, b"node007".as_slice()));
            header.state.put(state::PARKED);
        }
        assert!(matches!(mapping.region(2), Err(MappingError::NoSuchRank)));
        std::thread::scope(|scope| {
            let regions = [0, 1].map(|rank| mapping.region(rank).unwrap());
            for (rank, region) in regions.into_iter().enumerate() {
                scope.spawn(move || run_rank(region, rank as u32));
            }
            let file = mapping.header();
            for window in 0..WINDOWS {
                announce(&file.running, 2);
                regions.iter().for_each(|region| hand(&region.header().state));
                while !await_given(&file.running, &file.bell, None) {}
                for (rank, region) in (0..).zip(&regions) {
                    // SAFETY: no rank runs, so all regions are the simulator's.
                    let (commands, notices) = unsafe { (region.command_area(), region.notice_area()) };
                    let (time, request, used) = decode_request(&commands[..region.command_bytes()]).unwrap();
                    assert_eq!((time, used), (window, region.command_bytes()));
                    let payload = Some(vec![rank as u8; 40].into_boxed_slice());
                    assert_eq!(request, Request::Call { eq: EqId(rank), words: [window; CALL_WORDS], payload });
                    let mut writer = Writer::new(notices, 0);
                    encode_push(&mut writer, window, &Push { to: 1 - rank, pid: 1, source: 2, destination: 3, length: 4 }).unwrap();
                    region.header().notices.store(writer.used() as u64, Ordering::Relaxed);
                }
            }
        });
    }

    #[test]
    fn a_card_is_known_until_it_changes() {
        let mapping = private(3);
        let known = |number, name: &str| mapping.card_value(number, name.as_bytes());
        mapping.put_card(1, b"job bc-1", b"4E52");
        assert_eq!(
            [known(1, "job bc-1"), known(1, "job bc-2"), known(2, "job bc-1"), known(3, "job bc-3")],
            [Some(&b"4E52"[..]), None, None, None]
        );
        // Again, and another name, which has no place.
        mapping.put_card(1, b"job bc-1", b"4E52");
        mapping.put_card(1, b"job other-1", b"17");
        assert_eq!([known(1, "job bc-1"), known(1, "job other-1")], [Some(&b"4E52"[..]), None]);
        mapping.put_card(1, b"job bc-1", b"4E53");
        assert_eq!(known(1, "job bc-1"), None);
        // The longest, and longer.
        mapping.put_card(0, b"long-0", &[b'x'; CARD_BYTES - 6]);
        mapping.put_card(2, b"long-2", &[b'x'; CARD_BYTES - 5]);
        mapping.put_card(3, b"nobody-3", b"");
        assert_eq!([known(0, "long-0").map(<[u8]>::len), known(2, "long-2").map(<[u8]>::len)], [Some(CARD_BYTES - 6), None]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn another_process_maps_the_same_file_and_no_other_one() {
        let (mapping, fd) = Mapping::create(3, Settings { pio_limit: 5, ..Settings::default() }).unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let other = Mapping::open(Path::new(&path), 2).unwrap();
        assert_eq!((other.ranks(), other.header().settings.pio_limit), (3, 5));
        mapping.region(2).unwrap().header().clock.store(11, Ordering::Relaxed);
        assert_eq!(other.region(2).unwrap().sibling(2).unwrap().header().clock.load(Ordering::Relaxed), 11);
        assert!(matches!(Mapping::open(Path::new("/dev/null"), 2), Err(MappingError::Foreign)));
        assert!(matches!(Mapping::open(Path::new(&path), 3), Err(MappingError::NoSuchRank)));
        let file = File::from(fd);
        assert!(file.set_len(0).is_err() && file.set_len(1 << 30).is_err(), "its size is sealed");
        // As long, but of another program.
        std::os::unix::fs::FileExt::write_all_at(&file, b"another", 0).unwrap();
        assert!(matches!(Mapping::open(Path::new(&path), 2), Err(MappingError::Foreign)));
    }

    /// Pages of `mapping` that this process can write, by what /proc/self/maps says of them.
    fn writable(mapping: &Mapping) -> Vec<(usize, usize)> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let range = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap().wrapping_sub(mapping.base as usize));
            (from < mapping.bytes && rest.starts_with("rw")).then_some((from, to))
        };
        maps.lines().filter_map(range).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn a_rank_can_write_its_own_region_and_the_words_that_all_share() {
        let (simulator, fd) = Mapping::create(4, Settings::default()).unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        assert_eq!(writable(&simulator), [(0, simulator.bytes)]);
        for rank in 0..4 {
            let own = layout::region_at(4, rank);
            let shared = (layout::PAGE, layout::first_region(4));
            let mapping = Mapping::open(Path::new(&path), rank).unwrap();
            assert_eq!(writable(&mapping), [shared, (own + layout::PAGE, own + layout::REGION_BYTES)]);
        }
    }
}
