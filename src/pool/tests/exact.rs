//! How much is moved and written, to the frame and to the byte.

use super::*;

/// A pool whose cache of 32 is filled by eights.
fn by_eights(memory: &Memory, w: &mut Worker) -> Pool {
    let config = PoolConfig { frames: 64, cache: 32, refill: 8, ..PoolConfig::default() };
    Pool::new(memory, w, &config).unwrap()
}

#[test]
fn an_empty_cache_is_filled_with_one_batch_and_no_more() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = by_eights(&memory, &mut w);
    let frame = pool.alloc(&mut w).unwrap();
    assert_eq!((check(&pool, 1).cached, pool.ledger().free), (7, 56));
    frame.free(&mut w);
    assert_eq!(check(&pool, 0).cached, 8);
}

#[test]
fn frames_of_one_colour_take_what_data_has_room_and_not_a_byte_more() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 64, headroom: 256, data: 1792, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let mut batch = Batch::new();
    assert_eq!(pool.alloc_burst(&mut w, &mut batch, 40), 40);
    assert!(batch.iter().all(|frame| (frame.headroom(), frame.tailroom()) == (256, 1792)));
    for n in [1793, 1794, 2048] {
        assert_eq!(batch.put_each(n, |_, _| panic!("it would write into the next frame")), 0);
        assert!(batch.iter_mut().all(|frame| frame.put(n).is_err() && frame.is_empty()));
    }
    assert_eq!(batch.put_each(1792, |i, tail| tail.fill(i as u8)), 40);
    assert!(batch.iter().zip(0..).all(|(frame, i)| frame.data() == [i; 1792] && frame.tailroom() == 0));
    batch.free(&mut w);
    check(&pool, 0);
}
