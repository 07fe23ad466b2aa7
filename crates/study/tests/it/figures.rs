//! The folder of figures: complete, without mistakes, and what a broken one is told.

use narrows_study::Silent;
use narrows_study::figure::index::{self, Class};
use narrows_study::figure::{self, Figure, Verdict};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn figures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures")
}

fn all() -> Vec<Figure> {
    figure::list(&figures()).unwrap().iter().map(|id| Figure::load(&figures(), id).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// The list of published numbers has 309 rows. Each is in one class, and the classes add up to it.
#[test]
fn every_published_number_has_one_place() {
    let entries = index::load(&figures()).unwrap();
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.row.as_str()).collect();
    assert_eq!(names.len(), entries.len(), "each row once");
    let counts = Class::ALL.map(|class| entries.iter().filter(|entry| entry.class == class).count());
    assert_eq!(counts.iter().sum::<usize>(), 309, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    // The table of docs/figures.md says the same.
    let page = fs::read_to_string(figures().join("../docs/figures.md")).unwrap();
    for (class, count) in Class::ALL.iter().zip(counts) {
        let line = format!("| `{}` | {count} |", class.name());
        assert!(page.contains(&line), "docs/figures.md: expected {line}");
    }
}

#[test]
fn index_and_figures_name_each_other() {
    let entries = index::load(&figures()).unwrap();
    let mut claimed: BTreeSet<(&str, &str)> = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.class == Class::Figure) {
        claimed.extend(entry.detail.split(' ').map(|figure| (entry.row.as_str(), figure)));
    }
    let figures = all();
    let rows = figures.iter().flat_map(|figure| figure.expected.iter().map(|expected| (expected.row.as_str(), figure.id.as_str())));
    let had: BTreeSet<(&str, &str)> = rows.filter(|(row, _)| !row.is_empty()).collect();
    assert_eq!(claimed, had, "row and figure, in index.csv and in the figures");
}

const DESCRIPTION: &str = "title = \"One switch\"
about = \"Nodes of a machine.\"
[topology]
tree.on = { machine = \"8-ary-2-tree\" }
[quantity]
\"nodes\" = \"tree.nodes\"
";
const NAMES: &str = "row,quantity,unit,relation,published,tolerance,obtained,fitted,verdict,reason,document,place\n";
const EXPECTED: &str = ",nodes,nodes,=,64,0,predicted,,agrees,,a document,a place\n";

/// A folder of figures with one of these files; its error, from loading or from running.
fn broken(description: Option<&str>, expected: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    fs::create_dir(&one).unwrap();
    description.into_iter().for_each(|text| fs::write(one.join("figure.toml"), text).unwrap());
    expected.into_iter().for_each(|text| fs::write(one.join("expected.csv"), text).unwrap());
    Figure::load(folder.path(), "one").and_then(|figure| figure.run(&Silent)).unwrap_err().to_string()
}

#[test]
fn what_is_broken_is_named_with_file_and_line() {
    let expected = |text: &str| format!("{NAMES}{text}");
    let good = expected(EXPECTED);
    for (description, csv, parts) in [
        (None, Some(good.as_str()), ["figure.toml", "No such file"]),
        (Some(DESCRIPTION), None, ["expected.csv", "No such file"]),
        (Some("title = \"x\"\nabout = 1\n"), Some(good.as_str()), ["figure.toml:2: ", "string"]),
        (Some(&DESCRIPTION.replace("machine =", "machin =")), Some(good.as_str()), ["figure.toml:4: ", "unknown field `machin`"]),
        (Some(&DESCRIPTION.replace("tree.nodes", "tree.nodes +")), Some(good.as_str()), ["figure.toml:6: ", "expected a measure"]),
        (
            Some(&DESCRIPTION.replace("tree.nodes", "tree.knots")),
            Some(good.as_str()),
            ["figure.toml:6: ", "expected one of tree.host_cables"],
        ),
        (
            Some(&DESCRIPTION.replace("8-ary-2-tree", "9-ary-2-tree")),
            Some(good.as_str()),
            ["figure.toml:4: case tree", "no machine \"9-ary-2-tree\""],
        ),
        (Some(DESCRIPTION), Some("a,b\n"), ["expected.csv:1: ", "names of the columns"]),
        (
            Some(DESCRIPTION),
            Some(&good.replace(",nodes,nodes", ",knots,nodes")),
            ["expected.csv:2: ", "no quantity \"knots\" in figure.toml; there are \"nodes\""],
        ),
        (Some(DESCRIPTION), Some(&good.replace(",64,", ",many,")), ["expected.csv:2: ", "published \"many\": expected a number"]),
        (Some(DESCRIPTION), Some(&good.replace("predicted", "guessed")), ["expected.csv:2: ", "expected calibrated or predicted"]),
        (Some(DESCRIPTION), Some(&good.replace("predicted", "calibrated")), ["expected.csv:2: ", "fitted"]),
        (Some(DESCRIPTION), Some(&good.replace("agrees", "differs")), ["expected.csv:2: ", "reason"]),
        (Some(DESCRIPTION), Some(&format!("{good}x,y\n")), ["expected.csv:3: ", "2 fields"]),
        (Some(DESCRIPTION), Some(&format!("{good}\"x\n")), ["expected.csv:3: ", "does not end"]),
        (Some(DESCRIPTION), Some(NAMES), ["expected.csv:1: ", "nothing is expected"]),
    ] {
        let error = broken(description, csv);
        assert!(parts.iter().all(|part| error.contains(part)), "expected {parts:?}, found {error}");
    }
}

#[test]
fn a_figure_is_judged_by_its_tolerance() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    fs::create_dir(&one).unwrap();
    fs::write(one.join("figure.toml"), DESCRIPTION).unwrap();
    let row =
        |relation: &str, published: &str, tolerance: &str| EXPECTED.replace(",=,64,0,", &format!(",{relation},{published},{tolerance},"));
    let rows = [
        row("=", "64", "0"),
        row("=", "60", "5 %"),
        row("=", "60", "7 %"),
        row(">=", "65", "0"),
        row("<=", "65", "0"),
        row("=", "62", "2"),
    ];
    fs::write(one.join("expected.csv"), NAMES.to_owned() + &rows.concat()).unwrap();
    let rows = Figure::load(folder.path(), "one").unwrap().run(&Silent).unwrap();
    let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
    use Verdict::{Agrees, Differs};
    assert_eq!(verdicts, [Agrees, Differs, Agrees, Differs, Agrees, Agrees]);
    assert_eq!(rows.iter().filter(|row| row.passes()).count(), 4, "all are expected to agree");
    let json = figure::table(&rows).json();
    for key in ["id", "quantity", "unit", "published", "simulated", "difference", "tolerance", "verdict", "obtained"] {
        assert!(!json[1][key].is_null(), "{key}");
    }
    assert_eq!((&json[1]["difference"], &json[1]["tolerance"]), (&4.0.into(), &3.0.into()));
}

#[test]
fn an_unknown_figure_is_told_what_there_is() {
    let error = Figure::load(&figures(), "topologie").unwrap_err().to_string();
    assert!(error.contains("no figure \"topologie\"") && error.contains("topologies"), "{error}");
}
