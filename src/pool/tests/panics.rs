//! The caller's own code runs when pages are freed, and may panic: no frame is lost.

use super::*;
use crate::page::{Lists, Watermarks};
use crate::pool::Shrinker;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A memory whose workers keep no pages.
pub(crate) fn memory_without_lists() -> Memory {
    let (lists, backing) = (Lists::Fixed { high: 0, batch: 0 }, BackingPreference::Small);
    Memory::new(&MemoryConfig { lists, backing, bytes: 4 << 20, workers: 1, ..MemoryConfig::default() })
        .unwrap()
}

/// Makes the next freed page end pressure, and its callback panic. The callback does not panic after that.
pub(crate) fn next_page_home_panics(memory: &Memory) {
    let mark = memory.stats().free as usize + 1;
    memory.set_watermarks(Watermarks { min: 0, low: mark, high: mark }).unwrap();
    memory.on_pressure(|_, pressure| assert!(pressure.begins, "pressure ends"));
}

/// A shrinker of a program that panics.
pub(crate) struct PanickingShrinker;

impl Shrinker for PanickingShrinker {
    fn relieve(&self, _: &mut Worker) -> usize {
        panic!("there is nothing to give")
    }

    fn ready(&self) -> u64 {
        0
    }

    fn each_ready(&self, _: &mut dyn FnMut(NonZeroU32)) {}

    fn close(&self) {}
}

pub(crate) fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// A frame of a closed pool, whose free gives the pool's pages back, before two frames of an open pool.
pub(super) fn three(memory: &Memory, w: &mut Worker, batch: &mut Batch) -> Pool {
    let (closed, open) = (pool(memory, w, 2), pool(memory, w, 4));
    closed.alloc_burst(w, batch, 1);
    open.alloc_burst(w, batch, 2);
    closed.close();
    assert_eq!((batch.len(), open.ledger().out()), (3, 2));
    next_page_home_panics(memory);
    open
}

#[test]
fn a_callback_that_panics_loses_no_frame_of_a_batch_of_two_pools() {
    for through_worker in [true, false] {
        let memory = memory_without_lists();
        let (mut w, mut batch) = (memory.worker().unwrap(), Batch::new());
        let open = three(&memory, &mut w, &mut batch);
        if through_worker {
            assert!(panics(|| batch.free(&mut w)));
            assert!(batch.is_empty());
        } else {
            // The newest goes first.
            batch.reverse();
            assert!(panics(|| drop(batch)));
        }
        assert!(check(&open, 0).all_freed(), "through a worker: {through_worker}");
    }
}

#[test]
fn a_batch_keeps_what_an_iterator_gave_before_it_panicked() {
    let memory = memory_without_lists();
    let (mut w, mut batch) = (memory.worker().unwrap(), Batch::new());
    let pool = pool(&memory, &mut w, 4);
    let mut frames: Vec<Option<Frame>> = (0..3).map(|_| pool.alloc(&mut w)).collect();
    frames.push(None);
    let frames = frames.into_iter().map(|frame| frame.expect("no frame"));
    assert!(panics(|| _ = batch.extend(frames)));
    assert_eq!((batch.len(), pool.ledger().out()), (3, 3));
    batch.free(&mut w);
    assert!(check(&pool, 0).all_freed());
}

/// Found in a review: the frames in the array had no owner after that.
#[test]
#[allow(unsafe_code)]
fn an_array_that_is_filled_when_the_callers_code_panics_loses_no_frame() {
    let memory = memory_without_lists();
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 100);
    let empty: Arc<dyn Shrinker> = Arc::new(PanickingShrinker);
    pool.add_shrinker(Arc::downgrade(&empty));
    let mut places: Vec<MaybeUninit<Frame>> = (0..1000).map(|_| MaybeUninit::uninit()).collect();
    assert!(panics(|| _ = pool.alloc_into(&mut w, &mut places)));
    assert!(check(&pool, 0).all_freed());
}

/// Found in a review: the frames behind the batch that panicked had no owner.
#[test]
#[allow(unsafe_code)]
fn an_array_that_goes_home_when_the_callers_code_panics_loses_no_frame() {
    let memory = memory_without_lists();
    let mut w = memory.worker().unwrap();
    let (closed, open) = (pool(&memory, &mut w, 2), pool(&memory, &mut w, 256));
    let mut frames = vec![closed.alloc(&mut w)];
    frames.extend((0..200).map(|_| open.alloc(&mut w)));
    closed.close();
    next_page_home_panics(&memory);
    // SAFETY: the claims are forgotten.
    assert!(panics(|| unsafe { Frame::free_all(&frames, &mut w) }));
    frames.into_iter().for_each(std::mem::forget);
    assert!(check(&open, 0).all_freed());
}
