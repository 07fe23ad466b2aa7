//! A replay of a program at a number of ranks that nobody recorded, straight from its model.

use crate::{Observer, StudyError};
use narrows_extrapolate::{ExtrapolateError, Extrapolation, Growth, Options, extrapolate};
use narrows_output::Meter;
use narrows_trace::lines::strict;
use narrows_trace::{ReadOptions, read_metered};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Recordings, and what is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Recordings {
    /// Traces of one program, at several numbers of ranks.
    pub files: Vec<PathBuf>,
    /// Of the new program.
    pub ranks: u32,
    /// The largest share that may be left out.
    pub unexplained: f64,
    /// How computing grows; `None`: as the recordings say.
    pub growth: Option<Growth>,
}

impl Recordings {
    /// The largest share that is left out unless the user says otherwise. Our own choice.
    pub const UNEXPLAINED: f64 = 0.05;

    /// Reads them and makes the model.
    ///
    /// # Errors
    /// A file cannot be read, or there is no model.
    pub fn extrapolate(&self, observer: &dyn Observer) -> Result<Extrapolation, StudyError> {
        let read = |path: &PathBuf| -> Result<_, ExtrapolateError> {
            let name = shown(path);
            let meter = Arc::new(Meter::default());
            let _part = observer.part(format!("reading {name}"), &meter, Box::new(String::new));
            Ok((name, read_metered(path, ReadOptions::default(), &mut strict, &meter)?.program))
        };
        let options = Options { ranks: self.ranks, unexplained: self.unexplained, growth: self.growth };
        let files = self.files.iter().map(read);
        Ok(extrapolate(files, options)?)
    }

    /// How reports call it.
    pub(super) fn name(&self) -> String {
        let stem = self.files.last().and_then(|path| path.file_stem()).map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        format!("{stem} at {} ranks", self.ranks)
    }

    /// For messages: the last file.
    pub(super) fn path(&self) -> PathBuf {
        self.files.last().cloned().unwrap_or_default()
    }
}

fn shown(path: &Path) -> String {
    if narrows_output::is_standard(path) { String::from("standard input") } else { path.display().to_string() }
}

/// What is left out, as a warning; nothing where all is explained.
pub fn left_out(found: &Extrapolation) -> Option<String> {
    let [messages, calls, bytes] = found.model.findings.unexplained.map(|share| 100.0 * share);
    let some = messages > 0.0 || calls > 0.0 || bytes > 0.0;
    some.then(|| {
        format!("left out, because not explained: {messages:.2} % of the messages, {calls:.2} % of the calls, {bytes:.2} % of the bytes")
    })
}

/// Which recordings are not used, as a warning.
pub fn not_used(found: &Extrapolation) -> Option<String> {
    let names = found.aside.join(", ");
    (!names.is_empty()).then(|| format!("not used, because ranks do other things there than in larger recordings: {names}"))
}

impl From<ExtrapolateError> for StudyError {
    fn from(error: ExtrapolateError) -> StudyError {
        match error {
            ExtrapolateError::Trace(error) => StudyError::Trace(error),
            error => StudyError::Contradiction(error.to_string()),
        }
    }
}
