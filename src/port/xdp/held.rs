//! Which chunks the kernel holds for one direction of one port, and the check of every address it gives back.
//!
//! ```text
//!   UMEM  ├──── chunk 0 ────┼──── chunk 1 ────┼─ …      addr  = index · 2048 + offset in the chunk
//!   id       first              first + 1               id    = first chunk of the region + index
//! ```
//! Invariant: a bit is set exactly while its chunk's frame has been consumed by `fill` (or `tx`) and not yet
//! minted again. So a descriptor can be turned back into a frame at most once, whatever the ring says.

use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE};
use crate::pool::Desc;
use crate::sys::region::Region;
use std::num::NonZeroU32;

/// The chunks posted in one direction, one bit each.
#[derive(Debug)]
pub(super) struct Held {
    /// The number of the region's first chunk.
    first: u32,
    chunks: u32,
    words: Box<[u64]>,
    /// Bits set.
    count: usize,
}

impl Held {
    pub(super) fn new(region: &Region) -> Held {
        let chunks = region.chunks();
        let words = vec![0; chunks.div_ceil(64) as usize].into_boxed_slice();
        Held { first: region.first_chunk(), chunks, words, count: 0 }
    }

    /// Chunks the kernel holds.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether the chunk numbered `id` lies in this region.
    #[inline]
    pub(super) fn owns(&self, id: NonZeroU32) -> bool {
        id.get().wrapping_sub(self.first) < self.chunks
    }

    /// Marks the chunk of `desc`, which this region owns, and gives the address of the frame's first byte.
    #[inline]
    pub(super) fn post(&mut self, desc: Desc) -> u64 {
        let index = desc.id.get().wrapping_sub(self.first);
        debug_assert!(index < self.chunks && !self.is_set(index));
        self.words[(index / 64) as usize] |= 1 << (index % 64);
        self.count += 1;
        (u64::from(index) << CHUNK_SHIFT) + u64::from(desc.off)
    }

    /// The frame of `len` bytes at `addr`, if its chunk is posted and it fits; the chunk is posted no more.
    ///
    /// None for an address outside the region, a chunk that is not posted, or a length that leaves the chunk.
    #[inline]
    pub(super) fn take(&mut self, addr: u64, len: u32) -> Option<Desc> {
        let off = addr as usize % CHUNK_SIZE;
        let index = u32::try_from(addr >> CHUNK_SHIFT).ok().filter(|&index| index < self.chunks)?;
        if len as usize > CHUNK_SIZE - off || !self.is_set(index) {
            return None;
        }
        self.words[(index / 64) as usize] &= !(1 << (index % 64));
        self.count -= 1;
        // off < 2048 and len <= 2048.
        Some(Desc { id: NonZeroU32::new(self.first + index)?, off: off as u16, len: len as u16 })
    }

    /// An empty frame of any chunk that is posted; the chunk is posted no more. For teardown.
    #[cold]
    pub(super) fn take_any(&mut self) -> Option<Desc> {
        let word = self.words.iter().position(|&word| word != 0)?;
        let index = word as u64 * 64 + u64::from(self.words[word].trailing_zeros());
        self.take(index << CHUNK_SHIFT, 0)
    }

    #[inline]
    fn is_set(&self, index: u32) -> bool {
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::region::BackingWish;

    fn held() -> (Held, u32) {
        let region = Region::new(2 << 20, BackingWish::Small).unwrap();
        (Held::new(&region), region.first_chunk())
    }

    fn desc(id: u32, off: u16, len: u16) -> Desc {
        Desc { id: NonZeroU32::new(id).unwrap(), off, len }
    }

    #[test]
    fn a_frame_that_went_out_at_the_chunks_start_comes_back_behind_the_kernels_headroom() {
        let (mut held, first) = held();
        assert_eq!(held.post(desc(first + 3, 0, 0)), 3 * 2048);
        assert_eq!(held.count(), 1);
        let back = held.take(3 * 2048 + 256, 60).unwrap();
        assert_eq!((back.id.get(), back.off, back.len), (first + 3, 256, 60));
        assert_eq!(held.count(), 0);
    }

    #[test]
    fn hostile_descriptors_are_refused_and_change_nothing() {
        let (mut held, first) = held();
        held.post(desc(first + 3, 0, 0));
        let region = u64::from(held.chunks) * 2048;
        for (addr, len) in [
            (4 * 2048, 0),                     // a chunk never posted
            (2 * 2048 + 2047, 0),              // the neighbour
            (region, 0),                       // just outside
            (region + 3 * 2048, 60),           // far outside
            (u64::MAX, 0),                     // the end of the world
            (u64::MAX - 2047, 60),             // its last chunk
            ((1 << 43) + 3 * 2048, 60),        // right after truncation to 32 bits of chunk number
            (3 * 2048 + 256, 2048 - 256 + 1),  // one byte over the chunk's end
            (3 * 2048, u32::MAX),              // a length that wraps
            (3 * 2048 + 2047, 2),              // begins inside, ends outside
        ] {
            assert!(held.take(addr, len).is_none(), "{addr:#x} {len}");
        }
        assert_eq!(held.count(), 1);
        assert!(held.take(3 * 2048 + 256, 2048 - 256).is_some());
    }

    #[test]
    fn a_chunk_comes_back_once() {
        let (mut held, first) = held();
        held.post(desc(first, 0, 0));
        assert!(held.take(256, 60).is_some());
        assert!(held.take(256, 60).is_none());
    }

    #[test]
    fn chunks_of_another_region_are_not_owned() {
        let (held, first) = held();
        let owns = |id| held.owns(NonZeroU32::new(id).unwrap());
        assert!(owns(first) && owns(first + held.chunks - 1));
        assert!(!owns(first - 1) && !owns(first + held.chunks) && !owns(u32::MAX));
    }

    #[test]
    fn teardown_takes_every_chunk_that_is_left() {
        let (mut held, first) = held();
        let out = [0, 1, 63, 64, 700, held.chunks - 1];
        for index in out {
            held.post(desc(first + index, 100, 60));
        }
        let back: Vec<u32> = std::iter::from_fn(|| held.take_any()).map(|d| d.id.get() - first).collect();
        assert_eq!(back, out);
        assert_eq!(held.count(), 0);
    }
}
