//! Small pictures for reports: bars, steps and heat maps as SVG.

use narrows_results::escape;
use narrows_units::show;
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
/// Room for the legend.
const TOP: f64 = 28.0;
const BOTTOM: f64 = 46.0;

/// Colours that colour-blind readers tell apart (Okabe and Ito 2008).
pub const COLOURS: [&str; 4] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"];

/// Axes of a picture, the vertical one from 0 to `top`; what belongs inside follows, then `</svg>`.
struct Frame {
    svg: String,
    top: f64,
}

impl Frame {
    fn new(top: f64, x: &str, y: &str) -> Frame {
        // A number above the highest value whose quarters are round.
        let power = 10f64.powf(top.max(1e-12).log10().floor());
        let top = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0]
            .into_iter()
            .map(|step| step * power)
            .find(|step| *step >= top)
            .unwrap_or(top);
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\">", escape(y), escape(x));
        for tick in 0..=4 {
            let value = top * f64::from(tick) / 4.0;
            let at = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * f64::from(tick) / 4.0;
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                show::count(value)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(x),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(y)
        );
        Frame { svg, top }
    }

    fn x(part: f64) -> f64 {
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)
    }

    fn label(&mut self, part: f64, text: &str) {
        let anchor = if part > 0.96 { "end" } else { "middle" };
        let at = Frame::x(part);
        let _ = write!(self.svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>", HEIGHT - BOTTOM + 15.0, escape(text));
    }

    fn legend(&mut self, names: &[&str]) {
        let mut at = LEFT + 8.0;
        for (name, colour) in names.iter().zip(COLOURS).filter(|_| names.len() > 1) {
            let _ = write!(
                self.svg,
                "<rect x=\"{at:.0}\" y=\"6\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{}\">{}</text>",
                at + 14.0,
                15.0,
                escape(name)
            );
            at += 34.0 + 7.0 * name.len() as f64;
        }
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Bars side by side, each with one piece per series, one above the other. Some of the labels are drawn, as there is room.
pub fn bars(x: &str, y: &str, labels: &[String], series: &[(&str, Vec<f64>)]) -> String {
    let count = labels.len().max(1);
    let total = |bar: usize| series.iter().map(|(_, values)| values[bar]).sum::<f64>();
    let top = (0..labels.len()).map(total).fold(0.0, f64::max);
    let mut frame = Frame::new(top, x, y);
    let width = 1.0 / count as f64;
    let gap = if count > 64 { 0.0 } else { 0.15 };
    for bar in 0..labels.len() {
        let mut below = 0.0;
        for ((_, values), colour) in series.iter().zip(COLOURS) {
            let value = values[bar];
            if value > 0.0 {
                let (left, right) = (Frame::x((bar as f64 + gap / 2.0) * width), Frame::x((bar as f64 + 1.0 - gap / 2.0) * width));
                let (high, low) = (frame.y(below + value), frame.y(below));
                let _ = write!(
                    frame.svg,
                    "<rect x=\"{left:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{}: {}</title></rect>",
                    (right - left).max(0.5),
                    low - high,
                    escape(&labels[bar]),
                    show::count(value)
                );
            }
            below += value;
        }
    }
    let longest = labels.iter().map(String::len).max().unwrap_or(1);
    let every = count.div_ceil((630 / (7 * (longest + 1))).max(1));
    for bar in (0..labels.len()).step_by(every.max(1)) {
        frame.label((bar as f64 + 0.5) * width, &labels[bar]);
    }
    frame.legend(&series.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    frame.end()
}

/// Curves that rise in steps, over a logarithmic axis of sizes; values from 0 to 1.
pub fn cumulative(x: &str, y: &str, curves: &[(&str, Vec<(f64, f64)>)]) -> String {
    let sizes = || curves.iter().flat_map(|(_, points)| points.iter().map(|(size, _)| size.max(1.0).log2()));
    let (low, high) = (sizes().fold(f64::MAX, f64::min).floor(), sizes().fold(0.0, f64::max).ceil());
    let low = if low > high { 0.0 } else { low };
    let span = (high - low).max(1.0);
    let mut frame = Frame::new(1.0, x, y);
    for ((_, points), colour) in curves.iter().zip(COLOURS) {
        let mut path = format!("M{:.1} {:.1}", Frame::x(0.0), frame.y(0.0));
        for (size, value) in points {
            let _ = write!(path, "H{:.1}V{:.1}", Frame::x((size.max(1.0).log2() - low) / span), frame.y(*value));
        }
        let _ = write!(frame.svg, "<path d=\"{path}H{:.1}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", Frame::x(1.0));
    }
    let every = (span / 10.0).ceil().max(1.0) as usize;
    for power in (low as u32..=(low + span) as u32).step_by(every) {
        frame.label((f64::from(power) - low) / span, &show::size(1u64 << power.min(63)));
    }
    frame.legend(&curves.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    frame.end()
}

/// A square of cells, row by row: white is nothing, then from light to dark on a logarithmic scale.
pub fn heat(side: usize, values: &[u64], ranks: u32) -> String {
    const SIDE: f64 = 480.0;
    const EDGE: f64 = 52.0;
    let most = values.iter().copied().max().unwrap_or(0);
    let least = values.iter().copied().filter(|value| *value > 0).min().unwrap_or(0);
    let span = ((most.max(1)) as f64 / (least.max(1)) as f64).ln();
    // From light yellow over green to dark blue, lighter to darker in steps that look alike (after the viridis map).
    let colour = |value: u64| {
        let part = if span > 0.0 { (value as f64 / least as f64).ln() / span } else { 1.0 };
        const STOPS: [[f64; 3]; 5] = [[240., 235., 120.], [122., 209., 81.], [34., 168., 132.], [42., 120., 142.], [68., 1., 84.]];
        let place = part * (STOPS.len() - 1) as f64;
        let index = (place as usize).min(STOPS.len() - 2);
        let mix: [u8; 3] =
            std::array::from_fn(|c| (STOPS[index][c] + (STOPS[index + 1][c] - STOPS[index][c]) * (place - index as f64)) as u8);
        format!("#{:02x}{:02x}{:02x}", mix[0], mix[1], mix[2])
    };
    let cell = SIDE / side.max(1) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"who sends to whom\" style=\"max-width:560px\">",
        SIDE + EDGE + 130.0,
        SIDE + EDGE
    );
    for row in 0..side {
        let mut column = 0;
        while column < side {
            let value = values[row * side + column];
            let mut end = column + 1;
            // Cells of one colour in one piece.
            while end < side && values[row * side + end] == value {
                end += 1;
            }
            if value > 0 {
                let _ = write!(
                    svg,
                    "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\"/>",
                    EDGE + column as f64 * cell,
                    row as f64 * cell,
                    (end - column) as f64 * cell + 0.05,
                    cell + 0.05,
                    colour(value)
                );
            }
            column = end;
        }
    }
    let _ = write!(svg, "<rect x=\"{EDGE}\" y=\"0\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" class=\"frame\"/>");
    for tick in 0..=4 {
        let (part, rank) = (f64::from(tick) / 4.0, u64::from(ranks.saturating_sub(1)) * tick as u64 / 4);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{rank}</text><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{rank}</text>",
            EDGE + part * SIDE,
            SIDE + 16.0,
            EDGE - 6.0,
            (part * SIDE).clamp(10.0, SIDE)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">destination</text><text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">source</text>",
        EDGE + SIDE / 2.0,
        SIDE + 36.0,
        SIDE / 2.0
    );
    // The scale.
    for step in 0..40 {
        let value = (least.max(1) as f64 * (span * f64::from(39 - step) / 39.0).exp()) as u64;
        let _ = write!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"16\" height=\"6.2\" fill=\"{}\"/>",
            EDGE + SIDE + 16.0,
            f64::from(step) * 6.0,
            colour(value.clamp(least.max(1), most.max(1)))
        );
    }
    for (at, value) in [(10.0, most), (240.0, least)] {
        let _ = write!(svg, "<text x=\"{}\" y=\"{at}\">{}</text>", EDGE + SIDE + 38.0, show::size(value));
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rectangle_per_value() {
        let labels = ["a<b", "c"].map(str::to_owned);
        let picture = bars("x", "y", &labels, &[("one", vec![1.0, 0.0]), ("two", vec![2.0, 3.0])]);
        assert_eq!(picture.matches("<title>").count(), 3);
        assert!(picture.contains("a&lt;b") && !picture.contains("a<b"));
        let map = heat(2, &[5, 5, 0, 7], 2);
        // Two equal neighbours are one piece; the frame and the scale come on top.
        assert_eq!(map.matches("<rect").count(), 2 + 1 + 40);
    }
}
