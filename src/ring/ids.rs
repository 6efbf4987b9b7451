//! The ends of a ring of ids: any number of senders, and one receiver.

use super::mpsc::Mpsc;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Makes a ring of at least `slots` ids, rounded up to a power of two. More senders are clones of the first.
///
/// # Panics
/// If `slots` is above 2^31.
pub fn id_ring(slots: u32) -> (IdSender, IdReceiver) {
    let ring = Arc::new(Mpsc::new(slots, 0));
    (IdSender(Arc::clone(&ring)), IdReceiver(ring))
}

/// A sending end. A clone is another sending end of the same ring.
#[derive(Debug, Clone)]
pub struct IdSender(Arc<Mpsc>);

impl IdSender {
    /// Sends ids from the front of `ids`. Returns how many there was room for. They come out in order and without other
    /// ids between them.
    ///
    /// # Cost
    /// One compare-exchange for all of them, and a store for four. A sender that stops in between delays the receiver
    /// at that sender's ids, and delays no other sender.
    #[inline]
    pub fn send_burst(&self, ids: &[NonZeroU32]) -> usize {
        self.0.push(ids, |id| id.get())
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct IdReceiver(Arc<Mpsc>);

impl IdReceiver {
    /// Receives up to `want` ids in the order in which senders got their slots. Returns how many. If `take` panics, the
    /// ids that were passed to it are gone from the ring and the others stay.
    ///
    /// # Cost
    /// One store for all of them, and a load and a store for four.
    #[inline]
    pub fn recv_burst(&mut self, want: usize, mut take: impl FnMut(NonZeroU32)) -> usize {
        // No id is 0: that is an empty slot.
        self.0.pop(want, |id| _ = NonZeroU32::new(id).map(&mut take))
    }

    /// Receives ids, none of them 0, into the front of `ids`, in the order in which senders got their slots. Returns how
    /// many.
    ///
    /// # Cost
    /// That of [`recv_burst`](Self::recv_burst). Four ids are copied at a time.
    #[inline]
    pub fn recv_slice(&mut self, ids: &mut [u32]) -> usize {
        self.0.pop_fours(ids.len(), |at, four| ids[at..][..four.len()].copy_from_slice(four))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_stays_with_its_sender_and_each_senders_ids_come_in_order() {
        let (first, mut receiver) = id_ring(4);
        let second = first.clone();
        let ids: Vec<NonZeroU32> = (1..=6).filter_map(NonZeroU32::new).collect();
        assert_eq!((first.send_burst(&ids[..3]), second.send_burst(&ids[3..])), (3, 1));
        let mut got = Vec::new();
        assert_eq!(receiver.recv_burst(2, |id| got.push(id)), 2);
        assert_eq!(first.send_burst(&ids[4..]), 2);
        assert_eq!(receiver.recv_burst(8, |id| got.push(id)), 4);
        assert_eq!((got, receiver.recv_burst(8, |_| {})), (ids, 0));
    }

    #[test]
    fn a_receiver_that_panics_loses_the_id_it_was_given_and_the_ring_goes_on() {
        let (sender, mut receiver) = id_ring(4);
        let ids: Vec<NonZeroU32> = (1..=9).filter_map(NonZeroU32::new).collect();
        assert_eq!(sender.send_burst(&ids[..3]), 3);
        let panics = || receiver.recv_burst(3, |id| assert_ne!(id, ids[1], "seen"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        // Around the ring, to check that no slot is lost.
        let mut got = Vec::new();
        assert_eq!(sender.send_burst(&ids[3..]), 3);
        assert_eq!(receiver.recv_burst(9, |id| got.push(id)), 4);
        assert_eq!((sender.send_burst(&ids[6..]), receiver.recv_burst(9, |id| got.push(id))), (3, 3));
        assert_eq!(got, ids[2..]);
    }

    #[test]
    #[should_panic = "a ring of 2147483649 slots"]
    fn a_ring_that_its_indices_could_not_count_is_refused() {
        let _ = id_ring((1 << 31) + 1);
    }

    #[test]
    fn two_senders_on_threads_of_their_own_lose_nothing_and_keep_their_order() {
        let each = crate::rounds::rounds(10_000) as u32;
        let (sender, mut receiver) = id_ring(64);
        let mut next = [0, 0];
        std::thread::scope(|scope| {
            for tag in [1 << 30, 1 << 31] {
                let sender = sender.clone();
                scope.spawn(move || {
                    for id in (0..each).filter_map(|n| NonZeroU32::new(tag | n)) {
                        while sender.send_burst(&[id]) == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            while next != [each; 2] {
                receiver.recv_burst(32, |id| {
                    let sender = (id.get() >> 31) as usize;
                    assert_eq!(id.get() & (each.next_power_of_two() - 1), next[sender]);
                    next[sender] += 1;
                });
            }
        });
    }
}
