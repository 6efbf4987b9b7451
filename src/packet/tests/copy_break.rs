//! Small slices that would pin large memory.

use super::bench;
use crate::packet::{CopyBreak, Packet};
use crate::pool::Fragments;
use crate::rounds::stride;
use crate::slab::{CacheConfig, SizeClasses};

/// An attacker makes the program keep one tiny slice of each frame and free everything else.
#[test]
fn one_tiny_slice_of_every_frame_held_pins_no_more_than_the_bound_says() {
    for (bytes, bound) in
        [(1, 8), (60, 8), (64, 2), (200, 8), (300, 4), (250, 8), (1_000, 2)].into_iter().step_by(stride(3))
    {
        let (memory, mut w, pool, heads) = bench(512);
        let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
        let copy_break = CopyBreak::new(&sizes);
        copy_break.set_bound(bound);
        let mut pieces = Fragments::new(&pool);
        let mut held: Vec<Packet> = Vec::new();
        for i in 0..400_usize {
            // The first piece of each frame is kept. The rest of the frame goes to a holder that frees it.
            let piece = pieces.alloc(&mut w, bytes).unwrap();
            pieces.flush(&mut w);
            let mut packet = heads.attach_fragment(&mut w, piece).unwrap();
            packet.put_slice(&vec![i as u8; bytes]).unwrap();
            copy_break.apply(&mut w, &mut packet);
            held.push(packet);
        }
        let charged: usize = held.iter().map(|packet| packet.len().max(64)).sum();
        let pinned: usize = held.iter().map(|packet| packet.pinned() - 64).sum();
        assert!(pinned <= bound * charged, "{pinned} bytes pinned by {charged}");
        let copied = 2048 > bound * bytes.max(64);
        assert_eq!(pool.ledger().owned, if copied { 0 } else { 400 });
        let slabs: u64 = sizes.classes().iter().map(|class| class.stats().slabs).sum();
        assert_eq!(slabs > 0, copied);
        assert!(held.iter().enumerate().all(|(i, packet)| packet.data() == vec![i as u8; bytes]));
        held.into_iter().for_each(|packet| heads.free(&mut w, packet));
        assert!(pool.ledger().all_freed());
    }
}

#[test]
fn a_slice_shared_with_somebody_is_copied_for_the_one_who_keeps_it() {
    let (memory, mut w, pool, heads) = bench(8);
    let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
    let copy_break = CopyBreak::new(&sizes);
    let frame = pool.alloc(&mut w).unwrap();
    let mut packet = heads.attach(&mut w, frame).unwrap();
    packet.put_slice(&[7; 1000]).unwrap();
    assert_eq!(copy_break.apply(&mut w, &mut packet), 0, "a large part of the frame is no reason to copy");
    let mut tail = heads.split(&mut w, &mut packet, 990).unwrap();
    assert_eq!(copy_break.apply(&mut w, &mut tail), 2048 - 10);
    heads.free(&mut w, packet);
    assert!(pool.ledger().all_freed(), "the copy keeps no frame");
    assert!(tail.data() == [7; 10] && tail.data_mut().is_none());
    heads.free(&mut w, tail);
}

#[test]
fn without_memory_for_the_copy_the_packet_stays_as_it_is() {
    let (memory, mut w, pool, heads) = bench(8);
    let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
    let copy_break = CopyBreak::new(&sizes);
    copy_break.set_bound(0);
    assert_eq!(copy_break.bound(), CopyBreak::BOUND_MIN);
    let frame = pool.alloc(&mut w).unwrap();
    let mut packet = heads.attach(&mut w, frame).unwrap();
    packet.put_slice(b"small").unwrap();
    let pages: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    assert_eq!((copy_break.apply(&mut w, &mut packet), packet.data()), (0, &b"small"[..]));
    drop(pages);
    assert!(copy_break.apply(&mut w, &mut packet) > 0);
    heads.free(&mut w, packet);
}
