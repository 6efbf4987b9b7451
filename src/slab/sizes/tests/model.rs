//! Sequences of operations against a model.

use super::{Held, REPORT, all_back, debugged, free, memory};
use crate::slab::{DebugOptions, SizeClasses};
use proptest::prelude::*;

/// What a test may do to sizes with two workers.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize, len: usize },
    Free { worker: usize, pick: usize },
    Resize { worker: usize, pick: usize, len: usize },
    Bulk { worker: usize, n: usize },
    Release { pick: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let w = 0..2usize;
    let len = prop_oneof![8 => 0..300usize, 3 => 300..9000usize, 1 => 9000..40_000usize];
    prop_oneof![
        5 => (w.clone(), len.clone()).prop_map(|(worker, len)| Op::Alloc { worker, len }),
        2 => (w.clone(), any::<usize>()).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        1 => (w.clone(), any::<usize>(), len).prop_map(|(worker, pick, len)| Op::Resize { worker, pick, len }),
        1 => (w, 0..40usize).prop_map(|(worker, n)| Op::Bulk { worker, n }),
        1 => any::<usize>().prop_map(|pick| Op::Release { pick }),
    ]
}

fn play(debug: DebugOptions, ops: &[Op]) {
    let memory = memory(8, 2);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let sizes = debugged(&memory, debug);
    let mut held: Vec<Held> = Vec::new();
    let mut stamp = 0u8;
    for op in ops {
        stamp = stamp.wrapping_add(1);
        match *op {
            Op::Alloc { worker, len } => {
                held.extend(sizes.alloc(&mut workers[worker], len).map(|at| Held::fill(at, len, stamp)));
            }
            Op::Free { worker, pick } if !held.is_empty() => {
                let one = held.swap_remove(pick % held.len());
                free(&sizes, &mut workers[worker], one);
            }
            Op::Resize { worker, pick, len } if !held.is_empty() => {
                let one = held.swap_remove(pick % held.len());
                // SAFETY: the test's own.
                let moved = unsafe { sizes.resize(&mut workers[worker], one.at, len) }.unwrap();
                let Some(at) = moved else {
                    held.push(one);
                    continue;
                };
                assert!(Held { at, len: one.len.min(len), byte: one.byte }.whole(), "contents intact");
                held.push(Held::fill(at, len, stamp));
            }
            Op::Bulk { worker, n } => {
                let rest = held.split_off(held.len() - n.min(held.len()));
                assert!(rest.iter().all(Held::whole), "contents intact");
                let mut rest: Vec<_> = rest.iter().map(|held| held.at).collect();
                // SAFETY: the test's own, each once.
                unsafe { sizes.free_bulk(&mut workers[worker], &mut rest) }.unwrap();
            }
            Op::Release { pick } if !held.is_empty() => {
                let one = held.swap_remove(pick % held.len());
                // SAFETY: the test's own.
                unsafe { SizeClasses::release(one.at) }.unwrap();
            }
            Op::Free { .. } | Op::Resize { .. } | Op::Release { .. } => {}
        }
        assert!(held.iter().all(Held::whole), "contents intact after {op:?}");
        let mut at: Vec<_> = held.iter().filter(|h| h.len > 0).map(|h| (h.at.addr().get(), h.len)).collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "allocations overlap");
    }
    held.drain(..).for_each(|held| free(&sizes, &mut workers[0], held));
    drop((sizes, workers));
    all_back(&memory);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 32 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_operations_loses_overlaps_or_spoils_memory(ops in prop::collection::vec(op(), 1..150)) {
        play(DebugOptions::default(), &ops);
    }

    #[test]
    fn right_use_is_not_reported_with_all_debug_on(ops in prop::collection::vec(op(), 1..80)) {
        play(REPORT, &ops);
    }
}
