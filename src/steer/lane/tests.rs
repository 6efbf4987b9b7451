//! Tests of a lane in every interleaving of its two ends.

use super::*;
use crate::ring::tests::{model, thread};
use std::sync::atomic::Ordering::Relaxed;

/// An item that counts for as many units as it has tokens.
#[derive(Debug)]
struct Item(u32, Vec<Arc<()>>);

impl Item {
    fn units(&self) -> u32 {
        self.1.len() as u32
    }
}

fn item(number: u32, token: &Arc<()>, units: usize) -> Item {
    Item(number, vec![Arc::clone(token); units])
}

/// Sends these items, for which there is room.
fn send(sender: &mut LaneSender<Item>, units: u32, items: impl IntoIterator<Item = Item>) {
    let mut items = items.into_iter();
    sender.send(units, |slot| {
        if let Some(item) = items.next() {
            slot.fill(item);
        }
    });
}

/// Takes all items. Returns their numbers.
fn take(reader: &mut LaneReceiver<Item>) -> Vec<u32> {
    let mut numbers = Vec::new();
    reader.take(usize::MAX, |item| {
        let units = item.units();
        numbers.push(item.take().0);
        units
    });
    numbers
}

#[test]
fn what_is_sent_arrives_once_and_in_order_and_what_has_no_room_is_seen_to_have_none() {
    model(|| {
        let token = Arc::new(());
        let (mut sender, mut reader) = lane(3, Progress::new(0, u32::MAX - 1)).unwrap();
        let sending = thread::spawn({
            let token = Arc::clone(&token);
            move || {
                let mut sent = Vec::new();
                for number in 0..3 {
                    if sender.room(2) == 2 {
                        send(&mut sender, 2, [item(number, &token, 2)]);
                        sent.push(number);
                    }
                }
                sent
            }
        });
        let mut taken = take(&mut reader);
        reader.finish();
        let sent = sending.join().unwrap();
        taken.extend(take(&mut reader));
        assert_eq!(taken, sent);
        assert!(sent.first() == Some(&0));
        drop(reader);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn a_sender_that_stops_between_reserve_and_publish_holds_nobody_else_up_and_loses_nothing() {
    model(|| {
        let token = Arc::new(());
        let (mut stopped, mut from_stopped) = lane(2, Progress::new(0, 0)).unwrap();
        let (mut other, mut from_other) = lane(2, Progress::new(0, 0)).unwrap();
        let arrived = Arc::new(AtomicU32::new(0));
        let stopping = thread::spawn({
            let (token, arrived) = (Arc::clone(&token), Arc::clone(&arrived));
            move || {
                // The second item exists only after the other sender's has arrived: the first lies in its slot, and is
                // not published.
                let items = (1..3).map(|number| {
                    while number == 2 && arrived.load(Acquire) == 0 {
                        thread::yield_now();
                    }
                    item(number, &token, 1)
                });
                send(&mut stopped, 2, items);
                stopped
            }
        });
        send(&mut other, 1, [item(9, &token, 1)]);
        assert!(take(&mut from_stopped).is_empty(), "half a list is no list");
        assert_eq!(take(&mut from_other), [9]);
        arrived.store(1, Release);
        drop(stopping.join().unwrap());
        assert_eq!(take(&mut from_stopped), [1, 2]);
        drop((other, from_other, from_stopped));
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn whoever_sees_a_unit_finished_sees_what_was_done_with_it() {
    model(|| {
        let token = Arc::new(());
        let (mut sender, mut reader) = lane(2, Progress::new(0, 0)).unwrap();
        let progress = Arc::clone(sender.progress());
        let done = Arc::new(AtomicU32::new(0));
        send(&mut sender, 1, [item(7, &token, 1)]);
        let reading = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                assert_eq!(take(&mut reader), [7]);
                done.store(1, Relaxed);
                reader.finish();
                reader
            }
        });
        if progress.has_finished(1) {
            assert_eq!(done.load(Relaxed), 1);
        }
        let reader = reading.join().unwrap();
        assert!(progress.has_finished(1) && sender.is_drained() && !progress.has_finished(2));
        drop(reader);
        assert!(progress.has_finished(2), "nobody reads: nothing to wait for");
    });
}

#[test]
fn what_is_sent_while_its_reader_goes_is_freed_once() {
    model(|| {
        let token = Arc::new(());
        let (mut sender, mut reader) = lane(4, Progress::new(0, 0)).unwrap();
        let leaving = thread::spawn(move || {
            let taken = take(&mut reader).len();
            drop(reader);
            taken
        });
        send(&mut sender, 2, [1, 2].map(|number| item(number, &token, 1)));
        let taken = leaving.join().unwrap();
        assert!(taken == 0 || taken == 2);
        assert_eq!(sender.progress().reader(), GONE);
        sender.abandon();
        assert_eq!(Arc::strong_count(&token), 1, "what was sent after the reader's last look is freed");
        drop(sender);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
#[cfg(not(loom))]
fn items_that_no_worker_reads_are_freed_when_the_sender_abandons_the_lane_and_its_count_stays() {
    let token = Arc::new(());
    let (mut sender, reader) = lane(4, Progress::new(0, u32::MAX)).unwrap();
    drop(reader);
    // It saw a reader just before.
    send(&mut sender, 3, [item(1, &token, 3)]);
    assert_eq!(Arc::strong_count(&token), 4);
    for _ in 0..2 {
        sender.abandon();
        assert_eq!((Arc::strong_count(&token), sender.sent(), sender.backlog()), (1, 2, 3));
        assert!(sender.is_drained());
    }
}

/// Seen: after a panic, the rest of the items stayed in the ring until the sender was dropped.
#[test]
#[cfg(not(loom))]
fn items_of_a_reader_that_leaves_are_all_freed_even_if_they_panic() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    struct Panics(Arc<()>);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("{} tokens", Arc::strong_count(&self.0));
        }
    }
    let token = Arc::new(());
    let (mut sender, reader) = lane(4, Progress::new(0, 0)).unwrap();
    let mut items = [(); 3].map(|()| Panics(Arc::clone(&token))).into_iter();
    sender.send(3, |slot| _ = items.next().map(|item| slot.fill(item)));
    let panic = catch_unwind(AssertUnwindSafe(|| drop(reader))).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("4 tokens"), "the first one goes on");
    assert_eq!(Arc::strong_count(&token), 1);
    assert_eq!(sender.progress().reader(), GONE);
}

#[test]
#[cfg(not(loom))]
fn the_bound_is_one_of_units_and_holds_across_the_wrap_of_the_counts() {
    let token = Arc::new(());
    let (mut sender, mut reader) = lane(10, Progress::new(0, u32::MAX - 7)).unwrap();
    for round in 0..10 {
        assert_eq!(sender.room(15), 10);
        send(&mut sender, 9, (0..3).map(|number| item(5 * round + number, &token, 3)));
        assert_eq!((sender.backlog(), sender.room(1), sender.room(3)), (9, 1, 1));
        assert_eq!(take(&mut reader), [5 * round, 5 * round + 1, 5 * round + 2]);
        assert_eq!(sender.backlog(), 9, "they are in work");
        reader.finish();
        assert!(sender.is_drained());
    }
}

#[test]
#[cfg(not(loom))]
fn room_is_asked_for_again_where_what_was_seen_last_is_one_too_few() {
    let token = Arc::new(());
    let (mut sender, mut reader) = lane(10, Progress::new(0, u32::MAX - 3)).unwrap();
    send(&mut sender, 9, (0..3).map(|number| item(number, &token, 3)));
    assert_eq!(take(&mut reader).len(), 3);
    reader.finish();
    assert_eq!(
        (sender.backlog_seen(), sender.room(1), sender.backlog_seen()),
        (9, 1, 9),
        "nothing is looked up"
    );
    assert_eq!((sender.room(2), sender.backlog_seen()), (2, 0));
    send(&mut sender, 9, (0..3).map(|number| item(number, &token, 3)));
    take(&mut reader);
    reader.finish();
    assert_eq!(sender.room(10), 10);
}

/// Seen: a barrier whose position was passed by 2^31 units counted as not reached, and the moved flows stood still.
#[test]
fn a_position_is_reached_however_many_units_were_finished_since() {
    for position in [0, 5, u32::MAX] {
        for ahead in [1, 64, 1 << 20, 1 << 21] {
            assert!(!reached(position.wrapping_sub(ahead), position), "{ahead} ahead of {position}");
        }
        for since in [0, 1, 1 << 20, 1 << 31, (1 << 31) + 1, u32::MAX - (1 << 21)] {
            assert!(reached(position.wrapping_add(since), position), "{since} since {position}");
        }
    }
}
