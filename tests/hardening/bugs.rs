//! The bugs. Each returns whether it had its effect: a byte was seen or changed that should not be, or what comes next was predicted.

use netmem::page::{BackingPreference, Hardening, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::slab::{CacheConfig, RawCache, SizeClasses};
use netmem::sync::Worker;
use std::ptr::NonNull;

/// A bug's name in the table, and what plants it.
pub struct Bug {
    pub name: &'static str,
    pub plant: fn(Hardening) -> bool,
}

/// Bytes of an object: no multiple of 8, so that what lies behind it begins in the middle of a word.
const SIZE: usize = 45;
const PAGE: usize = 4096;
/// The value of the secret bytes.
const SECRET: u8 = 0xa5;

pub const BUGS: [Bug; 20] = [
    Bug { name: "a byte written behind an object, which is then freed", plant: behind_an_object },
    Bug { name: "a byte written past an object's canary, into the next object", plant: past_the_canary },
    Bug { name: "a byte written behind what was asked for, within its size class", plant: within_a_class },
    Bug {
        name: "bytes written from an object to beyond the end of its slab; then the object is freed",
        plant: past_a_slab,
    },
    Bug { name: "bytes written from a block of 20,000 bytes to beyond its end", plant: past_a_large_block },
    Bug { name: "a byte written behind a block of pages", plant: behind_pages },
    Bug { name: "a byte written behind a frame", plant: behind_a_frame },
    Bug {
        name: "a byte written to an object after it was freed, which is then given out",
        plant: after_free,
    },
    Bug {
        name: "a byte written to a frame after it was freed, which is then given out",
        plant: frame_after_free,
    },
    Bug { name: "bytes of an object's earlier use, read before they are written", plant: old_object },
    Bug { name: "bytes of a page's earlier use, read before they are written", plant: old_page },
    Bug { name: "bytes of a frame's earlier use, read before they are written", plant: old_frame },
    Bug { name: "an object freed twice in a row", plant: freed_twice },
    Bug { name: "an object freed twice, with another one between", plant: freed_twice_with_one_between },
    Bug {
        name: "an object freed by an old pointer after it was given out again",
        plant: freed_by_an_old_pointer,
    },
    Bug { name: "an object freed to another cache", plant: wrong_cache },
    Bug { name: "a pointer into the middle of an object freed", plant: into_the_middle },
    Bug { name: "a pointer behind the last object of a slab freed", plant: behind_the_last },
    Bug { name: "the order of fresh objects, pages and frames, predicted", plant: predicted },
    Bug { name: "the prediction that what was freed last is given out next", plant: last_freed },
];

fn ground(hardening: Hardening) -> (Memory, Worker) {
    let backing = BackingPreference::Small;
    let config = MemoryConfig { bytes: 4 << 20, workers: 1, backing, hardening, ..Default::default() };
    let memory = Memory::new(&config).expect("4 MiB");
    let w = memory.worker().expect("a worker");
    (memory, w)
}

/// Its own cache, so that its slabs have no objects of other tests.
fn cache(memory: &Memory, size: usize) -> RawCache {
    let config = CacheConfig { name: "planted".into(), merge: false, ..CacheConfig::default() };
    RawCache::new(memory, size, 8, &config).expect("a cache")
}

/// A cache and a worker that stay, so that their end does not find what a bug leaves behind.
fn objects(hardening: Hardening) -> (&'static RawCache, &'static mut Worker) {
    let (memory, w) = ground(hardening);
    (Box::leak(Box::new(cache(&memory, SIZE))), Box::leak(Box::new(w)))
}

/// Allocates `n` objects: enough for several slabs.
fn take(cache: &RawCache, w: &mut Worker, n: usize) -> Vec<NonNull<u8>> {
    (0..n).map(|_| cache.alloc(w).expect("an object")).collect()
}

fn free(cache: &RawCache, w: &mut Worker, object: NonNull<u8>) {
    // SAFETY: this is the bug, if it is one. If it is found, the process ends.
    unsafe { cache.free(w, object) }.expect("a misuse ends the process");
}

/// Writes another byte than stands there.
fn damage(at: NonNull<u8>, offset: usize) {
    // SAFETY: within the region, or the bug is that it is not.
    unsafe { at.byte_add(offset).write(!at.byte_add(offset).read()) }
}

fn behind_an_object(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    damage(object, SIZE);
    free(cache, w, object);
    true
}

fn past_the_canary(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let mut held = take(cache, w, 1000);
    held.sort_unstable();
    let stride = held.windows(2).map(|two| two[1].addr().get() - two[0].addr().get()).min().expect("several");
    let two =
        held.windows(2).find(|two| two[1].addr().get() - two[0].addr().get() == stride).expect("neighbours");
    damage(two[0], stride);
    held.into_iter().for_each(|object| free(cache, w, object));
    true
}

fn within_a_class(hardening: Hardening) -> bool {
    let (memory, mut w) = ground(hardening);
    let sizes = SizeClasses::new(&memory, &CacheConfig::default()).expect("size classes");
    let at = sizes.alloc(&mut w, 100).expect("100 bytes");
    damage(at, 100);
    // SAFETY: it is out.
    unsafe { sizes.free(&mut w, at) }.expect("a misuse ends the process");
    true
}

fn past_a_slab(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    // A slab is at most 8 pages.
    (SIZE..SIZE + 8 * PAGE).for_each(|offset| damage(object, offset));
    free(cache, w, object);
    true
}

fn past_a_large_block(hardening: Hardening) -> bool {
    let (memory, mut w) = ground(hardening);
    let sizes = SizeClasses::new(&memory, &CacheConfig::default()).expect("size classes");
    let at = sizes.alloc(&mut w, 20_000).expect("20,000 bytes");
    // SAFETY: it is out.
    let size = unsafe { sizes.size_of(at) };
    damage(at, size);
    true
}

fn behind_pages(hardening: Hardening) -> bool {
    let (memory, mut w) = ground(hardening);
    let mut block = memory.alloc(&mut w, 1).expect("two pages");
    damage(NonNull::from(block.bytes_mut()).cast(), 2 * PAGE);
    memory.free(&mut w, block);
    true
}

fn pool(hardening: Hardening) -> (Memory, Worker, Pool) {
    let (memory, mut w) = ground(hardening);
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() }).expect("a pool");
    (memory, w, pool)
}

/// The data of a new frame, which is `len` bytes, with the frame.
fn frame(pool: &Pool, w: &mut Worker, len: usize) -> (netmem::Frame, NonNull<u8>) {
    let mut frame = pool.alloc(w).expect("a frame");
    let at = NonNull::from(frame.put(len).expect("room")).cast();
    (frame, at)
}

fn behind_a_frame(hardening: Hardening) -> bool {
    let (_memory, mut w, pool) = pool(hardening);
    let (frame, at) = frame(&pool, &mut w, 64);
    damage(at, 2048 - frame.headroom());
    pool.free(&mut w, frame);
    true
}

fn after_free(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    free(cache, w, object);
    damage(object, 20);
    take(cache, w, 100).contains(&object)
}

fn frame_after_free(hardening: Hardening) -> bool {
    let (_memory, mut w, pool) = pool(hardening);
    let (first, at) = frame(&pool, &mut w, 64);
    pool.free(&mut w, first);
    damage(at, 20);
    (0..256).any(|_| frame(&pool, &mut w, 64).1 == at)
}

fn old_object(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    // SAFETY: it is out.
    unsafe { object.write_bytes(SECRET, SIZE) };
    free(cache, w, object);
    let seen = |object: &NonNull<u8>| {
        // SAFETY: the object is allocated. The bug is to read it.
        (0..SIZE).any(|offset| unsafe { object.byte_add(offset).read() } == SECRET)
    };
    take(cache, w, 100).iter().any(seen)
}

fn old_page(hardening: Hardening) -> bool {
    let (memory, mut w) = ground(hardening);
    let mut page = memory.alloc(&mut w, 0).expect("a page");
    page.bytes_mut().fill(SECRET);
    memory.free(&mut w, page);
    let pages: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    pages.iter().any(|page| page.bytes().contains(&SECRET))
}

fn old_frame(hardening: Hardening) -> bool {
    let (_memory, mut w, pool) = pool(hardening);
    let (mut first, _) = frame(&pool, &mut w, 64);
    first.data_mut().fill(SECRET);
    pool.free(&mut w, first);
    let frames: Vec<_> = (0..256).map(|_| frame(&pool, &mut w, 64).0).collect();
    frames.iter().any(|frame| frame.data().contains(&SECRET))
}

fn given_out_twice(cache: &RawCache, w: &mut Worker, object: NonNull<u8>) -> bool {
    take(cache, w, 100).into_iter().filter(|&taken| taken == object).count() > 1
}

fn freed_twice(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    free(cache, w, object);
    free(cache, w, object);
    given_out_twice(cache, w, object)
}

fn freed_twice_with_one_between(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let two = take(cache, w, 2);
    [two[0], two[1], two[0]].into_iter().for_each(|object| free(cache, w, object));
    given_out_twice(cache, w, two[0])
}

fn freed_by_an_old_pointer(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let old = take(cache, w, 1)[0];
    free(cache, w, old);
    let again = take(cache, w, 100).contains(&old);
    free(cache, w, old);
    again
}

fn wrong_cache(hardening: Hardening) -> bool {
    let (memory, w) = ground(hardening);
    let w = Box::leak(Box::new(w));
    let [one, other] = [SIZE, 200].map(|size| &*Box::leak(Box::new(cache(&memory, size))));
    let object = take(one, w, 1)[0];
    free(other, w, object);
    true
}

fn into_the_middle(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    // SAFETY: within the object.
    free(cache, w, unsafe { object.byte_add(16) });
    true
}

fn behind_the_last(hardening: Hardening) -> bool {
    let (memory, w) = ground(hardening);
    let w = Box::leak(Box::new(w));
    let config =
        CacheConfig { name: "planted".into(), merge: false, order: Some(1), ..CacheConfig::default() };
    // Of this size some bytes are left at a slab's end, whatever stands behind each object.
    let cache = Box::leak(Box::new(RawCache::new(&memory, 100, 8, &config).expect("a cache")));
    let mut held = take(cache, w, 200);
    let slab = |object: &NonNull<u8>| object.addr().get() / (2 * PAGE);
    let first = slab(&held[0]);
    held.retain(|object| slab(object) == first);
    held.sort_unstable();
    let [.., before, last] = held[..] else { return false };
    let stride = last.addr().get() - before.addr().get();
    // SAFETY: within the slab, which is two pages.
    free(cache, w, unsafe { last.byte_add(stride) });
    true
}

/// Returns the addresses of new items, as distances from the first one.
fn fresh(hardening: Hardening) -> [Vec<usize>; 3] {
    let (memory, mut w) = ground(hardening);
    let objects = take(&cache(&memory, SIZE), &mut w, 32);
    let pages: Vec<_> = (0..32).map(|_| memory.alloc(&mut w, 0).expect("a page")).collect();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() }).expect("a pool");
    let frames: Vec<_> = (0..32).map(|_| pool.alloc(&mut w).expect("a frame")).collect();
    let from_first = |all: Vec<usize>| all.iter().map(|at| at.wrapping_sub(all[0])).collect();
    [
        from_first(objects.iter().map(|object| object.addr().get()).collect()),
        from_first(pages.iter().map(|page| page.bytes().as_ptr().addr()).collect()),
        from_first(frames.iter().map(|frame| frame.data().as_ptr().addr()).collect()),
    ]
}

fn predicted(hardening: Hardening) -> bool {
    let (known, now) = (fresh(hardening), fresh(hardening));
    let same = known.iter().zip(&now).filter(|(known, now)| known == now).count();
    assert!(same == 0 || same == 3, "some are drawn and some are not");
    same == 3
}

fn last_freed(hardening: Hardening) -> bool {
    let (cache, w) = objects(hardening);
    let object = take(cache, w, 1)[0];
    free(cache, w, object);
    take(cache, w, 1)[0] == object
}
