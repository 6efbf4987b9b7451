//! Copies bytes into a frame.

use bytes::Buf;
use netmem::Frame;

/// Copies bytes of `from` behind the data of `frame`, as many as its tailroom takes. Returns their number. The other
/// bytes stay in `from`, for the next frame. The headroom is unchanged, for headers ([`Frame::push`]).
///
/// # Panics
/// If a call of `from` panics. The frame then has its former data, and the bytes that were read are lost.
///
/// # Cost
/// The copy. Nothing is allocated.
#[must_use = "the bytes that found no room are still in `from`"]
pub fn append(frame: &mut Frame, from: &mut impl Buf) -> usize {
    let n = from.remaining().min(frame.tailroom());
    let before = frame.len();
    let mut grown = Grown { frame, before };
    // There is that much room.
    let appended = grown.frame.put(n).map_or(0, |to| {
        from.copy_to_slice(to);
        n
    });
    grown.before += appended;
    appended
}

/// A frame with bytes of an earlier packet behind its first `before` bytes, until they are written: a [`Buf`] is code of
/// the caller, which may panic. A drop ends the data after `before` bytes.
struct Grown<'a> {
    frame: &'a mut Frame,
    before: usize,
}

impl Drop for Grown<'_> {
    fn drop(&mut self) {
        // There is that much data.
        let _ = self.frame.trim(self.before);
    }
}
