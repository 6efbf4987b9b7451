//! The slabs of one cache: freelists inside free objects, chains that are pushed at once, and the node's list of slabs
//! with free objects.
//!
//! | state of a slab | freelist | on the node's partial list |
//! |---|---|---|
//! | full | empty | no: the first free puts it there |
//! | partial | some | yes, unless a worker has just taken it off to detach its freelist |
//! | empty | all | yes while fewer than `min_partial` others are; otherwise its pages are given back |
//! | frozen | any | no: one worker has it alone, and frees by others leave it there |
//!
//! The two changes of list membership on the free side (full → partial, → empty) happen under the node's lock. It is
//! taken before the change of the word that causes them. This code knows nothing of workers or memory: it works on a
//! [`Ground`], so that loom runs this code.

#[cfg(all(test, loom))]
mod interleavings;

use super::debug::{Layout, Misuse};
use super::reference::{ADDRESS, Ref};
use super::word::{Word, WordForm};
use crate::limits::{ORDER_MAX, PAGE_SIZE};
use crate::page::{List, Table};
use crate::stats::Count;
use crate::sync::shim::{AtomicU32, Mutex, MutexGuard, lock};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;

/// The number of objects of other slabs that may lie between two objects of one slab in an array. The two are still one
/// chain ([brouer15-bulk]).
const LOOK_AHEAD: u32 = 3;
/// In `orders`: there may be slabs of other orders than the current one.
const MIXED: u32 = 1 << 8;

/// The memory of the objects: its descriptors and its first byte.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) table: &'a Table,
    pub(super) base: NonNull<u8>,
}

/// The state of the node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) partial: List,
    /// The number of slabs, until their pages are given back.
    pub(super) count: usize,
    /// The number of objects in these slabs.
    pub(super) objects: u64,
    /// The last handle is gone: empty slabs are given back, and the last one ends the cache.
    pub(super) closed: bool,
}

/// Free objects of one slab, linked from `head` to `last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) slab: u32,
    pub(super) head: u16,
    pub(super) last: Ref,
    pub(super) n: u16,
}

/// The result of pushing a chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// The chain is on the slab's freelist.
    Done,
    /// The same, and the slab belongs to a worker.
    IntoFrozen,
    /// The same, and the slab, which was full, is now frozen and belongs to the caller.
    Frozen,
    /// The slab is now empty, and on no list: the caller gives its pages back.
    Empty,
}

/// The counters that `Slabs` updates itself, under SLUB's names.
#[derive(Debug, Default)]
pub(super) struct SlabsCounts {
    pub(super) free_add_partial: Count,
    pub(super) free_remove_partial: Count,
    pub(super) cmpxchg_double_fail: Count,
    pub(super) deactivate_full: Count,
    pub(super) deactivate_empty: Count,
    pub(super) deactivate_to_tail: Count,
}

/// The secret that the freelist words of a cache are mixed with; not printed.
struct Secret(u64);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The slabs of one cache.
#[derive(Debug)]
pub(super) struct Slabs {
    name: String,
    pub(super) layout: Layout,
    pub(super) form: WordForm,
    secret: Secret,
    /// The number of objects in a slab of each order.
    capacity: [u16; ORDER_MAX as usize + 1],
    /// 2^40 / stride, rounded up. It divides any offset within a slab exactly.
    reciprocal: u64,
    /// The order of new slabs, with [`MIXED`].
    orders: AtomicU32,
    pub(super) min_partial: AtomicU32,
    pub(super) node: Mutex<Node>,
    pub(super) counts: SlabsCounts,
}

impl Slabs {
    pub(super) fn new(
        name: &str,
        layout: Layout,
        form: WordForm,
        order: u8,
        min_partial: u32,
        secret: u64,
    ) -> Self {
        Slabs {
            name: name.into(),
            layout,
            form,
            secret: Secret(secret),
            capacity: std::array::from_fn(|order| capacity(layout, order as u8)),
            reciprocal: (1u64 << 40).div_ceil(layout.stride as u64),
            orders: AtomicU32::new(u32::from(order)),
            min_partial: AtomicU32::new(min_partial),
            node: Mutex::new(Node { partial: List::new(), count: 0, objects: 0, closed: false }),
            counts: SlabsCounts::default(),
        }
    }

    /// The order of new slabs.
    pub(super) fn order(&self) -> u8 {
        self.orders.load(Relaxed) as u8
    }

    /// Sets the order of new slabs. Existing slabs stay.
    pub(super) fn set_order(&self, order: u8) {
        self.orders.store(u32::from(order) | MIXED, Relaxed);
    }

    /// Records that slabs of another order than the current one may come.
    pub(super) fn allow_other_orders(&self) {
        self.orders.fetch_or(MIXED, Relaxed);
    }

    /// The smallest order that holds an object.
    pub(super) fn smallest_order(&self) -> Option<u8> {
        self.capacity.iter().position(|&objects| objects > 0).map(|order| order as u8)
    }

    /// The number of objects in a new slab.
    pub(super) fn per_slab(&self) -> u16 {
        self.capacity[usize::from(self.order())]
    }

    /// The number of objects in an existing slab.
    pub(super) fn capacity(&self, ground: Ground<'_>, slab: u32) -> u16 {
        let orders = self.orders.load(Relaxed);
        let order = if orders & MIXED == 0 { orders as u8 } else { ground.table.desc(slab).order() };
        self.capacity[usize::from(order.min(ORDER_MAX))]
    }

    /// The index of the slab that contains an object: the index of its first page.
    #[inline(always)]
    pub(super) fn slab(&self, ground: Ground<'_>, object: Ref) -> u32 {
        let page = ((object & ADDRESS) as usize - ground.base.addr().get()) / PAGE_SIZE;
        // Relaxed: an object of a slab of another order came over an edge that happened after the change.
        let orders = self.orders.load(Relaxed);
        if orders & MIXED != 0 { first_page(ground, page as u32) } else { page as u32 & !((1 << orders) - 1) }
    }

    fn begin(&self, ground: Ground<'_>, slab: u32) -> usize {
        ground.base.addr().get() + slab as usize * PAGE_SIZE + self.layout.offset
    }

    /// The place of an object in its slab, counted from 1.
    pub(super) fn place(&self, ground: Ground<'_>, slab: u32, object: Ref) -> u16 {
        let offset = (object & ADDRESS) - self.begin(ground, slab) as u64;
        ((offset * self.reciprocal) >> 40) as u16 + 1
    }

    /// The address of the object at a place of a slab, with the tag of `like`.
    pub(super) fn at(&self, ground: Ground<'_>, slab: u32, place: u16, tag: u64) -> Ref {
        tag | (self.begin(ground, slab) + usize::from(place - 1) * self.layout.stride) as u64
    }

    /// The address of an object's freelist word, and the mask that it is mixed with. The mask is made of the cache's
    /// secret and the object's own place. So a word that is copied from elsewhere or overwritten by data does not lead
    /// to a chosen object.
    fn link_at(&self, ground: Ground<'_>, object: Ref) -> (*mut u64, u64) {
        let address = (object & ADDRESS) as usize + self.layout.link;
        (ground.base.as_ptr().with_addr(address).cast(), self.secret.0 ^ (object & ADDRESS).swap_bytes())
    }

    /// Writes the freelist word of a free object.
    ///
    /// # Safety
    /// The object belongs to this cache, is free, and on no list that another thread can read yet.
    pub(super) unsafe fn set_link(&self, ground: Ground<'_>, object: Ref, next: u16) {
        let (at, mix) = self.link_at(ground, object);
        // SAFETY: the layout keeps 8 aligned bytes for it in every object, and this one belongs to the caller alone.
        unsafe { at.write(u64::from(next) ^ mix) }
    }

    /// Reads the freelist word of a free object: 0, or a place within the slab. Any other value was written after the
    /// object was freed, and the process ends.
    ///
    /// # Safety
    /// The object belongs to this cache and is on a freelist that the caller has detached.
    pub(super) unsafe fn link(&self, ground: Ground<'_>, slab: u32, object: Ref) -> u16 {
        // SAFETY: as promised.
        unsafe { self.peek_link(ground, slab, object) }
            .unwrap_or_else(|| self.report_corruption(ground, object))
    }

    /// Ends the process: a free object was written to, or freed twice.
    #[cold]
    #[inline(never)]
    pub(super) fn report_corruption(&self, ground: Ground<'_>, object: Ref) -> ! {
        let at = NonNull::new(ground.base.as_ptr().with_addr((object & ADDRESS) as usize));
        Misuse::freelist(&self.name, at.unwrap_or(ground.base)).abort()
    }

    /// Does the same as [`Slabs::link`], but returns None if the word is corrupted.
    ///
    /// # Safety
    /// As [`Slabs::link`].
    pub(super) unsafe fn peek_link(&self, ground: Ground<'_>, slab: u32, object: Ref) -> Option<u16> {
        let (at, mix) = self.link_at(ground, object);
        // SAFETY: as in `set_link`; the change that detached the list made the writer's words visible.
        let next = unsafe { at.read() } ^ mix;
        u16::try_from(next).ok().filter(|&next| next <= self.capacity(ground, slab))
    }

    /// Takes a chain out of `objects`. The last object begins it, and other objects of its slab follow, as long as no
    /// more than [`LOOK_AHEAD`] foreign ones lie between. The objects of the chain are linked and moved behind the
    /// rest. Returns the chain and how many objects are left.
    ///
    /// # Safety
    /// Each object belongs to this cache, is on no list, and has no claim. `objects` is not empty.
    pub(super) unsafe fn chain(&self, ground: Ground<'_>, objects: &mut [Ref]) -> Option<(Chain, usize)> {
        let mut end = objects.len().checked_sub(1)?;
        let last = objects[end];
        let slab = self.slab(ground, last);
        let (mut head, mut n, mut ahead) = (last, 1, LOOK_AHEAD);
        for i in (0..end).rev() {
            let object = objects[i];
            if self.slab(ground, object) == slab {
                // SAFETY: the caller's promise for every object.
                unsafe { self.set_link(ground, object, self.place(ground, slab, head)) };
                (head, n, end) = (object, n + 1, end - 1);
                objects.swap(i, end);
            } else {
                ahead -= 1;
                if ahead == 0 {
                    break;
                }
            }
        }
        Some((Chain { slab, head: self.place(ground, slab, head), last, n }, end))
    }

    /// Pushes a chain onto its slab's freelist by one change of its word, and moves the slab between lists if
    /// necessary. With `freeze`, a slab that was full becomes the caller's.
    ///
    /// # Safety
    /// The chain's objects are on no list and have no claim. The cache may be gone when this returns, except if the
    /// caller keeps it by a handle, and except for [`Pushed::Empty`].
    pub(super) unsafe fn push(&self, ground: Ground<'_>, chain: &Chain, freeze: bool) -> Pushed {
        let mut node: Option<MutexGuard<'_, Node>> = None;
        loop {
            let changed = self.update(ground, chain.slab, |word| {
                // SAFETY: the chain is not visible to others yet.
                unsafe { self.set_link(ground, chain.last, word.head) };
                let new = word.pushed(chain.head, chain.n);
                let was_full = word.head == 0;
                if word.frozen {
                    Some(new)
                } else if was_full && freeze {
                    Some(new.freeze(true))
                } else {
                    (node.is_some() || !was_full && new.inuse > 0).then_some(new)
                }
            });
            let Some((old, new)) = changed else {
                node = Some(lock(&self.node));
                continue;
            };
            // After a change without the lock nothing of `self` is touched: it may be gone.
            return match node {
                Some(mut node) if !new.frozen => self.settle(ground, &mut node, chain.slab, old, new),
                _ if old.frozen => Pushed::IntoFrozen,
                _ if new.frozen => Pushed::Frozen,
                _ => Pushed::Done,
            };
        }
    }

    /// Moves a slab between lists after a push, under the lock.
    fn settle(&self, ground: Ground<'_>, node: &mut Node, slab: u32, old: Word, new: Word) -> Pushed {
        if old.head == 0 {
            node.partial.push_back(ground.table, slab);
            self.counts.free_add_partial.add_shared(1);
        }
        // Not listed: a worker has taken it off and is about to detach its freelist.
        let listed = ground.table.desc(slab).is_listed();
        if new.inuse > 0 || !listed || !node.has_enough(self.min_partial.load(Relaxed) + 1) {
            return Pushed::Done;
        }
        node.partial.remove(ground.table, slab);
        disown(ground, slab);
        self.counts.free_remove_partial.add_shared(1);
        Pushed::Empty
    }

    /// Takes a slab with free objects off the node's list; the caller detaches its freelist at once.
    pub(super) fn take_partial(&self, ground: Ground<'_>) -> Option<u32> {
        let mut node = lock(&self.node);
        let slab = node.partial.first()?;
        node.partial.remove(ground.table, slab);
        Some(slab)
    }

    /// Detaches a slab's whole freelist by one change. Returns its head and length. `frozen` says whether the slab is
    /// frozen afterwards.
    pub(super) fn detach(&self, ground: Ground<'_>, slab: u32, frozen: bool) -> (u16, u16) {
        let capacity = self.capacity(ground, slab);
        let detach = |word: Word| Some(word.detached(capacity).freeze(frozen));
        let changed = self.update(ground, slab, detach);
        changed.map_or((0, 0), |(old, _)| (old.head, capacity - old.inuse))
    }

    /// Does the same as [`Slabs::detach`], and gives the objects, tagged, to `take`.
    pub(super) fn detach_each(&self, ground: Ground<'_>, slab: u32, tag: u64, mut take: impl FnMut(Ref)) {
        let (head, n) = self.detach(ground, slab, false);
        // SAFETY: the freelist was detached just now.
        unsafe { self.walk(ground, (slab, head, n), tag, &mut take) }
    }

    /// Gives the `n` objects of a freelist, tagged, to `take`. A list that is shorter or longer was corrupted by a
    /// write after free or a double free, and the process ends.
    ///
    /// # Safety
    /// The freelist belongs to the caller alone.
    pub(super) unsafe fn walk(
        &self,
        ground: Ground<'_>,
        (slab, head, n): (u32, u16, u16),
        tag: u64,
        mut take: impl FnMut(Ref),
    ) {
        let mut place = head;
        for left in (0..n).rev() {
            let object = self.at(ground, slab, place, tag);
            // SAFETY: the caller's promise; a place of 0 was refused in the round before.
            place = unsafe { self.link(ground, slab, object) };
            if (place == 0) != (left == 0) {
                self.report_corruption(ground, object);
            }
            take(object);
        }
    }

    /// Gives a slab with free objects, just taken off the node's list, to the caller. Returns how many are free.
    pub(super) fn freeze(&self, ground: Ground<'_>, slab: u32) -> u16 {
        let changed = self.update(ground, slab, |word| Some(word.freeze(true)));
        changed.map_or(0, |(_, new)| self.capacity(ground, slab) - new.inuse)
    }

    /// Gives a frozen slab back to the node, with a chain of its objects that the caller has, if any. Returns true if
    /// the slab is empty and no more empty slabs are wanted: the caller then gives its pages back.
    ///
    /// # Safety
    /// As [`Slabs::push`]; the caller froze the slab.
    pub(super) unsafe fn unfreeze(&self, ground: Ground<'_>, slab: u32, chain: Option<&Chain>) -> bool {
        let mut node = lock(&self.node);
        let changed = self.update(ground, slab, |word| {
            let pushed = chain.map_or(word, |chain| {
                // SAFETY: as in `push`.
                unsafe { self.set_link(ground, chain.last, word.head) };
                word.pushed(chain.head, chain.n)
            });
            Some(pushed.freeze(false))
        });
        let Some((_, word)) = changed else { return false };
        if word.head == 0 {
            self.counts.deactivate_full.add_shared(1);
        } else if word.inuse == 0 && node.has_enough(self.min_partial.load(Relaxed)) {
            self.counts.deactivate_empty.add_shared(1);
            disown(ground, slab);
            return true;
        } else {
            self.counts.deactivate_to_tail.add_shared(1);
            node.partial.push_back(ground.table, slab);
        }
        false
    }

    /// Takes empty slabs off the list, for the caller to give their pages back. Sorts the rest, fullest first, so that
    /// slabs with few objects become empty (SLUB's `shrink`).
    pub(super) fn shrink(&self, ground: Ground<'_>) -> Vec<u32> {
        let mut node = lock(&self.node);
        let mut slabs: Vec<(u16, u32)> = Vec::with_capacity(node.partial.len());
        while let Some(slab) = node.partial.first() {
            node.partial.remove(ground.table, slab);
            slabs.push((self.form.load(ground.table, slab).inuse, slab));
        }
        slabs.sort_by_key(|&(inuse, _)| std::cmp::Reverse(inuse));
        let mut empty = Vec::new();
        for (_, slab) in slabs {
            // Other threads free at the same time: a slab is empty for good only if it is empty now, with this lock
            // held.
            if self.form.load(ground.table, slab).inuse == 0 {
                disown(ground, slab);
                empty.push(slab);
            } else {
                node.partial.push_back(ground.table, slab);
            }
        }
        empty
    }

    /// The word of a slab at one moment, with the links of its freelist. No other thread may make the slab meanwhile.
    pub(super) fn snapshot(&self, ground: Ground<'_>, slab: u32) -> Word {
        self.form.snapshot(ground.table, slab, &self.counts.cmpxchg_double_fail)
    }

    fn update(
        &self,
        ground: Ground<'_>,
        slab: u32,
        change: impl FnMut(Word) -> Option<Word>,
    ) -> Option<(Word, Word)> {
        self.form.update(ground.table, slab, &self.counts.cmpxchg_double_fail, change)
    }
}

impl Node {
    /// Whether an empty slab is one too many.
    fn has_enough(&self, partial: u32) -> bool {
        self.closed || self.partial.len() >= partial as usize
    }
}

/// Removes the owner of every page of a slab. It does so under the node's lock. So if a thread holds that lock and
/// finds that a slab belongs to the cache, the answer stays true.
fn disown(ground: Ground<'_>, slab: u32) {
    set_owner(ground.table, slab, 0);
}

/// Writes the owner of a slab into every page of it, so that any object leads to its cache.
pub(super) fn set_owner(table: &Table, slab: u32, owner: u16) {
    let pages = table.range(slab, 1 << table.desc(slab).order());
    pages.for_each(|page| page.owner.store(owner, Relaxed));
}

/// The number of objects in a slab of an order; 0 if none fits or they are too many to count.
pub(super) fn capacity(layout: Layout, order: u8) -> u16 {
    let objects = layout.objects(PAGE_SIZE << order);
    if objects > 0x7fff { 0 } else { objects as u16 }
}

/// The first page of the block that a page lies in, found by its descriptors: pages inside a block are never `out`.
fn first_page(ground: Ground<'_>, page: u32) -> u32 {
    let candidates = (0..=ORDER_MAX).map(|order| page & !((1 << order) - 1));
    candidates.into_iter().find(|&first| ground.table.desc(first).is_out()).unwrap_or(page)
}

/// The pointer of a tagged word.
#[inline(always)]
pub(super) fn pointer(object: Ref) -> *mut u8 {
    ptr::with_exposed_provenance_mut((object & ADDRESS) as usize)
}
