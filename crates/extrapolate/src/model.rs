//! From recordings to a program at another number of ranks.

use crate::class::{Class, Slot, Source, Unexplained};
use crate::error::ExtrapolateError;
use crate::grid::{Grid, GridRank, Rule, Scheme};
use crate::number::Number;
use crate::partner::Partner;
use crate::program::{Extrapolated, check_meetings};
use crate::recording::{Recording, Verb, Vocabulary, Word};
use crate::scale::{Growth, Law};
use crate::shape::Node;
use crate::tokens::{Families, Family, Tokens};
use narrows_trace::{Event, Totals};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the user decides.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the new program.
    pub ranks: u32,
    /// The largest share of messages, calls or bytes that may stay unexplained, and is left out then.
    pub unexplained: f64,
    /// How computing grows; `None`: as the recordings say.
    pub growth: Option<Growth>,
}

/// What is done at a place of a program text, for one number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Act {
    pub(crate) word: Word,
    pub(crate) family: Option<Family>,
    pub(crate) partner: Option<Partner>,
    /// Nothing is done here: it was not understood.
    pub(crate) is_left_out: bool,
    pub(crate) waits: Vec<(Event, Number, Number)>,
    pub(crate) values: [u64; 2],
}

/// A part of a program text.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Index in [`Model::acts`].
    Act(u32),
    /// What stands before its end is done so often; where it ends.
    Begin(Number, u32),
    /// Back to the beginning of the loop; where that is.
    End(u32),
}

/// A program for any rank of one number of ranks.
#[derive(Debug)]
pub struct Model {
    pub(crate) grid: Grid,
    pub(crate) scheme: Scheme,
    pub(crate) families: Families,
    pub(crate) texts: Vec<Vec<Step>>,
    pub(crate) acts: Vec<Act>,
    /// From a class to its text.
    pub(crate) classes: BTreeMap<u32, usize>,
    /// What was found out.
    pub findings: Findings,
}

/// What a model says of itself.
#[derive(Clone, Debug)]
pub struct Findings {
    /// How ranks stand.
    pub rule: Rule,
    /// That of the new program.
    pub grid: Grid,
    /// How many kinds of ranks there are.
    pub classes: usize,
    /// Places in the texts of all kinds, and how many of them differ.
    pub steps: (usize, usize),
    /// Shares of messages, calls and bytes that are not explained.
    pub unexplained: [f64; 3],
    /// How the program grows; none where nothing was said and nothing computes.
    pub growth: Option<Growth>,
    /// How computing grows, in words.
    pub computing: String,
}

/// All recordings on grids of one rule, as classes.
struct Explained {
    rule: Rule,
    scheme: Scheme,
    grids: Vec<Grid>,
    tokens: Tokens,
    classes: BTreeMap<u32, Class>,
    shares: [f64; 3],
    why: String,
}

/// The greatest common divisor.
fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}

impl Model {
    /// The model of recordings, which are in the order of their ranks.
    ///
    /// # Errors
    /// They do not say enough, or too little of them is explained.
    pub fn of(recordings: &[&Recording], vocabulary: &Vocabulary, options: Options) -> Result<Model, ExtrapolateError> {
        let [first, _, ..] = recordings else { return Err(ExtrapolateError::TooFew(recordings.len())) };
        if let Some(pair) = recordings.windows(2).find(|pair| pair[0].ranks() == pair[1].ranks()) {
            let (first, second, ranks) = (pair[0].name.clone(), pair[1].name.clone(), pair[0].ranks());
            return Err(ExtrapolateError::SameRanks { first, second, ranks });
        }
        let divisor = recordings.iter().fold(options.ranks, |divisor, recording| common(divisor, recording.ranks()));
        let mut best: Option<Explained> = None;
        // Where the number of ranks has no second factor all rules are one.
        let rules = if first.ranks() == 1 { vec![Rule::Line] } else { Rule::all(divisor) };
        'search: for scheme in Scheme::ALL {
            for rule in &rules {
                let explained = Explained::by(recordings, vocabulary, *rule, scheme);
                let worst = |shares: &[f64; 3]| shares.iter().copied().fold(0.0, f64::max);
                let is_whole = worst(&explained.shares) == 0.0;
                // Our own choice: a hundredth more may be chance.
                if best.as_ref().is_none_or(|best| is_whole || worst(&explained.shares) < worst(&best.shares) - 0.01) {
                    best = Some(explained);
                }
                if is_whole {
                    break 'search;
                }
            }
        }
        let explained = best.ok_or(ExtrapolateError::TooFew(recordings.len()))?;
        let [messages, calls, bytes] = explained.shares.map(|share| 100.0 * share);
        if explained.shares.iter().any(|share| *share > options.unexplained) {
            let (limit, why) = (100.0 * options.unexplained, explained.why);
            return Err(ExtrapolateError::Unexplained { messages, calls, bytes, limit, why });
        }
        explained.at(recordings, vocabulary, options)
    }

    /// The program, to be taken rank by rank.
    pub fn program(self: &Arc<Model>) -> Extrapolated {
        Extrapolated::new(Arc::clone(self))
    }

    /// Sums over the program; all of its messages are received.
    ///
    /// # Errors
    /// They are not: the model does not fit.
    pub fn totals(self: &Arc<Model>) -> Result<Totals, ExtrapolateError> {
        check_meetings(&mut self.program())
    }
}

impl Explained {
    fn by(recordings: &[&Recording], vocabulary: &Vocabulary, rule: Rule, scheme: Scheme) -> Explained {
        let grids: Vec<Grid> = recordings.iter().map(|recording| Grid { sides: rule.sides(recording.ranks()) }).collect();
        let tokens = Tokens::of(recordings, &grids, vocabulary);
        let mut members: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
        for (index, grid) in grids.iter().enumerate() {
            for rank in 0..grid.ranks() {
                members.entry(scheme.class(&grid.place(rank))).or_default().push((index, rank));
            }
        }
        let source = Source { recordings, grids: &grids, vocabulary, tokens: &tokens };
        let mut classes: BTreeMap<u32, Class> = members.iter().map(|(class, members)| (*class, Class::of(&source, members))).collect();
        leave_out_both_ends(&mut classes, &tokens, vocabulary);
        let mut sum = Unexplained { calls: tokens.strange, ..Unexplained::default() };
        if tokens.strange > 0 {
            sum.why = Some(String::from("who is in some of the communicators"));
        }
        classes.values().for_each(|class| sum.add(class.unexplained.clone()));
        let totals = |of: fn(&Totals) -> f64| recordings.iter().map(|recording| of(&recording.totals)).sum::<f64>().max(1.0);
        // A message has two ends.
        let shares = [
            sum.ends as f64 / (2.0 * totals(|totals| totals.messages as f64)),
            sum.calls as f64 / totals(|totals| totals.calls as f64),
            sum.bytes as f64 / totals(|totals| totals.bytes as f64),
        ];
        Explained { rule, scheme, grids, tokens, classes, shares, why: sum.why.unwrap_or_default() }
    }

    /// The model for so many ranks.
    fn at(self, recordings: &[&Recording], vocabulary: &Vocabulary, options: Options) -> Result<Model, ExtrapolateError> {
        let grid = Grid { sides: self.rule.sides(options.ranks) };
        let laws = Laws::of(&self, vocabulary, options.growth);
        let mut writer = Writer { explained: &self, vocabulary, grid, laws: &laws, acts: BTreeMap::new(), kinds: Vec::new() };
        let (mut acts, mut classes) = (Vec::new(), BTreeMap::new());
        for rank in 0..options.ranks {
            let place = grid.place(rank);
            let number = self.scheme.class(&place);
            if let Entry::Vacant(entry) = classes.entry(number) {
                let Some(class) = self.classes.get(&number) else { return Err(self.no_such_place(&place)) };
                entry.insert(acts.len());
                acts.push((class, writer.acts(class)));
            }
        }
        if laws.has_means_at(&self, vocabulary, grid) {
            widen(&mut acts, &laws.changing);
        }
        let steps = acts.iter().map(|(_, acts)| acts.len()).sum();
        let texts: Vec<Vec<Step>> = acts.into_iter().map(|(class, acts)| writer.text(class, acts)).collect();
        let acts = std::mem::take(&mut writer.kinds);
        let computed = recordings.iter().any(|recording| recording.totals.computing > 0);
        let findings = Findings {
            rule: self.rule,
            grid,
            classes: texts.len(),
            steps: (steps, acts.len()),
            unexplained: self.shares,
            growth: Some(laws.growth).filter(|_| computed || laws.forced),
            computing: if computed { laws.computing.to_string() } else { String::from("none was recorded") },
        };
        let (families, scheme) = (self.tokens.families.clone(), self.scheme);
        Ok(Model { grid, scheme, families, texts, acts, classes, findings })
    }

    fn no_such_place(&self, place: &GridRank) -> ExtrapolateError {
        let reach = self.scheme.reach;
        let part = |d: usize| {
            let (before, behind) = (place.at[d], place.grid.sides[d] - 1 - place.at[d]);
            let direction = ["first", "second", "third"][d];
            match (before < reach, behind < reach) {
                (true, true) => format!("alone in the {direction} direction"),
                (true, false) => format!("at the beginning of the {direction}"),
                (false, true) => format!("at the end of the {direction}"),
                (false, false) => format!("inside in the {direction}"),
            }
        };
        let words = [0, 1, 2].map(part).join(", ");
        let (ranks, grid, rank) = (place.grid.ranks(), place.grid.to_string(), place.rank);
        ExtrapolateError::NoSuchPlace { ranks, grid, rank, place: words, least: 2 * reach + 1 }
    }
}

/// Where an end of messages is not understood, the messages with its tag are left out at both ends.
fn leave_out_both_ends(classes: &mut BTreeMap<u32, Class>, tokens: &Tokens, vocabulary: &Vocabulary) {
    let tag = |slot: &Slot| match vocabulary.words[tokens.all[slot.token as usize].word as usize].verb {
        Verb::Send(tag) => Some((Some(tag), true)),
        Verb::Receive(tag, _) => Some((tag, false)),
        _ => None,
    };
    let slots = classes.values().flat_map(|class| &class.slots);
    let lost: BTreeSet<Option<u32>> =
        slots.filter(|slot| slot.has_partner && slot.partner.is_none()).filter_map(tag).map(|(tag, _)| tag).collect();
    for class in classes.values_mut() {
        for slot in &mut class.slots {
            let Some((tag, is_send)) = tag(slot) else { continue };
            if slot.partner.is_none() || !lost.contains(&tag) {
                continue;
            }
            slot.partner = None;
            for statistic in &slot.statistics {
                class.unexplained.ends += statistic.count;
                class.unexplained.bytes += if is_send { (statistic.mean(0) * statistic.count as f64) as u128 } else { 0 };
            }
        }
    }
}

/// What values of different classes have in common.
type Key = (ValueKind, usize);
/// A word with its partner, or the communicator and whether it is the root.
type ValueKind = (u32, Option<Partner>, Option<Family>, bool);
/// By recording: how often, and the sums of both values.
type Sums = Vec<(f64, [f64; 2])>;

/// How values grow.
struct Laws {
    /// Over all classes.
    of: BTreeMap<Key, [Law; 2]>,
    computing: Law,
    growth: Growth,
    forced: bool,
    /// Tags of messages whose sizes are means.
    changing: BTreeSet<u32>,
}

/// Directions in which a message goes.
fn along(partner: Option<Partner>) -> [bool; 3] {
    match partner {
        Some(Partner::Offset { start, step }) => std::array::from_fn(|d| start[d] != 0 || step[d] != 0),
        _ => [false; 3],
    }
}

/// Each place of a class with its key.
fn keys<'a>(class: &'a Class, tokens: &'a Tokens) -> impl Iterator<Item = (&'a Slot, Key)> {
    let mut seen: BTreeMap<ValueKind, usize> = BTreeMap::new();
    class.slots.iter().map(move |slot| {
        let token = tokens.all[slot.token as usize];
        let kind = (token.word, slot.partner, token.family, token.is_root);
        let number = seen.entry(kind).or_default();
        *number += 1;
        (slot, (kind, *number - 1))
    })
}

impl Laws {
    fn of(explained: &Explained, vocabulary: &Vocabulary, growth: Option<Growth>) -> Laws {
        let grids = &explained.grids;
        let mut sums: BTreeMap<Key, Sums> = BTreeMap::new();
        let mut of_kinds: BTreeMap<ValueKind, Sums> = BTreeMap::new();
        let mut computing = vec![0.0; grids.len()];
        for class in explained.classes.values() {
            for (slot, key) in keys(class, &explained.tokens) {
                let is_computing = vocabulary.words[key.0.0 as usize].verb == Verb::Compute;
                let of_key = sums.entry(key).or_insert_with(|| vec![(0.0, [0.0; 2]); grids.len()]);
                for (index, statistic) in slot.statistics.iter().enumerate() {
                    let count = statistic.count as f64;
                    of_key[index].0 += count;
                    (0..2).for_each(|which| of_key[index].1[which] += count * statistic.mean(which));
                    if is_computing {
                        computing[index] += count * statistic.mean(0) / f64::from(grids[index].ranks());
                    }
                }
            }
        }
        for (key, values) in &sums {
            let of_kind = of_kinds.entry(key.0).or_insert_with(|| vec![(0.0, [0.0; 2]); grids.len()]);
            for (sum, more) in of_kind.iter_mut().zip(values) {
                sum.0 += more.0;
                (0..2).for_each(|which| sum.1[which] += more.1[which]);
            }
        }
        let samples = |values: &Sums, which: usize| -> Vec<(Grid, f64)> {
            let there = values.iter().zip(grids).filter(|((count, _), _)| *count > 0.0);
            there.map(|((count, sums), grid)| (*grid, mean(sums[which], *count))).collect()
        };
        let of_kind = |(kind, values): (&ValueKind, &Sums)| (*kind, [0, 1].map(|which| Law::fit(&samples(values, which), along(kind.1))));
        let of_kind: BTreeMap<ValueKind, [Law; 2]> = of_kinds.iter().map(of_kind).collect();
        // Sizes that are not exact follow what calls with one partner have in common, not what each has by chance.
        let of_key = |(key, values): (&Key, &Sums)| {
            let law = |which: usize| Law::exact(&samples(values, which), along(key.0.1)).unwrap_or(of_kind[&key.0][which]);
            (*key, [0, 1].map(law))
        };
        let of = sums.iter().map(of_key).collect();
        let samples: Vec<(Grid, f64)> = grids.iter().copied().zip(computing).collect();
        let known = Law::fit(&samples, [false; 3]);
        let (small, large) = (samples[0], samples[samples.len() - 1]);
        // Half of the way, in logarithms, to a share of the whole.
        let falls = large.1 > 0.0 && small.1 / large.1 > (f64::from(large.0.ranks()) / f64::from(small.0.ranks())).sqrt();
        let found = if falls { Growth::Strong } else { Growth::Weak };
        let computing = match growth {
            None => known,
            Some(Growth::Weak) => Law::CONSTANT,
            Some(Growth::Strong) => Law::SHARE,
        };
        let growth_found = growth.unwrap_or(found);
        let mut laws = Laws { of, computing, growth: growth_found, forced: growth.is_some(), changing: BTreeSet::new() };
        laws.changing = changing(explained, vocabulary, &laws);
        laws
    }

    /// Whether messages of a recorded grid had several sizes at a place.
    fn has_means_at(&self, explained: &Explained, vocabulary: &Vocabulary, grid: Grid) -> bool {
        let Some(index) = explained.grids.iter().position(|other| *other == grid) else { return true };
        let verb = |slot: &Slot| vocabulary.words[explained.tokens.all[slot.token as usize].word as usize].verb;
        let mut slots = explained.classes.values().flat_map(|class| &class.slots);
        slots.any(|slot| matches!(verb(slot), Verb::Send(_)) && !slot.statistics[index].is_exact(0))
    }

    /// That of a place, from its own class where it is exact.
    fn law(&self, slot: &Slot, key: &Key, which: usize, grids: &[Grid], verb: Verb) -> Law {
        if verb == Verb::Compute && self.forced {
            return self.computing;
        }
        let there = slot.statistics.iter().zip(grids).filter(|(statistic, _)| statistic.count > 0);
        let samples: Vec<(Grid, f64)> = there.map(|(statistic, grid)| (*grid, statistic.mean(which))).collect();
        let is_message = matches!(verb, Verb::Send(_) | Verb::Receive(..) | Verb::Compute);
        if samples.len() >= 3
            && is_message
            && let Some(law) = Law::exact(&samples, along(key.0.1))
        {
            return law;
        }
        self.of.get(key).map_or(Law::CONSTANT, |laws| laws[which])
    }
}

/// Without what sums of many equal values lose.
fn mean(sum: f64, count: f64) -> f64 {
    let mean = sum / count;
    if (mean - mean.round()).abs() < 1e-9 * mean.abs() { mean.round() } else { mean }
}

/// Tags of sends whose size is not the same in all of a class, or not just what the law of it says.
fn changing(explained: &Explained, vocabulary: &Vocabulary, laws: &Laws) -> BTreeSet<u32> {
    let mut tags = BTreeSet::new();
    for class in explained.classes.values() {
        for (slot, key) in keys(class, &explained.tokens) {
            let verb = vocabulary.words[key.0.0 as usize].verb;
            if let Verb::Send(tag) = verb
                && (slot.statistics.iter().any(|statistic| !statistic.is_exact(0))
                    || !laws.law(slot, &key, 0, &explained.grids, verb).is_exact())
            {
                tags.insert(tag);
            }
        }
    }
    tags
}

/// A buffer must hold what comes, which is another mean: the longest message of its tag.
fn widen(acts: &mut [(&Class, Vec<Act>)], changing: &BTreeSet<u32>) {
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for act in acts.iter().flat_map(|(_, acts)| acts) {
        if let Verb::Send(tag) = act.word.verb {
            let bytes = longest.entry(tag).or_default();
            *bytes = act.values[0].max(*bytes);
        }
    }
    let any = longest.values().copied().max().unwrap_or(0);
    for act in acts.iter_mut().flat_map(|(_, acts)| acts) {
        match act.word.verb {
            Verb::Receive(Some(tag), _) if changing.contains(&tag) => {
                act.values[0] = longest.get(&tag).copied().unwrap_or(0).max(act.values[0])
            }
            Verb::Receive(None, _) if !changing.is_empty() => act.values[0] = any.max(act.values[0]),
            _ => {}
        }
    }
}

/// Writes the texts of classes.
struct Writer<'a> {
    explained: &'a Explained,
    vocabulary: &'a Vocabulary,
    grid: Grid,
    laws: &'a Laws,
    acts: BTreeMap<Act, u32>,
    kinds: Vec<Act>,
}

impl Writer<'_> {
    fn acts(&self, class: &Class) -> Vec<Act> {
        keys(class, &self.explained.tokens).map(|(slot, key)| self.act(slot, &key)).collect()
    }

    fn text(&mut self, class: &Class, acts: Vec<Act>) -> Vec<Step> {
        let acts: Vec<u32> = acts.into_iter().map(|act| self.number(act)).collect();
        let mut text = Vec::new();
        write(&class.shape.nodes, &acts, class, &mut text);
        text
    }

    fn number(&mut self, act: Act) -> u32 {
        if let Some(number) = self.acts.get(&act) {
            return *number;
        }
        self.kinds.push(act.clone());
        self.acts.insert(act, self.kinds.len() as u32 - 1);
        self.kinds.len() as u32 - 1
    }

    fn act(&self, slot: &Slot, key: &Key) -> Act {
        let token = self.explained.tokens.all[slot.token as usize];
        let word = self.vocabulary.words[token.word as usize];
        let is_collective = matches!(word.verb, Verb::Collective(..));
        let is_left_out = slot.has_partner && slot.partner.is_none() || is_collective && token.family.is_none();
        let values = [0, 1].map(|which| self.value(slot, key, which, word.verb));
        Act { word, family: token.family, partner: slot.partner, is_left_out, waits: slot.waits.clone(), values }
    }

    /// What the largest recording has, or that of just this number of ranks, times what the law says.
    fn value(&self, slot: &Slot, key: &Key, which: usize, verb: Verb) -> u64 {
        let grids = &self.explained.grids;
        let there = || (0..grids.len()).filter(|&index| slot.statistics[index].count > 0);
        let Some(anchor) = there().find(|&index| grids[index] == self.grid).or(there().next_back()) else { return 0 };
        let statistic = &slot.statistics[anchor];
        let is_recorded = grids[anchor] == self.grid;
        let law = self.laws.law(slot, key, which, grids, verb);
        let ratio = if is_recorded { 1.0 } else { law.ratio(self.grid, grids[anchor]) };
        (statistic.mean(which) * ratio).round() as u64
    }
}

fn write(nodes: &[Node], acts: &[u32], class: &Class, text: &mut Vec<Step>) {
    for node in nodes {
        match node {
            Node::Slot(slot, _) => text.push(Step::Act(acts[*slot])),
            Node::Loop(number, body) => {
                let begin = text.len();
                text.push(Step::Begin(class.rounds[*number], 0));
                write(body, acts, class, text);
                text.push(Step::End(begin as u32));
                text[begin] = Step::Begin(class.rounds[*number], text.len() as u32);
            }
        }
    }
}
