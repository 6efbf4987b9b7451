//! The number of outstanding pages from which on they cost: the size of the list, in moves of the batch
//! ([brouer17-pages]).

use super::*;
use crate::page::Lists;
use crate::rounds::stride;

const SETS: [(Lists, usize, usize); 4] = [
    (Lists::Brouer2017, 128, 32),
    (Lists::Linux2017, 186, 31),
    (Lists::Linux2021, 252, 63),
    (Lists::Fixed { high: 504, batch: 126 }, 504, 126),
];

/// Many more than any list has.
const PAGES: usize = if cfg!(miri) { 300 } else { 8192 };

/// Takes `n` pages and gives them back. Returns the pages that moved from and to the node, in each move.
fn turn(memory: &Memory, w: &mut Worker, n: usize) -> Vec<u64> {
    let mut held = Vec::with_capacity(n);
    let mut free = memory.stats().free;
    let mut moves = Vec::new();
    let mut look = || {
        let now = memory.stats().free;
        moves.extend(Some(now.abs_diff(free)).filter(|&moved| moved > 0));
        free = now;
    };
    for _ in 0..n {
        held.push(memory.alloc(w, 0).unwrap());
        look();
    }
    for page in held {
        memory.free(w, page);
        look();
    }
    moves
}

#[test]
fn up_to_the_size_of_the_list_no_page_goes_to_the_node_and_beyond_it_batches_do() {
    for (lists, high, batch) in SETS.into_iter().step_by(stride(2)) {
        let memory = Memory::new(&MemoryConfig { lists, ..config(64, 2) }).unwrap();
        for n in [1, batch, high - 1, high] {
            let mut w = memory.worker().unwrap();
            turn(&memory, &mut w, n);
            assert_eq!(turn(&memory, &mut w, n), [], "{lists:?} with {n} pages, warm");
        }
        for n in [high + 1, 2 * high, PAGES] {
            let mut w = memory.worker().unwrap();
            turn(&memory, &mut w, n);
            let moves = turn(&memory, &mut w, n);
            assert!(
                !moves.is_empty() && moves.iter().all(|&moved| moved == batch as u64),
                "{lists:?}: {moves:?}"
            );
            let least = 2 * (n - high).div_ceil(batch);
            assert!(moves.len() >= least, "{lists:?} with {n} pages: {} moves, not {least}", moves.len());
        }
    }
}

#[test]
fn a_tuned_list_grows_until_the_pages_fit_and_shrinks_again() {
    const PAGES: usize = if cfg!(miri) { 125 } else { 1000 };
    let lists = Lists::Tuned { least: 63, most: 2048 };
    let memory = Memory::new(&MemoryConfig { lists, ..config(64, 2) }).unwrap();
    let mut w = memory.worker().unwrap();
    let turns: Vec<usize> = (0..20).map(|_| turn(&memory, &mut w, PAGES).len()).collect();
    assert!(turns[0] > 0 && turns[10..].iter().all(|&moves| moves == 0), "{turns:?}");
    let cached = |memory: &Memory| memory.stats().cached;
    assert!(cached(&memory) >= PAGES as u64);
    (0..60).for_each(|_| memory.decay(&mut w));
    assert!(cached(&memory) <= 63, "{} after decay", cached(&memory));
}

#[test]
fn a_worker_that_only_frees_keeps_no_more_than_its_bound() {
    let lists = Lists::Tuned { least: 500, most: 1000 };
    let memory = Memory::new(&MemoryConfig { lists, ..config(if cfg!(miri) { 12 } else { 64 }, 2) }).unwrap();
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    for page in take_all(&memory, &mut a) {
        memory.free(&mut b, page);
        assert!(memory.stats().cached <= 2000);
    }
    #[cfg(feature = "statistics")]
    assert!(memory.stats().overflowed < 60, "batches grew: {} moves", memory.stats().overflowed);
}

#[test]
fn lists_together_never_hold_more_than_half_of_the_memory() {
    let lists = Lists::Fixed { high: 1 << 20, batch: 128 };
    let memory = Memory::new(&MemoryConfig { lists, ..config(8, 4) }).unwrap();
    let mut workers: Vec<Worker> = (0..4).map(|_| memory.worker().unwrap()).collect();
    for order in 0..=3u8 {
        for w in &mut workers {
            let blocks: Vec<Page> = std::iter::from_fn(|| memory.alloc(w, order)).collect();
            blocks.into_iter().for_each(|block| memory.free(w, block));
        }
    }
    assert!(memory.stats().cached <= memory.stats().total / 2, "{} cached", memory.stats().cached);
}

/// Takes `n` blocks of an order at once and gives them back. Returns how many times a node was asked.
fn blocks(memory: &Memory, w: &mut Worker, order: u8, n: usize) -> u64 {
    let before = memory.stats().missed;
    let held: Vec<Page> = (0..n).map(|_| memory.alloc(w, order).unwrap()).collect();
    held.into_iter().for_each(|page| memory.free(w, page));
    memory.stats().missed - before
}

#[test]
fn blocks_of_64_kib_to_2_mib_that_come_and_go_by_ones_and_twos_stay_off_the_node() {
    // A sixteenth of the share is room for two blocks of 2 MiB.
    let memory = Memory::new(&config(if cfg!(miri) { 64 } else { 512 }, 2)).unwrap();
    for order in 4..=if cfg!(miri) { 6 } else { 9 } {
        let mut w = memory.worker().unwrap();
        let asked = [1, 1, 2, 2, 3].map(|n| blocks(&memory, &mut w, order, n));
        assert_eq!(asked, [1, 0, 1, 0, 1], "order {order}");
        assert_eq!(memory.stats().cached, 2 << order);
        memory.decay(&mut w);
        assert_eq!(memory.stats().cached, 1 << order, "a block less");
    }
    let mut w = memory.worker().unwrap();
    assert_eq!([1, 1].map(|n| blocks(&memory, &mut w, 10, n)), [1, 1], "order 10 has no list");
}

#[test]
fn kept_blocks_of_64_kib_are_part_of_the_largest_block_if_that_is_wanted() {
    let memory = memory(4, 1);
    let (total, mut w) = (memory.stats().total, memory.worker().unwrap());
    blocks(&memory, &mut w, 4, 2);
    assert_eq!((memory.stats().cached, memory.stats().free), (32, total - 32));
    assert_eq!(memory.alloc(&mut w, 10).map(|page| page.order()), Some(10));
    assert_eq!((memory.stats().cached, memory.stats().free), (0, total));
}

#[test]
fn without_lists_of_single_pages_no_larger_block_is_kept_either() {
    let lists = Lists::Fixed { high: 0, batch: 0 };
    let memory = Memory::new(&MemoryConfig { lists, ..config(64, 1) }).unwrap();
    let mut w = memory.worker().unwrap();
    assert_eq!([2, 2, 2].map(|n| blocks(&memory, &mut w, 4, n)), [2, 2, 2]);
    memory.set_lists(Lists::Linux2021);
    assert_eq!([2, 2].map(|n| blocks(&memory, &mut w, 4, n)), [2, 0]);
    memory.set_lists(lists);
    assert_eq!((memory.stats().cached, memory.stats().free), (0, memory.stats().total));
}
