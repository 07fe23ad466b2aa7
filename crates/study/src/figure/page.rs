//! Rows as one HTML page: tables, and published values beside simulated ones as pictures.

use super::{Figure, Row};
use narrows_results::{Chart, Curve, Origin, escape};
use std::fmt::Write;

/// The page.
pub fn html(figures: &[(&Figure, Vec<Row>)]) -> String {
    let mut page = String::from(
        "<style>body{max-width:1200px}.pair{display:flex;gap:1em}.pair>div{flex:1}td:nth-child(n+8){text-align:left}</style>\n",
    );
    for (figure, rows) in figures {
        let _ = writeln!(page, "<section><h2>{}: {}</h2><p>{}</p>", escape(&figure.id), escape(&figure.title), escape(&figure.about));
        for (name, about) in figure.nulls() {
            let _ = writeln!(page, "<p>Null model <code>{}</code>: {}.</p>", escape(name), escape(about));
        }
        page += "<table><tr><th>quantity</th><th>published</th><th>simulated</th><th>null model</th><th>difference</th><th>tolerance</th><th>unit</th>\
                 <th>verdict</th><th>obtained</th><th>source</th><th>remark</th></tr>\n";
        for row in rows {
            let expected = &row.expected;
            let remark =
                [expected.fitted.as_str(), expected.reason.as_str()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
            let cells = [
                expected.quantity.clone(),
                format!("{} {}", expected.relation.name(), expected.published),
                show(row.simulated),
                row.without.map_or_else(String::new, show),
                show(row.difference()),
                show(expected.tolerance),
                expected.unit.clone(),
                row.verdict.name().to_owned(),
                expected.obtained.name().to_owned(),
                format!("{}, {}", expected.document, expected.place),
                remark.join("; "),
            ];
            let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            let _ = writeln!(page, "<tr>{cells}</tr>");
        }
        page += "</table>\n";
        let mut units: Vec<&str> = rows.iter().map(|row| row.expected.unit.as_str()).collect();
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let of_unit: Vec<&Row> = rows.iter().filter(|row| row.expected.unit == unit).collect();
            let [published, simulated] = pictures(unit, &of_unit);
            let _ = writeln!(page, "<div class=\"pair\"><div>{published}</div><div>{simulated}</div></div>");
        }
        page += "</section>\n";
    }
    Origin::here(None, None).page("Published figures", &page)
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

/// Published and simulated values of one unit over the same axes: the rows in their order.
fn pictures(unit: &str, rows: &[&Row]) -> [String; 2] {
    let values = || rows.iter().flat_map(|row| [row.expected.published, row.simulated]);
    let (low, high) = values().fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let room = (high - low).max(1e-12) * 0.05;
    [("Published", (|row| row.expected.published) as fn(&Row) -> f64), ("Simulated", |row| row.simulated)].map(|(title, value)| {
        let curve = |name: &str, dashed: bool, value: fn(&Row) -> f64| Curve {
            name: name.to_owned(),
            points: rows.iter().enumerate().map(|(index, row)| ((index + 1) as f64, Some(value(row)))).collect(),
            dashed,
        };
        Chart {
            title: title.to_owned(),
            x: String::from("row of the table with this unit"),
            y: unit.to_owned(),
            x_range: Some((0.5, rows.len() as f64 + 0.5)),
            y_range: Some((if low < 0.0 { low - room } else { 0.0 }, high + room)),
            curves: vec![curve(title, false, value)],
            ..Chart::default()
        }
        .svg()
    })
}
