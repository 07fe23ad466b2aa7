//! What runs leave behind, and what they show while they go on.
//!
//! * [`Histogram`] — times with all their percentiles in a few kilobytes (HDR).
//! * [`Table`] — columns that become a Parquet file, CSV or JSON.
//! * [`Chart`], [`HeatMap`] — curves, areas and coloured cells as SVG pictures.
//! * [`STYLE`], [`escape`] — of HTML pages.
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
//! let table = Table::new(vec![("load", Column::Number(vec![Some(0.1), None])), ("hops", Column::Integer(vec![3, 4]))]);
//! assert_eq!(table.rows(), 2);
//! ```

mod chart;
mod heat;
mod histogram;
mod memory;
mod page;
mod progress;
mod table;

pub use chart::{Chart, Curve};
pub use heat::HeatMap;
pub use histogram::Histogram;
pub use memory::peak_memory;
pub use page::{STYLE, escape};
pub use progress::Progress;
pub use table::{Column, Table, TableError};
