use crate::escape;
use std::fmt::Write;

/// A curve of a chart.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// From left to right; a gap breaks the line.
    pub points: Vec<(f64, Option<f64>)>,
    /// Broken, for references.
    pub dashed: bool,
}

/// Distributions have more buckets than a picture has room for.
const CDF_POINTS: usize = 300;

impl Curve {
    /// A cumulative distribution: `buckets` are the largest values and the counts of its buckets, in rising order.
    pub fn distribution(name: String, buckets: impl Iterator<Item = (f64, u64)>) -> Curve {
        let buckets: Vec<_> = buckets.collect();
        let all: u64 = buckets.iter().map(|bucket| bucket.1).sum();
        let every = buckets.len().div_ceil(CDF_POINTS).max(1);
        let mut below = 0;
        let mut points = Vec::new();
        for (index, (value, count)) in buckets.iter().enumerate() {
            below += count;
            if index.is_multiple_of(every) || below == all {
                points.push((*value, Some(below as f64 / all as f64)));
            }
        }
        Curve { name, points, dashed: false }
    }
}

/// Curves over one axis, as an SVG picture of 720 by 440.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis, with the unit.
    pub x: String,
    /// Beside the vertical axis, with the unit.
    pub y: String,
    /// Powers of ten on the vertical axis.
    pub log: bool,
    /// Powers of ten on the horizontal axis.
    pub log_x: bool,
    /// Ends of the horizontal axis; otherwise those of the points.
    pub x_range: Option<(f64, f64)>,
    /// Ends of the vertical axis; otherwise from 0 (or the least point of a logarithmic axis) up to the highest point.
    pub y_range: Option<(f64, f64)>,
    /// Each curve is the upper end of an area on top of those before it. All must have the same places on the horizontal axis, and a linear vertical one.
    pub stacked: bool,
    /// What it shows.
    pub curves: Vec<Curve>,
    /// Vertical lines with a label.
    pub marks: Vec<(f64, String)>,
}

pub(crate) const WIDTH: f64 = 720.0;
pub(crate) const HEIGHT: f64 = 440.0;
pub(crate) const LEFT: f64 = 78.0;
pub(crate) const RIGHT: f64 = 22.0;
pub(crate) const TOP: f64 = 44.0;
pub(crate) const BOTTOM: f64 = 56.0;
/// Room for a line of the legend.
const LEGEND: f64 = 18.0;
/// Points of a curve that are marked each; more would be one broad line.
const MOST_DOTS: usize = 60;
/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Round numbers from `low` to `high`, about `wanted` of them.
fn ticks(low: f64, high: f64, wanted: f64) -> Vec<f64> {
    let rough = (high - low) / wanted;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

pub(crate) fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() >= 1e6 || value.abs() < 1e-3) {
        return format!("{value:.0e}");
    }
    format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis: its ends, as logarithms when it has powers of ten.
pub(crate) struct Axis {
    pub(crate) log: bool,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Axis {
    /// For `values`, or the given ends. A linear axis begins at 0 if it is `from_zero`.
    fn new(log: bool, given: Option<(f64, f64)>, values: impl Iterator<Item = f64>, from_zero: bool) -> Axis {
        let scale = |value: f64| if log { value.log10() } else { value };
        let (mut low, mut high) = values.map(scale).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if from_zero && !log {
            (low, high) = (0.0, 1.05 * high);
        }
        if let Some((first, last)) = given {
            (low, high) = (scale(first), scale(last));
        }
        if !low.is_finite() || !high.is_finite() {
            (low, high) = (0.0, 1.0);
        } else if high <= low {
            let half = (0.5 * low.abs()).max(if log { 0.5 } else { 1e-9 });
            (low, high) = (low - half, low + half);
        }
        Axis { log, low, high }
    }

    /// From 0 to 1 along it.
    fn place(&self, value: f64) -> f64 {
        ((if self.log { value.log10() } else { value }) - self.low) / (self.high - self.low)
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    fn ticks(&self, wanted: f64) -> Vec<f64> {
        if !self.log {
            return ticks(self.low, self.high, wanted);
        }
        let steps: &[f64] = if self.high - self.low < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(|value| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10())).collect()
    }
}

/// The place of the curves within the picture, and their axes.
pub(crate) struct Frame {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    pub(crate) fn across(&self, x: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.x.place(x).clamp(0.0, 1.0)
    }

    pub(crate) fn up(&self, y: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.place(y).clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The picture; a note in place of curves when there is nothing to show.
    pub fn svg(&self) -> String {
        if self.stacked {
            let mut below: Vec<f64> = Vec::new();
            let mut sums = Chart { stacked: false, ..self.clone() };
            for curve in &mut sums.curves {
                below.resize(below.len().max(curve.points.len()), 0.0);
                for ((_, value), below) in curve.points.iter_mut().zip(&mut below) {
                    *below += value.unwrap_or(0.0);
                    *value = Some(*below);
                }
            }
            return sums.draw(true);
        }
        self.draw(false)
    }

    fn draw(&self, filled: bool) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points).filter_map(|&(x, y)| y.map(|y| (x, y)));
        let mut frame = Frame {
            x: Axis { log: self.log_x, low: 0.0, high: 1.0 },
            y: Axis { log: self.log, low: 0.0, high: 1.0 },
            top: TOP + LEGEND * self.curves.len().div_ceil(3) as f64,
            bottom: HEIGHT - BOTTOM,
        };
        let shown: Vec<(f64, f64)> = points().filter(|&(x, y)| frame.x.shows(x) && frame.y.shows(y)).collect();
        frame.x = Axis::new(self.log_x, self.x_range, shown.iter().map(|point| point.0), false);
        frame.y = Axis::new(self.log, self.y_range, shown.iter().map(|point| point.1), true);

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"26\" font-size=\"16\">{}</text>\n",
            escape(&self.title)
        );
        self.draw_axes(&frame, &mut svg);
        if filled {
            // From the top down: each hides the part of the one above it that is not its own.
            for (index, curve) in self.curves.iter().enumerate().rev() {
                fill_below(curve, index, &frame, &mut svg);
            }
        }
        // Where areas have no height their lines are at one place: the lowest one has something to show there.
        for (index, curve) in self.curves.iter().enumerate().rev() {
            draw_curve(curve, index, !filled, &frame, &mut svg);
        }
        if shown.is_empty() {
            let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">nothing to show</text>");
        }
        svg.push_str("</svg>\n");
        svg
    }

    pub(crate) fn draw_axes(&self, frame: &Frame, svg: &mut String) {
        let (top, bottom, right) = (frame.top, frame.bottom, WIDTH - RIGHT);
        for tick in frame.x.ticks(8.0) {
            let (x, below) = (frame.across(tick), bottom + 18.0);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
                number(tick)
            );
        }
        for tick in frame.y.ticks(6.0) {
            let (y, left) = (frame.up(tick), LEFT - 8.0);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                y + 4.5,
                number(tick)
            );
        }
        let (centre, middle, foot) = ((LEFT + right) / 2.0, (top + bottom) / 2.0, HEIGHT - 14.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {top:.1}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"{centre:.1}\" y=\"{foot}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"18\" y=\"{middle:.1}\" transform=\"rotate(-90 18 {middle:.1})\" text-anchor=\"middle\">{}</text>",
            escape(&self.x),
            escape(&self.y)
        );
        for (at, label) in &self.marks {
            let x = frame.across(*at);
            // The label stays within the picture.
            let (beside, anchor) = if frame.x.place(*at) > 0.8 { (x - 4.0, "end") } else { (x + 4.0, "start") };
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom}\" stroke=\"#777\" stroke-dasharray=\"2 3\"/>\
                 <text x=\"{beside:.1}\" y=\"{:.1}\" fill=\"#555\" font-size=\"11\" text-anchor=\"{anchor}\">{}</text>",
                top + 12.0,
                escape(label)
            );
        }
    }
}

/// The area under a curve.
fn fill_below(curve: &Curve, index: usize, frame: &Frame, svg: &mut String) {
    let shown = curve.points.iter().filter_map(|&(x, y)| y.map(|y| (x, y))).filter(|&(x, y)| frame.x.shows(x) && frame.y.shows(y));
    let mut path = String::new();
    let (mut first, mut last) = (None, 0.0);
    for (x, y) in shown {
        let (x, y) = (frame.across(x), frame.up(y));
        let _ = write!(path, "{}{x:.1} {y:.1}", if first.is_none() { 'M' } else { 'L' });
        (first, last) = (first.or(Some(x)), x);
    }
    if let Some(first) = first {
        let (bottom, colour) = (frame.bottom, tint(COLOURS[index % COLOURS.len()]));
        let _ = writeln!(svg, "<path d=\"{path}L{last:.1} {bottom:.1}L{first:.1} {bottom:.1}Z\" fill=\"{colour}\"/>");
    }
}

/// A lighter colour, half way to white.
fn tint(colour: &str) -> String {
    let part = |at: usize| u16::from_str_radix(&colour[at..at + 2], 16).map_or(255, |value| (value + 255) / 2);
    format!("#{:02x}{:02x}{:02x}", part(1), part(3), part(5))
}

/// A curve and its line of the legend.
fn draw_curve(curve: &Curve, index: usize, dots: bool, frame: &Frame, svg: &mut String) {
    let colour = COLOURS[index % COLOURS.len()];
    let dash = if curve.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let dots = dots && curve.points.len() <= MOST_DOTS;
    let mut path = String::new();
    let mut pen_down = false;
    let shows = |&(x, y): &(f64, Option<f64>)| y.filter(|y| frame.x.shows(x) && frame.y.shows(*y));
    for (place, point) in curve.points.iter().enumerate() {
        let Some(y) = shows(point) else {
            pen_down = false;
            continue;
        };
        // A point between two gaps is no line.
        let alone = !pen_down && curve.points.get(place + 1).and_then(shows).is_none();
        let x = point.0;
        let (x, y) = (frame.across(x), frame.up(y));
        let _ = write!(path, "{}{x:.1} {y:.1}", if pen_down { 'L' } else { 'M' });
        pen_down = true;
        if dots || alone {
            let radius = if dots { 3.0 } else { 1.5 };
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>");
        }
    }
    let (x, y) = (LEFT + 205.0 * (index % 3) as f64, TOP + LEGEND * (index / 3) as f64);
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{dash}/>\n\
         <path d=\"M{x} {:.1}h22\" stroke=\"{colour}\" stroke-width=\"2.5\"{dash}/><text x=\"{:.1}\" y=\"{y}\" font-size=\"12\">{}</text>",
        y - 4.0,
        x + 28.0,
        escape(&curve.name)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{found:?}");
        };
        near(ticks(0.0, 1.0, 6.0), &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        near(ticks(0.1, 0.5, 8.0), &[0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]);
        near(ticks(0.0, 4500.0, 6.0), &[0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
    }

    #[test]
    fn a_distribution_ends_at_one() {
        let curve = Curve::distribution(String::new(), (1..=1000).map(|value| (f64::from(value), 3)));
        assert!(curve.points.len() <= CDF_POINTS + 1, "{}", curve.points.len());
        assert_eq!(curve.points.first(), Some(&(1.0, Some(0.001))));
        assert_eq!(curve.points.last(), Some(&(1000.0, Some(1.0))));
        assert_eq!(Curve::distribution(String::new(), std::iter::empty()).points, []);
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let curve = Curve { name: String::from("a < b"), points: vec![(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None)], dashed: false };
        let chart = Chart { y_range: Some((0.0, 10.0)), x_range: Some((0.0, 2.0)), curves: vec![curve], ..Chart::default() };
        let svg = chart.svg();
        // Left end at the bottom, the middle at the top: 78 + 620 / 2, below the title and one line of the legend.
        assert!(svg.contains("M78.0 384.0L388.0 62.0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn areas_lie_on_top_of_each_other() {
        let curve = |value| Curve { points: vec![(0.0, Some(value)), (1.0, Some(value))], ..Curve::default() };
        let curves = vec![curve(2.0), curve(3.0)];
        let svg = Chart { y_range: Some((0.0, 10.0)), x_range: Some((0.0, 1.0)), stacked: true, curves, ..Chart::default() }.svg();
        // 62 to 384: 2 of 10 are at 319.6, 5 at 223. The higher one is drawn first.
        let (high, low) =
            ("<path d=\"M78.0 223.0L698.0 223.0L698.0 384.0L78.0 384.0Z\"", "<path d=\"M78.0 319.6L698.0 319.6L698.0 384.0L78.0 384.0Z\"");
        assert!(svg.find(high).unwrap() < svg.find(low).unwrap(), "{svg}");
    }

    #[test]
    fn a_point_between_gaps_is_seen() {
        let points = (0..200).map(|place| (f64::from(place), (place == 7).then_some(1.0))).collect();
        let svg = Chart { curves: vec![Curve { points, ..Curve::default() }], ..Chart::default() }.svg();
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
    }

    #[test]
    fn any_points_make_a_picture() {
        for points in [vec![], vec![(1.0, Some(5.0))], vec![(0.0, Some(f64::NAN)), (1.0, Some(-3.0))], vec![(0.0, None)]] {
            for log in [false, true] {
                let curves = vec![Curve { points: points.clone(), ..Curve::default() }];
                let svg = Chart { log, curves, ..Chart::default() }.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
