//! The contents of a core dump of a process.
//!
//! Unsafe code: an [`UndumpedArray`] owns memory that it allocated for its items, all of which are written before anyone
//! sees them, and frees it with the same layout.

use crate::limits::PAGE_SIZE;
use rustix::mm::{Advice, madvise};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

/// Leaves mapped memory out of core dumps, because it would show packets to every reader of a dump. If the kernel
/// refuses, the memory is in the dumps.
#[cold]
pub(super) fn leave_out_of_dumps(base: *mut u8, len: usize) {
    advise(base, len, Advice::LinuxDontDump);
}

/// Gives the kernel advice about memory that the caller owns alone.
fn advise(base: *mut u8, len: usize, advice: Advice) {
    if !cfg!(miri) {
        // SAFETY: the caller owns the range; both advices are about dumps, and change no byte.
        let _ = unsafe { madvise(base.cast(), len, advice) };
    }
}

/// An array of `T` on pages of its own, which are left out of core dumps; derefs to a slice.
pub struct UndumpedArray<T> {
    /// Invariant: `len` initialised items, which belong to this array alone.
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the array owns its items.
unsafe impl<T: Send> Send for UndumpedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for UndumpedArray<T> {}

impl<T> UndumpedArray<T> {
    /// Makes an array of `len` items. If `item` panics, the items so far are never dropped.
    ///
    /// # Panics
    /// If there are none, or they do not fit into memory.
    #[cold]
    pub fn new(len: usize, mut item: impl FnMut() -> T) -> Self {
        let layout = layout::<T>(len);
        assert!(layout.size() > 0, "an array without items");
        // SAFETY: the size is not 0.
        let base = unsafe { alloc(layout) };
        let start = NonNull::new(base.cast::<T>()).unwrap_or_else(|| handle_alloc_error(layout));
        advise(base, layout.size(), Advice::LinuxDontDump);
        for at in 0..len {
            // SAFETY: there is room for `len` items.
            unsafe { start.add(at).write(item()) };
        }
        UndumpedArray { start, len }
    }
}

/// Whole pages for `len` items.
fn layout<T>(len: usize) -> Layout {
    let items = Layout::array::<T>(len).and_then(|items| items.align_to(PAGE_SIZE));
    items.expect("an array larger than the address space").pad_to_align()
}

impl<T> Deref for UndumpedArray<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the invariant.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: fmt::Debug> fmt::Debug for UndumpedArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for UndumpedArray<T> {
    fn drop(&mut self) {
        let (base, layout) = (self.start.as_ptr().cast::<u8>(), layout::<T>(self.len));
        // SAFETY: the invariant; nothing uses the items afterwards.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).drop_in_place() };
        // The allocator may use the pages for anything.
        advise(base, layout.size(), Advice::LinuxDoDump);
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(base, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::UndumpedArray;
    use crate::sys::memfd::SharedMemory;
    use crate::sys::region::{BackingPreference, Region};
    use std::fs;

    /// The flags of the first mapping whose line has `what` in it, as smaps(5) has them.
    fn flags(what: &str) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = false;
        for line in maps.lines() {
            found |= line.contains(what);
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| found) {
                return flags.to_owned();
            }
        }
        panic!("there is no mapping {what}")
    }

    #[test]
    fn frames_what_peers_share_and_what_a_recorder_keeps_are_in_no_core_dump() {
        let private = Region::new(2 << 20, BackingPreference::Small).unwrap();
        let shared = Region::shared(2 << 20, BackingPreference::Small).unwrap();
        let _ring = SharedMemory::new("in-no-dump", 4096).unwrap();
        // Of more than a page's bytes, so that its mapping begins at its first page whatever lies before it.
        let recorded = UndumpedArray::new(10_000, || 7_u64);
        let begin = |base: *const u8| format!("{:x}-", base.addr());
        let of = |region: &Region| begin(region.base());
        let array = begin(recorded.as_ptr().cast());
        for what in [of(&private), of(&shared), array, "memfd:in-no-dump".into()] {
            let flags = flags(&what);
            assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
        }
    }
}
