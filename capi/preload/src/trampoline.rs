//! Marks around MPI calls.
//!
//! Every interposed symbol loads its index into a register and jumps to [`common`] (`arch/`), which saves all argument
//! registers, asks
//! [`enter`] what to do, and either jumps to the real function as if nothing had been (nested calls, processes outside
//! a run), or calls it in a frame of its own with a copy of the stack arguments, so that [`leave`] runs afterwards. The
//! frame has unwind information: debuggers see through it, and C++ exceptions pass.
//!
//! Only the outermost MPI call of a thread is marked. One that was left by `longjmp` or an exception is noticed by its
//! stack address at the next call.

use crate::arch::{self, REGISTERS};
use crate::symbols::{self, SYMBOLS, Symbol};
use crate::{check, handlers, offload, place, portals, special, state, threads};
use narrows_mpicalls::{ABORT, ANY, CALLS, Class, NONE, Role};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What [`common`] does next, in two registers.
#[repr(C)]
pub struct Next {
    /// The real function.
    function: usize,
    /// 0: jump there. Else the index of the call + 1, [`FORTRAN`] if it is one, and in the upper half the number of
    /// stack words to copy, an even number.
    plan: u64,
}

/// A subroutine, which leaves anything in the register of results.
const FORTRAN: u32 = 1 << 31;

unsafe extern "C" {
    /// Expects the index of the symbol in a register of `arch` and everything else as the program passed it.
    #[link_name = "narrows_preload_common"]
    pub fn common();
}

/// `registers`: the program's integer arguments that are passed in registers; `stack`: its arguments on the stack.
pub unsafe extern "C" fn enter(slot: u32, registers: *mut u64, stack: *mut u64) -> Next {
    let symbol = &SYMBOLS[slot as usize];
    let function = offload::instead(symbol).unwrap_or_else(|| symbol.function());
    if state::left() {
        refuse_in_child(symbol);
    }
    if !begin(stack as usize, symbol.id()) {
        return Next { function, plan: 0 };
    }
    // SAFETY: the trampoline passes its save area and the program's frame.
    let (peer, tag) = unsafe { partner(symbol, registers, stack) };
    if check::on() {
        check::before_enter(symbol.id());
    }
    // SAFETY: as above.
    unsafe { check::notes(symbol, registers) };
    // SAFETY: `common` has the return address below the arguments on the stack, on every processor.
    let site = unsafe { *stack.sub(1) };
    let place = place::of(site as usize);
    // SAFETY: as above.
    let amount = unsafe { amount(symbol, registers) };
    portals::enter(symbol.id(), peer, tag, place ^ amount.rotate_left(32), site);
    // SAFETY: as above.
    unsafe { handlers::enter(symbol, registers, stack) };
    if check::on() {
        // SAFETY: as above. Both areas belong to the callee: what is changed there, the real function sees.
        unsafe { check::enter(symbol, registers, stack) };
    }
    let words = symbol.words().next_multiple_of(2);
    let fortran = if symbol.fortran { FORTRAN } else { 0 };
    Next { function, plan: words << 32 | u64::from((symbol.id() + 1) | fortran) }
}

/// A child of a rank that was made by fork(2) has its memory, but is no rank: a call that needs the network or the
/// library's state ends it with a line. Without that MPI libraries loop, or say something else.
fn refuse_in_child(symbol: &Symbol) {
    let call = symbol.call();
    let is_local = call.class == Class::Local && call.peer.is_none();
    if state::on() && state::initialised() && !is_local && !state::in_guard() && !state::is_rank() {
        let line = format!(
            "narrows: {} in a child of a rank that was made by fork: only the process that called MPI_Init may call MPI\n",
            call.name
        );
        // SAFETY: a valid buffer; what cannot be written is lost. It ends the child without handlers of the parent's.
        unsafe {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
            libc::_exit(1);
        }
    }
}

/// `results`: what the real function returned.
pub unsafe extern "C" fn leave(id: u32, results: *const u64) {
    // Who wants to know the code of a Fortran call looks at its ierror.
    // SAFETY: the trampoline passes its save area.
    let code = if id & FORTRAN == 0 { (unsafe { *results }) as i32 } else { 0 };
    end(id & !FORTRAN, code);
    check::goes_on();
}

/// Whether a call with this frame is to be marked: it is the program's, and outermost in its thread.
fn begin(frame: usize, id: u32) -> bool {
    if !state::on() || state::left() || state::in_guard() {
        return false;
    }
    state::thread(|thread| {
        if thread.runtime.get() {
            return false;
        }
        // Stacks grow downwards: a call that is still under way has its frame above this one. In the same place or
        // above, the old one has been left.
        let outer = thread.outer.get();
        if outer != 0 {
            if frame < outer {
                return false;
            }
            portals::leave(thread.call.get(), true);
        }
        thread.outer.set(frame);
        thread.call.set(id);
        true
    })
}

fn end(id: u32, code: i32) {
    handlers::leave();
    if check::on() {
        check::leave(id, code);
    }
    portals::leave(id, code != 0);
    check::after_leave(id, code);
    state::thread(|thread| {
        thread.outer.set(0);
        if !thread.rank.get() && matches!(CALLS[id as usize].name, "MPI_Init" | "MPI_Init_thread" | "MPI_Session_init") {
            thread.rank.set(true);
            threads::note_init();
        }
    });
}

/// The partner of a call as in `narrows_mpicalls`.
///
/// # Safety
/// `registers` and `stack` hold the arguments of a call of this symbol.
unsafe fn partner(symbol: &Symbol, registers: *const u64, stack: *const u64) -> (i64, i64) {
    let call = symbol.call();
    let constants = symbols::constants();
    let argument = |position: u8| {
        let position = usize::from(position);
        // SAFETY: the first integer arguments are in registers, the others on the stack; MPI passes no others.
        // Fortran passes addresses of integers that it may not leave out.
        unsafe {
            let word = if position < REGISTERS { *registers.add(position) } else { *stack.add(position - REGISTERS) };
            match symbol.fortran {
                true if word == 0 => NONE as i32,
                true => *(word as *const i32),
                false => word as i32,
            }
        }
    };
    // Negative ranks and tags are constants (MPI 4.1, section 2.5.4): MPI_PROC_NULL, MPI_ROOT and the wildcards.
    let peer = call.peer.map_or(NONE, |peer| match argument(peer.argument) {
        source if peer.role == Role::From => number(source, constants.any_source),
        rank if rank < 0 => NONE,
        rank => i64::from(rank),
    });
    let tag = call.tag.map_or(NONE, |tag| match argument(tag) {
        code if call.name == ABORT => i64::from(if code < 0 { code & 0xff } else { code }),
        tag => number(tag, constants.any_tag),
    });
    (peer, tag)
}

/// How many elements or requests a call is about, 0 where that is not one number.
///
/// # Safety
/// As [`partner`].
unsafe fn amount(symbol: &Symbol, registers: *const u64) -> u64 {
    let Some(at @ 0..6) = narrows_facts::shape::of(symbol.id()).count() else { return 0 };
    // SAFETY: the first six arguments are in registers; Fortran passes the address of an integer, and large-count
    // functions a long one.
    unsafe {
        let word = *registers.add(usize::from(at));
        match symbol.fortran {
            true if word == 0 => 0,
            true => u64::from(*(word as *const u32)),
            false if symbol.call().name.ends_with("_c") => word,
            false => u64::from(word as u32),
        }
    }
}

/// A source or tag as in `narrows_mpicalls`.
pub fn number(value: i32, wildcard: i32) -> i64 {
    match value {
        _ if value == wildcard => ANY,
        _ if value < 0 => NONE,
        _ => i64::from(value),
    }
}

/// A mark around code in Rust: the calls of `special.rs`.
pub struct Mark(Option<u32>);

impl Mark {
    /// Begins a call without partner. Inlined, so that the frame it notes is that of the caller: frames of the calls
    /// inside are below it.
    #[inline(always)]
    pub fn begin(id: u32) -> Mark {
        Mark::begin_with(id, NONE, NONE)
    }

    /// The same with the partner of the call.
    #[inline(always)]
    pub fn begin_with(id: u32, peer: i64, tag: i64) -> Mark {
        let here = 0u8;
        // One more: a call inside may have its frame exactly here.
        let marked = begin(&raw const here as usize + 1, id);
        if marked {
            portals::enter(id, peer, tag, 0, 0);
        }
        Mark(marked.then_some(id))
    }
}

impl Mark {
    /// The arguments of the call, for a check.
    pub fn has_arguments(&self, fortran: bool, words: &[u64]) {
        if let Some(id) = self.0
            && check::on()
        {
            check::enter_special(id, fortran, words);
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            end(id, 0);
            check::goes_on();
        }
    }
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

static DLSYM: AtomicUsize = AtomicUsize::new(0);

/// The real `dlsym`. RTLD_NEXT means: behind this library.
///
/// # Safety
/// As `dlsym`.
pub unsafe extern "C" fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let address = match DLSYM.load(Relaxed) {
        0 => find_dlsym(),
        address => address,
    };
    // SAFETY: the type of dlsym.
    let found = unsafe { std::mem::transmute::<usize, Dlsym>(address)(handle, name) };
    // RTLD_NEXT depends on the return address: as a tail call it would be behind the program, which is before us.
    std::hint::black_box(found)
}

extern "C" fn find_dlsym() -> usize {
    // glibc 2.34 moved dlsym from libdl into libc.
    for version in [c"GLIBC_2.34", arch::FIRST_GLIBC] {
        // SAFETY: constant strings.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) } as usize;
        if found != 0 {
            DLSYM.store(found, Relaxed);
            return found;
        }
    }
    // SAFETY: always. No C library that we know gets here.
    unsafe { libc::abort() }
}

// Programs that load their MPI library by hand (ctypes, Julia) ask `dlsym` for its functions: they get ours in front
// of the real ones. And where nothing but ours has that name, the answer is that there is no such function, so that
// probing works.
//
// RTLD_NEXT depends on who calls: that one is passed on by a jump.
arch::dlsym! { DLSYM, find_dlsym, filtered }

unsafe extern "C" fn filtered(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller keeps the contract of dlsym.
    let found = unsafe { real_dlsym(handle, name) };
    if found.is_null() || name.is_null() {
        return found;
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(name) };
    let real = match symbols::by_name(text) {
        Some(symbol) => symbol.function_or_zero(),
        None if special::is_clock(text) => symbols::find(text),
        None => return found,
    };
    let own = own_symbol(text);
    if found == own && real == 0 {
        // SAFETY: as above. Null, with the message for dlerror.
        return unsafe { real_dlsym(libc::RTLD_NEXT, name) };
    }
    if real == found as usize && !own.is_null() && state::in_program() { own } else { found }
}

/// Our own function of that name.
fn own_symbol(name: &CStr) -> *mut c_void {
    static HANDLE: AtomicUsize = AtomicUsize::new(0);
    let mut handle = HANDLE.load(Relaxed);
    if handle == 0 {
        // SAFETY: dladdr fills the record for an address of this library; its name stays valid.
        handle = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            match libc::dladdr(own_symbol as *const c_void, &mut info) {
                0 => 0,
                _ => libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) as usize,
            }
        };
        if handle == 0 {
            return std::ptr::null_mut();
        }
        HANDLE.store(handle, Relaxed);
    }
    // SAFETY: the handle is kept open for good.
    unsafe { real_dlsym(handle as *mut c_void, name.as_ptr()) }
}
