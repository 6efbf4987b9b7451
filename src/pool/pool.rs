//! The pool's handle.

use super::batch::{Batch, Written};
use super::colour::Start;
use super::config::{PoolConfig, PoolError, check};
use super::depot::Depot;
use super::dma::Dma;
use super::dma_sync::To;
use super::frame::Frame;
use super::frame_table::{self, FrameTable};
use super::grow;
use super::inflight::Inflight;
use super::ledger::{Ledger, StillOut};
use super::local::Local;
use super::remote_free::{Latch, RemoteFree};
use super::shared::Shared;
use super::shrinker::{Shrinker, Shrinkers};
use super::watch;
use crate::limits::BATCH_MAX;
use crate::page::Memory;
use crate::stats::{Count, Lanes};
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Handle, Owned, Worker};
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A pool of frames with one owner, the worker that receives into them.
///
/// Clone the handle freely. The drop of the last handle closes the pool, as [`Pool::close`] does. Ready packets and
/// [`Fragments`](super::Fragments) hold a handle each.
#[derive(Clone)]
pub struct Pool {
    pub(super) shared: Handle<Shared>,
}

/// Prints its name and sizes only. [`Pool::ledger`] has the frames.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pool = f.debug_struct("Pool");
        pool.field("name", &self.name())
            .field("capacity", &self.capacity())
            .field("frame_size", &self.frame_size());
        pool.finish_non_exhaustive()
    }
}

impl Pool {
    /// Makes a pool of frames out of a memory's pages, for `owner`.
    ///
    /// # Errors
    /// [`PoolError`]; nothing is left behind then.
    #[cold]
    pub fn new(memory: &Memory, owner: &mut Worker, config: &PoolConfig) -> Result<Pool, PoolError> {
        check(config)?;
        if !memory.roster().claimed(owner) {
            return Err(PoolError::ForeignOwner);
        }
        let frame_table = FrameTable::of_memory(memory)?;
        let per_page = watch::per_page(config.frame_size);
        let [frames, capacity] =
            [config.frames, config.capacity.max(config.frames)].map(|n| n.next_multiple_of(per_page));
        let init_on_free = memory.hardening().clear;
        let cache = config.cache.min(capacity);
        let cache = (cache, config.refill.min(cache));
        let mut depot = Depot::new(capacity, capacity / per_page, frames / per_page, cache)?;
        depot.clears = config.init_on_alloc;
        depot.init_on_free = init_on_free;
        depot.watched = depot.must_watch();
        let (now, refill) = depot.cache_now();
        let shared = frame_table::register(|number| {
            Arc::new(Shared {
                local: Owned::new(owner, Local::new(now, refill)),
                pool_numbers: frame_table.pool_numbers(),
                start: Start::new(config.frame_size, config.headroom, config.data),
                number,
                renewable: AtomicU16::new(depot.renewable(number)),
                frame_table: Arc::clone(&frame_table),
                lanes: Lanes::new(memory.roster(), || ()),
                frame_size: config.frame_size,
                capacity,
                urgent: config.urgent,
                clears: config.init_on_alloc,
                name: config.name.clone(),
                remote_free: Box::new(RemoteFree::new(config.cache as u32)),
                depot: Mutex::new(depot),
                inflight: Inflight::new(),
                waived: Count::default(),
                traced: AtomicBool::new(false),
                unsettled: AtomicBool::new(false),
                latch: Latch::new(),
                shrinkers: Shrinkers::default(),
                handles: AtomicUsize::new(0),
                dma: Dma::new(config.dma.clone()),
                memory: memory.clone(),
            })
        });
        let shared = shared.ok_or(PoolError::TooMany)?;
        memory.roster().on_leave(&shared);
        Ok(Pool { shared: Handle::new(&shared) })
    }

    /// The memory that its frames lie in.
    pub fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    /// The name of the pool in reports.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The maximum number of frames now.
    pub fn frames(&self) -> usize {
        self.shared.limit()
    }

    /// The maximum number of frames that [`Pool::resize`] can set.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Bytes of each frame.
    pub fn frame_size(&self) -> usize {
        self.shared.frame_size
    }

    /// Bytes of data that every empty frame has room for: at least [`PoolConfig::data`]. Frames of other
    /// colours have room for more ([`Frame::tailroom`]).
    ///
    /// ```
    /// # use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    /// assert!(pool.room() >= PoolConfig::room(2048));
    /// # Ok(())
    /// # }
    /// ```
    pub fn room(&self) -> usize {
        // All bits of the number: the last colour.
        self.shared.frame_size - self.shared.start.of(u32::MAX) as usize
    }

    /// Allocates an empty frame. Returns None only if no free frame of the pool exists anywhere, or its owner was paused
    /// inside a call for longer than a thief waits.
    ///
    /// # Cost
    /// The owner, from its cache: no locked instruction, one line of the cache and one of counters.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker) -> Option<Frame> {
        let id = match self.shared.local.enter(w).and_then(|mut local| local.take()) {
            Some(id) => id,
            None => self.alloc_missed(w)?,
        };
        Some(self.shared.claim(id))
    }

    /// Allocates as [`Pool::alloc`] does, if that takes the shortest path. Returns None if the worker is not the owner,
    /// if its cache is empty, or if another thread is taking frames out of it.
    ///
    /// # Cost
    /// That of [`Pool::alloc`]. Its code contains no call, so the caller has no registers to save before it. When it
    /// returns None, the caller can make a full call itself.
    #[inline(always)]
    pub fn alloc_cached(&self, w: &mut Worker) -> Option<Frame> {
        self.shared.take_at_once(w)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn alloc_missed(&self, w: &mut Worker) -> Option<u32> {
        let mut one = [0];
        let got = grow::alloc(&self.shared, w, &mut one, Location::caller());
        (got == 1).then_some(one[0])
    }

    /// Appends up to `n` empty frames to `batch`, as many as there are and fit. Returns how many.
    ///
    /// # Cost
    /// As [`Pool::alloc`], with the counters once for all.
    #[inline(always)]
    #[track_caller]
    pub fn alloc_burst(&self, w: &mut Worker, batch: &mut Batch, n: usize) -> usize {
        if self.shared.take_hot(w, n, batch) { n } else { self.burst_missed(w, batch, n) }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn burst_missed(&self, w: &mut Worker, batch: &mut Batch, wanted: usize) -> usize {
        let (mut ids, n) = ([0; BATCH_MAX], wanted.min(batch.room()));
        // Only the batch was too small: the cache may have as many as fit.
        if n < wanted && self.shared.take_hot(w, n, batch) {
            return n;
        }
        let got = grow::alloc(&self.shared, w, &mut ids[..n], Location::caller());
        self.shared.give(&ids[..got], batch);
        got
    }

    /// Writes empty frames into `places` from the front on, as many as there are. Returns how many. The slots behind
    /// them are unchanged.
    ///
    /// This is for callers that keep frames in arrays of their own, for example in memory of another language.
    /// [`Frame::free_all`] takes the frames back. If code of the caller panics that is called for want of frames, no
    /// slot holds a frame.
    ///
    /// # Cost
    /// As [`Pool::alloc_burst`].
    #[inline(always)]
    #[track_caller]
    #[must_use = "this many slots hold frames, which leak if the number is lost"]
    pub fn alloc_into(&self, w: &mut Worker, places: &mut [MaybeUninit<Frame>]) -> usize {
        if self.alloc_cached_into(w, places) { places.len() } else { self.array_missed(w, places) }
    }

    /// Does the same as [`Pool::alloc_into`] if that takes the shortest path. Otherwise returns false, and writes no
    /// slot. That is the case if the worker is not the owner, if its cache has fewer frames than there are slots, or if
    /// another thread is taking frames out of it.
    ///
    /// # Cost
    /// That of [`Pool::alloc_into`], without a call in its code, as [`Pool::alloc_cached`].
    #[inline(always)]
    #[must_use = "false: no slot holds a frame"]
    pub fn alloc_cached_into(&self, w: &mut Worker, places: &mut [MaybeUninit<Frame>]) -> bool {
        self.shared.take_all_at_once(w, places)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn array_missed(&self, w: &mut Worker, places: &mut [MaybeUninit<Frame>]) -> usize {
        let mut written = Written::none(places);
        while written.missing() > 0 {
            if !written.take_hot(&self.shared, w) {
                let (mut ids, wanted) = ([0; BATCH_MAX], written.missing().min(BATCH_MAX));
                let came = grow::alloc(&self.shared, w, &mut ids[..wanted], Location::caller());
                written.give(&self.shared, &ids[..came]);
                if came < wanted {
                    break;
                }
            }
        }
        written.keep()
    }

    /// Appends `n` empty frames to `batch`, or none. Returns true if it did.
    ///
    /// Returns false if the batch has no room for `n` or the pool has fewer free frames.
    #[inline]
    #[track_caller]
    pub fn alloc_bulk(&self, w: &mut Worker, batch: &mut Batch, n: usize) -> bool {
        if n > batch.room() {
            return false;
        }
        let got = self.alloc_burst(w, batch, n);
        if got < n {
            let mut short = Batch::new();
            std::iter::from_fn(|| batch.pop()).take(got).for_each(|frame| drop(short.push(frame)));
            short.free(w);
        }
        got == n
    }

    /// Frees a frame. A frame of another pool goes back to that pool. [`Batch::free`] is the form for many.
    ///
    /// # Cost
    /// The owner: no locked instruction, an entry of the table of pools, a slot in the cache and one line of counters.
    #[inline]
    pub fn free(&self, w: &mut Worker, frame: Frame) {
        self.shared.free_one(w, frame);
    }

    /// Counts the pool's frames in each place; exact at a quiescent point.
    ///
    /// # Cost
    /// Microseconds, and more with many frames: it opens the owner's cache as a thief, with a membarrier(2), and looks
    /// at each frame in the cache and on the remote free queue. It also asks each shrinker, and takes the pool's lock.
    pub fn ledger(&self) -> Ledger {
        self.shared.ledger()
    }

    /// Frames that came into the pool with their pages and have not left with them, in every state. This is page_pool's
    /// `inflight`, the signed difference of two counters that wrap at 2^32.
    pub fn inflight(&self) -> i32 {
        self.shared.inflight.frames()
    }

    /// Allocations that found no free frame anywhere.
    pub fn failed(&self) -> u64 {
        self.shared.lanes.sum(|lane| &lane.failed)
    }

    /// Registers a shrinker, which keeps frames of the pool ready. The pool asks it for them before an allocation
    /// fails, and the ledger asks it for their number. It is forgotten when it is gone. If the pool is closed already,
    /// `shrinker` is closed before this call returns.
    #[cold]
    pub fn add_shrinker(&self, shrinker: Weak<dyn Shrinker>) {
        self.shared.shrinkers.add(Weak::clone(&shrinker));
        // Checked after the shrinker was added: a pool that closes from here on finds it. A shrinker may be closed
        // twice.
        let closed = self.is_closed();
        if let Some(shrinker) = shrinker.upgrade().filter(|_| closed) {
            shrinker.close();
        }
    }

    /// Whether the frame belongs to this pool.
    ///
    /// # Cost
    /// The frame's entry in the table of pools, and the pool's entry in the list of pools. Neither load waits for the
    /// other.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        // Not by the number alone: that of a closed pool may be another pool's.
        self.shared.pool_numbers.of(frame.id()) == self.shared.number && self.shared.is_listed()
    }

    /// Whether all of these words ([`Frame::into_raw`]) name frames of this pool, free or with any holder. Other
    /// numbers do not. False once the pool is closed and its last frame is freed.
    ///
    /// # Cost
    /// Each frame's entry in the table of pools, and once the pool's entry in the list of pools.
    #[inline(always)]
    pub fn owns_words(&self, words: &[u64]) -> bool {
        self.shared.is_listed() && self.shared.has_words(words)
    }

    /// The address of the frame's data for the pool's device (its offset in the UMEM). None for a frame of another
    /// pool, or if there is no device mapping.
    pub fn device_address(&self, frame: &Frame) -> Option<u64> {
        self.shared.device_address(frame)
    }

    /// Hands a frame's data, and no other bytes of it, to the device
    /// ([`DmaMapper::sync_for_device`](super::DmaMapper::sync_for_device)). Call it before a frame that the processor
    /// has written is posted. Does nothing for a frame of another pool, which is not this device's. For a burst, see
    /// [`Batch::sync_for_device`](super::Batch::sync_for_device).
    pub fn sync_for_device(&self, w: &Worker, frame: &Frame) {
        self.shared.sync(w, std::slice::from_ref(frame), To::Device);
    }

    /// Takes a frame's data, and no other bytes of it, over from the device
    /// ([`DmaMapper::sync_for_cpu`](super::DmaMapper::sync_for_cpu)). Call it before the processor reads what the
    /// device has written.
    pub fn sync_for_cpu(&self, w: &Worker, frame: &Frame) {
        self.shared.sync(w, std::slice::from_ref(frame), To::Cpu);
    }

    /// Bytes that were synced between processor and device so far, if there is a mapper.
    pub fn synced_bytes(&self) -> u64 {
        self.shared.lanes.sum(|lane| &lane.synced)
    }

    /// The number of pages that the pool's device can access now; 0 if there is no device mapping.
    pub fn mapped_pages(&self) -> u64 {
        self.shared.dma.pages()
    }

    /// Bytes of bookkeeping about frames: the data for each chunk of the whole memory, once for all its pools, and the
    /// lists of this pool's frames and pages. The owner's cache and the ring of the remote free queue are extra: some
    /// KiB that do not grow with the pool.
    #[cold]
    pub fn bookkeeping_bytes(&self) -> usize {
        self.shared.frame_table.bytes() + lock(&self.shared.depot).bytes()
    }

    /// Closes the pool: no allocation succeeds any more. Frames that are out stay valid and can be freed anywhere. The
    /// last of them gives the pool's pages back.
    #[cold]
    pub fn close(&self) {
        self.shared.stop();
    }

    /// Returns whether the pool is closed, by this handle or by a clone. It stays closed.
    ///
    /// ```
    /// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
    /// # let memory = netmem::page::Memory::new(&config)?;
    /// # let mut w = memory.worker()?;
    /// let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
    /// let clone = pool.clone();
    /// assert!(!pool.is_closed());
    /// clone.close();
    /// assert!(pool.is_closed() && pool.alloc(&mut w).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// The pool's lock: not for every packet.
    #[cold]
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.depot).closed
    }

    /// Closes the pool, for all its clones, and waits until all its frames are freed, at most that long.
    ///
    /// # Errors
    /// [`StillOut`] with the ledger if frames are still out then. They stay valid.
    #[cold]
    pub fn close_and_wait(&self, at_most: Duration) -> Result<(), StillOut> {
        self.close();
        let begun = Instant::now();
        while self.shared.latch.out() > 0 {
            if begun.elapsed() >= at_most {
                return Err(StillOut(self.ledger(), self.holders()));
            }
            std::thread::sleep(Duration::from_millis(1).min(at_most));
        }
        Ok(())
    }
}
