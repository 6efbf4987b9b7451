//! Under Miri, which knows no private mappings at a boundary of one's own: memory of the global allocator in their place.

use super::{Backing, BackingPreference, PageKind, RegionError, SEGMENT_BYTES};
use std::alloc::{Layout, alloc_zeroed, dealloc};

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, SEGMENT_BYTES).expect("a region is far smaller than the address space")
}

/// `len` zero bytes at a segment's boundary.
pub(super) fn map(len: usize, _wish: BackingPreference) -> Result<(*mut u8, Backing), RegionError> {
    // SAFETY: regions are never empty.
    let base = unsafe { alloc_zeroed(layout(len)) };
    Ok((base, Backing { kind: PageKind::Small, refused: Vec::new() }))
}

/// Gives such memory back.
pub(super) fn unmap(base: *mut u8, len: usize) {
    // SAFETY: callers pass a range of `map` that nothing points into any more.
    unsafe { dealloc(base, layout(len)) }
}
