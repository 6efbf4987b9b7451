//! An array whose memory begins at a multiple of a chosen size and ends at one, so that nothing else lies in its first or
//! last line or page.
//!
//! Unsafe code: the memory is allocated for `len` items, all of which are written before anyone sees them, and freed
//! with the same layout.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// An array of `T` on the heap that begins at a multiple of `ALIGN` bytes; derefs to a slice.
///
/// At a cache line, no vector of its items that begins at a multiple of the vector's size lies across two lines. A vector
/// of numbers that does so takes twice as long to reach its reader.
pub struct AlignedArray<T, const ALIGN: usize> {
    /// Invariant: `len` initialised items, which belong to this array alone.
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the array owns its items.
unsafe impl<T: Send, const ALIGN: usize> Send for AlignedArray<T, ALIGN> {}
// SAFETY: as above.
unsafe impl<T: Sync, const ALIGN: usize> Sync for AlignedArray<T, ALIGN> {}

impl<T, const ALIGN: usize> AlignedArray<T, ALIGN> {
    /// Makes an array of `len` items. If `item` panics, the items so far are never dropped.
    ///
    /// # Panics
    /// If `len` items do not fit into memory.
    #[cold]
    pub fn new(len: usize, mut item: impl FnMut() -> T) -> Self {
        let layout = Self::layout(len);
        let start = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the size is not 0.
            let start = unsafe { alloc(layout) };
            NonNull::new(start.cast()).unwrap_or_else(|| handle_alloc_error(layout))
        };
        for at in 0..len {
            // SAFETY: there is room for `len` items.
            unsafe { start.add(at).write(item()) };
        }
        AlignedArray { start, len }
    }

    /// Gives the memory and its items away as a pointer to the first item. [`AlignedArray::from_start`] takes them back.
    #[cold]
    pub(super) fn into_start(self) -> NonNull<T> {
        ManuallyDrop::new(self).start
    }

    /// Takes back what [`AlignedArray::into_start`] gave away.
    ///
    /// # Safety
    /// `start` is from `into_start` of an array of `len` items of this type. They are initialised, and nothing else uses
    /// them any more.
    #[cold]
    pub(super) unsafe fn from_start(start: NonNull<T>, len: usize) -> Self {
        AlignedArray { start, len }
    }

    /// The memory of `len` items.
    fn layout(len: usize) -> Layout {
        let items = Layout::array::<T>(len).and_then(|items| items.align_to(ALIGN));
        items.expect("an array larger than the address space").pad_to_align()
    }

    /// The number of bytes that the array has allocated: a multiple of `ALIGN`.
    pub(super) fn bytes(&self) -> usize {
        Self::layout(self.len).size()
    }
}

impl<T, const ALIGN: usize> Deref for AlignedArray<T, ALIGN> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T, const ALIGN: usize> DerefMut for AlignedArray<T, ALIGN> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the invariant; the borrow is the only access.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: fmt::Debug, const ALIGN: usize> fmt::Debug for AlignedArray<T, ALIGN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T, const ALIGN: usize> Drop for AlignedArray<T, ALIGN> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        // SAFETY: the invariant; nothing uses the items afterwards.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).drop_in_place() };
        if layout.size() > 0 {
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AlignedArray;
    use std::sync::Arc;

    #[test]
    fn an_array_begins_on_a_line_and_has_the_value_in_each_place() {
        for len in [0, 1, 7, 512] {
            let mut array = AlignedArray::<u32, 64>::new(len, || 9);
            assert_eq!((array.len(), array.iter().all(|&item| item == 9)), (len, true));
            array.iter_mut().for_each(|item| *item += 1);
            assert!(array.iter().all(|&item| item == 10));
            assert!(len == 0 || array.as_ptr().addr().is_multiple_of(64));
            assert_eq!(array.bytes(), (4 * len).next_multiple_of(64));
        }
    }

    #[test]
    fn each_item_is_dropped_once() {
        let item = Arc::new(());
        let array = AlignedArray::<_, 4096>::new(5, || item.clone());
        assert_eq!(Arc::strong_count(&item), 6);
        drop(array);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
