//! Recordings in memory: what ranks do apart from what changes with their number.

use crate::error::{ExtrapolateError, MOST_OPERATIONS};
use narrows_trace::{Collective, CollectiveCall, Communicators, Dependency, Event, Kind, Operation, Order, Program, Totals};
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeMap;

/// What a rank does, without partners, sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// The operation.
    pub verb: Verb,
    /// Core and NIC of the rank.
    pub units: (u8, u8),
    /// Before it begins.
    pub delay: SimTime,
}

/// Operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Computing.
    Compute,
    /// A send with its tag.
    Send(u32),
    /// A receive with its tag, and whether it is from anybody.
    Receive(Option<u32>, bool),
    /// A collective with its root and element.
    Collective(Collective, u32, u64),
}

/// Operations before that are waited for, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waits {
    /// What is waited for.
    pub event: Event,
    /// How far back the first one is.
    pub back: u32,
    /// How many there are, the next one always nearer.
    pub count: u32,
}

/// An operation: 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Index in [`Vocabulary::words`].
    pub word: u32,
    /// Index in [`Vocabulary::waits`].
    pub waits: u32,
    /// The other rank, or that of no message.
    pub partner: u32,
    /// Of a collective; 0 for others.
    pub communicator: u32,
    /// Bytes of a message, picoseconds of computing, what a rank gives to a collective; what it gets.
    pub values: [u64; 2],
}

/// No other rank.
pub const NOBODY: u32 = u32::MAX;

/// Words that all recordings share.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// What is done.
    pub words: Vec<Word>,
    /// What is waited for.
    pub waits: Vec<Vec<Waits>>,
    word_numbers: BTreeMap<Word, u32>,
    wait_numbers: BTreeMap<Vec<Waits>, u32>,
    /// By `waits`: a number that those share that differ in numbers only.
    pub wait_shapes: Vec<u32>,
    shape_numbers: BTreeMap<Vec<Event>, u32>,
}

impl Vocabulary {
    fn word(&mut self, word: Word) -> u32 {
        *self.word_numbers.entry(word).or_insert_with(|| {
            self.words.push(word);
            self.words.len() as u32 - 1
        })
    }

    fn wait(&mut self, number: u64, after: &[Dependency]) -> u32 {
        let mut waits: Vec<Waits> = Vec::new();
        for dependency in after {
            let back = (number - dependency.operation) as u32;
            match waits.last_mut() {
                Some(last) if last.event == dependency.event && last.back.checked_sub(last.count) == Some(back) => last.count += 1,
                _ => waits.push(Waits { event: dependency.event, back, count: 1 }),
            }
        }
        if let Some(number) = self.wait_numbers.get(&waits) {
            return *number;
        }
        let shape = waits.iter().map(|waits| waits.event).collect();
        let next = self.shape_numbers.len() as u32;
        self.wait_shapes.push(*self.shape_numbers.entry(shape).or_insert(next));
        self.waits.push(waits.clone());
        self.wait_numbers.insert(waits, self.waits.len() as u32 - 1);
        self.waits.len() as u32 - 1
    }
}

/// A program at one number of ranks.
#[derive(Debug)]
pub struct Recording {
    /// For messages.
    pub name: String,
    /// What each rank does.
    pub lists: Vec<Vec<Item>>,
    /// Of its collectives.
    pub communicators: Communicators,
    /// Of all its operations.
    pub totals: Totals,
}

impl Recording {
    /// Its ranks.
    pub fn ranks(&self) -> u32 {
        self.lists.len() as u32
    }

    /// Reads a program to its end. `before` counts the operations of other recordings.
    ///
    /// # Errors
    /// It cannot be read, is a graph, or is too long.
    pub fn read(name: &str, program: &mut dyn Program, vocabulary: &mut Vocabulary, before: u64) -> Result<Recording, ExtrapolateError> {
        if program.order() != Order::Sequential {
            return Err(ExtrapolateError::NotSequential(name.to_owned()));
        }
        let mut totals = Totals::default();
        let mut lists = Vec::with_capacity(program.ranks() as usize);
        let mut after = Vec::new();
        for rank in 0..program.ranks() {
            let mut list = Vec::new();
            while let Some(operation) = program.next(rank, &mut after)? {
                totals.add(&operation);
                if before + totals.operations > MOST_OPERATIONS {
                    return Err(ExtrapolateError::TooLong { name: name.to_owned() });
                }
                list.push(item(&operation, vocabulary, list.len() as u64, &after));
            }
            lists.push(list);
        }
        Ok(Recording { name: name.to_owned(), lists, communicators: program.communicators().clone(), totals })
    }
}

fn item(operation: &Operation, vocabulary: &mut Vocabulary, number: u64, after: &[Dependency]) -> Item {
    let (verb, partner, communicator, values) = match operation.kind {
        Kind::Compute { duration } => (Verb::Compute, NOBODY, 0, [duration.0, 0]),
        Kind::Send { to, bytes, tag } => (Verb::Send(tag), to, 0, [bytes.0, 0]),
        Kind::Receive { from, bytes, tag } => (Verb::Receive(tag, from.is_none()), from.unwrap_or(NOBODY), 0, [bytes.0, 0]),
        Kind::Collective(call) => {
            let verb = Verb::Collective(call.operation, call.root, call.element.0);
            (verb, NOBODY, call.communicator, [call.send.0, call.receive.0])
        }
    };
    let word = vocabulary.word(Word { verb, units: (operation.cpu, operation.nic), delay: operation.delay });
    Item { word, waits: vocabulary.wait(number, after), partner, communicator, values }
}

impl Word {
    /// The operation with a partner, a communicator and values.
    pub fn operation(self, partner: Option<u32>, communicator: u32, values: [u64; 2]) -> Operation {
        let kind = match self.verb {
            Verb::Compute => Kind::Compute { duration: SimTime(values[0]) },
            Verb::Send(tag) => Kind::Send { to: partner.unwrap_or(0), bytes: Bytes(values[0]), tag },
            Verb::Receive(tag, any) => Kind::Receive { from: partner.filter(|_| !any), bytes: Bytes(values[0]), tag },
            Verb::Collective(operation, root, element) => Kind::Collective(CollectiveCall {
                operation,
                communicator,
                root,
                send: Bytes(values[0]),
                receive: Bytes(values[1]),
                element: Bytes(element),
            }),
        };
        Operation { kind, delay: self.delay, cpu: self.units.0, nic: self.units.1 }
    }
}
