//! The primitives that every later stage uses. Loom can replace them (`--cfg loom`).
//!
//! For ThreadSanitizer (`--cfg tsan`) there is a lock that it can see through. It does not know the locks of the
//! standard library, which is built without it.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(tsan)]
pub(crate) use spin::mutex::{Mutex, MutexGuard};
#[cfg(not(any(loom, tsan)))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence},
    thread::yield_now,
};

/// Sleeps for a moment, after many yields in vain. The thread that is waited for may have a lower priority: under
/// SCHED_FIFO (sched(7)) it never runs beside a thread that only yields.
#[cold]
pub(crate) fn sleep_briefly() {
    #[cfg(not(loom))]
    std::thread::sleep(std::time::Duration::from_micros(50));
}

/// Yields in a loop that waits for another thread. From the 10,000th time on it sleeps as well.
#[cold]
pub(crate) fn yield_again(times: &mut u32) {
    *times = times.saturating_add(1);
    if *times > 10_000 {
        sleep_briefly();
    }
    yield_now();
}

/// Locks a mutex whose data stays whole when a holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(tsan)]
    return mutex.lock();
    #[cfg(not(tsan))]
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A cell that is reached through raw pointers. Loom requires this form to watch every access.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(
    #[cfg(loom)] loom::cell::UnsafeCell<T>,
    #[cfg(not(loom))] std::cell::UnsafeCell<T>,
);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(loom)]
        return UnsafeCell(loom::cell::UnsafeCell::new(value));
        #[cfg(not(loom))]
        return UnsafeCell(std::cell::UnsafeCell::new(value));
    }

    /// Runs `f` with the pointer. Loom reports any access that is not exclusive during this call.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with_mut(f);
        #[cfg(not(loom))]
        return f(self.0.get());
    }
}
