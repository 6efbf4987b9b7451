//! Decides when the whole state is asked for again.

use std::time::{Duration, Instant};

/// Resync back-off: after a full dump the next one waits at least this many times as long as the dump took.
const REST: u32 = 4;
/// The time until the next request after the kernel did not answer.
const RETRY: Duration = Duration::from_secs(1);
/// The time that the kernel may take to do what an event has announced.
const SETTLING: Duration = Duration::from_millis(100);

/// Whether the whole state must be asked for again, and the earliest time for that.
#[derive(Debug)]
pub(crate) struct Resync {
    /// Events may not have reported every change.
    unsure: bool,
    /// The earliest time of the next request.
    earliest: Instant,
    /// The time of a second request, which is made regardless of what happens before.
    once_more: Option<Instant>,
}

impl Resync {
    /// Makes the initial state, in which nothing is known.
    pub(crate) fn new(now: Instant) -> Resync {
        Resync { unsure: true, earliest: now, once_more: None }
    }

    /// Records a change that no event reports.
    pub(crate) fn request(&mut self) {
        self.unsure = true;
    }

    /// Records a coming change that no event will report. The kernel reports links and addresses as gone before it
    /// removes their routes. Since Linux 6.9 nothing prevents a dump in between.
    pub(crate) fn request_twice(&mut self, now: Instant) {
        self.unsure = true;
        self.once_more = Some(now + SETTLING);
    }

    /// Returns true if the whole state is to be asked for now.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.unsure |= self.once_more.take_if(|at| *at <= now).is_some();
        self.unsure && now >= self.earliest
    }

    /// Records that the requests sent since `begun` were answered.
    pub(crate) fn settle(&mut self, begun: Instant, now: Instant) {
        self.unsure = false;
        self.earliest = now + now.duration_since(begun) * REST;
    }

    /// Records that the kernel did not answer.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.earliest = now + RETRY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by reasoning: a link is reported down, the whole state is asked for at once, and the answer has routes
    /// that are removed shortly after.
    #[test]
    fn after_a_link_went_all_is_asked_for_at_once_and_again_when_the_kernel_is_done() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut doubt = Resync::new(start);
        assert!(doubt.is_due(at(0)));
        doubt.settle(at(0), at(1));
        assert!(!doubt.is_due(at(10)));
        doubt.request_twice(at(10));
        assert!(doubt.is_due(at(10)));
        doubt.settle(at(10), at(11));
        assert!(!doubt.is_due(at(109)) && doubt.is_due(at(110)));
        doubt.settle(at(110), at(111));
        assert!(!doubt.is_due(at(10_000)), "twice is enough");
    }

    #[test]
    fn the_kernel_is_asked_a_fifth_of_the_time_at_most_and_rests_when_it_did_not_answer() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut doubt = Resync::new(start);
        doubt.settle(at(0), at(1_000));
        doubt.request();
        assert!(!doubt.is_due(at(4_999)) && doubt.is_due(at(5_000)));
        doubt.postpone(at(5_000));
        assert!(!doubt.is_due(at(5_999)) && doubt.is_due(at(6_000)));
    }
}
