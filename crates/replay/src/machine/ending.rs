//! The end of a replay: what went wrong, and what came out, put together where several processes share it.

use super::*;
use narrows_fabric::Undelivered;
use narrows_message::Passed;
use narrows_nic::{Denied, HandlerReport};
use narrows_sim::{RailTotals, Totals};

/// Ranks that do not end, of which a failure tells.
const SHOWN: usize = 10;

/// How the ranks of a process ended.
#[derive(Default, Serialize, Deserialize)]
struct Ending {
    /// The first rank whose trace cannot be replayed.
    error: Option<(SimTime, u32)>,
    interrupted: Option<SimTime>,
    /// A command that a NIC refused, and why.
    refused: Option<(SimTime, u32, String)>,
    undelivered: Option<Undelivered>,
    denied: Option<Denied>,
    cut: Option<String>,
    /// Ranks that have not ended.
    unfinished: u64,
    /// What the first of them wait for.
    waiting: Vec<(u32, String)>,
}

/// What came out of the ranks of a process.
#[derive(Serialize, Deserialize)]
struct Share {
    ranks: Vec<OfRank>,
    tallies: Vec<Tally>,
    sent: Sent,
    /// By gateway.
    passed: Vec<(u32, Passed)>,
    totals: Totals,
    handlers: Option<HandlerReport>,
    rails: Vec<RailTotals>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct OfRank {
    /// Among all.
    number: u32,
    finish: SimTime,
    computing: SimTime,
    beside: SimTime,
    digest: u64,
}

impl Replay {
    /// What kept the replay from its end: the same in all processes. An error in a trace is one of the process that has
    /// read it; the others hear of it as that process' last words.
    pub(super) fn failure(&mut self, epoch: SimTime, interrupted: Option<SimTime>, beyond: bool) -> Result<Option<String>, ReplayError> {
        let found = self.world.all().filter_map(|ranks| ranks.error.take()).min_by_key(|&(at, rank, _)| (at, rank));
        let (unfinished, waiting) = self.waiting();
        let mine = Ending {
            error: found.as_ref().map(|&(at, rank, _)| (at, rank)),
            interrupted,
            refused: self.world.take_error_with_time().map(|(at, rank, error)| (at, rank, error.to_string())),
            undelivered: self.world.undelivered(),
            denied: self.world.denied(),
            cut: self.world.all().find_map(|ranks| ranks.cut.take()),
            unfinished,
            waiting,
        };
        let all = match &self.processes {
            Some(processes) => processes.gather(&mine)?,
            None => vec![mine],
        };
        if let Some(first) = all.iter().filter_map(|ending| ending.error).min() {
            return Err(match (found, &self.processes) {
                (Some((at, rank, error)), _) if (at, rank) == first => self.named(rank, error),
                (_, Some(processes)) => last_words(processes).into(),
                (_, None) => unreachable!("it was found here"),
            });
        }
        let of_all = || all.iter();
        let wait = || {
            let mut waiting: Vec<&(u32, String)> = of_all().flat_map(|ending| &ending.waiting).collect();
            waiting.sort_unstable();
            let (shown, count) = (waiting.len().min(SHOWN), of_all().map(|ending| ending.unfinished).sum::<u64>());
            let lines: String = waiting[..shown].iter().map(|(_, line)| line.as_str()).collect();
            let more = if count > shown as u64 { format!("\n  ... and {} more", count - shown as u64) } else { String::new() };
            (count, lines + &more)
        };
        if let Some(cut) = of_all().find_map(|ending| ending.cut.clone()) {
            return Ok(Some(cut));
        }
        if let Some(denied) = of_all().filter_map(|ending| ending.denied).min_by_key(|denied| (denied.at, denied.process.0)) {
            return Ok(Some(denied.to_string()));
        }
        let undelivered = of_all().filter_map(|ending| ending.undelivered.clone());
        if let Some(undelivered) = undelivered.min_by_key(|undelivered| (undelivered.at, undelivered.from, undelivered.target)) {
            let at = undelivered.at.saturating_sub(epoch);
            return Ok(Some(Undelivered { at, ..undelivered }.to_string()));
        }
        if let Some((_, rank, error)) = of_all().filter_map(|ending| ending.refused.clone()).min() {
            return Ok(Some(format!("rank {rank}: the NIC refused a command: {error}")));
        }
        if beyond {
            return Ok(Some(format!("the next event lies beyond 200 days, where simulated time ends{}", wait().1)));
        }
        if let Some(now) = of_all().filter_map(|ending| ending.interrupted).min() {
            return Ok(Some(format!("interrupted at simulated time {now}")));
        }
        Ok(match wait() {
            (0, _) => None,
            (count, waiting) => Some(format!("deadlock: nothing can happen any more, {count} ranks have not ended{waiting}")),
        })
    }

    /// The error with the trace that it is about, if there are several.
    fn named(&self, rank: u32, error: ReplayError) -> ReplayError {
        match self.shared.applications.as_slice() {
            [_] => error,
            applications => {
                let of = applications.partition_point(|application| application.first_rank <= rank) - 1;
                ReplayError::Of { name: applications[of].name.clone(), error: Box::new(error) }
            }
        }
    }

    /// How many ranks have not ended, and what the first of them wait for, a line each.
    fn waiting(&mut self) -> (u64, Vec<(u32, String)>) {
        let all = self.world.all().flat_map(|ranks| ranks.ranks.iter().zip(&ranks.numbers));
        let mut open: Vec<(u32, &Rank)> = all.filter(|(rank, _)| rank.finish.is_none()).map(|(rank, &number)| (number, rank)).collect();
        open.sort_unstable_by_key(|&(number, _)| number);
        let line = |&(number, rank): &(u32, &Rank)| {
            let open = rank.window.iter().enumerate().find(|(_, node)| node.started && !node.done);
            let what = match open {
                Some((index, node)) => format!("operation {} does not end: {}", rank.first + index as u64, node.operation.kind),
                None => String::from("its operations wait for others that do not start"),
            };
            let name = &self.shared.applications[rank.part].name;
            (number, format!("\n  {name} rank {}: {what}", rank.number))
        };
        (open.len() as u64, open.iter().take(SHOWN).map(line).collect())
    }

    pub(super) fn finish(mut self, epoch: SimTime, failure: Option<String>) -> Result<Outcome, ReplayError> {
        let mine = self.share(epoch);
        let shares = match &self.processes {
            Some(processes) => processes.gather_at_first(&mine)?,
            None => vec![mine],
        };
        let report = |application: &Application| Report { name: application.name.clone(), ranks: application.ranks, ..Report::default() };
        let mut outcome = Outcome {
            applications: self.shared.applications.iter().map(report).collect(),
            rank_finish: vec![SimTime::ZERO; self.ranks as usize],
            rank_computing: vec![SimTime::ZERO; self.ranks as usize],
            rank_beside: vec![SimTime::ZERO; self.ranks as usize],
            failure,
            ..Outcome::default()
        };
        let mut digests = vec![0; self.ranks as usize];
        let (mut passed, mut totals) = (BTreeMap::new(), Totals::default());
        for (process, share) in (0..).zip(shares) {
            for of_rank in share.ranks {
                let number = of_rank.number as usize;
                let digest = digests.get_mut(number).ok_or(ProcessError::Unreadable { process })?;
                *digest = of_rank.digest;
                outcome.rank_finish[number] = of_rank.finish;
                outcome.rank_computing[number] = of_rank.computing;
                outcome.rank_beside[number] = of_rank.beside;
            }
            for (application, tally) in outcome.applications.iter_mut().zip(&share.tallies) {
                application.unfinished += tally.unfinished;
                application.messages += tally.messages;
                application.bytes = application.bytes.saturating_add(tally.bytes);
                application.fct.merge(&tally.fct);
            }
            outcome.sent += share.sent;
            passed.extend(share.passed);
            totals += share.totals;
            if let Some(handlers) = share.handlers {
                outcome.handlers.get_or_insert_default().add(&handlers);
            }
            outcome.rails.resize(outcome.rails.len().max(share.rails.len()), RailTotals::default());
            outcome.rails.iter_mut().zip(share.rails).for_each(|(sum, rail)| *sum += rail);
        }
        let mut digest = Digest::default();
        for (report, application) in outcome.applications.iter_mut().zip(&self.shared.applications) {
            let ranks = application.first_rank as usize..(application.first_rank + application.ranks) as usize;
            report.finish = outcome.rank_finish[ranks.clone()].iter().copied().max().unwrap_or_default();
            let mut of_ranks = Digest::default();
            digests[ranks].iter().for_each(|&digest| of_ranks.word(digest));
            report.digest = of_ranks.value();
            digest.word(report.digest);
        }
        digest.word(self.world.digest_of_all()?);
        outcome.digest = digest.value();
        outcome.background = self.world.background_of_all()?;
        outcome.finish = outcome.rank_finish.iter().copied().max().unwrap_or_default();
        let watch = self.world.all().next().and_then(|ranks| ranks.state.watch.take());
        outcome.seen = watch.map(|watch| watch.finish(outcome.finish));
        outcome.windows = self.world.windows();
        self.world.dismantle(self.threads);
        (outcome.events, outcome.totals) = (totals.events, Some(totals));
        outcome.passed = passed.into_values().collect();
        Ok(outcome)
    }

    fn share(&mut self, epoch: SimTime) -> Share {
        let (totals, rails, handlers) = (self.world.recorded(), self.world.recorded_by_rail(), self.world.handlers());
        let handlers = handlers.map(|report| report.since(epoch));
        let tallies = self.shared.applications.iter().map(|_| Tally::default()).collect();
        let mut share = Share { ranks: Vec::new(), tallies, sent: Sent::default(), passed: Vec::new(), totals, handlers, rails };
        for ranks in self.world.all() {
            share.passed.extend(ranks.gateways.iter().map(|(&number, gateway)| (number, gateway.passed())));
            for (rank, &number) in ranks.ranks.iter().zip(&ranks.numbers) {
                share.sent += rank.endpoint.as_ref().map(Endpoint::sent).unwrap_or_default();
                share.ranks.push(OfRank {
                    number,
                    finish: rank.finish.unwrap_or(rank.clock).saturating_sub(epoch),
                    computing: rank.computed,
                    beside: rank.computed_beside,
                    digest: rank.digest.value(),
                });
            }
            for (sum, tally) in share.tallies.iter_mut().zip(&ranks.state.tallies) {
                sum.unfinished += tally.unfinished;
                sum.messages += tally.messages;
                sum.bytes = sum.bytes.saturating_add(tally.bytes);
                sum.fct.merge(&tally.fct);
            }
        }
        share
    }
}

/// The last words of a process that has an error.
fn last_words(processes: &parallel::Processes) -> ProcessError {
    let heard = processes.gather(&());
    heard.err().unwrap_or(ProcessError::Silent(parallel::ExchangeError::Unsaid))
}
