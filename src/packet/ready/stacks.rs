//! HOT: a worker's stack of ready packets, of at most `max`.

use crate::stats::{Count, Tally};
use crate::sync::{PerWorker, Roster, Worker};
use crate::sys::lifo::{Item, Lifo};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One worker's pairs.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Stack<T: Item> {
    /// It has room for the maximum number of pairs.
    items: Lifo<T>,
    tally: Tally,
}

/// One worker's counters.
#[derive(Debug, Default)]
pub(super) struct ReadyPacketsCounters {
    pub(super) taken: Count,
    pub(super) kept: Count,
    pub(super) missed: Count,
    pub(super) passed: Count,
    pub(super) released: Count,
}

/// Every worker's pairs.
///
/// Conservation: `kept - taken - released == now`.
#[derive(Debug)]
pub(super) struct Stacks<T: Item> {
    pub(super) locals: PerWorker<Stack<T>, ReadyPacketsCounters>,
    max: AtomicUsize,
    /// Total number of items that exist: no stack has room for more, whatever `max` says.
    all: usize,
}

impl<T: Item> Stack<T> {
    fn new(max: usize) -> Self {
        Stack { items: Lifo::new(max), tally: Tally::default() }
    }

    /// Enters the slow path: publishes the hot path's counts, runs `work`, then counts the items that came out.
    fn stay<R>(&mut self, lane: &ReadyPacketsCounters, work: impl FnOnce(&mut Lifo<T>) -> R) -> R {
        self.tally.publish(self.items.len(), &lane.taken, &lane.kept);
        let before = self.items.len();
        let done = work(&mut self.items);
        lane.released.add((before - self.items.len()) as u64);
        self.tally.settle(self.items.len());
        done
    }
}

impl<T: Item> Stacks<T> {
    pub(super) fn new(roster: &Roster, max: usize, all: usize) -> Self {
        let locals = PerWorker::new(roster, || Stack::new(max.min(all)));
        Stacks { locals, max: AtomicUsize::new(max), all }
    }

    /// Takes the worker's next item.
    #[inline(always)]
    pub(super) fn get(&self, w: &mut Worker) -> Option<T> {
        let mut stack = self.locals.enter(w)?;
        let item = stack.items.pop()?;
        stack.tally.take(1);
        Some(item)
    }

    /// Appends the worker's `n` newest items, or as many as exist, to `into`. Returns their number.
    #[inline(always)]
    pub(super) fn get_burst(&self, w: &mut Worker, n: usize, into: &mut Vec<T>) -> usize {
        let Some(mut stack) = self.locals.enter(w) else { return 0 };
        let n = stack.items.move_newest(n, into);
        stack.tally.take(n);
        n
    }

    /// Keeps an item.
    ///
    /// # Errors
    /// Returns the item if the maximum is reached.
    #[inline(always)]
    pub(super) fn put(&self, w: &mut Worker, item: T) -> Result<(), T> {
        // Nothing here panics. The compiler need not provide for unwinding, so the item stays in registers.
        let item = ManuallyDrop::new(item);
        let Some(mut stack) = self.locals.enter(w) else { return Err(ManuallyDrop::into_inner(item)) };
        stack.items.push(ManuallyDrop::into_inner(item))
    }

    /// Keeps items, oldest first, as long as the function that `ready` makes accepts an item and has reset it. The others
    /// stay. No item is kept if the maximum would be exceeded.
    ///
    /// The function is made inside: what it needs for each item would lie on the stack if it had to outlive a thief's visit.
    #[inline(always)]
    pub(super) fn put_bulk<F: FnMut(&mut T) -> bool>(
        &self,
        w: &mut Worker,
        items: &mut Vec<T>,
        ready: impl FnOnce() -> F,
    ) {
        let Some(mut stack) = self.locals.enter(w) else { return };
        stack.items.put_while(items, ready());
    }

    /// Maximum number of items in each stack.
    pub(super) fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// Changes the maximum of each stack, with immediate effect. Excess items come out, coldest first.
    #[cold]
    pub(super) fn set_max(&self, max: usize) -> Vec<T> {
        self.max.store(max, Relaxed);
        let mut surplus = Vec::new();
        self.rob(|items| {
            // Read again: another thread that changes it may have been faster.
            items.resize(self.max().min(self.all), &mut surplus);
        });
        surplus
    }

    /// Takes all items out of all stacks, except those whose owners stay inside for longer than a bounded wait.
    #[cold]
    pub(super) fn empty(&self) -> Vec<T> {
        let mut all = Vec::new();
        for slot in self.locals.slots() {
            slot.steal(|stack| stack.stay(slot.gauges(), |items| items.move_oldest(usize::MAX, &mut all)));
        }
        all
    }

    /// As [`Stacks::empty`], and keeps no items from now on.
    #[cold]
    pub(super) fn shut(&self) -> Vec<T> {
        let mut all = Vec::new();
        for slot in self.locals.slots() {
            slot.shut(|stack| stack.stay(slot.gauges(), |items| items.move_oldest(usize::MAX, &mut all)));
        }
        all
    }

    /// Takes all items out of one worker's stack, for that worker.
    #[cold]
    pub(super) fn leave(&self, w: &mut Worker) -> Vec<T> {
        let mut all = Vec::new();
        self.locals.leave(w, |stack, lane| stack.stay(lane, |items| items.move_oldest(usize::MAX, &mut all)));
        all
    }

    /// Items in all stacks.
    pub(super) fn now(&self) -> usize {
        let mut now = 0;
        self.rob(|items| now += items.len());
        now
    }

    /// Calls `look` on all items in all stacks, while it is inside the stack.
    pub(super) fn each(&self, mut look: impl FnMut(&T)) {
        self.rob(|items| items.items().iter().for_each(&mut look));
    }

    /// Enters each worker's stack as a thief.
    fn rob(&self, mut work: impl FnMut(&mut Lifo<T>)) {
        for slot in self.locals.slots() {
            // A worker's hot calls are short and do not block, so the wait ends.
            while slot.steal(|stack| stack.stay(slot.gauges(), &mut work)).is_none() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stacks;
    use crate::pool::tests::interleavings::tiny;
    use crate::pool::{Frame, Shrinker};
    use crate::ring::tests::{model, thread};
    use crate::sync::{Roster, Worker};
    use crate::sys::lifo::Owned;
    use std::num::NonZeroU32;
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    #[test]
    fn what_is_put_while_the_most_is_lowered_is_kept_refused_or_comes_out() {
        model(|| {
            let roster = Roster::new(1);
            let mut w = roster.claim().unwrap();
            let stacks = Arc::new(Stacks::new(&roster, 2, 9));
            stacks.put(&mut w, 1).unwrap();
            let lower = {
                let stacks = Arc::clone(&stacks);
                thread::spawn(move || stacks.set_max(1))
            };
            let mut all: Vec<u32> = stacks.put(&mut w, 2).err().into_iter().collect();
            all.extend(lower.join().unwrap());
            assert!(stacks.now() <= 1);
            all.extend(stacks.put(&mut w, 3).err());
            all.extend(stacks.leave(&mut w));
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
        });
    }

    #[test]
    fn what_is_put_and_taken_while_a_thief_empties_the_stacks_is_somewhere_once() {
        model(|| {
            let roster = Roster::new(1);
            let mut w = roster.claim().unwrap();
            let stacks = Arc::new(Stacks::new(&roster, 2, 9));
            stacks.put(&mut w, 1).unwrap();
            let thief = {
                let stacks = Arc::clone(&stacks);
                thread::spawn(move || stacks.shut())
            };
            let mut all: Vec<u32> = stacks.put(&mut w, 2).err().into_iter().collect();
            all.extend(stacks.get(&mut w));
            all.extend(thief.join().unwrap());
            assert_eq!(stacks.put(&mut w, 3), Err(3));
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
    }
    /// Ready frames, kept in the same way as pairs.
    struct Ready(Stacks<Frame>);

    impl Owned for Frame {}

    impl Shrinker for Ready {
        fn relieve(&self, w: &mut Worker) -> usize {
            self.0.empty().into_iter().map(|frame| frame.free(w)).count()
        }

        fn ready(&self) -> u64 {
            self.0.now() as u64
        }

        fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
            self.0.each(|frame| found(frame.id()));
        }

        fn close(&self) {
            drop(self.0.shut());
        }
    }

    #[test]
    fn what_is_put_while_its_pool_closes_goes_home_and_the_last_of_it_ends_the_pool() {
        model(|| {
            let (memory, [mut w, mut other], pool) = tiny(2);
            let ready = Arc::new(Ready(Stacks::new(pool.memory().roster(), 2, 9)));
            let shrinker: Weak<Ready> = Arc::downgrade(&ready);
            pool.add_shrinker(shrinker);
            let frames = [(); 3].map(|()| pool.alloc(&mut w).unwrap());
            let [kept, mine, put] = frames;
            ready.0.put(&mut other, kept).unwrap();
            let worker = {
                let ready = Arc::clone(&ready);
                thread::spawn(move || {
                    if let Err(late) = ready.0.put(&mut other, put) {
                        late.free(&mut other);
                    }
                    ready.0.get(&mut other).into_iter().for_each(|pair| pair.free(&mut other));
                    other
                })
            };
            pool.close();
            mine.free(&mut w);
            let other = worker.join().unwrap();
            pool.close_and_wait(Duration::ZERO).unwrap();
            assert_eq!((pool.mapped_pages(), pool.inflight(), ready.ready()), (0, 0, 0));
            drop((pool, ready, w, other));
            assert_eq!(memory.stats().free, memory.stats().total);
        });
    }
}
