//! Bytes that tell which write they are from.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The start of a view without a pull or push.
const BEGIN: u32 = 1 << 16;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// What some bytes are: those of one write, from some place on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    seed: u32,
    at: u32,
    len: u32,
}

impl View {
    /// Fills all of `bytes` with a unique pattern.
    pub fn write(bytes: &mut [u8]) -> View {
        // Odd, so that no number comes twice.
        let seed = NEXT.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b1);
        let view = View { seed, at: BEGIN, len: bytes.len() as u32 };
        view.put(bytes);
        view
    }

    /// Returns the pattern in `bytes`, by its first four bytes.
    #[track_caller]
    pub fn read(bytes: &[u8]) -> View {
        let seed = bytes.first_chunk().map_or(0, |first| u32::from_le_bytes(*first) ^ mask(BEGIN));
        let view = View { seed, at: BEGIN, len: bytes.len() as u32 };
        view.look(bytes);
        view
    }

    pub fn len(self) -> usize {
        self.len as usize
    }

    fn put(self, bytes: &mut [u8]) {
        let start = self.start().min(bytes.len());
        let (front, rest) = bytes.split_at_mut(start);
        front.iter_mut().zip(0..).for_each(|(byte, i)| *byte = self.byte(i));
        let (words, end) = rest.as_chunks_mut();
        let behind = (start + 4 * words.len()) as u32;
        words.iter_mut().zip((start as u32..).step_by(4)).for_each(|(word, i)| *word = self.word(i));
        end.iter_mut().zip(behind..).for_each(|(byte, i)| *byte = self.byte(i));
    }

    /// The first place from which on all goes by words.
    fn start(self) -> usize {
        self.at.wrapping_neg() as usize % 4
    }

    /// Returns the four bytes from the one at `i` on, at which a word begins.
    fn word(self, i: u32) -> [u8; 4] {
        (self.seed ^ mask(self.at.wrapping_add(i))).to_le_bytes()
    }

    fn byte(self, i: u32) -> u8 {
        let at = self.at.wrapping_add(i);
        (self.seed ^ mask(at)).to_le_bytes()[at as usize % 4]
    }

    /// Whether `bytes` are what was written.
    #[track_caller]
    pub fn look(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len(), "{self:?}");
        let start = self.start().min(bytes.len());
        let (front, rest) = bytes.split_at(start);
        let (words, end) = rest.as_chunks();
        let behind = (start + 4 * words.len()) as u32;
        let whole = front.iter().zip(0..).all(|(byte, i)| *byte == self.byte(i))
            && words.iter().zip((start as u32..).step_by(4)).all(|(word, i)| *word == self.word(i))
            && end.iter().zip(behind..).all(|(byte, i)| *byte == self.byte(i));
        assert!(whole, "{self:?}: bytes are from another write: {bytes:02x?}");
    }

    /// Removes the first `n`. Returns whether there were as many.
    pub fn pull(&mut self, n: usize) -> bool {
        let enough = n <= self.len();
        if enough {
            self.at += n as u32;
            self.len -= n as u32;
        }
        enough
    }

    /// Keeps only the first `n`. Returns whether there were as many.
    pub fn trim(&mut self, n: usize) -> bool {
        let enough = n <= self.len();
        if enough {
            self.len = n as u32;
        }
        enough
    }

    /// With `n` more in front, which are written.
    pub fn push(&mut self, n: usize, bytes: &mut [u8]) {
        self.at -= n as u32;
        self.len += n as u32;
        self.put(bytes);
    }

    /// Removes the bytes after the first `n`, and returns them.
    pub fn split_off(&mut self, n: usize) -> View {
        let mut behind = *self;
        behind.pull(n);
        self.trim(n);
        behind
    }
}

/// Returns the bits in which the word at an index differs from the others of its write.
fn mask(at: u32) -> u32 {
    ((at / 4) & 0xff) * 0x0101_0101
}
