//! Every interleaving, under loom (and one of them without): a thief against an owner, the last release against the
//! early call.

use super::*;
use crate::page::refs::{Left, Refs};
use crate::page::shared::Shared;
use crate::page::{Lists, SharedPage};
use crate::ring::tests::{model, thread};
use crate::sync::Handle;
use crate::sync::shim::AtomicU32;
use crate::sys::region::Region;
use std::sync::{Arc, OnceLock};

/// A memory of few pages: loom watches every atomic of every descriptor.
fn tiny(pages: usize, workers: usize) -> Memory {
    let region = Region::new(2 << 20, BackingPreference::Small).unwrap();
    let lists = Lists::Fixed { high: 2, batch: 2 };
    let config = MemoryConfig { lists, ..config(2, workers) };
    Memory { shared: Handle::new(&Shared::new(region, pages, &config)) }
}

#[test]
fn who_looks_for_a_page_finds_the_one_that_another_worker_is_putting_into_its_list() {
    model(|| {
        let memory = tiny(16, 2);
        let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
        let held = [3, 2, 1].map(|order| memory.alloc(&mut b, order).unwrap());
        assert_eq!(memory.stats().free, 2, "the first worker's batch is both, and it needs one");
        let other = {
            let memory = memory.clone();
            thread::spawn(move || {
                let page = memory.alloc(&mut a, 0);
                (a, page)
            })
        };
        let ours = memory.alloc(&mut b, 0);
        let (a, theirs) = other.join().unwrap();
        assert!(ours.is_some() && theirs.is_some(), "there was one for each");
        drop((a, b, ours, theirs, held));
    });
}

#[test]
fn who_looks_for_a_page_finds_the_ones_that_leave_a_list_which_is_made_smaller() {
    model(|| {
        let memory = tiny(16, 2);
        let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
        let held = [3, 2, 1].map(|order| memory.alloc(&mut b, order).unwrap());
        let pages = [(); 2].map(|()| memory.alloc(&mut a, 0).unwrap());
        pages.into_iter().for_each(|page| memory.free(&mut a, page));
        let other = {
            let memory = memory.clone();
            thread::spawn(move || memory.set_lists(Lists::Fixed { high: 0, batch: 0 }))
        };
        let pages = [(); 2].map(|()| memory.alloc(&mut b, 0));
        assert!(pages.iter().all(Option::is_some), "there were two");
        other.join().unwrap();
        pages.into_iter().flatten().for_each(|page| memory.free(&mut a, page));
        assert_eq!((memory.stats().free, memory.stats().cached), (2, 0));
        drop((a, b, held));
    });
}

#[test]
fn exactly_one_of_several_releases_is_the_last_and_it_sees_what_all_holders_did() {
    model(|| {
        let refs = Arc::new(AtomicU32::new(0));
        let did: Arc<[AtomicU32; 3]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
        Refs(&refs).begin();
        Refs(&refs).clone_claim();
        let release = |refs: &AtomicU32, did: &[AtomicU32; 3], holder: usize| {
            did[holder].store(1, Relaxed);
            let left = Refs(refs).release();
            if left == Left::Nothing {
                assert!(
                    did.iter().all(|did| did.load(Relaxed) == 1),
                    "the last one sees what the others did"
                );
            }
            left
        };
        let other = {
            let (refs, did) = (Arc::clone(&refs), Arc::clone(&did));
            thread::spawn(move || vec![release(&refs, &did, 0)])
        };
        // This holder makes a third claim of its own, and gives up both.
        Refs(&refs).clone_claim();
        let mut left = vec![release(&refs, &did, 1), release(&refs, &did, 2)];
        left.extend(other.join().unwrap());
        assert_eq!(left.iter().filter(|&&left| left == Left::Nothing).count(), 1);
        assert!(left.contains(&Left::One), "and before it one left one claim");
    });
}

#[test]
fn the_page_goes_to_the_last_release_or_to_the_holder_that_takes_it_back_and_never_to_both() {
    model(|| {
        let refs = Arc::new(AtomicU32::new(0));
        let did = Arc::new(AtomicU32::new(0));
        Refs(&refs).begin();
        Refs(&refs).clone_claim();
        let other = {
            let (refs, did) = (Arc::clone(&refs), Arc::clone(&did));
            thread::spawn(move || {
                did.store(1, Relaxed);
                Refs(&refs).release()
            })
        };
        let taken = Refs(&refs).end();
        if taken {
            assert_eq!(did.load(Relaxed), 1, "what the other holder did is seen");
        }
        let ours = if taken { None } else { Some(Refs(&refs).release()) };
        let theirs = other.join().unwrap();
        let ends = [ours, Some(theirs)].into_iter().filter(|&left| left == Some(Left::Nothing)).count();
        assert_eq!(ends + usize::from(taken), 1);
        assert_eq!(Refs(&refs).count(), 0);
    });
}

#[test]
fn a_shared_page_whose_last_two_claims_go_at_once_is_free_afterwards() {
    model(|| {
        let memory = tiny(16, 1);
        let mut w = memory.worker().unwrap();
        let page = memory.alloc(&mut w, 0).unwrap();
        let claim: SharedPage = page.share(owner(), 3);
        let other = {
            let claim = claim.clone();
            thread::spawn(move || drop(claim))
        };
        claim.release(&mut w);
        other.join().unwrap();
        drop(w);
        assert_eq!(memory.stats().free, 16);
    });
}

fn owner() -> crate::page::OwnerId {
    static OWNER: OnceLock<crate::page::OwnerId> = OnceLock::new();
    *OWNER.get_or_init(|| {
        let owner = crate::page::Owner { release: |_, page, _| Some(page), early: Some(|_, _, _| ()) };
        crate::page::OwnerId::register(owner).unwrap()
    })
}
