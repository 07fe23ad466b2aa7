//! Tables as Arrow: whoever reads Arrow's C stream interface (pyarrow, polars, pandas, DuckDB) takes the columns over
//! without a copy (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use narrows_results::{Column, SCHEMA, SCHEMA_KEY, Table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::sync::Arc;

/// A table in Arrow's memory layout. Handing it over again and again copies nothing: its buffers are shared.
#[pyclass(frozen)]
pub struct NativeTable {
    batch: RecordBatch,
}

impl NativeTable {
    /// Whole numbers are taken over as they are; numbers with gaps and texts are laid out anew, once.
    pub fn new(table: Table) -> NativeTable {
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, column) in table.into_columns() {
            let (kind, nullable, array): (DataType, bool, ArrayRef) = match column {
                Column::Integer(values) => (DataType::Int64, false, Arc::new(Int64Array::new(ScalarBuffer::from(values), None))),
                Column::Number(values) => (DataType::Float64, true, Arc::new(numbers(&values))),
                Column::Text(values) => (DataType::Utf8, false, Arc::new(StringArray::from_iter_values(values))),
            };
            fields.push(Field::new(name, kind, nullable));
            arrays.push(array);
        }
        let version = [(SCHEMA_KEY.to_owned(), SCHEMA.to_string())];
        let schema = Arc::new(Schema::new_with_metadata(fields, HashMap::from(version)));
        let batch = match arrays.is_empty() {
            true => RecordBatch::new_empty(schema),
            false => RecordBatch::try_new(schema, arrays).expect("the columns of a table have one length, and the types of their fields"),
        };
        NativeTable { batch }
    }
}

fn numbers(values: &[Option<f64>]) -> Float64Array {
    let gaps = values.iter().any(Option::is_none).then(|| values.iter().map(Option::is_some).collect::<NullBuffer>());
    Float64Array::new(values.iter().map(|value| value.unwrap_or(0.0)).collect(), gaps)
}

#[pymethods]
impl NativeTable {
    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Arrow's C stream, with the types that the columns have: a wish for others is the reader's to fulfil.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(&self, py: Python<'py>, requested_schema: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
