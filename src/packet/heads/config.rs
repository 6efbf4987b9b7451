//! The settings of heads, and those that can be changed at run time.

use crate::slab::{CacheConfig, CacheError};

/// Which free heads a worker keeps above their cache: the steps of [brouer15-bulk], from none to the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadCacheMode {
    #[cfg(feature = "comparisons")]
    /// No heads: every head comes from the cache and goes back by a call of its own, also in bulk calls (Linux before
    /// 4.6).
    Each,
    #[cfg(feature = "comparisons")]
    /// No heads: bulk calls move heads from and to the cache in bulk.
    Bulk,
    #[cfg(feature = "comparisons")]
    /// An array that collects freed heads. When it is full, and at the end of a poll round, it gives them to the cache
    /// in bulk. Heads are never taken from it, but from the cache one by one (Linux 4.6 to 5.11).
    FlushOnly,
    /// An array that heads are freed into and taken from. When it is empty, it is refilled in bulk. When it is full,
    /// its colder part is freed in bulk (Linux since 5.12).
    TwoSided,
}

/// The settings of a cache of heads.
#[derive(Debug, Clone)]
pub struct HeadCacheConfig {
    /// The cache that heads come from.
    pub cache: CacheConfig,
    /// The free heads that a worker keeps above the cache.
    pub mode: HeadCacheMode,
    /// Maximum number of heads in a worker's array, 1..=4096 (Linux: 64, since 6.19 128).
    pub size: usize,
    /// Number of heads taken from the cache when the array is empty, 1..=size (Linux: 16, since 6.19 32).
    pub refill: usize,
    /// Number of heads given to the cache when the array is full, 1..=size (Linux: 32, at first half of the array,
    /// later a quarter).
    pub free: usize,
    /// Maximum number of heads freed on other workers that wait for the worker that took them. Further heads stay with
    /// the worker that freed them. 0 to 65536; 0 returns no heads (Linux: 64, since 6.19 128).
    pub defer_max: usize,
}

impl Default for HeadCacheConfig {
    fn default() -> Self {
        HeadCacheConfig {
            // Never merged, as in Linux since 6.6: bulk frees benefit from neighbours in one slab ([brouer15-bulk]).
            cache: CacheConfig { name: "packet_head".into(), merge: false, ..CacheConfig::default() },
            mode: HeadCacheMode::TwoSided,
            size: 128,
            refill: 32,
            free: 32,
            defer_max: 128,
        }
    }
}

/// Why heads could not be made, or why a tunable could not be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadCacheError {
    /// The cache could not be made, or a tunable of it could not be changed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A number is out of range.
    #[error("{what} {value}: give {least} to {most}")]
    Range {
        /// The name of the number.
        what: &'static str,
        /// The value that was given.
        value: usize,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// There is no tunable of this name.
    #[error(
        "no tunable {name:?}: there are ready_size, ready_refill, ready_free, defer_max, order, min_partial, cpu_partial \
         and sheaf_capacity"
    )]
    Unknown {
        /// The requested name.
        name: String,
    },
}

impl HeadCacheError {
    /// The error of a tunable of the cache below.
    pub(super) fn of_tunable(error: CacheError) -> HeadCacheError {
        match error {
            CacheError::Unknown { name } => HeadCacheError::Unknown { name },
            error => error.into(),
        }
    }
}

/// Maximum size of an array.
const SIZE_MAX: usize = 4096;
/// Maximum number of heads that may wait for a worker.
const DEFER_MAX: usize = 1 << 16;

/// The names of the arrays' tunables.
pub(super) const TUNABLES: [&str; 4] = ["ready_size", "ready_refill", "ready_free", "defer_max"];

/// Checks the values of [`TUNABLES`] together: refill and free are at most the size.
pub(super) fn check([size, refill, free, defer]: [usize; 4]) -> Result<(), HeadCacheError> {
    let ranges = [(size, 1, SIZE_MAX), (refill, 1, size), (free, 1, size), (defer, 0, DEFER_MAX)];
    for (what, (value, least, most)) in TUNABLES.into_iter().zip(ranges) {
        if !(least..=most).contains(&value) {
            return Err(HeadCacheError::Range { what, value, least, most });
        }
    }
    Ok(())
}
