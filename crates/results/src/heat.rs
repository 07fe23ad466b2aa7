use crate::chart::{Axis, BOTTOM, Chart, Frame, HEIGHT, LEFT, Quantity, RIGHT, TOP, WIDTH, open};
use crate::escape;
use std::fmt::Write;

/// Values over two axes as coloured cells: an SVG picture of 480 by 330.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// Beside the vertical axis.
    pub y: String,
    /// What a value is.
    pub unit: String,
    /// What the horizontal axis counts in.
    pub x_in: Quantity,
    /// What values count in.
    pub values_in: Quantity,
    /// Colours by the logarithm, from the least value above 0; otherwise from 0.
    pub log: bool,
    /// Ends of the axes.
    pub x_range: (f64, f64),
    /// Ends of the vertical axis, from the bottom to the top.
    pub y_range: (f64, f64),
    /// How many cells in a row.
    pub columns: usize,
    /// The lowest row from left to right, then the one above it.
    pub values: Vec<f64>,
}

/// From light yellow over green to dark blue, in steps that look alike (after the viridis map).
const STOPS: [[f64; 3]; 5] = [[240., 235., 120.], [122., 209., 81.], [34., 168., 132.], [42., 120., 142.], [68., 1., 84.]];
/// Shades: cells of one shade are one piece.
const SHADES: f64 = 40.0;
/// Room for the scale.
const SCALE: f64 = 74.0;

fn colour(part: f64) -> String {
    let place = part.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (place as usize).min(STOPS.len() - 2);
    let mix: [u8; 3] = std::array::from_fn(|c| (STOPS[index][c] + (STOPS[index + 1][c] - STOPS[index][c]) * (place - index as f64)) as u8);
    format!("#{:02x}{:02x}{:02x}", mix[0], mix[1], mix[2])
}

impl HeatMap {
    /// The picture. Cells with nothing in them stay white.
    pub fn svg(&self) -> String {
        let (x, factor) = self.x_in.unit(&self.x, self.x_range.1);
        let x_range = (self.x_range.0 * factor, self.x_range.1 * factor);
        let axis = |(low, high): (f64, f64)| Axis { log: false, low, high: if high > low { high } else { low + 1.0 } };
        let frame = Frame { x: axis(x_range), y: axis(self.y_range), top: TOP, bottom: HEIGHT - BOTTOM };
        let most = self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let mut svg = open(WIDTH + SCALE, &self.title);
        Chart { x, y: self.y.clone(), ..Chart::default() }.draw_axes(&frame, &mut svg);
        let columns = self.columns.max(1);
        let rows = self.values.len() / columns;
        let (width, height) = ((WIDTH - LEFT - RIGHT) / columns as f64, (frame.bottom - frame.top) / rows.max(1) as f64);
        let least = self.values.iter().copied().filter(|value| *value > 0.0 && value.is_finite()).fold(most, f64::min);
        // All the same: one colour, and one value beside it.
        let flat = self.log && least == most;
        let part = |value: f64| match (self.log, flat) {
            (_, true) => 1.0,
            (true, _) => (value / least).ln() / (most / least).ln(),
            (false, _) => value / most,
        };
        let shade = |value: f64| if value > 0.0 && most > 0.0 { (part(value) * SHADES).ceil().clamp(1.0, SHADES) } else { 0.0 };
        for (row, values) in self.values.chunks_exact(columns).enumerate() {
            let mut column = 0;
            while column < columns {
                let here = shade(values[column]);
                let end = (column..columns).find(|&other| shade(values[other]) != here).unwrap_or(columns);
                if here > 0.0 {
                    let (x, y) = (LEFT + column as f64 * width, frame.bottom - (row + 1) as f64 * height);
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\"/>",
                        (end - column) as f64 * width + 0.05,
                        height + 0.05,
                        colour(here / SHADES)
                    );
                }
                column = end;
            }
        }
        if most <= 0.0 {
            let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">nothing to show</text>");
            return svg + "</svg>\n";
        }
        let (left, step) = (WIDTH - RIGHT + 16.0, (frame.bottom - frame.top) / SHADES);
        for index in 0..SHADES as u32 {
            let y = frame.bottom - f64::from(index + 1) * step;
            let fill = colour(if flat { 1.0 } else { f64::from(index + 1) / SHADES });
            let _ = writeln!(svg, "<rect x=\"{left:.1}\" y=\"{y:.2}\" width=\"14\" height=\"{:.2}\" fill=\"{fill}\"/>", step + 0.05);
        }
        let ends = [(most, frame.top + 9.0), (if self.log { least } else { 0.0 }, frame.bottom)];
        for (value, y) in &ends[..if flat { 1 } else { 2 }] {
            let text = escape(&self.values_in.show(significant(*value)));
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\" font-size=\"11\">{text}</text>", left + 18.0);
        }
        let middle = (frame.top + frame.bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{0:.1}\" y=\"{middle:.1}\" transform=\"rotate(-90 {0:.1} {middle:.1})\" text-anchor=\"middle\" font-size=\"11\">{1}</text>",
            left + 30.0,
            escape(&self.unit)
        );
        svg + "</svg>\n"
    }
}

/// To three digits.
fn significant(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(2.0 - value.log10().floor());
    (value * power).round() / power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_piece_and_nothing_is_white() {
        let map = HeatMap {
            columns: 3,
            values: vec![1.0, 1.0, 0.0, 0.0, 4.0, 2.0],
            x_range: (0.0, 3.0),
            y_range: (0.0, 2.0),
            ..HeatMap::default()
        };
        let svg = map.svg();
        // The ground, one piece of two cells, two of one, and the scale.
        assert_eq!(svg.matches("<rect").count(), 1 + 1 + 2 + SHADES as usize);
        // The lower left: two thirds of 398, half of 242.
        assert!(svg.contains("<rect x=\"66.00\" y=\"161.00\" width=\"265.38\" height=\"121.05\""), "{svg}");
        assert!(svg.contains("fill=\"#440154\""), "the most is darkest");
    }

    #[test]
    fn equal_values_have_one_colour_and_one_label() {
        let map = |values| HeatMap { log: true, columns: 2, values, values_in: Quantity::Bytes, ..HeatMap::default() }.svg();
        let svg = map(vec![4096.0, 4096.0]);
        assert_eq!((svg.matches("#440154").count(), svg.matches(">4 KiB<").count()), (SHADES as usize + 1, 1), "{svg}");
        let svg = map(vec![4096.0, 8192.0]);
        assert!(svg.contains(">4 KiB<") && svg.contains(">8 KiB<"), "{svg}");
        assert!(map(vec![0.0, 0.0]).contains("nothing to show"));
    }

    #[test]
    fn any_values_make_a_picture() {
        for values in [vec![], vec![0.0], vec![f64::NAN, 1.0], vec![1e300]] {
            let svg = HeatMap { columns: 1, values, ..HeatMap::default() }.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
