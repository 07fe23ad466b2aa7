use crate::chart::{Axis, BOTTOM, Chart, Frame, HEIGHT, LEFT, Quantity, RIGHT, TOP, WIDTH, colour_of, open};
use crate::escape;
use std::fmt::Write;

/// Bars side by side, each with one piece per series, one above the other: an SVG picture of 480 by 330.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// Beside the vertical axis.
    pub y: String,
    /// What the vertical axis counts in.
    pub y_in: Quantity,
    /// Of each bar. Some of them are drawn, as there is room.
    pub labels: Vec<String>,
    /// Name and a value for each bar; the first one lies at the bottom.
    pub series: Vec<(String, Vec<f64>)>,
}

/// Width of a character of a label.
const CHARACTER: f64 = 7.2;

impl Bars {
    /// The picture; a note in place of bars when there is nothing to show.
    pub fn svg(&self) -> String {
        let count = self.labels.len();
        let value =
            |series: &(String, Vec<f64>), bar: usize| series.1.get(bar).copied().filter(|value| value.is_finite()).unwrap_or(0.0).max(0.0);
        let highest = (0..count).map(|bar| self.series.iter().map(|series| value(series, bar)).sum::<f64>()).fold(0.0, f64::max);
        let (y, factor) = self.y_in.unit(&self.y, highest);
        let frame = Frame {
            x: Axis { log: false, low: 0.0, high: count.max(1) as f64 },
            y: Axis { log: false, low: 0.0, high: if highest > 0.0 { 1.05 * highest * factor } else { 1.0 } },
            top: TOP + if self.series.len() > 1 { 18.0 } else { 0.0 },
            bottom: HEIGHT - BOTTOM,
        };
        let mut svg = open(WIDTH, &self.title);
        let chart = Chart { x: self.x.clone(), y, y_in: self.y_in, ..Chart::default() };
        chart.draw_axes_of(&frame, &mut svg, &self.ticks());
        let gap = if count > 64 { 0.0 } else { 0.15 };
        for bar in 0..count {
            let (left, right) = (frame.across(bar as f64 + gap / 2.0), frame.across(bar as f64 + 1.0 - gap / 2.0));
            let mut below = 0.0;
            for (index, series) in self.series.iter().enumerate() {
                let colour = colour_of(&series.0, index);
                let value = value(series, bar) * factor;
                if value > 0.0 {
                    let (high, low) = (frame.up(below + value), frame.up(below));
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{left:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{} {}: {}</title></rect>",
                        (right - left).max(0.5),
                        low - high,
                        escape(&self.labels[bar]),
                        escape(&series.0),
                        self.y_in.show(value)
                    );
                }
                below += value;
            }
        }
        if self.series.len() > 1 {
            let mut x = LEFT;
            for (index, (name, _)) in self.series.iter().enumerate() {
                let colour = colour_of(name, index);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.0}\" y=\"31\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"42\">{}</text>",
                    x + 17.0,
                    escape(name)
                );
                x += 40.0 + CHARACTER * name.chars().count() as f64;
            }
        }
        if highest <= 0.0 {
            let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">nothing to show</text>");
        }
        svg + "</svg>\n"
    }

    /// The labels for which there is room, each with the middle of its bar.
    fn ticks(&self) -> Vec<(f64, String)> {
        let longest = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let room = ((WIDTH - LEFT - RIGHT) / (CHARACTER * (longest + 1) as f64)).floor().max(1.0) as usize;
        let every = self.labels.len().div_ceil(room).max(1);
        self.labels.iter().enumerate().step_by(every).map(|(bar, label)| (bar as f64 + 0.5, label.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rectangle_per_value() {
        let series = vec![(String::from("one"), vec![1.0, 0.0]), (String::from("two"), vec![2.0, 3.0])];
        let svg = Bars { labels: ["a<b", "c"].map(String::from).to_vec(), series, ..Bars::default() }.svg();
        // The ground, the legend, and three values.
        assert_eq!((svg.matches("<rect").count(), svg.matches("<title>").count()), (1 + 2 + 3, 3), "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    }

    #[test]
    fn labels_do_not_touch_and_times_have_a_unit() {
        let labels: Vec<String> = (0..1000).map(|rank| rank.to_string()).collect();
        let series = vec![(String::from("waiting"), vec![1.4e-3; 1000])];
        let bars = Bars { y: String::from("simulated time"), y_in: Quantity::Seconds, labels, series, ..Bars::default() };
        let ticks = bars.ticks();
        let width = (WIDTH - LEFT - RIGHT) / 1000.0;
        assert!(ticks.windows(2).all(|pair| (pair[1].0 - pair[0].0) * width > CHARACTER * 3.0), "{ticks:?}");
        assert!(bars.svg().contains(">simulated time, ms</text>"));
    }

    #[test]
    fn any_values_make_a_picture() {
        for values in [vec![], vec![0.0], vec![f64::NAN], vec![-1.0], vec![1e300]] {
            let labels = values.iter().map(f64::to_string).collect();
            let svg = Bars { labels, series: vec![(String::new(), values)], ..Bars::default() }.svg();
            assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{svg}");
        }
    }
}
