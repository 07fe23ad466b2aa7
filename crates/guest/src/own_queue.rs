//! The queue that an MPI library has of its own for messages of a rank to itself.
//!
//! MPICH's ch4 sends them through shared memory, also where that is otherwise off. A probe or receive for any source
//! looks into that queue first and then asks the network, and what is in the queue is taken out one message at a time
//! by the progress engine. So a probe may find a message of the network while one to itself is still on its way through
//! the queue, and the receive that follows finds the latter: MPI_Dist_graph_create of MPICH 5 relies on both finding
//! the same. It happens on real machines too.
//!
//! In calls that go on looking until they find something, or see that there is nothing, the network therefore answers a
//! look for any source with "nothing" until the library has found its own queue empty. Others look once: MPI_Comm_free
//! of MPICH takes out what nobody has received, so that it does not reach the next communicator with the same number.
//!
//! Its engine comes to the network only when it has (`MPIDI_progress_test`, MPICH 4.0 to 5.0): a poll of a completion
//! queue between two such looks is that sign. Twice, because a long message is put into the queue piece by piece, and
//! the pass that puts the first one in comes here too.
//!
//! One-sided operations on a rank's own memory, and locks of it, are active messages through that queue, several for
//! each call. The engine of these calls comes to the network in each pass, whatever it finds in the queue
//! (`MPIDI_progress_test_vci`). Such a rank does not wait for the network as long as the memory of the queue changes
//! from one look to the next.

use std::cell::Cell;
use std::sync::OnceLock;

/// Set by the launcher for MPI libraries that have such a queue: part of the name of the file that it is in.
const VARIABLE: &str = "NARROWS_OWN_QUEUE";
/// How often it must be found empty.
const LOOKS: u32 = 2;

thread_local! {
    /// How often it was found empty since a message was found, or the MPI call began.
    static EMPTY: Cell<u32> = const { Cell::new(0) };
    /// The present call goes on looking.
    static SEARCHES: Cell<bool> = const { Cell::new(false) };
    /// The network waits for such a look.
    static WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Start and bytes of the memory that the queue is in.
static MEMORY: OnceLock<(usize, usize)> = OnceLock::new();

/// The end of MPI_Init: the queue is there.
pub(crate) fn find() {
    let Some(name) = std::env::var(VARIABLE).ok().filter(|_| MEMORY.get().is_none()) else { return };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(memory) = maps.lines().filter(|line| line.contains(&name)).find_map(range) {
        let _ = MEMORY.set(memory);
    }
}

/// Start and bytes of a line of `/proc/self/maps`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (start, rest) = line.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let start = number(start)?;
    Some((start, number(rest.split_once(' ')?.0)?.checked_sub(start)?))
}

/// Stands for what is in the memory of the queue, if that is known. Between MPI_Init and MPI_Finalize only: later it is
/// gone.
pub(crate) fn content() -> Option<u64> {
    let &(start, bytes) = MEMORY.get()?;
    // SAFETY: mapped until MPI_Finalize. It is this rank's alone, and the thread that works on it is the one that asks.
    let words = unsafe { std::slice::from_raw_parts(start as *const u64, bytes / size_of::<u64>()) };
    Some(fingerprint(words))
}

/// Differs where one word does, or two have changed places: handles that go from one list to another.
fn fingerprint(words: &[u64]) -> u64 {
    // Two steps that the compiler makes for several words at a time.
    words.iter().zip(1u64..).fold(0, |sum, (word, place)| sum.wrapping_add(word ^ place.wrapping_mul(0x9e37_79b9)))
}

/// The MPI calls that look for a message of any source until they find one, or know that there is none. Of MPICH 5.0.1:
/// who calls `MPID_Probe` and its like.
pub(crate) const SEARCHING: [&str; 5] = ["MPI_Probe", "MPI_Iprobe", "MPI_Mprobe", "MPI_Improbe", "MPI_Dist_graph_create"];

/// An MPI call of this thread begins, which is one of [`SEARCHING`] or not: it may have sent something to itself since
/// the last one.
pub(crate) fn call_begins(searches: bool) {
    SEARCHES.set(searches);
    EMPTY.set(0);
    WANTED.set(false);
}

/// The library looks for a message of any source. True: it must look into its own queue first.
pub fn comes_first() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    let first = SEARCHES.get() && EMPTY.get() < LOOKS && *EXISTS.get_or_init(|| std::env::var_os(VARIABLE).is_some());
    WANTED.set(first);
    first
}

/// The library polls a completion queue in vain. True if that was waited for: the poll shows that its own queue is
/// empty, and is no look for something else.
pub fn is_empty() -> bool {
    let wanted = WANTED.get() && EMPTY.get() < LOOKS;
    if wanted {
        EMPTY.set(EMPTY.get() + 1);
    }
    wanted
}

/// The library has found a message of any source on the network. What it does next may be to send to itself.
pub fn network_is_first() {
    EMPTY.set(0);
}

/// Whether a look was answered with "nothing" for the sake of that queue, so that the program must not be told so.
/// Asking forgets it.
pub fn look_again() -> bool {
    WANTED.replace(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_memory_are_seen() {
        let mut words = [7u64, 0, 0, 9, 0];
        let before = fingerprint(&words);
        words.swap(0, 3);
        assert_ne!(fingerprint(&words), before);
        words.swap(0, 3);
        assert_eq!(fingerprint(&words), before);
        words[4] = 1;
        assert_ne!(fingerprint(&words), before);
        assert_eq!(range("7fa5-7fb5 rw-s 00000000 00:1b 649   /dev/shm/mpich_shm_0 (deleted)"), Some((0x7fa5, 16)));
    }

    #[test]
    fn a_message_of_the_network_is_found_when_the_own_queue_was_empty_twice() {
        // SAFETY: no other thread of this test program reads the environment at this time.
        unsafe { std::env::set_var(VARIABLE, "1") };
        call_begins(true);
        assert!(!is_empty(), "nobody has looked for a message");
        assert!(comes_first() && comes_first() && is_empty());
        assert!(comes_first() && look_again() && !look_again());
        assert!(!is_empty(), "asked already");
        assert!(comes_first() && is_empty());
        assert!(!comes_first() && !look_again() && !comes_first());
        network_is_first();
        assert!(comes_first() && is_empty() && comes_first() && is_empty() && !comes_first());
        call_begins(true);
        assert!(comes_first());
        call_begins(false);
        assert!(!comes_first() && !look_again(), "this call looks once");
    }
}
