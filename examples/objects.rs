//! Objects and pages when memory is scarce: `objects`. It uses buffers that are made once and used again, a cache that
//! gives its empty slabs back when pages run short, and large blocks that fall back to small ones. It ends with an
//! error if a check fails.

use netmem::page::Watermarks;
use netmem::slab::{CacheConfig, ConstructedCache};
use netmem::{Memory, MemoryConfig};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An expensive value: a buffer of the program's own allocator.
const BUFFER: usize = 1500;

fn main() -> Result<(), Box<dyn Error>> {
    let watermarks = Watermarks { min: 0, low: 64, high: 128 };
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, watermarks, ..Default::default() })?;
    let mut w = memory.worker()?;

    // A constructor runs when a slab is made; a freed object keeps its value for the next user.
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let config = CacheConfig { name: "buffers".into(), ..Default::default() };
    let buffers = Arc::new(ConstructedCache::new(&memory, &config, move || {
        count.fetch_add(1, Relaxed);
        Vec::<u8>::with_capacity(BUFFER)
    })?);
    let mut used = 0;
    for _ in 0..100 {
        let mut hand: Vec<_> = (0..200).map_while(|_| buffers.alloc(&mut w)).collect();
        used += hand.len();
        hand.iter_mut().for_each(|buffer| buffer.clear());
        hand.into_iter().for_each(|buffer| buffers.free(&mut w, buffer));
    }
    println!("{used} buffers used, {} made", made.load(Relaxed));

    // Below the low watermark the cache gives up unused slabs. A callback that owned the cache would keep the memory.
    let (reclaim, begun) = (Arc::downgrade(&buffers), Arc::new(AtomicUsize::new(0)));
    let begins = Arc::clone(&begun);
    memory.on_pressure(move |_worker, pressure| {
        if pressure.begins
            && let Some(buffers) = reclaim.upgrade()
        {
            begins.fetch_add(1, Relaxed);
            buffers.shrink();
        }
    });
    let mut blocks = Vec::new();
    while let Some(block) = memory.alloc_or_single(&mut w, 3) {
        blocks.push(block); // of eight pages while there are any, then of one
    }
    let large = blocks.iter().filter(|block| block.order() == 3).count();
    println!(
        "{large} blocks of 8 pages, {} single pages; pages were short {} time",
        blocks.len() - large,
        begun.load(Relaxed)
    );
    let has_shrunk = blocks.iter().map(|block| 1 << block.order()).sum::<u64>() == memory.stats().total;
    println!("all pages could be had, also those of the cache: {has_shrunk}");
    blocks.into_iter().for_each(|block| memory.free(&mut w, block));
    if has_shrunk { Ok(()) } else { Err("pages stayed with the cache".into()) }
}
