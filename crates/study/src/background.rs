//! Synthetic traffic beside ranks: `--background`.

use crate::StudyError;
use crate::hardware::Networks;
use narrows_traffic::{Background, BackgroundClass, Class};
use serde_json::{Value, json};

/// The sources of these classes, on the first network of a machine.
pub(crate) fn sources(classes: &[Class], networks: &Networks<'_>, seed: u64) -> Result<Option<Background>, StudyError> {
    if classes.is_empty() {
        return Ok(None);
    }
    let mut classes = classes.to_vec();
    for (number, class) in classes.iter_mut().enumerate().filter(|(_, class)| class.name.is_empty()) {
        class.name = format!("background-{number}");
    }
    let (topology, _) = networks.first();
    Ok(Some(Background::new(networks.first_config(), topology, classes, seed)?))
}

/// What they have sent, as `summary.json` has it.
pub(crate) fn summary(classes: &[BackgroundClass]) -> Value {
    let of_class = |class: &BackgroundClass| {
        json!({
            "name": class.name,
            "messages": class.messages,
            "arrived": class.done,
            "given_up": class.given_up,
            "wire_bytes": class.wire,
            "fct_ns": { "mean": class.mean.as_ns_f64(), "p99": class.p99.as_ns_f64() },
        })
    };
    classes.iter().map(of_class).collect()
}
