//! Freelists: the links inside free objects, chains that are pushed by one CAS, and lists detached by one.
//!
//! The two changes of list membership on the free side (full → partial, → empty) happen under the slabs' lock,
//! taken before the CAS that makes them.

use super::local::{REF_SHIFT, Ref};
use super::shared::{Shared, Slabs};
use super::word::Word;
use crate::limits::PAGE_SIZE;
use crate::page::Desc;
use crate::sync::shim::lock;
use std::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed};

/// Free objects of one slab, linked from `head` to `last`.
struct Chain {
    slab: u32,
    head: u16,
    last: Ref,
    n: u16,
}

impl Shared {
    /// The index of the slab that an object lies in: its first page's.
    #[inline(always)]
    fn slab(&self, object: Ref) -> u32 {
        (object >> (PAGE_SIZE.trailing_zeros() - REF_SHIFT)) & !((1 << self.order) - 1)
    }

    pub(super) fn desc(&self, slab: u32) -> &Desc {
        &self.memory.table()[slab as usize]
    }

    /// The place of an object in its slab, counted from 1.
    fn place(&self, slab: u32, object: Ref) -> u16 {
        let first = slab << (PAGE_SIZE.trailing_zeros() - REF_SHIFT);
        (((object - first) << REF_SHIFT) as usize / self.size) as u16 + 1
    }

    /// The object at a place of a slab.
    pub(super) fn at(&self, slab: u32, place: u16) -> Ref {
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

    /// Detaches a slab's whole freelist by one CAS.
    pub(super) fn detach(&self, slab: u32, mut take: impl FnMut(Ref)) {
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
}
