//! What netmem is measured beside, in the same process and the same rounds: general allocators, and [`dpdk`].
//!
//! Their timed loops are C (`shim/rivals.c`) and call the allocator directly, so that no single operation crosses
//! the border between two languages. They are built in with the feature `rivals`; without it, [`note_missing`]
//! says so in the report.

pub mod dpdk;
#[cfg(feature = "rivals")]
#[allow(unsafe_code)]
mod shim;

use std::ffi::c_void;

use crate::bench::Bench;

/// Every rival that may be built in.
#[cfg(not(feature = "rivals"))]
const NAMES: [&str; 2] = ["glibc", "mimalloc"];

/// One general allocator, through its `malloc(bytes)` and `free`: blocks are aligned as it aligns them.
#[derive(Debug, Clone, Copy)]
pub struct Rival {
    /// Its name in a report.
    pub name: &'static str,
    version: fn() -> String,
    single: fn(bytes: usize, touch: bool, ops: u32) -> u64,
    bulk: fn(held: &mut Held, bytes: usize, touch: bool, ops: u32) -> u64,
}

impl Rival {
    /// Its version, as it gives it.
    pub fn version(&self) -> String {
        (self.version)()
    }

    /// One block of `bytes` out and back, `ops` times; with `touch` the first 64 bytes are written. Returns how
    /// often there was no memory.
    #[inline]
    pub fn single(&self, bytes: usize, touch: bool, ops: u32) -> u64 {
        (self.single)(bytes, touch, ops)
    }

    /// As many blocks as `held` has places are out before the first goes back, oldest first, until `ops` blocks
    /// went round. Returns for how many there was no memory.
    #[inline]
    pub fn bulk(&self, held: &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
        (self.bulk)(held, bytes, touch, ops)
    }
}

/// Places for the blocks that are out at the same time.
#[derive(Debug)]
pub struct Held(#[cfg_attr(not(feature = "rivals"), allow(dead_code))] Vec<*mut c_void>);

impl Held {
    /// `count` places.
    pub fn new(count: usize) -> Self {
        Self(vec![std::ptr::null_mut(); count])
    }
}

/// The rivals that are built in.
pub fn all() -> &'static [Rival] {
    #[cfg(feature = "rivals")]
    return shim::RIVALS;
    #[cfg(not(feature = "rivals"))]
    &[]
}

/// Tells the reader which rivals stand in the report, with their versions, or how to get those that do not.
pub fn note_missing(bench: &mut Bench<'_>) {
    for rival in all() {
        bench.note(format!("{} {}: malloc and free, its whole loop in C", rival.name, rival.version()));
    }
    #[cfg(not(feature = "rivals"))]
    for name in NAMES {
        bench.note(format!("rival {name} is not built in: cargo build --release --features rivals"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn every_rival_is_a_row_or_a_note_with_its_name() {
        let notes = report_of(false, note_missing).notes;
        for name in ["glibc", "mimalloc"] {
            assert!(notes.iter().any(|note| note.contains(name)), "{notes:?}");
        }
        let absent = notes.iter().filter(|note| note.contains("--features rivals")).count();
        assert_eq!(absent + all().len(), 2, "{notes:?}");
    }

    #[test]
    fn a_rival_finds_memory_for_every_block_and_counts_those_it_has_none_for() {
        for rival in all() {
            assert!(rival.version().starts_with(|digit: char| digit.is_ascii_digit()), "{}", rival.version());
            let mut held = Held::new(7);
            for touch in [false, true] {
                assert_eq!(rival.single(16, touch, 100), 0);
                assert_eq!(rival.bulk(&mut held, 4_096, touch, 100), 0);
            }
            assert!(held.0.iter().all(|block| !block.is_null()));
            assert_eq!(rival.single(1 << 62, false, 3), 3);
            assert_eq!(rival.bulk(&mut held, 1 << 62, true, 10), 10);
        }
    }
}
