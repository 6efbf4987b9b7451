//! COLD: moves blocks between a worker's lists and the nodes.
//!
//! The owner is never inside its own lists while it takes a node's lock; the blocks that it moves lie on the stack. A
//! thief holds the lists and then takes the lock, so it cannot deadlock with an owner that does the reverse. Callbacks
//! are called at the end, when the caller holds no lock and is in no list.

use super::bulk::{empty_places, fill};
use super::config::TURN;
use super::large::LISTS;
use super::nodes::Alarm;
use super::page::Page;
use super::shared::{Shared, claim};
use super::stats::{Moving, PageLane};
use crate::limits::ORDER_MAX;
use crate::stats::Count;
use crate::sync::Worker;
use crate::sync::shim::{yield_again, yield_now};

/// How often an allocation looks again for blocks that were with workers a moment ago.
const ROUNDS: usize = 16;

/// The result of a fetch from the nodes: the number of blocks in the caller's array, and the move. Others who look for
/// the blocks wait until the move ends, when the rest of the blocks is in the list.
type Fetched<'a> = Option<(usize, Moving<'a>)>;

/// Handles a miss: fetches a batch of the order, and keeps all blocks but one in the worker's list.
///
/// If no node has a block, the lists of all workers are drained first. So None means that no block of this order can be
/// made of the pages that have no holder and may be taken.
#[cold]
#[inline(never)]
pub(super) fn alloc(shared: &Shared, w: &mut Worker, order: u8) -> Option<Page> {
    let mut alarms = Vec::new();
    let mut turn = [0; TURN];
    let want = want(shared, w, order);
    let mut number = None;
    if let Some((got, moving)) = fetch(shared, w, order, &mut turn[..want], &mut alarms) {
        number = Some(turn[0]);
        keep(shared, w, order, (&turn[1..got], moving), &mut alarms);
    }
    count_allocated(shared, w, u64::from(number.is_some()));
    // Claimed before the callbacks run, because they may panic.
    let page = number.and_then(claim);
    ring(alarms, w);
    page
}

/// Does the same as [`alloc`]. If that finds nothing, takes a block from the reserve.
#[cold]
#[inline(never)]
pub(super) fn alloc_with_reserve(shared: &Shared, w: &mut Worker, order: u8) -> Option<Page> {
    if order > ORDER_MAX {
        return None;
    }
    let mut alarms = Vec::new();
    let mut block = [0];
    let node = nearest(shared, w).find(|&node| shared.take(node, order, true, &mut block, &mut alarms) == 1);
    if let Some(node) = node {
        block[0] = shared.mark_reserve(block[0]);
        count_allocated(shared, w, 1);
        count(shared, w, 1, |lane| &lane.from_reserve);
        count_node(shared, w, node);
    }
    let page = claim(block[0]);
    ring(alarms, w);
    page
}

/// Fills the empty slots of `pages` as long as there are single pages anywhere. Returns how many it filled.
#[cold]
#[inline(never)]
pub(super) fn alloc_bulk(shared: &Shared, w: &mut Worker, pages: &mut [Option<Page>]) -> usize {
    let mut alarms = Vec::new();
    let mut turn = [0; TURN];
    let mut filled = 0;
    loop {
        let missing = empty_places(pages);
        if missing == 0 {
            break;
        }
        let want = want(shared, w, 0).max(missing).min(TURN);
        let Some((got, moving)) = fetch(shared, w, 0, &mut turn[..want], &mut alarms) else { break };
        let used = got.min(missing);
        fill(pages, &turn[..used]);
        filled += used;
        keep(shared, w, 0, (&turn[used..got], moving), &mut alarms);
    }
    count_allocated(shared, w, filled as u64);
    ring(alarms, w);
    filled
}

/// Takes back a block that the worker's list does not keep: a larger block, a page of another node or memory, a page of
/// the reserve, or a page that the list has no room for. The claim on it was just given up.
#[inline(never)]
pub(super) fn free(shared: &Shared, w: &mut Worker, number: u32) {
    let Some(page) = claim(number) else { return };
    let Some(desc) = shared.index(number).map(|index| shared.table.desc(index)) else { return drop(page) };
    let order = desc.order();
    let mut tries = if desc.is_reserve() { 0 } else { 2 };
    while tries > 0 {
        let Some(mut held) = shared.locals.enter(w) else { break };
        let (lane, local) = held.split();
        if !local.is_of_home(number) {
            break;
        }
        if local.push(order, number, lane) {
            page.into_number();
            return;
        }
        drop(held);
        tries -= 1;
        if tries > 0 {
            overflow(shared, w, order);
        }
    }
    shared.locals.add(w, 1, |lane| &lane.freed);
    // The page goes to its node.
    drop(page);
}

/// Handles a full list: its coldest blocks go to the node, or the list grows.
#[cold]
#[inline(never)]
fn overflow(shared: &Shared, w: &mut Worker, order: u8) {
    let Some(mut rest) = shared.locals.enter(w).and_then(|mut held| {
        let list = held.lists.get_mut(usize::from(order))?;
        Some(list.overflowed())
    }) else {
        return;
    };
    if rest == 0 {
        return;
    }
    count(shared, w, 1, |lane| &lane.overflowed);
    let mut alarms = Vec::new();
    while rest > 0 {
        let moved = give_back(shared, w, order, rest.min(TURN), &mut alarms);
        rest = if moved == 0 { 0 } else { rest - moved };
    }
    ring(alarms, w);
}

/// Moves the `n` coldest blocks of a list (at most [`TURN`]) to the node. Returns how many it moved.
fn give_back(shared: &Shared, w: &mut Worker, order: u8, n: usize, alarms: &mut Vec<Alarm>) -> usize {
    let mut turn = [0; TURN];
    let (mut moved, mut home) = (0, 0);
    let moving = Moving::begin(shared.lane(w));
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        home = local.home;
        if let Some(list) = local.lists.get_mut(usize::from(order)) {
            moved = list.stack.coldest_into(&mut turn[..n]);
            lane.lists[usize::from(order)].settle(list.stack.len());
        }
    }
    match order {
        0 => shared.put_batch(home, &mut turn[..moved], alarms),
        _ => shared.put(&turn[..moved], alarms),
    }
    moving.end_at_node(moved);
    moved
}

/// Shrinks the worker's tuned lists by an eighth, and its lists of larger blocks by a block. Their excess blocks go to
/// the node.
#[cold]
pub(super) fn decay(shared: &Shared, w: &mut Worker) {
    let mut alarms = Vec::new();
    for order in 0..super::config::ORDERS as u8 {
        let mut rest = shared.locals.enter(w).map_or(0, |mut held| held.lists[usize::from(order)].decay());
        while rest > 0 {
            let moved = give_back(shared, w, order, rest.min(TURN), &mut alarms);
            rest = if moved == 0 { 0 } else { rest - moved };
        }
    }
    decay_large(shared, w, &mut alarms);
    ring(alarms, w);
}

fn decay_large(shared: &Shared, w: &mut Worker, alarms: &mut Vec<Alarm>) {
    let (mut back, mut n) = ([0; LISTS], 0);
    let moving = Moving::begin(shared.lane(w));
    if let Some(mut held) = shared.locals.enter(w) {
        let (lane, local) = held.split();
        local.decay_large(lane, |number| {
            back[n] = number;
            n += 1;
        });
    }
    shared.put(&back[..n], alarms);
    moving.end_at_node(n);
}

/// Makes another node the worker's home. Returns false if the worker belongs to another memory, or the node does not
/// exist.
#[cold]
pub(super) fn set_home(shared: &Shared, w: &mut Worker, node: usize) -> bool {
    let (Some(lane), Some(_)) = (shared.locals.lane(w), shared.nodes.each().get(node)) else { return false };
    let mut back = Vec::new();
    let moving = Moving::begin(lane);
    let (range, mut waits) = (shared.range(node), 0);
    loop {
        if let Some(mut held) = shared.locals.enter(w) {
            held.drain(lane, |number| back.push(number));
            held.set_home(node, range);
            break;
        }
        // A thief is inside, and leaves soon.
        yield_again(&mut waits);
    }
    let before = lane.home.get() as usize;
    shared.nodes.each()[before].hit_before.add_shared(lane.hits().wrapping_sub(lane.hit_before.get()));
    lane.hit_before.set(lane.hits());
    lane.home.set(node as u64);
    let mut alarms = Vec::new();
    shared.put(&back, &mut alarms);
    moving.end_at_node(back.len());
    ring(alarms, w);
    true
}

/// The number of blocks to request from a node. It is 1 without a list for the order, and otherwise a batch, or enough
/// blocks to draw one from.
fn want(shared: &Shared, w: &mut Worker, order: u8) -> usize {
    let Some(mut held) = shared.locals.enter(w) else { return 1 };
    let least = shared.hardened.least();
    held.missed(order, least).min(TURN)
}

/// The worker's home node, then the others.
fn nearest(shared: &Shared, w: &Worker) -> impl Iterator<Item = usize> + use<> {
    let (home, nodes) = (shared.lane(w).home.get() as usize, shared.nodes.each().len());
    (0..nodes).map(move |n| (home + n) % nodes)
}

/// Fetches blocks of one order: as many as fit from the worker's node, or one from another node. If no node has any,
/// drains the lists of all workers and looks again.
fn fetch<'a>(
    shared: &'a Shared,
    w: &Worker,
    order: u8,
    into: &mut [u32],
    alarms: &mut Vec<Alarm>,
) -> Fetched<'a> {
    let mut rounds = if order <= ORDER_MAX { ROUNDS } else { 0 };
    let granted = shared.granted(into.len());
    if granted == 0 {
        rounds = 0;
    }
    while rounds > 0 {
        rounds -= 1;
        let returned = returned(shared);
        for (near, node) in nearest(shared, w).enumerate() {
            let want = if near == 0 { granted } else { 1 };
            let moving = Moving::begin(shared.lane(w));
            let got = shared.take(node, order, false, &mut into[..want], alarms);
            if got > 0 {
                count(shared, w, 1, |lane| &lane.missed);
                count_node(shared, w, node);
                return Some((got, moving));
            }
        }
        if !drain_all(shared, alarms, returned) {
            break;
        }
    }
    count(shared, w, 1, |lane| &lane.failed);
    None
}

/// Puts blocks of the worker's node into its list, which ends their move. Blocks that the list has no room for (a thief
/// is inside) go back.
fn keep(
    shared: &Shared,
    w: &mut Worker,
    order: u8,
    (numbers, moving): (&[u32], Moving<'_>),
    alarms: &mut Vec<Alarm>,
) {
    let mut kept = 0;
    if !numbers.is_empty()
        && let Some(mut held) = shared.locals.enter(w)
    {
        let (lane, local) = held.split();
        kept = local.keep(order, numbers, lane);
    }
    shared.put(&numbers[kept..], alarms);
    moving.end_at_node(numbers.len() - kept);
}

/// The number of moves from the lists of all workers that have ended at a node; wraps.
fn returned(shared: &Shared) -> u32 {
    shared.locals.slots().map(|slot| slot.gauges().returned()).fold(0, u32::wrapping_add)
}

/// Empties the lists of all workers, also the caller's, into the nodes. It enters as a thief where a list has blocks.
/// Returns whether there were blocks, whether some are being moved, or whether some have come to a node since `before`
/// was counted.
fn drain_all(shared: &Shared, alarms: &mut Vec<Alarm>, before: u32) -> bool {
    let mut found = false;
    for slot in shared.locals.slots() {
        let lane = slot.gauges();
        let (moving, full) = lane.state();
        found |= moving || full;
        if full {
            let moving = Moving::begin(lane);
            let mut back = Vec::new();
            slot.steal(|local| local.drain(lane, |number| back.push(number)));
            shared.put(&back, alarms);
            moving.end_at_node(back.len());
        } else if moving {
            yield_now();
        }
    }
    found || returned(shared) != before
}

/// Adds to a counter of the worker, if statistics are on.
fn count(shared: &Shared, w: &Worker, n: u64, pick: fn(&PageLane) -> &Count) {
    if shared.counts() {
        shared.locals.add(w, n, pick);
    }
}

/// Counts blocks that were given out and were in no list.
fn count_allocated(shared: &Shared, w: &Worker, n: u64) {
    shared.locals.add(w, n, |lane| &lane.allocated);
    count(shared, w, n, |lane| &lane.counted);
}

/// Counts a block that did not come from the worker's home node.
fn count_node(shared: &Shared, w: &Worker, node: usize) {
    let home = shared.lane(w).home.get() as usize;
    if shared.counts() && node != home {
        shared.locals.add(w, 1, |lane| &lane.node_miss);
        shared.nodes.each()[node].miss.add_shared(1);
        shared.nodes.each()[home].foreign.add_shared(1);
    }
}

fn ring(alarms: Vec<Alarm>, w: &mut Worker) {
    Alarm::ring_all(alarms, Some(w));
}
