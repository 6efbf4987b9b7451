//! Stage slab.
