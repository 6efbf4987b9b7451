//! A far side that sends at a fixed rate, whatever the device does. Each packet is timed from when it was due to when it came
//! out, so that one that had to wait before it was sent is not shown as quick.

use std::collections::VecDeque;

use netmem::limits::BATCH_MAX;
use netmem::sync::Worker;

use super::{FarSide, Router, SETTLE_ROUNDS};
use crate::method::clock::Clock;
use crate::method::poll::beside;

/// How the packets of a round are sent and timed, in ticks.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiments) struct Pace {
    /// The time between two packets.
    pub(in crate::experiments) interval: f64,
    /// The time from the first packet to the first one that is timed.
    pub(in crate::experiments) warm_up: u64,
    /// The time of the whole round.
    pub(in crate::experiments) round: u64,
}

/// Generator and sink of one round.
struct Paced<'a, C> {
    far: &'a mut FarSide,
    clock: &'a C,
    pace: Pace,
    /// When the first packet was due; None before the first turn.
    begun: Option<u64>,
    sent: u64,
    /// When each packet under way was due.
    due: VecDeque<u64>,
    /// The times of the packets that came out, in ticks.
    times: Vec<f64>,
}

impl<C: Clock> Paced<'_, C> {
    /// Sends what is due, and takes what came out.
    fn turn(&mut self) {
        let Self { far, clock, pace, begun, sent, due, .. } = self;
        let now = clock.ticks();
        let begun = *begun.get_or_insert(now);
        let when = |number: u64| begun + (number as f64 * pace.interval) as u64;
        let are_due = (*sent..).take(BATCH_MAX).take_while(|number| when(*number) <= now).count();
        let first = *sent;
        *sent += far.send(are_due) as u64;
        due.extend((first..*sent).map(when));
        while self.take_out() > 0 {}
    }

    /// Takes a burst of packets that came out. Returns their number.
    fn take_out(&mut self) -> usize {
        let n = self.far.take_out(BATCH_MAX);
        let now = self.clock.ticks();
        let counted = self.begun.unwrap_or(now) + self.pace.warm_up;
        let timed = self.due.drain(..n.min(self.due.len())).filter(|due| *due >= counted);
        self.times.extend(timed.map(|due| now.saturating_sub(due) as f64));
        n
    }
}

impl Router {
    /// Forwards packets that come at a fixed rate from `peer_core`, for a round. Returns the time of each from when it was due
    /// to when it came out, in ticks.
    pub(in crate::experiments) fn paced(
        &mut self,
        far: &mut FarSide,
        worker: &mut Worker,
        peer_core: usize,
        (clock, pace): (&(impl Clock + Sync), Pace),
    ) -> Vec<f64> {
        let packets = (pace.round as f64 / pace.interval) as usize;
        let (begun, due, times) = (None, VecDeque::with_capacity(packets), Vec::with_capacity(packets));
        let mut paced = Paced { far, clock, pace, begun, sent: 0, due, times };
        let end = clock.ticks() + pace.round;
        beside(Some(peer_core), &mut || paced.turn(), || {
            while clock.ticks() < end {
                self.poll(worker);
            }
        });
        let times = std::mem::take(&mut paced.times);
        for _ in 0..SETTLE_ROUNDS {
            let moved = self.poll(worker) + paced.take_out();
            if moved == 0 && paced.due.is_empty() {
                break;
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fate, Setup};
    use super::*;
    use crate::bench::tests::report_of;
    use crate::method::clock::Tsc;
    use crate::method::clock::tests::Synthetic;
    use netmem::forward::Free;
    use netmem::page::{Memory, MemoryConfig};

    fn router(memory: &Memory, worker: &mut Worker) -> (Router, FarSide) {
        let setup = Setup { free: Free::Bulk, ..Setup::frames(256, Fate::Routed) };
        Router::new(memory, worker, &setup).unwrap()
    }

    /// A packet is due every 10 ticks, and the device takes one step after every `step`.
    fn times(step: u64) -> Vec<f64> {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let (mut router, mut far) = router(&memory, &mut worker);
        let clock = Synthetic::default();
        let pace = Pace { interval: 10.0, warm_up: 100, round: 0 };
        let (due, times) = (VecDeque::new(), Vec::new());
        let mut paced = Paced { far: &mut far, clock: &clock, pace, begun: None, sent: 0, due, times };
        for _ in 0..40 {
            paced.turn();
            clock.advance(step);
            router.poll(&mut worker);
        }
        paced.times
    }

    #[test]
    fn a_packet_is_timed_from_when_it_was_due_although_it_was_sent_later() {
        let even = times(10);
        assert!(even.len() > 20 && even.iter().all(|time| *time == even[0]), "{even:?}");
        // Ten packets are due in each step: the first of them for the longest time.
        let late = times(100);
        let least = late.iter().copied().fold(f64::MAX, f64::min);
        let most = late.iter().copied().fold(0.0, f64::max);
        assert_eq!(most - least, 90.0, "{late:?}");
    }

    #[test]
    fn a_round_loses_no_packet_and_the_next_one_begins_with_none_under_way() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let (mut router, mut far) = router(&memory, &mut worker);
        let clock = Tsc::new();
        let ticks = |ns: f64| (ns * clock.ticks_per_ns()) as u64;
        let pace = Pace { interval: ticks(5_000.0) as f64, warm_up: 0, round: ticks(2e6) };
        for _ in 0..3 {
            router.paced(&mut far, &mut worker, 0, (&clock, pace));
            assert_eq!(far.sent, far.received);
        }
        assert!(report_of(false, |bench| router.settle(far, &mut worker, "netmem", bench)).ok());
    }
}
