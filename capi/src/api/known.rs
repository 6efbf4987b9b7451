//! Looks up caches, heads, ready pools and lanes by handle, for a worker.

use crate::misuse::{self, Kind};
use crate::opened::{Known, Opened, Unknown};
use crate::sites::Site;

/// Returns the thing of this handle, from the worker's table of known things or, if it is not there yet, from
/// the table of all open ones.
///
/// # Errors
/// The negative errno for the call: the thing was closed, or it belongs to another memory.
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
