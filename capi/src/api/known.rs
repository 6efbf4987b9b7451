//! What a worker knows by words: caches, heads, ready pools.

use crate::misuse::{self, Kind};
use crate::opened::{Known, Opened, Unknown};
use crate::sites::Site;

/// The one of this word, as a worker of `memory` finds it.
///
/// # Errors
/// The negative errno that the call returns: it was closed, or it belongs to another memory.
#[inline(always)]
pub fn look_up<'a, T: Clone>(
    opened: &Opened<T>,
    known: &'a mut Known<T>,
    memory: u64,
    (word, call, site): (u64, &str, Site),
) -> Result<&'a T, i32> {
    opened.find(known, memory, word).map_err(|why| {
        let kind = match why {
            Unknown::Closed => Kind::Closed,
            Unknown::OtherMemory => Kind::WrongMemory,
        };
        misuse::refused(kind, call, opened.what, word, site)
    })
}
