//! `ranks.svg`: where each rank's time went, as stacked bars.

use narrows_live::Report;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
const PARTS: [(&str, &str); 3] = [("computing", "#009e73"), ("MPI software", "#0072b2"), ("waiting", "#e69f00")];

/// One bar per rank, at most 256 (then every k-th rank).
pub fn ranks(report: &Report) -> String {
    let step = report.ranks.len().div_ceil(256).max(1);
    let shown: Vec<_> = report.ranks.iter().enumerate().step_by(step).collect();
    let bar = (560.0 / shown.len().max(1) as f64).clamp(2.5, 22.0);
    let height = TOP + bar * shown.len() as f64 + 46.0;
    let longest = report.ranks.iter().map(|rank| (rank.computing + rank.mpi + rank.waiting).as_ps()).max().unwrap_or(0).max(1) as f64;
    let scale = (WIDTH - LEFT - 20.0) / longest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"16\">Where each rank's simulated time went</text>\n"
    );
    for (index, (name, colour)) in PARTS.iter().enumerate() {
        let x = LEFT + 150.0 * index as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"43\">{name}</text>",
            x + 17.0
        );
    }
    let every = (18.0 / bar).ceil() as usize;
    for (row, (rank, times)) in shown.iter().enumerate() {
        let y = TOP + bar * row as f64;
        if row.is_multiple_of(every.max(1)) {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\">{rank}</text>",
                LEFT - 8.0,
                y + bar * 0.5 + 4.0
            );
        }
        let mut x = LEFT;
        for (part, (_, colour)) in [times.computing, times.mpi, times.waiting].iter().zip(PARTS) {
            let width = part.as_ps() as f64 * scale;
            if width > 0.0 {
                let _ =
                    writeln!(svg, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{:.2}\" fill=\"{colour}\"/>", bar * 0.88);
            }
            x += width;
        }
    }
    let bottom = TOP + bar * shown.len() as f64;
    for tick in 0..=4 {
        let x = LEFT + (WIDTH - LEFT - 20.0) * f64::from(tick) / 4.0;
        let time = narrows_units::SimTime((longest * f64::from(tick) / 4.0) as u64);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\" stroke=\"#999\" stroke-width=\"0.5\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{}\" font-size=\"11\">{time}</text>",
            bottom + 16.0,
            if tick == 4 { "end" } else { "middle" }
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"14\" y=\"{:.1}\" transform=\"rotate(-90 14 {0:.1})\" text-anchor=\"middle\">rank</text>",
        (TOP + bottom) / 2.0
    );
    svg.push_str("</svg>\n");
    svg
}
