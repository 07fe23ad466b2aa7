//! A timeline of a run or a replay: its file, its tables, what is said of it.

use crate::StudyError;
use crate::energy::OverTime;
use narrows_machine::Machine;
use narrows_output::{OutputError, OutputFile};
use narrows_results::{Column, Table};
use narrows_timeline::perfetto::{self, Counter, RankPlace, Written};
use narrows_timeline::{Call, Recorded, Timeline, Transfer, Window};
use narrows_units::{ProcessorId, SimTime, show};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineSpec {
    /// Where the trace goes.
    pub path: PathBuf,
    /// Of which part of simulated time.
    pub window: Window,
}

/// A timeline in the making.
#[derive(Debug)]
pub(crate) struct Open {
    spec: TimelineSpec,
    file: OutputFile,
    /// Who sees something happen tells this.
    pub timeline: Timeline,
}

/// A timeline whose file is written, or takes no more.
#[derive(Debug)]
pub struct TimelineOutcome {
    spec: TimelineSpec,
    recorded: Recorded,
    power: Option<OverTime>,
    written: Result<Written, OutputError>,
}

impl TimelineSpec {
    /// Makes the file, so that a run does not find out at its end that it cannot.
    ///
    /// # Errors
    /// It cannot be made, or the window is empty.
    pub(crate) fn open(&self) -> Result<Open, StudyError> {
        let Window { from, to, limit } = self.window;
        if from >= to {
            return Err(StudyError::Contradiction(format!("--timeline-from {from} --timeline-to {to}: nothing lies between them")));
        }
        Ok(Open {
            spec: self.clone(),
            file: OutputFile::create(&self.path).map_err(StudyError::Output)?,
            timeline: Timeline::new(Window { from, to, limit }),
        })
    }
}

impl Open {
    /// Writes the file: `placed[r]` is where rank r was, and `power` finds what the machine took. What went before it
    /// is not lost when it takes no more: [`TimelineOutcome::unwritten`].
    pub(crate) fn finish(
        self,
        machine: &Machine,
        placed: &[ProcessorId],
        power: impl FnOnce(&Recorded, Window) -> Option<OverTime>,
    ) -> TimelineOutcome {
        let Open { spec, mut file, timeline } = self;
        let recorded = timeline.finish();
        let power = power(&recorded, spec.window);
        let addresses = machine.addresses();
        let place = |&id: &ProcessorId| {
            // NICs are named by whose they are.
            let address = addresses.of(id);
            RankPlace {
                node: address.0,
                host: if address == id.node { machine.host_name(id.node) } else { machine.host_name_on(id) },
                processor: (id.number != 0).then(|| machine.processor(id).0.to_owned()),
            }
        };
        let places: Vec<RankPlace> = placed.iter().map(place).collect();
        let counters: Vec<Counter> = power.iter().map(OverTime::counter).collect();
        let mut out = BufWriter::new(&mut file);
        let written = perfetto::write(&recorded, &places, &counters, &mut out).and_then(|written| out.flush().map(|()| written));
        // What it still holds after an error would be written once more.
        let _ = out.into_parts();
        let written = written.map_err(OutputError::of(&spec.path)).and_then(|written| file.commit().map(|()| written));
        TimelineOutcome { spec, recorded, power, written }
    }
}

impl TimelineOutcome {
    /// Why its file is not written, if it is not.
    pub(crate) fn unwritten(&self) -> Option<&OutputError> {
        self.written.as_ref().err()
    }

    /// What `summary.json` says of it.
    pub(crate) fn summary(&self) -> Value {
        let Window { from, to, limit } = self.spec.window;
        let written = self.written.as_ref().ok();
        json!({
            "file": written.map(|_| self.spec.path.display().to_string()),
            "from_s": from.as_s_f64(),
            "to_s": (to != SimTime::MAX).then(|| to.as_s_f64()),
            "calls": self.recorded.calls.len(),
            "messages": self.recorded.messages(),
            "transfers": self.recorded.transfers.len(),
            "slices": written.map(|written| written.slices),
            "flows": written.map(|written| written.flows),
            "bytes": written.map(|written| written.bytes),
            "limit": limit,
            "ended_s": self.recorded.ended.map(SimTime::as_s_f64),
        })
    }

    /// The line that says where it is, and one where it is not complete.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Ok(Written { slices, flows, bytes }) = self.written else { return Vec::new() };
        let path = self.spec.path.display();
        let mut lines =
            vec![format!("timeline: {slices} slices, {flows} flows, {}: {path}, for https://ui.perfetto.dev", show::size(bytes))];
        lines.extend(self.recorded.ended.map(|ended| {
            format!(
                "the timeline ends at {ended}, where it had the {} slices of --timeline-limit: --timeline-from and --timeline-to choose \
                 another part",
                self.spec.window.limit
            )
        }));
        lines
    }

    /// Calls and transfers, a row each, and power over time, if the machine says what it takes.
    pub(crate) fn tables(&self) -> Vec<(&'static str, Table)> {
        let calls_and_transfers = [("calls", calls(&self.recorded.calls)), ("transfers", transfers(&self.recorded.transfers))];
        let power = self.power.iter().map(|power| ("power", power.table()));
        calls_and_transfers.into_iter().chain(power).collect()
    }

    /// Power over time, if the machine says what it takes.
    pub(crate) fn pictures(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.power.iter().map(|power| (String::from("power"), power.picture()))
    }
}

fn calls(calls: &[Call]) -> Table {
    let seconds = |of: fn(&Call) -> SimTime| Column::Number(calls.iter().map(|call| Some(of(call).as_s_f64())).collect());
    Table::new(vec![
        ("rank", Column::Integer(calls.iter().map(|call| i64::from(call.rank)).collect())),
        ("call", Column::Text(calls.iter().map(|call| call.name.to_owned()).collect())),
        ("begin_s", seconds(|call| call.begin)),
        ("end_s", seconds(|call| call.end)),
        ("waited_s", seconds(|call| call.waited)),
        ("peer", Column::Integer(calls.iter().map(|call| call.peer).collect())),
        ("tag", Column::Integer(calls.iter().map(|call| call.tag).collect())),
    ])
}

fn transfers(transfers: &[Transfer]) -> Table {
    let integer = |of: &dyn Fn(&Transfer) -> i64| Column::Integer(transfers.iter().map(of).collect());
    let rank = |rank: u32| if rank == u32::MAX { narrows_timeline::NONE } else { i64::from(rank) };
    let seconds = |of: fn(&Transfer) -> Option<SimTime>| {
        Column::Number(transfers.iter().map(|transfer| of(transfer).map(SimTime::as_s_f64)).collect())
    };
    Table::new(vec![
        ("kind", Column::Text(transfers.iter().map(|transfer| transfer.kind.to_owned()).collect())),
        ("from_rank", integer(&|transfer| rank(transfer.from_rank))),
        ("to_rank", integer(&|transfer| rank(transfer.to_rank))),
        ("from_node", integer(&|transfer| i64::from(transfer.from_node))),
        ("to_node", integer(&|transfer| i64::from(transfer.to_node))),
        ("bytes", integer(&|transfer| transfer.bytes as i64)),
        ("posted_s", seconds(|transfer| transfer.posted)),
        ("begin_s", seconds(|transfer| Some(transfer.begin))),
        ("sent_s", seconds(|transfer| Some(transfer.sent))),
        ("head_s", seconds(|transfer| transfer.head)),
        ("tail_s", seconds(|transfer| transfer.tail)),
    ])
}
