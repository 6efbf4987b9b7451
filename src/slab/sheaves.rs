//! HOT: takes objects from a worker's sheaves, and puts them there.

use super::debug::Site;
use super::grow;
use super::reference::{Ref, Sheaf};
use super::shared::Shared;
use crate::sync::Worker;

impl Shared {
    /// Takes the next object.
    #[inline(always)]
    #[track_caller]
    pub(super) fn take(&self, w: &mut Worker) -> Option<Ref> {
        // No closure here: `#[track_caller]` would name the closure as the caller.
        match self.take_hot(w) {
            None => grow::alloc(self, w, Site::caller()),
            hit => hit,
        }
    }

    /// Takes the next object of the main sheaf, if it has one.
    #[inline(always)]
    pub(super) fn take_hot(&self, w: &mut Worker) -> Option<Ref> {
        let mut local = self.locals.enter(w)?;
        let object = local.main.pop()?;
        local.tally.take(1);
        Some(object)
    }

    /// Keeps a free object.
    #[inline(always)]
    #[track_caller]
    pub(super) fn give(&self, w: &mut Worker, object: Ref) {
        if !self.keep_hot(w, object) {
            grow::free(self, w, object, Site::caller());
        }
    }

    /// Keeps a free object, if the main sheaf has room.
    #[inline(always)]
    pub(super) fn keep_hot(&self, w: &mut Worker, object: Ref) -> bool {
        self.locals.enter(w).is_some_and(|mut local| local.main.push(object).is_ok())
    }

    /// Keeps free objects, which `object` makes from `from`, as long as the sheaves have room. Returns how many.
    #[inline(always)]
    pub(super) fn keep_hot_bulk<S>(&self, w: &mut Worker, from: &[S], object: impl Fn(&S) -> Ref) -> usize {
        let Some(mut local) = self.locals.enter(w) else { return 0 };
        let kept = local.main.extend(from, &object);
        if kept == from.len() { kept } else { kept + local.spare.extend(&from[kept..], object) }
    }

    /// Takes `n` objects, or fewer if there are no more, and gives them to `take` a slice at a time.
    #[inline]
    #[track_caller]
    pub(super) fn take_bulk(&self, w: &mut Worker, n: usize, mut take: impl FnMut(&[Ref])) -> usize {
        let mut got = 0;
        loop {
            if let Some(mut local) = self.locals.enter(w) {
                let (local, before) = (&mut *local, got);
                got += pop_slice(&mut local.main, n - got, &mut take);
                // A burst as large as both sheaves is taken in one visit.
                if got < n {
                    got += pop_slice(&mut local.spare, n - got, &mut take);
                }
                local.tally.take(got - before);
            }
            if got == n {
                return n;
            }
            let Some(object) = grow::alloc(self, w, Site::caller()) else { return got };
            take(&[object]);
            got += 1;
        }
    }

    /// Keeps free objects.
    #[inline]
    #[track_caller]
    pub(super) fn give_bulk(&self, w: &mut Worker, objects: &mut [Ref]) {
        let kept = self.keep_hot_bulk(w, objects, |&object| object);
        if kept < objects.len() {
            grow::free_bulk(self, w, &mut objects[kept..], Site::caller());
        }
    }
}

/// Takes up to `n` objects out of a sheaf and gives them to `take`. Returns how many.
#[inline(always)]
fn pop_slice(sheaf: &mut Sheaf, n: usize, take: &mut impl FnMut(&[Ref])) -> usize {
    let objects = sheaf.pop_slice(n);
    let got = objects.len();
    take(objects);
    got
}
