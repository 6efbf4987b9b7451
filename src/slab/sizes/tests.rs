//! Every size, against a model and at the edges.

mod failure;
mod model;

use super::*;
use crate::page::{MemoryConfig, Page};
use crate::slab::{Damage, DebugOptions, OnMisuse};
use crate::sys::region::BackingPreference;

fn memory(mib: usize, workers: usize) -> Memory {
    let backing = BackingPreference::Small;
    Memory::new(&MemoryConfig { bytes: mib << 20, workers, backing, ..Default::default() }).unwrap()
}

fn sizes(memory: &Memory) -> SizeClasses {
    debugged(memory, DebugOptions::default())
}

fn debugged(memory: &Memory, debug: DebugOptions) -> SizeClasses {
    SizeClasses::new(memory, &CacheConfig { name: "kmalloc".into(), debug, ..Default::default() }).unwrap()
}

const REPORT: DebugOptions = DebugOptions { on_misuse: OnMisuse::Report, ..DebugOptions::ALL };

/// An allocation of a test, full of one byte.
struct Held {
    at: NonNull<u8>,
    len: usize,
    byte: u8,
}

impl Held {
    /// Takes the allocation and fills all that was asked for.
    fn fill(at: NonNull<u8>, len: usize, byte: u8) -> Held {
        // SAFETY: `len` bytes were asked for.
        unsafe { at.write_bytes(byte, len) };
        Held { at, len, byte }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: out, and filled in `fill`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    fn whole(&self) -> bool {
        // One comparison, which Miri makes as such.
        self.bytes() == vec![self.byte; self.len]
    }
}

fn free(sizes: &SizeClasses, w: &mut Worker, held: Held) {
    assert!(held.whole(), "contents intact");
    // SAFETY: a test's allocation, freed once.
    unsafe { sizes.free(w, held.at) }.unwrap();
}

/// All pages are back once caches and workers are gone.
#[track_caller]
fn all_back(memory: &Memory) {
    let stats = memory.stats();
    assert_eq!((stats.free, stats.cached), (stats.total, 0));
}

#[test]
fn every_size_is_had_aligned_and_can_be_used_in_full() {
    let memory = memory(16, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    let mut held = Vec::new();
    for len in (0..=20_000).step_by(crate::rounds::stride(97)) {
        let at = sizes.alloc(&mut w, len).unwrap();
        let power = 1 << len.trailing_zeros().min(13);
        assert_eq!(at.addr().get() % if len == 0 { 16 } else { power }, 0, "{len} bytes at {at:?}");
        // SAFETY: out.
        let room = unsafe { sizes.size_of(at) };
        assert!(len <= room && (len <= 8 || room < 2 * len.max(4)), "{len} bytes in {room}");
        held.push(Held::fill(at, room, len as u8));
        if held.len() == 100 {
            held.drain(..).for_each(|held| free(&sizes, &mut w, held));
        }
    }
    held.drain(..).for_each(|held| free(&sizes, &mut w, held));
    drop((sizes, w));
    all_back(&memory);
}

#[test]
fn large_sizes_come_as_blocks_and_what_no_block_holds_is_refused() {
    let memory = memory(16, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    // Under Miri a region is aligned to 2 MiB and no more.
    for order in 2..=if cfg!(miri) { 9 } else { 10 } {
        let len = 4096usize << order;
        let at = sizes.alloc(&mut w, len).unwrap();
        assert_eq!(at.addr().get() % len, 0);
        // SAFETY: out.
        assert_eq!(unsafe { sizes.size_of(at) }, len);
        free(&sizes, &mut w, Held::fill(at, len, order));
    }
    assert_eq!(sizes.alloc(&mut w, (4 << 20) + 1), None);
    assert_eq!(sizes.alloc(&mut w, usize::MAX), None);
    drop((sizes, w));
    all_back(&memory);
}

/// Miri finds a read of padding, in the block's first page or behind it.
#[test]
fn a_page_that_was_a_large_block_with_padding_in_it_is_bytes_again() {
    let memory = memory(4, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    for by_worker in [true, false] {
        let at = sizes.alloc(&mut w, 16_384).unwrap();
        // SAFETY: out, and the block has room for both values.
        unsafe {
            at.cast::<(u8, u32)>().write((1, 2));
            at.byte_add(8_192).cast::<(u8, u32)>().write((3, 4));
        }
        // SAFETY: out, and its only claim.
        unsafe { if by_worker { sizes.free(&mut w, at) } else { SizeClasses::release(at) } }.unwrap();
        let pages: Vec<Page> = std::iter::from_fn(|| memory.alloc(&mut w, 2)).collect();
        let block = pages.iter().find(|page| page.bytes().as_ptr() == at.as_ptr()).unwrap();
        // Under Miri the bytes are zero again.
        let sum: usize = block.bytes().iter().map(|&byte| usize::from(byte)).sum();
        assert!(cfg!(miri) || sum >= 1 + 2 + 3 + 4);
        pages.into_iter().for_each(|page| memory.free(&mut w, page));
    }
}

#[test]
fn nothing_is_a_pointer_that_may_be_freed_again_and_again() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    for _ in 0..3 {
        let at = sizes.alloc(&mut w, 0).unwrap();
        assert_eq!(at, SizeClasses::ZERO);
        // SAFETY: what 0 bytes give may be freed.
        unsafe {
            assert_eq!(sizes.size_of(at), 0);
            sizes.free(&mut w, at).unwrap();
            SizeClasses::release(at).unwrap();
            sizes.free_bulk(&mut w, &mut [at, at]).unwrap();
        }
    }
    assert_eq!(sizes.bytes(&mut w, 0).unwrap().len(), 0);
}

#[test]
fn layouts_are_aligned_as_they_ask() {
    let memory = memory(16, 1);
    let mut w = memory.worker().unwrap();
    for sizes in [sizes(&memory), debugged(&memory, REPORT)] {
        for size in [0, 1, 8, 65, 96, 100, 192, 5000, 9000] {
            for align in (0..=14).map(|log| 1usize << log) {
                let layout = Layout::from_size_align(size, align).unwrap();
                let at = sizes.alloc_aligned(&mut w, layout).unwrap();
                assert_eq!(at.addr().get() % align, 0, "{layout:?}");
                free(&sizes, &mut w, Held::fill(at, size, 1));
            }
        }
    }
}

#[test]
fn zeroed_memory_is_zero_in_full_also_where_others_were() {
    let memory = memory(8, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    for len in [1, 8, 13, 90, 4000, 8192, 9000, 100_000] {
        for _ in 0..3 {
            let at = sizes.alloc_zeroed(&mut w, len).unwrap();
            // SAFETY: out.
            let room = unsafe { sizes.size_of(at) };
            let held = Held { at, len: room, byte: 0 };
            assert!(held.whole(), "{len} bytes");
            free(&sizes, &mut w, Held::fill(at, room, 0xff));
        }
        let bytes = sizes.bytes(&mut w, len).unwrap();
        assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0));
        sizes.free_bytes(&mut w, bytes);
    }
}

#[test]
fn a_box_of_bytes_goes_home_from_wherever_it_is_dropped() {
    let memory = memory(8, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    let mut boxes: Vec<SlabBytes> = [&b"a"[..], b"some more bytes", &[7; 3000], &[9; 30_000]]
        .iter()
        .flat_map(|from| sizes.bytes_from(&mut w, from))
        .collect();
    assert_eq!((&boxes[0][..], &boxes[1][..], boxes.len()), (&b"a"[..], &b"some more bytes"[..], 4));
    boxes[3][29_999] = 8;
    sizes.free_bytes(&mut w, boxes.remove(2));
    std::thread::spawn(move || drop(boxes)).join().unwrap();
    drop((sizes, w));
    all_back(&memory);
}

/// Seen: they were out for good.
#[test]
fn boxes_that_are_freed_by_the_sizes_of_another_memory_go_home_to_their_own() {
    let (memory, other) = (memory(4, 1), memory(4, 1));
    let mut w = memory.worker().unwrap();
    let (sizes, others) = (sizes(&memory), sizes(&other));
    for len in [0, 1, 100, 20_000] {
        let bytes = sizes.bytes(&mut w, len).unwrap();
        others.free_bytes(&mut w, bytes);
    }
    drop((sizes, others, w));
    all_back(&memory);
    all_back(&other);
}

#[test]
fn what_is_out_outlives_its_sizes_and_its_memorys_handle() {
    let memory = memory(8, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    let boxes = [100, 10_000].map(|len| sizes.bytes(&mut w, len).unwrap());
    drop((sizes, w, memory));
    assert!(boxes.iter().all(|bytes| bytes.iter().all(|&byte| byte == 0)));
}

#[test]
fn resizing_keeps_the_contents_and_the_place_while_there_is_room() {
    let memory = memory(32, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    let lens = [0, 1, 8, 9, 60, 64, 65, 3000, 8192, 8193, 70_000, 16, 0, 500, 3 << 20, 4];
    let mut at = SizeClasses::ZERO;
    let mut before = 0;
    for len in lens {
        // SAFETY: the allocation that the last step left.
        let (room, now) = unsafe { (sizes.size_of(at), sizes.resize(&mut w, at, len).unwrap().unwrap()) };
        assert_eq!(now == at, len > 0 && len <= room || len == 0 && room == 0, "{before} to {len}");
        let held = Held { at: now, len: before.min(len), byte: before as u8 };
        assert!(held.whole(), "{before} to {len}: contents intact");
        Held::fill(now, len, len as u8);
        (at, before) = (now, len);
    }
    // SAFETY: as above.
    unsafe {
        assert_eq!(sizes.resize(&mut w, at, 5 << 20).unwrap(), None, "no block is so large");
        assert_eq!(at.read(), 4, "and the old one is as it was");
        assert_eq!(sizes.resize(&mut w, at, 0).unwrap(), Some(SizeClasses::ZERO));
    }
    drop((sizes, w));
    all_back(&memory);
}

#[test]
fn memory_freed_without_a_worker_comes_home() {
    let memory = memory(8, 1);
    let mut w = memory.worker().unwrap();
    let sizes = sizes(&memory);
    let lens = [5, 70, 2000, 0, 300, 9000, 8192];
    let count = if cfg!(miri) { 100 } else { 1000 };
    let all: Vec<usize> = lens
        .iter()
        .cycle()
        .take(count)
        .flat_map(|&len| sizes.alloc(&mut w, len))
        .map(|at| at.expose_provenance().get())
        .collect();
    assert!(all.len() > count / 10 * 9, "{}", all.len());
    std::thread::scope(|scope| {
        for half in all.chunks(count / 2) {
            scope.spawn(move || {
                for &at in half {
                    let at = NonNull::new(std::ptr::with_exposed_provenance_mut(at)).unwrap();
                    // SAFETY: allocated above, freed once.
                    unsafe { SizeClasses::release(at) }.unwrap();
                }
            });
        }
    });
    drop((sizes, w));
    all_back(&memory);
}

#[test]
fn pointers_to_nothing_are_refused_and_misuse_of_an_object_names_its_class() {
    let memory = memory(8, 1);
    let mut w = memory.worker().unwrap();
    let sizes = debugged(&memory, REPORT);
    let (small, large) = (sizes.alloc(&mut w, 100).unwrap(), sizes.alloc(&mut w, 10_000).unwrap());
    let mut page = memory.alloc(&mut w, 0).unwrap();
    let strays = [
        NonNull::dangling(),
        NonNull::from(&mut 1u8),
        NonNull::from(page.bytes_mut()).cast(),
        // SAFETY: inside the block.
        unsafe { large.byte_add(4096) },
        // SAFETY: inside the block.
        unsafe { large.byte_add(8) },
    ];
    for stray in strays {
        // SAFETY: refused, whatever it is.
        let (one, bulk) =
            unsafe { (sizes.free(&mut w, stray), sizes.free_bulk(&mut w, &mut [small, large, stray])) };
        assert_eq!(one.unwrap_err().damage(), &Damage::OutsideSlabs);
        assert_eq!(bulk.unwrap_err().object(), stray.addr().get());
    }
    // SAFETY: refused, whatever it is.
    let misuse = unsafe { sizes.free(&mut w, small.byte_add(1)) }.unwrap_err();
    assert_eq!(misuse.cache(), "kmalloc-128");
    // SAFETY: both are still out.
    unsafe {
        sizes.free_bulk(&mut w, &mut [small, large]).unwrap();
        assert_eq!(sizes.free(&mut w, small).unwrap_err().damage(), &Damage::DoubleFree);
        assert_eq!(sizes.free(&mut w, large).unwrap_err().damage(), &Damage::OutsideSlabs);
    }
}
