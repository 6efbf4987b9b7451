//! The caller's own code that runs inside of calls. It may panic, and it may call the cache.

use super::*;
use crate::slab::ConstructedCache;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn values_whose_making_panics_in_a_bulk_leave_no_object_out() {
    for (layer, word) in KINDS {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let (mut held, mut made) = (Vec::new(), 0);
        assert!(panics(|| {
            cache.alloc_bulk(&mut w, 40, &mut held, || {
                made += 1;
                assert!(made < 8, "the eighth");
                [made; 32]
            });
        }));
        assert_eq!(held.len(), 7, "those that were made are the caller's");
        cache.free_bulk(&mut w, &mut held);
        cache.destroy().unwrap();
    }
}

#[test]
fn the_making_of_a_value_may_shrink_and_tune_the_cache_it_is_for() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = cache::<Big>(&memory);
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 40, &mut held, || {
        cache.shrink();
        cache.set("sheaf_capacity", 8).unwrap();
        assert!(cache.validate().is_empty());
        [1; 32]
    }));
    cache.free_bulk(&mut w, &mut held);
    cache.destroy().unwrap();
}

#[test]
fn a_constructor_that_panics_leaves_no_slab_and_no_value_behind() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug)]
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            LIVE.fetch_sub(1, Relaxed);
        }
    }
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let make = || {
        assert!(LIVE.load(Relaxed) < 5, "the sixth");
        LIVE.fetch_add(1, Relaxed);
        Counted
    };
    let cache = ConstructedCache::new(&memory, &config(Layer::Sheaf, WordForm::Packed), make).unwrap();
    assert!(panics(|| drop(cache.alloc(&mut w))));
    assert_eq!((LIVE.load(Relaxed), cache.stats().slabs), (0, 0));
    cache.destroy().unwrap();
    drop(w);
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn a_constructor_may_hold_the_last_handle_of_another_cache() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let below = cache::<Big>(&memory);
    let make = move || below.stats().slabs;
    let above = ConstructedCache::new(&memory, &config(Layer::Sheaf, WordForm::Packed), make).unwrap();
    let object = above.alloc(&mut w).unwrap();
    drop(above);
    drop(object);
    drop(w);
    assert_eq!(memory.stats().free, memory.stats().total);
}
