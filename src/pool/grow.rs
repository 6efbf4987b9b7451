//! COLD: finds frames when the owner's cache is empty.
//!
//! It looks in this order: the remote free queue, the depot, new pages (up to the pool's size), and frames that others
//! keep ready ([`Shrinker`](super::Shrinker)). A worker that does not own the pool takes from the depot and from new
//! pages. At last it takes, as a thief, from the owner's cache and the remote free queue. So an allocation fails only
//! if no free frame of the pool exists anywhere, or the owner was paused inside a call for longer than a thief waits
//! (`sync::slot`). The remaining frames are not free: at most those that shrinkers did not give back, and the rest of
//! one frame for each [`Fragments`](super::Fragments).

use super::shared::Shared;
use crate::limits::PAGE_SIZE;
use crate::page::Page;
use crate::sync::shim::lock;
use crate::sync::{Steps, Worker};
use crate::sys::lifo::Lifo;
use std::panic::Location;

/// Pages requested from the page stage at once (page_pool's 64 frames).
const PAGES: usize = 32;
/// Frames that are copied from the depot to the cache at once.
const REFILL: usize = 64;

/// Gets frames for a caller whose cache had too few. Returns how many slots of `into` it filled. `site` is the caller's
/// code location, for tracing.
#[cold]
#[inline(never)]
pub(super) fn alloc(
    shared: &Shared,
    w: &mut Worker,
    into: &mut [u32],
    site: &'static Location<'static>,
) -> usize {
    let mut taken = Taken { shared, into, got: 0 };
    find(&mut taken, w);
    let got = std::mem::take(&mut taken.got);
    drop(taken);
    shared.lanes.add(w, got as u64, |lane| &lane.cold);
    if shared.is_traced() {
        shared.note(&into[..got], site);
    }
    if shared.clears {
        into[..got].iter().for_each(|&id| shared.clear(id));
    }
    if got < into.len() {
        shared.lanes.add(w, 1, |lane| &lane.failed);
    }
    got
}

/// Frames that were taken for an allocation, and are not claimed yet. A drop gives them back: the caller's own code, a
/// shrinker or a pressure callback, may panic.
struct Taken<'a> {
    shared: &'a Shared,
    into: &'a mut [u32],
    got: usize,
}

impl Taken<'_> {
    fn is_short(&self) -> bool {
        self.got < self.into.len()
    }

    /// The slots that are not filled.
    fn rest(&mut self) -> &mut [u32] {
        &mut self.into[self.got..]
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.into[..self.got].iter().for_each(|&id| drop(self.shared.claim(id)));
    }
}

/// Fills the array as long as there are frames anywhere.
fn find(taken: &mut Taken<'_>, w: &mut Worker) {
    let shared = taken.shared;
    taken.got = refill_and_take(shared, w, taken.into);
    let found = taken.got > 0;
    shared.lanes.add(w, 1, |lane| if found { &lane.refills } else { &lane.empty });
    new_and_take(taken, w);
    while taken.is_short() && shared.shrinkers.relieve(w) > 0 {
        let found = refill_and_take(shared, w, taken.rest());
        if found == 0 {
            break;
        }
        taken.got += found;
    }
    if taken.is_short() {
        let stolen = steal(shared, taken.rest());
        shared.lanes.add(w, stolen as u64, |lane| &lane.taken);
        taken.got += stolen;
    }
    if shared.is_unsettled() {
        // A frame that was found on its way to the pool has left with its page, which makes room for another page.
        shared.settle(Some(w));
        new_and_take(taken, w);
    }
}

impl Shared {
    /// Writes 0 into all bytes of a free frame that the caller just took off the pool's lists.
    #[cold]
    pub(super) fn clear(&self, id: u32) {
        let mut frame = self.claim(id);
        frame.clear();
        // The frame belongs to the caller again, as a number.
        frame.into_desc();
    }
}

/// Takes new pages until the array is filled or there are no more.
fn new_and_take(taken: &mut Taken<'_>, w: &mut Worker) {
    let shared = taken.shared;
    while taken.is_short() && new_pages(taken, w) > 0 {
        shared.lanes.add(w, 1, |lane| &lane.slow);
        taken.got += refill_and_take(shared, w, taken.rest());
    }
}

/// Takes frames: the owner fills its cache and takes from it; other workers take from the depot.
fn refill_and_take(shared: &Shared, w: &mut Worker, into: &mut [u32]) -> usize {
    let Some(mut held) = shared.local.enter(w) else {
        let got = shared.take(&mut lock(&shared.depot), into);
        shared.lanes.add(w, got as u64, |lane| &lane.taken);
        return got;
    };
    let (gauges, local) = held.split();
    if local.capacity() == 0 {
        let got = take_past_cache(shared, into);
        gauges.taken.add(got as u64);
        return got;
    }
    let want = local.refill;
    let got = local.stay(gauges, |stack| {
        let mut got = 0;
        while got < into.len() {
            if stack.len() == 0 && refill(shared, stack, want) == 0 {
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

/// Takes frames for an owner without a cache: from the depot, and from the remote free queue if that is not enough.
/// While pages are to leave, the frames on the queue pass the depot in any case: the last frame of a page may be there.
fn take_past_cache(shared: &Shared, into: &mut [u32]) -> usize {
    let mut depot = lock(&shared.depot);
    let got = shared.take(&mut depot, into);
    if depot.closed || (got == into.len() && !depot.has_unwanted()) {
        return got;
    }
    shared.gather(&mut depot);
    got + shared.take(&mut depot, &mut into[got..])
}

/// Fills an empty cache up to `want` frames. Returns how many frames it has now.
fn refill(shared: &Shared, stack: &mut Lifo<u32>, want: usize) -> usize {
    shared.remote_free.pop_ring(want, |ids| {
        stack.extend(ids, |&id| id);
    });
    if stack.len() < want {
        let mut depot = lock(&shared.depot);
        shared.remote_free.pop_stack(shared.frame_table.links(), |id| shared.put(&mut depot, id));
        let mut ids = [0; REFILL];
        while stack.len() < want {
            let most = REFILL.min(want - stack.len());
            let n = shared.take(&mut depot, &mut ids[..most]);
            stack.extend(&ids[..n], |&id| id);
            if n < most {
                break;
            }
        }
    }
    stack.len()
}

/// Takes pages in bulk, as far as the pool's limit and the memory allow. Their frames go to the depot. Returns the
/// number of pages.
///
/// Pages that are not to be kept are used before other code finds them free. The caller gets the frames that it wants
/// from them here, behind the frames that it has.
fn new_pages(taken: &mut Taken<'_>, w: &mut Worker) -> usize {
    let shared = taken.shared;
    let want = {
        let depot = lock(&shared.depot);
        let wanted = taken.rest().len().div_ceil(shared.per_page());
        let most = if depot.takes_singly() { wanted } else { PAGES };
        most.min(PAGES).min(depot.limit.saturating_sub(depot.pages.len()))
    };
    let mut pages: [Option<Page>; PAGES] = [const { None }; PAGES];
    take_pages(shared, w, &mut pages[..want]);
    let mut mapped = Mapped::new(shared, &mut pages);
    let mut depot = lock(&shared.depot);
    // Another worker may have grown or closed the pool in the meantime: pages without room go back.
    let room = if depot.closed { 0 } else { depot.limit.saturating_sub(depot.pages.len()) };
    let before = depot.spare.len();
    let admitted = mapped.by_ref().take(room).map(|page| shared.admit(&mut depot, page)).count();
    shared.shuffle(&mut depot, before);
    let singly = depot.takes_singly();
    let direct = if singly { shared.take(&mut depot, taken.rest()) } else { 0 };
    drop(depot);
    shared.lanes.add(w, direct as u64, |lane| &lane.taken);
    taken.got += direct;
    drop(mapped);
    shared.memory.free_bulk(w, &mut pages);
    if singly {
        shared.settle(Some(w));
    }
    admitted
}

/// Pages that the pool's device can access, and that do not belong to the pool yet. A drop unmaps those that did not
/// enter the pool, also after a panic of the mapper, and leaves them in their slots.
///
/// Invariant: the pages up to `end` are mapped, and before `next` there are none.
struct Mapped<'a> {
    shared: &'a Shared,
    pages: &'a mut [Option<Page>],
    next: usize,
    end: usize,
}

impl<'a> Mapped<'a> {
    /// Maps the pages, the first ones first, until there are no more or the device cannot have one.
    fn new(shared: &'a Shared, pages: &'a mut [Option<Page>]) -> Mapped<'a> {
        let mut mapped = Mapped { shared, pages, next: 0, end: 0 };
        while let Some(Some(page)) = mapped.pages.get(mapped.end)
            && shared.dma.map(&shared.memory, page)
        {
            mapped.end += 1;
        }
        mapped
    }
}

impl Iterator for Mapped<'_> {
    type Item = Page;

    fn next(&mut self) -> Option<Page> {
        let page = self.pages[..self.end].get_mut(self.next)?.take();
        self.next += 1;
        page
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let mut steps = Steps::new();
        for page in self.pages[..self.end].iter().flatten() {
            steps.run(|| self.shared.dma.unmap(&self.shared.memory, page));
        }
        steps.end();
    }
}

/// Fills `pages` as long as the memory has pages. If it has none and the pool may use the reserve, takes one page from
/// there.
fn take_pages(shared: &Shared, w: &mut Worker, pages: &mut [Option<Page>]) {
    let order = (shared.frame_size / PAGE_SIZE).max(1).ilog2() as u8;
    if order == 0 {
        shared.memory.alloc_bulk(w, pages);
    } else {
        for place in &mut *pages {
            *place = shared.memory.alloc(w, order);
            if place.is_none() {
                // Each attempt in vain looks at the lists of all workers.
                break;
            }
        }
    }
    if let Some(first @ None) = pages.first_mut()
        && shared.urgent
    {
        *first = shared.memory.alloc_with_reserve(w, order);
    }
}

/// Moves the frames of the owner's cache and of the remote free queue to the depot, as a thief. Then fills `into` from
/// the depot.
fn steal(shared: &Shared, into: &mut [u32]) -> usize {
    let slot = shared.local.slot();
    let found = slot.steal(|local| {
        let mut depot = lock(&shared.depot);
        if depot.closed {
            return 0;
        }
        local.stay(slot.gauges(), |stack| stack.drain(|id| shared.put(&mut depot, id)));
        shared.gather(&mut depot);
        shared.take(&mut depot, into)
    });
    found.unwrap_or(0)
}
