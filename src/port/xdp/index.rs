//! The index of a ring that the kernel shares.

use crate::ring::cursor::Index;
use crate::sys::xdp::SharedIndex;

impl Index for SharedIndex {
    #[inline(always)]
    fn load_relaxed(&self) -> u32 {
        SharedIndex::load_relaxed(self)
    }

    #[inline(always)]
    fn load_acquire(&self) -> u32 {
        // Acquire: see SharedIndex.
        SharedIndex::load_acquire(self)
    }

    #[inline(always)]
    fn store_release(&self, value: u32) {
        // Release: see SharedIndex.
        SharedIndex::store_release(self, value);
    }
}
