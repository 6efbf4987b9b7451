//! All IPv6 routes, asked for while they change.
//!
//! The kernel tells its tree in pieces. If the tree has changed between two of them, it begins at the root again and passes
//! over as many nodes as it had told (`fib6_dump_table` of Linux). For each node that went meanwhile it passes over one that
//! it had not told. Such a route never changed, so no event says that it is there, and the answer has no NLM_F_DUMP_INTR.
//! Only removals do that: where none is heard from before a dump until after it, the dump is whole.

use crate::socket::{Answer, TRIES};
use std::time::{Duration, Instant};

/// No further dump begins after so long: nobody is asked for neighbours meanwhile.
const AT_LENGTH: Duration = Duration::from_secs(1);

/// Asks by `dump` until one is whole, a few times: `is_quiet` reads the events, and says whether none since its last call
/// may have removed an IPv6 route. Where none is whole the answer is `interrupted`, and has what all of them told, the last one first.
pub(crate) fn ask<E>(
    mut dump: impl FnMut() -> Result<Answer, E>,
    mut is_quiet: impl FnMut() -> Result<bool, E>,
) -> Result<Answer, E> {
    let (mut told, begun) = (Answer::default(), Instant::now());
    // What was removed before a dump is not in the tree.
    is_quiet()?;
    for _ in 0..=TRIES {
        let mut answer = dump()?;
        answer.unread += told.unread;
        answer.forged += told.forged;
        answer.interrupted |= !is_quiet()?;
        if answer.interrupted {
            answer.said.append(&mut told.said);
        }
        told = answer;
        if !told.interrupted || begun.elapsed() > AT_LENGTH {
            break;
        }
    }
    Ok(told)
}
