//! List sizes and watermarks that are changed while pages are out and workers at work.

use super::*;
use crate::page::{Lists, MemoryError, Watermarks};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;

fn fixed(high: usize, batch: usize) -> Lists {
    Lists::Fixed { high, batch }
}

#[test]
fn a_list_made_smaller_keeps_its_newest_pages_and_gives_the_others_to_the_node() {
    let memory = memory(8, 2);
    let (mut w, mut sleeper) = (memory.worker().unwrap(), memory.worker().unwrap());
    assert_eq!((memory.list_size(), memory.list_size_max()), ((256, 126), 256));
    for w in [&mut w, &mut sleeper] {
        let mut pages: Vec<Page> = (0..150).map(|_| memory.alloc(w, 0).unwrap()).collect();
        let blocks: Vec<Page> = (0..20).map(|_| memory.alloc(w, 2).unwrap()).collect();
        pages.drain(..).chain(blocks).for_each(|page| memory.free(w, page));
    }
    let newest = memory.alloc(&mut w, 0).unwrap();
    let number = newest.number();
    memory.free(&mut w, newest);
    memory.set_lists(fixed(40, 10));
    assert_eq!((memory.lists(), memory.list_size()), (fixed(40, 10), (40, 10)));
    // 40 single pages, 20 pairs, 10 fours and 5 eights at most.
    assert_eq!(memory.stats().cached, 2 * (40 + 40), "each worker has what fits, also the one that sleeps");
    assert_eq!(memory.alloc(&mut w, 0).map(|page| page.number()), Some(number));
    memory.set_lists(fixed(0, 0));
    assert_eq!(memory.stats().cached, 0);
    drop(memory.alloc(&mut w, 0));
    memory.set_lists(Lists::Linux2021);
    (0..100).map(|_| memory.alloc(&mut w, 0).unwrap()).collect::<Vec<_>>().into_iter().for_each(|page| {
        memory.free(&mut w, page);
    });
    assert!(memory.stats().cached >= 100, "the lists are in use again");
    memory.set_lists(fixed(usize::MAX, usize::MAX));
    assert_eq!(memory.list_size().0, memory.list_size_max());
    assert_eq!(take_all(&memory, &mut w).len() as u64, memory.stats().total);
}

#[test]
fn watermarks_are_set_in_order_or_not_at_all_and_who_asked_is_told_what_begins_by_that() {
    let memory = memory(4, 1);
    let mut w = memory.worker().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    memory.on_pressure(move |_, pressure| tell.lock().unwrap().push((pressure.begins, pressure.free)));
    let marks = |min, low, high| Watermarks { min, low, high };
    for (min, low, high) in [(2, 1, 3), (1, 3, 2), (0, 0, 1025)] {
        let refused = MemoryError::Watermarks { min, low, high, total: 1024 };
        assert_eq!(memory.set_watermarks(marks(min, low, high)), Err(refused));
    }
    assert_eq!(memory.watermarks(), marks(0, 0, 0));
    memory.set_lists(fixed(0, 0));
    let mut held: Vec<Page> = (0..900).map(|_| memory.alloc(&mut w, 0).unwrap()).collect();
    memory.set_watermarks(marks(100, 200, 300)).unwrap();
    assert_eq!(*told.lock().unwrap(), [(true, 124)], "124 are free, fewer than 200");
    held.extend(std::iter::from_fn(|| memory.alloc(&mut w, 0)));
    assert_eq!(held.len(), 924, "the reserve is kept back");
    assert!(memory.alloc_with_reserve(&mut w, 0).is_some_and(|page| page.is_reserve()));
    memory.set_watermarks(marks(50, 60, 70)).unwrap();
    assert_eq!(told.lock().unwrap().last(), Some(&(false, 100)));
    held.extend(std::iter::from_fn(|| memory.alloc(&mut w, 0)));
    assert_eq!(held.len(), 974);
    drop(held);
    assert_eq!(memory.stats().free, 1024);
}

#[test]
fn workers_lose_no_page_while_lists_and_watermarks_are_changed() {
    let memory = memory(8, 3);
    let mut workers = [(); 3].map(|()| memory.worker().unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for w in &mut workers {
            let (memory, done) = (&memory, &done);
            scope.spawn(move || {
                let mut array = places(64);
                while !done.load(Relaxed) {
                    let held: Vec<Page> = (0..60).filter_map(|i| memory.alloc(w, i % 4)).collect();
                    memory.alloc_bulk(w, &mut array);
                    held.into_iter().for_each(|page| memory.free(w, page));
                    memory.free_bulk(w, &mut array);
                }
            });
        }
        for i in 0..crate::rounds::rounds(400) {
            let tuned = Lists::Tuned { least: i % 9, most: i * 7 % 300 };
            memory.set_lists(if i % 3 == 0 { tuned } else { fixed(i * 13 % 300, i % 80) });
            let min = i * 5 % 400;
            memory.set_watermarks(Watermarks { min, low: min, high: min }).unwrap();
            thread::yield_now();
        }
        done.store(true, Relaxed);
    });
    drop(workers);
    assert_eq!((memory.stats().free, memory.stats().cached), (memory.stats().total, 0));
}

#[test]
fn a_bulk_that_makes_pages_scarce_tells_who_asked_as_one_page_does() {
    let memory = memory(4, 1);
    let mut w = memory.worker().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    memory.on_pressure(move |_, pressure| tell.lock().unwrap().push(pressure.begins));
    memory.set_lists(fixed(0, 0));
    memory.set_watermarks(Watermarks { min: 100, low: 200, high: 300 }).unwrap();
    let mut held: Vec<_> = (0..14).map(|_| places(64)).collect();
    let got: usize = held.iter_mut().map(|pages| memory.alloc_bulk(&mut w, pages)).sum();
    assert_eq!((got, told.lock().unwrap().clone()), (896, vec![true]), "128 are free, fewer than 200");
}
