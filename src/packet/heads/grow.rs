//! COLD: the source of heads when a worker's array is empty, and their destination when it is full or they belong to
//! another worker.
//!
//! ```text
//!   take   heads returned by other workers ─► the cache ─► heads that other workers keep
//!   keep   own: the array, its colder part to the cache · another worker's: its inbox, in batches
//! ```
//! The worker is never inside its own array while it calls the cache. An allocation fails only if no free head exists
//! and the cache can make none, or if others took each head that was found, 16 times in a row.

use super::config::HeadCacheMode;
use super::local::Local;
use super::shared::Shared;
use super::stats::HeadsLane;
use crate::packet::head::{Head, Origin};
use crate::packet::packet::Packet;
use crate::pool::Drain;
use crate::slab::Object;
use crate::sync::Worker;
use std::mem;

/// Maximum number of times that an allocation takes the heads that others keep: another worker may be faster to use
/// them.
const STEALS_MAX: usize = 16;

/// Gets one head for a worker with an empty array.
#[cold]
#[inline(never)]
pub(super) fn take(shared: &Shared, w: &mut Worker) -> Option<Object<Head>> {
    for _ in 0..STEALS_MAX {
        if let found @ Some(_) = find(shared, w) {
            return found;
        }
        shared.locals.add(w, 1, |lane| &lane.steal);
        if !empty_all(shared, w) {
            break;
        }
    }
    find(shared, w)
}

fn find(shared: &Shared, w: &mut Worker) -> Option<Object<Head>> {
    if shared.mode == HeadCacheMode::TwoSided
        && refill(shared, w)
        && let Some(head) = shared.take_hot(w)
    {
        return Some(head);
    }
    let head = shared.cache.alloc(w, Head::blank(shared.origin(w))).ok()?;
    shared.locals.add(w, 1, |lane| &lane.cache_taken);
    Some(head)
}

/// Gives heads to the next `n` of `frames` when the worker's array is empty, and appends the packets to `into`. Returns
/// the number of heads found.
#[cold]
#[inline(never)]
pub(super) fn take_bulk(
    shared: &Shared,
    w: &mut Worker,
    n: usize,
    frames: &mut Drain,
    into: &mut Vec<Packet>,
) -> usize {
    let mut got = 0;
    while shared.mode == HeadCacheMode::TwoSided && got < n && refill(shared, w) {
        got += shared.take_hot_bulk(w, n - got, frames, into);
    }
    let mut heads = scratch(shared, w);
    #[cfg(feature = "comparisons")]
    if shared.mode == HeadCacheMode::Bulk {
        let origin = shared.origin(w);
        if shared.cache.alloc_bulk(w, n, &mut heads, || Head::blank(origin)) {
            shared.locals.add(w, n as u64, |lane| &lane.cache_taken);
        }
    }
    while got + heads.len() < n {
        let Some(head) = take(shared, w) else { break };
        heads.push(head);
    }
    got += heads.len();
    into.extend(heads.drain(..).map(|head| Packet::new(head, frames.next())));
    put_away(shared, w, heads);
    got
}

/// Fills the worker's array up to the refill. Returns false if the array is still empty.
fn refill(shared: &Shared, w: &mut Worker) -> bool {
    let (want, origin) = (shared.refill(), shared.origin(w));
    let mut heads = scratch(shared, w);
    let Some(inbox) = shared.inboxes.get(origin.slot()) else { return false };
    // Takes as many heads as there is room for. The inbox is in another core's cache until it is read. After that, more
    // heads cost no more.
    let returned = inbox.take(want.max(shared.size()), &mut heads);
    let rest = want.saturating_sub(returned);
    if rest > 0 {
        // The bulk call is all or nothing. If fewer heads exist, the caller finds them one by one.
        shared.cache.alloc_bulk(w, rest, &mut heads, || Head::blank(origin));
    }
    let n = heads.len();
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        local.stay(lane, |local| {
            let mut cut = Vec::new();
            shared.resize(local, &mut cut);
            local.ready.put_first(&mut heads, local.ready.room(), |head| head);
            heads.append(&mut cut);
        });
    }
    // Counted also if a thief was inside and nothing went into the array.
    let left = heads.len();
    shared.locals.add(w, u64::from(n > 0), |lane| &lane.refill);
    shared.locals.add(w, n as u64, |lane| &lane.refilled);
    shared.locals.add(w, returned as u64, |lane| &lane.returned);
    shared.locals.add(w, left as u64, |lane| &lane.flushed);
    shared.cache.forget_bulk(w, &mut heads);
    put_away(shared, w, heads);
    n > left
}

/// Keeps one blank head that the hot path could not keep.
#[cold]
#[inline(never)]
pub(super) fn keep(shared: &Shared, w: &mut Worker, head: Object<Head>) {
    let (origin, mut heads) = (head.origin, scratch(shared, w));
    heads.push(head);
    keep_all(shared, w, origin, heads);
}

/// Keeps the heads of the `n` oldest packets that the hot path could not keep. All have the given `origin`, and their
/// frames were taken.
#[cold]
#[inline(never)]
pub(super) fn keep_run(shared: &Shared, w: &mut Worker, origin: Origin, packets: &mut Vec<Packet>, n: usize) {
    let mut heads = scratch(shared, w);
    heads.extend(packets.drain(..n).map(Packet::into_head));
    keep_all(shared, w, origin, heads);
}

/// Keeps blank heads, which all have the given `origin`. The origin may be any worker's.
fn keep_all(shared: &Shared, w: &mut Worker, origin: Origin, mut heads: Vec<Object<Head>>) {
    let own = shared.origin(w);
    if origin.heads() != shared.number {
        // These heads belong to another head cache. When dropped, they go to their own slab cache.
        heads.clear();
    } else if origin != own && shared.sends_to(origin) {
        send(shared, w, origin, &mut heads);
    } else if origin != own {
        adopt(own, &mut heads);
    }
    match shared.mode {
        _ if heads.is_empty() => {}
        #[cfg(feature = "comparisons")]
        HeadCacheMode::Each => {
            shared.locals.add(w, heads.len() as u64, |lane| &lane.cache_given);
            heads.drain(..).for_each(|head| shared.cache.free(w, head));
        }
        #[cfg(feature = "comparisons")]
        HeadCacheMode::Bulk => {
            shared.locals.add(w, heads.len() as u64, |lane| &lane.cache_given);
            shared.cache.forget_bulk(w, &mut heads);
        }
        #[cfg(feature = "comparisons")]
        HeadCacheMode::FlushOnly => collect(shared, w, &mut heads),
        HeadCacheMode::TwoSided => into_array(shared, w, &mut heads),
    }
    put_away(shared, w, heads);
}

/// Sets the origin of heads to `own`.
fn adopt(own: Origin, heads: &mut [Object<Head>]) {
    heads.iter_mut().for_each(|head| head.origin = own);
}

/// Puts heads into the two-sided array. Each time the array is full, its coldest heads go to the cache.
fn into_array(shared: &Shared, w: &mut Worker, mine: &mut Vec<Object<Head>>) {
    let mut cold = Vec::new();
    while !mine.is_empty() {
        let Some(mut held) = shared.locals.enter(w) else { break };
        let (lane, local) = held.split();
        local.stay(lane, |local| {
            shared.resize(local, &mut cold);
            if mine.len() > local.ready.room() {
                lane.flush.add(1);
                local.ready.move_oldest(shared.free(), &mut cold);
            }
            let before = mine.len();
            local.ready.put_first(mine, local.ready.room(), |head| head);
            lane.kept.add((before - mine.len()) as u64);
            lane.flushed.add(cold.len() as u64);
        });
        drop(held);
        shared.cache.forget_bulk(w, &mut cold);
    }
    shared.locals.add(w, mine.len() as u64, |lane| &lane.cache_given);
    shared.cache.forget_bulk(w, mine);
}

#[cfg(feature = "comparisons")]
/// Puts heads into the array that is only flushed.
fn collect(shared: &Shared, w: &mut Worker, mine: &mut Vec<Object<Head>>) {
    while !mine.is_empty() {
        let Some(mut held) = shared.locals.enter(w) else { break };
        let (lane, local) = held.split();
        let full = local.stay(lane, |local| {
            let n = mine.len().min(shared.size().saturating_sub(local.freed.len()));
            local.freed.extend(mine.drain(..n));
            lane.kept.add(n as u64);
            local.freed.len() >= shared.size()
        });
        drop(held);
        if full {
            flush(shared, w);
        }
    }
    shared.locals.add(w, mine.len() as u64, |lane| &lane.cache_given);
    shared.cache.forget_bulk(w, mine);
}

#[cfg(feature = "comparisons")]
/// Gives the collected heads to the cache.
fn flush(shared: &Shared, w: &mut Worker) {
    let Some(mut freed) = with_local(shared, w, |local, lane| {
        lane.flush.add(u64::from(!local.freed.is_empty()));
        lane.flushed.add(local.freed.len() as u64);
        mem::take(&mut local.freed)
    }) else {
        return;
    };
    shared.cache.forget_bulk(w, &mut freed);
    // Puts the same vector back to keep its capacity.
    with_local(shared, w, |local, _| local.freed = freed);
}

/// Keeps another worker's heads, which all have the given `origin`, until there are enough to send. Heads that cannot
/// be sent become this worker's and stay in `heads`.
fn send(shared: &Shared, w: &mut Worker, origin: Origin, heads: &mut Vec<Object<Head>>) {
    // Asked and added in one stay. Otherwise a thief inside in between would hide that heads of others are there.
    let mut add = |local: &mut Local, _: &HeadsLane| {
        let others = local.away.first().is_some_and(|first| first.origin != origin);
        if !others {
            local.away.append(heads);
        }
        (others, local.away.len() >= shared.sent_at_once())
    };
    let (mut mine, mut added) = (Vec::new(), with_local(shared, w, &mut add));
    if let Some((true, _)) = added {
        send_away(shared, w, &mut mine);
        added = with_local(shared, w, &mut add);
    }
    if let Some((_, true)) = added {
        send_away(shared, w, &mut mine);
    }
    adopt(shared.origin(w), heads);
    heads.append(&mut mine);
}

/// Sends the heads that wait to be sent. Heads that do not fit into their worker's inbox become this worker's.
fn send_away(shared: &Shared, w: &mut Worker, mine: &mut Vec<Object<Head>>) {
    let Some(mut away) = with_local(shared, w, |local, _| mem::take(&mut local.away)) else { return };
    let inbox = away.first().and_then(|first| shared.inboxes.get(first.origin.slot()));
    let sent = inbox.map_or(0, |inbox| inbox.put(&mut away, shared.defer_max()));
    let refused = away.len();
    adopt(shared.origin(w), &mut away);
    mine.append(&mut away);
    shared.locals.add(w, sent as u64, |lane| &lane.sent_home);
    shared.locals.add(w, refused as u64, |lane| &lane.refused);
    // Puts the same vector back to keep its capacity.
    with_local(shared, w, |local, _| local.away = away);
}

/// Ends a poll round: no heads wait for the next one.
#[cold]
#[inline(never)]
pub(super) fn end_round(shared: &Shared, w: &mut Worker) {
    match shared.mode {
        #[cfg(feature = "comparisons")]
        HeadCacheMode::Each | HeadCacheMode::Bulk => {}
        #[cfg(feature = "comparisons")]
        HeadCacheMode::FlushOnly => flush(shared, w),
        HeadCacheMode::TwoSided => {
            let mut mine = scratch(shared, w);
            send_away(shared, w, &mut mine);
            if !mine.is_empty() {
                into_array(shared, w, &mut mine);
            }
            put_away(shared, w, mine);
        }
    }
}

/// As a thief, gives all heads that workers keep to the cache. Returns whether there were any.
fn empty_all(shared: &Shared, w: &mut Worker) -> bool {
    let mut heads = rob_all(shared);
    let found = !heads.is_empty();
    shared.cache.forget_bulk(w, &mut heads);
    found
}

/// As a thief, gives all heads that workers keep to the cache, and its empty slabs to the memory.
#[cold]
pub(super) fn shrink(shared: &Shared) {
    // Blank heads that are dropped go back to the cache without a worker.
    drop(rob_all(shared));
    shared.cache.shrink();
}

/// As a thief, takes all heads that workers keep, except those of a worker that stays inside for too long.
fn rob_all(shared: &Shared) -> Vec<Object<Head>> {
    let (mut heads, mut flushed) = (Vec::new(), 0);
    for slot in shared.locals.slots() {
        slot.steal(|local| {
            local.stay(slot.gauges(), |local| {
                flushed += (local.ready.len() + local.freed.len()) as u64;
                local.ready.move_oldest(usize::MAX, &mut heads);
                heads.append(&mut local.freed);
                heads.append(&mut local.away);
            });
        });
    }
    // A worker adds to its own lane also while a thief is inside.
    shared.locals.shared_lane().flushed.add_shared(flushed);
    shared.inboxes.iter().for_each(|inbox| inbox.empty(&mut heads));
    heads
}

/// Calls a function on the worker's own state, on the slow path. Returns None for a worker of another memory and while
/// a thief is inside.
fn with_local<R>(
    shared: &Shared,
    w: &mut Worker,
    work: impl FnOnce(&mut Local, &HeadsLane) -> R,
) -> Option<R> {
    let mut held = shared.locals.enter(w)?;
    let (lane, local) = held.split();
    Some(local.stay(lane, |local| work(local, lane)))
}

/// Returns an empty vector to move heads with. It has capacity from earlier uses.
fn scratch(shared: &Shared, w: &mut Worker) -> Vec<Object<Head>> {
    shared.locals.enter(w).map(|mut local| mem::take(&mut local.scratch)).unwrap_or_default()
}

/// Stores that vector for the next use.
fn put_away(shared: &Shared, w: &mut Worker, vector: Vec<Object<Head>>) {
    debug_assert!(vector.is_empty());
    if let Some(mut local) = shared.locals.enter(w) {
        local.scratch = vector;
    }
}
