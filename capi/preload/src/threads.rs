//! Threads of the MPI library, and the beginning and end of the process: `main`, `fork`, `exit`.

use crate::symbols::real;
use crate::{affinity, baton, clock, descriptors, dispatch, exec, files, machine, meet, name, openmp, portals, pthreads, state};
use std::cell::Cell;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, pthread_attr_t, pthread_t};

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

mod next {
    use super::*;
    real! {
        fn pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int;
    }
}

struct Begin {
    start: Start,
    argument: *mut c_void,
    /// Of the thread that made it.
    clock: u64,
    /// See `narrows_thread_made`.
    number: u32,
    /// It is one of OpenMP's, which waits for work.
    idle: bool,
    /// What it is bound to from its beginning.
    bound: Option<affinity::Mask>,
}

/// Threads that are started inside an MPI call belong to the MPI library and live in real time (PMIx and libevent have
/// time-outs of their own); so do the threads that these start. All others have a clock.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !state::on() || state::left() {
        // SAFETY: forwarded as it came.
        return unsafe { next::pthread_create(thread, attributes, start, argument) };
    }
    let programs = !state::starts_runtime_threads();
    let bound = if programs { affinity::of_new(attributes) } else { None };
    if bound.is_some_and(affinity::is_empty) {
        return libc::EINVAL;
    }
    let (begins, clock, number): (Start, u64, u32) = if programs {
        meet::note_thread();
        (programs_thread, portals::thread_makes(true), portals::thread_made())
    } else {
        (runtime_thread, 0, 0)
    };
    let idle = openmp::makes_team() && !baton::possible();
    let begin = Box::into_raw(Box::new(Begin { start, argument, clock, number, idle, bound }));
    // SAFETY: the new thread takes the record over; if there is none, it comes back.
    unsafe {
        let code = next::pthread_create(thread, attributes, begins, begin.cast());
        if code == 0 {
            if programs {
                portals::thread_exists();
                baton::note_made(*thread);
            }
            // The number is looked at only where it is asked for: the thread may have taken its memory away by now.
            bound.into_iter().for_each(|mask| affinity::made(*thread, mask));
        } else {
            drop(Box::from_raw(begin));
            if programs {
                portals::thread_makes(false);
            }
        }
        code
    }
}

unsafe extern "C" fn runtime_thread(begin: *mut c_void) -> *mut c_void {
    state::thread(|thread| thread.runtime.set(true));
    portals::librarys_thread_begins();
    // SAFETY: `pthread_create` above made this record for this thread alone.
    let Begin { start, argument, .. } = *unsafe { Box::from_raw(begin.cast::<Begin>()) };
    // SAFETY: as the MPI library asked. A thread that ends by pthread_exit unwinds through here without harm: nothing
    // is held.
    unsafe { start(argument) }
}

/// Other threads are the program's: each has a clock of its own, which begins where that of its maker is.
unsafe extern "C" fn programs_thread(begin: *mut c_void) -> *mut c_void {
    // SAFETY: as in `runtime_thread`.
    let Begin { start, argument, clock, number, idle, bound } = *unsafe { Box::from_raw(begin.cast::<Begin>()) };
    affinity::begins(bound);
    dispatch::begin();
    pthreads::note_begin();
    portals::thread_begins(clock, idle, number);
    // However it ends: return, pthread_exit or pthread_cancel.
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a valid place; the destructor lives as long as this library, which is never unloaded.
        unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) };
        key
    });
    // SAFETY: the key was made above; any value but null calls the destructor, with that value.
    unsafe { libc::pthread_setspecific(*key, (*key as usize + 1) as *const c_void) };
    // SAFETY: as the program asked; see `runtime_thread`.
    unsafe { start(argument) }
}

/// Destructors of the program may come after this one, and need the baton: the C library goes around
/// PTHREAD_DESTRUCTOR_ITERATIONS times (limits.h: 4) while values are set. `key`: 1 more than the key. Whether this is
/// the last time.
fn ends_last(key: *mut c_void) -> bool {
    const TIMES: u32 = 4;
    thread_local! {
        static TIME: Cell<u32> = const { Cell::new(0) };
    }
    TIME.set(TIME.get() + 1);
    // SAFETY: the key of this library.
    TIME.get() >= TIMES || unsafe { libc::pthread_setspecific((key as usize - 1) as libc::pthread_key_t, key) } != 0
}

unsafe extern "C" fn thread_ends(key: *mut c_void) {
    if baton::here() && !ends_last(key) {
        return;
    }
    baton::note_end();
    pthreads::note_end();
    affinity::ends();
}

extern "C" fn leave() {
    clock::note_left();
    state::now_left();
}

unsafe extern "C" fn in_child() {
    leave();
}

extern "C" fn at_exit() {
    if state::is_rank() && !state::left() {
        leave();
    }
}

extern "C" fn at_the_very_end(status: c_int, _: *mut c_void) {
    portals::exits(status);
}

unsafe extern "C" {
    /// As `atexit`, but the handler learns the status; also for `return` from main: on_exit(3).
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Called when MPI_Init has returned. From `exit` on, what is left are destructors of libraries, which wait for things
/// of this world: handlers run in reverse order, so those of the program from now on still see virtual time.
pub fn note_init() {
    state::now_initialised();
    // SAFETY: the handler lives as long as this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Ends without handlers.
macro_rules! ends {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(status: c_int) -> ! {
                if state::on() {
                    portals::program_ends(status);
                    at_exit();
                    portals::exits(status);
                }
                // SAFETY: a plain number.
                unsafe { end::$name(status) }
            }
        )*
    };
}
ends! { _exit _Exit quick_exit }

#[allow(non_snake_case)]
mod end {
    use super::*;
    real! {
        fn _exit(status: c_int) -> !;
        fn _Exit(status: c_int) -> !;
        fn quick_exit(status: c_int) -> !;
    }
}

unsafe extern "C" fn constructor() {
    if state::on() {
        // SAFETY: the handler lives as long as this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // The first of all handlers is the last to run, after the destructors of libraries.
        // SAFETY: as above.
        unsafe { on_exit(at_the_very_end, std::ptr::null_mut()) };
        descriptors::prepare();
        files::prepare();
        dispatch::prepare();
        exec::remember();
        portals::born();
        machine::show_own_node();
        machine::show_own_place();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn() = constructor;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Hook = Option<unsafe extern "C" fn()>;

mod begin {
    use super::*;
    real! {
        #[version = c"GLIBC_2.34"]
        fn __libc_start_main(
            main: Main, argc: c_int, argv: *mut *mut c_char, init: Hook, fini: Hook, end: Hook, stack: *mut c_void,
        ) -> c_int;
    }
}

/// The C library calls this when the constructors of all libraries that the program was linked with have run, and then
/// those of the program and `main`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: Hook,
    fini: Hook,
    end: Hook,
    stack: *mut c_void,
) -> c_int {
    state::now_started();
    // SAFETY: the arguments of this process, which has one thread yet; forwarded as they came, but for the program's
    // name.
    unsafe {
        exec::refuse_launcher(argv);
        name::as_written(argv);
    }
    // SAFETY: as above.
    unsafe { begin::__libc_start_main(main, argc, argv, init, fini, end, stack) }
}
