//! An endpoint: libfabric's operations as calls of the message layer, the message layer's
//! completions as entries of completion queues.

use std::ffi::c_void;

use narrows_engine::Slab;
use narrows_message::{Completes, Completion, CompletionKind, MessageConfig, OPEN_LIMIT, Peek, Queue, Receive, Send, Status};
use narrows_portals::ProcessId;

use crate::fi::{self, Errno};
use crate::messages::Messages;
use crate::port::{self, Port, abi::FullEvent, abi::Handle, charge_copy};
use crate::queues::{Address, Entry, Origin, Shared};
use crate::rma::{self, OneSided};

/// Messages that are injected whatever the limit is, bytes: our own choice. Intel MPI does not ask for the limit before
/// it injects 32 bytes in one-sided operations.
const LEAST_INJECT: u64 = 64;

/// One send, receive or peek: `struct nw_operation` in C.
#[repr(C)]
pub struct Operation {
    iov: *const libc::iovec,
    iov_count: usize,
    peer: u64,
    tag: u64,
    ignore: u64,
    data: u64,
    context: *mut c_void,
    flags: u64,
    tagged: u32,
    quiet: u32,
}

impl Operation {
    fn queue(&self) -> Queue {
        if self.tagged != 0 { Queue::Tagged } else { Queue::Untagged }
    }

    /// The program's buffers.
    fn regions(&self) -> &[libc::iovec] {
        if self.iov_count == 0 || self.iov.is_null() {
            return &[];
        }
        // SAFETY: C passes the program's array and its length.
        unsafe { std::slice::from_raw_parts(self.iov, self.iov_count) }
    }

    fn check_tag(&self) -> Result<(), Errno> {
        if self.tagged != 0 && self.tag >> narrows_message::TAG_BITS != 0 { Err(fi::EINVAL) } else { Ok(()) }
    }
}

/// One contiguous buffer in the place of the program's, when those are several.
#[derive(Debug)]
struct Bounce {
    memory: Vec<u8>,
    /// Where received data go.
    regions: Vec<(u64, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Send,
    Receive,
    MultiReceive,
    Peek {
        claim: bool,
        discard: bool,
    },
    /// A peek that has claimed its message.
    Claimed,
}

/// What is remembered of an operation until it is complete. The message layer knows it by its index.
#[derive(Debug)]
struct Open {
    kind: OperationKind,
    queue: Queue,
    context: usize,
    /// Success gives an entry; failure always does.
    report: bool,
    bounce: Option<Bounce>,
}

/// Open operations by index.
#[derive(Debug)]
pub struct Slots<T>(Slab<T>);

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots(Slab::new())
    }
}

impl<T> Slots<T> {
    /// Keeps one; its index.
    pub fn insert(&mut self, open: T) -> u64 {
        u64::from(self.0.insert(open))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The one at an index.
    pub fn get(&self, index: u64) -> Option<&T> {
        self.0.get(u32::try_from(index).ok()?)
    }

    /// The one at an index.
    pub fn get_mut(&mut self, index: u64) -> Option<&mut T> {
        self.0.get_mut(u32::try_from(index).ok()?)
    }

    /// Takes one out.
    pub fn remove(&mut self, index: u64) -> Option<T> {
        self.0.remove(u32::try_from(index).ok()?)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.entries().map(|(_, open)| open)
    }

    /// Indices of those that `which` accepts.
    fn find(&self, which: impl Fn(&T) -> bool) -> impl Iterator<Item = u64> {
        self.0.entries().filter(move |(_, open)| which(open)).map(|(index, _)| u64::from(index))
    }
}

/// What an endpoint is bound to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    /// Address vector.
    pub av: Option<u32>,
    /// Completion queue of sends, and whether only calls that ask for it are reported.
    pub tx_cq: Option<(u32, bool)>,
    /// Completion queue of receives, likewise.
    pub rx_cq: Option<(u32, bool)>,
    /// Counter of sends.
    pub tx_counter: Option<u32>,
    /// Counter of receives.
    pub rx_counter: Option<u32>,
    /// Counter of reads, fetching atomics among them.
    pub read_counter: Option<u32>,
    /// Counter of writes, other atomics among them.
    pub write_counter: Option<u32>,
}

/// An endpoint.
pub struct Endpoint {
    port: Port,
    /// From the moment when it is enabled, if it has any.
    messages: Option<Messages>,
    /// Likewise.
    one_sided: Option<OneSided>,
    operations: Slots<Open>,
    /// Its name.
    pub address: Address,
    /// What it is bound to.
    pub bound: Bound,
    /// Bytes that a multi-receive buffer keeps free.
    pub min_multi_recv: u64,
    caps: u64,
    inject_size: u64,
}

impl Endpoint {
    /// Not yet enabled.
    pub fn new(port: Port, local: ProcessId, caps: u64, inject_size: u64, domain: u32) -> Endpoint {
        let address = Address { process: local, base: port.base, domain };
        Endpoint {
            port,
            messages: None,
            one_sided: None,
            operations: Slots::default(),
            address,
            bound: Bound::default(),
            min_multi_recv: 0,
            caps,
            inject_size,
        }
    }

    /// Starts.
    pub fn enable(&mut self, config: MessageConfig) -> Result<(), Errno> {
        if self.messages.is_none() && self.caps & (fi::MSG | fi::TAGGED) != 0 {
            self.messages = Some(Messages::open(&config, self.port.queue, self.port.base));
        }
        if self.one_sided.is_none() && self.caps & (fi::RMA | fi::ATOMIC) != 0 {
            self.one_sided = Some(OneSided::open(self.port.interface, self.inject_size)?);
        }
        Ok(())
    }

    /// See [`Messages::renew`].
    pub fn renew(&mut self) {
        if let Some(messages) = &mut self.messages {
            messages.renew();
        }
    }

    /// Its event queues: of messages, of one-sided operations.
    pub fn event_queues(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.port.queue).chain(self.one_sided.as_ref().map(|one_sided| one_sided.queue))
    }

    /// Results of searches that are on their way.
    pub fn searches_pending(&self) -> usize {
        self.messages.as_ref().map_or(0, Messages::searches_pending)
    }

    /// Takes every receive back, so that nothing more arrives in the program's memory.
    pub fn close(mut self, shared: &mut Shared) {
        if let Some(messages) = &mut self.messages {
            let posted: Vec<u64> =
                self.operations.find(|open| matches!(open.kind, OperationKind::Receive | OperationKind::MultiReceive)).collect();
            for index in posted {
                if let Some(open) = self.operations.get(index) {
                    messages.cancel(open.queue, index);
                }
            }
        }
        if let Some(messages) = &self.messages {
            messages.close();
        }
        if let Some(one_sided) = self.one_sided.take() {
            one_sided.close(shared);
        }
        self.port.close();
        // A message may still be on its way into a buffer of ours: such buffers stay.
        let rest: Vec<u64> = self.operations.find(|_| true).collect();
        for open in rest.into_iter().filter_map(|index| self.operations.remove(index)) {
            std::mem::forget(open.bounce);
        }
    }

    /// The endpoint behind an index of the address vector.
    fn address_of(&self, shared: &Shared, index: u64) -> Result<Address, Errno> {
        let av = self.bound.av.ok_or(fi::EINVAL)?;
        shared.avs.get(av)?.get(index).ok_or(fi::EINVAL)
    }

    /// The process behind an index, for messages.
    fn peer(&self, shared: &Shared, index: u64) -> Result<ProcessId, Errno> {
        let address = self.address_of(shared, index)?;
        if address.base != self.address.base {
            // Ranks that opened their endpoints in different orders: see port.rs.
            return Err(fi::EOPNOTSUPP);
        }
        Ok(address.process)
    }

    fn source_wanted(&self, shared: &Shared, operation: &Operation) -> Result<Option<ProcessId>, Errno> {
        if self.caps & fi::DIRECTED_RECV == 0 || operation.peer == fi::ADDR_UNSPEC {
            return Ok(None);
        }
        self.peer(shared, operation.peer).map(Some)
    }

    /// There is room for one more in the message layer.
    fn has_room(&self) -> Result<(), Errno> {
        if self.operations.len() < OPEN_LIMIT { Ok(()) } else { Err(fi::EAGAIN) }
    }

    /// Sends.
    pub fn send(&mut self, shared: &mut Shared, operation: &Operation) -> Result<(), Errno> {
        operation.check_tag()?;
        self.has_room()?;
        let target = self.peer(shared, operation.peer)?;
        if operation.flags & fi::FENCE != 0 && self.one_sided.as_ref().is_some_and(|one_sided| one_sided.busy(target)) {
            return Err(fi::EAGAIN);
        }
        let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
        let regions = operation.regions();
        let length: u64 = regions.iter().map(|region| region.iov_len as u64).sum();
        let inject = operation.flags & fi::INJECT != 0;
        if inject && length > self.inject_size.max(LEAST_INJECT) {
            return Err(fi::EMSGSIZE);
        }
        // Beyond the limit it is a message like others, but for its buffer.
        let copied = inject && length > self.inject_size;
        let inject = inject && !copied;
        let quiet = operation.quiet != 0;
        let selective = self.bound.tx_cq.is_some_and(|(_, selective)| selective);
        let report = !quiet && (!selective || operation.flags & fi::COMPLETION != 0);
        let mut bounce = None;
        let buffer = match regions {
            [] => 0,
            [one] if !copied => one.iov_base as u64,
            regions => {
                let memory = gather(regions);
                charge_copy(length);
                bounce.insert(Bounce { memory, regions: Vec::new() }).memory.as_ptr() as u64
            }
        };
        // An injected message is on its way, as far as the program is concerned, when the call returns.
        let counted_now = quiet && self.bound.tx_counter.is_some();
        let counted_later = !quiet && self.bound.tx_counter.is_some();
        let completes = if !report && !counted_later && (bounce.is_none() || inject) {
            Completes::Never
        } else if operation.flags & (fi::DELIVERY_COMPLETE | fi::TRANSMIT_COMPLETE) != 0 {
            Completes::Delivered
        } else {
            Completes::BufferFree
        };
        let context = match completes {
            Completes::Never => u64::MAX,
            _ => {
                let (queue, context) = (operation.queue(), operation.context as usize);
                self.operations.insert(Open { kind: OperationKind::Send, queue, context, report, bounce: bounce.take() })
            }
        };
        let send = Send {
            queue: operation.queue(),
            target,
            tag: operation.tag,
            data: (operation.flags & fi::REMOTE_CQ_DATA != 0).then_some(operation.data as u32),
            buffer,
            length,
            context,
            inject,
            completes,
        };
        messages.send(send);
        if counted_now {
            shared.count(self.bound.tx_counter, true);
        }
        self.drain(shared);
        Ok(())
    }

    /// Receives, peeks, claims, discards.
    pub fn receive(&mut self, shared: &mut Shared, operation: &Operation) -> Result<(), Errno> {
        operation.check_tag()?;
        self.has_room()?;
        if self.messages.is_none() {
            return Err(fi::EOPBADSTATE);
        }
        let claim = operation.flags & fi::CLAIM != 0;
        let discard = operation.flags & fi::DISCARD != 0;
        if operation.flags & fi::PEEK != 0 {
            self.peek(shared, operation, claim, discard)?;
        } else if claim {
            self.receive_claimed(operation, discard, shared)?;
        } else {
            self.post_receive(shared, operation)?;
        }
        self.drain(shared);
        Ok(())
    }

    fn reports_receive(&self, operation: &Operation) -> bool {
        operation.flags & fi::COMPLETION != 0 || !self.bound.rx_cq.is_some_and(|(_, selective)| selective)
    }

    /// Keeps what is needed of a receive; the message layer's view of it.
    fn open_receive(&mut self, operation: &Operation, kind: OperationKind, source: Option<ProcessId>) -> Receive {
        let regions = operation.regions();
        let length: u64 = regions.iter().map(|region| region.iov_len as u64).sum();
        let mut bounce = None;
        let buffer = match regions {
            [] => 0,
            [one] => one.iov_base as u64,
            several => {
                let regions = several.iter().map(|region| (region.iov_base as u64, region.iov_len)).collect();
                bounce.insert(Bounce { memory: vec![0; length as usize], regions }).memory.as_ptr() as u64
            }
        };
        let (queue, context) = (operation.queue(), operation.context as usize);
        let report = self.reports_receive(operation);
        let index = self.operations.insert(Open { kind, queue, context, report, bounce });
        Receive {
            queue,
            source,
            tag: operation.tag,
            ignore: operation.ignore,
            buffer,
            length,
            context: index,
            // Entries, counters and bounce buffers hang on it: what is not reported is dropped here.
            completion: true,
            multi: (kind == OperationKind::MultiReceive).then_some(self.min_multi_recv),
            execution: 0,
        }
    }

    fn post_receive(&mut self, shared: &Shared, operation: &Operation) -> Result<(), Errno> {
        let source = self.source_wanted(shared, operation)?;
        let multi = operation.flags & fi::MULTI_RECV != 0;
        if multi && (operation.tagged != 0 || operation.iov_count > 1) {
            return Err(fi::EINVAL);
        }
        let kind = if multi { OperationKind::MultiReceive } else { OperationKind::Receive };
        let receive = self.open_receive(operation, kind, source);
        let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
        messages.receive(receive);
        Ok(())
    }

    fn peek(&mut self, shared: &Shared, operation: &Operation, claim: bool, discard: bool) -> Result<(), Errno> {
        let source = self.source_wanted(shared, operation)?;
        // A message that is claimed is the one that is received, wherever it came from.
        if source.is_none() && !claim && !discard && port::own_queue_first() {
            return Err(fi::ENOMSG);
        }
        let (queue, context) = (operation.queue(), operation.context as usize);
        // A peek is only made for its result.
        let index =
            self.operations.insert(Open { kind: OperationKind::Peek { claim, discard }, queue, context, report: true, bounce: None });
        let (tag, ignore) = (operation.tag, operation.ignore);
        let peek = Peek { queue, source, tag, ignore, context: index, claim: claim || discard };
        let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
        messages.peek(peek);
        Ok(())
    }

    /// The claimed message is found by its context: Open MPI gives no address here.
    fn receive_claimed(&mut self, operation: &Operation, discard: bool, shared: &mut Shared) -> Result<(), Errno> {
        let (queue, context) = (operation.queue(), operation.context as usize);
        let is_it = |open: &Open| open.kind == OperationKind::Claimed && open.queue == queue && open.context == context;
        let claimed = self.operations.find(is_it).next().ok_or(fi::EINVAL)?;
        self.operations.remove(claimed);
        if discard {
            let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
            messages.discard_claimed(claimed);
            if self.reports_receive(operation) {
                let flags = fi::RECV | queue_flag(queue);
                let cq = self.bound.rx_cq.map(|(cq, _)| cq);
                shared.push(cq, Entry { tag: operation.tag, ..entry(context, flags) }, Origin::Event);
            }
            return Ok(());
        }
        let receive = self.open_receive(operation, OperationKind::Receive, None);
        let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
        messages.receive_claimed(claimed, receive);
        Ok(())
    }

    /// Takes a receive back.
    pub fn cancel(&mut self, shared: &mut Shared, context: usize) -> Result<(), Errno> {
        let receives = |open: &Open| matches!(open.kind, OperationKind::Receive | OperationKind::MultiReceive) && open.context == context;
        let posted: Vec<(u64, Queue)> =
            self.operations.find(receives).filter_map(|index| Some((index, self.operations.get(index)?.queue))).collect();
        shared.cancel(context, !posted.is_empty());
        let messages = self.messages.as_mut().ok_or(fi::EOPBADSTATE)?;
        let cancelled = posted.into_iter().any(|(index, queue)| messages.cancel(queue, index));
        self.drain(shared);
        if !cancelled {
            return Err(fi::ENOENT);
        }
        // Its entry is for whichever thread looks.
        port::after_look(true);
        Ok(())
    }

    /// Reads, writes, atomics.
    pub fn post_one_sided(&mut self, shared: &mut Shared, operation: &rma::Operation) -> Result<(), Errno> {
        let peer = self.address_of(shared, operation.peer)?;
        self.one_sided.as_mut().ok_or(fi::EOPBADSTATE)?.post(&self.bound, shared, peer, operation)
    }

    /// A piece of an operation that went as a message has ended; false: it is another endpoint's.
    pub fn one_sided_done(&mut self, shared: &mut Shared, (queue, index): (Handle, u64), fail: u32) -> bool {
        let Some(one_sided) = self.one_sided.as_mut().filter(|one_sided| one_sided.queue == queue) else { return false };
        one_sided.done(&self.bound, shared, index, fail);
        true
    }

    /// One event of one of the queues.
    pub fn event(&mut self, shared: &mut Shared, queue: Handle, event: &FullEvent) {
        if let Some(one_sided) = self.one_sided.as_mut().filter(|one_sided| one_sided.queue == queue) {
            return one_sided.event(&self.bound, shared, event);
        }
        if let Some(messages) = &mut self.messages {
            messages.event(&port::completion(event));
        }
        self.drain(shared);
    }

    /// Hands the message layer's completions on.
    fn drain(&mut self, shared: &mut Shared) {
        while let Some(completion) = self.messages.as_mut().and_then(Messages::next_completion) {
            match completion.kind {
                CompletionKind::Send => self.complete_send(shared, &completion),
                CompletionKind::Receive => self.complete_receive(shared, &completion),
                CompletionKind::Peek => self.complete_peek(shared, &completion),
                CompletionKind::Cancel => {}
            }
        }
    }

    fn complete_send(&mut self, shared: &mut Shared, completion: &Completion) {
        let Some(open) = self.operations.remove(completion.context) else { return };
        let success = completion.status == Status::Ok;
        shared.count(self.bound.tx_counter, success);
        if open.report || !success {
            let flags = fi::SEND | queue_flag(completion.queue);
            let cq = self.bound.tx_cq.map(|(cq, _)| cq);
            let origin = if completion.at_once { Origin::Call } else { Origin::Event };
            shared.push(cq, with_status(Entry { tag: completion.tag, ..entry(open.context, flags) }, completion), origin);
        }
    }

    fn complete_receive(&mut self, shared: &mut Shared, completion: &Completion) {
        let keep = self.operations.get(completion.context).is_some_and(|open| open.kind == OperationKind::MultiReceive)
            && !completion.released
            && completion.status != Status::Cancelled;
        let (context, report, bounce) = if keep {
            let Some(open) = self.operations.get(completion.context) else { return };
            (open.context, open.report, None)
        } else {
            let Some(open) = self.operations.remove(completion.context) else { return };
            (open.context, open.report, open.bounce)
        };
        let scattered = bounce.is_some();
        if let Some(bounce) = bounce {
            scatter(&bounce, completion.length);
            charge_copy(completion.length);
        }
        let success = completion.status == Status::Ok;
        shared.count(self.bound.rx_counter, success);
        if report || !success || completion.released {
            let released = if completion.released && success { fi::MULTI_RECV } else { 0 };
            let mut received = self.received(shared, context, completion);
            received.flags |= released;
            received.buf = if scattered { std::ptr::null_mut() } else { completion.buffer as usize as *mut c_void };
            shared.push(self.bound.rx_cq.map(|(cq, _)| cq), with_status(received, completion), Origin::Event);
        }
    }

    fn complete_peek(&mut self, shared: &mut Shared, completion: &Completion) {
        let Some(open) = self.operations.get_mut(completion.context) else { return };
        let context = open.context;
        match open.kind {
            OperationKind::Peek { discard: false, claim: true } if completion.status == Status::Ok => open.kind = OperationKind::Claimed,
            OperationKind::Peek { discard: true, .. } if completion.status == Status::Ok => {
                self.operations.remove(completion.context);
                if let Some(messages) = &mut self.messages {
                    messages.discard_claimed(completion.context);
                }
            }
            _ => {
                self.operations.remove(completion.context);
                if completion.status == Status::Ok {
                    port::network_first();
                }
            }
        }
        let found = self.received(shared, context, completion);
        shared.push(self.bound.rx_cq.map(|(cq, _)| cq), with_status(found, completion), Origin::Event);
    }

    /// The entry of a message that was received or found.
    fn received(&self, shared: &Shared, context: usize, completion: &Completion) -> Entry {
        let data = if completion.data.is_some() { fi::REMOTE_CQ_DATA } else { 0 };
        let av = self.bound.av.and_then(|av| shared.avs.get(av).ok());
        Entry {
            len: completion.length as usize,
            data: completion.data.map_or(0, u64::from),
            tag: completion.tag,
            source: av.map_or(fi::ADDR_NOTAVAIL, |av| av.index(completion.source, self.address.base)),
            ..entry(context, fi::RECV | queue_flag(completion.queue) | data)
        }
    }
}

fn queue_flag(queue: Queue) -> u64 {
    match queue {
        Queue::Tagged => fi::TAGGED,
        Queue::Untagged => fi::MSG,
    }
}

/// An entry without a message.
pub fn entry(context: usize, flags: u64) -> Entry {
    Entry {
        op_context: context as *mut c_void,
        flags,
        len: 0,
        buf: std::ptr::null_mut(),
        data: 0,
        tag: 0,
        source: fi::ADDR_NOTAVAIL,
        olen: 0,
        err: 0,
        prov_errno: 0,
    }
}

fn with_status(entry: Entry, completion: &Completion) -> Entry {
    match completion.status {
        Status::Ok => entry,
        Status::Truncated => {
            let olen = completion.full_length.saturating_sub(completion.length) as usize;
            Entry { err: fi::ETRUNC, olen, ..entry }
        }
        Status::NoMessage => Entry { err: fi::ENOMSG, ..entry },
        Status::Cancelled => Entry { err: fi::ECANCELED, ..entry },
        Status::Failed(fail) => Entry { err: fi::EIO, prov_errno: fail as i32, ..entry },
    }
}

fn gather(regions: &[libc::iovec]) -> Vec<u8> {
    let mut memory = Vec::with_capacity(regions.iter().map(|region| region.iov_len).sum());
    for region in regions.iter().filter(|region| region.iov_len > 0) {
        // SAFETY: the program gave these bytes to be sent.
        memory.extend_from_slice(unsafe { std::slice::from_raw_parts(region.iov_base.cast::<u8>(), region.iov_len) });
    }
    memory
}

fn scatter(bounce: &Bounce, length: u64) {
    let mut rest = &bounce.memory[..(length as usize).min(bounce.memory.len())];
    for (address, room) in &bounce.regions {
        let (now, later) = rest.split_at(rest.len().min(*room));
        // SAFETY: the program gave this room to be received into, and it is `room` bytes long.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), *address as usize as *mut u8, now.len()) };
        rest = later;
    }
}
