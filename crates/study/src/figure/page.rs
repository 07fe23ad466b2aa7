//! Rows as one HTML page: tables, and published values beside simulated ones in one picture.

use super::{Figure, Row};
use narrows_results::{Chart, Curve, Origin, Page};

/// The page.
pub fn html(figures: &[(&Figure, Vec<Row>)]) -> String {
    let mut page = Page::default();
    for (figure, rows) in figures {
        page.heading(&format!("{}: {}", figure.id, figure.title));
        page.note(&figure.about);
        for (name, about) in figure.nulls() {
            page.note(&format!("Null model {name}: {about}."));
        }
        let mut units: Vec<&str> = rows.iter().map(|row| row.expected.unit.as_str()).collect();
        units.sort_unstable();
        units.dedup();
        let of_unit = |unit: &str| rows.iter().filter(|row| row.expected.unit == unit).collect::<Vec<_>>();
        let pictures: Vec<(String, String)> = units
            .into_iter()
            .map(|unit| {
                let unit_name = if unit.is_empty() { "no unit" } else { unit };
                (
                    format!("Published and simulated values ({unit_name}), by the numbers of the rows below"),
                    picture(unit, rows, &of_unit(unit)),
                )
            })
            .collect();
        page.pictures(&pictures.iter().map(|(caption, svg)| (caption.as_str(), svg.as_str())).collect::<Vec<_>>());
        let head = [
            "no.",
            "quantity",
            "verdict",
            "obtained",
            "published",
            "simulated",
            "null model",
            "difference",
            "tolerance",
            "unit",
            "source",
            "remark",
        ];
        let cells: Vec<Vec<String>> = rows.iter().enumerate().map(|(index, row)| cells(index + 1, row)).collect();
        page.table(&head, &cells, 4);
    }
    page.finish("Published figures", &Origin::here(None, None))
}

fn cells(number: usize, row: &Row) -> Vec<String> {
    let expected = &row.expected;
    let remark = [expected.fitted.as_str(), expected.reason.as_str()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    let relation = if expected.relation == super::Relation::Equal { "" } else { expected.relation.name() };
    vec![
        number.to_string(),
        expected.quantity.clone(),
        row.verdict.name().to_owned(),
        expected.obtained.name().to_owned(),
        format!("{relation} {}", show(expected.published)).trim_start().to_owned(),
        show(row.simulated),
        row.without.map_or_else(String::new, show),
        show(row.difference()),
        show(expected.tolerance),
        expected.unit.clone(),
        format!("{}, {}", expected.document, expected.place),
        remark.join("; "),
    ]
}

/// Four digits.
pub fn show(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => String::from("none"),
        0.0 => String::from("0"),
        size @ 1e-3..1e9 => {
            let digits = (3 - size.log10().floor() as i32).max(0) as usize;
            let text = format!("{value:.digits$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        }
        _ => format!("{value:.3e}"),
    }
}

/// Published and simulated values of one unit in one picture: the rows in their order.
fn picture(unit: &str, all: &[Row], rows: &[&Row]) -> String {
    let values = || rows.iter().flat_map(|row| [row.expected.published, row.simulated]).filter(|value| value.is_finite());
    let (low, high) = values().fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let least = values().map(f64::abs).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    // Values of several orders of magnitude are told apart by their logarithms only.
    let log = low >= 0.0 && high > 30.0 * least && values().all(|value| value > 0.0);
    let room = (high - low).max(1e-12) * 0.05;
    let number = |row: &Row| all.iter().position(|other| std::ptr::eq(other, row)).map_or(0.0, |index| (index + 1) as f64);
    let curve = |name: &str, dashed: bool, value: fn(&Row) -> f64| Curve {
        name: name.to_owned(),
        points: rows.iter().map(|row| (number(row), Some(value(row)))).collect(),
        dashed,
    };
    let (first, last) = (rows.first().map_or(0.0, |row| number(row)), rows.last().map_or(1.0, |row| number(row)));
    Chart {
        title: String::from("Published and simulated"),
        x: String::from("row"),
        y: unit.to_owned(),
        log,
        x_range: Some((first - 0.5, last + 0.5)),
        y_range: (!log).then_some((if low < 0.0 { low - room } else { 0.0 }, high + room)),
        curves: vec![curve("published", false, |row| row.expected.published), curve("simulated", true, |row| row.simulated)],
        ..Chart::default()
    }
    .svg()
}
