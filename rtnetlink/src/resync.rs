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
    is_needed: bool,
    /// The earliest time of the next request.
    earliest: Instant,
    /// The time of a second request, which is made regardless of what happens before.
    second: Option<Instant>,
}

impl Resync {
    /// Makes the initial state, in which nothing is known.
    pub(crate) fn new(now: Instant) -> Resync {
        Resync { is_needed: true, earliest: now, second: None }
    }

    /// Records a change that no event reports.
    pub(crate) fn request(&mut self) {
        self.is_needed = true;
    }

    /// Records a coming change that no event will report. The kernel reports links and addresses as gone before it
    /// removes their routes. Since Linux 6.9 nothing prevents a dump in between.
    pub(crate) fn request_twice(&mut self, now: Instant) {
        self.is_needed = true;
        self.second = Some(now + SETTLING);
    }

    /// Returns true if the whole state is to be asked for now.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.is_needed |= self.second.take_if(|at| *at <= now).is_some();
        self.is_needed && now >= self.earliest
    }

    /// Records that the requests sent since `begun` were answered.
    pub(crate) fn settle(&mut self, begun: Instant, now: Instant) {
        self.is_needed = false;
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
    fn a_dump_follows_a_link_that_went_down_at_once_and_again_when_the_kernel_is_done() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut resync = Resync::new(start);
        assert!(resync.is_due(at(0)));
        resync.settle(at(0), at(1));
        assert!(!resync.is_due(at(10)));
        resync.request_twice(at(10));
        assert!(resync.is_due(at(10)));
        resync.settle(at(10), at(11));
        assert!(!resync.is_due(at(109)) && resync.is_due(at(110)));
        resync.settle(at(110), at(111));
        assert!(!resync.is_due(at(10_000)), "twice is enough");
    }

    #[test]
    fn resyncs_take_a_fifth_of_the_time_at_most_and_pause_after_a_request_without_an_answer() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut resync = Resync::new(start);
        resync.settle(at(0), at(1_000));
        resync.request();
        assert!(!resync.is_due(at(4_999)) && resync.is_due(at(5_000)));
        resync.postpone(at(5_000));
        assert!(!resync.is_due(at(5_999)) && resync.is_due(at(6_000)));
    }
}
