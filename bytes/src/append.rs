//! Bytes into a frame.

use bytes::Buf;
use netmem::Frame;

/// Copies bytes of `from` behind the data of `frame`, as many as its tailroom takes; returns how many. What is left stays in `from`, for the
/// next frame. The headroom stays as it is, for headers ([`Frame::push`]).
///
/// # Cost
/// The copy; nothing is allocated.
pub fn append(frame: &mut Frame, from: &mut impl Buf) -> usize {
    let n = from.remaining().min(frame.tailroom());
    // There is that much room.
    frame.put(n).map_or(0, |to| {
        from.copy_to_slice(to);
        n
    })
}
