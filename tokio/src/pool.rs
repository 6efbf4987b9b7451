//! Waits for the end of a pool.

use netmem::Pool;
use std::time::Duration;

/// The first and the longest pause between two checks.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Closes the pool, so that it allocates no more frames, and waits until all its frames are free. Close the pool's ports
/// first ([`AsyncPort::close`](crate::AsyncPort::close)): an open port keeps the frames that are posted to it. A task that
/// waits in [`AsyncPort::receive`](crate::AsyncPort::receive) gets 0 then, and closes its port. If frames may be kept
/// forever, bound the call by `tokio::time::timeout`; [`Pool::close_and_wait`] then returns their holders.
///
/// # Cancelling
/// The pool stays closed.
pub async fn close_pool(pool: &Pool) {
    pool.close();
    let mut pause = SHORTEST;
    while pool.close_and_wait(Duration::ZERO).is_err() {
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST);
    }
}
