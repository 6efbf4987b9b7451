//! COLD: allocates when a worker's main sheaf is empty, and frees when it is full.
//!
//! ```text
//!   sheaf      spare ─► barn ─► slabs with free objects ─► a new slab ─► what other workers keep
//!   cpu_slab   active slab ─► own partial slabs ─► the node's ─► a new slab ─► what other workers keep
//! ```
//! An allocation fails only if no free object of the cache exists and no slab can be made. The worker is never inside
//! its own sheaves while pages are allocated.
//!
//! The caller's own code runs when slabs are made and given back: constructors, values' Drop, the page stage's
//! callback. A panic of that code resumes only when all objects and slabs in transit are in their places ([`Steps`]).

use super::debug::{Misuse, Site};
use super::exchange::{from_sheaves, into_sheaves};
use super::local::Local;
use super::reference::Ref;
use super::shared::Shared;
use super::slabs::Chain;
use super::stats::SlabLane;
use crate::page::Page;
use crate::sync::{Steps, Worker};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// The number of pointers that are tagged at once.
const CHUNK: usize = 64;

/// Gets one object for a worker whose main sheaf is empty.
#[cold]
#[inline(never)]
pub(super) fn alloc(shared: &Shared, w: &mut Worker, site: Site) -> Option<Ref> {
    let object = match pop_own(shared, w) {
        Some(own) => own,
        None => {
            let mut steps = Steps::new();
            let mut found = find(shared, w, &mut steps);
            if steps.have_panicked() {
                found.take().into_iter().for_each(|object| give_up(shared, object, &mut steps));
            }
            steps.end();
            found?
        }
    };
    if let Some(checker) = &shared.checker {
        // SAFETY: the object was just taken off a list of the cache.
        unsafe { checker.on_alloc(shared.pointer(object), site) }
    }
    Some(object)
}

/// Puts an object back that was found for an allocation that panics.
#[cold]
fn give_up(shared: &Shared, object: Ref, steps: &mut Steps) {
    shared.locals.shared_lane().free_slowpath.add_shared(1);
    shared.put_back(&mut [object], steps);
}

/// The fast path of a worker without sheaves: takes one of the active slab's own objects.
#[inline]
fn pop_own(shared: &Shared, w: &mut Worker) -> Option<Ref> {
    let mut held = shared.locals.enter(w)?;
    let (lane, local) = held.split();
    let object = local.cpu.pop_own(&shared.slabs, shared.ground(), shared.tag())?;
    lane.alloc_fastpath.add(1);
    Some(object)
}

/// The same for frees: takes objects from the end of `objects` as long as they belong to that slab. Returns how many
/// are left.
#[inline]
fn push_own(shared: &Shared, w: &mut Worker, objects: &[Ref]) -> usize {
    let Some(mut held) = shared.locals.enter(w) else { return objects.len() };
    let (lane, local) = held.split();
    // SAFETY: the objects were given back by their holders and are on no list.
    let own = |&&object: &&Ref| unsafe { local.cpu.push_own(&shared.slabs, shared.ground(), object) };
    let kept = objects.iter().rev().take_while(own).count();
    lane.free_fastpath.add(kept as u64);
    objects.len() - kept
}

#[inline(never)]
fn find(shared: &Shared, w: &mut Worker, steps: &mut Steps) -> Option<Ref> {
    let mut found = kept_or_new(shared, w, steps);
    // A thief may have taken the objects that were freed in the meantime, and has put them back by now.
    for _ in 0..2 {
        if found.is_none() {
            shared.flush_all(steps);
            found = kept_or_new(shared, w, steps);
        }
    }
    found
}

/// A panic of a constructor unwinds from here. No object is in transit then.
fn kept_or_new(shared: &Shared, w: &mut Worker, steps: &mut Steps) -> Option<Ref> {
    let mut empty = Vec::new();
    let mut found = kept(shared, w, &mut empty, steps);
    if found.is_none() {
        shared.give_back_all(empty.drain(..), steps);
        found = new_slab(shared, w, &mut empty, steps);
    }
    shared.give_back_all(empty, steps);
    found
}

/// Takes an object that the worker, the barn or the node keeps.
fn kept(shared: &Shared, w: &mut Worker, empty: &mut Vec<u32>, steps: &mut Steps) -> Option<Ref> {
    let arrays = shared.sheaf.load(Relaxed) > 0;
    let mut surplus = Vec::new();
    let worker = w.slot();
    let object = if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        local.stay(lane, |local| match arrays {
            true => from_sheaves(shared, worker, lane, local, &mut surplus),
            false => from_cpu_slab(shared, lane, local, empty),
        })
    } else {
        shared.locals.shared_lane().alloc_slowpath.add_shared(1);
        if let Some(slab) = shared.slabs.take_partial(shared.ground()) {
            shared.slabs.detach_each(shared.ground(), slab, shared.tag(), |object| surplus.push(object));
        }
        surplus.pop()
    };
    shared.put_back(&mut surplus, steps);
    object
}

fn from_cpu_slab(shared: &Shared, lane: &SlabLane, local: &mut Local, empty: &mut Vec<u32>) -> Option<Ref> {
    let cpu_partial = shared.cpu_partial.load(Relaxed) as usize;
    let object = local.cpu.pop((&shared.slabs, shared.ground(), shared.tag()), lane, cpu_partial, empty);
    // An allocation that finds none is counted when its slab is made.
    lane.alloc_slowpath.add(u64::from(object.is_some()));
    object
}

/// Takes an object of a new slab. The other objects go to the worker, or onto the node's list.
fn new_slab(shared: &Shared, w: &mut Worker, empty: &mut Vec<u32>, steps: &mut Steps) -> Option<Ref> {
    let page = new_page(shared, w)?;
    if shared.sheaf.load(Relaxed) == 0 {
        return new_active(shared, w, page, empty);
    }
    let (_, mut objects) = new_objects(shared, page, false)?;
    shared.locals.add(w, 1, |lane| &lane.alloc_slab);
    let first = objects.pop();
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        let left = objects.len().saturating_sub(local.main.room());
        local.stay(lane, |local| local.main.extend(&objects[left..], |&object| object));
        objects.truncate(left);
    }
    shared.put_back(&mut objects, steps);
    first
}

/// Makes a slab of pages. Returns its number and its objects. The last object goes out first: it is the slab's first
/// object, or one that was drawn.
fn new_objects(shared: &Shared, page: Page, frozen: bool) -> Option<(u32, Vec<Ref>)> {
    let mut objects = Vec::with_capacity(usize::from(shared.slabs.per_slab()));
    let slab = shared.adopt(page, frozen, |object| objects.push(object))?;
    match shared.memory.order() {
        Some(random) => random.shuffle(&mut objects),
        None => objects.reverse(),
    }
    Some((slab, objects))
}

/// Allocates pages for a slab: a block of the cache's order, or if there is none the smallest block that holds an
/// object.
fn new_page(shared: &Shared, w: &mut Worker) -> Option<Page> {
    let order = shared.slabs.order();
    let page = shared.memory.alloc(w, order);
    if page.is_some() {
        return page;
    }
    let smallest = shared.slabs.smallest_order().filter(|&smallest| smallest < order)?;
    // From now on there may be slabs of several orders.
    shared.slabs.allow_other_orders();
    let page = shared.memory.alloc(w, smallest)?;
    shared.locals.add(w, 1, |lane| &lane.order_fallback);
    Some(page)
}

/// Makes a new slab the worker's active one.
fn new_active(shared: &Shared, w: &mut Worker, page: Page, empty: &mut Vec<u32>) -> Option<Ref> {
    let ground = shared.ground();
    let (slab, mut objects) = new_objects(shared, page, true)?;
    shared.locals.add(w, 1, |lane| &lane.alloc_slab);
    let first = objects.pop();
    // As a freelist, in the order in which they would have gone out.
    objects.reverse();
    // SAFETY: the objects of the new slab belong to this call alone, and all to one slab: so they are one chain.
    let chain = unsafe { shared.slabs.chain(ground, &mut objects) };
    let chain = chain.map_or(Chain { slab, head: 0, last: 0, n: 0 }, |(chain, _)| chain);
    if chain.n > 0 {
        // SAFETY: as above.
        unsafe { shared.slabs.set_link(ground, chain.last, 0) };
    }
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        lane.alloc_slowpath.add(1);
        local.stay(lane, |local| local.cpu.adopt(&shared.slabs, ground, &chain, empty));
        return first;
    }
    // SAFETY: the slab belongs to this call alone.
    let is_empty = unsafe { shared.slabs.unfreeze(ground, chain.slab, (chain.n > 0).then_some(&chain)) };
    debug_assert!(!is_empty, "an object of it was just taken");
    first
}

/// Keeps an object for a worker whose main sheaf is full.
#[cold]
#[inline(never)]
pub(super) fn free(shared: &Shared, w: &mut Worker, object: Ref, site: Site) {
    free_bulk(shared, w, &mut [object], site);
}

/// Keeps objects for a worker whose main sheaf is full: in the spare sheaf and the barn. Objects that these have no
/// room for go back into the slabs. So do all objects of a worker that has no arrays.
#[cold]
#[inline(never)]
pub(super) fn free_bulk(shared: &Shared, w: &mut Worker, objects: &mut [Ref], site: Site) {
    if let Some(checker) = &shared.checker {
        // SAFETY: the objects came back from their holders just now.
        objects.iter().for_each(|&object| unsafe { checker.on_free(shared.pointer(object), site) });
    }
    let left = push_own(shared, w, objects);
    if left > 0 {
        let mut steps = Steps::new();
        // SAFETY: tagged objects that came back from their holders; the caller's handle keeps the cache.
        unsafe { keep(shared, w, &mut objects[..left], &mut steps) };
        steps.end();
    }
}

/// Frees pointers that may be anything: the pointers of a cache with debug are checked first. On an error nothing has
/// changed. `steps` collects the panics when a slab is given back.
///
/// Without a handle the cache may be gone when this returns. For this reason the cache comes as a pointer, also in the
/// functions that this calls: the target of a reference argument must outlive the call.
///
/// # Safety
/// Each is an object of the cache and out, and its claim ends here. With debug, what debug checks is exempt.
#[cold]
#[inline(never)]
pub(super) unsafe fn free_pointers(
    cache: *const Shared,
    w: Option<&mut Worker>,
    pointers: &[NonNull<u8>],
    site: Site,
    steps: &mut Steps,
) -> Result<(), Misuse> {
    // SAFETY: used below only while some of the objects, which keep the cache, are still to be put back.
    let shared = unsafe { &*cache };
    if let Some(checker) = &shared.checker {
        // SAFETY: the caller's promise.
        unsafe { checker.check_free(&shared.locator(), pointers, site)? }
    }
    let mut w = w;
    for pointers in pointers.chunks(CHUNK) {
        let mut objects = [0; CHUNK];
        let objects = &mut objects[..pointers.len()];
        objects
            .iter_mut()
            .zip(pointers)
            .for_each(|(object, at)| *object = shared.tag() | at.addr().get() as u64);
        match &mut w {
            // SAFETY: the caller's promise.
            Some(w) => unsafe { keep(cache, w, objects, steps) },
            None => {
                shared.locals.shared_lane().free_slowpath.add_shared(1);
                // SAFETY: as above; without a handle the cache may be gone after the last of them.
                unsafe { Shared::put(cache, objects, steps) }
            }
        }
    }
    Ok(())
}

/// Keeps objects at a worker as long as there is room. The others go back into their slabs.
///
/// # Safety
/// As for [`free_pointers`], tagged.
#[inline(never)]
unsafe fn keep(cache: *const Shared, w: &mut Worker, objects: &mut [Ref], steps: &mut Steps) {
    // SAFETY: the objects keep the cache until they are in a sheaf, which a closing cache waits for, or put back below.
    let shared = unsafe { &*cache };
    let arrays = shared.sheaf.load(Relaxed) > 0;
    let (mut empty, mut flushed) = (Vec::new(), Vec::new());
    let worker = w.slot();
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        local.stay(lane, |local| match arrays {
            true => into_sheaves(shared, worker, lane, local, objects, &mut flushed),
            false => into_cpu_slab(shared, lane, local, objects, &mut empty),
        });
    } else {
        shared.locals.shared_lane().free_slowpath.add_shared(1);
        flushed.extend_from_slice(objects);
    }
    // SAFETY: on no list, and without a claim; the slabs are empty and were taken off the lists just now. Each object
    // and each slab keeps the cache until it is put back.
    unsafe {
        Shared::put(cache, &mut flushed, steps);
        empty.into_iter().for_each(|slab| Shared::give_back(cache, slab, steps));
    }
}

fn into_cpu_slab(
    shared: &Shared,
    lane: &SlabLane,
    local: &mut Local,
    mut objects: &mut [Ref],
    empty: &mut Vec<u32>,
) {
    let (ground, cpu_partial) = (shared.ground(), shared.cpu_partial.load(Relaxed) as usize);
    // SAFETY: the objects were given back by their holders and are on no list.
    while let Some((chain, left)) = unsafe { shared.slabs.chain(ground, objects) } {
        // SAFETY: as above.
        unsafe { local.cpu.push((&shared.slabs, ground), lane, cpu_partial, &chain, empty) };
        objects = &mut objects[..left];
    }
}
