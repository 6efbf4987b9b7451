//! The chunks that the kernel holds for one direction of one port. Only here does an address that the kernel gives back
//! become a frame again.
//!
//! ```text
//!   UMEM  ├──── chunk 0 ────┼──── chunk 1 ────┼─ …      addr  = index · 2048 + offset in the chunk
//!   id       first              first + 1               id    = first chunk of the region + index
//! ```
//! A UMEM with chunks of 4,096 bytes is numbered in the same way: every second number is the start of one.

use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE, FRAME_SIZE_MAX, PAGE_SIZE};
use crate::pool::{Batch, Desc, Frame, FrameState};
use crate::sync::Worker;
use crate::sys::region::Region;
use crate::wire::ethernet;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// The chunks held in one direction, one bit each.
///
/// Invariant: a bit is set exactly while its chunk's frame has been consumed by [`Held::post`] and not been claimed
/// again. A frame is in `long` exactly while it has been consumed by [`Held::post_long`] and not been claimed again;
/// its bit is not set then. So an address becomes a frame at most once, whatever the ring contains.
#[derive(Debug)]
pub(super) struct Held {
    /// The number of the region's first chunk.
    first: u32,
    chunks: u32,
    /// Bytes of a UMEM chunk less one: 2,047 or 4,095.
    within: usize,
    /// Bytes of the longest frame that the interface transmits.
    longest: usize,
    words: Box<[u64]>,
    /// Frames whose data reaches beyond their first chunk, by the index of that chunk. The value has one bit for each
    /// chunk, counted from there, that the kernel holds.
    long: HashMap<u32, u32>,
    /// Number of frames held: bits set, and long frames.
    count: usize,
}

/// Number of chunks of the largest frame: bits of a mask.
const CHUNKS_OF_A_FRAME: u32 = (FRAME_SIZE_MAX / CHUNK_SIZE) as u32;
const _: () = assert!(CHUNKS_OF_A_FRAME < u32::BITS);

impl Held {
    /// Returns an empty set for a UMEM with chunks of `chunk_size` bytes: 2,048 or 4,096.
    pub(super) fn new(region: &Region, chunk_size: usize) -> Held {
        debug_assert!([CHUNK_SIZE, PAGE_SIZE].contains(&chunk_size));
        let chunks = region.chunks();
        let words = vec![0; chunks.div_ceil(64) as usize].into_boxed_slice();
        let (first, within) = (region.first_chunk(), chunk_size - 1);
        Held { first, chunks, within, longest: usize::MAX, words, long: HashMap::new(), count: 0 }
    }

    /// Sets the longest frame that [may be transmitted](Held::is_beyond_mtu), by the interface's MTU.
    #[cold]
    pub(super) fn set_mtu(&mut self, mtu: u32) {
        // A link lets packets pass that are longer by a tag, also without the tag (Linux, is_skb_forwardable).
        self.longest = ethernet::HEADER_LEN + ethernet::TAG_LEN + mtu as usize;
    }

    /// Returns whether the frame is longer than the interface transmits. The kernel would complete it, drop it, and tell
    /// nobody.
    #[inline]
    pub(super) fn is_beyond_mtu(&self, frame: &Frame) -> bool {
        frame.len() > self.longest
    }

    /// Number of frames held.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the chunk numbered `id` lies in this region.
    #[inline]
    pub(super) fn owns(&self, id: NonZeroU32) -> bool {
        id.get().wrapping_sub(self.first) < self.chunks
    }

    /// Returns whether the frame lies in this region and has a whole UMEM chunk to itself. A frame of a page or more
    /// begins at a page, and so at a chunk.
    #[inline]
    pub(super) fn takes(&self, frame: &Frame) -> bool {
        self.owns(frame.id()) && (self.within < CHUNK_SIZE || frame.size() > self.within)
    }

    /// Returns whether the frame's data ends within its first chunk, and no offload work is open.
    #[inline]
    pub(super) fn reaches(&self, frame: &Frame) -> bool {
        frame.off() + frame.len() <= self.within + 1 && !frame.has_offload()
    }

    /// Returns the first and the last chunk that the frame's data lies in, counted from the frame's own.
    pub(super) fn chunks_of(&self, frame: &Frame) -> RangeInclusive<usize> {
        let size = self.within + 1;
        frame.off() / size..=(frame.off() + frame.len()).saturating_sub(1) / size
    }

    /// Gives up the claim to a frame that this UMEM [takes](Held::takes), to be sent out of several chunks. Returns the
    /// address of its first chunk, and the part of its data in each chunk, from the first on: the offset from that
    /// address, and the number of bytes.
    #[cold]
    pub(super) fn post_long(&mut self, frame: Frame) -> (u64, impl Iterator<Item = (u64, u32)>) {
        let (size, chunks) = (self.within + 1, self.chunks_of(&frame));
        let (from, to) = (frame.off(), frame.off() + frame.len());
        let index = frame.into_desc().id.get().wrapping_sub(self.first);
        debug_assert!(index < self.chunks && !self.is_set(index));
        let out = chunks.clone().fold(0, |out, chunk| out | 1 << chunk);
        self.long.insert(index, out);
        self.count += 1;
        let part = move |chunk| {
            let begin = from.max(chunk * size);
            (begin as u64, (to.min((chunk + 1) * size) - begin) as u32)
        };
        (u64::from(index) << CHUNK_SHIFT, chunks.map(part))
    }

    /// Records that the kernel is done with the part of a frame at `addr`. Returns the frame, empty, when the kernel is
    /// done with all parts.
    ///
    /// Returns None for an address that is in no chunk of such a frame that the kernel holds.
    #[cold]
    pub(super) fn claim_part(&mut self, addr: u64) -> Option<Option<Frame>> {
        let step = ((self.within + 1) >> CHUNK_SHIFT) as u32;
        let index = u32::try_from((addr & !(self.within as u64)) >> CHUNK_SHIFT).ok()?;
        let found = (0..CHUNKS_OF_A_FRAME).find_map(|chunk| {
            let first = index.checked_sub(chunk * step)?;
            self.long.get(&first).map(|out| (first, chunk, *out))
        });
        let (first, chunk, out) = found.filter(|(_, chunk, out)| out >> chunk & 1 == 1)?;
        match out & !(1 << chunk) {
            0 => self.claim_long(first).map(Some),
            left => {
                self.long.insert(first, left);
                Some(None)
            }
        }
    }

    /// Claims the frame, empty, that is sent out of several chunks from `first` on.
    #[cold]
    fn claim_long(&mut self, first: u32) -> Option<Frame> {
        self.long.remove(&first)?;
        self.count -= 1;
        let desc = Desc { id: NonZeroU32::new(self.first + first)?, off: 0, len: 0 };
        // SAFETY: it was in the table, so `post_long` consumed the frame whose first chunk this is and it has not been
        // claimed since. No other Frame claims it, and its pool counts it as out. The kernel is done with all of it:
        // callers pass addresses that they read from the COMPLETION ring, or ask after the socket's release.
        Some(unsafe { Frame::from_desc(desc) })
    }

    /// Gives up the claim to a frame that this UMEM [takes](Held::takes). Returns the address of its chunk.
    #[inline]
    pub(super) fn post(&mut self, frame: Frame) -> u64 {
        let index = frame.into_desc().id.get().wrapping_sub(self.first);
        debug_assert!(index < self.chunks && !self.is_set(index));
        self.words[(index / 64) as usize] |= 1 << (index % 64);
        self.count += 1;
        u64::from(index) << CHUNK_SHIFT
    }

    /// Claims the frame of `len` bytes at `addr`, which the kernel has given back.
    ///
    /// Returns None for an address outside the region, a chunk that is not held, or a length that leaves the chunk.
    #[inline]
    pub(super) fn claim(&mut self, addr: u64, len: u32) -> Option<Frame> {
        let off = addr as usize & self.within;
        let start = (addr - off as u64) >> CHUNK_SHIFT;
        let index = u32::try_from(start).ok().filter(|&index| index < self.chunks)?;
        if len as usize > self.within + 1 - off || !self.is_set(index) {
            return None;
        }
        let id = NonZeroU32::new(self.first + index)?;
        self.words[(index / 64) as usize] &= !(1 << (index % 64));
        self.count -= 1;
        // The casts lose nothing: off < 4096 and len <= 4096.
        let desc = Desc { id, off: off as u16, len: len as u16 };
        // SAFETY: the bit was set, so `post` consumed the frame of this chunk and it has not been claimed since. No
        // other Frame claims it, and its pool counts it as out. The kernel is done with it: callers pass addresses that
        // they read from the RX or COMPLETION ring, or ask after the socket's release. `off + len` lies within the
        // chunk, and no frame that `post` got is smaller than that.
        Some(unsafe { Frame::from_desc(desc) })
    }

    /// Claims any frame that is held, empty. For teardown, after the socket's release.
    #[cold]
    pub(super) fn claim_any(&mut self) -> Option<Frame> {
        let Some(word) = self.words.iter().position(|&word| word != 0) else {
            let first = *self.long.keys().next()?;
            return self.claim_long(first);
        };
        let index = word as u64 * 64 + u64::from(self.words[word].trailing_zeros());
        self.claim(index << CHUNK_SHIFT, 0)
    }

    /// Records that the frames of a batch from `before` on were claimed here, when `count` were held before.
    #[inline]
    pub(super) fn taken_back(&self, count: usize, w: &Worker, frames: &mut Batch, before: usize) {
        frames.taken_back(FrameState::Posted, w, before);
        FrameState::Posted.leave_last(w, frames, count - self.count);
    }

    #[inline]
    fn is_set(&self, index: u32) -> bool {
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, bench};
    use super::*;
    use crate::pool::{Pool, PoolConfig};

    #[test]
    fn a_frame_that_went_out_whole_comes_back_behind_the_kernels_headroom() {
        let Bench { memory, mut w, pool } = bench(8);
        let mut held = Held::new(memory.region(), CHUNK_SIZE);
        let frame = pool.alloc(&mut w).unwrap();
        let id = frame.id();
        let addr = held.post(frame);
        assert_eq!(addr, u64::from(id.get() - memory.region().first_chunk()) * 2048);
        assert_eq!(held.count(), 1);
        let back = held.claim(addr + 256, 60).unwrap();
        assert_eq!((back.id(), back.headroom(), back.len()), (id, 256, 60));
        assert_eq!(held.count(), 0);
    }

    #[test]
    fn hostile_addresses_become_no_frames_and_change_nothing() {
        let Bench { memory, mut w, pool } = bench(8);
        let mut held = Held::new(memory.region(), CHUNK_SIZE);
        let chunk = held.post(pool.alloc(&mut w).unwrap());
        let region = memory.region().len() as u64;
        for (addr, len) in [
            (chunk + 2048, 0),             // a chunk never posted
            (chunk.wrapping_sub(1), 0),    // the neighbour's last byte
            (region, 0),                   // just outside
            (region + chunk, 60),          // far outside
            (u64::MAX, 0),                 // the last address
            (u64::MAX - 2047, 60),         // the last chunk of the address space
            ((1 << 43) + chunk, 60),       // valid if the chunk's number were truncated to 32 bits
            (chunk + 256, 2048 - 256 + 1), // one byte past the chunk's end
            (chunk, u32::MAX),             // a length that wraps
            (chunk + 2047, 2),             // begins inside, ends outside
        ] {
            assert!(held.claim(addr, len).is_none(), "{addr:#x} {len}");
        }
        assert_eq!(held.count(), 1);
        assert!(held.claim(chunk + 256, 2048 - 256).is_some());
    }

    #[test]
    fn a_chunk_comes_back_once() {
        let Bench { memory, mut w, pool } = bench(8);
        let mut held = Held::new(memory.region(), CHUNK_SIZE);
        let chunk = held.post(pool.alloc(&mut w).unwrap());
        assert!(held.claim(chunk, 60).is_some());
        assert!(held.claim(chunk, 60).is_none());
    }

    #[test]
    fn chunks_of_another_region_are_not_owned() {
        let Bench { memory, .. } = bench(8);
        let (held, region) = (Held::new(memory.region(), CHUNK_SIZE), memory.region());
        let owns = |id| held.owns(NonZeroU32::new(id).unwrap());
        let (first, last) = (region.first_chunk(), region.first_chunk() + region.chunks() - 1);
        assert!(owns(first) && owns(last));
        assert!(!owns(first - 1) && !owns(last + 1) && !owns(u32::MAX));
    }

    #[test]
    fn of_a_umem_with_chunks_of_a_page_a_frame_comes_back_wherever_in_the_page_its_data_is() {
        let Bench { memory, mut w, pool: small } = bench(8);
        let config = PoolConfig { frames: 8, ..PoolConfig::of_frames(PAGE_SIZE) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut held = Held::new(memory.region(), PAGE_SIZE);
        let small = [small.alloc(&mut w).unwrap(), small.alloc(&mut w).unwrap()];
        assert!(small.iter().all(|frame| held.owns(frame.id()) && !held.takes(frame)), "half a chunk");
        let mut frame = pool.alloc(&mut w).unwrap();
        frame.put(3584).unwrap();
        assert!(held.takes(&frame) && held.reaches(&frame));
        let id = frame.id();
        let addr = held.post(frame);
        assert_eq!(addr % 4096, 0);
        for (addr, len) in
            [(addr + 4096, 60), (addr.wrapping_sub(1), 0), (addr + 256, 3841), (addr + 4095, 2)]
        {
            assert!(held.claim(addr, len).is_none(), "{addr:#x} {len}");
        }
        let back = held.claim(addr + 256, 3840).unwrap();
        assert_eq!((back.id(), back.headroom(), back.len(), held.count()), (id, 256, 3840, 0));
        let addr = held.post(back);
        assert_eq!(held.claim(addr + 2048, 2048).unwrap().headroom(), 2048, "beyond its first 2,048 bytes");
    }

    #[test]
    fn of_larger_frames_only_what_ends_within_a_chunk_reaches_the_kernel() {
        let Bench { memory, mut w, .. } = bench(8);
        let config = PoolConfig { frames: 8, ..PoolConfig::of_frames(16384) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        for chunk_size in [CHUNK_SIZE, PAGE_SIZE] {
            let held = Held::new(memory.region(), chunk_size);
            let mut frame = pool.alloc(&mut w).unwrap();
            frame.put(chunk_size - frame.headroom()).unwrap();
            assert!(held.takes(&frame) && held.reaches(&frame));
            frame.put(1).unwrap();
            assert!(!held.reaches(&frame));
        }
    }

    #[test]
    fn a_frame_that_is_sent_out_of_several_chunks_comes_back_with_the_last_of_them_whatever_their_order() {
        let Bench { memory, mut w, .. } = bench(8);
        let config = PoolConfig { frames: 8, ..PoolConfig::of_frames(16384) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        for (chunk_size, order) in [(CHUNK_SIZE, [3, 0, 5, 4, 2, 1]), (PAGE_SIZE, [1, 0, 3, 2, 5, 4])] {
            let mut held = Held::new(memory.region(), chunk_size);
            let mut frame = pool.alloc(&mut w).unwrap();
            frame.put(9014).unwrap();
            let (id, from) = (frame.id(), frame.off() as u64);
            assert!(held.takes(&frame) && !held.reaches(&frame));
            let (addr, parts) = held.post_long(frame);
            let parts: Vec<_> = parts.collect();
            assert_eq!(parts[0].0, from);
            assert_eq!(parts.iter().map(|(_, len)| len).sum::<u32>(), 9014);
            for pair in parts.windows(2) {
                assert_eq!(pair[0].0 + u64::from(pair[0].1), pair[1].0);
                assert_eq!(pair[1].0 % chunk_size as u64, 0, "each ends where its chunk does");
            }
            assert!(held.claim(addr + from, 0).is_none(), "not by one of them");
            let beyond = addr + 16384;
            assert!(held.claim_part(beyond).is_none() && held.claim_part(addr.wrapping_sub(1)).is_none());
            // The number of parts depends on where the frame's data begins.
            let order: Vec<_> = order.into_iter().filter(|i| *i < parts.len()).collect();
            assert_eq!((order.len(), held.count()), (parts.len(), 1));
            for (i, part) in order.iter().enumerate() {
                let back = held.claim_part(addr + parts[*part].0).unwrap();
                assert!(held.claim_part(addr + parts[*part].0).is_none(), "once");
                assert_eq!(
                    back.map(|frame| (frame.id(), frame.len())),
                    (i + 1 == parts.len()).then_some((id, 0))
                );
            }
            assert_eq!(held.count(), 0);
        }
    }

    #[test]
    fn teardown_claims_every_frame_that_is_left() {
        let Bench { memory, mut w, pool } = bench(200);
        let mut held = Held::new(memory.region(), CHUNK_SIZE);
        let mut posted: Vec<NonZeroU32> = (0..200)
            .map(|_| {
                let frame = pool.alloc(&mut w).unwrap();
                let id = frame.id();
                held.post(frame);
                id
            })
            .collect();
        let back: Vec<NonZeroU32> = std::iter::from_fn(|| held.claim_any()).map(|frame| frame.id()).collect();
        posted.sort();
        assert_eq!(back, posted);
        let config = PoolConfig { frames: 8, ..PoolConfig::of_frames(8192) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut frame = pool.alloc(&mut w).unwrap();
        frame.put(5000).unwrap();
        let id = frame.id();
        let (addr, _) = held.post_long(frame);
        assert!(held.claim_part(addr + 2048).unwrap().is_none());
        assert_eq!(held.claim_any().map(|frame| frame.id()), Some(id), "also one of which a part came back");
        assert!(held.claim_any().is_none());
        assert_eq!(held.count(), 0);
    }
}
