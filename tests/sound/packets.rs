//! Tests of memory lent to packets whose release panics.

use super::*;
use netmem::packet::{CopyBreak, External, HeadCache, Packet, Packets, ReadyPackets};
use netmem::pool::{Pool, PoolConfig};
use netmem::slab::{CacheConfig, SizeClasses};
use netmem::sync::Worker;

struct Ground {
    w: Worker,
    pool: Pool,
    heads: HeadCache,
    pairs: ReadyPackets,
    copy_break: CopyBreak,
}

type Way = (&'static str, fn(&mut Ground, Vec<Packet>));

fn each(packets: Vec<Packet>, mut end: impl FnMut(Packet)) {
    for packet in packets {
        let _ = panics(|| end(packet));
    }
}

fn together(packets: Vec<Packet>) -> Packets {
    let mut all = Packets::new();
    packets.into_iter().for_each(|packet| assert!(all.push(packet).is_ok()));
    all
}

const WAYS: [Way; 9] = [
    ("HeadCache::free", |g, packets| each(packets, |packet| g.heads.free(&mut g.w, packet))),
    ("HeadCache::free_bulk", |g, packets| {
        let mut packets = together(packets);
        let _ = panics(|| g.heads.free_bulk(&mut g.w, &mut packets));
        assert!(packets.is_empty());
    }),
    ("ReadyPackets::free", |g, packets| each(packets, |packet| g.pairs.free(&mut g.w, packet))),
    ("ReadyPackets::free_bulk", |g, packets| {
        let mut packets = together(packets);
        let _ = panics(|| g.pairs.free_bulk(&mut g.w, &mut packets));
        assert!(packets.is_empty());
    }),
    ("dropped", |_, packets| each(packets, drop)),
    ("linearize", |g, packets| {
        each(packets, |mut packet| {
            let len = packet.len();
            let _ = panics(|| g.heads.linearize(&mut g.w, &mut packet, &g.pool).unwrap());
            assert_eq!((packet.len(), packet.is_linear()), (len, true));
            assert_eq!(packet.data(), [5; 200].repeat(len / 200));
            g.heads.free(&mut g.w, packet);
        });
    }),
    ("make_writable", |g, packets| {
        each(packets, |mut packet| {
            let len = packet.len();
            for _ in 0..4 {
                let _ = panics(|| packet.make_writable(&mut g.w, &g.pool).unwrap());
            }
            assert_eq!(packet.len(), len);
            assert!(packet.segments().all(|bytes| bytes == [5; 200]) && packet.reclaim());
            g.heads.free(&mut g.w, packet);
        });
    }),
    ("condense", |g, packets| {
        each(packets, |mut packet| {
            let len = packet.len();
            for _ in 0..4 {
                let _ = panics(|| _ = g.copy_break.apply(&mut g.w, &mut packet));
            }
            assert_eq!(packet.len(), len);
            g.heads.free(&mut g.w, packet);
        });
    }),
    ("detach", |g, packets| {
        each(packets, |packet| drop(g.heads.detach(&mut g.w, packet).map(|frame| frame.free(&mut g.w))));
    }),
];

const PACKETS: usize = 24;
const PARTS: usize = 3;

/// Every other packet is a chain of external parts. The others are a frame and its head.
fn packets(g: &mut Ground, drops: Drops, bad: fn(usize) -> bool) -> Vec<Packet> {
    let mut all = Vec::new();
    for n in 0..PACKETS {
        let mut whole: Option<Packet> = None;
        for part in 0..PARTS {
            let number = n * PARTS + part;
            // It pins more than it shows, so that it is condensed.
            let value = drops.value(number, bad(number));
            let mut external = External::new(vec![5; 8 << 10], move |_| drop(value));
            external.trim(200).unwrap();
            let packet = g.heads.attach_external(&mut g.w, external).unwrap();
            match &mut whole {
                Some(whole) => whole.append(packet),
                whole => *whole = Some(packet),
            }
        }
        all.extend(whole);
        let mut frame = g.pool.alloc(&mut g.w).unwrap();
        frame.put(200).unwrap().fill(5);
        all.push(g.heads.attach(&mut g.w, frame).ok().unwrap());
    }
    all
}

#[test]
fn lent_memory_whose_release_panics_is_released_once_and_loses_no_head_or_frame() {
    let bad: [fn(usize) -> bool; 4] = [|n| n == 0, |n| n == 31, |n| n == PACKETS * PARTS - 1, |_| true];
    for (what, end) in WAYS {
        for (which, bad) in bad.into_iter().enumerate() {
            let memory = memory(1);
            let mut w = memory.worker().unwrap();
            let pool =
                Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
            let heads = HeadCache::new(&memory).unwrap();
            let pairs = ReadyPackets::new(&pool, &heads, 4);
            let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
            let mut g = Ground { w, pool, heads, pairs, copy_break: CopyBreak::new(&sizes) };
            let drops = Drops::new(PACKETS * PARTS);
            let packets = packets(&mut g, drops, bad);
            end(&mut g, packets);
            assert_eq!(
                drops.counts(),
                [1; PACKETS * PARTS],
                "{what}, {which}: how often each was given back"
            );
            let Ground { mut w, pool, heads, pairs, copy_break } = g;
            pairs.drain(&mut w);
            assert!(pool.ledger().all_freed(), "{what}, {which}: {:?}", pool.ledger());
            drop((pairs, heads, pool, copy_break, sizes));
            drop(w);
            assert!(is_home(&memory), "{what}, {which}");
        }
    }
}

#[test]
fn a_closure_that_panics_while_it_writes_leaves_all_frames_in_their_batch() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    for at in [0, 7, 8, 20, 31] {
        let mut frames = netmem::pool::Batch::new();
        assert_eq!(pool.alloc_burst(&mut w, &mut frames, 32), 32);
        let write = |i: usize, bytes: &mut [u8]| {
            assert_ne!(i, at, "frame {at}");
            bytes.fill(1);
        };
        assert!(panics(|| _ = frames.put_each(60, write)));
        assert!(panics(|| frames.each_data_mut(4, write)));
        assert_eq!((frames.len(), pool.ledger().owned), (32, 32));
        let mut packets = Packets::new();
        assert_eq!(heads.attach_burst(&mut w, &mut frames, &mut packets), 32);
        assert!(panics(|| _ = packets.put_each(60, write)));
        assert_eq!(packets.len(), 32);
        heads.free_bulk(&mut w, &mut packets);
        assert!(pool.ledger().all_freed());
    }
}
