//! Sockets on the simulated network: their node's TCP/IP is in the simulator
//! (docs/decisions/0028-sockets-on-the-network.md).

use super::Rank;
use crate::stretches;
use narrows_channel::record::{SOCKET_WORDS, encode_socket};
use narrows_socketcalls::CallKind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The rank has had a socket.
static HAS_SOCKETS: AtomicBool = AtomicBool::new(false);

impl Rank {
    /// Calls it, and waits for the answer, which never takes longer than the call itself.
    pub(crate) fn socket_call(&mut self, words: &[u64; SOCKET_WORDS]) -> i64 {
        self.account_compute(stretches::SLEEP);
        self.activity();
        self.await_others();
        HAS_SOCKETS.store(true, Relaxed);
        let ticket = self.ticket();
        self.write(|writer, clock| encode_socket(writer, clock, ticket, words));
        let (_, value) = self.wait_reply(ticket);
        self.activity();
        self.mark_cpu();
        value as i64
    }

    /// The program ends: so do its sockets, for others may wait for that.
    pub(crate) fn end_sockets(&mut self) {
        if HAS_SOCKETS.load(Relaxed) && !self.outside {
            let mut words = [0; SOCKET_WORDS];
            words[0] = CallKind::End as u64;
            self.socket_call(&words);
        }
    }
}
