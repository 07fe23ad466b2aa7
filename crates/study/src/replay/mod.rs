//! Traces on a simulated machine, or under LogGP.

mod extrapolated;
mod over_time;

pub use extrapolated::{Recordings, left_out, not_used};

use crate::background;
use crate::energy::{Energy, OverTime, Share, Stay, Used};
use crate::handlers;
use crate::hardware::Networks;
use crate::processors;
use crate::report::{self, Data, Report};
use crate::timeline::TimelineOutcome;
use crate::{MachineSpec, Observer, Scale, StudyError, TimelineSpec, Ways};
use narrows_collectives::Algorithm;
use narrows_collectives::rules::Rules;
use narrows_engine::Digest;
use narrows_fabric::parallel::Processes;
use narrows_machine::Machine;
use narrows_output::{Meter, OutputError, exit, write};
use narrows_replay::collectives::{ByRules, Layout};
use narrows_replay::loggp::{self, Parameters};
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::mapping::{self, Mapping};
use narrows_replay::port::Costs;
use narrows_replay::report::{Application, Progress};
use narrows_replay::{Graph, ReplayError, Times};
use narrows_results::{Column, Origin, Table, TableError, peak_memory};
use narrows_topology::Topology;
use narrows_trace::generate::{self, Generated};
use narrows_trace::{Program, ReadOptions};
use narrows_traffic::Class;
use narrows_units::{NodeId, ProcessorId, SimTime, show};
use serde_json::{Value, json};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the operations of ranks come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A file, in any of the formats.
    File(PathBuf),
    /// Made up on the way: nothing is kept.
    Pattern(generate::Pattern, generate::Parameters),
    /// Extrapolated on the way from recordings at other numbers of ranks.
    Extrapolated(Recordings),
}

/// What carries the messages.
#[derive(Clone, Debug)]
pub enum Target {
    /// Message layer, NICs and a network.
    Machine {
        /// The machine.
        machine: MachineSpec,
        /// Ranks per node; `None`: 1, or as many as are needed.
        ppn: Option<u32>,
        /// Which nodes each trace runs on: `linear`, `switch`, `node`, `random:SEED` or a file.
        mapping: String,
        /// What happens over time is looked at in periods of this length.
        period: Option<SimTime>,
        /// Synthetic traffic beside them, from the start to the end.
        background: Vec<Class>,
    },
    /// LogGOPSim's model.
    LogGp(Parameters),
}

/// Traces that run at the same time.
#[derive(Clone, Debug)]
pub struct ReplaySpec {
    /// A program each.
    pub sources: Vec<Source>,
    /// What carries their messages.
    pub target: Target,
    /// Computing time and delays, times these.
    pub scales: Vec<Scale>,
    /// Of every random choice.
    pub seed: u64,
    /// Whose algorithms collectives use: `openmpi`, `mpich` or a file of rules; `None`: the machine's, or `openmpi`.
    pub collectives: Option<String>,
    /// Of the simulator, on a machine's packet network at most one for each of its groups; the results do not depend on
    /// them.
    pub threads: usize,
    /// What happens when; such a replay runs on one thread.
    pub timeline: Option<TimelineSpec>,
    /// Those that share the replay, this one among them, where there are several: on packet networks, at most as many
    /// as threads are of use. All ask for the same, and only the first one gets the outcome.
    pub processes: Option<Processes>,
}

/// What came out of a replay.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// Times, messages, applications.
    pub replay: narrows_replay::Outcome,
    /// Resolved; `None` under LogGP.
    pub machine: Option<Machine>,
    /// Wall time of everything.
    pub wall: Duration,
    /// Wall time until the replay began.
    pub reading: Duration,
    /// Wall time of the replay.
    pub running: Duration,
    /// Where the machine says what its parts take.
    pub energy: Option<Energy>,
    /// By process that shared the replay: the most memory that it had, in bytes, where the host tells.
    pub processes: Vec<Option<u64>>,
    sources: Vec<Source>,
    scales: Vec<Scale>,
    /// More for the summary.
    about: Value,
    /// Of the machine, where something was seen over time.
    topology: Option<Arc<Topology>>,
    timeline: Option<TimelineOutcome>,
    /// How messages moved; `None` under LogGP.
    ways: Option<Ways>,
    /// By application: how many ranks were on the processors of each name; nothing under LogGP.
    processors: Vec<BTreeMap<String, u32>>,
}

impl Source {
    /// How reports call it: the file without its ending, or the pattern.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) if narrows_output::is_standard(path) => String::from("standard input"),
            Source::File(path) => path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned()),
            Source::Pattern(pattern, _) => pattern.name().to_owned(),
            Source::Extrapolated(recordings) => recordings.name(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        match self {
            Source::File(path) => path.clone(),
            Source::Pattern(pattern, _) => PathBuf::from(pattern.name()),
            Source::Extrapolated(recordings) => recordings.path(),
        }
    }

    fn open(&self, observer: &dyn Observer) -> Result<Box<dyn Program + Send>, StudyError> {
        match self {
            Source::Pattern(pattern, parameters) => Ok(Box::new(Generated::new(*pattern, *parameters)?)),
            Source::Extrapolated(recordings) => {
                let found = recordings.extrapolate(observer)?;
                left_out(&found).iter().for_each(|text| observer.warning(text));
                not_used(&found).iter().for_each(|text| observer.warning(text));
                Ok(Box::new(found.model.program()))
            }
            Source::File(path) => {
                let meter = Arc::new(Meter::default());
                let name = if narrows_output::is_standard(path) { String::from("standard input") } else { path.display().to_string() };
                let _part = observer.part(format!("reading {name}"), &meter, Box::new(String::new));
                Ok(Box::new(narrows_trace::read_metered(path, ReadOptions::default(), &mut narrows_trace::lines::strict, &meter)?.program))
            }
        }
    }
}

impl ReplaySpec {
    /// Runs the replay. One that stands still is an outcome.
    ///
    /// # Errors
    /// Something that it names is not there or does not fit.
    pub fn run(&self, observer: &dyn Observer) -> Result<ReplayOutcome, StudyError> {
        if let Some(why) = self.not_shared() {
            return Err(StudyError::Contradiction(format!("{why}: start it without mpirun")));
        }
        match &self.target {
            Target::LogGp(_) if self.timeline.is_some() => {
                Err(StudyError::Contradiction(String::from("--timeline is of a machine, and --loggp takes the place of one")))
            }
            Target::LogGp(parameters) => self.under_loggp(*parameters, observer),
            Target::Machine { period: Some(SimTime::ZERO), .. } => {
                Err(StudyError::Contradiction(String::from("--period 0: a period takes time")))
            }
            Target::Machine { machine, ppn, mapping, period, background } => {
                self.on_machine(machine, *ppn, mapping, *period, background, observer)
            }
        }
    }

    /// Why several processes cannot share the replay.
    fn not_shared(&self) -> Option<&'static str> {
        self.processes.as_ref()?;
        match &self.target {
            Target::LogGp(_) => Some("a replay with --loggp has no machine that several processes could share"),
            Target::Machine { period: Some(_), .. } => Some("--period looks at a machine in one process"),
            Target::Machine { .. } if self.timeline.is_some() => Some("--timeline looks at a machine in one process"),
            Target::Machine { .. } => {
                let standard = |source: &Source| matches!(source, Source::File(path) if narrows_output::is_standard(path));
                self.sources.iter().any(standard).then_some("standard input is that of the first process alone")
            }
        }
    }

    /// The table of collectives of a program that was recorded under `mpi`: the user's choice, else that of the machine
    /// file, else that of the library.
    fn table(&self, mpi: Option<&str>, of_machine: &str) -> String {
        let recorded = mpi.filter(|_| of_machine == DEFAULT_TABLE).and_then(narrows_machine::table_of_library);
        self.collectives.as_deref().or(recorded).unwrap_or(of_machine).to_owned()
    }

    /// All processes must replay the same on the same machine. Of traces their length is looked at.
    fn compare(&self, machine: &Machine, rules: &[Rules], placed: &[Vec<ProcessorId>]) -> Result<(), StudyError> {
        let Some(processes) = &self.processes else { return Ok(()) };
        let length = |source: &Source| match source {
            Source::File(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
            Source::Pattern(..) | Source::Extrapolated(_) => 0,
        };
        let sources: Vec<(&Source, u64)> = self.sources.iter().map(|source| (source, length(source))).collect();
        let mut places = Digest::default();
        placed.iter().flatten().for_each(|id| places.word(u64::from(id.node.0) << 8 | u64::from(id.number)));
        let (version, target, scales, seed, machine) =
            (env!("CARGO_PKG_VERSION"), &self.target, &self.scales, self.seed, machine.to_toml());
        let mine = format!("{version} {sources:?} {target:?} {} {scales:?} {seed} {rules:?} {machine}", places.value());
        crate::all_the_same(processes, &mine)
    }

    fn under_loggp(&self, parameters: Parameters, observer: &dyn Observer) -> Result<ReplayOutcome, StudyError> {
        let start = Instant::now();
        let mut tables = Vec::new();
        if let Some(scale) = self.scales.iter().find(|scale| !scale.is_everywhere()) {
            return Err(StudyError::Contradiction(format!("--compute-scale {scale}: --loggp has no nodes")));
        }
        let mut graph = Graph::new();
        for source in &self.sources {
            let mut program = source.open(observer)?;
            let table = self.table(program.mpi(), DEFAULT_TABLE);
            let mut collectives = ByRules::new(narrows_machine::collectives_table(&table)?, None);
            tables.push(table);
            let added = graph.add(&source.name(), &mut program, Scale::on(&self.scales, NodeId(0)), &mut collectives);
            added.map_err(|error| StudyError::Graph { path: source.path(), error: Box::new(error) })?;
        }
        let reading = start.elapsed();
        let (shown, mut count) = counting(observer);
        let replay = loggp::run(&mut graph, parameters, &mut count);
        drop(shown);
        let about = json!({
            "network": "loggp",
            "collectives": each_once(tables),
            "loggp": {
                "L_s": parameters.latency.as_s_f64(), "o_s": parameters.overhead.as_s_f64(), "g_s": parameters.gap.as_s_f64(),
                "G_s_per_byte": parameters.gap_per_byte.as_s_f64(), "O_s_per_byte": parameters.overhead_per_byte.as_s_f64(),
                "S_bytes": parameters.eager.get(),
            },
        });
        Ok(self.outcome(replay, None, None, start, reading, about))
    }

    /// Through message layer, NICs and network.
    fn on_machine(
        &self,
        machine: &MachineSpec,
        ppn: Option<u32>,
        mapping_text: &str,
        period: Option<SimTime>,
        background: &[Class],
        observer: &dyn Observer,
    ) -> Result<ReplayOutcome, StudyError> {
        let start = Instant::now();
        let machine = machine.load(observer)?;
        Scale::check(&self.scales, machine.node.count)?;
        let programs = self.sources.iter().map(|source| Ok((source.name(), source.open(observer)?)));
        let programs: Vec<(String, Box<dyn Program + Send>)> = programs.collect::<Result<_, StudyError>>()?;
        let tables: Vec<String> = programs.iter().map(|(_, program)| self.table(program.mpi(), &machine.collectives.table)).collect();
        let rules = tables.iter().map(|table| machine.collective_rules(Some(table))).collect::<Result<Vec<Rules>, _>>()?;
        if self.processes.is_some() && rules.iter().any(|rules| rules.use_algorithm(Algorithm::Hardware)) {
            let why = "broadcasts that switches copy need the network in one process: start it without mpirun";
            return Err(StudyError::Contradiction(String::from(why)));
        }
        let mapping: Mapping = mapping_text.parse().map_err(|error| StudyError::from(ReplayError::Placement(error)).of("--mapping"))?;
        let networks = Networks::of(&machine, self.seed)?.with_faults_later(narrows_replay::machine::EPOCH);
        let (topology, plane) = networks.first();
        if period.is_some() && networks.count() > 1 {
            let message = format!("--period looks at machines of one network; this one has {}", networks.count());
            return Err(StudyError::Contradiction(message));
        }
        let ranks: Vec<u32> = programs.iter().map(|(_, program)| program.ranks()).collect();
        let placed = mapping::processors(&mapping, &machine, (topology, &plane.nodes), ppn, &ranks)?;
        let addresses = machine.addresses();
        let at = |placed: &Vec<ProcessorId>| placed.iter().map(|&id| ProcessorId { node: addresses.of(id), ..id }).collect();
        let at: Vec<Vec<ProcessorId>> = placed.iter().map(at).collect();
        let processes = mapping::processes(&at);
        machine.check_domains(processes.iter().map(Vec::len).sum())?;
        self.compare(&machine, &rules, &placed)?;
        let nodes: Vec<NodeId> = placed.iter().flatten().map(|id| id.node).collect();
        let rails = machine.rails_between(&nodes)?;
        let nic = networks.machine_on(rails.first()).nic.portals();
        let each = programs.into_iter().zip(&rules).zip(placed.iter().zip(&at)).zip(&processes);
        let parts = each.map(|((((name, program), rules), (placed, at)), processes)| {
            let layout = Layout { accelerator: machine.accelerator_board(), ..mapping::layout((topology, &plane.nodes), at) };
            let collectives = Box::new(ByRules::new(rules.clone(), Some(layout)));
            if let Some(why) = collectives.not_offloaded(program.communicators()) {
                observer.warning(&format!("{name}: allreduces take messages, not exanet-accelerator: {why}"));
            }
            let scale = |&id: &ProcessorId| Scale::on(&self.scales, id.node) / machine.processor(id).1.speed.factor();
            let scale = placed.iter().map(scale).collect();
            let costs = placed.iter().map(|&id| Costs::of(&machine.processor(id).1.software, nic)).collect();
            PlacedTrace { name, program, collectives, scale, processes: processes.clone(), costs }
        });
        let parts: Vec<PlacedTrace> = parts.collect();
        let seen = period.map(|period| (period, Arc::new(topology.clone())));
        let message = machine.message_config(rails);
        let hardware = networks.hardware_for(&machine, &placed.concat());
        let ways = Some(Ways::of(&machine, &message));
        let timeline = self.timeline.as_ref().map(TimelineSpec::open).transpose()?;
        let replay = match (period, &timeline) {
            (Some(period), None) => Replay::watched(hardware, parts, message, period)?,
            (Some(period), Some(open)) => Replay::watched(hardware, parts, message, period)?.told_to(&open.timeline),
            (None, Some(open)) => Replay::recorded(hardware, parts, message, &open.timeline)?,
            (None, None) => match &self.processes {
                Some(processes) => Replay::spread(hardware, parts, message, processes)?,
                None => Replay::new(hardware, parts, message)?,
            },
        };
        let replay = match background::sources(background, &networks, self.seed)? {
            Some(background) => replay.beside(background),
            None => replay,
        };
        let replay = replay.on_threads(self.threads);
        let reading = start.elapsed();
        let (shown, mut count) = counting(observer);
        let replay = replay.run(&mut count)?;
        drop(shown);
        let by_application = placed.iter().map(|placed| processors::counts(&machine, placed)).collect();
        let placed = placed.concat();
        let times = replay.rank_finish.iter().zip(replay.rank_computing.iter().zip(&replay.rank_beside));
        let shares = placed.iter().zip(times).map(|(&processor, (finish, (&computing, &beside)))| {
            let in_mpi = finish.saturating_sub(computing);
            Share { processor, computing, in_mpi, beside }
        });
        let used = Used::by(&placed, &networks);
        let energy = Energy::of(&machine, &used, replay.finish, &shares.collect::<Vec<_>>(), replay.bytes());
        let timeline = timeline.map(|open| {
            let stays = placed.iter().zip(&replay.rank_finish).map(|(&processor, &end)| Stay { processor, end });
            let stays: Vec<Stay> = stays.collect();
            open.finish(&machine, &placed, |recorded, window| {
                OverTime::of(&machine, &used, &stays, (recorded, window, replay.finish), false)
            })
        });
        let processes = match &self.processes {
            Some(processes) => processes.gather(&peak_memory())?,
            None => vec![peak_memory()],
        };
        let about = json!({
            "network": plane.machine.network.kind.name(),
            "nodes": machine.node.count,
            "collectives": each_once(tables),
            "mapping": mapping_text,
            "seed": self.seed,
            "threads": self.threads,
            "machine": machine.to_json(),
        });
        let outcome = self.outcome(replay, Some(machine), seen.map(|(_, topology)| topology), start, reading, about);
        Ok(ReplayOutcome { timeline, ways, energy, processes, processors: by_application, ..outcome })
    }

    fn outcome(
        &self,
        replay: narrows_replay::Outcome,
        machine: Option<Machine>,
        topology: Option<Arc<Topology>>,
        start: Instant,
        reading: Duration,
        about: Value,
    ) -> ReplayOutcome {
        let wall = start.elapsed();
        let (sources, scales) = (self.sources.clone(), self.scales.clone());
        let running = wall - reading;
        ReplayOutcome {
            replay,
            machine,
            wall,
            reading,
            running,
            energy: None,
            processes: vec![peak_memory()],
            sources,
            scales,
            about,
            topology,
            timeline: None,
            ways: None,
            processors: Vec::new(),
        }
    }
}

/// The table that a machine has whose file says nothing: `collectives.table`.
const DEFAULT_TABLE: &str = "openmpi";

/// The tables of several programs, as one text.
fn each_once(mut tables: Vec<String>) -> String {
    tables.sort();
    tables.dedup();
    tables.join(", ")
}

/// Counts for who shows the progress; says no when the observer does.
fn counting(observer: &dyn Observer) -> (Box<dyn Any>, impl FnMut(Progress) -> bool) {
    let (meter, now) = (Arc::new(Meter::default()), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&now);
    let detail = move || format!("simulated {}", SimTime(seen.load(Ordering::Relaxed)));
    let shown = observer.part(String::from("replaying"), &meter, Box::new(detail));
    let count = move |progress: Progress| {
        meter.set(progress.done, progress.known);
        now.store(progress.now.as_ps(), Ordering::Relaxed);
        observer.goes_on()
    };
    (shown, count)
}

/// When an application ended, if it did.
fn end(application: &Application) -> String {
    match application.unfinished {
        0 => format!("finished at {}", application.finish),
        unfinished => format!("stopped at {}, {unfinished} ranks not finished", application.finish),
    }
}

impl ReplayOutcome {
    /// The lines on standard output.
    pub fn text(&self) -> String {
        let outcome = &self.replay;
        let mut text = String::new();
        for (index, application) in outcome.applications.iter().enumerate() {
            let Application { name, ranks, messages, bytes, fct, .. } = application;
            let on = self.processors.get(index).and_then(processors::line).map_or(String::new(), |line| format!(" ({line})"));
            let (end, bytes, fct) = (end(application), show::size(*bytes), fct.mean());
            text += &format!("{name}: {ranks} ranks{on}, {end}, {messages} messages, {bytes}, mean completion time {fct}\n");
        }
        let rate = outcome.messages() as f64 / self.running.as_secs_f64().max(1e-9);
        text += &format!(
            "simulated time {}, digest {:016x}; read in {:.2} s, replayed in {:.2} s ({} messages/s)\n",
            outcome.finish,
            outcome.digest,
            self.reading.as_secs_f64(),
            self.running.as_secs_f64(),
            show::count(rate)
        );
        if let (Some(report), Some(machine)) = (&outcome.handlers, &self.machine) {
            handlers::lines(report, &machine.nic.spin.rules).iter().for_each(|line| text += &format!("{line}\n"));
        }
        text.extend(self.energy.iter().map(|energy| energy.line() + "\n"));
        for line in self.timeline.iter().flat_map(TimelineOutcome::lines) {
            text += &format!("{line}\n");
        }
        text
    }

    /// A row per application.
    pub fn applications_table(&self) -> Table {
        let outcome = &self.replay;
        let integer = |value: &dyn Fn(&Application) -> u64| Column::Integer(outcome.applications.iter().map(|a| value(a) as i64).collect());
        let number = |value: &dyn Fn(&Application) -> f64| Column::Number(outcome.applications.iter().map(|a| Some(value(a))).collect());
        Table::new(vec![
            ("application", Column::Text(outcome.applications.iter().map(|application| application.name.clone()).collect())),
            ("ranks", integer(&|application| u64::from(application.ranks))),
            ("unfinished_ranks", integer(&|application| u64::from(application.unfinished))),
            ("finish_s", number(&|application| application.finish.as_s_f64())),
            ("messages", integer(&|application| application.messages)),
            ("bytes", integer(&|application| application.bytes)),
            ("fct_mean_ns", number(&|application| application.fct.mean().as_ns_f64())),
            ("fct_p50_ns", number(&|application| application.fct.quantile(0.5).as_ns_f64())),
            ("fct_p99_ns", number(&|application| application.fct.quantile(0.99).as_ns_f64())),
            ("fct_max_ns", number(&|application| application.fct.max().as_ns_f64())),
        ])
    }

    /// All numbers, as `summary.json` has them.
    pub fn summary(&self) -> Value {
        let outcome = &self.replay;
        let ns = |time: SimTime| time.as_ns_f64();
        let fct = |times: &Times| json!({ "mean": ns(times.mean()), "p50": ns(times.quantile(0.5)), "p99": ns(times.quantile(0.99)), "max": ns(times.max()) });
        let applications = outcome.applications.iter().enumerate().map(|(index, application)| {
            json!({
                "name": application.name,
                "ranks": application.ranks,
                "processors": self.processors.get(index),
                "finish_s": application.finish.as_s_f64(),
                "unfinished_ranks": application.unfinished,
                "messages": application.messages,
                "bytes": application.bytes,
                "fct_ns": fct(&application.fct),
                "digest": format!("{:016x}", application.digest),
            })
        });
        let applications: Vec<Value> = applications.collect();
        let running = self.running.as_secs_f64();
        let mut summary = json!({
            "narrows": env!("CARGO_PKG_VERSION"),
            "schema": narrows_results::SCHEMA,
            "traces": self.sources.iter().map(|source| source.path().display().to_string()).collect::<Vec<_>>(),
            "simulated_s": outcome.finish.as_s_f64(),
            "wall_s": self.wall.as_secs_f64(),
            "reading_s": self.reading.as_secs_f64(),
            "replay_s": running,
            "ranks": outcome.rank_finish.len(),
            "messages": outcome.messages(),
            "messages_per_s": outcome.messages() as f64 / running.max(1e-9),
            "bytes": outcome.bytes(),
            "events": outcome.events,
            "windows": outcome.windows,
            "processes": self.processes.len(),
            "peak_rss_bytes": peak_memory(),
            // Of each process that shared the replay.
            "peak_rss_bytes_of_processes": self.processes,
            "digest": format!("{:016x}", outcome.digest),
            "failure": outcome.failure,
            "compute_scale": self.scales.iter().map(|scale| scale.factor).collect::<Vec<_>>(),
            "exit_code": self.exit_code(),
            "applications": applications,
            "rank_finish_s": outcome.rank_finish.iter().map(|time| time.as_s_f64()).collect::<Vec<_>>(),
        });
        if let (Some(summary), Some(totals)) = (summary.as_object_mut(), outcome.totals) {
            summary.insert("nic_messages".into(), json!(totals.messages));
            summary.insert("packets".into(), json!(totals.packets));
            summary.insert("packet_hops".into(), json!(totals.packet_hops));
            summary.insert("retries".into(), json!(totals.retries));
            summary.insert("lost_packets".into(), json!(totals.lost_packets));
            summary.insert("crc_errors".into(), json!(totals.crc_errors));
            summary.insert("missed_errors".into(), json!(totals.missed_errors));
            summary.insert("retransmissions".into(), json!(totals.retransmissions));
            summary.insert("refused_accesses".into(), json!(totals.refused_accesses));
        }
        if let (Some(summary), Some(report), Some(machine)) = (summary.as_object_mut(), &outcome.handlers, &self.machine) {
            summary.insert("handlers".into(), handlers::summary(report, &machine.nic.spin.rules));
        }
        if let Some(summary) = summary.as_object_mut()
            && !outcome.background.is_empty()
        {
            summary.insert("background".into(), background::summary(&outcome.background));
        }
        if let (Some(summary), Some(ways)) = (summary.as_object_mut(), &self.ways) {
            summary.insert("messages_by".into(), ways.summary(&outcome.sent, &outcome.rails, &outcome.passed));
        }
        if let (Some(summary), Some(energy)) = (summary.as_object_mut(), &self.energy) {
            summary.insert("energy".into(), energy.summary());
        }
        if let (Some(summary), Some(timeline)) = (summary.as_object_mut(), &self.timeline) {
            summary.insert("timeline".into(), timeline.summary());
        }
        if let (Some(summary), Value::Object(about)) = (summary.as_object_mut(), &self.about) {
            summary.extend(about.clone());
        }
        summary
    }

    /// Of the machine, where something was seen over time.
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_deref()
    }

    /// The code that a command ends with.
    pub fn exit_code(&self) -> u8 {
        if self.replay.failure.is_some() { exit::NO } else { exit::DONE }
    }

    /// Why the file of its timeline is not written, if it is not.
    pub fn unwritten(&self) -> Option<&OutputError> {
        self.timeline.as_ref().and_then(TimelineOutcome::unwritten)
    }

    /// The tables by name.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut tables = vec![("applications", self.applications_table())];
        if !self.replay.rank_computing.is_empty() {
            tables.push(("ranks", self.ranks_table()));
        }
        tables.extend(over_time::tables(&self.replay, self.topology.as_deref()));
        tables.extend(self.timeline.iter().flat_map(TimelineOutcome::tables));
        tables
    }

    /// The pictures by name (SVG).
    pub fn pictures(&self) -> Vec<(String, String)> {
        let mut pictures = over_time::pictures(&self.replay, self.topology.as_deref());
        let data = Data::from(vec![("ranks", self.ranks_table())]);
        let ranks = data.table("ranks").map(|ranks| {
            let parts = [("computing", "computing_s"), ("in MPI", "in_mpi_s")];
            (String::from("ranks"), report::ranks_picture(ranks, &parts))
        });
        pictures.extend(ranks);
        pictures.extend(self.timeline.iter().flat_map(TimelineOutcome::pictures));
        pictures
    }

    /// Where the time of each rank went.
    fn ranks_table(&self) -> Table {
        let outcome = &self.replay;
        let seconds = |of: &dyn Fn(usize) -> SimTime| {
            Column::Number((0..outcome.rank_computing.len()).map(|rank| Some(of(rank).as_s_f64())).collect())
        };
        let columns = vec![
            ("rank", Column::Integer((0..outcome.rank_computing.len() as i64).collect())),
            ("computing_s", seconds(&|rank| outcome.rank_computing[rank])),
            ("in_mpi_s", seconds(&|rank| outcome.rank_finish[rank].saturating_sub(outcome.rank_computing[rank]))),
            ("finished_s", seconds(&|rank| outcome.rank_finish[rank])),
        ];
        Table::new(columns.into_iter().chain(self.energy.iter().map(Energy::column)).collect())
    }

    /// The page with everything in it.
    pub fn page(&self, origin: &Origin) -> String {
        let (summary, data, pictures, text) = (self.summary(), Data::from(self.tables()), self.pictures(), self.text());
        Report { kind: "replay", title: None, summary: &summary, data: &data, pictures: &pictures, text: &text, origin }.html()
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        Origin::here(self.machine.as_ref().map(|machine| machine.name.as_str()), self.about["seed"].as_u64())
    }

    /// Writes everything into a folder.
    ///
    /// # Errors
    /// The folder takes no more.
    pub fn save(&self, out: &Path) -> Result<(), TableError> {
        if let Some(machine) = &self.machine {
            write(&out.join("machine.toml"), machine.to_used_toml())?;
        }
        for (name, table) in self.tables() {
            table.write(&out.join(name).with_extension("parquet"))?;
        }
        let origin = self.origin();
        for (name, picture) in self.pictures() {
            write(&out.join(name).with_extension("svg"), origin.sign(&picture))?;
        }
        write(&out.join("report.html"), self.page(&origin))?;
        Ok(write(&out.join("summary.json"), format!("{:#}\n", self.summary()))?)
    }
}
