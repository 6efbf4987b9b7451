//! A packet that a retention keeps: its frame, or a copy.

use super::queued::Queued;
use crate::packet::CopyBreak;
use crate::pool::{Batch, FrameState};
use crate::slab::SlabBytes;
use crate::sync::Worker;
use std::num::NonZeroU32;

/// A packet that a retention keeps.
#[derive(Debug)]
pub(super) enum Kept {
    /// In the frame in which it came.
    Frame(Queued),
    /// Copied out of a frame that would occupy too much memory for it.
    Copy(SlabBytes),
}

impl Kept {
    /// The frame's id.
    pub(super) fn id(&self) -> Option<NonZeroU32> {
        match self {
            Kept::Frame(queued) => queued.id(),
            Kept::Copy(_) => None,
        }
    }

    pub(super) fn data(&self) -> Option<&[u8]> {
        match self {
            Kept::Frame(queued) => queued.data(),
            Kept::Copy(copy) => Some(copy),
        }
    }

    /// Bytes of memory that it occupies. A frame counts in full. A copy counts its own bytes; its size class may have
    /// nearly twice as many.
    pub(super) fn size(&self) -> usize {
        match self {
            Kept::Frame(queued) => queued.size(),
            Kept::Copy(copy) => copy.len(),
        }
    }

    pub(super) fn is_copy(&self) -> bool {
        matches!(self, Kept::Copy(_))
    }

    /// Turns it into a copy, if `copy_break` requires that and has the memory. The frame is then freed.
    pub(super) fn condense(&mut self, copy_break: &CopyBreak, w: &mut Worker, to_free: &mut ToFree) {
        let Kept::Frame(queued) = self else { return };
        let Some(copy) = queued.copied(copy_break, w) else { return };
        std::mem::replace(self, Kept::Copy(copy)).free(Some(copy_break), w, to_free);
    }

    /// Frees it: a frame together with others, a copy at once.
    pub(super) fn free(self, copy_break: Option<&CopyBreak>, w: &mut Worker, to_free: &mut ToFree) {
        match (self, copy_break) {
            (Kept::Frame(queued), _) => to_free.add(queued, w),
            (Kept::Copy(copy), Some(copy_break)) => copy_break.free_copy(w, copy),
            (Kept::Copy(copy), None) => drop(copy),
        }
    }
}

/// Frames that are no longer kept, freed in bulk.
#[derive(Debug)]
pub(super) struct ToFree(Batch);

impl ToFree {
    pub(super) fn new() -> ToFree {
        ToFree(Batch::new())
    }

    fn add(&mut self, queued: Queued, w: &mut Worker) {
        if self.0.room() == 0 {
            self.send(w);
        }
        if let Some(frame) = queued.into_frame() {
            // There is room.
            drop(self.0.push(frame));
        }
    }

    /// Frees the frames that were added.
    pub(super) fn send(&mut self, w: &mut Worker) {
        self.0.taken_back(FrameState::Queued, w, 0);
        FrameState::Queued.leave_last(w, &self.0, self.0.len());
        self.0.free(w);
    }
}
