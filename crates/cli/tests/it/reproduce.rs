//! `narrows reproduce` as a person runs it.

use std::path::Path;
use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_narrows")).current_dir(root).arg("reproduce").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn help_has_an_example_and_the_list_all_figures() {
    let help = narrows(&["--help"]);
    assert!(text(&help.stdout).contains("narrows reproduce all --quick"), "{}", text(&help.stdout));
    let list = narrows(&["--list"]);
    let lines = text(&list.stdout);
    assert!(list.status.success() && lines.contains("topologies") && lines.contains("minutes"), "{lines}");
    assert!(lines.contains("309 published numbers: "), "{lines}");
    let quick = narrows(&["--list", "--quick", "--json"]);
    let quick: serde_json::Value = serde_json::from_slice(&quick.stdout).unwrap();
    assert!(quick.as_array().unwrap().iter().all(|figure| figure["takes"] == "seconds"));
}

#[test]
fn rows_as_text_as_json_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = narrows(&["topologies", "--html", folder.path().to_str().unwrap()]);
    let lines = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        lines.ends_with("\n8 agree (8 input, 0 calibrated, 0 informed, 0 predicted), 0 differ as known, 0 are no test, 0 unexpected\n"),
        "{lines}"
    );
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(page.contains("published</text>") && page.contains("simulated</text>") && !page.contains("NaN"), "{page}");
    let rows: serde_json::Value = serde_json::from_slice(&narrows(&["topologies", "--json"]).stdout).unwrap();
    let row = &rows[2];
    assert_eq!((&row["id"], &row["published"], &row["simulated"]), (&"topologies".into(), &342.0.into(), &342.0.into()));
    assert_eq!((&row["difference"], &row["verdict"], &row["obtained"]), (&0.0.into(), &"agrees".into(), &"input".into()));
}

/// What the null model has stands beside what was simulated.
#[test]
fn null_models_have_a_column() {
    let output = narrows(&["spin", "--null"]);
    let lines = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row = lines.lines().find(|line| line.contains("reduce, 8 HPUs")).unwrap();
    let cells: Vec<&str> = row.rsplit("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
    assert!(lines.contains("null model") && cells.contains(&"512") && cells.contains(&"agrees"), "{row}");
    assert!(!text(&narrows(&["spin"]).stdout).contains("null model"));
}

/// CI hears of every verdict that changes, for the better too.
#[test]
fn another_verdict_than_the_known_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    std::fs::create_dir(&one).unwrap();
    let description =
        "title = \"x\"\nabout = \"y\"\n[topology]\ntree.on = { machine = \"8-ary-2-tree\" }\n[quantity]\nnodes = \"tree.nodes\"\n";
    std::fs::write(one.join("figure.toml"), description).unwrap();
    let expected = "row,quantity,unit,relation,published,tolerance,obtained,fitted,null,verdict,reason,document,place\n\
                    ,nodes,nodes,=,64,0,input,,,differs,was wrong once,a document,a place\n";
    std::fs::write(one.join("expected.csv"), expected).unwrap();
    let output = narrows(&["one", "--figures", folder.path().to_str().unwrap()]);
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{lines}");
    assert!(
        lines.contains("FAIL  nodes")
            && lines.contains("line 2")
            && lines
                .ends_with("\n0 agree (0 input, 0 calibrated, 0 informed, 0 predicted), 0 differ as known, 0 are no test, 1 unexpected\n"),
        "{lines}"
    );
    let unknown = narrows(&["two", "--figures", folder.path().to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stderr));
    assert!(text(&unknown.stderr).contains("no figure \"two\""), "{}", text(&unknown.stderr));
}
