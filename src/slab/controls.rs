//! The common interface of every kind of cache besides its objects: counters, tunables, inspection, and its end.

/// Gives a cache's handle, which has a field `shared`, the cold half of its interface.
macro_rules! controls {
    ($name:ident $(<$of:ident>)?) => {
        /// Prints the size and alignment of its objects only. Its statistics have the slabs.
        impl $(<$of>)? std::fmt::Debug for $name $(<$of>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut cache = f.debug_struct(stringify!($name));
                cache.field("size", &self.shared.size).field("align", &self.shared.align).finish_non_exhaustive()
            }
        }

        impl $(<$of>)? $name $(<$of>)? {
            /// The name of the cache in reports. If several share the cache, it is the name that the first one gave.
            pub fn name(&self) -> String {
                self.shared.name()
            }

            /// Gives empty slabs back to the memory. First takes back all free objects that workers and the barn keep.
            #[cold]
            pub fn shrink(&self) {
                self.shared.shrink();
            }

            /// Checks every free object: freelists must be intact and counts must agree. With debug, no free object may
            /// have been written. Returns the faults.
            #[cold]
            pub fn validate(&self) -> Vec<$crate::slab::Finding> {
                self.shared.validate()
            }

            /// Changes a tunable: `order`, `min_partial`, `cpu_partial` or `sheaf_capacity`, with effect at once.
            ///
            /// # Errors
            /// [`CacheError`](crate::slab::CacheError): unknown, out of range, or of another layer; nothing changes
            /// then.
            #[cold]
            pub fn set(&self, name: &str, value: usize) -> Result<(), $crate::slab::CacheError> {
                self.shared.set(name, value)
            }

            /// The value of a tunable.
            ///
            /// # Errors
            /// [`CacheError::Unknown`](crate::slab::CacheError::Unknown).
            pub fn get(&self, name: &str) -> Result<usize, $crate::slab::CacheError> {
                self.shared.get(name)
            }

            /// The cache's counters.
            pub fn stats(&self) -> $crate::slab::SlabStats {
                self.shared.stats()
            }

            /// The attributes of the cache, as SLUB shows them.
            pub fn attributes(&self) -> $crate::slab::Attributes {
                self.shared.attributes()
            }

            /// Ends the cache, unless objects of it are out or others share it.
            ///
            /// # Errors
            /// [`Live`](crate::slab::Live), which lists the objects that are out, and holds the handle.
            #[cold]
            pub fn destroy(self) -> Result<(), $crate::slab::Live<Self>> {
                $crate::slab::Live::or_end(self, |cache| &cache.shared)
            }

            /// The misuses that debug found and repaired, if it reports: the last 64.
            pub fn found(&self) -> Vec<$crate::slab::Misuse> {
                self.shared.found()
            }
        }
    };
}

pub(super) use controls;
