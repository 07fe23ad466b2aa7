//! What the NICs have done.

/// What the NICs have done, of one node or of all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Puts, gets and atomics started by processes of the node.
    pub messages: u64,
    /// Of these, puts ...
    pub puts: u64,
    /// ... gets ...
    pub gets: u64,
    /// ... and atomics of all kinds.
    pub atomics: u64,
    /// Triggered operations that the node has done.
    pub triggered: u64,
    /// Payload bytes that the puts and atomics of the node asked to send.
    pub put_bytes: u64,
    /// Payload bytes that the gets of the node asked to fetch.
    pub get_bytes: u64,
    /// Payload bytes that left the memory of the node for the network: puts, responses to gets.
    pub bytes_sent: u64,
    /// Payload bytes written into the memory of the node.
    pub bytes_received: u64,
    /// ACKs sent by the node.
    pub acks: u64,
    /// Operations that the node refused for good (dropped, disabled, violations).
    pub drops: u64,
    /// Operations that the node refused and that were repeated with success.
    pub retries: u64,
    /// Operations that matched in an overflow list of the node and left a header.
    pub unexpected: u64,
    /// Full events written.
    pub events: u64,
    /// Counting-event updates written.
    pub counts: u64,
    /// Commands received.
    pub commands: u64,
    /// Events for queues that did not exist.
    pub lost_events: u64,
}

impl std::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.messages += other.messages;
        self.puts += other.puts;
        self.gets += other.gets;
        self.atomics += other.atomics;
        self.triggered += other.triggered;
        self.put_bytes += other.put_bytes;
        self.get_bytes += other.get_bytes;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.acks += other.acks;
        self.drops += other.drops;
        self.retries += other.retries;
        self.unexpected += other.unexpected;
        self.events += other.events;
        self.counts += other.counts;
        self.commands += other.commands;
        self.lost_events += other.lost_events;
    }
}

/// What went wrong, at one NIC.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Troubles {
    /// Messages that its mailboxes refused: they were full, or an earlier one was missing.
    pub refused: u64,
    /// Messages that came once more.
    pub duplicates: u64,
    /// Messages of which it heard nothing in time.
    pub timeouts: u64,
    /// Messages and transfers for a process of another protection domain.
    pub denied: u64,
    /// Blocks whose page was missing.
    pub page_faults: u64,
}

impl std::ops::AddAssign for Troubles {
    fn add_assign(&mut self, other: Troubles) {
        self.refused += other.refused;
        self.duplicates += other.duplicates;
        self.timeouts += other.timeouts;
        self.denied += other.denied;
        self.page_faults += other.page_faults;
    }
}
