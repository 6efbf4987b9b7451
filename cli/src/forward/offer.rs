//! What the built-in generator sends.

/// What the generator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Workers that have a generator, the first ones.
    pub generators: usize,
    /// Flows of each, round robin.
    pub flows: usize,
    /// Bytes of a frame.
    pub size: usize,
    /// How many packets; None as many as there is time for.
    pub packets: Option<u64>,
    /// Whether a packet that finds no place is tried again.
    pub pause: bool,
}
