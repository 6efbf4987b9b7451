//! The noise behind the stamp: a window of a fixed random text, selected by the stamp.

use super::stamp::{Stamp, mix};
use super::{SIZE_MAX, STAMP_AT};
use netmem::wire::checksum::Sum;

/// Number of windows of [`NOISE`], each shifted by one byte.
pub(super) const WINDOWS: usize = 256;

/// Maximum bytes of noise in a frame.
const MOST: usize = SIZE_MAX - STAMP_AT - size_of::<Stamp>();

/// The noise of frames of one size.
///
/// Invariant: `len` is at most [`MOST`], so that every window lies within the text.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    len: usize,
    /// The sum of each window, for the UDP checksum.
    sums: Box<[Sum; WINDOWS]>,
}

impl Noise {
    /// Makes windows of `len` bytes, at most [`MOST`].
    pub(super) fn new(len: usize) -> Self {
        let len = len.min(MOST);
        let mut sums = Box::new([Sum::new(); WINDOWS]);
        for (window, sum) in sums.iter_mut().enumerate() {
            *sum = Sum::new().bytes(&NOISE[window..][..len]);
        }
        Noise { len, sums }
    }

    /// Returns the noise behind `stamp`.
    #[inline]
    pub(super) fn after(&self, stamp: &Stamp) -> &'static [u8] {
        &NOISE[stamp.window()..][..self.len]
    }

    /// Returns the sum of the noise behind `stamp`.
    #[inline]
    pub(super) fn sum(&self, stamp: &Stamp) -> Sum {
        self.sums[stamp.window()]
    }
}

/// Returns true if `bytes` are the noise behind `stamp` in a frame with this many bytes behind the stamp.
#[inline]
pub(super) fn is_noise(bytes: &[u8], stamp: &Stamp) -> bool {
    NOISE.get(stamp.window()..).and_then(|noise| noise.get(..bytes.len())) == Some(bytes)
}

/// The random text that contains all windows.
static NOISE: [u8; MOST + WINDOWS] = {
    let mut noise = [0; MOST + WINDOWS];
    let mut at = 0;
    while at < noise.len() {
        noise[at] = mix((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u8;
        at += 1;
    }
    noise
};
