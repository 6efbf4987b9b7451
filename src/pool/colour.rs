//! HOT: the start of the data in a pool's frames: colours of the cache's sets.

use crate::limits::{CACHE_LINE, CHUNK_SIZE};
use crate::sys::words::Words;

/// The start of the data in a pool's frames: the headroom, and one of up to eight colours by the frame's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// The state that makes words of empty frames: the bits of the colour, in bytes, and the headroom.
    pub(super) words: Words<{ Start::SHIFT }>,
}

impl Start {
    /// The shift from a chunk's number to its colour in bytes. Two chunks share a line, because neighbours with a
    /// stride of one chunk already fall into different sets. It is the same for all pools, so that it needs no load.
    const SHIFT: u32 = CACHE_LINE.trailing_zeros() - 1;

    /// Maximum number of colours.
    const COLOURS: usize = 8;

    /// Bytes from one colour to the next: the chunks of a frame, shifted, and whole lines.
    const fn step(size: usize) -> usize {
        let step = (size / CHUNK_SIZE) << Self::SHIFT;
        if step < CACHE_LINE { CACHE_LINE } else { step }
    }

    /// Bytes from the first colour to the last, if there is room for all colours.
    pub(super) const fn span(size: usize) -> usize {
        (Self::COLOURS - 1) * Self::step(size)
    }

    /// Chooses as many colours (1, 2, 4 or 8) as leave `data` bytes of room in a frame of `size` bytes.
    pub(crate) fn new(size: usize, headroom: usize, data: usize) -> Self {
        let step = Self::step(size);
        let steps = size.saturating_sub(headroom + data) / step;
        let colours = 1 << (steps + 1).min(Self::COLOURS).ilog2();
        Start { words: Words::new(((colours - 1) * step) as u32, headroom as u32) }
    }

    /// Bytes from the chunk's start to the data of the empty frame `id`.
    #[inline(always)]
    pub(crate) fn of(self, id: u32) -> u32 {
        self.words.upper(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolConfig;

    #[test]
    fn neighbours_begin_in_different_lines_and_every_start_leaves_room() {
        let start = Start::new(2048, 64, 1518);
        let offsets: std::collections::BTreeSet<u32> = (0..16).map(|id| start.of(id)).collect();
        assert_eq!(offsets.len(), 8);
        assert!(offsets.iter().all(|&off| off >= 64 && off + 1518 <= 2048));
        assert_eq!(Start::new(2048, 256, 1792).of(3), 256, "no room, one colour");
    }

    #[test]
    fn the_usual_frames_of_every_size_begin_at_eight_places_with_the_room_that_is_said() {
        for (size, said) in [(2048, 1518), (4096, 3584), (8192, 7232), (16384, 14528), (32768, 29120)] {
            let room = PoolConfig::room(size);
            let start = Start::new(size, 64, room);
            let chunks = (size / CHUNK_SIZE) as u32;
            let offsets: std::collections::BTreeSet<u32> = (0..16).map(|i| start.of(i * chunks)).collect();
            let furthest = *offsets.last().unwrap() as usize;
            assert_eq!((offsets.len(), room), (8, said));
            assert!(furthest + said <= size && offsets.iter().all(|off| off % 64 == 0), "{size}: {furthest}");
        }
    }
}
