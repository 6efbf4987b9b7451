//! Pages with several holders, and their owners.

use super::*;
use crate::page::{Owner, OwnerId, SharedPage};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::thread;

fn freeing() -> OwnerId {
    OwnerId::register(Owner { release: |_, page, _| Some(page), early: None }).unwrap()
}

#[test]
fn the_last_release_frees_the_page_into_the_workers_list() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let owner = freeing();
    for order in [0, 2, 5] {
        let claim = memory.alloc(&mut w, order).unwrap().share(owner, 7);
        let other = claim.clone();
        assert_eq!((claim.bytes().len(), claim.order(), claim.holders()), (4096 << order, order, 2));
        claim.release(&mut w);
        assert_eq!(other.holders(), 1);
        other.release(&mut w);
        let stats = memory.stats();
        assert_eq!(stats.free + stats.cached, stats.total);
    }
    assert!(memory.stats().cached >= 5);
}

#[test]
fn an_owner_may_keep_the_page_and_gets_it_with_its_word_and_contents() {
    static KEPT: Mutex<Option<(Page, u64)>> = Mutex::new(None);
    let keep = |_: Option<&mut Worker>, page: Page, word: u64| {
        *KEPT.lock().unwrap() = Some((page, word));
        None
    };
    let owner = OwnerId::register(Owner { release: keep, early: None }).unwrap();
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let mut page = memory.alloc(&mut w, 1).unwrap();
    page.bytes_mut()[8191] = 9;
    drop(page.share(owner, u64::MAX));
    let (mut page, word) = KEPT.lock().unwrap().take().unwrap();
    page.bytes_mut()[0] = 1;
    assert_eq!((page.bytes()[8191], page.order(), word), (9, 1, u64::MAX));
    let stats = memory.stats();
    assert_eq!(stats.free + stats.cached, stats.total - 2);
    memory.free(&mut w, page);
}

#[test]
fn the_release_call_may_use_the_worker_it_is_given() {
    static MEMORY: Mutex<Option<Memory>> = Mutex::new(None);
    let swap = |w: Option<&mut Worker>, page: Page, _: u64| {
        let memory = MEMORY.lock().unwrap().clone().unwrap();
        let w = w.expect("released with a worker");
        // Goes in and out of the lists of the very worker that is releasing.
        memory.free(w, page);
        memory.alloc(w, 3)
    };
    let owner = OwnerId::register(Owner { release: swap, early: None }).unwrap();
    let memory = memory(2, 1);
    *MEMORY.lock().unwrap() = Some(memory.clone());
    let mut w = memory.worker().unwrap();
    let claim = memory.alloc(&mut w, 0).unwrap().share(owner, 0);
    claim.release(&mut w);
    let stats = memory.stats();
    assert_eq!(stats.free + stats.cached, stats.total, "both the page and the block it was swapped for");
    drop(MEMORY.lock().unwrap().take());
}

#[test]
fn the_early_call_comes_when_one_claim_is_left_and_that_one_may_take_the_page_back() {
    static EARLY: AtomicU64 = AtomicU64::new(0);
    let early = |_: Option<&mut Worker>, number: std::num::NonZeroU32, word: u64| {
        EARLY.store(u64::from(number.get()) << 32 | word, Relaxed);
    };
    let release = |_: Option<&mut Worker>, _: Page, _: u64| unreachable!("the page is taken back before");
    let owner = OwnerId::register(Owner { release, early: Some(early) }).unwrap();
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    for order in [0, 1] {
        let page = memory.alloc(&mut w, order).unwrap();
        let number = u64::from(page.number().get());
        let driver = page.share(owner, 5);
        let stack = [driver.clone(), driver.clone()];
        let driver = driver.into_page().unwrap_err();
        for (i, claim) in stack.into_iter().enumerate() {
            EARLY.store(0, Relaxed);
            claim.release(&mut w);
            assert_eq!(EARLY.load(Relaxed), if i == 1 { number << 32 | 5 } else { 0 });
        }
        let mut page = driver.into_page().unwrap();
        assert_eq!(page.order(), order);
        page.bytes_mut().fill(1);
    }
}

#[test]
fn claims_that_outlive_all_handles_keep_the_memory_and_end_it() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let claims = [
        memory.alloc(&mut w, 0).unwrap().share(freeing(), 0),
        memory.alloc(&mut w, 4).unwrap().share(freeing(), 0),
    ];
    let region = std::sync::Arc::downgrade(memory.region());
    drop(memory);
    assert!(claims.iter().all(|claim| claim.bytes()[0] == 0));
    let [first, second] = claims;
    first.release(&mut w);
    assert!(region.upgrade().is_some());
    second.release(&mut w);
    assert!(region.upgrade().is_none(), "the last release ended the memory");
}

#[test]
fn claims_spread_over_threads_release_the_page_once() {
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    let release = |_: Option<&mut Worker>, page: Page, _: u64| {
        RELEASED.fetch_add(1, Relaxed);
        Some(page)
    };
    let owner = OwnerId::register(Owner { release, early: Some(|_, _, _| ()) }).unwrap();
    let memory = memory(2, 3);
    let rounds = 2000;
    let mut w = memory.worker().unwrap();
    let send = |claim: SharedPage, w: &mut Worker| claim.release(w);
    thread::scope(|scope| {
        let (to, from): (Vec<_>, Vec<_>) = (0..2).map(|_| std::sync::mpsc::sync_channel(16)).unzip();
        for claims in from {
            let memory = &memory;
            scope.spawn(move || {
                let mut w = memory.worker().unwrap();
                claims.into_iter().for_each(|claim: SharedPage| send(claim, &mut w));
            });
        }
        for _ in 0..rounds {
            let claim = memory.alloc(&mut w, 0).unwrap().share(owner, 1);
            to.iter().for_each(|to| to.send(claim.clone()).unwrap());
            send(claim, &mut w);
        }
    });
    assert_eq!(RELEASED.load(Relaxed), rounds);
    drop(w);
    assert_eq!(memory.stats().free, memory.stats().total);
}
