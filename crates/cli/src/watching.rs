//! Who watches a study on the command line: bars or lines on standard error, warnings, Ctrl-C.

use crate::failure::Failure;
use narrows_output::{Meter, warn};
use narrows_results::Progress;
use narrows_study::Observer;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shows what goes on, and ends it when it is told to.
pub struct Watching {
    stop: Arc<AtomicBool>,
    shows: bool,
}

impl Watching {
    /// From now on the first SIGINT or SIGTERM ends a study, and the second one the program at once.
    ///
    /// # Errors
    /// The host watches for no signals.
    pub fn start() -> Result<Watching, Failure> {
        let (stop, again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: a signal does all that is registered so far, and none may come between and be lost.
            signal_hook::flag::register(signal, stop.clone())
                .and_then(|_| signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, again.clone()))
                .and_then(|_| signal_hook::flag::register(signal, again.clone()))
                .map_err(|error| format!("cannot watch for signals: {error}"))?;
        }
        Ok(Watching { stop, shows: true })
    }

    /// Shows nothing if another process does.
    pub fn shows(self, shows: bool) -> Watching {
        Watching { shows, ..self }
    }
}

impl Observer for Watching {
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        if self.shows { Box::new(Progress::with(what, meter, detail)) } else { Box::new(()) }
    }

    fn warning(&self, text: &str) {
        if self.shows {
            warn!("{text}");
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}
