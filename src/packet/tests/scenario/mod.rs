//! Every operation of pool and packet, with one allocation of pages failing. Whichever it is, the ledger balances after
//! each chapter, and everything is free at the end.
//!
//! `tests/structure` finds an operation that is missing in all chapters.

mod end;
mod frames;
mod packets;
mod ready;

use crate::packet::{CopyBreak, HeadCache, HeadCacheConfig, HeadCacheMode, ReadyPackets, ReadyStack, Reset};
use crate::page::{Lists, Memory, MemoryConfig};
use crate::pool::{DmaMap, Fragments, Frame, Pool, PoolConfig, Shrinker};
use crate::rounds::stride;
use crate::slab::{CacheConfig, SizeClasses};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

/// Number of frames of the pool at first, and after it was enlarged.
const FRAMES: usize = 40;
const CAPACITY: usize = 64;

/// The test's objects, for a worker that owns the pool and another one.
struct Scene {
    pieces: Fragments,
    ready: ReadyPackets,
    stack: ReadyStack,
    keeper: Arc<Keeper>,
    copy_break: CopyBreak,
    sizes: SizeClasses,
    heads: HeadCache,
    pool: Pool,
    w: Worker,
    other: Worker,
    /// Operations that did not return what was requested.
    refused: usize,
}

/// A holder that keeps frames of a pool ready, and is not a ready pool of this library.
#[derive(Default)]
struct Keeper(Mutex<Vec<Frame>>);

impl Keeper {
    fn take(&self) -> Vec<Frame> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Shrinker for Keeper {
    fn relieve(&self, w: &mut Worker) -> usize {
        let frames = self.take();
        let n = frames.len();
        frames.into_iter().for_each(|frame| frame.free(w));
        n
    }

    fn ready(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        self.0.lock().unwrap().iter().map(Frame::id).for_each(found);
    }

    fn close(&self) {
        drop(self.take());
    }
}

impl Scene {
    fn new(memory: &Memory, mode: HeadCacheMode, frame_size: usize, reset: Reset) -> Scene {
        let (mut w, other) = (memory.worker().unwrap(), memory.worker().unwrap());
        let config = PoolConfig {
            frames: FRAMES,
            capacity: CAPACITY,
            cache: 8,
            refill: 4,
            dma: DmaMap::Umem,
            ..PoolConfig::of_frames(frame_size)
        };
        let pool = Pool::new(memory, &mut w, &config).unwrap();
        let cache = CacheConfig { sheaf: Some(2), order: Some(0), ..HeadCacheConfig::default().cache };
        let config = HeadCacheConfig { cache, mode, size: 4, refill: 3, free: 2, defer_max: 4 };
        let heads = HeadCache::with(memory, &config).unwrap();
        let sizes = SizeClasses::new(memory, &CacheConfig::default()).unwrap();
        let keeper = Arc::new(Keeper::default());
        pool.add_shrinker(Arc::<Keeper>::downgrade(&keeper));
        Scene {
            pieces: Fragments::new(&pool),
            ready: ReadyPackets::new(&pool, &heads, 6),
            stack: ReadyStack::new(&pool, &heads, 6, reset),
            keeper,
            copy_break: CopyBreak::new(&sizes),
            sizes,
            heads,
            pool,
            w,
            other,
            refused: 0,
        }
    }

    /// Runs all chapters in two rounds: with the pool as made, then enlarged, traced and with other tunables.
    fn run(mut self) -> usize {
        for round in 0..2 {
            let chapters = [
                Scene::one_frame,
                Scene::arrays,
                Scene::batches,
                Scene::sorted,
                Scene::shared,
                Scene::pieces,
                Scene::bytes,
                Scene::chain,
                Scene::kinds,
                Scene::kept_as_words,
                Scene::bulk,
                Scene::flight,
                Scene::ready,
                Scene::stack,
                Scene::exhaustion,
            ];
            for (i, chapter) in chapters.into_iter().enumerate() {
                chapter(&mut self);
                let ledger = self.pool.ledger();
                assert!(ledger.balanced() && ledger.owned == 0, "round {round}, chapter {i}: {ledger:?}");
            }
            self.tune(round == 0);
        }
        self.end()
    }

    /// Returns the result, or counts one more refusal.
    fn got<T>(&mut self, answer: Option<T>) -> Option<T> {
        self.refused += usize::from(answer.is_none());
        answer
    }
}

#[test]
fn whichever_allocation_fails_in_all_that_pool_and_packet_do_nothing_is_lost() {
    let config = MemoryConfig {
        bytes: 4 << 20,
        workers: 2,
        lists: Lists::Fixed { high: 0, batch: 0 },
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    for (mode, frame_size, reset) in [
        (HeadCacheMode::TwoSided, 2048, Reset::AtPut),
        (HeadCacheMode::FlushOnly, 4096, Reset::AtGet),
        (HeadCacheMode::Bulk, 8192, Reset::AtPut),
        (HeadCacheMode::Each, 2048, Reset::AtGet),
    ]
    .into_iter()
    .step_by(stride(2))
    {
        let setting = format!("{mode:?}, {frame_size}, {reset:?}");
        let mut failures = 0;
        for n in (0..).step_by(stride(61)) {
            let scene = Scene::new(&memory, mode, frame_size, reset);
            memory.refuse(n);
            failures += usize::from(scene.run() > 0);
            let (spent, stats) = (memory.refusal_spent(), memory.stats());
            assert_eq!((stats.free, stats.cached), (stats.total, 0), "{setting}: allocation {n}");
            if !spent {
                assert!(n > 60, "{setting}: the scenario asks for pages {n} times");
                break;
            }
        }
        assert!(failures > 10 / stride(61), "{setting}: {failures} failures are seen by the caller");
    }
}
