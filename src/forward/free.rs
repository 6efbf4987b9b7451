//! How frames are freed.

use crate::pool::Batch;
use crate::sync::Worker;

/// How sent and dropped frames are freed: use `Bulk`; the other values are for measurements ([brouer15-bulk]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Free {
    /// A batch in one call.
    #[default]
    Bulk,
    /// One call for each frame.
    Single,
}

impl Free {
    /// Frees the frames of a batch.
    #[inline(always)]
    pub(super) fn batch(self, batch: &mut Batch, w: &mut Worker) {
        match self {
            Free::Bulk => batch.free(w),
            Free::Single => batch.drain().for_each(|frame| frame.free(w)),
        }
    }
}
