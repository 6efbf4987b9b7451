//! HOT: copies of frames to the device, and the frames themselves back.

use super::BouncePort;
use crate::pool::{Batch, Frame};
use crate::port::set_aside;
use crate::sync::Worker;
use std::mem;

impl BouncePort {
    #[inline]
    pub(super) fn send(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let size = self.pool.frame_size();
        if frames.may_have_offloads() || frames.iter().any(|frame| frame.len() > size) {
            return self.tx_without_unsendable(w, frames);
        }
        self.tx_copies(w, frames)
    }

    /// Takes the frames out that are longer than a frame of the own pool, and those with open offload work: a copy does not
    /// carry it.
    pub(super) fn set_unsendable_aside(&self, frames: &mut Batch) -> Batch {
        let size = self.pool.frame_size();
        set_aside(frames, |frame| frame.len() <= size && !frame.has_offload())
    }

    /// Sends copies of the frames from the front, as long as the own pool has frames and the inner port has room.
    #[inline]
    fn tx_copies(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if frames.is_empty() || self.birthplace.is_elsewhere() {
            return 0;
        }
        if self.within.tx_posted() < self.originals.kept() {
            self.forget_lost();
        }
        if self.is_full {
            return 0;
        }
        let mut copies = Batch::new();
        let n = self.pool.alloc_burst(&mut self.worker, &mut copies, frames.len());
        self.is_dry = n < frames.len();
        for (copy, frame) in copies.iter_mut().zip(frames.iter()) {
            copy_data(copy, frame);
        }
        for (copy, original) in copies.iter().zip(frames.post(w, n)) {
            self.originals.keep(copy, original);
        }
        let sent = self.within.tx(&mut self.worker, &mut copies);
        self.counters.copied.add(sent as u64);
        if !copies.is_empty() {
            self.give_back(w, copies, frames);
        }
        sent
    }

    /// The inner port has lost copies that it will not give back, because its peer has gone and another has come. If it
    /// has no copy any more, all originals are freed. Otherwise each original is freed when its copy's place is used
    /// again.
    #[cold]
    #[inline(never)]
    fn forget_lost(&mut self) {
        self.is_full = false;
        if self.within.tx_posted() == 0 {
            self.originals.clear();
        }
    }

    /// Puts the frames whose copies were not sent before the frames that were not copied. No more frames are copied
    /// until there is room.
    #[cold]
    #[inline(never)]
    fn give_back(&mut self, w: &mut Worker, mut copies: Batch, frames: &mut Batch) {
        self.is_full = self.within.tx_posted() > 0;
        let mut back = Batch::new();
        back.claim(w, copies.iter().filter_map(|copy| self.originals.take(copy)));
        back.append(frames);
        *frames = back;
        copies.free(&mut self.worker);
    }

    /// Sends the frames that can be sent. The others stay, behind those for which there is no room.
    #[cold]
    #[inline(never)]
    fn tx_without_unsendable(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut stay = self.set_unsendable_aside(frames);
        let too_long = stay.iter().filter(|frame| frame.len() > self.pool.frame_size()).count();
        self.counters.tx_too_long.add(too_long as u64);
        self.counters.tx_invalid.add((stay.len() - too_long) as u64);
        let sent = self.tx_copies(w, frames);
        frames.append(&mut stay);
        sent
    }
}

/// Copies the data of `frame` into `copy`, which is empty and large enough. If the data does not fit otherwise, it
/// begins at the copy's start.
#[inline]
fn copy_data(copy: &mut Frame, frame: &Frame) {
    if copy.tailroom() < frame.len() {
        // The whole headroom always fits, and it holds no data.
        let before = copy.headroom();
        let _ = copy.push(before);
        let _ = copy.trim(0);
    }
    // The copy is large enough.
    let _ = copy.put_slice(frame.data());
}

impl BouncePort {
    /// Returns the frames whose copies were sent.
    #[inline]
    pub(super) fn take_sent(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.within.tx_posted() < self.originals.kept() {
            self.forget_lost();
        }
        let before = frames.len();
        if self.within.complete(&mut self.worker, frames) == 0 {
            return 0;
        }
        self.is_full = false;
        let mut copies = split_off(frames, before);
        let n = frames.claim(w, copies.iter().filter_map(|copy| self.originals.take(copy)));
        copies.free(&mut self.worker);
        n
    }
}

/// The frames from `at` on, which are no longer in the batch.
#[inline]
fn split_off(frames: &mut Batch, at: usize) -> Batch {
    if at == 0 {
        return mem::take(frames);
    }
    let mut i = 0;
    frames.extract(|_| {
        i += 1;
        i > at
    })
}
