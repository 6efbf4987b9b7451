//! One body for plain runs and for loom: every interleaving of small rings.

use super::cursor::{Consumer, Index, Producer};
use super::{Mpsc, spsc};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Runs `body` under loom's scheduler, or just once.
pub(crate) fn model(body: impl Fn() + Sync + Send + 'static) {
    #[cfg(loom)]
    loom::model(body);
    #[cfg(not(loom))]
    body();
}

#[cfg(loom)]
pub(crate) use loom::thread;
#[cfg(not(loom))]
pub(crate) use std::thread;

/// Items that pass through the rings in the concurrent bodies: few under loom.
const ITEMS: u32 = if cfg!(loom) { 4 } else { 40_000 };

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
                        while ring.push(std::iter::once(1 + s * each + i)) == 0 {
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

#[test]
fn an_id_pushed_while_the_ring_closes_is_either_taken_or_refused() {
    model(|| {
        let ring = Arc::new(Mpsc::new(2, 0));
        let sender = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.push(7..9))
        };
        let mut taken = 0;
        ring.close(|_| taken += 1);
        assert_eq!(sender.join().unwrap(), taken);
    });
}

/// An index that a test plays the other side of.
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

#[test]
fn what_came_back_is_room_again_once_whether_the_index_was_read_before_or_after() {
    for start in [0, u32::MAX - 5] {
        let (mine, theirs) = (Hostile::default(), Hostile::default());
        mine.store_release(start);
        theirs.store_release(start);
        let mut producer = Producer::new(mine, theirs.clone(), 8);
        assert_eq!(producer.room(8), Ok(8));
        producer.publish(8);
        producer.credit(3);
        assert_eq!(producer.known_room(), 3, "three came back");
        theirs.store_release(start.wrapping_add(5));
        assert_eq!(producer.room(8), Ok(5), "five were taken");
        producer.credit(2);
        assert_eq!(producer.known_room(), 5, "the two that came back later were among them");
        producer.publish(5);
        producer.credit(3);
        assert_eq!(producer.known_room(), 3);
    }
}
