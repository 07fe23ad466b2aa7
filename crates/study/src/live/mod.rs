//! Live runs: real processes of a stock MPI on a simulated machine.

mod computing;
mod outcome;
mod pscom;
mod timing;

pub use computing::{Computing, Like};
pub use narrows_live::Waiting;
pub use outcome::{RunOutcome, waits_picture};
pub use timing::TimingSpec;

use crate::background;
use crate::energy::{Energy, Share};
use crate::hardware::Networks;
use crate::{MachineSpec, Observer, StudyError, TimelineSpec, Ways};
use narrows_channel::counter::{self, Event, Refusal};
use narrows_channel::stretches::{self, Tables};
use narrows_channel::{Header, Mapping, Processor, Settings};
use narrows_launch as launch;
use narrows_live::{Launcher, Options};
use narrows_machine::{Machine, MessageProtocol, Node, Placement};
use narrows_message::{MessageConfig, Rendezvous};
use narrows_nic::NicConfig;
use narrows_output::Meter;
use narrows_portals::{NodeId, ProcessId};
use narrows_traffic::Class;
use narrows_units::{Bytes, SimTime};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A program on a simulated machine.
///
/// Its processes are children of this one, which must have no other threads yet: the guard that cleans up behind a
/// killed simulator is a fork of it. Their output, input and signals are the program's own.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Number of ranks.
    pub ranks: u32,
    /// The machine.
    pub machine: MachineSpec,
    /// The launcher; `None`: the one that belongs to the program's MPI library.
    pub mpirun: Option<PathBuf>,
    /// What carries the messages of the MPI library.
    pub transport: launch::Transport<'static>,
    /// Ranks per node; `None`: 1, or as many as are needed.
    pub ppn: Option<u32>,
    /// Which node each rank runs on: `linear`, `random:SEED`, or a file with one node per line.
    pub placement: String,
    /// Where computing time comes from.
    pub compute: Compute,
    /// Computing times of another run in the place of measured ones.
    pub compute_from: Option<PathBuf>,
    /// A run of one rank with the work of one of these: all computing times are scaled by how much less it took.
    pub compute_like: Option<PathBuf>,
    /// Whether computing times are kept for other runs.
    pub keep_computing: bool,
    /// Seed of every random choice of the models.
    pub seed: u64,
    /// Ends the run after this wall time.
    pub timeout: Option<Duration>,
    /// Starts the ranks without address space randomisation.
    pub no_aslr: bool,
    /// Preloaded into the ranks behind our own library, and more of their environment.
    pub recorder: Option<Recorder>,
    /// What happens when.
    pub timeline: Option<TimelineSpec>,
    /// Whether the MPI calls of all ranks are compared.
    pub check: Check,
    /// Another timing than the machine's.
    pub timing: Option<TimingSpec>,
    /// The NICs' accelerators do MPI_Allreduce, as far as they can.
    pub offload_allreduce: bool,
    /// Synthetic traffic beside it, in simulated time.
    pub background: Vec<Class>,
    /// Threads of the simulator: the results do not depend on them.
    pub threads: usize,
}

/// What `--check` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing: it costs nothing.
    #[default]
    Off,
    /// What does not fit is said.
    On,
    /// What is erroneous also ends the run with a code of its own.
    Strict,
}

impl std::str::FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Check, String> {
        match text {
            "on" => Ok(Check::On),
            "strict" => Ok(Check::Strict),
            "off" => Ok(Check::Off),
            _ => Err(String::from("expected on, strict or off")),
        }
    }
}

/// The recorder library in the ranks.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// The library.
    pub library: PathBuf,
    /// Where it writes.
    pub folder: PathBuf,
}

/// The model of computing time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compute {
    /// Work is free.
    None,
    /// CPU time of the rank, times this.
    Measured(f64),
    /// The same; between the same two calls its running median.
    Sampled(f64),
    /// The same; the median over all ranks of it, if that of the rank is near.
    Pooled(f64),
    /// Instructions of the rank, so many per second; `None`: as many as at the start of the run.
    Instructions(Option<f64>),
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (model, factor) = match self {
            Compute::Instructions(Some(rate)) => return write!(f, "instructions:{rate:e}"),
            Compute::Instructions(None) => ("instructions", 1.0),
            Compute::None => ("none", 1.0),
            Compute::Measured(factor) => ("measured", *factor),
            Compute::Sampled(factor) => ("sampled", *factor),
            Compute::Pooled(factor) => ("pooled", *factor),
        };
        if factor == 1.0 { f.write_str(model) } else { write!(f, "{model}:{factor}") }
    }
}

impl std::str::FromStr for Compute {
    type Err = String;

    /// `measured`, `sampled` or `pooled`, with or without `:FACTOR`, `instructions`, with or without `:RATE`, or
    /// `none`.
    fn from_str(text: &str) -> Result<Compute, String> {
        if let Some(rate) = text.strip_prefix("instructions:") {
            let rate = rate.parse().ok().filter(|rate: &f64| (1e6..=1e12).contains(rate)).map(f64::round);
            return rate.map(|rate| Compute::Instructions(Some(rate))).ok_or_else(|| {
                format!("the rate of {text} must be instructions per second, a number between 1e6 and 1e12, such as 2.5e9")
            });
        }
        let (model, factor) = match text.split_once(':') {
            None if text == "none" => return Ok(Compute::None),
            None if text == "instructions" => return Ok(Compute::Instructions(None)),
            None => (text, Some(1.0)),
            Some((model, factor)) => (model, factor.parse().ok().filter(|factor: &f64| (1e-6..=1e6).contains(factor))),
        };
        let model = match model {
            "measured" => Compute::Measured,
            "sampled" => Compute::Sampled,
            "pooled" => Compute::Pooled,
            _ => return Err(String::from("expected measured, sampled or pooled, with or without :FACTOR, instructions[:RATE], or none")),
        };
        factor.map(model).ok_or_else(|| format!("the factor of {text} must be a number between 0.000001 and 1000000"))
    }
}

/// What the host, the launcher or the program's MPI says.
fn host(error: impl std::fmt::Display) -> StudyError {
    StudyError::Host(error.to_string())
}

impl RunSpec {
    /// A program on a machine, with the defaults of the command line.
    pub fn new(program: Vec<String>, ranks: u32, machine: MachineSpec) -> RunSpec {
        RunSpec {
            program,
            ranks,
            machine,
            mpirun: None,
            transport: launch::Transport::Ofi(launch::PROVIDER),
            ppn: None,
            placement: String::from("linear"),
            compute: Compute::Measured(1.0),
            compute_from: None,
            compute_like: None,
            keep_computing: false,
            seed: 1,
            timeout: None,
            no_aslr: false,
            recorder: None,
            timeline: None,
            check: Check::Off,
            timing: None,
            offload_allreduce: false,
            background: Vec::new(),
            threads: 1,
        }
    }

    /// Runs it to its end. `says` is told what was chosen, line by line: how messages move, and the launcher's command
    /// line.
    ///
    /// # Errors
    /// Something that it names is not there or does not fit, or the host lacks something; nothing was started then.
    pub fn run(&self, observer: &dyn Observer, says: &dyn Fn(&str)) -> Result<RunOutcome, StudyError> {
        let start = Instant::now();
        let mut machine = self.machine.load(observer)?;
        if let Some(timing) = &self.timing {
            timing.change(&mut machine);
        }
        if machine.message.protocol == MessageProtocol::Pscom {
            pscom::apply(
                std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
                &mut machine,
            )
            .map_err(StudyError::Host)?;
        }
        let kind: Placement = self.placement.parse().map_err(|error| StudyError::Placement(format!("--placement: {error}")))?;
        let placement =
            narrows_machine::placement(&kind, &machine, self.ppn, self.ranks).map_err(|error| StudyError::Placement(error.to_string()))?;

        launch::resources::check_temporary().map_err(StudyError::Host)?;
        launch::resources::check_files(self.ranks, launch::resources::FILES_OF_A_RANK).map_err(StudyError::Host)?;
        let (mpi, program) = launcher(self.mpirun.as_deref(), &self.program).map_err(host)?;
        launch::resources::check_files(self.ranks, mpi.library.open_files).map_err(StudyError::Host)?;
        let over_portals = !matches!(self.transport, launch::Transport::Ofi(_));
        if over_portals && mpi.library.components.is_none() {
            return Err(StudyError::Host(format!(
                "--transport chooses among the components of Open MPI, and this is {mpi}; leave it away"
            )));
        }
        let component = match self.transport {
            launch::Transport::Ofi(_) => None,
            launch::Transport::MtlPortals4 => Some("mtl_portals4"),
            launch::Transport::BtlPortals4 => Some("btl_portals4"),
        };
        if let Some(component) = component
            && launch::has_component(&mpi, &program, &self.program[1..], component) == Some(false)
        {
            return Err(StudyError::Host(format!(
                "--transport: this {mpi} was built without Portals 4 and has no component {}; leave it away, or use an Open MPI that was \
                 configured --with-portals4",
                component.replace('_', "/")
            )));
        }
        let libraries = libraries().map_err(StudyError::Host)?;

        if self.compute == Compute::None && (self.compute_from.is_some() || self.keep_computing) {
            return Err(StudyError::Host(String::from(
                "--compute none: computing takes no time, so there is none for --compute-from or --compute-out; leave one of them away",
            )));
        }
        let counter = self.counter()?;
        let computing = self.compute_from.as_deref().map(Computing::load).transpose()?;
        if let Some((computing, path)) = computing.as_ref().zip(self.compute_from.as_ref())
            && computing.ranks() != self.ranks as usize
        {
            return Err(StudyError::Host(format!(
                "--compute-from: {} has the times of {} ranks, and {} are to run: one file for each number of ranks",
                path.display(),
                computing.ranks(),
                self.ranks
            )));
        }
        let like = match (&self.compute_like, &self.compute_from, &computing) {
            (Some(path), Some(from), Some(computing)) => Some(Like::of(computing, from, path)?),
            (Some(_), _, _) => {
                return Err(StudyError::Host(String::from("--compute-like scales the times of --compute-from FILE; give both")));
            }
            (None, _, _) => None,
        };
        if let Some(like) = &like {
            says(&like.line());
        }
        let scale = like.as_ref().map_or(1.0, |like| like.factor);

        let offload_board = if self.offload_allreduce { Some(self.offload(&machine, &placement, observer)?) } else { None };
        let networks = Networks::of(&machine, self.seed)?.with_faults_later(narrows_live::EPOCH);
        let background = background::sources(&self.background, &networks, self.seed)?;
        machine.check_domains(placement.len()).map_err(StudyError::Placement)?;
        let message = machine.message_config(machine.rails_between(&placement).map_err(StudyError::Placement)?);
        let ways = Ways::of(&machine, &message);
        ways.lines().iter().for_each(|line| says(line));
        let timeline = self.timeline.as_ref().map(TimelineSpec::open).transpose()?;

        // Before any thread.
        let scratch = launch::Scratch::create().map_err(host)?;
        let processes = ProcessId::numbered(placement.iter().copied());
        let alive = scratch.path().join("alive");
        std::fs::create_dir(&alive).map_err(|error| StudyError::Read { path: alive.clone(), error })?;
        let (mapping, fd) = Mapping::create(
            self.ranks,
            Settings {
                timeline: timeline.is_some().into(),
                offload_board: offload_board.unwrap_or(0),
                counter: counter.map_or(0, |event| event as u32),
                ..settings(&machine, networks.machine_on(message.rails.first()).nic.portals(), &message)
            },
        )
        .map_err(host)?;
        if let Compute::Instructions(Some(rate)) = self.compute {
            mapping.header().instructions_per_s.store(rate as u64, Relaxed);
        }
        let hosts: Vec<String> = placement.iter().map(|&node| machine.host_name(node)).collect();
        let mut factors = Vec::new();
        for (rank, ((&id, &node), name)) in (0u32..).zip(processes.iter().zip(&placement).zip(&hosts)) {
            let timing = self.timing.as_ref().map_or((0, 1000), |timing| timing.of_rank(rank));
            let processor = processor(machine.node(node), self.compute, scale, timing);
            factors.push(processor.compute_ppm as f64 / 1e6);
            mapping.place(rank, id, name, processor).map_err(host)?;
        }
        let wanted = computing.is_some() || self.keep_computing || matches!(self.compute, Compute::Pooled(_));
        let mut tables = wanted.then(|| Tables::create(self.ranks)).transpose().map_err(host)?;
        if let Some((computing, (tables, _))) = computing.as_ref().zip(tables.as_mut()) {
            computing.fill(tables, &factors);
        }
        let setup = narrows_sim::Setup { hardware: networks.hardware(), places: &processes };
        let bridged = message.rails.bridging().is_some();
        // A timeline is told in the order of time, and background traffic ends with an event of the nodes.
        let alone = self.timeline.is_some() || !self.background.is_empty();
        let threads = if alone { 1 } else { self.threads };
        let mut world = narrows_live::world(setup, &mapping, &message, threads)?;
        if let Some(background) = background {
            world.set_background(background);
        }

        let channel = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let fitted = |library: &Path| launch::Preload::fitted(library, mpi.file.as_deref()).map_err(host);
        let preload = fitted(&libraries.join("libnarrows-preload.so"))?;
        let recording = self.recorder.as_ref().map(|recorder| fitted(&recorder.library)).transpose()?;
        // What a copy needs is not beside it.
        let mut preloads = vec![preload.path().to_owned(), libraries.join("libportals.so")];
        // Behind ours: inside an MPI call the rank's clock is up to date.
        preloads.extend(recording.iter().map(|recorder| recorder.path().to_owned()));
        let cores = machine.parts().map(|(_, node)| node.cores).max().unwrap_or(1);
        let mut environment = environment(&libraries, &preloads, channel, cores);
        environment.extend(self.recorder.iter().map(|recorder| ("NARROWS_RECORD".to_owned(), recorder.folder.display().to_string())));
        if let Some((_, fd)) = &tables {
            environment.push((stretches::VARIABLE.to_owned(), format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())));
        }
        if self.check != Check::Off {
            environment.push(("NARROWS_CHECK".to_owned(), "1".to_owned()));
        }
        if self.offload_allreduce {
            environment.push(("NARROWS_OFFLOAD".to_owned(), "allreduce".to_owned()));
        }
        environment.push(("NARROWS_ALIVE".to_owned(), alive.display().to_string()));
        if bridged {
            environment.extend(without_atomics(&mpi));
        }
        // Whether the program uses Portals without MPI is seen when it calls PtlInit.
        environment.extend(portals_environment(&processes));
        environment.push(("LD_LIBRARY_PATH".to_owned(), library_path(&libraries)));
        let mut command = launch::command(self.transport, &mpi, &scratch, self.ranks, &program, &self.program[1..], &environment);
        if mpi.library.preloads_launcher {
            command.env("LD_PRELOAD", preload_list(&[libraries.join(LAUNCHER)]));
        }
        if self.no_aslr {
            launch::without_aslr(&mut command);
        }
        says(&format!("{mpi}; starting {command:?}"));
        let meter = Arc::new(Meter::default());
        let options = Options {
            timeout: self.timeout,
            hosts: hosts.clone(),
            mpi: mpi.to_string(),
            launcher: Launcher {
                notices_deaths: mpi.library.notices_deaths,
                notices_early_deaths: mpi.library.notices_early_deaths,
                notices_early_failures: mpi.library.notices_early_failures,
            },
            alive: Some(alive),
            progress: Arc::clone(&meter),
            timeline: timeline.as_ref().map(|open| open.timeline.clone()),
            check: self.check != Check::Off,
            timing: self.timing.as_ref().map(TimingSpec::of_messages),
        };
        let now = Arc::clone(&meter);
        let part = observer.part(String::from("running"), &meter, Box::new(move || format!("simulated {}", SimTime(now.done()))));
        let report = narrows_live::run(&mapping, world, command, options);
        drop(part);
        let timeline = timeline.map(|open| open.finish(&placement, &hosts)).transpose()?;
        let share = |rank: &narrows_live::RankTimes| {
            let (node, computing) = (NodeId(rank.node), rank.computing);
            Share { node, computing, in_mpi: rank.mpi + rank.waiting, beside: SimTime::ZERO }
        };
        let shares: Vec<Share> = report.ranks.iter().map(share).collect();
        let energy = Energy::of(&machine, &networks, report.simulated, &shares).filter(|_| report.started);

        Ok(RunOutcome {
            mpi: mpi.to_string(),
            machine,
            ways,
            energy,
            compute: self.compute,
            compute_from: self.compute_from.clone(),
            like,
            counted: Counted::of(mapping.header()),
            computing: tables.filter(|_| self.keep_computing).map(|(mut tables, _)| Computing::read(&mut tables, &factors)),
            placement,
            seed: self.seed,
            wall: start.elapsed(),
            program: self.program.clone(),
            report,
            timeline,
            check: self.check,
        })
    }
}

/// Names another event in the place of instructions, `task-clock`: with 1e9 of that per second a run takes its CPU
/// time, which tests can see on hosts without counters.
const COUNTER: &str = "NARROWS_TEST_COUNTER";

/// What was counted under `--compute instructions`.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Instructions that took a second; `None`: the ranks have computed too little to say.
    pub rate: Option<u64>,
    /// The same of all that the ranks have computed.
    pub own_rate: Option<f64>,
    /// Threads whose instructions could not be counted.
    pub uncounted: u32,
}

impl Counted {
    /// What stands in the shared file; `None`: nothing was counted.
    fn of(file: &Header) -> Option<Counted> {
        let (instructions, ns) = (file.instructions.load(Relaxed), file.instructions_ns.load(Relaxed));
        (file.settings.counter != 0).then(|| Counted {
            rate: Some(file.instructions_per_s.load(Relaxed)).filter(|&rate| rate != 0),
            own_rate: (ns != 0).then(|| instructions as f64 * 1e9 / ns as f64),
            uncounted: file.uncounted.load(Relaxed),
        })
    }

    /// It in a line for people. `given`: the rate was.
    fn line(&self, given: bool) -> String {
        let own = self.own_rate.map_or(String::new(), |rate| format!(" ({rate:.3e} over the whole run)"));
        let first = counter::LEARNT_NS / 1_000_000;
        let line = match self.rate {
            Some(rate) if given => format!("computing: {:e} instructions take a second{own}", rate as f64),
            Some(rate) => format!(
                "computing: {rate:e} instructions take a second, as in its first {first} ms{own}; `--compute instructions:{rate:e}` takes the same",
                rate = rate as f64
            ),
            None => {
                format!("computing: less than {first} ms in stretches of 20 us and more, too little to know a rate: it took its CPU time")
            }
        };
        match self.uncounted {
            0 => line,
            threads => format!("{line}; {threads} threads could not be counted and took their CPU time"),
        }
    }
}

/// Why a host cannot count instructions, and what to do.
fn no_counter(why: Refusal, paranoid: Option<i32>) -> String {
    let instead = "take `--compute sampled` (medians of CPU time)";
    match why {
        Refusal::None => {
            format!("--compute instructions: this host has no hardware counters (most virtual machines have none); {instead}")
        }
        Refusal::Forbidden => format!(
            "--compute instructions: the kernel forbids hardware counters (kernel.perf_event_paranoid is {}): `sysctl \
             kernel.perf_event_paranoid=2` permits them, in a container also its seccomp profile must; or {instead}",
            paranoid.map_or(String::from("unknown"), |level| level.to_string())
        ),
        Refusal::Other(errno) => {
            format!("--compute instructions: perf_event_open: {}; {instead}", std::io::Error::from_raw_os_error(errno))
        }
    }
}

impl RunSpec {
    /// What is counted in the place of CPU time. Says why that cannot be.
    fn counter(&self) -> Result<Option<Event>, StudyError> {
        if !matches!(self.compute, Compute::Instructions(_)) {
            return Ok(None);
        }
        let event = if std::env::var_os(COUNTER).is_some_and(|name| name == "task-clock") { Event::TaskClock } else { Event::Instructions };
        let file = counter::open(event).map_err(|why| {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            StudyError::Host(no_counter(why, paranoid.ok().and_then(|level| level.trim().parse().ok())))
        })?;
        counter::close(file);
        Ok(Some(event))
    }

    /// `--offload allreduce`: nodes of a board. Says why the library will do them nevertheless.
    fn offload(&self, machine: &Machine, placement: &[NodeId], observer: &dyn Observer) -> Result<u32, StudyError> {
        let board = machine.accelerator_board().ok_or_else(|| {
            let text = format!("--offload allreduce: the NICs of {} have no allreduce accelerator; those of exanest have", machine.name);
            StudyError::Contradiction(text)
        })?;
        let nodes: Vec<u32> = placement.iter().map(|node| node.0).collect();
        if let Err(limit) = narrows_portals::offload::check(&nodes, board) {
            observer.warning(&format!("--offload allreduce: the MPI library does them, as {limit}"));
        }
        Ok(board)
    }
}

/// The MPI whose launcher starts `command`, and the program as that launcher is given it.
pub fn launcher(mpirun: Option<&Path>, command: &[String]) -> Result<(launch::Mpi, String), launch::LaunchError> {
    let (program, arguments) = (&command[0], &command[1..]);
    let Some(mpirun) = mpirun else {
        return Ok((launch::inspect(program, arguments)?, launch::locate(program)?));
    };
    let mpi = launch::inspect_launcher(mpirun)?;
    launch::check_launcher(&mpi, program, arguments)?;
    // What the launcher finds in its own way it may find.
    Ok((mpi, launch::locate(program).unwrap_or_else(|_| program.clone())))
}

/// What every rank finds in its environment.
fn environment(libraries: &Path, preloads: &[PathBuf], channel: String, cores: u32) -> Vec<(String, String)> {
    let mut variables = vec![
        ("LD_PRELOAD", preload_list(preloads)),
        ("NARROWS_CHANNEL", channel),
        ("FI_PROVIDER_PATH", libraries.display().to_string()),
        // The simulated node, the largest if they differ (`capi/preload/src/machine.rs`). Without it the hwloc of every
        // rank explores this computer, PCI and displays included: half of the CPU time that Open MPI 4.1 needs to
        // start.
        ("HWLOC_SYNTHETIC", format!("core:{cores} pu:1")),
        // Threads of OpenMP that have nothing to do sleep at once, whatever the user's policy: spinning ones would take
        // the cores of those that compute, and on the simulated machine it costs nobody time
        // (docs/decisions/0007-threads.md).
        ("OMP_WAIT_POLICY", "passive".to_owned()),
        ("GOMP_SPINCOUNT", "0".to_owned()),
        ("KMP_BLOCKTIME", "0".to_owned()),
        // The same for oneCCL, whose callers spin on memory until a worker thread is done, without a call that would
        // say so.
        ("CCL_YIELD", "sleep".to_owned()),
    ];
    // Plugins of hwloc that explore devices of this computer, and one that reads what hwloc reads without it as well:
    // with their libraries (X11, OpenCL, ICU) 3 of the 33 ms of CPU time that a rank of Debian's Open MPI 4.1 needs to
    // start and end.
    if std::env::var_os("HWLOC_PLUGINS_BLACKLIST").is_none() {
        const PLUGINS: [&str; 8] = ["pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero", "xml_libxml"];
        variables.push(("HWLOC_PLUGINS_BLACKLIST", PLUGINS.map(|name| format!("hwloc_{name}.so")).join(",")));
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Libraries of ours in front of a preload of the user's own.
pub fn preload_list(ours: &[PathBuf]) -> String {
    let ours = ours.iter().map(|path| path.display().to_string());
    let others = std::env::var("LD_PRELOAD").ok().filter(|others| !others.is_empty());
    ours.chain(others).collect::<Vec<_>>().join(":")
}

/// What ranks of a program without MPI find beside that: how many there are, and where (`nid:pid`, by rank).
fn portals_environment(processes: &[ProcessId]) -> [(String, String); 2] {
    let map: Vec<String> = processes.iter().map(|process| format!("{}:{}", process.nid, process.pid)).collect();
    [("NARROWS_RANKS".to_owned(), processes.len().to_string()), ("NARROWS_MAP".to_owned(), map.join(","))]
}

/// What ranks find beside that where one-sided operations are messages (decision 0020).
fn without_atomics(mpi: &launch::Mpi) -> Vec<(String, String)> {
    let names = (mpi.library.without_atomics)(mpi.major());
    let unset = names.iter().filter(|name| std::env::var_os(name).is_none());
    unset.map(|&name| (name.to_owned(), "0".to_owned())).collect()
}

/// Where ranks that need libportals.so find it, before all other folders.
fn library_path(libraries: &Path) -> String {
    match std::env::var("LD_LIBRARY_PATH") {
        Ok(others) if !others.is_empty() => format!("{}:{others}", libraries.display()),
        _ => libraries.display().to_string(),
    }
}

fn settings(machine: &Machine, nic: &NicConfig, message: &MessageConfig) -> Settings {
    Settings {
        launcher_barrier_ps: machine.system.launcher_barrier.as_ps(),
        socket_latency_ps: machine.system.socket_latency.as_ps(),
        eager_limit: message.eager_limit,
        inject_limit: message.inject_limit,
        overflow_block: message.overflow_block,
        overflow_blocks: message.overflow_blocks,
        max_portals_message: message.max_portals_message,
        rendezvous_put: u32::from(message.rendezvous == Rendezvous::Put),
        one_sided_messages: u32::from(message.rails.bridging().is_some()),
        simulator_counts: u32::from(!message.protocol.counts_at_calls()),
        pio_limit: nic.pio_limit.get() as u32,
        limits: nic.limits,
        ..Settings::default()
    }
}

/// What a rank on such a node must know of it; its computing is scaled by `scale` beside the node's speed, it begins
/// `late` (ps), and its software takes so many thousandths of the time that it takes on the node.
fn processor(node: &Node, compute: Compute, scale: f64, (late, slow): (u64, u64)) -> Processor {
    let software = &node.software;
    let ppm = |factor: f64| (factor * scale * 1e6 / node.speed.factor()).round().max(1.0) as u64;
    let slower = |time: SimTime| (u128::from(time.as_ps()) * u128::from(slow) / 1000) as u64;
    Processor {
        post_ps: slower(software.post),
        completion_ps: slower(software.completion),
        poll_ps: slower(software.poll),
        late_ps: late,
        copy_ps_per_kib: software.copy_bandwidth.time_for(Bytes(1024)).as_ps(),
        clock_read_ps: software.clock_read.as_ps(),
        compute_ppm: match compute {
            Compute::None => 0,
            Compute::Measured(factor) | Compute::Sampled(factor) | Compute::Pooled(factor) => ppm(factor),
            Compute::Instructions(_) => ppm(1.0),
        },
        sampled: match compute {
            Compute::None | Compute::Measured(_) | Compute::Instructions(_) => 0,
            Compute::Sampled(_) => 1,
            Compute::Pooled(_) => 2,
        },
        cores: node.cores,
    }
}

/// What a live run loads into its processes.
const LIBRARIES: [&str; 4] = ["libnarrows-fi.so", "libportals.so", "libnarrows-preload.so", LAUNCHER];
/// For mpirun of Open MPI, see `capi/launcher`.
const LAUNCHER: &str = "libnarrows-launcher.so";

/// The folder with the libraries that enter the ranks, under the names that their users look for.
///
/// # Errors
/// They are not beside the program.
pub fn libraries() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| format!("the program's own folder is unknown: {error}"))?;
    let folder = exe.parent().unwrap_or(Path::new("."));
    // `make build` makes this folder; the second place is an installation.
    for candidate in [folder.join("lib"), folder.join("../lib/narrows")] {
        let complete = LIBRARIES.iter().all(|name| candidate.join(name).exists());
        if complete {
            return candidate.canonicalize().map_err(|error| format!("{}: {error}", candidate.display()));
        }
    }
    Err(format!("the libraries {} are not in {}: run `make build`", LIBRARIES.join(", "), folder.join("lib").display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_core_takes_less_of_the_time_that_was_measured() {
        let machine = Machine::load("bxi-v2", &narrows_machine::Overrides { nodes: None, set: vec![String::from("node.speed=2.5")] });
        let ppm =
            |compute| processor(machine.as_ref().map(|machine| &machine.node).expect("a preset"), compute, 1.0, (0, 1000)).compute_ppm;
        assert_eq!((ppm(Compute::Measured(1.0)), ppm(Compute::Measured(5.0)), ppm(Compute::None)), (400_000, 2_000_000, 0));
    }

    #[test]
    fn a_rate_is_said_so_that_it_can_be_given() {
        let counted = Counted { rate: Some(2_713_000_000), own_rate: Some(2.8341e9), uncounted: 0 };
        let said = counted.line(false);
        assert!(said.contains("first 20 ms (2.834e9 over the whole run); `--compute instructions:2.713e9` takes the same"), "{said}");
        assert!(!counted.line(true).contains("takes the same"));
        let short = Counted { rate: None, own_rate: Some(1e9), uncounted: 3 }.line(false);
        assert!(short.contains("less than 20 ms") && short.contains("3 threads could not be counted"), "{short}");
    }

    #[test]
    fn a_host_without_counters_is_told_what_to_do() {
        let none = no_counter(Refusal::None, Some(2));
        assert!(none.contains("no hardware counters") && none.contains("--compute sampled") && !none.contains('\n'), "{none}");
        let forbidden = no_counter(Refusal::Forbidden, Some(4));
        assert!(forbidden.contains("paranoid is 4") && forbidden.contains("sysctl kernel.perf_event_paranoid=2"), "{forbidden}");
        assert!(no_counter(Refusal::Other(24), None).contains("Too many open files"));
    }

    #[test]
    fn compute_models_are_read_and_refused() {
        assert_eq!("none".parse(), Ok(Compute::None));
        assert_eq!("measured".parse(), Ok(Compute::Measured(1.0)));
        assert_eq!("measured:0.5".parse(), Ok(Compute::Measured(0.5)));
        assert_eq!("sampled:2".parse(), Ok(Compute::Sampled(2.0)));
        assert_eq!("pooled:0.5".parse(), Ok(Compute::Pooled(0.5)));
        assert_eq!("instructions:2.5e9".parse(), Ok(Compute::Instructions(Some(2.5e9))));
        for text in ["none", "measured", "sampled", "sampled:2", "pooled:0.5", "instructions", "instructions:2.713e9"] {
            assert_eq!(text.parse::<Compute>().map(|compute| compute.to_string()), Ok(String::from(text)));
        }
        for wrong in [
            "",
            "sampled:x",
            "sampled:0",
            "measured:",
            "measured:-1",
            "measured:nan",
            "free",
            "none:1",
            "instructions:",
            "instructions:2",
            "instructions:x",
        ] {
            assert!(wrong.parse::<Compute>().is_err(), "{wrong}");
        }
    }
}
