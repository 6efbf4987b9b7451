//! The methods of a driver without a pool, each on the page stage itself with nothing else on its path: pages kept
//! by the call at their last release, or at the last but one, as [brouer17-pages] asks for, the older method, and no
//! recycling at all.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use netmem::page::{Memory, Owner, OwnerError, OwnerId, Page, SharedPage};
use netmem::sync::Worker;

use super::held::Held;
use super::trip::{Account, Way, corrupted, turns, twice};
use crate::bench::SetUpError;
use crate::method::clock::{Clock, Tsc};

/// The cost of mapping a page for the device, and the number of mappings. It is a model, which keeps the core busy for
/// this time.
#[derive(Debug)]
pub(super) struct Mapping {
    clock: Tsc,
    ticks: u64,
    mapped: u64,
    unmapped: u64,
}

impl Mapping {
    pub(super) fn new(clock: Tsc, ns: u32) -> Self {
        let ticks = (f64::from(ns) * clock.ticks_per_ns()) as u64;
        Self { clock, ticks, mapped: 0, unmapped: 0 }
    }

    /// Returns a page of the page stage, mapped.
    #[inline(always)]
    fn page(&mut self, memory: &Memory, w: &mut Worker) -> Option<Page> {
        let page = memory.alloc(w, 0)?;
        self.mapped += 1;
        self.spend();
        Some(page)
    }

    #[inline(always)]
    fn unmap(&mut self) {
        self.unmapped += 1;
        self.spend();
    }

    #[inline(always)]
    fn spend(&self) {
        if self.ticks > 0 {
            self.clock.wait(self.ticks);
        }
    }

    /// Ends the method: records the number of pages that were unmapped so far, checks that the `kept` pages keep what
    /// is written to them, unmaps and frees them. After this no page may be mapped.
    fn end(mut self, memory: &Memory, mut kept: Vec<Page>, account: &mut Account, w: &mut Worker) {
        account.corrupted += corrupted(kept.iter_mut());
        account.left = self.unmapped;
        kept.iter().for_each(|_| self.unmap());
        account.missing = u64::from(self.mapped != self.unmapped);
        kept.into_iter().for_each(|page| memory.free(w, page));
    }
}

/// An owner's slot in the process's table, registered once.
type Registered = OnceLock<Result<OwnerId, OwnerError>>;

fn registered(place: &Registered, owner: Owner) -> Result<OwnerId, SetUpError> {
    let owner = place.get_or_init(|| OwnerId::register(owner)).as_ref();
    owner.copied().map_err(SetUpError::at("page owner"))
}

/// Gives a claim up, with the worker that is given.
#[inline(always)]
fn released<W>((_, w): &mut (&mut W, &mut Worker), page: SharedPage) {
    page.release(w);
}

thread_local! {
    /// Pages that came back and stayed mapped, for each method that keeps pages by an owner. A page's word is the
    /// method's index here.
    static RECYCLED: RefCell<Vec<Vec<Page>>> = const { RefCell::new(Vec::new()) };
}

/// Called at a page's last release: puts it onto the list that its word names.
fn keep(_: Option<&mut Worker>, page: Page, word: u64) -> Option<Page> {
    RECYCLED.with_borrow_mut(|lists| match lists.get_mut(word as usize) {
        Some(kept) => {
            kept.push(page);
            None
        }
        None => Some(page),
    })
}

/// A driver whose pages come back to it by the call at their last release, still mapped.
pub(super) struct KeptByOwner<'a> {
    memory: &'a Memory,
    mapping: Mapping,
    owner: OwnerId,
    word: u64,
}

impl<'a> KeptByOwner<'a> {
    pub(super) fn new(memory: &'a Memory, mapping: Mapping) -> Result<Self, SetUpError> {
        static OWNER: Registered = Registered::new();
        let owner = registered(&OWNER, Owner { release: keep, early: None })?;
        let word = RECYCLED.with_borrow_mut(|lists| {
            lists.push(Vec::new());
            lists.len() as u64 - 1
        });
        Ok(Self { memory, mapping, owner, word })
    }
}

impl Way for KeptByOwner<'_> {
    type Out = SharedPage;

    fn turns(&mut self, ops: u32, held: &mut Held<SharedPage>, account: &mut Account, w: &mut Worker) {
        let mut state = (self, w);
        turns(ops, held, account, &mut state, |(way, w)| way.take(w), released);
    }

    #[inline(always)]
    fn take(&mut self, w: &mut Worker) -> Option<SharedPage> {
        let kept = RECYCLED.with_borrow_mut(|lists| lists.get_mut(self.word as usize)?.pop());
        let page = match kept {
            Some(page) => page,
            None => self.mapping.page(self.memory, w)?,
        };
        Some(page.share(self.owner, self.word))
    }

    fn settle(self, held: VecDeque<SharedPage>, account: &mut Account, w: &mut Worker) {
        account.corrupted = twice(held.iter().map(|page| page.number().get()));
        held.into_iter().for_each(|page| page.release(w));
        let kept = RECYCLED.with_borrow_mut(|lists| std::mem::take(&mut lists[self.word as usize]));
        self.mapping.end(self.memory, kept, account, w);
    }
}

thread_local! {
    /// Numbers of pages whose last claim but one was given up, for each method that holds a claim on each of its pages.
    static ALONE: RefCell<Vec<Vec<NonZeroU32>>> = const { RefCell::new(Vec::new()) };
}

/// Called when a release left one claim: puts the page's number onto the list that its word names.
fn note_alone(_: Option<&mut Worker>, page: NonZeroU32, word: u64) {
    ALONE.with_borrow_mut(|lists| {
        if let Some(alone) = lists.get_mut(word as usize) {
            alone.push(page);
        }
    });
}

/// A driver that holds a claim on each of its pages, and is called when it is the only one: the source's separate call
/// at a count of 1. The page has never been released.
pub(super) struct KeptByClaim<'a> {
    memory: &'a Memory,
    mapping: Mapping,
    owner: OwnerId,
    word: u64,
    /// The claims, by page number.
    claims: Vec<Option<SharedPage>>,
}

impl<'a> KeptByClaim<'a> {
    pub(super) fn new(memory: &'a Memory, mapping: Mapping) -> Result<Self, SetUpError> {
        static OWNER: Registered = Registered::new();
        let owner = registered(&OWNER, Owner { release: |_, page, _| Some(page), early: Some(note_alone) })?;
        let word = ALONE.with_borrow_mut(|lists| {
            lists.push(Vec::new());
            lists.len() as u64 - 1
        });
        Ok(Self { memory, mapping, owner, word, claims: Vec::new() })
    }

    /// Returns a page that nobody else has. A number is a hint: its page may have another claim again.
    #[inline(always)]
    fn alone(&mut self) -> Option<Page> {
        let number = ALONE.with_borrow_mut(|lists| lists.get_mut(self.word as usize)?.pop())?;
        let claim = self.claims.get_mut(number.get() as usize)?;
        match claim.take()?.into_page() {
            Ok(page) => Some(page),
            Err(shared) => {
                *claim = Some(shared);
                None
            }
        }
    }
}

impl Way for KeptByClaim<'_> {
    type Out = SharedPage;

    fn turns(&mut self, ops: u32, held: &mut Held<SharedPage>, account: &mut Account, w: &mut Worker) {
        let mut state = (self, w);
        turns(ops, held, account, &mut state, |(way, w)| way.take(w), released);
    }

    #[inline(always)]
    fn take(&mut self, w: &mut Worker) -> Option<SharedPage> {
        let page = match self.alone() {
            Some(page) => page,
            None => self.mapping.page(self.memory, w)?,
        };
        let place = page.number().get() as usize;
        if place >= self.claims.len() {
            self.claims.resize_with(place + 1, || None);
        }
        let mine = page.share(self.owner, self.word);
        let out = mine.clone();
        self.claims[place] = Some(mine);
        Some(out)
    }

    fn settle(self, held: VecDeque<SharedPage>, account: &mut Account, w: &mut Worker) {
        account.corrupted = twice(held.iter().map(|page| page.number().get()));
        held.into_iter().for_each(|page| page.release(w));
        ALONE.with_borrow_mut(|lists| lists[self.word as usize].clear());
        let kept = self.claims.into_iter().flatten().filter_map(|page| page.into_page().ok()).collect();
        self.mapping.end(self.memory, kept, account, w);
    }
}

/// A driver that holds a claim on each page of a queue and checks only the head. If no other claim on that page exists,
/// the page is used again. Otherwise the driver gives its claim up and takes a new page.
pub(super) struct OlderTrick<'a> {
    memory: &'a Memory,
    mapping: Mapping,
    owner: OwnerId,
    depth: usize,
    queue: VecDeque<SharedPage>,
}

impl<'a> OlderTrick<'a> {
    pub(super) fn new(memory: &'a Memory, mapping: Mapping, depth: usize) -> Result<Self, SetUpError> {
        static OWNER: Registered = Registered::new();
        let owner = registered(&OWNER, Owner { release: |_, page, _| Some(page), early: None })?;
        Ok(Self { memory, mapping, owner, depth, queue: VecDeque::with_capacity(depth + 1) })
    }

    /// Returns the head's page if it has no other claim. Otherwise the page leaves the queue, unmapped.
    #[inline(always)]
    fn head(&mut self, w: &mut Worker) -> Option<Page> {
        if self.queue.len() < self.depth {
            return None;
        }
        match self.queue.pop_front()?.into_page() {
            Ok(page) => Some(page),
            Err(shared) => {
                self.mapping.unmap();
                shared.release(w);
                None
            }
        }
    }
}

impl Way for OlderTrick<'_> {
    type Out = SharedPage;

    fn turns(&mut self, ops: u32, held: &mut Held<SharedPage>, account: &mut Account, w: &mut Worker) {
        let mut state = (self, w);
        turns(ops, held, account, &mut state, |(way, w)| way.take(w), released);
    }

    #[inline(always)]
    fn take(&mut self, w: &mut Worker) -> Option<SharedPage> {
        let page = match self.head(w) {
            Some(page) => page,
            None => self.mapping.page(self.memory, w)?,
        };
        let mine = page.share(self.owner, 0);
        let out = mine.clone();
        self.queue.push_back(mine);
        Some(out)
    }

    fn settle(self, held: VecDeque<SharedPage>, account: &mut Account, w: &mut Worker) {
        account.corrupted = twice(held.iter().map(|page| page.number().get()));
        held.into_iter().for_each(|page| page.release(w));
        let kept = self.queue.into_iter().filter_map(|page| page.into_page().ok()).collect();
        self.mapping.end(self.memory, kept, account, w);
    }
}

/// A driver that keeps nothing: every page is mapped when it is taken and unmapped when it comes back.
pub(super) struct Unkept<'a> {
    memory: &'a Memory,
    mapping: Mapping,
}

impl<'a> Unkept<'a> {
    pub(super) fn new(memory: &'a Memory, mapping: Mapping) -> Self {
        Self { memory, mapping }
    }
}

impl Way for Unkept<'_> {
    type Out = Page;

    fn turns(&mut self, ops: u32, held: &mut Held<Page>, account: &mut Account, w: &mut Worker) {
        let free = |(way, w): &mut (&mut Self, &mut Worker), page| {
            way.mapping.unmap();
            way.memory.free(w, page);
        };
        turns(ops, held, account, &mut (self, w), |(way, w)| way.take(w), free);
    }

    #[inline(always)]
    fn take(&mut self, w: &mut Worker) -> Option<Page> {
        self.mapping.page(self.memory, w)
    }

    fn settle(self, held: VecDeque<Page>, account: &mut Account, w: &mut Worker) {
        self.mapping.end(self.memory, held.into(), account, w);
    }
}
