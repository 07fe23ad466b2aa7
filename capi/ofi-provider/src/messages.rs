//! The messages of an endpoint. The message layer itself is in the simulator: what is asked for goes there, and what is
//! complete comes back as an event of the endpoint's queue.

use std::collections::VecDeque;
use std::ffi::c_int;

use narrows_message::{CALL_WORDS, Call, Completes, Completion, CompletionKind, MessageConfig, Peek, Queue, Receive, Send, Status};
use narrows_portals::Event;

use crate::port::abi::Handle;

unsafe extern "C" {
    fn narrows_message_call(queue: Handle, words: *const u64, payload: *const u8, length: usize) -> c_int;
}

/// See [`narrows_message::Endpoint`], whose calls these are.
#[derive(Debug)]
pub struct Messages {
    queue: Handle,
    inject_limit: u64,
    searches: usize,
    completions: VecDeque<Completion>,
}

impl Messages {
    /// Those of the endpoint with this event queue and block of portal table entries.
    pub fn open(config: &MessageConfig, queue: Handle, base: u32) -> Messages {
        let inject_limit = config.inject_limit;
        let messages = Messages { queue, inject_limit, searches: 0, completions: VecDeque::new() };
        messages.call(&Call::Open { base }, None);
        messages
    }

    fn call(&self, call: &Call, payload: Option<&[u8]>) -> bool {
        let words: [u64; CALL_WORDS] = call.to_words();
        let (data, length) = payload.map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
        // SAFETY: an array of its length, and null or `length` bytes.
        let code = unsafe { narrows_message_call(self.queue, words.as_ptr(), data, length) };
        // Without it the books here and those of the message layer do not agree: the call that led here fails as a
        // whole.
        assert!(code >= 0, "narrows_message_call fails with {}", -code);
        code > 0
    }

    /// See [`narrows_message::Endpoint::send`].
    pub fn send(&mut self, mut send: Send) {
        let at_once = send.completes == Completes::BufferFree && send.length <= self.inject_limit;
        send.inject |= at_once;
        // SAFETY: the program gave these bytes to be sent.
        let payload = (send.inject && send.length > 0)
            .then(|| unsafe { std::slice::from_raw_parts(send.buffer as usize as *const u8, send.length as usize) });
        if at_once {
            send.completes = Completes::Never;
            self.completions.push_back(Completion::of_send(&send, Status::Ok, true));
        }
        self.call(&Call::Send(send), payload);
    }

    /// See [`narrows_message::Endpoint::receive`].
    pub fn receive(&mut self, receive: Receive) {
        self.call(&Call::Receive(receive), None);
    }

    /// See [`narrows_message::Endpoint::receive_claimed`]. The caller knows that the message was claimed.
    pub fn receive_claimed(&mut self, claim: u64, receive: Receive) {
        self.call(&Call::ReceiveClaimed { claim, receive }, None);
    }

    /// See [`narrows_message::Endpoint::discard_claimed`]. The caller knows that the message was claimed.
    pub fn discard_claimed(&mut self, claim: u64) {
        self.call(&Call::DiscardClaimed { claim }, None);
    }

    /// See [`narrows_message::Endpoint::peek`].
    pub fn peek(&mut self, peek: Peek) {
        self.searches += 1;
        self.call(&Call::Peek { peek, waits: false }, None);
    }

    /// Takes a receive back; false: a message was faster.
    pub fn cancel(&mut self, queue: Queue, context: u64) -> bool {
        self.call(&Call::Cancel { queue, context, ticket: 0 }, None)
    }

    /// See [`narrows_message::Endpoint::renew`].
    pub fn renew(&self) {
        self.call(&Call::Renew, None);
    }

    /// Nothing more comes.
    pub fn close(&self) {
        self.call(&Call::Close, None);
    }

    /// An event of the queue.
    pub fn event(&mut self, event: &Event) {
        let completion = Completion::from_event(event).expect("the message layer's own events");
        self.searches -= usize::from(completion.kind == CompletionKind::Peek);
        self.completions.push_back(completion);
    }

    /// See [`narrows_message::Endpoint::next_completion`].
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// See [`narrows_message::Endpoint::searches_pending`].
    pub fn searches_pending(&self) -> usize {
        self.searches
    }
}
