//! The main loop of a live run.
//!
//! Ranks and simulator take turns. When every rank is parked, the simulator takes their
//! commands, runs events up to the first wake-up at time t and on to t + lookahead, hands every
//! rank that is due in that window its notices, and lets them run in parallel until all are
//! parked again. A command has no effect before the lookahead has passed, so nothing that a rank
//! does in a window can change what happened in it: the result does not depend on the order in
//! which the host runs the ranks.
//!
//! Before all ranks have left MPI_Init (prologue) and after all have entered MPI_Finalize
//! (epilogue) they talk to each other through the launcher too; then the simulator serves
//! whoever wants in, and nothing is recorded.

mod apart;
mod end;
mod faults;
mod files;
mod looks;
mod spinning;
mod standstill;
mod storage;
mod turn;

use crate::cores::{Cores, MOST};
use crate::deputy::{Deputy, YIELDING};
use crate::endpoints::{Attention, Ranks};
use crate::functions::Functions;
use crate::net::{self, Net};
use crate::processes;
use crate::report::{Failure, Report};
use crate::timing::{Delayer, Timing};
use crate::watch::Watch;
use narrows_channel::layout::{EPOCH_PS, LATEST_PS, mode, phase, reason, state};
use narrows_channel::record::{Ended, Request, decode_request};
use narrows_channel::{Mapping, Processor, futex, handover};
use narrows_check::Checker;
use narrows_fabric::ConfigError;
use narrows_facts::Fact;
use narrows_machine::Ip;
use narrows_message::{MessageConfig, Rails};
use narrows_mpicalls::CALLS;
use narrows_output::{Meter, exit};
use narrows_portals::ProcessId;
use narrows_sim::Setup;
use narrows_timeline::{Call, Timeline};
use narrows_units::SimTime;
use spinning::Spin;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The simulation, with the memory of real processes.
pub type World = narrows_sim::World<Ranks>;

/// How long the simulator sleeps between looks at processes and signals.
const LIFE_CHECK: Duration = Duration::from_millis(20);
/// A rank that runs alone and gives no command comes back at least so often, for threads of other ranks may want
/// something. Our own choice.
const LONGEST_QUIET: SimTime = SimTime::from_us(1_000);
/// Windows between looks at processes and signals.
const CHECK_EVERY: u64 = 4096;

/// Which deaths of a rank make a launcher end the job by itself. It is left to do so, because its way is what users
/// know: its message, its exit code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launcher {
    /// Those by a signal after MPI_Init, and exits between MPI_Init and MPI_Finalize.
    pub notices_deaths: bool,
    /// Those by a signal before MPI_Init.
    pub notices_early_deaths: bool,
    /// An exit before MPI_Init with a code that is not 0.
    pub notices_early_failures: bool,
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Wall-clock limit.
    pub timeout: Option<Duration>,
    /// Node name of each rank, for messages.
    pub hosts: Vec<String>,
    /// Name of the MPI, for messages.
    pub mpi: String,
    /// What its launcher does.
    pub launcher: Launcher,
    /// The folder in which each process has a file open while it lives, see [`crate::watch`].
    pub alive: Option<PathBuf>,
    /// How far the run is, in picoseconds of simulated time; nobody knows how far it goes.
    pub progress: Arc<Meter>,
    /// Is told of calls and messages; the ranks know that from [`narrows_channel::Settings::calls`].
    pub timeline: Option<Timeline>,
    /// Times of calls are summed, see [`Report::functions`]; the ranks know that from the same.
    pub functions: bool,
    /// Ranks tell what they call, which is compared.
    pub check: bool,
    /// Messages take longer than the machine says.
    pub timing: Option<Timing>,
}

#[derive(Debug)]
struct RankState {
    /// The process that the launcher has started for it.
    root: Option<u32>,
    /// The one that has called MPI_Init or PtlInit.
    process: Option<u32>,
    /// It has left before PtlInit, or become another program after PtlFini: the others get on without it.
    gone: bool,
    /// The simulator let it run and has not seen it parked since.
    running: bool,
    /// Bytes of its commands that were taken since it parked last.
    taken: usize,
    deadline: u64,
    reason: u32,
    warned: bool,
    /// Its NIC has refused a command, which was said.
    refused: bool,
    spin: Spin,
}

impl RankState {
    /// No notice wakes it: it waits until all others have come as far, or until its memory changes, or is not there.
    fn sleeps_through(&self) -> bool {
        self.gone || matches!(self.reason, reason::BARRIER | reason::SPIN | reason::STORAGE)
    }
}

struct Run<'a> {
    mapping: &'a Mapping,
    world: World,
    options: Options,
    check: Option<Checker>,
    delayer: Option<Delayer>,
    functions: Option<Functions>,
    child: Child,
    /// How the launcher has ended.
    launcher_end: Option<ExitStatus>,
    watch: &'a Watch,
    /// Ends of processes that were looked at.
    ends_seen: u64,
    ranks: Vec<RankState>,
    /// Ranks that run in this window.
    running: Vec<u32>,
    /// Ranks that compute while the others go on, see [`apart`].
    apart: Vec<u32>,
    /// Windows until none is expected that ranks compute for long in.
    long: u32,
    /// Ranks to wake at the end of this window, once each.
    due: Vec<u32>,
    is_due: Vec<bool>,
    /// Reused: ranks that wait for their turn, and nodes where one has it.
    later: Vec<u32>,
    nodes: BTreeSet<u32>,
    /// When parked ranks want to run again at the latest.
    deadlines: BTreeSet<(u64, u32)>,
    files: files::Files,
    /// Ranks that only waited for others to call, when all others had ended.
    servers: Vec<u32>,
    /// Windows in which only such ranks have looked whether somebody calls.
    idle_rounds: u32,
    storage: storage::Storage,
    /// Reused: ranks that an event has told something.
    touched: Vec<u32>,
    /// Reused: ranks that spin and whose memory has changed.
    changed: Vec<u32>,
    /// Ranks whose notices did not all fit the last time.
    leftover: Vec<u32>,
    report: Report,
    started: Instant,
    next_check: u64,
    spurious_rounds: u32,
    /// Interrupts of waiting that were heeded.
    interrupts: u32,
    commands_seen: u64,
    /// MPI calls of all ranks when they were woken for nothing last.
    calls_seen: u64,
    cores: Option<Cores>,
    /// Those of the second core and the ones behind it.
    deputies: &'a [Deputy],
    /// Reused: the commands of a rank.
    commands: Vec<u8>,
    /// Reused: ranks that each deputy is to wake.
    far: Vec<Vec<u32>>,
    /// The last window ended a lookahead after this: when a rank was last woken, or heard of something if nothing has
    /// happened since. What comes from the host's time comes at this time at the earliest, so that nothing is asked for
    /// before what has happened. The last event of all depends on the cut into regions.
    now: SimTime,
}

/// The machine of `setup`, with the ranks of `mapping` as its processes, whose messages move as `message` says.
///
/// Up to `threads` threads have the switches. `sockets`: those of the ranks are simulated, on such devices; with the
/// seed of what TCP draws.
///
/// # Errors
/// The network cannot be built.
pub fn world(
    setup: Setup<'_>,
    mapping: &Mapping,
    message: &MessageConfig,
    sockets: Option<(Ip, u64)>,
    threads: usize,
) -> Result<World, ConfigError> {
    let places = setup.places;
    let processors = (0..places.len() as u32).map(|rank| mapping.region(rank).expect("a rank of this run").header().processor);
    let processors: Vec<Processor> = processors.collect();
    let gateways = message.rails.gateways();
    let devices = if sockets.is_some() { net::devices(places) } else { Vec::new() };
    let first_device = (places.len() + gateways.len()) as u32;
    let all: Vec<ProcessId> = places.iter().chain(&gateways).chain(&devices).copied().collect();
    let setup = Setup { places: &all, ..setup };
    let settings = &mapping.header().settings;
    let ranks = |numbers: &[u32]| match numbers {
        // A region of switches.
        [] => Ranks::new(settings, MessageConfig { rails: Rails::default(), ..message.clone() }, &[], &[]),
        _ => Ranks::new(settings, message.clone(), places, &processors),
    };
    let mut world = World::led(setup, threads, ranks)?;
    if !gateways.is_empty() {
        world.request(places.len() as u32, |ranks, requests| ranks.start_gateways(requests));
    }
    if let Some((ip, seed)) = sockets {
        let lookahead = world.lookahead();
        world.processes().set_net(Net::new(ip, places, first_device, seed), devices.len());
        world.request(first_device, |ranks, requests| ranks.net.iter_mut().for_each(|net| net.open(lookahead, requests)));
    }
    // All processes of a run belong to the user who runs it.
    // SAFETY: getuid has no preconditions and always succeeds.
    let user = unsafe { libc::getuid() };
    world.set_users(|_| user);
    Ok(world)
}

/// Runs the program that `launcher` starts, on `world`, until it ends.
///
/// Whatever happens, no process of the program is left when this returns.
pub fn run(mapping: &Mapping, world: World, launcher: Command, options: Options) -> Report {
    processes::prepare();
    let program = launcher.get_program().to_string_lossy().into_owned();
    let child = match processes::launch(launcher) {
        Ok(child) => child,
        Err(error) => {
            let message = format!("the launcher {program} cannot be started: {error}");
            return Report { failure: Some(Failure { message, exit_code: exit::NO_LAUNCHER.into() }), ..Report::default() };
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = cores.min(MOST).min(mapping.ranks() as usize);
    let deputies: Vec<Deputy> = (1..most).map(|_| Deputy::default()).collect();
    let watch = Watch::new(options.alive.as_deref());
    std::thread::scope(|scope| {
        for deputy in &deputies {
            scope.spawn(|| deputy.serve(mapping));
        }
        scope.spawn(|| watch.serve(&mapping.header().bell, LIFE_CHECK));
        let report = watched(mapping, world, child, options, &deputies, &watch);
        deputies.iter().for_each(Deputy::stop);
        watch.stop();
        report
    })
}

/// As [`run`], with somebody who rings from time to time.
fn watched(mapping: &Mapping, mut world: World, child: Child, options: Options, deputies: &[Deputy], watch: &Watch) -> Report {
    let count = mapping.ranks() as usize;
    let ranks = (0..count).map(|_| RankState {
        root: None,
        process: None,
        gone: false,
        running: false,
        taken: 0,
        deadline: u64::MAX,
        reason: 0,
        warned: false,
        refused: false,
        spin: Spin::default(),
    });
    let ranks = ranks.collect();
    if let Some(timeline) = &options.timeline {
        world.record_into(timeline.clone());
    }
    let mut run = Run {
        mapping,
        world,
        check: options.check.then(|| Checker::new(count as u32)),
        delayer: None,
        functions: options.functions.then(|| Functions::new(count)),
        options,
        child,
        launcher_end: None,
        watch,
        ends_seen: 0,
        ranks,
        running: Vec::new(),
        apart: Vec::new(),
        long: 0,
        due: Vec::new(),
        is_due: vec![false; count],
        later: Vec::new(),
        nodes: BTreeSet::new(),
        deadlines: BTreeSet::new(),
        files: files::Files::default(),
        servers: Vec::new(),
        idle_rounds: 0,
        storage: storage::Storage::new(mapping.header().settings.storage_latency_ps, mapping.header().settings.storage_rate),
        touched: Vec::new(),
        changed: Vec::new(),
        leftover: Vec::new(),
        report: Report::default(),
        started: Instant::now(),
        next_check: 0,
        calls_seen: 0,
        spurious_rounds: 0,
        interrupts: 0,
        commands_seen: 0,
        cores: None,
        deputies,
        commands: Vec::new(),
        far: vec![Vec::new(); deputies.len()],
        now: SimTime(EPOCH_PS),
    };
    run.delayer = run.options.timing.take().map(|timing| {
        let place = |rank| {
            let header = run.mapping.region(rank).expect("rank numbers come from the mapping").header();
            ProcessId { nid: header.nid, pid: header.ptl_pid }
        };
        let places: Vec<ProcessId> = (0..count as u32).map(place).collect();
        Delayer::new(timing, &places)
    });
    if let Err(failure) = run.whole() {
        run.report.failure = Some(failure);
    }
    run.finish()
}

impl Run<'_> {
    fn whole(&mut self) -> Result<(), Failure> {
        if !self.serve_outside(phase::PROLOGUE)? {
            return Ok(());
        }
        let unconnected = |&rank: &u32| !self.ranks[rank as usize].gone && self.header(rank).endpoint.load(Acquire) == 0;
        if let Some(rank) = (0..self.ranks.len() as u32).find(unconnected) {
            let message = format!(
                "{} has left MPI_Init, but its MPI library ({}) did not load the libfabric provider `narrows`, so nothing would go \
                 through the simulated network; run again with FI_LOG_LEVEL=warn to see why, and check that the MPI was built with libfabric",
                self.name(rank),
                self.options.mpi
            );
            return Err(self.failure(1, message));
        }
        self.begin()?;
        self.windows()?;
        self.end();
        self.serve_outside(phase::EPILOGUE)?;
        match self.report.exit_code {
            0 => Ok(()),
            code => Err(self.failure(code, format!("the launcher ended with code {code}, though all ranks had left MPI_Finalize"))),
        }
    }

    fn header(&self, rank: u32) -> &narrows_channel::RankHeader {
        self.mapping.region(rank).expect("rank numbers come from the mapping").header()
    }

    // ---- prologue and epilogue ------------------------------------------------------------

    /// Serves ranks that come and go, until all wait at the end of MPI_Init (prologue) or the
    /// launcher has ended (epilogue; in the prologue that is an early end: `false`).
    fn serve_outside(&mut self, phase: u32) -> Result<bool, Failure> {
        self.mapping.header().phase.store(phase, Release);
        if phase == phase::EPILOGUE {
            for rank in 0..self.ranks.len() as u32 {
                self.let_in(rank);
            }
        }
        let (mut arrived, mut since) = (0, Instant::now());
        loop {
            let bell = self.mapping.header().bell.load(Acquire);
            self.look_for_births();
            for rank in 0..self.ranks.len() as u32 {
                // What a rank gave the last time is taken before it comes in again.
                if !self.ranks[rank as usize].running && self.header(rank).state.load(Acquire) == state::WANTS_IN {
                    self.let_in(rank);
                }
            }
            if self.mapping.header().running.load(Acquire) == 0 {
                let collected = !self.running.is_empty();
                self.collect()?;
                self.world.drain_before(if phase == phase::PROLOGUE { SimTime(EPOCH_PS) } else { SimTime::MAX });
                if phase == phase::EPILOGUE {
                    // Ranks tear their endpoints down: what their NICs refuse now harms nobody.
                    self.world.take_error();
                    self.world.processes().error = None;
                } else {
                    self.check_world()?;
                }
                self.post_mail();
                if phase == phase::PROLOGUE && self.all_ready() {
                    return Ok(true);
                }
                if collected || !self.running.is_empty() {
                    continue;
                }
            }
            let here = (0..self.ranks.len() as u32).filter(|&rank| self.mode(rank) != mode::NONE).count();
            if here != arrived {
                (arrived, since) = (here, Instant::now());
            } else if phase == phase::PROLOGUE && here > 0 && since.elapsed() > looks::BUSY_WARNING {
                self.warn_missing();
            }
            handover::await_ring(&self.mapping.header().bell, bell, Some(LIFE_CHECK));
            if let Some(code) = self.look_around()? {
                self.report.exit_code = code;
                return Ok(false);
            }
            if self.only_servers_are_left() {
                return Ok(false);
            }
        }
    }

    fn all_ready(&self) -> bool {
        let waits = |rank| self.header(rank).state.load(Acquire) == state::PARKED && self.header(rank).reason.load(Relaxed) == reason::INIT;
        let mut ranks = 0..self.ranks.len() as u32;
        ranks.all(|rank| self.ranks[rank as usize].gone || waits(rank)) && !self.ranks.iter().all(|rank| rank.gone)
    }

    /// Processes that have begun are watched from now on, and go on.
    fn look_for_births(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
            let known = &mut self.ranks[rank as usize];
            let begun = |pid: u32| {
                self.watch.add(pid);
                header.watched.store(pid, Release);
                futex::wake(&header.watched);
                Some(pid)
            };
            if known.root.is_none() {
                known.root = Some(header.root.load(Acquire)).filter(|&pid| pid != 0).and_then(begun);
            }
            if known.process.is_none() {
                known.process = Some(header.pid.load(Acquire)).filter(|&pid| pid != 0).and_then(begun);
                if let Some(pid) = known.process {
                    self.world.processes().set_pid(rank, pid);
                }
            }
        }
    }

    /// Tells ranks that are outside that something waits for them, and wakes those that wait
    /// for a reply.
    fn post_mail(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            let mail = self.world.processes().has_mail(rank);
            let header = self.header(rank);
            let (now, why) = (header.state.load(Acquire), header.reason.load(Relaxed));
            if now == state::OUTSIDE && mail {
                header.mail.store(1, Release);
                futex::wake(&header.mail);
            } else if now == state::PARKED && (why == reason::FULL || (mail && why != reason::INIT)) {
                self.let_in(rank);
            }
        }
    }

    /// Hands the region to `rank` and lets it run.
    fn let_in(&mut self, rank: u32) {
        let known = &self.ranks[rank as usize];
        if known.gone || known.process.is_none() {
            return;
        }
        handover::announce(&self.mapping.header().running, 1);
        self.wake(rank);
    }

    /// Hands the region to `rank`, which counts as running already.
    fn wake(&mut self, rank: u32) {
        let stopped = self.let_go_if_found(rank);
        self.prepare(rank);
        handover::hand(&self.header(rank).state);
        drop(stopped);
    }

    /// Writes what `rank` finds in its region, which is going to be handed to it.
    fn prepare(&mut self, rank: u32) {
        let region = self.mapping.region(rank).expect("rank numbers come from the mapping");
        region.header().apart_from.store(self.apart_from(rank), Relaxed);
        let ranks = self.world.processes();
        ranks.runs(rank);
        ranks.hand_over(rank, &region);
        let (clock, worked) = ranks.clock(rank);
        let header = region.header();
        header.news.store(ranks.news(rank).unwrap_or(SimTime::MAX).as_ps(), Relaxed);
        let before = header.clock.load(Relaxed);
        if self.report.started && clock.as_ps() > before {
            header.clock.store(clock.as_ps(), Relaxed);
            header.wait_ps.fetch_add((clock.as_ps() - before).saturating_sub(worked.as_ps()), Relaxed);
        }
        self.ranks[rank as usize].running = true;
        self.ranks[rank as usize].spin.begin();
        self.running.push(rank);
        self.report.crossings += 1;
    }

    /// Takes the commands of the ranks that ran. All of them are parked or outside now.
    fn collect(&mut self) -> Result<(), Failure> {
        self.running.sort_unstable();
        let running = std::mem::take(&mut self.running);
        for &rank in &running {
            let full = self.world.processes().has_mail(rank);
            self.must_be_sane(rank)?;
            self.take_commands(rank)?;
            self.ranks[rank as usize].taken = 0;
            let region = self.mapping.region(rank).expect("rank numbers come from the mapping");
            let header = region.header();
            header.commands.store(0, Relaxed);
            let error = header.push_error.swap(0, Relaxed);
            if error != 0 {
                let (address, length) = (header.push_address.load(Relaxed), header.push_length.load(Relaxed));
                self.world.processes().push_failed(header.push_to.load(Relaxed), address, length, error as i32);
            }
            let state = &mut self.ranks[rank as usize];
            state.running = false;
            // It was taken out of the simulation by the program that is in its place.
            state.gone |= header.replaced.load(Acquire) != 0 && header.finalized.load(Acquire) != 0;
            self.deadlines.remove(&(state.deadline, rank));
            state.deadline = Some(header.deadline.load(Relaxed)).filter(|&deadline| deadline <= LATEST_PS).unwrap_or(u64::MAX);
            state.reason = header.reason.load(Relaxed);
            let ended = SimTime(state.deadline);
            let attention = match state.reason {
                _ if header.state.load(Acquire) == state::OUTSIDE => Attention::Always,
                reason::INIT => Attention::Always,
                reason::POLL => Attention::Until(ended),
                reason::REPLY | reason::FINALIZE => Attention::Until(SimTime::MAX),
                _ => Attention::Absent,
            };
            let clock = SimTime(header.clock.load(Relaxed).min(LATEST_PS));
            self.world.request(rank, |ranks, requests| ranks.parks(rank, clock, attention, requests));
            self.world.processes().take_touched(&mut Vec::new());
            let state = &mut self.ranks[rank as usize];
            if let Some(time) = self.world.processes().first_mail(rank).filter(|_| !full) {
                state.deadline = state.deadline.min(time.as_ps());
            }
            if state.deadline != u64::MAX && (!state.sleeps_through() || state.reason == reason::STORAGE) {
                self.deadlines.insert((state.deadline, rank));
            }
            // Another of its threads may have written what those that are stopped wait for.
            let spins = self.ranks[rank as usize].reason == reason::SPIN;
            // It may have parked again before the other thread that wants it has woken. Who waits for a reply keeps it.
            let gives_way = matches!(self.ranks[rank as usize].reason, reason::POLL | reason::PAUSE | reason::FINALIZE);
            let wanted = gives_way && header.wanted.load(Acquire) != 0;
            if full || wanted || (!spins && self.has_found(rank, clock)) {
                self.leftover.push(rank);
            }
            self.parks_at_files(rank);
        }
        self.running = running;
        self.running.clear();
        Ok(())
    }

    /// Takes what a rank has written since its commands were taken last. It is parked, or set apart.
    fn take_commands(&mut self, rank: u32) -> Result<(), Failure> {
        let region = self.mapping.region(rank).expect("rank numbers come from the mapping");
        // Copied: what is looked at must not change under the look.
        let mut commands = std::mem::take(&mut self.commands);
        commands.clear();
        // SAFETY: the simulator owns the region, or the rank appends to it: it starts anew after it has parked only.
        commands.extend_from_slice(unsafe { region.commands_from(self.ranks[rank as usize].taken) });
        self.ranks[rank as usize].taken += commands.len();
        let taken = self.take_each(rank, &commands);
        self.commands = commands;
        taken
    }

    fn take_each(&mut self, rank: u32, mut rest: &[u8]) -> Result<(), Failure> {
        while !rest.is_empty() {
            let (time, request, length) = match decode_request(rest) {
                Ok(request) if request.0 <= LATEST_PS => request,
                Ok((time, ..)) => return Err(self.scribbled(&self.name(rank), &format!("the time of a command is {time:#x}"))),
                Err(error) => return Err(self.failure(1, format!("{} gave a broken command: {error}", self.name(rank)))),
            };
            rest = &rest[length..];
            match request {
                Request::Ended(ended) => {
                    self.tell_call(rank, &ended, time);
                    continue;
                }
                Request::Fact(words) => {
                    if let (Some(check), Some(fact)) = (&mut self.check, Fact::decode(&words)) {
                        check.take(rank, time.saturating_sub(EPOCH_PS), fact);
                    }
                    continue;
                }
                Request::Command(command) if self.world.processes().is_ours(rank, &command) => {
                    return Err(self.failure(1, format!("{} gave a command that meddles with its messages", self.name(rank))));
                }
                Request::Command(command) if self.world.processes().beyond(rank, &command).is_some() => {
                    return Err(self.failure(
                        1,
                        format!(
                            "{} asked its NIC for memory of a rank on another network: gateways pass messages only, and Portals programs \
                             need ranks on one network (--placement)",
                            self.name(rank)
                        ),
                    ));
                }
                Request::Command(command) => {
                    let rail = self.world.processes().first_rail(rank);
                    self.world.submit(rank, rail, SimTime(time), command);
                }
                Request::Socket { ticket, words } => {
                    let called = self.world.request(rank, |ranks, requests| {
                        ranks.net.as_mut().map(|net| net.call(rank, SimTime(time), ticket, words, requests))
                    });
                    if called.is_none() {
                        return Err(self.failure(1, format!("{} called a simulated socket in a run without (--sockets)", self.name(rank))));
                    }
                }
                Request::Call { eq, words, payload } => {
                    let time = match &mut self.delayer {
                        Some(delayer) if self.report.started => delayer.time(rank, time, &words),
                        _ => time,
                    };
                    let called =
                        self.world.request(rank, |ranks, requests| ranks.call(rank, SimTime(time), (eq, words, payload), requests));
                    if let Err(error) = called {
                        return Err(self.failure(1, format!("{}: {error}", self.name(rank))));
                    }
                }
            }
            self.commands_seen += 1;
        }
        Ok(())
    }

    /// A rank has been in an MPI call.
    fn tell_call(&mut self, rank: u32, ended: &Ended, end: u64) {
        if let Some(functions) = &mut self.functions {
            functions.add(rank, ended, end, self.ranks[rank as usize].process);
        }
        if let (Some(timeline), Some(call)) = (&self.options.timeline, CALLS.get(ended.call as usize)) {
            timeline.call(Call {
                rank,
                name: call.name,
                begin: SimTime(ended.began.saturating_sub(EPOCH_PS)),
                end: SimTime(end.saturating_sub(EPOCH_PS)),
                waited: SimTime(ended.waited),
                peer: ended.peer as i64,
                tag: ended.tag as i64,
            });
        }
    }

    /// The calls in which ranks were when the run broke off.
    fn tell_open_calls(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            let header = self.header(rank);
            if let Some(call) = header.call.load(Relaxed).checked_sub(1) {
                let (began, peer, tag) = (header.entered.load(Relaxed), header.peer.load(Relaxed), header.tag.load(Relaxed));
                self.tell_call(rank, &Ended { call, began, waited: 0, peer, tag, site: 0 }, header.clock.load(Relaxed).max(began));
            }
        }
    }

    // ---- the run --------------------------------------------------------------------------

    fn begin(&mut self) -> Result<(), Failure> {
        while self.world.next_led(SimTime(EPOCH_PS)).is_some() {
            self.world.step();
        }
        let now = self.world.now().as_ps();
        if now > EPOCH_PS {
            let message = format!(
                "what ranks tell each other in MPI_Init took {now} of simulated time, and {epoch} are kept for it; look at the machine's \
                 rates, latencies and `network.reliability.timeout`",
                now = SimTime(now),
                epoch = SimTime(EPOCH_PS)
            );
            return Err(self.failure(1, message));
        }
        self.report.started = true;
        self.report.crossings = 0;
        self.mapping.header().phase.store(phase::RUN, Release);
        self.world.start_recording(SimTime(EPOCH_PS));
        self.world.request(0, |ranks, requests| ranks.begin(SimTime(EPOCH_PS), requests));
        self.world.processes().take_touched(&mut Vec::new());
        self.leftover.clear();
        self.cores =
            Some(Cores::new(self.ranks.iter().filter_map(|rank| rank.process), self.deputies.iter().map(Deputy::thread).collect()));
        let horizon = EPOCH_PS + self.world.lookahead().as_ps();
        for rank in 0..self.ranks.len() as u32 {
            self.header(rank).horizon.store(horizon, Relaxed);
        }
        for rank in 0..self.ranks.len() as u32 {
            self.let_in(rank);
        }
        Ok(())
    }

    fn windows(&mut self) -> Result<(), Failure> {
        loop {
            self.await_parked(true)?;
            self.look_who_has_parked();
            self.look_at_shared_memory();
            self.collect()?;
            if self.apart.is_empty() && self.ranks.iter().all(|rank| rank.reason == reason::BARRIER) {
                self.release_barrier();
                continue;
            }
            self.look_at_sockets();
            self.look_at_files(Duration::ZERO);
            self.heed_interrupts();
            if self.only_servers_look() {
                return Ok(());
            }
            self.report.windows += 1;
            // In this order: what they have written before that is there.
            let limit = self.apart_until() + self.world.lookahead();
            for at in 0..self.apart.len() {
                self.take_commands(self.apart[at])?;
            }
            let next = self.next_time();
            if !self.apart.is_empty() && self.leftover.is_empty() && next >= limit {
                self.await_apart(next)?;
                continue;
            }
            let mut horizon = self.run_window(limit)?;
            self.check_world()?;
            if self.due.is_empty() && !self.apart.is_empty() {
                continue;
            }
            if self.due.is_empty() {
                if !self.nothing_due()? {
                    return Ok(());
                }
                // Who finds work must hand over its commands, though nothing else is in flight.
                horizon = self.now + self.world.lookahead();
            }
            self.wake_due(horizon)?;
            // On a busy host so many windows take seconds: a signal is not left waiting for them.
            if self.report.windows >= self.next_check || processes::signal().is_some() {
                self.next_check = self.report.windows + CHECK_EVERY;
                self.must_go_on()?;
            }
        }
    }

    /// Wakes the ranks that are due, all together. Only those of one node that look into each other's memory take
    /// turns, in the order in which they became due: which of two sees what the other has written would be the host's
    /// affair otherwise.
    fn wake_due(&mut self, horizon: SimTime) -> Result<(), Failure> {
        let quiet_until = self.quiet_until(horizon);
        let mut due = std::mem::take(&mut self.due);
        let mut later = std::mem::take(&mut self.later);
        loop {
            self.nodes.clear();
            due.retain(|&rank| {
                let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
                let now = header.shares.load(Relaxed) == 0 || self.nodes.insert(header.node);
                if !now {
                    later.push(rank);
                }
                now
            });
            // All at once: one that is back before the next is woken must not think that it is the last.
            handover::announce(&self.mapping.header().running, due.len() as u32);
            for &rank in &due {
                self.is_due[rank as usize] = false;
                self.header(rank).horizon.store(horizon.as_ps(), Relaxed);
                self.header(rank).quiet_until.store(quiet_until.as_ps(), Relaxed);
            }
            let number = self.cores.as_ref().map_or(0, Cores::number);
            if number > 1 {
                // Only this thread can let a stopped one go.
                due.retain(|&rank| {
                    let core = if self.ranks[rank as usize].spin.is_stopped() { 0 } else { Cores::of(rank, number) };
                    if core > 0 {
                        self.prepare(rank);
                        self.far[core - 1].push(rank);
                    }
                    core == 0
                });
                for (deputy, far) in self.deputies.iter().zip(&mut self.far).filter(|(_, far)| !far.is_empty()) {
                    deputy.hand(far);
                }
            }
            for rank in due.drain(..) {
                self.wake(rank);
            }
            std::mem::swap(&mut due, &mut later);
            if due.is_empty() {
                break;
            }
            self.await_parked(false)?;
        }
        (self.due, self.later) = (due, later);
        Ok(())
    }

    /// All ranks are at a barrier that their launcher serves: they go on when the last one has come, and do it then.
    fn release_barrier(&mut self) {
        let ranks = 0..self.ranks.len() as u32;
        let latest = ranks.clone().map(|rank| self.header(rank).clock.load(Relaxed)).max().unwrap_or(EPOCH_PS);
        let horizon = latest.max(self.now.as_ps()) + self.world.lookahead().as_ps();
        for rank in ranks.clone() {
            self.header(rank).clock.store(latest, Relaxed);
            self.header(rank).horizon.store(horizon, Relaxed);
            self.header(rank).quiet_until.store(0, Relaxed);
            self.ranks[rank as usize].reason = reason::POLL;
        }
        for rank in ranks {
            self.let_in(rank);
        }
    }

    /// Sleeps until no rank runs; but for those that `may_compute` meanwhile and are set apart.
    fn await_parked(&mut self, may_compute: bool) -> Result<(), Failure> {
        let header = self.mapping.header();
        let since = Instant::now();
        if self.cores.as_ref().is_some_and(Cores::bound) {
            // The ranks run meanwhile, and the last one need not wake anybody.
            while header.running.load(Acquire) != 0 && since.elapsed() < YIELDING {
                std::thread::yield_now();
            }
        }
        // The watchdog rings too: a time limit of its own would cost a timer in every window.
        let often = self.running.iter().any(|&rank| self.ranks[rank as usize].spin.is_known()).then_some(spinning::SOON);
        let expects = may_compute && self.long > 0;
        let timer = often.or(expects.then_some(apart::AFTER));
        let mut looked = Duration::ZERO;
        let mut next_check = LIFE_CHECK;
        let mut miscounted = Duration::ZERO;
        loop {
            if handover::await_given(&header.running, &header.bell, timer) {
                let long = since.elapsed() >= apart::AFTER;
                self.long = if long { apart::LATELY } else { self.long.saturating_sub(1) };
                if let Some(cores) = &mut self.cores
                    && (self.apart.is_empty() || cores.bound())
                {
                    cores.ran(self.running.len(), since.elapsed());
                }
                return Ok(());
            }
            if expects && since.elapsed() >= apart::AFTER && self.set_apart() {
                self.long = apart::LATELY;
                return Ok(());
            }
            if often.is_some() {
                self.look_for_spinning(since.elapsed(), &mut looked);
            }
            if since.elapsed() >= next_check {
                // Who computes is looked at more often: not by this, which stops it.
                while next_check <= since.elapsed() {
                    next_check += LIFE_CHECK;
                }
                self.must_go_on()?;
                self.must_be_counted(since.elapsed(), &mut miscounted)?;
                self.look_for_spinning(since.elapsed(), &mut looked);
                if let Some(cores) = &mut self.cores
                    && self.running.len() > 1
                {
                    cores.release();
                }
                if since.elapsed() > looks::BUSY_WARNING {
                    self.warn_busy();
                }
            }
        }
    }
}
