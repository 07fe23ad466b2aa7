//! Which algorithms the collectives of a replay use: a table, and rules before it.

use crate::model::Machine;
use narrows_collectives::rules::{MPICH, MPICH_3, OPEN_MPI, RuleError, RuleProblem, Rules};

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// No file with a table.
    #[error("cannot read the collectives table {path}: {error} (known: openmpi, mpich, mpich3, or a file)")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A line of a table.
    #[error("collectives table {path}, {error}")]
    Table {
        /// The file.
        path: String,
        /// Where in it, and what.
        error: RuleError,
    },
    /// A rule of `collectives.rules`.
    #[error("collectives.rules, \"{rule}\": {problem}")]
    Rule {
        /// Its place in the list.
        index: usize,
        /// As it stands there.
        rule: String,
        /// What is wrong with it.
        problem: RuleProblem,
    },
}

impl Machine {
    /// The rules of collectives; `table` in place of the machine's own.
    ///
    /// # Errors
    /// See [`RulesError`].
    pub fn collective_rules(&self, table: Option<&str>) -> Result<Rules, RulesError> {
        for (index, rule) in self.collectives.rules.iter().enumerate() {
            if let Err(error) = Rules::parse(rule) {
                return Err(RulesError::Rule { index, rule: rule.clone(), problem: error.problem });
            }
        }
        let table = table_text(table.unwrap_or(&self.collectives.table))?;
        let first: String = self.collectives.rules.iter().map(|rule| format!("{rule}\n")).collect();
        Ok(Rules::parse(&(first + &table)).expect("its two parts are tables"))
    }
}

/// The table of the MPI library that calls itself so (MPI_Get_library_version), if there is one.
pub fn table_of_library(name: &str) -> Option<&'static str> {
    match name {
        name if name.starts_with("Open MPI") => Some("openmpi"),
        name if name.starts_with("MPICH Version: 3.") => Some("mpich3"),
        name if name.starts_with("MPICH") => Some("mpich"),
        _ => None,
    }
}

/// The rules of a table alone: `openmpi`, `mpich`, `mpich3`, or a file.
///
/// # Errors
/// See [`RulesError`].
pub fn collectives_table(name: &str) -> Result<Rules, RulesError> {
    Ok(Rules::parse(&table_text(name)?).expect("it has been read once"))
}

/// The text of a table without mistakes.
fn table_text(name: &str) -> Result<String, RulesError> {
    let text = match name {
        "openmpi" => OPEN_MPI.to_owned(),
        "mpich" => MPICH.to_owned(),
        "mpich3" => MPICH_3.to_owned(),
        path => std::fs::read_to_string(path).map_err(|error| RulesError::Read { path: path.to_owned(), error })?,
    };
    match Rules::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(RulesError::Table { path: name.to_owned(), error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_their_tables() {
        let tables =
            ["Open MPI v4.1.4", "MPICH Version: 5.0.2", "MPICH Version: 3.4.1", "Intel(R) MPI Library 2021.18"].map(table_of_library);
        assert_eq!(tables, [Some("openmpi"), Some("mpich"), Some("mpich3"), None]);
        tables.into_iter().flatten().for_each(|table| drop(collectives_table(table).unwrap()));
    }
}
