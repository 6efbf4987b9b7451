//! Pools over memory that the caller lends, and the device addresses of their frames.

use super::*;
use crate::slab::{Cache, CacheConfig, CacheError};
use crate::sys::region::{Lent, RegionError};
use std::sync::mpsc::{Receiver, channel};

/// `bytes` of memory, and where it is given back to.
fn lent(bytes: usize) -> (Memory, Receiver<Box<[u8]>>) {
    let (tell, back) = channel();
    let lent = Lent::bytes(vec![9; bytes].into(), move |bytes| drop(tell.send(bytes))).unwrap();
    (Memory::lent(lent, &MemoryConfig { workers: 2, ..MemoryConfig::default() }).unwrap(), back)
}

#[test]
fn frames_lie_in_the_callers_memory_and_it_comes_back_with_the_last_of_them() {
    let (memory, back) = lent((32 << 12) + 4095);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 64);
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut w)).collect();
    assert_eq!(frames.len(), 64, "whole pages, wherever the memory begins");
    for (i, frame) in frames.iter_mut().enumerate() {
        frame.put(1000).unwrap();
        assert!(frame.data().iter().all(|&byte| byte == 9), "as the caller left it");
        frame.data_mut().fill(i as u8);
    }
    assert_eq!(pool.device_address(&frames[0]).map(|at| at < 32 << 12), Some(true));
    let last = frames.pop().unwrap();
    frames.drain(1..).for_each(|frame| frame.free(&mut w));
    let first = frames.pop().unwrap().share();
    drop((pool, memory, w));
    assert!(back.try_recv().is_err(), "two frames are out");
    let clone = first.clone();
    drop(first);
    std::thread::spawn(move || drop(last)).join().unwrap();
    assert!(back.try_recv().is_err());
    assert_eq!(clone.data(), [0; 1000]);
    drop(clone);
    let bytes = back.try_recv().expect("given back");
    assert_eq!(bytes.len(), (32 << 12) + 4095);
    assert_eq!(bytes.iter().filter(|&&byte| byte == 63).count(), 1000, "with what was written");
}

#[test]
fn two_lent_memories_and_one_from_the_system_do_not_meet() {
    let ((a, _a), (b, _b), own) = (lent(1 << 20), lent(1 << 20), memory(1));
    let memories = [&a, &b, &own];
    let mut workers = memories.map(|memory| memory.worker().unwrap());
    let pools = std::array::from_fn::<_, 3, _>(|i| pool(memories[i], &mut workers[i], 32));
    let mut batch = Batch::new();
    for i in 0..60 {
        batch.push(pools[i % 3].alloc(&mut workers[i % 3]).unwrap()).unwrap();
    }
    batch.free(&mut workers[0]);
    pools.iter().for_each(|pool| assert!(check(pool, 0).all_freed()));
}

#[test]
fn what_cannot_be_lent_is_refused_and_given_back() {
    for bytes in [0, 1, 4095] {
        let (tell, back) = channel();
        let refused = Lent::bytes(vec![0; bytes].into(), move |bytes| tell.send(bytes.len()).unwrap());
        assert_eq!(refused.map(drop), Err(RegionError::Lent { bytes }));
        assert_eq!(back.try_recv(), Ok(bytes));
    }
    let (memory, _back) = lent(1 << 20);
    let cache = Cache::<u64>::new(&memory, &CacheConfig::default());
    assert!(matches!(cache, Err(CacheError::Lent)));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd_create")]
fn no_objects_lie_in_memory_that_a_peer_may_write() {
    let config = MemoryConfig { bytes: 1 << 20, ..MemoryConfig::default() };
    // SAFETY: no peer has its file.
    #[allow(unsafe_code)]
    let memory = unsafe { Memory::shared(&config) }.unwrap();
    let cache = Cache::<u64>::new(&memory, &CacheConfig::default());
    assert!(matches!(cache, Err(CacheError::Lent)));
}

#[test]
fn a_closed_pool_has_no_address_for_a_frame_of_the_pool_with_its_number() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 16, dma: DmaMap::Umem, ..PoolConfig::default() };
    loop {
        let closed = Pool::new(&memory, &mut w, &config).unwrap();
        let out = closed.alloc(&mut w).unwrap();
        closed.close();
        assert!(closed.device_address(&out).is_some(), "it is out, and the device may still have it");
        assert!(closed.owns(&out) && closed.owns_words(&[out.id().get().into()]));
        drop(out);
        let successor = Pool::new(&memory, &mut w, &config).unwrap();
        let frame = successor.alloc(&mut w).unwrap();
        assert_eq!((closed.device_address(&frame), successor.device_address(&frame).is_some()), (None, true));
        let words = [u64::from(frame.id().get())];
        assert!(successor.owns(&frame) && successor.owns_words(&words));
        assert!(!closed.owns(&frame) && !closed.owns_words(&words));
        assert!(!closed.renewal().owns(&frame), "a closed pool uses no frame again");
        // Pools of other tests may take the number first. If so, another one is tried.
        if successor.has_number_of(&closed) {
            break;
        }
    }
}
