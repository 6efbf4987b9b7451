//! Callbacks of the memory and of pools that panic.

use super::*;
use netmem::packet::{HeadCache, HeadCacheConfig, HeadCacheMode, Packets};
use netmem::page::{Owner, OwnerId, Page};
use netmem::pool::{Batch, Frame, Pool, PoolConfig, Shrinker};
use netmem::slab::{Cache, CacheConfig, Layer, Object, RawCache, SizeClasses, SlabBytes};
use netmem::sync::Worker;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;

/// The result of a round of an operation.
#[derive(Default)]
struct Held {
    pages: Vec<Page>,
    frames: Vec<Batch>,
    objects: Vec<Object<[u64; 32]>>,
    raw: Vec<NonNull<u8>>,
    bytes: Vec<SlabBytes>,
    packets: Vec<Packets>,
}

struct Ground {
    memory: Memory,
    w: Worker,
    pool: Pool,
    caches: [Cache<[u64; 32]>; 2],
    raw: RawCache,
    sizes: SizeClasses,
    heads: [HeadCache; 2],
}

type Operation = (&'static str, fn(&mut Ground, &mut Held));

/// Operations that take pages, and so may call back.
const OPERATIONS: [Operation; 12] = [
    ("Memory::alloc", |g, held| held.pages.extend(g.memory.alloc(&mut g.w, 0))),
    ("Memory::alloc of 8 pages", |g, held| held.pages.extend(g.memory.alloc(&mut g.w, 3))),
    ("Memory::alloc_bulk", |g, held| {
        let mut pages = [const { None }; 40];
        let _ = catch_unwind(AssertUnwindSafe(|| g.memory.alloc_bulk(&mut g.w, &mut pages)));
        held.pages.extend(pages.into_iter().flatten());
    }),
    ("Memory::alloc_with_reserve", |g, held| held.pages.extend(g.memory.alloc_with_reserve(&mut g.w, 0))),
    ("Pool::alloc", |g, held| {
        let mut batch = Batch::new();
        drop(g.pool.alloc(&mut g.w).map(|frame| batch.push(frame)));
        held.frames.push(batch);
    }),
    ("Pool::alloc_burst", |g, held| {
        let mut batch = Batch::new();
        g.pool.alloc_burst(&mut g.w, &mut batch, 64);
        held.frames.push(batch);
    }),
    ("Cache::alloc", |g, held| {
        for cache in &g.caches {
            held.objects.extend(cache.alloc(&mut g.w, [7; 32]));
        }
    }),
    ("Cache::alloc_bulk", |g, held| {
        for cache in &g.caches {
            cache.alloc_bulk(&mut g.w, 50, &mut held.objects, || [7; 32]);
        }
    }),
    ("RawCache::alloc", |g, held| held.raw.extend(g.raw.alloc(&mut g.w))),
    ("RawCache::alloc_bulk", |g, held| {
        let mut some = [None; 50];
        if g.raw.alloc_bulk(&mut g.w, &mut some) {
            held.raw.extend(some.into_iter().flatten());
        }
    }),
    ("SizeClasses::bytes", |g, held| {
        held.bytes.extend(g.sizes.bytes(&mut g.w, 3000));
        held.bytes.extend(g.sizes.bytes(&mut g.w, 30_000));
    }),
    ("HeadCache::attach_burst", |g, held| {
        for heads in &g.heads {
            let (mut frames, mut packets) = (Batch::new(), Packets::new());
            g.pool.alloc_burst(&mut g.w, &mut frames, 40);
            heads.attach_burst(&mut g.w, &mut frames, &mut packets);
            held.packets.push(packets);
        }
    }),
];

fn ground(clears: bool) -> Ground {
    let watermarks = Watermarks { min: 16, low: 200, high: 240 };
    let memory = Memory::new(&MemoryConfig {
        bytes: 2 << 20,
        backing: BackingPreference::Small,
        watermarks,
        ..MemoryConfig::default()
    })
    .unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig {
        frames: 512,
        cache: 64,
        refill: 32,
        init_on_alloc: clears,
        ..PoolConfig::of_frames(4096)
    };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let cache = |layer| CacheConfig { layer, merge: false, min_partial: Some(0), ..CacheConfig::default() };
    let caches = [Layer::Sheaf, Layer::CpuSlab].map(|layer| Cache::new(&memory, &cache(layer)).unwrap());
    let raw = RawCache::new(&memory, 256, 8, &cache(Layer::Sheaf)).unwrap();
    let sizes = SizeClasses::new(&memory, &cache(Layer::Sheaf)).unwrap();
    let heads = [HeadCacheMode::TwoSided, HeadCacheMode::Bulk].map(|mode| {
        HeadCache::with(&memory, &HeadCacheConfig { mode, ..HeadCacheConfig::default() }).unwrap()
    });
    Ground { memory, w, pool, caches, raw, sizes, heads }
}

/// Gives all back by the fast ways, whatever panics meanwhile.
fn give_back(g: &mut Ground, held: Held) {
    for page in held.pages {
        let _ = panics(|| g.memory.free(&mut g.w, page));
    }
    for mut frames in held.frames {
        let _ = panics(|| frames.free(&mut g.w));
    }
    let mut objects = held.objects;
    while let Some(object) = objects.pop() {
        let _ = panics(|| g.caches[objects.len() % 2].free(&mut g.w, object));
    }
    for object in held.raw {
        // It was allocated from this cache, is out, and is not used any more.
        let _ = panics(|| give_raw(&g.raw, &mut g.w, object));
    }
    for bytes in held.bytes {
        let _ = panics(|| g.sizes.free_bytes(&mut g.w, bytes));
    }
    for mut packets in held.packets {
        let _ = panics(|| g.heads[0].free_bulk(&mut g.w, &mut packets));
    }
}

#[allow(unsafe_code)]
fn give_raw(cache: &RawCache, w: &mut Worker, object: NonNull<u8>) {
    // SAFETY: the callers give objects of this cache that are out, and do not use them any more.
    unsafe { cache.free(w, object) }.unwrap();
}

#[test]
fn a_callback_of_pressure_that_panics_loses_no_page_frame_or_object() {
    for clears in [false, true] {
        for (what, operation) in OPERATIONS {
            let mut g = ground(clears);
            let calls = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&calls);
            g.memory.on_pressure(move |_, _| {
                count.fetch_add(1, Relaxed);
                panic!("pressure");
            });
            // Several times over the mark, in both directions.
            for _ in 0..3 {
                let mut held = Held::default();
                // Until hardly anything is left, or the pool has given all.
                for n in 0..6_000 {
                    if n % 64 == 63 && g.memory.stats().free <= 20 {
                        break;
                    }
                    let _ = panics(|| operation(&mut g, &mut held));
                }
                give_back(&mut g, held);
                g.caches.iter().for_each(|cache| _ = panics(|| cache.shrink()));
            }
            assert!(calls.load(Relaxed) > 0, "{what}, cleared: {clears}: the mark was crossed");
            let Ground { memory, w, pool, caches, raw, sizes, heads } = g;
            for cache in caches {
                assert!(cache.validate().is_empty(), "{what}, cleared: {clears}");
                assert!(cache.destroy().is_ok(), "{what}, cleared: {clears}: no object is out");
            }
            assert!(raw.destroy().is_ok(), "{what}, cleared: {clears}: no object is out");
            assert!(pool.ledger().all_freed(), "{what}, cleared: {clears}: {:?}", pool.ledger());
            let _ = panics(|| drop(pool));
            let _ = panics(|| drop(sizes));
            heads.into_iter().for_each(|heads| _ = panics(|| drop(heads)));
            let _ = panics(|| drop(w));
            assert_eq!(
                memory.worker().map(|w| w.slot()),
                Ok(0),
                "{what}, cleared: {clears}: the slot is free"
            );
            assert!(is_home(&memory), "{what}, cleared: {clears}: {:?}", memory.stats());
        }
    }
}

/// Keeps frames, and panics on request.
struct Keeper {
    frames: Mutex<Vec<Frame>>,
    at: &'static str,
}

impl Shrinker for Keeper {
    fn relieve(&self, w: &mut Worker) -> usize {
        assert_ne!(self.at, "relieve");
        std::mem::take(&mut *self.frames.lock().unwrap()).into_iter().map(|frame| frame.free(w)).count()
    }

    fn ready(&self) -> u64 {
        self.frames.lock().unwrap().len() as u64
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        self.frames.lock().unwrap().iter().for_each(|frame| found(frame.id()));
    }

    fn close(&self) {
        assert_ne!(self.at, "close");
        self.frames.lock().unwrap().clear();
    }
}

#[test]
fn a_shrinker_that_panics_stops_neither_the_pool_nor_other_shrinkers() {
    for at in ["relieve", "close"] {
        for first_is_bad in [false, true] {
            let memory = memory(1);
            let mut w = memory.worker().unwrap();
            let pool =
                Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
            let mut keepers = ["", at].map(|at| Arc::new(Keeper { frames: Mutex::default(), at }));
            if first_is_bad {
                keepers.reverse();
            }
            for keeper in &keepers {
                let weak: Weak<Keeper> = Arc::downgrade(keeper);
                pool.add_shrinker(weak);
                keeper.frames.lock().unwrap().extend((0..4).filter_map(|_| pool.alloc(&mut w)));
            }
            let mut held: Vec<Batch> = Vec::new();
            for _ in 0..40 {
                let mut batch = Batch::new();
                let _ = panics(|| _ = pool.alloc_burst(&mut w, &mut batch, 7));
                held.push(batch);
            }
            let out: usize = held.iter().map(|batch| batch.len()).sum();
            let kept: usize = keepers.iter().map(|keeper| keeper.frames.lock().unwrap().len()).sum();
            let ledger = pool.ledger();
            assert_eq!((ledger.owned, ledger.ready), (out as u64, kept as u64), "{at}: {ledger:?}");
            held.iter_mut().for_each(|batch| batch.free(&mut w));
            let closed = panics(|| pool.close());
            assert_eq!(closed, at == "close");
            keepers.iter().for_each(|keeper| keeper.frames.lock().unwrap().clear());
            assert!(pool.close_and_wait(std::time::Duration::ZERO).is_ok(), "{at}: {:?}", pool.ledger());
            drop((pool, w));
            assert!(is_home(&memory), "{at} {first_is_bad}");
        }
    }
}

#[test]
fn an_owner_that_panics_at_a_pages_last_release_has_it_or_it_is_freed() {
    static EARLY: AtomicBool = AtomicBool::new(false);
    let owner = OwnerId::register(Owner {
        release: |_, page, word| {
            assert_ne!(word, 1, "release");
            Some(page)
        },
        early: Some(|_, _, word| {
            EARLY.store(true, Relaxed);
            assert_ne!(word, 2, "early");
        }),
    })
    .unwrap();
    for word in [0, 1, 2] {
        for by_worker in [false, true] {
            let memory = memory(1);
            let mut w = memory.worker().unwrap();
            let shared = memory.alloc(&mut w, 1).unwrap().share(owner, word);
            for claim in [shared.clone(), shared] {
                let _ = panics(|| if by_worker { claim.release(&mut w) } else { drop(claim) });
            }
            assert!(EARLY.swap(false, Relaxed));
            drop(w);
            assert!(is_home(&memory), "word {word}");
        }
    }
}

#[test]
fn a_callback_of_pressure_that_is_replaced_may_set_another_when_it_goes() {
    struct Again(Memory);
    impl Drop for Again {
        fn drop(&mut self) {
            self.0.on_pressure(|_, _| ());
        }
    }
    let memory = memory(1);
    // Not a clone that the memory itself keeps: that would keep it for good.
    let other = super::memory(1);
    let again = Again(other.clone());
    other.on_pressure(move |_, _| _ = &again);
    let done = std::thread::spawn(move || {
        other.on_pressure(|_, _| ());
        drop(other);
    });
    let begun = std::time::Instant::now();
    while !done.is_finished() {
        assert!(begun.elapsed().as_secs() < 60, "it waits for its own lock");
        std::thread::yield_now();
    }
    done.join().unwrap();
    drop(memory);
}
