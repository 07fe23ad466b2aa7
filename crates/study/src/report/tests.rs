use super::*;
use narrows_results::{Column, Table};
use serde_json::json;

fn numbers(values: &[f64]) -> Column {
    Column::Number(values.iter().copied().map(Some).collect())
}

fn texts(values: &[&str]) -> Column {
    Column::Text(values.iter().map(|&value| value.to_owned()).collect())
}

fn of_run() -> Data {
    let ranks = Table::new(vec![
        ("rank", Column::Integer(vec![0, 1])),
        ("computing_s", numbers(&[3e-3, 1e-3])),
        ("mpi_s", numbers(&[1e-3, 1e-3])),
        ("waiting_s", numbers(&[0.0, 2e-3])),
    ]);
    let functions = Table::new(vec![
        ("function", texts(&["MPI_Send", "MPI_Recv", "MPI_Recv"])),
        ("site", texts(&["ring.c:12", "ring.c:20", "app+0x1234"])),
        ("ranks", Column::Integer(vec![1, 1, 2])),
        ("calls", Column::Integer(vec![10, 1_000_000, 5])),
        ("time_s", numbers(&[1e-3, 2e-3, 1e-3])),
        ("waited_s", numbers(&[0.0, 1.5e-3, 0.5e-3])),
        ("longest_s", numbers(&[1e-3, 1e-6, 1e-3])),
    ]);
    Data::from(vec![("ranks", ranks), ("functions", functions)])
}

fn html(kind: &str, summary: &Value, data: &Data) -> String {
    let origin = Origin::here(Some("bxi-v2"), Some(1)).command("narrows again");
    Report { kind, title: None, summary, data, pictures: &[], text: "what was printed", origin: &origin }.html()
}

#[test]
fn a_live_run_says_where_the_time_went_by_function_and_by_place() {
    let machine = json!({ "machine": { "name": "bxi-v2", "description": "a <machine>" } });
    let summary = json!({
        "program": ["./ring", "7"], "ranks": 2, "nodes": 4, "nodes_used": 2, "simulated_s": 4e-3, "machine": machine, "messages": 11, "bytes": 2048,
        "energy": { "total_j": 2.0, "nodes_j": 1.5, "cables_j": 0.5, "mean_power_w": 500.0 }, "crossings_per_blocking_call": 0.597_188_519_961_429_6,
    });
    let page = html("run", &summary, &of_run());
    for part in [
        "<h1>Live run: ./ring 7</h1>",
        "<dt>Simulated time</dt><dd>4 ms</dd>",
        "<dt>Nodes</dt><dd>2 of 4</dd>",
        "computing 50.0 %",
        "waiting 25.0 %",
        "Rank 0 computes longest: 3 ms, 50.0 % more",
        // Both places of MPI_Recv together: 3 of 8 ms of both ranks.
        "<td class=\"text\">MPI_Recv</td><td>1\u{202f}000\u{202f}005</td><td>2</td><td>37.5 %</td><td>3 ms</td><td>2 ms</td>",
        "<td class=\"text\">ring.c:20</td><td class=\"text\">MPI_Recv</td>",
        "compile it with -g",
        "narrows sensitivity -n 2 --machine bxi-v2 -- ./ring 7",
        "narrows run -n 2 --machine bxi-v2 --timeline run.pftrace --out results/ -- ./ring 7",
        "<td class=\"text\">cables</td><td>0.5 J</td><td>25.0 %</td>",
        "Hand-overs per blocking MPI call</td><td>0.5972</td>",
        "The machine: a &lt;machine&gt;",
        "<pre class=\"command\">narrows again</pre>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("crossings") && !page.contains("0.59718"), "{page}");
}

#[test]
fn traffic_says_where_it_saturates() {
    let points = Table::new(vec![
        ("load", numbers(&[0.2, 0.8])),
        ("class", texts(&["uniform", "uniform"])),
        ("offered", numbers(&[0.2, 0.8])),
        ("accepted", numbers(&[0.2, 0.5971885])),
        ("saturated", Column::Integer(vec![0, 1])),
        ("partial", Column::Integer(vec![0, 0])),
        ("steady", Column::Integer(vec![1, 1])),
        ("too_short", Column::Integer(vec![0, 0])),
        ("latency_mean_ns", Column::Number(vec![Some(1234.5678), None])),
        ("messages", Column::Integer(vec![5, 6])),
    ]);
    let page = html("traffic", &json!({ "pattern": "uniform", "simulated_s": 1e-4 }), &Data::from(vec![("points", points)]));
    assert!(page.contains("saturated from load 0.8 on; 59.7 % of the injection bandwidth"), "{page}");
    assert!(page.contains("<td>1.235 us</td>") && page.contains("<td>saturated</td>"), "{page}");
}

#[test]
fn a_timeline_says_what_is_left_out() {
    let many = 20_001;
    let calls = Table::new(vec![
        ("rank", Column::Integer(vec![0; many])),
        ("call", texts(&vec!["MPI_Send"; many])),
        ("begin_s", Column::Number((0..many).map(|call| Some(call as f64 * 1e-6)).collect())),
        ("end_s", Column::Number((0..many).map(|call| Some(call as f64 * 1e-6 + 5e-7)).collect())),
        ("waited_s", numbers(&vec![0.0; many])),
    ]);
    let timeline = json!({ "file": "a.pftrace", "from_s": 0.0, "to_s": null, "ended_s": 0.5 });
    let page = html("run", &json!({ "program": ["a"], "timeline": timeline }), &Data::from(vec![("calls", calls)]));
    assert!(page.contains("the first 20\u{202f}000 of 20\u{202f}001 calls, up to 20 ms. All of them are in a.pftrace"), "{page}");
    assert!(page.contains("up to 500 ms, where --timeline-limit was reached"), "{page}");
    // Times per function come from the calls.
    assert!(page.contains("<td class=\"text\">MPI_Send</td><td>20\u{202f}001</td>"), "{page}");
}

#[test]
fn nothing_makes_a_page() {
    for kind in ["run", "replay", "traffic", "analysis"] {
        assert!(html(kind, &json!({}), &Data::default()).ends_with("</body></html>\n"));
    }
}
