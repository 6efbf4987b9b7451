//! One cache: the state that all workers share, and frees that need no worker.

use super::barn::Barn;
use super::check::Checker;
use super::config::{self, CacheConfig, CacheError, Layer};
use super::constructor::{self, Constructor};
use super::debug::{self, Layout, Locator, Misuse, Site};
use super::hardened::HardenedObjects;
use super::local::Local;
use super::reference::{ADDRESS, Ref, TAG_SHIFT};
use super::registry;
use super::slabs::{Ground, Node, Pushed, Slabs, pointer, set_owner};
use super::stats::SlabLane;
use super::word::Word;
use crate::limits::{LOCAL_ORDER_MAX, ORDER_MAX, PAGE_SIZE};
use crate::page::{Memory, Page, Random};
use crate::sync::shim::{AtomicU32, Mutex, lock};
use crate::sync::{Close, Handle, Leave, PerWorker, Steps, Worker};
use crate::sys::clock;
use crate::sys::region::PageKind;
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum number of names of a cache. A program may share a cache under a new name as often as it likes.
const NAMES_MAX: usize = 64;

/// The properties that two caches must have in common to share one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) name: &'a str,
    pub(super) size: usize,
    pub(super) align: usize,
    pub(super) config: &'a CacheConfig,
    pub(super) mergeable: bool,
}

/// One cache.
///
/// Conservation: `objects out + in sheaves + on freelists == the sum of the slabs' capacities`.
///
/// The fields that the hot path reads come first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shared {
    pub(super) locals: PerWorker<Local, SlabLane>,
    /// The cache's number in the process. It is in its slabs' descriptors and in its objects' upper bits.
    pub(super) number: u16,
    /// The requested size of an object in bytes, and its alignment.
    pub(super) size: usize,
    pub(super) align: usize,
    mergeable: bool,
    /// Number of calls during which no new cache may share this one. Written under the registry's lock.
    pub(super) closed_to_sharers: AtomicUsize,
    pub(super) layer: Layer,
    /// Objects in a sheaf; 0 if the worker's arrays are not used.
    pub(super) sheaf: AtomicU32,
    pub(super) cpu_partial: AtomicU32,
    /// Each worker that exchanges a sheaf writes it, so no line of it has a field that all workers read.
    pub(super) barn: CachePadded<Mutex<Barn>>,
    pub(super) slabs: Slabs,
    pub(super) checker: Option<Checker>,
    pub(super) constructor: Option<Constructor>,
    /// The names that its sharers gave it, at most [`NAMES_MAX`]. They stay until the cache is closed.
    pub(super) names: Mutex<Vec<String>>,
    handles: AtomicUsize,
    pub(super) memory: Memory,
}

impl Shared {
    /// Makes a cache, or finds one that can be shared.
    #[cold]
    pub(super) fn create(
        memory: &Memory,
        size: usize,
        align: usize,
        config: &CacheConfig,
        constructor: Option<Constructor>,
    ) -> Result<Handle<Shared>, CacheError> {
        // In memory that others may write, freelists would be pointers that anyone can forge.
        if memory.region().backing().kind == PageKind::Lent || memory.region().file().is_some() {
            return Err(CacheError::Lent);
        }
        if !align.is_power_of_two() || align > PAGE_SIZE << LOCAL_ORDER_MAX {
            return Err(CacheError::Align { align });
        }
        // Checked before any computation with the size: no slab is as large.
        if size > PAGE_SIZE << ORDER_MAX {
            return Err(CacheError::Size { size, order: config.order.unwrap_or(ORDER_MAX) });
        }
        let checker = checker(memory, (size, align), config, constructor.is_some());
        let plain = Layout::plain(size, align, constructor.is_some());
        let guard = if memory.hardening().guard { PAGE_SIZE } else { 0 };
        let layout = checker.as_ref().map_or(plain, Checker::layout).before_guard(guard);
        let order = config::order(layout, (size, align), config.order)?;
        let given = [config.order.map(usize::from), config.min_partial, config.cpu_partial, config.sheaf];
        for (tunable, value) in config::TUNABLES.iter().zip(given) {
            value.map_or(Ok(0), |value| tunable.check(value))?;
        }
        let own = constructor.is_some() || checker.is_some() || config.sheaf.is_some();
        let form = Form { name: &config.name, size, align, config, mergeable: config.merge && !own };
        let arrays = config.layer == Layer::Sheaf && checker.is_none();
        let sheaf = if arrays { config.sheaf.unwrap_or_else(|| config::sheaf_capacity(size)) } else { 0 };
        let handle = registry::find_or_register(memory, &form, |number| {
            let ticks = || clock::ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number);
            let secret = memory.random().map_or_else(ticks, Random::draw);
            let min_partial = config.min_partial.unwrap_or_else(|| config::min_partial(size)) as u32;
            let cpu_partial = config.cpu_partial.unwrap_or_else(|| config::cpu_partial(size)) as u32;
            let allowance = Arc::clone(memory.allowance());
            let shared = Arc::new(Shared {
                locals: PerWorker::new(memory.roster(), || Local::new(sheaf)),
                number,
                size,
                align,
                mergeable: form.mergeable,
                closed_to_sharers: AtomicUsize::new(0),
                layer: config.layer,
                sheaf: AtomicU32::new(sheaf as u32),
                cpu_partial: AtomicU32::new(cpu_partial),
                barn: CachePadded::new(Mutex::new(Barn::new(sheaf, layout.stride, allowance))),
                slabs: Slabs::new(&config.name, layout, config.word, order, min_partial, secret),
                checker,
                constructor,
                names: Mutex::new(vec![config.name.clone()]),
                handles: AtomicUsize::new(0),
                memory: memory.clone(),
            });
            memory.roster().on_leave(&shared);
            shared
        });
        handle.ok_or(CacheError::TooMany)
    }

    /// Whether a cache of this form may share this one: SLUB's rules.
    pub(super) fn takes_in(&self, memory: &Memory, form: &Form<'_>) -> bool {
        let spare = self.slabs.layout.stride.wrapping_sub(form.size);
        self.mergeable
            && self.closed_to_sharers.load(Relaxed) == 0
            && std::ptr::eq(self.memory.table(), memory.table())
            && spare < size_of::<u64>()
            && self.align.is_multiple_of(form.align)
            && self.layer == form.config.layer
            && self.slabs.form == form.config.word
            && form.config.order.is_none_or(|order| order == self.slabs.order())
            && form.config.min_partial.is_none_or(|n| n == self.slabs.min_partial.load(Relaxed) as usize)
            && form.config.cpu_partial.is_none_or(|n| n == self.cpu_partial.load(Relaxed) as usize)
    }

    /// The name of the cache in reports: its first name.
    pub(super) fn name(&self) -> String {
        lock(&self.names).first().cloned().unwrap_or_default()
    }

    /// Adds the name of one more sharer, unless there are [`NAMES_MAX`].
    pub(super) fn add_name(&self, name: &str) {
        let mut names = lock(&self.names);
        if names.len() < NAMES_MAX && !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }

    pub(super) fn ground(&self) -> Ground<'_> {
        let base = NonNull::new(self.memory.region().base()).unwrap_or(NonNull::dangling());
        Ground { table: self.memory.table(), base }
    }

    /// The upper bits of the cache's objects.
    #[inline(always)]
    pub(super) fn tag(&self) -> u64 {
        u64::from(self.number) << TAG_SHIFT
    }

    /// Whether a tagged object belongs to this cache.
    #[inline(always)]
    pub(super) fn owns(&self, object: Ref) -> bool {
        (object >> TAG_SHIFT) as u16 == self.number
    }

    /// Puts free objects back into their slabs, those of one slab by one change of its word. For callers that have a
    /// handle.
    #[cold]
    pub(super) fn put_back(&self, objects: &mut [Ref], steps: &mut Steps) {
        // SAFETY: an object that comes off a list of the cache has no claim and is on no other list; the caller's
        // handle keeps the cache.
        unsafe { Shared::put(self, objects, steps) }
    }

    /// Puts free objects back into their slabs. `steps` collects the panics when a slab is given back.
    ///
    /// # Safety
    /// Each object belongs to this cache, is on no list, and has no claim. Without a handle the cache may be gone when
    /// this returns.
    pub(super) unsafe fn put(this: *const Shared, mut objects: &mut [Ref], steps: &mut Steps) {
        while !objects.is_empty() {
            // SAFETY: the objects that are still to be put back keep the cache.
            let shared = unsafe { &*this };
            let ground = shared.ground();
            // SAFETY: the caller's promise for every object.
            let Some((chain, left)) = (unsafe { shared.slabs.chain(ground, objects) }) else { return };
            // SAFETY: the chain's objects are counted as free by this call alone.
            if unsafe { shared.slabs.push(ground, &chain, false) } == Pushed::Empty {
                // SAFETY: a slab whose pages are not given back yet keeps the cache.
                unsafe { Shared::give_back(this, chain.slab, steps) }
            }
            objects = &mut objects[..left];
        }
    }

    /// Makes a slab of a block of pages. All its objects are out, and are given to `take`.
    pub(super) fn adopt(&self, page: Page, frozen: bool, take: impl FnMut(Ref)) -> Option<u32> {
        let (slab, ground) = (self.memory.index(page.number())?, self.ground());
        let capacity = self.slabs.capacity(ground, slab);
        let objects = (1..=capacity).map(|place| self.slabs.at(ground, slab, place, self.tag()));
        // The constructor is the user's code, and may panic: the page is still a value then, and is freed.
        let pointers = objects.clone().map(|object| self.pointer(object));
        let mut page = Prepared(Some(page));
        constructor::prepare(self.constructor.as_ref(), self.checker.as_ref(), pointers);
        let page = page.0.take()?;
        if self.slabs.layout.guard > 0 {
            page.guard_last(true);
        }
        page.into_number();
        self.slabs.form.store(ground.table, slab, Word::all_out(capacity, frozen));
        self.with_node(|node| {
            set_owner(ground.table, slab, self.number);
            node.count += 1;
            node.objects += u64::from(capacity);
        });
        objects.for_each(take);
        Some(slab)
    }

    /// Gives an empty slab's pages back. With the last slab of a closed cache, the cache ends. The values' own Drop and
    /// the page stage's callback run in there. `steps` collects their panics, and the slab is given back in any case.
    ///
    /// # Safety
    /// The slab is empty, on no list, and given back once.
    #[cold]
    pub(super) unsafe fn give_back(this: *const Shared, slab: u32, steps: &mut Steps) {
        // SAFETY: the slab is counted until below, and so keeps the cache.
        let shared = unsafe { &*this };
        let ground = shared.ground();
        let capacity = shared.slabs.capacity(ground, slab);
        for place in 1..=capacity {
            if let Some(constructor) = &shared.constructor
                && let Some(at) = NonNull::new(pointer(shared.slabs.at(ground, slab, place, 0)))
            {
                // SAFETY: made when the slab was, and free.
                steps.run(|| unsafe { (constructor.end)(at) });
            }
        }
        shared.locals.shared_lane().free_slab.add_shared(1);
        if let Some(number) = shared.memory.number(slab) {
            // SAFETY: the slab's pages were claimed in `adopt` and are empty and on no list.
            let page = unsafe { Page::claim(number) };
            steps.run(|| give_page_back(page, shared.slabs.layout.guard > 0));
        }
        let ended = {
            let mut node = lock(&shared.slabs.node);
            node.count -= 1;
            node.objects -= u64::from(capacity);
            node.closed && node.count == 0
        };
        if ended {
            let number = shared.number;
            // SAFETY: closed, and this thread saw the last slab go, under the lock.
            steps.run(|| unsafe { registry::retire(number) });
        }
    }

    pub(super) fn give_back_all(&self, slabs: impl IntoIterator<Item = u32>, steps: &mut Steps) {
        // SAFETY: callers took each off the lists just now, empty; their handle keeps the cache.
        slabs.into_iter().for_each(|slab| unsafe { Shared::give_back(self, slab, steps) });
    }

    /// Ends the claim on an object without a worker: one change of a word, and a lock if its slab changes lists.
    ///
    /// # Safety
    /// The tagged object is out, and its claim ends with this call.
    #[cold]
    pub(super) unsafe fn free_from_anywhere(object: Ref, site: Option<Site>) {
        let this = registry::cache_at((object >> TAG_SHIFT) as u16);
        // SAFETY: the object is out and keeps its cache until `put` below.
        let shared = unsafe { &*this };
        if let (Some(checker), Some(site)) = (&shared.checker, site)
            && let Some(at) = NonNull::new(pointer(object))
        {
            // SAFETY: the object is out and its claim ends here.
            unsafe { checker.on_free(at, site) }
        }
        shared.locals.shared_lane().free_slowpath.add_shared(1);
        let mut steps = Steps::new();
        // SAFETY: the claim was the caller's and ends here.
        unsafe { Shared::put(this, &mut [object], &mut steps) }
        steps.end();
    }

    /// Takes all objects that workers and the barn keep back into the slabs. `each` visits the workers.
    #[cold]
    fn flush(&self, steps: &mut Steps, each: impl FnOnce(&mut dyn FnMut(&mut Local, &SlabLane))) {
        let (mut objects, mut empty) = (Vec::new(), Vec::new());
        {
            let mut barn = lock(&self.barn);
            let capacity = self.sheaf.load(Relaxed) as usize;
            self.locals.shared_lane().sheaf_free.add_shared(barn.sheaves() as u64);
            barn.drain(capacity).for_each(|mut sheaf| sheaf.drain(|object| objects.push(object)));
        }
        each(&mut |local, lane| self.take_all(local, lane, &mut objects, &mut empty));
        self.put_back(&mut objects, steps);
        self.give_back_all(empty, steps);
    }

    /// Takes all objects that one worker keeps. Its sheaves get the current size.
    fn take_all(&self, local: &mut Local, lane: &SlabLane, objects: &mut Vec<Ref>, empty: &mut Vec<u32>) {
        local.stay(lane, |local| {
            lane.sheaf_flush.add((local.main.len() + local.spare.len()) as u64);
            local.empty_sheaves(self.sheaf.load(Relaxed) as usize, objects);
            local.cpu.flush(&self.slabs, self.ground(), lane, empty);
        });
    }

    /// Does the same as [`Shared::flush`] for all workers' sheaves and slabs, as a thief. Returns false if a worker
    /// stayed inside for too long, so that its objects could not be taken.
    pub(super) fn flush_all(&self, steps: &mut Steps) -> bool {
        let mut all = true;
        self.flush(steps, |empty| {
            for slot in self.locals.slots() {
                all &= slot.steal(|local| empty(local, slot.gauges())).is_some();
            }
        });
        all
    }

    /// Puts objects back that were allocated and are not used after all, or whose values are gone.
    #[cold]
    pub(super) fn undo(&self, objects: &mut [Ref]) {
        if let Some(checker) = &self.checker {
            // SAFETY: they went out just now, and have no claim.
            objects
                .iter()
                .for_each(|&object| unsafe { checker.on_free(self.pointer(object), Site::DROPPED) });
        }
        self.locals.shared_lane().free_slowpath.add_shared(objects.len() as u64);
        let mut steps = Steps::new();
        self.put_back(objects, &mut steps);
        steps.end();
    }

    pub(super) fn with_node<R>(&self, f: impl FnOnce(&mut Node) -> R) -> R {
        f(&mut lock(&self.slabs.node))
    }

    /// The misuses that debug found and repaired.
    pub(super) fn found(&self) -> Vec<Misuse> {
        self.checker.as_ref().map_or_else(Vec::new, |checker| checker.found())
    }

    /// The facts of the cache that are needed to check a pointer.
    pub(super) fn locator(&self) -> Locator<'_> {
        let name_of = registry::cache_name;
        Locator { memory: &self.memory, number: self.number, name_of, layout: self.slabs.layout }
    }

    /// The pointer of a tagged object.
    #[inline(always)]
    pub(super) fn pointer(&self, object: Ref) -> NonNull<u8> {
        // SAFETY: lists hold addresses of objects, which are not null.
        unsafe { NonNull::new_unchecked(self.memory.region().base().with_addr((object & ADDRESS) as usize)) }
    }
}

/// The checker of each object: debug if that was chosen, otherwise the memory's hardening, or nothing.
fn checker(
    memory: &Memory,
    (size, align): (usize, usize),
    config: &CacheConfig,
    constructed: bool,
) -> Option<Checker> {
    let debug = debug::Checker::new(&config.name, config.debug(), size, align, constructed);
    let hardening = (memory.hardening(), memory.random());
    let hardened = || HardenedObjects::new(&config.name, hardening, (size, align), constructed);
    debug.map(Checker::Debug).or_else(|| hardened().map(Checker::Hardened))
}

/// A block of pages in which values are made. If that panics, it is freed, and its bytes are values again.
struct Prepared(Option<Page>);

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(page) = &mut self.0 {
            page.initialise();
        }
    }
}

/// Gives a block of pages back, whose last page may be inaccessible. If the system does not make that page accessible
/// again, the block is not given back, because its next holder could not use it: it counts as a refused guard page. A
/// block whose guard page the system refused from the start is given back.
fn give_page_back(mut page: Page, guarded: bool) {
    if guarded && !page.guard_last(false) {
        page.into_number();
        return;
    }
    page.initialise();
}

impl Close for Shared {
    fn handles(&self) -> &AtomicUsize {
        &self.handles
    }

    /// Handles the drop of the last handle: all objects in sheaves go back into the slabs, and empty slabs go back to
    /// the pages.
    #[cold]
    fn close(self: &Arc<Self>) {
        self.sheaf.store(0, Relaxed);
        let mut steps = Steps::new();
        self.flush(&mut steps, |empty| {
            self.locals.slots().for_each(|slot| slot.shut(|local| empty(local, slot.gauges())));
        });
        let ended = self.with_node(|node| {
            node.closed = true;
            node.count == 0
        });
        if ended {
            // SAFETY: closed just now, with no slab left, seen under the lock; no later call finds a slab to give back.
            steps.run(|| unsafe { registry::retire(self.number) });
        } else {
            self.give_back_all(self.slabs.shrink(self.ground()), &mut steps);
        }
        steps.end();
    }
}

impl Leave for Shared {
    fn leave(&self, worker: &mut Worker) {
        let (mut objects, mut empty) = (Vec::new(), Vec::new());
        self.locals.leave(worker, |local, lane| self.take_all(local, lane, &mut objects, &mut empty));
        let mut steps = Steps::new();
        self.put_back(&mut objects, &mut steps);
        self.give_back_all(empty, &mut steps);
        steps.end();
    }
}
