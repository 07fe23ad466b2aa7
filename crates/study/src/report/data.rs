//! Tables of a result, wherever they come from.

use narrows_results::{Column, Table};
use std::collections::BTreeMap;

/// Tables by name.
#[derive(Clone, Debug, Default)]
pub struct Data(BTreeMap<String, Columns>);

/// The columns of a table.
#[derive(Clone, Debug, Default)]
pub struct Columns(Vec<(String, Column)>);

impl Columns {
    /// Of these names and values.
    pub fn new(columns: Vec<(String, Column)>) -> Columns {
        Columns(columns)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self.0.first() {
            None => 0,
            Some((_, Column::Integer(values))) => values.len(),
            Some((_, Column::Number(values))) => values.len(),
            Some((_, Column::Text(values))) => values.len(),
        }
    }

    /// Names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, column)| column)
    }

    /// A number of a row, if there is one.
    pub fn number(&self, name: &str, row: usize) -> Option<f64> {
        match self.column(name)? {
            Column::Integer(values) => values.get(row).map(|&value| value as f64),
            Column::Number(values) => values.get(row).copied().flatten(),
            Column::Text(_) => None,
        }
    }

    /// A whole number of a row.
    pub fn integer(&self, name: &str, row: usize) -> Option<i64> {
        match self.column(name)? {
            Column::Integer(values) => values.get(row).copied(),
            Column::Number(values) => values.get(row).copied().flatten().map(|value| value as i64),
            Column::Text(_) => None,
        }
    }

    /// A text of a row; empty where there is none.
    pub fn text(&self, name: &str, row: usize) -> &str {
        match self.column(name) {
            Some(Column::Text(values)) => values.get(row).map_or("", String::as_str),
            _ => "",
        }
    }

    /// Whether a column has texts.
    pub fn is_text(&self, name: &str) -> bool {
        matches!(self.column(name), Some(Column::Text(_)))
    }
}

impl Data {
    /// A table, if there is one with rows.
    pub fn table(&self, name: &str) -> Option<&Columns> {
        self.0.get(name).filter(|table| table.rows() > 0)
    }
}

impl From<Vec<(&'static str, Table)>> for Data {
    fn from(tables: Vec<(&'static str, Table)>) -> Data {
        let columns = |table: Table| table.into_columns().into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
        Data(tables.into_iter().map(|(name, table)| (name.to_owned(), Columns(columns(table)))).collect())
    }
}

impl FromIterator<(String, Columns)> for Data {
    fn from_iter<T: IntoIterator<Item = (String, Columns)>>(tables: T) -> Data {
        Data(tables.into_iter().collect())
    }
}
