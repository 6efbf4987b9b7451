//! More than one node.

use super::*;
use crate::page::DescriptorSize;
use crate::page::nodes::Nodes;
use crate::page::table::Table;

fn two(workers: usize) -> Memory {
    Memory::new(&MemoryConfig { nodes: 2, ..config(16, workers) }).unwrap()
}

#[test]
fn a_worker_gets_pages_of_its_node_and_of_the_other_only_when_there_are_no_more() {
    let memory = two(2);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    for (node, w) in workers.iter_mut().enumerate() {
        let pages: Vec<Page> = (0..1000).map(|_| memory.alloc(w, 0).unwrap()).collect();
        assert!(pages.iter().all(|page| page.node() == node));
        pages.into_iter().for_each(|page| memory.free(w, page));
    }
    let all = take_all(&memory, &mut workers[0]);
    assert_eq!(all.len() as u64, memory.stats().total);
    let away = all.iter().filter(|page| page.node() == 1).count() as u64;
    assert_eq!(away, memory.node_stats(1).unwrap().total);
    #[cfg(feature = "statistics")]
    {
        let [home, other] = [0, 1].map(|node| memory.node_stats(node).unwrap());
        assert_eq!((home.foreign, home.miss, other.miss, other.foreign), (away, 0, away, 0));
        assert_eq!((home.hit, other.hit), (1000 + home.total, 1000));
        assert_eq!((memory.stats().node_miss, memory.stats().node_hit), (away, 2000 + home.total));
    }
}

#[test]
fn a_page_of_the_other_node_goes_back_there_and_not_into_the_list() {
    let memory = two(2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let mut pages = places(64);
    assert_eq!(memory.alloc_bulk(&mut b, &mut pages), 64);
    let before = memory.node_stats(1).unwrap().free;
    memory.free_bulk(&mut a, &mut pages);
    assert_eq!(memory.node_stats(1).unwrap().free, before + 64);
    let cached = memory.stats().cached;
    drop(a);
    assert_eq!(memory.stats().cached, cached, "the first worker's list had none");
}

/// Seen: a worker that found its slot closed put back no page, and so counted a node as done that had been counted. The
/// memory ended while a page of another node was out.
#[test]
fn an_empty_batch_closes_no_node_again() {
    let table = Table::new(4096, DescriptorSize::Compact);
    let nodes = Nodes::new(&table, &MemoryConfig { nodes: 2, ..config(16, 1) });
    let (mut out, mut alarms) = ([0], Vec::new());
    assert_eq!(nodes.take(&table, 1, 0, false, &mut out, &mut alarms), 1);
    assert!(!nodes.close());
    assert!(!nodes.put_batch(&table, 0, &[], &mut alarms));
    assert!(nodes.put_batch(&table, 1, &out, &mut alarms));
}

#[test]
fn a_worker_that_moves_takes_its_pages_from_its_new_node() {
    let memory = two(1);
    let mut w = memory.worker().unwrap();
    assert_eq!(memory.nodes(), 2);
    assert_eq!(memory.alloc(&mut w, 0).unwrap().node(), 0);
    assert!(memory.set_home_node(&mut w, 1));
    assert_eq!(memory.stats().cached, 0, "what its lists held went back");
    for order in 0..=10 {
        assert_eq!(memory.alloc(&mut w, order).unwrap().node(), 1);
    }
    assert!(!memory.set_home_node(&mut w, 2));
    #[cfg(feature = "statistics")]
    assert_eq!([0, 1].map(|node| memory.node_stats(node).unwrap().hit), [1, 11]);
    assert_eq!(memory.node_stats(2), None);
}
