//! What threads may touch that do not hold the rank: the words of the shared file.

use crate::attach::AttachError;
use narrows_channel::layout::Header;
use narrows_channel::{Mapping, RankHeader, handover};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The shared file, and the words of the rank that the launcher has started this process for. Whether the process *is*
/// that rank is another question: helpers that a rank starts (a shell, a wrapper) inherit its environment.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub mapping: &'static Mapping,
    pub number: u32,
    pub file: &'static Header,
    pub rank: &'static RankHeader,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Opens the channel that the environment names, once.
pub(crate) fn shared() -> Result<&'static Shared, AttachError> {
    if let Some(shared) = SHARED.get() {
        return Ok(shared);
    }
    let path = std::env::var_os("NARROWS_CHANNEL").ok_or(AttachError::NoChannel)?;
    let number = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "NARROWS_RANK"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse::<u32>().ok())
        .ok_or(AttachError::NoRank)?;
    let mapping = Mapping::open(Path::new(&path), number).map_err(AttachError::Mapping)?;
    // Of two threads that open it at the same time one has done so in vain.
    Ok(SHARED.get_or_init(|| {
        // The mapping lives as long as the process: the kernel takes it back.
        let mapping: &'static Mapping = Box::leak(Box::new(mapping));
        let rank = mapping.region(number).expect("it is mapped for that rank").header();
        Shared { mapping, number, file: mapping.header(), rank }
    }))
}

/// The same if it is open.
pub(crate) fn opened() -> Option<&'static Shared> {
    SHARED.get()
}

impl Shared {
    /// The simulator looks at the words.
    pub fn ring(&self) {
        handover::ring(&self.file.bell);
    }
}

/// Ends what any thread of this process waits for, see [`crate::Rank::resume`].
pub(crate) fn interrupt() {
    if let Some(shared) = opened() {
        shared.rank.interrupted.store(1, Ordering::Release);
        shared.file.interrupts.fetch_add(1, Ordering::Release);
        shared.ring();
    }
}

/// A thread wants the region back that the simulator has taken.
pub(crate) fn wants_back() {
    if let Some(shared) = opened() {
        shared.file.interrupts.fetch_add(1, Ordering::Release);
        shared.ring();
    }
}

/// A thread wants the rank from now on, or no longer does: who waits with it is woken to give it up.
pub(crate) fn ask_to_give_way(yes: bool) {
    if let Some(shared) = opened() {
        if yes {
            shared.rank.wanted.fetch_add(1, Ordering::AcqRel);
            shared.file.interrupts.fetch_add(1, Ordering::Release);
            shared.ring();
        } else {
            shared.rank.wanted.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
