//! A thread that frees frames in addition to the workers, and stands still while frames are counted.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

/// The states: it moves frames, it is asked to stand still, it stands still.
const MOVES: u32 = 0;
const ASKED: u32 = 1;
const STANDS: u32 = 2;

/// The maximum time that it stands still.
const AT_MOST: Duration = Duration::from_millis(500);
/// The interval at which each side checks the other.
const TICK: Duration = Duration::from_micros(100);

/// The state of such a thread.
#[derive(Debug, Default)]
pub struct Standing(AtomicU32);

impl Standing {
    /// Asks it to stand still, and waits. Returns true if it does.
    pub fn ask(&self, until: Instant) -> bool {
        self.0.store(ASKED, Relaxed);
        // Acquire: pairs with the Release in `stand`; what it did before is seen.
        while self.0.load(Acquire) != STANDS {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(TICK);
        }
        true
    }

    /// Lets it go on. Returns true if it has stood still until now. If so, everything read before was read while it
    /// stood still.
    pub fn go_on(&self) -> bool {
        // AcqRel: what was read stays before it, and pairs with the Release in `stand` where it has gone on by itself.
        self.0.swap(MOVES, AcqRel) == STANDS
    }

    /// Stands still if asked to. The thread calls this between two turns.
    ///
    /// # Cost
    /// A load if it is not asked.
    pub fn stand(&self) {
        // Release: pairs with the Acquire in `ask`.
        if self.0.load(Relaxed) != ASKED || self.0.compare_exchange(ASKED, STANDS, Release, Relaxed).is_err()
        {
            return;
        }
        let since = Instant::now();
        // Acquire: pairs with the Release of `go_on`: what follows comes after what was read.
        while self.0.load(Acquire) == STANDS && since.elapsed() < AT_MOST {
            thread::sleep(TICK);
        }
        // A compare-and-swap: a later request is not lost, but has to be made again.
        let _ = self.0.compare_exchange(STANDS, MOVES, AcqRel, Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_thread_that_was_stopped_moves_no_frame_and_goes_on_afterwards() {
        let (standing, moved) = (Standing::default(), AtomicU64::new(0));
        let until = || Instant::now() + Duration::from_secs(60);
        thread::scope(|scope| {
            scope.spawn(|| {
                while moved.load(Relaxed) < u64::MAX / 2 {
                    standing.stand();
                    let _ = moved.fetch_update(Relaxed, Relaxed, |n| (n < u64::MAX / 2).then_some(n + 1));
                }
            });
            for _ in 0..20 {
                assert!(standing.ask(until()));
                let before = moved.load(Relaxed);
                thread::sleep(TICK);
                let after = moved.load(Relaxed);
                // If this thread was late for half a second, the other has gone on and reports it.
                assert!(!standing.go_on() || before == after);
                while moved.load(Relaxed) == after {
                    thread::yield_now();
                }
            }
            moved.store(u64::MAX / 2, Relaxed);
        });
    }

    #[test]
    fn a_thread_that_does_not_stop_is_not_waited_for_forever() {
        let standing = Standing::default();
        assert!(!standing.ask(Instant::now() + 2 * TICK));
        assert!(!standing.go_on());
        standing.stand();
    }
}
