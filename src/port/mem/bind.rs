//! COLD: makes both ends of the link.

use super::end::LinkEnd;
use super::{MemDevice, MemPort};
use crate::port::PortCounters;
use crate::port::posted::Descriptors;
use crate::ring::loan;
use crate::sync::Doorbell;
use std::sync::Arc;

/// Maximum number of descriptors in a ring: with 2 KiB for each frame, 2 GiB of them are posted.
const RING_MAX: usize = 1 << 20;

/// The settings of a link; by default rings have 512 slots, and frames are completed in batches of 32.
#[derive(Debug, Clone)]
pub struct MemConfig {
    /// Descriptors in each of the two rings, a power of two: 2 to 2^20. Default 512.
    pub ring: usize,
    /// Number of sent frames that the device gathers before it completes them. It completes fewer only if it has
    /// nothing to send. Default 32.
    pub coalesce: usize,
}

impl Default for MemConfig {
    fn default() -> Self {
        MemConfig { ring: 512, coalesce: 32 }
    }
}

/// The reason why a link could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemError {
    /// The ring size is not a power of two or is out of range.
    #[error("mem ring of {0} slots: give a power of two from 2 to {RING_MAX}")]
    Ring(usize),
    /// The number of completions to gather is out of range.
    #[error("{0} completions gathered: give 1 to half the ring")]
    Coalesce(usize),
    /// The system has no event descriptor to wake a worker with.
    #[error("event of a mem port: {0}: raise the limit of open files (ulimit -n)")]
    Event(String),
}

impl MemPort {
    /// Makes a link: the port for a dataplane, and the device at its other end.
    ///
    /// # Errors
    /// Returns [`MemError`] if a number is out of range, or if the process is out of descriptors.
    #[cold]
    pub fn pair(name: &str, config: &MemConfig) -> Result<(MemPort, MemDevice), MemError> {
        if !config.ring.is_power_of_two() || !(2..=RING_MAX).contains(&config.ring) {
            return Err(MemError::Ring(config.ring));
        }
        if !(1..=config.ring / 2).contains(&config.coalesce) {
            return Err(MemError::Coalesce(config.coalesce));
        }
        let ((rx, filling), (tx, sending)) = (loan(config.ring as u32, 0), loan(config.ring as u32, 0));
        let counters = Arc::new(PortCounters::default());
        let bell = Arc::new(Doorbell::new().map_err(|error| MemError::Event(error.to_string()))?);
        let end = Arc::new(LinkEnd::new());
        let port = MemPort {
            name: format!("mem:{name}"),
            rx: Descriptors::new(rx),
            tx: Descriptors::new(tx),
            bell: Arc::clone(&bell),
            counters: Arc::clone(&counters),
            end: Arc::clone(&end),
            is_end_reported: false,
        };
        let device = MemDevice::new((filling, sending), config.coalesce, bell, counters, end);
        Ok((port, device))
    }
}
