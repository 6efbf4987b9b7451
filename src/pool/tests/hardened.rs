//! Pools of a hardened memory.

use super::*;
use crate::page::Hardening;
use crate::pool::{Fragments, PoolConfig};

fn hardened(hardening: Hardening) -> (Memory, Worker, Worker, Pool) {
    let backing = BackingPreference::Small;
    let config = MemoryConfig { bytes: 4 << 20, workers: 2, backing, hardening, ..Default::default() };
    let memory = Memory::new(&config).unwrap();
    let (mut w, other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
    (memory, w, other, pool)
}

/// Takes all frames, each of which has no byte of an earlier use, and fills them.
fn all_filled(pool: &Pool, w: &mut Worker) -> Vec<Frame> {
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(w)).collect();
    for frame in &mut frames {
        frame.push(frame.headroom()).unwrap();
        frame.put(frame.tailroom()).unwrap();
        assert!(frame.data() == vec![0; frame.size()]);
        frame.data_mut().fill(7);
    }
    frames
}

#[test]
fn whoever_frees_a_frame_it_is_clear_when_it_is_given_out() {
    let (memory, mut w, mut other, pool) = hardened("clear".parse().unwrap());
    for round in 0..4 {
        let frames = all_filled(&pool, &mut w);
        assert_eq!(frames.len(), 64, "round {round}");
        for (at, frame) in frames.into_iter().enumerate() {
            match at % 3 {
                0 => pool.free(&mut w, frame),
                1 => pool.free(&mut other, frame),
                _ => drop(frame),
            }
        }
        assert!(pool.ledger().balanced());
    }
    drop((pool, w, other));
    let stats = memory.stats();
    assert_eq!(stats.free + stats.cached, stats.total);
}

#[test]
fn pages_of_a_pool_that_has_gone_are_clear() {
    let (memory, mut w, other, pool) = hardened("clear".parse().unwrap());
    drop(all_filled(&pool, &mut w));
    drop((pool, other));
    let pages: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    assert_eq!(pages.len(), memory.stats().total as usize);
    assert!(pages.iter().all(|page| page.bytes().iter().all(|&byte| byte == 0)));
}

#[test]
fn pieces_of_a_frame_that_is_cut_again_are_clear() {
    let (_memory, mut w, _other, pool) = hardened("clear".parse().unwrap());
    let mut fragments = Fragments::new(&pool);
    for _ in 0..10 {
        let mut piece = fragments.alloc(&mut w, 1024).unwrap();
        assert!(piece.data().iter().all(|&byte| byte == 0));
        piece.data_mut().fill(7);
    }
}

#[test]
fn frames_of_new_pages_come_in_an_order_that_follows_from_the_seed() {
    let order = |seed| {
        let (memory, mut w, _other, pool) =
            hardened(Hardening { random: true, seed, ..Hardening::default() });
        let first = memory.region().first_chunk();
        let frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut w)).collect();
        let ids: Vec<u32> = frames.iter().map(|frame| frame.id().get() - first).collect();
        drop(frames);
        assert!(pool.ledger().all_freed());
        ids
    };
    let mut ids = order(Some(1));
    assert_eq!(ids, order(Some(1)));
    assert_ne!(ids, order(Some(2)));
    assert_ne!(ids, order(None));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 64, "each once");
}
