//! Tests of pairs: which packets stay ready, in which state they come out, and that pairs starve no pool.
#![cfg(not(loom))]

mod leaving;

use super::{Locking, ReadyList, ReadyPackets, ReadyPacketsStats, ReadyStack, Reset};
use crate::packet::{External, HeadCache, Packet, Packets};
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, FrameState, Pool, PoolConfig, Shrinker};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::num::NonZeroU32;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

struct Bench {
    memory: Memory,
    workers: [Worker; 2],
    pool: Pool,
    heads: HeadCache,
}

fn bench(frames: usize) -> Bench {
    let config = MemoryConfig {
        bytes: 4 << 20,
        workers: 2,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let config = PoolConfig { frames, cache: 16, refill: 8, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut workers[0], &config).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    Bench { memory, workers, pool, heads }
}

#[track_caller]
fn check(stats: &ReadyPacketsStats) {
    assert_eq!(stats.now, stats.kept.wrapping_sub(stats.taken + stats.released), "{stats:?}");
}

/// Checks that a packet is in the state of one that was never used.
#[track_caller]
fn assert_new(packet: &Packet, start: usize) {
    assert_eq!((packet.len(), packet.headroom()), (0, start));
    assert_eq!((packet.rx_queue(), packet.flow_hash(), packet.is_linear()), (None, 0, true));
}

fn use_up(packet: &mut Packet) {
    packet.put_slice(&[7; 100]).unwrap();
    packet.pull(30).unwrap();
    packet.record_rx_queue(3);
    packet.set_flow_hash(9);
}

#[test]
fn a_pool_that_traces_finds_ready_packets_of_all_workers_in_a_ready_pool() {
    let Bench { workers: [mut w, mut other], pool, heads, .. } = bench(16);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    for w in [&mut w, &mut other] {
        let [a, b] = [(); 2].map(|()| pairs.get(w).unwrap());
        pairs.free(w, a);
        pairs.free(w, b);
    }
    pool.trace(true);
    let held = pairs.get(&mut other).unwrap();
    let holders = pool.holders();
    let at = |place| -> u64 { holders.iter().filter(|h| h.state == place).map(|h| h.frames).sum() };
    assert_eq!((at(Some(FrameState::Ready)), at(None), holders.len()), (3, 1, 2), "{holders:?}");
    pairs.free(&mut other, held);
    assert_eq!((pool.holders().len(), pairs.now()), (1, 3), "each use has its own call site");
}

/// Seen: a packet from a ready packet had the call site and the age of the pair's earlier use.
#[test]
fn while_a_pool_traces_a_packet_has_the_call_site_of_its_own_use() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(16);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let mut stack = ReadyStack::new(&pool, &heads, 4, Reset::AtGet);
    let early = stack.get(&mut w).unwrap();
    stack.free(&mut w, early);
    pool.trace(true);
    let mut early = stack.get(&mut w).unwrap();
    use_up(&mut early);
    stack.free(&mut w, early);
    let line = |pool: &Pool| pool.holders()[0].site.unwrap().line();
    let first = pairs.get(&mut w).unwrap();
    pairs.free(&mut w, first);
    let (held, here) = (pairs.get(&mut w).unwrap(), line!());
    assert_eq!(line(&pool), here);
    pairs.free(&mut w, held);
    let mut packets = Packets::new();
    let (got, here) = (pairs.get_burst(&mut w, &mut packets, 3), line!());
    assert_eq!((line(&pool), pool.holders()[0].frames, got), (here, 3, 3));
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!((pairs.now(), stack.now()), (0, 0));
    pool.trace(false);
    let held = pairs.get(&mut w).unwrap();
    pairs.free(&mut w, held);
    assert_eq!(pairs.now(), 1);
}

#[test]
fn a_pair_comes_out_again_as_if_it_were_new() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(16);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let mut packet = pairs.get(&mut w).unwrap();
    let (at, start) = (packet.data().as_ptr(), packet.headroom());
    for _ in 0..10 {
        assert_new(&packet, start);
        use_up(&mut packet);
        pairs.free(&mut w, packet);
        assert_eq!((pairs.now(), pool.ledger().ready, pool.ledger().owned), (1, 1, 0));
        packet = pairs.get(&mut w).unwrap();
        assert_eq!(packet.data().as_ptr(), at, "the same frame");
    }
    let stats = pairs.stats();
    assert_eq!((stats.taken, stats.kept, stats.missed, stats.passed), (10, 10, 1, 0));
    check(&stats);
    heads.free(&mut w, packet);
    assert!(pool.ledger().all_freed());
}

#[test]
fn only_single_private_writable_packets_of_the_pool_stay_ready() {
    let Bench { memory, workers: [mut w, _], pool, heads } = bench(16);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let other =
        Pool::new(&memory, &mut w, &PoolConfig { frame_size: 4096, frames: 4, ..PoolConfig::default() });
    let other = other.unwrap();
    let mut chain = pairs.get(&mut w).unwrap();
    chain.append(pairs.get(&mut w).unwrap());
    let mut shared = pairs.get(&mut w).unwrap();
    let second = heads.share(&mut w, &mut shared).unwrap();
    let external = heads.attach_external(&mut w, External::new(vec![1], drop)).unwrap();
    let frame = other.alloc(&mut w).unwrap();
    let wrong_size = heads.attach(&mut w, frame).unwrap();
    for packet in [chain, shared, second, external, wrong_size] {
        pairs.free(&mut w, packet);
    }
    assert_eq!((pairs.now(), pairs.stats().passed), (0, 5));
    assert!(pool.ledger().all_freed() && other.ledger().all_freed());
    let frame = pool.alloc(&mut w).unwrap();
    let ordinary = heads.attach(&mut w, frame).unwrap();
    pairs.free(&mut w, ordinary);
    assert_eq!(pairs.now(), 1, "made the ordinary way, it may stay all the same");
}

#[test]
fn there_are_never_more_than_the_most_which_changes_at_once() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(128);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let mut packets = Packets::new();
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 64), 64);
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!((pairs.now(), pairs.max(), packets.len()), (50, 50, 0));
    assert_eq!(pool.ledger().ready, 50);
    pairs.set_max(20);
    assert_eq!((pairs.now(), pool.ledger().ready, pairs.stats().released), (20, 20, 30));
    pairs.set_max(0);
    assert!(pool.ledger().all_freed());
    let packet = pairs.get(&mut w).unwrap();
    pairs.free(&mut w, packet);
    assert_eq!(pairs.now(), 0, "0 keeps none");
    pairs.set_max(100);
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 64), 64);
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 40), 40);
    let stats = pairs.stats();
    assert_eq!((stats.now, stats.missed), (24, 64 + 1 + 64));
    check(&stats);
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!(pairs.drain(&mut w), 64);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_bulk_of_pairs_and_others_keeps_the_pairs() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(64);
    let pairs = ReadyPackets::new(&pool, &heads, 6);
    let mut packets = Packets::new();
    pairs.get_burst(&mut w, &mut packets, 10);
    let mut shared = pairs.get(&mut w).unwrap();
    packets.push(heads.share(&mut w, &mut shared).unwrap()).unwrap();
    packets.push(shared).unwrap();
    packets.iter_mut().take(10).for_each(use_up);
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!((pairs.now(), pairs.stats().passed, pool.ledger().ready), (6, 6, 6));
    pairs.get_burst(&mut w, &mut packets, 6);
    packets.iter().for_each(|packet| assert_new(packet, packet.headroom()));
    assert!(packets.iter().all(|packet| (64..64 + 8 * 64).contains(&packet.headroom())));
    drop(packets);
    assert!(pool.ledger().all_freed());
}

#[test]
fn pairs_are_given_up_before_the_pool_has_no_frame_for_somebody() {
    let Bench { workers: [mut a, mut b], pool, heads, .. } = bench(32);
    let pairs = ReadyPackets::new(&pool, &heads, 50);
    let mut packets = Packets::new();
    assert_eq!(pairs.get_burst(&mut a, &mut packets, 32), 32);
    pairs.free_bulk(&mut b, &mut packets);
    assert_eq!((pairs.now(), pool.ledger().ready), (32, 32), "all with the worker that only frees");
    let mut frames = Batch::new();
    assert_eq!(pool.alloc_burst(&mut a, &mut frames, 32), 32);
    assert_eq!((pairs.stats().released, pool.failed()), (32, 0));
    frames.free(&mut a);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_worker_that_leaves_takes_no_pairs_along() {
    let Bench { memory, workers: [mut a, b], pool, heads } = bench(32);
    let pairs = ReadyPackets::new(&pool, &heads, 50);
    let mut b = b;
    let mut packets = Packets::new();
    pairs.get_burst(&mut a, &mut packets, 20);
    pairs.free_bulk(&mut b, &mut packets);
    drop(b);
    assert_eq!((pairs.now(), pairs.stats().released), (0, 20));
    assert!(pool.ledger().all_freed());
    drop((pairs, heads, pool, a));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn without_a_frame_or_a_head_there_is_no_packet_and_nothing_is_lost() {
    let Bench { memory, workers: [mut w, _], pool, heads } = bench(4);
    let pairs = ReadyPackets::new(&pool, &heads, 50);
    let mut packets = Packets::new();
    assert_eq!(pairs.get_burst(&mut w, &mut packets, 9), 4);
    assert!(pairs.get(&mut w).is_none());
    drop(packets);
    let mut heads_of_others: Vec<Packet> = Vec::new();
    let pages: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    while let Ok(packet) = heads.attach_external(&mut w, External::new([0], drop)) {
        heads_of_others.push(packet);
    }
    assert!(pairs.get(&mut w).is_none() && pairs.get_burst(&mut w, &mut Packets::new(), 4) == 0);
    assert!(pool.ledger().all_freed());
    drop((pages, heads_of_others));
    assert!(pairs.get(&mut w).is_some());
}

#[test]
fn a_pool_that_closes_gets_the_pairs_back_and_no_more_are_kept() {
    let Bench { memory, workers: [mut w, _], pool, heads } = bench(16);
    let pairs = ReadyPackets::new(&pool, &heads, 50);
    let mut packets = Packets::new();
    pairs.get_burst(&mut w, &mut packets, 8);
    let late = packets.pop().unwrap();
    pairs.free_bulk(&mut w, &mut packets);
    assert_eq!((pool.ledger().ready, pool.ledger().owned), (7, 1));
    let still = pool.close_and_wait(Duration::ZERO).unwrap_err();
    assert_eq!((still.0.ready, still.0.owned), (0, 1), "{still}");
    assert!(pairs.get(&mut w).is_none());
    pairs.free(&mut w, late);
    pool.close_and_wait(Duration::ZERO).unwrap();
    assert_eq!(pairs.now(), 0);
    drop((pairs, pool, heads, w));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn a_stack_under_a_lock_keeps_pairs_in_either_way_of_beginning_again() {
    for reset in [Reset::AtPut, Reset::AtGet] {
        let Bench { workers: [mut a, mut b], pool, heads, .. } = bench(64);
        let stack = std::sync::Mutex::new(ReadyStack::new(&pool, &heads, 50, reset));
        let mut packet = stack.lock().unwrap().get(&mut a).unwrap();
        let start = packet.headroom();
        use_up(&mut packet);
        stack.lock().unwrap().free(&mut b, packet);
        assert_eq!(pool.ledger().ready, 1);
        let mut packet = stack.lock().unwrap().get(&mut a).unwrap();
        assert_new(&packet, start);
        let mut stack = stack.into_inner().unwrap();
        let second = heads.share(&mut a, &mut packet).unwrap();
        stack.free(&mut a, second);
        stack.free(&mut a, packet);
        assert_eq!((stack.now(), stack.stats().passed), (0, 2), "{reset:?}: shared");
        let packets: Vec<_> = (0..60).map(|_| stack.get(&mut a).unwrap()).collect();
        packets.into_iter().for_each(|packet| stack.free(&mut a, packet));
        assert_eq!((stack.now(), stack.max(), pool.ledger().ready), (50, 50, 50));
        stack.set_max(&mut a, 10);
        assert_eq!((stack.now(), pool.ledger().ready, stack.stats().released), (10, 10, 40));
        check(&stack.stats());
        drop(stack);
        assert!(pool.ledger().all_freed());
    }
}

#[test]
fn one_list_gives_and_keeps_the_same_pairs_whoever_takes_its_lock() {
    for locking in [Locking::Caller, Locking::Each] {
        let Bench { workers: [mut a, mut b], pool, heads, .. } = bench(64);
        let list = ReadyList::new(ReadyStack::new(&pool, &heads, 20, Reset::AtPut), locking);
        let mut packets = Packets::new();
        assert_eq!((list.get_burst(&mut a, &mut packets, 32), packets.len()), (32, 32));
        list.free_bulk(&mut b, &mut packets);
        assert_eq!((packets.len(), list.stats().now, pool.ledger().ready), (0, 20, 20), "{locking:?}");
        assert_eq!(list.get_burst(&mut b, &mut packets, 25), 25);
        assert_eq!((list.stats().taken, list.stats().missed, list.stats().passed), (20, 37, 12));
        packets.drain().for_each(|packet| list.free(&mut a, packet));
        check(&list.stats());
        drop(list);
        assert!(pool.ledger().all_freed());
    }
}

/// Runs `work`, which uses a list in code that the list calls, in a thread. Returns the counters that were seen there.
fn seen_inside(work: impl FnOnce(Sender<ReadyPacketsStats>) + Send + 'static) -> ReadyPacketsStats {
    let (sender, receiver) = channel();
    let working = thread::spawn(move || work(sender));
    let stats = receiver.recv_timeout(Duration::from_secs(120)).expect("the list waits for itself");
    working.join().unwrap();
    stats
}

/// Seen: the list called `on_release` while it held its lock. An `on_release` that used the list then deadlocked.
#[test]
fn memory_of_others_that_a_list_gives_back_may_use_the_list() {
    for locking in [Locking::Caller, Locking::Each] {
        for in_bulk in [false, true] {
            let stats = seen_inside(move |sender| {
                let Bench { workers: [mut w, _], pool, heads, .. } = bench(16);
                let list = ReadyList::new(ReadyStack::new(&pool, &heads, 4, Reset::AtPut), locking);
                let inside = list.clone();
                let external = External::new(vec![1_u8], move |_| _ = sender.send(inside.stats()));
                let external = heads.attach_external(&mut w, external).unwrap();
                let pair = heads.alloc(&mut w, &pool).unwrap();
                if in_bulk {
                    let mut packets = Packets::new();
                    assert_eq!(packets.extend([external, pair].into_iter()), 2);
                    list.free_bulk(&mut w, &mut packets);
                    assert!(packets.is_empty());
                } else {
                    list.free(&mut w, external);
                    list.free(&mut w, pair);
                }
                assert_eq!((list.stats().kept, list.stats().passed, pool.ledger().ready), (1, 1, 1));
            });
            assert_eq!((stats.passed, stats.kept), (1, u64::from(in_bulk)), "{locking:?}: after the lock");
        }
    }
}

/// It has nothing to give when frames run out, and looks at a list.
struct Looks {
    list: ReadyList,
    sender: Sender<ReadyPacketsStats>,
}

impl Shrinker for Looks {
    fn relieve(&self, _: &mut Worker) -> usize {
        _ = self.sender.send(self.list.stats());
        0
    }

    fn ready(&self) -> u64 {
        0
    }

    fn each_ready(&self, _: &mut dyn FnMut(NonZeroU32)) {}

    fn close(&self) {}
}

/// Seen: the list allocated under its lock.
#[test]
fn a_shrinker_that_is_called_because_a_list_has_no_pair_may_use_the_list() {
    for locking in [Locking::Caller, Locking::Each] {
        let stats = seen_inside(move |sender| {
            let Bench { workers: [mut w, _], pool, heads, .. } = bench(4);
            let list = ReadyList::new(ReadyStack::new(&pool, &heads, 4, Reset::AtPut), locking);
            let looks = Arc::new(Looks { list: list.clone(), sender });
            let shrinker: Weak<Looks> = Arc::downgrade(&looks);
            pool.add_shrinker(shrinker);
            let mut packets = Packets::new();
            assert_eq!(list.get_burst(&mut w, &mut packets, 9), 4);
            list.free_bulk(&mut w, &mut packets);
        });
        assert_eq!((stats.now, stats.taken), (0, 0), "{locking:?}");
        assert!(stats.missed >= 5);
    }
}

#[test]
fn a_stack_gives_its_pairs_back_with_the_next_call_after_frames_ran_out_or_the_pool_closed() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(16);
    let mut stack = ReadyStack::new(&pool, &heads, 50, Reset::AtPut);
    let packets: Vec<_> = (0..10).map(|_| stack.get(&mut w).unwrap()).collect();
    packets.into_iter().for_each(|packet| stack.free(&mut w, packet));
    let mut frames = Batch::new();
    assert_eq!(pool.alloc_burst(&mut w, &mut frames, 16), 6, "the lock is another's, for all the pool knows");
    let packet = stack.get(&mut w).unwrap();
    assert_eq!((stack.now(), pool.ledger().ready), (0, 0));
    stack.free(&mut w, packet);
    frames.free(&mut w);
    let still = pool.close_and_wait(Duration::ZERO).unwrap_err();
    assert_eq!((still.0.ready, still.0.owned), (1, 0), "{still}");
    assert!(stack.get(&mut w).is_none());
    pool.close_and_wait(Duration::ZERO).unwrap();
    assert_eq!((stack.now(), stack.max()), (0, 0));
}

#[test]
fn packets_freed_in_bulk_beside_pairs_that_are_there_stay_only_up_to_the_most() {
    let Bench { workers: [mut w, _], pool, heads, .. } = bench(128);
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let (mut first, mut second) = (Packets::new(), Packets::new());
    assert_eq!((pairs.get_burst(&mut w, &mut first, 30), pairs.get_burst(&mut w, &mut second, 30)), (30, 30));
    pairs.free_bulk(&mut w, &mut first);
    pairs.free_bulk(&mut w, &mut second);
    assert_eq!((pairs.now(), pool.ledger().ready), (50, 50));
    assert_eq!((pairs.stats().kept, pairs.stats().passed), (50, 10));
    check(&pairs.stats());
}

/// Returns a closed pool's `of`, the pool that has its number now, and a frame of the new pool in a packet. Pools of
/// other tests may take the number first; then another number is tried.
fn closed_and_its_successor<T>(
    bench: &mut Bench,
    of: impl Fn(&Pool, &HeadCache) -> T,
) -> (Pool, T, Pool, Packet) {
    let Bench { memory, workers: [w, _], heads, .. } = bench;
    let config = PoolConfig { frames: 16, cache: 16, refill: 8, ..PoolConfig::default() };
    loop {
        let closed = Pool::new(memory, w, &config).unwrap();
        let made = of(&closed, heads);
        closed.close_and_wait(Duration::ZERO).unwrap();
        let successor = Pool::new(memory, w, &config).unwrap();
        let frame = successor.alloc(w).unwrap();
        assert!(!closed.renewal().owns(&frame));
        if successor.has_number_of(&closed) {
            let packet = heads.attach(w, frame).unwrap();
            return (closed, made, successor, packet);
        }
    }
}

#[test]
fn ready_packets_of_a_closed_pool_keep_no_frame_of_its_successor() {
    let mut bench = bench(16);
    let (closed, (), successor, packet) = closed_and_its_successor(&mut bench, |_, _| ());
    let w = &mut bench.workers[0];
    let pairs = ReadyPackets::new(&closed, &bench.heads, 50);
    pairs.free(w, packet);
    assert_eq!((pairs.now(), pairs.stats().passed), (0, 1));
    pairs.set_max(60);
    let again = bench.heads.alloc(w, &successor).unwrap();
    pairs.free(w, again);
    assert_eq!((pairs.now(), pairs.stats().passed), (0, 2));
    assert!(successor.ledger().all_freed());
}

#[test]
fn a_stack_of_a_closed_pool_keeps_nothing_whatever_its_max_is() {
    let mut bench = bench(16);
    let stack = |pool: &Pool, heads: &HeadCache| ReadyStack::new(pool, heads, 50, Reset::AtPut);
    let (closed, before, successor, packet) = closed_and_its_successor(&mut bench, stack);
    let w = &mut bench.workers[0];
    let after = ReadyStack::new(&closed, &bench.heads, 50, Reset::AtGet);
    let mut packet = Some(packet);
    for mut stack in [before, after] {
        stack.free(w, packet.take().unwrap());
        assert_eq!((stack.now(), stack.max()), (0, 0));
        stack.set_max(w, 60);
        let again = bench.heads.alloc(w, &successor).unwrap();
        stack.free(w, again);
        assert_eq!((stack.now(), stack.max()), (0, 0));
        assert!(successor.ledger().all_freed());
        packet = bench.heads.alloc(w, &successor);
    }
}
