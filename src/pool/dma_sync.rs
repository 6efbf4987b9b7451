//! Frames that move between the processor and a device that does not see the processor's caches.
//!
//! A port that posts frames to such a device calls [`Batch::sync_for_device`] for the frames that it transmits, and
//! [`Batch::sync_for_cpu`] for the frames that it received. Only the bytes of the data are synced, however large the
//! frame is ([brouer17-pages]: "only sync the touched length").

use super::batch::Batch;
use super::dma::any_mapper;
use super::frame::Frame;
use super::shared::Shared;
use crate::sync::Worker;

/// The side that gets the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Device,
    Cpu,
}

impl Shared {
    /// Syncs the data of these frames through the device's mapper, if there is one.
    #[cold]
    #[inline(never)]
    pub(super) fn sync(&self, w: &Worker, frames: &[Frame], to: To) {
        let Some(mapper) = self.dma.mapper() else { return };
        for frame in frames {
            let Some(at) = self.device_address(frame) else { continue };
            match to {
                To::Device => mapper.sync_for_device(at, frame.len()),
                To::Cpu => mapper.sync_for_cpu(at, frame.len()),
            }
            self.lanes.add(w, frame.len() as u64, |lane| &lane.synced);
        }
    }
}

impl Batch {
    /// Hands the data of the first `n` frames to the device that their pool is mapped for. Other bytes are not synced.
    /// Call it before the frames are posted.
    ///
    /// # Cost
    /// One load, in a process without a pool that a [`DmaMapper`](super::DmaMapper) maps. Otherwise a look at the pool
    /// for each run of frames of one pool, and the mapper's own cost.
    #[inline]
    pub fn sync_for_device(&self, w: &Worker, n: usize) {
        if any_mapper() {
            self.each_pool(n, |pool, frames| pool.sync(w, frames, To::Device));
        }
    }

    /// Takes the data of the frames from index `first` on over from the device. Other bytes are not synced. Call it
    /// before the frames are read. The cost is that of [`sync_for_device`](Self::sync_for_device).
    #[inline]
    pub fn sync_for_cpu(&self, w: &Worker, first: usize) {
        if any_mapper() {
            self.each_pool_from(first, |pool, frames| pool.sync(w, frames, To::Cpu));
        }
    }
}
