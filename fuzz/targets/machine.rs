//! Any text as a machine file, its first line as a `--set`: a complaint, or a machine that can be written and has a
//! topology.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use narrows_machine::{Machine, Overrides};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    let set = text.lines().next().unwrap_or_default().to_owned();
    for set in [vec![], vec![set]] {
        match Machine::parse("my.toml", text, &Overrides { nodes: None, set }) {
            Ok(machine) => {
                let again = Machine::parse("my.toml", &machine.to_toml(), &Overrides::default());
                assert_eq!(again.expect("what was written reads back"), machine);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    Corpus::Keep
});
