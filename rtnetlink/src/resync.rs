//! When everything is asked for again.

use std::time::{Duration, Instant};

/// Resync back-off: after a full dump the next one waits at least this many times as long as the dump took.
const REST: u32 = 4;
/// How long the kernel is left alone after it did not answer.
const RETRY: Duration = Duration::from_secs(1);
/// How long the kernel may take to do what it has announced.
const SETTLING: Duration = Duration::from_millis(100);

/// Whether everything has to be asked for again, and from when on it may be.
#[derive(Debug)]
pub(crate) struct Resync {
    /// Events do not say all.
    unsure: bool,
    /// Not before.
    earliest: Instant,
    /// Then once more, whatever happens until then.
    once_more: Option<Instant>,
}

impl Resync {
    /// Nothing is known yet.
    pub(crate) fn new(now: Instant) -> Resync {
        Resync { unsure: true, earliest: now, once_more: None }
    }

    /// Something has changed that no event says.
    pub(crate) fn request(&mut self) {
        self.unsure = true;
    }

    /// Something is about to change that no event will say: links and addresses are said to be gone before the routes that
    /// go with them are, and since Linux 6.9 nothing keeps who asks from looking in between.
    pub(crate) fn request_twice(&mut self, now: Instant) {
        self.unsure = true;
        self.once_more = Some(now + SETTLING);
    }

    /// Whether all is to be asked for now.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.unsure |= self.once_more.take_if(|at| *at <= now).is_some();
        self.unsure && now >= self.earliest
    }

    /// All was asked for since `begun`, and told.
    pub(crate) fn settle(&mut self, begun: Instant, now: Instant) {
        self.unsure = false;
        self.earliest = now + now.duration_since(begun) * REST;
    }

    /// The kernel did not answer.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.earliest = now + RETRY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen on paper: a link is said to be down, all is asked for at once, and told with routes that are gone a moment later.
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
