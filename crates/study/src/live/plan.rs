//! What a run is going to be: everything that can be said, and refused, before a process is started.

use super::{
    Alone, CYCLES, Check, Compute, Computing, LAUNCHER, Recorder, RunSpec, TimingSpec, launcher, libraries, libraries_of, preload_list,
    pscom,
};
use crate::background;
use crate::hardware::Networks;
use crate::{ComputeScale, Observer, Scale, StudyError, Ways};
use narrows_channel::counter::{self, Event, Refusal};
use narrows_channel::{Processor, Settings, stretches};
use narrows_collectives::{Algorithm, Operation};
use narrows_cycles::Core;
use narrows_launch as launch;
use narrows_live::{Launcher, Options};
use narrows_machine::{Machine, MessageProtocol, Placement, ProcessorId};
use narrows_message::{MessageConfig, Rendezvous};
use narrows_output::Meter;
use narrows_portals::ProcessId;
use narrows_timeline::Timeline;
use narrows_traffic::Background;
use narrows_units::{Bytes, SimTime};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What is started: looked up on this host.
pub(super) struct Program {
    /// As their launcher is given them.
    pub apps: Vec<launch::App>,
    pub mpi: launch::Mpi,
    /// The folder of the libraries that enter the ranks.
    pub libraries: PathBuf,
    /// The folder of those that enter a launcher, which is always of this computer.
    pub own_libraries: PathBuf,
}

impl Program {
    /// The library that records, of the ranks' processor.
    pub fn recorder(&self, recorder: &Recorder) -> PathBuf {
        match (&self.mpi.foreign, recorder.library.file_name()) {
            (Some(_), Some(name)) => self.libraries.join(name),
            _ => recorder.library.clone(),
        }
    }
}

/// A run before it begins.
pub(super) struct Plan<'a> {
    pub spec: &'a RunSpec,
    pub machine: &'a Machine,
    pub program: Program,
    /// The processor of each rank.
    pub placement: Vec<ProcessorId>,
    pub processes: Vec<ProcessId>,
    /// The host name that each rank sees.
    pub hosts: Vec<String>,
    pub networks: Networks<'a>,
    pub message: MessageConfig,
    pub ways: Ways,
    pub background: Option<Background>,
    /// Computing times of another run.
    pub computing: Option<Computing>,
    pub scales: Vec<Scale>,
    pub alone: Option<Alone>,
    counter: Option<Event>,
    /// Nodes of a board whose NICs do MPI_Allreduce, and the longest that they do.
    offload: Option<(u32, Bytes)>,
}

/// Computing times that are known beforehand, and how all are scaled.
struct Times {
    computing: Option<Computing>,
    scales: Vec<Scale>,
    alone: Option<Alone>,
}

/// Where the ranks find what is theirs, by path.
pub(super) struct Files<'a> {
    /// The preload library, fitted to the MPI library.
    pub preload: &'a Path,
    /// The recorder.
    pub recorder: Option<&'a Path>,
    /// The shared file of ranks and simulator.
    pub channel: String,
    /// Tables of computing times.
    pub computing: Option<String>,
    /// The folder in which each process has a file open while it lives.
    pub alive: &'a Path,
}

impl RunSpec {
    /// The machine, as the other options and the environment change it.
    pub(super) fn load(&self, observer: &dyn Observer) -> Result<Machine, StudyError> {
        let mut machine = self.machine.load(observer)?;
        if let Some(timing) = &self.timing {
            timing.fits(self.ranks())?;
            timing.change(&mut machine);
        }
        if machine.message.protocol == MessageProtocol::Pscom {
            let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
            pscom::apply(variables, &mut machine)?;
        }
        Ok(machine)
    }

    /// The processor of each rank.
    pub(super) fn placed(&self, machine: &Machine) -> Result<Vec<ProcessorId>, StudyError> {
        let placement: Placement = self.placement.parse().map_err(|error| StudyError::from(error).of("--placement"))?;
        let programs: Vec<(&str, u32)> = self.apps.iter().map(|app| (&*app.on, app.ranks)).collect();
        Ok(narrows_machine::placement_of(&placement, machine, self.ppn, &programs)?)
    }

    /// What is to be started, if this host has it and the room for it.
    pub(super) fn found(&self, machine: &Machine) -> Result<Program, StudyError> {
        launch::resources::check_temporary()?;
        launch::resources::check_files(self.ranks(), launch::resources::FILES_OF_A_RANK)?;
        let (mut mpi, apps) = launcher(self.mpirun.as_deref(), self.sockets, &self.apps)?;
        launch::resources::check_files(self.ranks(), mpi.library.open_files)?;
        self.check_transport(&mpi, &apps[0])?;
        let own_libraries = libraries()?;
        if self.compute == Compute::Cycles {
            let caches = cores(machine)?.iter().any(|core| core.has_caches());
            mpi.counts_cycles(&apps, own_libraries.join(CYCLES), if caches { "" } else { ",caches=off" })?;
        }
        let libraries = libraries_of(&mpi, &own_libraries)?;
        Ok(Program { apps, mpi, libraries, own_libraries })
    }

    /// Whether the MPI has what the messages are to go through.
    fn check_transport(&self, mpi: &launch::Mpi, app: &launch::App) -> Result<(), StudyError> {
        let component = match self.transport {
            launch::Transport::Ofi(_) => return Ok(()),
            launch::Transport::MtlPortals4 => "mtl_portals4",
            launch::Transport::BtlPortals4 => "btl_portals4",
        };
        if mpi.library.components.is_none() {
            return Err(StudyError::Host(format!(
                "--transport chooses among the components of Open MPI, and this is {mpi}; leave it away"
            )));
        }
        if launch::has_component(mpi, &app.program, &app.arguments, component) == Some(false) {
            return Err(StudyError::Host(format!(
                "--transport: this {mpi} was built without Portals 4 and has no component {}; leave it away, or use an Open MPI that was \
                 configured --with-portals4",
                component.replace('_', "/")
            )));
        }
        Ok(())
    }

    /// The computing times of an earlier run, and how all are scaled on a machine of so many nodes.
    fn times(&self, nodes: u32) -> Result<Times, StudyError> {
        let computing = match &self.compute {
            Compute::File(path) => Some((Computing::load(path)?, path)),
            _ => None,
        };
        if let Some((computing, path)) = computing.as_ref().filter(|(computing, _)| computing.ranks() != self.ranks() as usize) {
            return Err(StudyError::Host(format!(
                "--compute: {} has the times of {} ranks, and {} are to run: one file for each number of ranks",
                path.display(),
                computing.ranks(),
                self.ranks()
            )));
        }
        let mut alone = None;
        let scales = self.compute_scale.iter().map(|scale| match (scale, &computing) {
            (ComputeScale::By(scale), _) if self.compute == Compute::None || scale.factor == 0.0 => Err(StudyError::contradiction(
                format!("--compute-scale {scale}: computing takes no time with --compute none, and some with all others"),
            )),
            (ComputeScale::By(scale), _) => Ok(*scale),
            (ComputeScale::Alone(path), Some((computing, from))) => {
                Ok(Scale::everywhere(alone.insert(Alone::of(computing, from, path)?).factor))
            }
            (ComputeScale::Alone(path), None) => Err(StudyError::contradiction(format!(
                "--compute-scale {}: what a run has kept scales what another one has kept, --compute FILE; give both, or a number",
                path.display()
            ))),
        });
        let scales = scales.collect::<Result<Vec<Scale>, StudyError>>()?;
        Scale::check(&scales, nodes)?;
        Ok(Times { computing: computing.map(|(computing, _)| computing), scales, alone })
    }

    /// Says why loads and stores cannot be looked at, if that is wanted.
    fn may_see_memory(&self, mpi: &launch::Mpi) -> Result<(), StudyError> {
        if !self.check.sees_memory() {
            return Ok(());
        }
        if let Some(foreign) = &mpi.foreign {
            let name = foreign.processor.name;
            return Err(StudyError::Host(format!(
                "--check=memory: programs for {name} run under qemu, whose loads and stores are not theirs; use --check"
            )));
        }
        if !matches!(self.compute, Compute::None | Compute::File(_)) {
            let text = "--check=memory: the program goes on step by step, which must not count as computing; add --compute none";
            return Err(StudyError::Host(text.to_owned()));
        }
        Ok(())
    }

    /// What is counted in the place of CPU time. Says why that cannot be.
    fn counter(&self, mpi: &launch::Mpi) -> Result<Option<Event>, StudyError> {
        if !matches!(self.compute, Compute::Instructions(_)) {
            return Ok(None);
        }
        if let Some(foreign) = &mpi.foreign {
            let name = foreign.processor.name;
            return Err(StudyError::Host(format!(
                "--compute instructions: programs for {name} run under qemu, whose instructions are not theirs; use --compute none"
            )));
        }
        let event = if std::env::var_os(COUNTER).is_some_and(|name| name == "task-clock") { Event::TaskClock } else { Event::Instructions };
        let file = counter::open(event).map_err(|why| {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            StudyError::Host(no_counter(why, paranoid.ok().and_then(|level| level.trim().parse().ok())))
        })?;
        counter::close(file);
        Ok(Some(event))
    }
}

/// The cores of a machine, of those processors that have one.
fn cores(machine: &Machine) -> Result<Vec<Core>, StudyError> {
    let known: Vec<Core> = machine.parts().flat_map(|(_, node)| machine.processors(node)).filter_map(|(_, on)| on.core.core()).collect();
    if known.is_empty() { Err(no_core(machine, "no processor")) } else { Ok(known) }
}

/// `which` processor of a machine has no core.
fn no_core(machine: &Machine, which: &str) -> StudyError {
    StudyError::Host(format!(
        "--compute cycles: {which} of machine {} has a core that is known; set one, such as --set node.core.model={} \
         (docs/how-to/other-processors.md)",
        machine.name,
        narrows_cycles::NAMES[0]
    ))
}

/// Nodes of a board, and the longest vector, if the rules give allreduces to the accelerators of its NICs. Says why the
/// library does them nevertheless.
fn offload(machine: &Machine, placement: &[ProcessorId], observer: &dyn Observer) -> Result<Option<(u32, Bytes)>, StudyError> {
    let rules = machine.collective_rules(None)?;
    let Some(longest) = rules.longest(Algorithm::ExanetAccelerator, Operation::Allreduce, placement.len() as u32) else {
        return Ok(None);
    };
    let nodes: Vec<u32> = placement.iter().map(|id| id.node.0).collect();
    let why = match machine.accelerator_board() {
        Some(board) => match narrows_portals::offload::check(&nodes, board) {
            Ok(()) => return Ok(Some((board, longest))),
            Err(limit) => limit.to_string(),
        },
        None => String::from("this machine has no allreduce accelerator"),
    };
    observer.warning(&format!("the MPI library does allreduces, not exanet-accelerator: {why}"));
    Ok(None)
}

impl<'a> Plan<'a> {
    /// What `spec` asks for. `says` is told what was chosen.
    ///
    /// # Errors
    /// Something does not fit.
    pub fn of(
        spec: &'a RunSpec,
        machine: &'a Machine,
        placement: Vec<ProcessorId>,
        program: Program,
        observer: &dyn Observer,
        says: &dyn Fn(&str),
    ) -> Result<Plan<'a>, StudyError> {
        let counter = spec.counter(&program.mpi)?;
        if spec.compute == Compute::Cycles && placement.iter().any(|&id| machine.processor(id).1.core.core().is_none()) {
            return Err(no_core(machine, "not each processor with ranks"));
        }
        spec.may_see_memory(&program.mpi)?;
        if let Some(foreign) =
            program.mpi.foreign.as_ref().filter(|_| !matches!(spec.compute, Compute::None | Compute::Cycles | Compute::File(_)))
        {
            observer.warning(&format!(
                "computing takes the CPU time of qemu on this computer, not that of an {} processor; --compute none leaves it out",
                foreign.processor.name
            ));
        }
        let Times { computing, scales, alone } = spec.times(machine.node.count)?;
        if let Some(alone) = &alone {
            says(&alone.line());
        }
        let offload = offload(machine, &placement, observer)?;
        let networks = Networks::of(machine, spec.seed)?.with_faults_later(narrows_live::EPOCH);
        let background = background::sources(&spec.background, &networks, spec.seed)?;
        machine.check_domains(placement.len())?;
        let nodes: Vec<_> = placement.iter().map(|id| id.node).collect();
        let message = machine.message_config(machine.rails_between(&nodes)?);
        let ways = Ways::of(machine, &message);
        ways.lines().iter().for_each(|line| says(line));
        let addresses = machine.addresses();
        let processes = ProcessId::numbered(placement.iter().map(|&id| addresses.of(id)));
        let hosts = placement.iter().map(|&id| machine.host_name_on(id)).collect();
        Ok(Plan {
            spec,
            machine,
            program,
            placement,
            processes,
            hosts,
            networks,
            message,
            ways,
            background,
            computing,
            scales,
            alone,
            counter,
            offload,
        })
    }

    /// What all ranks find in the shared file.
    pub fn settings(&self) -> Settings {
        let (message, system) = (&self.message, &self.machine.system);
        let nic = self.networks.machine_on(message.rails.first()).nic.portals();
        Settings {
            calls: (self.spec.timeline.is_some() || self.spec.functions).into(),
            offload_board: self.offload.map_or(0, |(board, _)| board),
            counter: self.counter.map_or(0, |event| event as u32),
            launcher_barrier_ps: system.launcher_barrier.as_ps(),
            socket_latency_ps: system.socket_latency.as_ps(),
            storage_latency_ps: self.machine.storage.latency.as_ps(),
            storage_rate: self.machine.storage.bandwidth.0,
            eager_limit: message.eager_limit,
            inject_limit: message.inject_limit,
            overflow_block: message.overflow_block,
            overflow_blocks: message.overflow_blocks,
            max_portals_message: message.max_portals_message,
            rendezvous_put: u32::from(message.rendezvous == Rendezvous::Put),
            one_sided_messages: u32::from(self.bridged()),
            simulator_counts: u32::from(!message.protocol.counts_at_calls()),
            pio_limit: nic.pio_limit.get() as u32,
            limits: nic.limits,
        }
    }

    /// What each rank finds there.
    pub fn processors(&self) -> Vec<Processor> {
        let ranks = (0u32..).zip(&self.placement);
        let timing = |rank| self.spec.timing.as_ref().map_or((0, 1000), |timing| timing.of_rank(rank));
        ranks
            .map(|(rank, &id)| {
                let busy = self.placement.iter().filter(|&&other| other == id).count() as u32;
                let scale = Scale::on(&self.scales, id.node);
                let mut processor = processor(self.machine.processor(id).1, id.number, &self.spec.compute, scale, timing(rank));
                processor.core = processor.core.share(busy);
                processor
            })
            .collect()
    }

    /// Whether some one-sided operations are messages.
    fn bridged(&self) -> bool {
        self.message.rails.bridging().is_some()
    }

    /// What every rank finds in its environment.
    pub fn environment(&self, files: &Files) -> Vec<(String, String)> {
        let (spec, libraries) = (self.spec, &self.program.libraries);
        // What a copy needs is not beside it. The recorder behind ours: inside an MPI call the rank's clock is up to
        // date.
        let ours = [files.preload.to_owned(), libraries.join("libportals.so")];
        let preloads: Vec<PathBuf> = ours.into_iter().chain(files.recorder.map(Path::to_owned)).collect();
        let cores = self.machine.parts().flat_map(|(_, node)| self.machine.processors(node)).map(|(_, on)| on.cores).max().unwrap_or(1);
        let mut variables = of_libraries(libraries, &preloads, files.channel.clone(), cores);
        let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
        if let Some(recorder) = &spec.recorder {
            set("NARROWS_RECORD", recorder.folder.display().to_string());
        }
        if let Some(tables) = &files.computing {
            set(stretches::VARIABLE, tables.clone());
        }
        if spec.sockets {
            // Whether they enter simulated time by a socket, or by MPI_Init.
            set("NARROWS_SOCKETS", if self.program.mpi.uses_mpi() { "mpi" } else { "join" }.to_owned());
        }
        if spec.compute == Compute::Cycles {
            // What the dynamic linker does at the first call of a function would count, and depends on where its tables
            // are.
            set("LD_BIND_NOW", "1".to_owned());
        }
        if spec.check != Check::Off {
            set("NARROWS_CHECK", if spec.check.sees_memory() { "memory" } else { "1" }.to_owned());
        }
        // The launcher is given the path that was found.
        let found = spec.apps.iter().zip(&self.program.apps).filter(|(written, found)| written.program != found.program);
        let names: String = found.map(|(written, found)| format!("{}\u{1f}{}\u{1f}", found.program, written.program)).collect();
        if !names.is_empty() {
            set("NARROWS_NAMES", names);
        }
        if let Some((_, Bytes(longest))) = self.offload {
            set("NARROWS_OFFLOAD", longest.to_string());
        }
        let asked = self.machine.handlers().map(|handlers| handlers.conditions()).filter(|lines| !lines.is_empty());
        if let Some(lines) = asked {
            set("NARROWS_HANDLERS", lines);
        }
        set("NARROWS_ALIVE", files.alive.display().to_string());
        if self.bridged() {
            variables.extend(without_atomics(&self.program.mpi));
        }
        // Whether the program uses Portals without MPI is seen when it calls PtlInit.
        variables.extend(portals_environment(&self.processes));
        variables.push(("LD_LIBRARY_PATH".to_owned(), library_path(libraries)));
        variables
    }

    /// The command that starts the ranks.
    pub fn command(&self, scratch: &launch::Scratch, files: &Files) -> Command {
        let (spec, Program { apps, mpi, own_libraries, .. }) = (self.spec, &self.program);
        let environment = self.environment(files);
        let mut command = launch::command(spec.transport, mpi, scratch, apps, &environment);
        if mpi.library.preloads_launcher {
            command.env("LD_PRELOAD", preload_list(&[own_libraries.join(LAUNCHER)]));
        }
        if spec.no_aslr || spec.compute == Compute::Cycles {
            launch::without_aslr(&mut command);
        }
        command
    }

    /// What the main loop must know beside the models.
    pub fn options(&self, meter: &Arc<Meter>, alive: PathBuf, timeline: Option<Timeline>) -> Options {
        let Program { mpi, .. } = &self.program;
        Options {
            timeout: self.spec.timeout,
            hosts: self.hosts.clone(),
            mpi: mpi.to_string(),
            launcher: Launcher {
                notices_deaths: mpi.library.notices_deaths,
                notices_early_deaths: mpi.library.notices_early_deaths,
                notices_early_failures: mpi.library.notices_early_failures,
            },
            alive: Some(alive),
            progress: Arc::clone(meter),
            timeline,
            functions: self.spec.functions,
            check: self.spec.check != Check::Off,
            timing: self.spec.timing.as_ref().map(TimingSpec::of_messages),
        }
    }
}

/// What makes the ranks load our libraries, and see the simulated machine in the place of this computer.
fn of_libraries(libraries: &Path, preloads: &[PathBuf], channel: String, cores: u32) -> Vec<(String, String)> {
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

/// What a rank on such a processor must know of it; its computing is scaled by `scale` beside the processor's speed, it
/// begins `late` (ps), and its software takes so many thousandths of the time that it takes on the processor.
fn processor(on: &narrows_machine::Processor, number: u8, compute: &Compute, scale: f64, (late, slow): (u64, u64)) -> Processor {
    let software = &on.software;
    let slower = |time: SimTime| (u128::from(time.as_ps()) * u128::from(slow) / 1000) as u64;
    Processor {
        post_ps: slower(software.post),
        completion_ps: slower(software.completion),
        poll_ps: slower(software.poll),
        late_ps: late,
        copy_ps_per_kib: software.copy_bandwidth.time_for(Bytes(1024)).as_ps(),
        clock_read_ps: software.clock_read.as_ps(),
        core: on.core.core().filter(|_| *compute == Compute::Cycles).unwrap_or_default(),
        compute_ppm: match compute {
            Compute::None => 0,
            Compute::Cycles => (scale * 1e6).round().max(1.0) as u64,
            _ => (scale * 1e6 / on.speed.factor()).round().max(1.0) as u64,
        },
        sampled: match compute {
            Compute::Sampled => 1,
            Compute::Pooled => 2,
            _ => 0,
        },
        cores: on.cores,
        number: number.into(),
    }
}

/// Names another event in the place of instructions, `task-clock`: with 1e9 of that per second a run takes its CPU
/// time, which tests can see on hosts without counters.
const COUNTER: &str = "NARROWS_TEST_COUNTER";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineSpec, Silent};

    /// A plan for an MPI that is not there.
    fn planned<T>(spec: &RunSpec, library: &str, version: &str, test: impl FnOnce(&Plan<'_>) -> T) -> T {
        let library = launch::LIBRARIES.iter().find(|known| known.name == library).unwrap();
        let mpi = launch::Mpi { library, version: version.to_owned(), file: None, launcher: "/x/bin/mpirun".into(), foreign: None };
        let apps = vec![launch::App { program: String::from("/w/a.out"), ..spec.apps[0].clone() }];
        let program = Program { apps, mpi, libraries: "/opt/narrows".into(), own_libraries: "/opt/narrows".into() };
        let machine = spec.load(&Silent).unwrap();
        let placement = spec.placed(&machine).unwrap();
        test(&Plan::of(spec, &machine, placement, program, &Silent, &|_| {}).unwrap())
    }

    fn files<'a>() -> Files<'a> {
        let [preload, alive] = ["/proc/1/fd/5", "/tmp/narrows-x/alive"].map(Path::new);
        Files { preload, recorder: None, channel: String::from("/proc/1/fd/4"), computing: None, alive }
    }

    fn spec() -> RunSpec {
        let arguments = ["--size", "8"].map(str::to_owned).to_vec();
        let apps = vec![launch::App { ranks: 4, program: String::from("./a.out"), arguments, on: String::new() }];
        RunSpec { ppn: Some(2), ..RunSpec::new(apps, MachineSpec::named("bxi-v2")) }
    }

    fn value<'v>(variables: &'v [(String, String)], name: &str) -> Option<&'v str> {
        variables.iter().find_map(|(known, value)| (known == name).then_some(value.as_str()))
    }

    #[test]
    fn what_is_launched() {
        let spec = spec();
        planned(&spec, "Open MPI", "5.0.11", |plan| {
            let command = plan.command(&launch::Scratch::create().unwrap(), &files());
            assert_eq!(command.get_program(), "/x/bin/mpirun");
            let arguments: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            assert!(arguments.ends_with(&["-n", "4", "/w/a.out", "--size", "8"].map(str::to_owned)), "{arguments:?}");
            let ranks = arguments.iter().find_map(|word| word.strip_prefix("LD_PRELOAD=")).unwrap();
            assert!(ranks.starts_with("/proc/1/fd/5:/opt/narrows/libportals.so"), "{ranks}");
            let launcher = command.get_envs().find_map(|(name, value)| (name == "LD_PRELOAD").then_some(value)).flatten().unwrap();
            assert!(launcher.to_string_lossy().starts_with("/opt/narrows/libnarrows-launcher.so"), "{launcher:?}");
            assert!(plan.options(&Arc::default(), PathBuf::new(), None).launcher.notices_early_failures);
        });
        planned(&spec, "MPICH", "5.0.2", |plan| {
            let command = plan.command(&launch::Scratch::create().unwrap(), &files());
            assert!(!command.get_envs().any(|(name, _)| name == "LD_PRELOAD"), "{command:?}");
            assert!(!plan.options(&Arc::default(), PathBuf::new(), None).launcher.notices_early_failures);
        });
    }

    #[test]
    fn what_ranks_find_in_their_environment() {
        planned(&spec(), "MPICH", "5.0.2", |plan| {
            let variables = plan.environment(&files());
            let value = |name| value(&variables, name);
            assert_eq!(value("NARROWS_CHANNEL"), Some("/proc/1/fd/4"));
            assert_eq!(value("NARROWS_ALIVE"), Some("/tmp/narrows-x/alive"));
            assert_eq!(value("FI_PROVIDER_PATH"), Some("/opt/narrows"));
            assert_eq!(value("NARROWS_NAMES"), Some("/w/a.out\u{1f}./a.out\u{1f}"));
            assert_eq!(value("NARROWS_RANKS"), Some("4"));
            assert_eq!(value("NARROWS_MAP").map(|map| map.split(',').count()), Some(4));
            for absent in ["NARROWS_CHECK", "NARROWS_HANDLERS", "NARROWS_OFFLOAD", "NARROWS_RECORD", stretches::VARIABLE] {
                assert_eq!(value(absent), None, "{absent}");
            }
        });
        let recorder = super::super::Recorder { library: "/opt/librecord.so".into(), folder: "/w/trace".into() };
        let spec = RunSpec { check: Check::On, recorder: Some(recorder), ..spec() };
        planned(&spec, "MPICH", "5.0.2", |plan| {
            let recorder = Some(Path::new("/proc/1/fd/6"));
            let variables = plan.environment(&Files { recorder, computing: Some(String::from("/proc/1/fd/7")), ..files() });
            let value = |name| value(&variables, name);
            assert_eq!((value("NARROWS_CHECK"), value("NARROWS_RECORD")), (Some("1"), Some("/w/trace")));
            assert_eq!(value(stretches::VARIABLE), Some("/proc/1/fd/7"));
            let preloads = value("LD_PRELOAD").unwrap();
            assert!(preloads.starts_with("/proc/1/fd/5:/opt/narrows/libportals.so:/proc/1/fd/6"), "{preloads}");
        });
        let spec = RunSpec { check: Check::Memory, compute: Compute::None, recorder: None, ..spec };
        planned(&spec, "MPICH", "5.0.2", |plan| assert_eq!(value(&plan.environment(&files()), "NARROWS_CHECK"), Some("memory")));
    }

    #[test]
    fn what_does_not_fit_is_refused_before_anything_starts() {
        let refused = |spec: &RunSpec| {
            let machine = spec.load(&Silent).unwrap();
            let mpi =
                launch::Mpi { library: launch::LIBRARIES[0], version: String::new(), file: None, launcher: PathBuf::new(), foreign: None };
            let program = Program { apps: Vec::new(), mpi, libraries: PathBuf::new(), own_libraries: PathBuf::new() };
            let placement = spec.placed(&machine).unwrap();
            Plan::of(spec, &machine, placement, program, &Silent, &|_| {}).map(|_| ()).unwrap_err().to_string()
        };
        let spec = spec();
        let memory = refused(&RunSpec { check: Check::Memory, compute: Compute::Measured, ..spec.clone() });
        assert!(memory.contains("--check=memory") && memory.contains("add --compute none"), "{memory}");
        let half = ComputeScale::By(Scale::everywhere(0.5));
        let none = refused(&RunSpec { compute: Compute::None, compute_scale: vec![half], ..spec.clone() });
        assert!(none.starts_with("--compute-scale 0.5: computing takes no time with --compute none"), "{none}");
        let none = refused(&RunSpec { compute_scale: vec![ComputeScale::By(Scale::everywhere(0.0))], ..spec.clone() });
        assert!(none.starts_with("--compute-scale 0: "), "{none}");
        let alone = refused(&RunSpec { compute_scale: vec![ComputeScale::Alone("/w/one.json".into())], ..spec.clone() });
        assert!(alone.contains("give both"), "{alone}");
    }

    #[test]
    fn allreduces_go_where_the_rules_send_them() {
        let offloaded = |name: &str, rules: &str, nodes: u32| {
            let overrides = narrows_machine::Overrides { nodes: None, set: vec![format!("collectives.rules=[{rules}]")] };
            let machine = Machine::load(name, &overrides).unwrap();
            let placement: Vec<ProcessorId> = (0..nodes).map(|node| ProcessorId { node: narrows_units::NodeId(node), number: 0 }).collect();
            offload(&machine, &placement, &Silent).unwrap()
        };
        let rule = "\"allreduce *: exanet-accelerator <4097, recursive-doubling\"";
        assert_eq!(offloaded("exanest-mezz", rule, 4), Some((4, Bytes(4096))));
        assert_eq!(offloaded("exanest-mezz", rule, 6), None, "half a board");
        assert_eq!(offloaded("exanest-mezz", "", 4), None);
        assert_eq!(offloaded("bxi-v2", rule, 4), None);
    }

    #[test]
    fn a_fast_core_takes_less_of_the_time_that_was_measured() {
        let machine = Machine::load("bxi-v2", &narrows_machine::Overrides { nodes: None, set: vec![String::from("node.speed=2.5")] });
        let ppm = |compute, scale| {
            processor(machine.as_ref().map(|machine| &machine.node.host).expect("a preset"), 0, compute, scale, (0, 1000)).compute_ppm
        };
        let ppm = (ppm(&Compute::Measured, 1.0), ppm(&Compute::Measured, 5.0), ppm(&Compute::None, 1.0));
        assert_eq!(ppm, (400_000, 2_000_000, 0));
    }

    #[test]
    fn a_host_without_counters_is_told_what_to_do() {
        let none = no_counter(Refusal::None, Some(2));
        assert!(none.contains("no hardware counters") && none.contains("--compute sampled") && !none.contains('\n'), "{none}");
        let forbidden = no_counter(Refusal::Forbidden, Some(4));
        assert!(forbidden.contains("paranoid is 4") && forbidden.contains("sysctl kernel.perf_event_paranoid=2"), "{forbidden}");
        assert!(no_counter(Refusal::Other(24), None).contains("Too many open files"));
    }
}
