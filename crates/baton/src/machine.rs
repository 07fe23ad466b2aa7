//! Who is ready, who waits, and who is next.

/// A thread. Of two that are ready at the same clock the smaller one is first: numbers are given in the order in which
/// threads are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

/// What threads wait at: the address of a lock, a condition, a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It goes on as soon as it has the baton, or has it.
    Ready,
    /// Until somebody wakes it, or time has come as far.
    Waits { on: Option<Place>, until: Option<u64> },
    /// It is in a call in which it lets time pass for all, when nobody is ready. The smaller number is first.
    Calls(u8),
    /// It waits for something that the machine does not know, and says itself when it goes on.
    Away,
}

#[derive(Debug)]
struct Entry {
    id: ThreadId,
    clock: u64,
    /// Its clock when it came to wait for what has let it go on: of those that are ready at one clock the one that has
    /// waited longest is first, or one that comes just then would take a lock before it.
    since: u64,
    state: State,
    /// Time has ended its wait.
    late: bool,
    /// Where it was woken, until it has the baton.
    woken: Option<Place>,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A thread has the baton already.
    Taken,
    /// This one has it from now on, and goes on.
    Run(ThreadId),
    /// Nobody is ready. This one has it from now on, and lets time pass, until then at the latest.
    Lead(ThreadId, Option<u64>),
    /// Nobody is ready or in such a call: time passes until then, see [`Baton::tick`].
    Park(u64),
    /// Nobody goes on by itself: all have ended, wait for what the machine does not know, or for each other.
    Nobody,
}

/// The threads of a process.
#[derive(Debug, Default)]
pub struct Baton {
    threads: Vec<Entry>,
    holder: Option<ThreadId>,
}

impl Baton {
    /// Nobody.
    pub const NONE: Baton = Baton { threads: Vec::new(), holder: None };

    /// Room for so many threads.
    pub fn reserve(&mut self, threads: usize) {
        self.threads.reserve(threads);
    }

    fn entry(&mut self, id: ThreadId) -> Option<&mut Entry> {
        self.threads.iter_mut().find(|entry| entry.id == id)
    }

    /// A new thread, ready at `clock`. One that is there already stays as it is. Whether it is new.
    pub fn spawn(&mut self, id: ThreadId, clock: u64) -> bool {
        let is_new = self.entry(id).is_none();
        if is_new {
            self.threads.push(Entry { id, clock, since: clock, state: State::Ready, late: false, woken: None });
        }
        is_new
    }

    /// It ends.
    pub fn exit(&mut self, id: ThreadId) {
        self.threads.retain(|entry| entry.id != id);
        self.lets_go(id);
    }

    fn lets_go(&mut self, id: ThreadId) {
        if self.holder == Some(id) {
            self.holder = None;
        }
    }

    fn becomes(&mut self, id: ThreadId, state: State) {
        if let Some(entry) = self.entry(id) {
            entry.state = state;
            entry.late = false;
        }
        self.lets_go(id);
    }

    /// It waits until somebody wakes it `on` that place, or its clock is `until`. Neither: until it says so.
    pub fn block(&mut self, id: ThreadId, on: Option<Place>, until: Option<u64>) {
        let known = on.is_some() || until.is_some();
        self.becomes(id, if known { State::Waits { on, until } } else { State::Away });
    }

    /// It is in a call in which it may let time pass for all, before those whose `order` is more.
    pub fn call(&mut self, id: ThreadId, order: u8) {
        self.becomes(id, State::Calls(order));
    }

    /// It is ready, its clock at `clock`, and keeps the baton if it has it.
    pub fn ready(&mut self, id: ThreadId, clock: u64) {
        if let Some(entry) = self.entry(id) {
            entry.state = State::Ready;
            (entry.clock, entry.since) = (clock, clock);
        }
    }

    /// It has the baton, has come to `clock`, and gives the baton up if something else comes before. Whether it does.
    pub fn yields(&mut self, id: ThreadId, clock: u64) -> bool {
        self.ready(id, clock);
        let first = self.ready_ones().map(Entry::turn).min();
        let before = first.is_some_and(|first| first < (clock, clock, id)) || self.ends_before(clock);
        if before {
            self.lets_go(id);
        }
        before
    }

    /// A wait is over before `clock`, if nobody lets time pass for it: what those in calls wait for may come before.
    fn ends_before(&self, clock: u64) -> bool {
        self.first_end().is_some_and(|end| end < clock) && self.first_call().is_none()
    }

    /// The first of those that are in calls.
    pub fn first_call(&self) -> Option<ThreadId> {
        let calls = self.threads.iter().filter_map(|entry| match entry.state {
            State::Calls(order) => Some((order, entry.clock, entry.id)),
            _ => None,
        });
        calls.min().map(|(.., id)| id)
    }

    /// So many of those that wait at `on` are ready: the first ones by (clock, number). Who wakes them has come to
    /// `clock`, and they do not go on before. Whose wait is over before that is woken by time, whenever that is told.
    pub fn wake(&mut self, on: Place, most: usize, clock: u64) -> Vec<ThreadId> {
        let waits = |entry: &&mut Entry| match entry.state {
            State::Waits { on: Some(place), until } => place == on && until.is_none_or(|until| until >= clock),
            _ => false,
        };
        let mut found: Vec<&mut Entry> = self.threads.iter_mut().filter(waits).collect();
        found.sort_by_key(|entry| (entry.clock, entry.id));
        found.truncate(most);
        let woken = found.into_iter().map(|entry| {
            entry.state = State::Ready;
            entry.since = entry.clock;
            entry.clock = entry.clock.max(clock);
            entry.woken = Some(on);
            entry.id
        });
        woken.collect()
    }

    /// Time has come to `now`: whose wait is over is ready.
    pub fn tick(&mut self, now: u64) {
        for entry in &mut self.threads {
            if let State::Waits { until: Some(until), .. } = entry.state
                && until <= now
            {
                entry.state = State::Ready;
                entry.clock = entry.clock.max(until);
                entry.since = entry.clock;
                entry.late = true;
            }
        }
    }

    /// One that was woken at `on` has not had the baton since: who comes there now stands behind it.
    pub fn is_next_at(&self, on: Place) -> bool {
        self.threads.iter().any(|entry| entry.woken == Some(on))
    }

    /// Whether it would go on, or let time pass, if nobody had the baton.
    pub fn would_go_on(&self, id: ThreadId) -> bool {
        self.threads.iter().any(|entry| entry.id == id && matches!(entry.state, State::Ready | State::Calls(_)))
    }

    /// Whether time has ended its last wait.
    pub fn is_late(&self, id: ThreadId) -> bool {
        self.threads.iter().any(|entry| entry.id == id && entry.late)
    }

    /// The baton is taken from who has it, which goes on without, and comes back by itself.
    pub fn take_away(&mut self) -> Option<ThreadId> {
        let id = self.holder.take()?;
        self.becomes(id, State::Away);
        Some(id)
    }

    /// Who has the baton.
    pub fn holder(&self) -> Option<ThreadId> {
        self.holder
    }

    /// The clock of a thread when it was last told.
    pub fn clock(&self, id: ThreadId) -> Option<u64> {
        self.threads.iter().find(|entry| entry.id == id).map(|entry| entry.clock)
    }

    fn ready_ones(&self) -> impl Iterator<Item = &Entry> {
        self.threads.iter().filter(|entry| entry.state == State::Ready)
    }

    /// The least clock of those that are ready, but for `but`.
    pub fn least(&self, but: Option<ThreadId>) -> Option<u64> {
        self.ready_ones().filter(|entry| Some(entry.id) != but).map(|entry| entry.clock).min()
    }

    /// When the first of the waits with a limit is over.
    pub fn first_end(&self) -> Option<u64> {
        let ends = self.threads.iter().filter_map(|entry| match entry.state {
            State::Waits { until, .. } => until,
            _ => None,
        });
        ends.min()
    }

    /// Gives the baton to who is next, if nobody has it.
    pub fn pass(&mut self) -> Next {
        if self.holder.is_some() {
            return Next::Taken;
        }
        let end = self.first_end();
        if let Some((clock, _, id)) = self.ready_ones().map(Entry::turn).min() {
            if let Some(end) = end.filter(|_| self.ends_before(clock)) {
                return Next::Park(end);
            }
            self.holder = Some(id);
            self.entry(id).into_iter().for_each(|entry| entry.woken = None);
            return Next::Run(id);
        }
        self.holder = self.first_call();
        match (self.holder, end) {
            (Some(id), end) => Next::Lead(id, end),
            (None, Some(end)) => Next::Park(end),
            (None, None) => Next::Nobody,
        }
    }
}

impl Entry {
    fn turn(&self) -> (u64, u64, ThreadId) {
        (self.clock, self.since, self.id)
    }
}
