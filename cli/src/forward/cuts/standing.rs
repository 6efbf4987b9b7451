//! A thread beside the workers that frees frames, and stands still while they are counted.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

/// It moves frames; it is to stand; it stands.
const MOVES: u32 = 0;
const ASKED: u32 = 1;
const STANDS: u32 = 2;

/// How long it stands at most.
const AT_MOST: Duration = Duration::from_millis(500);
/// How often each looks what the other does.
const TICK: Duration = Duration::from_micros(100);

/// Whether it stands.
#[derive(Debug, Default)]
pub struct Standing(AtomicU32);

impl Standing {
    /// Asks it to stand still, and waits; whether it does.
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

    /// It may go on; whether it has stood until now. What was read before was read while it stood.
    pub fn go_on(&self) -> bool {
        // AcqRel: what was read stays before it, and pairs with the Release in `stand` where it has gone on by itself.
        self.0.swap(MOVES, AcqRel) == STANDS
    }

    /// Stands still if asked to; called by the thread between two turns.
    ///
    /// # Cost
    /// A load where nobody asks.
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
        // A swap: who asks later is not forgotten, but has to ask again.
        let _ = self.0.compare_exchange(STANDS, MOVES, AcqRel, Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nothing_moves_while_it_stands_and_it_goes_on_afterwards() {
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
                // Where this thread was late for half a second, it has gone on and says so.
                assert!(!standing.go_on() || before == after);
                while moved.load(Relaxed) == after {
                    thread::yield_now();
                }
            }
            moved.store(u64::MAX / 2, Relaxed);
        });
    }

    #[test]
    fn who_does_not_stand_is_not_waited_for_for_ever() {
        let standing = Standing::default();
        assert!(!standing.ask(Instant::now() + 2 * TICK));
        assert!(!standing.go_on());
        standing.stand();
    }
}
