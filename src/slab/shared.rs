//! Slabs: the layer that all workers share, and the way home that needs no worker.
//!
//! | state of a slab | freelist | on the partial list |
//! |---|---|---|
//! | full | empty | no: the first free puts it there |
//! | partial | some | yes, unless a worker has just taken it off to detach its freelist |
//! | empty | all | yes while fewer than `min_partial` are; else its pages are given back |

use super::barn::Barn;
use super::cache::SlabLane;
use super::local::{Local, REF_SHIFT, Ref, Sheaf};
use super::object::Object;
use super::word::Word;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{List, Memory, Page};
use crate::stats::Lanes;
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Leave, PerWorker, Worker};
use crate::sys::region;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, PoisonError};

/// Caches in one process at most; number 0 is nobody's.
const CACHES: usize = 4096;

/// The caches by number. Each entry holds a strong count until the cache is closed and its last slab is back.
static KNOWN: [AtomicPtr<Shared>; CACHES] = [const { AtomicPtr::new(ptr::null_mut()) }; CACHES];
/// Who gives out numbers.
static NUMBERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The node's slabs.
#[derive(Debug)]
pub(super) struct Slabs {
    pub(super) partial: List,
    /// Slabs in all.
    pub(super) count: usize,
    /// The last handle is gone: empty slabs are given back, and the last ends the cache.
    pub(super) closed: bool,
}

impl Slabs {
    pub(super) fn new() -> Self {
        Slabs { partial: List::new(), count: 0, closed: false }
    }
}

/// One cache.
///
/// Conservation: `objects out + in sheaves + on freelists == slabs * per_slab`.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    /// The cache's number in the process, which stands in its slabs' descriptors.
    pub(super) number: u16,
    /// Bytes from one object to the next.
    pub(super) size: usize,
    pub(super) order: u8,
    pub(super) per_slab: u16,
    /// Objects in a sheaf.
    pub(super) sheaf: usize,
    pub(super) min_partial: usize,
    /// What freelist links are mixed with.
    pub(super) secret: u32,
    pub(super) locals: PerWorker<Local>,
    pub(super) lanes: Lanes<SlabLane>,
    pub(super) barn: Mutex<Barn>,
    pub(super) slabs: Mutex<Slabs>,
    pub(super) memory: Memory,
}

impl Shared {
    /// Gives a new cache its number and keeps a strong count of it; None when all are taken.
    #[cold]
    pub(super) fn register(make: impl FnOnce(u16) -> Arc<Shared>) -> Option<Arc<Shared>> {
        let _one_at_a_time = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (1..CACHES).find(|&n| KNOWN[n].load(Relaxed).is_null())?;
        let shared = make(number as u16);
        // Release: pairs with the Acquire in `cache_of`.
        KNOWN[number].store(Arc::into_raw(Arc::clone(&shared)).cast_mut(), Release);
        Some(shared)
    }

    /// A free object by its address.
    #[inline(always)]
    pub(super) fn address(&self, object: Ref) -> NonNull<u8> {
        let address = self.memory.region().base().wrapping_add((object as usize) << REF_SHIFT);
        // SAFETY: the region's base is not null, and adding an offset inside the region does not make it so.
        unsafe { NonNull::new_unchecked(address) }
    }

    /// The number of an object inside this cache's region.
    #[inline(always)]
    pub(super) fn object(&self, address: NonNull<u8>) -> Ref {
        ((address.addr().get() - self.memory.region().base().addr()) >> REF_SHIFT) as Ref
    }

    /// Whether the object is of this cache.
    #[inline(always)]
    pub(super) fn owns(&self, address: NonNull<u8>) -> bool {
        let offset = address.addr().get().wrapping_sub(self.memory.region().base().addr());
        self.memory
            .table()
            .get(offset / PAGE_SIZE)
            .is_some_and(|desc| desc.owner.load(Relaxed) == self.number)
    }

    /// As [`Shared::put`] for objects that the caller just took off the cache's own lists.
    pub(super) fn put_back(&self, objects: &mut [Ref]) {
        // SAFETY: what comes off a list of the cache is claimed by nobody and on no other; a handle or a count of
        // the cache outlives `&self`, so the cache does not end here.
        unsafe { Shared::put(self, objects) }
    }

    /// Claims an object, just taken off one of the cache's lists, and moves `value` into it.
    #[inline(always)]
    pub(super) fn claim<T>(&self, object: Ref, value: T) -> Object<T> {
        // SAFETY: as in `put_back`; the one who made the cache chose size and alignment for its `T`.
        unsafe { Object::claim(self.address(object), value) }
    }

    /// Gives an empty slab's pages back.
    pub(super) fn give_back(&self, slabs: &mut Slabs, slab: u32) {
        let desc = self.desc(slab);
        desc.listed.store(false, Relaxed);
        self.set_owner(slab, 0);
        slabs.count -= 1;
        self.lanes.shared().free_slab.add_shared(1);
        if let Some(number) = self.memory.number(slab) {
            // SAFETY: the slab's pages were claimed in `adopt` and are empty and on no list.
            drop(unsafe { Page::claim(number) });
        }
    }

    /// Takes the free objects of a partial slab, all at once, into `sheaf`; what has no room is put back.
    /// Returns whether there was a slab.
    pub(super) fn refill(&self, sheaf: &mut Sheaf) -> bool {
        let slab = {
            let mut slabs = lock(&self.slabs);
            let Some(slab) = slabs.partial.first() else { return false };
            slabs.partial.remove(self.memory.table(), slab);
            self.desc(slab).listed.store(false, Relaxed);
            slab
        };
        let mut surplus = Vec::new();
        self.detach(slab, |object| {
            if !sheaf.push(object) {
                surplus.push(object);
            }
        });
        self.put_back(&mut surplus);
        true
    }

    /// Makes a block of pages a slab, all its objects out, and gives them to `take`.
    pub(super) fn adopt(&self, page: Page, mut take: impl FnMut(Ref)) {
        let Some(slab) = self.memory.index(page.into_number()) else { return };
        let desc = self.desc(slab);
        self.set_owner(slab, self.number);
        desc.word.store(Word::all_out(self.per_slab).pack(), Relaxed);
        lock(&self.slabs).count += 1;
        (1..=self.per_slab).for_each(|place| take(self.at(slab, place)));
    }

    /// Writes into every page of a slab whose it is, so that any object leads to its cache.
    fn set_owner(&self, slab: u32, owner: u16) {
        let pages = &self.memory.table()[slab as usize..][..1 << self.order];
        pages.iter().for_each(|page| page.owner.store(owner, Relaxed));
    }

    /// Ends the claim on an object without a worker: one CAS, a lock where its slab changes lists.
    ///
    /// # Safety
    /// The object is out and its claim ends with this call.
    #[cold]
    pub(super) unsafe fn free_from_anywhere(address: NonNull<u8>) {
        // SAFETY: the object is out and keeps its cache until `put` below.
        let this = unsafe { cache_of(address) };
        // SAFETY: as above.
        let shared = unsafe { &*this };
        shared.lanes.shared().free_slowpath.add_shared(1);
        let mut object = [shared.object(address)];
        // SAFETY: the claim was the caller's and ends here.
        unsafe { Shared::put(this, &mut object) }
    }

    /// The last handle is gone: all that sheaves hold goes back into the slabs, and empty slabs back to the pages.
    #[cold]
    pub(super) fn close(&self) {
        let mut objects = Vec::new();
        for slot in self.locals.slots() {
            slot.shut(|local| local.drain(|object| objects.push(object)));
        }
        self.lanes.each().for_each(|lane| lane.cached.set(0));
        for mut sheaf in lock(&self.barn).drain() {
            sheaf.drain(|object| objects.push(object));
        }
        self.put_back(&mut objects);
        let ended = {
            let mut slabs = lock(&self.slabs);
            slabs.closed = true;
            let mut next = slabs.partial.first();
            while let Some(slab) = next {
                next = slabs.partial.after(self.memory.table(), slab);
                if Word::unpack(self.desc(slab).word.load(Acquire)).inuse == 0 {
                    slabs.partial.remove(self.memory.table(), slab);
                    self.give_back(&mut slabs, slab);
                }
            }
            slabs.count == 0
        };
        if ended {
            // SAFETY: closed just now, with no slab left, seen under the lock.
            unsafe { Shared::retire(self) }
        }
    }

    /// Frees the cache's number and gives up its strong count.
    ///
    /// # Safety
    /// The cache is closed, has no slab, and this is called once.
    pub(super) unsafe fn retire(this: *const Shared) {
        // SAFETY: the table's own count still holds the cache; it becomes this function's.
        let shared = unsafe { Arc::from_raw(this) };
        KNOWN[usize::from(shared.number)].store(ptr::null_mut(), Relaxed);
    }
}

/// The cache that an object is of.
///
/// # Safety
/// The object is out: it keeps its cache as long as its claim lasts.
unsafe fn cache_of(address: NonNull<u8>) -> *const Shared {
    let chunk = region::chunk_at(address.as_ptr()).unwrap_or_default();
    let page = NonZeroU32::new(chunk / (PAGE_SIZE / CHUNK_SIZE) as u32);
    // SAFETY: the object is out, so its slab's pages are, and keep their memory.
    let number = page.map_or(0, |page| unsafe { Page::owner_of(page) });
    // Acquire: pairs with the Release in `register`.
    KNOWN[usize::from(number)].load(Acquire)
}

impl Leave for Shared {
    fn leave(&self, worker: &mut Worker) {
        let mut objects = Vec::new();
        let lane = self.lanes.of(worker);
        if let Some(mut local) = self.locals.enter(worker) {
            local.drain(|object| objects.push(object));
            if let Some(lane) = lane {
                lane.cached.set(0);
            }
        }
        self.put_back(&mut objects);
    }
}
