//! Runs a constructor on each object of a new slab, and a destructor before the slab is given back.

use super::check::Checker;
use crate::sync::Steps;
use std::ptr::NonNull;

/// The functions that construct an object of a new slab, and that drop it before the slab is given back.
pub(super) struct Constructor {
    pub(super) make: Box<dyn Fn(NonNull<u8>) + Send + Sync>,
    pub(super) end: unsafe fn(NonNull<u8>),
}

/// Objects of a new slab that were constructed. They are dropped if the constructor panics.
struct Made<'a> {
    constructor: Option<&'a Constructor>,
    objects: Vec<NonNull<u8>>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if let Some(constructor) = self.constructor {
            let mut steps = Steps::new();
            for at in self.objects.drain(..) {
                // SAFETY: made a moment ago, and no other code has it.
                steps.run(|| unsafe { (constructor.end)(at) });
            }
            steps.end();
        }
    }
}

impl std::fmt::Debug for Constructor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Constructor")
    }
}

/// Prepares the objects of a new slab, before any is on a list: for debug, and with the constructor.
pub(super) fn prepare(
    constructor: Option<&Constructor>,
    checker: Option<&Checker>,
    objects: impl Iterator<Item = NonNull<u8>>,
) {
    let mut made = Made { constructor, objects: Vec::new() };
    for at in objects {
        if let Some(checker) = checker {
            // SAFETY: an object of a slab that the checker laid out, and on no list yet.
            unsafe { checker.init(at) }
        }
        if let Some(constructor) = made.constructor {
            (constructor.make)(at);
            made.objects.push(at);
        }
    }
    made.constructor = None;
}
