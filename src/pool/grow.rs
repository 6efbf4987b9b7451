//! COLD: where frames come from when the owner's cache is empty.
//!
//! In this order: the way home, the stock, new pages (up to the pool's size), what others keep ready
//! ([`Pressure`](super::Pressure)). Who does not own the pool takes from the stock and from new pages, and at last, as a
//! thief, from the owner's cache and the way home: an allocation fails only when no free frame of the pool exists
//! anywhere. What is stranded then is not free: at most what keepers did not give back, and the rest of one frame for
//! each [`Fragments`](super::Fragments).

use super::shared::{Shared, Stock};
use crate::limits::PAGE_SIZE;
use crate::page::Page;
use crate::sync::shim::lock;
use crate::sync::{Lifo, Worker};

/// Pages asked of the page stage at once (page_pool's 64 frames).
const PAGES: usize = 32;

/// Gets frames for a caller who found the cache short; returns how many of `into` it filled.
#[cold]
#[inline(never)]
pub(super) fn alloc(shared: &Shared, w: &mut Worker, into: &mut [u32]) -> usize {
    let mut got = refill_and_take(shared, w, into);
    while got < into.len() && new_pages(shared, w) > 0 {
        got += refill_and_take(shared, w, &mut into[got..]);
    }
    while got < into.len() && shared.relieve(w) > 0 {
        let found = refill_and_take(shared, w, &mut into[got..]);
        if found == 0 {
            break;
        }
        got += found;
    }
    if got < into.len() {
        let stolen = steal(shared, &mut into[got..]);
        shared.lanes.add(w, stolen as u64, |lane| &lane.taken);
        got += stolen;
    }
    if got < into.len() {
        shared.lanes.add(w, 1, |lane| &lane.failed);
    }
    got
}

/// The owner fills its cache and takes from it; everybody else takes from the stock.
fn refill_and_take(shared: &Shared, w: &mut Worker, into: &mut [u32]) -> usize {
    let Some(mut held) = shared.local.enter(w) else {
        let got = lock(&shared.stock).take(into);
        shared.lanes.add(w, got as u64, |lane| &lane.taken);
        return got;
    };
    let (gauges, local) = held.split();
    let got = local.stay(gauges, |stack| {
        let mut got = 0;
        while got < into.len() {
            if stack.len() == 0 && refill(shared, stack) == 0 {
                break;
            }
            let hot = stack.pop_slice(into.len() - got);
            into[got..got + hot.len()].copy_from_slice(hot);
            got += hot.len();
        }
        got
    });
    gauges.taken.add(got as u64);
    got
}

/// Fills an empty cache up to its batch; returns how many frames it has now.
fn refill(shared: &Shared, stack: &mut Lifo<u32>) -> usize {
    let want = stack.batch;
    shared.home.pop_ring(want, |id| {
        stack.push(id);
    });
    if stack.len() < want {
        let mut stock = lock(&shared.stock);
        shared.home.pop_stack(shared.yard.links(), |id| stock.spare.push(id));
        let rest = stock.spare.len() - stock.spare.len().min(want - stack.len());
        for id in stock.spare.drain(rest..) {
            stack.push(id);
        }
    }
    stack.len()
}

/// Takes pages in bulk, as far as the pool's size and the memory allow; their frames go to the stock. Returns
/// how many pages.
fn new_pages(shared: &Shared, w: &mut Worker) -> usize {
    let per_page = (PAGE_SIZE / shared.frame_size).max(1);
    let order = (shared.frame_size / PAGE_SIZE).max(1).ilog2() as u8;
    let most = shared.frames / per_page;
    let want = PAGES.min(most - lock(&shared.stock).pages.len());
    let mut pages: [Option<Page>; PAGES] = [const { None }; PAGES];
    if order == 0 {
        shared.memory.alloc_bulk(w, &mut pages[..want]);
    } else {
        pages[..want].iter_mut().for_each(|place| *place = shared.memory.alloc(w, order));
    }
    let mut stock = lock(&shared.stock);
    // Another worker may have grown or closed the pool meanwhile: what has no room goes back.
    let room = if stock.closed { 0 } else { most - stock.pages.len() };
    let entered = pages
        .iter_mut()
        .filter_map(Option::take)
        .take(room)
        .map(|page| enter(shared, &mut stock, page))
        .count();
    drop(stock);
    shared.memory.free_bulk(w, &mut pages);
    entered
}

/// A page becomes the pool's: mapped for its device, its frames counted and put into the stock.
fn enter(shared: &Shared, stock: &mut Stock, page: Page) {
    shared.dma.map(&shared.memory, &page);
    let mut frames = 0;
    shared.each_frame(&page, |id| {
        shared.yard.set_home(id, shared.number);
        stock.spare.push(id.get());
        frames += 1;
    });
    shared.inflight.hold(frames);
    stock.pages.push(page);
}

/// As a thief: what the owner's cache and the way home hold goes to the stock, then `into` is filled from it.
fn steal(shared: &Shared, into: &mut [u32]) -> usize {
    let slot = shared.local.slot();
    let found = slot.steal(|local| {
        let mut stock = lock(&shared.stock);
        if stock.closed {
            return 0;
        }
        local.stay(slot.gauges(), |stack| stack.drain(|id| stock.spare.push(id)));
        while shared.home.pop_ring(usize::MAX, |id| stock.spare.push(id)) > 0 {}
        shared.home.pop_stack(shared.yard.links(), |id| stock.spare.push(id));
        stock.take(into)
    });
    found.unwrap_or(0)
}
