//! Gives each set-up another memory layout.

use std::hint::black_box;

use super::random::Random;

/// Maximum bytes on the heap, in steps of 16: less than the size from which the system's allocator uses a mapping.
const HEAP_MAX: usize = 64 << 10;

/// Maximum number of pages.
const PAGES_MAX: usize = 256;

/// Memory that is held during a set-up. Later allocations then have other addresses than in the set-up before: on
/// the heap by a multiple of 16 bytes, in mappings by whole pages, and on other physical pages.
#[derive(Debug)]
pub struct Shift {
    _heap: Vec<u8>,
    _pages: Vec<u8>,
}

impl Shift {
    /// Takes an amount of memory that depends on `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut touched = |steps: usize, step: usize| black_box(vec![1; (1 + random.below(steps)) * step]);
        Self { _heap: touched(HEAP_MAX / 16, 16), _pages: touched(PAGES_MAX, 4_096) }
    }
}
