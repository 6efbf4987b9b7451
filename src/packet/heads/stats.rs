//! The counters of the arrays of heads.

use crate::slab::SlabStats;
use crate::stats::Count;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters.
        #[derive(Debug, Default)]
        pub(super) struct HeadsLane {
            $(pub(super) $name: Count,)*
        }

        /// The counters of [`HeadCache`](super::HeadCache), summed over the workers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct HeadCacheStats {
            /// Heads of other workers that wait in workers' inboxes.
            pub waiting: u64,
            /// The cache's own counters.
            pub cache: SlabStats,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl HeadCacheStats {
            /// Fills in the workers' counters, each by its sum.
            pub(super) fn with_sums(self, sum: impl Fn(fn(&HeadsLane) -> &Count) -> u64) -> HeadCacheStats {
                HeadCacheStats { $($name: sum(|lane| &lane.$name),)* ..self }
            }
        }
    };
}

counters! {
    /// Free heads in the workers' arrays.
    ready,
    /// Heads of other workers that wait until there are enough to send.
    away,
    /// Freed heads that wait for the flush, in `HeadCacheMode::FlushOnly`.
    freed,
    /// Heads taken from an array.
    taken,
    /// Heads freed into an array.
    kept,
    /// Number of times an empty array was refilled.
    refill,
    /// Heads that entered an array by a refill, from the cache or returned by other workers.
    refilled,
    /// Number of times a full array gave a part to the cache, or a flush did.
    flush,
    /// Heads that left an array by that.
    flushed,
    /// Heads taken one by one from the cache.
    cache_taken,
    /// Heads given to the cache without passing an array.
    cache_given,
    /// Heads sent to the worker that took them.
    sent_home,
    /// Heads returned by other workers.
    returned,
    /// Heads that were kept instead of sent: their worker has the maximum of waiting heads, or has left.
    refused,
    /// Number of times no head was free anywhere and other workers' arrays were emptied.
    steal,
}
