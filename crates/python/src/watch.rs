//! A study in a thread of its own, while the thread that asked for it listens to Ctrl-C and shows how far it is.

use narrows_output::Meter;
use narrows_study::Observer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Ctrl-C is heard after this time at most, and bars are drawn this often.
const EVERY: Duration = Duration::from_millis(100);
/// What Linux gives the first thread of a program.
const STACK: usize = 8 << 20;

/// What came of it.
pub struct Watched<T> {
    pub value: T,
    /// In their order.
    pub warnings: Vec<String>,
    /// Of the study's own thread.
    pub cpu_s: f64,
}

/// A part of the work that goes on.
struct Part {
    number: u64,
    what: String,
    meter: Arc<Meter>,
    detail: Box<dyn Fn() -> String + Send>,
}

type Parts = Arc<Mutex<Vec<Part>>>;

/// Ends a part when it is dropped.
struct Ends(Parts, u64);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|part| part.number != self.1);
    }
}

#[derive(Default)]
struct Watching {
    stop: AtomicBool,
    parts: Parts,
    next: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Observer for Watching {
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = Part { number, what, meter: Arc::clone(meter), detail };
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
        Box::new(Ends(Arc::clone(&self.parts), number))
    }

    fn warning(&self, text: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Watching {
    /// Tells `progress` about the latest part: what it is, which fraction of it is done, more about where it is.
    fn show(&self, py: Python<'_>, progress: &Py<PyAny>) -> PyResult<()> {
        let shown = {
            let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.last().map(|part| {
                let (done, total) = (part.meter.done(), part.meter.total());
                let fraction = (total > 0).then(|| (done as f64 / total as f64).min(1.0));
                (part.what.clone(), fraction, (part.detail)())
            })
        };
        shown.map_or(Ok(()), |shown| progress.call1(py, shown).map(drop))
    }
}

/// Runs `work` without the interpreter's lock. A signal whose handler raises (Ctrl-C), or a progress bar that does,
/// ends it; what was raised comes out then.
///
/// # Errors
/// What was raised.
pub fn watched<T: Send>(py: Python<'_>, progress: Option<Py<PyAny>>, work: impl FnOnce(&dyn Observer) -> T + Send) -> PyResult<Watched<T>> {
    let watching = Watching::default();
    let (value, cpu_s) = py.detach(|| {
        std::thread::scope(|scope| {
            let (ended, end) = sync_channel::<()>(1);
            let study = || {
                // Dropped at the end, whatever happens.
                let _ended = ended;
                let value = work(&watching);
                (value, cpu_time_s())
            };
            let thread = std::thread::Builder::new().name(String::from("study")).stack_size(STACK).spawn_scoped(scope, study);
            let thread = thread.map_err(|error| PyRuntimeError::new_err(format!("no thread for the simulation: {error}")))?;
            let mut raised = None;
            while end.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_some() {
                    continue;
                }
                raised = Python::attach(|py| {
                    py.check_signals()?;
                    progress.as_ref().map_or(Ok(()), |progress| watching.show(py, progress))
                })
                .err();
                watching.stop.store(raised.is_some(), Ordering::Relaxed);
            }
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            raised.map_or(Ok(done), Err)
        })
    })?;
    Ok(Watched { value, warnings: watching.warnings.into_inner().unwrap_or_else(PoisonError::into_inner), cpu_s })
}

/// CPU time of this thread.
fn cpu_time_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer; a clock that every Linux has.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
