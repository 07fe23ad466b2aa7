//! Synthetic traffic at one load or several.

mod output;
mod pictures;
mod wording;

pub use wording::Wording;

use crate::{MachineSpec, Observer, StudyError};
use narrows_fabric::parallel::Processes;
use narrows_machine::Machine;
use narrows_output::Meter;
use narrows_results::{Table, TableError, peak_memory};
use narrows_traffic::{Class, Point, Setup, Simulation, TrafficError, Work, class, flows};
use narrows_units::{Rail, SimTime};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is sent.
#[derive(Clone, Debug)]
pub enum Messages {
    /// Random messages. A class without a name gets one.
    Classes(Vec<Class>),
    /// Those that a file lists (`narrows_traffic::flows`).
    Flows(PathBuf),
}

/// Synthetic traffic.
#[derive(Clone, Debug)]
pub struct TrafficSpec {
    /// On which machine.
    pub machine: MachineSpec,
    /// On which of its networks; none: the first one.
    pub fabric: Option<String>,
    /// What is sent.
    pub messages: Messages,
    /// Fractions of the injection bandwidth; `None`: 0.5 where a load is needed.
    pub loads: Option<Vec<f64>>,
    /// Simulated time before the measurement; `None`: until throughput and latency are steady.
    pub warmup: Option<SimTime>,
    /// Simulated time of the measurement; `None`: 100 us, and for flows until the last is done.
    pub time: Option<SimTime>,
    /// How often queues and links are looked at; `None`: never.
    pub period: Option<SimTime>,
    /// Of every random choice.
    pub seed: u64,
    /// Of the simulator: points side by side, and several for a point where there are more threads than points.
    pub threads: usize,
    /// Those that share every point, if there are others: each runs this spec, and the first one has the outcome.
    pub processes: Option<Processes>,
}

/// What came out of a sweep.
#[derive(Debug)]
pub struct TrafficOutcome {
    /// Resolved.
    pub machine: Machine,
    /// What was run, but for the loads.
    pub setup: Setup,
    /// What was sent, in words.
    pub pattern: String,
    /// Threads that were asked for; of each process.
    pub threads: usize,
    /// By process that shared the points: the most memory that it had, in bytes, where the host tells.
    pub processes: Vec<Option<u64>>,
    /// Wall time of everything.
    pub wall: Duration,
    /// Wall time until the first point began: topology, routing, network, sources.
    pub assembly: Duration,
    /// Wall time of the points.
    pub simulation: Duration,
    /// Ended by the observer.
    pub interrupted: bool,
    /// Those that were begun, in their order.
    pub points: Vec<Point>,
}

/// The classes of a mix file.
///
/// # Errors
/// It cannot be read, or has mistakes.
pub fn read_mix(path: &Path) -> Result<Vec<Class>, StudyError> {
    Ok(class::parse_mix(&path.display().to_string(), &read(path)?)?)
}

fn read(path: &Path) -> Result<String, TrafficError> {
    narrows_output::read_to_string(path).map_err(|error| TrafficError::Read { file: path.display().to_string(), why: error.to_string() })
}

impl TrafficSpec {
    /// On one thread with seed 1, and times that the run itself finds.
    pub fn new(machine: MachineSpec, messages: Messages) -> TrafficSpec {
        TrafficSpec {
            machine,
            fabric: None,
            messages,
            loads: None,
            warmup: None,
            time: None,
            period: None,
            seed: 1,
            threads: 1,
            processes: None,
        }
    }

    /// Runs the sweep.
    ///
    /// # Errors
    /// Mistakes in any of its points; they show before the first is run.
    pub fn run(&self, observer: &dyn Observer) -> Result<TrafficOutcome, StudyError> {
        let start = Instant::now();
        let machine = self.machine.load(observer)?;
        // The first plane of its network.
        let of_fabric = machine.fabrics.iter().position(|fabric| self.fabric.as_ref() == Some(&fabric.name)).unwrap_or(0);
        let rail = Rail((of_fabric as u32 * machine.rails) as u8);
        let machine = crate::network_of(machine, self.fabric.as_deref())?;
        let topology = machine.topology()?;
        let (work, pattern) = self.work(topology.hosts())?;
        let mut setup = Setup {
            warmup: self.warmup,
            time: self.time,
            period: self.period,
            seed: self.seed,
            processes: self.processes.clone(),
            handlers: machine.handlers(),
            ..Setup::new(machine.network_config_on(Some(rail), self.seed), topology, work)
        };
        let loads = match &self.loads {
            Some(loads) => loads.iter().copied().map(Some).collect(),
            None if setup.needs_load() => vec![Some(0.5)],
            None => vec![None],
        };
        let Some(&first) = loads.first() else {
            return Err(StudyError::Contradiction(String::from("no load: a sweep has one at least")));
        };
        self.compare(&machine, &pattern)?;
        // Processes meet in the windows of one point at a time.
        let at_once = if self.processes.is_some() { 1 } else { self.threads.clamp(1, loads.len()) };
        setup.threads = (self.threads / at_once).max(1);
        let assembling = observer.part(String::from("assembling the network"), &Arc::default(), Box::new(String::new));
        let simulation = Simulation::new(&setup, first)?;
        drop(assembling);
        let assembly = start.elapsed();
        for load in loads.iter().skip(1) {
            setup.check(*load)?;
        }
        let begin = Instant::now();
        let points = sweep(&setup, simulation, &loads, at_once, observer)?;
        let simulation = begin.elapsed();
        // Of several processes, the others may have heard a signal before this one.
        let interrupted = !observer.goes_on() || points.iter().any(|point| point.partial);
        let processes = match &self.processes {
            Some(processes) => processes.gather(&peak_memory())?,
            None => vec![peak_memory()],
        };
        Ok(TrafficOutcome {
            machine,
            setup,
            pattern,
            threads: self.threads,
            processes,
            wall: start.elapsed(),
            assembly,
            simulation,
            interrupted,
            points,
        })
    }

    /// All processes must simulate the same.
    fn compare(&self, machine: &Machine, pattern: &str) -> Result<(), StudyError> {
        let Some(processes) = &self.processes else { return Ok(()) };
        let TrafficSpec { loads, warmup, time, period, seed, .. } = self;
        let mine = format!("{} {pattern} {loads:?} {warmup:?} {time:?} {period:?} {seed} {}", env!("CARGO_PKG_VERSION"), machine.to_toml());
        crate::all_the_same(processes, &mine)
    }

    /// What the sources send, and how reports call it.
    fn work(&self, nodes: u32) -> Result<(Work, String), StudyError> {
        let mut classes = match &self.messages {
            Messages::Flows(path) => {
                let file = path.display().to_string();
                return Ok((Work::Flows(flows::parse(&file, &read(path)?, nodes)?), format!("flows {file}")));
            }
            Messages::Classes(classes) => classes.clone(),
        };
        let several = classes.len() > 1;
        for (index, class) in classes.iter_mut().enumerate() {
            if class.name.is_empty() {
                class.name = if several { format!("{}-{index}", class.pattern) } else { class.pattern.to_string() };
            }
        }
        let pattern = classes.iter().map(|class| class.pattern.to_string()).collect::<Vec<_>>().join(" + ");
        Ok((Work::Classes(classes), pattern))
    }
}

impl TrafficOutcome {
    /// All numbers, as `summary.json` has them.
    pub fn summary(&self) -> Value {
        output::summary(self)
    }

    /// The lines after a sweep.
    pub fn text(&self) -> String {
        output::text(self)
    }

    /// A row per point and class.
    pub fn points_table(&self) -> Table {
        output::points_table(&self.points)
    }

    /// The tables by name.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        output::tables(self)
    }

    /// The pictures by name, as SVG.
    pub fn pictures(&self) -> Vec<(&'static str, String)> {
        output::pictures(self)
    }

    /// Writes everything into a folder.
    ///
    /// # Errors
    /// The folder takes no more.
    pub fn save(&self, out: &Path) -> Result<(), TableError> {
        output::save(out, self)
    }

    /// Why the sweep is not what was asked for.
    pub fn failure(&self) -> Option<String> {
        output::failure(self)
    }

    /// The code that a command ends with.
    pub fn exit_code(&self) -> u8 {
        output::exit_code(self)
    }
}

/// Runs the points, `at_once` side by side; those that were begun, in their order.
fn sweep(
    setup: &Setup,
    first: Simulation<'_>,
    loads: &[Option<f64>],
    at_once: usize,
    observer: &dyn Observer,
) -> Result<Vec<Point>, StudyError> {
    // Two fifths of the measurement is what a warm-up takes at least; a given one is known.
    let nominal = setup.warmup.unwrap_or(setup.measured() * 2 / 5) + setup.measured();
    let meter = Arc::new(Meter::new(nominal.as_ps().saturating_mul(loads.len() as u64)));
    let counted = Arc::new(AtomicU64::new(0));
    let (start, seen) = (Instant::now(), Arc::clone(&counted));
    let rate = move || format!("{:.2} M events/s", seen.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64().max(1e-9) / 1e6);
    let what = if loads.len() == 1 { String::from("simulating") } else { format!("simulating {} loads", loads.len()) };
    let progress = observer.part(what, &meter, Box::new(rate));
    let next = AtomicUsize::new(0);
    let first = Mutex::new(Some(first));
    let done: Mutex<Vec<Option<Result<Point, TrafficError>>>> = Mutex::new(loads.iter().map(|_| None).collect());
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&load) = loads.get(index) else { return };
            if !observer.goes_on() {
                return;
            }
            let assembled = match index {
                0 => first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok),
                _ => None,
            };
            let mut told = SimTime::ZERO;
            let point = assembled.unwrap_or_else(|| Simulation::new(setup, load)).and_then(|simulation| {
                simulation.run(&mut |now, events| {
                    // What goes beyond the nominal length does not count, or the bar would run ahead.
                    let (before, after) = (told.min(nominal), now.min(nominal));
                    told = now;
                    meter.add((after - before).as_ps());
                    counted.fetch_add(events, Ordering::Relaxed);
                    observer.goes_on()
                })
            });
            meter.add(nominal.saturating_sub(told).as_ps());
            done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(point);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..at_once {
            scope.spawn(worker);
        }
        worker();
    });
    drop(progress);
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(done.into_iter().flatten().collect::<Result<_, _>>()?)
}
