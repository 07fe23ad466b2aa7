//! Collectives of ranks that are in several processes: whether all members say the same.
//!
//! Those of one process meet there ([`Meetings`]). The first of them speaks for them to the process of the
//! communicator's first member, where those that speak meet again.

use super::{Application, Source};
use narrows_trace::{CollectivePart, Contradiction, Meetings};
use std::collections::{BTreeMap, BTreeSet};

/// Where ranks are.
pub(super) struct Circles {
    process: u32,
    /// By rank, among those of all traces.
    of_rank: Vec<u32>,
}

/// Where the members of a communicator are.
#[derive(Clone, Copy)]
struct Circle {
    /// In this process.
    here: u32,
    /// The first of these.
    speaker: Option<u32>,
    /// The first of all.
    listener: u32,
    /// Processes with members.
    processes: u32,
}

/// The collectives of a trace of which not all processes have spoken.
#[derive(Default)]
pub(super) struct MeetingsOfProcesses {
    /// By communicator.
    circles: BTreeMap<u32, Circle>,
    meetings: Meetings,
}

impl Circles {
    pub(super) fn new(process: u32, of_rank: Vec<u32>) -> Circles {
        Circles { process, of_rank }
    }

    fn circle(&self, application: &Application, source: &mut Source, communicator: u32) -> Circle {
        *source.meetings_of_processes.circles.entry(communicator).or_insert_with(|| {
            let process = |rank: u32| self.of_rank[(application.first_rank + rank) as usize];
            let members = || application.communicators.members(communicator);
            let here = || members().filter(|&rank| process(rank) == self.process);
            let processes: BTreeSet<u32> = members().map(process).collect();
            let listener = members().next().unwrap_or(0);
            Circle { here: here().count() as u32, speaker: here().next(), listener, processes: processes.len() as u32 }
        })
    }

    /// A rank of this process joins its next collective: the number of that on its communicator, and the rank to tell
    /// in the name of all here, if that is to be done.
    pub(super) fn join(
        &self,
        application: &Application,
        source: &mut Source,
        part: CollectivePart,
    ) -> Result<(u64, Option<u32>), Contradiction> {
        let circle = self.circle(application, source, part.call.communicator);
        let number = source.meetings.join(part, circle.here)?;
        Ok((number, (circle.speaker == Some(part.rank) && circle.processes > 1).then_some(circle.listener)))
    }

    /// A process has spoken.
    pub(super) fn hear(&self, application: &Application, said: CollectivePart) -> Result<(), Contradiction> {
        let source = &mut *application.source();
        let circle = self.circle(application, source, said.call.communicator);
        source.meetings_of_processes.meetings.join(said, circle.processes).map(drop)
    }
}
