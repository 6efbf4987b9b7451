//! Frames cut into pieces.

use super::*;
use crate::pool::{Fragment, Fragments};
use std::time::Duration;

fn stamped(fragments: &mut Fragments, w: &mut Worker, bytes: usize, stamp: u8) -> Fragment {
    let mut piece = fragments.alloc(w, bytes).unwrap();
    piece.put(bytes).unwrap();
    piece.data_mut().fill(stamp);
    piece
}

#[test]
fn pieces_of_one_frame_do_not_overlap_and_are_whole_lines() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let pieces: Vec<Fragment> = [1, 64, 65, 700, 300]
        .into_iter()
        .zip(0..)
        .map(|(n, i)| stamped(&mut fragments, &mut w, n, i))
        .collect();
    assert_eq!(pieces.iter().map(Fragment::size).collect::<Vec<_>>(), [64, 64, 128, 704, 320]);
    assert!(
        pieces.iter().all(|piece| piece.id() == pieces[0].id() && piece.data().as_ptr().addr() % 64 == 0)
    );
    for (piece, stamp) in pieces.iter().zip(0..) {
        assert!(piece.data().iter().all(|&byte| byte == stamp));
    }
    assert_eq!(check(&pool, 1).total, 16, "one frame for all of them");
}

#[test]
fn a_piece_moves_its_data_within_its_bounds_and_no_further() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let (_before, mut piece, _behind) =
        (fragments.alloc(&mut w, 64), fragments.alloc(&mut w, 100).unwrap(), fragments.alloc(&mut w, 64));
    assert_eq!((piece.headroom(), piece.len(), piece.tailroom()), (0, 0, 128));
    assert!(piece.put(129).is_err() && piece.push(1).is_err() && piece.pull(1).is_err());
    piece.put(128).unwrap();
    piece.pull(128).unwrap();
    assert_eq!((piece.headroom(), piece.is_empty(), piece.tailroom()), (128, true, 0));
    piece.push(28).unwrap();
    piece.data_mut().fill(5);
    assert!(piece.trim(29).is_err() && piece.trim(8).is_ok());
    assert_eq!((piece.headroom(), piece.data(), piece.tailroom()), (100, &[5; 8][..], 20));
}

/// Found: a cutter used its frame again for as long as pieces came back, so a closed pool never ended.
#[test]
fn a_cutter_of_a_closed_pool_gives_its_frame_back() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 2);
    let mut fragments = Fragments::new(&pool);
    drop(fragments.alloc(&mut w, 2048).unwrap());
    pool.close();
    assert!(fragments.alloc(&mut w, 2048).is_none());
    assert!(pool.close_and_wait(Duration::ZERO).is_ok());
}

#[test]
fn sizes_that_no_frame_has_are_refused_and_nothing_is_taken() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 2);
    let mut fragments = Fragments::new(&pool);
    assert!(fragments.alloc(&mut w, 2049).is_none() && fragments.alloc(&mut w, usize::MAX).is_none());
    assert_eq!(check(&pool, 0).total, 0);
    assert_eq!(fragments.alloc(&mut w, 2048).unwrap().tailroom(), 2048);
    assert_eq!(fragments.alloc(&mut w, 0).unwrap().size(), 64);
}

#[test]
fn a_frame_whose_pieces_are_gone_is_cut_again_in_place() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let ids: std::collections::BTreeSet<_> = (0..100)
        .map(|_| {
            let piece = fragments.alloc(&mut w, 700).unwrap();
            let id = piece.id();
            piece.free(&mut w);
            id
        })
        .collect();
    assert_eq!(ids.len(), 1, "the one frame, again and again");
    check(&pool, 1);
    fragments.flush(&mut w);
    assert!(check(&pool, 0).all_freed());
}

/// Seen: a cutter used its frame again and again, so a page that was to leave never left.
#[test]
fn a_frame_whose_page_is_to_leave_is_not_cut_again() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let piece = fragments.alloc(&mut w, 2048).unwrap();
    let page = |id: std::num::NonZeroU32| id.get() / 2;
    let elsewhere =
        std::iter::from_fn(|| pool.alloc(&mut w)).find(|frame| page(frame.id()) != page(piece.id()));
    pool.resize(2).unwrap();
    assert_eq!((check(&pool, 2).total, pool.leaving_pages()), (4, 1));
    piece.free(&mut w);
    let piece = fragments.alloc(&mut w, 2048).unwrap();
    assert_eq!((check(&pool, 2).total, pool.leaving_pages()), (2, 0));
    assert_eq!(elsewhere.map(|frame| page(frame.id())), Some(page(piece.id())));
}

#[test]
fn the_last_piece_brings_a_frame_home_that_the_cutter_has_left() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let mut pieces: Vec<_> = (0..8).map(|i| stamped(&mut fragments, &mut w, 1024, i)).collect();
    check(&pool, 4);
    drop(fragments);
    for left in (0..8u64).rev() {
        pieces.remove(0).free(&mut other);
        check(&pool, left.div_ceil(2));
        pieces.iter().for_each(|piece| assert!(piece.data().iter().all(|&byte| byte == piece.data()[0])));
    }
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_shared_piece_is_a_claim_on_its_frame_and_may_become_all_of_it() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut fragments = Fragments::new(&pool);
    let (first, second) =
        (stamped(&mut fragments, &mut w, 100, 1).share(), stamped(&mut fragments, &mut w, 100, 2));
    let twin = first.clone();
    assert_eq!((first.data(), second.data()), (&[1; 100][..], &[2; 100][..]));
    second.free(&mut w);
    drop(first);
    let twin = twin.into_frame().unwrap_err();
    drop(fragments);
    let frame = twin.into_frame().unwrap();
    assert_eq!((frame.data(), frame.size()), (&[1; 100][..], 2048));
    frame.free(&mut w);
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn one_piece_pins_its_frame_and_no_more_than_one_frame_a_piece_can_be_pinned() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    for (frame_size, times) in [(2048, 32), (32768, 512)] {
        let config = PoolConfig { frames: 16, frame_size, data: 1, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut fragments = Fragments::new(&pool);
        // The attack: of each frame's pieces the holder keeps a single small one.
        let mut kept = Vec::new();
        while let Some(piece) = fragments.alloc(&mut w, 1) {
            kept.push(piece);
            if fragments.alloc(&mut w, frame_size - 64).is_none() {
                break;
            }
        }
        let given: usize = kept.iter().map(Fragment::size).sum();
        let pinned = pool.ledger().owned as usize * frame_size;
        assert_eq!(pinned, kept.iter().map(Fragment::pinned).sum::<usize>());
        assert_eq!((kept.len(), pinned / given), (16, times));
    }
}

#[test]
fn an_empty_pool_gives_no_piece_and_what_is_open_stays_usable() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 2);
    let mut fragments = Fragments::new(&pool);
    let first = fragments.alloc(&mut w, 2048).unwrap();
    let second = fragments.alloc(&mut w, 1024).unwrap();
    assert!(fragments.alloc(&mut w, 2048).is_none());
    drop(first);
    assert_eq!(fragments.alloc(&mut w, 2048).unwrap().size(), 2048, "the freed one");
    drop(second);
}
