//! The packets of the built-in generator.

/// The packets to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Number of workers with a generator, from the first on.
    pub generators: usize,
    /// Number of flows of each generator, round robin.
    pub flows: usize,
    /// Bytes of a frame.
    pub size: usize,
    /// Number of packets, or None for as many as there is time for.
    pub packets: Option<u64>,
    /// True if a refused packet is tried again.
    pub pause: bool,
}
