//! What follows the stamp: a window of a fixed random text, which the stamp picks.

use super::stamp::{Stamp, mix};
use super::{SIZE_MAX, STAMP_AT};
use netmem::wire::checksum::Sum;

/// Different windows of [`NOISE`], each one byte further on.
pub(super) const WINDOWS: usize = 256;

/// Noise of a frame at most.
const MOST: usize = SIZE_MAX - STAMP_AT - size_of::<Stamp>();

/// The noise of frames of one size.
///
/// Invariant: `len` is at most [`MOST`], so that every window lies within the text.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    len: usize,
    /// The sum over each window, for the UDP checksum.
    sums: Box<[Sum; WINDOWS]>,
}

impl Noise {
    /// Windows of `len` bytes, at most [`MOST`].
    pub(super) fn new(len: usize) -> Self {
        let len = len.min(MOST);
        let mut sums = Box::new([Sum::new(); WINDOWS]);
        for (window, sum) in sums.iter_mut().enumerate() {
            *sum = Sum::new().bytes(&NOISE[window..][..len]);
        }
        Noise { len, sums }
    }

    /// What follows `stamp`.
    #[inline]
    pub(super) fn behind(&self, stamp: &Stamp) -> &'static [u8] {
        &NOISE[stamp.window()..][..self.len]
    }

    /// The sum over what follows `stamp`.
    #[inline]
    pub(super) fn sum(&self, stamp: &Stamp) -> Sum {
        self.sums[stamp.window()]
    }
}

/// Whether `bytes` are what follows `stamp` in a frame with so many bytes behind it.
#[inline]
pub(super) fn is_noise(bytes: &[u8], stamp: &Stamp) -> bool {
    NOISE.get(stamp.window()..).and_then(|noise| noise.get(..bytes.len())) == Some(bytes)
}

/// The random text that payloads are windows of.
static NOISE: [u8; MOST + WINDOWS] = {
    let mut noise = [0; MOST + WINDOWS];
    let mut at = 0;
    while at < noise.len() {
        noise[at] = mix((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u8;
        at += 1;
    }
    noise
};
