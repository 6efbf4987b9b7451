//! COLD: where objects come from when both of a worker's sheaves are empty, and go when both are full.
//!
//! Empty: a full sheaf of the barn, a slab with free objects, a new slab, and at last the sheaves of other
//! workers; an allocation fails only when no free object of the cache exists and no slab can be made.
//! Full: the barn, and what it has no room for goes back into the slabs.

use super::local::{Ref, Sheaf};
use super::shared::Shared;
use crate::sync::Worker;
use crate::sync::shim::lock;

/// Gets one object for a worker whose sheaves are empty, and fills its main sheaf.
#[cold]
#[inline(never)]
pub(super) fn alloc(shared: &Shared, w: &mut Worker) -> Option<Ref> {
    shared.lanes.add(w, 1, |lane| &lane.alloc_slowpath);
    if let Some(object) = fill(shared, w) {
        return Some(object);
    }
    if let Some(page) = shared.memory.alloc(w, shared.order) {
        shared.lanes.add(w, 1, |lane| &lane.alloc_slab);
        let mut objects = Vec::with_capacity(usize::from(shared.per_slab));
        shared.adopt(page, |object| objects.push(object));
        let first = objects.pop();
        shared.put_back(&mut objects);
        return first;
    }
    for slot in shared.locals.slots() {
        let mut objects = Vec::new();
        slot.steal(|local| local.drain(|object| objects.push(object)));
        shared.put_back(&mut objects);
    }
    fill(shared, w)
}

/// Fills the worker's main sheaf from the barn or from a slab and takes one object; a caller that has no sheaf
/// (a worker of another memory, or a thief is inside) fills one of its own and puts the rest back.
fn fill(shared: &Shared, w: &mut Worker) -> Option<Ref> {
    let lane = shared.lanes.of(w);
    let Some(mut local) = shared.locals.enter(w) else {
        let mut sheaf = Sheaf::new(shared.sheaf, shared.sheaf);
        shared.refill(&mut sheaf);
        let object = sheaf.pop();
        let mut rest = Vec::new();
        sheaf.drain(|object| rest.push(object));
        shared.put_back(&mut rest);
        return object;
    };
    let filled = if lock(&shared.barn).take_full(&mut local.main) {
        lane.inspect(|lane| lane.barn_get.add(1));
        true
    } else {
        lane.inspect(|lane| lane.sheaf_refill.add(1));
        shared.refill(&mut local.main)
    };
    let object = if filled { local.pop() } else { None };
    if let Some(lane) = lane {
        lane.cached.set(local.len() as u64);
    }
    object
}

/// Keeps an object for a worker whose sheaves are full: the main one goes to the barn, or into the slabs.
#[cold]
#[inline(never)]
pub(super) fn free(shared: &Shared, w: &mut Worker, object: Ref) {
    shared.lanes.add(w, 1, |lane| &lane.free_slowpath);
    let lane = shared.lanes.of(w);
    let mut flushed = Vec::new();
    match shared.locals.enter(w) {
        None => flushed.push(object),
        Some(mut local) => {
            if lock(&shared.barn).put_full(&mut local.main, shared.sheaf) {
                lane.inspect(|lane| lane.barn_put.add(1));
            } else {
                lane.inspect(|lane| lane.sheaf_flush.add(1));
                local.main.drain(|object| flushed.push(object));
            }
            if !local.push(object) {
                flushed.push(object);
            }
            if let Some(lane) = lane {
                lane.cached.set(local.len() as u64);
            }
        }
    }
    shared.put_back(&mut flushed);
}
