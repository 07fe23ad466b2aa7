//! What a check wants to know of MPI calls: `narrows run --check`.
//!
//! [`enter`] and [`leave`] stand around every marked call and make facts of its arguments (`narrows-facts`). Nothing is
//! judged here: the simulator compares what all ranks tell. Without a check [`on`] is all that a call costs.
//!
//! With `--check=memory` the program goes on step by step behind a call that leaves memory which it must not touch
//! (`steps.rs`, `memory.rs`).
//!
//! Handles become numbers here, in one space for C and Fortran. Of a send that goes on behind its call a sum of the
//! buffer is kept, and compared when the send is over.

mod arguments;
mod buffers;
mod collectives;
mod library;
mod memory;
mod requests;
#[cfg(target_arch = "x86_64")]
mod steps;

use crate::arch::REGISTERS;
use crate::portals;
use crate::symbols::{self, Symbol};
use arguments::{ARGUMENTS, Scratch};
use buffers::{PIECES_TOLD, ends};
use library::{Handle, Level, Type};
use narrows_facts::shape::{self, How, Shape, Sizes};
use narrows_facts::{Access, Collective, Fact, LONGEST, Message, Mode, OPERATIONS, Object, Part, Signature, UNKNOWN};
use narrows_mpicalls::{ANY, CALLS, NONE};
use narrows_mpilib::Constants;
use requests::Open;
use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// Facts are made.
static ON: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Whether anybody wants to know.
#[inline]
pub fn on() -> bool {
    ON.load(Relaxed)
}

struct State {
    constants: &'static Constants,
    communicators: BTreeMap<u64, u32>,
    types: BTreeMap<u64, Type>,
    requests: BTreeMap<u64, Vec<Open>>,
    places: BTreeMap<u64, u32>,
    objects: BTreeMap<(Object, u64), Vec<u32>>,
    windows: BTreeMap<u64, u32>,
    /// Receives of matched probes, by message.
    next_communicator: u32,
    next_request: u32,
    next_object: u32,
    /// Receives with wildcards under way.
    wild: usize,
    level: Level,
    /// The thread that has initialised MPI.
    main: u32,
    /// Under MPI_THREAD_MULTIPLE: who sends and receives on each communicator.
    users: BTreeMap<u32, u32>,
    /// Another thread has made a communicator: which of several it is nobody can say from then on.
    made_elsewhere: bool,
    /// Below that: the thread that is in a call, the call and its place.
    inside: Option<(u32, u32, u32)>,
    words: Vec<u64>,
    /// Where bytes are put to be summed.
    part: Vec<u8>,
    /// With `--check=memory`: what the program must not touch.
    watched: Option<memory::Watched>,
}

thread_local! {
    // Never dropped: so that no destructor has to be registered.
    static SCRATCH: UnsafeCell<ManuallyDrop<Scratch>> = const {
        UnsafeCell::new(ManuallyDrop::new(Scratch {
            active: false, thread: 0, words: [0; ARGUMENTS], fortran: false, described: false, wide: false, place: 0,
            handles: Vec::new(), statuses: Vec::new(), waits: None, probes: None,
        }))
    };
}

/// Sessions that have begun and not ended, in a program without MPI_COMM_WORLD.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Where a session that begins will be, and whether it is one of Fortran.
    static SESSION: Cell<(*const u64, bool)> = const { Cell::new((std::ptr::null(), false)) };
}

/// The C handle of an info object of Fortran.
pub fn c_info(handle: i32) -> *mut c_void {
    library::from_fortran(Handle::Info, handle) as *mut c_void
}

pub use library::{Handle as Kind, Type as Datatype, from_fortran, look_up_type, name_of_communicator, name_of_type};

/// The C handle of a communicator of Fortran.
pub fn c_communicator(handle: i32) -> *mut c_void {
    library::from_fortran(Handle::Communicator, handle) as *mut c_void
}

/// The user has asked for a check. Looked up once: without one that is all that a call costs.
fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    // SAFETY: a constant name; nobody changes this variable.
    *WANTED.get_or_init(|| !unsafe { libc::getenv(c"NARROWS_CHECK".as_ptr()) }.is_null())
}

/// And of loads and stores.
fn memory_wanted() -> bool {
    // SAFETY: as above; the value stays.
    unsafe {
        let value = libc::getenv(c"NARROWS_CHECK".as_ptr());
        !value.is_null() && std::ffi::CStr::from_ptr(value) == c"memory"
    }
}

/// The last thing before the program goes on.
#[inline]
pub fn goes_on() {
    #[cfg(target_arch = "x86_64")]
    if on() {
        steps::go();
    }
}

/// A call of C or Fortran begins.
///
/// # Safety
/// `registers` hold its first arguments.
pub unsafe fn notes(symbol: &Symbol, registers: *const u64) {
    if wanted() && symbol.call().name == "MPI_Session_init" {
        // SAFETY: the third of its arguments.
        SESSION.set((unsafe { *registers.add(2) } as *const u64, symbol.fortran));
    }
}

/// MPI_Init has returned, or another call, with this code.
pub fn after_leave(id: u32, code: i32) {
    if !wanted() {
        return;
    }
    let name = CALLS[id as usize].name;
    let (session, fortran) = SESSION.replace((std::ptr::null(), false));
    if code != 0 || (!matches!(name, "MPI_Init" | "MPI_Init_thread") && session.is_null()) {
        return;
    }
    if on() {
        if !session.is_null() && SESSIONS.load(Relaxed) > 0 {
            SESSIONS.fetch_add(1, Relaxed);
        }
        return;
    }
    if !portals::active() {
        return;
    }
    let level = if session.is_null() {
        library::level()
    } else {
        // SAFETY: the call has put a handle there.
        let handle = unsafe {
            match fortran {
                true => library::from_fortran(Handle::Session, *session.cast::<i32>()),
                false => symbols::abi().handle_at(session as u64),
            }
        };
        let Some(level) = library::session(handle) else { return };
        SESSIONS.store(1, Relaxed);
        level
    };
    let [world, own] = library::predefined();
    let state = State {
        constants: symbols::constants(),
        communicators: BTreeMap::from([(world, 0), (own, 1)]),
        types: BTreeMap::new(),
        requests: BTreeMap::new(),
        places: BTreeMap::new(),
        objects: BTreeMap::new(),
        windows: BTreeMap::new(),
        next_communicator: 2,
        next_request: 1,
        next_object: 1,
        wild: 0,
        level,
        main: thread_number(),
        users: BTreeMap::new(),
        made_elsewhere: false,
        inside: None,
        words: Vec::new(),
        part: Vec::new(),
        watched: memory_wanted().then(memory::Watched::default),
    };
    with(|known| *known = Some(state));
    ON.store(true, Relaxed);
}

/// A call begins; its mark has not been made.
pub fn before_enter(id: u32) {
    let ends = CALLS[id as usize].name == "MPI_Session_finalize" && SESSIONS.load(Relaxed) > 0 && SESSIONS.fetch_sub(1, Relaxed) == 1;
    if ends || (shape::of(id) == Shape::Finalize && SESSIONS.load(Relaxed) == 0) {
        // Before the rank waits for the others, outside simulated time.
        ON.store(false, Relaxed);
        with(|state| {
            if let Some(mut state) = state.take() {
                state.watched();
                state.tell(&Fact::Finalize);
            }
        });
        library::session_ends();
    }
}

/// The number of the calling thread, from 1.
fn thread_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    SCRATCH.with(|scratch| {
        // SAFETY: as in `begin`; nothing else is borrowed here.
        let own: &mut Scratch = unsafe { &mut *scratch.get() };
        if own.thread == 0 {
            own.thread = LAST.fetch_add(1, Relaxed) + 1;
        }
        own.thread
    })
}

/// Any thread may call it at any time (MPI 4.1, section 11.4.1).
fn is_free(name: &str) -> bool {
    ["MPI_Initialized", "MPI_Finalized", "MPI_Query_thread", "MPI_Is_thread_main", "MPI_Abort"].contains(&name)
        || ["MPI_Get_", "MPI_Error_", "MPI_Info_", "MPI_Session_", "MPI_T_"].iter().any(|begin| name.starts_with(begin))
}

fn with<T>(act: impl FnOnce(&mut Option<State>) -> T) -> T {
    act(&mut STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// # Safety
/// `registers` and `stack` hold the arguments of a call of this symbol, and may be changed.
pub unsafe fn enter(symbol: &Symbol, registers: *mut u64, stack: *mut u64) {
    let count = usize::from(symbol.call().arguments) + usize::from(symbol.fortran);
    let place_of = |position: usize| {
        // SAFETY: the first are in registers, the others on the stack.
        unsafe { if position < REGISTERS { registers.add(position) } else { stack.add(position - REGISTERS) } }
    };
    let mut words = [0; ARGUMENTS];
    for (position, word) in words.iter_mut().enumerate().take(count) {
        // SAFETY: the call has so many arguments; Fortran passes ierror, or leaves it out behind the others.
        *word = unsafe { *place_of(position) };
    }
    let name = symbol.name().to_bytes();
    // SAFETY: the word above the arguments is where the call returns to.
    let from = unsafe { *stack.sub(1) };
    let status = begin(symbol.id(), symbol.fortran, name.ends_with(b"f08ts_"), from, words);
    if let Some((position, address)) = status {
        // SAFETY: as above; a callee may change its arguments (System V ABI).
        unsafe { *place_of(position) = address };
    }
}

/// As [`enter`] for calls with code of their own, which change nothing.
pub fn enter_special(id: u32, fortran: bool, arguments: &[u64]) {
    let mut words = [0; ARGUMENTS];
    words.iter_mut().zip(arguments).for_each(|(word, &argument)| *word = argument);
    begin(id, fortran, false, 0, words);
}

/// Where a status of ours must be passed instead of none: position and address.
fn begin(id: u32, fortran: bool, described: bool, from: u64, words: [u64; ARGUMENTS]) -> Option<(usize, u64)> {
    let shape = shape::of(id);
    let thread = thread_number();
    SCRATCH.with(|scratch| {
        // SAFETY: marks keep calls within a call away; an exception through the call ends this borrow before the next.
        let own: &mut Scratch = unsafe { &mut *scratch.get() };
        own.active = true;
        (own.words, own.fortran, own.described, own.wide) = (words, fortran, described, CALLS[id as usize].name.ends_with("_c"));
        with(|state| {
            let state = state.as_mut()?;
            state.watched();
            if state.level != Level::Multiple {
                state.may_call(id, thread, from);
            }
            Some(())
        })?;
        if shape == Shape::None {
            return None;
        }
        own.handles.clear();
        (own.waits, own.probes) = (None, None);
        with(|state| {
            let state = state.as_mut()?;
            own.place = state.place(from);
            state.begins(id, shape, own)
        })
    })
}

/// It returns with this code.
pub fn leave(id: u32, code: i32) {
    SCRATCH.with(|scratch| {
        // SAFETY: as in `begin`.
        let own: &mut Scratch = unsafe { &mut *scratch.get() };
        if !std::mem::take(&mut own.active) {
            return;
        }
        let shape = shape::of(id);
        let code = if own.fortran && shape != Shape::None {
            let error = own.words.get(usize::from(CALLS[id as usize].arguments)).copied().unwrap_or(0) as *const i32;
            // SAFETY: the address of an integer, or nothing.
            unsafe { error.as_ref() }.copied().unwrap_or(0)
        } else {
            code
        };
        with(|state| {
            if let Some(state) = state.as_mut() {
                state.inside = state.inside.filter(|inside| inside.0 != own.thread);
                if shape != Shape::None {
                    state.ends(id, shape, own, code == 0);
                }
                state.watches(own.place);
            }
        });
    });
}

impl State {
    fn tell(&mut self, fact: &Fact) {
        self.words.clear();
        fact.put(&mut self.words);
        portals::fact(&self.words);
    }

    /// The number of the place that a call returns to.
    fn place(&mut self, from: u64) -> u32 {
        if let Some(&place) = self.places.get(&from) {
            return place;
        }
        let place = self.places.len() as u32 + 1;
        self.places.insert(from, place);
        // SAFETY: dladdr fills the record for an address of a loaded file; its name stays valid.
        let (object, offset) = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if from == 0 || libc::dladdr(from as *const c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
                (String::new(), 0)
            } else {
                let name = std::ffi::CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned();
                let base = info.dli_fbase as u64;
                // A program that is not position-independent has its own addresses.
                let fixed = (*(base as *const libc::Elf64_Ehdr)).e_type == libc::ET_EXEC;
                // What the program was started by may be relative.
                let path = std::fs::canonicalize(&name).or_else(|_| std::fs::read_link("/proc/self/exe"));
                (path.map_or(name, |path| path.display().to_string()), if fixed { from } else { from - base })
            }
        };
        self.tell(&Fact::Place { place, offset, object });
        place
    }

    fn type_of(&mut self, handle: u64) -> Type {
        self.types.entry(handle).or_insert_with(|| library::look_up_type(handle)).clone()
    }

    fn communicator(&self, handle: u64) -> u32 {
        self.communicators.get(&handle).copied().unwrap_or(UNKNOWN)
    }

    /// The communicator of a message. Of two threads that use the same one nobody can say whose message is the first.
    fn communicator_of(&mut self, own: &Scratch, at: u8) -> u32 {
        let communicator = self.communicator(own.handle(Handle::Communicator, at));
        if self.level != Level::Funneled && communicator != UNKNOWN {
            let user = *self.users.entry(communicator).or_insert(own.thread);
            if self.level == Level::Multiple && user != own.thread {
                self.users.insert(communicator, 0);
                if user != 0 {
                    self.tell(&Fact::Doubt { communicator });
                }
            }
        }
        communicator
    }

    /// A call from this thread, below MPI_THREAD_MULTIPLE.
    fn may_call(&mut self, id: u32, thread: u32, from: u64) {
        if thread == self.main && self.level == Level::Funneled || is_free(CALLS[id as usize].name) {
            return;
        }
        let place = self.place(from);
        if self.level == Level::Funneled {
            self.tell(&Fact::Thread { call: id, place, other: 0, other_place: 0 });
            return;
        }
        if let Some((other, call, other_place)) = self.inside
            && other != thread
        {
            self.tell(&Fact::Thread { call: id, place, other: call + 1, other_place });
        }
        self.inside = Some((thread, id, place));
    }

    fn number(&mut self) -> u32 {
        let number = self.next_request;
        self.next_request = number.wrapping_add(1).max(1);
        number
    }

    /// Bytes and kind of so many elements.
    fn signature(&mut self, own: &Scratch, count: u8, datatype: u8) -> Signature {
        let elements = own.count(count);
        if elements == 0 {
            return Signature::default();
        }
        let of = self.type_of(own.handle(Handle::Datatype, datatype));
        Signature { bytes: elements.saturating_mul(of.size), kind: of.kind }
    }

    /// A send or receive as its arguments say; `None` to or from nobody. `at`: buffer, count, type, rank, tag,
    /// communicator.
    fn message(&mut self, id: u32, own: &Scratch, receive: bool, mode: Mode, at: [u8; 6]) -> Option<Message> {
        let rank = own.int(at[3]);
        let any_source = receive && rank == self.constants.any_source;
        if rank < 0 && !any_source {
            return None;
        }
        let tag = own.int(at[4]);
        let tag = if receive && tag == self.constants.any_tag { ANY } else { i64::from(tag) };
        let peer = if any_source { ANY } else { i64::from(rank) };
        let elements = own.count(at[1]);
        let of = self.type_of(own.handle(Handle::Datatype, at[2]));
        let signature = Signature { bytes: elements.saturating_mul(of.size), kind: if elements == 0 { 0 } else { of.kind } };
        let pieces = self.pieces_at(own, at[0], &of, elements);
        let communicator = self.communicator_of(own, at[5]);
        let (call, place, request) = (id, own.place, self.number());
        Some(Message { request, call, place, receive, mode, communicator, peer, tag, signature, sum: 0, pieces })
    }

    /// Where the bytes of a buffer lie, empty where it is not known.
    fn pieces_at(&self, own: &Scratch, buffer: u8, of: &Type, elements: u64) -> Vec<(u64, u64)> {
        // An address of Fortran's MPI_BOTTOM says nothing.
        let known = own.is_contiguous(buffer) && (of.dense || !own.fortran || elements > 1);
        if known { self.pieces(of, own.buffer(buffer), elements).unwrap_or_default() } else { Vec::new() }
    }

    /// The same of a buffer with its count and type, empty where there are too many to be told.
    fn told_at(&mut self, own: &Scratch, (buffer, count, datatype): shape::Buffer) -> Vec<(u64, u64)> {
        let of = self.type_of(own.handle(Handle::Datatype, datatype));
        let pieces = self.pieces_at(own, buffer, &of, count.map_or(1, |at| own.count(at)));
        if pieces.len() <= PIECES_TOLD { pieces } else { Vec::new() }
    }

    /// A message begins: with its sum if it is a send, and with the pieces that are kept for its end.
    fn begun(&mut self, mut message: Message) -> Option<(Vec<(u64, u64)>, u64)> {
        let all = std::mem::take(&mut message.pieces);
        if all.len() <= PIECES_TOLD {
            message.pieces.clone_from(&all);
        }
        let (under_way, ends) = (message.mode == Mode::Nonblocking, ends(&all));
        if message.receive {
            message.sum = u64::from(!all.is_empty() && under_way);
            self.tell(&Fact::Message(message));
            return under_way.then(|| (ends.unwrap_or(all), 0));
        }
        message.sum = self.sum(ends.as_ref().unwrap_or(&all), true);
        // The whole of it where it may change.
        let sum = if under_way && ends.is_some() { self.sum(&all, true) } else { message.sum };
        self.tell(&Fact::Message(message));
        (under_way && sum != 0).then_some((all, sum))
    }

    /// Before the call.
    fn begins(&mut self, id: u32, shape: Shape, own: &mut Scratch) -> Option<(usize, u64)> {
        let constants = self.constants;
        match shape {
            Shape::Send(How::Blocking) => {
                let message = self.message(id, own, false, Mode::Blocking, [0, 1, 2, 3, 4, 5])?;
                self.begun(message);
                None
            }
            Shape::Receive(How::Blocking) => self.waits(id, own, [0, 1, 2, 3, 4, 5], 6),
            Shape::SendReceive(How::Blocking) => {
                // The receive first: they are told in the order in which they are posted, and these are at once.
                let want = self.waits(id, own, [5, 6, 7, 8, 9, 10], 11);
                if let Some(message) = self.message(id, own, false, Mode::Blocking, [0, 1, 2, 3, 4, 10]) {
                    self.begun(message);
                    let received = if own.int(8) == constants.proc_null { Vec::new() } else { self.told_at(own, (5, Some(6), 7)) };
                    let sent = self.told_at(own, (0, Some(1), 2));
                    if sent.iter().any(|one| received.iter().any(|other| one.0 < other.0 + other.1 && other.0 < one.0 + one.1)) {
                        self.tell(&Fact::Overlaps { call: id, place: own.place });
                    }
                }
                want
            }
            Shape::Replace(How::Blocking) => {
                let want = self.waits(id, own, [0, 1, 2, 5, 6, 7], 8);
                if let Some(message) = self.message(id, own, false, Mode::Blocking, [0, 1, 2, 3, 4, 7]) {
                    let sum = self.sum(&ends(&message.pieces).unwrap_or_else(|| message.pieces.clone()), true);
                    self.tell(&Fact::Message(Message { sum, pieces: Vec::new(), ..message }));
                }
                want
            }
            Shape::MatchedProbe { flag } => own.want(if flag { 5 } else { 4 }, 1, constants),
            Shape::Probe { flag } => {
                if own.int(0) != constants.any_source {
                    return None;
                }
                let tag = own.int(1);
                own.probes = Some(if tag == constants.any_tag { ANY } else { i64::from(tag) });
                own.want(if flag { 4 } else { 3 }, 1, constants)
            }
            Shape::Complete { count, requests, statuses, .. } => {
                let count = count.map_or(1, |at| own.int(at).max(0) as usize);
                for index in 0..count {
                    let handle = own.handle_at(Handle::Request, requests, index);
                    own.handles.push(handle);
                }
                let is_wild = |handle: &(u64, u64)| self.requests.get(&handle.0).is_some_and(|open| open.iter().any(|open| open.wild));
                let wild = self.wild > 0 && own.handles.iter().any(is_wild);
                if wild { own.want(statuses, count, constants) } else { None }
            }
            Shape::RequestFree | Shape::Start => {
                let handle = own.handle_at(Handle::Request, 0, 0);
                own.handles.push(handle);
                None
            }
            Shape::Cancel => {
                let (handle, address) = own.handle_at(Handle::Request, 0, 0);
                if let Some(communicator) = self.find(handle, address).map(|open| open.communicator) {
                    self.tell(&Fact::Doubt { communicator });
                }
                None
            }
            Shape::StartAll => {
                for index in 0..own.int(0).max(0) as usize {
                    let handle = own.handle_at(Handle::Request, 1, index);
                    own.handles.push(handle);
                }
                None
            }
            Shape::Collective { communicator, operation, sizes, .. } => {
                self.collective(id, own, communicator, operation, sizes);
                None
            }
            Shape::Make { communicator: Some(communicator), .. } => {
                self.collective(id, own, communicator, None, Sizes::None);
                None
            }
            Shape::Free(object) => {
                let (handle, address) = own.handle_at(object.into(), 0, 0);
                own.handles.push((handle, address));
                if object == Object::Communicator {
                    let communicator = self.communicator(handle);
                    self.tell_collective(Collective {
                        call: id,
                        place: own.place,
                        communicator,
                        root: NONE,
                        operation: 0,
                        same: None,
                        send: Part::Unknown,
                        receive: Part::Unknown,
                    });
                }
                if let Some(&window) = self.windows.get(&handle).filter(|_| object == Object::Window) {
                    self.tell(&Fact::Window { window, call: id, place: own.place, target: NONE, assertion: 0 });
                }
                None
            }
            Shape::Window { window, assertion, .. } => {
                let handle = own.handle(Handle::Window, window);
                if let Some(&window) = self.windows.get(&handle) {
                    let assertion = assertion.map_or(0, |at| own.int(at));
                    let is = |mode: i32| u32::from(assertion & mode != 0);
                    let target = CALLS[id as usize].peer.map_or(NONE, |peer| i64::from(own.int(peer.argument)));
                    let call = CALLS[id as usize].name;
                    let exclusive = call == "MPI_Win_lock" && own.int(0) == constants.lock_exclusive;
                    let assertion = is(constants.no_precede) | is(constants.no_succeed) << 1 | u32::from(exclusive) << 2;
                    match call {
                        "MPI_Win_start" | "MPI_Win_post" => {
                            let members = library::ranks(own.handle(Handle::Group, 0));
                            if members.len() <= LONGEST {
                                self.tell(&Fact::Epoch { window, call: id, place: own.place, members });
                            }
                        }
                        // When it is over, so is what others have told.
                        "MPI_Win_wait" | "MPI_Win_test" => {}
                        _ => self.tell(&Fact::Window { window, call: id, place: own.place, target, assertion }),
                    }
                    self.watch_synchronised(id, window, target);
                    self.operates(id, own, window);
                }
                None
            }
            _ => None,
        }
    }

    /// A blocking receive.
    fn waits(&mut self, id: u32, own: &mut Scratch, at: [u8; 6], status: u8) -> Option<(usize, u64)> {
        let message = self.message(id, own, true, Mode::Blocking, at)?;
        let (request, communicator, known) = (message.request, message.communicator, message.peer != ANY && message.tag != ANY);
        self.begun(message);
        if known {
            return None;
        }
        own.waits = Some((request, communicator));
        let constants = self.constants;
        own.want(status, 1, constants)
    }

    /// What a one-sided operation does to its target.
    fn operates(&mut self, id: u32, own: &Scratch, window: u32) {
        let Some(target) = shape::target(id) else { return };
        let of = self.type_of(own.handle(Handle::Datatype, target.datatype));
        let elements = target.count.map_or(1, |at| own.count(at));
        let pieces = self.pieces(&of, 0, elements).filter(|pieces| pieces.len() <= PIECES_TOLD);
        let operation = target.operation.map(|at| library::operation(own.handle(Handle::Operation, at)));
        let access = match operation {
            Some(operation) => Access::Accumulate(operation, of.kind),
            None if CALLS[id as usize].name == "MPI_Compare_and_swap" => Access::Swap(of.kind),
            None if target.writes => Access::Put,
            None => Access::Get,
        };
        if let Some(pieces) = pieces {
            let displacement = own.address(target.rank + 1);
            self.tell(&Fact::Access { window, target: i64::from(own.int(target.rank)), access, displacement, pieces });
        }
        let (reads, writes) = shape::origins(id);
        let only_reads = operation.is_some_and(|operation| OPERATIONS.get(operation as usize) == Some(&"MPI_NO_OP"));
        let reads = if only_reads { &[] } else { reads };
        let reads: Vec<_> = reads.iter().flat_map(|&buffer| self.told_at(own, buffer)).collect();
        let writes = writes.map_or_else(Vec::new, |buffer| self.told_at(own, buffer));
        let peer = own.int(target.rank);
        if peer >= 0 && !(reads.is_empty() && writes.is_empty()) {
            if self.watched.is_some() {
                self.watch_origin(window, i64::from(peer), reads.iter().chain(&writes).copied().collect());
            }
            self.tell(&Fact::Origin { window, target: i64::from(peer), reads, writes });
        }
    }

    /// Behind the call.
    fn ends(&mut self, id: u32, shape: Shape, own: &Scratch, good: bool) {
        if let Some((request, communicator)) = own.waits {
            let status = match shape {
                Shape::SendReceive(_) => 11,
                Shape::Replace(_) => 8,
                _ => 6,
            };
            self.matched(request, communicator, good.then(|| own.status(status, 0, self.constants)));
        }
        if let Shape::Complete { which, flag, requests: _, statuses, count } = shape {
            self.completes(own, which, flag, statuses, count.is_some(), good);
            return;
        }
        if let Shape::Window { window, .. } = shape
            && matches!(CALLS[id as usize].name, "MPI_Win_wait" | "MPI_Win_test")
            && (CALLS[id as usize].name != "MPI_Win_test" || own.output(1) != 0)
            && let Some(&window) = self.windows.get(&own.handle(Handle::Window, window))
        {
            self.tell(&Fact::Window { window, call: id, place: own.place, target: NONE, assertion: 0 });
        }
        if !good {
            return;
        }
        match shape {
            Shape::Send(How::Request(at)) => self.nonblocking(id, own, at, &[(false, [0, 1, 2, 3, 4, 5])]),
            Shape::Receive(How::Request(at)) => self.nonblocking(id, own, at, &[(true, [0, 1, 2, 3, 4, 5])]),
            Shape::SendReceive(How::Request(at)) => {
                self.nonblocking(id, own, at, &[(true, [5, 6, 7, 8, 9, 10]), (false, [0, 1, 2, 3, 4, 10])]);
            }
            // The buffers of its two messages are one.
            Shape::Replace(How::Request(at)) => drop(self.other(id, own, at)),
            Shape::Send(How::Persistent(at)) => self.persistent(id, own, at, Some(false)),
            Shape::Receive(How::Persistent(at)) => self.persistent(id, own, at, Some(true)),
            Shape::Other(How::Persistent(at)) => self.persistent(id, own, at, None),
            Shape::Collective { communicator, sizes, how: How::Request(at), .. } => {
                let request = self.other(id, own, at);
                let buffers = self.buffers(id, own, communicator, sizes);
                self.owns(request, buffers, own.handle_at(Handle::Request, at, 0));
            }
            Shape::Collective { communicator, sizes, how: How::Persistent(at), .. } => {
                self.persistent(id, own, at, None);
                let (handle, address) = own.handle_at(Handle::Request, at, 0);
                let buffers = self.buffers(id, own, communicator, sizes);
                if let Some(open) = self.find(handle, address) {
                    open.buffers = buffers;
                }
            }
            Shape::Other(How::Request(at)) | Shape::Window { request: Some(at), .. } => drop(self.other(id, own, at)),
            Shape::Start | Shape::StartAll => {
                for &(handle, address) in &own.handles {
                    self.starts(id, own.place, handle, address);
                }
            }
            Shape::RequestFree => {
                for &(handle, address) in &own.handles {
                    self.frees(own.thread, handle, address);
                }
            }
            Shape::MatchedProbe { flag } => {
                if flag && own.output(3) == 0 {
                    return;
                }
                let (source, tag) = own.status(if flag { 5 } else { 4 }, 0, self.constants);
                let communicator = self.communicator_of(own, 2);
                let wanted = own.int(1);
                let wanted = if wanted == self.constants.any_tag { ANY } else { i64::from(wanted) };
                if source >= 0 {
                    let anybody = own.int(0) == self.constants.any_source;
                    let message = Message {
                        request: self.number(),
                        call: id,
                        place: own.place,
                        receive: true,
                        mode: Mode::Blocking,
                        communicator,
                        peer: if anybody { ANY } else { source },
                        tag: if anybody { wanted } else { tag },
                        signature: Signature { bytes: u64::MAX, kind: 0 },
                        sum: 0,
                        pieces: Vec::new(),
                    };
                    let request = message.request;
                    self.tell(&Fact::Message(message));
                    if anybody {
                        self.tell(&Fact::Matched { request, source, tag });
                    }
                }
            }
            Shape::Probe { flag } => {
                if let Some(wanted) = own.probes
                    && (!flag || own.output(3) != 0)
                {
                    let (source, tag) = own.status(if flag { 4 } else { 3 }, 0, self.constants);
                    let communicator = self.communicator_of(own, 2);
                    if source >= 0 {
                        self.tell(&Fact::Probed { communicator, source, tag, wanted });
                    }
                }
            }
            Shape::Make { object, at, .. } => self.made(id, own, object, at),
            Shape::Free(object) => {
                for &(handle, _) in &own.handles {
                    match object {
                        Object::Communicator => drop(self.communicators.remove(&handle)),
                        Object::Datatype => drop(self.types.remove(&handle)),
                        Object::Window => {
                            if let Some(window) = self.windows.remove(&handle) {
                                self.forget_window(window);
                            }
                        }
                        _ => {}
                    }
                    if let Entry::Occupied(mut numbers) = self.objects.entry((object, handle)) {
                        let number = numbers.get_mut().pop();
                        if numbers.get().is_empty() {
                            numbers.remove();
                        }
                        if let Some(number) = number {
                            self.tell(&Fact::Freed { what: object, number });
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// A receive with a wildcard is over.
    fn matched(&mut self, request: u32, communicator: u32, status: Option<(i64, i64)>) {
        match status {
            Some((source, tag)) if source >= 0 => self.tell(&Fact::Matched { request, source, tag }),
            _ => self.tell(&Fact::Doubt { communicator }),
        }
    }

    fn made(&mut self, id: u32, own: &Scratch, object: Object, at: u8) {
        let (handle, _) = own.handle_at(object.into(), at, 0);
        if library::is_null(handle) || object == Object::Group && library::is_empty(handle) {
            return;
        }
        let number = self.next_object;
        self.next_object += 1;
        // A library may give one group twice, to be freed twice.
        self.objects.entry((object, handle)).or_default().push(number);
        self.tell(&Fact::Made { what: object, number, call: id, place: own.place });
        match object {
            Object::Communicator => {
                self.made_elsewhere |= self.level == Level::Multiple && own.thread != self.main;
                if self.made_elsewhere {
                    return;
                }
                let (members, remote) = library::members(handle);
                if members.len().max(remote.len()) <= LONGEST / 2 {
                    let communicator = self.next_communicator;
                    self.next_communicator += 1;
                    self.communicators.insert(handle, communicator);
                    self.tell(&Fact::Communicator { communicator, members, remote });
                }
            }
            Object::Datatype => drop(self.types.remove(&handle)),
            Object::Group | Object::Operation | Object::Info | Object::Request => {}
            Object::Window => {
                self.windows.insert(handle, number);
                let Shape::Make { communicator: Some(communicator), .. } = shape::of(id) else { return };
                let communicator = self.communicator(own.handle(Handle::Communicator, communicator));
                if communicator == UNKNOWN || self.level == Level::Multiple {
                    return;
                }
                let (base, size, unit) = match CALLS[id as usize].name.trim_end_matches("_c") {
                    "MPI_Win_create" => (own.buffer(0), own.address(1), own.unit(2)),
                    "MPI_Win_create_dynamic" => (0, 0, 1),
                    // SAFETY: where the call has put the address of the memory.
                    _ => (unsafe { (own.words[4] as *const u64).as_ref() }.copied().unwrap_or(0), own.address(0), own.unit(1)),
                };
                self.watch_window(number, base, size);
                self.tell(&Fact::Exposed { window: number, communicator, base, size, unit });
            }
        }
    }
}
