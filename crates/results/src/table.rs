use narrows_output::{OutputError, OutputFile};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of all tables and of the numbers of `summary.json` (docs/tables.md): raised when one of them goes, or
/// means something else.
pub const SCHEMA: u32 = 1;
/// Under this name it stands in the metadata of tables.
pub const SCHEMA_KEY: &str = "narrows.schema";

/// The values of a column, one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Parquet's `INT64`.
    Integer(Vec<i64>),
    /// Parquet's `DOUBLE`, with gaps.
    Number(Vec<Option<f64>>),
    /// Parquet's `STRING`.
    Text(Vec<String>),
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Integer(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }
}

/// Named columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<(&'static str, Column)>,
}

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The table cannot be encoded.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ParquetError,
    },
}

/// A field of CSV, quoted where it has to be.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Rows of a row group: what a reader must hold at once.
const GROUP: usize = 1 << 20;

impl Table {
    /// A table of these columns.
    ///
    /// # Panics
    /// When their lengths differ.
    pub fn new(columns: Vec<(&'static str, Column)>) -> Table {
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        for (name, column) in &columns {
            assert_eq!(column.len(), rows, "column {name}");
        }
        Table { columns }
    }

    /// Names and values, for who shows them elsewhere.
    pub fn into_columns(self) -> Vec<(&'static str, Column)> {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Writes it as a Parquet file, compressed with Snappy.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        let mut file = OutputFile::create(path)?;
        match self.fill(&mut file) {
            Ok(()) => Ok(file.commit()?),
            Err(ParquetError::External(error)) if error.is::<std::io::Error>() => {
                let error = error.downcast::<std::io::Error>().expect("it has just been looked at");
                Err(OutputError::of(path)(*error).into())
            }
            Err(error) => Err(TableError::Write { path: path.to_owned(), error }),
        }
    }

    /// As CSV (RFC 4180): names, then rows; a gap is an empty field.
    pub fn csv(&self) -> String {
        let mut text = self.columns.iter().map(|(name, _)| field(name)).collect::<Vec<_>>().join(",") + "\n";
        for row in 0..self.rows() {
            let fields = self.columns.iter().map(|(_, column)| match column {
                Column::Integer(values) => values[row].to_string(),
                Column::Number(values) => values[row].map_or_else(String::new, |value| value.to_string()),
                Column::Text(values) => field(&values[row]),
            });
            text += &fields.collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }

    /// As an array of objects, one per row; a gap is `null`.
    pub fn json(&self) -> Value {
        let row = |row: usize| {
            let fields = self.columns.iter().map(|(name, column)| {
                let value = match column {
                    Column::Integer(values) => Value::from(values[row]),
                    Column::Number(values) => values[row].map_or(Value::Null, Value::from),
                    Column::Text(values) => Value::from(values[row].clone()),
                };
                ((*name).to_owned(), value)
            });
            Value::Object(fields.collect())
        };
        (0..self.rows()).map(row).collect()
    }

    fn fill(&self, file: &mut OutputFile) -> Result<(), ParquetError> {
        let fields = self.columns.iter().map(|(name, column)| {
            let field = match column {
                Column::Integer(_) => Type::primitive_type_builder(name, PhysicalType::INT64).with_repetition(Repetition::REQUIRED),
                Column::Number(_) => Type::primitive_type_builder(name, PhysicalType::DOUBLE).with_repetition(Repetition::OPTIONAL),
                Column::Text(_) => Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
                    .with_logical_type(Some(LogicalType::String))
                    .with_repetition(Repetition::REQUIRED),
            };
            field.build().map(Arc::new)
        });
        let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_, _>>()?).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new(SCHEMA_KEY.to_owned(), SCHEMA.to_string())]))
            .set_created_by(format!("narrows {}", env!("CARGO_PKG_VERSION")))
            .build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        let mut first = 0;
        while first < self.rows() {
            let rows = first..(first + GROUP).min(self.rows());
            let mut group = writer.next_row_group()?;
            for (_, column) in &self.columns {
                let Some(mut target) = group.next_column()? else { break };
                match column {
                    Column::Integer(values) => {
                        target.typed::<Int64Type>().write_batch(&values[rows.clone()], None, None)?;
                    }
                    Column::Number(values) => {
                        let values = &values[rows.clone()];
                        let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                        let present: Vec<f64> = values.iter().flatten().copied().collect();
                        target.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
                    }
                    Column::Text(values) => {
                        let values: Vec<ByteArray> = values[rows.clone()].iter().map(|text| ByteArray::from(text.as_str())).collect();
                        target.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                    }
                }
                target.close()?;
            }
            group.close()?;
            first = rows.end;
        }
        writer.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn a_written_table_reads_back() {
        let path = std::env::temp_dir().join(format!("narrows-table-{}.parquet", std::process::id()));
        let table = Table::new(vec![
            ("link", Column::Integer(vec![-1, i64::MAX])),
            ("load", Column::Number(vec![None, Some(0.25)])),
            ("class", Column::Text(vec![String::from("victim"), String::from("été")])),
        ]);
        table.write(&path).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].get_long(0).unwrap(), rows[1].get_long(0).unwrap()), (-1, i64::MAX));
        assert!(rows[0].get_double(1).is_err(), "a gap is no number");
        assert_eq!(rows[1].get_double(1).unwrap(), 0.25);
        assert_eq!(rows[1].get_string(2).unwrap(), "été");
    }

    #[test]
    fn a_table_as_text() {
        let table = Table::new(vec![
            ("link", Column::Integer(vec![-1, 2])),
            ("load", Column::Number(vec![None, Some(0.25)])),
            ("class", Column::Text(vec![String::from("a, \"b\""), String::from("c")])),
        ]);
        assert_eq!(table.csv(), "link,load,class\n-1,,\"a, \"\"b\"\"\"\n2,0.25,c\n");
        assert_eq!(table.json().to_string(), r#"[{"class":"a, \"b\"","link":-1,"load":null},{"class":"c","link":2,"load":0.25}]"#);
        assert_eq!(Table::new(vec![]).csv(), "\n");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Table::new(vec![]).write(Path::new("/nowhere/at/all.parquet")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/at/all.parquet: "), "{error}");
        let error = Table::new(vec![("a", Column::Integer(vec![1]))]).write(Path::new("/dev/full")).unwrap_err();
        assert!(matches!(&error, TableError::Output(_)), "{error:?}");
    }
}
