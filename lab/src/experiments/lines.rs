//! Cache lines that one core writes and another reads. Nothing is allocated, so they are the limit of whatever carries
//! data from core to core.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use netmem::limits::CACHE_LINE;

/// The words of a line.
const WORDS: usize = CACHE_LINE / size_of::<u64>();

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; WORDS]);

/// Lines that are used in turn, each `STRIDE` lines behind the one before it. A clone has the same lines.
#[derive(Clone)]
pub(super) struct Lines<const STRIDE: usize> {
    area: Arc<[Line]>,
    /// One less than the number of lines in use, which is a power of two.
    mask: usize,
}

/// The stride of lines that lie as far apart as objects of `bytes` bytes, and one line more, so that they lie in different
/// sets of the processor's caches.
pub(super) const fn stride(bytes: usize) -> usize {
    bytes / CACHE_LINE + 1
}

impl<const STRIDE: usize> Lines<STRIDE> {
    /// Makes `count` lines, rounded up to a power of two.
    pub(super) fn new(count: usize) -> Self {
        let count = count.next_power_of_two();
        let area = std::iter::repeat_with(Line::default).take(count * STRIDE).collect();
        Self { area, mask: count - 1 }
    }

    /// The line of the item with the given number.
    #[inline(always)]
    pub(super) fn of(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.area[(number as usize & self.mask) * STRIDE].0
    }
}
