//! Several frames at once: the starts of their data.

use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE};
use crate::sys::cpu;

/// Frames that are written without a loop.
pub(crate) const RUN: usize = 8;

/// The data starts of a run of frames without data; `origin` gives the origin of a chunk's region. Returns None if a
/// frame has data or may have no room for `n` bytes in its first chunk.
///
/// All words are read before any byte is written: a load of what was stored a moment ago waits for the addresses of the
/// stores between (ADR 0034).
#[inline(always)]
pub(super) fn starts_of_run<const N: usize>(
    words: [u64; N],
    n: usize,
    origin: impl Fn(u32) -> *mut u8,
) -> Option<[*mut u8; N]> {
    let words = cpu::in_registers(words);
    // The OR of all words is at least as large as each word.
    let all = words.iter().fold(0, |all, word| all | word);
    (n <= CHUNK_SIZE && all >> 32 <= (CHUNK_SIZE - n) as u64).then(|| {
        words.map(|word| {
            let id = word as u32;
            origin(id).wrapping_add(((id as usize) << CHUNK_SHIFT) + (word >> 32) as usize)
        })
    })
}
