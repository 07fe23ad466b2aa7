//! The page of an exploration: what its runs showed, class by class.

use super::words::whole;
use narrows_results::{Origin, Page};
use serde_json::Value;

/// Lines of a program's output that a page shows.
const LINES: usize = 40;

/// `explored`: as explore.json has it; of each class the picture of who waits for whom, if there is one.
pub fn explored(explored: &Value, pictures: &[Option<String>], origin: &Origin) -> String {
    let mut page = Page::default();
    let words = |value: &Value| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(" ")
    };
    let number = |value: &Value| whole(value.as_i64().unwrap_or(0));
    let classes = explored["classes"].as_array().map_or(&[][..], Vec::as_slice);
    page.facts(&[
        (String::from("Classes of outcomes"), classes.len().to_string()),
        (String::from("Runs"), number(&explored["runs"])),
        (String::from("More runs, for the least timings"), number(&explored["shrinking"])),
        (String::from("Ways in which receives from anybody were matched"), number(&explored["matchings"])),
        (String::from("Ranks"), number(&explored["ranks"])),
    ]);
    if classes.len() > 1 {
        page.alarm("The program does not always end alike: its outcome depends on the timing of messages.");
    }
    for (index, class) in classes.iter().enumerate() {
        let text = |key: &str| class[key].as_str().unwrap_or_default();
        page.heading(&format!("Class {}: {}, {} runs", index + 1, text("ended"), number(&class["runs"])));
        for finding in class["findings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            page.alarm(finding);
        }
        page.note(&format!("Least timing that shows it: {}", text("timing")));
        if let Some(apart) = class["apart"].as_f64() {
            page.note(&format!("As class 1 but for real numbers of its output, which are up to {apart:.1e} apart (--tolerance)."));
        }
        if let Some(svg) = pictures.get(index).and_then(Option::as_deref) {
            page.pictures(&[("Who waits for whom; those in a circle are red", svg)]);
        }
        let output: Vec<&str> = class["output"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !output.is_empty() {
            let left_out = output.len().saturating_sub(LINES);
            let more = if left_out > 0 { format!("\n... {left_out} lines more") } else { String::new() };
            page.details("Output, its lines sorted", &(output[..output.len() - left_out].join("\n") + &more));
        }
        if !text("compared").is_empty() {
            page.details("What --compare printed", text("compared"));
        }
        page.note("The same run again:");
        page.command(text("repeat"));
    }
    page.finish(&format!("Exploration: {}", words(&explored["program"])), origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_class_has_its_outcome_and_the_command_that_repeats_it() {
        let class = |ended: &str| json!({ "runs": 3, "ended": ended, "output": ["first 1"], "findings": ["leak: a < b"], "timing": "as it is", "repeat": "narrows run x" });
        let whole =
            json!({ "program": ["./race"], "ranks": 4, "runs": 6, "matchings": 2, "classes": [class("exit code 0"), class("deadlock")] });
        let page = explored(&whole, &[None, Some(String::from("<svg></svg>"))], &Origin::here(None, None));
        for part in [
            "Exploration: ./race",
            "Class 2: deadlock, 3 runs",
            "leak: a &lt; b",
            "does not always end alike",
            "narrows run x",
            "<svg></svg>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
