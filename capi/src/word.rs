//! The format of handles.
//!
//! ```text
//!   of a frame     63 ───── generation ───── 39 38 ─ holder ─ 32 31 ───── number of the frame's first chunk ───── 0
//!   of the others  63 ─────────────── serial number ─────────────── 16 15 ───────────── place ───────────── 0
//! ```
//! A process uses each serial number once, for things of any kind. So the handle of a closed pool never becomes the
//! handle of a worker. The first serial number is random: handles that another process left in shared memory, as DPDK's
//! primary process does, name nothing here.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Position of the serial number.
const SERIAL_SHIFT: u32 = 16;

/// Makes a new handle for the thing at this place of its table.
pub fn new(place: usize) -> u64 {
    // It has 48 bits and wraps after 2^47 handles at least.
    static SERIAL: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(random() >> 17 | 1));
    SERIAL.fetch_add(1, Relaxed) << SERIAL_SHIFT | (place as u64 & 0xffff)
}

/// A number by the keys that the standard library draws for its maps.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns the place that a handle names.
#[inline(always)]
pub fn place(word: u64) -> usize {
    word as usize & ((1 << SERIAL_SHIFT) - 1)
}
