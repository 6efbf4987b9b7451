//! The stage `page` gives out the pages of regions, in blocks of 2^order, with orders 0..=10.
//!
//! ```text
//!   Memory::alloc, free ─► single.rs  the worker's own lists, orders 0..=3 (local.rs)   HOT, no atomics
//!                            │        and 4..=9 (large.rs)
//!   … in arrays ─────────► bulk.rs    the same, a slice at once                     HOT
//!                            │ miss, overflow
//!                            ▼
//!                          grow.rs    batches to and from the nodes; under pressure  COLD
//!                            │        the lists of all workers are drained first
//!                            ▼
//!                 nodes.rs, zone.rs   under each node's lock: batches (depot.rs), the buddy's
//!                                     free lists (buddy.rs), watermarks
//! ```
//! No allocation fails while a page that it could use lies in another worker's list. The exceptions: a worker paused inside
//! a call, pages that move during 16 searches, and the reserve.
//!
//! | question | answer |
//! |---|---|
//! | how many free pages a worker keeps | [`Lists`]: three fixed sets, any other numbers, or self-tuned between bounds |
//! | how many pages are in reserve | [`Watermarks`]: below `min` only [`Memory::alloc_with_reserve`] takes pages; a callback is called on pressure |
//! | several nodes | each worker has a home node and takes from it first; its list holds only pages of that node |
//! | several holders | [`Page::share`]: a count in the descriptor, and an [`Owner`] that gets the page at the last release |
//! | misuse | [`Hardening`]: guard pages, random orders, clearing, and what the stages above add |
//! | what a page costs | a descriptor of 32 bytes (`table.rs`), in strides of 56 or 64 for comparison ([`DescriptorSize`]) |

mod allowance;
mod buddy;
mod bulk;
mod config;
mod depot;
mod grow;
mod hardened;
mod hardening;
mod large;
mod list;
mod local;
#[allow(unsafe_code)]
mod memory;
mod nodes;
mod owner;
#[allow(clippy::module_inception)]
#[allow(unsafe_code)]
mod page;
mod random;
mod refs;
#[allow(unsafe_code)]
mod share;
#[allow(unsafe_code)]
mod shared;
mod single;
mod stats;
mod sums;
#[allow(unsafe_code)]
mod table;
#[cfg(test)]
mod tests;
mod tuning;
mod zone;

pub use crate::sys::region::{Backing, BackingPreference, Lent, PageKind, Region, RegionError};
pub use config::{Lists, MemoryConfig, MemoryError, Watermarks};
pub use hardening::{Hardening, HardeningError, OnMisuse};
pub use memory::Memory;
pub use nodes::Pressure;
pub use owner::{Owner, OwnerError, OwnerId};
pub use page::Page;
pub use share::SharedPage;
pub use stats::{NodeStats, PageStats};
pub use table::DescriptorSize;

pub(crate) use allowance::Allowance;
pub(crate) use list::List;
pub(crate) use random::Random;
pub(crate) use refs::{Left, Refs};
pub(crate) use table::Pair;
pub(crate) use table::{Desc, Table};
