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
[null.small]
about = \"a smaller machine\"
case.tree.on.machine = \"bxi-v2\"
";
const NAMES: &str = "row,quantity,unit,relation,published,tolerance,obtained,fitted,null,verdict,reason,document,place\n";
const EXPECTED: &str = ",nodes,nodes,=,64,0,predicted,,,agrees,,a document,a place\n";

/// A folder of figures with one of these files; its error, from loading or from running.
fn broken(description: Option<&str>, expected: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    fs::create_dir(&one).unwrap();
    description.into_iter().for_each(|text| fs::write(one.join("figure.toml"), text).unwrap());
    expected.into_iter().for_each(|text| fs::write(one.join("expected.csv"), text).unwrap());
    Figure::load(folder.path(), "one").and_then(|figure| figure.run(false, &Silent)).unwrap_err().to_string()
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
        (
            Some(DESCRIPTION),
            Some(&good.replace("predicted", "guessed")),
            ["expected.csv:2: ", "expected input or calibrated or informed or predicted"],
        ),
        (Some(DESCRIPTION), Some(&good.replace("predicted", "calibrated")), ["expected.csv:2: ", "fitted"]),
        (Some(DESCRIPTION), Some(&good.replace("agrees", "differs")), ["expected.csv:2: ", "reason"]),
        (
            Some(DESCRIPTION),
            Some(&good.replace("predicted,,,", "predicted,,none,")),
            ["expected.csv:2: ", "null \"none\": expected one of small"],
        ),
        (Some(DESCRIPTION), Some(&good.replace("predicted,,,", "input,,small,")), ["expected.csv:2: ", "an input has no null model"]),
        (Some(&DESCRIPTION.replace("case.tree", "case.bush")), Some(good.as_str()), ["figure.toml:7: null model small", "case \"bush\""]),
        (
            Some(&DESCRIPTION.replace("machine = \"bxi-v2\"", "machin = 1")),
            Some(good.as_str()),
            ["figure.toml:7: null model small", "unknown field `machin`"],
        ),
        (Some(DESCRIPTION.split("[null").next().unwrap()), Some(good.as_str()), ["expected.csv:2: ", "needs a null model"]),
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
    let rows = Figure::load(folder.path(), "one").unwrap().run(false, &Silent).unwrap();
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

/// A row that the null model agrees with too is no test; without running it, what is known counts.
#[test]
fn a_row_that_cannot_fail_is_no_test() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    fs::create_dir(&one).unwrap();
    let description = "title = \"x\"
about = \"y\"
[topology]
tree.on = { machine = \"8-ary-2-tree\" }
small_1.on = { machine = \"8-ary-2-tree\", nodes = 64, set = [\"machine.description=a\"] }
switch_1.on = { machine = \"bxi-v2\", nodes = 4 }
[null.fewer]
about = \"four nodes\"
instead = { \"small_*\" = \"switch_*\" }
[null.none]
about = \"nothing is taken away\"
all.on.set = [\"machine.description=b\"]
[quantity]
small = \"small_1.nodes\"
ratio = \"tree.nodes / (small_1.nodes > 4)\"
";
    fs::write(one.join("figure.toml"), description).unwrap();
    let row = |quantity: &str, obtained: &str, null: &str, verdict: &str| {
        format!(",{quantity},nodes,=,64,0,{obtained},,{null},{verdict},a reason,a document,a place\n")
    };
    let rows = [
        row("small", "predicted", "fewer", "agrees"),
        row("small", "predicted", "none", "no test"),
        row("small", "predicted", "none", "agrees"),
        row("small", "predicted", "fewer", "no test"),
        row("ratio", "predicted", "fewer", "agrees"),
        row("small", "input", "", "agrees"),
    ];
    fs::write(one.join("expected.csv"), NAMES.to_owned() + &rows.concat()).unwrap();
    let figure = Figure::load(folder.path(), "one").unwrap();
    use Verdict::{Agrees, NoTest};
    let verdicts = |nulls: bool| figure.run(nulls, &Silent).unwrap().iter().map(|row| row.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(true), [Agrees, NoTest, NoTest, Agrees, Agrees, Agrees], "nothing by 0 agrees with nothing");
    assert_eq!(verdicts(false), [Agrees, NoTest, Agrees, NoTest, Agrees, Agrees]);
    let rows = figure.run(true, &Silent).unwrap();
    let without: Vec<Option<f64>> = rows.iter().map(|row| row.without).collect();
    assert_eq!(without[..4], [Some(4.0), Some(64.0), Some(64.0), Some(4.0)]);
    assert!(without[4].is_some_and(f64::is_nan) && without[5].is_none());
    assert_eq!(figure::table(&rows).json()[4]["without"], serde_json::Value::Null);
}

#[test]
fn an_unknown_figure_is_told_what_there_is() {
    let error = Figure::load(&figures(), "topologie").unwrap_err().to_string();
    assert!(error.contains("no figure \"topologie\"") && error.contains("topologies"), "{error}");
}
