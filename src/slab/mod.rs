//! Stage `slab`: objects of one size out of pages.
//!
//! ```text
//!   Cache::alloc ─► local.rs    the worker's sheaves: main and spare        HOT, no atomics
//!                     │ both empty
//!                     ▼
//!                   barn.rs     full and empty sheaves of all workers        one lock a sheaf
//!                     │ none full
//!                     ▼
//!                   shared.rs   slabs with free objects                      COLD
//!                     │ none      chain.rs: one CAS detaches a freelist, one pushes a chain
//!                     ▼
//!                   grow.rs     a new slab of 2^order pages
//! ```
//! An object's slab is found by masking its address, its cache by the slab's descriptor; so an object dropped
//! anywhere finds its way home. Freelist words inside free objects are obfuscated.

mod barn;
mod cache;
#[allow(unsafe_code)]
mod chain;
mod grow;
mod local;
#[allow(unsafe_code)]
mod object;
#[allow(unsafe_code)]
mod shared;
#[cfg(test)]
mod tests;
mod word;

pub use cache::{Cache, CacheConfig, CacheError, SlabStats};
pub use object::Object;
