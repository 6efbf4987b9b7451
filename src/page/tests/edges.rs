//! Workers that leave, sleep, or belong to another memory; memories that end with pages out.

use super::*;
use crate::page::{MemoryError, Watermarks};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn a_worker_gets_the_pages_that_lie_in_another_ones_list() {
    let memory = memory(2, 2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let mut all = take_all(&memory, &mut a);
    assert_eq!(all.len() as u64, memory.stats().total);
    all.drain(..40).for_each(|page| memory.free(&mut a, page));
    assert_eq!(memory.stats().cached, 40, "they lie with the first worker");
    assert_eq!(take_all(&memory, &mut b).len(), 40);
}

#[test]
fn a_worker_gets_the_pages_of_one_that_sleeps_and_never_wakes() {
    let memory = memory(2, 2);
    let mut awake = memory.worker().unwrap();
    let mut asleep = memory.worker().unwrap();
    let (wake, never) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let sleeper = {
        let memory = memory.clone();
        thread::spawn(move || {
            let pages = take_all(&memory, &mut asleep);
            pages.into_iter().for_each(|page| memory.free(&mut asleep, page));
            tell.send(()).unwrap();
            // Sleeps in the kernel with full lists until the test is over.
            never.recv().unwrap_err();
        })
    };
    told.recv().unwrap();
    assert!(memory.stats().cached > 0);
    assert_eq!(take_all(&memory, &mut awake).len() as u64, memory.stats().total);
    drop(wake);
    sleeper.join().unwrap();
}

#[test]
fn a_bulk_takes_all_there_is_anywhere_and_says_how_many() {
    let memory = memory(2, 2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let mut out = take_all(&memory, &mut a);
    out.drain(..77).for_each(|page| memory.free(&mut a, page));
    let mut pages = places(128);
    assert_eq!(memory.alloc_bulk(&mut b, &mut pages), 77);
    assert!(pages[..77].iter().all(Option::is_some) && pages[77..].iter().all(Option::is_none));
}

#[test]
fn a_bulk_that_finds_too_little_keeps_what_it_found() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let mut held = take_all(&memory, &mut w);
    held.truncate(held.len() - 50);
    let mut pages = places(128);
    assert_eq!(memory.alloc_bulk(&mut w, &mut pages), 50);
    assert!(pages[..50].iter().all(Option::is_some) && pages[50..].iter().all(Option::is_none));
    assert_eq!(memory.alloc_bulk(&mut w, &mut pages), 0);
}

#[test]
fn a_worker_that_ends_with_full_lists_gives_everything_back() {
    let memory = memory(8, 2);
    let mut w = memory.worker().unwrap();
    for order in 0..=3 {
        let blocks: Vec<Page> = (0..20).map_while(|_| memory.alloc(&mut w, order)).collect();
        blocks.into_iter().for_each(|block| memory.free(&mut w, block));
    }
    assert!(memory.stats().cached > 100);
    drop(w);
    assert_eq!((memory.stats().cached, memory.stats().free), (0, memory.stats().total));
}

#[test]
fn a_full_block_can_be_made_again_after_all_its_pages_were_scattered_over_lists() {
    let memory = memory(4, 2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    for (i, page) in take_all(&memory, &mut a).into_iter().enumerate() {
        memory.free(if i % 2 == 0 { &mut a } else { &mut b }, page);
    }
    assert_eq!(memory.alloc(&mut a, 10).map(|page| page.order()), Some(10));
}

#[test]
fn where_no_large_block_is_left_a_single_page_is_given() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    assert_eq!(memory.alloc_or_single(&mut w, 3).map(|page| page.order()), Some(3));
    let mut all = take_all(&memory, &mut w);
    // Every second page: no two neighbours are free.
    all.sort_by_key(Page::number);
    let odd: Vec<Page> =
        all.into_iter().enumerate().filter_map(|(i, page)| (i % 2 == 1).then_some(page)).collect();
    assert!(memory.alloc(&mut w, 3).is_none());
    let single = memory.alloc_or_single(&mut w, 3).unwrap();
    assert_eq!((single.order(), single.bytes().len()), (0, 4096));
    drop(odd);
}

#[test]
fn two_workers_of_whom_one_allocates_and_the_other_frees_keep_memory_within_its_bound_and_give_it_back() {
    const OUT: usize = 64;
    let memory = memory(8, 2);
    let total = memory.stats().total;
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    for _ in 0..2 {
        let [a, b] = &mut workers;
        let (send, receive) = mpsc::sync_channel::<Page>(OUT);
        thread::scope(|scope| {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..crate::rounds::rounds(40_000) {
                    send.send(memory.alloc(a, 0).expect("within its bound")).unwrap();
                }
            });
            scope.spawn(move || receive.into_iter().for_each(|page| memory.free(b, page)));
        });
        let stats = memory.stats();
        assert_eq!(stats.free + stats.cached, total, "all are free again");
        assert!(stats.cached <= total / 2, "{} of {total} pages lie with workers", stats.cached);
        workers.swap(0, 1);
    }
    drop(workers);
    assert_eq!(memory.stats().free, total, "as at the beginning");
}

#[test]
fn pages_of_the_reserve_say_so_until_they_are_free_again() {
    let watermarks = Watermarks { min: 100, low: 200, high: 300 };
    let memory = Memory::new(&MemoryConfig { watermarks, ..config(2, 1) }).unwrap();
    let mut w = memory.worker().unwrap();
    let heard: Arc<Mutex<Vec<_>>> = Arc::default();
    let ear = Arc::clone(&heard);
    memory.on_pressure(move |_, pressure| ear.lock().unwrap().push((pressure.begins, pressure.free)));
    let mut all = take_all(&memory, &mut w);
    assert_eq!(all.len() as u64, memory.stats().total - 100);
    assert!(all.iter().all(|page| !page.is_reserve()));
    let urgent: Vec<Page> = std::iter::from_fn(|| memory.alloc_with_reserve(&mut w, 0)).collect();
    assert_eq!((urgent.len(), urgent.iter().filter(|page| page.is_reserve()).count()), (100, 100));
    assert!(urgent.iter().all(|page| page.order() == 0 && page.bytes().len() == 4096));
    urgent.into_iter().for_each(|page| memory.free(&mut w, page));
    assert_eq!((memory.stats().cached, memory.stats().free), (0, 100), "the reserve is filled first");
    assert!(memory.alloc(&mut w, 0).is_none());
    all.drain(..).for_each(|page| memory.free(&mut w, page));
    drop(w);
    let mut w = memory.worker().unwrap();
    assert!(take_all(&memory, &mut w).iter().all(|page| !page.is_reserve()), "the mark is gone");
    let heard = heard.lock().unwrap();
    assert!(heard[0].0 && (100..200).contains(&heard[0].1), "{heard:?}");
    assert!(!heard[1].0 && heard[1].1 >= 300, "{heard:?}");
}

#[test]
fn who_is_told_of_pressure_may_free_pages_at_once() {
    let watermarks = Watermarks { min: 10, low: 100, high: 150 };
    let memory = Memory::new(&MemoryConfig { watermarks, ..config(2, 1) }).unwrap();
    let mut w = memory.worker().unwrap();
    let spare: Vec<Page> = (0..120).map_while(|_| memory.alloc(&mut w, 0)).collect();
    let spare = Mutex::new(spare);
    memory.on_pressure(move |_, pressure| {
        let give: Vec<Page> =
            if pressure.begins { std::mem::take(&mut *spare.lock().unwrap()) } else { Vec::new() };
        drop(give);
    });
    let all = take_all(&memory, &mut w);
    assert_eq!(all.len() as u64, memory.stats().total - 10, "the spare pages were given out as well");
}

#[test]
fn a_page_out_keeps_the_memory_after_its_last_handle() {
    for nodes in [1, 2] {
        let memory = Memory::new(&MemoryConfig { nodes, ..config(8, 2) }).unwrap();
        let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
        let mut pages: Vec<Page> = workers.iter_mut().map(|w| memory.alloc(w, 1).unwrap()).collect();
        let region = Arc::downgrade(memory.region());
        drop(memory);
        for page in &mut pages {
            page.bytes_mut().fill(0xa5);
            assert!(page.bytes().iter().all(|&b| b == 0xa5));
        }
        drop(workers);
        drop(pages.pop());
        assert!(region.upgrade().is_some(), "one page is out");
        drop(pages);
        assert!(region.upgrade().is_none(), "the last page took the memory with it");
    }
}

#[test]
fn a_page_freed_into_another_memory_goes_home_to_its_own() {
    let (ours, theirs) = (memory(2, 1), memory(2, 1));
    let (mut w, mut v) = (ours.worker().unwrap(), theirs.worker().unwrap());
    let mut pages = places(2);
    assert_eq!(ours.alloc_bulk(&mut w, &mut pages), 2);
    theirs.free(&mut v, pages[0].take().unwrap());
    theirs.free_bulk(&mut v, &mut pages);
    assert_eq!(theirs.stats().cached, 0);
    drop(w);
    assert_eq!(ours.stats().free, ours.stats().total);
}

#[test]
fn a_worker_of_another_memory_gets_pages_by_the_shared_way() {
    let (ours, theirs) = (memory(2, 1), memory(2, 1));
    let mut foreign = theirs.worker().unwrap();
    let page = ours.alloc(&mut foreign, 0).unwrap();
    ours.free(&mut foreign, page);
    let mut pages = places(5);
    assert_eq!(ours.alloc_bulk(&mut foreign, &mut pages), 5);
    ours.free_bulk(&mut foreign, &mut pages);
    assert!(!ours.set_home_node(&mut foreign, 0));
    assert_eq!(ours.stats().free, ours.stats().total);
}

#[test]
fn zero_and_too_many_workers_are_refused() {
    for workers in [0, 65] {
        let made = Memory::new(&MemoryConfig { workers, ..MemoryConfig::default() });
        assert_eq!(made.err(), Some(MemoryError::Workers { workers }));
    }
}

#[test]
fn a_page_is_four_bytes_and_so_is_a_place_for_one() {
    assert_eq!((size_of::<Page>(), size_of::<Option<Page>>()), (4, 4));
}

#[test]
#[cfg(feature = "statistics")]
fn node_visits_count_only_while_statistics_are_on_and_what_is_given_out_and_taken_back_always() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let mut turn = || {
        let mut pages = places(10);
        memory.alloc_bulk(&mut w, &mut pages);
        memory.free_bulk(&mut w, &mut pages);
        let page = memory.alloc(&mut w, 0).unwrap();
        memory.free(&mut w, page);
        let stats = memory.stats();
        (stats.allocated, stats.freed, stats.node_hit, stats.missed)
    };
    assert_eq!(turn(), (11, 11, 11, 1));
    memory.set_statistics(false);
    assert_eq!(turn(), (22, 22, 11, 1));
    memory.set_statistics(true);
    assert_eq!(turn(), (33, 33, 22, 1));
}

#[test]
fn descriptors_take_what_their_layout_says() {
    use crate::page::DescriptorSize::{Bytes56, Bytes64, Compact};
    for (descriptor, bytes) in [(Compact, 32), (Bytes56, 56), (Bytes64, 64)] {
        let memory = Memory::new(&MemoryConfig { descriptor, ..config(2, 1) }).unwrap();
        assert_eq!(memory.descriptor_bytes(), 512 * bytes);
    }
}

#[test]
fn a_memory_of_which_nothing_is_said_has_64_mib_for_four_workers() {
    let MemoryConfig { bytes, workers, nodes, statistics, .. } = MemoryConfig::default();
    assert_eq!((bytes, workers, nodes, statistics), (64 << 20, 4, 1, true));
}

#[test]
fn memory_that_is_lent_is_held_to_its_settings_too() {
    use crate::sys::region::Lent;
    let lent = || Lent::bytes(vec![0; (9 << 12) - 1].into(), drop).unwrap();
    assert!(Memory::lent(lent(), &config(4, 2)).is_ok());
    for bad in [MemoryConfig { workers: 0, ..config(4, 2) }, MemoryConfig { nodes: 0, ..config(4, 2) }] {
        assert!(Memory::lent(lent(), &bad).is_err(), "{bad:?}");
    }
}

#[test]
fn guard_pages_are_refused_in_memory_that_the_caller_lends() {
    use crate::sys::region::Lent;
    let lent = Lent::bytes(vec![0; 9 << 12].into(), drop).unwrap();
    let hardening = "guard".parse().unwrap();
    let error = Memory::lent(lent, &MemoryConfig { hardening, ..config(2, 1) }).unwrap_err();
    assert_eq!(error, MemoryError::LentGuard);
}
