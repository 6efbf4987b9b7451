//! What the arrays of heads count.

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
        pub struct HeadCacheStats {
            /// Heads of other workers that wait in workers' inboxes.
            pub waiting: u64,
            /// The cache's own.
            pub cache: SlabStats,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl HeadCacheStats {
            /// With the workers' counters, each by its sum.
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
    /// Times an empty array was refilled.
    refill,
    /// Heads that came into an array by that, from the cache and home from other workers.
    refilled,
    /// Times a full array gave a part to the cache, or a flush.
    flush,
    /// Heads that left an array by that.
    flushed,
    /// Heads taken one by one from the cache.
    cache_taken,
    /// Heads given past any array to the cache.
    cache_given,
    /// Heads sent to the worker that took them.
    sent_home,
    /// Heads that came home from other workers.
    came_home,
    /// Heads that were to be sent and were kept: the worker has as many as may wait, or has left.
    refused,
    /// Times nothing was free anywhere and other workers' arrays were emptied.
    steal,
}
