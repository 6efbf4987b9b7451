//! Pairs whose pages are to leave the pool.

use super::*;
use crate::page::Watermarks;

/// Seen: the frames were used again and again without their pool, so their pages never left.
#[test]
fn pairs_whose_pages_are_to_leave_go_to_their_pool_and_those_that_stay_are_ready_again() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(64);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let mut packets = Packets::new();
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 50), 50);
    pairs.free_bulk(&mut w, &mut packets);
    pool.resize(2).unwrap();
    assert!(pairs.now() == 50 && pool.leaving_pages() >= 24, "{}", pool.leaving_pages());
    for got in [50, 2] {
        assert_eq!(pairs.get_burst(&mut w, &mut packets, 50), got);
        pairs.free_bulk(&mut w, &mut packets);
        let ledger = pool.ledger();
        assert_eq!((pool.leaving_pages(), ledger.total, ledger.balanced()), (0, 2, true), "{ledger:?}");
    }
    assert_eq!(pairs.now(), 2);
    pool.resize(64).unwrap();
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 60), 60);
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!(pairs.now(), 50);
}

#[test]
fn a_pair_on_a_page_of_the_reserve_is_not_kept() {
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers: 1,
        watermarks: Watermarks { min: 100, low: 120, high: 140 },
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 64, cache: 16, refill: 8, urgent: true, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    // So that there are heads when no page is left for more.
    let external = heads.attach_external(&mut w, External::new(vec![1], drop)).unwrap();
    let hog: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    let packet = pairs.get(&mut w).expect("out of the reserve");
    assert_eq!((pool.leaving_pages(), pool.ledger().total), (1, 2));
    pairs.free(&mut w, packet);
    assert_eq!((pairs.now(), pool.leaving_pages(), pool.ledger().total), (0, 0, 0));
    drop(hog);
    let packet = pairs.get(&mut w).unwrap();
    pairs.free(&mut w, packet);
    assert_eq!((pairs.now(), pool.leaving_pages()), (1, 0), "other pages stay");
    drop(external);
}
