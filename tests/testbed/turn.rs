//! How many testbeds there are at one time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Two: each has as many busy threads as a small machine has cores, and half of its time waits for programs to start and to end.
const AT_ONCE: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN: Condvar = Condvar::new();

/// The right to have a testbed, until it is dropped.
pub struct Turn(());

impl Turn {
    /// Waits for one.
    pub fn wait() -> Turn {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = GIVEN.wait_while(taken, |taken| *taken == AT_ONCE);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Turn(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GIVEN.notify_one();
    }
}
