//! Bytes of an earlier use of a frame: when they can be seen.

use super::*;
use crate::pool::{Fragments, NoRoom};

const SECRET: &[u8] = b"Authorization: Basic bmV0bWVt";

/// Writes the secret over all of a frame.
fn mark(frame: &mut Frame) {
    let _ = frame.push(frame.headroom());
    let _ = frame.put(frame.tailroom());
    frame.data_mut().chunks_mut(SECRET.len()).for_each(|chunk| chunk.copy_from_slice(&SECRET[..chunk.len()]));
}

/// Asserts that an empty frame has no byte that was written before, headroom and tailroom among them.
#[track_caller]
fn assert_clear(mut frame: Frame, way: &str) -> Frame {
    assert!(frame.is_empty());
    let headroom = frame.headroom();
    frame.push(headroom).unwrap();
    frame.put(frame.tailroom()).unwrap();
    assert!(frame.data() == vec![0; frame.size()], "{way}: {:?}", &frame.data()[..64]);
    frame
}

fn clearing(memory: &Memory, w: &mut Worker, frame_size: usize) -> Pool {
    let config = PoolConfig {
        frames: 64,
        cache: 32,
        refill: 16,
        init_on_alloc: true,
        ..PoolConfig::of_frames(frame_size)
    };
    Pool::new(memory, w, &config).unwrap()
}

/// Seen: `put` after a request was freed exposed its Authorization header to the next user of the frame.
#[test]
fn what_put_shows_of_the_last_packet_put_zeroed_and_put_slice_do_not() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 1);
    let again = |w: &mut Worker| {
        let mut frame = pool.alloc(w).unwrap();
        mark(&mut frame);
        frame.free(w);
        pool.alloc(w).unwrap()
    };
    let mut frame = again(&mut w);
    assert!(frame.put(60).unwrap().windows(5).any(|five| five == b"Basic"), "as put's documentation says");
    frame.free(&mut w);
    let mut frame = again(&mut w);
    frame.put_slice(b"hello").unwrap();
    assert_eq!(frame.put_zeroed(60).unwrap(), [0; 60]);
    assert_eq!(frame.data(), [&b"hello"[..], &[0; 60]].concat());
    let room = frame.tailroom();
    let refused = Err(NoRoom { wanted: room as u32 + 1, room: room as u32 });
    assert_eq!(frame.put_slice(&vec![1; room + 1]), refused);
    assert_eq!(frame.put_zeroed(room + 1).map(drop), refused);
    assert_eq!(frame.data(), [&b"hello"[..], &[0; 60]].concat(), "nothing has changed");
    assert!(frame.put_zeroed(room).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn the_first_bytes_of_a_frame_lie_where_put_would_lay_them_or_nothing_changes() {
    let memory = memory(2);
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frame_size: 4096, ..Default::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let mut frame = pool.alloc(&mut w).unwrap();
    let (room, headroom) = (2048 - frame.headroom(), frame.headroom());
    assert!(frame.put_first(room + 1).is_none() && frame.put_first(usize::MAX).is_none() && frame.is_empty());
    assert_eq!(frame.put_first(room).map(|bytes| bytes.len()), Some(room));
    assert_eq!((frame.len(), frame.headroom()), (room, headroom));
    assert!(frame.put_first(1).is_none(), "it has data");
    frame.trim(0).unwrap();
    assert_eq!(frame.put_first(0).map(|bytes| bytes.len()), Some(0));
    let start = frame.data().as_ptr();
    assert_eq!(frame.put_first(3).map(|bytes| bytes.as_ptr()), Some(start), "0 bytes are no data");
    assert_eq!((frame.put(5).map(|bytes| bytes.len()), frame.len()), (Ok(5), 8));
    frame.free(&mut w);
}

#[test]
fn a_pool_that_clears_shows_no_old_byte_to_anybody_by_any_way_of_allocation() {
    for size in [2048, 4096, 32768] {
        let memory = memory(2);
        let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
        let pool = clearing(&memory, &mut w, size);
        for round in 0..3 {
            // Allocated by each worker in turn, and freed by the other: the remote free queue, the depot, new pages.
            let (by, to) = if round % 2 == 0 { (&mut w, &mut other) } else { (&mut other, &mut w) };
            let (mut batch, mut held) = (Batch::new(), Vec::new());
            held.extend((0..8).map(|_| pool.alloc(by).unwrap()));
            pool.alloc_burst(by, &mut batch, 8);
            assert!(pool.alloc_bulk(by, &mut batch, 8));
            held.extend(batch.drain());
            for frame in held {
                let mut frame = assert_clear(frame, &format!("{size}, round {round}"));
                mark(&mut frame);
                frame.free(if round == 1 { &mut *by } else { &mut *to });
            }
            check(&pool, 0);
        }
        pool.trace(true);
        pool.trace(false);
        assert_clear(pool.alloc(&mut w).unwrap(), "after tracing").free(&mut w);
    }
}

#[test]
fn a_pool_that_clears_shows_nothing_of_what_others_wrote_into_its_pages() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let careless = pool(&memory, &mut w, 256);
    let mut all: Vec<Frame> = std::iter::from_fn(|| careless.alloc(&mut w)).collect();
    all.iter_mut().for_each(mark);
    drop(all);
    drop(careless);
    let pool = clearing(&memory, &mut w, 2048);
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut w)).collect();
    assert_eq!(frames.len(), 64);
    frames.into_iter().for_each(|frame| drop(assert_clear(frame, "a page of another pool's")));
}

#[test]
fn a_pool_that_clears_shows_no_old_byte_in_pieces_of_a_frame_that_is_cut_again() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = clearing(&memory, &mut w, 2048);
    let mut fragments = Fragments::new(&pool);
    for round in 0..5 {
        for _ in 0..4 {
            let mut piece = fragments.alloc(&mut w, 512).unwrap();
            let bytes = piece.put(512).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
            bytes.fill(b'S');
            piece.free(&mut w);
        }
    }
}
