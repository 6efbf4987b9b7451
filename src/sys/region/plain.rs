//! The replacement under Miri, which has no private mappings at a chosen boundary: memory of the global allocator.

use super::guard::Fences;
use super::{Backing, Mapped, PageKind, RegionError, SEGMENT_BYTES};
use std::alloc::{Layout, alloc_zeroed, dealloc};

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, SEGMENT_BYTES).expect("a region is far smaller than the address space")
}

/// Allocates `len` zero bytes at a segment's boundary. With `guarded`, the fences exist only by name.
pub(super) fn map(len: usize, guarded: bool) -> Result<Mapped, RegionError> {
    // SAFETY: regions are never empty.
    let base = unsafe { alloc_zeroed(layout(len)) };
    let fences = if guarded { Fences::around(base, len).ok() } else { None };
    Ok(Mapped { base, backing: Backing { kind: PageKind::Small, refused: Vec::new() }, file: None, fences })
}

/// Frees such memory.
pub(super) fn unmap(base: *mut u8, len: usize) {
    // SAFETY: callers pass a range of `map` that nothing points into any more.
    unsafe { dealloc(base, layout(len)) }
}
