//! Merging, tunables, counters, shrink and validate.

use super::*;
use crate::slab::CacheError;

fn named(name: &str) -> CacheConfig {
    CacheConfig { name: name.into(), ..CacheConfig::default() }
}

#[test]
fn caches_of_about_one_size_share_slabs_unless_one_asks_not_to() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let first = Cache::<[u64; 8]>::new(&memory, &named("first")).unwrap();
    let alias = Cache::<[u32; 16]>::new(&memory, &named("alias")).unwrap();
    let alone = Cache::<[u64; 8]>::new(&memory, &CacheConfig { merge: false, ..named("alone") }).unwrap();
    let sized = Cache::<[u64; 8]>::new(&memory, &CacheConfig { sheaf: Some(60), ..named("sized") }).unwrap();
    let smaller = Cache::<[u64; 7]>::new(&memory, &named("smaller")).unwrap();
    let (_a, _b) = (first.alloc(&mut w, [0; 8]), alias.alloc(&mut w, [0; 16]));
    assert_eq!(
        (first.stats().slabs, alias.name()),
        (1, "first".into()),
        "the second object lies in the same slab"
    );
    let attributes = first.attributes();
    assert_eq!((attributes.get("aliases"), attributes.get("alias_names")), (Some("1"), Some("alias")));
    for own in [alone.name(), sized.name(), smaller.name()] {
        assert!(!attributes.to_string().contains(&own));
    }
    let refused = first.destroy().unwrap_err();
    assert!(refused.to_string().contains("1 other handles share it"), "{refused}");
}

#[test]
fn padded_objects_lie_apart_and_share_slabs_with_objects_of_that_size() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let padded = CacheConfig { size_min: 256, ..named("padded") };
    let padded = Cache::<[u64; 8]>::new(&memory, &padded).unwrap();
    let alias = Cache::<[u64; 32]>::new(&memory, &named("alias")).unwrap();
    let held: Vec<_> = (0..16).map(|_| padded.alloc(&mut w, [0; 8])).collect();
    let places = held.iter().flatten().map(|object| std::ptr::from_ref(&**object).addr());
    assert!(held.iter().all(Result::is_ok) && places.into_iter().all(|place| place % 256 == 0));
    assert_eq!(
        (padded.stats().slab_size, padded.stats().objs_per_slab, alias.name()),
        (256, 16, "padded".into())
    );
    held.into_iter().flatten().for_each(|object| padded.free(&mut w, object));
}

#[test]
fn a_tunable_has_its_effect_at_once() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = Cache::<Big>::new(&memory, &config(Layer::Sheaf, WordForm::Packed)).unwrap();
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 200, &mut held, || [0; 32]));
    cache.free_bulk(&mut w, &mut held);
    assert!(cache.stats().cached > 8);
    cache.set("sheaf_capacity", 4).unwrap();
    assert_eq!((cache.get("sheaf_capacity"), cache.stats().cached), (Ok(4), 0));
    assert!(cache.alloc_bulk(&mut w, 50, &mut held, || [0; 32]));
    cache.free_bulk(&mut w, &mut held);
    let stats = cache.stats();
    assert!(stats.cached <= 8 && stats.barn.is_multiple_of(4), "{stats:?}");
    cache.shrink();
    let stats = cache.stats();
    assert_eq!(
        (stats.slabs, stats.sheaf_free),
        (0, stats.sheaf_alloc),
        "with the barn empty, as many as were made"
    );
    assert!(stats.sheaf_alloc > 0);
    cache.set("order", 2).unwrap();
    assert!(cache.alloc_bulk(&mut w, 1, &mut held, || [0; 32]));
    assert_eq!((cache.stats().objs_per_slab, cache.stats().slabs), (64, 1));
    cache.free_bulk(&mut w, &mut held);
    cache.set("min_partial", 0).unwrap();
    cache.shrink();
    assert_eq!(cache.stats().slabs, 0);
}

#[test]
fn slabs_of_two_orders_live_side_by_side() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    for (layer, word) in KINDS {
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let mut held = Vec::new();
        for order in [0, 3, 1, 2, 0] {
            cache.set("order", order).unwrap();
            assert!(cache.alloc_bulk(&mut w, 100, &mut held, || [order as u64; 32]));
        }
        assert!(cache.validate().is_empty());
        // Found: each slab was counted as one of the current order.
        let stats = cache.stats();
        let spare = stats.cached + stats.cpu_slabs + stats.barn;
        assert!(stats.total_objects >= 500 + spare && stats.slabs * stats.objs_per_slab < 500, "{stats:?}");
        cache.free_bulk(&mut w, &mut held);
        cache.shrink();
        assert_eq!((cache.stats().slabs, cache.stats().total_objects), (0, 0));
        cache.destroy().unwrap();
    }
    drop(w);
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn a_bad_tunable_is_named_with_what_would_be_right() {
    let memory = memory(1);
    let cache = cache::<Big>(&memory);
    let said = |result: Result<(), CacheError>| result.unwrap_err().to_string();
    assert_eq!(said(cache.set("order", 11)), "order 11: give 0 to 10");
    assert_eq!(said(cache.set("sheaf_capacity", 0)), "sheaf_capacity 0: give 1 to 65536");
    assert!(said(cache.set("speed", 1)).starts_with("no tunable \"speed\": there are order,"));
    assert!(said(cache.set("cpu_partial", 1)).starts_with("cpu_partial means nothing to this cache"));
    let big = Cache::<[u8; 5000]>::new(&memory, &CacheConfig::default()).unwrap();
    assert!(said(big.set("order", 0)).contains("order 0 holds fewer than 1"));
}

#[test]
fn an_empty_slab_is_kept_as_long_as_there_are_few() {
    for (layer, word) in KINDS {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let cache = Cache::<Big>::new(&memory, &config(layer, word)).unwrap();
        let mut held = Vec::new();
        assert!(cache.alloc_bulk(&mut w, 1600, &mut held, || [0; 32]));
        assert_eq!(cache.stats().slabs, 100, "{layer:?} {word:?}");
        cache.free_bulk(&mut w, &mut held);
        drop(w);
        let stats = cache.stats();
        // min_partial is 2; the barn holds its sheaves.
        let most = 2 + stats.barn.div_ceil(16) + u64::from(stats.barn > 0);
        assert!(stats.slabs <= most && stats.free_slab >= 100 - most, "{layer:?} {word:?} {stats:?}");
    }
}

#[test]
fn the_counters_say_what_happened() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = Cache::<Big>::new(&memory, &config(Layer::CpuSlab, WordForm::Packed)).unwrap();
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 64, &mut held, || [0; 32]));
    assert_eq!(cache.stats().alloc_slab, 4);
    let mut first = held.drain(..16).collect();
    cache.free_bulk(&mut w, &mut first);
    let stats = cache.stats();
    assert_eq!(
        (stats.free_slowpath, stats.cpu_partial_free, stats.cpu_partial_drain),
        (1, 1, 1),
        "{stats:?}"
    );
    cache.free_bulk(&mut w, &mut held.drain(32..).collect());
    assert_eq!(cache.stats().free_fastpath, 16, "the active slab's own go to it without its word");
    let names: Vec<&str> = stats.counters().into_iter().map(|(name, _)| name).collect();
    for name in
        ["alloc_fastpath", "free_add_partial", "cmpxchg_double_fail", "order_fallback", "barn_get_fail"]
    {
        assert!(names.contains(&name));
    }
}

#[test]
fn a_freelist_that_was_overwritten_is_found_and_its_slab_used_no_more() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache =
        crate::slab::RawCache::new(&memory, 256, 8, &config(Layer::CpuSlab, WordForm::Packed)).unwrap();
    let mut some = [None; 32];
    assert!(cache.alloc_bulk(&mut w, &mut some));
    let spoilt = some[3].unwrap();
    let mut all: Vec<_> = some.into_iter().flatten().collect();
    // SAFETY: allocated above; what is written afterwards is the test's misuse, into memory that stays mapped.
    unsafe {
        cache.free_bulk(&mut w, &mut all).unwrap();
        spoilt.cast::<u64>().write(0x4141_4141_4141_4141);
    }
    let found = cache.validate();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].to_string().contains("was overwritten after"), "{}", found[0]);
    assert!(cache.alloc(&mut w).is_some(), "other slabs serve on");
}

/// Seen: each cache that was made under a new name and dropped left its name with the cache that it shared, for good.
#[test]
fn a_cache_that_is_shared_under_ever_new_names_keeps_64_of_them() {
    let memory = memory(1);
    let first = Cache::<[u64; 8]>::new(&memory, &named("first")).unwrap();
    for n in 0..1000 {
        drop(Cache::<[u64; 8]>::new(&memory, &named(&format!("sharer {n}"))).unwrap());
    }
    let attributes = first.attributes();
    assert_eq!((attributes.get("name"), attributes.get("aliases")), (Some("first"), Some("63")));
}
