//! `index.csv`: every row of the list of published numbers, and where it has gone.

use super::{csv, one_of, rows};
use crate::StudyError;
use std::path::Path;

/// What becomes of a published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A figure has it.
    Figure,
    /// It waits for something that the simulator does not have yet.
    Needs,
    /// It describes, and needs no simulation.
    Describes,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 3] = [Class::Figure, Class::Needs, Class::Describes];

    /// As the file spells it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Figure => "figure",
            Class::Needs => "needs",
            Class::Describes => "describes",
        }
    }
}

/// A row of `index.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// In the file, from 1.
    pub line: usize,
    /// The name of the row.
    pub row: String,
    /// Of its document and place.
    pub document: String,
    /// In it.
    pub place: String,
    /// What it is.
    pub quantity: String,
    /// As it is printed there.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// What becomes of it.
    pub class: Class,
    /// The figures that have it, what it waits for, or why it needs no simulation.
    pub detail: String,
}

const COLUMNS: [&str; 8] = ["row", "document", "place", "quantity", "value", "unit", "class", "detail"];

/// The index of a folder of figures.
///
/// # Errors
/// It is missing or has mistakes: in which line.
pub fn load(figures: &Path) -> Result<Vec<Entry>, StudyError> {
    let path = figures.join("index.csv");
    let rows = rows(&path, &COLUMNS)?;
    let entry = |row: &csv::Row| {
        let [name, document, place, quantity, value, unit, class, detail] = row.fields.as_slice() else {
            return Err(StudyError::expected(format!("{} fields", row.fields.len()), COLUMNS.len().to_string()).at(&path, row.line));
        };
        let class = one_of("class", &Class::ALL, Class::name, class).map_err(|error| error.at(&path, row.line))?;
        if detail.is_empty() {
            return Err(StudyError::expected("detail", "a figure, what is needed, or why nothing is").at(&path, row.line));
        }
        let [row_name, document, place, quantity, value, unit, detail] =
            [name, document, place, quantity, value, unit, detail].map(String::clone);
        Ok(Entry { line: row.line, row: row_name, document, place, quantity, value, unit, class, detail })
    };
    rows.iter().map(entry).collect()
}
