//! The end of a pool, awaited.

use netmem::Pool;
use std::time::Duration;

/// How long after a look the next one is, at first and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Closes the pool, so that it gives out no frame any more, and waits until all its frames are home. Where frames may be kept for ever,
/// it is bounded by `tokio::time::timeout`; [`Pool::wait`] says then who has them.
///
/// # Cancelling
/// The pool stays closed.
pub async fn closed(pool: &Pool) {
    pool.close();
    let mut pause = SHORTEST;
    while pool.wait(Duration::ZERO).is_err() {
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST);
    }
}
