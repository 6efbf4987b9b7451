//! The use of a working set.

/// One use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The object that was just allocated is freed: no slab's word is changed.
    Warm,
    /// The oldest of a few is freed: the words are changed and hot.
    Hot,
    /// The oldest of many is freed, in a random order over the slabs. No object is written.
    Cold,
    /// The same, but every object is written when it is allocated.
    ColdWrite,
    /// As `ColdWrite`, but in the order of allocation: only the first object of a slab finds its descriptor cold.
    InTurn,
    /// All are freed, then all are allocated.
    All,
}

impl Use {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Hot => "hot",
            Self::Cold => "cold",
            Self::ColdWrite => "cold+write",
            Self::InTurn => "cold+write in turn",
            Self::All => "all-alloc/all-free",
        }
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::ColdWrite | Self::InTurn)
    }

    /// Returns the order in which cold objects are freed.
    pub(super) fn order(self) -> Option<&'static str> {
        match self {
            Self::Cold | Self::ColdWrite => Some("random"),
            Self::InTurn => Some("in turn"),
            Self::Warm | Self::Hot | Self::All => None,
        }
    }
}
