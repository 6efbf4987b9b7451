//! COLD: exchanges a worker's sheaves for those of the barn.
//!
//! Objects that one worker allocates and another frees cross in the barn's sheaves, and so do the lines of the barn and
//! its lock. So a worker whose exchanges all go one way exchanges both sheaves at once. For a worker that goes to and
//! fro, the spare sheaf has room, or objects, for the way back.

use super::barn::Barn;
use super::local::{Direction, Local};
use super::reference::{Ref, Sheaf};
use super::shared::Shared;
use super::stats::SlabLane;
use crate::sync::shim::lock;
use crate::sys::cpu::prefetch_write;

/// Maximum number of objects of a sheaf that are prefetched at once.
const PREFETCHED: usize = 64;

/// Takes an object from the sheaves of the worker of slot `worker`, which are filled from the barn or from slabs.
pub(super) fn from_sheaves(
    shared: &Shared,
    worker: usize,
    lane: &SlabLane,
    local: &mut Local,
    surplus: &mut Vec<Ref>,
) -> Option<Ref> {
    // The sheaf is not always empty: a thief may have turned the worker away from its main sheaf.
    if local.main.len() == 0 {
        std::mem::swap(&mut local.main, &mut local.spare);
    }
    if let Some(object) = local.main.pop() {
        lane.alloc_fastpath.add(1);
        return Some(object);
    }
    lane.alloc_slowpath.add(1);
    if take_full(shared, worker, lane, local) {
        return local.main.pop();
    }
    lane.barn_get_fail.add(1);
    let ground = shared.ground();
    while local.main.room() > 0 {
        let Some(slab) = shared.slabs.take_partial(ground) else { break };
        let before = local.main.len();
        shared.slabs.detach_each(ground, slab, shared.tag(), |object| {
            if let Err(object) = local.main.push(object) {
                surplus.push(object);
            }
        });
        lane.sheaf_refill.add((local.main.len() - before) as u64);
    }
    local.main.pop()
}

/// Exchanges the empty main sheaf for a full one of the barn. If another worker filled it, and the worker took one the last
/// time too, the empty spare sheaf is exchanged as well. Returns whether there was a full sheaf.
fn take_full(shared: &Shared, worker: usize, lane: &SlabLane, local: &mut Local) -> bool {
    let again = std::mem::replace(&mut local.last, Direction::Take) == Direction::Take;
    let mut barn = lock(&shared.barn);
    let take = |barn: &mut Barn, sheaf: &mut Sheaf| {
        let exchanged = barn.take_full(sheaf)?;
        lane.barn_get.add(1);
        lane.sheaf_free.add(u64::from(exchanged.dropped));
        Some(exchanged.filled_by)
    };
    let filled_by = take(&mut barn, &mut local.main);
    let crosses = filled_by.is_some_and(|filler| filler != worker);
    if crosses && again && local.spare.len() == 0 && barn.has_full() {
        take(&mut barn, &mut local.spare);
    }
    drop(barn);
    if crosses {
        // This worker is about to write objects whose lines are with another worker. The lines travel together.
        for sheaf in [&mut local.main, &mut local.spare] {
            let next = sheaf.items().iter().rev().take(PREFETCHED);
            next.for_each(|&object| prefetch_write(shared.pointer(object).as_ptr()));
        }
    }
    filled_by.is_some()
}

/// Keeps objects in the sheaves of the worker of slot `worker`, which the barn takes when they are full. Those that it
/// has no room for go to `flushed`.
pub(super) fn into_sheaves(
    shared: &Shared,
    worker: usize,
    lane: &SlabLane,
    local: &mut Local,
    objects: &[Ref],
    flushed: &mut Vec<Ref>,
) {
    let (mut rest, mut slow) = (objects, 0);
    loop {
        let kept = local.main.extend(rest, |&object| object);
        lane.free_fastpath.add(kept as u64 - slow);
        (rest, slow) = (&rest[kept..], 0);
        if rest.is_empty() {
            return;
        }
        if local.spare.room() > 0 {
            std::mem::swap(&mut local.main, &mut local.spare);
            continue;
        }
        // The next object is the one that took the slow path.
        slow = 1;
        lane.free_slowpath.add(1);
        put_full(shared, worker, lane, local, flushed);
    }
}

/// Exchanges the full main sheaf for an empty one of the barn. If the worker put one the last time too, the full spare
/// sheaf is exchanged as well. If the barn is full, the objects of the main sheaf go to `flushed`.
fn put_full(shared: &Shared, worker: usize, lane: &SlabLane, local: &mut Local, flushed: &mut Vec<Ref>) {
    let again = std::mem::replace(&mut local.last, Direction::Put) == Direction::Put;
    let mut barn = lock(&shared.barn);
    let mut put = |sheaf: &mut Sheaf| {
        let made = barn.put_full(sheaf, worker);
        lane.barn_put.add(u64::from(made.is_some()));
        lane.sheaf_alloc.add(u64::from(made == Some(true)));
        made.is_some()
    };
    if !put(&mut local.main) {
        lane.barn_put_fail.add(1);
        lane.sheaf_flush.add(local.main.len() as u64);
        local.main.drain(|object| flushed.push(object));
        return;
    }
    let both = again && put(&mut local.spare);
    for mut sheaf in barn.take_excess(1 + usize::from(both)) {
        lane.sheaf_free.add(1);
        lane.sheaf_flush.add(sheaf.len() as u64);
        sheaf.drain(|object| flushed.push(object));
    }
}
