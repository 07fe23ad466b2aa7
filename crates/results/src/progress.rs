use indicatif::{ProgressBar, ProgressStyle};
use narrows_units::show;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Without a terminal: a line this often.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// A bar is drawn this often at most.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// How far a run is: a bar on standard error when that is a terminal, and lines elsewhere. Several threads may share it.
#[derive(Debug)]
pub struct Progress {
    /// Units of work in all.
    total: u64,
    start: Instant,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    done: u64,
    events: u64,
    shown: Instant,
}

impl Progress {
    /// `total`: units of work, for example picoseconds of simulated time.
    pub fn new(total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{wide_bar} {percent:>3}% {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar
        });
        let start = Instant::now();
        Progress { total: total.max(1), start, bar, state: Mutex::new(State { done: 0, events: 0, shown: start }) }
    }

    /// `done` and `events` more; `what` says where the caller is.
    pub fn advance(&self, done: u64, events: u64, what: impl FnOnce() -> String) {
        let mut state = match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        state.done += done;
        state.events += events;
        let every = if self.bar.is_some() { DRAW_EVERY } else { LINE_EVERY };
        if state.shown.elapsed() < every {
            return;
        }
        state.shown = Instant::now();
        let text = describe(state.done, self.total, state.events, self.start.elapsed());
        let fraction = (state.done as f64 / self.total as f64).min(1.0);
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{}, {text}", what()));
                bar.set_position((1000.0 * fraction) as u64);
            }
            None => eprintln!("narrows: {:3.0} %, {}, {text}", 100.0 * fraction, what()),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Events per second and the time left.
fn describe(done: u64, total: u64, events: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let left = if done == 0 { None } else { Some(seconds * (total.saturating_sub(done)) as f64 / done as f64) };
    let left = match left {
        None => String::from("?"),
        Some(left) if left < 90.0 => format!("{left:.0} s"),
        Some(left) if left < 5400.0 => format!("{:.0} min", left / 60.0),
        Some(left) => format!("{:.1} h", left / 3600.0),
    };
    format!("{} events/s, {left} left", show::count(events as f64 / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        assert_eq!(describe(25, 100, 20_000_000, Duration::from_secs(10)), "2.00 M events/s, 30 s left");
        assert_eq!(describe(1, 100, 0, Duration::from_secs(60)), "0.00 M events/s, 1.6 h left");
        assert_eq!(describe(0, 100, 0, Duration::from_secs(1)), "0.00 M events/s, ? left");
        assert_eq!(describe(200, 100, 0, Duration::from_secs(1)), "0.00 M events/s, 0 s left");
    }
}
