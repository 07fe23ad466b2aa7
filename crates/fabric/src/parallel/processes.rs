//! A simulation that several processes share: each has a part of the regions, and all do the same in the same order.
//!
//! Whatever they have to tell each other goes in rounds: everybody gives everybody else a message, and goes on when he
//! has one of each. So an error in one process ends all: it is what that process says in its next round
//! ([`Processes::fail`]), and nobody waits for what will not come.

use super::effects::Mailbox;
use super::part::LogicalProcess;
use super::windows::News;
use super::{Agent, lock};
use narrows_engine::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// How messages get from process to process: MPI's part.
pub trait Exchange: Send + Sync + Debug {
    /// The number of this process, from 0.
    fn process(&self) -> u32;

    /// How many there are.
    fn processes(&self) -> u32;

    /// Gives each process the message at its place, and puts there what comes from it; that at the own place stays.
    /// Called by one thread at a time.
    ///
    /// # Errors
    /// Why the processes cannot talk any more.
    fn exchange(&self, messages: &mut [Vec<u8>]) -> Result<(), ExchangeError>;
}

/// All processes, as one of them sees them.
#[derive(Clone, Debug)]
pub struct Processes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    exchange: Box<dyn Exchange>,
    messages: Mutex<Vec<Vec<u8>>>,
    /// An error has been told.
    over: AtomicBool,
}

/// Why a simulation of several processes ends in all of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// One of them had an error.
    #[error("process {process}: {text}")]
    Failed {
        /// Which, the first of several.
        process: u32,
        /// The exit code that it asks for.
        code: u8,
        /// What it said.
        text: String,
    },
    /// Wrong bytes.
    #[error("process {process} sent bytes that mean nothing here: start the same narrows, on hosts of the same kind, in all processes")]
    Unreadable {
        /// Who sent them.
        process: u32,
    },
    /// Nothing comes any more.
    #[error("the processes of this simulation cannot talk any more: {0}")]
    Silent(#[from] ExchangeError),
}

/// Why processes cannot talk any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// One of them has ended.
    #[error("process {0} is gone")]
    Gone(usize),
    /// More bytes for one process than a message of MPI takes.
    #[error("{0} bytes for one process at once are too many: more processes have fewer each")]
    TooLong(usize),
    /// One of them has failed without a word.
    #[error("one of them has an error, and does not say which")]
    Unsaid,
}

/// Bytes that are no such value, or a value that does not fit.
#[derive(Debug)]
pub(super) struct Garbled;

/// Appends a value.
fn put<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    *out = postcard::to_extend(value, std::mem::take(out)).expect("there is room, and lists know their lengths");
}

/// Takes a value from the front.
fn get<T: DeserializeOwned>(from: &mut &[u8]) -> Result<T, Garbled> {
    let (value, rest) = postcard::take_from_bytes(from).map_err(|_| Garbled)?;
    *from = rest;
    Ok(value)
}

/// A value, after which there is nothing.
fn get_all<T: DeserializeOwned>(mut from: &[u8]) -> Result<T, Garbled> {
    let value = get(&mut from)?;
    if from.is_empty() { Ok(value) } else { Err(Garbled) }
}

/// How a message begins: all is well, or the last words of its sender.
const WELL: u8 = 0;
const FAILED: u8 = 1;

/// The end of a message, which says whether it is whole.
fn seal(message: &mut Vec<u8>) {
    let sum = sum(message);
    message.extend_from_slice(&sum.to_le_bytes());
}

fn sum(bytes: &[u8]) -> u64 {
    let mut digest = Digest::default();
    let (words, rest) = bytes.as_chunks();
    words.iter().for_each(|&word| digest.word(u64::from_le_bytes(word)));
    rest.iter().for_each(|&byte| digest.word(u64::from(byte)));
    digest.word(bytes.len() as u64);
    digest.value()
}

/// How a sealed message begins, and what it says.
fn opened(message: &[u8]) -> Result<(u8, &[u8]), Garbled> {
    let (body, seal) = message.split_last_chunk().ok_or(Garbled)?;
    if u64::from_le_bytes(*seal) != sum(body) {
        return Err(Garbled);
    }
    let (&begins, rest) = body.split_first().ok_or(Garbled)?;
    Ok((begins, rest))
}

/// Processes that are threads of one, for tests.
#[derive(Debug)]
struct Threads {
    process: u32,
    /// By process.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl Exchange for Threads {
    fn process(&self) -> u32 {
        self.process
    }

    fn processes(&self) -> u32 {
        self.to.len() as u32
    }

    fn exchange(&self, messages: &mut [Vec<u8>]) -> Result<(), ExchangeError> {
        for (process, (to, message)) in self.to.iter().zip(messages.iter_mut()).enumerate() {
            to.send(std::mem::take(message)).map_err(|_| ExchangeError::Gone(process))?;
        }
        for (process, (from, message)) in self.from.iter().zip(messages).enumerate() {
            *message = lock(from).recv().map_err(|_| ExchangeError::Gone(process))?;
        }
        Ok(())
    }
}

impl Processes {
    /// So many, each for a thread of its own: for tests.
    pub fn of_threads(count: u32) -> Vec<Processes> {
        let (mut to, mut from): (Vec<Vec<_>>, Vec<Vec<_>>) = ((0..count).map(|_| Vec::new()).collect(), Vec::new());
        for _ in 0..count {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
            to.iter_mut().zip(senders).for_each(|(to, sender)| to.push(sender));
            from.push(receivers.into_iter().map(Mutex::new).collect());
        }
        let all = (0..).zip(to.into_iter().zip(from));
        all.map(|(process, (to, from))| Processes::new(Box::new(Threads { process, to, from }))).collect()
    }

    /// Those between which messages go so.
    pub fn new(exchange: Box<dyn Exchange>) -> Processes {
        let messages = (0..exchange.processes()).map(|_| Vec::new()).collect();
        Processes(Arc::new(Inner { exchange, messages: Mutex::new(messages), over: AtomicBool::new(false) }))
    }

    /// The number of this one.
    pub fn process(&self) -> u32 {
        self.0.exchange.process()
    }

    /// This one speaks for all.
    pub fn is_first(&self) -> bool {
        self.process() == 0
    }

    /// How many there are, at least 1.
    pub fn count(&self) -> u32 {
        self.0.exchange.processes()
    }

    /// A round. `put` writes what a process is told, `get` reads what it says; both are asked for this process, too.
    ///
    /// # Errors
    /// See [`ProcessError`].
    fn round(&self, put: impl FnMut(u32, &mut Vec<u8>), mut get: impl FnMut(&[u8]) -> Result<(), Garbled>) -> Result<(), ProcessError> {
        self.exchange(WELL, put, |messages| {
            for (process, message) in (0..).zip(messages) {
                let read = opened(message).and_then(|(_, said)| get(said));
                read.map_err(|Garbled| ProcessError::Unreadable { process })?;
            }
            Ok(())
        })
    }

    fn exchange(
        &self,
        begins: u8,
        mut put: impl FnMut(u32, &mut Vec<u8>),
        get: impl FnOnce(&[Vec<u8>]) -> Result<(), ProcessError>,
    ) -> Result<(), ProcessError> {
        let mut messages = lock(&self.0.messages);
        for (process, message) in (0..).zip(messages.iter_mut()) {
            message.clear();
            message.push(begins);
            put(process, message);
            seal(message);
        }
        self.0.exchange.exchange(&mut messages)?;
        for (process, message) in (0..).zip(messages.iter()) {
            if let Ok((FAILED, said)) = opened(message)
                && let Ok((code, text)) = get_all(said)
            {
                self.0.over.store(true, Ordering::Relaxed);
                return Err(ProcessError::Failed { process, code, text });
            }
        }
        get(&messages)
    }

    /// What every process has, in their order.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn gather<T: Serialize + DeserializeOwned>(&self, mine: &T) -> Result<Vec<T>, ProcessError> {
        let mut all = Vec::new();
        self.round(
            |_, message| put(mine, message),
            |said| {
                all.push(get_all(said)?);
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// The same for the first process only; for the others there is nothing.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn gather_at_first<T: Serialize + DeserializeOwned>(&self, mine: &T) -> Result<Vec<T>, ProcessError> {
        let mut all = Vec::new();
        self.round(
            |to, message| {
                if to == 0 {
                    put(mine, message);
                }
            },
            |said| {
                if self.is_first() {
                    all.push(get_all(said)?);
                }
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// Last words, with the exit code for all. Said once: who has heard those of another one has nothing to add.
    pub fn fail(&self, code: u8, text: &str) {
        if !self.0.over.load(Ordering::Relaxed) {
            // Whoever hears it ends by it; whether they do is their part.
            let _ = self.exchange(FAILED, |_, message| put(&(code, text), message), |_| Ok(()));
        }
    }
}

/// Writes a letter.
type Put<L> = fn(&L, &mut Vec<u8>);
/// Reads a letter.
type Get<L> = fn(&mut &[u8]) -> Result<L, Garbled>;

/// Where the regions of a network are.
#[derive(Debug)]
pub(super) struct Spread<L> {
    pub(super) processes: Processes,
    regions: u32,
    put: Put<L>,
    get: Get<L>,
}

impl<L> Spread<L> {
    pub(super) fn new(processes: Processes, regions: u32) -> Self
    where
        L: Serialize + DeserializeOwned,
    {
        Spread { processes, regions, put: put::<L>, get: get::<L> }
    }

    /// The regions of a process: about as many for each, one at least.
    pub(super) fn of(&self, process: u32) -> std::ops::Range<u32> {
        let first = |process: u32| (u64::from(process) * u64::from(self.regions) / u64::from(self.processes.count())) as u32;
        first(process)..first(process + 1)
    }

    /// The process of a region.
    pub(super) fn process_of(&self, region: u32) -> u32 {
        let last = u64::from(region + 1) * u64::from(self.processes.count()) - 1;
        (last / u64::from(self.regions)) as u32
    }

    /// The end of a window: what is in the boxes of others goes to them, what they have for this one comes into its
    /// boxes, and all know what is new. No box is in use.
    pub(super) fn meet<A: Agent<Letter = L>>(
        &self,
        mine: News,
        boxes: &[Mutex<Mailbox<L>>],
        parts: &[Mutex<LogicalProcess<A>>],
    ) -> Result<News, ProcessError> {
        let here = self.processes.process();
        let own = self.of(here);
        let mut all = mine;
        self.processes.round(
            |process, message| {
                put(&mine, message);
                if process != here {
                    self.of(process).for_each(|region| self.post(region, &mut lock(&boxes[region as usize]), message));
                }
            },
            |mut said| {
                all = all.with(get(&mut said)?);
                while !said.is_empty() {
                    let region: u32 = get(&mut said)?;
                    if !own.contains(&region) {
                        return Err(Garbled);
                    }
                    let part = lock(&parts[(region - own.start) as usize]);
                    self.deliver(&mut said, &mut lock(&boxes[region as usize]), &part)?;
                }
                Ok(())
            },
        )?;
        Ok(all)
    }

    fn post(&self, region: u32, mailbox: &mut Mailbox<L>, message: &mut Vec<u8>) {
        if mailbox.is_empty() {
            return;
        }
        put(&region, message);
        for plane in &mut mailbox.planes {
            put(&(&plane.packets, &plane.notes, &plane.flying), message);
            plane.packets.clear();
            plane.notes.clear();
            plane.flying.clear();
        }
        put(&mailbox.letters.len(), message);
        for (host, letter) in mailbox.letters.drain(..) {
            put(&host, message);
            (self.put)(&letter, message);
        }
    }

    fn deliver<A: Agent<Letter = L>>(&self, said: &mut &[u8], mailbox: &mut Mailbox<L>, part: &LogicalProcess<A>) -> Result<(), Garbled> {
        for (number, plane) in mailbox.planes.iter_mut().enumerate() {
            let (mut packets, mut notes, mut flying) = get(said)?;
            plane.packets.append(&mut packets);
            plane.notes.append(&mut notes);
            plane.flying.append(&mut flying);
            if !part.planes.takes(number, plane) {
                return Err(Garbled);
            }
        }
        for _ in 0..get::<usize>(said)? {
            let host = get(said)?;
            let letter = (self.get)(said)?;
            if !part.has(host) || !part.effects.agent.takes(host, &letter) {
                return Err(Garbled);
            }
            mailbox.letters.push((host, letter));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::region::Note;
    use crate::packet::state::Packet;
    use proptest::prelude::*;

    /// What each of so many processes makes of it.
    fn each<R: Send>(count: u32, what: impl Fn(Processes) -> R + Sync) -> Vec<R> {
        let what = &what;
        std::thread::scope(|scope| {
            let threads: Vec<_> = Processes::of_threads(count).into_iter().map(|one| scope.spawn(move || what(one))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn everybody_hears_everybody() {
        let all = each(3, |processes| {
            let gathered = processes.gather(&(processes.process() * 7)).unwrap();
            (gathered, processes.gather_at_first(&u64::from(processes.process())).unwrap())
        });
        let gathered = vec![0, 7, 14];
        assert_eq!(all, [(gathered.clone(), vec![0, 1, 2]), (gathered.clone(), vec![]), (gathered, vec![])]);
    }

    /// The first of those that fail is the one whose words all have; who has heard it says nothing more.
    #[test]
    fn last_words_reach_all_and_end_all() {
        let all = each(4, |processes| {
            processes.gather(&1u32).unwrap();
            if processes.process() % 2 == 1 {
                processes.fail(3, &format!("out of {}", processes.process()));
                return None;
            }
            let error = processes.gather(&2u32).unwrap_err();
            processes.fail(5, "nobody would hear it");
            Some(error)
        });
        let failed = Some(ProcessError::Failed { process: 1, code: 3, text: String::from("out of 1") });
        assert_eq!(all, [failed.clone(), None, failed, None]);
    }

    #[derive(Debug)]
    struct Broken(fn(&mut Vec<u8>));

    impl Exchange for Broken {
        fn process(&self) -> u32 {
            0
        }
        fn processes(&self) -> u32 {
            2
        }
        fn exchange(&self, messages: &mut [Vec<u8>]) -> Result<(), ExchangeError> {
            messages[1] = messages[0].clone();
            (self.0)(&mut messages[1]);
            Ok(())
        }
    }

    #[test]
    fn what_was_damaged_on_its_way_is_told() {
        let damages: [fn(&mut Vec<u8>); 4] = [Vec::clear, |bytes| bytes.truncate(7), |bytes| bytes[2] ^= 4, |bytes| bytes.push(0)];
        for damage in damages {
            let found = Processes::new(Box::new(Broken(damage))).gather(&vec![1u64, 2]).unwrap_err();
            assert_eq!(found, ProcessError::Unreadable { process: 1 });
        }
        assert!(Processes::new(Box::new(Broken(|_| ()))).gather(&vec![1u64, 2]).is_ok());
    }

    proptest! {
        /// Whatever comes is a value or an error.
        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = get_all::<(Vec<Packet>, Vec<Note>)>(&bytes);
            let _ = get_all::<Vec<(u32, Option<String>)>>(&bytes);
        }

        /// No bit can turn, and nothing be cut off.
        #[test]
        fn a_seal_breaks(body in prop::collection::vec(any::<u8>(), 1..80), at: prop::sample::Index, bit in 0u8..8) {
            let mut message = body.clone();
            seal(&mut message);
            prop_assert_eq!(opened(&message).unwrap(), (body[0], &body[1..]));
            prop_assert!(opened(&message[..at.index(message.len())]).is_err());
            let at = at.index(message.len());
            message[at] ^= 1 << bit;
            prop_assert!(opened(&message).is_err());
        }
    }
}
