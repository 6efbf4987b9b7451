//! A doorbell wakes a sleeping thread. Ringing it costs next to nothing while that thread is awake.
//!
//! The doorbell is asymmetric, as the [slot](super::slot) is. A thread first writes its work where the sleeper looks,
//! then rings with a plain load. The sleeper comes here only when it has nothing to do. It makes every core pass a
//! barrier (membarrier(2)) before it looks for the last time.
//!
//! ```text
//!   a thread that rings                   the sleeper
//!   writes work where it looks            asleep = 1                                  arm
//!   (compiler fence)        ◄─ pairs ─►   membarrier: a full fence on every core
//!   asleep == 0 ? go on                   something there ? asleep = 0, work          disarm
//!               : asleep = 0, raise                       : poll(2), then the same
//! ```
//! Each side stores before it loads, and at least one side sees the other side's store. So either the sleeper finds the
//! work, or the ringing thread raises the event that the sleeper waits for. No wake-up is lost. If many threads ring,
//! one of them raises the event. Without membarrier(2) `FENCED` stays set, and the ringing thread runs a real fence:
//! this is slower and still correct. Loom checks that path.

use super::shim::{AtomicU32, fence, yield_now};
use crate::sys::event::Event;
use crate::sys::membarrier;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

/// The sleeper sleeps, or is about to sleep.
const ASLEEP: u32 = 1;
/// The caller of `ring` has to fence, because membarrier(2) is not available.
const FENCED: u32 = 2;

/// Wakes one sleeping thread; any number of threads may ring.
///
/// # Example
/// A worker sleeps until another thread has work for it. The worker arms the bell, looks once more, and waits for the
/// descriptor with poll(2).
/// ```
/// use netmem::sync::Doorbell;
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
/// use std::sync::mpsc::channel;
/// use std::sync::Arc;
///
/// let bell = Arc::new(Doorbell::new()?);
/// let (work, todo) = channel();
/// let ringing = Arc::clone(&bell);
/// let other = std::thread::spawn(move || {
///     work.send(7).unwrap();
///     ringing.ring();
/// });
/// let limit = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// let found = loop {
///     bell.arm();
///     if let Ok(found) = todo.try_recv() {
///         break found;
///     }
///     poll(&mut [PollFd::new(&*bell, PollFlags::IN)], Some(&limit))?;
///     bell.disarm();
/// };
/// bell.disarm();
/// assert_eq!(found, 7);
/// # other.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Doorbell {
    /// 0 while the sleeper is awake and ringing needs no event.
    state: AtomicU32,
    event: Event,
}

impl Doorbell {
    /// Makes a doorbell whose sleeper is awake.
    ///
    /// # Errors
    /// The error of eventfd(2).
    #[cold]
    pub fn new() -> io::Result<Doorbell> {
        let fenced = cfg!(loom) || !membarrier::available();
        Ok(Doorbell { state: AtomicU32::new(if fenced { FENCED } else { 0 }), event: Event::new()? })
    }

    /// Wakes the sleeper if it sleeps. The caller writes the work before this call. Returns true if this call woke the
    /// sleeper.
    ///
    /// # Cost
    /// While the sleeper is awake: one load of a line that no thread writes. Otherwise: one locked instruction, and one
    /// write(2) for each sleep.
    #[inline(always)]
    pub fn ring(&self) -> bool {
        // Keeps the caller's stores before the load in program order. The sleeper's membarrier does the rest.
        compiler_fence(SeqCst);
        self.state.load(Relaxed) != 0 && self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        if self.state.load(Relaxed) & FENCED != 0 {
            // SeqCst fence: pairs with the sleeper's in `arm`. At least one side sees the other side's store.
            fence(SeqCst);
        }
        if self.state.load(Relaxed) & ASLEEP == 0 {
            return false;
        }
        // Relaxed: the flag only decides which thread raises the event. The ring that carries the work orders the work
        // itself.
        let woken = self.state.fetch_and(!ASLEEP, Relaxed) & ASLEEP != 0;
        if woken {
            self.event.raise();
        }
        woken
    }

    /// Announces that the sleeper is about to sleep. After this call the sleeper looks once more at everything that it
    /// waits for. It sleeps on this descriptor only if it finds nothing.
    ///
    /// # Cost
    /// A membarrier(2): microseconds.
    #[cold]
    pub fn arm(&self) {
        self.state.fetch_or(ASLEEP, Relaxed);
        if cfg!(loom) || !membarrier::available() {
            // SeqCst fence: pairs with the one in `wake`.
            fence(SeqCst);
            return;
        }
        // Those who wake have no fence then. The kernel may have no memory for the barrier at the moment.
        while !membarrier::all_cores() {
            yield_now();
        }
    }

    /// Announces that the sleeper is awake again, for any reason.
    #[cold]
    pub fn disarm(&self) {
        self.state.fetch_and(!ASLEEP, Relaxed);
        // A thread that rings but has not raised the event yet wakes the next sleep in vain. This does no harm.
        self.event.clear();
    }
}

impl AsFd for Doorbell {
    /// The descriptor to sleep on. It is readable if the bell was rung since it was armed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::{model, thread};
    use crate::sys::event::sleep_until_readable;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::{Acquire, Release};
    use std::time::Duration;

    /// Items that each of two ringing threads puts there: few under loom.
    const THINGS: u32 = if cfg!(loom) { 1 } else { 20_000 };

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no ppoll")]
    fn a_sleeper_finds_what_was_put_there_or_is_woken_for_it() {
        model(|| {
            let (bell, put) = (Arc::new(Doorbell::new().unwrap()), Arc::new(AtomicU32::new(0)));
            let ringing: Vec<_> = (0..2)
                .map(|_| {
                    let (bell, put) = (Arc::clone(&bell), Arc::clone(&put));
                    thread::spawn(move || {
                        for _ in 0..THINGS {
                            put.fetch_add(1, Release);
                            bell.ring();
                        }
                    })
                })
                .collect();
            bell.arm();
            let sleeps = put.load(Acquire) == 0;
            for one in ringing {
                one.join().unwrap();
            }
            let woken = sleep_until_readable(&[bell.as_fd()], Duration::ZERO);
            assert!(!sleeps || woken, "it sleeps, and nobody woke it");
            bell.disarm();
            assert!(!sleep_until_readable(&[bell.as_fd()], Duration::ZERO));
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no ppoll")]
    #[cfg(not(loom))]
    fn one_who_sleeps_whenever_there_is_nothing_gets_everything() {
        let (bell, put) = (Doorbell::new().unwrap(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for thing in 0..THINGS {
                        put.fetch_add(1, Release);
                        bell.ring();
                        if thing.is_multiple_of(64) {
                            thread::yield_now();
                        }
                    }
                });
            }
            let mut got = 0;
            while got < 2 * THINGS {
                bell.arm();
                if put.load(Acquire) == got {
                    assert!(sleep_until_readable(&[bell.as_fd()], Duration::from_secs(600)));
                }
                bell.disarm();
                got = put.load(Acquire);
            }
        });
    }

    #[test]
    #[cfg(not(loom))]
    fn of_many_that_ring_one_wakes() {
        let bell = Doorbell::new().unwrap();
        assert!(!bell.ring(), "it is awake");
        bell.arm();
        assert!(bell.ring() && !bell.ring());
        bell.disarm();
        assert!(!bell.ring());
    }
}
