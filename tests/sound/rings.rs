//! Iterators, closures and items of rings that panic.

use super::*;
use netmem::ring::ring;

#[test]
fn items_taken_from_an_iterator_that_panics_are_in_the_ring() {
    // Also around the end of the ring.
    for begin in 0..8 {
        for at in 0..8 {
            let drops = Drops::new(16);
            let (mut sender, mut receiver) = ring::<Value>(8);
            for _ in 0..begin {
                sender.send(drops.value(15, false)).ok().unwrap();
                drop(receiver.recv());
            }
            let mut items = (0..8).map(|n| {
                assert!(n != at, "the iterator's item {n}");
                drops.value(n, false)
            });
            assert!(panics(|| _ = sender.send_burst(8, &mut items)));
            assert_eq!(sender.len(), at);
            // The iterator continues after the item that panicked, and so does the ring.
            assert_eq!(sender.send_burst(8, &mut items), 7 - at);
            let mut got = Vec::new();
            assert_eq!(receiver.recv_burst(99, |item| got.push(item.number)), 7);
            let expected: Vec<usize> = (0..8).filter(|&n| n != at).collect();
            assert_eq!(got, expected);
            let counts = drops.counts();
            assert!((0..8).all(|n| counts[n] == usize::from(n != at)), "{counts:?}");
        }
    }
}

#[test]
fn a_receiver_that_panics_has_the_item_and_the_others_stay() {
    for at in 0..6 {
        let drops = Drops::new(6);
        let (mut sender, mut receiver) = ring::<Value>(8);
        assert_eq!(sender.send_burst(8, &mut (0..6).map(|n| drops.value(n, false))), 6);
        let mut seen = 0;
        assert!(panics(|| {
            receiver.recv_burst(8, |item| {
                seen += 1;
                assert!(item.number != at, "received {at}");
            });
        }));
        assert_eq!((seen, receiver.ready(8)), (at + 1, 5 - at));
        drop((sender, receiver));
        assert_eq!(drops.counts(), [1; 6]);
    }
}

#[test]
fn a_ring_that_goes_drops_all_its_items_whichever_of_them_panic() {
    let bad: [fn(usize) -> bool; 3] = [|n| n == 0, |n| n == 5, |_| true];
    for bad in bad {
        for taken in 0..4 {
            let drops = Drops::new(6);
            let (mut sender, mut receiver) = ring::<Value>(8);
            assert_eq!(sender.send_burst(8, &mut (0..6).map(|n| drops.value(n, bad(n)))), 6);
            for _ in 0..taken {
                let item = receiver.recv();
                let _ = panics(|| drop(item));
            }
            drop(sender);
            let _ = panics(|| drop(receiver));
            assert_eq!(drops.counts(), [1; 6]);
        }
    }
}
