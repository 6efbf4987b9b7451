//! Makes each allocation fail in turn: nothing is lost.

use super::*;
use crate::page::Lists;

/// Single allocations of several orders, a bulk, the fall-back and the urgent one. Returns how many of the blocks it
/// wanted were refused.
fn scenario(memory: &Memory) -> usize {
    let mut w = memory.worker().unwrap();
    let mut refused = 0;
    let mut held = Vec::new();
    for order in [0, 3, 1, 0, 10, 2] {
        match memory.alloc(&mut w, order) {
            Some(page) => held.push(page),
            None => refused += 1,
        }
    }
    let mut pages = places(40);
    pages[7] = held.pop();
    let empty = pages.iter().filter(|page| page.is_none()).count();
    let got = memory.alloc_bulk(&mut w, &mut pages);
    refused += usize::from(got < empty);
    assert_eq!(pages.iter().flatten().count(), 40 - empty + got, "a bulk that fails keeps what it got");
    let block = memory.alloc_or_single(&mut w, 2).expect("a refused block is made up for by a single page");
    assert!([0, 2].contains(&block.order()));
    refused += usize::from(block.order() == 0);
    held.push(block);
    held.extend(memory.alloc_with_reserve(&mut w, 0));
    held.drain(..).for_each(|page| memory.free(&mut w, page));
    memory.free_bulk(&mut w, &mut pages);
    refused
}

#[test]
fn the_failure_of_any_one_allocation_loses_nothing() {
    let lists = Lists::Fixed { high: 0, batch: 0 };
    let memory = Memory::new(&MemoryConfig { lists, ..config(8, 1) }).unwrap();
    assert_eq!(scenario(&memory), 0);
    let mut refused = Vec::new();
    for n in 0.. {
        memory.refuse(n);
        refused.push(scenario(&memory));
        let stats = memory.stats();
        assert_eq!((stats.free, stats.cached), (stats.total, 0), "after the failure of allocation {n}");
        if refused.last() == Some(&0) && n > 46 {
            break;
        }
    }
    assert!(refused[..46].iter().all(|&refused| refused == 1), "each of them failed once: {refused:?}");
}
