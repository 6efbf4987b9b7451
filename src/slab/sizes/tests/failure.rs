//! When there is no memory.

use super::{Held, all_back, free, memory, sizes};
use crate::page::Memory;
use crate::rounds::stride;
use crate::slab::SizeClasses;

/// A scenario of allocations, a resize and a mixed bulk; says how many of them failed.
fn scenario(memory: &Memory, sizes: &SizeClasses) -> usize {
    let mut w = memory.worker().unwrap();
    let lens = [20, 300, 9000, 5000, 64, 40_000, 2048, 8, 100];
    let mut held = Vec::new();
    for (i, len) in lens.into_iter().enumerate() {
        held.extend(sizes.alloc(&mut w, len).map(|at| Held::fill(at, len, i as u8)));
    }
    let mut failed = lens.len() - held.len();
    for one in &mut held {
        let len = one.len * 3;
        // SAFETY: the test's own.
        match unsafe { sizes.resize(&mut w, one.at, len) }.unwrap() {
            Some(at) => {
                assert!(Held { at, ..*one }.whole(), "contents intact");
                *one = Held::fill(at, len, one.byte);
            }
            None => failed += 1,
        }
    }
    assert!(held.iter().all(Held::whole), "contents intact");
    let mut all: Vec<_> = held.iter().map(|held| held.at).collect();
    // SAFETY: the test's own, each once.
    unsafe { sizes.free_bulk(&mut w, &mut all) }.unwrap();
    failed
}

#[test]
fn whichever_request_for_pages_fails_nothing_else_is_lost_or_spoilt() {
    let failures: Vec<usize> = (0..400)
        .step_by(stride(57))
        .map(|n| {
            let memory = memory(4, 1);
            let sizes = sizes(&memory);
            memory.refuse(n);
            let failed = scenario(&memory, &sizes);
            drop(sizes);
            all_back(&memory);
            failed
        })
        .collect();
    assert!(failures.iter().all(|&failed| failed <= 1), "{failures:?}");
    assert!(failures.contains(&1), "a request was refused: {failures:?}");
    assert_eq!(failures.last(), Some(&0), "more requests than the scenario makes: {failures:?}");
}

#[test]
fn in_however_few_pages_what_does_not_fit_fails_and_nothing_is_lost() {
    let lens = [20, 300, 9000, 5000, 64, 40_000, 2048, 8, 100];
    for pages in (0..40).step_by(stride(13)).chain([64, 128]) {
        let memory = memory(2, 1);
        let mut w = memory.worker().unwrap();
        let mut others: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
        let keep = others.len() - pages;
        others.sort_by_key(|page| page.number());
        others.drain(keep..).for_each(|page| memory.free(&mut w, page));
        let sizes = sizes(&memory);
        let mut held = Vec::new();
        for (i, len) in lens.into_iter().enumerate() {
            if let Some(at) = sizes.alloc(&mut w, len) {
                held.push(Held::fill(at, len, i as u8));
            }
        }
        assert!(pages > 0 || held.is_empty());
        assert!(pages < 128 || held.len() == lens.len(), "{} of {} in {pages} pages", held.len(), lens.len());
        held.drain(..).for_each(|held| free(&sizes, &mut w, held));
        drop((others, sizes, w));
        all_back(&memory);
    }
}
