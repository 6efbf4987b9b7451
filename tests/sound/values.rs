//! Values of caches whose Drop panics, and constructors that panic.

use super::*;
use netmem::slab::{Cache, CacheConfig, ConstructedCache, DebugOptions, Layer, Object, OnMisuse};
use netmem::sync::Worker;
use std::sync::atomic::AtomicBool;

type Held = Vec<Object<Value>>;
type Way = (&'static str, fn(&Cache<Value>, &mut Worker, Held));

/// All ways in which a value of a cache ends.
const WAYS: [Way; 7] = [
    ("free", |cache, w, held| each(held, |object| cache.free(w, object))),
    ("take", |cache, w, held| each(held, |object| drop(cache.take(w, object)))),
    ("into_value", |_, _, held| each(held, |object| drop(object.into_value()))),
    ("dropped", |_, _, held| each(held, drop)),
    ("dropped together", |_, _, held| drop(held)),
    ("free_bulk", |cache, w, mut held| cache.free_bulk(w, &mut held)),
    ("dropped on a thread", |_, _, held| {
        assert!(std::thread::spawn(move || each(held, drop)).join().is_ok());
    }),
];

/// Each by itself, whichever panics.
fn each(held: Held, mut end: impl FnMut(Object<Value>)) {
    for object in held {
        let bad = object.bad;
        assert_eq!(panics(|| end(object)), bad);
    }
}

fn debugs() -> [DebugOptions; 2] {
    [DebugOptions::default(), DebugOptions { on_misuse: OnMisuse::Report, ..DebugOptions::ALL }]
}

fn config(layer: Layer, debug: DebugOptions) -> CacheConfig {
    CacheConfig { layer, debug, merge: false, min_partial: Some(0), ..CacheConfig::default() }
}

/// More than a sheaf and more than a slab.
const VALUES: usize = 300;

/// Which values panic, by their numbers.
type Which = (&'static str, fn(usize) -> bool);

const BAD: [Which; 4] = [
    ("the first", |n| n == 0),
    ("one in the middle", |n| n == 77),
    ("the last", |n| n == VALUES - 1),
    ("every third", |n| n % 3 == 0),
];

fn end_by_each_way(mixed: bool) {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        for debug in debugs() {
            for (way, end) in WAYS {
                for (which, bad) in BAD {
                    if way == "dropped together" && which == "every third" {
                        // A Vec that meets a second panic ends the process: the standard library's rule.
                        continue;
                    }
                    let what = format!("{way}, {which}, {layer:?}, {debug:?}, mixed {mixed}");
                    let memory = memory(1);
                    let mut w = memory.worker().unwrap();
                    let config = config(layer, debug);
                    let caches = [(); 2].map(|()| Cache::<Value>::new(&memory, &config).unwrap());
                    let (drops, mut held) = (Drops::new(VALUES), Vec::new());
                    for n in 0..VALUES {
                        let from = &caches[usize::from(mixed && n % 2 == 1)];
                        held.push(from.alloc(&mut w, drops.value(n, bad(n))).ok().unwrap());
                    }
                    let _ = panics(|| end(&caches[0], &mut w, held));
                    assert_eq!(drops.counts(), [1; VALUES], "{what}: how often each value was dropped");
                    for cache in caches {
                        let stats = cache.stats();
                        let out = stats.alloc_fastpath + stats.alloc_slowpath;
                        let back = stats.free_fastpath + stats.free_slowpath;
                        assert!(cache.validate().is_empty() && cache.found().is_empty(), "{what}");
                        // Without sheaves a bulk counts its runs of one slab.
                        let counts_each = layer == Layer::Sheaf && !debug.any();
                        assert!(out == back || !counts_each, "{what}: {out} went out, {back} came back");
                        assert!(cache.destroy().is_ok(), "{what}: no object is out");
                    }
                    drop(w);
                    assert!(is_home(&memory), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_value_whose_drop_panics_is_dropped_once_and_its_object_is_freed() {
    end_by_each_way(false);
}

#[test]
fn a_drop_that_panics_among_objects_of_two_caches_loses_none_of_either() {
    end_by_each_way(true);
}

#[test]
fn a_bulk_with_a_drop_that_panics_is_empty_and_its_objects_are_used_again() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = Cache::<Value>::new(&memory, &config(Layer::Sheaf, DebugOptions::default())).unwrap();
    let (drops, mut held, mut n) = (Drops::new(16), Vec::new(), 0..);
    assert!(cache.alloc_bulk(&mut w, 8, &mut held, || {
        let n = n.next().unwrap();
        drops.value(n, n == 3)
    }));
    let mut before: Vec<usize> = held.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
    assert!(panics(|| cache.free_bulk(&mut w, &mut held)));
    assert!(held.is_empty());
    assert!(cache.alloc_bulk(&mut w, 8, &mut held, || drops.value(n.next().unwrap(), false)));
    cache.shrink();
    let mut after: Vec<usize> = held.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
    before.sort_unstable();
    after.sort_unstable();
    assert!(before.iter().all(|address| address % 8 == 0) && after.len() == 8);
    assert_eq!(cache.stats().slabs, 1, "no further slab was needed");
    cache.free_bulk(&mut w, &mut held);
    assert_eq!(drops.counts(), [1; 16]);
    cache.destroy().unwrap();
}

/// Ends the values of a constructed cache's free slabs.
type End = (&'static str, fn(ConstructedCache<Value>, &mut Option<Worker>) -> bool);

const ENDS: [End; 6] = [
    ("the worker leaves", |_cache, w| panics(|| drop(w.take()))),
    ("shrink", |cache, _| panics(|| cache.shrink())),
    ("the last handle goes", |cache, _| panics(|| drop(cache))),
    ("destroy", |cache, _| panics(|| drop(cache.destroy()))),
    ("min_partial", |cache, _| {
        // The objects that the worker keeps go back into the slabs first, which stay.
        cache.set("min_partial", 1 << 20).unwrap();
        assert!(cache.validate().is_empty());
        panics(|| cache.set("min_partial", 0).unwrap())
    }),
    ("the worker leaves while something else unwinds", |_cache, w| {
        panics(|| {
            let _leaves = w.take();
            panic!("something else");
        })
    }),
];

#[test]
fn values_that_panic_when_their_slab_is_freed_affect_nothing_else() {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        for debug in debugs() {
            for (how, end) in ENDS {
                for (which, bad) in BAD {
                    let what = format!("{how}, {which}, {layer:?}, {debug:?}");
                    let memory = memory(2);
                    // Another worker, so that the slot that becomes free is not the first.
                    let other = memory.worker().unwrap();
                    let mut w = memory.worker().ok();
                    let slot = w.as_ref().unwrap().slot();
                    let (drops, made) = (Drops::new(4 * VALUES), Arc::new(AtomicUsize::new(0)));
                    let (keep, count) = (Arc::new(()), Arc::clone(&made));
                    let kept = Arc::clone(&keep);
                    let make = move || {
                        let _ = &kept;
                        let n = count.fetch_add(1, Relaxed);
                        drops.value(n, bad(n))
                    };
                    let cache = ConstructedCache::new(&memory, &config(layer, debug), make).unwrap();
                    // With sheaves all objects are in those of the worker.
                    let sheaves = cache.set("sheaf_capacity", VALUES).is_ok();
                    let held: Vec<_> =
                        (0..VALUES).map(|_| cache.alloc(w.as_mut().unwrap()).unwrap()).collect();
                    for object in held {
                        // The slabs that workers give up for want of room end their values here already.
                        panics(|| cache.free(w.as_mut().unwrap(), object));
                    }
                    let second = cache.clone();
                    if how == "the last handle goes" || how == "destroy" {
                        drop(second);
                        assert!(end(cache, &mut w) || !sheaves, "{what}: no value ended");
                    } else {
                        assert!(end(cache, &mut w) || !sheaves, "{what}: no value ended");
                        // It puts the remaining objects back into the slabs, so that values can be dropped.
                        let _ = panics(|| drop(second.validate()));
                        assert!(second.validate().is_empty(), "{what}");
                        let _ = panics(|| drop(second));
                    }
                    if w.is_none() {
                        assert_eq!(memory.worker().map(|w| w.slot()), Ok(slot), "{what}: the slot is free");
                    }
                    drop((w, other));
                    let made = made.load(Relaxed);
                    assert_eq!(drops.counts()[..made], vec![1; made], "{what}");
                    assert_eq!(Arc::strong_count(&keep), 1, "{what}: the constructor is gone");
                    assert!(is_home(&memory), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_constructor_that_panics_gives_its_page_and_the_slabs_it_met_back() {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        for bad_drops in [false, true] {
            for at in [0, 1, 30, 77, 150, 299] {
                let memory = memory(1);
                let mut w = memory.worker().unwrap();
                let (drops, made) = (Drops::new(4 * VALUES), Arc::new(AtomicUsize::new(0)));
                let (armed, count) = (Arc::new(AtomicBool::new(true)), Arc::clone(&made));
                let make = move || {
                    let n = count.load(Relaxed);
                    assert!(n != at || !armed.swap(false, Relaxed), "the constructor of value {n}");
                    count.store(n + 1, Relaxed);
                    drops.value(n, bad_drops && n % 3 == 0)
                };
                let cache = ConstructedCache::new(&memory, &config(layer, DebugOptions::default()), make);
                let cache = cache.unwrap();
                let (mut held, mut panicked) = (Vec::new(), 0);
                while held.len() < VALUES {
                    match catch_unwind(AssertUnwindSafe(|| cache.alloc(&mut w))) {
                        Ok(object) => held.push(object.unwrap()),
                        Err(_) => panicked += 1,
                    }
                }
                assert_eq!(panicked, 1);
                for object in held {
                    let _ = panics(|| cache.free(&mut w, object));
                }
                let _ = panics(|| drop(cache.destroy()));
                let _ = panics(|| drop(w));
                let made = made.load(Relaxed);
                assert_eq!(drops.counts()[..made], vec![1; made], "{layer:?} {at}");
                assert!(is_home(&memory), "{layer:?} {at}");
            }
        }
    }
}
