//! Edge cases: no memory, threads that free, caches that end.

use super::*;
use crate::rounds::{rounds, stride};
use crate::slab::{CacheError, ConstructedCache, RawCache, free_bulk_any};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A memory as small as can be had: 512 pages, of which Miri could not take every object in a minute, and 64 there.
fn smallest() -> Memory {
    let backing = BackingPreference::Small;
    Memory::new(&MemoryConfig { bytes: 256 << 10, workers: 2, backing, ..MemoryConfig::default() }).unwrap()
}

#[test]
fn every_object_of_the_memory_can_be_had_and_an_allocation_beyond_gives_the_value_back() {
    for (layer, word) in KINDS {
        let memory = smallest();
        let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let mut held = Vec::new();
        while let Ok(object) = cache.alloc(&mut a, [1; 32]) {
            held.push(object);
        }
        assert_eq!(held.len() as u64, memory.stats().total * 16, "{layer:?} {word:?}");
        assert_eq!(cache.alloc(&mut b, [9; 32]).err(), Some([9; 32]));
        cache.free(&mut a, held.pop().unwrap());
        held.extend(cache.alloc(&mut b, [2; 32]));
        assert_eq!(held.len() as u64, memory.stats().total * 16, "what lies with another worker is found");
        held.truncate(held.len() - 2);
        let before = held.len();
        assert!(!cache.alloc_bulk(&mut b, 3, &mut held, || [3; 32]), "all or nothing");
        assert_eq!(held.len(), before);
        assert!(cache.alloc_bulk(&mut b, 2, &mut held, || [3; 32]), "the two were given back");
        cache.free_bulk(&mut b, &mut held);
    }
}

#[test]
fn a_refused_bulk_of_any_number_leaves_the_vector_as_it_was() {
    let memory = smallest();
    let mut w = memory.worker().unwrap();
    let cache = Cache::<Big>::new(&memory, &CacheConfig::default()).unwrap();
    let most = usize::try_from(memory.stats().total).unwrap() * 16;
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 3, &mut held, || [1; 32]));
    let before = (held.len(), held.capacity());
    for n in [usize::MAX, isize::MAX as usize, 1 << 50, 10_000_000, most + 1, most] {
        assert!(!cache.alloc_bulk(&mut w, n, &mut held, || [2; 32]), "{n}");
        assert_eq!((held.len(), held.capacity()), before, "{n}");
    }
    assert!(cache.alloc_bulk(&mut w, most - 3, &mut held, || [3; 32]), "all others are still there");
    cache.free_bulk(&mut w, &mut held);
}

#[test]
fn every_allocation_that_has_to_ask_for_pages_may_fail_and_nothing_is_lost() {
    for (layer, word) in KINDS {
        for n in (0..12).step_by(stride(5)) {
            let memory = memory(1);
            let mut w = memory.worker().unwrap();
            let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
            memory.refuse(n);
            let (mut held, mut refused) = (Vec::new(), 0);
            for round in 0..rounds(40) as u64 {
                refused += usize::from(!cache.alloc_bulk(&mut w, 48, &mut held, || [round; 32]));
                match cache.alloc(&mut w, [round; 32]) {
                    Ok(object) => held.push(object),
                    Err(_) => refused += 1,
                }
                let mut back = held.split_off(held.len() - held.len() / 3);
                cache.free_bulk(&mut w, &mut back);
                assert!(held.iter().all(|object| **object == [object[0]; 32]));
            }
            assert!(refused <= 1, "one refusal fails one call at most: {refused}");
            drop((held, cache, w));
            assert_eq!(memory.stats().free, memory.stats().total, "{layer:?} {word:?} {n}");
        }
    }
}

#[test]
fn objects_freed_on_another_thread_are_used_again_and_memory_stays_bounded() {
    for (layer, word) in KINDS {
        let memory = memory(2);
        let mut w = memory.worker().unwrap();
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let objects = rounds(2000);
        for _ in 0..rounds(30) {
            let mut held = Vec::new();
            assert!(cache.alloc_bulk(&mut w, objects, &mut held, || [7; 32]));
            let (cache, mut other) = (cache.clone(), memory.worker().unwrap());
            std::thread::spawn(move || cache.free_bulk(&mut other, &mut held)).join().unwrap();
        }
        let stats = cache.stats();
        assert!(stats.slabs <= objects as u64 / 16 + 60, "{layer:?} {word:?} {stats:?}");
    }
}

#[test]
fn two_threads_that_free_into_the_same_slabs_lose_nothing() {
    for (layer, word) in KINDS {
        let memory = memory(2);
        let mut w = memory.worker().unwrap();
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        for _ in 0..rounds(20) {
            let mut held = Vec::new();
            assert!(cache.alloc_bulk(&mut w, 512, &mut held, || [7; 32]));
            let (mut mine, mut theirs) = (Vec::new(), Vec::new());
            for (i, object) in held.into_iter().enumerate() {
                if i % 2 == 0 { mine.push(object) } else { theirs.push(object) }
            }
            let thread = std::thread::spawn(move || drop(theirs));
            cache.free_bulk(&mut w, &mut mine);
            thread.join().unwrap();
        }
        assert!(cache.validate().is_empty());
        drop((cache, w));
        assert_eq!(memory.stats().free, memory.stats().total, "{layer:?} {word:?}");
    }
}

#[test]
fn an_object_that_outlives_its_cache_is_still_good_and_its_value_dropped_once() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let value = Arc::new(5);
    let cache = cache::<Arc<i32>>(&memory);
    let object = cache.alloc(&mut w, Arc::clone(&value)).unwrap();
    drop(cache);
    assert!(memory.stats().free + memory.stats().cached < memory.stats().total);
    assert_eq!((**object, Arc::strong_count(&value)), (5, 2));
    drop((memory, w));
    drop(object);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn values_are_dropped_once_each_by_a_bulk_free() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (cache, value) = (cache::<Arc<i32>>(&memory), Arc::new(1));
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 100, &mut held, || Arc::clone(&value)));
    assert_eq!(Arc::strong_count(&value), 101);
    cache.free_bulk(&mut w, &mut held);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn an_object_freed_into_another_cache_goes_home_to_its_own() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (ours, theirs) = (cache::<Big>(&memory), cache::<Big>(&memory));
    let object = ours.alloc(&mut w, [1; 32]).unwrap();
    assert_eq!(theirs.take(&mut w, object), [1; 32]);
    assert_eq!((theirs.stats().cached, ours.stats().free_slowpath), (0, 1));
    let mut mixed = Vec::new();
    assert!(
        ours.alloc_bulk(&mut w, 3, &mut mixed, || [2; 32])
            && theirs.alloc_bulk(&mut w, 3, &mut mixed, || [3; 32])
    );
    ours.free_bulk(&mut w, &mut mixed);
    assert!(ours.destroy().is_ok() && theirs.destroy().is_ok());
}

#[test]
fn large_and_odd_objects_get_slabs_that_hold_them() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let odd = cache::<[u8; 3000]>(&memory).alloc(&mut w, [3; 3000]).unwrap();
    let huge = cache::<[u8; 20_000]>(&memory).alloc(&mut w, [4; 20_000]).unwrap();
    let unit = cache::<()>(&memory).alloc(&mut w, ()).unwrap();
    assert!(odd.iter().all(|&b| b == 3) && huge.iter().all(|&b| b == 4));
    drop((odd, huge, unit));
    let too_large = Cache::<[u8; 100_000]>::new(&memory, &CacheConfig::default());
    assert!(matches!(too_large, Err(CacheError::Size { .. })));
    let no_sheaf = CacheConfig { sheaf: Some(0), ..CacheConfig::default() };
    assert!(matches!(Cache::<u64>::new(&memory, &no_sheaf), Err(CacheError::Range { .. })));
    assert!(matches!(
        RawCache::new(&memory, 8, 3, &CacheConfig::default()),
        Err(CacheError::Align { align: 3 })
    ));
}

#[test]
fn a_cache_with_live_objects_refuses_to_end_and_lists_them() {
    for (layer, word) in KINDS {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let mut held = Vec::new();
        assert!(cache.alloc_bulk(&mut w, 40, &mut held, || [1; 32]));
        let mut back = held.split_off(3);
        cache.free_bulk(&mut w, &mut back);
        let live = cache.destroy().unwrap_err();
        let mut listed: Vec<usize> = live.objects().iter().map(|object| object.address).collect();
        let mut out: Vec<usize> = held.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
        listed.sort_unstable();
        out.sort_unstable();
        assert_eq!((live.len(), listed), (3, out), "{layer:?} {word:?}");
        assert!(live.to_string().starts_with("cache cache: 3 objects are out"), "{live}");
        let cache = live.cache;
        cache.free_bulk(&mut w, &mut held);
        cache.destroy().unwrap();
        assert_eq!(memory.stats().free + memory.stats().cached, memory.stats().total);
    }
}

#[test]
fn a_constructor_runs_once_an_object_and_its_value_ends_with_the_slab() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug)]
    struct Counted(u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            LIVE.fetch_sub(1, Relaxed);
        }
    }
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let make = || {
        LIVE.fetch_add(1, Relaxed);
        Counted(7)
    };
    let cache = ConstructedCache::new(&memory, &config(Layer::Sheaf, WordForm::Packed), make).unwrap();
    let mut first = cache.alloc(&mut w).unwrap();
    let made = LIVE.load(Relaxed);
    assert_eq!((first.0, made as u64), (7, cache.stats().objs_per_slab));
    first.0 = 8;
    cache.free(&mut w, first);
    let again = cache.alloc(&mut w).unwrap();
    assert_eq!((again.0, LIVE.load(Relaxed)), (8, made), "the value stays");
    drop(again);
    assert_eq!(LIVE.load(Relaxed), made, "a drop frees the object and keeps its value");
    assert!(cache.validate().is_empty());
    cache.destroy().unwrap();
    assert_eq!(LIVE.load(Relaxed), 0);
}

#[test]
fn pointers_of_several_caches_go_home_in_one_bulk_and_by_the_plain_loop() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let raw = |size| RawCache::new(&memory, size, 8, &config(Layer::CpuSlab, WordForm::Packed)).unwrap();
    let caches = [raw(64), raw(256), raw(1024)];
    for bulk in [true, false] {
        let mut all: Vec<NonNull<u8>> = Vec::new();
        for cache in &caches {
            let mut some = [None; 50];
            assert!(cache.alloc_bulk(&mut w, &mut some));
            all.extend(some.into_iter().flatten());
        }
        all.sort_unstable();
        // SAFETY: each was allocated above, and is used no more.
        unsafe {
            if bulk {
                free_bulk_any(&mut w, &mut all).unwrap();
            } else {
                let theirs: Vec<_> = caches.iter().map(|cache| cache.stats().slabs).collect();
                assert!(theirs.iter().all(|&slabs| slabs > 0));
                all.iter().for_each(|&object| RawCache::release(object).unwrap());
            }
        }
    }
    caches.into_iter().for_each(|cache| cache.destroy().unwrap());
    drop(w);
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn nothing_is_done_for_bulks_of_nothing() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (cache, mut none) = (cache::<Big>(&memory), Vec::new());
    assert!(cache.alloc_bulk(&mut w, 0, &mut none, || [0; 32]));
    cache.free_bulk(&mut w, &mut none);
    assert_eq!(cache.stats().slabs, 0);
}

/// Found by Miri: the cache was freed while it was behind a reference that was still an argument.
#[test]
fn the_last_object_of_a_closed_cache_ends_it_by_whatever_way_it_is_freed() {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        for in_bulk in [false, true] {
            let cache = RawCache::new(&memory, 256, 8, &config(layer, WordForm::Packed)).unwrap();
            let mut held = [(); 2].map(|()| cache.alloc(&mut w).unwrap());
            drop(cache);
            // SAFETY: the test's own, each once.
            unsafe {
                if in_bulk {
                    free_bulk_any(&mut w, &mut held).unwrap();
                } else {
                    held.into_iter().for_each(|object| RawCache::release(object).unwrap());
                }
            }
        }
        drop(w);
        assert_eq!(memory.stats().free, memory.stats().total, "{layer:?}: all pages back");
    }
}
