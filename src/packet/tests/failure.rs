//! Tests that nothing is lost, whichever allocation fails.

use crate::packet::{CopyBreak, External, HeadCache, HeadCacheConfig, HeadCacheMode, Packet, Packets};
use crate::page::{Lists, Memory, MemoryConfig};
use crate::pool::tests::panics::{PanickingShrinker, memory_without_lists, next_page_home_panics, panics};
use crate::pool::{Batch, Fragments, Pool, PoolConfig, Shrinker};
use crate::rounds::stride;
use crate::slab::{CacheConfig, SizeClasses};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Scene {
    pool: Pool,
    heads: HeadCache,
    sizes: SizeClasses,
}

fn scene(memory: &Memory, w: &mut Worker, mode: HeadCacheMode) -> Option<Scene> {
    let config = PoolConfig { frames: 64, cache: 4, refill: 2, ..PoolConfig::default() };
    let pool = Pool::new(memory, w, &config).unwrap();
    let cache = CacheConfig { sheaf: Some(2), order: Some(0), ..HeadCacheConfig::default().cache };
    let config = HeadCacheConfig { cache, mode, size: 4, refill: 3, free: 2, defer_max: 4 };
    let heads = HeadCache::with(memory, &config).unwrap();
    Some(Scene { pool, heads, sizes: SizeClasses::new(memory, &CacheConfig::default()).unwrap() })
}

/// Runs every operation that takes memory, and checks what the packets hold afterwards. Returns how many were refused.
fn run(scene: &Scene, w: &mut Worker) -> usize {
    let Scene { pool, heads, sizes } = scene;
    let (mut held, mut refused): (Vec<Packet>, usize) = (Vec::new(), 0);
    let (mut frames, mut packets) = (Batch::new(), Packets::new());
    let mut pieces = Fragments::new(pool);
    for i in 0..24_u8 {
        refused += 8 - pool.alloc_burst(w, &mut frames, 8);
        heads.attach_burst(w, &mut frames, &mut packets);
        refused += frames.len();
        frames.free(w);
        packets.iter_mut().for_each(|packet| packet.put_slice(&[i; 100]).unwrap());
        let Some(mut one) = packets.pop() else { continue };
        let before = [one.data().to_vec(), one.data().to_vec()].concat();
        if let Some(other) = packets.pop() {
            one.append(other);
        }
        let len = one.len();
        match heads.share(w, &mut one) {
            Some(second) => held.push(second),
            None => refused += 1,
        }
        match heads.split(w, &mut one, 50) {
            Ok(back) => one.append(back),
            Err(_) => refused += 1,
        }
        refused += usize::from(heads.linearize(w, &mut one, pool).is_err());
        refused += usize::from(one.make_writable(w, pool).is_err());
        let piece =
            pieces.alloc(w, 40).map(|piece| heads.attach_fragment(w, piece).map_err(|piece| piece.free(w)));
        let external = heads.attach_external(w, External::new([i; 30], drop)).map_err(drop);
        for part in [piece.unwrap_or(Err(())), external] {
            part.map_or_else(|()| refused += 1, |part| one.append(part));
        }
        let mut whole = vec![0; before.len().min(len)];
        assert_eq!((one.copy_to(&mut whole), &whole[..]), (len, &before[..len]));
        let copy_break = CopyBreak::new(sizes);
        held.iter_mut().chain([&mut one]).for_each(|packet| {
            copy_break.apply(w, packet);
        });
        held.push(one);
        heads.free_bulk(w, &mut packets);
        if held.len() > 8 {
            held.drain(..5).for_each(|packet| heads.free(w, packet));
        }
    }
    held.into_iter().for_each(|packet| heads.free(w, packet));
    pieces.flush(w);
    refused
}

#[test]
fn the_failure_of_any_one_allocation_loses_nothing() {
    let lists = Lists::Fixed { high: 0, batch: 0 };
    let backing = BackingPreference::Small;
    let memory =
        Memory::new(&MemoryConfig { lists, backing, bytes: 4 << 20, workers: 1, ..MemoryConfig::default() })
            .unwrap();
    for mode in [HeadCacheMode::Each, HeadCacheMode::Bulk, HeadCacheMode::FlushOnly, HeadCacheMode::TwoSided]
    {
        let mut failures = 0;
        for n in (0..).step_by(stride(21)) {
            let mut w = memory.worker().unwrap();
            let scene = scene(&memory, &mut w, mode).unwrap();
            memory.refuse(n);
            failures += usize::from(run(&scene, &mut w) > 0);
            let spent = memory.refusal_spent();
            assert!(
                scene.pool.ledger().all_freed(),
                "after the failure of allocation {n}: {:?}",
                scene.pool.ledger()
            );
            drop((scene, w));
            assert_eq!(memory.stats().free, memory.stats().total, "after the failure of allocation {n}");
            if !spent {
                assert!(n > 20, "the scenario asks for memory {n} times");
                break;
            }
        }
        assert!(
            failures > 0 || mode == HeadCacheMode::TwoSided,
            "{mode:?}: some failure is seen by the caller"
        );
    }
}

#[test]
fn a_callback_that_panics_as_a_head_goes_home_loses_no_frame() {
    let memory = memory_without_lists();
    let mut w = memory.worker().unwrap();
    let Scene { pool, heads, sizes: _ } = scene(&memory, &mut w, HeadCacheMode::TwoSided).unwrap();
    let cache = CacheConfig { merge: false, ..HeadCacheConfig::default().cache };
    let others = HeadCache::with(&memory, &HeadCacheConfig { cache, ..HeadCacheConfig::default() }).unwrap();
    let packet = others.alloc(&mut w, &pool).unwrap();
    // With this head, its slab is freed.
    drop(others);
    next_page_home_panics(&memory);
    assert!(panics(|| heads.free(&mut w, packet)));
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

/// Memory of others that can be read a number of times, and panics then.
struct ReadTimes(AtomicUsize);

impl AsRef<[u8]> for ReadTimes {
    fn as_ref(&self) -> &[u8] {
        let reads = self.0.fetch_sub(1, Relaxed);
        if reads == 0 { panic!("not again") } else { &[9; 30] }
    }
}

/// Seen: the first part had 30 bytes of an earlier packet as data.
#[test]
fn memory_of_others_that_panics_while_it_is_copied_leaves_no_old_bytes_in_the_packet() {
    let memory = memory_without_lists();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    for reads in 1.. {
        let mut old = pool.alloc(&mut w).unwrap();
        old.put_slice(&[7; 100]).unwrap();
        old.free(&mut w);
        let mut packet = heads.alloc(&mut w, &pool).unwrap();
        packet.put_slice(b"ours").unwrap();
        let external = External::new(ReadTimes(AtomicUsize::new(reads)), drop);
        packet.append(heads.attach_external(&mut w, external).map_err(drop).unwrap());
        let panicked = panics(|| heads.linearize(&mut w, &mut packet, &pool).unwrap());
        let ours = packet.data().to_vec();
        heads.free(&mut w, packet);
        if !panicked {
            assert_eq!(ours, [&b"ours"[..], &[9; 30]].concat());
            break;
        }
        assert_eq!(ours, b"ours", "after {reads} reads");
    }
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

/// Seen: the packet had lost all parts but the first afterwards.
#[test]
fn a_callback_that_panics_while_a_packet_is_made_linear_leaves_it_whole() {
    let memory = memory_without_lists();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 2, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    let mut parts = Vec::new();
    while let Some(mut packet) = heads.alloc(&mut w, &pool) {
        // One byte is left, so the parts do not fit together.
        let room = packet.tailroom();
        packet.put(room - 1).unwrap();
        parts.push(packet);
    }
    let mut packet = parts.remove(0);
    packet.append(parts.remove(0));
    let len = packet.len();
    let shrinker: Arc<dyn Shrinker> = Arc::new(PanickingShrinker);
    pool.add_shrinker(Arc::downgrade(&shrinker));
    assert!(panics(|| _ = heads.linearize(&mut w, &mut packet, &pool)));
    assert_eq!((packet.len(), packet.segments().count()), (len, 2));
    parts.push(packet);
    parts.into_iter().for_each(|packet| heads.free(&mut w, packet));
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}
