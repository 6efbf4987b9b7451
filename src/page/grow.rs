//! COLD: between a worker's lists and the node.
//!
//! The owner is never inside its own lists while it takes the node's lock (what moves lies on the stack), so
//! a thief that holds the lists and takes the lock cannot meet an owner that does the reverse.

use super::local::BATCH;
use super::shared::Shared;
use crate::sync::Worker;
use crate::sync::shim::lock;

/// A miss: takes a batch of the order from the node, keeps all but one in the worker's list.
///
/// Under pressure every worker's lists are drained into the node first, so that None means that no block of
/// this order can be made of the pages that nobody holds.
#[cold]
#[inline(never)]
pub(super) fn alloc(shared: &Shared, w: &mut Worker, order: u8) -> Option<u32> {
    let want = match shared.locals.enter(w) {
        Some(mut local) => local.list(order).map_or(1, |list| list.batch.max(1)),
        None => 1,
    };
    let mut batch = [0; BATCH];
    let mut got = take(shared, order, &mut batch[..want]);
    if got == 0 {
        drain_all(shared);
        got = take(shared, order, &mut batch[..1]);
    }
    let (first, rest) = batch[..got].split_first()?;
    keep(shared, w, order, rest);
    Some(*first)
}

/// A full list: the coldest batch goes to the node, then `page` has room.
#[cold]
#[inline(never)]
pub(super) fn free(shared: &Shared, w: &mut Worker, order: u8, page: u32) {
    let mut batch = [0; BATCH + 1];
    let mut n = 0;
    if let Some(mut local) = shared.locals.enter(w)
        && let Some(list) = local.list(order)
    {
        list.coldest(list.batch, |cold| {
            batch[n] = cold;
            n += 1;
        });
    }
    batch[n] = page;
    put(shared, &batch[..=n]);
}

/// Blocks of one order from the node, as many as there are.
fn take(shared: &Shared, order: u8, into: &mut [u32]) -> usize {
    let mut node = lock(&shared.node);
    let mut got = 0;
    while got < into.len() {
        let Some(page) = node.take(&shared.table, order) else { break };
        into[got] = page;
        got += 1;
    }
    got
}

fn put(shared: &Shared, pages: &[u32]) {
    let mut node = lock(&shared.node);
    pages.iter().for_each(|&page| node.put(&shared.table, page));
}

/// Puts blocks into the worker's list; what it has no room for (a thief is inside) goes back.
fn keep(shared: &Shared, w: &mut Worker, order: u8, pages: &[u32]) {
    let lane = shared.lanes.of(w);
    let mut kept = 0;
    if let Some(mut local) = shared.locals.enter(w)
        && let Some(list) = local.list(order)
    {
        kept = pages.iter().take_while(|&&page| list.push(page)).count();
        if let Some(lane) = lane {
            lane.cached[usize::from(order)].set(list.len() as u64);
        }
    }
    put(shared, &pages[kept..]);
}

/// Empties the lists of all workers, the caller's among them, into the node: as a thief, everywhere.
fn drain_all(shared: &Shared) {
    for (slot, lane) in shared.locals.slots().zip(shared.lanes.each()) {
        slot.steal(|local| {
            let mut node = lock(&shared.node);
            local.drain(|page| node.put(&shared.table, page));
            lane.cached.iter().for_each(|cached| cached.set(0));
        });
    }
}
