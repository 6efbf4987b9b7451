//! One body for plain runs and for loom, which runs every interleaving of small rings.

use super::cursor::{Consumer, Index, Producer};
use super::{Lender, Mpsc, loan, spsc};
use crate::sync::shim::AtomicU32;
use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Runs `body` under loom's scheduler, or just once.
#[cfg(not(loom))]
pub(crate) fn model(body: impl Fn() + Sync + Send + 'static) {
    body();
}

/// Runs `body` under loom's scheduler in each interleaving, and prints how many there were.
#[cfg(loom)]
pub(crate) fn model(body: impl Fn() + Sync + Send + 'static) {
    use std::sync::atomic::AtomicU64;

    let mut builder = loom::model::Builder::new();
    // Some bodies touch many atomics before the interesting part.
    builder.max_branches = 20_000;
    // Not one of loom's: it counts over all interleavings.
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        body();
    });
    println!("{} interleavings", count.load(Relaxed));
}

#[cfg(loom)]
pub(crate) use loom::thread;
#[cfg(not(loom))]
pub(crate) use std::thread;

/// Items that pass through the rings in the concurrent bodies: few under loom, fewer under Miri.
const ITEMS: u32 = if cfg!(loom) {
    4
} else if cfg!(miri) {
    400
} else {
    40_000
};

#[test]
fn every_item_arrives_once_and_in_order_between_two_threads() {
    model(|| {
        let (mut sender, mut receiver) = spsc::ring_from::<Box<u32>>(2, u32::MAX - 1);
        let producer = thread::spawn(move || {
            let mut items = (0..ITEMS).map(Box::new).peekable();
            while items.peek().is_some() {
                if sender.send_burst(2, &mut items) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut expect = 0;
        while expect < ITEMS {
            let n = receiver.recv_burst(2, |item| {
                assert_eq!(*item, expect);
                expect += 1;
            });
            if n == 0 {
                thread::yield_now();
            }
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_ring_dropped_with_items_inside_drops_each_once() {
    model(|| {
        let arc = Arc::new(());
        let (mut sender, mut receiver) = spsc::ring_from::<Arc<()>>(4, u32::MAX);
        sender.send_burst(3, &mut std::iter::repeat_with(|| Arc::clone(&arc)));
        assert!(receiver.recv().is_some());
        drop((sender, receiver));
        assert_eq!(Arc::strong_count(&arc), 1);
    });
}

/// Items that are lent in the concurrent body: fewer still, because each crosses twice.
const LOANS: u32 = if cfg!(loom) { 3 } else { ITEMS };

#[test]
fn lent_items_come_back_in_order_with_what_was_done_to_them() {
    model(|| {
        let (mut lender, mut borrower) = loan::<Box<u32>>(2, u32::MAX - 1);
        let worker = thread::spawn(move || {
            let mut done = 0;
            while done < LOANS as usize {
                let n = borrower.ready(2);
                assert!((0..n).all(|i| borrower.item(i, |item| **item += 1).is_some()));
                borrower.give_back(n);
                done += n;
                if n == 0 {
                    thread::yield_now();
                }
            }
        });
        let (mut next, mut expect) = (0, 0);
        while expect < LOANS {
            while next < LOANS && lender.room(1) == 1 {
                lend(&mut lender, Box::new(next));
                next += 1;
            }
            let mut back = [const { MaybeUninit::uninit() }; 2];
            let n = lender.reclaim(&mut back);
            for item in back.into_iter().take(n) {
                assert_eq!(*reclaimed(item), expect + 1);
                expect += 1;
            }
            if n == 0 {
                thread::yield_now();
            }
        }
        worker.join().unwrap();
    });
}

#[test]
fn items_still_lent_when_both_sides_go_are_dropped_once() {
    model(|| {
        let arc = Arc::new(());
        let (mut lender, mut borrower) = loan::<Arc<()>>(4, u32::MAX - 1);
        (0..4).for_each(|_| lend(&mut lender, Arc::clone(&arc)));
        assert_eq!((lender.room(1), borrower.ready(9)), (0, 4));
        borrower.give_back(3);
        let mut back = [const { MaybeUninit::uninit() }; 2];
        assert_eq!(lender.reclaim(&mut back), 2);
        back.into_iter().for_each(|item| drop(reclaimed(item)));
        lend(&mut lender, Arc::clone(&arc));
        assert!(borrower.item(1, |_| ()).is_none(), "not seen yet");
        drop(lender);
        assert_eq!(borrower.ready(9), 2);
        drop(borrower);
        assert_eq!(Arc::strong_count(&arc), 1);
    });
}

/// Lends one item, for which there is room.
#[allow(unsafe_code)]
pub(crate) fn lend<T>(lender: &mut Lender<T>, item: T) {
    let item = ManuallyDrop::new(item);
    // SAFETY: the item is not used any more here; ManuallyDrop has its layout.
    let sent = unsafe { lender.lend(std::slice::from_ref(&*item)) };
    assert_eq!(sent, 1);
}

/// Takes back the items that were returned, of a ring of four.
pub(crate) fn take_back<T>(lender: &mut Lender<T>) -> Vec<T> {
    let mut back = [const { MaybeUninit::uninit() }; 4];
    let n = lender.reclaim(&mut back);
    back.into_iter().take(n).map(reclaimed).collect()
}

/// An item that was written by `reclaim`.
#[allow(unsafe_code)]
fn reclaimed<T>(item: MaybeUninit<T>) -> T {
    // SAFETY: the callers take as many places as `reclaim` said.
    unsafe { item.assume_init() }
}

#[test]
fn two_senders_reach_one_receiver_without_loss() {
    model(|| {
        let ring = Arc::new(Mpsc::new(2, u32::MAX));
        let each = if cfg!(loom) { 1 } else { ITEMS };
        let senders: Vec<_> = (0..2)
            .map(|s| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    for i in 0..each {
                        while push(&ring, &[1 + s * each + i]) == 0 {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let (mut seen, mut last) = (0, [0; 2]);
        while seen < 2 * each {
            let n = ring.pop(2, |id| {
                let s = ((id - 1) / each) as usize;
                assert!(id > last[s], "a sender's ids keep their order");
                last[s] = id;
                seen += 1;
            });
            if n == 0 {
                thread::yield_now();
            }
        }
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(ring.len(), 0);
    });
}

/// Sends ids.
fn push(ring: &Mpsc, ids: &[u32]) -> usize {
    ring.push(ids, |id| *id)
}

/// Words that ids stand for. The holder of the id writes them without ordering.
fn words(n: usize) -> Arc<Vec<AtomicU32>> {
    Arc::new((0..n).map(|_| AtomicU32::new(0)).collect())
}

#[test]
fn who_receives_an_id_sees_what_its_sender_did_before() {
    receives_what_was_done(&[1, 2], 1);
    receives_what_was_done(&[1, 2, 3, 4], 4);
}

/// Sends ids through a ring that they fill, while the receiver takes up to `want` of them and then closes the ring.
fn receives_what_was_done(ids: &'static [u32], want: usize) {
    model(move || {
        let (ring, done) = (Arc::new(Mpsc::new(ids.len() as u32, 0)), words(ids.len() + 1));
        let sender = {
            let (ring, done) = (Arc::clone(&ring), Arc::clone(&done));
            thread::spawn(move || {
                ids.iter().for_each(|&id| done[id as usize].store(7, Relaxed));
                push(&ring, ids)
            })
        };
        let see = |id: u32| assert_eq!(done[id as usize].load(Relaxed), 7, "of id {id}");
        let mut seen = ring.pop(want, see);
        ring.close(|id| {
            see(id);
            seen += 1;
        });
        assert_eq!(sender.join().unwrap(), seen);
    });
}

#[test]
fn a_sender_with_room_again_sees_what_the_receiver_did_with_the_ids_before() {
    model(|| {
        let (ring, done) = (Arc::new(Mpsc::new(2, u32::MAX)), words(3));
        assert_eq!(push(&ring, &[1, 2]), 2);
        let sender = {
            let (ring, done) = (Arc::clone(&ring), Arc::clone(&done));
            thread::spawn(move || push_one(&ring, &done))
        };
        assert_eq!(ring.pop(2, |id| done[id as usize].store(7, Relaxed)), 2);
        let sent = sender.join().unwrap();
        assert_eq!(ring.pop(2, |id| assert_eq!(id, 9)), sent);
    });
}

/// Sends one id if there is room. By then the ids of the ring's first round are done with.
fn push_one(ring: &Mpsc, done: &[AtomicU32]) -> usize {
    let sent = push(ring, &[9]);
    if sent == 1 {
        assert!((1..3).all(|id| done[id].load(Relaxed) == 7), "the slots are free, and not yet");
    }
    sent
}

#[test]
fn a_sender_that_has_room_by_what_another_saw_sees_what_the_receiver_did_too() {
    model(|| {
        let (ring, done, ran) = (Arc::new(Mpsc::new(2, u32::MAX)), words(3), words(1));
        assert_eq!(push(&ring, &[1, 2]), 2);
        let receiver = {
            let (ring, done, ran) = (Arc::clone(&ring), Arc::clone(&done), Arc::clone(&ran));
            thread::spawn(move || {
                assert_eq!(ring.pop(2, |id| done[id as usize].store(7, Relaxed)), 2);
                let sent = push_one(&ring, &done);
                ran[0].fetch_add(1, Relaxed);
                sent
            })
        };
        // Orders nothing. Loom lets the other thread run to its end before this one because of it: of several loads of a word,
        // it compares only the last with a store.
        ran[0].fetch_add(1, Relaxed);
        let sent = push_one(&ring, &done) + receiver.join().unwrap();
        assert_eq!(ring.pop(2, |id| assert_eq!(id, 9)), sent);
    });
}

#[test]
fn an_id_pushed_while_the_ring_closes_is_either_taken_or_refused() {
    model(|| {
        let ring = Arc::new(Mpsc::new(2, 0));
        let sender = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || push(&ring, &[7, 8]))
        };
        let mut taken = 0;
        ring.close(|_| taken += 1);
        assert_eq!(sender.join().unwrap(), taken);
    });
}

/// An index of which a test plays the other side.
#[derive(Clone, Default)]
struct Hostile(Rc<Cell<u32>>);

impl Index for Hostile {
    fn load_relaxed(&self) -> u32 {
        self.0.get()
    }
    fn load_acquire(&self) -> u32 {
        self.0.get()
    }
    fn store_release(&self, value: u32) {
        self.0.set(value);
    }
}

#[test]
fn an_impossible_index_from_the_other_side_is_an_error_and_never_a_slot() {
    for start in [0, 5, u32::MAX - 2] {
        let (mine, theirs) = (Hostile::default(), Hostile::default());
        mine.store_release(start);
        theirs.store_release(start);
        let mut consumer = Consumer::new(mine.clone(), theirs.clone(), 8);
        assert_eq!(consumer.ready(8), Ok(0));
        theirs.store_release(start.wrapping_add(9));
        assert!(consumer.ready(1).is_err());
        theirs.store_release(start.wrapping_sub(1));
        assert!(consumer.ready(1).is_err());
        theirs.store_release(start.wrapping_add(8));
        assert_eq!(consumer.ready(64), Ok(8));

        theirs.store_release(start);
        let mut producer = Producer::new(mine, theirs.clone(), 8);
        assert_eq!(producer.room(64), Ok(8));
        producer.publish(3);
        theirs.store_release(start.wrapping_add(4));
        assert!(producer.room(8).is_err());
        theirs.store_release(start.wrapping_sub(6));
        assert!(producer.room(8).is_err());
        theirs.store_release(start.wrapping_add(3));
        assert_eq!(producer.room(8), Ok(8));
    }
}
