//! The figures of the detached freelist patch: cycles for one allocation and one free, by bulk.

use super::BULKS;
use crate::json::Published;

/// One call for each object, in the loop that the kernel falls back to.
const FALLBACK: [f64; 14] =
    [62.0, 55.0, 53.0, 52.0, 50.0, 49.0, 49.0, 50.0, 96.0, 83.0, 74.0, 90.0, 99.0, 104.0];

/// Bulk calls with detached freelists, caches not merged.
const DETACHED: [f64; 14] =
    [49.0, 30.0, 23.0, 20.0, 18.0, 17.0, 18.0, 18.0, 23.0, 21.0, 20.0, 27.0, 30.0, 37.0];

/// The same, with caches of equal size merged.
const MERGED: [(usize, f64); 4] = [(64, 48.0), (128, 57.0), (158, 59.0), (250, 56.0)];

const MACHINE: &str = "[brouer15-freelist], an i7-4790K at 4 GHz, 256-byte objects, allocation and free";

/// One object by the kernel's fast path, without a bulk.
pub(super) fn single() -> Published {
    published(47.0, "one object, kmem_cache_alloc and kmem_cache_free on the fast path")
}

/// The loop's figure for `bulk`.
pub(super) fn fallback(bulk: usize) -> Option<Published> {
    by_bulk(&FALLBACK, bulk, "the fallback loop")
}

/// The patch's figure for `bulk`.
pub(super) fn detached(bulk: usize) -> Option<Published> {
    by_bulk(&DETACHED, bulk, "bulk calls with detached freelists")
}

/// The patch's figure for `bulk` in merged caches.
pub(super) fn merged(bulk: usize) -> Option<Published> {
    let (_, cycles) = MERGED.into_iter().find(|&(of, _)| of == bulk)?;
    Some(published(cycles, "bulk calls with detached freelists, caches merged"))
}

fn by_bulk(column: &[f64; 14], bulk: usize, what: &str) -> Option<Published> {
    let place = BULKS.iter().position(|&of| of == bulk)?;
    Some(published(column[place], what))
}

fn published(cycles: f64, what: &str) -> Published {
    Published { value: cycles, unit: "cycles".to_owned(), of: format!("{MACHINE}, {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_begin_and_end_as_in_the_mail() {
        let pair = |bulk| (fallback(bulk).unwrap().value, detached(bulk).unwrap().value);
        assert_eq!((pair(1), pair(34), pair(250)), ((62.0, 49.0), (96.0, 23.0), (104.0, 37.0)));
        assert_eq!((merged(158).unwrap().value, merged(1)), (59.0, None));
        assert_eq!(detached(5), None);
    }
}
