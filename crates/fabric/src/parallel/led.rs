//! The first region event by event, the others ahead of it.
//!
//! Who looks at the agent of the first region after each of its events (a live run, whose NICs and processes are all
//! there) leads it. A window begins with the others, which are switches: they run to its end, side by side on several
//! threads; then the first one follows. What is asked of it meanwhile, at any time from the window's first event on,
//! reaches no other region before the window's end.

use super::agent::Agent;
use super::effects::Mailbox;
use super::part::{LogicalProcess, Model};
use super::windows::run_part;
use super::{Fabric, inner, lock};
use crate::packet::state::NEVER;
use narrows_units::SimTime;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Events of the others in a window from which on the next one has all threads: some 100 us, as a thread that sleeps
/// takes up to 50 to wake. Our own choice.
const WORTH: u64 = 500;

/// How far the others are, and who helps with them.
#[derive(Debug)]
pub(super) struct Led<A: Agent> {
    /// The longest window.
    ahead: u64,
    /// The end of their last one.
    until: u64,
    /// Their events in it.
    events: u64,
    helpers: Vec<Helper<A>>,
}

impl<A: Agent> Led<A> {
    pub(super) fn new() -> Led<A> {
        Led { ahead: NEVER, until: 0, events: 0, helpers: Vec::new() }
    }
}

/// A window of the others.
struct Window<A: Agent> {
    parts: Vec<Mutex<LogicalProcess<A>>>,
    boxes: Vec<Mutex<Mailbox<A::Letter>>>,
    until: u64,
    /// The first part that nobody has begun.
    next: AtomicUsize,
    events: AtomicU64,
}

impl<A: Agent> Window<A> {
    fn run(&self) {
        while let Some(part) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let part = &mut *lock(part);
            let before = part.events;
            run_part(part, &self.boxes, self.until, u64::MAX);
            self.events.fetch_add(part.events - before, Ordering::Relaxed);
        }
    }
}

/// A thread that waits for windows.
#[derive(Debug)]
struct Helper<A: Agent> {
    /// `None`: it ends.
    windows: Option<Sender<Arc<Window<A>>>>,
    done: Receiver<thread::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<A: Agent + 'static> Helper<A> {
    /// `None`: the system has no thread for it.
    fn new() -> Option<Helper<A>> {
        let (windows, orders) = channel::<Arc<Window<A>>>();
        let (says, done) = channel();
        let work = move || {
            for window in orders {
                let result = catch_unwind(AssertUnwindSafe(|| window.run()));
                // Before the others hear of it: they take it apart.
                drop(window);
                if says.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().spawn(work).ok()?;
        Some(Helper { windows: Some(windows), done, thread: Some(thread) })
    }
}

impl<A: Agent> Drop for Helper<A> {
    fn drop(&mut self) {
        self.windows = None;
        // What it had to say it has said.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<A: Agent + 'static> Fabric<A> {
    /// The first region is led; the others have up to `threads` threads, and are ahead by `ahead` at most.
    pub fn lead(&mut self, threads: usize, ahead: SimTime) {
        self.led.ahead = ahead.as_ps();
        let most = self.parts.len().saturating_sub(1);
        self.led.helpers = (1..threads.min(most)).map_while(|_| Helper::new()).collect();
    }

    /// The time of the first region's next event before `end`; the others have come as far. None: everything before
    /// `end` has happened, and nothing else. [`Fabric::step`] does that event.
    #[inline]
    pub fn next_led(&mut self, end: SimTime) -> Option<SimTime> {
        let end = end.as_ps();
        let next = if self.parts.len() == 1 { self.next_time().filter(|at| at.as_ps() < end) } else { self.next_of_first(end) };
        if next.is_none() {
            self.reach_all();
        }
        next
    }

    /// Until nothing is left before `end` but timers of flows that have nothing to send again. They have no effect, but
    /// may come long after everything else.
    pub fn drain(&mut self, end: SimTime) {
        while self.next_led(end).is_some() {
            if self.rests() {
                self.reach_all();
                break;
            }
            self.step();
        }
    }

    /// Nothing is left but timers of flows that have nothing to send again.
    fn rests(&mut self) -> bool {
        if !inner(&mut self.parts[0]).is_at_timer() {
            return false;
        }
        if self.parts.len() > 1 {
            self.open();
        }
        self.parts.iter_mut().map(inner).all(|part| part.effects.queue.len() == part.idle_timers())
    }

    /// What is asked for now is after all that has happened anywhere.
    fn reach_all(&mut self) {
        self.now = self.parts.iter_mut().map(|part| inner(part).now).fold(self.now, u64::max);
    }

    /// What is asked for from now on is at `time` at the earliest. Everything before it has happened; when the last
    /// event was depends on the cut.
    pub fn reach(&mut self, time: SimTime) {
        self.now = self.now.max(time.as_ps());
    }

    fn next_of_first(&mut self, end: u64) -> Option<SimTime> {
        loop {
            let part = inner(&mut self.parts[0]);
            part.settle();
            let own = part.effects.queue.peek().map_or(NEVER, |(at, _)| at);
            if own < self.led.until.min(end) {
                return Some(SimTime(own));
            }
            if own < self.led.until || self.led.until >= end || !self.next_window(end) {
                return None;
            }
        }
    }

    /// The others go ahead, if anything happens before `end`.
    fn next_window(&mut self, end: u64) -> bool {
        let begin = self.next_time().map_or(NEVER, SimTime::as_ps);
        if begin >= end || begin == NEVER {
            return false;
        }
        for model in inner(&mut self.parts[0]).planes.all() {
            if let Model::Packet(region) = model {
                self.least = self.least.min(region.least_wire());
            }
        }
        let until = begin.saturating_add(self.lookahead.with(self.least).min(self.led.ahead)).min(end);
        self.windows += 1;
        if self.led.events < WORTH || self.led.helpers.is_empty() {
            let events = |fabric: &mut Self| fabric.parts[1..].iter_mut().map(|part| inner(part).events).sum::<u64>();
            let before = events(self);
            for part in &mut self.parts[1..] {
                run_part(inner(part), &self.boxes, until, u64::MAX);
            }
            self.led.events = events(self) - before;
        } else {
            self.run_others(until);
        }
        self.led.until = until;
        true
    }

    /// The same on all threads.
    fn run_others(&mut self, until: u64) {
        let (parts, boxes) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.boxes));
        let window = Arc::new(Window { parts, boxes, until, next: AtomicUsize::new(1), events: AtomicU64::new(0) });
        let helpers = &self.led.helpers;
        let started =
            helpers.iter().filter(|helper| helper.windows.as_ref().is_some_and(|windows| windows.send(Arc::clone(&window)).is_ok()));
        let started: Vec<_> = started.collect();
        let mut done = catch_unwind(AssertUnwindSafe(|| window.run()));
        for helper in started {
            done = done.and(helper.done.recv().unwrap_or(Ok(())));
        }
        let window = Arc::into_inner(window).expect("all others have given it back");
        (self.parts, self.boxes, self.led.events) = (window.parts, window.boxes, window.events.into_inner());
        if let Err(panic) = done {
            resume_unwind(panic);
        }
    }
}
