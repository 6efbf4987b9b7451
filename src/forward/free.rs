//! How frames are freed.

/// How sent and dropped frames are freed: for measurements, `Bulk` is what one wants ([brouer15-bulk]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Free {
    /// A batch at once.
    #[default]
    Bulk,
    /// One call for each frame.
    Single,
}
