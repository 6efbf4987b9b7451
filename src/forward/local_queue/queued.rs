//! A frame while it is held: counted as `queued` in its pool's ledger.

use crate::packet::CopyBreak;
use crate::pool::{Frame, FrameState};
use crate::slab::SlabBytes;
use crate::sync::Worker;
use std::num::NonZeroU32;
use std::slice;

/// A frame that was counted as queued before it was wrapped.
///
/// If it is dropped (with a queue or a retention), it is counted back and freed.
#[derive(Debug)]
pub(super) struct Queued(
    /// None only after the frame was taken out.
    Option<Frame>,
);

const _: () = assert!(size_of::<Queued>() == 8);

impl Queued {
    #[inline(always)]
    pub(super) fn new(frame: Frame) -> Queued {
        Queued(Some(frame))
    }

    /// The frame's id.
    pub(super) fn id(&self) -> Option<NonZeroU32> {
        self.0.as_ref().map(Frame::id)
    }

    /// The bytes.
    pub(super) fn data(&self) -> Option<&[u8]> {
        self.0.as_ref().map(Frame::data)
    }

    /// Returns a copy of the packet, if the frame occupies too much memory for it and carries only bytes.
    pub(super) fn copied(&self, copy_break: &CopyBreak, w: &mut Worker) -> Option<SlabBytes> {
        let frame =
            self.0.as_ref().filter(|frame| frame.offload().is_none() && frame.timestamp().is_none())?;
        copy_break.copy(w, frame.data(), frame.size())
    }

    /// Bytes of memory that the frame occupies.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, Frame::size)
    }

    /// Takes the frame out. The caller counts it as no longer queued.
    #[inline(always)]
    pub(super) fn into_frame(mut self) -> Option<Frame> {
        self.0.take()
    }
}

impl Drop for Queued {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.0.take() {
            FrameState::Queued.leave(None, slice::from_ref(&frame));
            FrameState::Queued.take_back(None, slice::from_ref(&frame));
        }
    }
}
