//! Counts that must agree: of the objects that a worker keeps, of slabs, and of a freelist that is walked.

use super::*;
use crate::slab::{RawCache, Site, grow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[test]
fn what_a_worker_keeps_in_its_slabs_is_counted_once() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let config = CacheConfig { cpu_partial: Some(100), ..config(Layer::CpuSlab, WordForm::Packed) };
    let cache = Cache::<Big>::new(&memory, &config).unwrap();
    let mut held: Vec<_> = (0..16 * 6).map(|i| cache.alloc(&mut w, [i; 32]).unwrap()).collect();
    // One of each of the first five slabs: all of them come onto the worker's list.
    for slab in (0..5).rev() {
        let object = held.remove(slab * 16);
        cache.free(&mut w, object);
    }
    while held.len() < 16 * 6 {
        let stats = cache.stats();
        assert_eq!(stats.cpu_slabs, (16 * 6 - held.len()) as u64, "{stats:?}");
        held.push(cache.alloc(&mut w, [0; 32]).unwrap());
    }
}

#[test]
fn a_smaller_slab_is_counted_when_it_is_made() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let config = CacheConfig { order: Some(1), ..config(Layer::Sheaf, WordForm::Packed) };
    let cache = Cache::<Big>::new(&memory, &config).unwrap();
    let mut held = Vec::new();
    while let Ok(object) = cache.alloc(&mut w, [0; 32]) {
        held.push(object);
    }
    assert!((0..10).all(|_| cache.alloc(&mut w, [0; 32]).is_err()));
    let stats = cache.stats();
    assert!(stats.order_fallback <= stats.alloc_slab, "{stats:?}");
    assert_eq!(stats.order_fallback, 0, "pages came in pairs: {stats:?}");
    cache.free_bulk(&mut w, &mut held);
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no other process")]
fn an_object_twice_in_one_bulk_is_noticed_when_its_freelist_is_walked() {
    use std::process::{Command, Stdio};
    const CHILD: &str = "NETMEM_TWICE";
    if std::env::var_os(CHILD).is_some() {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let raw = RawCache::new(&memory, 256, 8, &config(Layer::CpuSlab, WordForm::Packed)).unwrap();
        let mut held: Vec<_> = (0..40).map(|_| raw.alloc(&mut w).unwrap()).collect();
        let mut twice = [held[0], held[1], held[0]];
        // SAFETY: a misuse that is to be found when the freelist is walked.
        unsafe { raw.free_bulk(&mut w, &mut twice).unwrap() };
        raw.shrink();
        held.extend((0..40).map_while(|_| raw.alloc(&mut w)));
        return;
    }
    let name =
        format!("{}::an_object_twice_in_one_bulk_is_noticed_when_its_freelist_is_walked", module_path!());
    let name = name.trim_start_matches("netmem::").to_owned();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ended = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(ended, "still walking after a minute");
    assert!(!status.success(), "nobody noticed");
}

#[test]
fn values_that_panic_when_they_are_dropped_in_a_bulk_do_not_spoil_the_cache() {
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(!self.0, "as wanted");
        }
    }
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = cache::<Loud>(&memory);
    let mut held: Vec<_> =
        (0..10).map(|i| cache.alloc(&mut w, Loud(i == 4)).map_err(drop).unwrap()).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| cache.free_bulk(&mut w, &mut held))).is_err());
    assert!(held.is_empty());
    let again: Vec<_> = (0..100).map(|_| cache.alloc(&mut w, Loud(false)).map_err(drop).unwrap()).collect();
    let mut at: Vec<usize> = again.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
    at.sort_unstable();
    at.dedup();
    assert_eq!(at.len(), 100, "no object is given out twice");
}

#[test]
fn objects_in_the_main_sheaf_are_not_lost_when_a_thief_turned_the_worker_away_from_it() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache =
        Cache::<Big>::new(&memory, &CacheConfig { sheaf: Some(4), ..CacheConfig::default() }).unwrap();
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(&mut w, 40, &mut held, || [1; 32]));
    cache.free_bulk(&mut w, &mut held);
    let before = cache.stats();
    assert!(before.cached > 0 && before.barn > 0, "{before:?}");
    // The call of the hot path when it may not enter. The thief is gone a moment later.
    let mut taken: Vec<_> =
        (0..32).filter_map(|_| grow::alloc(&cache.shared, &mut w, Site::caller())).collect();
    assert_eq!((taken.len(), cache.stats().alloc_slab), (32, before.alloc_slab), "from what there was");
    cache.shared.put_back(&mut taken, &mut crate::sync::Steps::new());
    cache.destroy().unwrap();
}

#[test]
fn every_allocation_and_every_free_is_counted_once_however_it_went() {
    let memory = memory(2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    for (layer, word) in KINDS {
        let cache =
            Cache::<Big>::new(&memory, &CacheConfig { sheaf: Some(4), ..config(layer, word) }).unwrap();
        let (mut held, mut allocated, mut freed) = (Vec::new(), 0, 0);
        for round in 0..30 {
            let n = (round * 7) % 23;
            assert!(cache.alloc_bulk(&mut a, n, &mut held, || [1; 32]));
            held.extend((0..n).map(|_| cache.alloc(&mut b, [2; 32]).unwrap()));
            allocated += 2 * n as u64;
            let mut some = held.split_off(held.len() / 2);
            freed += some.len() as u64;
            match round % 3 {
                0 => cache.free_bulk(&mut a, &mut some),
                1 => some.into_iter().for_each(|object| cache.free(&mut b, object)),
                _ => some.into_iter().for_each(|object| cache.free(&mut a, object)),
            }
            if round % 5 == 0 {
                cache.shrink();
            }
            let stats = cache.stats();
            assert_eq!(stats.alloc_fastpath + stats.alloc_slowpath, allocated, "{layer:?} {stats:?}");
            if layer == Layer::Sheaf {
                assert_eq!(stats.free_fastpath + stats.free_slowpath, freed, "{layer:?} {stats:?}");
            }
        }
        cache.free_bulk(&mut a, &mut held);
        cache.destroy().unwrap();
    }
}
