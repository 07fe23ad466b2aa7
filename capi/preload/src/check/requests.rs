//! Requests: what they stand for, from the call that makes them to the one that ends them.

use super::State;
use super::arguments::Scratch;
use super::library::Handle;
use super::memory::Pieces;
use narrows_facts::shape::Which;
use narrows_facts::{Fact, Message, Mode, Object, UNKNOWN};
use narrows_mpicalls::ANY;

/// A request under way, or a persistent one.
pub(super) struct Open {
    pub(super) number: u32,
    /// Where the program keeps the handle: libraries give several requests that are over at once the same one.
    pub(super) address: u64,
    /// The thread that has made it.
    pub(super) thread: u32,
    pub(super) communicator: u32,
    /// A receive whose source or tag is not known yet.
    pub(super) wild: bool,
    /// Bytes of a send and their sum, or of a receive, with 0.
    pub(super) sum: Option<(Vec<(u64, u64)>, u64)>,
    /// Where the bytes of its buffers lie, with `--check=memory`.
    pub(super) pieces: Pieces,
    /// What a persistent one that is no message reads and writes.
    pub(super) buffers: (Pieces, Pieces),
    /// It is a receive that is summed when it is over.
    pub(super) receive: bool,
    /// What a persistent request starts, and its number as an object.
    pub(super) persistent: Option<(Vec<Message>, u32)>,
    /// It is under way.
    pub(super) active: bool,
    /// It stands for so many numbers.
    pub(super) count: u32,
}

impl State {
    pub(super) fn nonblocking(&mut self, id: u32, own: &Scratch, at: u8, parts: &[(bool, [u8; 6])]) {
        let mut messages = Vec::with_capacity(2);
        for &(receive, at) in parts {
            messages.extend(self.message(id, own, receive, Mode::Nonblocking, at));
        }
        let (handle, address) = own.handle_at(Handle::Request, at, 0);
        self.opens(handle, address, own.thread, &messages);
    }

    /// Messages are under way, with one handle.
    fn opens(&mut self, handle: u64, address: u64, thread: u32, messages: &[Message]) {
        let Some(first) = messages.first() else { return };
        let mut wild = false;
        let (mut kept, pieces) = (None, self.pieces_of(messages));
        for message in messages {
            wild |= message.receive && (message.peer == ANY || message.tag == ANY);
            kept = self.begun(message.clone());
        }
        self.wild += usize::from(wild);
        self.requests.entry(handle).or_default().push(Open {
            number: first.request,
            address,
            thread,
            communicator: first.communicator,
            wild,
            sum: kept,
            pieces,
            buffers: <_>::default(),
            receive: messages.len() == 1 && first.receive,
            persistent: None,
            active: true,
            count: messages.len() as u32,
        });
    }

    /// Another request is under way.
    pub(super) fn other(&mut self, id: u32, own: &Scratch, at: u8) -> u32 {
        let (handle, address) = own.handle_at(Handle::Request, at, 0);
        let number = self.number();
        self.tell(&Fact::Request { request: number, call: id, place: own.place });
        self.requests.entry(handle).or_default().push(Open {
            number,
            address,
            thread: own.thread,
            communicator: UNKNOWN,
            wild: false,
            sum: None,
            pieces: Vec::new(),
            buffers: <_>::default(),
            receive: false,
            persistent: None,
            active: true,
            count: 1,
        });
        number
    }

    /// Buffers of messages, if they are watched.
    fn pieces_of(&self, messages: &[Message]) -> Vec<(u64, u64)> {
        if self.watched.is_none() { Vec::new() } else { messages.iter().flat_map(|message| message.pieces.iter().copied()).collect() }
    }

    /// A persistent request is made; of a message, a receive or a send.
    pub(super) fn persistent(&mut self, id: u32, own: &Scratch, at: u8, receive: Option<bool>) {
        let message = receive.and_then(|receive| self.message(id, own, receive, Mode::Nonblocking, [0, 1, 2, 3, 4, 5]));
        let (handle, address) = own.handle_at(Handle::Request, at, 0);
        let object = self.next_object;
        self.next_object += 1;
        self.tell(&Fact::Made { what: Object::Request, number: object, call: id, place: own.place });
        self.requests.entry(handle).or_default().push(Open {
            number: 0,
            address,
            thread: own.thread,
            communicator: message.as_ref().map_or(UNKNOWN, |message| message.communicator),
            wild: false,
            sum: None,
            pieces: Vec::new(),
            buffers: <_>::default(),
            receive: false,
            persistent: Some((message.into_iter().collect(), object)),
            active: false,
            count: 1,
        });
    }

    pub(super) fn starts(&mut self, id: u32, place: u32, handle: u64, address: u64) {
        let number = self.number();
        let Some(open) = self.find(handle, address) else { return };
        let Some((messages, _)) = &open.persistent else { return };
        open.number = number;
        open.active = true;
        let message = messages.first().map(|message| Message { request: number, place, ..message.clone() });
        let wild = message.as_ref().is_some_and(|message| message.receive && (message.peer == ANY || message.tag == ANY));
        open.wild = wild;
        open.receive = message.as_ref().is_some_and(|message| message.receive);
        let buffers = open.buffers.clone();
        self.wild += usize::from(wild);
        match message {
            Some(message) => {
                let pieces = self.pieces_of(std::slice::from_ref(&message));
                let kept = self.begun(message);
                if let Some(open) = self.find(handle, address) {
                    (open.sum, open.pieces) = (kept, pieces);
                }
            }
            None => {
                self.tell(&Fact::Request { request: number, call: id, place });
                self.owns(number, buffers, (handle, address));
            }
        }
    }

    /// Which of the requests with a handle a call ends that has the handle at `address`, and whether that is sure: the
    /// last one whose handle was put there. A program may have moved its handles: if the call has as many of them
    /// (`given`) as the thread has made, they are in the order in which they were made, and this one is behind `before`
    /// others.
    fn which(open: &[Open], address: u64, thread: u32, place: impl FnOnce() -> (usize, usize)) -> (usize, bool) {
        if let [_] = open {
            return (0, true);
        }
        if let Some(at) = open.iter().rposition(|open| open.address == address) {
            return (at, true);
        }
        let (given, before) = place();
        let active = || open.iter().enumerate().filter(|(_, open)| open.active).map(|(at, _)| at);
        let own = || active().filter(|&at| open[at].thread == thread);
        let (count, chosen) = match own().count() {
            0 => (active().count(), active().nth(before)),
            count => (count, own().nth(before)),
        };
        (chosen.or(active().next()).unwrap_or(0), count == given)
    }

    /// It is not known which of the requests with a handle is over: none of them says anything any more of its buffer.
    fn forget(&mut self, handle: u64) {
        let mut over = Vec::new();
        for open in self.requests.get_mut(&handle).into_iter().flatten().filter(|open| open.active && open.persistent.is_none()) {
            open.sum = None;
            over.extend(open.number..open.number + std::mem::take(&mut open.count));
        }
        over.into_iter().for_each(|request| self.tell(&Fact::Ended { request }));
    }

    pub(super) fn find(&mut self, handle: u64, address: u64) -> Option<&mut Open> {
        let open = self.requests.get_mut(&handle)?;
        let at = open.iter().rposition(|open| open.address == address).unwrap_or(0);
        open.get_mut(at)
    }

    /// The requests of these indices are over.
    pub(super) fn completes(&mut self, own: &Scratch, which: Which, flag: Option<u8>, statuses: u8, several: bool, good: bool) {
        if flag.is_some_and(|flag| own.output(flag) == 0) {
            return;
        }
        // A call that fails may have completed some: nobody knows which, so none is asked after.
        let which = if !good && several { Which::All } else { which };
        // Fortran counts from 1.
        let first = i32::from(own.fortran);
        let mut ended = vec![false; own.handles.len()];
        match which {
            Which::All => (0..own.handles.len()).for_each(|index| self.over(own, index, (statuses, index, good), &mut ended)),
            Which::Any(at) => {
                let index = own.output(at) - first;
                if index >= 0 {
                    self.over(own, index as usize, (statuses, 0, good), &mut ended);
                }
            }
            Which::Some(count, indices) => {
                for place in 0..own.output(count).max(0) as usize {
                    // SAFETY: the call has written so many indices.
                    let index = unsafe { *(own.words[usize::from(indices)] as *const i32).add(place) } - first;
                    if index >= 0 {
                        self.over(own, index as usize, (statuses, place, good), &mut ended);
                    }
                }
            }
        }
    }

    /// One of the requests of a call is over, behind those that have `ended` in it.
    fn over(&mut self, own: &Scratch, index: usize, (statuses, place, good): (u8, usize, bool), ended: &mut [bool]) {
        let Some(&(handle, address)) = own.handles.get(index) else { return };
        let Some(list) = self.requests.get(&handle) else { return };
        let (at, sure) = Self::which(list, address, own.thread, || {
            let same = |range: std::ops::Range<usize>| range.filter(|&other| own.handles[other].0 == handle && !ended[other]).count();
            (same(0..own.handles.len()), same(0..index))
        });
        ended[index] = true;
        if !sure {
            self.forget(handle);
        }
        let Some(list) = self.requests.get_mut(&handle) else { return };
        let Some(open) = list.get_mut(at).filter(|open| open.active) else { return };
        let (number, count, communicator) = (open.number, open.count, open.communicator);
        let wild = std::mem::take(&mut open.wild);
        let (kept, receive) = (open.sum.take(), open.receive);
        open.active = false;
        if open.persistent.is_none() {
            list.remove(at);
            if list.is_empty() {
                self.requests.remove(&handle);
            }
        }
        if wild {
            self.wild -= 1;
            let status = (good && sure).then(|| own.status(statuses, place, self.constants));
            self.matched(number, communicator, status);
        }
        if let Some((pieces, before)) = kept {
            let now = self.sum(&pieces, false);
            if receive && good && now != 0 {
                self.tell(&Fact::Received { request: number, sum: now });
            } else if !receive && now != 0 && now != before {
                // The send is the last of them.
                self.tell(&Fact::Changed { request: number + count - 1 });
            }
        }
        for request in number..number + count {
            self.tell(&Fact::Ended { request });
        }
    }

    pub(super) fn frees(&mut self, thread: u32, handle: u64, address: u64) {
        let Some(list) = self.requests.get(&handle) else { return };
        let (at, sure) = Self::which(list, address, thread, || (1, 0));
        if !sure {
            self.forget(handle);
        }
        let Some(list) = self.requests.get_mut(&handle).filter(|list| at < list.len()) else { return };
        let open = list.remove(at);
        if list.is_empty() {
            self.requests.remove(&handle);
        }
        if open.active {
            if open.wild {
                // What it gets nobody will say.
                self.wild -= 1;
                self.tell(&Fact::Doubt { communicator: open.communicator });
            }
            for request in open.number..open.number + open.count {
                self.tell(&Fact::Ended { request });
            }
        }
        if let Some((_, object)) = open.persistent {
            self.tell(&Fact::Freed { what: Object::Request, number: object });
        }
    }
}
