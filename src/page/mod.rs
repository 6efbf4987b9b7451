//! Stage `page`: pages out of regions, in blocks of 2^order, orders 0..=10.
//!
//! ```text
//!   Memory::alloc ─► local.rs   the worker's own lists, orders 0..=3        HOT, no atomics
//!                      │ miss
//!                      ▼
//!                    grow.rs    a batch from the node; under pressure the    COLD
//!                      │        lists of all workers are drained first
//!                      ▼
//!                    node.rs    the buddy's free lists, under the node's lock
//! ```
//! No allocation fails while pages that would do lie in another worker's list.

mod grow;
mod local;
mod memory;
mod node;
#[allow(clippy::module_inception)]
#[allow(unsafe_code)]
mod page;
#[allow(unsafe_code)]
mod shared;
mod table;
#[cfg(test)]
mod tests;

pub use memory::{Memory, MemoryConfig, MemoryError, PageStats};
pub use page::Page;
pub(crate) use table::{Desc, List};
