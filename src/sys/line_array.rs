//! An array that begins on a cache line, so that no vector of its items that begins at a multiple of the vector's size
//! lies across two lines. A vector of numbers that does so takes twice as long to reach its reader.
//!
//! Unsafe code: the memory is allocated for `len` items, all of which are written before anyone sees them, and freed
//! with the same layout.

use crate::limits::CACHE_LINE;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// An array of `T` on the heap; derefs to a slice.
pub struct LineArray<T> {
    /// Invariant: `len` initialised items, which belong to this array alone.
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the array owns its items.
unsafe impl<T: Send> Send for LineArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LineArray<T> {}

impl<T: Copy> LineArray<T> {
    /// Makes an array of `len` items, all with this value.
    ///
    /// # Panics
    /// If `len` items do not fit into memory.
    #[cold]
    pub fn new(value: T, len: usize) -> Self {
        let layout = layout::<T>(len);
        let start = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the size is not 0.
            let start = unsafe { alloc(layout) };
            NonNull::new(start.cast()).unwrap_or_else(|| handle_alloc_error(layout))
        };
        for at in 0..len {
            // SAFETY: there is room for `len` items. T is Copy, so nothing is dropped.
            unsafe { start.add(at).write(value) };
        }
        LineArray { start, len }
    }
}

/// The memory of `len` items.
fn layout<T>(len: usize) -> Layout {
    let items = Layout::array::<T>(len).and_then(|items| items.align_to(CACHE_LINE));
    items.expect("an array larger than the address space")
}

impl<T> Deref for LineArray<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for LineArray<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the invariant; the borrow is the only access.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for LineArray<T> {
    fn drop(&mut self) {
        let layout = layout::<T>(self.len);
        if layout.size() > 0 {
            // SAFETY: it was allocated with this layout. Items are Copy, and so need no drop.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for LineArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::LineArray;
    use crate::limits::CACHE_LINE;

    #[test]
    fn an_array_begins_on_a_line_and_has_the_value_in_each_place() {
        for len in [0, 1, 7, 512] {
            let mut array = LineArray::new(9_u32, len);
            assert_eq!((array.len(), array.iter().all(|&item| item == 9)), (len, true));
            array.iter_mut().for_each(|item| *item += 1);
            assert!(array.iter().all(|&item| item == 10));
            assert!(len == 0 || array.as_ptr().addr().is_multiple_of(CACHE_LINE));
        }
    }
}
