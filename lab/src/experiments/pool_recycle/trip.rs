//! One page allocated and the oldest one freed, by each of the methods.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use netmem::limits::PAGE_SIZE;
use netmem::page::Page;
use netmem::pool::{DmaMap, Frame, Pool, PoolConfig};
use netmem::sync::Worker;

use super::driver::{KeptByClaim, KeptByOwner, Mapping, OlderTrick, Unkept};
use super::held::{Held, Outstanding};
use super::iommu::Iommu;
use super::{CACHE, PAGES, Scene};
use crate::bench::SetUpError;

/// The method that keeps free pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// A pool whose owner frees.
    Pool,
    /// A pool. Another worker frees, so that frames come back through the remote free queue.
    FreedElsewhere,
    /// A pool whose owner has left: all frames pass its depot, under a lock.
    Orphan,
    /// The same, adopted by the worker that uses it.
    Adopted,
    /// A driver that is called at a page's last release, and keeps it.
    Owner,
    /// A driver with a claim on each page, which is called when no other claim is left.
    Claim,
    /// A driver that checks whether the head of its queue has no other claim.
    Queue,
    /// None: each page is mapped when it is allocated and unmapped when it comes back.
    Nobody,
    /// The page stage alone, without mappings.
    Stage,
}

/// The counts of a method at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Allocations for which there was no page.
    pub(super) refused: u64,
    /// Pages that were given out twice at the same time, or whose bytes are not those written.
    pub(super) corrupted: u64,
    /// Whether a page was not freed, or still mapped, at the end.
    pub(super) missing: u64,
    /// Pages that were unmapped while the method was in use.
    pub(super) left: u64,
}

/// One method to get pages and to give them back.
pub(super) trait Way {
    /// An allocated page or frame.
    type Out;

    /// Runs `ops` turns by `w`: allocates one, and frees the one that comes back for it.
    fn turns(&mut self, ops: u32, held: &mut Held<Self::Out>, account: &mut Account, w: &mut Worker);

    /// Allocates one.
    fn take(&mut self, w: &mut Worker) -> Option<Self::Out>;

    /// Counts the pages that were given out twice or lose what is written to them, frees all, and counts the missing
    /// and unmapped pages.
    fn settle(self, held: VecDeque<Self::Out>, account: &mut Account, w: &mut Worker);
}

/// A method with a fixed number of held pages.
pub(super) struct Trip<'a, W: Way> {
    worker: &'a RefCell<Worker>,
    way: W,
    held: Held<W::Out>,
    account: Account,
}

/// A trip of any method.
pub(super) trait Turns {
    /// Runs this number of turns: allocates a page, and frees the one that comes back for it.
    fn run(&mut self, ops: u32);

    /// Frees all. Returns the counts.
    fn settle(self: Box<Self>) -> Account;
}

/// Makes a method, and allocates the pages that are out.
pub(super) fn trip<'a>(
    scene: &'a Scene<'a>,
    keeps: Keeps,
    map_ns: u32,
    held: Outstanding,
) -> Result<Box<dyn Turns + 'a>, SetUpError> {
    let Scene { memory, worker, other, clock, .. } = *scene;
    let mapping = Mapping::new(*clock, map_ns);
    Ok(match keeps {
        Keeps::Pool => {
            let pool = pool(scene, map_ns, &mut worker.borrow_mut())?;
            filled(worker, Pooled { pool, freed_by: None }, held)
        }
        Keeps::FreedElsewhere => {
            let pool = pool(scene, map_ns, &mut worker.borrow_mut())?;
            filled(worker, Pooled { pool, freed_by: Some(other) }, held)
        }
        Keeps::Orphan | Keeps::Adopted => {
            let mut owner = memory.worker().map_err(SetUpError::at("worker"))?;
            let pool = pool(scene, map_ns, &mut owner)?;
            drop(owner);
            if keeps == Keeps::Adopted && !pool.adopt(&mut worker.borrow_mut()) {
                return Err(SetUpError::at("adopt the pool")("its owner is still there"));
            }
            filled(worker, Pooled { pool, freed_by: None }, held)
        }
        Keeps::Owner => filled(worker, KeptByOwner::new(memory, mapping)?, held),
        Keeps::Claim => filled(worker, KeptByClaim::new(memory, mapping)?, held),
        Keeps::Queue => filled(worker, OlderTrick::new(memory, mapping, CACHE)?, held),
        Keeps::Nobody => filled(worker, Unkept::new(memory, mapping), held),
        Keeps::Stage => filled(worker, Unkept::new(memory, Mapping::new(*clock, 0)), held),
    })
}

fn filled<'a, W: Way + 'a>(
    worker: &'a RefCell<Worker>,
    mut way: W,
    outstanding: Outstanding,
) -> Box<dyn Turns + 'a> {
    let mut account = Account::default();
    let mut held = Held::new(outstanding);
    for _ in 0..outstanding.pages {
        match way.take(&mut worker.borrow_mut()) {
            Some(one) => held.pages.push_back(one),
            None => account.refused += 1,
        }
    }
    Box::new(Trip { worker, way, held, account })
}

impl<W: Way> Turns for Trip<'_, W> {
    #[inline(never)]
    fn run(&mut self, ops: u32) {
        self.way.turns(ops, &mut self.held, &mut self.account, &mut self.worker.borrow_mut());
    }

    fn settle(self: Box<Self>) -> Account {
        let Self { worker, way, held, mut account } = *self;
        way.settle(held.pages, &mut account, &mut worker.borrow_mut());
        account
    }
}

/// If nothing is held, each page is freed at once, without a queue in between.
#[inline(always)]
pub(super) fn turns<T, S>(
    ops: u32,
    held: &mut Held<T>,
    account: &mut Account,
    state: &mut S,
    mut alloc: impl FnMut(&mut S) -> Option<T>,
    mut free: impl FnMut(&mut S, T),
) {
    let straight = held.is_straight();
    for _ in 0..ops {
        let Some(one) = alloc(state) else {
            account.refused += 1;
            continue;
        };
        std::hint::black_box(());
        if straight {
            free(state, one);
            continue;
        }
        if let Some(back) = held.put(one) {
            free(state, back);
        }
    }
}

/// Returns how many of these numbers occur more than once.
pub(super) fn twice(numbers: impl Iterator<Item = u32>) -> u64 {
    let mut seen = BTreeSet::new();
    numbers.filter(|&number| !seen.insert(number)).count() as u64
}

/// Writes a number of its own into each page. Returns how many pages do not hold theirs when all are written.
pub(super) fn corrupted<'p>(pages: impl Iterator<Item = &'p mut Page>) -> u64 {
    let mut pages: Vec<&mut Page> = pages.collect();
    for (page, number) in pages.iter_mut().zip(0_u64..) {
        page.bytes_mut()[..8].copy_from_slice(&number.to_le_bytes());
    }
    let corrupted = |(page, number): &(&mut Page, u64)| page.bytes()[..8] != number.to_le_bytes();
    pages.into_iter().zip(0_u64..).filter(corrupted).count() as u64
}

/// The product's pool, whose pages are mapped once.
struct Pooled<'a> {
    pool: Pool,
    /// The worker that frees, if it is not the pool's owner.
    freed_by: Option<&'a RefCell<Worker>>,
}

fn pool(scene: &Scene<'_>, map_ns: u32, owner: &mut Worker) -> Result<Pool, SetUpError> {
    let dma = if map_ns == 0 { DmaMap::Umem } else { Iommu::map(*scene.clock, map_ns, 0) };
    let config = PoolConfig {
        name: "recycle".to_owned(),
        frames: PAGES,
        frame_size: PAGE_SIZE,
        cache: CACHE,
        dma,
        ..PoolConfig::default()
    };
    Pool::new(scene.memory, owner, &config).map_err(SetUpError::at("pool"))
}

impl Way for Pooled<'_> {
    type Out = Frame;

    fn turns(&mut self, ops: u32, held: &mut Held<Frame>, account: &mut Account, w: &mut Worker) {
        let pool = &self.pool;
        match self.freed_by {
            None => turns(ops, held, account, w, |w| pool.alloc(w), |w, frame| pool.free(w, frame)),
            Some(other) => {
                let other = &mut *other.borrow_mut();
                turns(ops, held, account, w, |w| pool.alloc(w), |_, frame| frame.free(other));
            }
        }
    }

    fn take(&mut self, w: &mut Worker) -> Option<Frame> {
        self.pool.alloc(w)
    }

    fn settle(self, mut held: VecDeque<Frame>, account: &mut Account, w: &mut Worker) {
        for (frame, number) in held.iter_mut().zip(0_u64..) {
            if let Ok(room) = frame.put(8) {
                room.copy_from_slice(&number.to_le_bytes());
            }
        }
        let corrupted = |(frame, number): &(&Frame, u64)| frame.data() != number.to_le_bytes();
        account.corrupted = held.iter().zip(0_u64..).filter(corrupted).count() as u64;
        held.into_iter().for_each(|frame| frame.free(w));
        let ledger = self.pool.ledger();
        account.left = self.pool.stats().released;
        account.missing = u64::from(!(ledger.balanced() && ledger.all_freed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::clock::Tsc;
    use netmem::page::{Memory, MemoryConfig};

    /// Returns the counts of 3,000 turns with `held` pages held.
    fn account(keeps: Keeps, held: usize) -> Account {
        account_of(keeps, Outstanding::in_order(held))
    }

    fn account_of(keeps: Keeps, held: Outstanding) -> Account {
        let config = MemoryConfig { bytes: 2 * PAGES * PAGE_SIZE, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let [worker, other] = [(); 2].map(|()| RefCell::new(memory.worker().unwrap()));
        let effort = crate::bench::Effort { rounds: 1, windows: 1 };
        let scene = Scene { memory: &memory, worker: &worker, other: &other, clock: &Tsc::new(), effort };
        let mut trip = trip(&scene, keeps, 1, held).unwrap();
        trip.run(3_000);
        trip.settle()
    }

    #[test]
    fn pages_are_kept_mapped_however_many_are_held_and_wherever_they_are_freed() {
        for keeps in [Keeps::Pool, Keeps::FreedElsewhere, Keeps::Orphan, Keeps::Adopted, Keeps::Owner] {
            for held in [0, 64, 1_024] {
                assert_eq!(account(keeps, held), Account::default(), "{keeps:?}, {held} held");
            }
        }
    }

    #[test]
    fn the_older_trick_recycles_until_more_is_held_than_its_queue_is_long() {
        assert_eq!(account(Keeps::Queue, 64), Account::default());
        let turned = account(Keeps::Queue, 1_024);
        assert!(turned.left > 1_000, "{turned:?}");
        assert_eq!(turned, Account { left: turned.left, ..Account::default() });
    }

    #[test]
    fn of_a_mix_the_older_trick_unmaps_the_share_that_is_kept() {
        // The pages that are out at first pass the queue too.
        for (percent, range) in [(1, 1_030..1_090), (10, 1_150..1_450), (100, 2_000..3_300)] {
            let held = Outstanding { pages: 1_024, kept_percent: Some(percent) };
            let turned = account_of(Keeps::Queue, held);
            assert!(range.contains(&turned.left), "{percent} %: {turned:?}");
            assert_eq!(turned, Account { left: turned.left, ..Account::default() });
            for keeps in [Keeps::Pool, Keeps::Owner] {
                assert_eq!(account_of(keeps, held), Account::default(), "{keeps:?}, {percent} %");
            }
        }
    }

    #[test]
    fn without_recycling_every_page_leaves() {
        for keeps in [Keeps::Nobody, Keeps::Stage] {
            let account = account(keeps, 64);
            assert_eq!(account, Account { left: 3_000, ..Account::default() }, "{keeps:?}");
        }
    }

    #[test]
    fn allocations_that_fail_are_counted() {
        for keeps in [Keeps::Pool, Keeps::Nobody] {
            let account = account(keeps, 2 * PAGES + 7);
            assert!(account.refused >= 7, "{keeps:?}: {account:?}");
        }
    }

    #[test]
    fn a_page_that_is_out_twice_is_noticed() {
        assert_eq!(twice([3, 4, 3, 5, 3].into_iter()), 2);
    }
}
