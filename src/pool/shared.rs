//! The state of a pool that all workers share, the free path, and the end of the pool.
//!
//! Handles hold a pool by `Arc`; frames do not. The list of pools (`frame_table.rs`) holds one count for all of them.
//! Closing shuts the owner's cache and the remote free queue. Frames that are still out count themselves down. The last
//! one gives the pages back and gives up the count of the list.

use super::batch::Batch;
use super::colour::Start;
use super::depot::Depot;
use super::dma::Dma;
use super::frame::{self, Frame};
use super::frame_table::{self, FrameTable, PoolNumbers};
use super::inflight::Inflight;
use super::local::{Gauges, Local};
use super::remote_free::{Latch, RemoteFree};
use super::shrinker::Shrinkers;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Memory, Page};
use crate::stats::{Count, Lanes};
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Close, Leave, Owned, Steps, Worker};
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};

/// One worker's counters of a pool, besides those of the owner's cache. All wrap; only sums over the workers are
/// meaningful.
#[derive(Debug, Default)]
pub(crate) struct PoolLane {
    /// Frames that this worker took out of the pool, and gave back.
    pub(crate) taken: Count,
    pub(crate) given: Count,
    /// Frames that came to each [`FrameState`](super::frame_state::FrameState) through this worker, less those that left, as counted by
    /// the code of the place.
    pub(crate) said: [Count; 3],
    /// The same, as counted by the code that handed the frames over and took them back.
    pub(crate) handed: [Count; 3],
    /// Bytes that this worker handed to the device.
    pub(crate) synced: Count,
    /// Frames that the cold path got for this worker.
    pub(crate) cold: Count,
    /// Cold allocations that found frames in the pool; that found none there; and that took new pages.
    pub(crate) refills: Count,
    pub(crate) empty: Count,
    pub(crate) slow: Count,
    /// Allocations that found no frame anywhere.
    pub(crate) failed: Count,
}

/// One pool.
///
/// Conservation: `free + cached + ready + owned + posted + queued + returning == total`; see [`Ledger`](super::Ledger).
///
/// The first lines hold the owner's cache. The next line holds the owner and other fields that are only read. The
/// fields that several workers write follow.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shared {
    pub(super) local: Owned<Local, Gauges>,
    /// The pool of each chunk, and this pool's number there.
    pub(super) pool_numbers: PoolNumbers,
    pub(super) number: u16,
    /// The same number, or 0 while the depot is watched or the pool is closed: every frame must pass the pool then before
    /// it is used again.
    /// Written under the depot's lock ([`Depot::renewable`]).
    pub(super) renewable: AtomicU16,
    pub(super) start: Start,
    pub(super) frame_table: Arc<FrameTable>,
    pub(super) lanes: Lanes<PoolLane>,
    pub(super) frame_size: usize,
    /// The maximum number of frames that the pool can be resized to.
    pub(super) capacity: usize,
    /// Whether the page stage's reserve may be used.
    pub(super) urgent: bool,
    /// Whether frames are cleared when they are given out ([`PoolConfig::init_on_alloc`](super::PoolConfig::init_on_alloc)).
    pub(super) clears: bool,
    pub(super) name: String,
    pub(super) remote_free: Box<RemoteFree>,
    pub(super) depot: Mutex<Depot>,
    pub(super) inflight: Inflight,
    /// Frames that left because they belong to another node than the one that is set.
    pub(super) waived: Count,
    /// Whether allocations record their call sites.
    pub(super) traced: AtomicBool,
    /// Whether pages left since the last [`Shared::settle`].
    pub(super) unsettled: AtomicBool,
    pub(super) latch: Latch,
    /// The shrinkers, which keep frames ready beside the pool.
    pub(super) shrinkers: Shrinkers,
    pub(super) handles: AtomicUsize,
    pub(super) dma: Dma,
    pub(super) memory: Memory,
}

impl Shared {
    /// Claims an empty frame whose id the caller just took off one of the pool's lists.
    #[inline(always)]
    pub(super) fn claim(&self, id: u32) -> Frame {
        // SAFETY: the lists hold the pool's own free frames. Each is on one list once and has no claim, and this one
        // was just taken off. Headroom and colours lie within the frame. No chunk has the number 0.
        unsafe { Frame::empty(id, self.start.of(id)) }
    }

    /// Appends `n` frames of the owner's cache to a batch. Returns false if the caller is not the owner, or the cache
    /// has fewer.
    #[inline(always)]
    pub(super) fn take_hot(&self, w: &mut Worker, n: usize, batch: &mut Batch) -> bool {
        let Some(places) = batch.places().get_mut(..n) else { return false };
        if !self.take_hot_into(w, places) {
            return false;
        }
        // SAFETY: as many slots were written.
        unsafe { batch.grown(n, self) };
        true
    }

    /// Writes a frame of the owner's cache into each of `places`. Returns false if the caller is not the owner, or the
    /// cache has fewer.
    #[inline(always)]
    pub(super) fn take_hot_into(&self, w: &mut Worker, places: &mut [MaybeUninit<Frame>]) -> bool {
        let Some(mut local) = self.local.enter(w) else { return false };
        self.write_out(&mut local, places)
    }

    /// Does the same as [`Shared::take_hot_into`] through the entry that makes no call.
    #[inline(always)]
    pub(super) fn take_all_at_once(&self, w: &mut Worker, places: &mut [MaybeUninit<Frame>]) -> bool {
        let Some(mut local) = self.local.enter_at_once(w) else { return false };
        self.write_out(&mut local, places)
    }

    /// Writes a frame of the cache into each of `places`. Returns false if the cache has fewer.
    #[inline(always)]
    fn write_out(&self, local: &mut Local, places: &mut [MaybeUninit<Frame>]) -> bool {
        let Some(ids) = local.take_exactly(places.len()) else { return false };
        // SAFETY: as in `claim`, for each id.
        unsafe { Frame::write_empty(places, ids, &self.start) };
        true
    }

    /// Does the same as [`Shared::claim`] for several frames, and appends them to a batch that has room for them.
    pub(super) fn give(&self, ids: &[u32], batch: &mut Batch) {
        self.give_into(ids, &mut batch.places()[..ids.len()]);
        // SAFETY: as many slots were written.
        unsafe { batch.grown(ids.len(), self) };
    }

    /// Does the same as [`Shared::claim`] for several frames, into as many slots.
    pub(super) fn give_into(&self, ids: &[u32], places: &mut [MaybeUninit<Frame>]) {
        // SAFETY: as in `claim`, for each id.
        unsafe { Frame::write_empty(places, ids, &self.start) };
    }

    /// Ends the claims of a run of frames of this pool: into the owner's cache, or onto the remote free queue.
    ///
    /// # Safety
    /// `pool` lives, and every frame belongs to it and has one claim, which ends with this call. `pool` may be gone
    /// when this returns.
    #[inline]
    pub(super) unsafe fn free_run(pool: *const Shared, mut w: Option<&mut Worker>, frames: &[Frame]) {
        // SAFETY: the frames are out until `free` has put the last of them down.
        let (late, unsettled) = unsafe { (*pool).free(w.as_deref_mut(), frames) };
        if let Some(pool) = unsettled {
            pool.settle(w);
        }
        if late > 0 {
            // SAFETY: `late` frames were refused and still keep the pool.
            unsafe { Shared::free_late(pool, &frames[frames.len() - late..]) }
        }
    }

    /// Whether all of these are frames, and belong to this pool.
    #[inline(always)]
    pub(super) fn has_all(&self, frames: &[Option<Frame>]) -> bool {
        let Shared { pool_numbers, number, .. } = *self;
        // All are checked: a branch for each would cost more.
        let others = frames.iter().fold(0, |others, frame| others | pool_numbers.of_place(frame) ^ number);
        others == 0
    }

    /// Whether the pool still has its number. A closed pool gives it up when its last frame is freed. Another pool may
    /// have it from then on.
    #[inline(always)]
    pub(super) fn is_listed(&self) -> bool {
        ptr::eq(frame_table::by_number(self.number), self)
    }

    /// Whether the numbers in the lower halves of all of these are chunks of this pool, if it is
    /// [listed](Shared::is_listed).
    #[inline(always)]
    pub(super) fn has_words(&self, words: &[u64]) -> bool {
        let Shared { pool_numbers, number, .. } = *self;
        let others =
            words.iter().fold(0, |others, &word| others | pool_numbers.of_number(word as u32) ^ number);
        others == 0
    }

    /// Ends the claims of frames of this pool, if the caller owns it and its cache has room for all.
    #[inline(always)]
    pub(super) fn keep_hot(&self, w: &mut Worker, frames: &[Frame]) -> bool {
        let Some(mut local) = self.local.enter(w) else { return false };
        local.give_all(frames, &self.start)
    }

    /// Does the same as [`Shared::keep_hot`] through the entry that makes no call.
    #[inline(always)]
    pub(super) fn keep_all_at_once(&self, w: &mut Worker, frames: &[Frame]) -> bool {
        // No closure here: no call is allowed, and the compiler makes a call of a closure that is used in several
        // places.
        let Some(mut local) = self.local.enter_at_once(w) else { return false };
        local.give_all(frames, &self.start)
    }

    /// Does the same as [`Shared::keep_hot`] for one frame.
    #[inline(always)]
    pub(super) fn keep_hot_one(&self, w: &mut Worker, id: NonZeroU32) -> bool {
        self.local.enter(w).is_some_and(|mut local| local.give(id.get()))
    }

    /// Does the same as [`Shared::keep_hot_one`] through the entry that makes no call.
    #[inline(always)]
    pub(super) fn keep_at_once(&self, w: &mut Worker, id: NonZeroU32) -> bool {
        self.local.enter_at_once(w).is_some_and(|mut local| local.give(id.get()))
    }

    /// Takes a frame of the owner's cache through the entry that makes no call.
    #[inline(always)]
    pub(super) fn take_at_once(&self, w: &mut Worker) -> Option<Frame> {
        let id = self.local.enter_at_once(w)?.take()?;
        Some(self.claim(id))
    }

    /// Ends the claim of one frame of this pool. A frame of another pool goes back to that pool.
    #[inline(always)]
    pub(super) fn free_one(&self, w: &mut Worker, frame: Frame) {
        let id = frame.into_desc().id;
        if self.pool_numbers.of(id) != self.number || !self.keep_hot_one(w, id) {
            // SAFETY: the only claim on the frame was just given up.
            unsafe { frame::free_missed(w, id) }
        }
    }

    /// Frees frames. Returns how many came too late because the pool is closed. Also returns the pool itself if pages
    /// have left it and are to be given back. `self` may be gone when this returns.
    #[inline]
    fn free(&self, w: Option<&mut Worker>, frames: &[Frame]) -> (usize, Option<Arc<Shared>>) {
        let Some(w) = w else {
            self.lanes.shared_lane().given.add_shared(frames.len() as u64);
            return (self.send_home(frames), None);
        };
        let Some(mut held) = self.local.enter(w) else {
            self.lanes.add(w, frames.len() as u64, |lane| &lane.given);
            return (self.send_home(frames), None);
        };
        let (gauges, local) = held.split();
        let kept = local.give_some(frames);
        let unsettled = kept < frames.len() && self.overflow(gauges, local, &frames[kept..]);
        // SAFETY: the owner is inside its slot, and the thread that stops the pool waits until the owner is outside.
        // The frames are put down already: without a count of its own nothing would keep the pool from then on.
        (0, unsettled.then(|| unsafe { frame_table::keep(self.number) }))
    }

    #[inline]
    fn send_home(&self, frames: &[Frame]) -> usize {
        self.remote_free.push(self.frame_table.links(), frames, |frame| frame.id().get())
    }

    /// Handles a full cache: its colder half goes to the depot, as often as needed. If the cache has no room at all,
    /// the frames go there. Returns true if pages left because of that.
    #[cold]
    #[inline(never)]
    fn overflow(&self, gauges: &Gauges, local: &mut Local, frames: &[Frame]) -> bool {
        let mut depot = lock(&self.depot);
        if depot.watched || local.capacity() == 0 {
            frames.iter().for_each(|frame| self.put(&mut depot, frame.id().get()));
            gauges.given.add(frames.len() as u64);
            gauges.spilled.add(frames.len() as u64);
            return self.is_unsettled();
        }
        let mut kept = 0;
        while kept < frames.len() {
            local.stay(gauges, |stack| {
                gauges.spilled.add(stack.len().div_ceil(2) as u64);
                stack.coldest(stack.len().div_ceil(2), |cold| self.put(&mut depot, cold));
            });
            kept += local.give_some(&frames[kept..]);
        }
        false
    }

    /// Counts late frames down. The last one ends the pool.
    ///
    /// # Safety
    /// The claims on `frames` end with this call. The closed pool refused the frames, and lives until then.
    #[cold]
    #[inline(never)]
    unsafe fn free_late(pool: *const Shared, frames: &[Frame]) {
        // SAFETY: the frames keep the pool until they are counted down.
        let last = unsafe {
            (*pool).note_late(frames.iter().map(Frame::id));
            (*pool).latch.down(frames.len() as u64)
        };
        if last {
            // SAFETY: the last frame is freed, and exactly one caller is told so.
            unsafe { Shared::retire(pool) }
        }
    }

    /// Stops the pool: nothing is given out any more, free frames are taken in, and frames that are out count
    /// themselves down from here on. The second call does nothing.
    #[cold]
    pub(super) fn stop(&self) {
        let mut depot = lock(&self.depot);
        if std::mem::replace(&mut depot.closed, true) {
            return;
        }
        self.renewable.store(depot.renewable(self.number), Relaxed);
        drop(depot);
        let mut steps = Steps::new();
        self.shrinkers.close(&mut steps);
        let mut back = Vec::new();
        let slot = self.local.slot();
        slot.shut(|local| local.stay(slot.gauges(), |stack| stack.drain(|id| back.push(id))));
        self.remote_free.close(self.frame_table.links(), |id| back.push(id));
        let mut depot = lock(&self.depot);
        depot.spare.append(&mut back);
        let out = self.total() - depot.free();
        drop(depot);
        if self.latch.arm(out) {
            // SAFETY: closed, with nothing out; exactly one caller is told so.
            steps.run(|| unsafe { Shared::retire(self) });
        }
        steps.end();
    }

    /// Gives the pages back, frees the pool's number and gives up the count of the list of pools.
    ///
    /// # Safety
    /// The pool is closed, no frame of it is out, and it is called once.
    #[cold]
    unsafe fn retire(pool: *const Shared) {
        let mut steps = Steps::new();
        // SAFETY: the count of the list of pools keeps the pool until `kept` goes out of scope.
        let kept = unsafe {
            let shared = &*pool;
            let (mut pages, leaving) = {
                let mut depot = lock(&shared.depot);
                depot.spare.clear();
                (std::mem::take(&mut depot.pages), std::mem::take(&mut depot.leaving))
            };
            pages.iter().for_each(|page| {
                shared.disown(page);
            });
            pages.extend(leaving);
            // Without the lock: the mapper is the caller's code, and the page stage calls those that wait for pages.
            pages.into_iter().for_each(|page| {
                steps.run(|| {
                    shared.dma.unmap(&shared.memory, &page);
                    drop(page);
                });
            });
            frame_table::leave(shared.number)
        };
        drop(kept);
        steps.end();
    }

    /// The number of frames of the pool.
    pub(super) fn total(&self) -> u64 {
        self.inflight.frames() as u64
    }

    /// The address of the frame's data for a device, from the mapping that was made when its page entered the pool.
    pub(super) fn device_address(&self, frame: &Frame) -> Option<u64> {
        let chunks = (PAGE_SIZE / CHUNK_SIZE) as u32;
        let (page, within) = (frame.id().get() / chunks, frame.id().get() % chunks);
        let desc = self.memory.desc(NonZeroU32::new(page)?)?;
        // A closed pool whose pages have left has no mapped page, and another pool may have its number.
        let mapped = self.dma.pages() > 0 && self.pool_numbers.of(frame.id()) == self.number;
        // Not the headroom: metadata lies before the data too.
        let offset = within as usize * CHUNK_SIZE + usize::from(frame.desc().plain().off);
        mapped.then(|| desc.word.load(Relaxed) + offset as u64)
    }

    /// The frames that lie in a page of the pool.
    pub(super) fn frames_of(&self, page: &Page) -> impl Iterator<Item = NonZeroU32> + use<> {
        let (first, step) = (page.first_chunk(), self.frame_size / CHUNK_SIZE);
        (0..self.per_page()).filter_map(move |i| NonZeroU32::new(first + (i * step) as u32))
    }
}

impl Close for Shared {
    fn handles(&self) -> &AtomicUsize {
        &self.handles
    }

    fn close(self: &Arc<Self>) {
        self.stop();
    }
}

impl Leave for Shared {
    /// Handles the departure of the owner: its cache goes into the depot, where other workers find the frames.
    fn leave(&self, worker: &mut Worker) {
        self.local.leave(worker, |local, gauges| {
            // Before the slot is left: the thread that stops the pool counts frames that are in neither place as out.
            let mut depot = lock(&self.depot);
            local.stay(gauges, |stack| stack.drain(|id| self.put(&mut depot, id)));
        });
        self.settle(Some(worker));
    }
}
