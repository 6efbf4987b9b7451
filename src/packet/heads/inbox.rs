//! The inbox where heads freed on other workers wait for the worker that took them.

use crate::sync::shim::{AtomicU32, Mutex, lock};
use crate::sys::cpu::{lines, prefetch, prefetch_write};
use std::sync::atomic::Ordering::Relaxed;

/// The value of `waiting` while the worker is not there.
const SHUT: u32 = u32::MAX;

/// A worker's inbox: bounded, filled in batches by other workers, emptied by its worker.
///
/// The inbox is shut until the worker first looks into it, and again after the worker has left. So each item is either
/// taken out later or refused at once.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    /// Number of waiting items, for a look without the lock; [`SHUT`] while the inbox is shut. Written only under the
    /// lock.
    waiting: AtomicU32,
    items: Mutex<Vec<T>>,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Inbox<T> {
        Inbox { waiting: AtomicU32::new(SHUT), items: Mutex::new(Vec::new()) }
    }

    /// Puts items in until `most` are inside. The other items stay in `from`; all of them stay if the inbox is shut.
    /// Returns the number of items put in.
    ///
    /// # Cost
    /// One lock for all items.
    pub(super) fn put(&self, from: &mut Vec<T>, most: usize) -> usize {
        let mut items = lock(&self.items);
        // Relaxed: the lock orders it.
        if self.waiting.load(Relaxed) == SHUT {
            return 0;
        }
        let n = from.len().min(most.saturating_sub(items.len()));
        items.reserve(n);
        // Their worker's core has had these lines.
        lines(&items.spare_capacity_mut()[..n]).for_each(prefetch_write);
        items.extend(from.drain(from.len() - n..));
        self.waiting.store(items.len() as u32, Relaxed);
        n
    }

    /// Takes up to `n` items, newest first, and opens the inbox. Returns their number. Only the inbox's worker calls
    /// this.
    ///
    /// # Cost
    /// One load while nothing waits.
    pub(super) fn take(&self, n: usize, into: &mut Vec<T>) -> usize {
        // Relaxed: a hint; an item that it misses is seen the next time.
        if self.waiting.load(Relaxed) == 0 {
            return 0;
        }
        let mut items = lock(&self.items);
        let rest = items.len() - n.min(items.len());
        let n = items.len() - rest;
        // Other cores have these lines.
        lines(&items[rest..]).for_each(prefetch);
        into.extend(items.drain(rest..));
        self.waiting.store(rest as u32, Relaxed);
        n
    }

    /// Takes all items, for a caller that found nothing elsewhere. The inbox stays open or shut as it is.
    pub(super) fn empty(&self, into: &mut Vec<T>) {
        let mut items = lock(&self.items);
        into.append(&mut items);
        if self.waiting.load(Relaxed) != SHUT {
            self.waiting.store(0, Relaxed);
        }
    }

    /// The worker leaves: takes all items. No item goes in until the next worker of the slot takes.
    pub(super) fn shut(&self, into: &mut Vec<T>) {
        let mut items = lock(&self.items);
        into.append(&mut items);
        self.waiting.store(SHUT, Relaxed);
    }

    /// Items inside.
    pub(super) fn len(&self) -> usize {
        lock(&self.items).len()
    }
}

#[cfg(test)]
mod tests {
    use super::Inbox;
    use crate::ring::tests::{model, thread};
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_box_takes_what_there_is_room_for_and_nothing_before_its_worker_came_or_after_it_left() {
        model(|| {
            let inbox = Inbox::new();
            let mut heads = vec![1, 2, 3];
            assert_eq!((inbox.put(&mut heads, 8), heads.len()), (0, 3), "nobody is there");
            let mut mine = Vec::new();
            assert_eq!(inbox.take(8, &mut mine), 0);
            assert_eq!((inbox.put(&mut heads, 2), heads.len()), (2, 1), "room for two");
            assert_eq!((inbox.take(1, &mut mine), inbox.len()), (1, 1));
            inbox.shut(&mut mine);
            assert_eq!((inbox.put(&mut heads, 8), heads.len(), mine.len()), (0, 1, 2), "it left");
        });
    }

    #[test]
    fn a_box_with_heads_inside_takes_only_what_is_missing_to_the_most() {
        model(|| {
            let (inbox, mut mine) = (Inbox::new(), Vec::new());
            inbox.take(1, &mut mine);
            let mut heads = vec![1, 2, 3, 4, 5, 6, 7];
            assert_eq!((inbox.put(&mut heads, 3), inbox.len()), (3, 3));
            assert_eq!((inbox.put(&mut heads, 5), inbox.len(), heads.len()), (2, 5, 2));
            assert_eq!(
                (inbox.put(&mut heads, 5), inbox.put(&mut heads, 4), inbox.len()),
                (0, 0, 5),
                "it is full"
            );
            assert_eq!((inbox.take(9, &mut mine), mine.len(), heads), (5, 5, vec![1, 2]));
        });
    }

    #[test]
    fn a_box_that_a_thief_empties_stays_open_or_shut_as_it_was() {
        model(|| {
            let (inbox, mut mine, mut loot) = (Inbox::new(), Vec::new(), Vec::new());
            let mut heads = vec![1, 2];
            inbox.empty(&mut loot);
            assert_eq!((inbox.put(&mut heads, 8), heads.len()), (0, 2), "nobody came yet");
            inbox.take(1, &mut mine);
            assert_eq!(inbox.put(&mut heads, 8), 2);
            inbox.empty(&mut loot);
            assert_eq!((loot.len(), inbox.waiting.load(Relaxed)), (2, 0), "its worker need not look");
            assert_eq!(inbox.put(&mut loot, 8), 2, "it is open still");
            inbox.shut(&mut mine);
            inbox.empty(&mut loot);
            assert_eq!((inbox.put(&mut mine, 8), mine.len()), (0, 2), "it left");
        });
    }

    #[test]
    fn heads_put_in_while_the_worker_leaves_are_taken_out_by_one_of_the_two() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            let mut mine = Vec::new();
            inbox.take(1, &mut mine);
            let sender = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let mut back = vec![1, 2];
                    inbox.put(&mut back, 1);
                    inbox.put(&mut back, 2);
                    back
                })
            };
            inbox.take(1, &mut mine);
            inbox.shut(&mut mine);
            mine.append(&mut sender.join().unwrap());
            mine.sort_unstable();
            assert_eq!(mine, [1, 2]);
            assert_eq!(inbox.len(), 0);
        });
    }

    #[test]
    fn heads_put_in_while_a_thief_empties_the_box_are_taken_once() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            let mut mine = Vec::new();
            inbox.take(1, &mut mine);
            let thief = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let mut loot = Vec::new();
                    inbox.empty(&mut loot);
                    loot
                })
            };
            let mut back = vec![1, 2];
            inbox.put(&mut back, 2);
            inbox.take(2, &mut mine);
            mine.append(&mut back);
            mine.append(&mut thief.join().unwrap());
            inbox.take(2, &mut mine);
            mine.sort_unstable();
            assert_eq!(mine, [1, 2]);
        });
    }
}
