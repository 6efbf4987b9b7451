//! What netmem is measured beside, in the same process and the same rounds: general allocators, queues, and [`dpdk`].
//!
//! The timed loops of the allocators are C (`shim/rivals.c`) and call the allocator directly, so that no single
//! operation crosses the border between two languages. They are built in with the feature `rivals`; without it,
//! [`note_missing`] says so in the report. tcmalloc, which is gperftools', would take the place of the process's `malloc` if it were linked;
//! it is opened by its name instead, where it is installed.

#[cfg(not(feature = "rivals"))]
mod absent;
pub mod dpdk;
#[allow(unsafe_code)]
pub mod libnetmem;
#[allow(unsafe_code)]
pub mod mempool_ops;
#[cfg(feature = "rivals")]
#[allow(unsafe_code)]
mod shim;

#[cfg(not(feature = "rivals"))]
use absent as built;
#[cfg(feature = "rivals")]
use shim as built;

pub use built::{Held, Receiving, Sending};

use std::sync::OnceLock;

use crate::bench::Bench;

/// One general allocator, through its `malloc(bytes)` and `free`: blocks are aligned as it aligns them.
#[derive(Debug)]
pub struct Rival {
    /// Its name in a report.
    pub name: &'static str,
    /// Its version, as it gives it.
    pub version: String,
    loops: built::Loops,
}

impl Rival {
    /// One block of `bytes`, at least 8, out and back, `ops` times; with `touch` the first 64 bytes are written.
    /// Returns how often there was no memory.
    #[inline]
    pub fn single(&self, bytes: usize, touch: bool, ops: u32) -> u64 {
        self.loops.single(bytes, touch, ops)
    }

    /// As many blocks as `held` has places are out before the first goes back, oldest first, until `ops` blocks
    /// went round. Returns for how many there was no memory.
    #[inline]
    pub fn bulk(&self, held: &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
        self.loops.bulk(held, bytes, touch, ops)
    }

    /// The two ends of one of netmem's rings of `slots`, through which blocks of `bytes` pass that are allocated at one
    /// end and freed at the other; with `touch` the first 64 bytes of each are written at the one and the first 8 read
    /// at the other.
    pub fn ring(&self, slots: usize, bytes: usize, touch: bool) -> (Sending, Receiving) {
        self.loops.ring(slots, bytes, touch)
    }
}

/// An allocator that could stand in the report and does not.
#[derive(Debug)]
struct Missing {
    name: &'static str,
    /// How to get it.
    remedy: String,
}

/// What there is to be measured beside.
#[derive(Debug, Default)]
struct Found {
    there: Vec<Rival>,
    missing: Vec<Missing>,
}

fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(built::find)
}

/// The allocators that are there.
pub fn all() -> &'static [Rival] {
    &found().there
}

/// What `keep_memory` of `shim/rivals.c` does.
const KEPT: &str = "; on the heap up to 32 MiB and without giving memory back to the system \
    (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), as a process that has lived for some time";

/// Whose tcmalloc it is.
const GPERFTOOLS: &str = "; it is gperftools', as Debian's libtcmalloc_minimal has it, and not the later TCMalloc with a \
    cache for each CPU";

/// Tells the reader which allocators stand in the report, with their versions, or how to get those that do not.
pub fn note_missing(bench: &mut Bench<'_>) {
    for Rival { name, version, .. } in all() {
        let more = match *name {
            "glibc" => KEPT,
            "tcmalloc" => GPERFTOOLS,
            _ => "",
        };
        bench.note(format!("{name} {version}: malloc and free, its whole loop in C{more}"));
    }
    for Missing { name, remedy } in &found().missing {
        bench.note(format!("rival {name}: {remedy}"));
    }
}

/// Tells the reader which queues rings are measured beside, with their versions, or how to get them.
pub fn note_queues(bench: &mut Bench<'_>) {
    #[cfg(feature = "rivals")]
    {
        bench.note(concat!("rtrb ", env!("RTRB_VERSION"), ": one sender, one receiver, slices of numbers"));
        bench.note(concat!(
            "crossbeam ",
            env!("CROSSBEAM_VERSION"),
            ": ArrayQueue, many senders and receivers; it has no bursts, so that each item is a call"
        ));
    }
    #[cfg(not(feature = "rivals"))]
    for name in ["rtrb", "crossbeam"] {
        bench.note(format!("rival {name}: {NOT_BUILT_IN}"));
    }
}

/// Every allocator that may be built in.
pub const ALLOCATORS: [&str; 5] = ["glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc"];

/// How to get what was left out when this was built.
#[cfg(not(feature = "rivals"))]
pub const NOT_BUILT_IN: &str = "not built in: cargo build --release --features rivals";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn every_rival_is_a_row_or_a_note_with_its_name() {
        let notes = report_of(false, note_missing).notes;
        for name in ALLOCATORS {
            let of = |note: &&String| {
                note.starts_with(&format!("{name} ")) || note.contains(&format!(" {name}: "))
            };
            assert_eq!(notes.iter().filter(of).count(), 1, "{name}: {notes:?}");
        }
        let absent =
            notes.iter().filter(|note| note.contains("--features rivals") || note.contains("apt-get"));
        assert_eq!(absent.count() + all().len(), ALLOCATORS.len(), "{notes:?}");
    }

    #[test]
    fn every_queue_has_its_version_or_its_remedy() {
        let notes = report_of(false, note_queues).notes;
        for name in ["rtrb", "crossbeam"] {
            let note = notes.iter().find(|note| note.contains(name)).expect("a note");
            let version = note
                .strip_prefix(name)
                .is_some_and(|rest| rest[1..].starts_with(|c: char| c.is_ascii_digit()));
            assert!(version || note.starts_with(&format!("rival {name}: not built in")), "{note}");
            assert_eq!(version, cfg!(feature = "rivals"), "{note}");
        }
    }
}
