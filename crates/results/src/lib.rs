//! What runs leave behind, and what they show while they go on.
//!
//! * [`Histogram`] — times with all their percentiles in a few kilobytes (HDR).
//! * [`Table`] — columns that become a Parquet file, CSV or JSON.
//! * [`Chart`], [`Bars`], [`HeatMap`] — curves, areas, bars and coloured cells as SVG pictures; [`Quantity`] — units of
//!   their axes.
//! * [`Graph`] — nodes with arrows between them, an SVG picture.
//! * [`Page`] — an HTML page, the same design for all reports; [`Origin`] — what pages and pictures say about where
//!   they come from; [`escape`] — text in them.
//! * [`Progress`] — a bar on a terminal, plain lines elsewhere.
//! * [`peak_memory`] — of this process.
//!
//! ```
//! use narrows_results::{Column, Histogram, Table};
//!
//! let mut latencies = Histogram::new();
//! (1..=1000).for_each(|value| latencies.record(value));
//! assert_eq!((latencies.mean(), latencies.percentile(50.0), latencies.max()), (Some(500.5), Some(500), Some(1000)));
//!
//! let table = Table::new(vec![("load", Column::Number(vec![Some(0.1), None])), ("hops", Column::Integer(vec![3,
//! 4]))]); assert_eq!(table.rows(), 2);
//! ```

#![forbid(unsafe_code)]

mod bars;
mod chart;
mod graph;
mod heat;
mod histogram;
mod memory;
mod page;
mod progress;
mod table;

pub use bars::Bars;
pub use chart::{COLOURS, Chart, Curve, Quantity, ROLES};
pub use graph::Graph;
pub use heat::HeatMap;
pub use histogram::Histogram;
pub use memory::peak_memory;
pub use page::{Origin, Page, escape};
pub use progress::Progress;
pub use table::{Column, SCHEMA, SCHEMA_KEY, Table, TableError};
