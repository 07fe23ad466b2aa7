//! Sizes and times as functions of the grid, chosen by leaving one recording out.

use crate::grid::Grid;
use std::fmt;

/// How the problem grows with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Each rank keeps its part: computing is the same at all numbers of ranks.
    Weak,
    /// The whole stays: a rank computes its share of it.
    Strong,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Growth::Weak { "weak" } else { "strong" })
    }
}

/// What a value is proportional to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Base {
    /// Nothing: it stays.
    Constant,
    /// Powers of the sides of the grid.
    Sides([i8; 3]),
    /// A power of the number of ranks.
    Power(f64),
    /// Its logarithm.
    Logarithm,
    /// A power that the values themselves give.
    Free,
}

impl Base {
    fn of(self, grid: Grid) -> f64 {
        let ranks = f64::from(grid.ranks());
        match self {
            Base::Constant | Base::Free => 1.0,
            Base::Sides(powers) => grid.sides.iter().zip(powers).map(|(side, power)| f64::from(*side).powi(i32::from(power))).product(),
            Base::Power(power) => ranks.powf(power),
            Base::Logarithm => ranks.log2(),
        }
    }
}

/// `constant + factor * base`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    base: Base,
    constant: f64,
    factor: f64,
    /// Mean relative error of a value that is predicted from the others.
    error: f64,
}

/// Two laws that differ by less are the same: the simpler one is taken. Our own choice: sizes are rounded to whole
/// cells.
const SAME: f64 = 0.002;
/// Rounding. Our own choice: a byte of 100,000.
const EXACT: f64 = 1e-5;

impl Law {
    /// The same at all numbers of ranks.
    pub const CONSTANT: Law = Law { base: Base::Constant, constant: 0.0, factor: 1.0, error: 0.0 };
    /// A share of the whole.
    pub const SHARE: Law = Law { base: Base::Power(-1.0), constant: 0.0, factor: 1.0, error: 0.0 };

    /// Its value, not below 0.
    pub fn of(&self, grid: Grid) -> f64 {
        (self.constant + self.factor * self.base.of(grid)).max(0.0)
    }

    /// Whether nothing changes.
    pub fn is_constant(&self) -> bool {
        self.base == Base::Constant
    }

    /// Whether it says what was recorded, but for rounding.
    pub fn is_exact(&self) -> bool {
        self.error < EXACT
    }

    /// How much larger a value is on one grid than on another.
    pub fn ratio(&self, grid: Grid, known: Grid) -> f64 {
        if self.is_constant() || grid == known {
            return 1.0;
        }
        let below = self.of(known);
        if below > 0.0 { self.of(grid) / below } else { 1.0 }
    }

    /// The law that says just these values, if one of the simplest does; cheaper than [`Law::fit`].
    pub fn exact(samples: &[(Grid, f64)], along: [bool; 3]) -> Option<Law> {
        let first = samples.first()?.1;
        if samples.iter().all(|sample| sample.1 == first) {
            return Some(Law::CONSTANT);
        }
        // Two values are on a line of every kind.
        if samples.len() < 3 || samples.iter().any(|sample| sample.1 <= 0.0) {
            return None;
        }
        let is_it = |base: &Base| {
            let factor = first / base.of(samples[0].0);
            samples.iter().all(|(grid, value)| (factor * base.of(*grid) / value - 1.0).abs() < EXACT)
        };
        let base = bases(along).into_iter().filter(|(_, raised)| !raised).map(|(base, _)| base).find(is_it)?;
        solve(samples, base, false)
    }

    /// The law of values, one for each recorded grid. `along`: directions in which a message goes, whose sides matter
    /// least for its size.
    pub fn fit(samples: &[(Grid, f64)], along: [bool; 3]) -> Law {
        let first = samples.first().map_or(0.0, |sample| sample.1);
        if samples.len() < 2 || samples.iter().all(|sample| sample.1 == first) {
            return Law::CONSTANT;
        }
        let errors: Vec<(Base, bool, f64)> =
            bases(along).into_iter().map(|(base, raised)| (base, raised, left_out(samples, base, raised))).collect();
        let least = errors.iter().map(|(.., error)| *error).fold(f64::INFINITY, f64::min);
        let simplest = errors.iter().find(|(.., error)| *error <= least * 1.2 + SAME);
        let solved = simplest.and_then(|(base, raised, error)| Some(Law { error: *error, ..solve(samples, *base, *raised)? }));
        solved.unwrap_or(Law::CONSTANT)
    }
}

/// The simplest first; `true` with a constant beside.
fn bases(along: [bool; 3]) -> Vec<(Base, bool)> {
    let mut sides: Vec<[i8; 3]> = Vec::new();
    for code in 0..125i16 {
        sides.push([0, 1, 2].map(|d| (code / 5i16.pow(d) % 5 - 2) as i8));
    }
    sides.retain(|powers| *powers != [0; 3]);
    // A side twice is rarer than two sides; one in the direction of a message is rarer still.
    let cost = |powers: &[i8; 3]| -> i32 {
        powers.iter().zip(along).map(|(power, along)| i32::from(*power).pow(2) * if along { 3 } else { 1 }).sum()
    };
    sides.sort_by_key(|powers| (cost(powers), *powers));
    let sides: Vec<Base> = sides.into_iter().map(Base::Sides).collect();
    let powers = [-1.0, 1.0, -2.0 / 3.0, 2.0 / 3.0, -1.0 / 3.0, 1.0 / 3.0, -0.5, 0.5, -2.0, 2.0].map(Base::Power);
    let is_message = along.contains(&true);
    let mut all = vec![Base::Constant];
    match is_message {
        true => all.extend(sides.iter().chain(&powers)),
        false => all.extend(powers.iter().chain(&[Base::Logarithm]).chain(&sides)),
    }
    let raised = all[1..].iter().map(|base| (*base, true));
    all.iter().map(|base| (*base, false)).chain([(Base::Free, false)]).chain(raised).collect()
}

/// The mean relative error of a value that is predicted from all others.
fn left_out(samples: &[(Grid, f64)], base: Base, raised: bool) -> f64 {
    let parameters = if raised || base == Base::Free { 2 } else { 1 };
    if samples.len() <= parameters {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    for index in 0..samples.len() {
        let mut others = samples.to_vec();
        let (grid, value) = others.remove(index);
        let Some(law) = solve(&others, base, raised) else { return f64::INFINITY };
        sum += (law.of(grid) - value).abs() / value.abs().max(1e-9);
    }
    sum / samples.len() as f64
}

/// Least squares of relative errors.
fn solve(samples: &[(Grid, f64)], base: Base, raised: bool) -> Option<Law> {
    if base == Base::Free {
        return power(samples);
    }
    // w (c + f x - y) with w = 1 / y.
    let mut sums = [0.0; 5];
    for (grid, y) in samples {
        let (w, x) = (1.0 / y.abs().max(1e-9), base.of(*grid));
        for (sum, more) in sums.iter_mut().zip([w * w, w * w * x, w * w * x * x, w * w * y, w * w * x * y]) {
            *sum += more;
        }
    }
    let [w, wx, wxx, wy, wxy] = sums;
    if !raised {
        return (wxx > 0.0).then(|| Law { base, constant: 0.0, factor: wxy / wxx, error: 0.0 });
    }
    let determinant = w * wxx - wx * wx;
    if determinant.abs() <= 1e-12 * w * wxx {
        return None;
    }
    let factor = (w * wxy - wx * wy) / determinant;
    Some(Law { base, constant: (wy - factor * wx) / w, factor, error: 0.0 })
}

/// A straight line in logarithms.
fn power(samples: &[(Grid, f64)]) -> Option<Law> {
    let points: Vec<(f64, f64)> = samples.iter().map(|(grid, value)| (f64::from(grid.ranks()).ln(), value.ln())).collect();
    if points.iter().any(|(_, y)| !y.is_finite()) {
        return None;
    }
    let count = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let spread: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / spread;
    Some(Law { base: Base::Power(slope), constant: 0.0, factor: (my - slope * mx).exp(), error: 0.0 })
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Constant | Base::Free => f.write_str("constant")?,
            Base::Sides([x, y, z]) => write!(f, "x^{x} y^{y} z^{z}")?,
            Base::Power(power) => write!(f, "ranks^{power:.2}")?,
            Base::Logarithm => f.write_str("log2 ranks")?,
        }
        if self.constant == 0.0 { Ok(()) } else { f.write_str(" + constant") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Rule;

    fn law(of: impl Fn([f64; 3]) -> f64, along: [bool; 3]) -> Law {
        let grid = |ranks| Grid { sides: Rule::Descending { directions: 3 }.sides(ranks) };
        let value = |grid: Grid| (grid, of(grid.sides.map(f64::from)).round());
        Law::fit(&[8, 16, 32, 64].map(|ranks| value(grid(ranks))), along)
    }

    #[test]
    fn faces_of_a_shared_cube_shrink_with_their_sides() {
        let target = Grid { sides: [16, 8, 8] };
        let known = Grid { sides: [4, 4, 4] };
        let face = law(|[_, y, z]| 8.0 * (256.0 / y) * (256.0 / z), [true, false, false]);
        assert!((face.ratio(target, known) - 0.25).abs() < 1e-9, "{face}");
        let ghosts = law(|[x, y, z]| (100.0 / x + 2.0) * 8.0 * 1e6 / y / z, [false; 3]);
        assert!(ghosts.ratio(target, known) < 1.0);
        assert!(law(|_| 4711.0, [false; 3]).is_constant());
        let all = law(|[x, y, z]| 1024.0 * x * y * z, [false; 3]);
        assert!((all.ratio(target, known) - 16.0).abs() < 1e-9, "{all}");
        let rows = law(|[x, y, z]| 10.0 * (x * y * z).log2() + 3.0, [false; 3]);
        assert!((rows.ratio(target, known) - 103.0 / 63.0).abs() < 0.02, "{rows}");
    }

    #[test]
    fn values_that_are_zero_stay() {
        assert!(law(|_| 0.0, [false; 3]).is_constant());
        assert_eq!(Law::fit(&[], [false; 3]), Law::CONSTANT);
    }
}
