//! Slabs: the layer that all workers share, and the way home that needs no worker.
//!
//! | state of a slab | freelist | on the partial list |
//! |---|---|---|
//! | full | empty | no: the first free puts it there |
//! | partial | some | yes, unless a worker has just taken it off to detach its freelist |
//! | empty | all | yes while fewer than `min_partial` are; else its pages are given back |
//!
//! The two changes of list membership on the free side (full → partial, → empty) happen under the list's lock,
//! taken before the CAS that makes them.

use super::barn::Barn;
use super::cache::SlabLane;
use super::local::{Local, REF_SHIFT, Ref, Sheaf};
use super::object::Object;
use super::word::Word;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Desc, List, Memory, Page};
use crate::stats::Lanes;
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Leave, PerWorker, Worker};
use crate::sys::region;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
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
    partial: List,
    /// Slabs in all.
    pub(super) count: usize,
    /// The last handle is gone: empty slabs are given back, and the last ends the cache.
    closed: bool,
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

    /// The index of the slab that an object lies in: its first page's.
    #[inline(always)]
    fn slab(&self, object: Ref) -> u32 {
        (object >> (PAGE_SIZE.trailing_zeros() - REF_SHIFT)) & !((1 << self.order) - 1)
    }

    fn desc(&self, slab: u32) -> &Desc {
        &self.memory.table()[slab as usize]
    }

    /// The place of an object in its slab, counted from 1.
    fn place(&self, slab: u32, object: Ref) -> u16 {
        let first = slab << (PAGE_SIZE.trailing_zeros() - REF_SHIFT);
        (((object - first) << REF_SHIFT) as usize / self.size) as u16 + 1
    }

    /// The object at a place of a slab.
    fn at(&self, slab: u32, place: u16) -> Ref {
        let first = slab << (PAGE_SIZE.trailing_zeros() - REF_SHIFT);
        first + ((usize::from(place - 1) * self.size) >> REF_SHIFT) as u32
    }

    /// What a link is mixed with: the cache's secret and the object's own place, so that a link copied from
    /// elsewhere or overwritten by data does not lead to a chosen object.
    fn mix(&self, object: Ref) -> u32 {
        self.secret ^ object.swap_bytes()
    }

    /// Writes the link of a free object.
    ///
    /// # Safety
    /// The object is of this cache, free, and on no list that another thread can read yet.
    unsafe fn set_link(&self, object: Ref, next: u16) {
        // SAFETY: objects are at least 8 bytes, 8-aligned, and this one is the caller's alone.
        unsafe { self.address(object).cast::<u32>().write(u32::from(next) ^ self.mix(object)) }
    }

    /// Reads the link of a free object: 0, or a place within the slab; anything else was written by someone
    /// who had freed the object, and the process ends.
    ///
    /// # Safety
    /// The object is of this cache and on a freelist that the caller has detached.
    unsafe fn link(&self, object: Ref) -> u16 {
        // SAFETY: as in `set_link`; the detaching CAS made the writer's link visible.
        let link = unsafe { self.address(object).cast::<u32>().read() } ^ self.mix(object);
        if link > u32::from(self.per_slab) {
            self.spoilt(object);
        }
        link as u16
    }

    #[cold]
    #[inline(never)]
    fn spoilt(&self, object: Ref) -> ! {
        let at = self.address(object);
        eprintln!("netmem: cache {}: free object at {at:?} was written to after it was freed", self.name);
        std::process::abort()
    }

    /// Puts free objects back into their slabs: those of one slab linked into a chain first, and one CAS for
    /// each chain (source 000, detached freelists; look-ahead 3). `objects` ends in any order.
    ///
    /// # Safety
    /// Each object is of this cache and on no list, and nobody claims it. If the cache is closed it may be gone
    /// when this returns.
    pub(super) unsafe fn put(this: *const Shared, objects: &mut [Ref]) {
        let mut end = objects.len();
        while let Some(&last) = objects[..end].last() {
            // SAFETY: the objects still to be put back keep the cache.
            let shared = unsafe { &*this };
            let slab = shared.slab(last);
            let (mut head, mut n, mut ahead) = (last, 1, 3);
            end -= 1;
            for i in (0..end).rev() {
                if shared.slab(objects[i]) == slab {
                    // SAFETY: the caller's promise for every object.
                    unsafe { shared.set_link(objects[i], shared.place(slab, head)) };
                    head = objects[i];
                    n += 1;
                    end -= 1;
                    objects.swap(i, end);
                } else {
                    ahead -= 1;
                    if ahead == 0 {
                        break;
                    }
                }
            }
            let chain = Chain { slab, head: shared.place(slab, head), last, n };
            // SAFETY: as above; the chain's objects are counted as free by this call alone.
            unsafe { Shared::push(this, &chain) };
        }
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

    /// Pushes a chain onto its slab's freelist by one CAS, and moves the slab between lists if need be.
    ///
    /// # Safety
    /// As [`Shared::put`].
    unsafe fn push(this: *const Shared, chain: &Chain) {
        let mut ended = false;
        {
            // SAFETY: the chain's objects keep the cache until they are on the freelist; after that only the
            // lock does, which the last one to end the cache has to take.
            let shared = unsafe { &*this };
            let desc = shared.desc(chain.slab);
            let mut slabs = None;
            let mut old = desc.word.load(Relaxed);
            loop {
                let word = Word::unpack(old);
                // SAFETY: the chain is not visible to others yet.
                unsafe { shared.set_link(chain.last, word.head) };
                let new = word.pushed(chain.head, chain.n);
                let was_full = word.head == 0;
                if (was_full || new.inuse == 0) && slabs.is_none() {
                    slabs = Some(lock(&shared.slabs));
                    old = desc.word.load(Relaxed);
                    continue;
                }
                // AcqRel: Release for the links and all the holders did with the objects; Acquire of the links
                // below, so that the one who detaches sees the whole list. Pairs with `detach`.
                match desc.word.compare_exchange_weak(old, new.pack(), AcqRel, Relaxed) {
                    Ok(_) => {
                        if let Some(mut slabs) = slabs {
                            shared.settle(&mut slabs, chain.slab, was_full, new.inuse == 0);
                            ended = slabs.closed && slabs.count == 0;
                        }
                        break;
                    }
                    Err(now) => old = now,
                }
            }
        }
        if ended {
            // SAFETY: closed, and this thread saw the last slab go, under the lock.
            unsafe { Shared::retire(this) }
        }
    }

    /// Moves a slab between lists after a push, under the lock.
    fn settle(&self, slabs: &mut Slabs, slab: u32, was_full: bool, now_empty: bool) {
        let desc = self.desc(slab);
        if was_full {
            slabs.partial.push_back(self.memory.table(), slab);
            desc.listed.store(true, Relaxed);
        }
        // Not listed: a worker has taken it off and is about to detach its freelist.
        if now_empty && desc.listed.load(Relaxed) && (slabs.closed || slabs.partial.len() > self.min_partial)
        {
            slabs.partial.remove(self.memory.table(), slab);
            self.give_back(slabs, slab);
        }
    }

    /// Gives an empty slab's pages back.
    fn give_back(&self, slabs: &mut Slabs, slab: u32) {
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

    /// Detaches a slab's whole freelist by one CAS.
    fn detach(&self, slab: u32, mut take: impl FnMut(Ref)) {
        let desc = self.desc(slab);
        let mut old = desc.word.load(Relaxed);
        // AcqRel: the Acquire pairs with the Release in `push`; Release keeps the chain for those who push next.
        while let Err(now) = desc.word.compare_exchange_weak(
            old,
            Word::unpack(old).detached(self.per_slab).pack(),
            AcqRel,
            Relaxed,
        ) {
            old = now;
        }
        let mut place = Word::unpack(old).head;
        while place != 0 {
            let object = self.at(slab, place);
            // SAFETY: the freelist was detached by the CAS above.
            place = unsafe { self.link(object) };
            take(object);
        }
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
    unsafe fn retire(this: *const Shared) {
        // SAFETY: the table's own count still holds the cache; it becomes this function's.
        let shared = unsafe { Arc::from_raw(this) };
        KNOWN[usize::from(shared.number)].store(ptr::null_mut(), Relaxed);
    }
}

/// Free objects of one slab, linked from `head` to `last`.
struct Chain {
    slab: u32,
    head: u16,
    last: Ref,
    n: u16,
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
