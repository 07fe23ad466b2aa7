//! Reports for results of Python, made of what results have: a summary, tables, pictures.

use crate::error;
use crate::table::NativeTable;
use narrows_results::{COLOURS, Chart, Column, Curve, Origin, Page, ROLES};
use narrows_study::report::{Columns, Data, Report, path, table as any_table};
use pyo3::prelude::*;
use serde_json::Value;

/// The values of a column of a table of pyarrow.
#[derive(FromPyObject)]
pub enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

type Columned = Vec<(String, Values)>;
type Tables = Vec<(String, Columned)>;

fn columns(table: Columned) -> Columns {
    let column = |(name, values)| {
        let column = match values {
            Values::Integers(values) => Column::Integer(values),
            Values::Numbers(values) => Column::Number(values),
            Values::Texts(values) => Column::Text(values.into_iter().map(Option::unwrap_or_default).collect()),
        };
        (name, column)
    };
    Columns::new(table.into_iter().map(column).collect())
}

fn data(tables: Tables) -> Data {
    tables.into_iter().map(|(name, table)| (name, columns(table))).collect()
}

fn read(summary: &str) -> PyResult<Value> {
    serde_json::from_str(summary).map_err(error)
}

/// The page of a result: its kind, title, summary (JSON), tables, pictures (SVG), what the command line prints; the
/// command that repeats it, if there is one.
#[pyfunction]
#[pyo3(signature = (kind, title, summary, tables, pictures, text, command))]
pub fn result_page(
    kind: &str,
    title: Option<&str>,
    summary: &str,
    tables: Tables,
    pictures: Vec<(String, String)>,
    text: &str,
    command: &str,
) -> PyResult<String> {
    let (summary, data) = (read(summary)?, data(tables));
    let machine = summary["machine"]["machine"]["name"].as_str();
    let origin = Origin::here(machine, summary["seed"].as_u64()).command(command);
    Ok(Report { kind, title, summary: &summary, data: &data, pictures: &pictures, text, origin: &origin }.html())
}

/// A curve: its name and its points.
type Points = (String, Vec<(f64, Option<f64>)>);
/// A picture of curves: what it shows, its axes, its curves.
type Curves = (String, String, String, Vec<Points>);

/// The page of many results: notes, what has failed, pictures of curves, and a table.
#[pyfunction]
pub fn study_page(title: &str, notes: Vec<String>, alarms: Vec<String>, curves: Vec<Curves>, table: Columned, command: &str) -> String {
    let mut page = Page::default();
    notes.iter().for_each(|note| page.note(note));
    if !alarms.is_empty() {
        page.heading("Failed");
        alarms.iter().for_each(|alarm| page.alarm(alarm));
    }
    let draw = |(caption, x, y, curves): Curves| {
        let curves = curves.into_iter().map(|(name, points)| Curve { name, points, dashed: false }).collect();
        (caption, Chart { x, y, curves, ..Chart::default() }.svg())
    };
    let pictures: Vec<(String, String)> = curves.into_iter().map(draw).collect();
    if !pictures.is_empty() {
        page.heading("Curves");
        page.pictures(&pictures.iter().map(|(caption, svg)| (caption.as_str(), svg.as_str())).collect::<Vec<_>>());
    }
    page.heading("All points");
    any_table(&mut page, &columns(table));
    page.finish(title, &Origin::here(None, None).command(command))
}

/// The critical path of a result with a timeline, a row for each part.
#[pyfunction]
pub fn critical_path(kind: &str, summary: &str, tables: Tables) -> PyResult<NativeTable> {
    let (summary, data) = (read(summary)?, data(tables));
    if let Some(why) = path::lacks(&summary, &data) {
        return Err(error(format!("critical path: {why}")));
    }
    Ok(NativeTable::new(path::table(&path::find(&data, kind == "run"))))
}

/// Colours of curves in their order, and of what ranks do with their time.
#[pyfunction]
pub fn colours() -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
    (COLOURS.to_vec(), ROLES.to_vec())
}
