//! `narrows reproduce`: published figures, simulated and compared.

use crate::failure::Failure;
use crate::watching::Watching;
use clap::Args;
use narrows_output::{create_folder, exit, print, write};
use narrows_results::{Column, Table};
use narrows_study::figure::page::{html, show};
use narrows_study::figure::{self, Duration, Figure, Obtained, Row, Verdict};
use std::path::{Path, PathBuf};

/// Arguments of `narrows reproduce`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows reproduce --list
  narrows reproduce topologies
  narrows reproduce all --quick
  narrows reproduce lulesh --null
  narrows reproduce broadcasts --json
  narrows reproduce all --html pages/

Each row has the published value, the simulated one, their difference, the tolerance, the verdict,
and how the simulated value was obtained: it is in the machine file (input), a constant was fitted
to it (calibrated), a size or a reading was chosen with it in view (informed), or nothing was
(predicted). A row \"agrees\", \"differs\", or is \"no test\": it agrees, but so does the null model,
the machine without what the row tests. --null runs these machines too and shows what they have. A
verdict that is not the one in expected.csv is unexpected. The last line counts them.

Exit code 0: no verdict is unexpected. 1: some are. 2: a figure is not there, or has a mistake.
Docs: docs/figures.md.")]
pub struct ReproduceArgs {
    /// A figure (--list has them), several, or all
    #[arg(value_name = "ID|all", required_unless_present = "list")]
    ids: Vec<String>,
    /// Lists the figures and how long they take, and what has become of all published numbers
    #[arg(long, conflicts_with_all = ["ids", "html"])]
    list: bool,
    /// Leaves out figures that take minutes
    #[arg(long)]
    quick: bool,
    /// Runs each figure's null models too: machines without what it tests
    #[arg(long, conflicts_with = "list")]
    null: bool,
    /// Prints JSON instead of text
    #[arg(long)]
    json: bool,
    /// Writes index.html with tables and pictures, published beside simulated, into this folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// The folder of the figures [default: figures in the current folder, or that of this program]
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// Runs it; the exit code.
pub fn run(args: ReproduceArgs) -> Result<u8, Failure> {
    let folder = match &args.figures {
        Some(folder) => folder.clone(),
        None => figures()?,
    };
    if args.list {
        list(&folder, &args)?;
        return Ok(exit::DONE);
    }
    let ids = match args.ids.as_slice() {
        [one] if one == "all" => figure::list(&folder)?,
        ids => ids.to_vec(),
    };
    // Mistakes in any of them show before the first is run.
    let figures: Vec<Figure> = ids.iter().map(|id| Figure::load(&folder, id)).collect::<Result<_, _>>()?;
    if let Some(out) = &args.html {
        create_folder(out)?;
    }
    let watching = Watching::start()?;
    let mut done = Vec::new();
    for figure in figures.iter().filter(|figure| !args.quick || figure.duration == Duration::Seconds) {
        let rows = figure.run(args.null, &watching)?;
        if !args.json {
            print(&text(figure, &rows, args.null))?;
        }
        done.push((figure, rows));
    }
    let rows: Vec<Row> = done.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let failed = rows.iter().filter(|row| !row.passes()).count();
    if args.json {
        print(&format!("{:#}\n", figure::table(&rows).json()))?;
    } else {
        let left_out = figures.len() - done.len();
        let note = if left_out > 0 { format!("{left_out} figures that take minutes are left out\n") } else { String::new() };
        print(&format!("{note}{}\n", summary(&rows)))?;
    }
    if let Some(out) = &args.html {
        write(&out.join("index.html"), html(&done))?;
    }
    Ok(if failed > 0 { exit::NO } else { exit::DONE })
}

/// How many rows there are of each sort.
fn summary(rows: &[Row]) -> String {
    let known = |verdict: Verdict| rows.iter().filter(move |row| row.passes() && row.verdict == verdict);
    let of = |obtained| known(Verdict::Agrees).filter(|row| row.expected.obtained == obtained).count();
    let parts = Obtained::ALL.map(|obtained| format!("{} {}", of(obtained), obtained.name())).join(", ");
    let failed = rows.iter().filter(|row| !row.passes()).count();
    let [agree, differ, no_test] = [Verdict::Agrees, Verdict::Differs, Verdict::NoTest].map(|verdict| known(verdict).count());
    format!("{agree} agree ({parts}), {differ} differ as known, {no_test} are no test, {failed} unexpected")
}

/// Where the figures are, if nobody says it.
fn figures() -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe().map_err(|error| format!("the program's own folder is unknown: {error}"))?;
    let own = exe.parent().unwrap_or(Path::new("."));
    // target/release in the sources; the last place is an installation.
    let places = [PathBuf::from("figures"), own.join("../../figures"), own.join("../share/narrows/figures")];
    let found = places.into_iter().find(|place| place.join("index.csv").is_file());
    found.ok_or_else(|| Failure::from(String::from("no folder of figures here or beside the program: --figures DIR names one")))
}

fn list(folder: &Path, args: &ReproduceArgs) -> Result<(), Failure> {
    let figures: Vec<Figure> = figure::list(folder)?.iter().map(|id| Figure::load(folder, id)).collect::<Result<_, _>>()?;
    let shown: Vec<&Figure> = figures.iter().filter(|figure| !args.quick || figure.duration == Duration::Seconds).collect();
    if args.json {
        let text = |value: fn(&Figure) -> &str| Column::Text(shown.iter().map(|figure| value(figure).to_owned()).collect());
        let table = Table::new(vec![
            ("id", text(|figure| &figure.id)),
            ("title", text(|figure| &figure.title)),
            ("takes", text(|figure| figure.duration.name())),
            ("rows", Column::Integer(shown.iter().map(|figure| figure.expected.len() as i64).collect())),
        ]);
        return Ok(print(&format!("{:#}\n", table.json()))?);
    }
    let width = shown.iter().map(|figure| figure.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for figure in &shown {
        text += &format!("{:width$}  {:7}  {:3} rows  {}\n", figure.id, figure.duration.name(), figure.expected.len(), figure.title);
    }
    let index = figure::index::load(folder)?;
    let count = |class| index.iter().filter(|entry| entry.class == class).count();
    let [with, needs, describes] = figure::index::Class::ALL.map(count);
    text += &format!(
        "{} published numbers: {with} in figures, {needs} need what is not there yet, {describes} describe and need no simulation (index.csv)\n",
        index.len()
    );
    Ok(print(&text)?)
}

/// A figure and its rows; `nulls`: with what its null models have.
fn text(figure: &Figure, rows: &[Row], nulls: bool) -> String {
    let without = |text: String| if nulls { format!("  {text:>12}") } else { String::new() };
    let mut text = format!("{}: {}\n", figure.id, figure.title);
    let width = rows.iter().map(|row| row.expected.quantity.chars().count()).max().unwrap_or(0).max(8);
    text += &format!(
        "      {:width$}  {:>12}  {:>12}{}  {:>12}  {:>10}  {:8} verdict  obtained\n",
        "quantity",
        "published",
        "simulated",
        without(String::from("null model")),
        "difference",
        "tolerance",
        "unit"
    );
    for row in rows {
        let expected = &row.expected;
        let relation = if expected.relation == figure::Relation::Equal { "" } else { expected.relation.name() };
        text += &format!(
            "{}  {:width$}  {:>12}  {:>12}{}  {:>12}  {:>10}  {:8} {:7}  {}\n",
            if row.passes() { "ok  " } else { "FAIL" },
            expected.quantity,
            format!("{relation}{}", show(expected.published)),
            show(row.simulated),
            without(row.without.map_or_else(|| String::from("-"), show)),
            show(row.difference()),
            show(expected.tolerance),
            expected.unit,
            row.verdict.name(),
            expected.obtained.name(),
        );
        if !row.passes() {
            text += &format!("      expected.csv, line {}, knows the verdict \"{}\"\n", expected.line, expected.verdict.name());
        } else if !expected.reason.is_empty() {
            text += &format!("      {}\n", expected.reason);
        }
        if !expected.fitted.is_empty() {
            let how = if expected.obtained == Obtained::Informed { "informed by" } else { "fitted" };
            text += &format!("      {how}: {}\n", expected.fitted);
        }
    }
    text
}
