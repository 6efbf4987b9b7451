//! Chapters about frames: alone, in batches, with several holders, in pieces; and until there are none.

use super::{CAPACITY, FRAMES, Scene};
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
use crate::wire::offload::{Offload, PartialChecksum};
use std::mem::MaybeUninit;
use std::slice;
use std::time::Duration;

/// Work that a sender may leave to be done to a packet of 40 bytes.
pub(super) const OFFLOAD: Offload =
    Offload { checksum: Some(PartialChecksum { start: 30, offset: 6 }), gso: None };

/// A time when a packet may have been recorded.
const RECORDED: Duration = Duration::from_millis(1_700_000_000_123);

#[allow(unsafe_code)]
fn kept_as_a_word(frame: Frame) -> Frame {
    // SAFETY: the word was just given, and is taken once.
    unsafe { Frame::from_raw(frame.into_raw()) }
}

#[allow(unsafe_code)]
fn free_all(written: &[MaybeUninit<Frame>], w: &mut Worker) {
    // SAFETY: each was written, an Option<Frame> has a Frame's layout, and they are not used again.
    unsafe { Frame::free_all(slice::from_raw_parts(written.as_ptr().cast(), written.len()), w) }
}

/// Frees into the cheapest cache of the owner, if that accepts the frames; not into another worker's.
#[allow(unsafe_code)]
fn free_cached(written: &[MaybeUninit<Frame>], owner: &mut Worker, other: &mut Worker) {
    // SAFETY: as in `free_all`, once they are gone.
    let frames = unsafe { slice::from_raw_parts(written.as_ptr().cast(), written.len()) };
    // SAFETY: as above.
    unsafe {
        assert!(!Frame::free_all_cached(frames, other), "another worker's");
        if !Frame::free_all_cached(frames, owner) {
            Frame::free_all(frames, owner);
        }
    }
}

/// Frees to the frames' own pool, by the cheapest path that accepts them.
#[allow(unsafe_code)]
fn free_cached_to(pool: &Pool, written: &[MaybeUninit<Frame>], owner: &mut Worker) {
    // SAFETY: as in `free_cached`; they are of the pool.
    unsafe {
        let frames = slice::from_raw_parts(written.as_ptr().cast(), written.len());
        if !pool.free_all_cached(owner, frames) {
            Frame::free_all(frames, owner);
        }
    }
}

/// As [`free_cached_to`], for one frame.
#[allow(unsafe_code)]
fn free_to(pool: &Pool, frame: Frame, owner: &mut Worker) {
    // SAFETY: it is of the pool.
    unsafe { pool.free_cached(owner, frame) }.unwrap_or_else(|frame| frame.free(owner));
}

impl Scene {
    pub(super) fn one_frame(&mut self) {
        let frame = self.pool.alloc(&mut self.w);
        let Some(mut frame) = self.got(frame) else { return };
        assert!(frame.is_empty() && frame.size() == self.pool.frame_size());
        frame.put_zeroed(90).unwrap();
        frame.data_mut().fill(7);
        frame.pull(20).unwrap();
        frame.push(10).unwrap();
        frame.trim(70).unwrap();
        frame.prefetch();
        frame.prefetch_write();
        frame.set_offload(OFFLOAD).unwrap();
        assert!(frame.has_offload() && frame.offload() == Some(OFFLOAD));
        frame.set_timestamp(Some(RECORDED)).unwrap();
        frame.set_offload(Offload::default()).unwrap();
        assert_eq!((frame.offload(), frame.timestamp()), (None, Some(RECORDED)));
        frame.set_timestamp(None).unwrap();
        assert_eq!((frame.len(), frame.data()), (70, &[7; 70][..]));
        assert_eq!(frame.headroom() + frame.len() + frame.tailroom(), frame.size());
        assert!(self.pool.device_address(&frame).is_some());
        let before = self.pool.synced_bytes();
        self.pool.sync_for_device(&self.w, &frame);
        self.pool.sync_for_cpu(&self.w, &frame);
        assert_eq!(self.pool.synced_bytes(), before, "a UMEM's device sees the processor's caches");
        assert!(self.pool.owns(&frame) && self.pool.owns_words(&[frame.id().get().into()]));
        let frame = kept_as_a_word(frame);
        assert_eq!((frame.len(), frame.data()), (70, &[7; 70][..]));
        let second = self.pool.alloc(&mut self.other);
        if let Some(second) = self.got(second) {
            assert_ne!(second.id(), frame.id());
            second.free(&mut self.other);
        }
        self.pool.free(&mut self.w, frame);
    }

    /// Allocates into the caller's own array, and by the cheapest path.
    pub(super) fn arrays(&mut self) {
        let mut places = [const { MaybeUninit::uninit() }; 12];
        let got = self.pool.alloc_into(&mut self.w, &mut places);
        self.refused += places.len() - got;
        free_all(&places[..got], &mut self.w);
        // Not a failure: the call does not promise any frames.
        if self.pool.alloc_cached_into(&mut self.w, &mut places) {
            free_cached(&places, &mut self.w, &mut self.other);
        }
        if self.pool.alloc_cached_into(&mut self.w, &mut places) {
            free_cached_to(&self.pool, &places, &mut self.w);
        }
        // None is not a failure either.
        if let Some(frame) = self.pool.alloc_cached(&mut self.w) {
            let refused = frame.free_cached(&mut self.other).expect_err("another worker's");
            free_to(&self.pool, refused, &mut self.w);
        }
    }

    pub(super) fn batches(&mut self) {
        let (mut batch, mut second) = (Batch::new(), Batch::default());
        self.refused += 12 - self.pool.alloc_burst(&mut self.w, &mut batch, 12);
        self.refused += usize::from(!self.pool.alloc_bulk(&mut self.other, &mut batch, 6));
        let all = batch.len();
        assert_eq!(batch.put_each(64, |i, line| line.fill(i as u8)), all);
        for ahead in [4, usize::MAX] {
            batch.each_data_mut(ahead, |i, data| assert_eq!(data, [i as u8; 64]));
        }
        assert_eq!(second.append(&mut batch), all);
        let moved = second.drain().move_to(&mut batch, 5);
        assert_eq!((batch.len(), second.room() + all - moved), (moved, 64));
        batch.pop().into_iter().for_each(|frame| second.push(frame).unwrap());
        batch.free(&mut self.other);
        second.free(&mut self.w);
    }

    pub(super) fn sorted(&mut self) {
        let mut batch = Batch::new();
        self.refused += 12 - self.pool.alloc_burst(&mut self.w, &mut batch, 12);
        let (all, oldest) = (batch.len(), batch.first().map(Frame::id));
        let mut picked = batch.extract(|frame| Some(frame.id()) == oldest);
        assert_eq!((picked.len(), batch.len()), (usize::from(all > 0), all.saturating_sub(1)));
        let more = batch.len();
        assert_eq!((picked.extend(batch), picked.len()), (more, all));
        assert_eq!(picked.first().map(Frame::id), oldest);
        picked.pop_front().into_iter().for_each(|frame| frame.free(&mut self.w));
        picked.retain(&mut self.other, |frame| !frame.is_empty());
        assert!(picked.is_empty());
    }

    pub(super) fn shared(&mut self) {
        let frame = self.pool.alloc(&mut self.w);
        let Some(mut frame) = self.got(frame) else { return };
        assert_eq!(frame.put_first(40).unwrap().len(), 40);
        frame.set_offload(OFFLOAD).unwrap();
        frame.set_timestamp(Some(RECORDED)).unwrap();
        let whole = frame.share();
        let mut end = whole.clone();
        assert_eq!((end.offload(), end.timestamp()), (Some(OFFLOAD), Some(RECORDED)));
        end.pull(30).unwrap();
        end.trim(5).unwrap();
        assert_eq!((whole.holders(), end.is_unique(), end.is_empty(), whole.len()), (2, false, false, 40));
        assert_eq!(
            (end.id(), end.pinned(), end.data()),
            (whole.id(), self.pool.frame_size(), &whole.data()[30..35])
        );
        let whole = whole.into_frame().unwrap_err();
        assert!(whole.release().is_none());
        let second = end.into_frame().unwrap().share();
        second.clone().free(&mut self.other);
        second.free(&mut self.w);
    }

    pub(super) fn pieces(&mut self) {
        let mut held = Vec::new();
        for i in 0..9 {
            let piece = self.pieces.alloc(&mut self.w, 700);
            let Some(mut piece) = self.got(piece) else { continue };
            assert!(piece.is_empty() && piece.size() >= 700 && piece.pinned() == self.pool.frame_size());
            piece.put(600).unwrap();
            piece.pull(100).unwrap();
            piece.push(50).unwrap();
            piece.trim(500).unwrap();
            piece.data_mut().fill(i);
            assert_eq!(piece.headroom() + piece.len() + piece.tailroom(), piece.size());
            held.push((piece, i));
        }
        held.iter().for_each(|(piece, i)| assert_eq!(piece.data(), [*i; 500]));
        if let Some((piece, i)) = held.pop() {
            let id = piece.id();
            let shared = piece.share();
            assert_eq!((shared.data(), shared.id()), (&[i; 500][..], id));
            shared.free(&mut self.other);
        }
        let whole = held.pop().and_then(|(piece, _)| piece.release());
        whole.into_iter().for_each(|frame| frame.free(&mut self.w));
        held.pop().into_iter().for_each(|(piece, _)| piece.free(&mut self.other));
        self.pieces.flush(&mut self.w);
    }

    /// Allocates until no frame is left: then nobody keeps one that could be taken.
    pub(super) fn exhaustion(&mut self) {
        let pool = self.pool.clone();
        let mut ready = Batch::new();
        self.refused += 3 - pool.alloc_burst(&mut self.w, &mut ready, 3);
        self.keeper.0.lock().unwrap().extend(ready.drain());
        let failed = pool.failed();
        let mut held: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut self.other)).collect();
        held.extend(std::iter::from_fn(|| pool.alloc(&mut self.w)));
        let ledger = pool.ledger();
        let had = ledger.free + ledger.cached + ledger.returning + self.ready.now() as u64;
        assert_eq!((had, ledger.ready), (0, self.stack.now() as u64), "{ledger:?}");
        assert_eq!(pool.failed(), failed + 2);
        assert!(pool.bookkeeping_bytes() > pool.frames() * size_of::<u32>());
        let region = pool.memory().region();
        assert!(held.iter().all(|frame| frame.id().get() - region.first_chunk() < region.chunks()));
        self.refused += usize::from(held.len() + self.stack.now() < pool.frames());
        held.into_iter().enumerate().for_each(|(i, frame)| match i % 3 {
            0 => frame.free(&mut self.w),
            1 => frame.free(&mut self.other),
            _ => drop(frame),
        });
    }

    /// Changes the settings that may be changed while frames are out. `more` says whether they grow or shrink.
    pub(super) fn tune(&mut self, more: bool) {
        let Scene { pool, heads, ready, stack, copy_break, w, other, .. } = self;
        let held = pool.alloc(w);
        // Away and back: the owner is present, so that no worker can adopt the pool.
        assert!(pool.hand_over(w, other) && !pool.adopt(w) && pool.hand_over(other, w));
        pool.resize(if more { CAPACITY } else { FRAMES / 4 }).unwrap();
        assert_eq!((pool.frames() > FRAMES, pool.capacity()), (more, CAPACITY));
        assert!(pool.leaving_pages() <= CAPACITY);
        pool.set_cache(if more { 16 } else { 2 }, 2).unwrap();
        assert_eq!(pool.cache().1, 2);
        // No page belongs to this node, so each page is used once.
        pool.set_node(more.then_some(1));
        assert_eq!(pool.node(), more.then_some(1));
        pool.trace(more);
        assert_eq!((pool.is_traced(), pool.name()), (more, "pool"));
        let holders = pool.holders();
        assert_eq!(holders.iter().map(|holder| holder.frames).sum::<u64>(), pool.ledger().out());
        for (tunable, value) in [("ready_size", 6), ("ready_refill", 2), ("ready_free", 3), ("defer_max", 0)]
        {
            heads.set(tunable, value).unwrap();
            assert_eq!(heads.get(tunable), Ok(value));
        }
        ready.set_max(if more { 9 } else { 2 });
        stack.set_max(w, if more { 9 } else { 2 });
        assert_eq!(ready.max(), stack.max());
        copy_break.set_bound(copy_break.bound() / 2);
        held.into_iter().for_each(|frame| frame.free(w));
    }
}
