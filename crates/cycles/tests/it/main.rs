//! Tests of the whole model.

mod closed_forms;
mod decode;
