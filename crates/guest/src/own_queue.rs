//! The queue that an MPI library has of its own for messages of a rank to itself.
//!
//! MPICH's ch4 sends them through shared memory, also where that is otherwise off. A probe or receive for any source looks into that
//! queue first and then asks the network, and what is in the queue is taken out one message at a time by the progress engine. So a probe
//! may find a message of the network while one to itself is still on its way through the queue, and the receive that follows finds the
//! latter: MPI_Dist_graph_create of MPICH 5 relies on both finding the same. It happens on real machines too.
//!
//! The network therefore answers a look for any source with "nothing" until the library has found its own queue empty. Its engine
//! comes to the network only when it has (`MPIDI_progress_test`, MPICH 4.0 to 5.0): a poll of a completion queue between two such looks is
//! that sign. Twice, because a long message is put into the queue piece by piece, and the pass that puts the first one in comes here too.

use std::cell::Cell;
use std::sync::OnceLock;

/// Set by the launcher for MPI libraries that have such a queue.
const VARIABLE: &str = "NARROWS_OWN_QUEUE";
/// How often it must be found empty.
const LOOKS: u32 = 2;

thread_local! {
    /// How often it was found empty since a message was found, or the MPI call began.
    static EMPTY: Cell<u32> = const { Cell::new(0) };
    /// The network waits for such a look.
    static WANTED: Cell<bool> = const { Cell::new(false) };
}

/// An MPI call of this thread begins: it may have sent something to itself since the last one.
pub(crate) fn call_begins() {
    EMPTY.set(0);
    WANTED.set(false);
}

/// The library looks for a message of any source. True: it must look into its own queue first.
pub fn comes_first() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    let first = EMPTY.get() < LOOKS && *EXISTS.get_or_init(|| std::env::var_os(VARIABLE).is_some());
    WANTED.set(first);
    first
}

/// The library polls a completion queue in vain. True if that was waited for: the poll shows that its own queue is empty, and is no look for
/// something else.
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

/// Whether a look was answered with "nothing" for the sake of that queue, so that the program must not be told so. Asking forgets it.
pub fn look_again() -> bool {
    WANTED.replace(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_network_is_found_when_the_own_queue_was_empty_twice() {
        // SAFETY: no other thread of this test program reads the environment at this time.
        unsafe { std::env::set_var(VARIABLE, "1") };
        call_begins();
        assert!(!is_empty(), "nobody has looked for a message");
        assert!(comes_first() && comes_first() && is_empty());
        assert!(comes_first() && look_again() && !look_again());
        assert!(!is_empty(), "asked already");
        assert!(comes_first() && is_empty());
        assert!(!comes_first() && !look_again() && !comes_first());
        network_is_first();
        assert!(comes_first() && is_empty() && comes_first() && is_empty() && !comes_first());
        call_begins();
        assert!(comes_first());
    }
}
