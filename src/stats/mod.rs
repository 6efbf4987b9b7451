//! The stage `stats` has counters that cost the writer a load and a store, and windows of time.

mod buckets;
mod count;
mod histogram;
mod lanes;
mod samples;
mod tally;
mod window;
mod writer;

pub use buckets::Buckets;
pub use count::Count;
pub use histogram::Histogram;
pub(crate) use lanes::Lanes;
pub(crate) use samples::Samples;
pub(crate) use tally::Tally;
pub use window::{Quantiles, Stopwatch, Windows};
pub use writer::Writer;
