//! Ranks that do the same: one program text, with a function for each partner and each number in it.

use crate::grid::{Grid, GridRank};
use crate::number::Number;
use crate::partner::Partner;
use crate::recording::{Item, NOBODY, Recording, Verb, Vocabulary};
use crate::shape::{Shape, Walk};
use crate::tokens::Tokens;
use narrows_trace::Event;

/// Values of one place of the text in one recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistic {
    /// How often the place was come to, by all ranks of the class.
    pub count: u64,
    /// Of both values.
    sums: [f64; 2],
    least: [u64; 2],
    /// The largest ones.
    pub most: [u64; 2],
}

impl Statistic {
    fn add(&mut self, values: [u64; 2]) {
        for (which, value) in values.into_iter().enumerate() {
            self.sums[which] += value as f64;
            self.least[which] = if self.count == 0 { value } else { self.least[which].min(value) };
            self.most[which] = self.most[which].max(value);
        }
        self.count += 1;
    }

    /// The mean of one of the values.
    pub fn mean(&self, which: usize) -> f64 {
        // Sums of many equal values may be off by a bit.
        if self.is_exact(which) { self.least[which] as f64 } else { self.sums[which] / self.count.max(1) as f64 }
    }

    /// Whether it was the same each time.
    pub fn is_exact(&self, which: usize) -> bool {
        self.least[which] == self.most[which]
    }
}

/// A place in the text of a class.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Index in [`Tokens::all`].
    pub token: u32,
    /// Whom it is with; `None` for what has no partner, or none that is understood.
    pub partner: Option<Partner>,
    /// Whether it has one.
    pub has_partner: bool,
    /// What it waits for: how far back the first one is, and how many there are.
    pub waits: Vec<(Event, Number, Number)>,
    /// By recording.
    pub statistics: Vec<Statistic>,
}

/// Shares of what is not explained.
#[derive(Clone, Debug, Default)]
pub struct Unexplained {
    /// Ends of messages.
    pub ends: u64,
    /// Parts in collectives.
    pub calls: u64,
    /// Of sends.
    pub bytes: u128,
    /// The first one, in words.
    pub why: Option<String>,
}

impl Unexplained {
    fn item(&mut self, item: &Item, vocabulary: &Vocabulary) {
        match vocabulary.words[item.word as usize].verb {
            Verb::Compute => {}
            Verb::Send(_) => {
                self.ends += 1;
                self.bytes += u128::from(item.values[0]);
            }
            Verb::Receive(..) => self.ends += 1,
            Verb::Collective(..) => self.calls += 1,
        }
    }

    /// Adds those of a class.
    pub fn add(&mut self, other: Unexplained) {
        self.ends += other.ends;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.why = self.why.take().or(other.why);
    }

    fn is_more_than(&self, other: &Unexplained) -> bool {
        (self.ends + self.calls, self.bytes) > (other.ends + other.calls, other.bytes)
    }
}

/// The ranks of a class have one text.
#[derive(Debug)]
pub struct Class {
    /// With its loops, where their rounds change with the number of ranks.
    pub shape: Shape,
    /// Its places.
    pub slots: Vec<Slot>,
    /// Rounds of its loops.
    pub rounds: Vec<Number>,
    /// What does not fit into it.
    pub unexplained: Unexplained,
}

/// What a class is made of.
pub struct Source<'a> {
    /// In the order of their ranks.
    pub recordings: &'a [&'a Recording],
    /// Theirs.
    pub grids: &'a [Grid],
    /// Words.
    pub vocabulary: &'a Vocabulary,
    /// On these grids.
    pub tokens: &'a Tokens,
}

impl Class {
    /// The class of these ranks, each with the index of its recording.
    pub fn of(source: &Source<'_>, members: &[(usize, u32)]) -> Class {
        let list = |&(recording, rank): &(usize, u32)| source.tokens.lists[recording][rank as usize].as_slice();
        // The longest text shows all loops.
        let pattern = members.iter().max_by_key(|member| (list(member).len(), member.0, std::cmp::Reverse(member.1)));
        let Some(pattern) = pattern.copied() else { return Class::with(source, &[], Shape::default()) };
        let mut ordered = vec![pattern];
        ordered.extend(members.iter().rev().filter(|member| **member != pattern));
        let flat = Class::with(source, &ordered, Shape::flat(list(&pattern)));
        if flat.unexplained.why.is_none() {
            return flat;
        }
        let folded = Class::with(source, &ordered, Shape::folded(list(&pattern)));
        if flat.unexplained.is_more_than(&folded.unexplained) { folded } else { flat }
    }

    fn with(source: &Source<'_>, members: &[(usize, u32)], shape: Shape) -> Class {
        let mut building = Building::new(&shape, source.recordings.len());
        let mut unexplained = Unexplained::default();
        let mut followers = Vec::new();
        for &(recording, rank) in members {
            let items = source.recordings[recording].lists[rank as usize].as_slice();
            let tokens = source.tokens.lists[recording][rank as usize].as_slice();
            let Some(walk) = shape.walk(tokens) else {
                items.iter().for_each(|item| unexplained.item(item, source.vocabulary));
                let name = &source.recordings[recording].name;
                unexplained.why.get_or_insert_with(|| format!("rank {rank} of {name} has another order of calls than its like"));
                continue;
            };
            let place = source.grids[recording].place(rank);
            building.take(recording, &place, items, tokens, &walk);
            followers.push((recording, rank, walk));
        }
        let (slots, rounds, broken) = building.finish(source.vocabulary);
        // What one rank does, once, is no pattern.
        let is_alone = followers.len() == 1;
        for (recording, rank, walk) in followers {
            for (item, (slot, _)) in source.recordings[recording].lists[rank as usize].iter().zip(&walk.visits) {
                let slot = &slots[*slot as usize];
                if broken || slot.has_partner && (slot.partner.is_none() || is_alone) {
                    unexplained.item(item, source.vocabulary);
                    let name = &source.recordings[recording].name;
                    unexplained.why.get_or_insert_with(|| match (broken, is_alone) {
                        (true, _) => format!("how often a loop of rank {rank} of {name} runs"),
                        (_, true) => format!("rank {rank} of {name} is the only one in such a place; record at one more number of ranks"),
                        _ => format!("why rank {rank} of {name} has to do with rank {}", item.partner),
                    });
                }
            }
        }
        Class { shape, slots, rounds, unexplained }
    }
}

/// A class while its ranks are looked at.
struct Building {
    slots: Vec<Candidate>,
    rounds: Vec<Vec<(GridRank, i64)>>,
}

#[derive(Clone)]
struct Candidate {
    token: u32,
    first: Option<u32>,
    second: Option<u32>,
    partners: Option<Vec<Partner>>,
    has_partner: bool,
    waits: Vec<(GridRank, u32)>,
    statistics: Vec<Statistic>,
}

impl Building {
    fn new(shape: &Shape, recordings: usize) -> Building {
        let empty = Candidate {
            token: 0,
            first: None,
            second: None,
            partners: None,
            has_partner: false,
            waits: Vec::new(),
            statistics: vec![Statistic::default(); recordings],
        };
        Building { slots: vec![empty; shape.slots], rounds: vec![Vec::new(); shape.loops] }
    }

    fn take(&mut self, recording: usize, place: &GridRank, items: &[Item], tokens: &[u32], walk: &Walk) {
        for &(number, rounds) in &walk.rounds {
            let samples = &mut self.rounds[number];
            let value = i64::from(rounds);
            if samples.last().is_none_or(|(last, other)| *other != value || last.grid != place.grid || last.rank != place.rank) {
                samples.push((*place, value));
            }
        }
        // The first two rounds of the first rank say what a partner may be.
        for (item, (slot, round)) in items.iter().zip(&walk.visits) {
            let slot = &mut self.slots[*slot as usize];
            match round {
                _ if slot.partners.is_some() || item.partner == NOBODY => {}
                0 if slot.first.is_none() => slot.first = Some(item.partner),
                1 if slot.second.is_none() => slot.second = Some(item.partner),
                _ => {}
            }
        }
        for ((item, token), (slot, round)) in items.iter().zip(tokens).zip(&walk.visits) {
            let slot = &mut self.slots[*slot as usize];
            slot.token = *token;
            slot.statistics[recording].add(item.values);
            if slot.waits.last().is_none_or(|(_, waits)| *waits != item.waits) {
                slot.waits.push((*place, item.waits));
            }
            if item.partner == NOBODY {
                continue;
            }
            slot.has_partner = true;
            let (first, second) = (slot.first, slot.second);
            let partners =
                slot.partners.get_or_insert_with(|| first.map_or_else(Vec::new, |first| Partner::candidates(place, first, second)));
            partners.retain(|partner| partner.of(place, *round) == Some(item.partner));
        }
    }

    /// The places, the rounds of loops, and whether one of the numbers is not understood.
    fn finish(self, vocabulary: &Vocabulary) -> (Vec<Slot>, Vec<Number>, bool) {
        let mut broken = false;
        let mut fit = |samples: &[(GridRank, i64)]| {
            Number::fit(samples).unwrap_or_else(|| {
                broken |= !samples.is_empty();
                Number::constant(0)
            })
        };
        let rounds = self.rounds.iter().map(|samples| fit(samples)).collect();
        let mut slots = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            let all: Vec<(GridRank, &[crate::recording::Waits])> =
                slot.waits.iter().map(|(place, waits)| (*place, vocabulary.waits[*waits as usize].as_slice())).collect();
            let length = all.first().map_or(0, |(_, waits)| waits.len());
            let waits = (0..length)
                .map(|index| {
                    let of = |value: fn(&crate::recording::Waits) -> u32| -> Vec<(GridRank, i64)> {
                        all.iter().map(|(place, waits)| (*place, i64::from(value(&waits[index])))).collect()
                    };
                    (all[0].1[index].event, fit(&of(|waits| waits.back)), fit(&of(|waits| waits.count)))
                })
                .collect();
            let partner = slot.partners.and_then(|partners| partners.first().copied());
            slots.push(Slot { token: slot.token, partner, has_partner: slot.has_partner, waits, statistics: slot.statistics });
        }
        (slots, rounds, broken)
    }
}
