//! Hosts on the picture of a network.

use super::{HOST, Point};
use std::fmt::Write;

/// How the hosts of a switch hang: the angle that they take, the size of a dot, how far the first row is.
pub(super) struct Fan {
    spread: f64,
    dot: f64,
    length: f64,
}

/// Hosts of one switch that hang in one row; more take two.
const ONE_ROW: u32 = 8;

impl Fan {
    pub(super) fn of(away: Point, hosts: u32, radius: f64) -> Fan {
        let spread = (0.32 * f64::from(hosts)).min(2.0);
        Fan { spread, dot: (radius * 0.38).clamp(0.8, 4.0), length: away.0.hypot(away.1).max(1e-9) }
    }

    /// The dots of so many hosts touch.
    pub(super) fn smears(&self, hosts: u32) -> bool {
        let rows = if hosts > ONE_ROW { 2.0 } else { 1.0 };
        let step = rows * self.spread / f64::from(hosts.max(2) - 1);
        2.0 * self.length * (step / 2.0).sin() < 2.2 * self.dot
    }
}

/// The hosts of a switch as dots; `together`: as one, with their number where there is room.
pub(super) fn fan(svg: &mut String, (x, y): Point, away: Point, hosts: u32, radius: f64, together: bool) {
    if hosts == 0 {
        return;
    }
    let Fan { spread, dot, length } = Fan::of(away, hosts, radius);
    let angle = away.1.atan2(away.0);
    let mut host = |(hx, hy): Point, dot: f64| {
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{hx:.1}\" y2=\"{hy:.1}\" stroke=\"{HOST}\" stroke-width=\"0.6\"/>\
             <circle cx=\"{hx:.1}\" cy=\"{hy:.1}\" r=\"{dot:.1}\" fill=\"{HOST}\"/>"
        );
    };
    if together {
        let dot = (radius * 0.8).clamp(1.2, 9.0);
        let (hx, hy) = (x + length.max(radius + 1.6 * dot) * angle.cos(), y + length.max(radius + 1.6 * dot) * angle.sin());
        host((hx, hy), dot);
        if dot >= 6.0 {
            let (size, below) = (dot * 1.05, hy + dot * 0.37);
            let _ = writeln!(
                svg,
                "<text x=\"{hx:.1}\" y=\"{below:.1}\" font-size=\"{size:.1}\" fill=\"white\" text-anchor=\"middle\">{hosts}</text>"
            );
        }
        return;
    }
    for index in 0..hosts {
        let turn = if hosts == 1 { 0.0 } else { spread * (f64::from(index) / f64::from(hosts - 1) - 0.5) };
        let reach = length * if hosts > ONE_ROW && index % 2 == 1 { 1.35 } else { 1.0 };
        host((x + reach * (angle + turn).cos(), y + reach * (angle + turn).sin()), dot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_would_touch_are_one_with_a_number() {
        let dots = |hosts: u32, together: bool| {
            let mut svg = String::new();
            fan(&mut svg, (100.0, 100.0), (0.0, 40.0), hosts, 12.0, together);
            (svg.matches("<circle").count(), svg.contains(&format!(">{hosts}</text>")))
        };
        assert_eq!((dots(6, false), dots(36, true), dots(0, true)), ((6, false), (1, true), (0, false)));
        let smears = |hosts: u32| Fan::of((0.0, 40.0), hosts, 12.0).smears(hosts);
        assert_eq!([1, 4, 8, 36, 64].map(smears), [false, false, false, true, true]);
    }
}
