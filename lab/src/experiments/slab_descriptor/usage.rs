//! The use of a working set.

/// One way to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The object just allocated goes back: no slab's word is reached.
    Warm,
    /// The oldest of a few goes back: the words are reached and hot.
    Hot,
    /// The oldest of many goes back, in a random order over the slabs; no object is written.
    Cold,
    /// The same; every object is written when it is allocated.
    ColdWrite,
    /// As `ColdWrite`, but in the order of allocation: of a slab's objects only the first finds its descriptor cold.
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

    /// In which order cold objects go back.
    pub(super) fn order(self) -> Option<&'static str> {
        match self {
            Self::Cold | Self::ColdWrite => Some("random"),
            Self::InTurn => Some("in turn"),
            Self::Warm | Self::Hot | Self::All => None,
        }
    }
}
