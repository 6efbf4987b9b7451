//! Debug of one cache, with the cargo feature `slab-debug`, chosen when it is made: misuse of its objects is found and reported with the call sites.
//!
//! A cache with debug lays its objects out like this (a cache without has only the objects):
//!
//! ```text
//!   ◄──────────────────────────────────── stride ─────────────────────────────────────►
//!  ┌──────────────┬──────────────────────┬───────────────┬──────┬──────┬───────┬───────┐
//!  │ left red zone│ object               │ right red zone│ link │ mark │ alloc │ free  │ next slot …
//!  │ bb / cc      │ 6b free, 5a fresh    │ bb / cc       │  8   │  8   │ site 8│ site 8│
//!  └──────────────┴──────────────────────┴───────────────┴──────┴──────┴───────┴───────┘
//!                 ▲ what the holder sees, aligned
//! ```
//! - **red zones** hold `bb` while the object is free and `cc` while it is out; a byte that differs when the
//!   object comes back was written past one of the object's ends.
//! - **poison**: a free object is full of `6b`; a byte that differs when it goes out next was written by a former
//!   holder. A fresh one is full of `5a`, so that who reads what he has not written sees so.
//! - **link** is the word of the freelist, mixed with a secret; it stands outside so that poison covers all of
//!   the object.
//! - **mark** says free, out, or on its way, and counts the changes: a second free finds it free, also when
//!   others came between, also twice in one bulk, and of two threads at once only one finds it out.
//! - **sites**: the calls that took and gave back the object last, and their threads.
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
//! 256-byte object of alignment 64. In time each costs what it fills and compares: about a pass over the object
//! for each allocation and each free.
//!
//! On misuse the process prints one report and aborts, or the call fails with [`Misuse`], which is the same
//! report as data, and nothing has changed. Where no call can fail (damage to a free object, found when it goes out
//! next; an [`Object`](super::Object) that comes back) it is kept for [`Cache::found`](super::Cache::found), and the
//! object is mended.
//!
//! A cache without debug pays nothing for this: one with debug has sheaves of no room, so that all its calls fall into
//! the cold path, and only there is looked whether there is a checker.

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
pub(super) use locate::Home;
pub use misuse::{Damage, Misuse};
#[cfg(feature = "slab-debug")]
pub use rules::{DebugRules, DebugRulesError};
pub use track::{Site, Track};

/// What a cache looks for; nothing by default, and then it costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DebugOptions {
    /// Every pointer that comes back is an object of the cache, and out (`F`).
    pub sanity: bool,
    /// Nothing is written before an object's begin or behind its end (`Z`).
    pub red_zone: bool,
    /// Nothing is written to a free object, and fresh ones are full of `5a` (`P`). Left out in caches with a
    /// constructor, whose free objects keep their contents.
    pub poison: bool,
    /// The call sites of the last allocation and the last free are kept for the reports (`U`).
    pub store_user: bool,
    /// What happens when a misuse is found.
    pub on_misuse: OnMisuse,
}

impl DebugOptions {
    /// Everything, and the process ends at the first misuse.
    pub const ALL: DebugOptions = DebugOptions {
        sanity: true,
        red_zone: true,
        poison: true,
        store_user: true,
        on_misuse: OnMisuse::Abort,
    };

    /// Whether anything is chosen.
    pub fn any(&self) -> bool {
        self.sanity || self.red_zone || self.poison || self.store_user
    }
}
