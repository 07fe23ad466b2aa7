//! Pictures of a network: SVG to look at, DOT for Graphviz.
//!
//! Fat trees stand in rows, groups on a circle with their switches on smaller ones, tori and HyperX on a grid; what has
//! no rule is laid out by springs. Of a network with more cables than an eye can follow, only the links of the first
//! group are drawn.

mod hosts;

use hosts::{Fan, fan};
use narrows_results::{Column, Table};
use narrows_topology::{LinkClass, LinkId, Shape, Topology, Vertex};
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write;

/// More cables between switches than this are not drawn one by one.
const CABLES_MAX: u32 = 4_000;
/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
const LOCAL: &str = "#0072b2";
const GLOBAL: &str = "#d55e00";
const FAILED: &str = "#cc0000";
const HOST: &str = "#009e73";

type Point = (f64, f64);

/// The graph in Graphviz's language; parallel cables are one edge with their number.
pub fn dot(topology: &Topology) -> String {
    let mut text = format!("graph \"{}\" {{\n  node [shape=box];\n", topology.name().replace('"', "'"));
    for switch in 0..topology.switches() {
        let _ = writeln!(text, "  s{switch};");
    }
    for host in 0..topology.hosts() {
        let _ = writeln!(text, "  h{host} [shape=point];\n  h{host} -- s{};", topology.switch_of(host));
    }
    for ((one, other), bundle) in bundles(topology) {
        let mut attributes = Vec::new();
        if bundle.cables > 1 {
            attributes.push(format!("label=\"x{}\"", bundle.cables));
        }
        if bundle.class == LinkClass::Global {
            attributes.push("color=\"#d55e00\"".to_owned());
        }
        if bundle.failed > 0 {
            attributes.push("style=dashed".to_owned());
        }
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        let _ = writeln!(text, "  s{one} -- s{other}{attributes};");
    }
    text.push_str("}\n");
    text
}

/// The cables between two switches.
struct Bundle {
    cables: u32,
    failed: u32,
    class: LinkClass,
}

fn bundles(topology: &Topology) -> BTreeMap<(u32, u32), Bundle> {
    let mut bundles = BTreeMap::new();
    for (index, link) in topology.links().iter().enumerate() {
        if let (Vertex::Switch(one), Vertex::Switch(other)) = (link.from, link.to)
            && one < other
        {
            let bundle = bundles.entry((one, other)).or_insert(Bundle { cables: 0, failed: 0, class: link.class });
            bundle.cables += 1;
            bundle.failed += u32::from(topology.is_failed(index as LinkId));
        }
    }
    bundles
}

/// The picture.
pub fn svg(topology: &Topology, machine: &str) -> String {
    let counts = topology.counts();
    let title = [format!("{machine}: {} nodes, {} switches", counts.hosts, counts.switches), topology.name().to_owned()];
    match topology.shape() {
        Shape::FatTree(_) => every_switch(topology, &title, counts.switch_cables > CABLES_MAX),
        _ if counts.switch_cables > CABLES_MAX => groups_alone(topology, &title),
        _ => every_switch(topology, &title, false),
    }
}

fn open(width: f64, height: f64, title: &[String; 2]) -> String {
    let [title, below] = title.each_ref().map(|text| text.replace('&', "&amp;").replace('<', "&lt;"));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"26\" font-size=\"16\">{title}</text>\n<text x=\"20\" y=\"45\" fill=\"#555\">{below}</text>\n"
    )
}

/// A key: colour and words, in a row below the title.
fn key(svg: &mut String, entries: &[(&str, &str)]) {
    let mut x = 20.0;
    for (colour, words) in entries {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"56\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"67\">{words}</text>",
            x + 17.0
        );
        x += 40.0 + 7.2 * words.chars().count() as f64;
    }
}

/// Where everything stands.
struct Layout {
    width: f64,
    height: f64,
    switches: Vec<Point>,
    /// Where hosts hang, seen from their switch.
    away: Vec<Point>,
    /// Links between groups bend towards this point; others stay straight, but for the rings of tori.
    centre: Option<Point>,
    /// Links longer than this between switches of one row bend.
    straight: f64,
    radius: f64,
}

fn layout(topology: &Topology) -> Layout {
    match topology.shape() {
        Shape::FatTree(tree) => rows(topology, tree),
        Shape::Torus(torus) => {
            let parameters = torus.parameters();
            grid(topology, &parameters.lengths, parameters.board)
        }
        Shape::HyperX(hyperx) => grid(topology, hyperx.lengths(), 1),
        _ if (2..topology.switches()).contains(&topology.groups()) => circles(topology),
        _ => springs(topology),
    }
}

/// Switches by springs at most: each of them pushes each other one.
const SPRINGS: u32 = 2_000;

/// Where each switch stands on the picture, a row each: for pictures of what its links do. Nothing of large networks
/// without a rule.
pub(crate) fn table(topology: &Topology) -> Option<Table> {
    let ruled = !matches!(topology.shape(), Shape::Table(_)) || (2..topology.switches()).contains(&topology.groups());
    if !ruled && topology.switches() > SPRINGS {
        return None;
    }
    let switches = layout(topology).switches;
    let mut below = vec![0; switches.len()];
    (0..topology.hosts()).for_each(|host| below[topology.switch_of(host) as usize] += 1);
    let number = |of: fn(&Point) -> f64| Column::Number(switches.iter().map(|point| Some(of(point))).collect());
    Some(Table::new(vec![
        ("switch", Column::Text((0..topology.switches()).map(|switch| Vertex::Switch(switch).to_string()).collect())),
        ("group", Column::Integer((0..topology.switches()).map(|switch| i64::from(topology.group(switch))).collect())),
        ("hosts", Column::Integer(below)),
        ("x", number(|point| point.0)),
        ("y", number(|point| -point.1)),
    ]))
}

/// `first_alone`: only the links of the first group.
fn every_switch(topology: &Topology, title: &[String; 2], first_alone: bool) -> String {
    let layout = layout(topology);
    let mut svg = open(layout.width, layout.height, title);
    let mut bundles = bundles(topology);
    if first_alone {
        bundles.retain(|(one, _), _| topology.group(*one) == 0);
    }
    let failed = bundles.values().any(|bundle| bundle.failed > 0);
    let mut hosts_of = vec![0u32; topology.switches() as usize];
    (0..topology.hosts()).for_each(|host| hosts_of[topology.switch_of(host) as usize] += 1);
    // Dots that touch say nothing: then there is one for all nodes of a switch.
    let hung = || layout.away.iter().zip(&hosts_of).filter(|(_, hosts)| **hosts > 0);
    let together = hung().any(|(&away, &hosts)| Fan::of(away, hosts, layout.radius).smears(hosts));
    let mut entries = vec![
        (HOST, if together { "nodes: how many" } else { "nodes" }),
        ("#333", "switches"),
        (LOCAL, if first_alone { "links between switches: those of the first pod" } else { "links between switches" }),
    ];
    if bundles.values().any(|bundle| bundle.class == LinkClass::Global) {
        entries.push((GLOBAL, "links between groups"));
    }
    if failed {
        entries.push((FAILED, "failed"));
    }
    key(&mut svg, &entries);
    let opacity = (60.0 / (bundles.len() as f64).sqrt() / 3.0).clamp(if first_alone { 0.12 } else { 0.25 }, 0.9);
    for pass in [LinkClass::Global, LinkClass::Switch] {
        for ((one, other), bundle) in bundles.iter().filter(|(_, bundle)| bundle.class == pass) {
            let (from, to) = (layout.switches[*one as usize], layout.switches[*other as usize]);
            let colour = match (bundle.failed > 0, bundle.class) {
                (true, _) => FAILED,
                (_, LinkClass::Global) => GLOBAL,
                _ => LOCAL,
            };
            let dashes = if bundle.failed > 0 { " stroke-dasharray=\"5 4\"" } else { "" };
            let width = 0.9 * f64::from(bundle.cables).sqrt() + if bundle.failed > 0 { 0.8 } else { 0.0 };
            let bend = bend(&layout, from, to, bundle.class);
            let _ = writeln!(
                svg,
                "<path d=\"M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.2}\" \
                 stroke-opacity=\"{:.2}\"{dashes}/>",
                from.0,
                from.1,
                bend.0,
                bend.1,
                to.0,
                to.1,
                if bundle.failed > 0 { 1.0 } else { opacity }
            );
        }
    }
    for (switch, &(x, y)) in layout.switches.iter().enumerate() {
        fan(&mut svg, (x, y), layout.away[switch], hosts_of[switch], layout.radius, together);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"#333\"/>", layout.radius);
        if layout.radius >= 8.0 {
            let size = layout.radius * 0.95;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{size:.1}\" fill=\"white\" text-anchor=\"middle\">{switch}</text>",
                y + size * 0.35
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The control point of a link: its middle, or where it bends.
fn bend(layout: &Layout, from: Point, to: Point, class: LinkClass) -> Point {
    let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
    if let (Some(centre), LinkClass::Global) = (layout.centre, class) {
        return (middle.0 + (centre.0 - middle.0) * 0.55, middle.1 + (centre.1 - middle.1) * 0.55);
    }
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length <= layout.straight {
        return middle;
    }
    let side = 0.16 + 14.0 / length;
    (middle.0 + dy * side, middle.1 - dx * side)
}

fn rows(topology: &Topology, tree: &narrows_topology::FatTree) -> Layout {
    let levels = tree.levels();
    let widest = (1..=levels).map(|level| tree.switches(level)).max().unwrap_or(1);
    let width = (f64::from(widest) * 34.0 + 60.0).clamp(560.0, 1500.0);
    let row = (width * 0.22).clamp(110.0, 230.0);
    let height = 105.0 + row * (levels as f64 - 1.0) + 100.0;
    let mut switches = Vec::new();
    for level in 1..=levels {
        let count = tree.switches(level);
        let y = 115.0 + row * (levels - level) as f64;
        switches.extend((0..count).map(|index| (30.0 + (width - 60.0) * (f64::from(index) + 0.5) / f64::from(count), y)));
    }
    let radius = (width / f64::from(widest) * 0.3).clamp(1.5, 13.0);
    let away = vec![(0.0, 10.0 + 2.2 * radius); topology.switches() as usize];
    Layout { width, height, switches, away, centre: None, straight: f64::INFINITY, radius }
}

fn circles(topology: &Topology) -> Layout {
    let (groups, size) = (topology.groups(), topology.switches() / topology.groups());
    let side = (360.0 + 34.0 * f64::from(groups)).clamp(700.0, 1300.0);
    let centre = (side / 2.0, side / 2.0 + 50.0);
    let hosts_per_switch = topology.hosts().div_ceil(topology.switches()).min(16);
    let mut ring = side * 0.5 - 70.0;
    // Neighbouring groups must not touch.
    let chord = ring * 2.0 * (TAU / f64::from(groups) / 2.0).sin();
    let own = (chord * 0.36).min(ring * 0.42);
    ring -= own * 0.35;
    let radius = (own * TAU / f64::from(size.max(3)) * 0.17).clamp(1.5, 12.0);
    let mut places = vec![0u32; groups as usize];
    let (mut switches, mut away) = (Vec::new(), Vec::new());
    for switch in 0..topology.switches() {
        let group = topology.group(switch);
        let index = places[group as usize];
        places[group as usize] += 1;
        let direction = TAU * f64::from(group) / f64::from(groups) - TAU / 4.0;
        let middle = (centre.0 + ring * direction.cos(), centre.1 + ring * direction.sin());
        let point = if let Shape::DragonflyPlus(plus) = topology.shape() {
            // Leaves in an outer row, spines in an inner one.
            let parameters = plus.parameters();
            let (count, place, out) = if index < parameters.leaves {
                (parameters.leaves, index, own * 0.55)
            } else {
                (parameters.spines, index - parameters.leaves, -own * 0.45)
            };
            let across = own * 1.9 * ((f64::from(place) + 0.5) / f64::from(count) - 0.5);
            let (cos, sin) = (direction.cos(), direction.sin());
            (middle.0 + out * cos - across * sin, middle.1 + out * sin + across * cos)
        } else {
            let turn = direction + TAU * (f64::from(index) + 0.5) / f64::from(size);
            (middle.0 + own * turn.cos(), middle.1 + own * turn.sin())
        };
        let out = if matches!(topology.shape(), Shape::DragonflyPlus(_)) {
            (direction.cos(), direction.sin())
        } else {
            let (dx, dy) = (point.0 - middle.0, point.1 - middle.1);
            (dx / own, dy / own)
        };
        let reach = radius * (1.9 + 0.12 * f64::from(hosts_per_switch));
        switches.push(point);
        away.push((out.0 * reach, out.1 * reach));
    }
    Layout { width: side, height: side + 85.0, switches, away, centre: Some(centre), straight: f64::INFINITY, radius }
}

/// The first two dimensions in the plane; the others shift the plane by ever larger steps, aslant.
fn grid(topology: &Topology, lengths: &[u32], board: u32) -> Layout {
    if lengths.len() == 1 && board == 1 {
        return ring(topology);
    }
    let spaced = |dimension: usize| f64::from(lengths.get(dimension).copied().unwrap_or(1));
    // The step of each dimension, in cells.
    let mut steps: Vec<Point> = vec![(1.0, 0.0), (0.0, 1.0)];
    let (mut wide, mut high) = (spaced(0), spaced(1));
    for (index, &length) in lengths.iter().enumerate().skip(2) {
        let step = if index == 2 {
            (0.42, 0.30)
        } else if index % 2 == 1 {
            (wide + 0.8, 0.0)
        } else {
            (0.0, high + 0.8)
        };
        wide += step.0 * f64::from(length - 1);
        high += step.1 * f64::from(length - 1);
        steps.push(step);
    }
    let cell = (1150.0 / wide).min(780.0 / high).clamp(22.0, 130.0);
    let mut switches = Vec::new();
    let radius = (cell
        * if board > 1 {
            0.065
        } else if lengths.len() > 2 {
            0.09
        } else {
            0.14
        })
    .clamp(2.0, 13.0);
    for switch in 0..topology.switches() {
        let (mut rest, place) = (switch / board, switch % board);
        let mut point = (0.5, 0.5);
        for (&length, step) in lengths.iter().zip(&steps) {
            let at = f64::from(rest % length);
            rest /= length;
            point = (point.0 + at * step.0, point.1 + at * step.1);
        }
        if board > 1 {
            let turn = TAU * (f64::from(place) + 0.5) / f64::from(board) - TAU / 4.0;
            point = (point.0 + 0.17 * turn.cos(), point.1 + 0.17 * turn.sin());
        }
        switches.push((45.0 + cell * point.0, 100.0 + cell * point.1));
    }
    let reach = radius * 2.3;
    let away = vec![(-reach * 0.6, reach * 0.8); topology.switches() as usize];
    let straight = cell * 1.2;
    Layout { width: (90.0 + cell * wide).max(620.0), height: 145.0 + cell * high, switches, away, centre: None, straight, radius }
}

fn ring(topology: &Topology) -> Layout {
    let count = f64::from(topology.switches());
    let side = (260.0 + 22.0 * count).clamp(560.0, 1200.0);
    let (middle, own) = ((side / 2.0, side / 2.0 + 50.0), side * 0.36);
    let turns = (0..topology.switches()).map(|switch| TAU * f64::from(switch) / count - TAU / 4.0);
    let switches = turns.clone().map(|turn| (middle.0 + own * turn.cos(), middle.1 + own * turn.sin())).collect();
    let radius = (own * TAU / count * 0.25).clamp(1.5, 13.0);
    let away = turns.map(|turn| (turn.cos() * radius * 2.6, turn.sin() * radius * 2.6)).collect();
    Layout { width: side, height: side + 85.0, switches, away, centre: None, straight: f64::INFINITY, radius }
}

/// Fruchterman and Reingold 1991 from a circle: neighbours attract, all repel.
fn springs(topology: &Topology) -> Layout {
    let mut layout = ring(topology);
    let count = layout.switches.len();
    if !(3..=600).contains(&count) {
        return layout;
    }
    let (left, right, top, bottom) = (60.0, layout.width - 60.0, 115.0, layout.height - 60.0);
    let ideal = 0.9 * ((right - left) * (bottom - top) / count as f64).sqrt();
    let edges: Vec<(u32, u32)> = bundles(topology).into_keys().collect();
    for round in 0..300 {
        let mut moves = vec![(0.0, 0.0); count];
        for one in 0..count {
            for other in 0..one {
                let (dx, dy) = (layout.switches[one].0 - layout.switches[other].0, layout.switches[one].1 - layout.switches[other].1);
                let distance = dx.hypot(dy).max(0.1);
                let push = ideal * ideal / (distance * distance);
                moves[one] = (moves[one].0 + dx * push, moves[one].1 + dy * push);
                moves[other] = (moves[other].0 - dx * push, moves[other].1 - dy * push);
            }
        }
        for &(one, other) in &edges {
            let (one, other) = (one as usize, other as usize);
            let (dx, dy) = (layout.switches[one].0 - layout.switches[other].0, layout.switches[one].1 - layout.switches[other].1);
            let pull = dx.hypot(dy) / ideal;
            moves[one] = (moves[one].0 - dx * pull, moves[one].1 - dy * pull);
            moves[other] = (moves[other].0 + dx * pull, moves[other].1 + dy * pull);
        }
        let most = layout.width * 0.1 * (1.0 - f64::from(round) / 300.0);
        for (point, (dx, dy)) in layout.switches.iter_mut().zip(moves) {
            let length = dx.hypot(dy).max(1e-9);
            let step = length.min(most) / length;
            *point = ((point.0 + dx * step).clamp(left, right), (point.1 + dy * step).clamp(top, bottom));
        }
    }
    let middle = (layout.width / 2.0, layout.height / 2.0);
    for (point, away) in layout.switches.iter().zip(&mut layout.away) {
        let (dx, dy) = (point.0 - middle.0, point.1 - middle.1);
        let length = dx.hypot(dy).max(1e-9);
        *away = (dx / length * layout.radius * 2.4, dy / length * layout.radius * 2.4);
    }
    layout
}

/// Groups on a circle, the links of the first one, and the first one large in the middle.
fn groups_alone(topology: &Topology, title: &[String; 2]) -> String {
    let side = 1000.0;
    let groups = topology.groups();
    let centre = (side / 2.0, side / 2.0 + 55.0);
    let place = |group: u32| {
        let turn = TAU * f64::from(group) / f64::from(groups) - TAU / 4.0;
        (centre.0 + 430.0 * turn.cos(), centre.1 + 430.0 * turn.sin())
    };
    let members: Vec<u32> = (0..topology.switches()).filter(|&switch| topology.group(switch) == 0).collect();
    let inner = |index: usize| {
        let turn = TAU * index as f64 / members.len() as f64 - TAU / 4.0;
        (centre.0 + 230.0 * turn.cos(), centre.1 + 230.0 * turn.sin())
    };
    let mut svg = open(side, side + 90.0, title);
    let words = format!("groups ({groups}); in the middle the {} switches of the first one and all of its links", members.len());
    key(&mut svg, &[("#333", words.as_str()), (LOCAL, "within"), (GLOBAL, "to other groups")]);
    for (index, &switch) in members.iter().enumerate() {
        let from = inner(index);
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        for link in topology.outputs(switch) {
            if let Vertex::Switch(peer) = topology.links()[link as usize].to {
                if let Some(other) = members.iter().position(|&member| member == peer) {
                    if other > index {
                        let to = inner(other);
                        let _ = writeln!(
                            svg,
                            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{LOCAL}\" stroke-width=\"0.7\" stroke-opacity=\"0.35\"/>",
                            from.0, from.1, to.0, to.1
                        );
                    }
                } else {
                    *seen.entry(topology.group(peer)).or_default() += 1;
                }
            }
        }
        for (group, cables) in seen {
            let to = place(group);
            let _ = writeln!(
                svg,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{GLOBAL}\" stroke-width=\"{:.2}\" stroke-opacity=\"0.6\"/>",
                from.0,
                from.1,
                to.0,
                to.1,
                0.6 * f64::from(cables).sqrt()
            );
        }
    }
    let dot = (430.0 * TAU / f64::from(groups) * 0.3).clamp(1.5, 9.0);
    for group in 0..groups {
        let (x, y) = place(group);
        let fill = if group == 0 { LOCAL } else { "#333" };
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{dot:.1}\" fill=\"{fill}\"/>");
    }
    for index in 0..members.len() {
        let (x, y) = inner(index);
        let size = (230.0 * TAU / members.len() as f64 * 0.25).clamp(1.2, 9.0);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size:.1}\" fill=\"#333\"/>");
    }
    svg.push_str("</svg>\n");
    svg
}
