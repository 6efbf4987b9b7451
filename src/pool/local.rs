//! HOT: the owner's cache of free frames.
//!
//! An array of frame numbers; where a frame's data begins is computed when it is given out.

use crate::limits::{CACHE_LINE, CHUNK_SIZE};
use crate::sync::Lifo;

/// The owner's cache.
pub(crate) type Local = Lifo<u32>;

/// Where a pool's frames begin their data: headroom, and a colour of 0..=7 lines more by the frame's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    headroom: u16,
    /// log2 of the chunks between two frames of one colour run.
    shift: u32,
    /// Colours less one; a power of two less one.
    mask: u32,
}

impl Start {
    /// As many colours (1, 2, 4 or 8) as leave `data` bytes of room in a frame of `size` bytes.
    pub(crate) fn new(size: usize, headroom: usize, data: usize) -> Self {
        let lines = size.saturating_sub(headroom + data) / CACHE_LINE;
        let colours = (lines + 1).min(8);
        let mask = (1 << colours.ilog2()) - 1;
        // Neighbouring frames already fall into different sets when their stride is one chunk.
        let shift = (size / CHUNK_SIZE).trailing_zeros() + u32::from(size == CHUNK_SIZE);
        Start { headroom: headroom as u16, shift, mask }
    }

    /// Bytes from the chunk's start to the data of the empty frame `id`.
    #[inline(always)]
    pub(crate) fn of(self, id: u32) -> u16 {
        self.headroom + (((id >> self.shift) & self.mask) as u16) * CACHE_LINE as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_begin_in_different_lines_and_every_start_leaves_room() {
        let start = Start::new(2048, 64, 1518);
        let offsets: std::collections::BTreeSet<u16> = (0..16).map(|id| start.of(id)).collect();
        assert_eq!(offsets.len(), 8);
        assert!(offsets.iter().all(|&off| off >= 64 && usize::from(off) + 1518 <= 2048));
        assert_eq!(Start::new(2048, 256, 1792).of(3), 256, "no room, one colour");
    }
}
