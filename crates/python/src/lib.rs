//! `narrows._native`: machines, traffic and replays for the Python package in `python/narrows`. Nothing is decided
//! here: texts go to `crates/study`, tables come back as Arrow.
//!
//! * [`watch`] — a study runs without the interpreter's lock, and ends with Ctrl-C.
//! * [`report`] — pages of results.
//! * [`table`] — a table, handed over through Arrow's C stream interface.

mod report;
mod table;
mod watch;

use narrows_machine::{Machine, NetworkKind, Overrides, PRESETS};
use narrows_replay::loggp::Parameters;
use narrows_study::Scale;
use narrows_study::replay::{Source, Target};
use narrows_study::traffic::Wording;
use narrows_study::{MachineSpec, Outcome, ReplaySpec, Spec, TimelineSpec, TrafficSpec};
use narrows_timeline::{LIMIT, Window};
use narrows_units::SimTime;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::fmt::Display;
use std::path::PathBuf;
use table::NativeTable;
use watch::Watched;

pyo3::create_exception!(narrows, NarrowsError, PyException, "Why Narrows cannot do what it was asked to; the command line says the same.");

/// The text of the command line, which puts "error: " before it once.
fn error(error: impl Display) -> PyErr {
    let text = error.to_string();
    NarrowsError::new_err(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
}

/// Name or path, number of nodes, `KEY=VALUE` of each change.
type MachineWords = (String, Option<u32>, Vec<String>);

fn machine_spec((name, nodes, set): MachineWords) -> MachineSpec {
    MachineSpec { overrides: Overrides { nodes, set }, ..MachineSpec::named(name) }
}

/// A machine with every key: as TOML, as JSON, and what to check before trusting it.
#[pyfunction]
fn resolve(words: MachineWords) -> PyResult<(String, String, Vec<String>)> {
    let (name, nodes, set) = words;
    let machine = Machine::load(&name, &Overrides { nodes, set }).map_err(error)?;
    Ok((machine.to_toml(), machine.to_json().to_string(), machine.warnings().to_vec()))
}

/// Names and descriptions of the machines that come with Narrows.
#[pyfunction]
fn presets() -> PyResult<Vec<(String, String)>> {
    let described =
        PRESETS.iter().map(|preset| Ok((preset.name.to_owned(), Machine::load(preset.name, &Overrides::default())?.description)));
    described.collect::<Result<_, narrows_machine::MachineError>>().map_err(error)
}

/// The rules of a file of `--handlers`, as a change of a machine.
#[pyfunction]
fn handlers_file(path: PathBuf) -> PyResult<String> {
    narrows_machine::handlers_file(&path).map_err(error)
}

/// Paths of all keys of a machine.
#[pyfunction]
fn machine_keys() -> Vec<&'static str> {
    narrows_machine::key_paths().collect()
}

/// File, from, to, limit.
type TimelineWords = (PathBuf, Option<String>, Option<String>, Option<u64>);

fn timeline_spec((path, from, to, limit): &TimelineWords) -> PyResult<TimelineSpec> {
    let time = |option: &str, text: &Option<String>, otherwise: SimTime| {
        let time = text.as_ref().map(|text| text.parse::<SimTime>().map_err(|wrong| error(format!("--timeline-{option}: {wrong}"))));
        Ok::<SimTime, PyErr>(time.transpose()?.unwrap_or(otherwise))
    };
    let (from, to) = (time("from", from, SimTime::ZERO)?, time("to", to, SimTime::MAX)?);
    Ok(TimelineSpec { path: path.clone(), window: Window { from, to, limit: limit.unwrap_or(LIMIT) } })
}

/// What came out.
#[pyclass(frozen)]
struct NativeOutcome {
    /// As in summary.json.
    #[pyo3(get)]
    summary: String,
    /// By name, the most important one first.
    #[pyo3(get)]
    tables: Vec<(String, Py<NativeTable>)>,
    /// Why it is not what was asked for.
    #[pyo3(get)]
    failure: Option<String>,
    #[pyo3(get)]
    warnings: Vec<String>,
    /// CPU time of the thread that simulated, in seconds.
    #[pyo3(get)]
    cpu_s: f64,
    outcome: Outcome,
}

#[pymethods]
impl NativeOutcome {
    /// The lines that the command line prints.
    fn text(&self) -> String {
        match &self.outcome {
            Outcome::Traffic(outcome) => outcome.text(),
            Outcome::Replay(outcome) => outcome.text(),
        }
    }

    /// Its pictures: names and SVG.
    fn pictures(&self) -> Vec<(String, String)> {
        match &self.outcome {
            Outcome::Traffic(outcome) => outcome.pictures().into_iter().map(|(name, svg)| (name.to_owned(), svg)).collect(),
            Outcome::Replay(outcome) => outcome.pictures(),
        }
    }

    /// Writes what `--out` writes.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| {
            narrows_output::create_folder(&folder).map_err(error)?;
            match &self.outcome {
                Outcome::Traffic(outcome) => outcome.save(&folder),
                Outcome::Replay(outcome) => outcome.save(&folder),
            }
            .map_err(error)
        })
    }
}

fn run(py: Python<'_>, spec: &Spec, progress: Option<Py<PyAny>>) -> PyResult<NativeOutcome> {
    let Watched { value, mut warnings, cpu_s } = watch::watched(py, progress, |observer| {
        spec.run(observer).map(|outcome| {
            let (summary, failure, tables) = (outcome.summary().to_string(), outcome.failure(), outcome.tables());
            (
                outcome,
                summary,
                failure,
                tables.into_iter().map(|(name, table)| (name.to_owned(), NativeTable::new(table))).collect::<Vec<_>>(),
            )
        })
    })?;
    let (outcome, summary, failure, tables) = value.map_err(error)?;
    if let Outcome::Replay(replay) = &outcome {
        warnings.extend(replay.unwritten().map(ToString::to_string));
    }
    let tables = tables.into_iter().map(|(name, table)| Ok((name, Py::new(py, table)?))).collect::<PyResult<_>>()?;
    Ok(NativeOutcome { summary, tables, failure, warnings, cpu_s, outcome })
}

/// Synthetic traffic; texts as the command line has them.
#[pyfunction]
#[pyo3(signature = (machine, pattern, *, fabric, file, load, injection, size, classes, warmup, time, period, seed, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "all of them have names in Python")]
fn traffic(
    py: Python<'_>,
    machine: MachineWords,
    pattern: String,
    fabric: Option<String>,
    file: Option<PathBuf>,
    load: Option<String>,
    injection: Option<String>,
    size: Option<String>,
    classes: Vec<String>,
    warmup: Option<String>,
    time: Option<String>,
    period: Option<String>,
    seed: u64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<NativeOutcome> {
    let words = Wording { pattern, file, load, injection, size, classes, warmup, time, period };
    let spec = TrafficSpec { fabric, seed, threads, ..TrafficSpec::worded(machine_spec(machine), &words).map_err(error)? };
    run(py, &Spec::Traffic(spec), progress)
}

/// Traces on a machine, or under LogGP where there is no machine.
#[pyfunction]
#[pyo3(signature = (machine, traces, *, loggp, ppn, mapping, compute_scale, collectives, period, timeline, seed, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "all of them have names in Python")]
fn replay(
    py: Python<'_>,
    machine: Option<MachineWords>,
    traces: Vec<PathBuf>,
    loggp: Option<String>,
    ppn: Option<u32>,
    mapping: String,
    compute_scale: Vec<String>,
    collectives: Option<String>,
    period: Option<String>,
    timeline: Option<TimelineWords>,
    seed: u64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<NativeOutcome> {
    let target = match (machine, loggp) {
        (Some(machine), None) => {
            let period = period.map(|text| text.parse::<SimTime>().map_err(|wrong| error(format!("--period: {wrong}")))).transpose()?;
            Target::Machine { machine: machine_spec(machine), ppn, mapping, period, background: Vec::new() }
        }
        (None, Some(text)) => Target::LogGp(text.parse::<Parameters>().map_err(|wrong| error(format!("--loggp: {wrong}")))?),
        _ => return Err(error("a replay has a machine or LogGP parameters: one of the two")),
    };
    let timeline = timeline.map(|words| timeline_spec(&words)).transpose()?;
    let scale = |text: &String| text.parse::<Scale>().map_err(|wrong| error(format!("--compute-scale: {wrong}")));
    let scales = compute_scale.iter().map(scale).collect::<PyResult<_>>()?;
    let sources = traces.into_iter().map(Source::File).collect();
    run(py, &Spec::Replay(ReplaySpec { sources, target, scales, seed, collectives, threads, timeline, processes: None }), progress)
}

/// What `python/narrows` stands on.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NETWORKS", NetworkKind::NAMES.to_vec())?;
    module.add("NarrowsError", module.py().get_type::<NarrowsError>())?;
    module.add_class::<NativeOutcome>()?;
    module.add_class::<NativeTable>()?;
    module.add_function(wrap_pyfunction!(resolve, module)?)?;
    module.add_function(wrap_pyfunction!(presets, module)?)?;
    module.add_function(wrap_pyfunction!(handlers_file, module)?)?;
    module.add_function(wrap_pyfunction!(machine_keys, module)?)?;
    module.add_function(wrap_pyfunction!(report::result_page, module)?)?;
    module.add_function(wrap_pyfunction!(report::study_page, module)?)?;
    module.add_function(wrap_pyfunction!(report::critical_path, module)?)?;
    module.add_function(wrap_pyfunction!(report::colours, module)?)?;
    module.add_function(wrap_pyfunction!(traffic, module)?)?;
    module.add_function(wrap_pyfunction!(replay, module)?)
}
