//! The stage `slab` makes objects of one size out of pages.
//!
//! ```text
//!   Cache, RawCache, ConstructedCache
//!     │
//!   sheaves.rs  the worker's main and spare sheaf (local.rs)  HOT, no atomics
//!     │ empty, full
//!   grow.rs ──► barn.rs      full and empty sheaves of all workers, exchanged whole
//!     │   └───► cpu_slab.rs  the other layer: an active slab and frozen partial ones
//!     ▼
//!   slabs.rs    freelists inside free objects, the node's partial slabs
//!     │           word.rs: a slab's head and count, changed by one CAS (or by the other ways of [hansen14-page])
//!     ▼
//!   shared.rs   slabs of 2^order pages, from and to the page stage
//! ```
//! An object carries its cache's number in the upper bits of its handle. Its slab is found by masking its address. So
//! an object that is dropped anywhere finds its cache, and a free reads no descriptor. Freelist words inside free
//! objects are obfuscated.
//!
//! | question | answer |
//! |---|---|
//! | what a worker keeps | [`Layer`]: sheaves, or an active slab and partial ones |
//! | how a slab's word is changed | [`WordForm`] |
//! | caches of about the same size | share slabs ([`CacheConfig::merge`]) |
//! | what can be changed at run time | [`Cache::set`]: `order`, `min_partial`, `cpu_partial`, `sheaf_capacity` |
//! | misuse | with the feature `slab-debug`, the `DebugOptions` of a cache: double free, writes past the end or after free, wrong cache |
//! | sizes that are not known in advance | [`SizeClasses`]: classes from 8 to 8192 bytes, pages above |
//! | an object that is expensive to construct | [`ConstructedCache`] |

mod barn;
mod cache;
#[allow(unsafe_code)]
mod check;
mod config;
#[allow(unsafe_code)]
mod constructed;
#[allow(unsafe_code)]
mod constructor;
mod controls;
#[allow(unsafe_code)]
mod cpu_slab;
// Without the feature no cache looks for misuse. The types of a report exist in any case.
#[cfg_attr(not(feature = "slab-debug"), allow(dead_code))]
mod debug;
mod exchange;
#[allow(unsafe_code)]
mod grow;
#[allow(unsafe_code)]
mod hardened;
#[allow(unsafe_code)]
mod inspect;
mod local;
#[allow(unsafe_code)]
mod object;
#[allow(unsafe_code)]
mod raw;
mod reference;
#[allow(unsafe_code)]
mod registry;
#[allow(unsafe_code)]
mod shared;
mod sheaves;
#[allow(unsafe_code)]
mod sizes;
#[allow(unsafe_code)]
mod slabs;
mod stats;
mod sums;
#[cfg(test)]
mod tests;
mod word;

pub use cache::Cache;
pub use config::{CacheConfig, CacheError, Layer};
pub use constructed::{Constructed, ConstructedCache};
pub use debug::{Damage, Misuse, Site, Track};
#[cfg(feature = "slab-debug")]
pub use debug::{DebugOptions, DebugRules, DebugRulesError, OnMisuse};
pub use inspect::{Finding, Live, LiveObject};
pub use object::Object;
pub use raw::{RawCache, free_bulk_any};
pub use sizes::{SizeClasses, SlabBytes};
pub use stats::{Attributes, SlabStats};
pub use word::WordForm;
