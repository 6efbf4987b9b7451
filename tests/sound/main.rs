//! Tests of soundness against the caller's own code: values and closures that panic, impossible sizes and bounds, and
//! what the compiler may assume about every generic type.

#![allow(clippy::unwrap_used)]

mod bounds;
mod memory;
mod packets;
mod rings;
mod values;
mod variance;

use netmem::page::{BackingPreference, Memory, MemoryConfig, Watermarks};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Whether `f` panicked.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// A memory of 512 pages.
fn memory(workers: usize) -> Memory {
    Memory::new(&MemoryConfig {
        bytes: 2 << 20,
        workers,
        backing: BackingPreference::Small,
        watermarks: Watermarks::default(),
        ..MemoryConfig::default()
    })
    .unwrap()
}

/// Asserts that every page is free.
fn is_home(memory: &Memory) -> bool {
    memory.stats().free == memory.stats().total
}

/// Counts how often each of some values was dropped. It is not freed before the program ends, so that a second drop is
/// counted and does no harm, and it is kept where a sanitizer finds it.
#[derive(Debug, Clone, Copy)]
struct Drops(&'static [AtomicUsize]);

/// A value whose first Drop panics if it is `bad`.
#[derive(Debug)]
struct Value {
    number: usize,
    drops: Drops,
    bad: bool,
    /// Memory of the heap, so that a sanitizer sees a second drop too.
    _heap: Arc<usize>,
}

impl Drops {
    fn new(n: usize) -> Drops {
        static ALL: Mutex<Vec<&[AtomicUsize]>> = Mutex::new(Vec::new());
        let drops: &[AtomicUsize] = Box::leak((0..n).map(|_| AtomicUsize::new(0)).collect());
        ALL.lock().unwrap().push(drops);
        Drops(drops)
    }

    fn value(self, number: usize, bad: bool) -> Value {
        Value { number, drops: self, bad, _heap: Arc::new(number) }
    }

    /// How often each was dropped.
    fn counts(self) -> Vec<usize> {
        self.0.iter().map(|count| count.load(Relaxed)).collect()
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let before = self.drops.0[self.number].fetch_add(1, Relaxed);
        assert!(!self.bad || before > 0, "value {} panics in its drop", self.number);
    }
}
