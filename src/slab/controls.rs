//! What every kind of cache offers beside its objects: counters, tunables, inspection, and its end.

/// Gives a cache's handle, which has a field `shared`, the cold half of its interface.
macro_rules! controls {
    ($name:ident $(<$of:ident>)?) => {
        impl $(<$of>)? $name $(<$of>)? {
            /// What it is called in reports: the name of the first who made it, where several share it.
            pub fn name(&self) -> String {
                self.shared.name()
            }

            /// Gives empty slabs back to the memory, with all that workers and the barn keep.
            #[cold]
            pub fn shrink(&self) {
                self.shared.shrink();
            }

            /// Looks at every free object: whether freelists are whole and counts agree, and with debug whether anything was
            /// written to. Returns what is wrong.
            #[cold]
            pub fn validate(&self) -> Vec<$crate::slab::Finding> {
                self.shared.validate()
            }

            /// Changes a tunable: `order`, `min_partial`, `cpu_partial` or `sheaf_capacity`, with effect at once.
            ///
            /// # Errors
            /// [`CacheError`](crate::slab::CacheError): unknown, out of range, or of another layer; nothing changes then.
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

            /// All that is known of the cache, as SLUB shows it.
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

            /// Misuse that debug found and mended, where it was told to report: the last 64.
            pub fn found(&self) -> Vec<$crate::slab::Misuse> {
                self.shared.found()
            }
        }
    };
}

pub(super) use controls;
