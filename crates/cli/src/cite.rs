//! `narrows --cite`: how a text names this program.

/// A BibTeX entry, with the version of this program. `CITATION.cff` has the same for reference managers.
pub fn entry() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "@software{{narrows,
  author  = {{{{The Narrows authors}}}},
  title   = {{Narrows: a simulator of {{MPI}} programs on networks that you do not have}},
  version = {{{version}}},
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_file_of_the_sources_say_the_same() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
        assert!(read("docs/reference/cite.md").contains(&entry()));
        let file = read("CITATION.cff");
        assert!(file.contains(&format!("version: {}\n", env!("CARGO_PKG_VERSION"))));
        assert!(file.contains("title: \"Narrows: a simulator of MPI programs on networks that you do not have\"\n"));
    }
}
