//! The words that C holds.
//!
//! ```text
//!   of a frame     63 ───── generation ───── 39 38 ─ holder ─ 32 31 ───── number of the frame's first chunk ───── 0
//!   of the others  63 ─────────────── serial number ─────────────── 16 15 ───────────── place ───────────── 0
//! ```
//! A serial number is given once in a process, whatever it is given to: so no word of a closed pool is ever that of a worker.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Where the serial number stands.
const SERIAL_SHIFT: u32 = 16;

/// A new word for what lies at this place of its table.
pub fn new(place: usize) -> u64 {
    // 2^48 words before the number wraps.
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    SERIAL.fetch_add(1, Relaxed) << SERIAL_SHIFT | (place as u64 & 0xffff)
}

/// The place that a word names.
#[inline(always)]
pub fn place(word: u64) -> usize {
    word as usize & ((1 << SERIAL_SHIFT) - 1)
}
