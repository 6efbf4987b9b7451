//! Where things lie in memory, other for every set-up.

use std::hint::black_box;

use super::random::Random;

/// Bytes on the heap at most, in steps of 16: less than what the system's allocator maps apart.
const HEAP_MAX: usize = 64 << 10;

/// Pages at most.
const PAGES_MAX: usize = 256;

/// Memory that is held for as long as a set-up lasts, so that what is allocated after it lies elsewhere than in the
/// set-up before: on the heap by a multiple of 16 bytes, in mappings by whole pages, and on other physical pages.
#[derive(Debug)]
pub struct Shift {
    _heap: Vec<u8>,
    _pages: Vec<u8>,
}

impl Shift {
    /// Takes memory, how much depends on `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut touched = |steps: usize, step: usize| black_box(vec![1; (1 + random.below(steps)) * step]);
        Self { _heap: touched(HEAP_MAX / 16, 16), _pages: touched(PAGES_MAX, 4_096) }
    }
}
