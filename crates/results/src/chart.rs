use crate::escape;
use narrows_units::{SimTime, show};
use std::fmt::Write;

/// What an axis counts in. Values are given in the basic unit; the picture shows them in one that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// A number, as it is.
    #[default]
    Number,
    /// Times: the axis says whether they are shown in ns, us, ms or s.
    Seconds,
    /// Sizes: each has its unit.
    Bytes,
}

impl Quantity {
    /// The name of an axis with its unit, and what values are to be multiplied by, if the largest one is `largest`.
    pub(crate) fn unit(self, name: &str, largest: f64) -> (String, f64) {
        match self {
            Quantity::Seconds => {
                let (unit, per_second) = show::time_unit(SimTime((largest.abs() * 1e12) as u64));
                (format!("{name}, {unit}"), per_second)
            }
            _ => (name.to_owned(), 1.0),
        }
    }

    /// A tick of an axis, or a value.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Quantity::Bytes => show::size(value.max(0.0) as u64),
            _ => number(value),
        }
    }
}

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
        // It begins at nothing: what the first bucket holds is seen as a step.
        let mut points: Vec<_> = buckets.first().map(|first| (first.0, Some(0.0))).into_iter().collect();
        for (index, (value, count)) in buckets.iter().enumerate() {
            below += count;
            if index.is_multiple_of(every) || below == all {
                points.push((*value, Some(below as f64 / all as f64)));
            }
        }
        Curve { name, points, dashed: false }
    }
}

/// Curves over one axis, as an SVG picture of 480 by 330: two fit side by side on a page, and one on a telephone.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// Beside the vertical axis.
    pub y: String,
    /// What the horizontal axis counts in.
    pub x_in: Quantity,
    /// What the vertical axis counts in.
    pub y_in: Quantity,
    /// Powers of ten on the vertical axis.
    pub log: bool,
    /// Powers of ten on the horizontal axis.
    pub log_x: bool,
    /// Ends of the horizontal axis; otherwise those of the points.
    pub x_range: Option<(f64, f64)>,
    /// Ends of the vertical axis; otherwise from 0 (or the least point of a logarithmic axis) up to the highest point.
    pub y_range: Option<(f64, f64)>,
    /// Each curve is the upper end of an area on top of those before it. All must have the same places on the
    /// horizontal axis, and a linear vertical one.
    pub stacked: bool,
    /// What it shows.
    pub curves: Vec<Curve>,
    /// Vertical lines with a label.
    pub marks: Vec<(f64, String)>,
}

pub(crate) const WIDTH: f64 = 480.0;
pub(crate) const HEIGHT: f64 = 330.0;
pub(crate) const LEFT: f64 = 66.0;
pub(crate) const RIGHT: f64 = 16.0;
pub(crate) const TOP: f64 = 40.0;
pub(crate) const BOTTOM: f64 = 48.0;
/// Ticks of an axis for which there is room.
pub(crate) const TICKS: [f64; 2] = [5.0, 5.0];
/// Room for a line of the legend, and for each of two names in one.
const LEGEND: f64 = 17.0;
const NAME: f64 = 204.0;
/// Width of a character in parts of its size (Helvetica's digits and most letters).
const CHARACTER: f64 = 0.56;
/// Points of a curve that are marked each; more would be one broad line.
const MOST_DOTS: usize = 60;
/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
pub const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// The colour of what a rank does with its time, the same in every picture; of anything else, that of its place.
pub(crate) fn colour_of(name: &str, index: usize) -> &'static str {
    ROLES.iter().find(|(role, _)| *role == name).map_or(COLOURS[index % COLOURS.len()], |(_, colour)| colour)
}

/// The start of a picture, with its title.
pub(crate) fn open(width: f64, title: &str) -> String {
    let size = ((WIDTH - LEFT) / (CHARACTER * title.chars().count().max(1) as f64)).clamp(9.0, 15.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"{size:.1}\">{}</text>\n",
        escape(title)
    )
}

/// What a rank does with its time, and its colour in all pictures: apart for colour-blind readers, and in grey.
pub const ROLES: [(&str, &str); 6] = [
    ("computing", "#0072b2"),
    ("MPI software", "#e69f00"),
    ("waiting", "#b8b8b8"),
    ("message", "#d55e00"),
    ("done", "#e4e4e4"),
    ("in MPI", "#e69f00"),
];

/// Dashes, so that curves at the same place are all seen: each is thinner than the one below it, and broken in its own
/// way.
const DASHES: [&str; 7] = ["", "9 5", "3 4", "12 4 3 4", "6 3", "2 6", "15 6"];

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
        } else if log && high > low && high - low < 0.1 {
            // Nearly the same everywhere: that is to be seen, not the last digits.
            let middle = (low + high) / 2.0;
            (low, high) = (middle - 0.15, middle + 0.15);
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

    /// Round values on the axis, at least three; `wanted` is about how many there is room for.
    pub(crate) fn ticks(&self, wanted: f64, quantity: Quantity) -> Vec<f64> {
        if !self.log {
            let more = |more: i32| ticks(self.low, self.high, wanted + 1.5 * f64::from(more));
            return (0..4).map(more).find(|ticks| ticks.len() >= 3).unwrap_or_else(|| more(0));
        }
        let span = self.high - self.low;
        let within = |value: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10());
        if quantity == Quantity::Bytes && span > 0.95 {
            // Powers of two, or of a power of two.
            let (first, last) = ((self.low / 2f64.log10()).ceil() as i32, (self.high / 2f64.log10()).floor() as i32);
            let every = (f64::from(last - first + 1) / wanted).ceil().max(1.0) as usize;
            return (first..=last).step_by(every).map(|power| 2f64.powi(power)).collect();
        }
        if span < 1.0 {
            // Within a power of ten equal steps are rounder than equal ratios.
            let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
            let found = (0..3).map(|more| ticks(low, high, wanted.min(5.0) + 3.0 * f64::from(more))).find(|ticks| ticks.len() >= 3);
            // They come nearer to each other upwards: a label that would touch the one before it is left out.
            let mut end = f64::NEG_INFINITY;
            let fits = |tick: &f64| {
                let (place, half) = (self.place(*tick) * (WIDTH - LEFT - RIGHT), 3.6 * quantity.show(*tick).chars().count() as f64);
                let fits = place - half > end + 2.0;
                end = if fits { place + half } else { end };
                fits
            };
            return found.unwrap_or_default().into_iter().filter(fits).collect();
        }
        let (steps, every): (&[f64], usize) = if span < 3.0 { (&[1.0, 2.0, 5.0], 1) } else { (&[1.0], (span / wanted).ceil() as usize) };
        let decades = (self.low.floor() as i32..=self.high.ceil() as i32).filter(|decade| within(&10f64.powi(*decade)) || steps.len() > 1);
        let all = decades.step_by(every).flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(within).collect()
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

    /// The same in the units that fit.
    fn in_units(&self) -> Chart {
        let mut chart = self.clone();
        let largest = |values: &mut dyn Iterator<Item = f64>| values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let (x, x_factor) =
            self.x_in.unit(&self.x, self.x_range.map_or_else(|| largest(&mut points().map(|point| point.0)), |range| range.1));
        let (y, y_factor) =
            self.y_in.unit(&self.y, self.y_range.map_or_else(|| largest(&mut points().filter_map(|point| point.1)), |range| range.1));
        (chart.x, chart.y) = (x, y);
        for point in chart.curves.iter_mut().flat_map(|curve| &mut curve.points) {
            *point = (point.0 * x_factor, point.1.map(|value| value * y_factor));
        }
        chart.x_range = chart.x_range.map(|(low, high)| (low * x_factor, high * x_factor));
        chart.y_range = chart.y_range.map(|(low, high)| (low * y_factor, high * y_factor));
        chart.marks.iter_mut().for_each(|mark| mark.0 *= x_factor);
        chart
    }

    fn draw(&self, filled: bool) -> String {
        self.in_units().draw_scaled(filled)
    }

    fn draw_scaled(&self, filled: bool) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points).filter_map(|&(x, y)| y.map(|y| (x, y)));
        let mut frame = Frame {
            x: Axis { log: self.log_x, low: 0.0, high: 1.0 },
            y: Axis { log: self.log, low: 0.0, high: 1.0 },
            top: TOP + LEGEND * self.curves.len().div_ceil(self.names_in_line()) as f64,
            bottom: HEIGHT - BOTTOM,
        };
        let shown: Vec<(f64, f64)> = points().filter(|&(x, y)| frame.x.shows(x) && frame.y.shows(y)).collect();
        frame.x = Axis::new(self.log_x, self.x_range, shown.iter().map(|point| point.0), false);
        frame.y = Axis::new(self.log, self.y_range, shown.iter().map(|point| point.1), true);

        let mut svg = open(WIDTH, &self.title);
        self.draw_axes(&frame, &mut svg);
        if filled {
            // From the top down: each hides the part of the one above it that is not its own.
            for (index, curve) in self.curves.iter().enumerate().rev() {
                fill_below(curve, index, &frame, &mut svg);
            }
        }
        // Where areas have no height their lines are at one place: the lowest one has something to show there. Curves
        // at one place are all seen: each lies on a broader one.
        let order: Vec<usize> = if filled { (0..self.curves.len()).rev().collect() } else { (0..self.curves.len()).collect() };
        for index in order {
            draw_curve(&self.curves[index], index, filled, &frame, &mut svg);
            self.draw_name(index, filled, &mut svg);
        }
        if shown.is_empty() {
            let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\">nothing to show</text>");
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Names of the legend in a line of it.
    fn names_in_line(&self) -> usize {
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        if 28.0 + 12.0 * CHARACTER * longest as f64 > NAME { 1 } else { 2 }
    }

    /// The legend of a curve.
    fn draw_name(&self, index: usize, filled: bool, svg: &mut String) {
        let (curve, in_line) = (&self.curves[index], self.names_in_line());
        let (x, y) = (LEFT + NAME * (index % in_line) as f64, TOP + 2.0 + LEGEND * (index / in_line) as f64);
        let _ = writeln!(
            svg,
            "<path d=\"M{x} {:.1}h22\" stroke=\"{}\" stroke-width=\"2.5\"{}/><text x=\"{:.1}\" y=\"{y}\" font-size=\"12\">{}</text>",
            y - 4.0,
            colour_of(&curve.name, index),
            dash_of(curve, index, filled),
            x + 28.0,
            escape(&curve.name)
        );
    }

    pub(crate) fn draw_axes(&self, frame: &Frame, svg: &mut String) {
        let ticks: Vec<_> = frame.x.ticks(TICKS[0], self.x_in).into_iter().map(|tick| (tick, self.x_in.show(tick))).collect();
        self.draw_axes_of(frame, svg, &ticks);
    }

    /// With these ticks on the horizontal axis.
    pub(crate) fn draw_axes_of(&self, frame: &Frame, svg: &mut String, ticks: &[(f64, String)]) {
        let (top, bottom, right) = (frame.top, frame.bottom, WIDTH - RIGHT);
        for (tick, label) in ticks {
            let (x, below) = (frame.across(*tick), bottom + 16.0);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
                escape(label)
            );
        }
        for tick in frame.y.ticks(TICKS[1], self.y_in) {
            let (y, left) = (frame.up(tick), LEFT - 6.0);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                y + 4.5,
                self.y_in.show(tick)
            );
        }
        let (centre, middle, foot) = ((LEFT + right) / 2.0, (top + bottom) / 2.0, HEIGHT - 13.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {top:.1}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"{centre:.1}\" y=\"{foot}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"15\" y=\"{middle:.1}\" transform=\"rotate(-90 15 {middle:.1})\" text-anchor=\"middle\">{}</text>",
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
        let (bottom, colour) = (frame.bottom, tint(colour_of(&curve.name, index)));
        let _ = writeln!(svg, "<path d=\"{path}L{last:.1} {bottom:.1}L{first:.1} {bottom:.1}Z\" fill=\"{colour}\"/>");
    }
}

/// A lighter colour, half way to white.
fn tint(colour: &str) -> String {
    let part = |at: usize| u16::from_str_radix(&colour[at..at + 2], 16).map_or(255, |value| (value + 255) / 2);
    format!("#{:02x}{:02x}{:02x}", part(1), part(3), part(5))
}

/// How a curve is broken.
fn dash_of(curve: &Curve, index: usize, filled: bool) -> String {
    match (filled, curve.dashed) {
        (true, _) => String::new(),
        (false, true) => String::from(" stroke-dasharray=\"2 5\""),
        (false, false) if DASHES[index % DASHES.len()].is_empty() => String::new(),
        (false, false) => format!(" stroke-dasharray=\"{}\"", DASHES[index % DASHES.len()]),
    }
}

/// A curve.
fn draw_curve(curve: &Curve, index: usize, filled: bool, frame: &Frame, svg: &mut String) {
    let (colour, dash) = (colour_of(&curve.name, index), dash_of(curve, index, filled));
    let width = if filled { 1.8 } else { (3.4 - 0.4 * index as f64).max(1.2) };
    let dots = !filled && curve.points.len() <= MOST_DOTS;
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
            let _ = match index % 3 {
                0 => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>"),
                1 => writeln!(svg, "<path d=\"M{x:.1} {:.1}l4 7h-8z\" fill=\"{colour}\"/>", y - 4.5),
                _ => writeln!(svg, "<path d=\"M{:.1} {:.1}h6v6h-6z\" fill=\"{colour}\"/>", x - 3.0, y - 3.0),
            };
        }
    }
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"{dash}/>");
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
        assert!(curve.points.len() <= CDF_POINTS + 2, "{}", curve.points.len());
        assert_eq!(curve.points[..2], [(1.0, Some(0.0)), (1.0, Some(0.001))]);
        assert_eq!(curve.points.last(), Some(&(1000.0, Some(1.0))));
        assert_eq!(Curve::distribution(String::new(), std::iter::empty()).points, []);
    }

    /// Where the ticks of an axis are, in pixels, and how wide their labels are.
    fn labels(axis: &Axis, quantity: Quantity) -> Vec<(f64, f64)> {
        let width = WIDTH - LEFT - RIGHT;
        axis.ticks(TICKS[0], quantity)
            .into_iter()
            .map(|tick| (axis.place(tick) * width, 7.0 * quantity.show(tick).chars().count() as f64))
            .collect()
    }

    #[test]
    fn an_axis_has_three_ticks_whose_labels_do_not_touch() {
        for log in [false, true] {
            for quantity in [Quantity::Number, Quantity::Bytes].into_iter().filter(|quantity| log || *quantity == Quantity::Number) {
                for step in 0..400 {
                    // From nearly nothing to twelve powers of ten.
                    let (low, ratio) = (1.0 + 9.0 * f64::from(step % 20) / 20.0, 10f64.powf(12.0 * f64::from(step) / 400.0));
                    let axis = Axis::new(log, None, [low * 8.0, low * 8.0 * ratio].into_iter(), false);
                    let labels = labels(&axis, quantity);
                    assert!(labels.len() >= 3, "{log} {quantity:?} {low} {ratio}: {labels:?}");
                    for pair in labels.windows(2) {
                        let ([(one, width), (other, next)], all) = ([pair[0], pair[1]], &labels);
                        assert!(one + width / 2.0 + 2.0 < other - next / 2.0, "{log} {quantity:?} {low} {ratio}: {all:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn times_are_in_the_unit_that_fits() {
        let curve = Curve { points: vec![(0.0, Some(2e-6)), (3e-3, Some(7e-6))], ..Curve::default() };
        let (x, y) = (String::from("time"), String::from("latency"));
        let svg = Chart { x, y, x_in: Quantity::Seconds, y_in: Quantity::Seconds, curves: vec![curve], ..Chart::default() }.svg();
        assert!(svg.contains(">time, ms</text>") && svg.contains(">latency, us</text>") && svg.contains(">2</text>"), "{svg}");
    }

    #[test]
    fn curves_at_one_place_are_all_seen() {
        let curve = Curve { points: (0..200).map(|place| (f64::from(place), Some(1.0))).collect(), ..Curve::default() };
        let svg = Chart { curves: vec![curve; 7], ..Chart::default() }.svg();
        let lines: Vec<&str> = svg.lines().filter(|line| line.starts_with("<path d=\"M66.0") && line.contains("L")).collect();
        let dashes: std::collections::BTreeSet<_> = lines.iter().map(|line| line.split("stroke-width").nth(1)).collect();
        assert_eq!((lines.len(), dashes.len()), (7, 7), "{svg}");
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let curve = Curve { name: String::from("a < b"), points: vec![(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None)], dashed: false };
        let chart = Chart { y_range: Some((0.0, 10.0)), x_range: Some((0.0, 2.0)), curves: vec![curve], ..Chart::default() };
        let svg = chart.svg();
        // Left end at the bottom, the middle at the top: 66 + 398 / 2, below the title and one line of the legend.
        assert!(svg.contains("M66.0 282.0L265.0 57.0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn areas_lie_on_top_of_each_other() {
        let curve = |value| Curve { points: vec![(0.0, Some(value)), (1.0, Some(value))], ..Curve::default() };
        let curves = vec![curve(2.0), curve(3.0)];
        let svg = Chart { y_range: Some((0.0, 10.0)), x_range: Some((0.0, 1.0)), stacked: true, curves, ..Chart::default() }.svg();
        // 57 to 282: 2 of 10 are at 237, 5 at 169.5. The higher one is drawn first.
        let (high, low) =
            ("<path d=\"M66.0 169.5L464.0 169.5L464.0 282.0L66.0 282.0Z\"", "<path d=\"M66.0 237.0L464.0 237.0L464.0 282.0L66.0 282.0Z\"");
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
