//! A counted handle: the drop of the last clone closes the object behind it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// The object behind handles. Code outside may keep it alive with a strong count after the last handle is gone.
pub(crate) trait Close {
    /// The number of handles. Only [`Handle`] changes it.
    fn handles(&self) -> &AtomicUsize;

    /// Closes the object when the last handle is gone. Called once.
    fn close(self: &Arc<Self>);
}

/// A handle to `S`: one pointer, so that a hot call through it costs one load.
#[derive(Debug)]
pub(crate) struct Handle<S: Close> {
    shared: Arc<S>,
}

impl<S: Close> Handle<S> {
    /// Makes one more handle.
    pub(crate) fn new(shared: &Arc<S>) -> Self {
        // Relaxed: a new handle is made from an existing handle, or is the first.
        shared.handles().fetch_add(1, Relaxed);
        Handle { shared: Arc::clone(shared) }
    }

    /// Makes one more handle, or returns None if the last handle is already gone.
    pub(crate) fn another(shared: &Arc<S>) -> Option<Self> {
        // Relaxed: as in `new`.
        let more = |handles: usize| handles.checked_add(1).filter(|_| handles > 0);
        shared.handles().fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Handle { shared: Arc::clone(shared) })
    }

    /// The number of other handles at this moment.
    pub(crate) fn others(&self) -> usize {
        // Acquire: pairs with the Release in `drop`, so that the last handle's thread sees everything that was done by the
        // others.
        self.shared.handles().load(Acquire).saturating_sub(1)
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
        // AcqRel: pairs with itself on other handles, so that the thread that closes sees everything that the others
        // did.
        if self.shared.handles().fetch_sub(1, AcqRel) == 1 {
            self.shared.close();
        }
    }
}
