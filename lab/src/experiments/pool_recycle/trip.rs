//! A page out and the oldest one back, in each of the ways.

use std::cell::RefCell;
use std::collections::VecDeque;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, Page};
use netmem::pool::{DmaMap, Frame, Pool, PoolConfig, Recycle};
use netmem::sync::Worker;

use super::{CACHE, PAGES, Scene};
use crate::bench::SetUpError;

/// Who keeps pages that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// A pool whose owner frees.
    Pool(Recycle),
    /// A pool that recycles; another worker frees, so that frames come home by its ring.
    FreedElsewhere,
    /// The page stage alone.
    NoPool,
}

/// What a way has to say at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Allocations for which there was no page.
    pub(super) refused: u64,
    /// Pages whose bytes were not those written.
    pub(super) spoilt: u64,
    /// Pages that were not home when all had been freed.
    pub(super) missing: u64,
    /// Frames that left the pool with their pages.
    pub(super) left: u64,
}

/// What is out, oldest first.
enum Out<'a> {
    Frames { pool: Pool, held: VecDeque<Frame>, freed_by: &'a RefCell<Worker> },
    Pages { memory: &'a Memory, held: VecDeque<Page> },
}

/// Allocations by `worker`, with a fixed number out.
pub(super) struct Trip<'a> {
    worker: &'a RefCell<Worker>,
    out: Out<'a>,
    account: Account,
}

impl<'a> Trip<'a> {
    /// A pool of its own, or none, with `held` pages out.
    pub(super) fn new(
        scene: &'a Scene<'a>,
        keeps: Keeps,
        dma: DmaMap,
        held: usize,
    ) -> Result<Self, SetUpError> {
        let Scene { memory, worker, other, .. } = *scene;
        let (recycle, freed_by) = match keeps {
            Keeps::NoPool => {
                let out = Out::Pages { memory, held: VecDeque::with_capacity(held + 1) };
                return Ok(Self::filled(worker, out, held));
            }
            Keeps::Pool(recycle) => (recycle, worker),
            Keeps::FreedElsewhere => (Recycle::Pool, other),
        };
        let config = PoolConfig {
            name: "recycle".to_owned(),
            frames: PAGES,
            frame_size: PAGE_SIZE,
            cache: CACHE,
            dma,
            recycle,
            ..PoolConfig::default()
        };
        let pool = Pool::new(memory, &mut worker.borrow_mut(), &config).map_err(SetUpError::at("pool"))?;
        let out = Out::Frames { pool, held: VecDeque::with_capacity(held + 1), freed_by };
        Ok(Self::filled(worker, out, held))
    }

    /// With `count` out.
    fn filled(worker: &'a RefCell<Worker>, mut out: Out<'a>, count: usize) -> Self {
        let mut account = Account::default();
        let w = &mut *worker.borrow_mut();
        match &mut out {
            Out::Frames { pool, held, .. } => {
                (0..count).for_each(|_| keep(pool.alloc(w), held, &mut account));
            }
            Out::Pages { memory, held } => {
                (0..count).for_each(|_| keep(memory.alloc(w, 0), held, &mut account));
            }
        }
        Self { worker, out, account }
    }

    /// `ops` turns: a page out, the oldest back.
    #[inline(never)]
    pub(super) fn run(&mut self, ops: u32) {
        let Self { worker, out, account } = self;
        match out {
            Out::Frames { pool, held, freed_by } if std::ptr::eq(*worker, *freed_by) => {
                let w = &mut *worker.borrow_mut();
                turns(ops, held, account, w, |w| pool.alloc(w), |w, frame| pool.free(w, frame));
            }
            Out::Frames { pool, held, freed_by } => {
                let w = &mut *worker.borrow_mut();
                let other = &mut *freed_by.borrow_mut();
                turns(ops, held, account, w, |w| pool.alloc(w), |_, frame| frame.free(other));
            }
            Out::Pages { memory, held } => {
                let w = &mut *worker.borrow_mut();
                turns(ops, held, account, w, |w| memory.alloc(w, 0), |w, page| memory.free(w, page));
            }
        }
    }

    /// Writes a number of its own into everything that is out, reads it back and frees it.
    pub(super) fn settle(self) -> Account {
        let Self { worker, out, mut account } = self;
        let w = &mut *worker.borrow_mut();
        match out {
            Out::Frames { pool, mut held, .. } => {
                for (frame, number) in held.iter_mut().zip(0_u64..) {
                    if let Ok(room) = frame.put(8) {
                        room.copy_from_slice(&number.to_le_bytes());
                    }
                }
                let spoilt = |(frame, number): &(&Frame, u64)| frame.data() != number.to_le_bytes();
                account.spoilt = held.iter().zip(0_u64..).filter(spoilt).count() as u64;
                held.into_iter().for_each(|frame| frame.free(w));
                let ledger = pool.ledger();
                account.left = pool.stats().released;
                account.missing = u64::from(!(ledger.balanced() && ledger.all_home()));
            }
            Out::Pages { memory, mut held } => {
                for (page, number) in held.iter_mut().zip(0_u64..) {
                    page.bytes_mut()[..8].copy_from_slice(&number.to_le_bytes());
                }
                let spoilt = |(page, number): &(&Page, u64)| page.bytes()[..8] != number.to_le_bytes();
                account.spoilt = held.iter().zip(0_u64..).filter(spoilt).count() as u64;
                held.into_iter().for_each(|page| memory.free(w, page));
            }
        }
        account
    }
}

fn keep<T>(one: Option<T>, held: &mut VecDeque<T>, account: &mut Account) {
    match one {
        Some(one) => held.push_back(one),
        None => account.refused += 1,
    }
}

/// With nothing held what came goes back at once, without a queue between.
#[inline(always)]
fn turns<T>(
    ops: u32,
    held: &mut VecDeque<T>,
    account: &mut Account,
    w: &mut Worker,
    mut alloc: impl FnMut(&mut Worker) -> Option<T>,
    mut free: impl FnMut(&mut Worker, T),
) {
    let straight = held.is_empty();
    for _ in 0..ops {
        let Some(one) = alloc(w) else {
            account.refused += 1;
            continue;
        };
        std::hint::black_box(());
        if straight {
            free(w, one);
            continue;
        }
        held.push_back(one);
        if let Some(oldest) = held.pop_front() {
            free(w, oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::clock::Tsc;
    use netmem::page::MemoryConfig;

    /// The account of a thousand turns with `held` out, `spoil` having had its way with what was out.
    fn account(keeps: Keeps, held: usize) -> Account {
        let config = MemoryConfig { bytes: 2 * PAGES * PAGE_SIZE, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let [worker, other] = [(); 2].map(|()| RefCell::new(memory.worker().unwrap()));
        let effort = crate::bench::Effort { rounds: 1, windows: 1 };
        let scene = Scene { memory: &memory, worker: &worker, other: &other, clock: &Tsc::new(), effort };
        let mut trip = Trip::new(&scene, keeps, DmaMap::Umem, held).unwrap();
        trip.run(3_000);
        trip.settle()
    }

    #[test]
    fn the_pool_keeps_its_pages_however_many_are_held_and_wherever_they_are_freed() {
        for keeps in [Keeps::Pool(Recycle::Pool), Keeps::FreedElsewhere, Keeps::NoPool] {
            for held in [0, 64, 1_024] {
                assert_eq!(account(keeps, held), Account::default(), "{keeps:?}, {held} held");
            }
        }
    }

    #[test]
    fn the_older_trick_recycles_until_more_is_held_than_its_queue_is_long() {
        assert_eq!(account(Keeps::Pool(Recycle::Head), 64), Account::default());
        let turned = account(Keeps::Pool(Recycle::Head), 1_024);
        assert!(turned.left > 1_000, "{turned:?}");
        assert_eq!(turned, Account { left: turned.left, ..Account::default() });
    }

    #[test]
    fn without_recycling_every_page_leaves() {
        let account = account(Keeps::Pool(Recycle::Never), 64);
        assert_eq!(account, Account { left: account.left, ..Account::default() });
        assert!(account.left >= 3_000, "{account:?}");
    }

    #[test]
    fn what_cannot_be_had_is_counted() {
        let account = account(Keeps::Pool(Recycle::Pool), PAGES + 7);
        assert!(account.refused >= 7, "{account:?}");
    }
}
