//! Ranks that wait at real descriptors, for others that write there (docs/decisions/0013-sockets.md).
//!
//! Such a rank is parked. When nobody runs, what the others have written is in the kernel, so a look at the descriptors
//! at that moment finds the same in every run.

use super::looks::BUSY_WARNING;
use super::{LIFE_CHECK, Run};
use crate::processes;
use crate::report::Failure;
use narrows_channel::RankHeader;
use narrows_channel::layout::{LATEST_PS, SIMULATED, WRITTEN, state};
use narrows_output::warn;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// What of poll(2) says that there is something to read.
const TO_READ: i16 = libc::POLLIN | libc::POLLPRI | libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;

/// What is known of the descriptors of all ranks.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Ranks that wait.
    waiting: BTreeSet<u32>,
    /// Ours of what they wait at, by rank and place.
    open: BTreeMap<(u32, usize), OwnedFd>,
    /// When a rank began to wait, of the host's time.
    since: BTreeMap<u32, Instant>,
    /// When was written last what is read there, ps, by [`narrows_channel::layout::Written::key`]; 0: all.
    written: BTreeMap<u64, u64>,
    /// Writes of all ranks that were looked at.
    writes: u32,
    /// That the system lets us look at nobody's descriptors was said.
    warned: bool,
    /// ... that somebody wants out.
    warned_of_outside: bool,
    /// And that the run only waits for them.
    warned_of_waiting: bool,
}

impl Files {
    /// `rank` waits at a descriptor.
    pub(super) fn waits(&self, rank: u32) -> bool {
        self.waiting.contains(&rank)
    }
}

impl Run<'_> {
    /// `rank` has run, and is parked.
    pub(super) fn parks_at_files(&mut self, rank: u32) {
        if self.files.waiting.remove(&rank) {
            self.files.since.remove(&rank);
            self.files.open.retain(|&(owner, _), _| owner != rank);
        }
        if self.header(rank).watching.load(Acquire) != 0 && self.header(rank).state.load(Acquire) == state::PARKED {
            self.files.waiting.insert(rank);
            self.files.since.insert(rank, Instant::now());
        }
    }

    /// Some rank waits at a descriptor.
    pub(super) fn any_at_files(&self) -> bool {
        !self.files.waiting.is_empty()
    }

    /// Ranks that wait at simulated sockets which have changed are woken.
    pub(super) fn look_at_sockets(&mut self) {
        let Some(net) = &mut self.world.processes().net else { return };
        let mut changed = Vec::new();
        net.take_changed(&mut changed);
        if let Some(rank) = net.outside.take()
            && !std::mem::replace(&mut self.files.warned_of_outside, true)
        {
            warn!(
                "{} asked for an address outside of the run, which is refused: nodes of the run have 10.0.0.1 and the following (--sockets)",
                self.name(rank)
            );
        }
        for (rank, _) in changed {
            if self.files.waiting.contains(&rank) {
                self.look_at_files_of(&[rank], Duration::ZERO);
            }
        }
    }

    /// Ranks whose descriptors are ready are woken at the time at which they were: is there one? Waits for that in real
    /// time, up to `patience`.
    pub(super) fn look_at_files(&mut self, patience: Duration) -> bool {
        self.note_writes();
        if self.files.waiting.is_empty() {
            return false;
        }
        let waiting: Vec<u32> = self.files.waiting.iter().copied().collect();
        self.look_at_files_of(&waiting, patience)
    }

    fn look_at_files_of(&mut self, waiting: &[u32], patience: Duration) -> bool {
        let mut polled = Vec::new();
        let mut places = Vec::new();
        let mut found = Vec::new();
        for &rank in waiting {
            let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
            for (place, watched) in header.files.iter().enumerate() {
                let Some(file) = watched.file.load(Acquire).checked_sub(1) else { continue };
                if watched.ready.load(Relaxed) != 0 {
                    continue;
                }
                let events = watched.events.load(Relaxed) as i16;
                match self.ours(rank, place, file as i32) {
                    Ok(Some(fd)) => {
                        polled.push(libc::pollfd { fd, events, revents: 0 });
                        places.push((rank, place));
                    }
                    // What is not open has an error to be seen.
                    Ok(None) => found.push((rank, place, 0)),
                    Err(error) => {
                        if !std::mem::replace(&mut self.files.warned, true) {
                            warn!(
                                "the sockets of {} cannot be looked at ({error}): a rank that waits at one stops the others; \
                                 in a container add --cap-add=SYS_PTRACE",
                                self.name(rank)
                            );
                        }
                        found.push((rank, place, 0));
                    }
                }
            }
        }
        let patience = if found.is_empty() { patience.as_millis() as i32 } else { 0 };
        // SAFETY: a list of so many records.
        if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, patience) } > 0 {
            found.extend(
                polled.iter().zip(&places).filter(|(file, _)| file.revents != 0).map(|(file, &(rank, place))| (rank, place, file.revents)),
            );
        }
        if !found.is_empty() {
            // A thread may have written while this one waited.
            self.note_writes();
        }
        for &(rank, place, events) in &found {
            self.file_is_ready(rank, place, events);
        }
        !found.is_empty()
    }

    fn file_is_ready(&mut self, rank: u32, place: usize, events: i16) {
        let latency = self.mapping.header().settings.socket_latency_ps;
        let now = self.now.as_ps();
        let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
        let watched = &header.files[place];
        let clock = watched.since.load(Relaxed).min(LATEST_PS);
        // A simulated socket, or an epoll with some, that has changed since.
        let net = self.world.processes().net.as_ref();
        let changed = net.and_then(|net| Some((net.latest(rank)?.as_ps(), net.wakeup().as_ps())));
        let key = watched.key.load(Relaxed);
        let changed = changed.filter(|&(changed, _)| key == SIMULATED || (key == 0 && changed > clock));
        let time = if let Some((changed, wakeup)) = changed {
            if changed > clock { changed + wakeup } else { clock }
        } else if events & TO_READ == 0 {
            clock
        } else {
            // What no rank has written has come from outside: it is there when the others have come as far.
            let written = self.files.written.get(&key);
            clock.max(written.map_or(now, |&time| time + latency))
        };
        let time = time.max(now.min(self.ranks[rank as usize].deadline));
        watched.ready.store(time.max(1), Release);
        let known = &mut self.ranks[rank as usize];
        if time < known.deadline && !known.sleeps_through() {
            self.deadlines.remove(&(known.deadline, rank));
            known.deadline = time;
            self.deadlines.insert((time, rank));
        }
    }

    /// What ranks have written since the last look.
    fn note_writes(&mut self) {
        let writes = self.mapping.header().writes.load(Acquire);
        if std::mem::replace(&mut self.files.writes, writes) == writes {
            return;
        }
        for rank in 0..self.ranks.len() as u32 {
            let header: &RankHeader = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
            let count = header.writes.swap(0, AcqRel) as usize;
            for written in &header.written[..count.min(WRITTEN)] {
                let (key, time) = (written.key.load(Relaxed), written.time.swap(0, Acquire).min(LATEST_PS));
                for key in [key, 0] {
                    let latest = self.files.written.entry(key).or_insert(0);
                    *latest = time.max(*latest);
                }
            }
        }
    }

    /// Our own of a descriptor of `rank`. `None`: there is none of that number.
    fn ours(&mut self, rank: u32, place: usize, file: i32) -> std::io::Result<Option<i32>> {
        if let Some(open) = self.files.open.get(&(rank, place)) {
            return Ok(Some(open.as_raw_fd()));
        }
        let Some(pid) = self.ranks[rank as usize].process else { return Ok(None) };
        match processes::descriptor(pid, file) {
            Ok(open) => {
                let number = open.as_raw_fd();
                self.files.open.insert((rank, place), open);
                Ok(Some(number))
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::ESRCH)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether simulated time may come to `time`, at which `rank` wants to go on. A wait with a time limit takes that
    /// time really too, if nothing comes: what it waits for may be no rank, and be busy outside.
    pub(super) fn may_come_to(&mut self, time: u64, rank: u32) -> bool {
        if !self.files.waiting.contains(&rank) {
            return true;
        }
        // What comes to simulated sockets comes in simulated time.
        if self.world.processes().net.as_ref().is_some_and(|net| net.latest(rank).is_some()) {
            return true;
        }
        let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
        let limited = |watched: &&narrows_channel::layout::Watched| {
            watched.file.load(Relaxed) != 0 && watched.until.load(Relaxed) == time && watched.ready.load(Relaxed) == 0
        };
        if !header.files.iter().any(|watched| limited(&watched)) {
            return true;
        }
        let wanted = Duration::from_nanos(time.saturating_sub(header.clock.load(Relaxed)) / 1000);
        let Some(left) = self.files.since.get(&rank).and_then(|since| wanted.checked_sub(since.elapsed())) else { return true };
        // Looks that take less than a nap of the host are not worth one.
        if left < Duration::from_millis(1) {
            return true;
        }
        self.look_at_files(left.min(LIFE_CHECK));
        false
    }

    /// Nothing happens any more in the simulation until something comes to a descriptor: waits for that.
    pub(super) fn await_files(&mut self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            if since.elapsed() > BUSY_WARNING && !std::mem::replace(&mut self.files.warned_of_waiting, true) {
                let names: Vec<String> = self.files.waiting.iter().take(8).map(|&rank| self.name(rank)).collect();
                warn!("nothing happens until something comes from outside: {} wait at sockets or pipes", names.join(", "));
            }
            if self.look_at_files(LIFE_CHECK) || self.heed_interrupts() {
                self.spurious_rounds = 0;
                return Ok(());
            }
            self.must_go_on()?;
        }
    }
}
