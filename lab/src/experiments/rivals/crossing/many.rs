//! The ring of ids with many senders and one receiver, alone: one sender on the other core, or one more on the receiver's.

use std::num::NonZeroU32;

use netmem::ring::{IdReceiver, IdSender, id_ring};

use super::{Crossing, SLOTS, measure};
use crate::bench::{Bench, SetUpError};
use crate::experiments::rivals::sides::{Side, pass};
use crate::experiments::rivals::{Scene, label};
use crate::rivals::dpdk::{BURST, IdReceiving, IdSending, Passed};

/// Numbers of senders: there are two cores.
pub(super) const SENDERS: [usize; 2] = [1, 2];

/// A sending end of a ring of ids.
trait Sends: Send {
    /// Sends ids from the front of `ids`. Returns how many had room.
    fn burst(&mut self, ids: &[NonZeroU32]) -> usize;
}

/// The receiving end.
trait Receives: Send {
    /// Receives ids into the front of `ids`. Returns how many.
    fn burst(&mut self, ids: &mut [u32; BURST]) -> usize;
}

impl Sends for IdSender {
    #[inline(always)]
    fn burst(&mut self, ids: &[NonZeroU32]) -> usize {
        self.send_burst(ids)
    }
}

impl Receives for IdReceiver {
    #[inline(always)]
    fn burst(&mut self, ids: &mut [u32; BURST]) -> usize {
        self.recv_slice(ids)
    }
}

impl Sends for IdSending {
    #[inline(always)]
    fn burst(&mut self, ids: &[NonZeroU32]) -> usize {
        self.send(ids)
    }
}

impl Receives for IdReceiving {
    #[inline(always)]
    fn burst(&mut self, ids: &mut [u32; BURST]) -> usize {
        self.receive(ids)
    }
}

/// `crossbeam`'s queue, which has no bursts.
#[cfg(feature = "rivals")]
type Queue = std::sync::Arc<crossbeam_queue::ArrayQueue<NonZeroU32>>;

#[cfg(feature = "rivals")]
impl Sends for Queue {
    #[inline(always)]
    fn burst(&mut self, ids: &[NonZeroU32]) -> usize {
        ids.iter().take_while(|id| self.push(**id).is_ok()).count()
    }
}

#[cfg(feature = "rivals")]
impl Receives for Queue {
    #[inline(always)]
    fn burst(&mut self, ids: &mut [u32; BURST]) -> usize {
        ids.iter_mut().map_while(|place| self.pop().map(|id| *place = id.get())).count()
    }
}

/// The `n`-th id of sender 0 or 1.
#[inline(always)]
fn id(sender: u32, n: u64) -> NonZeroU32 {
    const NOT_ZERO: NonZeroU32 = NonZeroU32::MIN;
    NOT_ZERO | (sender << 31) | ((n as u32) << 1 & 0x7fff_fffe)
}

/// One sender's ring and its next number.
struct Sending<S> {
    ring: S,
    sender: u32,
    sent: u64,
}

impl<S: Sends> Sending<S> {
    #[inline(always)]
    fn step(&mut self) -> Passed {
        let ids: [NonZeroU32; BURST] = std::array::from_fn(|i| id(self.sender, self.sent + i as u64));
        let items = self.ring.burst(&ids) as u64;
        self.sent += items;
        Passed { items, wrong: 0 }
    }
}

impl<S: Sends> Side for Sending<S> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |_| self.step())
    }
}

/// The receiving side, which may send a burst before each look.
struct Receiving<S, R> {
    own: Option<Sending<S>>,
    ring: R,
    /// The number of the next id of each sender.
    next: [u64; 2],
}

impl<S: Sends, R: Receives> Receiving<S, R> {
    #[inline(always)]
    fn step(&mut self) -> Passed {
        if let Some(own) = &mut self.own {
            own.step();
        }
        let mut ids = [0; BURST];
        let (items, mut wrong) = (self.ring.burst(&mut ids), 0);
        for found in &ids[..items] {
            let sender = found >> 31;
            let next = &mut self.next[sender as usize];
            wrong += u64::from(*found != id(sender, *next).get());
            *next += 1;
        }
        Passed { items: items as u64, wrong }
    }
}

impl<S: Sends, R: Receives> Side for Receiving<S, R> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |_| self.step())
    }

    fn stop_sending(&mut self) -> u64 {
        self.own.take().map_or(0, |own| own.sent)
    }
}

fn crossing<S: Sends + Clone + 'static, R: Receives + 'static>(
    variant: &'static str,
    senders: usize,
    (sends, receives): (S, R),
) -> Crossing<'static> {
    let own = (senders > 1).then(|| Sending { ring: sends.clone(), sender: 1, sent: 0 });
    let takes = Receiving { own, ring: receives, next: [0; 2] };
    Crossing::new(variant, Sending { ring: sends, sender: 0, sent: 0 }, takes)
}

/// Measures one number of senders.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
    senders: usize,
) -> Result<(), SetUpError> {
    let mut rings = vec![crossing("netmem", senders, id_ring(SLOTS as u32))];
    for (variant, one_receiver) in [("dpdk", false), ("dpdk/one-consumer", true)] {
        if let Some(dpdk) = scene.dpdk {
            let ends = dpdk.ids(SLOTS, one_receiver).map_err(SetUpError::at("ring of ids"))?;
            rings.push(crossing(variant, senders, ends));
        }
    }
    #[cfg(feature = "rivals")]
    {
        let queue = Queue::new(crossbeam_queue::ArrayQueue::new(SLOTS));
        rings.push(crossing("crossbeam", senders, (Queue::clone(&queue), queue)));
    }
    let named = |variant: &str| {
        let mut label = label(variant, "ring", BURST, "cross", size_of::<u32>(), false);
        label.params.insert("senders".to_owned(), senders.into());
        label
    };
    let what = format!("ring of many senders, {senders} of them");
    measure(scene, bench, peer_core, rings, (&what, &named));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn items_from_the_receivers_own_core_arrive_too_and_each_senders_ids_are_in_order() {
        for senders in SENDERS {
            let mut crossing = crossing("netmem", senders, id_ring(SLOTS as u32));
            let (gives, takes) = &mut crossing.ends;
            for _ in 0..10 {
                gives.pass();
                assert!(takes.pass() > 0);
            }
            let report = report_of(false, |bench| crossing.settle(bench, "ids"));
            assert!(report.ok(), "{:?}", report.checks);
        }
    }

    #[test]
    fn an_id_that_is_missing_is_seen() {
        let (sends, receives) = id_ring(SLOTS as u32);
        let mut sending = Sending { ring: sends, sender: 1, sent: 1 };
        let mut receiving = Receiving { own: None::<Sending<IdSender>>, ring: receives, next: [0; 2] };
        sending.step();
        assert_eq!(receiving.step(), Passed { items: BURST as u64, wrong: BURST as u64 });
    }
}
