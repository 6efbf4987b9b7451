//! The comparison targets, in the same process and the same rounds: general allocators, queues, and [`dpdk`].
//!
//! The timed loops of the allocators are C (`shim/rivals.c`) and call the allocator directly, so that no single
//! operation is a call between two languages. They are built in with the feature `rivals`. Without it,
//! [`note_missing`] notes that in the report. gperftools' tcmalloc would replace the process's `malloc` if it were
//! linked. It is opened by its name instead, if it is installed.

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

/// Whether this program was built with rivals.
pub const BUILT: bool = cfg!(feature = "rivals");

/// One general allocator, used through its `malloc(bytes)` and `free`. Blocks have the allocator's alignment.
#[derive(Debug)]
pub struct Rival {
    /// Its name in a report.
    pub name: &'static str,
    /// Its version, as it reports it.
    pub version: String,
    loops: built::Loops,
}

impl Rival {
    /// Allocates and frees one block of `bytes`, at least 8, `ops` times. With `touch` the first 64 bytes are
    /// written. Returns the number of failed allocations.
    #[inline]
    pub fn single(&self, bytes: usize, touch: bool, ops: u32) -> u64 {
        self.loops.single(bytes, touch, ops)
    }

    /// Allocates as many blocks as `held` has room for before the first is freed, oldest first, until `ops` blocks
    /// were freed. Returns the number of failed allocations.
    #[inline]
    pub fn bulk(&self, held: &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
        self.loops.bulk(held, bytes, touch, ops)
    }

    /// Returns the two ends of one of netmem's rings of `slots`. Blocks of `bytes` are allocated at one end and
    /// freed at the other. With `touch` the first 64 bytes of each are written at the sending end, and the first 8
    /// are read at the receiving end.
    pub fn ring(&self, slots: usize, bytes: usize, touch: bool) -> (Sending, Receiving) {
        self.loops.ring(slots, bytes, touch)
    }
}

/// An allocator that is supported and missing from the report.
#[derive(Debug)]
struct Missing {
    name: &'static str,
    /// The way to install it.
    remedy: String,
}

/// The available comparison targets.
#[derive(Debug, Default)]
struct Found {
    there: Vec<Rival>,
    missing: Vec<Missing>,
}

fn found() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(built::find)
}

/// Returns the available allocators.
pub fn all() -> &'static [Rival] {
    &found().there
}

/// The effect of `keep_memory` of `shim/rivals.c`.
const KEPT: &str = "; on the heap up to 32 MiB and without giving memory back to the system \
    (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), as a process that has lived for some time";

/// The origin of the tcmalloc.
const GPERFTOOLS: &str = "; it is gperftools', as Debian's libtcmalloc_minimal has it, and not the later TCMalloc with a \
    cache for each CPU";

/// Notes the allocators in the report with their versions, and the way to install the missing ones.
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

/// Notes the queues that rings are compared with and their versions, or the way to install them.
pub fn note_queues(bench: &mut Bench<'_>) {
    #[cfg(feature = "rivals")]
    {
        bench.note(concat!(
            "rtrb ",
            env!("RTRB_VERSION"),
            ": one sender, one receiver; by 32 numbers are made in its slots (rtrb) or in an array and copied (rtrb/copied)"
        ));
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

/// Every supported allocator.
pub const ALLOCATORS: [&str; 5] = ["glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc"];

/// The remedy for a build without them.
#[cfg(not(feature = "rivals"))]
pub const NOT_BUILT_IN: &str = "not built in: cargo build --release --bin netmem --features rivals";

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
