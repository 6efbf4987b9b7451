//! The checks at work in caches: each misuse through the calls that a program makes.

use super::{CHILD, POISON_INUSE, dies};
use crate::page::{Memory, MemoryConfig};
use crate::slab::{
    Cache, CacheConfig, ConstructedCache, Damage, DebugOptions, DebugRules, Finding, Layer, Misuse, OnMisuse,
    RawCache, free_bulk_any,
};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use proptest::prelude::*;
use std::ptr::{NonNull, with_exposed_provenance_mut};

const REPORT: DebugOptions = DebugOptions { on_misuse: OnMisuse::Report, ..DebugOptions::ALL };
const SIZE: usize = 100;

fn memory() -> Memory {
    let backing = BackingPreference::Small;
    let bytes = if cfg!(miri) { 512 << 10 } else { 4 << 20 };
    Memory::new(&MemoryConfig { bytes, workers: 2, backing, ..Default::default() }).unwrap()
}

fn cache(memory: &Memory, name: &str, debug: DebugOptions, layer: Layer) -> RawCache {
    RawCache::new(memory, SIZE, 4, &CacheConfig { name: name.into(), debug, layer, ..Default::default() })
        .unwrap()
}

#[track_caller]
fn free(cache: &RawCache, w: &mut Worker, at: NonNull<u8>) -> Result<(), Misuse> {
    // SAFETY: an object of the cache, or a misuse that is to be found.
    unsafe { cache.free(w, at) }
}

/// Writes as a stray pointer does: its address comes from the object, and its right to write there from nobody's reference.
fn write(at: NonNull<u8>, offset: isize, byte: u8) {
    let at = with_exposed_provenance_mut::<u8>(at.addr().get());
    // SAFETY: the tests stay inside the object and what lies around it.
    unsafe { at.byte_offset(offset).write(byte) }
}

#[test]
fn a_double_free_is_found_on_any_worker_after_any_time_and_changes_nothing() {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        let memory = memory();
        let (mut w, mut v) = (memory.worker().unwrap(), memory.worker().unwrap());
        let cache = cache(&memory, "twice", REPORT, layer);
        let (kept, held): (Vec<_>, Vec<_>) =
            (0..200).map(|i| (i, cache.alloc(&mut w).unwrap())).partition(|(i, _)| i % 4 == 0);
        let held: Vec<_> = held.into_iter().map(|(_, at)| at).collect();
        held.iter().for_each(|&at| free(&cache, &mut w, at).unwrap());
        for &at in &held {
            let misuse = free(&cache, &mut v, at).unwrap_err();
            assert_eq!((misuse.cache(), misuse.damage()), ("twice", &Damage::DoubleFree));
            assert_eq!(misuse.object(), at.addr().get());
            let [a, f, n] =
                [misuse.allocated(), misuse.freed(), misuse.found()].map(|track| track.unwrap().site);
            assert!([a, f, n].iter().all(|site| site.file().ends_with("caches.rs")), "{misuse}");
            assert!(a.line() < f.line() && f.line() < n.line(), "{misuse}");
        }
        let mut again: Vec<_> = (0..200).map(|_| cache.alloc(&mut v).unwrap()).collect();
        again.extend(kept.into_iter().map(|(_, at)| at));
        again.sort_unstable();
        again.dedup();
        assert_eq!(again.len(), 250, "no object is given out twice");
        again.into_iter().for_each(|at| free(&cache, &mut v, at).unwrap());
        assert_eq!(cache.found(), []);
    }
}

#[test]
fn a_bulk_with_a_misuse_in_it_is_refused_as_a_whole() {
    for layer in [Layer::Sheaf, Layer::CpuSlab] {
        let memory = memory();
        let mut w = memory.worker().unwrap();
        let (ours, other) = (cache(&memory, "ours", REPORT, layer), cache(&memory, "other", REPORT, layer));
        let mut held: Vec<_> = (0..60).map(|_| ours.alloc(&mut w).unwrap()).collect();
        let foreign = other.alloc(&mut w).unwrap();
        let freed = ours.alloc(&mut w).unwrap();
        free(&ours, &mut w, freed).unwrap();
        // SAFETY: misuses that are to be found.
        let inside = unsafe { held[9].byte_add(20) };
        let object = held[9].addr().get();
        for (bad, damage) in [
            (held[30], None),
            (foreign, Some(Damage::WrongCache { of: "other".into() })),
            (freed, Some(Damage::DoubleFree)),
            (inside, Some(Damage::NotAtBegin { object, offset: 20 })),
            (NonNull::dangling(), Some(Damage::OutsideSlabs)),
        ] {
            let mut bulk = held.clone();
            bulk.insert(50, bad);
            // SAFETY: refused.
            let misuse = unsafe { ours.free_bulk(&mut w, &mut bulk) }.unwrap_err();
            match damage {
                Some(damage) => assert_eq!(misuse.damage(), &damage),
                None => assert!(matches!(misuse.damage(), Damage::TwiceInBulk { .. }), "{misuse}"),
            }
        }
        // SAFETY: all of them are still out.
        unsafe {
            ours.free_bulk(&mut w, &mut held[..30]).unwrap();
            free_bulk_any(&mut w, &mut held[30..]).unwrap();
        }
        free(&other, &mut w, foreign).unwrap();
    }
}

#[test]
fn an_object_of_another_cache_is_named_after_it() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let [ours, other] = ["ours", "theirs"].map(|name| cache(&memory, name, REPORT, Layer::Sheaf));
    let plain = cache(&memory, "plain", DebugOptions::default(), Layer::Sheaf);
    for (cache, name) in [(&other, "theirs"), (&plain, "plain")] {
        let at = cache.alloc(&mut w).unwrap();
        let misuse = free(&ours, &mut w, at).unwrap_err();
        assert_eq!(misuse.damage(), &Damage::WrongCache { of: name.into() });
        let line = format!("netmem: cache ours: object {at:?}: is of cache {name}\n  found at ");
        assert!(misuse.to_string().starts_with(&line), "{misuse}");
        free(cache, &mut w, at).unwrap();
    }
}

#[test]
fn writes_past_an_object_and_after_its_free_are_found() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let cache = cache(&memory, "spoilt", REPORT, Layer::Sheaf);
    let at = cache.alloc(&mut w).unwrap();
    write(at, SIZE as isize, 1);
    let misuse = free(&cache, &mut w, at).unwrap_err();
    assert_eq!(misuse.damage(), &Damage::RightRedZone { offset: SIZE as isize, bytes: vec![1] });
    write(at, SIZE as isize, super::RED_ACTIVE);
    free(&cache, &mut w, at).unwrap();
    write(at, 7, 0xee);
    let held: Vec<_> = std::iter::from_fn(|| cache.alloc(&mut w)).collect();
    assert!(held.contains(&at), "it went out again");
    let found = cache.found();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].damage(), &Damage::WrittenAfterFree { offset: 7, bytes: vec![0xee] });
    held.into_iter().for_each(|at| free(&cache, &mut w, at).unwrap());
}

#[test]
fn rules_in_a_text_choose_the_caches() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let rules: DebugRules = "-;P,poisoned".parse().unwrap();
    for (name, first) in [("poisoned", Some(POISON_INUSE)), ("plain", None)] {
        let cache = cache(&memory, name, rules.of(name), Layer::Sheaf);
        let at = cache.alloc(&mut w).unwrap();
        // SAFETY: out, and the region's memory is initialised.
        let found = unsafe { at.read() };
        assert_eq!(found == POISON_INUSE, first.is_some(), "{name}");
        free(&cache, &mut w, at).unwrap();
    }
}

#[test]
fn a_look_at_all_objects_finds_what_was_written_to_a_free_one_and_to_one_that_is_out() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let cache = cache(&memory, "looked at", REPORT, Layer::Sheaf);
    let [kept, at, out] = [(); 3].map(|()| cache.alloc(&mut w).unwrap());
    free(&cache, &mut w, at).unwrap();
    assert!(cache.validate().is_empty());
    write(at, 50, 0);
    let found = cache.validate();
    assert!(
        matches!(&found[..], [Finding::Object(misuse)] if misuse.object() == at.addr().get()),
        "{found:?}"
    );
    assert!(found[0].to_string().contains("written to after it was freed, at offset 50: 00"), "{found:?}");
    write(at, 50, 0x6b);
    write(out, SIZE as isize, 0);
    assert!(free(&cache, &mut w, out).is_err());
    write(out, SIZE as isize, super::RED_ACTIVE);
    [kept, out].into_iter().for_each(|at| free(&cache, &mut w, at).unwrap());
    assert!(cache.validate().is_empty());
}

#[test]
fn a_cache_that_is_not_ended_lists_the_call_that_took_each_object() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let cache = cache(&memory, "held", REPORT, Layer::Sheaf);
    let at = cache.alloc(&mut w).unwrap();
    let line = line!() - 1;
    let live = cache.destroy().unwrap_err();
    assert_eq!((live.len(), live.objects()[0].address), (1, at.addr().get()));
    let site = live.objects()[0].allocated.unwrap().site;
    assert!(site.file().ends_with("caches.rs") && site.line() == line, "{live}");
    free(&live.cache, &mut w, at).unwrap();
    live.cache.destroy().unwrap();
}

#[test]
fn typed_objects_are_checked_when_they_come_back_by_whatever_way() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let config = CacheConfig { name: "typed".into(), debug: REPORT, ..Default::default() };
    let cache = Cache::<[u8; SIZE]>::new(&memory, &config).unwrap();
    let spoilt = |w: &mut Worker| {
        let mut object = cache.alloc(w, [7; SIZE]).unwrap();
        write(NonNull::from(&mut *object).cast(), SIZE as isize, 9);
        object
    };
    let object = spoilt(&mut w);
    cache.free(&mut w, object);
    let object = spoilt(&mut w);
    assert_eq!(cache.take(&mut w, object), [7; SIZE]);
    let mut bulk = vec![spoilt(&mut w), cache.alloc(&mut w, [8; SIZE]).unwrap()];
    cache.free_bulk(&mut w, &mut bulk);
    drop(spoilt(&mut w));
    let found = cache.found();
    let expected = Damage::RightRedZone { offset: SIZE as isize, bytes: vec![9] };
    assert_eq!(found.iter().map(Misuse::damage).collect::<Vec<_>>(), vec![&expected; 4]);
    assert!(found[..3].iter().all(|misuse| misuse.found().unwrap().site.file().ends_with("caches.rs")));
    assert!(found[3].to_string().contains("found at a drop by "), "{}", found[3]);
    assert!(cache.validate().is_empty(), "all are mended");
    cache.destroy().unwrap();
}

#[test]
fn constructed_objects_keep_their_contents_and_their_red_zones_are_watched() {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let config = CacheConfig { name: "dear".into(), debug: REPORT, ..Default::default() };
    let cache = ConstructedCache::new(&memory, &config, || [3u8; SIZE]).unwrap();
    for round in 0..3 {
        let mut object = cache.alloc(&mut w).unwrap();
        assert!(object.iter().all(|&byte| byte == 3), "round {round}: no poison");
        write(NonNull::from(&mut *object).cast(), -1, 0);
        let found = cache.validate();
        assert!(matches!(&found[..], [Finding::Object(misuse)] if misuse.cache() == "dear"), "{found:?}");
        cache.free(&mut w, object);
        assert!(cache.validate().is_empty(), "mended");
    }
}

/// What a test may do to a cache with two workers.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize },
    AllocBulk { worker: usize, n: usize },
    Free { worker: usize, pick: usize },
    FreeBulk { worker: usize, n: usize },
    Release { pick: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let w = 0..2usize;
    prop_oneof![
        4 => w.clone().prop_map(|worker| Op::Alloc { worker }),
        2 => (w.clone(), 0..40usize).prop_map(|(worker, n)| Op::AllocBulk { worker, n }),
        3 => (w.clone(), any::<usize>()).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        2 => (w, 0..60usize).prop_map(|(worker, n)| Op::FreeBulk { worker, n }),
        1 => any::<usize>().prop_map(|pick| Op::Release { pick }),
    ]
}

fn play(layer: Layer, ops: &[Op]) {
    let memory = memory();
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let cache = cache(&memory, "model", REPORT, layer);
    let mut held: Vec<(NonNull<u8>, u8)> = Vec::new();
    let mut stamp = 0u8;
    let whole = |&(at, byte): &(NonNull<u8>, u8)| {
        // SAFETY: out, with SIZE bytes.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), SIZE) }.iter().all(|&found| found == byte)
    };
    for op in ops {
        stamp = stamp.wrapping_add(1);
        let mut fill = |at: NonNull<u8>| {
            assert!(whole(&(at, POISON_INUSE)), "fresh objects are full of their poison");
            (0..SIZE as isize).for_each(|offset| write(at, offset, stamp));
            (at, stamp)
        };
        match *op {
            Op::Alloc { worker } => held.extend(cache.alloc(&mut workers[worker]).map(&mut fill)),
            Op::AllocBulk { worker, n } => {
                let mut bulk = vec![None; n];
                if cache.alloc_bulk(&mut workers[worker], &mut bulk) {
                    held.extend(bulk.into_iter().flatten().map(&mut fill));
                }
            }
            Op::Free { worker, pick } if !held.is_empty() => {
                free(&cache, &mut workers[worker], held.swap_remove(pick % held.len()).0).unwrap();
            }
            Op::FreeBulk { worker, n } => {
                let rest = held.split_off(held.len() - n.min(held.len()));
                let mut bulk: Vec<_> = rest.iter().map(|&(at, _)| at).collect();
                // SAFETY: the test's own, each once.
                unsafe { cache.free_bulk(&mut workers[worker], &mut bulk) }.unwrap();
            }
            Op::Release { pick } if !held.is_empty() => {
                let (at, _) = held.swap_remove(pick % held.len());
                // SAFETY: the test's own.
                unsafe { RawCache::release(at) }.unwrap();
            }
            Op::Free { .. } | Op::Release { .. } => {}
        }
        assert!(held.iter().all(whole), "contents intact after {op:?}");
    }
    assert_eq!(cache.found(), []);
    held.into_iter().for_each(|(at, _)| free(&cache, &mut workers[0], at).unwrap());
    drop((cache, workers));
    assert_eq!(memory.stats().free, memory.stats().total, "all pages back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 32 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn right_use_of_a_cache_is_never_reported(ops in prop::collection::vec(op(), 1..150)) {
        play(Layer::Sheaf, &ops);
        play(Layer::CpuSlab, &ops);
    }
}

#[test]
fn two_threads_at_one_cache_are_never_reported() {
    let memory = memory();
    let cache = cache(&memory, "busy", REPORT, Layer::Sheaf);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (cache, mut w) = (&cache, memory.worker().unwrap());
            scope.spawn(move || {
                for round in 0..crate::rounds::rounds(300) {
                    let mut held: Vec<_> = (0..1 + round % 50).flat_map(|_| cache.alloc(&mut w)).collect();
                    held.iter().for_each(|&at| write(at, (round % SIZE) as isize, 1));
                    let (some, rest) = held.split_at_mut(round % 50 / 4);
                    // SAFETY: this thread's own, each once.
                    unsafe {
                        some.iter().for_each(|&at| RawCache::release(at).unwrap());
                        cache.free_bulk(&mut w, rest).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(cache.found(), []);
}

/// Commits a misuse on a cache that aborts.
fn commit(misuse: &str) {
    let memory = memory();
    let mut w = memory.worker().unwrap();
    let [ours, other] = ["ours", "theirs"].map(|name| cache(&memory, name, DebugOptions::ALL, Layer::Sheaf));
    let (a, b) = (ours.alloc(&mut w).unwrap(), ours.alloc(&mut w).unwrap());
    let result = match misuse {
        "freed twice" => {
            [a, b].into_iter().for_each(|at| free(&ours, &mut w, at).unwrap());
            free(&ours, &mut w, a)
        }
        // SAFETY: found.
        "freed twice in one bulk" => unsafe { ours.free_bulk(&mut w, &mut [a, b, a]) },
        "is of cache theirs" => {
            let at = other.alloc(&mut w).unwrap();
            free(&ours, &mut w, at)
        }
        // SAFETY: found.
        "4 bytes behind the begin of object" => unsafe { ours.free(&mut w, a.byte_add(4)) },
        "it lies in no slab" => free(&ours, &mut w, NonNull::dangling()),
        "written to before its begin, at offset -1: 00" => {
            write(a, -1, 0);
            free(&ours, &mut w, a)
        }
        "written to behind its end, at offset 100: 00" => {
            write(a, SIZE as isize, 0);
            // SAFETY: found.
            unsafe { RawCache::release(a) }
        }
        _ => {
            free(&ours, &mut w, a).unwrap();
            write(a, 9, 0);
            while ours.alloc(&mut w).is_some() {}
            Ok(())
        }
    };
    panic!("the process goes on: {result:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no other process")]
fn a_cache_that_aborts_says_what_was_wrong_and_where() {
    if let Ok(misuse) = std::env::var(CHILD) {
        return commit(&misuse);
    }
    for misuse in [
        "freed twice",
        "freed twice in one bulk",
        "is of cache theirs",
        "4 bytes behind the begin of object",
        "it lies in no slab",
        "written to before its begin, at offset -1: 00",
        "written to behind its end, at offset 100: 00",
        "written to after it was freed, at offset 9: 00",
    ] {
        let stderr = dies(module_path!(), "a_cache_that_aborts_says_what_was_wrong_and_where", misuse);
        assert!(stderr.contains("netmem: cache ours: object 0x"), "{stderr}");
        assert!(stderr.contains(misuse) && stderr.contains("caches.rs:"), "{misuse}: {stderr}");
    }
}
