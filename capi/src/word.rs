//! The format of handles.
//!
//! ```text
//!   of a frame     63 ───── generation ───── 39 38 ─ holder ─ 32 31 ───── number of the frame's first chunk ───── 0
//!   of the others  63 ─────────────── serial number ─────────────── 16 15 ───────────── place ───────────── 0
//! ```
//! A process uses each serial number once, for things of any kind. So the handle of a closed pool never becomes the
//! handle of a worker.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Position of the serial number.
const SERIAL_SHIFT: u32 = 16;

/// Makes a new handle for the thing at this place of its table.
pub fn new(place: usize) -> u64 {
    // The serial number wraps after 2^48 handles.
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    SERIAL.fetch_add(1, Relaxed) << SERIAL_SHIFT | (place as u64 & 0xffff)
}

/// Returns the place that a handle names.
#[inline(always)]
pub fn place(word: u64) -> usize {
    word as usize & ((1 << SERIAL_SHIFT) - 1)
}
