//! Why a forwarder could not be made.

/// Why a forwarder could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// Frames need a port to leave by.
    #[error("{0} ports: give two or more, at most 255")]
    Ports(usize),
    /// The decision cannot be made for these ports.
    #[error("{0}")]
    Decision(Box<dyn std::error::Error + Send + Sync>),
}
