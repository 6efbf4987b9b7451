//! A thread on another core that stays from one measurement to the next.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle, Thread};

/// A thread that works on its own value beside each measurement, and is parked between them. What the system and an
/// allocator keep for a thread then stays warm from round to round, as what netmem keeps for a worker does.
pub struct Peer<'scope, P> {
    ending: Ending,
    thread: ScopedJoinHandle<'scope, P>,
}

/// Requests to the thread, and its answer. Relaxed: the flags carry no data, and the thread owns the value until it is
/// joined.
#[derive(Debug, Default)]
struct Control {
    /// True while the thread shall work.
    wanted: AtomicBool,
    /// True while it works.
    active: AtomicBool,
    /// True when it shall end.
    over: AtomicBool,
}

/// Ends the thread when dropped, even after a panic: its scope waits for it.
struct Ending(Arc<Control>, Thread);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

impl Control {
    /// Parks until work is wanted. Returns false when the thread shall end.
    fn await_work(&self) -> bool {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            if self.wanted.load(Ordering::Relaxed) {
                return true;
            }
            thread::park();
        }
    }
}

impl<'scope, P: Send + 'scope> Peer<'scope, P> {
    /// Starts the thread, pinned to `core`, and parked. `turn` works on `value`.
    pub fn spawn<'env>(
        scope: &'scope Scope<'scope, 'env>,
        core: Option<usize>,
        mut value: P,
        mut turn: impl FnMut(&mut P) + Send + 'scope,
    ) -> Self {
        let control = Arc::new(Control::default());
        let its = Arc::clone(&control);
        let thread = scope.spawn(move || {
            // A peer that cannot be pinned adds noise, but no error.
            let _ = core.map(netmem::system::cpu::pin);
            while its.await_work() {
                its.active.store(true, Ordering::Relaxed);
                while its.wanted.load(Ordering::Relaxed) {
                    turn(&mut value);
                }
                its.active.store(false, Ordering::Relaxed);
            }
            value
        });
        Self { ending: Ending(control, thread.thread().clone()), thread }
    }

    /// Ends the thread, and returns its value.
    ///
    /// # Panics
    /// With the panic of the thread.
    pub fn end(self) -> P {
        let Self { ending, thread } = self;
        drop(ending);
        thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    }
}

impl<P> Peer<'_, P> {
    /// Lets the thread work while `measured` runs. `measured` begins when the thread works, and the thread rests when
    /// this returns.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn beside<R>(&self, measured: impl FnOnce() -> R) -> R {
        let Ending(control, thread) = &self.ending;
        control.wanted.store(true, Ordering::Relaxed);
        thread.unpark();
        self.wait_until_active(true);
        let resting = Resting(self);
        let result = measured();
        drop(resting);
        assert!(!self.thread.is_finished(), "the thread on the other core panicked");
        result
    }

    /// Waits until the thread works or rests. One that panicked does neither.
    fn wait_until_active(&self, active: bool) {
        while self.ending.0.active.load(Ordering::Relaxed) != active && !self.thread.is_finished() {
            thread::yield_now();
        }
    }
}

/// Lets the thread rest when dropped, even after a panic of the measurement.
struct Resting<'a, 'scope, P>(&'a Peer<'scope, P>);

impl<P> Drop for Resting<'_, '_, P> {
    fn drop(&mut self) {
        self.0.ending.0.wanted.store(false, Ordering::Relaxed);
        self.0.wait_until_active(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Seen: across cores, the sending thread was new in each round, so that general allocators began with cold lists.
    #[test]
    fn one_thread_is_the_peer_of_all_rounds_and_rests_between_them() {
        let turns = AtomicU64::new(0);
        let seen = thread::scope(|scope| {
            let peer = Peer::spawn(scope, None, Vec::new(), |seen: &mut Vec<thread::ThreadId>| {
                let id = thread::current().id();
                if !seen.contains(&id) {
                    seen.push(id);
                }
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            });
            for _ in 0..2 {
                let before = turns.load(Ordering::Relaxed);
                peer.beside(|| {
                    while turns.load(Ordering::Relaxed) < before + 3 {
                        thread::yield_now();
                    }
                });
                let at_rest = turns.load(Ordering::Relaxed);
                thread::yield_now();
                assert_eq!(turns.load(Ordering::Relaxed), at_rest);
            }
            peer.end()
        });
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn a_peer_that_panics_ends_the_measurement_and_one_whose_measurement_panics_is_ended() {
        let begun = AtomicBool::new(false);
        let run = |peer_panics: bool| {
            let scope = || {
                thread::scope(|scope| {
                    let turn = |_: &mut u8| {
                        begun.store(true, Ordering::Relaxed);
                        assert!(!peer_panics, "planted");
                    };
                    let peer = Peer::spawn(scope, None, 0, turn);
                    peer.beside(|| {
                        while !begun.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                        assert!(peer_panics, "planted");
                    });
                })
            };
            panic::catch_unwind(panic::AssertUnwindSafe(scope)).is_err()
        };
        assert!(run(true));
        begun.store(false, Ordering::Relaxed);
        assert!(run(false));
    }
}
