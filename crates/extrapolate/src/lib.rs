//! From recordings of a program at several numbers of ranks to its trace at a number that nobody ran.
//!
//! | module | what it does |
//! |---|---|
//! | [`recording`] | recordings as lists of words, partners and values |
//! | [`grid`] | which grid the ranks make, and which ranks do the same: corners, edges, faces, the inside |
//! | [`tokens`] | communicators as rows and planes of the grid; operations without partners and numbers |
//! | [`shape`] | loops, where their rounds change |
//! | [`partner`], [`number`], [`scale`] | partners, counts, sizes and times as functions of a rank's place |
//! | [`class`], [`model`] | one text for the ranks that do the same; which grid explains most |
//! | [`program`] | the operations of the new program, made as they are asked for |
//!
//! ```
//! use narrows_extrapolate::{Growth, Options, extrapolate};
//! use narrows_trace::generate::{Generated, Parameters, Pattern};
//! use narrows_trace::Program;
//!
//! let halo = |ranks| {
//!     let parameters = Parameters { ranks, steps: 3, bytes: None, cells: None, compute: None };
//!     let program: Box<dyn Program> = Box::new(Generated::new(Pattern::Halo3d, parameters).unwrap());
//!     (format!("{ranks} ranks"), program)
//! };
//! let recordings = [8, 16, 32, 64].map(halo).into_iter().map(Ok);
//! let found = extrapolate(recordings, Options { ranks: 4096, unexplained: 0.05, growth: None }).unwrap();
//! assert_eq!(found.totals.messages, 4096 * 3 * 6);
//! assert_eq!(found.model.findings.growth, Some(Growth::Weak));
//! assert_eq!(found.check.unwrap().messages, 0.0);
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod class;
mod error;
pub mod grid;
pub mod model;
pub mod number;
pub mod partner;
pub mod program;
pub mod recording;
pub mod scale;
pub mod shape;
pub mod tokens;

pub use error::{ExtrapolateError, MOST_OPERATIONS, MOST_RANKS};
pub use model::{Findings, Model, Options};
pub use program::Extrapolated;
pub use scale::Growth;

use narrows_trace::{Program, Totals};
use recording::{Recording, Vocabulary};
use std::sync::Arc;

/// A model, and what is known of it.
#[derive(Debug)]
pub struct Extrapolation {
    /// For the new number of ranks.
    pub model: Arc<Model>,
    /// Of the new program.
    pub totals: Totals,
    /// Small recordings that are not used: in them ranks do other things than in the larger ones.
    pub aside: Vec<String>,
    /// `None`: the recordings are too few, or too different, to do without one of them.
    pub check: Option<Check>,
}

/// A recording that was left out, and what the model of the others says instead: relative errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Which recording.
    pub name: String,
    /// Its ranks.
    pub ranks: u32,
    /// Of the number of messages.
    pub messages: f64,
    /// Of their bytes.
    pub bytes: f64,
    /// Of the parts in collectives.
    pub calls: f64,
    /// Of the computing of all ranks.
    pub computing: f64,
}

/// Reads recordings of a program, each with a name for messages, and makes its model at another number of ranks.
///
/// # Errors
/// See [`ExtrapolateError`].
pub fn extrapolate<P: Program>(
    programs: impl IntoIterator<Item = Result<(String, P), ExtrapolateError>>,
    options: Options,
) -> Result<Extrapolation, ExtrapolateError> {
    let mut vocabulary = Vocabulary::default();
    let (mut recordings, mut before) = (Vec::new(), 0);
    for program in programs {
        let (name, mut program) = program?;
        let recording = Recording::read(&name, &mut program, &mut vocabulary, before)?;
        before += recording.totals.operations;
        recordings.push(recording);
    }
    recordings.sort_by_key(Recording::ranks);
    let all: Vec<&Recording> = recordings.iter().collect();
    if options.ranks > MOST_RANKS {
        return Err(ExtrapolateError::TooMany(options.ranks));
    }
    let largest = all.last().map_or(0, |recording| recording.ranks());
    let is_recorded = all.iter().any(|recording| recording.ranks() == options.ranks);
    if options.ranks < largest && !is_recorded && all.len() > 1 {
        return Err(ExtrapolateError::Smaller { asked: options.ranks, largest });
    }
    let (model, first) = of_the_larger(&all, &vocabulary, options)?;
    let model = Arc::new(model);
    let totals = model.totals()?;
    let (aside, used) = all.split_at(first);
    let check = (0..used.len()).rev().find_map(|left_out| check(used, left_out, &vocabulary, options));
    let aside = aside.iter().map(|recording| recording.name.clone()).collect();
    Ok(Extrapolation { model, totals, aside, check })
}

/// The model, and the first recording that it is made of: where two ranks stand side by side programs do other things
/// than on larger grids, such as one exchange with a neighbour that is on both sides.
fn of_the_larger(all: &[&Recording], vocabulary: &Vocabulary, options: Options) -> Result<(Model, usize), ExtrapolateError> {
    let whole = match Model::of(all, vocabulary, options) {
        Err(error @ ExtrapolateError::Unexplained { .. }) => error,
        other => return Ok((other?, 0)),
    };
    let is_recorded = |recording: &&Recording| recording.ranks() == options.ranks;
    for first in 1..all.len().saturating_sub(1) {
        if all[..first].iter().any(is_recorded) {
            break;
        }
        if let Ok(model) = Model::of(&all[first..], vocabulary, options) {
            return Ok((model, first));
        }
    }
    Err(whole)
}

/// How wrong the others are about one of the recordings, if they say anything about it. Where the largest one has
/// places that no other has (the inside of a grid), it is a smaller one.
fn check(all: &[&Recording], left_out: usize, vocabulary: &Vocabulary, options: Options) -> Option<Check> {
    let mut others = all.to_vec();
    let known = others.remove(left_out);
    let options = Options { ranks: known.ranks(), ..options };
    if others.len() < 2 {
        return None;
    }
    let found = Arc::new(Model::of(&others, vocabulary, options).ok()?).totals().ok()?;
    let error = |found: f64, known: f64| if found == known { 0.0 } else { found / known.max(1.0) - 1.0 };
    let totals = known.totals;
    Some(Check {
        name: known.name.clone(),
        ranks: known.ranks(),
        messages: error(found.messages as f64, totals.messages as f64),
        bytes: error(found.bytes as f64, totals.bytes as f64),
        calls: error(found.calls as f64, totals.calls as f64),
        computing: error(found.computing as f64, totals.computing as f64),
    })
}
