use crate::escape;
use std::f64::consts::TAU;
use std::fmt::Write;

/// Nodes on a circle, with arrows between them: an SVG picture.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Above it.
    pub title: String,
    /// What stands in each node, and the line about it below the picture.
    pub nodes: Vec<(String, String)>,
    /// From where to where, by index into the nodes; those of a circle are red.
    pub arrows: Vec<(usize, usize, bool)>,
}

const WIDTH: f64 = 720.0;
/// Of a node.
const RADIUS: f64 = 17.0;
const TOP: f64 = 50.0;
const LINE: f64 = 18.0;

impl Graph {
    /// The picture; a note in place of nodes when there are none.
    pub fn svg(&self) -> String {
        let count = self.nodes.len();
        // So far that nodes do not touch.
        let ring = if count < 2 { 0.0 } else { (RADIUS * 1.6 / (TAU / 2.0 / count as f64).sin()).clamp(70.0, 320.0) };
        let middle = (WIDTH / 2.0, TOP + ring + RADIUS + 8.0);
        let below = middle.1 + ring + RADIUS + 30.0;
        let height = below + LINE * count as f64 + 12.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"16\" y=\"26\" font-size=\"16\">{}</text>\n\
             <defs>",
            escape(&self.title)
        );
        for (name, colour) in [("plain", PLAIN), ("circle", CIRCLE)] {
            let _ = write!(
                svg,
                "<marker id=\"{name}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
                 <path d=\"M0 0L10 5L0 10z\" fill=\"{colour}\"/></marker>"
            );
        }
        svg += "</defs>\n";
        if count == 0 {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">nothing to show</text>",
                middle.0, middle.1
            );
            return svg + "</svg>\n";
        }
        let place = |node: usize| {
            let angle = TAU * node as f64 / count as f64 - TAU / 4.0;
            (middle.0 + ring * angle.cos(), middle.1 + ring * angle.sin())
        };
        for &(from, to, circle) in self.arrows.iter().filter(|arrow| arrow.0 < count && arrow.1 < count) {
            let ((x, y), (to_x, to_y)) = (place(from), place(to));
            let (colour, marker) = if circle { (CIRCLE, "circle") } else { (PLAIN, "plain") };
            let length = (to_x - x).hypot(to_y - y);
            let path = if length > 0.0 {
                let (across, along) = ((to_x - x) / length, (to_y - y) / length);
                // A little beside the line, so that two that wait for each other have two arrows.
                let (aside_x, aside_y) = (-along * 5.0, across * 5.0);
                format!(
                    "M{:.1} {:.1}L{:.1} {:.1}",
                    x + across * RADIUS + aside_x,
                    y + along * RADIUS + aside_y,
                    to_x - across * (RADIUS + 2.0) + aside_x,
                    to_y - along * (RADIUS + 2.0) + aside_y
                )
            } else {
                format!("M{:.1} {:.1}c14 -34 -26 -34 -12 -2", x + 6.0, y - RADIUS + 1.0)
            };
            let _ =
                writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" marker-end=\"url(#{marker})\"/>");
        }
        for (node, (label, detail)) in self.nodes.iter().enumerate() {
            let (x, y) = place(node);
            let circle = self.arrows.iter().any(|arrow| arrow.2 && (arrow.0 == node || arrow.1 == node));
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"white\" stroke=\"{}\" stroke-width=\"1.6\"><title>{}</title></circle>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                if circle { CIRCLE } else { PLAIN },
                escape(detail),
                y + 4.5,
                escape(label)
            );
            let _ = writeln!(svg, "<text x=\"16\" y=\"{:.1}\">{}</text>", below + LINE * node as f64, escape(detail));
        }
        svg + "</svg>\n"
    }
}

const PLAIN: &str = "#555";
const CIRCLE: &str = "#c0392b";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_wait_for_each_other_have_two_arrows() {
        let node = |rank: u32| (rank.to_string(), format!("rank {rank}: MPI_Send to <{}>", 1 - rank));
        let graph = Graph { title: "t".to_owned(), nodes: vec![node(0), node(1)], arrows: vec![(0, 1, true), (1, 0, true), (0, 9, false)] };
        let svg = graph.svg();
        assert_eq!((svg.matches("<circle").count(), svg.matches("marker-end=\"url(#circle)\"").count()), (2, 2));
        assert!(svg.contains("MPI_Send to &lt;1&gt;") && svg.ends_with("</svg>\n"));
        // Opposite places of the circle, and arrows beside each other.
        assert!(svg.contains("M365.0 92.0L365.0 ") || svg.contains("M355.0 92.0L355.0 "), "{svg}");
    }

    #[test]
    fn nodes_do_not_touch() {
        for count in [2usize, 16, 60] {
            let nodes = (0..count).map(|rank| (rank.to_string(), String::new())).collect();
            let svg = Graph { nodes, ..Graph::default() }.svg();
            let number = |text: &str, key: &str| text.split(key).nth(1)?.split('"').next()?.parse::<f64>().ok();
            let places: Vec<(f64, f64)> = svg.lines().filter_map(|line| Some((number(line, "cx=\"")?, number(line, "cy=\"")?))).collect();
            assert_eq!(places.len(), count);
            let apart = (places[0].0 - places[1].0).hypot(places[0].1 - places[1].1);
            assert!(apart >= 1.9 * RADIUS, "{count}: {apart}");
        }
        assert!(Graph::default().svg().contains("nothing to show"));
    }
}
