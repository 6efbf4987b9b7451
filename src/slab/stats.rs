//! The counters of a cache, under SLUB's names.

use crate::stats::Count;
use std::fmt;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters of a cache.
        #[derive(Debug, Default)]
        pub(super) struct SlabLane {
            /// The number of objects in the main sheaf, in the spare sheaf, and of free objects in the active and the
            /// partial slabs, when the worker last left the hot path or was last read.
            pub(super) main: Count,
            pub(super) spare: Count,
            pub(super) cpu: Count,
            $(pub(super) $name: Count,)*
        }

        /// A cache's counters, summed over the workers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct SlabStats {
            /// The requested size of an object in bytes.
            pub object_size: u64,
            /// Bytes from one object to the next.
            pub slab_size: u64,
            /// Objects in a new slab.
            pub objs_per_slab: u64,
            /// The number of slabs.
            pub slabs: u64,
            /// Objects in all slabs, free or not. Slabs that were made before the order changed have another number.
            pub total_objects: u64,
            /// Slabs on the node's partial list.
            pub partial: u64,
            /// Objects in the workers' sheaves.
            pub cached: u64,
            /// Free objects in the workers' active and partial slabs, as far as the workers know.
            pub cpu_slabs: u64,
            /// Objects in the barn's full sheaves.
            pub barn: u64,
            /// Slabs put on the node's partial list by a free.
            pub free_add_partial: u64,
            /// Slabs taken off the node's partial list by a free that emptied them.
            pub free_remove_partial: u64,
            /// Changes of a slab's word that failed because another thread was faster.
            pub cmpxchg_double_fail: u64,
            /// Slabs that were full when their worker gave them up.
            pub deactivate_full: u64,
            /// Slabs that were empty when their worker gave them up.
            pub deactivate_empty: u64,
            /// Slabs that went to the end of the partial list when their worker gave them up.
            pub deactivate_to_tail: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl SlabStats {
            /// Adds the workers' counters, each as its sum.
            pub(super) fn with_sums(self, sum: impl Fn(fn(&SlabLane) -> &Count) -> u64) -> SlabStats {
                SlabStats { $($name: sum(|lane| &lane.$name),)* ..self }
            }

            /// The event counters, by SLUB's names.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                let mut all = vec![
                    ("free_add_partial", self.free_add_partial),
                    ("free_remove_partial", self.free_remove_partial),
                    ("cmpxchg_double_fail", self.cmpxchg_double_fail),
                    ("deactivate_full", self.deactivate_full),
                    ("deactivate_empty", self.deactivate_empty),
                    ("deactivate_to_tail", self.deactivate_to_tail),
                ];
                all.extend([$((stringify!($name), self.$name)),*]);
                all
            }
        }
    };
}

counters! {
    /// Allocations from the main sheaf, or from the active slab's own freelist.
    alloc_fastpath,
    /// Allocations that took the slow path.
    alloc_slowpath,
    /// Frees into the main sheaf, or into the active slab.
    free_fastpath,
    /// Frees that took the slow path, and dropped objects.
    free_slowpath,
    /// Frees into slabs that belong to a worker.
    free_frozen,
    /// Slabs made.
    alloc_slab,
    /// Slabs given back.
    free_slab,
    /// Slabs of a smaller order, made because memory was short.
    order_fallback,
    /// Objects moved from slabs into sheaves.
    sheaf_refill,
    /// Objects moved from sheaves back into slabs.
    sheaf_flush,
    /// Sheaves made.
    sheaf_alloc,
    /// Sheaves dropped.
    sheaf_free,
    /// Full sheaves taken from the barn.
    barn_get,
    /// How often the barn had no full sheaf.
    barn_get_fail,
    /// Full sheaves put into the barn.
    barn_put,
    /// How often the barn had no room for a full sheaf.
    barn_put_fail,
    /// Allocations from a slab taken off the node's partial list.
    alloc_from_partial,
    /// Allocations of objects that others had freed into the active slab.
    alloc_refill,
    /// Active and partial slabs given up because the worker left, or another worker had nothing left.
    cpuslab_flush,
    /// Slabs of the worker's own partial list that became active.
    cpu_partial_alloc,
    /// Slabs put on the worker's own partial list by a free.
    cpu_partial_free,
    /// Slabs put on the worker's own partial list from the node's list.
    cpu_partial_node,
    /// How often the worker's own partial list was given to the node.
    cpu_partial_drain,
}

/// A cache as `/sys/kernel/slab/<cache>/` shows it: one attribute a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes(pub(super) Vec<(&'static str, String)>);

impl Attributes {
    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}
