use indicatif::{ProgressBar, ProgressStyle};
use narrows_output::{Meter, say};
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What takes less is over before one has read about it.
const FIRST: Duration = Duration::from_secs(2);
/// Without a terminal: a line this often.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// A bar is drawn this often.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Shows how far a piece of work is, from the third second on and until it is dropped: a bar on standard error when
/// that is a terminal, and lines elsewhere. The work itself only counts into a [`Meter`].
#[derive(Debug)]
pub struct Progress {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// `what` is done: "reading halo.vef".
    pub fn start(what: impl Into<String>, meter: &Arc<Meter>) -> Progress {
        Progress::with(what, meter, String::new)
    }

    /// `detail` says more about where the work is.
    pub fn with(what: impl Into<String>, meter: &Arc<Meter>, detail: impl Fn() -> String + Send + 'static) -> Progress {
        match std::io::stderr().is_terminal() {
            true => Progress::show([FIRST, DRAW_EVERY], what.into(), meter, detail, bar()),
            false => Progress::show([FIRST, LINE_EVERY], what.into(), meter, detail, |text, _| say!("{text}")),
        }
    }

    /// Lines even on a terminal, because a program writes there too.
    pub fn lines(what: impl Into<String>, meter: &Arc<Meter>, detail: impl Fn() -> String + Send + 'static) -> Progress {
        Progress::show([LINE_EVERY; 2], what.into(), meter, detail, |text, _| say!("{text}"))
    }

    fn show(
        [first, every]: [Duration; 2],
        what: String,
        meter: &Arc<Meter>,
        detail: impl Fn() -> String + Send + 'static,
        mut draw: impl FnMut(&str, Option<f64>) + Send + 'static,
    ) -> Progress {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let (meter, ours, start) = (Arc::clone(meter), Arc::clone(&over), Instant::now());
        let run = move || {
            let (flag, bell) = &*ours;
            let mut wait = first;
            loop {
                let waiting = flag.lock().unwrap_or_else(PoisonError::into_inner);
                let (waiting, timeout) = bell.wait_timeout_while(waiting, wait, |over| !*over).unwrap_or_else(PoisonError::into_inner);
                drop(waiting);
                if !timeout.timed_out() {
                    return;
                }
                wait = every;
                let (done, total) = (meter.done(), meter.total());
                let fraction = (total > 0).then(|| (done as f64 / total as f64).min(1.0));
                let more = Some(detail()).filter(|text| !text.is_empty()).map_or(String::new(), |text| format!(", {text}"));
                draw(&format!("{what}: {}{more}", describe(fraction, start.elapsed())), fraction);
            }
        };
        // Without a thread nothing is shown.
        Progress { over, thread: std::thread::Builder::new().name(String::from("progress")).spawn(run).ok() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Draws on the terminal; the bar goes away with the closure.
fn bar() -> impl FnMut(&str, Option<f64>) + Send {
    struct Clear(ProgressBar);
    impl Drop for Clear {
        fn drop(&mut self) {
            self.0.finish_and_clear();
        }
    }
    let mut shown: Option<Clear> = None;
    move |text, fraction| {
        let Clear(bar) = shown.get_or_insert_with(|| {
            let bar = ProgressBar::new(1000);
            bar.set_style(ProgressStyle::with_template("{msg} {wide_bar}").unwrap_or_else(|_| ProgressStyle::default_bar()));
            Clear(bar)
        });
        bar.set_message(text.to_owned());
        bar.set_position((1000.0 * fraction.unwrap_or(0.0)) as u64);
    }
}

/// "25 %, 30 s left", or how long it takes already if nothing is known about the end.
fn describe(fraction: Option<f64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match fraction {
        Some(fraction) if fraction > 0.0 => {
            format!("{:.0} %, {} left", (100.0 * fraction).floor(), duration(seconds * (1.0 - fraction) / fraction))
        }
        _ => format!("{} so far", duration(seconds)),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        assert_eq!(describe(Some(0.25), Duration::from_secs(10)), "25 %, 30 s left");
        assert_eq!(describe(Some(0.01), Duration::from_secs(60)), "1 %, 1.6 h left");
        assert_eq!(describe(Some(0.0), Duration::from_secs(3)), "3 s so far");
        assert_eq!(describe(None, Duration::from_secs(120)), "2 min so far");
        assert_eq!(describe(Some(1.0), Duration::from_secs(1)), "100 %, 0 s left");
    }

    #[test]
    fn what_is_counted_is_shown_until_the_end() {
        let meter = Arc::new(Meter::new(200));
        meter.add(100);
        let (sender, lines) = mpsc::channel();
        let draw = move |text: &str, fraction: Option<f64>| {
            let _ = sender.send((text.to_owned(), fraction));
        };
        let progress =
            Progress::show([Duration::from_millis(1); 2], String::from("reading a.vef"), &meter, || String::from("line 7"), draw);
        let (text, fraction) = lines.recv().unwrap();
        assert!(text.starts_with("reading a.vef: 50 %, ") && text.ends_with(" left, line 7"), "{text}");
        assert_eq!(fraction, Some(0.5));
        drop(progress);
        while lines.recv().is_ok() {}
    }
}
