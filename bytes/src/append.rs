//! Copies bytes into a frame.

use bytes::Buf;
use netmem::Frame;

/// Copies bytes of `from` behind the data of `frame`, as many as its tailroom takes. Returns their number. The other
/// bytes stay in `from`, for the next frame. The headroom is unchanged, for headers ([`Frame::push`]).
///
/// # Cost
/// The copy. Nothing is allocated.
#[must_use = "the bytes that found no room are still in `from`"]
pub fn append(frame: &mut Frame, from: &mut impl Buf) -> usize {
    let n = from.remaining().min(frame.tailroom());
    // There is that much room.
    frame.put(n).map_or(0, |to| {
        from.copy_to_slice(to);
        n
    })
}
