//! `ranks.svg`: where each rank's time went, as stacked bars.

use narrows_live::RankTimes;
use narrows_live::Report;
use narrows_results::{Bars, Quantity};
use narrows_units::SimTime;

/// Bars at most; of more ranks, every k-th is shown.
const BARS: usize = 256;

/// One bar per rank.
pub fn ranks(report: &Report) -> String {
    let step = report.ranks.len().div_ceil(BARS).max(1);
    let seconds = |part: fn(&RankTimes) -> SimTime| report.ranks.iter().step_by(step).map(|rank| part(rank).as_s_f64()).collect();
    let series: [(&str, Vec<f64>); 3] = [
        ("computing", seconds(|rank| rank.computing)),
        ("MPI software", seconds(|rank| rank.mpi)),
        ("waiting", seconds(|rank| rank.waiting)),
    ];
    Bars {
        title: String::from("Where each rank's simulated time went"),
        x: String::from("rank"),
        y: String::from("simulated time"),
        y_in: Quantity::Seconds,
        labels: (0..report.ranks.len()).step_by(step).map(|rank| rank.to_string()).collect(),
        series: series.map(|(name, values)| (name.to_owned(), values)).to_vec(),
    }
    .svg()
}
