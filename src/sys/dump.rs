//! The contents of a core dump of a process.
//!
//! Unsafe code: advice about dumps, for memory that the caller owns alone, changes no byte of it.

use crate::limits::PAGE_SIZE;
use crate::sys::aligned_array::AlignedArray;
use rustix::mm::{Advice, madvise};
use std::ops::Deref;

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
#[derive(Debug)]
pub struct UndumpedArray<T> {
    items: AlignedArray<T, PAGE_SIZE>,
}

impl<T> UndumpedArray<T> {
    /// Makes an array of `len` items. If `item` panics, the items so far are never dropped.
    ///
    /// # Panics
    /// If there are none, or they do not fit into memory.
    #[cold]
    pub fn new(len: usize, item: impl FnMut() -> T) -> Self {
        let items = AlignedArray::new(len, item);
        assert!(items.bytes() > 0, "an array without items");
        let array = UndumpedArray { items };
        array.advise(Advice::LinuxDontDump);
        array
    }

    fn advise(&self, advice: Advice) {
        advise(self.items.as_ptr().cast::<u8>().cast_mut(), self.items.bytes(), advice);
    }
}

impl<T> Deref for UndumpedArray<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> Drop for UndumpedArray<T> {
    fn drop(&mut self) {
        // The allocator may use the pages for anything.
        self.advise(Advice::LinuxDoDump);
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
