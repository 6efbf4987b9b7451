//! Why a forwarder could not be made.

/// Why a forwarder could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No port, or more ports than the maximum.
    #[error("a forwarder of {0} ports: give 1 to 255")]
    Ports(usize),
    /// The decision does not support these ports.
    #[error("{0}")]
    Decision(Box<dyn std::error::Error + Send + Sync>),
}
