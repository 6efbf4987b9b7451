//! HOT: a lock that knows which thread holds it.
//!
//! A signal handler can interrupt the call that holds a lock, and make calls itself, also by exit(3). If it then waited
//! for the lock, it would never return. So the lock is one word, which holds the number of the thread that has it. One
//! instruction takes the lock and records the thread, and a thread that has it already is refused. With a mutex and a
//! second word for its thread, a signal could come between the two.
//!
//! # Soundness
//! Unsafe code: access to what the lock protects. It is followed only by a [`Held`], which exists from the exchange of
//! [`NOBODY`] for the number of its thread until the store of [`NOBODY`]. Only one thread's exchange succeeds between two
//! such stores, and a thread that finds its own number gets no second `Held`. A `Held` stays on its thread.

use crate::thread;
use std::cell::UnsafeCell;
use std::hint;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// The holder of a lock that no thread has.
const NOBODY: usize = 0;
/// Looks of a waiting thread before it lets other threads run, and before it sleeps: the holder may have a lower priority.
const LOOKS: u32 = 128;
const NAPS: u32 = 256;
const NAP: Duration = Duration::from_micros(50);

/// The lock, and what it protects.
#[derive(Debug)]
pub struct Lock<T> {
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value (see the module), and the value may move from thread to thread.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock is held. Drop gives it back.
#[derive(Debug)]
pub struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// The thread that took the lock gives it back.
    _stays: PhantomData<*const ()>,
}

impl<T> Lock<T> {
    /// Makes a lock that no thread holds.
    pub const fn new(value: T) -> Lock<T> {
        Lock { holder: AtomicUsize::new(NOBODY), value: UnsafeCell::new(value) }
    }

    /// Takes the lock, and waits while another thread has it. Returns None if this thread has it: a signal handler asks.
    #[inline]
    pub fn lock(&self) -> Option<Held<'_, T>> {
        let here = thread::here();
        // Acquire pairs with the Release of the Drop of the Held before.
        match self.holder.compare_exchange(NOBODY, here, Acquire, Relaxed) {
            Err(holder) if holder == here => return None,
            Err(_) => self.wait(here),
            Ok(_) => (),
        }
        Some(Held { lock: self, _stays: PhantomData })
    }

    /// Takes the lock when the thread that has it gives it back.
    #[cold]
    #[inline(never)]
    fn wait(&self, here: usize) {
        let mut looks = 0;
        // Acquire pairs with the Release of the Drop of the Held before.
        while self.holder.load(Relaxed) != NOBODY
            || self.holder.compare_exchange(NOBODY, here, Acquire, Relaxed).is_err()
        {
            match looks {
                0..LOOKS => hint::spin_loop(),
                LOOKS..NAPS => yield_now(),
                _ => sleep(NAP),
            }
            looks = NAPS.min(looks + 1);
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock, and no other Held exists (see the module).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and no other Held exists (see the module).
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Pairs with the Acquire of the next thread that takes the lock.
        self.lock.holder.store(NOBODY, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    static COUNT: Lock<u64> = Lock::new(0);

    #[test]
    fn threads_that_wait_for_the_lock_lose_no_change() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *COUNT.lock().unwrap() += 1));
            }
        });
        assert_eq!(*COUNT.lock().unwrap(), 80_000);
    }

    #[test]
    fn the_thread_that_has_the_lock_is_refused_and_another_one_waits() {
        let lock = Lock::new(1);
        let mut held = lock.lock().unwrap();
        assert!(lock.lock().is_none());
        thread::scope(|scope| {
            let other = scope.spawn(|| *lock.lock().unwrap());
            *held = 2;
            drop(held);
            assert_eq!(other.join().unwrap(), 2);
        });
        assert!(lock.lock().is_some());
    }
}
