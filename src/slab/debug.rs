//! Debug of one cache, with the cargo feature `slab-debug`. It is chosen when the cache is made. Debug detects misuse
//! of the cache's objects and reports it with the call sites.
//!
//! A cache with debug lays its objects out like this (a cache without debug has only the objects):
//!
//! ```text
//!   ◄──────────────────────────────────── stride ─────────────────────────────────────►
//!  ┌──────────────┬──────────────────────┬───────────────┬──────┬──────┬───────┬───────┐
//!  │ left red zone│ object               │ right red zone│ link │ mark │ alloc │ free  │ next slot …
//!  │ bb / cc      │ 6b free, 5a fresh    │ bb / cc       │  8   │  8   │ site 8│ site 8│
//!  └──────────────┴──────────────────────┴───────────────┴──────┴──────┴───────┴───────┘
//!                 ▲ what the holder sees, aligned
//! ```
//! - **red zones** hold `bb` while the object is free and `cc` while it is out. A byte that differs when the object is
//!   freed was written past one of the object's ends.
//! - **poison**: a free object is full of `6b`. A byte that differs when the object is given out next was written by a
//!   former holder. A fresh object is full of `5a`, so that a read of bytes that were never written shows.
//! - **link** is the word of the freelist, mixed with a secret. It lies outside of the object, so that poison covers
//!   all of the object.
//! - **mark** says free, out, or moving, and counts the changes. A second free finds the object free, also if other
//!   frees came between, and also if it is twice in one bulk. If two threads free it at once, only one of them finds it
//!   out.
//! - **sites**: the calls that allocated and freed the object last, and their threads.
//!
//! | option | finds | bytes for each object |
//! |---|---|---|
//! | any | | 16: link and mark |
//! | `sanity` (`F`) | double free; a pointer into an object, into another cache, outside of all slabs | 0 |
//! | `red_zone` (`Z`) | writes past either end | the alignment on the left (8 at least), 8 or more on the right |
//! | `poison` (`P`) | writes after free, reads of what was never written | 0 |
//! | `store_user` (`U`) | nothing: it adds the call sites to every report | 16 |
//!
//! The sum is rounded up to the alignment: 48 bytes for all of them on a 64-byte object of alignment 8, 128 on a
//! 256-byte object of alignment 64. In time each option costs the bytes that it fills and compares: about a pass over
//! the object for each allocation and each free.
//!
//! On misuse the process prints one report and aborts, or the call fails with [`Misuse`], which is the same report as
//! data; the call changes nothing then. In some cases no call can fail: damage to a free object, found when the object
//! is given out next, and an [`Object`](super::Object) that is freed. The report is then kept for
//! [`Cache::found`](super::Cache::found), and the object is repaired.
//!
//! A cache without debug pays nothing for this. A cache with debug has sheaves without room, so that all its calls take
//! the cold path. Only the cold path checks whether there is a checker.

#[allow(unsafe_code)]
mod checker;
mod layout;
mod locate;
mod mark;
mod misuse;
mod rules;
#[allow(unsafe_code)]
mod slot;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod track;

pub use crate::page::OnMisuse;
pub(super) use checker::Checker;
pub(super) use layout::Layout;
pub(super) use locate::Locator;
pub use misuse::{Damage, Misuse};
#[cfg(feature = "slab-debug")]
pub use rules::{DebugRules, DebugRulesError};
pub use track::{Site, Track};

/// What a cache looks for; nothing by default, and then it costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DebugOptions {
    /// Every freed pointer is an object of the cache, and out (`F`).
    pub sanity: bool,
    /// Nothing is written before an object's begin or behind its end (`Z`).
    pub red_zone: bool,
    /// Nothing is written to a free object, and fresh objects are full of `5a` (`P`). Not in caches with a constructor,
    /// whose free objects keep their contents.
    pub poison: bool,
    /// The call sites of the last allocation and the last free are kept for the reports (`U`).
    pub store_user: bool,
    /// What happens when a misuse is found.
    pub on_misuse: OnMisuse,
}

impl DebugOptions {
    /// All checks, and the process ends at the first misuse.
    pub const ALL: DebugOptions = DebugOptions {
        sanity: true,
        red_zone: true,
        poison: true,
        store_user: true,
        on_misuse: OnMisuse::Abort,
    };

    /// Whether any option is chosen.
    pub fn any(&self) -> bool {
        self.sanity || self.red_zone || self.poison || self.store_user
    }
}
