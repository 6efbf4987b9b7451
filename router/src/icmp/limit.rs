//! How many errors a worker sends: a token bucket (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a token is made of: one fills in so many nanoseconds at a rate of one a second.
const TOKEN: u64 = 1_000_000_000;

/// How many errors a worker may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpLimit {
    /// Errors a second in the long run; 0 sends none at all.
    pub rate: u32,
    /// Errors at once, from 1, after a time in which there were none.
    pub burst: u32,
}

impl Default for IcmpLimit {
    /// A thousand a second, fifty at once: what a Linux host allows itself.
    fn default() -> IcmpLimit {
        IcmpLimit { rate: 1000, burst: 50 }
    }
}

#[derive(Debug)]
struct Shared {
    rate: AtomicU32,
    burst: AtomicU32,
}

/// A worker's [`IcmpLimit`], to be read and changed from any thread while it works.
#[derive(Debug, Clone)]
pub struct IcmpControl(Arc<Shared>);

impl IcmpControl {
    fn new(IcmpLimit { rate, burst }: IcmpLimit) -> IcmpControl {
        IcmpControl(Arc::new(Shared { rate: AtomicU32::new(rate), burst: AtomicU32::new(burst) }))
    }

    /// What it is.
    pub fn get(&self) -> IcmpLimit {
        IcmpLimit { rate: self.0.rate.load(Relaxed), burst: self.0.burst.load(Relaxed) }
    }

    /// Changes it; a burst of 0 counts as 1.
    pub fn set(&self, IcmpLimit { rate, burst }: IcmpLimit) {
        self.0.rate.store(rate, Relaxed);
        self.0.burst.store(burst.max(1), Relaxed);
    }
}

/// One worker's bucket.
///
/// Invariant: `level` is at most the burst that was in force when it was last looked at, in tokens.
#[derive(Debug)]
pub(crate) struct Limiter {
    control: IcmpControl,
    level: u64,
    /// When `level` was right, by the monotonic clock; None before the first error.
    seen: Option<u64>,
}

impl Limiter {
    /// A full bucket.
    pub(crate) fn new(limit: IcmpLimit) -> Limiter {
        Limiter { control: IcmpControl::new(limit), level: 0, seen: None }
    }

    pub(crate) fn control(&self) -> IcmpControl {
        self.control.clone()
    }

    /// Takes a token at the time `now` (nanoseconds of the monotonic clock); false if there is none.
    pub(crate) fn take(&mut self, now: u64) -> bool {
        let IcmpLimit { rate, burst } = self.control.get();
        let most = u64::from(burst) * TOKEN;
        self.level = match self.seen {
            None => most,
            Some(seen) => {
                let gained = now.saturating_sub(seen).saturating_mul(rate.into());
                self.level.saturating_add(gained).min(most)
            }
        };
        self.seen = Some(now);
        let has = rate > 0 && self.level >= TOKEN;
        self.level -= if has { TOKEN } else { 0 };
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `wanted` there are at a time.
    fn taken(limiter: &mut Limiter, wanted: usize, now: u64) -> usize {
        (0..wanted).filter(|_| limiter.take(now)).count()
    }

    #[test]
    fn a_burst_is_followed_by_the_rate_and_no_more_is_saved_than_a_burst() {
        let mut limiter = Limiter::new(IcmpLimit { rate: 10, burst: 5 });
        let second = TOKEN;
        assert_eq!(taken(&mut limiter, 9, 7 * second), 5);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 10 - 1), 0);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 10), 1);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 2), 4);
        assert_eq!(taken(&mut limiter, 9, 1_000_000 * second), 5);
    }

    #[test]
    fn a_rate_of_0_sends_none_and_a_change_counts_at_once() {
        let mut limiter = Limiter::new(IcmpLimit { rate: 0, burst: 5 });
        let control = limiter.control();
        assert_eq!(taken(&mut limiter, 9, TOKEN), 0);
        control.set(IcmpLimit { rate: 1, burst: 3 });
        assert_eq!(taken(&mut limiter, 9, TOKEN), 3, "what was saved is cut to the new burst");
        control.set(IcmpLimit { rate: u32::MAX, burst: 0 });
        assert_eq!(control.get().burst, 1);
        assert_eq!(taken(&mut limiter, 9, u64::MAX), 1, "and nothing overflows");
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut limiter = Limiter::new(IcmpLimit { rate: 1, burst: 1 });
        assert_eq!([9, 8, 7].map(|now| limiter.take(now * TOKEN)), [true, false, false]);
    }
}
