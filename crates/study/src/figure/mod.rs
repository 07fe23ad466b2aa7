//! Published figures as tests: `figures/ID/` says what to simulate and what a document has, and the simulator says what
//! it has.
//!
//! * [`Figure`] — a folder, read: its cases ([`Case`]), its quantities ([`expression`]) and what is expected
//!   ([`Expected`]).
//! * [`Row`] — a quantity beside its simulated value, with the verdict.
//! * [`NullModel`] — the machine without what a row tests: a row that agrees there too is no test.
//! * [`index`] — where each row of the list of published numbers has gone.
//! * [`page`] — rows as a page with pictures.
//!
//! docs/figures.md says what the files look like.

mod case;
mod csv;
pub mod expression;
pub mod index;
mod null;
pub mod page;

pub use case::{Case, Sort};
pub use null::NullModel;

use crate::{Observer, StudyError};
use expression::Measures;
use narrows_output::Meter;
use narrows_results::{Column, Table};
use serde::Deserialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;

/// How long a figure takes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Duration {
    /// Some seconds.
    #[default]
    Seconds,
    /// Minutes: left out when it has to be quick.
    Minutes,
}

impl Duration {
    /// As files and lists spell it.
    pub fn name(self) -> &'static str {
        match self {
            Duration::Seconds => "seconds",
            Duration::Minutes => "minutes",
        }
    }
}

/// How a simulated value should stand to the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal to it.
    Equal,
    /// At least that.
    AtLeast,
    /// At most that.
    AtMost,
}

impl Relation {
    const ALL: [Relation; 3] = [Relation::Equal, Relation::AtLeast, Relation::AtMost];

    /// As files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::AtLeast => ">=",
            Relation::AtMost => "<=",
        }
    }
}

/// Where a simulated value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obtained {
    /// It is in the machine file.
    Input,
    /// A constant of the machine was fitted to this value.
    Calibrated,
    /// Nothing was fitted to it, but a size, a reading, a tolerance or a choice of runs was made with it in view.
    Informed,
    /// Nothing was made with it in view.
    Predicted,
}

impl Obtained {
    /// All, in the order of what they are worth.
    pub const ALL: [Obtained; 4] = [Obtained::Input, Obtained::Calibrated, Obtained::Informed, Obtained::Predicted];

    /// As files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Obtained::Input => "input",
            Obtained::Calibrated => "calibrated",
            Obtained::Informed => "informed",
            Obtained::Predicted => "predicted",
        }
    }
}

/// How a comparison ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Beyond it.
    Differs,
    /// Within it, and the null model is so too.
    NoTest,
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::Agrees, Verdict::Differs, Verdict::NoTest];

    /// As files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NoTest => "no test",
        }
    }
}

/// A line of `expected.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// In `expected.csv`, from 1.
    pub line: usize,
    /// Row of the list of published numbers; may be empty.
    pub row: String,
    /// What it is; a key of `[quantity]`.
    pub quantity: String,
    /// In this unit.
    pub unit: String,
    /// How the simulated value should stand to the published one.
    pub relation: Relation,
    /// The document's value.
    pub published: f64,
    /// In the unit.
    pub tolerance: f64,
    /// Where the simulated value comes from.
    pub obtained: Obtained,
    /// What was fitted, to what; what is informed says by what.
    pub fitted: String,
    /// The null model: one of the figure's; none for what is an input.
    pub null: Option<String>,
    /// The verdict that is known today.
    pub verdict: Verdict,
    /// Why it is that one, where it is not plain.
    pub reason: String,
    /// The document.
    pub document: String,
    /// The place in it.
    pub place: String,
}

/// A figure, read and checked but not run.
#[derive(Debug)]
pub struct Figure {
    /// The name of its folder.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How it is reproduced, and what is not as in the source.
    pub about: String,
    /// How long it takes.
    pub duration: Duration,
    /// What is expected.
    pub expected: Vec<Expected>,
    folder: PathBuf,
    /// By name.
    cases: BTreeMap<String, Written>,
    /// By name, with their lines.
    quantities: BTreeMap<String, (usize, String)>,
    /// By name.
    nulls: BTreeMap<String, NullModel>,
}

/// A case as the file has it.
#[derive(Clone, Debug)]
struct Written {
    line: usize,
    sort: Sort,
    keys: toml::Table,
}

/// A quantity beside its simulated value.
#[derive(Clone, Debug)]
pub struct Row {
    /// The figure.
    pub figure: String,
    /// What is expected.
    pub expected: Expected,
    /// What came out.
    pub simulated: f64,
    /// What the null model has, if it ran; not a number where it has no such value.
    pub without: Option<f64>,
    /// What that means. Where the null model did not run, a row that agrees is taken for no test if it is known as one.
    pub verdict: Verdict,
}

/// `figure.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    title: String,
    about: String,
    #[serde(default)]
    takes: Duration,
    #[serde(default)]
    topology: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    traffic: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    replay: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    trace: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    phy: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    ip: BTreeMap<String, Spanned<toml::Table>>,
    #[serde(default)]
    spin: BTreeMap<String, Spanned<toml::Table>>,
    quantity: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    null: BTreeMap<String, Spanned<NullModel>>,
}

/// The columns of `expected.csv`.
const COLUMNS: [&str; 13] = [
    "row",
    "quantity",
    "unit",
    "relation",
    "published",
    "tolerance",
    "obtained",
    "fitted",
    "null",
    "verdict",
    "reason",
    "document",
    "place",
];

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].bytes().filter(|&byte| byte == b'\n').count() + 1
}

fn read(path: &Path) -> Result<String, StudyError> {
    std::fs::read_to_string(path).map_err(|error| StudyError::Read { path: path.to_owned(), error })
}

/// The rows of a table below the names of its columns.
fn rows(path: &Path, columns: &[&str]) -> Result<Vec<csv::Row>, StudyError> {
    let mut rows = csv::parse(&read(path)?).map_err(|(line, error)| error.at(path, line))?;
    match rows.first() {
        Some(names) if names.fields == columns => {
            rows.remove(0);
            Ok(rows)
        }
        _ => Err(StudyError::Contradiction(format!("expected the names of the columns: {}", columns.join(","))).at(path, 1)),
    }
}

/// The names of all figures in a folder, in their order.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<String>, StudyError> {
    let wrong = |error| StudyError::Read { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if entry.path().is_dir() {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// One of a few names.
fn one_of<T: Copy>(column: &str, all: &[T], name: fn(T) -> &'static str, text: &str) -> Result<T, StudyError> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(" or ");
    found.ok_or_else(|| StudyError::expected(format!("{column} \"{text}\""), names()))
}

fn number(column: &str, text: &str) -> Result<f64, StudyError> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| StudyError::expected(format!("{column} \"{text}\""), "a number"))
}

impl Expected {
    fn parse(line: usize, fields: &[String]) -> Result<Expected, StudyError> {
        let [row, quantity, unit, relation, published, tolerance, obtained, fitted, null, verdict, reason, document, place] = fields else {
            let expected = format!("{} ({})", COLUMNS.len(), COLUMNS.join(","));
            return Err(StudyError::expected(format!("{} fields", fields.len()), expected));
        };
        let published = number("published", published)?;
        let tolerance = match tolerance.strip_suffix('%') {
            Some(percent) => number("tolerance", percent.trim())? / 100.0 * published.abs(),
            None => number("tolerance", tolerance)?,
        };
        if tolerance < 0.0 {
            return Err(StudyError::expected("tolerance", "0 or more"));
        }
        let obtained = one_of("obtained", &Obtained::ALL, Obtained::name, obtained)?;
        let verdict = one_of("verdict", &Verdict::ALL, Verdict::name, verdict)?;
        let needs = [
            (
                fitted.is_empty() == matches!(obtained, Obtained::Calibrated | Obtained::Informed),
                "fitted: what is calibrated or informed says by what, and what is input or predicted says nothing",
            ),
            (verdict != Verdict::Agrees && reason.is_empty(), "reason: what differs, or is no test, says why"),
            (verdict == Verdict::NoTest && obtained == Obtained::Input, "verdict: an input agrees or differs"),
            (!null.is_empty() && obtained == Obtained::Input, "null: an input has no null model"),
            (document.is_empty() || place.is_empty(), "document and place: expected where the published value stands"),
        ];
        if let Some((_, why)) = needs.into_iter().find(|(wrong, _)| *wrong) {
            return Err(StudyError::contradiction(why));
        }
        Ok(Expected {
            line,
            row: row.clone(),
            quantity: quantity.clone(),
            unit: unit.clone(),
            relation: one_of("relation", &Relation::ALL, Relation::name, relation)?,
            published,
            tolerance,
            obtained,
            fitted: fitted.clone(),
            null: Some(null.clone()).filter(|name| !name.is_empty()),
            verdict,
            reason: reason.clone(),
            document: document.clone(),
            place: place.clone(),
        })
    }

    /// What a simulated value means.
    pub fn judge(&self, simulated: f64) -> Verdict {
        // The tolerance itself is within it, however its sum was rounded.
        let within = self.tolerance + 1e-12 * self.published.abs();
        let agrees = match self.relation {
            Relation::Equal => (simulated - self.published).abs() <= within,
            Relation::AtLeast => simulated >= self.published - within,
            Relation::AtMost => simulated <= self.published + within,
        };
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

impl Figure {
    /// The figure `id` of a folder of figures.
    ///
    /// # Errors
    /// A file is missing or has mistakes: which one, and in which line.
    pub fn load(figures: &Path, id: &str) -> Result<Figure, StudyError> {
        let folder = figures.join(id);
        if !folder.is_dir() {
            let known = list(figures)?.join(", ");
            return Err(StudyError::Figure { id: id.to_owned(), folder: figures.to_owned(), known });
        }
        let path = folder.join("figure.toml");
        let text = read(&path)?;
        let description: Description = toml::from_str(&text).map_err(|error| {
            let line = line_of(&text, error.span().map_or(0, |span| span.start));
            StudyError::Contradiction(error.message().lines().collect::<Vec<_>>().join("; ")).at(&path, line)
        })?;
        let Description { title, about, takes, topology, traffic, replay, trace, phy, ip, spin, quantity, null } = description;
        let mut cases = BTreeMap::new();
        for (sort, written) in Sort::ALL.into_iter().zip([topology, traffic, replay, trace, phy, ip, spin]) {
            for (name, keys) in written {
                let line = line_of(&text, keys.span().start);
                let wrong = |error: StudyError| error.of(format!("case {name}")).at(&path, line);
                Case::read(sort, keys.get_ref(), &folder).map_err(wrong)?;
                if cases.insert(name.clone(), Written { line, sort, keys: keys.into_inner() }).is_some() {
                    return Err(wrong(StudyError::contradiction("there is another one of this name")));
                }
            }
        }
        let mut quantities = BTreeMap::new();
        for (name, text_of) in quantity {
            let line = line_of(&text, text_of.span().start);
            expression::check(text_of.get_ref()).map_err(|error| error.at(&path, line))?;
            quantities.insert(name, (line, text_of.into_inner()));
        }
        let mut nulls = BTreeMap::new();
        for (name, model) in null {
            let line = line_of(&text, model.span().start);
            let wrong = |error: StudyError| error.of(format!("null model {name}")).at(&path, line);
            let changed = model.get_ref().apply(&cases).map_err(wrong)?;
            for (case, Written { sort, keys, .. }) in &changed {
                Case::read(*sort, keys, &folder).map_err(|error| wrong(error.of(format!("case {case}"))))?;
            }
            nulls.insert(name, model.into_inner());
        }
        let expected = Figure::expected(&folder.join("expected.csv"), &quantities, &nulls)?;
        Ok(Figure { id: id.to_owned(), title, about, duration: takes, expected, folder, cases, quantities, nulls })
    }

    fn expected(
        path: &Path,
        quantities: &BTreeMap<String, (usize, String)>,
        nulls: &BTreeMap<String, NullModel>,
    ) -> Result<Vec<Expected>, StudyError> {
        let mut expected: Vec<Expected> = Vec::new();
        for row in rows(path, &COLUMNS)? {
            let mut one = Expected::parse(row.line, &row.fields).map_err(|error| error.at(path, row.line))?;
            if !quantities.contains_key(&one.quantity) {
                let known = quantities.keys().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
                let why = format!("no quantity \"{}\" in figure.toml; there are {known}", one.quantity);
                return Err(StudyError::Contradiction(why).at(path, row.line));
            }
            if one.obtained != Obtained::Input {
                one.null = Some(null::named(one.null.as_deref(), nulls).map_err(|error| error.at(path, row.line))?);
            }
            expected.push(one);
        }
        if expected.is_empty() {
            return Err(StudyError::contradiction("nothing is expected: a figure has a row at least").at(path, 1));
        }
        Ok(expected)
    }

    /// Its null models, by name: what each takes away.
    pub fn nulls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nulls.iter().map(|(name, model)| (name.as_str(), model.about.as_str()))
    }

    /// Runs its cases, and compares; `nulls`: runs its null models too, so that rows that cannot fail are found.
    ///
    /// # Errors
    /// A case cannot be run, or a quantity has no value: which line says so.
    pub fn run(&self, nulls: bool, observer: &dyn Observer) -> Result<Vec<Row>, StudyError> {
        let path = self.folder.join("figure.toml");
        let mut runs = Runs { figure: self, path: &path, observer, done: Vec::new() };
        let measures = runs.measures(&self.cases, "")?;
        let mut without = BTreeMap::new();
        for (name, model) in self.nulls.iter().filter(|_| nulls) {
            let changed = model.apply(&self.cases)?;
            without.insert(name.as_str(), runs.measures(&changed, &format!(" without ({name})"))?);
        }
        let rows = self.expected.iter().map(|expected| {
            let (line, text) = &self.quantities[&expected.quantity];
            let simulated = expression::value(text, &measures)
                .and_then(|value| if value.is_finite() { Ok(value) } else { Err(StudyError::contradiction("not a number").of(text)) })
                .map_err(|error| error.at(&path, *line))?;
            // What cannot be computed there (a latency of nothing) agrees with nothing.
            let number = |found| expression::value(text, found).ok().filter(|value| value.is_finite()).unwrap_or(f64::NAN);
            let of_null = |name: &String| without.get(name.as_str()).map(number);
            let without = expected.null.as_ref().and_then(of_null);
            let no_test = without.map_or(expected.verdict == Verdict::NoTest, |value| expected.judge(value) == Verdict::Agrees);
            let verdict = match expected.judge(simulated) {
                Verdict::Agrees if no_test => Verdict::NoTest,
                verdict => verdict,
            };
            Ok(Row { figure: self.id.clone(), expected: expected.clone(), simulated, without, verdict })
        });
        rows.collect()
    }
}

/// The runs of a figure. A case that a null model leaves as it is, or takes in place of another one, runs once.
struct Runs<'a> {
    figure: &'a Figure,
    path: &'a Path,
    observer: &'a dyn Observer,
    done: Vec<(Written, case::Named)>,
}

impl Runs<'_> {
    /// The measures of these cases.
    fn measures(&mut self, cases: &BTreeMap<String, Written>, note: &str) -> Result<Measures, StudyError> {
        let mut measures = Measures::new();
        for (name, written) in cases {
            let known = self.done.iter().find(|(done, _)| done.sort == written.sort && done.keys == written.keys);
            let found = match known {
                Some((_, found)) => found.clone(),
                None => self.run(name, written, note)?,
            };
            measures.extend(found.into_iter().map(|(measure, value)| (format!("{name}.{measure}"), value)));
        }
        Ok(measures)
    }

    fn run(&mut self, name: &str, written: &Written, note: &str) -> Result<case::Named, StudyError> {
        let named = Within { observer: self.observer, what: format!("{}, {name}{note}", self.figure.id) };
        let found = Case::read(written.sort, &written.keys, &self.figure.folder).and_then(|case| case.run(&self.figure.folder, &named));
        if !self.observer.goes_on() {
            return Err(StudyError::Interrupted);
        }
        let found = found.map_err(|error| error.of(format!("case {name}{note}")).at(self.path, written.line))?;
        self.done.push((written.clone(), found.clone()));
        Ok(found)
    }
}

/// Says which figure and which case it is.
struct Within<'a> {
    observer: &'a dyn Observer,
    what: String,
}

impl Observer for Within<'_> {
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        self.observer.part(format!("{}: {what}", self.what), meter, detail)
    }

    fn warning(&self, text: &str) {
        self.observer.warning(&format!("{}: {text}", self.what));
    }

    fn goes_on(&self) -> bool {
        self.observer.goes_on()
    }
}

impl Row {
    /// Whether the verdict is the one that is known.
    pub fn passes(&self) -> bool {
        self.verdict == self.expected.verdict
    }

    /// Simulated minus published.
    pub fn difference(&self) -> f64 {
        self.simulated - self.expected.published
    }
}

/// Rows as a table; its JSON is the list that `narrows reproduce --json` prints.
pub fn table(rows: &[Row]) -> Table {
    let text = |value: fn(&Row) -> &str| Column::Text(rows.iter().map(|row| value(row).to_owned()).collect());
    let number = |value: fn(&Row) -> f64| Column::Number(rows.iter().map(|row| Some(value(row))).collect());
    Table::new(vec![
        ("id", text(|row| &row.figure)),
        ("row", text(|row| &row.expected.row)),
        ("quantity", text(|row| &row.expected.quantity)),
        ("unit", text(|row| &row.expected.unit)),
        ("relation", text(|row| row.expected.relation.name())),
        ("published", number(|row| row.expected.published)),
        ("simulated", number(|row| row.simulated)),
        ("without", Column::Number(rows.iter().map(|row| row.without.filter(|value| value.is_finite())).collect())),
        ("difference", number(Row::difference)),
        ("tolerance", number(|row| row.expected.tolerance)),
        ("verdict", text(|row| row.verdict.name())),
        ("expected_verdict", text(|row| row.expected.verdict.name())),
        ("obtained", text(|row| row.expected.obtained.name())),
        ("fitted", text(|row| &row.expected.fitted)),
        ("null", text(|row| row.expected.null.as_deref().unwrap_or(""))),
        ("reason", text(|row| &row.expected.reason)),
        ("document", text(|row| &row.expected.document)),
        ("place", text(|row| &row.expected.place)),
    ])
}
