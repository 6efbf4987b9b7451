//! Dumps all IPv6 routes while they change.
//!
//! The kernel dumps its tree in pieces. If the tree has changed between two pieces, the kernel begins at the root
//! again and skips as many nodes as it has dumped (`fib6_dump_table` of Linux). For each node that was removed in
//! that time, it skips one that it has not dumped. Such a route never changed, so no event reports it, and the
//! answer has no NLM_F_DUMP_INTR. Only removals cause this. A dump is whole if no removal is received from before
//! the dump until after it.

use crate::socket::{DumpReply, TRIES};
use std::time::{Duration, Instant};

/// No further dump begins after this time, because neighbours are not asked for during dumps.
const AT_LENGTH: Duration = Duration::from_secs(1);

/// Calls `dump` until an answer is whole, a few times at most. `is_quiet` reads the events, and returns true if
/// none since its last call may have removed an IPv6 route. If no dump is whole, the answer is marked `interrupted`
/// and holds all dumps, the last one first.
pub(crate) fn dump_until_whole<E>(
    mut dump: impl FnMut() -> Result<DumpReply, E>,
    mut is_quiet: impl FnMut() -> Result<bool, E>,
) -> Result<DumpReply, E> {
    let (mut all, begun) = (DumpReply::default(), Instant::now());
    // A route that was removed before a dump is not in the tree.
    is_quiet()?;
    for _ in 0..=TRIES {
        let mut reply = dump()?;
        reply.unread += all.unread;
        reply.forged += all.forged;
        reply.interrupted |= !is_quiet()?;
        if reply.interrupted {
            reply.events.append(&mut all.events);
        }
        all = reply;
        if !all.interrupted || begun.elapsed() > AT_LENGTH {
            break;
        }
    }
    Ok(all)
}
