//! Live runs: real processes of a stock MPI on a simulated machine.

mod computing;
mod outcome;
mod plan;
mod pscom;
mod timing;

pub use computing::{Alone, Computing};
pub use narrows_live::Waiting;
pub use outcome::{RunOutcome, waits_picture};
pub use timing::TimingSpec;

use crate::energy::{Energy, OverTime, Share, Stay, Used};
use crate::timeline::TimelineOutcome;
use crate::{ComputeScale, MachineSpec, Observer, StudyError, TimelineSpec};
use narrows_channel::counter;
use narrows_channel::stretches::Tables;
use narrows_channel::{Header, Mapping};
use narrows_launch::{self as launch, LaunchError};
use narrows_live::Report;
use narrows_output::Meter;
use narrows_traffic::Class;
use narrows_units::{ProcessorId, SimTime};
use plan::{Files, Plan};
use std::os::fd::{AsRawFd, OwnedFd};
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
    /// The program, or several: their ranks are numbered one program after the other.
    pub apps: Vec<launch::App>,
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
    /// Where computing times come from.
    pub compute: Compute,
    /// How they are scaled.
    pub compute_scale: Vec<ComputeScale>,
    /// Whether computing times are kept for other runs.
    pub keep_computing: bool,
    /// Times of MPI calls are summed by function and call site.
    pub functions: bool,
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
    /// Synthetic traffic beside it, in simulated time.
    pub background: Vec<Class>,
    /// Threads of the simulator: the results do not depend on them.
    pub threads: usize,
    /// TCP and UDP sockets of the ranks go over the simulated network, and programs need no MPI library.
    pub sockets: bool,
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
    /// As `On`, and loads and stores of the program.
    Memory,
    /// As `Memory` and `Strict`.
    StrictMemory,
}

impl Check {
    /// What is erroneous ends the run with a code of its own.
    #[must_use]
    pub fn is_strict(self) -> bool {
        matches!(self, Check::Strict | Check::StrictMemory)
    }

    /// Loads and stores of the program are looked at.
    #[must_use]
    pub fn sees_memory(self) -> bool {
        matches!(self, Check::Memory | Check::StrictMemory)
    }
}

impl std::str::FromStr for Check {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Check, StudyError> {
        match text {
            "on" => Ok(Check::On),
            "strict" => Ok(Check::Strict),
            "memory" => Ok(Check::Memory),
            "memory,strict" | "strict,memory" => Ok(Check::StrictMemory),
            "off" => Ok(Check::Off),
            _ => Err(StudyError::expected(text, "on, strict, memory, strict,memory or off")),
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

/// Where computing times come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Compute {
    /// Work is free.
    None,
    /// CPU time of the rank.
    Measured,
    /// The same; between the same two calls its running median.
    Sampled,
    /// The same; the median over all ranks of it, if that of the rank is near.
    Pooled,
    /// Instructions of the rank, so many per second; `None`: as many as at the start of the run.
    Instructions(Option<f64>),
    /// Cycles of the core that the machine has, which a plugin of qemu counts.
    Cycles,
    /// What an earlier run has kept: its file, or its folder.
    File(PathBuf),
}

/// Those of one word.
const WORDS: [(&str, Compute); 6] = [
    ("measured", Compute::Measured),
    ("sampled", Compute::Sampled),
    ("pooled", Compute::Pooled),
    ("instructions", Compute::Instructions(None)),
    ("cycles", Compute::Cycles),
    ("none", Compute::None),
];

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compute::Instructions(Some(rate)) => write!(f, "instructions:{rate:e}"),
            Compute::File(path) => write!(f, "{}", path.display()),
            model => WORDS.iter().filter(|(_, known)| known == model).try_for_each(|(word, _)| f.write_str(word)),
        }
    }
}

impl std::str::FromStr for Compute {
    type Err = StudyError;

    /// `measured`, `sampled`, `pooled`, `instructions` with or without `:RATE`, `cycles`, `none`, or what an earlier
    /// run has kept.
    fn from_str(text: &str) -> Result<Compute, StudyError> {
        let (word, number) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
        match (WORDS.iter().find(|(known, _)| *known == word), number) {
            (Some((_, model)), None) => Ok(model.clone()),
            (Some((_, Compute::Instructions(_))), Some(rate)) => {
                let rate = rate.parse().ok().filter(|rate: &f64| (1e6..=1e12).contains(rate));
                rate.map(|rate| Compute::Instructions(Some(rate.round()))).ok_or_else(|| {
                    StudyError::contradiction(format!(
                        "the rate of {text} must be instructions per second, a number between 1e6 and 1e12, such as 2.5e9"
                    ))
                })
            }
            // Of earlier versions.
            (Some(_), Some(factor)) => Err(StudyError::expected(text, format!("{word}, with --compute-scale {factor}"))),
            (None, _) if Path::new(text).exists() => Ok(Compute::File(text.into())),
            (None, _) => Err(StudyError::expected(
                text,
                "measured, sampled, pooled, instructions[:RATE], cycles, none, or the file or folder of an earlier run",
            )),
        }
    }
}

/// What the host, the launcher or the program's MPI says.
fn host(error: impl std::fmt::Display) -> StudyError {
    StudyError::Host(error.to_string())
}

impl RunSpec {
    /// A program on a machine, with the defaults of the command line.
    pub fn new(apps: Vec<launch::App>, machine: MachineSpec) -> RunSpec {
        RunSpec {
            apps,
            machine,
            mpirun: None,
            transport: launch::Transport::Ofi(launch::PROVIDER),
            ppn: None,
            placement: String::from("linear"),
            compute: Compute::Measured,
            compute_scale: Vec::new(),
            keep_computing: false,
            functions: false,
            seed: 1,
            timeout: None,
            no_aslr: false,
            recorder: None,
            timeline: None,
            check: Check::Off,
            timing: None,
            background: Vec::new(),
            threads: 1,
            sockets: false,
        }
    }

    /// The number of ranks of all programs.
    pub fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    /// Runs it to its end. `says` is told what was chosen, line by line: how messages move, and the launcher's command
    /// line.
    ///
    /// # Errors
    /// Something that it names is not there or does not fit, or the host lacks something; nothing was started then.
    pub fn run(&self, observer: &dyn Observer, says: &dyn Fn(&str)) -> Result<RunOutcome, StudyError> {
        let start = Instant::now();
        let machine = self.load(observer)?;
        let placement = self.placed(&machine)?;
        let program = self.found(&machine)?;
        let mut plan = Plan::of(self, &machine, placement, program, observer, says)?;
        let ended = plan.launch(observer, says)?;
        Ok(plan.report(ended, start.elapsed()))
    }
}

/// A run that is over.
struct Ended {
    report: Report,
    timeline: Option<TimelineOutcome>,
    counted: Option<Counted>,
    /// Threads whose cycles could not be counted.
    uncounted: u32,
    /// For other runs, if they are to be kept.
    computing: Option<Computing>,
}

impl Plan<'_> {
    /// Starts the ranks, and simulates until they are over.
    fn launch(&mut self, observer: &dyn Observer, says: &dyn Fn(&str)) -> Result<Ended, StudyError> {
        let spec = self.spec;
        let timeline = spec.timeline.as_ref().map(TimelineSpec::open).transpose()?;
        // Before any thread.
        let scratch = launch::Scratch::create()?;
        let alive = scratch.path().join("alive");
        std::fs::create_dir(&alive).map_err(|error| StudyError::Read { path: alive.clone(), error })?;
        let (mapping, channel) = Mapping::create(spec.ranks(), self.settings()).map_err(host)?;
        if let Compute::Instructions(Some(rate)) = spec.compute {
            mapping.header().instructions_per_s.store(rate as u64, Relaxed);
        }
        let processors = self.processors();
        for (rank, ((&id, host_name), &processor)) in (0u32..).zip(self.processes.iter().zip(&self.hosts).zip(&processors)) {
            mapping.place(rank, id, host_name, processor).map_err(host)?;
        }
        let factors: Vec<f64> = processors.iter().map(|processor| processor.compute_ppm as f64 / 1e6).collect();
        // Short stretches are not looked at under `measured`, and would be missing.
        let keep = spec.keep_computing && !matches!(spec.compute, Compute::None | Compute::Measured | Compute::Cycles);
        let wanted = keep || matches!(spec.compute, Compute::Pooled | Compute::File(_));
        let mut tables = wanted.then(|| Tables::create(spec.ranks())).transpose().map_err(host)?;
        if let Some((computing, (tables, _))) = self.computing.as_ref().zip(tables.as_mut()) {
            computing.fill(tables, &factors);
        }
        let setup = narrows_sim::Setup { hardware: self.networks.hardware_for(self.machine, &self.placement), places: &self.processes };
        let sockets = spec.sockets.then_some((self.machine.ip, spec.seed));
        // A timeline is told in the order of time, and background traffic ends with an event of the nodes.
        let alone = timeline.is_some() || self.background.is_some();
        let mut world = narrows_live::world(setup, &mapping, &self.message, sockets, if alone { 1 } else { spec.threads })?;
        if let Some(background) = self.background.take() {
            world.set_background(background);
        }

        let fitted = |library: &Path| launch::Preload::fitted(library, self.program.mpi.file.as_deref());
        let preload = fitted(&self.program.libraries.join("libnarrows-preload.so"))?;
        let recorder = spec.recorder.as_ref().map(|recorder| fitted(&self.program.recorder(recorder))).transpose()?;
        let opened = |fd: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let files = Files {
            preload: preload.path(),
            recorder: recorder.as_ref().map(launch::Preload::path),
            channel: opened(&channel),
            computing: tables.as_ref().map(|(_, fd)| opened(fd)),
            alive: &alive,
        };
        let command = self.command(&scratch, &files);
        says(&format!("{}; starting {command:?}", self.program.mpi));
        let meter = Arc::new(Meter::default());
        let options = self.options(&meter, alive, timeline.as_ref().map(|open| open.timeline.clone()));
        let now = Arc::clone(&meter);
        let part = observer.part(String::from("running"), &meter, Box::new(move || format!("simulated {}", SimTime(now.done()))));
        let report = narrows_live::run(&mapping, world, command, options);
        drop(part);
        Ok(Ended {
            timeline: timeline.map(|open| {
                let stays: Vec<Stay> = self.stays(&report.ranks);
                let used = Used::by(&self.placement, &self.networks);
                open.finish(self.machine, &self.placement, |recorded, window| {
                    OverTime::of(self.machine, &used, &stays, (recorded, window, report.simulated), true)
                })
            }),
            report,
            counted: Counted::of(mapping.header()),
            uncounted: mapping.header().uncounted.load(Relaxed),
            computing: tables.filter(|_| keep).map(|(mut tables, _)| Computing::read(&mut tables, &factors)),
        })
    }

    /// Where each rank was, and until when.
    fn stays(&self, ranks: &[narrows_live::RankTimes]) -> Vec<Stay> {
        ranks.iter().zip(&self.placement).map(|(rank, &processor)| Stay { processor, end: rank.finished }).collect()
    }

    /// What came out, beside what was asked for.
    fn report(self, ended: Ended, wall: Duration) -> RunOutcome {
        let Ended { report, timeline, counted, uncounted, computing } = ended;
        let share = |(rank, &processor): (&narrows_live::RankTimes, &ProcessorId)| Share {
            processor,
            computing: rank.computing,
            in_mpi: rank.mpi + rank.waiting,
            beside: SimTime::ZERO,
        };
        let shares: Vec<Share> = report.ranks.iter().zip(&self.placement).map(share).collect();
        let used = Used::by(&self.placement[..shares.len()], &self.networks);
        let energy = Energy::of(self.machine, &used, report.simulated, &shares, report.totals.bytes).filter(|_| report.started);
        RunOutcome {
            mpi: self.program.mpi.to_string(),
            machine: self.machine.clone(),
            ways: self.ways,
            energy,
            compute: self.spec.compute.clone(),
            scales: self.scales,
            alone: self.alone,
            counted,
            uncounted,
            computing,
            placement: self.placement,
            seed: self.spec.seed,
            wall,
            program: launch::words(&self.spec.apps),
            report,
            timeline,
            check: self.spec.check,
        }
    }
}

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

/// The MPI whose launcher starts these programs, and the programs as that launcher is given them.
///
/// # Errors
/// A program cannot be started, or uses another MPI library than the first one.
pub fn launcher(
    mpirun: Option<&Path>,
    sockets: bool,
    apps: &[launch::App],
) -> Result<(launch::Mpi, Vec<launch::App>), launch::LaunchError> {
    let mut first: Option<launch::Mpi> = None;
    let mut found = Vec::new();
    for app in apps {
        let (mpi, program) = launcher_of(mpirun, sockets, app)?;
        let first = first.get_or_insert_with(|| mpi.clone());
        if (mpi.library, &mpi.launcher) != (first.library, &first.launcher) {
            let (program, other, first) = (app.program.clone(), mpi.to_string(), first.to_string());
            return Err(launch::LaunchError::SeveralMpis { program, other, first });
        }
        if mpi.foreign != first.foreign {
            return Err(launch::LaunchError::SeveralProcessors { program: app.program.clone() });
        }
        found.push(launch::App { program, ..app.clone() });
    }
    let first = first.ok_or_else(|| launch::LaunchError::Apps(String::from("no program: expected one behind --")))?;
    Ok((first, found))
}

fn launcher_of(mpirun: Option<&Path>, sockets: bool, app: &launch::App) -> Result<(launch::Mpi, String), launch::LaunchError> {
    let (program, arguments) = (&app.program, &app.arguments[..]);
    let Some(mpirun) = mpirun else {
        let program = launch::locate(program)?;
        return match launch::inspect(&program, arguments) {
            // With sockets, what uses no MPI library that we find uses none.
            Err(_) if sockets => Ok((launch::without_mpi(), program)),
            found => Ok((found?, program)),
        };
    };
    let mpi = launch::inspect_launcher(mpirun)?;
    launch::check_launcher(&mpi, program, arguments)?;
    let mpi = launch::for_program(mpi, program)?;
    // What the launcher finds in its own way it may find.
    Ok((mpi, launch::locate(program).unwrap_or_else(|_| program.clone())))
}

/// Libraries of ours in front of a preload of the user's own.
pub fn preload_list(ours: &[PathBuf]) -> String {
    let ours = ours.iter().map(|path| path.display().to_string());
    let others = std::env::var("LD_PRELOAD").ok().filter(|others| !others.is_empty());
    ours.chain(others).collect::<Vec<_>>().join(":")
}

/// What a live run loads into its processes.
const LIBRARIES: [&str; 5] = ["libnarrows-fi.so", "libportals.so", "libnarrows-preload.so", LAUNCHER, CYCLES];
/// What qemu loads, see `capi/cycles`.
const CYCLES: &str = "libnarrows-cycles-plugin.so";
/// For mpirun of Open MPI, see `capi/launcher`.
const LAUNCHER: &str = "libnarrows-launcher.so";

/// The folder with the libraries that enter the ranks, under the names that their users look for.
///
/// # Errors
/// They are not beside the program.
pub fn libraries() -> Result<PathBuf, LaunchError> {
    let exe = std::env::current_exe().map_err(LaunchError::OwnFolder)?;
    let folder = exe.parent().unwrap_or(Path::new("."));
    // `make build` makes this folder; the second place is an installation.
    for candidate in [folder.join("lib"), folder.join("../lib/narrows")] {
        let complete = LIBRARIES.iter().all(|name| candidate.join(name).exists());
        if complete {
            return candidate.canonicalize().map_err(|error| LaunchError::Io { path: candidate, error });
        }
    }
    Err(LaunchError::Libraries { names: LIBRARIES.join(", "), folder: folder.join("lib") })
}

/// The folder with those that enter the ranks of this MPI: of another processor, beside those of this one.
///
/// # Errors
/// They are not there.
pub fn libraries_of(mpi: &launch::Mpi, ours: &Path) -> Result<PathBuf, LaunchError> {
    match &mpi.foreign {
        Some(foreign) => foreign.libraries(ours, &LIBRARIES[..3]),
        None => Ok(ours.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn compute_models_are_read_and_refused() {
        let read = |text: &str| text.parse::<Compute>().map_err(|error| error.to_string());
        assert_eq!(read("instructions:2.5e9"), Ok(Compute::Instructions(Some(2.5e9))));
        for text in ["none", "measured", "sampled", "pooled", "instructions", "instructions:2.713e9", "cycles", "src"] {
            assert_eq!(read(text).map(|compute| compute.to_string()), Ok(String::from(text)));
        }
        assert_eq!(read("src"), Ok(Compute::File("src".into())));
        assert_eq!(read("sampled:0.5"), Err(String::from("sampled:0.5: expected sampled, with --compute-scale 0.5")));
        for wrong in ["", "free", "measured:", "none:1", "instructions:", "instructions:2", "instructions:x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
