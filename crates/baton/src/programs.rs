//! Programs of several threads, run on the machine as a process would run them.

use crate::{Baton, Next, Place, ThreadId};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Compute(u64),
    Sleep(u64),
    Lock(usize),
    Unlock(usize),
    /// At a condition, whose lock is the one of that number.
    Wait(usize),
    Signal(usize),
    Broadcast(usize),
    Post(usize),
    Take(usize),
    /// For so long at most.
    TakeWithin(usize, u64),
    /// A member of team 0, of two, or of team 1, of all.
    Meet(usize),
}
use Step::*;

const OBJECTS: usize = 2;

/// What a thread waits at, apart for each kind.
fn place(kind: usize, object: usize) -> Place {
    Place(100 * kind + object)
}

struct Thread {
    steps: Vec<Step>,
    at: usize,
    clock: u64,
    /// It has waited at this step already.
    waited: bool,
    /// Takes that time has ended.
    late: usize,
}

struct Process {
    baton: Baton,
    threads: Vec<Thread>,
    owners: [Option<usize>; OBJECTS],
    counts: [u64; OBJECTS],
    arrived: [usize; OBJECTS],
    /// Who ran, and at which clock.
    ran: Vec<(u64, usize)>,
}

impl Process {
    fn new(programs: &[Vec<Step>]) -> Process {
        let mut baton = Baton::default();
        (0..programs.len()).for_each(|number| assert!(baton.spawn(ThreadId(number as u64), 0)));
        let thread = |steps: &Vec<Step>| Thread { steps: steps.clone(), at: 0, clock: 0, waited: false, late: 0 };
        let threads = programs.iter().map(thread).collect();
        Process { baton, threads, owners: [None; OBJECTS], counts: [0; OBJECTS], arrived: [0; OBJECTS], ran: Vec::new() }
    }

    fn members(&self, team: usize) -> usize {
        if team == 0 { 2.min(self.threads.len()) } else { self.threads.len() }
    }

    /// Until nobody goes on any more.
    fn run(mut self) -> Process {
        loop {
            match self.baton.pass() {
                Next::Run(ThreadId(number)) => self.goes_on(number as usize),
                Next::Park(until) => self.baton.tick(until),
                Next::Nobody => return self,
                next => panic!("{next:?}: nobody calls"),
            }
        }
    }

    fn goes_on(&mut self, number: usize) {
        let id = ThreadId(number as u64);
        let clock = self.baton.clock(id).expect("it is there");
        assert!(clock >= self.threads[number].clock, "time goes on");
        assert!(self.baton.least(Some(id)).is_none_or(|least| least >= clock), "the least clock is first");
        self.threads[number].clock = clock;
        self.ran.push((clock, number));
        while self.baton.holder() == Some(id) {
            let Some(&step) = self.threads[number].steps.get(self.threads[number].at) else {
                self.baton.exit(id);
                return;
            };
            if self.does(number, step) {
                self.threads[number].at += 1;
                self.threads[number].waited = false;
            }
        }
    }

    /// Whether the step is over.
    fn does(&mut self, number: usize, step: Step) -> bool {
        let (id, clock) = (ThreadId(number as u64), self.threads[number].clock);
        let waited = std::mem::replace(&mut self.threads[number].waited, true);
        let late = self.baton.is_late(id);
        let members = if let Meet(team) = step { self.members(team) } else { 0 };
        let mut waits = |place, until| {
            self.baton.block(id, place, until);
            false
        };
        match step {
            Compute(time) => {
                self.threads[number].clock += time;
                self.baton.yields(id, clock + time);
                true
            }
            Sleep(_) if waited => true,
            Sleep(time) => waits(None, Some(clock + time)),
            Lock(lock) if self.owners[lock].is_some() => waits(Some(place(0, lock)), None),
            Lock(lock) => {
                self.owners[lock] = Some(number);
                true
            }
            Unlock(lock) => {
                // Programs of any steps may give back what they do not have.
                if self.owners[lock] == Some(number) {
                    self.owners[lock] = None;
                    self.baton.wake(place(0, lock), 1, clock);
                }
                true
            }
            Wait(_) if waited => true,
            Wait(condition) => {
                self.does(number, Unlock(condition));
                self.baton.block(id, Some(place(1, condition)), None);
                false
            }
            Signal(condition) => {
                self.baton.wake(place(1, condition), 1, clock);
                true
            }
            Broadcast(condition) => {
                self.baton.wake(place(1, condition), usize::MAX, clock);
                true
            }
            Post(semaphore) => {
                self.counts[semaphore] += 1;
                self.baton.wake(place(2, semaphore), 1, clock);
                true
            }
            TakeWithin(..) if waited && late => {
                self.threads[number].late += 1;
                true
            }
            Take(semaphore) | TakeWithin(semaphore, _) if self.counts[semaphore] > 0 => {
                self.counts[semaphore] -= 1;
                true
            }
            Take(semaphore) => waits(Some(place(2, semaphore)), None),
            TakeWithin(semaphore, time) => waits(Some(place(2, semaphore)), Some(clock + time)),
            Meet(_) if waited => true,
            Meet(team) => {
                self.arrived[team] += 1;
                if self.arrived[team] < members {
                    return waits(Some(place(3, team)), None);
                }
                self.arrived[team] = 0;
                self.baton.wake(place(3, team), usize::MAX, clock);
                true
            }
        }
    }

    /// What a thread that has not ended waits for is not there.
    fn nobody_waits_in_vain(&self) {
        for (number, thread) in self.threads.iter().enumerate() {
            let there = match thread.steps.get(thread.at) {
                Some(&Lock(lock)) => self.owners[lock].is_none(),
                Some(&Take(semaphore)) => self.counts[semaphore] > 0,
                Some(&Meet(team)) => self.arrived[team] == 0,
                Some(Wait(_)) | None => false,
                Some(_) => true,
            };
            assert!(!there, "thread {number} stands at step {}", thread.at);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let (object, time) = (0..OBJECTS, 0_u64..20);
    prop_oneof![
        time.clone().prop_map(Compute),
        time.clone().prop_map(Sleep),
        object.clone().prop_map(Lock),
        object.clone().prop_map(Unlock),
        object.clone().prop_map(Wait),
        object.clone().prop_map(Signal),
        object.clone().prop_map(Broadcast),
        object.clone().prop_map(Post),
        object.clone().prop_map(Take),
        (object.clone(), time).prop_map(|(semaphore, time)| TakeWithin(semaphore, time)),
        object.prop_map(Meet),
    ]
}

fn programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    proptest::collection::vec(proptest::collection::vec(step(), 0..12), 1..6)
}

proptest! {
    /// Any program ends, or stands still where it must.
    #[test]
    fn nobody_waits_for_what_is_there(programs in programs()) {
        let process = Process::new(&programs).run();
        process.nobody_waits_in_vain();
        // And once more, to the same steps.
        prop_assert_eq!(Process::new(&programs).run().ran, process.ran);
    }

    /// Who computes and meets all others at the end of each round goes on at the clock of the last.
    #[test]
    fn a_barrier_takes_as_long_as_the_last(times in proptest::collection::vec(proptest::array::uniform4(0_u64..50), 1..8)) {
        let program = |number: usize| times.iter().flat_map(|round| [Compute(round[number]), Meet(1)]).collect();
        let programs: Vec<Vec<Step>> = (0..4).map(program).collect();
        let process = Process::new(&programs).run();
        let expected: u64 = times.iter().map(|round| round.iter().max().copied().unwrap_or(0)).sum();
        // The last step of each is the barrier, and all go on behind it.
        let end = process.ran.iter().map(|&(clock, _)| clock).max();
        prop_assert!(process.threads.iter().all(|thread| thread.at == 2 * times.len()));
        prop_assert_eq!(end, Some(expected));
    }

    /// c[k] = max(c[k - 1] + what the consumer computes, p[k]).
    #[test]
    fn a_consumer_is_as_fast_as_its_producer(times in proptest::collection::vec((0_u64..50, 0_u64..50), 1..20)) {
        let producer: Vec<Step> = times.iter().flat_map(|&(time, _)| [Compute(time), Post(0)]).collect();
        let consumer: Vec<Step> = times.iter().flat_map(|&(_, time)| [Take(0), Compute(time)]).collect();
        let process = Process::new(&[producer, consumer]).run();
        let mut expected = (0, 0);
        for &(makes, uses) in &times {
            expected = (expected.0 + makes, expected.1.max(expected.0 + makes) + uses);
        }
        prop_assert_eq!((process.threads[0].clock, process.threads[1].clock), expected);
    }

    /// Parts that need one lock are done one after the other, in the order of clocks and numbers.
    #[test]
    fn a_lock_is_given_in_the_order_of_clocks(starts in proptest::collection::vec(0_u64..40, 1..8), time in 1_u64..30) {
        let program = |&start: &u64| vec![Compute(start), Lock(0), Compute(time), Unlock(0)];
        let programs: Vec<Vec<Step>> = starts.iter().map(program).collect();
        let process = Process::new(&programs).run();
        let mut order: Vec<(u64, usize)> = starts.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut free = 0;
        for (start, number) in order {
            free = start.max(free) + time;
            prop_assert_eq!(process.threads[number].clock, free, "thread {} of {:?}", number, starts);
        }
    }

    /// A wait with a limit ends in vain if what it waits for comes later.
    #[test]
    fn a_limit_is_kept(limit in 1_u64..50, post in 0_u64..50) {
        let process = Process::new(&[vec![TakeWithin(0, limit)], vec![Compute(post), Post(0)]]).run();
        // What comes at the same time is in time: a wait is over when nobody is ready any more.
        let late = post > limit;
        prop_assert_eq!(process.threads[0].late, usize::from(late));
        prop_assert_eq!(process.threads[0].clock, limit.min(post));
    }
}

#[test]
fn two_that_wait_for_each_other_stand_still() {
    let programs = [vec![Lock(0), Compute(1), Lock(1)], vec![Lock(1), Compute(1), Lock(0)]];
    let process = Process::new(&programs).run();
    assert_eq!(process.threads.iter().map(|thread| thread.at).collect::<Vec<_>>(), [2, 2]);
    process.nobody_waits_in_vain();
}

#[test]
fn who_lets_time_pass_is_in_a_call_and_nobody_is_ready() {
    let mut baton = Baton::default();
    let [computes, polls, reads] = [ThreadId(0), ThreadId(1), ThreadId(2)];
    [computes, polls, reads].into_iter().for_each(|id| assert!(baton.spawn(id, 10)));
    baton.call(polls, 1);
    baton.call(reads, 2);
    assert_eq!(baton.pass(), Next::Run(computes));
    assert_eq!(baton.pass(), Next::Taken);
    baton.block(computes, None, Some(50));
    assert_eq!(baton.pass(), Next::Lead(polls, Some(50)));
    assert!(baton.would_go_on(polls) && !baton.would_go_on(computes));
    baton.tick(50);
    assert!(baton.is_late(computes) && baton.would_go_on(computes));
    baton.call(polls, 1);
    assert_eq!(baton.pass(), Next::Run(computes));
    // It loops around its memory, and the baton is taken from it.
    assert_eq!(baton.take_away(), Some(computes));
    assert_eq!(baton.pass(), Next::Lead(polls, None));
    baton.ready(polls, 70);
    assert_eq!(baton.pass(), Next::Taken);
    baton.ready(computes, 60);
    assert!(baton.yields(polls, 70));
    assert_eq!(baton.pass(), Next::Run(computes));
}
