//! A counted handle: the last clone to go closes what it leads to.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};

/// What handles lead to. What is outside may keep it alive (a strong count) after the last handle went.
pub(crate) trait Close {
    /// Handles there are; only [`Handle`] changes it.
    fn handles(&self) -> &AtomicUsize;

    /// The last handle is gone. Called once.
    fn close(self: &Arc<Self>);
}

/// A handle to `S`: one pointer, so that a hot call through it costs one load.
#[derive(Debug)]
pub(crate) struct Handle<S: Close> {
    shared: Arc<S>,
}

impl<S: Close> Handle<S> {
    /// One handle more.
    pub(crate) fn new(shared: &Arc<S>) -> Self {
        // Relaxed: a new handle comes from one that is there, or is the first.
        shared.handles().fetch_add(1, Relaxed);
        Handle { shared: Arc::clone(shared) }
    }

    /// One handle more, unless the last one went already.
    pub(crate) fn another(shared: &Arc<S>) -> Option<Self> {
        // Relaxed: as in `new`.
        let more = |handles: usize| handles.checked_add(1).filter(|_| handles > 0);
        shared.handles().fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Handle { shared: Arc::clone(shared) })
    }

    /// Handles beside this one, at this moment.
    pub(crate) fn others(&self) -> usize {
        self.shared.handles().load(Relaxed).saturating_sub(1)
    }
}

impl<S: Close> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Handle::new(&self.shared)
    }
}

impl<S: Close> Deref for Handle<S> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S: Close> Drop for Handle<S> {
    #[cold]
    fn drop(&mut self) {
        // AcqRel: pairs with itself on other handles, so that the one who closes sees what all of them did.
        if self.shared.handles().fetch_sub(1, AcqRel) == 1 {
            self.shared.close();
        }
    }
}
