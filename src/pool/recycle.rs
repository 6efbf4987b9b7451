//! What becomes of a page whose frames have all come home.

/// What becomes of a page whose frames have all come home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recycle {
    /// It stays in the pool, mapped for the device, and its frames are given out again.
    #[default]
    Pool,
    /// It is unmapped and goes back to the page stage, and each allocation that needs one takes and maps a new one: what
    /// there is without a page pool.
    Never,
}
